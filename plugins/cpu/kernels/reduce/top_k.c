/* top_k.c - TopK: the best k of each row, falling, and where they stood; tf.sort of whole rows too.
 *
 * Method: an element becomes a signed integer, its key, that rises as elements fall; below it goes
 * the element's index, so that rows of (key, index) have no ties and the lower index comes first.
 *   few (k <= FEW, or short rows)   a heap of the best so far; blocks without a better key are
 *                                   passed over by one comparison of vectors
 *   many                            a histogram of the keys' highest digit finds where the k-th
 *                                   lies; what lies up to there is sorted by digits, lowest first
 *                                   (Knuth, The Art of Computer Programming 3, 5.2.5)
 * Invariants
 *   1. -0 is 0; NaN comes after every number.
 *   2. Results do not depend on threads: a row belongs to one.
 * Threads: parallel_for over rows, each worker with room of its own.
 */
#include "base/common.h"

enum { FEW = 48, SHORT = 256, BLOCK = 512, LANES = 16, DIGIT = 11, DIGITS = 1 << DIGIT };

/* ---------------------------------------------------------------- keys */
typedef void (*key_loop)(const void *x, int64_t n, void *key);
#define KEYS(TAG, T, K, EXPR) \
  static void keys_##TAG(const void *px, int64_t n, void *pk) { \
    const T *x = (const T *)px; \
    K *key = (K *)pk; \
    for (int64_t i = 0; i < n; i++) { K v = (K)x[i]; key[i] = (K)(EXPR); } \
  }
/* bits of a float: magnitudes of negative ones turn round, -0 becomes 0, NaN the last key */
#define FLOAT_KEY(K, SHIFT, MAGNITUDE, INFINITE, LAST) \
  (v & (MAGNITUDE)) > (INFINITE) ? (LAST) \
                                 : ~((v & (MAGNITUDE)) ? v ^ ((v >> (SHIFT)) & (MAGNITUDE)) : 0)
KEYS(i8, int8_t, int32_t, ~v)
KEYS(i16, int16_t, int32_t, ~v)
KEYS(i32, int32_t, int32_t, ~v)
KEYS(i64, int64_t, int64_t, ~v)
KEYS(u8, uint8_t, int32_t, ~v)
KEYS(u16, uint16_t, int32_t, ~v)
KEYS(u32, uint32_t, int32_t, v ^ INT32_MAX)
KEYS(u64, uint64_t, int64_t, v ^ INT64_MAX)
KEYS(f32, int32_t, int32_t, FLOAT_KEY(int32_t, 31, INT32_MAX, 0x7f800000, INT32_MAX))
KEYS(f64, int64_t, int64_t, FLOAT_KEY(int64_t, 63, INT64_MAX, 0x7ff0000000000000, INT64_MAX))
KEYS(f16, int16_t, int32_t, FLOAT_KEY(int32_t, 31, 0x7fff, 0x7c00, INT32_MAX))
KEYS(b16, int16_t, int32_t, FLOAT_KEY(int32_t, 31, 0x7fff, 0x7f80, INT32_MAX))
static const key_loop key_loops[PF_TYPE_COUNT] = {
  [PF_INT8] = keys_i8,     [PF_INT16] = keys_i16,   [PF_INT32] = keys_i32,
  [PF_INT64] = keys_i64,   [PF_UINT8] = keys_u8,    [PF_UINT16] = keys_u16,
  [PF_UINT32] = keys_u32,  [PF_UINT64] = keys_u64,  [PF_FLOAT32] = keys_f32,
  [PF_FLOAT64] = keys_f64, [PF_FLOAT16] = keys_f16, [PF_BFLOAT16] = keys_b16};

/* ---------------------------------------------------------------- the least k (key, index) */
typedef struct {
  key_loop keys;
  const char *x;
  char *values, *room; /* room: `each` bytes for a worker, or, `few_rows`, a row */
  int32_t *at;
  int64_t n, k, esize, each;
  int32_t few_rows;
} top_task;
#define EACH_BLOCK(t, x, K) \
  K key[BLOCK + LANES]; \
  for (int64_t i = 0, b; b = PF_MIN(BLOCK, (t)->n - i), \
       b > 0 && ((t)->keys((x) + i * (t)->esize, b, key), 1); i += b)

/* A pair, key and index, as one unsigned number W: which of two comes first, and its parts. */
#define AS_NUMBER(K, U, W, TAG) \
  typedef W pair_##TAG; \
  PF_INLINE W pack_##TAG(K key, int64_t i) { return (W)UNSIGNED(K, U, key) << 32 | (W)i; } \
  PF_INLINE U bits_of_##TAG(W w) { return (U)(w >> 32); } \
  PF_INLINE uint32_t at_of_##TAG(W w) { return (uint32_t)w; } \
  PF_INLINE int before_##TAG(W a, W b) { return a < b; }
#define UNSIGNED(K, U, key) ((U)(key) ^ (U)1 << (8 * sizeof(K) - 1))    /* in the same order */
AS_NUMBER(int32_t, uint32_t, uint64_t, narrow)
#ifdef __SIZEOF_INT128__
AS_NUMBER(int64_t, uint64_t, unsigned __int128, wide)
#else /* machines of 32 bits */
typedef struct {
  uint64_t bits;
  uint32_t at;
} pair_wide;
PF_INLINE pair_wide pack_wide(int64_t key, int64_t i) {
  return (pair_wide){UNSIGNED(int64_t, uint64_t, key), (uint32_t)i};
}
PF_INLINE uint64_t bits_of_wide(pair_wide w) { return w.bits; }
PF_INLINE uint32_t at_of_wide(pair_wide w) { return w.at; }
PF_INLINE int before_wide(pair_wide a, pair_wide b) {
  return a.bits < b.bits || (a.bits == b.bits && a.at < b.at);
}
#endif

/* K: keys, U: unsigned */
#define TOP(K, U, TAG) \
  enum { BITS_##TAG = 8 * sizeof(K), PASSES_##TAG = (BITS_##TAG + DIGIT - 1) / DIGIT }; \
  PF_INLINE K key_of_##TAG(pair_##TAG w) { return (K)UNSIGNED(K, U, bits_of_##TAG(w)); } \
  static void sink_##TAG(pair_##TAG *h, int64_t n, int64_t i) { \
    pair_##TAG v = h[i]; \
    for (int64_t kid; (kid = 2 * i + 1) < n; i = kid) { \
      kid += kid + 1 < n && before_##TAG(h[kid], h[kid + 1]); \
      if (!before_##TAG(v, h[kid])) break; \
      h[i] = h[kid]; \
    } \
    h[i] = v; \
  } \
  static pair_##TAG *few_##TAG(const top_task *t, const char *x, pair_##TAG *h) { \
    int64_t have = 0, k = t->k; \
    K limit = 0; \
    EACH_BLOCK(t, x, K) { \
      int64_t j = 0; \
      for (; j < b && have < k; j++) { \
        h[have++] = pack_##TAG(key[j], i + j); \
        if (have < k) continue; \
        for (int64_t m = k / 2 - 1; m >= 0; m--) sink_##TAG(h, k, m); \
        limit = key_of_##TAG(h[0]); \
      } \
      for (int64_t m = 0; m < LANES; m++) key[b + m] = (K)((U)~(U)0 >> 1); \
      for (; j < b; j += LANES) { \
        int better = 0; \
        for (int64_t m = 0; m < LANES; m++) better |= key[j + m] < limit; \
        for (int64_t m = 0; better && m < LANES; m++) { \
          if (key[j + m] >= limit) continue; \
          h[0] = pack_##TAG(key[j + m], i + j + m), sink_##TAG(h, k, 0); \
          limit = key_of_##TAG(h[0]); \
        } \
      } \
    } \
    for (int64_t m = k - 1; m > 0; m--) { \
      pair_##TAG v = h[0]; \
      h[0] = h[m], h[m] = v; \
      sink_##TAG(h, m, 0); \
    } \
    return h; \
  } \
  static pair_##TAG *by_digits_##TAG(pair_##TAG *a, pair_##TAG *b, int64_t n) { \
    uint32_t count[PASSES_##TAG][DIGITS]; \
    memset(count, 0, sizeof count); \
    for (int64_t i = 0; i < n; i++) \
      for (int p = 0; p < PASSES_##TAG; p++) \
        count[p][bits_of_##TAG(a[i]) >> DIGIT * p & (DIGITS - 1)]++; \
    for (int p = 0; p < PASSES_##TAG; p++) { \
      int shift = DIGIT * p; \
      if (count[p][bits_of_##TAG(a[0]) >> shift & (DIGITS - 1)] == n) continue; \
      for (uint32_t d = 0, at = 0, c; d < DIGITS; d++, at += c) \
        c = count[p][d], count[p][d] = at; \
      for (int64_t i = 0; i < n; i++) \
        b[count[p][bits_of_##TAG(a[i]) >> shift & (DIGITS - 1)]++] = a[i]; \
      pair_##TAG *other = a; \
      a = b, b = other; \
    } \
    return a; \
  } \
  static pair_##TAG *many_##TAG(const top_task *t, const char *x, pair_##TAG *a) { \
    K last = (K)((U)~(U)0 >> 1); \
    int64_t m = 0; \
    if (t->k < t->n / 4 * 3) { \
      uint32_t count[DIGITS] = {0}; \
      int64_t digit = 0, before = 0; \
      EACH_BLOCK(t, x, K) \
        for (int64_t j = 0; j < b; j++) count[(key[j] >> (BITS_##TAG - DIGIT)) + DIGITS / 2]++; \
      while ((before += count[digit]) < t->k) digit++; \
      last = (K)((U)(digit - DIGITS / 2) << (BITS_##TAG - DIGIT) | \
                 (U)~(U)0 >> DIGIT); \
    } \
    EACH_BLOCK(t, x, K) \
      for (int64_t j = 0; j < b; j++) a[m] = pack_##TAG(key[j], i + j), m += key[j] <= last; \
    return by_digits_##TAG(a, a + t->n + 1, m); \
  } \
  static void rows_##TAG(void *arg, int64_t lo, int64_t hi, int32_t worker) { \
    const top_task *t = (const top_task *)arg; \
    for (int64_t r = lo; r < hi; r++) { \
      pair_##TAG *room = (pair_##TAG *)(t->room + (t->few_rows ? r : worker) * t->each); \
      const char *x = t->x + r * t->n * t->esize; \
      char *values = t->values + r * t->k * t->esize; \
      int32_t *at = t->at + r * t->k; \
      const int few = t->k <= FEW || t->n < SHORT; \
      pair_##TAG *w = few ? few_##TAG(t, x, room) : many_##TAG(t, x, room); \
      for (int64_t i = 0; i < t->k; i++) at[i] = (int32_t)at_of_##TAG(w[i]); \
      pick(x, at, t->k, t->esize, values); \
    } \
  }
#define PICK(T) \
  for (int64_t i = 0; i < k; i++) ((T *)y)[i] = ((const T *)x)[at[i]]; \
  break;
static void pick(const char *x, const int32_t *at, int64_t k, int64_t esize, char *y) {
  switch (esize) {
    case 1: PICK(uint8_t)
    case 2: PICK(uint16_t)
    case 4: PICK(uint32_t)
    default: PICK(uint64_t)
  }
}
TOP(int32_t, uint32_t, narrow)
TOP(int64_t, uint64_t, wide)

/* ---------------------------------------------------------------- kernels */
static pf_status top_rows(pf_ctx *c, int64_t k) {
  const DLTensor *x = c->in[0];
  int64_t shape[PF_MAX_DIMS], esize = pf_type_size(c->in_type[0]);
  PF_TRY(pf_check_rank(c, x, "input"));
  if (k < 0) return PF_INVALID(c, "Need k >= 0, got %" PRId64, k);
  if (x->ndim < 1) return PF_INVALID(c, "input must be >= 1-D, got shape %s", PF_SHAPE(x).s);
  int64_t cols = x->shape[x->ndim - 1], n = pf_numel(x);
  if (cols < k)
    return PF_INVALID(c, "input must have at least k columns. Had %" PRId64 ", needed %" PRId64,
                      cols, k);
  if (cols > INT32_MAX)
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "input has %" PRId64 " columns, more than int32 indices hold", cols);
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
  shape[x->ndim - 1] = k;
  DLTensor *values = pf_output_checked(c, 0, shape, x->ndim);
  PF_EXHAUSTED(values);
  DLTensor *at = c->host->output(c, 1, shape, x->ndim);
  PF_EXHAUSTED(at);
  if (k == 0 || n == 0) return PF_OK;
  top_task t = {.keys = key_loops[c->in_type[0]],
                .x = PF_DATA(const char, x),
                .values = PF_DATA(char, values),
                .at = PF_DATA(int32_t, at),
                .n = cols,
                .k = k,
                .esize = esize};
  int64_t room = k <= FEW || cols < SHORT ? k : 2 * cols + 2;
  int64_t pair = esize == 8 ? sizeof(pair_wide) : sizeof(pair_narrow);
  int64_t rows = n / cols, workers = c->host->workers(c);
  t.each = (room * pair + 63) / 64 * 64, t.few_rows = rows < workers;
  t.room = c->host->scratch(c, (uint64_t)(t.each * PF_MIN(rows, workers)), 64);
  PF_EXHAUSTED(t.room);
  int64_t m = pf_numel(values);
  if (c->out_type[1] != PF_INT32) { /* index_type: int16 or int64 */
    t.at = (int32_t *)c->host->scratch(c, (uint64_t)m * 4, 64);
    PF_EXHAUSTED(t.at);
  }
  PF_TRY(pf_parallel(c, rows, pf_grain(cols), esize == 8 ? rows_wide : rows_narrow, &t));
  for (int64_t i = 0; c->out_type[1] != PF_INT32 && i < m; i++)
    pf_put_index(at, c->out_type[1], i, t.at[i]);
  return PF_OK;
}
typedef struct { int64_t k; } k_state;
static pf_status top_k(pf_ctx *c, const void *state) {
  return top_rows(c, ((const k_state *)state)->k);
}
static pf_status top_k_v2(pf_ctx *c, const void *state) {
  int64_t k;
  (void)state;
  if (c->in[1]->ndim != 0)
    return PF_INVALID(c, "k must be scalar, got shape %s", PF_SHAPE(c->in[1]).s);
  PF_TRY(pf_in_scalar(c, 1, "k", &k));
  return top_rows(c, k);
}
const pf_kernel *const top_k_kernels[] = {
  PF_CPU("TopK", "T=" PF_REAL, .compute = top_k, .state_size = sizeof(k_state),
         .attrs = PF_ATTRS(PF_ATTR(k_state, PF_ATTR_INT, k))),
  PF_CPU("TopKV2", "T=" PF_REAL, .compute = top_k_v2), NULL};
