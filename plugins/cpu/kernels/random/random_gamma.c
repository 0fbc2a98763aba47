/* random_gamma.c - RandomGamma, RandomPoisson, RandomPoissonV2, StatelessRandomGammaV2,
 * StatelessRandomPoisson.
 *
 * Method: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); Knuth's
 * product of uniforms for Poisson rates below 10, Hormann's transformed rejection (PTRS, 1993)
 * above.  Element i has RESERVED counters of its own, as in TF's kernels, so equal seeds give TF's
 * numbers and results do not depend on threads.  The first blocks of bits of PF_PHILOX_WIDE
 * elements are drawn side by side; compiled once per instruction set. Threads: parallel_for over
 * elements.
 */
#include <float.h>
#include "base/isa.h"
#include "random/philox.h"
#include "elementwise/gamma.h"

enum { RESERVED = 256, TRIES = 100000, AHEAD = 6 }; /* AHEAD: most blocks drawn side by side */
typedef struct {
  pf_philox base;
  const DLTensor *parameter;
  DLTensor *out;
  int32_t in_type, out_type;
  int64_t samples, parameters;
  int failed; /* a rate whose numbers the type cannot hold; any thread sets it */
} job;

static double get(const DLTensor *t, int32_t type, int64_t i) {
  switch (type) {
    case PF_FLOAT64: return PF_DATA(const double, t)[i];
    case PF_FLOAT32: return PF_DATA(const float, t)[i];
    case PF_FLOAT16: return pf_from_half(PF_DATA(const uint16_t, t)[i]);
    case PF_BFLOAT16: return pf_from_bf16(PF_DATA(const uint16_t, t)[i]);
    default: return (double)pf_index_at(t, type, i);
  }
}
static void put(DLTensor *t, int32_t type, int64_t i, double v) {
  switch (type) {
    case PF_FLOAT64: PF_DATA(double, t)[i] = v; break;
    case PF_FLOAT32: PF_DATA(float, t)[i] = (float)v; break;
    case PF_FLOAT16: PF_DATA(uint16_t, t)[i] = pf_to_half((float)v); break;
    case PF_BFLOAT16: PF_DATA(uint16_t, t)[i] = pf_to_bf16((float)v); break;
    default: pf_put_index(t, type, i, (int64_t)v);
  }
}
/* The generators of elements i, i + 1, ... in turn; the bits of PF_PHILOX_WIDE elements are
 * drawn at once. */
typedef struct {
  uint32_t x[AHEAD][4][PF_PHILOX_WIDE];
  int64_t first;
  int blocks;
} ahead;
static pf_philox generator_of(const job *j, ahead *a, int64_t i, int64_t hi, int blocks) {
  pf_philox g = pf_philox_skip(&j->base, (uint64_t)RESERVED * (uint64_t)i);
  if (i - a->first >= PF_PHILOX_WIDE) {
    a->first = i, a->blocks = hi - i < PF_PHILOX_WIDE / 4 ? 0 : blocks;
    for (int b = 0; b < a->blocks; b++) {
      pf_philox at = pf_philox_skip(&g, (uint64_t)b);
      pf_philox_blocks(&at, RESERVED, a->x[b]);
    }
  }
  g.ready = &a->x[0][0][i - a->first], g.n_ready = a->blocks;
  return g;
}
static double gamma_variate(pf_philox *g, double alpha) {
  if (alpha == 1.0) return -log1p(-pf_philox_unit(g));
  int small = alpha < 1;
  double d = alpha + (small ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / sqrt(d);
  for (int i = 0; i < TRIES; i++) {
    double x = pf_philox_normal(g), v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    double u = pf_philox_unit(g);
    if (!(u < 1 - 0.0331 * (x * x) * (x * x)) && !(log(u) < 0.5 * x * x + d * (1 - v + log(v))))
      continue;
    double found = d * v;
    if (small) found *= pow(pf_philox_unit(g), 1 / alpha);
    return found;
  }
  return NAN; /* NaN shapes only */
}
static void gamma_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  ahead a;
  a.first = lo - PF_PHILOX_WIDE;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    int64_t k = i / j->samples, s = i % j->samples;
    pf_philox g = generator_of(j, &a, i, hi, 2);
    put(j->out, j->out_type, s * j->parameters + k,
        gamma_variate(&g, get(j->parameter, j->in_type, k)));
  }
}

/* what depends on the rate alone: `bound` below 10, the rest above */
typedef struct {
  double rate, bound, log_rate, a, b, inverse, squeeze;
  int blocks;
} poisson;
static poisson poisson_of(double rate) {
  poisson p = {.rate = rate, .blocks = 1};
  if (rate < 10) {
    p.bound = exp(-rate);
    p.blocks = (int)PF_MIN(1 + 0.6 * rate, AHEAD);
    return p;
  }
  p.log_rate = log(rate), p.b = 0.931 + 2.53 * sqrt(rate), p.a = -0.059 + 0.02483 * p.b;
  p.inverse = 1.1239 + 1.1328 / (p.b - 3.4);
  p.squeeze = 0.9277 - 3.6224 / (p.b - 2);
  return p;
}
static double poisson_small(pf_philox *g, const poisson *p) {
  double product = 1, x = 0;
  for (;; x++) {
    product *= pf_philox_unit(g);
    if (product <= p->bound) return x;
  }
}
/* -1: no number that fits below `highest` was found */
static double poisson_large(pf_philox *g, const poisson *p, double highest) {
  for (int i = 0; i < TRIES; i++) {
    double u = pf_philox_unit(g) - 0.5, v = pf_philox_unit(g), left = 0.5 - fabs(u);
    double k = floor((2 * p->a / left + p->b) * u + p->rate + 0.43);
    if (k > highest) continue;
    if (left >= 0.07 && v <= p->squeeze) return k;
    if (k < 0 || (left < 0.013 && v > left)) continue;
    if (log(v * p->inverse / (p->a / (left * left) + p->b)) <=
        -p->rate + k * p->log_rate - pf_log_gamma(k + 1))
      return k;
  }
  return -1;
}
static double highest_of(int32_t type) {
  switch (type) {
    case PF_FLOAT16: return 65504;
    case PF_INT32: return INT32_MAX;
    case PF_INT64: return 0x1p63 - 1024;
    case PF_FLOAT64: return DBL_MAX;
    default: return FLT_MAX;
  }
}
static void poisson_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  job *j = arg;
  double highest = highest_of(j->out_type);
  poisson of = {.rate = -1};
  ahead a;
  a.first = lo - PF_PHILOX_WIDE;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    if (__atomic_load_n(&j->failed, __ATOMIC_RELAXED)) return; /* each would try as long */
    int64_t k = i / j->samples, s = i % j->samples;
    double rate = get(j->parameter, j->in_type, k), found;
    if (rate != of.rate) of = poisson_of(rate);
    pf_philox g = generator_of(j, &a, i, hi, of.blocks);
    found = rate < 10 ? poisson_small(&g, &of) : poisson_large(&g, &of, highest);
    if (found < 0) __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED), found = 0;
    put(j->out, j->out_type, s * j->parameters + k, found);
  }
}

/* the output, shape + the parameter's shape, and the counters of all its elements */
static pf_status begin(pf_ctx *c, job *j) {
  int64_t shape[2 * PF_MAX_DIMS];
  int32_t n = 0;
  const DLTensor *p = c->in[1];
  if (c->in[0]->ndim != 1)
    return PF_INVALID(c, "Input shape should be a vector, got shape %s", PF_SHAPE(c->in[0]).s);
  PF_TRY(pf_check_rank(c, p, "the parameter"));
  PF_TRY(pf_in_vector(c, 0, "shape", shape, &n));
  for (int32_t k = 0; k < p->ndim; k++) shape[n + k] = p->shape[k];
  if (n + p->ndim > PF_MAX_DIMS)
    return PF_INVALID(c, "the result has rank %d, at most %d is supported", n + p->ndim,
                      PF_MAX_DIMS);
  DLTensor *out = pf_output_checked(c, 0, shape, n + p->ndim);
  if (!out) return PF_INVALID_ARGUMENT;
  *j = (job){.parameter = p,
             .out = out,
             .in_type = c->in_type[1],
             .out_type = c->out_type[0],
             .parameters = PF_MAX(pf_numel(p), 1)};
  int64_t all = pf_numel(out);
  j->samples = PF_MAX(all / j->parameters, 1);
  if (!all) return PF_OK;
  uint64_t key[2] = {0, 0}, counter[2] = {0, 0};
  PF_TRY(c->host->rng(c, (uint64_t)all * RESERVED, key, counter));
  j->base = (pf_philox){.key = key[0], .lo = counter[0], .hi = counter[1]};
  return PF_OK;
}
/* the same of a stateless op: shape, seed, parameter; the parameter's shape is the end of
 * `shape` */
static pf_status begin_stateless(pf_ctx *c, job *j) {
  pf_sample_shape s;
  PF_TRY(pf_stateless_shape(c, &s));
  const DLTensor *p = c->in[2];
  if (p->ndim > s.ndim ||
      memcmp(p->shape, s.shape + s.ndim - p->ndim, sizeof(int64_t) * (size_t)p->ndim))
    return PF_INVALID(c, "Shape passed in must end with the parameter's shape %s, got %s",
                      PF_SHAPE(p).s, pf_shape_text(s.shape, s.ndim).s);
  DLTensor *out = pf_output_checked(c, 0, s.shape, s.ndim);
  if (!out) return PF_INVALID_ARGUMENT;
  *j = (job){.base = s.base,
             .parameter = p,
             .out = out,
             .in_type = c->in_type[2],
             .out_type = c->out_type[0],
             .parameters = PF_MAX(pf_numel(p), 1)};
  j->samples = PF_MAX(pf_numel(out) / j->parameters, 1);
  return PF_OK;
}
static pf_status random_gamma(pf_ctx *c, const void *state) {
  job j;
  (void)state;
  PF_TRY(c->n_in == 3 ? begin_stateless(c, &j) : begin(c, &j));
  return pf_parallel(c, pf_numel(j.out), pf_grain(128), gamma_range, &j);
}
static pf_status random_poisson(pf_ctx *c, const void *state) {
  job j;
  (void)state;
  PF_TRY(c->n_in == 3 ? begin_stateless(c, &j) : begin(c, &j));
  for (int64_t i = 0; i < pf_numel(j.parameter); i++) {
    double rate = get(j.parameter, j.in_type, i);
    if (!(rate >= 0) || isinf(rate))
      return PF_INVALID(c, "rate must be finite and not negative, got %g at %" PRId64, rate, i);
  }
  PF_TRY(pf_parallel(c, pf_numel(j.out), pf_grain(256), poisson_range, &j));
  return j.failed ? PF_INVALID(c, "a rate is too large for %s", pf_type_name(j.out_type)) : PF_OK;
}

const pf_kernel *const PF_ISA_NAME(random_gamma_kernels)[] = {
  PF_CPU_LONG("RandomGamma", "T=float|double|half", .compute = random_gamma),
  PF_CPU_LONG("RandomPoisson", NULL, .compute = random_poisson),
  PF_CPU_LONG("RandomPoissonV2", NULL, .compute = random_poisson),
  PF_CPU_LONG("StatelessRandomGammaV2", NULL, .compute = random_gamma),
  PF_CPU_LONG("StatelessRandomPoisson", NULL, .compute = random_poisson),
  NULL};
