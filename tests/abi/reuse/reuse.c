/* reuse.c - a third party's kernels that say what they do with buffers, as the CPU plugin's do.
 *
 *     acme.Relu   written over its input when nobody else needs that           pf_arg.reuse
 *     acme.Add    over either input                                            PF_ARG_REUSE_ANY
 *     acme.View   its input, flat                                              PF_ARG_ALIAS
 *     acme.Pair   its two inputs, one by one, as a list                        PF_ARG_ALIAS
 *     acme.Silent relu, but its table says nothing
 *     acme.Look   reads x beside a handle, and keeps nothing                   PF_KERNEL_BORROWS
 *     acme.Put    might put x into what the handle leads to
 *     acme.Store  stores x; so it says                                         PF_ARG_KEPT
 */
#include <pyflow/kernel.h>

static pf_status relu(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  DLTensor *y = c->host->forward(c, 0, 0, x->shape, x->ndim);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < pf_numel(y); i++) {
    float v = PF_DATA(float, x)[i];
    PF_DATA(float, y)[i] = v > 0 ? v : 0;
  }
  return PF_OK;
}

static pf_status add(pf_ctx *c, const void *state) {
  const DLTensor *a = c->in[0], *b = c->in[1];
  DLTensor *z = c->host->forward(c, c->host->can_forward(c, 0) ? 0 : 1, 0, a->shape, a->ndim);
  if (!z) return PF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < pf_numel(z); i++)
    PF_DATA(float, z)[i] = PF_DATA(float, a)[i] + PF_DATA(float, b)[i];
  return PF_OK;
}

static pf_status view(pf_ctx *c, const void *state) {
  int64_t n = pf_numel(c->in[0]);
  return c->host->alias(c, 0, 0, &n, 1);
}

static pf_status pair(pf_ctx *c, const void *state) {
  for (int32_t i = 0; i < c->n_in; i++) {
    pf_status s = c->host->alias(c, i, i, c->in[i]->shape, c->in[i]->ndim);
    if (s) return s;
  }
  return PF_OK;
}

static pf_status nothing(pf_ctx *c, const void *state) { return PF_OK; }

static pf_status same(pf_infer *i) {     /* output k has input k's shape */
  const int64_t *dims;
  int32_t n;
  pf_status s = PF_OK;
  for (int32_t k = 0; k < i->host->infer_n(i, 1) && !s; k++) {
    s = i->host->infer_dims(i, k, &dims, &n);
    if (!s) s = i->host->infer_set(i, k, dims, n);
  }
  return s;
}

static pf_status flat(pf_infer *i) {
  const int64_t *dims;
  int64_t size = 1;
  int32_t n;
  pf_status s = i->host->infer_dims(i, 0, &dims, &n);
  for (int32_t d = 0; d < n; d++) size = dims[d] < 0 || size < 0 ? -1 : size * dims[d];
  return s ? s : i->host->infer_set(i, 0, &size, 1);
}

#define OP(name, sig, infer) PF_REF(pf_op, name, sig, infer, 0, 0, 0)
#define KEEPER(name) &(const pf_op){sizeof(pf_op), PF_OP_STATEFUL, name, "handle: resource, x: float -> ", 0, 1, 0, 0}
static const pf_op *const ops[] = {
  OP("acme.Relu", "x: float -> y: float", same), OP("acme.Silent", "x: float -> y: float", same),
  OP("acme.Add", "a: float, b: float -> z: float", same), OP("acme.View", "x: float -> y: float", flat),
  OP("acme.Pair", "x: N * float -> y: N * float; N: int >= 1", same), KEEPER("acme.Look"), KEEPER("acme.Put"),
  KEEPER("acme.Store"), 0};

#define ARGS(name, flags, reuse) (const pf_arg *const[]){&(const pf_arg){sizeof(pf_arg), flags, name, 0, reuse}, 0}
#define KERNEL(op_, fn, flags_, args_) &(const pf_kernel){.size = sizeof(pf_kernel), .flags = flags_, .op = op_, \
  .device = "CPU", .min_minor = 1, .args = args_, .compute = fn}
static const pf_kernel *const kernels[] = {
  KERNEL("acme.Relu", relu, 0, ARGS("y", 0, 1)), KERNEL("acme.Silent", relu, 0, 0),
  KERNEL("acme.Add", add, 0, ARGS("z", PF_ARG_REUSE_ANY, 0)), KERNEL("acme.View", view, 0, ARGS("y", PF_ARG_ALIAS, 1)),
  KERNEL("acme.Pair", pair, 0, ARGS("y", PF_ARG_ALIAS, 1)), KERNEL("acme.Look", nothing, PF_KERNEL_BORROWS, 0),
  KERNEL("acme.Put", nothing, 0, 0), KERNEL("acme.Store", nothing, PF_KERNEL_BORROWS, ARGS("x", PF_ARG_KEPT, 0)), 0};

static const pf_plugin plugin = {.size = sizeof(pf_plugin), .id = "com.acme.reuse", .version = "1", .ops = ops,
  .kernels = kernels, .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR, .min_minor = 1};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) { return &plugin; }
