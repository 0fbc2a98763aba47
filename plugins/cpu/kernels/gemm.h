/* gemm.h - matrix products for this plugin's kernels: c [m, n] = (add ? c : 0) + op(a) op(b),
 * row-major.
 *
 * op(a) is [m, k]: element (i, p) at a[i * a_row + p * a_col]; one of the two strides is 1.  op(b)
 * likewise, [k, n]. `work` holds pf_gemm_work bytes, 64-aligned, private to the calling thread.
 * Equal sizes and layouts give equal bits; callers that cut c into tasks do it by size alone, never
 * by thread count.
 */
#ifndef PF_CPU_GEMM_H
#define PF_CPU_GEMM_H
#include "common.h"
#include "isa.h"

typedef struct {
  int64_t m, n, k;
  const void *a, *b;
  int64_t a_row, a_col, b_row, b_col;
  void *c;
  int64_t ldc;
  int add;
  /* part of a larger c: sum in blocks of k, as the other parts do */
  int block;
  void *work;
} pf_gemm;

extern const pf_host *pf_cpu_host;   /* the host that started the plugin; NULL before */

uint64_t PF_ISA_NAME(pf_gemm_work)(const pf_gemm *g, int64_t element_size);
void PF_ISA_NAME(pf_gemm_f32)(const pf_gemm *g);
void PF_ISA_NAME(pf_gemm_f64)(const pf_gemm *g);
/* any of the number types that have no vector kernel: int32, int64, complex64, complex128; conj: of
 * a, of b */
void PF_ISA_NAME(pf_gemm_plain)(const pf_gemm *g, int32_t type, int conj_a, int conj_b);
#endif
