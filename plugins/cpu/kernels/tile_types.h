/* tile_types.h - tile.h for float (suffix _f32) and double (_f64).  Threads: pure. */
#ifndef PF_CPU_TILE_TYPES_H
#define PF_CPU_TILE_TYPES_H
#include "simd.h"

/* y[j * ldy + i] = x[i * ldx + j], 4 x 4 */
PF_INLINE void transpose_4x4_f32(const float *x, int64_t ldx, float *y, int64_t ldy) {
#if defined(__SSE__)
  __m128 a = _mm_loadu_ps(x), b = _mm_loadu_ps(x + ldx), c = _mm_loadu_ps(x + 2 * ldx), d = _mm_loadu_ps(x + 3 * ldx);
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
  for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) y[j * ldy + i] = x[i * ldx + j];
}

#define T float
#define TILE(name) name##_f32
#define V pf_vf
#define VL PF_VF
#define V_LOAD pf_vf_load
#define V_STORE pf_vf_store
#define V_SET pf_vf_set
#define V_LOAD_PART pf_vf_load_part
#define V_STORE_PART pf_vf_store_part
#define V_FMA PF_VF_FMA
#define TRANSPOSE_4X4 transpose_4x4_f32
#include "tile.h"
#undef T
#undef TILE
#undef V
#undef VL
#undef V_LOAD
#undef V_STORE
#undef V_SET
#undef V_LOAD_PART
#undef V_STORE_PART
#undef V_FMA
#undef TRANSPOSE_4X4
#define T double
#define TILE(name) name##_f64
#define V pf_vd
#define VL PF_VD
#define V_LOAD pf_vd_load
#define V_STORE pf_vd_store
#define V_SET pf_vd_set
#define V_LOAD_PART pf_vd_load_part
#define V_STORE_PART pf_vd_store_part
#define V_FMA PF_VD_FMA
#define TRANSPOSE_4X4 transpose_4x4_f64
#include "tile.h"
#undef T
#undef TILE
#undef V
#undef VL
#undef V_LOAD
#undef V_STORE
#undef V_SET
#undef V_LOAD_PART
#undef V_STORE_PART
#undef V_FMA
#undef TRANSPOSE_4X4
#endif
