/* conv_cost.c - what convolutions cost, for placing them.
 *
 * Every position of the output meets every element of the filter once, also in groups and
 * depthwise: two flops each.  Unknown sizes: no estimate.
 * Threads: pure.
 */
#include "conv/conv_cost.h"
#include "conv/window.h"

typedef struct {
  pf_list strides, dilations, paddings;
  pf_str padding;
  int32_t nchw;
} cost_attrs;

static pf_status cost_attributes(pf_infer *f, cost_attrs *a) {
  const pf_host *h = f->host;
  pf_str format = {0};
  *a = (cost_attrs){0};
  PF_TRY(h->infer_attr(f, "strides", PF_ATTR_LIST | PF_ATTR_INT, &a->strides));
  PF_TRY(h->infer_attr(f, "padding", PF_ATTR_STRING, &a->padding));
  (void)h->infer_attr(f, "dilations", PF_ATTR_LIST | PF_ATTR_INT, &a->dilations);
  (void)h->infer_attr(f, "explicit_paddings", PF_ATTR_LIST | PF_ATTR_INT, &a->paddings);
  (void)h->infer_attr(f, "data_format", PF_ATTR_STRING, &format);
  a->nchw = pf_str_is(format, "NCHW");
  return a->strides.n == 4 ? PF_OK : PF_UNKNOWN;
}

/* The elements of a 4-dimensional input; of a vector of sizes where `sizes`. */
static pf_status cost_elements(pf_infer *f, int32_t in, int sizes, double *n) {
  const pf_host *h = f->host;
  const DLTensor *value = sizes ? h->infer_constant(f, in) : NULL;
  const int64_t *dims = NULL;
  int32_t nd = 0;
  if (!sizes) PF_TRY(h->infer_dims(f, in, &dims, &nd));
  if (sizes ? !value || value->ndim != 1 || value->shape[0] != 4 : nd != 4) return PF_UNKNOWN;
  *n = 1;
  for (int d = 0; d < 4; d++) {
    int64_t size = !sizes                    ? dims[d]
                   : value->dtype.bits == 64 ? ((const int64_t *)value->data)[d]
                                             : ((const int32_t *)value->data)[d];
    if (size < 0) return PF_UNKNOWN;
    *n *= (double)size;
  }
  return PF_OK;
}

/* Positions of windows along axis d (of x's shape) for a filter of k. */
static double cost_positions(const cost_attrs *a, int d, int64_t size, int64_t k) {
  const int64_t *dilation = a->dilations.items, *pads = a->paddings.items;
  int64_t stride = PF_MAX(((const int64_t *)a->strides.items)[d], 1);
  if (pf_str_is(a->padding, "SAME")) return (double)((size + stride - 1) / stride);
  if (pf_str_is(a->padding, "EXPLICIT") && a->paddings.n == 8)
    size += pads[2 * d] + pads[2 * d + 1];
  size -= (k - 1) * (a->dilations.n == 4 ? dilation[d] : 1);
  return size > 0 ? (double)((size + stride - 1) / stride) : 0;
}

static double cost_bytes(pf_infer *f, int32_t in, double elements) {
  int32_t type = f->host->infer_type(f, in);
  return elements * (type == PF_FLOAT64 ? 8 : type == PF_FLOAT32 ? 4 : 2);
}

static pf_status forward_cost(pf_infer *f, int depthwise, double *flops, double *bytes) {
  const pf_host *h = f->host;
  const int64_t *x, *w;
  int32_t nd;
  cost_attrs a;
  double nx, nw;
  PF_TRY(cost_attributes(f, &a));
  PF_TRY(cost_elements(f, 0, 0, &nx));
  PF_TRY(cost_elements(f, 1, 0, &nw));
  PF_TRY(h->infer_dims(f, 0, &x, &nd));
  PF_TRY(h->infer_dims(f, 1, &w, &nd));
  int row = a.nchw ? 2 : 1;
  double at = (double)x[0] * cost_positions(&a, row, x[row], w[0]) *
              cost_positions(&a, row + 1, x[row + 1], w[1]);
  *flops = 2 * at * nw;
  *bytes = cost_bytes(f, 0, nx + nw + at * (double)(depthwise ? w[2] * w[3] : w[3]));
  return PF_OK;
}
pf_status pf_conv_cost(pf_infer *f, double *flops, double *bytes) {
  return forward_cost(f, 0, flops, bytes);
}
pf_status pf_depthwise_cost(pf_infer *f, double *flops, double *bytes) {
  return forward_cost(f, 1, flops, bytes);
}

/* sizes: the input that says the sizes of the result; given: the other one beside dy. */
static pf_status gradient_cost(pf_infer *f, int32_t sizes, int32_t given, double *flops,
                               double *bytes) {
  const pf_host *h = f->host;
  const int64_t *dy;
  int32_t nd;
  cost_attrs a;
  double ndy, mine, result = 0;
  PF_TRY(cost_attributes(f, &a));
  PF_TRY(cost_elements(f, 2, 0, &ndy));
  PF_TRY(cost_elements(f, given, 0, &mine));
  pf_status known = cost_elements(f, sizes, 1, &result);
  if (known != PF_OK && sizes == 1) return known; /* the filter's sizes are the work */
  PF_TRY(h->infer_dims(f, 2, &dy, &nd));
  double channels = (double)PF_MAX(dy[a.nchw ? 1 : 3], 1);
  *flops = 2 * (ndy / channels) * (sizes == 1 ? result : mine);
  *bytes = cost_bytes(f, 2, ndy + mine + result);
  return PF_OK;
}
pf_status pf_input_cost(pf_infer *f, double *flops, double *bytes) {
  return gradient_cost(f, 0, 1, flops, bytes);
}
pf_status pf_filter_cost(pf_infer *f, double *flops, double *bytes) {
  return gradient_cost(f, 1, 0, flops, bytes);
}
