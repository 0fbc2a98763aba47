/* lstm.c - LSTMBlockCell, BlockLSTM, BlockLSTMV2 and their gradients: an LSTM's step, or all its
 * steps, as one kernel.
 *
 * Invariants
 *   1. w is [inputs + cells, 4 cells]; its columns are the gates in the order i, ci, f, o (V2: i,
 *      f, ci, o).  Outputs i, cs, f, o, ci, co, h are what the gradient needs.
 *   2. All time steps' inputs are multiplied by their part of w in one product; only the part of h
 *      is done step by step.  The gradients of w and x are one product each as well.
 *   3. Beyond seq_len_max everything is zero.  As in TF, clipping does not stop the gradient.
 * Threads: parallel_for over rows of the batch and over parts of products.
 */
#include "rnn/rnn_step.h"
#include "vec/vmath.h"

typedef struct {
  double forget_bias, cell_clip;
  int32_t T, peephole;
} lstm_state;
enum { G_I, G_CI, G_F, G_O }; /* a gate's number in `column` */
enum { O_I, O_CS, O_F, O_O, O_CI, O_CO, O_H, LSTM_OUTPUTS };

typedef struct {
  const lstm_state *s;
  int64_t steps, used, batch, inputs, cells; /* used: seq_len_max */
  int64_t column[4];                         /* where a gate starts within 4 cells */
  float forget_bias, clip;
  const float *x, *cs_prev, *h_prev, *w, *wc[3], *bias;
} lstm;

/* ---------------------------------------------------------------- checks */
/* Sizes from the inputs x, cs_prev, h_prev, w, wci, wcf, wco, b, which start at `at`. */
static pf_status lstm_sizes(pf_ctx *c, const lstm_state *s, int32_t at, int over_time, lstm *p) {
  const DLTensor *x = c->in[at], *cs = c->in[at + 1];
  if (x->ndim != 2 + over_time)
    return PF_INVALID(c, "x must be %d-D, got shape %s", 2 + over_time, PF_SHAPE(x).s);
  if (cs->ndim != 2) return PF_INVALID(c, "cs_prev must be a matrix, got shape %s", PF_SHAPE(cs).s);
  *p = (lstm){.s = s,
              .steps = 1,
              .used = 1,
              .batch = x->shape[over_time],
              .inputs = x->shape[over_time + 1],
              .cells = cs->shape[1],
              .forget_bias = (float)s->forget_bias,
              .clip = (float)s->cell_clip,
              .column = {0, 1, 2, 3}};
  if (over_time) p->steps = x->shape[0];
  int64_t rows, four;
  if (__builtin_add_overflow(p->inputs, p->cells, &rows) || !pf_mul(p->cells, 4, &four))
    return PF_INVALID(c, "cell size %" PRId64 " is too large", p->cells);
  int64_t state[2] = {p->batch, p->cells}, w[2] = {rows, four};
  PF_TRY(rnn_want(c, at + 1, "cs_prev", 2, state));
  PF_TRY(rnn_want(c, at + 2, "h_prev", 2, state));
  PF_TRY(rnn_want(c, at + 3, "w", 2, w));
  PF_TRY(rnn_want(c, at + 7, "b", 1, &four));
  static const char *const peepholes[] = {"wci", "wcf", "wco"};
  for (int i = 0; i < 3 && s->peephole; i++)
    PF_TRY(rnn_want(c, at + 4 + i, peepholes[i], 1, &p->cells));
  return PF_OK;
}

static pf_status lstm_length(pf_ctx *c, lstm *p) {
  PF_TRY(pf_in_scalar(c, 0, "seq_len_max", &p->used));
  if (p->used < 0 || p->used > p->steps)
    return PF_INVALID(c, "seq_len_max must be in [0, %" PRId64 "], got %" PRId64, p->steps,
                      p->used);
  return PF_OK;
}

static void lstm_columns(lstm *p, int v2) {
  p->column[G_CI] = (v2 ? 2 : 1) * p->cells;
  p->column[G_F] = (v2 ? 1 : 2) * p->cells;
  p->column[G_O] = 3 * p->cells;
}

static pf_status lstm_inputs(rnn_io *io, int32_t at, lstm *p) {
  p->x = rnn_in(io, at);
  p->cs_prev = rnn_in(io, at + 1);
  p->h_prev = rnn_in(io, at + 2);
  p->w = rnn_in(io, at + 3);
  for (int i = 0; i < 3; i++) p->wc[i] = rnn_in(io, at + 4 + i);
  p->bias = rnn_in(io, at + 7);
  return io->failed ? PF_RESOURCE_EXHAUSTED : PF_OK;
}

/* ---------------------------------------------------------------- forward */
typedef struct {
  const lstm *p;
  const float *gates, *cs_prev;
  float *out[LSTM_OUTPUTS];
} step;

static void step_rows(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const step *t = arg;
  const lstm *p = t->p;
  const int64_t n = p->cells;
  (void)worker;
  for (int64_t r = lo; r < hi; r++) {
    const float *g = t->gates + r * 4 * n, *before = t->cs_prev + r * n;
    const float *gi = g + p->column[G_I], *gc = g + p->column[G_CI], *gf = g + p->column[G_F],
                *go = g + p->column[G_O];
    float *i = t->out[O_I] + r * n, *cs = t->out[O_CS] + r * n, *f = t->out[O_F] + r * n,
          *o = t->out[O_O] + r * n, *ci = t->out[O_CI] + r * n, *co = t->out[O_CO] + r * n,
          *h = t->out[O_H] + r * n;
    float lo_clip = p->clip > 0 ? -p->clip : -INFINITY, hi_clip = p->clip > 0 ? p->clip : INFINITY;
    if (p->s->peephole) {
      for (int64_t k = 0; k < n; k++) i[k] = gi[k] + p->wc[0][k] * before[k];
      for (int64_t k = 0; k < n; k++) f[k] = gf[k] + p->wc[1][k] * before[k];
    } else {
      memcpy(i, gi, (size_t)n * 4);
      memcpy(f, gf, (size_t)n * 4);
    }
    for (int64_t k = 0; k < n; k++) i[k] = pf_sigmoid_f32(i[k]);
    for (int64_t k = 0; k < n; k++) f[k] = pf_sigmoid_f32(f[k] + p->forget_bias);
    for (int64_t k = 0; k < n; k++) ci[k] = pf_tanh_f32(gc[k]);
    for (int64_t k = 0; k < n; k++)
      cs[k] = pf_clamp_f32(ci[k] * i[k] + f[k] * before[k], lo_clip, hi_clip);
    for (int64_t k = 0; k < n; k++)
      o[k] = pf_sigmoid_f32(p->s->peephole ? go[k] + p->wc[2][k] * cs[k] : go[k]);
    for (int64_t k = 0; k < n; k++) co[k] = pf_tanh_f32(cs[k]);
    for (int64_t k = 0; k < n; k++) h[k] = o[k] * co[k];
  }
}

static pf_status lstm_forward(pf_ctx *c, lstm *p, int32_t at, int over_time) {
  rnn_io io = {.c = c, .type = p->s->T};
  int64_t shape[3] = {p->steps, p->batch, p->cells}, n = p->cells, rows, gate_count;
  float *out[LSTM_OUTPUTS];
  for (int i = 0; i < LSTM_OUTPUTS; i++) {
    out[i] = rnn_out(&io, i, over_time ? shape : shape + 1, 2 + over_time);
    PF_EXHAUSTED(out[i]);
  }
  int64_t state = p->batch * n;
  for (int i = 0; i < LSTM_OUTPUTS; i++)
    rnn_zero(out[i] + p->used * state, (p->steps - p->used) * state);
  if (state == 0 || p->used == 0) return rnn_finish(&io), PF_OK;
  if (!pf_mul(p->used, p->batch, &rows) || !pf_mul(rows, 4 * n, &gate_count))
    return PF_INVALID(c, "the sequences are too large");
  PF_TRY(lstm_inputs(&io, at, p));
  float *gates = rnn_scratch(c, gate_count);
  PF_EXHAUSTED(gates);
  for (int64_t r = 0; r < rows; r++) memcpy(gates + r * 4 * n, p->bias, (size_t)n * 16);
  PF_TRY(rnn_multiply(&io, (rnn_product){.m = rows,
                                         .n = 4 * n,
                                         .k = p->inputs,
                                         .a = p->x,
                                         .lda = p->inputs,
                                         .b = p->w,
                                         .ldb = 4 * n,
                                         .c = gates,
                                         .ldc = 4 * n,
                                         .add = 1}));
  for (int64_t t = 0; t < p->used; t++) {
    const float *h = t ? out[O_H] + (t - 1) * state : p->h_prev;
    step now = {.p = p,
                .gates = gates + t * 4 * state,
                .cs_prev = t ? out[O_CS] + (t - 1) * state : p->cs_prev};
    for (int i = 0; i < LSTM_OUTPUTS; i++) now.out[i] = out[i] + t * state;
    PF_TRY(rnn_multiply(&io, (rnn_product){.m = p->batch,
                                           .n = 4 * n,
                                           .k = n,
                                           .a = h,
                                           .lda = n,
                                           .b = p->w + p->inputs * 4 * n,
                                           .ldb = 4 * n,
                                           .c = gates + t * 4 * state,
                                           .ldc = 4 * n,
                                           .add = 1}));
    PF_TRY(pf_parallel(c, p->batch, pf_grain(40 * n), step_rows, &now));
  }
  rnn_finish(&io);
  return PF_OK;
}

static pf_status lstm_cell(pf_ctx *c, const void *s) {
  lstm p;
  PF_TRY(lstm_sizes(c, s, 0, 0, &p));
  lstm_columns(&p, 0);
  return lstm_forward(c, &p, 0, 0);
}
static pf_status lstm_all(pf_ctx *c, const void *s, int v2) {
  lstm p;
  PF_TRY(lstm_sizes(c, s, 1, 1, &p));
  PF_TRY(lstm_length(c, &p));
  lstm_columns(&p, v2);
  return lstm_forward(c, &p, 1, 1);
}
static pf_status block_lstm(pf_ctx *c, const void *s) { return lstm_all(c, s, 0); }
static pf_status block_lstm_v2(pf_ctx *c, const void *s) { return lstm_all(c, s, 1); }

/* ---------------------------------------------------------------- gradients */
/* One step back: the gates' gradients, and that of the c before.  dcs and dh are the gradients that
 * come from the step after, NULL at the last; cs_grad and h_grad those of this step's outputs. */
typedef struct {
  const lstm *p;
  const float *saved[LSTM_OUTPUTS], *cs_prev, *cs_grad, *h_grad, *dcs, *dh;
  float *dgates, *cs_prev_grad;
} back;

static void back_rows(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const back *b = arg;
  const lstm *p = b->p;
  const int64_t n = p->cells;
  const int peephole = p->s->peephole;
  (void)worker;
  for (int64_t r = lo; r < hi; r++) {
    const int64_t at = r * n;
    const float *i = b->saved[O_I] + at, *f = b->saved[O_F] + at, *o = b->saved[O_O] + at,
                *ci = b->saved[O_CI] + at, *co = b->saved[O_CO] + at, *before = b->cs_prev + at,
                *gh = b->h_grad + at, *gc = b->cs_grad + at;
    float *d = b->dgates + 4 * at, *di = d + p->column[G_I], *dci = d + p->column[G_CI],
          *df = d + p->column[G_F], *dout = d + p->column[G_O], *prev = b->cs_prev_grad + at;
    PF_IVDEP for (int64_t k = 0; k < n; k++) {
      float dh = gh[k] + (b->dh ? b->dh[at + k] : 0.0f);
      float later = gc[k] + (b->dcs ? b->dcs[at + k] : 0.0f);
      dout[k] = o[k] * (1 - o[k]) * dh * co[k];
      float dcs = (1 - co[k] * co[k]) * dh * o[k] + later;
      if (peephole) dcs += dout[k] * p->wc[2][k];
      dci[k] = (1 - ci[k] * ci[k]) * dcs * i[k];
      df[k] = f[k] * (1 - f[k]) * dcs * before[k];
      di[k] = i[k] * (1 - i[k]) * dcs * ci[k];
      prev[k] = dcs * f[k];
      if (peephole) prev[k] += di[k] * p->wc[0][k] + df[k] * p->wc[1][k];
    }
  }
}

/* Adds one step's share to the gradients of wci, wcf, wco. */
static void add_peepholes(const back *b, float *const grad[3]) {
  const lstm *p = b->p;
  for (int64_t r = 0; r < p->batch && p->s->peephole; r++) {
    const float *d = b->dgates + r * 4 * p->cells, *before = b->cs_prev + r * p->cells,
                *cs = b->saved[O_CS] + r * p->cells;
    for (int64_t k = 0; k < p->cells; k++) {
      grad[0][k] += d[p->column[G_I] + k] * before[k];
      grad[1][k] += d[p->column[G_F] + k] * before[k];
      grad[2][k] += d[p->column[G_O] + k] * cs[k];
    }
  }
}

static const char *const saved_names[] = {"i",  "cs", "f",       "o",     "ci",
                                          "co", "h",  "cs_grad", "h_grad"};

static pf_status lstm_cell_grad(pf_ctx *c, const void *state) {
  lstm p;
  PF_TRY(lstm_sizes(c, state, 0, 0, &p));
  lstm_columns(&p, 0);
  static const int order[] = {O_I, O_CS, O_F, O_O, O_CI, O_CO, 7, 8}; /* no h among the inputs */
  int64_t shape[2] = {p.batch, p.cells}, wide[2] = {p.batch, 4 * p.cells};
  for (int i = 0; i < 8; i++) PF_TRY(rnn_want(c, 8 + i, saved_names[order[i]], 2, shape));
  rnn_io io = {.c = c, .type = p.s->T};
  back b = {.p = &p};
  float *peepholes[3];
  PF_EXHAUSTED(b.cs_prev_grad = rnn_out(&io, 0, shape, 2));
  PF_EXHAUSTED(b.dgates = rnn_out(&io, 1, wide, 2));
  for (int i = 0; i < 3; i++) {
    PF_EXHAUSTED(peepholes[i] = rnn_out(&io, 2 + i, &p.cells, 1));
    rnn_zero(peepholes[i], p.cells);
  }
  if (p.batch && p.cells) {
    PF_TRY(lstm_inputs(&io, 0, &p));
    for (int i = 0; i < 6; i++) b.saved[order[i]] = rnn_in(&io, 8 + i);
    b.cs_prev = p.cs_prev;
    b.cs_grad = rnn_in(&io, 14);
    b.h_grad = rnn_in(&io, 15);
    if (io.failed) return PF_RESOURCE_EXHAUSTED;
    PF_TRY(pf_parallel(c, p.batch, pf_grain(16 * p.cells), back_rows, &b));
    add_peepholes(&b, peepholes);
  }
  rnn_finish(&io);
  return PF_OK;
}

typedef struct { float *x, *cs, *h, *w, *wc[3], *b, *dgates; } lstm_grads;

static pf_status grad_outputs(rnn_io *io, const lstm *p, lstm_grads *g) {
  int64_t n = p->cells, x[3] = {p->steps, p->batch, p->inputs}, state[2] = {p->batch, n},
          w[2] = {p->inputs + n, 4 * n}, four = 4 * n;
  PF_EXHAUSTED(g->x = rnn_out(io, 0, x, 3));
  PF_EXHAUSTED(g->cs = rnn_out(io, 1, state, 2));
  PF_EXHAUSTED(g->h = rnn_out(io, 2, state, 2));
  PF_EXHAUSTED(g->w = rnn_out(io, 3, w, 2));
  for (int i = 0; i < 3; i++) {
    PF_EXHAUSTED(g->wc[i] = rnn_out(io, 4 + i, &n, 1));
    rnn_zero(g->wc[i], n);
  }
  PF_EXHAUSTED(g->b = rnn_out(io, 7, &four, 1));
  int64_t rows = p->used * p->batch;
  rnn_zero(g->x + rows * p->inputs, (p->steps - p->used) * p->batch * p->inputs);
  rnn_zero(g->cs, p->batch * n);
  rnn_zero(g->h, p->batch * n);
  int64_t count;
  if (!pf_mul(rows, four, &count)) return PF_INVALID(io->c, "the sequences are too large");
  PF_EXHAUSTED(g->dgates = rnn_scratch(io->c, count));
  return PF_OK;
}

/* From the last step to the first: dgates of all steps, gradients of the first state. */
static pf_status walk_back(rnn_io *io, const lstm *p, const lstm_grads *g,
                           const float *const saved[9]) {
  int64_t n = p->cells, state = p->batch * n;
  for (int64_t t = p->used - 1; t >= 0; t--) {
    int last = t == p->used - 1;
    back b = {.p = p,
              .cs_prev = t ? saved[O_CS] + (t - 1) * state : p->cs_prev,
              .cs_grad = saved[7] + t * state,
              .h_grad = saved[8] + t * state,
              .dcs = last ? NULL : g->cs,
              .dh = last ? NULL : g->h,
              .dgates = g->dgates + t * 4 * state,
              .cs_prev_grad = g->cs};
    for (int i = 0; i < LSTM_OUTPUTS; i++) b.saved[i] = saved[i] + t * state;
    PF_TRY(pf_parallel(io->c, p->batch, pf_grain(16 * n), back_rows, &b));
    add_peepholes(&b, g->wc);
    PF_TRY(rnn_multiply(io, (rnn_product){.m = p->batch,
                                          .n = n,
                                          .k = 4 * n,
                                          .a = b.dgates,
                                          .lda = 4 * n,
                                          .b = p->w + p->inputs * 4 * n,
                                          .ldb = 4 * n,
                                          .tb = 1,
                                          .c = g->h,
                                          .ldc = n}));
  }
  return PF_OK;
}

static pf_status weight_grads(rnn_io *io, const lstm *p, const lstm_grads *g, const float *h) {
  int64_t n = p->cells, four = 4 * n, rows = p->used * p->batch;
  float *wh = g->w + p->inputs * four;
  PF_TRY(rnn_multiply(io, (rnn_product){.m = rows,
                                        .n = p->inputs,
                                        .k = four,
                                        .a = g->dgates,
                                        .lda = four,
                                        .b = p->w,
                                        .ldb = four,
                                        .tb = 1,
                                        .c = g->x,
                                        .ldc = p->inputs}));
  PF_TRY(rnn_multiply(io, (rnn_product){.m = p->inputs,
                                        .n = four,
                                        .k = rows,
                                        .a = p->x,
                                        .lda = p->inputs,
                                        .ta = 1,
                                        .b = g->dgates,
                                        .ldb = four,
                                        .c = g->w,
                                        .ldc = four}));
  PF_TRY(rnn_multiply(io, (rnn_product){.m = n,
                                        .n = four,
                                        .k = p->used ? p->batch : 0,
                                        .a = p->h_prev,
                                        .lda = n,
                                        .ta = 1,
                                        .b = g->dgates,
                                        .ldb = four,
                                        .c = wh,
                                        .ldc = four}));
  if (p->used > 1)
    PF_TRY(rnn_multiply(io, (rnn_product){.m = n,
                                          .n = four,
                                          .k = rows - p->batch,
                                          .a = h,
                                          .lda = n,
                                          .ta = 1,
                                          .b = g->dgates + p->batch * four,
                                          .ldb = four,
                                          .c = wh,
                                          .ldc = four,
                                          .add = 1}));
  rnn_sum_rows(g->dgates, rows, four, g->b);
  return PF_OK;
}

static pf_status lstm_all_grad(pf_ctx *c, const void *state, int v2) {
  lstm p;
  PF_TRY(lstm_sizes(c, state, 1, 1, &p));
  PF_TRY(lstm_length(c, &p));
  lstm_columns(&p, v2);
  int64_t shape[3] = {p.steps, p.batch, p.cells};
  for (int i = 0; i < 9; i++) PF_TRY(rnn_want(c, 9 + i, saved_names[i], 3, shape));
  rnn_io io = {.c = c, .type = p.s->T};
  lstm_grads g;
  PF_TRY(grad_outputs(&io, &p, &g));
  PF_TRY(lstm_inputs(&io, 1, &p));
  const float *saved[9];
  for (int i = 0; i < 9; i++) saved[i] = rnn_in(&io, 9 + i);
  if (io.failed) return PF_RESOURCE_EXHAUSTED;
  if (p.batch && p.cells) PF_TRY(walk_back(&io, &p, &g, saved));
  PF_TRY(weight_grads(&io, &p, &g, saved[O_H]));
  rnn_finish(&io);
  return PF_OK;
}
static pf_status block_lstm_grad(pf_ctx *c, const void *s) { return lstm_all_grad(c, s, 0); }
static pf_status block_lstm_grad_v2(pf_ctx *c, const void *s) { return lstm_all_grad(c, s, 1); }

/* ---------------------------------------------------------------- table */
#define FIELD(name, kind, field) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, name, kind, offsetof(lstm_state, field)})
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#define ENTRY(op, fn) PF_CPU_FLAGS(op, "T=float|half", FLAGS, \
  .attrs = PF_ATTRS(FIELD("T", PF_ATTR_TYPE, T), FIELD("use_peephole", PF_ATTR_BOOL, peephole), \
                    FIELD("forget_bias", PF_ATTR_FLOAT, forget_bias), \
                    FIELD("cell_clip", PF_ATTR_FLOAT, cell_clip)), \
  .state_size = sizeof(lstm_state), .compute = fn)
const pf_kernel *const PF_ISA_NAME(lstm_kernels)[] = {ENTRY("LSTMBlockCell", lstm_cell),
                                                      ENTRY("LSTMBlockCellGrad", lstm_cell_grad),
                                                      ENTRY("BlockLSTM", block_lstm),
                                                      ENTRY("BlockLSTMV2", block_lstm_v2),
                                                      ENTRY("BlockLSTMGrad", block_lstm_grad),
                                                      ENTRY("BlockLSTMGradV2", block_lstm_grad_v2),
                                                      NULL};
