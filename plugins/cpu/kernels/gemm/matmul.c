/* matmul.c - MatMul, BatchMatMul, BatchMatMulV2 and V3: float, double, half, bfloat16, int32,
 * int64, complex.
 *
 * Invariants
 *   1. A zero inner dimension gives zeros; a zero outer one an empty result.
 *   2. The result is cut by its sizes alone: equal inputs give equal bits on any number of threads.
 * Threads: those of gemm_product.h.
 */
#include "base/machine.h"
#include "gemm/gemm_product.h"

enum { STREAM_BYTES = 2 * PF_STREAM_BYTES }; /* results of that size go past the caches */

typedef struct {
  int32_t T, ta, tb, pad;
  pf_gemm_held b;
} matmul_state;

static pf_status run_typed(pf_ctx *c, pf_gemm_call *p, const DLTensor *x, const DLTensor *y,
                           DLTensor *out) {
  p->g.a = PF_DATA(const void, x);
  p->g.b = PF_DATA(const void, y);
  p->g.c = PF_DATA(void, out);
  return pf_numel(out) == 0 ? PF_OK : PF_ISA_NAME(pf_gemm_run)(c, p);
}

/* Only MatMul holds a constant right side: a batch's is small. */
static pf_status hold(pf_ctx *c, void *state) {
  matmul_state *s = state;
  return PF_ISA_NAME(pf_gemm_hold)(c, 1, s->T, s->tb, &s->b);
}

static pf_status matmul_held(pf_ctx *c, const matmul_state *s) {
  const DLTensor *x = c->in[0];
  pf_gemm_call p = {.type = s->T, .batches = 1};
  if (x->ndim != 2)
    return PF_INVALID(c, "In[0] is not a matrix. Instead it has shape %s", PF_SHAPE(x).s);
  p.g.m = x->shape[s->ta ? 1 : 0];
  p.g.k = x->shape[s->ta ? 0 : 1];
  p.g.n = s->b.n;
  if (p.g.k != s->b.k)
    return PF_INVALID(c, "Matrix size-incompatible: In[0]: %s%s, In[1] has %" PRId64 " rows",
                      PF_SHAPE(x).s, s->ta ? " transposed" : "", s->b.k);
  pf_gemm_layout(&p.g, s->ta, 0, x->shape[1], p.g.n);
  int64_t shape[2] = {p.g.m, p.g.n};
  DLTensor *out = pf_output_checked(c, 0, shape, 2);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  p.g.a = PF_DATA(const void, x);
  p.g.c = PF_DATA(void, out);
  p.g.panels = s->b.panels;
  return PF_ISA_NAME(pf_gemm_run)(c, &p);
}

static pf_status matmul(pf_ctx *c, const void *state) {
  const matmul_state *s = state;
  const DLTensor *x = c->in[0], *y = c->in[1];
  if (s->b.panels) return matmul_held(c, s);
  if (x->ndim != 2)
    return PF_INVALID(c, "In[0] is not a matrix. Instead it has shape %s", PF_SHAPE(x).s);
  if (y->ndim != 2)
    return PF_INVALID(c, "In[1] is not a matrix. Instead it has shape %s", PF_SHAPE(y).s);
  pf_gemm_call p = {.type = s->T, .batches = 1};
  p.g.m = x->shape[s->ta ? 1 : 0];
  p.g.k = x->shape[s->ta ? 0 : 1];
  p.g.n = y->shape[s->tb ? 0 : 1];
  if (p.g.k != y->shape[s->tb ? 1 : 0])
    return PF_INVALID(
        c, "Matrix size-incompatible: In[0]: %s, In[1]: %s (transpose_a=%s, transpose_b=%s)",
        PF_SHAPE(x).s, PF_SHAPE(y).s, s->ta ? "true" : "false", s->tb ? "true" : "false");
  pf_gemm_layout(&p.g, s->ta, s->tb, x->shape[1], y->shape[1]);
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
  const int64_t own = pf_product(t->shape, 0, t->ndim - 2);
  if (own == n || own == 1) { /* nothing or everything is broadcast */
    for (int64_t i = 0; i < n; i++) at[i] = own == 1 ? 0 : i * matrix;
    return;
  }
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
  pf_gemm_call p = {.type = s->T};
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
  pf_gemm_layout(&p.g, s->ta, s->tb, xs[1], ys[1]);
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
    p.g.stream = !pf_is_half(s->T) && pf_numel(out) * pf_type_size(s->T) >= STREAM_BYTES;
  }
  return run_typed(c, &p, x, y, out);
}

/* Two flops per multiply-add.  Unknown sizes: no estimate. */
static pf_status product_cost(pf_infer *f, const char *adjoint, double *flops, double *bytes) {
  const pf_host *h = f->host;
  const int64_t *x, *y;
  int32_t nx, ny, ta = 0;
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
pf_status PF_ISA_NAME(pf_matmul_cost)(pf_infer *f, double *flops, double *bytes) {
  return product_cost(f, "transpose_a", flops, bytes);
}
static pf_status batch_cost(pf_infer *f, double *flops, double *bytes) {
  return product_cost(f, "adj_x", flops, bytes);
}

#define ENTRY(op, ta_, tb_, fn, cost_, ...) \
  PF_CPU_FLAGS(op, "T=" PF_FLOATS "|int32|int64|" PF_COMPLEX, \
    PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE, \
    .attrs = PF_ATTRS(PF_ATTR(matmul_state, PF_ATTR_TYPE, T), \
                      PF_REF(pf_attr, ta_, PF_ATTR_BOOL, offsetof(matmul_state, ta)), \
                      PF_REF(pf_attr, tb_, PF_ATTR_BOOL, offsetof(matmul_state, tb))), \
    .state_size = sizeof(matmul_state), .compute = fn, .cost = cost_, __VA_ARGS__)
const pf_kernel *const PF_ISA_NAME(matmul_kernels)[] = {
  ENTRY("MatMul", "transpose_a", "transpose_b", matmul, PF_ISA_NAME(pf_matmul_cost), .init = hold),
  ENTRY("BatchMatMul", "adj_x", "adj_y", batch_matmul, batch_cost, .init = NULL),
  ENTRY("BatchMatMulV2", "adj_x", "adj_y", batch_matmul, batch_cost, .init = NULL), NULL};
