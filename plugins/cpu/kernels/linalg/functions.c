/* functions.c - MatrixSquareRoot, MatrixLogarithm: principal values, of eigenvalues on the negative
 * axis too.
 *
 * Method: the complex Schur form A = Q U Q^H (Golub and Van Loan, 7.5: Hessenberg form, then steps
 * of QR with Wilkinson's shifts), f(U) of the triangle, Q f(U) Q^H (Higham, Functions of Matrices,
 * 6.3 and 11.5).
 *
 * Invariants
 *   1. Work is done in double complex and rounded once, whatever the type.
 *   2. An eigenvalue whose distance from the negative axis is rounding counts as lying on it.
 *   3. Where there is no value (NaN and infinity in the input, a logarithm of a singular matrix, a
 *      root of a nilpotent one, a real root of one with a negative eigenvalue) all of the matrix is
 *      NaN.
 * Threads: one per call.
 */
#include "gemm/dense.h"

typedef double _Complex number;
enum { STEPS_PER_ROW = 60, ROOTS = 60 };
#define ROUNDING (16 * DBL_EPSILON)

/* ---------------------------------------------------------------- the Schur form */
/* Rows p, q of a from column `from` on, and columns p, q of a down to row `to` and of all of z: the
 * rotation [c, s; -conj(s), c] and its adjoint. */
static void rotate(number *a, number *z, int64_t n, int64_t p, int64_t q, int64_t from, int64_t to,
                   double c, number s) {
  for (int64_t j = from; j < n; j++) {
    const number x = a[p * n + j], y = a[q * n + j];
    a[p * n + j] = c * x + s * y;
    a[q * n + j] = c * y - conj(s) * x;
  }
  for (int64_t i = 0; i <= to; i++) {
    const number x = a[i * n + p], y = a[i * n + q];
    a[i * n + p] = c * x + conj(s) * y;
    a[i * n + q] = c * y - s * x;
  }
  for (int64_t i = 0; i < n; i++) {
    const number x = z[i * n + p], y = z[i * n + q];
    z[i * n + p] = c * x + conj(s) * y;
    z[i * n + q] = c * y - s * x;
  }
}
/* c, s for which c x + s y has all of (x, y) and c y - conj(s) x is 0 */
static void rotation_of(number x, number y, double *c, number *s) {
  const double ax = cabs(x), size = hypot(ax, cabs(y));
  *c = size == 0 || ax == 0 ? size == 0 : ax / size;
  *s = size == 0 ? 0 : ax == 0 ? conj(y) / size : x / ax * conj(y) / size;
}
/* a = z h z^H, h zero below its first subdiagonal */
static void hessenberg(number *a, number *z, int64_t n) {
  for (int64_t i = 0; i < n * n; i++) z[i] = i % (n + 1) == 0;
  for (int64_t k = 0; k + 2 < n; k++)
    for (int64_t i = n - 1; i > k + 1; i--) {
      double c;
      number s;
      if (a[i * n + k] == 0) continue;
      rotation_of(a[(i - 1) * n + k], a[i * n + k], &c, &s);
      rotate(a, z, n, i - 1, i, k, n - 1, c, s);
      a[i * n + k] = 0;
    }
}
/* the eigenvalue of the last 2 x 2 of rows [0, hi] that is nearer to its corner */
static number shift_of(const number *a, int64_t n, int64_t hi) {
  const number p = a[(hi - 1) * n + hi - 1], q = a[(hi - 1) * n + hi], r = a[hi * n + hi - 1],
               s = a[hi * n + hi];
  const number half = (p - s) / 2, root = csqrt(half * half + q * r);
  const number sum =
      creal(half) * creal(root) + cimag(half) * cimag(root) >= 0 ? half + root : half - root;
  return sum == 0 ? s : s - q * r / sum;
}
/* one step on rows and columns [lo, hi] */
static void qr_step(number *a, number *z, int64_t n, int64_t lo, int64_t hi, number shift) {
  number x = a[lo * n + lo] - shift, y = a[(lo + 1) * n + lo];
  for (int64_t k = lo; k < hi; k++) {
    double c;
    number s;
    rotation_of(x, y, &c, &s);
    rotate(a, z, n, k, k + 1, PF_MAX(k - 1, lo), PF_MIN(k + 2, hi), c, s);
    if (k > lo) a[(k + 1) * n + k - 1] = 0;
    if (k + 1 < hi) x = a[(k + 1) * n + k], y = a[(k + 2) * n + k];
  }
}
/* a -> its upper triangular form u, a = z u z^H; 0: it did not converge */
static int schur(number *a, number *z, int64_t n) {
  int64_t hi = n - 1, steps = 0;
  hessenberg(a, z, n);
  while (hi > 0) {
    int64_t lo = hi;
    for (; lo > 0; lo--) {
      const double below = cabs(a[lo * n + lo - 1]);
      double near = cabs(a[lo * n + lo]) + cabs(a[(lo - 1) * n + lo - 1]);
      if (near == 0)
        for (int64_t j = 0; j < n; j++) near += cabs(a[(lo - 1) * n + j]);
      if (below <= DBL_EPSILON * near) {
        a[lo * n + lo - 1] = 0;
        break;
      }
    }
    if (lo == hi) {
      hi--, steps = 0;
      continue;
    }
    if (++steps > STEPS_PER_ROW) return 0;
    /* now and then another one: the usual shift may go in circles */
    const number shift =
        steps % 10 == 0 ? a[hi * n + hi] + cabs(a[hi * n + hi - 1]) : shift_of(a, n, hi);
    qr_step(a, z, n, lo, hi, shift);
  }
  for (int64_t i = 1; i < n; i++)
    for (int64_t j = 0; j < i; j++) a[i * n + j] = 0;
  return 1;
}
static double norm_of(const number *a, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n * n; i++) sum = hypot(sum, cabs(a[i]));
  return sum;
}
static void snap(number *u, int64_t n) {
  const double rounding = ROUNDING * norm_of(u, n) * sqrt((double)n);
  for (int64_t i = 0; i < n; i++) {
    const number d = u[i * n + i];
    if (creal(d) < 0 && fabs(cimag(d)) <= rounding) u[i * n + i] = creal(d);
  }
}

/* ---------------------------------------------------------------- of a triangle */
/* u -> its square root, in place, column by column */
static void root_triangle(number *u, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    u[j * n + j] = csqrt(u[j * n + j]);
    for (int64_t i = j - 1; i >= 0; i--) {
      number sum = u[i * n + j];
      for (int64_t k = i + 1; k < j; k++) sum -= u[i * n + k] * u[k * n + j];
      const number both = u[i * n + i] + u[j * n + j];
      u[i * n + j] = sum == 0 && both == 0 ? 0 : sum / both;
    }
  }
}
/* x = u^-1 x, both upper triangles */
static void solve_triangle(const number *u, number *x, int64_t n) {
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = j; i >= 0; i--) {
      number sum = x[i * n + j];
      for (int64_t k = i + 1; k <= j; k++) sum -= u[i * n + k] * x[k * n + j];
      x[i * n + j] = sum / u[i * n + i];
    }
}
/* u -> its logarithm: square roots until it is near 1, then the quadrature of
 * int_0^1 X (1 + t X)^-1 dt by Gauss and Legendre; the diagonal itself is exact */
static void log_triangle(number *u, number *work, int64_t n) {
  static const double node[8] = {0.01985507175123188, 0.10166676129318664, 0.2372337950418355,
                                 0.4082826787521751,  0.5917173212478249,  0.7627662049581645,
                                 0.8983332387068134,  0.9801449282487681};
  static const double weight[8] = {0.05061426814518813, 0.11119051722668724, 0.15685332293894363,
                                   0.1813418916891810,  0.1813418916891810,  0.15685332293894363,
                                   0.11119051722668724, 0.05061426814518813};
  const int64_t nn = n * n;
  number *exact = work, *step = work + nn, *part = step + nn, *sum = part + nn;
  int roots = 0;
  for (int64_t i = 0; i < n; i++) exact[i] = clog(u[i * n + i]);
  for (; roots < ROOTS; roots++) {
    double far = 0;
    for (int64_t i = 0; i < nn; i++) far += cabs(u[i] - (i % (n + 1) == 0));
    if (!(far > 0.1)) break;
    root_triangle(u, n);
  }
  for (int64_t i = 0; i < nn; i++) u[i] -= i % (n + 1) == 0, sum[i] = 0;
  for (int k = 0; k < 8; k++) {
    for (int64_t i = 0; i < nn; i++) step[i] = node[k] * u[i] + (i % (n + 1) == 0), part[i] = u[i];
    solve_triangle(step, part, n);
    for (int64_t i = 0; i < nn; i++) sum[i] += weight[k] * part[i];
  }
  for (int64_t i = 0; i < nn; i++) u[i] = ldexp(1, roots) * sum[i];
  for (int64_t i = 0; i < n; i++) u[i * n + i] = exact[i];
}

/* ---------------------------------------------------------------- of a matrix */
/* y = z u z^H; work: n * n */
static void turn_back(const number *z, const number *u, number *y, number *work, int64_t n) {
  for (int64_t i = 0; i < n * n; i++) work[i] = y[i] = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < n; k++)
      for (int64_t j = k; j < n; j++) work[i * n + j] += z[i * n + k] * u[k * n + j];
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++)
      for (int64_t k = 0; k < n; k++) y[i * n + j] += work[i * n + k] * conj(z[j * n + k]);
}
static int is_finite(const number *a, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(creal(a[i])) || !isfinite(cimag(a[i]))) return 0;
  return 1;
}
static int is_triangle(const number *a, int64_t n) {
  for (int64_t i = 1; i < n; i++)
    for (int64_t j = 0; j < i; j++)
      if (a[i * n + j] != 0) return 0;
  return 1;
}
/* a -> f(a), work: 7 n * n; 0: there is no value */
static int function_of(number *a, number *work, int64_t n, int logarithm) {
  const int64_t nn = n * n;
  number *z = work, *y = work + nn;
  if (!is_finite(a, nn)) return 0;
  const int triangle = is_triangle(a, n);
  if (!triangle && !schur(a, z, n)) return 0;
  if (!triangle) snap(a, n);
  for (int64_t i = 0; i < n && logarithm; i++)
    if (a[i * n + i] == 0) return 0;
  if (logarithm) log_triangle(a, y, n);
  else root_triangle(a, n);
  if (triangle) return is_finite(a, nn);
  turn_back(z, a, y, y + nn, n);
  memcpy(a, y, sizeof(number) * (size_t)nn);
  return is_finite(a, nn);
}
static void load(const DLTensor *x, int32_t type, int64_t at, int64_t n, number *a, double *real) {
  if (pf_is_complex(type)) {
    load_z(PF_DATA(void, x), type, at, n, a);
    return;
  }
  load_d(PF_DATA(void, x), type, at, n, real);
  for (int64_t i = 0; i < n; i++) a[i] = real[i];
}
/* A real matrix whose value is not real has none. */
static void store(DLTensor *y, int32_t type, int64_t at, int64_t n, const number *a, double *real) {
  double most = 0, beside = 0;
  if (pf_is_complex(type)) {
    store_z(PF_DATA(void, y), type, at, n, a);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    most = PF_MAX(most, cabs(a[i])), beside = PF_MAX(beside, fabs(cimag(a[i])));
  const int none = beside > 1e-8 * most;
  for (int64_t i = 0; i < n; i++) real[i] = none ? NAN : creal(a[i]);
  store_d(PF_DATA(void, y), type, at, n, real);
}
/* clang has no CMPLX. */
static number nan_of_both_parts(void) {
  const double parts[2] = {NAN, NAN};
  number x;
  memcpy(&x, parts, sizeof x);
  return x;
}

static pf_status of_matrices(pf_ctx *c, int logarithm) {
  matrices s;
  const int32_t type = c->in_type[0];
  PF_TRY(pf_squares(c, 0, "input", &s));
  const int64_t n = s.n, nn = n * n;
  DLTensor *y = pf_dense_output(c, 0, 0, 2, n, n);
  PF_EXHAUSTED(y);
  number *a = (number *)pf_room(c, 8, n, n);
  double *real = (double *)pf_room(c, 1, n, n);
  PF_EXHAUSTED(a);
  PF_EXHAUSTED(real);
  for (int64_t i = 0; i < s.count; i++) {
    load(c->in[0], type, i * nn, nn, a, real);
    if (!function_of(a, a + nn, n, logarithm))
      for (int64_t j = 0; j < nn; j++) a[j] = nan_of_both_parts();
    store(y, type, i * nn, nn, a, real);
  }
  return PF_OK;
}
static pf_status square_root(pf_ctx *c, const void *state) {
  (void)state;
  return of_matrices(c, 0);
}
static pf_status logarithm(pf_ctx *c, const void *state) {
  (void)state;
  return of_matrices(c, 1);
}

extern const pf_kernel *const functions_kernels[];
const pf_kernel *const functions_kernels[] = {
  PF_CPU_FLAGS("MatrixSquareRoot", "T=" DENSE_TYPES, PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE,
               .compute = square_root),
  PF_CPU_FLAGS("MatrixLogarithm", "T=" DENSE_TYPES, PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE,
               .compute = logarithm),
  NULL};
