/* reductions.cu - Sum, Mean, Prod, Max, Min, EuclideanNorm, Any, All, BiasAddGrad, L2Loss, ArgMax,
 * ArgMin.
 *
 * Neighbouring dimensions that are all kept or all reduced are merged.  One reduced group is one
 * launch of `reduce`; more groups are walked by the column's offset, so that any choice of axes is
 * one pass over the input.
 *
 * Invariants
 *   1. Halves are summed as float and rounded once; integers wrap; max and min keep NaN.
 *   2. Equal inputs give equal bits: the order of joining comes from the sizes.
 */
#include "walk.h"

namespace {

template <class T> struct limits;
#define LIMITS(T, LOW, HIGH)                 \
  template <> struct limits<T> {             \
    static PF_BOTH T low() { return LOW; }   \
    static PF_BOTH T high() { return HIGH; } \
  };
LIMITS(float, -INFINITY, INFINITY)
LIMITS(double, -(double)INFINITY, (double)INFINITY)
LIMITS(int32_t, INT32_MIN, INT32_MAX)
LIMITS(int64_t, INT64_MIN, INT64_MAX)

/* zero: the neutral element; of: what an element contributes; join; last: from the joined value to
 * the result */
struct sum_op {
  template <class W> static PF_BOTH W zero() { return 0; }
  template <class W> static PF_BOTH W of(W v) { return v; }
  template <class W> static PF_BOTH W join(W a, W b) { return (W)((wraps<W>)a + (wraps<W>)b); }
  template <class W> static PF_BOTH W last(W a, int64_t) { return a; }
};
struct mean_op : sum_op {
  template <class W> static PF_BOTH W last(W a, int64_t n) {
    return is_float_of<W>::value || n ? (W)(a / (W)n) : a;
  }
};
struct prod_op : sum_op {
  template <class W> static PF_BOTH W zero() { return 1; }
  template <class W> static PF_BOTH W join(W a, W b) { return (W)((wraps<W>)a * (wraps<W>)b); }
};
struct max_op : sum_op {
  template <class W> static PF_BOTH W zero() { return limits<W>::low(); }
  template <class W> static PF_BOTH W join(W a, W b) { return b > a || b != b ? b : a; }
};
struct min_op : sum_op {
  template <class W> static PF_BOTH W zero() { return limits<W>::high(); }
  template <class W> static PF_BOTH W join(W a, W b) { return b < a || b != b ? b : a; }
};
struct norm_op : sum_op {
  template <class W> static PF_BOTH W of(W v) { return (W)((wraps<W>)v * (wraps<W>)v); }
  template <class W> static PF_BOTH W last(W a, int64_t) { return (W)sqrt((double)a); }
};
struct l2_op : norm_op {
  template <class W> static PF_BOTH W last(W a, int64_t) { return a / 2; }
};
struct all_op : sum_op {
  template <class W> static PF_BOTH W zero() { return 1; }
  template <class W> static PF_BOTH W join(W a, W b) { return a & b; }
};
struct any_op : sum_op {
  template <class W> static PF_BOTH W join(W a, W b) { return a | b; }
};

template <class Op, class W> struct reducer {
  typedef elements<W> E;
  const void *x;
  void *y;
  int64_t cols;
  int32_t type;
  walk<1> row, col; /* offsets of a row's first element, and of a column within the row */
  PF_BOTH W zero() const { return Op::template zero<W>(); }
  PF_BOTH W join(W a, W b) const { return Op::join(a, b); }
  PF_BOTH W add(W a, int64_t r, int64_t k) const {
    int64_t at[1], by[1];
    row.offsets(r, at);
    col.offsets(k, by);
    return Op::join(a, Op::of(E::value(E::load(x, at[0] + by[0], type), type)));
  }
  PF_BOTH void finish(int64_t r, W a) const { E::store(y, r, type, Op::last(a, cols)); }
};

/* kept and reduced dimensions of x, apart */
typedef struct {
  int64_t shape[2][MAX_DIMS], stride[2][MAX_DIMS], count[2];
  int32_t nd[2];
} split_dims;
static void split(const DLTensor *x, const int32_t *flags, split_dims *d) {
  int64_t step = 1;
  int64_t stride[MAX_DIMS];
  for (int32_t i = x->ndim - 1; i >= 0; i--) stride[i] = step, step *= x->shape[i];
  for (int k = 0; k < 2; k++) {
    d->nd[k] = 0, d->count[k] = 1;
    for (int32_t i = 0; i < x->ndim; i++)
      if ((flags[i] != 0) == k) {
        d->shape[k][d->nd[k]] = x->shape[i], d->stride[k][d->nd[k]++] = stride[i];
        d->count[k] *= x->shape[i];
      }
  }
}
template <class Op, class W>
pf_status run_reduce(pf_ctx *c, const DLTensor *x, DLTensor *y, const int32_t *flags) {
  split_dims d;
  reducer<Op, W> f;
  split(x, flags, &d);
  const int64_t *kept[1] = {d.stride[0]}, *gone[1] = {d.stride[1]};
  if (!walk_plan(&f.row, d.shape[0], d.nd[0], kept) ||
      !walk_plan(&f.col, d.shape[1], d.nd[1], gone))
    return TOO_TANGLED(c);
  f.x = PF_DATA(const void, x), f.y = PF_DATA(void, y), f.cols = d.count[1];
  f.type = c->in_type[0];
  bool inner_reduced = f.col.nd > 0 && f.col.stride[0][f.col.nd - 1] == 1;
  return reduce_of<W>(c, d.count[0], d.count[1], f,
                      inner_reduced || f.row.nd == 0 ? ROWS_APART : ROWS_SIDE_BY_SIDE);
}
template <class Op>
pf_status typed_reduce(pf_ctx *c, const DLTensor *x, DLTensor *y, const int32_t *flags) {
  if (c->in_type[0] == PF_INT64) return run_reduce<Op, int64_t>(c, x, y, flags);
  if (c->in_type[0] == PF_INT32) return run_reduce<Op, int32_t>(c, x, y, flags);
  return with_wide(c->in_type[0], [&](auto t) {
    return run_reduce<Op, typename decltype(t)::type>(c, x, y, flags);
  });
}

/* ---------------------------------------------------------------- kernels */
typedef struct { int32_t keep_dims; } reduce_state;
template <class Op, bool truth> pf_status reduction(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *axes = c->in[1];
  int32_t flags[MAX_DIMS] = {0}, nd = 0;
  int64_t shape[MAX_DIMS], n = pf_numel(axes), count = 1;
  PF_TRY(check_rank(c, x, "input"));
  for (int64_t i = 0; i < n; i++) {
    int64_t a = in_index(c, 1, i);
    if (a < -x->ndim || a >= x->ndim)
      return INVALID(c, "Invalid reduction dimension (%" PRId64 " for input with %d dimension(s)",
                     a, x->ndim);
    flags[a < 0 ? a + x->ndim : a] = 1;
  }
  for (int32_t i = 0; i < x->ndim; i++) {
    if (flags[i]) count *= x->shape[i];
    if (!flags[i]) shape[nd++] = x->shape[i];
    else if (((const reduce_state *)state)->keep_dims) shape[nd++] = 1;
  }
  if (count == 1 && !(bool)__is_same(Op, norm_op)) return c->host->alias(c, 0, 0, shape, nd);
  DLTensor *y = c->host->output(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  if constexpr (truth) return run_reduce<Op, uint8_t>(c, x, y, flags);
  else return typed_reduce<Op>(c, x, y, flags);
}

typedef struct { pf_str data_format; } format_state;
static pf_status bias_add_grad(pf_ctx *c, const void *state) {
  const pf_str f = ((const format_state *)state)->data_format;
  const DLTensor *x = c->in[0];
  int32_t flags[MAX_DIMS];
  PF_TRY(check_rank(c, x, "out_backprop"));
  if (x->ndim < 2) return INVALID(c, "Input tensor must be at least 2D: %s", SHAPE(x));
  int32_t channel = f.len >= 2 && !memcmp(f.data, "NC", 2) ? 1 : x->ndim - 1;
  for (int32_t i = 0; i < x->ndim; i++) flags[i] = i != channel;
  DLTensor *y = c->host->output(c, 0, &x->shape[channel], 1);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  return with_wide(c->in_type[0], [&](auto t) {
    return run_reduce<sum_op, typename decltype(t)::type>(c, x, y, flags);
  });
}
static pf_status l2_loss(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0];
  int32_t flags[MAX_DIMS];
  PF_TRY(check_rank(c, x, "t"));
  for (int32_t i = 0; i < x->ndim; i++) flags[i] = 1;
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  return with_wide(c->in_type[0], [&](auto t) {
    return run_reduce<l2_op, typename decltype(t)::type>(c, x, y, flags);
  });
}

/* --------------------------------------------- ArgMax, ArgMin: the first best, NaN never better */
template <class W> struct place {
  W value;
  int64_t at;
}; /* at -1: nothing seen */
template <class W, bool greatest> struct arg_reducer {
  typedef elements<W> E;
  const void *x;
  void *y;
  int64_t n, inner;
  int32_t type, long_index;
  PF_BOTH place<W> zero() const { return place<W>{0, -1}; }
  PF_BOTH place<W> join(place<W> a, place<W> b) const {
    if (a.at < 0) return b;
    if (b.at < 0) return a;
    if (b.at < a.at) {
      place<W> t = a;
      a = b, b = t;
    }
    /* a comes first.  A NaN that nothing comes before stays, as in a walk from the front; later
     * ones never win */
    if (a.value != a.value) return a.at == 0 ? a : b;
    return (greatest ? b.value > a.value : b.value < a.value) ? b : a;
  }
  PF_BOTH place<W> add(place<W> a, int64_t r, int64_t k) const {
    int64_t at = (r / inner * n + k) * inner + r % inner;
    return join(a, place<W>{E::value(E::load(x, at, type), type), k});
  }
  PF_BOTH void finish(int64_t r, place<W> a) const {
    int64_t at = most(a.at, (int64_t)0);
    if (long_index) ((int64_t *)y)[r] = at;
    else ((int32_t *)y)[r] = (int32_t)at;
  }
};
template <bool greatest> pf_status arg_best(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0];
  int64_t axis, shape[MAX_DIMS];
  int32_t a, nd = 0;
  PF_TRY(check_rank(c, x, "input"));
  PF_TRY(in_scalar(c, 1, "dimension", &axis));
  PF_TRY(check_axis(c, axis, x->ndim, "Dimension", &a));
  for (int32_t i = 0; i < x->ndim; i++)
    if (i != a) shape[nd++] = x->shape[i];
  if (x->shape[a] == 0) return INVALID(c, "Reduction axis %d is empty in shape %s", a, SHAPE(x));
  DLTensor *y = c->host->output(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  int64_t n = x->shape[a], inner = product(x->shape, a + 1, x->ndim);
  auto run = [&](auto t) {
    arg_reducer<typename decltype(t)::type, greatest> f = {
      PF_DATA(const void, x), PF_DATA(void, y),          n, inner,
      c->in_type[0],          c->out_type[0] == PF_INT64};
    return reduce(c, pf_numel(y), n, f, inner == 1 ? ROWS_APART : ROWS_SIDE_BY_SIDE);
  };
  return c->in_type[0] == PF_INT64 ? run(tag<int64_t>{}) : with_wide(c->in_type[0], run);
}

static constexpr attr_list keep({ATTR(reduce_state, PF_ATTR_BOOL, keep_dims)});
static constexpr attr_list format({ATTR(format_state, PF_ATTR_STRING, data_format)});
static constexpr arg_list axes_on_host({HOST_IN("reduction_indices")});
static constexpr arg_list all_on_host({HOST_IN("input"), HOST_IN("reduction_indices"),
                                       HOST_OUT("output")});
static constexpr arg_list dimension_on_host({HOST_IN("dimension")});
#define REDUCTION(OP, NAME)                                                        \
  GPU(OP, "T=" T_FLOATS "|int64", SAME, .attrs = keep.at, .args = axes_on_host.at, \
      .state_size = sizeof(reduce_state), .compute = reduction<NAME, false>),      \
      GPU(OP, "T=int32", SAME, .attrs = keep.at, .args = all_on_host.at,           \
          .state_size = sizeof(reduce_state), .compute = reduction<NAME, false>)
#define TRUTH(OP, NAME)                                          \
  GPU(OP, NULL, SAME, .attrs = keep.at, .args = axes_on_host.at, \
      .state_size = sizeof(reduce_state), .compute = reduction<NAME, true>)
static const pf_kernel table[] = {
  REDUCTION("Sum", sum_op),
  REDUCTION("Mean", mean_op),
  REDUCTION("Prod", prod_op),
  REDUCTION("Max", max_op),
  REDUCTION("Min", min_op),
  REDUCTION("EuclideanNorm", norm_op),
  TRUTH("All", all_op),
  TRUTH("Any", any_op),
  GPU("BiasAddGrad", "T=" T_FLOATS, SAME, .attrs = format.at, .state_size = sizeof(format_state),
      .compute = bias_add_grad),
  GPU("L2Loss", "T=" T_FLOATS, SAME, .compute = l2_loss),
  GPU("ArgMax", "T=" T_FLOATS "|int64, output_type=int32|int64", SAME, .args = dimension_on_host.at,
      .compute = arg_best<true>),
  GPU("ArgMin", "T=" T_FLOATS "|int64, output_type=int32|int64", SAME, .args = dimension_on_host.at,
      .compute = arg_best<false>),
};
} // namespace
KERNELS(reductions_kernels, table)
