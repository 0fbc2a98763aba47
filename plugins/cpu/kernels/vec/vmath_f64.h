/* vmath_f64.h - sin, cos, tan, their inverses, sinh, cosh, asinh, acosh, atanh, erf and erfc of
 * doubles, in vmath.h's way: expressions without branches, calls or tables that a compiler turns
 * into vector code.
 *
 * For machines with a fused multiply-add only (PF_VMATH_F64): parts of pi / 2, squares and what is
 * lost need it, and without it libm is nearly as fast.  Polynomials are our own minimax fits
 * (Remez's exchange, or least squares with the leading coefficients rounded one after another, in
 * 50 digits).  Greatest error in ulp with FMA / of libm, without it, as in vmath.h (|x| < 2^20 for
 * sin, cos and tan, beyond which unary_float.c calls libm):
 *
 *     sin_f64 0.8/0.6   cos_f64 0.8/0.6   tan_f64 2.1/0.6   atan_f64 1.7/0.6   asin_f64 2.3/0.6
 *     acos_f64 1.3/0.6   sinh_f64 2.6/1.9   cosh_f64 2.4/1.7   asinh_f64 2.0/1.7
 *     acosh_f64 2.1/1.9   atanh_f64 2.3/1.6   erf_f64 1.0/1.0   erfc_f64 2.3/3.9
 *
 * erf is x + x S(x x - 1/2) below 1, where erfc is (1 - x) - x S; beyond, erfc is
 * e^-aa q P(1 - 6 q) with q = 1 / (a + 3), a a in two parts.
 * Infinities, NaN, the sign of zero and what lies outside a domain are C99's.  Threads: pure.
 */
#ifndef PF_CPU_VMATH_F64_H
#define PF_CPU_VMATH_F64_H
#include "vec/vmath.h"
#if defined(__FMA__) || defined(__aarch64__)
#define PF_VMATH_F64 1

#define PF_HALF_PI_F64 0x1.921fb54442d18p+0
#define PF_HALF_PI_REST_F64 0x1.1a62633145c07p-54  /* pi / 2 = the two together, and -1.5e-33 */

/* x = k pi/2 + r + *rest for |x| < 2^20: n times the first part is taken off exactly */
PF_INLINE double pf_reduce_pi_f64(double x, uint64_t *k, double *rest) {
  double m = PF_FMA(x, 0x1.45f306dc9c883p-1, PF_MAGIC_F64), n = m - PF_MAGIC_F64;
  *k = pf_double_bits(m);
  double far = PF_FMA(-n, PF_HALF_PI_F64, x), p = n * PF_HALF_PI_REST_F64, r = far - p;
  double lost = ((far - r) - p) - PF_FMA(n, PF_HALF_PI_REST_F64, -p);
  *rest = PF_FMA(n, 0x1.f1976b7ed8fbcp-110, lost);
  return r;
}
/* sin and cos of r + rest, |r| <= pi / 4 */
PF_INLINE double pf_sincos_r_f64(double r, double rest, double *cosine) {
  double z = r * r, h = 0.5 * z, one = 1.0 - h;
  double s = 0x1.5d931656e5bfdp-33;
  s = PF_FMA(s, z, -0x1.ae5e669bb0d1fp-26);
  s = PF_FMA(s, z, 0x1.71de3578567bbp-19);
  s = PF_FMA(s, z, -0x1.a01a019c1280dp-13);
  s = PF_FMA(s, z, 0x1.111111110f883p-7);
  s = PF_FMA(s, z, -0x1.5555555555549p-3);
  double c = -0x1.8fae9ffe09eebp-37;
  c = PF_FMA(c, z, 0x1.1ee9ebf311978p-29);
  c = PF_FMA(c, z, -0x1.27e4f80a055eep-22);
  c = PF_FMA(c, z, 0x1.a01a019cb1e66p-16);
  c = PF_FMA(c, z, -0x1.6c16c16c15180p-10);
  c = PF_FMA(c, z, 0x1.555555555554cp-5);
  *cosine = one + PF_FMA(c * z, z, PF_FMA(-r, rest, (1.0 - one) - h));
  return r + PF_FMA(s * z, r, rest * one);
}
PF_INLINE double pf_sincos_f64(double x, uint64_t turn) { /* sin(x + turn pi/2) */
  uint64_t k;
  double rest, c, r = pf_reduce_pi_f64(x, &k, &rest), s = pf_sincos_r_f64(r, rest, &c);
  k += turn;
  return pf_bits_double(pf_double_bits(k & 1 ? c : s) ^ ((k & 2) << 62));
}
PF_INLINE double pf_sin_f64(double x) { return x == 0.0 ? x : pf_sincos_f64(x, 0); }
PF_INLINE double pf_cos_f64(double x) { return pf_sincos_f64(x, 1); }
PF_INLINE double pf_tan_f64(double x) {
  uint64_t k;
  double rest, c, r = pf_reduce_pi_f64(x, &k, &rest), s = pf_sincos_r_f64(r, rest, &c);
  double y = (k & 1 ? -c : s) / (k & 1 ? s : c);
  return x == 0.0 ? x : y;
}

PF_INLINE double pf_atan_f64(double x) {
  double a = fabs(x), t = a > 1.0 ? 1.0 / a : a, z = t * t;
  double p = -0x1.5aa72922220dap-16;
  p = PF_FMA(p, z, 0x1.dbbbbe2d0e4fdp-13);
  p = PF_FMA(p, z, -0x1.3587a3c89e050p-10);
  p = PF_FMA(p, z, 0x1.ff3ce8c4ca275p-9);
  p = PF_FMA(p, z, -0x1.2f9b9d0a8b464p-7);
  p = PF_FMA(p, z, 0x1.17e8469c494e6p-6);
  p = PF_FMA(p, z, -0x1.a8d9f13384d55p-6);
  p = PF_FMA(p, z, 0x1.17b80fefe9898p-5);
  p = PF_FMA(p, z, -0x1.4fa1e3cf46796p-5);
  p = PF_FMA(p, z, 0x1.7f0cbf149b1e0p-5);
  p = PF_FMA(p, z, -0x1.ad4075ba3b78cp-5);
  p = PF_FMA(p, z, 0x1.e17b9850c1ca5p-5);
  p = PF_FMA(p, z, -0x1.1108f247402a2p-4);
  p = PF_FMA(p, z, 0x1.3b12beabb42adp-4);
  p = PF_FMA(p, z, -0x1.745d0352e0930p-4);
  p = PF_FMA(p, z, 0x1.c71c70b079844p-4);
  p = PF_FMA(p, z, -0x1.2492491ffb8d3p-3);
  p = PF_FMA(p, z, 0x1.9999999985ccfp-3);
  p = PF_FMA(p, z, -0x1.5555555555464p-2);
  p = PF_FMA(p * z, t, t);
  return copysign(a > 1.0 ? PF_HALF_PI_F64 + (PF_HALF_PI_REST_F64 - p) : p, x);
}
PF_INLINE double pf_asin_core_f64(double t, double z) { /* z = t * t <= 1/4 */
  double p = 0x1.05cebd5f7dc7ep-5;
  p = PF_FMA(p, z, -0x1.0af616ef26700p-6);
  p = PF_FMA(p, z, 0x1.40b2c704dce4cp-6);
  p = PF_FMA(p, z, 0x1.aab230667fea7p-8);
  p = PF_FMA(p, z, 0x1.8ee4d8d125530p-7);
  p = PF_FMA(p, z, 0x1.c6f874dcf7d48p-7);
  p = PF_FMA(p, z, 0x1.1c6c284573d6bp-6);
  p = PF_FMA(p, z, 0x1.6e89ef6f2b5e1p-6);
  p = PF_FMA(p, z, 0x1.f1c72c6dd961fp-6);
  p = PF_FMA(p, z, 0x1.6db6db41d1c23p-5);
  p = PF_FMA(p, z, 0x1.333333336f8ccp-4);
  p = PF_FMA(p, z, 0x1.5555555555387p-3);
  return PF_FMA(p * z, t, t);
}
PF_INLINE double pf_asin_f64(double x) {
  double a = fabs(x), z = a > 0.5 ? 0.5 - 0.5 * a : a * a;
  double y = pf_asin_core_f64(a > 0.5 ? sqrt(z) : a, z);
  return copysign(a > 0.5 ? PF_HALF_PI_F64 + (PF_HALF_PI_REST_F64 - 2.0 * y) : y, x);
}
PF_INLINE double pf_acos_f64(double x) {
  double a = fabs(x), z = a > 0.5 ? 0.5 - 0.5 * a : a * a;
  double y = pf_asin_core_f64(a > 0.5 ? sqrt(z) : x, z);
  double far = x < 0.0 ? 2.0 * PF_HALF_PI_F64 + (2.0 * PF_HALF_PI_REST_F64 - 2.0 * y) : 2.0 * y;
  return a > 0.5 ? far : PF_HALF_PI_F64 + (PF_HALF_PI_REST_F64 - y);
}

/* Half of sinh and cosh of |x| = n ln2 + r, as in vmath_arc.h */
PF_INLINE double pf_half_sinh_f64(double a, int cosine) {
  double n, r = pf_reduce_exp_f64(pf_clamp_f64(a, 0.0, 710.6), &n), z = r * r;
  double m = n > 500.0 ? 500.0 : n;
  double up = pf_bits_double((pf_double_bits(n + PF_MAGIC_F64) + 1021u) << 52); /* 2^n / 4 */
  double down = pf_bits_double((1021u - pf_double_bits(m + PF_MAGIC_F64)) << 52);
  double s = 0x1.af5ebc9c7a26cp-26;
  s = PF_FMA(s, z, 0x1.71ddf855db02cp-19);
  s = PF_FMA(s, z, 0x1.a01a01afe3de9p-13);
  s = PF_FMA(s, z, 0x1.111111110f6b3p-7);
  s = PF_FMA(s, z, 0x1.5555555555559p-3);
  s = PF_FMA(s * z, r, r);
  double c = 0x1.1f9545324db4bp-29;
  c = PF_FMA(c, z, 0x1.27e4c5029bf9fp-22);
  c = PF_FMA(c, z, 0x1.a01a01b17e335p-16);
  c = PF_FMA(c, z, 0x1.6c16c16c13f2cp-10);
  c = PF_FMA(c, z, 0x1.555555555555cp-5);
  c = PF_FMA(c, z, 0x1.0000000000000p-1);
  c *= z; /* cosh r - 1 */
  double one = cosine ? up + down : up - down, other = cosine ? up - down : up + down;
  return PF_FMA(other, s, PF_FMA(one, c, one));
}
PF_INLINE double pf_sinh_f64(double x) { return copysign(2.0 * pf_half_sinh_f64(fabs(x), 0), x); }
PF_INLINE double pf_cosh_f64(double x) { return 2.0 * pf_half_sinh_f64(fabs(x), 1); }
/* beyond 2^60 one and the square root's rest do not count */
PF_INLINE double pf_asinh_f64(double x) {
  double a = fabs(x), z = a * a;
  double w = a > 0x1p60 ? a : a + z / (1.0 + sqrt(1.0 + z));
  return copysign(pf_log1p_f64(w) + (a > 0x1p60 ? 0x1.62e42fefa39efp-1 : 0.0), x);
}
PF_INLINE double pf_acosh_f64(double x) {
  double t = x - 1.0, w = x > 0x1p60 ? x : t + sqrt(t * (2.0 + t));
  double y = pf_log1p_f64(w) + (x > 0x1p60 ? 0x1.62e42fefa39efp-1 : 0.0);
  return x < 1.0 ? NAN : y;
}
PF_INLINE double pf_atanh_f64(double x) {
  double a = fabs(x);
  return copysign(0.5 * pf_log1p_f64(2.0 * a / (1.0 - a)), x);
}

PF_INLINE double pf_erf_rest_f64(double x) { /* erf x = x + x times this, |x| <= 1 */
  double z = PF_FMA(x, x, -0.5);
  double p = -0x1.a602519611aedp-31;
  p = PF_FMA(p, z, 0x1.440974d8ac4cep-27);
  p = PF_FMA(p, z, -0x1.bf9632b594a1dp-24);
  p = PF_FMA(p, z, 0x1.1ad5221a33c77p-20);
  p = PF_FMA(p, z, -0x1.429e8f83893a7p-17);
  p = PF_FMA(p, z, 0x1.48663920a7d67p-14);
  p = PF_FMA(p, z, -0x1.263991b9dd79ap-11);
  p = PF_FMA(p, z, 0x1.c82aa249b390cp-9);
  p = PF_FMA(p, z, -0x1.2b902b7b2e869p-6);
  p = PF_FMA(p, z, 0x1.454368017b0afp-4);
  p = PF_FMA(p, z, -0x1.1fd16292151ffp-2);
  p = PF_FMA(p, z, -0x1.1ae14dc34815bp-5);
  return p;
}
/* erfc a, a >= 1; q + lost is 1 / (a + 3), rest what the last steps of P q lose */
PF_INLINE double pf_erfc_tail_f64(double a) {
  a = pf_clamp_f64(a, 1.0, 27.5);
  double h = a * a, l = PF_FMA(a, a, -h), b = a + 3.0, q = 1.0 / b, n;
  double lost = q * (PF_FMA(-b, q, 1.0) - q * (a - (b - 3.0)));
  double r = pf_reduce_exp_f64(-h, &n) - l, t = PF_FMA(-6.0, lost, PF_FMA(-6.0, q, 1.0));
  double p = 0x1.981fdb01f66d1p-24;
  p = PF_FMA(p, t, -0x1.a91aefa5a2361p-23);
  p = PF_FMA(p, t, -0x1.f9c88ea62b036p-22);
  p = PF_FMA(p, t, 0x1.0c25ddc2a9e2bp-20);
  p = PF_FMA(p, t, 0x1.77789867fbe6fp-19);
  p = PF_FMA(p, t, -0x1.3f3d2f13e7741p-18);
  p = PF_FMA(p, t, -0x1.253f0f383be25p-16);
  p = PF_FMA(p, t, 0x1.fe0d17e68c3a6p-16);
  p = PF_FMA(p, t, 0x1.c32676cc69348p-14);
  p = PF_FMA(p, t, -0x1.2239274f55f2cp-12);
  p = PF_FMA(p, t, -0x1.1f78e3c9939eap-11);
  p = PF_FMA(p, t, 0x1.8dae3aab72c4fp-9);
  p = PF_FMA(p, t, -0x1.3dd3e710d217ep-10);
  p = PF_FMA(p, t, -0x1.b78993d78a24bp-6);
  p = PF_FMA(p, t, 0x1.e995f11b1b53ap-4);
  p = PF_FMA(p, t, -0x1.3deb21415d7e3p-2);
  p = PF_FMA(p, t, 0x1.2e326945de260p-1);
  p = PF_FMA(p, t, -0x1.c44c471baa37ap-1);
  double s = PF_FMA(p, t, 0x1.12f21ddd9f5e2p+0), y = s * q;
  double rest = PF_FMA(s, lost, q * PF_FMA(p, t, 0x1.12f21ddd9f5e2p+0 - s)) + PF_FMA(s, q, -y);
  return pf_scale_f64(y + PF_FMA(y, pf_expm1_core_f64(r), rest), n);
}
#endif
#endif
