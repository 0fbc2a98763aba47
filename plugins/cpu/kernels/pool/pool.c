/* pool.c - MaxPool, AvgPool, MaxPoolWithArgmax and their gradients: attributes, sizes and checks.
 *
 * Invariants
 *   1. The work is pool.h's: NCHW [n, c, h, w] is pooled as n * c images of one channel.
 *   2. Every size and index is checked before anything is computed.
 * Threads: those of pool.h.
 */
#include "pool/pool.h"
#include "vec/half.h"
#include "conv/window.h"

typedef struct {
  pf_window w;
  int32_t Targmax, with_batch;
} pool_state;

static pf_status pool_init(pf_ctx *c, void *state) {
  pool_state *s = state;
  PF_TRY(pf_window_init(c, &s->w));
  if (s->w.kc != 1 || s->w.sc != 1)
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "Pooling over depth (ksize %" PRId64 ", stride %" PRId64
                    " there) is not supported",
                    s->w.kc, s->w.sc);
  if (s->w.pad == PF_PAD_EXPLICIT &&
      (PF_MAX(s->w.pt, s->w.pb) >= s->w.kh || PF_MAX(s->w.pl, s->w.pr) >= s->w.kw))
    return PF_INVALID(c, "explicit padding must be smaller than the window (ksize)");
  return PF_OK;
}

/* MaxPool may pool over depth alone, in windows side by side, as TensorFlow's on the CPU. */
static pf_status max_pool_init(pf_ctx *c, void *state) {
  pool_state *s = state;
  PF_TRY(pf_window_init(c, &s->w));
  if (s->w.kc == 1) return pool_init(c, state);
  if (s->w.kh != 1 || s->w.kw != 1 || s->w.sh != 1 || s->w.sw != 1)
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "MaxPooling supports exactly one of pooling across depth "
                    "or pooling across width/height.");
  if (s->w.kc != s->w.sc)
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "Depthwise max pooling requires the depth window (%" PRId64
                    ") to equal the depth stride (%" PRId64 ").",
                    s->w.kc, s->w.sc);
  if (s->w.nchw || s->w.pad == PF_PAD_EXPLICIT)
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "Depthwise max pooling is for NHWC without explicit "
                    "padding");
  return PF_OK;
}

/* Every pixel is an image of one row: its channels. */
static pf_status depth_sizes(pf_ctx *c, const pool_state *s, const DLTensor *x, pf_pool *p,
                             int64_t *out_shape) {
  int64_t d[4] = {0}, pixels;
  PF_TRY(pf_window_dims(c, &s->w, x->shape, x->ndim, "tensor_in", d));
  if (d[3] % s->w.kc)
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "Depthwise max pooling requires the depth window (%" PRId64
                    ") to evenly divide the input depth (%" PRId64 ")",
                    s->w.kc, d[3]);
  if (!pf_mul(d[0], d[1], &pixels) || !pf_mul(pixels, d[2], &pixels))
    return PF_INVALID(c, "shape %s has too many elements", PF_SHAPE(x).s);
  pf_window_shape(&s->w, d[0], d[1], d[2], d[3] / s->w.kc, out_shape);
  *p = (pf_pool){.n = pixels,
                 .c = 1,
                 .in = {1, 1, d[3]},
                 .out = {1, 1, d[3] / s->w.kc},
                 .k = {1, 1, s->w.kc},
                 .stride = {1, 1, s->w.kc}};
  return PF_OK;
}

/* Sizes of pooling a tensor of this shape; `out_shape` in the tensor's own layout. */
static pf_status pool_sizes(pf_ctx *c, const pool_state *s, const int64_t *shape, int32_t ndim,
                            pf_pool *p, int64_t *out_shape) {
  int64_t d[4] = {0};
  PF_TRY(pf_window_dims(c, &s->w, shape, ndim, "tensor_in", d));
  *p = (pf_pool){.n = d[0],
                 .c = d[3],
                 .in = {1, d[1], d[2]},
                 .out = {1},
                 .k = {1, s->w.kh, s->w.kw},
                 .stride = {1, s->w.sh, s->w.sw}};
  PF_TRY(pf_window_size(c, &s->w, 0, d[1], s->w.kh, &p->out[1], &p->before[1]));
  PF_TRY(pf_window_size(c, &s->w, 1, d[2], s->w.kw, &p->out[2], &p->before[2]));
  pf_window_shape(&s->w, p->n, p->out[1], p->out[2], p->c, out_shape);
  if (s->w.nchw) {
    if (!pf_mul(p->n, p->c, &p->n))
      return PF_INVALID(c, "shape %s has too many elements", pf_shape_text(shape, ndim).s);
    p->c = 1;
  }
  return PF_OK;
}

static pf_status forward(pf_ctx *c, const pool_state *s, int max) {
  int64_t shape[4];
  pf_pool p;
  if (s->w.kc != 1) PF_TRY(depth_sizes(c, s, c->in[0], &p, shape));
  else PF_TRY(pool_sizes(c, s, c->in[0]->shape, c->in[0]->ndim, &p, shape));
  DLTensor *out = pf_output_checked(c, 0, shape, 4);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  return PF_ISA_NAME(pf_pool_forward)(c, &p, s->w.T, max, PF_DATA(const void, c->in[0]),
                                      PF_DATA(void, out));
}
static pf_status max_pool(pf_ctx *c, const void *s) { return forward(c, s, 1); }
static pf_status avg_pool(pf_ctx *c, const void *s) { return forward(c, s, 0); }

static pf_status max_pool_argmax(pf_ctx *c, const void *state) {
  const pool_state *s = state;
  const DLTensor *x = c->in[0];
  int64_t shape[4];
  pf_pool p;
  PF_TRY(pool_sizes(c, s, x->shape, x->ndim, &p, shape));
  if (s->w.nchw) return pf_failf(c, PF_UNIMPLEMENTED, "MaxPoolWithArgmax supports NHWC only");
  DLTensor *out = pf_output_checked(c, 0, shape, 4),
           *arg = out ? pf_output_checked(c, 1, shape, 4) : NULL;
  PF_EXHAUSTED(arg);
  const int64_t n = pf_numel(out), images = PF_MAX(p.n, 1), size = pf_numel(x) / images;
  if (n == 0) return PF_OK;
  if (s->Targmax == PF_INT32 && pf_numel(x) > INT32_MAX)
    return PF_INVALID(c, "input is too large for int32 indices: use Targmax=int64");
  int64_t *at =
      s->Targmax == PF_INT32 ? c->host->scratch(c, (uint64_t)n * 8, 64) : PF_DATA(int64_t, arg);
  if (!at) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for indices");
  PF_TRY(PF_ISA_NAME(pf_pool_first_maxima)(c, &p, s->w.T, PF_DATA(const void, x),
                                           PF_DATA(void, out), at));
  const int64_t each = n / images;
  if (s->with_batch)
    for (int64_t i = 0; i < n; i++) at[i] += i / each * size;
  if (s->Targmax == PF_INT32)
    for (int64_t i = 0; i < n; i++) PF_DATA(int32_t, arg)[i] = (int32_t)at[i];
  return PF_OK;
}

/* ---------------------------------------------------------------- gradients */
static pf_status check_grad(pf_ctx *c, const DLTensor *dy, const int64_t *shape) {
  if (pf_same_dims(dy->shape, dy->ndim, shape, 4)) return PF_OK;
  return PF_INVALID(c, "Expected grad shape to be %s, but got %s", pf_shape_text(shape, 4).s,
                    PF_SHAPE(dy).s);
}

static pf_status max_pool_grad(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *dy = c->in[2];
  const pool_state *s = state;
  int64_t shape[4];
  pf_pool p;
  PF_TRY(pool_sizes(c, s, x->shape, x->ndim, &p, shape));
  if (!pf_same_dims(c->in[1]->shape, c->in[1]->ndim, shape, 4))
    return PF_INVALID(c, "Expected orig_output shape to be %s, but got %s",
                      pf_shape_text(shape, 4).s, PF_SHAPE(c->in[1]).s);
  PF_TRY(check_grad(c, dy, shape));
  DLTensor *out = c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  return PF_ISA_NAME(pf_pool_max_gradient)(c, &p, s->w.T, PF_DATA(const void, x),
                                           PF_DATA(const void, dy), PF_DATA(void, out));
}

static pf_status avg_pool_grad(pf_ctx *c, const void *state) {
  const pool_state *s = state;
  const DLTensor *dy = c->in[1];
  int64_t in_shape[PF_MAX_DIMS], shape[4], total;
  int32_t n = 0;
  pf_pool p;
  PF_TRY(pf_in_vector(c, 0, "orig_input_shape", in_shape, &n));
  if (n != 4) return PF_INVALID(c, "orig_input_shape must be a vector of 4 sizes, got %d", n);
  for (int d = 0; d < 4; d++)
    if (in_shape[d] < 0)
      return PF_INVALID(c, "orig_input_shape must be non-negative, got %s",
                        pf_shape_text(in_shape, 4).s);
  if (!pf_shape_numel(in_shape, 4, &total))
    return PF_INVALID(c, "orig_input_shape %s has too many elements", pf_shape_text(in_shape, 4).s);
  PF_TRY(pool_sizes(c, s, in_shape, 4, &p, shape));
  PF_TRY(check_grad(c, dy, shape));
  DLTensor *out = pf_output_checked(c, 0, in_shape, 4);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  return PF_ISA_NAME(pf_pool_average_gradient)(c, &p, s->w.T, PF_DATA(const void, dy),
                                               PF_DATA(void, out));
}

/* to[at] += dy[i] of a checked argmax; halves in float */
#define ADD_AT(T, FROM) \
  for (int64_t i = 0; i < n; i++) { \
    const int64_t image = s->with_batch ? 0 : i / per_out * per_in; \
    ((T *)to)[pf_index_at(arg, s->Targmax, i) + image] += FROM(i); \
  }
#define FLOAT_AT(i) PF_DATA(const float, dy)[i]
#define DOUBLE_AT(i) PF_DATA(const double, dy)[i]
#define HALF_AT(i) pf_from_half(PF_DATA(const uint16_t, dy)[i])
#define BFLOAT16_AT(i) pf_from_bf16(PF_DATA(const uint16_t, dy)[i])
static void add_at(const pool_state *s, const DLTensor *dy, const DLTensor *arg, int64_t per_in,
                   int64_t per_out, void *to) {
  const int64_t n = pf_numel(dy);
  switch (s->w.T) {
    case PF_FLOAT32: ADD_AT(float, FLOAT_AT) break;
    case PF_FLOAT64: ADD_AT(double, DOUBLE_AT) break;
    case PF_FLOAT16: ADD_AT(float, HALF_AT) break;
    default: ADD_AT(float, BFLOAT16_AT)
  }
}

/* dx[argmax[i]] += dy[i] */
static pf_status argmax_grad(pf_ctx *c, const void *state) {
  const pool_state *s = state;
  const DLTensor *x = c->in[0], *dy = c->in[1], *arg = c->in[2];
  int64_t n = pf_numel(dy), size = pf_numel(x), images = x->ndim ? PF_MAX(x->shape[0], 1) : 1;
  if (x->ndim != 4 || dy->ndim != 4 || !pf_same_shape(dy, arg) ||
      (n && dy->shape[0] != x->shape[0]))
    return PF_INVALID(c, "input, grad and argmax do not fit: %s %s %s", PF_SHAPE(x).s,
                      PF_SHAPE(dy).s, PF_SHAPE(arg).s);
  int64_t per_in = size / images, per_out = PF_MAX(n / images, 1);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = pf_index_at(arg, s->Targmax, i) + (s->with_batch ? 0 : i / per_out * per_in);
    if (at < 0 || at >= size || pf_index_at(arg, s->Targmax, i) < 0)
      return PF_INVALID(c, "argmax[%" PRId64 "] = %" PRId64 " is out of range for input %s", i,
                        pf_index_at(arg, s->Targmax, i), PF_SHAPE(x).s);
  }
  DLTensor *out = c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(out);
  if (size == 0) return PF_OK;
  const int half = pf_is_half(s->w.T);
  const uint64_t bytes = (uint64_t)size * (half ? 4 : (uint64_t)pf_type_size(s->w.T));
  void *to = half ? c->host->scratch(c, bytes, 64) : PF_DATA(void, out);
  if (!to) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the gradient in float");
  memset(to, 0, (size_t)bytes);
  add_at(s, dy, arg, per_in, per_out, to);
  if (half) halves_write(s->w.T, to, PF_DATA(void, out), size);
  return PF_OK;
}

#define FIELD(name, kind) PF_REF(pf_attr, #name, kind, offsetof(pool_state, w.name))
#define OPTIONAL(name, kind, field) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, name, kind, offsetof(pool_state, field)})
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#define ENTRY(op, types, fn, ...) ENTRY_FROM(pool_init, op, types, fn, ##__VA_ARGS__)
#define ENTRY_FROM(start, op, types, fn, ...) PF_CPU_FLAGS(op, types, FLAGS, \
  .attrs = PF_ATTRS(FIELD(T, PF_ATTR_TYPE), FIELD(strides, PF_ATTR_LIST | PF_ATTR_INT), \
                    FIELD(ksize, PF_ATTR_LIST | PF_ATTR_INT), FIELD(padding, PF_ATTR_STRING), \
                    OPTIONAL("data_format", PF_ATTR_STRING, w.data_format), \
                    OPTIONAL("explicit_paddings", PF_ATTR_LIST | PF_ATTR_INT, \
                             w.explicit_paddings), ##__VA_ARGS__), \
  .state_size = sizeof(pool_state), .init = start, .compute = fn)
#define ARGMAX \
  OPTIONAL("Targmax", PF_ATTR_TYPE, Targmax), \
      OPTIONAL("include_batch_in_index", PF_ATTR_BOOL, with_batch)
const pf_kernel *const PF_ISA_NAME(pool_kernels)[] = {
  ENTRY_FROM(max_pool_init, "MaxPool", "T=" PF_REAL, max_pool),
  ENTRY("AvgPool", "T=" PF_FLOATS, avg_pool),
  ENTRY("MaxPoolGrad", "T=" PF_FLOATS, max_pool_grad),
  ENTRY("AvgPoolGrad", "T=" PF_FLOATS, avg_pool_grad),
  ENTRY("MaxPoolWithArgmax", "T=" PF_FLOATS, max_pool_argmax, ARGMAX),
  ENTRY("MaxPoolGradWithArgmax", "T=" PF_FLOATS, argmax_grad, ARGMAX),
  NULL};
