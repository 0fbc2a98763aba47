/* factor.c - Qr, Svd, SelfAdjointEigV2, Lu, LogMatrixDeterminant, CholeskyGrad,
 * MatrixTriangularSolve, MatrixSolveLs, TridiagonalSolve, TridiagonalMatMul.
 *
 * Invariants
 *   1. Tensors are [..., m, n]; one matrix after another is worked on in scratch memory, in double.
 *   2. Larger finite matrices go to LAPACK where it was found (lapack.h), others to dense_body.h;
 *      triangular systems to triangular.h.
 *   3. NaN and infinity give NaN: LAPACK's iterations never see them.
 * Threads: one per call, as the library's routines dominate; triangular systems are cut by matrices
 * and columns.
 */
#include "gemm/dense.h"
#include "linalg/triangular.h"

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

enum { LEAST_LIBRARY_GRAM = 16 };

/* ---------------------------------------------------------------- MatrixTriangularSolve */
/* Tasks are columns of one of the right-hand sides, cut by sizes alone. */
enum { LEAST_BLOCKED = 32, LEAST_COLUMNS = 64, MOST_COLUMNS = 256 };
#define TASK_PRODUCTS 250000            /* the least one task does */
typedef struct {
  const DLTensor *a, *b;
  const int64_t *shape; /* of x */
  char *x, *work;
  uint64_t work_bytes;      /* of each worker */
  int64_t n, k, unit, cuts; /* columns of a task, tasks of a right-hand side */
  int32_t nd, type, lower, adjoint;
} triangular_job;

/* Which matrix of a and of b is in the i-th of the result, where batches broadcast. */
static void operands_of(const triangular_job *j, int64_t i, int64_t *at_a, int64_t *at_b) {
  int64_t step_a = 1, step_b = 1;
  *at_a = *at_b = 0;
  for (int32_t d = j->nd - 3; d >= 0; d--) {
    const int32_t ia = j->a->ndim - j->nd + d, ib = j->b->ndim - j->nd + d;
    const int64_t k = i % j->shape[d];
    i /= j->shape[d];
    if (ia >= 0) *at_a += (j->a->shape[ia] == 1 ? 0 : k) * step_a, step_a *= j->a->shape[ia];
    if (ib >= 0) *at_b += (j->b->shape[ib] == 1 ? 0 : k) * step_b, step_b *= j->b->shape[ib];
  }
}
static pf_triangle triangle_of(const triangular_job *j, int64_t columns) {
  return (pf_triangle){.n = j->n,
                       .k = columns,
                       .lda = j->n,
                       .ldx = j->k,
                       .type = j->type,
                       .lower = j->lower,
                       .adjoint = j->adjoint};
}
static void solve_blocked(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const triangular_job *j = (const triangular_job *)arg;
  const int64_t size = pf_type_size(j->type);
  for (int64_t task = lo; task < hi; task++) {
    const int64_t i = task / j->cuts, from = task % j->cuts * j->unit;
    int64_t at_a, at_b;
    operands_of(j, i, &at_a, &at_b);
    pf_triangle t = triangle_of(j, PF_MIN(j->unit, j->k - from));
    const char *b = PF_DATA(char, j->b) + (at_b * j->n * j->k + from) * size;
    char *x = j->x + (i * j->n * j->k + from) * size;
    for (int64_t r = 0; r < j->n; r++)
      memcpy(x + r * j->k * size, b + r * j->k * size, (size_t)(t.k * size));
    t.a = PF_DATA(char, j->a) + at_a * j->n * j->n * size;
    t.x = x;
    pf_triangulars()->solve(&t, j->work + j->work_bytes * (uint64_t)worker);
  }
}
/* 0 on the diagonal of one of `count` matrices */
static int has_zero(const DLTensor *a, int32_t type, int64_t count, int64_t n) {
  const int parts = pf_is_complex(type) ? 2 : 1;
  const int single = type == PF_FLOAT32 || type == PF_COMPLEX64;
  for (int64_t i = 0; i < count * n; i++) {
    const int64_t at = (i / n * n * n + i % n * (n + 1)) * parts;
    int zero = 1;
    for (int p = 0; p < parts; p++)
      zero &= single ? PF_DATA(const float, a)[at + p] == 0 : PF_DATA(const double, a)[at + p] == 0;
    if (zero) return 1;
  }
  return 0;
}
static int64_t columns_of_task(int64_t n, int64_t k) {
  if (k <= LEAST_COLUMNS || n < LEAST_BLOCKED) return PF_MIN(k, LEAST_COLUMNS);
  const int64_t quarter = (k / 4 + LEAST_COLUMNS - 1) / LEAST_COLUMNS * LEAST_COLUMNS;
  return PF_MIN(PF_MAX(quarter, LEAST_COLUMNS), MOST_COLUMNS);
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

PF_DENSE(qr)
PF_DENSE(svd)
PF_DENSE(eigh)
PF_DENSE(lu_op)
PF_DENSE(log_determinant)
PF_DENSE(cholesky_grad)
PF_DENSE(least_squares)
PF_DENSE(tridiagonal_solve)
PF_DENSE(tridiagonal_matmul)

static pf_status triangular(pf_ctx *c, const void *state) {
  const triangular_state *o = (const triangular_state *)state;
  const DLTensor *a = c->in[0], *b = c->in[1];
  matrices s, r;
  int64_t shape[PF_MAX_DIMS];
  PF_TRY(pf_squares(c, 0, "matrix", &s));
  PF_TRY(pf_matrices(c, 1, "rhs", &r));
  if (r.m != s.n)
    return PF_INVALID(c, "Input matrix and rhs are incompatible: matrix %s, rhs %s", PF_SHAPE(a).s,
                      PF_SHAPE(b).s);
  const int32_t nd = PF_MAX(a->ndim, b->ndim);
  for (int32_t i = 0; i < nd - 2; i++) {
    const int32_t ia = a->ndim - nd + i, ib = b->ndim - nd + i;
    const int64_t u = ia < 0 ? 1 : a->shape[ia], v = ib < 0 ? 1 : b->shape[ib];
    if (u != v && u != 1 && v != 1)
      return PF_INVALID(c, "Batch dimensions of matrix %s and rhs %s do not broadcast",
                        PF_SHAPE(a).s, PF_SHAPE(b).s);
    shape[i] = u == 1 ? v : u;
  }
  shape[nd - 2] = s.n, shape[nd - 1] = r.n;
  DLTensor *x = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(x);
  const int64_t count = pf_product(shape, 0, nd - 2);
  if (count > 0 && has_zero(a, c->in_type[0], s.count, s.n))
    return PF_INVALID(c, "Input matrix is not invertible.");
  if (pf_numel(x) == 0) return PF_OK;
  triangular_job j = {.a = a,
                      .b = b,
                      .shape = shape,
                      .x = PF_DATA(char, x),
                      .n = s.n,
                      .k = r.n,
                      .nd = nd,
                      .type = c->in_type[0],
                      .lower = o->lower,
                      .adjoint = o->adjoint};
  j.unit = columns_of_task(j.n, j.k);
  j.cuts = (j.k + j.unit - 1) / j.unit;
  const int blocked = j.n >= LEAST_BLOCKED;
  const pf_triangle widest = triangle_of(&j, j.unit);
  const double each = (double)j.n * (double)j.n * (double)j.unit;
  j.work_bytes = blocked ? pf_triangulars()->work(&widest)
                         : (uint64_t)(j.n * (j.n + j.unit)) * sizeof(double _Complex);
  j.work_bytes = (j.work_bytes + 63) / 64 * 64;
  const int32_t workers = count * j.cuts == 1 ? 1 : c->host->workers(c);
  j.work = (char *)c->host->scratch(c, j.work_bytes * (uint64_t)workers, 64);
  if (!j.work) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a triangular system");
  return c->host->parallel_for(c, count * j.cuts, 1 + (int64_t)(TASK_PRODUCTS / each),
                               blocked                 ? solve_blocked
                               : pf_is_complex(j.type) ? solve_small_z
                                                       : solve_small_d,
                               &j);
}

#define ATTRIBUTES(S, ...) .state_size = sizeof(S), .attrs = PF_ATTRS(__VA_ARGS__)
#define FLAG(S, f) PF_ATTR(S, PF_ATTR_BOOL, f)
#define DENSE(op, f, ...) \
  PF_CPU_FLAGS(op, "T=" DENSE_TYPES, PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE, \
               .compute = f, __VA_ARGS__)
const pf_kernel *const factor_kernels[] = {
  PF_CPU_FLAGS("Qr", "T=half|" DENSE_TYPES, PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE,
               .compute = qr, ATTRIBUTES(qr_state, FLAG(qr_state, full_matrices))),
  DENSE("Svd", svd,
        ATTRIBUTES(svd_state, FLAG(svd_state, compute_uv), FLAG(svd_state, full_matrices))),
  DENSE("SelfAdjointEigV2", eigh, ATTRIBUTES(eig_state, FLAG(eig_state, compute_v))),
  DENSE("Lu", lu_op),
  DENSE("LogMatrixDeterminant", log_determinant),
  DENSE("CholeskyGrad", cholesky_grad),
  DENSE(
      "MatrixTriangularSolve", triangular,
      ATTRIBUTES(triangular_state, FLAG(triangular_state, lower), FLAG(triangular_state, adjoint))),
  DENSE("MatrixSolveLs", least_squares, ATTRIBUTES(ls_state, FLAG(ls_state, fast))),
  DENSE("TridiagonalSolve", tridiagonal_solve,
        ATTRIBUTES(tridiagonal_state, FLAG(tridiagonal_state, partial_pivoting),
                   FLAG(tridiagonal_state, perturb_singular))),
  DENSE("TridiagonalMatMul", tridiagonal_matmul),
  NULL};
