/* conv_layout.c - Conv2D, Conv2DBackpropInput, Conv2DBackpropFilter: checks, data formats and halves.
 *
 * Invariants
 *   1. A pass runs only on sizes that conv_sizes has checked; empty tensors never reach it.
 *   2. NCHW is transposed to NHWC and back; halves are summed as float and rounded once.
 * Threads: compute is concurrent; the passes use parallel_for.
 */
#include "conv.h"
#include "tile_types.h"

typedef pf_status (*pass)(pf_ctx *, const pf_conv_call *);
enum { FORWARD, INPUT, FILTER };

static pf_status conv_init(pf_ctx *c, void *state) { return pf_window_init(c, state); }

/* All sizes of the convolution of x [n, h, w, c] with f [kh, kw, fc, oc]. */
static pf_status conv_sizes(pf_ctx *c, const pf_window *s, const int64_t *x, const int64_t *f, pf_conv *g) {
  *g = (pf_conv){.n = x[0], .h = x[1], .w = x[2], .c = x[3], .kh = f[0], .kw = f[1], .fc = f[2], .oc = f[3],
                 .sh = s->sh, .sw = s->sw, .dh = s->dh, .dw = s->dw};
  int64_t room, rows, cols;
  if (g->fc < 1 || g->kh < 1 || g->kw < 1 || g->oc < 0)
    return PF_INVALID(c, "filter must not have zero elements (i.e. all dimensions must be non-zero): %s",
                      pf_shape_text(f, 4).s);
  if (g->c % g->fc)
    return PF_INVALID(c, "input depth must be evenly divisible by filter depth: %" PRId64 " vs %" PRId64, g->c, g->fc);
  g->groups = PF_MAX(g->c / g->fc, 1);
  if (g->oc % g->groups)
    return PF_INVALID(c, "output depth must be evenly divisible by number of groups: %" PRId64 " vs %" PRId64, g->oc,
                      g->groups);
  PF_TRY(pf_window_size(c, s, 0, g->h, g->kh, &g->oh, &g->pt));
  PF_TRY(pf_window_size(c, s, 1, g->w, g->kw, &g->ow, &g->pl));
  rows = g->h + g->pt * 2 + (g->kh + 1) * g->dh;
  cols = g->w + g->pl * 2 + (g->kw + 1) * g->dw;
  if (rows > INT32_MAX || cols > INT32_MAX || !pf_mul(rows, cols, &room) ||
      !pf_mul(room, 64 * PF_MAX(g->c, PF_MAX(g->oc, 1)), &room))
    return PF_INVALID(c, "convolution of %s with filter %s is too large", pf_shape_text(x, 4).s, pf_shape_text(f, 4).s);
  return PF_OK;
}

/* ---------------------------------------------------------------- layouts */
/* y[j][i] = x[i][j], for [rows, cols] */
#define TRANSPOSE(tag, T) \
  static void transpose_##tag(const T *x, int64_t rows, int64_t cols, T *y) { \
    int64_t i = 0, j; \
    for (; i + 4 <= rows; i += 4) { \
      for (j = 0; j + 4 <= cols; j += 4) transpose_4x4_##tag(x + i * cols + j, cols, y + j * rows + i, rows); \
      for (; j < cols; j++) for (int64_t r = i; r < i + 4; r++) y[j * rows + r] = x[r * cols + j]; \
    } \
    for (; i < rows; i++) for (j = 0; j < cols; j++) y[j * rows + i] = x[i * cols + j]; \
  }
TRANSPOSE(f32, float)
TRANSPOSE(f64, double)

typedef struct { const char *x; char *y; int64_t rows, cols, size; } planes;
static void transpose_images(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const planes *p = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    int64_t at = i * p->rows * p->cols * p->size;
    if (p->size == 4) transpose_f32((const float *)(const void *)(p->x + at), p->rows, p->cols, (float *)(void *)(p->y + at));
    else transpose_f64((const double *)(const void *)(p->x + at), p->rows, p->cols, (double *)(void *)(p->y + at));
  }
}
static pf_status transpose_all(pf_ctx *c, const void *x, void *y, int64_t n, int64_t rows, int64_t cols, int64_t size) {
  planes p = {x, y, rows, cols, size};
  return pf_parallel(c, n, pf_grain(rows * cols), transpose_images, &p);
}

/* An operand as compact NHWC float or double; `image` false for filters, which have one layout. */
static pf_status load(pf_ctx *c, const pf_window *s, const DLTensor *t, int64_t pixels, int64_t ch, int image,
                      const void **out) {
  int64_t n = pf_numel(t), size = s->T == PF_FLOAT64 ? 8 : 4;
  const void *x = PF_DATA(const void, t);
  if (pf_is_half(s->T)) {
    float *wide = c->host->scratch(c, (uint64_t)n * 4, 64);
    if (!wide) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a float copy");
    pf_half_to_float(s->T, x, wide, n);
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

/* Where the pass writes: the output itself, or scratch that `store` brings home. */
typedef struct { DLTensor *t; void *at; int64_t pixels, ch; int image; } result;
static pf_status open_result(pf_ctx *c, const pf_window *s, result *r) {
  int turned = r->image && s->nchw && r->pixels > 1 && r->ch > 1;
  r->at = PF_DATA(void, r->t);
  if (!turned && !pf_is_half(s->T)) return PF_OK;
  r->at = c->host->scratch(c, (uint64_t)(pf_numel(r->t) * (s->T == PF_FLOAT64 ? 8 : 4)), 64);
  return r->at ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the result");
}
static pf_status store(pf_ctx *c, const pf_window *s, const result *r) {
  void *home = PF_DATA(void, r->t), *x = r->at;
  int64_t n = pf_numel(r->t), size = s->T == PF_FLOAT64 ? 8 : 4;
  if (x == home) return PF_OK;
  if (r->image && s->nchw && r->pixels > 1 && r->ch > 1) {
    void *y = pf_is_half(s->T) ? c->host->scratch(c, (uint64_t)(n * 4), 64) : home;
    if (!y) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the result");
    PF_TRY(transpose_all(c, x, y, n / (r->pixels * r->ch), r->pixels, r->ch, size));
    x = y;
  }
  if (pf_is_half(s->T)) pf_float_to_half(s->T, x, home, n);
  return PF_OK;
}

static pf_status run_pass(pf_ctx *c, const pf_window *s, int which, pf_conv_call *call, result *r) {
  static const pass passes[2][3] = {
    {PF_ISA_NAME(pf_conv_forward_f32), PF_ISA_NAME(pf_conv_input_f32), PF_ISA_NAME(pf_conv_filter_f32)},
    {PF_ISA_NAME(pf_conv_forward_f64), PF_ISA_NAME(pf_conv_input_f64), PF_ISA_NAME(pf_conv_filter_f64)}};
  PF_TRY(open_result(c, s, r));
  call->out = r->at;
  PF_TRY(passes[s->T == PF_FLOAT64][which](c, call));
  return store(c, s, r);
}

static pf_status zeros(DLTensor *t, int32_t type) {
  int64_t n = pf_numel(t);
  if (n) memset(PF_DATA(void, t), 0, (size_t)(n * pf_type_size(type)));
  return PF_OK;
}

/* ---------------------------------------------------------------- kernels */
static pf_status filter_dims(pf_ctx *c, const int64_t *shape, int32_t ndim) {
  if (ndim == 4) return PF_OK;
  return PF_INVALID(c, "filter must be 4-dimensional: %s", pf_shape_text(shape, ndim).s);
}

static pf_status conv2d(pf_ctx *c, const void *state) {
  const pf_window *s = state;
  const DLTensor *x = c->in[0], *f = c->in[1];
  int64_t xd[4] = {0}, shape[4];
  pf_conv g;
  PF_TRY(pf_window_dims(c, s, x->shape, x->ndim, "input", xd));
  PF_TRY(filter_dims(c, f->shape, f->ndim));
  PF_TRY(conv_sizes(c, s, xd, f->shape, &g));
  pf_window_shape(s, g.n, g.oh, g.ow, g.oc, shape);
  result r = {.t = pf_output_checked(c, 0, shape, 4), .pixels = g.oh * g.ow, .ch = g.oc, .image = 1};
  PF_EXHAUSTED(r.t);
  if (pf_numel(r.t) == 0 || pf_numel(x) == 0) return zeros(r.t, s->T);
  pf_conv_call call = {.g = &g};
  PF_TRY(load(c, s, x, g.h * g.w, g.c, 1, &call.x));
  PF_TRY(load(c, s, f, 0, 0, 0, &call.f));
  return run_pass(c, s, FORWARD, &call, &r);
}

/* The shape that an int32 (or int64) vector input names. */
static pf_status sizes_input(pf_ctx *c, int32_t in, const char *name, int64_t *shape) {
  int32_t n;
  PF_TRY(pf_in_vector(c, in, name, shape, &n));
  if (n != 4) return PF_INVALID(c, "%s must be a vector of 4 sizes, got %d", name, n);
  for (int i = 0; i < 4; i++)
    if (shape[i] < 0) return PF_INVALID(c, "%s must be non-negative, got %s", name, pf_shape_text(shape, 4).s);
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
  return PF_INVALID(c, "Size of out_backprop doesn't match computed: actual = %s, computed = %s", PF_SHAPE(dy).s,
                    pf_shape_text(want, 4).s);
}

static pf_status conv2d_backprop_input(pf_ctx *c, const void *state) {
  const pf_window *s = state;
  const DLTensor *f = c->in[1], *dy = c->in[2];
  int64_t shape[PF_MAX_DIMS], xd[4] = {0};
  pf_conv g;
  PF_TRY(sizes_input(c, 0, "input_sizes", shape));
  PF_TRY(filter_dims(c, f->shape, f->ndim));
  PF_TRY(pf_window_dims(c, s, shape, 4, "input_sizes", xd));
  PF_TRY(conv_sizes(c, s, xd, f->shape, &g));
  PF_TRY(check_dy(c, s, &g));
  result r = {.t = pf_output_checked(c, 0, shape, 4), .pixels = g.h * g.w, .ch = g.c, .image = 1};
  PF_EXHAUSTED(r.t);
  if (pf_numel(r.t) == 0 || pf_numel(dy) == 0) return zeros(r.t, s->T);
  pf_conv_call call = {.g = &g};
  PF_TRY(load(c, s, dy, g.oh * g.ow, g.oc, 1, &call.dy));
  PF_TRY(load(c, s, f, 0, 0, 0, &call.f));
  return run_pass(c, s, INPUT, &call, &r);
}

static pf_status conv2d_backprop_filter(pf_ctx *c, const void *state) {
  const pf_window *s = state;
  const DLTensor *x = c->in[0], *dy = c->in[2];
  int64_t shape[PF_MAX_DIMS], xd[4] = {0};
  pf_conv g;
  PF_TRY(sizes_input(c, 1, "filter_sizes", shape));
  PF_TRY(pf_window_dims(c, s, x->shape, x->ndim, "input", xd));
  PF_TRY(conv_sizes(c, s, xd, shape, &g));
  PF_TRY(check_dy(c, s, &g));
  result r = {.t = pf_output_checked(c, 0, shape, 4)};
  PF_EXHAUSTED(r.t);
  if (pf_numel(r.t) == 0 || pf_numel(dy) == 0 || pf_numel(x) == 0) return zeros(r.t, s->T);
  pf_conv_call call = {.g = &g};
  PF_TRY(load(c, s, x, g.h * g.w, g.c, 1, &call.x));
  PF_TRY(load(c, s, dy, g.oh * g.ow, g.oc, 1, &call.dy));
  return run_pass(c, s, FILTER, &call, &r);
}

#define OPTIONAL(name, kind) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, #name, kind, offsetof(pf_window, name)})
#define ENTRY(op, fn) PF_CPU_FLAGS(op, "T=" PF_FLOATS, PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE, \
  .attrs = PF_ATTRS(PF_ATTR(pf_window, PF_ATTR_TYPE, T), PF_ATTR(pf_window, PF_ATTR_LIST | PF_ATTR_INT, strides), \
                    PF_ATTR(pf_window, PF_ATTR_STRING, padding), OPTIONAL(data_format, PF_ATTR_STRING), \
                    OPTIONAL(dilations, PF_ATTR_LIST | PF_ATTR_INT), \
                    OPTIONAL(explicit_paddings, PF_ATTR_LIST | PF_ATTR_INT)), \
  .state_size = sizeof(pf_window), .init = conv_init, .compute = fn)
const pf_kernel *const PF_ISA_NAME(conv_layout_kernels)[] = {
  ENTRY("Conv2D", conv2d),
  ENTRY("Conv2DBackpropInput", conv2d_backprop_input),
  ENTRY("Conv2DBackpropFilter", conv2d_backprop_filter),
  NULL
};
