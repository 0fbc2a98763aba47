/* window.h - the geometry of sliding windows: padding, strides, dilations, data formats; for
 * convolution and pooling.
 *
 * Invariants
 *   1. A parsed pf_window has strides, dilations >= 1 and, after pf_window_size, sizes whose
 *      products fit int64.
 *   2. Dimensions are named n, h, w, c; data_format only says where they lie.
 * Threads: pure.
 */
#ifndef PF_CPU_WINDOW_H
#define PF_CPU_WINDOW_H
#include "base/common.h"

enum { PF_PAD_SAME, PF_PAD_VALID, PF_PAD_EXPLICIT };

/* attributes first: the host fills them */
typedef struct {
  int32_t T, nchw;
  pf_list strides, dilations, explicit_paddings, ksize;
  pf_str padding, data_format;
  int64_t sh, sw, sc, dh, dw, kh, kw, kc; /* init fills the rest; c: pooling's, over depth */
  int64_t pt, pb, pl, pr;
  int32_t pad;
} pf_window;

PF_LOCAL int pf_str_is(pf_str s, const char *text) {
  return s.len == (int64_t)strlen(text) && !memcmp(s.data, text, (size_t)s.len);
}

PF_LOCAL pf_status pf_window_padding(pf_ctx *c, pf_window *s) {
  const int64_t *p = s->explicit_paddings.items;
  if (pf_str_is(s->padding, "SAME")) s->pad = PF_PAD_SAME;
  else if (pf_str_is(s->padding, "VALID")) s->pad = PF_PAD_VALID;
  else if (pf_str_is(s->padding, "EXPLICIT")) s->pad = PF_PAD_EXPLICIT;
  else
    return PF_INVALID(c, "padding must be SAME, VALID or EXPLICIT, got '%.*s'", (int)s->padding.len,
                      s->padding.data);
  if (s->pad != PF_PAD_EXPLICIT) return PF_OK;
  if (s->explicit_paddings.n != 8)
    return PF_INVALID(c, "explicit_paddings must have 8 elements, got %" PRId64,
                      s->explicit_paddings.n);
  for (int i = 0; i < 8; i++)
    if (p[i] < 0 || p[i] > INT32_MAX)
      return PF_INVALID(c, "explicit_paddings must be nonnegative, got %" PRId64, p[i]);
  int h = s->nchw ? 2 : 1, ch = s->nchw ? 1 : 3;
  if (p[0] || p[1] || p[2 * ch] || p[2 * ch + 1])
    return PF_INVALID(c, "explicit padding of the batch and depth dimensions must be zero");
  s->pt = p[2 * h], s->pb = p[2 * h + 1], s->pl = p[2 * h + 2], s->pr = p[2 * h + 3];
  return PF_OK;
}

/* The four numbers of a list attribute as n, h, w, c; each in [1, INT32_MAX].  Absent: ones. */
PF_LOCAL pf_status pf_window_four(pf_ctx *c, const pf_window *s, const pf_list *list,
                                  const char *name, int64_t *nhwc) {
  static const int order[2][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}};
  const int64_t *v = list->items;
  for (int i = 0; i < 4; i++) nhwc[i] = 1;
  if (list->n == 0) return PF_OK;
  if (list->n != 4)
    return PF_INVALID(c, "%s must specify 4 dimensions, got %" PRId64, name, list->n);
  for (int i = 0; i < 4; i++) {
    nhwc[i] = v[order[s->nchw][i]];
    if (nhwc[i] < 1 || nhwc[i] > INT32_MAX)
      return PF_INVALID(c, "%s must be positive and fit int32, got %" PRId64, name, nhwc[i]);
  }
  return PF_OK;
}

PF_LOCAL pf_status pf_window_init(pf_ctx *c, pf_window *s) {
  int64_t four[4];
  if (s->data_format.len == 0 || pf_str_is(s->data_format, "NHWC")) s->nchw = 0;
  else if (pf_str_is(s->data_format, "NCHW")) s->nchw = 1;
  else
    return PF_INVALID(c, "data_format must be NHWC or NCHW on CPU, got '%.*s'",
                      (int)s->data_format.len, s->data_format.data);
  PF_TRY(pf_window_four(c, s, &s->strides, "strides", four));
  if (four[0] != 1 || (four[3] != 1 && s->ksize.n == 0))
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "strides in the batch and depth dimensions are not supported");
  s->sh = four[1], s->sw = four[2], s->sc = four[3];
  PF_TRY(pf_window_four(c, s, &s->dilations, "dilations", four));
  if (four[0] != 1 || four[3] != 1)
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "dilations in the batch and depth dimensions are not supported");
  s->dh = four[1], s->dw = four[2];
  PF_TRY(pf_window_four(c, s, &s->ksize, "ksize", four));
  if (four[0] != 1)
    return pf_failf(c, PF_UNIMPLEMENTED, "Pooling is not yet supported on the batch dimension.");
  s->kh = four[1], s->kw = four[2], s->kc = four[3];
  return pf_window_padding(c, s);
}

/* One spatial dimension: output size and padding before. */
PF_LOCAL pf_status pf_window_size(pf_ctx *c, const pf_window *s, int is_w, int64_t in, int64_t k,
                                  int64_t *out, int64_t *before) {
  int64_t stride = is_w ? s->sw : s->sh, span, total = 0;
  if (k < 1 || k > INT32_MAX)
    return PF_INVALID(c, "filter size must be positive and fit int32, got %" PRId64, k);
  span = (k - 1) * (is_w ? s->dw : s->dh) + 1;
  *before = 0;
  if (s->pad == PF_PAD_SAME) {
    *out = in / stride + (in % stride != 0);
    total = PF_MAX((*out - 1) * stride + span - in, 0);
    *before = total / 2;
    return PF_OK;
  }
  if (s->pad == PF_PAD_EXPLICIT) {
    *before = is_w ? s->pl : s->pt;
    total = *before + (is_w ? s->pr : s->pb);
  }
  int64_t room = in + total - span + stride;
  if (room < 0)
    return PF_INVALID(c,
                      "Computed output size would be negative: %" PRId64 " [input_size: %" PRId64
                      ", effective_filter_size: %" PRId64 ", stride: %" PRId64 "]",
                      -((-room + stride - 1) / stride), in, span, stride);
  *out = room / stride;
  return PF_OK;
}

/* The four sizes of a tensor as n, h, w, c. */
PF_LOCAL pf_status pf_window_dims(pf_ctx *c, const pf_window *s, const int64_t *shape, int32_t ndim,
                                  const char *name, int64_t *nhwc) {
  if (ndim != 4)
    return PF_INVALID(c, "%s must be 4-dimensional: %s", name, pf_shape_text(shape, ndim).s);
  nhwc[0] = shape[0];
  nhwc[1] = shape[s->nchw ? 2 : 1];
  nhwc[2] = shape[s->nchw ? 3 : 2];
  nhwc[3] = shape[s->nchw ? 1 : 3];
  return PF_OK;
}
PF_LOCAL void pf_window_shape(const pf_window *s, int64_t n, int64_t h, int64_t w, int64_t ch,
                              int64_t *shape) {
  shape[0] = n;
  shape[s->nchw ? 2 : 1] = h;
  shape[s->nchw ? 3 : 2] = w;
  shape[s->nchw ? 1 : 3] = ch;
}
#endif
