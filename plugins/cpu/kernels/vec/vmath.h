/* vmath.h - branch-free transcendental functions that a C compiler turns into vector code.
 *
 * Each is a few integer and float operations and one polynomial, without calls, branches or tables,
 * so that `for (i) y[i] = pf_exp_f32(x[i])` is vectorised for whatever ISA the including file is
 * compiled for.  The polynomials are our own near-minimax fits (Lawson-weighted least squares in
 * 80-bit arithmetic).  Greatest error in ulp, with / without FMA, over bit patterns in even steps
 * of the whole range and numbers in even steps of [-32, 32]; tests/ops/test_vmath.py asserts these
 * figures (|x| < 8192 for sin and cos, beyond which unary_float.c calls libm); with AVX-512 exp,
 * log, tanh, sigmoid and erf of floats are vmath512.h's and keep to the first figure:
 *
 *     exp_f32 1.1/1.1   expm1_f32 1.5/1.6   log_f32 1.0/0.9   log1p_f32 1.5/1.5   tanh_f32 5.3/5.8
 *     sigmoid_f32 2.5/2.5   softplus_f32 2.0/2.0   erf_f32 2.0/1.9
 *     sin_f32 2.3/2.3   cos_f32 2.3/2.3
 *     exp_f64 1.0/1.1   expm1_f64 1.9/2.0   log_f64 0.8/0.9   log1p_f64 1.4/1.4   tanh_f64 2.5/2.5
 *     sigmoid_f64 2.2/2.2   softplus_f64 2.0/2.1
 *
 * Infinities, NaN, signed zero, overflow and denormal results are libm's, except that sigmoid of a
 * very negative number is 0 where the exact result is denormal.
 */
#ifndef PF_CPU_VMATH_H
#define PF_CPU_VMATH_H
#include "base/common.h"
#include "base/isa.h"

/* 2^n * y for integral n in [-300, 300] held in the low bits of a float that had `magic` added */
#define PF_MAGIC_F32 12582912.0f               /* 1.5 * 2^23: adding it rounds to integer */
#define PF_MAGIC_F64 6755399441055744.0        /* 1.5 * 2^52 */
PF_INLINE float pf_scale_f32(float y, float n) {
  float h = n * 0.5f + PF_MAGIC_F32, k = n - (h - PF_MAGIC_F32) + PF_MAGIC_F32;
  return y * pf_bits_float((pf_float_bits(h) + 127u) << 23) *
         pf_bits_float((pf_float_bits(k) + 127u) << 23);
}
PF_INLINE double pf_scale_f64(double y, double n) {
  double h = n * 0.5 + PF_MAGIC_F64, k = n - (h - PF_MAGIC_F64) + PF_MAGIC_F64;
  return y * pf_bits_double((pf_double_bits(h) + 1023u) << 52) *
         pf_bits_double((pf_double_bits(k) + 1023u) << 52);
}
PF_INLINE float pf_clamp_f32(float x, float lo, float hi) { /* NaN stays */
  x = x < lo ? lo : x;
  return x > hi ? hi : x;
}
PF_INLINE double pf_clamp_f64(double x, double lo, double hi) {
  x = x < lo ? lo : x;
  return x > hi ? hi : x;
}

/* e^r - 1 for |r| <= ln2 / 2 */
PF_INLINE float pf_expm1_core_f32(float r) {
  float p = 0.000199178321f;
  p = PF_FMA(p, r, 0.00139460864f);
  p = PF_FMA(p, r, 0.00833326578f);
  p = PF_FMA(p, r, 0.0416662693f);
  p = PF_FMA(p, r, 0.166666672f);
  p = PF_FMA(p, r, 0.5f);
  return PF_FMA(p * r, r, r);
}
PF_INLINE double pf_expm1_core_f64(double r) {
  double p = 0x1.213905c69e42fp-29;
  p = PF_FMA(p, r, 0x1.af7b7365ba78ap-26);
  p = PF_FMA(p, r, 0x1.27e39e6ca7cc5p-22);
  p = PF_FMA(p, r, 0x1.71dde62c19a1ep-19);
  p = PF_FMA(p, r, 0x1.a01a024cc32c5p-16);
  p = PF_FMA(p, r, 0x1.a01a01b801d07p-13);
  p = PF_FMA(p, r, 0x1.6c16c16bed98ap-10);
  p = PF_FMA(p, r, 0x1.111111110dee3p-7);
  p = PF_FMA(p, r, 0x1.55555555555edp-5);
  p = PF_FMA(p, r, 0x1.555555555555fp-3);
  p = PF_FMA(p, r, 0.5);
  return PF_FMA(p * r, r, r);
}
PF_INLINE float pf_reduce_exp_f32(float x, float *n) { /* x = n ln2 + r */
  float k = PF_FMA(x, 1.44269504f, PF_MAGIC_F32) - PF_MAGIC_F32;
  *n = k;
  return PF_FMA(-k, 0x1.c85fep-10f, PF_FMA(-k, 0x1.62p-1f, x));
}
PF_INLINE double pf_reduce_exp_f64(double x, double *n) {
  double k = PF_FMA(x, 0x1.71547652b82fep+0, PF_MAGIC_F64) - PF_MAGIC_F64;
  *n = k;
  return PF_FMA(-k, 0x1.fdf473de6bp-22, PF_FMA(-k, 0x1.62e42p-1, x));
}
PF_INLINE float pf_exp_f32(float x) {
  float n, r = pf_reduce_exp_f32(pf_clamp_f32(x, -105.0f, 89.0f), &n);
  return pf_scale_f32(1.0f + pf_expm1_core_f32(r), n);
}
PF_INLINE double pf_exp_f64(double x) {
  double n, r = pf_reduce_exp_f64(pf_clamp_f64(x, -746.0, 710.0), &n);
  return pf_scale_f64(1.0 + pf_expm1_core_f64(r), n);
}
/* s = 2^(n-1): 2^n never overflows where the result does not */
PF_INLINE float pf_expm1_f32(float x) {
  float n, r = pf_reduce_exp_f32(pf_clamp_f32(x, -18.0f, 89.0f), &n);
  float s = pf_bits_float((pf_float_bits(n + PF_MAGIC_F32) + 126u) << 23);
  float y = PF_FMA(s, pf_expm1_core_f32(r), s - 0.5f) * 2.0f;
  return x == 0.0f ? x : y;
}
PF_INLINE double pf_expm1_f64(double x) {
  double n, r = pf_reduce_exp_f64(pf_clamp_f64(x, -40.0, 710.0), &n);
  double s = pf_bits_double((pf_double_bits(n + PF_MAGIC_F64) + 1022u) << 52);
  double y = PF_FMA(s, pf_expm1_core_f64(r), s - 0.5) * 2.0;
  return x == 0.0 ? x : y;
}

/* x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); for x > 0, denormals included */
PF_INLINE float pf_split_f32(float x, float *e) {
  int tiny = x < 0x1p-126f;
  uint32_t u = pf_float_bits(tiny ? x * 0x1p23f : x) - 0x3f3504f3u;
  *e = (float)((int32_t)u >> 23) - (tiny ? 23.0f : 0.0f);
  return pf_bits_float((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
}
PF_INLINE double pf_split_f64(double x, double *e) {
  int tiny = x < 0x1p-1022;
  uint64_t u = pf_double_bits(tiny ? x * 0x1p52 : x) - 0x3fe6a09e667f3bcdull + (2048ull << 52 >> 1);
  double k =
      pf_bits_double(u >> 52 | 0x4330000000000000ull) - (0x1p52 + 1024.0); /* integer to double */
  *e = k - (tiny ? 52.0 : 0.0);
  return pf_bits_double((u & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1.0;
}
PF_INLINE float pf_log_parts_f32(float f, float e) { /* log of 2^e (1 + f) */
  float z = f * f, p = 0.0691536814f;
  p = PF_FMA(p, f, -0.117898077f);
  p = PF_FMA(p, f, 0.118729763f);
  p = PF_FMA(p, f, -0.123843484f);
  p = PF_FMA(p, f, 0.142186582f);
  p = PF_FMA(p, f, -0.16669251f);
  p = PF_FMA(p, f, 0.200022265f);
  p = PF_FMA(p, f, -0.249999866f);
  p = PF_FMA(p, f, 0.333333105f);
  float y = PF_FMA(p * f, z, e * 0x1.c85fep-10f);
  return PF_FMA(e, 0x1.62p-1f, f + PF_FMA(-0.5f, z, y));
}
PF_INLINE float pf_log_f32(float x) {
  float e, f = pf_split_f32(x, &e), y = pf_log_parts_f32(f, e);
  y = x == INFINITY ? x : y;
  y = x == 0.0f ? -INFINITY : y;
  return x < 0.0f || x != x ? NAN : y;
}
PF_INLINE double pf_log_parts_f64(double f, double e) {
  double s = f / (2.0 + f), z = s * s, p = 0x1.2b5f002de3a5bp-3;
  p = PF_FMA(p, z, 0x1.39fdc7e3b7751p-3);
  p = PF_FMA(p, z, 0x1.7462b9bf40410p-3);
  p = PF_FMA(p, z, 0x1.c71c62d18f57bp-3);
  p = PF_FMA(p, z, 0x1.2492492e02eb5p-2);
  p = PF_FMA(p, z, 0x1.9999999995230p-2);
  p = PF_FMA(p, z, 0x1.5555555555558p-1);
  /* 2s = f - s f: keeps f's digits */
  double h = 0.5 * f * f;
  double y = f - (h - PF_FMA(s, PF_FMA(z, p, h), e * 0x1.fdf473de6bp-22));
  return PF_FMA(e, 0x1.62e42p-1, y);
}
PF_INLINE double pf_log_f64(double x) {
  double e, f = pf_split_f64(x, &e), y = pf_log_parts_f64(f, e);
  y = x == INFINITY ? x : y;
  y = x == 0.0 ? -INFINITY : y;
  return x < 0.0 || x != x ? NAN : y;
}
/* log(u) and what 1 + x lost by rounding to u */
PF_INLINE float pf_log1p_f32(float x) {
  float u = 1.0f + x, y = pf_log_f32(u) + (x - (u - 1.0f)) / u;
  return x == INFINITY || x == 0.0f ? x : u == 0.0f ? -INFINITY : y;
}
PF_INLINE double pf_log1p_f64(double x) {
  double u = 1.0 + x, y = pf_log_f64(u) + (x - (u - 1.0)) / u;
  return x == INFINITY || x == 0.0 ? x : u == 0.0 ? -INFINITY : y;
}
/* x P(z) / Q(z); beyond 9, x P(81) / Q(81), which is more than 1 but for rounding */
PF_INLINE float pf_tanh_f32(float x) {
  float z = x * x, p = 1.33186431e-08f, q = 7.76184152e-07f;
  z = z > 81.0f ? 81.0f : z;
  p = PF_FMA(p, z, 2.05831639e-05f);
  p = PF_FMA(p, z, 0.0034940152f);
  p = PF_FMA(p, z, 0.13379702f);
  p = PF_FMA(p, z, 1.0f);
  q = PF_FMA(q, z, 0.000328306109f);
  q = PF_FMA(q, z, 0.0258709993f);
  q = PF_FMA(q, z, 0.467130184f);
  q = PF_FMA(q, z, 1.0f);
  return pf_clamp_f32(x * p / q, -1.0f, 1.0f);
}
PF_INLINE double pf_tanh_f64(double x) {
  double t = pf_expm1_f64(pf_clamp_f64(2.0 * fabs(x), 0.0, 42.0));
  return copysign(t / (t + 2.0), x);
}
PF_INLINE float pf_sigmoid_f32(float x) { return 1.0f / (1.0f + pf_exp_f32(-x)); }
PF_INLINE double pf_sigmoid_f64(double x) { return 1.0 / (1.0 + pf_exp_f64(-x)); }
PF_INLINE float pf_softplus_f32(float x) {
  return (x < 0.0f ? 0.0f : x) + pf_log1p_f32(pf_exp_f32(-fabsf(x)));
}
PF_INLINE double pf_softplus_f64(double x) {
  return (x < 0.0 ? 0.0 : x) + pf_log1p_f64(pf_exp_f64(-fabs(x)));
}

PF_INLINE float pf_erf_f32(float x) {
  float a = fabsf(x), z = x * x, s = 7.8891193e-05f;
  s = PF_FMA(s, z, -0.000802084105f);
  s = PF_FMA(s, z, 0.00518953521f);
  s = PF_FMA(s, z, -0.0268544443f);
  s = PF_FMA(s, z, 0.112836003f);
  s = PF_FMA(s, z, -0.37612626f);
  s = PF_FMA(s, z, 0.12837911f);
  s = PF_FMA(s, x, x); /* 2/sqrt(pi) = 1 + 0.128...: one rounding less */
  float t = a > 4.0f ? 4.0f : a, g = -2.16868411e-05f;
  g = PF_FMA(g, t, 0.000441336248f);
  g = PF_FMA(g, t, -0.004204561f);
  g = PF_FMA(g, t, 0.0252082553f);
  g = PF_FMA(g, t, -0.108418576f);
  g = PF_FMA(g, t, -0.633219898f);
  g = PF_FMA(g, t, -1.12957847f);
  g = PF_FMA(g, t, 0.000188039659f);
  return a < 1.0f ? s : copysignf(1.0f - pf_exp_f32(g), x);
}

/* x = k pi/2 + r for |x| < 8192: four parts of pi/2, the first three exact times k */
PF_INLINE float pf_reduce_pi_f32(float x, uint32_t *k) {
  float m = PF_FMA(x, 0.636619772f, PF_MAGIC_F32), n = m - PF_MAGIC_F32;
  *k = pf_float_bits(m);
  float r = PF_FMA(-n, 0x1.fb4p-12f, PF_FMA(-n, 0x1.92p+0f, x));
  return PF_FMA(-n, 0x1.68c2340000000p-39f, PF_FMA(-n, 0x1.4440000000000p-24f, r));
}
PF_INLINE float pf_sincos_core_f32(float r, uint32_t k) { /* sin(r + k pi/2) */
  float z = r * r, s = 2.71831163e-06f, c = 2.44384501e-05f;
  s = PF_FMA(s, z, -0.000198393347f);
  s = PF_FMA(s, z, 0.00833332911f);
  s = PF_FMA(s, z, -0.166666672f);
  s = PF_FMA(s * z, r, r);
  c = PF_FMA(c, z, -0.00138873677f);
  c = PF_FMA(c, z, 0.0416666456f);
  c = PF_FMA(c * z, z, PF_FMA(-0.5f, z, 1.0f));
  return pf_bits_float(pf_float_bits(k & 1 ? c : s) ^ ((k & 2) << 30));
}
PF_INLINE float pf_sin_f32(float x) {
  uint32_t k;
  float r = pf_reduce_pi_f32(x, &k), y = pf_sincos_core_f32(r, k);
  return x == 0.0f ? x : y;
}
PF_INLINE float pf_cos_f32(float x) {
  uint32_t k;
  float r = pf_reduce_pi_f32(x, &k);
  return pf_sincos_core_f32(r, k + 1);
}
#endif
