/* spin.c - a kernel that only computes, for `spin.measure`: how well does the pool use two threads?
 *
 * The op bench.Spin runs a chain of dependent multiply-adds, about 1 ms, touching no memory.  `spin_threads` runs the same chain
 * `jobs` times on plain C threads that take jobs from a shared counter: the speed-up this machine offers.
 */
#include <pthread.h>
#include <pyflow/kernel.h>
#include <stdatomic.h>
#include <time.h>

static float spin(int64_t n, float v) {
  for (int64_t i = 0; i < n; i++) v = v * 0.999f + 0.001f;
  return v;
}

/* ---------------------------------------------------------------- the plugin */
static const pf_host *host;
typedef struct { int64_t n; } state;

static pf_status compute(pf_ctx *c, const void *s) {
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  *PF_DATA(float, y) = spin(((const state *)s)->n, *PF_DATA(const float, c->in[0]));
  return PF_OK;
}
static pf_status infer(pf_infer *f) { return host->infer_set(f, 0, 0, 0); }

static const pf_op op = { .size = sizeof op, .name = "bench.Spin", .sig = "x: float -> y: float; n: int", .infer = infer };
static const pf_attr *const attrs[] = { PF_ATTR(state, PF_ATTR_INT, n), 0 };
static const pf_kernel kernel = { .size = sizeof kernel, .flags = PF_KERNEL_EXPENSIVE, .op = "bench.Spin", .device = "CPU",
                                  .attrs = attrs, .state_size = sizeof(state), .compute = compute };
static const pf_op *const ops[] = { &op, 0 };
static const pf_kernel *const kernels[] = { &kernel, 0 };
static const pf_plugin plugin = { .size = sizeof plugin, .id = "pyflow.bench", .version = "1", .ops = ops, .kernels = kernels,
                                  .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR };
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h) { host = h; return &plugin; }

/* ---------------------------------------------------------------- plain threads */
static atomic_int left;
static int64_t length;

static void *worker(void *out) {
  while (atomic_fetch_sub(&left, 1) > 0) *(volatile float *)out = spin(length, 0.5f);
  return 0;
}

/* Seconds for `jobs` spins of length n on `threads` threads, the caller being one. */
PF_EXPORT double spin_threads(int threads, int jobs, int64_t n) {
  pthread_t ids[64];
  float sink[64];
  struct timespec a, b;
  left = jobs;
  length = n;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 1; i < threads && i < 64; i++) pthread_create(&ids[i], 0, worker, &sink[i]);
  worker(&sink[0]);
  for (int i = 1; i < threads && i < 64; i++) pthread_join(ids[i], 0);
  clock_gettime(CLOCK_MONOTONIC, &b);
  return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}
