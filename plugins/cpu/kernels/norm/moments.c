/* moments.c - _FusedMoments: mean and variance in one reading of the data; _FusedLayerNorm: rows
 * normalised by theirs while they are in the nearest cache.
 *
 * The input is [outer, n, inner] around the innermost group of reduced dimensions:
 *
 *     inner == 1   rows, in pieces that vectors sum up; short ones are turned into columns
 *     inner > 1    tiles of columns (norm_passes.h); short rows are folded: several seen as one
 *
 * A piece gives its count, mean and sum of squares around the mean; pieces, parts and the outer
 * reduced dimensions are joined in double (Chan, Golub and LeVeque 1983).
 *
 * Invariants
 *   1. Sums of a piece are of differences from a shift, the mean of its first elements (SHIFT of a
 *      row's, SHIFT_ROWS of a column's): of n elements at most n / SHIFT of the digits' worth
 *      cancels, of most data none.  A shift that is not finite is 0.
 *   2. Cuts depend on shapes only, parts are joined in their order: equal bits for any number of
 *      threads.
 *   3. Everything is float or double; halves are read and rounded once, on the way.
 *   4. Inputs of NORM_NEAR bytes and more are prefetched; results are those without, to the bit.
 * Threads: parallel_for over parts.
 *
 * Fast path: moments_nhwc, layer_norm (docs/paths.md).
 */
#include "base/machine.h"
#include "vec/half.h"
#include "norm/norm_passes.h"
#include "reduce/reduce_groups.h"
#include "move/transpose.h"

enum {
  PIECE = 4096,
  SHIFT = 64,
  SHIFT_ROWS = 16,
  COLUMNS = 512,
  PART = 65536,
  PARTS = 64,
  SHORT = 64,
  TURNED = 64,
  AHEAD = 4096
}; /* AHEAD: bytes */
typedef struct { double n, mean, m2; } moments; /* m2: sum of squares around the mean */
typedef struct {
  const float *scale, *offset;
  float mean, by;
} row_params;

static moments joined(moments a, moments b) {
  double n = a.n + b.n, d = b.mean - a.mean;
  return (moments){n, (a.n * a.mean + b.n * b.mean) / n, a.m2 + b.m2 + d * d * (a.n * b.n / n)};
}
static moments of_sums(double n, float shift, double sum, double squares) {
  double each = 1 / n, m2 = squares - sum * sum * each;
  return (moments){n, shift + sum * each, m2 < 0 ? 0 : m2};
}

/* ---------------------------------------------------------------- loops over a row */
PF_INLINE moments piece_moments(int32_t type, const void *x, int64_t n, int64_t ahead) {
  enum { U = 4 };
  pf_vf s[U], q[U], d, first = pf_vf_set(0);
  int64_t i = 0, k = PF_MIN(n, SHIFT);
  for (; i + PF_VF <= k; i += PF_VF) first += pf_vf_read(type, pf_vf_at(type, x, i));
  if (i < k) first += pf_vf_read_part(type, pf_vf_at(type, x, i), k - i);
  float shift = norm_shift(pf_vf_sum(first), (double)k);
  pf_vf sh = pf_vf_set(shift);
  for (int u = 0; u < U; u++) s[u] = q[u] = pf_vf_set(0);
  for (i = 0; i + U * PF_VF <= n; i += U * PF_VF)
    for (int u = 0; u < U; u++) {
      if (new_line(type, u)) fetch(pf_vf_at(type, x, i + u * PF_VF), ahead);
      d = pf_vf_read(type, pf_vf_at(type, x, i + u * PF_VF)) - sh;
      s[u] += d, q[u] = PF_VF_FMA(d, d, q[u]);
    }
  for (; i < n; i += PF_VF) {
    d = pf_vf_first(pf_vf_read_part(type, pf_vf_at(type, x, i), n - i) - sh, n - i);
    s[0] += d, q[0] = PF_VF_FMA(d, d, q[0]);
  }
  return of_sums((double)n, shift, pf_vf_sum((s[0] + s[1]) + (s[2] + s[3])),
                 pf_vf_sum((q[0] + q[1]) + (q[2] + q[3])));
}
PF_INLINE moments row_moments(int32_t type, const void *x, int64_t n, int64_t ahead) {
  moments all = {0};
  for (int64_t i = 0; i < n; i += PIECE) {
    moments piece = piece_moments(type, pf_vf_at(type, x, i), PF_MIN(n - i, PIECE), ahead);
    all = i ? joined(all, piece) : piece;
  }
  return all;
}
/* A group of vectors is read before the one ahead of it is stored: a load waits for stores that are
 * under way to addresses of the same last 12 bits, and results often lie two lines further into
 * their page. */
PF_INLINE void row_normalise(int32_t type, const void *x, void *y, int64_t n, row_params p,
                             int stream) {
  enum { U = 4, GROUP = U * PF_VF };
  pf_vf m = pf_vf_set(p.mean), by = pf_vf_set(p.by), v, here[U], next[U];
  int64_t i = 0;
  for (int u = 0; u < U && GROUP <= n; u++)
    here[u] = pf_vf_read(type, pf_vf_at(type, x, u * PF_VF));
  for (; i + GROUP <= n; i += GROUP) {
    const void *after = pf_vf_at(type, x, i + 2 * GROUP <= n ? i + GROUP : i);
    for (int u = 0; u < U; u++) next[u] = pf_vf_read(type, pf_vf_at(type, after, u * PF_VF));
    for (int u = 0; u < U; u++) {
      int64_t k = i + u * PF_VF;
      v = PF_VF_FMA((here[u] - m) * by, pf_vf_load(p.scale + k), pf_vf_load(p.offset + k));
      pf_vf_write(type, pf_vf_at(type, y, k), v, stream);
      here[u] = next[u];
    }
  }
  for (; i < n; i += PF_VF) {
    int part = (int)PF_MIN(n - i, PF_VF);
    v = (pf_vf_read_part(type, pf_vf_at(type, x, i), part) - m) * by;
    v = PF_VF_FMA(v, pf_vf_load_part(p.scale + i, part), pf_vf_load_part(p.offset + i, part));
    pf_vf_write_part(type, pf_vf_at(type, y, i), v, part);
  }
}
typedef struct {
  const char *x;
  char *y;
  const float *scale, *offset;
  int64_t n;
  double epsilon;
  int stream;
} layer_norm;
typedef moments (*row_function)(const void *x, int64_t n, int64_t ahead);
PF_INLINE void normalise_rows(int32_t type, const layer_norm *t, int64_t lo, int64_t hi,
                              const row_function row) {
  const int64_t n = t->n;
  const double each = 1 / (double)n;
  for (int64_t i = lo; i < hi; i++) {
    const void *x = pf_vf_at(type, t->x, i * n);
    moments m = row(x, n, t->stream ? AHEAD : 0);
    float by = 1 / sqrtf((float)(m.m2 * each + t->epsilon));
    const row_params p = {t->scale, t->offset, (float)m.mean, by};
    if (t->stream) row_normalise(type, x, pf_vf_at(type, t->y, i * n), n, p, 1);
    else row_normalise(type, x, pf_vf_at(type, t->y, i * n), n, p, 0);
  }
}

typedef struct {
  int64_t size; /* of an element */
  row_function row;
  void (*normalise)(const layer_norm *t, int64_t lo, int64_t hi);
} row_loops;
#define ROW_LOOPS(TYPE, TAG) \
  __attribute__((noinline)) static moments row_##TAG(const void *x, int64_t n, int64_t ahead) { \
    return row_moments(TYPE, x, n, ahead); \
  } \
  static void normalise_##TAG(const layer_norm *t, int64_t lo, int64_t hi) { \
    normalise_rows(TYPE, t, lo, hi, row_##TAG); \
  } \
  static const row_loops loops_##TAG = {TYPE == PF_FLOAT32 ? 4 : 2, row_##TAG, normalise_##TAG};
ROW_LOOPS(PF_FLOAT32, f32)
ROW_LOOPS(PF_FLOAT16, f16)
ROW_LOOPS(PF_BFLOAT16, bf16)
static const row_loops *loops_of(int32_t type) {
  return type == PF_FLOAT32 ? &loops_f32 : type == PF_FLOAT16 ? &loops_f16 : &loops_bf16;
}

/* ---------------------------------------------------------------- _FusedMoments */
typedef struct {
  const row_loops *f;
  const norm_loops *columns;
  const char *x;
  char *mean, *variance; /* results, where there is one part; else NULL */
  moments *partial;      /* [outer][parts][inner] */
  int64_t n, inner, parts, tiles, fold;
  int32_t type, out_type, far; /* far: NORM_NEAR bytes and more */
} pass;

static void put(const pass *t, int64_t i, moments m) {
  float mean = (float)m.mean, variance = (float)(m.m2 / m.n);
  if (!t->mean) {
    t->partial[i] = m;
    return;
  }
  if (t->out_type == PF_FLOAT32) {
    ((float *)t->mean)[i] = mean, ((float *)t->variance)[i] = variance;
    return;
  }
  int half = t->out_type == PF_FLOAT16;
  ((uint16_t *)t->mean)[i] = half ? pf_to_half(mean) : pf_to_bf16(mean);
  ((uint16_t *)t->variance)[i] = half ? pf_to_half(variance) : pf_to_bf16(variance);
}
static int64_t part_begin(const pass *t, int64_t part) {
  if (t->inner == 1) return PF_MIN(part * PART, t->n);
  return part == t->parts ? t->n : t->n * part / t->parts;
}
/* of w <= COLUMNS columns of rows that lie `stride` elements apart */
static void column_moments(const pass *t, const char *x, int64_t rows, int64_t stride, int64_t w,
                           moments *to) {
  double sum[COLUMNS], squares[COLUMNS];
  float shift[COLUMNS];
  memset(sum, 0, 8 * (size_t)w), memset(squares, 0, 8 * (size_t)w);
  memset(shift, 0, 4 * (size_t)w);
  int64_t first = PF_MIN(rows, SHIFT_ROWS);
  t->columns->sums(x, NULL, first, stride, w, 0, shift, sum, squares);
  for (int64_t j = 0; j < w; j++)
    shift[j] = norm_shift(sum[j], (double)first), sum[j] = squares[j] = 0;
  int64_t next = stride == w ? rows * w : w;
  t->columns->sums(x, NULL, rows, stride, w, t->far ? next * t->f->size : 0, shift, sum, squares);
  for (int64_t j = 0; j < w; j++) to[j] = of_sums((double)rows, shift[j], sum[j], squares[j]);
}
/* rows of less than SHORT elements: turned, then as columns */
static void short_rows(const pass *t, int64_t lo, int64_t hi) {
  float room[SHORT * TURNED], turned[SHORT * TURNED] __attribute__((aligned(64)));
  moments found[TURNED];
  pass floats = *t;
  floats.far = 0;
  floats.columns = PF_ISA_NAME(norm_loops_of)(PF_FLOAT32);
  for (int64_t i = lo, m; i < hi; i += m) {
    const char *x = t->x + i * t->n * t->f->size;
    m = PF_MIN(TURNED, hi - i);
    if (t->f->size == 2) halves_read(t->type, x, room, m * t->n), x = (const char *)room;
    pf_movers()->transpose(4, x, t->n, turned, m, m, t->n);
    column_moments(&floats, (const char *)turned, t->n, m, m, found);
    for (int64_t k = 0; k < m; k++) put(t, i + k, found[k]);
  }
}
static void rows_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const pass *t = arg;
  (void)worker;
  if (t->n < SHORT) {
    short_rows(t, lo, hi);
    return;
  }
  for (int64_t i = lo; i < hi; i++) {
    int64_t part = i % t->parts, from = part_begin(t, part), to = part_begin(t, part + 1);
    put(t, i,
        t->f->row(t->x + (i / t->parts * t->n + from) * t->f->size, to - from, t->far ? AHEAD : 0));
  }
}
static void folded_moments(const pass *t, const char *x, int64_t rows, moments *to) {
  moments wide[COLUMNS];
  int64_t k = t->fold, whole = rows / k, w = t->inner;
  column_moments(t, x, whole, k * w, k * w, wide);
  memcpy(to, wide, sizeof(moments) * (size_t)w);
  for (int64_t i = w; i < k * w; i++) to[i % w] = joined(to[i % w], wide[i]);
  if (whole * k == rows) return;
  column_moments(t, x + whole * k * w * t->f->size, rows - whole * k, w, w, wide);
  for (int64_t j = 0; j < w; j++) to[j] = joined(to[j], wide[j]);
}
static void columns_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const pass *t = arg;
  moments found[COLUMNS];
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    int64_t tile = i % t->tiles, row = i / t->tiles, part = row % t->parts;
    int64_t j = tile * COLUMNS, w = PF_MIN(COLUMNS, t->inner - j);
    int64_t from = part_begin(t, part), rows = part_begin(t, part + 1) - from;
    const char *x = t->x + ((row / t->parts * t->n + from) * t->inner + j) * t->f->size;
    if (rows >= 4 * t->fold && t->fold > 1) folded_moments(t, x, rows, found);
    else column_moments(t, x, rows, t->inner, w, found);
    for (int64_t k = 0; k < w; k++) put(t, row * t->inner + j + k, found[k]);
  }
}
/* how [n, inner] is cut: by shapes only */
static void cut(pass *t) {
  int64_t w = PF_MIN(t->inner, COLUMNS);
  t->fold = 1, t->tiles = (t->inner + COLUMNS - 1) / COLUMNS;
  if (t->inner == 1) {
    t->parts = (t->n + PART - 1) / PART;
    return;
  }
  while (t->fold * w % NORM_WIDTH && t->fold * w * 2 <= COLUMNS) t->fold *= 2;
  t->parts = PF_MAX(PF_MIN(PF_MIN(t->n / (4 * t->fold), t->n * w / PART), PARTS), 1);
}
/* Parts, and reduced groups around the first pass's, into one each; in place. */
static void join_groups(groups *g, moments *m) {
  for (int32_t i = g->n - 1; i >= 0; i--) {
    if (!g->reduced[i] || g->size[i] == 1) continue;
    int64_t outer = pf_product(g->size, 0, i), inner = pf_product(g->size, i + 1, g->n);
    for (int64_t o = 0; o < outer; o++)
      for (int64_t j = 0; j < inner; j++) {
        moments all = m[o * g->size[i] * inner + j];
        for (int64_t r = 1; r < g->size[i]; r++)
          all = joined(all, m[(o * g->size[i] + r) * inner + j]);
        m[o * inner + j] = all;
      }
    g->size[i] = 1;
  }
}
static pf_status run(pf_ctx *c, pass *t, groups *g, int64_t results) {
  int32_t last = -1, reduced = 0;
  char *mean = t->mean;
  for (int32_t i = 0; i < g->n; i++)
    if (g->reduced[i]) last = i, reduced++;
  if (last < 0) last = g->n++, g->size[last] = 1, g->reduced[last] = 1, reduced = 1;
  int64_t outer = pf_product(g->size, 0, last);
  t->n = g->size[last], t->inner = pf_product(g->size, last + 1, g->n);
  cut(t);
  if (t->parts > 1 || reduced > 1) {
    uint64_t places = (uint64_t)(outer * t->parts * t->inner);
    t->partial = c->host->scratch(c, places * sizeof(moments), 64);
    if (!t->partial) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for partial moments");
    t->mean = NULL;
  }
  if (t->inner == 1)
    PF_TRY(pf_parallel(c, outer * t->parts, pf_grain(PF_MIN(t->n, PART)), rows_range, t));
  else
    PF_TRY(pf_parallel(c, outer * t->parts * t->tiles,
                       pf_grain(t->n / t->parts * PF_MIN(t->inner, COLUMNS)), columns_range, t));
  if (t->mean) return PF_OK;
  g->size[last] = t->parts;
  join_groups(g, t->partial);
  t->mean = mean;
  for (int64_t i = 0; i < results; i++) put(t, i, t->partial[i]);
  return PF_OK;
}

typedef struct {
  pf_list axes;
  double epsilon;
} moments_state;
static pf_status fused_moments(pf_ctx *c, const void *state) {
  const moments_state *s = state;
  const DLTensor *x = c->in[0];
  int32_t flags[PF_MAX_DIMS] = {0};
  int64_t shape[PF_MAX_DIMS], count = 1;
  PF_TRY(pf_check_rank(c, x, "input"));
  for (int64_t i = 0; i < s->axes.n; i++) {
    int64_t a = ((const int64_t *)s->axes.items)[i];
    if (a < -x->ndim || a >= x->ndim)
      return PF_INVALID(
          c, "Invalid reduction dimension (%" PRId64 " for input with %d dimension(s)", a, x->ndim);
    flags[a < 0 ? a + x->ndim : a] = 1;
  }
  for (int32_t i = 0; i < x->ndim; i++) {
    shape[i] = flags[i] ? 1 : x->shape[i];
    count *= flags[i] ? x->shape[i] : 1;
  }
  DLTensor *mean = c->host->output(c, 0, shape, x->ndim);
  DLTensor *variance = mean ? c->host->output(c, 1, shape, x->ndim) : NULL;
  PF_EXHAUSTED(variance);
  int64_t results = pf_numel(mean);
  if (results == 0) return PF_OK;
  pass t = {.f = loops_of(c->in_type[0]),
            .columns = PF_ISA_NAME(norm_loops_of)(c->in_type[0]),
            .x = PF_DATA(const char, x),
            .mean = PF_DATA(char, mean),
            .variance = PF_DATA(char, variance),
            .type = c->in_type[0],
            .out_type = c->out_type[0]};
  t.far = pf_numel(x) * t.f->size >= NORM_NEAR;
  if (count == 0) {
    for (int64_t i = 0; i < results; i++) put(&t, i, (moments){0, NAN, NAN});
    return PF_OK;
  }
  groups g = group_dims(x, flags);
  return run(c, &t, &g, results);
}

/* ---------------------------------------------------------------- _FusedLayerNorm */
typedef struct {
  layer_norm rows;
  const row_loops *f;
} normalisation;
static void normalise_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const normalisation *t = arg;
  (void)worker;
  t->f->normalise(&t->rows, lo, hi);
  if (t->rows.stream) pf_vf_fence();
}
/* an input as floats */
static const float *as_floats(pf_ctx *c, int32_t in) {
  const DLTensor *x = c->in[in];
  if (c->in_type[in] == PF_FLOAT32) return PF_DATA(const float, x);
  float *y = c->host->scratch(c, (uint64_t)pf_numel(x) * 4, 64);
  if (y) halves_read(c->in_type[in], PF_DATA(const void, x), y, pf_numel(x));
  else (void)pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for float parameters");
  return y;
}
static pf_status fused_layer_norm(pf_ctx *c, const void *state) {
  const moments_state *s = state;
  const DLTensor *x = c->in[0];
  for (int32_t i = 1; i < 3; i++) {
    const DLTensor *p = c->in[i];
    if (p->ndim < 1 || p->ndim > x->ndim ||
        !pf_same_dims(p->shape, p->ndim, x->shape + x->ndim - p->ndim, p->ndim) ||
        p->ndim != c->in[1]->ndim)
      return PF_INVALID(c, "%s must have the last dimensions of x, %s, got shape %s",
                        i == 1 ? "scale" : "offset", PF_SHAPE(x).s, PF_SHAPE(p).s);
  }
  DLTensor *y = c->host->forward(c, 0, 0, x->shape, x->ndim);
  PF_EXHAUSTED(y);
  int64_t all = pf_numel(x);
  if (all == 0) return PF_OK;
  normalisation t = {.f = loops_of(c->in_type[0])};
  t.rows = (layer_norm){.x = PF_DATA(const char, x),
                        .y = PF_DATA(char, y),
                        .n = pf_numel(c->in[1]),
                        .epsilon = s->epsilon,
                        .scale = as_floats(c, 1),
                        .offset = as_floats(c, 2)};
  if (!t.rows.scale || !t.rows.offset) return PF_RESOURCE_EXHAUSTED;
  t.rows.stream = all * t.f->size >= PF_STREAM_BYTES && t.rows.x != t.rows.y &&
                  (uintptr_t)t.rows.y % 64 == 0 && t.rows.n * t.f->size % 64 == 0;
  return pf_parallel(c, all / t.rows.n, pf_grain(t.rows.n * 4), normalise_range, &t);
}

const pf_kernel *const PF_ISA_NAME(moments_kernels)[] = {
  PF_CPU("_FusedMoments", "S=half|bfloat16|float, T=half|bfloat16|float", .compute = fused_moments,
         .state_size = sizeof(moments_state),
         .attrs = PF_ATTRS(PF_ATTR(moments_state, PF_ATTR_LIST | PF_ATTR_INT, axes))),
  PF_CPU("_FusedLayerNorm", "T=half|bfloat16|float", .compute = fused_layer_norm,
         .state_size = sizeof(moments_state),
         .attrs = PF_ATTRS(PF_ATTR(moments_state, PF_ATTR_FLOAT, epsilon))),
  NULL};
