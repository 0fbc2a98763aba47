/* conv_layout.c - Conv2D, DepthwiseConv2dNative and the gradients of both: checks, data formats and
 * halves.
 *
 * Invariants
 *   1. A pass runs only on sizes that conv_sizes has checked; empty tensors never reach it.
 *   2. A depthwise channel multiplier m becomes m copies of each channel, which have one filter
 *      each.
 *   3. NCHW is transposed to NHWC and back; halves are summed as float and rounded once.
 * Threads: compute is concurrent; the passes use parallel_for.
 */
#include "conv.h"
#include "tile_types.h"

typedef pf_status (*pass)(pf_ctx *, const pf_conv_call *);
enum { FORWARD, INPUT, FILTER, DEPTH_FORWARD, DEPTH_INPUT, DEPTH_FILTER };

static pf_status conv_init(pf_ctx *c, void *state) { return pf_window_init(c, state); }

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
  return PF_OK;
}

/* ---------------------------------------------------------------- layouts */
/* y[j][i] = x[i][j], for [rows, cols] */
#define TRANSPOSE(tag, T) \
  static void transpose_##tag(const T *x, int64_t rows, int64_t cols, T *y) { \
    int64_t i = 0, j; \
    for (; i + 4 <= rows; i += 4) { \
      for (j = 0; j + 4 <= cols; j += 4) \
        transpose_4x4_##tag(x + i * cols + j, cols, y + j * rows + i, rows); \
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
    if (p->size == 4)
      transpose_f32((const float *)(const void *)(p->x + at), p->rows, p->cols,
                    (float *)(void *)(p->y + at));
    else
      transpose_f64((const double *)(const void *)(p->x + at), p->rows, p->cols,
                    (double *)(void *)(p->y + at));
  }
}
static pf_status transpose_all(pf_ctx *c, const void *x, void *y, int64_t n, int64_t rows,
                               int64_t cols, int64_t size) {
  planes p = {x, y, rows, cols, size};
  return pf_parallel(c, n, pf_grain(rows * cols), transpose_images, &p);
}

/* An operand as compact NHWC float or double; `image` false for filters, which have one layout. */
static pf_status load(pf_ctx *c, const pf_window *s, const DLTensor *t, int64_t pixels, int64_t ch,
                      int image, const void **out) {
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
  result r = {
      .t = pf_output_checked(c, 0, shape, 4), .pixels = g.oh * g.ow, .ch = g.oc, .image = 1};
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

/* ---------------------------------------------------------------- depthwise */
/* Sizes of x [n, h, w, c] with filters [kh, kw, c, m]: as a convolution of c * m channels, one
 * filter each. */
static pf_status depth_sizes(pf_ctx *c, const pf_window *s, const int64_t *x, const int64_t *f,
                             pf_conv *g, int64_t *m) {
  int64_t flat[4] = {f[0], f[1], 1, 0}, wide[4] = {x[0], x[1], x[2], 0};
  *m = f[3];
  if (f[2] != x[3])
    return PF_INVALID(c, "input and filter must have the same depth: %" PRId64 " vs %" PRId64, x[3],
                      f[2]);
  if (!pf_mul(f[2], f[3], &wide[3]) || !pf_mul(PF_MAX(x[0], 1), PF_MAX(wide[3], 1), &flat[3]))
    return PF_INVALID(c, "filter %s is too large", pf_shape_text(f, 4).s);
  flat[3] = wide[3];                    /* conv_sizes sees one group per channel */
  if (*m < 1)
    return PF_INVALID(c, "the channel multiplier must be positive: filter %s",
                      pf_shape_text(f, 4).s);
  return conv_sizes(c, s, wide, flat, g);
}

/* y = each channel of x, m times in a row; or x as it is. */
static pf_status spread(pf_ctx *c, const pf_window *s, const void **x, int64_t pixels, int64_t ch,
                        int64_t m) {
  int64_t bytes;
  if (m == 1) return PF_OK;
  if (!pf_mul(pixels, ch * m * 8, &bytes)) return PF_INVALID(c, "tensors are too large");
  void *y = c->host->scratch(c, (uint64_t)bytes, 64);
  if (!y) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for repeated channels");
  for (int64_t i = 0; i < pixels * ch; i++)
    for (int64_t k = 0; k < m; k++) {
      if (s->T == PF_FLOAT64) ((double *)y)[i * m + k] = ((const double *)*x)[i];
      else ((float *)y)[i * m + k] = ((const float *)*x)[i];
    }
  *x = y;
  return PF_OK;
}

static pf_status depthwise(pf_ctx *c, const void *state) {
  const pf_window *s = state;
  const DLTensor *x = c->in[0], *f = c->in[1];
  int64_t xd[4] = {0}, shape[4], m;
  pf_conv g;
  PF_TRY(pf_window_dims(c, s, x->shape, x->ndim, "input", xd));
  PF_TRY(filter_dims(c, f->shape, f->ndim));
  PF_TRY(depth_sizes(c, s, xd, f->shape, &g, &m));
  pf_window_shape(s, g.n, g.oh, g.ow, g.c, shape);
  result r = {.t = pf_output_checked(c, 0, shape, 4), .pixels = g.oh * g.ow, .ch = g.c, .image = 1};
  PF_EXHAUSTED(r.t);
  if (pf_numel(r.t) == 0 || pf_numel(x) == 0) return zeros(r.t, s->T);
  pf_conv_call call = {.g = &g};
  PF_TRY(load(c, s, x, g.h * g.w, xd[3], 1, &call.x));
  PF_TRY(spread(c, s, &call.x, g.n * g.h * g.w, xd[3], m));
  PF_TRY(load(c, s, f, 0, 0, 0, &call.f));
  return run_pass(c, s, DEPTH_FORWARD, &call, &r);
}

/* Sums of m neighbouring channels, into the result. */
static pf_status gather_channels(pf_ctx *c, const pf_window *s, const void *x, int64_t m,
                                 result *r) {
  int64_t n = pf_numel(r->t);
  PF_TRY(open_result(c, s, r));
  for (int64_t i = 0; i < n; i++) {
    if (s->T == PF_FLOAT64) {
      double sum = 0;
      for (int64_t k = 0; k < m; k++) sum += ((const double *)x)[i * m + k];
      ((double *)r->at)[i] = sum;
    } else {
      float sum = 0;
      for (int64_t k = 0; k < m; k++) sum += ((const float *)x)[i * m + k];
      ((float *)r->at)[i] = sum;
    }
  }
  return store(c, s, r);
}

static pf_status depthwise_backprop_input(pf_ctx *c, const void *state) {
  const pf_window *s = state;
  const DLTensor *f = c->in[1], *dy = c->in[2];
  int64_t shape[PF_MAX_DIMS], xd[4] = {0}, m;
  pf_conv g;
  PF_TRY(sizes_input(c, 0, "input_sizes", shape));
  PF_TRY(filter_dims(c, f->shape, f->ndim));
  PF_TRY(pf_window_dims(c, s, shape, 4, "input_sizes", xd));
  PF_TRY(depth_sizes(c, s, xd, f->shape, &g, &m));
  PF_TRY(check_dy(c, s, &g));
  result r = {.t = pf_output_checked(c, 0, shape, 4), .pixels = g.h * g.w, .ch = xd[3], .image = 1};
  PF_EXHAUSTED(r.t);
  if (pf_numel(r.t) == 0 || pf_numel(dy) == 0) return zeros(r.t, s->T);
  pf_conv_call call = {.g = &g};
  PF_TRY(load(c, s, dy, g.oh * g.ow, g.oc, 1, &call.dy));
  PF_TRY(load(c, s, f, 0, 0, 0, &call.f));
  if (m == 1) return run_pass(c, s, DEPTH_INPUT, &call, &r);
  int64_t bytes;
  if (!pf_mul(g.n * g.h * g.w, g.c * 8, &bytes)) return PF_INVALID(c, "tensors are too large");
  call.out = c->host->scratch(c, (uint64_t)bytes, 64);
  if (!call.out) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for repeated channels");
  PF_TRY(s->T == PF_FLOAT64 ? PF_ISA_NAME(pf_depth_input_f64)(c, &call)
                            : PF_ISA_NAME(pf_depth_input_f32)(c, &call));
  return gather_channels(c, s, call.out, m, &r);
}

static pf_status depthwise_backprop_filter(pf_ctx *c, const void *state) {
  const pf_window *s = state;
  const DLTensor *x = c->in[0], *dy = c->in[2];
  int64_t shape[PF_MAX_DIMS], xd[4] = {0}, m;
  pf_conv g;
  PF_TRY(sizes_input(c, 1, "filter_sizes", shape));
  PF_TRY(pf_window_dims(c, s, x->shape, x->ndim, "input", xd));
  PF_TRY(depth_sizes(c, s, xd, shape, &g, &m));
  PF_TRY(check_dy(c, s, &g));
  result r = {.t = pf_output_checked(c, 0, shape, 4)};
  PF_EXHAUSTED(r.t);
  if (pf_numel(r.t) == 0 || pf_numel(dy) == 0 || pf_numel(x) == 0) return zeros(r.t, s->T);
  pf_conv_call call = {.g = &g};
  PF_TRY(load(c, s, x, g.h * g.w, xd[3], 1, &call.x));
  PF_TRY(spread(c, s, &call.x, g.n * g.h * g.w, xd[3], m));
  PF_TRY(load(c, s, dy, g.oh * g.ow, g.oc, 1, &call.dy));
  return run_pass(c, s, DEPTH_FILTER, &call, &r);
}

/* ---------------------------------------------------------------- costs
 * Every position of the output meets every element of the filter once, also in groups and
 * depthwise: two flops each.  Unknown sizes: no estimate. */
typedef struct { pf_list strides, dilations, paddings; pf_str padding; int32_t nchw; } cost_attrs;

static pf_status cost_attributes(pf_infer *f, cost_attrs *a) {
  const pf_host *h = pf_cpu_host;
  pf_str format = {0};
  *a = (cost_attrs){0};
  PF_TRY(h->infer_attr(f, "strides", PF_ATTR_LIST | PF_ATTR_INT, &a->strides));
  PF_TRY(h->infer_attr(f, "padding", PF_ATTR_STRING, &a->padding));
  (void)h->infer_attr(f, "dilations", PF_ATTR_LIST | PF_ATTR_INT, &a->dilations);
  (void)h->infer_attr(f, "explicit_paddings", PF_ATTR_LIST | PF_ATTR_INT, &a->paddings);
  (void)h->infer_attr(f, "data_format", PF_ATTR_STRING, &format);
  a->nchw = pf_str_is(format, "NCHW");
  return a->strides.n == 4 ? PF_OK : PF_UNKNOWN;
}

/* The elements of a 4-dimensional input; of a vector of sizes where `sizes`. */
static pf_status cost_elements(pf_infer *f, int32_t in, int sizes, double *n) {
  const pf_host *h = pf_cpu_host;
  const DLTensor *value = sizes ? h->infer_constant(f, in) : NULL;
  const int64_t *dims = NULL;
  int32_t nd = 0;
  if (!sizes) PF_TRY(h->infer_dims(f, in, &dims, &nd));
  if (sizes ? !value || value->ndim != 1 || value->shape[0] != 4 : nd != 4) return PF_UNKNOWN;
  *n = 1;
  for (int d = 0; d < 4; d++) {
    int64_t size = !sizes ? dims[d] : value->dtype.bits == 64 ? ((const int64_t *)value->data)[d]
                                                               : ((const int32_t *)value->data)[d];
    if (size < 0) return PF_UNKNOWN;
    *n *= (double)size;
  }
  return PF_OK;
}

/* Positions of windows along axis d (of x's shape) for a filter of k. */
static double cost_positions(const cost_attrs *a, int d, int64_t size, int64_t k) {
  const int64_t *dilation = a->dilations.items, *pads = a->paddings.items;
  int64_t stride = PF_MAX(((const int64_t *)a->strides.items)[d], 1);
  if (pf_str_is(a->padding, "SAME")) return (double)((size + stride - 1) / stride);
  if (pf_str_is(a->padding, "EXPLICIT") && a->paddings.n == 8)
    size += pads[2 * d] + pads[2 * d + 1];
  size -= (k - 1) * (a->dilations.n == 4 ? dilation[d] : 1);
  return size > 0 ? (double)((size + stride - 1) / stride) : 0;
}

static double cost_bytes(pf_infer *f, int32_t in, double elements) {
  int32_t type = pf_cpu_host->infer_type(f, in);
  return elements * (type == PF_FLOAT64 ? 8 : type == PF_FLOAT32 ? 4 : 2);
}

static pf_status forward_cost(pf_infer *f, int depthwise, double *flops, double *bytes) {
  const pf_host *h = pf_cpu_host;
  const int64_t *x, *w;
  int32_t nd;
  cost_attrs a;
  double nx, nw;
  if (!h) return PF_UNKNOWN;
  PF_TRY(cost_attributes(f, &a));
  PF_TRY(cost_elements(f, 0, 0, &nx));
  PF_TRY(cost_elements(f, 1, 0, &nw));
  PF_TRY(h->infer_dims(f, 0, &x, &nd));
  PF_TRY(h->infer_dims(f, 1, &w, &nd));
  int row = a.nchw ? 2 : 1;
  double at = (double)x[0] * cost_positions(&a, row, x[row], w[0]) *
              cost_positions(&a, row + 1, x[row + 1], w[1]);
  *flops = 2 * at * nw;
  *bytes = cost_bytes(f, 0, nx + nw + at * (double)(depthwise ? w[2] * w[3] : w[3]));
  return PF_OK;
}
static pf_status conv_cost(pf_infer *f, double *flops, double *bytes) {
  return forward_cost(f, 0, flops, bytes);
}
static pf_status depthwise_cost(pf_infer *f, double *flops, double *bytes) {
  return forward_cost(f, 1, flops, bytes);
}

/* sizes: the input that says the sizes of the result; given: the other one beside dy. */
static pf_status gradient_cost(pf_infer *f, int32_t sizes, int32_t given, double *flops,
                               double *bytes) {
  const pf_host *h = pf_cpu_host;
  const int64_t *dy;
  int32_t nd;
  cost_attrs a;
  double ndy, mine, result = 0;
  if (!h) return PF_UNKNOWN;
  PF_TRY(cost_attributes(f, &a));
  PF_TRY(cost_elements(f, 2, 0, &ndy));
  PF_TRY(cost_elements(f, given, 0, &mine));
  pf_status known = cost_elements(f, sizes, 1, &result);
  if (known != PF_OK && sizes == 1) return known;      /* the filter's sizes are the work */
  PF_TRY(h->infer_dims(f, 2, &dy, &nd));
  double channels = (double)PF_MAX(dy[a.nchw ? 1 : 3], 1);
  *flops = 2 * (ndy / channels) * (sizes == 1 ? result : mine);
  *bytes = cost_bytes(f, 2, ndy + mine + result);
  return PF_OK;
}
static pf_status input_cost(pf_infer *f, double *flops, double *bytes) {
  return gradient_cost(f, 0, 1, flops, bytes);
}
static pf_status filter_cost(pf_infer *f, double *flops, double *bytes) {
  return gradient_cost(f, 1, 0, flops, bytes);
}

#define OPTIONAL(name, kind) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, #name, kind, offsetof(pf_window, name)})
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#define ENTRY(op, fn, cost_) PF_CPU_FLAGS(op, "T=" PF_FLOATS, FLAGS, \
  .attrs = PF_ATTRS(PF_ATTR(pf_window, PF_ATTR_TYPE, T), \
                    PF_ATTR(pf_window, PF_ATTR_LIST | PF_ATTR_INT, strides), \
                    PF_ATTR(pf_window, PF_ATTR_STRING, padding), \
                    OPTIONAL(data_format, PF_ATTR_STRING), \
                    OPTIONAL(dilations, PF_ATTR_LIST | PF_ATTR_INT), \
                    OPTIONAL(explicit_paddings, PF_ATTR_LIST | PF_ATTR_INT)), \
  .state_size = sizeof(pf_window), .init = conv_init, .compute = fn, .cost = cost_)
const pf_kernel *const PF_ISA_NAME(conv_layout_kernels)[] = {
  ENTRY("Conv2D", conv2d, conv_cost),
  ENTRY("Conv2DBackpropInput", conv2d_backprop_input, input_cost),
  ENTRY("Conv2DBackpropFilter", conv2d_backprop_filter, filter_cost),
  ENTRY("DepthwiseConv2dNative", depthwise, depthwise_cost),
  ENTRY("DepthwiseConv2dNativeBackpropInput", depthwise_backprop_input, input_cost),
  ENTRY("DepthwiseConv2dNativeBackpropFilter", depthwise_backprop_filter, filter_cost),
  NULL
};
