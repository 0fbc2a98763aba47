/* training.c - ApplyX, ResourceApplyX, SparseApplyX, ResourceSparseApplyX: one optimiser step on
 * variables.
 *
 * Invariants
 *   1. All slots of a call are locked together, in the host's order, before any is read.
 *   2. Every shape and every index is checked before the first write: a failed call changes
 *      nothing.
 *   3. Sparse rows are applied in order on one thread, so repeated indices accumulate as written.
 * Threads: compute is concurrent; dense updates run on parallel_for in disjoint ranges
 * (deterministic).
 *
 * A rule (apply_rules.h) is the arithmetic; an `apply_op` says where one op keeps its arguments.
 */
#include "base/common.h"
#include "vec/half.h"
#include "base/isa.h"

#define T float
#define RULE(name) name##_f32
#define SQRT sqrtf
#define FABS fabsf
#define POW powf
#define EXP expf
#include "state/apply_rules.h"
#undef T
#undef RULE
#undef SQRT
#undef FABS
#undef POW
#undef EXP
#define T double
#define RULE(name) name##_f64
#define SQRT sqrt
#define FABS fabs
#define POW pow
#define EXP exp
#include "state/apply_rules.h"
#undef T

enum { MAX_SLOTS = 4, MAX_HYPER = 6, HALF_BLOCK = 512, GRAIN = 16384 };
typedef void (*rule_f32)(float *const *, const float *, const double *, int, int64_t);
typedef void (*rule_f64)(double *const *, const double *, const double *, int, int64_t);
typedef struct {
  rule_f32 f32;
  rule_f64 f64;
  int8_t slots;                     /* inputs 0 .. slots-1 are the variable and its slots */
  int8_t grad, indices;             /* input numbers; indices -1: dense */
  int8_t n_hyper, hyper[MAX_HYPER]; /* input number of each hyper-parameter; -1: zero */
} apply_op;
typedef struct { int32_t T, Tindices, flag; } apply_state;

/* one call: the locked slots and its hyper-parameters */
typedef struct {
  const apply_op *op;
  char *slot[MAX_SLOTS];
  const char *grad;
  double h[MAX_HYPER];
  int32_t type;
  int flag;
  int64_t width; /* bytes of an element */
} update;

PF_INLINE void apply_halves_of(const int32_t type, const update *u, char *const *slot,
                               const char *grad, int64_t n) {
  float block[MAX_SLOTS][HALF_BLOCK], g[HALF_BLOCK], *s[MAX_SLOTS];
  for (int64_t at = 0; at < n; at += HALF_BLOCK) {
    int64_t m = PF_MIN(HALF_BLOCK, n - at);
    halves_read(type, (const uint16_t *)grad + at, g, m);
    for (int k = 0; k < u->op->slots; k++) {
      s[k] = block[k];
      halves_read(type, (const uint16_t *)slot[k] + at, s[k], m);
    }
    u->op->f32(s, g, u->h, u->flag, m);
    for (int k = 0; k < u->op->slots; k++) halves_write(type, s[k], (uint16_t *)slot[k] + at, m);
  }
}
static void apply_halves(const update *u, char *const *slot, const char *grad, int64_t n) {
  if (u->type == PF_BFLOAT16) apply_halves_of(PF_BFLOAT16, u, slot, grad, n);
  else apply_halves_of(PF_FLOAT16, u, slot, grad, n);
}

/* The rule on n elements: variable elements from `at`, gradient elements from `gat`. */
static void apply_range(const update *u, int64_t at, int64_t gat, int64_t n) {
  char *slot[MAX_SLOTS] = {0};
  const char *grad = u->grad + gat * u->width;
  for (int k = 0; k < u->op->slots; k++) slot[k] = u->slot[k] + at * u->width;
  if (u->type == PF_FLOAT32) {
    float *s[MAX_SLOTS];
    for (int k = 0; k < MAX_SLOTS; k++) s[k] = (float *)(void *)slot[k];
    u->op->f32(s, (const float *)(const void *)grad, u->h, u->flag, n);
  } else if (u->type == PF_FLOAT64) {
    double *s[MAX_SLOTS];
    for (int k = 0; k < MAX_SLOTS; k++) s[k] = (double *)(void *)slot[k];
    u->op->f64(s, (const double *)(const void *)grad, u->h, u->flag, n);
  } else {
    apply_halves(u, slot, grad, n);
  }
}

static void apply_chunk(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  (void)worker;
  apply_range(arg, lo, lo, hi - lo);
}

static double real_scalar(const DLTensor *t, int32_t type) {
  switch (type) {
    case PF_FLOAT32: return PF_DATA(const float, t)[0];
    case PF_FLOAT64: return PF_DATA(const double, t)[0];
    case PF_FLOAT16: return pf_from_half(PF_DATA(const uint16_t, t)[0]);
    default: return pf_from_bf16(PF_DATA(const uint16_t, t)[0]);
  }
}

static pf_status take_hyper(pf_ctx *c, const apply_op *op, int32_t type, double *h) {
  for (int k = 0; k < op->n_hyper; k++) {
    int in = op->hyper[k];
    h[k] = 0;
    if (in < 0) continue;
    if (in >= c->n_in) return pf_failf(c, PF_INTERNAL, "input %d is missing", in);
    if (pf_numel(c->in[in]) != 1)
      return PF_INVALID(c, "hyper-parameter (input %d) is not a scalar: %s", in,
                        PF_SHAPE(c->in[in]).s);
    h[k] = real_scalar(c->in[in], type);
  }
  return PF_OK;
}

static pf_status take_slots(pf_ctx *c, const apply_op *op, update *u, const DLTensor **var) {
  pf_var locks[MAX_SLOTS];
  for (int k = 0; k < op->slots; k++) locks[k] = (pf_var){k, PF_VAR_UPDATE};
  PF_TRY(c->host->var_lock(c, locks, op->slots));
  for (int k = 0; k < op->slots; k++) {
    DLTensor *t = c->host->var_get(c, k);
    if (!t) return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory to update variable (input %d)", k);
    if (k == 0) *var = t;
    else if (!pf_same_shape(*var, t))
      return PF_INVALID(c, "var and its slot (input %d) do not have the same shape %s %s", k,
                        PF_SHAPE(*var).s, PF_SHAPE(t).s);
    u->slot[k] = PF_DATA(char, t);
    for (int j = 0; j < k; j++)
      if (u->slot[j] == u->slot[k] && pf_numel(t) > 0)
        return PF_INVALID(c, "inputs %d and %d are the same variable", j, k);
  }
  return PF_OK;
}

static pf_status apply_dense(pf_ctx *c, update *u, const DLTensor *var, const DLTensor *grad) {
  if (!pf_same_shape(var, grad))
    return PF_INVALID(c, "var and grad do not have the same shape %s %s", PF_SHAPE(var).s,
                      PF_SHAPE(grad).s);
  int64_t n = pf_numel(var);
  if (n < 2 * GRAIN) {
    apply_range(u, 0, 0, n);
    return PF_OK;
  }
  return c->host->parallel_for(c, n, GRAIN, apply_chunk, u);
}

static pf_status apply_sparse(pf_ctx *c, update *u, const DLTensor *var, const DLTensor *grad,
                              const DLTensor *idx, int32_t idx_type) {
  if (var->ndim < 1) return PF_INVALID(c, "var must be at least 1 dimensional");
  if (idx->ndim != 1)
    return PF_INVALID(c, "indices must be one-dimensional, got shape %s", PF_SHAPE(idx).s);
  if (grad->ndim != var->ndim || grad->shape[0] != idx->shape[0])
    return PF_INVALID(
        c,
        "grad must be the same size as indices in the first dimension: grad %s, indices %s, var %s",
        PF_SHAPE(grad).s, PF_SHAPE(idx).s, PF_SHAPE(var).s);
  int64_t inner = 1, rows = var->shape[0], n = idx->shape[0];
  for (int32_t d = 1; d < var->ndim; d++) {
    if (var->shape[d] != grad->shape[d])
      return PF_INVALID(c, "var and grad must match in dimension %d: %s %s", d, PF_SHAPE(var).s,
                        PF_SHAPE(grad).s);
    inner *= var->shape[d];
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t row = pf_index_at(idx, idx_type, i);
    if (row < 0 || row >= rows)
      return PF_INVALID(c, "Index %lld at offset %lld in indices is out of range [0, %lld)",
                        (long long)row, (long long)i, (long long)rows);
  }
  for (int64_t i = 0; i < n; i++)
    apply_range(u, pf_index_at(idx, idx_type, i) * inner, i * inner, inner);
  return PF_OK;
}

static pf_status apply(pf_ctx *c, const apply_state *st, const apply_op *op, int is_ref) {
  update u = {.op = op, .type = st->T, .flag = st->flag, .width = pf_type_size(st->T)};
  const DLTensor *var = NULL, *grad = c->in[op->grad];
  PF_TRY(take_hyper(c, op, st->T, u.h));
  PF_TRY(take_slots(c, op, &u, &var));
  u.grad = PF_DATA(const char, grad);
  if (op->indices < 0) PF_TRY(apply_dense(c, &u, var, grad));
  else PF_TRY(apply_sparse(c, &u, var, grad, c->in[op->indices], st->Tindices));
  return is_ref ? c->host->alias(c, 0, 0, NULL, 0) : PF_OK;
}

#define TYPES "T=" PF_FLOATS
#define FLAGS (PF_KERNEL_EXPENSIVE | PF_KERNEL_DETERMINISTIC | PF_KERNEL_BORROWS)
#define BASE_ATTRS PF_ATTR(apply_state, PF_ATTR_TYPE, T)
#define INDEX_ATTR PF_ATTR(apply_state, PF_ATTR_TYPE, Tindices)
#define FLAG_ATTR(name) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, name, PF_ATTR_BOOL, \
                    offsetof(apply_state, flag)})
#define HYPER(...) sizeof((int8_t[]){__VA_ARGS__}), {__VA_ARGS__}
#define RESOURCE_ONLY(name, rule, slots, grad, indices, ...) \
  static const apply_op op_##name = {rule##_f32, rule##_f64, slots, grad, indices, __VA_ARGS__}; \
  static pf_status res_##name(pf_ctx *c, const void *s) { return apply(c, s, &op_##name, 0); }
#define DEFINE(name, rule, slots, grad, indices, ...) \
  RESOURCE_ONLY(name, rule, slots, grad, indices, __VA_ARGS__) \
  static pf_status ref_##name(pf_ctx *c, const void *s) { return apply(c, s, &op_##name, 1); }

/*     C name                 rule              slots  grad indices  hyper-parameters */
DEFINE(gradient_descent, gradient_descent, 1, 2, -1, HYPER(1))
DEFINE(prox_gd, proximal_gradient_descent, 1, 4, -1, HYPER(1, 2, 3))
DEFINE(sparse_prox_gd, proximal_gradient_descent, 1, 4, 5, HYPER(1, 2, 3))
DEFINE(momentum, momentum, 2, 3, -1, HYPER(2, 4))
DEFINE(sparse_momentum, momentum, 2, 3, 4, HYPER(2, 5))
RESOURCE_ONLY(keras_momentum, keras_momentum, 2, 3, -1, HYPER(2, 4))
RESOURCE_ONLY(sparse_keras_momentum, keras_momentum, 2, 3, 4, HYPER(2, 5))
DEFINE(adam, adam, 3, 9, -1, HYPER(3, 4, 5, 6, 7, 8))
DEFINE(ada_max, ada_max, 3, 8, -1, HYPER(3, 4, 5, 6, 7))
DEFINE(rms_prop, rms_prop, 3, 7, -1, HYPER(3, 4, 5, 6))
DEFINE(sparse_rms_prop, rms_prop, 3, 7, 8, HYPER(3, 4, 5, 6))
DEFINE(centered_rms_prop, centered_rms_prop, 4, 8, -1, HYPER(4, 5, 6, 7))
DEFINE(sparse_centered_rms_prop, centered_rms_prop, 4, 8, 9, HYPER(4, 5, 6, 7))
DEFINE(adagrad, adagrad, 2, 3, -1, HYPER(2))
DEFINE(sparse_adagrad, adagrad, 2, 3, 4, HYPER(2))
DEFINE(adagrad_v2, adagrad_v2, 2, 4, -1, HYPER(2, 3))
DEFINE(sparse_adagrad_v2, adagrad_v2, 2, 4, 5, HYPER(2, 3))
DEFINE(prox_adagrad, proximal_adagrad, 2, 5, -1, HYPER(2, 3, 4))
DEFINE(sparse_prox_adagrad, proximal_adagrad, 2, 5, 6, HYPER(2, 3, 4))
DEFINE(adadelta, adadelta, 3, 6, -1, HYPER(3, 4, 5))
DEFINE(sparse_adadelta, adadelta, 3, 6, 7, HYPER(3, 4, 5))
DEFINE(ftrl, ftrl, 3, 3, -1, HYPER(4, 5, 6, 7, -1))
DEFINE(sparse_ftrl, ftrl, 3, 3, 4, HYPER(5, 6, 7, 8, -1))
DEFINE(ftrl_v2, ftrl, 3, 3, -1, HYPER(4, 5, 6, 8, 7))
DEFINE(sparse_ftrl_v2, ftrl, 3, 3, 4, HYPER(5, 6, 7, 9, 8))
DEFINE(add_sign, add_sign, 2, 6, -1, HYPER(2, 3, 4, 5))
DEFINE(power_sign, power_sign, 2, 6, -1, HYPER(2, 3, 4, 5))

#define ENTRY(op, fn, attrs_) \
  PF_CPU_FLAGS(op, TYPES, FLAGS, .attrs = attrs_, .state_size = sizeof(apply_state), .compute = fn)
#define PAIR(op, fn, attrs) ENTRY(op, ref_##fn, attrs), ENTRY("Resource" op, res_##fn, attrs)
#define DENSE(op, fn) PAIR("Apply" op, fn, PF_ATTRS(BASE_ATTRS))
#define DENSE_IF(op, fn, flag) PAIR("Apply" op, fn, PF_ATTRS(BASE_ATTRS, FLAG_ATTR(flag)))
#define SPARSE(op, fn) PAIR("SparseApply" op, fn, PF_ATTRS(BASE_ATTRS, INDEX_ATTR))
#define SPARSE_IF(op, fn, flag) \
  PAIR("SparseApply" op, fn, PF_ATTRS(BASE_ATTRS, INDEX_ATTR, FLAG_ATTR(flag)))

const pf_kernel *const PF_ISA_NAME(training_kernels)[] = {
  DENSE("GradientDescent", gradient_descent),
  DENSE("ProximalGradientDescent", prox_gd),
  SPARSE("ProximalGradientDescent", sparse_prox_gd),
  DENSE_IF("Momentum", momentum, "use_nesterov"),
  SPARSE_IF("Momentum", sparse_momentum, "use_nesterov"),
  ENTRY("ResourceApplyKerasMomentum", res_keras_momentum,
        PF_ATTRS(BASE_ATTRS, FLAG_ATTR("use_nesterov"))),
  ENTRY("ResourceSparseApplyKerasMomentum", res_sparse_keras_momentum,
        PF_ATTRS(BASE_ATTRS, INDEX_ATTR, FLAG_ATTR("use_nesterov"))),
  DENSE_IF("Adam", adam, "use_nesterov"),
  DENSE("AdaMax", ada_max),
  DENSE("RMSProp", rms_prop),
  SPARSE("RMSProp", sparse_rms_prop),
  DENSE("CenteredRMSProp", centered_rms_prop),
  SPARSE("CenteredRMSProp", sparse_centered_rms_prop),
  DENSE_IF("Adagrad", adagrad, "update_slots"),
  SPARSE_IF("Adagrad", sparse_adagrad, "update_slots"),
  DENSE_IF("AdagradV2", adagrad_v2, "update_slots"),
  SPARSE_IF("AdagradV2", sparse_adagrad_v2, "update_slots"),
  DENSE("ProximalAdagrad", prox_adagrad),
  SPARSE("ProximalAdagrad", sparse_prox_adagrad),
  DENSE("Adadelta", adadelta),
  SPARSE("Adadelta", sparse_adadelta),
  DENSE_IF("Ftrl", ftrl, "multiply_linear_by_lr"),
  SPARSE_IF("Ftrl", sparse_ftrl, "multiply_linear_by_lr"),
  DENSE_IF("FtrlV2", ftrl_v2, "multiply_linear_by_lr"),
  SPARSE_IF("FtrlV2", sparse_ftrl_v2, "multiply_linear_by_lr"),
  DENSE("AddSign", add_sign),
  DENSE("PowerSign", power_sign),
  NULL};
