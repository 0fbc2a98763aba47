/* softmax.c - Softmax, LogSoftmax, the two cross entropies with their gradients, L2Loss.
 *
 * Invariants
 *   1. The maximum of a row is taken off before exp: no finite input overflows.
 *   2. Sums run in fixed lanes, blocks of them are added in double: equal bits for any number of
 *      threads and any cut of the rows, and no more rounding in long rows than in short ones.
 *   3. Halves are computed as float and rounded once.
 *   4. Softmax and LogSoftmax of rows that fill a vector are softmax_rows.h's, but for double.
 * Threads: parallel_for over rows.
 */
#include "base/common.h"
#include "vec/half.h"
#include "base/isa.h"
#include "base/machine.h"
#include "norm/softmax_rows.h"
#include "move/transpose.h"

enum { LANES = 32, BLOCK = 2048 };        /* a loop over fewer lanes is unrolled, not vectorised */
enum { LONGEST_PAST = PF_L2_BYTES / 16 }; /* elements of a row that goes past the caches */
enum { SOFTMAX, LOG_SOFTMAX, DENSE_LABELS, SPARSE_LABELS };

typedef struct { int32_t T, Tlabels; } softmax_state;
typedef struct {
  int what;
  int32_t type, label_type;
  /* strides of logits and labels: 0 where they are broadcast */
  int64_t cols, x_row, y_row, x_col, y_col;
  const void *x, *labels;
  void *loss, *out;
  float *room; /* per worker: float copies of rows, exponentials of a row */
  int past;    /* results go past the caches */
} rows;

/* 0 <= label < cols; anything else was refused before */
static int64_t label_at(const rows *r, int64_t i) {
  return r->label_type == PF_INT32 ? ((const int32_t *)r->labels)[i]
                                   : ((const int64_t *)r->labels)[i];
}

#define DEFINE(T, tag) \
static T max_##tag(const T *x, int64_t n) { \
  T m[LANES], best; \
  int64_t i = 0; \
  for (int l = 0; l < LANES; l++) m[l] = -(T)INFINITY; \
  for (; i + LANES <= n; i += LANES) \
    for (int l = 0; l < LANES; l++) m[l] = x[i + l] > m[l] ? x[i + l] : m[l]; \
  for (; i < n; i++) m[0] = x[i] > m[0] ? x[i] : m[0]; \
  best = m[0]; \
  for (int l = 1; l < LANES; l++) best = m[l] > best ? m[l] : best; \
  return best; \
} \
static T sum_block_##tag(const T *x, int64_t n) { \
  T s[LANES] = {0}, all = 0; \
  int64_t i = 0; \
  for (; i + LANES <= n; i += LANES) \
    for (int l = 0; l < LANES; l++) s[l] += x[i + l]; \
  for (int l = 0; i < n; i++, l++) s[l] += x[i]; \
  for (int l = 0; l < LANES; l++) all += s[l]; \
  return all; \
} \
static T sum_##tag(const T *x, int64_t n) { \
  double all = 0; \
  for (int64_t i = 0; i < n; i += BLOCK) all += sum_block_##tag(x + i, PF_MIN(BLOCK, n - i)); \
  return (T)all; \
} \
static void exp_##tag(const T *x, T *y, int64_t n) { \
  PF_IVDEP for (int64_t i = 0; i < n; i++) y[i] = pf_exp_##tag(x[i]); \
} \
/* sum of exp(x), through a small buffer */ \
static T sum_exp_##tag(const T *x, int64_t n) { \
  T buf[BLOCK]; \
  double all = 0; \
  for (int64_t i = 0; i < n; i += BLOCK) { \
    int64_t m = PF_MIN(BLOCK, n - i); \
    exp_##tag(x + i, buf, m); \
    all += sum_##tag(buf, m); \
  } \
  return (T)all; \
} \
/* out = logits - their maximum, rows [lo, hi) */ \
static void centre_##tag(const rows *r, T *out, int64_t lo, int64_t hi) { \
  for (int64_t i = lo; i < hi; i++, out += r->cols) { \
    const T *x = (const T *)r->x + i * r->x_row; \
    if (r->x_col == 0) { \
      for (int64_t j = 0; j < r->cols; j++) out[j] = 0; \
      continue; \
    } \
    T m = max_##tag(x, r->cols); \
    PF_IVDEP for (int64_t j = 0; j < r->cols; j++) out[j] = x[j] - m; \
  } \
} \
static void softmax_##tag(const rows *r, T *out, int64_t lo, int64_t hi) { \
  centre_##tag(r, out, lo, hi); \
  exp_##tag(out, out, (hi - lo) * r->cols); \
  for (int64_t i = lo; i < hi; i++, out += r->cols) { \
    T scale = 1 / sum_##tag(out, r->cols); \
    PF_IVDEP for (int64_t j = 0; j < r->cols; j++) out[j] *= scale; \
  } \
} \
static void log_softmax_##tag(const rows *r, T *out, int64_t lo, int64_t hi) { \
  centre_##tag(r, out, lo, hi); \
  for (int64_t i = lo; i < hi; i++, out += r->cols) { \
    T l = pf_log_##tag(sum_exp_##tag(out, r->cols)); \
    for (int64_t j = 0; j < r->cols; j++) out[j] -= l; \
  } \
} \
/* loss = sum of label * (log sum exp - logit); gradient = softmax - label */ \
static void dense_##tag(const rows *r, T *out, int64_t lo, int64_t hi) { \
  T buf[BLOCK]; \
  centre_##tag(r, out, lo, hi); \
  for (int64_t i = lo; i < hi; i++, out += r->cols) { \
    const T *y = (const T *)r->labels + i * r->y_row; \
    T sum = sum_exp_##tag(out, r->cols), l = pf_log_##tag(sum), scale = 1 / sum; \
    double loss = 0; \
    for (int64_t at = 0; at < r->cols; at += BLOCK) { \
      int64_t m = PF_MIN(BLOCK, r->cols - at); \
      T *o = out + at; \
      const T *q = y + at * r->y_col; \
      for (int64_t j = 0; j < m; j++) { \
        T p = q[j * r->y_col]; \
        buf[j] = p == 0 ? (T)0 : p * (l - o[j]); \
      } \
      loss += sum_##tag(buf, m); \
      exp_##tag(o, o, m); \
      for (int64_t j = 0; j < m; j++) o[j] = o[j] * scale - q[j * r->y_col]; \
    } \
    ((T *)r->loss)[i] = (T)loss; \
  } \
} \
static void sparse_##tag(const rows *r, T *out, int64_t lo, int64_t hi) { \
  T *first = out; \
  centre_##tag(r, out, lo, hi); \
  for (int64_t i = lo; i < hi; i++, out += r->cols) ((T *)r->loss)[i] = -out[label_at(r, i)]; \
  out = first; \
  exp_##tag(out, out, (hi - lo) * r->cols); \
  for (int64_t i = lo; i < hi; i++, out += r->cols) { \
    T sum = sum_##tag(out, r->cols), scale = 1 / sum; \
    ((T *)r->loss)[i] += pf_log_##tag(sum); \
    for (int64_t j = 0; j < r->cols; j++) out[j] *= scale; \
    out[label_at(r, i)] -= 1; \
  } \
} \
static void block_##tag(const rows *r, int64_t lo, int64_t hi) { \
  T *out = (T *)r->out + lo * r->cols; \
  switch (r->what) { \
    case SOFTMAX: softmax_##tag(r, out, lo, hi); break; \
    case LOG_SOFTMAX: log_softmax_##tag(r, out, lo, hi); break; \
    case DENSE_LABELS: dense_##tag(r, out, lo, hi); break; \
    default: sparse_##tag(r, out, lo, hi); \
  } \
}
DEFINE(float, f32)
DEFINE(double, f64)

/* The cross entropies of float rows that fill a vector, by softmax_rows.h's loops */
static void entropy_rows(const rows *r, int64_t lo, int64_t hi) {
  const row_loops *f = &row_loops_f32;
  for (int64_t i = lo; i < hi; i++) {
    const float *x = (const float *)r->x + i * r->x_row;
    float *out = (float *)r->out + i * r->cols, m = f->largest(x, r->cols);
    float sum = f->exponentials(x, out, r->cols, m), l = pf_log_f32(sum);
    if (r->what == DENSE_LABELS) {
      const float *q = (const float *)r->labels + i * r->y_row;
      ((float *)r->loss)[i] = row_entropy(x, q, out, r->cols, m, l, 1 / sum);
      continue;
    }
    int64_t label = label_at(r, i);
    ((float *)r->loss)[i] = l - (x[label] - m);
    f->finish[0]((row_rest){out, out, 0, 1 / sum, 0}, r->cols);
    out[label] -= 1;
  }
}
/* rows that are computed together, so that they stay in the nearest cache */
static int64_t rows_at_once(const rows *r) { return PF_MAX(BLOCK / PF_MAX(r->cols, 1), 1); }

/* Rows [lo, hi) of halves as floats in `room`; a broadcast operand has one row. */
static const float *read_rows(const rows *r, const void *x, int64_t row, int64_t col, int64_t lo,
                              int64_t hi, float *room) {
  int64_t cols = col ? r->cols : 1;
  halves_read(r->type, (const uint16_t *)x + lo * row, room, (row ? hi - lo : 1) * cols);
  return room;
}
/* Through float copies of a few rows: logits, result, labels, losses. */
static void half_rows(const rows *r, int64_t lo, int64_t hi, float *room) {
  int64_t step = rows_at_once(r), size = step * r->cols;
  for (int64_t i = lo; i < hi; i += step) {
    int64_t end = PF_MIN(i + step, hi);
    rows b = *r;
    b.x = read_rows(r, r->x, r->x_row, r->x_col, i, end, room);
    b.out = room + size, b.loss = room + 3 * size;
    if (r->what == DENSE_LABELS)
      b.labels = read_rows(r, r->labels, r->y_row, r->y_col, i, end, room + 2 * size);
    if (r->what == SPARSE_LABELS)
      b.labels = (const char *)r->labels + i * pf_type_size(r->label_type);
    block_f32(&b, 0, end - i);
    halves_write(r->type, b.out, (uint16_t *)r->out + i * r->cols, (end - i) * r->cols);
    if (r->loss) halves_write(r->type, b.loss, (uint16_t *)r->loss + i, end - i);
  }
}
static int64_t room_of(const rows *r) { return rows_at_once(r) * (3 * r->cols + 1); }

/* Softmax or LogSoftmax of rows that fill a vector */
static int is_by_row(const rows *r) {
  return r->what <= LOG_SOFTMAX && r->type != PF_FLOAT64 && r->cols >= PF_VF;
}
static int64_t room_of_rows(const rows *r) { return (r->cols + 15) / 16 * 16; }
static void by_row(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const rows *r = arg;
  const row_loops *f = r->type == PF_FLOAT32   ? &row_loops_f32
                       : r->type == PF_FLOAT16 ? &row_loops_f16
                                               : &row_loops_bf16;
  rows_softmax(f, r->what == LOG_SOFTMAX, (const char *)r->x + lo * r->cols * f->size,
               (char *)r->out + lo * r->cols * f->size, hi - lo, r->cols,
               r->room ? r->room + worker * room_of_rows(r) : NULL, r->past);
}
static pf_status run_by_row(pf_ctx *c, rows *r, int64_t n) {
  r->past = n * r->cols * (pf_is_half(r->type) ? 2 : 4) >= PF_STREAM_BYTES &&
            r->cols <= LONGEST_PAST && r->x != r->out;
  if (r->what == SOFTMAX && (r->past || pf_is_half(r->type))) {
    r->room = c->host->scratch(c, (uint64_t)(room_of_rows(r) * c->host->workers(c)) * 4, 64);
    if (!r->room) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a row of exponentials");
  }
  return pf_parallel(c, n, pf_grain(r->cols * 4), by_row, r);
}

static void run_rows(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const rows *r = arg;
  int64_t step = rows_at_once(r);
  if (pf_is_half(r->type)) {
    half_rows(r, lo, hi, r->room + worker * room_of(r));
    return;
  }
  if (r->what >= DENSE_LABELS && r->type == PF_FLOAT32 && r->cols >= PF_VF && r->x_col &&
      (r->what == SPARSE_LABELS || r->y_col)) {
    entropy_rows(r, lo, hi);
    return;
  }
  for (int64_t i = lo; i < hi; i += step)
    if (r->type == PF_FLOAT64) block_f64(r, i, PF_MIN(i + step, hi));
    else block_f32(r, i, PF_MIN(i + step, hi));
}

static pf_status run(pf_ctx *c, rows *r, int32_t type, int64_t n, DLTensor *out, DLTensor *loss) {
  r->type = type;
  r->out = PF_DATA(void, out);
  r->loss = loss ? PF_DATA(void, loss) : NULL;
  if (is_by_row(r)) return run_by_row(c, r, n);
  if (pf_is_half(type)) {
    r->room = c->host->scratch(c, (uint64_t)(room_of(r) * c->host->workers(c)) * 4, 64);
    if (!r->room) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a float copy");
  }
  return pf_parallel(c, n, pf_grain(r->cols * 4), run_rows, r);
}

static pf_status softmax_of(pf_ctx *c, const softmax_state *s, int what) {
  const DLTensor *x = c->in[0];
  if (x->ndim < 1) return PF_INVALID(c, "logits must have >= 1 dimension, got %d", x->ndim);
  DLTensor *out = c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(out);
  int64_t cols = x->shape[x->ndim - 1], n = pf_product(x->shape, 0, x->ndim - 1);
  if (pf_numel(out) == 0) return PF_OK;
  rows r = {.what = what, .cols = cols, .x_row = cols, .x_col = 1, .x = PF_DATA(const void, x)};
  return run(c, &r, s->T, n, out, NULL);
}
static pf_status softmax(pf_ctx *c, const void *s) { return softmax_of(c, s, SOFTMAX); }
static pf_status log_softmax(pf_ctx *c, const void *s) { return softmax_of(c, s, LOG_SOFTMAX); }

static pf_status zero_losses(DLTensor *loss, int32_t type) {
  int64_t n = pf_numel(loss);
  if (n) memset(PF_DATA(void, loss), 0, (size_t)(n * pf_type_size(type)));
  return PF_OK;
}

static pf_status cross_entropy(pf_ctx *c, const void *state) {
  const softmax_state *s = state;
  const DLTensor *x = c->in[0], *y = c->in[1];
  int64_t shape[2];
  int ok = x->ndim == 2 && y->ndim == 2;
  for (int d = 0; ok && d < 2; d++) {
    ok = x->shape[d] == y->shape[d] || x->shape[d] == 1 || y->shape[d] == 1;
    shape[d] = x->shape[d] == 1 ? y->shape[d] : x->shape[d];
  }
  if (!ok)
    return PF_INVALID(
        c, "logits and labels must be broadcastable 2-dimensional: logits_size=%s labels_size=%s",
        PF_SHAPE(x).s, PF_SHAPE(y).s);
  DLTensor *loss = pf_output_checked(c, 0, shape, 1),
           *out = loss ? pf_output_checked(c, 1, shape, 2) : NULL;
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return zero_losses(loss, s->T);
  rows r = {.what = DENSE_LABELS,
            .cols = shape[1],
            .x = PF_DATA(const void, x),
            .labels = PF_DATA(const void, y)};
  r.x_row = x->shape[0] == 1 ? 0 : x->shape[1];
  r.y_row = y->shape[0] == 1 ? 0 : y->shape[1];
  r.x_col = x->shape[1] == shape[1];
  r.y_col = y->shape[1] == shape[1];
  return run(c, &r, s->T, shape[0], out, loss);
}

static pf_status sparse_cross_entropy(pf_ctx *c, const void *state) {
  const softmax_state *s = state;
  const DLTensor *x = c->in[0], *y = c->in[1];
  if (x->ndim != 2) return PF_INVALID(c, "logits must be 2-D, but got shape %s", PF_SHAPE(x).s);
  if (y->ndim != 1) return PF_INVALID(c, "labels must be 1-D, but got shape %s", PF_SHAPE(y).s);
  int64_t n = x->shape[0], cols = x->shape[1];
  if (y->shape[0] != n)
    return PF_INVALID(c,
                      "logits and labels must have the same first dimension, got logits shape %s "
                      "and labels shape %s",
                      PF_SHAPE(x).s, PF_SHAPE(y).s);
  if (cols < 1 && n > 0)
    return PF_INVALID(c, "Must have at least one class, but got logits shape %s", PF_SHAPE(x).s);
  for (int64_t i = 0; i < n; i++) {
    int64_t label = pf_index_at(y, s->Tlabels, i);
    if (label < 0 || label >= cols)
      return PF_INVALID(c,
                        "Received a label value of %" PRId64 " (at index %" PRId64
                        ") which is outside the valid "
                        "range of [0, %" PRId64 ")",
                        label, i, cols);
  }
  DLTensor *loss = c->host->output(c, 0, &n, 1),
           *out = loss ? c->host->output(c, 1, x->shape, 2) : NULL;
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return zero_losses(loss, s->T);
  rows r = {.what = SPARSE_LABELS,
            .cols = cols,
            .x_row = cols,
            .x_col = 1,
            .label_type = s->Tlabels,
            .x = PF_DATA(const void, x),
            .labels = PF_DATA(const void, y)};
  return run(c, &r, s->T, n, out, loss);
}

/* --------------------------------------------------- L2Loss: half the sum of squares, in double */
#define SQUARES(T, tag) static double squares_##tag(const T *x, int64_t n) { \
    double s[LANES] = {0}, all = 0; \
    int64_t i = 0; \
    for (; i + LANES <= n; i += LANES) \
      for (int l = 0; l < LANES; l++) { double v = x[i + l]; s[l] += v * v; } \
    for (int l = 0; i < n; i++, l++) { double v = x[i]; s[l] += v * v; } \
    for (int l = 0; l < LANES; l++) all += s[l]; \
    return all; }
SQUARES(float, f32)
SQUARES(double, f64)

static pf_status l2_loss(pf_ctx *c, const void *state) {
  const softmax_state *s = state;
  const DLTensor *x = c->in[0];
  int64_t n = pf_numel(x);
  DLTensor *out = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(out);
  if (s->T == PF_FLOAT64) {
    PF_DATA(double, out)[0] = squares_f64(PF_DATA(const double, x), n) / 2;
    return PF_OK;
  }
  if (s->T == PF_FLOAT32) {
    PF_DATA(float, out)[0] = (float)(squares_f32(PF_DATA(const float, x), n) / 2);
    return PF_OK;
  }
  float room[BLOCK], half;
  double sum = 0;
  for (int64_t i = 0; i < n; i += BLOCK) {
    halves_read(s->T, PF_DATA(const uint16_t, x) + i, room, PF_MIN(BLOCK, n - i));
    sum += squares_f32(room, PF_MIN(BLOCK, n - i));
  }
  half = (float)(sum / 2);
  halves_write(s->T, &half, PF_DATA(void, out), 1);
  return PF_OK;
}

#define TYPE PF_ATTR(softmax_state, PF_ATTR_TYPE, T)
#define ENTRY(op, fn, ...) PF_CPU(op, "T=" PF_FLOATS, .attrs = PF_ATTRS(__VA_ARGS__), \
  .state_size = sizeof(softmax_state), .compute = fn)
const pf_kernel *const PF_ISA_NAME(softmax_kernels)[] = {
  ENTRY("Softmax", softmax, TYPE),
  ENTRY("LogSoftmax", log_softmax, TYPE),
  ENTRY("SoftmaxCrossEntropyWithLogits", cross_entropy, TYPE),
  ENTRY("SparseSoftmaxCrossEntropyWithLogits", sparse_cross_entropy, TYPE,
        PF_ATTR(softmax_state, PF_ATTR_TYPE, Tlabels)),
  ENTRY("L2Loss", l2_loss, TYPE),
  NULL};
