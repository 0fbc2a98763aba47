/* depthwise_roll.h - depthwise 3x3 filters of stride 1 and 2, for the element type of tile_begin.h:
 * two rows of output at once, columns rolling through registers.
 *
 * The nine taps of a vector of channels stay in registers.  Each column of the four (five) rows
 * under the windows is loaded once and meets all the sums whose windows cover it; the sums of a
 * column move on to the next.  A number is summed column by column, and in a column from the top
 * down, so it does not depend on which other numbers are computed with it.  Rows and columns
 * outside the image are never read.  AFTER(d, row) is what follows on a row of output.
 *
 * Fast path: depthwise_3x3 (docs/paths.md).
 */
typedef struct {
  const S *x; /* top row of the upper windows, column 0 */
  const T *f; /* taps [3, 3, c] */
  S *out;
  int64_t x_row, out_row, c; /* elements from row to row, and from pixel to pixel */
  int64_t w, ow, pl;
  int from, to; /* rows under the windows that exist */
  int left;     /* channels: of a vector, or fewer */
  int pair;     /* the lower row of output exists too */
} TILE(roll);

PF_INLINE void TILE(roll_pair)(const TILE(roll) * d, const int full, const int stream) {
#define LOAD(p) (full ? S_LOAD(p) : S_LOAD_PART(p, d->left))
#define TAP(p) (full ? V_LOAD(p) : V_LOAD_PART(p, d->left))
#define STORE(p, v) do { \
    if (stream) V_STREAM((T *)(p), v); \
    else if (full) S_STORE(p, v); \
    else S_STORE_PART(p, v, d->left); \
  } while (0)
  const int64_t c = d->c, x_row = d->x_row, out_row = d->out_row, w = d->w, ow = d->ow;
  const int from = d->from, to = d->to, pair = d->pair;
  V f[3][3], a0 = {0}, a1 = {0}, b0 = {0}, b1 = {0};
#pragma GCC unroll 3
  for (int r = 0; r < 3; r++)
#pragma GCC unroll 3
    for (int k = 0; k < 3; k++) f[r][k] = TAP(d->f + (r * 3 + k) * c);
  const S *x = d->x;
  S *out = d->out + (d->pl - 2) * c; /* of the column whose sums end here */
  for (int64_t z = 0, o = d->pl - 2; o < ow; z++, o++, x += c, out += c) {
    V c0 = {0}, c1 = {0};
    if (z < w) {
      __builtin_prefetch(x + 4 * x_row, 0, 2);
      __builtin_prefetch(x + 5 * x_row, 0, 2);
#pragma GCC unroll 4
      for (int r = 0; r < 4; r++) {
        if (r < from || r >= to) continue;
        const V v = LOAD(x + r * x_row);
        if (r < 3) {
          a0 = V_FMA(v, f[r][2], a0);
          b0 = V_FMA(v, f[r][1], b0);
          c0 = V_FMA(v, f[r][0], c0);
        }
        if (r > 0) {
          a1 = V_FMA(v, f[r - 1][2], a1);
          b1 = V_FMA(v, f[r - 1][1], b1);
          c1 = V_FMA(v, f[r - 1][0], c1);
        }
      }
    }
    if (o >= 0) {
      STORE(out, a0);
      if (pair) STORE(out + out_row, a1);
    }
    a0 = b0, a1 = b1, b0 = c0, b1 = c1;
  }
}
/* The same for stride 2: of five rows the third is under both windows, and every second column is
 * the last of one window and the first of the next. */
PF_INLINE void TILE(roll_pair_2)(const TILE(roll) * d, const int full, const int stream) {
  const int64_t c = d->c, x_row = d->x_row, out_row = d->out_row, w = d->w, ow = d->ow;
  const int from = d->from, to = d->to, pair = d->pair;
  V f[3][3], a0 = {0}, a1 = {0};
#pragma GCC unroll 3
  for (int r = 0; r < 3; r++)
#pragma GCC unroll 3
    for (int k = 0; k < 3; k++) f[r][k] = TAP(d->f + (r * 3 + k) * c);
  for (int64_t z = -d->pl, o = 0;; z += 2, o++) {
    V c0 = {0}, c1 = {0};
    const S *x = d->x + z * c;
    if (z >= 0 && z < w) {
#pragma GCC unroll 5
      for (int r = 0; r < 5; r++) {
        if (r < from || r >= to) continue;
        const V v = LOAD(x + r * x_row);
        if (r < 3) a0 = V_FMA(v, f[r][2], a0), c0 = V_FMA(v, f[r][0], c0);
        if (r > 1) a1 = V_FMA(v, f[r - 2][2], a1), c1 = V_FMA(v, f[r - 2][0], c1);
      }
    }
    if (o > 0) {
      STORE(d->out + (o - 1) * c, a0);
      if (pair) STORE(d->out + (o - 1) * c + out_row, a1);
    }
    if (o == ow) return;
    if (z >= -1 && z + 1 < w) {
#pragma GCC unroll 5
      for (int r = 0; r < 5; r++) {
        if (r < from || r >= to) continue;
        const V v = LOAD(x + c + r * x_row);
        if (r < 3) c0 = V_FMA(v, f[r][1], c0);
        if (r > 1) c1 = V_FMA(v, f[r - 2][1], c1);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) __builtin_prefetch(x + (5 + i / 2) * x_row + i % 2 * c, 0, 2);
    a0 = c0, a1 = c1;
  }
}
#define ROLL(name, how, full, stream) \
  __attribute__((noinline)) static void TILE(name)(const TILE(roll) *d) { \
    TILE(how)(d, full, stream); \
  }
ROLL(roll_full, roll_pair, 1, 0)
ROLL(roll_stream, roll_pair, 1, 1)
ROLL(roll_part, roll_pair, 0, 0)
ROLL(roll_full_2, roll_pair_2, 1, 0)
ROLL(roll_part_2, roll_pair_2, 0, 0)
#undef ROLL
#undef LOAD
#undef TAP
#undef STORE

static int TILE(rolls)(const pf_conv *g) {
  if (g->kh != 3 || g->kw != 3 || g->dh != 1 || g->dw != 1 || g->sh != g->sw) return 0;
  if (g->sw == 2) return 1;
  return g->sw == 1 && g->pl >= 0 && g->pl <= 2 && g->ow <= g->w + g->pl;
}

/* Pairs of rows of output, counted over the batch. */
static void TILE(roll_pairs)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(depth) *d = arg;
  const pf_conv *g = d->g;
  const int64_t pairs = (g->oh + 1) / 2;
  const int64_t bytes = g->n * g->oh * g->ow * g->c * (int64_t)sizeof(T);
  const int stream = sizeof(V) == 64 && sizeof(S) == sizeof(T) && !d->after && g->c % VL == 0 &&
                     (uintptr_t)d->out % 64 == 0 && bytes >= PF_STREAM_BYTES;
  void (*const full)(const TILE(roll) *) = g->sw == 2 ? TILE(roll_full_2)
                                           : stream   ? TILE(roll_stream)
                                                      : TILE(roll_full);
  void (*const part)(const TILE(roll) *) = g->sw == 2 ? TILE(roll_part_2) : TILE(roll_part);
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    const int64_t y = i % pairs * 2, top = y * g->sh - g->pt, row = i / pairs * g->oh + y;
    TILE(roll)
    r = {.x_row = g->w * g->c,
         .out_row = g->ow * g->c,
         .c = g->c,
         .w = g->w,
         .ow = g->ow,
         .pl = g->pl,
         .pair = y + 1 < g->oh};
    r.from = (int)PF_MIN(PF_MAX(-top, 0), 5);
    r.to = (int)PF_MAX(PF_MIN(g->h - top, r.pair ? 3 + g->sh : 3), r.from);
    const S *x = d->x + (i / pairs * g->h + top) * r.x_row;
    for (int64_t c = 0; c < g->c; c += VL) {
      r.x = x + c, r.f = d->f + c, r.out = d->out + row * r.out_row + c;
      r.left = (int)PF_MIN(g->c - c, VL);
      (r.left < VL ? part : full)(&r);
    }
    AFTER(d, row);
    if (r.pair) AFTER(d, row + 1);
  }
  if (stream) V_FENCE();
}

static pf_status TILE(roll_forward)(pf_ctx *c, const TILE(depth) * d) {
  return pf_parallel(c, d->g->n * ((d->g->oh + 1) / 2), pf_grain(d->g->ow * d->g->c * 2 * 9),
                     TILE(roll_pairs), (void *)d);
}
