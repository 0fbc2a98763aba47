/* state.c - Assign and its relatives, on ref variables (VariableV2) and resource variables
 * (VarHandleOp).
 *
 * Invariants
 *   1. A variable is touched only between var_lock and the end of the call.
 *   2. Shapes are checked before the first write: a failed call changes nothing.
 *   3. A Ref output is the Ref input forwarded: the same variable, not a copy of its value.
 * Threads: compute is concurrent; the host's lock orders writers of one variable.
 */
#include "base/bytes.h"
#include "base/common.h"

typedef struct {
  int32_t T, flag;
  int64_t limit;
} assign_state;
enum { ADD, SUB };

static pf_status lock_one(pf_ctx *c, int32_t mode) {
  pf_var v = {0, mode};
  return c->host->var_lock(c, &v, 1);
}
static pf_status same_ref(pf_ctx *c, int is_ref) {
  return is_ref ? c->host->alias(c, 0, 0, NULL, 0) : PF_OK;
}

/* ---------------------------------------------------------------- Assign, AssignVariableOp */
static pf_status assign_to(pf_ctx *c, const assign_state *s, int is_ref) {
  PF_TRY(lock_one(c, PF_VAR_REPLACE));
  if (s->flag) {
    const DLTensor *old = c->host->var_get(c, 0);
    if (old && !pf_same_shape(old, c->in[1]))
      return PF_INVALID(
          c, "Assign requires shapes of both tensors to match. lhs shape= %s rhs shape= %s",
          PF_SHAPE(old).s, PF_SHAPE(c->in[1]).s);
  }
  PF_TRY(c->host->var_assign(c, 0, 1));
  return same_ref(c, is_ref);
}
static pf_status assign_ref(pf_ctx *c, const void *s) { return assign_to(c, s, 1); }
static pf_status assign_resource(pf_ctx *c, const void *s) { return assign_to(c, s, 0); }

/* ---------------------------------------------------------------- += and -= */
typedef struct {
  int32_t type, op;
  void *x;
  const void *y;
} pair;

#define STEP(T, expr) do { \
    T *x = (T *)p->x; const T *y = (const T *)p->y; \
    for (int64_t i = lo; i < hi; i++) x[i] = (T)(expr); } while (0)
#define INT_CASE(num, T, tag) \
  case num: \
    if (p->op == ADD) STEP(T, (uint64_t)x[i] + (uint64_t)y[i]); \
    else STEP(T, (uint64_t)x[i] - (uint64_t)y[i]); \
    break;
#define FLOAT_CASE(num, T, tag) case num: \
    if (p->op == ADD) STEP(T, x[i] + y[i]); else STEP(T, x[i] - y[i]); break;
#define HALF_CASE(num, from, to) case num: \
    if (p->op == ADD) STEP(uint16_t, to(from(x[i]) + from(y[i]))); \
    else STEP(uint16_t, to(from(x[i]) - from(y[i]))); \
    break;

static void add_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const pair *p = arg;
  int32_t type = p->type;
  (void)worker;
  if (type == PF_COMPLEX64) type = PF_FLOAT32, lo *= 2, hi *= 2;
  if (type == PF_COMPLEX128) type = PF_FLOAT64, lo *= 2, hi *= 2;
  switch (type) {
    PF_EACH_FLOAT(FLOAT_CASE)
    PF_EACH_INT(INT_CASE)
    HALF_CASE(PF_FLOAT16, pf_from_half, pf_to_half)
    HALF_CASE(PF_BFLOAT16, pf_from_bf16, pf_to_bf16)
  }
}

static pf_status assign_step(pf_ctx *c, const assign_state *s, int op, int is_ref) {
  PF_TRY(lock_one(c, PF_VAR_UPDATE));
  DLTensor *x = c->host->var_get(c, 0);
  PF_EXHAUSTED(x);
  const DLTensor *y = c->in[1];
  if (!pf_same_shape(x, y))
    return PF_INVALID(
        c, "Assign%s requires shapes of both tensors to match. lhs shape= %s rhs shape= %s",
        op == ADD ? "Add" : "Sub", PF_SHAPE(x).s, PF_SHAPE(y).s);
  pair p = {s->T, op, PF_DATA(void, x), PF_DATA(const void, y)};
  PF_TRY(pf_parallel(c, pf_numel(x), 2 * PF_GRAIN, add_range, &p));
  return same_ref(c, is_ref);
}
static pf_status assign_add(pf_ctx *c, const void *s) { return assign_step(c, s, ADD, 1); }
static pf_status assign_sub(pf_ctx *c, const void *s) { return assign_step(c, s, SUB, 1); }
static pf_status assign_add_resource(pf_ctx *c, const void *s) { return assign_step(c, s, ADD, 0); }
static pf_status assign_sub_resource(pf_ctx *c, const void *s) { return assign_step(c, s, SUB, 0); }

/* ---------------------------------------------------------------- CountUpTo */
static pf_status count_up_to(pf_ctx *c, const void *state) {
  const assign_state *s = state;
  PF_TRY(lock_one(c, PF_VAR_UPDATE));
  DLTensor *x = c->host->var_get(c, 0);
  PF_EXHAUSTED(x);
  if (x->ndim != 0) return PF_INVALID(c, "input is not a scalar: %s", PF_SHAPE(x).s);
  int64_t now = pf_index_at(x, s->T, 0);
  if (now >= s->limit) return pf_failf(c, PF_OUT_OF_RANGE, "Reached limit of %" PRId64, s->limit);
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  if (s->T == PF_INT64) {
    PF_DATA(int64_t, y)[0] = now;
    PF_DATA(int64_t, x)[0] = now + 1;
  } else {
    PF_DATA(int32_t, y)[0] = (int32_t)now;
    PF_DATA(int32_t, x)[0] = (int32_t)(now + 1);
  }
  return PF_OK;
}

/* ------------------------------------------------------------- VariableShape, DestroyResourceOp */
static pf_status disable_copy_on_read(pf_ctx *c, const void *state) {
  (void)c, (void)state; /* reads are snapshots that copy nothing */
  return PF_OK;
}
static pf_status variable_shape(pf_ctx *c, const void *state) {
  const assign_state *s = state;
  PF_TRY(lock_one(c, PF_VAR_READ));
  const DLTensor *x = c->host->var_get(c, 0);
  PF_EXHAUSTED(x);
  int64_t n = x->ndim;
  DLTensor *y = c->host->output(c, 0, &n, 1);
  PF_EXHAUSTED(y);
  for (int64_t i = 0; i < n; i++) {
    if (s->T == PF_INT64) PF_DATA(int64_t, y)[i] = x->shape[i];
    else if (x->shape[i] > INT32_MAX)
      return PF_INVALID(c, "dimension %" PRId64 " of shape %s does not fit int32", i,
                        PF_SHAPE(x).s);
    else PF_DATA(int32_t, y)[i] = (int32_t)x->shape[i];
  }
  return PF_OK;
}

static pf_status destroy_resource(pf_ctx *c, const void *state) {
  const assign_state *s = state;
  pf_status r = c->host->resource_delete(c, 0);
  return r == PF_NOT_FOUND && s->flag ? PF_OK : r;
}

/* ------------------------------------------------- TemporaryVariable, DestroyTemporaryVariable
 * A variable of a name that no other node, step, frame or iteration has: two nodes of one var_name
 * do not share it. The session's end takes what a failed step left behind. */
typedef struct {
  int32_t dtype, pad;
  pf_shape shape;
} temporary_state;

static pf_status temporary(pf_ctx *c, const void *state) {
  const temporary_state *s = state;
  pf_bytes name = {0};
  pf_str frame = {0}, own = c->host->node_name(c), nowhere = {0};
  int64_t iteration = c->host->frame_iter(c, &frame);
  pf_bytes_printf(&name, "temporary %" PRId64 ":%" PRId64 ":", c->step, iteration);
  pf_bytes_add(&name, frame.data, frame.len);
  pf_bytes_text(&name, ":");
  pf_bytes_add(&name, own.data, own.len);
  pf_status r = name.failed ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a variable's name")
                            : c->host->var_handle(c, 0, nowhere, (pf_str){name.data, name.n},
                                                  s->dtype, s->shape);
  pf_bytes_free(&name);
  return r;
}
/* The value is read, then the container forgets the variable. */
static pf_status destroy_temporary(pf_ctx *c, const void *state) {
  (void)state;
  PF_TRY(c->host->var_read(c, 0, 0));
  pf_status r = c->host->resource_delete(c, 0);
  return r == PF_NOT_FOUND ? PF_OK : r;
}

#define TYPE(name) PF_REF(pf_attr, name, PF_ATTR_TYPE, offsetof(assign_state, T))
#define FLAG(name) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, name, PF_ATTR_BOOL, \
                    offsetof(assign_state, flag)})
#define ENTRY(op, where, fn, ...) PF_CPU_BORROWS(op, where, .attrs = PF_ATTRS(__VA_ARGS__), \
  .state_size = sizeof(assign_state), .compute = fn)
#define TAKES_VALUE(op, fn, ...) PF_CPU_BORROWS(op, NULL, .attrs = PF_ATTRS(__VA_ARGS__), \
  .state_size = sizeof(assign_state), .compute = fn, \
  .args = PF_ARGS(PF_FLAGGED_ARG("value", PF_ARG_KEPT, 0)))

const pf_kernel *const state_kernels[] = {
  TAKES_VALUE("Assign", assign_ref, TYPE("T"), FLAG("validate_shape")),
  ENTRY("AssignAdd", "T=" PF_NUMBERS, assign_add, TYPE("T")),
  ENTRY("AssignSub", "T=" PF_NUMBERS, assign_sub, TYPE("T")),
  TAKES_VALUE("AssignVariableOp", assign_resource, TYPE("dtype"), FLAG("validate_shape")),
  ENTRY("AssignAddVariableOp", "dtype=" PF_NUMBERS, assign_add_resource, TYPE("dtype")),
  ENTRY("AssignSubVariableOp", "dtype=" PF_NUMBERS, assign_sub_resource, TYPE("dtype")),
  ENTRY("CountUpTo", "T=int32|int64", count_up_to, TYPE("T"),
        PF_ATTR(assign_state, PF_ATTR_INT, limit)),
  ENTRY("ResourceCountUpTo", "T=int32|int64", count_up_to, TYPE("T"),
        PF_ATTR(assign_state, PF_ATTR_INT, limit)),
  ENTRY("VariableShape", "out_type=int32|int64", variable_shape, TYPE("out_type")),
  PF_CPU("DisableCopyOnRead", NULL, .compute = disable_copy_on_read),
  ENTRY("DestroyResourceOp", NULL, destroy_resource, FLAG("ignore_lookup_error")),
  PF_CPU("TemporaryVariable", NULL, .state_size = sizeof(temporary_state), .compute = temporary,
         .attrs = PF_ATTRS(PF_ATTR(temporary_state, PF_ATTR_TYPE, dtype),
                           PF_ATTR(temporary_state, PF_ATTR_SHAPE, shape))),
  ENTRY("DestroyTemporaryVariable", NULL, destroy_temporary, TYPE("T")),
  NULL};
