/* elementwise_math.c - bounds other than memory's of functions and of halves
 * (benchmarks/elementwise.py, column "bound"): each the best loop known for the job, never part of
 * pyflow.  They read floats or halves in order, and store results past the caches; eight vectors at
 * a time, AVX-512 only.  No less exact than pyflow's functions.  Signature: elementwise_loops.h.
 *
 *   of_floats {n, function}         EXP: table of 2^(j/32), degree 3, scalef; LOG: getexp, getmant,
 *                                   table of 32 logarithms, degree 5; TANH: rational in x^2;
 *                                   SIGMOID: EXP and a division; ERF: 16 polynomials of degree 5;
 *                                   SQRT: of the magnitude
 *   tanh_of_halves {n, type}        a rational of lower degree
 *   sum_of_halves {n, type}         two arrays added
 *   row_softmax_halves {n, rows, type}   per row: maximum as integers, exponentials near, results
 *   type: 0 float16, 1 bfloat16
 */
#include <math.h>
#include "elementwise_loops.h"

loop of_floats, tanh_of_halves, sum_of_halves, row_softmax_halves;

#if defined(__AVX512F__) && defined(__AVX512BW__)
typedef __m512 f16v;
#define SET(x) _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define INLINE static inline __attribute__((always_inline))
enum { EXP, LOG, TANH, SIGMOID, ERF, SQRT };
static float roots[32], rests[32], inverses[32], logs[32], erfs[7][16];

/* The float near `at` whose function is nearest to a float. */
static float exact_near(double at, double (*f)(double)) {
  float best = (float)at, v = best;
  double least = 1;
  for (int i = 0; i < 4000; i++, v = nextafterf(v, 2 * v)) {
    double y = f(v), error = fabs(y - (float)y) / fabs(y);
    if (error < least) least = error, best = v;
  }
  return best;
}
static double minus_log(double x) { return -log(x); }
/* erf(c + t), |t| <= h / 2, through six points of Chebyshev's: coefficients of t^0 .. t^5 */
static void fit_erf(double c, double h, double *a) {
  double t[6], d[6];
  for (int i = 0; i < 6; i++) t[i] = h / 2 * cos(M_PI * (2 * i + 1) / 12), d[i] = erf(c + t[i]);
  for (int k = 1; k < 6; k++)
    for (int i = 5; i >= k; i--) d[i] = (d[i] - d[i - 1]) / (t[i] - t[i - k]);
  for (int i = 0; i < 6; i++) a[i] = 0;
  for (int k = 5; k >= 0; k--) {
    for (int i = 5; i > 0; i--) a[i] = a[i - 1] - t[k] * a[i];
    a[0] = d[k] - t[k] * a[0];
  }
}
__attribute__((constructor)) static void fill_tables(void) {
  const double odd[6] = {0, 0.12837916709551256, 0, -0.376126389, 0, 0.112837917};
  for (int j = 0; j < 32; j++) {
    double m = (j + 0.5) / 32 + 1;
    roots[j] = (float)exp2(j / 32.0), rests[j] = (float)(exp2(j / 32.0) - roots[j]);
    inverses[j] = j % 31 ? exact_near((j < 16 ? 1 : 2) / m, minus_log) : 1;
    logs[j] = (float)-log(inverses[j]);
  }
  for (int k = 0; k < 16; k++) {
    double h = 17 / 64.0, a[6] = {0}, c = k % 15 ? exact_near(k * h, erf) : k * h;
    if (k % 15) fit_erf(c, h, a), a[0] = erf(c);
    if (k == 15) a[0] = 1;
    for (int i = 0; i < 6; i++) erfs[5 - i][k] = (float)(k ? a[i] : odd[i]);
    erfs[6][k] = (float)c;
  }
}

INLINE f16v pick(__m512i at, const float *t) {
  return _mm512_permutex2var_ps(_mm512_loadu_ps(t), at, _mm512_loadu_ps(t + 16));
}
INLINE f16v exp_of(f16v x, int finer) { /* `finer`: 0.8 ulp instead of 1.0 */
  f16v t = FMA(x, SET(1.44269504f), SET(393216.0f)), k = t - SET(393216.0f);
  f16v r = FMA(k, SET(1.90465430e-9f), FMA(k, SET(-0.693147182f), x));
  r = _mm512_range_ps(r, SET(0.5f), 2);
  f16v s = pick(_mm512_castps_si512(t), roots);
  f16v q = FMA(FMA(SET(0.166667402f), r, SET(0.500003636f)), r, SET(1.0f));
  if (finer) q = s + FMA(s * r, q, pick(_mm512_castps_si512(t), rests));
  else q = FMA(s * r, q, s);
  return _mm512_scalef_ps(q, k);
}
INLINE f16v log_of(f16v x) {
  f16v m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  f16v e = _mm512_getexp_ps(x) - _mm512_getexp_ps(m);
  __m512i at = _mm512_srli_epi32(_mm512_castps_si512(m), 18);
  f16v r = _mm512_fmsub_ps(m, pick(at, inverses), SET(1.0f));
  f16v q = FMA(FMA(SET(0.194953039f), r, SET(-0.250030667f)), r, SET(0.333334416f));
  q = FMA(r * r, FMA(q, r, SET(-0.5f)), r);
  return FMA(e, SET(0.693147182f), pick(at, logs) + q);
}
INLINE f16v tanh_of(f16v x) {
  f16v z = _mm512_min_ps(SET(81.0f), x * x), p = SET(1.33186431e-08f), q = SET(7.76184152e-07f);
  p = FMA(FMA(p, z, SET(2.05831639e-05f)), z, SET(0.0034940152f));
  q = FMA(FMA(q, z, SET(0.000328306109f)), z, SET(0.0258709993f));
  p = FMA(FMA(p, z, SET(0.13379702f)), z, SET(1.0f));
  q = FMA(FMA(q, z, SET(0.467130184f)), z, SET(1.0f));
  return _mm512_min_ps(SET(1.0f), _mm512_max_ps(SET(-1.0f), x * p / q));
}
INLINE f16v tanh_for_halves(f16v x) { /* within 3.3e-5 */
  f16v z = _mm512_min_ps(SET(21.16f), x * x);
  f16v p = FMA(FMA(SET(0.000709579268f), z, SET(0.10362456f)), z, SET(0.999967933f));
  f16v q = FMA(FMA(SET(0.0131970076f), z, SET(0.436746985f)), z, SET(1.0f));
  return _mm512_min_ps(SET(1.0f), _mm512_max_ps(SET(-1.0f), x * p / q));
}
INLINE f16v erf_of(f16v x) {
  f16v a = _mm512_min_ps(SET(3.984375f), _mm512_abs_ps(x)), sign = SET(-0.0f);
  __m512i at = _mm512_castps_si512(FMA(a, SET(64 / 17.0f), SET(12582912.0f)));
  f16v t = a - _mm512_permutexvar_ps(at, _mm512_loadu_ps(erfs[6]));
  f16v y = _mm512_permutexvar_ps(at, _mm512_loadu_ps(erfs[0]));
  f16v c = _mm512_permutexvar_ps(at, _mm512_loadu_ps(erfs[5]));
  __mmask16 first = _mm512_cmp_ps_mask(_mm512_castsi512_ps(at), SET(12582912.0f), _CMP_EQ_OQ);
#pragma GCC unroll 4
  for (int i = 1; i < 5; i++) y = FMA(y, t, _mm512_permutexvar_ps(at, _mm512_loadu_ps(erfs[i])));
  y = FMA(y, t, _mm512_mask_add_ps(c, first, c, t));
  return _mm512_or_ps(y, _mm512_and_ps(x, sign));
}
INLINE f16v value(int function, f16v x) {
  switch (function) {
    case EXP: return exp_of(x, 0);
    case LOG: return log_of(x);
    case TANH: return tanh_of(x);
    case SIGMOID: return SET(1.0f) / (SET(1.0f) + exp_of(-x, 1));
    case ERF: return erf_of(x);
    default: return _mm512_sqrt_ps(_mm512_abs_ps(x));
  }
}

/* ---------------------------------------------------------------- halves */
INLINE f16v read_half(int type, const uint16_t *p) {
  __m256i h = _mm256_loadu_si256((const void *)p);
  if (type == 0) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
INLINE __m512i rounded(f16v f) { /* to nearest even in the upper halves; a NaN stays one */
  __m512i w = _mm512_castps_si512(f), up = _mm512_add_epi32(w, _mm512_set1_epi32(0x7fff));
  __mmask16 odd = _mm512_test_epi32_mask(w, _mm512_set1_epi32(0x10000));
  up = _mm512_mask_add_epi32(up, odd, up, _mm512_set1_epi32(1));
  return _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask(f, f, _CMP_UNORD_Q), w,
                              _mm512_set1_epi32(0x400000));
}
INLINE __m512i halves_of(int type, f16v a, f16v b) {
  if (type == 0)
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtps_ph(a, 0)), _mm512_cvtps_ph(b, 0),
                              1);
  __m512i upper = _mm512_set1_epi32(0x10000), step = _mm512_set_epi32(
      15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  upper = _mm512_add_epi32(_mm512_mullo_epi32(step, _mm512_set1_epi32(0x40004)),
                           _mm512_set1_epi32(0x30001));
  return _mm512_permutex2var_epi16(rounded(a), upper, rounded(b));
}
/* {from, to} of a part, in units of 128 elements */
static void range_of(int64_t n, int part, int parts, int64_t *from, int64_t *to) {
  *from = n / 128 * part / parts * 128, *to = n / 128 * (part + 1) / parts * 128;
}
INLINE void run_floats(int function, const float *x, float *y, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; i += 128) {
    f16v v[8];
#pragma GCC unroll 8
    for (int u = 0; u < 8; u++) v[u] = value(function, _mm512_loadu_ps(x + i + 16 * u));
#pragma GCC unroll 8
    for (int u = 0; u < 8; u++) _mm512_stream_ps(y + i + 16 * u, v[u]);
  }
}
void of_floats(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t from, to;
  range_of(args[0], part, parts, &from, &to);
  switch (args[1]) {
    case EXP: run_floats(EXP, in[0], out, from, to); break;
    case LOG: run_floats(LOG, in[0], out, from, to); break;
    case TANH: run_floats(TANH, in[0], out, from, to); break;
    case SIGMOID: run_floats(SIGMOID, in[0], out, from, to); break;
    case ERF: run_floats(ERF, in[0], out, from, to); break;
    default: run_floats(SQRT, in[0], out, from, to);
  }
}
INLINE void run_tanh(int type, const uint16_t *x, uint16_t *y, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; i += 128)
#pragma GCC unroll 4
    for (int u = 0; u < 128; u += 32)
      _mm512_stream_si512((void *)(y + i + u),
                          halves_of(type, tanh_for_halves(read_half(type, x + i + u)),
                                    tanh_for_halves(read_half(type, x + i + u + 16))));
}
INLINE void run_sum(int type, const uint16_t *a, const uint16_t *b, uint16_t *y, int64_t from,
                    int64_t to) {
  for (int64_t i = from; i < to; i += 32)
    _mm512_stream_si512((void *)(y + i),
                        halves_of(type, read_half(type, a + i) + read_half(type, b + i),
                                  read_half(type, a + i + 16) + read_half(type, b + i + 16)));
}
void tanh_of_halves(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t from, to;
  range_of(args[0], part, parts, &from, &to);
  if (args[1]) run_tanh(1, in[0], out, from, to);
  else run_tanh(0, in[0], out, from, to);
}
void sum_of_halves(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t from, to;
  range_of(args[0], part, parts, &from, &to);
  if (args[1]) run_sum(1, in[0], in[1], out, from, to);
  else run_sum(0, in[0], in[1], out, from, to);
}

/* ---------------------------------------------------------------- softmax of halves */
INLINE __m512i turned_bits(__m512i a) { /* halves compare as integers */
  return _mm512_ternarylogic_epi32(a, _mm512_srai_epi16(a, 15), _mm512_set1_epi16(0x7fff), 0x78);
}
INLINE float largest_half(int type, const uint16_t *x, int64_t n) {
  __m512i a = turned_bits(_mm512_loadu_si512(x + n - 32)), b = a;
  int16_t m[32], top = INT16_MIN;
  for (int64_t i = 0; i + 64 <= n; i += 64) {
    a = _mm512_max_epi16(a, turned_bits(_mm512_loadu_si512(x + i)));
    b = _mm512_max_epi16(b, turned_bits(_mm512_loadu_si512(x + i + 32)));
  }
  if (n % 64 > 32) b = _mm512_max_epi16(b, turned_bits(_mm512_loadu_si512(x + n - 64)));
  _mm512_storeu_si512(m, _mm512_max_epi16(a, b));
  for (int l = 0; l < 32; l++) top = m[l] > top ? m[l] : top;
  uint16_t bits[16] = {(uint16_t)(top ^ (top >> 15 & 0x7fff))};
  return _mm512_cvtss_f32(read_half(type, bits));
}
INLINE f16v exp_down(int type, f16v x) { /* within 1e-6 or, bfloat16, 6e-5, from -87 to 0 */
  f16v t = FMA(_mm512_max_ps(SET(-87.3f), x), SET(1.44269504f), SET(393216.0f));
  f16v r = FMA(t - SET(393216.0f), SET(-0.693147182f), x);
  f16v s = pick(_mm512_castps_si512(t), roots);
  if (type) s = FMA(s, r, s);
  else s = FMA(s * r, FMA(SET(0.5f), r, SET(1.0f)), s);
  return _mm512_scalef_ps(s, t - SET(393216.0f));
}
INLINE void softmax_row(int type, const uint16_t *x, uint16_t *y, int64_t n, float *e) {
  f16v m = SET(largest_half(type, x, n)), s[4] = {SET(0), SET(0), SET(0), SET(0)};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64)
#pragma GCC unroll 4
    for (int u = 0; u < 4; u++) {
      if (u % 2 == 0) _mm_prefetch((const char *)(x + n + i + 16 * u), _MM_HINT_T0);
      f16v v = exp_down(type, read_half(type, x + i + 16 * u) - m);
      _mm512_storeu_ps(e + i + 16 * u, v), s[u] += v;
    }
  for (; i < n; i += 16) {
    __mmask16 k = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
    uint16_t part[16];
    _mm256_storeu_si256((void *)part, _mm256_maskz_loadu_epi16(k, x + i));
    f16v v = _mm512_maskz_mov_ps(k, exp_down(type, read_half(type, part) - m));
    _mm512_storeu_ps(e + i, v), s[0] += v;
  }
  f16v c = SET(1 / _mm512_reduce_add_ps((s[0] + s[1]) + (s[2] + s[3])));
  int64_t first = (int64_t)(-(uintptr_t)y % 64) / 2;
  __m512i h = halves_of(type, _mm512_loadu_ps(e) * c, _mm512_loadu_ps(e + 16) * c);
  _mm512_mask_storeu_epi16(y, first ? (1u << first) - 1 : 0, h);
  for (i = first; i + 32 <= n; i += 32)
    _mm512_stream_si512((void *)(y + i), halves_of(type, _mm512_loadu_ps(e + i) * c,
                                                   _mm512_loadu_ps(e + i + 16) * c));
  h = halves_of(type, _mm512_loadu_ps(e + i) * c, _mm512_loadu_ps(e + i + 16) * c);
  _mm512_mask_storeu_epi16(y + i, (1u << (n - i)) - 1, h);
}
void row_softmax_halves(const void *const *in, void *out, const int64_t *args, int part,
                        int parts) {
  float room[4096 + 64] __attribute__((aligned(64)));
  int64_t n = args[0], end = args[1] * (part + 1) / parts;
  for (int64_t r = args[1] * part / parts; r < end; r++) {
    const uint16_t *x = (const uint16_t *)in[0] + r * n;
    if (args[2]) softmax_row(1, x, (uint16_t *)out + r * n, n, room);
    else softmax_row(0, x, (uint16_t *)out + r * n, n, room);
  }
}
#else /* the loops are of one machine; elsewhere the column says nothing */
void of_floats(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
void tanh_of_halves(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
void sum_of_halves(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
void row_softmax_halves(const void *const *in, void *out, const int64_t *args, int part,
                        int parts) {}
#endif
