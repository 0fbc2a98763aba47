"""Control flow primitives: dead tokens (Switch, Merge), frames (Enter, Exit, NextIteration),
grouping.

Invariants (what graphs may rely on; the executor's half is in _executor/core)
  1. Switch sends its data to one output and a dead token to the other; an op with a dead input
     does not run and sends dead tokens on.  Merge passes on the first live input; it is dead only
     when all inputs are.
  2. Enter moves a token into iteration 0 of the frame `frame_name`, NextIteration to the next
     iteration, Exit back to the parent.  A non-constant Enter feeds a Merge; with `is_constant`
     the value is there in every iteration.
  3. The `Ref*` twins do the same with references to variables.
  4. Contexts (cond.py, while_loop.py) insert these nodes; user code calls tf.cond and
     tf.while_loop.

Who calls it: cond, while_loop, gradients, optimizers (`group`).  Thread: the one building the
graph.
Source: "Dynamic Control Flow in Large-Scale Machine Learning" (EuroSys 2018); TF 1.x OpDefs.

Example:  `train = tf.group(update_w, update_b)`
"""
import functools

from pyflow.framework import graph as ops, nest
from pyflow.framework.convert import to_tensor
from pyflow.framework.op import UNREGISTERED, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors


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


def common_shape(a, b):
    """The most specific shape both `a` and `b` satisfy."""
    if a.ndims is None or b.ndims is None or a.ndims != b.ndims:
        return unknown_shape()
    return TensorShape([m if m == n else None for m, n in zip(a.as_list(), b.as_list())])


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


def _exit_gradient(op, grad):
    """Enters the gradient loop."""
    context = _gradient_context()
    if not context.back_prop:
        return None
    if op._get_control_flow_context().grad_state:
        raise TypeError("Second-order gradient for while loops not supported.")
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
    shape = _unchanged
    gradient = None
    reference = None
    samples = None


# ------------------------------------------------------------------------------ tensors and slices
def tensor_or_slices(value, name=None, as_ref=False):
    """`value` as a Tensor, unless it is an IndexedSlices or SparseTensor already."""
    if isinstance(value, (ops.IndexedSlices, ops.SparseTensor)):
        return value
    return to_tensor(value, None, name, as_ref)


def _is_ref(tensor):
    return tensor.dtype._is_ref_dtype


def _per_component(make, composite, name):
    """`make(component, name)` on each tensor of `composite`, rebuilt as one. Values take the given
    name."""
    if isinstance(composite, ops.IndexedSlices):
        values = make(composite.values, name)
        indices = make(composite.indices, "indices")
        dense = composite.dense_shape
        if dense is not None:
            dense = make(dense, "dense_shape")
        return ops.IndexedSlices(values, indices, dense)
    return ops.SparseTensor(make(composite.indices, "indices"), make(composite.values, name),
                            make(composite.dense_shape, "dense_shape"))


def identity_of(data, name=None):
    """Identity that keeps references references and slices slices."""
    data = tensor_or_slices(data, as_ref=True)
    if not isinstance(data, ops.Tensor):
        return _per_component(identity_of, data, name)
    return RefIdentity(data, name=name) if _is_ref(data) else raw_ops.Identity(data, name=name)


def switch(data, pred, dtype=None, name=None):
    """(output_false, output_true): `data` on the side `pred` names, dead on the other."""
    with ops.name_scope(name, "Switch", [data, pred]) as name:
        data = (data if isinstance(data, (ops.IndexedSlices, ops.SparseTensor))
                else to_tensor(data, dtype, "data", True))
        pred = ops.convert_to_tensor(pred, name="pred")
        if isinstance(data, ops.Tensor):
            return Switch(data, pred, name=name)
        pairs = [Switch(part, pred) for part in nest.flatten(data, expand_composites=True)]
        return tuple(nest.pack_sequence_as(data, [pair[side] for pair in pairs],
                                           expand_composites=True) for side in (0, 1))


def switch_ref_or_tensor(data, pred, name="Switch"):
    """`switch` placed with `data`; a reference stays one."""
    data = tensor_or_slices(data, name="data", as_ref=True)
    anchor = data if isinstance(data, ops.Tensor) else data.values
    with ops.colocate_with(anchor, ignore_existing=True):
        if isinstance(data, ops.Tensor) and _is_ref(data):
            return RefSwitch(data, pred, name=name)
        return switch(data, pred, name=name)


def switch_n(data, index, count, name="SwitchN"):
    """`count` values: `data` where the number is `index` (the last, where none is), else dead."""
    data = tensor_or_slices(data, name="data")
    if isinstance(data, ops.Tensor):
        with ops.colocate_with(data, ignore_existing=True):
            return list(SwitchN(data, index, num_outs=count, name=name))
    parts = [SwitchN(part, index, num_outs=count, name=name)
             for part in nest.flatten(data, expand_composites=True)]
    return [nest.pack_sequence_as(data, [part[k] for part in parts], expand_composites=True)
            for k in range(count)]


def merge(inputs, name=None):
    """(value, index) of the first live input. Slices merge with slices; a Tensor among them is
    converted."""
    if any(value is None for value in inputs):
        raise ValueError(f"At least one of the merge inputs is None: {inputs}")
    with ops.name_scope(name, "Merge", inputs) as name:
        inputs = [tensor_or_slices(value, as_ref=True) for value in inputs]
        if all(isinstance(value, ops.Tensor) for value in inputs):
            return (RefMerge if all(map(_is_ref, inputs)) else Merge)(inputs, name=name)
        return _merge_composites(inputs, name)


def _merge_composites(inputs, name):
    if all(isinstance(value, ops.SparseTensor) for value in inputs):
        indices, chosen = Merge([value.indices for value in inputs], name="indices")
        values = Merge([value.values for value in inputs], name=name)[0]
        dense = Merge([value.dense_shape for value in inputs], name="dense_shape")[0]
        return ops.SparseTensor(indices, values, dense), chosen
    inputs = [as_indexed_slices(value) for value in inputs]
    values = Merge([value.values for value in inputs], name=name)[0]
    indices, chosen = Merge([value.indices for value in inputs], name="indices")
    dense = [value.dense_shape for value in inputs]
    if all(shape is None for shape in dense):
        return ops.IndexedSlices(values, indices, None), chosen
    if any(shape is None for shape in dense):
        raise ValueError("merge of IndexedSlices: either all or none of them need a dense_shape")
    return ops.IndexedSlices(values, indices, Merge(dense, name="dense_shape")[0]), chosen


def as_indexed_slices(value):
    """A Tensor as the IndexedSlices of all its rows."""
    if isinstance(value, ops.IndexedSlices):
        return value
    if not isinstance(value, ops.Tensor):
        raise TypeError(f"Not a Tensor or IndexedSlices: {type(value)}")
    shape = raw_ops.Shape(value)
    return ops.IndexedSlices(value, tensors.range_(0, shape[0]), shape)


def enter(data, frame_name, is_constant=False, parallel_iterations=10, use_ref=True,
          use_input_shape=True, name=None):
    """`data` inside the frame `frame_name`."""
    data = tensor_or_slices(data, as_ref=True)

    def make(part, part_name):
        block = RefEnter if _is_ref(part) and use_ref else Enter
        result = block(part, frame_name=frame_name, is_constant=is_constant,
                       parallel_iterations=parallel_iterations, name=part_name)
        if use_input_shape:
            result.set_shape(part.shape)
        return result
    return make(data, name) if isinstance(data, ops.Tensor) else _per_component(make, data, name)


def exit(data, name=None):
    """`data` in the parent frame."""
    data = tensor_or_slices(data, as_ref=True)
    if not isinstance(data, ops.Tensor):
        return _per_component(exit, data, name)
    return (RefExit if _is_ref(data) else Exit)(data, name=name)


def next_iteration(data, name=None):
    """`data` in the next iteration."""
    data = tensor_or_slices(data, as_ref=True)
    if not isinstance(data, ops.Tensor):
        return _per_component(next_iteration, data, name)
    return (RefNextIteration if _is_ref(data) else NextIteration)(data, name=name)


def add_back_edge(merged, value, check_shape=True):
    """Feeds `value`, one iteration later, into the second input of a loop variable's Merge."""
    if not isinstance(merged, ops.Tensor):
        for m, v in zip(nest.flatten(merged, expand_composites=True),
                        nest.flatten(as_like(value, merged), expand_composites=True)):
            add_back_edge(m, v, check_shape)
        return value
    value = next_iteration(ops.convert_to_tensor(value))
    if check_shape:
        require_invariant_shape(merged, value)
    merged.op._update_input(1, value)
    return value


def as_like(value, like):
    """`value` in the form (Tensor or IndexedSlices) of `like`."""
    return as_indexed_slices(value) if isinstance(like, ops.IndexedSlices) else value


def is_less_specific(shape, than):
    """True if every tensor of shape `than` is also one of `shape`."""
    if shape.ndims is None:
        return True
    if than.ndims != shape.ndims:
        return False
    return all(a is None or a == b for a, b in zip(shape.as_list(), than.as_list()))


def require_invariant_shape(merged, following):
    """ValueError unless the loop variable keeps the shape it entered with."""
    if is_less_specific(merged.shape, following.shape):
        return
    entered = merged.op.inputs[0].op
    raise ValueError(
        f"Input tensor '{entered.inputs[0].name}' enters the loop with shape {merged.shape}, but "
        f"has shape {following.shape} after one iteration. To allow the shape to vary across "
        "iterations, use the `shape_invariants` argument of tf.while_loop to specify a "
        "less-specific shape.")


def is_loop_exit(op):
    """True for the Exit of a loop."""
    return op.type in ("Exit", "RefExit")


def output_context(op):
    """The context in which `op`'s outputs live: for an Exit, the one around its loop."""
    context = op._get_control_flow_context()
    if context is not None and is_loop_exit(op):
        context = context.outer_context
    return context
