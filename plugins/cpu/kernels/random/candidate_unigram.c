/* candidate_unigram.c - candidate samplers by class frequency: FixedUnigramCandidateSampler, whose
 * frequencies are given, LearnedUnigramCandidateSampler and ThreadUnsafeUnigramCandidateSampler,
 * which count the true classes they see.
 *
 * Invariants
 *   1. Fixed: frequencies to the power `distortion`, drawn through an alias table (Walker 1977),
 *      built once per node; reserved ids have weight 0.
 *   2. Learned: every class starts at 1.  Counts are in a tree of partial sums (Fenwick 1994), so
 *      drawing and counting take log(range) steps.  They belong to the node, outlive the step, and
 *      change after the step's candidates are drawn.
 * Threads: learned counts are guarded by their own lock; fixed tables are read-only.
 */
#include "random/candidate.h"
#include <pthread.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- fixed frequencies */
typedef struct {
  candidate_attrs a;
  pf_str vocab_file;
  pf_list unigrams;
  double distortion;
  int64_t num_reserved_ids, num_shards, shard;
  /* made by init */
  float *weight, *keep;  /* keep: probability of taking a bucket's own class */
  int32_t *other;        /* else this one */
  int64_t n, room, word; /* word: the next id, of all shards */
  double total;
} fixed_state;

/* One more class; 0: out of memory */
static int add_weight(fixed_state *s, double frequency, int reserved) {
  if (s->word++ % s->num_shards != s->shard) return 1;
  if (s->n == s->room) {
    int64_t room = s->room ? 2 * s->room : 64;
    float *w = realloc(s->weight, (size_t)room * sizeof *w);
    if (!w) return 0;
    s->weight = w;
    s->room = room;
  }
  float w = reserved ? 0.0f : (float)pow(frequency, s->distortion);
  s->weight[s->n++] = w;
  s->total += w;
  return 1;
}

/* The last column of each line of a comma separated file. */
static pf_status read_vocabulary(pf_ctx *c, fixed_state *s) {
  char path[4096], line[65536];
  snprintf(path, sizeof path, "%.*s", (int)s->vocab_file.len, s->vocab_file.data);
  FILE *f = s->vocab_file.len < (int64_t)sizeof path ? fopen(path, "r") : NULL;
  if (!f) return pf_failf(c, PF_NOT_FOUND, "vocab_file %s cannot be read", path);
  int ok = 1;
  while (ok && s->n <= s->a.range_max && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\r\n")] = 0;
    const char *last = strrchr(line, ','), *text = last ? last + 1 : line;
    char *end;
    double v = strtod(text, &end);
    if (end == text || v < 0) {
      fclose(f);
      return PF_INVALID(c, "vocab_file %s: line %" PRId64 " does not end in a frequency", path,
                        s->word + 1);
    }
    ok = add_weight(s, v, 0);
  }
  fclose(f);
  return ok ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for frequencies");
}

/* Walker's table: buckets below average are filled up by classes above. */
static pf_status build_table(pf_ctx *c, fixed_state *s) {
  int64_t n = s->n, low = 0, high = n;
  double *p = malloc((size_t)n * sizeof *p);
  int32_t *stack = malloc((size_t)n * sizeof *stack); /* low from the left, high from the right */
  s->keep = malloc((size_t)n * sizeof *s->keep);
  s->other = malloc((size_t)n * sizeof *s->other);
  pf_status status = PF_RESOURCE_EXHAUSTED;
  if (p && stack && s->keep && s->other) {
    for (int64_t i = 0; i < n; i++) {
      p[i] = (double)(s->weight[i] * (float)n) / s->total;
      s->other[i] = (int32_t)i;
      if (p[i] < 1.0) stack[low++] = (int32_t)i;
      else stack[--high] = (int32_t)i;
    }
    while (low > 0 && high < n) {
      int32_t l = stack[--low], h = stack[high++];
      s->other[l] = h;
      p[h] -= 1.0 - p[l];
      if (p[h] < 1.0) stack[low++] = h;
      else stack[--high] = h;
    }
    for (int64_t i = 0; i < n; i++) s->keep[i] = (float)p[i];
    while (low > 0) s->keep[stack[--low]] = 1.0f; /* rounding left these near 1 */
    while (high < n) s->keep[stack[high++]] = 1.0f;
    status = PF_OK;
  }
  free(p);
  free(stack);
  return status ? pf_fail(c, status, "no memory for an alias table") : PF_OK;
}

static void fixed_fini(void *state) {
  fixed_state *s = state;
  free(s->weight);
  free(s->keep);
  free(s->other);
  s->weight = s->keep = NULL;
  s->other = NULL;
}

static pf_status make_table(pf_ctx *c, fixed_state *s) {
  const double *given = s->unigrams.items;
  if (s->num_shards < 1 || s->shard < 0 || s->shard >= s->num_shards)
    return PF_INVALID(c, "shard must be in [0, num_shards = %" PRId64 "), got %" PRId64,
                      s->num_shards, s->shard);
  if ((s->vocab_file.len > 0) == (s->unigrams.n > 0))
    return PF_INVALID(c, "Must provide exactly one of vocab_file and unigrams");
  if (s->num_reserved_ids < 0 || s->num_reserved_ids > MAX_CANDIDATES)
    return PF_INVALID(c, "num_reserved_ids must be in [0, %d], got %" PRId64, MAX_CANDIDATES,
                      s->num_reserved_ids);
  int ok = 1;
  for (int64_t i = 0; i < s->num_reserved_ids && ok; i++) ok = add_weight(s, 0, 1);
  for (int64_t i = 0; i < s->unigrams.n && ok; i++) {
    if (!(given[i] >= 0))
      return PF_INVALID(c, "unigrams[%" PRId64 "] = %g is no frequency", i, given[i]);
    ok = add_weight(s, given[i], 0);
  }
  if (!ok) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for frequencies");
  if (s->vocab_file.len) PF_TRY(read_vocabulary(c, s));
  if (s->n != s->a.range_max)
    return PF_INVALID(
        c, "range_max is %" PRId64 ", but there are %" PRId64 " classes in shard %" PRId64,
        s->a.range_max, s->n, s->shard);
  if (!(s->total > 0) || isinf(s->total))
    return PF_INVALID(c, "the frequencies sum to %g; some must be positive and all finite",
                      s->total);
  return build_table(c, s);
}
static pf_status fixed_init(pf_ctx *c, void *state) {
  pf_status status = make_table(c, state);
  if (status) fixed_fini(state);
  return status;
}

static int64_t fixed_draw(const candidate_sampler *k, candidate_rng *r) {
  const fixed_state *s = k->data;
  float x = candidate_float(r);
  uint32_t i = candidate_word(r) % (uint32_t)s->n;
  return x < s->keep[i] ? (int64_t)i : s->other[i];
}
static float fixed_probability(const candidate_sampler *k, int64_t v) {
  const fixed_state *s = k->data;
  return v < 0 || v >= s->n ? 0.0f : (float)((double)s->weight[v] / s->total);
}

static pf_status fixed_unigram(pf_ctx *c, const void *state) {
  const fixed_state *s = state;
  candidate_sampler k = {s->n, fixed_draw, fixed_probability, s};
  PF_TRY(pf_candidate_check(c, &s->a));
  int64_t possible = 0;
  for (int64_t i = 0; i < s->n && s->a.unique; i++) possible += s->weight[i] > 0;
  if (s->a.unique && s->a.num_sampled > possible)
    return PF_INVALID(c,
                      "%" PRId64 " unique candidates were asked for, but only %" PRId64
                      " classes have a positive frequency",
                      s->a.num_sampled, possible);
  return pf_candidates(c, &s->a, &k);
}

/* ---------------------------------------------------------------- learned frequencies */
typedef struct { candidate_attrs a; } learned_state;
typedef struct {
  pthread_mutex_t lock;
  int64_t range, top, total; /* top: the greatest power of 2 in range */
  int64_t sum[];             /* [range + 1]: partial sums */
} counts;

static int64_t count_of(const counts *t, int64_t v) {
  int64_t n = 0, i = v + 1, stop = i - (i & -i);
  n = t->sum[i];
  for (i--; i > stop; i -= i & -i) n -= t->sum[i];
  return n;
}
static void count_one(counts *t, int64_t v) {
  for (int64_t i = v + 1; i <= t->range; i += i & -i) t->sum[i]++;
  t->total++;
}
/* The first class whose running sum is above r. */
static int64_t learned_draw(const candidate_sampler *k, candidate_rng *random) {
  const counts *t = k->data;
  int64_t r = (int64_t)(candidate_word(random) % (uint32_t)PF_MIN(t->total, UINT32_MAX)), at = 0;
  for (int64_t step = t->top; step; step /= 2)
    if (at + step <= t->range && t->sum[at + step] <= r) r -= t->sum[at += step];
  return at;
}
static float learned_probability(const candidate_sampler *k, int64_t v) {
  const counts *t = k->data;
  return (float)count_of(t, v) / (float)t->total;
}

static void free_counts(void *obj) {
  counts *t = obj;
  pthread_mutex_destroy(&t->lock);
  free(t);
}
static const pf_type counts_type = {
  .size = sizeof(pf_type), .id = "pyflow.UnigramCounts", .unref = free_counts};

static pf_status make_counts(pf_ctx *c, void *arg, void **obj) {
  int64_t range = *(const int64_t *)arg;
  if (range > MAX_CANDIDATES)
    return pf_failf(c, PF_RESOURCE_EXHAUSTED, "range_max is %" PRId64 ", at most %d are counted",
                    range, MAX_CANDIDATES);
  counts *t = malloc(sizeof *t + (size_t)(range + 1) * 8);
  if (!t) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for class counts");
  pthread_mutex_init(&t->lock, NULL);
  t->range = t->total = range;
  for (t->top = 1; t->top * 2 <= range;) t->top *= 2;
  t->sum[0] = 0;
  for (int64_t i = 1; i <= range; i++) t->sum[i] = i & -i;
  *obj = t;
  return PF_OK;
}

static pf_status learned_unigram(pf_ctx *c, const void *state) {
  const learned_state *s = state;
  int64_t range = s->a.range_max;
  void *obj;
  PF_TRY(pf_candidate_check(c, &s->a));
  for (int64_t i = 0; i < pf_numel(c->in[0]); i++) {
    int64_t v = PF_DATA(const int64_t, c->in[0])[i];
    if (v < 0 || v >= range)
      return PF_INVALID(c, "true_classes[%" PRId64 "] = %" PRId64 " is not in [0, %" PRId64 ")", i,
                        v, range);
  }
  PF_TRY(c->host->resource(c, PF_SCOPE_CONTAINER, (pf_str){"", 0}, c->host->node_name(c),
                           &counts_type, make_counts, &range, &obj));
  counts *t = obj;
  if (t->range != range)
    return pf_failf(c, PF_FAILED_PRECONDITION,
                    "another sampler of this name has range_max %" PRId64 ", not %" PRId64,
                    t->range, range);
  candidate_sampler k = {range, learned_draw, learned_probability, t};
  pthread_mutex_lock(&t->lock);
  pf_status status = pf_candidates(c, &s->a, &k);
  for (int64_t i = 0; i < pf_numel(c->in[0]) && !status; i++)
    count_one(t, PF_DATA(const int64_t, c->in[0])[i]);
  pthread_mutex_unlock(&t->lock);
  return status;
}

#define FIXED(name, kind, field) CANDIDATE_FIELD(fixed_state, name, kind, field)
#define LEARNED(op) PF_CPU_LONG(op, NULL, \
  .attrs = PF_ATTRS(CANDIDATE_ATTRS(learned_state), \
                    CANDIDATE_FIELD(learned_state, "range_max", PF_ATTR_INT, a.range_max)), \
  .state_size = sizeof(learned_state), .compute = learned_unigram)
const pf_kernel *const candidate_unigram_kernels[] = {
  PF_CPU_LONG("FixedUnigramCandidateSampler", NULL,
              .attrs = PF_ATTRS(
                  CANDIDATE_ATTRS(fixed_state), FIXED("range_max", PF_ATTR_INT, a.range_max),
                  FIXED("vocab_file", PF_ATTR_STRING, vocab_file),
                  FIXED("distortion", PF_ATTR_FLOAT, distortion),
                  FIXED("num_reserved_ids", PF_ATTR_INT, num_reserved_ids),
                  FIXED("num_shards", PF_ATTR_INT, num_shards), FIXED("shard", PF_ATTR_INT, shard),
                  FIXED("unigrams", PF_ATTR_LIST | PF_ATTR_FLOAT, unigrams)),
              .state_size = sizeof(fixed_state), .init = fixed_init, .fini = fixed_fini,
              .compute = fixed_unigram),
  LEARNED("LearnedUnigramCandidateSampler"), LEARNED("ThreadUnsafeUnigramCandidateSampler"), NULL};
