/* transpose.c - transpose.h for one instruction set.
 *
 * A region is cut into square tiles of N elements, each N vectors: loaded, interleaved in log2(N)
 * stages (vector i with vector i + N/2: their low halves, then their high halves), stored.  What is
 * left at the borders goes through tiles of half the size, the rest element by element; planes of
 * 2, 3 or 4 adjacent columns or rows through loops of that width.  transpose_stream.h,
 * transpose_block.h, transpose_band.h and transpose_strip.h have planes that are stored past the
 * caches.
 */
#define PF_ALL_INTRINSICS /* avx512vbmi */
#include "move/transpose.h"
#include "vec/half.h"
#include "vec/simd.h"

enum { ROWS = 128 };
#define LOW2 0, 2
#define HIGH2 1, 3
#define LOW4 0, 4, 1, 5
#define HIGH4 2, 6, 3, 7
#define LOW8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH8 4, 12, 5, 13, 6, 14, 7, 15
#define LOW16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define EACH_16 _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++)
#define EACH_8 _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++)
#define EACH_4 _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)

/* An element may be several narrower ones (strided.c): it lies where those may and aliases them. */
#define ANYWHERE(U) typedef U any_##U __attribute__((aligned(1), may_alias));
ANYWHERE(uint8_t)
ANYWHERE(uint16_t)
ANYWHERE(uint32_t)
ANYWHERE(uint64_t)

/* TILE_OF(U, N): N rows of x become the N columns a, and one tile of y */
#define TILE_OF(U, N) \
  typedef U v_##U##_##N __attribute__((vector_size(N * sizeof(U)))); \
  typedef v_##U##_##N u_##U##_##N __attribute__((aligned(1), may_alias)); \
  PF_INLINE void turn_##U##_##N(const U *x, int64_t ldx, v_##U##_##N a[N]) { \
    v_##U##_##N b[N]; \
    _Pragma("GCC unroll 16") \
    for (int i = 0; i < N; i++) a[i] = *(const u_##U##_##N *)(x + i * ldx); \
    _Pragma("GCC unroll 4") \
    for (int width = 1; width < N; width *= 2) { \
      _Pragma("GCC unroll 8") \
      for (int i = 0; i < N / 2; i++) { \
        b[2 * i] = PF_SHUFFLE(v_##U##_##N, a[i], a[i + N / 2], LOW##N); \
        b[2 * i + 1] = PF_SHUFFLE(v_##U##_##N, a[i], a[i + N / 2], HIGH##N); \
      } \
      _Pragma("GCC unroll 16") \
      for (int i = 0; i < N; i++) a[i] = b[i]; \
    } \
  } \
  PF_INLINE void tile_##U##_##N(const U *x, int64_t ldx, U *y, int64_t ldy) { \
    v_##U##_##N a[N]; \
    turn_##U##_##N(x, ldx, a); \
    _Pragma("GCC unroll 16") \
    for (int j = 0; j < N; j++) *(u_##U##_##N *)(y + j * ldy) = a[j]; \
  }

#define SCALARS(U) \
  static void rest_##U(const any_##U *x, int64_t ldx, any_##U *y, int64_t ldy, int64_t ni, \
                       int64_t nj) { \
    for (int64_t j = 0; j < nj; j++) \
      for (int64_t i = 0; i < ni; i++) y[j * ldy + i] = x[i * ldx + j]; \
  }
/* NAME: tiles of I rows and J columns, and LESS for what is left */
#define REGION(NAME, U, I, J, TILE, LESS) \
  static void NAME(const U *x, int64_t ldx, U *y, int64_t ldy, int64_t ni, int64_t nj) { \
    int64_t mi = ni - ni % I, mj = nj - nj % J; \
    for (int64_t lo = 0; lo < mi; lo += ROWS) /* runs of ROWS elements are written */ \
      for (int64_t j = 0; j < mj; j += J) \
        for (int64_t i = lo; i < PF_MIN(mi, lo + ROWS); i += I) \
          TILE(x + i * ldx + j, ldx, y + j * ldy + i, ldy); \
    if (mi && mj < nj) LESS(x + mj, ldx, y + mj * ldy, ldy, mi, nj - mj); \
    if (mi < ni) LESS(x + mi * ldx, ldx, y + mi, ldy, ni - mi, nj); \
  }
#define REGION_OF(U, N, LESS) REGION(region_##U##_##N, U, N, N, tile_##U##_##N, LESS)
SCALARS(uint8_t)
SCALARS(uint16_t)
SCALARS(uint32_t)
SCALARS(uint64_t)
TILE_OF(uint8_t, 8)
REGION_OF(uint8_t, 8, rest_uint8_t)
TILE_OF(uint8_t, 16)
REGION_OF(uint8_t, 16, region_uint8_t_8)
TILE_OF(uint16_t, 4)
REGION_OF(uint16_t, 4, rest_uint16_t)
TILE_OF(uint16_t, 8)
REGION_OF(uint16_t, 8, region_uint16_t_4)
TILE_OF(uint32_t, 4)
REGION_OF(uint32_t, 4, rest_uint32_t)
TILE_OF(uint64_t, 2)
REGION_OF(uint64_t, 2, rest_uint64_t)
#if defined(__AVX2__)
/* 2 N rows, N columns of 16 / N bytes: rows i and i + N share a register, whose halves are turned
 * alike, so that no stage leaves them. */
#define HALVES_OF(U, N, BITS) \
  PF_INLINE void halves_##U(const U *x, int64_t ldx, U *y, int64_t ldy) { \
    __m256i a[N], b[N]; \
    _Pragma("GCC unroll 16") \
    for (int i = 0; i < N; i++) { \
      __m128i top = _mm_loadu_si128((const void *)(x + i * ldx)); \
      a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(top), \
                                     _mm_loadu_si128((const void *)(x + (i + N) * ldx)), 1); \
    } \
    _Pragma("GCC unroll 4") \
    for (int width = 1; width < N; width *= 2) { \
      _Pragma("GCC unroll 8") \
      for (int i = 0; i < N / 2; i++) { \
        b[2 * i] = _mm256_unpacklo_epi##BITS(a[i], a[i + N / 2]); \
        b[2 * i + 1] = _mm256_unpackhi_epi##BITS(a[i], a[i + N / 2]); \
      } \
      _Pragma("GCC unroll 16") \
      for (int i = 0; i < N; i++) a[i] = b[i]; \
    } \
    _Pragma("GCC unroll 16") \
    for (int j = 0; j < N; j++) _mm256_storeu_si256((void *)(y + j * ldy), a[j]); \
  }
HALVES_OF(uint8_t, 16, 8)
HALVES_OF(uint16_t, 8, 16)
REGION(region_uint8_t_halves, uint8_t, 32, 16, halves_uint8_t, region_uint8_t_16)
REGION(region_uint16_t_halves, uint16_t, 16, 8, halves_uint16_t, region_uint16_t_8)
/* rows i and i + 4 share a register: two stages inside its halves are left */
PF_INLINE void tile_uint32_t_8(const uint32_t *x, int64_t ldx, uint32_t *y, int64_t ldy) {
  for (int j = 0; j < 8; j += 4) {
    __m256i a[4];
    EACH_4 {
      __m128i top = _mm_loadu_si128((const void *)(x + i * ldx + j));
      a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(top),
                                     _mm_loadu_si128((const void *)(x + (i + 4) * ldx + j)), 1);
    }
    __m256i l = _mm256_unpacklo_epi32(a[0], a[1]), h = _mm256_unpackhi_epi32(a[0], a[1]);
    __m256i m = _mm256_unpacklo_epi32(a[2], a[3]), k = _mm256_unpackhi_epi32(a[2], a[3]);
    _mm256_storeu_si256((void *)(y + j * ldy), _mm256_unpacklo_epi64(l, m));
    _mm256_storeu_si256((void *)(y + (j + 1) * ldy), _mm256_unpackhi_epi64(l, m));
    _mm256_storeu_si256((void *)(y + (j + 2) * ldy), _mm256_unpacklo_epi64(h, k));
    _mm256_storeu_si256((void *)(y + (j + 3) * ldy), _mm256_unpackhi_epi64(h, k));
  }
}
REGION_OF(uint32_t, 8, region_uint32_t_4)
TILE_OF(uint64_t, 4)
REGION_OF(uint64_t, 4, region_uint64_t_2)
#endif
#if defined(__AVX512F__)
/* As TILE_OF, in stages that stay in 128-bit lanes, then two of whole lanes: half the cycles. */
PF_INLINE void turn_16(const uint32_t *x, int64_t ldx, __m512i a[16]) {
  __m512i b[16];
  EACH_16 a[i] = _mm512_loadu_si512(x + i * ldx);
  EACH_8 {
    b[2 * i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
    b[2 * i + 1] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
  }
  EACH_4 {
    a[4 * i] = _mm512_unpacklo_epi64(b[4 * i], b[4 * i + 2]);
    a[4 * i + 1] = _mm512_unpackhi_epi64(b[4 * i], b[4 * i + 2]);
    a[4 * i + 2] = _mm512_unpacklo_epi64(b[4 * i + 1], b[4 * i + 3]);
    a[4 * i + 3] = _mm512_unpackhi_epi64(b[4 * i + 1], b[4 * i + 3]);
  }
  EACH_4 {
    b[i] = _mm512_shuffle_i32x4(a[i], a[4 + i], 0x88);
    b[4 + i] = _mm512_shuffle_i32x4(a[i], a[4 + i], 0xdd);
    b[8 + i] = _mm512_shuffle_i32x4(a[8 + i], a[12 + i], 0x88);
    b[12 + i] = _mm512_shuffle_i32x4(a[8 + i], a[12 + i], 0xdd);
  }
  EACH_4 {
    a[i] = _mm512_shuffle_i32x4(b[i], b[8 + i], 0x88);
    a[8 + i] = _mm512_shuffle_i32x4(b[i], b[8 + i], 0xdd);
    a[4 + i] = _mm512_shuffle_i32x4(b[4 + i], b[12 + i], 0x88);
    a[12 + i] = _mm512_shuffle_i32x4(b[4 + i], b[12 + i], 0xdd);
  }
}
PF_INLINE void tile_uint32_t_16(const uint32_t *x, int64_t ldx, uint32_t *y, int64_t ldy) {
  __m512i a[16];
  turn_16(x, ldx, a);
  EACH_16 _mm512_storeu_si512(y + i * ldy, a[i]);
}
REGION_OF(uint32_t, 16, region_uint32_t_8)
TILE_OF(uint64_t, 8)
REGION_OF(uint64_t, 8, region_uint64_t_4)
#define WIDEST_8 region_uint8_t_halves
#define WIDEST_16 region_uint16_t_halves
#define WIDEST_32 region_uint32_t_16
#define WIDEST_64 region_uint64_t_8
#elif defined(__AVX2__)
#define WIDEST_8 region_uint8_t_halves
#define WIDEST_16 region_uint16_t_halves
#define WIDEST_32 region_uint32_t_8
#define WIDEST_64 region_uint64_t_4
#else
#define WIDEST_8 region_uint8_t_16
#define WIDEST_16 region_uint16_t_8
#define WIDEST_32 region_uint32_t_4
#define WIDEST_64 region_uint64_t_2
#endif

/* K adjacent columns of x to rows of y, K rows of x to adjacent columns of y: pixels and planes */
#define APART(U, K) \
  static void apart_##U##_##K(const any_##U *x, any_##U *restrict y, int64_t ldy, int64_t n) { \
    for (int64_t i = 0; i < n; i++) \
      for (int k = 0; k < K; k++) y[k * ldy + i] = x[K * i + k]; \
  } \
  static void woven_##U##_##K(const any_##U *x, int64_t ldx, any_##U *restrict y, int64_t n) { \
    for (int64_t j = 0; j < n; j++) \
      for (int k = 0; k < K; k++) y[K * j + k] = x[k * ldx + j]; \
  }
#define PIXELS(U) \
  APART(U, 2) APART(U, 3) APART(U, 4) \
  static int pixels_##U(const U *x, int64_t ldx, U *y, int64_t ldy, int64_t ni, int64_t nj) { \
    int apart = ldx == nj && nj < 5, woven = ldy == ni && ni < 5; \
    if (apart && nj == 2) apart_##U##_2(x, y, ldy, ni); \
    else if (apart && nj == 3) apart_##U##_3(x, y, ldy, ni); \
    else if (apart && nj == 4) apart_##U##_4(x, y, ldy, ni); \
    else if (woven && ni == 2) woven_##U##_2(x, ldx, y, nj); \
    else if (woven && ni == 3) woven_##U##_3(x, ldx, y, nj); \
    else if (woven && ni == 4) woven_##U##_4(x, ldx, y, nj); \
    else return 0; \
    return 1; \
  }
PIXELS(uint8_t)
PIXELS(uint16_t)
PIXELS(uint32_t)
PIXELS(uint64_t)

typedef struct { char b[16]; } e16;
static void rest_e16(const e16 *x, int64_t ldx, e16 *y, int64_t ldy, int64_t ni, int64_t nj) {
  for (int64_t i = 0; i < ni; i++)
    for (int64_t j = 0; j < nj; j++) y[j * ldy + i] = x[i * ldx + j];
}

static void turn(int64_t esize, const void *x, int64_t ldx, void *y, int64_t ldy, int64_t ni,
                 int64_t nj) {
#define TURN(U, REGION) \
  if (!pixels_##U((const U *)x, ldx, (U *)y, ldy, ni, nj)) \
    REGION((const U *)x, ldx, (U *)y, ldy, ni, nj); \
  break
  switch (esize) {
    case 1: TURN(uint8_t, WIDEST_8);
    case 2: TURN(uint16_t, WIDEST_16);
    case 4: TURN(uint32_t, WIDEST_32);
    case 8: TURN(uint64_t, WIDEST_64);
    default: rest_e16((const e16 *)x, ldx, (e16 *)y, ldy, ni, nj);
  }
}

/* ---------------------------------------------------------------- runs */
typedef uint8_t line __attribute__((vector_size(64)));
typedef line line_any __attribute__((aligned(1), may_alias));
#define STREAM_LINE(p, v) _mm512_stream_si512((void *)(p), (__m512i)(v))
/* whole lines; y is a multiple of 64 */
PF_INLINE void stream_lines(const char *x, char *y, int64_t bytes) {
#if defined(__AVX512F__)
  for (; bytes >= 64; bytes -= 64, x += 64, y += 64) STREAM_LINE(y, *(const line_any *)x);
#elif defined(__AVX2__)
  for (; bytes >= 64; bytes -= 64, x += 64, y += 64) {
    __m256i a = _mm256_loadu_si256((const __m256i *)x);
    __m256i b = _mm256_loadu_si256((const __m256i *)x + 1);
    _mm256_stream_si256((__m256i *)y, a), _mm256_stream_si256((__m256i *)y + 1, b);
  }
#elif defined(__SSE2__)
  for (; bytes >= 16; bytes -= 16, x += 16, y += 16)
    _mm_stream_si128((__m128i *)y, _mm_loadu_si128((const __m128i *)x));
#else
  memcpy(y, x, (size_t)bytes);
#endif
}
#define REVERSE(U) { \
    const any_##U *from = (const any_##U *)x; \
    any_##U *to = (any_##U *)y; \
    PF_IVDEP for (int64_t i = 0; i < n; i++) to[i] = from[-i]; \
    break; \
  }
static void reverse(int64_t esize, const void *x, void *y, int64_t n) {
  switch (esize) {
    case 1: REVERSE(uint8_t)
    case 2: REVERSE(uint16_t)
    case 4: REVERSE(uint32_t)
    default: REVERSE(uint64_t)
  }
}
enum { REVERSED = 256, UPWARDS = 8192 };
#if defined(__AVX512BW__)
/* bytes of 16 whose elements are in the opposite order */
static __m512i backwards(int64_t esize) {
  static const uint8_t order[4][16] = {{15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
                                       {14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1},
                                       {12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3},
                                       {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}};
  const uint8_t *p = order[esize == 1 ? 0 : esize == 2 ? 1 : esize == 4 ? 2 : 3];
  return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
}
/* whole lines of y, from registers; x: the first byte of the element that comes first */
PF_INLINE void stream_backwards(int64_t esize, const char *x, char *y, int64_t bytes) {
  __m512i from = backwards(esize);
  x += esize - 64;
  for (int64_t k = 0; k < bytes; k += 64) {
    __m512i a = _mm512_shuffle_epi8(_mm512_loadu_si512(x - k), from);
    STREAM_LINE(y + k, _mm512_shuffle_i64x2(a, a, 0x1b));
  }
}
#else
PF_INLINE void stream_backwards(int64_t esize, const char *x, char *y, int64_t bytes) {
  char room[REVERSED] __attribute__((aligned(64)));
  reverse(esize, x, room, bytes / esize);
  stream_lines(room, y, bytes);
}
#endif
/* The same run, its last line first: x is then read upwards, as the hardware expects it, and lines
 * stored past the caches do not mind the order.  What is read UPWARDS bytes later is fetched. */
static void reverse_past(int64_t esize, const void *px, void *py, int64_t n) {
  const char *x = (const char *)px;
  char *y = (char *)py, *end = y + n * esize;
  while (end > y) {
    int64_t past = (int64_t)((uintptr_t)end % 64), bytes = PF_MIN(end - y, past ? past : REVERSED);
    if (bytes > past && bytes < REVERSED) bytes -= (int64_t)(-(uintptr_t)y % 64) % bytes;
    end -= bytes;
    const char *from = x - (end - y);
    for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(from + UPWARDS - k, 0, 2);
    if (bytes % 64 || (uintptr_t)end % 64) reverse(esize, from, end, bytes / esize);
    else stream_backwards(esize, from, end, bytes);
  }
}
#if defined(__AVX512BW__)
/* every second element of 128 bytes at x, of which the last one is not read */
PF_INLINE __m512i halved(int64_t esize, const char *x) {
  __m512i a = _mm512_loadu_si512(x), b = _mm512_loadu_si512(x + 64 - esize), from;
  switch (esize) {
    case 1:
      a = _mm512_castsi256_si512(_mm512_cvtepi16_epi8(a));
      return _mm512_inserti64x4(a, _mm512_cvtepi16_epi8(_mm512_srli_epi16(b, 8)), 1);
    case 2:
      from = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      from = _mm512_mullo_epi32(from, _mm512_set1_epi32(0x40004)); /* 4 k, 4 k + 2 */
      from = _mm512_add_epi32(from, _mm512_set1_epi32(0x20000));
      from = _mm512_mask_add_epi16(from, 0xffff0000, from, _mm512_set1_epi16(1));
      return _mm512_permutex2var_epi16(a, from, b);
    case 4:
      from = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
      return _mm512_permutex2var_epi32(a, from, b);
    default:
      from = _mm512_setr_epi64(0, 2, 4, 6, 9, 11, 13, 15);
      return _mm512_permutex2var_epi64(a, from, b);
  }
}
PF_INLINE int64_t halved_lines(int64_t esize, const char *x, char *y, int64_t bytes) {
  int64_t k = 0;
  for (; k + 64 <= bytes; k += 64) STREAM_LINE(y + k, halved(esize, x + 2 * k));
  return k;
}
#endif
/* Whole lines of every second element of x to y, a multiple of 64; returns bytes done.  (AVX-512;
 * elsewhere whoever calls gathers elements near and copies them.) */
static int64_t every_second(int64_t esize, const void *px, void *py, int64_t bytes) {
#if defined(__AVX512BW__)
  const char *x = (const char *)px;
  char *y = (char *)py;
  switch (esize) {
    case 1: return halved_lines(1, x, y, bytes);
    case 2: return halved_lines(2, x, y, bytes);
    case 4: return halved_lines(4, x, y, bytes);
    case 8: return halved_lines(8, x, y, bytes);
    default: break;
  }
#else
  (void)esize, (void)px, (void)py, (void)bytes;
#endif
  return 0;
}
/* What is read in order is fetched IN_ORDER bytes ahead, to the nearest cache; of a grid, the run
 * that is read APART bytes later, to the second cache, as the nearest one has too few places for
 * lines under way; at random, groups of TOGETHER bytes at once, likewise. */
enum { IN_ORDER = 2048, APART = 12288, TOGETHER = 8192 };
enum { FETCH_NOTHING, FETCH_IN_ORDER, FETCH_AHEAD };
PF_INLINE void stream_fetching(const char *x, char *y, int64_t bytes, int how, const char *ahead) {
  for (int64_t k = 0; k < bytes; k += 64) {
    if (how == FETCH_IN_ORDER) __builtin_prefetch(x + k + IN_ORDER, 0, 3);
    if (how == FETCH_AHEAD) __builtin_prefetch(ahead + k, 0, 2);
    stream_lines(x + k, y + k, 64);
  }
}
enum { LONG = 16384 }; /* shorter runs may end before what is fetched */
static void copy(const void *px, void *py, int64_t bytes) {
  const char *x = (const char *)px;
  char *y = (char *)py;
  int64_t head = PF_MIN(bytes, (int64_t)(-(uintptr_t)y % 64)), whole = (bytes - head) / 64 * 64;
  memcpy(y, x, (size_t)head);
  if (whole < LONG) stream_lines(x + head, y + head, whole);
  else stream_fetching(x + head, y + head, whole, FETCH_IN_ORDER, NULL);
  memcpy(y + head + whole, x + head + whole, (size_t)(bytes - head - whole));
}
#if defined(__AVX512BW__)
/* `have` bytes of the line at y, in a register; of its bytes `own` are ours */
typedef struct {
  char *y;
  int64_t have;
  uint64_t own;
  __m512i line;
} lines_out;
PF_INLINE lines_out lines_at(char *y) {
  int64_t have = (int64_t)((uintptr_t)y % 64);
  return (lines_out){y - have, have, ~0ull << have, _mm512_setzero_si512()};
}
/* `ahead`: where the run that is fetched lies, if one is */
PF_INLINE void lines_add(lines_out *o, const char *p, int64_t bytes, int how, const char *ahead) {
  if (o->have) {
    int64_t take = PF_MIN(64 - o->have, bytes);
    uint64_t mask = ((1ull << take) - 1) << o->have;
    o->line = _mm512_mask_loadu_epi8(o->line, mask, p - o->have);
    o->have += take, p += take, bytes -= take;
    if (o->have < 64) return;
    if (o->own == ~0ull) STREAM_LINE(o->y, o->line);
    else _mm512_mask_storeu_epi8(o->y, o->own, o->line), o->own = ~0ull;
    o->y += 64;
  }
  int64_t rest = bytes % 64, whole = bytes - rest;
  stream_fetching(p, o->y, whole, how, ahead);
  o->y += whole, o->have = rest;
  if (rest) o->line = _mm512_maskz_loadu_epi8((1ull << rest) - 1, p + whole);
}
PF_INLINE lines_out lines_of(const pf_woven *w) {
  return (lines_out){w->y, w->have, w->own, _mm512_load_si512(w->line)};
}
PF_INLINE void lines_keep(pf_woven *w, lines_out o) {
  w->y = o.y, w->have = o.have, w->own = o.own;
  _mm512_store_si512(w->line, o.line);
}
PF_INLINE void lines_end(const lines_out *o) {
  if (o->have) _mm512_mask_storeu_epi8(o->y, o->own & ((1ull << o->have) - 1), o->line);
}
#else
typedef struct { char *y; } lines_out;
PF_INLINE lines_out lines_at(char *y) { return (lines_out){y}; }
PF_INLINE void lines_add(lines_out *o, const char *x, int64_t bytes, int how, const char *ahead) {
  int64_t head = PF_MIN(bytes, (int64_t)(-(uintptr_t)o->y % 64));
  int64_t rest = (bytes - head) % 64, whole = bytes - head - rest;
  memcpy(o->y, x, (size_t)head);
  stream_fetching(x + head, o->y + head, whole, how, ahead);
  memcpy(o->y + head + whole, x + head + whole, (size_t)rest);
  o->y += bytes;
}
PF_INLINE lines_out lines_of(const pf_woven *w) { return (lines_out){w->y}; }
PF_INLINE void lines_keep(pf_woven *w, lines_out o) { w->y = o.y; }
PF_INLINE void lines_end(const lines_out *o) { (void)o; }
#endif
PF_INLINE void fetch_lines(const char *x, int64_t bytes) {
  for (const char *p = x - (uintptr_t)x % 64; p < x + bytes; p += 64) __builtin_prefetch(p, 0, 2);
}
PF_INLINE void gather_as(const char *x, int64_t bytes, const void *index, int wide, int64_t n,
                         char *y) {
#define RUN(i) (x + (wide ? ((const int64_t *)index)[i] : ((const int32_t *)index)[i]) * bytes)
  int64_t group = PF_MAX(1, TOGETHER / bytes), some = PF_MIN(bytes, TOGETHER);
  int whole = ((uintptr_t)y | (uintptr_t)bytes) % 64 == 0;
  lines_out o = lines_at(y);
  for (int64_t i = 0, end = PF_MIN(group, n), next; i < n; end = next) {
    next = PF_MIN(end + group, n);
    for (int64_t k = end; k < next; k++) fetch_lines(RUN(k), some);
    if (group > 1 && whole)
      for (; i < end; i++) stream_lines(RUN(i), y + i * bytes, bytes);
    else if (group > 1)
      for (; i < end; i++) lines_add(&o, RUN(i), bytes, FETCH_NOTHING, NULL);
    else
      for (; i < end; i++) lines_add(&o, RUN(i), bytes, FETCH_IN_ORDER, NULL);
  }
  lines_end(&o);
#undef RUN
}
static void gather(const char *x, int64_t bytes, const void *index, int wide, int64_t n, char *y) {
  if (wide) gather_as(x, bytes, index, 1, n, y);
  else gather_as(x, bytes, index, 0, n, y);
}
static void grid(const pf_grid *g, char *y) {
  int64_t later = (APART + g->bytes - 1) / g->bytes, down = later / g->n, along = later % g->n;
  for (int64_t t = 0; t < g->turns; t++, y += g->y_turn) {
    lines_out o = lines_at(y);
    for (int64_t i = 0; i < g->n; i++) {
      int64_t at = i + along, turn = t + down;
      if (at >= g->n) at -= g->n, turn++;
      const char *from = turn < g->turns ? g->x : g->next - g->turns * g->x_turn;
      const char *ahead = from + turn * g->x_turn + at * g->x_run;
      __builtin_prefetch(ahead + g->bytes - 1, 0, 2);
      lines_add(&o, g->x + t * g->x_turn + i * g->x_run, g->bytes, FETCH_AHEAD, ahead);
    }
    lines_end(&o);
  }
}
static void fence(void) {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}
static pf_woven weave_at(char *y) {
  pf_woven w = {.y = y};
  lines_keep(&w, lines_at(y));
  return w;
}
static void weave(pf_woven *w, const pf_part *part, int64_t n, int64_t lo, int64_t hi) {
  lines_out o = lines_of(w);
  for (; lo < hi; lo++)
    for (int64_t k = 0; k < n; k++)
      lines_add(&o, part[k].at + lo * part[k].step, part[k].bytes, FETCH_IN_ORDER, NULL);
  lines_keep(w, o);
}
static void weave_end(const pf_woven *w) {
  lines_out o = lines_of(w);
  lines_end(&o);
  fence();
}
/* whether some rows begin inside lines */
PF_INLINE int split_lines(const void *x, int64_t stride) {
  return ((uintptr_t)x | (uintptr_t)stride) % 64 != 0;
}
#include "move/transpose_block.h"
#include "move/transpose_band.h"
#include "move/transpose_strip.h"
#include "move/transpose_stream.h"

static void read(int32_t type, const void *x, float *y, int64_t n) { halves_read(type, x, y, n); }
static void write(int32_t type, const float *x, void *y, int64_t n) { halves_write(type, x, y, n); }
#if defined(__AVX512BW__)
#define BLOCKS 1
#else
#define BLOCKS 0
#endif
const pf_mover PF_ISA_NAME(pf_mover) = {
  turn,    stream_plane, copy,         gather, grid,  weave_at, weave, weave_end,
  reverse, reverse_past, every_second, read,   write, fence,    BLOCKS};
