/* softmax_rows.h - one row of Softmax or LogSoftmax, of float, half or bfloat16.
 *
 *     largest      m = max x                     from memory
 *     exponentials e = exp(x - m), their sum     from the nearest cache
 *     finish       e / sum, or x - m - log sum   once more in the nearest cache
 *
 * so memory is read once and written once; large results go past the caches, in whole lines (the
 * parts of one that two rows share would be read first).  The next row is fetched while there is
 * arithmetic to do; in the caches its maximum is sought before a row is finished, so that neither
 * waits for the other's last sum.  Arithmetic: about 16 operations for a vector of
 * elements, 9 of them on the two multiplying units (AVX-512; without its table 17 and 11).
 *
 * Invariants: sums run in four vectors of lanes in a fixed order, pieces of LANE_TERMS terms a lane
 * are added in double (in one piece, sums of 10^5 equal rows were up to 129 ulp off); a row has at
 * least PF_VF elements.
 * Threads: pure; `room` is the worker's.
 */
#ifndef PF_CPU_SOFTMAX_ROWS_H
#define PF_CPU_SOFTMAX_ROWS_H
#include "base/machine.h"
#include "vec/vfloat.h"
#include "vec/vmath.h"

/* FETCHED: bytes of a row of results, at most */
enum { FETCHED = PF_L1_BYTES / 2, LANE_TERMS = 64 };

PF_INLINE float row_largest(const float *x, int64_t n) {
  enum { U = 4 };
  pf_vf m[U];
  int64_t i = 0;
  for (int u = 0; u < U; u++) m[u] = pf_vf_set(-INFINITY);
  for (; i + U * PF_VF <= n; i += U * PF_VF)
    for (int u = 0; u < U; u++) m[u] = pf_vf_max(pf_vf_load(x + i + u * PF_VF), m[u]);
  for (; i < n; i += PF_VF) {
    i = PF_MIN(i, n - PF_VF); /* the last vector ends with the row */
    m[0] = pf_vf_max(pf_vf_load(x + i), m[0]);
  }
  return pf_vf_largest(pf_vf_max(pf_vf_max(m[0], m[1]), pf_vf_max(m[2], m[3])));
}
/* Halves compare as integers once negative ones are turned around.  A NaN is the largest or never:
 * either way the row becomes NaN. */
PF_INLINE int16_t turned_half(int16_t v) { return (int16_t)(v ^ (v >> 15 & 0x7fff)); }
static int16_t largest_turned(const int16_t *x, int64_t n) {
  enum { BLOCK_16 = 64 };
  int16_t m[BLOCK_16], top = INT16_MIN;
  int64_t i = 0;
  if (n < BLOCK_16) {
    for (; i < n; i++) top = turned_half(x[i]) > top ? turned_half(x[i]) : top;
    return top;
  }
#if defined(__AVX512F__)
  __m512i low = _mm512_set1_epi16(INT16_MIN), high = low;
  const __m512i bits = _mm512_set1_epi16(0x7fff);
  for (; i < n; i += BLOCK_16) {
    i = PF_MIN(i, n - BLOCK_16); /* the last block ends with the row */
    __m512i a = _mm512_loadu_si512(x + i), b = _mm512_loadu_si512(x + i + 32);
    a = _mm512_ternarylogic_epi32(a, _mm512_srai_epi16(a, 15), bits, 0x78); /* a ^ (s & bits) */
    b = _mm512_ternarylogic_epi32(b, _mm512_srai_epi16(b, 15), bits, 0x78);
    low = _mm512_max_epi16(low, a), high = _mm512_max_epi16(high, b);
  }
  _mm512_storeu_si512(m, low), _mm512_storeu_si512(m + 32, high);
#else
  for (int l = 0; l < BLOCK_16; l++) m[l] = INT16_MIN;
  for (; i < n; i += BLOCK_16) {
    i = PF_MIN(i, n - BLOCK_16);
    for (int l = 0; l < BLOCK_16; l++) {
      int16_t v = turned_half(x[i + l]);
      m[l] = v > m[l] ? v : m[l];
    }
  }
#endif
  for (int l = 0; l < BLOCK_16; l++) top = m[l] > top ? m[l] : top;
  return top;
}
PF_INLINE float row_largest_half(int32_t type, const int16_t *x, int64_t n) {
  uint16_t bits = (uint16_t)turned_half(largest_turned(x, n));
  return type == PF_FLOAT16 ? pf_from_half(bits) : pf_from_bf16(bits);
}

/* The sum of n times exp(x - m); e gets the terms unless it is NULL.  What lies `next` elements
 * further is fetched. */
PF_INLINE float piece_exponentials(int32_t type, const void *x, float *e, int64_t n, float m,
                                   int64_t next) {
  enum { U = 4 };
#if defined(__AVX512F__)
  /* of a sum's logarithm, 3 are as good: its terms are small where their error is large */
  const int digits = e ? 4 : 3;
#else
  const int digits = 4;
#endif
  const int degree = type == PF_FLOAT32 ? digits : type == PF_FLOAT16 ? 3 : 2;
  pf_vf sum[U] = {pf_vf_set(0), pf_vf_set(0), pf_vf_set(0), pf_vf_set(0)}, top = pf_vf_set(m);
  pf_vf v[U];
  const int64_t whole = n / (U * PF_VF) * (U * PF_VF);
  int64_t i = 0;
  for (; i < whole; i += U * PF_VF) {
    for (int u = 0; u < U; u++)
      if (type == PF_FLOAT32 || u % 2 == 0)
        __builtin_prefetch(pf_vf_at(type, x, i + next + u * PF_VF));
    for (int u = 0; u < U; u++) v[u] = pf_vf_read(type, pf_vf_at(type, x, i + u * PF_VF));
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
PF_INLINE float row_exponentials(int32_t type, const void *x, float *e, int64_t n, float m) {
  enum { PIECE = LANE_TERMS * 4 * PF_VF };
  double sum = 0;
  for (int64_t i = 0; i < n; i += PIECE) /* the next row is fetched */
    sum += piece_exponentials(type, pf_vf_at(type, x, i), e ? e + i : NULL, PF_MIN(PIECE, n - i), m,
                              n);
  return (float)sum;
}

/* What is left to do of a row: y = from * c, or from - m - l.  Past the caches: `known` has
 * what is known of the line that the row begins in (NULL: that is not ours), `next` gets the line
 * it ends in. */
typedef struct {
  const void *from;
  void *y;
  float m, c, l;
  char *known, *next;
} row_rest;

PF_INLINE pf_vf rest_of(int log, pf_vf v, pf_vf m, pf_vf c, pf_vf l) {
  return log ? (v - m) - l : v * c;
}
/* elements [i, end), through the caches */
PF_INLINE void finish_parts(int log, int32_t from, int32_t type, row_rest r, int64_t i,
                            int64_t end) {
  pf_vf m = pf_vf_set(r.m), c = pf_vf_set(r.c), l = pf_vf_set(r.l);
  for (; i < end; i += PF_VF) {
    pf_vf v = pf_vf_read_part(from, pf_vf_at(from, r.from, i), end - i);
    pf_vf_write_part(type, pf_vf_at(type, r.y, i), rest_of(log, v, m, c, l), end - i);
  }
}
/* Parts of a line: `begin_line` n elements at its front from element i on, `join_line` the first n
 * elements from byte `off` on; it goes to `whole` if it is complete, which is NULL if not.
 *
 * AVX-512: as whole vectors, for what is stored in parts can be loaded as a whole only when all
 * stores before it, those past the caches too, are done. */
#if defined(__AVX512F__)
PF_INLINE pf_vf lanes_of(int32_t type, const void *p, __mmask16 k) {
  if (type == PF_FLOAT32) return _mm512_maskz_loadu_ps(k, p);
  const __m256i h = _mm256_maskz_loadu_epi16(k, p);
  if (type == PF_FLOAT16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
PF_INLINE __m256i as_halves(int32_t type, pf_vf v) {
  return type == PF_FLOAT16 ? _mm512_cvtps_ph(v, 0) : bfloat16_of_floats(v);
}
/* The elements of a line that begins with element i, those of `k`. */
PF_INLINE __m512i line_of(int log, int32_t from, int32_t type, row_rest r, int64_t i, uint32_t k) {
  const pf_vf m = pf_vf_set(r.m), c = pf_vf_set(r.c), l = pf_vf_set(r.l);
  const pf_vf v = rest_of(log, lanes_of(from, pf_vf_at(from, r.from, i), (__mmask16)k), m, c, l);
  if (type == PF_FLOAT32) return _mm512_castps_si512(v);
  const void *high = pf_vf_at(from, r.from, i + PF_VF);
  const pf_vf w = rest_of(log, lanes_of(from, high, (__mmask16)(k >> 16)), m, c, l);
  return _mm512_inserti64x4(_mm512_castsi256_si512(as_halves(type, v)), as_halves(type, w), 1);
}
PF_INLINE uint32_t first_lanes(int64_t n) { return n >= 32 ? ~0u : (1u << n) - 1; }
PF_INLINE void begin_line(int log, int32_t from, int32_t type, row_rest r, int64_t i, int64_t n) {
  _mm512_store_si512(r.next, line_of(log, from, type, r, i, first_lanes(n)));
}
PF_INLINE void join_line(int log, int32_t from, int32_t type, row_rest r, int64_t n, int64_t off,
                         void *whole) {
  const int64_t skip = off / pf_vf_size(type);
  const uint32_t k = first_lanes(n) << skip;
  __m512i line = _mm512_load_si512(r.known), v = line_of(log, from, type, r, -skip, k);
  if (type == PF_FLOAT32) line = _mm512_mask_mov_epi32(line, (__mmask16)k, v);
  else line = _mm512_mask_mov_epi16(line, k, v);
  if (whole) _mm512_stream_si512(whole, line);
  else _mm512_store_si512(r.known, line);
}
#else
PF_INLINE void begin_line(int log, int32_t from, int32_t type, row_rest r, int64_t i, int64_t n) {
  r.from = pf_vf_at(from, r.from, i), r.y = r.next;
  finish_parts(log, from, type, r, 0, n);
}
PF_INLINE void join_line(int log, int32_t from, int32_t type, row_rest r, int64_t n, int64_t off,
                         void *whole) {
  enum { FLOATS = 16 };
  r.y = r.known + off;
  finish_parts(log, from, type, r, 0, n);
  for (int k = 0; k < FLOATS && whole; k += PF_VF)
    pf_vf_write(PF_FLOAT32, (float *)whole + k, pf_vf_load((const float *)r.known + k), 1);
}
#endif
/* The first elements of a row, those up to a whole line; returns their number. */
PF_INLINE int64_t finish_line(int log, int32_t from, int32_t type, row_rest r, int64_t n) {
  const int64_t off = (int64_t)((uintptr_t)r.y % 64), left = (64 - off) / pf_vf_size(type);
  const int64_t i = off ? PF_MIN(left, n) : 0;
  if (!r.known) finish_parts(log, from, type, r, 0, i);
  else if (i) join_line(log, from, type, r, i, off, i == left ? (char *)r.y - off : NULL);
  return i;
}
/* A row; `past` the caches in whole lines. */
PF_INLINE void row_finish(int log, int32_t from, int32_t type, row_rest r, int64_t n, int past) {
  pf_vf m = pf_vf_set(r.m), c = pf_vf_set(r.c), l = pf_vf_set(r.l);
  int64_t i = past ? finish_line(log, from, type, r, n) : 0;
  const int64_t end = past ? n - (n - i) % (64 / pf_vf_size(type)) : n;
  for (; i + 2 * PF_VF <= end; i += 2 * PF_VF) {
    pf_vf v = rest_of(log, pf_vf_read(from, pf_vf_at(from, r.from, i)), m, c, l);
    pf_vf w = rest_of(log, pf_vf_read(from, pf_vf_at(from, r.from, i + PF_VF)), m, c, l);
    void *y = pf_vf_at(type, r.y, i);
    if (past && type != PF_FLOAT32) pf_vf_stream_pair(type, y, v, w);
    else {
      pf_vf_write(type, y, v, past);
      pf_vf_write(type, pf_vf_at(type, y, PF_VF), w, past);
    }
  }
  if (past && i < end) { /* one that a vector fills */
    pf_vf v = rest_of(log, pf_vf_read(from, pf_vf_at(from, r.from, i)), m, c, l);
    pf_vf_write(type, pf_vf_at(type, r.y, i), v, 1);
    i += PF_VF;
  }
  if (!past) finish_parts(log, from, type, r, i, n);
  else if (i < n) begin_line(log, from, type, r, i, n - i);
}

/* sum of q (l - (x - m)), where q is not zero; out, which has exp(x - m), becomes out * c - q */
static float piece_entropy(const float *x, const float *q, float *out, int64_t n, float m, float l,
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
static float row_entropy(const float *x, const float *q, float *out, int64_t n, float m, float l,
                         float c) {
  enum { PIECE = LANE_TERMS * PF_VF };
  double sum = 0;
  for (int64_t i = 0; i < n; i += PIECE)
    sum += piece_entropy(x + i, q + i, out + i, PF_MIN(PIECE, n - i), m, l, c);
  return (float)sum;
}

/* One copy of each loop per type: a row is long enough for calls. */
typedef struct {
  int64_t size;
  float (*largest)(const void *x, int64_t n);
  float (*exponentials)(const void *x, float *e, int64_t n, float m);
  void (*finish[2])(row_rest r, int64_t n);     /* from exponentials, which are floats */
  void (*finish_log[2])(row_rest r, int64_t n); /* from the row itself; [1]: past the caches */
} row_loops;
#define ROW_FINISH(TYPE, TAG, PAST) \
  static void finish_##TAG##PAST(row_rest r, int64_t n) { \
    row_finish(0, PF_FLOAT32, TYPE, r, n, PAST); \
  } \
  static void finish_log_##TAG##PAST(row_rest r, int64_t n) { \
    row_finish(1, TYPE, TYPE, r, n, PAST); \
  }
#define ROW_LOOPS(TYPE, TAG, LARGEST) \
  static float largest_##TAG(const void *x, int64_t n) { return LARGEST; } \
  static float exponentials_##TAG(const void *x, float *e, int64_t n, float m) { \
    return e ? row_exponentials(TYPE, x, e, n, m) : row_exponentials(TYPE, x, NULL, n, m); \
  } \
  ROW_FINISH(TYPE, TAG, 0) \
  ROW_FINISH(TYPE, TAG, 1) \
  static const row_loops row_loops_##TAG = { \
    TYPE == PF_FLOAT32 ? 4 : 2, largest_##TAG, exponentials_##TAG, \
    {finish_##TAG##0, finish_##TAG##1}, {finish_log_##TAG##0, finish_log_##TAG##1}};
ROW_LOOPS(PF_FLOAT32, f32, row_largest((const float *)x, n))
ROW_LOOPS(PF_FLOAT16, f16, row_largest_half(PF_FLOAT16, (const int16_t *)x, n))
ROW_LOOPS(PF_BFLOAT16, bf16, row_largest_half(PF_BFLOAT16, (const int16_t *)x, n))

/* Rows one after the other; `room` is a row of floats, or NULL where y itself holds the
 * exponentials (floats only).  `past`: what is stored past the caches; needs `room`.  Rows share
 * lines: `shared` has the one that is not whole. */
static void rows_softmax(const row_loops *f, int log, const char *x, char *y, int64_t rows,
                         int64_t n, float *room, int past) {
  const int64_t bytes = n * f->size;
  const char *begin = y;
  char shared[64] __attribute__((aligned(64)));
  float m = f->largest(x, n);
  for (int64_t r = 0; r < rows; r++, x += bytes, y += bytes) {
    float *e = log ? NULL : room ? room : (float *)y, top = m;
    char *known = y - (uintptr_t)y % 64 >= begin ? shared : NULL;
    if ((const char *)e != y && !past) /* its lines come while there is arithmetic to do */
      for (int64_t k = 0; k < PF_MIN(bytes, FETCHED); k += 64) __builtin_prefetch(y + k, 1);
    float sum = f->exponentials(x, e, n, top);
    if (!past && r + 1 < rows) m = f->largest(x + bytes, n);
    if (log) f->finish_log[past]((row_rest){x, y, top, 1, pf_log_f32(sum), known, shared}, n);
    else f->finish[past]((row_rest){e, y, 0, 1 / sum, 0, known, shared}, n);
    if (past && r + 1 < rows) m = f->largest(x + bytes, n); /* its end is still on its way */
  }
  if (!past) return;
  const int64_t rest = (int64_t)((uintptr_t)y % 64);
  if (y - rest >= begin) memcpy(y - rest, shared, (size_t)rest);
  pf_vf_fence();
}
#endif
