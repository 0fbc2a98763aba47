/* vmath_gamma.h - log gamma and digamma of positive numbers in double, in vmath.h's way.
 *
 * log gamma: (r - 2) Q(r - 2) with r in [1.5, 2.5] and the logarithm of what lies between x and r
 * up to 4.5, Stirling's series beyond: right to 3.2e-11 of the result, for callers that round to
 * float.  digamma: (x (x + 1) ... (x + 9))' over that product up to 10, then the asymptotic series,
 * to some double ulp (Abramowitz and Stegun 6.1.41, 6.3.18).
 * Threads: pure.
 */
#ifndef PF_CPU_VMATH_GAMMA_H
#define PF_CPU_VMATH_GAMMA_H
#include "vec/vmath.h"

/* c ? a : b, as bits: the compiler makes no jumps of it */
PF_INLINE double pf_pick_f64(int64_t c, double a, double b) {
  uint64_t m = -(uint64_t)c;
  return pf_bits_double((pf_double_bits(a) & m) | (pf_double_bits(b) & ~m));
}
/* pf_log_f64 of positive numbers without denormals and infinity */
PF_INLINE double pf_log_normal_f64(double x) {
  uint64_t u = pf_double_bits(x) - 0x3fe6a09e667f3bcdull + (2048ull << 52 >> 1);
  double e = pf_bits_double(u >> 52 | 0x4330000000000000ull) - (0x1p52 + 1024.0);
  double m = pf_bits_double((u & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull);
  return pf_log_parts_f64(m - 1.0, e);
}
PF_INLINE double pf_log_gamma_float(double x) { /* 0 < x, without denormals and infinity */
  double a = x - 1.0, b = x - 2.0, e;
  e = pf_pick_f64(x < 2.5, b, pf_pick_f64(x < 3.5, b - 1.0, b - 2.0));
  e = pf_pick_f64(x < 1.5, pf_pick_f64(x < 0.5, x, a), e);
  double between = pf_pick_f64(x < 2.5, 1.0, pf_pick_f64(x < 3.5, a, a * b));
  between = pf_pick_f64(x < 1.5, pf_pick_f64(x < 0.5, x * (x + 1.0), x), between);
  double l = pf_log_normal_f64(pf_pick_f64(x < 4.5, between, x)), q = -5.6218917150114077e-05;
  q = PF_FMA(q, e, 0.00011489005801095411);
  q = PF_FMA(q, e, -0.00021872483292378173);
  q = PF_FMA(q, e, 0.00050572126529490388);
  q = PF_FMA(q, e, -0.0011935239733504128);
  q = PF_FMA(q, e, 0.0028909442200761811);
  q = PF_FMA(q, e, -0.0073854913562546344);
  q = PF_FMA(q, e, 0.020580789163120929);
  q = PF_FMA(q, e, -0.067352302745211423);
  q = PF_FMA(q, e, 0.32246703366133472);
  q = PF_FMA(q, e, 0.42278433510634605);
  double low = q * e + pf_pick_f64(x < 1.5, -l, l), i = 1.0 / x, z = i * i, s = 1.0 / 1188;
  s = PF_FMA(s, z, -1.0 / 1680);
  s = PF_FMA(s, z, 1.0 / 1260);
  s = PF_FMA(s, z, -1.0 / 360);
  s = PF_FMA(s, z, 1.0 / 12);
  double high = PF_FMA(s, i, 0.91893853320467274) + ((x - 0.5) * l - x);
  return pf_pick_f64(x < 4.5, low, high);
}
PF_INLINE double pf_digamma_positive(double x) { /* 0 < x < infinity */
  double c = pf_pick_f64(x < 10.0, x, 1.0), product = c, slope = 1.0;
  for (int k = 1; k < 10; k++) {
    slope = PF_FMA(slope, c + k, product);
    product *= c + k;
  }
  double y = pf_pick_f64(x < 10.0, x + 10.0, x), i = 1.0 / y, z = i * i, s = 1.0 / 12;
  s = PF_FMA(-s, z, 691.0 / 32760);
  s = PF_FMA(-s, z, 1.0 / 132);
  s = PF_FMA(-s, z, 1.0 / 240);
  s = PF_FMA(-s, z, 1.0 / 252);
  s = PF_FMA(-s, z, 1.0 / 120);
  s = PF_FMA(-s, z, 1.0 / 12);
  return pf_log_normal_f64(y) - PF_FMA(s, z, 0.5 * i) - pf_pick_f64(x < 10.0, slope / product, 0.0);
}
#endif
