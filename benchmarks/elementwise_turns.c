/* elementwise_turns.c - the bound of transposes in benchmarks/elementwise.py, out of two measures
 * that share no method with a kernel; never part of pyflow.  Signature: elementwise_loops.h.
 *
 *   turned {rows, columns, size, parts}   a plane of elements of `size` bytes
 *   reversed_4d {parts}                   float32 [32, 64, 64, 64] to perm [3, 2, 1, 0]
 *
 * `parts` is a sum of
 *   1   its lines: blocks of 256 bytes of 64 rows of the result.  Rows of the source are loaded
 *       where they lie (64 bytes that begin inside a line are in two), lines of the result stored
 *       past the caches, four in turn; the next block is fetched; nothing is turned
 *   2   its shuffles, in the nearest cache: as many lines, turned in pieces of 16 bytes inside the
 *       quarters of registers, then four pieces to a line; where rows begin inside lines, so do
 *       the lines that are read, here and once more behind the turn
 * so 3 is the time of a transpose whose arithmetic does not overlap with memory.  Blocks at the
 * ends of rows overlap the ones before them.
 */
#include "elementwise_loops.h"

loop turned, reversed_4d;

#if defined(__AVX512BW__)
#define STREAM(p, v) _mm512_stream_si512((void *)(p), v)
#define ALWAYS static inline __attribute__((always_inline)) void
#define UNROLL(n, i) _Pragma("GCC unroll 16") for (int i = 0; i < n; i++)

/* ------------------------------------------------------------------------------------ lines */
enum { WIDE = 256, COLUMNS = 64, TURN = 8 };
/* row r of the source: r % 32 * near + r / 32 * far; rows of the result: `step` bytes apart */
typedef struct { int64_t near, far, step; } strides;

/* WIDE / size rows of COLUMNS elements at x; `next`: the block that is fetched */
ALWAYS block_lines(const char *x, char *y, strides s, const char *next, const int64_t size) {
  for (int64_t k = 0; k < WIDE; k += TURN) {
    __m512i v[TURN];
    UNROLL(TURN, i) {
      int64_t r = (k + i) / size, at = r % 32 * s.near + r / 32 * s.far + (k + i) % size * 64;
      _mm_prefetch(next + at + 63, _MM_HINT_T1);
      v[i] = _mm512_loadu_si512(x + at);
    }
    UNROLL(TURN, i) {
      uintptr_t to = (uintptr_t)(y + (k + i) / 4 * s.step);
      STREAM(to / 64 * 64 + (uintptr_t)(i % 4) * 64, v[i]);
    }
  }
}
/* bands lo to hi of rows, along whole rows */
ALWAYS plane_lines(const char *x, char *y, int64_t rows, int64_t columns, const int64_t size,
                   int64_t lo, int64_t hi) {
  int64_t high = WIDE / size, ldx = columns * size;
  strides s = {ldx, 32 * ldx, rows * size};
  for (int64_t b = lo; b < hi; b++)
    for (int64_t c = 0; c < columns; c += COLUMNS) {
      int64_t i = b * high < rows - high ? b * high : rows - high;
      int64_t j = c < columns - COLUMNS ? c : columns - COLUMNS;
      const char *from = x + i * ldx + j * size, *next = from + COLUMNS * size;
      if (c + COLUMNS >= columns) next = i + 2 * high <= rows ? x + (i + high) * ldx : from;
      block_lines(from, y + j * s.step + i * size, s, next, size);
    }
}

/* ------------------------------------------------------------------------------------ shuffles */
enum { SOME = 64 };                     /* lines at a time */
/* N rows of a line: the elements of each quarter are turned */
#define QUARTERS(N, BITS) \
  ALWAYS quarters_##BITS(const char *x, char *y) { \
    __m512i a[N], b[N]; \
    UNROLL(N, i) a[i] = _mm512_loadu_si512(x + 64 * i); \
    _Pragma("GCC unroll 4") \
    for (int stage = 1; stage < N; stage *= 2) { \
      UNROLL(N / 2, i) { \
        b[2 * i] = _mm512_unpacklo_epi##BITS(a[i], a[i + N / 2]); \
        b[2 * i + 1] = _mm512_unpackhi_epi##BITS(a[i], a[i + N / 2]); \
      } \
      UNROLL(N, i) a[i] = b[i]; \
    } \
    UNROLL(N, i) _mm512_store_si512(y + 64 * i, a[i]); \
  }
QUARTERS(16, 8)
QUARTERS(8, 16)
QUARTERS(4, 32)
QUARTERS(2, 64)
ALWAYS gathered(const char *x, int64_t step, char *y) {
#define PIECE(k) _mm_load_si128((const void *)(x + (k) * step))
  __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(PIECE(0)), PIECE(1), 1);
  __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(PIECE(2)), PIECE(3), 1);
  _mm512_store_si512(y, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
#undef PIECE
}
/* `off`: rows begin so far inside lines */
static void shuffles(int64_t lines, int64_t size, int64_t off) {
  char room[64 * SOME + 1024] __attribute__((aligned(64))) = {0}, *x = room + off;
  char y[64 * SOME + 512] __attribute__((aligned(64))) = {0};
  char pieces[64 * SOME] __attribute__((aligned(64)));
  for (; lines > 0; lines -= SOME) {
    for (int64_t i = 0; i < SOME; i += 16 / size) {
      if (size == 1) quarters_8(x + 64 * i, pieces + 64 * i);
      else if (size == 2) quarters_16(x + 64 * i, pieces + 64 * i);
      else if (size == 4) quarters_32(x + 64 * i, pieces + 64 * i);
      else quarters_64(x + 64 * i, pieces + 64 * i);
    }
    for (int64_t i = 0; i < SOME; i++)
      gathered(pieces + i % 4 * 16 + i / 4 * 64, 64 * SOME / 4, y + 64 * i);
    for (int64_t i = 0; off && i < SOME; i++)
      _mm512_store_si512(pieces + 64 * i, _mm512_loadu_si512(y + 64 * i + off));
    __asm__ volatile("" : : "r"(x), "r"(y), "r"(pieces) : "memory"); /* each time is wanted */
  }
}

/* ------------------------------------------------------------------------------------ bounds */
void turned(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t rows = args[0], columns = args[1], size = args[2], high = WIDE / size;
  int64_t bands = (rows + high - 1) / high, lo = bands * part / parts;
  int64_t hi = bands * (part + 1) / parts, lines = rows * columns * size / 64 / parts;
  const char *x = (const char *)in[0];
  if (!(args[3] & 1)) hi = lo;
  if (size == 1) plane_lines(x, out, rows, columns, 1, lo, hi);
  else if (size == 2) plane_lines(x, out, rows, columns, 2, lo, hi);
  else if (size == 4) plane_lines(x, out, rows, columns, 4, lo, hi);
  else plane_lines(x, out, rows, columns, 8, lo, hi);
  if (args[3] & 2) shuffles(lines, size, (rows | columns) * size % 64 ? size : 0);
}
void reversed_4d(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  enum { D0 = 1 << 20, D1 = 1 << 14, D2 = 256 };
  strides s = {D0, D1, 1 << 19};
  int64_t lo = 32 * part / parts, hi = 32 * (part + 1) / parts;
  for (int64_t i = args[0] & 1 ? lo : hi; i < hi; i++)
    for (int64_t d = 0; d < 64; d++) {
      const char *x = (const char *)in[0] + 2 * i * D1 + d * D2;
      const char *next = d < 63 ? x + D2 : i < 31 ? x + 2 * D1 - 63 * D2 : x;
      block_lines(x, (char *)out + d * 8192 + i * 256, s, next, 4);
    }
  if (args[0] & 2) shuffles((1 << 19) / parts, 4, 0);
}
#else /* the loops are of one machine; elsewhere the column says nothing */
void turned(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
void reversed_4d(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
#endif
