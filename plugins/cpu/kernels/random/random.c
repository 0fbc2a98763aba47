/* random.c - RandomUniform, RandomUniformInt, RandomStandardNormal, TruncatedNormal, RandomShuffle,
 * Multinomial, and the Stateless ops, whose counters follow from an input `seed` [2].
 *
 * Method: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).  The
 * host gives every call its own range of 128-bit counters; element i depends on the key, its
 * counter and nothing else.  Counters, bits and reservations are laid out as TF's CPU kernels do,
 * so equal seeds give TF's numbers (normals to rounding).
 *
 * Invariants
 *   1. The same numbers for any number of threads: element groups are addressed by counter, never
 *      drawn in turn.
 *   2. A call reserves RESERVED counters per element, as TF does; truncated normals use at most
 *      that many.
 * Threads: parallel_for over groups of elements.
 */
#include "base/common.h"
#include "base/isa.h"
#include "vec/vmath_arc.h"
#include "random/philox.h"

/* counters computed side by side; counters reserved per element */
enum { WIDE = PF_PHILOX_WIDE, RESERVED = 256 };
typedef struct { int32_t dtype, T, seed; } random_state; /* seed: the input it comes from, or 0 */
typedef struct { uint64_t key, lo, hi; } stream;         /* the next counter is hi:lo */

static stream skip(stream s, uint64_t n) {
  s.lo += n;
  s.hi += s.lo < n;
  return s;
}

/* WIDE counters, s and so many on: x[i][l] is word i of counter l. */
static void philox_at(stream s, const uint64_t on[WIDE], uint32_t x[4][WIDE]) {
  PF_ROLLED for (int l = 0; l < WIDE; l++) {
    uint64_t lo = s.lo + on[l], hi = s.hi + (lo < s.lo);
    x[0][l] = (uint32_t)lo;
    x[1][l] = (uint32_t)(lo >> 32);
    x[2][l] = (uint32_t)hi;
    x[3][l] = (uint32_t)(hi >> 32);
  }
  pf_philox_rounds(s.key, x);
}

static void philox_apart(stream s, uint64_t step, uint32_t x[4][WIDE]) {
  uint64_t on[WIDE];
  PF_ROLLED for (int l = 0; l < WIDE; l++) on[l] = (uint64_t)l * step;
  philox_at(s, on, x);
}
static void philox(stream s, uint32_t x[4][WIDE]) { philox_apart(s, 1, x); }

/* One 32-bit word after another, for what cannot be laid out in groups. */
typedef struct {
  stream s;
  uint32_t word[4][WIDE];
  int at;
} drawer;
static void open_drawer(drawer *d, stream s) { *d = (drawer){.s = s, .at = 4 * WIDE}; }
static uint32_t draw(drawer *d) {
  if (d->at == 4 * WIDE) {
    philox(d->s, d->word);
    d->s = skip(d->s, WIDE);
    d->at = 0;
  }
  uint32_t w = d->word[d->at & 3][d->at >> 2];
  d->at++;
  return w;
}

/* ---------------------------------------------------------------- bits to numbers, [0, 1) */
PF_INLINE float unit_f32(uint32_t x) { return pf_bits_float((x & 0x7fffffu) | 0x3f800000u) - 1.0f; }
PF_INLINE double unit_f64(uint32_t hi, uint32_t lo) {
  return pf_bits_double((uint64_t)(hi & 0xfffffu) << 32 | lo | 0x3ff0000000000000u) - 1.0;
}
PF_INLINE float unit_half(uint32_t x) {
  return pf_from_half((uint16_t)((x & 0x3ffu) | 0x3c00u)) - 1.0f;
}
PF_INLINE float unit_bf16(uint32_t x) {
  return pf_from_bf16((uint16_t)((x & 0x7fu) | 0x3f80u)) - 1.0f;
}

/* Box and Muller: two uniforms to two normals */
PF_INLINE void normals_f32(uint32_t a, uint32_t b, float *p, float *q) {
  float u = unit_f32(a), v = (float)(6.283185307179586 * (double)unit_f32(b));
  int32_t bits = (int32_t)pf_float_bits(u), least = (int32_t)pf_float_bits(1.0e-7f);
  bits = (bits < least ? least : bits) - 0x3f3504f3; /* as pf_split_f32 takes u apart */
  float f = pf_bits_float(((uint32_t)bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  float r = sqrtf(-2.0f * pf_log_parts_f32(f, (float)(bits >> 23)));
  *p = pf_sin_f32(v) * r;
  *q = pf_cos_f32(v) * r;
}
static void normals_f64(const uint32_t *x, double *p, double *q) {
  double u = unit_f64(x[0], x[1]), v = 6.283185307179586 * unit_f64(x[2], x[3]);
  u = u < 1.0e-7 ? 1.0e-7 : u;
  double r = sqrt(-2.0 * log(u));
  *p = sin(v) * r;
  *q = cos(v) * r;
}

/* ------------------------------------------------------- elements of one batch of WIDE counters */
typedef struct job {
  stream s;
  int32_t type;
  void *out;
  int64_t n;
  int64_t low;
  uint64_t range; /* integers: low + bits % range */
} job;

static void floats_of(const uint32_t x[4][WIDE], float *y, int32_t type) {
  for (int l = 0; l < WIDE; l++)
    for (int i = 0; i < 4; i++)
      y[l * 4 + i] = type == PF_FLOAT32   ? unit_f32(x[i][l])
                     : type == PF_FLOAT16 ? unit_half(x[i][l])
                                          : unit_bf16(x[i][l]);
}
static void normals_of(const uint32_t x[4][WIDE], float *y) {
  float z[4][WIDE];
  PF_ROLLED for (int i = 0; i < 4; i += 2) PF_ROLLED for (int l = 0; l < WIDE; l++)
      normals_f32(x[i][l], x[i + 1][l], &z[i][l], &z[i + 1][l]);
  for (int l = 0; l < WIDE; l++)
    for (int i = 0; i < 4; i++) y[l * 4 + i] = z[i][l];
}
static void store_floats(const job *j, int64_t at, int64_t n, const float *y) {
  if (j->type == PF_FLOAT32) memcpy((float *)j->out + at, y, sizeof(float) * (size_t)n);
  else pf_float_to_half(j->type, y, (uint16_t *)j->out + at, n);
}

/* Batches [lo, hi): 4 elements a counter, or 2 of 64 bits. */
#define BATCHES(per, ...) \
  const job *j = arg; \
  (void)worker; \
  for (int64_t b = lo; b < hi; b++) { \
    uint32_t x[4][WIDE]; \
    int64_t at = b * (per) * WIDE, n = PF_MIN((int64_t)(per) * WIDE, j->n - at); \
    philox(skip(j->s, (uint64_t)b * WIDE), x); \
    __VA_ARGS__ \
  }
static void uniform_floats(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  BATCHES(4, float y[4 * WIDE]; floats_of(x, y, j->type); store_floats(j, at, n, y);)
}
static void normal_floats(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  BATCHES(4, float y[4 * WIDE]; normals_of(x, y); store_floats(j, at, n, y);)
}
static void uniform_doubles(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  BATCHES(2, for (int64_t i = 0; i < n; i++)((double *)j->out)[at + i] =
                 unit_f64(x[i % 2 * 2][i / 2], x[i % 2 * 2 + 1][i / 2]);)
}
static void normal_doubles(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  BATCHES(
      2, for (int64_t i = 0; i < n; i += 2) {
        uint32_t w[4] = {x[0][i / 2], x[1][i / 2], x[2][i / 2], x[3][i / 2]};
        double p, q;
        normals_f64(w, &p, &q);
        ((double *)j->out)[at + i] = p;
        if (i + 1 < n) ((double *)j->out)[at + i + 1] = q;
      })
}
static void uniform_int32(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  BATCHES(4, for (int64_t i = 0; i < n; i++)((int32_t *)j->out)[at + i] =
                 (int32_t)((uint32_t)j->low + x[i % 4][i / 4] % (uint32_t)j->range);)
}
static void uniform_int64(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  BATCHES(
      2, for (int64_t i = 0; i < n; i++) {
        uint64_t bits = x[i % 2 * 2][i / 2] | (uint64_t)x[i % 2 * 2 + 1][i / 2] << 32;
        ((int64_t *)j->out)[at + i] = (int64_t)((uint64_t)j->low + bits % j->range);
      })
}

/* Groups of one counter's elements; each has RESERVED counters per element and draws until it is
 * full. */
PF_INLINE int keep_inside(const float *f, int n, float *y, int have, int last) {
  for (int i = 0; i < n; i++)
    if (have < last && fabsf(f[i]) < 2.0f) y[have++] = f[i];
  return have;
}
/* A group that two counters have not filled (one in a hundred). */
static void finish_group(const job *j, int64_t g, float *y, int have, int last) {
  drawer d;
  open_drawer(&d, skip(j->s, (uint64_t)g * RESERVED + 2));
  while (have < last) {
    uint32_t a = draw(&d), b = draw(&d);
    float f[2];
    normals_f32(a, b, &f[0], &f[1]);
    have = keep_inside(f, 2, y, have, last);
  }
}
/* Groups that their first counter has not filled (one in six), until WIDE take their second. */
typedef struct {
  int64_t group[WIDE];
  float y[WIDE][4];
  int have[WIDE], last[WIDE], n;
} unfilled;
static void second_counters(const job *j, unfilled *u) {
  uint64_t on[WIDE] = {0};
  uint32_t x[4][WIDE];
  float f[4 * WIDE];
  if (!u->n) return;
  for (int l = 0; l < u->n; l++) on[l] = (uint64_t)u->group[l] * RESERVED + 1;
  philox_at(j->s, on, x);
  normals_of(x, f);
  for (int l = 0; l < u->n; l++) {
    u->have[l] = keep_inside(f + 4 * l, 4, u->y[l], u->have[l], u->last[l]);
    finish_group(j, u->group[l], u->y[l], u->have[l], u->last[l]);
    store_floats(j, u->group[l] * 4, u->last[l], u->y[l]);
  }
  u->n = 0;
}
/* WIDE groups side by side by the first counter of each */
static void truncated_floats(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  unfilled u = {.n = 0};
  (void)worker;
  for (int64_t b = lo; b < hi; b++) {
    uint32_t x[4][WIDE];
    float f[4 * WIDE];
    int32_t outside[4 * WIDE];
    int64_t first = b * WIDE, left = j->n - first * 4;
    philox_apart(skip(j->s, (uint64_t)first * RESERVED), RESERVED, x);
    normals_of(x, f);
    for (int i = 0; i < 4 * WIDE; i++) outside[i] = !(fabsf(f[i]) < 2.0f);
    store_floats(j, first * 4, PF_MIN(left, 4 * WIDE), f); /* unfilled groups again, later */
    for (int l = 0; l < WIDE && 4 * l < left; l++) {
      const int32_t *o = outside + 4 * l;
      if (!(o[0] | o[1] | o[2] | o[3])) continue;
      u.group[u.n] = first + l;
      u.last[u.n] = (int)PF_MIN(4, left - 4 * l);
      u.have[u.n] = keep_inside(f + 4 * l, 4, u.y[u.n], 0, u.last[u.n]);
      if (++u.n == WIDE) second_counters(j, &u);
    }
  }
  second_counters(j, &u);
}
static void truncated_doubles(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  (void)worker;
  for (int64_t g = lo; g < hi; g++) {
    drawer d;
    double f[2];
    int n = 0, last = (int)PF_MIN(2, j->n - g * 2);
    open_drawer(&d, skip(j->s, (uint64_t)g * (RESERVED / 2)));
    while (n < last) {
      uint32_t w[4];
      for (int i = 0; i < 4; i++) w[i] = draw(&d);
      normals_f64(w, &f[0], &f[1]);
      for (int i = 0; i < 2; i++)
        if (n < last && fabs(f[i]) < 2.0) ((double *)j->out)[g * 2 + n++] = f[i];
    }
  }
}

/* ---------------------------------------------------------------- kernels */
static pf_status reserve(pf_ctx *c, uint64_t counters, stream *s) {
  uint64_t key[2] = {0, 0}, counter[2] = {0, 0};
  PF_TRY(c->host->rng(c, counters, key, counter));
  *s = (stream){key[0], counter[0], counter[1]};
  return PF_OK;
}

/* the same, or the stream of a stateless op's two seeds */
static pf_status open_stream(pf_ctx *c, const random_state *o, uint64_t counters, stream *s) {
  if (!o->seed) return reserve(c, counters, s);
  pf_philox g = pf_philox_of_seeds((uint64_t)pf_in_index(c, o->seed, 0),
                                   (uint64_t)pf_in_index(c, o->seed, 1));
  *s = (stream){g.key, g.lo, g.hi};
  return PF_OK;
}
static pf_status check_seed(pf_ctx *c, const random_state *o) {
  const DLTensor *t = o->seed ? c->in[o->seed] : NULL;
  if (!t || (t->ndim == 1 && t->shape[0] == 2)) return PF_OK;
  return PF_INVALID(c, "seed must have shape [2], not %s", PF_SHAPE(t).s);
}

static pf_status shaped_output(pf_ctx *c, DLTensor **out) {
  int64_t shape[PF_MAX_DIMS];
  int32_t n = 0;
  if (c->in[0]->ndim != 1)
    return PF_INVALID(c, "shape must be a vector, got shape %s", PF_SHAPE(c->in[0]).s);
  PF_TRY(pf_in_vector(c, 0, "shape", shape, &n));
  *out = pf_output_checked(c, 0, shape, n);
  return *out ? PF_OK : PF_INVALID_ARGUMENT;
}

/* `per` elements to an item of the loop, items of about 64 elements */
static pf_status fill(pf_ctx *c, const random_state *s, pf_range floats, pf_range doubles,
                      int64_t per_f, int64_t per_d) {
  DLTensor *out = NULL;
  PF_TRY(check_seed(c, s));
  PF_TRY(shaped_output(c, &out));
  job j = {.type = s->dtype, .out = PF_DATA(void, out), .n = pf_numel(out)};
  if (j.n == 0) return PF_OK;
  PF_TRY(open_stream(c, s, (uint64_t)j.n * RESERVED, &j.s));
  int64_t per = s->dtype == PF_FLOAT64 ? per_d : per_f;
  return pf_parallel(c, (j.n + per - 1) / per, pf_grain(per * 8),
                     s->dtype == PF_FLOAT64 ? doubles : floats, &j);
}
static pf_status random_uniform(pf_ctx *c, const void *s) {
  return fill(c, s, uniform_floats, uniform_doubles, 4 * WIDE, 2 * WIDE);
}
static pf_status random_normal(pf_ctx *c, const void *s) {
  return fill(c, s, normal_floats, normal_doubles, 4 * WIDE, 2 * WIDE);
}
static pf_status truncated_normal(pf_ctx *c, const void *s) {
  return fill(c, s, truncated_floats, truncated_doubles, 4 * WIDE, 2);
}

static pf_status random_uniform_int(pf_ctx *c, const void *state) {
  const random_state *s = state;
  DLTensor *out = NULL;
  int64_t lo, hi;
  PF_TRY(check_seed(c, s));
  PF_TRY(pf_in_scalar(c, s->seed ? 2 : 1, "minval", &lo));
  PF_TRY(pf_in_scalar(c, s->seed ? 3 : 2, "maxval", &hi));
  PF_TRY(shaped_output(c, &out));
  job j = {
    .out = PF_DATA(void, out), .n = pf_numel(out), .low = lo, .range = (uint64_t)hi - (uint64_t)lo};
  if (j.n == 0) return PF_OK;
  if (lo >= hi) return PF_INVALID(c, "Need minval < maxval, got %" PRId64 " >= %" PRId64, lo, hi);
  PF_TRY(open_stream(c, s, (uint64_t)j.n * RESERVED, &j.s));
  int64_t per = s->dtype == PF_INT64 ? 2 * WIDE : 4 * WIDE;
  return pf_parallel(c, (j.n + per - 1) / per, pf_grain(per * 8),
                     s->dtype == PF_INT64 ? uniform_int64 : uniform_int32, &j);
}

/* Fisher and Yates, from the front: element i changes places with one of i, i + 1, ..., n - 1. */
static pf_status random_shuffle(pf_ctx *c, const void *state) {
  const random_state *s = state;
  const DLTensor *x = c->in[0];
  if (x->ndim == 0 || x->shape[0] < 2) return c->host->alias(c, 0, 0, x->shape, x->ndim);
  DLTensor *out = c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(out);
  int64_t n = x->shape[0], inner = pf_product(x->shape, 1, x->ndim);
  if (n > UINT32_MAX)
    return PF_INVALID(c, "at most 2^32 - 1 rows can be shuffled, got %" PRId64, n);
  int64_t *order = c->host->scratch(c, (uint64_t)n * 8, 64);
  if (!order) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a permutation");
  stream st = {0};
  drawer d;
  PF_TRY(reserve(c, (uint64_t)(n - 1 + 3) / 4, &st));
  open_drawer(&d, st);
  for (int64_t i = 0; i < n; i++) order[i] = i;
  for (int64_t i = 0; i < n - 1; i++) {
    int64_t k = i + draw(&d) % (uint32_t)(n - i), t = order[i];
    order[i] = order[k];
    order[k] = t;
  }
  for (int64_t i = 0; i < n; i++)
    PF_TRY(pf_copy_run(c, out, i * inner, x, order[i] * inner, inner, pf_type_size(s->T)));
  return PF_OK;
}

static void logits_of(const DLTensor *t, int32_t type, int64_t row, int64_t n, double *v) {
  int64_t at = row * n;
  switch (type) {
    case PF_FLOAT32:
      for (int64_t k = 0; k < n; k++) v[k] = PF_DATA(const float, t)[at + k];
      break;
    case PF_FLOAT64: memcpy(v, PF_DATA(const double, t) + at, sizeof(double) * (size_t)n); break;
    case PF_FLOAT16:
      for (int64_t k = 0; k < n; k++) v[k] = pf_from_half(PF_DATA(const uint16_t, t)[at + k]);
      break;
    default:
      for (int64_t k = 0; k < n; k++) v[k] = pf_from_bf16(PF_DATA(const uint16_t, t)[at + k]);
  }
}

/* Unnormalised cumulative distribution of one row of logits; -inf and NaN have no share. */
static double cumulate(const DLTensor *t, int32_t type, int64_t row, int64_t classes, double *cdf) {
  double top = -INFINITY, sum = 0;
  logits_of(t, type, row, classes, cdf);
  for (int64_t k = 0; k < classes; k++) { /* what is not finite becomes -inf */
    cdf[k] = fabs(cdf[k]) < INFINITY ? cdf[k] : -INFINITY;
    top = cdf[k] > top ? cdf[k] : top;
  }
  if (!(top > -INFINITY)) top = 0;
  for (int64_t k = 0; k < classes; k++) cdf[k] = pf_exp_f64(cdf[k] - top);
  for (int64_t k = 0; k < classes; k++) sum += cdf[k], cdf[k] = sum;
  return sum;
}

static pf_status multinomial(pf_ctx *c, const void *state) {
  const random_state *s = state;
  const DLTensor *x = c->in[0];
  int64_t samples;
  PF_TRY(check_seed(c, s));
  PF_TRY(pf_in_scalar(c, 1, "num_samples", &samples));
  if (x->ndim != 2) return PF_INVALID(c, "logits should be a matrix, got shape %s", PF_SHAPE(x).s);
  if (samples < 0) return PF_INVALID(c, "num_samples should be nonnegative, got %" PRId64, samples);
  int64_t rows = x->shape[0], classes = x->shape[1], shape[2] = {rows, samples};
  DLTensor *out = pf_output_checked(c, 0, shape, 2);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  if (classes < 1) return PF_INVALID(c, "num_classes should be positive, got %" PRId64, classes);
  double *cdf = c->host->scratch(c, (uint64_t)classes * 8, 64);
  if (!cdf) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a distribution");
  stream st = {0};
  drawer d;
  PF_TRY(open_stream(c, s, (uint64_t)rows * (uint64_t)((samples + 3) / 4 * 4) * 2 * RESERVED, &st));
  open_drawer(&d, st);
  for (int64_t r = 0; r < rows; r++) {
    double total = cumulate(x, s->T, r, classes, cdf);
    for (int64_t i = 0; i < samples; i++) {
      uint32_t hi = draw(&d), lo = draw(&d);
      double find = unit_f64(hi, lo) * total;
      int64_t a = 0, b = classes; /* the first class whose cdf is above `find` */
      while (a < b) {
        int64_t m = a + (b - a) / 2;
        if (cdf[m] > find) b = m;
        else a = m + 1;
      }
      a = PF_MIN(a, classes - 1);
      if (s->dtype == PF_INT32) PF_DATA(int32_t, out)[r * samples + i] = (int32_t)a;
      else PF_DATA(int64_t, out)[r * samples + i] = a;
    }
  }
  return PF_OK;
}

static pf_status seed_second(pf_ctx *c, void *state) {
  (void)c;
  ((random_state *)state)->seed = 1;
  return PF_OK;
}
static pf_status seed_third(pf_ctx *c, void *state) {
  (void)c;
  ((random_state *)state)->seed = 2;
  return PF_OK;
}

#define TYPE(name, field) PF_REF(pf_attr, name, PF_ATTR_TYPE, offsetof(random_state, field))
#define DRAW .state_size = sizeof(random_state)
#define ENTRY(op, where, fn, ...) PF_CPU(op, where, .attrs = PF_ATTRS(__VA_ARGS__), \
  DRAW, .compute = fn)
const pf_kernel *const PF_ISA_NAME(random_kernels)[] = {
  ENTRY("RandomUniform", "dtype=" PF_FLOATS, random_uniform, TYPE("dtype", dtype)),
  ENTRY("RandomStandardNormal", "dtype=" PF_FLOATS, random_normal, TYPE("dtype", dtype)),
  ENTRY("TruncatedNormal", "dtype=" PF_FLOATS, truncated_normal, TYPE("dtype", dtype)),
  ENTRY("RandomUniformInt", "Tout=int32|int64", random_uniform_int, TYPE("Tout", dtype)),
  ENTRY("RandomShuffle", NULL, random_shuffle, TYPE("T", T)),
  PF_CPU_LONG("Multinomial", "T=" PF_FLOATS, DRAW, .compute = multinomial,
              .attrs = PF_ATTRS(TYPE("T", T), TYPE("output_dtype", dtype))),
#define STATELESS(op, where, fn, init_, ...) PF_CPU(op, where, .attrs = PF_ATTRS(__VA_ARGS__), \
  DRAW, .compute = fn, .init = init_)
  STATELESS("StatelessRandomUniform", "dtype=" PF_FLOATS, random_uniform, seed_second,
            TYPE("dtype", dtype)),
  STATELESS("StatelessRandomNormal", "dtype=" PF_FLOATS, random_normal, seed_second,
            TYPE("dtype", dtype)),
  STATELESS("StatelessTruncatedNormal", "dtype=" PF_FLOATS, truncated_normal, seed_second,
            TYPE("dtype", dtype)),
  STATELESS("StatelessRandomUniformInt", "dtype=int32|int64", random_uniform_int, seed_second,
            TYPE("dtype", dtype)),
  PF_CPU_LONG("StatelessMultinomial", "T=" PF_FLOATS, DRAW, .compute = multinomial,
              .init = seed_third, .attrs = PF_ATTRS(TYPE("T", T), TYPE("output_dtype", dtype))),
  NULL};
