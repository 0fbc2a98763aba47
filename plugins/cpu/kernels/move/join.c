/* join.c - tensors joined and parted along one axis: Concat, Pack, Split, Unpack; and diagonals.
 *
 * Around an axis every tensor is [outer, axis, inner]: joining and parting copies `outer` runs per
 * tensor. */
#include "move/strided.h"
#include "move/transpose.h"

/* `n` of `whole` axis positions from `first` on <-> the tensor `part`, with `outer` and `inner`
 * around the axis */
static pf_status copy_part(pf_ctx *c, DLTensor *dst, const DLTensor *src, int to_whole,
                           int64_t outer, int64_t whole, int64_t first, int64_t n, int64_t inner,
                           int64_t esize) {
  int64_t run[2] = {outer, n * inner}, bytes = run[1] * esize,
          dst_at = to_whole ? first * inner : 0;
  if (outer == 1 && bytes <= 4096 && esize) { /* short: cheaper than planning */
    memcpy(PF_DATA(char, dst) + dst_at * esize,
           PF_DATA(const char, src) + (to_whole ? 0 : first * inner) * esize, (size_t)bytes);
    return PF_OK;
  }
  pf_box b = pf_box_of(esize, run, 2);
  if (to_whole) b.dst_stride[0] = whole * inner, b.dst_at = first * inner;
  else b.src_stride[0] = whole * inner, b.src_at = first * inner;
  return pf_box_copy(c, &b, dst, src);
}

typedef struct {
  const pf_part *part;
  int64_t n, turn;
  char *y;
} join_task;
static void join_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const join_task *t = (const join_task *)arg;
  const pf_mover *move = pf_movers();
  pf_woven w = move->weave_at(t->y + lo * t->turn);
  (void)worker;
  move->weave(&w, t->part, t->n, lo, hi);
  move->weave_end(&w);
}
/* y = n of c's inputs: of `whole` positions each has as many as it has along `axis`, or one */
static pf_status join(pf_ctx *c, DLTensor *y, int32_t first, int32_t n, int32_t axis, int64_t whole,
                      int64_t outer, int64_t inner) {
  int64_t at = 0, esize = pf_type_size(c->in_type[first]);
  if (outer > 1 && outer >= c->host->workers(c) &&
      pf_weave_pays(outer * whole * inner * esize, outer * n)) {
    pf_part *part = (pf_part *)c->host->scratch(c, (uint64_t)n * sizeof *part, 8);
    PF_EXHAUSTED(part);
    for (int32_t i = 0; i < n; i++) {
      const DLTensor *t = c->in[first + i];
      int64_t bytes = (axis < 0 ? 1 : t->shape[axis]) * inner * esize;
      part[i] = (pf_part){PF_DATA(const char, t), bytes, bytes};
    }
    join_task t = {part, n, whole * inner * esize, PF_DATA(char, y)};
    return pf_parallel(c, outer, pf_grain(t.turn / 4), join_range, &t);
  }
  for (int32_t i = 0; i < n; i++) {
    const DLTensor *t = c->in[first + i];
    int64_t size = axis < 0 ? 1 : t->shape[axis];
    if (pf_numel(t)) PF_TRY(copy_part(c, y, t, 1, outer, whole, at, size, inner, esize));
    at += size;
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- Concat */
static pf_status concat_inputs(pf_ctx *c, int32_t first, int32_t n, int32_t axis_in) {
  const DLTensor *x = c->in[first];
  int64_t axis, shape[PF_MAX_DIMS], outer, inner;
  int32_t a, filled = -1;
  PF_TRY(pf_check_rank(c, x, "values[0]"));
  PF_TRY(pf_in_scalar(c, axis_in, "axis", &axis));
  if (axis < -x->ndim || axis >= x->ndim)
    return PF_INVALID(
        c, "ConcatOp : Expected concatenating dimensions in the range [%d, %d), but got %" PRId64,
        -x->ndim, x->ndim, axis);
  a = (int32_t)(axis < 0 ? axis + x->ndim : axis);
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
  shape[a] = 0;
  for (int32_t i = 0; i < n; i++) {
    const DLTensor *t = c->in[first + i];
    if (t->ndim != x->ndim)
      return PF_INVALID(
          c, "ConcatOp : Ranks of all input tensors should match: shape[0] = %s vs. shape[%d] = %s",
          PF_SHAPE(x).s, i, PF_SHAPE(t).s);
    for (int32_t d = 0; d < x->ndim; d++)
      if (d != a && t->shape[d] != x->shape[d])
        return PF_INVALID(c,
                          "ConcatOp : Dimension %d in both shapes must be equal: shape[0] = %s vs. "
                          "shape[%d] = %s",
                          d, PF_SHAPE(x).s, i, PF_SHAPE(t).s);
    if (t->shape[a]) filled = filled == -1 ? i : -2;
    if (__builtin_add_overflow(shape[a], t->shape[a], &shape[a]))
      return PF_INVALID(c, "ConcatOp : result is too large");
  }
  if (filled >= 0)
    return c->host->alias(c, first + filled, 0, shape, x->ndim); /* all others are empty */
  DLTensor *y = pf_output_checked(c, 0, shape, x->ndim);
  PF_EXHAUSTED(y);
  outer = pf_product(shape, 0, a), inner = pf_product(shape, a + 1, x->ndim);
  return join(c, y, first, n, a, shape[a], outer, inner);
}
static pf_status concat(pf_ctx *c, const void *state) {
  (void)state;
  return concat_inputs(c, 1, c->n_in - 1, 0);
}
static pf_status concat_v2(pf_ctx *c, const void *state) {
  (void)state;
  return concat_inputs(c, 0, c->n_in - 1, c->n_in - 1);
}

/* ---------------------------------------------------------------- Pack, Unpack */
typedef struct { int64_t axis; } axis_state;
static pf_status pack(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t axis = ((const axis_state *)state)->axis, shape[PF_MAX_DIMS + 1];
  PF_TRY(pf_check_rank(c, x, "values[0]"));
  int32_t nd = x->ndim + 1;
  if (axis < -nd || axis >= nd)
    return PF_INVALID(c, "axis = %" PRId64 " not in [%d, %d)", axis, -nd, nd);
  if (axis < 0) axis += nd;
  for (int32_t i = 0; i < c->n_in; i++)
    if (!pf_same_shape(c->in[i], x))
      return PF_INVALID(
          c, "Shapes of all inputs must match: values[0].shape = %s != values[%d].shape = %s",
          PF_SHAPE(x).s, i, PF_SHAPE(c->in[i]).s);
  for (int32_t i = 0; i < nd; i++)
    shape[i] = i < axis ? x->shape[i] : i == axis ? c->n_in : x->shape[i - 1];
  DLTensor *y = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  int64_t outer = pf_product(shape, 0, (int32_t)axis),
          inner = pf_product(shape, (int32_t)axis + 1, nd);
  return join(c, y, 0, c->n_in, -1, c->n_in, outer, inner);
}
static pf_status unpack(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t shape[PF_MAX_DIMS], esize = pf_type_size(c->in_type[0]);
  int32_t a, nd = 0;
  PF_TRY(pf_check_rank(c, x, "value"));
  PF_TRY(pf_axis(c, ((const axis_state *)state)->axis, x->ndim, "axis", &a));
  if (x->shape[a] != c->n_out)
    return PF_INVALID(c, "Input shape axis %d must equal %d, got shape %s", a, c->n_out,
                      PF_SHAPE(x).s);
  for (int32_t i = 0; i < x->ndim; i++)
    if (i != a) shape[nd++] = x->shape[i];
  int64_t outer = pf_product(x->shape, 0, a), inner = pf_product(x->shape, a + 1, x->ndim);
  for (int32_t i = 0; i < c->n_out; i++) {
    DLTensor *y = c->host->output(c, i, shape, nd);
    PF_EXHAUSTED(y);
    if (outer && inner) PF_TRY(copy_part(c, y, x, 0, outer, c->n_out, i, 1, inner, esize));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- Split */
static pf_status split_into(pf_ctx *c, int32_t value, int32_t a, const int64_t *sizes,
                            int64_t each) {
  const DLTensor *x = c->in[value];
  int64_t shape[PF_MAX_DIMS], at = 0, esize = pf_type_size(c->in_type[value]);
  int64_t outer = pf_product(x->shape, 0, a), inner = pf_product(x->shape, a + 1, x->ndim);
  if (c->n_out == 1) return c->host->alias(c, value, 0, x->shape, x->ndim);
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
  for (int32_t i = 0; i < c->n_out; i++) {
    shape[a] = sizes ? sizes[i] : each;
    DLTensor *y = c->host->output(c, i, shape, x->ndim);
    PF_EXHAUSTED(y);
    if (pf_numel(y)) PF_TRY(copy_part(c, y, x, 0, outer, x->shape[a], at, shape[a], inner, esize));
    at += shape[a];
  }
  return PF_OK;
}
static pf_status split(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[1];
  int64_t axis;
  int32_t a;
  (void)state;
  PF_TRY(pf_check_rank(c, x, "value"));
  PF_TRY(pf_in_scalar(c, 0, "split_dim", &axis));
  if (axis < -x->ndim || axis >= x->ndim)
    return PF_INVALID(c, "-input rank(-%d) <= split_dim < input rank (%d), but got %" PRId64,
                      x->ndim, x->ndim, axis);
  a = (int32_t)(axis < 0 ? axis + x->ndim : axis);
  if (c->n_out < 1)
    return PF_INVALID(c, "Number of ways to split should be > 0, but got %d", c->n_out);
  if (x->shape[a] % c->n_out)
    return PF_INVALID(c,
                      "Number of ways to split should evenly divide the split dimension, but got "
                      "split_dim %d (size = "
                      "%" PRId64 ") and num_split %d",
                      a, x->shape[a], c->n_out);
  return split_into(c, 1, a, NULL, x->shape[a] / c->n_out);
}
static pf_status split_v(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *t = c->in[1];
  int64_t axis, sum = 0;
  int32_t a, rest = -1;
  (void)state;
  PF_TRY(pf_check_rank(c, x, "value"));
  PF_TRY(pf_in_scalar(c, 2, "split_dim", &axis));
  if (axis < -x->ndim || axis >= x->ndim)
    return PF_INVALID(c, "-input rank(-%d) <= split_dim < input rank (%d), but got %" PRId64,
                      x->ndim, x->ndim, axis);
  a = (int32_t)(axis < 0 ? axis + x->ndim : axis);
  if (t->ndim != 1 || t->shape[0] != c->n_out)
    return PF_INVALID(c, "size_splits must be a vector with %d elements, got shape %s", c->n_out,
                      PF_SHAPE(t).s);
  int64_t *sizes = (int64_t *)c->host->scratch(c, (uint64_t)c->n_out * 8 + 8, 8);
  PF_EXHAUSTED(sizes);
  for (int32_t i = 0; i < c->n_out; i++) {
    sizes[i] = pf_in_index(c, 1, i);
    if (sizes[i] == -1 && rest >= 0) return PF_INVALID(c, "There can only be one -1 in the input.");
    if (sizes[i] < -1)
      return PF_INVALID(c, "Split size at index %d must be >= 0. Got: %" PRId64, i, sizes[i]);
    if (sizes[i] == -1) rest = i;
    else if (__builtin_add_overflow(sum, sizes[i], &sum))
      return PF_INVALID(c, "Split sizes overflow");
  }
  if (rest >= 0 ? sum > x->shape[a] : sum != x->shape[a])
    return PF_INVALID(
        c,
        "Determined shape must either match input shape along split_dim exactly if fully "
        "specified, or be "
        "less than the size of the input along split_dim if not fully specified.  Got: %" PRId64
        " of %" PRId64,
        sum, x->shape[a]);
  if (rest >= 0) sizes[rest] = x->shape[a] - sum;
  return split_into(c, 0, a, sizes, 0);
}

/* ---------------------------------------------------------------- diagonals */
static pf_status diag(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t shape[2 * PF_MAX_DIMS], n = pf_numel(x), esize = pf_type_size(c->in_type[0]);
  (void)state;
  PF_TRY(pf_check_rank(c, x, "diagonal"));
  if (x->ndim < 1) return PF_INVALID(c, "Input must be at least rank 1, got 0");
  for (int32_t i = 0; i < x->ndim; i++) shape[i] = shape[i + x->ndim] = x->shape[i];
  DLTensor *y = pf_output_checked(c, 0, shape, 2 * x->ndim);
  PF_EXHAUSTED(y);
  PF_TRY(pf_zero(c, y, 0, pf_numel(y), esize));
  pf_box b = pf_box_of(esize, &n, 1);
  b.dst_stride[0] = n + 1;
  return pf_box_copy(c, &b, y, x);
}
static pf_status diag_part(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int32_t half = x->ndim / 2;
  (void)state;
  if (x->ndim == 0 || x->ndim % 2)
    return PF_INVALID(c, "The rank of the tensor should be even and positive, got shape %s",
                      PF_SHAPE(x).s);
  if (!pf_same_dims(x->shape, half, x->shape + half, half))
    return PF_INVALID(c, "Invalid shape %s: dimensions i and i + %d do not match.", PF_SHAPE(x).s,
                      half);
  DLTensor *y = c->host->output(c, 0, x->shape, half);
  PF_EXHAUSTED(y);
  int64_t n = pf_numel(y);
  pf_box b = pf_box_of(pf_type_size(c->in_type[0]), &n, 1);
  b.src_stride[0] = n + 1;
  return pf_box_copy(c, &b, y, x);
}
/* the diagonals of a batch of [rows, cols] matrices in `t` <-> a compact [batch, min(rows,
 * cols)] */
static pf_box diagonals(int64_t esize, int64_t batch, int64_t rows, int64_t cols, int write) {
  int64_t shape[2] = {batch, PF_MIN(rows, cols)};
  pf_box b = pf_box_of(esize, shape, 2);
  int64_t *stride = write ? b.dst_stride : b.src_stride;
  stride[0] = rows * cols, stride[1] = cols + 1;
  return b;
}
static pf_status matrix_diag(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t shape[PF_MAX_DIMS + 1], esize = pf_type_size(c->in_type[0]);
  (void)state;
  PF_TRY(pf_check_rank(c, x, "diagonal"));
  if (x->ndim < 1)
    return PF_INVALID(c, "diagonal must be at least 1-dim, received shape: %s", PF_SHAPE(x).s);
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
  int64_t n = shape[x->ndim] = shape[x->ndim - 1];
  DLTensor *y = pf_output_checked(c, 0, shape, x->ndim + 1);
  PF_EXHAUSTED(y);
  PF_TRY(pf_zero(c, y, 0, pf_numel(y), esize));
  pf_box b = diagonals(esize, pf_product(shape, 0, x->ndim - 1), n, n, 1);
  return pf_box_copy(c, &b, y, x);
}
static pf_status check_matrix(pf_ctx *c, const DLTensor *x) {
  PF_TRY(pf_check_rank(c, x, "input"));
  return x->ndim >= 2
             ? PF_OK
             : PF_INVALID(c, "input must be at least 2-dim, received shape: %s", PF_SHAPE(x).s);
}
static pf_status matrix_diag_part(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t shape[PF_MAX_DIMS];
  (void)state;
  PF_TRY(check_matrix(c, x));
  int32_t k = x->ndim - 2;
  int64_t rows = x->shape[k], cols = x->shape[k + 1];
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
  shape[k] = PF_MIN(rows, cols);
  DLTensor *y = c->host->output(c, 0, shape, k + 1);
  PF_EXHAUSTED(y);
  pf_box b = diagonals(pf_type_size(c->in_type[0]), pf_product(shape, 0, k), rows, cols, 0);
  return pf_box_copy(c, &b, y, x);
}
static pf_status copy_input(pf_ctx *c, DLTensor **y) {
  const DLTensor *x = c->in[0];
  *y = c->host->forward(c, 0, 0, x->shape, x->ndim);
  PF_EXHAUSTED(*y);
  if ((*y)->data == x->data) return PF_OK;
  pf_box b = pf_box_of(pf_type_size(c->in_type[0]), x->shape, x->ndim);
  return pf_box_copy(c, &b, *y, x);
}
static pf_status matrix_set_diag(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *d = c->in[1];
  DLTensor *y;
  (void)state;
  PF_TRY(check_matrix(c, x));
  int32_t k = x->ndim - 2;
  int64_t rows = x->shape[k], cols = x->shape[k + 1];
  if (d->ndim != k + 1 || !pf_same_dims(d->shape, k, x->shape, k) ||
      d->shape[k] != PF_MIN(rows, cols))
    return PF_INVALID(c,
                      "must have diagonal.shape == input.shape[:-2] + min(input.shape[-2:]), but "
                      "received input shape: "
                      "%s and diagonal shape: %s",
                      PF_SHAPE(x).s, PF_SHAPE(d).s);
  int64_t batch = pf_product(x->shape, 0, k);
  PF_TRY(copy_input(c, &y));
  pf_box b = diagonals(pf_type_size(c->in_type[0]), batch, rows, cols, 1);
  return pf_box_copy(c, &b, y, d);
}
static pf_status matrix_band_part(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t lower, upper, esize = pf_type_size(c->in_type[0]);
  DLTensor *y;
  (void)state;
  PF_TRY(check_matrix(c, x));
  PF_TRY(pf_in_scalar(c, 1, "num_lower", &lower));
  PF_TRY(pf_in_scalar(c, 2, "num_upper", &upper));
  int64_t rows = x->shape[x->ndim - 2], cols = x->shape[x->ndim - 1],
          total = pf_product(x->shape, 0, x->ndim - 1);
  if (lower > rows)
    return PF_INVALID(c,
                      "num_lower must be negative or less or equal to number of rows (%" PRId64
                      ") got: %" PRId64,
                      rows, lower);
  if (upper > cols)
    return PF_INVALID(c,
                      "num_upper must be negative or less or equal to number of columns (%" PRId64
                      ") got: %" PRId64,
                      cols, upper);
  PF_TRY(copy_input(c, &y));
  for (int64_t r = 0; r < total && cols; r++) {
    int64_t i = r % rows;
    int64_t lo = lower < 0 ? 0 : PF_MIN(PF_MAX(i - lower, 0), cols),
            hi = upper < 0 ? cols : PF_MIN(i + upper + 1, cols);
    PF_TRY(pf_zero(c, y, r * cols, PF_MIN(lo, cols), esize));
    PF_TRY(pf_zero(c, y, r * cols + PF_MAX(hi, lo), cols - PF_MAX(hi, lo), esize));
  }
  return PF_OK;
}

#define AXIS \
  .state_size = sizeof(axis_state), .attrs = PF_ATTRS(PF_ATTR(axis_state, PF_ATTR_INT, axis))
const pf_kernel *const join_kernels[] = {
  PF_CPU("Concat", NULL, .compute = concat),
  PF_CPU("ConcatV2", NULL, .compute = concat_v2),
  PF_CPU("Pack", NULL, .compute = pack, AXIS),
  PF_CPU("Unpack", NULL, .compute = unpack, AXIS),
  PF_CPU("Split", NULL, .compute = split),
  PF_CPU("SplitV", NULL, .compute = split_v),
  PF_CPU("Diag", NULL, .compute = diag),
  PF_CPU("DiagPart", NULL, .compute = diag_part),
  PF_CPU("MatrixDiag", NULL, .compute = matrix_diag),
  PF_CPU("MatrixDiagPart", NULL, .compute = matrix_diag_part),
  PF_CPU("MatrixSetDiag", NULL, .compute = matrix_set_diag),
  PF_CPU("MatrixBandPart", NULL, .compute = matrix_band_part),
  NULL};
