/* elementwise_norms.c - bounds other than memory's of reductions, softmax and norms
 * (benchmarks/elementwise.py, column "bound"): each the best loop known for the job, never part of
 * pyflow.  Most need AVX-512; elsewhere their cases have no bound.  Signature: elementwise_loops.h.
 *
 *   row_softmax       args[2] rows of args[0] floats, args[1]: log.  Per row: its maximum (the only
 *                     reading of memory), exponentials from the nearest cache, results past the
 *                     caches.  One walk that does all three for three rows at once is slower
 *                     (1.2-1.4 times): other stores between those past the caches break their lines
 *                     up.
 *   twice_and_write   reads args[0] arrays of args[1] floats, then, from the end, again, and writes
 *                     one: what batch normalisation cannot do without
 *   rows_normalised   args[1] rows of args[0] floats: sum and squares, then from the nearest cache
 *                     the row scaled and shifted, past the caches
 *   row_argmax        args[1] rows of args[0] floats: the maximum of blocks, then its place
 *   column_argmax     args[0] rows of args[1] floats: running maxima and their rows
 *   lrn_arithmetic    args[0] pixels of args[1] channels (whole groups of 64), radius 2: squares,
 *                     windows shifted in registers, two approximate roots and a Newton step for
 *                     n^-3/4, past the caches; of normal n only.  (Exact roots and a division take
 *                     twice as long.)
 */
#include <math.h>
#include "elementwise_loops.h"

static int64_t begin_of(int64_t n, int part, int parts) { return n * part / parts; }

#if defined(__AVX512F__)
typedef __m512 f16v;
#define LOAD(p) _mm512_loadu_ps(p)
#define SET(x) _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
static __mmask16 first(int64_t n) { return n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1); }

/* ---------------------------------------------------------------- softmax */
static float row_maximum(const float *x, int64_t n) {
  f16v m[4] = {SET(-INFINITY), SET(-INFINITY), SET(-INFINITY), SET(-INFINITY)};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (int u = 0; u < 4; u++) m[u] = _mm512_max_ps(LOAD(x + i + 16 * u), m[u]);
  for (; i < n; i += 16)
    m[0] = _mm512_mask_max_ps(m[0], first(n - i), m[0], _mm512_maskz_loadu_ps(first(n - i), x + i));
  return _mm512_reduce_max_ps(
      _mm512_max_ps(_mm512_max_ps(m[0], m[1]), _mm512_max_ps(m[2], m[3])));
}
/* e^x, x from -87 to 0, by a table of 2^(j / 32) */
static inline f16v exponential(f16v x, f16v low, f16v high) {
  f16v t = FMA(_mm512_max_ps(SET(-87.3f), x), SET(1.44269504f), SET(393216.0f));
  f16v r = FMA(t - SET(393216.0f), SET(-0.693147182f), x);
  __m512i n = _mm512_castps_si512(t);
  __m512i root = _mm512_castps_si512(_mm512_permutex2var_ps(low, n, high));
  f16v s = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(n, 18), root));
  return FMA(s * r, FMA(SET(0.5f), r, SET(1.00001466f)), s);
}
static void fill_table(float *table) {
  for (int j = 0; j < 32; j++) {
    uint32_t bits;
    table[j] = (float)exp2(j / 32.0), memcpy(&bits, &table[j], 4);
    bits -= (uint32_t)j << 18, memcpy(&table[j], &bits, 4);
  }
}
static float row_sum(const float *x, float *e, int64_t n, float m, const float *table) {
  f16v s[4] = {SET(0), SET(0), SET(0), SET(0)}, low = LOAD(table), high = LOAD(table + 16);
  int64_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (int u = 0; u < 4; u++) {
      _mm_prefetch((const char *)(x + n + i + 16 * u), _MM_HINT_T0);
      f16v v = exponential(LOAD(x + i + 16 * u) - SET(m), low, high);
      if (e) _mm512_storeu_ps(e + i + 16 * u, v);
      s[u] += v;
    }
  for (; i < n; i += 16) {
    f16v v = exponential(_mm512_maskz_loadu_ps(first(n - i), x + i) - SET(m), low, high);
    if (e) _mm512_mask_storeu_ps(e + i, first(n - i), v);
    s[0] = _mm512_mask_add_ps(s[0], first(n - i), s[0], v);
  }
  return _mm512_reduce_add_ps((s[0] + s[1]) + (s[2] + s[3]));
}
static void row_results(const float *x, float *y, int64_t n, float minus, float times) {
  int64_t i = (int64_t)(-(uintptr_t)y / 4 % 16);
  f16v m = SET(minus), c = SET(times);
  _mm512_mask_storeu_ps(y, first(i), (_mm512_maskz_loadu_ps(first(i), x) - m) * c);
  for (; i + 16 <= n; i += 16) _mm512_stream_ps(y + i, (LOAD(x + i) - m) * c);
  _mm512_mask_storeu_ps(y + i, first(n - i), (_mm512_maskz_loadu_ps(first(n - i), x + i) - m) * c);
}
void row_softmax(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t n = args[0], rows = args[2];
  float room[4096] __attribute__((aligned(64))), table[32];
  fill_table(table);
  for (int64_t r = begin_of(rows, part, parts); r < begin_of(rows, part + 1, parts); r++) {
    const float *x = (const float *)in[0] + r * n;
    float *y = (float *)out + r * n, m = row_maximum(x, n);
    float sum = row_sum(x, args[1] ? NULL : room, n, m, table);
    if (args[1]) row_results(x, y, n, m + logf(sum), 1);
    else row_results(room, y, n, 0, 1 / sum);
  }
  fence();
}

/* ---------------------------------------------------------------- norms */
void rows_normalised(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t n = args[0], rows = args[1];
  const float *scale = in[1], *offset = in[2];
  for (int64_t r = begin_of(rows, part, parts); r < begin_of(rows, part + 1, parts); r++) {
    const float *x = (const float *)in[0] + r * n;
    float *y = (float *)out + r * n;
    f16v s[4] = {SET(0), SET(0), SET(0), SET(0)}, q[4] = {SET(0), SET(0), SET(0), SET(0)};
    for (int64_t i = 0; i < n; i += 64)
      for (int u = 0; u < 4; u++) {
        f16v v = LOAD(x + i + 16 * u);
        s[u] += v, q[u] = FMA(v, v, q[u]);
      }
    float mean = _mm512_reduce_add_ps((s[0] + s[1]) + (s[2] + s[3])) / (float)n;
    float square = _mm512_reduce_add_ps((q[0] + q[1]) + (q[2] + q[3])) / (float)n - mean * mean;
    f16v by = SET(1 / sqrtf(square + 1e-6f)), m = SET(mean);
    for (int64_t i = 0; i < n; i += 16)
      _mm512_stream_ps(y + i, FMA((LOAD(x + i) - m) * by, LOAD(scale + i), LOAD(offset + i)));
  }
  fence();
}
#define SHIFTED(high, low, by) \
  _mm512_castsi512_ps(_mm512_alignr_epi32((__m512i)(high), (__m512i)(low), by))
/* four vectors are read before the four ahead of them are stored */
void lrn_arithmetic(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t c = args[1], k = 0, from = begin_of(args[0], part, parts) * c,
          n = begin_of(args[0], part + 1, parts) * c - from;
  const float *x = (const float *)in[0] + from;
  float *y = (float *)out + from;
  f16v here[4], next[4], v[6];
  for (int u = 0; u < 4; u++) here[u] = LOAD(x + 16 * u);
  v[0] = SET(0);
  for (int64_t i = 0; i < n; i += 64) {
    const float *after = i + 64 < n ? x + i + 64 : x;
    int last = (k += 64) == c;
    for (int u = 0; u < 4; u++) next[u] = LOAD(after + 16 * u), v[u + 1] = here[u] * here[u];
    v[5] = next[0] * next[0];
    if (last) v[5] = SET(0), k = 0;
    for (int u = 0; u < 4; u++) {
      f16v sum = (SHIFTED(v[u + 1], v[u], 14) + SHIFTED(v[u + 1], v[u], 15)) + v[u + 1];
      sum += SHIFTED(v[u + 2], v[u + 1], 1) + SHIFTED(v[u + 2], v[u + 1], 2);
      f16v s = FMA(sum, SET(1e-4f), SET(1)), q = _mm512_rsqrt14_ps(s);
      f16v p = q * q * _mm512_rsqrt14_ps(q), a = s * p;
      p = FMA(p * SET(0.25f), _mm512_fnmadd_ps(a * a, a * p, SET(1)), p);
      here[u] *= p;
    }
    for (int u = 0; u < 4; u++) _mm512_stream_ps(y + i + 16 * u, here[u]), here[u] = next[u];
    v[0] = v[4];
    if (last) v[0] = SET(0);
  }
  fence();
}

/* ---------------------------------------------------------------- places of maxima */
void row_argmax(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t n = args[0], rows = args[1];
  for (int64_t r = begin_of(rows, part, parts); r < begin_of(rows, part + 1, parts); r++) {
    const float *x = (const float *)in[0] + r * n;
    float best = -INFINITY;
    int64_t at = 0;
    for (int64_t from = 0; from < n; from += 256) {
      f16v m[4] = {SET(-INFINITY), SET(-INFINITY), SET(-INFINITY), SET(-INFINITY)};
      for (int64_t i = from; i < from + 256; i += 64)
        for (int u = 0; u < 4; u++) m[u] = _mm512_max_ps(LOAD(x + i + 16 * u), m[u]);
      m[0] = _mm512_max_ps(_mm512_max_ps(m[0], m[1]), _mm512_max_ps(m[2], m[3]));
      if (_mm512_cmp_ps_mask(m[0], SET(best), _CMP_GT_OQ))
        best = _mm512_reduce_max_ps(m[0]), at = from;
    }
    uint32_t found;
    while (!(found = _mm512_cmp_ps_mask(LOAD(x + at), SET(best), _CMP_EQ_OQ))) at += 16;
    ((int64_t *)out)[r] = at + __builtin_ctz(found);
  }
}
void column_argmax(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t rows = args[0], w = args[1];
  int64_t lo = begin_of(w / 16, part, parts) * 16, hi = begin_of(w / 16, part + 1, parts) * 16;
  float best[4096];
  int32_t at[4096];
  const float *x = in[0];
  for (int64_t j = lo; j < hi; j++) best[j] = x[j], at[j] = 0;
  for (int64_t i = 0; i + 4 <= rows; i += 4)
    for (int64_t j = lo; j < hi; j += 16) {
      f16v b = LOAD(best + j);
      __m512i k = _mm512_loadu_si512(at + j);
      for (int r = 0; r < 4; r++) {
        f16v v = LOAD(x + (i + r) * w + j);
        __mmask16 more = _mm512_cmp_ps_mask(v, b, _CMP_GT_OQ);
        b = _mm512_mask_mov_ps(b, more, v);
        k = _mm512_mask_mov_epi32(k, more, _mm512_set1_epi32((int)i + r));
      }
      _mm512_storeu_ps(best + j, b), _mm512_storeu_si512(at + j, k);
    }
  for (int64_t j = lo; j < hi; j++) ((int64_t *)out)[j] = at[j];
}
#endif

void twice_and_write(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t lo = begin_of(args[1] / 64, part, parts) * 64;
  int64_t hi = begin_of(args[1] / 64, part + 1, parts) * 64;
  const float *x = in[0], *z = in[args[0] - 1];
  vec s[4] = {{0}, {0}, {0}, {0}};
  for (int64_t i = lo; i < hi; i += 64)
    for (int u = 0; u < 4; u++)
      s[u] += args[0] == 1 ? *(const vec *)(x + i + 16 * u)
                           : *(const vec *)(x + i + 16 * u) + *(const vec *)(z + i + 16 * u);
  vec v = (s[0] + s[1] + s[2] + s[3]) * 1e-30f;
  for (int64_t block = (hi - 1) / 8192 * 8192; block + 8192 > lo; block -= 8192) {
    int64_t from = block < lo ? lo : block, to = block + 8192 < hi ? block + 8192 : hi;
    for (int64_t i = from; i < to; i += 16) {
      vec y = *(const vec *)(x + i) + v;
      put((float *)out + i, args[0] == 1 ? y : y + *(const vec *)(z + i), 1);
    }
  }
  fence();
}
