/* depthwise_gradient.h - gradients of depthwise convolution, for the element type of tile_begin.h.
 *
 * The input's gradient of stride 1 is a forward pass over dy with the filter turned round.  3x3
 * filters of stride 2 have a loop of their own, as has the gradient of 3x3 filters: that is summed
 * in chunks of rows whose number depends on sizes alone, so threads change no bits.  Rows and
 * columns outside the image are never read.
 */
#define LOAD(p) (full ? V_LOAD(p) : V_LOAD_PART(p, left))
#define STORE(p, v) do { if (full) V_STORE(p, v); else V_STORE_PART(p, v, left); } while (0)

/* ---------------------------------------------------------------- input's gradient, stride 1 */
/* The forward pass that gives it; 0: there is none. */
static int TILE(turned_sizes)(const pf_conv *g, pf_conv *to) {
  *to = *g;
  to->h = g->oh, to->w = g->ow, to->oh = g->h, to->ow = g->w;
  to->pt = (g->kh - 1) * g->dh - g->pt, to->pl = (g->kw - 1) * g->dw - g->pl;
  return g->sh == 1 && g->sw == 1 && g->pt >= 0 && g->pl >= 0 && to->pt >= 0 && to->pl >= 0;
}
static pf_status TILE(turned_filter)(pf_ctx *c, const pf_conv_call *call, const void **turned) {
  const pf_conv *g = call->g;
  const int64_t taps = g->kh * g->kw;
  T *f = c->host->scratch(c, (uint64_t)(taps * g->c) * sizeof(T), 64);
  if (!f) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a turned filter");
  for (int64_t k = 0; k < taps; k++)
    memcpy(f + k * g->c, (const T *)call->f + (taps - 1 - k) * g->c, (size_t)g->c * sizeof(T));
  *turned = f;
  return PF_OK;
}

/* ---------------------------------------------------------------- the same of 3x3, stride 2 */
/* Rows and columns of dx go in pairs that share dy: rows 2y - pt and 2y - pt + 1 see rows y and
 * y - 1 of dy, and columns likewise. */
typedef struct {
  const T *dy, *f; /* row y, column 0; taps [3, 3, c] */
  T *dx;           /* row 2y - pt, column -pl */
  int64_t dy_row, dx_row, c, w, ow, pl;
  int here, above, even, odd; /* rows y and y - 1 of dy, and the two of dx, exist */
  int left;                   /* channels: of a vector, or fewer */
} TILE(quads);

PF_INLINE void TILE(quad_rows)(const TILE(quads) * d, const int full) {
  const int64_t c = d->c, w = d->w, pl = d->pl, dy_row = d->dy_row, dx_row = d->dx_row;
  const int left = d->left, even = d->even, odd = d->odd;
  V f[3][3], a0 = {0}, b0 = {0}; /* the column of dy before, rows y and y - 1 */
#pragma GCC unroll 3
  for (int r = 0; r < 3; r++)
#pragma GCC unroll 3
    for (int k = 0; k < 3; k++) f[r][k] = LOAD(d->f + (r * 3 + k) * c);
  int here0 = 0, above0 = 0;
  for (int64_t z = PF_MAX(pl / 2 - 1, 0); 2 * z - pl < w; z++) {
    const int here = d->here && z < d->ow, above = d->above && z < d->ow;
    V a = {0}, b = {0}, ee = {0}, eo = {0}, oe = {0}, oo = {0};
    if (here) {
      a = LOAD(d->dy + z * c);
      ee = V_FMA(a, f[0][0], ee), eo = V_FMA(a, f[0][1], eo);
      oe = V_FMA(a, f[1][0], oe), oo = V_FMA(a, f[1][1], oo);
    }
    if (above) {
      b = LOAD(d->dy + z * c - dy_row);
      ee = V_FMA(b, f[2][0], ee), eo = V_FMA(b, f[2][1], eo);
    }
    if (here0) ee = V_FMA(a0, f[0][2], ee), oe = V_FMA(a0, f[1][2], oe);
    if (above0) ee = V_FMA(b0, f[2][2], ee);
    T *to = d->dx + 2 * z * c;
    if (2 * z >= pl) {
      if (even) STORE(to, ee);
      if (odd) STORE(to + dx_row, oe);
    }
    if (2 * z + 1 >= pl && 2 * z + 1 - pl < w) {
      if (even) STORE(to + c, eo);
      if (odd) STORE(to + dx_row + c, oo);
    }
    a0 = a, b0 = b, here0 = here, above0 = above;
  }
}
__attribute__((noinline)) static void TILE(quads_full)(const TILE(quads) * d) {
  TILE(quad_rows)(d, 1);
}
__attribute__((noinline)) static void TILE(quads_part)(const TILE(quads) * d) {
  TILE(quad_rows)(d, 0);
}

static int TILE(is_quads)(const pf_conv *g) {
  return g->kh == 3 && g->kw == 3 && g->sh == 2 && g->sw == 2 && g->dh == 1 && g->dw == 1 &&
         g->pt >= 0 && g->pl >= 0;
}
/* Pairs of rows of dx in an image; the first may have its lower row alone. */
static int64_t TILE(quads_of)(const pf_conv *g) { return (g->h - 1 + g->pt) / 2 - g->pt / 2 + 1; }

/* Pairs of rows of dx, counted over the batch; x is dy. */
static void TILE(input_quads)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(depth) *d = arg;
  const pf_conv *g = d->g;
  const int64_t pairs = TILE(quads_of)(g);
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    const int64_t image = i / pairs, y = i % pairs + g->pt / 2, p = 2 * y - g->pt;
    TILE(quads)
    q = {.dy_row = g->ow * g->c,
         .dx_row = g->w * g->c,
         .c = g->c,
         .w = g->w,
         .ow = g->ow,
         .pl = g->pl,
         .here = y < g->oh,
         .above = y >= 1 && y - 1 < g->oh,
         .even = p >= 0,
         .odd = p + 1 < g->h};
    for (int64_t c = 0; c < g->c; c += VL) {
      q.dy = d->x + (image * g->oh + y) * q.dy_row + c, q.f = d->f + c;
      q.dx = d->out + ((image * g->h + p) * g->w - g->pl) * g->c + c;
      q.left = (int)PF_MIN(g->c - c, VL);
      (q.left < VL ? TILE(quads_part) : TILE(quads_full))(&q);
    }
  }
}

/* ---------------------------------------------------------------- input's gradient, the rest */
/* Rows of the input's gradient; x is dy. */
static void TILE(input_rows)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
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

pf_status TILE_NAME(pf_depth_input)(pf_ctx *c, const pf_conv_call *call) {
  const pf_conv *g = call->g;
  TILE(depth) d = {g, call->dy, call->f, call->out, NULL};
  pf_conv turned;
  if (TILE(turned_sizes)(g, &turned)) {
    pf_conv_call forward = {.g = &turned, .x = call->dy, .out = call->out};
    PF_TRY(TILE(turned_filter)(c, call, &forward.f));
    return TILE_NAME(pf_depth_forward)(c, &forward);
  }
  const int64_t row = pf_grain(g->w * g->c * g->kh * g->kw);
  if (TILE(is_quads)(g))
    return pf_parallel(c, g->n * TILE(quads_of)(g), row, TILE(input_quads), &d);
  return pf_parallel(c, g->n * g->h, row, TILE(input_rows), &d);
}

/* ---------------------------------------------------------------- gradient of 3x3 filters */
/* Sums of `chunks` chunks of rows of dy, for groups of channels: [chunks, 3, 3, c]. */
enum { TILE(GROUP) = 256, TILE(NEAR) = PF_L2_BYTES / 8 }; /* channels; bytes of x of some rows */
typedef struct {
  const pf_conv *g;
  const T *x, *dy;
  T *sums, *out;
  int64_t chunks, groups;
} TILE(filter_sums);

/* rows [y0, y1) of one image, one vector of channels */
typedef struct {
  const pf_conv *g;
  const T *x, *dy; /* the image's, at the channel */
  T *sums;
  int64_t y0, y1;
  int left;
} TILE(filter_rows);

/* A column of x, of the rows [from, to) of those under two windows `step` rows apart, meets taps
 * [k0, k1) of both windows: a[k] and b[k] are dy where tap k sees this column. */
PF_INLINE void TILE(filter_column)(V s[3][3], const T *x, int64_t row, const V a[3], const V b[3],
                                   const int from, const int to, const int k0, const int k1,
                                   const int by, const int step, const int pair, const int full,
                                   const int left) {
#pragma GCC unroll 5
  for (int r = 0; r < 3 + step; r++) {
    if (r < from || r >= to) continue;
    const V v = LOAD(x + r * row);
#pragma GCC unroll 3
    for (int k = 0; k < 3; k++) {
      if (k < k0 || k >= k1 || (k - k0) % by) continue;
      if (r < 3) s[r][k] = V_FMA(v, a[k], s[r][k]);
      if (r >= step && pair) s[r - step][k] = V_FMA(v, b[k], s[r - step][k]);
    }
  }
}

/* Two rows of dy at once: what both windows cover is loaded once, and dy rolls through registers
 * along the columns that it meets. */
PF_INLINE void TILE(filter_pair)(const TILE(filter_rows) * d, int64_t y, V s[3][3], const int step,
                                 const int pair, const int full) {
  const pf_conv *g = d->g;
  const int left = d->left;
  const int64_t c = g->c, row = g->w * c, top = y * step - g->pt, w = g->w, ow = g->ow, pl = g->pl;
  const int from = (int)PF_MIN(PF_MAX(-top, 0), 5),
            to = (int)PF_MAX(PF_MIN(g->h - top, 3 + (pair ? step : 0)), from);
  const T *x = d->x + top * row, *dy = d->dy + y * ow * c;
  V a[3] = {{0}, {0}, {0}}, b[3] = {{0}, {0}, {0}};
  if (step == 1)
    for (int64_t z = -PF_MIN(pl, 2), o = z + pl; z < w; z++, o++) { /* o: tap 0 sees z */
      a[2] = a[1], b[2] = b[1], a[1] = a[0], b[1] = b[0];
      if (o < ow) {
        a[0] = LOAD(dy + o * c);
        if (pair) b[0] = LOAD(dy + (ow + o) * c);
        __builtin_prefetch(dy + (2 * ow + o) * c, 0, 2);
        __builtin_prefetch(dy + (3 * ow + o) * c, 0, 2);
      }
      if (z < 0) continue;
      __builtin_prefetch(x + 4 * row + z * c, 0, 2);
      __builtin_prefetch(x + 5 * row + z * c, 0, 2);
      TILE(filter_column)(s, x + z * c, row, a, b, from, to,
                          o < ow       ? 0
                          : o - 1 < ow ? 1
                                       : 2,
                          (int)PF_MIN(o + 1, 3), 1, 1, pair, full, left);
    }
  else
    for (int64_t o = 0, z = -pl; o <= ow; o++, z += 2) {
      a[2] = a[0], b[2] = b[0];
      if (o < ow) {
        a[1] = a[0] = LOAD(dy + o * c);
        if (pair) b[1] = b[0] = LOAD(dy + (ow + o) * c);
      }
#pragma GCC unroll 8
      for (int i = 0; i < 8; i++) __builtin_prefetch(x + (5 + i / 2) * row + (z + i % 2) * c, 0, 2);
      if (z >= 0 && z < w)
        TILE(filter_column)(s, x + z * c, row, a, b, from, to, o < ow ? 0 : 2, o > 0 ? 3 : 1, 2, 2,
                            pair, full, left);
      if (o < ow && z >= -1 && z + 1 < w)
        TILE(filter_column)(s, x + (z + 1) * c, row, a, b, from, to, 1, 2, 1, 2, pair, full, left);
    }
}
PF_INLINE void TILE(filter_of_rows)(const TILE(filter_rows) * d, const int step, const int full) {
  const int64_t c = d->g->c;
  const int left = d->left;
  V s[3][3];
#pragma GCC unroll 9
  for (int i = 0; i < 9; i++) s[i / 3][i % 3] = LOAD(d->sums + i * c);
  int64_t y = d->y0;
  for (; y + 2 <= d->y1; y += 2) TILE(filter_pair)(d, y, s, step, 1, full);
  if (y < d->y1) TILE(filter_pair)(d, y, s, step, 0, full);
#pragma GCC unroll 9
  for (int i = 0; i < 9; i++) STORE(d->sums + i * c, s[i / 3][i % 3]);
}
#define FILTER_ROWS(name, step, full) \
  __attribute__((noinline)) static void TILE(name)(const TILE(filter_rows) *d) { \
    TILE(filter_of_rows)(d, step, full); \
  }
FILTER_ROWS(filter_full, 1, 1)
FILTER_ROWS(filter_part, 1, 0)
FILTER_ROWS(filter_full_2, 2, 1)
FILTER_ROWS(filter_part_2, 2, 0)
#undef FILTER_ROWS

/* Chunks of rows times groups of channels.  A few rows at a time: the rows above and below them are
 * still near when the next vector of channels comes. */
static void TILE(filter_chunks)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(filter_sums) *d = arg;
  const pf_conv *g = d->g;
  const int64_t rows = g->n * g->oh;
  const int64_t wide = g->w * g->sh * PF_MIN(g->c, TILE(GROUP)) * (int64_t)sizeof(T);
  const int64_t some = PF_MAX(TILE(NEAR) / wide, 2) / 2 * 2;
  TILE(filter_rows) r = {.g = g};
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    const int64_t chunk = i / d->groups, from = i % d->groups * TILE(GROUP),
                  end = PF_MIN(from + TILE(GROUP), g->c);
    T *sums = d->sums + chunk * 9 * g->c;
    for (int k = 0; k < 9; k++) memset(sums + k * g->c + from, 0, (size_t)(end - from) * sizeof(T));
    for (int64_t y = rows * chunk / d->chunks; y < rows * (chunk + 1) / d->chunks;) {
      const int64_t image = y / g->oh;
      r.y0 = y % g->oh;
      y = PF_MIN(PF_MIN(y + some, rows * (chunk + 1) / d->chunks), (image + 1) * g->oh);
      r.y1 = y - image * g->oh;
      for (int64_t c = from; c < end; c += VL) {
        r.x = d->x + image * g->h * g->w * g->c + c;
        r.dy = d->dy + image * g->oh * g->ow * g->c + c;
        r.sums = sums + c;
        r.left = (int)PF_MIN(end - c, VL);
        if (g->sw == 1) (r.left < VL ? TILE(filter_part) : TILE(filter_full))(&r);
        else (r.left < VL ? TILE(filter_part_2) : TILE(filter_full_2))(&r);
      }
    }
  }
}
/* out = the chunks' sums, in their order */
static void TILE(filter_total)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(filter_sums) *d = arg;
  const int64_t n = 9 * d->g->c;
  (void)worker;
  memcpy(d->out + lo, d->sums + lo, (size_t)(hi - lo) * sizeof(T));
  for (int64_t k = 1; k < d->chunks; k++)
    for (int64_t i = lo; i < hi; i++) d->out[i] += d->sums[k * n + i];
}
static pf_status TILE(filter_3x3)(pf_ctx *c, const pf_conv_call *call) {
  const pf_conv *g = call->g;
  TILE(filter_sums) d = {.g = g, .x = call->x, .dy = call->dy, .out = call->out};
  d.chunks = PF_MIN(PF_MAX(g->n * g->oh * g->ow / 1024, 1), PF_MIN(g->n * g->oh, 16));
  d.groups = (g->c + TILE(GROUP) - 1) / TILE(GROUP);
  d.sums = c->host->scratch(c, (uint64_t)(d.chunks * 9 * g->c) * sizeof(T), 64);
  if (!d.sums) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for sums of rows");
  PF_TRY(pf_parallel(c, d.chunks * d.groups,
                     pf_grain(g->n * g->oh * g->ow / d.chunks * PF_MIN(g->c, TILE(GROUP)) * 9),
                     TILE(filter_chunks), &d));
  return pf_parallel(c, 9 * g->c, pf_grain(d.chunks), TILE(filter_total), &d);
}

/* ---------------------------------------------------------------- gradient of filters, the rest */
/* Any filter: taps times blocks of channels; f is dy. */
static void TILE(filter_taps)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
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

pf_status TILE_NAME(pf_depth_filter)(pf_ctx *c, const pf_conv_call *call) {
  const pf_conv *g = call->g;
  TILE(depth) d = {g, call->x, call->dy, call->out, NULL};
  if (TILE(rolls)(g)) return TILE(filter_3x3)(c, call);
  return pf_parallel(c, g->kh * g->kw * ((g->c + BLOCK - 1) / BLOCK),
                     pf_grain(g->n * g->oh * g->ow * BLOCK), TILE(filter_taps), &d);
}
#undef LOAD
#undef STORE
