/* Kernels that take time or memory on purpose, for the executor's tests. */
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <pyflow/kernel.h>

typedef struct { int64_t ms; } ms_t;
static const pf_attr *const ms_attrs[] = {PF_ATTR(ms_t, PF_ATTR_INT, ms), 0};

static const pf_host *H;
static pf_status same_shape(pf_infer *f) {
  const int64_t *dims;
  int32_t ndim;
  pf_status s = H->infer_dims(f, 0, &dims, &ndim);
  return s ? s : H->infer_set(f, 0, dims, ndim);
}
static pf_status pass(pf_ctx *c) { return c->host->alias(c, 0, 0, 0, 0); }
static pf_status sleep_compute(pf_ctx *c, const void *s) {
  usleep((useconds_t)((const ms_t *)s)->ms * 1000);
  return pass(c);
}
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}
static pf_status burn_compute(pf_ctx *c, const void *s) {
  double end = now() + (double)((const ms_t *)s)->ms;
  while (now() < end)
    for (volatile int i = 0; i < 2000; i++) { }
  return pass(c);
}
static void add_one(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  float *y = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) y[i] += 1;
  usleep(200);
}
static pf_status spread_compute(pf_ctx *c, const void *s) {
  (void)s;
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  memcpy(y->data, c->in[0]->data, (size_t)pf_numel(y) * 4);
  return c->host->parallel_for(c, pf_numel(y), 64, add_one, y->data);
}
static void note_worker(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  float *y = arg;
  for (int64_t i = lo; i < hi; i++) y[i] = (float)worker;
  usleep(300);
}
static pf_status workers_compute(pf_ctx *c, const void *s) {
  (void)s;
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  return c->host->parallel_for(c, pf_numel(y), 1, note_worker, y->data);
}
static pf_status fail_compute(pf_ctx *c, const void *s) {
  usleep((useconds_t)((const ms_t *)s)->ms * 1000);
  return pf_fail(c, PF_DATA_LOSS, "failed on purpose");
}
#define SIG "x: T -> y: T; ms: int = 1, T: type"
/* stateful: what takes time here is the point, so constant folding and merging must leave it */
#define K(ID, NAME, FLAGS, FN) \
  static const pf_op op_##ID = {.size = sizeof(pf_op), .flags = PF_OP_STATEFUL, .name = NAME, .sig = SIG, .infer = same_shape}; \
  static const pf_kernel k_##ID = {.size = sizeof(pf_kernel), .flags = FLAGS, .op = NAME, .device = "CPU", .attrs = ms_attrs, \
    .state_size = sizeof(ms_t), .compute = FN}
K(sleep, "timing.Sleep", PF_KERNEL_EXPENSIVE, sleep_compute);
K(burn, "timing.Burn", PF_KERNEL_EXPENSIVE, burn_compute);
K(spread, "timing.Spread", PF_KERNEL_EXPENSIVE, spread_compute);
K(workers, "timing.Workers", PF_KERNEL_EXPENSIVE, workers_compute);
K(fail, "timing.Fail", PF_KERNEL_EXPENSIVE, fail_compute);
K(nap, "timing.Nap", PF_KERNEL_BLOCKING, sleep_compute);
static const pf_op *const ops[] = {&op_sleep, &op_burn, &op_spread, &op_workers, &op_fail, &op_nap, 0};
static const pf_kernel *const kernels[] = {&k_sleep, &k_burn, &k_spread, &k_workers, &k_fail, &k_nap, 0};
static const pf_plugin plugin = {.size = sizeof plugin, .id = "pyflow.test.timing", .version = "1", .ops = ops, .kernels = kernels,
  .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h) { H = h; return &plugin; }
