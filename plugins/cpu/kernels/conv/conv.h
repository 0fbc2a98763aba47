/* conv.h - one convolution's sizes, checked, and the three passes over it.
 *
 * In NHWC:  y[n, oh, ow, o] = sum over kh, kw, c of x[n, oh*sh + kh*dh - pt, ow*sw + kw*dw - pl, c]
 * * f[kh, kw, c, o]. Passes get compact NHWC float or double arrays; conv_layout.c turns NCHW and
 * halves into that and back.
 */
#ifndef PF_CPU_CONV_H
#define PF_CPU_CONV_H
#include "gemm/epilogue.h"
#include "base/isa.h"
#include "conv/window.h"

typedef struct {
  int64_t n, h, w, c, kh, kw, fc, oc, oh, ow; /* fc: input channels of one group */
  int64_t sh, sw, dh, dw, pt, pl, groups;
  /* where image i lies: volumes of `depth` images each; elements from image to image, and from
   * volume to volume */
  int64_t depth, x_image, x_volume, y_image, y_volume;
} pf_conv;

/* one pass: `in` is read in windows, `out` written */
typedef struct {
  const pf_conv *g;
  const void *x, *f, *dy; /* whatever the pass reads */
  void *out;
  int add;                  /* to what `out` holds; not depthwise */
  const void *packed;       /* forward: f as pf_conv_pack leaves it, or NULL */
  const float *fewer;       /* forward: f as pf_winograd_pack leaves it, or NULL */
  const pf_epilogue *after; /* forward: what follows the sum, or NULL */
} pf_conv_call;

pf_status PF_ISA_NAME(pf_conv_forward_f32)(pf_ctx *c, const pf_conv_call *call);
pf_status PF_ISA_NAME(pf_conv_forward_f64)(pf_ctx *c, const pf_conv_call *call);
/* Constant filters, packed for pf_conv_forward: elements it takes (0: that form does not pay). */
int64_t PF_ISA_NAME(pf_conv_packed_size_f32)(const pf_conv *g);
int64_t PF_ISA_NAME(pf_conv_packed_size_f64)(const pf_conv *g);
void PF_ISA_NAME(pf_conv_pack_f32)(const pf_conv *g, const void *f, void *packed);
void PF_ISA_NAME(pf_conv_pack_f64)(const pf_conv *g, const void *f, void *packed);
/* 3x3 filters by fewer products (conv_winograd.c): whether that pays, elements the filters take. */
int PF_ISA_NAME(pf_winograd_pays)(const pf_conv *g);
int64_t PF_ISA_NAME(pf_winograd_size)(const pf_conv *g);
void PF_ISA_NAME(pf_winograd_pack)(const pf_conv *g, const float *f, float *to);
pf_status PF_ISA_NAME(pf_winograd_forward)(pf_ctx *c, const pf_conv_call *call,
                                           const float *filters);
pf_status PF_ISA_NAME(pf_conv_input_f32)(pf_ctx *c, const pf_conv_call *call);
pf_status PF_ISA_NAME(pf_conv_input_f64)(pf_ctx *c, const pf_conv_call *call);
pf_status PF_ISA_NAME(pf_conv_filter_f32)(pf_ctx *c, const pf_conv_call *call);
pf_status PF_ISA_NAME(pf_conv_filter_f64)(pf_ctx *c, const pf_conv_call *call);

/* Passes over bfloat16 itself, with a bfloat16 result, for sizes that say so (conv_half.c). */
int PF_ISA_NAME(pf_conv_in_pairs)(int32_t type, const pf_conv *g);
int PF_ISA_NAME(pf_conv_input_in_pairs)(int32_t type, const pf_conv *g);
pf_status PF_ISA_NAME(pf_conv_forward_pairs)(pf_ctx *c, const pf_conv_call *call);
pf_status PF_ISA_NAME(pf_conv_input_pairs)(pf_ctx *c, const pf_conv_call *call);
pf_status PF_ISA_NAME(pf_conv_filter_pairs)(pf_ctx *c, const pf_conv_call *call);

pf_status PF_ISA_NAME(pf_depth_forward_f32)(pf_ctx *c, const pf_conv_call *call);
pf_status PF_ISA_NAME(pf_depth_forward_f64)(pf_ctx *c, const pf_conv_call *call);
pf_status PF_ISA_NAME(pf_depth_input_f32)(pf_ctx *c, const pf_conv_call *call);
pf_status PF_ISA_NAME(pf_depth_input_f64)(pf_ctx *c, const pf_conv_call *call);
pf_status PF_ISA_NAME(pf_depth_filter_f32)(pf_ctx *c, const pf_conv_call *call);
pf_status PF_ISA_NAME(pf_depth_filter_f64)(pf_ctx *c, const pf_conv_call *call);

/* Passes over NCHW of any float type as it lies, for 1x1 filters that say so (conv_planes.c). */
int PF_ISA_NAME(pf_conv_is_planes)(const pf_conv *g);
pf_status PF_ISA_NAME(pf_conv_forward_planes)(pf_ctx *c, const pf_conv_call *call, int32_t type);
pf_status PF_ISA_NAME(pf_conv_input_planes)(pf_ctx *c, const pf_conv_call *call, int32_t type);
pf_status PF_ISA_NAME(pf_conv_filter_planes)(pf_ctx *c, const pf_conv_call *call, int32_t type);
/* The same of NHWC. */
pf_status PF_ISA_NAME(pf_conv_filter_pixels)(pf_ctx *c, const pf_conv_call *call, int32_t type);

/* A whole call: state is a conv_state, dims the filter's [kh, kw, channels, multiplier]
 * (conv_depth_layout.c). */
pf_status PF_ISA_NAME(pf_depthwise)(pf_ctx *c, const void *state, const int64_t *dims,
                                    const void *f);

/* x (dy) and out are halves, the rest is float; PF_DECLINE: the float pass is the way. */
pf_status PF_ISA_NAME(pf_depth_forward_halves)(pf_ctx *c, const pf_conv_call *call, int32_t type);
pf_status PF_ISA_NAME(pf_depth_input_halves)(pf_ctx *c, const pf_conv_call *call, int32_t type);

PF_INLINE int64_t pf_floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* Columns [first, last) of output see the image only. */
PF_LOCAL void pf_inside_columns(const pf_conv *g, int64_t *first, int64_t *last) {
  const int64_t room = g->w + g->pl - (g->kw - 1) * g->dw;
  *first = PF_MIN((g->pl + g->sw - 1) / g->sw, g->ow);
  *last = room <= 0 ? *first : PF_MAX(PF_MIN((room - 1) / g->sw + 1, g->ow), *first);
}

/* Image i of x, of y; in elements. */
PF_LOCAL int64_t pf_conv_x_at(const pf_conv *g, int64_t i) {
  return i / g->depth * g->x_volume + i % g->depth * g->x_image;
}
PF_LOCAL int64_t pf_conv_y_at(const pf_conv *g, int64_t i) {
  return i / g->depth * g->y_volume + i % g->depth * g->y_image;
}
/* Images without gaps, in x and y. */
PF_LOCAL void pf_conv_pack_images(pf_conv *g) {
  g->depth = PF_MAX(g->n, 1);
  g->x_image = g->h * g->w * g->c;
  g->y_image = g->oh * g->ow * g->oc;
  g->x_volume = g->y_volume = 0;
}
PF_LOCAL int pf_conv_compact(const pf_conv *g) {
  return g->n == 1 || (g->depth >= g->n && g->x_image == g->h * g->w * g->c &&
                       g->y_image == g->oh * g->ow * g->oc);
}

/* NHWC, filters as wide as the image: the columns of a row lie as channels do, so they are that.
 * Without it the gradient to the input meets padding almost everywhere (text as an image of words
 * by embeddings). */
PF_LOCAL void pf_conv_fold_width(pf_conv *g) {
  if (g->w == 1 || g->kw != g->w || g->ow != 1 || g->pl || g->dw != 1 || g->groups != 1) return;
  g->c *= g->w, g->fc *= g->w;
  g->w = g->kw = g->sw = 1;
}

/* An image of one column under filters of one column, as one row: the same memory, and rows are
 * what the passes run along. */
PF_LOCAL void pf_conv_lay_down(pf_conv *g) {
  if (g->w != 1 || g->kw != 1 || g->ow != 1 || g->pl) return;
  g->w = g->h, g->kw = g->kh, g->ow = g->oh, g->sw = g->sh, g->dw = g->dh, g->pl = g->pt;
  g->h = g->kh = g->oh = g->sh = g->dh = 1, g->pt = 0;
}

/* Pixels of a row where `pixels` are shared out by rows: a multiple of `step`, about 64; fewer
 * where that makes less than `least` rows, and where rows come out more evenly for `workers`. */
PF_LOCAL int64_t pf_conv_row(int64_t pixels, int64_t step, int64_t least, int64_t workers) {
  const int64_t rows = PF_MAX((pixels + 63) / 64, PF_MIN(least, pixels / (2 * step)));
  const int64_t most = ((pixels + rows - 1) / rows + step - 1) / step * step;
  int64_t best = most, shortest = INT64_MAX;
  if (least < 2 || rows > 16 * workers) return most;
  for (int64_t w = most; w >= 2 * step; w -= step) {
    const int64_t full = pixels / w, rest = pixels % w;
    const int64_t longest = full % workers ? (full / workers + 1) * w : full / workers * w + rest;
    if (longest < shortest) shortest = longest, best = w;
  }
  return best;
}

/* 1x1 filters without stride or padding see no rows: the pixels of all images in rows of
 * pf_conv_row.  Returns the pixels of the last row; 0: g = *from, not that kind. */
PF_LOCAL int64_t pf_conv_flatten(const pf_conv *from, int64_t step, int64_t least, int64_t workers,
                                 pf_conv *g) {
  *g = *from;
  if (g->kh * g->kw != 1 || g->sh * g->sw != 1 || g->h != g->oh || g->w != g->ow || g->pt || g->pl)
    return 0;
  if (!pf_conv_compact(g)) return 0;
  const int64_t pixels = g->n * g->h * g->w;
  g->w = g->ow = pf_conv_row(pixels, step, least, workers);
  g->h = g->oh = (pixels + g->w - 1) / g->w;
  g->n = 1;
  pf_conv_pack_images(g);
  return pixels - (g->h - 1) * g->w;
}

/* Copies rows [h0, h0 + rows) and columns [w0, w0 + cols) of an image [h, w, bytes per pixel];
 * zeros outside. */
PF_LOCAL void pf_copy_strip(const char *x, int64_t h, int64_t w, int64_t pixel, int64_t h0,
                            int64_t rows, int64_t w0, int64_t cols, char *to) {
  int64_t left = PF_MIN(PF_MAX(-w0, 0), cols), from = PF_MAX(w0, 0);
  int64_t mid = PF_MAX(PF_MIN(w - from, cols - left), 0), right = cols - left - mid;
  for (int64_t r = h0; r < h0 + rows; r++, to += cols * pixel) {
    if (r < 0 || r >= h) {
      memset(to, 0, (size_t)(cols * pixel));
      continue;
    }
    memset(to, 0, (size_t)(left * pixel));
    if (mid) memcpy(to + left * pixel, x + (r * w + from) * pixel, (size_t)(mid * pixel));
    memset(to + (left + mid) * pixel, 0, (size_t)(right * pixel));
  }
}
#endif
