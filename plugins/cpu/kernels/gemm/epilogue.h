/* epilogue.h - what follows a product or convolution in the same kernel: bias, residual sum,
 * activation.
 *
 *     y[i, j] = act(y[i, j] + row_bias[i] + col_bias[j] + side[i, j])
 *
 * Invariants
 *   1. An element gets the bits that BiasAdd, Add and the activation's own kernel would give it, in
 *      that order; NaN stays NaN.
 *   2. pf_fused_parse accepts the lists passes/fuse.py makes, each part of them perhaps absent:
 *      "BiasAdd", "Add", one activation; others are PF_UNIMPLEMENTED and say so.
 * Threads: pure; the epilogue writes only y. For files compiled per instruction set.
 *
 *     pf_epilogue e = {.act = f.act, .alpha = f.alpha, .col_bias = bias};
 *     pf_epilogue_f32(&e, y, ldy, rows, cols);        // while the block is still in the cache
 */
#ifndef PF_CPU_EPILOGUE_H
#define PF_CPU_EPILOGUE_H
#include "vec/vmath.h"

enum {
  PF_ACT_NONE,
  PF_ACT_RELU,
  PF_ACT_RELU6,
  PF_ACT_LEAKY_RELU,
  PF_ACT_ELU,
  PF_ACT_SIGMOID,
  PF_ACT_TANH,
  PF_ACT_HARD_SWISH,
  PF_ACT_SWISH,
  PF_ACT_COUNT
};

typedef struct {
  int bias, add, act;
  double alpha;
} pf_fused;

typedef struct {
  int act;
  double alpha;                    /* of LeakyRelu */
  const void *row_bias, *col_bias; /* of y's type; NULL: none */
  const void *side;                /* NULL, or ld_side elements from row to row; may be y */
  int64_t ld_side;
} pf_epilogue;

PF_LOCAL int pf_fused_is(pf_str s, const char *name) {
  return (size_t)s.len == strlen(name) && !memcmp(s.data, name, (size_t)s.len);
}

/* The activation called s; -1: none of ours. */
PF_LOCAL int pf_fused_act(pf_str s) {
  static const char *const names[PF_ACT_COUNT] = {
    "", "Relu", "Relu6", "LeakyRelu", "Elu", "Sigmoid", "Tanh", "HardSwish", "Swish"};
  for (int i = 1; i < PF_ACT_COUNT; i++)
    if (pf_fused_is(s, names[i])) return i;
  return -1;
}

/* fused_ops against the number of args the node has. */
PF_LOCAL pf_status pf_fused_parse(pf_ctx *c, const pf_list *fused_ops, double alpha, int64_t n_args,
                                  pf_fused *out) {
  const pf_str *s = (const pf_str *)fused_ops->items;
  int64_t i = 0, n = fused_ops->n;
  memset(out, 0, sizeof *out);
  out->alpha = alpha;
  if (i < n && pf_fused_is(s[i], "BiasAdd")) out->bias = 1, i++;
  if (i < n && pf_fused_is(s[i], "Add")) out->add = 1, i++;
  if (i < n) {
    int act = pf_fused_act(s[i]);
    if (act < 0 || i + 1 < n)
      return pf_failf(
          c, PF_UNIMPLEMENTED,
          "fused_ops[%d] is '%.*s', expected BiasAdd, Add and one of Relu, Relu6, "
          "LeakyRelu, Elu, Sigmoid, Tanh, HardSwish, Swish, in this order, each at most once",
          (int)i, (int)PF_MIN(s[i].len, 40), s[i].data);
    out->act = act;
  }
  if (n_args != out->bias + out->add)
    return PF_INVALID(c, "fused_ops reads %d args, the node has %" PRId64, out->bias + out->add,
                      n_args);
  return PF_OK;
}

#define PF_ACT_LOOP(T, expr) \
  PF_IVDEP for (int64_t j = 0; j < n; j++) { T x = y[j]; y[j] = (expr); } \
  break

/* x times max(0, min(1, x / 6 + 1 / 2)), as the five kernels that it stands for round it. */
#define PF_HARD_SWISH(TAG, T) \
  PF_INLINE T pf_hard_swish_##TAG(T x) { \
    T gate = x * (T)(1.0 / 6) + (T)0.5; \
    gate = gate > 1 ? (T)1 : gate; \
    return x * (gate < 0 ? (T)0 : gate); \
  }

#define PF_EPILOGUE(TAG, T) \
  PF_HARD_SWISH(TAG, T) \
  PF_LOCAL void pf_activate_##TAG(int act, T alpha, T *y, int64_t n) { \
    switch (act) { \
      case PF_ACT_RELU: PF_ACT_LOOP(T, x < 0 ? (T)0 : x); \
      case PF_ACT_RELU6: PF_ACT_LOOP(T, x < 0 ? (T)0 : x > 6 ? (T)6 : x); \
      case PF_ACT_LEAKY_RELU: PF_ACT_LOOP(T, x > 0 ? x : x * alpha); \
      case PF_ACT_ELU: PF_ACT_LOOP(T, x < 0 ? pf_expm1_##TAG(x) : x); \
      case PF_ACT_SIGMOID: PF_ACT_LOOP(T, pf_sigmoid_##TAG(x)); \
      case PF_ACT_TANH: PF_ACT_LOOP(T, pf_tanh_##TAG(x)); \
      case PF_ACT_HARD_SWISH: PF_ACT_LOOP(T, pf_hard_swish_##TAG(x)); \
      case PF_ACT_SWISH: PF_ACT_LOOP(T, x * pf_sigmoid_##TAG(x)); \
      default: break; \
    } \
  } \
  PF_LOCAL void pf_add_row_##TAG(T *y, const T *x, int64_t n) { \
    PF_IVDEP for (int64_t j = 0; j < n; j++) y[j] += x[j]; \
  } \
  PF_LOCAL void pf_epilogue_##TAG(const pf_epilogue *e, T *y, int64_t ldy, int64_t rows, \
                                  int64_t cols) { \
    const T *row_bias = (const T *)e->row_bias, *col_bias = (const T *)e->col_bias; \
    const T *side = (const T *)e->side; \
    for (int64_t i = 0; i < rows; i++, y += ldy) { \
      if (row_bias) { \
        const T b = row_bias[i]; \
        for (int64_t j = 0; j < cols; j++) y[j] += b; \
      } \
      if (col_bias) pf_add_row_##TAG(y, col_bias, cols); \
      if (side) pf_add_row_##TAG(y, side + i * e->ld_side, cols); \
      pf_activate_##TAG(e->act, (T)e->alpha, y, cols); \
    } \
  }
PF_EPILOGUE(f32, float)
PF_EPILOGUE(f64, double)
#endif
