/* factor_body.h - the kernels of factor.c for one work type; included once per type, after
 * dense_body.h. Before including: T, N(f), CONJ, ABS, REAL, LAPACK_QR (geqrf), LAPACK_Q (orgqr),
 * LAPACK_GEMM, LAPACK_GRAM (syrk, herk), LAPACK_CHOLESKY (potrf), WORK_TYPE (T's pf_type). */

/* ---------------------------------------------------------------- Qr */
/* a [m, n] -> q [m, p], r [p, n] */
static int N(factor_qr)(pf_ctx *c, T *a, T *q, T *r, int64_t m, int64_t n, int64_t p, T *work) {
  int64_t k = PF_MIN(m, n);
  T *tau = work;
  if (pf_lapack.found && k >= 32 && m < 1 << 20 && n < 1 << 20 && N(finite)(a, m * n)) {
    int im = (int)m, in = (int)n, ip = (int)p, ik = (int)k, info = 0, ask = -1, size;
    T *f = work + k, wanted[2] = {0};
    N(flip)(a, f, m, n);
    LAPACK_QR(&im, &in, f, &im, tau, &wanted[0], &ask, &info);
    LAPACK_Q(&im, &ip, &ik, f, &im, tau, &wanted[1], &ask, &info);
    size = (int)PF_MAX(REAL(wanted[0]), REAL(wanted[1]));
    T *space = (T *)pf_room(c, 1, 1, size);
    if (!space) return 0;
    LAPACK_QR(&im, &in, f, &im, tau, space, &size, &info);
    for (int64_t i = 0; i < p; i++)
      for (int64_t j = 0; j < n; j++) r[i * n + j] = i <= j ? f[j * m + i] : 0;
    T *full = f + m * PF_MAX(n, p);
    memcpy(full, f, sizeof(T) * (size_t)(m * k));
    LAPACK_Q(&im, &ip, &ik, full, &im, tau, space, &size, &info);
    N(flip)(full, q, p, m);
    return 1;
  }
  N(reflect)(a, tau, m, n);
  N(expand)(a, tau, q, m, n, p);
  for (int64_t i = 0; i < p; i++)
    for (int64_t j = 0; j < n; j++) r[i * n + j] = i <= j ? a[i * n + j] : 0;
  return 1;
}
static pf_status N(qr)(pf_ctx *c, const void *state) {
  matrices s;
  int32_t type = c->in_type[0];
  PF_TRY(pf_matrices(c, 0, "input", &s));
  int64_t p = ((const qr_state *)state)->full_matrices ? s.m : PF_MIN(s.m, s.n);
  DLTensor *q = pf_dense_output(c, 0, 0, 2, s.m, p), *r = NULL;
  PF_EXHAUSTED(q);
  r = pf_dense_output(c, 1, 0, 2, p, s.n);
  PF_EXHAUSTED(r);
  int64_t wide = PF_MAX(s.n, p), mn = s.m * s.n;
  T *a = (T *)pf_room(c, 6, PF_MAX(s.m, 1), PF_MAX(wide, 1));
  PF_EXHAUSTED(a);
  T *tq = a + mn, *tr = tq + s.m * p, *work = tr + p * s.n;
  for (int64_t i = 0; i < s.count; i++) {
    N(load)(PF_DATA(void, c->in[0]), type, i * mn, mn, a);
    if (!N(factor_qr)(c, a, tq, tr, s.m, s.n, p, work)) return PF_RESOURCE_EXHAUSTED;
    N(store)(PF_DATA(void, q), type, i * s.m * p, s.m * p, tq);
    N(store)(PF_DATA(void, r), type, i * p * s.n, p * s.n, tr);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- Svd */
/* The phase of singular and eigenvectors is free.  Here each of the first k columns of u [m, pu]
 * gets a largest entry that is real and positive, whoever computed it; v [n, pv] (may be NULL)
 * goes along. */
static void N(orient)(T *u, int64_t m, int64_t pu, T *v, int64_t n, int64_t pv, int64_t k) {
  for (int64_t j = 0; j < k; j++) {
    int64_t most = 0;
    for (int64_t i = 1; i < m; i++)
      if (ABS(u[i * pu + j]) > ABS(u[most * pu + j]) * (1 + 1e-9)) most = i;
    double size = m ? ABS(u[most * pu + j]) : 0;
    if (!(size > 0)) continue;
    T phase = CONJ(u[most * pu + j]) / size;
    for (int64_t i = 0; i < m; i++) u[i * pu + j] *= phase;
    for (int64_t i = 0; v && i < n; i++) v[i * pv + j] *= phase;
  }
}
/* a [m, n] (overwritten) -> s [k], u [m, pu], v [n, pv]; 0: no memory */
static int N(factor_svd)(pf_ctx *c, T *a, double *s, T *u, T *v, int64_t m, int64_t n, int64_t pu,
                         int64_t pv, T *work) {
  int64_t k = PF_MIN(m, n);
  if (!N(finite)(a, m * n)) {
    for (int64_t i = 0; i < k; i++) s[i] = NAN;
    N(fill)(u, m * pu, NAN);
    N(fill)(v, n * pv, NAN);
    return 1;
  }
  if (pf_lapack.found && k >= 16 && m < 1 << 20 && n < 1 << 20) {
    T *f = work, *lu = f + m * n, *lv = lu + m * pu;
    N(flip)(a, f, m, n);
    int done = N(gesdd)(c, f, s, lu, lv, (int)m, (int)n, (int)pu, (int)pv);
    if (done < 0) return 0;
    if (done) {
      N(flip)(lu, u, pu, m);                                   /* column-major [m, pu] */
      for (int64_t i = 0; i < n * pv; i++) v[i] = CONJ(lv[i]); /* V^H, column-major [pv, n] */
      return 1;
    }
    N(flip)(f, a, n, m);
  }
  if (m >= n) {
    N(hestenes)(a, s, u, work, m, n, pu);
    memcpy(v, work, sizeof(T) * (size_t)(n * n));
  } else {
    N(transpose)(a, work, m, n);
    N(hestenes)(work, s, v, u, n, m, pv);
  }
  return 1;
}
static pf_status N(svd)(pf_ctx *c, const void *state) {
  const svd_state *o = (const svd_state *)state;
  matrices s;
  int32_t type = c->in_type[0], wanted = o->compute_uv;
  int64_t none = 0;
  PF_TRY(pf_matrices(c, 0, "input", &s));
  int64_t k = PF_MIN(s.m, s.n), pu = o->full_matrices ? s.m : k, pv = o->full_matrices ? s.n : k;
  DLTensor *ts = pf_dense_output(c, 0, 0, 1, k, 0), *tu, *tv;
  PF_EXHAUSTED(ts);
  tu = wanted ? pf_dense_output(c, 1, 0, 2, s.m, pu) : c->host->output(c, 1, &none, 1);
  PF_EXHAUSTED(tu);
  tv = wanted ? pf_dense_output(c, 2, 0, 2, s.n, pv) : c->host->output(c, 2, &none, 1);
  PF_EXHAUSTED(tv);
  if (!wanted) pu = pv = k;
  int64_t most = PF_MAX(s.m, s.n), least = PF_MAX(PF_MAX(pu, pv), k), mn = s.m * s.n;
  T *a = (T *)pf_room(c, 7, PF_MAX(most, 1), PF_MAX(least, 1));
  PF_EXHAUSTED(a);
  double *values = (double *)pf_room(c, 1, 1, k);
  PF_EXHAUSTED(values);
  T *u = a + mn, *v = u + s.m * pu, *work = v + s.n * pv;
  for (int64_t i = 0; i < s.count; i++) {
    N(load)(PF_DATA(void, c->in[0]), type, i * mn, mn, a);
    if (!N(factor_svd)(c, a, values, u, v, s.m, s.n, pu, pv, work)) return PF_RESOURCE_EXHAUSTED;
    for (int64_t j = 0; j < k; j++) work[j] = values[j];
    N(orient)(u, s.m, pu, v, s.n, pv, k);
    N(store)(PF_DATA(void, ts), type, i * k, k, work);
    if (!wanted) continue;
    N(store)(PF_DATA(void, tu), type, i * s.m * pu, s.m * pu, u);
    N(store)(PF_DATA(void, tv), type, i * s.n * pv, s.n * pv, v);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- SelfAdjointEigV2 */
static pf_status N(eigh)(pf_ctx *c, const void *state) {
  matrices s;
  int32_t type = c->in_type[0], wanted = ((const eig_state *)state)->compute_v;
  int64_t none = 0;
  PF_TRY(pf_squares(c, 0, "input", &s));
  int64_t n = s.n;
  DLTensor *te = pf_dense_output(c, 0, 0, 1, n, 0), *tv;
  PF_EXHAUSTED(te);
  tv = wanted ? pf_dense_output(c, 1, 0, 2, n, n) : c->host->output(c, 1, &none, 1);
  PF_EXHAUSTED(tv);
  T *a = (T *)pf_room(c, 3, n, n), *v = a ? a + n * n : NULL;
  PF_EXHAUSTED(a);
  double *w = (double *)pf_room(c, 1, 1, n);
  PF_EXHAUSTED(w);
  for (int64_t i = 0; i < s.count; i++) {
    N(load)(PF_DATA(void, c->in[0]), type, i * n * n, n * n, a);
    for (int64_t j = 0; j < n; j++) { /* the lower triangle counts */
      a[j * n + j] = REAL(a[j * n + j]);
      for (int64_t k = j + 1; k < n; k++) a[j * n + k] = CONJ(a[k * n + j]);
    }
    if (!N(finite)(a, n * n)) {
      for (int64_t j = 0; j < n; j++) w[j] = NAN;
      N(fill)(v, n * n, NAN);
    } else if (pf_lapack.found && n >= 16 && n < 1 << 20) {
      N(flip)(a, v, n, n);
      int done = N(syevd)(c, v, w, (int)n);
      if (done < 0) return PF_RESOURCE_EXHAUSTED;
      memcpy(done ? a : v, done ? v : a, sizeof(T) * (size_t)(n * n));
      if (done) N(flip)(a, v, n, n);
      else N(jacobi)(a, w, v, n);
    } else {
      N(jacobi)(a, w, v, n);
    }
    N(orient)(v, n, n, NULL, 0, 0, n);
    for (int64_t j = 0; j < n; j++) a[j] = w[j];
    N(store)(PF_DATA(void, te), type, i * n, n, a);
    if (wanted) N(store)(PF_DATA(void, tv), type, i * n * n, n * n, v);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- Lu, LogMatrixDeterminant */
static pf_status N(lu_op)(pf_ctx *c, const void *state) {
  matrices s;
  int32_t type = c->in_type[0];
  (void)state;
  PF_TRY(pf_squares(c, 0, "input", &s));
  int64_t n = s.n;
  DLTensor *lu = pf_dense_output(c, 0, 0, 2, n, n), *p;
  PF_EXHAUSTED(lu);
  p = pf_dense_output(c, 1, 0, 1, n, 0);
  PF_EXHAUSTED(p);
  T *a = (T *)pf_room(c, 2, n, n);
  PF_EXHAUSTED(a);
  int64_t *order = (int64_t *)(a + n * n);
  for (int64_t i = 0; i < s.count; i++) {
    N(load)(PF_DATA(void, c->in[0]), type, i * n * n, n * n, a);
    if (!N(lu)(a, order, n)) return PF_INVALID(c, "Input is not invertible.");
    N(store)(PF_DATA(void, lu), type, i * n * n, n * n, a);
    for (int64_t j = 0; j < n; j++) pf_put_index(p, c->out_type[1], i * n + j, order[j]);
  }
  return PF_OK;
}
static pf_status N(log_determinant)(pf_ctx *c, const void *state) {
  matrices s;
  int32_t type = c->in_type[0];
  (void)state;
  PF_TRY(pf_squares(c, 0, "input", &s));
  int64_t n = s.n;
  DLTensor *sign = pf_output_checked(c, 0, c->in[0]->shape, c->in[0]->ndim - 2), *size;
  PF_EXHAUSTED(sign);
  size = pf_output_checked(c, 1, c->in[0]->shape, c->in[0]->ndim - 2);
  PF_EXHAUSTED(size);
  T *a = (T *)pf_room(c, 2, n, n);
  PF_EXHAUSTED(a);
  int64_t *order = (int64_t *)(a + n * n);
  for (int64_t i = 0; i < s.count; i++) {
    N(load)(PF_DATA(void, c->in[0]), type, i * n * n, n * n, a);
    T found = N(lu)(a, order, n), log_abs = 0;
    for (int64_t j = 0; j < n; j++) {
      double d = ABS(a[j * n + j]);
      log_abs += log(d);
      if (d != 0) found *= a[j * n + j] / d;
    }
    N(store)(PF_DATA(void, sign), type, i, 1, &found);
    N(store)(PF_DATA(void, size), type, i, 1, &log_abs);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- CholeskyGrad */
/* g = L^-H phi(L^H dL) L^-1, phi: the lower triangle with half the diagonal; then its Hermitian
 * part */
static pf_status N(cholesky_grad)(pf_ctx *c, const void *state) {
  matrices s;
  int32_t type = c->in_type[0];
  (void)state;
  PF_TRY(pf_squares(c, 0, "l", &s));
  if (!pf_same_shape(c->in[0], c->in[1]))
    return PF_INVALID(c, "Input matrix and gradient must have same shape: l %s, grad %s",
                      PF_SHAPE(c->in[0]).s, PF_SHAPE(c->in[1]).s);
  int64_t n = s.n, nn = n * n;
  DLTensor *y = pf_dense_output(c, 0, 0, 2, n, n);
  PF_EXHAUSTED(y);
  T *l = (T *)pf_room(c, 4, n, n);
  PF_EXHAUSTED(l);
  T *g = l + nn, *t = g + nn, *h = t + nn;
  for (int64_t i = 0; i < s.count; i++) {
    N(load)(PF_DATA(void, c->in[0]), type, i * nn, nn, l);
    N(load)(PF_DATA(void, c->in[1]), type, i * nn, nn, g);
    for (int64_t j = 0; j < nn; j++)
      if (j % n > j / n) l[j] = g[j] = 0;
    N(transpose)(l, h, n, n);
    N(product)(h, g, t, n, n, n);
    for (int64_t j = 0; j < nn; j++) t[j] = j % n > j / n ? 0 : j % n == j / n ? 0.5 * t[j] : t[j];
    N(substitute)(l, t, n, n, 1, 1, 0); /* L^-H t */
    N(transpose)(t, h, n, n);
    N(substitute)(l, h, n, n, 1, 1, 0); /* (t L^-1)^H */
    for (int64_t j = 0; j < nn; j++) g[j] = 0.5 * (h[j] + CONJ(h[j % n * n + j / n]));
    N(store)(PF_DATA(void, y), type, i * nn, nn, g);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- MatrixTriangularSolve */
/* Small systems, in double and rounded once. */
static void N(solve_small)(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const triangular_job *j = (const triangular_job *)arg;
  const int64_t n = j->n, k = j->k;
  T *a = (T *)(void *)(j->work + j->work_bytes * (uint64_t)worker), *x = a + n * n;
  for (int64_t task = lo; task < hi; task++) {
    const int64_t i = task / j->cuts, from = task % j->cuts * j->unit;
    const int64_t columns = PF_MIN(j->unit, k - from);
    int64_t at_a, at_b;
    operands_of(j, i, &at_a, &at_b);
    N(load)(PF_DATA(void, j->a), j->type, at_a * n * n, n * n, a);
    for (int64_t r = 0; r < n; r++)
      N(load)(PF_DATA(void, j->b), j->type, (at_b * n + r) * k + from, columns, x + r * columns);
    N(substitute)(a, x, n, columns, j->lower, j->adjoint, 0);
    for (int64_t r = 0; r < n; r++)
      N(store)(j->x, j->type, (i * n + r) * k + from, columns, x + r * columns);
  }
}

/* ---------------------------------------------------------------- MatrixSolveLs */
/* x = (A^H A + l) ^-1 A^H b, or A^H (A A^H + l)^-1 b where A is wide; 0: not positive definite.
 * The library's columns are our rows: it sees a^T [n, m], b^T [k, m], and makes x^T = b^T conj(a),
 * and the upper triangle of the Gram matrix's transpose, which is our lower one. */
static int N(normal_by_library)(const T *a, const T *b, T *x, T *gram, T *rhs, int m, int n, int k,
                                double l, void *room) {
  const double one = 1, zero = 0;
  const T one_t = 1, zero_t = 0;
  int q = PF_MIN(m, n), sum = PF_MAX(m, n), tall = m >= n, info = 0;
  LAPACK_GRAM("U", tall ? "N" : "C", &q, &sum, &one, a, &n, &zero, gram, &q, 1, 1);
  for (int64_t i = 0; i < q; i++) gram[i * q + i] += l;
  LAPACK_CHOLESKY("U", &q, gram, &q, &info, 1);
  for (int64_t i = 0; i < q; i++)
    if (!(REAL(gram[i * q + i]) > 0)) return 0; /* NaN too */
  if (info || !k) return !info;
  if (tall) LAPACK_GEMM("N", "C", &k, &n, &m, &one_t, b, &k, a, &n, &zero_t, x, &k, 1, 1);
  else memcpy(rhs, b, sizeof(T) * (size_t)m * (size_t)k);
  pf_triangle t = {.n = q,
                   .k = k,
                   .lda = q,
                   .ldx = k,
                   .a = gram,
                   .x = tall ? x : rhs,
                   .type = WORK_TYPE,
                   .lower = 1};
  for (; t.adjoint < 2; t.adjoint++) pf_triangulars()->solve(&t, room);
  if (!tall) LAPACK_GEMM("N", "C", &k, &n, &m, &one_t, rhs, &k, a, &n, &zero_t, x, &k, 1, 1);
  return 1;
}
static int N(normal_equations)(const T *a, const T *b, T *x, T *work, int64_t m, int64_t n,
                               int64_t k, double l, void *room) {
  int64_t q = PF_MIN(m, n), most = PF_MAX(PF_MAX(m, n), k);
  if (pf_lapack.found && q >= LEAST_LIBRARY_GRAM && most < 1 << 20 && N(finite)(a, m * n))
    return N(normal_by_library)(a, b, x, work, work + q * q, (int)m, (int)n, (int)k, l, room);
  T *h = work, *gram = h + m * n, *rhs = gram + q * q;
  N(transpose)(a, h, m, n);
  if (m >= n) N(product)(h, a, gram, n, m, n);
  else N(product)(a, h, gram, m, n, m);
  for (int64_t i = 0; i < q; i++) gram[i * q + i] += l;
  if (!N(cholesky)(gram, q)) return 0;
  if (m >= n) N(product)(h, b, rhs, n, m, k);
  else memcpy(rhs, b, sizeof(T) * (size_t)(m * k));
  N(substitute)(gram, rhs, q, k, 1, 0, 0);
  N(substitute)(gram, rhs, q, k, 1, 1, 0);
  if (m >= n) memcpy(x, rhs, sizeof(T) * (size_t)(n * k));
  else N(product)(h, rhs, x, n, m, k);
  return 1;
}
/* the least squares solution of least norm: v s^-1 u^H b */
static int N(least_norm)(pf_ctx *c, T *a, const T *b, T *x, double *s, T *work, int64_t m,
                         int64_t n, int64_t k) {
  int64_t q = PF_MIN(m, n);
  T *u = work, *v = u + m * q, *w = v + n * q, *more = w + q * k;
  if (!N(factor_svd)(c, a, s, u, v, m, n, q, q, more)) return 0;
  for (int64_t i = 0; i < q; i++)
    for (int64_t j = 0; j < k; j++) {
      T t = 0;
      for (int64_t l = 0; l < m; l++) t += CONJ(u[l * q + i]) * b[l * k + j];
      w[i * k + j] = s[i] > s[0] * DBL_EPSILON * (double)PF_MAX(m, n) ? t / s[i] : 0 * s[i];
    }
  N(product)(v, w, x, n, q, k);
  return 1;
}
static pf_status N(least_squares)(pf_ctx *c, const void *state) {
  int32_t fast = ((const ls_state *)state)->fast, type = c->in_type[0];
  const DLTensor *a = c->in[0], *b = c->in[1];
  matrices s, r;
  PF_TRY(pf_matrices(c, 0, "matrix", &s));
  PF_TRY(pf_matrices(c, 1, "rhs", &r));
  if (c->in[2]->ndim != 0)
    return PF_INVALID(c, "l2_regularizer must be scalar, got shape %s", PF_SHAPE(c->in[2]).s);
  double l = *PF_DATA(const double, c->in[2]);
  if (a->ndim != b->ndim || !pf_same_dims(a->shape, a->ndim - 1, b->shape, b->ndim - 1))
    return PF_INVALID(c, "Input matrix and rhs are incompatible: matrix %s, rhs %s", PF_SHAPE(a).s,
                      PF_SHAPE(b).s);
  if (!(l >= 0)) return PF_INVALID(c, "l2_regularizer must be nonnegative, got %g", l);
  DLTensor *y = pf_dense_output(c, 0, 0, 2, s.n, r.n);
  PF_EXHAUSTED(y);
  int64_t q = PF_MAX(PF_MAX(s.m, s.n), r.n), mn = s.m * s.n, mk = s.m * r.n, nk = s.n * r.n;
  if (s.m == 0) {
    if (nk > 0 && s.count > 0)
      memset(PF_DATA(char, y), 0, (size_t)(nk * s.count * pf_type_size(type)));
    return PF_OK;
  }
  T *x = (T *)pf_room(c, 12, q, PF_MAX(PF_MIN(s.m, s.n), r.n));
  PF_EXHAUSTED(x);
  double *values = (double *)pf_room(c, 1, 1, q);
  PF_EXHAUSTED(values);
  T *rhs = x + mn, *out = rhs + mk, *work = out + nk;
  pf_triangle t = {.n = PF_MIN(s.m, s.n),
                   .k = r.n,
                   .lda = PF_MIN(s.m, s.n),
                   .ldx = r.n,
                   .type = WORK_TYPE,
                   .lower = 1};
  uint64_t room_bytes = pf_triangulars()->work(&t);
  t.adjoint = 1;
  room_bytes = PF_MAX(room_bytes, pf_triangulars()->work(&t));
  void *room = fast ? c->host->scratch(c, room_bytes, 64) : values;
  PF_EXHAUSTED(room);
  for (int64_t i = 0; i < s.count; i++) {
    N(load)(PF_DATA(void, a), type, i * mn, mn, x);
    N(load)(PF_DATA(void, b), type, i * mk, mk, rhs);
    if (fast && !N(normal_equations)(x, rhs, out, work, s.m, s.n, r.n, l, room))
      return PF_INVALID(c, "Input matrix was rank deficient or ill-conditioned. Try setting "
                           "fast=False or provide a larger l2_regularizer > 0.");
    if (!fast && !N(least_norm)(c, x, rhs, out, values, work, s.m, s.n, r.n))
      return PF_RESOURCE_EXHAUSTED;
    N(store)(PF_DATA(void, y), type, i * nk, nk, out);
  }
  return PF_OK;
}

/* ---------------------------------------------------------- TridiagonalSolve, TridiagonalMatMul */
/* one system: d rows [super, main, sub] of n, x [n, k] in place; 0: a zero pivot */
static int N(gauss3)(const T *d, T *x, T *w, int64_t n, int64_t k, int pivoting) {
  const T *up = d, *diag = d + n, *low = d + 2 * n;
  T *a = w, *b = w + n, *e = w + 2 * n; /* the upper factor: three diagonals */
  for (int64_t i = 0; i < n; i++) a[i] = diag[i], b[i] = i + 1 < n ? up[i] : 0, e[i] = 0;
  for (int64_t i = 0; i + 1 < n; i++) {
    T l = low[i + 1];
    if (pivoting && ABS(l) > ABS(a[i])) { /* rows i and i + 1 change places */
      T f = a[i] / l, next = b[i + 1], main = a[i + 1];
      a[i] = l;
      a[i + 1] = b[i] - f * main;
      b[i] = main;
      e[i] = next;
      b[i + 1] = -f * next;
      for (int64_t j = 0; j < k; j++) {
        T t = x[i * k + j];
        x[i * k + j] = x[(i + 1) * k + j];
        x[(i + 1) * k + j] = t - f * x[i * k + j];
      }
    } else {
      if (a[i] == 0) return 0;
      T f = l / a[i];
      a[i + 1] -= f * b[i];
      for (int64_t j = 0; j < k; j++) x[(i + 1) * k + j] -= f * x[i * k + j];
    }
  }
  for (int64_t i = n - 1; i >= 0; i--) {
    if (a[i] == 0) return 0;
    for (int64_t j = 0; j < k; j++) {
      T t = x[i * k + j];
      if (i + 1 < n) t -= b[i] * x[(i + 1) * k + j];
      if (i + 2 < n) t -= e[i] * x[(i + 2) * k + j];
      x[i * k + j] = t / a[i];
    }
  }
  return 1;
}
static pf_status N(tridiagonal_solve)(pf_ctx *c, const void *state) {
  const DLTensor *d = c->in[0], *b = c->in[1];
  matrices s, r;
  int32_t type = c->in_type[0], pivoting = ((const tridiagonal_state *)state)->partial_pivoting;
  PF_TRY(pf_matrices(c, 0, "diagonals", &s));
  PF_TRY(pf_matrices(c, 1, "rhs", &r));
  if (s.m != 3) return PF_INVALID(c, "Expected 3 diagonals got shape %s", PF_SHAPE(d).s);
  if (r.m != s.n || d->ndim != b->ndim ||
      !pf_same_dims(d->shape, d->ndim - 2, b->shape, b->ndim - 2))
    return PF_INVALID(c, "diagonals %s and right-hand sides %s do not fit", PF_SHAPE(d).s,
                      PF_SHAPE(b).s);
  DLTensor *y = pf_output_checked(c, 0, b->shape, b->ndim);
  PF_EXHAUSTED(y);
  int64_t n = s.n, nk = n * r.n;
  T *x = (T *)pf_room(c, 1, n, r.n + 6);
  PF_EXHAUSTED(x);
  for (int64_t i = 0; i < s.count; i++) {
    N(load)(PF_DATA(void, d), type, i * 3 * n, 3 * n, x + nk);
    N(load)(PF_DATA(void, b), type, i * nk, nk, x);
    if (!N(gauss3)(x + nk, x, x + nk + 3 * n, n, r.n, pivoting))
      return PF_INVALID(c,
                        "The first element of diagonals is zero, or a pivot: the matrix %" PRId64
                        " is not invertible",
                        i);
    N(store)(PF_DATA(void, y), type, i * nk, nk, x);
  }
  return PF_OK;
}
static pf_status N(tridiagonal_matmul)(pf_ctx *c, const void *state) {
  const DLTensor *b = c->in[3];
  int32_t type = c->in_type[0];
  matrices r;
  (void)state;
  PF_TRY(pf_matrices(c, 3, "rhs", &r));
  for (int32_t i = 0; i < 3; i++) {
    const DLTensor *d = c->in[i];
    if (d->ndim != b->ndim || d->shape[d->ndim - 2] != 1 || d->shape[d->ndim - 1] != r.m ||
        !pf_same_dims(d->shape, d->ndim - 2, b->shape, b->ndim - 2))
      return PF_INVALID(c, "diagonal %d must be [..., 1, %" PRId64 "], got shape %s for rhs %s", i,
                        r.m, PF_SHAPE(d).s, PF_SHAPE(b).s);
  }
  DLTensor *y = pf_output_checked(c, 0, b->shape, b->ndim);
  PF_EXHAUSTED(y);
  int64_t n = r.m, k = r.n, nk = n * k;
  T *x = (T *)pf_room(c, 1, n, 2 * k + 3);
  PF_EXHAUSTED(x);
  T *out = x + nk, *d = out + nk;
  for (int64_t i = 0; i < r.count; i++) {
    N(load)(PF_DATA(void, b), type, i * nk, nk, x);
    for (int32_t j = 0; j < 3; j++) N(load)(PF_DATA(void, c->in[j]), type, i * n, n, d + j * n);
    for (int64_t p = 0; p < n; p++)
      for (int64_t q = 0; q < k; q++) {
        T t = d[n + p] * x[p * k + q];
        if (p + 1 < n) t += d[p] * x[(p + 1) * k + q];
        if (p) t += d[2 * n + p] * x[(p - 1) * k + q];
        out[p * k + q] = t;
      }
    N(store)(PF_DATA(void, y), type, i * nk, nk, out);
  }
  return PF_OK;
}
