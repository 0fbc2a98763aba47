/* conv.cu - Conv2D, DepthwiseConv2dNative and their gradients: sizes, checks, and plain kernels.
 *
 * In NHWC:  y[n, oh, ow, o] = sum over kh, kw, c of x[n, oh sh + kh dh - pt, ow sw + kw dw - pl, c]
 * f[kh, kw, c, o]. A depthwise convolution with filter [kh, kw, c, m] is a grouped one: c groups of
 * one input channel and m outputs, and its filter has the same memory as [kh, kw, 1, c m].  It
 * always runs here, in plain kernels, one sum per result; other convolutions go to cuDNN
 * (conv_cudnn.cu) and come here where cuDNN is absent or declines.
 *
 * Invariants
 *   1. Every result is one sum in an order fixed by the sizes: equal inputs give equal bits.
 *   2. Halves are summed as float and rounded once.
 */
#include "conv.h"

namespace {

PF_BOTH int64_t image_at(const conv &g, int64_t n, int64_t y, int64_t x, int64_t c, int64_t h,
                         int64_t w, int64_t channels) {
  return g.nchw ? ((n * channels + c) * h + y) * w + x : ((n * h + y) * w + x) * channels + c;
}
struct image_spot { int64_t n, y, x, c; };
PF_BOTH image_spot image_spot_of(const conv &g, int64_t i, int64_t h, int64_t w, int64_t channels) {
  image_spot s;
  if (g.nchw) {
    s.x = i % w, i /= w, s.y = i % h, i /= h;
    s.c = i % channels, s.n = i / channels;
  } else {
    s.c = i % channels, i /= channels;
    s.x = i % w, i /= w, s.y = i % h, s.n = i / h;
  }
  return s;
}

/* ---------------------------------------------------------------- plain kernels */
template <class T> struct forward_each {
  conv g;
  const T *x, *f;
  T *y;
  PF_BOTH void operator()(int64_t i) const {
    image_spot s = image_spot_of(g, i, g.oh, g.ow, g.oc);
    int64_t first = s.c / (g.oc / g.groups) * g.fc;
    wide<T> sum = 0;
    for (int64_t kh = 0; kh < g.kh; kh++) {
      int64_t iy = s.y * g.sh + kh * g.dh - g.pt;
      if (iy < 0 || iy >= g.h) continue;
      for (int64_t kw = 0; kw < g.kw; kw++) {
        int64_t ix = s.x * g.sw + kw * g.dw - g.pl;
        if (ix < 0 || ix >= g.w) continue;
        for (int64_t c = 0; c < g.fc; c++)
          sum += up(x[image_at(g, s.n, iy, ix, first + c, g.h, g.w, g.c)]) *
                 up(f[((kh * g.kw + kw) * g.fc + c) * g.oc + s.c]);
      }
    }
    y[i] = down<T>(sum);
  }
};
template <class T> struct input_each {
  conv g;
  const T *f, *dy;
  T *dx;
  PF_BOTH void operator()(int64_t i) const {
    image_spot s = image_spot_of(g, i, g.h, g.w, g.c);
    int64_t per = g.oc / g.groups, first = s.c / g.fc * per, c = s.c % g.fc;
    wide<T> sum = 0;
    for (int64_t kh = 0; kh < g.kh; kh++) {
      int64_t oy = s.y + g.pt - kh * g.dh;
      if (oy < 0 || oy % g.sh || oy / g.sh >= g.oh) continue;
      for (int64_t kw = 0; kw < g.kw; kw++) {
        int64_t ox = s.x + g.pl - kw * g.dw;
        if (ox < 0 || ox % g.sw || ox / g.sw >= g.ow) continue;
        for (int64_t o = first; o < first + per; o++)
          sum += up(dy[image_at(g, s.n, oy / g.sh, ox / g.sw, o, g.oh, g.ow, g.oc)]) *
                 up(f[((kh * g.kw + kw) * g.fc + c) * g.oc + o]);
      }
    }
    dx[i] = down<T>(sum);
  }
};
/* a row is one element of the filter, a column one output position of one image */
template <class T> struct filter_reducer {
  conv g;
  const T *x, *dy;
  T *df;
  PF_BOTH wide<T> zero() const { return 0; }
  PF_BOTH wide<T> join(wide<T> a, wide<T> b) const { return a + b; }
  PF_BOTH wide<T> add(wide<T> a, int64_t r, int64_t k) const {
    int64_t o = r % g.oc, c = r / g.oc % g.fc, tap = r / g.oc / g.fc, kh = tap / g.kw,
            kw = tap % g.kw;
    int64_t ox = k % g.ow, oy = k / g.ow % g.oh, n = k / g.ow / g.oh;
    int64_t iy = oy * g.sh + kh * g.dh - g.pt, ix = ox * g.sw + kw * g.dw - g.pl;
    if (iy < 0 || iy >= g.h || ix < 0 || ix >= g.w) return a;
    int64_t from = o / (g.oc / g.groups) * g.fc + c;
    return a + up(x[image_at(g, n, iy, ix, from, g.h, g.w, g.c)]) *
                   up(dy[image_at(g, n, oy, ox, o, g.oh, g.ow, g.oc)]);
  }
  PF_BOTH void finish(int64_t r, wide<T> a) const { df[r] = down<T>(a); }
};
} // namespace

pf_status conv_plain(pf_ctx *c, const conv *g, const conv_data *d) {
  return with_float(g->type, [&](auto t) -> pf_status {
    typedef typename decltype(t)::type T;
    const T *x = (const T *)d->x, *f = (const T *)d->f, *dy = (const T *)d->dy;
    if (g->pass == CONV_FORWARD)
      return each(c, g->n * g->oh * g->ow * g->oc, forward_each<T>{*g, x, f, (T *)d->out});
    if (g->pass == CONV_INPUT)
      return each(c, g->n * g->h * g->w * g->c, input_each<T>{*g, f, dy, (T *)d->out});
    return reduce(c, g->kh * g->kw * g->fc * g->oc, g->n * g->oh * g->ow,
                  filter_reducer<T>{*g, x, dy, (T *)d->out},
                  g->nchw ? ROWS_APART : ROWS_SIDE_BY_SIDE);
  });
}

namespace {
/* ---------------------------------------------------------------- sizes */
static pf_status conv_init(pf_ctx *c, void *state) { return window_init(c, (window_state *)state); }

/* all sizes of the convolution of x [n, h, w, c] with f: [kh, kw, fc, oc], or depthwise [kh, kw, c,
 * m] */
static pf_status conv_sizes(pf_ctx *c, const window_state *s, const int64_t *x, const int64_t *f,
                            bool depthwise, conv *g) {
  extent eh, ew;
  int64_t area, all;
  *g = conv{.n = x[0],
            .h = x[1],
            .w = x[2],
            .c = x[3],
            .kh = f[0],
            .kw = f[1],
            .fc = depthwise ? 1 : f[2],
            .oc = f[3],
            .oh = 0,
            .ow = 0,
            .sh = s->sh,
            .sw = s->sw,
            .dh = s->dh,
            .dw = s->dw,
            .pt = 0,
            .pb = 0,
            .pl = 0,
            .pr = 0,
            .groups = 1,
            .nchw = s->nchw,
            .type = 0,
            .pass = 0,
            .zero = 0};
  if (g->kh < 1 || g->kw < 1 || f[2] < 1 || f[3] < (depthwise ? 1 : 0))
    return INVALID(c,
                   "filter must not have zero elements (i.e. all dimensions must be non-zero): %s",
                   shape_of(f, 4).s);
  if (depthwise) {
    if (f[2] != x[3])
      return INVALID(c, "input and filter must have the same depth: %" PRId64 " vs %" PRId64, x[3],
                     f[2]);
    if (!mul_ok(f[2], f[3], &g->oc)) return INVALID(c, "filter %s is too large", shape_of(f, 4).s);
    g->groups = most(g->c, (int64_t)1);
  } else {
    if (g->c % g->fc)
      return INVALID(
          c, "input depth must be evenly divisible by filter depth: %" PRId64 " vs %" PRId64, g->c,
          g->fc);
    g->groups = most(g->c / g->fc, (int64_t)1);
    if (g->oc % g->groups)
      return INVALID(
          c, "output depth must be evenly divisible by number of groups: %" PRId64 " vs %" PRId64,
          g->oc, g->groups);
  }
  PF_TRY(window_size(c, s, false, g->h, g->kh, &eh));
  PF_TRY(window_size(c, s, true, g->w, g->kw, &ew));
  g->oh = eh.out, g->pt = eh.before, g->pb = eh.after;
  g->ow = ew.out, g->pl = ew.before, g->pr = ew.after;
  int64_t rows = g->h + g->pt + g->pb + g->kh * g->dh, cols = g->w + g->pl + g->pr + g->kw * g->dw;
  if (rows > INT32_MAX || cols > INT32_MAX || !mul_ok(rows, cols, &area) ||
      !mul_ok(area, 64 * most(most(g->c, g->oc), (int64_t)1), &all) ||
      !mul_ok(all, most(g->n, (int64_t)1), &all))
    return INVALID(c, "convolution of %s with filter %s is too large", shape_of(x, 4).s,
                   shape_of(f, 4).s);
  return PF_OK;
}
static pf_status filter_dims(pf_ctx *c, const DLTensor *f) {
  return f->ndim == 4 ? PF_OK : INVALID(c, "filter must be 4-dimensional: %s", SHAPE(f));
}
static pf_status check_dy(pf_ctx *c, const window_state *s, const conv *g) {
  const DLTensor *dy = c->in[2];
  int64_t d[4] = {0}, want[4];
  PF_TRY(window_dims(c, s, dy->shape, dy->ndim, "out_backprop", d));
  if (d[0] == g->n && d[1] == g->oh && d[2] == g->ow && d[3] == g->oc) return PF_OK;
  window_shape(s, g->n, g->oh, g->ow, g->oc, want);
  return INVALID(c, "Size of out_backprop doesn't match computed: actual = %s, computed = %s",
                 SHAPE(dy), shape_of(want, 4).s);
}

/* ---------------------------------------------------------------- kernels */
static pf_status run_conv(pf_ctx *c, conv *g, int pass, int32_t type, bool depthwise,
                          const conv_data *d) {
  g->pass = pass, g->type = type;
  pf_status s = depthwise ? PF_DECLINE : conv_cudnn(c, g, d);
  return s == PF_DECLINE ? conv_plain(c, g, d) : s;
}
template <bool depthwise> pf_status forward(pf_ctx *c, const void *state) {
  const window_state *s = (const window_state *)state;
  const DLTensor *x = c->in[0], *f = c->in[1];
  int64_t xd[4] = {0}, shape[4];
  conv g;
  PF_TRY(window_dims(c, s, x->shape, x->ndim, "input", xd));
  PF_TRY(filter_dims(c, f));
  PF_TRY(conv_sizes(c, s, xd, f->shape, depthwise, &g));
  window_shape(s, g.n, g.oh, g.ow, g.oc, shape);
  DLTensor *out = output_checked(c, 0, shape, 4);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  if (pf_numel(x) == 0) return fill_zero(c, out, pf_numel(out) * type_size(c->in_type[0]));
  conv_data d = {PF_DATA(const void, x), PF_DATA(const void, f), NULL, PF_DATA(void, out)};
  return run_conv(c, &g, CONV_FORWARD, c->in_type[0], depthwise, &d);
}
template <bool depthwise> pf_status backprop_input(pf_ctx *c, const void *state) {
  const window_state *s = (const window_state *)state;
  const DLTensor *f = c->in[1], *dy = c->in[2];
  int64_t shape[4], xd[4] = {0};
  conv g;
  PF_TRY(sizes_input(c, 0, "input_sizes", shape));
  PF_TRY(filter_dims(c, f));
  PF_TRY(window_dims(c, s, shape, 4, "input_sizes", xd));
  PF_TRY(conv_sizes(c, s, xd, f->shape, depthwise, &g));
  PF_TRY(check_dy(c, s, &g));
  DLTensor *out = output_checked(c, 0, shape, 4);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  if (pf_numel(dy) == 0) return fill_zero(c, out, pf_numel(out) * type_size(c->in_type[1]));
  conv_data d = {NULL, PF_DATA(const void, f), PF_DATA(const void, dy), PF_DATA(void, out)};
  return run_conv(c, &g, CONV_INPUT, c->in_type[1], depthwise, &d);
}
template <bool depthwise> pf_status backprop_filter(pf_ctx *c, const void *state) {
  const window_state *s = (const window_state *)state;
  const DLTensor *x = c->in[0], *dy = c->in[2];
  int64_t shape[4], xd[4] = {0};
  conv g;
  PF_TRY(sizes_input(c, 1, "filter_sizes", shape));
  PF_TRY(window_dims(c, s, x->shape, x->ndim, "input", xd));
  PF_TRY(conv_sizes(c, s, xd, shape, depthwise, &g));
  PF_TRY(check_dy(c, s, &g));
  DLTensor *out = output_checked(c, 0, shape, 4);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  if (pf_numel(dy) == 0 || pf_numel(x) == 0)
    return fill_zero(c, out, pf_numel(out) * type_size(c->in_type[0]));
  conv_data d = {PF_DATA(const void, x), NULL, PF_DATA(const void, dy), PF_DATA(void, out)};
  return run_conv(c, &g, CONV_FILTER, c->in_type[0], depthwise, &d);
}

static constexpr attr_list attrs({WINDOW_ATTR(strides, PF_ATTR_LIST | PF_ATTR_INT),
                                  WINDOW_ATTR(padding, PF_ATTR_STRING),
                                  WINDOW_OPTIONAL(data_format, PF_ATTR_STRING),
                                  WINDOW_OPTIONAL(dilations, PF_ATTR_LIST | PF_ATTR_INT),
                                  WINDOW_OPTIONAL(explicit_paddings, PF_ATTR_LIST | PF_ATTR_INT)});
static constexpr arg_list input_args({HOST_IN("input_sizes")});
static constexpr arg_list filter_args({HOST_IN("filter_sizes")});
#define ENTRY(op, flags, fn, ...)                                                                 \
  GPU(op, "T=" T_FLOATS, flags, .attrs = attrs.at, __VA_ARGS__.state_size = sizeof(window_state), \
      .init = conv_init, .compute = fn)
static const pf_kernel table[] = {
  ENTRY("Conv2D", 0, forward<false>),
  ENTRY("Conv2DBackpropInput", 0, backprop_input<false>, .args = input_args.at, ),
  ENTRY("Conv2DBackpropFilter", 0, backprop_filter<false>, .args = filter_args.at, ),
  ENTRY("DepthwiseConv2dNative", SAME, forward<true>),
  ENTRY("DepthwiseConv2dNativeBackpropInput", SAME, backprop_input<true>, .args = input_args.at, ),
  ENTRY("DepthwiseConv2dNativeBackpropFilter", SAME, backprop_filter<true>,
        .args = filter_args.at, ),
};
} // namespace
KERNELS(conv_kernels, table)
