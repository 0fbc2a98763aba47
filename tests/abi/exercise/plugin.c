/* plugin.c - joins the tables of the other files; start and stop; an extension of its own. */
#include "exercise.h"

const pf_host *the_host;
static const pf_op *ops[128];
static const pf_kernel *kernels[128];

static void join(const void **to, const void *const *const lists[], int n) {
  for (int k = 0; k < n; k++)
    for (const void *const *from = lists[k]; *from; from++) *to++ = *from;
  *to = NULL;
}
static pf_status start(const pf_host *host) {
  if (!PF_HAS(host, pf_host, extension)) return PF_UNIMPLEMENTED;
  if (host->extension("pyflow.nothing/1")) return PF_INTERNAL;
  return host == the_host ? PF_OK : PF_INTERNAL;
}
static void stop(const pf_host *host) {}
static const void *extension(const char *id) { return NULL; }

static const pf_plugin plugin = {
  .size = sizeof plugin, .id = "pyflow.exercise", .version = "1", .ops = ops, .kernels = kernels, .devices = exercise_devices,
  .start = start, .stop = stop, .extension = extension, .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR, .min_minor = 0 };

PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) {
  const void *const *const o[] = {(const void *const *)basic_ops, (const void *const *)async_ops, (const void *const *)state_ops,
                                  (const void *const *)device_ops};
  const void *const *const k[] = {(const void *const *)basic_kernels, (const void *const *)async_kernels,
                                  (const void *const *)state_kernels, (const void *const *)device_kernels};
  join((const void **)ops, o, 4);
  join((const void **)kernels, k, 4);
  the_host = host;
  return &plugin;
}
