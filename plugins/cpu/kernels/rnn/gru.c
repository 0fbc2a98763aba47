/* gru.c - GRUBlockCell and its gradient: a GRU's step as one kernel.
 *
 * Invariants
 *   1. w_ru is [inputs + cells, 2 cells], columns r then u; w_c is [inputs + cells, cells].
 *   2. h = u h_prev + (1 - u) c, with c = tanh([x, r h_prev] w_c + b_c).
 * Threads: parallel_for over rows of the batch and over parts of products.
 */
#include "rnn/rnn_step.h"
#include "vec/vmath.h"

typedef struct { int32_t T; } gru_state;
typedef struct {
  int64_t batch, inputs, cells;
  const float *x, *h_prev, *w_ru, *w_c, *b_ru, *b_c;
  float *r, *u, *c, *h, *gates, *reset; /* reset: r h_prev */
} gru;

static pf_status gru_sizes(pf_ctx *c, gru *p) {
  const DLTensor *x = c->in[0], *h = c->in[1];
  if (x->ndim != 2) return PF_INVALID(c, "x must be a matrix, got shape %s", PF_SHAPE(x).s);
  if (h->ndim != 2) return PF_INVALID(c, "h_prev must be a matrix, got shape %s", PF_SHAPE(h).s);
  *p = (gru){.batch = x->shape[0], .inputs = x->shape[1], .cells = h->shape[1]};
  int64_t rows, two;
  if (__builtin_add_overflow(p->inputs, p->cells, &rows) || !pf_mul(p->cells, 2, &two))
    return PF_INVALID(c, "cell size %" PRId64 " is too large", p->cells);
  int64_t state[2] = {p->batch, p->cells}, ru[2] = {rows, two}, wc[2] = {rows, p->cells};
  PF_TRY(rnn_want(c, 1, "h_prev", 2, state));
  PF_TRY(rnn_want(c, 2, "w_ru", 2, ru));
  PF_TRY(rnn_want(c, 3, "w_c", 2, wc));
  PF_TRY(rnn_want(c, 4, "b_ru", 1, &two));
  return rnn_want(c, 5, "b_c", 1, &p->cells);
}

static void gru_inputs(rnn_io *io, gru *p) {
  p->x = rnn_in(io, 0);
  p->h_prev = rnn_in(io, 1);
  p->w_ru = rnn_in(io, 2);
  p->w_c = rnn_in(io, 3);
  p->b_ru = rnn_in(io, 4);
  p->b_c = rnn_in(io, 5);
}

/* out [batch, n] = bias + x w[:inputs] + state w[inputs:] */
static pf_status gru_layer(rnn_io *io, const gru *p, const float *state, const float *w,
                           const float *bias, int64_t n, float *out) {
  for (int64_t r = 0; r < p->batch; r++) memcpy(out + r * n, bias, (size_t)n * 4);
  PF_TRY(rnn_multiply(io, (rnn_product){.m = p->batch,
                                        .n = n,
                                        .k = p->inputs,
                                        .a = p->x,
                                        .lda = p->inputs,
                                        .b = w,
                                        .ldb = n,
                                        .c = out,
                                        .ldc = n,
                                        .add = 1}));
  return rnn_multiply(io, (rnn_product){.m = p->batch,
                                        .n = n,
                                        .k = p->cells,
                                        .a = state,
                                        .lda = p->cells,
                                        .b = w + p->inputs * n,
                                        .ldb = n,
                                        .c = out,
                                        .ldc = n,
                                        .add = 1});
}

static void gate_rows(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const gru *p = arg;
  const int64_t n = p->cells;
  (void)worker;
  for (int64_t row = lo; row < hi; row++) {
    const float *g = p->gates + row * 2 * n, *before = p->h_prev + row * n;
    float *r = p->r + row * n, *u = p->u + row * n, *reset = p->reset + row * n;
    for (int64_t k = 0; k < n; k++) r[k] = pf_sigmoid_f32(g[k]);
    for (int64_t k = 0; k < n; k++) u[k] = pf_sigmoid_f32(g[n + k]);
    for (int64_t k = 0; k < n; k++) reset[k] = r[k] * before[k];
  }
}
static void state_rows(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const gru *p = arg;
  (void)worker;
  for (int64_t k = lo * p->cells; k < hi * p->cells; k++) {
    p->c[k] = pf_tanh_f32(p->c[k]);
    p->h[k] = p->u[k] * p->h_prev[k] + (1 - p->u[k]) * p->c[k];
  }
}

static pf_status gru_cell(pf_ctx *c, const void *state) {
  gru p;
  PF_TRY(gru_sizes(c, &p));
  rnn_io io = {.c = c, .type = ((const gru_state *)state)->T};
  int64_t shape[2] = {p.batch, p.cells}, n = p.batch * p.cells, grain = pf_grain(20 * p.cells);
  PF_EXHAUSTED(p.r = rnn_out(&io, 0, shape, 2));
  PF_EXHAUSTED(p.u = rnn_out(&io, 1, shape, 2));
  PF_EXHAUSTED(p.c = rnn_out(&io, 2, shape, 2));
  PF_EXHAUSTED(p.h = rnn_out(&io, 3, shape, 2));
  if (n == 0) return PF_OK;
  gru_inputs(&io, &p);
  PF_EXHAUSTED(p.gates = rnn_scratch(c, 3 * n));
  p.reset = p.gates + 2 * n;
  PF_TRY(gru_layer(&io, &p, p.h_prev, p.w_ru, p.b_ru, 2 * p.cells, p.gates));
  PF_TRY(pf_parallel(c, p.batch, grain, gate_rows, &p));
  PF_TRY(gru_layer(&io, &p, p.reset, p.w_c, p.b_c, p.cells, p.c));
  return pf_parallel(c, p.batch, grain, state_rows, &p);
}

/* ---------------------------------------------------------------- gradient */
typedef struct {
  gru p;
  const float *r, *u, *c, *dh;
  float *dx, *dh_prev, *dc, *dru, *dreset;
} gru_back;

static void candidate_rows(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const gru_back *b = arg;
  const int64_t n = b->p.cells;
  (void)worker;
  for (int64_t row = lo; row < hi; row++)
    for (int64_t k = 0; k < n; k++) {
      int64_t at = row * n + k;
      float u = b->u[at], c = b->c[at], dh = b->dh[at];
      b->dc[at] = dh * (1 - u) * (1 - c * c);
      b->dru[row * 2 * n + n + k] = dh * (b->p.h_prev[at] - c) * u * (1 - u);
    }
}
static void reset_rows(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const gru_back *b = arg;
  const int64_t n = b->p.cells;
  (void)worker;
  for (int64_t row = lo; row < hi; row++)
    for (int64_t k = 0; k < n; k++) {
      int64_t at = row * n + k;
      float r = b->r[at], d = b->dreset[at];
      b->dru[row * 2 * n + k] = d * b->p.h_prev[at] * r * (1 - r);
      b->dh_prev[at] = d * r + b->dh[at] * b->u[at];
    }
}

/* dx (+)= d w[:inputs]^T; dstate (+)= d w[inputs:]^T */
static pf_status gru_layer_back(rnn_io *io, const gru *p, const float *d, const float *w, int64_t n,
                                float *dx, float *dstate, int add_x, int add_state) {
  PF_TRY(rnn_multiply(io, (rnn_product){.m = p->batch,
                                        .n = p->inputs,
                                        .k = n,
                                        .a = d,
                                        .lda = n,
                                        .b = w,
                                        .ldb = n,
                                        .tb = 1,
                                        .c = dx,
                                        .ldc = p->inputs,
                                        .add = add_x}));
  return rnn_multiply(io, (rnn_product){.m = p->batch,
                                        .n = p->cells,
                                        .k = n,
                                        .a = d,
                                        .lda = n,
                                        .b = w + p->inputs * n,
                                        .ldb = n,
                                        .tb = 1,
                                        .c = dstate,
                                        .ldc = p->cells,
                                        .add = add_state});
}

static pf_status gru_cell_grad(pf_ctx *c, const void *state) {
  static const char *const names[] = {"r", "u", "c", "d_h"};
  gru_back b = {.r = NULL};
  gru *p = &b.p;
  PF_TRY(gru_sizes(c, p));
  int64_t shape[2] = {p->batch, p->cells}, x[2] = {p->batch, p->inputs},
          ru[2] = {p->batch, 2 * p->cells}, grain = pf_grain(12 * p->cells);
  for (int i = 0; i < 4; i++) PF_TRY(rnn_want(c, 6 + i, names[i], 2, shape));
  rnn_io io = {.c = c, .type = ((const gru_state *)state)->T};
  PF_EXHAUSTED(b.dx = rnn_out(&io, 0, x, 2));
  PF_EXHAUSTED(b.dh_prev = rnn_out(&io, 1, shape, 2));
  PF_EXHAUSTED(b.dc = rnn_out(&io, 2, shape, 2));
  PF_EXHAUSTED(b.dru = rnn_out(&io, 3, ru, 2));
  rnn_zero(b.dx, p->batch * p->inputs);
  if (p->batch * p->cells == 0) return PF_OK;
  gru_inputs(&io, p);
  b.r = rnn_in(&io, 6);
  b.u = rnn_in(&io, 7);
  b.c = rnn_in(&io, 8);
  b.dh = rnn_in(&io, 9);
  PF_EXHAUSTED(b.dreset = rnn_scratch(c, p->batch * p->cells));
  PF_TRY(pf_parallel(c, p->batch, grain, candidate_rows, &b));
  PF_TRY(gru_layer_back(&io, p, b.dc, p->w_c, p->cells, b.dx, b.dreset, 0, 0));
  PF_TRY(pf_parallel(c, p->batch, grain, reset_rows, &b));
  return gru_layer_back(&io, p, b.dru, p->w_ru, 2 * p->cells, b.dx, b.dh_prev, 1, 1);
}

#define ENTRY(op, fn) PF_CPU_FLAGS(op, "T=float", PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE, \
  .attrs = PF_ATTRS(PF_REF(pf_attr, "T", PF_ATTR_TYPE, offsetof(gru_state, T))), \
  .state_size = sizeof(gru_state), .compute = fn)
const pf_kernel *const PF_ISA_NAME(gru_kernels)[] = {
  ENTRY("GRUBlockCell", gru_cell), ENTRY("GRUBlockCellGrad", gru_cell_grad), NULL};
