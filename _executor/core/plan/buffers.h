/* Buffers of a step: where the planner put the outputs of known size (buffers.pyx), and the memory they lie in.
 *
 * A PLACE is what was decided for one output when its plan was compiled.  An EXTENT is the memory of one running step: pages
 * with a bit each.  The bits alone decide who may write where, so a place is only a hint: if its pages are taken, the output
 * goes into another gap, or to the heap.
 */
#ifndef PF_BUFFERS_H
#define PF_BUFFERS_H
#include "plan/compile.h"
#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

static inline void pf_place_qsort(int32_t *a, int32_t n, int (*less)(const void *, const void *)) {
  qsort(a, (size_t)n, sizeof *a, less);
}

/* a heap of int64, least first */
static inline void pf_longs_push(int64_t *h, int32_t *n, int64_t x) {
  int32_t i = (*n)++;
  while (i > 0 && h[(i - 1) / 2] > x) { h[i] = h[(i - 1) / 2]; i = (i - 1) / 2; }
  h[i] = x;
}
static inline int64_t pf_longs_pop(int64_t *h, int32_t *n) {
  int64_t out = h[0], last = h[--(*n)];
  int32_t i = 0;
  for (;;) {
    int32_t k = 2 * i + 1;
    if (k >= *n) break;
    if (k + 1 < *n && h[k + 1] < h[k]) k++;
    if (h[k] >= last) break;
    h[i] = h[k];
    i = k;
  }
  if (*n) h[i] = last;
  return out;
}

/* Ops whose CPU kernels write their result over an input of equal size when nobody else needs it: bit i for input i; all
 * bits only count when the op has one output.  A prediction for the planner: one that does not come true costs a gap or a
 * heap block.  Plugins say it with pf_arg.reuse. */
typedef struct { const char *op; int32_t inputs; } pf_reusing_op;
static const pf_reusing_op pf_reusing_ops[] = {
  {"Relu", 1}, {"Relu6", 1}, {"Elu", 1}, {"Selu", 1}, {"Tanh", 1}, {"Sigmoid", 1}, {"Softplus", 1}, {"Softsign", 1},
  {"Neg", 1}, {"Abs", 1}, {"Sqrt", 1}, {"Rsqrt", 1}, {"Square", 1}, {"Exp", 1}, {"Log", 1}, {"Log1p", 1}, {"Reciprocal", 1},
  {"Sign", 1}, {"Floor", 1}, {"Ceil", 1}, {"Round", 1}, {"Sin", 1}, {"Cos", 1}, {"Erf", 1}, {"LeakyRelu", 1},
  {"Add", 3}, {"AddV2", 3}, {"Sub", 3}, {"Mul", 3}, {"Div", 3}, {"RealDiv", 3}, {"Maximum", 3}, {"Minimum", 3}, {"Pow", 3},
  {"SquaredDifference", 3}, {"ReluGrad", 3}, {"Relu6Grad", 3}, {"EluGrad", 3}, {"TanhGrad", 3}, {"SigmoidGrad", 3},
  {"SqrtGrad", 3}, {"RsqrtGrad", 3}, {"SoftplusGrad", 3}, {"LeakyReluGrad", 3}, {"DivNoNan", 3}, {"MulNoNan", 3},
  {"_FusedElementwise", 0x7fffffff}, {"AddN", 1}, {"BiasAdd", 1}, {"FusedBatchNormGrad", 1}, {"FusedBatchNormGradV2", 1}, {"FusedBatchNormGradV3", 1},
  {NULL, 0}
};
/* Ops whose result is input 0's buffer under another shape. */
static const char *const pf_aliasing_ops[] = {"Reshape", "ExpandDims", "Squeeze", "EnsureShape", NULL};
/* Ops whose outputs are, one by one, their inputs' buffers, as in TensorFlow: what reads them after an update of the variable
 * behind sees it (reads.pyx). */
static const char *const pf_passing_ops[] = {"Reshape", "ExpandDims", "Squeeze", "EnsureShape", "Bitcast", "CheckNumerics", "Print",
                                             "IdentityN", NULL};
#endif
