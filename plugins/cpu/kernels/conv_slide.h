/* conv_slide.h - forward convolution and the gradient of its input, for the element type of tile.h.
 *
 * Both are the same motion: for groups of output pixels ("phases", one per stride remainder;
 * forward has one), sum runs of source pixels against packed filters.  A task is some output rows
 * of one image: it copies the source rows it needs, padded, into a strip that stays in L2, and
 * every tile of the task reads only the strip.
 *
 * Large filters are packed and used in slices of output channels of about PACK_BYTES, all tasks
 * for each slice: a second copy of a deep layer's filters would be a step's largest buffer.
 */
typedef struct {
  /* source runs of one output pixel, relative to its base; their rows, ascending */
  int64_t runs, len, *off, *row;
  int64_t *at;                         /* filters of the runs */
  /* first output row and column of the phase, relative to the task's */
  int64_t y0, x0;
  T *packed;                           /* of a slice: [group][panel][runs * len][panel width] */
} TILE(phase);

typedef struct {
  const T *src;
  T *out;
  int64_t sh, sw, sc;                  /* source height, width, channels */
  int64_t oh, ow, oc;                  /* output height, width, channels */
  int64_t groups, gsc, goc;            /* channels per group */
  int64_t o_step_h, o_step_w;          /* output step of a phase */
  int64_t s_step_h, s_step_w;          /* source step of one output step */
  int64_t strip_w0, strip_cols, strip_rows;  /* columns wanted; most rows of a strip */
  int64_t (*row0)(const pf_conv *g, int64_t out_row);
  int64_t (*row1)(const pf_conv *g, int64_t out_row);   /* last source row wanted, inclusive */
  const pf_conv *g;
  /* filters of a group at f + group * f_group: element (k, n) of run u at at[u] + k * k_step + n *
   * n_step */
  const T *f;
  int64_t f_group, k_step, n_step;
  int64_t j0, j1;                      /* the slice: channels of each group */
  int64_t rows, tasks_per_image;       /* output rows of a task */
  TILE(phase) *phase;
  int64_t phases;
  T *strips;                           /* one per worker; NULL: the source needs no padding */
  int64_t strip_size;
} TILE(slide);

/* Channels [j0, j1) of filters [k][n] with element (k, n) at f[run_at[u] + i * k_step + n * n_step]
 * -> panels.  n_step or k_step is 1. */
static T *TILE(pack_filters)(const TILE(slide) *s, const TILE(phase) *ph, const T *f, T *p) {
  for (int64_t j = s->j0; j < s->j1;) {
    int nv = TILE(tile_nv)(s->goc, j);
    for (int64_t u = 0; u < ph->runs; u++) {
      if (s->n_step == 1) TILE(pack_rows)(f + ph->at[u], s->k_step, ph->len, s->goc, j, nv, p);
      else TILE(pack_columns)(f + ph->at[u], s->n_step, ph->len, s->goc, j, nv, p);
      p += ph->len * nv * VL;
    }
    j += nv * VL;
  }
  return p;
}
/* All pixels of one phase of one task against one panel, runs [u0, u1). */
typedef struct {
  const TILE(slide) *s;
  const TILE(phase) *ph;
  const T *strip;
  T *image;                            /* output image */
  int64_t pitch;                       /* source elements from row to row of the strip */
  int64_t r0, nrow, ncol;              /* first output row of the task; pixels of the phase */
  int64_t top;                         /* source row of the strip's first */
} TILE(patch);

/* Runs in [u0, u1) that meet the source for some pixel of rows y0 .. y1; the rest would only add
 * zeros. */
PF_INLINE void TILE(useful_runs)(const TILE(patch) *p, int64_t y0, int64_t y1, int64_t *u0,
                                 int64_t *u1) {
  const int64_t *row = p->ph->row, first = p->top + y0 * p->s->s_step_h,
                last = p->top + y1 * p->s->s_step_h;
  while (*u0 < *u1 && last + row[*u0] < 0) ++*u0;
  while (*u0 < *u1 && first + row[*u1 - 1] >= p->s->sh) --*u1;
}

static void TILE(run_panel)(const TILE(patch) *p, const T *panel, int64_t u0, int64_t u1,
                            int64_t src_ch, int64_t dst_ch, int64_t j, int nv) {
  const TILE(slide) *s = p->s;
  const int mr = tile_rows(nv), w = nv * VL;
  const T *a[TILE_MAX_ROWS];
  T *c[TILE_MAX_ROWS];
  TILE(tile) t = {.a = a,
       .c = c,
       .len = p->ph->len,
       .a_step = 1,
       .b_step = w,
       .b_run = p->ph->len * w,
       .cols = (int)PF_MIN(w, s->goc - j),
       .add = u0 > 0};
  int64_t total = p->nrow * p->ncol, x = 0, y = 0;
  const T *src = p->strip + src_ch;
  T *dst = p->image + ((p->r0 + p->ph->y0) * s->ow + p->ph->x0) * s->oc + dst_ch + j;
  for (int64_t at = 0; at < total; at += mr) {
    int64_t y_first = y, v0 = u0, v1 = u1;
    t.rows = (int)PF_MIN(mr, total - at);
    for (int r = 0; r < mr; r++) {
      if (r >= t.rows) {
        a[r] = a[r - 1];
        c[r] = c[r - 1];
        continue;
      }
      a[r] = src + y * s->s_step_h * p->pitch + x * s->s_step_w * s->sc;
      c[r] = dst + (y * s->o_step_h * s->ow + x * s->o_step_w) * s->oc;
      if (++x == p->ncol) x = 0, y++;
    }
    TILE(useful_runs)(p, y_first, y - (x == 0), &v0, &v1);
    t.a_off = p->ph->off + v0;
    t.b = panel + v0 * p->ph->len * w;
    t.runs = v1 - v0;
    TILE(tile_run)(&t, nv);
  }
}

/* ------------------------------------------------- few output channels: sums along the source's */
/* DOTS pixels times one channel: filters [channel][runs * len], vectors along the run. */
static void TILE(dot_pixels)(const TILE(phase) *ph, const T *const *a, const T *f, T *sums) {
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

static void TILE(run_dots)(const TILE(patch) *p) {
  const TILE(slide) *s = p->s;
  const TILE(phase) *ph = p->ph;
  int64_t total = p->nrow * p->ncol, x = 0, y = 0;
  T *dst = p->image + ((p->r0 + ph->y0) * s->ow + ph->x0) * s->oc;
  for (int64_t at = 0; at < total; at += DOTS) {
    const T *a[DOTS];
    T *c[DOTS], sums[DOTS];
    int n = (int)PF_MIN(DOTS, total - at);
    for (int r = 0; r < DOTS; r++) {
      a[r] = p->strip;                 /* unused pixels read something valid */
      if (r >= n) continue;
      a[r] = p->strip + y * s->s_step_h * p->pitch + x * s->s_step_w * s->sc;
      c[r] = dst + (y * s->o_step_h * s->ow + x * s->o_step_w) * s->oc;
      if (++x == p->ncol) x = 0, y++;
    }
    for (int64_t k = 0; k < s->goc; k++) {
      TILE(dot_pixels)(ph, a, ph->packed + k * ph->runs * ph->len, sums);
      for (int r = 0; r < n; r++) c[r][k] = sums[r];
    }
  }
}

/* Dots pay where tiles would leave most of a vector empty and runs fill one. */
static int TILE(use_dots)(int64_t groups, int64_t goc, int64_t len) {
  return groups == 1 && goc <= MAX_DOTS && len >= VL;
}

static T *TILE(pack_dots)(const TILE(slide) *s, const TILE(phase) *ph, T *p) {
  for (int64_t k = 0; k < s->goc; k++)
    for (int64_t u = 0; u < ph->runs; u++)
      for (int64_t i = 0; i < ph->len; i++)
        *p++ = s->f[ph->at[u] + i * s->k_step + k * s->n_step];
  return p;
}

/* The slice's filters of all phases, into `packed`. */
static void TILE(pack_slice)(const TILE(slide) *s, T *packed) {
  for (int64_t k = 0; k < s->phases; k++) {
    TILE(phase) *ph = &s->phase[k];
    ph->packed = packed;
    if (TILE(use_dots)(s->groups, s->goc, ph->len)) packed = TILE(pack_dots)(s, ph, packed);
    else for (int64_t i = 0; i < s->groups; i++)
        packed = TILE(pack_filters)(s, ph, s->f + i * s->f_group, packed);
  }
}

/* Filter elements of one channel in all groups. */
static int64_t TILE(channel_size)(const TILE(slide) *s) {
  int64_t size = 0;
  for (int64_t k = 0; k < s->phases; k++) size += s->phase[k].runs * s->phase[k].len;
  return size * s->groups;
}

/* The slice from j0 on: as many panels as PACK_BYTES hold, one at least.  Returns their width. */
static int64_t TILE(next_slice)(TILE(slide) *s, int64_t j0) {
  int64_t most = PACK_BYTES / (int64_t)sizeof(T) / PF_MAX(TILE(channel_size)(s), 1), width = 0;
  int dots = TILE(use_dots)(s->groups, s->goc, s->phase[0].len);
  s->j0 = s->j1 = j0;
  while (s->j1 < s->goc) {
    int64_t panel = TILE(tile_nv)(s->goc, s->j1) * VL;
    if (width && width + panel > most && !dots) break;
    width += panel;
    s->j1 += panel;
  }
  return width;
}

static void TILE(run_phase)(const TILE(patch) *p) {
  const TILE(slide) *s = p->s;
  const TILE(phase) *ph = p->ph;
  const T *panel = ph->packed;
  if (TILE(use_dots)(s->groups, s->goc, ph->len)) {
    TILE(run_dots)(p);
    return;
  }
  for (int64_t g = 0; g < s->groups; g++) {
    for (int64_t j = s->j0; j < s->j1;) {
      int nv = TILE(tile_nv)(s->goc, j);
      int64_t block = PF_MAX(PANEL_BYTES / ((int64_t)sizeof(T) * nv * VL * PF_MAX(ph->len, 1)), 1),
              u = 0;
      do {
        int64_t end = PF_MIN(u + block, ph->runs);
        TILE(run_panel)(p, panel, u, end, g * s->gsc, g * s->goc, j, nv);
        u = end;
      } while (u < ph->runs);
      panel += ph->runs * ph->len * nv * VL;
      j += nv * VL;
    }
  }
}

static void TILE(slide_tasks)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const TILE(slide) *s = arg;
  for (int64_t task = lo; task < hi; task++) {
    int64_t image = task / s->tasks_per_image, r0 = task % s->tasks_per_image * s->rows;
    int64_t r1 = PF_MIN(r0 + s->rows, s->oh), top = s->row0(s->g, r0);
    const T *src = s->src + image * s->sh * s->sw * s->sc;
    TILE(patch) p = {.s = s, .image = s->out + image * s->oh * s->ow * s->oc, .r0 = r0, .top = top};
    if (s->strips) {
      T *strip = s->strips + worker * s->strip_size;
      pf_copy_strip((const char *)src, s->sh, s->sw, s->sc * (int64_t)sizeof(T), top,
                    s->row1(s->g, r1 - 1) - top + 1, s->strip_w0, s->strip_cols, (char *)strip);
      p.strip = strip;
      p.pitch = s->strip_cols * s->sc;
    } else {
      p.strip = src + (top * s->sw + s->strip_w0) * s->sc;
      p.pitch = s->sw * s->sc;
    }
    for (int64_t k = 0; k < s->phases; k++) {
      p.ph = &s->phase[k];
      if (p.ph->y0 >= r1 - r0 || p.ph->x0 >= s->ow) continue;
      p.nrow = (r1 - r0 - p.ph->y0 + s->o_step_h - 1) / s->o_step_h;
      p.ncol = (s->ow - p.ph->x0 + s->o_step_w - 1) / s->o_step_w;
      TILE(run_phase)(&p);
    }
  }
}

/* Output rows of a task: a strip of at most STRIP_BYTES, whole periods of the phases, tasks enough
 * for threads. */
static void TILE(size_tasks)(TILE(slide) *s) {
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

static void TILE(settle_offsets)(TILE(slide) *s) {  /* they came as (row << 32 | column) */
  int64_t pitch = (s->strips ? s->strip_cols : s->sw) * s->sc;
  for (int64_t k = 0; k < s->phases; k++) {
    TILE(phase) *ph = &s->phase[k];
    for (int64_t u = 0; u < ph->runs; u++) {
      ph->row[u] = ph->off[u] >> 32;
      ph->off[u] = ph->row[u] * pitch + (ph->off[u] & 0xffffffff) * s->sc;
    }
  }
}

static pf_status TILE(run_slide)(pf_ctx *c, TILE(slide) *s) {
  int64_t top = s->row0(s->g, 0), bottom = s->row1(s->g, s->oh - 1);
  TILE(size_tasks)(s);
  if (top < 0 || bottom >= s->sh || s->strip_w0 < 0 || s->strip_w0 + s->strip_cols > s->sw) {
    s->strip_size = (s->strip_rows * s->strip_cols * s->sc + 15) / 16 * 16;
    s->strips =
        c->host->scratch(c, (uint64_t)(s->strip_size * c->host->workers(c)) * sizeof(T), 64);
    if (!s->strips) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for convolution strips");
  }
  TILE(settle_offsets)(s);
  int64_t widest = 0;
  for (int64_t j = 0; j < s->goc; j = s->j1) widest = PF_MAX(TILE(next_slice)(s, j), widest);
  T *packed = c->host->scratch(c, (uint64_t)(TILE(channel_size)(s) * widest) * sizeof(T), 64);
  if (!packed) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for packed filters");
  for (int64_t j = 0; j < s->goc; j = s->j1) {
    TILE(next_slice)(s, j);
    TILE(pack_slice)(s, packed);
    PF_TRY(c->host->parallel_for(c, s->g->n * s->tasks_per_image, 1, TILE(slide_tasks), s));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- forward */
pf_status TILE_NAME(pf_conv_forward)(pf_ctx *c, const pf_conv_call *call) {
  const pf_conv *g = call->g;
  /* a filter row is one run of contiguous source pixels */
  int merge = g->dw == 1 && g->groups == 1;
  int64_t goc = g->oc / g->groups, runs = g->kh * (merge ? 1 : g->kw);
  int64_t *off = c->host->scratch(c, (uint64_t)runs * 24, 64);
  if (!off) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a convolution's offsets");
  TILE(phase) ph = {.runs = runs, .len = merge ? g->kw * g->fc : g->fc, .off = off,
                    .row = off + runs, .at = off + 2 * runs};
  for (int64_t u = 0; u < runs; u++) {
    int64_t kh = merge ? u : u / g->kw, kw = merge ? 0 : u % g->kw;
    off[u] = (kh * g->dh) << 32 | (kw * g->dw);
    ph.at[u] = u * ph.len * g->oc;
  }
  TILE(slide) s = {.src = call->x,
       .out = call->out,
       .sh = g->h,
       .sw = g->w,
       .sc = g->c,
       .oh = g->oh,
       .ow = g->ow,
       .oc = g->oc,
       .groups = g->groups,
       .gsc = g->fc,
       .goc = goc,
       .o_step_h = 1,
       .o_step_w = 1,
       .s_step_h = g->sh,
       .s_step_w = g->sw,
       .strip_w0 = -g->pl,
       .strip_cols = (g->ow - 1) * g->sw + (g->kw - 1) * g->dw + 1,
       .row0 = forward_row0,
       .row1 = forward_row1,
       .g = g,
       .f = call->f,
       .f_group = goc,
       .k_step = g->oc,
       .n_step = 1,
       .phase = &ph,
       .phases = 1};
  return TILE(run_slide)(c, &s);
}

/* ---------------------------------------------------------------- gradient of the input */
/* Phase (y0, x0): input pixels y0 + i * sh, x0 + j * sw.  Only some taps meet them; each tap is in
 * one phase. */
static void TILE(make_phase)(const pf_conv *g, int64_t y0, int64_t x0, TILE(phase) *ph) {
  int64_t runs = 0, top = input_row0(g, 0), left = input_column0(g);
  for (int64_t kh = g->kh - 1; kh >= 0; kh--) {      /* from the last tap: source rows ascend */
    int64_t y = y0 + g->pt - kh * g->dh;
    if (y % g->sh) continue;
    for (int64_t kw = g->kw - 1; kw >= 0; kw--) {
      int64_t x = x0 + g->pl - kw * g->dw;
      if (x % g->sw) continue;
      ph->off[runs] = (y / g->sh - top) << 32 | (x / g->sw - left);
      ph->at[runs++] = (kh * g->kw + kw) * g->fc * g->oc;
    }
  }
  ph->runs = runs;
  ph->len = g->oc / g->groups;
  ph->y0 = y0;
  ph->x0 = x0;
}

pf_status TILE_NAME(pf_conv_input)(pf_ctx *c, const pf_conv_call *call) {
  const pf_conv *g = call->g;
  int64_t goc = g->oc / g->groups, taps = g->kh * g->kw, nx = PF_MIN(g->sw, g->w),
          left = input_column0(g), phases = PF_MIN(g->sh, g->h) * nx;
  TILE(phase) *ph = c->host->scratch(c, (uint64_t)phases * sizeof *ph, 64);
  int64_t *off = c->host->scratch(c, (uint64_t)taps * 24, 64);
  if (!ph || !off)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a convolution's offsets");
  for (int64_t i = 0; i < phases; i++) {
    ph[i] = (TILE(phase)){.off = off, .row = off + taps, .at = off + 2 * taps};
    TILE(make_phase)(g, i / nx, i % nx, &ph[i]);
    off += ph[i].runs;
  }
  TILE(slide) s = {.src = call->dy,
       .out = call->out,
       .sh = g->oh,
       .sw = g->ow,
       .sc = g->oc,
       .oh = g->h,
       .ow = g->w,
       .oc = g->c,
       .groups = g->groups,
       .gsc = goc,
       .goc = g->fc,
       .o_step_h = g->sh,
       .o_step_w = g->sw,
       .s_step_h = 1,
       .s_step_w = 1,
       .strip_w0 = left,
       .strip_cols = pf_floor_div(g->w - 1 + g->pl, g->sw) - left + 1,
       .row0 = input_row0,
       .row1 = input_row1,
       .g = g,
       .f = call->f,
       .f_group = goc,
       .k_step = 1,
       .n_step = g->oc,
       .phase = ph,
       .phases = phases};
  return TILE(run_slide)(c, &s);
}
