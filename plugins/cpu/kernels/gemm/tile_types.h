/* tile_types.h - tile.h for float (suffix _f32) and double (_f64).  Threads: pure. */
#ifndef PF_CPU_TILE_TYPES_H
#define PF_CPU_TILE_TYPES_H
#include "vec/simd.h"

/* y[j * ldy + i] = x[i * ldx + j], 4 x 4 */
PF_INLINE void transpose_4x4_f32(const float *x, int64_t ldx, float *y, int64_t ldy) {
#if defined(__SSE__)
  __m128 a = _mm_loadu_ps(x), b = _mm_loadu_ps(x + ldx), c = _mm_loadu_ps(x + 2 * ldx),
         d = _mm_loadu_ps(x + 3 * ldx);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(y, a);
  _mm_storeu_ps(y + ldy, b);
  _mm_storeu_ps(y + 2 * ldy, c);
  _mm_storeu_ps(y + 3 * ldy, d);
#else
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) y[j * ldy + i] = x[i * ldx + j];
#endif
}
PF_INLINE void transpose_4x4_f64(const double *x, int64_t ldx, double *y, int64_t ldy) {
#if defined(__AVX2__)
  const __m256d a = _mm256_loadu_pd(x), b = _mm256_loadu_pd(x + ldx),
                c = _mm256_loadu_pd(x + 2 * ldx), d = _mm256_loadu_pd(x + 3 * ldx);
  const __m256d e = _mm256_unpacklo_pd(a, b), f = _mm256_unpackhi_pd(a, b),
                g = _mm256_unpacklo_pd(c, d), h = _mm256_unpackhi_pd(c, d);
  _mm256_storeu_pd(y, _mm256_permute2f128_pd(e, g, 0x20));
  _mm256_storeu_pd(y + ldy, _mm256_permute2f128_pd(f, h, 0x20));
  _mm256_storeu_pd(y + 2 * ldy, _mm256_permute2f128_pd(e, g, 0x31));
  _mm256_storeu_pd(y + 3 * ldy, _mm256_permute2f128_pd(f, h, 0x31));
#else
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) y[j * ldy + i] = x[i * ldx + j];
#endif
}

/* y[j * ldy + i] = x[i * ldx + j], i < 8, j < cols <= 4; four columns of x are read */
PF_INLINE void transpose_8x4_f32(const float *x, int64_t ldx, float *y, int64_t ldy, int cols) {
#if defined(__AVX2__)
  __m256 r[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x + i * ldx)),
                                _mm_loadu_ps(x + (i + 4) * ldx), 1);
  const __m256 a = _mm256_unpacklo_ps(r[0], r[1]), b = _mm256_unpackhi_ps(r[0], r[1]),
               c = _mm256_unpacklo_ps(r[2], r[3]), d = _mm256_unpackhi_ps(r[2], r[3]);
  _mm256_storeu_ps(y, _mm256_shuffle_ps(a, c, 0x44));
  if (cols > 1) _mm256_storeu_ps(y + ldy, _mm256_shuffle_ps(a, c, 0xee));
  if (cols > 2) _mm256_storeu_ps(y + 2 * ldy, _mm256_shuffle_ps(b, d, 0x44));
  if (cols > 3) _mm256_storeu_ps(y + 3 * ldy, _mm256_shuffle_ps(b, d, 0xee));
#else
  float t[4][8];
  float *to = cols < 4 ? t[0] : y;
  const int64_t ldt = cols < 4 ? 8 : ldy;
  transpose_4x4_f32(x, ldx, to, ldt);
  transpose_4x4_f32(x + 4 * ldx, ldx, to + 4, ldt);
  if (cols < 4)
    for (int j = 0; j < cols; j++) memcpy(y + j * ldy, t[j], sizeof t[j]);
#endif
}
PF_INLINE void transpose_8x4_f64(const double *x, int64_t ldx, double *y, int64_t ldy, int cols) {
#if defined(__AVX2__)
#pragma GCC unroll 2
  for (int h = 0; h < 8; h += 4, x += 4 * ldx, y += 4) {
    __m256d r[2][2];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
      r[i / 2][i % 2] =
          _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(x + (i % 2) * ldx + i / 2 * 2)),
                               _mm_loadu_pd(x + (i % 2 + 2) * ldx + i / 2 * 2), 1);
    _mm256_storeu_pd(y, _mm256_unpacklo_pd(r[0][0], r[0][1]));
    if (cols > 1) _mm256_storeu_pd(y + ldy, _mm256_unpackhi_pd(r[0][0], r[0][1]));
    if (cols > 2) _mm256_storeu_pd(y + 2 * ldy, _mm256_unpacklo_pd(r[1][0], r[1][1]));
    if (cols > 3) _mm256_storeu_pd(y + 3 * ldy, _mm256_unpackhi_pd(r[1][0], r[1][1]));
  }
#else
  for (int j = 0; j < cols; j++)
    for (int i = 0; i < 8; i++) y[j * ldy + i] = x[i * ldx + j];
#endif
}

#define TILE_F32
#include "gemm/tile_begin.h"
#include "gemm/tile.h"
#include "gemm/tile_end.h"
#define TILE_F64
#include "gemm/tile_begin.h"
#include "gemm/tile.h"
#include "gemm/tile_end.h"
#endif
