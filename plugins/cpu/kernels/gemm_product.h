/* gemm_product.h - one matrix product, or a batch of them, as a kernel runs it: on the host's
 * threads, of any type of number.
 *
 * Invariants
 *   1. Equal inputs give equal bits on any number of threads.
 *   2. Halves are multiplied as float and rounded once, after the epilogue.
 */
#ifndef PF_CPU_GEMM_PRODUCT_H
#define PF_CPU_GEMM_PRODUCT_H
#include "gemm.h"

typedef struct {
  pf_gemm g;                            /* the first product; panels: op(b), packed at plan time */
  int32_t type, conj_a, conj_b;
  int64_t batches;                      /* 0 and 1: one product */
  const int64_t *a_at, *b_at;           /* element offset of each batch entry; of n products: NULL */
} pf_gemm_call;

/* Runs it, parallel where that pays. */
pf_status PF_ISA_NAME(pf_gemm_run)(pf_ctx *c, pf_gemm_call *p);
/* Strides of op(a) and op(b) for matrices stored [rows, cols]. */
PF_LOCAL void pf_gemm_layout(pf_gemm *g, int ta, int tb, int64_t a_cols, int64_t b_cols) {
  g->a_row = ta ? 1 : a_cols;
  g->a_col = ta ? a_cols : 1;
  g->b_row = tb ? 1 : b_cols;
  g->b_col = tb ? b_cols : 1;
  g->ldc = g->n;
}
#endif
