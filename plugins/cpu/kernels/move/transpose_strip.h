/* transpose_strip.h - part of transpose.c: planes of elements of 4 and 8 bytes on Intel's
 * processors (AVX-512), stored past the caches.
 *
 * A band is so many rows of x that they are two lines of each row of y (2 N: 32 or 16), and is
 * walked from its first column to its last in strips of a line.  So many rows, read upwards, the
 * hardware fetches by itself; fetching them here, too, takes longer.  A strip is two tiles of
 * N x N: the first one stays near while the second one is turned.  Where y's rows begin inside
 * lines, a line follows what the band before left of one: the last N elements of each row of y are
 * kept.  Only where a row of y begins or ends are lines stored in part.
 *
 * Fast path: transpose_odd, transpose_2999 (docs/paths.md).
 */
#if defined(__AVX512BW__)
enum { STRIPS = 260 }; /* whose rows of y are kept at a time */

/* `bytes` new bytes, a and b, of a row of y whose last ones are in `kept` */
static void end_of_row(__m512i kept, __m512i a, __m512i b, char *y, int64_t bytes, int first,
                       int last) {
  int off = (int)((uintptr_t)y % 64);
  __m512i lines[3] = {joined_32(kept, a, 64 - off), joined_32(a, b, 64 - off),
                      joined_32(b, b, 64 - off)};
  bytes = last ? off + bytes : 128, y -= off;
  for (int64_t k = 0; 64 * k < bytes; k++) {
    uint64_t own = ~0ull >> (64 - PF_MIN(64, bytes - 64 * k));
    if (first && k == 0) own &= ~0ull << off;
    if (own == ~0ull) STREAM_LINE(y + 64 * k, lines[k]);
    else _mm512_mask_storeu_epi8(y + 64 * k, own, lines[k]);
  }
}
/* a strip of 2 N rows that neither begins nor ends rows of y; BEGINS: y's rows begin lines */
#define WHOLE_STRIP(NAME, U, N, TURN, BEGINS) \
  PF_INLINE void NAME##_##U(const U *x, int64_t ldx, char *y, int64_t ldy, __m512i *kept) { \
    __m512i near[N], a[N]; \
    TURN(x, ldx, a); \
    _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) near[i] = a[i]; \
    TURN(x + N * ldx, ldx, a); \
    _Pragma("GCC unroll 16") \
    for (int i = 0; i < N; i++, y += ldy) { \
      int off = BEGINS ? 0 : (int)((uintptr_t)y % 64); \
      __m512i line = near[i], next = a[i]; \
      if (!BEGINS) { \
        next = joined_32(line, next, 64 - off), line = joined_32(kept[i], line, 64 - off); \
        kept[i] = a[i]; \
      } \
      STREAM_LINE(y - off, line); \
      STREAM_LINE(y - off + 64, next); \
    } \
  }
#define STRIPS_OF(U, N, TURN) \
  WHOLE_STRIP(strip_of_lines, U, N, TURN, 1) \
  WHOLE_STRIP(strip_across_lines, U, N, TURN, 0) \
  /* a strip of fewer rows or columns, or one that begins or ends rows of y */ \
  static void strip_at_end_##U(const U *x, int64_t ldx, char *y, int64_t ldy, int64_t rows, \
                               int64_t columns, int first, int last, __m512i *kept) { \
    uint64_t own = ~0ull >> (64 - columns * (int64_t)sizeof(U)); \
    __m512i in[2 * N], a[N], b[N]; \
    for (int64_t i = rows; i < 2 * N; i++) in[i] = _mm512_setzero_si512(); \
    _Pragma("GCC unroll 4") \
    for (int64_t i = 0; i < rows; i++) in[i] = _mm512_maskz_loadu_epi8(own, x + i * ldx); \
    TURN((const U *)in, N, a); \
    TURN((const U *)(in + N), N, b); \
    for (int64_t c = 0; c < columns; c++, y += ldy) { \
      end_of_row(kept[c], a[c], b[c], y, rows * (int64_t)sizeof(U), first, last); \
      kept[c] = b[c]; \
    } \
  } \
  /* 0: nothing is done, for want of memory */ \
  static int in_strips_##U(const U *x, int64_t ldx, char *y, int64_t ldy, int64_t ni, \
                           int64_t nj) { \
    int64_t strips = (nj + N - 1) / N, blocks = (strips + STRIPS - 1) / STRIPS; \
    int64_t wide = (strips + blocks - 1) / blocks * N; \
    int begins = !split_lines(y, ldy); \
    __m512i *kept = aligned_alloc(64, (size_t)wide * sizeof *kept); \
    if (!kept) return 0; \
    for (int64_t lo = 0; lo < nj; lo += wide) \
      for (int64_t i = 0; i < ni; i += 2 * N) { \
        int64_t end = PF_MIN(nj, lo + wide), j = lo, rows = PF_MIN(2 * N, ni - i); \
        int first = i == 0, last = i + 2 * N >= ni; \
        const U *from = x + i * ldx; \
        char *to = y + (int64_t)sizeof(U) * i; \
        if (rows == 2 * N && begins) \
          for (; j + N <= end; j += N) \
            strip_of_lines_##U(from + j, ldx, to + j * ldy, ldy, NULL); \
        else if (rows == 2 * N && !first && !last) \
          for (; j + N <= end; j += N) \
            strip_across_lines_##U(from + j, ldx, to + j * ldy, ldy, kept + j - lo); \
        for (; j < end; j += N) \
          strip_at_end_##U(from + j, ldx, to + j * ldy, ldy, rows, PF_MIN(N, end - j), first, \
                           last, kept + j - lo); \
      } \
    free(kept); \
    return 1; \
  }
PF_INLINE void turn_8(const uint64_t *x, int64_t ldx, __m512i a[8]) {
  v_uint64_t_8 v[8];
  turn_uint64_t_8(x, ldx, v);
  EACH_8 a[i] = (__m512i)v[i];
}
STRIPS_OF(uint32_t, 16, turn_16)
STRIPS_OF(uint64_t, 8, turn_8)
static int in_strips(int64_t esize, const char *x, int64_t ldx, char *y, int64_t ldy, int64_t ni,
                     int64_t nj) {
  if (((uintptr_t)x | (uintptr_t)y) % (uintptr_t)esize) return 0;
  const void *from = x;
  return esize == 4 ? in_strips_uint32_t((const uint32_t *)from, ldx, y, 4 * ldy, ni, nj)
                    : in_strips_uint64_t((const uint64_t *)from, ldx, y, 8 * ldy, ni, nj);
}
#endif
