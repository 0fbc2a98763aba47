/* conv_tile.h - the micro-kernel of convolutions, for the element type of tile_begin.h.
 *
 * A tile is `rows` pixels of one output row times the columns of one panel (nv vectors of output
 * channels), held in registers while the sum over the filter runs:
 *
 *     c[r * c_px + j] (+)= sum over runs u, i < len:  a[r * a_px + off[u] + i]
 *                           * b[(u * len + i) * w + j]
 *
 * with w = nv * VL. `a` is broadcast, `b` is a packed panel read in vectors.
 *
 * Invariants
 *   1. Every number of rows from 1 to row_max(nv) has its own code: no row is computed twice.
 *   2. The order of additions into one c does not depend on rows or nv.
 *   3. The panel is padded to whole vectors; of c only `cols` columns are touched.
 * Threads: pure; writes only c.
 */
#ifndef PF_CPU_CONV_TILE_H
#define PF_CPU_CONV_TILE_H
/* Registers: nv * rows accumulators, nv of b (one column may stay in memory), one broadcast. */
#if defined(__AVX512F__)
enum { ROW_MAX = 8 };
PF_INLINE int row_max(int nv) { return nv == 4 ? 7 : 8; }
#elif defined(__aarch64__)
enum { ROW_MAX = 8 };
PF_INLINE int row_max(int nv) { return nv == 4 ? 6 : 8; }
#elif defined(__AVX2__)
enum { ROW_MAX = 8 };
PF_INLINE int row_max(int nv) { return nv == 2 ? 6 : 8; }
#else
enum { ROW_MAX = 8 };
PF_INLINE int row_max(int nv) { return nv == 2 ? 4 : 8; }
#endif

/* clamp: x, at least `low`, at most `high`; a NaN stays.  fma_mem: x * b[..] + c with b read by the
 * instruction itself. */
#if defined(__AVX512F__)
PF_INLINE pf_vf clamp_f32(pf_vf x, pf_vf low, pf_vf high) {
  return _mm512_min_ps(high, _mm512_max_ps(low, x));
}
PF_INLINE pf_vd clamp_f64(pf_vd x, pf_vd low, pf_vd high) {
  return _mm512_min_pd(high, _mm512_max_pd(low, x));
}
PF_INLINE pf_vf fma_mem_f32(pf_vf x, const float *b, pf_vf c) {
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(x), "m"(*(const pf_vf_any *)b));
  return c;
}
PF_INLINE pf_vd fma_mem_f64(pf_vd x, const double *b, pf_vd c) {
  __asm__("vfmadd231pd %2, %1, %0" : "+v"(c) : "v"(x), "m"(*(const pf_vd_any *)b));
  return c;
}
#else
#define CLAMP(tag, V, T, lanes) \
  PF_INLINE V clamp_##tag(V x, V low, V high) { \
    T a[lanes], l[lanes], h[lanes]; \
    memcpy(a, &x, sizeof a), memcpy(l, &low, sizeof l), memcpy(h, &high, sizeof h); \
    for (int i = 0; i < lanes; i++) { \
      a[i] = l[i] > a[i] ? l[i] : a[i]; \
      a[i] = h[i] < a[i] ? h[i] : a[i]; \
    } \
    memcpy(&x, a, sizeof a); \
    return x; \
  }
#if defined(__AVX2__) && defined(__FMA__)
PF_INLINE pf_vf clamp_f32(pf_vf x, pf_vf low, pf_vf high) {
  return _mm256_min_ps(high, _mm256_max_ps(low, x));
}
PF_INLINE pf_vd clamp_f64(pf_vd x, pf_vd low, pf_vd high) {
  return _mm256_min_pd(high, _mm256_max_pd(low, x));
}
#else
CLAMP(f32, pf_vf, float, PF_VF)
CLAMP(f64, pf_vd, double, PF_VD)
#endif
#undef CLAMP
PF_INLINE pf_vf fma_mem_f32(pf_vf x, const float *b, pf_vf c) {
  return PF_VF_FMA(x, pf_vf_load(b), c);
}
PF_INLINE pf_vd fma_mem_f64(pf_vd x, const double *b, pf_vd c) {
  return PF_VD_FMA(x, pf_vd_load(b), c);
}
#endif
#endif

typedef struct {
  const T *a;
  int64_t a_px;
  const int64_t *off; /* one per run */
  int64_t runs, len;
  const T *b;
  T *c;
  int64_t c_px;
  int cols, add; /* add: c += instead of c = */
  int far;       /* c is in memory: asked for before the sum begins */
  /* after the sum, where `last`: + bias[j] + side[r * c_px + j], then in [low, high] if `clamp` */
  int last, clamp;
  const T *bias, *side;
  T low, high;
} TILE(row_tile);

/* Sums of a tile and what follows them. */
__attribute__((noinline)) static void TILE(row_finish)(const TILE(row_tile) * t, const T *sums,
                                                       int mr, int nv) {
  const V low = V_SET(t->low), high = V_SET(t->high);
  for (int v = 0; v < nv; v++) {
    const int left = PF_MIN(t->cols - v * VL, VL);
    if (left <= 0) return;
    const V bias = t->bias ? V_LOAD_PART(t->bias + v * VL, left) : (V){0};
    for (int r = 0; r < mr; r++) {
      const int64_t at = r * t->c_px + v * VL;
      V x = V_LOAD(sums + (r * nv + v) * VL);
      if (t->add) x += V_LOAD_PART(t->c + at, left);
      if (t->bias) x += bias;
      if (t->side) x += V_LOAD_PART(t->side + at, left);
      if (t->clamp) x = TILE(clamp)(x, low, high);
      V_STORE_PART(t->c + at, x, left);
    }
  }
}

PF_INLINE void TILE(row_body)(const TILE(row_tile) * t, const int nv, const int mr) {
  V acc[ROW_MAX][TILE_NV];
  const T *a[ROW_MAX], *b = t->b;
#pragma GCC unroll 8
  for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) acc[r][v] = (V){0};
  const int64_t len = t->len;
  for (int64_t u = 0; u < t->runs; u++) {
    const T *base = t->a + t->off[u];
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++) a[r] = base + r * t->a_px;
    for (int64_t i = 0; i < len; i++, b += nv * VL) {
      V bv[TILE_NV];
#pragma GCC unroll 4
      for (int v = 0; v < nv; v++) {
        bv[v] = V_LOAD(b + v * VL);
        if (nv >= 3) __builtin_prefetch(b + (8 * nv + v) * VL, 0, 3);
      }
#pragma GCC unroll 8
      for (int r = 0; r < mr; r++) {
        V x = V_SET(a[r][i]);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
          acc[r][v] = nv * mr + nv >= 32 && v == nv - 1 ? TILE(fma_mem)(x, b + v * VL, acc[r][v])
                                                        : V_FMA(x, bv[v], acc[r][v]);
      }
    }
  }
  if (!t->last) {
    const int add = t->add, left = t->cols - (nv - 1) * VL;
    T *c = t->c;
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++, c += t->c_px) {
#pragma GCC unroll 4
      for (int v = 0; v < nv - 1; v++) {
        if (add) acc[r][v] += V_LOAD(c + v * VL);
        V_STORE(c + v * VL, acc[r][v]);
      }
      if (left == VL) {
        if (add) acc[r][nv - 1] += V_LOAD(c + (nv - 1) * VL);
        V_STORE(c + (nv - 1) * VL, acc[r][nv - 1]);
      } else {
        if (add) acc[r][nv - 1] += V_LOAD_PART(c + (nv - 1) * VL, left);
        V_STORE_PART(c + (nv - 1) * VL, acc[r][nv - 1], left);
      }
    }
    return;
  }
  T sums[ROW_MAX * TILE_NV * VL];
#pragma GCC unroll 8
  for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) V_STORE(sums + (r * nv + v) * VL, acc[r][v]);
  TILE(row_finish)(t, sums, mr, nv);
}

#define ROW_TILE(nv, mr) \
  __attribute__((noinline)) static void TILE(row_tile_##nv##_##mr)(const TILE(row_tile) *t) { \
    TILE(row_body)(t, nv, mr); \
  }
#define ROW_TILES_6(nv) \
  ROW_TILE(nv, 1) ROW_TILE(nv, 2) ROW_TILE(nv, 3) ROW_TILE(nv, 4) ROW_TILE(nv, 5) ROW_TILE(nv, 6)
#define ROW_NAMES_6(nv) \
  TILE(row_tile_##nv##_1), TILE(row_tile_##nv##_2), TILE(row_tile_##nv##_3), \
  TILE(row_tile_##nv##_4), TILE(row_tile_##nv##_5), TILE(row_tile_##nv##_6)
ROW_TILES_6(1)
ROW_TILE(1, 7)
ROW_TILE(1, 8)
ROW_TILES_6(2)
ROW_TILE(2, 7)
ROW_TILE(2, 8)
#if defined(__AVX512F__) || defined(__aarch64__)
ROW_TILES_6(3)
ROW_TILE(3, 7)
ROW_TILE(3, 8)
ROW_TILES_6(4)
ROW_TILE(4, 7)
#endif
typedef void (*TILE(row_fn))(const TILE(row_tile) *);
static const TILE(row_fn) TILE(row_tiles)[TILE_NV][ROW_MAX] = {
  {ROW_NAMES_6(1), TILE(row_tile_1_7), TILE(row_tile_1_8)},
  {ROW_NAMES_6(2), TILE(row_tile_2_7), TILE(row_tile_2_8)},
#if defined(__AVX512F__) || defined(__aarch64__)
  {ROW_NAMES_6(3), TILE(row_tile_3_7), TILE(row_tile_3_8)},
  {ROW_NAMES_6(4), TILE(row_tile_4_7), 0},
#endif
};
#undef ROW_TILE
#undef ROW_TILES_6
#undef ROW_NAMES_6

/* Stores of a tile that miss would fill the store buffer, and the sum of the next one wait. */
PF_INLINE void TILE(fetch_tile)(const TILE(row_tile) * t, int64_t rows) {
  for (int64_t r = 0; r < rows; r++)
    for (int j = 0; j < t->cols; j += 64 / (int)sizeof(T))
      __builtin_prefetch(t->c + r * t->c_px + j, 1);
}

/* n pixels of one row, in tiles of nearly equal size. */
static void TILE(row_run)(TILE(row_tile) * t, int64_t n, int nv) {
  const int64_t tiles = (n + row_max(nv) - 1) / row_max(nv);
  const TILE(row_fn) *fn = TILE(row_tiles)[nv - 1];
  for (int64_t i = 0; i < tiles; i++) {
    int64_t rows = n / tiles + (i < n % tiles);
    if (t->far) TILE(fetch_tile)(t, rows);
    fn[rows - 1](t);
    t->a += rows * t->a_px;
    t->c += rows * t->c_px;
    if (t->side) t->side += rows * t->c_px;
  }
}
