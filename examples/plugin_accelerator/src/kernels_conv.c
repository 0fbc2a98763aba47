/* kernels_conv.c - Conv2D, its two gradients, MaxPool and MaxPoolGrad, of NHWC images.
 *
 * Plain loops over windows.  Sums are kept in doubles, in the order of the loops.
 */
#include "launch.h"
#include <math.h>

/* The attributes, as the host fills them in. */
typedef struct {
  pf_list strides, dilations, explicit_paddings, ksize;
  pf_str padding, data_format;
} window_state;

/* One call's sizes: an image [n, h, w, c], windows of [kh, kw], a result [n, oh, ow, oc].  fc:
 * channels that one filter reads; s: strides, d: dilations, p: padding above and to the left. */
typedef struct { int64_t pass, n, h, w, c, kh, kw, fc, oc, oh, ow, sh, sw, dh, dw, ph, pw; } sizes;
_Static_assert(sizeof(sizes) <= sizeof(int64_t) * FAKE_PARAMS, "sizes travel as parameters");
enum { FORWARD, TO_IMAGE, TO_FILTER };

static int is_text(pf_str s, const char *text) {
  return s.len == (int64_t)strlen(text) && !memcmp(s.data, text, (size_t)s.len);
}

/* In `init`: other layouts, and windows over images or channels, are left to other devices. */
static pf_status nhwc_windows(pf_ctx *c, void *state) {
  const window_state *s = state;
  const pf_list *lists[3] = {&s->strides, &s->dilations, &s->ksize};
  (void)c;
  if (s->data_format.len && !is_text(s->data_format, "NHWC")) return PF_DECLINE;
  for (int i = 0; i < 3; i++) {
    const int64_t *v = lists[i]->items;
    if (lists[i]->n && (lists[i]->n != 4 || v[0] != 1 || v[3] != 1 || v[1] < 1 || v[2] < 1))
      return PF_DECLINE;
  }
  return PF_OK;
}
static int64_t item(const pf_list *list, int32_t axis) {
  return list->n ? ((const int64_t *)list->items)[axis] : 1;
}

/* Along one axis (1 or 2): how many windows of `k` fit `n` points, and the padding before them. */
static int64_t windows(const window_state *s, int32_t axis, int64_t n, int64_t k, int64_t *before) {
  int64_t stride = item(&s->strides, axis), span = (k - 1) * item(&s->dilations, axis) + 1, after;
  *before = 0;
  if (is_text(s->padding, "SAME")) {
    int64_t count = (n + stride - 1) / stride, all = (count - 1) * stride + span - n;
    *before = all > 0 ? all / 2 : 0;
    return count;
  }
  after = 0;
  if (s->explicit_paddings.n == 8) {
    *before = ((const int64_t *)s->explicit_paddings.items)[2 * axis];
    after = ((const int64_t *)s->explicit_paddings.items)[2 * axis + 1];
  }
  n += *before + after - span;
  return n < 0 ? 0 : n / stride + 1;
}

static sizes sizes_of(const window_state *s, const int64_t *image, int64_t kh, int64_t kw) {
  sizes g = {.n = image[0],
             .h = image[1],
             .w = image[2],
             .c = image[3],
             .kh = kh,
             .kw = kw,
             .sh = item(&s->strides, 1),
             .sw = item(&s->strides, 2),
             .dh = item(&s->dilations, 1),
             .dw = item(&s->dilations, 2)};
  g.oh = windows(s, 1, g.h, kh, &g.ph);
  g.ow = windows(s, 2, g.w, kw, &g.pw);
  return g;
}

/* The image's pixel under tap (y, x) of window `at` (image, row, column in one number); -1: none.
 */
static int64_t pixel(const sizes *g, int64_t at, int64_t y, int64_t x) {
  int64_t row = at / g->ow % g->oh * g->sh - g->ph + y * g->dh;
  int64_t column = at % g->ow * g->sw - g->pw + x * g->dw;
  if (row < 0 || row >= g->h || column < 0 || column >= g->w) return -1;
  return (at / (g->oh * g->ow) * g->h + row) * g->w + column;
}

/* ---------------------------------------------------------------- convolutions */
/* One tap of one window.  x: (image, filter), (result, filter) or (image, result). */
static void run_tap(const fake_call *c, const sizes *g, int64_t from, int64_t tap, int64_t to,
                    double *sum) {
  const fake_array *a = &c->x[0], *b = &c->x[1];
  int64_t each = g->oc / (g->c / g->fc); /* results of one group of channels */
  for (int64_t o = 0; o < g->oc; o++)
    for (int64_t i = 0; i < g->fc; i++) {
      int64_t image = from * g->c + o / each * g->fc + i, result = to * g->oc + o;
      int64_t filter = (tap * g->fc + i) * g->oc + o;
      if (g->pass == FORWARD) sum[result] += get(a, image) * get(b, filter);
      else if (g->pass == TO_IMAGE) sum[image] += get(a, result) * get(b, filter);
      else sum[filter] += get(a, image) * get(b, result);
    }
}
static pf_status run_conv(fake_call *c) {
  sizes g;
  memcpy(&g, c->p.i, sizeof g);
  double *sum = calloc((size_t)c->y[0].n + 1, sizeof *sum);
  if (!sum) return PF_RESOURCE_EXHAUSTED;
  for (int64_t at = 0; at < g.n * g.oh * g.ow; at++)
    for (int64_t tap = 0; tap < g.kh * g.kw; tap++) {
      int64_t from = pixel(&g, at, tap / g.kw, tap % g.kw);
      if (from >= 0) run_tap(c, &g, from, tap, at, sum);
    }
  for (int64_t i = 0; i < c->y[0].n; i++) put(&c->y[0], i, sum[i]);
  free(sum);
  return PF_OK;
}
static pf_status launch_conv(pf_ctx *c, const sizes *g, const int64_t *shape, const DLTensor *a,
                             const DLTensor *b) {
  DLTensor *y = c->host->output(c, 0, shape, 4);
  fake_tensors t = {.x = {a, b}, .y = {y}, .n_x = 2, .n_y = 1};
  fake_params p = {.flops = 2.0 * (double)(g->n * g->oh * g->ow * g->oc) *
                            (double)(g->kh * g->kw * g->fc)};
  memcpy(p.i, g, sizeof *g);
  return y ? launch_on(c, run_conv, &p, &t) : PF_RESOURCE_EXHAUSTED;
}
/* Image [n, h, w, c] and filter [kh, kw, fc, oc]; dy, where there is one, must fit them. */
static pf_status conv_sizes(pf_ctx *c, const void *state, const int64_t *image,
                            const int64_t *filter, const DLTensor *dy, sizes *g) {
  *g = sizes_of(state, image, filter[0], filter[1]);
  g->fc = filter[2];
  g->oc = filter[3];
  if (g->fc < 1 || g->c % g->fc || g->oc % (g->c / g->fc))
    return failf(c, PF_INVALID_ARGUMENT, "%lld channels do not fit filters of %lld",
                 (long long)g->c, (long long)g->fc);
  int64_t want[4] = {g->n, g->oh, g->ow, g->oc};
  if (dy && (dy->ndim != 4 || memcmp(dy->shape, want, sizeof want)))
    return failf(c, PF_INVALID_ARGUMENT, "out_backprop must have shape [%lld,%lld,%lld,%lld]",
                 (long long)want[0], (long long)want[1], (long long)want[2], (long long)want[3]);
  return PF_OK;
}
static pf_status conv2d(pf_ctx *c, const void *s) {
  const DLTensor *x = c->in[0], *f = c->in[1];
  sizes g;
  if (x->ndim != 4 || f->ndim != 4)
    return failf(c, PF_INVALID_ARGUMENT, "input and filter must have 4 dimensions");
  pf_status status = conv_sizes(c, s, x->shape, f->shape, NULL, &g);
  g.pass = FORWARD;
  return status ? status : launch_conv(c, &g, (int64_t[]){g.n, g.oh, g.ow, g.oc}, x, f);
}
static pf_status conv2d_to_image(pf_ctx *c, const void *s) {
  const DLTensor *f = c->in[1], *dy = c->in[2];
  int64_t image[MAX_HOST_VALUES];
  sizes g;
  if (host_ints(c, 0, image) != 4 || f->ndim != 4)
    return failf(c, PF_INVALID_ARGUMENT, "input_sizes and filter must have 4 dimensions");
  pf_status status = conv_sizes(c, s, image, f->shape, dy, &g);
  g.pass = TO_IMAGE;
  return status ? status : launch_conv(c, &g, image, dy, f);
}
static pf_status conv2d_to_filter(pf_ctx *c, const void *s) {
  const DLTensor *x = c->in[0], *dy = c->in[2];
  int64_t filter[MAX_HOST_VALUES];
  sizes g;
  if (host_ints(c, 1, filter) != 4 || x->ndim != 4)
    return failf(c, PF_INVALID_ARGUMENT, "input and filter_sizes must have 4 dimensions");
  pf_status status = conv_sizes(c, s, x->shape, filter, dy, &g);
  g.pass = TO_FILTER;
  return status ? status : launch_conv(c, &g, filter, x, dy);
}

/* ---------------------------------------------------------------- MaxPool, MaxPoolGrad */
/* The element of the image that is the largest of window `at` in channel k: the first such. */
static int64_t largest(const fake_array *x, const sizes *g, int64_t at, int64_t k) {
  int64_t best = -1;
  for (int64_t tap = 0; tap < g->kh * g->kw; tap++) {
    int64_t from = pixel(g, at, tap / g->kw, tap % g->kw), i = from * g->c + k;
    if (from >= 0 && (best < 0 || isnan(get(x, i)) || get(x, i) > get(x, best))) best = i;
  }
  return best;
}
static pf_status run_pool(fake_call *c) {
  sizes g;
  memcpy(&g, c->p.i, sizeof g);
  if (g.pass == TO_IMAGE)
    for (int64_t i = 0; i < c->y[0].n; i++) put(&c->y[0], i, 0);
  for (int64_t i = 0; i < g.n * g.oh * g.ow * g.c; i++) {
    int64_t best = largest(&c->x[0], &g, i / g.c, i % g.c);
    if (g.pass == FORWARD) put(&c->y[0], i, best < 0 ? -INFINITY : get(&c->x[0], best));
    else if (best >= 0) put(&c->y[0], best, get(&c->y[0], best) + get(&c->x[1], i));
  }
  return PF_OK;
}
static pf_status launch_pool(pf_ctx *c, const void *state, int64_t pass, const DLTensor *dy) {
  const window_state *s = state;
  const DLTensor *x = c->in[0];
  if (x->ndim != 4) return failf(c, PF_INVALID_ARGUMENT, "the image must have 4 dimensions");
  sizes g = sizes_of(s, x->shape, item(&s->ksize, 1), item(&s->ksize, 2));
  g.pass = pass;
  int64_t pooled[4] = {g.n, g.oh, g.ow, g.c};
  if (dy && (dy->ndim != 4 || memcmp(dy->shape, pooled, sizeof pooled)))
    return failf(c, PF_INVALID_ARGUMENT, "grad does not fit the pooled image");
  DLTensor *y = c->host->output(c, 0, dy ? x->shape : pooled, 4);
  fake_tensors t = {.x = {x, dy}, .y = {y}, .n_x = dy ? 2 : 1, .n_y = 1};
  fake_params p = {.flops = (double)(g.n * g.oh * g.ow * g.c * g.kh * g.kw)};
  memcpy(p.i, &g, sizeof g);
  return y ? launch_on(c, run_pool, &p, &t) : PF_RESOURCE_EXHAUSTED;
}
static pf_status max_pool(pf_ctx *c, const void *s) { return launch_pool(c, s, FORWARD, NULL); }
static pf_status max_pool_grad(pf_ctx *c, const void *s) {
  return launch_pool(c, s, TO_IMAGE, c->in[2]);
}

#define LIST(field) OPTIONAL(field, PF_ATTR_LIST | PF_ATTR_INT)
#define OPTIONAL(field, kind) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, #field, kind, offsetof(window_state, field)})
#define WINDOWED(op, compute, ...) \
  FAKE(op, "T=" FAKE_FLOATS, compute, .state_size = sizeof(window_state), .init = nhwc_windows, \
       .attrs = TABLE(pf_attr, LIST(strides), LIST(dilations), LIST(explicit_paddings), \
                      LIST(ksize), OPTIONAL(padding, PF_ATTR_STRING), \
                      OPTIONAL(data_format, PF_ATTR_STRING)), __VA_ARGS__)
const pf_kernel *const conv_kernels[] = {
  WINDOWED("Conv2D", conv2d),
  WINDOWED("Conv2DBackpropInput", conv2d_to_image, ARGS(ON_HOST("input_sizes"))),
  WINDOWED("Conv2DBackpropFilter", conv2d_to_filter, ARGS(ON_HOST("filter_sizes"))),
  WINDOWED("MaxPool", max_pool),
  WINDOWED("MaxPoolGrad", max_pool_grad),
  NULL};
