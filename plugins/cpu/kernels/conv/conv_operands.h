/* conv_operands.h - operands of convolutions: checks of sizes, data formats and halves.
 *
 * Invariants
 *   1. A pass runs only on sizes that conv_sizes has checked; empty tensors never reach it.
 *   2. NCHW is transposed to NHWC and back; halves are summed as float and rounded once.
 * Threads: compute is concurrent; transposes use parallel_for.  For files compiled per instruction
 * set.
 */
#ifndef PF_CPU_CONV_OPERANDS_H
#define PF_CPU_CONV_OPERANDS_H
#include "conv/conv.h"
#include "vec/half.h"
#include "move/strided.h"
#include "gemm/tile_types.h"

typedef pf_status (*pass)(pf_ctx *, const pf_conv_call *);
enum { FORWARD, INPUT, FILTER, DEPTH_FORWARD, DEPTH_INPUT, DEPTH_FILTER };

/* All sizes of the convolution of x [n, h, w, c] with f [kh, kw, fc, oc]. */
static pf_status conv_sizes(pf_ctx *c, const pf_window *s, const int64_t *x, const int64_t *f,
                            pf_conv *g) {
  *g = (pf_conv){.n = x[0],
                 .h = x[1],
                 .w = x[2],
                 .c = x[3],
                 .kh = f[0],
                 .kw = f[1],
                 .fc = f[2],
                 .oc = f[3],
                 .sh = s->sh,
                 .sw = s->sw,
                 .dh = s->dh,
                 .dw = s->dw};
  int64_t room, rows, cols;
  if (g->fc < 1 || g->kh < 1 || g->kw < 1 || g->oc < 0)
    return PF_INVALID(
        c, "filter must not have zero elements (i.e. all dimensions must be non-zero): %s",
        pf_shape_text(f, 4).s);
  if (g->c % g->fc)
    return PF_INVALID(
        c, "input depth must be evenly divisible by filter depth: %" PRId64 " vs %" PRId64, g->c,
        g->fc);
  g->groups = PF_MAX(g->c / g->fc, 1);
  if (g->oc % g->groups)
    return PF_INVALID(
        c, "output depth must be evenly divisible by number of groups: %" PRId64 " vs %" PRId64,
        g->oc, g->groups);
  PF_TRY(pf_window_size(c, s, 0, g->h, g->kh, &g->oh, &g->pt));
  PF_TRY(pf_window_size(c, s, 1, g->w, g->kw, &g->ow, &g->pl));
  rows = g->h + g->pt * 2 + (g->kh + 1) * g->dh;
  cols = g->w + g->pl * 2 + (g->kw + 1) * g->dw;
  if (rows > INT32_MAX || cols > INT32_MAX || !pf_mul(rows, cols, &room) ||
      !pf_mul(room, 64 * PF_MAX(g->c, PF_MAX(g->oc, 1)), &room))
    return PF_INVALID(c, "convolution of %s with filter %s is too large", pf_shape_text(x, 4).s,
                      pf_shape_text(f, 4).s);
  pf_conv_pack_images(g);
  return PF_OK;
}

/* ---------------------------------------------------------------- layouts */
/* y = each of n matrices [rows, cols] of x transposed */
static pf_status transpose_all(pf_ctx *c, const void *x, void *y, int64_t n, int64_t rows,
                               int64_t cols, int64_t size) {
  const pf_box b = {.esize = size,
                    .nd = 3,
                    .shape = {n, cols, rows},
                    .dst_stride = {rows * cols, rows, 1},
                    .src_stride = {rows * cols, 1, cols}};
  const DLTensor from = {.data = (void *)(uintptr_t)x};
  DLTensor to = {.data = y};
  return pf_box_copy(c, &b, &to, &from);
}

typedef struct {
  int32_t type;
  const void *from;
  void *to;
} conversion;
static void widen(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const conversion *v = arg;
  (void)worker;
  halves_read(v->type, (const uint16_t *)v->from + lo, (float *)v->to + lo, hi - lo);
}
static void narrow(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const conversion *v = arg;
  (void)worker;
  halves_write(v->type, (const float *)v->from + lo, (uint16_t *)v->to + lo, hi - lo);
}

/* An operand as compact NHWC float or double; `image` false for filters, which have one layout. */
static pf_status load(pf_ctx *c, const pf_window *s, const DLTensor *t, int64_t pixels, int64_t ch,
                      int image, const void **out) {
  int64_t n = pf_numel(t), size = s->T == PF_FLOAT64 ? 8 : 4;
  const void *x = PF_DATA(const void, t);
  if (pf_is_half(s->T)) {
    float *wide = c->host->scratch(c, (uint64_t)n * 4, 64);
    if (!wide) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a float copy");
    conversion v = {s->T, x, wide};
    PF_TRY(pf_parallel(c, n, PF_GRAIN, widen, &v));
    x = wide;
  }
  if (image && s->nchw && pixels > 1 && ch > 1) {
    void *y = c->host->scratch(c, (uint64_t)(n * size), 64);
    if (!y) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a transposed copy");
    PF_TRY(transpose_all(c, x, y, n / (pixels * ch), ch, pixels, size));
    x = y;
  }
  *out = x;
  return PF_OK;
}

/* A bfloat16 operand as compact NHWC, for passes over bfloat16 itself. */
static pf_status load_halves(pf_ctx *c, const pf_window *s, const DLTensor *t, int64_t pixels,
                             int64_t ch, const void **out) {
  *out = PF_DATA(const void, t);
  if (!s->nchw || pixels <= 1 || ch <= 1) return PF_OK;
  void *y = c->host->scratch(c, (uint64_t)pf_numel(t) * 2, 64);
  if (!y) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a transposed copy");
  PF_TRY(transpose_all(c, *out, y, pf_numel(t) / (pixels * ch), ch, pixels, 2));
  *out = y;
  return PF_OK;
}

/* Where the pass writes: the output itself, or scratch that `store` brings home. */
typedef struct {
  DLTensor *t;
  void *at;
  int64_t pixels, ch;
  int image;
  const pf_epilogue *after; /* what the pass left to do, element by element; or NULL */
} result;
static int is_turned(const pf_window *s, const result *r) {
  return r->image && s->nchw && r->pixels > 1 && r->ch > 1;
}
static pf_status open_result(pf_ctx *c, const pf_window *s, result *r) {
  int turned = is_turned(s, r);
  r->at = PF_DATA(void, r->t);
  if (!turned && !pf_is_half(s->T)) return PF_OK;
  r->at = c->host->scratch(c, (uint64_t)(pf_numel(r->t) * (s->T == PF_FLOAT64 ? 8 : 4)), 64);
  return r->at ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the result");
}
static pf_status store(pf_ctx *c, const pf_window *s, const result *r) {
  void *home = PF_DATA(void, r->t), *x = r->at;
  int64_t n = pf_numel(r->t), size = s->T == PF_FLOAT64 ? 8 : 4;
  if (x != home && is_turned(s, r)) {
    void *y = pf_is_half(s->T) ? c->host->scratch(c, (uint64_t)(n * 4), 64) : home;
    if (!y) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the result");
    PF_TRY(transpose_all(c, x, y, n / (r->pixels * r->ch), r->pixels, r->ch, size));
    x = y;
  }
  if (r->after && s->T == PF_FLOAT64) pf_epilogue_f64(r->after, x, n, 1, n);
  else if (r->after) pf_epilogue_f32(r->after, x, n, 1, n);
  conversion v = {s->T, x, home};
  return pf_is_half(s->T) ? pf_parallel(c, n, PF_GRAIN, narrow, &v) : PF_OK;
}

static pf_status run_pass(pf_ctx *c, const pf_window *s, int which, pf_conv_call *call, result *r) {
  static const pass passes[2][6] = {
    {PF_ISA_NAME(pf_conv_forward_f32), PF_ISA_NAME(pf_conv_input_f32),
     PF_ISA_NAME(pf_conv_filter_f32), PF_ISA_NAME(pf_depth_forward_f32),
     PF_ISA_NAME(pf_depth_input_f32), PF_ISA_NAME(pf_depth_filter_f32)},
    {PF_ISA_NAME(pf_conv_forward_f64), PF_ISA_NAME(pf_conv_input_f64),
     PF_ISA_NAME(pf_conv_filter_f64), PF_ISA_NAME(pf_depth_forward_f64),
     PF_ISA_NAME(pf_depth_input_f64), PF_ISA_NAME(pf_depth_filter_f64)}};
  PF_TRY(open_result(c, s, r));
  call->out = r->at;
  PF_TRY(passes[s->T == PF_FLOAT64][which](c, call));
  return store(c, s, r);
}

/* A pass over bfloat16 itself. */
static pf_status run_halves(pf_ctx *c, const pf_window *s, pass p, pf_conv_call *call,
                            const result *r) {
  const int turned = is_turned(s, r);
  const int64_t n = pf_numel(r->t);
  call->out = turned ? c->host->scratch(c, (uint64_t)n * 2, 64) : PF_DATA(void, r->t);
  if (!call->out) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the result");
  PF_TRY(p(c, call));
  return turned ? transpose_all(c, call->out, PF_DATA(void, r->t), n / (r->pixels * r->ch),
                                r->pixels, r->ch, 2)
                : PF_OK;
}

static pf_status zeros(DLTensor *t, int32_t type) {
  int64_t n = pf_numel(t);
  if (n) memset(PF_DATA(void, t), 0, (size_t)(n * pf_type_size(type)));
  return PF_OK;
}

/* ---------------------------------------------------------------- inputs */
static pf_status filter_dims(pf_ctx *c, const int64_t *shape, int32_t ndim) {
  if (ndim == 4) return PF_OK;
  return PF_INVALID(c, "filter must be 4-dimensional: %s", pf_shape_text(shape, ndim).s);
}

/* The shape that an int32 (or int64) vector input names. */
static pf_status sizes_input(pf_ctx *c, int32_t in, const char *name, int64_t *shape) {
  int32_t n;
  PF_TRY(pf_in_vector(c, in, name, shape, &n));
  if (n != 4) return PF_INVALID(c, "%s must be a vector of 4 sizes, got %d", name, n);
  for (int i = 0; i < 4; i++)
    if (shape[i] < 0)
      return PF_INVALID(c, "%s must be non-negative, got %s", name, pf_shape_text(shape, 4).s);
  int64_t total;
  if (!pf_shape_numel(shape, 4, &total) || total > INT64_MAX / 64)
    return PF_INVALID(c, "%s %s has too many elements", name, pf_shape_text(shape, 4).s);
  return PF_OK;
}

static pf_status check_dy(pf_ctx *c, const pf_window *s, const pf_conv *g) {
  const DLTensor *dy = c->in[2];
  int64_t d[4] = {0};
  PF_TRY(pf_window_dims(c, s, dy->shape, dy->ndim, "out_backprop", d));
  if (d[0] == g->n && d[1] == g->oh && d[2] == g->ow && d[3] == g->oc) return PF_OK;
  int64_t want[4];
  pf_window_shape(s, g->n, g->oh, g->ow, g->oc, want);
  return PF_INVALID(c, "Size of out_backprop doesn't match computed: actual = %s, computed = %s",
                    PF_SHAPE(dy).s, pf_shape_text(want, 4).s);
}

/* ---------------------------------------------------------------- fused kernels */
/* A kernel that may be fused: plain ones have no fused_ops. */
typedef struct {
  pf_window w;       /* first: passes read it */
  pf_list fused_ops; /* attributes */
  double leakyrelu_alpha;
  int64_t num_args;
  pf_fused fused;           /* what init made of them */
  struct kept_filter *kept; /* a constant filter; or NULL */
} conv_state;

static pf_status fused_check(pf_ctx *c, const pf_fused *f, const result *r) {
  const DLTensor *bias = c->in[2], *add = c->in[2 + f->bias];
  if (f->bias && (bias->ndim != 1 || bias->shape[0] != r->ch))
    return PF_INVALID(c, "bias must have shape [%" PRId64 "], got %s", r->ch, PF_SHAPE(bias).s);
  if (f->add && !pf_same_shape(add, r->t))
    return PF_INVALID(c, "the tensor to add must have the result's shape %s, got %s",
                      PF_SHAPE(r->t).s, PF_SHAPE(add).s);
  return PF_OK;
}

/* Two parts of what follows the sum: the pass does e[0]; e[1] waits for the result's own layout. */
static pf_status fused_after(pf_ctx *c, const conv_state *s, pf_conv_call *call, result *r,
                             pf_epilogue e[2]) {
  const pf_fused *f = &s->fused;
  e[0] = (pf_epilogue){.act = f->act, .alpha = f->alpha};
  PF_TRY(fused_check(c, f, r));
  if (f->bias) PF_TRY(load(c, &s->w, c->in[2], 0, 0, 0, &e[0].col_bias));
  if (f->add) {
    PF_TRY(load(c, &s->w, c->in[2 + f->bias], 0, 0, 0, &e[0].side));
    if (is_turned(&s->w, r)) {
      e[1] = (pf_epilogue){.act = f->act, .alpha = f->alpha, .side = e[0].side};
      e[0] = (pf_epilogue){.col_bias = e[0].col_bias};
      r->after = &e[1];
    }
  }
  if (e[0].act || e[0].col_bias || e[0].side) call->after = &e[0];
  return PF_OK;
}

/* The result where there is nothing to sum. */
static pf_status nothing_summed(pf_ctx *c, const conv_state *s, const pf_conv_call *call,
                                result *r) {
  if (pf_numel(r->t) == 0 || !call->after) return zeros(r->t, s->w.T);
  PF_TRY(open_result(c, &s->w, r));
  int64_t rows = pf_numel(r->t) / r->ch;
  memset(r->at, 0, (size_t)(pf_numel(r->t) * (s->w.T == PF_FLOAT64 ? 8 : 4)));
  pf_epilogue e = *call->after;
  e.ld_side = r->ch;
  if (s->w.T == PF_FLOAT64) pf_epilogue_f64(&e, r->at, r->ch, rows, r->ch);
  else pf_epilogue_f32(&e, r->at, r->ch, rows, r->ch);
  return store(c, &s->w, r);
}

/* The signature of _FusedConv2D leaves the types of args open; what the pass reads is checked. */
static pf_status fused_init(pf_ctx *c, conv_state *s) {
  PF_TRY(pf_window_init(c, &s->w));
  if (!s->fused_ops.n && !s->num_args) return PF_OK;
  PF_TRY(pf_fused_parse(c, &s->fused_ops, s->leakyrelu_alpha, s->num_args, &s->fused));
  const int32_t last = 2 + s->fused.bias + s->fused.add;
  if (c->n_in < last)
    return PF_INVALID(c, "fused_ops reads %d args, the node has %d inputs behind input and filter",
                      last - 2, c->n_in - 2);
  for (int32_t i = 2; i < last; i++)
    if (c->in_type[i] != s->w.T)
      return PF_INVALID(c, "args[%d] is %s, expected %s, the type of input and filter: cast it",
                        i - 2, pf_type_name(c->in_type[i]), pf_type_name(s->w.T));
  return PF_OK;
}

#define OPTIONAL(S, name, kind) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, #name, kind, offsetof(S, name)})
#define WINDOW_ATTRS \
  PF_ATTR(pf_window, PF_ATTR_TYPE, T), \
  PF_ATTR(pf_window, PF_ATTR_LIST | PF_ATTR_INT, strides), \
  PF_ATTR(pf_window, PF_ATTR_STRING, padding), \
  OPTIONAL(pf_window, data_format, PF_ATTR_STRING), \
  OPTIONAL(pf_window, dilations, PF_ATTR_LIST | PF_ATTR_INT), \
  OPTIONAL(pf_window, explicit_paddings, PF_ATTR_LIST | PF_ATTR_INT)
#define FUSED_ATTRS \
  OPTIONAL(conv_state, fused_ops, PF_ATTR_LIST | PF_ATTR_STRING), \
  OPTIONAL(conv_state, leakyrelu_alpha, PF_ATTR_FLOAT), \
  OPTIONAL(conv_state, num_args, PF_ATTR_INT)
#define CONV_FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#endif
