/* gemm_few.h - few rows times b, for the element type of tile_begin.h: sums of rows of b, which
 * stream by in their order in memory, some at a time. Part of gemm_body.h.
 *
 * Invariant: an element of c is one chain of fused multiply-adds in the order of k.
 * Threads: pure; writes only c.
 *
 * Fast path: vector_left, few_m2, few_m3 (docs/paths.md).
 */
typedef struct {
  const T *a, *b;
  T *c;
  int64_t a_row, a_col, ldb, ldc;
} TILE(few);

/* c[r][j] += sum over q < deep of a[r][q] b[q][j], in that order, of columns [j, end), whole
 * vectors */
PF_INLINE void TILE(few_body)(const TILE(few) * t, int64_t j, int64_t end, const int mr,
                              const int deep) {
  V x[ROW_MOST][ROW_LONG];
#pragma GCC unroll 4
  for (int r = 0; r < mr; r++)
#pragma GCC unroll 16
    for (int q = 0; q < deep; q++) x[r][q] = V_SET(t->a[r * t->a_row + q * t->a_col]);
  const T *b = t->b;
  T *c = t->c;
  const int64_t ldb = t->ldb, ldc = t->ldc;
  for (; j < end; j += VL) {
    V s[ROW_MOST];
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++) s[r] = V_LOAD(c + r * ldc + j);
#pragma GCC unroll 16
    for (int q = 0; q < deep; q++) {
      V y = V_LOAD(b + q * ldb + j);
      if (mr > 1) GEMM_HOLD(y);
#pragma GCC unroll 4
      for (int r = 0; r < mr; r++) s[r] = V_FMA(x[r][q], y, s[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++) V_STORE(c + r * ldc + j, s[r]);
  }
}
/* The same of `left` columns, at most a vector. */
__attribute__((noinline)) static void TILE(few_part)(const TILE(few) * t, int64_t j, int left,
                                                     int64_t mr, int64_t deep) {
  for (int64_t r = 0; r < mr; r++) {
    T *c = t->c + r * t->ldc + j;
    const T *a = t->a + r * t->a_row, *b = t->b + j;
    V s = V_LOAD_PART(c, left);
    for (int64_t q = 0; q < deep; q++)
      s = V_FMA(V_SET(a[q * t->a_col]), V_LOAD_PART(b + q * t->ldb, left), s);
    V_STORE_PART(c, s, left);
  }
}
#define FEW(mr, deep) \
  __attribute__((noinline)) static void TILE(few_##mr##_##deep)(const TILE(few) *t, int64_t j, \
                                                                int64_t end) { \
    TILE(few_body)(t, j, end, mr, deep); \
  }
FEW(1, 4)
FEW(2, 4)
FEW(3, 4)
FEW(1, 8)
#if GEMM_MANY
FEW(2, 8)
FEW(3, 8)
#define FEW_8(mr) TILE(few_##mr##_8)
#else
#define FEW_8(mr) NULL
#endif
#undef FEW
static void (*const TILE(few_runs)[ROW_MOST + 1][2])(const TILE(few) *, int64_t, int64_t) = {
  {0}, {TILE(few_1_4), TILE(few_1_8)}, {TILE(few_2_4), FEW_8(2)}, {TILE(few_3_4), FEW_8(3)}};
#undef FEW_8

/* n columns of `deep` rows of b, read from whole lines where its rows begin alike. */
__attribute__((noinline)) static void TILE(few_rows)(const TILE(few) * t, int64_t n, int64_t mr,
                                                     int64_t deep) {
  int64_t j = 0;
  if (deep >= ROW_STEP) {
    const uintptr_t line = VL * sizeof(T), ahead = (uintptr_t)t->b % line;
    if (ahead % sizeof(T) == 0 && (uint64_t)t->ldb * sizeof(T) % line == 0 && ahead)
      j = PF_MIN(n, (int64_t)((line - ahead) / sizeof(T)));
    if (j) TILE(few_part)(t, 0, (int)j, mr, deep);
    const int64_t end = j + (n - j) / VL * VL;
    TILE(few_runs)[mr][deep == ROW_LONG](t, j, end);
    j = end;
  }
  for (; j < n; j += VL) TILE(few_part)(t, j, (int)PF_MIN(VL, n - j), mr, deep);
}

/* m rows, up to ROW_MOST together. */
static void TILE(few_groups)(const TILE(few) * t, int64_t m, int64_t n, int64_t deep) {
  TILE(few) u = *t;
  for (int64_t groups = (m + ROW_MOST - 1) / ROW_MOST, i = 0; i < m; groups--) {
    const int64_t mr = (m - i + groups - 1) / groups;
    TILE(few_rows)(&u, n, mr, deep);
    i += mr;
    u.a += mr * t->a_row;
    u.c += mr * t->ldc;
  }
}

static void TILE(row)(const TILE(job) * job) {
  const pf_gemm *g = &job->g;
  const int64_t row = g->b_row * (int64_t)sizeof(T);
  const int apart = g->n < g->b_row || many_rows(g->k * row, row, SETS_BYTES);
  const int many = g->m == 1 ? apart : GEMM_MANY;
  for (int64_t j = 0; j < g->n; j += ROW_BLOCK) {
    TILE(few)
    t = {.a = g->a,
         .b = (const T *)g->b + j,
         .c = (T *)g->c + j,
         .a_row = g->a_row,
         .a_col = g->a_col,
         .ldb = g->b_row,
         .ldc = g->ldc};
    const int64_t n = PF_MIN(ROW_BLOCK, g->n - j);
    if (!g->add)
      for (int64_t i = 0; i < g->m; i++) memset(t.c + i * g->ldc, 0, sizeof(T) * (size_t)n);
    for (int64_t left = g->k, deep; left > 0; left -= deep) {
      deep = many && left >= ROW_LONG ? ROW_LONG : PF_MIN(left, ROW_STEP);
      if (g->m == 1) TILE(few_rows)(&t, n, 1, deep);
      else TILE(few_groups)(&t, g->m, n, deep);
      t.a += deep * g->a_col;
      t.b += deep * g->b_row;
    }
  }
  TILE(finish)(job, 0, g->m, 0, g->n);
}
