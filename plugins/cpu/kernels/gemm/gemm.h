/* gemm.h - matrix products for this plugin's kernels: c [m, n] = (add ? c : 0) + op(a) op(b),
 * row-major, and perhaps an epilogue.
 *
 * op(a) is [m, k]: element (i, p) at a[i * a_row + p * a_col]; one of the two strides is 1.  op(b)
 * likewise, [k, n]. `work` holds pf_gemm_work bytes, 64-aligned, private to the calling thread.
 *
 * Invariants
 *   1. Equal sizes and layouts give equal bits: `how`, chosen by pf_gemm_how for the whole product,
 *      decides the order of sums, and a part computed with the whole's `how` gets the whole's bits.
 *   2. Callers that cut c into tasks cut by rows or columns.
 */
#ifndef PF_CPU_GEMM_H
#define PF_CPU_GEMM_H
#include "base/common.h"
#include "base/isa.h"
#include "base/machine.h"
#include "gemm/epilogue.h"

/* The ways to a product; PF_GEMM_SWAP is or-ed: c^T = op(b)^T op(a)^T is computed. */
enum {
  PF_GEMM_BLOCKED,     /* packed panels of b, blocks of k */
  PF_GEMM_DIRECT,      /* b where it lies */
  PF_GEMM_DOTS,        /* rows of op(a) times columns of op(b), both contiguous */
  PF_GEMM_DOTS_PACKED, /* the same after a small b was transposed */
  PF_GEMM_DOT,         /* one such row and column */
  PF_GEMM_ROW,         /* few rows: sums of rows of b; not with SWAP but n 1 */
  PF_GEMM_SWAP = 16
};

typedef struct {
  int64_t m, n, k;
  const void *a, *b;
  int64_t a_row, a_col, b_row, b_col;
  void *c;
  int64_t ldc;
  int add, how, stream;        /* stream: results of pf_gemm_many go past the caches */
  const void *panels;          /* op(b) packed by pf_gemm_pack, for BLOCKED; or NULL */
  const pf_epilogue *epilogue; /* or NULL; f32 and f64 */
  void *work;
} pf_gemm;

/* `how` for the whole product; left 0 it is BLOCKED. */
int PF_ISA_NAME(pf_gemm_how)(const pf_gemm *g, int64_t element_size);
uint64_t PF_ISA_NAME(pf_gemm_work)(const pf_gemm *g, int64_t element_size);
void PF_ISA_NAME(pf_gemm_f32)(const pf_gemm *g);
void PF_ISA_NAME(pf_gemm_f64)(const pf_gemm *g);

/* Of bfloat16: an element of a and b is a pair of them, neighbours along k, which is counted in
 * pairs; c is float. For processors that multiply pairs (pf_gemm_has_pairs). */
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#define PF_GEMM_PAIRS 1
#else
#define PF_GEMM_PAIRS 0
#endif
#if PF_GEMM_PAIRS
void PF_ISA_NAME(pf_gemm_bf16)(const pf_gemm *g);
void PF_ISA_NAME(pf_gemm_many_bf16)(const pf_gemm *g, const int64_t *a_at, const int64_t *b_at,
                                    int64_t c_step, int64_t lo, int64_t hi);
int64_t PF_ISA_NAME(pf_gemm_pack_blocks_bf16)(const pf_gemm *g);
void PF_ISA_NAME(pf_gemm_pack_bf16)(const pf_gemm *g, void *panels, int64_t lo, int64_t hi);
#endif
PF_LOCAL int pf_gemm_has_pairs(void) {
#if PF_GEMM_PAIRS
  return pf_has_fast_pairs();
#else
  return 0;
#endif
}

/* Products lo .. hi of a batch: operands of product i begin a_at[i] and b_at[i] elements behind a
 * and b, its result i * c_step behind c. */
void PF_ISA_NAME(pf_gemm_many_f32)(const pf_gemm *g, const int64_t *a_at, const int64_t *b_at,
                                   int64_t c_step, int64_t lo, int64_t hi);
void PF_ISA_NAME(pf_gemm_many_f64)(const pf_gemm *g, const int64_t *a_at, const int64_t *b_at,
                                   int64_t c_step, int64_t lo, int64_t hi);

/* op(b) (with SWAP: op(a)) in panels, for several BLOCKED products: the bytes they take, how many
 * blocks they are, and the packing of blocks [lo, hi). */
uint64_t PF_ISA_NAME(pf_gemm_packed_bytes)(const pf_gemm *g, int64_t element_size);
int64_t PF_ISA_NAME(pf_gemm_pack_blocks_f32)(const pf_gemm *g);
int64_t PF_ISA_NAME(pf_gemm_pack_blocks_f64)(const pf_gemm *g);
void PF_ISA_NAME(pf_gemm_pack_f32)(const pf_gemm *g, void *panels, int64_t lo, int64_t hi);
void PF_ISA_NAME(pf_gemm_pack_f64)(const pf_gemm *g, void *panels, int64_t lo, int64_t hi);

/* any of the number types that have no vector kernel: int32, int64, complex64, complex128; conj: of
 * a, of b */
void PF_ISA_NAME(pf_gemm_plain)(const pf_gemm *g, int32_t type, int conj_a, int conj_b);
#endif
