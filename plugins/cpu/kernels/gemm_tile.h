/* gemm_tile.h - micro-kernels of matrix products, for the element type of tile_begin.h.
 *
 *     c[r, j] (+)= sum over p < k:  a(r, p) * b[p * ldb + j]        r < mr, j < cols
 *
 * A micro-kernel is compiled for every number of vectors and rows there is, so that no row is
 * computed twice; the last vector is masked where the instruction set has masks, so b may lie where
 * it is or in panels padded with zeros. Where half a vector takes half the time (GEMM_HALVES) and
 * holds the last columns, it is VH, half a vector.
 *
 * Invariant: an element of c is one chain of fused multiply-adds in the order of p, whatever the
 * tile: results do not depend on blocking.
 * Threads: pure; writes only c.
 */
typedef struct {
  const T *a;
  int64_t a_row, a_col, k;              /* element (r, p) at a[r * a_row + p * a_col] */
  const T *b;
  int64_t ldb;
  T *c;
  int64_t ldc;
  int cols, add;
} TILE(micro);

PF_INLINE void TILE(micro_store)(const TILE(micro) *t, V acc[][GEMM_NV], VH *halves,
                                 const int nv, const int mr, const int half) {
  const int left = t->cols - (nv - 1) * VL;
  const int add = t->add;
#pragma GCC unroll 16
  for (int r = 0; r < mr; r++) {
    T *c = t->c + r * t->ldc;
#pragma GCC unroll 8
    for (int v = 0; v < nv - 1; v++) {
      V x = acc[r][v];
      if (add) x += V_LOAD(c + v * VL);
      V_STORE(c + v * VL, x);
    }
    c += (nv - 1) * VL;
    if (half) {
      VH x = halves[r];
      if (add) x += VH_LOAD_PART(c, left);
      VH_STORE_PART(c, x, left);
      continue;
    }
    V x = acc[r][nv - 1];
    if (add) x += V_LOAD_PART(c, left);
    V_STORE_PART(c, x, left);
  }
}

PF_INLINE void TILE(micro_body)(const TILE(micro) *t, const int nv, const int mr,
                                const int masked, const int half) {
  V acc[GEMM_ROWS][GEMM_NV];
  VH halves[GEMM_ROWS];
  const T *a[GEMM_ROWS];
  const T *b = t->b;
  const int64_t k = t->k, ldb = t->ldb;
  int64_t a_col = t->a_col;
  const int left = t->cols - (nv - 1) * VL, full = nv - half;
#pragma GCC unroll 16
  for (int r = 0; r < mr; r++) {
    a[r] = t->a + r * t->a_row;
    halves[r] = (VH){0};
#pragma GCC unroll 8
    for (int v = 0; v < full; v++) acc[r][v] = (V){0};
  }
  for (int64_t p = 0, at = 0; p < k; p++, at += a_col, b += ldb) {
    GEMM_HIDE(a_col); /* or the compiler writes the loop twice, once for a_col 1 */
    V bv[GEMM_NV];
    VH bh = {0};
#pragma GCC unroll 8
    for (int v = 0; v < full; v++)
      bv[v] = masked && v == nv - 1 ? V_LOAD_PART(b + v * VL, left) : V_LOAD(b + v * VL);
    if (half) bh = VH_LOAD_PART(b + full * VL, left);
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
      V x = V_SET(a[r][at]);
#pragma GCC unroll 8
      for (int v = 0; v < full; v++) acc[r][v] = V_FMA(x, bv[v], acc[r][v]);
      if (half) halves[r] = VH_FMA(VH_OF(x), bh, halves[r]);
    }
  }
  TILE(micro_store)(t, acc, halves, nv, mr, half);
}

#define GEMM_MICRO(nv, mr) \
  __attribute__((noinline)) static void TILE(micro_##nv##_##mr)(const TILE(micro) *t) { \
    if (GEMM_MASKS == 2 && t->cols == nv * VL) TILE(micro_body)(t, nv, mr, 0, 0); \
    else TILE(micro_body)(t, nv, mr, GEMM_MASKS != 0, 0); \
  }
GEMM_EACH_MICRO(GEMM_MICRO)
#undef GEMM_MICRO

typedef void (*TILE(micro_run))(const TILE(micro) *);
#define GEMM_MICRO(nv, mr) [nv][mr] = TILE(micro_##nv##_##mr),
static const TILE(micro_run) TILE(micros)[GEMM_NV + 1][GEMM_ROWS + 1] = {
  GEMM_EACH_MICRO(GEMM_MICRO)};
#undef GEMM_MICRO

#if GEMM_HALVES
/* The same with half a vector at the end. */
#define GEMM_MICRO(nv, mr) \
  __attribute__((noinline)) static void TILE(micro_half_##nv##_##mr)(const TILE(micro) *t) { \
    TILE(micro_body)(t, nv, mr, 1, 1); \
  }
GEMM_EACH_MICRO(GEMM_MICRO)
#undef GEMM_MICRO
#define GEMM_MICRO(nv, mr) [nv][mr] = TILE(micro_half_##nv##_##mr),
static const TILE(micro_run) TILE(micros_half)[GEMM_NV + 1][GEMM_ROWS + 1] = {
  GEMM_EACH_MICRO(GEMM_MICRO)};
#undef GEMM_MICRO
#endif

PF_INLINE const TILE(micro_run) *TILE(micros_of)(int nv, int cols) {
#if GEMM_HALVES
  if (cols - (nv - 1) * VL <= VL / 2) return TILE(micros_half)[nv];
#endif
  (void)cols;
  return TILE(micros)[nv];
}

/* Rows [0, m) of nv vectors' columns, in tiles of nearly equal height. */
static void TILE(micro_rows)(TILE(micro) *t, int nv, int64_t m) {
  const int most = gemm_rows(nv);
  const TILE(micro_run) *runs = TILE(micros_of)(nv, t->cols);
  for (int64_t tiles = (m + most - 1) / most; tiles > 0; tiles--) {
    int64_t mr = (m + tiles - 1) / tiles;
    runs[mr](t);
    t->a += mr * t->a_row;
    t->c += mr * t->ldc;
    m -= mr;
  }
}
