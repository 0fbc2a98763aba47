/* matmul.c - MatMul, BatchMatMul, BatchMatMulV2 and V3: float, double, half, bfloat16, int32,
 * int64, complex.
 *
 * Invariants
 *   1. A zero inner dimension gives zeros; a zero outer one an empty result.
 *   2. The result is cut by its sizes alone: equal inputs give equal bits on any number of threads.
 *   3. Halves are multiplied as float and rounded once.
 * Threads: parallel_for over blocks of the result, or over the batch; OpenBLAS, if present, runs
 * inside a block.
 *
 * Small products stay here (an OpenBLAS call costs more than a 10 x 10 product); large ones go to
 * OpenBLAS.
 */
#include "gemm.h"
#include "blas.h"

typedef struct { int32_t T, ta, tb; } matmul_state;
enum { SMALL_WORK = 16384, UNIT = 96, BLAS_UNIT = 512 };
#define BLAS_FLOPS 3.0e7              /* from here OpenBLAS is worth its call */
#define SPLIT_FLOPS 2.0e6             /* from here threads are worth theirs */

typedef struct {
  pf_gemm g;                          /* the first product */
  int32_t type, conj_a, conj_b, use_blas;
  int64_t size;                       /* bytes of an element */
  int64_t batches;
  const int64_t *a_at, *b_at;         /* element offset of each batch entry; NULL: one product */
  int by_rows;
  int64_t unit;
  char *work;
  uint64_t work_bytes;
} product;

static void blas_gemm(const product *p, const pf_gemm *g) {
  int ta = g->a_col == 1 ? PF_BLAS_PLAIN : PF_BLAS_TRANSPOSED,
      tb = g->b_col == 1 ? PF_BLAS_PLAIN : PF_BLAS_TRANSPOSED;
  int lda = (int)(g->a_col == 1 ? g->a_row : g->a_col),
      ldb = (int)(g->b_col == 1 ? g->b_row : g->b_col);
  if (p->type == PF_FLOAT32)
    pf_blas_sgemm(PF_BLAS_ROW_MAJOR, ta, tb, (int)g->m, (int)g->n, (int)g->k, 1, g->a, lda, g->b,
                  ldb, 0, g->c, (int)g->ldc);
  else
    pf_blas_dgemm(PF_BLAS_ROW_MAJOR, ta, tb, (int)g->m, (int)g->n, (int)g->k, 1, g->a, lda, g->b,
                  ldb, 0, g->c, (int)g->ldc);
}

static void run_gemm(const product *p, const pf_gemm *g) {
  if (p->use_blas) blas_gemm(p, g);
  else if (p->type == PF_FLOAT32) PF_ISA_NAME(pf_gemm_f32)(g);
  else if (p->type == PF_FLOAT64) PF_ISA_NAME(pf_gemm_f64)(g);
  else PF_ISA_NAME(pf_gemm_plain)(g, p->type, p->conj_a, p->conj_b);
}

static pf_gemm entry_of(const product *p, int64_t i) {
  pf_gemm g = p->g;
  g.a = (const char *)g.a + (p->a_at ? p->a_at[i] : 0) * p->size;
  g.b = (const char *)g.b + (p->b_at ? p->b_at[i] : 0) * p->size;
  g.c = (char *)g.c + i * g.m * g.n * p->size;
  return g;
}

/* Rows (or columns) [lo, hi) of one product. */
static void run_part(const product *p, pf_gemm g, int64_t lo, int64_t hi) {
  g.block = 1;
  if (p->by_rows) {
    g.m = hi - lo;
    g.a = (const char *)g.a + lo * g.a_row * p->size;
    g.c = (char *)g.c + lo * g.ldc * p->size;
  } else {
    g.n = hi - lo;
    g.b = (const char *)g.b + lo * g.b_col * p->size;
    g.c = (char *)g.c + lo * p->size;
  }
  run_gemm(p, &g);
}

static void run_units(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const product *p = arg;
  pf_gemm g = p->g;
  /* our own sums do not depend on the cut */
  int64_t size = p->by_rows ? g.m : g.n, step = p->use_blas ? 1 : hi - lo;
  g.work = p->work + p->work_bytes * (uint64_t)worker;
  for (int64_t i = lo; i < hi; i += step)
    run_part(p, g, i * p->unit, PF_MIN((i + step) * p->unit, size));
}

static void run_entries(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const product *p = arg;
  for (int64_t i = lo; i < hi; i++) {
    pf_gemm g = entry_of(p, i);
    g.work = p->work + p->work_bytes * (uint64_t)worker;
    run_gemm(p, &g);
  }
}

static double flops_of(const pf_gemm *g) {
  return 2.0 * (double)g->m * (double)g->n * (double)g->k;
}

static int wants_blas(const product *p) {
  const pf_gemm *g = &p->g;
  if (p->type != PF_FLOAT32 && p->type != PF_FLOAT64) return 0;
  if (!pf_blas_sgemm || flops_of(g) < BLAS_FLOPS) return 0;
  if (PF_MIN(PF_MIN(g->m, g->n), g->k) < UNIT) return 0;
  return PF_MAX(PF_MAX(g->m, g->n), g->k) <= INT_MAX;
}

/* One worker's packing space, or all workers'. */
static pf_status take_work(pf_ctx *c, product *p, int32_t workers, char *small) {
  p->work_bytes = (PF_ISA_NAME(pf_gemm_work)(&p->g, p->size) + 63) / 64 * 64;
  p->work = small;
  if (workers == 1 && p->work_bytes <= SMALL_WORK) return PF_OK;
  p->work = c->host->scratch(c, p->work_bytes * (uint64_t)workers, 64);
  return p->work ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for packing matrices");
}

static pf_status run_product(pf_ctx *c, product *p) {
  _Alignas(64) char small[SMALL_WORK];
  double each = flops_of(&p->g);
  p->use_blas = wants_blas(p);
  if (p->batches > 1 && each * (double)p->batches >= SPLIT_FLOPS) {
    PF_TRY(take_work(c, p, c->host->workers(c), small));
    int64_t grain = 1 + (int64_t)(SPLIT_FLOPS / 8 / (each + 1));
    return c->host->parallel_for(c, p->batches, grain, run_entries, p);
  }
  if (p->batches > 1 || each < SPLIT_FLOPS) {
    PF_TRY(take_work(c, p, 1, small));
    run_entries(p, 0, p->batches, 0);
    return PF_OK;
  }
  p->by_rows = p->g.m >= p->g.n;
  p->unit = p->use_blas ? BLAS_UNIT : UNIT;
  int64_t size = p->by_rows ? p->g.m : p->g.n, units = (size + p->unit - 1) / p->unit;
  if (!p->use_blas && units < 4) {
    PF_TRY(take_work(c, p, 1, small));
    run_entries(p, 0, 1, 0);
    return PF_OK;
  }
  PF_TRY(take_work(c, p, c->host->workers(c), small));
  return c->host->parallel_for(c, units, 1, run_units, p);
}

/* ---------------------------------------------------------------- halves */
static pf_status run_halves(pf_ctx *c, product *p, int64_t na, int64_t nb, int64_t nc) {
  int32_t type = p->type;
  int64_t bytes;
  if (!pf_mul(na + nb + nc, 4, &bytes)) return PF_INVALID(c, "matrices are too large");
  float *a = c->host->scratch(c, (uint64_t)bytes + 4, 64), *b = a + na, *r = b + nb;
  if (!a) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for matrices in float");
  void *out = p->g.c;
  pf_half_to_float(type, p->g.a, a, na);
  pf_half_to_float(type, p->g.b, b, nb);
  p->g.a = a;
  p->g.b = b;
  p->g.c = r;
  p->type = PF_FLOAT32;
  p->size = 4;
  PF_TRY(run_product(c, p));
  pf_float_to_half(type, r, out, nc);
  return PF_OK;
}

static pf_status run_typed(pf_ctx *c, product *p, const DLTensor *x, const DLTensor *y,
                           DLTensor *out) {
  p->g.a = PF_DATA(const void, x);
  p->g.b = PF_DATA(const void, y);
  p->g.c = PF_DATA(void, out);
  if (pf_numel(out) == 0) return PF_OK;
  if (pf_is_half(p->type)) return run_halves(c, p, pf_numel(x), pf_numel(y), pf_numel(out));
  return run_product(c, p);
}

/* Strides of op(a) and op(b) for matrices stored [rows, cols]. */
static void set_layout(pf_gemm *g, int ta, int tb, int64_t a_cols, int64_t b_cols) {
  g->a_row = ta ? 1 : a_cols;
  g->a_col = ta ? a_cols : 1;
  g->b_row = tb ? 1 : b_cols;
  g->b_col = tb ? b_cols : 1;
  g->ldc = g->n;
}

static pf_status matmul(pf_ctx *c, const void *state) {
  const matmul_state *s = state;
  const DLTensor *x = c->in[0], *y = c->in[1];
  if (x->ndim != 2)
    return PF_INVALID(c, "In[0] is not a matrix. Instead it has shape %s", PF_SHAPE(x).s);
  if (y->ndim != 2)
    return PF_INVALID(c, "In[1] is not a matrix. Instead it has shape %s", PF_SHAPE(y).s);
  product p = {.type = s->T, .size = pf_type_size(s->T), .batches = 1};
  p.g.m = x->shape[s->ta ? 1 : 0];
  p.g.k = x->shape[s->ta ? 0 : 1];
  p.g.n = y->shape[s->tb ? 0 : 1];
  if (p.g.k != y->shape[s->tb ? 1 : 0])
    return PF_INVALID(
        c, "Matrix size-incompatible: In[0]: %s, In[1]: %s (transpose_a=%s, transpose_b=%s)",
        PF_SHAPE(x).s, PF_SHAPE(y).s, s->ta ? "true" : "false", s->tb ? "true" : "false");
  set_layout(&p.g, s->ta, s->tb, x->shape[1], y->shape[1]);
  int64_t shape[2] = {p.g.m, p.g.n};
  DLTensor *out = pf_output_checked(c, 0, shape, 2);
  PF_EXHAUSTED(out);
  return run_typed(c, &p, x, y, out);
}

/* ---------------------------------------------------------------- batches */
/* Broadcasts the leading dimensions; `shape` takes them, without the last two. */
static pf_status batch_shape(pf_ctx *c, const DLTensor *x, const DLTensor *y, int64_t *shape,
                             int32_t *nd) {
  *nd = PF_MAX(x->ndim, y->ndim) - 2;
  for (int32_t d = 0; d < *nd; d++) {
    int32_t dx = d - (*nd - (x->ndim - 2)), dy = d - (*nd - (y->ndim - 2));
    int64_t a = dx < 0 ? 1 : x->shape[dx], b = dy < 0 ? 1 : y->shape[dy];
    if (a != b && a != 1 && b != 1)
      return PF_INVALID(c, "In[0] and In[1] must have compatible batch dimensions: %s vs. %s",
                        PF_SHAPE(x).s, PF_SHAPE(y).s);
    shape[d] = a == 1 ? b : a;
  }
  return PF_OK;
}

/* Element offset of every batch entry of t, broadcast to `shape`. */
static void batch_offsets(const DLTensor *t, const int64_t *shape, int32_t nd, int64_t n,
                          int64_t *at) {
  int64_t matrix = t->shape[t->ndim - 2] * t->shape[t->ndim - 1];
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i, step = matrix, sum = 0;
    for (int32_t d = nd - 1; d >= 0; d--) {
      int32_t dt = d - (nd - (t->ndim - 2));
      int64_t k = rest % shape[d];
      rest /= shape[d];
      if (dt < 0) continue;
      if (t->shape[dt] != 1) sum += k * step;
      step *= t->shape[dt];
    }
    at[i] = sum;
  }
}

static pf_status batch_matmul(pf_ctx *c, const void *state) {
  const matmul_state *s = state;
  const DLTensor *x = c->in[0], *y = c->in[1];
  int64_t shape[PF_MAX_DIMS];
  int32_t nd;
  if (x->ndim < 2) return PF_INVALID(c, "In[0] ndims must be >= 2: %d", x->ndim);
  if (y->ndim < 2) return PF_INVALID(c, "In[1] ndims must be >= 2: %d", y->ndim);
  PF_TRY(pf_check_rank(c, x, "In[0]"));
  PF_TRY(pf_check_rank(c, y, "In[1]"));
  PF_TRY(batch_shape(c, x, y, shape, &nd));
  const int64_t *xs = x->shape + x->ndim - 2, *ys = y->shape + y->ndim - 2;
  product p = {.type = s->T, .size = pf_type_size(s->T)};
  p.conj_a = s->ta;
  p.conj_b = s->tb;
  p.g.m = xs[s->ta ? 1 : 0];
  p.g.k = xs[s->ta ? 0 : 1];
  p.g.n = ys[s->tb ? 0 : 1];
  if (p.g.k != ys[s->tb ? 1 : 0])
    return PF_INVALID(
        c, "In[0] mismatch In[1] shape: %" PRId64 " vs. %" PRId64 ": %s %s adj_x=%s adj_y=%s",
        p.g.k, ys[s->tb ? 1 : 0], PF_SHAPE(x).s, PF_SHAPE(y).s, s->ta ? "true" : "false",
        s->tb ? "true" : "false");
  set_layout(&p.g, s->ta, s->tb, xs[1], ys[1]);
  p.batches = pf_product(shape, 0, nd);
  shape[nd] = p.g.m;
  shape[nd + 1] = p.g.n;
  DLTensor *out = pf_output_checked(c, 0, shape, nd + 2);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  if (!s->ta &&
      pf_product(y->shape, 0, y->ndim - 2) == 1) { /* one right side: a single tall product */
    p.g.m *= p.batches;
    p.batches = 1;
  } else if (p.batches > 1) {
    int64_t *at = c->host->scratch(c, (uint64_t)p.batches * 16, 64);
    if (!at) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for batch offsets");
    batch_offsets(x, shape, nd, p.batches, at);
    batch_offsets(y, shape, nd, p.batches, at + p.batches);
    p.a_at = at;
    p.b_at = at + p.batches;
  }
  return run_typed(c, &p, x, y, out);
}

/* Two flops per multiply-add.  Unknown sizes: no estimate. */
static pf_status product_cost(pf_infer *f, const char *adjoint, double *flops, double *bytes) {
  const pf_host *h = pf_cpu_host;
  const int64_t *x, *y;
  int32_t nx, ny, ta = 0;
  if (!h) return PF_UNKNOWN;
  PF_TRY(h->infer_dims(f, 0, &x, &nx));
  PF_TRY(h->infer_dims(f, 1, &y, &ny));
  PF_TRY(h->infer_attr(f, adjoint, PF_ATTR_BOOL, &ta));
  if (nx < 2 || ny < 2) return PF_UNKNOWN;
  double a = 1, b = (double)y[ny - 1] * (double)y[ny - 2], k = (double)x[nx - (ta ? 2 : 1)];
  for (int32_t d = 0; d < nx; d++) {
    if (x[d] < 0) return PF_UNKNOWN;
    a *= (double)x[d];
  }
  if (y[ny - 1] < 0 || y[ny - 2] < 0) return PF_UNKNOWN;
  *flops = k > 0 ? 2 * a * b / k : 0;
  *bytes = 4 * (a + b);
  return PF_OK;
}
static pf_status matmul_cost(pf_infer *f, double *flops, double *bytes) {
  return product_cost(f, "transpose_a", flops, bytes);
}
static pf_status batch_cost(pf_infer *f, double *flops, double *bytes) {
  return product_cost(f, "adj_x", flops, bytes);
}

#define ENTRY(op, ta_, tb_, fn, cost_) \
  PF_CPU_FLAGS(op, "T=" PF_FLOATS "|int32|int64|" PF_COMPLEX, \
    PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE, \
    .attrs = PF_ATTRS(PF_ATTR(matmul_state, PF_ATTR_TYPE, T), \
                      PF_REF(pf_attr, ta_, PF_ATTR_BOOL, offsetof(matmul_state, ta)), \
                      PF_REF(pf_attr, tb_, PF_ATTR_BOOL, offsetof(matmul_state, tb))), \
    .state_size = sizeof(matmul_state), .compute = fn, .cost = cost_)
const pf_kernel *const PF_ISA_NAME(matmul_kernels)[] = {
  ENTRY("MatMul", "transpose_a", "transpose_b", matmul, matmul_cost),
  ENTRY("BatchMatMul", "adj_x", "adj_y", batch_matmul, batch_cost),
  ENTRY("BatchMatMulV2", "adj_x", "adj_y", batch_matmul, batch_cost),
  NULL
};
