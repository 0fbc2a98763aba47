/* argmax.c - ArgMax, ArgMin: where along one axis the first best element is.
 *
 * The input is [outer, n, inner] around the axis:
 *
 *     inner == 1   a row is read in pieces; the best value of each by lanes, then its place in the
 *                  piece that has the row's best.  Floats and halves: best_in_row, in vectors;
 *                  other common types: WIDE_ROW.  Short rows are turned into columns
 *     inner > 1    tiles of columns: the best value and its row, side by side
 *
 * Invariants: of equal elements the first one is taken; NaN is never better (a row that begins with
 * NaN gives 0); half and bfloat16 are compared as float.
 * Threads: parallel_for over rows and tiles.
 */
#include "base/common.h"
#include "vec/half.h"
#include "base/isa.h"
#include "move/transpose.h"
#include "vec/vfloat.h"

enum {
  TILE = 1024,
  PIECE = 4096,
  LANE_BYTES = 128,
  AHEAD = 4096,
  ROWS = 8,
  STRIP = 32,
  SHORT = 32,
  TURNED = 128
}; /* elements of rows that are turned, how many at once */
typedef struct {
  /* the best value of x[0 .. n) that is better than *top; 0: there is none */
  int (*better)(const void *x, int64_t n, void *top);
  int64_t (*find)(const void *x, int64_t n, const void *top); /* n where it is not there */
  /* m <= TILE columns of n rows, `stride` elements apart: better ones replace best, at */
  void (*columns)(const void *x, int64_t n, int64_t stride, int64_t m, void *best, int32_t *at,
                  int32_t first);
} arg_loops;

#define ARG(NAME, TAG, T, BETTER) \
  static int NAME##_##TAG##_better(const void *px, int64_t n, void *ptop) { \
    enum { LANES = sizeof(T) == 8 ? 32 : LANE_BYTES / sizeof(T) }; /* 16: no vectors */ \
    const T *x = (const T *)px; \
    T lane[LANES], top; \
    memcpy(&top, ptop, sizeof top); \
    int64_t i = 0; \
    for (int j = 0; j < LANES; j++) lane[j] = top; \
    for (; i + LANES <= n; i += LANES) { \
      _Pragma("GCC unroll 4") for (int b = 0; b < LANES * (int)sizeof(T); b += 64) \
        __builtin_prefetch((const char *)(x + i) + AHEAD + b); \
      for (int j = 0; j < LANES; j++) lane[j] = x[i + j] BETTER lane[j] ? x[i + j] : lane[j]; \
    } \
    for (int j = 0; i < n; i++, j++) lane[j] = x[i] BETTER lane[j] ? x[i] : lane[j]; \
    _Pragma("GCC unroll 8") for (int l = LANES / 2; l; l /= 2) \
      for (int j = 0; j < l; j++) lane[j] = lane[j + l] BETTER lane[j] ? lane[j + l] : lane[j]; \
    memcpy(ptop, lane, sizeof top); \
    return lane[0] BETTER top; \
  } \
  static void NAME##_##TAG##_columns(const void *px, int64_t n, int64_t stride, int64_t m, \
                                     void *pbest, int32_t *at, int32_t first) { \
    const T *x = (const T *)px; \
    T *best = (T *)pbest; \
    for (int32_t i = 0, rows; i < n; i += rows, x += rows * stride) { \
      int64_t j = 0; \
      rows = (int32_t)PF_MIN(ROWS, n - i); \
      for (; j + STRIP <= m; j += STRIP) { /* in registers for some rows */ \
        T b[STRIP]; \
        int32_t k[STRIP]; \
        for (int l = 0; l < STRIP; l++) b[l] = best[j + l], k[l] = at[j + l]; \
        for (int32_t r = 0; r < rows; r++) { \
          const T *row = x + r * stride + j; \
          __builtin_prefetch(row + ROWS * stride, 0, 2); \
          if (sizeof(T) > 2) __builtin_prefetch((const char *)(row + ROWS * stride) + 64, 0, 2); \
          for (int l = 0; l < STRIP; l++) { \
            T v = row[l]; \
            k[l] = v BETTER b[l] ? first + i + r : k[l]; \
            b[l] = v BETTER b[l] ? v : b[l]; \
          } \
        } \
        for (int l = 0; l < STRIP; l++) best[j + l] = b[l], at[j + l] = k[l]; \
      } \
      for (; j < m; j++) \
        for (int32_t r = 0; r < rows; r++) { \
          T v = x[r * stride + j]; \
          if (v BETTER best[j]) best[j] = v, at[j] = first + i + r; \
        } \
    } \
  }
#define HAS(N) __extension__({ \
    int32_t found = 0; \
    for (int j = 0; j < N; j++) found |= x[i + j] == top; \
    found; })
#define ARGS(TYPE, T, TAG) \
  static int64_t find_##TAG(const void *px, int64_t n, const void *ptop) { \
    enum { LONG = 2048 / sizeof(T), SHORT = sizeof(T) == 8 ? 32 : LANE_BYTES / sizeof(T) }; \
    const T *x = (const T *)px; \
    T top; \
    int64_t i = 0; \
    memcpy(&top, ptop, sizeof top); \
    for (; i + LONG <= n; i += LONG) if (HAS(LONG)) break; \
    for (; i + SHORT <= n; i += SHORT) if (HAS(SHORT)) break; \
    while (i < n && x[i] != top) i++; \
    return i; \
  } \
  ARG(argmax, TAG, T, >) ARG(argmin, TAG, T, <)
PF_EACH_REAL(ARGS)
#define ROW(NAME, TYPE, TAG) \
  [TYPE] = {NAME##_##TAG##_better, find_##TAG, NAME##_##TAG##_columns},
#define MAX_ROW(TYPE, T, TAG) ROW(argmax, TYPE, TAG)
#define MIN_ROW(TYPE, T, TAG) ROW(argmin, TYPE, TAG)
static const arg_loops argmax_loops[PF_TYPE_COUNT] = {PF_EACH_REAL(MAX_ROW) MAX_ROW(PF_BOOL, , u8)};
static const arg_loops argmin_loops[PF_TYPE_COUNT] = {PF_EACH_REAL(MIN_ROW) MIN_ROW(PF_BOOL, , u8)};

/* Of a row of at least PF_VF floats or halves: a block's best value is sought in lanes; its place,
 * once, in the block that had the row's best.  `least`: of the negated values. */
PF_INLINE pf_vf arg_value(int32_t type, int least, const void *x, int64_t i) {
  pf_vf v = pf_vf_read(type, pf_vf_at(type, x, i));
  return least ? -v : v;
}
PF_INLINE int64_t best_in_row(int32_t type, int least, const void *x, int64_t n) {
  enum { U = 4, BLOCK = 4 * U * PF_VF };
  float best = arg_value(type, least, x, 0)[0];
  int64_t at = 0;
  if (best != best) return 0; /* nothing is better than NaN */
  for (int64_t from = 0, i; from < n; from += BLOCK) {
    int64_t to = PF_MIN(from + BLOCK, n);
    pf_vf m[U];
    for (int u = 0; u < U; u++) m[u] = pf_vf_set(-INFINITY);
    for (i = from; i + U * PF_VF <= to; i += U * PF_VF)
      for (int u = 0; u < U; u++) m[u] = pf_vf_max(arg_value(type, least, x, i + u * PF_VF), m[u]);
    for (; i < to; i += PF_VF) {
      i = PF_MIN(i, n - PF_VF); /* the last vector ends with the row */
      m[0] = pf_vf_max(arg_value(type, least, x, i), m[0]);
    }
    m[0] = pf_vf_max(pf_vf_max(m[0], m[1]), pf_vf_max(m[2], m[3]));
    if (pf_vf_greater(m[0], pf_vf_set(best))) best = pf_vf_largest(m[0]), at = from;
  }
  for (int64_t i = at; i < n; i += PF_VF) {
    i = PF_MIN(i, n - PF_VF);
    uint32_t found = pf_vf_equal(arg_value(type, least, x, i), pf_vf_set(best));
    if (found) return i + __builtin_ctz(found);
  }
  return 0;
}
#define FLOAT_ROWS(X) X(PF_FLOAT32, f32) X(PF_FLOAT16, f16) X(PF_BFLOAT16, bf16)
#define BEST_IN_ROW(TYPE, TAG) \
  static int64_t largest_##TAG(const void *x, int64_t n) { return best_in_row(TYPE, 0, x, n); } \
  static int64_t least_##TAG(const void *x, int64_t n) { return best_in_row(TYPE, 1, x, n); }
FLOAT_ROWS(BEST_IN_ROW)
typedef int64_t (*row_function)(const void *x, int64_t n);
#define LARGEST(TYPE, TAG) [TYPE] = largest_##TAG,
#define LEAST(TYPE, TAG) [TYPE] = least_##TAG,

/* The same of a row of at least a vector of other types, in their own instructions. */
#if defined(__AVX512F__)
typedef __m512i wide;
#define WIDE(NAME, SUFFIX) _mm512_##NAME##_##SUFFIX
#define AS_F64(v) _mm512_castsi512_pd(v)
#define SET_f64(x) _mm512_castpd_si512(_mm512_set1_pd(x))
#define BEST_f64(BEST, a, b) _mm512_castpd_si512(WIDE(BEST, pd)(AS_F64(a), AS_F64(b)))
#define TEST_f64(TEST, a, b) _mm512_cmp_pd_mask(AS_F64(a), AS_F64(b), _##TEST##_OQ)
#define INT_TEST_CMP_GT(SUFFIX, a, b) _mm512_cmpgt_##SUFFIX##_mask(a, b)
#define INT_TEST_CMP_LT(SUFFIX, a, b) _mm512_cmplt_##SUFFIX##_mask(a, b)
#define INT_TEST_CMP_EQ(SUFFIX, a, b) _mm512_cmpeq_##SUFFIX##_mask(a, b)
#define WIDE_TYPES(X) X(PF_INT16, i16, int16_t) X(PF_INT32, i32, int32_t) \
  X(PF_INT64, i64, int64_t) X(PF_FLOAT64, f64, double)
#elif defined(__AVX2__) && defined(__FMA__)
typedef __m256i wide;
#define WIDE(NAME, SUFFIX) _mm256_##NAME##_##SUFFIX
#define AS_F64(v) _mm256_castsi256_pd(v)
#define SET_f64(x) _mm256_castpd_si256(_mm256_set1_pd(x))
#define BEST_f64(BEST, a, b) _mm256_castpd_si256(WIDE(BEST, pd)(AS_F64(a), AS_F64(b)))
#define TEST_f64(TEST, a, b) \
  (uint32_t)_mm256_movemask_pd(_mm256_cmp_pd(AS_F64(a), AS_F64(b), _##TEST##_OQ))
#define INT_TEST(v) (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(v))
#define INT_TEST_CMP_GT(SUFFIX, a, b) INT_TEST(_mm256_cmpgt_##SUFFIX(a, b))
#define INT_TEST_CMP_LT(SUFFIX, a, b) INT_TEST(_mm256_cmpgt_##SUFFIX(b, a))
#define INT_TEST_CMP_EQ(SUFFIX, a, b) INT_TEST(_mm256_cmpeq_##SUFFIX(a, b))
#define WIDE_TYPES(X) X(PF_INT32, i32, int32_t) X(PF_FLOAT64, f64, double)
#else
#define WIDE_TYPES(X)
#endif
#define SET_i16(x) WIDE(set1, epi16)(x)
#define SET_i32(x) WIDE(set1, epi32)(x)
#define SET_i64(x) WIDE(set1, epi64)(x)
#define BEST_i16(BEST, a, b) WIDE(BEST, epi16)(a, b)
#define BEST_i32(BEST, a, b) WIDE(BEST, epi32)(a, b)
#define BEST_i64(BEST, a, b) WIDE(BEST, epi64)(a, b)
#define TEST_i16(TEST, a, b) INT_TEST_##TEST(epi16, a, b)
#define TEST_i32(TEST, a, b) INT_TEST_##TEST(epi32, a, b)
#define TEST_i64(TEST, a, b) INT_TEST_##TEST(epi64, a, b)
#define AT(i) (*(const wide_any *)(x + (i)))
/* BEST is max or min; it gives its second operand where one is NaN */
#define WIDE_ROW(NAME, TAG, T, BEST, TEST, BETTER) \
  static int64_t NAME##_##TAG(const void *px, int64_t n) { \
    enum { L = sizeof(wide) / sizeof(T), U = 4, BLOCK = 4 * U * L }; \
    const T *x = (const T *)px; \
    T best = x[0], lanes[L]; \
    int64_t at = 0; \
    if (best != best) return 0; \
    for (int64_t from = 0, i; from < n; from += BLOCK) { \
      int64_t to = PF_MIN(from + BLOCK, n); \
      wide m[U], top = SET_##TAG(best); \
      for (int u = 0; u < U; u++) m[u] = top; \
      for (i = from; i + U * L <= to; i += U * L) \
        for (int u = 0; u < U; u++) m[u] = BEST_##TAG(BEST, AT(i + u * L), m[u]); \
      for (; i < to; i += L) { \
        i = PF_MIN(i, n - L);          /* the last vector ends with the row */ \
        m[0] = BEST_##TAG(BEST, AT(i), m[0]); \
      } \
      m[0] = BEST_##TAG(BEST, BEST_##TAG(BEST, m[0], m[1]), BEST_##TAG(BEST, m[2], m[3])); \
      if (!TEST_##TAG(TEST, m[0], top)) continue; \
      memcpy(lanes, &m[0], sizeof lanes); \
      for (int l = 0; l < L; l++) best = lanes[l] BETTER best ? lanes[l] : best; \
      at = from; \
    } \
    for (int64_t i = at; i < n; i += L) { \
      i = PF_MIN(i, n - L); \
      uint32_t found = TEST_##TAG(CMP_EQ, AT(i), SET_##TAG(best)); \
      if (found) return i + __builtin_ctz(found); \
    } \
    return 0; \
  }
#define WIDE_ROWS(TYPE, TAG, T) \
  WIDE_ROW(largest, TAG, T, max, CMP_GT, >) WIDE_ROW(least, TAG, T, min, CMP_LT, <)
#define WIDE_LARGEST(TYPE, TAG, T) LARGEST(TYPE, TAG)
#define WIDE_LEAST(TYPE, TAG, T) LEAST(TYPE, TAG)
#if defined(__AVX2__) && defined(__FMA__)
typedef wide wide_any __attribute__((aligned(1), may_alias));
#endif
WIDE_TYPES(WIDE_ROWS)
static const row_function row_functions[2][PF_TYPE_COUNT] = {
  {FLOAT_ROWS(LARGEST) WIDE_TYPES(WIDE_LARGEST)}, {FLOAT_ROWS(LEAST) WIDE_TYPES(WIDE_LEAST)}};

typedef struct {
  const arg_loops *f;
  row_function row; /* NULL: none for the type, or rows are too short */
  const char *x;
  DLTensor *y;
  int64_t size, n, inner, tile, tiles; /* size: of an element in memory; tile: columns at once */
  int64_t rows, together;              /* of short rows, where those are turned: at once */
  int32_t type, out_type;
} arg_task;

/* n elements from x on as what the loops compare; `room` holds PIECE floats */
static const void *values(const arg_task *t, const char *x, int64_t n, float *room) {
  if (!pf_is_half(t->type)) return x;
  halves_read(t->type, x, room, n);
  return room;
}
static int64_t row_best(const arg_task *t, const char *x) {
  float room[PIECE];
  double top; /* any element type fits */
  int64_t piece = 0, k;
  int32_t half = pf_is_half(t->type);
  memcpy(&top, values(t, x, 1, room), half ? 4 : (size_t)t->size);
  for (int64_t i = 0; i < t->n; i += PIECE) {
    int64_t m = PF_MIN(PIECE, t->n - i);
    if (t->f->better(values(t, x + i * t->size, m, room), m, &top)) piece = i;
  }
  int64_t m = PF_MIN(PIECE, t->n - piece);
  k = t->f->find(values(t, x + piece * t->size, m, room), m, &top);
  return k < m ? piece + k : 0; /* NaN first: nothing is better */
}
/* columns [j, j + m); `base` parts keep row numbers in 32 bits */
static void columns_best(const arg_task *t, const char *x, int64_t m, int64_t *best_at) {
  enum { PART = 1 << 30 };
  double best[TILE];
  float room[TILE];
  int32_t at[TILE], half = pf_is_half(t->type);
  int64_t line = t->inner * t->size;
  memcpy(best, values(t, x, m, room), (size_t)(m * (half ? 4 : t->size)));
  for (int64_t j = 0; j < m; j++) best_at[j] = 0;
  for (int64_t base = 0; base < t->n; base += PART) {
    int64_t rows = PF_MIN(PART, t->n - base);
    const char *from = x + base * line;
    for (int64_t j = 0; j < m; j++) at[j] = -1;
    if (!half) t->f->columns(from, rows, t->inner, m, best, at, 0);
    for (int64_t i = 0; half && i < rows; i++)
      t->f->columns(values(t, from + i * line, m, room), 1, 0, m, best, at, (int32_t)i);
    for (int64_t j = 0; j < m; j++)
      if (at[j] >= 0) best_at[j] = base + at[j];
  }
}
/* m rows of less than SHORT elements: turned, then as columns */
static void short_rows_best(const arg_task *t, const char *x, int64_t m, int64_t *best_at) {
  char turned[SHORT * TURNED * 8] __attribute__((aligned(64)));
  arg_task columns = *t;
  columns.inner = m;
  pf_movers()->transpose(t->size, x, t->n, turned, m, m, t->n);
  columns_best(&columns, turned, m, best_at);
}
static void row_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const arg_task *t = (const arg_task *)arg;
  const int64_t step = t->n * t->size;
  (void)worker;
  for (int64_t i = lo; i < hi; i++)
    pf_put_index(t->y, t->out_type, i, t->row(t->x + i * step, t->n));
}
static void arg_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const arg_task *t = (const arg_task *)arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    int64_t at[TILE], o = i / t->tiles, j = i % t->tiles * t->tile;
    int64_t m = PF_MIN(t->tile, t->inner - j);
    const char *x = t->x + (o * t->n * t->inner + j) * t->size;
    if (t->together > 1) {
      m = PF_MIN(t->together, t->rows - i * t->together), o = i * t->together, j = 0;
      short_rows_best(t, t->x + o * t->n * t->size, m, at);
    } else if (t->inner == 1) at[0] = row_best(t, x);
    else columns_best(t, x, m, at);
    for (int64_t k = 0; k < m; k++) pf_put_index(t->y, t->out_type, o * t->inner + j + k, at[k]);
  }
}
static pf_status arg_best(pf_ctx *c, const arg_loops *loops, int least) {
  const DLTensor *x = c->in[0];
  int32_t type = c->in_type[0], work = pf_is_half(type) ? PF_FLOAT32 : type, a, nd = 0;
  int64_t axis, shape[PF_MAX_DIMS];
  PF_TRY(pf_check_rank(c, x, "input"));
  PF_TRY(pf_in_scalar(c, 1, "dimension", &axis));
  if (axis < -x->ndim || axis >= x->ndim)
    return PF_INVALID(c, "Expected dimension in the range [%d, %d), but got %" PRId64, -x->ndim,
                      x->ndim, axis);
  a = (int32_t)(axis < 0 ? axis + x->ndim : axis);
  if (x->shape[a] == 0)
    return PF_INVALID(c, "Reduction axis %d is empty in shape %s", a, PF_SHAPE(x).s);
  for (int32_t i = 0; i < x->ndim; i++)
    if (i != a) shape[nd++] = x->shape[i];
  DLTensor *y = c->host->output(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  arg_task t = {.f = &loops[work],
                .x = PF_DATA(const char, x),
                .y = y,
                .type = type,
                .size = pf_type_size(type),
                .n = x->shape[a],
                .inner = pf_product(x->shape, a + 1, x->ndim),
                .out_type = c->out_type[0]};
  if (!t.f->better)
    return pf_failf(c, PF_UNIMPLEMENTED, "ArgMax and ArgMin are not defined for %s",
                    pf_type_name(type));
  int64_t outer = pf_product(x->shape, 0, a), workers = outer > 1 ? 1 : c->host->workers(c);
  t.row = t.n >= (t.type == PF_INT16 ? SHORT : PF_VF) ? row_functions[least][type] : NULL;
  const int64_t share = (t.inner + workers - 1) / workers; /* each worker has a tile */
  t.tile = PF_MIN((share + STRIP - 1) / STRIP * STRIP, TILE);
  t.tiles = (t.inner + t.tile - 1) / t.tile;
  if (t.inner == 1 && t.n < SHORT && outer >= 2 * STRIP) {
    t.rows = outer, t.together = TURNED;
    return pf_parallel(c, (outer + TURNED - 1) / TURNED, pf_grain(t.n * TURNED), arg_range, &t);
  }
  if (t.inner == 1 && t.row) return pf_parallel(c, outer, pf_grain(t.n), row_range, &t);
  return pf_parallel(c, outer * t.tiles, pf_grain(t.n * PF_MIN(t.inner, t.tile)), arg_range, &t);
}
static pf_status arg_max(pf_ctx *c, const void *state) {
  (void)state;
  return arg_best(c, argmax_loops, 0);
}
static pf_status arg_min(pf_ctx *c, const void *state) {
  (void)state;
  return arg_best(c, argmin_loops, 1);
}

const pf_kernel *const PF_ISA_NAME(argmax_kernels)[] = {
  PF_CPU("ArgMax", "T=" PF_REAL "|bool", .compute = arg_max),
  PF_CPU("ArgMin", "T=" PF_REAL "|bool", .compute = arg_min), NULL};
