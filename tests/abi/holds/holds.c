/* holds.c - kernels that take a variable's buffer for elements of one type, as they say it or not, and
 * kernels that pass off one kind of tensor as another. */
#include <pyflow/kernel.h>

/* y = the sum of the variable's elements, taken for floats */
static pf_status sum(pf_ctx *c, const void *s) {
  pf_var v = {0, PF_VAR_READ};
  pf_status st = c->host->var_lock(c, &v, 1);
  DLTensor *x = st ? NULL : c->host->var_get(c, 0), *y = x ? c->host->output(c, 0, NULL, 0) : NULL;
  if (!y) return st ? st : PF_RESOURCE_EXHAUSTED;
  *PF_DATA(float, y) = 0;
  for (int64_t i = 0; i < pf_numel(x); i++) *PF_DATA(float, y) += PF_DATA(float, x)[i];
  return PF_OK;
}
/* y = the size of an element, in bits */
static pf_status bits(pf_ctx *c, const void *s) {
  pf_var v = {0, PF_VAR_READ};
  pf_status st = c->host->var_lock(c, &v, 1);
  DLTensor *x = st ? NULL : c->host->var_get(c, 0), *y = x ? c->host->output(c, 0, NULL, 0) : NULL;
  if (!y) return st ? st : PF_RESOURCE_EXHAUSTED;
  *PF_DATA(int64_t, y) = x->dtype.bits;
  return PF_OK;
}
/* only var_get is asked of input 1: it is the same variable as input 0, locked already */
static pf_status twice(pf_ctx *c, const void *s) {
  pf_var v = {0, PF_VAR_READ};
  pf_status st = c->host->var_lock(c, &v, 1);
  return st ? st : c->host->var_get(c, 1) ? pf_fail(c, PF_INTERNAL, "lent") : PF_RESOURCE_EXHAUSTED;
}

static pf_status alias(pf_ctx *c, const void *s) { return c->host->alias(c, 0, 0, NULL, 0); }
static pf_status alias_shape(pf_ctx *c, const void *s) {
  return c->host->alias(c, 0, 0, c->in[0]->shape, c->in[0]->ndim);
}
static pf_status forward(pf_ctx *c, const void *s) {
  return c->host->forward(c, 0, 0, c->in[0]->shape, c->in[0]->ndim) ? PF_OK : PF_RESOURCE_EXHAUSTED;
}
static pf_status retained(pf_ctx *c, const void *s) { return c->host->set_output(c, 0, c->host->retain(c, 0)); }
static pf_status handle(pf_ctx *c, const void *s) {
  pf_str nowhere = {"", 0}, name = {"holds_handle", 12};
  return c->host->var_handle(c, 0, nowhere, name, PF_FLOAT32, (pf_shape){NULL, -1, 0});
}

#define OP(name_, sig_) (&(const pf_op){.size = sizeof(pf_op), .flags = PF_OP_STATEFUL, .name = "holds." name_, .sig = sig_})
#define KERNEL(op_, fn, ...) (&(const pf_kernel){.size = sizeof(pf_kernel), .op = "holds." op_, .device = "CPU", .compute = fn, \
  .args = (const pf_arg *const[]){__VA_ARGS__, NULL}})
#define ARG(name_, flags_) (&(const pf_arg){.size = sizeof(pf_arg), .flags = flags_, .name = name_})

static const pf_op *const ops[] = {
  OP("Said", "v: resource -> y: float"), OP("Named", "v: resource, k: int64 -> y: float; dtype: type"),
  OP("Silent", "v: resource, x: float -> y: float"), OP("Bits", "v: resource, x: int8 -> n: int64"),
  OP("Twice", "a: resource, b: resource -> "), OP("Leak", "v: Ref(T) -> y: T; T: type"),
  OP("LeakResource", "v: resource -> y: int64"), OP("Handle", " -> y: float"), OP("WrongRef", " -> y: Ref(double)"),
  OP("Text", "x: complex128 -> y: string"), OP("AliasText", "x: complex128 -> y: string"),
  OP("KeptText", "x: complex128 -> y: string"), OP("AsDouble", "x: int64 -> y: double"), NULL};
static const pf_kernel *const kernels[] = {
  KERNEL("Said", sum, ARG("v", PF_FLOAT32 << PF_ARG_TYPE_SHIFT)), KERNEL("Named", sum, NULL), KERNEL("Silent", sum, NULL),
  KERNEL("Bits", bits, ARG("v", PF_ARG_ANY_TYPE)),
  KERNEL("Twice", twice, ARG("a", PF_FLOAT32 << PF_ARG_TYPE_SHIFT), ARG("b", PF_INT32 << PF_ARG_TYPE_SHIFT)),
  KERNEL("Leak", alias, NULL), KERNEL("LeakResource", alias, NULL), KERNEL("Handle", handle, NULL),
  KERNEL("WrongRef", handle, NULL), KERNEL("Text", forward, NULL), KERNEL("AliasText", alias_shape, NULL),
  KERNEL("KeptText", retained, NULL), KERNEL("AsDouble", alias, NULL), NULL};
static const pf_plugin plugin = {.size = sizeof plugin, .id = "test.holds", .version = "1", .ops = ops, .kernels = kernels,
                                 .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR, .min_minor = 0};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) { return &plugin; }
