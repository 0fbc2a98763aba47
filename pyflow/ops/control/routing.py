"""Values of every form sent through the control flow ops: tensors, references, and the parts of
IndexedSlices, SparseTensors and nests of them; what loops and conditionals are built with, and
gradients of the ops.

Invariants
  1. Each part goes through an op of its own; the parts are put together again on the other side.
  2. A reference goes through the Ref* twin.

Who calls it: cond, while_loop, gradients.  Thread: the one building the graph.
"""
from pyflow.framework import graph as ops, nest
from pyflow.framework.convert import to_tensor
from pyflow.framework.op import raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors


# ---------------------------------------------------------------------------------- shape functions
def common_shape(a, b):
    """The most specific shape both `a` and `b` satisfy."""
    if a.ndims is None or b.ndims is None or a.ndims != b.ndims:
        return unknown_shape()
    return TensorShape([m if m == n else None for m, n in zip(a.as_list(), b.as_list())])


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
    return raw_ops.RefIdentity(data, name=name) if _is_ref(data) else raw_ops.Identity(data, name=name)


def switch(data, pred, dtype=None, name=None):
    """(output_false, output_true): `data` on the side `pred` names, dead on the other."""
    with ops.name_scope(name, "Switch", [data, pred]) as name:
        data = (data if isinstance(data, (ops.IndexedSlices, ops.SparseTensor))
                else to_tensor(data, dtype, "data", True))
        pred = ops.convert_to_tensor(pred, name="pred")
        if isinstance(data, ops.Tensor):
            return raw_ops.Switch(data, pred, name=name)
        pairs = [raw_ops.Switch(part, pred) for part in nest.flatten(data, expand_composites=True)]
        return tuple(nest.pack_sequence_as(data, [pair[side] for pair in pairs],
                                           expand_composites=True) for side in (0, 1))


def switch_ref_or_tensor(data, pred, name="Switch"):
    """`switch` placed with `data`; a reference stays one."""
    data = tensor_or_slices(data, name="data", as_ref=True)
    anchor = data if isinstance(data, ops.Tensor) else data.values
    with ops.colocate_with(anchor, ignore_existing=True):
        if isinstance(data, ops.Tensor) and _is_ref(data):
            return raw_ops.RefSwitch(data, pred, name=name)
        return switch(data, pred, name=name)


def switch_n(data, index, count, name="SwitchN"):
    """`count` values: `data` where the number is `index` (the last, where none is), else dead."""
    data = tensor_or_slices(data, name="data")
    if isinstance(data, ops.Tensor):
        with ops.colocate_with(data, ignore_existing=True):
            return list(raw_ops._SwitchN(data, index, num_outs=count, name=name))
    parts = [raw_ops._SwitchN(part, index, num_outs=count, name=name)
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
            return (raw_ops.RefMerge if all(map(_is_ref, inputs)) else raw_ops.Merge)(inputs, name=name)
        return _merge_composites(inputs, name)


def _merge_composites(inputs, name):
    if all(isinstance(value, ops.SparseTensor) for value in inputs):
        indices, chosen = raw_ops.Merge([value.indices for value in inputs], name="indices")
        values = raw_ops.Merge([value.values for value in inputs], name=name)[0]
        dense = raw_ops.Merge([value.dense_shape for value in inputs], name="dense_shape")[0]
        return ops.SparseTensor(indices, values, dense), chosen
    inputs = [as_indexed_slices(value) for value in inputs]
    values = raw_ops.Merge([value.values for value in inputs], name=name)[0]
    indices, chosen = raw_ops.Merge([value.indices for value in inputs], name="indices")
    dense = [value.dense_shape for value in inputs]
    if all(shape is None for shape in dense):
        return ops.IndexedSlices(values, indices, None), chosen
    if any(shape is None for shape in dense):
        raise ValueError("merge of IndexedSlices: either all or none of them need a dense_shape")
    return ops.IndexedSlices(values, indices, raw_ops.Merge(dense, name="dense_shape")[0]), chosen


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
        block = raw_ops.RefEnter if _is_ref(part) and use_ref else raw_ops.Enter
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
    return (raw_ops.RefExit if _is_ref(data) else raw_ops.Exit)(data, name=name)


def next_iteration(data, name=None):
    """`data` in the next iteration."""
    data = tensor_or_slices(data, as_ref=True)
    if not isinstance(data, ops.Tensor):
        return _per_component(next_iteration, data, name)
    return (raw_ops.RefNextIteration if _is_ref(data) else raw_ops.NextIteration)(data, name=name)


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
