/* fractional_pool.c - FractionalMaxPool, FractionalAvgPool and their gradients.
 *
 * Invariants
 *   1. Rows and columns are cut into regions of floor or ceil of the ratio, at random: either any
 *      shuffle of the two sizes, or pseudo random, ceil(alpha (i + u)).  Region i is
 *      [seq[i], seq[i + 1]), with `overlapping` one longer, within the input.
 *   2. Equal seeds give TF's sequences.  Sequences given to a gradient are checked before use.
 * Threads: parallel_for over images.
 *
 * Source: Graham 2014, "Fractional max-pooling"; TF's fractional_pool_common for random numbers.
 */
#include "random/candidate.h"

typedef struct {
  int32_t T, pseudo_random, overlapping, deterministic;
  int64_t seed, seed2;
  pf_list ratio;
} fraction_state;
typedef struct {
  const fraction_state *s;
  int64_t n, h, w, c, oh, ow;
  const int64_t *rows, *columns;
  const void *x, *dy;
  void *out;
} fraction;
typedef struct { int64_t y0, y1, x0, x1; } region;

static region region_at(const fraction *p, int64_t i) {
  int64_t y = i / p->ow, x = i % p->ow, more = p->s->overlapping ? 1 : 0;
  return (region){p->rows[y], PF_MIN(p->rows[y + 1] + more, p->h), p->columns[x],
                  PF_MIN(p->columns[x + 1] + more, p->w)};
}

/* ---------------------------------------------------------------- one image */
#define EACH_PIXEL(r, q) \
  for (int64_t y = r.y0; y < r.y1; y++) \
    for (int64_t x = r.x0, q = (y * p->w + r.x0) * p->c; x < r.x1; x++, q += p->c)
/* U: T, or its unsigned twin, whose sums may overflow */
#define POOLS(num, T, U, tag) \
static void max_##tag(const fraction *p, int64_t image) { \
  const T *in = (const T *)p->x + image * p->h * p->w * p->c; \
  T *out = (T *)p->out + image * p->oh * p->ow * p->c; \
  for (int64_t i = 0; i < p->oh * p->ow; i++, out += p->c) { \
    region r = region_at(p, i); \
    memcpy(out, in + (r.y0 * p->w + r.x0) * p->c, sizeof(T) * (size_t)p->c); \
    EACH_PIXEL(r, q) \
      for (int64_t k = 0; k < p->c; k++) out[k] = PF_MAX(out[k], in[q + k]); \
  } \
} \
static void avg_##tag(const fraction *p, int64_t image) { \
  const T *in = (const T *)p->x + image * p->h * p->w * p->c; \
  T *out = (T *)p->out + image * p->oh * p->ow * p->c; \
  for (int64_t i = 0; i < p->oh * p->ow; i++, out += p->c) { \
    region r = region_at(p, i); \
    T count = (T)((r.y1 - r.y0) * (r.x1 - r.x0)); \
    for (int64_t k = 0; k < p->c; k++) { \
      U sum = 0; \
      EACH_PIXEL(r, q) sum += (U)in[q + k]; \
      out[k] = (T)sum / count; \
    } \
  } \
} \
static void max_grad_##tag(const fraction *p, int64_t image) { \
  const T *in = (const T *)p->x + image * p->h * p->w * p->c; \
  const T *dy = (const T *)p->dy + image * p->oh * p->ow * p->c; \
  T *out = (T *)p->out + image * p->h * p->w * p->c; \
  memset(out, 0, sizeof(T) * (size_t)(p->h * p->w * p->c)); \
  for (int64_t i = 0; i < p->oh * p->ow; i++, dy += p->c) { \
    region r = region_at(p, i); \
    for (int64_t k = 0; k < p->c; k++) { \
      int64_t best = (r.y0 * p->w + r.x0) * p->c; \
      EACH_PIXEL(r, q) if (in[q + k] > in[best + k]) best = q; \
      out[best + k] = (T)((U)out[best + k] + (U)dy[k]); \
    } \
  } \
} \
static void avg_grad_##tag(const fraction *p, int64_t image) { \
  const T *dy = (const T *)p->dy + image * p->oh * p->ow * p->c; \
  T *out = (T *)p->out + image * p->h * p->w * p->c; \
  memset(out, 0, sizeof(T) * (size_t)(p->h * p->w * p->c)); \
  for (int64_t i = 0; i < p->oh * p->ow; i++, dy += p->c) { \
    region r = region_at(p, i); \
    T count = (T)((r.y1 - r.y0) * (r.x1 - r.x0)); \
    EACH_PIXEL(r, q) \
      for (int64_t k = 0; k < p->c; k++) \
        out[q + k] = (T)((U)out[q + k] + (U)(dy[k] / count)); \
  } \
}
POOLS(PF_FLOAT32, float, float, f32)
POOLS(PF_FLOAT64, double, double, f64)
POOLS(PF_INT32, int32_t, uint32_t, i32)
POOLS(PF_INT64, int64_t, uint64_t, i64)

typedef void (*image_fn)(const fraction *, int64_t);
typedef struct {
  const fraction *p;
  image_fn fn;
} job;
static void run_images(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) j->fn(j->p, i);
}
static pf_status run(pf_ctx *c, const fraction *p, const image_fn fn[4]) {
  int which = p->s->T == PF_FLOAT32 ? 0 : p->s->T == PF_FLOAT64 ? 1 : p->s->T == PF_INT32 ? 2 : 3;
  job j = {p, fn[which]};
  return pf_parallel(c, p->n, pf_grain(p->h * p->w * p->c), run_images, &j);
}
#define FUNCTIONS(name) ((const image_fn[]){name##_f32, name##_f64, name##_i32, name##_i64})

/* ---------------------------------------------------------------- random regions */
/* Sizes of `out` regions of `in` pixels into seq[1..]. */
static void pseudo_random_sizes(candidate_rng *r, int64_t in, int64_t out, int64_t *seq) {
  double alpha = (double)in / (double)out;
  int64_t k = in / out, before = 1;
  double most = fmin((double)(k + 2) / alpha - 1, (double)(in + 1 - k) / alpha - (double)(out - 1));
  double u = candidate_double(r) * most;
  for (int64_t i = 1; i <= out; i++) {
    int64_t end = i == out ? in + 1 : (int64_t)ceil(alpha * ((double)i + u));
    seq[i] = PF_MAX(end - before, 0);
    before = end;
  }
}
static void shuffled_sizes(candidate_rng *r, int64_t in, int64_t out, int64_t *seq) {
  for (int64_t i = 0; i < out; i++) seq[i + 1] = in / out + (i < in % out);
  for (int64_t i = 0; i + 1 < out; i++) {
    int64_t j = i + candidate_word(r) % (uint32_t)(out - i), t = seq[i + 1];
    seq[i + 1] = seq[j + 1];
    seq[j + 1] = t;
  }
}
/* Where the regions begin: seq[0..out]; the generator moves on by whole blocks. */
static void make_sequence(candidate_rng *r, int64_t in, int64_t out, int pseudo, int64_t *seq) {
  r->at = 4;
  if (pseudo) pseudo_random_sizes(r, in, out, seq);
  else shuffled_sizes(r, in, out, seq);
  seq[0] = 0;
  for (int64_t i = 1; i <= out; i++) { /* no region is empty, whatever rounding did */
    int64_t end = PF_MAX(seq[i] + seq[i - 1], seq[i - 1] + 1);
    seq[i] = i == out ? in : PF_MIN(end, in - (out - i));
  }
}

static pf_status fraction_init(pf_ctx *c, void *state) {
  const fraction_state *s = state;
  const double *ratio = s->ratio.items;
  if (s->ratio.n != 4)
    return PF_INVALID(c, "pooling_ratio field must specify 4 dimensions, got %" PRId64, s->ratio.n);
  for (int i = 0; i < 4; i++)
    if (!(ratio[i] >= 1) || isinf(ratio[i]))
      return PF_INVALID(c, "pooling_ratio cannot be smaller than 1, got: %g", ratio[i]);
  if (ratio[0] != 1 || ratio[3] != 1)
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "Fractional pooling is not yet supported on the batch nor "
                    "channel dimension.");
  if (!s->deterministic && (s->seed || s->seed2))
    return PF_INVALID(c, "Both seed and seed2 should be 0 if deterministic is false.");
  return PF_OK;
}

/* A generator for n words and more. */
static pf_status open_random(pf_ctx *c, const fraction_state *s, int64_t n, candidate_rng *r) {
  if (!s->deterministic || (!s->seed && !s->seed2)) return candidate_open(c, 1 + n / 1024, r);
  *r = (candidate_rng){.key = (uint64_t)s->seed, .hi = (uint64_t)s->seed2, .at = 4};
  return PF_OK;
}

static pf_status pooled(pf_ctx *c, const fraction_state *s, const image_fn fn[4]) {
  const DLTensor *x = c->in[0];
  const double *ratio = s->ratio.items;
  if (x->ndim != 4) return PF_INVALID(c, "value must be 4-dimensional, got %s", PF_SHAPE(x).s);
  fraction p = {.s = s,
                .n = x->shape[0],
                .h = x->shape[1],
                .w = x->shape[2],
                .c = x->shape[3],
                .x = PF_DATA(const void, x)};
  p.oh = (int64_t)floor((double)p.h / ratio[1]);
  p.ow = (int64_t)floor((double)p.w / ratio[2]);
  if (p.oh < 1 || p.ow < 1 || p.h > INT32_MAX || p.w > INT32_MAX)
    return PF_INVALID(c, "value of shape %s cannot be pooled by ratios %g and %g", PF_SHAPE(x).s,
                      ratio[1], ratio[2]);
  int64_t shape[4] = {p.n, p.oh, p.ow, p.c}, rows = p.oh + 1, columns = p.ow + 1;
  DLTensor *out = pf_output_checked(c, 0, shape, 4), *r = c->host->output(c, 1, &rows, 1),
           *w = c->host->output(c, 2, &columns, 1);
  if (!out || !r || !w) return PF_RESOURCE_EXHAUSTED;
  candidate_rng random;
  PF_TRY(open_random(c, s, p.oh + p.ow, &random));
  make_sequence(&random, p.h, p.oh, s->pseudo_random, PF_DATA(int64_t, r));
  make_sequence(&random, p.w, p.ow, s->pseudo_random, PF_DATA(int64_t, w));
  p.rows = PF_DATA(int64_t, r);
  p.columns = PF_DATA(int64_t, w);
  p.out = PF_DATA(void, out);
  return pf_numel(out) ? run(c, &p, fn) : PF_OK;
}
static pf_status fractional_max(pf_ctx *c, const void *s) { return pooled(c, s, FUNCTIONS(max)); }
static pf_status fractional_avg(pf_ctx *c, const void *s) { return pooled(c, s, FUNCTIONS(avg)); }

/* ---------------------------------------------------------------- gradients */
static pf_status take_sequence(pf_ctx *c, int32_t in, const char *name, int64_t out, int64_t size,
                               const int64_t **seq) {
  const DLTensor *t = c->in[in];
  if (t->ndim != 1 || t->shape[0] != out + 1)
    return PF_INVALID(c, "%s must have %" PRId64 " elements, got shape %s", name, out + 1,
                      PF_SHAPE(t).s);
  *seq = PF_DATA(const int64_t, t);
  for (int64_t i = 0; i <= out; i++)
    if ((*seq)[i] < 0 || (*seq)[i] > size || (i && (*seq)[i] <= (*seq)[i - 1]))
      return PF_INVALID(c, "%s[%" PRId64 "] = %" PRId64 " does not ascend within [0, %" PRId64 "]",
                        name, i, (*seq)[i], size);
  return PF_OK;
}

/* The gradient of a batch of shape `in`; dy is input `at`, the sequences follow it. */
static pf_status backward(pf_ctx *c, fraction *p, const int64_t *in, int32_t at,
                          const image_fn fn[4]) {
  const DLTensor *dy = c->in[at];
  p->n = in[0], p->h = in[1], p->w = in[2], p->c = in[3];
  if (dy->ndim != 4 || dy->shape[0] != p->n || dy->shape[3] != p->c)
    return PF_INVALID(c, "out_backprop %s does not fit an input of shape %s", PF_SHAPE(dy).s,
                      pf_shape_text(in, 4).s);
  p->oh = dy->shape[1], p->ow = dy->shape[2];
  PF_TRY(take_sequence(c, at + 1, "row_pooling_sequence", p->oh, p->h, &p->rows));
  PF_TRY(take_sequence(c, at + 2, "col_pooling_sequence", p->ow, p->w, &p->columns));
  DLTensor *out = pf_output_checked(c, 0, in, 4);
  PF_EXHAUSTED(out);
  p->dy = PF_DATA(const void, dy);
  p->out = PF_DATA(void, out);
  return pf_numel(out) ? run(c, p, fn) : PF_OK;
}

static pf_status fractional_max_grad(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  fraction p = {.s = state, .x = PF_DATA(const void, x)};
  if (x->ndim != 4) return PF_INVALID(c, "orig_input must be 4-dimensional: %s", PF_SHAPE(x).s);
  if (!pf_same_shape(c->in[1], c->in[2]))
    return PF_INVALID(c, "orig_output %s and out_backprop %s must have one shape",
                      PF_SHAPE(c->in[1]).s, PF_SHAPE(c->in[2]).s);
  return backward(c, &p, x->shape, 2, FUNCTIONS(max_grad));
}
static pf_status fractional_avg_grad(pf_ctx *c, const void *state) {
  int64_t in[PF_MAX_DIMS];
  int32_t n = 0;
  fraction p = {.s = state};
  PF_TRY(pf_in_vector(c, 0, "orig_input_tensor_shape", in, &n));
  if (n != 4) return PF_INVALID(c, "orig_input_tensor_shape must have 4 elements, got %d", n);
  return backward(c, &p, in, 1, FUNCTIONS(avg_grad));
}

#define FIELD(name, kind, field) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, name, kind, offsetof(fraction_state, field)})
#define ENTRY(op, fn, ...) PF_CPU_FLAGS(op, "T=float|double|int32|int64", \
  PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE, \
  .attrs = PF_ATTRS(FIELD("T", PF_ATTR_TYPE, T), \
                    FIELD("overlapping", PF_ATTR_BOOL, overlapping), \
                    FIELD("pseudo_random", PF_ATTR_BOOL, pseudo_random), \
                    FIELD("deterministic", PF_ATTR_BOOL, deterministic), \
                    FIELD("seed", PF_ATTR_INT, seed), FIELD("seed2", PF_ATTR_INT, seed2), \
                    FIELD("pooling_ratio", PF_ATTR_LIST | PF_ATTR_FLOAT, ratio)), \
  .state_size = sizeof(fraction_state), .compute = fn, ##__VA_ARGS__)
const pf_kernel *const fractional_pool_kernels[] = {
  ENTRY("FractionalMaxPool", fractional_max, .init = fraction_init),
  ENTRY("FractionalAvgPool", fractional_avg, .init = fraction_init),
  ENTRY("FractionalMaxPoolGrad", fractional_max_grad),
  ENTRY("FractionalAvgPoolGrad", fractional_avg_grad), NULL};
