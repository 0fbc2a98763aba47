/* What sig.pyx and sig_parse.pyx share, and signatures of the ops the core itself carries out.
 *
 * The table generated from Python's @op blocks comes first; these fill in what it lacks, so that a
 * core built without Python can run loops, variables and feeds.
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
  {"_Arg", " -> output: T; T: type, index: int >= 0", PF_OP_STATEFUL},
  {"_Retval", "input: T -> ; T: type, index: int >= 0", PF_OP_STATEFUL},
  {"Const", " -> output: dtype; value: tensor, dtype: type", 0},
  {"Placeholder", " -> output: dtype; dtype: type, shape: shape = ?", 0},
  {"PlaceholderV2", " -> output: dtype; dtype: type, shape: shape", 0},
  {"PlaceholderWithDefault", "input: dtype -> output: dtype; dtype: type, shape: shape", 0},
  {"Identity", PF_SAME, 0},
  {"RefIdentity", PF_SAME_REF, PF_OP_ALLOWS_UNINITIALIZED},
  {"StopGradient", PF_SAME, 0},
  {"PreventGradient", "input: T -> output: T; T: type, message: string = \"\"", 0},
  {"Snapshot", PF_SAME, 0},
  {"IdentityN", "input: T -> output: T; T: list(type) >= 1", 0},
  {"NoOp", " -> ", 0},
  {"ControlTrigger", " -> ", 0},
  {"Switch", "data: T, pred: bool -> output_false: T, output_true: T; T: type", 0},
  {"RefSwitch", "data: Ref(T), pred: bool -> output_false: Ref(T), output_true: Ref(T); T: type",
   PF_OP_ALLOWS_UNINITIALIZED},
  {"Merge", "inputs: N * T -> output: T, value_index: int32; T: type, N: int >= 1", 0},
  {"RefMerge", "inputs: Ref(N * T) -> output: Ref(T), value_index: int32; T: type, N: int >= 1",
   PF_OP_ALLOWS_UNINITIALIZED},
  {"Enter", "data: T -> output: T" PF_FRAME, 0},
  {"RefEnter", "data: Ref(T) -> output: Ref(T)" PF_FRAME, PF_OP_ALLOWS_UNINITIALIZED},
  {"Exit", PF_DATA_SAME, 0},
  {"RefExit", PF_DATA_REF, PF_OP_ALLOWS_UNINITIALIZED},
  {"NextIteration", PF_DATA_SAME, 0},
  {"RefNextIteration", PF_DATA_REF, PF_OP_ALLOWS_UNINITIALIZED},
  {"LoopCond", "input: bool -> output: bool", 0},
  {"VariableV2", " -> ref: Ref(dtype); " PF_VAR_ATTRS, PF_OP_STATEFUL},
  {"Variable", " -> ref: Ref(dtype); " PF_VAR_ATTRS, PF_OP_STATEFUL},
  {"TemporaryVariable", " -> ref: Ref(dtype); shape: shape, dtype: type, var_name: string = \"\"",
   PF_OP_STATEFUL},
  {"DestroyTemporaryVariable", "ref: Ref(T) -> value: T; T: type, var_name: string", 0},
  {"VarHandleOp", " -> resource: resource; container: string = \"\", shared_name: string = \"\", "
   "dtype: type, shape: shape", PF_OP_STATEFUL},
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
  {"_Recv", " -> tensor: tensor_type; tensor_type: type, " PF_ENDS, PF_OP_STATEFUL},
  {NULL, NULL, 0}
};
#endif
