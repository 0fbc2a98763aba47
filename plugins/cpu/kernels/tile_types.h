/* tile_types.h - tile.h for float (suffix _f32) and double (_f64).  Threads: pure. */
#ifndef PF_CPU_TILE_TYPES_H
#define PF_CPU_TILE_TYPES_H
#include "simd.h"

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
  for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) y[j * ldy + i] = x[i * ldx + j];
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
  for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) y[j * ldy + i] = x[i * ldx + j];
#endif
}

#define TILE_F32
#include "tile_begin.h"
#include "tile.h"
#include "tile_end.h"
#define TILE_F64
#include "tile_begin.h"
#include "tile.h"
#include "tile_end.h"
#endif
