/* factor.c - Qr, Svd, SelfAdjointEigV2, Lu, LogMatrixDeterminant, CholeskyGrad, MatrixTriangularSolve,
 * MatrixSolveLs, MatrixSquareRoot, MatrixLogarithm, TridiagonalSolve, TridiagonalMatMul.
 *
 * Invariants
 *   1. Tensors are [..., m, n]; one matrix after another is worked on in scratch memory, in double.
 *   2. Larger matrices go to LAPACK where it was found (lapack.h), others to dense_body.h.
 *   3. NaN and infinity give NaN: LAPACK's iterations never see them.
 * Threads: one per call; batches are not split, as the library's routines dominate.
 */
#include "gemm/dense.h"

typedef struct { int32_t full_matrices; } qr_state;
typedef struct { int32_t compute_uv, full_matrices; } svd_state;
typedef struct { int32_t compute_v; } eig_state;
typedef struct { int32_t lower, adjoint; } triangular_state;
typedef struct { int32_t fast; } ls_state;
typedef struct { int32_t partial_pivoting, perturb_singular; } tridiagonal_state;

/* LAPACK's divide and conquer: 1 done, 0 it did not converge, -1 no memory */
static int gesdd_d(pf_ctx *c, double *a, double *s, double *u, double *vt, int m, int n, int pu,
                   int pv) {
  int k = PF_MIN(m, n), ask = -1, info = 0, *iwork = (int *)pf_room(c, 1, 8, k);
  const char *job = pu == k && pv == k ? "S" : "A";
  double wanted = 0;
  if (!iwork) return -1;
  pf_lapack.dgesdd(job, &m, &n, a, &m, s, u, &m, vt, &pv, &wanted, &ask, iwork, &info, 1);
  int size = (int)wanted;
  double *work = (double *)pf_room(c, 1, 1, size);
  if (!work) return -1;
  pf_lapack.dgesdd(job, &m, &n, a, &m, s, u, &m, vt, &pv, work, &size, iwork, &info, 1);
  return info == 0;
}
static int gesdd_z(pf_ctx *c, double _Complex *a, double *s, double _Complex *u,
                   double _Complex *vt, int m, int n, int pu, int pv) {
  int k = PF_MIN(m, n), most = PF_MAX(m, n), ask = -1, info = 0;
  int *iwork = (int *)pf_room(c, 1, 8, k);
  double *rwork = (double *)pf_room(c, 1, k, 5 * k + 7 + 2 * most);
  const char *job = pu == k && pv == k ? "S" : "A";
  double _Complex wanted = 0;
  if (!iwork || !rwork) return -1;
  pf_lapack.zgesdd(job, &m, &n, a, &m, s, u, &m, vt, &pv, &wanted, &ask, rwork, iwork, &info, 1);
  int size = (int)creal(wanted);
  double _Complex *work = (double _Complex *)pf_room(c, 1, 1, size);
  if (!work) return -1;
  pf_lapack.zgesdd(job, &m, &n, a, &m, s, u, &m, vt, &pv, work, &size, rwork, iwork, &info, 1);
  return info == 0;
}
static int syevd_d(pf_ctx *c, double *a, double *w, int n) {
  int ask = -1, info = 0, integers = 0;
  double wanted = 0;
  pf_lapack.dsyevd("V", "L", &n, a, &n, w, &wanted, &ask, &integers, &ask, &info, 1, 1);
  int size = (int)wanted, isize = integers;
  double *work = (double *)pf_room(c, 1, 1, size);
  int *iwork = (int *)pf_room(c, 1, 1, isize);
  if (!work || !iwork) return -1;
  pf_lapack.dsyevd("V", "L", &n, a, &n, w, work, &size, iwork, &isize, &info, 1, 1);
  return info == 0;
}
static int syevd_z(pf_ctx *c, double _Complex *a, double *w, int n) {
  int ask = -1, info = 0, integers = 0;
  double _Complex wanted = 0;
  double reals = 0;
  pf_lapack.zheevd("V", "L", &n, a, &n, w, &wanted, &ask, &reals, &ask, &integers, &ask, &info, 1,
                   1);
  int size = (int)creal(wanted), rsize = (int)reals, isize = integers;
  double _Complex *work = (double _Complex *)pf_room(c, 1, 1, size);
  double *rwork = (double *)pf_room(c, 1, 1, rsize);
  int *iwork = (int *)pf_room(c, 1, 1, isize);
  if (!work || !rwork || !iwork) return -1;
  pf_lapack.zheevd("V", "L", &n, a, &n, w, work, &size, rwork, &rsize, iwork, &isize, &info, 1, 1);
  return info == 0;
}

/* The library multiplies by reciprocals of the diagonal: none may overflow. */
static int has_reciprocals(const void *a, int64_t n, int single, int parts) {
  const double least = single ? 2 / (double)FLT_MAX : 2 / DBL_MAX;
  for (int64_t i = 0; i < n; i++) {
    double size = 0;
    for (int p = 0; p < parts; p++) {
      int64_t at = (i * n + i) * parts + p;
      size = fmax(size, fabs(single ? ((const float *)a)[at] : ((const double *)a)[at]));
    }
    if (size < least) return 0;
  }
  return 1;
}

/* x [n, k] = op(a)^-1 x in the tensor's own type, op the adjoint perhaps; row-major: Fortran sees
 * x^T op(a)^T = x^T.  0: too small to be worth it, or not for the library, or no library. */
enum { LEAST_TRSM = 32, LEAST_LIBRARY_GRAM = 16 };
static int trsm(int32_t type, const void *a, void *x, int64_t n, int64_t k, int lower,
                int adjoint) {
  const float f = 1;
  const double d = 1;
  const float _Complex w = 1;
  const double _Complex z = 1;
  const int rows = (int)k, size = (int)n;
  const int which = type == PF_FLOAT32 ? 0 : type == PF_FLOAT64 ? 1 : type == PF_COMPLEX64 ? 2
                    : type == PF_COMPLEX128 ? 3 : -1;
  const void *const ones[] = {&f, &d, &w, &z};
  if (!pf_lapack.found || which < 0 || n < LEAST_TRSM || n > INT_MAX || k > INT_MAX || !k) return 0;
  if (!has_reciprocals(a, n, which % 2 == 0, which < 2 ? 1 : 2)) return 0;
  pf_lapack.trsm[which]("R", lower ? "U" : "L", adjoint ? "C" : "N", "N", &rows, &size,
                        ones[which], a, &size, x, &rows, 1, 1, 1, 1);
  return 1;
}

#define T double
#define N PF_D
#define CONJ PF_SAME
#define ABS fabs
#define REAL PF_SAME
#define LAPACK_QR pf_lapack.dgeqrf
#define LAPACK_Q pf_lapack.dorgqr
#define LAPACK_GEMM pf_lapack.dgemm
#define LAPACK_GRAM pf_lapack.dsyrk
#define LAPACK_CHOLESKY pf_lapack.dpotrf
#define WORK_TYPE PF_FLOAT64
#include "gemm/dense_body.h"
#include "linalg/factor_body.h"
#undef T
#undef N
#undef CONJ
#undef ABS
#undef REAL
#undef LAPACK_QR
#undef LAPACK_Q
#undef LAPACK_GEMM
#undef LAPACK_GRAM
#undef LAPACK_CHOLESKY
#undef WORK_TYPE

#define T double _Complex
#define N PF_Z
#define CONJ conj
#define ABS cabs
#define REAL creal
#define LAPACK_QR pf_lapack.zgeqrf
#define LAPACK_Q pf_lapack.zungqr
#define LAPACK_GEMM pf_lapack.zgemm
#define LAPACK_GRAM pf_lapack.zherk
#define LAPACK_CHOLESKY pf_lapack.zpotrf
#define WORK_TYPE PF_COMPLEX128
#include "gemm/dense_body.h"
#include "linalg/factor_body.h"

PF_DENSE(qr) PF_DENSE(svd) PF_DENSE(eigh) PF_DENSE(lu_op) PF_DENSE(log_determinant)
PF_DENSE(cholesky_grad) PF_DENSE(triangular) PF_DENSE(least_squares) PF_DENSE(sqrtm) PF_DENSE(logm)
PF_DENSE(tridiagonal_solve) PF_DENSE(tridiagonal_matmul)

#define ATTRIBUTES(S, ...) .state_size = sizeof(S), .attrs = PF_ATTRS(__VA_ARGS__)
#define FLAG(S, f) PF_ATTR(S, PF_ATTR_BOOL, f)
#define DENSE(op, f, ...) \
  PF_CPU_FLAGS(op, "T=" DENSE_TYPES, PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE, \
               .compute = f, __VA_ARGS__)
const pf_kernel *const factor_kernels[] = {
  PF_CPU_FLAGS("Qr", "T=half|" DENSE_TYPES, PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE,
               .compute = qr, ATTRIBUTES(qr_state, FLAG(qr_state, full_matrices))),
  DENSE("Svd", svd, ATTRIBUTES(svd_state, FLAG(svd_state, compute_uv),
                               FLAG(svd_state, full_matrices))),
  DENSE("SelfAdjointEigV2", eigh, ATTRIBUTES(eig_state, FLAG(eig_state, compute_v))),
  DENSE("Lu", lu_op), DENSE("LogMatrixDeterminant", log_determinant),
  DENSE("CholeskyGrad", cholesky_grad),
  DENSE("MatrixTriangularSolve", triangular,
        ATTRIBUTES(triangular_state, FLAG(triangular_state, lower),
                   FLAG(triangular_state, adjoint))),
  DENSE("MatrixSolveLs", least_squares, ATTRIBUTES(ls_state, FLAG(ls_state, fast))),
  DENSE("MatrixSquareRoot", sqrtm), DENSE("MatrixLogarithm", logm),
  DENSE("TridiagonalSolve", tridiagonal_solve,
        ATTRIBUTES(tridiagonal_state, FLAG(tridiagonal_state, partial_pivoting),
                   FLAG(tridiagonal_state, perturb_singular))),
  DENSE("TridiagonalMatMul", tridiagonal_matmul),
  NULL};
