/* A complete pyflow plugin: the op hello.LeakyRelu and its CPU kernel for float32. */
#include <pyflow/kernel.h>

static const pf_host *host;
typedef struct { double alpha; } state;                       /* filled in by the host from the attribute */
typedef struct { const float *x; float *y; float alpha; } loop;

static void part(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  loop *l = arg;
  for (int64_t i = lo; i < hi; i++) l->y[i] = l->x[i] > 0 ? l->x[i] : l->alpha * l->x[i];
}
static pf_status compute(pf_ctx *c, const void *s) {
  const DLTensor *x = c->in[0];
  DLTensor *y = c->host->forward(c, 0, 0, x->shape, x->ndim); /* x's own buffer when nobody else needs it */
  if (!y) return PF_RESOURCE_EXHAUSTED;
  loop l = { PF_DATA(const float, x), PF_DATA(float, y), (float)((const state *)s)->alpha };
  return c->host->parallel_for(c, pf_numel(x), 16384, part, &l);
}
static pf_status infer(pf_infer *f) {                         /* while the graph is built: y has x's shape */
  const int64_t *dims; int32_t n;
  pf_status s = host->infer_dims(f, 0, &dims, &n);
  return s ? s : host->infer_set(f, 0, dims, n);
}
static const pf_op op = { .size = sizeof op, .name = "hello.LeakyRelu", .infer = infer,
                          .sig = "x: T -> y: T; alpha: float = 0.2, T: {float}" };
static const pf_attr *const attrs[] = { PF_ATTR(state, PF_ATTR_FLOAT, alpha), 0 };
static const pf_kernel kernel = { .size = sizeof kernel, .op = "hello.LeakyRelu", .device = "CPU", .attrs = attrs,
                                  .state_size = sizeof(state), .compute = compute };
static const pf_op *const ops[] = { &op, 0 }; static const pf_kernel *const kernels[] = { &kernel, 0 };
static const pf_plugin plugin = { .size = sizeof plugin, .id = "org.example.hello", .version = "1.0",
                                  .ops = ops, .kernels = kernels, .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR };
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h) { host = h; return &plugin; }
