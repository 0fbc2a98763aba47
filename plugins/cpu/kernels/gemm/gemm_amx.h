/* gemm_amx.h - products of bfloat16 on the tile unit of Intel's server processors (AMX): 16
 * times the multiplications of float's vectors.
 *
 * Denormal operands and results count as zeros there; sums are float.
 */
#ifndef PF_CPU_GEMM_AMX_H
#define PF_CPU_GEMM_AMX_H
#include "gemm/gemm_product.h"

#if defined(__AVX512F__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    __GNUC__ >= 11
#define PF_GEMM_AMX 1
#else
#define PF_GEMM_AMX 0
#endif

#if PF_GEMM_AMX
/* Whether there is such a unit and the kernel lets this process use it. */
int PF_ISA_NAME(pf_gemm_has_amx)(void);
/* The product, or each of a batch without an epilogue, which has vectors of float: c is of float
 * where `floats`, of bfloat16 else. PF_DECLINE: too small. */
pf_status PF_ISA_NAME(pf_gemm_run_amx)(pf_ctx *c, const pf_gemm_call *p, int floats);
#endif

/* bfloat16 is multiplied faster than float: worth its conversions. */
PF_LOCAL int pf_gemm_has_bf16(void) {
#if PF_GEMM_AMX
  if (PF_ISA_NAME(pf_gemm_has_amx)()) return 1;
#endif
  return pf_gemm_has_pairs();
}
#endif
