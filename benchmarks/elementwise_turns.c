/* elementwise_turns.c - bounds of transposes whose rows begin inside lines, and of reversed
 * dimensions (benchmarks/elementwise.py, column "bound"): each the best loop known for the job,
 * never part of pyflow.  Signature: elementwise_loops.h.
 *
 *   odd_8, odd_16, odd_32 {rows, columns}   lines of some rows are copied near and turned in
 *                       registers to 256 bytes of each column, behind the 64 bytes before them;
 *                       then whole lines are read from there, wherever they begin, and stored in
 *                       fours; what is read next is fetched with them
 *   slanted {rows, columns}   float32, columns that begin at 16 different places of a line (an odd
 *                       number of rows): registers take each lane from row r or from r + 16, so a
 *                       turned register has a line's elements, only rotated; stored in pairs
 *   reversed_4d {}      float32 [32, 64, 64, 64] to perm [3, 2, 1, 0]: 64 rows at a time, in fours
 */
#include "elementwise_loops.h"

loop odd_8, odd_16, odd_32, slanted, reversed_4d;

#if defined(__AVX512BW__)
#define STREAM(p, v) _mm512_stream_si512((void *)(p), v)
#define ALWAYS static inline __attribute__((always_inline)) void
#define UNROLL_4 _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)
#define UNROLL_8 _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++)
#define UNROLL_16 _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++)
enum { RUN = 320 };                     /* of a column: a line before it, then 256 bytes */

/* The runs at `room` to n columns of y; `lines` of each row at `then` are fetched.  `first`,
 * `last`: the columns begin or end here. */
ALWAYS put_runs(char *room, int64_t n, char *y, int64_t ldy, const char *then, int64_t ldx,
           const int lines, const int first, const int last) {
  int f = 0;
  for (int64_t j = 0; j < n; j++, y += ldy, room += RUN) {
    int64_t off = (int64_t)((uintptr_t)y % 64);
    char *to = y - off, *from = room + 64 - off;
    UNROLL_4 {
      _mm_prefetch(then + 64 * f, _MM_HINT_T1);
      if (++f == lines) f = 0, then += ldx;
    }
    if (first) _mm512_mask_storeu_epi8(to, ~0ull << off, _mm512_loadu_si512(from));
    else STREAM(to, _mm512_loadu_si512(from));
    STREAM(to + 64, _mm512_loadu_si512(from + 64));
    STREAM(to + 128, _mm512_loadu_si512(from + 128));
    STREAM(to + 192, _mm512_loadu_si512(from + 192));
    if (last) _mm512_mask_storeu_epi8(to + 256, ~(~0ull << off), _mm512_loadu_si512(from + 256));
    else _mm512_store_si512(room, _mm512_load_si512(room + 256));
  }
}
/* 4 N rows of 16 bytes at x to a line of each of N runs */
#define TILE(U, N, BITS) \
  ALWAYS tile_##BITS(const char *x, int64_t step, char *y) { \
    __m512i a[N], b[N]; \
    _Pragma("GCC unroll 16") \
    for (int i = 0; i < N; i++, x += step) { \
      __m512i v = _mm512_castsi128_si512(_mm_load_si128((const void *)x)); \
      const void *p = x + N * step, *q = x + 2 * N * step, *r = x + 3 * N * step; \
      v = _mm512_mask_broadcast_i64x2(v, 0x0c, _mm_load_si128(p)); \
      v = _mm512_mask_broadcast_i64x2(v, 0x30, _mm_load_si128(q)); \
      a[i] = _mm512_mask_broadcast_i64x2(v, 0xc0, _mm_load_si128(r)); \
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
    for (int i = 0; i < N; i++) _mm512_store_si512(y + RUN * i, a[i]); \
  }
/* lines_: LINES of each of 4 N rows to a line of their columns' runs.  odd_: bands of BAND rows;
 * in a band, columns 64 * LINES bytes at a time; down them, 16 N rows.  NEXT: fetched are the
 * next columns of the same rows, otherwise the next rows. */
#define ODD(U, N, BITS, LINES, BAND, NEXT) \
  TILE(U, N, BITS) \
  ALWAYS lines_##BITS(const char *x, int64_t ldx, char *room) { \
    enum { STEP = 64 * LINES + 64 }; \
    char near[4 * N * STEP] __attribute__((aligned(64))); \
    for (int64_t r = 0; r < 4 * N; r++) { \
      __m512i v[LINES]; \
      _Pragma("GCC unroll 4") \
      for (int k = 0; k < LINES; k++) v[k] = _mm512_loadu_si512(x + r * ldx + 64 * k); \
      _Pragma("GCC unroll 4") \
      for (int k = 0; k < LINES; k++) _mm512_store_si512(near + r * STEP + 64 * k, v[k]); \
    } \
    for (int64_t q = 0; q < 4 * LINES; q++) tile_##BITS(near + 16 * q, STEP, room + q * N * RUN); \
  } \
  void odd_##BITS(const void *const *in, void *out, const int64_t *args, int part, int parts) { \
    enum { ROWS = 16 * N, SIZE = sizeof(U), WIDE = 64 * LINES / SIZE }; \
    char room[WIDE * RUN] __attribute__((aligned(64))); \
    int64_t rows = args[0], columns = args[1], ldx = columns * SIZE, ldy = rows * SIZE; \
    int64_t lo = rows / ROWS * part / parts * ROWS, hi = rows / ROWS * (part + 1) / parts * ROWS; \
    if (part + 1 == parts) hi = rows; \
    for (int64_t i = lo; i < hi; i += BAND) \
      for (int64_t c = 0; c < columns; c += WIDE) { \
        int64_t more = c + WIDE < columns, left = more ? c : columns - WIDE; \
        int64_t end = i + BAND < hi ? i + BAND : hi; \
        for (int64_t r = i; r < end; r += ROWS) { \
          int64_t at = r + ROWS < end ? r : end - ROWS; \
          const char *x = (const char *)in[0] + at * ldx + left * SIZE, *then = x + 64 * LINES; \
          char *y = (char *)out + left * ldy + at * SIZE; \
          if ((at != r || r == i) && at) lines_##BITS(x - 4 * N * ldx, ldx, room); \
          UNROLL_4 lines_##BITS(x + 4 * N * k * ldx, ldx, room + 64 + 64 * k); \
          if (!NEXT && r + ROWS < end) then = x + ROWS * ldx; \
          else if (!NEXT) then = x + (i - at) * ldx + 64 * LINES; \
          if (!at) put_runs(room, WIDE, y, ldy, then + 63, ldx, LINES, 1, 0); \
          else if (at + ROWS < rows) put_runs(room, WIDE, y, ldy, then + 63, ldx, LINES, 0, 0); \
          else put_runs(room, WIDE, y, ldy, then + 63, ldx, LINES, 0, 1); \
        } \
      } \
  }
ODD(uint8_t, 16, 8, 4, 512, 1)
ODD(uint16_t, 8, 16, 2, 2048, 0)
ODD(uint32_t, 4, 32, 4, 1024, 0)

/* turn[j]: column j's rotation; from[r]: columns that take row r, not r + 16; half: the same of
 * rows r and r + 8, of 8 columns */
typedef struct { __m512i turn[16]; uint16_t from[16], half[2][8]; } slant;
static void slant_of(uintptr_t y, int64_t ldy, slant *s) {
  *s = (slant){0};
  for (int j = 0; j < 16; j++) {
    int first = (int)(-(y / 4 + (uintptr_t)(j * ldy) / 4) % 16), place[16];
    for (int r = 0; r < 16; r++) place[r] = (first + r) % 16;
    for (int r = first; r < 16; r++) s->from[r] |= (uint16_t)(1 << j);
    s->turn[j] = _mm512_loadu_si512(place);
  }
  for (int r = 0; r < 8; r++)
    for (int c = 0; c < 2; c++)
      s->half[c][r] = (uint16_t)((s->from[r] >> 8 * c & 255) |
                                 (s->from[r + 8] >> 8 * c & 255) << 8);
}
ALWAYS stages_64(const __m512i a[4], __m512i b[4]) {
  __m512i l = _mm512_unpacklo_epi32(a[0], a[1]), h = _mm512_unpackhi_epi32(a[0], a[1]);
  __m512i m = _mm512_unpacklo_epi32(a[2], a[3]), k = _mm512_unpackhi_epi32(a[2], a[3]);
  b[0] = _mm512_unpacklo_epi64(l, m), b[1] = _mm512_unpackhi_epi64(l, m);
  b[2] = _mm512_unpacklo_epi64(h, k), b[3] = _mm512_unpackhi_epi64(h, k);
}
/* 16 rows in registers to 16 columns */
ALWAYS lanes_16(__m512i a[16]) {
  __m512i b[16];
  UNROLL_4 stages_64(a + 4 * k, b + 4 * k);
  UNROLL_4 {
    __m512i p = _mm512_shuffle_i32x4(b[k], b[4 + k], 0x88), q = b[8 + k], t = b[12 + k];
    __m512i r = _mm512_shuffle_i32x4(b[k], b[4 + k], 0xdd);
    __m512i u = _mm512_shuffle_i32x4(q, t, 0x88), v = _mm512_shuffle_i32x4(q, t, 0xdd);
    a[k] = _mm512_shuffle_i32x4(p, u, 0x88), a[8 + k] = _mm512_shuffle_i32x4(p, u, 0xdd);
    a[4 + k] = _mm512_shuffle_i32x4(r, v, 0x88), a[12 + k] = _mm512_shuffle_i32x4(r, v, 0xdd);
  }
}
#define ADD(p, step) p += step; __asm__("" : "+r"(p)) /* one pointer, not one for each row */
/* rows of x, or those 16 below, to 16 columns */
ALWAYS turn_16(const char *x, int64_t ldx, const slant *s, __m512i a[16]) {
  const char *below = x + 16 * ldx;
  UNROLL_16 {
    a[i] = _mm512_mask_loadu_epi32(_mm512_loadu_si512(below), s->from[i], x);
    ADD(x, ldx);
    ADD(below, ldx);
  }
  lanes_16(a);
}
/* the same of 8 columns: rows i and i + 8 share a register */
ALWAYS turn_8(const char *x, int64_t ldx, const uint16_t *half, __m512i v[8]) {
  __m512i a[8], b[8];
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
  const __m512i high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
#define BOTH(p) _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const void *)(p))), \
                                   _mm256_loadu_si256((const void *)((p) + 8 * ldx)), 1)
  UNROLL_8 { a[i] = BOTH(x); ADD(x, ldx); }
  x += 8 * ldx;
  UNROLL_8 { a[i] = _mm512_mask_mov_epi32(BOTH(x), half[i], a[i]); ADD(x, ldx); }
#undef BOTH
  stages_64(a, b), stages_64(a + 4, b + 4);
  UNROLL_4 v[k] = _mm512_permutex2var_epi64(b[k], low, b[4 + k]);
  UNROLL_4 v[4 + k] = _mm512_permutex2var_epi64(b[k], high, b[4 + k]);
}
/* two lines of 16 columns; 48 rows of x are read, 32 rows at `then` fetched */
ALWAYS pairs(const char *x, int64_t ldx, char *y, int64_t ldy, const slant *s, const char *then) {
  __m512i a[16], b[8];
  for (int r = 0; r < 32; r++, then += ldx) _mm_prefetch(then, _MM_HINT_T1);
  turn_16(x, ldx, s, a);
  y += 63;
  for (int c = 0; c < 16; c += 8) {
    turn_8(x + 16 * ldx + 4 * c, ldx, s->half[c / 8], b);
    UNROLL_8 {
      char *to = (char *)((uintptr_t)y & ~(uintptr_t)63);
      __m512i turn = _mm512_load_si512(&s->turn[c + i]);
      STREAM(to, _mm512_permutexvar_epi32(turn, a[c + i]));
      STREAM(to + 64, _mm512_permutexvar_epi32(turn, b[i]));
      ADD(y, ldy);
    }
  }
}
static void one_by_one(const char *x, int64_t ldx, char *y, int64_t ldy, int64_t n, int64_t m) {
  for (int64_t j = 0; j < m; j++)
    for (int64_t i = 0; i < n; i++) memcpy(y + j * ldy + 4 * i, x + i * ldx + 4 * j, 4);
}
void slanted(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  int64_t rows = args[0], ldx = 4 * args[1], ldy = 4 * rows, tiles = args[1] / 16;
  int64_t lo = tiles * part / parts * 16, hi = tiles * (part + 1) / parts * 16;
  int64_t whole = (rows - 16) / 32 * 32, all = part + 1 == parts ? args[1] : hi;
  const char *x = (const char *)in[0];
  char *y = (char *)out;
  slant s;
  slant_of((uintptr_t)y + (uintptr_t)(lo * ldy), ldy, &s);
  one_by_one(x + 4 * lo, ldx, y + lo * ldy, ldy, 16, hi - lo);
  one_by_one(x + 4 * hi, ldx, y + hi * ldy, ldy, whole, all - hi);
  one_by_one(x + whole * ldx + 4 * lo, ldx, y + lo * ldy + 4 * whole, ldy, rows - whole, all - lo);
  for (int64_t c = lo; c < hi; c += 1024)
    for (int64_t i = 0; i < whole; i += 32)
      for (int64_t j = c; j < hi && j < c + 1024; j += 16) {
        const char *p = x + i * ldx + 4 * j;
        pairs(p, ldx, y + j * ldy + 4 * i, ldy, &s, p + (i + 80 <= rows ? 48 : 0) * ldx);
      }
}

void reversed_4d(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  enum { D0 = 1 << 20, D1 = 1 << 14, D2 = 256, STEP = 320 };
  char room[64 * RUN] __attribute__((aligned(64))), near[64 * STEP] __attribute__((aligned(64)));
  for (int64_t i = 64 * part / parts / 2 * 2; i < 64 * (part + 1) / parts / 2 * 2; i += 2)
    for (int64_t d = 0; d < 64; d++) {
      const char *x = (const char *)in[0] + i * D1 + d * D2, *then = x + (d < 63 ? D2 : D1 + D2);
      if (i == 62 && d == 63) then = x;
      for (int64_t r = 0; r < 64; r++) {
        __m512i v[4];
        UNROLL_4 v[k] = _mm512_loadu_si512(x + r % 32 * D0 + r / 32 * D1 + 64 * k);
        UNROLL_4 _mm512_store_si512(near + r * STEP + 64 * k, v[k]);
      }
      for (int64_t r = 0; r < 64; r += 16)
        for (int64_t c = 0; c < 64; c += 16) {
          __m512i a[16];
          UNROLL_16 a[i] = _mm512_load_si512(near + (r + i) * STEP + 4 * c);
          lanes_16(a);
          UNROLL_16 _mm512_store_si512(room + (c + i) * RUN + 4 * r, a[i]);
        }
      char *y = (char *)out + d * 8192 + i * 128;
      for (int64_t j = 0; j < 64; j++, y += 1 << 19) {
        const char *p = then + j % 32 * D0 + j / 32 * D1;
        UNROLL_4 _mm_prefetch(p + 64 * k, _MM_HINT_T1);
        UNROLL_4 STREAM(y + 64 * k, _mm512_load_si512(room + RUN * j + 64 * k));
      }
    }
}
#else /* the loops are of one machine; elsewhere the column says nothing */
#define NONE(f) \
  void f(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
NONE(odd_8) NONE(odd_16) NONE(odd_32) NONE(slanted) NONE(reversed_4d)
#endif
