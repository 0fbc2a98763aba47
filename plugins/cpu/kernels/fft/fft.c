/* fft.c - FFT, IFFT, RFFT, IRFFT in one, two and three dimensions, and BatchFFT*, BatchIFFT*.
 *
 *     X(k) = sum over n of x(n) exp(-2 pi i k n / N)        the inverse divides by N
 *
 * The innermost dimensions are transformed, one axis after the other.  Transforms of real numbers
 * keep the first N/2 + 1 frequencies of the last axis; of even length they are complex ones of half
 * the length.  Lines are transformed side by side, one in each lane of a vector; what one of them
 * holds, NaN or far larger numbers, never shows in another.
 *
 * Invariants: lengths come from shapes of existing tensors, so no product overflows; what a
 * transform of length fft_length does not need of its input is not read.
 * Threads: parallel_for over lines; each line is transformed by one thread, in a fixed order.
 */
#include "base/common.h"
#include "base/isa.h"
#include "gemm/tile_types.h"
#include "move/transpose.h"

/* WIDE_NUMBERS: longer lines leave no cache for as many as a vector has lanes. */
enum { MOST_PRIME = 31, WIDE_NUMBERS = 8192 };
/* line i of an array cropped at its inner dimensions; strides are in numbers */
typedef struct {
  int32_t nd;
  int64_t dims[PF_MAX_DIMS], stride[PF_MAX_DIMS];
} corner;
static int64_t start_of(const corner *a, int64_t i) {
  int64_t at = 0;
  for (int32_t d = a->nd - 1; d >= 0; d--) at += i % a->dims[d] * a->stride[d], i /= a->dims[d];
  return at;
}

/* Numbers at even places of two vectors' worth, at odd places, and back. */
#define APART(tag, REAL, V, VL, LOAD, STORE) \
  PF_INLINE V PF_CAT(tag, evens)(const REAL *p) { \
    REAL v[VL]; \
    for (int i = 0; i < VL; i++) v[i] = p[2 * i]; \
    return LOAD(v); \
  } \
  PF_INLINE V PF_CAT(tag, odds)(const REAL *p) { \
    REAL v[VL]; \
    for (int i = 0; i < VL; i++) v[i] = p[2 * i + 1]; \
    return LOAD(v); \
  } \
  PF_INLINE void PF_CAT(tag, zip)(REAL *p, V a, V b) { \
    REAL x[VL], y[VL]; \
    STORE(x, a); \
    STORE(y, b); \
    for (int i = 0; i < VL; i++) p[2 * i] = x[i], p[2 * i + 1] = y[i]; \
  }
#if defined(__AVX512F__)
PF_INLINE pf_vf fft32_evens(const float *p) {
  const __m512i at = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  return _mm512_permutex2var_ps(_mm512_loadu_ps(p), at, _mm512_loadu_ps(p + 16));
}
PF_INLINE pf_vf fft32_odds(const float *p) {
  const __m512i at = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  return _mm512_permutex2var_ps(_mm512_loadu_ps(p), at, _mm512_loadu_ps(p + 16));
}
PF_INLINE void fft32_zip(float *p, pf_vf a, pf_vf b) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0),
                high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  _mm512_storeu_ps(p, _mm512_permutex2var_ps(a, low, b));
  _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps(a, high, b));
}
#else
APART(fft32, float, pf_vf, PF_VF, pf_vf_load, pf_vf_store)
#endif
APART(fft64, double, pf_vd, PF_VD, pf_vd_load, pf_vd_store)
#undef APART

#define TILE_F32
#include "gemm/tile_begin.h"
#define REAL float
#define FFT(name) PF_CAT(fft32, name)
#include "fft/fft_body.h"
#undef REAL
#undef FFT
#include "gemm/tile_end.h"
#define TILE_F64
#include "gemm/tile_begin.h"
#define REAL double
#define FFT(name) PF_CAT(fft64, name)
#include "fft/fft_body.h"
#undef REAL
#undef FFT
#include "gemm/tile_end.h"

/* ---------------------------------------------------------------- complex to complex */
static pf_status along(pf_ctx *c, int wide, void *data, const int64_t *dims, int32_t nd,
                       int32_t axis, int inverse) {
  return wide ? fft64_along(c, data, dims, nd, axis, inverse)
              : fft32_along(c, data, dims, nd, axis, inverse);
}
static pf_status complex_fft(pf_ctx *c, int32_t rank, int inverse) {
  const DLTensor *x = c->in[0];
  int wide = c->in_type[0] == PF_COMPLEX128;
  PF_TRY(pf_check_rank(c, x, "input"));
  if (x->ndim < rank)
    return PF_INVALID(c, "Input must have rank of at least %d but got: %s", rank, PF_SHAPE(x).s);
  DLTensor *y = c->host->forward(c, 0, 0, x->shape, x->ndim);
  PF_EXHAUSTED(y);
  if (PF_DATA(void, y) != PF_DATA(void, x))
    memcpy(PF_DATA(void, y), PF_DATA(void, x), (size_t)(pf_numel(x) * (wide ? 16 : 8)));
  for (int32_t a = x->ndim - 1; a >= x->ndim - rank; a--)
    PF_TRY(along(c, wide, PF_DATA(void, y), x->shape, x->ndim, a, inverse));
  return PF_OK;
}

/* ---------------------------------------------------------------- real */
typedef struct {
  int32_t rank, nd, wide;
  int64_t length[3], shape[PF_MAX_DIMS]; /* fft_length; what is needed of the input */
} real_shape;

static pf_status real_shape_of(pf_ctx *c, int32_t rank, int inverse, real_shape *s) {
  const DLTensor *x = c->in[0], *t = c->in[1];
  PF_TRY(pf_check_rank(c, x, "input"));
  if (x->ndim < rank)
    return PF_INVALID(c, "Input must have rank of at least %d but got: %s", rank, PF_SHAPE(x).s);
  if (t->ndim != 1 || t->shape[0] != rank)
    return PF_INVALID(c, "fft_length must have shape [%d], got %s", rank, PF_SHAPE(t).s);
  int32_t real = inverse ? c->out_type[0] : c->in_type[0];
  int32_t complex_ = inverse ? c->in_type[0] : c->out_type[0];
  s->wide = real == PF_FLOAT64;
  if (s->wide != (complex_ == PF_COMPLEX128))
    return PF_INVALID(c, "%s and %s do not belong together", pf_type_name(real),
                      pf_type_name(complex_));
  s->rank = rank, s->nd = x->ndim;
  memcpy(s->shape, x->shape, (size_t)x->ndim * 8);
  for (int32_t i = 0; i < rank; i++) {
    int32_t d = x->ndim - rank + i;
    int64_t n = s->length[i] = PF_DATA(const int32_t, t)[i];
    if (n < 0) return PF_INVALID(c, "fft_length[%d] must be >= 0, but got: %" PRId64, i, n);
    if (inverse && i == rank - 1) n = n ? n / 2 + 1 : 0;
    if (x->shape[d] < n && pf_numel(x) != 0)
      return PF_INVALID(
          c, "Input dimension %d must have length of at least %" PRId64 " but got: %" PRId64, d, n,
          x->shape[d]);
    s->shape[d] = n;
  }
  return PF_OK;
}
/* lines of the part of the input that is needed */
static void corner_of(const DLTensor *x, const real_shape *s, corner *out) {
  int64_t stride[PF_MAX_DIMS];
  pf_row_major(x->shape, x->ndim, stride);
  out->nd = s->nd - 1;
  for (int32_t d = 0; d < s->nd - 1; d++) out->dims[d] = s->shape[d], out->stride[d] = stride[d];
}

static pf_status rfft(pf_ctx *c, int32_t rank) {
  const DLTensor *x = c->in[0];
  real_shape s;
  corner from;
  int64_t shape[PF_MAX_DIMS];
  PF_TRY(real_shape_of(c, rank, 0, &s));
  memcpy(shape, s.shape, (size_t)s.nd * 8);
  int64_t n = s.length[rank - 1];
  shape[s.nd - 1] = n ? n / 2 + 1 : 0;
  DLTensor *y = pf_output_checked(c, 0, shape, s.nd);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  if (pf_numel(x) == 0) {
    memset(PF_DATA(void, y), 0, (size_t)pf_numel(y) * (s.wide ? 16 : 8));
    return PF_OK;
  }
  corner_of(x, &s, &from);
  int64_t lines = pf_product(s.shape, 0, s.nd - 1);
  void *out = PF_DATA(void, y);
  PF_TRY(s.wide ? fft64_real(c, &from, PF_DATA(void, x), out, n, lines, 0)
                : fft32_real(c, &from, PF_DATA(void, x), out, n, lines, 0));
  for (int32_t a = s.nd - 2; a >= s.nd - rank; a--)
    PF_TRY(along(c, s.wide, out, shape, s.nd, a, 0));
  return PF_OK;
}

static pf_status irfft(pf_ctx *c, int32_t rank) {
  const DLTensor *x = c->in[0];
  real_shape s;
  corner from;
  int64_t shape[PF_MAX_DIMS];
  PF_TRY(real_shape_of(c, rank, 1, &s));
  memcpy(shape, s.shape, (size_t)s.nd * 8);
  int64_t n = shape[s.nd - 1] = s.length[rank - 1], half = s.shape[s.nd - 1];
  DLTensor *y = pf_output_checked(c, 0, shape, s.nd);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  if (pf_numel(x) == 0) {
    memset(PF_DATA(void, y), 0, (size_t)pf_numel(y) * (s.wide ? 8 : 4));
    return PF_OK;
  }
  corner_of(x, &s, &from);
  int64_t lines = pf_product(s.shape, 0, s.nd - 1), size = s.wide ? 16 : 8;
  char *work = c->host->scratch(c, (uint64_t)(lines * half * size), 64);
  if (!work) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a Fourier transform");
  for (int64_t i = 0; i < lines; i++)
    memcpy(work + i * half * size, PF_DATA(const char, x) + start_of(&from, i) * size,
           (size_t)(half * size));
  for (int32_t a = s.nd - rank; a < s.nd - 1; a++)
    PF_TRY(along(c, s.wide, work, s.shape, s.nd, a, 1));
  return s.wide ? fft64_real(c, NULL, work, PF_DATA(void, y), n, lines, 1)
                : fft32_real(c, NULL, work, PF_DATA(void, y), n, lines, 1);
}

#define EACH_RANK(X) X(1) X(2) X(3)
#define FUNCTIONS(RANK) \
  static pf_status fft_##RANK(pf_ctx *c, const void *s) { return complex_fft(c, RANK, 0); } \
  static pf_status ifft_##RANK(pf_ctx *c, const void *s) { return complex_fft(c, RANK, 1); } \
  static pf_status rfft_##RANK(pf_ctx *c, const void *s) { return rfft(c, RANK); } \
  static pf_status irfft_##RANK(pf_ctx *c, const void *s) { return irfft(c, RANK); }
EACH_RANK(FUNCTIONS)

#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#define ENTRIES(RANK, TEXT) \
  PF_CPU_FLAGS("FFT" TEXT, "Tcomplex=" PF_COMPLEX, FLAGS, .compute = fft_##RANK), \
  PF_CPU_FLAGS("IFFT" TEXT, "Tcomplex=" PF_COMPLEX, FLAGS, .compute = ifft_##RANK), \
  PF_CPU_FLAGS("BatchFFT" TEXT, NULL, FLAGS, .compute = fft_##RANK), \
  PF_CPU_FLAGS("BatchIFFT" TEXT, NULL, FLAGS, .compute = ifft_##RANK), \
  PF_CPU_FLAGS("RFFT" TEXT, "Treal=float|double, Tcomplex=" PF_COMPLEX, FLAGS, \
               .compute = rfft_##RANK), \
  PF_CPU_FLAGS("IRFFT" TEXT, "Treal=float|double, Tcomplex=" PF_COMPLEX, FLAGS, \
               .compute = irfft_##RANK)
const pf_kernel *const PF_ISA_NAME(fft_kernels)[] = {ENTRIES(1, ""), ENTRIES(2, "2D"),
                                                     ENTRIES(3, "3D"), NULL};
