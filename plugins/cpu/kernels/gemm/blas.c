/* blas.c - finds OpenBLAS in the process (blas.h says why and when).  Threads: pf_blas_find by one
 * thread, at start. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif
#include "gemm/blas.h"
#include <stddef.h>

pf_sgemm pf_blas_sgemm;
pf_dgemm pf_blas_dgemm;

#if defined(PF_NO_BLAS) || defined(_WIN32)
void pf_blas_find(void) {}
#else
#include <dlfcn.h>
void pf_blas_find(void) {
  void (*threads)(int) = NULL;
  void *s = dlsym(RTLD_DEFAULT, "scipy_cblas_sgemm"), *d = dlsym(RTLD_DEFAULT, "scipy_cblas_dgemm");
  void *t = dlsym(RTLD_DEFAULT, "scipy_openblas_set_num_threads");
  if (!s || !d || !t) return;
  *(void **)&threads = t; /* the POSIX way from object to function pointer */
  threads(1);
  *(void **)&pf_blas_sgemm = s;
  *(void **)&pf_blas_dgemm = d;
}
#endif
