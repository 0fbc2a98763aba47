/* elementwise_pools.c - bounds other than memory's of pooling
 * (benchmarks/elementwise.py, column "bound"): each the best loop known for the job, never part of
 * pyflow.  Signature: elementwise_loops.h.
 *
 *   pool_3x3          args n, h, w, c, stride, average: every window that needs no padding, two
 *                     rows of windows at once, columns rolling through registers
 *   pool_2x2_halves   args n, h, w, c, bfloat16, average
 *   pool_2x2_planes   args planes, h, w: maxima of channels-first images
 *
 * NaN is not looked for.  Without AVX-512 they do nothing and no bound is printed to speak of.
 */
#include "elementwise_loops.h"

#if defined(__AVX512BW__)
#define EACH _Pragma("GCC unroll 4") for (int u = 0; u < 4; u++)
typedef struct { __m512 above, below; } pair;

static inline __m512 join(__m512 a, __m512 b, int average) {
  return average ? _mm512_add_ps(a, b) : _mm512_max_ps(a, b);
}
static inline pair column(const float *x, int64_t row, int s, int average) {
  const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + row),
               c = _mm512_loadu_ps(x + 2 * row), d = _mm512_loadu_ps(x + 3 * row),
               e = s == 2 ? _mm512_loadu_ps(x + 4 * row) : d;
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
static inline void images_3x3(const float *x, float *y, const int64_t *p, int64_t lo, int64_t hi,
                              const int s, const int average) {
  const int64_t h = p[1], w = p[2], c = p[3], row = w * c, oh = (h - 3) / s + 1;
  const int64_t ow = (w - 3) / s + 1;
  for (int64_t i = lo; i < hi; i++)
    for (int64_t o = 0; o + 2 <= oh; o += 2)
      for (int64_t k = 0; k < c; k += 64) {
        const float *q = x + (i * h + o * s) * row + k;
        float *z = y + (i * oh + o) * ow * c + k;
        pair first[4], second[4];
        EACH first[u] = column(q + 16 * u, row, s, average);
        if (s == 1) EACH second[u] = column(q + c + 16 * u, row, s, average);
        for (int64_t j = 0; j < ow; j++, q += s * c, z += c) EACH {
          if (s == 2) second[u] = column(q + c + 16 * u, row, s, average);
          const pair third = column(q + 2 * c + 16 * u, row, s, average);
          results(z + 16 * u, first[u], second[u], third, ow * c, average);
          first[u] = s == 1 ? second[u] : third, second[u] = third;
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
      const uint16_t *q = x + 2 * r * row + 2 * j * c;
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

void pool_2x2_planes(const void *const *in, void *out, const int64_t *p, int part, int parts) {
  const int64_t rows = p[0] * p[1] / 2, w = p[2], lo = rows * part / parts;
  const int64_t hi = rows * (part + 1) / parts, even = 2 * w;
  __m512i at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i next = _mm512_add_epi32(at, _mm512_set1_epi32(1));
  for (int64_t r = lo; r < hi; r++) {
    const float *q = (const float *)in[0] + r * even;
    float *z = (float *)out + r * (w / 2);
    for (int64_t j = 0; j < w / 2; j += 16) {
      const int64_t o = j + 16 <= w / 2 ? j : w / 2 - 16;
      const float *a = q + 2 * o;
      const __m512 v = _mm512_max_ps(_mm512_loadu_ps(a), _mm512_loadu_ps(a + w));
      const __m512 u = _mm512_max_ps(_mm512_loadu_ps(a + 16), _mm512_loadu_ps(a + w + 16));
      _mm512_storeu_ps(z + o, _mm512_max_ps(_mm512_permutex2var_ps(v, at, u),
                                            _mm512_permutex2var_ps(v, next, u)));
    }
  }
}
#else
loop pool_3x3, pool_2x2_halves, pool_2x2_planes;
#define NOTHING(name) \
  void name(const void *const *in, void *out, const int64_t *p, int part, int parts) { \
    (void)in, (void)out, (void)p, (void)part, (void)parts; \
  }
NOTHING(pool_3x3)
NOTHING(pool_2x2_halves)
NOTHING(pool_2x2_planes)
#endif
