/* elementwise.h - how ops of one and two tensors are run: shapes, broadcasting, in place or not.
 *
 * An op is a struct with one static function:
 *     struct Square { template <class T> static PF_BOTH T of(T x, float) { return x * x; } };
 *     struct Add { template <class T> static PF_BOTH T of(T a, T b, float) { return a + b; } };
 * T is the wide type (float for half and bfloat16); the last argument is the op's one parameter (alpha, tolerance), else 0.
 */
#ifndef PF_CUDA_ELEMENTWISE_H
#define PF_CUDA_ELEMENTWISE_H
#include "walk.h"

typedef struct { double p; } elementwise_state;

/* ---------------------------------------------------------------- one operand */
template <class Op, class T, class Y> struct unary_map {
  typedef T value;
  const T *x;
  Y *y;
  double p;
  PF_BOTH T load(int64_t i) const { return x[i]; }
  PF_BOTH void store(int64_t i, T v) const { y[i] = down<Y>(Op::of(up(v), p)); }
  PF_BOTH void operator()(int64_t i) const { y[i] = down<Y>(Op::of(up(x[i]), p)); }
};
template <class Op, class T, class Y> pf_status run_unary(pf_ctx *c, double p) {
  const DLTensor *x = c->in[0];
  DLTensor *y = sizeof(T) == sizeof(Y) ? c->host->forward(c, 0, 0, x->shape, x->ndim)
                                       : c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(y);
  unary_map<Op, T, Y> f = {PF_DATA(const T, x), PF_DATA(Y, y), p};
  return map_of<T>(c, pf_numel(x), f);
}

/* ---------------------------------------------------------------- two operands */
template <class T> struct pair { T a, b; };
enum { BOTH_VECTORS = 0, FIRST_SCALAR = 1, SECOND_SCALAR = 2 };
template <class Op, class T, class Y> struct binary_map {
  typedef pair<T> value;
  const T *a, *b;
  Y *y;
  double p;
  int mode;
  PF_BOTH pair<T> load(int64_t i) const {
    return pair<T>{a[mode == FIRST_SCALAR ? 0 : i], b[mode == SECOND_SCALAR ? 0 : i]};
  }
  PF_BOTH void store(int64_t i, pair<T> v) const { y[i] = down<Y>(Op::of(up(v.a), up(v.b), p)); }
  PF_BOTH void operator()(int64_t i) const { store(i, load(i)); }
};
template <class Op, class T, class Y> struct binary_walk {
  typedef pair<T> value;
  walk<2> w;
  const T *a, *b;
  Y *y;
  double p;
  PF_BOTH pair<T> load(int64_t i) const {
    int64_t at[2];
    w.offsets(i, at);
    return pair<T>{a[at[0]], b[at[1]]};
  }
  PF_BOTH void store(int64_t i, pair<T> v) const { y[i] = down<Y>(Op::of(up(v.a), up(v.b), p)); }
  PF_BOTH void operator()(int64_t i) const { store(i, load(i)); }
};
template <class Op, class T, class Y>
pf_status run_walked(pf_ctx *c, const DLTensor *a, const DLTensor *b, double p, DLTensor *y, const int64_t *shape, int32_t nd) {
  int64_t sa[MAX_DIMS], sb[MAX_DIMS];
  const int64_t *strides[2] = {sa, sb};
  binary_walk<Op, T, Y> f;
  broadcast_strides(a->shape, a->ndim, nd, sa);
  broadcast_strides(b->shape, b->ndim, nd, sb);
  if (!walk_plan(&f.w, shape, nd, strides)) return TOO_TANGLED(c);
  f.a = PF_DATA(const T, a), f.b = PF_DATA(const T, b), f.y = PF_DATA(Y, y), f.p = p;
  return map_of<T>(c, pf_numel(y), f);
}
/* a and b are inputs 0 and 1, perhaps seen with another shape */
template <class Op, class T, class Y>
pf_status run_binary(pf_ctx *c, const DLTensor *a, const DLTensor *b, double p) {
  int64_t shape[MAX_DIMS], n;
  int32_t nd = 0;
  PF_TRY(broadcast_shape(c, a, b, shape, &nd));
  if (!numel_ok(shape, nd, &n)) return INVALID(c, "Broadcast of %s and %s has too many elements", SHAPE(a), SHAPE(b));
  int32_t in = same_dims(a->shape, a->ndim, shape, nd) ? 0 : same_dims(b->shape, b->ndim, shape, nd) ? 1 : -1;
  DLTensor *y = in >= 0 && sizeof(T) == sizeof(Y) ? c->host->forward(c, in, 0, shape, nd)
                                                  : c->host->output(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  if (n == 0) return PF_OK;
  int64_t na = pf_numel(a), nb = pf_numel(b);
  if (na != n && nb != n) return run_walked<Op, T, Y>(c, a, b, p, y, shape, nd);
  int mode = na == nb ? BOTH_VECTORS : na == 1 ? FIRST_SCALAR : nb == 1 ? SECOND_SCALAR : -1;
  if (mode < 0) return run_walked<Op, T, Y>(c, a, b, p, y, shape, nd);
  binary_map<Op, T, Y> f = {PF_DATA(const T, a), PF_DATA(const T, b), PF_DATA(Y, y), p, mode};
  return map_of<T>(c, n, f);
}
/* the same shape on both sides, no broadcasting */
static inline pf_status same_shapes(pf_ctx *c) {
  if (same_shape(c->in[0], c->in[1])) return PF_OK;
  return INVALID(c, "Inputs must have the same shape: got %s and %s", SHAPE(c->in[0]), SHAPE(c->in[1]));
}
#endif
