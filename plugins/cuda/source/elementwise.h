/* elementwise.h - how ops of one and two tensors are run: shapes, broadcasting, in place or not.
 *
 * An op is a struct with one static function:
 *     struct Square { template <class T> static PF_BOTH T of(T x, float) { return x * x; } };
 *     struct Add { template <class T> static PF_BOTH T of(T a, T b, float) { return a + b; } };
 * T is the wide type (float for half and bfloat16); the last argument is the op's one parameter
 * (alpha, tolerance), else 0.
 */
#ifndef PF_CUDA_ELEMENTWISE_H
#define PF_CUDA_ELEMENTWISE_H
#include "walk.h"

typedef struct {
  double p;
} elementwise_state;

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
template <class T> struct pair {
  T a, b;
};
enum { BOTH_VECTORS, FIRST_SCALAR, SECOND_SCALAR, WALKED };
template <class Op, class T, class Y> struct binary_map {
  typedef pair<T> value;
  const T *a, *b;
  Y *y;
  double p;
  int mode;
  walk<2> w; /* set where mode is WALKED */
  PF_BOTH pair<T> load(int64_t i) const {
    int64_t at[2] = {mode == FIRST_SCALAR ? 0 : i, mode == SECOND_SCALAR ? 0 : i};
    if (mode == WALKED) w.offsets(i, at);
    return pair<T>{a[at[0]], b[at[1]]};
  }
  PF_BOTH void store(int64_t i, pair<T> v) const { y[i] = down<Y>(Op::of(up(v.a), up(v.b), p)); }
  PF_BOTH void operator()(int64_t i) const { store(i, load(i)); }
};
/* a and b are inputs 0 and 1, perhaps seen with another shape */
template <class Op, class T, class Y>
pf_status run_binary(pf_ctx *c, const DLTensor *a, const DLTensor *b, double p) {
  int64_t shape[MAX_DIMS], n;
  int32_t nd = 0;
  PF_TRY(broadcast_shape(c, a, b, shape, &nd));
  if (!numel_ok(shape, nd, &n))
    return INVALID(c, "Broadcast of %s and %s has too many elements", SHAPE(a), SHAPE(b));
  int32_t in = same_dims(a->shape, a->ndim, shape, nd)   ? 0
               : same_dims(b->shape, b->ndim, shape, nd) ? 1
                                                         : -1;
  DLTensor *y = in >= 0 && sizeof(T) == sizeof(Y) ? c->host->forward(c, in, 0, shape, nd)
                                                  : c->host->output(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  if (n == 0) return PF_OK;
  int64_t na = pf_numel(a), nb = pf_numel(b);
  binary_map<Op, T, Y> f;
  f.a = PF_DATA(const T, a), f.b = PF_DATA(const T, b), f.y = PF_DATA(Y, y), f.p = p;
  f.mode = na == n && nb == n   ? BOTH_VECTORS
           : na == 1 && nb == n ? FIRST_SCALAR
           : nb == 1 && na == n ? SECOND_SCALAR
                                : WALKED;
  if (f.mode == WALKED) {
    int64_t sa[MAX_DIMS], sb[MAX_DIMS];
    const int64_t *strides[2] = {sa, sb};
    broadcast_strides(a->shape, a->ndim, nd, sa);
    broadcast_strides(b->shape, b->ndim, nd, sb);
    if (!walk_plan(&f.w, shape, nd, strides)) return TOO_TANGLED(c);
  }
  return map_of<T>(c, n, f);
}
/* the same shape on both sides, no broadcasting */
static inline pf_status same_shapes(pf_ctx *c) {
  if (same_shape(c->in[0], c->in[1])) return PF_OK;
  return INVALID(c, "Inputs must have the same shape: got %s and %s", SHAPE(c->in[0]),
                 SHAPE(c->in[1]));
}
#endif
