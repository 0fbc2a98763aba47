/* gamma.c - incomplete gamma functions with their derivative by the shape parameter.
 *
 * Method: the power series x^a e^-x / gamma(a + 1) sum x^n / ((a + 1) ... (a + n)) for x up to 1 or
 * a, Legendre's continued fraction beyond (Abramowitz and Stegun 6.5.29 and 6.5.31); the upper
 * function of small a and x by the alternating series (6.5.33), without a difference from 1.
 * Derivatives by a are carried along term by term.  All loops are bounded.
 */
#include "base/common.h"
#include "elementwise/gamma.h"
#include "vec/vmath_gamma.h"

enum { TERMS = 20000 };

double pf_log_gamma(double x) {
#if defined(__GLIBC__) || defined(__APPLE__)
  int sign;
  return lgamma_r(x, &sign);
#else
  return lgamma(x);
#endif
}
double pf_digamma(double x) {
  double sum = 0;
  if (x <= 0) {
    if (x == floor(x)) return NAN;
    return pf_digamma(1 - x) - 3.14159265358979323846 / tan(3.14159265358979323846 * x);
  }
  for (; x < 10; x += 1) sum -= 1 / x;
  double s = 1 / (x * x);
  return sum + log(x) - 0.5 / x -
         s * (1.0 / 12 -
              s * (1.0 / 120 -
                   s * (1.0 / 252 -
                        s * (1.0 / 240 - s * (1.0 / 132 - s * (691.0 / 32760 - s / 12))))));
}

static pf_dual lower_series(double a, double x) {
  double term = 1, slope = 0, sum = 1, dsum = 0, r = a;
  for (int n = 0; n < TERMS; n++) {
    r += 1;
    slope = slope * x / r - term * x / (r * r);
    term *= x / r;
    sum += term;
    dsum += slope;
    if (!(fabs(term) > 1e-17 * fabs(sum)) && !(fabs(slope) > 1e-17 * fabs(dsum))) break;
  }
  double scale = exp(a * log(x) - x - pf_log_gamma(a + 1));
  return (pf_dual){scale * sum, scale * (dsum + sum * (log(x) - pf_digamma(a + 1)))};
}
/* the upper function: x^a e^-x / gamma(a) p_n / q_n, p and q by the fraction's recurrence */
static pf_dual upper_fraction(double a, double x) {
  pf_dual p0 = {1, 0}, q0 = {x, 0}, p1 = {x + 1, 0}, q1 = {(x + 2 - a) * x, -x};
  double found = p1.v / q1.v, slope = (p1.d - found * q1.d) / q1.v;
  for (int n = 1; n < TERMS; n++) {
    double b = x + 1 - a + 2 * n + 1, c = (n + 1 - a) * n; /* db/da = -1, dc/da = -n */
    pf_dual p = {b * p1.v - c * p0.v, b * p1.d - p1.v - c * p0.d + n * p0.v};
    pf_dual q = {b * q1.v - c * q0.v, b * q1.d - q1.v - c * q0.d + n * q0.v};
    if (q.v != 0) {
      double next = p.v / q.v, next_slope = (p.d - next * q.d) / q.v;
      int done = !(fabs(next - found) > 1e-16 * fabs(next)) &&
                 !(fabs(next_slope - slope) > 1e-15 * fabs(next_slope));
      found = next, slope = next_slope;
      if (done) break;
    }
    p0 = p1, q0 = q1, p1 = p, q1 = q;
    if (fabs(p.v) > 1e100) {
      p0.v *= 1e-100, p0.d *= 1e-100, q0.v *= 1e-100, q0.d *= 1e-100;
      p1.v *= 1e-100, p1.d *= 1e-100, q1.v *= 1e-100, q1.d *= 1e-100;
    }
  }
  double scale = exp(a * log(x) - x - pf_log_gamma(a));
  return (pf_dual){scale * found, scale * (slope + found * (log(x) - pf_digamma(a)))};
}
/* 1 - lower for 0 < a < 1, 0 < x <= 1, without the difference of nearly equal numbers:
 * 1 - p - p a sum (-x)^n / (n! (a + n)), p = x^a / gamma(1 + a) */
static double upper_small(double a, double x) {
  double gamma = pf_log_gamma(1 + a), term = 1, sum = 0; /* its log; of tiny a by its series */
  if (a < 1e-3)
    gamma =
        a * (-0.57721566490153286 +
             a * (0.82246703342411322 + a * (-0.40068563438653143 +
                                             a * (0.27058080842778455 - a * 0.20738555102867399))));
  for (int n = 1; n < 30; n++) term *= -x / n, sum += term / (a + n);
  double power = expm1(a * log(x) - gamma);
  return -power - (power + 1) * a * sum;
}
pf_dual pf_igamma(double a, double x) {
  if (!(x >= 0) || !(a > 0) || isinf(a))
    return (pf_dual){isinf(a) && a > 0 && x >= 0 && !isinf(x) ? 0 : NAN, NAN};
  if (x == 0) return (pf_dual){0, 0};
  if (isinf(x)) return (pf_dual){1, 0};
  if (x <= 1 || x <= a) return lower_series(a, x);
  pf_dual u = upper_fraction(a, x);
  return (pf_dual){1 - u.v, -u.d};
}
double pf_igammac(double a, double x) {
  if (!(x >= 0) || !(a > 0) || isinf(a)) return isinf(a) && a > 0 && x >= 0 && !isinf(x) ? 1 : NAN;
  if (x == 0) return 1;
  if (isinf(x)) return 0;
  if (x <= 1 && a < 1) return upper_small(a, x);
  return x <= 1 || x <= a ? 1 - lower_series(a, x).v : upper_fraction(a, x).v;
}

/* ---------------------------------------------------------------- for floats */
/* no divisions: num / den is the sum, den = (a + 1) ... (a + n) */
static double lower_float(double a, double x, double log_gamma) {
  double num = 1, den = 1, power = 1, r = a;
  for (int n = 0; n < TERMS; n++) {
    r += 1;
    power *= x;
    num = num * r + power, den *= r;
    if (!(power > 1e-10 * num)) break;
    if (num > 1e200) num *= 1e-200, den *= 1e-200, power *= 1e-200;
  }
  return exp(a * log(x) - x - log_gamma) / a * num / den;
}
static double upper_float(double a, double x, double log_gamma) {
  double p0 = 1, q0 = x, p1 = x + 1, q1 = (x + 2 - a) * x, b = x + 1 - a;
  for (int n = 1; n < TERMS; n++) {
    double c = (n + 1 - a) * n;
    b += 2;
    double p = (b + 1) * p1 - c * p0, q = (b + 1) * q1 - c * q0;
    int done = !(fabs(p * q1 - p1 * q) > 1e-10 * fabs(p * q1));
    p0 = p1, q0 = q1, p1 = p, q1 = q;
    if (done && q != 0) break;
    if (fabs(p) > 1e100) p0 *= 1e-100, q0 *= 1e-100, p1 *= 1e-100, q1 *= 1e-100;
  }
  return exp(a * log(x) - x - log_gamma) * p1 / q1;
}
/* where the short ways hold; elsewhere the long ones, with their edges */
static int is_plain(double a, double x) { return a > 1e-30 && a < 1e4 && x > 1e-30 && x < 1e4; }
double pf_igamma_float(double a, double x) {
  if (!is_plain(a, x)) return pf_igamma(a, x).v;
  double g = pf_log_gamma_float(a);
  return x <= 25 || x <= a ? lower_float(a, x, g) : 1 - upper_float(a, x, g);
}
double pf_igammac_float(double a, double x) {
  if (!is_plain(a, x)) return pf_igammac(a, x);
  if (x <= 1 && a < 1) return upper_small(a, x);
  double g = pf_log_gamma_float(a);
  return x <= 1 || x <= a ? 1 - lower_float(a, x, g) : upper_float(a, x, g);
}
