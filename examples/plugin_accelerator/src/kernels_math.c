/* kernels_math.c - element by element: unary, binary with broadcasting, comparisons, Cast, Select,
 * AddN, Fill and its relatives.
 *
 * One loop (run_map) serves all of the form y = f(a, b): floating point goes through doubles, which
 * rounds as float arithmetic does; integers through int64.
 */
#include "launch.h"
#include <math.h>

/* ---------------------------------------------------------------- y = f(a, b), broadcast */
/* Steps of `a` along the dimensions of y: 0 where it is repeated. */
static void steps_of(const fake_array *a, const fake_array *y, int64_t *step) {
  int64_t at = 1;
  for (int32_t d = y->ndim - 1, k = a->ndim - 1; d >= 0; d--, k--) {
    int64_t size = k >= 0 ? a->shape[k] : 1;
    step[d] = size == 1 ? 0 : at;
    at *= size;
  }
}
static int64_t place(const fake_array *y, const int64_t *step, int64_t i) {
  int64_t at = 0;
  for (int32_t d = y->ndim - 1; d >= 0; d--) {
    at += i % y->shape[d] * step[d];
    i /= y->shape[d];
  }
  return at;
}

static pf_status run_map(fake_call *c) {
  const fake_array *a = &c->x[0], *b = &c->x[c->n_x - 1];
  fake_array *y = &c->y[0];
  int64_t sa[FAKE_RANK], sb[FAKE_RANK];
  int32_t whole = a->n == y->n && b->n == y->n, real = is_real(a) || (is_real(y) && !c->p.g);
  steps_of(a, y, sa);
  steps_of(b, y, sb);
  for (int64_t i = 0; i < y->n; i++) {
    int64_t ia = whole ? i : place(y, sa, i), ib = whole ? i : place(y, sb, i);
    if (real) put(y, i, c->p.f(get(a, ia), get(b, ib)));
    else put_int(y, i, c->p.g(get_int(a, ia), get_int(b, ib)));
  }
  return PF_OK;
}

static pf_status broadcast(pf_ctx *c, int64_t *shape, int32_t *ndim) {
  const DLTensor *a = c->in[0], *b = c->in[c->n_in - 1];
  char ta[120], tb[120];
  *ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  if (*ndim > FAKE_RANK) return failf(c, PF_UNIMPLEMENTED, "too many dimensions: %d", *ndim);
  for (int32_t d = 0; d < *ndim; d++) {
    int64_t i = d - (*ndim - a->ndim), j = d - (*ndim - b->ndim);
    int64_t da = i >= 0 ? a->shape[i] : 1, db = j >= 0 ? b->shape[j] : 1;
    if (da != db && da != 1 && db != 1)
      return failf(c, PF_INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s",
                   shape_text(a->shape, a->ndim, ta, sizeof ta),
                   shape_text(b->shape, b->ndim, tb, sizeof tb));
    shape[d] = da == 1 ? db : da;
  }
  return PF_OK;
}

static pf_status map(pf_ctx *c, double (*f)(double, double), int64_t (*g)(int64_t, int64_t)) {
  int64_t shape[FAKE_RANK];
  int32_t ndim;
  pf_status s = broadcast(c, shape, &ndim);
  if (s) return s;
  const DLTensor *x = c->in[0];
  int32_t like_x = x->ndim == ndim && !memcmp(x->shape, shape, sizeof(int64_t) * (size_t)ndim);
  DLTensor *y = like_x && c->in_type[0] == c->out_type[0] ? c->host->forward(c, 0, 0, shape, ndim)
                                                          : c->host->output(c, 0, shape, ndim);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  fake_params p = {.f = f, .g = g};
  return launch(c, run_map, &p);
}

/* The arithmetic; unary functions get their argument twice. */
static double f_add(double a, double b) { return a + b; }
static int64_t g_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static double f_sub(double a, double b) { return a - b; }
static int64_t g_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static double f_mul(double a, double b) { return a * b; }
static int64_t g_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static double f_div(double a, double b) { return a / b; }
static double f_max(double a, double b) { return isnan(a) || a > b ? a : b; }
static int64_t g_max(int64_t a, int64_t b) { return a > b ? a : b; }
static double f_min(double a, double b) { return isnan(a) || a < b ? a : b; }
static int64_t g_min(int64_t a, int64_t b) { return a < b ? a : b; }
static double f_pow(double a, double b) { return pow(a, b); }
static double f_squared_difference(double a, double b) { return (a - b) * (a - b); }
static int64_t g_squared_difference(int64_t a, int64_t b) { return g_mul(a - b, a - b); }
static double f_less(double a, double b) { return a < b; }
static int64_t g_less(int64_t a, int64_t b) { return a < b; }
static double f_less_equal(double a, double b) { return a <= b; }
static int64_t g_less_equal(int64_t a, int64_t b) { return a <= b; }
static double f_greater(double a, double b) { return a > b; }
static int64_t g_greater(int64_t a, int64_t b) { return a > b; }
static double f_greater_equal(double a, double b) { return a >= b; }
static int64_t g_greater_equal(int64_t a, int64_t b) { return a >= b; }
static double f_equal(double a, double b) { return a == b; }
static int64_t g_equal(int64_t a, int64_t b) { return a == b; }
static double f_not_equal(double a, double b) { return a != b; }
static int64_t g_not_equal(int64_t a, int64_t b) { return a != b; }
static int64_t g_and(int64_t a, int64_t b) { return a && b; }
static int64_t g_or(int64_t a, int64_t b) { return a || b; }
static int64_t g_not(int64_t a, int64_t b) { return (void)b, !a; }
static double f_relu_grad(double dy, double x) { return x > 0 ? dy : 0; }
static double f_tanh_grad(double y, double dy) { return dy * (1 - y * y); }
static double f_sigmoid_grad(double y, double dy) { return dy * y * (1 - y); }
static double f_sqrt_grad(double y, double dy) { return dy * 0.5 / y; }
static double f_rsqrt_grad(double y, double dy) { return dy * -0.5 * y * y * y; }
static double f_reciprocal_grad(double y, double dy) { return -dy * y * y; }
static double f_neg(double a, double b) { return (void)b, -a; }
static int64_t g_neg(int64_t a, int64_t b) { return (void)b, (int64_t)(0 - (uint64_t)a); }
static double f_exp(double a, double b) { return (void)b, exp(a); }
static double f_log(double a, double b) { return (void)b, log(a); }
static double f_tanh(double a, double b) { return (void)b, tanh(a); }
static double f_sigmoid(double a, double b) { return (void)b, 1 / (1 + exp(-a)); }
static double f_relu(double a, double b) { return (void)b, isnan(a) || a > 0 ? a : 0; }
static int64_t g_relu(int64_t a, int64_t b) { return (void)b, a > 0 ? a : 0; }
static double f_square(double a, double b) { return (void)b, a * a; }
static int64_t g_square(int64_t a, int64_t b) { return (void)b, g_mul(a, a); }
static double f_sqrt(double a, double b) { return (void)b, sqrt(a); }
static double f_rsqrt(double a, double b) { return (void)b, 1 / sqrt(a); }
static double f_abs(double a, double b) { return (void)b, fabs(a); }
static int64_t g_abs(int64_t a, int64_t b) { return (void)b, a < 0 ? g_neg(a, a) : a; }
static double f_reciprocal(double a, double b) { return (void)b, 1 / a; }
static double f_sign(double a, double b) { return (void)b, a > 0 ? 1 : a < 0 ? -1 : a; }
static int64_t g_sign(int64_t a, int64_t b) { return (void)b, (a > 0) - (a < 0); }
static double f_same(double a, double b) { return (void)b, a; }
static int64_t g_same(int64_t a, int64_t b) { return (void)b, a; }

/* A kernel's compute function knows its op only by being its own. */
#define MAP(name, f, g) \
  static pf_status op_##name(pf_ctx *c, const void *s) { return (void)s, map(c, f, g); }
MAP(add, f_add, g_add)
MAP(sub, f_sub, g_sub)
MAP(mul, f_mul, g_mul)
MAP(div, f_div, NULL)
MAP(max, f_max, g_max)
MAP(min, f_min, g_min)
MAP(pow, f_pow, NULL)
MAP(squared_difference, f_squared_difference, g_squared_difference)
MAP(less, f_less, g_less)
MAP(less_equal, f_less_equal, g_less_equal)
MAP(greater, f_greater, g_greater)
MAP(greater_equal, f_greater_equal, g_greater_equal)
MAP(equal, f_equal, g_equal)
MAP(not_equal, f_not_equal, g_not_equal)
MAP(and, NULL, g_and)
MAP(or, NULL, g_or)
MAP(not, NULL, g_not)
MAP(relu_grad, f_relu_grad, NULL)
MAP(tanh_grad, f_tanh_grad, NULL)
MAP(sigmoid_grad, f_sigmoid_grad, NULL)
MAP(sqrt_grad, f_sqrt_grad, NULL)
MAP(rsqrt_grad, f_rsqrt_grad, NULL)
MAP(reciprocal_grad, f_reciprocal_grad, NULL)
MAP(neg, f_neg, g_neg)
MAP(exp, f_exp, NULL)
MAP(log, f_log, NULL)
MAP(tanh, f_tanh, NULL)
MAP(sigmoid, f_sigmoid, NULL)
MAP(relu, f_relu, g_relu)
MAP(square, f_square, g_square)
MAP(sqrt, f_sqrt, NULL)
MAP(rsqrt, f_rsqrt, NULL)
MAP(abs, f_abs, g_abs)
MAP(reciprocal, f_reciprocal, NULL)
MAP(sign, f_sign, g_sign)
MAP(cast, f_same, g_same)

/* ---------------------------------------------------------------- Select */
static pf_status run_select(fake_call *c) {
  const fake_array *on = &c->x[0];
  int64_t rows = on->n ? c->y[0].n / on->n : 1; /* elements per condition */
  for (int64_t i = 0; i < c->y[0].n; i++)
    put_element(&c->y[0], i, &c->x[get_int(on, i / rows) ? 1 : 2], i);
  return PF_OK;
}
static pf_status select_(pf_ctx *c, const void *s) {
  const DLTensor *on = c->in[0], *t = c->in[1], *e = c->in[2];
  (void)s;
  int32_t alike =
      t->ndim == e->ndim && !memcmp(t->shape, e->shape, sizeof(int64_t) * (size_t)t->ndim);
  int32_t fits =
      on->ndim == 0 || (on->ndim == 1 && t->ndim >= 1 && on->shape[0] == t->shape[0]) ||
      (on->ndim == t->ndim && !memcmp(on->shape, t->shape, sizeof(int64_t) * (size_t)t->ndim));
  if (!alike || !fits)
    return failf(c, PF_INVALID_ARGUMENT, "Select: the condition and both values do not fit");
  return pf_output_like(c, 0, t) ? launch(c, run_select, NULL) : PF_RESOURCE_EXHAUSTED;
}

/* ---------------------------------------------------------------- AddN */
static pf_status run_add_n(fake_call *c) {
  for (int64_t i = 0; i < c->y[0].n; i++) {
    double sum = 0;
    int64_t whole = 0;
    for (int32_t k = 0; k < c->n_x; k++)
      if (is_real(&c->y[0])) sum += get(&c->x[k], i);
      else whole = g_add(whole, get_int(&c->x[k], i));
    if (is_real(&c->y[0])) put(&c->y[0], i, sum);
    else put_int(&c->y[0], i, whole);
  }
  return PF_OK;
}
static pf_status add_n(pf_ctx *c, const void *s) {
  (void)s;
  for (int32_t k = 1; k < c->n_in; k++)
    if (pf_numel(c->in[k]) != pf_numel(c->in[0]) || c->in[k]->ndim != c->in[0]->ndim)
      return failf(c, PF_INVALID_ARGUMENT, "AddN: input %d has another shape than input 0", k);
  return pf_output_like(c, 0, c->in[0]) ? launch(c, run_add_n, NULL) : PF_RESOURCE_EXHAUSTED;
}

/* ---------------------------------------------------------------- Fill, ZerosLike, OnesLike */
static pf_status run_fill(fake_call *c) {
  for (int64_t i = 0; i < c->y[0].n; i++) put_element(&c->y[0], i, &c->x[0], 0);
  return PF_OK;
}
static pf_status fill(pf_ctx *c, const void *s) {
  int64_t dims[MAX_HOST_VALUES];
  int32_t n = host_ints(c, 0, dims);
  (void)s;
  if (n < 0) return PF_INVALID_ARGUMENT;
  if (pf_numel(c->in[1]) != 1) return failf(c, PF_INVALID_ARGUMENT, "value must be a scalar");
  DLTensor *y = c->host->output(c, 0, dims, n);
  fake_tensors t = {.x = {c->in[1]}, .y = {y}, .n_x = 1, .n_y = 1};
  return y ? launch_on(c, run_fill, NULL, &t) : PF_RESOURCE_EXHAUSTED;
}

static pf_status run_set(fake_call *c) {
  if (c->p.i[0] == 0) memset(c->y[0].data, 0, (size_t)(c->y[0].n * c->y[0].width));
  else
    for (int64_t i = 0; i < c->y[0].n; i++) put_int(&c->y[0], i, c->p.i[0]);
  return PF_OK;
}
static pf_status set_like(pf_ctx *c, int64_t value) {
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  fake_tensors t = {.y = {y}, .n_y = 1};
  fake_params p = {.i = {value}};
  return y ? launch_on(c, run_set, &p, &t) : PF_RESOURCE_EXHAUSTED;
}
static pf_status zeros_like(pf_ctx *c, const void *s) { return (void)s, set_like(c, 0); }
static pf_status ones_like(pf_ctx *c, const void *s) { return (void)s, set_like(c, 1); }

#define NUMERIC "T=" FAKE_NUMBERS
#define REAL "T=" FAKE_FLOATS
#define TYPES FAKE_NUMBERS "|bool"
#define TRUTH NULL
const pf_kernel *const math_kernels[] = {FAKE("Add", NUMERIC, op_add, ARGS(REUSES("z", 0))),
                                         FAKE("AddV2", NUMERIC, op_add, ARGS(REUSES("z", 0))),
                                         FAKE("Sub", NUMERIC, op_sub, ARGS(REUSES("z", 0))),
                                         FAKE("Mul", NUMERIC, op_mul, ARGS(REUSES("z", 0))),
                                         FAKE("RealDiv", REAL, op_div, ARGS(REUSES("z", 0))),
                                         FAKE("Div", REAL, op_div, ARGS(REUSES("z", 0))),
                                         FAKE("Maximum", NUMERIC, op_max, ARGS(REUSES("z", 0))),
                                         FAKE("Minimum", NUMERIC, op_min, ARGS(REUSES("z", 0))),
                                         FAKE("Pow", REAL, op_pow),
                                         FAKE("SquaredDifference", NUMERIC, op_squared_difference),
                                         FAKE("Less", NUMERIC, op_less),
                                         FAKE("LessEqual", NUMERIC, op_less_equal),
                                         FAKE("Greater", NUMERIC, op_greater),
                                         FAKE("GreaterEqual", NUMERIC, op_greater_equal),
                                         FAKE("Equal", "T=" TYPES, op_equal),
                                         FAKE("NotEqual", "T=" TYPES, op_not_equal),
                                         FAKE("LogicalAnd", TRUTH, op_and),
                                         FAKE("LogicalOr", TRUTH, op_or),
                                         FAKE("LogicalNot", TRUTH, op_not),
                                         FAKE("Neg", NUMERIC, op_neg, ARGS(REUSES("y", 0))),
                                         FAKE("Exp", REAL, op_exp, ARGS(REUSES("y", 0))),
                                         FAKE("Log", REAL, op_log),
                                         FAKE("Tanh", REAL, op_tanh, ARGS(REUSES("y", 0))),
                                         FAKE("Sigmoid", REAL, op_sigmoid),
                                         FAKE("Relu", NUMERIC, op_relu),
                                         FAKE("Square", NUMERIC, op_square),
                                         FAKE("Sqrt", REAL, op_sqrt),
                                         FAKE("Rsqrt", REAL, op_rsqrt),
                                         FAKE("Abs", NUMERIC, op_abs),
                                         FAKE("Sign", NUMERIC, op_sign),
                                         FAKE("Reciprocal", REAL, op_reciprocal),
                                         FAKE("Inv", REAL, op_reciprocal),
                                         FAKE("ReluGrad", REAL, op_relu_grad),
                                         FAKE("TanhGrad", REAL, op_tanh_grad),
                                         FAKE("SigmoidGrad", REAL, op_sigmoid_grad),
                                         FAKE("SqrtGrad", REAL, op_sqrt_grad),
                                         FAKE("RsqrtGrad", REAL, op_rsqrt_grad),
                                         FAKE("ReciprocalGrad", REAL, op_reciprocal_grad),
                                         FAKE("Cast", "SrcT=" TYPES ", DstT=" TYPES, op_cast),
                                         FAKE("Select", "T=" FAKE_ANY, select_),
                                         FAKE("AddN", NUMERIC, add_n),
                                         FAKE("Fill", "T=" FAKE_ANY, fill, ARGS(ON_HOST("dims"))),
                                         FAKE("ZerosLike", "T=" FAKE_ANY, zeros_like),
                                         FAKE("OnesLike", "T=" TYPES, ones_like),
                                         NULL};
