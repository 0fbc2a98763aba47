/* triangular.h - triangular systems op(a) x = b, x [n, k] solved in place of b, row-major.
 *
 * Invariants
 *   1. A row of x is made of its own row of a and of b, and of the rows of x before it: where those
 *      are finite, infinities and NaN of other rows do not show.  The other triangle is not read.
 *   2. Equal sizes give equal bits; columns of x do not depend on each other.
 * Threads: pure; each thread has its own `work`.
 */
#ifndef PF_CPU_TRIANGULAR_H
#define PF_CPU_TRIANGULAR_H
#include "base/common.h"
#include "base/isa.h"

typedef struct {
  int64_t n, k, lda, ldx; /* lda, ldx: elements from row to row */
  const void *a;
  void *x;
  int32_t type;                 /* float, double, complex64 or complex128 */
  int32_t lower, adjoint, unit; /* op: a, or its adjoint; unit: ones on the diagonal */
} pf_triangle;

typedef struct {
  uint64_t (*work)(const pf_triangle *);
  void (*solve)(const pf_triangle *, void *work); /* work: so many bytes, 64-aligned */
} pf_triangular;

extern const pf_triangular pf_triangular_baseline;
#ifdef PF_HAVE_AVX2
extern const pf_triangular pf_triangular_avx2, pf_triangular_avx512;
#endif
PF_LOCAL const pf_triangular *pf_triangulars(void) {
#ifdef PF_HAVE_AVX2
  const int isa = pf_cpu_isa();
  return isa == PF_ISA_LEVEL_AVX512 ? &pf_triangular_avx512
         : isa == PF_ISA_LEVEL_AVX2 ? &pf_triangular_avx2
                                    : &pf_triangular_baseline;
#else
  return &pf_triangular_baseline;
#endif
}
#endif
