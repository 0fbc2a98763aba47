/* special_more.c - special functions, element by element in double and rounded once: Ndtri, Erfinv,
 * BesselI0e, BesselI1e, BesselI0, BesselI1; Igamma, Igammac, IgammaGradA, RandomGammaGrad,
 * NextAfter, Xlog1py (two operands that broadcast); Betainc; PopulationCount.
 *
 * Sources: Wichura, AS 241 (1988), polished by one Newton step (normal quantile); Abramowitz and
 * Stegun 9.6.10 and 9.7.1 (Bessel), 26.5.8 (incomplete beta, by Lentz's method). Threads:
 * parallel_for over elements.
 */
#include <complex.h>
#include "base/common.h"
#include "elementwise/elementwise.h"
#include "elementwise/gamma.h"

/* ---------------------------------------------------------------- normal quantile */
static double ratio(const double *p, const double *q, double r) {
  double a = p[7], b = q[7];
  for (int i = 6; i >= 0; i--) a = a * r + p[i], b = b * r + q[i];
  return a / b;
}
static const double quantile[6][8] = {
  {3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
   4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4,
   2.5090809287301226727e3},
  {1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
   2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
   5.2264952788528545610e3},
  {1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
   1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2,
   7.74545014278341407640e-4},
  {1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1,
   1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
   1.05075007164441684324e-9},
  {6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580,
   2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
   2.71155556874348757815e-5, 2.01033439929228813265e-7},
  {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
   7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
   2.04426310338993978564e-15}};
static double ndtri(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
  double q = p - 0.5;
  if (fabs(q) <= 0.425) return q * ratio(quantile[0], quantile[1], 0.180625 - q * q);
  double r = sqrt(-log(q < 0 ? p : 1 - p));
  double x =
      r <= 5 ? ratio(quantile[2], quantile[3], r - 1.6) : ratio(quantile[4], quantile[5], r - 5);
  return q < 0 ? -x : x;
}
static double erfinv(double x) {
  double size = fabs(x);
  if (!(size < 1)) return size == 1 ? copysign(INFINITY, x) : NAN;
  double y = -ndtri(0.5 * (1 - size)) * 0.70710678118654752440;
  for (int turn = 0; turn < 2; turn++) {
    double slope = 1.12837916709551257390 * exp(-y * y);
    double miss = size > 0.5 ? (1 - size) - erfc(y) : erf(y) - size;
    y -= miss / slope;
  }
  return copysign(y, x);
}

/* ----------------------------------------------------------- Bessel functions, scaled by e^-|x| */
static double bessel(int order, double x) {
  double size = fabs(x), sum = 1, term = 1;
  if (isinf(x)) return 0;
  if (size <= 25) {
    for (int k = 1; k < 200 && term > 1e-18 * sum; k++)
      sum += term *= 0.25 * size * size / ((double)k * (k + order));
    sum *= exp(-size) * (order ? 0.5 * size : 1);
  } else {
    double mu = 4.0 * order * order;
    for (int k = 1; k < 60 && fabs(term) > 1e-17; k++) {
      double odd = 2 * k - 1;
      term *= -(mu - odd * odd) / (8 * k * size);
      sum += term;
    }
    sum /= sqrt(6.28318530717958647693 * size);
  }
  return order && x < 0 ? -sum : sum;
}
static double bessel_i0e(double x) { return x == x ? bessel(0, x) : x; }
static double bessel_i1e(double x) { return x == x ? bessel(1, x) : x; }
static double bessel_i0(double x) { return isinf(x) ? INFINITY : exp(fabs(x)) * bessel_i0e(x); }
static double bessel_i1(double x) { return isinf(x) ? x : exp(fabs(x)) * bessel_i1e(x); }

/* ---------------------------------------------------------------- one operand */
typedef struct {
  double (*f)(double);
  double (*f2)(double, double);
  const char *x, *z;
  char *y;
  int64_t step_z;
  int32_t type;
} task;
static double get(const char *x, int32_t type, int64_t i) {
  switch (type) {
    case PF_FLOAT64: return ((const double *)x)[i];
    case PF_FLOAT32: return ((const float *)x)[i];
    case PF_FLOAT16: return pf_from_half(((const uint16_t *)x)[i]);
    default: return pf_from_bf16(((const uint16_t *)x)[i]);
  }
}
static void put(char *y, int32_t type, int64_t i, double v) {
  switch (type) {
    case PF_FLOAT64: ((double *)y)[i] = v; break;
    case PF_FLOAT32: ((float *)y)[i] = (float)v; break;
    case PF_FLOAT16: ((uint16_t *)y)[i] = pf_to_half((float)v); break;
    default: ((uint16_t *)y)[i] = pf_to_bf16((float)v);
  }
}
static void one_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const task *t = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) put(t->y, t->type, i, t->f(get(t->x, t->type, i)));
}
static pf_status one(pf_ctx *c, double (*f)(double)) {
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  PF_EXHAUSTED(y);
  task t = {
    .f = f, .x = PF_DATA(const char, c->in[0]), .y = PF_DATA(char, y), .type = c->in_type[0]};
  return pf_parallel(c, pf_numel(y), pf_grain(64), one_range, &t);
}
#define ONE(NAME) \
  static pf_status NAME##_op(pf_ctx *c, const void *s) { (void)s; return one(c, NAME); }
ONE(ndtri)
ONE(erfinv)
ONE(bessel_i0e)
ONE(bessel_i1e)
ONE(bessel_i0)
ONE(bessel_i1)

/* ---------------------------------------------------------------- two operands */
static double igamma(double a, double x) { return pf_igamma(a, x).v; }
static double igamma_grad_a(double a, double x) { return x == 0 ? 0 : pf_igamma(a, x).d; }
/* d sample / d alpha at a fixed quantile: the implicit function theorem on the distribution
 * function */
static double gamma_grad(double a, double x) {
  if (!(x > 0)) return x == 0 ? 0 : NAN;
  return -pf_igamma(a, x).d / exp((a - 1) * log(x) - x - pf_log_gamma(a));
}
static double next_after(double x, double y) { return nextafter(x, y); }
static double xlog1py(double x, double y) { return x == 0 ? 0 : x * log1p(y); }

typedef struct {
  task t;
  int64_t shape[PF_MAX_DIMS], sa[PF_MAX_DIMS], sb[PF_MAX_DIMS];
  int32_t nd;
} pairs;
static void pair_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const pairs *p = arg;
  const task *t = &p->t;
  int64_t at[PF_MAX_DIMS], i = 0, j = 0, left = lo;
  (void)worker;
  for (int32_t d = p->nd - 1; d >= 0; d--) {
    at[d] = left % p->shape[d], left /= p->shape[d];
    i += at[d] * p->sa[d], j += at[d] * p->sb[d];
  }
  for (int64_t k = lo; k < hi; k++) {
    if (t->f2 == next_after && t->type == PF_FLOAT32)
      ((float *)t->y)[k] = nextafterf(((const float *)t->x)[i], ((const float *)t->z)[j]);
    else put(t->y, t->type, k, t->f2(get(t->x, t->type, i), get(t->z, t->type, j)));
    for (int32_t d = p->nd - 1; d >= 0; d--) {
      i += p->sa[d], j += p->sb[d];
      if (++at[d] < p->shape[d]) break;
      i -= p->sa[d] * p->shape[d], j -= p->sb[d] * p->shape[d], at[d] = 0;
    }
  }
}
static pf_status pair_begin(pf_ctx *c, pairs *p, DLTensor **y) {
  const DLTensor *a = c->in[0], *b = c->in[1];
  int64_t na = 1, nb = 1;
  PF_TRY(pf_check_rank(c, a, "the first input"));
  PF_TRY(pf_check_rank(c, b, "the second input"));
  PF_TRY(pf_broadcast_shape(c, a, b, p->shape, &p->nd));
  for (int32_t d = p->nd - 1; d >= 0; d--) {
    int32_t ia = d - p->nd + a->ndim, ib = d - p->nd + b->ndim;
    int64_t da = ia < 0 ? 1 : a->shape[ia], db = ib < 0 ? 1 : b->shape[ib];
    p->sa[d] = da == 1 ? 0 : na, p->sb[d] = db == 1 ? 0 : nb;
    na *= da, nb *= db;
  }
  *y = pf_output_checked(c, 0, p->shape, p->nd);
  PF_EXHAUSTED(*y);
  return PF_OK;
}
static pf_status two(pf_ctx *c, double (*f)(double, double)) {
  DLTensor *y;
  pairs p = {.t = {.f2 = f,
                   .x = PF_DATA(const char, c->in[0]),
                   .z = PF_DATA(const char, c->in[1]),
                   .type = c->in_type[0]}};
  PF_TRY(pair_begin(c, &p, &y));
  p.t.y = PF_DATA(char, y);
  return pf_parallel(c, pf_numel(y), pf_grain(256), pair_range, &p);
}
#define TWO(NAME, F) \
  static pf_status NAME##_op(pf_ctx *c, const void *s) { (void)s; return two(c, F); }
static pf_status igamma_op(pf_ctx *c, const void *s) {
  return (void)s, two(c, c->in_type[0] == PF_FLOAT64 ? igamma : pf_igamma_float);
}
static pf_status igammac_op(pf_ctx *c, const void *s) {
  return (void)s, two(c, c->in_type[0] == PF_FLOAT64 ? pf_igammac : pf_igammac_float);
}
TWO(igamma_grad_a, igamma_grad_a)
TWO(gamma_grad, gamma_grad)
TWO(next_after, next_after)
TWO(xlog1py, xlog1py)
/* the complex logarithm of 1 + y, without loss for small y */
static double _Complex complex_log1p(double _Complex y) {
  double re = creal(y), im = cimag(y);
  return 0.5 * log1p(re * (2 + re) + im * im) + I * atan2(im, 1 + re);
}
static pf_status xlog1py_complex(pf_ctx *c, const void *s) {
  DLTensor *y;
  pairs p = {.t = {.type = c->in_type[0]}};
  int64_t at[PF_MAX_DIMS] = {0}, i = 0, j = 0;
  (void)s;
  PF_TRY(pair_begin(c, &p, &y));
  for (int64_t k = 0, n = pf_numel(y); k < n; k++) {
    int wide = p.t.type == PF_COMPLEX128;
    double _Complex a = wide ? PF_DATA(const double _Complex, c->in[0])[i]
                             : PF_DATA(const float _Complex, c->in[0])[i];
    double _Complex b = wide ? PF_DATA(const double _Complex, c->in[1])[j]
                             : PF_DATA(const float _Complex, c->in[1])[j];
    double _Complex v = a == 0 ? 0 : a * complex_log1p(b);
    if (wide) PF_DATA(double _Complex, y)[k] = v;
    else PF_DATA(float _Complex, y)[k] = (float _Complex)v;
    for (int32_t d = p.nd - 1; d >= 0; d--) {
      i += p.sa[d], j += p.sb[d];
      if (++at[d] < p.shape[d]) break;
      i -= p.sa[d] * p.shape[d], j -= p.sb[d] * p.shape[d], at[d] = 0;
    }
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- Betainc */
static double beta_fraction(double a, double b, double x, double enough) {
  const double tiny = 1e-300;
  double c = 1, d = 1 - (a + b) * x / (a + 1), f;
  d = 1 / (fabs(d) < tiny ? tiny : d), f = d;
  for (int m = 1; m < 10000; m++) {
    double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), step;
    d = 1 + even * d, c = 1 + even / c;
    d = 1 / (fabs(d) < tiny ? tiny : d), c = fabs(c) < tiny ? tiny : c;
    f *= c * d;
    d = 1 + odd * d, c = 1 + odd / c;
    d = 1 / (fabs(d) < tiny ? tiny : d), c = fabs(c) < tiny ? tiny : c;
    f *= step = c * d;
    if (!(fabs(step - 1) > enough)) break;
  }
  return f;
}
static double betainc(double a, double b, double x, double enough) {
  if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1) || isinf(a) || isinf(b)) return NAN;
  if (x == 0 || x == 1) return x;
  double scale =
      exp(pf_log_gamma(a + b) - pf_log_gamma(a) - pf_log_gamma(b) + a * log(x) + b * log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return scale * beta_fraction(a, b, x, enough) / a;
  return 1 - scale * beta_fraction(b, a, 1 - x, b < 0.01 ? 1e-16 : enough) / b; /* small ones */
}
static pf_status betainc_op(pf_ctx *c, const void *state) {
  const DLTensor *like = NULL;
  int32_t type = c->in_type[0];
  (void)state;
  for (int i = 0; i < 3; i++) {
    if (!c->in[i]->ndim) continue;
    if (like && !pf_same_shape(like, c->in[i]))
      return PF_INVALID(c, "Shapes of a, b and x must be equal or scalar, got %s and %s",
                        PF_SHAPE(like).s, PF_SHAPE(c->in[i]).s);
    like = c->in[i];
  }
  DLTensor *y = pf_output_like(c, 0, like ? like : c->in[0]);
  PF_EXHAUSTED(y);
  for (int64_t k = 0, n = pf_numel(y); k < n; k++) {
    double v[3];
    for (int i = 0; i < 3; i++)
      v[i] = get(PF_DATA(const char, c->in[i]), type, c->in[i]->ndim ? k : 0);
    put(PF_DATA(char, y), type, k, betainc(v[0], v[1], v[2], type == PF_FLOAT64 ? 1e-16 : 1e-11));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- PopulationCount */
static pf_status population_count(pf_ctx *c, const void *state) {
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  const char *x = PF_DATA(const char, c->in[0]);
  (void)state;
  PF_EXHAUSTED(y);
  int64_t es = pf_type_size(c->in_type[0]), n = pf_numel(y);
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = 0;
    memcpy(&bits, x + i * es, (size_t)es); /* which bytes do not matter, only how many bits */
    PF_DATA(uint8_t, y)[i] = (uint8_t)__builtin_popcountll(bits);
  }
  return PF_OK;
}

const pf_kernel *const special_more_kernels[] = {
  PF_CPU("Ndtri", "T=" PF_FLOATS, .compute = ndtri_op),
  PF_CPU("Erfinv", "T=" PF_FLOATS, .compute = erfinv_op),
  PF_CPU("BesselI0e", "T=" PF_FLOATS, .compute = bessel_i0e_op),
  PF_CPU("BesselI1e", "T=" PF_FLOATS, .compute = bessel_i1e_op),
  PF_CPU("BesselI0", "T=" PF_FLOATS, .compute = bessel_i0_op),
  PF_CPU("BesselI1", "T=" PF_FLOATS, .compute = bessel_i1_op),
  PF_SERIES("Igamma", "T=" PF_FLOATS, igamma_op),
  PF_SERIES("Igammac", "T=" PF_FLOATS, igammac_op),
  PF_SERIES("IgammaGradA", "T=float|double", igamma_grad_a_op),
  PF_SERIES("RandomGammaGrad", "T=float|double", gamma_grad_op),
  PF_CPU("NextAfter", "T=float|double", .compute = next_after_op),
  PF_CPU("Xlog1py", "T=" PF_FLOATS, .compute = xlog1py_op),
  PF_CPU("Xlog1py", "T=complex64|complex128", .compute = xlog1py_complex),
  PF_SERIES("Betainc", "T=float|double", betainc_op),
  PF_CPU("PopulationCount", "T=" PF_INTS, .compute = population_count),
  NULL};
