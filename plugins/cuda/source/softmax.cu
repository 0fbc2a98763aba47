/* softmax.cu - Softmax, LogSoftmax, the two cross entropies with their gradients.
 *
 * A row's maximum and the sum of exp(x - maximum) come from one pass: partial results (m, s) join
 * as (max, s1 exp(m1 - max) + s2 exp(m2 - max)); no finite input overflows.  A second pass writes.
 * Labels that are out of range give a loss and a gradient of NaN, as TensorFlow's GPU kernels do:
 * nothing can be raised from a kernel in flight.
 */
#include "walk.h"

namespace {

template <class W> struct mass { W top, sum; };
template <class W> PF_BOTH mass<W> join_mass(mass<W> a, mass<W> b) {
  if (b.top == -(W)INFINITY) return mass<W>{a.top, a.sum + b.sum};
  if (a.top == -(W)INFINITY) return mass<W>{b.top, a.sum + b.sum};
  if (a.top >= b.top || a.top != a.top) return mass<W>{a.top, a.sum + b.sum * exp(b.top - a.top)};
  return mass<W>{b.top, a.sum * exp(a.top - b.top) + b.sum};
}
/* logits and where they lie: strides of 0 where they are broadcast */
template <class T> struct logits {
  const T *x;
  int64_t row, col;
};
template <class T> struct mass_reducer {
  typedef wide<T> W;
  logits<T> x;
  mass<W> *out;
  PF_BOTH mass<W> zero() const { return mass<W>{-(W)INFINITY, 0}; }
  PF_BOTH mass<W> join(mass<W> a, mass<W> b) const { return join_mass(a, b); }
  PF_BOTH mass<W> add(mass<W> a, int64_t r, int64_t k) const {
    W v = up(x.x[r * x.row + k * x.col]);
    return v == -(W)INFINITY ? a : join_mass(a, mass<W>{v, 1});
  }
  PF_BOTH void finish(int64_t r, mass<W> a) const { out[r] = a; }
};
template <class T, bool in_log> struct softmax_each {
  const T *x;
  const mass<wide<T>> *m;
  T *y;
  int64_t cols;
  PF_BOTH void operator()(int64_t i) const {
    mass<wide<T>> a = m[i / cols];
    wide<T> v = up(x[i]) - a.top;
    y[i] = down<T>(in_log ? v - log(a.sum) : exp(v) / a.sum);
  }
};
template <class T>
pf_status masses(pf_ctx *c, logits<T> x, int64_t rows, int64_t cols, room *scratch) {
  PF_TRY(scratch->take((uint64_t)rows * sizeof(mass<wide<T>>)));
  return reduce(c, rows, cols, mass_reducer<T>{x, (mass<wide<T>> *)scratch->data}, ROWS_APART);
}

template <bool in_log> pf_status softmax(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0];
  if (x->ndim < 1) return INVALID(c, "logits must have >= 1 dimension, got %d", x->ndim);
  DLTensor *y = c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(y);
  int64_t n = pf_numel(y), cols = x->shape[x->ndim - 1];
  if (n == 0) return PF_OK;
  return with_float(c->in_type[0], [&](auto t) -> pf_status {
    typedef typename decltype(t)::type T;
    room scratch(c);
    PF_TRY(masses(c, logits<T>{PF_DATA(const T, x), cols, 1}, n / cols, cols, &scratch));
    return each(c, n,
                softmax_each<T, in_log>{PF_DATA(const T, x), (const mass<wide<T>> *)scratch.data,
                                        PF_DATA(T, y), cols});
  });
}

/* ---------------------------------------- dense labels: loss = sum of p * (log sum - (x - top)) */
template <class T> struct dense_reducer {
  typedef wide<T> W;
  logits<T> x, p;
  const mass<W> *m;
  T *loss;
  PF_BOTH W zero() const { return 0; }
  PF_BOTH W join(W a, W b) const { return a + b; }
  PF_BOTH W add(W a, int64_t r, int64_t k) const {
    W q = up(p.x[r * p.row + k * p.col]);
    return q == 0 ? a : a + q * (log(m[r].sum) - (up(x.x[r * x.row + k * x.col]) - m[r].top));
  }
  PF_BOTH void finish(int64_t r, W a) const { loss[r] = down<T>(a); }
};
template <class T> struct dense_gradient {
  logits<T> x, p;
  const mass<wide<T>> *m;
  T *out;
  int64_t cols;
  PF_BOTH void operator()(int64_t i) const {
    int64_t r = i / cols, k = i - r * cols;
    wide<T> y = exp(up(x.x[r * x.row + k * x.col]) - m[r].top) / m[r].sum;
    out[i] = down<T>(y - up(p.x[r * p.row + k * p.col]));
  }
};
static pf_status cross_entropy(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0], *y = c->in[1];
  int64_t shape[2] = {0, 0};
  bool ok = x->ndim == 2 && y->ndim == 2;
  for (int d = 0; ok && d < 2; d++) {
    ok = x->shape[d] == y->shape[d] || x->shape[d] == 1 || y->shape[d] == 1;
    shape[d] = x->shape[d] == 1 ? y->shape[d] : x->shape[d];
  }
  if (!ok)
    return INVALID(
        c, "logits and labels must be broadcastable 2-dimensional: logits_size=%s labels_size=%s",
        SHAPE(x), SHAPE(y));
  DLTensor *loss = output_checked(c, 0, shape, 1),
           *out = loss ? output_checked(c, 1, shape, 2) : NULL;
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return fill_zero(c, loss, pf_numel(loss) * type_size(c->in_type[0]));
  return with_float(c->in_type[0], [&](auto t) -> pf_status {
    typedef typename decltype(t)::type T;
    logits<T> a = {PF_DATA(const T, x), x->shape[0] == 1 ? 0 : x->shape[1],
                   x->shape[1] == 1 ? 0 : 1};
    logits<T> p = {PF_DATA(const T, y), y->shape[0] == 1 ? 0 : y->shape[1],
                   y->shape[1] == 1 ? 0 : 1};
    room scratch(c);
    PF_TRY(masses(c, a, shape[0], shape[1], &scratch));
    const mass<wide<T>> *m = (const mass<wide<T>> *)scratch.data;
    PF_TRY(reduce(c, shape[0], shape[1], dense_reducer<T>{a, p, m, PF_DATA(T, loss)}, ROWS_APART));
    return each(c, shape[0] * shape[1], dense_gradient<T>{a, p, m, PF_DATA(T, out), shape[1]});
  });
}

/* ---------------------------------------------------------------- sparse labels */
template <class T, class I> struct sparse_each {
  const T *x;
  const I *label;
  const mass<wide<T>> *m;
  T *loss, *out;
  int64_t cols;
  PF_BOTH void operator()(int64_t i) const {
    int64_t r = i / cols, k = i - r * cols, at = (int64_t)label[r];
    mass<wide<T>> a = m[r];
    wide<T> v = up(x[i]) - a.top;
    if (at < 0 || at >= cols) {
      out[i] = down<T>((wide<T>)NAN);
      if (k == 0) loss[r] = down<T>((wide<T>)NAN);
      return;
    }
    out[i] = down<T>(exp(v) / a.sum - (k == at ? 1 : 0));
    if (k == at) loss[r] = down<T>(log(a.sum) - v);
  }
};
static pf_status sparse_cross_entropy(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0], *y = c->in[1];
  if (x->ndim != 2) return INVALID(c, "logits must be 2-D, but got shape %s", SHAPE(x));
  if (y->ndim != 1) return INVALID(c, "labels must be 1-D, but got shape %s", SHAPE(y));
  int64_t n = x->shape[0], cols = x->shape[1];
  if (y->shape[0] != n)
    return INVALID(c,
                   "logits and labels must have the same first dimension, got logits shape %s and "
                   "labels shape %s",
                   SHAPE(x), SHAPE(y));
  if (cols < 1 && n > 0)
    return INVALID(c, "Must have at least one class, but got logits shape %s", SHAPE(x));
  DLTensor *loss = c->host->output(c, 0, &n, 1),
           *out = loss ? c->host->output(c, 1, x->shape, 2) : NULL;
  PF_EXHAUSTED(out);
  if (n == 0) return PF_OK;
  return with_float(c->in_type[0], [&](auto t) {
    return with_index(c->in_type[1], [&](auto i) -> pf_status {
      typedef typename decltype(t)::type T;
      typedef typename decltype(i)::type I;
      room scratch(c);
      PF_TRY(masses(c, logits<T>{PF_DATA(const T, x), cols, 1}, n, cols, &scratch));
      return each(c, n * cols,
                  sparse_each<T, I>{PF_DATA(const T, x), PF_DATA(const I, y),
                                    (const mass<wide<T>> *)scratch.data, PF_DATA(T, loss),
                                    PF_DATA(T, out), cols});
    });
  });
}

static const pf_kernel table[] = {
  GPU("Softmax", "T=" T_FLOATS, SAME, .compute = softmax<false>),
  GPU("LogSoftmax", "T=" T_FLOATS, SAME, .compute = softmax<true>),
  GPU("SoftmaxCrossEntropyWithLogits", "T=" T_FLOATS, SAME, .compute = cross_entropy),
  GPU("SparseSoftmaxCrossEntropyWithLogits", "T=" T_FLOATS, SAME, .compute = sparse_cross_entropy),
};
} // namespace
KERNELS(softmax_kernels, table)
