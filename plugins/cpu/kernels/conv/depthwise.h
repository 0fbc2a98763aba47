/* depthwise.h - depthwise convolution and its gradients, for the element type of tile_begin.h.
 *
 * One filter plane per channel (a channel multiplier was spread over channels before): arrays are
 * NHWC with g->c channels everywhere, the filter is [kh, kw, c].  Each output number is one sum in
 * registers.  3x3 filters: depthwise_roll.h; gradients: depthwise_gradient.h.
 */
#define BLOCK (4 * VL)

typedef struct {
  const pf_conv *g;
  const S *x;
  const T *f;
  S *out;
  const pf_epilogue *after;
} TILE(depth);

/* acc += x[0 .. left) * f[0 .. left) */
PF_INLINE void TILE(fma_block)(V acc[4], const T *x, const T *f, int left) {
  if (left >= BLOCK) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) acc[v] = V_FMA(V_LOAD(x + v * VL), V_LOAD(f + v * VL), acc[v]);
    return;
  }
#pragma GCC unroll 4
  for (int v = 0; v < 4; v++) {
    int n = PF_MAX(left - v * VL, 0);
    acc[v] = V_FMA(V_LOAD_PART(x + v * VL, PF_MIN(n, VL)), V_LOAD_PART(f + v * VL, PF_MIN(n, VL)),
                   acc[v]);
  }
}
PF_INLINE void TILE(store_block)(T *out, const V acc[4], int left) {
#pragma GCC unroll 4
  for (int v = 0; v < 4; v++) {
    int n = left - v * VL;
    if (n > 0) V_STORE_PART(out + v * VL, acc[v], PF_MIN(n, VL));
  }
}

/* What follows the sum, on one row of output. */
static void TILE(depth_after)(const TILE(depth) * d, int64_t row) {
  if (!d->after) return;
  const int64_t c = d->g->c, at = row * d->g->ow * c;
  pf_epilogue e = *d->after;
  e.ld_side = c;
  if (e.side) e.side = (const T *)e.side + at;
  TILE(pf_epilogue)(&e, d->out + at, c, d->g->ow, c);
}

/* Neighbouring output pixels whose windows lie inside the image, for one vector of channels. */
typedef struct {
  const T *x, *f; /* first row and column that count */
  T *out;
  int64_t rows, kw, c;       /* rows of the filter that count; channels */
  int64_t x_row, tap, pixel; /* elements from row to row, tap to tap, pixel to pixel */
  int left;                  /* channels */
} TILE(depth_run);

/* P pixels.  `slide`: that many taps and stride 1, every x is loaded once for all pixels it
 * meets; 0: whatever taps there are. */
PF_INLINE void TILE(depth_pixels)(const TILE(depth_run) * d, int64_t at, const int P,
                                  const int slide, const int full) {
#define LOAD(p) (full ? V_LOAD(p) : V_LOAD_PART(p, d->left))
  V acc[8];
#pragma GCC unroll 8
  for (int p = 0; p < P; p++) acc[p] = (V){0};
  for (int64_t r = 0; r < d->rows; r++) {
    const T *x = d->x + r * d->x_row + at * d->pixel, *f = d->f + r * d->kw * d->c;
    if (slide) {
      V w[5];
#pragma GCC unroll 5
      for (int k = 0; k < slide; k++) w[k] = LOAD(f + k * d->c);
#pragma GCC unroll 12
      for (int j = 0; j < P + slide - 1; j++) {
        const V v = LOAD(x + j * d->pixel);
#pragma GCC unroll 5
        for (int k = slide - 1; k >= 0; k--)
          if (j >= k && j - k < P) acc[j - k] = V_FMA(v, w[k], acc[j - k]);
      }
      continue;
    }
    for (int64_t k = 0; k < d->kw; k++, x += d->tap, f += d->c) {
      const V w = LOAD(f);
#pragma GCC unroll 8
      for (int p = 0; p < P; p++) acc[p] = V_FMA(LOAD(x + p * d->pixel), w, acc[p]);
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < P; p++) {
    T *to = d->out + (at + p) * d->c;
    if (full) V_STORE(to, acc[p]);
    else V_STORE_PART(to, acc[p], d->left);
  }
#undef LOAD
}
/* The last pixels are computed with some before them, again: that beats waiting for one sum. */
#define DEPTH_RUN(name, slide, full) \
  __attribute__((noinline)) static void TILE(name)(const TILE(depth_run) *d, int64_t n) { \
    if (n < 4) { \
      for (int64_t at = 0; at < n; at++) TILE(depth_pixels)(d, at, 1, slide, full); \
      return; \
    } \
    int64_t at = 0; \
    for (; at + 8 <= n; at += 8) TILE(depth_pixels)(d, at, 8, slide, full); \
    for (; at < n; at += 4) TILE(depth_pixels)(d, PF_MIN(at, n - 4), 4, slide, full); \
  }
DEPTH_RUN(depth_slide_full, 5, 1)
DEPTH_RUN(depth_slide_part, 5, 0)
DEPTH_RUN(depth_run_full, 0, 1)
DEPTH_RUN(depth_run_part, 0, 0)
#undef DEPTH_RUN

/* One output pixel whose window may leave the image. */
static void TILE(depth_pixel)(const TILE(depth) * d, const T *x, int64_t top, int64_t left,
                              T *out) {
  const pf_conv *g = d->g;
  for (int64_t c = 0; c < g->c; c += BLOCK) {
    V acc[4] = {{0}};
    for (int64_t kh = 0; kh < g->kh; kh++) {
      int64_t y = top + kh * g->dh;
      if (y < 0 || y >= g->h) continue;
      for (int64_t kw = 0; kw < g->kw; kw++) {
        int64_t z = left + kw * g->dw;
        if (z < 0 || z >= g->w) continue;
        TILE(fma_block)(acc, x + (y * g->w + z) * g->c + c, d->f + (kh * g->kw + kw) * g->c + c,
                        (int)PF_MIN(g->c - c, BLOCK));
      }
    }
    TILE(store_block)(out + c, acc, (int)PF_MIN(g->c - c, BLOCK));
  }
}

/* Rows of output, counted over the batch. */
static void TILE(depth_forward)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(depth) *d = arg;
  const pf_conv *g = d->g;
  int64_t first, last;
  pf_inside_columns(g, &first, &last);
  const int slide = g->kw == 5 && g->sw == 1 && g->dw == 1;
  (void)worker;
  for (int64_t row = lo; row < hi; row++) {
    const T *x = d->x + row / g->oh * g->h * g->w * g->c;
    const int64_t top = row % g->oh * g->sh - g->pt;
    int64_t k0 = 0, k1 = g->kh;
    T *out = d->out + row * g->ow * g->c;
    while (k0 < k1 && top + k0 * g->dh < 0) k0++;
    while (k0 < k1 && top + (k1 - 1) * g->dh >= g->h) k1--;
    for (int64_t w = 0; w < first; w++)
      TILE(depth_pixel)(d, x, top, w * g->sw - g->pl, out + w * g->c);
    for (int64_t w = last; w < g->ow; w++)
      TILE(depth_pixel)(d, x, top, w * g->sw - g->pl, out + w * g->c);
    TILE(depth_run)
    r = {.rows = k1 - k0,
         .kw = g->kw,
         .c = g->c,
         .x_row = g->dh * g->w * g->c,
         .tap = g->dw * g->c,
         .pixel = g->sw * g->c};
    x += ((top + k0 * g->dh) * g->w + first * g->sw - g->pl) * g->c;
    /* all channels of some pixels after the other: what they see stays in L1, and is read in a
     * row */
    const int64_t seen = PF_MAX(r.pixel * r.rows * (int64_t)sizeof(T), 1);
    const int64_t block = PF_MAX(RUN_BYTES / seen / 8 * 8, 8);
    for (int64_t at = first, n; at < last; at += n) {
      n = last - at < 2 * block ? last - at : block;
      for (int64_t c = 0; c < g->c; c += VL) {
        r.x = x + (at - first) * r.pixel + c;
        r.f = d->f + k0 * g->kw * g->c + c;
        r.out = out + at * g->c + c;
        r.left = (int)PF_MIN(g->c - c, VL);
        if (r.left == VL) (slide ? TILE(depth_slide_full) : TILE(depth_run_full))(&r, n);
        else (slide ? TILE(depth_slide_part) : TILE(depth_run_part))(&r, n);
      }
    }
    TILE(depth_after)(d, row);
  }
}

#define AFTER TILE(depth_after)
#include "conv/depthwise_roll.h"
#undef AFTER

pf_status TILE_NAME(pf_depth_forward)(pf_ctx *c, const pf_conv_call *call) {
  TILE(depth) d = {call->g, call->x, call->f, call->out, call->after};
  if (TILE(rolls)(call->g)) return TILE(roll_forward)(c, &d);
  return pf_parallel(c, call->g->n * call->g->oh,
                     pf_grain(call->g->ow * call->g->c * call->g->kh * call->g->kw),
                     TILE(depth_forward), &d);
}

#include "conv/depthwise_gradient.h"
#undef BLOCK
