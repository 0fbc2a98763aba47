/* The tables of the core's own kernels (builtin.pyx): routing that every device needs. */
#ifndef PF_BUILTIN_H
#define PF_BUILTIN_H
#include "step/outputs.h"

pf_status pf_k_identity_n(pf_ctx *c, const void *state);
pf_status pf_k_read_variable(pf_ctx *c, const void *state);
pf_status pf_k_is_initialized(pf_ctx *c, const void *state);
pf_status pf_k_placeholder(pf_ctx *c, const void *state);

typedef struct {
  int32_t dtype, pad;
  pf_shape shape;
} pf_placeholder_state;
static const pf_attr *const pf_placeholder_attrs[] = {
  PF_ATTR(pf_placeholder_state, PF_ATTR_TYPE, dtype),
  PF_ATTR(pf_placeholder_state, PF_ATTR_SHAPE, shape), 0};
pf_status pf_k_copy(pf_ctx *c, const void *state);
pf_status pf_k_await_stream(pf_ctx *c, const void *state);
pf_status pf_k_session_handle(pf_ctx *c, const void *state);
pf_status pf_k_session_resource(pf_ctx *c, const void *state);
pf_status pf_k_session_tensor(pf_ctx *c, const void *state);
pf_status pf_k_delete_session_tensor(pf_ctx *c, const void *state);

static const pf_op pf_op_to_host = {
  .size = sizeof(pf_op),
  .name = pf_name_to_host,
  .sig = "input: T -> output: T; T: type",
  .doc =
      "The input in host memory: put in by the planner where a device's value is read on the host."};
static const pf_op pf_op_to_device = {
  .size = sizeof(pf_op),
  .name = pf_name_to_device,
  .sig = "input: T -> output: T; T: type",
  .doc = "The input in the memory of the node's device: put in by the planner."};
static const pf_op pf_op_await_stream = {
  .size = sizeof(pf_op),
  .name = "_AwaitStream",
  .sig = " -> ",
  .doc =
      "Done when its device's stream did the work enqueued so far: what waits for it does not run ahead of the device."};
static const pf_op *const pf_builtin_ops[] = {&pf_op_to_host, &pf_op_to_device, &pf_op_await_stream,
                                              0};
static const pf_arg *const pf_args_to_host[] = {PF_REF(pf_arg, "input", PF_MEM_ANY, 0),
                                                PF_REF(pf_arg, "output", PF_MEM_HOST, 0), 0};
static const pf_arg *const pf_args_to_device[] = {PF_REF(pf_arg, "input", PF_MEM_ANY, 0), 0};
static const pf_arg pf_written_on_host = {sizeof(pf_arg), PF_ARG_WRITTEN, "is_initialized",
                                          PF_MEM_HOST, 0};
static const pf_arg *const pf_args_is_init[] = {&pf_written_on_host, 0};
#define PF_COPY(opname, table) {.size = sizeof(pf_kernel), .flags = PF_KERNEL_DETERMINISTIC | PF_KERNEL_ASYNC | PF_KERNEL_URGENT, \
  .op = opname, .device = "*", .args = table, .compute = pf_k_copy}
static const pf_kernel pf_builtin_to_host = PF_COPY(pf_name_to_host, pf_args_to_host);
static const pf_kernel pf_builtin_to_device = PF_COPY(pf_name_to_device, pf_args_to_device);
static const pf_kernel pf_builtin_await_stream = {.size = sizeof(pf_kernel),
                                                  .op = "_AwaitStream",
                                                  .device = "*",
                                                  .flags = PF_KERNEL_DETERMINISTIC |
                                                           PF_KERNEL_ASYNC | PF_KERNEL_URGENT,
                                                  .compute = pf_k_await_stream};
#define PF_BUILTIN(opname, fn) {.size = sizeof(pf_kernel), .flags = PF_KERNEL_DETERMINISTIC | PF_KERNEL_BRIEF, .op = opname, .device = "*", .compute = fn}
static const pf_arg pf_identity_n_output = {sizeof(pf_arg), PF_ARG_ALIAS, "output", PF_MEM_DEVICE,
                                            1};
static const pf_arg *const pf_args_identity_n[] = {&pf_identity_n_output, 0};
static const pf_kernel pf_builtin_identity_n = {.size = sizeof(pf_kernel),
                                                .flags = PF_KERNEL_DETERMINISTIC | PF_KERNEL_BRIEF,
                                                .op = "IdentityN",
                                                .device = "*",
                                                .args = pf_args_identity_n,
                                                .compute = pf_k_identity_n};
static const pf_kernel pf_builtin_read = PF_BUILTIN("ReadVariableOp", pf_k_read_variable);
#define PF_IS_INIT(opname) {.size = sizeof(pf_kernel), .flags = PF_KERNEL_DETERMINISTIC | PF_KERNEL_BRIEF, .op = opname, .device = "*", \
  .args = pf_args_is_init, .compute = pf_k_is_initialized}
static const pf_kernel pf_builtin_is_init = PF_IS_INIT("IsVariableInitialized");
static const pf_kernel pf_builtin_is_init2 = PF_IS_INIT("VarIsInitializedOp");
static const pf_kernel pf_builtin_placeholder = {.size = sizeof(pf_kernel),
                                                 .flags = PF_KERNEL_BRIEF,
                                                 .op = "Placeholder",
                                                 .device = "*",
                                                 .attrs = pf_placeholder_attrs,
                                                 .state_size = sizeof(pf_placeholder_state),
                                                 .compute = pf_k_placeholder};
static const pf_kernel pf_builtin_placeholder2 = {.size = sizeof(pf_kernel),
                                                  .flags = PF_KERNEL_BRIEF,
                                                  .op = "PlaceholderV2",
                                                  .device = "*",
                                                  .attrs = pf_placeholder_attrs,
                                                  .state_size = sizeof(pf_placeholder_state),
                                                  .compute = pf_k_placeholder};
/* callers.pyx */
typedef struct {
  pf_str f;
  pf_aptr plan;
} pf_call_state; /* plan: found at the first call */
typedef struct {
  pf_str then_branch, else_branch;
  pf_aptr plans[2];
} pf_if_state;
typedef struct { pf_list branches; } pf_case_state;
typedef struct { pf_str cond, body; } pf_while_state;
typedef struct {
  pf_str f;
  pf_list output_shapes;
} pf_map_state;
pf_status pf_k_call(pf_ctx *c, const void *state);
pf_status pf_k_if(pf_ctx *c, const void *state);
pf_status pf_k_case(pf_ctx *c, const void *state);
pf_status pf_k_while(pf_ctx *c, const void *state);
pf_status pf_k_map(pf_ctx *c, const void *state);
static const pf_attr *const pf_call_attrs[] = {PF_ATTR(pf_call_state, PF_ATTR_FUNC, f), 0};
static const pf_attr *const pf_if_attrs[] = {PF_ATTR(pf_if_state, PF_ATTR_FUNC, then_branch),
                                             PF_ATTR(pf_if_state, PF_ATTR_FUNC, else_branch), 0};
static const pf_attr *const pf_case_attrs[] = {
  PF_ATTR(pf_case_state, PF_ATTR_LIST | PF_ATTR_FUNC, branches), 0};
static const pf_attr *const pf_while_attrs[] = {PF_ATTR(pf_while_state, PF_ATTR_FUNC, cond),
                                                PF_ATTR(pf_while_state, PF_ATTR_FUNC, body), 0};
static const pf_attr *const pf_map_attrs[] = {
  PF_ATTR(pf_map_state, PF_ATTR_FUNC, f),
  PF_ATTR(pf_map_state, PF_ATTR_LIST | PF_ATTR_SHAPE, output_shapes), 0};
#define PF_CALLER(opname, what) {.size = sizeof(pf_kernel), .flags = PF_KERNEL_DETERMINISTIC | PF_KERNEL_ASYNC, .op = opname, \
  .device = "CPU", .attrs = pf_##what##_attrs, .state_size = sizeof(pf_##what##_state), .compute = pf_k_##what}
static const pf_kernel pf_builtin_call = PF_CALLER("PartitionedCall", call),
                       pf_builtin_call_2 = PF_CALLER("StatefulPartitionedCall", call),
                       pf_builtin_if = PF_CALLER("If", if),
                       pf_builtin_if_2 = PF_CALLER("StatelessIf", if),
                       pf_builtin_case = PF_CALLER("Case", case),
                       pf_builtin_case_2 = PF_CALLER("StatelessCase", case),
                       pf_builtin_while = PF_CALLER("While", while),
                       pf_builtin_while_2 = PF_CALLER("StatelessWhile", while),
                       pf_builtin_map = PF_CALLER("MapDefun", map);

static const pf_kernel pf_builtin_session_handle =
    PF_BUILTIN("GetSessionHandle", pf_k_session_handle);
static const pf_kernel pf_builtin_session_resource =
    PF_BUILTIN("GetSessionHandleV2", pf_k_session_resource);
static const pf_kernel pf_builtin_delete_session_tensor =
    PF_BUILTIN("DeleteSessionTensor", pf_k_delete_session_tensor);
static const pf_kernel pf_builtin_session_tensor = {.size = sizeof(pf_kernel),
                                                    .op = "GetSessionTensor",
                                                    .device = "*",
                                                    .flags =
                                                        PF_KERNEL_DETERMINISTIC | PF_KERNEL_ASYNC,
                                                    .compute = pf_k_session_tensor};
static const pf_kernel *const pf_builtin_kernels[] = {&pf_builtin_identity_n,
                                                      &pf_builtin_read,
                                                      &pf_builtin_is_init,
                                                      &pf_builtin_is_init2,
                                                      &pf_builtin_placeholder,
                                                      &pf_builtin_placeholder2,
                                                      &pf_builtin_to_host,
                                                      &pf_builtin_to_device,
                                                      &pf_builtin_await_stream,
                                                      &pf_builtin_call,
                                                      &pf_builtin_call_2,
                                                      &pf_builtin_if,
                                                      &pf_builtin_if_2,
                                                      &pf_builtin_case,
                                                      &pf_builtin_case_2,
                                                      &pf_builtin_while,
                                                      &pf_builtin_while_2,
                                                      &pf_builtin_map,
                                                      &pf_builtin_session_handle,
                                                      &pf_builtin_session_resource,
                                                      &pf_builtin_session_tensor,
                                                      &pf_builtin_delete_session_tensor,
                                                      0};
static const pf_plugin pf_builtin_plugin = {.size = sizeof(pf_plugin),
                                            .id = "pyflow.core",
                                            .version = "0.1",
                                            .ops = pf_builtin_ops,
                                            .kernels = pf_builtin_kernels,
                                            .abi_major = PF_ABI_MAJOR,
                                            .abi_minor = PF_ABI_MINOR};
#endif
