/* gemm_body.h - the blocked product of gemm.c, for the element type of tile.h (T, TILE, VL).
 *
 * Loops: blocks of k (BLOCK_K), blocks of n (BLOCK_N) packed into panels, blocks of m (BLOCK_M),
 * panels, tiles. A packed panel [BLOCK_K][nv * VL] stays in L1 or L2 while every tile of the block
 * of m reads it; rows of a are read where they are, or from a small packed copy when a is
 * transposed.
 */

/* Row pointers of one tile; the last valid row fills up. */
PF_INLINE void TILE(fill_rows)(const T **rows, const T *a, int64_t step, int n, int mr) {
  for (int r = 0; r < mr; r++) rows[r] = a + (r < n ? r : n - 1) * step;
}

/* op(a) stored [k, m]: rows i .. i+n of it, row-major [n][kn]. */
static void TILE(pack_a)(const T *a, int64_t ld, int64_t kn, int64_t n, T *p) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    int64_t k = 0;
    for (; k + 4 <= kn; k += 4) TRANSPOSE_4X4(a + k * ld + i, ld, p + i * kn + k, kn);
    for (; k < kn; k++)
      for (int64_t r = i; r < i + 4; r++) p[r * kn + k] = a[k * ld + r];
  }
  for (; i < n; i++)
    for (int64_t k = 0; k < kn; k++) p[i * kn + k] = a[k * ld + i];
}

typedef struct {
  const pf_gemm *g;
  int64_t k0, kn, j0, jn;
  const T *panels;
  T *a_pack;
  int swapped;                         /* the tile holds c transposed */
} TILE(block);

/* A tile of c^T goes through a small buffer. */
static void TILE(store_swapped)(const TILE(block) *b, const T *buf, int64_t ldb, int64_t i,
                                int rows, int64_t j, int cols) {
  const pf_gemm *g = b->g;
  int add = g->add || b->k0 > 0;
  for (int q = 0; q < cols; q++) {
    T *c = (T *)g->c + (j + q) * g->ldc + i;
    if (add) for (int r = 0; r < rows; r++) c[r] += buf[r * ldb + q];
    else for (int r = 0; r < rows; r++) c[r] = buf[r * ldb + q];
  }
}

/* All tiles of rows [i0, i1), which begin at `a` with a row step of lda, against one packed panel
 * at column j. */
static void TILE(panel_rows)(const TILE(block) *b, const T *a, int64_t lda, int64_t i0, int64_t i1,
                             int64_t j, int nv, const T *panel) {
  const pf_gemm *g = b->g;
  const int mr = tile_rows(nv), w = nv * VL;
  const T *rows[TILE_MAX_ROWS];
  T *c[TILE_MAX_ROWS], buf[TILE_MAX_ROWS * TILE_NV * VL];
  static const int64_t zero = 0;
  TILE(tile) t = {.a = rows,
       .b = panel,
       .a_off = &zero,
       .runs = 1,
       .len = b->kn,
       .a_step = 1,
       .b_step = w,
       .c = c,
       .cols = (int)PF_MIN(w, g->n - j),
       .add = !b->swapped && (g->add || b->k0 > 0)};
  for (int64_t i = i0; i < i1; i += mr, a += mr * lda) {
    t.rows = (int)PF_MIN(mr, i1 - i);
    TILE(fill_rows)(rows, a, lda, t.rows, mr);
    for (int r = 0; r < t.rows; r++)
      c[r] = b->swapped ? buf + r * w : (T *)g->c + (i + r) * g->ldc + j;
    TILE(tile_run)(&t, nv);
    if (b->swapped) TILE(store_swapped)(b, buf, w, i, t.rows, j, t.cols);
  }
}

/* All panels of a block, by stretches of rows: long contiguous reads of b, which the hardware
 * prefetches. */
static void TILE(pack_block)(const TILE(block) *b, T *panels) {
  const pf_gemm *g = b->g;
  const T *src = (const T *)g->b + b->k0 * g->b_row;
  for (int64_t k = 0; k < b->kn; k += PACK_ROWS) {
    int64_t rows = PF_MIN(PACK_ROWS, b->kn - k);
    T *panel = panels;
    for (int64_t j = b->j0; j < b->j0 + b->jn;) {
      int nv = TILE(tile_nv)(g->n, j);
      TILE(pack_rows)(src + k * g->b_row, g->b_row, rows, g->n, j, nv, panel + k * nv * VL);
      panel += b->kn * nv * VL;
      j += nv * VL;
    }
  }
}

static void TILE(run_block)(TILE(block) *b) {
  const pf_gemm *g = b->g;
  T *panel = (T *)b->panels;
  const T *src = (const T *)g->b;
  if (g->b_col == 1) TILE(pack_block)(b, panel);
  else for (int64_t j = b->j0; j < b->j0 + b->jn;) {
    int nv = TILE(tile_nv)(g->n, j);
    TILE(pack_columns)(src + b->k0, g->b_col, b->kn, g->n, j, nv, panel);
    panel += b->kn * nv * VL;
    j += nv * VL;
  }
  for (int64_t i = 0; i < g->m; i += BLOCK_M) {
    int64_t end = PF_MIN(i + BLOCK_M, g->m), lda = g->a_row;
    const T *a = (const T *)g->a + i * lda + b->k0;
    if (g->a_col != 1) {
      TILE(pack_a)((const T *)g->a + b->k0 * g->a_col + i, g->a_col, b->kn, end - i, b->a_pack);
      a = b->a_pack;
      lda = b->kn;
    } else if (b->jn > 2 * TILE_NV * VL && lda * (int64_t)sizeof(T) >= FAR_ROWS) {
      for (int64_t r = i; r < end; r++, a += lda)
        memcpy(b->a_pack + (r - i) * b->kn, a, sizeof(T) * (size_t)b->kn);
      a = b->a_pack;
      lda = b->kn;
    }
    panel = (T *)b->panels;
    for (int64_t j = b->j0; j < b->j0 + b->jn;) {
      int nv = TILE(tile_nv)(g->n, j);
      TILE(panel_rows)(b, a, lda, i, end, j, nv, panel);
      panel += b->kn * nv * VL;
      j += nv * VL;
    }
  }
}

/* ---------------------------------------------------------------- one row: no packing pays */
/* c[j] = sum of a[p] * b[p, j] */
static void TILE(thin)(const pf_gemm *g, const T *a, T *c) {
  static const int64_t zero = 0;
  const int w = TILE_NV * VL;
  const T *b = (const T *)g->b;
  TILE(tile) t = {.a = &a, .a_off = &zero, .runs = 1, .len = g->k, .a_step = 1,
                  .b_step = g->b_row, .c = &c, .rows = 1, .cols = w, .add = g->add};
  int64_t j = 0;
  for (; j + w <= g->n; j += w, c += w) {
    t.b = b + j;
    TILE(tile_thin)(&t);
  }
  for (; j < g->n; j += VL, c += VL) {
    int left = (int)PF_MIN(VL, g->n - j);
    V acc = {0};
    for (int64_t p = 0; p < g->k; p++)
      acc = V_FMA(V_SET(a[p]), V_LOAD_PART(b + p * g->b_row + j, left), acc);
    if (g->add) acc += V_LOAD_PART(c, left);
    V_STORE_PART(c, acc, left);
  }
}

/* c[j] = sum of a[p] * b[j, p]: four sums of vectors, then across */
static void TILE(dots)(const pf_gemm *g, const T *a, T *c) {
  for (int64_t j = 0; j < g->n; j++) {
    const T *b = (const T *)g->b + j * g->b_col;
    V s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    int64_t p = 0;
    for (; p + 4 * VL <= g->k; p += 4 * VL) {
      s0 = V_FMA(V_LOAD(a + p), V_LOAD(b + p), s0);
      s1 = V_FMA(V_LOAD(a + p + VL), V_LOAD(b + p + VL), s1);
      s2 = V_FMA(V_LOAD(a + p + 2 * VL), V_LOAD(b + p + 2 * VL), s2);
      s3 = V_FMA(V_LOAD(a + p + 3 * VL), V_LOAD(b + p + 3 * VL), s3);
    }
    for (; p < g->k; p += VL) {
      int left = (int)PF_MIN(VL, g->k - p);
      s0 = V_FMA(V_LOAD_PART(a + p, left), V_LOAD_PART(b + p, left), s0);
    }
    T sum = V_SUM((s0 + s1) + (s2 + s3));
    c[j] = g->add ? c[j] + sum : sum;
  }
}

static void TILE(multiply)(const pf_gemm *g, int swapped) {
  TILE(block) b = {.g = g, .panels = (const T *)g->work, .swapped = swapped};
  int64_t block_n = BLOCK_N / (TILE_NV * VL) * (TILE_NV * VL);
  b.a_pack = (T *)g->work +
             PF_MIN(g->k, BLOCK_K) *
                 PF_MIN(block_n, (g->n + TILE_NV * VL - 1) / (TILE_NV * VL) * (TILE_NV * VL));
  for (b.j0 = 0; b.j0 < g->n; b.j0 += block_n) {
    b.jn = PF_MIN(block_n, g->n - b.j0);
    for (b.k0 = 0; b.k0 < g->k; b.k0 += BLOCK_K) {
      b.kn = PF_MIN(BLOCK_K, g->k - b.k0);
      TILE(run_block)(&b);
    }
  }
}

/* Transposing b while packing costs n * k moves; when b is the larger side, c^T = op(b)^T op(a)^T
 * moves m * k. */
void TILE_NAME(pf_gemm)(const pf_gemm *g) {
  if (g->m == 0 || g->n == 0) return;
  if (g->k == 0) {
    if (!g->add)
      for (int64_t i = 0; i < g->m; i++)
        memset((T *)g->c + i * g->ldc, 0, sizeof(T) * (size_t)g->n);
    return;
  }
  if (g->n == 1 && g->m > 1 && !g->block && g->b_row == 1 &&
      g->ldc == 1) { /* a column is the row of the transposed product */
    pf_gemm s = {.m = 1,
                 .n = g->m,
                 .k = g->k,
                 .a = g->b,
                 .b = g->a,
                 .a_row = g->k,
                 .a_col = 1,
                 .b_row = g->a_col,
                 .b_col = g->a_row,
                 .c = g->c,
                 .ldc = g->m,
                 .add = g->add,
                 .work = g->work};
    TILE_NAME(pf_gemm)(&s);
    return;
  }
  if (g->m <= THIN_ROWS && !g->block && g->a_col == 1 && (g->b_col == 1 || g->b_row == 1)) {
    for (int64_t i = 0; i < g->m; i++) {
      const T *a = (const T *)g->a + i * g->a_row;
      T *c = (T *)g->c + i * g->ldc;
      if (g->b_col == 1) TILE(thin)(g, a, c);
      else TILE(dots)(g, a, c);
    }
    return;
  }
  if (g->b_col != 1 && swap_sides(g)) {
    pf_gemm s = {.m = g->n,
                 .n = g->m,
                 .k = g->k,
                 .a = g->b,
                 .b = g->a,
                 .a_row = g->b_col,
                 .a_col = g->b_row,
                 .b_row = g->a_col,
                 .b_col = g->a_row,
                 .c = g->c,
                 .ldc = g->ldc,
                 .add = g->add,
                 .work = g->work};
    TILE(multiply)(&s, 1);
    return;
  }
  TILE(multiply)(g, 0);
}
