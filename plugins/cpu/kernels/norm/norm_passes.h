/* norm_passes.h - the two loops of batch normalisation, over rows of w columns, of float, half or
 * bfloat16.  norm.c compiles them; moments.c takes the sums too.
 *
 *     sums    S[j] += sum of d, Q[j] += sum of d^2             d = x - shift[j]
 *             S[j] += sum of dy, Q[j] += sum of dy d           where dy is given
 *     apply   y = d a[j] + o[j]                                d = x - m[j]
 *             y = a[j] dy - b[j] d - o[j]                      where dy is given
 *
 * A column is a channel (several columns may belong to one).  A tile of columns keeps its
 * parameters and sums in registers for a block of rows.
 *
 * Invariants
 *   1. Sums of a block are float, in the order of rows; blocks are added in double.  Their length
 *      depends on w only: equal bits for any number of threads.
 *   2. `stream` asks for y and w such that every vector of a row may be streamed.
 *   3. What is fetched ahead changes no result.
 * Threads: pure.
 */
#ifndef PF_CPU_NORM_PASSES_H
#define PF_CPU_NORM_PASSES_H
#include "base/isa.h"
#include "base/machine.h"
#include "vec/vfloat.h"

/* Vectors; elements and rows of a block (of 4 rows SSE added and wrote sums as long as it read);
 * elements; bytes */
enum {
  NORM_TILE = 4,
  NORM_BLOCK = 4096,
  NORM_ROWS = 16,
  NORM_WIDTH = 64,
  NORM_AHEAD = PF_L2_BYTES / 8
};
typedef struct { const float *m, *a, *b, *o; } norm_params;

/* What the sums around it are taken from: the mean of n first elements.  Where it is not finite the
 * differences would be NaN from the next element on: then 0. */
PF_INLINE float norm_shift(double sum, double n) {
  float shift = (float)(sum / n);
  return fabsf(shift) < INFINITY ? shift : 0;
}
/* What comes from memory or a slow third cache is prefetched into the second: without, moments of
 * rows took 1.15 times as long there, those of columns 1.25 times. */
PF_INLINE int new_line(int32_t type, int u) { return u * PF_VF * pf_vf_size(type) % 64 == 0; }
PF_INLINE void fetch(const void *x, int64_t ahead) {
  __builtin_prefetch((const char *)x + ahead, 0, 2);
}
/* n columns from x on: U vectors, or less than one; `far`: what lies `ahead` bytes on is fetched */
PF_INLINE void sums_tile(int32_t type, int U, int far, int64_t ahead, const void *x, const void *dy,
                         int64_t rows, int64_t w, int64_t n, const float *shift, double *S,
                         double *Q) {
  pf_vf sh[NORM_TILE], s[NORM_TILE], q[NORM_TILE];
  float sum[NORM_TILE * PF_VF], dot[NORM_TILE * PF_VF];
  const int64_t step = w * pf_vf_size(type);
  int part = n < PF_VF;
#pragma GCC unroll 4
  for (int u = 0; u < U; u++) {
    sh[u] = part ? pf_vf_load_part(shift, (int)n) : pf_vf_load(shift + u * PF_VF);
    s[u] = q[u] = pf_vf_set(0);
  }
  for (int64_t r = 0; r < rows; r++, x = (const char *)x + step)
#pragma GCC unroll 4
    for (int u = 0; u < U; u++) {
      const void *at = pf_vf_at(type, x, u * PF_VF), *g_at = NULL;
      if (dy) g_at = pf_vf_at(type, dy, r * w + u * PF_VF);
      if (far && new_line(type, u)) {
        fetch(at, ahead);
        if (dy) fetch(g_at, ahead);
      }
      pf_vf v = part ? pf_vf_read_part(type, at, n) : pf_vf_read(type, at);
      pf_vf d = v - sh[u], g = d;
      if (dy) g = part ? pf_vf_read_part(type, g_at, n) : pf_vf_read(type, g_at);
      s[u] += g;
      q[u] = PF_VF_FMA(g, d, q[u]);
    }
#pragma GCC unroll 4
  for (int u = 0; u < U; u++)
    pf_vf_store(sum + u * PF_VF, s[u]), pf_vf_store(dot + u * PF_VF, q[u]);
  for (int64_t i = 0; i < n; i++) S[i] += sum[i];
  for (int64_t i = 0; i < n; i++) Q[i] += dot[i];
}
/* w columns of rows that lie `stride` elements apart; while a block of rows is summed up the next
 * one is fetched if it is within NORM_AHEAD, with the last what lies `next` bytes from x (`far`) */
PF_INLINE void norm_sums(int32_t type, int far, const void *x, const void *dy, int64_t rows,
                         int64_t stride, int64_t w, int64_t next, const float *shift, double *S,
                         double *Q) {
  enum { WIDE = NORM_TILE * PF_VF };
  int64_t block = PF_MAX(NORM_BLOCK / PF_MAX(w, 1), NORM_ROWS), size = pf_vf_size(type);
  int64_t step = stride * size;
  for (int64_t r = 0; r < rows; r += block) {
    int64_t k = PF_MIN(block, rows - r), j = 0;
    int64_t ahead = r + block < rows || next == rows * step ? block * step : next - r * step;
    if (block * step > NORM_AHEAD) ahead = 0;
    const char *p = (const char *)x + r * step, *g = dy ? (const char *)dy + r * step : NULL;
    for (; j + WIDE <= w; j += WIDE) {
      if (g)
        sums_tile(type, NORM_TILE, far, ahead, p + j * size, g + j * size, k, stride, WIDE,
                  shift + j, S + j, Q + j);
      else
        sums_tile(type, NORM_TILE, far, ahead, p + j * size, NULL, k, stride, WIDE, shift + j,
                  S + j, Q + j);
    }
    for (; j < w; j += PF_VF) {
      int64_t n = PF_MIN(PF_VF, w - j);
      const void *gj = g ? g + j * size : NULL;
      sums_tile(type, 1, 0, 0, p + j * size, gj, k, stride, n, shift + j, S + j, Q + j);
    }
  }
}

PF_INLINE void apply_tile(int32_t type, int U, const void *x, const void *dy, void *y, int64_t rows,
                          int64_t w, int64_t n, norm_params p, int stream) {
  pf_vf m[NORM_TILE], a[NORM_TILE], b[NORM_TILE], o[NORM_TILE];
  int part = n < PF_VF;
  for (int u = 0; u < U; u++) {
    m[u] = part ? pf_vf_load_part(p.m, (int)n) : pf_vf_load(p.m + u * PF_VF);
    a[u] = part ? pf_vf_load_part(p.a, (int)n) : pf_vf_load(p.a + u * PF_VF);
    o[u] = part ? pf_vf_load_part(p.o, (int)n) : pf_vf_load(p.o + u * PF_VF);
    if (dy) b[u] = part ? pf_vf_load_part(p.b, (int)n) : pf_vf_load(p.b + u * PF_VF);
  }
  for (int64_t r = 0; r < rows; r++)
    for (int u = 0; u < U; u++) {
      int64_t at = r * w + u * PF_VF;
      void *to = pf_vf_at(type, y, at);
      pf_vf v = part ? pf_vf_read_part(type, pf_vf_at(type, x, at), n)
                     : pf_vf_read(type, pf_vf_at(type, x, at)),
            d = v - m[u];
      if (dy) {
        pf_vf g = part ? pf_vf_read_part(type, pf_vf_at(type, dy, at), n)
                       : pf_vf_read(type, pf_vf_at(type, dy, at));
        v = a[u] * g - b[u] * d - o[u];
      } else {
        v = d * a[u] + o[u];
      }
      if (part) pf_vf_write_part(type, to, v, n);
      else pf_vf_write(type, to, v, stream);
    }
}
PF_INLINE void norm_apply(int32_t type, const void *x, const void *dy, void *y, int64_t rows,
                          int64_t w, norm_params p, int stream) {
  enum { WIDE = NORM_TILE * PF_VF };
  int64_t size = pf_vf_size(type), j = 0, n;
  for (; j < w; j += n) {
    norm_params q = {p.m + j, p.a + j, p.b ? p.b + j : NULL, p.o + j};
    const char *xj = (const char *)x + j * size, *g = dy ? (const char *)dy + j * size : NULL;
    char *yj = (char *)y + j * size;
    n = w - j >= WIDE ? WIDE : PF_MIN(PF_VF, w - j);
    if (n == WIDE && g) apply_tile(type, NORM_TILE, xj, g, yj, rows, w, WIDE, q, stream);
    else if (n == WIDE) apply_tile(type, NORM_TILE, xj, NULL, yj, rows, w, WIDE, q, stream);
    else apply_tile(type, 1, xj, g, yj, rows, w, n, q, 0);
  }
}

enum { NORM_NEAR = PF_L2_BYTES }; /* bytes: of smaller inputs nothing is fetched ahead */
typedef struct {
  int64_t size; /* of an element */
  /* `next`: bytes from x to what is read after these rows; 0: nothing is fetched ahead */
  void (*sums)(const void *x, const void *dy, int64_t rows, int64_t stride, int64_t w, int64_t next,
               const float *shift, double *S, double *Q);
  void (*apply)(const void *x, const void *dy, void *y, int64_t rows, int64_t w, norm_params p,
                int stream);
} norm_loops;
/* float, half or bfloat16; of norm.c */
const norm_loops *PF_ISA_NAME(norm_loops_of)(int32_t type);
#endif
