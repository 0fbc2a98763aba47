/* waiting.Forever: never passes its input on; ends at once when its step is
 * cancelled. */
#include <stdlib.h>
#include <pyflow/kernel.h>

static const pf_host *H;
typedef struct { uint64_t ticket; } waiter;

static void give_up(void *arg) {
  waiter w = *(waiter *)arg;
  free(arg);
  H->done(w.ticket, PF_CANCELLED);
}
static pf_status wait_forever(pf_ctx *c, const void *state) {
  (void)state;
  waiter *w = malloc(sizeof *w);
  pf_ctx *kept = w ? c->host->defer(c, &w->ticket) : NULL;
  if (!kept) {
    free(w);
    return PF_RESOURCE_EXHAUSTED;
  }
  if (c->host->on_cancel(kept, w->ticket, give_up, w) != PF_OK) give_up(w);
  return PF_PENDING;
}
static pf_status same_shape(pf_infer *f) {
  const int64_t *dims;
  int32_t ndim;
  pf_status s = H->infer_dims(f, 0, &dims, &ndim);
  return s ? s : H->infer_set(f, 0, dims, ndim);
}
static const pf_op forever = {.size = sizeof(pf_op), .flags = PF_OP_STATEFUL,
  .name = "waiting.Forever", .sig = "x: float -> y: float", .infer = same_shape};
static const pf_kernel kernel = {.size = sizeof(pf_kernel), .flags = PF_KERNEL_ASYNC,
  .op = "waiting.Forever", .device = "*", .compute = wait_forever};
static const pf_op *const ops[] = {&forever, NULL};
static const pf_kernel *const kernels[] = {&kernel, NULL};
static const pf_plugin plugin = {.size = sizeof plugin, .id = "pyflow.test.waiting",
  .version = "1", .ops = ops, .kernels = kernels, .abi_major = PF_ABI_MAJOR,
  .abi_minor = PF_ABI_MINOR};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h) { H = h; return &plugin; }
