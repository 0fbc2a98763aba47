/* softmax_rows.h - one row of Softmax or LogSoftmax, of float, half or bfloat16.
 *
 *     largest      m = max x                     from memory; halves leave a float copy
 *     exponentials e = exp(x - m), their sum     from the nearest cache
 *     finish       e / sum, or x - m - log sum   stored once, past the caches where that pays
 *
 * so a row is read once and written once.  The maximum of the next row is sought before a row is
 * finished, so that neither waits for the other's last sum.  Arithmetic: about 17 operations for a
 * vector of elements, 11 of them on the two multiplying units.
 *
 * Invariants: sums run in four vectors of lanes in a fixed order; a row has at least PF_VF elements.
 * Threads: pure; `room` is the worker's.
 */
#ifndef PF_CPU_SOFTMAX_ROWS_H
#define PF_CPU_SOFTMAX_ROWS_H
#include "vfloat.h"
#include "vmath.h"

PF_INLINE float row_largest(int32_t type, const void *x, float *copy, int64_t n) {
  enum { U = 4 };
  pf_vf m[U], v;
  int64_t i = 0;
  for (int u = 0; u < U; u++) m[u] = pf_vf_set(-INFINITY);
  for (; i + U * PF_VF <= n; i += U * PF_VF)
    for (int u = 0; u < U; u++) {
      v = pf_vf_read(type, pf_vf_at(type, x, i + u * PF_VF));
      if (type != PF_FLOAT32) pf_vf_store(copy + i + u * PF_VF, v);
      m[u] = pf_vf_max(v, m[u]);
    }
  for (; i < n; i += PF_VF) {
    i = PF_MIN(i, n - PF_VF);            /* the last vector ends with the row */
    v = pf_vf_read(type, pf_vf_at(type, x, i));
    if (type != PF_FLOAT32) pf_vf_store(copy + i, v);
    m[0] = pf_vf_max(v, m[0]);
  }
  return pf_vf_largest(pf_vf_max(pf_vf_max(m[0], m[1]), pf_vf_max(m[2], m[3])));
}

/* What is left to do of a row: y = (from - m) * c - l. */
typedef struct { const float *from; void *y; float m, c, l; } row_rest;

PF_INLINE void row_finish(int32_t type, row_rest r, int64_t n, int stream) {
  pf_vf m = pf_vf_set(r.m), c = pf_vf_set(r.c), l = pf_vf_set(r.l);
  int64_t i = stream ? PF_MIN(pf_vf_unaligned(type, r.y), n) : 0;
  if (i) pf_vf_write_part(type, r.y, (pf_vf_load_part(r.from, (int)i) - m) * c - l, i);
  for (; i + PF_VF <= n; i += PF_VF)
    pf_vf_write(type, pf_vf_at(type, r.y, i), (pf_vf_load(r.from + i) - m) * c - l, stream);
  if (i < n)
    pf_vf_write_part(type, pf_vf_at(type, r.y, i),
                     (pf_vf_load_part(r.from + i, (int)(n - i)) - m) * c - l, n - i);
}
/* The sum of exp(x - m); e gets the terms unless it is NULL. */
PF_INLINE float row_exponentials(const float *x, float *e, int64_t n, float m) {
  enum { U = 4 };
  pf_vf sum[U] = {pf_vf_set(0), pf_vf_set(0), pf_vf_set(0), pf_vf_set(0)}, top = pf_vf_set(m), v;
  int64_t i = 0;
  for (; i + U * PF_VF <= n; i += U * PF_VF)
    for (int u = 0; u < U; u++) {
      v = pf_vf_exp_down(pf_vf_load(x + i + u * PF_VF) - top);
      if (e) pf_vf_store(e + i + u * PF_VF, v);
      sum[u] += v;
    }
  for (; i < n; i += PF_VF) {
    int64_t k = PF_MIN(PF_VF, n - i);
    v = pf_vf_first(pf_vf_exp_down(pf_vf_load_part(x + i, (int)k) - top), k);
    if (e) pf_vf_store_part(e + i, v, (int)k);
    sum[0] += v;
  }
  return pf_vf_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* One copy of each loop per type: a row is long enough for calls. */
typedef struct {
  int64_t size;
  float (*largest)(const void *x, float *copy, int64_t n);
  void (*finish)(row_rest r, int64_t n, int stream);
} row_loops;
#define ROW_LOOPS(TYPE, TAG) \
  static float largest_##TAG(const void *x, float *copy, int64_t n) { \
    return row_largest(TYPE, x, copy, n); \
  } \
  static void finish_##TAG(row_rest r, int64_t n, int stream) { \
    if (stream) row_finish(TYPE, r, n, 1); \
    else row_finish(TYPE, r, n, 0); \
  } \
  static const row_loops row_loops_##TAG = {TYPE == PF_FLOAT32 ? 4 : 2, largest_##TAG, finish_##TAG};
ROW_LOOPS(PF_FLOAT32, f32)
ROW_LOOPS(PF_FLOAT16, f16)
ROW_LOOPS(PF_BFLOAT16, bf16)

/* Rows one after the other; `room` is two rows of floats, or NULL where y itself holds the
 * exponentials (floats only). */
static void rows_softmax(const row_loops *f, int log, const char *x, char *y, int64_t rows,
                         int64_t n, float *room, int stream) {
  int64_t bytes = n * f->size;
  float m = f->largest(x, room, n);
  for (int64_t r = 0; r < rows; r++, x += bytes, y += bytes) {
    float *own = room ? room + (r & 1) * n : (float *)y, top = m;
    const float *values = f->size == 4 ? (const float *)x : own;
    float sum = log ? row_exponentials(values, NULL, n, m) : row_exponentials(values, own, n, m);
    if (r + 1 < rows) m = f->largest(x + bytes, room ? room + (~r & 1) * n : NULL, n);
    if (log) f->finish((row_rest){values, y, top, 1, pf_log_f32(sum)}, n, stream);
    else f->finish((row_rest){own, y, 0, 1 / sum, 0}, n, stream);
  }
}
#endif
