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

/* Rows of output, counted over the batch. */
static void TILE(depth_forward)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(depth) *d = arg;
  const pf_conv *g = d->g;
  (void)worker;
  for (int64_t row = lo; row < hi; row++) {
    const T *x = d->x + row / g->oh * g->h * g->w * g->c;
    int64_t top = row % g->oh * g->sh - g->pt;
    for (int64_t ow = 0; ow < g->ow; ow++) {
      int64_t left = ow * g->sw - g->pl;
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
        TILE(store_block)(d->out + (row * g->ow + ow) * g->c + c, acc,
                          (int)PF_MIN(g->c - c, BLOCK));
      }
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
