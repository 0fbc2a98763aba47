/* join.cu - tensors joined, parted and chosen from: Concat, Pack, Split, Unpack, Select, Gather,
 * OneHot.
 *
 * Around an axis every tensor is [outer, axis, inner].  Indices live on the device and cannot be
 * refused by a kernel in flight: as in TensorFlow's GPU kernels, Gather gives zeros for an index
 * out of range, OneHot the off value.
 */
#include "walk.h"

namespace {

/* `n` of `whole` axis positions from `first` on <-> the tensor `part` */
static pf_status copy_part(pf_ctx *c, DLTensor *dst, const DLTensor *src, bool to_whole,
                           int64_t outer, int64_t whole, int64_t first, int64_t n, int64_t inner,
                           int64_t esize) {
  int64_t run[2] = {outer, n * inner};
  box b = box_of(esize, run, 2);
  if (to_whole) b.dst_stride[0] = whole * inner, b.dst_at = first * inner;
  else b.src_stride[0] = whole * inner, b.src_at = first * inner;
  return box_copy(c, &b, PF_DATA(void, dst), PF_DATA(const void, src), on_host(dst));
}

/* ---------------------------------------------------------------- Concat */
static pf_status concat_inputs(pf_ctx *c, int32_t first, int32_t n, int32_t axis_in) {
  const DLTensor *x = c->in[first];
  int64_t axis, shape[MAX_DIMS], at = 0, esize = type_size(c->in_type[first]);
  int32_t filled = -1;
  PF_TRY(check_rank(c, x, "values[0]"));
  PF_TRY(in_scalar(c, axis_in, "axis", &axis));
  if (axis < -x->ndim || axis >= x->ndim)
    return INVALID(
        c, "ConcatOp : Expected concatenating dimensions in the range [%d, %d), but got %" PRId64,
        -x->ndim, x->ndim, axis);
  int32_t a = (int32_t)(axis < 0 ? axis + x->ndim : axis);
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
  shape[a] = 0;
  for (int32_t i = 0; i < n; i++) {
    const DLTensor *t = c->in[first + i];
    if (t->ndim != x->ndim)
      return INVALID(
          c, "ConcatOp : Ranks of all input tensors should match: shape[0] = %s vs. shape[%d] = %s",
          SHAPE(x), i, SHAPE(t));
    for (int32_t d = 0; d < x->ndim; d++)
      if (d != a && t->shape[d] != x->shape[d])
        return INVALID(c,
                       "ConcatOp : Dimension %d in both shapes must be equal: shape[0] = %s vs. "
                       "shape[%d] = %s",
                       d, SHAPE(x), i, SHAPE(t));
    if (t->shape[a]) filled = filled == -1 ? i : -2;
    if (__builtin_add_overflow(shape[a], t->shape[a], &shape[a]))
      return INVALID(c, "ConcatOp : result is too large");
  }
  if (filled >= 0)
    return c->host->alias(c, first + filled, 0, shape, x->ndim); /* all others are empty */
  DLTensor *y = output_checked(c, 0, shape, x->ndim);
  PF_EXHAUSTED(y);
  int64_t outer = product(shape, 0, a), inner = product(shape, a + 1, x->ndim);
  for (int32_t i = 0; i < n; i++) {
    const DLTensor *t = c->in[first + i];
    if (pf_numel(t))
      PF_TRY(copy_part(c, y, t, true, outer, shape[a], at, t->shape[a], inner, esize));
    at += t->shape[a];
  }
  return PF_OK;
}
static pf_status concat(pf_ctx *c, const void *) { return concat_inputs(c, 1, c->n_in - 1, 0); }
static pf_status concat_v2(pf_ctx *c, const void *) {
  return concat_inputs(c, 0, c->n_in - 1, c->n_in - 1);
}

/* ---------------------------------------------------------------- Pack, Unpack */
typedef struct { int64_t axis; } axis_state;
static pf_status pack(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t axis = ((const axis_state *)state)->axis, shape[MAX_DIMS + 1],
          esize = type_size(c->in_type[0]);
  PF_TRY(check_rank(c, x, "values[0]"));
  int32_t nd = x->ndim + 1;
  if (axis < -nd || axis >= nd)
    return INVALID(c, "axis = %" PRId64 " not in [%d, %d)", axis, -nd, nd);
  if (axis < 0) axis += nd;
  for (int32_t i = 0; i < c->n_in; i++)
    if (!same_shape(c->in[i], x))
      return INVALID(
          c, "Shapes of all inputs must match: values[0].shape = %s != values[%d].shape = %s",
          SHAPE(x), i, SHAPE(c->in[i]));
  for (int32_t i = 0; i < nd; i++)
    shape[i] = i < axis ? x->shape[i] : i == axis ? c->n_in : x->shape[i - 1];
  DLTensor *y = output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  int64_t outer = product(shape, 0, (int32_t)axis), inner = product(shape, (int32_t)axis + 1, nd);
  for (int32_t i = 0; i < c->n_in && outer && inner; i++)
    PF_TRY(copy_part(c, y, c->in[i], true, outer, c->n_in, i, 1, inner, esize));
  return PF_OK;
}
static pf_status unpack(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t shape[MAX_DIMS], esize = type_size(c->in_type[0]);
  int32_t a = 0, nd = 0;
  PF_TRY(check_rank(c, x, "value"));
  PF_TRY(check_axis(c, ((const axis_state *)state)->axis, x->ndim, "axis", &a));
  if (x->shape[a] != c->n_out)
    return INVALID(c, "Input shape axis %d must equal %d, got shape %s", a, c->n_out, SHAPE(x));
  for (int32_t i = 0; i < x->ndim; i++)
    if (i != a) shape[nd++] = x->shape[i];
  int64_t outer = product(x->shape, 0, a), inner = product(x->shape, a + 1, x->ndim);
  for (int32_t i = 0; i < c->n_out; i++) {
    DLTensor *y = c->host->output(c, i, shape, nd);
    PF_EXHAUSTED(y);
    if (outer && inner) PF_TRY(copy_part(c, y, x, false, outer, c->n_out, i, 1, inner, esize));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- Split, SplitV */
static pf_status split_into(pf_ctx *c, int32_t value, int32_t a, int32_t sizes_in, int64_t rest,
                            int64_t each_size) {
  const DLTensor *x = c->in[value];
  int64_t shape[MAX_DIMS], at = 0, esize = type_size(c->in_type[value]);
  int64_t outer = product(x->shape, 0, a), inner = product(x->shape, a + 1, x->ndim);
  if (c->n_out == 1) return c->host->alias(c, value, 0, x->shape, x->ndim);
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
  for (int32_t i = 0; i < c->n_out; i++) {
    shape[a] = sizes_in < 0 ? each_size : in_index(c, sizes_in, i);
    if (shape[a] == -1) shape[a] = rest;
    DLTensor *y = c->host->output(c, i, shape, x->ndim);
    PF_EXHAUSTED(y);
    if (pf_numel(y))
      PF_TRY(copy_part(c, y, x, false, outer, x->shape[a], at, shape[a], inner, esize));
    at += shape[a];
  }
  return PF_OK;
}
static pf_status split_axis(pf_ctx *c, int32_t in, const DLTensor *x, int32_t *a) {
  int64_t axis;
  PF_TRY(check_rank(c, x, "value"));
  PF_TRY(in_scalar(c, in, "split_dim", &axis));
  if (axis < -x->ndim || axis >= x->ndim)
    return INVALID(c, "-input rank(-%d) <= split_dim < input rank (%d), but got %" PRId64, x->ndim,
                   x->ndim, axis);
  *a = (int32_t)(axis < 0 ? axis + x->ndim : axis);
  return PF_OK;
}
static pf_status split(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[1];
  int32_t a = 0;
  PF_TRY(split_axis(c, 0, x, &a));
  if (c->n_out < 1)
    return INVALID(c, "Number of ways to split should be > 0, but got %d", c->n_out);
  if (x->shape[a] % c->n_out)
    return INVALID(c,
                   "Number of ways to split should evenly divide the split dimension, but got "
                   "split_dim %d (size = %" PRId64 ") and num_split %d",
                   a, x->shape[a], c->n_out);
  return split_into(c, 1, a, -1, 0, x->shape[a] / c->n_out);
}
static pf_status split_v(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0], *t = c->in[1];
  int64_t sum = 0;
  int32_t a = 0, rest = -1;
  PF_TRY(split_axis(c, 2, x, &a));
  if (t->ndim != 1 || t->shape[0] != c->n_out)
    return INVALID(c, "size_splits must be a vector with %d elements, got shape %s", c->n_out,
                   SHAPE(t));
  for (int32_t i = 0; i < c->n_out; i++) {
    int64_t n = in_index(c, 1, i);
    if (n == -1 && rest >= 0) return INVALID(c, "There can only be one -1 in the input.");
    if (n < -1) return INVALID(c, "Split size at index %d must be >= 0. Got: %" PRId64, i, n);
    if (n == -1) rest = i;
    else if (__builtin_add_overflow(sum, n, &sum)) return INVALID(c, "Split sizes overflow");
  }
  if (rest >= 0 ? sum > x->shape[a] : sum != x->shape[a])
    return INVALID(c,
                   "Determined shape must either match input shape along split_dim exactly if "
                   "fully specified, or be less than the "
                   "size of the input along split_dim if not fully specified.  Got: %" PRId64
                   " of %" PRId64,
                   sum, x->shape[a]);
  return split_into(c, 0, a, 1, x->shape[a] - sum, 0);
}

/* ---------------------------------------------------------------- Select, SelectV2 */
template <class T> struct select_each {
  walk<3> w;
  const uint8_t *cond;
  const T *a, *b;
  T *y;
  PF_BOTH void operator()(int64_t i) const {
    int64_t at[3];
    w.offsets(i, at);
    T yes = a[at[1]], no = b[at[2]];
    y[i] = cond[at[0]] ? yes : no;
  }
};
static pf_status run_select(pf_ctx *c, const int64_t *shape, int32_t nd,
                            const int64_t *cond_stride) {
  const DLTensor *a = c->in[1], *b = c->in[2];
  int64_t sa[MAX_DIMS], sb[MAX_DIMS];
  const int64_t *strides[3] = {cond_stride, sa, sb};
  DLTensor *y = output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  broadcast_strides(a->shape, a->ndim, nd, sa);
  broadcast_strides(b->shape, b->ndim, nd, sb);
  return with_size(type_size(c->in_type[1]), [&](auto t) -> pf_status {
    typedef typename decltype(t)::type T;
    select_each<T> f;
    if (!walk_plan(&f.w, shape, nd, strides)) return TOO_TANGLED(c);
    f.cond = PF_DATA(const uint8_t, c->in[0]), f.a = PF_DATA(const T, a), f.b = PF_DATA(const T, b),
    f.y = PF_DATA(T, y);
    return each(c, pf_numel(y), f);
  });
}
static pf_status select_v1(pf_ctx *c, const void *) {
  const DLTensor *cond = c->in[0], *a = c->in[1], *b = c->in[2];
  int64_t stride[MAX_DIMS] = {0};
  PF_TRY(check_rank(c, a, "then"));
  if (!same_shape(a, b))
    return INVALID(c, "'then' and 'else' must have the same size.  but received: %s vs. %s",
                   SHAPE(a), SHAPE(b));
  if (same_shape(cond, a)) row_major(a->shape, a->ndim, stride);
  else if (cond->ndim == 1 && a->ndim >= 1 && cond->shape[0] == a->shape[0]) stride[0] = 1;
  else if (cond->ndim != 0)
    return INVALID(c,
                   "'cond' must be a scalar, of the shape of 'then' %s, or a vector of its first "
                   "dimension, got %s",
                   SHAPE(a), SHAPE(cond));
  return run_select(c, a->shape, a->ndim, stride);
}
static pf_status select_v2(pf_ctx *c, const void *) {
  int64_t both[MAX_DIMS], shape[MAX_DIMS], stride[MAX_DIMS];
  int32_t nd = 0;
  PF_TRY(broadcast_shape(c, c->in[1], c->in[2], both, &nd));
  DLTensor joined = *c->in[1];
  joined.shape = both, joined.ndim = nd;
  PF_TRY(broadcast_shape(c, c->in[0], &joined, shape, &nd));
  broadcast_strides(c->in[0]->shape, c->in[0]->ndim, nd, stride);
  return run_select(c, shape, nd, stride);
}

/* ---------------------------------------------------------------- Gather, GatherV2 */
template <class T, class I> struct gather_each {
  const T *x;
  const I *index;
  T *y;
  int64_t outer, n, m, inner; /* y[b, o, i, k] = x[b, o, index[b, i], k] */
  PF_BOTH void operator()(int64_t at) const {
    int64_t k = at % inner, row = at / inner, i = row % m, bo = row / m;
    int64_t from = (int64_t)index[bo / outer * m + i];
    y[at] = from >= 0 && from < n ? x[(bo * n + from) * inner + k] : T{};
  }
};
static pf_status gather_along(pf_ctx *c, int32_t axis, int32_t batch_dims) {
  const DLTensor *x = c->in[0], *index = c->in[1];
  int64_t shape[3 * MAX_DIMS];
  int32_t nd = 0;
  for (int32_t i = 0; i < axis; i++) shape[nd++] = x->shape[i];
  for (int32_t i = batch_dims; i < index->ndim; i++) shape[nd++] = index->shape[i];
  for (int32_t i = axis + 1; i < x->ndim; i++) shape[nd++] = x->shape[i];
  DLTensor *y = output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  return with_size(type_size(c->in_type[0]), [&](auto t) {
    return with_index(c->in_type[1], [&](auto i) {
      typedef typename decltype(t)::type T;
      typedef typename decltype(i)::type I;
      return each(c, pf_numel(y),
                  gather_each<T, I>{PF_DATA(const T, x), PF_DATA(const I, index), PF_DATA(T, y),
                                    product(x->shape, batch_dims, axis), x->shape[axis],
                                    product(index->shape, batch_dims, index->ndim),
                                    product(x->shape, axis + 1, x->ndim)});
    });
  });
}
static pf_status gather(pf_ctx *c, const void *) {
  PF_TRY(check_rank(c, c->in[0], "params"));
  PF_TRY(check_rank(c, c->in[1], "indices"));
  if (c->in[0]->ndim < 1) return INVALID(c, "params must be at least 1 dimensional");
  return gather_along(c, 0, 0);
}
typedef struct { int64_t batch_dims; } gather_state;
static pf_status gather_v2(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *index = c->in[1];
  int64_t axis, batch = ((const gather_state *)state)->batch_dims;
  PF_TRY(check_rank(c, x, "params"));
  PF_TRY(check_rank(c, index, "indices"));
  PF_TRY(in_scalar(c, 2, "axis", &axis));
  if (axis < -x->ndim || axis >= x->ndim)
    return INVALID(c, "Expected axis in the range [%d, %d), but got %" PRId64, -x->ndim, x->ndim,
                   axis);
  if (axis < 0) axis += x->ndim;
  if (batch < -index->ndim || batch > index->ndim)
    return INVALID(c, "Expected batch_dims in the range [%d, %d], but got %" PRId64, -index->ndim,
                   index->ndim, batch);
  if (batch < 0) batch += index->ndim;
  if (batch > axis)
    return INVALID(c, "batch_dims (%" PRId64 ") must be less than or equal to axis (%" PRId64 ").",
                   batch, axis);
  for (int64_t i = 0; i < batch; i++)
    if (x->shape[i] != index->shape[i])
      return INVALID(c,
                     "params.shape[%" PRId64 "]: %" PRId64
                     " should be equal to indices.shape[%" PRId64 "]: %" PRId64,
                     i, x->shape[i], i, index->shape[i]);
  return gather_along(c, (int32_t)axis, (int32_t)batch);
}

/* ---------------------------------------------------------------- OneHot */
template <class T, class I> struct one_hot_each {
  const I *x;
  const T *on, *off;
  T *y;
  int64_t depth, inner;
  PF_BOTH void operator()(int64_t i) const {
    int64_t k = i % inner, d = i / inner % depth, o = i / inner / depth;
    y[i] = (int64_t)x[o * inner + k] == d ? *on : *off;
  }
};
static pf_status one_hot(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t axis = ((const axis_state *)state)->axis, depth, shape[MAX_DIMS + 1];
  PF_TRY(check_rank(c, x, "indices"));
  PF_TRY(in_scalar(c, 1, "depth", &depth));
  if (axis < -1 || axis > x->ndim)
    return INVALID(c, "Expected axis to be -1 or between [0, %d).  But received: %" PRId64,
                   x->ndim + 1, axis);
  if (depth < 0) return INVALID(c, "depth must be non-negative, got: %" PRId64, depth);
  for (int32_t i = 2; i < 4; i++)
    if (pf_numel(c->in[i]) != 1)
      return INVALID(c, "%s must be a scalar, but got: %s", i == 2 ? "on_value" : "off_value",
                     SHAPE(c->in[i]));
  int32_t a = (int32_t)(axis < 0 ? x->ndim : axis);
  for (int32_t i = 0; i <= x->ndim; i++)
    shape[i] = i < a ? x->shape[i] : i == a ? depth : x->shape[i - 1];
  DLTensor *y = output_checked(c, 0, shape, x->ndim + 1);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  return with_size(type_size(c->in_type[2]), [&](auto t) {
    return with_index(c->in_type[0], [&](auto i) {
      typedef typename decltype(t)::type T;
      typedef typename decltype(i)::type I;
      return each(c, pf_numel(y),
                  one_hot_each<T, I>{PF_DATA(const I, x), PF_DATA(const T, c->in[2]),
                                     PF_DATA(const T, c->in[3]), PF_DATA(T, y), depth,
                                     product(x->shape, a, x->ndim)});
    });
  });
}

#define MOVED                                                                              \
  "float|double|half|bfloat16|int8|int16|int64|uint8|uint16|uint32|uint64|bool|complex64|" \
  "complex128"
static constexpr attr_list axis_attr({ATTR(axis_state, PF_ATTR_INT, axis)});
static constexpr attr_list batch_attr({ATTR(gather_state, PF_ATTR_INT, batch_dims)});
static constexpr arg_list concat_args({HOST_IN("concat_dim")});
static constexpr arg_list concat_host({HOST_IN("concat_dim"), HOST_IN("values"),
                                       HOST_OUT("output")});
static constexpr arg_list concat2_args({HOST_IN("axis")});
static constexpr arg_list concat2_host({HOST_IN("values"), HOST_IN("axis"), HOST_OUT("output")});
static constexpr arg_list pack_host({HOST_IN("values"), HOST_OUT("output")});
static constexpr arg_list unpack_host({HOST_IN("value"), HOST_OUT("output")});
static constexpr arg_list split_args({HOST_IN("split_dim")});
static constexpr arg_list split_v_args({HOST_IN("size_splits"), HOST_IN("split_dim")});
static constexpr arg_list gather_args({HOST_IN("axis")});
static constexpr arg_list one_hot_args({HOST_IN("depth")});
#define AXIS .state_size = sizeof(axis_state)
static const pf_kernel table[] = {
  GPU("Concat", "T=" MOVED, SAME, .args = concat_args.at, .compute = concat),
  GPU("Concat", "T=int32", SAME, .args = concat_host.at, .compute = concat),
  GPU("ConcatV2", "T=" MOVED, SAME, .args = concat2_args.at, .compute = concat_v2),
  GPU("ConcatV2", "T=int32", SAME, .args = concat2_host.at, .compute = concat_v2),
  GPU("Pack", "T=" MOVED, SAME, .attrs = axis_attr.at, AXIS, .compute = pack),
  GPU("Pack", "T=int32", SAME, .attrs = axis_attr.at, .args = pack_host.at, AXIS, .compute = pack),
  GPU("Unpack", "T=" MOVED, SAME, .attrs = axis_attr.at, AXIS, .compute = unpack),
  GPU("Unpack", "T=int32", SAME, .attrs = axis_attr.at, .args = unpack_host.at, AXIS,
      .compute = unpack),
  GPU("Split", "T=" MOVED "|int32", SAME, .args = split_args.at, .compute = split),
  GPU("SplitV", "T=" MOVED "|int32", SAME, .args = split_v_args.at, .compute = split_v),
  GPU("Select", "T=" MOVED "|int32", SAME, .compute = select_v1),
  GPU("SelectV2", "T=" MOVED "|int32", SAME, .compute = select_v2),
  GPU("Gather", "Tparams=" MOVED "|int32", SAME, .compute = gather),
  GPU("GatherV2", "Tparams=" MOVED "|int32, Tindices=int32|int64", SAME, .attrs = batch_attr.at,
      .args = gather_args.at, .state_size = sizeof(gather_state), .compute = gather_v2),
  GPU("OneHot", "T=" MOVED "|int32, TI=int32|int64", SAME, .attrs = axis_attr.at,
      .args = one_hot_args.at, AXIS, .compute = one_hot),
};
} // namespace
KERNELS(join_kernels, table)
