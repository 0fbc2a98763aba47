/* gemm_body.h - the products of gemm.c for the element type of tile_begin.h (T, TILE, VL).
 *
 *   blocked    blocks of k (BLOCK_K), of n (BLOCK_N) packed into panels, of m (BLOCK_M), panels,
 *              tiles. A panel [BLOCK_K][nv * VL] stays in L1 or L2 while every tile of the block of
 *              m reads it; rows of a are read where they are, or from a small packed copy.
 *   direct     b is small or read by few rows only: no packing, stripes of columns.
 *   dots       both operands contiguous along k (gemm_dots.h).
 *   row        few rows, b as it streams by (gemm_few.h).
 */
#include "base/machine.h"
#include "gemm/gemm_tile.h"

/* A product, perhaps the transposed one: then (i, j) of it is c[j * ldc + i]. */
typedef struct {
  pf_gemm g;
  int swapped, stream;
} TILE(job);

static TILE(job) TILE(job_of)(const pf_gemm *g) {
  TILE(job) job = {.g = *g, .swapped = (g->how & PF_GEMM_SWAP) != 0};
  if (job.swapped) {
    pf_gemm *s = &job.g;
    s->m = g->n, s->n = g->m;
    s->a = g->b, s->a_row = g->b_col, s->a_col = g->b_row;
    s->b = g->a, s->b_row = g->a_col, s->b_col = g->a_row;
  }
  return job;
}

/* Bias and activation of rows [i0, i1), columns [j0, j1) of the job. */
static void TILE(finish)(const TILE(job) * job, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  const pf_gemm *g = &job->g;
  if (!g->epilogue || i0 >= i1 || j0 >= j1) return;
  pf_epilogue e = *g->epilogue;
  int64_t r0 = job->swapped ? j0 : i0, r1 = job->swapped ? j1 : i1;
  int64_t c0 = job->swapped ? i0 : j0, c1 = job->swapped ? i1 : j1;
  if (e.row_bias) e.row_bias = (const T *)e.row_bias + r0;
  if (e.col_bias) e.col_bias = (const T *)e.col_bias + c0;
  if (e.side) e.side = (const T *)e.side + r0 * e.ld_side + c0;
  TILE(pf_epilogue)(&e, (T *)g->c + r0 * g->ldc + c0, g->ldc, r1 - r0, c1 - c0);
}

/* c[q * ldc + r] = x[r * ldx + q], r < rows: vectors of shuffles where c's rows are no longer. */
PF_INLINE void TILE(interleave)(const T *restrict x, int64_t ldx, T *restrict c, int64_t ldc,
                                int64_t cols, const int rows) {
  if (ldc == rows) {
    for (int64_t q = 0; q < cols; q++)
#pragma GCC unroll 3
      for (int r = 0; r < rows; r++) c[q * rows + r] = x[r * ldx + q];
    return;
  }
  for (int64_t q = 0; q < cols; q++)
#pragma GCC unroll 3
    for (int r = 0; r < rows; r++) c[q * ldc + r] = x[r * ldx + q];
}
/* Some rows of c^T go through a small buffer. */
static void TILE(store_swapped)(const pf_gemm *g, const T *buf, int64_t ldb, int64_t i,
                                int64_t rows, int64_t j, int64_t cols, int add) {
  T *c = (T *)g->c + j * g->ldc + i;
  if (add) {
    T turned[8 * 4];
    int64_t r = 0;
    for (; r + 8 <= rows; r += 8)
      for (int64_t q = 0; q < cols; q += 4) { /* buf's rows are whole vectors */
        const int64_t four = PF_MIN(cols - q, 4);
        TRANSPOSE_8X4(buf + r * ldb + q, ldb, turned, 8, 4);
        for (int64_t s = 0; s < four; s++)
          for (int l = 0; l < 8; l++) c[(q + s) * g->ldc + r + l] += turned[s * 8 + l];
      }
    for (int64_t q = 0; r < rows && q < cols; q++)
      for (int64_t s = r; s < rows; s++) c[q * g->ldc + s] += buf[s * ldb + q];
    return;
  }
  const int64_t whole = rows / 8 * 8;
  int64_t q = 0; /* down the rows first: whole lines of c */
  for (; q + 4 <= cols; q += 4)
    for (int64_t r = 0; r < whole; r += 8)
      TRANSPOSE_8X4(buf + r * ldb + q, ldb, c + q * g->ldc + r, g->ldc, 4);
  for (int64_t r = 0; r < whole && q < cols; r += 8) /* buf's rows are whole vectors */
    TRANSPOSE_8X4(buf + r * ldb + q, ldb, c + q * g->ldc + r, g->ldc, (int)(cols - q));
  int64_t r = whole;
  for (; r + 4 <= rows; r += 4) {
    for (q = 0; q + 4 <= cols; q += 4)
      TRANSPOSE_4X4(buf + r * ldb + q, ldb, c + q * g->ldc + r, g->ldc);
    for (; q < cols; q++)
      for (int64_t s = r; s < r + 4; s++) c[q * g->ldc + s] = buf[s * ldb + q];
  }
  switch (rows - r) {
    case 3: TILE(interleave)(buf + r * ldb, ldb, c + r, g->ldc, cols, 3); break;
    case 2: TILE(interleave)(buf + r * ldb, ldb, c + r, g->ldc, cols, 2); break;
    case 1: TILE(interleave)(buf + r * ldb, ldb, c + r, g->ldc, cols, 1); break;
  }
}

/* Rows [i, i + m) of the stripe of columns at j, nv vectors wide: t has a, b and k. */
static void TILE(stripe)(const TILE(job) * job, TILE(micro) * t, int nv, int64_t i, int64_t m,
                         int64_t j) {
  const pf_gemm *g = &job->g;
  const int64_t w = nv * VL;
  t->cols = (int)PF_MIN(w, g->n - j);
  if (!job->swapped || (g->m == 1 && g->ldc == 1)) { /* the transpose of a row is that row */
    t->c = (T *)g->c + i * g->ldc + j;
    t->ldc = g->ldc;
    TILE(micro_rows)(t, nv, m);
    return;
  }
  T buf[SWAP_ROWS * GEMM_NV * VL];
  const int add = t->add;
  const int64_t end = i + m;
#if GEMM_TURNED
  if (!add && nv <= 3 && t->cols - w + VL > VHL)
    for (t->ldc = g->ldc; i + GEMM_TURNED <= end; i += GEMM_TURNED) {
      t->c = (T *)g->c + j * g->ldc + i;
      TILE(turned)[nv](t);
      t->a += GEMM_TURNED * t->a_row;
    }
#endif
  t->add = 0;
  t->ldc = w;
  for (; i < end; i += SWAP_ROWS) {
    int64_t rows = PF_MIN(SWAP_ROWS, end - i);
    t->c = buf;
    TILE(micro_rows)(t, nv, rows);
    TILE(store_swapped)(g, buf, w, i, rows, j, t->cols, add);
  }
}

/* Vectors of the stripe or panel that begins at column j: stripes of nearly equal width. */
PF_INLINE int TILE(stripe_nv)(const TILE(job) * job, int64_t j) {
  const int64_t n = job->g.n;
  const int wide = job->g.m == 1 || (job->g.m <= GEMM_WIDE_MOST && !job->swapped);
  const int most = wide ? GEMM_WIDE : GEMM_NV - (GEMM_TURNED && job->swapped);
  int64_t left = (n - j + VL - 1) / VL, stripes = (left + most - 1) / most;
  return (int)((left + stripes - 1) / stripes);
}

/* ------------------------------------------------------------ direct */
/* Stripe by stripe; of an outer product, which is bound by its stores, a few rows at a time. */
static void TILE(stripes)(const TILE(job) * job) {
  const pf_gemm *g = &job->g;
  const int64_t most = g->m > GEMM_ROWS ? BLOCK_K : g->k; /* what many tiles read stays near */
  const int64_t step = g->k <= OUTER ? SWAP_ROWS : g->m;
  const int far = g->n * g->k * (int64_t)sizeof(T) > BEYOND_L1;
  for (int64_t k0 = 0; k0 < g->k; k0 += most)
    for (int64_t i = 0; i < g->m; i += step)
      for (int64_t j = 0; j < g->n;) {
        int nv = TILE(stripe_nv)(job, j);
        TILE(micro)
        t = {.a = (const T *)g->a + i * g->a_row + k0 * g->a_col,
             .a_row = g->a_row,
             .a_col = g->a_col,
             .k = PF_MIN(most, g->k - k0),
             .b = (const T *)g->b + k0 * g->b_row + j,
             .ldb = g->b_row,
             .add = g->add || k0 > 0,
             .stream = job->stream && g->k <= most && j + nv * VL <= g->n};
        if (far) t.next = (const char *)t.b; /* there is no other panel */
        TILE(stripe)(job, &t, nv, i, PF_MIN(step, g->m - i), j);
        j += nv * VL;
      }
}

/* Of a transposed a: columns behind the last whole vector that are faster as rows of c^T, where
 * half vectors save nothing. */
static int64_t TILE(rest)(const TILE(job) * job) {
  const pf_gemm *g = &job->g;
  const int64_t rest = g->n % VL;
  if (!GEMM_HALVES || job->swapped || g->a_row != 1 || g->a_col == 1 || rest > VL / 4) return 0;
  return g->n > VL && g->m >= 4 * VL && g->k >= REST_K && pf_has_whole_vectors_only() ? rest : 0;
}

static void TILE(direct)(const TILE(job) * job) {
  const int64_t rest = TILE(rest)(job);
  TILE(job) part = *job;
  part.g.n -= rest;
  TILE(stripes)(&part);
  if (rest) {
    pf_gemm g = job->g;
    g.b = (const T *)g.b + part.g.n, g.c = (T *)g.c + part.g.n;
    g.n = rest, g.how = PF_GEMM_SWAP | PF_GEMM_DIRECT;
    part = TILE(job_of)(&g);
    TILE(stripes)(&part);
  }
  TILE(finish)(job, 0, job->g.m, 0, job->g.n);
}

/* ------------------------------------------------------------ blocked */
/* op(a) stored [k, m]: rows i .. i+n of it, row-major [n][kn]. Lines of a are turned whole, those
 * ahead fetched: its rows may share their places in the caches. */
static void TILE(pack_a)(const T *a, int64_t ld, int64_t kn, int64_t n, T *p) {
  enum { LANES = PF_LINE / sizeof(T) };
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const T *from = a + i, *ahead = from + FETCH_TURNED * ld;
    T *to = p + i * kn;
    int64_t k = 0;
    for (; k + 8 <= kn; k += 8, ahead += 8 * ld)
      for (int64_t r = 0; r < LANES; r += 4) {
        for (int64_t f = r * 8 / LANES; f < (r + 4) * 8 / LANES; f++)
          GEMM_FETCH(ahead + f * ld, 0, 3);
        TRANSPOSE_8X4(from + k * ld + r, ld, to + r * kn + k, kn, 4);
      }
    for (; k < kn; k++)
      for (int64_t r = 0; r < LANES; r++) to[r * kn + k] = from[k * ld + r];
  }
  for (; i + 4 <= n; i += 4) {
    int64_t k = 0;
    for (; k + 8 <= kn; k += 8) TRANSPOSE_8X4(a + k * ld + i, ld, p + i * kn + k, kn, 4);
    for (; k + 4 <= kn; k += 4) TRANSPOSE_4X4(a + k * ld + i, ld, p + i * kn + k, kn);
    for (; k < kn; k++)
      for (int64_t r = i; r < i + 4; r++) p[r * kn + k] = a[k * ld + r];
  }
  for (; i < n; i++)
    for (int64_t k = 0; k < kn; k++) p[i * kn + k] = a[k * ld + i];
}

/* The panel at column j has its row k at panels + (j - j0) * depth + (k - first) * width. */
typedef struct {
  const TILE(job) * job;
  int64_t k0, kn, j0, jn, depth, first;
  T *panels, *a_pack;
} TILE(block);

PF_INLINE T *TILE(panel_at)(const TILE(block) * b, int64_t j, int nv) {
  return b->panels + (j - b->j0) * b->depth + (b->k0 - b->first) * nv * VL;
}

/* All panels of a block, by stretches of rows: long contiguous reads of b, which the hardware
 * prefetches. */
static void TILE(pack_block)(const TILE(block) * b) {
  const pf_gemm *g = &b->job->g;
  const T *src = (const T *)g->b;
  if (g->b_col != 1) {
    for (int64_t j = b->j0; j < b->j0 + b->jn; j += TILE_NV * VL) {
      int nv = TILE(tile_nv)(g->n, j);
      TILE(pack_columns)(src + b->k0, g->b_col, b->kn, g->n, j, nv, TILE(panel_at)(b, j, nv));
    }
    return;
  }
  src += b->k0 * g->b_row;
  for (int64_t k = 0; k < b->kn; k += PACK_ROWS) {
    int64_t rows = PF_MIN(PACK_ROWS, b->kn - k);
    for (int64_t j = b->j0; j < b->j0 + b->jn; j += TILE_NV * VL) {
      int nv = TILE(tile_nv)(g->n, j);
      TILE(pack_rows)(src + k * g->b_row, g->b_row, rows, g->n, j, nv,
                      TILE(panel_at)(b, j, nv) + k * nv * VL);
    }
  }
}

/* Rows of a, `row` bytes apart, that are read for so many columns: copied where they share sets,
 * and pages where that is done for many panels. */
PF_INLINE int TILE(copies_a)(int64_t row, int64_t columns) {
  const int64_t panels = columns / (TILE_NV * VL);
  return row >= FAR_ROWS && panels > 2 && (row % (PF_PAGE / 8) == 0 || panels > MANY_PANELS);
}

/* Tiles of m rows of the panel at column j fetch the one behind it. */
static void TILE(fetch_next)(const TILE(block) * b, int64_t j, int64_t m, TILE(micro) * t) {
  const int nv = TILE(tile_nv)(b->job->g.n, j), most = gemm_rows(nv);
  t->next = (const char *)t->b; /* this one again behind the last */
  j += nv * VL;
  if (j >= b->j0 + b->jn) return;
  t->next = (const char *)TILE(panel_at)(b, j, TILE(tile_nv)(b->job->g.n, j));
  t->next_step = nv * VL * (int64_t)sizeof(T) / ((m + most - 1) / most);
  t->next_part = t->next_step * b->kn;
}

/* Rows [i, i + m) against every panel of the block. */
static void TILE(block_rows)(const TILE(block) * b, int64_t i, int64_t m) {
  const pf_gemm *g = &b->job->g;
  const T *a = (const T *)g->a + i * g->a_row + b->k0 * g->a_col;
  int64_t lda = g->a_row;
  if (g->a_col != 1) {
    TILE(pack_a)((const T *)g->a + b->k0 * g->a_col + i, g->a_col, b->kn, m, b->a_pack);
    a = b->a_pack;
    lda = b->kn;
  } else if (TILE(copies_a)(lda * (int64_t)sizeof(T), b->jn)) {
    for (int64_t r = 0; r < m; r++, a += lda)
      memcpy(b->a_pack + r * b->kn, a, sizeof(T) * (size_t)b->kn);
    a = b->a_pack;
    lda = b->kn;
  }
  for (int64_t j = b->j0; j < b->j0 + b->jn; j += TILE_NV * VL) {
    int nv = TILE(tile_nv)(g->n, j);
    TILE(micro)
    t = {.a = a,
         .a_row = lda,
         .a_col = 1,
         .k = b->kn,
         .b = TILE(panel_at)(b, j, nv),
         .ldb = nv * VL,
         .add = g->add || b->k0 > 0,
         .stream = b->job->stream && b->kn == g->k && j + nv * VL <= g->n};
    TILE(fetch_next)(b, j, m, &t);
    TILE(stripe)(b->job, &t, nv, i, m, j);
  }
  if (b->k0 + b->kn == g->k) TILE(finish)(b->job, i, i + m, b->j0, b->j0 + b->jn);
}

/* Columns of one block of n: whole panels. */
PF_INLINE int64_t TILE(block_n)(void) { return BLOCK_N / (TILE_NV * VL) * (TILE_NV * VL); }

/* The block of `most` columns or fewer at j0 and of k at k0. */
static void TILE(set_block)(TILE(block) * b, int64_t j0, int64_t most, int64_t k0, T *packed,
                            T *own) {
  const pf_gemm *g = &b->job->g;
  b->j0 = j0, b->jn = PF_MIN(most, g->n - j0);
  b->k0 = k0, b->kn = PF_MIN(BLOCK_K, g->k - k0);
  b->panels = packed ? packed + j0 * g->k : own;
  b->depth = packed ? g->k : b->kn;
  b->first = packed ? 0 : k0;
}

static void TILE(blocked)(const TILE(job) * job) {
  const pf_gemm *g = &job->g;
  TILE(block) b = {.job = job};
  T *work = g->work, *packed = (T *)g->panels;
  const int64_t wide = TILE_NV * VL, block_n = packed ? g->n : TILE(block_n)();
  const int64_t blocks = (g->m + BLOCK_M - 1) / BLOCK_M; /* of nearly equal height */
  const int64_t rows = ((g->m + blocks - 1) / blocks + ROWS_UNIT - 1) / ROWS_UNIT * ROWS_UNIT;
  b.a_pack = work;
  if (!packed) b.a_pack += PF_MIN(g->k, BLOCK_K) * PF_MIN(block_n, (g->n + wide - 1) / wide * wide);
  for (int64_t j0 = 0; j0 < g->n; j0 += block_n)
    for (int64_t k0 = 0; k0 < g->k; k0 += BLOCK_K) {
      TILE(set_block)(&b, j0, block_n, k0, packed, work);
      if (!packed) TILE(pack_block)(&b);
      for (int64_t i = 0; i < g->m; i += rows) TILE(block_rows)(&b, i, PF_MIN(rows, g->m - i));
    }
}

/* Blocks [lo, hi) of op(b), for `blocked` to read. */
void TILE_NAME(pf_gemm_pack)(const pf_gemm *g, void *panels, int64_t lo, int64_t hi) {
  const TILE(job) job = TILE(job_of)(g);
  TILE(block) b = {.job = &job};
  const int64_t deep = (g->k + BLOCK_K - 1) / BLOCK_K, block_n = TILE(block_n)();
  for (int64_t i = lo; i < hi; i++) {
    TILE(set_block)(&b, i / deep * block_n, block_n, i % deep * BLOCK_K, panels, NULL);
    TILE(pack_block)(&b);
  }
}

int64_t TILE_NAME(pf_gemm_pack_blocks)(const pf_gemm *g) {
  const int64_t block_n = TILE(block_n)(), n = g->how & PF_GEMM_SWAP ? g->m : g->n;
  return (n + block_n - 1) / block_n * ((g->k + BLOCK_K - 1) / BLOCK_K);
}

#include "gemm/gemm_dots.h"
#include "gemm/gemm_few.h"

/* ------------------------------------------------------------ all */
static void TILE(run)(const TILE(job) * job, int how) {
  const pf_gemm *g = &job->g;
  if (g->k == 0) {
    if (!g->add)
      for (int64_t i = 0, m = job->swapped ? g->n : g->m; i < m; i++)
        memset((T *)g->c + i * g->ldc, 0, sizeof(T) * (size_t)(job->swapped ? g->m : g->n));
    TILE(finish)(job, 0, g->m, 0, g->n);
    return;
  }
  switch (how & ~PF_GEMM_SWAP) {
    case PF_GEMM_DIRECT: TILE(direct)(job); break;
    case PF_GEMM_DOT: TILE(dot)(job); break;
    case PF_GEMM_DOTS: TILE(dots)(job, g->b, g->b_col); break;
    case PF_GEMM_DOTS_PACKED: TILE(dots_packed)(job); break;
    case PF_GEMM_ROW: TILE(row)(job); break;
    default: TILE(blocked)(job); break;
  }
}

void TILE_NAME(pf_gemm)(const pf_gemm *g) {
  if (g->m == 0 || g->n == 0) return;
  TILE(job) job = TILE(job_of)(g);
  TILE(run)(&job, g->how);
}

void TILE_NAME(pf_gemm_many)(const pf_gemm *g, const int64_t *a_at, const int64_t *b_at,
                             int64_t c_step, int64_t lo, int64_t hi) {
  if (g->m == 0 || g->n == 0) return;
#if GEMM_TINY
  const tiny_batch tiny = {.a = g->a,
                           .b = g->b,
                           .c = g->c,
                           .a_at = a_at,
                           .b_at = b_at,
                           .c_step = c_step,
                           .lo = lo,
                           .hi = hi};
  if (TILE(tiny)(g, &tiny)) return;
#endif
  TILE(job) job = TILE(job_of)(g);
  if (job.swapped) {
    const int64_t *t = a_at;
    a_at = b_at;
    b_at = t;
  }
  const T *a = job.g.a, *b = job.g.b;
  const uintptr_t line = VL * sizeof(T);
  job.stream = g->stream && !job.swapped && (uint64_t)g->ldc * sizeof(T) % line == 0 &&
               (uintptr_t)g->c % line == 0 && (uint64_t)c_step * sizeof(T) % line == 0;
  for (int64_t i = lo; i < hi; i++) {
    job.g.a = a + a_at[i];
    job.g.b = b + b_at[i];
    job.g.c = (T *)g->c + i * c_step;
    TILE(run)(&job, g->how);
  }
  if (job.stream) V_FENCE();
}
