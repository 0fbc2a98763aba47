/* state.cu - Assign and its relatives, on ref variables (VariableV2) and resource variables, in
 * device memory.
 *
 * Invariants
 *   1. A variable is touched only between var_lock and the end of the call.
 *   2. Shapes are checked before the first write: a failed call changes nothing.
 *   3. A Ref output is the Ref input forwarded: the same variable, not a copy of its value.
 */
#include "launch.h"

namespace {

typedef struct { int32_t validate_shape, out_type, ignore_lookup_error; } assign_state;
static pf_status lock_one(pf_ctx *c, int32_t mode) {
  pf_var v = {0, mode};
  return c->host->var_lock(c, &v, 1);
}
static pf_status same_ref(pf_ctx *c) { return c->n_out ? c->host->alias(c, 0, 0, NULL, 0) : PF_OK; }

static pf_status assign(pf_ctx *c, const void *state) {
  PF_TRY(lock_one(c, PF_VAR_REPLACE));
  if (((const assign_state *)state)->validate_shape) {
    const DLTensor *old = c->host->var_get(c, 0);
    if (old && !same_shape(old, c->in[1]))
      return INVALID(c,
                     "Assign requires shapes of both tensors to match. lhs shape= %s rhs shape= %s",
                     SHAPE(old), SHAPE(c->in[1]));
  }
  PF_TRY(c->host->var_assign(c, 0, 1));
  return same_ref(c);
}

template <class T, bool subtract> struct step_map {
  struct value { T x, y; };
  T *x;
  const T *y;
  PF_BOTH value load(int64_t i) const { return value{x[i], y[i]}; }
  PF_BOTH void store(int64_t i, value v) const {
    typedef wraps<wide<T>> U;
    x[i] = down<T>((wide<T>)(subtract ? (U)up(v.x) - (U)up(v.y) : (U)up(v.x) + (U)up(v.y)));
  }
};
template <bool subtract> pf_status assign_step(pf_ctx *c, const void *) {
  PF_TRY(lock_one(c, PF_VAR_UPDATE));
  DLTensor *x = c->host->var_get(c, 0);
  PF_EXHAUSTED(x);
  const DLTensor *y = c->in[1];
  if (!same_shape(x, y))
    return INVALID(c,
                   "Assign%s requires shapes of both tensors to match. lhs shape= %s rhs shape= %s",
                   subtract ? "Sub" : "Add", SHAPE(x), SHAPE(y));
  PF_TRY(with_real(c->in_type[1], [&](auto t) {
    typedef typename decltype(t)::type T;
    return map(c, pf_numel(x), step_map<T, subtract>{PF_DATA(T, x), PF_DATA(const T, y)});
  }));
  return same_ref(c);
}
static pf_status variable_shape(pf_ctx *c, const void *state) {
  PF_TRY(lock_one(c, PF_VAR_READ));
  const DLTensor *x = c->host->var_get(c, 0);
  PF_EXHAUSTED(x);
  int64_t n = x->ndim;
  DLTensor *y = c->host->output(c, 0, &n, 1);
  PF_EXHAUSTED(y);
  for (int64_t i = 0; i < n; i++) {
    if (((const assign_state *)state)->out_type == PF_INT64) PF_DATA(int64_t, y)[i] = x->shape[i];
    else if (x->shape[i] > INT32_MAX)
      return INVALID(c, "dimension %" PRId64 " of shape %s does not fit int32", i, SHAPE(x));
    else PF_DATA(int32_t, y)[i] = (int32_t)x->shape[i];
  }
  return PF_OK;
}
static pf_status destroy_resource(pf_ctx *c, const void *state) {
  pf_status r = c->host->resource_delete(c, 0);
  return r == PF_NOT_FOUND && ((const assign_state *)state)->ignore_lookup_error ? PF_OK : r;
}

static constexpr attr_list
    validate({ATTR_OPTIONAL("validate_shape", assign_state, PF_ATTR_BOOL, validate_shape)});
static constexpr attr_list out_type({ATTR(assign_state, PF_ATTR_TYPE, out_type)});
static constexpr attr_list
    ignore({ATTR_OPTIONAL("ignore_lookup_error", assign_state, PF_ATTR_BOOL, ignore_lookup_error)});
static constexpr arg_list shape_args({HOST_OUT("output")});
#define PLAIN                                                                                    \
  "float|double|half|bfloat16|int8|int16|int32|int64|uint8|uint16|uint32|uint64|bool|complex64|" \
  "complex128"
#define NUMBERS T_WIDE "|int32"
#define STATE .state_size = sizeof(assign_state)
static const pf_kernel table[] = {
  GPU("Assign", "T=" PLAIN, SAME, .attrs = validate.at, STATE, .compute = assign),
  GPU("AssignVariableOp", "dtype=" PLAIN, SAME, .attrs = validate.at, STATE, .compute = assign),
  GPU("AssignAdd", "T=" NUMBERS, SAME, .compute = assign_step<false>),
  GPU("AssignSub", "T=" NUMBERS, SAME, .compute = assign_step<true>),
  GPU("AssignAddVariableOp", "dtype=" NUMBERS, SAME, .compute = assign_step<false>),
  GPU("AssignSubVariableOp", "dtype=" NUMBERS, SAME, .compute = assign_step<true>),
  GPU("VariableShape", "out_type=int32|int64", SAME, .attrs = out_type.at, .args = shape_args.at,
      STATE, .compute = variable_shape),
  GPU("DestroyResourceOp", NULL, SAME, .attrs = ignore.at, STATE, .compute = destroy_resource),
};
} // namespace
KERNELS(state_kernels, table)
