/* depthwise.h - depthwise convolution and its gradients, for the element type of tile_begin.h.
 *
 * One filter plane per channel (a channel multiplier was spread over channels before): arrays are
 * NHWC with g->c channels everywhere, the filter is [kh, kw, c].  Each output number is one sum in
 * registers, four vectors of channels at a time; for the filter's gradient the sum runs over the
 * whole batch.
 */
#define BLOCK (4 * VL)

typedef struct { const pf_conv *g; const T *x, *f; T *out; const pf_epilogue *after; } TILE(depth);

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
static void TILE(depth_after)(const TILE(depth) *d, int64_t row) {
  if (!d->after) return;
  const int64_t c = d->g->c, at = row * d->g->ow * c;
  pf_epilogue e = *d->after;
  e.ld_side = c;
  if (e.side) e.side = (const T *)e.side + at;
  TILE(pf_epilogue)(&e, d->out + at, c, d->g->ow, c);
}

/* Neighbouring output pixels whose windows lie inside the image, for one vector of channels. */
typedef struct {
  const T *x, *f;                      /* first row and column that count */
  T *out;
  int64_t rows, kw, c;                 /* rows of the filter that count; channels */
  int64_t x_row, tap, pixel;           /* elements from row to row, tap to tap, pixel to pixel */
  int left;                            /* channels */
} TILE(depth_run);

/* P pixels.  `slide`: three taps and stride 1, every x is loaded once for all pixels it meets. */
PF_INLINE void TILE(depth_pixels)(const TILE(depth_run) *d, int64_t at, const int P,
                                  const int slide, const int full) {
#define LOAD(p) (full ? V_LOAD(p) : V_LOAD_PART(p, d->left))
  V acc[8];
#pragma GCC unroll 8
  for (int p = 0; p < P; p++) acc[p] = (V){0};
  for (int64_t r = 0; r < d->rows; r++) {
    const T *x = d->x + r * d->x_row + at * d->pixel, *f = d->f + r * d->kw * d->c;
    if (slide) {
      const V f0 = LOAD(f), f1 = LOAD(f + d->c), f2 = LOAD(f + 2 * d->c);
#pragma GCC unroll 10
      for (int j = 0; j < P + 2; j++) {
        const V v = LOAD(x + j * d->pixel);
        if (j >= 2) acc[j - 2] = V_FMA(v, f2, acc[j - 2]);
        if (j >= 1 && j - 1 < P) acc[j - 1] = V_FMA(v, f1, acc[j - 1]);
        if (j < P) acc[j] = V_FMA(v, f0, acc[j]);
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
#define DEPTH_RUN(name, slide, full) \
  __attribute__((noinline)) static void TILE(name)(const TILE(depth_run) *d, int64_t n) { \
    int64_t at = 0; \
    for (; at + 8 <= n; at += 8) TILE(depth_pixels)(d, at, 8, slide, full); \
    for (; at + 2 <= n; at += 2) TILE(depth_pixels)(d, at, 2, slide, full); \
    for (; at < n; at++) TILE(depth_pixels)(d, at, 1, slide, full); \
  }
DEPTH_RUN(depth_slide_full, 1, 1)
DEPTH_RUN(depth_slide_part, 1, 0)
DEPTH_RUN(depth_run_full, 0, 1)
DEPTH_RUN(depth_run_part, 0, 0)
#undef DEPTH_RUN

/* One output pixel whose window may leave the image. */
static void TILE(depth_pixel)(const TILE(depth) *d, const T *x, int64_t top, int64_t left, T *out) {
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
  /* columns [first, last) see the image only */
  const int64_t room = g->w + g->pl - (g->kw - 1) * g->dw;
  const int64_t first = PF_MIN((g->pl + g->sw - 1) / g->sw, g->ow),
                last = room <= 0 ? first : PF_MAX(PF_MIN((room - 1) / g->sw + 1, g->ow), first);
  const int slide = g->kw == 3 && g->sw == 1 && g->dw == 1;
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
    TILE(depth_run) r = {.rows = k1 - k0, .kw = g->kw, .c = g->c, .x_row = g->dh * g->w * g->c,
                         .tap = g->dw * g->c, .pixel = g->sw * g->c};
    x += ((top + k0 * g->dh) * g->w + first * g->sw - g->pl) * g->c;
    for (int64_t c = 0; c < g->c && first < last; c += VL) {
      r.x = x + c;
      r.f = d->f + k0 * g->kw * g->c + c;
      r.out = out + first * g->c + c;
      r.left = (int)PF_MIN(g->c - c, VL);
      if (r.left == VL) (slide ? TILE(depth_slide_full) : TILE(depth_run_full))(&r, last - first);
      else (slide ? TILE(depth_slide_part) : TILE(depth_run_part))(&r, last - first);
    }
    TILE(depth_after)(d, row);
  }
}

/* Rows of the input's gradient; x is dy. */
static void TILE(depth_input)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(depth) *d = arg;
  const pf_conv *g = d->g;
  (void)worker;
  for (int64_t row = lo; row < hi; row++) {
    const T *dy = d->x + row / g->h * g->oh * g->ow * g->c;
    int64_t h = row % g->h + g->pt;
    for (int64_t w = 0; w < g->w; w++)
      for (int64_t c = 0; c < g->c; c += BLOCK) {
        V acc[4] = {{0}};
        for (int64_t kh = 0; kh < g->kh; kh++) {
          int64_t y = h - kh * g->dh;
          if (y < 0 || y % g->sh || y / g->sh >= g->oh) continue;
          for (int64_t kw = 0; kw < g->kw; kw++) {
            int64_t z = w + g->pl - kw * g->dw;
            if (z < 0 || z % g->sw || z / g->sw >= g->ow) continue;
            TILE(fma_block)(acc, dy + (y / g->sh * g->ow + z / g->sw) * g->c + c,
                            d->f + (kh * g->kw + kw) * g->c + c, (int)PF_MIN(g->c - c, BLOCK));
          }
        }
        TILE(store_block)(d->out + (row * g->w + w) * g->c + c, acc, (int)PF_MIN(g->c - c, BLOCK));
      }
  }
}

/* Taps of the filter's gradient times blocks of channels; f is dy. */
static void TILE(depth_filter)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(depth) *d = arg;
  const pf_conv *g = d->g;
  int64_t blocks = (g->c + BLOCK - 1) / BLOCK;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    int64_t tap = i / blocks, c = i % blocks * BLOCK, kh = tap / g->kw, kw = tap % g->kw;
    int n = (int)PF_MIN(g->c - c, BLOCK);
    V acc[4] = {{0}};
    for (int64_t row = 0; row < g->n * g->oh; row++) {
      int64_t y = row % g->oh * g->sh - g->pt + kh * g->dh;
      if (y < 0 || y >= g->h) continue;
      const T *x = d->x + (row / g->oh * g->h + y) * g->w * g->c + c,
              *dy = d->f + row * g->ow * g->c + c;
      for (int64_t ow = 0; ow < g->ow; ow++) {
        int64_t z = ow * g->sw - g->pl + kw * g->dw;
        if (z >= 0 && z < g->w) TILE(fma_block)(acc, x + z * g->c, dy + ow * g->c, n);
      }
    }
    TILE(store_block)(d->out + tap * g->c + c, acc, n);
  }
}

pf_status TILE_NAME(pf_depth_forward)(pf_ctx *c, const pf_conv_call *call) {
  TILE(depth) d = {call->g, call->x, call->f, call->out, call->after};
  return pf_parallel(c, call->g->n * call->g->oh,
                     pf_grain(call->g->ow * call->g->c * call->g->kh * call->g->kw),
                     TILE(depth_forward), &d);
}
pf_status TILE_NAME(pf_depth_input)(pf_ctx *c, const pf_conv_call *call) {
  TILE(depth) d = {call->g, call->dy, call->f, call->out, NULL};
  return pf_parallel(c, call->g->n * call->g->h,
                     pf_grain(call->g->w * call->g->c * call->g->kh * call->g->kw),
                     TILE(depth_input), &d);
}
pf_status TILE_NAME(pf_depth_filter)(pf_ctx *c, const pf_conv_call *call) {
  TILE(depth) d = {call->g, call->x, call->dy, call->out, NULL};
  const pf_conv *g = call->g;
  return pf_parallel(c, g->kh * g->kw * ((g->c + BLOCK - 1) / BLOCK),
                     pf_grain(g->n * g->oh * g->ow * BLOCK), TILE(depth_filter), &d);
}
#undef BLOCK
