/* gemm_product.h - one matrix product, or a batch of them, as a kernel runs it: on the host's
 * threads, of any type of number.
 *
 * Invariants
 *   1. Equal inputs give equal bits on any number of threads.
 *   2. Halves are multiplied as float and rounded once, after the epilogue.
 */
#ifndef PF_CPU_GEMM_PRODUCT_H
#define PF_CPU_GEMM_PRODUCT_H
#include "base/packed.h"
#include "gemm/gemm.h"

/* Scratch that the products of a loop share, which sets `next` to 0 before each: what one took in
 * some turn serves the next one in the same turn. */
enum { PF_GEMM_TURNS = 8 };
typedef struct {
  int32_t next;
  void *at[PF_GEMM_TURNS];
  uint64_t bytes[PF_GEMM_TURNS];
} pf_gemm_room;

/* Scratch as the host's; room: or NULL. */
PF_LOCAL void *pf_gemm_scratch(pf_ctx *c, pf_gemm_room *room, uint64_t bytes) {
  if (!room || room->next == PF_GEMM_TURNS) return c->host->scratch(c, bytes, 64);
  const int32_t turn = room->next++;
  if (!room->at[turn] || room->bytes[turn] < bytes)
    room->at[turn] = c->host->scratch(c, room->bytes[turn] = bytes, 64);
  return room->at[turn];
}

typedef struct {
  pf_gemm g; /* the first product; panels: op(b), packed at plan time */
  int32_t type, conj_a, conj_b;
  int64_t batches;            /* 0 and 1: one product */
  const int64_t *a_at, *b_at; /* element offset of each of a batch */
  pf_gemm_room *room;         /* or NULL */
} pf_gemm_call;

/* Runs it, parallel where that pays. */
pf_status PF_ISA_NAME(pf_gemm_run)(pf_ctx *c, const pf_gemm_call *p);
/* Its two cases; where PF_GEMM_PAIRS, bfloat16 to run_numbers means pairs of them, c float. */
pf_status PF_ISA_NAME(pf_gemm_run_numbers)(pf_ctx *c, const pf_gemm_call *p);
pf_status PF_ISA_NAME(pf_gemm_run_halves)(pf_ctx *c, const pf_gemm_call *p);
/* Complex products as real ones (gemm_complex.c), where that pays. */
int PF_ISA_NAME(pf_gemm_is_complex)(const pf_gemm_call *p);
pf_status PF_ISA_NAME(pf_gemm_run_complex)(pf_ctx *c, const pf_gemm_call *p);
/* One product of bfloat16 into floats. */
pf_status PF_ISA_NAME(pf_gemm_run_pairs)(pf_ctx *c, const pf_gemm_call *p);
/* Strides of op(a) and op(b) for matrices stored [rows, cols]. */
PF_LOCAL void pf_gemm_layout(pf_gemm *g, int ta, int tb, int64_t a_cols, int64_t b_cols) {
  g->a_row = ta ? 1 : a_cols;
  g->a_col = ta ? a_cols : 1;
  g->b_row = tb ? 1 : b_cols;
  g->b_col = tb ? b_cols : 1;
  g->ldc = g->n;
}

/* A constant op(b) [k, n], packed once for all products with it. */
typedef struct {
  const float *panels; /* NULL: not held, input b is there */
  int64_t k, n;
} pf_gemm_held;

/* In init: takes input `in`, a matrix stored [n, k] if tb, packed, if it is constant and packing
 * pays, and lets the constant itself go. */
pf_status PF_ISA_NAME(pf_gemm_hold)(pf_ctx *c, int32_t in, int32_t type, int tb,
                                    pf_gemm_held *held);

/* Flops and bytes of MatMul and _FusedMatMul. */
pf_status PF_ISA_NAME(pf_matmul_cost)(pf_infer *f, double *flops, double *bytes);
#endif
