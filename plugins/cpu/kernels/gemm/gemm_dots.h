/* gemm_dots.h - products whose operands are both contiguous along k, for the element type of
 * tile_begin.h: tiles of dot products, summed across their vectors at the end. Part of gemm_body.h.
 *
 * Invariant: an element of c has the same order of sums wherever rows and columns are cut.
 * Threads: pure; writes only c and `work`.
 *
 * Fast path: vector_left_tb, skinny_m8_tb, few_columns_tb (docs/paths.md).
 */
/* out[r][q] = the sum across acc[r][q]; the order of V_SUM_4 for all: equal bits wherever rows and
 * columns are cut */
PF_INLINE void TILE(dots_sums)(V acc[][DOTS_LONG], T *out, int64_t ldo, const int mr,
                               const int nr) {
  T few[DOTS];
#pragma GCC unroll 8
  for (int r = 0; r < mr; r++) {
    if (nr >= DOTS) V_SUM_4(acc[r][0], acc[r][1], acc[r][2], acc[r][3], out + r * ldo);
    if (nr == DOTS_LONG) V_SUM_4(acc[r][4], acc[r][5], acc[r][6], acc[r][7], out + DOTS);
    if (nr >= DOTS) continue;
    V_SUM_4(acc[r][0], nr > 1 ? acc[r][1] : (V){0}, nr > 2 ? acc[r][2] : (V){0}, (V){0}, few);
    for (int q = 0; q < nr; q++) out[r * ldo + q] = few[q];
  }
  if (nr != DOTS_MOST) return;
#pragma GCC unroll 8
  for (int r = 0; r < mr; r += DOTS) { /* the fifth of four rows */
    V_SUM_4(acc[r][4], r + 1 < mr ? acc[r + 1][4] : (V){0}, r + 2 < mr ? acc[r + 2][4] : (V){0},
            r + 3 < mr ? acc[r + 3][4] : (V){0}, few);
    for (int i = 0; i < DOTS && r + i < mr; i++) out[(r + i) * ldo + 4] = few[i];
  }
}

/* out[r][q] = sum over p of a[r][p] b[q][p], mr x nr of them */
PF_INLINE void TILE(dots_body)(const T *a, int64_t lda, const T *b, int64_t ldb, int64_t k, T *out,
                               int64_t ldo, const int mr, const int nr) {
  V acc[DOTS_MOST][DOTS_LONG];
#pragma GCC unroll 8
  for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
    for (int q = 0; q < nr; q++) acc[r][q] = (V){0};
  int64_t p = 0;
  for (; mr == 1 && nr == DOTS && p + 2 * VL <= k; p += 2 * VL) { /* two lines of a row at a time */
    V x = V_LOAD(a + p), y = V_LOAD(a + p + VL);
    GEMM_HOLD(x);
    GEMM_HOLD(y);
#pragma GCC unroll 8
    for (int q = 0; q < nr; q++) {
      acc[0][q] = V_FMA(x, V_LOAD(b + q * ldb + p), acc[0][q]);
      acc[0][q] = V_FMA(y, V_LOAD(b + q * ldb + p + VL), acc[0][q]);
    }
  }
  for (; p + VL <= k; p += VL) {
    V bv[DOTS_LONG];
#pragma GCC unroll 8
    for (int q = 0; q < nr; q++) {
      bv[q] = V_LOAD(b + q * ldb + p);
      if (mr > 1) GEMM_HOLD(bv[q]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++) {
      V x = V_LOAD(a + r * lda + p);
      GEMM_HOLD(x);
#pragma GCC unroll 8
      for (int q = 0; q < nr; q++) acc[r][q] = V_FMA(x, bv[q], acc[r][q]);
    }
  }
  if (p < k) {
    const int left = (int)(k - p);
    V bv[DOTS_LONG];
#pragma GCC unroll 8
    for (int q = 0; q < nr; q++) bv[q] = V_LOAD_PART(b + q * ldb + p, left);
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++) {
      V x = V_LOAD_PART(a + r * lda + p, left);
#pragma GCC unroll 8
      for (int q = 0; q < nr; q++) acc[r][q] = V_FMA(x, bv[q], acc[r][q]);
    }
  }
  TILE(dots_sums)(acc, out, ldo, mr, nr);
}

#define DOTS_TILE(mr, nr) \
  __attribute__((noinline)) static void TILE(dots_##mr##_##nr)( \
      const T *a, int64_t lda, const T *b, int64_t ldb, int64_t k, T *out, int64_t ldo) { \
    TILE(dots_body)(a, lda, b, ldb, k, out, ldo, mr, nr); \
  }
#define DOTS_TILES(nr) DOTS_TILE(1, nr) DOTS_TILE(2, nr) DOTS_TILE(3, nr) DOTS_TILE(4, nr)
DOTS_TILES(1)
DOTS_TILES(2)
DOTS_TILES(3)
DOTS_TILES(4)
DOTS_TILE(1, 8)
#if GEMM_FIVE
DOTS_TILE(4, 5)
DOTS_TILE(5, 5)
#endif
#undef DOTS_TILE
#undef DOTS_TILES
typedef void (*TILE(dots_run))(const T *, int64_t, const T *, int64_t, int64_t, T *, int64_t);
#define DOTS_TILES(nr) \
  {0, TILE(dots_1_##nr), TILE(dots_2_##nr), TILE(dots_3_##nr), TILE(dots_4_##nr)}
static const TILE(dots_run)
    TILE(dots_runs)[DOTS_MOST + 1][DOTS_MOST + 1] = {{0},
                                                     DOTS_TILES(1),
                                                     DOTS_TILES(2),
                                                     DOTS_TILES(3),
                                                     DOTS_TILES(4),
#if GEMM_FIVE
                                                     {[4] = TILE(dots_4_5), TILE(dots_5_5)}
#endif
};
#undef DOTS_TILES

/* Every row times the columns [j, j + nr). */
static void TILE(dots_columns)(const TILE(job) * job, const T *bt, int64_t ldb, int64_t j,
                               int64_t nr) {
  const pf_gemm *g = &job->g;
  const T *a = g->a;
  T out[DOTS_MOST * DOTS_MOST];
  const int64_t most = nr == DOTS_MOST ? DOTS_MOST : DOTS_ROWS;
  const int64_t ci = job->swapped ? 1 : g->ldc, cj = job->swapped ? g->ldc : 1;
  T *c = (T *)g->c + j * cj;
  for (int64_t i = 0, tall = (g->m + most - 1) / most; i < g->m; tall--) {
    const int64_t mr = (g->m - i + tall - 1) / tall;
    const TILE(dots_run) run = TILE(dots_runs)[nr][mr];
    const T *row = a + i * g->a_row;
    if (cj == 1 && !g->add) {
      run(row, g->a_row, bt + j * ldb, ldb, g->k, c + i * ci, ci);
    } else {
      run(row, g->a_row, bt + j * ldb, ldb, g->k, out, DOTS_MOST);
      for (int64_t r = 0; r < mr; r++)
        for (int64_t q = 0; q < nr; q++) {
          T *to = c + (i + r) * ci + q * cj;
          *to = g->add ? *to + out[r * DOTS_MOST + q] : out[r * DOTS_MOST + q];
        }
    }
    i += mr;
  }
}

static void TILE(dots)(const TILE(job) * job, const T *bt, int64_t ldb) {
  const pf_gemm *g = &job->g;
  T out[DOTS_LONG];
  const int64_t cj = job->swapped ? g->ldc : 1;
  int64_t j = 0;
  const int64_t row = ldb * (int64_t)sizeof(T);
  const int many = g->m == 1 && many_rows(g->n * row, row, MEMORY_BYTES);
  const int plain = g->m == 1 && !g->add && cj == 1;
  for (; many && j + DOTS_LONG <= g->n; j += DOTS_LONG) {
    TILE(dots_1_8)(g->a, 0, bt + j * ldb, ldb, g->k, plain ? (T *)g->c + j : out, 0);
    for (int64_t q = 0; !plain && q < DOTS_LONG; q++) {
      T *c = (T *)g->c + (j + q) * cj;
      *c = g->add ? *c + out[q] : out[q];
    }
  }
  for (; plain && j + DOTS <= g->n; j += DOTS)
    TILE(dots_1_4)(g->a, 0, bt + j * ldb, ldb, g->k, (T *)g->c + j, 0);
  const int64_t most = GEMM_FIVE && by_five(g->m, g->n, g->k, VL) ? DOTS_MOST : DOTS;
  for (int64_t wide = (g->n - j + most - 1) / most; j < g->n; wide--) {
    const int64_t nr = (g->n - j + wide - 1) / wide;
    TILE(dots_columns)(job, bt, ldb, j, nr);
    j += nr;
  }
  TILE(finish)(job, 0, g->m, 0, g->n);
}

/* One dot product: four sums at a time, as a multiplication is ready after four of them. */
static void TILE(dot)(const TILE(job) * job) {
  const pf_gemm *g = &job->g;
  const T *a = g->a, *b = g->b;
  V acc[4] = {{0}};
  int64_t p = 0;
  for (; p + 4 * VL <= g->k; p += 4 * VL)
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++)
      acc[q] = V_FMA(V_LOAD(a + p + q * VL), V_LOAD(b + p + q * VL), acc[q]);
  for (; p + VL <= g->k; p += VL) acc[0] = V_FMA(V_LOAD(a + p), V_LOAD(b + p), acc[0]);
  const int left = (int)(g->k - p);
  if (left) acc[1] = V_FMA(V_LOAD_PART(a + p, left), V_LOAD_PART(b + p, left), acc[1]);
  T sums[DOTS], *c = g->c;
  V_SUM_4(acc[0], acc[1], acc[2], acc[3], sums);
  const T sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  *c = g->add ? *c + sum : sum;
  TILE(finish)(job, 0, 1, 0, 1);
}

/* op(b) [k, n], n small, transposed into work; then dots. */
static void TILE(dots_packed)(const TILE(job) * job) {
  const pf_gemm *g = &job->g;
  T *bt = g->work;
  const T *b = g->b;
  TILE(pack_a)(b, g->b_row, g->k, g->n, bt);
  TILE(dots)(job, bt, g->k);
}
