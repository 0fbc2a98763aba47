/* pool_forward.c - maxima and averages over windows (pool.h), for every element type and
 * instruction set.
 *
 * Invariants
 *   1. A row of results is one task: its sums have one order, whatever the cut.
 *   2. Halves are averaged as float and rounded once.  Their maxima are found among 16-bit
 *      integers in the order of the numbers, where a NaN is the largest.
 * Threads: parallel_for over rows; each worker has a buffer of its own.
 */
#include "base/machine.h"
#include "pool/pool.h"
#include "vec/vfloat.h"
#include "move/transpose.h"

/* a buffer beside the rows that are read, in 32 KB of L1 */
enum {
  BUFFER_BYTES = PF_L1_BYTES * 3 / 8,
  FLAT_BYTES = PF_L1_BYTES * 3 / 16,
  STRETCH = 32,
  FLAT_COLUMNS = 64
};
typedef struct {
  int64_t planes, rows, cols, plane_step, row_step, col_step;
  double count;
} box;
/* Rows of few channels: `block` of them, `pitch` elements apart, then (byte `tile`) their results.
 * A vector has `each` results, which begin at the columns `at`, those of the next `step` on. */
enum { LANES = 32 };
typedef struct {
  int64_t block, pitch, each, step, tile;
  const void *counts; /* columns of each window, as B; NULL for maxima */
  int32_t at[LANES];
} flat;
typedef struct {
  const pf_pool *p;
  const void *x;
  void *y;
  char *buffers;
  uint64_t buffer_bytes;
  int64_t chunk; /* results of a stretch; 0: windows directly */
  pf_span inside, inside_rows;
  flat flat;
  const uint32_t *ends;
  const void *zeros;            /* a row */
  int32_t whole, rolls, stream; /* rolls: rows at once */
  int32_t planes;               /* images, not rows, are what threads share */
} job;
#include "pool/pool_planes.h"

#define PF_UNROLL _Pragma("GCC unroll 8")
#define EACH(u) _Pragma("GCC unroll 4") for (int i = 0; i < (u); i++)
#if defined(__AVX512F__)
#define STREAM_FENCE() _mm_sfence()
#define STREAM_32(p, v) _mm512_stream_ps(p, v)
#define STREAM_64(p, v) _mm512_stream_pd(p, v)
#define STREAM_16(p, v) _mm512_stream_si512((__m512i *)(void *)(p), v)
/* TRIPLE: rows of windows of stride 1 at once; PAIRED: vectors of columns that fit registers */
enum { STREAM_HALVES = 1, PAIRED = 4, TRIPLE = 3 };
#elif defined(__AVX2__)
#define STREAM_FENCE() _mm_sfence()
#define STREAM_32(p, v) _mm256_stream_ps(p, v)
#define STREAM_64(p, v) _mm256_stream_pd(p, v)
#define STREAM_16(p, v) _mm256_stream_si256((__m256i *)(void *)(p), v)
enum { STREAM_HALVES = 0, PAIRED = 2, TRIPLE = 2 };
#else
#define STREAM_FENCE() (void)0
#define STREAM_32 pf_vf_store
#define STREAM_64 pf_vd_store
#define STREAM_16 store_16
enum { STREAM_HALVES = 0, PAIRED = 2, TRIPLE = 2 };
#endif

#if defined(__SSE2__)
#define PREFETCH(p) _mm_prefetch(p, _MM_HINT_T1)
#else
#define PREFETCH(p) (void)(p)
#endif
#define EACH_LINE(bytes) for (int64_t i = 0; i < (bytes); i += 64)

/* ---------------------------------------------------------------- maxima; a NaN stays */
#if defined(__AVX512F__)
PF_INLINE pf_vf max_vf(pf_vf a, pf_vf v) { /* the instruction gives v where one is a NaN */
  return _mm512_mask_mov_ps(_mm512_max_ps(a, v), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}
PF_INLINE pf_vd max_vd(pf_vd a, pf_vd v) {
  return _mm512_mask_mov_pd(_mm512_max_pd(a, v), _mm512_cmp_pd_mask(a, a, _CMP_UNORD_Q), a);
}
#elif defined(__AVX2__)
PF_INLINE pf_vf max_vf(pf_vf a, pf_vf v) {
  return _mm256_blendv_ps(_mm256_max_ps(a, v), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}
PF_INLINE pf_vd max_vd(pf_vd a, pf_vd v) {
  return _mm256_blendv_pd(_mm256_max_pd(a, v), a, _mm256_cmp_pd(a, a, _CMP_UNORD_Q));
}
#else
typedef int32_t lanes_f __attribute__((vector_size(16)));
typedef int64_t lanes_d __attribute__((vector_size(16)));
PF_INLINE pf_vf max_vf(pf_vf a, pf_vf v) {
  const lanes_f m = (lanes_f)(v > a) | (lanes_f)(v != v);
  return (pf_vf)(((lanes_f)v & m) | ((lanes_f)a & ~m));
}
PF_INLINE pf_vd max_vd(pf_vd a, pf_vd v) {
  const lanes_d m = (lanes_d)(v > a) | (lanes_d)(v != v);
  return (pf_vd)(((lanes_d)v & m) | ((lanes_d)a & ~m));
}
#endif

/* The processor's own maximum loses a NaN; the sum of all elements does not, nor does it become one
 * without a NaN or infinities, which are then looked at again. */
#if defined(__AVX512F__)
#define QUICK_F32 _mm512_max_ps
#define QUICK_F64 _mm512_max_pd
#define UNSURE_F32(t) (_mm512_cmp_ps_mask(t, t, _CMP_UNORD_Q) != 0)
#define UNSURE_F64(t) (_mm512_cmp_pd_mask(t, t, _CMP_UNORD_Q) != 0)
#elif defined(__AVX2__)
#define QUICK_F32 _mm256_max_ps
#define QUICK_F64 _mm256_max_pd
#define UNSURE_F32(t) (_mm256_movemask_ps(_mm256_cmp_ps(t, t, _CMP_UNORD_Q)) != 0)
#define UNSURE_F64(t) (_mm256_movemask_pd(_mm256_cmp_pd(t, t, _CMP_UNORD_Q)) != 0)
#elif defined(__SSE2__)
#define QUICK_F32(a, v) ((pf_vf)_mm_max_ps((__m128)(a), (__m128)(v)))
#define QUICK_F64(a, v) ((pf_vd)_mm_max_pd((__m128d)(a), (__m128d)(v)))
#define UNSURE_F32(t) (_mm_movemask_ps(_mm_cmpunord_ps((__m128)(t), (__m128)(t))) != 0)
#define UNSURE_F64(t) (_mm_movemask_pd(_mm_cmpunord_pd((__m128d)(t), (__m128d)(t))) != 0)
#else
#define QUICK_F32 max_vf
#define QUICK_F64 max_vd
#define UNSURE_F32(t) 0
#define UNSURE_F64(t) 0
#endif

/* ---------------------------------------------------------------- halves as ordered integers */
/* The bits of a negative number count down; those of a NaN, of either sign, become the largest. */
enum { F16_LEAST = (int16_t)(0xfc00 ^ 0x7fff), BF16_LEAST = (int16_t)(0xff80 ^ 0x7fff) };
#if defined(__AVX512BW__)
enum { V16 = 32 };
typedef __m512i v16;
PF_INLINE v16 load_16(const int16_t *p) { return _mm512_loadu_si512(p); }
PF_INLINE void store_16(int16_t *p, v16 v) { _mm512_storeu_si512(p, v); }
PF_INLINE v16 max_16(v16 a, v16 v) { return _mm512_max_epi16(a, v); }
PF_INLINE v16 min_16(v16 a, v16 v) { return _mm512_min_epi16(a, v); }
PF_INLINE v16 turned_16(v16 v) { /* v ^ (0x7fff where v < 0) */
  return _mm512_ternarylogic_epi32(v, _mm512_srai_epi16(v, 15), _mm512_set1_epi16(0x7fff), 0x78);
}
PF_INLINE v16 ordered(v16 v, int16_t least) {
  const v16 s = turned_16(v);
  return _mm512_mask_mov_epi16(s, _mm512_cmplt_epi16_mask(s, _mm512_set1_epi16(least)),
                               _mm512_set1_epi16(0x7fff));
}
#elif defined(__AVX2__)
enum { V16 = 16 };
typedef __m256i v16;
PF_INLINE v16 load_16(const int16_t *p) {
  return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
PF_INLINE void store_16(int16_t *p, v16 v) { _mm256_storeu_si256((__m256i *)(void *)p, v); }
PF_INLINE v16 max_16(v16 a, v16 v) { return _mm256_max_epi16(a, v); }
PF_INLINE v16 min_16(v16 a, v16 v) { return _mm256_min_epi16(a, v); }
PF_INLINE v16 turned_16(v16 v) {
  return _mm256_xor_si256(v, _mm256_srli_epi16(_mm256_srai_epi16(v, 15), 1));
}
PF_INLINE v16 ordered(v16 v, int16_t least) {
  const v16 s = turned_16(v), nan = _mm256_cmpgt_epi16(_mm256_set1_epi16(least), s);
  return _mm256_blendv_epi8(s, _mm256_set1_epi16(0x7fff), nan);
}
#else
enum { V16 = 8 };
typedef int16_t v16 __attribute__((vector_size(16)));
typedef v16 __attribute__((aligned(2), may_alias)) v16_any;
PF_INLINE v16 load_16(const int16_t *p) { return *(const v16_any *)p; }
PF_INLINE void store_16(int16_t *p, v16 v) { *(v16_any *)p = v; }
PF_INLINE v16 max_16(v16 a, v16 v) {
  const v16 m = v > a;
  return (v & m) | (a & ~m);
}
PF_INLINE v16 min_16(v16 a, v16 v) {
  const v16 m = v < a;
  return (v & m) | (a & ~m);
}
PF_INLINE v16 turned_16(v16 v) { return v ^ ((v >> 15) & 0x7fff); }
PF_INLINE v16 ordered(v16 v, int16_t least) {
  const v16 s = turned_16(v), nan = s < least;
  return (s & ~nan) | (nan & 0x7fff);
}
#endif
/* a vector of least elements: lanes below `least` were negative NaNs */
PF_INLINE int any_below(v16 t, int16_t least) {
#if defined(__AVX512BW__)
  return _mm512_cmplt_epi16_mask(t, _mm512_set1_epi16(least)) != 0;
#endif
  int16_t x[V16];
  int any = 0;
  store_16(x, t);
  for (int i = 0; i < V16; i++) any |= x[i] < least;
  return any;
}
PF_INLINE v16 part_16(const int16_t *p, int n) {
  int16_t t[V16] = {0};
  for (int i = 0; i < n && i < V16; i++) t[i] = p[i];
  return load_16(t);
}
PF_INLINE void store_part_16(int16_t *p, v16 v, int n) {
  int16_t t[V16];
  store_16(t, v);
  for (int i = 0; i < n && i < V16; i++) p[i] = t[i];
}
PF_INLINE void store_ordered(int16_t *p, v16 v) { store_16(p, turned_16(v)); }

/* ---------------------------------------------------------------- lanes */
/* Of the elements of two vectors those at `at`. */
#if defined(__AVX512BW__)
PF_INLINE pf_vf pick_f32(const float *p, const int32_t *at) {
  return _mm512_permutex2var_ps(pf_vf_load(p), _mm512_loadu_si512(at), pf_vf_load(p + PF_VF));
}
PF_INLINE pf_vd pick_f64(const double *p, const int32_t *at) {
  const __m512i wide = _mm512_cvtepi32_epi64(_mm256_loadu_si256((const __m256i *)(const void *)at));
  return _mm512_permutex2var_pd(pf_vd_load(p), wide, pf_vd_load(p + PF_VD));
}
PF_INLINE v16 pick_16(const int16_t *p, const int32_t *at) {
  const __m256i low = _mm512_cvtepi32_epi16(_mm512_loadu_si512(at));
  const __m256i high = _mm512_cvtepi32_epi16(_mm512_loadu_si512(at + 16));
  const v16 both = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  return _mm512_permutex2var_epi16(load_16(p), both, load_16(p + V16));
}
#else
#define PICK(name, T, V, N, LOAD) \
PF_INLINE V name(const T *p, const int32_t *at) { \
  T t[N]; \
  for (int i = 0; i < N; i++) t[i] = p[at[i]]; \
  return LOAD(t); \
}
#if defined(__AVX2__) && !defined(__AVX512F__)
PF_INLINE pf_vf pick_f32(const float *p, const int32_t *at) {
  const __m256i i = _mm256_loadu_si256((const __m256i *)(const void *)at);
  const __m256 low = _mm256_permutevar8x32_ps(pf_vf_load(p), i);
  const __m256 high = _mm256_permutevar8x32_ps(pf_vf_load(p + PF_VF), i);
  return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
}
#else
PICK(pick_f32, float, pf_vf, PF_VF, pf_vf_load)
#endif
PICK(pick_f64, double, pf_vd, PF_VD, pf_vd_load)
PICK(pick_16, int16_t, v16, V16, load_16)
#endif
PF_INLINE double largest_f64(pf_vd v) {
  double x[PF_VD], best;
  pf_vd_store(x, v);
  best = x[0];
  for (int i = 1; i < PF_VD; i++) best = x[i] > best ? x[i] : best;
  return best;
}
PF_INLINE int16_t largest_16(v16 v) {
  int16_t x[V16], best = INT16_MIN;
  store_16(x, v);
  for (int i = 0; i < V16; i++) best = x[i] > best ? x[i] : best;
  return best;
}

/* ---------------------------------------------------------------- the kinds */
#define SAME(a, count) (a)
#define SHARE_F32(a, count) ((a) / pf_vf_set((float)(count)))
#define SHARE_F64(a, count) ((a) / pf_vd_set(count))
#define PLUS(a, v) ((a) + (v))
#define KEEP(t, v) (t)
#define SAME_EACH(a, counts, factor) (a)
#define SHARE_EACH_F32(a, counts, factor) ((a) / ((counts) * pf_vf_set((float)(factor))))
#define SHARE_EACH_F64(a, counts, factor) ((a) / ((counts) * pf_vd_set(factor)))
#define SURE(t) 0
#define OVERLAPPING(p, n) E_LOAD((p) + (n) - VL)
#define KIND(f) f##_max_f32
#define ELEMENT_F32
#define JOIN max_vf
#define QUICK QUICK_F32
#define NOTE PLUS
#define UNSURE UNSURE_F32
#define IDENTITY -INFINITY
#define FOLD pf_vf_largest
#define PLANES 0
#include "pool/pool_element.h"
#include "pool/pool_body.h"
#define KIND(f) f##_max_f64
#define ELEMENT_F64
#define JOIN max_vd
#define QUICK QUICK_F64
#define NOTE PLUS
#define UNSURE UNSURE_F64
#define IDENTITY -INFINITY
#define FOLD largest_f64
#include "pool/pool_element.h"
#include "pool/pool_body.h"
#define KIND(f) f##_max_f16
#define ELEMENT_ORDERED F16_LEAST
#define JOIN max_16
#define QUICK max_16
#define NOTE min_16
#define UNSURE(t) any_below(t, F16_LEAST)
#define IDENTITY F16_LEAST
#define FOLD largest_16
#include "pool/pool_element.h"
#include "pool/pool_body.h"
#define KIND(f) f##_max_bf16
#define ELEMENT_ORDERED BF16_LEAST
#define JOIN max_16
#define QUICK max_16
#define NOTE min_16
#define UNSURE(t) any_below(t, BF16_LEAST)
#define IDENTITY BF16_LEAST
#define FOLD largest_16
#include "pool/pool_element.h"
#include "pool/pool_body.h"
#define KIND(f) f##_avg_f32
#define ELEMENT_F32
#define AVERAGE
#define END SHARE_F32
#define END_EACH SHARE_EACH_F32
#define FOLD pf_vf_sum
#define PLANES 1
#include "pool/pool_element.h"
#include "pool/pool_body.h"
#define KIND(f) f##_avg_f64
#define ELEMENT_F64
#define AVERAGE
#define END SHARE_F64
#define END_EACH SHARE_EACH_F64
#define FOLD pf_vd_sum
#include "pool/pool_element.h"
#include "pool/pool_body.h"
#define KIND(f) f##_avg_f16
#define ELEMENT_HALF PF_FLOAT16
#define AVERAGE
#define END SHARE_F32
#define END_EACH SHARE_EACH_F32
#define FOLD pf_vf_sum
#include "pool/pool_element.h"
#include "pool/pool_body.h"
#define KIND(f) f##_avg_bf16
#define ELEMENT_HALF PF_BFLOAT16
#define AVERAGE
#define END SHARE_F32
#define END_EACH SHARE_EACH_F32
#define FOLD pf_vf_sum
#include "pool/pool_element.h"
#include "pool/pool_body.h"

/* Integers: window by window, joined where they are stored. */
#define MAX_INT(num, T, tag) \
static void rows_max_##tag(void *arg, int64_t lo, int64_t hi, int32_t worker) { \
  const job *j = arg; \
  const pf_pool *p = j->p; \
  const int64_t c = p->c, rows = p->out[0] * p->out[1]; \
  (void)worker; \
  for (int64_t i = lo; i < hi; i++) { \
    const pf_span z = pf_pool_window(p, 0, i % rows / p->out[1]), \
                  r = pf_pool_window(p, 1, i % rows % p->out[1]); \
    const T *x = (const T *)j->x + i / rows * pf_pool_volume(p->in) * c; \
    T *y = (T *)j->y + i * p->out[2] * c; \
    for (int64_t o = 0; o < p->out[2]; o++, y += c) { \
      const pf_span w = pf_pool_window(p, 2, o); \
      memcpy(y, x + ((z.lo * p->in[1] + r.lo) * p->in[2] + w.lo) * c, sizeof(T) * (size_t)c); \
      for (int64_t d = z.lo; d < z.hi; d++) \
        for (int64_t h = r.lo; h < r.hi; h++) \
          for (int64_t v = w.lo; v < w.hi; v++) { \
            const T *q = x + ((d * p->in[1] + h) * p->in[2] + v) * c; \
            PF_IVDEP for (int64_t k = 0; k < c; k++) y[k] = q[k] > y[k] ? q[k] : y[k]; \
          } \
    } \
  } \
}
PF_EACH_INT(MAX_INT)

/* ---------------------------------------------------------------- which way, and the run */
typedef struct {
  pf_range rows;
  int32_t size, wide, lanes;
} way;
static way way_of(int32_t type, int max) {
  switch (type) {
#define CASE(num, T, tag) case num: return (way){rows_max_##tag, sizeof(T), 0, 1};
    PF_EACH_INT(CASE)
    case PF_FLOAT32: return (way){max ? rows_max_f32 : rows_avg_f32, 4, 4, PF_VF};
    case PF_FLOAT64: return (way){max ? rows_max_f64 : rows_avg_f64, 8, 8, PF_VD};
    case PF_FLOAT16: return max ? (way){rows_max_f16, 2, 2, V16} : (way){rows_avg_f16, 2, 4, PF_VF};
    default: return max ? (way){rows_max_bf16, 2, 2, V16} : (way){rows_avg_bf16, 2, 4, PF_VF};
  }
}

/* Few channels: buffers for blocks of rows with their margins, and what averages are divided by. */
static pf_status set_flat(pf_ctx *c, job *j, const way *w, int max) {
  const pf_pool *p = j->p;
  const int64_t n = p->out[2] * p->c, s = p->stride[2], columns = PF_MAX(w->lanes / p->c, 1);
  const int64_t all =
      PF_MAX(((p->out[2] - 1) * s + p->k[2]) * p->c, (p->before[2] + p->in[2]) * p->c);
  flat *f = &j->flat;
  f->pitch = (all + 15) / 16 * 16;
  f->block = PF_MIN(PF_MAX(FLAT_BYTES / (f->pitch * w->wide), 1), p->out[1]);
  f->each = columns * p->c, f->step = f->each * s;
  for (int64_t i = 0; i < f->each; i++) f->at[i] = (int32_t)(i / p->c * s * p->c + i % p->c);
  f->tile = ((f->block * f->pitch + (2 + p->k[2]) * LANES) * w->wide + 63) / 64 * 64;
  j->buffer_bytes = (uint64_t)(f->tile + (f->block * n * w->size + 191) / 64 * 64);
  j->buffers = c->host->scratch(c, j->buffer_bytes * (uint64_t)c->host->workers(c), 64);
  void *counts = max ? NULL : c->host->scratch(c, (uint64_t)n * (uint64_t)w->wide + 128, 64);
  if (!j->buffers || (!max && !counts))
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for pooled rows");
  for (int64_t i = 0; i < n && counts; i++) {
    const pf_span span = pf_pool_window(p, 2, i / p->c);
    if (w->wide == 8) ((double *)counts)[i] = (double)(span.hi - span.lo);
    else ((float *)counts)[i] = (float)(span.hi - span.lo);
  }
  f->counts = counts;
  return PF_OK;
}

/* One window covers all of an image. */
static int covers(const pf_pool *p) {
  for (int d = 0; d < 3; d++) {
    const pf_span w = pf_pool_window(p, d, 0);
    if (p->out[d] != 1 || w.lo != 0 || w.hi != p->in[d]) return 0;
  }
  return 1;
}

/* Windows that share columns are joined in a buffer. */
static pf_status set_buffers(pf_ctx *c, job *j, const way *w, int max) {
  const pf_pool *p = j->p;
  const int64_t k = PF_MIN(p->k[2], p->in[2]), s = PF_MIN(p->stride[2], p->in[2]);
  j->inside = pf_pool_inside(p, 2), j->inside_rows = pf_pool_inside(p, 1);
  j->whole = w->wide && p->c == 1 && pf_pool_volume(p->in) >= w->lanes && covers(p);
  if (!w->wide || j->whole || ((k <= s || p->out[2] == 1) && p->c >= w->lanes)) return PF_OK;
  if (p->c < w->lanes && k == p->k[2] && k <= FLAT_COLUMNS && s == p->stride[2])
    return set_flat(c, j, w, max);
  j->chunk = p->c <= PAIRED * w->lanes ? p->out[2] : STRETCH; /* one walk, or several */
  j->rolls = p->k[2] == 3 && s <= 2 && p->c >= w->lanes;
  if (j->rolls && p->k[0] == 1 && p->k[1] == 3 && p->stride[1] == s) {
    const size_t row = (size_t)(p->in[2] * p->c * w->size);
    void *zeros = c->host->scratch(c, row + 64, 64);
    if (!zeros) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a row of zeros");
    j->zeros = memset(zeros, 0, row);
    j->rolls = s == 1 ? TRIPLE : 2;
  }
  if (j->rolls) return PF_OK;
  const int64_t columns = BUFFER_BYTES / w->wide / p->c, least = 4;
  j->chunk = PF_MIN(PF_MAX((columns - k) / s + 1, least), p->out[2]);
  const int64_t width = PF_MIN((j->chunk - 1) * s + k, p->in[2]) * p->c;
  j->buffer_bytes = ((uint64_t)width * (uint64_t)w->wide + 127) / 64 * 64;
  j->buffers = c->host->scratch(c, j->buffer_bytes * (uint64_t)c->host->workers(c), 64);
  return j->buffers ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for pooled rows");
}

pf_status PF_ISA_NAME(pf_pool_forward)(pf_ctx *c, const pf_pool *p, int32_t type, int max,
                                       const void *x, void *y) {
  const way w = way_of(type, max);
  const int64_t rows = p->n * p->out[0] * p->out[1], row = p->out[2] * p->c;
  job j = {.p = p, .x = x, .y = y};
  PF_TRY(set_buffers(c, &j, &w, max));
  PF_TRY(set_planes(c, &j, type, max));
  /* or what is read pushes the results out before they are wanted */
  const int64_t written = rows * row * w.size, read = p->n * pf_pool_volume(p->in) * p->c * w.size;
  j.stream = (written >= PF_STREAM_BYTES || read >= 3 * PF_STREAM_BYTES) &&
             written >= PF_STREAM_BYTES / 2 &&
             (j.flat.block || ((uintptr_t)y % 64 == 0 && p->c * w.size % 64 == 0));
  const int64_t tasks = j.planes ? p->n : rows;
  const double places = (double)PF_MIN(p->k[0], p->in[0]) * (double)PF_MIN(p->k[1], p->in[1]) *
                        (double)PF_MIN(p->k[2], p->in[2]);
  const double work = places * (double)row * (double)(rows / tasks);
  return pf_parallel(c, tasks, work > PF_GRAIN ? 1 : 1 + PF_GRAIN / (int64_t)work, w.rows, &j);
}
