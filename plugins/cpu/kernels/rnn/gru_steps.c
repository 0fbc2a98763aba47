/* gru_steps.c - _GRU: all steps of a GRU, ONNX's, whose inputs have been multiplied by their
 * weights.
 *
 * Invariants
 *   1. gates [steps, batch, 3 cells], weights [cells, 3 cells]: the gates z, r, h.
 *   2. r is applied to h before the product, or (linear_before_reset) to the product and its bias.
 *   3. `reverse`: the last step is first; outputs lie where their inputs do.
 * Threads: those of rnn_multiply; a step's gates on the caller's.
 */
#include "rnn/rnn_step.h"
#include "vec/vmath.h"

typedef struct { int32_t after, reverse; } gru_state;
typedef struct {
  const gru_state *s;
  int64_t batch, n;
  const float *weights, *bias; /* bias: of h's product, [cells] */
  float *inner, *reset;        /* [batch, 3 cells]; [batch, cells] */
} gru;

static pf_status product(rnn_io *io, const gru *p, const float *h, int64_t column,
                         int64_t columns) {
  return rnn_multiply(io, (rnn_product){.m = p->batch,
                                        .n = columns,
                                        .k = p->n,
                                        .a = h,
                                        .lda = p->n,
                                        .b = p->weights + column,
                                        .ldb = 3 * p->n,
                                        .c = p->inner + column,
                                        .ldc = 3 * p->n});
}

/* z and r of one sequence, in the place of `inner`. */
static void open_gates(const float *gates, float *inner, int64_t n) {
  for (int64_t k = 0; k < 2 * n; k++) inner[k] = pf_sigmoid_f32(gates[k] + inner[k]);
}
/* The next state from z and what is added to the gate h, `more`. */
static void close_step(const float *gate, const float *z, const float *more, const float *h,
                       int64_t n, float *out) {
  for (int64_t k = 0; k < n; k++) {
    const float fresh = pf_tanh_f32(gate[k] + more[k]);
    out[k] = (1.0f - z[k]) * fresh + z[k] * h[k];
  }
}

static pf_status step(rnn_io *io, const gru *p, const float *gates, const float *h, float *out) {
  const int64_t n = p->n, wide = 3 * n;
  PF_TRY(product(io, p, h, 0, p->s->after ? wide : 2 * n));
  for (int64_t b = 0; b < p->batch; b++) {
    float *inner = p->inner + b * wide, *r = inner + n, *own = inner + 2 * n,
          *reset = p->reset + b * n;
    open_gates(gates + b * wide, inner, n);
    if (p->s->after)
      for (int64_t k = 0; k < n; k++) own[k] = r[k] * (own[k] + p->bias[k]);
    else
      for (int64_t k = 0; k < n; k++) reset[k] = r[k] * h[b * n + k];
  }
  if (!p->s->after) PF_TRY(product(io, p, p->reset, 2 * n, n));
  for (int64_t b = 0; b < p->batch; b++)
    close_step(gates + b * wide + 2 * n, p->inner + b * wide, p->inner + b * wide + 2 * n,
               h + b * n, n, out + b * n);
  return PF_OK;
}

static pf_status gru_steps(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *h0 = c->in[1];
  if (x->ndim != 3 || h0->ndim != 2)
    return PF_INVALID(c, "gates must be 3-D and h 2-D, got shapes %s and %s", PF_SHAPE(x).s,
                      PF_SHAPE(h0).s);
  const int64_t steps = x->shape[0], batch = x->shape[1], n = h0->shape[1];
  int64_t wide, count;
  if (!pf_mul(n, 3, &wide) || !pf_mul(batch, wide, &count))
    return PF_INVALID(c, "cell size %" PRId64 " is too large", n);
  const int64_t gates[3] = {steps, batch, wide}, sizes[2] = {batch, n}, all[3] = {steps, batch, n},
                square[2] = {n, wide};
  PF_TRY(rnn_want(c, 0, "gates", 3, gates));
  PF_TRY(rnn_want(c, 1, "h", 2, sizes));
  PF_TRY(rnn_want(c, 2, "weights", 2, square));
  PF_TRY(rnn_want(c, 3, "bias", 1, &n));
  DLTensor *y = pf_output_checked(c, 0, all, 3), *last = pf_output_checked(c, 1, sizes, 2);
  PF_EXHAUSTED(y && last);
  if (batch * n == 0) return PF_OK;
  gru p = {.s = state,
           .batch = batch,
           .n = n,
           .weights = PF_DATA(const float, c->in[2]),
           .bias = PF_DATA(const float, c->in[3]),
           .inner = rnn_scratch(c, count),
           .reset = rnn_scratch(c, batch * n)};
  PF_EXHAUSTED(p.inner && p.reset);
  rnn_io io = {.c = c, .type = PF_FLOAT32};
  const float *h = PF_DATA(const float, h0);
  for (int64_t t = 0; t < steps; t++) {
    const int64_t at = p.s->reverse ? steps - 1 - t : t;
    float *out = PF_DATA(float, y) + at * batch * n;
    PF_TRY(step(&io, &p, PF_DATA(const float, x) + at * count, h, out));
    h = out;
  }
  memcpy(PF_DATA(float, last), h, (size_t)(batch * n) * 4);
  return PF_OK;
}

#define FLAG(name, field) \
  PF_REF(pf_attr, name, PF_ATTR_BOOL, offsetof(gru_state, field))
const pf_kernel *const PF_ISA_NAME(gru_steps_kernels)[] = {
  PF_CPU_FLAGS("_GRU", "", PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE,
               .attrs = PF_ATTRS(FLAG("linear_before_reset", after), FLAG("reverse", reverse)),
               .state_size = sizeof(gru_state), .compute = gru_steps),
  NULL};
