/* norm.cu - FusedBatchNorm V1 to V3 and their gradients, own kernels.
 *
 * The input is [outer, channels, inner]: NHWC has inner 1, NCHW has outer n and inner h * w.
 * Statistics are one reduction per channel (mean), a second one around the mean (variance), summed
 * as float in the order `reduce` fixes; halves are rounded once.
 */
#include "window.h"

namespace {

typedef struct {
  int32_t training, nchw;
  double epsilon, average;
  pf_str data_format;
} norm_state;
typedef struct { int64_t outer, c, inner; } layout;
PF_BOTH int64_t element(const layout &l, int64_t channel, int64_t k) {
  return l.inner == 1 ? k * l.c + channel : (k / l.inner * l.c + channel) * l.inner + k % l.inner;
}
PF_BOTH int64_t channel_of(const layout &l, int64_t i) { return i / l.inner % l.c; }

/* ---------------------------------------------------------------- statistics */
template <class T> struct mean_reducer {
  layout l;
  const T *x;
  float *mean;
  PF_BOTH float zero() const { return 0; }
  PF_BOTH float join(float a, float b) const { return a + b; }
  PF_BOTH float add(float a, int64_t r, int64_t k) const { return a + up(x[element(l, r, k)]); }
  PF_BOTH void finish(int64_t r, float a) const { mean[r] = a / (float)(l.outer * l.inner); }
};
typedef struct {
  const float *old_mean, *old_var;
  float *mean, *var, *saved_mean, *saved_var;
  float factor;
} moving;
template <class T> struct variance_reducer {
  layout l;
  const T *x;
  moving m;
  PF_BOTH float zero() const { return 0; }
  PF_BOTH float join(float a, float b) const { return a + b; }
  PF_BOTH float add(float a, int64_t r, int64_t k) const {
    float d = up(x[element(l, r, k)]) - m.saved_mean[r];
    return a + d * d;
  }
  PF_BOTH void finish(int64_t r, float a) const {
    int64_t n = l.outer * l.inner;
    float f = m.factor, unbiased = a / (float)(n > 1 ? n - 1 : 1);
    m.saved_var[r] = a / (float)n;
    m.mean[r] = f == 1.0f ? m.saved_mean[r] : (1 - f) * m.old_mean[r] + f * m.saved_mean[r];
    m.var[r] = f == 1.0f ? unbiased : (1 - f) * m.old_var[r] + f * unbiased;
  }
};
struct copy_statistics {
  moving m;
  PF_BOTH void operator()(int64_t i) const {
    m.mean[i] = m.saved_mean[i] = m.old_mean[i];
    m.var[i] = m.saved_var[i] = m.old_var[i];
  }
};
struct no_statistics {
  moving m;
  PF_BOTH void operator()(int64_t i) const {
    m.mean[i] = m.var[i] = m.saved_mean[i] = m.saved_var[i] = NAN;
  }
};
template <class T> struct normalise_each {
  layout l;
  const T *x;
  T *y;
  const float *mean, *var, *scale, *offset;
  float epsilon;
  PF_BOTH void operator()(int64_t i) const {
    int64_t k = channel_of(l, i);
    float a = scale[k] / sqrtf(var[k] + epsilon);
    y[i] = down<T>((up(x[i]) - mean[k]) * a + offset[k]);
  }
};

/* ---------------------------------------------------------------- checks */
static pf_status norm_init(pf_ctx *c, void *state) {
  norm_state *s = (norm_state *)state;
  s->nchw = str_is(s->data_format, "NCHW");
  if (s->nchw || s->data_format.len == 0 || str_is(s->data_format, "NHWC")) return PF_OK;
  return INVALID(c, "data_format must be NHWC or NCHW, got '%.*s'", (int)s->data_format.len,
                 s->data_format.data);
}
static pf_status open_layout(pf_ctx *c, const norm_state *s, const DLTensor *x, layout *l) {
  if (x->ndim != 4) return INVALID(c, "input must be 4-dimensional: %s", SHAPE(x));
  *l = layout{x->shape[0], x->shape[s->nchw ? 1 : 3], s->nchw ? x->shape[2] * x->shape[3] : 1};
  if (!s->nchw) l->outer *= x->shape[1] * x->shape[2];
  return PF_OK;
}
static pf_status check_channels(pf_ctx *c, int32_t in, const char *name, int64_t channels) {
  const DLTensor *t = c->in[in];
  if (t->ndim == 1 && t->shape[0] == channels) return PF_OK;
  return INVALID(
      c, "%s must have the same number of elements as the channels of x, got %s and %" PRId64, name,
      SHAPE(t), channels);
}

/* ---------------------------------------------------------------- forward */
static pf_status channel_outputs(pf_ctx *c, int64_t channels, moving *m) {
  float **slot[4] = {&m->mean, &m->var, &m->saved_mean, &m->saved_var};
  for (int32_t i = 0; i < 4; i++) {
    DLTensor *t = c->host->output(c, 1 + i, &channels, 1);
    PF_EXHAUSTED(t);
    *slot[i] = PF_DATA(float, t);
  }
  int64_t none = 0;
  return c->n_out <= 5 || c->host->output(c, 5, &none, 1) ? PF_OK : PF_RESOURCE_EXHAUSTED;
}
template <class T>
pf_status run_norm(pf_ctx *c, const norm_state *s, layout l, const moving *m, DLTensor *y) {
  const DLTensor *x = c->in[0];
  const T *data = PF_DATA(const T, x);
  rows_lie lie = l.inner == 1 ? ROWS_SIDE_BY_SIDE : ROWS_APART;
  if (s->training) {
    PF_TRY(reduce(c, l.c, l.outer * l.inner, mean_reducer<T>{l, data, m->saved_mean}, lie));
    PF_TRY(reduce(c, l.c, l.outer * l.inner, variance_reducer<T>{l, data, *m}, lie));
  } else PF_TRY(each(c, l.c, copy_statistics{*m}));
  return each(c, pf_numel(x),
              normalise_each<T>{l, data, PF_DATA(T, y), m->saved_mean, m->saved_var,
                                PF_DATA(const float, c->in[1]), PF_DATA(const float, c->in[2]),
                                (float)s->epsilon});
}
static pf_status batch_norm(pf_ctx *c, const void *state) {
  const norm_state *s = (const norm_state *)state;
  const DLTensor *x = c->in[0];
  layout l;
  moving m = {PF_DATA(const float, c->in[3]),
              PF_DATA(const float, c->in[4]),
              NULL,
              NULL,
              NULL,
              NULL,
              s->average > 0 ? (float)s->average : 1.0f};
  PF_TRY(open_layout(c, s, x, &l));
  PF_TRY(check_channels(c, 1, "scale", l.c));
  PF_TRY(check_channels(c, 2, "offset", l.c));
  if (!s->training || m.factor != 1.0f) {
    PF_TRY(check_channels(c, 3, "mean", l.c));
    PF_TRY(check_channels(c, 4, "variance", l.c));
  }
  DLTensor *y = c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(y);
  PF_TRY(channel_outputs(c, l.c, &m));
  if (pf_numel(x) == 0) return each(c, l.c, no_statistics{m});
  return with_float32(c->in_type[0],
                      [&](auto t) { return run_norm<typename decltype(t)::type>(c, s, l, &m, y); });
}

/* ---------------------------------------------------------------- gradient */
struct two { float sum, dot; };
template <class T> struct gradient_reducer {
  layout l;
  const T *x, *dy;
  const float *mean, *var, *scale;
  float *d_scale, *d_offset, *coef; /* coef: [3][c] of dx = a dy - b (x - mean) - o */
  double epsilon;
  int32_t training;
  PF_BOTH two zero() const { return two{0, 0}; }
  PF_BOTH two join(two a, two b) const { return two{a.sum + b.sum, a.dot + b.dot}; }
  PF_BOTH two add(two a, int64_t r, int64_t k) const {
    int64_t at = element(l, r, k);
    float d = up(dy[at]);
    return two{a.sum + d, a.dot + d * (up(x[at]) - mean[r])};
  }
  PF_BOTH void finish(int64_t r, two a) const {
    double n = (double)(l.outer * l.inner), inv = 1.0 / sqrt((double)var[r] + epsilon);
    d_offset[r] = a.sum;
    d_scale[r] = (float)(a.dot * inv);
    coef[r] = (float)(scale[r] * inv);
    coef[l.c + r] = training ? (float)(scale[r] * inv * inv * inv * a.dot / n) : 0;
    coef[2 * l.c + r] = training ? (float)(scale[r] * inv * a.sum / n) : 0;
  }
};
template <class T> struct gradient_each {
  layout l;
  const T *x, *dy;
  T *dx;
  const float *mean, *coef;
  PF_BOTH void operator()(int64_t i) const {
    int64_t k = channel_of(l, i);
    dx[i] = down<T>(coef[k] * up(dy[i]) - coef[l.c + k] * (up(x[i]) - mean[k]) - coef[2 * l.c + k]);
  }
};
static pf_status batch_norm_grad(pf_ctx *c, const void *state) {
  const norm_state *s = (const norm_state *)state;
  const DLTensor *dy = c->in[0], *x = c->in[1];
  layout l;
  int64_t none = 0;
  PF_TRY(open_layout(c, s, x, &l));
  if (!same_shape(dy, x))
    return INVALID(
        c, "x and y_backprop must have same shape, but x has shape %s and y_backprop has shape %s",
        SHAPE(x), SHAPE(dy));
  PF_TRY(check_channels(c, 2, "scale", l.c));
  PF_TRY(check_channels(c, 3, "reserve_space_1", l.c));
  PF_TRY(check_channels(c, 4, "reserve_space_2", l.c));
  DLTensor *dx = c->host->output(c, 0, x->shape, x->ndim),
           *ds = dx ? c->host->output(c, 1, &l.c, 1) : NULL;
  DLTensor *d_offset = ds ? c->host->output(c, 2, &l.c, 1) : NULL;
  PF_EXHAUSTED(d_offset);
  for (int32_t i = 3; i < c->n_out; i++) PF_EXHAUSTED(c->host->output(c, i, &none, 1));
  if (pf_numel(x) == 0) {
    PF_TRY(fill_zero(c, ds, 4 * l.c));
    return fill_zero(c, d_offset, 4 * l.c);
  }
  room coef(c);
  PF_TRY(coef.take((uint64_t)l.c * 12));
  return with_float32(c->in_type[0], [&](auto t) -> pf_status {
    typedef typename decltype(t)::type T;
    gradient_reducer<T> f = {l,
                             PF_DATA(const T, x),
                             PF_DATA(const T, dy),
                             PF_DATA(const float, c->in[3]),
                             PF_DATA(const float, c->in[4]),
                             PF_DATA(const float, c->in[2]),
                             PF_DATA(float, ds),
                             PF_DATA(float, d_offset),
                             (float *)coef.data,
                             s->epsilon,
                             s->training};
    PF_TRY(reduce(c, l.c, l.outer * l.inner, f, l.inner == 1 ? ROWS_SIDE_BY_SIDE : ROWS_APART));
    return each(c, pf_numel(x), gradient_each<T>{l, f.x, f.dy, PF_DATA(T, dx), f.mean, f.coef});
  });
}

static constexpr attr_list
    attrs({ATTR(norm_state, PF_ATTR_FLOAT, epsilon),
           ATTR_OPTIONAL("data_format", norm_state, PF_ATTR_STRING, data_format),
           ATTR_OPTIONAL("is_training", norm_state, PF_ATTR_BOOL, training),
           ATTR_OPTIONAL("exponential_avg_factor", norm_state, PF_ATTR_FLOAT, average)});
#define ENTRY(op, where, fn)                                                                   \
  GPU(op, where, SAME, .attrs = attrs.at, .state_size = sizeof(norm_state), .init = norm_init, \
      .compute = fn)
#define TYPES "T=half|bfloat16|float, U=float"
static const pf_kernel table[] = {
  ENTRY("FusedBatchNorm", "T=float", batch_norm),
  ENTRY("FusedBatchNormV2", TYPES, batch_norm),
  ENTRY("FusedBatchNormV3", TYPES, batch_norm),
  ENTRY("FusedBatchNormGrad", "T=float", batch_norm_grad),
  ENTRY("FusedBatchNormGradV2", TYPES, batch_norm_grad),
  ENTRY("FusedBatchNormGradV3", TYPES, batch_norm_grad),
};
} // namespace
KERNELS(norm_kernels, table)
