/* norm.c - FusedBatchNorm V1 to V3 with gradients.
 *
 * Two passes over the data: sums per channel, then the result.  The second one goes from the end of
 * the data to its beginning, so that it meets what the first one left in the caches, and stores
 * large results past them.
 *
 * Invariants
 *   1. Sums are taken in parts of the rows that depend on the shape only, and joined in their order
 *      in double: equal bits for any number of threads.
 *   2. One pass gives mean and variance: of differences from a shift near the part's mean (that of
 *      its first SHIFT_ROWS rows; 0 where it is not finite), so that nothing cancels; parts are
 *      joined by their means.
 *   3. Everything is computed as float; halves are read and rounded once, on the way.
 * Threads: parallel_for over parts, then over blocks of rows.
 *
 * NHWC has n * h * w rows of c channels; several are seen as one row, so that its w columns fill
 * vectors.  NCHW has runs of h * w elements of one channel; a run is seen as rows of NORM_WIDTH.
 */
#include "base/common.h"
#include "base/isa.h"
#include "base/machine.h"
#include "norm/norm_passes.h"
#include "move/transpose.h"
#include "conv/window.h"

#define NORM_LOOPS(TYPE, TAG) \
  static void sums_##TAG(const void *x, const void *dy, int64_t rows, int64_t stride, int64_t w, \
                         int64_t next, const float *shift, double *S, double *Q) { \
    if (next) norm_sums(TYPE, 1, x, dy, rows, stride, w, next, shift, S, Q); \
    else norm_sums(TYPE, 0, x, dy, rows, stride, w, 0, shift, S, Q); \
  } \
  static void apply_##TAG(const void *x, const void *dy, void *y, int64_t rows, int64_t w, \
                          norm_params p, int stream) { \
    if (stream) norm_apply(TYPE, x, dy, y, rows, w, p, 1); \
    else norm_apply(TYPE, x, dy, y, rows, w, p, 0); \
  } \
  static const norm_loops norm_loops_##TAG = {TYPE == PF_FLOAT32 ? 4 : 2, sums_##TAG, apply_##TAG};
NORM_LOOPS(PF_FLOAT32, f32)
NORM_LOOPS(PF_FLOAT16, f16)
NORM_LOOPS(PF_BFLOAT16, bf16)
const norm_loops *PF_ISA_NAME(norm_loops_of)(int32_t type) {
  return type == PF_FLOAT32   ? &norm_loops_f32
         : type == PF_FLOAT16 ? &norm_loops_f16
                              : &norm_loops_bf16;
}

enum { PARTS = 32, SHIFT_ROWS = 16, WIDEST = 4096 };
typedef struct {
  int32_t T, training;
  double epsilon, average;
  pf_str data_format;
  int32_t nchw, reserved;
} norm_state;

typedef struct {
  const norm_loops *f;
  int64_t c, n;                 /* channels; elements of each */
  int64_t inner;                /* NCHW: elements of a run; NHWC: 0 */
  int64_t rows, w, last;        /* NHWC: rows, columns, columns of a shorter last row */
  int64_t outer, parts, blocks; /* NCHW: images */
  const char *x, *dy;           /* dy: NULL in the forward pass */
  char *y;
  const float *mean;         /* backward: of each column */
  norm_params p;             /* of each column; NCHW: of each channel */
  double *sum, *dot;         /* [parts][w], or [parts][c] */
  float *shift;              /* likewise */
  int stream, forwards, far; /* forwards: nothing was read before; far: much is */
} norm;

static int64_t part_begin(int64_t n, int64_t parts, int64_t i) { return n * i / parts; }
static const char *at(const norm *p, const char *x, int64_t i) {
  return x ? x + i * p->f->size : NULL;
}

/* ---------------------------------------------------------------- sums */
/* S and Q of `rows` rows; without a mean, `shift` becomes that of the first of them */
static void sum_rows(const norm *p, int64_t from, int64_t rows, int64_t w, float *shift, double *S,
                     double *Q) {
  int64_t first = PF_MIN(rows, SHIFT_ROWS);
  if (!p->dy) {
    memset(shift, 0, sizeof(float) * (size_t)w);
    p->f->sums(at(p, p->x, from), NULL, first, w, w, 0, shift, S, Q);
    for (int64_t j = 0; j < w; j++) shift[j] = norm_shift(S[j], (double)first), S[j] = Q[j] = 0;
  }
  p->f->sums(at(p, p->x, from), at(p, p->dy, from), rows, w, w, p->far ? rows * w * p->f->size : 0,
             shift, S, Q);
}
static void sum_nhwc(void *arg, int64_t from, int64_t to, int32_t worker) {
  const norm *p = arg;
  (void)worker;
  for (int64_t i = from; i < to; i++) {
    int64_t lo = part_begin(p->rows, p->parts, i), hi = part_begin(p->rows, p->parts, i + 1);
    double *S = p->sum + i * p->w, *Q = p->dot + i * p->w;
    float *shift = p->shift + i * p->w;
    memset(S, 0, 8 * (size_t)p->w), memset(Q, 0, 8 * (size_t)p->w);
    if (p->dy) memcpy(shift, p->mean, 4 * (size_t)p->w);
    sum_rows(p, lo * p->w, hi - lo, p->w, shift, S, Q);
    if (i == p->parts - 1 && p->last)
      p->f->sums(at(p, p->x, hi * p->w), at(p, p->dy, hi * p->w), 1, p->w, p->last, 0, shift, S, Q);
  }
}
/* one channel of a part of the images */
static void sum_nchw(void *arg, int64_t from, int64_t to, int32_t worker) {
  const norm *p = arg;
  (void)worker;
  for (int64_t i = from; i < to; i++) {
    int64_t k = i % p->c, part = i / p->c;
    int64_t rows = p->inner / NORM_WIDTH, rest = p->inner % NORM_WIDTH;
    double S[NORM_WIDTH] = {0}, Q[NORM_WIDTH] = {0}, s = 0, q = 0;
    float shift[NORM_WIDTH];
    for (int64_t r = part_begin(p->outer, p->parts, part), begin = r,
                 end = part_begin(p->outer, p->parts, part + 1);
         r < end; r++) {
      int64_t run = (r * p->c + k) * p->inner, tail = run + rows * NORM_WIDTH;
      int64_t next = r + 1 < end ? p->c * p->inner : ((begin - r) * p->c + 1) * p->inner;
      if (r == begin) {
        double d[NORM_WIDTH] = {0}, unused[NORM_WIDTH] = {0}, first = 0;
        int64_t m = PF_MIN(p->inner, NORM_WIDTH);
        memset(shift, 0, sizeof shift);
        if (!p->dy) p->f->sums(at(p, p->x, run), NULL, 1, m, m, 0, shift, d, unused);
        for (int64_t j = 0; j < m; j++) first += d[j];
        for (int64_t j = 0; j < NORM_WIDTH; j++)
          shift[j] = p->dy ? p->mean[k] : norm_shift(first, (double)m);
      }
      p->f->sums(at(p, p->x, run), at(p, p->dy, run), rows, NORM_WIDTH, NORM_WIDTH,
                 p->far ? next * p->f->size : 0, shift, S, Q);
      if (rest) p->f->sums(at(p, p->x, tail), at(p, p->dy, tail), 1, rest, rest, 0, shift, S, Q);
    }
    for (int64_t j = 0; j < NORM_WIDTH; j++) s += S[j], q += Q[j];
    p->sum[i] = s, p->dot[i] = q, p->shift[i] = shift[0];
  }
}
static pf_status run_sums(pf_ctx *c, norm *p) {
  p->far = p->n * p->c * p->f->size >= NORM_NEAR;
  if (p->inner) return pf_parallel(c, p->parts * p->c, pf_grain(p->n / p->parts * 2), sum_nchw, p);
  return pf_parallel(c, p->parts, pf_grain(p->rows / p->parts * p->w * 2), sum_nhwc, p);
}
static int64_t columns(const norm *p) { return p->inner ? p->c : p->w; }
/* elements that column j of part i has summed */
static double count_of(const norm *p, int64_t i, int64_t j) {
  int64_t n = p->inner ? p->outer : p->rows;
  n = part_begin(n, p->parts, i + 1) - part_begin(n, p->parts, i);
  return (double)(p->inner ? n * p->inner : n + (i == p->parts - 1 && j < p->last));
}
/* The mean and the sum of squares around it, per channel. */
static void join_moments(const norm *p, double *mean, double *square) {
  int64_t w = columns(p);
  for (int64_t k = 0; k < p->c; k++) mean[k] = square[k] = 0;
  for (int64_t i = 0; i < p->parts; i++)
    for (int64_t j = 0; j < w; j++)
      mean[j % p->c] += count_of(p, i, j) * p->shift[i * w + j] + p->sum[i * w + j];
  for (int64_t k = 0; k < p->c; k++) mean[k] /= (double)p->n;
  for (int64_t i = 0; i < p->parts; i++)
    for (int64_t j = 0; j < w; j++) {
      double d = p->shift[i * w + j] - mean[j % p->c];
      square[j % p->c] += p->dot[i * w + j] + d * (2 * p->sum[i * w + j] + count_of(p, i, j) * d);
    }
}
static void join_sums(const norm *p, double *sum, double *dot) {
  int64_t w = columns(p);
  for (int64_t k = 0; k < p->c; k++) sum[k] = dot[k] = 0;
  for (int64_t i = 0; i < p->parts; i++)
    for (int64_t j = 0; j < w; j++)
      sum[j % p->c] += p->sum[i * w + j], dot[j % p->c] += p->dot[i * w + j];
}

/* ---------------------------------------------------------------- results */
/* Block i, counted from the end but where nothing is in the caches. */
static int64_t block_of(const norm *p, int64_t i) { return p->forwards ? i : p->blocks - i - 1; }
static void apply_nhwc(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const norm *p = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    int64_t b = block_of(p, i);
    int64_t from = part_begin(p->rows, p->blocks, b), to = part_begin(p->rows, p->blocks, b + 1);
    if (b == p->blocks - 1 && p->last)
      p->f->apply(at(p, p->x, to * p->w), at(p, p->dy, to * p->w), p->y + to * p->w * p->f->size, 1,
                  p->last, p->p, 0);
    p->f->apply(at(p, p->x, from * p->w), at(p, p->dy, from * p->w),
                p->y + from * p->w * p->f->size, to - from, p->w, p->p, p->stream);
  }
  if (p->stream) pf_vf_fence();
}
static void apply_nchw(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const norm *p = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    int64_t b = block_of(p, i), k = b % p->c;
    int64_t rows = p->inner / NORM_WIDTH, rest = p->inner % NORM_WIDTH;
    int64_t run = b * p->inner, tail = run + rows * NORM_WIDTH;
    float m[NORM_WIDTH], a[NORM_WIDTH], g[NORM_WIDTH], o[NORM_WIDTH];
    norm_params q = {m, a, g, o};
    for (int64_t j = 0; j < NORM_WIDTH; j++)
      m[j] = p->p.m[k], a[j] = p->p.a[k], g[j] = p->dy ? p->p.b[k] : 0, o[j] = p->p.o[k];
    p->f->apply(at(p, p->x, run), at(p, p->dy, run), p->y + run * p->f->size, rows, NORM_WIDTH, q,
                p->stream);
    if (rest)
      p->f->apply(at(p, p->x, tail), at(p, p->dy, tail), p->y + tail * p->f->size, 1, rest, q, 0);
  }
  if (p->stream) pf_vf_fence();
}
static pf_status run_apply(pf_ctx *c, norm *p) {
  int64_t line = 64 / p->f->size;
  p->stream = p->n * p->c * p->f->size >= PF_STREAM_BYTES && p->y != p->dy && p->y != p->x &&
              (uintptr_t)p->y % 64 == 0 && (p->inner ? p->inner : p->w) % line == 0;
  if (p->inner) {
    p->blocks = p->outer * p->c;
    return pf_parallel(c, p->blocks, pf_grain(p->inner), apply_nchw, p);
  }
  p->blocks = PF_MAX(PF_MIN(p->rows * p->w / (2 * NORM_BLOCK), p->rows), 1);
  return pf_parallel(c, p->blocks, pf_grain(p->rows * p->w / p->blocks), apply_nhwc, p);
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

/* NHWC: as many rows in one as make whole lines of its elements */
static void fold_rows(norm *p) {
  int64_t k = 1, rows = p->n;
  while (k < NORM_WIDTH && k * p->c % NORM_WIDTH) k *= 2;
  if (k * p->c > WIDEST || rows < 4 * k) k = 1;
  p->w = k * p->c, p->rows = rows / k, p->last = rows % k * p->c;
}
static pf_status norm_open(pf_ctx *c, const norm_state *s, const DLTensor *x, norm *p) {
  if (x->ndim != 4) return PF_INVALID(c, "input must be 4-dimensional: %s", PF_SHAPE(x).s);
  *p = (norm){
    .outer = x->shape[0], .c = x->shape[s->nchw ? 1 : 3], .f = PF_ISA_NAME(norm_loops_of)(s->T)};
  int64_t elements = pf_numel(x);
  if (elements == 0) return PF_OK;
  p->x = PF_DATA(const char, x);
  p->n = elements / p->c;
  if (s->nchw) p->inner = x->shape[2] * x->shape[3];
  else fold_rows(p);
  p->parts = PF_MAX(
      PF_MIN(PF_MIN(p->inner ? p->outer : p->rows / 4, PARTS), elements / (4 * NORM_BLOCK)), 1);
  uint64_t places = (uint64_t)(p->parts * columns(p)) + 8;
  p->sum = c->host->scratch(c, places * 20, 64);
  if (!p->sum) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for batch normalisation");
  p->dot = p->sum + places, p->shift = (float *)(p->dot + places);
  return PF_OK;
}
/* `per channel` as `per column` */
static const float *spread(pf_ctx *c, const norm *p, const float *x) {
  int64_t w = columns(p);
  if (w == p->c) return x;
  float *y = c->host->scratch(c, (uint64_t)w * 4, 64);
  for (int64_t j = 0; y && j < w; j++) y[j] = x[j % p->c];
  if (!y) pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for batch normalisation");
  return y;
}
static pf_status spread_params(pf_ctx *c, norm *p, const float *b) {
  p->p.m = spread(c, p, p->p.m), p->p.a = spread(c, p, p->p.a), p->p.o = spread(c, p, p->p.o);
  p->p.b = b ? spread(c, p, b) : NULL;
  return p->p.m && p->p.a && p->p.o && (p->p.b || !b) ? PF_OK : PF_RESOURCE_EXHAUSTED;
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
  double *mean = c->host->scratch(c, (uint64_t)p->c * 16 + 64, 64), *square = mean + p->c;
  if (!mean) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for batch normalisation");
  PF_TRY(run_sums(c, p));
  join_moments(p, mean, square);
  float f = s->average > 0 ? (float)s->average : 1.0f;
  const float *old_mean = PF_DATA(const float, c->in[3]), *old_var = PF_DATA(const float, c->in[4]);
  for (int64_t k = 0; k < p->c; k++) {
    o->saved_mean[k] = (float)mean[k];
    o->saved_var[k] = (float)(square[k] / (double)p->n);
    float var = (float)(square[k] / (double)(p->n > 1 ? p->n - 1 : 1));
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
  float *a = room(c, p.c);
  if (!a) return PF_RESOURCE_EXHAUSTED;
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
  p.y = PF_DATA(char, y);
  p.p = (norm_params){o.saved_mean, a, NULL, PF_DATA(const float, c->in[2])};
  p.forwards = !s->training;
  PF_TRY(spread_params(c, &p, NULL));
  return run_apply(c, &p);
}

/* ---------------------------------------------------------------- gradient */
static pf_status gradient_coefficients(pf_ctx *c, const norm_state *s, norm *p, float *coef,
                                       float *d_scale, float *d_offset) {
  double *sum = c->host->scratch(c, (uint64_t)p->c * 16 + 64, 64), *dot = sum + p->c;
  if (!sum) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for batch normalisation");
  const float *var = PF_DATA(const float, c->in[4]), *scale = PF_DATA(const float, c->in[2]);
  double n = (double)p->n;
  float *a = coef, *b = a + p->c, *o = b + p->c;
  PF_TRY(run_sums(c, p));
  join_sums(p, sum, dot);
  for (int64_t k = 0; k < p->c; k++) {
    double inv = 1.0 / sqrt((double)var[k] + s->epsilon);
    d_offset[k] = (float)sum[k];
    d_scale[k] = (float)(dot[k] * inv);
    a[k] = (float)(scale[k] * inv);
    b[k] = s->training ? (float)(scale[k] * inv * inv * inv * dot[k] / n) : 0;
    o[k] = s->training ? (float)(scale[k] * inv * sum[k] / n) : 0;
  }
  p->p.a = a, p->p.o = o;
  return spread_params(c, p, b);
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
  DLTensor *dx = c->host->forward(c, 0, 0, x->shape, x->ndim), /* dy's buffer, if it is free */
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
  p.p.m = PF_DATA(const float, c->in[3]);
  p.dy = PF_DATA(const char, dy), p.y = PF_DATA(char, dx);
  p.mean = spread(c, &p, p.p.m);
  float *coef = room(c, 3 * p.c);
  if (!p.mean || !coef) return PF_RESOURCE_EXHAUSTED;
  PF_TRY(gradient_coefficients(c, s, &p, coef, PF_DATA(float, ds), PF_DATA(float, d_offset)));
  return run_apply(c, &p);
}

#define FIELD(kind, name) PF_ATTR(norm_state, kind, name)
#define OPTIONAL(name_, kind, field) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, name_, kind, offsetof(norm_state, field)})
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#define ENTRY(op, where, fn, args_) PF_CPU_FLAGS(op, where, FLAGS, .args = args_, \
  .attrs = PF_ATTRS(FIELD(PF_ATTR_TYPE, T), FIELD(PF_ATTR_FLOAT, epsilon), \
                    OPTIONAL("data_format", PF_ATTR_STRING, data_format), \
                    OPTIONAL("is_training", PF_ATTR_BOOL, training), \
                    OPTIONAL("exponential_avg_factor", PF_ATTR_FLOAT, average)), \
  .state_size = sizeof(norm_state), .init = norm_init, .compute = fn)
#define GRAD PF_OVER("x_backprop", 0)

const pf_kernel *const PF_ISA_NAME(norm_kernels)[] = {
  ENTRY("FusedBatchNorm", "T=float", batch_norm, NULL),
  ENTRY("FusedBatchNormV2", "T=half|bfloat16|float, U=float", batch_norm, NULL),
  ENTRY("FusedBatchNormV3", "T=half|bfloat16|float, U=float", batch_norm, NULL),
  ENTRY("FusedBatchNormGrad", "T=float", batch_norm_grad, GRAD),
  ENTRY("FusedBatchNormGradV2", "T=half|bfloat16|float, U=float", batch_norm_grad, GRAD),
  ENTRY("FusedBatchNormGradV3", "T=half|bfloat16|float, U=float", batch_norm_grad, GRAD),
  NULL};
