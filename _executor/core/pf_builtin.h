/* The tables of the core's own kernels (builtin.pyx): routing that every device needs. */
#ifndef PF_BUILTIN_H
#define PF_BUILTIN_H
#include "pf_core.h"

pf_status pf_k_identity_n(pf_ctx *c, const void *state);
pf_status pf_k_read_variable(pf_ctx *c, const void *state);
pf_status pf_k_is_initialized(pf_ctx *c, const void *state);
pf_status pf_k_placeholder(pf_ctx *c, const void *state);

typedef struct { int32_t dtype, pad; pf_shape shape; } pf_placeholder_state;
static const pf_attr *const pf_placeholder_attrs[] = {
  PF_ATTR(pf_placeholder_state, PF_ATTR_TYPE, dtype), PF_ATTR(pf_placeholder_state, PF_ATTR_SHAPE, shape), 0};
#define PF_BUILTIN(opname, fn) {.size = sizeof(pf_kernel), .flags = PF_KERNEL_DETERMINISTIC, .op = opname, .device = "*", .compute = fn}
static const pf_kernel pf_builtin_identity_n = PF_BUILTIN("IdentityN", pf_k_identity_n);
static const pf_kernel pf_builtin_read = PF_BUILTIN("ReadVariableOp", pf_k_read_variable);
static const pf_kernel pf_builtin_is_init = PF_BUILTIN("IsVariableInitialized", pf_k_is_initialized);
static const pf_kernel pf_builtin_is_init2 = PF_BUILTIN("VarIsInitializedOp", pf_k_is_initialized);
static const pf_kernel pf_builtin_placeholder = {.size = sizeof(pf_kernel), .op = "Placeholder", .device = "*",
  .attrs = pf_placeholder_attrs, .state_size = sizeof(pf_placeholder_state), .compute = pf_k_placeholder};
static const pf_kernel pf_builtin_placeholder2 = {.size = sizeof(pf_kernel), .op = "PlaceholderV2", .device = "*",
  .attrs = pf_placeholder_attrs, .state_size = sizeof(pf_placeholder_state), .compute = pf_k_placeholder};
static const pf_kernel *const pf_builtin_kernels[] = {&pf_builtin_identity_n, &pf_builtin_read, &pf_builtin_is_init,
  &pf_builtin_is_init2, &pf_builtin_placeholder, &pf_builtin_placeholder2, 0};
static const pf_plugin pf_builtin_plugin = {.size = sizeof(pf_plugin), .id = "pyflow.core", .version = "0.1",
  .kernels = pf_builtin_kernels, .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR};
#endif
