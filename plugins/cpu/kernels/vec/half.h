/* half.h - arrays of half and bfloat16 to float and back, with the widest conversion instructions
 * of the instruction set the including file is compiled for (F16C, AVX-512), else integer
 * arithmetic.
 *
 * Rounds to nearest even; denormals are kept; a NaN stays a (quiet) NaN.
 * Threads: pure; they write only y.
 */
#ifndef PF_CPU_HALF_H
#define PF_CPU_HALF_H
#include "base/common.h"
#if defined(__F16C__)
#include "vec/intrinsics.h"
#endif

PF_INLINE void half_read(const uint16_t *x, float *y, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(x + i))));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
#else
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; k++) y[i + k] = pf_from_half(x[i + k]);
#endif
  for (; i < n; i++) y[i] = pf_from_half(x[i]);
}
PF_INLINE void half_write(const float *x, uint16_t *y, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256((__m256i *)(y + i), _mm512_cvtps_ph(_mm512_loadu_ps(x + i), 0));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
#else
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; k++) y[i + k] = pf_to_half(x[i + k]);
#endif
  for (; i < n; i++) y[i] = pf_to_half(x[i]);
}
#if defined(__AVX512F__)
PF_INLINE __m512 bfloat16_floats(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
#endif
PF_INLINE void bfloat16_read(const uint16_t *x, float *y, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(y + i, bfloat16_floats(_mm256_loadu_si256((const __m256i *)(x + i))));
#elif defined(__AVX2__)
  for (; i + 8 <= n; i += 8) {
    __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(x + i)));
    _mm256_storeu_si256((__m256i *)(y + i), _mm256_slli_epi32(w, 16));
  }
#endif
  for (; i < n; i++) y[i] = pf_from_bf16(x[i]);
}
/* as pf_to_bf16: half of the last place and the bit above it are added, a NaN is made quiet */
#if defined(__AVX512F__)
PF_INLINE __m512i bfloat16_round(__m512 f) { /* the upper 16 bits of the lanes */
  __m512i w = _mm512_castps_si512(f), up = _mm512_add_epi32(w, _mm512_set1_epi32(0x7fff));
  up = _mm512_mask_add_epi32(up, _mm512_test_epi32_mask(w, _mm512_set1_epi32(0x10000)), up,
                             _mm512_set1_epi32(1));
  return _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask(f, f, _CMP_UNORD_Q), w,
                              _mm512_set1_epi32(0x400000));
}
PF_INLINE __m256i bfloat16_of_floats(__m512 f) {
  const __m512i upper = _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1,
                                         31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  return _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper, bfloat16_round(f)));
}
#endif
PF_INLINE void bfloat16_write(const float *x, uint16_t *y, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256((__m256i *)(y + i), bfloat16_of_floats(_mm512_loadu_ps(x + i)));
#elif defined(__AVX2__)
  const __m256i half = _mm256_set1_epi32(0x7fff), one = _mm256_set1_epi32(1);
  for (; i + 8 <= n; i += 8) {
    __m256 f = _mm256_loadu_ps(x + i);
    __m256i w = _mm256_castps_si256(f), top = _mm256_srli_epi32(w, 16);
    __m256i up = _mm256_add_epi32(_mm256_add_epi32(w, half), _mm256_and_si256(top, one));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(f, f, _CMP_UNORD_Q));
    __m256i r = _mm256_blendv_epi8(_mm256_srli_epi32(up, 16),
                                   _mm256_or_si256(top, _mm256_set1_epi32(0x40)), nan);
    r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08);
    _mm_storeu_si128((__m128i *)(y + i), _mm256_castsi256_si128(r));
  }
#endif
  for (; i < n; i++) y[i] = pf_to_bf16(x[i]);
}
PF_INLINE void halves_read(int32_t type, const void *x, float *y, int64_t n) {
  if (type == PF_BFLOAT16) bfloat16_read((const uint16_t *)x, y, n);
  else half_read((const uint16_t *)x, y, n);
}
PF_INLINE void halves_write(int32_t type, const float *x, void *y, int64_t n) {
  if (type == PF_BFLOAT16) bfloat16_write(x, (uint16_t *)y, n);
  else half_write(x, (uint16_t *)y, n);
}
#endif
