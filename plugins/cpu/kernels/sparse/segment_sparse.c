/* segment_sparse.c - rows of data picked by index and joined by segment: SparseSegmentSum, Mean and
 * SqrtN, with and without a number of segments, and their gradients.
 *
 * Invariants
 *   1. Segment ids rise; a segment without rows is 0.
 *   2. Sums run in the order of the indices, in double for float32 and half, so results do not
 *      depend on threads.
 * Threads: one per call.
 */
#include "base/common.h"
#include "vec/float_at.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { SUM, MEAN, SQRT_N };

static double share(int op, int64_t count) {
  return op == SUM ? 1.0 : op == MEAN ? 1.0 / (double)count : 1.0 / sqrt((double)count);
}
#define ADD_ROW(TYPE, T, TAG) \
  case TYPE: \
    for (int64_t j = 0; j < run; j++) \
      PF_DATA(T, y)[to * run + j] = (T)((uint64_t)PF_DATA(T, y)[to * run + j] + \
                                        (uint64_t)PF_DATA(const T, x)[from * run + j]); \
    break;
static void add_int_row(int32_t type, DLTensor *y, int64_t to, const DLTensor *x, int64_t from,
                        int64_t run) {
  switch (type) { PF_EACH_INT(ADD_ROW) }
}
/* Whether all of a typed run of indices lie in [0, limit); whether ids rise from 0 on.  What fails
 * is found again by `check`, which says what is wrong. */
#define ALL_GOOD(T, U) \
  static int below_##T(const T *x, int64_t n, int64_t limit) { \
    T bad = 0; \
    for (int64_t i = 0; i < n; i++) bad |= (T)((U)x[i] >= (U)limit); \
    return !bad; \
  } \
  static int rising_##T(const T *x, int64_t n) { \
    T bad = 0; \
    for (int64_t i = 1; i < n; i++) bad |= (T)(x[i] < x[i - 1]); \
    return !bad && (n == 0 || x[0] >= 0); \
  }
ALL_GOOD(int32_t, uint32_t)
ALL_GOOD(int64_t, uint64_t)
static int all_good(pf_ctx *c, int64_t rows, int64_t segments, int64_t *last) {
  const DLTensor *at = c->in[1], *ids = c->in[2];
  int64_t n = at->shape[0];
  int good = c->in_type[1] == PF_INT32
                 ? below_int32_t(PF_DATA(const int32_t, at), n, PF_MIN(rows, INT32_MAX))
                 : c->in_type[1] == PF_INT64 && below_int64_t(PF_DATA(const int64_t, at), n, rows);
  if (c->in_type[2] == PF_INT32) good = good && rising_int32_t(PF_DATA(const int32_t, ids), n);
  else good = good && c->in_type[2] == PF_INT64 && rising_int64_t(PF_DATA(const int64_t, ids), n);
  *last = good && n ? pf_in_index(c, 2, n - 1) : -1;
  return good && (segments < 0 || *last < segments);
}
/* ids and indices of inputs 1 and 2, checked; the last id */
static pf_status check(pf_ctx *c, int64_t rows, int64_t segments, int64_t *last) {
  const DLTensor *at = c->in[1], *ids = c->in[2];
  if (at->ndim != 1 || ids->ndim != 1 || at->shape[0] != ids->shape[0])
    return PF_INVALID(c, "indices and segment_ids should be vectors of one size, got %s and %s",
                      PF_SHAPE(at).s, PF_SHAPE(ids).s);
  if (all_good(c, rows, segments, last)) return PF_OK;
  *last = -1;
  for (int64_t i = 0; i < at->shape[0]; i++) {
    int64_t from = pf_in_index(c, 1, i), id = pf_in_index(c, 2, i);
    if (from < 0 || from >= rows)
      return PF_INVALID(c, "indices[%" PRId64 "] == %" PRId64 " out of range [0, %" PRId64 ")", i,
                        from, rows);
    if (id < 0) return PF_INVALID(c, "segment ids must be >= 0");
    if (id < *last) return PF_INVALID(c, "segment ids are not increasing");
    if (segments >= 0 && id >= segments)
      return PF_INVALID(c, "segment ids must be < num_segments: %" PRId64 " >= %" PRId64, id,
                        segments);
    *last = id;
  }
  return PF_OK;
}
/* Sums of float rows, WIDE columns at a time in registers; the rows that follow are
 * fetched meanwhile. */
enum { WIDE = 16, AHEAD = 16, FETCHED = 512 };
#if defined(__SSE2__)
#define ADD_TWO(s, p) \
  (s) = _mm_add_pd(s, _mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)(p)))))
typedef __m128d double2;
#else
typedef double double2 __attribute__((vector_size(16)));
#define ADD_TWO(s, p) (s) += (double2){(double)(p)[0], (double)(p)[1]}
#endif
static void sum_columns(const float *x, const int64_t *from, int64_t n, int64_t width,
                        double *sum) {
  if (width < WIDE) {
    for (int64_t k = 0; k < width; k++) sum[k] = 0;
    for (int64_t i = 0; i < n; i++)
      for (int64_t k = 0; k < width; k++) sum[k] += (double)x[from[i] + k];
    return;
  }
  double2 s[WIDE / 2] = {{0}};
  for (int64_t i = 0; i < n; i++) {
    const float *p = x + from[i];
    for (int k = 0; k < WIDE / 2; k++) ADD_TWO(s[k], p + 2 * k);
  }
  memcpy(sum, s, sizeof s);
}
/* the rows that begin at from[0 .. n) summed, times `scale`; `later` more of them follow */
static void sum_rows(const float *x, const int64_t *from, int64_t n, int64_t later, int64_t run,
                     double scale, float *y) {
  double sum[WIDE];
  for (int64_t i = n; i < n + PF_MIN(AHEAD, later); i++)
    for (int64_t b = 0; b < PF_MIN(run * 4, FETCHED); b += 64)
      __builtin_prefetch((const char *)(x + from[i]) + b);
  for (int64_t j = 0; j < run; j += WIDE) {
    int64_t width = PF_MIN(WIDE, run - j);
    sum_columns(x + j, from, n, width, sum);
    for (int64_t k = 0; k < width; k++) y[j + k] = (float)(sum[k] * scale);
  }
}
static pf_status segments(pf_ctx *c, int op, int counted) {
  const DLTensor *x = c->in[0];
  int64_t shape[PF_MAX_DIMS], rows = -1, last;
  int32_t type = c->in_type[0];
  PF_TRY(pf_check_rank(c, x, "data"));
  if (x->ndim < 1) return PF_INVALID(c, "input must be at least rank 1, got a scalar");
  if (counted) {
    PF_TRY(pf_in_scalar(c, 3, "num_segments", &rows));
    if (rows < 0) return PF_INVALID(c, "num_segments must be >= 0, got %" PRId64, rows);
  }
  PF_TRY(check(c, x->shape[0], rows, &last));
  if (last == INT64_MAX) return PF_INVALID(c, "segment id %" PRId64 " is too large", last);
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
  shape[0] = counted ? rows : last + 1;
  DLTensor *y = pf_output_checked(c, 0, shape, x->ndim);
  PF_EXHAUSTED(y);
  int64_t run = pf_product(x->shape, 1, x->ndim), n = c->in[1]->shape[0];
  int64_t bytes = pf_numel(y) * pf_type_size(type);
  if (bytes) memset(PF_DATA(char, y), 0, (size_t)bytes);
  if (run == 0) return PF_OK;
  double *sum = c->host->scratch(c, (uint64_t)run * 8 + 8, 64);
  PF_EXHAUSTED(sum);
  int64_t *from = c->host->scratch(c, (uint64_t)n * 8 + 8, 64);
  PF_EXHAUSTED(from);
  for (int64_t i = 0; i < n; i++) from[i] = pf_in_index(c, 1, i) * run;
  int whole = type != PF_FLOAT64 && type != PF_FLOAT32 && !pf_is_half(type);
  for (int64_t lo = 0, hi; lo < n; lo = hi) {
    int64_t id = pf_in_index(c, 2, lo);
    for (hi = lo; hi < n && pf_in_index(c, 2, hi) == id; hi++) {}
    if (whole) {
      for (int64_t i = lo; i < hi; i++) add_int_row(type, y, id, x, pf_in_index(c, 1, i), run);
      continue;
    }
    if (type == PF_FLOAT32) {
      sum_rows(PF_DATA(const float, x), from + lo, hi - lo, n - hi, run, share(op, hi - lo),
               PF_DATA(float, y) + id * run);
      continue;
    }
    for (int64_t j = 0; j < run; j++) sum[j] = 0;
    for (int64_t i = lo; i < hi; i++) {
      for (int64_t j = 0; j < run; j++) sum[j] += get(x, type, from[i] + j);
    }
    double scale = share(op, hi - lo);
    for (int64_t j = 0; j < run; j++) put(y, type, id * run + j, sum[j] * scale);
  }
  return PF_OK;
}
/* y[indices[i]] += grad[segment_ids[i]] * share of its segment */
static pf_status gradient(pf_ctx *c, int op) {
  const DLTensor *g = c->in[0];
  int64_t shape[PF_MAX_DIMS], rows, last;
  int32_t type = c->in_type[0];
  PF_TRY(pf_check_rank(c, g, "grad"));
  if (g->ndim < 1) return PF_INVALID(c, "grad must be at least rank 1, got a scalar");
  PF_TRY(pf_in_scalar(c, 3, "output_dim0", &rows));
  if (rows < 0) return PF_INVALID(c, "output_dim0 must be >= 0, got %" PRId64, rows);
  PF_TRY(check(c, rows, g->shape[0], &last));
  memcpy(shape, g->shape, sizeof(int64_t) * (size_t)g->ndim);
  shape[0] = rows;
  DLTensor *y = pf_output_checked(c, 0, shape, g->ndim);
  PF_EXHAUSTED(y);
  int64_t run = pf_product(g->shape, 1, g->ndim), n = c->in[1]->shape[0], all = pf_numel(y);
  if (all) memset(PF_DATA(char, y), 0, (size_t)(all * pf_type_size(type)));
  for (int64_t lo = 0, hi; lo < n && run; lo = hi) {
    int64_t id = pf_in_index(c, 2, lo);
    for (hi = lo; hi < n && pf_in_index(c, 2, hi) == id; hi++) {}
    double scale = share(op, hi - lo);
    for (int64_t i = lo; i < hi; i++) {
      int64_t to = pf_in_index(c, 1, i) * run;
      if (type == PF_FLOAT32) {
        float *sum = PF_DATA(float, y) + to;
        const float *dy = PF_DATA(const float, g) + id * run;
        for (int64_t j = 0; j < run; j++) sum[j] = (float)((double)sum[j] + (double)dy[j] * scale);
        continue;
      }
      for (int64_t j = 0; j < run; j++)
        put(y, type, to + j, get(y, type, to + j) + get(g, type, id * run + j) * scale);
    }
  }
  return PF_OK;
}
#define OPS(NAME, OP) \
  static pf_status NAME(pf_ctx *c, const void *s) { (void)s; return segments(c, OP, 0); } \
  static pf_status NAME##_counted(pf_ctx *c, const void *s) { (void)s; return segments(c, OP, 1); } \
  static pf_status NAME##_grad(pf_ctx *c, const void *s) { (void)s; return gradient(c, OP); }
OPS(sum, SUM)
OPS(mean, MEAN)
OPS(sqrt_n, SQRT_N)

#define FAMILY(NAME, f, types) \
  PF_CPU("SparseSegment" NAME, "T=" types, .compute = f), \
  PF_CPU("SparseSegment" NAME "WithNumSegments", "T=" types, .compute = f##_counted)
const pf_kernel *const segment_sparse_kernels[] = {
  FAMILY("Sum", sum, PF_REAL),
  FAMILY("Mean", mean, PF_FLOATS),
  FAMILY("SqrtN", sqrt_n, PF_FLOATS),
  PF_CPU("SparseSegmentSumGrad", "T=" PF_FLOATS, .compute = sum_grad),
  PF_CPU("SparseSegmentMeanGrad", "T=" PF_FLOATS, .compute = mean_grad),
  PF_CPU("SparseSegmentSqrtNGrad", "T=" PF_FLOATS, .compute = sqrt_n_grad),
  NULL};
