/* kernels_nn.c - MatMul, BiasAdd, reductions, Softmax, the cross entropies and ArgMax.
 *
 * Sums are kept in doubles (exact for integers below 2^53), so results are at most a rounding away
 * from any other order of summation.
 */
#include "launch.h"
#include <math.h>

/* ---------------------------------------------------------------- MatMul */
/* params: m, k, n and the steps of a along m and k, of b along k and n */
static pf_status run_matmul(fake_call *c) {
  const int64_t *p = c->p.i;
  fake_array *y = &c->y[0];
  for (int64_t i = 0; i < p[0]; i++)
    for (int64_t j = 0; j < p[2]; j++) {
      double sum = 0;
      int64_t whole = 0;
      for (int64_t l = 0; l < p[1]; l++) {
        int64_t ia = i * p[3] + l * p[4], ib = l * p[5] + j * p[6];
        if (is_real(y)) sum += get(&c->x[0], ia) * get(&c->x[1], ib);
        else whole += get_int(&c->x[0], ia) * get_int(&c->x[1], ib);
      }
      if (is_real(y)) put(y, i * p[2] + j, sum);
      else put_int(y, i * p[2] + j, whole);
    }
  return PF_OK;
}
static pf_status matmul(pf_ctx *c, const void *state) {
  const fake_state *s = state;
  const DLTensor *a = c->in[0], *b = c->in[1];
  if (a->ndim != 2 || b->ndim != 2) return failf(c, PF_INVALID_ARGUMENT, "MatMul takes matrices");
  int64_t ta = s->transpose_a != 0, tb = s->transpose_b != 0;
  int64_t m = a->shape[ta], k = a->shape[1 - ta], n = b->shape[1 - tb];
  if (b->shape[tb] != k)
    return failf(c, PF_INVALID_ARGUMENT,
                 "Matrix size-incompatible: In[0]: [%lld,%lld], In[1]: [%lld,%lld]",
                 (long long)a->shape[0], (long long)a->shape[1], (long long)b->shape[0],
                 (long long)b->shape[1]);
  int64_t shape[2] = {m, n};
  fake_params p = {.i = {m, k, n, ta ? 1 : k, ta ? m : 1, tb ? 1 : n, tb ? k : 1},
                   .flops = 2.0 * (double)m * (double)k * (double)n};
  return c->host->output(c, 0, shape, 2) ? launch(c, run_matmul, &p) : PF_RESOURCE_EXHAUSTED;
}

/* ---------------------------------------------------------------- BiasAdd, BiasAddGrad (NHWC) */
static pf_status run_bias(fake_call *c) {
  for (int64_t i = 0; i < c->y[0].n; i++) {
    if (is_real(&c->y[0])) put(&c->y[0], i, get(&c->x[0], i) + get(&c->x[1], i % c->x[1].n));
    else put_int(&c->y[0], i, get_int(&c->x[0], i) + get_int(&c->x[1], i % c->x[1].n));
  }
  return PF_OK;
}
static pf_status bias_add(pf_ctx *c, const void *s) {
  const DLTensor *x = c->in[0], *b = c->in[1];
  (void)s;
  if (x->ndim < 1 || b->ndim != 1 || b->shape[0] != x->shape[x->ndim - 1])
    return failf(c, PF_INVALID_ARGUMENT, "the bias must be a vector as long as the last dimension");
  return c->host->forward(c, 0, 0, x->shape, x->ndim) ? launch(c, run_bias, NULL)
                                                      : PF_RESOURCE_EXHAUSTED;
}
static pf_status run_bias_grad(fake_call *c) {
  int64_t n = c->y[0].n;
  for (int64_t j = 0; j < n; j++) {
    double sum = 0;
    for (int64_t i = j; i < c->x[0].n; i += n) sum += get(&c->x[0], i);
    put(&c->y[0], j, sum);
  }
  return PF_OK;
}
static pf_status bias_grad(pf_ctx *c, const void *s) {
  const DLTensor *x = c->in[0];
  (void)s;
  if (x->ndim < 1) return failf(c, PF_INVALID_ARGUMENT, "BiasAddGrad takes at least a vector");
  return c->host->output(c, 0, &x->shape[x->ndim - 1], 1) ? launch(c, run_bias_grad, NULL)
                                                          : PF_RESOURCE_EXHAUSTED;
}
/* In `init`: this device has the kernels for one layout only and leaves the other to others. */
typedef struct { pf_str data_format; } bias_state;
static pf_status nhwc_only(pf_ctx *c, void *state) {
  const bias_state *s = state;
  (void)c;
  return s->data_format.len == 4 && !memcmp(s->data_format.data, "NHWC", 4) ? PF_OK : PF_DECLINE;
}

/* ---------------------------------------------------------------- Sum, Mean, Max, Min, Prod */
enum { SUM, MEAN, MAX, MIN, PROD };
/* params: i[0] which, i[1] mask of the axes that go */
static pf_status run_reduce(fake_call *c) {
  const fake_array *x = &c->x[0];
  fake_array *y = &c->y[0];
  int64_t inner[FAKE_RANK], at = 1, which = c->p.i[0], each = y->n ? x->n / y->n : 0;
  double *total = malloc(sizeof(double) * (size_t)(y->n + 1));
  if (!total) return PF_RESOURCE_EXHAUSTED;
  for (int32_t d = x->ndim - 1; d >= 0; d--) {
    inner[d] = c->p.i[1] >> d & 1 ? 0 : at;
    if (inner[d]) at *= x->shape[d];
  }
  double most = is_real(y) ? (double)INFINITY : INT32_MAX;
  double least = is_real(y) ? -(double)INFINITY : INT32_MIN;
  for (int64_t i = 0; i < y->n; i++)
    total[i] = which == MAX ? least : which == MIN ? most : which == PROD;
  for (int64_t i = 0; i < x->n; i++) {
    int64_t rest = i, o = 0;
    for (int32_t d = x->ndim - 1; d >= 0; rest /= x->shape[d], d--)
      o += rest % x->shape[d] * inner[d];
    double v = get(x, i);
    if (which == PROD) total[o] *= v;
    else if (which == MAX) total[o] = isnan(v) || v > total[o] ? v : total[o];
    else if (which == MIN) total[o] = isnan(v) || v < total[o] ? v : total[o];
    else total[o] += v;
  }
  for (int64_t i = 0; i < y->n; i++) put(y, i, which == MEAN ? total[i] / (double)each : total[i]);
  free(total);
  return PF_OK;
}
static pf_status reduce(pf_ctx *c, const void *state, int64_t which) {
  const DLTensor *x = c->in[0];
  int64_t shape[FAKE_RANK];
  int32_t n = 0;
  uint32_t mask;
  if (x->ndim > FAKE_RANK) return failf(c, PF_UNIMPLEMENTED, "too many dimensions: %d", x->ndim);
  pf_status s = axes_mask(c, 1, x->ndim, &mask);
  if (s) return s;
  for (int32_t d = 0; d < x->ndim; d++) {
    if (!(mask >> d & 1)) shape[n++] = x->shape[d];
    else if (((const fake_state *)state)->keep_dims) shape[n++] = 1;
  }
  DLTensor *y = c->host->output(c, 0, shape, n);
  fake_tensors t = {.x = {x}, .y = {y}, .n_x = 1, .n_y = 1};
  fake_params p = {.i = {which, mask}, .flops = (double)pf_numel(x)};
  return y ? launch_on(c, run_reduce, &p, &t) : PF_RESOURCE_EXHAUSTED;
}
static pf_status sum(pf_ctx *c, const void *s) { return reduce(c, s, SUM); }
static pf_status mean(pf_ctx *c, const void *s) { return reduce(c, s, MEAN); }
static pf_status max(pf_ctx *c, const void *s) { return reduce(c, s, MAX); }
static pf_status min(pf_ctx *c, const void *s) { return reduce(c, s, MIN); }
static pf_status prod(pf_ctx *c, const void *s) { return reduce(c, s, PROD); }

/* ---------------------------------------------------------------- Softmax, cross entropies */
static double log_of_sum(const fake_array *x, int64_t row, int64_t n) {
  double top = -INFINITY, total = 0;
  for (int64_t j = 0; j < n; j++) top = fmax(top, get(x, row * n + j));
  for (int64_t j = 0; j < n; j++) total += exp(get(x, row * n + j) - top);
  return top + log(total);
}
static pf_status run_softmax(fake_call *c) {
  const fake_array *x = &c->x[0];
  int64_t n = x->ndim ? x->shape[x->ndim - 1] : 1;
  for (int64_t i = 0; n && i < x->n / n; i++) {
    double all = log_of_sum(x, i, n);
    for (int64_t j = 0; j < n; j++) {
      double v = get(x, i * n + j) - all;
      put(&c->y[0], i * n + j, c->p.i[0] ? v : exp(v));
    }
  }
  return PF_OK;
}
static pf_status softmax_or_log(pf_ctx *c, int64_t is_log) {
  fake_params p = {.i = {is_log}};
  if (c->in[0]->ndim < 1) return failf(c, PF_INVALID_ARGUMENT, "Softmax takes at least a vector");
  return pf_output_like(c, 0, c->in[0]) ? launch(c, run_softmax, &p) : PF_RESOURCE_EXHAUSTED;
}
static pf_status softmax(pf_ctx *c, const void *s) { return (void)s, softmax_or_log(c, 0); }
static pf_status log_softmax(pf_ctx *c, const void *s) { return (void)s, softmax_or_log(c, 1); }

/* loss = -sum(labels log p), backprop = p - labels; sparse labels are one class a row; one row of
 * either serves all rows of the other */
static pf_status run_cross_entropy(fake_call *c) {
  const fake_array *x = &c->x[0], *labels = &c->x[1];
  int64_t n = x->shape[1], sparse = c->p.i[0];
  for (int64_t i = 0; i < c->y[0].n; i++) {
    int64_t row = i % x->shape[0], of = i % labels->shape[0];
    double all = log_of_sum(x, row, n), loss = 0;
    for (int64_t j = 0; j < n; j++) {
      double v = get(x, row * n + j) - all;
      double label = sparse ? get_int(labels, of) == j : get(labels, of * n + j);
      if (label != 0) loss -= label * v;
      put(&c->y[1], i * n + j, exp(v) - label);
    }
    if (sparse && (get_int(labels, of) < 0 || get_int(labels, of) >= n)) {
      fake_log(PF_LOG_ERROR, "FAKE:%d: label %lld is not in [0, %lld)", c->dev->ordinal,
               (long long)get_int(labels, of), (long long)n);
      return PF_INVALID_ARGUMENT;
    }
    put(&c->y[0], i, loss);
  }
  return PF_OK;
}
static pf_status cross_entropy(pf_ctx *c, int64_t sparse) {
  const DLTensor *x = c->in[0], *labels = c->in[1];
  fake_params p = {.i = {sparse}};
  if (x->ndim != 2 || labels->ndim != 2 - sparse || (!sparse && labels->shape[1] != x->shape[1]) ||
      (labels->shape[0] != x->shape[0] && (sparse || (labels->shape[0] != 1 && x->shape[0] != 1))))
    return failf(c, PF_INVALID_ARGUMENT, "the labels do not fit the logits");
  int64_t shape[2] = {x->shape[0] == 1 ? labels->shape[0] : x->shape[0], x->shape[1]};
  if (!c->host->output(c, 0, shape, 1) || !c->host->output(c, 1, shape, 2))
    return PF_RESOURCE_EXHAUSTED;
  return launch(c, run_cross_entropy, &p);
}
static pf_status dense_loss(pf_ctx *c, const void *s) { return (void)s, cross_entropy(c, 0); }
static pf_status sparse_loss(pf_ctx *c, const void *s) { return (void)s, cross_entropy(c, 1); }

/* ---------------------------------------------------------------- ArgMax */
/* params: outer, size, inner */
static pf_status run_arg_max(fake_call *c) {
  const fake_array *x = &c->x[0];
  int64_t outer = c->p.i[0], size = c->p.i[1], inner = c->p.i[2];
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      int64_t best = 0, first = o * size * inner + i;
      for (int64_t k = 1; k < size; k++)
        if (get(x, first + k * inner) > get(x, first + best * inner)) best = k;
      put_int(&c->y[0], o * inner + i, best);
    }
  return PF_OK;
}
static pf_status arg_max(pf_ctx *c, const void *s) {
  const DLTensor *x = c->in[0];
  int64_t values[MAX_HOST_VALUES], shape[FAKE_RANK], axis;
  int32_t n = 0;
  (void)s;
  if (x->ndim > FAKE_RANK || host_ints(c, 1, values) != 1)
    return failf(c, PF_INVALID_ARGUMENT, "dimension must be a scalar");
  pf_status status = one_axis(c, values[0], x->ndim, &axis);
  if (status) return status;
  fake_params p = {.i = {1, x->shape[axis], 1}};
  for (int32_t d = 0; d < x->ndim; d++) {
    if (d == axis) continue;
    p.i[d < axis ? 0 : 2] *= x->shape[d];
    shape[n++] = x->shape[d];
  }
  DLTensor *y = c->host->output(c, 0, shape, n);
  fake_tensors t = {.x = {x}, .y = {y}, .n_x = 1, .n_y = 1};
  return y ? launch_on(c, run_arg_max, &p, &t) : PF_RESOURCE_EXHAUSTED;
}

#define NUMERIC "T=" FAKE_NUMBERS
#define REAL "T=" FAKE_FLOATS
#define REDUCE ARGS(ON_HOST("reduction_indices")), ATTRS(ATTR(PF_ATTR_BOOL, keep_dims))
#define FORMAT .state_size = sizeof(bias_state), .init = nhwc_only, \
  .attrs = TABLE(pf_attr, PF_ATTR(bias_state, PF_ATTR_STRING, data_format))
const pf_kernel *const nn_kernels[] = {
  FAKE("MatMul", NUMERIC, matmul,
       ATTRS(ATTR(PF_ATTR_BOOL, transpose_a), ATTR(PF_ATTR_BOOL, transpose_b))),
  FAKE("BiasAdd", NUMERIC, bias_add, ARGS(REUSES("output", 0)), FORMAT),
  FAKE("BiasAddGrad", REAL, bias_grad, FORMAT),
  FAKE("Sum", NUMERIC, sum, REDUCE),
  FAKE("Mean", REAL, mean, REDUCE),
  FAKE("Max", "T=" FAKE_FLOATS "|int32", max, REDUCE),
  FAKE("Min", "T=" FAKE_FLOATS "|int32", min, REDUCE),
  FAKE("Prod", REAL, prod, REDUCE),
  FAKE("Softmax", REAL, softmax),
  FAKE("LogSoftmax", REAL, log_softmax),
  FAKE("SoftmaxCrossEntropyWithLogits", REAL, dense_loss),
  FAKE("SparseSoftmaxCrossEntropyWithLogits", REAL, sparse_loss),
  FAKE("ArgMax", "T=" FAKE_FLOATS "|int32, output_type=int32|int64", arg_max,
       ARGS(ON_HOST("dimension"))),
  NULL};
