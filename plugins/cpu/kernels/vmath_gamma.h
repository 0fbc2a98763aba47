/* vmath_gamma.h - log gamma and digamma of positive numbers in double, in vmath.h's way.
 *
 * log gamma: (r - 2) Q(r - 2) with r in [1.5, 2.5] and the logarithm of what lies between x and r
 * up to 4.5, Stirling's series beyond: right to 3.2e-11 of the result, for callers that round to
 * float.  digamma: (x (x + 1) ... (x + 9))' over that product up to 10, then the asymptotic series, to
 * some double ulp (Abramowitz and Stegun 6.1.41, 6.3.18).
 * Threads: pure.
 */
#ifndef PF_CPU_VMATH_GAMMA_H
#define PF_CPU_VMATH_GAMMA_H
#include "vmath.h"

PF_INLINE double pf_log_gamma_float(double x) { /* 0 < x, without denormals and infinity */
  double up = x < 0.5 ? 2.0 : x < 1.5 ? 1.0 : 0.0, e = x + up;
  e = e - 2.0 - (x < 2.5 ? 0.0 : x < 3.5 ? 1.0 : 2.0);
  double between = x < 0.5 ? x * (x + 1.0) : x < 1.5 ? x : x < 2.5 ? 1.0 : x - 1.0;
  between = x < 3.5 ? between : (x - 1.0) * (x - 2.0);
  double l = pf_log_f64(x < 4.5 ? between : x), q = -5.6218917150114077e-05;
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
  double low = PF_FMA(q, e, x < 1.5 ? -l : l), i = 1.0 / x, z = i * i, s = 1.0 / 1188;
  s = PF_FMA(s, z, -1.0 / 1680);
  s = PF_FMA(s, z, 1.0 / 1260);
  s = PF_FMA(s, z, -1.0 / 360);
  s = PF_FMA(s, z, 1.0 / 12);
  double high = PF_FMA(s, i, 0.91893853320467274) + ((x - 0.5) * l - x);
  return x < 4.5 ? low : high;
}
PF_INLINE double pf_digamma_positive(double x) {
  double c = x < 10.0 ? x : 1.0, product = c, slope = 1.0;
  for (int k = 1; k < 10; k++) {
    slope = PF_FMA(slope, c + k, product);
    product *= c + k;
  }
  double y = x < 10.0 ? x + 10.0 : x, i = 1.0 / y, z = i * i, s = 1.0 / 12;
  s = PF_FMA(-s, z, 691.0 / 32760);
  s = PF_FMA(-s, z, 1.0 / 132);
  s = PF_FMA(-s, z, 1.0 / 240);
  s = PF_FMA(-s, z, 1.0 / 252);
  s = PF_FMA(-s, z, 1.0 / 120);
  s = PF_FMA(-s, z, 1.0 / 12);
  return pf_log_f64(y) - PF_FMA(s, z, 0.5 * i) - (x < 10.0 ? slope / product : 0.0);
}
#endif
