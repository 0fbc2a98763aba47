/* half_vectors.h - half and bfloat16 to and from vectors of floats in registers (simd.h).
 *
 * Rounds to nearest even; denormals are kept; a NaN stays a quiet NaN, as in half.h.
 * Threads: pure; stores write PF_VF elements at p, `part`s the first n of them.
 */
#ifndef PF_CPU_HALF_VECTORS_H
#define PF_CPU_HALF_VECTORS_H
#include "half.h"
#include "simd.h"

#if defined(__AVX512F__)
PF_INLINE pf_vf load_bfloat16(const uint16_t *p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
PF_INLINE pf_vf load_float16(const uint16_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
#elif defined(__AVX2__) && defined(__F16C__)
PF_INLINE pf_vf load_bfloat16(const uint16_t *p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
PF_INLINE pf_vf load_float16(const uint16_t *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
#else
PF_INLINE pf_vf load_bfloat16(const uint16_t *p) {
  float x[PF_VF];
  for (int i = 0; i < PF_VF; i++) x[i] = pf_from_bf16(p[i]);
  return pf_vf_load(x);
}
PF_INLINE pf_vf load_float16(const uint16_t *p) {
  float x[PF_VF];
  for (int i = 0; i < PF_VF; i++) x[i] = pf_from_half(p[i]);
  return pf_vf_load(x);
}
#endif
PF_INLINE pf_vf load_halves(int32_t type, const uint16_t *p) {
  return type == PF_BFLOAT16 ? load_bfloat16(p) : load_float16(p);
}
PF_INLINE pf_vf load_part(int32_t type, const uint16_t *p, int64_t n) {
  uint16_t x[PF_VF] = {0};
  for (int64_t i = 0; i < n && i < PF_VF; i++) x[i] = p[i];
  return load_halves(type, x);
}
PF_INLINE void store_halves(int32_t type, uint16_t *p, pf_vf v) {
  float x[PF_VF];
  pf_vf_store(x, v);
  if (type == PF_BFLOAT16) bfloat16_write(x, p, PF_VF);
  else half_write(x, p, PF_VF);
}
PF_INLINE void store_part(int32_t type, uint16_t *p, pf_vf v, int64_t n) {
  uint16_t y[PF_VF];
  store_halves(type, y, v);
  for (int64_t i = 0; i < n && i < PF_VF; i++) p[i] = y[i];
}
#endif
