/* vmath_arc.h - inverse trigonometric and hyperbolic functions, tan, sinh, cosh and erfc of floats,
 * in vmath.h's way: expressions without branches, calls or tables that a compiler turns into vector
 * code.
 *
 * Arguments are halved or inverted into a small interval, where an odd near-minimax polynomial (our
 * own fits: Lawson's weights, Chebyshev's basis) is right to a third of an ulp; acosh, asinh and
 * large atanh use vmath.h's logarithm; erfc is (1 - x) - x S(x x - 1/2) below 1, and beyond it
 * e^-aa q P(1 - 4 q) with q = 1 / (a + 2), a a in two parts.  Greatest error in ulp, with / without
 * FMA, as in vmath.h:
 *
 *     atan_f32 1.6/1.6   atan2_f32 1.7/1.8   asin_f32 2.5/2.5   acos_f32 1.3/1.3   tan_f32 3.3/3.3
 *     sinh_f32 2.4/2.4   cosh_f32 2.6/2.6   asinh_f32 2.1/2.1   acosh_f32 2.1/2.1
 *     atanh_f32 1.5/1.5   erfc_f32 2.5/3.3
 *
 * Infinities, NaN, the sign of zero, what lies outside a domain and all quadrants are C99's.
 * Threads: pure.
 */
#ifndef PF_CPU_VMATH_ARC_H
#define PF_CPU_VMATH_ARC_H
#include "vec/vmath.h"

/* memcpy out of line, for the tails of such loops */
__attribute__((noinline, unused)) static void pf_copy_some(void *to, const void *from, size_t n) {
  memcpy(to, from, n);
}

#define PF_HALF_PI_F32 1.57079637f
#define PF_HALF_PI_REST_F32 -4.37113883e-08f    /* pi / 2 = the two together */

PF_INLINE float pf_atan_core_f32(float t) { /* |t| <= 1 */
  float z = t * t, p = -0.00179359387f;
  p = PF_FMA(p, z, 0.0109144812f);
  p = PF_FMA(p, z, -0.0311776139f);
  p = PF_FMA(p, z, 0.0579573587f);
  p = PF_FMA(p, z, -0.0840343684f);
  p = PF_FMA(p, z, 0.109521814f);
  p = PF_FMA(p, z, -0.142642409f);
  p = PF_FMA(p, z, 0.199985489f);
  p = PF_FMA(p, z, -0.333332986f);
  return PF_FMA(p * z, t, t);
}
PF_INLINE float pf_atan_f32(float x) {
  float a = fabsf(x), y = pf_atan_core_f32(a > 1.0f ? 1.0f / a : a);
  return copysignf(a > 1.0f ? PF_HALF_PI_F32 + (PF_HALF_PI_REST_F32 - y) : y, x);
}
PF_INLINE float pf_atan2_f32(float y, float x) {
  float a = fabsf(x), b = fabsf(y), lo = a < b ? a : b, hi = a < b ? b : a;
  float t = hi == 0.0f ? 0.0f : lo == INFINITY ? 1.0f : lo / hi, r = pf_atan_core_f32(t);
  r = a < b ? PF_HALF_PI_F32 + (PF_HALF_PI_REST_F32 - r) : r;
  r = pf_float_bits(x) >> 31 ? 2.0f * PF_HALF_PI_F32 + (2.0f * PF_HALF_PI_REST_F32 - r) : r;
  return x != x || y != y ? x + y : copysignf(r, y);
}
PF_INLINE float pf_asin_core_f32(float t, float z) { /* z = t * t <= 1/4 */
  float p = 0.0422185473f;
  p = PF_FMA(p, z, 0.0241476111f);
  p = PF_FMA(p, z, 0.045477096f);
  p = PF_FMA(p, z, 0.0749524161f);
  p = PF_FMA(p, z, 0.166667536f);
  return PF_FMA(p * z, t, t);
}
PF_INLINE float pf_asin_f32(float x) {
  float a = fabsf(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a;
  float y = pf_asin_core_f32(a > 0.5f ? sqrtf(z) : a, z);
  return copysignf(a > 0.5f ? PF_HALF_PI_F32 + (PF_HALF_PI_REST_F32 - 2.0f * y) : y, x);
}
PF_INLINE float pf_acos_f32(float x) {
  float a = fabsf(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a;
  float y = pf_asin_core_f32(a > 0.5f ? sqrtf(z) : x, z);
  float far = x < 0.0f ? 2.0f * PF_HALF_PI_F32 + (2.0f * PF_HALF_PI_REST_F32 - 2.0f * y) : 2.0f * y;
  return a > 0.5f ? far : PF_HALF_PI_F32 + (PF_HALF_PI_REST_F32 - y);
}
PF_INLINE float pf_tan_f32(float x) { /* |x| < 8192 */
  uint32_t k;
  float r = pf_reduce_pi_f32(x, &k), z = r * r, p = 0.00946642086f;
  p = PF_FMA(p, z, 0.00297306129f);
  p = PF_FMA(p, z, 0.0245291218f);
  p = PF_FMA(p, z, 0.0533810146f);
  p = PF_FMA(p, z, 0.133392036f);
  p = PF_FMA(p, z, 0.333331406f);
  p = PF_FMA(p * z, r, r);
  return x == 0.0f ? x : k & 1 ? -1.0f / p : p;
}

/* Half of sinh (hyperbolic sine) and cosh of |x| = n ln2 + r, by those of n ln2 and of r */
PF_INLINE float pf_half_sinh_f32(float a, int cosine) {
  float n, r = pf_reduce_exp_f32(pf_clamp_f32(a, 0.0f, 89.6f), &n), z = r * r;
  float m = n > 60.0f ? 60.0f : n;
  float up = pf_bits_float((pf_float_bits(n + PF_MAGIC_F32) + 125u) << 23); /* 2^n / 4 */
  float down = pf_bits_float((125u - pf_float_bits(m + PF_MAGIC_F32)) << 23);
  float s = PF_FMA(0.000199059505f, z, 0.0083332872f), c = PF_FMA(0.00139361271f, z, 0.0416664518f);
  s = PF_FMA(s, z, 0.166666672f);
  s = PF_FMA(s * z, r, r);
  c = PF_FMA(c, z, 0.5f) * z; /* cosh r - 1 */
  float one = cosine ? up + down : up - down, other = cosine ? up - down : up + down;
  return PF_FMA(other, s, PF_FMA(one, c, one));
}
PF_INLINE float pf_sinh_f32(float x) { return copysignf(2.0f * pf_half_sinh_f32(fabsf(x), 0), x); }
PF_INLINE float pf_cosh_f32(float x) { return 2.0f * pf_half_sinh_f32(fabsf(x), 1); }

/* beyond 2^27 one and the square root's rest do not count */
PF_INLINE float pf_asinh_f32(float x) {
  float a = fabsf(x), z = a * a;
  float w = a > 0x1p27f ? a : a + z / (1.0f + sqrtf(1.0f + z));
  return copysignf(pf_log1p_f32(w) + (a > 0x1p27f ? 0.693147182f : 0.0f), x);
}
PF_INLINE float pf_acosh_f32(float x) {
  float t = x - 1.0f, w = x > 0x1p27f ? x : t + sqrtf(t * (2.0f + t));
  float y = pf_log1p_f32(w) + (x > 0x1p27f ? 0.693147182f : 0.0f);
  return x < 1.0f ? NAN : y;
}
PF_INLINE float pf_atanh_f32(float x) {
  float a = fabsf(x), z = a * a, p = 0.177196324f;
  p = PF_FMA(p, z, 0.0509856194f);
  p = PF_FMA(p, z, 0.118339576f);
  p = PF_FMA(p, z, 0.142214879f);
  p = PF_FMA(p, z, 0.200025871f);
  p = PF_FMA(p, z, 0.333332986f);
  float y = PF_FMA(p * z, a, a);
  return copysignf(a < 0.5f ? y : 0.5f * pf_log_f32((1.0f + a) / (1.0f - a)), x);
}

/* erf x = x + x times this, |x| <= 1: about z = 1/2, so that 1 - erf keeps its digits */
PF_INLINE float pf_erf_rest_f32(float x) {
  float z = PF_FMA(x, x, -0.5f), s = 7.68538237e-05f;
  s = PF_FMA(s, z, -0.000565148642f);
  s = PF_FMA(s, z, 0.00348089748f);
  s = PF_FMA(s, z, -0.0182834332f);
  s = PF_FMA(s, z, 0.0794099291f);
  s = PF_FMA(s, z, -0.28107219f);
  return PF_FMA(s, z, -0.0345312606f);
}
#if defined(__FMA__) || defined(__aarch64__)
/* erfc a, a >= 1; as pf_erfc_tail_f64 */
PF_INLINE float pf_erfc_tail_f32(float a) {
  a = pf_clamp_f32(a, 1.0f, 11.0f);
  float h = a * a, l = PF_FMA(a, a, -h), b = a + 2.0f, q = 1.0f / b, n;
  float lost = q * (PF_FMA(-b, q, 1.0f) - q * (a - (b - 2.0f)));
  float r = pf_reduce_exp_f32(-h, &n) - l, t = PF_FMA(-4.0f, lost, PF_FMA(-4.0f, q, 1.0f));
  float p = -0.000270466064f;
  p = PF_FMA(p, t, -0.00108070078f);
  p = PF_FMA(p, t, 0.0030592691f);
  p = PF_FMA(p, t, 0.00652941727f);
  p = PF_FMA(p, t, -0.0215138005f);
  p = PF_FMA(p, t, -0.0364452767f);
  p = PF_FMA(p, t, 0.279472336f);
  p = PF_FMA(p, t, -0.687160635f);
  float s = PF_FMA(p, t, 1.0215827f), y = s * q;
  float rest = PF_FMA(s, lost, q * PF_FMA(p, t, 1.0215827f - s)) + PF_FMA(s, q, -y);
  return pf_scale_f32(y + PF_FMA(y, pf_expm1_core_f32(r), rest), n);
}
#else /* e^-hh e^-(a-h)(a+h) P((a-2) / (a+2)) / (1 + 2a) */
PF_INLINE float pf_erfc_tail_f32(float a) {
  a = pf_clamp_f32(a, 1.0f, 11.0f);
  float n, h = pf_bits_float(pf_float_bits(a) & 0xfffff000u); /* half of its digits */
  float r = pf_reduce_exp_f32(-h * h, &n) - (a - h) * (a + h);
  float t = (a - 2.0f) / (a + 2.0f), p = -0.000399449607f;
  p = PF_FMA(p, t, -0.00122800237f);
  p = PF_FMA(p, t, 0.00131330988f);
  p = PF_FMA(p, t, 0.00863009784f);
  p = PF_FMA(p, t, -0.00806014333f);
  p = PF_FMA(p, t, -0.0542038828f);
  p = PF_FMA(p, t, 0.164055422f);
  p = PF_FMA(p, t, -0.166031465f);
  p = PF_FMA(p, t, -0.0927639827f);
  p = PF_FMA(p, t, 1.27697837f);
  p = p / (1.0f + 2.0f * a);
  return pf_scale_f32(PF_FMA(p, pf_expm1_core_f32(r), p), n);
}
#endif
#endif
