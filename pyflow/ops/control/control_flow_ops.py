"""Control flow primitives: dead tokens (Switch, Merge) and frames (Enter, Exit, NextIteration).

Invariants (what graphs may rely on; the executor's half is in _executor/core)
  1. Switch sends its data to one output and a dead token to the other; an op with a dead input
     does not run and sends dead tokens on.  Merge passes on the first live input; it is dead only
     when all inputs are.
  2. Enter moves a token into iteration 0 of the frame `frame_name`, NextIteration to the next
     iteration, Exit back to the parent.  A non-constant Enter feeds a Merge; with `is_constant`
     the value is there in every iteration.
  3. The `Ref*` twins do the same with references to variables.
  4. Contexts (lib/control_flow) insert these nodes through routing.py; user code calls tf.cond and
     tf.while_loop.

Who calls it: routing.py, cond, while_loop, gradients.  Thread: the one building the graph.
Source: "Dynamic Control Flow in Large-Scale Machine Learning" (EuroSys 2018); TF 1.x OpDefs.

Example:  `if_false, if_true = Switch(x, pred)`
"""
import functools

from pyflow.framework import graph as ops, nest
from pyflow.framework.op import UNREGISTERED, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.control.routing import (add_back_edge, common_shape, enter, exit, merge,
                                        output_context, switch, switch_n, switch_ref_or_tensor)


# ---------------------------------------------------------------------------------- shape functions
def _unchanged(op):
    return op.inputs[0].shape


def _both(op):
    return [op.inputs[0].shape] * 2


def _merged(op):
    """Dimensions on which all inputs agree; the chosen index is a scalar."""
    shape = op.inputs[0].shape
    for other in op.inputs[1:]:
        shape = common_shape(shape, other.shape)
    return [shape, TensorShape([])]


def _entered(op):
    """A constant keeps its shape; a loop variable's may change, so `enter` sets what is
    promised."""
    return op.inputs[0].shape if op.get_attr("is_constant") else unknown_shape()


# ---------------------------------------------------------------------------------------- gradients
def _gradient_context():
    return ops.get_default_graph()._get_control_flow_context()


def _switch_gradient(op, grad_false, grad_true):
    """Merges what comes back from both branches; in a loop closes the gradient loop's back edge."""
    context = op._get_control_flow_context()
    if context is not None and context.is_while_context():
        return _loop_switch_gradient(op, grad_false, grad_true)
    if context is not None and not context.case_count:
        grads = [grad_false, grad_true]
        untaken = grads[1 - context.branch]
        if untaken is None:
            if op.inputs[0].dtype.base_dtype.name != "resource":
                return [None, None]
            return [merge([grads[context.branch]] * 2, name="cond_resource_grad")[0], None]
        return [merge(grads, name="cond_grad")[0], None]
    false_side = switch(grad_false, op.inputs[1])[0]
    true_side = switch(grad_true, op.inputs[1])[1]
    return [merge([false_side, true_side])[0], None]


def _loop_switch_gradient(op, grad_exit, grad_body):
    """First visit (from Exit) makes the gradient loop's Merge; the second (from the body) its back
    edge."""
    switch_merges = _gradient_context().grad_state.switch_merges
    merged = switch_merges.get(op)
    if merged is not None:
        if grad_body is not None:
            add_back_edge(merged, grad_body, check_shape=False)
        return [None, None]
    if grad_exit is None:
        return [None, None]
    merged = merge([grad_exit, grad_exit], name="b_switch")[0]
    switch_merges[op] = merged
    return [merged, None]


def _merge_gradient(op, grad, _):
    """Sends the gradient to the branch (or loop side) that was taken."""
    context = output_context(op.inputs[0].op)
    gradient_context = _gradient_context()
    state = gradient_context.grad_state if gradient_context is not None else None
    cases = [_case_branch(value) for value in op.inputs]
    if all(cases):
        index, count, _ = cases[0]
        index = state.recorded_predicate(index) if state else index
        sides = switch_n(grad, index, count, name="case_grad")
        return [sides[branch] for _, _, branch in cases]
    if context is not None and context.is_while_context():
        return list(switch_ref_or_tensor(grad, gradient_context.pivot))
    if context is not None:
        pred = state.recorded_predicate(context.pred) if state else context.pred
        return list(switch_ref_or_tensor(grad, pred, name="cond_grad"))
    chosen = op.outputs[1]
    return [switch_ref_or_tensor(grad, raw_ops.Equal(chosen, i))[1]
            for i in range(len(op.inputs))]


def _case_branch(value):
    """(branch index, number of branches, this branch) where `value` comes out of a Case, or
    None."""
    if value.op.type == "_SwitchN":
        return value.op.inputs[1], len(value.op.outputs), value.value_index
    context = output_context(value.op)
    known = context is not None and context.case_count
    return (context.pred, context.case_count, context.branch) if known else None


def _switch_n_gradient(op, *grads):
    return [merge(list(grads))[0], None]


def _enter_gradient(op, grad):
    """Leaves the gradient loop: through an accumulator for a loop invariant, else through Exit."""
    context = _gradient_context()
    if not context.back_prop or context.grad_state is None:
        return grad
    if op.get_attr("is_constant"):
        if isinstance(grad, ops.IndexedSlices):
            return context.accumulate_slices(op, grad)
        return context.accumulate(op, grad)
    result = exit(grad)
    context.loop_exits.append(result)
    context.exit_result([result])
    return result


def second_order_message(loop):
    """Why a gradient of a loop's gradient is refused."""
    return (f"Second-order gradient for while loops not supported: what is differentiated depends "
            f"on the gradient of a loop, computed in {loop!r}. Unroll the loop in Python "
            f"(tf.nn.static_rnn for dynamic_rnn), or write its gradient with tf.custom_gradient.")


def _exit_gradient(op, grad):
    """Enters the gradient loop."""
    context = _gradient_context()
    if not context.back_prop:
        return None
    if op._get_control_flow_context().grad_state:
        raise TypeError(second_order_message(op._get_control_flow_context().name))
    for part in nest.flatten(grad, expand_composites=True):
        context.add_name(part.name)
    context.enter()
    result = enter(grad, context.name, is_constant=False,
                   parallel_iterations=context.parallel_iterations, name="b_exit")
    context.loop_enters.append(result)
    context.exit()
    return result


def _pass_gradient(op, grad):
    return grad


# --------------------------------------------------------------------------------------- op blocks

# No samples and no reference anywhere here, on purpose: a dead token or a frame has no NumPy
# counterpart.
# tests/control_flow runs each in a graph.


@op("NoOp", inputs="", outputs="")
class NoOp:
    """Does nothing; useful for its control dependencies. TF: NoOp."""
    def shape(op): return []
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("ControlTrigger", inputs="", outputs="")
class ControlTrigger:
    """Does nothing, and runs even if its control inputs are dead: a point to order others after.
    TF: ControlTrigger."""
    def shape(op): return []
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("Switch", inputs="data: T, pred: bool", outputs="output_false: T, output_true: T",
    attrs="T: type")
class Switch:
    """`data` on the output that the scalar `pred` names, a dead token on the other. TF: Switch."""
    shape = _both
    gradient = _switch_gradient
    reference = None
    samples = None


@op("RefSwitch", inputs="data: Ref(T), pred: bool",
    outputs="output_false: Ref(T), output_true: Ref(T)", attrs="T: type")
class RefSwitch:
    """Switch for a reference to a variable. TF: RefSwitch."""
    shape = _both
    gradient = _switch_gradient
    reference = None
    samples = None


@op("RefSelect", inputs="index: int32, inputs: Ref(N * T)", outputs="output: Ref(T)",
    attrs="T: type, N: int >= 1")
class RefSelect:
    """The reference at `index` (a scalar) of `inputs`. TF: RefSelect."""
    def shape(op): return [functools.reduce(common_shape, [t.shape for t in op.inputs[1:]])]
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("_SwitchN", inputs="data: T, output_index: int32", outputs="outputs: num_outs * T",
    attrs="T: type, num_outs: int >= 1")
class SwitchN:
    """`data` on output `output_index` (the last, where there is no such), dead tokens on the
    others; what TensorFlow lowers Case to. TF: _SwitchN."""
    def shape(op): return [op.inputs[0].shape] * len(op.outputs)
    gradient = _switch_n_gradient
    reference = None
    samples = None


@op("Merge", inputs="inputs: N * T", outputs="output: T, value_index: int32",
    attrs="T: type, N: int >= 1")
class Merge:
    """The first live input, and its index. TF: Merge."""
    shape = _merged
    gradient = _merge_gradient
    reference = None
    samples = None


@op("RefMerge", inputs="inputs: Ref(N * T)", outputs="output: Ref(T), value_index: int32",
    attrs="T: type, N: int >= 1")
class RefMerge:
    """Merge for references to variables. TF: RefMerge."""
    shape = _merged
    gradient = _merge_gradient
    reference = None
    samples = None


@op("Enter", inputs="data: T", outputs="output: T",
    attrs="T: type, frame_name: string, is_constant: bool = false, parallel_iterations: int = 10")
class Enter:
    """`data` in iteration 0 of the frame `frame_name`; in all iterations if `is_constant`. TF:
    Enter."""
    shape = _entered
    gradient = _enter_gradient
    reference = None
    samples = None


@op("RefEnter", inputs="data: Ref(T)", outputs="output: Ref(T)",
    attrs="T: type, frame_name: string, is_constant: bool = false, parallel_iterations: int = 10")
class RefEnter:
    """Enter for a reference to a variable. TF: RefEnter."""
    shape = _entered
    gradient = _enter_gradient
    reference = None
    samples = None


@op("Exit", inputs="data: T", outputs="output: T", attrs="T: type")
class Exit:
    """`data` in the parent frame, once it is alive. TF: Exit."""
    shape = _unchanged
    gradient = _exit_gradient
    reference = None
    samples = None


@op("RefExit", inputs="data: Ref(T)", outputs="output: Ref(T)", attrs="T: type")
class RefExit:
    """Exit for a reference to a variable. TF: RefExit."""
    shape = _unchanged
    gradient = _exit_gradient
    reference = None
    samples = None


@op("NextIteration", inputs="data: T", outputs="output: T", attrs="T: type")
class NextIteration:
    """`data` in the frame's next iteration. TF: NextIteration."""
    shape = _unchanged
    gradient = _pass_gradient
    reference = None
    samples = None


@op("RefNextIteration", inputs="data: Ref(T)", outputs="output: Ref(T)", attrs="T: type")
class RefNextIteration:
    """NextIteration for a reference to a variable. TF: RefNextIteration."""
    shape = _unchanged
    gradient = _pass_gradient
    reference = None
    samples = None


@op("RefIdentity", inputs="input: Ref(T)", outputs="output: Ref(T)", attrs="T: type")
class RefIdentity:
    """The reference `input` itself. TF: RefIdentity."""
    shape = _unchanged
    gradient = _pass_gradient
    reference = None
    samples = None


@op("LoopCond", inputs="input: bool", outputs="output: bool")
class LoopCond:
    """The scalar `input`; marks the predicate of a frame's Switches. TF: LoopCond."""
    def shape(op): return op.inputs[0].shape.merge_with(())
    gradient = None
    reference = None
    samples = None
