/* vfloat.h - vectors of floats beyond simd.h: reading and writing float, half or bfloat16, stores
 * past the caches, maxima, and the exponential of numbers that are not positive.
 *
 * Invariants
 *   1. `type` is a constant where these functions are called: no branch is left.
 *   2. Halves become floats on the way into a register and are rounded once (to nearest even) on
 *      the way out; a NaN stays one.
 *   3. A part reads its first n elements, the rest as zero, and writes no others.
 * Threads: pure.
 */
#ifndef PF_CPU_VFLOAT_H
#define PF_CPU_VFLOAT_H
#include "vec/half.h"
#include "vec/simd.h"

PF_INLINE int64_t pf_vf_size(int32_t type) { return pf_is_half(type) ? 2 : 4; }
PF_INLINE void *pf_vf_at(int32_t type, const void *p, int64_t i) { /* element i */
  return (char *)p + i * pf_vf_size(type);
}
/* Where no instruction converts halves, a call does: in line the loops would be several times as
 * large. */
#define PF_BY_CALL static __attribute__((noinline, unused))
PF_BY_CALL pf_vf pf_vf_of_halves(int32_t type, const uint16_t *p) {
  float y[PF_VF];
  for (int i = 0; i < PF_VF; i++)
    y[i] = type == PF_FLOAT16 ? pf_from_half(p[i]) : pf_from_bf16(p[i]);
  return pf_vf_load(y);
}
PF_BY_CALL void pf_vf_to_halves(int32_t type, uint16_t *p, pf_vf v) {
  for (int i = 0; i < PF_VF; i++) p[i] = type == PF_FLOAT16 ? pf_to_half(v[i]) : pf_to_bf16(v[i]);
}
PF_INLINE pf_vf pf_vf_read(int32_t type, const void *p) {
  if (type == PF_FLOAT32) return pf_vf_load((const float *)p);
#if defined(__AVX512F__)
  __m256i h = _mm256_loadu_si256((const __m256i *)p);
  if (type == PF_FLOAT16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
#elif defined(__AVX2__) && defined(__FMA__)
  __m128i h = _mm_loadu_si128((const __m128i *)p);
#if defined(__F16C__)
  if (type == PF_FLOAT16) return _mm256_cvtph_ps(h);
#endif
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
#else
  return pf_vf_of_halves(type, p);
#endif
}
/* 2 PF_VF elements, in an order of their own: pf_vf_write_pair puts them back.  The halves of a
 * 32-bit word are a bfloat16 of each vector: no lane is crossed. */
PF_INLINE void pf_vf_read_pair(int32_t type, const void *p, pf_vf *a, pf_vf *b) {
#if defined(__AVX512F__)
  if (type == PF_BFLOAT16) {
    __m512i w = _mm512_loadu_si512(p);
    *a = _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
    *b = _mm512_castsi512_ps(_mm512_and_si512(w, _mm512_set1_epi32((int)0xffff0000)));
    return;
  }
#elif defined(__AVX2__) && defined(__FMA__)
  if (type == PF_BFLOAT16) {
    __m256i w = _mm256_loadu_si256((const __m256i *)p);
    *a = _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
    *b = _mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32((int)0xffff0000)));
    return;
  }
#endif
  *a = pf_vf_read(type, p);
  *b = pf_vf_read(type, (const char *)p + PF_VF * pf_vf_size(type));
}
/* the ends of rows: by call, too */
PF_BY_CALL pf_vf pf_vf_read_part_halves(int32_t type, const void *p, int64_t n) {
  uint16_t h[PF_VF] = {0};
  memcpy(h, p, 2 * (size_t)PF_MIN(n, PF_VF));
  return type == PF_FLOAT16 ? pf_vf_read(PF_FLOAT16, h) : pf_vf_read(PF_BFLOAT16, h);
}
PF_INLINE pf_vf pf_vf_read_part(int32_t type, const void *p, int64_t n) {
  if (type == PF_FLOAT32) return pf_vf_load_part((const float *)p, (int)n);
#if defined(__AVX512F__)
  __m256i h = _mm256_maskz_loadu_epi16(n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1), p);
  if (type == PF_FLOAT16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
#endif
  return pf_vf_read_part_halves(type, p, n);
}

#if defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__)
/* the upper 16 bits of the lanes of a bfloat16, as pf_to_bf16 rounds */
PF_INLINE __m256i pf_vf_bfloat16(pf_vf f) {
  __m256i w = _mm256_castps_si256(f),
          odd = _mm256_and_si256(_mm256_srli_epi32(w, 16), _mm256_set1_epi32(1));
  __m256i up = _mm256_add_epi32(_mm256_add_epi32(w, _mm256_set1_epi32(0x7fff)), odd);
  __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(f, f, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(up, _mm256_or_si256(w, _mm256_set1_epi32(0x400000)), nan);
}
PF_INLINE __m128i pf_vf_bfloat16s(pf_vf f) {
  __m256i r = _mm256_srli_epi32(pf_vf_bfloat16(f), 16);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08));
}
#endif
/* `stream`: past the caches, p being a multiple of what a vector takes there */
PF_INLINE void pf_vf_write(int32_t type, void *p, pf_vf v, int stream) {
#if defined(__AVX512F__)
  if (type == PF_FLOAT32) {
    if (stream) _mm512_stream_ps((float *)p, v);
    else _mm512_storeu_ps((float *)p, v);
    return;
  }
  __m256i h = type == PF_FLOAT16 ? _mm512_cvtps_ph(v, 0) : bfloat16_of_floats(v);
  if (stream) _mm256_stream_si256((__m256i *)p, h);
  else _mm256_storeu_si256((__m256i *)p, h);
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
  if (type == PF_FLOAT32) {
    if (stream) _mm256_stream_ps((float *)p, v);
    else _mm256_storeu_ps((float *)p, v);
    return;
  }
  __m128i h = type == PF_FLOAT16 ? _mm256_cvtps_ph(v, 0) : pf_vf_bfloat16s(v);
  if (stream) _mm_stream_si128((__m128i *)p, h);
  else _mm_storeu_si128((__m128i *)p, h);
#else
#if defined(__SSE2__)
  if (type == PF_FLOAT32 && stream) {
    _mm_stream_ps((float *)p, (__m128)v);
    return;
  }
#endif
  (void)stream;
  if (type == PF_FLOAT32) pf_vf_store((float *)p, v);
  else pf_vf_to_halves(type, p, v);
#endif
}
PF_INLINE pf_vf pf_vf_round_bfloat16(pf_vf v) {
#if defined(__AVX512F__)
  const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
  return _mm512_castsi512_ps(_mm512_and_si512(bfloat16_round(v), upper));
#elif defined(__AVX2__) && defined(__FMA__)
  const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
  return _mm256_castsi256_ps(_mm256_and_si256(pf_vf_bfloat16(v), upper));
#else
  for (int i = 0; i < PF_VF; i++) v[i] = pf_from_bf16(pf_to_bf16(v[i]));
  return v;
#endif
}
PF_INLINE void pf_vf_write_pair(int32_t type, void *p, pf_vf a, pf_vf b) {
#if defined(__AVX512F__)
  if (type == PF_BFLOAT16) {
    __m512i low = _mm512_srli_epi32(bfloat16_round(a), 16);
    _mm512_storeu_si512(p, _mm512_mask_blend_epi16(0xaaaaaaaau, low, bfloat16_round(b)));
    return;
  }
#elif defined(__AVX2__) && defined(__FMA__)
  if (type == PF_BFLOAT16) {
    __m256i low = _mm256_srli_epi32(pf_vf_bfloat16(a), 16);
    _mm256_storeu_si256((__m256i *)p, _mm256_blend_epi16(low, pf_vf_bfloat16(b), 0xaa));
    return;
  }
#endif
  pf_vf_write(type, p, a, 0);
  pf_vf_write(type, (char *)p + PF_VF * pf_vf_size(type), b, 0);
}
/* 2 PF_VF halves in pf_vf_read_pair's order past the caches; p is a multiple of their bytes */
PF_INLINE void pf_vf_stream_read_pair(int32_t type, void *p, pf_vf a, pf_vf b) {
#if defined(__AVX512F__)
  if (type == PF_BFLOAT16) {
    __m512i low = _mm512_srli_epi32(bfloat16_round(a), 16);
    low = _mm512_mask_blend_epi16(0xaaaaaaaau, low, bfloat16_round(b));
    _mm512_stream_si512((__m512i *)p, low);
    return;
  }
#endif
  pf_vf_write(type, p, a, 1);
  pf_vf_write(type, (char *)p + 2 * PF_VF, b, 1);
}
#if defined(__AVX512F__)
/* 2 PF_VF halves of floats in pf_vf_read's order */
PF_INLINE __m512i pf_vf_halves(int32_t type, pf_vf a, pf_vf b) {
  const __m512i upper =
      _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                       25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  if (type != PF_FLOAT16)
    return _mm512_permutex2var_epi16(bfloat16_round(a), upper, bfloat16_round(b));
  __m512i h = _mm512_castsi256_si512(_mm512_cvtps_ph(a, 0));
  return _mm512_inserti64x4(h, _mm512_cvtps_ph(b, 0), 1);
}
#endif
/* such 2 PF_VF halves past the caches; p is a multiple of their bytes */
PF_INLINE void pf_vf_stream_pair(int32_t type, void *p, pf_vf a, pf_vf b) {
#if defined(__AVX512F__)
  _mm512_stream_si512((__m512i *)p, pf_vf_halves(type, a, b));
#else
  pf_vf_write(type, p, a, 1);
  pf_vf_write(type, (char *)p + 2 * PF_VF, b, 1);
#endif
}
PF_BY_CALL void pf_vf_write_part_halves(int32_t type, void *p, pf_vf v, int64_t n) {
  uint16_t h[PF_VF];
  if (type == PF_FLOAT16) pf_vf_write(PF_FLOAT16, h, v, 0);
  else pf_vf_write(PF_BFLOAT16, h, v, 0);
  memcpy(p, h, 2 * (size_t)PF_MIN(n, PF_VF));
}
PF_INLINE void pf_vf_write_part(int32_t type, void *p, pf_vf v, int64_t n) {
  if (type == PF_FLOAT32) {
    pf_vf_store_part((float *)p, v, (int)n);
    return;
  }
#if defined(__AVX512F__)
  __m256i h = type == PF_FLOAT16 ? _mm512_cvtps_ph(v, 0) : bfloat16_of_floats(v);
  _mm256_mask_storeu_epi16(p, n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1), h);
#else
  pf_vf_write_part_halves(type, p, v, n);
#endif
}
PF_INLINE void pf_vf_fence(void) { /* after stores past the caches */
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/* b where either is NaN */
PF_INLINE pf_vf pf_vf_max(pf_vf a, pf_vf b) {
#if defined(__AVX512F__)
  return _mm512_max_ps(a, b);
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_max_ps(a, b);
#elif defined(__SSE2__)
  return (pf_vf)_mm_max_ps((__m128)a, (__m128)b);
#else
  for (int i = 0; i < PF_VF; i++) b[i] = a[i] > b[i] ? a[i] : b[i];
  return b;
#endif
}
/* v where p is not zero, else zero */
PF_INLINE pf_vf pf_vf_unless_zero(pf_vf p, pf_vf v) {
#if defined(__AVX512F__)
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(p, _mm512_setzero_ps(), _CMP_NEQ_UQ), v);
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_and_ps(_mm256_cmp_ps(p, _mm256_setzero_ps(), _CMP_NEQ_UQ), v);
#else
  for (int i = 0; i < PF_VF; i++) v[i] = p[i] != 0 ? v[i] : 0;
  return v;
#endif
}
/* a bit per lane: a > b; a == b */
#if defined(__AVX512F__)
PF_INLINE uint32_t pf_vf_greater(pf_vf a, pf_vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
PF_INLINE uint32_t pf_vf_equal(pf_vf a, pf_vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
#elif defined(__AVX2__) && defined(__FMA__)
PF_INLINE uint32_t pf_vf_greater(pf_vf a, pf_vf b) {
  return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ));
}
PF_INLINE uint32_t pf_vf_equal(pf_vf a, pf_vf b) {
  return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ));
}
#else
PF_INLINE uint32_t pf_vf_greater(pf_vf a, pf_vf b) {
  uint32_t bits = 0;
  for (int i = 0; i < PF_VF; i++) bits |= (uint32_t)(a[i] > b[i]) << i;
  return bits;
}
PF_INLINE uint32_t pf_vf_equal(pf_vf a, pf_vf b) {
  uint32_t bits = 0;
  for (int i = 0; i < PF_VF; i++) bits |= (uint32_t)(a[i] == b[i]) << i;
  return bits;
}
#endif
PF_INLINE float pf_vf_largest(pf_vf v) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps(v);
#else
  float x[PF_VF], best;
  pf_vf_store(x, v);
  best = x[0];
  for (int i = 1; i < PF_VF; i++) best = x[i] > best ? x[i] : best;
  return best;
#endif
}
/* the first n lanes, the others zero */
PF_INLINE pf_vf pf_vf_first(pf_vf v, int64_t n) {
#if defined(__AVX512F__)
  return _mm512_maskz_mov_ps(n >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1), v);
#else
  float x[PF_VF];
  pf_vf_store(x, v);
  return pf_vf_load_part(x, (int)n);
#endif
}
PF_INLINE pf_vf pf_vf_power(pf_vf t) { /* 2^n of an n + 127 in the low bits: n from -127 (0) on */
#if defined(__AVX512F__)
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23));
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23));
#else
  typedef uint32_t bits __attribute__((vector_size(4 * PF_VF)));
  return (pf_vf)((bits)t << 23);
#endif
}
#if defined(__AVX512F__)
/* The bits of 2^(j / 32) less j << 18: the sum with (32 n + j) << 18 is 2^(n + j / 32). */
static const uint32_t pf_powers_of_two[32] __attribute__((aligned(64), unused)) = {
  0x3f800000, 0x3f7ecd87, 0x3f7daac3, 0x3f7c980f, 0x3f7b95c2, 0x3f7aa43a, 0x3f79c3d3, 0x3f78f4f0,
  0x3f7837f0, 0x3f778d3a, 0x3f76f532, 0x3f767043, 0x3f75fed7, 0x3f75a15b, 0x3f75583f, 0x3f7523f6,
  0x3f7504f3, 0x3f74fbaf, 0x3f7508a4, 0x3f752c4d, 0x3f75672a, 0x3f75b9be, 0x3f76248c, 0x3f76a81e,
  0x3f7744fd, 0x3f77fbb8, 0x3f78ccdf, 0x3f79b907, 0x3f7ac0c7, 0x3f7be4ba, 0x3f7d257d, 0x3f7e83b3,
};
/* x = (32 n + j) ln 2 / 32 + r, |r| <= 0.011; e^r = 1 + 1.0000147 r + r^2 / 2 within 0.9 ulp, or
 * 1 + r within 6e-5 (degree 2) */
PF_INLINE pf_vf pf_vf_exp_down_by_table(pf_vf x, int degree) {
  const pf_vf magic = pf_vf_set(393216.0f); /* 1.5 * 2^18: its last digit is 1 / 32 */
  const pf_vf low = _mm512_load_ps(pf_powers_of_two), high = _mm512_load_ps(pf_powers_of_two + 16);
  x = pf_vf_max(pf_vf_set(-88.0296936f), x); /* -127 ln 2: gives 0 */
  pf_vf t = PF_VF_FMA(x, pf_vf_set(1.44269504f), magic), k = t - magic;
  pf_vf r = PF_VF_FMA(k, pf_vf_set(-0.693147182f), x);
  if (degree == 4) r = PF_VF_FMA(k, pf_vf_set(1.90465430e-9f), r); /* the rest of ln 2 */
  __m512i n = _mm512_castps_si512(t);
  __m512i root = _mm512_castps_si512(_mm512_permutex2var_ps(low, n, high));
  pf_vf s = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(n, 18), root));
  if (degree == 2) return PF_VF_FMA(s, r, s);
  return PF_VF_FMA(s * r, PF_VF_FMA(pf_vf_set(0.5f), r, pf_vf_set(1.00001466f)), s);
}
#endif
/* e^x for x <= 0, 0 below -87.7, NaN kept.  x = n ln 2 + r; e^r = 1 + r p(r), p of degree `degree`:
 *
 *     4   2.6 ulp of a float (4.9 from -20 on down); 13 operations of a vector
 *     3   6e-6                                       for halves, whose rounding is 5e-4
 *     2   1.3e-4                                     for bfloat16, whose rounding is 4e-3
 *
 * AVX-512 takes 2^(n / 32) from a table instead: 1.8 ulp (2.2), 12 operations, 7 of them on the two
 * multiplying units instead of 9; between -88.03 and -87.3 it gives some denormal.  For halves one
 * less: 5.7 ulp at most; for bfloat16 three less.
 */
PF_INLINE pf_vf pf_vf_exp_down(pf_vf x, int degree) {
#if defined(__AVX512F__)
  return pf_vf_exp_down_by_table(x, degree);
#endif
  const pf_vf magic = pf_vf_set(12582912.0f + 127.0f);
  x = pf_vf_max(pf_vf_set(-88.0f), x);
  pf_vf t = PF_VF_FMA(x, pf_vf_set(1.44269504f), magic), n = t - magic, p;
#if defined(__FMA__)
  pf_vf r = PF_VF_FMA(n, pf_vf_set(-0.693147182f), x);
#else
  pf_vf r = (x - n * pf_vf_set(0x1.62p-1f)) - n * pf_vf_set(0x1.c85fep-10f);
#endif
  pf_vf s = pf_vf_power(t);
  if (degree == 4) {
    p = PF_VF_FMA(pf_vf_set(0x1.1061b8p-7f), r, pf_vf_set(0x1.572bc4p-5f));
    p = PF_VF_FMA(p, r, pf_vf_set(0x1.5557b4p-3f));
    p = PF_VF_FMA(p, r, pf_vf_set(0x1.fffdf8p-2f));
  } else if (degree == 3) {
    p = PF_VF_FMA(pf_vf_set(0x1.522288p-5f), r, pf_vf_set(0x1.571e7cp-3f));
    p = PF_VF_FMA(p, r, pf_vf_set(0x1.0006c2p-1f));
  } else {
    p = PF_VF_FMA(pf_vf_set(0x1.5540d2p-3f), r, pf_vf_set(0x1.02068ep-1f));
  }
  p = PF_VF_FMA(p, r, pf_vf_set(1.0f));
  return PF_VF_FMA(s * r, p, s);
}
#endif
