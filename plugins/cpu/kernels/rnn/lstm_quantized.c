/* lstm_quantized.c - _DynamicQuantizeLSTM: all steps of an LSTM whose weights are 8-bit numbers.
 *
 * Invariants
 *   1. Inputs are quantised once, all steps together; the state h before each step: to uint8, by
 *      the smallest and largest element and 0.  Products are exact (bytes.h) and then scaled.
 *   2. Weights have a column per gate and cell, the gates in ONNX's order i, o, f, c.
 *   3. `reverse`: the last step is first; outputs lie where their inputs do.
 * Threads: those of bytes.c; a step's gates on the caller's.
 */
#include "gemm/bytes.h"
#include "vec/vmath.h"

enum { X, H0, C0, W, W_SUMS, W_ZEROS, W_SCALES, R, R_SUMS, R_ZEROS, R_SCALES, BIAS };
enum { LANES = 16 };
typedef struct { int32_t reverse; } quantized_state;

/* 8-bit rows of floats [m, k], and the product with packed weights. */
typedef struct {
  uint8_t *rows;
  int32_t *row_sums, *product;
  float scale;
} room;

static pf_status take_room(pf_ctx *c, int64_t m, int64_t k, int64_t n, room *r) {
  int64_t rows, product;
  const int64_t lda = 4 * pf_byte_groups(k);
  if (!pf_mul(m, lda + 4, &rows) || !pf_mul(m, n, &product) || !pf_mul(product, 4, &product))
    return PF_INVALID(c, "the sequences are too large");
  r->row_sums = c->host->scratch(c, (uint64_t)rows + 64, 64);
  r->product = c->host->scratch(c, (uint64_t)product + 64, 64);
  if (!r->row_sums || !r->product)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for quantised products");
  r->rows = (uint8_t *)(r->row_sums + m);
  return PF_OK;
}

/* The smallest and largest of n numbers and 0. */
static void range(const float *x, int64_t n, float *low, float *high) {
  float lows[LANES] = {0}, highs[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; j++) {
      lows[j] = x[i + j] < lows[j] ? x[i + j] : lows[j];
      highs[j] = x[i + j] > highs[j] ? x[i + j] : highs[j];
    }
  for (; i < n; i++) {
    lows[0] = x[i] < lows[0] ? x[i] : lows[0];
    highs[0] = x[i] > highs[0] ? x[i] : highs[0];
  }
  *low = *high = 0;
  for (int j = 0; j < LANES; j++) {
    *low = lows[j] < *low ? lows[j] : *low;
    *high = highs[j] > *high ? highs[j] : *high;
  }
}

/* Quantises x [m, k]; -> the zero point. */
static int32_t quantize(const float *x, int64_t m, int64_t k, room *r) {
  float low, high;
  range(x, m * k, &low, &high);
  const float span = (high - low) / 255.0f;
  r->scale = span == 0 ? 1.0f : span;
  const float zero = rintf(-low / r->scale);
  const int64_t lda = 4 * pf_byte_groups(k);
  for (int64_t i = 0; i < m; i++, x += k) {
    uint8_t *row = r->rows + i * lda;
    int32_t sum = 0;
    for (int64_t p = 0; p < k; p++) {
      float step = rintf(x[p] / r->scale) + zero;
      step = step > 0 ? step : 0;
      row[p] = (uint8_t)(int32_t)(step < 255 ? step : 255);
    }
    for (int64_t p = 0; p < k; p++) sum += row[p];
    memset(row + k, 0, (size_t)(lda - k));
    r->row_sums[i] = sum;
  }
  return (int32_t)zero;
}

/* gates [m, n] = (add ? gates : the bias) + x [m, k] times the weights that start at input `w` */
static pf_status times(pf_ctx *c, const float *x, int64_t m, int64_t k, int64_t n, int32_t w,
                       room *r, const float *bias, float *gates) {
  const int32_t zero = quantize(x, m, k, r);
  const pf_byte_product p = {.m = m,
                             .n = n,
                             .k = k,
                             .lda = 4 * pf_byte_groups(k),
                             .a = r->rows,
                             .b = PF_DATA(const int8_t, c->in[w]),
                             .sums = PF_DATA(const int32_t, c->in[w + 1]),
                             .zeros = PF_DATA(const int32_t, c->in[w + 2]),
                             .row_sums = r->row_sums,
                             .a_zero = zero,
                             .c = r->product};
  PF_TRY(PF_ISA_NAME(pf_multiply_bytes)(c, &p));
  const float *scales = PF_DATA(const float, c->in[w + 3]);
  for (int64_t i = 0; i < m; i++, gates += n) {
    const int32_t *sums = r->product + i * n;
    const float *before = bias ? bias : gates;
    for (int64_t j = 0; j < n; j++) gates[j] = before[j] + (float)sums[j] * (r->scale * scales[j]);
  }
  return PF_OK;
}

/* One step of one sequence: gates i, o, f, c of n cells each; the state `cell` and h. */
static void step(float *gates, int64_t n, float *cell, float *h) {
  float *i = gates, *o = gates + n, *f = gates + 2 * n, *g = gates + 3 * n;
  for (int64_t k = 0; k < 3 * n; k++) gates[k] = pf_sigmoid_f32(gates[k]);
  for (int64_t k = 0; k < n; k++) g[k] = pf_tanh_f32(g[k]);
  for (int64_t k = 0; k < n; k++) cell[k] = f[k] * cell[k] + i[k] * g[k];
  for (int64_t k = 0; k < n; k++) h[k] = o[k] * pf_tanh_f32(cell[k]);
}

static pf_status want(pf_ctx *c, int32_t in, int32_t ndim, const int64_t *shape) {
  if (pf_same_dims(c->in[in]->shape, c->in[in]->ndim, shape, ndim)) return PF_OK;
  return PF_INVALID(c, "input %d must have shape %s, got %s", in, pf_shape_text(shape, ndim).s,
                    PF_SHAPE(c->in[in]).s);
}

static pf_status lstm(pf_ctx *c, const void *state) {
  const quantized_state *s = state;
  const DLTensor *x = c->in[X], *h0 = c->in[H0];
  if (x->ndim != 3 || h0->ndim != 2)
    return PF_INVALID(c, "x must be 3-D and h 2-D, got shapes %s and %s", PF_SHAPE(x).s,
                      PF_SHAPE(h0).s);
  int64_t four;
  const int64_t steps = x->shape[0], batch = x->shape[1], inputs = x->shape[2], n = h0->shape[1],
                sizes[2] = {batch, n}, all[3] = {steps, batch, n};
  if (!pf_mul(n, 4, &four)) return PF_INVALID(c, "cell size %" PRId64 " is too large", n);
  PF_TRY(want(c, H0, 2, sizes));
  PF_TRY(want(c, C0, 2, sizes));
  PF_TRY(pf_want_bytes(c, W, four, inputs));
  PF_TRY(pf_want_bytes(c, R, four, n));
  const int32_t vectors[] = {W_SCALES, R_SCALES, BIAS};
  for (int i = 0; i < 3; i++) PF_TRY(want(c, vectors[i], 1, &four));
  DLTensor *y = pf_output_checked(c, 0, all, 3), *h = pf_output_checked(c, 1, sizes, 2),
           *cell = pf_output_checked(c, 2, sizes, 2);
  PF_EXHAUSTED(y && h && cell);
  const int64_t count = batch * n;
  if (count == 0) return PF_OK;
  memcpy(PF_DATA(float, h), PF_DATA(const float, h0), (size_t)count * 4);
  memcpy(PF_DATA(float, cell), PF_DATA(const float, c->in[C0]), (size_t)count * 4);
  int64_t rows, bytes;
  if (!pf_mul(steps, batch, &rows) || !pf_mul(rows, four, &bytes) || !pf_mul(bytes, 4, &bytes))
    return PF_INVALID(c, "the sequences are too large");
  if (steps == 0) return PF_OK;
  float *gates = c->host->scratch(c, (uint64_t)bytes + 64, 64);
  if (!gates) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the gates");
  room r;
  PF_TRY(take_room(c, rows, inputs, four, &r));
  PF_TRY(times(c, PF_DATA(const float, x), rows, inputs, four, W, &r,
               PF_DATA(const float, c->in[BIAS]), gates));
  PF_TRY(take_room(c, batch, n, four, &r));
  const float *last = PF_DATA(const float, h);
  for (int64_t t = 0; t < steps; t++) {
    const int64_t at = s->reverse ? steps - 1 - t : t;
    float *now = gates + at * batch * four, *out = PF_DATA(float, y) + at * count;
    PF_TRY(times(c, last, batch, n, four, R, &r, NULL, now));
    for (int64_t b = 0; b < batch; b++)
      step(now + b * four, n, PF_DATA(float, cell) + b * n, out + b * n);
    last = out;
  }
  memcpy(PF_DATA(float, h), last, (size_t)count * 4);
  return PF_OK;
}

const pf_kernel *const PF_ISA_NAME(lstm_quantized_kernels)[] = {
  PF_CPU_FLAGS("_DynamicQuantizeLSTM", "", PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE,
               .attrs = PF_ATTRS(PF_ATTR(quantized_state, PF_ATTR_BOOL, reverse)),
               .state_size = sizeof(quantized_state), .compute = lstm),
  NULL};
