/* gemm_half.c - products of float16 and bfloat16: summed in float, rounded once at the end.
 *
 *   a vector   times a matrix: the matrix is widened in registers as it streams by, so that its
 *              bytes, half of a float matrix's, decide the time
 *   tiles      bfloat16 where the processor has a unit for it (gemm_amx.h)
 *   pairs      bfloat16 where the processor multiplies pairs of them: twice the flops of float
 *   float      otherwise both operands are widened first
 *   small      in a batch of small products each is converted, multiplied and rounded in the caches
 *
 * Invariant: the way depends on type, sizes and layout only; equal inputs give equal bits.
 * Threads: parallel_for over parts of the result, whose sums do not depend on the cut.
 *
 * Fast path: matmul_vector, matmul_512 (docs/paths.md).
 */
#define PF_ALL_INTRINSICS /* avx512bf16 */
#include "base/machine.h"
#include "gemm/gemm_amx.h"
#include "vec/vfloat.h"

enum { ROWS_AT_ONCE = 4, VECTOR_BYTES = PF_L2_BYTES / 2 };

/* ---------------------------------------------------------------- a vector times a matrix */
typedef struct {
  int32_t type;
  int dots; /* y[j] = x . m[j]; else y = sum of x[p] m[p] */
  int64_t k, ld, n, unit;
  const float *x;
  const uint16_t *m;
  float *y;
} vector_call;

PF_INLINE void dots_of(const int32_t type, const vector_call *v, int64_t j, const int rows) {
  const uint16_t *m = v->m + j * v->ld;
  pf_vf s[ROWS_AT_ONCE] = {{0}};
  int64_t p = 0;
  for (; p + PF_VF <= v->k; p += PF_VF) {
    const pf_vf x = pf_vf_load(v->x + p);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) s[r] = PF_VF_FMA(x, pf_vf_read(type, m + r * v->ld + p), s[r]);
  }
  if (p < v->k) {
    const pf_vf x = pf_vf_load_part(v->x + p, (int)(v->k - p));
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
      s[r] = PF_VF_FMA(x, pf_vf_read_part(type, m + r * v->ld + p, v->k - p), s[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) v->y[j + r] = pf_vf_sum(s[r]);
}

/* y[lo, hi) += the rows p .. p + rows, in that order */
PF_INLINE void add_rows(const int32_t type, const vector_call *v, int64_t p, const int rows,
                        int64_t lo, int64_t hi) {
  const uint16_t *m = v->m + p * v->ld;
  pf_vf x[ROWS_AT_ONCE];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) x[r] = pf_vf_set(v->x[p + r]);
  int64_t j = lo;
  for (; j + PF_VF <= hi; j += PF_VF) {
    pf_vf s = pf_vf_load(v->y + j);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) s = PF_VF_FMA(x[r], pf_vf_read(type, m + r * v->ld + j), s);
    pf_vf_store(v->y + j, s);
  }
  if (j < hi) {
    const int left = (int)(hi - j);
    pf_vf s = pf_vf_load_part(v->y + j, left);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
      s = PF_VF_FMA(x[r], pf_vf_read_part(type, m + r * v->ld + j, left), s);
    pf_vf_store_part(v->y + j, s, left);
  }
}

PF_INLINE void vector_part(const int32_t type, const vector_call *v, int64_t lo, int64_t hi) {
  if (v->dots) {
    int64_t j = lo;
    for (; j + ROWS_AT_ONCE <= hi; j += ROWS_AT_ONCE) dots_of(type, v, j, ROWS_AT_ONCE);
    for (; j < hi; j++) dots_of(type, v, j, 1);
    return;
  }
  memset(v->y + lo, 0, sizeof(float) * (size_t)(hi - lo));
  int64_t p = 0;
  for (; p + ROWS_AT_ONCE <= v->k; p += ROWS_AT_ONCE) add_rows(type, v, p, ROWS_AT_ONCE, lo, hi);
  for (; p < v->k; p++) add_rows(type, v, p, 1, lo, hi);
}

static void vector_parts(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const vector_call *v = arg;
  int64_t first = lo * v->unit, last = PF_MIN(hi * v->unit, v->n);
  (void)worker;
  if (v->type == PF_BFLOAT16) vector_part(PF_BFLOAT16, v, first, last);
  else vector_part(PF_FLOAT16, v, first, last);
}

/* ---------------------------------------------------------------- conversions */
typedef struct {
  int32_t type;
  const void *from;
  void *to;
} conversion;

static void widen(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const conversion *v = arg;
  (void)worker;
  halves_read(v->type, (const uint16_t *)v->from + lo, (float *)v->to + lo, hi - lo);
}

static void narrow(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const conversion *v = arg;
  (void)worker;
  halves_write(v->type, (const float *)v->from + lo, (uint16_t *)v->to + lo, hi - lo);
}

/* Scratch of n elements of 4 bytes; NULL: no memory, reported. */
static void *take(pf_ctx *c, pf_gemm_room *room, int64_t n) {
  int64_t bytes;
  void *p = pf_mul(n, 4, &bytes) ? pf_gemm_scratch(c, room, (uint64_t)bytes + 4) : NULL;
  if (!p) (void)pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for matrices in float");
  return p;
}

/* n halves of p's type as floats: *x is replaced; NULL stays. */
static pf_status widened(pf_ctx *c, const pf_gemm_call *p, const void **x, int64_t n) {
  if (!*x) return PF_OK;
  conversion v = {p->type, *x, take(c, p->room, n)};
  PF_EXHAUSTED(v.to);
  *x = v.to;
  return pf_parallel(c, n, PF_GRAIN, widen, &v);
}

static int64_t reach(const int64_t *at, int64_t batches, int64_t matrix) {
  int64_t last = 0;
  for (int64_t i = 0; at && i < batches; i++) last = PF_MAX(last, at[i]);
  return last + matrix;
}

/* ---------------------------------------------------------------- pairs */
typedef struct {
  const uint16_t *from;
  uint32_t *to;
  int64_t k, pairs, w; /* matrices [k, w], or [w, k] where along */
  int along;
} pairing;

/* Row p of pairs of matrix i, or row w of one that lies along k. */
static void pair_rows(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const pairing *v = arg;
  const int64_t rows = v->along ? v->w : v->pairs, length = v->along ? v->k : v->w;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    const int64_t matrix = i / rows, row = i % rows;
    const uint16_t *x = v->from + matrix * v->k * v->w + row * (v->along ? 1 : 2) * length;
    uint32_t *y = v->to + matrix * v->pairs * v->w + row * (v->along ? v->pairs : v->w);
    if (v->along) {
      y[v->pairs - 1] = 0;
      memcpy(y, x, 2 * (size_t)v->k);
    } else if (2 * row + 1 < v->k) {
      for (int64_t j = 0; j < length; j++) y[j] = x[j] | (uint32_t)x[length + j] << 16;
    } else {
      for (int64_t j = 0; j < length; j++) y[j] = x[j];
    }
  }
}

/* op(x) of n matrices with `along` k contiguous, [k, w] or its transpose: as pairs. Strides: of k
 * and of w. Offsets of a batch change with the size of a matrix. */
static pf_status paired(pf_ctx *c, pf_gemm_room *room, const void **x, int64_t *along_k,
                        int64_t *along_w, int64_t k, int64_t w, const int64_t **at, int64_t n) {
  const int64_t matrix = k * w, pairs = (k + 1) / 2;
  pairing v = {.from = *x, .k = k, .pairs = pairs, .w = w, .along = *along_k == 1 && k > 1};
  if (v.along) *along_w = pairs;
  else *along_w = 1, *along_k = w;
  if (*at) {
    int64_t *moved = c->host->scratch(c, (uint64_t)n * 8, 64);
    if (!moved) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for batch offsets");
    for (int64_t i = 0; i < n; i++) moved[i] = (*at)[i] / matrix * (pairs * w);
    n = reach(*at, n, matrix) / matrix;
    *at = moved;
  } else {
    n = 1;
  }
  if (v.along && k % 2 == 0) return PF_OK; /* they are pairs where they lie */
  v.to = take(c, room, n * pairs * w);
  PF_EXHAUSTED(v.to);
  *x = v.to;
  return pf_parallel(c, n * (v.along ? w : pairs), pf_grain(v.along ? k : w), pair_rows, &v);
}

/* ---------------------------------------------------------------- the ways */
/* A matrix that has to be read once for one row (or column) of result. */
static int is_vector(const pf_gemm_call *p) {
  const pf_gemm *g = &p->g;
  return p->batches <= 1 && g->k > 0 &&
         ((g->m == 1 && g->a_col == 1) || (g->n == 1 && g->b_row == 1));
}

static pf_status run_vector(pf_ctx *c, const pf_gemm_call *p, float *y) {
  const pf_gemm *g = &p->g;
  const int row = g->m == 1 && g->a_col == 1;
  vector_call v = {.type = p->type, .k = g->k, .y = y, .n = row ? g->n : g->m};
  const void *x = row ? g->a : g->b;
  PF_TRY(widened(c, p, &x, g->k));
  v.x = x;
  v.m = row ? g->b : g->a;
  v.dots = (row ? g->b_col : g->a_row) != 1;
  v.ld = v.dots ? (row ? g->b_col : g->a_row) : (row ? g->b_row : g->a_col);
  const int64_t tasks = v.k * v.n >= VECTOR_BYTES ? c->host->workers(c) : 1;
  v.unit = ((v.n + tasks - 1) / tasks + PF_VF - 1) / PF_VF * PF_VF;
  PF_TRY(pf_parallel(c, (v.n + v.unit - 1) / v.unit, 1, vector_parts, &v));
  if (g->epilogue) pf_epilogue_f32(g->epilogue, y, g->n, g->m, g->n);
  return PF_OK;
}

static pf_status run_pairs(pf_ctx *c, pf_gemm_call *f, int64_t n) {
  pf_gemm *g = &f->g;
  PF_TRY(paired(c, f->room, &g->a, &g->a_col, &g->a_row, g->k, g->m, &f->a_at, n));
  PF_TRY(paired(c, f->room, &g->b, &g->b_row, &g->b_col, g->k, g->n, &f->b_at, n));
  g->k = (g->k + 1) / 2;
  return PF_ISA_NAME(pf_gemm_run_numbers)(c, f);
}

static pf_status run_floats(pf_ctx *c, pf_gemm_call *f, int64_t n) {
  pf_gemm *g = &f->g;
  PF_TRY(widened(c, f, &g->a, reach(f->a_at, n, g->m * g->k)));
  PF_TRY(widened(c, f, &g->b, reach(f->b_at, n, g->k * g->n)));
  f->type = PF_FLOAT32;
  return PF_ISA_NAME(pf_gemm_run_numbers)(c, f);
}

/* ---------------------------------------------------------------- batches of small products */
/* Each product of a batch in the caches: operands converted, multiplied, rounded. */
enum { ENTRY_BYTES = PF_L2_BYTES / 4, PAST_BYTES = PF_STREAM_BYTES / 2 };
#define ENTRY_FLOPS 1.0e6
#if PF_GEMM_PAIRS
#pragma GCC push_options
#pragma GCC target("avx512bf16")
/* Sums of pairs, which have no denormals, rounded by the instruction that would flush them; `past`
 * the caches, if y's lines are whole. */
static void round_sums(const float *x, uint16_t *y, int64_t n, int past) {
  int64_t i = 0;
  for (; past && (uintptr_t)y % 64 == 0 && i + 32 <= n; i += 32)
    _mm512_stream_si512((void *)(y + i), (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + 16),
                                                                      _mm512_loadu_ps(x + i)));
  for (; i + 32 <= n; i += 32)
    _mm512_storeu_si512(
        y + i, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + 16), _mm512_loadu_ps(x + i)));
  for (; i < n; i++) y[i] = pf_to_bf16(x[i]);
}
#pragma GCC pop_options
#endif
typedef struct {
  int along, copied;
  int64_t k, w, elements;
} operand; /* elements: of a matrix */
typedef struct {
  const pf_gemm_call *p;
  pf_gemm g; /* of a product whose operands are converted */
  operand a, b;
  int pairs;
  char *work;
  uint64_t work_bytes, worker_bytes;
} entries;

static const void *entry_operand(const entries *t, const operand *o, const void *x, int64_t at,
                                 void *room) {
  const uint16_t *from = (const uint16_t *)x + at;
  if (!o->copied) return from;
  if (t->pairs) {
    pairing v = {
      .from = from, .to = room, .k = o->k, .pairs = (o->k + 1) / 2, .w = o->w, .along = o->along};
    pair_rows(&v, 0, v.along ? v.w : v.pairs, 0);
  } else {
    halves_read(t->p->type, from, room, o->k * o->w);
  }
  return room;
}

static void run_entries(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const entries *t = arg;
  const pf_gemm_call *p = t->p;
  const int64_t size = p->g.m * p->g.n;
  pf_gemm g = t->g;
  char *room = t->work + (uint64_t)worker * t->worker_bytes;
  float *a = (float *)room, *b = a + t->a.elements, *c = b + t->b.elements;
  const int past = p->batches * size * 2 >= PAST_BYTES; /* results that no cache keeps */
  (void)past;
  g.work = c + (size + 15) / 16 * 16;
  g.c = c;
  for (int64_t i = lo; i < hi; i++) {
    g.a = entry_operand(t, &t->a, p->g.a, p->a_at[i], a);
    g.b = entry_operand(t, &t->b, p->g.b, p->b_at[i], b);
    uint16_t *out = (uint16_t *)p->g.c + i * size;
#if PF_GEMM_PAIRS
    if (t->pairs) {
      PF_ISA_NAME(pf_gemm_bf16)(&g);
      round_sums(c, out, size, past);
      continue;
    }
#endif
    PF_ISA_NAME(pf_gemm_f32)(&g);
    halves_write(p->type, c, out, size);
  }
#if PF_GEMM_PAIRS
  if (past) _mm_sfence();
#endif
}

/* How an operand is copied, [k, w] with its strides in elements, which become those of the copy. */
static operand operand_of(int pairs, int64_t k, int64_t w, int64_t *along_k, int64_t *along_w) {
  operand o = {.along = *along_k == 1 && k > 1, .copied = 1, .k = k, .w = w};
  const int64_t deep = pairs ? (k + 1) / 2 : k;
  o.copied = !(pairs && o.along && k % 2 == 0);
  o.elements = (deep * w + 15) / 16 * 16;
  if (pairs && o.along) *along_w = deep;
  else if (pairs) *along_w = 1, *along_k = w;
  return o;
}

/* PF_DECLINE: the batch is none of small products. */
static pf_status run_small(pf_ctx *c, const pf_gemm_call *p) {
  const pf_gemm *whole = &p->g;
  if (p->batches <= 1 || whole->epilogue || whole->k == 0) return PF_DECLINE;
  const double size = (double)whole->m * (double)whole->k + (double)whole->k * (double)whole->n +
                      (double)whole->m * (double)whole->n;
  if (4 * size > ENTRY_BYTES) return PF_DECLINE;
  entries t = {.p = p, .g = *whole, .pairs = p->type == PF_BFLOAT16 && pf_gemm_has_pairs()};
  t.a = operand_of(t.pairs, whole->k, whole->m, &t.g.a_col, &t.g.a_row);
  t.b = operand_of(t.pairs, whole->k, whole->n, &t.g.b_row, &t.g.b_col);
  if (t.pairs) t.g.k = (whole->k + 1) / 2;
  t.g.how = PF_ISA_NAME(pf_gemm_how)(&t.g, 4);
  t.work_bytes = PF_ISA_NAME(pf_gemm_work)(&t.g, 4);
  const int64_t floats = t.a.elements + t.b.elements + (whole->m * whole->n + 15) / 16 * 16;
  t.worker_bytes = ((uint64_t)floats * 4 + t.work_bytes + 127) / 64 * 64;
  t.work = c->host->scratch(c, t.worker_bytes * (uint64_t)c->host->workers(c), 64);
  if (!t.work) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for matrices in float");
  const double flops = 2.0 * (double)whole->m * (double)whole->n * (double)whole->k + 100;
  return pf_parallel(c, p->batches, 1 + (int64_t)(ENTRY_FLOPS / flops), run_entries, &t);
}

/* PF_DECLINE: no such unit, or nothing for it; c is of float where `floats`. */
static pf_status run_tiles(pf_ctx *c, const pf_gemm_call *p, int floats) {
#if PF_GEMM_AMX
  if (p->type == PF_BFLOAT16 && !is_vector(p) && PF_ISA_NAME(pf_gemm_has_amx)())
    return PF_ISA_NAME(pf_gemm_run_amx)(c, p, floats);
#endif
  (void)c, (void)p, (void)floats;
  return PF_DECLINE;
}

pf_status PF_ISA_NAME(pf_gemm_run_halves)(pf_ctx *c, const pf_gemm_call *p) {
  const int64_t n = PF_MAX(p->batches, 1), nc = n * p->g.m * p->g.n;
  pf_gemm_call f = *p;
  pf_epilogue e;
  if (p->g.epilogue) {
    e = *p->g.epilogue;
    PF_TRY(widened(c, p, &e.row_bias, p->g.m));
    PF_TRY(widened(c, p, &e.col_bias, p->g.n));
    PF_TRY(widened(c, p, &e.side, nc));
    f.g.epilogue = &e;
  }
  pf_status done = run_tiles(c, &f, 0);
  if (done == PF_DECLINE) done = run_small(c, p);
  if (done != PF_DECLINE) return done;
  conversion to_c = {p->type, take(c, p->room, nc), p->g.c};
  PF_EXHAUSTED(to_c.from);
  f.g.c = (void *)to_c.from;
  if (is_vector(p)) PF_TRY(run_vector(c, &f, f.g.c));
  else if (p->type == PF_BFLOAT16 && pf_gemm_has_pairs() && p->g.k > 0) PF_TRY(run_pairs(c, &f, n));
  else PF_TRY(run_floats(c, &f, n));
  return pf_parallel(c, nc, PF_GRAIN, narrow, &to_c);
}

pf_status PF_ISA_NAME(pf_gemm_run_pairs)(pf_ctx *c, const pf_gemm_call *p) {
  pf_gemm_call f = *p;
  const pf_status done = run_tiles(c, p, 1);
  if (done != PF_DECLINE) return done;
  return pf_gemm_has_pairs() ? run_pairs(c, &f, 1) : run_floats(c, &f, 1);
}
