/* kernels_state.c - Assign and its relatives, gradient descent and momentum, on ref variables
 * (VariableV2) and resource variables (VarHandleOp).
 *
 * The variable, its lock and copy-on-write are the host's.  The kernel locks, asks for the value in
 * device memory and enqueues; who locks next enqueues behind it, on the same stream.
 */
#include "launch.h"

static pf_status same_ref(pf_ctx *c, int32_t is_ref) {
  return is_ref ? c->host->alias(c, 0, 0, NULL, 0) : PF_OK;
}
static int32_t same_shape(const DLTensor *a, const DLTensor *b) {
  return a->ndim == b->ndim && !memcmp(a->shape, b->shape, sizeof(int64_t) * (size_t)a->ndim);
}
static pf_status mismatch(pf_ctx *c, const char *op, const DLTensor *a, const DLTensor *b) {
  char ta[120], tb[120];
  return failf(c, PF_INVALID_ARGUMENT,
               "%s requires shapes of both tensors to match. lhs shape= %s rhs shape= %s", op,
               shape_text(a->shape, a->ndim, ta, sizeof ta),
               shape_text(b->shape, b->ndim, tb, sizeof tb));
}

/* ---------------------------------------------------------------- Assign, AssignVariableOp */
static pf_status assign_to(pf_ctx *c, const fake_state *s, int32_t is_ref) {
  pf_var v = {0, PF_VAR_REPLACE};
  pf_status status = c->host->var_lock(c, &v, 1);
  if (status) return status;
  const DLTensor *old = s->validate_shape ? c->host->var_get(c, 0) : NULL;
  if (old && !same_shape(old, c->in[1])) return mismatch(c, "Assign", old, c->in[1]);
  status = c->host->var_assign(c, 0, 1);
  return status ? status : same_ref(c, is_ref);
}
static pf_status assign_ref(pf_ctx *c, const void *s) { return assign_to(c, s, 1); }
static pf_status assign_resource(pf_ctx *c, const void *s) { return assign_to(c, s, 0); }

/* ---------------------------------------------------------------- += and -= */
static pf_status run_step(fake_call *c) {
  fake_array *v = &c->y[0];
  int64_t sign = c->p.i[0];
  for (int64_t i = 0; i < v->n; i++) {
    if (is_real(v)) put(v, i, get(v, i) + (double)sign * get(&c->x[0], i));
    else put_int(v, i, get_int(v, i) + sign * get_int(&c->x[0], i));
  }
  return PF_OK;
}
static pf_status step_by(pf_ctx *c, int64_t sign, int32_t is_ref) {
  pf_var v = {0, PF_VAR_UPDATE};
  pf_status status = c->host->var_lock(c, &v, 1);
  if (status) return status;
  DLTensor *x = c->host->var_get(c, 0);
  if (!x) return PF_RESOURCE_EXHAUSTED;
  if (!same_shape(x, c->in[1]))
    return mismatch(c, sign > 0 ? "AssignAdd" : "AssignSub", x, c->in[1]);
  fake_tensors t = {.x = {c->in[1]}, .y = {x}, .n_x = 1, .n_y = 1};
  fake_params p = {.i = {sign}};
  status = launch_on(c, run_step, &p, &t);
  return status ? status : same_ref(c, is_ref);
}
static pf_status add_ref(pf_ctx *c, const void *s) { return (void)s, step_by(c, 1, 1); }
static pf_status sub_ref(pf_ctx *c, const void *s) { return (void)s, step_by(c, -1, 1); }
static pf_status add_resource(pf_ctx *c, const void *s) { return (void)s, step_by(c, 1, 0); }
static pf_status sub_resource(pf_ctx *c, const void *s) { return (void)s, step_by(c, -1, 0); }

/* ---------------------------------------------------------------- one step of an optimiser */
static pf_status run_descent(fake_call *c) { /* x: rate, gradient; y: variable */
  double rate = get(&c->x[0], 0);
  for (int64_t i = 0; i < c->y[0].n; i++)
    put(&c->y[0], i, get(&c->y[0], i) - rate * get(&c->x[1], i));
  return PF_OK;
}
static pf_status run_momentum(fake_call *c) { /* x: rate, gradient, momentum; y: variable, slot */
  double rate = get(&c->x[0], 0), momentum = get(&c->x[2], 0);
  for (int64_t i = 0; i < c->y[0].n; i++) {
    double g = get(&c->x[1], i);
    put(&c->y[1], i, momentum * get(&c->y[1], i) + g);
    double by = c->p.i[0] ? g + momentum * get(&c->y[1], i) : get(&c->y[1], i);
    put(&c->y[0], i, get(&c->y[0], i) - rate * by);
  }
  return PF_OK;
}
/* Inputs: `slots` variables, then what the rule reads, the gradient second. */
static pf_status apply(pf_ctx *c, pf_status (*run)(fake_call *), int32_t slots, int64_t flag,
                       int32_t is_ref) {
  pf_var locks[2] = {{0, PF_VAR_UPDATE}, {1, PF_VAR_UPDATE}};
  fake_tensors t = {.n_x = c->n_in - slots, .n_y = slots};
  fake_params p = {.i = {flag}};
  pf_status status = c->host->var_lock(c, locks, slots);
  if (status) return status;
  for (int32_t k = 0; k < t.n_x; k++) {
    t.x[k] = c->in[slots + k];
    if (k != 1 && pf_numel(t.x[k]) != 1)
      return failf(c, PF_INVALID_ARGUMENT, "input %d is not a scalar", slots + k);
  }
  for (int32_t k = 0; k < slots; k++) {
    if (!(t.y[k] = c->host->var_get(c, k))) return PF_RESOURCE_EXHAUSTED;
    if (!same_shape(t.y[k], t.x[1])) return mismatch(c, "The update", t.y[k], t.x[1]);
  }
  status = launch_on(c, run, &p, &t);
  return status ? status : same_ref(c, is_ref);
}
static pf_status descent_ref(pf_ctx *c, const void *s) {
  return (void)s, apply(c, run_descent, 1, 0, 1);
}
static pf_status descent(pf_ctx *c, const void *s) {
  return (void)s, apply(c, run_descent, 1, 0, 0);
}
static pf_status momentum_ref(pf_ctx *c, const void *s) {
  return apply(c, run_momentum, 2, ((const fake_state *)s)->use_nesterov, 1);
}
static pf_status momentum(pf_ctx *c, const void *s) {
  return apply(c, run_momentum, 2, ((const fake_state *)s)->use_nesterov, 0);
}

#define VALIDATE \
  ATTRS((&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, "validate_shape", PF_ATTR_BOOL, \
                          offsetof(fake_state, validate_shape)}))
#define NESTEROV ATTRS(ATTR(PF_ATTR_BOOL, use_nesterov))
const pf_kernel *const state_kernels[] = {
  FAKE("Assign", "T=" FAKE_ANY, assign_ref, VALIDATE),
  FAKE("AssignAdd", "T=" FAKE_NUMBERS, add_ref),
  FAKE("AssignSub", "T=" FAKE_NUMBERS, sub_ref),
  FAKE("AssignVariableOp", "dtype=" FAKE_ANY, assign_resource, VALIDATE),
  FAKE("AssignAddVariableOp", "dtype=" FAKE_NUMBERS, add_resource),
  FAKE("AssignSubVariableOp", "dtype=" FAKE_NUMBERS, sub_resource),
  FAKE("ApplyGradientDescent", "T=" FAKE_FLOATS, descent_ref),
  FAKE("ResourceApplyGradientDescent", "T=" FAKE_FLOATS, descent),
  FAKE("ApplyMomentum", "T=" FAKE_FLOATS, momentum_ref, NESTEROV),
  FAKE("ResourceApplyMomentum", "T=" FAKE_FLOATS, momentum, NESTEROV),
  NULL};
