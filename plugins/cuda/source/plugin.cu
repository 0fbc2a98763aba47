/* plugin.cu - the plugin's entry: one device type, "GPU", and its kernels.
 *
 * Invariants
 *   1. Handing over the tables touches neither driver nor host: plugin.json is written on machines
 *      without a GPU.
 *   2. The tables are complete before the entry returns and never change afterwards.
 *   3. `start` succeeds without a driver: there are then no devices, and one INFO line says why.
 */
#include "device.h"

#define EACH_TABLE(X)                                                                       \
  X(unary)                                                                                  \
  X(binary) X(binary_grad) X(binary_int) X(cast) X(reductions) X(softmax) X(shape) X(slice) \
      X(join) X(matmul) X(conv) X(pool) X(norm) X(random) X(training) X(state) X(segments)
#define DECLARE(x) extern const kernel_list x##_kernels;
EACH_TABLE(DECLARE)

enum { MAX_KERNELS = 1024 };
static const pf_kernel *kernels[MAX_KERNELS + 1];
static const pf_device *const devices[] = {&gpu_table, NULL};

static void collect(void) {
  int n = 0;
#define ADD(x) \
  for (int i = 0; i < x##_kernels.n && n < MAX_KERNELS; i++) kernels[n++] = &x##_kernels.first[i];
  EACH_TABLE(ADD)
  kernels[n] = NULL;
}

static pf_status start(const pf_host *host) {
  char text[400];
  if (gpu_count() > 0) return PF_OK;
  int n = snprintf(text, sizeof text, "pyflow_cuda: no GPU is used: %s", gpu_absent_reason());
  host->log(PF_LOG_INFO, text, least(n, (int)sizeof text - 1));
  return PF_OK;
}

static const pf_plugin plugin = {.size = sizeof(pf_plugin),
                                 .flags = 0,
                                 .id = "pyflow.cuda",
                                 .version = "0.2.0",
                                 .ops = NULL,
                                 .kernels = kernels,
                                 .devices = devices,
                                 .start = start,
                                 .stop = NULL,
                                 .extension = NULL,
                                 .abi_major = PF_ABI_MAJOR,
                                 .abi_minor = PF_ABI_MINOR,
                                 .min_minor = 0,
                                 .pad = 0};

PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) {
  (void)host;
  collect();
  return &plugin;
}
