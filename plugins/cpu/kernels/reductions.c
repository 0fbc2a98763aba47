/* reductions.c - Sum, Mean, Prod, Max, Min, EuclideanNorm, All, Any, and BiasAddGrad.
 *
 * The input is seen as groups of neighbouring dimensions that are all kept or all reduced; each
 * reduced group, from the innermost on, is one pass [outer, n, inner] -> [outer, inner] by one of
 * two loops:
 *
 *   rows   inner == 1: 32 running partial results per row, then a tree over them
 *   cols   inner > 1: whole rows are added to a tile of columns
 *
 * Invariants
 *   1. Long reductions are cut into pieces of a fixed length and the pieces are reduced again:
 *      accurate, and the same bits for any number of threads.  The lanes are 32 on every
 *      instruction set.
 *   2. Integers wrap; half and bfloat16 are reduced as float and rounded once; max and min keep
 *      NaN.
 * Compiled once per instruction set.
 */
#include "common.h"
#include "half.h"
#include "isa.h"
#include "transpose.h"

enum { LANES = 32, ROW_PIECE = 16384, TILE = 2048, SHORT_COLS = 1024,
       COL_BLOCK = 64, SHORT_ROWS = 64 };

typedef struct {
  void (*rows)(const void *x, void *y, int64_t rows, int64_t n);
  void (*cols)(const void *x, void *y, int64_t n, int64_t stride, int64_t m);
} loops;

/* LOAD is an expression of v, JOIN of a and b, all of type T; ZERO is JOIN's neutral element.  TX
 * is the type in memory, FETCH(room, p, n) gives n elements at p as T. */
#define FETCH_PLAIN(room, p, n) (p)
#define FETCH_HALF(room, p, n) (half_read(p, room, n), room)
#define FETCH_BFLOAT16(room, p, n) (bfloat16_read(p, room, n), room)
#define REDUCE_AS(NAME, TAG, TX, T, ZERO, LOAD, JOIN, FETCH) \
  /* rows of less than LANES elements, SHORT_ROWS at once: transposed, then row by row */ \
  static void NAME##_##TAG##_short(const TX *x, T *y, int64_t n) { \
    T room[LANES * SHORT_ROWS], turned[LANES * SHORT_ROWS]; \
    (void)room; \
    pf_movers()->transpose(sizeof(T), FETCH(room, x, n * SHORT_ROWS), n, turned, SHORT_ROWS, \
                           SHORT_ROWS, n); \
    for (int k = 0; k < SHORT_ROWS; k++) y[k] = ZERO; \
    for (int64_t i = 0; i < n; i++) \
      for (int k = 0; k < SHORT_ROWS; k++) { \
        T v = turned[i * SHORT_ROWS + k], b = LOAD, a = y[k]; \
        y[k] = JOIN; \
      } \
  } \
  static void NAME##_##TAG##_rows(const void *px, void *py, int64_t rows, int64_t n) { \
    const TX *x = (const TX *)px; \
    T *y = (T *)py; \
    for (int64_t r = 0; r < rows; r++, x += n) { \
      T acc[LANES], room[LANES]; \
      int64_t i = 0; \
      (void)room; \
      if (n < LANES && rows - r >= SHORT_ROWS) { \
        NAME##_##TAG##_short(x, y + r, n); \
        r += SHORT_ROWS - 1, x += n * (SHORT_ROWS - 1); \
        continue; \
      } \
      if (n < LANES) { \
        const T *w = FETCH(room, x, n); \
        T a = ZERO; \
        for (; i < n; i++) { \
          T v = w[i], b = LOAD; \
          a = JOIN; \
        } \
        y[r] = a; \
        continue; \
      } \
      const T *first = FETCH(room, x, LANES); \
      for (int k = 0; k < LANES; k++) { \
        T v = first[k]; \
        acc[k] = LOAD; \
      } \
      for (i = LANES; i + LANES <= n; i += LANES) { \
        const T *w = FETCH(room, x + i, LANES); \
        for (int k = 0; k < LANES; k++) { \
          T v = w[k], b = LOAD, a = acc[k]; \
          acc[k] = JOIN; \
        } \
      } \
      const T *w = FETCH(room, x + i, n - i); \
      for (int64_t k = 0, left = n - i; k < left && k < LANES; k++) { \
        T v = w[k], b = LOAD, a = acc[k]; \
        acc[k] = JOIN; \
      } \
      for (int l = LANES / 2; l; l /= 2) \
        for (int k = 0; k < l; k++) { \
          T a = acc[k], b = acc[k + l]; \
          acc[k] = JOIN; \
        } \
      y[r] = acc[0]; \
    } \
  } \
  __attribute__((noinline)) static void NAME##_##TAG##_add(const T *restrict row, T *restrict to, \
                                                           int64_t w) { \
    for (int64_t j = 0; j < w; j++) { T v = row[j], b = LOAD, a = to[j]; to[j] = JOIN; } \
  } \
  static void NAME##_##TAG##_wide(const TX *x, T *y, int64_t n, int64_t stride, int64_t m) { \
    enum { STRIP = STRIP_OF(TX, T) }; \
    for (int64_t j = 0; j < m; j++) y[j] = ZERO; \
    for (int64_t r = 0; r < n; r++) \
      for (int64_t j = 0; j < m; j += STRIP) { \
        T room[STRIP]; \
        int64_t w = PF_MIN(m - j, STRIP); \
        (void)room; \
        NAME##_##TAG##_add(FETCH(room, x + r * stride + j, w), y + j, w); \
      } \
  } \
  /* short rows that lie together are seen as longer ones, whose parts are joined at the end */ \
  static void NAME##_##TAG##_cols(const void *px, void *py, int64_t n, int64_t stride, \
                                  int64_t m) { \
    const TX *x = (const TX *)px; \
    T *y = (T *)py, parts[SHORT_COLS]; \
    int64_t k = SHORT_COLS / m; \
    if (stride != m || k < 2 || n < 16 * k) { \
      NAME##_##TAG##_wide(x, y, n, stride, m); \
      return; \
    } \
    int64_t rows = n / k * k; \
    NAME##_##TAG##_wide(x, parts, n / k, k * m, k * m); \
    NAME##_##TAG##_wide(x + rows * m, y, n - rows, m, m); \
    for (int64_t i = 0; i < k; i++) \
      for (int64_t j = 0; j < m; j++) { T a = y[j], b = parts[i * m + j]; y[j] = JOIN; } \
  }
#define STRIP_OF(TX, T) (sizeof(TX) == sizeof(T) ? TILE : 512)
#define REDUCE(NAME, TAG, T, ZERO, LOAD, JOIN) \
  REDUCE_AS(NAME, TAG, T, T, ZERO, LOAD, JOIN, FETCH_PLAIN)
#define MAX_JOIN (b > a) | (b != b) ? b : a
#define MIN_JOIN (b < a) | (b != b) ? b : a
#define FLOATS(TYPE, T, TAG) \
  REDUCE(Sum, TAG, T, 0, v, a + b) \
  REDUCE(Prod, TAG, T, 1, v, a * b) \
  REDUCE(Max, TAG, T, (T)-INFINITY, v, MAX_JOIN) \
  REDUCE(Min, TAG, T, (T)INFINITY, v, MIN_JOIN) \
  REDUCE(SquareSum, TAG, T, 0, v * v, a + b)
#define INTS(TYPE, T, TAG, U, LEAST, GREATEST) \
  REDUCE(Sum, TAG, T, 0, v, (T)((U)a + (U)b)) \
  REDUCE(Prod, TAG, T, 1, v, (T)((U)a * (U)b)) \
  REDUCE(Max, TAG, T, LEAST, v, a > b ? a : b) \
  REDUCE(Min, TAG, T, GREATEST, v, a < b ? a : b) \
  REDUCE(SquareSum, TAG, T, 0, (T)((U)v * (U)v), (T)((U)a + (U)b))
PF_EACH_FLOAT(FLOATS)
#define HALVES(TAG, FETCH) \
  REDUCE_AS(Sum, TAG, uint16_t, float, 0, v, a + b, FETCH) \
  REDUCE_AS(Prod, TAG, uint16_t, float, 1, v, a * b, FETCH) \
  REDUCE_AS(Max, TAG, uint16_t, float, -INFINITY, v, MAX_JOIN, FETCH) \
  REDUCE_AS(Min, TAG, uint16_t, float, INFINITY, v, MIN_JOIN, FETCH) \
  REDUCE_AS(SquareSum, TAG, uint16_t, float, 0, v * v, a + b, FETCH)
HALVES(f16, FETCH_HALF)
HALVES(bf16, FETCH_BFLOAT16)
INTS(PF_INT8, int8_t, i8, uint32_t, INT8_MIN, INT8_MAX)
INTS(PF_INT16, int16_t, i16, uint32_t, INT16_MIN, INT16_MAX)
INTS(PF_INT32, int32_t, i32, uint32_t, INT32_MIN, INT32_MAX)
INTS(PF_INT64, int64_t, i64, uint64_t, INT64_MIN, INT64_MAX)
INTS(PF_UINT8, uint8_t, u8, uint32_t, 0, UINT8_MAX)
INTS(PF_UINT16, uint16_t, u16, uint32_t, 0, UINT16_MAX)
INTS(PF_UINT32, uint32_t, u32, uint32_t, 0, UINT32_MAX)
INTS(PF_UINT64, uint64_t, u64, uint64_t, 0, UINT64_MAX)
typedef float _Complex c64;
typedef double _Complex c128;
REDUCE(Sum, c64, c64, 0, v, a + b)
REDUCE(Sum, c128, c128, 0, v, a + b)
REDUCE(Prod, c64, c64, 1, v, a * b)
REDUCE(Prod, c128, c128, 1, v, a * b)
REDUCE(SquareSum, c64, c64, 0, v * ~v, a + b)                /* ~ is GNU C's conjugate */
REDUCE(SquareSum, c128, c128, 0, v * ~v, a + b)
REDUCE(All, u8, uint8_t, 1, v, a & b)
REDUCE(Any, u8, uint8_t, 0, v, a | b)

#define PAIR(NAME, TAG) {NAME##_##TAG##_rows, NAME##_##TAG##_cols}
#define FLOAT_ROW(NAME) [PF_FLOAT32] = PAIR(NAME, f32), [PF_FLOAT64] = PAIR(NAME, f64), \
  [PF_FLOAT16] = PAIR(NAME, f16), [PF_BFLOAT16] = PAIR(NAME, bf16)
#define REAL_ROW(NAME) FLOAT_ROW(NAME), [PF_INT8] = PAIR(NAME, i8), [PF_INT16] = PAIR(NAME, i16), \
  [PF_INT32] = PAIR(NAME, i32), [PF_INT64] = PAIR(NAME, i64), [PF_UINT8] = PAIR(NAME, u8), \
  [PF_UINT16] = PAIR(NAME, u16), [PF_UINT32] = PAIR(NAME, u32), [PF_UINT64] = PAIR(NAME, u64)
#define NUMBER_ROW(NAME) \
  REAL_ROW(NAME), [PF_COMPLEX64] = PAIR(NAME, c64), [PF_COMPLEX128] = PAIR(NAME, c128)
enum { SUM, MEAN, PROD, MAX_OP, MIN_OP, NORM, ALL, ANY, OPS };
static const loops first_pass[OPS][PF_TYPE_COUNT] = {
  [SUM] = {NUMBER_ROW(Sum)}, [MEAN] = {NUMBER_ROW(Sum)}, [PROD] = {NUMBER_ROW(Prod)},
  [MAX_OP] = {REAL_ROW(Max)},
  [MIN_OP] = {REAL_ROW(Min)}, [NORM] = {NUMBER_ROW(SquareSum)}, [ALL] = {[PF_BOOL] = PAIR(All, u8)},
  [ANY] = {[PF_BOOL] = PAIR(Any, u8)}};

/* ---------------------------------------------------------------- one pass */
typedef struct {
  const loops *f;
  const char *x;
  char *y;
  int64_t xsize, esize, n, inner, piece, pieces, tiles;  /* pieces of n, tiles of inner */
} pass_task;

static void rows_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const pass_task *t = (const pass_task *)arg;
  (void)worker;
  if (t->pieces == 1) {
    t->f->rows(t->x + lo * t->n * t->xsize, t->y + lo * t->esize, hi - lo, t->n);
    return;
  }
  for (int64_t i = lo; i < hi; i++) {
    int64_t at = i % t->pieces * t->piece;
    t->f->rows(t->x + (i / t->pieces * t->n + at) * t->xsize, t->y + i * t->esize, 1,
               PF_MIN(t->piece, t->n - at));
  }
}
static void cols_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const pass_task *t = (const pass_task *)arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    int64_t tile = i % t->tiles, row = i / t->tiles, at = row % t->pieces * t->piece,
            outer = row / t->pieces;
    int64_t j = tile * TILE, w = PF_MIN(TILE, t->inner - j);
    t->f->cols(t->x + ((outer * t->n + at) * t->inner + j) * t->xsize,
               t->y + (row * t->inner + j) * t->esize, PF_MIN(t->piece, t->n - at), t->inner, w);
  }
}
/* x [outer, n, inner] -> y [outer, inner], of xsize and esize bytes; `next` joins pieces */
static pf_status run_pass(pf_ctx *c, const loops *f, const loops *next, const char *x, char *y,
                          int64_t xsize, int64_t esize, int64_t outer, int64_t n, int64_t inner) {
  int64_t limit = inner == 1 ? ROW_PIECE : PF_MIN(PF_MAX(4 * ROW_PIECE / inner, COL_BLOCK), 4096);
  pass_task t = {.f = f,
                 .x = x,
                 .y = y,
                 .xsize = xsize,
                 .esize = esize,
                 .n = n,
                 .inner = inner,
                 .piece = PF_MAX(n, 1),
                 .pieces = 1};
  if (n > limit) {
    t.piece = limit, t.pieces = (n + limit - 1) / limit;
    t.y = (char *)c->host->scratch(c, (uint64_t)(outer * t.pieces * inner * esize), 64);
    PF_EXHAUSTED(t.y);
  }
  t.tiles = (inner + TILE - 1) / TILE;
  if (inner == 1) PF_TRY(pf_parallel(c, outer * t.pieces, pf_grain(t.piece), rows_range, &t));
  else
    PF_TRY(pf_parallel(c, outer * t.pieces * t.tiles, pf_grain(t.piece * PF_MIN(inner, TILE)),
                       cols_range, &t));
  if (t.pieces == 1) return PF_OK;
  return run_pass(c, next, next, t.y, y, esize, esize, outer, t.pieces, inner);
}

/* ---------------------------------------------------------------- all passes */
typedef struct { int64_t size[PF_MAX_DIMS]; int32_t reduced[PF_MAX_DIMS], n; } groups;

static groups group_dims(const DLTensor *x, const int32_t *reduce) {
  groups g = {.n = 0};
  for (int32_t i = 0; i < x->ndim; i++) {
    if (x->shape[i] == 1) continue;
    if (g.n && g.reduced[g.n - 1] == reduce[i]) g.size[g.n - 1] *= x->shape[i];
    else g.size[g.n] = x->shape[i], g.reduced[g.n++] = reduce[i];
  }
  return g;
}
static pf_status run_passes(pf_ctx *c, groups *g, const loops *f, const loops *next, const char *x,
                            char *y, int64_t xsize, int64_t esize) {
  int32_t left = 0;
  for (int32_t i = 0; i < g->n; i++) left += g->reduced[i];
  if (!left) g->size[g->n] = 1, g->reduced[g->n++] = 1, left = 1;
  for (int32_t i = g->n - 1; i >= 0; i--) {
    if (!g->reduced[i]) continue;
    int64_t outer = pf_product(g->size, 0, i), inner = pf_product(g->size, i + 1, g->n);
    char *to = y;
    if (--left) {
      to = (char *)c->host->scratch(c, (uint64_t)PF_MAX(outer * inner * esize, 1), 64);
      PF_EXHAUSTED(to);
    }
    PF_TRY(run_pass(c, f, next, x, to, xsize, esize, outer, g->size[i], inner));
    g->size[i] = 1, x = to, f = next, xsize = esize;
  }
  return PF_OK;
}

#define DIVIDE(TYPE, T, TAG) \
  case TYPE: \
    for (int64_t i = 0; i < n; i++) ((T *)y)[i] = (T)(((T *)y)[i] / (T)count); \
    break;
#define DIVIDE_INT(TYPE, T, TAG) \
  case TYPE: for (int64_t i = 0; i < n && count; i++) ((T *)y)[i] = (T)(((T *)y)[i] / count); break;
static void divide(int32_t type, void *y, int64_t n, int64_t count) {
  switch (type) {
    PF_EACH_FLOAT(DIVIDE)
    DIVIDE(PF_COMPLEX64, c64, c64) DIVIDE(PF_COMPLEX128, c128, c128)
    PF_EACH_SIGNED(DIVIDE_INT)
    case PF_UINT64:
      for (int64_t i = 0; i < n && count; i++) ((uint64_t *)y)[i] /= (uint64_t)count;
      break;
    DIVIDE_INT(PF_UINT8, uint8_t, u8) DIVIDE_INT(PF_UINT16, uint16_t, u16)
    DIVIDE_INT(PF_UINT32, uint32_t, u32)
  }
}
#define ROOT(TYPE, T, TAG) \
  case TYPE: \
    for (int64_t i = 0; i < n; i++) ((T *)y)[i] = (T)sqrt((double)((T *)y)[i]); \
    break;
static void root(int32_t type, void *y, int64_t n) { /* of sums of squares: real and not negative */
  switch (type) {
    PF_EACH_REAL(ROOT)
    ROOT(PF_COMPLEX64, c64, c64) ROOT(PF_COMPLEX128, c128, c128)
  }
}
/* reduces input 0 along `flags` into output 0 of that shape */
static pf_status reduce_flags(pf_ctx *c, int32_t op, const int32_t *flags, const int64_t *shape,
                              int32_t nd) {
  const DLTensor *x = c->in[0];
  int32_t type = c->in_type[0], half = pf_is_half(type), work = half ? PF_FLOAT32 : type;
  groups g = group_dims(x, flags);
  int64_t count = 1, esize = pf_type_size(work), n = pf_numel(x);
  for (int32_t i = 0; i < x->ndim; i++) if (flags[i]) count *= x->shape[i];
  if (count == 1 && op != NORM) return c->host->alias(c, 0, 0, shape, nd);
  DLTensor *out = c->host->output(c, 0, shape, nd);
  PF_EXHAUSTED(out);
  int64_t m = pf_numel(out);
  if (m == 0) return PF_OK;
  const char *from = PF_DATA(const char, x);
  char *to = PF_DATA(char, out);
  if (half) {
    to = (char *)c->host->scratch(c, (uint64_t)m * 4, 64);
    PF_EXHAUSTED(to);
  }
  const loops *f = &first_pass[op][type], *next = &first_pass[op == NORM ? SUM : op][work];
  if (n == 0) f->rows(from, to, m, 0);
  else PF_TRY(run_passes(c, &g, f, next, from, to, pf_type_size(type), esize));
  if (op == MEAN) divide(work, to, m, count);
  if (op == NORM) root(work, to, m);
  if (half) halves_write(type, (const float *)to, PF_DATA(void, out), m);
  return PF_OK;
}

typedef struct { int32_t keep_dims; } reduce_state;
static pf_status reduce(pf_ctx *c, const void *state, int32_t op) {
  const DLTensor *x = c->in[0], *axes = c->in[1];
  int32_t flags[PF_MAX_DIMS] = {0}, keep = ((const reduce_state *)state)->keep_dims, nd = 0;
  int64_t shape[PF_MAX_DIMS], n = pf_numel(axes);
  PF_TRY(pf_check_rank(c, x, "input"));
  for (int64_t i = 0; i < n; i++) {
    int64_t a = pf_in_index(c, 1, i);
    if (a < -x->ndim || a >= x->ndim)
      return PF_INVALID(
          c, "Invalid reduction dimension (%" PRId64 " for input with %d dimension(s)", a, x->ndim);
    flags[a < 0 ? a + x->ndim : a] = 1;
  }
  for (int32_t i = 0; i < x->ndim; i++) {
    if (!flags[i]) shape[nd++] = x->shape[i];
    else if (keep) shape[nd++] = 1;
  }
  return reduce_flags(c, op, flags, shape, nd);
}
#define OP(NAME, OP) \
  static pf_status NAME(pf_ctx *c, const void *state) { return reduce(c, state, OP); }
OP(sum, SUM) OP(mean, MEAN) OP(prod, PROD) OP(max_, MAX_OP) OP(min_, MIN_OP) OP(norm, NORM)
OP(all, ALL) OP(any, ANY)

typedef struct { pf_str data_format; } format_state;
static pf_status bias_add_grad(pf_ctx *c, const void *state) {
  const pf_str f = ((const format_state *)state)->data_format;
  const DLTensor *x = c->in[0];
  int32_t nchw = f.len >= 2 && !memcmp(f.data, "NC", 2), flags[PF_MAX_DIMS];
  PF_TRY(pf_check_rank(c, x, "out_backprop"));
  if (x->ndim < 2) return PF_INVALID(c, "Input tensor must be at least 2D: %s", PF_SHAPE(x).s);
  int32_t channel = nchw ? 1 : x->ndim - 1;
  for (int32_t i = 0; i < x->ndim; i++) flags[i] = i != channel;
  return reduce_flags(c, SUM, flags, &x->shape[channel], 1);
}

#define ENTRY(OP, NAME, WHERE) \
  PF_CPU(OP, WHERE, .state_size = sizeof(reduce_state), .compute = NAME, \
         .attrs = PF_ATTRS(PF_ATTR(reduce_state, PF_ATTR_BOOL, keep_dims)))
const pf_kernel *const PF_ISA_NAME(reductions_kernels)[] = {
    ENTRY("Sum", sum, "T=" PF_NUMBERS),
    ENTRY("Mean", mean, "T=" PF_NUMBERS),
    ENTRY("Prod", prod, "T=" PF_NUMBERS),
    ENTRY("Max", max_, "T=" PF_REAL),
    ENTRY("Min", min_, "T=" PF_REAL),
    ENTRY("EuclideanNorm", norm, "T=" PF_NUMBERS),
    ENTRY("All", all, NULL),
    ENTRY("Any", any, NULL),
    PF_CPU("BiasAddGrad", "T=" PF_NUMBERS, .state_size = sizeof(format_state),
           .compute = bias_add_grad,
           .attrs = PF_ATTRS(PF_ATTR(format_state, PF_ATTR_STRING, data_format))),
    NULL};
