/* conv_weights.h - the gradient of a convolution's filter, for the element type of tile.h.
 *
 *     df[k, o] = sum over images and output pixels p of x[base(p) + offset(k)] * dy[p, o],    k =
 *     (kh, kw, c)
 *
 * A strip is some output rows of one image, or several whole images: the input rows they look at,
 * padded where they need it, and dy, packed in panels of output channels.  Both stay in L2 while
 * every tile of df adds its share.  Large filters: strips are prepared some at a time, then threads
 * share out the tiles.  Small ones: threads share out the strips in a fixed number of parts, whose
 * sums are then added in order.
 */
typedef struct {
  const pf_conv *g;
  const T *x, *dy;
  int flat;                                       /* rows follow each other in x without a gap */
  int64_t last_cols;                              /* flat: pixels of the last row */
  int64_t images, rows, strips_per_image, strips; /* of a strip: images, output rows of each */
  int64_t strip_rows, strip_cols, k, goc, width, *off; /* off: source offset of each k */
  int copy_x;
  int64_t x_image, slot_size, dy_size; /* of one image of a strip, of a strip, of its dy */
  T *slots;                            /* strips: dy, then x where it is copied */
  int64_t first, count;                /* by tile: the strips in slots */
  T *out;                              /* [parts][groups? k][oc] */
  int add;                             /* to what `out` holds */
  int64_t parts, tiles;                /* tiles: (group, panel, rows of k) */
} TILE(weights);

/* One strip as seen by tiles. */
typedef struct {
  const T *x, *dy;
  int64_t images, nrow, top, pixels, row_step, image_step;
} TILE(view);

/* A tile: mr rows of k times one panel, over runs of pixels. */
typedef struct {
  const T *a[TILE_MAX_ROWS], *b;
  const int64_t *a_off, *b_off; /* one per run */
  int64_t runs, len, a_step;
  T *c[TILE_MAX_ROWS];
  int rows, cols, add;
} TILE(weight_tile);

PF_INLINE void TILE(weight_body)(const TILE(weight_tile) * t, const int nv, const int mr) {
  V acc[TILE_MAX_ROWS][TILE_NV];
  const T *a[TILE_MAX_ROWS];
#pragma GCC unroll 8
  for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) acc[r][v] = (V){0};
  const int64_t a_step = t->a_step, len = t->len;
  for (int64_t u = 0; u < t->runs; u++) {
    const T *b = t->b + t->b_off[u];
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++) a[r] = t->a[r] + t->a_off[u];
    for (int64_t i = 0, at = 0; i < len; i++, at += a_step, b += nv * VL) {
      V bv[TILE_NV];
#pragma GCC unroll 4
      for (int v = 0; v < nv; v++) bv[v] = V_LOAD(b + v * VL);
#pragma GCC unroll 8
      for (int r = 0; r < mr; r++) {
        V x = V_SET(a[r][at]);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) acc[r][v] = V_FMA(x, bv[v], acc[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < mr; r++)
    if (r < t->rows) TILE(tile_store)(t->c[r], acc[r], nv, t->cols, t->add);
}
#define WEIGHT_TILE(nv) \
  __attribute__((noinline)) static void TILE(weight_tile_##nv)(const TILE(weight_tile) *t) { \
    TILE(weight_body)(t, nv, tile_rows(nv)); \
  }
WEIGHT_TILE(1)
WEIGHT_TILE(2)
#if defined(__AVX512F__) || defined(__aarch64__)
WEIGHT_TILE(3)
WEIGHT_TILE(4)
#endif
#undef WEIGHT_TILE
static void (*const TILE(weight_fns)[TILE_NV])(const TILE(weight_tile) *) = {
  TILE(weight_tile_1),
  TILE(weight_tile_2),
#if defined(__AVX512F__) || defined(__aarch64__)
  TILE(weight_tile_3),
  TILE(weight_tile_4),
#endif
};

/* ---------------------------------------------------------------- strips */
static TILE(view) TILE(view_of)(const TILE(weights) * s, int64_t strip, const T *slot) {
  const pf_conv *g = s->g;
  int64_t image = strip / s->strips_per_image * s->images,
          r0 = strip % s->strips_per_image * s->rows;
  TILE(view)
  v = {.images = PF_MIN(s->images, g->n - image),
       .nrow = PF_MIN(s->rows, g->oh - r0),
       .top = r0 * g->sh - g->pt,
       .dy = slot};
  v.pixels = v.images * v.nrow * g->ow;
  if (s->flat && r0 + v.nrow == g->oh) v.pixels += s->last_cols - g->ow;
  v.x =
      s->copy_x ? slot + s->dy_size : s->x + pf_conv_x_at(g, image) + (v.top * g->w - g->pl) * g->c;
  v.row_step = (s->copy_x ? s->strip_cols : g->w) * g->c * g->sh;
  v.image_step = s->copy_x ? s->x_image : g->x_image;
  return v;
}

/* dy of a strip -> panels [group][panel][pixel][panel width], zeros beyond a group's channels. */
static void TILE(pack_dy)(const TILE(weights) * s, const TILE(view) * v, const T *dy, T *to) {
  const pf_conv *g = s->g;
  for (int64_t i = 0; i < g->groups; i++)
    for (int64_t j = 0; j < s->goc; j += TILE_NV * VL) {
      int nv = TILE(tile_nv)(s->goc, j);
      TILE(pack_rows)(dy + i * s->goc, g->oc, v->pixels, s->goc, j, nv, to);
      to += v->pixels * nv * VL;
    }
}

static void TILE(fill_slot)(const TILE(weights) * s, int64_t strip, T *slot) {
  const pf_conv *g = s->g;
  TILE(view) v = TILE(view_of)(s, strip, slot);
  int64_t image = strip / s->strips_per_image * s->images,
          r0 = strip % s->strips_per_image * s->rows;
  TILE(pack_dy)(s, &v, s->dy + pf_conv_y_at(g, image) + r0 * g->ow * g->oc, slot);
  for (int64_t i = 0; s->copy_x && i < v.images; i++)
    pf_copy_strip((const char *)(s->x + pf_conv_x_at(g, image + i)), g->h, g->w,
                  g->c * (int64_t)sizeof(T), v.top, (v.nrow - 1) * g->sh + (g->kh - 1) * g->dh + 1,
                  -g->pl, s->strip_cols, (char *)(slot + s->dy_size + i * s->x_image));
}

/* ---------------------------------------------------------------- tiles */
/* The part of the strip that k in [k0, k1) of the filter looks at: output rows r0 .. r1 - 1 and
 * columns c0 .. c1 - 1 of every image. */
typedef struct { int64_t r0, r1, c0, c1; } TILE(part);
static TILE(part)
    TILE(useful_part)(const TILE(weights) * s, const TILE(view) * v, int64_t k0, int64_t k1) {
  const pf_conv *g = s->g;
  int64_t span = g->kw * g->fc, h0 = k0 / span, h1 = (k1 - 1) / span;
  int64_t w0 = h0 == h1 ? k0 % span / g->fc : 0,
          w1 = h0 == h1 ? (k1 - 1) % span / g->fc : g->kw - 1;
  TILE(part) p = {0, v->nrow, 0, g->ow};
  while (p.r0 < p.r1 && v->top + p.r0 * g->sh + h1 * g->dh < 0) p.r0++;
  while (p.r0 < p.r1 && v->top + (p.r1 - 1) * g->sh + h0 * g->dh >= g->h) p.r1--;
  while (p.c0 < p.c1 && p.c0 * g->sw - g->pl + w1 * g->dw < 0) p.c0++;
  while (p.c0 < p.c1 && (p.c1 - 1) * g->sw - g->pl + w0 * g->dw >= g->w) p.c1--;
  return p;
}

/* The strip's rows as runs, for a panel of w columns. */
static int64_t TILE(list_runs)(const TILE(weights) * s, const TILE(view) * v, const TILE(part) * p,
                               int64_t w, int64_t *a_off, int64_t *b_off) {
  int64_t n = 0;
  for (int64_t i = 0; i < v->images; i++)
    for (int64_t r = p->r0; r < p->r1; r++) {
      a_off[n] = i * v->image_step + r * v->row_step + p->c0 * s->g->sw * s->g->c;
      b_off[n++] = ((i * v->nrow + r) * s->g->ow + p->c0) * w;
    }
  return n;
}

/* Tile number -> group, panel column, first k. */
static void TILE(run_weight_tile)(const TILE(weights) * s, const TILE(view) * v, int64_t tile,
                                  T *out, int add) {
  const pf_conv *g = s->g;
  int64_t a_off[MAX_STRIP_ROWS], b_off[MAX_STRIP_ROWS];
  int64_t k_tiles = (s->k + TILE_K - 1) / TILE_K,
          panels = (s->goc + TILE_NV * VL - 1) / (TILE_NV * VL);
  int64_t k0 = tile % k_tiles * TILE_K, j = tile / k_tiles % panels * (TILE_NV * VL);
  int64_t group = tile / (k_tiles * panels), k1 = PF_MIN(k0 + TILE_K, s->k);
  int nv = TILE(tile_nv)(s->goc, j), mr = tile_rows(nv);
  TILE(weight_tile)
  t = {.a_step = g->sw * g->c,
       .cols = (int)PF_MIN(nv * VL, s->goc - j),
       .add = add,
       .b = v->dy + (group * s->width + j) * v->pixels,
       .a_off = a_off,
       .b_off = b_off};
  TILE(part) seen = {-1, -1, -1, -1};
  for (; k0 < k1; k0 += mr) {
    t.rows = (int)PF_MIN(mr, k1 - k0);
    TILE(part) p = TILE(useful_part)(s, v, k0, k0 + t.rows);
    if (s->flat) {
      a_off[0] = b_off[0] = 0;
      t.runs = 1;
      t.len = v->pixels;
    } else if (memcmp(&p, &seen, sizeof p)) {
      t.runs = TILE(list_runs)(s, v, &p, nv * VL, a_off, b_off);
      t.len = p.c1 - p.c0;
      seen = p;
    }
    for (int r = 0; r < mr; r++) {
      int64_t k = k0 + PF_MIN(r, t.rows - 1);
      t.a[r] = v->x + s->off[k] + group * g->fc;
      t.c[r] = out + k * g->oc + group * s->goc + j;
    }
    TILE(weight_fns)[nv - 1](&t);
  }
}

static void TILE(fill_slots)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(weights) *s = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) TILE(fill_slot)(s, s->first + i, s->slots + i * s->slot_size);
}

static void TILE(weights_by_tile)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(weights) *s = arg;
  (void)worker;
  for (int64_t i = 0; i < s->count; i++) {
    TILE(view) v = TILE(view_of)(s, s->first + i, s->slots + i * s->slot_size);
    const int add = s->add || s->first + i > 0;
    for (int64_t t = lo; t < hi; t++) TILE(run_weight_tile)(s, &v, t, s->out, add);
  }
}

static void TILE(weights_by_part)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(weights) *s = arg;
  T *slot = s->slots + worker * s->slot_size;
  for (int64_t part = lo; part < hi; part++) {
    int64_t first = s->strips * part / s->parts, last = s->strips * (part + 1) / s->parts;
    T *out = s->out + part * s->k * s->g->oc;
    for (int64_t strip = first; strip < last; strip++) {
      TILE(fill_slot)(s, strip, slot);
      TILE(view) v = TILE(view_of)(s, strip, slot);
      for (int64_t t = 0; t < s->tiles; t++) TILE(run_weight_tile)(s, &v, t, out, strip > first);
    }
  }
}

/* ---------------------------------------------------------------- sizes */
/* Input and gradient rows of a strip together take STRIP_BYTES; several images where one takes
 * less, but MIN_STRIPS strips where the batch allows it. */
static void TILE(size_strips)(TILE(weights) * s) {
  const pf_conv *g = s->g;
  int64_t row = (g->sh * s->strip_cols * g->c + g->ow * s->width * g->groups) * (int64_t)sizeof(T);
  int64_t most = PF_MAX(PF_MIN(STRIP_BYTES / PF_MAX(row, 1), MAX_STRIP_ROWS), 1);
  s->images = pf_conv_compact(g) ? PF_MAX(PF_MIN(most / g->oh, g->n), 1) : 1;
  s->rows = PF_MIN(most, g->oh);
  s->strips_per_image = (g->oh + s->rows - 1) / s->rows;
  s->rows = (g->oh + s->strips_per_image - 1) / s->strips_per_image; /* even strips */
  s->strips_per_image = (g->oh + s->rows - 1) / s->rows;
  s->strips = s->strips_per_image * ((g->n + s->images - 1) / s->images);
  s->strip_rows = (s->rows - 1) * g->sh + (g->kh - 1) * g->dh + 1;
}

static pf_status TILE(take_slots)(pf_ctx *c, TILE(weights) * s, int64_t slots) {
  s->slots = c->host->scratch(c, (uint64_t)(s->slot_size * slots) * sizeof(T) + 64, 64);
  return s->slots ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for convolution strips");
}

static pf_status TILE(size_slots)(pf_ctx *c, TILE(weights) * s) {
  const pf_conv *g = s->g;
  int64_t bottom = (g->oh - 1) * g->sh - g->pt + (g->kh - 1) * g->dh;
  s->copy_x = g->pt > 0 || g->pl > 0 || bottom >= g->h || s->strip_cols > g->w;
  s->x_image = s->copy_x ? s->strip_rows * s->strip_cols * g->c : 0;
  s->dy_size = (s->images * s->rows * g->ow * s->width * g->groups + 15) / 16 * 16;
  s->slot_size = s->dy_size + (s->images * s->x_image + 15) / 16 * 16;
  s->off = c->host->scratch(c, (uint64_t)s->k * 8, 64);
  if (!s->off) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a convolution's offsets");
  int64_t cols = s->copy_x ? s->strip_cols : g->w;
  for (int64_t k = 0; k < s->k; k++)
    s->off[k] = (k / (g->kw * g->fc) * g->dh * cols + k / g->fc % g->kw * g->dw) * g->c + k % g->fc;
  return PF_OK;
}

static pf_status TILE(run_by_tile)(pf_ctx *c, TILE(weights) * s) {
  int64_t most = SLOT_BYTES / (s->slot_size * (int64_t)sizeof(T)), workers = c->host->workers(c);
  most = PF_MIN(PF_MAX(most, 1), s->strips);
  PF_TRY(TILE(take_slots)(c, s, most));
  for (s->first = 0; s->first < s->strips; s->first += s->count) {
    s->count = PF_MIN(most, s->strips - s->first);
    PF_TRY(pf_parallel(c, s->count, 1, TILE(fill_slots), s));
    int64_t grain = workers > 1 ? PF_MAX(s->tiles / (workers * 4), 1) : s->tiles;
    PF_TRY(pf_parallel(c, s->tiles, grain, TILE(weights_by_tile), s));
  }
  return PF_OK;
}

static pf_status TILE(run_by_part)(pf_ctx *c, TILE(weights) * s, T *out) {
  int64_t size = s->k * s->g->oc;
  s->parts = PF_MIN(MAX_PARTS, s->strips);
  s->out = c->host->scratch(c, (uint64_t)(s->parts * size) * sizeof(T), 64);
  if (!s->out) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for partial filter gradients");
  PF_TRY(TILE(take_slots)(c, s, c->host->workers(c)));
  PF_TRY(pf_parallel(c, s->parts, 1, TILE(weights_by_part), s));
  if (!s->add) memset(out, 0, sizeof(T) * (size_t)size);
  for (int64_t p = 0; p < s->parts; p++)
    for (int64_t i = 0; i < size; i++) out[i] += s->out[p * size + i];
  return PF_OK;
}

pf_status TILE_NAME(pf_conv_filter)(pf_ctx *c, const pf_conv_call *call) {
  pf_conv flat;
  const pf_conv *g = &flat;
  int64_t last = pf_conv_flatten(call->g, 8, 1, 1, &flat);
  TILE(weights)
  s = {.g = g,
       .x = call->x,
       .dy = call->dy,
       .flat = last > 0,
       .last_cols = last,
       .k = g->kh * g->kw * g->fc,
       .goc = g->oc / g->groups,
       .strip_cols = (g->ow - 1) * g->sw + (g->kw - 1) * g->dw + 1,
       .out = call->out,
       .add = call->add};
  s.width = TILE(panels_width)(s.goc);
  TILE(size_strips)(&s);
  PF_TRY(TILE(size_slots)(c, &s));
  s.tiles = (s.k + TILE_K - 1) / TILE_K * ((s.goc + TILE_NV * VL - 1) / (TILE_NV * VL)) * g->groups;
  return s.tiles >= MANY_TILES ? TILE(run_by_tile)(c, &s) : TILE(run_by_part)(c, &s, call->out);
}
