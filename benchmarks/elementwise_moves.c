/* elementwise_moves.c - bounds other than memory's of element-wise kernels, transposes and moves
 * (benchmarks/elementwise.py, column "bound"): each the best loop known for the job, never part of
 * pyflow.  Signature: elementwise_loops.h.
 *
 *   gather_rows {rows, bytes}     whole lines read at random, 12 kB fetched ahead to the second
 *                                 cache (more, and the nearest cache, are slower), stored past them
 *   column_slice {rows, stride, first, bytes}   the same of rows that lie apart in order
 *   turned {rows, columns}        float32 transposed for one size: 64 rows x 4 lines are copied
 *                                 near, turned in registers, lines stored in fours; columns and
 *                                 rows are multiples of 64
 *   turned_8, _16, _64            the same of other elements: 4 lines of rows of the result at a
 *                                 time, along whole rows, a line of each copied near
 *   images_in_borders {images, rows, bytes, above, beside}   rows of images between zeros, put
 *                                 together line by line
 */
#include "elementwise_loops.h"

loop gather_rows, column_slice, turned, turned_8, turned_16, turned_64, images_in_borders;

#if defined(__AVX512F__)
#define STREAM(p, v) _mm512_stream_si512((void *)(p), v)
enum { LATER = 12288, NEAR = 64, LINES = 4, CHUNK = 2048 };

void gather_rows(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  const char *x = (const char *)in[0];
  const int32_t *at = (const int32_t *)in[1];
  int64_t rows = args[0], bytes = args[1], lo = rows * part / parts, hi = rows * (part + 1) / parts;
  int64_t later = LATER / bytes;
  for (int64_t r = lo; r < hi; r++) {
    const char *from = x + at[r] * bytes, *ahead = x + at[r + later < hi ? r + later : r] * bytes;
    char *to = (char *)out + r * bytes;
    for (int64_t k = 0; k < bytes; k += 64) {
      _mm_prefetch(ahead + k, _MM_HINT_T1);
      STREAM(to + k, _mm512_loadu_si512(from + k));
    }
  }
}
void column_slice(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t rows = args[0], stride = args[1], bytes = args[3];
  int64_t lo = rows * part / parts, hi = rows * (part + 1) / parts;
  for (int64_t r = lo; r < hi; r++) {
    const char *from = (const char *)in[0] + r * stride + args[2];
    char *to = (char *)out + r * bytes;
    for (int64_t k = 0; k < bytes; k += 64) {
      _mm_prefetch(from + stride + k, _MM_HINT_T1);
      STREAM(to + k, _mm512_loadu_si512(from + k));
    }
  }
}

/* 16 rows, 8 columns: rows i and i + 8 share a register */
static inline void half_tile(const char *x, int64_t step, char *y, int64_t run) {
  __m512i a[8], b[8];
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
  const __m512i high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    __m256i top = _mm256_load_si256((const void *)(x + i * step));
    a[i] = _mm512_inserti64x4(_mm512_castsi256_si512(top),
                              _mm256_load_si256((const void *)(x + (i + 8) * step)), 1);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]), b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]), a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    _mm512_store_si512(y + i * run, _mm512_permutex2var_epi64(a[i], low, a[4 + i]));
    _mm512_store_si512(y + (4 + i) * run, _mm512_permutex2var_epi64(a[i], high, a[4 + i]));
  }
}
/* The block of NEAR rows at x, CHUNK bytes wide, to y; `next`: the block that is fetched. */
static void turn_block(const char *x, int64_t ldx, char *y, int64_t ldy, const char *next) {
  enum { STEP = 64 * (LINES + 1), RUN = 4 * NEAR };
  char near[NEAR * STEP] __attribute__((aligned(64))), room[16 * RUN] __attribute__((aligned(64)));
  int64_t fetched = 0;
  for (int64_t c = 0; c < CHUNK; c += 64 * LINES) {
    for (int64_t r = 0; r < NEAR; r++) {
      __m512i v[LINES];
#pragma GCC unroll 4
      for (int k = 0; k < LINES; k++) v[k] = _mm512_loadu_si512(x + r * ldx + c + 64 * k);
#pragma GCC unroll 4
      for (int k = 0; k < LINES; k++) _mm512_store_si512(near + r * STEP + 64 * k, v[k]);
    }
    for (int64_t k = 0; k < LINES; k++) {
      for (int64_t r = 0; r < NEAR; r += 16)
        for (int64_t h = 0; h < 2; h++)
          half_tile(near + r * STEP + 64 * k + 32 * h, STEP, room + 8 * h * RUN + 4 * r, RUN);
      char *to = y + (c / 4 + 16 * k) * ldy;
      for (int64_t j = 0; j < 16; j++, to += ldy)
        for (int64_t b = 0; b < RUN; b += 64, fetched++) {
          _mm_prefetch(next + fetched / (CHUNK / 64) * ldx + fetched % (CHUNK / 64) * 64,
                       _MM_HINT_T1);
          STREAM(to + b, _mm512_load_si512(room + j * RUN + b));
        }
    }
  }
}
void turned(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t rows = args[0], ldx = 4 * args[1], ldy = 4 * rows;
  int64_t lo = rows / NEAR * part / parts * NEAR, hi = rows / NEAR * (part + 1) / parts * NEAR;
  for (int64_t i = lo; i < hi; i += NEAR)
    for (int64_t c = 0; c < ldx; c += CHUNK) {
      const char *x = (const char *)in[0] + i * ldx;
      const char *next = c + CHUNK < ldx ? x + c + CHUNK : i + NEAR < hi ? x + NEAR * ldx : x;
      turn_block(x + c, ldx, (char *)out + c / 4 * ldy + 4 * i, ldy, next);
    }
}/* Rows with `bytes` of x between `before` and `behind` zeros; images have `above` rows of zeros on
 * both sides.  Lines are put together in a register, whole ones come from x. */
typedef struct { char *y; int64_t have; __m512i line; uint64_t own; } border_lines;
static inline void add_bytes(border_lines *b, const char *x, int64_t bytes, int zeros) {
  while (bytes > 0) {
    int64_t take = bytes < 64 - b->have ? bytes : 64 - b->have;
    uint64_t mask = ~0ull >> (64 - take) << b->have;
    b->line = zeros ? _mm512_mask_mov_epi8(b->line, mask, _mm512_setzero_si512())
                    : _mm512_mask_loadu_epi8(b->line, mask, x - b->have);
    b->have += take, bytes -= take, x += take;
    if (b->have < 64) return;
    if (b->own == ~0ull) STREAM(b->y, b->line);
    else _mm512_mask_storeu_epi8(b->y, b->own, b->line);
    b->own = ~0ull, b->have = 0, b->y += 64;
    if (zeros)
      for (; bytes >= 64; bytes -= 64, b->y += 64) STREAM(b->y, _mm512_setzero_si512());
    else
      for (; bytes >= 64; bytes -= 64, b->y += 64, x += 64) {
        _mm_prefetch(x + 8192, _MM_HINT_T0);
        STREAM(b->y, _mm512_loadu_si512(x));
      }
  }
}
void images_in_borders(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t images = args[0], rows = args[1], bytes = args[2], above = args[3], beside = args[4];
  int64_t lo = images * part / parts, hi = images * (part + 1) / parts, row = bytes + 2 * beside;
  char *y = (char *)out + lo * (rows + 2 * above) * row;
  int64_t have = (int64_t)((uintptr_t)y % 64);
  border_lines b = {y - have, have, _mm512_setzero_si512(), ~0ull << have};
  const char *x = (const char *)in[0] + lo * rows * bytes;
  for (; lo < hi; lo++) {
    add_bytes(&b, x, above * row, 1);
    for (int64_t r = 0; r < rows; r++, x += bytes) {
      add_bytes(&b, x, beside, 1);
      add_bytes(&b, x, bytes, 0);
      add_bytes(&b, x, beside, 1);
    }
    add_bytes(&b, x, above * row, 1);
  }
  if (b.have) _mm512_mask_storeu_epi8(b.y, b.own & ~(~0ull << b.have), b.line);
}

/* 4 N rows of a line each at x, 16 bytes of each, to N rows of y 256 bytes apart */
#define TURNED(U, N, BITS) \
  static inline void quarter_##U(const char *x, char *y) { \
    __m512i a[N], b[N]; \
    _Pragma("GCC unroll 16") \
    for (int i = 0; i < N; i++) { \
      __m512i v = _mm512_castsi128_si512(_mm_load_si128((const void *)(x + 64 * i))); \
      const char *p = x + 64 * (i + N); \
      v = _mm512_mask_broadcast_i64x2(v, 0x0c, _mm_load_si128((const void *)p)); \
      v = _mm512_mask_broadcast_i64x2(v, 0x30, _mm_load_si128((const void *)(p + 64 * N))); \
      a[i] = _mm512_mask_broadcast_i64x2(v, 0xc0, _mm_load_si128((const void *)(p + 128 * N))); \
    } \
    _Pragma("GCC unroll 4") \
    for (int width = 1; width < N; width *= 2) { \
      _Pragma("GCC unroll 8") \
      for (int i = 0; i < N / 2; i++) { \
        b[2 * i] = _mm512_unpacklo_epi##BITS(a[i], a[i + N / 2]); \
        b[2 * i + 1] = _mm512_unpackhi_epi##BITS(a[i], a[i + N / 2]); \
      } \
      _Pragma("GCC unroll 16") \
      for (int i = 0; i < N; i++) a[i] = b[i]; \
    } \
    _Pragma("GCC unroll 16") \
    for (int i = 0; i < N; i++) _mm512_store_si512(y + 256 * i, a[i]); \
  } \
  void turned_##BITS(const void *const *in, void *out, const int64_t *args, int part, int parts) { \
    enum { ROWS = 16 * N, AHEAD = 256 * 16 / N > 512 ? 512 : 256 * 16 / N }; \
    char near[64 * ROWS] __attribute__((aligned(64))), room[256 * N] __attribute__((aligned(64))); \
    int64_t rows = args[0], ldx = args[1] * (int64_t)sizeof(U), ldy = rows * (int64_t)sizeof(U); \
    int64_t lo = rows / ROWS * part / parts * ROWS, hi = rows / ROWS * (part + 1) / parts * ROWS; \
    for (int64_t i = lo; i < hi; i += ROWS) \
      for (int64_t c = 0; c < ldx; c += 64) { \
        const char *x = (const char *)in[0] + i * ldx + c, *then = x + AHEAD; \
        char *y = (char *)out + c / (int64_t)sizeof(U) * ldy + i * (int64_t)sizeof(U); \
        if (c + AHEAD >= ldx && i + ROWS < hi) then += (ROWS - 1) * ldx; \
        for (int64_t r = 0; r < ROWS; r++) \
          _mm512_store_si512(near + 64 * r, _mm512_loadu_si512(x + r * ldx)); \
        for (int64_t q = 0; q < 64; q += 16) { \
          for (int64_t g = 0; g < 4; g++) quarter_##U(near + 256 * N * g + q, room + 64 * g); \
          for (int64_t j = 0; j < N; j++, y += ldy) \
            for (int64_t k = 0; k < 256; k += 64, then += ldx) { \
              _mm_prefetch(then, _MM_HINT_T1); \
              STREAM(y + k, _mm512_load_si512(room + 256 * j + k)); \
            } \
        } \
      } \
  }
TURNED(uint8_t, 16, 8)
TURNED(uint16_t, 8, 16)
TURNED(uint64_t, 2, 64)
#else /* the loops are of one machine; elsewhere the column says nothing */
void gather_rows(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
void column_slice(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
void turned(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
void turned_8(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
void turned_16(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
void turned_64(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
void images_in_borders(const void *const *in, void *out, const int64_t *args, int part,
                       int parts) {}
#endif
