/* conv_layout.c - Conv2D, its gradients and its fused form: checks, data formats, halves, and
 * constant filters.
 *
 * Invariants
 *   1. Those of conv_operands.h.
 *   2. A constant filter is packed by init, as for one group, and dropped; that form also holds the
 *      filter for calls with more groups, whose own form is packed by the first such call.
 * Threads: compute is concurrent; the passes use parallel_for; forms made by calls are
 * published once, by compare-and-swap.
 */
#include <strings.h>
#include "base/packed.h"
#include "conv/conv_cost.h"
#include "conv/conv_operands.h"

/* ---------------------------------------------------------------- constant filters */
typedef struct {
  int64_t groups;
  pf_packed packed;
} grouped_filter;
typedef struct { pf_packed packed; } fewer_filter;
typedef struct kept_filter {
  int64_t dims[4];
  pf_packed packed;        /* float or double, groups 1 */
  grouped_filter *grouped; /* atomic, as the next; NULL at first */
  fewer_filter *fewer;     /* for 3x3 filters by fewer products */
} kept_filter;

static int64_t packed_size(const pf_window *s, const pf_conv *g) {
  return s->T == PF_FLOAT64 ? PF_ISA_NAME(pf_conv_packed_size_f64)(g)
                            : PF_ISA_NAME(pf_conv_packed_size_f32)(g);
}
/* 0: it does not pay, or there is no memory. */
static int pack_filter(const pf_window *s, const pf_conv *g, const void *f, pf_packed *p) {
  int64_t bytes = packed_size(s, g) * (s->T == PF_FLOAT64 ? 8 : 4);
  if (!bytes || !pf_packed_new(p, (uint64_t)bytes)) return 0;
  if (s->T == PF_FLOAT64) PF_ISA_NAME(pf_conv_pack_f64)(g, f, p->at);
  else PF_ISA_NAME(pf_conv_pack_f32)(g, f, p->at);
  return 1;
}

/* PYFLOW_CPU_WINOGRAD, read once: 0, false, no or off keep sums plain. */
static int fewer_wanted(void) {
  static int known; /* 1: no, 2: yes */
  int wanted = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (!wanted) {
    const char *v = getenv("PYFLOW_CPU_WINOGRAD");
    wanted = v && (strchr("0nNfF", *v) || !strcasecmp(v, "off")) ? 1 : 2;
    __atomic_store_n(&known, wanted, __ATOMIC_RELAXED);
  }
  return wanted == 2;
}

/* 3x3 filters whose products may be fewer, once the image's size is known. */
static int may_take_fewer(const pf_window *s, const pf_conv *g) {
  return g->kh == 3 && g->kw == 3 && s->sh == 1 && s->sw == 1 && s->dh == 1 && s->dw == 1 &&
         fewer_wanted();
}

static void filter_free(void *filter) {
  kept_filter *kept = filter;
  if (kept->grouped) pf_packed_free(&kept->grouped->packed);
  if (kept->fewer) pf_packed_free(&kept->fewer->packed);
  pf_packed_free(&kept->packed);
  free(kept->grouped);
  free(kept->fewer);
  free(kept);
}
static const pf_type filter_type = {sizeof(pf_type), 0, "pyflow.cpu.filter " PF_ISA_TEXT,
                                    filter_free, NULL};

typedef struct {
  const pf_window *s;
  const pf_conv *g;
  const DLTensor *t;
} filter_source;

static pf_status filter_make(pf_ctx *c, void *arg, void **obj) {
  const filter_source *from = arg;
  const void *f = PF_DATA(const void, from->t);
  kept_filter *kept = calloc(1, sizeof *kept);
  float *wide = NULL;
  (void)c;
  if (kept && pf_is_half(from->s->T)) {
    wide = malloc((size_t)pf_numel(from->t) * 4);
    if (wide) pf_half_to_float(from->s->T, f, wide, pf_numel(from->t));
    f = wide;
  }
  const int made = kept && f && pack_filter(from->s, from->g, f, &kept->packed);
  free(wide);
  if (!made) {
    free(kept);
    return PF_RESOURCE_EXHAUSTED;
  }
  memcpy(kept->dims, from->t->shape, sizeof kept->dims);
  *obj = kept;
  return PF_OK;
}

/* Takes input 1 packed if it is a constant whose packed form pays.  No memory: it stays as it
 * is. */
static pf_status keep_filter(pf_ctx *c, conv_state *s) {
  const DLTensor *t = c->host->constant(c, 1);
  if (!t || t->ndim != 4 || pf_numel(t) == 0) return PF_OK;
  pf_conv g = {.kh = t->shape[0],
               .kw = t->shape[1],
               .fc = t->shape[2],
               .oc = t->shape[3],
               .c = t->shape[2],
               .dh = s->w.dh,
               .dw = s->w.dw,
               .groups = 1};
  if (PF_ISA_NAME(pf_conv_in_pairs)(s->w.T, &g) && !may_take_fewer(&s->w, &g)) return PF_OK;
  if (s->w.nchw && g.kh * g.kw == 1 && s->w.sh == 1 && s->w.sw == 1) return PF_OK;
  if (!packed_size(&s->w, &g)) return PF_OK;
  filter_source from = {&s->w, &g, t};
  void *kept;
  const pf_status st = pf_share(c, 1, "", &filter_type, filter_make, &from, &kept);
  if (st) return st == PF_DECLINE ? PF_OK : st;
  s->kept = kept;
  return c->host->drop_constant(c, 1);
}

static pf_status conv_init(pf_ctx *c, void *state) {
  PF_TRY(fused_init(c, state));
  return keep_filter(c, state);
}
static pf_status gradient_init(pf_ctx *c, void *state) { return pf_window_init(c, state); }

/* f [kh, kw, fc, oc] again from its packed form. */
static const void *unpacked(pf_ctx *c, const pf_window *s, const kept_filter *kept) {
  int64_t size = s->T == PF_FLOAT64 ? 8 : 4, w = TILE_NV * (s->T == PF_FLOAT64 ? PF_VD : PF_VF);
  int64_t lanes = w / TILE_NV, oc = kept->dims[3];
  int64_t k = kept->dims[0] * kept->dims[1] * kept->dims[2];
  char *f = c->host->scratch(c, (uint64_t)(k * oc * size), 64);
  if (!f) return NULL;
  for (int64_t j = 0; j < oc; j += w) {
    int64_t cols = PF_MIN(w, oc - j), width = (cols + lanes - 1) / lanes * lanes;
    const char *p = (const char *)kept->packed.at + j * k * size;
    for (int64_t i = 0; i < k; i++)
      memcpy(f + (i * oc + j) * size, p + i * width * size, (size_t)(cols * size));
  }
  return f;
}

/* 3x3 filters by fewer products: the transformed ones.  NULL: does not pay, or no memory. */
static const float *fewer_products(pf_ctx *c, const pf_window *s, kept_filter *kept,
                                   const pf_conv *g) {
  fewer_filter *mine, *found = __atomic_load_n(&kept->fewer, __ATOMIC_ACQUIRE);
  if (s->T == PF_FLOAT64 || !PF_ISA_NAME(pf_winograd_pays)(g) || !fewer_wanted()) return NULL;
  if (found) return found->packed.at;
  const float *f = unpacked(c, s, kept);
  if (!f || !(mine = calloc(1, sizeof *mine))) return NULL;
  if (!pf_packed_new(&mine->packed, (uint64_t)PF_ISA_NAME(pf_winograd_size)(g) * 4)) {
    free(mine);
    return NULL;
  }
  PF_ISA_NAME(pf_winograd_pack)(g, f, mine->packed.at);
  if (__atomic_compare_exchange_n(&kept->fewer, &found, mine, 0, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE))
    return mine->packed.at;
  pf_packed_free(&mine->packed);
  free(mine);
  return found->packed.at;
}

/* The kept filter in the form this call needs: packed, or plain where that does not pay. */
static pf_status kept_operand(pf_ctx *c, const pf_window *s, kept_filter *kept, const pf_conv *g,
                              pf_conv_call *call) {
  if (g->groups == 1) {
    call->packed = kept->packed.at;
    call->fewer = fewer_products(c, s, kept, g);
    return PF_OK;
  }
  grouped_filter *mine, *found = __atomic_load_n(&kept->grouped, __ATOMIC_ACQUIRE);
  if (found && found->groups == g->groups) {
    call->packed = found->packed.at;
    return PF_OK;
  }
  call->f = unpacked(c, s, kept);
  if (!call->f) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a filter");
  if (found || !(mine = calloc(1, sizeof *mine))) return PF_OK;
  mine->groups = g->groups;
  if (pack_filter(s, g, call->f, &mine->packed) &&
      __atomic_compare_exchange_n(&kept->grouped, &found, mine, 0, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    call->packed = mine->packed.at;
    return PF_OK;
  }
  pf_packed_free(&mine->packed);
  free(mine);
  return PF_OK;
}

/* ---------------------------------------------------------------- kernels */
/* An epilogue over operands as they are: `rows` are channels, or columns. */
static pf_status plain_after(pf_ctx *c, const pf_fused *f, const result *r, int rows,
                             pf_conv_call *call, pf_epilogue *e) {
  *e = (pf_epilogue){.act = f->act, .alpha = f->alpha};
  PF_TRY(fused_check(c, f, r));
  if (f->bias) *(rows ? &e->row_bias : &e->col_bias) = PF_DATA(const void, c->in[2]);
  if (f->add) e->side = PF_DATA(const void, c->in[2 + f->bias]);
  if (e->act || f->bias || f->add) call->after = e;
  return PF_OK;
}

/* 1x1 filters over NCHW as it lies. */
static int in_planes(const pf_window *s, const pf_conv *g, const kept_filter *kept) {
  return s->nchw && !kept && g->h * g->w > 1 && PF_ISA_NAME(pf_conv_is_planes)(g);
}
static pf_status conv2d_in_planes(pf_ctx *c, const conv_state *cs, pf_conv_call *call, result *r) {
  pf_epilogue e;
  PF_TRY(plain_after(c, &cs->fused, r, 1, call, &e));
  call->x = PF_DATA(const void, c->in[0]), call->f = PF_DATA(const void, c->in[1]);
  call->out = PF_DATA(void, r->t);
  return PF_ISA_NAME(pf_conv_forward_planes)(c, call, cs->w.T);
}

/* What is left to the float pass: a kept filter, and a sum in another layout than the result's. */
static int forward_in_pairs(const conv_state *cs, const pf_conv *g, const result *r) {
  return PF_ISA_NAME(pf_conv_in_pairs)(cs->w.T, g) && !cs->kept &&
         !(cs->fused.add && is_turned(&cs->w, r));
}
static pf_status conv2d_in_pairs(pf_ctx *c, const conv_state *cs, pf_conv_call *call, result *r) {
  pf_epilogue e;
  PF_TRY(plain_after(c, &cs->fused, r, 0, call, &e));
  call->f = PF_DATA(const void, c->in[1]);
  PF_TRY(load_halves(c, &cs->w, c->in[0], call->g->h * call->g->w, call->g->c, &call->x));
  return run_halves(c, &cs->w, PF_ISA_NAME(pf_conv_forward_pairs), call, r);
}

/* A group a channel: [kh, kw, 1, c * m] lies as the depthwise filter [kh, kw, c, m] does. */
static int is_depthwise(const pf_conv *g) {
  return g->fc == 1 && g->groups > 1 && g->groups == g->c;
}
static pf_status conv2d_depthwise(pf_ctx *c, const conv_state *cs, const pf_conv *g) {
  const int64_t dims[4] = {g->kh, g->kw, g->c, g->oc / g->c};
  const void *f = cs->kept ? unpacked(c, &cs->w, cs->kept) : NULL;
  if (cs->kept && !f) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a filter");
  return PF_ISA_NAME(pf_depthwise)(c, cs, dims, f);
}

static pf_status conv2d(pf_ctx *c, const void *state) {
  const conv_state *cs = state;
  const pf_window *s = &cs->w;
  const DLTensor *x = c->in[0], *f = c->in[1];
  int64_t xd[4] = {0}, shape[4];
  pf_epilogue after[2];
  pf_conv g;
  PF_TRY(pf_window_dims(c, s, x->shape, x->ndim, "input", xd));
  if (!cs->kept) PF_TRY(filter_dims(c, f->shape, f->ndim));
  PF_TRY(conv_sizes(c, s, xd, cs->kept ? cs->kept->dims : f->shape, &g));
  if (is_depthwise(&g)) return conv2d_depthwise(c, cs, &g);
  pf_window_shape(s, g.n, g.oh, g.ow, g.oc, shape);
  result r = {
    .t = pf_output_checked(c, 0, shape, 4), .pixels = g.oh * g.ow, .ch = g.oc, .image = 1};
  PF_EXHAUSTED(r.t);
  pf_conv_lay_down(&g);
  pf_conv_call call = {.g = &g};
  if (pf_numel(r.t) && pf_numel(x)) {
    if (in_planes(s, &g, cs->kept)) return conv2d_in_planes(c, cs, &call, &r);
    if (forward_in_pairs(cs, &g, &r)) return conv2d_in_pairs(c, cs, &call, &r);
  }
  PF_TRY(fused_after(c, cs, &call, &r, after));
  if (pf_numel(r.t) == 0 || pf_numel(x) == 0) return nothing_summed(c, cs, &call, &r);
  PF_TRY(load(c, s, x, g.h * g.w, g.c, 1, &call.x));
  if (cs->kept) PF_TRY(kept_operand(c, s, cs->kept, &g, &call));
  else PF_TRY(load(c, s, f, 0, 0, 0, &call.f));
  return run_pass(c, s, FORWARD, &call, &r);
}

static pf_status conv2d_backprop_input(pf_ctx *c, const void *state) {
  const pf_window *s = state;
  const DLTensor *f = c->in[1], *dy = c->in[2];
  int64_t shape[PF_MAX_DIMS], xd[4] = {0};
  pf_conv g;
  PF_TRY(sizes_input(c, 0, "input_sizes", shape));
  PF_TRY(filter_dims(c, f->shape, f->ndim));
  PF_TRY(pf_window_dims(c, s, shape, 4, "input_sizes", xd));
  PF_TRY(conv_sizes(c, s, xd, f->shape, &g));
  PF_TRY(check_dy(c, s, &g));
  if (!s->nchw) pf_conv_fold_width(&g);
  pf_conv_lay_down(&g);
  result r = {.t = pf_output_checked(c, 0, shape, 4), .pixels = g.h * g.w, .ch = g.c, .image = 1};
  PF_EXHAUSTED(r.t);
  if (pf_numel(r.t) == 0 || pf_numel(dy) == 0) return zeros(r.t, s->T);
  pf_conv_call call = {.g = &g};
  if (in_planes(s, &g, NULL)) {
    call.dy = PF_DATA(const void, dy), call.f = PF_DATA(const void, f);
    call.out = PF_DATA(void, r.t);
    return PF_ISA_NAME(pf_conv_input_planes)(c, &call, s->T);
  }
  if (PF_ISA_NAME(pf_conv_input_in_pairs)(s->T, &g)) {
    call.f = PF_DATA(const void, f);
    PF_TRY(load_halves(c, s, dy, g.oh * g.ow, g.oc, &call.dy));
    return run_halves(c, s, PF_ISA_NAME(pf_conv_input_pairs), &call, &r);
  }
  PF_TRY(load(c, s, dy, g.oh * g.ow, g.oc, 1, &call.dy));
  PF_TRY(load(c, s, f, 0, 0, 0, &call.f));
  return run_pass(c, s, INPUT, &call, &r);
}

static pf_status conv2d_backprop_filter(pf_ctx *c, const void *state) {
  const pf_window *s = state;
  const DLTensor *x = c->in[0], *dy = c->in[2];
  int64_t shape[PF_MAX_DIMS], xd[4] = {0};
  pf_conv g;
  PF_TRY(sizes_input(c, 1, "filter_sizes", shape));
  PF_TRY(pf_window_dims(c, s, x->shape, x->ndim, "input", xd));
  PF_TRY(conv_sizes(c, s, xd, shape, &g));
  PF_TRY(check_dy(c, s, &g));
  if (!s->nchw) pf_conv_fold_width(&g);
  pf_conv_lay_down(&g);
  result r = {.t = pf_output_checked(c, 0, shape, 4)};
  PF_EXHAUSTED(r.t);
  if (pf_numel(r.t) == 0 || pf_numel(dy) == 0 || pf_numel(x) == 0) return zeros(r.t, s->T);
  pf_conv_call call = {.g = &g};
  if (in_planes(s, &g, NULL)) {
    call.x = PF_DATA(const void, x), call.dy = PF_DATA(const void, dy);
    call.out = PF_DATA(void, r.t);
    const pf_status done = PF_ISA_NAME(pf_conv_filter_planes)(c, &call, s->T);
    if (done != PF_DECLINE) return done;
  }
  if (!s->nchw && PF_ISA_NAME(pf_conv_is_planes)(&g)) {
    call.x = PF_DATA(const void, x), call.dy = PF_DATA(const void, dy);
    call.out = PF_DATA(void, r.t);
    const pf_status done = PF_ISA_NAME(pf_conv_filter_pixels)(c, &call, s->T);
    if (done != PF_DECLINE) return done;
  }
  if (PF_ISA_NAME(pf_conv_in_pairs)(s->T, &g)) {
    PF_TRY(load_halves(c, s, x, g.h * g.w, g.c, &call.x));
    PF_TRY(load_halves(c, s, dy, g.oh * g.ow, g.oc, &call.dy));
    return run_halves(c, s, PF_ISA_NAME(pf_conv_filter_pairs), &call, &r);
  }
  PF_TRY(load(c, s, x, g.h * g.w, g.c, 1, &call.x));
  PF_TRY(load(c, s, dy, g.oh * g.ow, g.oc, 1, &call.dy));
  return run_pass(c, s, FILTER, &call, &r);
}

#define ENTRY(op, fn, cost_) PF_CPU_FLAGS(op, "T=" PF_FLOATS, CONV_FLAGS, \
  .attrs = PF_ATTRS(WINDOW_ATTRS), .state_size = sizeof(pf_window), .init = gradient_init, \
  .compute = fn, .cost = cost_)
#define FORWARD_ENTRY(op) PF_CPU_FLAGS(op, "T=" PF_FLOATS, CONV_FLAGS, \
  .attrs = PF_ATTRS(WINDOW_ATTRS, FUSED_ATTRS), .state_size = sizeof(conv_state), \
  .init = conv_init, .compute = conv2d, .cost = pf_conv_cost)
const pf_kernel *const PF_ISA_NAME(conv_layout_kernels)[] = {
  FORWARD_ENTRY("Conv2D"), FORWARD_ENTRY("_FusedConv2D"),
  ENTRY("Conv2DBackpropInput", conv2d_backprop_input, pf_input_cost),
  ENTRY("Conv2DBackpropFilter", conv2d_backprop_filter, pf_filter_cost), NULL};
