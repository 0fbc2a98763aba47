/* elementwise_moves.c - bounds other than memory's of element-wise kernels, transposes and moves
 * (benchmarks/elementwise.py, column "bound"): each the best loop known for the job, never part of
 * pyflow.  Signature: elementwise_loops.h.
 *
 *   gather_rows {rows, bytes}     whole lines read at random, stored past the caches; the next 8 kB
 *                                 are fetched to the second cache at once (in turn with stores, and
 *                                 to the nearest cache, are slower)
 *   column_slice {rows, stride, first, bytes}   whole lines of rows that lie apart in order
 *   images_in_borders {images, rows, bytes, above, beside}   rows of images between zeros, put
 *                                 together line by line
 */
#include "elementwise_loops.h"

loop gather_rows, column_slice, images_in_borders;

#if defined(__AVX512F__)
#define STREAM(p, v) _mm512_stream_si512((void *)(p), v)
enum { TOGETHER = 8192 };

void gather_rows(const void *const *in, void *out, const int64_t *args, int part, int parts) {
  const char *x = (const char *)in[0];
  const int32_t *at = (const int32_t *)in[1];
  int64_t rows = args[0], bytes = args[1], lo = rows * part / parts, hi = rows * (part + 1) / parts;
  int64_t group = TOGETHER / bytes;
  for (int64_t r = lo; r < hi; r += group) {
    for (int64_t i = r + group; i < hi && i < r + 2 * group; i++)
      for (int64_t k = 0; k < bytes; k += 64) _mm_prefetch(x + at[i] * bytes + k, _MM_HINT_T1);
    for (int64_t i = r; i < hi && i < r + group; i++)
      for (int64_t k = 0; k < bytes; k += 64)
        STREAM((char *)out + i * bytes + k, _mm512_loadu_si512(x + at[i] * bytes + k));
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

/* Rows with `bytes` of x between `before` and `behind` zeros; images have `above` rows of zeros on
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
#else /* the loops are of one machine; elsewhere the column says nothing */
void gather_rows(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
void column_slice(const void *const *in, void *out, const int64_t *args, int part, int parts) {}
void images_in_borders(const void *const *in, void *out, const int64_t *args, int part,
                       int parts) {}
#endif
