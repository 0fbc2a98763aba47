/* plugin.c - the compiler as a plugin: an extension, and ops that let the test look inside and ask for failures. */
#include "jit.h"

typedef struct { int64_t what, value; } knob;
static pf_status set(pf_ctx *c, const void *s) {
  const knob *k = s;
  atomic_int *all[] = {&jit_on, &jit_fails, &jit_run_fails, &jit_compiled, &jit_declined, &jit_released};
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  if (k->value >= 0) atomic_store(all[k->what], (int)k->value);
  *PF_DATA(int64_t, y) = atomic_load(all[k->what]);
  return PF_OK;
}

static const pf_op knob_op = {.size = sizeof(pf_op), .flags = PF_OP_STATEFUL, .name = "jit.Knob",
                              .sig = " -> value: int64; what: int = 0, set: int = -1"};
static const pf_attr what = {sizeof(pf_attr), 0, "what", PF_ATTR_INT, offsetof(knob, what)};
static const pf_attr value = {sizeof(pf_attr), 0, "set", PF_ATTR_INT, offsetof(knob, value)};
static const pf_attr *const attrs[] = {&what, &value, NULL};
static const pf_kernel knob_kernel = {.size = sizeof(pf_kernel), .op = "jit.Knob", .device = "CPU", .attrs = attrs,
                                      .state_size = sizeof(knob), .compute = set};
static const pf_op *const ops[] = {&knob_op, NULL};
static const pf_kernel *const kernels[] = {&knob_kernel, NULL};

static const pf_compiler compiler = {.size = sizeof(pf_compiler), .flags = PF_KERNEL_DETERMINISTIC, .device = "CPU",
                                     .supports = jit_supports, .compile = jit_compile, .run = jit_run, .release = jit_release};
static const void *extension(const char *id) { return strcmp(id, "pyflow.compiler/1") ? NULL : &compiler; }

static const pf_plugin plugin = {.size = sizeof plugin, .id = "test.jit", .version = "1", .ops = ops, .kernels = kernels,
                                 .extension = extension, .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR, .min_minor = 0};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) { return &plugin; }
