"""Conditional execution: `tf.cond` and `tf.case` over Switch and Merge.

Invariants
  1. Each branch is built under its own CondContext.  A value from outside enters a branch through
     one Switch on the branch's predicate, however often it is used.
  2. An operation without inputs made in a branch waits on the branch's pivot, so only the branch
     taken runs it.
  3. Values computed outside the branch functions are computed whichever branch is taken (TF's
     rule).
  4. The results leave through one Merge per leaf: inputs (false, true).

Thread: the one building the graph.  Source: TF 1.x `cond` and `case`.

Example:  `y = tf.cond(tf.less(a, b), lambda: a * 2.0, lambda: b + 1.0)`
"""
from pyflow.framework import graph as ops, nest
from pyflow.lib.control_flow import grouping
from pyflow.lib.control_flow.control_flow_context import ControlFlowContext, is_in_context
from pyflow.ops.control import identity_ops, routing


class CondContext(ControlFlowContext):
    """One branch of a conditional: `branch` 1 for true, 0 for false."""

    def __init__(self, pred, pivot, branch, name="cond_text", **outer):
        super().__init__(name, **outer)
        self._pred = pred
        self._pivot = pivot
        self._branch = branch
        self.add_name(pred.name)
        self._external_values[pred.name] = pred
        self.add_name(pivot.name)
        pivot.op._set_control_flow_context(self)

    @property
    def pred(self):
        return self._pred

    @property
    def pivot(self):
        return self._pivot

    @property
    def branch(self):
        return self._branch

    @property
    def grad_state(self):
        return self._outer_context.grad_state if self._outer_context else None

    def is_cond_context(self):
        return True

    def to_proto(self, export_scope=None):
        """The CondContextDef; names relative to `export_scope`."""
        from pyflow.lib.control_flow import context_protos
        return context_protos.cond_proto(self, export_scope)

    @staticmethod
    def from_proto(context_def, import_scope=None):
        """The branch that a CondContextDef tells of, and what is inside it."""
        from pyflow.lib.control_flow import context_protos
        return context_protos.read(context_def, import_scope)

    def control_pivot(self):
        return self._pivot

    def add_value(self, value):
        if value.name in self._values:
            return self._external_values.get(value.name, value)
        self.add_name(value.name)
        inside = self._switched(self._from_outside(value))
        inside.op.graph.prevent_fetching(inside.op)
        inside.op._set_control_flow_context(self)
        self.mark_known([inside.name])
        self._external_values[value.name] = inside
        return inside

    def _from_outside(self, value):
        """The tensor that stands for `value` just outside this branch."""
        if not self._outer_context:
            return value
        value = self._outer_context.add_value(value)
        self.add_name(value.name)
        self._external_values[value.name] = value
        return value

    def alive(self, value, pred, name="Switch"):
        """`value` where this branch is taken by `pred`, now or in another iteration, else dead."""
        return routing.switch_ref_or_tensor(value, pred, name)[self._branch]

    def _switched(self, value):
        with ops.control_dependencies(None):
            inside = self.alive(value, self._pred)
            if self._outer_context:
                self._outer_context.add_inner_op(inside.op)
        return inside

    def _take(self, op):
        if op.inputs:
            self._rewire_inputs(op)
            self.drop_external_control_inputs(op)
        else:
            self.drop_external_control_inputs(op)
            if not any(is_in_context(source, self) for source in op.control_inputs):
                op._add_control_input(self._pivot.op)
        self.mark_known([tensor.name for tensor in op.outputs])
        self.protect(op)
        if self._outer_context:
            self._outer_context.add_inner_op(op)

    def _rewire_inputs(self, op):
        for index, value in enumerate(list(op.inputs)):
            if op.type == "Merge" and value.op.type == "NextIteration":
                continue        # a loop's back edge, in a graph imported inside this branch
            inside = self.add_value(value)
            if inside is not value:
                op._update_input(index, inside)

    # ---------------------------------------------------------------------------------- building
    def build_branch(self, function):
        """Calls the branch function. Returns (what it returned, the same as tensors of this
        branch)."""
        returned = function()
        if returned is None:
            return None, None
        result = nest.map_structure(self._branch_tensor, returned, expand_composites=True)
        return returned, result if isinstance(result, (list, tuple)) else [result]

    def _branch_tensor(self, value):
        if isinstance(value, ops.Operation):
            return grouping.with_dependencies([value], self._pivot)
        if is_tensor_array(value):
            value = value.flow
        return self._result_tensor(ops.convert_to_tensor(value))

    def _result_tensor(self, value):
        """As add_value, also for a value the branch returns as it got it (`lambda: x`)."""
        if value.name in self._values:
            return self._external_values.get(value.name, value)
        self.add_name(value.name)
        inside = self.alive(self._from_outside(value), self._pred)
        self._external_values[value.name] = inside
        return inside


def is_tensor_array(value):
    """True for a TensorArray, known by its flow and handle (no import: tensor_array_ops stands
    above)."""
    return hasattr(value, "flow") and hasattr(value, "handle")


def flows_to_tensor_arrays(originals, tensors):
    """Where the original was a TensorArray, the same array with the tensor as its flow."""
    return [original.with_flow(tensor) if is_tensor_array(original) else tensor
            for original, tensor in zip(originals, tensors)]


def cond(pred, true_fn=None, false_fn=None, strict=False, name=None, fn1=None, fn2=None):
    """`true_fn()` if the scalar bool tensor `pred` is true, else `false_fn()`.

    Both return the same nesting of tensors with the same dtypes; a list or tuple of one is
    unpacked unless `strict`. `fn1` and `fn2` are old names of the branches.
    Raises TypeError if a branch is not callable, ValueError if the results do not match. TF:
    tf.cond.
    Both results agree in dtype and structure; the shape is what they have in common. Raises
    TypeError or ValueError where they do not.

        >>> x = tf.placeholder(tf.float32, [])
        >>> y = tf.cond(x > 0.0, lambda: x, lambda: -x)
        >>> tf.Session().run(y, {x: -3.0})
        np.float32(3.0)
    """
    true_fn = _one_of(true_fn, fn1, "true_fn", "fn1")
    false_fn = _one_of(false_fn, fn2, "false_fn", "fn2")
    with ops.name_scope(name, "cond", [pred]):
        if isinstance(pred, bool):
            raise TypeError("pred must not be a Python bool: pass a tensor, or use a Python `if`")
        pred, pivot_true, pivot_false = _predicate(pred)
        on_true = CondContext(pred, pivot_true, 1)
        returned_true, true_result = built_branch(on_true, true_fn, "true_fn")
        on_false = CondContext(pred, pivot_false, 0)
        returned_false, false_result = built_branch(on_false, false_fn, "false_fn")
        if not strict:
            returned_true, returned_false = _unpacked(returned_true), _unpacked(returned_false)
        _require_same_structure(returned_true, returned_false)
        merged = _merged(true_result, false_result)
        on_true.collect()
        on_false.collect()
        merged = repacked(returned_true, merged)
        return merged if strict else _unpacked(merged)


def _one_of(value, old_value, name, old_name):
    if old_value is not None:
        if value is not None:
            raise TypeError(f"cond(): {name} and {old_name} may not be set simultaneously.")
        value = old_value
    if value is None:
        raise TypeError(f"cond(): {name} argument required")
    if not callable(value):
        raise TypeError(f"{name} must be callable, got {value!r}.")
    return value


def _predicate(pred):
    """(pred, pivot of the true branch, pivot of the false branch)."""
    off, on = routing.switch(pred, pred)
    pivot_true = identity_ops.Identity(on, name="switch_t")
    pivot_false = identity_ops.Identity(off, name="switch_f")
    pred = identity_ops.Identity(pred, name="pred_id")
    for tensor in (on, off, pivot_true, pivot_false, pred):
        tensor.op.graph.prevent_fetching(tensor.op)
    return pred, pivot_true, pivot_false


def built_branch(context, function, what):
    """(what `function` returned, the same as tensors of this branch)."""
    context.enter()
    try:
        returned, result = context.build_branch(function)
        if returned is None:
            raise ValueError(f"{what} must have a return value.")
        context.exit_result(result)
    finally:
        context.exit()
    return returned, result


def _unpacked(result):
    """A list or tuple of one as its element."""
    if isinstance(result, (list, tuple)) and nest.is_sequence(result) and len(result) == 1:
        return result[0]
    return result


def _require_same_structure(of_true, of_false):
    try:
        nest.assert_same_structure(of_true, of_false, expand_composites=True)
    except (TypeError, ValueError) as error:
        raise type(error)(f"Incompatible return types of true_fn and false_fn: {error}") from None


def _merged(true_result, false_result):
    true_flat = nest.flatten(true_result, expand_composites=True)
    false_flat = nest.flatten(false_result, expand_composites=True)
    if not true_flat:
        raise ValueError("true_fn and false_fn must return at least one result.")
    return [merged_leaf(pair, ("false_fn", "true_fn")) for pair in zip(false_flat, true_flat)]


def merged_leaf(values, names):
    """One result of each branch, in order, as the one of the branch taken."""
    first = values[0]
    for value, name in zip(values, names):
        if value.dtype.base_dtype != first.dtype.base_dtype:
            raise ValueError(
                f"Outputs of {name} and {names[0]} must have the same type: "
                f"{value.dtype.base_dtype.name}, {first.dtype.base_dtype.name} "
                f"('{value.name}' and '{first.name}'). Cast one of them with tf.cast.")
    return routing.merge(values)[0]


def repacked(returned, merged):
    """The merged tensors in the form a branch returned them."""
    originals = nest.flatten(returned, expand_composites=True)
    return nest.pack_sequence_as(returned, flows_to_tensor_arrays(originals, merged),
                                 expand_composites=True)


PUBLIC = {"cond": cond}
