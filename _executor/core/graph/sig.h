/* What sig.pyx and sig_parse.pyx share, and signatures of the ops the core itself carries out.
 *
 * The table generated from Python's @op blocks comes first; these fill in what it lacks, so that a
 * core built without Python can run loops, variables and feeds.  A class (PF_C_*) makes an op the
 * plan's own; a plugin's ops have none.  This table is where the core knows ops by name.
 */
#ifndef PF_SIG_H
#define PF_SIG_H
#include "graph/graph.h"

/* sig_parse.pyx: parses `sig` into `out`; everything is copied into the arena. */
pf_status pf_sig_parse(const char *name, const char *sig, pf_arena *arena, pf_op_def *out,
                       pf_error *err);

#define PF_SAME "input: T -> output: T; T: type"
#define PF_SAME_REF "input: Ref(T) -> output: Ref(T); T: type"
#define PF_DATA_SAME "data: T -> output: T; T: type"
#define PF_DATA_REF "data: Ref(T) -> output: Ref(T); T: type"
#define PF_FRAME "; T: type, frame_name: string, is_constant: bool = false, " \
                 "parallel_iterations: int = 10"
#define PF_VAR_ATTRS "shape: shape, dtype: type, container: string = \"\", " \
                     "shared_name: string = \"\""
#define PF_CALL "input: Tin -> output: Tout; token: string, Tin: list(type) >= 0, " \
                "Tout: list(type) >= 0"
#define PF_ENDS "tensor_name: string, send_device: string, send_device_incarnation: int, " \
                "recv_device: string, client_terminated: bool = false"

static const pf_op_sig pf_builtin_ops[] = {
  {pf_name_arg, " -> output: T; T: type, index: int >= 0", PF_OP_STATEFUL, PF_C_ARG},
  {pf_name_retval, "input: T -> ; T: type, index: int >= 0", PF_OP_STATEFUL, PF_C_RETVAL},
  {"Const", " -> output: dtype; value: tensor, dtype: type", 0, PF_C_CONST},
  {"Placeholder", " -> output: dtype; dtype: type, shape: shape = ?", 0},
  {"PlaceholderV2", " -> output: dtype; dtype: type, shape: shape", 0},
  {"PlaceholderWithDefault", "input: dtype -> output: dtype; dtype: type, shape: shape", 0},
  {"Identity", PF_SAME, 0, PF_C_IDENTITY},
  {"RefIdentity", PF_SAME_REF, PF_OP_ALLOWS_UNINITIALIZED, PF_C_IDENTITY},
  {"StopGradient", PF_SAME, 0, PF_C_IDENTITY},
  {"PreventGradient", "input: T -> output: T; T: type, message: string = \"\"", 0, PF_C_IDENTITY},
  {"Snapshot", PF_SAME, 0, PF_C_IDENTITY, PF_TRAIT_SNAPSHOT},
  {"IdentityN", "input: T -> output: T; T: list(type) >= 1", 0},
  {"NoOp", " -> ", 0, PF_C_NOOP},
  {"ControlTrigger", " -> ", 0, PF_C_NOOP, PF_TRAIT_NEVER_DEAD},
  {"Switch", "data: T, pred: bool -> output_false: T, output_true: T; T: type", 0, PF_C_SWITCH},
  {"RefSwitch", "data: Ref(T), pred: bool -> output_false: Ref(T), output_true: Ref(T); T: type",
   PF_OP_ALLOWS_UNINITIALIZED, PF_C_SWITCH},
  {"Merge", "inputs: N * T -> output: T, value_index: int32; T: type, N: int >= 1", 0, PF_C_MERGE},
  {"RefMerge", "inputs: Ref(N * T) -> output: Ref(T), value_index: int32; T: type, N: int >= 1",
   PF_OP_ALLOWS_UNINITIALIZED, PF_C_MERGE},
  {"Enter", "data: T -> output: T" PF_FRAME, 0, PF_C_ENTER},
  {"RefEnter", "data: Ref(T) -> output: Ref(T)" PF_FRAME, PF_OP_ALLOWS_UNINITIALIZED, PF_C_ENTER},
  {"Exit", PF_DATA_SAME, 0, PF_C_EXIT},
  {"RefExit", PF_DATA_REF, PF_OP_ALLOWS_UNINITIALIZED, PF_C_EXIT},
  {"NextIteration", PF_DATA_SAME, 0, PF_C_NEXT},
  {"RefNextIteration", PF_DATA_REF, PF_OP_ALLOWS_UNINITIALIZED, PF_C_NEXT},
  {"LoopCond", "input: bool -> output: bool", 0, PF_C_IDENTITY, PF_TRAIT_SNAPSHOT | PF_TRAIT_STAYS},
  {"VariableV2", " -> ref: Ref(dtype); " PF_VAR_ATTRS, PF_OP_STATEFUL, PF_C_VARIABLE},
  {"Variable", " -> ref: Ref(dtype); " PF_VAR_ATTRS, PF_OP_STATEFUL, PF_C_VARIABLE,
   PF_TRAIT_SCALAR_IS_UNKNOWN},
  {"TemporaryVariable", " -> ref: Ref(dtype); shape: shape, dtype: type, var_name: string = \"\"",
   PF_OP_STATEFUL},
  {"DestroyTemporaryVariable", "ref: Ref(T) -> value: T; T: type, var_name: string", 0},
  {"VarHandleOp",
   " -> resource: resource; container: string = \"\", shared_name: string = \"\", "
   "dtype: type, shape: shape",
   PF_OP_STATEFUL, PF_C_VARIABLE},
  {"IsVariableInitialized", "ref: Ref(dtype) -> is_initialized: bool; dtype: type",
   PF_OP_ALLOWS_UNINITIALIZED},
  {"VarIsInitializedOp", "resource: resource -> is_initialized: bool", PF_OP_STATEFUL},
  {"ReadVariableOp", "resource: resource -> value: dtype; dtype: type", PF_OP_STATEFUL},
  {"PyFunc", PF_CALL, PF_OP_STATEFUL},
  {"PyFuncStateless", PF_CALL, 0},
  {"EagerPyFunc", PF_CALL ", is_async: bool = false", PF_OP_STATEFUL},
  {"_StackPushHost", "handle: resource, elem: T -> output: T; T: type, swap_memory: bool = false",
   PF_OP_STATEFUL},
  {"_StackPopHost", "handle: resource -> elem: elem_type; elem_type: type", PF_OP_STATEFUL},
  {"_Send", "tensor: T -> ; T: type, " PF_ENDS, PF_OP_STATEFUL},
  {"_net.Send", "tensor: T -> ; T: type, " PF_ENDS, PF_OP_STATEFUL},
  {"_Recv", " -> tensor: tensor_type; tensor_type: type, " PF_ENDS, PF_OP_STATEFUL},
  {NULL, NULL, 0}};
#endif
