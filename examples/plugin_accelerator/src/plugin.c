/* plugin.c - joins the tables of the other files. */
#include "launch.h"

static const pf_kernel *kernels[160];
static const pf_device *const devices[] = {&fake_device_table, NULL};

static const void *extension(const char *id) {
  return strcmp(id, "pyflow.fake/1") ? NULL : &fake_control_table;
}
static void stop(const pf_host *host) { (void)host; }

static const pf_plugin plugin = {.size = sizeof plugin,
                                 .id = "pyflow.fake",
                                 .version = "1.0",
                                 .ops = special_ops,
                                 .kernels = kernels,
                                 .devices = devices,
                                 .start = fake_start,
                                 .stop = stop,
                                 .extension = extension,
                                 .abi_major = PF_ABI_MAJOR,
                                 .abi_minor = PF_ABI_MINOR,
                                 .min_minor = 0};

PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) {
  const pf_kernel *const *const tables[] = {math_kernels,   shape_kernels,  array_kernels,
                                            conv_kernels,   nn_kernels,     state_kernels,
                                            random_kernels, special_kernels};
  size_t n = 0;
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
    for (const pf_kernel *const *k = tables[t]; *k; k++) kernels[n++] = *k;
  fake_host = host;
  fake_count();
  return &plugin;
}
