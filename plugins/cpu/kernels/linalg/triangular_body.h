/* triangular_body.h - triangular.c for one type of real numbers and the complex numbers of two of
 * them; included once per type, after tile_begin.h. */

typedef struct {
  int64_t n, k, lda, ldx; /* lda, ldx: in T */
  const T *a;
  T *x;
  int complex, forward, adjoint, unit; /* forward: row 0 is the first that is known */
  T *negated;                          /* -x, compact, as products want it; NULL: one block */
  T *turned;                           /* a block of a complex adjoint */
  void *work;
} TILE(triangle);

/* ---------------------------------------------------------------- one block */
/* The block's numbers, in the order in which its rows become known. */
typedef struct {
  int64_t n;
  T below[2][BLOCK][BLOCK]; /* -a's numbers left of the diagonal: re, im */
  T diagonal[2][BLOCK];
  _Alignas(64) T rows[2][BLOCK][WIDE * VL]; /* of x */
} TILE(block);

static int64_t TILE(row_of)(const TILE(triangle) * t, int64_t lo, int64_t n, int64_t s) {
  return t->forward ? lo + s : lo + n - 1 - s;
}

static void TILE(take_block)(const TILE(triangle) * t, int64_t lo, int64_t n, TILE(block) * b) {
  const int z = t->complex;
  b->n = n;
  for (int64_t s = 0; s < n; s++) {
    const int64_t i = TILE(row_of)(t, lo, n, s);
    for (int64_t q = 0; q <= s; q++) {
      const int64_t l = TILE(row_of)(t, lo, n, q);
      const T *v = t->adjoint ? t->a + l * t->lda + (i << z) : t->a + i * t->lda + (l << z);
      const T im = z ? (t->adjoint ? -v[1] : v[1]) : 0;
      if (q < s) b->below[0][s][q] = -v[0], b->below[1][s][q] = -im;
      else b->diagonal[0][s] = t->unit ? 1 : v[0], b->diagonal[1][s] = t->unit ? 0 : im;
    }
  }
  if (n % 2 == 0) return; /* rows go in pairs */
  memset(b->below[0][n], 0, sizeof b->below[0][n]);
  memset(b->below[1][n], 0, sizeof b->below[1][n]);
  memset(b->rows[0][n], 0, sizeof b->rows[0][n]);
  memset(b->rows[1][n], 0, sizeof b->rows[1][n]);
}

PF_INLINE void TILE(substitute)(TILE(block) * b, const int nv) {
  for (int64_t s = 0; s < b->n; s += 2) {
    T *first = b->rows[0][s], *second = b->rows[0][s + 1];
    V x[WIDE], y[WIDE];
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) x[v] = V_LOAD(first + v * VL), y[v] = V_LOAD(second + v * VL);
    for (int64_t q = 0; q < s; q++) {
      const V f = V_SET(b->below[0][s][q]), g = V_SET(b->below[0][s + 1][q]);
#pragma GCC unroll 4
      for (int v = 0; v < nv; v++) {
        const V known = V_LOAD(b->rows[0][q] + v * VL);
        x[v] = V_FMA(f, known, x[v]);
        y[v] = V_FMA(g, known, y[v]);
      }
    }
    const V d = V_SET(b->diagonal[0][s]), g = V_SET(b->below[0][s + 1][s]);
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) {
      x[v] /= d;
      V_STORE(first + v * VL, x[v]);
      y[v] = V_FMA(g, x[v], y[v]);
    }
    if (s + 1 == b->n) return;
    const V e = V_SET(b->diagonal[0][s + 1]);
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) V_STORE(second + v * VL, y[v] / e);
  }
}

/* re + i im divided by a complex diagonal d, after Smith (1962): |d|^2 may overflow. */
PF_INLINE void TILE(divide)(V *re, V *im, T d, T e, const int nv) {
  const int turned = (d < 0 ? -d : d) < (e < 0 ? -e : e);
  const T ratio = turned ? d / e : e / d, size = turned ? e + d * ratio : d + e * ratio;
  const V r = V_SET(ratio), s = V_SET(size);
#pragma GCC unroll 2
  for (int v = 0; v < nv; v++) {
    const V p = turned ? im[v] : re[v], q = turned ? -re[v] : im[v];
    re[v] = V_FMA(q, r, p) / s;
    im[v] = V_FMA(-p, r, q) / s;
  }
}
/* x += (f + i g) (re + i im) */
PF_INLINE void TILE(add_product)(V *x, V *xi, V f, V g, V re, V im) {
  *x = V_FMA(-g, im, V_FMA(f, re, *x));
  *xi = V_FMA(g, re, V_FMA(f, im, *xi));
}
PF_INLINE void TILE(substitute_complex)(TILE(block) * b, const int nv) {
  for (int64_t s = 0; s < b->n; s += 2) {
    V x[2], xi[2], y[2], yi[2];
#pragma GCC unroll 2
    for (int v = 0; v < nv; v++) {
      x[v] = V_LOAD(b->rows[0][s] + v * VL), xi[v] = V_LOAD(b->rows[1][s] + v * VL);
      y[v] = V_LOAD(b->rows[0][s + 1] + v * VL), yi[v] = V_LOAD(b->rows[1][s + 1] + v * VL);
    }
    for (int64_t q = 0; q < s; q++) {
      const V f = V_SET(b->below[0][s][q]), fi = V_SET(b->below[1][s][q]),
              g = V_SET(b->below[0][s + 1][q]), gi = V_SET(b->below[1][s + 1][q]);
#pragma GCC unroll 2
      for (int v = 0; v < nv; v++) {
        const V re = V_LOAD(b->rows[0][q] + v * VL), im = V_LOAD(b->rows[1][q] + v * VL);
        TILE(add_product)(&x[v], &xi[v], f, fi, re, im);
        TILE(add_product)(&y[v], &yi[v], g, gi, re, im);
      }
    }
    TILE(divide)(x, xi, b->diagonal[0][s], b->diagonal[1][s], nv);
    const V g = V_SET(b->below[0][s + 1][s]), gi = V_SET(b->below[1][s + 1][s]);
#pragma GCC unroll 2
    for (int v = 0; v < nv; v++) {
      V_STORE(b->rows[0][s] + v * VL, x[v]), V_STORE(b->rows[1][s] + v * VL, xi[v]);
      TILE(add_product)(&y[v], &yi[v], g, gi, x[v], xi[v]);
    }
    if (s + 1 == b->n) return;
    TILE(divide)(y, yi, b->diagonal[0][s + 1], b->diagonal[1][s + 1], nv);
#pragma GCC unroll 2
    for (int v = 0; v < nv; v++)
      V_STORE(b->rows[0][s + 1] + v * VL, y[v]), V_STORE(b->rows[1][s + 1] + v * VL, yi[v]);
  }
}

/* Columns [j, j + cols) of the block's rows, in and out. */
static void TILE(load_rows)(const TILE(triangle) * t, int64_t lo, TILE(block) * b, int64_t j,
                            int64_t cols, int64_t room) {
  for (int64_t s = 0; s < b->n; s++) {
    const T *from = t->x + TILE(row_of)(t, lo, b->n, s) * t->ldx + (j << t->complex);
    T *re = b->rows[0][s], *im = b->rows[1][s];
    if (t->complex)
      for (int64_t c = 0; c < cols; c++) re[c] = from[2 * c], im[c] = from[2 * c + 1];
    else memcpy(re, from, sizeof(T) * (size_t)cols);
    for (int64_t c = cols; c < room; c++) re[c] = 0;
    for (int64_t c = cols; t->complex && c < room; c++) im[c] = 0;
  }
}
static void TILE(store_rows)(const TILE(triangle) * t, int64_t lo, const TILE(block) * b, int64_t j,
                             int64_t cols) {
  const int z = t->complex;
  const int64_t width = t->k << z;
  for (int64_t s = 0; s < b->n; s++) {
    const int64_t i = TILE(row_of)(t, lo, b->n, s);
    const T *re = b->rows[0][s], *im = b->rows[1][s];
    T *to = t->x + i * t->ldx + (j << z);
    if (!z) memcpy(to, re, sizeof(T) * (size_t)cols);
    else
      for (int64_t c = 0; c < cols; c++) to[2 * c] = re[c], to[2 * c + 1] = im[c];
    if (!t->negated) continue;
    T *less = t->negated + (i << z) * width + (j << z);
    if (!z)
      for (int64_t c = 0; c < cols; c++) less[c] = -re[c];
    else
      for (int64_t c = 0; c < cols; c++) {
        less[2 * c] = -re[c], less[2 * c + 1] = -im[c];
        less[width + 2 * c] = im[c], less[width + 2 * c + 1] = -re[c];
      }
  }
}
static void TILE(solve_block)(const TILE(triangle) * t, int64_t lo, int64_t n) {
  const int64_t most = (t->complex ? WIDE / 2 : WIDE) * VL;
  TILE(block) b;
  TILE(take_block)(t, lo, n, &b);
  for (int64_t j = 0; j < t->k; j += most) {
    const int64_t cols = PF_MIN(most, t->k - j);
    const int narrow = cols <= VL;
    TILE(load_rows)(t, lo, &b, j, cols, narrow ? VL : most);
    if (t->complex && narrow) TILE(substitute_complex)(&b, 1);
    else if (t->complex) TILE(substitute_complex)(&b, WIDE / 2);
    else if (narrow) TILE(substitute)(&b, 1);
    else TILE(substitute)(&b, WIDE);
    TILE(store_rows)(t, lo, &b, j, cols);
  }
}

/* ---------------------------------------------------------------- halves */
/* y [m, k], the adjoint of complex a [k, m], in squares that stay near. */
static void TILE(turn)(const T *a, int64_t lda, T *y, int64_t m, int64_t k) {
  for (int64_t p0 = 0; p0 < k; p0 += TURN)
    for (int64_t r0 = 0; r0 < m; r0 += TURN)
      for (int64_t r = r0; r < PF_MIN(r0 + TURN, m); r++)
        for (int64_t p = p0; p < PF_MIN(p0 + TURN, k); p++) {
          const T *v = a + p * lda + 2 * r;
          y[2 * (r * k + p)] = v[0], y[2 * (r * k + p) + 1] = -v[1];
        }
}
/* Rows [i, i + m) less op(a)'s columns [l, l + k) times those rows of x. */
static pf_gemm TILE(product)(const TILE(triangle) * t, int64_t i, int64_t m, int64_t l, int64_t k) {
  const int z = t->complex;
  const int64_t width = t->k << z;
  pf_gemm g = {.m = m,
               .n = width,
               .k = k << z,
               .b_row = width,
               .b_col = 1,
               .ldc = t->ldx,
               .add = 1,
               .a_row = t->lda,
               .a_col = 1,
               .work = t->work};
  if (t->adjoint && z) g.a_row = 2 * k;
  else if (t->adjoint) g.a_row = 1, g.a_col = t->lda;
  g.how = PF_ISA_NAME(pf_gemm_how)(&g, sizeof(T));
  if (!t->x) return g; /* asked for its work */
  g.b = t->negated + (l << z) * width;
  g.c = t->x + i * t->ldx;
  g.a = t->adjoint ? t->a + l * t->lda + i : t->a + i * t->lda + (l << z);
  if (!(t->adjoint && z)) return g;
  TILE(turn)(t->a + l * t->lda + 2 * i, t->lda, t->turned, m, k);
  g.a = t->turned;
  return g;
}
static int64_t TILE(half_of)(int64_t n) { return (n / BLOCK + 1) / 2 * BLOCK; }

static void TILE(solve_rows)(const TILE(triangle) * t, int64_t lo, int64_t n) {
  if (n <= BLOCK) {
    TILE(solve_block)(t, lo, n);
    return;
  }
  const int64_t half = TILE(half_of)(n), rest = n - half;
  const int64_t known = t->forward ? lo : lo + rest, next = t->forward ? lo + half : lo;
  TILE(solve_rows)(t, known, half);
  const pf_gemm g = TILE(product)(t, next, rest, known, half);
  TILE_NAME(pf_gemm)(&g);
  TILE(solve_rows)(t, next, rest);
}

/* ---------------------------------------------------------------- the room it takes */
static uint64_t TILE(products_work)(const TILE(triangle) * t, int64_t n) {
  if (n <= BLOCK) return 64;
  const int64_t half = TILE(half_of)(n), rest = n - half;
  const pf_gemm g = TILE(product)(t, 0, rest, 0, half);
  const uint64_t here = PF_ISA_NAME(pf_gemm_work)(&g, sizeof(T)),
                 first = TILE(products_work)(t, half), second = TILE(products_work)(t, rest);
  return PF_MAX(here, PF_MAX(first, second));
}
static TILE(triangle) TILE(triangle_of)(const pf_triangle *p) {
  const int z = p->type == PF_COMPLEX64 || p->type == PF_COMPLEX128;
  return (TILE(triangle)){.n = p->n,
                          .k = p->k,
                          .lda = p->lda << z,
                          .ldx = p->ldx << z,
                          .a = p->a,
                          .x = p->x,
                          .complex = z,
                          .forward = p->lower != p->adjoint,
                          .adjoint = p->adjoint,
                          .unit = p->unit};
}
static uint64_t TILE(negated_bytes)(const TILE(triangle) * t) {
  if (t->n <= BLOCK) return 0;
  return ((uint64_t)(t->n * t->k) * sizeof(T) * (t->complex ? 4 : 1) + 63) / 64 * 64;
}
static uint64_t TILE(turned_bytes)(const TILE(triangle) * t) {
  if (t->n <= BLOCK || !t->complex || !t->adjoint) return 0;
  const int64_t half = TILE(half_of)(t->n);
  return ((uint64_t)(half * (t->n - half)) * 2 * sizeof(T) + 63) / 64 * 64;
}
static uint64_t TILE(work_of)(const pf_triangle *p) {
  TILE(triangle) t = TILE(triangle_of)(p);
  t.x = NULL;
  return TILE(negated_bytes)(&t) + TILE(turned_bytes)(&t) + TILE(products_work)(&t, p->n);
}
static void TILE(solve)(const pf_triangle *p, void *work) {
  TILE(triangle) t = TILE(triangle_of)(p);
  char *at = work;
  if (p->n > BLOCK) t.negated = (T *)(void *)at;
  at += TILE(negated_bytes)(&t);
  t.turned = (T *)(void *)at;
  t.work = at + TILE(turned_bytes)(&t);
  TILE(solve_rows)(&t, 0, p->n);
}
