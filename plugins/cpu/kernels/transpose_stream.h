/* transpose_stream.h - part of transpose.c: planes whose result does not stay in the caches.
 *
 * Lines of 64 bytes are written whole and past the caches.  Three facts shape the loops: stores past
 * the caches wait for each other where ordinary stores lie between them, so both come in phases;
 * they want two neighbouring lines at a time (lines 512 bytes apart go to one channel); and what is
 * read is fetched a block ahead, as neither rows nor columns are long enough for the hardware.
 *
 *   direct    lines of y begin rows' lines: tiles of two lines go from registers to y
 *   compact   rows of y are short and lie one behind the other: blocks of whole rows, copied
 *   buffered  anything else: a strip of y's rows is gathered in `room`, with the unwritten end of
 *             the piece before in front of it, and its whole lines are written
 */

/* ---------------------------------------------------------------- what is read next */
enum { FETCHED = 16 };                  /* lines fetched at a time */
typedef struct { const char *at; int64_t along, next, left, rows, step; } ahead;

/* the rows x bytes block at x: 16 rows at a time, or along a row where rows are few or collide in the
 * caches, or where the block is one run */
static ahead fetch_block(const void *x, int64_t stride, int64_t rows, int64_t bytes) {
  if (!x) return (ahead){0};
  if (bytes >= stride) bytes = rows * stride, rows = 1;
  int64_t lines = (bytes + 63) / 64, turns = (lines + FETCHED - 1) / FETCHED;
  if (rows < FETCHED || (stride % 1024 == 0 && lines % FETCHED == 0))
    return (ahead){x, 64, turns, turns, rows, stride};
  return (ahead){x, stride, lines, lines, (rows + FETCHED - 1) / FETCHED, FETCHED * stride};
}
PF_INLINE void fetch(ahead *a) {
  if (a->rows <= 0) return;
  int64_t jump = a->along == 64 ? 64 * FETCHED : 64;
  const char *p = a->at + (a->next - a->left) * jump;
  for (int k = 0; k < FETCHED; k++) __builtin_prefetch(p + k * a->along, 0, 2);
  if (--a->left == 0) a->left = a->next, a->at += a->step, a->rows--;
}

/* ---------------------------------------------------------------- direct */
enum { WIDE = 4096 };                   /* bytes of a row of x that a group of lines takes */
#if defined(__AVX512F__)
/* 16 rows, 8 columns: rows i and i + 8 share a register, so two stages and one of whole lanes do */
PF_INLINE void half_uint32_t(const uint32_t *x, int64_t ldx, __m512i v[8]) {
  __m512i a[8], b[8];
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
  const __m512i high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  EACH_8 {
    __m512i top = _mm512_castsi256_si512(_mm256_loadu_si256((const void *)(x + i * ldx)));
    a[i] = _mm512_inserti64x4(top, _mm256_loadu_si256((const void *)(x + (i + 8) * ldx)), 1);
  }
  EACH_4 {
    b[2 * i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
    b[2 * i + 1] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]), a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
  EACH_4 {
    v[i] = _mm512_permutex2var_epi64(a[i], low, a[4 + i]);
    v[4 + i] = _mm512_permutex2var_epi64(a[i], high, a[4 + i]);
  }
}
/* two lines each of 16 or 8 rows of y.  The first tile's 16 rows stay in registers. */
PF_INLINE void pairs_uint32_t(const uint32_t *x, int64_t ldx, uint32_t *y, int64_t ldy) {
  __m512i a[16], b[8];
  turn_16(x, ldx, a);
  half_uint32_t(x + 16 * ldx, ldx, b);
  EACH_8 STREAM_LINE(y + i * ldy, a[i]), STREAM_LINE(y + i * ldy + 16, b[i]);
  half_uint32_t(x + 16 * ldx + 8, ldx, b);
  y += 8 * ldy;
  EACH_8 STREAM_LINE(y + i * ldy, a[8 + i]), STREAM_LINE(y + i * ldy + 16, b[i]);
}
PF_INLINE void few_uint32_t(const uint32_t *x, int64_t ldx, uint32_t *y, int64_t ldy) {
  __m512i a[8], b[8];
  half_uint32_t(x, ldx, a);
  half_uint32_t(x + 16 * ldx, ldx, b);
  EACH_8 STREAM_LINE(y + i * ldy, a[i]), STREAM_LINE(y + i * ldy + 16, b[i]);
}
PF_INLINE void pairs_uint64_t(const uint64_t *x, int64_t ldx, uint64_t *y, int64_t ldy) {
  v_uint64_t_8 a[8], b[8];
  turn_uint64_t_8(x, ldx, a);
  turn_uint64_t_8(x + 8 * ldx, ldx, b);
  EACH_8 STREAM_LINE(y + i * ldy, a[i]), STREAM_LINE(y + i * ldy + 8, b[i]);
}
/* the rows of x in pairs of lines, the columns in steps of N, then of FEW; returns the columns done */
#define DIRECT(U, N, FEW, FEW_PAIRS) \
  static int64_t direct_##U(const U *x, int64_t ldx, U *y, int64_t ldy, int64_t ni, int64_t nj, \
                            const U *next) { \
    const int64_t wide = WIDE / (int64_t)sizeof(U), rows = 2 * N, stride = ldx * (int64_t)sizeof(U); \
    for (int64_t lo = 0; lo < nj; lo += wide) \
      for (int64_t i = 0; i < ni; i += rows) { \
        int64_t end = PF_MIN(nj, lo + wide), more = i + rows < ni, w = end - lo, j = lo; \
        if (!more && end < nj) w = PF_MIN(wide, nj - end); \
        const U *then = more ? x + (i + rows) * ldx + lo : end < nj ? x + end : next; \
        ahead a = fetch_block(then, stride, rows, w * (int64_t)sizeof(U)); \
        for (; j + N <= end; j += N) { \
          for (int k = 0; k < rows; k += FETCHED) fetch(&a); \
          pairs_##U(x + i * ldx + j, ldx, y + j * ldy + i, ldy); \
        } \
        for (; j + FEW <= end; j += FEW) FEW_PAIRS(x + i * ldx + j, ldx, y + j * ldy + i, ldy); \
      } \
    return nj - nj % FEW; \
  }
DIRECT(uint32_t, 16, 8, few_uint32_t)
DIRECT(uint64_t, 8, 8, pairs_uint64_t)
#endif

/* ---------------------------------------------------------------- compact, buffered */
enum { STRIP = 128, ROOM = STRIP * 9 * 64, MOST_LINES = 64 };

/* one row of y out of `room`, whose first line holds the `kept` bytes before it, at its end */
PF_INLINE void put_row(char *room, char *y, int64_t bytes, int first, int last) {
  int64_t kept = first ? 0 : (int64_t)((uintptr_t)y % 64), all = bytes + kept, n;
  const char *x = room + 64 - kept;
  y -= kept;
  if (first) {
    n = PF_MIN(all, (int64_t)(-(uintptr_t)y % 64));
    memcpy(y, x, (size_t)n);
    x += n, y += n, all -= n;
  }
  n = all - all % 64;
  stream_lines(x, y, n);
  if (last) memcpy(y + n, x + n, (size_t)(all - n));
  else memcpy(room, room + bytes, 64);
}
static void buffered(int64_t esize, const char *x, int64_t ldx, char *y, int64_t ldy, int64_t ni,
                     int64_t nj, const char *next) {
  char room[ROOM] __attribute__((aligned(64)));
  int64_t strip = PF_MIN(STRIP, nj), lines = PF_MIN(MOST_LINES, ROOM / 64 / strip - 1);
  int64_t size = 64 * (lines + 1), n = 64 * lines / esize;
  for (int64_t lo = 0; lo < nj; lo += strip)
    for (int64_t i = 0; i < ni; i += n) {
      int64_t m = PF_MIN(n, ni - i), w = PF_MIN(strip, nj - lo), end = lo + w, then = w;
      const char *p = i + n < ni ? x + ((i + n) * ldx + lo) * esize
                                 : end < nj ? x + end * esize : next;
      if (i + n >= ni && end < nj) then = PF_MIN(strip, nj - end);
      ahead a = fetch_block(p, ldx * esize, PF_MIN(n, i + n < ni ? ni - i - n : ni), then * esize);
      turn(esize, x + (i * ldx + lo) * esize, ldx, room + 64, size / esize, m, w);
      for (int64_t j = 0; j < w; j++) {
        for (int64_t k = 0; k < m * esize; k += 64 * FETCHED) fetch(&a);
        put_row(room + j * size, y + ((lo + j) * ldy + i) * esize, m * esize, i == 0, m == ni - i);
      }
    }
}
static void compact(int64_t esize, const char *x, int64_t ldx, char *y, int64_t ni, int64_t nj,
                    const char *next) {
  char room[ROOM] __attribute__((aligned(64)));
  int64_t size = ni * esize, n = ROOM / size;
  n -= n > 64 ? n % 64 : 0;
  for (int64_t j = 0; j < nj; j += n) {
    int64_t m = PF_MIN(n, nj - j), bytes = m * size, then = j + n < nj ? PF_MIN(n, nj - j - n) : n;
    ahead a = fetch_block(j + n < nj ? x + (j + n) * esize : next, ldx * esize, ni, then * esize);
    turn(esize, x + j * esize, ldx, room, ni, ni, m);
    char *to = y + j * size, *from = room;
    int64_t head = PF_MIN(bytes, (int64_t)(-(uintptr_t)to % 64)), rest = (bytes - head) % 64;
    memcpy(to, from, (size_t)head);
    for (int64_t k = head; k + 64 <= bytes; k += 64 * FETCHED) {
      fetch(&a);
      stream_lines(from + k, to + k, PF_MIN(64 * FETCHED, bytes - rest - k));
    }
    memcpy(to + bytes - rest, from + bytes - rest, (size_t)rest);
  }
}

static void stream_plane(int64_t esize, const void *px, int64_t ldx, void *py, int64_t ldy,
                         int64_t ni, int64_t nj, const void *next) {
  const char *x = (const char *)px;
  char *y = (char *)py;
#if defined(__AVX512F__)
  int64_t line = 64 / esize, rows = ni - ni % (2 * line), done = 0;
  int lines = ((uintptr_t)y | (uintptr_t)(ldy * esize)) % 64 == 0;
  if (lines && (esize == 4 || esize == 8) && rows && nj >= 8) {
    if (esize == 4) done = direct_uint32_t(px, ldx, py, ldy, rows, nj, next);
    else done = direct_uint64_t(px, ldx, py, ldy, rows, nj, next);
    if (done < nj)
      buffered(esize, x + done * esize, ldx, y + done * ldy * esize, ldy, rows, nj - done, NULL);
    x += rows * ldx * esize, y += rows * esize, ni -= rows;
    next = NULL;
  }
#endif
  if (ni == ldy && ni * esize <= ROOM / 64) compact(esize, x, ldx, y, ni, nj, next);
  else if (ni) buffered(esize, x, ldx, y, ldy, ni, nj, next);
}
