/* norm.c - FusedBatchNorm V1 to V3 with gradients, LRN and LRNGrad.
 *
 * Invariants
 *   1. Statistics are summed in PARTS fixed parts of the rows, then in double in their order: equal
 *      bits for any number of threads.  The variance is taken around the mean, in a second pass.
 *   2. Everything is computed as float (double for LRN's double); halves are rounded once, at the
 *      end.
 * Threads: parallel_for over parts of the rows.
 *
 * Rows: NHWC has n * h * w rows of c channels.  NCHW has n * c rows of one channel each, h * w
 * long.
 */
#include "common.h"
#include "half.h"
#include "isa.h"
#include "window.h"

enum { PARTS = 32 };
typedef struct {
  int32_t T, training;
  double epsilon, average;
  pf_str data_format;
  int32_t nchw, reserved;
} norm_state;

typedef struct {                       /* x as [outer][channels][inner] */
  int64_t outer, c, inner;
  const float *x, *dy, *mean, *inv, *scale, *offset;
  const float *a, *b;                  /* per channel: results of a former pass */
  float *out, *part, *part2;           /* [PARTS][c] */
  int64_t parts;
} norm;

static void part_of(const norm *p, int64_t i, int64_t *lo, int64_t *hi) {
  *lo = p->outer * i / p->parts;
  *hi = p->outer * (i + 1) / p->parts;
}

/* Sums over rows lo .. hi of one expression per channel, NHWC (inner 1) and NCHW alike. */
#define SUM_PASS(name, expr1, expr2) \
static void name(void *arg, int64_t from, int64_t to, int32_t worker) { \
  const norm *p = arg; \
  (void)worker; \
  for (int64_t i = from; i < to; i++) { \
    float *s = p->part + i * p->c, *q = p->part2 + i * p->c; \
    int64_t lo, hi; \
    part_of(p, i, &lo, &hi); \
    for (int64_t k = 0; k < p->c; k++) s[k] = q[k] = 0; \
    for (int64_t r = lo; r < hi; r++) \
      for (int64_t k = 0, at = r * p->c * p->inner; p->inner == 1 ? k == 0 : k < p->c; k++) { \
        if (p->inner == 1) { \
          PF_IVDEP for (int64_t j = 0; j < p->c; j++) { \
            float x = p->x[at + j], dy = p->dy[at + j], mean = p->mean[j]; \
            (void)x; (void)dy; (void)mean; \
            s[j] += expr1; q[j] += expr2; \
          } \
        } else { \
          float mean = p->mean[k], u[16] = {0}, v[16] = {0}; \
          for (int64_t j = 0; j < p->inner; j++, at++) { \
            float x = p->x[at], dy = p->dy[at]; \
            (void)x; (void)dy; (void)mean; \
            u[j & 15] += expr1; v[j & 15] += expr2; \
          } \
          for (int l = 0; l < 16; l++) s[k] += u[l], q[k] += v[l]; \
        } \
      } \
  } \
}
SUM_PASS(sum_values, x, 0)
SUM_PASS(sum_squares, (x - mean) * (x - mean), 0)
SUM_PASS(sum_gradients, dy, dy * (x - mean))

/* out = x * a + b (or dy * a + x * scale + b for the gradient) over parts of the rows */
static void apply_forward(void *arg, int64_t from, int64_t to, int32_t worker) {
  const norm *p = arg;
  (void)worker;
  for (int64_t r = from; r < to; r++)
    for (int64_t k = 0; k < (p->inner == 1 ? 1 : p->c); k++) {
      int64_t at = (r * p->c + k) * p->inner;
      if (p->inner == 1) {
        PF_IVDEP for (int64_t j = 0; j < p->c; j++) p->out[at + j] =
            (p->x[at + j] - p->mean[j]) * p->a[j] + p->offset[j];
      } else {
        float m = p->mean[k], a = p->a[k], b = p->offset[k];
        PF_IVDEP for (int64_t j = 0; j < p->inner; j++) p->out[at + j] = (p->x[at + j] - m) * a + b;
      }
    }
}
static void apply_backward(void *arg, int64_t from, int64_t to, int32_t worker) {
  const norm *p = arg;                 /* dx = a * dy - b * (x - mean) - offset */
  (void)worker;
  for (int64_t r = from; r < to; r++)
    for (int64_t k = 0; k < (p->inner == 1 ? 1 : p->c); k++) {
      int64_t at = (r * p->c + k) * p->inner;
      if (p->inner == 1) {
        PF_IVDEP for (int64_t j = 0; j < p->c; j++) p->out[at + j] =
            p->a[j] * p->dy[at + j] - p->b[j] * (p->x[at + j] - p->mean[j]) - p->offset[j];
      } else {
        float m = p->mean[k], a = p->a[k], b = p->b[k], o = p->offset[k];
        PF_IVDEP for (int64_t j = 0; j < p->inner; j++) p->out[at + j] =
            a * p->dy[at + j] - b * (p->x[at + j] - m) - o;
      }
    }
}

static pf_status reduce(pf_ctx *c, norm *p, pf_range fn, double *first, double *second) {
  PF_TRY(pf_parallel(c, p->parts, p->outer * p->inner * p->c > 2 * PF_GRAIN ? 1 : p->parts, fn, p));
  for (int64_t k = 0; k < p->c; k++) {
    first[k] = second[k] = 0;
    for (int64_t i = 0; i < p->parts; i++)
      first[k] += p->part[i * p->c + k], second[k] += p->part2[i * p->c + k];
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- checks and buffers */
static pf_status norm_init(pf_ctx *c, void *state) {
  norm_state *s = state;
  if (s->data_format.len == 0 || pf_str_is(s->data_format, "NHWC")) s->nchw = 0;
  else if (pf_str_is(s->data_format, "NCHW")) s->nchw = 1;
  else
    return PF_INVALID(c, "data_format must be NHWC or NCHW, got '%.*s'", (int)s->data_format.len,
                      s->data_format.data);
  return PF_OK;
}

static pf_status norm_open(pf_ctx *c, const norm_state *s, const DLTensor *x, norm *p) {
  if (x->ndim != 4) return PF_INVALID(c, "input must be 4-dimensional: %s", PF_SHAPE(x).s);
  *p = (norm){.outer = x->shape[0], .c = x->shape[s->nchw ? 1 : 3]};
  p->inner = s->nchw ? x->shape[2] * x->shape[3] : 1;
  if (!s->nchw) p->outer *= x->shape[1] * x->shape[2];
  p->parts = PF_MAX(PF_MIN(p->outer, PARTS), 1);
  return PF_OK;
}
static pf_status check_channels(pf_ctx *c, int32_t in, const char *name, int64_t channels) {
  const DLTensor *t = c->in[in];
  if (t->ndim == 1 && t->shape[0] == channels) return PF_OK;
  return PF_INVALID(
      c, "%s must have the same number of elements as the channels of x, got %s and %" PRId64, name,
      PF_SHAPE(t).s, channels);
}
static float *room(pf_ctx *c, int64_t floats) {
  float *p = floats > INT64_MAX / 8 ? NULL : c->host->scratch(c, (uint64_t)floats * 4 + 64, 64);
  if (!p) pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for batch normalisation");
  return p;
}
static const float *wide(pf_ctx *c, int32_t type, const DLTensor *t) {
  int64_t n = pf_numel(t);
  if (!pf_is_half(type)) return n ? PF_DATA(const float, t) : room(c, 1);
  float *y = room(c, n);
  if (y) halves_read(type, PF_DATA(const void, t), y, n);
  return y;
}

/* ---------------------------------------------------------------- forward */
typedef struct { float *mean, *var, *saved_mean, *saved_var; } outputs;

static pf_status channel_outputs(pf_ctx *c, int64_t channels, outputs *o) {
  float **slot[4] = {&o->mean, &o->var, &o->saved_mean, &o->saved_var};
  static float nothing[1];
  for (int32_t i = 0; i < 4; i++) {
    DLTensor *t = c->host->output(c, 1 + i, &channels, 1);
    PF_EXHAUSTED(t);
    *slot[i] = channels ? PF_DATA(float, t) : nothing;
  }
  if (c->n_out <= 5) return PF_OK;
  int64_t none = 0;
  return c->host->output(c, 5, &none, 1) ? PF_OK : PF_RESOURCE_EXHAUSTED;
}

/* Mean and variance of the batch, and what the moving averages are to become. */
static pf_status batch_statistics(pf_ctx *c, const norm_state *s, norm *p, const outputs *o) {
  int64_t n = p->outer * p->inner;
  double *first = c->host->scratch(c, (uint64_t)p->c * 16 + 64, 64), *second = first + p->c;
  if (!first) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for batch normalisation");
  p->mean = o->saved_mean;
  for (int64_t k = 0; k < p->c; k++) o->saved_mean[k] = 0;
  PF_TRY(reduce(c, p, sum_values, first, second));
  for (int64_t k = 0; k < p->c; k++) o->saved_mean[k] = (float)(first[k] / (double)n);
  PF_TRY(reduce(c, p, sum_squares, first, second));
  float f = s->average > 0 ? (float)s->average : 1.0f;
  const float *old_mean = PF_DATA(const float, c->in[3]), *old_var = PF_DATA(const float, c->in[4]);
  for (int64_t k = 0; k < p->c; k++) {
    o->saved_var[k] = (float)(first[k] / (double)n);
    float var = (float)(first[k] / (double)(n > 1 ? n - 1 : 1));
    o->mean[k] = f == 1.0f ? o->saved_mean[k] : (1 - f) * old_mean[k] + f * o->saved_mean[k];
    o->var[k] = f == 1.0f ? var : (1 - f) * old_var[k] + f * var;
  }
  return PF_OK;
}

static pf_status batch_norm(pf_ctx *c, const void *state) {
  const norm_state *s = state;
  const DLTensor *x = c->in[0];
  norm p;
  outputs o;
  PF_TRY(norm_open(c, s, x, &p));
  PF_TRY(check_channels(c, 1, "scale", p.c));
  PF_TRY(check_channels(c, 2, "offset", p.c));
  if (!s->training || (s->average > 0 && s->average != 1.0)) {
    PF_TRY(check_channels(c, 3, "mean", p.c));
    PF_TRY(check_channels(c, 4, "variance", p.c));
  }
  DLTensor *y = c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(y);
  PF_TRY(channel_outputs(c, p.c, &o));
  if (pf_numel(x) == 0) {
    for (int64_t k = 0; k < p.c; k++) o.mean[k] = o.var[k] = o.saved_mean[k] = o.saved_var[k] = NAN;
    return PF_OK;
  }
  p.x = p.dy = wide(c, s->T, x);
  p.part = room(c, p.c * (2 * p.parts + 1));
  p.out = pf_is_half(s->T) ? room(c, pf_numel(x)) : PF_DATA(float, y);
  if (!p.x || !p.part || !p.out) return PF_RESOURCE_EXHAUSTED;
  p.part2 = p.part + p.c * p.parts;
  float *a = p.part + 2 * p.c * p.parts;
  if (s->training) {
    PF_TRY(batch_statistics(c, s, &p, &o));
  } else {
    memcpy(o.mean, PF_DATA(const float, c->in[3]), sizeof(float) * (size_t)p.c);
    memcpy(o.var, PF_DATA(const float, c->in[4]), sizeof(float) * (size_t)p.c);
    memcpy(o.saved_mean, o.mean, sizeof(float) * (size_t)p.c);
    memcpy(o.saved_var, o.var, sizeof(float) * (size_t)p.c);
  }
  for (int64_t k = 0; k < p.c; k++)
    a[k] = PF_DATA(const float, c->in[1])[k] / sqrtf(o.saved_var[k] + (float)s->epsilon);
  p.a = a;
  p.mean = o.saved_mean;
  p.offset = PF_DATA(const float, c->in[2]);
  PF_TRY(pf_parallel(c, p.outer, pf_grain(p.c * p.inner), apply_forward, &p));
  if (pf_is_half(s->T)) halves_write(s->T, p.out, PF_DATA(void, y), pf_numel(x));
  return PF_OK;
}

/* ---------------------------------------------------------------- gradient */
static pf_status gradient_coefficients(pf_ctx *c, const norm_state *s, norm *p, float *coef,
                                       float *d_scale, float *d_offset) {
  double *sum = c->host->scratch(c, (uint64_t)p->c * 16 + 64, 64), *dot = sum + p->c;
  if (!sum) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for batch normalisation");
  const float *var = PF_DATA(const float, c->in[4]), *scale = PF_DATA(const float, c->in[2]);
  double n = (double)(p->outer * p->inner);
  float *a = coef, *b = a + p->c, *o = b + p->c;
  PF_TRY(reduce(c, p, sum_gradients, sum, dot));
  for (int64_t k = 0; k < p->c; k++) {
    double inv = 1.0 / sqrt((double)var[k] + s->epsilon);
    d_offset[k] = (float)sum[k];
    d_scale[k] = (float)(dot[k] * inv);
    a[k] = (float)(scale[k] * inv);
    b[k] = s->training ? (float)(scale[k] * inv * inv * inv * dot[k] / n) : 0;
    o[k] = s->training ? (float)(scale[k] * inv * sum[k] / n) : 0;
  }
  p->a = a;
  p->b = b;
  p->offset = o;
  return PF_OK;
}

static pf_status batch_norm_grad(pf_ctx *c, const void *state) {
  const norm_state *s = state;
  const DLTensor *dy = c->in[0], *x = c->in[1];
  norm p;
  int64_t none = 0;
  PF_TRY(norm_open(c, s, x, &p));
  if (!pf_same_shape(dy, x))
    return PF_INVALID(
        c, "x and y_backprop must have same shape, but x has shape %s and y_backprop has shape %s",
        PF_SHAPE(x).s, PF_SHAPE(dy).s);
  PF_TRY(check_channels(c, 2, "scale", p.c));
  PF_TRY(check_channels(c, 3, "reserve_space_1", p.c));
  PF_TRY(check_channels(c, 4, "reserve_space_2", p.c));
  DLTensor *dx = c->host->forward(c, 0, 0, x->shape, x->ndim),   /* dy's buffer, if it is free */
           *ds = dx ? c->host->output(c, 1, &p.c, 1) : NULL;
  DLTensor *d_offset = ds ? c->host->output(c, 2, &p.c, 1) : NULL;
  PF_EXHAUSTED(d_offset);
  for (int32_t i = 3; i < c->n_out; i++) PF_EXHAUSTED(c->host->output(c, i, &none, 1));
  if (pf_numel(x) == 0) {
    if (p.c)
      memset(PF_DATA(void, ds), 0, 4 * (size_t)p.c),
          memset(PF_DATA(void, d_offset), 0, 4 * (size_t)p.c);
    return PF_OK;
  }
  p.x = wide(c, s->T, x);
  p.dy = wide(c, s->T, dy);
  p.mean = PF_DATA(const float, c->in[3]);
  p.part = room(c, p.c * (2 * p.parts + 3));
  p.out = pf_is_half(s->T) ? room(c, pf_numel(x)) : PF_DATA(float, dx);
  if (!p.x || !p.dy || !p.part || !p.out) return PF_RESOURCE_EXHAUSTED;
  p.part2 = p.part + p.c * p.parts;
  PF_TRY(gradient_coefficients(c, s, &p, p.part + 2 * p.c * p.parts, PF_DATA(float, ds),
                               PF_DATA(float, d_offset)));
  PF_TRY(pf_parallel(c, p.outer, pf_grain(p.c * p.inner), apply_backward, &p));
  if (pf_is_half(s->T)) halves_write(s->T, p.out, PF_DATA(void, dx), pf_numel(x));
  return PF_OK;
}

#define FIELD(kind, name) PF_ATTR(norm_state, kind, name)
#define OPTIONAL(name_, kind, field) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, name_, kind, offsetof(norm_state, field)})
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#define ENTRY(op, where, fn) PF_CPU_FLAGS(op, where, FLAGS, \
  .attrs = PF_ATTRS(FIELD(PF_ATTR_TYPE, T), FIELD(PF_ATTR_FLOAT, epsilon), \
                    OPTIONAL("data_format", PF_ATTR_STRING, data_format), \
                    OPTIONAL("is_training", PF_ATTR_BOOL, training), \
                    OPTIONAL("exponential_avg_factor", PF_ATTR_FLOAT, average)), \
  .state_size = sizeof(norm_state), .init = norm_init, .compute = fn)
const pf_kernel *const PF_ISA_NAME(norm_kernels)[] = {
  ENTRY("FusedBatchNorm", "T=float", batch_norm),
  ENTRY("FusedBatchNormV2", "T=half|bfloat16|float, U=float", batch_norm),
  ENTRY("FusedBatchNormV3", "T=half|bfloat16|float, U=float", batch_norm),
  ENTRY("FusedBatchNormGrad", "T=float", batch_norm_grad),
  ENTRY("FusedBatchNormGradV2", "T=half|bfloat16|float, U=float", batch_norm_grad),
  ENTRY("FusedBatchNormGradV3", "T=half|bfloat16|float, U=float", batch_norm_grad),
  NULL
};
