/* conv_weights.h - the gradient of a convolution's filter, for the element type of tile.h.
 *
 *     df[k, o] = sum over images and output pixels p of x[base(p) + offset(k)] * dy[p, o],    k =
 *     (kh, kw, c)
 *
 * A strip is some output rows of one image, with the padded input rows they look at; both stay in
 * L2 while every tile of df adds its share.  Large filters: threads share out the tiles, each going
 * through all strips.  Small ones: threads share out the strips in a fixed number of parts, whose
 * sums are then added in order.
 */
typedef struct {
  const pf_conv *g;
  const T *x, *dy;
  int64_t rows, strips_per_image, strips;      /* output rows of a strip */
  /* off: source offset of each k, in the strip */
  int64_t strip_rows, strip_cols, k, goc, width, *off;
  int copy_x, copy_dy;
  T *x_copy, *dy_copy;                         /* per worker */
  int64_t x_size, dy_size;
  T *out;                                      /* [parts][groups? k][oc] */
  int64_t parts, tiles;                        /* tiles: (group, panel, rows of k) */
  int tile_k;
} TILE(weights);

/* One strip as seen by tiles. */
typedef struct { const T *x, *dy; int64_t nrow, dy_pitch, top; } TILE(view);

static TILE(view) TILE(open_strip)(const TILE(weights) *s, int64_t strip, int32_t worker) {
  const pf_conv *g = s->g;
  int64_t image = strip / s->strips_per_image, r0 = strip % s->strips_per_image * s->rows;
  int64_t r1 = PF_MIN(r0 + s->rows, g->oh), top = r0 * g->sh - g->pt;
  const T *x = s->x + image * g->h * g->w * g->c,
          *dy = s->dy + (image * g->oh + r0) * g->ow * g->oc;
  TILE(view) v = {.nrow = r1 - r0, .dy_pitch = g->oc, .top = top};
  if (s->copy_x) {
    T *to = s->x_copy + worker * s->x_size;
    pf_copy_strip((const char *)x, g->h, g->w, g->c * (int64_t)sizeof(T), top,
                  (r1 - 1 - r0) * g->sh + (g->kh - 1) * g->dh + 1, -g->pl, s->strip_cols,
                  (char *)to);
    v.x = to;
  } else {
    v.x = x + (top * g->w - g->pl) * g->c;
  }
  v.dy = dy;
  if (s->copy_dy) {                            /* panels padded to whole vectors */
    T *to = s->dy_copy + worker * s->dy_size;
    v.dy = to;
    v.dy_pitch = s->width * g->groups;
    for (int64_t p = 0; p < v.nrow * g->ow; p++, dy += g->oc)
      for (int64_t i = 0; i < g->groups; i++, to += s->width) {
        memcpy(to, dy + i * s->goc, sizeof(T) * (size_t)s->goc);
        memset(to + s->goc, 0, sizeof(T) * (size_t)(s->width - s->goc));
      }
  }
  return v;
}

/* The part of the strip that k in [k0, k1) of the filter looks at: output rows r0 .. r1 - 1 and
 * columns c0 .. c1 - 1. */
typedef struct { int64_t r0, r1, c0, c1; } TILE(part);
static TILE(part) TILE(useful_part)(const TILE(weights) *s, const TILE(view) *v, int64_t k0,
                                    int64_t k1) {
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

/* Tile number -> group, panel column, first k. */
static void TILE(run_weight_tile)(const TILE(weights) *s, const TILE(view) *v,
                                  const int64_t *row_off, int64_t tile, T *out, int add) {
  const pf_conv *g = s->g;
  int64_t k_tiles = (s->k + s->tile_k - 1) / s->tile_k,
          panels = (s->goc + TILE_NV * VL - 1) / (TILE_NV * VL);
  int64_t k0 = tile % k_tiles * s->tile_k, j = tile / k_tiles % panels * (TILE_NV * VL);
  int64_t group = tile / (k_tiles * panels), k1 = PF_MIN(k0 + s->tile_k, s->k);
  int nv = TILE(tile_nv)(s->goc, j), mr = tile_rows(nv);
  const T *a[TILE_MAX_ROWS];
  T *c[TILE_MAX_ROWS];
  TILE(tile) t = {.a = a,
       .c = c,
       .a_step = g->sw * g->c,
       .b_step = v->dy_pitch,
       .b_run = g->ow * v->dy_pitch,
       .cols = (int)PF_MIN(nv * VL, s->goc - j),
       .add = add,
       .b = v->dy + group * (s->copy_dy ? s->width : s->goc) + j};
  const T *dy = t.b;
  for (; k0 < k1; k0 += mr) {
    t.rows = (int)PF_MIN(mr, k1 - k0);
    TILE(part) p = TILE(useful_part)(s, v, k0, k0 + t.rows);
    t.runs = p.r1 - p.r0;
    t.len = p.c1 - p.c0;
    t.a_off = row_off + p.r0;
    t.b = dy + p.r0 * t.b_run + p.c0 * t.b_step;
    for (int r = 0; r < mr; r++) {
      int64_t k = k0 + PF_MIN(r, t.rows - 1);
      a[r] = v->x + s->off[k] + group * g->fc + p.c0 * t.a_step;
      c[r] = out + k * g->oc + group * s->goc + j;
    }
    TILE(tile_run)(&t, nv);
  }
}

static void TILE(strip_row_offsets)(const TILE(weights) *s, int64_t *row_off) {
  int64_t pitch = (s->copy_x ? s->strip_cols : s->g->w) * s->g->c * s->g->sh;
  for (int64_t r = 0; r < s->rows; r++) row_off[r] = r * pitch;
}

static void TILE(weights_by_tile)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(weights) *s = arg;
  int64_t row_off[MAX_STRIP_ROWS];
  TILE(strip_row_offsets)(s, row_off);
  for (int64_t strip = 0; strip < s->strips; strip++) {
    TILE(view) v = TILE(open_strip)(s, strip, worker);
    for (int64_t t = lo; t < hi; t++) TILE(run_weight_tile)(s, &v, row_off, t, s->out, strip > 0);
  }
}

static void TILE(weights_by_part)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(weights) *s = arg;
  int64_t row_off[MAX_STRIP_ROWS];
  TILE(strip_row_offsets)(s, row_off);
  for (int64_t part = lo; part < hi; part++) {
    int64_t first = s->strips * part / s->parts, last = s->strips * (part + 1) / s->parts;
    T *out = s->out + part * s->k * s->g->oc;
    for (int64_t strip = first; strip < last; strip++) {
      TILE(view) v = TILE(open_strip)(s, strip, worker);
      for (int64_t t = 0; t < s->tiles; t++)
        TILE(run_weight_tile)(s, &v, row_off, t, out, strip > first);
    }
  }
}

/* Output rows of a strip: input and gradient rows of it together fill half of L2. */
static void TILE(size_strips)(TILE(weights) *s) {
  const pf_conv *g = s->g;
  int64_t row = (g->sh * s->strip_cols * g->c + g->ow * g->oc) * (int64_t)sizeof(T);
  s->rows = PF_MAX(PF_MIN(STRIP_BYTES / PF_MAX(row, 1), MAX_STRIP_ROWS), 1);
  s->strips_per_image = (g->oh + s->rows - 1) / s->rows;
  s->rows = (g->oh + s->strips_per_image - 1) / s->strips_per_image;   /* even strips */
  s->strips_per_image = (g->oh + s->rows - 1) / s->rows;
  s->strips = s->strips_per_image * g->n;
  s->strip_rows = (s->rows - 1) * g->sh + (g->kh - 1) * g->dh + 1;
}

static pf_status TILE(take_copies)(pf_ctx *c, TILE(weights) *s) {
  const pf_conv *g = s->g;
  int64_t workers = c->host->workers(c), bottom = (g->oh - 1) * g->sh - g->pt + (g->kh - 1) * g->dh;
  s->copy_x = g->pt > 0 || g->pl > 0 || bottom >= g->h || s->strip_cols > g->w;
  s->copy_dy = s->goc % VL != 0;               /* whole vectors never leave a pixel */
  s->x_size = s->copy_x ? (s->strip_rows * s->strip_cols * g->c + 15) / 16 * 16 : 0;
  s->dy_size = s->copy_dy ? (s->rows * g->ow * s->width * g->groups + 15) / 16 * 16 : 0;
  int64_t total = (s->x_size + s->dy_size) * workers + s->k;
  s->x_copy = c->host->scratch(c, (uint64_t)total * sizeof(T) + 64, 64);
  s->off = c->host->scratch(c, (uint64_t)s->k * 8, 64);
  if (!s->x_copy || !s->off)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for convolution strips");
  s->dy_copy = s->x_copy + s->x_size * workers;
  int64_t cols = s->copy_x ? s->strip_cols : g->w;
  for (int64_t k = 0; k < s->k; k++)
    s->off[k] = (k / (g->kw * g->fc) * g->dh * cols + k / g->fc % g->kw * g->dw) * g->c + k % g->fc;
  return PF_OK;
}

pf_status TILE_NAME(pf_conv_filter)(pf_ctx *c, const pf_conv_call *call) {
  const pf_conv *g = call->g;
  TILE(weights) s = {.g = g,
       .x = call->x,
       .dy = call->dy,
       .k = g->kh * g->kw * g->fc,
       .goc = g->oc / g->groups,
       .strip_cols = (g->ow - 1) * g->sw + (g->kw - 1) * g->dw + 1,
       .out = call->out,
       .parts = 1};
  s.width = TILE(panels_width)(s.goc);
  TILE(size_strips)(&s);
  PF_TRY(TILE(take_copies)(c, &s));
  s.tile_k = 24;                               /* whole tiles for every number of rows */
  s.tiles =
      (s.k + s.tile_k - 1) / s.tile_k * ((s.goc + TILE_NV * VL - 1) / (TILE_NV * VL)) * g->groups;
  if (s.tiles >= MANY_TILES)
    return c->host->parallel_for(c, s.tiles, PF_MAX(s.tiles / 16, 1), TILE(weights_by_tile), &s);
  s.parts = PF_MIN(MAX_PARTS, s.strips);
  int64_t size = s.k * g->oc;
  T *sums = c->host->scratch(c, (uint64_t)(s.parts * size) * sizeof(T), 64);
  if (!sums) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for partial filter gradients");
  s.out = sums;
  PF_TRY(c->host->parallel_for(c, s.parts, 1, TILE(weights_by_part), &s));
  T *out = call->out;
  memcpy(out, sums, sizeof(T) * (size_t)size);
  for (int64_t p = 1; p < s.parts; p++)
    for (int64_t i = 0; i < size; i++) out[i] += sums[p * size + i];
  return PF_OK;
}
