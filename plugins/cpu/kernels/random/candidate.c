/* candidate.c - UniformCandidateSampler, LogUniformCandidateSampler, AllCandidateSampler, and
 * ComputeAccidentalHits.
 *
 * Invariants
 *   1. The expected count of a class is p n for n draws, and 1 - (1 - p)^tries for unique ones.
 *   2. AllCandidateSampler draws nothing: its candidates are 0, 1, 2, ...
 * Threads: one call is one thread; calls share nothing.
 *
 * Source: Jean et al. 2014; TF's range samplers.
 */
#include "random/candidate.h"
#include <float.h>

typedef struct { candidate_attrs a; } range_state;

pf_status pf_candidate_check(pf_ctx *c, const candidate_attrs *a) {
  const DLTensor *t = c->in[0];
  if (t->ndim != 2) return PF_INVALID(c, "true_classes must be a matrix, got %s", PF_SHAPE(t).s);
  if (t->shape[1] != a->num_true)
    return PF_INVALID(
        c, "true_classes must have num_true columns, expected: %" PRId64 " was: %" PRId64,
        a->num_true, t->shape[1]);
  if (a->num_sampled > MAX_CANDIDATES)
    return pf_failf(c, PF_RESOURCE_EXHAUSTED, "num_sampled is %" PRId64 ", at most %d are drawn",
                    a->num_sampled, MAX_CANDIDATES);
  return PF_OK;
}

/* ---------------------------------------------------------------- drawing */
static pf_status draw_unique(pf_ctx *c, const candidate_sampler *s, candidate_rng *r, int64_t *out,
                             int64_t n, int64_t *tries) {
  candidate_set seen;
  PF_TRY(candidate_set_open(c, n, &seen));
  *tries = 0;
  for (int64_t i = 0; i < n;) {
    int64_t v = s->draw(s, r), slot = candidate_slot(&seen, v);
    if (++*tries >= MAX_TRIES)
      return pf_failf(c, PF_RESOURCE_EXHAUSTED,
                      "%" PRId64 " unique candidates of %" PRId64
                      " were not found in %d tries: sample fewer",
                      n, s->range, MAX_TRIES);
    if ((*tries & 0xfffff) == 0 && c->host->cancelled(c))
      return pf_fail(c, PF_CANCELLED, "the step was cancelled");
    if (seen.value[slot] >= 0) continue;
    seen.key[slot] = v;
    seen.value[slot] = 0;
    out[i++] = v;
  }
  return PF_OK;
}

static float expected_count(const candidate_sampler *s, int64_t v, int64_t n, int64_t tries) {
  float p = s->probability(s, v);
  return tries == n ? p * (float)n : -expm1f((float)tries * log1pf(-p));
}

pf_status pf_candidates(pf_ctx *c, const candidate_attrs *a, const candidate_sampler *s) {
  int64_t n = a->num_sampled, tries = n, n_true = pf_numel(c->in[0]);
  const int64_t *classes = PF_DATA(const int64_t, c->in[0]);
  if (a->unique && n > s->range)
    return PF_INVALID(c,
                      "Sampler's range is too small: %" PRId64 " unique candidates of %" PRId64
                      " were asked for",
                      n, s->range);
  DLTensor *out = c->host->output(c, 0, &n, 1),
           *true_count = c->host->output(c, 1, c->in[0]->shape, 2),
           *count = c->host->output(c, 2, &n, 1);
  if (!out || !true_count || !count) return PF_RESOURCE_EXHAUSTED;
  int64_t *v = PF_DATA(int64_t, out);
  if (s->draw) {
    candidate_rng r;
    PF_TRY(candidate_open(c, n, &r));
    if (a->unique) PF_TRY(draw_unique(c, s, &r, v, n, &tries));
    else
      for (int64_t i = 0; i < n; i++) v[i] = s->draw(s, &r);
  } else {
    for (int64_t i = 0; i < n; i++) v[i] = i;
  }
  float *at_true = PF_DATA(float, true_count), *at = PF_DATA(float, count);
  for (int64_t i = 0; i < n_true; i++)
    at_true[i] = s->draw ? expected_count(s, classes[i], n, tries) : 1.0f;
  for (int64_t i = 0; i < n; i++) at[i] = s->draw ? expected_count(s, v[i], n, tries) : 1.0f;
  return PF_OK;
}

/* ---------------------------------------------------------------- ranges */
static int64_t uniform_draw(const candidate_sampler *s, candidate_rng *r) {
  uint64_t n = (uint64_t)s->range, top = UINT64_MAX - UINT64_MAX % n, x;
  do x = candidate_long(r);
  while (x >= top);
  return (int64_t)(x % n);
}
static float uniform_probability(const candidate_sampler *s, int64_t v) {
  (void)v;
  return (float)(1.0 / (double)s->range);
}
static int64_t log_uniform_draw(const candidate_sampler *s, candidate_rng *r) {
  double log_range = log1p((double)s->range);
  return ((int64_t)exp(candidate_double(r) * log_range) - 1) % s->range;
}
static float log_uniform_probability(const candidate_sampler *s, int64_t v) {
  double x = (double)v;
  return (float)(log((x + 2.0) / (x + 1.0)) / log1p((double)s->range));
}

static pf_status uniform(pf_ctx *c, const void *state) {
  const range_state *s = state;
  candidate_sampler k = {s->a.range_max, uniform_draw, uniform_probability, NULL};
  PF_TRY(pf_candidate_check(c, &s->a));
  return pf_candidates(c, &s->a, &k);
}
static pf_status log_uniform(pf_ctx *c, const void *state) {
  const range_state *s = state;
  candidate_sampler k = {s->a.range_max, log_uniform_draw, log_uniform_probability, NULL};
  PF_TRY(pf_candidate_check(c, &s->a));
  return pf_candidates(c, &s->a, &k);
}
static pf_status all(pf_ctx *c, const void *state) {
  const range_state *s = state;
  candidate_sampler k = {s->a.num_sampled, NULL, NULL, NULL};
  PF_TRY(pf_candidate_check(c, &s->a));
  return pf_candidates(c, &s->a, &k);
}

/* ---------------------------------------------------------------- hits */
/* Pairs (row, candidate) in which the candidate is one of the row's true classes. */
static int64_t list_hits(pf_ctx *c, const candidate_set *seen, DLTensor *const out[3]) {
  const DLTensor *t = c->in[0];
  int64_t n = 0;
  for (int64_t i = 0; i < pf_numel(t); i++) {
    int64_t slot = candidate_slot(seen, PF_DATA(const int64_t, t)[i]);
    if (seen->value[slot] < 0) continue;
    if (out) {
      PF_DATA(int32_t, out[0])[n] = (int32_t)(i / t->shape[1]);
      PF_DATA(int64_t, out[1])[n] = seen->value[slot];
      PF_DATA(float, out[2])[n] = -FLT_MAX;
    }
    n++;
  }
  return n;
}

static pf_status accidental_hits(pf_ctx *c, const void *state) {
  const range_state *s = state;
  const DLTensor *sampled = c->in[1];
  candidate_attrs a = s->a;
  a.num_sampled = 0;
  PF_TRY(pf_candidate_check(c, &a));
  if (sampled->ndim != 1)
    return PF_INVALID(c,
                      "sampled_candidates must be a vector, which is typically an output from "
                      "CandidateSampler, got shape %s",
                      PF_SHAPE(sampled).s);
  int64_t count = sampled->shape[0];
  if (count > INT32_MAX / 4 || c->in[0]->shape[0] > INT32_MAX)
    return PF_INVALID(c, "too many candidates or rows: %" PRId64, count);
  candidate_set seen;
  PF_TRY(candidate_set_open(c, count, &seen));
  for (int64_t i = 0; i < count; i++) {
    int64_t v = PF_DATA(const int64_t, sampled)[i], slot = candidate_slot(&seen, v);
    seen.key[slot] = v;
    seen.value[slot] = (int32_t)i; /* of equal candidates, the last */
  }
  int64_t n = list_hits(c, &seen, NULL);
  DLTensor *out[3];
  for (int32_t i = 0; i < 3; i++) PF_EXHAUSTED(out[i] = c->host->output(c, i, &n, 1));
  if (n) list_hits(c, &seen, out);
  return PF_OK;
}

#define RANGE CANDIDATE_FIELD(range_state, "range_max", PF_ATTR_INT, a.range_max)
#define ENTRY(op, fn, ...) PF_CPU_LONG(op, NULL, \
  .attrs = PF_ATTRS(__VA_ARGS__), .state_size = sizeof(range_state), .compute = fn)
const pf_kernel *const candidate_kernels[] = {
  ENTRY("UniformCandidateSampler", uniform, CANDIDATE_ATTRS(range_state), RANGE),
  ENTRY("LogUniformCandidateSampler", log_uniform, CANDIDATE_ATTRS(range_state), RANGE),
  ENTRY("AllCandidateSampler", all, CANDIDATE_ATTRS(range_state)),
  ENTRY("ComputeAccidentalHits", accidental_hits,
        CANDIDATE_FIELD(range_state, "num_true", PF_ATTR_INT, a.num_true)),
  NULL};
