/* simd.h - the widest vectors of the instruction set this file is compiled for, with a fused
 * multiply-add.
 *
 * Invariants
 *   1. Vectors are the compiler's generic ones: + - * work on them, whatever the machine.
 *   2. Loads and stores go through memcpy-like accesses: no alignment is asked.
 *   3. pf_vf has PF_VF floats, pf_vd has PF_VD doubles.
 * Threads: pure.
 */
#ifndef PF_CPU_SIMD_H
#define PF_CPU_SIMD_H
#include "base/common.h"
#if defined(__AVX512F__)
#include "vec/intrinsics.h"
enum { PF_VF = 16, PF_VD = 8 };
typedef __m512 pf_vf;
typedef __m512d pf_vd;
#define PF_VF_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define PF_VD_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__)
#include "vec/intrinsics.h"
enum { PF_VF = 8, PF_VD = 4 };
typedef __m256 pf_vf;
typedef __m256d pf_vd;
#define PF_VF_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define PF_VD_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#else
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
enum { PF_VF = 4, PF_VD = 2 };
typedef float pf_vf __attribute__((vector_size(16)));
typedef double pf_vd __attribute__((vector_size(16)));
#if defined(__aarch64__)
#include <arm_neon.h>
#define PF_VF_FMA(a, b, c) ((pf_vf)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define PF_VD_FMA(a, b, c) ((pf_vd)vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#else
#define PF_VF_FMA(a, b, c) ((a) * (b) + (c))
#define PF_VD_FMA(a, b, c) ((a) * (b) + (c))
#endif
#endif
typedef pf_vf __attribute__((aligned(4), may_alias)) pf_vf_any;
typedef pf_vd __attribute__((aligned(8), may_alias)) pf_vd_any;
PF_INLINE pf_vf pf_vf_load(const float *p) { return *(const pf_vf_any *)p; }
PF_INLINE pf_vd pf_vd_load(const double *p) { return *(const pf_vd_any *)p; }
PF_INLINE void pf_vf_store(float *p, pf_vf v) { *(pf_vf_any *)p = v; }
PF_INLINE void pf_vd_store(double *p, pf_vd v) { *(pf_vd_any *)p = v; }

#if defined(__AVX512F__)
PF_INLINE pf_vf pf_vf_set(float x) { return _mm512_set1_ps(x); }
PF_INLINE pf_vd pf_vd_set(double x) { return _mm512_set1_pd(x); }
#elif defined(__AVX2__) && defined(__FMA__)
PF_INLINE pf_vf pf_vf_set(float x) { return _mm256_set1_ps(x); }
PF_INLINE pf_vd pf_vd_set(double x) { return _mm256_set1_pd(x); }
#else
PF_INLINE pf_vf pf_vf_set(float x) { return (pf_vf){x, x, x, x}; }
PF_INLINE pf_vd pf_vd_set(double x) { return (pf_vd){x, x}; }
#endif

/* Lanes of a and b, numbered by constants, b's behind a's.  KEYS: a vector type of integers as wide
 * as the lanes, which GCC 11 asks for. */
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector)
#define PF_SHUFFLE(KEYS, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PF_SHUFFLE(KEYS, a, b, ...) __builtin_shuffle(a, b, (KEYS){__VA_ARGS__})
#endif

/* The sum of all lanes, halves first. */
#if defined(__AVX2__) && defined(__FMA__)
PF_INLINE float pf_sum_256(__m256 x) {
  __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  y = _mm_add_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_add_ss(y, _mm_shuffle_ps(y, y, 1)));
}
PF_INLINE double pf_sum_256d(__m256d x) {
  __m128d y = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(_mm_add_sd(y, _mm_unpackhi_pd(y, y)));
}
#endif
#if defined(__AVX512F__)
PF_INLINE float pf_vf_sum(pf_vf v) {
  return pf_sum_256(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}
PF_INLINE double pf_vd_sum(pf_vd v) {
  return pf_sum_256d(_mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1)));
}
#elif defined(__AVX2__) && defined(__FMA__)
PF_INLINE float pf_vf_sum(pf_vf v) { return pf_sum_256(v); }
PF_INLINE double pf_vd_sum(pf_vd v) { return pf_sum_256d(v); }
#else
PF_INLINE float pf_vf_sum(pf_vf v) { return (v[0] + v[2]) + (v[1] + v[3]); }
PF_INLINE double pf_vd_sum(pf_vd v) { return v[0] + v[1]; }
#endif

/* The first n elements, 0 <= n; the rest reads as zero and is not written. */
#if defined(__AVX512F__)
PF_INLINE pf_vf pf_vf_load_part(const float *p, int n) {
  return _mm512_maskz_loadu_ps(n >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1), p);
}
PF_INLINE void pf_vf_store_part(float *p, pf_vf v, int n) {
  _mm512_mask_storeu_ps(p, n >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1), v);
}
PF_INLINE pf_vd pf_vd_load_part(const double *p, int n) {
  return _mm512_maskz_loadu_pd(n >= 8 ? (__mmask8)0xff : (__mmask8)((1u << n) - 1), p);
}
PF_INLINE void pf_vd_store_part(double *p, pf_vd v, int n) {
  _mm512_mask_storeu_pd(p, n >= 8 ? (__mmask8)0xff : (__mmask8)((1u << n) - 1), v);
}
#elif defined(__AVX2__) && defined(__FMA__)
PF_INLINE __m256i pf_lanes_32(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
PF_INLINE __m256i pf_lanes_64(int n) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
PF_INLINE pf_vf pf_vf_load_part(const float *p, int n) {
  return _mm256_maskload_ps(p, pf_lanes_32(n));
}
PF_INLINE void pf_vf_store_part(float *p, pf_vf v, int n) {
  _mm256_maskstore_ps(p, pf_lanes_32(n), v);
}
PF_INLINE pf_vd pf_vd_load_part(const double *p, int n) {
  return _mm256_maskload_pd(p, pf_lanes_64(n));
}
PF_INLINE void pf_vd_store_part(double *p, pf_vd v, int n) {
  _mm256_maskstore_pd(p, pf_lanes_64(n), v);
}
#else
PF_INLINE pf_vf pf_vf_load_part(const float *p, int n) {
  float t[PF_VF] = {0};
  for (int i = 0; i < PF_VF && i < n; i++) t[i] = p[i];
  return pf_vf_load(t);
}
PF_INLINE void pf_vf_store_part(float *p, pf_vf v, int n) {
  float t[PF_VF];
  memcpy(t, &v, sizeof t);
  for (int i = 0; i < PF_VF && i < n; i++) p[i] = t[i];
}
PF_INLINE pf_vd pf_vd_load_part(const double *p, int n) {
  double t[PF_VD] = {0};
  for (int i = 0; i < PF_VD && i < n; i++) t[i] = p[i];
  return pf_vd_load(t);
}
PF_INLINE void pf_vd_store_part(double *p, pf_vd v, int n) {
  double t[PF_VD];
  memcpy(t, &v, sizeof t);
  for (int i = 0; i < PF_VD && i < n; i++) p[i] = t[i];
}
#endif
#endif
