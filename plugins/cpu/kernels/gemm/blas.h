/* blas.h - an OpenBLAS that the loader has put into the process, or nothing.
 *
 * pf_blas_find runs once, while the plugin starts, and pins the library to one thread: pyflow's
 * parallel_for cuts the work, and OpenBLAS's own threads would fight the pool.  Afterwards the two
 * pointers only are read, by any thread.
 */
#ifndef PF_CPU_BLAS_H
#define PF_CPU_BLAS_H
typedef void (*pf_sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c,
                         int ldc);
typedef void (*pf_dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha,
                         const double *a, int lda, const double *b, int ldb, double beta, double *c,
                         int ldc);
enum { PF_BLAS_ROW_MAJOR = 101, PF_BLAS_PLAIN = 111, PF_BLAS_TRANSPOSED = 112 };
extern pf_sgemm pf_blas_sgemm; /* NULL: absent */
extern pf_dgemm pf_blas_dgemm;
void pf_blas_find(void);
#endif
