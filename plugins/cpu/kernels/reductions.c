/* reductions.c - Sum, Mean, Prod, Max, Min, EuclideanNorm, All, Any, and BiasAddGrad.
 *
 * The input is seen as groups of neighbouring dimensions that are all kept or all reduced; each
 * reduced group, from the innermost on, is one pass [outer, n, inner] -> [outer, inner] by one of
 * two loops:
 *
 *   rows   inner == 1: 32 running partial results per row, then a tree over them
 *   cols   inner > 1: whole rows are added to a tile of columns
 *
 * Only these two (`rows`, `add`) exist per op and type; what is around them works for any: short
 * rows are transposed and added up side by side, halves go through a buffer of floats (sums of
 * them through registers), signed integers share the sums and products of unsigned ones.
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
#include "isa.h"
#include "reduce_groups.h"
#include "transpose.h"
#include "vfloat.h"

enum { LANES = 32, ROW_PIECE = 16384, TILE = 2048, SHORT_COLS = 1024,
       COL_BLOCK = 64, SHORT_ROWS = 64, ROOM = 2048 };

typedef struct reduce_loops {
  /* y[r] from row r of n elements */
  void (*rows)(const void *x, void *y, int64_t rows, int64_t n);
  /* to[j] joined with row[j] */
  void (*add)(const void *row, void *to, int64_t w);
  const struct reduce_loops *join;     /* of partial results */
  const void *zero;                    /* the neutral element */
  int32_t sums;                        /* halves may take half_sums, half_add */
} reduce_loops;

/* LOAD is an expression of v, JOIN of a and b, all of type T; ZERO is JOIN's neutral element; NEXT
 * joins partial results. */
#define REDUCE(NAME, TAG, T, ZERO, LOAD, JOIN, NEXT) \
  static void NAME##_##TAG##_rows(const void *px, void *py, int64_t rows, int64_t n) { \
    const T *x = (const T *)px; \
    T *y = (T *)py; \
    for (int64_t r = 0; r < rows; r++, x += n) { \
      T acc[LANES]; \
      int64_t i = 0; \
      if (n < LANES) { \
        T a = ZERO; \
        for (; i < n; i++) { T v = x[i], b = LOAD; a = JOIN; } \
        y[r] = a; \
        continue; \
      } \
      for (int k = 0; k < LANES; k++) { T v = x[k]; acc[k] = LOAD; } \
      for (i = LANES; i + LANES <= n; i += LANES) \
        for (int k = 0; k < LANES; k++) { T v = x[i + k], b = LOAD, a = acc[k]; acc[k] = JOIN; } \
      for (int64_t k = 0, left = n - i; k < left && k < LANES; k++) { \
        T v = x[i + k], b = LOAD, a = acc[k]; \
        acc[k] = JOIN; \
      } \
      for (int l = LANES / 2; l; l /= 2) \
        for (int k = 0; k < l; k++) { T a = acc[k], b = acc[k + l]; acc[k] = JOIN; } \
      y[r] = acc[0]; \
    } \
  } \
  static void NAME##_##TAG##_add(const void *prow, void *pto, int64_t w) { \
    const T *restrict row = (const T *)prow; \
    T *restrict to = (T *)pto; \
    for (int64_t j = 0; j < w; j++) { T v = row[j], b = LOAD, a = to[j]; to[j] = JOIN; } \
  } \
  static const T NAME##_##TAG##_zero = ZERO; \
  static const reduce_loops NAME##_##TAG = {NAME##_##TAG##_rows, NAME##_##TAG##_add, \
                                            &NEXT##_##TAG, &NAME##_##TAG##_zero, \
                                            #NAME[0] == 'S' && #NAME[1] == 'u'};
#define REDUCE_SELF(NAME, TAG, T, ZERO, LOAD, JOIN) \
  static const reduce_loops NAME##_##TAG; \
  REDUCE(NAME, TAG, T, ZERO, LOAD, JOIN, NAME)
#define MAX_JOIN (b > a) | (b != b) ? b : a
#define MIN_JOIN (b < a) | (b != b) ? b : a
#define FLOATS(TYPE, T, TAG) \
  REDUCE_SELF(Sum, TAG, T, 0, v, a + b) \
  REDUCE_SELF(Prod, TAG, T, 1, v, a * b) \
  REDUCE_SELF(Max, TAG, T, (T)-INFINITY, v, MAX_JOIN) \
  REDUCE_SELF(Min, TAG, T, (T)INFINITY, v, MIN_JOIN) \
  REDUCE(SquareSum, TAG, T, 0, v * v, a + b, Sum)
/* sums and products wrap: signed ones are the same bits */
#define WRAPPING(T, TAG, U) \
  REDUCE_SELF(Sum, TAG, T, 0, v, (T)((U)a + (U)b)) \
  REDUCE_SELF(Prod, TAG, T, 1, v, (T)((U)a * (U)b)) \
  REDUCE(SquareSum, TAG, T, 0, (T)((U)v * (U)v), (T)((U)a + (U)b), Sum)
#define ORDERED(T, TAG, LEAST, GREATEST) \
  REDUCE_SELF(Max, TAG, T, LEAST, v, a > b ? a : b) \
  REDUCE_SELF(Min, TAG, T, GREATEST, v, a < b ? a : b)
PF_EACH_FLOAT(FLOATS)
WRAPPING(uint8_t, u8, uint32_t)
WRAPPING(uint16_t, u16, uint32_t)
WRAPPING(uint32_t, u32, uint32_t)
WRAPPING(uint64_t, u64, uint64_t)
ORDERED(int8_t, i8, INT8_MIN, INT8_MAX)
ORDERED(int16_t, i16, INT16_MIN, INT16_MAX)
ORDERED(int32_t, i32, INT32_MIN, INT32_MAX)
ORDERED(int64_t, i64, INT64_MIN, INT64_MAX)
ORDERED(uint8_t, u8, 0, UINT8_MAX)
ORDERED(uint16_t, u16, 0, UINT16_MAX)
ORDERED(uint32_t, u32, 0, UINT32_MAX)
ORDERED(uint64_t, u64, 0, UINT64_MAX)
typedef float _Complex c64;
typedef double _Complex c128;
REDUCE_SELF(Sum, c64, c64, 0, v, a + b)
REDUCE_SELF(Sum, c128, c128, 0, v, a + b)
REDUCE_SELF(Prod, c64, c64, 1, v, a * b)
REDUCE_SELF(Prod, c128, c128, 1, v, a * b)
REDUCE(SquareSum, c64, c64, 0, v * ~v, a + b, Sum)           /* ~ is GNU C's conjugate */
REDUCE(SquareSum, c128, c128, 0, v * ~v, a + b, Sum)
REDUCE_SELF(All, u8, uint8_t, 1, v, a & b)
REDUCE_SELF(Any, u8, uint8_t, 0, v, a | b)

#define FLOAT_ROW(NAME) [PF_FLOAT32] = &NAME##_f32, [PF_FLOAT64] = &NAME##_f64, \
  [PF_FLOAT16] = &NAME##_f32, [PF_BFLOAT16] = &NAME##_f32
#define ORDERED_ROW(NAME) FLOAT_ROW(NAME), [PF_INT8] = &NAME##_i8, [PF_INT16] = &NAME##_i16, \
  [PF_INT32] = &NAME##_i32, [PF_INT64] = &NAME##_i64, [PF_UINT8] = &NAME##_u8, \
  [PF_UINT16] = &NAME##_u16, [PF_UINT32] = &NAME##_u32, [PF_UINT64] = &NAME##_u64
#define NUMBER_ROW(NAME) FLOAT_ROW(NAME), [PF_INT8] = &NAME##_u8, [PF_INT16] = &NAME##_u16, \
  [PF_INT32] = &NAME##_u32, [PF_INT64] = &NAME##_u64, [PF_UINT8] = &NAME##_u8, \
  [PF_UINT16] = &NAME##_u16, [PF_UINT32] = &NAME##_u32, [PF_UINT64] = &NAME##_u64, \
  [PF_COMPLEX64] = &NAME##_c64, [PF_COMPLEX128] = &NAME##_c128
enum { SUM, MEAN, PROD, MAX_OP, MIN_OP, NORM, ALL, ANY, OPS };
static const reduce_loops *const first_pass[OPS][PF_TYPE_COUNT] = {
  [SUM] = {NUMBER_ROW(Sum)}, [MEAN] = {NUMBER_ROW(Sum)}, [PROD] = {NUMBER_ROW(Prod)},
  [MAX_OP] = {ORDERED_ROW(Max)}, [MIN_OP] = {ORDERED_ROW(Min)},
  [NORM] = {NUMBER_ROW(SquareSum)}, [ALL] = {[PF_BOOL] = &All_u8}, [ANY] = {[PF_BOOL] = &Any_u8}};

/* ---------------------------------------------------------------- any type
 * Elements of xsize bytes in memory are halves of `type`, or of esize bytes, as the results are. */
typedef struct {
  const reduce_loops *f;
  int64_t xsize, esize;
  int32_t type;                        /* PF_FLOAT16, PF_BFLOAT16, or 0: no halves */
} kind;

static void fill_zero(const kind *k, void *y, int64_t n) {
  if (k->esize == 4) {
    uint32_t v;
    memcpy(&v, k->f->zero, 4);
    for (int64_t i = 0; i < n; i++) ((uint32_t *)y)[i] = v;
  } else {
    for (int64_t i = 0; i < n; i++)
      memcpy((char *)y + i * k->esize, k->f->zero, (size_t)k->esize);
  }
}
/* m rows of less than LANES elements: transposed, then added up side by side */
static void short_rows(const kind *k, const char *x, char *y, int64_t m, int64_t n) {
  char turned[LANES * SHORT_ROWS * 16] __attribute__((aligned(64)));
  float room[LANES * SHORT_ROWS];
  if (k->type) halves_read(k->type, x, room, n * m), x = (const char *)room;
  pf_movers()->transpose(k->esize, x, n, turned, m, m, n);
  fill_zero(k, y, m);
  for (int64_t i = 0; i < n; i++) k->f->add(turned + i * m * k->esize, y, m);
}
/* Sums of halves that never lie in memory as floats: a row of at least LANES, and a row to add. */
PF_INLINE float half_sum(int32_t type, const uint16_t *x, int64_t n) {
  enum { U = LANES / PF_VF };
  pf_vf acc[U];
  float s[LANES], rest[LANES];
  int64_t i = 0;
  for (int u = 0; u < U; u++) acc[u] = pf_vf_set(0);
  for (; i + LANES <= n; i += LANES)
    for (int u = 0; u < U; u++) acc[u] += pf_vf_read(type, x + i + u * PF_VF);
  for (int u = 0; u < U; u++) pf_vf_store(s + u * PF_VF, acc[u]);
  halves_read(type, x + i, rest, n - i);
  for (int64_t k = 0; k < n - i && k < LANES; k++) s[k] += rest[k];
  for (int l = LANES / 2; l; l /= 2)
    for (int k = 0; k < l; k++) s[k] += s[k + l];
  return s[0];
}
PF_INLINE void half_add_as(int32_t type, const uint16_t *row, float *to, int64_t w) {
  int64_t j = 0;
  for (; j + PF_VF <= w; j += PF_VF)
    pf_vf_store(to + j, pf_vf_load(to + j) + pf_vf_read(type, row + j));
  if (j < w)
    pf_vf_store_part(to + j, pf_vf_load_part(to + j, (int)(w - j)) +
                     pf_vf_read_part(type, row + j, w - j), (int)(w - j));
}
static void half_sums(int32_t type, const uint16_t *x, float *y, int64_t rows, int64_t n) {
  if (type == PF_FLOAT16)
    for (int64_t r = 0; r < rows; r++) y[r] = half_sum(PF_FLOAT16, x + r * n, n);
  else for (int64_t r = 0; r < rows; r++) y[r] = half_sum(PF_BFLOAT16, x + r * n, n);
}
static void half_add(int32_t type, const uint16_t *row, float *to, int64_t w) {
  if (type == PF_FLOAT16) half_add_as(PF_FLOAT16, row, to, w);
  else half_add_as(PF_BFLOAT16, row, to, w);
}

/* rows of halves: some at once, or a long one in pieces */
static void half_rows(const kind *k, const char *x, char *y, int64_t rows, int64_t n) {
  float room[ROOM], part;
  int64_t step = PF_MAX(ROOM / PF_MAX(n, 1), 1);
  for (int64_t r = 0; r < rows; r += step) {
    int64_t m = PF_MIN(step, rows - r);
    const char *from = x + r * n * 2;
    float *to = (float *)y + r;
    if (n <= ROOM) {
      halves_read(k->type, from, room, m * n);
      k->f->rows(room, to, m, n);
      continue;
    }
    fill_zero(k, to, 1);
    for (int64_t i = 0; i < n; i += ROOM) {
      halves_read(k->type, from + 2 * i, room, PF_MIN(ROOM, n - i));
      k->f->rows(room, &part, 1, PF_MIN(ROOM, n - i));
      k->f->join->add(&part, to, 1);
    }
  }
}
static void reduce_rows(const kind *k, const char *x, char *y, int64_t rows, int64_t n) {
  for (int64_t m; n < LANES && rows >= SHORT_ROWS; rows -= m) {
    m = rows >= 4 * SHORT_ROWS && n * k->esize <= 32 ? 4 * SHORT_ROWS : SHORT_ROWS;
    short_rows(k, x, y, m, n);
    x += n * m * k->xsize, y += m * k->esize;
  }
  if (k->type && k->f->sums && n >= LANES)
    half_sums(k->type, (const uint16_t *)x, (float *)y, rows, n);
  else if (k->type) half_rows(k, x, y, rows, n);
  else k->f->rows(x, y, rows, n);
}
static void wide_cols(const kind *k, const char *x, char *y, int64_t n, int64_t stride,
                      int64_t m) {
  float room[ROOM / 4];
  int64_t strip = k->type ? ROOM / 4 : TILE;
  fill_zero(k, y, m);
  for (int64_t r = 0; r < n; r++)
    for (int64_t j = 0; j < m; j += strip) {
      int64_t w = PF_MIN(m - j, strip);
      const char *row = x + (r * stride + j) * k->xsize;
      if (k->type && k->f->sums) {
        half_add(k->type, (const uint16_t *)row, (float *)y + j, w);
        continue;
      }
      if (k->type) halves_read(k->type, row, room, w), row = (const char *)room;
      k->f->add(row, y + j * k->esize, w);
    }
}
/* short rows that lie together are seen as longer ones, whose parts are joined at the end */
static void reduce_cols(const kind *k, const char *x, char *y, int64_t n, int64_t stride,
                        int64_t m) {
  /* parts lie half a page away from what is read: a load that ends in the same 12 bits as a
   * store before it would wait */
  char space[SHORT_COLS * 16 + 4096] __attribute__((aligned(64)));
  char *parts = space + (((uintptr_t)x + 2048 - (uintptr_t)space) & 4032);
  int64_t s = SHORT_COLS / m, rows = s ? n / s * s : 0;
  if (stride != m || s < 2 || n < 16 * s) {
    int far = n >= 16 && m * k->esize <= SHORT_COLS * 16;
    wide_cols(k, x, far ? parts : y, n, stride, m);
    if (far) memcpy(y, parts, (size_t)(m * k->esize));
    return;
  }
  wide_cols(k, x, parts, n / s, s * m, s * m);
  wide_cols(k, x + rows * m * k->xsize, y, n - rows, m, m);
  for (int64_t i = 0; i < s; i++) k->f->join->add(parts + i * m * k->esize, y, m);
}

/* ---------------------------------------------------------------- one pass */
typedef struct {
  kind k;
  const char *x;
  char *y;
  int64_t n, inner, piece, pieces, tiles;  /* pieces of n, tiles of inner */
} pass_task;

static void rows_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const pass_task *t = (const pass_task *)arg;
  (void)worker;
  if (t->pieces == 1) {
    reduce_rows(&t->k, t->x + lo * t->n * t->k.xsize, t->y + lo * t->k.esize, hi - lo, t->n);
    return;
  }
  for (int64_t i = lo; i < hi; i++) {
    int64_t at = i % t->pieces * t->piece;
    reduce_rows(&t->k, t->x + (i / t->pieces * t->n + at) * t->k.xsize, t->y + i * t->k.esize, 1,
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
    reduce_cols(&t->k, t->x + ((outer * t->n + at) * t->inner + j) * t->k.xsize,
                t->y + (row * t->inner + j) * t->k.esize, PF_MIN(t->piece, t->n - at), t->inner, w);
  }
}
/* what follows a first pass: partial results */
static kind joining(const kind *k) { return (kind){k->f->join, k->esize, k->esize, 0}; }

/* x [outer, n, inner] -> y [outer, inner] */
static pf_status run_pass(pf_ctx *c, const kind *k, const char *x, char *y, int64_t outer,
                          int64_t n, int64_t inner) {
  int64_t limit = inner == 1 ? ROW_PIECE : PF_MIN(PF_MAX(4 * ROW_PIECE / inner, COL_BLOCK), 4096);
  pass_task t = {.k = *k, .x = x, .y = y, .n = n, .inner = inner, .piece = PF_MAX(n, 1),
                 .pieces = 1};
  if (n > limit) {
    t.piece = limit, t.pieces = (n + limit - 1) / limit;
    t.y = (char *)c->host->scratch(c, (uint64_t)(outer * t.pieces * inner * k->esize), 64);
    PF_EXHAUSTED(t.y);
  }
  t.tiles = (inner + TILE - 1) / TILE;
  if (inner == 1) PF_TRY(pf_parallel(c, outer * t.pieces, pf_grain(t.piece), rows_range, &t));
  else
    PF_TRY(pf_parallel(c, outer * t.pieces * t.tiles, pf_grain(t.piece * PF_MIN(inner, TILE)),
                       cols_range, &t));
  if (t.pieces == 1) return PF_OK;
  kind next = joining(k);
  return run_pass(c, &next, t.y, y, outer, t.pieces, inner);
}

/* ---------------------------------------------------------------- all passes */
static pf_status run_passes(pf_ctx *c, groups *g, kind k, const char *x, char *y) {
  int32_t left = 0;
  for (int32_t i = 0; i < g->n; i++) left += g->reduced[i];
  if (!left) g->size[g->n] = 1, g->reduced[g->n++] = 1, left = 1;
  for (int32_t i = g->n - 1; i >= 0; i--) {
    if (!g->reduced[i]) continue;
    int64_t outer = pf_product(g->size, 0, i), inner = pf_product(g->size, i + 1, g->n);
    char *to = y;
    if (--left) {
      to = (char *)c->host->scratch(c, (uint64_t)PF_MAX(outer * inner * k.esize, 1), 64);
      PF_EXHAUSTED(to);
    }
    PF_TRY(run_pass(c, &k, x, to, outer, g->size[i], inner));
    g->size[i] = 1, x = to, k = joining(&k);
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
  kind k = {first_pass[op][type], pf_type_size(type), esize, half ? type : 0};
  if (n == 0) fill_zero(&k, to, m);
  else PF_TRY(run_passes(c, &g, k, from, to));
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
