/* segment.c - rows joined by segment: SegmentSum ..., UnsortedSegmentSum ..., and Bincount.  Rows
 * are joined in the order of the data, so results do not depend on threads; half and bfloat16 are
 * joined as float and rounded once.  Of a NaN and a number, max and min take the later one, as
 * TF's: a segment of NaN gives NaN. */
#include "base/common.h"

enum { SUM, MEAN, PROD, MAX_OP, MIN_OP };
typedef struct {
  void (*fill)(void *y, int64_t n);
  void (*join)(void *y, const void *x, int64_t n);
} loops;

#define SEGMENT(NAME, TAG, T, START, JOIN) \
  static void NAME##_fill_##TAG(void *py, int64_t n) { \
    T *y = (T *)py; \
    for (int64_t i = 0; i < n; i++) y[i] = START; \
  } \
  static void NAME##_join_##TAG(void *py, const void *px, int64_t n) { \
    T *y = (T *)py; \
    const T *x = (const T *)px; \
    for (int64_t i = 0; i < n; i++) { \
      T a = y[i], b = x[i]; \
      y[i] = (T)(JOIN); \
    } \
  }
#define ALL_FOUR(T, TAG, U, LEAST, GREATEST) \
  SEGMENT(sum, TAG, T, 0, (U)a + (U)b) \
  SEGMENT(prod, TAG, T, 1, (U)a * (U)b) \
  SEGMENT(max, TAG, T, LEAST, a > b ? a : b) \
  SEGMENT(min, TAG, T, GREATEST, a < b ? a : b)
ALL_FOUR(float, f32, float, -3.40282347e38f, 3.40282347e38f)
ALL_FOUR(double, f64, double, -0x1.fffffffffffffp+1023, 0x1.fffffffffffffp+1023)
ALL_FOUR(int8_t, i8, uint32_t, INT8_MIN, INT8_MAX)
ALL_FOUR(int16_t, i16, uint32_t, INT16_MIN, INT16_MAX)
ALL_FOUR(int32_t, i32, uint32_t, INT32_MIN, INT32_MAX)
ALL_FOUR(int64_t, i64, uint64_t, INT64_MIN, INT64_MAX)
ALL_FOUR(uint8_t, u8, uint32_t, 0, UINT8_MAX)
ALL_FOUR(uint16_t, u16, uint32_t, 0, UINT16_MAX)
ALL_FOUR(uint32_t, u32, uint32_t, 0, UINT32_MAX)
ALL_FOUR(uint64_t, u64, uint64_t, 0, UINT64_MAX)
SEGMENT(sum, c64, float _Complex, 0, a + b)
SEGMENT(sum, c128, double _Complex, 0, a + b)
SEGMENT(prod, c64, float _Complex, 1, a *b)
SEGMENT(prod, c128, double _Complex, 1, a *b)

#define CELL(NAME, TAG) {NAME##_fill_##TAG, NAME##_join_##TAG}
#define ROW(NAME) \
  [PF_FLOAT32] = CELL(NAME, f32), [PF_FLOAT64] = CELL(NAME, f64), [PF_INT8] = CELL(NAME, i8), \
  [PF_INT16] = CELL(NAME, i16), [PF_INT32] = CELL(NAME, i32), [PF_INT64] = CELL(NAME, i64), \
  [PF_UINT8] = CELL(NAME, u8), [PF_UINT16] = CELL(NAME, u16), [PF_UINT32] = CELL(NAME, u32), \
  [PF_UINT64] = CELL(NAME, u64)
#define COMPLEX_ROW(NAME) [PF_COMPLEX64] = CELL(NAME, c64), [PF_COMPLEX128] = CELL(NAME, c128)
static const loops table[][PF_TYPE_COUNT] = {[SUM] = {ROW(sum), COMPLEX_ROW(sum)},
                                             [MEAN] = {ROW(sum), COMPLEX_ROW(sum)},
                                             [PROD] = {ROW(prod), COMPLEX_ROW(prod)},
                                             [MAX_OP] = {ROW(max)},
                                             [MIN_OP] = {ROW(min)}};

/* data and result as the type that is computed in: float for halves */
typedef struct {
  const loops *f;
  const char *x;
  char *y;
  int64_t esize, rows, run;
  int32_t type, work;
  DLTensor *out;
} job;
static pf_status begin(pf_ctx *c, int32_t op, const int64_t *shape, int32_t nd, int64_t run,
                       job *j) {
  const DLTensor *x = c->in[0];
  j->type = c->in_type[0], j->work = pf_is_half(j->type) ? PF_FLOAT32 : j->type;
  j->f = &table[op][j->work], j->esize = pf_type_size(j->work), j->rows = shape[0], j->run = run;
  if (!j->f->join)
    return pf_failf(c, PF_UNIMPLEMENTED, "segment op is not defined for %s", pf_type_name(j->type));
  j->out = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(j->out);
  j->x = PF_DATA(const char, x), j->y = PF_DATA(char, j->out);
  if (j->type != j->work) {
    int64_t n = pf_numel(x), m = pf_numel(j->out);
    float *wide = (float *)c->host->scratch(c, (uint64_t)(n + m) * 4 + 4, 64);
    PF_EXHAUSTED(wide);
    pf_half_to_float(j->type, j->x, wide, n);
    j->x = (const char *)wide, j->y = (char *)(wide + n);
  }
  return PF_OK;
}
static void end(const job *j) {
  if (j->type != j->work)
    pf_float_to_half(j->type, (const float *)j->y, PF_DATA(void, j->out), j->rows * j->run);
}

/* -------------------------------------------------- sorted segments: empty ones are 0 (Prod: 1) */
#define MEAN_ROW(TYPE, T) \
  case TYPE: \
    for (int64_t i = 0; i < n; i++) ((T *)y)[i] = (T)(((T *)y)[i] / (T)count); \
    break;
static void divide_row(int32_t type, void *y, int64_t n, int64_t count) {
  switch (type) {
    MEAN_ROW(PF_FLOAT32, float)
    MEAN_ROW(PF_FLOAT64, double)
    MEAN_ROW(PF_COMPLEX64, float _Complex)
    MEAN_ROW(PF_COMPLEX128, double _Complex)
    MEAN_ROW(PF_INT32, int32_t)
    MEAN_ROW(PF_INT64, int64_t)
  }
}
static pf_status segment(pf_ctx *c, int32_t op) {
  const DLTensor *x = c->in[0], *ids = c->in[1];
  int64_t shape[PF_MAX_DIMS], before = 0, count = 0;
  job j;
  PF_TRY(pf_check_rank(c, x, "data"));
  if (ids->ndim != 1)
    return PF_INVALID(c, "segment_ids should be a vector, got shape %s", PF_SHAPE(ids).s);
  if (x->ndim < 1 || x->shape[0] != ids->shape[0])
    return PF_INVALID(
        c, "segment_ids should be the same size as dimension 0 of input %s, got %" PRId64,
        PF_SHAPE(x).s, ids->shape[0]);
  int64_t n = ids->shape[0], last = n ? pf_in_index(c, 1, n - 1) : -1;
  for (int64_t i = 0; i < n; i++) {
    int64_t id = pf_in_index(c, 1, i);
    if (id < 0) return PF_INVALID(c, "segment ids must be >= 0");
    if (id < before) return PF_INVALID(c, "segment ids are not increasing");
    before = id;
  }
  if (last == INT64_MAX) return PF_INVALID(c, "segment id %" PRId64 " is too large", last);
  int64_t rows = last + 1;
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
  shape[0] = rows;
  PF_TRY(begin(c, op, shape, x->ndim, pf_product(x->shape, 1, x->ndim), &j));
  int64_t bytes = j.run * j.esize;
  if (op == PROD) j.f->fill(j.y, rows * j.run);
  else if (rows && bytes) memset(j.y, 0, (size_t)(rows * bytes));
  before = -1;
  for (int64_t i = 0; i < n && bytes; i++) {
    int64_t id = pf_in_index(c, 1, i);
    if (id != before) {
      if (op == MEAN && count > 1) divide_row(j.work, j.y + before * bytes, j.run, count);
      memcpy(j.y + id * bytes, j.x + i * bytes, (size_t)bytes);
      before = id, count = 1;
    } else {
      j.f->join(j.y + id * bytes, j.x + i * bytes, j.run), count++;
    }
  }
  if (op == MEAN && count > 1) divide_row(j.work, j.y + before * bytes, j.run, count);
  end(&j);
  return PF_OK;
}

/* -------------------------------------------- unsorted: ids of any shape, negative ones dropped */
static pf_status unsorted(pf_ctx *c, int32_t op) {
  const DLTensor *x = c->in[0], *ids = c->in[1];
  int64_t rows, shape[PF_MAX_DIMS + 1], n = pf_numel(ids);
  job j;
  PF_TRY(pf_check_rank(c, x, "data"));
  PF_TRY(pf_in_scalar(c, 2, "num_segments", &rows));
  if (rows < 0)
    return PF_INVALID(c, "Input num_segments == %" PRId64 " must not be negative.", rows);
  if (ids->ndim > x->ndim || !pf_same_dims(ids->shape, ids->ndim, x->shape, ids->ndim))
    return PF_INVALID(c, "data.shape = %s does not start with segment_ids.shape = %s",
                      PF_SHAPE(x).s, PF_SHAPE(ids).s);
  for (int64_t i = 0; i < n; i++) {
    int64_t id = pf_in_index(c, 1, i);
    if (id >= rows)
      return PF_INVALID(c,
                        "segment_ids[%" PRId64 "] = %" PRId64 " is out of range [0, %" PRId64 ")",
                        i, id, rows);
  }
  int32_t nd = x->ndim - ids->ndim + 1;
  shape[0] = rows;
  for (int32_t i = 1; i < nd; i++) shape[i] = x->shape[ids->ndim + i - 1];
  PF_TRY(begin(c, op, shape, nd, pf_product(x->shape, ids->ndim, x->ndim), &j));
  int64_t bytes = j.run * j.esize;
  j.f->fill(j.y, rows * j.run);
  if (j.type != j.work &&
      (op == MAX_OP || op == MIN_OP)) { /* the half types' own lowest and highest */
    float limit = j.type == PF_FLOAT16 ? 65504.0f : 0x1.fep127f;
    for (int64_t i = 0; i < rows * j.run; i++) ((float *)j.y)[i] = op == MAX_OP ? -limit : limit;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t id = pf_in_index(c, 1, i);
    if (id >= 0) j.f->join(j.y + id * bytes, j.x + i * bytes, j.run);
  }
  end(&j);
  return PF_OK;
}
#define OPS(NAME, OP) \
  static pf_status segment_##NAME(pf_ctx *c, const void *state) { \
    (void)state; \
    return segment(c, OP); \
  } \
  static pf_status unsorted_##NAME(pf_ctx *c, const void *state) { \
    (void)state; \
    return unsorted(c, OP); \
  }
static pf_status segment_mean(pf_ctx *c, const void *state) {
  (void)state;
  return segment(c, MEAN);
}
OPS(sum, SUM)
OPS(prod, PROD)
OPS(max, MAX_OP)
OPS(min, MIN_OP)

/* ---------------------------------------------------------------- Bincount */
#define BINCOUNT(TYPE, T, U) \
  case TYPE: \
    for (int64_t i = 0; i < n; i++) { \
      int32_t v = a[i]; \
      if (v < size) \
        PF_DATA(T, y)[v] = (T)((U)PF_DATA(T, y)[v] + (U)(weighted ? PF_DATA(const T, w)[i] : 1)); \
    } \
    break;
static pf_status bincount(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *w = c->in[2];
  int64_t size, n = pf_numel(x), weighted = pf_numel(w);
  const int32_t *a = PF_DATA(const int32_t, x);
  (void)state;
  PF_TRY(pf_in_scalar(c, 1, "size", &size));
  if (size < 0) return PF_INVALID(c, "size (%" PRId64 ") must be non-negative", size);
  if (weighted && weighted != n)
    return PF_INVALID(c, "weights must be empty or of arr's size %" PRId64 ", got shape %s", n,
                      PF_SHAPE(w).s);
  for (int64_t i = 0; i < n; i++)
    if (a[i] < 0) return PF_INVALID(c, "Input arr must be non-negative!");
  DLTensor *y = pf_output_checked(c, 0, &size, 1);
  PF_EXHAUSTED(y);
  if (size) memset(PF_DATA(char, y), 0, (size_t)(size * pf_type_size(c->out_type[0])));
  switch (c->out_type[0]) {
    BINCOUNT(PF_FLOAT32, float, float)
    BINCOUNT(PF_FLOAT64, double, double)
    BINCOUNT(PF_INT32, int32_t, uint32_t)
    BINCOUNT(PF_INT64, int64_t, uint64_t)
    default:
      return pf_failf(c, PF_UNIMPLEMENTED, "Bincount is not defined for %s",
                      pf_type_name(c->out_type[0]));
  }
  return PF_OK;
}

const pf_kernel *const segment_kernels[] = {
  PF_CPU("SegmentSum", "T=" PF_NUMBERS, .compute = segment_sum),
  PF_CPU("SegmentMean", "T=" PF_FLOATS "|int32|int64|" PF_COMPLEX, .compute = segment_mean),
  PF_CPU("SegmentProd", "T=" PF_NUMBERS, .compute = segment_prod),
  PF_CPU("SegmentMax", "T=" PF_REAL, .compute = segment_max),
  PF_CPU("SegmentMin", "T=" PF_REAL, .compute = segment_min),
  PF_CPU("UnsortedSegmentSum", "T=" PF_NUMBERS, .compute = unsorted_sum),
  PF_CPU("UnsortedSegmentProd", "T=" PF_NUMBERS, .compute = unsorted_prod),
  PF_CPU("UnsortedSegmentMax", "T=" PF_REAL, .compute = unsorted_max),
  PF_CPU("UnsortedSegmentMin", "T=" PF_REAL, .compute = unsorted_min),
  PF_CPU("Bincount", "T=int32|int64|float|double", .compute = bincount),
  NULL};
