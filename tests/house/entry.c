/* entry.c - the plugin that tests/house builds of the new kernels alone, by the lists that the CPU plugin is built by: in the
 * tree they are part of that one. */
#include "base/common.h"
#include "tables.h"

#define DECLARE(x) extern const pf_kernel *const x##_kernels[];
#define ADD(x) add(x##_kernels);
PF_TABLES(DECLARE, DECLARE, DECLARE)

static const pf_kernel *kernels[64];
static int n_kernels;
static void add(const pf_kernel *const *table) {
  while (*table) kernels[n_kernels++] = *table++;
}
static const pf_plugin plugin = {.size = sizeof plugin, .id = "com.house", .version = "1", .kernels = kernels,
  .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR, .min_minor = 1};

PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) {
  (void)host;
  n_kernels = 0;
  PF_TABLES(ADD, ADD, ADD)
  kernels[n_kernels] = 0;
  return &plugin;
}
