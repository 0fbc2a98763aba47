/* dense_body.h - dense factorisations of one row-major matrix; included once per work type.
 *
 * Before including: T (double or double _Complex), N(f) (a name per type), CONJ, ABS, REAL.
 *
 * Invariants
 *   1. Matrices are row-major and compact; results go where the caller says, inputs are overwritten
 *      only where stated.
 *   2. Every loop is bounded by sizes and a sweep count: NaN and infinity come out as NaN, nothing
 *      hangs.
 *   3. Methods: Golub and Van Loan, 3.4 (LU), 5.2 (Householder QR), 8.5 (Jacobi); one-sided Jacobi
 *      SVD after Hestenes (1958).
 * Threads: pure functions of their arguments.
 */

static void N(transpose)(const T *a, T *t, int64_t m, int64_t n) { /* conjugated too */
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) t[j * m + i] = CONJ(a[i * n + j]);
}
static void N(flip)(const T *a, T *t, int64_t m, int64_t n) { /* only transposed */
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) t[j * m + i] = a[i * n + j];
}
static void N(identity)(T *a, int64_t m, int64_t n) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) a[i * n + j] = i == j;
}
static int N(finite)(const T *a, int64_t n) {
  double s = 0;
  for (int64_t i = 0; i < n; i++) s += ABS(a[i]) * 0.0;
  return s == 0;
}
static void N(fill)(T *a, int64_t n, double v) {
  for (int64_t i = 0; i < n; i++) a[i] = v;
}
/* c = a b of [m, k] and [k, n]; c is neither of them */
static void N(product)(const T *a, const T *b, T *c, int64_t m, int64_t k, int64_t n) {
  N(fill)(c, m * n, 0);
  for (int64_t i = 0; i < m; i++)
    for (int64_t l = 0; l < k; l++) {
      T f = a[i * k + l];
      for (int64_t j = 0; j < n; j++) c[i * n + j] += f * b[l * n + j];
    }
}

/* ---------------------------------------------------------------- LU */
/* a -> its factors, order: row i of L U is row order[i] of a; the sign, or 0 at a zero pivot */
static int N(lu)(T *a, int64_t *order, int64_t n) {
  int sign = 1, singular = 0;
  for (int64_t i = 0; i < n; i++) order[i] = i;
  for (int64_t k = 0; k < n; k++) {
    int64_t p = k;
    for (int64_t i = k + 1; i < n; i++)
      if (ABS(a[i * n + k]) > ABS(a[p * n + k])) p = i;
    if (ABS(a[p * n + k]) == 0) {
      singular = 1;
      continue;
    }
    if (p != k) {
      for (int64_t j = 0; j < n; j++) {
        T t = a[k * n + j];
        a[k * n + j] = a[p * n + j];
        a[p * n + j] = t;
      }
      int64_t t = order[k];
      order[k] = order[p];
      order[p] = t;
      sign = -sign;
    }
    for (int64_t i = k + 1; i < n; i++) {
      T f = a[i * n + k] /= a[k * n + k];
      for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= f * a[k * n + j];
    }
  }
  return singular ? 0 : sign;
}
/* x [n, k] in place: lower or upper triangular a, perhaps its adjoint, perhaps a unit diagonal */
static void N(substitute)(const T *a, T *x, int64_t n, int64_t k, int lower, int adjoint,
                          int unit) {
  int forward = lower != adjoint;
  for (int64_t s = 0; s < n; s++) {
    int64_t i = forward ? s : n - 1 - s, from = forward ? 0 : i + 1, to = forward ? i : n;
    T *row = x + i * k;
    for (int64_t l = from; l < to; l++) {
      T f = adjoint ? CONJ(a[l * n + i]) : a[i * n + l];
      for (int64_t j = 0; j < k; j++) row[j] -= f * x[l * k + j];
    }
    if (unit) continue;
    T d = adjoint ? CONJ(a[i * n + i]) : a[i * n + i];
    for (int64_t j = 0; j < k; j++) row[j] /= d;
  }
}
static int N(cholesky)(T *a, int64_t n) { /* the lower triangle in place; 0: not positive */
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      T s = a[i * n + j];
      for (int64_t k = 0; k < j; k++) s -= a[i * n + k] * CONJ(a[j * n + k]);
      if (i > j) a[i * n + j] = s / a[j * n + j];
      else if (REAL(s) > 0) a[i * n + i] = sqrt(REAL(s));
      else return 0;
    }
  return 1;
}

/* ---------------------------------------------------------------- QR */
/* a [m, n] -> R above, Householder vectors below the diagonal; scale factors in tau [min(m, n)] */
static void N(reflect)(T *a, T *tau, int64_t m, int64_t n) {
  for (int64_t j = 0; j < PF_MIN(m, n); j++) {
    double tail = 0;
    T alpha = a[j * n + j];
    for (int64_t i = j + 1; i < m; i++) tail += ABS(a[i * n + j]) * ABS(a[i * n + j]);
    tau[j] = 0;
    if (tail <= DBL_MIN && ABS(alpha - REAL(alpha)) <= DBL_MIN) continue;
    double beta = -copysign(sqrt(ABS(alpha) * ABS(alpha) + tail), REAL(alpha));
    tau[j] = (beta - alpha) / beta;
    for (int64_t i = j + 1; i < m; i++) a[i * n + j] /= alpha - beta;
    a[j * n + j] = beta;
    for (int64_t k = j + 1; k < n; k++) {
      T w = a[j * n + k];
      for (int64_t i = j + 1; i < m; i++) w += CONJ(a[i * n + j]) * a[i * n + k];
      w *= CONJ(tau[j]);
      a[j * n + k] -= w;
      for (int64_t i = j + 1; i < m; i++) a[i * n + k] -= w * a[i * n + j];
    }
  }
}
/* q [m, p]: the first p columns of the product of the reflections in a [m, n] */
static void N(expand)(const T *a, const T *tau, T *q, int64_t m, int64_t n, int64_t p) {
  N(identity)(q, m, p);
  for (int64_t j = PF_MIN(m, n) - 1; j >= 0; j--)
    for (int64_t k = 0; k < p; k++) {
      T w = q[j * p + k];
      for (int64_t i = j + 1; i < m; i++) w += CONJ(a[i * n + j]) * q[i * p + k];
      w *= tau[j];
      q[j * p + k] -= w;
      for (int64_t i = j + 1; i < m; i++) q[i * p + k] -= w * a[i * n + j];
    }
}

/* ---------------------------------------------------------------- eigenvalues, singular values */
/* the Jacobi rotation [c, s] that annihilates g between diagonal entries a and b (all real) */
static void N(rotation)(double a, double b, double g, double *c, double *s) {
  double z = (b - a) / (2 * g);
  double t = copysign(1.0, z) / (fabs(z) + sqrt(1 + z * z));
  *c = 1 / sqrt(1 + t * t);
  *s = *c * t;
}
/* columns p and q of x [m, n]: (c p - s conj(f) q, s p + c conj(f) q) */
static void N(rotate)(T *x, int64_t m, int64_t n, int64_t p, int64_t q, double c, double s, T f) {
  for (int64_t i = 0; i < m; i++) {
    T u = x[i * n + p], v = x[i * n + q] * CONJ(f);
    x[i * n + p] = c * u - s * v;
    x[i * n + q] = s * u + c * v;
  }
}
/* Hermitian a [n, n] (overwritten) -> eigenvalues w in rising order, eigenvectors in the columns
 * of v */
static void N(jacobi)(T *a, double *w, T *v, int64_t n) {
  N(identity)(v, n, n);
  for (int sweep = 0; sweep < 60; sweep++) {
    int turned = 0;
    for (int64_t p = 0; p < n - 1; p++)
      for (int64_t q = p + 1; q < n; q++) {
        double g = ABS(a[p * n + q]), c, s;
        double x = REAL(a[p * n + p]), y = REAL(a[q * n + q]);
        if (!(g > DBL_EPSILON * 0.1 * sqrt(fabs(x)) * sqrt(fabs(y)) && g > DBL_MIN)) continue;
        turned = 1;
        T f = a[p * n + q] / g;
        N(rotation)(x, y, g, &c, &s);
        N(rotate)(a, n, n, p, q, c, s, f);
        for (int64_t k = 0; k < n; k++) { /* the rows, by the adjoint */
          T u = a[p * n + k], z = a[q * n + k] * f;
          a[p * n + k] = c * u - s * z;
          a[q * n + k] = s * u + c * z;
        }
        a[p * n + q] = a[q * n + p] = 0;
        N(rotate)(v, n, n, p, q, c, s, f);
      }
    if (!turned) break;
  }
  for (int64_t i = 0; i < n; i++) w[i] = REAL(a[i * n + i]);
  for (int64_t i = 0; i < n; i++) {
    int64_t least = i;
    for (int64_t j = i + 1; j < n; j++)
      if (w[j] < w[least]) least = j;
    if (least == i) continue;
    double t = w[i];
    w[i] = w[least];
    w[least] = t;
    for (int64_t k = 0; k < n; k++) {
      T x = v[k * n + i];
      v[k * n + i] = v[k * n + least];
      v[k * n + least] = x;
    }
  }
}
/* column j of u [m, p]: a unit vector orthogonal to those before it */
static void N(complete)(T *u, int64_t m, int64_t p, int64_t j) {
  for (int64_t e = 0; e < m; e++) { /* some unit vector is not in their span */
    for (int64_t i = 0; i < m; i++) u[i * p + j] = i == e;
    for (int turn = 0; turn < 2; turn++)
      for (int64_t k = 0; k < j; k++) {
        T w = 0;
        for (int64_t i = 0; i < m; i++) w += CONJ(u[i * p + k]) * u[i * p + j];
        for (int64_t i = 0; i < m; i++) u[i * p + j] -= w * u[i * p + k];
      }
    double size = 0;
    for (int64_t i = 0; i < m; i++) size += ABS(u[i * p + j]) * ABS(u[i * p + j]);
    if (size < 0.5 / (double)m) continue;
    for (int64_t i = 0; i < m; i++) u[i * p + j] /= sqrt(size);
    return;
  }
}
/* x [m, n], m >= n (overwritten): x = u s v^H with u [m, p], n <= p <= m, and v [n, n] */
static void N(hestenes)(T *x, double *s, T *u, T *v, int64_t m, int64_t n, int64_t p) {
  N(identity)(v, n, n);
  for (int sweep = 0; sweep < 60; sweep++) {
    int turned = 0;
    for (int64_t i = 0; i < n - 1; i++)
      for (int64_t j = i + 1; j < n; j++) {
        double a = 0, b = 0, c, t;
        T g = 0;
        for (int64_t k = 0; k < m; k++) {
          T y = x[k * n + i], z = x[k * n + j];
          a += ABS(y) * ABS(y);
          b += ABS(z) * ABS(z);
          g += CONJ(y) * z;
        }
        if (!(ABS(g) > DBL_EPSILON * sqrt(a) * sqrt(b) && ABS(g) > DBL_MIN)) continue;
        turned = 1;
        T f = g / ABS(g);
        N(rotation)(a, b, ABS(g), &c, &t);
        N(rotate)(x, m, n, i, j, c, t, f);
        N(rotate)(v, n, n, i, j, c, t, f);
      }
    if (!turned) break;
  }
  for (int64_t j = 0; j < n; j++) {
    double a = 0;
    for (int64_t k = 0; k < m; k++) a += ABS(x[k * n + j]) * ABS(x[k * n + j]);
    s[j] = sqrt(a);
  }
  for (int64_t j = 0; j < n; j++) { /* falling order */
    int64_t most = j;
    for (int64_t k = j + 1; k < n; k++)
      if (s[k] > s[most]) most = k;
    double t = s[j];
    s[j] = s[most];
    s[most] = t;
    for (int64_t k = 0; most != j && k < m; k++) {
      T z = x[k * n + j];
      x[k * n + j] = x[k * n + most];
      x[k * n + most] = z;
    }
    for (int64_t k = 0; most != j && k < n; k++) {
      T z = v[k * n + j];
      v[k * n + j] = v[k * n + most];
      v[k * n + most] = z;
    }
  }
  for (int64_t j = 0; j < p; j++) {
    if (j < n && s[j] > s[0] * DBL_EPSILON * (double)m)
      for (int64_t k = 0; k < m; k++) u[k * p + j] = x[k * n + j] / s[j];
    else N(complete)(u, m, p, j);
  }
}
