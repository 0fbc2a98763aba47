/* reductions.c - Sum, Mean, Prod, Max, Min, EuclideanNorm, All, Any, and BiasAddGrad.
 *
 * The input is seen as groups of neighbouring dimensions that are all kept or all reduced; each
 * reduced group, from the innermost on, is one pass [outer, n, inner] -> [outer, inner] by one of
 * two loops (reduce_loops.h):
 *
 *   rows   inner == 1: a row's partial results, then a tree over those of several rows
 *   cols   inner > 1: some rows at a time are joined with a tile of columns
 *
 * What is around them works for any op and type: halves go through a buffer of floats (sums of them
 * through registers), short rows of small integers through one of 32 bits; signed integers share
 * the sums and products of unsigned ones; all and any are the least and the largest byte, or the
 * search for one.
 *
 * Invariants
 *   1. Long reductions are cut into pieces of a fixed length and the pieces are reduced again:
 *      accurate, and the same bits for any number of threads.
 *   2. Integers wrap; half and bfloat16 are reduced as float and rounded once; max and min keep
 *      NaN.
 * Compiled once per instruction set.
 */
#include "base/common.h"
#include "base/isa.h"
#include "base/machine.h"
#include "reduce/reduce_groups.h"
#include "reduce/reduce_loops.h"
#include "move/transpose.h"
#include "vec/vfloat.h"

enum {
  ROW_PIECE = 16384,
  TILE = 2048,
  SHORT_COLS = 1024,
  COL_BLOCK = 64,
  ROOM = 2048,
  LONG_BYTES = 512,
  VERY_LONG = 4096,
  NEAR = PF_L2_BYTES,
  LARGE = 2 * PF_L3_BYTES,
  MANY = 2 * PF_L2_BYTES,
  ENOUGH = 8192, /* rows, for pieces of four blocks */
  PAST_COLS = PF_L2_BYTES / 8
}; /* bytes of results */

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
  [SUM] = {NUMBER_ROW(Sum)},     [MEAN] = {NUMBER_ROW(Sum)},    [PROD] = {NUMBER_ROW(Prod)},
  [MAX_OP] = {ORDERED_ROW(Max)}, [MIN_OP] = {ORDERED_ROW(Min)}, [NORM] = {NUMBER_ROW(SquareSum)},
  [ALL] = {[PF_BOOL] = &Min_u8}, [ANY] = {[PF_BOOL] = &Max_u8}};

/* ---------------------------------------------------------------- any type
 * Elements of xsize bytes in memory are halves of `type`, or of esize bytes, as the results are. */
typedef struct {
  const reduce_loops *f;
  int64_t xsize, esize;
  int32_t type;             /* as the elements are read: halves, small integers */
  int32_t where;            /* of rows: FAR, PAST */
  int32_t large, past_cols; /* the input comes from memory, results go there */
} kind;

static void __attribute__((noinline)) fill_zero(const kind *k, void *y, int64_t n) {
  char *to = (char *)y;
  int64_t done = PF_MIN(n, 1) * k->esize, bytes = n * k->esize;
  memcpy(to, k->f->zero, (size_t)done);
  for (int64_t m; done < bytes; done += m) { /* doubled */
    m = PF_MIN(done, bytes - done);
    memcpy(to + done, to, (size_t)m);
  }
}
static int is_half_sum(const kind *k) {
  return pf_is_half(k->type) && k->f->block == Sum_f32_block;
}

/* Sums of halves that never lie in memory as floats: a row of at least LANES, and rows to add. */
PF_INLINE float half_sum(int32_t type, const uint16_t *x, int64_t n) {
  enum { U = LANES / PF_VF };
  pf_vf acc[U];
  int64_t i = 0;
  for (int u = 0; u < U; u++) acc[u] = pf_vf_set(0);
  for (; i + LANES <= n; i += LANES)
    for (int u = 0; u < U; u++) acc[u] += pf_vf_read(type, x + i + u * PF_VF);
  for (int u = 0; u < U && i + u * PF_VF < n; u++)
    acc[u] += pf_vf_read_part(type, x + i + u * PF_VF, n - i - u * PF_VF);
  for (int l = U / 2; l; l /= 2)
    for (int u = 0; u < l; u++) acc[u] += acc[u + l];
  return pf_vf_sum(acc[0]);
}
PF_INLINE void half_block_as(int32_t type, const uint16_t *x, int64_t rows, int64_t stride,
                             int64_t ahead, float *y, int64_t w) {
  int64_t j = 0;
  for (; j + STRIP * PF_VF <= w; j += STRIP * PF_VF) {
    pf_vf a[STRIP];
    for (int u = 0; u < STRIP; u++) a[u] = pf_vf_load(y + j + u * PF_VF);
    for (int64_t r = 0; r < rows; r++)
      for (int u = 0; u < STRIP; u++) {
        const uint16_t *p = x + r * stride + j + u * PF_VF;
        if (u % 2 == 0) __builtin_prefetch(p + ahead, 0, 2);
        a[u] += pf_vf_read(type, p);
      }
    for (int u = 0; u < STRIP; u++) pf_vf_store(y + j + u * PF_VF, a[u]);
  }
  for (; j < w; j += PF_VF) {
    int part = (int)PF_MIN(w - j, PF_VF);
    pf_vf a = pf_vf_load_part(y + j, part);
    for (int64_t r = 0; r < rows; r++) a += pf_vf_read_part(type, x + r * stride + j, part);
    pf_vf_store_part(y + j, a, part);
  }
}
static void half_sums(int32_t type, const uint16_t *x, float *y, int64_t rows, int64_t n) {
  if (type == PF_FLOAT16)
    for (int64_t r = 0; r < rows; r++) y[r] = half_sum(PF_FLOAT16, x + r * n, n);
  else
    for (int64_t r = 0; r < rows; r++) y[r] = half_sum(PF_BFLOAT16, x + r * n, n);
}
static void half_block(int32_t type, const uint16_t *x, int64_t rows, int64_t stride, int64_t ahead,
                       float *y, int64_t w) {
  if (type == PF_FLOAT16) half_block_as(PF_FLOAT16, x, rows, stride, ahead, y, w);
  else half_block_as(PF_BFLOAT16, x, rows, stride, ahead, y, w);
}

static void halves_to_floats(int32_t type, const void *x, float *y, int64_t n) {
  pf_movers()->halves_read(type, x, y, n);
}

/* Small integers in 32 bits, large unsigned ones as signed, in their order; and back, the lowest
 * bits. */
#define WIDEN(TYPE, T) \
  case TYPE: for (int64_t i = 0; i < n; i++) ((int32_t *)y)[i] = ((const T *)x)[i]; break;
static void widen(int32_t type, const void *x, void *y, int64_t n) {
  switch (type) {
    WIDEN(PF_INT8, int8_t)
    WIDEN(PF_INT16, int16_t)
    WIDEN(PF_UINT16, uint16_t)
    case PF_UINT32:
      for (int64_t i = 0; i < n; i++) ((uint32_t *)y)[i] = ((const uint32_t *)x)[i] ^ 1u << 31;
      break;
    case PF_UINT64:
      for (int64_t i = 0; i < n; i++) ((uint64_t *)y)[i] = ((const uint64_t *)x)[i] ^ 1ull << 63;
      break;
    default:
      for (int64_t i = 0; i < n; i++) ((int32_t *)y)[i] = ((const uint8_t *)x)[i];
  }
}
static void narrow(const void *x, void *y, int64_t size, int64_t n) {
  const uint32_t *from = (const uint32_t *)x;
  if (size == 1)
    for (int64_t i = 0; i < n; i++) ((uint8_t *)y)[i] = (uint8_t)from[i];
  else if (size == 2)
    for (int64_t i = 0; i < n; i++) ((uint16_t *)y)[i] = (uint16_t)from[i];
  else widen(size == 4 ? PF_UINT32 : PF_UINT64, x, y, n);
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
      halves_to_floats(k->type, from, room, m * n);
      k->f->rows(room, to, m, n, 0);
      continue;
    }
    fill_zero(k, to, 1);
    for (int64_t i = 0; i < n; i += ROOM) {
      halves_to_floats(k->type, from + 2 * i, room, PF_MIN(ROOM, n - i));
      k->f->rows(room, &part, 1, PF_MIN(ROOM, n - i), 0);
      k->f->join->block(&part, 1, 1, 0, to, 1);
    }
  }
}
/* Rows of small integers: short ones are widened, long ones become short ones first. */
static void small_rows(const kind *k, const char *x, char *y, int64_t rows, int64_t n) {
  int64_t room[ROOM], found[ROOM];
  for (int64_t m, step = PF_MAX(ROOM / PF_MAX(n, 1), 1); rows > 0; rows -= m) {
    m = PF_MIN(step, rows);
    widen(k->type, x, room, m * n);
    k->f->wide->rows(room, found, m, n, 0);
    narrow(found, y, k->esize, m);
    x += m * n * k->xsize, y += m * k->esize;
  }
}
static void long_small_rows(const kind *k, const char *x, char *y, int64_t rows, int64_t n) {
  enum { TOGETHER = 16 };
  const kind next = {k->f->join, k->xsize, k->esize, k->type, 0, 0, 0};
  char zeros[STRIP * WIDTH], parts[TOGETHER * STRIP * WIDTH] __attribute__((aligned(64)));
  int64_t bytes = (n >= VERY_LONG ? STRIP : 1) * WIDTH, s = bytes / k->xsize, whole = n / s;
  fill_zero(k, zeros, s);
  for (int64_t m; rows > 0; rows -= m, y += m * k->esize) {
    m = PF_MIN(rows, TOGETHER);
    for (int64_t r = 0; r < m; r++, x += n * k->xsize) {
      memcpy(parts + r * bytes, zeros, (size_t)bytes);
      k->f->block(x, whole, s, 0, parts + r * bytes, s);
      if (n > whole * s) k->f->block(x + whole * bytes, 1, s, 0, parts + r * bytes, n - whole * s);
    }
    small_rows(&next, parts, y, m, s);
  }
}
/* Extremes of long rows of halves, from three of their bits as integers: positive numbers have the
 * order of those, negative ones the opposite order; a NaN lies behind the infinity of its sign. */
PF_INLINE u16_v half_extreme(const uint16_t *x, int64_t n, uint16_t infinity, int is_max) {
  enum { L = WIDTH / 2 };
  i16_v greatest = AT(i16, x);
  u16_v most = (u16_v)greatest, least = most;
  for (int64_t i = L; i < n; i += L) {
    i = PF_MIN(i, n - L); /* the last vector ends with the row */
    i16_v v = AT(i16, x + i);
    greatest = max_i16(greatest, v);
    most = max_u16(most, (u16_v)v), least = min_u16(least, (u16_v)v);
  }
  u16_v other = is_max ? (u16_v)greatest : most, nan = is_max ? most : (u16_v)greatest;
  u16_v behind = is_max ? (u16_v)(greatest < 0) : (u16_v)(most < 0x8000);
  other = (behind & least) | (~behind & other);
  if (is_max) behind = (u16_v)(nan > (uint16_t)(infinity | 0x8000));
  else behind = (u16_v)((i16_v)nan > (int16_t)infinity);
  return (behind & nan) | (~behind & other);
}
static void half_extremes(const kind *k, const uint16_t *x, float *y, int64_t rows, int64_t n) {
  enum { L = WIDTH / 2, TOGETHER = 16 };
  uint16_t parts[TOGETHER * L], infinity = k->type == PF_FLOAT16 ? 0x7c00 : 0x7f80;
  for (int64_t m; rows > 0; rows -= m, y += m) {
    m = PF_MIN(rows, TOGETHER);
    for (int64_t r = 0; r < m; r++, x += n) {
      u16_v v = half_extreme(x, n, infinity, k->f == &Max_f32);
      memcpy(parts + r * L, &v, WIDTH);
    }
    half_rows(k, (const char *)parts, (char *)y, m, L);
  }
}
static void reduce_rows(const kind *k, const char *x, char *y, int64_t rows, int64_t n) {
  if (k->type == PF_BOOL && n >= LONG_BYTES / 8) { /* up to the first that decides */
    int any = k->f->join == &Max_u8;
    for (int64_t r = 0; r < rows; r++) y[r] = (memchr(x + r * n, any, (size_t)n) != NULL) == any;
    return;
  }
  if (is_half_sum(k) && n >= 2 * LANES && (n >= LONG_BYTES || n % LANES == 0))
    half_sums(k->type, (const uint16_t *)x, (float *)y, rows, n);
  else if (pf_is_half(k->type) && (k->f == &Max_f32 || k->f == &Min_f32) && n >= 2 * WIDTH)
    half_extremes(k, (const uint16_t *)x, (float *)y, rows, n);
  else if (pf_is_half(k->type)) half_rows(k, x, y, rows, n);
  else if (!k->f->rows && n * k->xsize >= LONG_BYTES) long_small_rows(k, x, y, rows, n);
  else if (!k->f->rows) small_rows(k, x, y, rows, n);
  else k->f->rows(x, y, rows, n, k->where);
}
/* some rows at a time: what a strip of columns has is in registers for them */
static void wide_cols(const kind *k, const char *x, char *y, int64_t n, int64_t stride, int64_t m) {
  float room[ROOM / 4];
  fill_zero(k, y, m);
  if (!pf_is_half(k->type) || is_half_sum(k)) {
    int64_t step = k->large ? 8 : 4, ahead = k->large ? step * stride : 0;
    if (k->large && m == stride && k->f->rows && WIDTH > 16 && !pf_is_half(k->type))
      step = n, ahead = -1;
    for (int64_t r = 0; r < n; r += step, x += step * stride * k->xsize) {
      int64_t rows = PF_MIN(step, n - r);
      if (pf_is_half(k->type))
        half_block(k->type, (const uint16_t *)x, rows, stride, ahead, (float *)y, m);
      else k->f->block(x, rows, stride, ahead, y, m);
    }
    return;
  }
  for (int64_t r = 0; r < n; r++)
    for (int64_t j = 0; j < m; j += ROOM / 4) {
      int64_t w = PF_MIN(m - j, ROOM / 4);
      halves_to_floats(k->type, x + (r * stride + j) * k->xsize, room, w);
      k->f->block(room, 1, w, 0, y + j * k->esize, w);
    }
}
static void copy_past(const char *x, char *y, int64_t bytes) { /* whole lines */
  for (int64_t i = 0; i < bytes; i += WIDTH) STORE_PAST(y + i, *(const i8_v *)(x + i));
}
/* Short rows that lie together are seen as longer ones, whose parts are joined at the end: pairs of
 * neighbours far apart first. */
static void reduce_cols(const kind *k, const char *x, char *y, int64_t n, int64_t stride,
                        int64_t m) {
  /* parts lie half a page away from what is read: a load that ends in the same 12 bits as a
   * store before it would wait */
  char space[SHORT_COLS * 16 + 4096] __attribute__((aligned(64)));
  char *parts = space + (((uintptr_t)x + 2048 - (uintptr_t)space) & 4032);
  int64_t s = 1, line = m * k->esize;
  while (stride == m && 2 * s * m <= SHORT_COLS && 32 * s <= n) s *= 2;
  int64_t rows = n / s * s;
  if (s == 1) {
    int far = n >= 16 && line <= SHORT_COLS * 16;
    wide_cols(k, x, far ? parts : y, n, stride, m);
    if (far && k->past_cols && line % 64 == 0) copy_past(parts, y, line);
    else if (far) memcpy(y, parts, (size_t)line);
    return;
  }
  wide_cols(k, x, parts, n / s, s * m, s * m);
  wide_cols(k, x + rows * m * k->xsize, y, n - rows, m, m);
  for (s /= 2; s; s /= 2) k->f->join->block(parts + s * line, 1, 0, 0, parts, s * m);
  k->f->join->block(parts, 1, 0, 0, y, m);
}

/* ---------------------------------------------------------------- one pass */
typedef struct {
  kind k;
  const char *x;
  char *y;
  int64_t n, inner, piece, pieces, tiles; /* pieces of n, tiles of inner */
} pass_task;

static void rows_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const pass_task *t = (const pass_task *)arg;
  (void)worker;
  if (t->pieces == 1) {
    reduce_rows(&t->k, t->x + lo * t->n * t->k.xsize, t->y + lo * t->k.esize, hi - lo, t->n);
    if (t->k.where & PAST) PAST_FENCE();
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
  if (t->k.past_cols) PAST_FENCE();
}
/* what follows a first pass: partial results */
static kind joining(const kind *k) {
  return (kind){k->f->join, k->esize, k->esize, pf_is_half(k->type) ? 0 : k->type, 0, 0, 0};
}

/* x [outer, n, inner] -> y [outer, inner] */
static pf_status run_pass(pf_ctx *c, const kind *k, const char *x, char *y, int64_t outer,
                          int64_t n, int64_t inner) {
  pass_task t = {.k = *k,
                 .x = x,
                 .y = y,
                 .n = n,
                 .inner = inner,
                 .piece = PF_MAX(n, 1),
                 .pieces = 1,
                 .tiles = (inner + TILE - 1) / TILE};
  int64_t block = outer * t.tiles * n < ENOUGH ? COL_BLOCK : 4 * COL_BLOCK;
  int64_t limit = inner == 1 ? ROW_PIECE : PF_MIN(PF_MAX(4 * ROW_PIECE / inner, block), 4096);
  if (n > limit) {
    t.piece = limit, t.pieces = (n + limit - 1) / limit;
    t.y = (char *)c->host->scratch(c, (uint64_t)(outer * t.pieces * inner * k->esize), 64);
    PF_EXHAUSTED(t.y);
  }
  if (t.pieces > 1 || inner * k->esize % 64 || (uintptr_t)t.y % 64) t.k.past_cols = 0;
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
      k.past_cols = 0;
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
static __attribute__((cold)) void divide_any(int32_t type, void *y, int64_t n, int64_t count) {
  switch (type) {
    DIVIDE(PF_FLOAT64, double, f64)
    DIVIDE(PF_COMPLEX64, c64, c64)
    DIVIDE(PF_COMPLEX128, c128, c128)
    PF_EACH_SIGNED(DIVIDE_INT)
    case PF_UINT64:
      for (int64_t i = 0; i < n && count; i++) ((uint64_t *)y)[i] /= (uint64_t)count;
      break;
      DIVIDE_INT(PF_UINT8, uint8_t, u8)
      DIVIDE_INT(PF_UINT16, uint16_t, u16)
      DIVIDE_INT(PF_UINT32, uint32_t, u32)
  }
}
static void divide(int32_t type, void *y, int64_t n, int64_t count) {
  if (type != PF_FLOAT32) divide_any(type, y, n, count);
  else
    for (int64_t i = 0; i < n; i++) ((float *)y)[i] /= (float)count;
}
#define ROOT(TYPE, T, TAG) \
  case TYPE: \
    for (int64_t i = 0; i < n; i++) ((T *)y)[i] = (T)sqrt((double)((T *)y)[i]); \
    break;
/* of sums of squares: real and not negative */
static __attribute__((cold)) void root(int32_t type, void *y, int64_t n) {
  switch (type) {
    PF_EACH_REAL(ROOT)
    ROOT(PF_COMPLEX64, c64, c64)
    ROOT(PF_COMPLEX128, c128, c128)
  }
}
/* reduces input 0 along `flags` into output 0 of that shape */
static pf_status reduce_flags(pf_ctx *c, int32_t op, const int32_t *flags, const int64_t *shape,
                              int32_t nd) {
  const DLTensor *x = c->in[0];
  int32_t type = c->in_type[0], half = pf_is_half(type), work = half ? PF_FLOAT32 : type;
  groups g = group_dims(x, flags);
  int64_t count = 1, esize = pf_type_size(work), n = pf_numel(x);
  for (int32_t i = 0; i < x->ndim; i++)
    if (flags[i]) count *= x->shape[i];
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
  kind k = {first_pass[op][type], pf_type_size(type), esize, type, 0, 0, 0};
  k.large = n * k.xsize >= LARGE;
  k.where = (n * k.xsize >= NEAR ? FAR : 0) | (k.large && m * esize >= MANY ? PAST : 0);
  k.past_cols = k.large && m * esize >= PAST_COLS && !half && op != MEAN && op != NORM;
  if (n == 0 && op == ALL) memset(to, 1, (size_t)m); /* true is 1, not the greatest byte */
  else if (n == 0) fill_zero(&k, to, m);
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
OP(sum, SUM)
OP(mean, MEAN)
OP(prod, PROD)
OP(max_, MAX_OP)
OP(min_, MIN_OP)
OP(norm, NORM)
OP(all, ALL)
OP(any, ANY)

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
