/* elementwise_pools.c - bounds other than memory's of pooling
 * (benchmarks/elementwise.py, column "bound"): each the best loop known for the job, never part of
 * pyflow.  Signature: elementwise_loops.h.
 *
 *   pool_3x3          args n, h, w, c, stride, average: SAME, h and w even, the nearest place
 *                     again beyond an edge; two rows of windows at once, columns rolling through
 *                     registers
 *   pool_2x2          args n, h, w, c, average: two rows in step (prefetching them is slower)
 *   pool_2x2_planes   args planes, h, w: maxima of channels-first images, w a multiple of 16
 *   pool_2x2_halves   args n, h, w, c, bfloat16, average; the next two rows are prefetched in order
 *   pool_3x3_planes   args planes, h, w: sums of windows of stride 1 over channels-first images as
 *                     one run of numbers, a ninth of each (as if none lay at an edge)
 *   pool_3x3_of_112   args planes: maxima of stride 2, SAME, over channels-first images 112 x 112:
 *                     each row is read once, in order, and joined in registers with those before;
 *                     two rows of results leave at once, as seven whole lines (prefetching, any
 *                     distance and cache, is slower, and so are two rows of results in step)
 *   pool_gradient_2x2 args n, h, w, c: dx of maxima of stride 2: two rows read, two written
 *   pool_gradient_3x3 args n, h, w, c: dx of maxima of stride 2, SAME; the first maxima of an image
 *                     as bytes in the second cache, then dx past the caches
 *
 * NaN is not looked for.  Without AVX-512 they do nothing and no bound is printed to speak of.
 */
#include <stdlib.h>
#include "elementwise_loops.h"

#if defined(__AVX512BW__)
#define EACH _Pragma("GCC unroll 4") for (int u = 0; u < 4; u++)
typedef struct { __m512 above, below; } pair;

static inline __m512 join(__m512 a, __m512 b, int average) {
  return average ? _mm512_add_ps(a, b) : _mm512_max_ps(a, b);
}
/* A column of the rows x[0] to x[4]. */
static inline pair column(const float *const *x, int64_t at, int s, int average) {
  const __m512 a = _mm512_loadu_ps(x[0] + at), b = _mm512_loadu_ps(x[1] + at),
               c = _mm512_loadu_ps(x[2] + at), d = _mm512_loadu_ps(x[3] + at),
               e = s == 2 ? _mm512_loadu_ps(x[4] + at) : d;
  return (pair){join(join(a, b, average), c, average),
                s == 1 ? join(join(b, c, average), d, average)
                       : join(join(c, d, average), e, average)};
}
static inline void results(float *y, pair a, pair b, pair c, int64_t below, int average) {
  __m512 v = join(join(a.above, b.above, average), c.above, average);
  __m512 w = join(join(a.below, b.below, average), c.below, average);
  if (average) v /= _mm512_set1_ps(9), w /= _mm512_set1_ps(9);
  _mm512_stream_ps(y, v);
  _mm512_stream_ps(y + below, w);
}
static inline int64_t within(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }
static inline void images_3x3(const float *image, float *y, const int64_t *p, int64_t lo,
                              int64_t hi, const int s, const int average) {
  const int64_t h = p[1], w = p[2], c = p[3], row = w * c, oh = h / s, ow = w / s, pad = s == 1;
  for (int64_t o = lo * oh; o + 2 <= hi * oh; o += 2)
    for (int64_t k = 0; k < c; k += 64) {
      const float *x[5];
      for (int r = 0; r < 5; r++)
        x[r] = image + o / oh * h * row + within(o % oh * s + r - pad, h) * row + k;
      float *z = y + o * ow * c + k;
      pair first[4], second[4];
      EACH first[u] = column(x, 16 * u, s, average);
      if (s == 1) EACH second[u] = first[u];
      for (int64_t j = 0; j < ow; j++, z += c) {
        const int64_t third_at = within(j * s + 2 - pad, w) * c;
        EACH {
          if (s == 2) second[u] = column(x, (2 * j + 1) * c + 16 * u, s, average);
          const pair third = column(x, third_at + 16 * u, s, average);
          results(z + 16 * u, first[u], second[u], third, ow * c, average);
          first[u] = s == 1 ? second[u] : third, second[u] = third;
        }
      }
    }
}
void pool_3x3(const void *const *in, void *out, const int64_t *p, int part, int parts) {
  const int64_t lo = p[0] * part / parts, hi = p[0] * (part + 1) / parts;
  if (p[4] == 1 && p[5]) images_3x3(in[0], out, p, lo, hi, 1, 1);
  else if (p[4] == 1) images_3x3(in[0], out, p, lo, hi, 1, 0);
  else if (p[5]) images_3x3(in[0], out, p, lo, hi, 2, 1);
  else images_3x3(in[0], out, p, lo, hi, 2, 0);
  fence();
}

static inline __m512 wide(const uint16_t *x, int bfloat16) {
  const __m256i v = _mm256_loadu_si256((const __m256i *)x);
  if (!bfloat16) return _mm512_cvtph_ps(v);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}
static inline __m256i narrow(__m512 v, int bfloat16) {
  if (!bfloat16) return _mm512_cvtps_ph(v, 0);
  const __m512i bits = _mm512_castps_si512(v), one = _mm512_set1_epi32(1);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
}
static inline __m512i ordered(__m512i v) { /* halves as integers in the numbers' order, and back */
  return _mm512_xor_si512(v, _mm512_srli_epi16(_mm512_srai_epi16(v, 15), 1));
}
static inline __m512i maxima(const uint16_t *q, int64_t row, int64_t c) {
  const __m512i a = ordered(_mm512_loadu_si512(q)), b = ordered(_mm512_loadu_si512(q + c)),
                d = ordered(_mm512_loadu_si512(q + row)),
                e = ordered(_mm512_loadu_si512(q + row + c));
  return ordered(_mm512_max_epi16(_mm512_max_epi16(a, b), _mm512_max_epi16(d, e)));
}
static inline void rows_of_halves(const uint16_t *x, uint16_t *y, const int64_t *p, int64_t lo,
                                  int64_t hi, const int bfloat16, const int average) {
  const int64_t c = p[3], row = p[2] * c, ow = p[2] / 2;
  for (int64_t r = lo; r < hi; r++)
    for (int64_t j = 0; j < ow; j++) {
      const uint16_t *q = x + 2 * r * row + 2 * j * c, *far = x + 2 * (r + 1) * row + 4 * j * c;
      for (int64_t k = 0; k < 4 * c; k += 32) _mm_prefetch((const char *)(far + k), _MM_HINT_T1);
      uint16_t *z = y + (r * ow + j) * c;
      if (!average)
        for (int64_t k = 0; k < c; k += 32)
          _mm512_stream_si512((void *)(z + k), maxima(q + k, row, c));
      else
        for (int64_t k = 0; k < c; k += 16) {
          const __m512 v = wide(q + k, bfloat16) + wide(q + c + k, bfloat16) +
                           wide(q + row + k, bfloat16) + wide(q + row + c + k, bfloat16);
          _mm256_stream_si256((void *)(z + k), narrow(v * _mm512_set1_ps(0.25f), bfloat16));
        }
    }
}
void pool_2x2_halves(const void *const *in, void *out, const int64_t *p, int part, int parts) {
  const int64_t rows = p[0] * p[1] / 2, lo = rows * part / parts, hi = rows * (part + 1) / parts;
  if (!p[5]) rows_of_halves(in[0], out, p, lo, hi, 0, 0);
  else if (p[4]) rows_of_halves(in[0], out, p, lo, hi, 1, 1);
  else rows_of_halves(in[0], out, p, lo, hi, 0, 1);
  fence();
}

/* Rows of windows 2x2, the floats of two rows in step. */
static inline void rows_2x2(const void *const *in, void *out, const int64_t *p, int64_t lo,
                            int64_t hi, const int average) {
  const int64_t c = p[3], row = p[2] * c, ow = p[2] / 2;
  for (int64_t r = lo; r < hi; r++)
    for (int64_t j = 0; j < ow; j++) {
      const float *q = (const float *)in[0] + 2 * r * row + 2 * j * c;
      float *z = (float *)out + (r * ow + j) * c;
      for (int64_t k = 0; k < c; k += 64) { /* lines in the order they lie in */
        const float *a = q + k;
        __m512 v[4];
        EACH v[u] = _mm512_loadu_ps(a + 16 * u);
        EACH v[u] = join(v[u], _mm512_loadu_ps(a + c + 16 * u), average);
        EACH v[u] = join(v[u], _mm512_loadu_ps(a + row + 16 * u), average);
        EACH v[u] = join(v[u], _mm512_loadu_ps(a + row + c + 16 * u), average);
        if (average) EACH v[u] = _mm512_mul_ps(v[u], _mm512_set1_ps(0.25f));
        EACH _mm512_stream_ps(z + k + 16 * u, v[u]);
      }
    }
}
void pool_2x2(const void *const *in, void *out, const int64_t *p, int part, int parts) {
  const int64_t rows = p[0] * p[1] / 2, lo = rows * part / parts, hi = rows * (part + 1) / parts;
  if (p[4]) rows_2x2(in, out, p, lo, hi, 1);
  else rows_2x2(in, out, p, lo, hi, 0);
}
/* The same of images of one channel; the rows to come are prefetched in their order. */
void pool_2x2_planes(const void *const *in, void *out, const int64_t *p, int part, int parts) {
  const int64_t rows = p[0] * p[1] / 4, lo = rows * part / parts, hi = rows * (part + 1) / parts;
  const int64_t w = p[2];
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  for (int64_t r = lo; r < hi; r++) { /* two rows of windows: 2 * w / 32 whole vectors */
    const float *x = (const float *)in[0] + 4 * r * w;
    float *z = (float *)out + r * w;
    for (int64_t i = 0; i < w; i += 16) {
      __m512 v[2];
      for (int h = 0; h < 2; h++) {
        const int64_t at = 2 * i + 16 * h, o = at >= w;
        const float *a = x + 2 * o * w + at - o * w;
        const char *far = (const char *)(x + 4 * w + 4 * i + 32 * h);
        _mm_prefetch(far, _MM_HINT_T0);
        _mm_prefetch(far + 64, _MM_HINT_T0);
        v[h] = _mm512_max_ps(_mm512_loadu_ps(a), _mm512_loadu_ps(a + w));
      }
      const __m512 e = _mm512_permutex2var_ps(v[0], even, v[1]);
      _mm512_stream_ps(z + i, _mm512_max_ps(e, _mm512_permutex2var_ps(v[0], odd, v[1])));
    }
  }
}
/* dx of maxima 2x2, each written at once. */
void pool_gradient_2x2(const void *const *in, void *out, const int64_t *p, int part, int parts) {
  const int64_t rows = p[0] * p[1] / 2, lo = rows * part / parts, hi = rows * (part + 1) / parts;
  const int64_t c = p[3], row = p[2] * c, ow = p[2] / 2;
  for (int64_t r = lo; r < hi; r++)
    for (int64_t j = 0; j < ow; j++)
      for (int64_t k = 0; k < c; k += 64) EACH {
        const int64_t at = 2 * r * row + 2 * j * c + k + 16 * u;
        const float *x = (const float *)in[0] + at;
        float *y = (float *)out + at;
        const __m512 g = _mm512_loadu_ps((const float *)in[1] + (r * ow + j) * c + k + 16 * u);
        const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + c);
        const __m512 d = _mm512_loadu_ps(x + row), e = _mm512_loadu_ps(x + row + c);
        const __m512 top = _mm512_max_ps(a, b), low = _mm512_max_ps(d, e);
        const __mmask16 below = _mm512_cmp_ps_mask(low, top, _CMP_GT_OQ);
        const __mmask16 first = _mm512_cmp_ps_mask(b, a, _CMP_LE_OQ);
        const __mmask16 third = _mm512_cmp_ps_mask(e, d, _CMP_LE_OQ);
        _mm512_stream_ps(y, _mm512_maskz_mov_ps((__mmask16)(~below & first), g));
        _mm512_stream_ps(y + c, _mm512_maskz_mov_ps((__mmask16)~(below | first), g));
        _mm512_stream_ps(y + row, _mm512_maskz_mov_ps((__mmask16)(below & third), g));
        _mm512_stream_ps(y + row + c, _mm512_maskz_mov_ps((__mmask16)(below & ~third), g));
      }
}

static inline __m512 three_rows(const float *x, int64_t w) {
  return _mm512_loadu_ps(x - w) + _mm512_loadu_ps(x) + _mm512_loadu_ps(x + w);
}
static inline __m512 shifted(__m512 a, __m512 b, const int by) {
  const __m512i low = _mm512_castps_si512(a), high = _mm512_castps_si512(b);
  return _mm512_castsi512_ps(_mm512_alignr_epi32(high, low, by));
}
void pool_3x3_planes(const void *const *in, void *out, const int64_t *p, int part, int parts) {
  const int64_t w = p[2], all = p[0] * p[1] * w / 16, edge = (w + 31) / 16;
  const int64_t lo = all * part / parts, hi = all * (part + 1) / parts;
  const int64_t first = lo < edge ? edge : lo, last = hi > all - edge ? all - edge : hi;
  const float *x = in[0];
  float *y = out;
  const __m512 ninth = _mm512_set1_ps(1.0f / 9);
  __m512 a = three_rows(x + 16 * first - 16, w), b = three_rows(x + 16 * first, w);
  for (int64_t i = 16 * first; i < 16 * last; i += 16) {
    const __m512 c = three_rows(x + i + 16, w);
    _mm512_stream_ps(y + i, (shifted(a, b, 15) + b + shifted(b, c, 1)) * ninth);
    a = b, b = c;
  }
}

/* 56 maxima of three neighbours, two columns apart, of the 112 numbers of `m`; the upper half of
 * the fourth vector is nothing. */
enum { WIDE = 112, VECTORS = 7 };
#define EACH_OF_ROW _Pragma("GCC unroll 7") for (int k = 0; k < VECTORS; k++)
typedef struct { __m512 v[VECTORS]; } whole_row;
typedef struct { __m512 v[4]; } half_row;
static inline half_row along(whole_row m) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  __m512 first[4];
  half_row r;
  EACH {
    const __m512 a = m.v[2 * u], b = m.v[u < 3 ? 2 * u + 1 : 6];
    first[u] = _mm512_permutex2var_ps(a, even, b);
    r.v[u] = _mm512_max_ps(first[u], _mm512_permutex2var_ps(a, odd, b));
  }
  for (int u = 0; u < 3; u++) r.v[u] = _mm512_max_ps(r.v[u], shifted(first[u], first[u + 1], 1));
  const __m512 third = shifted(first[3], first[3], 1);
  r.v[3] = _mm512_mask_max_ps(r.v[3], 0x7f, r.v[3], third); /* no third column in the last window */
  return r;
}
/* Maxima of `best` with row x, which `best` is then. */
static inline whole_row turn(whole_row *best, const float *x) {
  whole_row m;
  EACH_OF_ROW {
    const __m512 v = _mm512_loadu_ps(x + 16 * k);
    m.v[k] = _mm512_max_ps(best->v[k], v), best->v[k] = v;
  }
  return m;
}
static inline void take(whole_row *best, const float *x) {
  EACH_OF_ROW best->v[k] = _mm512_max_ps(best->v[k], _mm512_loadu_ps(x + 16 * k));
}
void pool_3x3_of_112(const void *const *in, void *out, const int64_t *p, int part, int parts) {
  const int64_t lo = p[0] * part / parts, hi = p[0] * (part + 1) / parts;
  for (int64_t i = lo; i < hi; i++) {
    const float *x = (const float *)in[0] + i * WIDE * WIDE;
    float *y = (float *)out + i * WIDE * WIDE / 4;
    whole_row best;
    EACH_OF_ROW best.v[k] = _mm512_loadu_ps(x + 16 * k);
    take(&best, x + WIDE);
    for (int64_t o = 2; o <= WIDE - 2; o += 4, y += WIDE) { /* rows o - 2 and o - 1 are in `best` */
      const half_row upper = along(turn(&best, x + o * WIDE));
      take(&best, x + (o + 1) * WIDE);
      half_row lower;
      if (o + 2 < WIDE) {
        lower = along(turn(&best, x + (o + 2) * WIDE));
        take(&best, x + (o + 3) * WIDE);
      } else {
        lower = along(best);
      }
      const __m256 middle = _mm512_castps512_ps256(lower.v[0]);
      for (int u = 0; u < 3; u++) _mm512_stream_ps(y + 16 * u, upper.v[u]);
      _mm512_stream_ps(y + 48, _mm512_insertf32x8(upper.v[3], middle, 1));
      for (int u = 0; u < 3; u++)
        _mm512_stream_ps(y + 64 + 16 * u, shifted(lower.v[u], lower.v[u + 1], 8));
    }
  }
}

/* The place, 0 to 8, of each first maximum of a row of windows. */
static inline void first_maxima(const float *x, int64_t row, int64_t c, int64_t ow, int8_t *at,
                                const int rows, const int last) {
  for (int64_t o = 0; o < ow; o++, x += 2 * c)
    for (int64_t k = 0; k < c; k += 64) {
      const int cols = o == last ? 2 : 3;
      __m512 best[4];
      __m512i found[4];
      EACH best[u] = _mm512_loadu_ps(x + k + 16 * u), found[u] = _mm512_setzero_si512();
      const float *far = x + k + 3 * row + o * 2 * c; /* what the next windows read first */
      for (int q = 0; q < 4; q++)
        EACH _mm_prefetch((const char *)(far + q * c + 16 * u), _MM_HINT_T1);
      for (int r = 0; r < rows; r++)
        for (int q = 0; q < cols; q++) EACH {
          const __m512 v = _mm512_loadu_ps(x + r * row + q * c + k + 16 * u);
          const __mmask16 more = _mm512_cmp_ps_mask(v, best[u], _CMP_GT_OQ);
          best[u] = _mm512_mask_mov_ps(best[u], more, v);
          found[u] = _mm512_mask_mov_epi32(found[u], more, _mm512_set1_epi32(3 * r + q));
        }
      EACH _mm_storeu_si128((void *)(at + o * c + k + 16 * u), _mm512_cvtepi32_epi8(found[u]));
    }
}
/* A row of dx: that of place `r` (0 to 2) in the windows of the row at (at, dy), and of place 2 in
 * those of the row before where r is 0 and there is one. */
static inline void spread(const int8_t *at, const float *dy, int64_t before, int64_t c, int64_t ow,
                          float *dx, const int rows, const int r) {
  for (int64_t k = 0; k < c; k += 64) {
    __m512 sum[3][4];
    for (int q = 0; q < 3; q++) EACH sum[q][u] = _mm512_setzero_ps();
    for (int64_t o = 0; o < ow; o++) {
      for (int n = 0; n < rows; n++) EACH {
        const int64_t e = o * c + k + 16 * u - n * before;
        const __m512i from = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(at + e)));
        const __m512 g = _mm512_loadu_ps(dy + e);
        for (int q = 0; q < 3; q++) {
          const __m512i code = _mm512_set1_epi32(3 * (n ? 2 : r) + q);
          const __mmask16 here = _mm512_cmpeq_epi32_mask(from, code);
          sum[q][u] = _mm512_mask_add_ps(sum[q][u], here, sum[q][u], g);
        }
      }
      EACH _mm512_stream_ps(dx + 2 * o * c + k + 16 * u, sum[0][u]);
      EACH _mm512_stream_ps(dx + (2 * o + 1) * c + k + 16 * u, sum[1][u]);
      EACH sum[0][u] = sum[2][u], sum[1][u] = sum[2][u] = _mm512_setzero_ps();
    }
  }
}
void pool_gradient_3x3(const void *const *in, void *out, const int64_t *p, int part, int parts) {
  const int64_t h = p[1], c = p[3], row = p[2] * c, oh = h / 2, ow = p[2] / 2, n = ow * c;
  int8_t *at = malloc((size_t)(oh * n));
  for (int64_t i = p[0] * part / parts; i < p[0] * (part + 1) / parts; i++) {
    const float *x = (const float *)in[0] + i * h * row, *dy = (const float *)in[1] + i * oh * n;
    float *dx = (float *)out + i * h * row;
    for (int64_t o = 0; o < oh; o++) {
      if (o + 1 < oh) first_maxima(x + 2 * o * row, row, c, ow, at + o * n, 3, (int)ow - 1);
      else first_maxima(x + 2 * o * row, row, c, ow, at + o * n, 2, (int)ow - 1);
    }
    for (int64_t o = 0; o < oh; o++) {
      if (o) spread(at + o * n, dy + o * n, n, c, ow, dx + 2 * o * row, 2, 0);
      else spread(at, dy, n, c, ow, dx, 1, 0);
      spread(at + o * n, dy + o * n, n, c, ow, dx + (2 * o + 1) * row, 1, 1);
    }
  }
  free(at);
}
#else
loop pool_3x3, pool_2x2, pool_2x2_planes, pool_2x2_halves, pool_3x3_planes, pool_3x3_of_112,
    pool_gradient_2x2, pool_gradient_3x3;
#define NOTHING(name) \
  void name(const void *const *in, void *out, const int64_t *p, int part, int parts) { \
    (void)in, (void)out, (void)p, (void)part, (void)parts; \
  }
NOTHING(pool_3x3)
NOTHING(pool_2x2)
NOTHING(pool_2x2_planes)
NOTHING(pool_2x2_halves)
NOTHING(pool_3x3_planes)
NOTHING(pool_3x3_of_112)
NOTHING(pool_gradient_2x2)
NOTHING(pool_gradient_3x3)
#endif
