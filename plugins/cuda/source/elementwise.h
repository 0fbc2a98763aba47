/* elementwise.h - how ops of one and two tensors are run: shapes, broadcasting, in place or not.
 *
 * An op is a struct with one static function:
 *     struct Square { template <class T> static PF_BOTH T of(T x, float) { return x * x; } };
 *     struct Add { template <class T> static PF_BOTH T of(T a, T b, float) { return a + b; } };
 * T is the wide type (float for half and bfloat16, int64 for all integers); the last argument is
 * the op's one parameter (alpha, tolerance), else 0.  An op that returns bool is a test: its
 * results are bytes.
 */
#ifndef PF_CUDA_ELEMENTWISE_H
#define PF_CUDA_ELEMENTWISE_H
#include "walk.h"

typedef struct { double p; } elementwise_state;

/* one result of either kind */
template <class W> PF_BOTH void put(void *y, int64_t i, int32_t type, W v) {
  elements<W>::store(y, i, type, v);
}
PF_BOTH void put(void *y, int64_t i, int32_t, bool v) { ((uint8_t *)y)[i] = v; }
/* int32 lives in host memory, everything else on the device */
template <class W, class F> pf_status map_wide(pf_ctx *c, int64_t n, const F &f) {
  if constexpr (__is_same(W, int64_t)) {
    if (f.type == PF_INT32) return each_on_host(c, n, f);
  }
  return map(c, n, f);
}

/* ---------------------------------------------------------------- one operand */
template <class Op, class W> struct unary_map {
  typedef elements<W> E;
  typedef typename E::bits value;
  const void *x;
  void *y;
  double p;
  int32_t type;
  PF_BOTH value load(int64_t i) const { return E::load(x, i, type); }
  PF_BOTH void store(int64_t i, value v) const { put(y, i, type, Op::of(E::value(v, type), p)); }
  PF_BOTH void operator()(int64_t i) const { store(i, load(i)); }
};
static inline DLTensor *unary_output(pf_ctx *c) {
  const DLTensor *x = c->in[0];
  return type_size(c->in_type[0]) == type_size(c->out_type[0])
             ? c->host->forward(c, 0, 0, x->shape, x->ndim)
             : c->host->output(c, 0, x->shape, x->ndim);
}
template <class Op, class W> pf_status run_unary(pf_ctx *c, double p) {
  DLTensor *y = unary_output(c);
  PF_EXHAUSTED(y);
  unary_map<Op, W> f = {PF_DATA(const void, c->in[0]), PF_DATA(void, y), p, c->in_type[0]};
  return map_wide<W>(c, pf_numel(y), f);
}

/* ---------------------------------------------------------------- two operands */
template <class T> struct pair { T a, b; };
enum { BOTH_VECTORS, FIRST_SCALAR, SECOND_SCALAR, WALKED };
typedef struct {
  const void *a, *b;
  void *y;
  double p;
  int64_t n;
  int32_t type, mode;
  walk<2> w; /* set where mode is WALKED */
} operands;
template <class Op, class W> struct binary_map : operands {
  typedef elements<W> E;
  typedef pair<typename E::bits> value;
  PF_BOTH value load(int64_t i) const {
    int64_t at[2] = {mode == FIRST_SCALAR ? 0 : i, mode == SECOND_SCALAR ? 0 : i};
    if (mode == WALKED) w.offsets(i, at);
    return value{E::load(a, at[0], type), E::load(b, at[1], type)};
  }
  PF_BOTH void store(int64_t i, value v) const {
    put(y, i, type, Op::of(E::value(v.a, type), E::value(v.b, type), p));
  }
  PF_BOTH void operator()(int64_t i) const { store(i, load(i)); }
};
/* a and b are inputs 0 and 1, perhaps seen with another shape.  Makes the output. */
static pf_status take_operands(pf_ctx *c, const DLTensor *a, const DLTensor *b, operands *f) {
  int64_t shape[MAX_DIMS];
  int32_t nd = 0;
  PF_TRY(broadcast_shape(c, a, b, shape, &nd));
  if (!numel_ok(shape, nd, &f->n))
    return INVALID(c, "Broadcast of %s and %s has too many elements", SHAPE(a), SHAPE(b));
  int32_t in = same_dims(a->shape, a->ndim, shape, nd)   ? 0
               : same_dims(b->shape, b->ndim, shape, nd) ? 1
                                                         : -1;
  f->type = c->in_type[0];
  DLTensor *y = in >= 0 && type_size(f->type) == type_size(c->out_type[0])
                    ? c->host->forward(c, in, 0, shape, nd)
                    : c->host->output(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  int64_t na = pf_numel(a), nb = pf_numel(b), n = f->n;
  f->a = PF_DATA(const void, a), f->b = PF_DATA(const void, b), f->y = PF_DATA(void, y);
  f->mode = na == n && nb == n   ? BOTH_VECTORS
            : na == 1 && nb == n ? FIRST_SCALAR
            : nb == 1 && na == n ? SECOND_SCALAR
                                 : WALKED;
  if (f->mode != WALKED || n == 0) return PF_OK;
  int64_t sa[MAX_DIMS], sb[MAX_DIMS];
  const int64_t *strides[2] = {sa, sb};
  broadcast_strides(a->shape, a->ndim, nd, sa);
  broadcast_strides(b->shape, b->ndim, nd, sb);
  return walk_plan(&f->w, shape, nd, strides) ? PF_OK : TOO_TANGLED(c);
}
template <class Op, class W>
pf_status run_binary(pf_ctx *c, const DLTensor *a, const DLTensor *b, double p) {
  binary_map<Op, W> f;
  f.p = p;
  PF_TRY(take_operands(c, a, b, &f));
  return f.n ? map_wide<W>(c, f.n, f) : PF_OK;
}

/* ---------------------------------------------------------------- shapes that do not broadcast
 * Equal and NotEqual of them: one truth value where incompatible_shape_error is false */
typedef struct { int32_t incompatible_shape_error; } compare_state;
struct put_truth {
  uint8_t *y, v;
  PF_BOTH void operator()(int64_t i) const { y[i] = v; }
};
static inline bool broadcasts(const DLTensor *a, const DLTensor *b) {
  for (int32_t i = 1; i <= least(a->ndim, b->ndim); i++) {
    int64_t da = a->shape[a->ndim - i], db = b->shape[b->ndim - i];
    if (da != db && da != 1 && db != 1) return false;
  }
  return true;
}
static inline bool is_incomparable(pf_ctx *c, const void *state) {
  return !((const compare_state *)state)->incompatible_shape_error &&
         !broadcasts(c->in[0], c->in[1]);
}
static inline pf_status all_unequal(pf_ctx *c, bool truth) {
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  put_truth f = {PF_DATA(uint8_t, y), truth};
  return on_host(y) ? each_on_host(c, 1, f) : each(c, 1, f);
}
/* the same shape on both sides, no broadcasting */
static inline pf_status same_shapes(pf_ctx *c) {
  if (same_shape(c->in[0], c->in[1])) return PF_OK;
  return INVALID(c, "Inputs must have the same shape: got %s and %s", SHAPE(c->in[0]),
                 SHAPE(c->in[1]));
}
#endif
