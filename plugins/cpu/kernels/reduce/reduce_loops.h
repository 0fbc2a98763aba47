/* reduce_loops.h - the loops of reductions.c over vectors of one machine width, per op and type.
 *
 *     rows    a row's elements go to the lanes of some vectors in turn, and those are joined.  As
 *             many rows as a vector has lanes are finished together: one tree of shuffles turns
 *             their vectors into one of results.  Of short rows several share a vector:
 *
 *                 rows of 3, vectors of 16:   a0 a1 a2 . b0 b1 b2 . c0 c1 c2 . d0 d1 d2 .
 *
 *     block   y[j] joined with x[r][j] of some rows, strips of columns in registers.  From memory,
 *             rows that lie together are read as fast as one array one after the other, y in the
 *             nearest cache; others eight at a time, where the next eight are prefetched (0.7 to
 *             0.9 times as fast where not)
 *
 * `rows` exists for elements of 4 and 8 bytes: the caller widens smaller ones, and gives extremes
 * of unsigned ones as signed.
 *
 * Invariants
 *   1. A long row has as many partial results as VECTORS have lanes, 32 and more but for doubles
 *      on SSE2 (16).
 *   2. Nothing outside the rows or a strip is read: parts of vectors are masked.
 *   3. max and min keep NaN.
 * Threads: pure.
 */
#ifndef PF_CPU_REDUCE_LOOPS_H
#define PF_CPU_REDUCE_LOOPS_H
#include "base/common.h"
#include "vec/simd.h"

#if defined(__AVX512F__)
enum { WIDTH = 64 }; /* bytes of a vector */
#elif defined(__AVX2__) && defined(__FMA__)
enum { WIDTH = 32 };
#else
enum { WIDTH = 16 };
#endif
enum {
  LANES = 32,
  STRIP = 4,    /* of a row; vectors of a strip */
  AHEAD = 4096, /* bytes: where rows are prefetched */
  FAR = 1,
  PAST = 2
}; /* x is not in the near caches; y goes past them */
#define VECTORS(L) (LANES / (L) > 8 ? 8 : LANES / (L) > 4 ? LANES / (L) : 4)   /* of a row */

typedef struct reduce_loops {
  /* y[r] from row r of n elements, 1 <= n; or NULL: `wide` has it.  FAR: x is prefetched; PAST:
   * whole lines of y are stored without being read (who calls it calls PAST_FENCE) */
  void (*rows)(const void *x, void *y, int64_t rows, int64_t n, int32_t where);
  /* y[j] joined with x[r * stride + j], r < rows, j < w; what lies `ahead` elements behind those
   * is prefetched; -1: row by row, rows lie together (`rows` exists, WIDTH > 16) */
  void (*block)(const void *x, int64_t rows, int64_t stride, int64_t ahead, void *y, int64_t w);
  const struct reduce_loops *join; /* of partial results */
  const struct reduce_loops *wide; /* the same of 32 bits, or signed */
  const void *zero;                /* the neutral element */
} reduce_loops;

/* of lanes, anywhere in memory, of lane numbers */
#define VECTOR(T, TAG, K) \
  typedef T TAG##_v __attribute__((vector_size(WIDTH))); \
  typedef K TAG##_k __attribute__((vector_size(WIDTH))); \
  typedef K TAG##_k_any __attribute__((vector_size(WIDTH), aligned(1), may_alias)); \
  typedef T TAG##_any __attribute__((vector_size(WIDTH), aligned(1), may_alias));
VECTOR(float, f32, int32_t)
VECTOR(double, f64, int64_t)
VECTOR(int8_t, i8, int8_t)
VECTOR(uint8_t, u8, int8_t)
VECTOR(int16_t, i16, int16_t)
VECTOR(uint16_t, u16, int16_t)
VECTOR(int32_t, i32, int32_t)
VECTOR(uint32_t, u32, int32_t)
VECTOR(int64_t, i64, int64_t)
VECTOR(uint64_t, u64, int64_t)

/* The first n elements of `size` bytes, at most a vector; `rest` has the others.  And back. */
#if defined(__AVX512F__)
typedef uint64_t part; /* a bit per element; per byte of small ones */
PF_INLINE part part_of(int64_t n, int64_t size) {
  return _bzhi_u64(~0ull, (uint32_t)PF_MAX(PF_MIN(size < 4 ? n * size : n, WIDTH), 0));
}
PF_INLINE i8_v load_part(const void *p, part k, int64_t size, i8_v rest) {
  if (size == 4) return (i8_v)_mm512_mask_loadu_epi32((__m512i)rest, (__mmask16)k, p);
  if (size == 8) return (i8_v)_mm512_mask_loadu_epi64((__m512i)rest, (__mmask8)k, p);
  return (i8_v)_mm512_mask_loadu_epi8((__m512i)rest, k, p);
}
PF_INLINE void store_part(void *p, i8_v v, part k, int64_t size) {
  if (size == 4) _mm512_mask_storeu_epi32(p, (__mmask16)k, (__m512i)v);
  else if (size == 8) _mm512_mask_storeu_epi64(p, (__mmask8)k, (__m512i)v);
  else _mm512_mask_storeu_epi8(p, k, (__m512i)v);
}
#else
typedef int64_t part; /* elements; bytes of small ones */
PF_INLINE part part_of(int64_t n, int64_t size) {
  return PF_MAX(PF_MIN(n, WIDTH / size), 0) * (size < 4 ? size : 1);
}
PF_INLINE i8_v load_part(const void *p, part k, int64_t size, i8_v rest) {
#if defined(__AVX2__) && defined(__FMA__)
  if (size >= 4) {
    __m256i m = size == 4 ? pf_lanes_32((int)k) : pf_lanes_64((int)k);
    __m256i v = size == 4 ? _mm256_maskload_epi32(p, m) : _mm256_maskload_epi64(p, m);
    return (i8_v)_mm256_blendv_epi8((__m256i)rest, v, m);
  }
#endif
  memcpy(&rest, p, (size_t)(size < 4 ? k : k * size));
  return rest;
}
PF_INLINE void store_part(void *p, i8_v v, part k, int64_t size) {
  memcpy(p, &v, (size_t)(size < 4 ? k : k * size));
}
#endif
#if defined(__AVX512F__)
#define STORE_PAST(p, v) _mm512_stream_si512((void *)(p), (__m512i)(v))
#elif defined(__AVX2__) && defined(__FMA__)
#define STORE_PAST(p, v) _mm256_stream_si256((__m256i *)(p), (__m256i)(v))
#elif defined(__SSE2__)
#define STORE_PAST(p, v) _mm_stream_si128((__m128i *)(p), (__m128i)(v))
#else
#define STORE_PAST(p, v) memcpy(p, &(v), WIDTH)
#endif
#if defined(__SSE2__)
#define PAST_FENCE() _mm_sfence()
#else
#define PAST_FENCE() (void)0
#endif

/* ---------------------------------------------------------------- joining vectors */
#define SUM_OF(TAG, a, b) ((a) + (b))
#define PROD_OF(TAG, a, b) ((a) * (b))
#define MAX_OF(TAG, a, b) max_##TAG(a, b)
#define MIN_OF(TAG, a, b) min_##TAG(a, b)
#define AS_IS(v) (v)
#define SQUARE(v) ((v) * (v))
/* b where `better` or NaN, by lanes */
#define PICKED(NAME, TAG, better) \
  PF_INLINE TAG##_v NAME##_##TAG(TAG##_v a, TAG##_v b) { \
    TAG##_k k = (b better a) | (b != b); \
    return (TAG##_v)((k & (TAG##_k)b) | (~k & (TAG##_k)a)); \
  }
#define PICKED_BOTH(TAG) PICKED(max, TAG, >) PICKED(min, TAG, <)
#if defined(__AVX512F__)
/* the instruction gives a, its second operand, if one is NaN; only it waits for a */
#define FLOAT_BEST(NAME, TAG, SUFFIX) \
  PF_INLINE TAG##_v NAME##_##TAG(TAG##_v a, TAG##_v b) { \
    return _mm512_mask_##NAME##_##SUFFIX(b, _mm512_cmp_##SUFFIX##_mask(b, b, _CMP_ORD_Q), b, a); \
  }
#define INT_BEST(NAME, TAG, SUFFIX) \
  PF_INLINE TAG##_v NAME##_##TAG(TAG##_v a, TAG##_v b) { \
    return (TAG##_v)_mm512_##NAME##_##SUFFIX((__m512i)a, (__m512i)b); \
  }
#elif defined(__AVX2__) && defined(__FMA__)
#define FLOAT_BEST(NAME, TAG, SUFFIX) \
  PF_INLINE TAG##_v NAME##_##TAG(TAG##_v a, TAG##_v b) { \
    return _mm256_blendv_##SUFFIX(_mm256_##NAME##_##SUFFIX(b, a), b, \
                                  _mm256_cmp_##SUFFIX(b, b, _CMP_UNORD_Q)); \
  }
#define INT_BEST(NAME, TAG, SUFFIX) \
  PF_INLINE TAG##_v NAME##_##TAG(TAG##_v a, TAG##_v b) { \
    return (TAG##_v)_mm256_##NAME##_##SUFFIX((__m256i)a, (__m256i)b); \
  }
#endif
#ifdef FLOAT_BEST
#define BEST(TAG, SUFFIX) INT_BEST(max, TAG, SUFFIX) INT_BEST(min, TAG, SUFFIX)
FLOAT_BEST(max, f32, ps)
FLOAT_BEST(min, f32, ps)
FLOAT_BEST(max, f64, pd)
FLOAT_BEST(min, f64, pd)
BEST(i8, epi8)
BEST(u8, epu8)
BEST(i16, epi16)
BEST(u16, epu16)
BEST(i32, epi32)
BEST(u32, epu32)
#if defined(__AVX512F__)
BEST(i64, epi64)
BEST(u64, epu64)
#else
PICKED_BOTH(i64)
PICKED_BOTH(u64)
#endif
#else
PICKED_BOTH(f32)
PICKED_BOTH(f64)
PICKED_BOTH(i8)
PICKED_BOTH(u8)
PICKED_BOTH(i16)
PICKED_BOTH(u16)
PICKED_BOTH(i32)
PICKED_BOTH(u32)
PICKED_BOTH(i64)
PICKED_BOTH(u64)
#endif

/* ---------------------------------------------------------------- strips of columns */
#define ONE_BY_ONE _Pragma("GCC unroll 1")         /* in machine code, too */
#if defined(__AVX2__) && defined(__FMA__)
#define ALL_OF_THEM _Pragma("GCC unroll 16")       /* their vectors are in registers */
#else
#define ALL_OF_THEM
#endif
#define AT(TAG, p) (*(const TAG##_any *)(p))
#define PART(TAG, T, p, k, zero) ((TAG##_v)load_part(p, k, sizeof(T), (i8_v)(zero)))
#define BLOCK(NAME, TAG, T, LOAD, JOIN, BY_ROW) \
  static void NAME##_##TAG##_block(const void *px, int64_t rows, int64_t stride, int64_t ahead, \
                                   void *py, int64_t w) { \
    enum { L = WIDTH / sizeof(T) }; \
    const T *x = (const T *)px; \
    T *y = (T *)py; \
    TAG##_v a[STRIP], v = {0}; \
    int64_t j = 0; \
    if (BY_ROW && ahead < 0) \
      for (int64_t r = 0; r < rows; r++) \
        ONE_BY_ONE for (j = 0; j + STRIP * L <= w; j += STRIP * L) \
          for (int u = 0; u < STRIP; u++) { \
            v = AT(TAG, x + r * stride + j + u * L); \
            *(TAG##_any *)(y + j + u * L) = JOIN(TAG, AT(TAG, y + j + u * L), LOAD(v)); \
          } \
    for (; j + STRIP * L <= w; j += STRIP * L) { \
      const T *p = x + j; \
      for (int u = 0; u < STRIP; u++) a[u] = AT(TAG, y + j + u * L); \
      for (int64_t r = 0; r < rows; r++, p += stride) \
        for (int u = 0; u < STRIP; u++) { \
          if (u * WIDTH % 64 == 0) __builtin_prefetch(p + ahead + u * L, 0, 2); \
          v = AT(TAG, p + u * L), a[u] = JOIN(TAG, a[u], LOAD(v)); \
        } \
      for (int u = 0; u < STRIP; u++) *(TAG##_any *)(y + j + u * L) = a[u]; \
    } \
    for (; j < w; j += L) { \
      const T *p = x + j; \
      const part k = part_of(w - j, sizeof(T)); \
      TAG##_v b = PART(TAG, T, y + j, k, v); \
      for (int64_t r = 0; r < rows; r++, p += stride) \
        v = PART(TAG, T, p, k, v), b = JOIN(TAG, b, LOAD(v)); \
      store_part(y + j, (i8_v)b, k, sizeof(T)); \
    } \
  }

/* ---------------------------------------------------------------- rows */
/* t[i], t[i + s] -> t[i], i < s: lanes at distance s are joined; of the results those of t[i + s]
 * lie where lane numbers have bit s */
#define LOW(l, s, n) ((l) & (s) ? (n) + (l) - (s) : (l))
#define HIGH(l, s, n) ((l) & (s) ? (n) + (l) : (l) + (s))
/* the same from two blends, which any port does, and one shuffle, which few do */
#define OWN(l, s, n) ((l) & (s) ? (n) + (l) : (l))
#define OTHER(l, s, n) ((l) & (s) ? (l) : (n) + (l))
#define SWAPPED(l, s, n) ((l) ^ (s))
#define EACH_2(F, s) F(0, s, 2), F(1, s, 2)
#define EACH_4(F, s) F(0, s, 4), F(1, s, 4), F(2, s, 4), F(3, s, 4)
#define EACH_8(F, s) F(0, s, 8), F(1, s, 8), F(2, s, 8), F(3, s, 8), F(4, s, 8), F(5, s, 8), \
  F(6, s, 8), F(7, s, 8)
#define EACH_16(F, s) F(0, s, 16), F(1, s, 16), F(2, s, 16), F(3, s, 16), F(4, s, 16), \
  F(5, s, 16), F(6, s, 16), F(7, s, 16), F(8, s, 16), F(9, s, 16), F(10, s, 16), F(11, s, 16), \
  F(12, s, 16), F(13, s, 16), F(14, s, 16), F(15, s, 16)
#if defined(__AVX2__) && defined(__FMA__)
#define LEVEL(TAG, JOIN, s, EACH) \
  ALL_OF_THEM for (int i = 0; i < s; i++) { \
    const TAG##_v own = PF_SHUFFLE(TAG##_k, t[i], t[i + s], EACH(OWN, s)); \
    const TAG##_v other = PF_SHUFFLE(TAG##_k, t[i], t[i + s], EACH(OTHER, s)); \
    t[i] = JOIN(TAG, own, PF_SHUFFLE(TAG##_k, other, other, EACH(SWAPPED, s))); \
  }
#else
#define LEVEL(TAG, JOIN, s, EACH) \
  for (int i = 0; i < s; i++) \
    t[i] = JOIN(TAG, PF_SHUFFLE(TAG##_k, t[i], t[i + s], EACH(LOW, s)), \
                PF_SHUFFLE(TAG##_k, t[i], t[i + s], EACH(HIGH, s)));
#endif
#define LEVELS_2(TAG, JOIN) if (q > 1) { LEVEL(TAG, JOIN, 1, EACH_2) }
#define LEVELS_4(TAG, JOIN) \
  if (q > 2) { LEVEL(TAG, JOIN, 2, EACH_4) } \
  if (q > 1) { LEVEL(TAG, JOIN, 1, EACH_4) }
#define LEVELS_8(TAG, JOIN) \
  if (q > 4) { LEVEL(TAG, JOIN, 4, EACH_8) } \
  if (q > 2) { LEVEL(TAG, JOIN, 2, EACH_8) } \
  if (q > 1) { LEVEL(TAG, JOIN, 1, EACH_8) }
#define LEVELS_16(TAG, JOIN) \
  if (q > 8) { LEVEL(TAG, JOIN, 8, EACH_16) } \
  if (q > 4) { LEVEL(TAG, JOIN, 4, EACH_16) } \
  if (q > 2) { LEVEL(TAG, JOIN, 2, EACH_16) } \
  if (q > 1) { LEVEL(TAG, JOIN, 1, EACH_16) }
#if defined(__AVX512F__)
#define LEVELS_32_BITS LEVELS_16
#define LEVELS_64_BITS LEVELS_8
#elif defined(__AVX2__) && defined(__FMA__)
#define LEVELS_32_BITS LEVELS_8
#define LEVELS_64_BITS LEVELS_4
#else
#define LEVELS_32_BITS LEVELS_4
#define LEVELS_64_BITS LEVELS_2
#endif

/* What lanes a short row takes: q, n rounded up to a power of two.  `from`: of a vector of rows
 * that lie together, or one that has no element; `to`: of results, which lie across. */
typedef struct {
  char from[WIDTH], to[WIDTH];
  int q;
} lanes_of;
static lanes_of __attribute__((noinline)) find_lanes(int64_t n, int lanes, int64_t size) {
  lanes_of o = {.q = 1};
  int bits = 0, rest = 0;
  while (o.q < n && o.q < lanes) o.q *= 2, bits++;
  while (lanes >> bits >> rest > 1) rest++;
  ONE_BY_ONE for (int l = 0; l < lanes; l++) {
    int k = l & (o.q - 1);
    int64_t from = k < n ? (l >> bits) * n + k : lanes;
    int64_t to = (l & ((lanes >> bits) - 1)) * o.q + (l >> rest);
    memcpy(o.from + l * size, &from, (size_t)size); /* little end first, as where vectors are */
    memcpy(o.to + l * size, &to, (size_t)size);
  }
  return o;
}
/* Lane k[l] of a, or, behind those, of b, for each lane l.  GCC has a built-in that knows every
 * port; clang has none for numbers that are not constant. */
#if !defined(__clang__)
#define LANES_OF(TAG, a, b, k) __builtin_shuffle(a, b, k)
#else
#if defined(__AVX512F__)
PF_INLINE i8_v lanes_of_4(i8_v a, i8_v b, i8_v k) {
  return (i8_v)_mm512_permutex2var_epi32((__m512i)a, (__m512i)k, (__m512i)b);
}
PF_INLINE i8_v lanes_of_8(i8_v a, i8_v b, i8_v k) {
  return (i8_v)_mm512_permutex2var_epi64((__m512i)a, (__m512i)k, (__m512i)b);
}
#elif defined(__AVX2__) && defined(__FMA__)
PF_INLINE i8_v lanes_of_4(i8_v a, i8_v b, i8_v k) {
  const __m256i to = (__m256i)k, past = _mm256_cmpgt_epi32(to, _mm256_set1_epi32(7));
  return (i8_v)_mm256_blendv_epi8(_mm256_permutevar8x32_epi32((__m256i)a, to),
                                  _mm256_permutevar8x32_epi32((__m256i)b, to), past);
}
PF_INLINE i8_v lanes_of_8(i8_v a, i8_v b, i8_v k) { /* 2 k, 2 k + 1 for each k */
  const __m256i twice = _mm256_slli_epi64((__m256i)k, 1),
                both = _mm256_or_si256(twice, _mm256_slli_epi64(twice, 32));
  return lanes_of_4(a, b, (i8_v)_mm256_add_epi32(both, _mm256_set1_epi64x((int64_t)1 << 32)));
}
#else
#define LANES_THROUGH(NAME, T) \
  PF_INLINE i8_v NAME(i8_v a, i8_v b, i8_v k) { \
    enum { L = WIDTH / sizeof(T) }; \
    T from[2 * L], at[L], to[L]; \
    memcpy(from, &a, WIDTH), memcpy(from + L, &b, WIDTH), memcpy(at, &k, WIDTH); \
    for (int l = 0; l < L; l++) to[l] = from[at[l] & (2 * L - 1)]; \
    memcpy(&a, to, WIDTH); \
    return a; \
  }
LANES_THROUGH(lanes_of_4, uint32_t)
LANES_THROUGH(lanes_of_8, uint64_t)
#endif
#define LANES_OF(TAG, a, b, k) \
  ((TAG##_v)(sizeof(a[0]) == 4 ? lanes_of_4((i8_v)(a), (i8_v)(b), (i8_v)(k)) \
                               : lanes_of_8((i8_v)(a), (i8_v)(b), (i8_v)(k))))
#endif
/* One line in so many bytes.  Into the nearest cache: of what the next one has, rows of a few lines
 * wait too long (0.7 to 0.9 times as fast from a slow third cache, and without). */
#define FETCH(T, x, i) \
  if (ahead && (i) * (int64_t)sizeof(T) % 64 == 0) \
    __builtin_prefetch((const char *)((x) + (i)) + ahead, 0, 3)
/* x[0 .. n) in one vector; `last`: what is left behind whole ones */
#define ROW_VECTOR(NAME, TAG, T, ZERO, LOAD, JOIN) \
  PF_INLINE TAG##_v NAME##_##TAG##_row(const T *x, int64_t n, const part last, int64_t ahead) { \
    enum { L = WIDTH / sizeof(T), U = VECTORS(L) }; \
    const TAG##_v zero = (TAG##_v){0} + (T)(ZERO); \
    TAG##_v a[U], v; \
    int64_t i = L; \
    FETCH(T, x, 0); \
    if (n < L) return v = PART(TAG, T, x, last, zero), LOAD(v); \
    v = AT(TAG, x), a[0] = LOAD(v); \
    if (n >= U * L) { \
      for (int u = 1; u < U; u++) { \
        FETCH(T, x, u * L); \
        v = AT(TAG, x + u * L), a[u] = LOAD(v); \
      } \
      for (i = U * L; i + U * L <= n; i += U * L) \
        for (int u = 0; u < U; u++) { \
          FETCH(T, x + i, u * L); \
          v = AT(TAG, x + i + u * L), a[u] = JOIN(TAG, a[u], LOAD(v)); \
        } \
      for (int l = U / 2; l; l /= 2) \
        for (int u = 0; u < l; u++) a[u] = JOIN(TAG, a[u], a[u + l]); \
    } \
    ONE_BY_ONE for (; i + L <= n; i += L) { \
      FETCH(T, x, i); \
      v = AT(TAG, x + i), a[0] = JOIN(TAG, a[0], LOAD(v)); \
    } \
    if (i == n) return a[0]; \
    FETCH(T, x, i); \
    return v = PART(TAG, T, x + i, last, zero), JOIN(TAG, a[0], LOAD(v)); \
  }
/* Rows of more than half a vector, too, where masks cost nothing. */
#define WHOLE(L) (WIDTH == 64 ? (L) : (L) / 2)
/* q vectors of L / q short rows each, in registers; `one`: of a row that has one to itself */
#define SHORT_ROWS(q_, TAG, T, LOAD, LEVELS) \
  if (o->q == q_ && q_ <= WHOLE(L)) \
    for (; rows >= 2 * L; rows -= L, y += L) { \
      enum { q = PF_MIN(q_, L) }; \
      ALL_OF_THEM for (int i = 0; i < q; i++, x += L / q * n) { \
        __builtin_prefetch((const char *)x + ahead, 0, 3); \
        if ((int)q == L) v = PART(TAG, T, x, one, zero); \
        else v = AT(TAG, x), v = LANES_OF(TAG, v, zero, from); \
        t[i] = LOAD(v); \
      } \
      LEVELS \
      v = (int)q == L ? t[0] : LANES_OF(TAG, t[0], zero, to); \
      if (where & PAST) STORE_PAST(y, v); \
      else *(TAG##_any *)y = v; \
    }
/* `short`: each of q lanes takes one of L / q rows of a vector, the results of q vectors lie
 * across; the last rows remain, since vectors are read whole.  -> how many */
#define ROWS(NAME, TAG, T, ZERO, LOAD, JOIN, LEVELS) \
  ROW_VECTOR(NAME, TAG, T, ZERO, LOAD, JOIN) \
  static __attribute__((noinline)) int64_t NAME##_##TAG##_short(const T *x, T *y, int64_t rows, \
                                                                int64_t n, const lanes_of *o, \
                                                                int32_t where) { \
    enum { L = WIDTH / sizeof(T) }; \
    const int64_t ahead = where & FAR ? AHEAD : 0; \
    const TAG##_v zero = (TAG##_v){0} + (T)(ZERO); \
    const TAG##_k from = AT(TAG##_k, o->from), to = AT(TAG##_k, o->to); \
    const part one = part_of(n, sizeof(T)); \
    TAG##_v t[L], v; \
    SHORT_ROWS(2, TAG, T, LOAD, LEVELS(TAG, JOIN)) \
    else SHORT_ROWS(4, TAG, T, LOAD, LEVELS(TAG, JOIN)) \
    else SHORT_ROWS(8, TAG, T, LOAD, LEVELS(TAG, JOIN)) \
    else SHORT_ROWS(16, TAG, T, LOAD, LEVELS(TAG, JOIN)) \
    return rows; \
  } \
  static __attribute__((noinline)) TAG##_v NAME##_##TAG##_tree(const TAG##_v *from) { \
    enum { q = WIDTH / sizeof(T) }; \
    TAG##_v t[q]; \
    memcpy(t, from, sizeof t); \
    LEVELS(TAG, JOIN) \
    return t[0]; \
  } \
  static void NAME##_##TAG##_rows(const void *px, void *py, int64_t rows, int64_t n, \
                                  int32_t where) { \
    enum { L = WIDTH / sizeof(T) }; \
    const part last = part_of(n % L, sizeof(T)); \
    const T *x = (const T *)px; \
    T *y = (T *)py; \
    TAG##_v t[L], v; \
    if (where & PAST && (uintptr_t)y % WIDTH && (uintptr_t)y % sizeof(T) == 0) { \
      int64_t first = PF_MIN((WIDTH - (uintptr_t)y % WIDTH) / sizeof(T), (uint64_t)rows); \
      NAME##_##TAG##_rows(x, y, first, n, where & FAR); \
      x += first * n, y += first, rows -= first; \
    } \
    if ((uintptr_t)y % WIDTH) where &= FAR; \
    if (n > 1 && n <= WHOLE(L) && rows >= 2 * L) { \
      const lanes_of o = find_lanes(n, L, sizeof(T)); \
      int64_t left = NAME##_##TAG##_short(x, y, rows, n, &o, where); \
      x += (rows - left) * n, y += rows - left, rows = left; \
    } \
    for (; rows > 0; rows -= L, y += L) { \
      const int m = (int)PF_MIN(rows, L); \
      if (where & FAR) { \
        ONE_BY_ONE for (int r = 0; r < m; r++, x += n) \
          t[r] = NAME##_##TAG##_row(x, n, last, AHEAD); \
      } else { \
        ONE_BY_ONE for (int r = 0; r < m; r++, x += n) t[r] = NAME##_##TAG##_row(x, n, last, 0); \
      } \
      ONE_BY_ONE for (int r = m; r < L; r++) t[r] = t[0]; \
      v = NAME##_##TAG##_tree(t); \
      if (m == L) *(TAG##_any *)y = v; \
      else store_part(y, (i8_v)v, part_of(m, sizeof(T)), sizeof(T)); \
    } \
  }

/* ---------------------------------------------------------------- ops and types */
#define TABLE(NAME, TAG, T, ZERO, NEXT, ROWS_, WIDE_) \
  static const T NAME##_##TAG##_zero = ZERO; \
  static const reduce_loops NAME##_##TAG = {ROWS_, NAME##_##TAG##_block, &NEXT##_##TAG, WIDE_, \
                                            &NAME##_##TAG##_zero};
/* LOAD is a function of v, JOIN of two vectors; ZERO is JOIN's neutral element; NEXT joins partial
 * results */
#define REDUCE(NAME, TAG, T, ZERO, LOAD, JOIN, NEXT, BITS) \
  static const reduce_loops NEXT##_##TAG; \
  BLOCK(NAME, TAG, T, LOAD, JOIN, WIDTH > 16) \
  ROWS(NAME, TAG, T, ZERO, LOAD, JOIN, LEVELS_##BITS##_BITS) \
  TABLE(NAME, TAG, T, ZERO, NEXT, NAME##_##TAG##_rows, NULL)
#define REDUCE_SMALL(NAME, TAG, T, ZERO, LOAD, JOIN, NEXT, WIDE) \
  static const reduce_loops NEXT##_##TAG; \
  BLOCK(NAME, TAG, T, LOAD, JOIN, 0) \
  TABLE(NAME, TAG, T, ZERO, NEXT, NULL, &NAME##_##WIDE)
/* sums and products of integers wrap: signed ones are the same bits */
#define ARITHMETIC(TAG, T, BITS) \
  REDUCE(Sum, TAG, T, 0, AS_IS, SUM_OF, Sum, BITS) \
  REDUCE(Prod, TAG, T, 1, AS_IS, PROD_OF, Prod, BITS) \
  REDUCE(SquareSum, TAG, T, 0, SQUARE, SUM_OF, Sum, BITS)
#define ARITHMETIC_SMALL(TAG, T) \
  REDUCE_SMALL(Sum, TAG, T, 0, AS_IS, SUM_OF, Sum, u32) \
  REDUCE_SMALL(Prod, TAG, T, 1, AS_IS, PROD_OF, Prod, u32) \
  REDUCE_SMALL(SquareSum, TAG, T, 0, SQUARE, SUM_OF, Sum, u32)
#define ORDERED(TAG, T, LEAST, GREATEST, BITS) \
  REDUCE(Max, TAG, T, LEAST, AS_IS, MAX_OF, Max, BITS) \
  REDUCE(Min, TAG, T, GREATEST, AS_IS, MIN_OF, Min, BITS)
#define ORDERED_SMALL(TAG, T, LEAST, GREATEST, WIDE) \
  REDUCE_SMALL(Max, TAG, T, LEAST, AS_IS, MAX_OF, Max, WIDE) \
  REDUCE_SMALL(Min, TAG, T, GREATEST, AS_IS, MIN_OF, Min, WIDE)
ARITHMETIC(f32, float, 32)
ARITHMETIC(f64, double, 64)
ARITHMETIC(u32, uint32_t, 32)
ARITHMETIC(u64, uint64_t, 64)
ARITHMETIC_SMALL(u8, uint8_t)
ARITHMETIC_SMALL(u16, uint16_t)
ORDERED(f32, float, -INFINITY, INFINITY, 32)
ORDERED(f64, double, -INFINITY, INFINITY, 64)
ORDERED(i32, int32_t, INT32_MIN, INT32_MAX, 32)
ORDERED(i64, int64_t, INT64_MIN, INT64_MAX, 64)
ORDERED_SMALL(i8, int8_t, INT8_MIN, INT8_MAX, i32)
ORDERED_SMALL(u8, uint8_t, 0, UINT8_MAX, i32)
ORDERED_SMALL(i16, int16_t, INT16_MIN, INT16_MAX, i32)
ORDERED_SMALL(u16, uint16_t, 0, UINT16_MAX, i32)
ORDERED_SMALL(u32, uint32_t, 0, UINT32_MAX, i32)
ORDERED_SMALL(u64, uint64_t, 0, UINT64_MAX, i64)

/* complex ones: sums of columns are those of their parts; the others are few */
typedef float _Complex c64;
typedef double _Complex c128;
#define COMPLEX(NAME, TAG, T, ZERO, LOAD, JOIN, NEXT) \
  static const reduce_loops NEXT##_##TAG; \
  static void NAME##_##TAG##_rows(const void *px, void *py, int64_t rows, int64_t n, \
                                  int32_t where) { \
    const T *x = (const T *)px; \
    (void)where; \
    for (int64_t r = 0; r < rows; r++, x += n) { \
      T acc[4] = {ZERO, ZERO, ZERO, ZERO}; \
      for (int64_t i = 0; i < n; i++) { T v = x[i], b = LOAD, a = acc[i % 4]; acc[i % 4] = JOIN; } \
      for (int l = 2; l; l /= 2) \
        for (int k = 0; k < l; k++) { T a = acc[k], b = acc[k + l]; acc[k] = JOIN; } \
      ((T *)py)[r] = acc[0]; \
    } \
  } \
  static void NAME##_##TAG##_block(const void *px, int64_t rows, int64_t stride, int64_t ahead, \
                                   void *py, int64_t w) { \
    T *y = (T *)py; \
    (void)ahead; \
    for (int64_t r = 0; r < rows; r++) \
      for (int64_t j = 0; j < w; j++) { \
        T v = ((const T *)px)[r * stride + j], b = LOAD, a = y[j]; \
        y[j] = JOIN; \
      } \
  } \
  TABLE(NAME, TAG, T, ZERO, NEXT, NAME##_##TAG##_rows, NULL)
#define COMPLEX_ALL(TAG, T) \
  COMPLEX(Sum, TAG, T, 0, v, a + b, Sum) \
  COMPLEX(Prod, TAG, T, 1, v, a * b, Prod) \
  COMPLEX(SquareSum, TAG, T, 0, v * ~v, a + b, Sum)          /* ~ is GNU C's conjugate */
COMPLEX_ALL(c64, c64)
COMPLEX_ALL(c128, c128)
#endif
