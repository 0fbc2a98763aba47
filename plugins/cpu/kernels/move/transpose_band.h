/* transpose_band.h - part of transpose.c: planes whose rows begin inside lines, of elements of 1, 2
 * and 4 bytes (AVX-512; 4 bytes where not in strips).
 *
 * A band is so many rows of x that they fill BAND lines of a row of y, and is walked in strips of
 * 64 bytes.  Rows are loaded in whole lines, each once (two lines for a piece of each row, of rows
 * that share their places in the nearest cache, cost twice as much): the last line of every row
 * stays near, and a piece is put together of it and the next.  Pieces are turned as
 * transpose_block.h does; each row of y joins its lines to what the band before left of one, which
 * is kept, and stores BAND lines.  Only where a row of y begins or ends are lines stored in part.
 *
 * Bytes are shifted with AVX512-VBMI's permutation of two registers.
 *
 * Fast path: transpose_odd_uint8, transpose_odd_float16 (docs/paths.md).
 */
#if defined(__AVX512BW__)
enum { BAND = 4, BAND_COLUMNS = 1088, FETCH = 3, FETCH_FAR = 6 }; /* FETCH: strips */
#define VBMI __attribute__((target("avx512vbmi")))

static const uint8_t byte_count[128] __attribute__((aligned(64))) = {
#define EIGHT(n) n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7
  EIGHT(0),  EIGHT(8),  EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40),  EIGHT(48),  EIGHT(56),
  EIGHT(64), EIGHT(72), EIGHT(80), EIGHT(88), EIGHT(96), EIGHT(104), EIGHT(112), EIGHT(120)};
#undef EIGHT
/* 64 bytes, from byte `off` of a and b, one behind the other */
static inline __attribute__((always_inline)) VBMI __m512i joined_8(__m512i a, __m512i b, int off) {
  return _mm512_permutex2var_epi8(a, _mm512_loadu_si512(byte_count + off), b);
}
/* (The 32-bit permutation is one step on any processor, the 16-bit one three on Intel's.) */
PF_INLINE __m512i joined_32(__m512i a, __m512i b, int off) {
  static const uint32_t count[32] __attribute__((aligned(64))) = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
  return _mm512_permutex2var_epi32(a, _mm512_loadu_si512(count + off / 4), b);
}
PF_INLINE __m512i joined_16(__m512i a, __m512i b, int off) {
  __m512i from = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)(byte_count + off / 2)));
  return _mm512_permutex2var_epi16(a, from, b);
}

/* `rows` of x, of which `left` bytes are left; `fetched`: what is read later, from rows 0 to
 * `fetched_last` */
typedef struct {
  const char *x, *fetched;
  int64_t ldx, rows, left, fetched_last;
} strip_in;
typedef struct {
  char old[BAND * 64 * 64] __attribute__((aligned(64)));         /* the last line of each row */
  char near[BAND * 4 * PIECE_STEP] __attribute__((aligned(64))); /* turned pieces */
  char kept[BAND_COLUMNS][64] __attribute__((aligned(64)));      /* the last lines of columns */
} band_room;

/* the first `bytes` of a line at x (that is, all of them where there are more than 63) */
PF_INLINE __m512i line_begin(const char *x, int64_t bytes) {
  return bytes > 63 ? _mm512_load_si512(x)
                    : _mm512_maskz_loadu_epi8(bytes > 0 ? (1ull << bytes) - 1 : 0, x);
}
static void begin_rows(const strip_in *s, char *old) {
  for (int64_t r = 0; r < s->rows; r++) {
    const char *p = s->x + r * s->ldx;
    int64_t off = (int64_t)((uintptr_t)p % 64);
    uint64_t own = ~0ull << off;
    if (s->left + off < 64) own &= (1ull << (s->left + off)) - 1;
    _mm512_store_si512(old + 64 * r, _mm512_maskz_loadu_epi8(own, p - off));
  }
}
#define BAND_OF(U, N, WAY, JOIN) \
  static inline __attribute__((always_inline)) WAY void read_rows_##U( \
      const strip_in *in, char *old, char *near, int whole) { \
    const strip_in s = *in; \
    for (int64_t g = 0; g < s.rows; g += N, near += PIECE_STEP, old += N * 64) { \
      __m512i a[N]; \
      _Pragma("GCC unroll 16") \
      for (int64_t k = 0; k < N; k++) { \
        int64_t r = whole ? g + k : PF_MIN(g + k, s.rows - 1); \
        const char *p = s.x + r * s.ldx; \
        int off = (int)((uintptr_t)p % 64); \
        __builtin_prefetch(s.fetched + (whole ? r : PF_MIN(r, s.fetched_last)) * s.ldx, 0, 2); \
        __m512i before = _mm512_load_si512(old + 64 * k); \
        __m512i line = line_begin(p - off + 64, whole ? 64 : s.left - 64 + off); \
        _mm512_store_si512(old + 64 * k, line); \
        a[k] = JOIN(before, line, off); \
      } \
      turned_##U(a, near); \
    } \
  } \
  WAY static void read_strip_##U(const strip_in *s, char *old, char *near) { \
    if (s->left > 127 && s->rows % N == 0) read_rows_##U(s, old, near, 1); \
    else read_rows_##U(s, old, near, 0); \
  } \
  /* `rows` new elements of each of n rows of y */ \
  WAY static void put_strip_##U(const char *near, char (*kept)[64], char *y, int64_t ldy, \
                                int64_t n, int64_t rows, int first, int last) { \
    for (int64_t c = 0; c < n; c++, y += ldy, kept++) { \
      int off = (int)((uintptr_t)y % 64); \
      const char *from = near + c % N * 64 + c / N * 16; \
      char *to = y - off; \
      __m512i before = _mm512_load_si512(kept), line = before; \
      if (first || last) { \
        int64_t bytes = last ? rows * (int64_t)sizeof(U) + off : 64 * BAND; \
        for (int64_t k = 0; 64 * k < bytes; k++, before = line) { \
          uint64_t own = ~0ull >> (64 - PF_MIN(64, bytes - 64 * k)); \
          if (k < BAND) line = line_of(from + k * LINE_STEP); \
          if (first && k == 0) own &= ~0ull << off; \
          __m512i all = JOIN(before, line, 64 - off); \
          if (own == ~0ull) STREAM_LINE(to + 64 * k, all); \
          else _mm512_mask_storeu_epi8(to + 64 * k, own, all); \
        } \
      } else { \
        EACH_4 { \
          line = line_of(from + i * LINE_STEP); \
          STREAM_LINE(to + 64 * i, JOIN(before, line, 64 - off)); \
          before = line; \
        } \
      } \
      _mm512_store_si512(kept, line); \
    } \
  }
BAND_OF(uint8_t, 16, VBMI, joined_8)
BAND_OF(uint16_t, 8, , joined_16)
BAND_OF(uint32_t, 4, , joined_32)

/* Bands down BAND_COLUMNS columns, then down the next.  What is read FETCH strips later is fetched,
 * of this band or the next. */
#define BAND_WALK(U, WAY) \
  WAY static void in_bands_##U(const char *x, int64_t ldx, char *y, int64_t ldy, int64_t ni, \
                               int64_t nj, const char *next) { \
    const int64_t size = sizeof(U), rows = BAND * 64 / size, most = BAND_COLUMNS * size; \
    int64_t blocks = (nj + most - 1) / most, wide = ((nj + blocks - 1) / blocks + 63) / 64 * 64; \
    band_room room; \
    for (int64_t lo = 0; lo < nj; lo += wide) \
      for (int64_t i = 0; i < ni; i += rows) { \
        int64_t m = PF_MIN(rows, ni - i), bytes = PF_MIN(wide, nj - lo), more = i + rows < ni; \
        const char *from = x + i * ldx + lo, *then = more ? from + rows * ldx : x + lo + wide; \
        if (!more && lo + wide >= nj) then = next ? next : x; \
        int64_t left = more ? PF_MIN(rows, ni - i - rows) : PF_MIN(rows, ni); \
        int64_t strips = (bytes + 63) / 64, column = lo / size; \
        int64_t early = PF_MIN(size > 1 && pf_has_far_caches() ? FETCH_FAR : FETCH, strips); \
        strip_in s = {from, NULL, ldx, m, bytes, 0}; \
        begin_rows(&s, room.old); \
        for (int64_t c = 0; c < bytes; c += 64, s.x += 64, s.left -= 64) { \
          int64_t later = c / 64 + early; \
          s.fetched = later < strips ? s.x + early * 64 : then + (later - strips) * 64; \
          s.fetched_last = (later < strips ? m : left) - 1; \
          read_strip_##U(&s, room.old, room.near); \
          int64_t n = PF_MIN(64, s.left) / size; \
          put_strip_##U(room.near, room.kept + c / size, y + column * ldy + i * size, ldy, n, m, \
                        i == 0, !more); \
          column += n; \
        } \
      } \
  }
BAND_WALK(uint8_t, VBMI)
BAND_WALK(uint16_t, )
BAND_WALK(uint32_t, )
/* 0: nothing is done, as elements are of other sizes, or the processor cannot */
static int in_bands(int64_t esize, const char *x, int64_t ldx, char *y, int64_t ldy, int64_t ni,
                    int64_t nj, const char *next) {
  int odd = (((uintptr_t)x | (uintptr_t)y) & (uintptr_t)(esize - 1)) != 0;
  if (odd || (esize == 1 && !pf_has_byte_permutation())) return 0;
  ldx *= esize, ldy *= esize, nj *= esize;
  switch (esize) {
    case 1: in_bands_uint8_t(x, ldx, y, ldy, ni, nj, next); return 1;
    case 2: in_bands_uint16_t(x, ldx, y, ldy, ni, nj, next); return 1;
    case 4: in_bands_uint32_t(x, ldx, y, ldy, ni, nj, next); return 1;
    default: return 0;
  }
}
#endif
