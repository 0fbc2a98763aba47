/* conv_pass.h - forward convolution and the gradient of its input as slides (conv_slide.h), for the
 * element type of tile_begin.h.
 */
/* ---------------------------------------------------------------- forward */
/* Pieces of equal size that cut a run of `len` down to MAX_RUN; 1 where none are equal. */
static int64_t TILE(run_pieces)(int64_t len) {
  for (int64_t n = (len + MAX_RUN - 1) / MAX_RUN; n <= 16 && n * 32 <= len; n++)
    if (len % n == 0) return n;
  return 1;
}

/* Runs of source pixels: a filter row is one run of contiguous ones. */
static pf_status TILE(forward_runs)(pf_ctx *c, const pf_conv *g, TILE(phase) * ph,
                                    int64_t *pieces) {
  int merge = g->dw == 1 && g->groups == 1;
  int64_t len = merge ? g->kw * g->fc : g->fc;
  *pieces = TILE(use_dots)(g->groups, g->oc / g->groups, len) ? 1 : TILE(run_pieces)(len);
  int64_t runs = g->kh * (merge ? 1 : g->kw) * *pieces;
  int64_t *off = c->host->scratch(c, (uint64_t)runs * 24, 64);
  if (!off) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a convolution's offsets");
  *ph = (TILE(phase)){
    .runs = runs, .len = len / *pieces, .off = off, .row = off + runs, .at = off + 2 * runs};
  for (int64_t u = 0; u < runs; u++) {
    int64_t tap = u / *pieces, kh = merge ? tap : tap / g->kw, kw = merge ? 0 : tap % g->kw;
    off[u] = (kh * g->dh) << 32 | (kw * g->dw);
    ph->at[u] = u * ph->len * g->oc;
  }
  return PF_OK;
}

pf_status TILE_NAME(pf_conv_forward)(pf_ctx *c, const pf_conv_call *call) {
  if (call->fewer) return PF_ISA_NAME(pf_winograd_forward)(c, call, call->fewer);
  pf_conv flat = *call->g;
  const pf_conv *g = &flat;
  int64_t last_cols = 0, pieces;
  TILE(phase) ph;
  if (!TILE(use_dots)(g->groups, g->oc, g->fc))
    last_cols =
        pf_conv_flatten(call->g, row_max(TILE_NV), TILE(shares)(c, g->groups, g->oc / g->groups),
                        c->host->workers(c), &flat);
  PF_TRY(TILE(forward_runs)(c, g, &ph, &pieces));
  int64_t goc = g->oc / g->groups;
  TILE(slide)
  s = {.src = call->x,
       .out = call->out,
       .sh = g->h,
       .sw = g->w,
       .sc = g->c,
       .oh = g->oh,
       .ow = g->ow,
       .oc = g->oc,
       .src_at = pf_conv_x_at,
       .out_at = pf_conv_y_at,
       .add = call->add,
       .last_cols = last_cols,
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
       .ready = call->packed,
       .after = call->after,
       .phase = &ph,
       .phases = 1,
       .pieces = pieces};
  return TILE(run_slide)(c, &s);
}

/* Filters of a call with g's sizes, packed: element type T. */
int64_t TILE_NAME(pf_conv_packed_size)(const pf_conv *g) {
  int64_t goc = g->oc / g->groups, k = g->kh * g->kw * g->fc;
  if (TILE(use_dots)(g->groups, goc, g->kw * g->fc) || TILE(use_dots)(g->groups, goc, g->fc))
    return 0;
  return g->groups * TILE(panels_width)(goc) * k;
}
void TILE_NAME(pf_conv_pack)(const pf_conv *g, const void *f, void *packed) {
  int64_t goc = g->oc / g->groups, k = g->kh * g->kw * g->fc;
  T *p = packed;
  for (int64_t i = 0; i < g->groups; i++)
    for (int64_t j = 0; j < goc; j += TILE_NV * VL) {
      int nv = TILE(tile_nv)(goc, j);
      TILE(pack_rows)((const T *)f + i * goc, g->oc, k, goc, j, nv, p);
      p += k * nv * VL;
    }
}

/* ---------------------------------------------------------------- gradient of the input */
/* Phase (y0, x0): input pixels y0 + i * sh, x0 + j * sw.  Only some taps meet them; each tap is in
 * one phase. */
static void TILE(make_phase)(const pf_conv *g, int64_t y0, int64_t x0, int64_t pieces,
                             TILE(phase) * ph) {
  int64_t runs = 0, top = input_row0(g, 0), left = input_column0(g);
  for (int64_t kh = g->kh - 1; kh >= 0; kh--) { /* from the last tap: source rows ascend */
    int64_t y = y0 + g->pt - kh * g->dh;
    if (y % g->sh) continue;
    for (int64_t kw = g->kw - 1; kw >= 0; kw--) {
      int64_t x = x0 + g->pl - kw * g->dw;
      if (x % g->sw) continue;
      for (int64_t q = 0; q < pieces; q++) {
        ph->off[runs] = (y / g->sh - top) << 32 | (x / g->sw - left);
        ph->at[runs++] = (kh * g->kw + kw) * g->fc * g->oc + q * ph->len;
      }
    }
  }
  ph->runs = runs;
  ph->y0 = y0;
  ph->x0 = x0;
}

pf_status TILE_NAME(pf_conv_input)(pf_ctx *c, const pf_conv_call *call) {
  pf_conv flat = *call->g;
  const pf_conv *g = &flat;
  int64_t last_cols = 0;
  if (!TILE(use_dots)(g->groups, g->fc, g->oc))
    last_cols = pf_conv_flatten(call->g, row_max(TILE_NV), TILE(shares)(c, g->groups, g->fc),
                                c->host->workers(c), &flat);
  int64_t goc = g->oc / g->groups, nx = PF_MIN(g->sw, g->w), left = input_column0(g),
          phases = PF_MIN(g->sh, g->h) * nx;
  int64_t pieces = TILE(use_dots)(g->groups, g->fc, goc) ? 1 : TILE(run_pieces)(goc);
  int64_t taps = g->kh * g->kw * pieces;
  TILE(phase) *ph = c->host->scratch(c, (uint64_t)phases * sizeof *ph, 64);
  int64_t *off = c->host->scratch(c, (uint64_t)taps * 24, 64);
  if (!ph || !off)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a convolution's offsets");
  for (int64_t i = 0; i < phases; i++) {
    ph[i] = (TILE(phase)){.off = off, .row = off + taps, .at = off + 2 * taps, .len = goc / pieces};
    TILE(make_phase)(g, i / nx, i % nx, pieces, &ph[i]);
    off += ph[i].runs;
  }
  TILE(slide)
  s = {.src = call->dy,
       .out = call->out,
       .sh = g->oh,
       .sw = g->ow,
       .sc = g->oc,
       .oh = g->h,
       .ow = g->w,
       .oc = g->c,
       .src_at = pf_conv_y_at,
       .out_at = pf_conv_x_at,
       .add = call->add,
       .last_cols = last_cols,
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
       .phases = phases,
       .pieces = pieces};
  return TILE(run_slide)(c, &s);
}
