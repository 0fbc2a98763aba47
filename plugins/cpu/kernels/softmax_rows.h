/* softmax_rows.h - one row of Softmax or LogSoftmax, of float, half or bfloat16.
 *
 *     largest      m = max x                     from memory
 *     exponentials e = exp(x - m), their sum     from the nearest cache
 *     finish       e / sum, or x - m - log sum   once more in the nearest cache
 *
 * so memory is read once and written once; large results of floats go past the caches.  The next
 * row is fetched while there is arithmetic to do, and its maximum sought before a row is finished,
 * so that neither waits for the other's last sum.  Arithmetic: about 16 operations for a vector of
 * elements, 9 of them on the two multiplying units (AVX-512; without its table 17 and 11).
 *
 * Invariants: sums run in four vectors of lanes in a fixed order; a row has at least PF_VF
 * elements.
 * Threads: pure; `room` is the worker's.
 */
#ifndef PF_CPU_SOFTMAX_ROWS_H
#define PF_CPU_SOFTMAX_ROWS_H
#include "vfloat.h"
#include "vmath.h"

enum { FETCHED = 16384 };              /* bytes of a row of results, at most */

PF_INLINE float row_largest(const float *x, int64_t n) {
  enum { U = 4 };
  pf_vf m[U];
  int64_t i = 0;
  for (int u = 0; u < U; u++) m[u] = pf_vf_set(-INFINITY);
  for (; i + U * PF_VF <= n; i += U * PF_VF)
    for (int u = 0; u < U; u++) m[u] = pf_vf_max(pf_vf_load(x + i + u * PF_VF), m[u]);
  for (; i < n; i += PF_VF) {
    i = PF_MIN(i, n - PF_VF);            /* the last vector ends with the row */
    m[0] = pf_vf_max(pf_vf_load(x + i), m[0]);
  }
  return pf_vf_largest(pf_vf_max(pf_vf_max(m[0], m[1]), pf_vf_max(m[2], m[3])));
}
/* Halves compare as integers once negative ones are turned around.  A NaN is the largest or never:
 * either way the row becomes NaN. */
PF_INLINE float row_largest_half(int32_t type, const int16_t *x, int64_t n) {
  enum { LANES_16 = 128 };
  int16_t m[LANES_16], top = INT16_MIN;
  int64_t i = 0;
  for (int l = 0; l < LANES_16; l++) m[l] = INT16_MIN;
  for (; i + LANES_16 <= n; i += LANES_16)
    for (int l = 0; l < LANES_16; l++) {
      int16_t v = x[i + l];
      v ^= (int16_t)(v >> 15 & 0x7fff);
      m[l] = v > m[l] ? v : m[l];
    }
  for (int l = 0; i < n; i++, l++) {
    int16_t v = x[i];
    v ^= (int16_t)(v >> 15 & 0x7fff);
    m[l] = v > m[l] ? v : m[l];
  }
  for (int l = 0; l < LANES_16; l++) top = m[l] > top ? m[l] : top;
  uint16_t bits = (uint16_t)(top ^ (top >> 15 & 0x7fff));
  return type == PF_FLOAT16 ? pf_from_half(bits) : pf_from_bf16(bits);
}

/* The sum of exp(x - m); e gets the terms unless it is NULL, those of two vectors in
 * pf_vf_read_pair's order. */
PF_INLINE float row_exponentials(int32_t type, const void *x, float *e, int64_t n, float m) {
  enum { U = 4 };
  const int degree = type == PF_FLOAT32 ? 4 : type == PF_FLOAT16 ? 3 : 2;
  pf_vf sum[U] = {pf_vf_set(0), pf_vf_set(0), pf_vf_set(0), pf_vf_set(0)}, top = pf_vf_set(m);
  pf_vf v[U];
  int64_t i = 0;
  for (; i + U * PF_VF <= n; i += U * PF_VF) {
    for (int u = 0; u < U; u++)        /* of the next row */
      if (type == PF_FLOAT32 || u % 2 == 0)
        __builtin_prefetch(pf_vf_at(type, x, i + n + u * PF_VF));
    for (int u = 0; u < U; u += 2)
      pf_vf_read_pair(type, pf_vf_at(type, x, i + u * PF_VF), &v[u], &v[u + 1]);
    for (int u = 0; u < U; u++) {
      v[u] = pf_vf_exp_down(v[u] - top, degree);
      if (e) pf_vf_store(e + i + u * PF_VF, v[u]);
      sum[u] += v[u];
    }
  }
  for (; i < n; i += PF_VF) {
    int64_t k = PF_MIN(PF_VF, n - i);
    v[0] = pf_vf_exp_down(pf_vf_read_part(type, pf_vf_at(type, x, i), k) - top, degree);
    v[0] = pf_vf_first(v[0], k);
    if (e) pf_vf_store_part(e + i, v[0], (int)k);
    sum[0] += v[0];
  }
  return pf_vf_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* What is left to do of a row: y = from * c, or from - m - l. */
typedef struct { const void *from; void *y; float m, c, l; } row_rest;

PF_INLINE pf_vf rest_of(int log, pf_vf v, pf_vf m, pf_vf c, pf_vf l) {
  return log ? (v - m) - l : v * c;
}
PF_INLINE void row_finish(int log, int32_t from, int32_t type, row_rest r, int64_t n) {
  enum { U = 4 };
  pf_vf m = pf_vf_set(r.m), c = pf_vf_set(r.c), l = pf_vf_set(r.l), v, w;
  int64_t i = 0;
  for (; i + U * PF_VF <= n; i += U * PF_VF)
    for (int64_t k = i; k < i + U * PF_VF; k += 2 * PF_VF) {
      pf_vf_read_pair(from, pf_vf_at(from, r.from, k), &v, &w);
      pf_vf_write_pair(type, pf_vf_at(type, r.y, k), rest_of(log, v, m, c, l),
                       rest_of(log, w, m, c, l));
    }
  for (; i < n; i += PF_VF) {
    v = pf_vf_read_part(from, pf_vf_at(from, r.from, i), n - i);
    pf_vf_write_part(type, pf_vf_at(type, r.y, i), rest_of(log, v, m, c, l), n - i);
  }
}

/* The same past the caches but for the row's first and last part of a vector; floats. */
PF_INLINE void row_finish_past(int log, row_rest r, int64_t n) {
  pf_vf m = pf_vf_set(r.m), c = pf_vf_set(r.c), l = pf_vf_set(r.l);
  const float *from = (const float *)r.from;
  float *y = (float *)r.y;
  int64_t i = (int64_t)(-(uintptr_t)y / 4 % PF_VF), rest;   /* n is at least PF_VF */
  if (i) pf_vf_store_part(y, rest_of(log, pf_vf_load_part(from, (int)i), m, c, l), (int)i);
  for (; i + 2 * PF_VF <= n; i += 2 * PF_VF)
    for (int64_t k = i; k < i + 2 * PF_VF; k += PF_VF)
      pf_vf_write(PF_FLOAT32, y + k, rest_of(log, pf_vf_load(from + k), m, c, l), 1);
  for (; i < n; i += PF_VF) {
    rest = PF_MIN(n - i, PF_VF);
    pf_vf v = rest_of(log, pf_vf_load_part(from + i, (int)rest), m, c, l);
    pf_vf_store_part(y + i, v, (int)rest);
  }
}

/* sum of q (l - (x - m)), where q is not zero; out, which has exp(x - m), becomes out * c - q */
static float row_entropy(const float *x, const float *q, float *out, int64_t n, float m, float l,
                         float c) {
  pf_vf sum = pf_vf_set(0), high = pf_vf_set(m), log = pf_vf_set(l), by = pf_vf_set(c);
  for (int64_t i = 0; i < n; i += PF_VF) {
    int part = (int)PF_MIN(PF_VF, n - i);
    pf_vf p = pf_vf_load_part(q + i, part), v = pf_vf_load_part(x + i, part);
    pf_vf e = pf_vf_load_part(out + i, part);
    sum += pf_vf_unless_zero(p, p * (log - (v - high)));
    pf_vf_store_part(out + i, e * by - p, part);
  }
  return pf_vf_sum(sum);
}

/* One copy of each loop per type: a row is long enough for calls. */
typedef struct {
  int64_t size;
  float (*largest)(const void *x, int64_t n);
  float (*exponentials)(const void *x, float *e, int64_t n, float m);
  void (*finish)(row_rest r, int64_t n);         /* from exponentials, which are floats */
  void (*finish_log)(row_rest r, int64_t n);     /* from the row itself */
} row_loops;
#define ROW_LOOPS(TYPE, TAG, LARGEST) \
  static float largest_##TAG(const void *x, int64_t n) { return LARGEST; } \
  static float exponentials_##TAG(const void *x, float *e, int64_t n, float m) { \
    return e ? row_exponentials(TYPE, x, e, n, m) : row_exponentials(TYPE, x, NULL, n, m); \
  } \
  static void finish_##TAG(row_rest r, int64_t n) { row_finish(0, PF_FLOAT32, TYPE, r, n); } \
  static void finish_log_##TAG(row_rest r, int64_t n) { row_finish(1, TYPE, TYPE, r, n); } \
  static const row_loops row_loops_##TAG = { \
    TYPE == PF_FLOAT32 ? 4 : 2, largest_##TAG, exponentials_##TAG, finish_##TAG, finish_log_##TAG};
ROW_LOOPS(PF_FLOAT32, f32, row_largest((const float *)x, n))
ROW_LOOPS(PF_FLOAT16, f16, row_largest_half(PF_FLOAT16, (const int16_t *)x, n))
ROW_LOOPS(PF_BFLOAT16, bf16, row_largest_half(PF_BFLOAT16, (const int16_t *)x, n))

/* Rows one after the other; `room` is a row of floats, or NULL where y itself holds the
 * exponentials (floats only).  `past`: floats that are stored past the caches; needs `room`. */
static void rows_softmax(const row_loops *f, int log, const char *x, char *y, int64_t rows,
                         int64_t n, float *room, int past) {
  int64_t bytes = n * f->size;
  float m = f->largest(x, n);
  for (int64_t r = 0; r < rows; r++, x += bytes, y += bytes) {
    float *e = log ? NULL : room ? room : (float *)y, top = m;
    if ((const char *)e != y && !past) /* its lines come while there is arithmetic to do */
      for (int64_t k = 0; k < PF_MIN(bytes, FETCHED); k += 64) __builtin_prefetch(y + k, 1);
    float sum = f->exponentials(x, e, n, top);
    if (r + 1 < rows) m = f->largest(x + bytes, n);
    if (past && log) row_finish_past(1, (row_rest){x, y, top, 1, pf_log_f32(sum)}, n);
    else if (past) row_finish_past(0, (row_rest){e, y, 0, 1 / sum, 0}, n);
    else if (log) f->finish_log((row_rest){x, y, top, 1, pf_log_f32(sum)}, n);
    else f->finish((row_rest){e, y, 0, 1 / sum, 0}, n);
  }
  if (past) pf_vf_fence();
}
#endif
