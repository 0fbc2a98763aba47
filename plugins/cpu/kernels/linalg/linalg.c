/* linalg.c - MatrixInverse, MatrixDeterminant, MatrixSolve, Cholesky: small square matrices.
 *
 * Invariants
 *   1. A tensor is [..., n, n]; each matrix is worked on in a scratch copy, its adjoint taken
 *      while copying.
 *   2. LU has partial pivoting (Golub and Van Loan, 3.4); a pivot of exactly 0 means singular.  NaN
 *      and infinities pass through.
 *   3. From LAPACK_FROM rows on LAPACK does finite ones, where it was found (lapack.h); else these
 *      O(n^3) loops.
 */
#include <complex.h>
#include "base/common.h"
#include "linalg/lapack.h"

#define LINALG_TYPES "float|double|complex64|complex128"

typedef struct {
  int64_t n, count, columns; /* rows, matrices, columns of a right-hand side */
  int32_t adjoint, type;     /* type: of the work, float for halves */
  const void *a;             /* the matrices and */
  void *y;                   /* the results, of that type */
} square;

/* The scratch copy of one matrix, conjugate transposed for `adjoint`; the LU factors in place with
 * the row order (lu gives the sign of that permutation, 0 where the matrix is singular); x = A^-1 b
 * by substitution; the Cholesky factor. */
#define MATRIX(T, TAG, SIZE, CONJ, REAL) \
  static void copy_##TAG(const T *a, T *m, int64_t n, int32_t adjoint) { \
    for (int64_t i = 0; i < n; i++) \
      for (int64_t j = 0; j < n; j++) m[i * n + j] = adjoint ? CONJ(a[j * n + i]) : a[i * n + j]; \
  } \
  static int lu_##TAG(T *m, int64_t *order, int64_t n) { \
    int sign = 1; \
    for (int64_t i = 0; i < n; i++) order[i] = i; \
    for (int64_t k = 0; k < n; k++) { \
      int64_t p = k; \
      for (int64_t i = k + 1; i < n; i++) if (SIZE(m[i * n + k]) > SIZE(m[p * n + k])) p = i; \
      if (SIZE(m[p * n + k]) == 0) return 0; \
      if (p != k) { \
        for (int64_t j = 0; j < n; j++) { \
          T t = m[k * n + j]; m[k * n + j] = m[p * n + j], m[p * n + j] = t; \
        } \
        int64_t t = order[k]; order[k] = order[p], order[p] = t, sign = -sign; \
      } \
      for (int64_t i = k + 1; i < n; i++) { \
        T f = m[i * n + k] /= m[k * n + k]; \
        for (int64_t j = k + 1; j < n; j++) m[i * n + j] -= f * m[k * n + j]; \
      } \
    } \
    return sign; \
  } \
  static void solve_##TAG(const T *m, const int64_t *order, const T *b, T *x, int64_t n, \
      int64_t columns) { \
    for (int64_t i = 0; i < n; i++) { \
      T *row = x + i * columns; \
      for (int64_t j = 0; j < columns; \
          j++) row[j] = b ? b[order[i] * columns + j] : (T)(order[i] == j); \
      for (int64_t k = 0; k < i; k++) \
        for (int64_t j = 0; j < columns; j++) row[j] -= m[i * n + k] * x[k * columns + j]; \
    } \
    for (int64_t i = n - 1; i >= 0; i--) { \
      T *row = x + i * columns; \
      for (int64_t k = i + 1; k < n; k++) \
        for (int64_t j = 0; j < columns; j++) row[j] -= m[i * n + k] * x[k * columns + j]; \
      for (int64_t j = 0; j < columns; j++) row[j] /= m[i * n + i]; \
    } \
  } \
  static int cholesky_##TAG(const T *a, T *l, int64_t n) {      /* 0: not positive definite */ \
    for (int64_t i = 0; i < n; i++) { \
      for (int64_t j = 0; j <= i; j++) { \
        T s = a[i * n + j]; \
        for (int64_t k = 0; k < j; k++) s -= l[i * n + k] * CONJ(l[j * n + k]); \
        if (i > j) l[i * n + j] = s / l[j * n + j]; \
        else if (REAL(s) <= 0) return 0; \
        else l[i * n + i] = sqrt(REAL(s)); \
      } \
      for (int64_t j = i + 1; j < n; j++) l[i * n + j] = 0; \
    } \
    return 1; \
  } \
  static int64_t invert_all_##TAG(const square *s, const void *a, const void *b, void *y, \
      void *work, int64_t *order) { \
    for (int64_t i = 0; i < s->count; i++) { \
      copy_##TAG((const T *)a + i * s->n * s->n, (T *)work, s->n, s->adjoint); \
      if (!lu_##TAG((T *)work, order, s->n)) return i; \
      solve_##TAG((const T *)work, order, b ? (const T *)b + i * s->n * s->columns : NULL, \
                  (T *)y + i * s->n * s->columns, s->n, s->columns); \
    } \
    return -1; \
  } \
  static int64_t determine_all_##TAG(const square *s, const void *a, const void *b, void *y, \
      void *work, int64_t *order) { \
    (void)b; \
    for (int64_t i = 0; i < s->count; i++) { \
      copy_##TAG((const T *)a + i * s->n * s->n, (T *)work, s->n, 0); \
      T d = (T)lu_##TAG((T *)work, order, s->n); \
      for (int64_t k = 0; k < s->n; k++) d = d == 0 ? 0 : d * ((const T *)work)[k * s->n + k]; \
      ((T *)y)[i] = d; \
    } \
    return -1; \
  } \
  static int64_t cholesky_all_##TAG(const square *s, const void *a, const void *b, void *y, \
      void *work, int64_t *order) { \
    (void)b; (void)work; (void)order; \
    for (int64_t i = 0; i < s->count; i++) \
      if (!cholesky_##TAG((const T *)a + i * s->n * s->n, (T *)y + i * s->n * s->n, \
          s->n)) return i; \
    return -1; \
  }
#define SAME(x) (x)
MATRIX(float, f32, fabsf, SAME, SAME)
MATRIX(double, f64, fabs, SAME, SAME)
MATRIX(float _Complex, c64, cabsf, conjf, crealf)
MATRIX(double _Complex, c128, cabs, conj, creal)

/* every matrix of a batch; -1, or the first that cannot be done */
typedef int64_t (*batch_loop)(const square *, const void *a, const void *b, void *y, void *work,
                              int64_t *order);
#define LOOPS(NAME) \
  static const batch_loop NAME##_loops[PF_TYPE_COUNT] = { \
    [PF_FLOAT32] = NAME##_all_f32, [PF_FLOAT64] = NAME##_all_f64, \
    [PF_COMPLEX64] = NAME##_all_c64, [PF_COMPLEX128] = NAME##_all_c128};
LOOPS(invert)
LOOPS(determine)
LOOPS(cholesky)

typedef struct { int32_t adjoint; } adjoint_state;
static const pf_attr adjoint_attr = {sizeof(pf_attr), 0, "adjoint", PF_ATTR_BOOL,
                                     offsetof(adjoint_state, adjoint)};

static pf_status check_square(pf_ctx *c, const DLTensor *a, square *s) {
  PF_TRY(pf_check_rank(c, a, "input"));
  if (a->ndim < 2) return PF_INVALID(c, "Input must have rank >= 2, got shape %s", PF_SHAPE(a).s);
  s->n = a->shape[a->ndim - 1];
  if (a->shape[a->ndim - 2] != s->n)
    return PF_INVALID(c, "Input matrices must be square, got shape %s", PF_SHAPE(a).s);
  s->count = pf_product(a->shape, 0, a->ndim - 2);
  s->columns = s->n;
  s->type = c->in_type[0];
  s->a = PF_DATA(const void, a);
  return PF_OK;
}
/* ---------------------------------------------------------------- LAPACK, column-major */
enum { LAPACK_FROM = 32 };
typedef struct {
  void (*getrf)(const int *, const int *, void *, const int *, int *, int *);
  void (*getrs)(const char *, const int *, const int *, const void *, const int *, const int *,
                void *, const int *, int *, size_t);
  void (*potrf)(const char *, const int *, void *, const int *, int *, size_t);
} routines;
static routines routines_of(int32_t type) {
  switch (type) {
    case PF_FLOAT32: return (routines){pf_lapack.sgetrf, pf_lapack.sgetrs, pf_lapack.spotrf};
    case PF_FLOAT64: return (routines){pf_lapack.dgetrf, pf_lapack.dgetrs, pf_lapack.dpotrf};
    case PF_COMPLEX64: return (routines){pf_lapack.cgetrf, pf_lapack.cgetrs, pf_lapack.cpotrf};
    default: return (routines){pf_lapack.zgetrf, pf_lapack.zgetrs, pf_lapack.zpotrf};
  }
}
static square one_of(const square *s) {
  square one = *s;
  one.count = 1;
  return one;
}
/* t [n, m] = a [m, n] transposed, elements of `esize` bytes */
static void turn(const char *a, char *t, int64_t m, int64_t n, int64_t esize) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++)
      memcpy(t + (j * m + i) * esize, a + (i * n + j) * esize, (size_t)esize);
}
/* y = op(a)^-1 b (b NULL: the identity) for every matrix: row-major a is the library's a^T, so
 * op "T" solves with a, "N" with a^T, and for complex adjoints b and y are conjugated instead. */
static int64_t lapack_solve(const square *s, int32_t type, const char *a, const char *b, char *y,
                            char *work, void *order) {
  routines f = routines_of(type);
  int64_t es = pf_type_size(type), nn = s->n * s->n, nk = s->n * s->columns;
  int n = (int)s->n, k = (int)s->columns, info = 0;
  int complex_type = type == PF_COMPLEX64 || type == PF_COMPLEX128;
  char *rhs = work + nn * es;
  int *pivots = order;
  for (int64_t i = 0; i < s->count; i++) {
    if (!pf_are_finite(type, a + i * nn * es, nn)) {
      const square one = one_of(s);
      if (invert_loops[type](&one, a + i * nn * es, b ? b + i * nk * es : NULL, y + i * nk * es,
                             work, order) >= 0)
        return i;
      continue;
    }
    memcpy(work, a + i * nn * es, (size_t)(nn * es));
    f.getrf(&n, &n, work, &n, pivots, &info);
    if (info > 0) return i;
    if (b) turn(b + i * nk * es, rhs, s->n, s->columns, es);
    else memset(rhs, 0, (size_t)(nk * es));
    for (int64_t j = 0; !b && j < s->n; j++) {
      if (es == 4 || type == PF_COMPLEX64) *(float *)(rhs + (j * s->n + j) * es) = 1;
      else *(double *)(rhs + (j * s->n + j) * es) = 1;
    }
    int flip = s->adjoint && complex_type;
    for (int64_t j = 0; flip && j < nk; j++) {
      if (type == PF_COMPLEX64) ((float *)rhs)[2 * j + 1] *= -1;
      else ((double *)rhs)[2 * j + 1] *= -1;
    }
    f.getrs(s->adjoint ? "N" : "T", &n, &k, work, &n, pivots, rhs, &n, &info, 1);
    for (int64_t j = 0; flip && j < nk; j++) {
      if (type == PF_COMPLEX64) ((float *)rhs)[2 * j + 1] *= -1;
      else ((double *)rhs)[2 * j + 1] *= -1;
    }
    turn(rhs, y + i * nk * es, s->columns, s->n, es);
  }
  return -1;
}
/* The lower factor of a = L L^H in row-major order is the upper one, L^T, of a^T for the
 * library. */
static int64_t lapack_cholesky(const square *s, int32_t type, const char *a, char *y) {
  routines f = routines_of(type);
  int64_t es = pf_type_size(type), nn = s->n * s->n;
  int n = (int)s->n, info = 0;
  for (int64_t i = 0; i < s->count; i++) {
    char *l = y + i * nn * es;
    if (!pf_are_finite(type, a + i * nn * es, nn)) {
      const square one = one_of(s);
      if (cholesky_loops[type](&one, a + i * nn * es, NULL, l, NULL, NULL) >= 0) return i;
      continue;
    }
    memcpy(l, a + i * nn * es, (size_t)(nn * es));
    f.potrf("U", &n, l, &n, &info, 1);
    if (info) return i;
    for (int64_t j = 0; j < s->n; j++)
      memset(l + (j * s->n + j + 1) * es, 0, (size_t)((s->n - 1 - j) * es));
  }
  return -1;
}
static pf_status run_lapack(pf_ctx *c, const batch_loop *loops, const square *s, const void *b,
                            const char *failure) {
  int64_t esize = pf_type_size(s->type), bytes, more, failed;
  if (!pf_mul(s->n, s->n + s->columns, &bytes) || !pf_mul(bytes, esize, &more))
    return PF_INVALID(c, "matrices of %" PRId64 " rows are too large", s->n);
  char *work = c->host->scratch(c, (uint64_t)more + 64, 64);
  PF_EXHAUSTED(work);
  void *order = c->host->scratch(c, (uint64_t)s->n * 8 + 8, 8);
  PF_EXHAUSTED(order);
  if (loops == cholesky_loops) failed = lapack_cholesky(s, s->type, s->a, s->y);
  else failed = lapack_solve(s, s->type, s->a, b, s->y, work, order);
  return failed < 0
             ? PF_OK
             : PF_INVALID(c, "%s (matrix %" PRId64 " of %" PRId64 ")", failure, failed, s->count);
}
static pf_status run(pf_ctx *c, const batch_loop *loops, const square *s, const void *b,
                     const char *failure) {
  int64_t esize = pf_type_size(s->type), bytes;
  if (pf_lapack.found && s->n >= LAPACK_FROM && s->n < 1 << 24 && s->columns < 1 << 24 &&
      loops != determine_loops)
    return run_lapack(c, loops, s, b, failure);
  if (!pf_mul(s->n, s->n, &bytes) || !pf_mul(bytes, esize, &bytes))
    return PF_INVALID(c, "matrices of %" PRId64 " rows are too large", s->n);
  void *work = c->host->scratch(c, (uint64_t)bytes + 64, 64);
  PF_EXHAUSTED(work);
  int64_t *order = (int64_t *)c->host->scratch(c, (uint64_t)s->n * 8 + 8, 8);
  PF_EXHAUSTED(order);
  int64_t failed = loops[s->type](s, s->a, b, s->y, work, order);
  return failed < 0
             ? PF_OK
             : PF_INVALID(c, "%s (matrix %" PRId64 " of %" PRId64 ")", failure, failed, s->count);
}

static pf_status inverse(pf_ctx *c, const void *state) {
  square s = {.adjoint = ((const adjoint_state *)state)->adjoint};
  PF_TRY(check_square(c, c->in[0], &s));
  DLTensor *y = c->host->output(c, 0, c->in[0]->shape, c->in[0]->ndim);
  PF_EXHAUSTED(y);
  s.y = PF_DATA(void, y);
  if (s.type != PF_FLOAT16) return run(c, invert_loops, &s, NULL, "Input is not invertible.");
  int64_t n = pf_numel(y);
  float *wide = c->host->scratch(c, (uint64_t)n * 8 + 64, 64);
  PF_EXHAUSTED(wide);
  pf_half_to_float(PF_FLOAT16, s.a, wide, n);
  s.a = wide, s.y = wide + n, s.type = PF_FLOAT32;
  PF_TRY(run(c, invert_loops, &s, NULL, "Input is not invertible."));
  pf_float_to_half(PF_FLOAT16, wide + n, PF_DATA(void, y), n);
  return PF_OK;
}
static pf_status solve(pf_ctx *c, const void *state) {
  const DLTensor *a = c->in[0], *b = c->in[1];
  square s = {.adjoint = ((const adjoint_state *)state)->adjoint};
  PF_TRY(check_square(c, a, &s));
  if (b->ndim != a->ndim || !pf_same_dims(a->shape, a->ndim - 1, b->shape, b->ndim - 1))
    return PF_INVALID(c, "Input matrix and rhs are incompatible: matrix %s, rhs %s", PF_SHAPE(a).s,
                      PF_SHAPE(b).s);
  s.columns = b->shape[b->ndim - 1];
  DLTensor *y = c->host->output(c, 0, b->shape, b->ndim);
  PF_EXHAUSTED(y);
  s.y = PF_DATA(void, y);
  return run(c, invert_loops, &s, PF_DATA(const char, b), "Input matrix is not invertible.");
}
static pf_status determinant(pf_ctx *c, const void *state) {
  square s = {0};
  (void)state;
  PF_TRY(check_square(c, c->in[0], &s));
  DLTensor *y = c->host->output(c, 0, c->in[0]->shape, c->in[0]->ndim - 2);
  PF_EXHAUSTED(y);
  s.y = PF_DATA(void, y);
  return run(c, determine_loops, &s, NULL, "");
}
static pf_status cholesky(pf_ctx *c, const void *state) {
  square s = {0};
  (void)state;
  PF_TRY(check_square(c, c->in[0], &s));
  DLTensor *y = c->host->output(c, 0, c->in[0]->shape, c->in[0]->ndim);
  PF_EXHAUSTED(y);
  s.y = PF_DATA(void, y);
  return run(c, cholesky_loops, &s, NULL,
             "Cholesky decomposition was not successful. The input might not be valid.");
}

/* About the cube of a matrix's side, for each of them. */
static pf_status cube_cost(pf_infer *f, double *flops, double *bytes) {
  const int64_t *dims;
  int32_t nd;
  PF_TRY(f->host->infer_dims(f, 0, &dims, &nd));
  double elements = 1;
  for (int32_t d = 0; d < nd; d++) {
    if (dims[d] < 0) return PF_UNKNOWN;
    elements *= (double)dims[d];
  }
  if (nd < 2) return PF_UNKNOWN;
  *flops = PF_MAX(3 * elements * (double)dims[nd - 1], 1);
  *bytes = 16 * elements;
  return PF_OK;
}

#define ENTRY(op, types, ...) PF_CPU_LONG(op, "T=" types, .cost = cube_cost, __VA_ARGS__)
const pf_kernel *const linalg_kernels[] = {
  ENTRY("MatrixInverse", "half|" LINALG_TYPES, .state_size = sizeof(adjoint_state),
        .compute = inverse, .attrs = PF_ATTRS(&adjoint_attr)),
  ENTRY("MatrixSolve", LINALG_TYPES, .state_size = sizeof(adjoint_state), .compute = solve,
        .attrs = PF_ATTRS(&adjoint_attr)),
  ENTRY("MatrixDeterminant", LINALG_TYPES, .compute = determinant),
  ENTRY("Cholesky", LINALG_TYPES, .compute = cholesky), NULL};
