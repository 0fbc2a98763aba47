/* matmul_fused.c - _FusedMatMul: a product, bias, residual sum and activation in one pass over the
 * result; float, double, half, bfloat16.
 *
 * Invariants
 *   1. The epilogue sees every element of the result once, while its block is in the cache.
 *   2. A constant b is packed into panels, once for all that use it, and the constant itself let
 *      go. Without panels sums are those of MatMul.
 *   3. Halves: the epilogue is computed in float, the result rounded once.
 * Threads: those of gemm_product.h; the state is read only after init.
 */
#include "gemm/gemm_product.h"

typedef struct {
  int32_t T, ta, tb, pad;
  int64_t num_args;
  pf_list fused_ops;
  double alpha;
  pf_fused fused; /* from init on, like b */
  pf_gemm_held b;
} fused_state;

static pf_status init(pf_ctx *c, void *state) {
  fused_state *s = state;
  PF_TRY(pf_fused_parse(c, &s->fused_ops, s->alpha, s->num_args, &s->fused));
  return PF_ISA_NAME(pf_gemm_hold)(c, 1, s->T, s->tb, &s->b);
}

static pf_status set_sizes(pf_ctx *c, const fused_state *s, pf_gemm *g) {
  const DLTensor *a = c->in[0], *b = c->in[1];
  const int64_t *bs = b ? b->shape : NULL;
  if (a->ndim != 2) return PF_INVALID(c, "a must be a matrix, got shape %s", PF_SHAPE(a).s);
  if (b && b->ndim != 2) return PF_INVALID(c, "b must be a matrix, got shape %s", PF_SHAPE(b).s);
  g->m = a->shape[s->ta ? 1 : 0];
  g->k = a->shape[s->ta ? 0 : 1];
  g->n = b ? bs[s->tb ? 0 : 1] : s->b.n;
  int64_t inner = b ? bs[s->tb ? 1 : 0] : s->b.k;
  if (g->k != inner)
    return PF_INVALID(
        c, "Matrix size-incompatible: a %s%s has %" PRId64 " columns, b has %" PRId64 " rows",
        PF_SHAPE(a).s, s->ta ? " transposed" : "", g->k, inner);
  pf_gemm_layout(g, s->ta, s->tb, a->shape[1], b ? bs[1] : 1);
  return PF_OK;
}

/* The args, checked, and the result. */
static pf_status set_args(pf_ctx *c, const fused_state *s, const pf_gemm *g, pf_epilogue *e,
                          DLTensor **out) {
  const int64_t shape[2] = {g->m, g->n};
  int32_t at = 2;
  e->act = s->fused.act;
  e->alpha = s->fused.alpha;
  if (s->fused.bias) {
    const DLTensor *bias = c->in[at++];
    if (bias->ndim != 1 || bias->shape[0] != g->n)
      return PF_INVALID(c, "bias must have shape [%" PRId64 "], got %s", g->n, PF_SHAPE(bias).s);
    e->col_bias = PF_DATA(const void, bias);
  }
  if (s->fused.add) {
    const DLTensor *side = c->in[at];
    if (side->ndim != 2 || side->shape[0] != g->m || side->shape[1] != g->n)
      return PF_INVALID(c, "the tensor to add must have shape %s, got %s",
                        pf_shape_text(shape, 2).s, PF_SHAPE(side).s);
    e->side = PF_DATA(const void, side);
    e->ld_side = g->n;
  }
  *out = pf_output_checked(c, 0, shape, 2);
  return *out ? PF_OK : PF_RESOURCE_EXHAUSTED;
}

static pf_status compute(pf_ctx *c, const void *state) {
  const fused_state *s = state;
  pf_gemm_call p = {.type = s->T};
  pf_epilogue e = {0};
  DLTensor *out;
  PF_TRY(set_sizes(c, s, &p.g));
  PF_TRY(set_args(c, s, &p.g, &e, &out));
  if (pf_numel(out) == 0) return PF_OK;
  p.g.a = PF_DATA(const void, c->in[0]);
  p.g.b = c->in[1] ? PF_DATA(const void, c->in[1]) : NULL;
  p.g.c = PF_DATA(void, out);
  p.g.panels = s->b.panels;
  p.g.epilogue = &e;
  return PF_ISA_NAME(pf_gemm_run)(c, &p);
}

const pf_kernel *const PF_ISA_NAME(matmul_fused_kernels)[] = {
  PF_CPU_FLAGS("_FusedMatMul", "T=" PF_FLOATS, PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE,
               .attrs = PF_ATTRS(
                   PF_ATTR(fused_state, PF_ATTR_TYPE, T),
                   PF_ATTR(fused_state, PF_ATTR_INT, num_args),
                   PF_ATTR(fused_state, PF_ATTR_LIST | PF_ATTR_STRING, fused_ops),
                   PF_REF(pf_attr, "transpose_a", PF_ATTR_BOOL, offsetof(fused_state, ta)),
                   PF_REF(pf_attr, "transpose_b", PF_ATTR_BOOL, offsetof(fused_state, tb)),
                   PF_REF(pf_attr, "leakyrelu_alpha", PF_ATTR_FLOAT, offsetof(fused_state, alpha))),
               .state_size = sizeof(fused_state), .init = init, .compute = compute,
               .cost = PF_ISA_NAME(pf_matmul_cost)),
  NULL};
