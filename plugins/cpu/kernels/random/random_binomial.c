/* random_binomial.c - StatelessRandomBinomial.
 *
 * Method: below ten expected successes the waiting times between them, geometric variates, are
 * counted (inversion); above, Hormann's transformed rejection with squeeze ("The generation of
 * binomial random variates", 1993).  Element i starts 256 or 42 counters past
 * that of the one before, as in TF's kernel, so equal seeds give TF's numbers; 84 waits reach the
 * next element's counters, ten are expected. Threads: parallel_for over elements.
 */
#include "elementwise/gamma.h"
#include "random/philox.h"

enum { REJECTION_RESERVED = 256, WAITING_RESERVED = 42, TRIES = 100000, MOST_WAITS = 100000 };
typedef struct {
  pf_sample_shape sample;
  const DLTensor *counts, *probs;
  DLTensor *out;
  int32_t type, out_type, ndim;
  int64_t dims[PF_MAX_DIMS], count_stride[PF_MAX_DIMS], prob_stride[PF_MAX_DIMS];
  int64_t batches, samples;
  int failed;
} job;

static double get(const DLTensor *t, int32_t type, int64_t i) {
  switch (type) {
    case PF_FLOAT64: return PF_DATA(const double, t)[i];
    case PF_FLOAT32: return PF_DATA(const float, t)[i];
    case PF_FLOAT16: return pf_from_half(PF_DATA(const uint16_t, t)[i]);
    default: return (double)pf_index_at(t, type, i);
  }
}
static double most_of(int32_t type) {
  return type == PF_INT32 ? INT32_MAX : type == PF_INT64 ? 0x1p63 - 1024 : INFINITY;
}
static int put(DLTensor *t, int32_t type, int64_t i, double v) {
  switch (type) {
    case PF_FLOAT64: PF_DATA(double, t)[i] = v; return 1;
    case PF_FLOAT32: PF_DATA(float, t)[i] = (float)v; return 1;
    case PF_FLOAT16: PF_DATA(uint16_t, t)[i] = pf_to_half((float)v); return 1;
    default: {
      int fits = v >= 0 && v <= most_of(type);
      pf_put_index(t, type, i, fits ? (int64_t)v : 0);
      return fits;
    }
  }
}

/* successes among `count` trials, by the waits between them */
static double by_waiting(pf_philox *g, double count, double prob) {
  double waited = 0, found = 0, scale = log1p(-prob);
  for (int i = 0; i < MOST_WAITS; i++, found++) {
    waited += ceil(log(pf_philox_unit(g)) / scale);
    if (!(waited <= count)) return found;
  }
  return found;
}

/* log k! less Stirling's formula for it */
static double stirling_rest(double k) {
  if (k <= 9)
    return pf_log_gamma(k + 1) - 0.91893853320467274178 - (k + 0.5) * log(k + 1) + (k + 1);
  double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}
static double by_rejection(pf_philox *g, double count, double prob) {
  double deviation = sqrt(count * prob * (1 - prob));
  double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * prob;
  double centre = count * prob + 0.5, tight = 0.92 - 4.2 / b, odds = prob / (1 - prob);
  double alpha = (2.83 + 5.1 / b) * deviation, mode = floor((count + 1) * prob);
  for (int i = 0; i < TRIES; i++) {
    double u = pf_philox_unit(g), v = pf_philox_unit(g);
    u -= 0.5;
    double left = 0.5 - fabs(u), k = floor((2 * a / left + b) * u + centre);
    if (left >= 0.07 && v <= tight) return k;
    if (!(k >= 0 && k <= count)) continue;
    double bound = (mode + 0.5) * log((mode + 1) / (odds * (count - mode + 1))) +
                   (count + 1) * log((count - mode + 1) / (count - k + 1)) +
                   (k + 0.5) * log(odds * (count - k + 1) / (k + 1)) + stirling_rest(mode) +
                   stirling_rest(count - mode) - stirling_rest(k) - stirling_rest(count - k);
    if (log(v * alpha / (a / (left * left) + b)) <= bound) return k;
  }
  return NAN; /* counts without bound only */
}
static double variate(const pf_philox *base, uint64_t i, double count, double prob) {
  if (!(count > 0) || prob <= 0) return isnan(count) ? NAN : 0;
  if (prob >= 1) return count;
  if (isnan(prob) || isinf(count)) return NAN;
  double p = prob <= 0.5 ? prob : 1 - prob;
  int many = count * p >= 10;
  pf_philox g = pf_philox_skip(base, i * (many ? REJECTION_RESERVED : WAITING_RESERVED));
  double k = many ? by_rejection(&g, count, p) : by_waiting(&g, count, p);
  return prob <= 0.5 ? k : count - k;
}

/* the element of a broadcast parameter that batch b takes */
static int64_t place(const job *j, const int64_t *stride, int64_t b) {
  int64_t at = 0;
  for (int32_t d = j->ndim - 1; d >= 0; d--) {
    at += b % j->dims[d] * stride[d];
    b /= j->dims[d];
  }
  return at;
}
static void binomial_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  job *j = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    int64_t b = i / j->samples, s = i % j->samples;
    double k =
        variate(&j->sample.base, (uint64_t)i, get(j->counts, j->type, place(j, j->count_stride, b)),
                get(j->probs, j->type, place(j, j->prob_stride, b)));
    if (!put(j->out, j->out_type, s * j->batches + b, k))
      __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
  }
}

/* strides of t within the last dimensions of the result; 0 along its dimensions of 1 */
static int strides_in(const job *j, const DLTensor *t, int64_t *stride) {
  int64_t step = 1;
  for (int32_t d = j->ndim - 1, k = t->ndim - 1; d >= 0; d--, k--) {
    int64_t size = k >= 0 ? t->shape[k] : 1;
    if (size != 1 && size != j->dims[d]) return 0;
    stride[d] = size == 1 ? 0 : step;
    step *= size;
  }
  return 1;
}
static pf_status begin(pf_ctx *c, job *j) {
  pf_sample_shape *s = &j->sample;
  PF_TRY(pf_stateless_shape(c, s));
  const DLTensor *counts = c->in[2], *probs = c->in[3];
  j->counts = counts, j->probs = probs, j->type = c->in_type[2], j->out_type = c->out_type[0];
  j->ndim = PF_MAX(counts->ndim, probs->ndim);
  if (j->ndim > s->ndim)
    return PF_INVALID(c, "the shape %s must end with what counts %s and probs %s broadcast to",
                      pf_shape_text(s->shape, s->ndim).s, PF_SHAPE(counts).s, PF_SHAPE(probs).s);
  j->batches = 1;
  for (int32_t d = 0; d < j->ndim; d++) {
    int32_t a = d - (j->ndim - counts->ndim), b = d - (j->ndim - probs->ndim);
    int64_t x = a >= 0 ? counts->shape[a] : 1, y = b >= 0 ? probs->shape[b] : 1;
    j->dims[d] = x == 1 ? y : x;
    if (j->dims[d] != s->shape[s->ndim - j->ndim + d])
      return PF_INVALID(c, "the shape %s must end with what counts %s and probs %s broadcast to",
                        pf_shape_text(s->shape, s->ndim).s, PF_SHAPE(counts).s, PF_SHAPE(probs).s);
  }
  if (!strides_in(j, counts, j->count_stride) || !strides_in(j, probs, j->prob_stride))
    return PF_INVALID(c, "counts %s and probs %s do not broadcast", PF_SHAPE(counts).s,
                      PF_SHAPE(probs).s);
  j->out = pf_output_checked(c, 0, s->shape, s->ndim);
  if (!j->out) return PF_INVALID_ARGUMENT;
  for (int32_t d = 0; d < j->ndim; d++) j->batches *= PF_MAX(j->dims[d], 1);
  j->samples = PF_MAX(pf_numel(j->out) / j->batches, 1);
  return PF_OK;
}
static pf_status random_binomial(pf_ctx *c, const void *state) {
  job j = {.failed = 0};
  (void)state;
  PF_TRY(begin(c, &j));
  if (!pf_numel(j.out)) return PF_OK;
  PF_TRY(pf_parallel(c, pf_numel(j.out), pf_grain(256), binomial_range, &j));
  return j.failed
             ? PF_INVALID(c, "counts that are NaN or too large for %s", pf_type_name(j.out_type))
             : PF_OK;
}

const pf_kernel *const random_binomial_kernels[] = {
  PF_CPU_LONG("StatelessRandomBinomial", NULL, .compute = random_binomial), NULL};
