/* conv_slide.h - forward convolution and the gradient of its input, for the element type of tile.h.
 *
 * Both are the same motion: for groups of output pixels ("phases", one per stride remainder;
 * forward has one), sum runs of source pixels against packed filters, in blocks of runs that fit
 * into L2.  Work is shared out in one of two ways, chosen by sizes alone:
 *
 *     by rows     a task is some output rows of one image, against all filters (or a part of the
 *                 panels, where rows are too few for the threads).  It copies the source rows it
 *                 needs, padded, into a strip of its own.
 *     by panels   a task is one panel of output channels, against all pixels (or a part of them):
 *                 every filter is read once.  For few pixels and large filters.
 *
 * Filters come packed (constants) or are packed here: by rows, in slices of output channels of
 * about PACK_BYTES, before the tasks; by panels, block after block, by the task itself.
 */
typedef struct {
  /* source runs of one output pixel, relative to its base; their rows, ascending */
  int64_t runs, len, *off, *row;
  int64_t *at; /* filters of the runs */
  /* first output row and column of the phase, relative to the task's */
  int64_t y0, x0;
  const T *packed; /* of a slice: [group][panel][runs * len][panel width] */
  int64_t block;   /* runs that are summed at a time */
} TILE(phase);

typedef struct {
  const T *src;
  T *out;
  int64_t sh, sw, sc; /* source height, width, channels */
  int64_t oh, ow, oc; /* output height, width, channels */
  int64_t (*src_at)(const pf_conv *g, int64_t image), (*out_at)(const pf_conv *g, int64_t image);
  int add;                                  /* to what the output holds */
  int64_t last_cols;                        /* pixels of the last output row; 0: as of the others */
  int64_t groups, gsc, goc;                 /* channels per group */
  int64_t o_step_h, o_step_w;               /* output step of a phase */
  int64_t s_step_h, s_step_w;               /* source step of one output step */
  int64_t strip_w0, strip_cols, strip_rows; /* columns wanted; most rows of a strip */
  int64_t (*row0)(const pf_conv *g, int64_t out_row);
  int64_t (*row1)(const pf_conv *g, int64_t out_row); /* last source row wanted, inclusive */
  const pf_conv *g;
  /* filters of a group at f + group * f_group: element (k, n) of run u at at[u] + k * k_step + n *
   * n_step */
  const T *f;
  int64_t f_group, k_step, n_step;
  const T *ready;                /* all filters, packed; or NULL */
  const pf_epilogue *after;      /* or NULL */
  int64_t j0, j1, width;         /* the slice: channels of each group; of its panels */
  int64_t rows, tasks_per_image; /* output rows of a task */
  TILE(phase) * phase;
  int64_t phases, pieces; /* runs in a row that cover one stretch of the source */
  int padded;             /* the source needs padding */
  T *strips;              /* by rows: one per worker; else: one per image */
  int64_t strip_size;
  int64_t image0, images; /* the images in strips; by rows: 0 where each worker's */
  int64_t parts;          /* tasks of one panel; by rows: of the same rows */
  T *blocks;              /* by panels: a packed block per worker */
  int64_t block_size;
} TILE(slide);

/* Channels j .. of group i, runs [u0, u1) -> one panel.  n_step or k_step is 1. */
static void TILE(pack_panel)(const TILE(slide) * s, const TILE(phase) * ph, int64_t i, int64_t j,
                             int nv, int64_t u0, int64_t u1, T *p) {
  const T *f = s->f + i * s->f_group;
  for (int64_t u = u0; u < u1; u++, p += ph->len * nv * VL) {
    if (s->n_step == 1) TILE(pack_rows)(f + ph->at[u], s->k_step, ph->len, s->goc, j, nv, p);
    else TILE(pack_columns)(f + ph->at[u], s->n_step, ph->len, s->goc, j, nv, p);
  }
}

/* ---------------------------------------------------------------- pixels against one panel */
/* Some output rows of one image. */
typedef struct {
  const TILE(slide) * s;
  const TILE(phase) * ph;
  const T *strip;
  T *image;                   /* output image */
  int64_t pitch;              /* source elements from row to row of the strip */
  int64_t r0, r1, nrow, ncol; /* output rows of the task; pixels of the phase */
  int64_t top;                /* source row of the strip's first */
} TILE(patch);

/* The pixels of the patch that belong to phase ph; 0: none. */
static int TILE(enter_phase)(TILE(patch) * p, const TILE(phase) * ph) {
  const TILE(slide) *s = p->s;
  p->ph = ph;
  if (ph->y0 >= p->r1 - p->r0 || ph->x0 >= s->ow) return 0;
  p->nrow = (p->r1 - p->r0 - ph->y0 + s->o_step_h - 1) / s->o_step_h;
  p->ncol = (s->ow - ph->x0 + s->o_step_w - 1) / s->o_step_w;
  return 1;
}

/* Runs in [u0, u1) that meet the source for row y; the rest would only add zeros. */
PF_INLINE void TILE(useful_runs)(const TILE(patch) * p, int64_t y, int64_t *u0, int64_t *u1) {
  const int64_t *row = p->ph->row, at = p->top + y * p->s->s_step_h;
  while (*u0 < *u1 && at + row[*u0] < 0) ++*u0;
  while (*u0 < *u1 && at + row[*u1 - 1] >= p->s->sh) --*u1;
}

/* What follows the sum, for channels from `at` on. */
static void TILE(set_after)(const pf_epilogue *e, int64_t at, TILE(row_tile) * t) {
  if (!e) return;
  t->bias = e->col_bias ? (const T *)e->col_bias + at : NULL;
  t->clamp = e->act == PF_ACT_RELU || e->act == PF_ACT_RELU6;
  t->low = 0;
  t->high = e->act == PF_ACT_RELU6 ? (T)6 : (T)INFINITY;
}

/* Activations that are not clamps, on a row of n pixels. */
static void TILE(activate_row)(const pf_epilogue *e, T *c, int64_t c_px, int64_t n, int cols) {
  if (!e || e->act <= PF_ACT_RELU6) return;
  for (int64_t i = 0; i < n; i++, c += c_px) TILE(pf_activate)(e->act, (T)e->alpha, c, cols);
}

/* Runs [u0, u1) of the filters of channels j .. of group i; `panel` begins with run u_first. */
static void TILE(run_panel)(const TILE(patch) * p, const T *panel, int64_t u_first, int64_t u0,
                            int64_t u1, int64_t i, int64_t j, int nv) {
  const TILE(slide) *s = p->s;
  const TILE(phase) *ph = p->ph;
  const int64_t channel = i * s->goc + j, run_size = ph->len * nv * VL;
  TILE(row_tile)
  t = {.a_px = s->s_step_w * s->sc,
       .len = ph->len,
       .c_px = s->o_step_w * s->oc,
       .cols = (int)PF_MIN((int64_t)nv * VL, s->goc - j),
       .add = u0 > 0 || s->add,
       .far = u0 == 0,
       .last = s->after && u1 == ph->runs};
  TILE(set_after)(s->after, channel, &t);
  for (int64_t y = 0; y < p->nrow; y++) {
    int64_t v0 = u0, v1 = u1, row = p->r0 + ph->y0 + y * s->o_step_h;
    int64_t n = s->last_cols && row == s->oh - 1 ? s->last_cols : p->ncol;
    int64_t at = (row * s->ow + ph->x0) * s->oc + channel;
    TILE(useful_runs)(p, y, &v0, &v1);
    if (v0 == v1 && t.add && !t.last) continue;
    t.a = p->strip + i * s->gsc + y * s->s_step_h * p->pitch;
    t.off = ph->off + v0;
    t.runs = v1 - v0;
    t.b = panel + (v0 - u_first) * run_size;
    t.c = p->image + at;
    if (t.last && s->after->side) t.side = (const T *)s->after->side + (p->image - s->out) + at;
    TILE(row_run)(&t, n, nv);
    if (t.last) TILE(activate_row)(s->after, p->image + at, t.c_px, n, t.cols);
  }
}

/* ------------------------------------------------- few output channels: sums along the source's */
/* DOTS pixels times one channel: filters [channel][runs * len], vectors along the run. */
static void TILE(dot_pixels)(const TILE(phase) * ph, const T *const *a, const T *f, T *sums) {
  V acc[DOTS] = {{0}};
  for (int64_t u = 0; u < ph->runs; u++, f += ph->len) {
    const int64_t off = ph->off[u];
    int64_t i = 0;
    for (; i + VL <= ph->len; i += VL) {
      V w = V_LOAD(f + i);
#pragma GCC unroll 8
      for (int r = 0; r < DOTS; r++) acc[r] = V_FMA(V_LOAD(a[r] + off + i), w, acc[r]);
    }
    if (i < ph->len) {
      const int left = (int)(ph->len - i);
      V w = V_LOAD_PART(f + i, left);
#pragma GCC unroll 8
      for (int r = 0; r < DOTS; r++) acc[r] = V_FMA(V_LOAD_PART(a[r] + off + i, left), w, acc[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < DOTS; r++) sums[r] = V_SUM(acc[r]);
}

/* What follows the sum, for one pixel of all channels. */
static void TILE(finish_pixel)(const TILE(slide) * s, T *c) {
  pf_epilogue e = *s->after;
  if (e.side) e.side = (const T *)e.side + (c - s->out);
  TILE(pf_epilogue)(&e, c, s->oc, 1, s->oc);
}

static void TILE(run_dots)(const TILE(patch) * p) {
  const TILE(slide) *s = p->s;
  const TILE(phase) *ph = p->ph;
  int64_t total = p->nrow * p->ncol, x = 0, y = 0;
  T *dst = p->image + ((p->r0 + ph->y0) * s->ow + ph->x0) * s->oc;
  for (int64_t at = 0; at < total; at += DOTS) {
    const T *a[DOTS];
    T *c[DOTS], sums[DOTS];
    int n = (int)PF_MIN(DOTS, total - at);
    for (int r = 0; r < DOTS; r++) {
      a[r] = p->strip; /* unused pixels read something valid */
      if (r >= n) continue;
      a[r] = p->strip + y * s->s_step_h * p->pitch + x * s->s_step_w * s->sc;
      c[r] = dst + (y * s->o_step_h * s->ow + x * s->o_step_w) * s->oc;
      if (++x == p->ncol) x = 0, y++;
    }
    for (int64_t k = 0; k < s->goc; k++) {
      TILE(dot_pixels)(ph, a, ph->packed + k * ph->runs * ph->len, sums);
      for (int r = 0; r < n; r++) c[r][k] = s->add ? c[r][k] + sums[r] : sums[r];
    }
    for (int r = 0; s->after && r < n; r++) TILE(finish_pixel)(s, c[r]);
  }
}

/* Dots pay where tiles would leave most of a vector empty and runs fill one. */
static int TILE(use_dots)(int64_t groups, int64_t goc, int64_t len) {
  return groups == 1 && goc <= MAX_DOTS && len >= VL;
}

static T *TILE(pack_dots)(const TILE(slide) * s, const TILE(phase) * ph, T *p) {
  for (int64_t k = 0; k < s->goc; k++)
    for (int64_t u = 0; u < ph->runs; u++)
      for (int64_t i = 0; i < ph->len; i++) *p++ = s->f[ph->at[u] + i * s->k_step + k * s->n_step];
  return p;
}

/* ---------------------------------------------------------------- tasks by rows */
PF_INLINE int64_t TILE(panels_of)(int64_t channels) {
  return (channels + TILE_NV * VL - 1) / (TILE_NV * VL);
}

/* Tasks that each panel should give, so that threads find enough. */
static int64_t TILE(shares)(pf_ctx *c, int64_t groups, int64_t goc) {
  int64_t workers = c->host->workers(c), panels = PF_MAX(groups * TILE(panels_of)(goc), 1);
  return workers > 1 ? (TASKS_EACH * workers + panels - 1) / panels : 1;
}

/* At least `wanted` equal parts of `units`, or as many as there are. */
static int64_t TILE(even_parts)(int64_t units, int64_t wanted) {
  int64_t parts = PF_MAX(PF_MIN(wanted, units), 1);
  while (units % parts) parts++;
  return parts;
}

/* The panels of a part, of all groups. */
static void TILE(run_phase)(const TILE(patch) * p, int64_t part) {
  const TILE(slide) *s = p->s;
  const TILE(phase) *ph = p->ph;
  const int64_t k = ph->runs * ph->len, panels = TILE(panels_of)(s->j1 - s->j0);
  if (TILE(use_dots)(s->groups, s->goc, ph->len)) {
    TILE(run_dots)(p);
    return;
  }
  const int64_t units = s->groups * panels, last = units * (part + 1) / s->parts;
  for (int64_t unit = units * part / s->parts; unit < last; unit++) {
    const int64_t i = unit / panels, j = s->j0 + unit % panels * (TILE_NV * VL);
    const int nv = TILE(tile_nv)(s->goc, j);
    const T *panel = ph->packed + (i * s->width + j - s->j0) * k;
    int64_t u = 0;
    do {
      int64_t end = PF_MIN(u + ph->block, ph->runs);
      TILE(run_panel)(p, panel, 0, u, end, i, j, nv);
      u = end;
    } while (u < ph->runs);
  }
}

/* Task number -> rows of an image. */
static TILE(patch) TILE(open_patch)(const TILE(slide) * s, int64_t task) {
  int64_t image = task / s->tasks_per_image, r0 = task % s->tasks_per_image * s->rows;
  TILE(patch)
  p = {.s = s,
       .image = s->out + s->out_at(s->g, image),
       .r0 = r0,
       .r1 = PF_MIN(r0 + s->rows, s->oh),
       .top = s->row0(s->g, r0),
       .pitch = (s->padded ? s->strip_cols : s->sw) * s->sc};
  if (!s->padded) p.strip = s->src + s->src_at(s->g, image) + (p.top * s->sw + s->strip_w0) * s->sc;
  return p;
}

/* Where the strips of whole images have the patch that is task number t of theirs. */
static const T *TILE(strip_of_image)(const TILE(slide) * s, const TILE(patch) * p, int64_t t) {
  return s->strips + t / s->tasks_per_image * s->strip_size +
         (p->top - s->row0(s->g, 0)) * p->pitch;
}

static void TILE(row_tasks)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(slide) *s = arg;
  for (int64_t task = lo; task < hi; task++) {
    const int64_t rows = task / s->parts;
    TILE(patch) p = TILE(open_patch)(s, rows);
    if (s->padded && s->images) {
      p.strip = TILE(strip_of_image)(s, &p, rows);
    } else if (s->padded) {
      T *strip = s->strips + worker * s->strip_size;
      const T *src = s->src + s->src_at(s->g, rows / s->tasks_per_image);
      pf_copy_strip((const char *)src, s->sh, s->sw, s->sc * (int64_t)sizeof(T), p.top,
                    s->row1(s->g, p.r1 - 1) - p.top + 1, s->strip_w0, s->strip_cols, (char *)strip);
      p.strip = strip;
    }
    for (int64_t k = 0; k < s->phases; k++)
      if (TILE(enter_phase)(&p, &s->phase[k])) TILE(run_phase)(&p, task % s->parts);
  }
}

/* Filter elements of one channel in all groups. */
static int64_t TILE(channel_size)(const TILE(slide) * s) {
  int64_t size = 0;
  for (int64_t k = 0; k < s->phases; k++) size += s->phase[k].runs * s->phase[k].len;
  return size * s->groups;
}

/* The slice from j0 on: as many panels as PACK_BYTES hold, one at least; all where packed. */
static void TILE(next_slice)(TILE(slide) * s, int64_t j0) {
  int64_t most = PACK_BYTES / (int64_t)sizeof(T) / PF_MAX(TILE(channel_size)(s), 1);
  int whole = s->ready || TILE(use_dots)(s->groups, s->goc, s->phase[0].len);
  s->j0 = s->j1 = j0;
  s->width = 0;
  while (s->j1 < s->goc) {
    int64_t panel = TILE(tile_nv)(s->goc, s->j1) * VL;
    if (s->width && s->width + panel > most && !whole) break;
    s->width += panel;
    s->j1 += panel;
  }
}

/* Unit: a panel of a group, in all phases. */
static void TILE(pack_units)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(slide) *s = arg;
  int64_t panels = TILE(panels_of)(s->j1 - s->j0);
  (void)worker;
  for (int64_t unit = lo; unit < hi; unit++) {
    int64_t i = unit / panels, j = s->j0 + unit % panels * (TILE_NV * VL);
    for (int64_t k = 0; k < s->phases; k++) {
      const TILE(phase) *ph = &s->phase[k];
      T *to = (T *)ph->packed + (i * s->width + j - s->j0) * ph->runs * ph->len;
      TILE(pack_panel)(s, ph, i, j, TILE(tile_nv)(s->goc, j), 0, ph->runs, to);
    }
  }
}

/* The slice's filters of all phases, into `packed`. */
static pf_status TILE(pack_slice)(pf_ctx *c, TILE(slide) * s, T *packed) {
  int dots = TILE(use_dots)(s->groups, s->goc, s->phase[0].len);
  for (int64_t k = 0; k < s->phases; k++) {
    TILE(phase) *ph = &s->phase[k];
    ph->packed = packed;
    if (dots) packed = TILE(pack_dots)(s, ph, packed);
    else packed += s->groups * s->width * ph->runs * ph->len;
  }
  if (dots) return PF_OK;
  int64_t panels = TILE(panels_of)(s->j1 - s->j0);
  return pf_parallel(c, panels * s->groups,
                     pf_grain(TILE(channel_size)(s) / s->groups * TILE_NV * VL / 4),
                     TILE(pack_units), s);
}

/* All rows against the slice; the same rows are several tasks where there would be too few. */
static pf_status TILE(run_rows)(pf_ctx *c, TILE(slide) * s) {
  int64_t rows = s->g->n * s->tasks_per_image, units = s->groups * TILE(panels_of)(s->j1 - s->j0);
  int64_t workers = c->host->workers(c), most = workers > 1 ? TASKS_EACH * workers : 1;
  s->parts = TILE(even_parts)(units, (most + rows - 1) / PF_MAX(rows, 1));
  if (TILE(use_dots)(s->groups, s->goc, s->phase[0].len)) s->parts = 1;
  return pf_parallel(c, rows * s->parts, 1, TILE(row_tasks), s);
}

/* Band of source rows of one image -> the padded copy. */
static void TILE(pad_bands)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(slide) *s = arg;
  int64_t top = s->row0(s->g, 0), rows = s->row1(s->g, s->oh - 1) - top + 1;
  int64_t bands = (rows + BAND_ROWS - 1) / BAND_ROWS;
  (void)worker;
  for (int64_t band = lo; band < hi; band++) {
    int64_t image = band / bands, r0 = band % bands * BAND_ROWS;
    const T *src = s->src + s->src_at(s->g, s->image0 + image);
    T *to = s->strips + image * s->strip_size + r0 * s->strip_cols * s->sc;
    pf_copy_strip((const char *)src, s->sh, s->sw, s->sc * (int64_t)sizeof(T), top + r0,
                  PF_MIN(BAND_ROWS, rows - r0), s->strip_w0, s->strip_cols, (char *)to);
  }
}

/* Padded copies of the images in `strips`. */
static pf_status TILE(pad_images)(pf_ctx *c, TILE(slide) * s, int64_t rows) {
  return pf_parallel(c, s->images * ((rows + BAND_ROWS - 1) / BAND_ROWS),
                     pf_grain(BAND_ROWS * s->strip_cols * s->sc), TILE(pad_bands), s);
}

/* The padded source of tasks by rows: a strip for each worker, or, where tasks would copy the same
 * rows again and again (few rows of a filter with large dilations), all images once. */
static pf_status TILE(take_strips)(pf_ctx *c, TILE(slide) * s) {
  const int64_t rows = s->row1(s->g, s->oh - 1) - s->row0(s->g, 0) + 1, row = s->strip_cols * s->sc;
  const int64_t image = (rows * row + 15) / 16 * 16;
  if (s->tasks_per_image * s->strip_rows > 2 * rows &&
      s->g->n * image <= 8 * PADDED_BYTES / (int64_t)sizeof(T))
    s->images = s->g->n;
  s->strip_size = s->images ? image : (s->strip_rows * row + 15) / 16 * 16;
  const int64_t strips = s->images ? s->images : c->host->workers(c);
  s->strips = c->host->scratch(c, (uint64_t)(s->strip_size * strips) * sizeof(T), 64);
  if (!s->strips) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for convolution strips");
  return s->images ? TILE(pad_images)(c, s, rows) : PF_OK;
}

static pf_status TILE(run_by_rows)(pf_ctx *c, TILE(slide) * s) {
  int64_t widest = 0;
  if (s->padded) PF_TRY(TILE(take_strips)(c, s));
  if (s->ready) {
    TILE(next_slice)(s, 0);
    s->phase[0].packed = s->ready;
    return TILE(run_rows)(c, s);
  }
  for (int64_t j = 0; j < s->goc; j = s->j1) {
    TILE(next_slice)(s, j);
    widest = PF_MAX(s->width, widest);
  }
  T *packed = c->host->scratch(c, (uint64_t)(TILE(channel_size)(s) * widest) * sizeof(T), 64);
  if (!packed) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for packed filters");
  for (int64_t j = 0; j < s->goc; j = s->j1) {
    TILE(next_slice)(s, j);
    PF_TRY(TILE(pack_slice)(c, s, packed));
    PF_TRY(TILE(run_rows)(c, s));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- tasks by panels */
/* One panel in phase ph against the patches [t0, t1) of the images at hand. */
static void TILE(run_patches)(const TILE(slide) * s, const TILE(phase) * ph, int64_t i, int64_t j,
                              int64_t t0, int64_t t1, T *buffer) {
  const int nv = TILE(tile_nv)(s->goc, j);
  const int64_t first = s->image0 * s->tasks_per_image;
  int64_t u = 0;
  do {
    int64_t end = PF_MIN(u + ph->block, ph->runs);
    const T *panel = buffer;
    if (s->ready) panel = s->ready + (i * s->width + j) * ph->runs * ph->len;
    else TILE(pack_panel)(s, ph, i, j, nv, u, end, buffer);
    for (int64_t t = t0; t < t1; t++) {
      TILE(patch) p = TILE(open_patch)(s, first + t);
      if (s->padded) p.strip = TILE(strip_of_image)(s, &p, t);
      if (TILE(enter_phase)(&p, ph)) TILE(run_panel)(&p, panel, s->ready ? 0 : u, u, end, i, j, nv);
    }
    u = end;
  } while (u < ph->runs);
}

static void TILE(panel_tasks)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(slide) *s = arg;
  int64_t panels = TILE(panels_of)(s->goc);
  int64_t patches = s->images * s->tasks_per_image;
  for (int64_t task = lo; task < hi; task++) {
    int64_t unit = task / s->parts, part = task % s->parts;
    for (int64_t k = 0; k < s->phases; k++)
      TILE(run_patches)(s, &s->phase[k], unit / panels, unit % panels * (TILE_NV * VL),
                        patches * part / s->parts, patches * (part + 1) / s->parts,
                        s->blocks + worker * s->block_size);
  }
}

static pf_status TILE(take_panel_memory)(pf_ctx *c, TILE(slide) * s, int64_t rows, int64_t most) {
  if (s->padded) {
    s->strip_size = (rows * s->strip_cols * s->sc + 15) / 16 * 16;
    s->strips = c->host->scratch(c, (uint64_t)(s->strip_size * most) * sizeof(T), 64);
    if (!s->strips) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for padded images");
  }
  if (s->ready) return PF_OK;
  for (int64_t k = 0; k < s->phases; k++)
    s->block_size = PF_MAX(s->block_size, s->phase[k].block * s->phase[k].len * TILE_NV * VL);
  s->blocks = c->host->scratch(c, (uint64_t)(s->block_size * c->host->workers(c)) * sizeof(T), 64);
  return s->blocks ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for packed filters");
}

static pf_status TILE(run_by_panels)(pf_ctx *c, TILE(slide) * s) {
  int64_t rows = s->row1(s->g, s->oh - 1) - s->row0(s->g, 0) + 1, n = s->g->n, most = n;
  int64_t image = rows * s->strip_cols * s->sc * (int64_t)sizeof(T);
  int64_t panels = s->groups * TILE(panels_of)(s->goc);
  int64_t tasks = PF_MAX(PANEL_TASKS, TASKS_EACH * c->host->workers(c));
  if (s->padded) most = PF_MIN(PF_MAX(PADDED_BYTES / PF_MAX(image, 1), 1), n);
  PF_TRY(TILE(take_panel_memory)(c, s, rows, most));
  s->width = TILE(panels_width)(s->goc);
  for (s->image0 = 0; s->image0 < n; s->image0 += s->images) {
    s->images = PF_MIN(most, n - s->image0);
    s->parts = TILE(even_parts)(s->images * s->tasks_per_image, (tasks + panels - 1) / panels);
    if (s->padded) PF_TRY(TILE(pad_images)(c, s, rows));
    PF_TRY(pf_parallel(c, panels * s->parts, 1, TILE(panel_tasks), s));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- sizes of tasks */
/* Output rows of a task: a strip of at most STRIP_BYTES, whole periods of the phases, tasks enough
 * for threads. */
static void TILE(size_tasks)(TILE(slide) * s) {
  int64_t period = s->o_step_h, images = PF_MAX(s->g->n, 1);
  int64_t rows = PF_MAX((s->oh + period - 1) / period, 1);
  while (rows > 1) {
    int64_t last = PF_MIN(rows * period, s->oh) - 1;
    int64_t bytes =
        (s->row1(s->g, last) - s->row0(s->g, 0) + 1) * s->strip_cols * s->sc * (int64_t)sizeof(T);
    int64_t tasks = images * ((s->oh + rows * period - 1) / (rows * period));
    if (bytes <= STRIP_BYTES && tasks >= MIN_TASKS) break;
    if (bytes <= STRIP_BYTES && rows * s->ow <= MIN_PIXELS) break;
    rows = (rows + 1) / 2;
  }
  s->rows = rows * period;
  s->tasks_per_image = (s->oh + s->rows - 1) / s->rows;
  for (int64_t t = 0; t < s->tasks_per_image; t++) {
    int64_t r1 = PF_MIN((t + 1) * s->rows, s->oh);
    s->strip_rows = PF_MAX(s->strip_rows, s->row1(s->g, r1 - 1) - s->row0(s->g, t * s->rows) + 1);
  }
}

/* Fewer rows a task, until there are `least` tasks; MIN_PATCH pixels stay together. */
static void TILE(cut_rows)(TILE(slide) * s, int64_t least) {
  const int64_t period = s->o_step_h, images = PF_MAX(s->g->n, 1);
  int64_t rows = s->rows / period;
  while (rows > 1 && images * s->tasks_per_image < least &&
         (rows + 1) / 2 * period * s->ow >= MIN_PATCH) {
    rows = (rows + 1) / 2;
    s->tasks_per_image = (s->oh + rows * period - 1) / (rows * period);
  }
  s->rows = rows * period;
}

/* Runs that are summed at a time: blocks of about PANEL_BYTES of a whole panel, of equal size. */
static void TILE(size_blocks)(TILE(slide) * s) {
  for (int64_t k = 0; k < s->phases; k++) {
    TILE(phase) *ph = &s->phase[k];
    int64_t run = (int64_t)sizeof(T) * TILE_NV * VL * PF_MAX(ph->len, 1);
    int64_t blocks = (ph->runs * run + PANEL_BYTES - 1) / PANEL_BYTES;
    ph->block = PF_MAX((ph->runs + PF_MAX(blocks, 1) - 1) / PF_MAX(blocks, 1), 1);
  }
}

/* By rows, every task reads all filters; by panels, every panel reads the source, once for each
 * row of filters at most.  What stays in L2 costs nothing. */
static int TILE(by_panels)(const TILE(slide) * s) {
  int64_t panels = TILE(panels_of)(s->goc);
  int64_t size = sizeof(T), tasks = s->g->n * s->tasks_per_image;
  int64_t filters = TILE(channel_size)(s) * s->goc * size;
  int64_t source = s->g->n * s->sh * s->sw * s->gsc * size, again = 1;
  if (TILE(use_dots)(s->groups, s->goc, s->phase[0].len) || s->groups * panels < 2) return 0;
  for (int64_t k = 0; k < s->phases; k++)
    again = PF_MAX(again, (s->phase[k].runs + s->phase[k].block - 1) / s->phase[k].block);
  again = PF_MIN(again, s->g->kh);
  double rows = filters > L2_SHARE ? (double)filters * (double)tasks : 0;
  double by = source > L2_SHARE ? (double)source * (double)(again * panels * s->groups) : 0;
  return by < rows;
}

/* Offsets came as (row << 32 | column). */
static void TILE(settle_offsets)(TILE(slide) * s) {
  int64_t pitch = (s->padded ? s->strip_cols : s->sw) * s->sc;
  for (int64_t k = 0; k < s->phases; k++) {
    TILE(phase) *ph = &s->phase[k];
    for (int64_t u = 0; u < ph->runs; u++) {
      ph->row[u] = ph->off[u] >> 32;
      ph->off[u] = ph->row[u] * pitch + (ph->off[u] & 0xffffffff) * s->sc + u % s->pieces * ph->len;
    }
  }
}

static pf_status TILE(run_slide)(pf_ctx *c, TILE(slide) * s) {
  int64_t top = s->row0(s->g, 0), bottom = s->row1(s->g, s->oh - 1);
  TILE(size_tasks)(s);
  const int64_t least = TILE(shares)(c, s->groups, s->goc);
  TILE(cut_rows)(s, least > 1 && s->last_cols ? s->oh : least);
  TILE(size_blocks)(s);
  /* rows beyond the source are left out (useful_runs), columns are not; dots leave out nothing */
  s->padded = s->strip_w0 < 0 || s->strip_w0 + s->strip_cols > s->sw ||
              (TILE(use_dots)(s->groups, s->goc, s->phase[0].len) && (top < 0 || bottom >= s->sh));
  TILE(settle_offsets)(s);
  return TILE(by_panels)(s) ? TILE(run_by_panels)(c, s) : TILE(run_by_rows)(c, s);
}
