/* tree_ensemble.c - _TreeEnsemble, _TreeEnsembleClassifier: scores of samples by decision trees.
 *
 *     samples x trees -> leaves -> scores per target, chunk by chunk of trees -> base values ->
 *     transform (and labels)
 *
 * A forest that is constant is compiled once, in init; other ones in each call.  Many samples:
 * blocks of them, a block through one tree after the other, so that a tree stays in the nearest
 * cache; small trees by masks (tree_masks.h), others by walks (tree_walk.h).  Few samples and many
 * trees: the chunks are shared out.
 *
 * Invariants: a sample's score is the sum of its chunks' sums, in order, so its bits depend neither
 * on the threads nor on the other samples.  Every place a sample is read at is below
 * forest.features, which compute compares with x.
 * Threads: parallel_for over blocks of samples, or over chunks of trees.
 */
#include "base/isa.h"
#include "base/machine.h"
#include "trees/forest.h"
#include "trees/tree_masks.h"

enum {
  LANES = 4,
  CHUNK = 64, /* walks side by side; trees of a chunk */
  BLOCK = 128,
  LEAST_BLOCK = 16,       /* samples */
  TURNED_FEATURES = 1024, /* that masks are worth turning samples for */
  SPLIT_STEPS = 30000
}; /* of walks: below, no other thread is asked */
enum { SUM, AVERAGE, MINIMUM, MAXIMUM };
enum { NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT };
/* Whose the single score of a sample is: the class it is for; of the second class, its complement,
 * its negative. */
enum { AS_IT_IS, COMPLEMENT, NEGATIVE };

#define NODE pf_tree_narrow
#define T float
#define TAG narrow
#define NAN_BIT PF_TREE_NARROW_NAN
#include "trees/tree_walk.h"
#define NODE pf_tree_wide
#define T float
#define TAG wide
#define NAN_BIT PF_TREE_WIDE_NAN
#include "trees/tree_walk.h"
#define NODE pf_tree_double
#define T double
#define TAG double_
#define NAN_BIT PF_TREE_WIDE_NAN
#include "trees/tree_walk.h"

typedef struct {
  int32_t T, U;
  int64_t n_targets;
  pf_str aggregate, post_transform;
  int32_t how, transform;
  pf_forest *forest; /* NULL: of no constants */
} tree_state;

typedef struct {
  const pf_forest *f;
  const void *x;
  int64_t samples, stride, block, chunks; /* stride: features of a sample */
  int32_t how, transform, out_type;
  void *out;
  const int64_t *classes; /* labels: a classifier */
  int64_t *labels;
  char *work;     /* by blocks: two rooms a worker; by chunks: 1 + chunks */
  int64_t room;   /* bytes of one: sums and marks, [block][targets] */
  int64_t turned; /* bytes of a block's samples, turned; 0: walks alone */
} tree_call;

/* ---------------------------------------------------------------- walks */
#define MIXED(T, tag, NODE) \
static int64_t mixed_##tag(const pf_forest *f, const pf_tree *tree, const T *x) { \
  const NODE *nodes = (const NODE *)f->nodes + tree->first; \
  const uint8_t *modes = f->mode + tree->first; \
  const T *members = f->members; \
  int64_t at = 0; \
  for (int32_t i = 0; i < tree->most; i++) { \
    const T v = x[nodes[at].feature], split = nodes[at].split; \
    int go = 0; \
    switch (modes[at] & ~PF_MIXED_NAN) { \
      case PF_BRANCH_LEQ: go = v <= split; break; \
      case PF_BRANCH_LT: go = v < split; break; \
      case PF_BRANCH_GTE: go = v >= split; break; \
      case PF_BRANCH_GT: go = v > split; break; \
      case PF_BRANCH_EQ: go = v == split; break; \
      case PF_BRANCH_NEQ: go = v != split; break; \
      default: \
        for (const T *m = members + f->member[tree->first + at]; *m == *m && !go; m++) \
          go = v == *m; \
    } \
    go |= (modes[at] & PF_MIXED_NAN) != 0 && v != v; \
    at = nodes[at].child + (uint32_t)go; \
  } \
  return tree->first + at; \
}
MIXED(float, f32, pf_tree_wide)
MIXED(double, f64, pf_tree_double)

static const void *row_of(const tree_call *p, int64_t sample) {
  return (const char *)p->x + sample * p->stride * pf_type_size(p->f->type);
}

/* Places of the leaves of samples from `first` on in one tree; of one sample in n trees. */
static void leaves_of_samples(const tree_call *p, const pf_tree *tree, int64_t first,
                              int64_t samples, int64_t *at) {
  const pf_forest *f = p->f;
  const void *x = row_of(p, first);
  if (f->kind == PF_TREES_MIXED)
    for (int64_t i = 0; i < samples; i++)
      at[i] = f->type == PF_FLOAT64 ? mixed_f64(f, tree, row_of(p, first + i))
                                    : mixed_f32(f, tree, row_of(p, first + i));
  else if (f->type == PF_FLOAT64) leaves_of_samples_double_(f, tree, x, p->stride, samples, at);
  else if (f->narrow) leaves_of_samples_narrow(f, tree, x, p->stride, samples, at);
  else leaves_of_samples_wide(f, tree, x, p->stride, samples, at);
}
static void leaves_of_trees(const tree_call *p, const pf_tree *tree, int64_t n, int64_t sample,
                            int64_t *at) {
  const pf_forest *f = p->f;
  const void *x = row_of(p, sample);
  if (f->kind == PF_TREES_MIXED)
    for (int64_t i = 0; i < n; i++)
      at[i] = f->type == PF_FLOAT64 ? mixed_f64(f, tree + i, x) : mixed_f32(f, tree + i, x);
  else if (f->type == PF_FLOAT64) leaves_of_trees_double_(f, tree, n, x, at);
  else if (f->narrow) leaves_of_trees_narrow(f, tree, n, x, at);
  else leaves_of_trees_wide(f, tree, n, x, at);
}

/* A block's samples, group by group, as masks want them. */
static void turn(const tree_call *p, int64_t first, int64_t samples, float *to) {
  for (int64_t g = 0; g < samples; g += GROUP)
    turn_group(row_of(p, first + g), p->stride, p->f->features, PF_MIN(samples - g, GROUP),
               to + g * p->f->features);
}

/* ---------------------------------------------------------------- scores, for one element type */
static float logistic_f32(float v) {
  float y = 1 / (1 + expf(-fabsf(v)));
  return v < 0 ? 1 - y : y;
}
static double logistic_f64(double v) {
  double y = 1 / (1 + exp(-fabs(v)));
  return v < 0 ? 1 - y : y;
}
/* The inverse of the normal distribution's function as ONNX's users get it: Winitzki's formula, in
 * float. */
static float probit(float p) {
  float x = 2 * p - 1, sign = x < 0 ? -1.0f : 1.0f, log_ = logf((1 - x) * (1 + x));
  float v = 2 / (3.14159f * 0.147f) + 0.5f * log_;
  return 1.41421356f * (sign * sqrtf(-v + sqrtf(v * v - 1 / 0.147f * log_)));
}

#define SCORES(T, tag, EXP) \
/* What one leaf adds to a sample's sums. */ \
PF_INLINE void add_leaf_##tag(const tree_call *p, const pf_tree *tree, int64_t at, T *sum, \
                              uint8_t *mark) { \
  const pf_forest *f = p->f; \
  if (tree->target >= 0 && p->how <= AVERAGE) { \
    sum[tree->target] += ((const T *)f->value)[at]; \
    mark[tree->target] = 1; \
    return; \
  } \
  for (int64_t j = f->starts[f->leaf[at]], end = f->starts[f->leaf[at] + 1]; j < end; j++) { \
    const T w = ((const T *)f->weight)[j]; \
    T *s = sum + f->target[j]; \
    uint8_t *m = mark + f->target[j]; \
    if (p->how <= AVERAGE) *s += w; \
    else if (!*m || (p->how == MINIMUM ? w < *s : w > *s)) *s = w; \
    *m = 1; \
  } \
} \
/* What one tree adds to the sums of a block of samples. */ \
static void add_tree_##tag(const tree_call *p, const pf_tree *tree, int64_t first, \
                           int64_t samples, const float *turned, T *sum, uint8_t *mark) { \
  const int64_t k = p->f->targets; \
  const int alone = k == 1 && tree->target >= 0 && p->how <= AVERAGE; \
  int64_t at[BLOCK]; \
  if (turned && tree->words) { \
    int32_t leaf[BLOCK + GROUP]; \
    for (int64_t g = 0; g < samples; g += GROUP) \
      masked_leaves(p->f, tree, turned + g * p->f->features, PF_MIN(samples - g, GROUP), \
                    leaf + g); \
    if (alone) { \
      const float *value = p->f->leaf_value + tree->first_leaf; \
      for (int64_t i = 0; i < samples; i++) sum[i] += (T)value[leaf[i]]; \
      return; \
    } \
    for (int64_t i = 0; i < samples; i++) at[i] = p->f->leaf_node[tree->first_leaf + leaf[i]]; \
  } else { \
    leaves_of_samples(p, tree, first, samples, at); \
  } \
  if (alone) \
    for (int64_t i = 0; i < samples; i++) sum[i] += ((const T *)p->f->value)[at[i]]; \
  else \
    for (int64_t i = 0; i < samples; i++) \
      add_leaf_##tag(p, tree, at[i], sum + i * k, mark + i * k); \
} \
/* The sums of samples from `first` on over a chunk's trees; `sum` and `mark` begin as zeros. */ \
static void sum_chunk_##tag(const tree_call *p, int64_t chunk, int64_t first, int64_t samples, \
                            const float *turned, T *sum, uint8_t *mark) { \
  const pf_tree *tree = p->f->tree; \
  const int64_t from = chunk * CHUNK, to = PF_MIN(from + CHUNK, p->f->trees), k = p->f->targets; \
  const int64_t even = turned ? samples : samples / LANES * LANES; \
  int64_t at[LANES]; \
  for (int64_t t = from; t < to && even; t++) \
    add_tree_##tag(p, tree + t, first, even, turned, sum, mark); \
  if (k == 1 && even && p->f->scored[0] == PF_SCORED_ALWAYS) memset(mark, 1, (size_t)even); \
  for (int64_t i = even; i < samples; i++) \
    for (int64_t t = from; t < to; t += LANES) { \
      const int64_t n = PF_MIN(LANES, to - t); \
      leaves_of_trees(p, tree + t, n, first + i, at); \
      for (int64_t l = 0; l < n; l++) \
        add_leaf_##tag(p, tree + t + l, at[l], sum + i * k, mark + i * k); \
    } \
} \
/* A chunk's sums joined to those of the chunks before. */ \
static void join_##tag(const tree_call *p, int64_t n, const T *more, const uint8_t *marked, \
                       T *sum, uint8_t *mark) { \
  for (int64_t i = 0; i < n; i++) { \
    if (p->how <= AVERAGE) sum[i] += more[i]; \
    else if (marked[i] && (!mark[i] || (p->how == MINIMUM ? more[i] < sum[i] : more[i] > sum[i]))) \
      sum[i] = more[i]; \
    mark[i] |= marked[i]; \
  } \
} \
static void transform_##tag(int32_t transform, T *s, int64_t n) { \
  T top = s[0], total = 0; \
  switch (transform) { \
    case LOGISTIC: \
      for (int64_t i = 0; i < n; i++) s[i] = logistic_##tag(s[i]); \
      break; \
    case PROBIT: \
      for (int64_t i = 0; i < n; i++) s[i] = (T)probit((float)s[i]); \
      break; \
    case SOFTMAX: \
    case SOFTMAX_ZERO: /* what is zero stays so, and counts for nothing */ \
      for (int64_t i = 1; i < n; i++) top = s[i] > top ? s[i] : top; \
      for (int64_t i = 0; i < n; i++) { \
        const int none = transform == SOFTMAX_ZERO && s[i] <= (T)1e-7 && s[i] >= (T)-1e-7; \
        s[i] = none ? s[i] * EXP(-top) : EXP(s[i] - top); \
        total += none ? 0 : s[i]; \
      } \
      if (transform == SOFTMAX || total != 0) \
        for (int64_t i = 0; i < n; i++) s[i] /= total; \
      break; \
    default: break; \
  } \
} \
/* Of several targets, one that no leaf had a weight for stays 0. */ \
static void finish_regression_##tag(const tree_call *p, T *s, const uint8_t *mark) { \
  const int64_t k = p->f->targets; \
  const T *base = p->f->base; \
  for (int64_t i = 0; i < k; i++) { \
    if (p->how == AVERAGE && p->f->trees) s[i] /= (T)p->f->trees; \
    if (p->f->n_base == k && (mark[i] || k == 1)) s[i] += base[i]; \
  } \
  if (k > 1 || p->transform == PROBIT) transform_##tag(p->transform, s, k); \
} \
static int64_t best_class_##tag(const T *s, const uint8_t *mark, int64_t n) { \
  int64_t best = -1; \
  for (int64_t i = 0; i < n; i++) \
    if (mark[i] && (best < 0 || s[i] > s[best])) best = i; \
  return PF_MAX(best, 0); \
} \
/* The label of a sample of one class or two, and how its single score becomes two. */ \
static int64_t binary_label_##tag(const tree_call *p, const T *s, const uint8_t *mark, \
                                  int *second) { \
  const T weight = p->f->targets == 2 && mark[1] ? s[1] : mark[0] ? s[0] : 0; \
  if (p->f->targets == 2 && p->f->one_target) { \
    *second = p->f->positive ? COMPLEMENT : NEGATIVE; \
    return p->classes[weight > (p->f->positive ? (T)0.5 : 0)]; \
  } \
  return weight > 0; \
} \
static int64_t finish_classes_##tag(const tree_call *p, T *s, uint8_t *mark) { \
  const int64_t k = p->f->targets, n_base = p->f->n_base; \
  const T *base = p->f->base; \
  int second = AS_IT_IS; \
  int64_t label, n = k; \
  if (k > 2) { \
    for (int64_t i = 0; i < PF_MIN(n_base, k); i++) \
      s[i] = (mark[i] ? s[i] : 0) + base[i], mark[i] = 1; \
    label = p->classes[best_class_##tag(s, mark, k)]; \
  } else { \
    if (n_base == 2 && k == 2 && mark[1]) s[1] = base[1] + s[0], s[0] = -s[1]; \
    else if (n_base == 2 && k == 2) s[1] += base[1], s[0] += base[0]; \
    else if (n_base >= 1) s[0] += base[n_base == 2]; \
    if (k == 2 && n_base < 2 && !mark[1]) n = 1; \
    second = k == 2 && !n_base ? NEGATIVE : AS_IT_IS; \
    label = binary_label_##tag(p, s, mark, &second); \
    for (int64_t i = 0; i < k && k == 2; i++) s[i] = mark[i] ? s[i] : 0; \
  } \
  if (n < k && p->transform != PROBIT && second != AS_IT_IS) { \
    const T v = s[0]; \
    s[1] = p->transform == LOGISTIC ? logistic_##tag(v) : v; \
    s[0] = p->transform == LOGISTIC ? logistic_##tag(-v) : second == COMPLEMENT ? 1 - v : -v; \
  } else if (n > 1 || p->transform == PROBIT) { \
    transform_##tag(p->transform, s, n); \
  } \
  return label; \
} \
static void finish_##tag(const tree_call *p, int64_t first, int64_t samples, T *sum, \
                         uint8_t *mark) { \
  const int64_t k = p->f->targets; \
  for (int64_t i = 0; i < samples; i++) { \
    T *s = sum + i * k; \
    if (p->labels) p->labels[first + i] = finish_classes_##tag(p, s, mark + i * k); \
    else finish_regression_##tag(p, s, mark + i * k); \
    for (int64_t j = 0; j < k; j++) \
      if (p->out_type == PF_FLOAT64) ((double *)p->out)[(first + i) * k + j] = s[j]; \
      else ((float *)p->out)[(first + i) * k + j] = (float)s[j]; \
  } \
} \
static void blocks_##tag(void *arg, int64_t lo, int64_t hi, int32_t worker) { \
  const tree_call *p = arg; \
  const int64_t k = p->f->targets, cells = p->block * k; \
  char *work = p->work + worker * (2 * p->room + p->turned); \
  T *sum = (T *)work, *more = (T *)(work + p->room); \
  uint8_t *mark = (uint8_t *)(sum + cells), *marked = (uint8_t *)(more + cells); \
  float *turned = p->turned ? (float *)(work + 2 * p->room) : NULL; \
  for (int64_t b = lo; b < hi; b++) { \
    const int64_t first = b * p->block, samples = PF_MIN(p->block, p->samples - first); \
    if (turned) turn(p, first, samples, turned); \
    memset(sum, 0, (size_t)p->room); \
    for (int64_t chunk = 0; chunk < p->chunks; chunk++) { \
      memset(more, 0, (size_t)p->room); \
      sum_chunk_##tag(p, chunk, first, samples, turned, more, marked); \
      join_##tag(p, samples * k, more, marked, sum, mark); \
    } \
    finish_##tag(p, first, samples, sum, mark); \
  } \
} \
static void chunks_##tag(void *arg, int64_t lo, int64_t hi, int32_t worker) { \
  const tree_call *p = arg; \
  const float *turned = p->turned ? (const float *)(p->work + (1 + p->chunks) * p->room) : NULL; \
  (void)worker; \
  for (int64_t chunk = lo; chunk < hi; chunk++) { \
    T *sum = (T *)(p->work + (1 + chunk) * p->room); \
    memset(sum, 0, (size_t)p->room); \
    sum_chunk_##tag(p, chunk, 0, p->samples, turned, sum, \
                    (uint8_t *)(sum + p->block * p->f->targets)); \
  } \
} \
static pf_status by_chunks_##tag(pf_ctx *c, tree_call *p) { \
  const int64_t cells = p->block * p->f->targets; \
  T *sum = (T *)p->work; \
  if (p->turned) turn(p, 0, p->samples, (float *)(p->work + (1 + p->chunks) * p->room)); \
  memset(sum, 0, (size_t)p->room); \
  PF_TRY(c->host->parallel_for(c, p->chunks, 1, chunks_##tag, p)); \
  for (int64_t i = 0; i < p->chunks; i++) { \
    const T *more = (const T *)(p->work + (1 + i) * p->room); \
    join_##tag(p, p->samples * p->f->targets, more, (const uint8_t *)(more + cells), sum, \
               (uint8_t *)(sum + cells)); \
  } \
  finish_##tag(p, 0, p->samples, sum, (uint8_t *)(sum + cells)); \
  return PF_OK; \
}
SCORES(float, f32, expf)
SCORES(double, f64, exp)

/* ---------------------------------------------------------------- calls */
/* `rooms` for sums and one for turned samples, `times` over. */
static pf_status take_work(pf_ctx *c, tree_call *p, int64_t rooms, int64_t times) {
  int64_t cells, bytes;
  if (!pf_mul(p->block, p->f->targets, &cells) ||
      !pf_mul(cells, pf_type_size(p->f->type) + 1, &p->room))
    return PF_INVALID(c, "the scores have too many elements");
  p->room = (p->room + PF_LINE - 1) / PF_LINE * PF_LINE;
  const int64_t whole = (p->block + GROUP - 1) / GROUP * GROUP;
  if (p->turned) p->turned = whole * p->f->features * (int64_t)sizeof(float);
  if (!pf_mul(p->room, rooms, &bytes) || !pf_mul(bytes + p->turned, times, &bytes))
    return PF_INVALID(c, "the scores have too many elements");
  p->work = c->host->scratch(c, (uint64_t)bytes, PF_LINE);
  return p->work ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the scores");
}

/* Whether masks pay: for samples that fill half a vector, with few features beside the trees. */
static int has_masks(const tree_call *p) {
  const pf_forest *f = p->f;
  return PF_VF > 4 && 2 * f->masked > f->trees && p->samples >= PF_VF / 2 && f->features &&
         f->features <= TURNED_FEATURES && f->features <= 8 * f->masked;
}

static pf_status run(pf_ctx *c, tree_call *p) {
  const int wide = p->f->type == PF_FLOAT64;
  const int64_t workers = c->host->workers(c), least = PF_MAX(LEAST_BLOCK, 2 * PF_VF);
  const double work = p->f->steps * (double)p->samples;
  p->chunks = (p->f->trees + CHUNK - 1) / CHUNK;
  p->block = PF_MIN(p->samples, BLOCK);
  p->turned = has_masks(p);
  if (workers > 1 && work > SPLIT_STEPS && p->samples < workers * least && p->chunks > 1) {
    PF_TRY(take_work(c, p, p->chunks + 1, 1));
    return wide ? by_chunks_f64(c, p) : by_chunks_f32(c, p);
  }
  if (workers > 1 && work > SPLIT_STEPS && p->samples < 4 * workers * BLOCK)
    p->block = PF_MIN(p->samples, (p->samples / (4 * workers) + least) / least * least);
  const int64_t blocks = (p->samples + p->block - 1) / p->block;
  if (work <= SPLIT_STEPS || blocks == 1) {
    PF_TRY(take_work(c, p, 2, 1));
    (wide ? blocks_f64 : blocks_f32)(p, 0, blocks, 0);
    return PF_OK;
  }
  PF_TRY(take_work(c, p, 2, workers));
  return c->host->parallel_for(c, blocks, 1, wide ? blocks_f64 : blocks_f32, p);
}

static pf_status forest_of(pf_ctx *c, const tree_state *s, pf_forest **made) {
  const DLTensor *parts[PF_PARTS];
  for (int i = 0; i < PF_PARTS; i++) parts[i] = c->in[1 + i];
  return pf_forest_make(c, parts, s->T, s->n_targets, made);
}

static pf_status score(pf_ctx *c, const tree_state *s, const pf_forest *f,
                       const DLTensor *classes) {
  const DLTensor *x = c->in[0];
  if (x->ndim != 2 || x->shape[1] < f->features)
    return PF_INVALID(c,
                      "x must be [samples, features] with the %" PRId64 " features that the "
                      "trees look at; got shape %s",
                      f->features, PF_SHAPE(x).s);
  if (classes && (classes->ndim != 1 || classes->shape[0] != f->targets))
    return PF_INVALID(c, "classes must have a label for each of %d targets, got shape %s",
                      f->targets, PF_SHAPE(classes).s);
  if (f->n_base > f->targets && f->n_base > 2)
    return PF_INVALID(c, "%" PRId64 " base values are given for %d targets", f->n_base, f->targets);
  const int64_t dims[2] = {x->shape[0], f->targets};
  DLTensor *labels = classes ? pf_output_checked(c, 0, dims, 1) : NULL, *out;
  if (classes) PF_EXHAUSTED(labels);
  out = pf_output_checked(c, classes ? 1 : 0, dims, 2);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  tree_call p = {.f = f,
                 .x = PF_DATA(const void, x),
                 .samples = x->shape[0],
                 .stride = x->shape[1],
                 .how = s->how,
                 .transform = s->transform,
                 .out_type = s->U,
                 .out = PF_DATA(void, out),
                 .classes = classes ? PF_DATA(const int64_t, classes) : NULL,
                 .labels = classes ? PF_DATA(int64_t, labels) : NULL};
  return run(c, &p);
}

static pf_status compute(pf_ctx *c, const tree_state *s, const DLTensor *classes) {
  if (s->forest) return score(c, s, s->forest, classes);
  pf_forest *made;
  PF_TRY(forest_of(c, s, &made));
  pf_status status = score(c, s, made, classes);
  pf_forest_free(made);
  return status;
}
static pf_status ensemble(pf_ctx *c, const void *state) { return compute(c, state, NULL); }
static pf_status classifier(pf_ctx *c, const void *state) {
  return compute(c, state, c->in[1 + PF_PARTS]);
}

static int32_t name_at(pf_str text, const char *const *names, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    if ((int64_t)strlen(names[i]) == text.len && !memcmp(names[i], text.data, (size_t)text.len))
      return i;
  return 0; /* the op's signature has no other name */
}

static pf_status init(pf_ctx *c, void *state) {
  static const char *const hows[] = {"SUM", "AVERAGE", "MIN", "MAX"};
  static const char *const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  tree_state *s = state;
  const DLTensor *parts[PF_PARTS];
  s->how = s->aggregate.len ? name_at(s->aggregate, hows, PF_LEN(hows)) : SUM;
  s->transform = name_at(s->post_transform, transforms, PF_LEN(transforms));
  for (int i = 0; i < PF_PARTS; i++)
    if (!(parts[i] = c->host->constant(c, 1 + i))) return PF_OK;
  PF_TRY(pf_forest_make(c, parts, s->T, s->n_targets, &s->forest));
  for (int i = 0; i < PF_PARTS; i++) PF_TRY(c->host->drop_constant(c, 1 + i));
  return PF_OK;
}
static void fini(void *state) { pf_forest_free(((tree_state *)state)->forest); }

#define FIELD(kind, field) PF_REF(pf_attr, #field, kind, offsetof(tree_state, field))
#define COMMON FIELD(PF_ATTR_TYPE, T), FIELD(PF_ATTR_TYPE, U), FIELD(PF_ATTR_INT, n_targets), \
               FIELD(PF_ATTR_STRING, post_transform)
#define TREES(op_, compute_, ...) \
  PF_CPU_FLAGS(op_, "T=float|double, U=float|double", \
               PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE, .attrs = PF_ATTRS(__VA_ARGS__), \
               .state_size = sizeof(tree_state), .init = init, .fini = fini, .compute = compute_)
const pf_kernel *const PF_ISA_NAME(tree_ensemble_kernels)[] = {
  TREES("_TreeEnsemble", ensemble, COMMON, FIELD(PF_ATTR_STRING, aggregate)),
  TREES("_TreeEnsembleClassifier", classifier, COMMON), NULL};
