/* transpose_stream.h - part of transpose.c: planes whose result does not stay in the caches.
 *
 * Lines of 64 bytes are written whole and past the caches.  Three facts shape the loops: stores
 * past the caches wait for each other where ordinary stores lie between them, so both come in
 * phases; they want two neighbouring lines at a time (lines 512 bytes apart go to one channel); and
 * what is read is fetched a block ahead: rows are too short, and too many, for the hardware.
 *
 *   direct    elements of 4 and 8 bytes (AVX-512): tiles of two lines go from registers to y
 *   shifted   the same where y's rows begin inside lines: a tile follows what the last one left
 *   narrow    both where rows of x have 8 to 15 elements: one run is read
 *   compact   rows of y are short and lie one behind the other: blocks of whole rows, copied
 *   buffered  anything else: pieces of some rows of y are gathered in `room`, behind what the
 *             pieces before them left of a line, and their whole lines are written
 *
 * Fast path: transpose_2d, nchw_to_nhwc (docs/paths.md).
 */

/* ---------------------------------------------------------------- colliding rows */
enum { NEAR = PF_L1_BYTES * 5 / 8 };
static int rows_collide(int64_t stride) { return pf_rows_apart(8, stride); }
/* Such rows are copied near, each line once, before they are read in tiles.
 * (In pairs: a loop over lines would become a call of memcpy, which reads and writes in other sizes
 * than who reads `near`.) */
PF_INLINE void copy_near(const char *x, int64_t stride, char *near, int64_t step, int64_t rows,
                         int64_t bytes) {
  for (int64_t i = 0; i < rows; i++, x += stride, near += step) {
    int64_t k = 0;
    for (; k + 128 <= bytes; k += 128) {
      line a = *(const line_any *)(x + k), b = *(const line_any *)(x + k + 64);
      *(line_any *)(near + k) = a, *(line_any *)(near + k + 64) = b;
    }
    if (k < bytes) *(line_any *)(near + k) = *(const line_any *)(x + k);
  }
}
/* ---------------------------------------------------------------- what is read next */
enum { FETCHED = 16 }; /* lines fetched at a time */
/* `run`: to the nearest cache (where the second one is far), else to the second */
typedef struct {
  const char *at;
  int64_t along, next, left, rows, step;
  int run;
} ahead;

/* the rows x bytes block at x: 16 rows at a time, or along a row where rows are few or collide in
 * the caches, or where the block is one run */
static ahead fetch_block(const void *x, int64_t stride, int64_t rows, int64_t bytes) {
  if (!x) return (ahead){0};
  int run = bytes >= stride && pf_has_far_caches();
  if (bytes >= stride) bytes = rows * stride, rows = 1;
  int64_t lines = (bytes + 63) / 64, turns = (lines + FETCHED - 1) / FETCHED;
  if (rows < FETCHED || (rows_collide(stride) && lines % FETCHED == 0))
    return (ahead){x, 64, turns, turns, rows, stride, run};
  return (ahead){x, stride, lines, lines, (rows + FETCHED - 1) / FETCHED, FETCHED * stride, 0};
}
PF_INLINE void fetch(ahead *a) {
  if (a->rows <= 0) return;
  int64_t jump = a->along == 64 ? 64 * FETCHED : 64;
  const char *p = a->at + (a->next - a->left) * jump;
  if (a->run)
    for (int k = 0; k < FETCHED; k++) __builtin_prefetch(p + k * a->along, 0, 3);
  else
    for (int k = 0; k < FETCHED; k++) __builtin_prefetch(p + k * a->along, 0, 2);
  if (--a->left == 0) a->left = a->next, a->at += a->step, a->rows--;
}

/* ---------------------------------------------------------------- direct */
enum { WIDE = 4096 }; /* bytes of a row of x that a group of lines takes */
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
/* Two lines of a row of y, whose elements are a and b.  Where y does not begin a line, they follow
 * the last elements before them, in `kept`; what is left of b is kept. */
#define EMIT(U, N, BITS) \
  PF_INLINE void emit_##U(__m512i a, __m512i b, U *y, U *kept, int first) { \
    if (kept) { \
      int off = (int)((uintptr_t)y / sizeof(U) % N); \
      __m512i from = _mm512_add_epi##BITS(_mm512_set1_epi##BITS(N - off), COUNT_##BITS); \
      __m512i line = _mm512_permutex2var_epi##BITS(_mm512_load_si512(kept), from, a); \
      y -= off; \
      _mm512_store_si512(kept, b); \
      b = _mm512_permutex2var_epi##BITS(a, from, b), a = line; \
      if (first) _mm512_mask_storeu_epi##BITS(y, (uint16_t)(0xffff << off), a); \
      else STREAM_LINE(y, a); \
    } else STREAM_LINE(y, a); \
    STREAM_LINE(y + N, b); \
  } \
  static void emit_rest_##U(U *y, int64_t ldy, int64_t nj, const U *kept) { \
    for (int64_t j = 0; j < nj; j++, y += ldy, kept += N) { \
      int off = (int)((uintptr_t)y / sizeof(U) % N); \
      memcpy(y - off, kept + N - off, (size_t)off * sizeof(U)); \
    } \
  }
#define COUNT_32 _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define COUNT_64 _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7)
EMIT(uint32_t, 16, 32)
EMIT(uint64_t, 8, 64)

/* two lines each of 16 or 8 rows of y.  The first tile's 16 rows stay in registers. */
PF_INLINE void pairs_uint32_t(const uint32_t *x, int64_t ldx, uint32_t *y, int64_t ldy,
                              uint32_t *kept, int first) {
  int64_t step = kept ? 16 : 0;
  __m512i a[16], b[8];
  turn_16(x, ldx, a);
  half_uint32_t(x + 16 * ldx, ldx, b);
  EACH_8 emit_uint32_t(a[i], b[i], y + i * ldy, kept + i * step, first);
  half_uint32_t(x + 16 * ldx + 8, ldx, b);
  y += 8 * ldy, kept += 8 * step;
  EACH_8 emit_uint32_t(a[8 + i], b[i], y + i * ldy, kept + i * step, first);
}
PF_INLINE void few_uint32_t(const uint32_t *x, int64_t ldx, uint32_t *y, int64_t ldy,
                            uint32_t *kept, int first) {
  int64_t step = kept ? 16 : 0;
  __m512i a[8], b[8];
  half_uint32_t(x, ldx, a);
  half_uint32_t(x + 16 * ldx, ldx, b);
  EACH_8 emit_uint32_t(a[i], b[i], y + i * ldy, kept + i * step, first);
}
PF_INLINE void pairs_uint64_t(const uint64_t *x, int64_t ldx, uint64_t *y, int64_t ldy,
                              uint64_t *kept, int first) {
  int64_t step = kept ? 8 : 0;
  v_uint64_t_8 a[8], b[8];
  turn_uint64_t_8(x, ldx, a);
  turn_uint64_t_8(x + 8 * ldx, ldx, b);
  EACH_8 emit_uint64_t((__m512i)a[i], (__m512i)b[i], y + i * ldy, kept + i * step, first);
}
/* the rows of x in pairs of lines, the columns in steps of N, then of FEW; returns columns done.
 * KEEP: y's rows begin anywhere */
#define DIRECT(NAME, U, N, FEW, FEW_PAIRS, KEEP) \
  static int64_t NAME##_##U(const U *x, int64_t ldx, U *y, int64_t ldy, int64_t ni, int64_t nj, \
                            const U *next) { \
    const int64_t size = sizeof(U), wide = WIDE / size, rows = 2 * N; \
    U kept[KEEP ? WIDE / sizeof(U) * N : 1] __attribute__((aligned(64))); \
    for (int64_t lo = 0; lo < nj; lo += wide) { \
      int64_t end = PF_MIN(nj, lo + wide), j = lo; \
      for (int64_t i = 0; i < ni; i += rows) { \
        int64_t w = end - lo, more = i + rows < ni; \
        if (!more && end < nj) w = PF_MIN(wide, nj - end); \
        const U *then = more ? x + (i + rows) * ldx + lo : end < nj ? x + end : next; \
        ahead a = fetch_block(then, ldx * size, rows, w * size); \
        for (j = lo; j + N <= end; j += N) { \
          for (int k = 0; k < rows; k += FETCHED) fetch(&a); \
          pairs_##U(x + i * ldx + j, ldx, y + j * ldy + i, ldy, \
                    KEEP ? kept + (j - lo) * N : NULL, i == 0); \
        } \
        for (; j + FEW <= end; j += FEW) \
          FEW_PAIRS(x + i * ldx + j, ldx, y + j * ldy + i, ldy, \
                    KEEP ? kept + (j - lo) * N : NULL, i == 0); \
      } \
      if (KEEP) emit_rest_##U(y + lo * ldy + ni, ldy, j - lo, kept); \
    } \
    return nj - nj % FEW; \
  }
DIRECT(direct, uint32_t, 16, 8, few_uint32_t, 0)
DIRECT(direct, uint64_t, 8, 8, pairs_uint64_t, 0)
DIRECT(shifted, uint32_t, 16, 8, few_uint32_t, 1)
DIRECT(shifted, uint64_t, 8, 8, pairs_uint64_t, 1)

/* 8 columns of rows that are near each other: all is read as one run, of which what follows
 * FOLLOWING bytes later is fetched to the second cache.  `begins`: y's rows begin lines.  Returns
 * columns done. */
enum { FOLLOWING = 2048, FOLLOWING_FAR = 3072 };
static int64_t narrow(const uint32_t *x, int64_t ldx, uint32_t *y, int64_t ldy, int64_t ni,
                      int begins) {
  const int64_t following = pf_has_far_caches() ? FOLLOWING_FAR : FOLLOWING;
  uint32_t kept[8 * 16] __attribute__((aligned(64)));
  for (int64_t i = 0; i < ni; i += 32, x += 32 * ldx) {
    const char *p = (const char *)x + following;
    for (int64_t k = 0; k < 32 * ldx * 4; k += 64) __builtin_prefetch(p + k, 0, 2);
    if (begins) few_uint32_t(x, ldx, y + i, ldy, NULL, i == 0);
    else few_uint32_t(x, ldx, y + i, ldy, kept, i == 0);
  }
  if (!begins) emit_rest_uint32_t(y + ni, ldy, 8, kept);
  return 8;
}
#endif

/* ---------------------------------------------------------------- buffered, compact */
enum { COLUMNS = 32, ROOM = 2 * COLUMNS * 3 * 64, MOST_LINES = 20, KEPT = 1024, BLOCK = 8192 };

/* PIXEL_LINES: on Intel's processors, of planes of up to 4 columns */
enum { PIXEL_LINES = 10 };
/* A row of y that is under way: `bytes` new ones for y lie at room + 64; where they do not begin
 * the row, `kept` has the bytes before them that no whole line was written of, at its end. */
typedef struct { int64_t before, head, whole; } cut;
PF_INLINE cut cut_row(const char *y, int64_t bytes, int first) {
  int64_t off = (int64_t)((uintptr_t)y % 64), head = first && off ? PF_MIN(bytes, 64 - off) : 0;
  int64_t before = first ? 0 : off;
  return (cut){before, head, (before + bytes - head) / 64 * 64};
}
static void put_rows(int64_t w, char *room, int64_t size, char (*kept)[64], char *y, int64_t ldy,
                     int64_t bytes, int first, int last, ahead *a) {
  int64_t due = 0;
  for (int64_t k = 0; k < w; k++) {
    cut c = cut_row(y + k * ldy, bytes, first);
    for (due += bytes; due > 0; due -= 64 * FETCHED) fetch(a);
    int64_t at = c.head - c.before;
    stream_lines(room + k * size + 64 + at, y + k * ldy + at, c.whole);
  }
  for (int64_t k = 0; k < w; k++) {
    cut c = cut_row(y + k * ldy, bytes, first);
    char *from = room + k * size + 64, *to = y + k * ldy;
    int64_t done = c.head - c.before + c.whole;
    if (first) memcpy(to, from, (size_t)c.head);
    if (last) memcpy(to + done, from + done, (size_t)(bytes - done));
    else memcpy(kept[k], from + bytes - 64, 64);
  }
}
static void buffered(int64_t esize, const char *x, int64_t ldx, char *y, int64_t ldy, int64_t ni,
                     int64_t nj, const char *next) {
  char room[ROOM] __attribute__((aligned(64))), kept[KEPT][64] __attribute__((aligned(64)));
  char near[NEAR] __attribute__((aligned(64)));
  int64_t strip = PF_MIN(esize == 1 ? 2 * COLUMNS : COLUMNS, nj), step = strip + 64 / esize;
  int64_t few = strip < 5 && pf_has_few_line_buffers() ? PIXEL_LINES : MOST_LINES;
  int64_t lines = PF_MIN(few, ROOM / 64 / strip - 1);
  int64_t size = 64 * (lines + 1), n = 64 * lines / esize, collide = rows_collide(ldx * esize);
  for (int64_t lo = 0; lo < nj; lo += KEPT)
    for (int64_t i = 0; i < ni; i += n) {
      int64_t m = PF_MIN(n, ni - i), end = PF_MIN(nj, lo + KEPT);
      int more = i + n < ni;
      int64_t rows = PF_MIN(n, more ? ni - i - n : ni);
      int64_t w = !more && end < nj ? PF_MIN(KEPT, nj - end) : end - lo;
      const char *then = end < nj ? x + end * esize : next;
      if (more) then = x + ((i + n) * ldx + lo) * esize;
      ahead a = fetch_block(then, ldx * esize, rows, w * esize);
      for (int64_t j = lo; j < end; j += strip) {
        w = PF_MIN(strip, end - j);
        for (int64_t k = 0; i && k < w; k++) memcpy(room + k * size, kept[j - lo + k], 64);
        const char *from = x + (i * ldx + j) * esize;
        if (collide && w * esize % 64 == 0 && m * step * esize <= NEAR) {
          copy_near(from, ldx * esize, near, step * esize, m, w * esize);
          turn(esize, near, step, room + 64, size / esize, m, w);
        } else {
          turn(esize, from, ldx, room + 64, size / esize, m, w);
        }
        put_rows(w, room, size, kept + (j - lo), y + (j * ldy + i) * esize, ldy * esize, m * esize,
                 i == 0, !more, &a);
      }
    }
}
static void compact(int64_t esize, const char *x, int64_t ldx, char *y, int64_t ni, int64_t nj,
                    const char *next) {
  char room[BLOCK] __attribute__((aligned(64)));
  int64_t size = ni * esize, n = (int64_t)sizeof room / size;
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
#if defined(__AVX512BW__)
  int is_compact = ni == ldy && ni * esize <= BLOCK / 16;
  if (pf_strips_pay(esize, ni, nj, ldy * esize) && in_strips(esize, x, ldx, y, ldy, ni, nj)) return;
  if (pf_rows_apart(esize, ldx * esize) && PF_MIN(ni, nj) * esize >= 256 && !is_compact) {
    if (!split_lines(x, ldx * esize) || !in_bands(esize, x, ldx, y, ldy, ni, nj, next))
      in_blocks(esize, x, ldx, y, ldy, ni, nj, next);
    return;
  }
#endif
#if defined(__AVX512F__)
  int64_t line = 64 / esize, rows = ni - ni % (2 * line), done = 0;
  int begins = !split_lines(y, ldy * esize);
  if ((esize == 4 || esize == 8) && rows && nj >= 8 && (begins || ni >= 16 * line)) {
    if (esize == 4 && nj < 16 && ldx <= 2 * nj) done = narrow(px, ldx, py, ldy, rows, begins);
    else if (esize == 4)
      done = (begins ? direct_uint32_t : shifted_uint32_t)(px, ldx, py, ldy, rows, nj, next);
    else done = (begins ? direct_uint64_t : shifted_uint64_t)(px, ldx, py, ldy, rows, nj, next);
    if (done < nj)
      buffered(esize, x + done * esize, ldx, y + done * ldy * esize, ldy, rows, nj - done, NULL);
    x += rows * ldx * esize, y += rows * esize, ni -= rows;
    next = NULL;
  }
#endif
  if (ni == ldy && ni * esize <= BLOCK / 16) compact(esize, x, ldx, y, ni, nj, next);
  else if (ni) buffered(esize, x, ldx, y, ldy, ni, nj, next);
}
