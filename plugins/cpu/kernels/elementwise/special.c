/* special.c - the special functions of two arguments Zeta and Polygamma.
 *
 * Zeta is the Hurwitz function sum 1 / (q + k)^x by Euler and Maclaurin's formula; Polygamma(a, x)
 * is (-1)^(a + 1) a! zeta(a + 1, x) (Abramowitz and Stegun 6.4.10), Digamma for a = 0 by its
 * asymptotic series.  Both are computed as double and rounded once.  Compiled once per instruction
 * set.
 */
#include "base/common.h"
#include "vec/vmath.h"

/* ---------------------------------------------------------------- Zeta, Polygamma */
/* B_2j / (2j)! */
static const double factor[] = {1.0 / 12,
                                -1.0 / 720,
                                1.0 / 30240,
                                -1.0 / 1209600,
                                1.0 / 47900160,
                                -691.0 / 1307674368000.0,
                                1.0 / 74724249600.0,
                                -3617.0 / 10670622842880000.0};
static double zeta(double x, double q) {
  if (x == 1) return INFINITY;
  if (!(x > 1) || q != q) return NAN;
  if (q == INFINITY) return 0;
  if (q <= 0 && (q == floor(q) || x != floor(x))) return q == floor(q) ? INFINITY : NAN;
  if (q < -100) { /* the negative ones from both of their ends */
    double near = -ceil(q) - 1, rest = q - ceil(q) + 1;
    double below = zeta(x, 1 - rest) - zeta(x, 2 - rest + near);
    return zeta(x, rest) + (fmod(x, 2) == 0 ? below : -below);
  }
  double sum = 0;
  for (double p, far = PF_MAX(12, x + 8); q < far; q += 1) { /* the series needs q beyond x */
    sum += p = pow(q, -x);
    if (q > 0 && !(p * q > 1e-18 * sum * (x - 1))) return sum; /* what follows is less than that */
  }
  double power = pow(q, -x), rise = x, square = 1 / (q * q), term = power / q;
  sum += power * q / (x - 1) + 0.5 * power;
  for (int j = 0; j < PF_LEN(factor); j++) {
    sum += factor[j] * rise * term;
    rise *= (x + 2 * j + 1) * (x + 2 * j + 2);
    term *= square;
  }
  return sum;
}
/* the same for callers that round to float: the powers of q, q + 1, ... side by side */
static double zeta_float(double x, double q) {
  enum { N = 16 };
  double power[N], sum = 0, square, rise = x, term;
  int n = 0;
  if (!(x > 1 && x <= 12 && q > 0 && q < 1e30)) return zeta(x, q);
  PF_ROLLED for (int k = 0; k < N; k++) power[k] = pf_exp_f64(-x * pf_log_f64(q + k));
  for (; q < 12; q += 1) sum += power[n++];
  sum += power[n] * (q / (x - 1) + 0.5);
  square = 1 / (q * q), term = power[n] / q;
  for (int j = 0; j < PF_LEN(factor); j++) {
    sum += factor[j] * rise * term;
    rise *= (x + 2 * j + 1) * (x + 2 * j + 2);
    term *= square;
  }
  return sum;
}
static double digamma(double x) {
  double sum = 0;
  if (x <= 0) {
    if (x == floor(x)) return NAN;
    return digamma(1 - x) - 3.14159265358979323846 / tan(3.14159265358979323846 * x);
  }
  for (; x < 10; x += 1) sum -= 1 / x;
  double s = 1 / (x * x);
  return sum + log(x) - 0.5 / x -
         s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s / 132))));
}
static double polygamma_by(double (*z)(double, double), double a, double x) {
  if (a < 0 || a != floor(a)) return NAN;
  if (a == 0) return digamma(x);
  double factorial = 1;
  if (a < 20)
    for (int k = 2; k <= (int)a; k++) factorial *= k;
  else factorial = tgamma(a + 1);
  return (fmod(a, 2) == 0 ? -1 : 1) * factorial * z(a + 1, x);
}
static double polygamma(double a, double x) { return polygamma_by(zeta, a, x); }
static double polygamma_float(double a, double x) { return polygamma_by(zeta_float, a, x); }

/* f over two operands that broadcast; element by element, as the functions are dear */
static pf_status pairwise(pf_ctx *c, double (*f)(double, double)) {
  const DLTensor *a = c->in[0], *b = c->in[1];
  int64_t shape[PF_MAX_DIMS], sa[PF_MAX_DIMS], sb[PF_MAX_DIMS], at[PF_MAX_DIMS] = {0}, na = 1,
                                                                nb = 1, i = 0, j = 0;
  int32_t nd = PF_MAX(a->ndim, b->ndim), type = c->in_type[0];
  PF_TRY(pf_check_rank(c, a, "the first input"));
  PF_TRY(pf_check_rank(c, b, "the second input"));
  for (int32_t d = nd - 1; d >= 0; d--) {
    int64_t da = d >= nd - a->ndim ? a->shape[d - nd + a->ndim] : 1,
            db = d >= nd - b->ndim ? b->shape[d - nd + b->ndim] : 1;
    if (da != db && da != 1 && db != 1)
      return PF_INVALID(c, "Incompatible shapes: %s vs. %s", PF_SHAPE(a).s, PF_SHAPE(b).s);
    shape[d] = da == 1 ? db : da;
    sa[d] = da == 1 ? 0 : na, sb[d] = db == 1 ? 0 : nb;
    na *= da, nb *= db;
  }
  DLTensor *y = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  for (int64_t k = 0, n = pf_numel(y); k < n; k++) {
    if (type == PF_FLOAT64)
      PF_DATA(double, y)[k] = f(PF_DATA(const double, a)[i], PF_DATA(const double, b)[j]);
    else PF_DATA(float, y)[k] = (float)f(PF_DATA(const float, a)[i], PF_DATA(const float, b)[j]);
    for (int32_t d = nd - 1; d >= 0; d--) {
      i += sa[d], j += sb[d];
      if (++at[d] < shape[d]) break;
      i -= sa[d] * shape[d], j -= sb[d] * shape[d], at[d] = 0;
    }
  }
  return PF_OK;
}
static pf_status zetas(pf_ctx *c, const void *state) {
  (void)state;
  return pairwise(c, c->in_type[0] == PF_FLOAT64 ? zeta : zeta_float);
}
static pf_status polygammas(pf_ctx *c, const void *state) {
  (void)state;
  return pairwise(c, c->in_type[0] == PF_FLOAT64 ? polygamma : polygamma_float);
}

const pf_kernel *const PF_ISA_NAME(special_kernels)[] = {
  PF_SERIES("Zeta", "T=float|double", zetas), PF_SERIES("Polygamma", "T=float|double", polygammas),
  NULL};
