/* conv_depth_layout.c - DepthwiseConv2dNative, its gradients and its fused form: checks, data
 * formats and halves.
 *
 * Invariants: those of conv_operands.h.  A channel multiplier m becomes m copies of each channel,
 * which have one filter each.
 * Threads: compute is concurrent; the passes use parallel_for.
 */
#include "conv/conv_cost.h"
#include "conv/conv_operands.h"

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
  flat[3] = wide[3]; /* conv_sizes sees one group per channel */
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

/* Halves that need no other layout are widened a few rows at a time. */
static int in_strips(const pf_window *s, const pf_conv *g, int64_t m) {
  const int turned = s->nchw && g->c > 1 && (g->h * g->w > 1 || g->oh * g->ow > 1);
  return pf_is_half(s->T) && !turned && m == 1;
}

/* f: the filter of `dims` as float or double; NULL: it is input 1. */
pf_status PF_ISA_NAME(pf_depthwise)(pf_ctx *c, const void *state, const int64_t *dims,
                                    const void *f) {
  const conv_state *cs = state;
  const pf_window *s = &cs->w;
  const DLTensor *x = c->in[0];
  int64_t xd[4] = {0}, shape[4], m;
  pf_epilogue after[2];
  pf_conv g;
  PF_TRY(pf_window_dims(c, s, x->shape, x->ndim, "input", xd));
  PF_TRY(depth_sizes(c, s, xd, dims, &g, &m));
  pf_window_shape(s, g.n, g.oh, g.ow, g.c, shape);
  result r = {.t = pf_output_checked(c, 0, shape, 4), .pixels = g.oh * g.ow, .ch = g.c, .image = 1};
  PF_EXHAUSTED(r.t);
  pf_conv_lay_down(&g);
  pf_conv_call call = {.g = &g, .f = f};
  PF_TRY(fused_after(c, cs, &call, &r, after));
  if (pf_numel(r.t) == 0 || pf_numel(x) == 0) return nothing_summed(c, cs, &call, &r);
  if (!f) PF_TRY(load(c, s, c->in[1], 0, 0, 0, &call.f));
  if (in_strips(s, &g, m)) {
    call.x = PF_DATA(const void, x), call.out = PF_DATA(void, r.t);
    return PF_ISA_NAME(pf_depth_forward_halves)(c, &call, s->T);
  }
  PF_TRY(load(c, s, x, g.h * g.w, xd[3], 1, &call.x));
  PF_TRY(spread(c, s, &call.x, g.n * g.h * g.w, xd[3], m));
  return run_pass(c, s, DEPTH_FORWARD, &call, &r);
}

static pf_status depthwise(pf_ctx *c, const void *state) {
  const DLTensor *f = c->in[1];
  PF_TRY(filter_dims(c, f->shape, f->ndim));
  return PF_ISA_NAME(pf_depthwise)(c, state, f->shape, NULL);
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
  pf_conv_lay_down(&g);
  result r = {.t = pf_output_checked(c, 0, shape, 4), .pixels = g.h * g.w, .ch = xd[3], .image = 1};
  PF_EXHAUSTED(r.t);
  if (pf_numel(r.t) == 0 || pf_numel(dy) == 0) return zeros(r.t, s->T);
  pf_conv_call call = {.g = &g};
  PF_TRY(load(c, s, f, 0, 0, 0, &call.f));
  if (in_strips(s, &g, m)) {
    call.dy = PF_DATA(const void, dy), call.out = PF_DATA(void, r.t);
    const pf_status done = PF_ISA_NAME(pf_depth_input_halves)(c, &call, s->T);
    if (done != PF_DECLINE) return done;
  }
  PF_TRY(load(c, s, dy, g.oh * g.ow, g.oc, 1, &call.dy));
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
  pf_conv_lay_down(&g);
  result r = {.t = pf_output_checked(c, 0, shape, 4)};
  PF_EXHAUSTED(r.t);
  if (pf_numel(r.t) == 0 || pf_numel(dy) == 0 || pf_numel(x) == 0) return zeros(r.t, s->T);
  pf_conv_call call = {.g = &g};
  PF_TRY(load(c, s, x, g.h * g.w, xd[3], 1, &call.x));
  PF_TRY(spread(c, s, &call.x, g.n * g.h * g.w, xd[3], m));
  PF_TRY(load(c, s, dy, g.oh * g.ow, g.oc, 1, &call.dy));
  return run_pass(c, s, DEPTH_FILTER, &call, &r);
}

static pf_status depth_init(pf_ctx *c, void *state) { return fused_init(c, state); }
static pf_status gradient_init(pf_ctx *c, void *state) { return pf_window_init(c, state); }

#define ENTRY(op, fn, cost_) PF_CPU_FLAGS(op, "T=" PF_FLOATS, CONV_FLAGS, \
  .attrs = PF_ATTRS(WINDOW_ATTRS), .state_size = sizeof(pf_window), .init = gradient_init, \
  .compute = fn, .cost = cost_)
#define FORWARD_ENTRY(op) PF_CPU_FLAGS(op, "T=" PF_FLOATS, CONV_FLAGS, \
  .attrs = PF_ATTRS(WINDOW_ATTRS, FUSED_ATTRS), .state_size = sizeof(conv_state), \
  .init = depth_init, .compute = depthwise, .cost = pf_depthwise_cost)
const pf_kernel *const PF_ISA_NAME(conv_depth_layout_kernels)[] = {
  FORWARD_ENTRY("DepthwiseConv2dNative"), FORWARD_ENTRY("_FusedDepthwiseConv2dNative"),
  ENTRY("DepthwiseConv2dNativeBackpropInput", depthwise_backprop_input, pf_input_cost),
  ENTRY("DepthwiseConv2dNativeBackpropFilter", depthwise_backprop_filter, pf_filter_cost), NULL};
