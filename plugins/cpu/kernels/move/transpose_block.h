/* transpose_block.h - part of transpose.c: blocks of a plane, stored past the caches (AVX-512).
 *
 * A block is done in strips of 64 columns and of as many rows as fill GROUP lines of a row of y.  A
 * strip is read once, in whole lines; pieces of 16 bytes of y's rows are turned inside the quarters
 * of registers and kept near.  Then each row of y gathers its pieces, four to a line, and stores
 * GROUP lines, one behind the other; with them, what the next block reads is fetched to the second
 * cache.  So arithmetic and ordinary stores take turns with stores past the caches.
 *
 * Where y's rows begin inside lines, a line is made of two registers: the strip's line before it
 * stays near (a ring of GROUP + 1 lines).  Only where a row of y begins or ends are lines stored in
 * part.
 *
 * Fast path: transpose_uint8, transpose_2d_float16 (docs/paths.md).
 */
#if defined(__AVX512BW__)
enum { GROUP = 4, PIECE_STEP = 1024 + 64, LINE_STEP = 4 * PIECE_STEP };

/* p[r] + 64 * w: a line of each of N rows (its bytes in `own`) to N pieces of each quarter */
#define STRIP_OF(U, N, BITS) \
  PF_INLINE void turned_##U(__m512i a[N], char *near) { \
    __m512i b[N]; \
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
    for (int c = 0; c < N; c++) _mm512_store_si512(near + c * 64, a[c]); \
  } \
  PF_INLINE void pieces_##U(const char *const p[N], int64_t w, uint64_t own, char *near) { \
    __m512i a[N]; \
    _Pragma("GCC unroll 16") \
    for (int r = 0; r < N; r++) \
      a[r] = own == ~0ull ? _mm512_loadu_si512(p[r] + 64 * w) \
                          : _mm512_maskz_loadu_epi8(own, p[r] + 64 * w); \
    turned_##U(a, near + w * N * 64); \
  } \
  static void strip_##U(const char *x, int64_t ldx, int64_t rows, int64_t bytes, char *near) { \
    for (int64_t i = 0; i < 4 * N && i < rows; i += N, near += PIECE_STEP, x += N * ldx) { \
      const char *p[N]; \
      _Pragma("GCC unroll 16") \
      for (int64_t r = 0; r < N; r++) p[r] = x + r * ldx; \
      for (int64_t r = rows - i; r < N; r++) p[r] = x; \
      if (bytes == 1024 / N) { \
        _Pragma("GCC unroll 8") \
        for (int64_t w = 0; w < 16 / N; w++) pieces_##U(p, w, ~0ull, near); \
      } else { \
        for (int64_t w = 0; 64 * w < bytes; w++) \
          pieces_##U(p, w, ~0ull >> (64 - PF_MIN(64, bytes - 64 * w)), near); \
      } \
    } \
  }
STRIP_OF(uint8_t, 16, 8)
STRIP_OF(uint16_t, 8, 16)
STRIP_OF(uint32_t, 4, 32)
STRIP_OF(uint64_t, 2, 64)
static void strip_e16(const char *x, int64_t ldx, int64_t rows, int64_t bytes, char *near) {
  for (int64_t i = 0; i < 4 && i < rows; i++, x += ldx, near += PIECE_STEP)
    for (int64_t k = 0; k < bytes; k += 64) {
      uint64_t own = ~0ull >> (64 - PF_MIN(64, bytes - k));
      _mm512_store_si512(near + k, _mm512_maskz_loadu_epi8(own, x + k));
    }
}

/* 256 bytes of one row, then of the next; then the next 256 bytes of all */
typedef struct {
  const char *x;
  int64_t ldx, rows, row;
} fetch_rows;
PF_INLINE void fetch_four(fetch_rows *f) {
  const char *p = f->x + f->row * f->ldx + 63; /* its first line is here, or was the last one's */
  EACH_4 __builtin_prefetch(p + 64 * i, 0, 2);
  if (++f->row == f->rows) f->row = 0, f->x += 256;
}

PF_INLINE __m512i line_of(const char *near) {
#define PIECE(k) _mm_load_si128((const __m128i *)(near + (k) * PIECE_STEP))
  __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(PIECE(0)), PIECE(1), 1);
  __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(PIECE(2)), PIECE(3), 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
#undef PIECE
}
/* `from` + 16-bit places of `before` and `line`, one behind the other; `odd`: and a byte */
PF_INLINE __m512i behind(__m512i before, __m512i line, __m512i from, int odd) {
  __m512i a = _mm512_permutex2var_epi16(before, from, line);
  if (!odd) return a;
  from = _mm512_add_epi16(from, _mm512_set1_epi16(1));
  __m512i b = _mm512_permutex2var_epi16(before, from, line);
  return _mm512_or_si512(_mm512_srli_epi16(a, 8), _mm512_slli_epi16(b, 8));
}
/* the last `off` bytes of a line are first */
PF_INLINE __m512i last_first(int off) {
  static const int16_t count[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
  return _mm512_add_epi16(_mm512_set1_epi16((int16_t)((64 - off) / 2)), _mm512_loadu_si512(count));
}
/* GROUP lines to y; near[1] ... near[GROUP] have their pieces, near[0] those of the line before */
PF_INLINE void put_shifted(char *const near[GROUP + 1], int64_t at, char *y, int odd) {
  int off = (int)((uintptr_t)y % 64);
  __m512i before = line_of(near[0] + at), from = last_first(off);
  y -= off;
  EACH_4 {
    __m512i next = line_of(near[i + 1] + at);
    STREAM_LINE(y + 64 * i, off ? behind(before, next, from, odd) : next);
    before = next;
  }
}
/* the same where a row of y begins or ends: `first`: no line is before these; `bytes`: so many end
 * the row and all are stored, 0: it goes on */
static void put_ends(char *const near[GROUP + 1], int64_t at, char *y, int64_t bytes, int first) {
  int off = (int)((uintptr_t)y % 64);
  __m512i before = line_of(near[0] + at), next = before, from = last_first(off);
  y -= off, bytes = bytes ? bytes + off : 64 * GROUP;
  for (int64_t k = 0; 64 * k < bytes; k++) {
    uint64_t own = ~0ull >> (64 - PF_MIN(64, bytes - 64 * k));
    if (k < GROUP) next = line_of(near[k + 1] + at);
    if (k == 0 && first) own &= ~0ull << off;
    __m512i all = off ? behind(before, next, from, off % 2) : next;
    if (own == ~0ull) STREAM_LINE(y + 64 * k, all);
    else _mm512_mask_storeu_epi8(y + 64 * k, own, all);
    before = next;
  }
}
enum { PUT_WHOLE, PUT_SHIFTED, PUT_ENDS };
PF_INLINE void put_columns(char *const near[GROUP + 1], int64_t per_piece, int64_t columns, char *y,
                           int64_t ldy, int how, int64_t bytes, int first, fetch_rows *fetched) {
  fetch_rows f = *fetched;
  for (int64_t w = 0; columns > 0; w += 64 * per_piece)
    for (int64_t quarter = 0; quarter < 64 && columns > 0; quarter += 16)
      for (int64_t c = 0; c < per_piece && columns > 0; c++, columns--, y += ldy) {
        int64_t at = w + quarter + 64 * c;
        fetch_four(&f);
        if (how == PUT_SHIFTED && (uintptr_t)y % 2) put_shifted(near, at, y, 1);
        else if (how == PUT_SHIFTED) put_shifted(near, at, y, 0);
        else if (how == PUT_ENDS) put_ends(near, at, y, bytes, first);
        else EACH_4 STREAM_LINE(y + 64 * i, line_of(near[1] + i * LINE_STEP + at));
      }
  *fetched = f;
}
/* Rows i to i + m of x, `bytes` of each from x on.  `begins`, `ends`: y's rows do. */
typedef struct {
  int64_t esize, ldx, ldy;
  void (*strip)(const char *, int64_t, int64_t, int64_t, char *);
} plane;
static void block(const plane *t, const char *x, char *y, int64_t m, int64_t bytes, int begins,
                  int ends, fetch_rows *f) {
  char room[(GROUP + 1) * LINE_STEP] __attribute__((aligned(64)));
  int64_t wide = 64 * t->esize, line = 64 / t->esize, rows = GROUP * line, n = 16 / t->esize;
  int shifted = ((uintptr_t)y | (uintptr_t)t->ldy) % 64 != 0, ring = 0;
  for (int64_t c = 0; c < bytes; c += wide, x += wide, y += 64 * t->ldy, ring = 0) {
    int64_t w = PF_MIN(wide, bytes - c), columns = w / t->esize;
    if (shifted && !begins) t->strip(x - line * t->ldx, t->ldx, line, w, room);
    for (int64_t r = 0; r < m; r += rows, ring = ring ? ring - 1 : GROUP) {
      int64_t left = PF_MIN(rows, m - r), have = left * t->esize;
      int first = begins && r == 0, last = ends && r + rows >= m;
      char *near[GROUP + 1], *to = y + r * t->esize;
      for (int i = 0; i <= GROUP; i++)
        near[i] = room + (shifted ? (ring + i) % (GROUP + 1) : i) * LINE_STEP;
      for (int64_t i = 0; i * line < left; i++)
        t->strip(x + (r + i * line) * t->ldx, t->ldx, left - i * line, w, near[i + 1]);
      if (shifted ? first || last : have < GROUP * 64)
        put_columns(near, n, columns, to, t->ldy, PUT_ENDS, last ? have : 0, first, f);
      else if (shifted) put_columns(near, n, columns, to, t->ldy, PUT_SHIFTED, 0, 0, f);
      else put_columns(near, n, columns, to, t->ldy, PUT_WHOLE, 0, 0, f);
    }
  }
}
static void in_blocks(int64_t esize, const char *x, int64_t ldx, char *y, int64_t ldy, int64_t ni,
                      int64_t nj, const char *next) {
  plane t = {esize, ldx * esize, ldy * esize,
             esize == 1   ? strip_uint8_t
             : esize == 2 ? strip_uint16_t
             : esize == 4 ? strip_uint32_t
             : esize == 8 ? strip_uint64_t
                          : strip_e16};
  int shifted = ((uintptr_t)y | (uintptr_t)t.ldy) % 64 != 0;
  int64_t rows = (shifted ? 1024 : 256) / esize, wide = PF_MAX(esize == 1 ? 256 : 512, 64 * esize);
  nj *= esize;
  for (int64_t i = 0; i < ni; i += rows)
    for (int64_t c = 0; c < nj; c += wide) {
      int more = c + wide < nj, down = i + rows < ni;
      const char *from = x + i * t.ldx, *then = more ? from + c + wide : from + rows * t.ldx;
      if (!more && !down) then = next ? next : x;
      int64_t left = more ? ni - i : down ? ni - i - rows : ni;
      fetch_rows f = {then, t.ldx, PF_MIN(rows, left), 0};
      block(&t, from + c, y + c / esize * t.ldy + i * esize, PF_MIN(rows, ni - i),
            PF_MIN(wide, nj - c), i == 0, !down, &f);
    }
}
#endif
