/* slice.cu - parts of a tensor, tensors with borders, other orders: Slice, StridedSlice(Grad), Pad,
 * Transpose, BroadcastTo, Tile, Reverse.  Each computes offsets and strides from host arguments;
 * the copying is walk.cu's.  int32 tensors are in host memory.
 */
#include "walk.h"

namespace {

static pf_status copy_box(pf_ctx *c, const box *b, DLTensor *y, const DLTensor *x) {
  return box_copy(c, b, PF_DATA(void, y), PF_DATA(const void, x), on_host(y));
}
static pf_status zero_all(pf_ctx *c, DLTensor *y, int64_t esize) {
  return fill_with(c, PF_DATA(void, y), NULL, pf_numel(y), esize, on_host(y));
}

static pf_status slice(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0];
  int64_t begin[MAX_DIMS], size[MAX_DIMS];
  int32_t nb = 0, ns = 0;
  bool whole = true;
  PF_TRY(check_rank(c, x, "input"));
  PF_TRY(in_vector(c, 1, "begin", begin, &nb));
  PF_TRY(in_vector(c, 2, "size", size, &ns));
  if (nb != x->ndim || ns != x->ndim || c->in[1]->ndim != 1 || c->in[2]->ndim != 1)
    return INVALID(c,
                   "Expected begin and size arguments to be 1-D tensors of size %d, but got shapes "
                   "%s and %s instead.",
                   x->ndim, SHAPE(c->in[1]), SHAPE(c->in[2]));
  for (int32_t i = 0; i < nb; i++) {
    if (begin[i] < 0 || begin[i] > x->shape[i])
      return INVALID(c, "Expected begin[%d] in [0, %" PRId64 "], but got %" PRId64, i, x->shape[i],
                     begin[i]);
    if (size[i] == -1) size[i] = x->shape[i] - begin[i];
    if (size[i] < 0 || size[i] > x->shape[i] - begin[i])
      return INVALID(c, "Expected size[%d] in [0, %" PRId64 "], but got %" PRId64, i,
                     x->shape[i] - begin[i], size[i]);
    whole = whole && size[i] == x->shape[i];
  }
  if (whole) return c->host->alias(c, 0, 0, x->shape, x->ndim);
  DLTensor *y = c->host->output(c, 0, size, nb);
  PF_EXHAUSTED(y);
  box b = box_of(type_size(c->in_type[0]), size, nb);
  row_major(x->shape, nb, b.src_stride);
  for (int32_t i = 0; i < nb; i++) b.src_at += begin[i] * b.src_stride[i];
  return copy_box(c, &b, y, x);
}

/* ---------------------------------------------------------------- StridedSlice */
typedef struct {
  int64_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
} slice_state;
typedef struct {
  int64_t begin[MAX_DIMS], stride[MAX_DIMS], size[MAX_DIMS]; /* per input dimension */
  int64_t shape[2 * MAX_DIMS];                               /* of the result */
  int32_t nd;
} slice_plan;

/* one dimension of `dim` elements cut by begin:end:stride */
static void cut(slice_plan *p, int32_t d, int64_t dim, int64_t begin, int64_t end, int64_t stride,
                bool no_begin, bool no_end) {
  int64_t lo = stride > 0 ? 0 : -1, hi = stride > 0 ? dim : dim - 1;
  begin = begin < 0 ? begin + dim : begin, end = end < 0 ? end + dim : end;
  begin = no_begin ? stride > 0 ? lo : hi : least(most(begin, lo), hi);
  end = no_end ? stride > 0 ? hi : lo : least(most(end, lo), hi);
  int64_t span = end - begin;
  p->begin[d] = begin, p->stride[d] = stride;
  p->size[d] = span == 0 || (span < 0) != (stride < 0) ? 0 : span / stride + (span % stride != 0);
  if (p->size[d] <= 1) p->stride[d] = 1;
}
typedef struct {
  int64_t begin[MAX_DIMS], end[MAX_DIMS], stride[MAX_DIMS];
  int32_t n;
} slice_spec;
static pf_status read_spec(pf_ctx *c, int32_t first, slice_spec *s) {
  int32_t ne = 0, nst = 0;
  PF_TRY(in_vector(c, first, "begin", s->begin, &s->n));
  PF_TRY(in_vector(c, first + 1, "end", s->end, &ne));
  PF_TRY(in_vector(c, first + 2, "strides", s->stride, &nst));
  if (s->n == ne && s->n == nst) return PF_OK;
  return INVALID(c,
                 "Expected begin, end, and strides to be 1D equal size tensors, but got shapes %s, "
                 "%s, and %s instead.",
                 SHAPE(c->in[first]), SHAPE(c->in[first + 1]), SHAPE(c->in[first + 2]));
}
/* entry i of the spec, for input dimension d */
static pf_status plan_entry(pf_ctx *c, const slice_state *s, const slice_spec *v, int32_t i,
                            int32_t d, const int64_t *dims, slice_plan *p) {
  int64_t bit = (int64_t)1 << i;
  if (v->stride[i] == 0) return INVALID(c, "strides[%d] must be non-zero", i);
  if (s->shrink_axis_mask & bit) {
    int64_t at = v->begin[i] < 0 ? v->begin[i] + dims[d] : v->begin[i];
    if (v->stride[i] < 0) return INVALID(c, "only stride 1 allowed on non-range indexing.");
    if (at < 0 || at >= dims[d])
      return INVALID(c, "slice index %" PRId64 " of dimension %d out of bounds.", v->begin[i], d);
    p->begin[d] = at, p->stride[d] = 1, p->size[d] = 1;
    return PF_OK;
  }
  cut(p, d, dims[d], v->begin[i], v->end[i], v->stride[i], (s->begin_mask & bit) != 0,
      (s->end_mask & bit) != 0);
  p->shape[p->nd++] = p->size[d];
  return PF_OK;
}
static pf_status plan_slice(pf_ctx *c, const slice_state *s, int32_t first, const int64_t *dims,
                            int32_t nd, slice_plan *p) {
  slice_spec v;
  int32_t d = 0, axes_left = 0, ellipsis = -1;
  PF_TRY(read_spec(c, first, &v));
  for (int32_t i = 0; i < v.n; i++) {
    int64_t bit = (int64_t)1 << i;
    if (s->ellipsis_mask & bit) {
      if (ellipsis >= 0) return INVALID(c, "Multiple ellipses in slice spec not allowed");
      ellipsis = i;
    } else if (ellipsis >= 0 && !(s->new_axis_mask & bit)) axes_left++;
  }
  p->nd = 0;
  for (int32_t i = 0; i <= v.n; i++) {
    if (i == v.n || i == ellipsis) { /* what is not named is taken whole */
      int32_t stop = i == v.n ? nd : least(most(d, nd - axes_left), nd);
      for (; d < stop; d++) cut(p, d, dims[d], 0, 0, 1, true, true), p->shape[p->nd++] = dims[d];
    } else if (s->new_axis_mask & ((int64_t)1 << i)) {
      p->shape[p->nd++] = 1;
    } else {
      if (d >= nd)
        return INVALID(c, "Index out of range using input dim %d; input has only %d dims", d, nd);
      PF_TRY(plan_entry(c, s, &v, i, d++, dims, p));
    }
  }
  return PF_OK;
}
static void place(const slice_plan *p, int32_t nd, int64_t *at, int64_t *stride) {
  for (int32_t i = 0; i < nd; i++) *at += p->begin[i] * stride[i], stride[i] *= p->stride[i];
}

static pf_status strided_slice(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  slice_plan p;
  PF_TRY(check_rank(c, x, "input"));
  PF_TRY(plan_slice(c, (const slice_state *)state, 1, x->shape, x->ndim, &p));
  bool whole = same_dims(p.size, x->ndim, x->shape, x->ndim);
  for (int32_t i = 0; i < x->ndim && whole; i++) whole = p.stride[i] == 1;
  if (whole) return c->host->alias(c, 0, 0, p.shape, p.nd);
  DLTensor *y = c->host->output(c, 0, p.shape, p.nd);
  PF_EXHAUSTED(y);
  box b = box_of(type_size(c->in_type[0]), p.size, x->ndim);
  row_major(x->shape, x->ndim, b.src_stride);
  place(&p, x->ndim, &b.src_at, b.src_stride);
  return copy_box(c, &b, y, x);
}
static pf_status strided_slice_grad(pf_ctx *c, const void *state) {
  int64_t dims[MAX_DIMS];
  int32_t nd = 0;
  slice_plan p;
  const DLTensor *dy = c->in[4];
  PF_TRY(in_vector(c, 0, "shape", dims, &nd));
  for (int32_t i = 0; i < nd; i++)
    if (dims[i] < 0)
      return INVALID(c, "Dimension %d of shape must be >= 0, got %" PRId64, i, dims[i]);
  PF_TRY(plan_slice(c, (const slice_state *)state, 1, dims, nd, &p));
  if (!same_dims(p.shape, p.nd, dy->shape, dy->ndim))
    return INVALID(c, "shape of dy was %s instead of %s", SHAPE(dy), shape_of(p.shape, p.nd).s);
  DLTensor *y = output_checked(c, 0, dims, nd);
  PF_EXHAUSTED(y);
  int64_t esize = type_size(c->in_type[4]);
  PF_TRY(zero_all(c, y, esize));
  box b = box_of(esize, p.size, nd);
  row_major(dims, nd, b.dst_stride);
  place(&p, nd, &b.dst_at, b.dst_stride);
  return copy_box(c, &b, y, dy);
}

/* ---------------------------------------------------------------- Pad, PadV2 */
static pf_status pad(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0], *pads = c->in[1];
  int64_t lo[MAX_DIMS], shape[MAX_DIMS];
  PF_TRY(check_rank(c, x, "input"));
  if (pads->ndim != 2 || pads->shape[1] != 2)
    return INVALID(c, "paddings must be a matrix with 2 columns: %s", SHAPE(pads));
  if (pads->shape[0] != x->ndim)
    return INVALID(c, "The first dimension of paddings must be the rank of inputs%s %s",
                   SHAPE(pads), SHAPE(x));
  for (int32_t i = 0; i < x->ndim; i++) {
    int64_t hi = in_index(c, 1, 2 * i + 1), sum;
    lo[i] = in_index(c, 1, 2 * i);
    if (lo[i] < 0 || hi < 0 || __builtin_add_overflow(lo[i], hi, &sum) ||
        __builtin_add_overflow(x->shape[i], sum, &shape[i]))
      return INVALID(c, "Paddings must be non-negative and fit the shape: %" PRId64 " %" PRId64,
                     lo[i], hi);
  }
  if (c->n_in > 2 && pf_numel(c->in[2]) != 1)
    return INVALID(c, "constant_values must be a scalar. Found: %s", SHAPE(c->in[2]));
  DLTensor *y = output_checked(c, 0, shape, x->ndim);
  PF_EXHAUSTED(y);
  int64_t esize = type_size(c->in_type[0]);
  if (pf_numel(y) != pf_numel(x))
    PF_TRY(fill_with(c, PF_DATA(void, y), c->n_in > 2 ? PF_DATA(const void, c->in[2]) : NULL,
                     pf_numel(y), esize, on_host(y)));
  box b = box_of(esize, x->shape, x->ndim);
  row_major(shape, x->ndim, b.dst_stride);
  for (int32_t i = 0; i < x->ndim; i++) b.dst_at += lo[i] * b.dst_stride[i];
  return copy_box(c, &b, y, x);
}

/* -------------------------------------------------------- Transpose, BroadcastTo, Tile, Reverse */
static pf_status transpose(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0];
  int64_t perm[MAX_DIMS], shape[MAX_DIMS], stride[MAX_DIMS];
  int32_t n = 0, p[MAX_DIMS], seen[MAX_DIMS] = {0}, next = 0;
  bool in_order = true;
  PF_TRY(check_rank(c, x, "x"));
  PF_TRY(in_vector(c, 1, "perm", perm, &n));
  if (n != x->ndim)
    return INVALID(c, "transpose expects a vector of size %d. But input(1) is a vector of size %d",
                   x->ndim, n);
  for (int32_t i = 0; i < n; i++) {
    int64_t a = perm[i] < 0 ? perm[i] + n : perm[i];
    if (a < 0 || a >= n) return INVALID(c, "%" PRId64 " is out of range [0 .. %d)", perm[i], n);
    if (seen[a])
      return INVALID(c, "%" PRId64 " is missing from or repeated in perm %s", a,
                     shape_of(perm, n).s);
    seen[a] = 1, p[i] = (int32_t)a, shape[i] = x->shape[a];
    if (shape[i] != 1) in_order = in_order && p[i] >= next, next = p[i];
  }
  if (in_order) return c->host->alias(c, 0, 0, shape, n);
  DLTensor *y = c->host->output(c, 0, shape, n);
  PF_EXHAUSTED(y);
  box b = box_of(type_size(c->in_type[0]), shape, n);
  row_major(x->shape, n, stride);
  for (int32_t i = 0; i < n; i++) b.src_stride[i] = stride[p[i]];
  return copy_box(c, &b, y, x);
}
static pf_status broadcast_to(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0];
  int64_t shape[MAX_DIMS];
  int32_t n = 0;
  PF_TRY(in_vector(c, 1, "shape", shape, &n));
  if (x->ndim > n)
    return INVALID(c, "Rank of input (%d) must be no greater than rank of output shape (%d).",
                   x->ndim, n);
  for (int32_t i = 1; i <= x->ndim; i++)
    if (shape[n - i] != x->shape[x->ndim - i] && x->shape[x->ndim - i] != 1)
      return INVALID(c, "Incompatible shapes: %s vs. %s", SHAPE(x), shape_of(shape, n).s);
  if (same_dims(x->shape, x->ndim, shape, n)) return c->host->alias(c, 0, 0, shape, n);
  DLTensor *y = output_checked(c, 0, shape, n);
  PF_EXHAUSTED(y);
  box b = box_of(type_size(c->in_type[0]), shape, n);
  broadcast_strides(x->shape, x->ndim, n, b.src_stride);
  return copy_box(c, &b, y, x);
}
/* y as [by0, x0, by1, x1, ...], in which x repeats along the `by`s */
static pf_status tile(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0];
  int64_t by[MAX_DIMS], shape[MAX_DIMS], stride[MAX_DIMS], twice[2 * MAX_DIMS];
  int32_t n = 0;
  PF_TRY(check_rank(c, x, "input"));
  PF_TRY(in_vector(c, 1, "multiples", by, &n));
  if (n != x->ndim)
    return INVALID(c, "Expected multiples argument to be a vector of length %d but got length %d",
                   x->ndim, n);
  for (int32_t i = 0; i < n; i++) {
    if (by[i] < 0) return INVALID(c, "Expected multiples[%d] >= 0, but got %" PRId64, i, by[i]);
    if (!mul_ok(by[i], x->shape[i], &shape[i]))
      return INVALID(c, "multiples are too large for shape %s", SHAPE(x));
    twice[2 * i] = by[i], twice[2 * i + 1] = x->shape[i];
  }
  DLTensor *y = output_checked(c, 0, shape, n);
  PF_EXHAUSTED(y);
  row_major(x->shape, n, stride);
  box b = box_of(type_size(c->in_type[0]), twice, 2 * n);
  for (int32_t i = 0; i < n; i++) b.src_stride[2 * i] = 0, b.src_stride[2 * i + 1] = stride[i];
  return copy_box(c, &b, y, x);
}
static pf_status reverse_v2(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0];
  int64_t axes[MAX_DIMS];
  int32_t n = 0, flip[MAX_DIMS] = {0};
  PF_TRY(check_rank(c, x, "input"));
  PF_TRY(in_vector(c, 1, "axis", axes, &n));
  box b = box_of(type_size(c->in_type[0]), x->shape, x->ndim);
  for (int32_t i = 0; i < n; i++) {
    if (axes[i] < -x->ndim || axes[i] >= x->ndim)
      return INVALID(c, "'axis'[%d] = %" PRId64 " is out of valid range [0, %d", i, axes[i],
                     x->ndim - 1);
    int32_t a = (int32_t)(axes[i] < 0 ? axes[i] + x->ndim : axes[i]);
    if (flip[a]) return INVALID(c, "axis %d specified more than once.", a);
    flip[a] = 1;
    b.src_at += (x->shape[a] - 1) * b.src_stride[a], b.src_stride[a] = -b.src_stride[a];
  }
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  return copy_box(c, &b, y, x);
}

#define MOVED                                                                              \
  "float|double|half|bfloat16|int8|int16|int64|uint8|uint16|uint32|uint64|bool|complex64|" \
  "complex128"
static constexpr attr_list masks({ATTR(slice_state, PF_ATTR_INT, begin_mask),
                                  ATTR(slice_state, PF_ATTR_INT, end_mask),
                                  ATTR(slice_state, PF_ATTR_INT, ellipsis_mask),
                                  ATTR(slice_state, PF_ATTR_INT, new_axis_mask),
                                  ATTR(slice_state, PF_ATTR_INT, shrink_axis_mask)});
static constexpr arg_list slice_args({HOST_IN("begin"), HOST_IN("size")});
static constexpr arg_list slice_host({HOST_IN("input"), HOST_IN("begin"), HOST_IN("size"),
                                      HOST_OUT("output")});
static constexpr arg_list cut_args({HOST_IN("begin"), HOST_IN("end"), HOST_IN("strides")});
static constexpr arg_list cut_host({HOST_IN("input"), HOST_IN("begin"), HOST_IN("end"),
                                    HOST_IN("strides"), HOST_OUT("output")});
static constexpr arg_list cut_grad({HOST_IN("shape"), HOST_IN("begin"), HOST_IN("end"),
                                    HOST_IN("strides")});
static constexpr arg_list pad_args({HOST_IN("paddings")});
static constexpr arg_list perm_args({HOST_IN("perm")});
static constexpr arg_list shape_args({HOST_IN("shape")});
static constexpr arg_list tile_args({HOST_IN("multiples")});
static constexpr arg_list axis_args({HOST_IN("axis")});
#define MASKS .state_size = sizeof(slice_state)
static const pf_kernel table[] = {
  GPU("Slice", "T=" MOVED, SAME, .args = slice_args.at, .compute = slice),
  GPU("Slice", "T=int32", SAME, .args = slice_host.at, .compute = slice),
  GPU("StridedSlice", "T=" MOVED, SAME, .attrs = masks.at, .args = cut_args.at, MASKS,
      .compute = strided_slice),
  GPU("StridedSlice", "T=int32", SAME, .attrs = masks.at, .args = cut_host.at, MASKS,
      .compute = strided_slice),
  GPU("StridedSliceGrad", "T=" MOVED, SAME, .attrs = masks.at, .args = cut_grad.at, MASKS,
      .compute = strided_slice_grad),
  GPU("Pad", "T=" MOVED "|int32", SAME, .args = pad_args.at, .compute = pad),
  GPU("PadV2", "T=" MOVED "|int32", SAME, .args = pad_args.at, .compute = pad),
  GPU("Transpose", "T=" MOVED "|int32", SAME, .args = perm_args.at, .compute = transpose),
  GPU("BroadcastTo", "T=" MOVED "|int32", SAME, .args = shape_args.at, .compute = broadcast_to),
  GPU("Tile", "T=" MOVED "|int32", SAME, .args = tile_args.at, .compute = tile),
  GPU("ReverseV2", "T=" MOVED "|int32", SAME, .args = axis_args.at, .compute = reverse_v2),
};
} // namespace
KERNELS(slice_kernels, table)
