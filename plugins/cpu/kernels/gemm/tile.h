/* tile.h - the micro-kernel of matrix products and convolutions, for the element type T.
 *
 * A tile is `rows` x `cols` numbers of a result, held in registers while the sum over k runs:
 *
 *     c[r][j] (+)= sum over runs u, i < len:  a[r][a_off[u] + i * a_step] * b[u * b_run + i *
 *     b_step + j]
 *
 * A matrix product is one run; a convolution is one run per filter row; a filter gradient is one
 * run per row of the image.  `a` is broadcast, `b` is read in vectors, so only b is ever packed.
 *
 * Invariants
 *   1. b is readable for TILE_NV vectors past every u * b_run + i * b_step (packed panels are
 *      padded with zeros).
 *   2. rows <= tile_rows(nv); row pointers a[rows ..] exist and are readable (they repeat a valid
 *      row).
 *   3. The order of additions into one c does not depend on rows, cols or nv: results do not depend
 *      on blocking.
 * Threads: pure; writes only c.
 *
 * Included once per type by tile_types.h, which sets T, TILE(name), V, VL and the V_ operations
 * (tile_begin.h).
 */
#ifndef PF_CPU_TILE_H
#define PF_CPU_TILE_H
#include "vec/simd.h"
/* Registers: nv * rows accumulators, nv of b, one broadcast. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { TILE_NV = 4, TILE_MAX_ROWS = 8 };
PF_INLINE int tile_rows(int nv) { return nv == 4 ? 6 : 8; }
#elif defined(__AVX2__)
enum { TILE_NV = 2, TILE_MAX_ROWS = 8 };
PF_INLINE int tile_rows(int nv) { return nv == 2 ? 6 : 8; }
#else
enum { TILE_NV = 2, TILE_MAX_ROWS = 8 };
PF_INLINE int tile_rows(int nv) { return nv == 2 ? 4 : 8; }
#endif
#endif

typedef struct {
  const T *const *a;
  const T *b;
  const int64_t *a_off; /* one per run */
  int64_t runs, len, a_step, b_step, b_run;
  T *const *c;
  int rows, cols, add; /* add: c += instead of c = */
} TILE(tile);

PF_INLINE void TILE(tile_store)(T *c, const V *acc, const int nv, int cols, int add) {
  if (cols == nv * VL) {
#pragma GCC unroll 8
    for (int v = 0; v < nv; v++) {
      V x = acc[v];
      if (add) x += V_LOAD(c + v * VL);
      V_STORE(c + v * VL, x);
    }
    return;
  }
#pragma GCC unroll 8
  for (int v = 0; v < nv; v++) {
    int left = cols - v * VL;
    if (left <= 0) break;
    V x = acc[v];
    if (add) x += V_LOAD_PART(c + v * VL, left);
    V_STORE_PART(c + v * VL, x, left);
  }
}

PF_INLINE void TILE(tile_body)(const TILE(tile) * t, const int nv, const int mr) {
  V acc[TILE_MAX_ROWS][TILE_NV];
  const T *a[TILE_MAX_ROWS];
#pragma GCC unroll 16
  for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
    for (int v = 0; v < nv; v++) acc[r][v] = (V){0};
  const int64_t a_step = t->a_step, b_step = t->b_step, len = t->len;
  for (int64_t u = 0; u < t->runs; u++) {
    const int64_t ao = t->a_off[u];
    const T *b = t->b + u * t->b_run;
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) a[r] = t->a[r] + ao;
    for (int64_t i = 0, at = 0; i < len; i++, at += a_step, b += b_step) {
      V bv[TILE_NV];
#pragma GCC unroll 8
      for (int v = 0; v < nv; v++) bv[v] = V_LOAD(b + v * VL);
#pragma GCC unroll 16
      for (int r = 0; r < mr; r++) {
        V x = V_SET(a[r][at]);
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++) acc[r][v] = V_FMA(x, bv[v], acc[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < mr; r++)
    if (r < t->rows) TILE(tile_store)(t->c[r], acc[r], nv, t->cols, t->add);
}

__attribute__((noinline)) static void TILE(tile_1)(const TILE(tile) * t) {
  TILE(tile_body)(t, 1, tile_rows(1));
}
__attribute__((noinline)) static void TILE(tile_2)(const TILE(tile) * t) {
  TILE(tile_body)(t, 2, tile_rows(2));
}
#if defined(__AVX512F__) || defined(__aarch64__)
__attribute__((noinline)) static void TILE(tile_3)(const TILE(tile) * t) {
  TILE(tile_body)(t, 3, tile_rows(3));
}
__attribute__((noinline)) static void TILE(tile_4)(const TILE(tile) * t) {
  TILE(tile_body)(t, 4, tile_rows(4));
}
#endif

/* One row against b where it lies: no other row pays for it. */
__attribute__((noinline)) static void TILE(tile_thin)(const TILE(tile) * t) {
  TILE(tile_body)(t, TILE_NV, 1);
}

PF_INLINE void TILE(tile_run)(const TILE(tile) * t, int nv) {
  switch (nv) {
#if defined(__AVX512F__) || defined(__aarch64__)
    case 4: TILE(tile_4)(t); break;
    case 3: TILE(tile_3)(t); break;
#endif
    case 2: TILE(tile_2)(t); break;
    default: TILE(tile_1)(t); break;
  }
}

/* How many vectors the panel that begins at column j of n takes. */
PF_INLINE int TILE(tile_nv)(int64_t n, int64_t j) {
  int64_t left = (n - j + VL - 1) / VL;
  return (int)(left < TILE_NV ? left : TILE_NV);
}

/* Columns of all panels of n together. */
PF_LOCAL int64_t TILE(panels_width)(int64_t n) {
  int64_t w = 0;
  for (int64_t j = 0; j < n; j += TILE(tile_nv)(n, j) * VL) w += TILE(tile_nv)(n, j) * VL;
  return w;
}

/* b [k, n] (row stride ldb, element stride 1) -> panel [k][nv * VL] of columns j .., zero beyond
 * n. */
PF_LOCAL void TILE(pack_rows)(const T *b, int64_t ldb, int64_t k, int64_t n, int64_t j, int nv,
                              T *p) {
  int64_t w = (int64_t)nv * VL, cols = PF_MIN(w, n - j);
  for (int64_t i = 0; i < k; i++, p += w, b += ldb) {
    if (cols == w) {
      for (int v = 0; v < nv; v++) V_STORE(p + v * VL, V_LOAD(b + j + v * VL));
    } else {
      for (int v = 0; v < nv; v++)
        V_STORE(p + v * VL, V_LOAD_PART(b + j + v * VL, (int)PF_MAX(cols - v * VL, 0)));
    }
  }
}

/* The same from the transpose: b [n, k], row stride ldb. A line of each row at a time: lines of the
 * panel are written in one go (four columns at a time, along k, took 2.5 times as long). */
PF_LOCAL void TILE(pack_columns)(const T *b, int64_t ldb, int64_t k, int64_t n, int64_t j, int nv,
                                 T *p) {
  enum { LANES = 64 / sizeof(T) };
  const int64_t w = (int64_t)nv * VL, cols = PF_MIN(w, n - j), whole = cols / 8 * 8;
  b += j * ldb;
  for (int64_t i = 0; i < k; i += LANES, p += LANES * w) {
    const int64_t kn = PF_MIN(LANES, k - i);
    for (int64_t c = 0; c < whole; c += 8) {
      const T *from = b + c * ldb + i;
      int64_t r = 0;
      for (; r + 4 <= kn; r += 4) TRANSPOSE_8X4(from + r, ldb, p + r * w + c, w, 4);
      for (; r < kn; r++)
        for (int64_t d = 0; d < 8; d++) p[r * w + c + d] = from[d * ldb + r];
    }
    for (int64_t c = whole; c < w; c++)
      for (int64_t r = 0; r < kn; r++) p[r * w + c] = c < cols ? b[c * ldb + i + r] : 0;
  }
}
