/* scale_translate.c - ScaleAndTranslate and its gradient.
 *
 * Output pixel i of an axis lies at (i + 1/2 - translation) / scale of the input and is a weighted
 * mean of the input pixels within the kernel's radius, which grows by 1 / scale where the image
 * shrinks and `antialias` is set.  Pixels outside of the input are 0.
 *
 * Method: the rows first, into an image of the output's height, then the columns; the gradient goes
 * the same ways back.  The weights are computed as TF's kernel does, in float32.
 *
 * Invariants: a span [start, start + count) lies within the input; the weights of one axis and the
 * image between the passes hold at most MOST floats each.
 * Threads: one.
 */
#include <float.h>
#include "base/common.h"

static const int64_t MOST = (int64_t)1 << 27;
enum { LANCZOS1, LANCZOS3, LANCZOS5, GAUSSIAN, BOX, TRIANGLE, KEYS_CUBIC, MITCHELL_CUBIC, KERNELS };
typedef struct {
  pf_str kernel_type;
  int32_t antialias, kernel;
} scale_state;
typedef struct {
  int64_t in, out, span;
  int32_t *start, *count;
  float *weight;
} axis;
typedef struct {
  axis rows, columns;
  const DLTensor *x;
  int32_t type;
  float *between, *y;
  const float *dy;
  int64_t ch;
  int back;
} job;

static pf_status scale_init(pf_ctx *c, void *state) {
  static const char *const names[KERNELS] = {"lanczos1", "lanczos3", "lanczos5",  "gaussian",
                                             "box",      "triangle", "keyscubic", "mitchellcubic"};
  scale_state *s = state;
  for (s->kernel = 0; s->kernel < KERNELS; s->kernel++) {
    int64_t n = (int64_t)strlen(names[s->kernel]);
    if (s->kernel_type.len == n && !memcmp(s->kernel_type.data, names[s->kernel], (size_t)n))
      return PF_OK;
  }
  return PF_INVALID(c,
                    "Unrecognized kernel type: %.*s; there are lanczos1, lanczos3, lanczos5, "
                    "gaussian, box, triangle, keyscubic and mitchellcubic",
                    (int)PF_MIN(s->kernel_type.len, 100), s->kernel_type.data);
}

/* ---------------------------------------------------------------- weights */
static float radius_of(int32_t kernel) {
  static const float radius[KERNELS] = {1, 3, 5, 1.5f, 0.5f, 1, 2, 2};
  return radius[kernel];
}
static float lanczos(float radius, float x) {
  const float pi = 3.14159265359f;
  if (x > radius) return 0;
  if (x <= 1e-3f) return 1;
  return radius * sinf(pi * x) * sinf(pi * x / radius) / (pi * pi * x * x);
}
static float weight_at(int32_t kernel, float x) {
  float radius = radius_of(kernel);
  switch (kernel) {
    case GAUSSIAN: {
      float sigma = radius / 3;
      return x >= radius ? 0 : expf(-x * x / (2 * sigma * sigma));
    }
    case BOX: return x < 0.5f ? 1 : x == 0.5f ? 0.5f : 0;
    case TRIANGLE: return x < 1 ? 1 - x : 0;
    case KEYS_CUBIC: /* Keys (1981), a = -1/2 */
      if (x >= 2) return 0;
      if (x >= 1) return ((-0.5f * x + 2.5f) * x - 4) * x + 2;
      return (1.5f * x - 2.5f) * x * x + 1;
    case MITCHELL_CUBIC: /* Mitchell and Netravali (1988), b = c = 1/3 */
      if (x >= 2) return 0;
      if (x >= 1) return ((-7.0f / 18 * x + 2) * x - 10.0f / 3) * x + 16.0f / 9;
      return (7.0f / 6 * x - 2) * x * x + 8.0f / 9;
    default: return lanczos(radius, x);
  }
}
static int64_t clamped(float at, int64_t n) {
  return at <= 0 ? 0 : at >= (float)(n - 1) ? n - 1 : (int64_t)at;
}
/* where the pixels of an axis come from: its spans, weights normalised */
static void fill_spans(axis *a, int32_t kernel, float scale, float translation, int antialias) {
  float step = 1.0f / scale, shift = -step * translation;
  float widen = antialias ? PF_MAX(step, 1.0f) : 1.0f, reach = radius_of(kernel) * widen;
  for (int64_t i = 0; i < a->out; i++) {
    float at = ((float)i + 0.5f) * step + shift, sum = 0, *weight = a->weight + i * a->span;
    a->start[i] = a->count[i] = 0;
    if (!(at >= 0 && at <= (float)a->in)) continue;
    int64_t from = clamped(ceilf(at - reach - 0.5f), a->in);
    int64_t to = clamped(floorf(at + reach - 0.5f), a->in) + 1, n = PF_MIN(to - from, a->span);
    for (int64_t k = 0; k < n; k++) {
      weight[k] = weight_at(kernel, fabsf((float)(from + k) + 0.5f - at) * (1.0f / widen));
      sum += weight[k];
    }
    if (!(fabsf(sum) >= 1000 * FLT_MIN)) continue;
    for (int64_t k = 0; k < n; k++) weight[k] *= 1.0f / sum;
    a->start[i] = (int32_t)from;
    a->count[i] = (int32_t)PF_MAX(n, 0);
  }
}
static pf_status make_axis(pf_ctx *c, const scale_state *s, int32_t k, int32_t scales, axis *a) {
  float scale = PF_DATA(const float, c->in[scales])[k];
  float translation = PF_DATA(const float, c->in[scales + 1])[k];
  if (!(scale > 0) || !isfinite(scale) || !isfinite(translation))
    return PF_INVALID(c, "scale must be positive and finite and translation finite, got %g and %g",
                      scale, translation);
  float widen = s->antialias ? PF_MAX(1.0f / scale, 1.0f) : 1.0f;
  double span = 2 * ceil((double)radius_of(s->kernel) * (double)widen) + 1;
  a->span = span < (double)a->in ? (int64_t)span : a->in;
  if (a->out > MOST / a->span)
    return pf_failf(c, PF_RESOURCE_EXHAUSTED,
                    "%" PRId64 " pixels that each see %" PRId64
                    " others take more weights than %" PRId64,
                    a->out, a->span, MOST);
  a->weight = c->host->scratch(c, (uint64_t)(a->out * a->span) * 4, 64);
  a->start = c->host->scratch(c, (uint64_t)a->out * 8, 64);
  if (!a->weight || !a->start) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for weights");
  a->count = a->start + a->out;
  fill_spans(a, s->kernel, scale, translation, s->antialias);
  return PF_OK;
}

/* ---------------------------------------------------------------- the two passes */
static void add_scaled(float *y, const float *x, int64_t n, float w) {
  for (int64_t i = 0; i < n; i++) y[i] += w * x[i];
}
#define READ(num, T, tag) case num: \
    for (int64_t i = 0; i < n; i++) row[i] = (float)PF_DATA(const T, j->x)[at + i]; \
    break;
static void read_row(const job *j, int64_t at, int64_t n, float *row) {
  switch (j->type) {
    PF_EACH_FLOAT(READ)
    PF_EACH_INT(READ)
    default:
      for (int64_t i = 0; i < n; i++) {
        uint16_t v = PF_DATA(const uint16_t, j->x)[at + i];
        row[i] = j->type == PF_FLOAT16 ? pf_from_half(v) : pf_from_bf16(v);
      }
  }
}
/* one image: rows of the input into `between`, its columns into y */
static void resample(const job *j, int64_t image, float *between, float *line) {
  const axis *r = &j->rows, *q = &j->columns;
  int64_t width = q->in * j->ch, last = -1;
  memset(between, 0, (size_t)(r->out * width) * sizeof *between);
  for (int64_t i = 0; i < r->out; i++)
    for (int64_t k = 0; k < r->count[i]; k++) {
      int64_t row = image * r->in + r->start[i] + k;
      if (row != last) read_row(j, row * width, width, line);
      last = row;
      add_scaled(between + i * width, line, width, r->weight[i * r->span + k]);
    }
  float *y = j->y + image * r->out * q->out * j->ch;
  memset(y, 0, (size_t)(r->out * q->out * j->ch) * sizeof *y);
  for (int64_t i = 0; i < r->out; i++)
    for (int64_t o = 0; o < q->out; o++, y += j->ch)
      for (int64_t k = 0; k < q->count[o]; k++)
        add_scaled(y, between + i * width + (q->start[o] + k) * j->ch, j->ch,
                   q->weight[o * q->span + k]);
}
/* the other way: gradients of the columns into `between`, its rows into the image's gradient */
static void resample_back(const job *j, int64_t image, float *between) {
  const axis *r = &j->rows, *q = &j->columns;
  int64_t width = q->in * j->ch;
  const float *dy = j->dy + image * r->out * q->out * j->ch;
  float *dx = j->y + image * r->in * width;
  memset(between, 0, (size_t)(r->out * width) * sizeof *between);
  memset(dx, 0, (size_t)(r->in * width) * sizeof *dx);
  for (int64_t i = 0; i < r->out; i++)
    for (int64_t o = 0; o < q->out; o++, dy += j->ch)
      for (int64_t k = 0; k < q->count[o]; k++)
        add_scaled(between + i * width + (q->start[o] + k) * j->ch, dy, j->ch,
                   q->weight[o * q->span + k]);
  for (int64_t i = 0; i < r->out; i++)
    for (int64_t k = 0; k < r->count[i]; k++)
      add_scaled(dx + (r->start[i] + k) * width, between + i * width, width,
                 r->weight[i * r->span + k]);
}

/* ---------------------------------------------------------------- kernels */
static pf_status check_pairs(pf_ctx *c, int32_t scales) {
  for (int32_t i = scales; i < scales + 2; i++)
    if (c->in[i]->ndim != 1 || c->in[i]->shape[0] != 2)
      return PF_INVALID(c, "%s must have shape [2], not %s", i == scales ? "scale" : "translation",
                        PF_SHAPE(c->in[i]).s);
  return PF_OK;
}
static pf_status run(pf_ctx *c, const scale_state *s, job *j, int64_t images) {
  int64_t width = j->columns.in * j->ch;
  if (j->rows.out > MOST / PF_MAX(width, 1))
    return pf_failf(c, PF_RESOURCE_EXHAUSTED,
                    "an image of %" PRId64 " by %" PRId64
                    " is needed between the passes: more than %" PRId64 " floats",
                    j->rows.out, width, MOST);
  PF_TRY(make_axis(c, s, 0, 2, &j->rows));
  PF_TRY(make_axis(c, s, 1, 2, &j->columns));
  float *line = c->host->scratch(c, (uint64_t)width * 4, 64);
  j->between = c->host->scratch(c, (uint64_t)(j->rows.out * width) * 4, 64);
  if (!line || !j->between) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for an image");
  for (int64_t i = 0; i < images; i++) {
    if (j->back) resample_back(j, i, j->between);
    else resample(j, i, j->between, line);
  }
  return PF_OK;
}
static pf_status check_image(pf_ctx *c, const DLTensor *x) {
  if (x->ndim != 4) return PF_INVALID(c, "images must be 4-D, got shape %s", PF_SHAPE(x).s);
  if (x->shape[1] <= 0 || x->shape[2] <= 0 || x->shape[1] > INT32_MAX || x->shape[2] > INT32_MAX)
    return PF_INVALID(c, "image dimensions must be positive and fit int32, got %s", PF_SHAPE(x).s);
  return PF_OK;
}
static pf_status scale_and_translate(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t size[PF_MAX_DIMS];
  int32_t n = 0;
  PF_TRY(check_image(c, x));
  PF_TRY(check_pairs(c, 2));
  PF_TRY(pf_in_vector(c, 1, "size", size, &n));
  if (c->in[1]->ndim != 1 || n != 2 || size[0] <= 0 || size[1] <= 0)
    return PF_INVALID(c, "size must be two positive numbers, got shape %s", PF_SHAPE(c->in[1]).s);
  int64_t shape[4] = {x->shape[0], size[0], size[1], x->shape[3]};
  DLTensor *y = pf_output_checked(c, 0, shape, 4);
  if (!y) return PF_INVALID_ARGUMENT;
  job j = {.rows = {.in = x->shape[1], .out = size[0]},
           .columns = {.in = x->shape[2], .out = size[1]},
           .x = x,
           .type = c->in_type[0],
           .y = PF_DATA(float, y),
           .ch = x->shape[3]};
  return pf_numel(y) ? run(c, state, &j, x->shape[0]) : PF_OK;
}
static pf_status scale_and_translate_grad(pf_ctx *c, const void *state) {
  const DLTensor *dy = c->in[0], *x = c->in[1];
  PF_TRY(check_image(c, x));
  PF_TRY(check_image(c, dy));
  PF_TRY(check_pairs(c, 2));
  if (dy->shape[0] != x->shape[0] || dy->shape[3] != x->shape[3])
    return PF_INVALID(c, "the gradient %s and the images %s must have equal batches and channels",
                      PF_SHAPE(dy).s, PF_SHAPE(x).s);
  DLTensor *dx = pf_output_like(c, 0, x);
  PF_EXHAUSTED(dx);
  job j = {.rows = {.in = x->shape[1], .out = dy->shape[1]},
           .columns = {.in = x->shape[2], .out = dy->shape[2]},
           .dy = PF_DATA(const float, dy),
           .y = PF_DATA(float, dx),
           .ch = x->shape[3],
           .back = 1};
  return pf_numel(dx) ? run(c, state, &j, x->shape[0]) : PF_OK;
}

#define ENTRY(op, where, fn) PF_CPU_LONG(op, where, .compute = fn, .init = scale_init, \
  .state_size = sizeof(scale_state), \
  .attrs = PF_ATTRS(PF_ATTR(scale_state, PF_ATTR_STRING, kernel_type), \
                    PF_ATTR(scale_state, PF_ATTR_BOOL, antialias)))
const pf_kernel *const scale_translate_kernels[] = {
  ENTRY("ScaleAndTranslate", NULL, scale_and_translate),
  ENTRY("ScaleAndTranslateGrad", NULL, scale_and_translate_grad), NULL};
