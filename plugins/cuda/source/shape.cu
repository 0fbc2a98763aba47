/* shape.cu - ops about shapes (Shape, Reshape, ...) and tensors made from a shape (Fill, ZerosLike,
 * Range, ...).
 *
 * Shapes, axes and sizes are arguments in host memory, written when compute returns; no element of
 * a device tensor is read here.
 */
#include "walk.h"

namespace {

static void put_index(DLTensor *t, int32_t type, int64_t i, int64_t v) {
  if (type == PF_INT32) PF_DATA(int32_t, t)[i] = (int32_t)v;
  else PF_DATA(int64_t, t)[i] = v;
}
static pf_status index_vector(pf_ctx *c, int32_t out, const int64_t *v, int64_t n) {
  DLTensor *y = c->host->output(c, out, &n, 1);
  PF_EXHAUSTED(y);
  for (int64_t i = 0; i < n; i++) {
    if (c->out_type[out] == PF_INT32 && v[i] > INT32_MAX)
      return INVALID(c, "%" PRId64 " does not fit int32; use out_type=int64", v[i]);
    put_index(y, c->out_type[out], i, v[i]);
  }
  return PF_OK;
}
static pf_status index_scalar(pf_ctx *c, int64_t v) {
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  if (c->out_type[0] == PF_INT32 && v > INT32_MAX)
    return INVALID(c, "Number of elements %" PRId64 " is larger than int32 max; use out_type=int64",
                   v);
  put_index(y, c->out_type[0], 0, v);
  return PF_OK;
}
static pf_status shape(pf_ctx *c, const void *) { /* Shape, ShapeN */
  for (int32_t i = 0; i < c->n_in; i++) PF_TRY(index_vector(c, i, c->in[i]->shape, c->in[i]->ndim));
  return PF_OK;
}
static pf_status rank(pf_ctx *c, const void *) { return index_scalar(c, c->in[0]->ndim); }
static pf_status size(pf_ctx *c, const void *) { return index_scalar(c, pf_numel(c->in[0])); }

/* -------------------------------------------------------- the same elements under another shape */
static pf_status reshape(pf_ctx *c, const void *) {
  int64_t dims[MAX_DIMS], known = 1, total = pf_numel(c->in[0]);
  int32_t nd = 0, unknown = -1;
  if (c->in[1]->ndim != 1) return INVALID(c, "sizes input must be 1-D, not %s", SHAPE(c->in[1]));
  PF_TRY(in_vector(c, 1, "shape", dims, &nd));
  for (int32_t i = 0; i < nd; i++) {
    if (dims[i] == -1 && unknown >= 0)
      return INVALID(c, "Only one input size may be -1, not both %d and %d", unknown, i);
    if (dims[i] < -1) return INVALID(c, "Size %d must be non-negative, not %" PRId64, i, dims[i]);
    if (dims[i] == -1) unknown = i;
    else if (!mul_ok(known, dims[i], &known))
      return INVALID(c, "Shape %s has too many elements", shape_of(dims, nd).s);
  }
  /* what is left of both without the 0s, as in TF */
  if (unknown >= 0 && known == 0 && total == 0) {
    int fits = 1;
    known = total = 1;
    for (int32_t i = 0; i < nd; i++)
      if (dims[i] > 0) fits = fits && mul_ok(known, dims[i], &known);
    for (int32_t i = 0; i < c->in[0]->ndim; i++)
      if (c->in[0]->shape[i]) fits = fits && mul_ok(total, c->in[0]->shape[i], &total);
    if (!fits) return INVALID(c, "Shape %s has too many elements", SHAPE(c->in[0]));
    total -= total % known;
  }
  if (unknown >= 0 && known == 0)
    return INVALID(c, "reshape cannot infer the missing input size for an empty tensor unless all "
                      "specified input sizes are non-zero");
  if (unknown >= 0 && total % known)
    return INVALID(c,
                   "Input to reshape is a tensor with %" PRId64
                   " values, but the requested shape requires a multiple of %" PRId64,
                   total, known);
  if (unknown >= 0) dims[unknown] = total / known;
  else if (known != total)
    return INVALID(c,
                   "Input to reshape is a tensor with %" PRId64
                   " values, but the requested shape has %" PRId64,
                   total, known);
  if (!numel_ok(dims, nd, &known))
    return INVALID(c, "Shape %s has too many elements", shape_of(dims, nd).s);
  return c->host->alias(c, 0, 0, dims, nd);
}
static pf_status expand_dims(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0];
  int64_t axis, dims[MAX_DIMS + 1];
  PF_TRY(check_rank(c, x, "input"));
  PF_TRY(in_scalar(c, 1, "dim", &axis));
  if (axis < -1 - x->ndim || axis > x->ndim)
    return INVALID(c, "Tried to expand dim index %" PRId64 " for tensor with %d dimensions.", axis,
                   x->ndim);
  int32_t a = (int32_t)(axis < 0 ? axis + x->ndim + 1 : axis);
  for (int32_t i = 0; i <= x->ndim; i++)
    dims[i] = i < a ? x->shape[i] : i == a ? 1 : x->shape[i - 1];
  return c->host->alias(c, 0, 0, dims, x->ndim + 1);
}
typedef struct { pf_list squeeze_dims; } squeeze_state;
static pf_status squeeze(pf_ctx *c, const void *state) {
  const squeeze_state *s = (const squeeze_state *)state;
  const DLTensor *x = c->in[0];
  const int64_t *axes = (const int64_t *)s->squeeze_dims.items;
  int64_t dims[MAX_DIMS];
  int32_t drop[MAX_DIMS] = {0}, nd = 0;
  PF_TRY(check_rank(c, x, "input"));
  for (int64_t i = 0; i < s->squeeze_dims.n; i++) {
    if (axes[i] < -x->ndim || axes[i] >= x->ndim)
      return INVALID(c, "Tried to squeeze dim index %" PRId64 " for tensor with %d dimensions.",
                     axes[i], x->ndim);
    int32_t a = (int32_t)(axes[i] < 0 ? axes[i] + x->ndim : axes[i]);
    if (x->shape[a] != 1)
      return INVALID(c, "Can not squeeze dim[%d], expected a dimension of 1, got %" PRId64, a,
                     x->shape[a]);
    drop[a] = 1;
  }
  for (int32_t i = 0; i < x->ndim; i++)
    if (!(s->squeeze_dims.n ? drop[i] : x->shape[i] == 1)) dims[nd++] = x->shape[i];
  return c->host->alias(c, 0, 0, dims, nd);
}

/* ---------------------------------------------------------------- arithmetic on shapes */
static pf_status broadcast_gradient_args(pf_ctx *c, const void *) {
  int64_t s[2][MAX_DIMS], r[2][MAX_DIMS];
  int32_t n[2] = {0, 0}, nr[2] = {0, 0};
  for (int32_t k = 0; k < 2; k++) PF_TRY(in_vector(c, k, k ? "s1" : "s0", s[k], &n[k]));
  int32_t nd = most(n[0], n[1]);
  bool equal = same_dims(s[0], n[0], s[1], n[1]);
  for (int32_t i = 0; i < nd && !equal; i++) {
    int64_t d[2];
    for (int32_t k = 0; k < 2; k++) d[k] = i - (nd - n[k]) >= 0 ? s[k][i - (nd - n[k])] : 1;
    if (d[0] != d[1] && d[0] != 1 && d[1] != 1)
      return INVALID(c, "Incompatible shapes: %s vs. %s", shape_of(s[0], n[0]).s,
                     shape_of(s[1], n[1]).s);
    for (int32_t k = 0; k < 2; k++)
      if (d[k] == 1) r[k][nr[k]++] = i;
  }
  PF_TRY(index_vector(c, 0, r[0], nr[0]));
  return index_vector(c, 1, r[1], nr[1]);
}
static pf_status broadcast_args(pf_ctx *c, const void *) {
  int64_t s[2][MAX_DIMS], out[MAX_DIMS];
  int32_t n[2] = {0, 0};
  for (int32_t k = 0; k < 2; k++) PF_TRY(in_vector(c, k, k ? "s1" : "s0", s[k], &n[k]));
  int32_t nd = most(n[0], n[1]);
  for (int32_t i = 1; i <= nd; i++) {
    int64_t a = i <= n[0] ? s[0][n[0] - i] : 1, b = i <= n[1] ? s[1][n[1] - i] : 1;
    if (a != b && a != 1 && b != 1)
      return INVALID(c, "Incompatible shapes: %s vs. %s", shape_of(s[0], n[0]).s,
                     shape_of(s[1], n[1]).s);
    out[nd - i] = a == 1 ? b : a;
  }
  return index_vector(c, 0, out, nd);
}
static pf_status concat_offset(pf_ctx *c, const void *) {
  int64_t axis, first[MAX_DIMS], dims[MAX_DIMS], at = 0;
  int32_t nd = 0, n = 0, a = 0;
  PF_TRY(in_scalar(c, 0, "concat_dim", &axis));
  for (int32_t i = 1; i < c->n_in; i++) {
    PF_TRY(in_vector(c, i, "shape", dims, &n));
    if (i == 1) {
      memcpy(first, dims, sizeof first), nd = n;
      PF_TRY(check_axis(c, axis, nd, "Concat dim", &a));
    }
    if (n != nd) return INVALID(c, "input %d should contain %d elements, but got %d", i - 1, nd, n);
    for (int32_t d = 0; d < nd; d++)
      if (d != a && dims[d] != first[d])
        return INVALID(c,
                       "All dimensions except %d must match. Input %d has shape %s and doesn't "
                       "match input 0 with shape %s.",
                       a, i - 1, shape_of(dims, nd).s, shape_of(first, nd).s);
    int64_t offset[MAX_DIMS] = {0};
    offset[a] = at;
    if (__builtin_add_overflow(at, dims[a], &at)) return INVALID(c, "Offsets overflow int64");
    PF_TRY(index_vector(c, i - 1, offset, nd));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- filled tensors */
static pf_status fill(pf_ctx *c, const void *) {
  int64_t dims[MAX_DIMS];
  int32_t nd = 0;
  PF_TRY(in_vector(c, 0, "dims", dims, &nd));
  if (c->in[0]->ndim == 0) nd = 1;
  if (c->in[1]->ndim != 0 && pf_numel(c->in[1]) != 1)
    return INVALID(c, "value must be a scalar, got shape %s", SHAPE(c->in[1]));
  DLTensor *y = output_checked(c, 0, dims, nd);
  PF_EXHAUSTED(y);
  return fill_with(c, PF_DATA(void, y), PF_DATA(const void, c->in[1]), pf_numel(y),
                   type_size(c->out_type[0]), on_host(y));
}
static pf_status zeros_like(pf_ctx *c, const void *) {
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  PF_EXHAUSTED(y);
  return fill_zero(c, y, pf_numel(y) * type_size(c->out_type[0]));
}
template <class T> struct constant_each {
  T *y;
  T value;
  PF_BOTH void operator()(int64_t i) const { y[i] = value; }
};
static pf_status ones_like(pf_ctx *c, const void *) {
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  PF_EXHAUSTED(y);
  int32_t type = c->out_type[0];
  return with_real(type == PF_BOOL ? PF_UINT8 : type, [&](auto t) {
    typedef typename decltype(t)::type T;
    return each(c, pf_numel(y), constant_each<T>{PF_DATA(T, y), down<T>((wide<T>)1)});
  });
}

/* ---------------------------------------------------------------- Range, in host memory */
template <class T> pf_status range_of(pf_ctx *c) {
  T start = *PF_DATA(T, c->in[0]), limit = *PF_DATA(T, c->in[1]), delta = *PF_DATA(T, c->in[2]);
  if (delta == 0) return INVALID(c, "Requires delta != 0: 0");
  if (delta > 0 && start > limit)
    return INVALID(c, "Requires start <= limit when delta > 0: %g/%g", (double)start,
                   (double)limit);
  if (delta < 0 && start < limit)
    return INVALID(c, "Requires start >= limit when delta < 0: %g/%g", (double)start,
                   (double)limit);
  double count;
  if constexpr (is_float_of<T>::value)
    count = ceil(fabs(((double)limit - (double)start) / (double)delta));
  else {
    uint64_t span =
        limit > start ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    uint64_t step = delta < 0 ? 0 - (uint64_t)delta : (uint64_t)delta;
    count = (double)(span / step) + (span % step != 0);
  }
  if (!(count < 0x1p59))
    return INVALID(c, "Requires ((limit - start) / delta) < 2^59, got %g", count);
  int64_t n = (int64_t)count;
  DLTensor *y = c->host->output(c, 0, &n, 1);
  PF_EXHAUSTED(y);
  for (int64_t i = 0; i < n; i++) {
    if constexpr (is_float_of<T>::value) PF_DATA(T, y)[i] = start + (T)i * delta;
    else PF_DATA(T, y)[i] = (T)((wraps<T>)start + (wraps<T>)i * (wraps<T>)delta);
  }
  return PF_OK;
}
static pf_status range(pf_ctx *c, const void *) {
  static const char *const names[] = {"start", "limit", "delta"};
  for (int32_t i = 0; i < 3; i++)
    if (pf_numel(c->in[i]) != 1)
      return INVALID(c, "%s must be a scalar, not shape %s", names[i], SHAPE(c->in[i]));
  switch (c->out_type[0]) {
    case PF_FLOAT32: return range_of<float>(c);
    case PF_FLOAT64: return range_of<double>(c);
    case PF_INT32: return range_of<int32_t>(c);
    default: return range_of<int64_t>(c);
  }
}

static constexpr attr_list
    squeeze_attrs({ATTR(squeeze_state, PF_ATTR_LIST | PF_ATTR_INT, squeeze_dims)});
static constexpr arg_list any_in({ANY_IN("input"), HOST_OUT("output")});
static constexpr arg_list reshape_args({HOST_IN("shape")});
static constexpr arg_list expand_args({HOST_IN("dim")});
static constexpr arg_list gradient_args({HOST_IN("s0"), HOST_IN("s1"), HOST_OUT("r0"),
                                         HOST_OUT("r1")});
static constexpr arg_list broadcast_args_args({HOST_IN("s0"), HOST_IN("s1"), HOST_OUT("r0")});
static constexpr arg_list offset_args({HOST_IN("concat_dim"), HOST_IN("shape"),
                                       HOST_OUT("offset")});
static constexpr arg_list fill_args({HOST_IN("dims")});
static constexpr arg_list fill_host({HOST_IN("dims"), HOST_IN("value"), HOST_OUT("output")});
static constexpr arg_list range_args({HOST_IN("start"), HOST_IN("limit"), HOST_IN("delta"),
                                      HOST_OUT("output")});
#define MOVED                                                                              \
  "float|double|half|bfloat16|int8|int16|int64|uint8|uint16|uint32|uint64|bool|complex64|" \
  "complex128"
static const pf_kernel table[] = {
  GPU("Shape", NULL, SAME, .args = any_in.at, .compute = shape),
  GPU("ShapeN", NULL, SAME, .args = any_in.at, .compute = shape),
  GPU("Rank", NULL, SAME, .args = any_in.at, .compute = rank),
  GPU("Size", NULL, SAME, .args = any_in.at, .compute = size),
  GPU("Reshape", NULL, SAME, .args = reshape_args.at, .compute = reshape),
  GPU("ExpandDims", NULL, SAME, .args = expand_args.at, .compute = expand_dims),
  GPU("Squeeze", NULL, SAME, .attrs = squeeze_attrs.at, .state_size = sizeof(squeeze_state),
      .compute = squeeze),
  GPU("BroadcastGradientArgs", NULL, SAME, .args = gradient_args.at,
      .compute = broadcast_gradient_args),
  GPU("BroadcastArgs", NULL, SAME, .args = broadcast_args_args.at, .compute = broadcast_args),
  GPU("ConcatOffset", NULL, SAME, .args = offset_args.at, .compute = concat_offset),
  GPU("Fill", "T=" MOVED, SAME, .args = fill_args.at, .compute = fill),
  GPU("Fill", "T=int32", SAME, .args = fill_host.at, .compute = fill),
  GPU("ZerosLike", "T=" MOVED "|int32", SAME, .compute = zeros_like),
  GPU("OnesLike", "T=" T_WIDE "|bool", SAME, .compute = ones_like),
  GPU("Range", "Tidx=float|double|int32|int64", SAME, .args = range_args.at, .compute = range),
};
} // namespace
KERNELS(shape_kernels, table)
