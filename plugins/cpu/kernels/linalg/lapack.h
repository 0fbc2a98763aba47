/* lapack.h - the LAPACK routines of the OpenBLAS that the loader may have brought (prefix scipy_).
 *
 * Invariants
 *   1. Filled once, while the plugin starts; every pointer is there, or `lapack.found` is 0 and
 *      callers use the plugin's own loops (dense_body.h).
 *   2. Fortran's convention: column-major, everything by reference, 32-bit integers; the lengths of
 *      strings go last and are 1.
 *   3. It sees finite numbers only (pf_are_finite): what it makes of infinities and NaN depends on
 *      its blocks, and those on the processor.
 * Threads: the library is pinned to one thread (blas.c); calls from several threads are
 * independent.
 */
#ifndef PF_CPU_LAPACK_H
#define PF_CPU_LAPACK_H
#include <complex.h>
#include "base/common.h"

typedef struct {
  int found;
  void (*sgetrf)(const int *m, const int *n, void *a, const int *lda, int *pivots, int *info);
  void (*dgetrf)(const int *m, const int *n, void *a, const int *lda, int *pivots, int *info);
  void (*cgetrf)(const int *m, const int *n, void *a, const int *lda, int *pivots, int *info);
  void (*zgetrf)(const int *m, const int *n, void *a, const int *lda, int *pivots, int *info);
  void (*sgetrs)(const char *t, const int *n, const int *k, const void *a, const int *lda,
                 const int *pivots, void *b, const int *ldb, int *info, size_t);
  void (*dgetrs)(const char *t, const int *n, const int *k, const void *a, const int *lda,
                 const int *pivots, void *b, const int *ldb, int *info, size_t);
  void (*cgetrs)(const char *t, const int *n, const int *k, const void *a, const int *lda,
                 const int *pivots, void *b, const int *ldb, int *info, size_t);
  void (*zgetrs)(const char *t, const int *n, const int *k, const void *a, const int *lda,
                 const int *pivots, void *b, const int *ldb, int *info, size_t);
  void (*spotrf)(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t);
  void (*dpotrf)(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t);
  void (*cpotrf)(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t);
  void (*zpotrf)(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t);
  void (*dgemm)(const char *ta, const char *tb, const int *m, const int *n, const int *k,
                const void *alpha, const void *a, const int *lda, const void *b, const int *ldb,
                const void *beta, void *c, const int *ldc, size_t, size_t);
  void (*zgemm)(const char *ta, const char *tb, const int *m, const int *n, const int *k,
                const void *alpha, const void *a, const int *lda, const void *b, const int *ldb,
                const void *beta, void *c, const int *ldc, size_t, size_t);
  void (*dsyrk)(const char *uplo, const char *trans, const int *n, const int *k,
                const double *alpha, const void *a, const int *lda, const double *beta, void *c,
                const int *ldc, size_t, size_t);
  void (*zherk)(const char *uplo, const char *trans, const int *n, const int *k,
                const double *alpha, const void *a, const int *lda, const double *beta, void *c,
                const int *ldc, size_t, size_t);
  void (*dgeqrf)(const int *m, const int *n, void *a, const int *lda, void *tau, void *work,
                 const int *lwork, int *info);
  void (*zgeqrf)(const int *m, const int *n, void *a, const int *lda, void *tau, void *work,
                 const int *lwork, int *info);
  void (*dorgqr)(const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau,
                 void *work, const int *lwork, int *info);
  void (*zungqr)(const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau,
                 void *work, const int *lwork, int *info);
  void (*dgesdd)(const char *jobz, const int *m, const int *n, void *a, const int *lda, double *s,
                 void *u, const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork,
                 int *iwork, int *info, size_t);
  void (*zgesdd)(const char *jobz, const int *m, const int *n, void *a, const int *lda, double *s,
                 void *u, const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork,
                 double *rwork, int *iwork, int *info, size_t);
  void (*dsyevd)(const char *jobz, const char *uplo, const int *n, void *a, const int *lda,
                 double *w, void *work, const int *lwork, int *iwork, const int *liwork, int *info,
                 size_t, size_t);
  void (*zheevd)(const char *jobz, const char *uplo, const int *n, void *a, const int *lda,
                 double *w, void *work, const int *lwork, double *rwork, const int *lrwork,
                 int *iwork, const int *liwork, int *info, size_t, size_t);
} pf_lapack_table;

extern pf_lapack_table pf_lapack;
void pf_lapack_find(void);

/* n numbers of float, double, complex64 or complex128 without an infinity or NaN */
PF_LOCAL int pf_are_finite(int32_t type, const void *a, int64_t n) {
  const uint32_t *f = (const uint32_t *)a;
  const uint64_t *d = (const uint64_t *)a;
  int any = 0;
  if (type == PF_COMPLEX64 || type == PF_COMPLEX128) n *= 2;
  if (type == PF_FLOAT32 || type == PF_COMPLEX64)
    for (int64_t i = 0; i < n; i++) any |= (f[i] & 0x7f800000u) == 0x7f800000u;
  else
    for (int64_t i = 0; i < n; i++) any |= (d[i] & 0x7ff0000000000000u) == 0x7ff0000000000000u;
  return !any;
}
#endif
