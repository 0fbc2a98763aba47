/* matmul.cu - MatMul, BatchMatMul and BatchMatMulV2 through cuBLAS, or in a plain kernel where
 * cuBLAS is not.
 *
 * cuBLAS is column-major: a row-major C[m, n] = A B is its C'[n, m] = B' A', so the operands change
 * places and nothing is copied. Halves are multiplied with float accumulation.  float32 is full
 * precision unless PYFLOW_CUDA_TF32=1. int32 and int64, and sizes above 2^31 - 1, take the plain
 * kernel.
 */
#include "walk.h"
#include "libraries.h"

namespace {

typedef struct { int32_t ta, tb; } matmul_state;
typedef struct {
  const void *a, *b;
  void *c;
  int64_t m, n, k, a_cols, b_cols; /* as stored, row-major */
  int64_t batches, a_step,
      b_step; /* elements from one batch entry to the next; 0: the same matrix */
  bool ta, tb;
} gemm;

/* ---------------------------------------------------------------- plain */
template <class T> struct gemm_each {
  gemm g;
  walk<2> batch; /* offsets of A and B, when the steps are not even */
  int32_t walked;
  PF_BOTH void operator()(int64_t i) const {
    typedef wide<T> W;
    int64_t col = i % g.n, row = i / g.n % g.m, e = i / g.n / g.m,
            at[2] = {e * g.a_step, e * g.b_step};
    if (walked) batch.offsets(e, at);
    const T *a = (const T *)g.a + at[0] + (g.ta ? row : row * g.a_cols),
            *b = (const T *)g.b + at[1] + (g.tb ? col * g.b_cols : col);
    int64_t sa = g.ta ? g.a_cols : 1, sb = g.tb ? 1 : g.b_cols;
    W sum = 0;
    for (int64_t k = 0; k < g.k; k++)
      sum = (W)((wraps<W>)sum + (wraps<W>)up(a[k * sa]) * (wraps<W>)up(b[k * sb]));
    ((T *)g.c)[i] = down<T>(sum);
  }
};
static pf_status plain(pf_ctx *c, int32_t type, const gemm *g, const walk<2> *batch) {
  int64_t n = g->m * g->n * g->batches;
  auto run = [&](auto t) -> pf_status {
    typedef typename decltype(t)::type T;
    gemm_each<T> f;
    memset(&f, 0, sizeof f);
    f.g = *g, f.walked = batch != NULL;
    if (batch) f.batch = *batch;
    return each(c, n, f);
  };
  return type == PF_INT32 || type == PF_INT64 ? with_index(type, run) : with_float(type, run);
}

/* ---------------------------------------------------------------- cuBLAS */
static int blas_type(int32_t type) {
  return type == PF_FLOAT64    ? BLAS_R_64F
         : type == PF_FLOAT16  ? BLAS_R_16F
         : type == PF_BFLOAT16 ? BLAS_R_16BF
                               : BLAS_R_32F;
}
static bool fits_blas(int32_t type, const gemm *g) {
  if (type == PF_INT32 || type == PF_INT64) return false;
  return most(most(g->m, g->n), most(g->k, g->batches)) <= INT32_MAX;
}
/* with s->lock held */
static int call_blas(const blas_library *b, blas_handle h, int32_t type, const gemm *g) {
  double one64 = 1, zero64 = 0;
  float one32 = 1, zero32 = 0;
  bool wide64 = type == PF_FLOAT64;
  const void *one = wide64 ? (const void *)&one64 : &one32,
             *zero = wide64 ? (const void *)&zero64 : &zero32;
  int kind = blas_type(type);
  int compute = wide64                                             ? BLAS_COMPUTE_64F
                : type == PF_FLOAT32 && option("PYFLOW_CUDA_TF32") ? BLAS_COMPUTE_32F_FAST_TF32
                                                                   : BLAS_COMPUTE_32F;
  int ta = g->ta ? BLAS_TRANSPOSED : BLAS_PLAIN, tb = g->tb ? BLAS_TRANSPOSED : BLAS_PLAIN;
  if (g->batches == 1)
    return b->gemm(h, tb, ta, (int)g->n, (int)g->m, (int)g->k, one, g->b, kind, (int)g->b_cols,
                   g->a, kind, (int)g->a_cols, zero, g->c, kind, (int)g->n, compute,
                   BLAS_DEFAULT_ALGO);
  return b->gemm_batched(h, tb, ta, (int)g->n, (int)g->m, (int)g->k, one, g->b, kind,
                         (int)g->b_cols, g->b_step, g->a, kind, (int)g->a_cols, g->a_step, zero,
                         g->c, kind, (int)g->n, g->m * g->n, (int)g->batches, compute,
                         BLAS_DEFAULT_ALGO);
}
static pf_status run_gemm(pf_ctx *c, int32_t type, const gemm *g) {
  gpu_stream *s = stream_of(c);
  const blas_library *b = fits_blas(type, g) ? blas() : NULL;
  PF_TRY(check_cuda(c, select_device(device_of(c)), "cudaSetDevice"));
  if (!fits_blas(type, g)) return plain(c, type, g, NULL);
  pthread_mutex_lock(&s->lock);
  blas_handle h = blas_of(s);
  int status = b && h ? call_blas(b, h, type, g) : 0;
  pthread_mutex_unlock(&s->lock);
  if (!b || !h) return plain(c, type, g, NULL);
  if (!status) return PF_OK;
  return failf(c, PF_INTERNAL,
               "cuBLAS failed with status %d (%s) on [%" PRId64 ",%" PRId64 "] x [%" PRId64
               ",%" PRId64 "]",
               status, b->status_name ? b->status_name(status) : "?", g->m, g->k, g->k, g->n);
}

/* ---------------------------------------------------------------- kernels */
static pf_status finish(pf_ctx *c, int32_t type, gemm *g, DLTensor *out) {
  if (pf_numel(out) == 0) return PF_OK;
  if (g->k == 0) return fill_zero(c, out, pf_numel(out) * type_size(type));
  g->c = PF_DATA(void, out);
  return run_gemm(c, type, g);
}
static pf_status matmul(pf_ctx *c, const void *state) {
  const matmul_state *s = (const matmul_state *)state;
  const DLTensor *x = c->in[0], *y = c->in[1];
  if (x->ndim != 2) return INVALID(c, "In[0] is not a matrix. Instead it has shape %s", SHAPE(x));
  if (y->ndim != 2) return INVALID(c, "In[1] is not a matrix. Instead it has shape %s", SHAPE(y));
  gemm g = {.a = PF_DATA(const void, x),
            .b = PF_DATA(const void, y),
            .c = NULL,
            .m = x->shape[s->ta ? 1 : 0],
            .n = y->shape[s->tb ? 0 : 1],
            .k = x->shape[s->ta ? 0 : 1],
            .a_cols = x->shape[1],
            .b_cols = y->shape[1],
            .batches = 1,
            .a_step = 0,
            .b_step = 0,
            .ta = s->ta != 0,
            .tb = s->tb != 0};
  if (g.k != y->shape[s->tb ? 1 : 0])
    return INVALID(
        c, "Matrix size-incompatible: In[0]: %s, In[1]: %s (transpose_a=%s, transpose_b=%s)",
        SHAPE(x), SHAPE(y), s->ta ? "true" : "false", s->tb ? "true" : "false");
  int64_t shape[2] = {g.m, g.n};
  DLTensor *out = output_checked(c, 0, shape, 2);
  PF_EXHAUSTED(out);
  return finish(c, c->in_type[0], &g, out);
}

/* the batch dimensions of both operands as one even step each, if they have one */
static bool even_steps(const walk<2> *w, gemm *g) {
  if (w->nd > 1) return false;
  g->a_step = w->nd ? w->stride[0][0] : 0, g->b_step = w->nd ? w->stride[1][0] : 0;
  return true;
}
static pf_status run_batches(pf_ctx *c, int32_t type, gemm *g, const walk<2> *w, DLTensor *out) {
  if (pf_numel(out) == 0 || g->k == 0 || even_steps(w, g)) return finish(c, type, g, out);
  g->c = PF_DATA(void, out);
  if (!fits_blas(type, g) || !blas()) return plain(c, type, g, w);
  gemm one = *g; /* broadcast in a pattern: the innermost dimension at a time */
  int last = w->nd - 1;
  one.batches = w->shape[last], one.a_step = w->stride[0][last], one.b_step = w->stride[1][last];
  for (int64_t i = 0; i < g->batches; i += one.batches) {
    int64_t at[2], size = type_size(type);
    w->offsets(i, at);
    one.a = (const char *)g->a + at[0] * size, one.b = (const char *)g->b + at[1] * size;
    one.c = (char *)g->c + i * g->m * g->n * size;
    PF_TRY(run_gemm(c, type, &one));
  }
  return PF_OK;
}
static pf_status batch_matmul(pf_ctx *c, const void *state) {
  const matmul_state *s = (const matmul_state *)state;
  const DLTensor *x = c->in[0], *y = c->in[1];
  int64_t shape[MAX_DIMS], sx[MAX_DIMS], sy[MAX_DIMS];
  int32_t nd = 0;
  if (x->ndim < 2) return INVALID(c, "In[0] ndims must be >= 2: %d", x->ndim);
  if (y->ndim < 2) return INVALID(c, "In[1] ndims must be >= 2: %d", y->ndim);
  PF_TRY(check_rank(c, x, "In[0]"));
  PF_TRY(check_rank(c, y, "In[1]"));
  DLTensor bx = *x, by = *y;
  bx.ndim -= 2, by.ndim -= 2;
  PF_TRY(broadcast_shape(c, &bx, &by, shape, &nd));
  const int64_t *xs = x->shape + bx.ndim, *ys = y->shape + by.ndim;
  gemm g = {.a = PF_DATA(const void, x),
            .b = PF_DATA(const void, y),
            .c = NULL,
            .m = xs[s->ta ? 1 : 0],
            .n = ys[s->tb ? 0 : 1],
            .k = xs[s->ta ? 0 : 1],
            .a_cols = xs[1],
            .b_cols = ys[1],
            .batches = product(shape, 0, nd),
            .a_step = 0,
            .b_step = 0,
            .ta = s->ta != 0,
            .tb = s->tb != 0};
  if (g.k != ys[s->tb ? 1 : 0])
    return INVALID(
        c, "In[0] mismatch In[1] shape: %" PRId64 " vs. %" PRId64 ": %s %s adj_x=%s adj_y=%s", g.k,
        ys[s->tb ? 1 : 0], SHAPE(x), SHAPE(y), s->ta ? "true" : "false", s->tb ? "true" : "false");
  broadcast_strides(bx.shape, bx.ndim, nd, sx);
  broadcast_strides(by.shape, by.ndim, nd, sy);
  for (int32_t d = 0; d < nd; d++) sx[d] *= xs[0] * xs[1], sy[d] *= ys[0] * ys[1];
  const int64_t *strides[2] = {sx, sy};
  walk<2> w;
  if (!walk_plan(&w, shape, nd, strides)) return TOO_TANGLED(c);
  shape[nd] = g.m, shape[nd + 1] = g.n;
  DLTensor *out = output_checked(c, 0, shape, nd + 2);
  PF_EXHAUSTED(out);
  return run_batches(c, c->in_type[0], &g, &w, out);
}

static constexpr attr_list plain_attrs({ATTR_NAMED("transpose_a", matmul_state, PF_ATTR_BOOL, ta),
                                        ATTR_NAMED("transpose_b", matmul_state, PF_ATTR_BOOL, tb)});
static constexpr attr_list batch_attrs({ATTR_NAMED("adj_x", matmul_state, PF_ATTR_BOOL, ta),
                                        ATTR_NAMED("adj_y", matmul_state, PF_ATTR_BOOL, tb)});
#define TYPES "T=" T_FLOATS "|int32|int64"
#define STATE .state_size = sizeof(matmul_state)
static const pf_kernel table[] = {
  GPU("MatMul", TYPES, SAME, .attrs = plain_attrs.at, STATE, .compute = matmul),
  GPU("BatchMatMul", TYPES, SAME, .attrs = batch_attrs.at, STATE, .compute = batch_matmul),
  GPU("BatchMatMulV2", TYPES, SAME, .attrs = batch_attrs.at, STATE, .compute = batch_matmul),
};
} // namespace
KERNELS(matmul_kernels, table)
