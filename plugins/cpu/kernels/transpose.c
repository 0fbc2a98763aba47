/* transpose.c - transpose.h for one instruction set.
 *
 * A region is cut into square tiles of N elements, each N vectors: loaded, interleaved in log2(N)
 * stages (vector i with vector i + N/2: their low halves, then their high halves), stored.  What is
 * left at the borders goes through tiles of half the size, the rest element by element.
 */
#include "transpose.h"
#include "half.h"
#include "simd.h"

enum { ROWS = 128 };
#define LOW2 0, 2
#define HIGH2 1, 3
#define LOW4 0, 4, 1, 5
#define HIGH4 2, 6, 3, 7
#define LOW8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH8 4, 12, 5, 13, 6, 14, 7, 15
#define LOW16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

#if defined(__AVX512F__)
#define STREAM_LINE(p, v) _mm512_stream_si512((void *)(p), (__m512i)(v))
#endif

/* TILE_OF(U, N): one tile.  The stores of a 64-byte row may pass the caches. */
#define TILE_OF(U, N, STORE) \
  typedef U v_##U##_##N __attribute__((vector_size(N * sizeof(U)))); \
  typedef v_##U##_##N u_##U##_##N __attribute__((aligned(1), may_alias)); \
  PF_INLINE void tile_##U##_##N(const U *x, int64_t ldx, U *y, int64_t ldy, int32_t stream) { \
    v_##U##_##N a[N], b[N]; \
    _Pragma("GCC unroll 16") \
    for (int i = 0; i < N; i++) a[i] = *(const u_##U##_##N *)(x + i * ldx); \
    _Pragma("GCC unroll 4") \
    for (int width = 1; width < N; width *= 2) { \
      _Pragma("GCC unroll 8") \
      for (int i = 0; i < N / 2; i++) { \
        b[2 * i] = __builtin_shufflevector(a[i], a[i + N / 2], LOW##N); \
        b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + N / 2], HIGH##N); \
      } \
      _Pragma("GCC unroll 16") \
      for (int i = 0; i < N; i++) a[i] = b[i]; \
    } \
    (void)stream; \
    STORE(U, N) \
  }
#define STORE_PLAIN(U, N) \
    _Pragma("GCC unroll 16") \
    for (int j = 0; j < N; j++) *(u_##U##_##N *)(y + j * ldy) = a[j];
#ifdef STREAM_LINE
#define STORE_LINE(U, N) \
    if (stream) { \
      _Pragma("GCC unroll 16") \
      for (int j = 0; j < N; j++) STREAM_LINE(y + j * ldy, a[j]); \
    } else { STORE_PLAIN(U, N) }
#else
#define STORE_LINE STORE_PLAIN
#endif

#define SCALARS(U) \
  static void rest_##U(const U *x, int64_t ldx, U *y, int64_t ldy, int64_t ni, int64_t nj) { \
    for (int64_t j = 0; j < nj; j++) \
      for (int64_t i = 0; i < ni; i++) y[j * ldy + i] = x[i * ldx + j]; \
  }
/* region_U_N: tiles of N, and `LESS` for what is left */
#define REGION_OF(U, N, LESS) \
  static void region_##U##_##N(const U *x, int64_t ldx, U *y, int64_t ldy, int64_t ni, int64_t nj, \
                               int32_t stream) { \
    int64_t mi = ni - ni % N, mj = nj - nj % N; \
    for (int64_t lo = 0; lo < mi; lo += ROWS) /* runs of ROWS elements are written */ \
      for (int64_t j = 0; j < mj; j += N) \
        for (int64_t i = lo; i < PF_MIN(mi, lo + ROWS); i += N) \
          tile_##U##_##N(x + i * ldx + j, ldx, y + j * ldy + i, ldy, stream); \
    if (mi && mj < nj) LESS(U, N)(x + mj, ldx, y + mj * ldy, ldy, mi, nj - mj REST_ARG); \
    if (mi < ni) LESS(U, N)(x + mi * ldx, ldx, y + mi, ldy, ni - mi, nj REST_ARG); \
  }
#define HALF_2(U, N) rest_##U
#define HALF_4(U, N) region_##U##_2
#define HALF_8(U, N) region_##U##_4
#define HALF_16(U, N) region_##U##_8

#define REST_ARG
SCALARS(uint8_t)
SCALARS(uint16_t)
SCALARS(uint32_t)
SCALARS(uint64_t)
#define LAST(U, N) rest_##U
TILE_OF(uint8_t, 8, STORE_PLAIN)
REGION_OF(uint8_t, 8, LAST)
TILE_OF(uint16_t, 4, STORE_PLAIN)
REGION_OF(uint16_t, 4, LAST)
TILE_OF(uint32_t, 4, STORE_PLAIN)
REGION_OF(uint32_t, 4, LAST)
TILE_OF(uint64_t, 2, STORE_PLAIN)
REGION_OF(uint64_t, 2, LAST)
#undef REST_ARG
#define REST_ARG , 0
TILE_OF(uint8_t, 16, STORE_PLAIN)
REGION_OF(uint8_t, 16, HALF_16)
TILE_OF(uint16_t, 8, STORE_PLAIN)
REGION_OF(uint16_t, 8, HALF_8)
#if defined(__AVX2__)
TILE_OF(uint16_t, 16, STORE_PLAIN)
REGION_OF(uint16_t, 16, HALF_16)
TILE_OF(uint32_t, 8, STORE_PLAIN)
REGION_OF(uint32_t, 8, HALF_8)
TILE_OF(uint64_t, 4, STORE_PLAIN)
REGION_OF(uint64_t, 4, HALF_4)
#endif
#if defined(__AVX512F__)
/* 32 x 16 elements of two bytes: whole lines out */
static void lines_uint16_t(const uint16_t *x, int64_t ldx, uint16_t *y, int64_t ldy) {
  uint16_t rows[16][32] __attribute__((aligned(64)));
  tile_uint16_t_16(x, ldx, rows[0], 32, 0);
  tile_uint16_t_16(x + 16 * ldx, ldx, rows[0] + 16, 32, 0);
  for (int j = 0; j < 16; j++) STREAM_LINE(y + j * ldy, *(const __m512i *)rows[j]);
}
static void region_uint16_t_32(const uint16_t *x, int64_t ldx, uint16_t *y, int64_t ldy, int64_t ni,
                               int64_t nj, int32_t stream) {
  int64_t mi = stream ? ni - ni % 32 : 0, mj = stream ? nj - nj % 16 : 0;
  for (int64_t lo = 0; lo < mi; lo += ROWS)
    for (int64_t j = 0; j < mj; j += 16)
      for (int64_t i = lo; i < PF_MIN(mi, lo + ROWS); i += 32)
        lines_uint16_t(x + i * ldx + j, ldx, y + j * ldy + i, ldy);
  if (mi && mj < nj) region_uint16_t_16(x + mj, ldx, y + mj * ldy, ldy, mi, nj - mj, 0);
  if (mi < ni) region_uint16_t_16(x + mi * ldx, ldx, y + mi, ldy, ni - mi, nj, 0);
}
/* As TILE_OF, in stages that stay in 128-bit lanes, then two of whole lanes: half the cycles. */
PF_INLINE void tile_uint32_t_16(const uint32_t *x, int64_t ldx, uint32_t *y, int64_t ldy,
                                int32_t stream) {
  __m512i a[16], b[16];
#define EACH_16 _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++)
#define EACH_8 _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++)
#define EACH_4 _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)
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
  if (stream) EACH_16 _mm512_stream_si512((void *)(y + i * ldy), a[i]);
  else EACH_16 _mm512_storeu_si512(y + i * ldy, a[i]);
}
REGION_OF(uint32_t, 16, HALF_16)
TILE_OF(uint64_t, 8, STORE_LINE)
REGION_OF(uint64_t, 8, HALF_8)
#define WIDEST_16 region_uint16_t_32
#define WIDEST_32 region_uint32_t_16
#define WIDEST_64 region_uint64_t_8
#elif defined(__AVX2__)
#define WIDEST_16 region_uint16_t_16
#define WIDEST_32 region_uint32_t_8
#define WIDEST_64 region_uint64_t_4
#else
#define WIDEST_16 region_uint16_t_8
#define WIDEST_32 region_uint32_t_4
#define WIDEST_64 region_uint64_t_2
#endif

typedef struct { char b[16]; } e16;
static void rest_e16(const e16 *x, int64_t ldx, e16 *y, int64_t ldy, int64_t ni, int64_t nj) {
  for (int64_t i = 0; i < ni; i++)
    for (int64_t j = 0; j < nj; j++) y[j * ldy + i] = x[i * ldx + j];
}

static void transpose(int64_t esize, const void *x, int64_t ldx, void *y, int64_t ldy, int64_t ni,
                      int64_t nj, int32_t stream) {
  stream = stream && (uintptr_t)y % 64 == 0 && ldy * esize % 64 == 0;
  switch (esize) {
    case 1: region_uint8_t_16(x, ldx, y, ldy, ni, nj, 0); break;
    case 2: WIDEST_16(x, ldx, y, ldy, ni, nj, stream); break;
    case 4: WIDEST_32(x, ldx, y, ldy, ni, nj, stream); break;
    case 8: WIDEST_64(x, ldx, y, ldy, ni, nj, stream); break;
    default: rest_e16(x, ldx, y, ldy, ni, nj);
  }
}

/* ---------------------------------------------------------------- runs */
typedef uint8_t line __attribute__((vector_size(64)));
typedef line line_any __attribute__((aligned(1), may_alias));
static void copy(const void *px, void *py, int64_t bytes) {
  const char *x = (const char *)px;
  char *y = (char *)py;
  int64_t head = PF_MIN(bytes, (int64_t)(-(uintptr_t)y % 64));
  memcpy(y, x, (size_t)head);
  x += head, y += head, bytes -= head;
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
#endif
  memcpy(y, x, (size_t)bytes);
}
static void fence(void) {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}
static void read(int32_t type, const void *x, float *y, int64_t n) { halves_read(type, x, y, n); }
static void write(int32_t type, const float *x, void *y, int64_t n) { halves_write(type, x, y, n); }
const pf_mover PF_ISA_NAME(pf_mover) = {transpose, copy, read, write, fence};
