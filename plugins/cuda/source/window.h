/* window.h - the geometry of sliding windows: padding, strides, dilations, data formats; for
 * convolution and pooling.
 *
 * Invariants
 *   1. A parsed window_state has strides, dilations and kernel sizes in [1, INT32_MAX].
 *   2. Dimensions are named n, h, w, c; data_format only says where they lie.
 */
#ifndef PF_CUDA_WINDOW_H
#define PF_CUDA_WINDOW_H
#include "launch.h"

enum { PAD_SAME, PAD_VALID, PAD_EXPLICIT };
/* attributes first: the host fills them */
typedef struct {
  pf_list strides, dilations, explicit_paddings, ksize;
  pf_str padding, data_format;
  int64_t sh, sw, dh, dw, kh, kw; /* init fills the rest */
  int64_t pt, pb, pl, pr;
  int32_t pad, nchw;
} window_state;

static inline pf_status window_padding(pf_ctx *c, window_state *s) {
  const int64_t *p = (const int64_t *)s->explicit_paddings.items;
  s->pad = str_is(s->padding, "SAME")    ? PAD_SAME
           : str_is(s->padding, "VALID") ? PAD_VALID
                                         : PAD_EXPLICIT;
  if (s->pad != PAD_EXPLICIT) return PF_OK;
  if (!str_is(s->padding, "EXPLICIT"))
    return INVALID(c, "padding must be SAME, VALID or EXPLICIT, got '%.*s'", (int)s->padding.len,
                   s->padding.data);
  if (s->explicit_paddings.n != 8)
    return INVALID(c, "explicit_paddings must have 8 elements, got %" PRId64,
                   s->explicit_paddings.n);
  for (int i = 0; i < 8; i++)
    if (p[i] < 0 || p[i] > INT32_MAX)
      return INVALID(c, "explicit_paddings must be nonnegative, got %" PRId64, p[i]);
  int h = s->nchw ? 2 : 1, ch = s->nchw ? 1 : 3;
  if (p[0] || p[1] || p[2 * ch] || p[2 * ch + 1])
    return INVALID(c, "explicit padding of the batch and depth dimensions must be zero");
  s->pt = p[2 * h], s->pb = p[2 * h + 1], s->pl = p[2 * h + 2], s->pr = p[2 * h + 3];
  return PF_OK;
}
/* the four numbers of a list attribute as n, h, w, c; absent: ones; those of n and c must be 1 */
static inline pf_status window_two(pf_ctx *c, const window_state *s, const pf_list *list,
                                   const char *name, int64_t *h, int64_t *w) {
  const int64_t *v = (const int64_t *)list->items;
  *h = *w = 1;
  if (list->n == 0) return PF_OK;
  if (list->n != 4) return INVALID(c, "%s must specify 4 dimensions, got %" PRId64, name, list->n);
  for (int i = 0; i < 4; i++)
    if (v[i] < 1 || v[i] > INT32_MAX)
      return INVALID(c, "%s must be positive and fit int32, got %" PRId64, name, v[i]);
  if (v[0] != 1 || v[s->nchw ? 1 : 3] != 1)
    return failf(c, PF_UNIMPLEMENTED, "%s in the batch and depth dimensions are not supported",
                 name);
  *h = v[s->nchw ? 2 : 1], *w = v[s->nchw ? 3 : 2];
  return PF_OK;
}
static inline pf_status window_init(pf_ctx *c, window_state *s) {
  s->nchw = str_is(s->data_format, "NCHW");
  if (!s->nchw && s->data_format.len && !str_is(s->data_format, "NHWC"))
    return INVALID(c, "data_format must be NHWC or NCHW, got '%.*s'", (int)s->data_format.len,
                   s->data_format.data);
  PF_TRY(window_two(c, s, &s->strides, "strides", &s->sh, &s->sw));
  PF_TRY(window_two(c, s, &s->dilations, "dilations", &s->dh, &s->dw));
  PF_TRY(window_two(c, s, &s->ksize, "ksize", &s->kh, &s->kw));
  return window_padding(c, s);
}

/* one spatial dimension: output size, padding before and after */
typedef struct { int64_t out, before, after; } extent;
static inline pf_status window_size(pf_ctx *c, const window_state *s, bool is_w, int64_t in,
                                    int64_t k, extent *e) {
  int64_t stride = is_w ? s->sw : s->sh, total = 0;
  if (k < 1 || k > INT32_MAX)
    return INVALID(c, "filter size must be positive and fit int32, got %" PRId64, k);
  int64_t span = (k - 1) * (is_w ? s->dw : s->dh) + 1;
  e->before = e->after = 0;
  if (s->pad == PAD_SAME) {
    e->out = in / stride + (in % stride != 0);
    total = most((e->out - 1) * stride + span - in, (int64_t)0);
    e->before = total / 2, e->after = total - total / 2;
    return PF_OK;
  }
  if (s->pad == PAD_EXPLICIT) e->before = is_w ? s->pl : s->pt, e->after = is_w ? s->pr : s->pb;
  int64_t left = in + e->before + e->after - span + stride;
  if (left < 0)
    return INVALID(c,
                   "Computed output size would be negative: %" PRId64 " [input_size: %" PRId64
                   ", effective_filter_size: %" PRId64 ", stride: %" PRId64 "]",
                   -((-left + stride - 1) / stride), in, span, stride);
  e->out = left / stride;
  return PF_OK;
}
/* the four sizes of a tensor as n, h, w, c, and back */
static inline pf_status window_dims(pf_ctx *c, const window_state *s, const int64_t *shape,
                                    int32_t ndim, const char *name, int64_t *nhwc) {
  if (ndim != 4) return INVALID(c, "%s must be 4-dimensional: %s", name, shape_of(shape, ndim).s);
  nhwc[0] = shape[0];
  nhwc[1] = shape[s->nchw ? 2 : 1];
  nhwc[2] = shape[s->nchw ? 3 : 2];
  nhwc[3] = shape[s->nchw ? 1 : 3];
  return PF_OK;
}
static inline void window_shape(const window_state *s, int64_t n, int64_t h, int64_t w, int64_t ch,
                                int64_t *shape) {
  shape[0] = n;
  shape[s->nchw ? 2 : 1] = h;
  shape[s->nchw ? 3 : 2] = w;
  shape[s->nchw ? 1 : 3] = ch;
}
/* a shape that a host vector of 4 sizes names */
static inline pf_status sizes_input(pf_ctx *c, int32_t in, const char *name, int64_t *shape) {
  int32_t n = 0;
  int64_t all[MAX_DIMS], total;
  PF_TRY(in_vector(c, in, name, all, &n));
  if (n != 4) return INVALID(c, "%s must be a vector of 4 sizes, got %d", name, n);
  for (int i = 0; i < 4; i++) {
    if (all[i] < 0) return INVALID(c, "%s must be non-negative, got %s", name, shape_of(all, 4).s);
    shape[i] = all[i];
  }
  if (!numel_ok(shape, 4, &total) || total > INT64_MAX / 64)
    return INVALID(c, "%s %s has too many elements", name, shape_of(shape, 4).s);
  return PF_OK;
}
#define WINDOW_ATTR(name, kind) ATTR(window_state, kind, name)
#define WINDOW_OPTIONAL(name, kind) ATTR_OPTIONAL(#name, window_state, kind, name)
#endif
