/* lrn.c - LRN and LRNGrad: local response normalisation over channels (Krizhevsky et al., 2012).
 *
 *     y[k] = x[k] * n[k] ^ -beta,    n[k] = bias + alpha * sum of x[j]^2 over |j - k| <=
 *     depth_radius
 *
 * Invariants: every output is one sum in a fixed order; halves are computed as float and rounded
 * once.
 * Threads: parallel_for over pixels; a pixel is handled by one thread.
 */
#include "common.h"
#include "isa.h"

typedef struct { int32_t T; int32_t pad; int64_t radius; double bias, alpha, beta; } lrn_state;
typedef struct { const lrn_state *s; const float *dy, *x, *y; float *out, *norms; int64_t c; } lrn;

/* n[k] of one pixel: the sum slides, afresh every 64 channels so that rounding does not pile up */
static void norms_of(const lrn *p, const float *x, float *n) {
  int64_t r = p->s->radius, c = p->c;
  double sum = 0;
  for (int64_t k = 0; k < c; k++) {
    if (k % 64 == 0) {
      sum = 0;
      for (int64_t j = PF_MAX(k - r, 0); j < PF_MIN(k + r + 1, c); j++) sum += (double)x[j] * x[j];
    } else {
      if (k + r < c) sum += (double)x[k + r] * x[k + r];
      if (k - r - 1 >= 0) sum -= (double)x[k - r - 1] * x[k - r - 1];
    }
    n[k] = (float)(p->s->bias + p->s->alpha * sum);
  }
}

static void forward(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const lrn *p = arg;
  float *n = p->norms + worker * p->c;
  float beta = (float)p->s->beta;
  for (int64_t i = lo; i < hi; i++) {
    const float *x = p->x + i * p->c;
    norms_of(p, x, n);
    for (int64_t k = 0; k < p->c; k++) p->out[i * p->c + k] = x[k] * powf(n[k], -beta);
  }
}

static void backward(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const lrn *p = arg;
  float *n = p->norms + worker * p->c;
  const float ab = (float)(-2 * p->s->alpha * p->s->beta), beta = (float)p->s->beta;
  for (int64_t i = lo; i < hi; i++) {
    const float *x = p->x + i * p->c, *y = p->y + i * p->c, *dy = p->dy + i * p->c;
    float *out = p->out + i * p->c;
    norms_of(p, x, n);
    for (int64_t k = 0; k < p->c; k++) out[k] = dy[k] * powf(n[k], -beta);
    for (int64_t j = 0; j < p->c; j++) {
      float g = ab * y[j] / n[j] * dy[j];
      int64_t end = PF_MIN(j + p->s->radius + 1, p->c);
      for (int64_t k = PF_MAX(j - p->s->radius, 0); k < end; k++) out[k] += g * x[k];
    }
  }
}

static pf_status operand(pf_ctx *c, int32_t type, const DLTensor *t, const float **out) {
  *out = PF_DATA(const float, t);
  if (!pf_is_half(type)) return PF_OK;
  float *y = c->host->scratch(c, (uint64_t)pf_numel(t) * 4 + 4, 64);
  if (!y) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a float copy");
  pf_half_to_float(type, PF_DATA(const void, t), y, pf_numel(t));
  *out = y;
  return PF_OK;
}

static pf_status run(pf_ctx *c, const lrn_state *s, const DLTensor *x, pf_range fn, lrn *p) {
  DLTensor *out = c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(out);
  int64_t n = pf_numel(x);
  if (n == 0) return PF_OK;
  p->s = s;
  p->c = x->shape[3];
  p->norms = c->host->scratch(c, (uint64_t)(p->c * c->host->workers(c)) * 4, 64);
  p->out = pf_is_half(s->T) ? c->host->scratch(c, (uint64_t)n * 4, 64) : PF_DATA(float, out);
  if (!p->norms || !p->out) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for normalisation");
  PF_TRY(pf_parallel(c, n / p->c, pf_grain(p->c * 16), fn, p));
  if (pf_is_half(s->T)) pf_float_to_half(s->T, p->out, PF_DATA(void, out), n);
  return PF_OK;
}

static pf_status check(pf_ctx *c, const lrn_state *s, const DLTensor *x, const char *name) {
  if (x->ndim != 4)
    return PF_INVALID(c, "%s must be 4-dimensional, got shape %s", name, PF_SHAPE(x).s);
  if (s->radius < 0 || s->radius > INT32_MAX)
    return PF_INVALID(c, "depth_radius must be in [0, 2^31), got %" PRId64, s->radius);
  return PF_OK;
}
static pf_status lrn_forward(pf_ctx *c, const void *state) {
  lrn p = {0};
  PF_TRY(check(c, state, c->in[0], "in"));
  PF_TRY(operand(c, ((const lrn_state *)state)->T, c->in[0], &p.x));
  return run(c, state, c->in[0], forward, &p);
}
static pf_status lrn_grad(pf_ctx *c, const void *state) {
  const lrn_state *s = state;
  lrn p = {0};
  PF_TRY(check(c, s, c->in[1], "input_image"));
  if (!pf_same_shape(c->in[0], c->in[1]) || !pf_same_shape(c->in[1], c->in[2]))
    return PF_INVALID(c, "input_grads, input_image and output_image must have one shape: %s %s %s",
                      PF_SHAPE(c->in[0]).s, PF_SHAPE(c->in[1]).s, PF_SHAPE(c->in[2]).s);
  PF_TRY(operand(c, s->T, c->in[0], &p.dy));
  PF_TRY(operand(c, s->T, c->in[1], &p.x));
  PF_TRY(operand(c, s->T, c->in[2], &p.y));
  return run(c, s, c->in[1], backward, &p);
}

#define FIELD(name_, kind, field) PF_REF(pf_attr, name_, kind, offsetof(lrn_state, field))
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#define ENTRY(op, fn) PF_CPU_FLAGS(op, "T=half|bfloat16|float", FLAGS, \
  .attrs = PF_ATTRS(FIELD("T", PF_ATTR_TYPE, T), FIELD("depth_radius", PF_ATTR_INT, radius), \
                    FIELD("bias", PF_ATTR_FLOAT, bias), FIELD("alpha", PF_ATTR_FLOAT, alpha), \
                    FIELD("beta", PF_ATTR_FLOAT, beta)), \
  .state_size = sizeof(lrn_state), .compute = fn)
const pf_kernel *const PF_ISA_NAME(lrn_kernels)[] = {
  ENTRY("LRN", lrn_forward),
  ENTRY("LRNGrad", lrn_grad),
  NULL
};
