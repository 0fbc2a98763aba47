/* scan_rows.c - Cumsum of float, half and bfloat16.  (scan.c has the other types and Cumprod.)
 *
 * The input is [outer, n, inner] around the axis:
 *
 *     inner == 1   sums within a vector by shifts of its lanes; the sum of all before is added, the
 *                  only thing that a vector waits for.  AVX-512: rows of at most eight share a
 *                  vector, in which a lane takes from its own row only
 *     inner > 1    tiles of columns: running sums of a row of them, row after row
 *
 * Invariants: sums are float, results rounded once; equal bits for any number of threads.  An
 * exclusive result is the sum of what comes before; nothing is subtracted.
 * Threads: parallel_for over rows, or tiles.
 */
#include "base/common.h"
#include "base/isa.h"
#include "base/machine.h"
#include "vec/vfloat.h"

enum {
  TILE = 1024,
  STREAM_BYTES = PF_STREAM_BYTES,
  AHEAD = 8
}; /* rows: a strip of columns begins a page anew in each */
typedef struct { int32_t exclusive, reverse; } scan_state;
typedef struct {
  const scan_state *s;
  const char *x;
  char *y;
  int64_t n, inner, tile, tiles; /* tile: columns at once */
  int32_t type, stream;
} task;

/* Sums of the lanes up to each (`reverse`: from each on), with zeros from outside; lanes moved by
 * one; the sum of all lanes, in all lanes, from the sums. */
#if defined(__AVX512F__)
#define MOVED(v, by) (reverse ? SHIFT(_mm512_setzero_si512(), v, by) : \
                      SHIFT(v, _mm512_setzero_si512(), 16 - (by)))
#define SHIFT(high, low, by) \
  _mm512_castsi512_ps(_mm512_alignr_epi32((__m512i)(high), (__m512i)(low), by))
PF_INLINE pf_vf lane_sums(pf_vf v, int reverse) {
  v += MOVED(v, 1), v += MOVED(v, 2), v += MOVED(v, 4);
  return v + MOVED(v, 8);
}
PF_INLINE pf_vf lanes_moved(pf_vf v, int reverse) { return MOVED(v, 1); }
PF_INLINE pf_vf lanes_all(pf_vf v, int reverse) {
  return _mm512_permutexvar_ps(_mm512_set1_epi32(reverse ? 0 : 15), v);
}
#elif defined(__AVX2__) && defined(__FMA__)
#define MOVED(v, by) (__m256)(reverse ? _mm256_bsrli_epi128((__m256i)(v), 4 * (by)) : \
                              _mm256_bslli_epi128((__m256i)(v), 4 * (by)))
PF_INLINE pf_vf lane_sums(pf_vf v, int reverse) {
  v += MOVED(v, 1), v += MOVED(v, 2);
  pf_vf other = reverse ? _mm256_permute2f128_ps(v, v, 0x81) : _mm256_permute2f128_ps(v, v, 0x08);
  return v +
         (reverse ? _mm256_shuffle_ps(other, other, 0x00) : _mm256_shuffle_ps(other, other, 0xff));
}
PF_INLINE pf_vf lanes_moved(pf_vf v, int reverse) {
  __m256i to = reverse ? _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 7)
                       : _mm256_setr_epi32(0, 0, 1, 2, 3, 4, 5, 6);
  const pf_vf moved = _mm256_permutevar8x32_ps(v, to), zero = _mm256_setzero_ps();
  return reverse ? _mm256_blend_ps(moved, zero, 0x80) : _mm256_blend_ps(moved, zero, 0x01);
}
PF_INLINE pf_vf lanes_all(pf_vf v, int reverse) {
  return _mm256_permutevar8x32_ps(v, _mm256_set1_epi32(reverse ? 0 : 7));
}
#else
PF_INLINE pf_vf lane_sums(pf_vf v, int reverse) {
  for (int i = 1; i < PF_VF; i++)
    if (reverse) v[PF_VF - 1 - i] += v[PF_VF - i];
    else v[i] += v[i - 1];
  return v;
}
PF_INLINE pf_vf lanes_moved(pf_vf v, int reverse) {
  pf_vf to = pf_vf_set(0);
  for (int i = 1; i < PF_VF; i++)
    if (reverse) to[i - 1] = v[i];
    else to[i] = v[i - 1];
  return to;
}
PF_INLINE pf_vf lanes_all(pf_vf v, int reverse) { return pf_vf_set(v[reverse ? 0 : PF_VF - 1]); }
#endif

/* Rows of at most SHORT elements that lie together, as many as fit in a vector: lanes whose row
 * began 1, 2, 4 lanes before them take from there.  `reverse`: ends after them. */
#if defined(__AVX512F__)
enum { SHORT = 8 };
PF_INLINE pf_vf taken(__mmask16 k, pf_vf v) { return _mm512_maskz_mov_ps(k, v); }
/* the lanes that have `by` lanes of their row before them */
static __attribute__((noinline)) __mmask16 lanes_behind(int n, int by, int reverse) {
  __mmask16 lanes = 0;
  for (int l = 0; l < PF_VF; l++) lanes |= ((reverse ? n - 1 - l % n : l % n) >= by) << l;
  return lanes;
}
PF_INLINE void scan_short(int32_t type, const char *x, char *y, int64_t rows, int n, int exclusive,
                          int reverse) {
  int64_t step = PF_VF / n * n, left = rows * n;
  const __mmask16 one = lanes_behind(n, 1, reverse), two = lanes_behind(n, 2, reverse),
                  four = lanes_behind(n, 4, reverse);
  for (; left > 0; left -= step, x = pf_vf_at(type, x, step), y = (char *)pf_vf_at(type, y, step)) {
    pf_vf v = left >= PF_VF ? pf_vf_read(type, x) : pf_vf_read_part(type, x, left);
    v += taken(one, MOVED(v, 1)), v += taken(two, MOVED(v, 2));
    if (n > 4) v += taken(four, MOVED(v, 4));
    if (exclusive) v = taken(one, MOVED(v, 1));
    pf_vf_write_part(type, y, v, PF_MIN(left, step));
  }
}
#else
enum { SHORT = 0 };
static void scan_short(int32_t type, const char *x, char *y, int64_t rows, int n, int exclusive,
                       int reverse) {
  (void)type, (void)x, (void)y, (void)rows, (void)n, (void)exclusive, (void)reverse;
}
#endif

/* one vector's results; *before becomes the sum up to its end */
PF_INLINE pf_vf scanned(pf_vf v, pf_vf *before, int exclusive, int reverse) {
  pf_vf sums = lane_sums(v, reverse), base = *before;
  *before = base + lanes_all(sums, reverse);
  return base + (exclusive ? lanes_moved(sums, reverse) : sums);
}
/* Groups of vectors, past the caches, each loaded before the one ahead of it is stored: a load that
 * ends in the same 12 bits as a store just before it would wait.  -> how many vectors */
PF_INLINE int64_t scan_groups(int32_t type, const char *x, char *y, int64_t whole, int exclusive,
                              pf_vf *before) {
  enum { GROUP = 4, AHEAD_BYTES = 2048 };
  pf_vf here[GROUP], next[GROUP];
  int64_t k = 0, groups = whole / GROUP;
  if (groups)
    for (int u = 0; u < GROUP; u++) here[u] = pf_vf_read(type, pf_vf_at(type, x, u * PF_VF));
  for (int64_t g = 0; g < groups; g++, k += GROUP) {
    int64_t after = g + 1 < groups ? k + GROUP : k;
    for (int u = 0; u < GROUP; u++) {
      const char *from = pf_vf_at(type, x, (after + u) * PF_VF);
      __builtin_prefetch(from + AHEAD_BYTES, 0, 3);
      next[u] = pf_vf_read(type, from);
    }
    for (int u = 0; u < GROUP; u++) here[u] = scanned(here[u], before, exclusive, 0);
    for (int u = 0; u < GROUP; u++)
      pf_vf_write(type, pf_vf_at(type, y, (k + u) * PF_VF), here[u], 1), here[u] = next[u];
  }
  return k;
}
PF_INLINE void scan_row(int32_t type, const char *x, char *y, int64_t n, int exclusive, int reverse,
                        int stream) {
  pf_vf before = pf_vf_set(0), v;
  int64_t whole = n / PF_VF, part = n % PF_VF, at = whole * PF_VF, k = 0;
  if (stream) k = scan_groups(type, x, y, whole, exclusive, &before);
  for (; k < whole; k++) {
    int64_t i = reverse ? n - (k + 1) * PF_VF : k * PF_VF;
    v = scanned(pf_vf_read(type, pf_vf_at(type, x, i)), &before, exclusive, reverse);
    pf_vf_write(type, pf_vf_at(type, y, i), v, stream);
  }
  if (!part) return;
  if (reverse) at = 0;
  v = pf_vf_first(pf_vf_read_part(type, pf_vf_at(type, x, at), part), part);
  v = scanned(v, &before, exclusive, reverse);
  pf_vf_write_part(type, pf_vf_at(type, y, at), v, part);
}
/* w <= TILE columns of n rows, `step` elements from one to the next, past the caches: whole groups,
 * each loaded before the one ahead is stored (see scan_groups).  Returns the columns done. */
PF_INLINE int64_t column_groups(int32_t type, const char *x, char *y, int64_t n, int64_t step,
                                int64_t w, float *sums, int exclusive) {
  enum { U = 4, GROUP = U * PF_VF };
  pf_vf here[U], next[U];
  const int64_t whole = w / GROUP * GROUP, size = pf_vf_size(type);
  for (int u = 0; u < U && whole; u++) here[u] = pf_vf_read(type, pf_vf_at(type, x, u * PF_VF));
  for (int64_t i = 0; i < n; i++, x += step * size, y += step * size)
    for (int64_t j = 0; j < whole; j += GROUP) {
      int64_t after = j + GROUP < whole ? j + GROUP : i + 1 < n ? step : 0;
      for (int u = 0; u < U; u++) {
        __builtin_prefetch(pf_vf_at(type, x, j + u * PF_VF + AHEAD * step), 0, 2);
        next[u] = pf_vf_read(type, pf_vf_at(type, x, after + u * PF_VF));
      }
      for (int u = 0; u < U; u++) {
        pf_vf old = pf_vf_load(sums + j + u * PF_VF), v = old + here[u];
        pf_vf_store(sums + j + u * PF_VF, v);
        here[u] = exclusive ? old : v;
      }
      for (int u = 0; u < U; u++)
        pf_vf_write(type, pf_vf_at(type, y, j + u * PF_VF), here[u], 1), here[u] = next[u];
    }
  return whole;
}
PF_INLINE void scan_columns(int32_t type, const char *x, char *y, int64_t n, int64_t step,
                            int64_t w, int exclusive, int stream) {
  float sums[TILE] __attribute__((aligned(64))) = {0};
  int64_t first = stream ? column_groups(type, x, y, n, step, w, sums, exclusive) : 0;
  for (int64_t i = 0; i < n && first < w; i++) {
    const char *from = pf_vf_at(type, x, i * step);
    char *to = pf_vf_at(type, y, i * step);
    int64_t j = first;
    for (; j + PF_VF <= w; j += PF_VF) {
      pf_vf old = pf_vf_load(sums + j), v = old + pf_vf_read(type, pf_vf_at(type, from, j));
      pf_vf_store(sums + j, v);
      pf_vf_write(type, pf_vf_at(type, to, j), exclusive ? old : v, stream);
    }
    if (j == w) continue;
    pf_vf old = pf_vf_load_part(sums + j, (int)(w - j));
    pf_vf v = old + pf_vf_read_part(type, pf_vf_at(type, from, j), w - j);
    pf_vf_store_part(sums + j, v, (int)(w - j));
    pf_vf_write_part(type, pf_vf_at(type, to, j), exclusive ? old : v, w - j);
  }
}
PF_INLINE void scan_as(int32_t type, const task *t, int64_t i) {
  int64_t size = pf_vf_size(type);
  if (t->inner == 1) {
    const char *x = t->x + i * t->n * size;
    char *y = t->y + i * t->n * size;
    int exclusive = t->s->exclusive;
    if (t->s->reverse) scan_row(type, x, y, t->n, exclusive, 1, 0);
    else if (t->stream) scan_row(type, x, y, t->n, exclusive, 0, 1);
    else scan_row(type, x, y, t->n, exclusive, 0, 0);
    return;
  }
  int64_t j = i % t->tiles * t->tile, w = PF_MIN(t->tile, t->inner - j), step = t->inner;
  int64_t first = i / t->tiles * t->n * t->inner + j;
  if (t->s->reverse) first += (t->n - 1) * t->inner, step = -step;
  const char *x = t->x + first * size;
  char *y = t->y + first * size;
  if (t->stream) scan_columns(type, x, y, t->n, step, w, t->s->exclusive, 1);
  else scan_columns(type, x, y, t->n, step, w, t->s->exclusive, 0);
}
PF_INLINE void short_as(int32_t type, const task *t, int64_t lo, int64_t hi) {
  int64_t at = lo * t->n * pf_vf_size(type);
  if (t->s->reverse) scan_short(type, t->x + at, t->y + at, hi - lo, (int)t->n, t->s->exclusive, 1);
  else scan_short(type, t->x + at, t->y + at, hi - lo, (int)t->n, t->s->exclusive, 0);
}
static void scan_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const task *t = arg;
  (void)worker;
  if (t->inner == 1 && t->n <= SHORT) {
    if (t->type == PF_FLOAT32) short_as(PF_FLOAT32, t, lo, hi);
    else if (t->type == PF_FLOAT16) short_as(PF_FLOAT16, t, lo, hi);
    else short_as(PF_BFLOAT16, t, lo, hi);
    return;
  }
  for (int64_t i = lo; i < hi; i++)
    if (t->type == PF_FLOAT32) scan_as(PF_FLOAT32, t, i);
    else if (t->type == PF_FLOAT16) scan_as(PF_FLOAT16, t, i);
    else scan_as(PF_BFLOAT16, t, i);
  if (t->stream) pf_vf_fence();
}
static pf_status cumsum(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t axis;
  PF_TRY(pf_in_scalar(c, 1, "axis", &axis));
  if (axis < -x->ndim || axis >= x->ndim)
    return PF_INVALID(c, "ScanOp: Expected scan axis in the range [%d, %d), but got %" PRId64,
                      -x->ndim, x->ndim, axis);
  int32_t a = (int32_t)(axis < 0 ? axis + x->ndim : axis);
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  if (pf_numel(x) == 0) return PF_OK;
  task t = {.s = state,
            .x = PF_DATA(const char, x),
            .y = PF_DATA(char, y),
            .n = x->shape[a],
            .inner = pf_product(x->shape, a + 1, x->ndim),
            .type = c->in_type[0]};
  int64_t outer = pf_product(x->shape, 0, a), workers = outer > 1 ? 1 : c->host->workers(c);
  int64_t size = pf_type_size(t.type), line = t.inner == 1 ? t.n : t.inner;
  const int64_t share = (t.inner + workers - 1) / workers; /* each worker has a tile */
  t.tile = PF_MIN((share + 63) / 64 * 64, TILE);
  t.tiles = (t.inner + t.tile - 1) / t.tile;
  t.stream = pf_numel(x) * size >= STREAM_BYTES && (uintptr_t)t.y % 64 == 0 && t.x != t.y &&
             line * size % 64 == 0;
  return pf_parallel(c, outer * t.tiles, pf_grain(t.n * PF_MIN(t.tile, t.inner)), scan_range, &t);
}

const pf_kernel *const PF_ISA_NAME(scan_rows_kernels)[] = {
  PF_CPU("Cumsum", "T=float|half|bfloat16", .state_size = sizeof(scan_state), .compute = cumsum,
         .attrs = PF_ATTRS(PF_ATTR(scan_state, PF_ATTR_BOOL, exclusive),
                           PF_ATTR(scan_state, PF_ATTR_BOOL, reverse))),
  NULL};
