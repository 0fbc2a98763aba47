"""What tensors are known to hold while the graph is built: `constant_value` and its shape form.

Invariants:
1. Nothing runs: Const nodes, static shapes, and the NumPy references of small stateless ops over
   them.
2. A value that a program got may be built into its graph, so its tensor can no longer be fed (as in
   TF). Shape functions only look: what they read can still be fed.
3. The search stops at depth 16 and at arrays of 1024 elements, so it costs little on any graph.

    constant_value(tf.shape(tf.zeros([2, 3])))      # array([2, 3], dtype=int32)
"""

import threading

import numpy as np

from pyflow.framework.tensor_shape import TensorShape, unknown_shape

_MAX_DEPTH = 16
_MAX_ELEMENTS = 1024
_FOLDABLE = frozenset((
    "Add", "AddV2", "Sub", "Mul", "FloorDiv", "FloorMod", "Maximum", "Minimum", "Neg", "Cast",
    "Concat", "ConcatV2", "Pack", "Range", "Fill", "Equal", "NotEqual", "Less", "Greater",
    "LessEqual",
    "GreaterEqual", "LogicalNot", "LogicalAnd", "LogicalOr", "StridedSlice", "Slice", "Gather",
    "GatherV2", "Prod", "Sum", "Max", "Min", "Squeeze", "ExpandDims", "Reshape", "Identity",
    "StopGradient", "ReverseV2", "InvertPermutation", "BroadcastTo", "Tile", "Select", "ZerosLike",
    "OnesLike"))


class _Inference(threading.local):
    """Whether this thread is inside a shape function."""

    active = False


inference = _Inference()


def _forbid_feeding(tensor):
    if not inference.active:
        tensor.graph.prevent_feeding(tensor)


def constant_value(tensor, partial=False):
    """The ndarray that `tensor` will hold, or None if it is not known yet.

    partial: a Pack along axis 0, some of its parts unknown, gives an object array with None for
    these. An array or a string is its own value.
    Any shape and dtype. AttributeError for what is no Tensor. TF: tf.get_static_value."""
    if isinstance(tensor, (np.ndarray, np.generic, str, bytes)):
        return tensor
    if tensor.op.type == "Const":
        value = tensor.op.attrs["value"]
        _forbid_feeding(tensor)
        return value
    value = _value(tensor, _MAX_DEPTH)
    if value is not None:
        _forbid_feeding(tensor)
        return value
    if partial and tensor.op.type == "Pack" and tensor.op.attrs["axis"] == 0 and tensor.op.inputs:
        parts = [constant_value(t) for t in tensor.op.inputs]
        if any(p is not None for p in parts):
            found = np.empty(len(parts), dtype=object)
            for i, part in enumerate(parts):
                found[i] = part.item() if part is not None and part.ndim == 0 else part
            return found
    return None


def peek(tensor):
    """`constant_value` for who only looks: the tensor can still be fed."""
    before, inference.active = inference.active, True
    try:
        return constant_value(tensor)
    finally:
        inference.active = before


def _value(tensor, depth):
    op = tensor.op
    if op.type == "Const":
        return op.attrs["value"]
    if depth == 0:
        return None
    rule = _RULES.get(op.type)
    if rule is not None:
        return rule(tensor)
    if op.type in _FOLDABLE and op.op_def.reference:
        return _fold(tensor, depth)
    return None


def _int_result(tensor, value):
    return np.array(value, dtype=tensor.dtype.as_numpy_dtype)


def _shape_value(tensor):
    shape = tensor.op.inputs[tensor.value_index].shape
    return _int_result(tensor, shape.as_list()) if shape.is_fully_defined() else None


def _size_value(tensor):
    size = tensor.op.inputs[0].shape.num_elements()
    return None if size is None else _int_result(tensor, size)


def _rank_value(tensor):
    rank = tensor.op.inputs[0].shape.ndims
    return None if rank is None else _int_result(tensor, rank)


_RULES = {"Shape": _shape_value, "ShapeN": _shape_value, "Size": _size_value, "Rank": _rank_value}


def _fold(tensor, depth):
    op = tensor.op
    size = tensor.shape.num_elements()
    if size is not None and size > _MAX_ELEMENTS:
        return None
    arrays = []
    for source in op.inputs:
        value = _value(source, depth - 1)
        if value is None or value.size > _MAX_ELEMENTS:
            return None
        arrays.append(value)
    if op.type == "Fill" and np.prod(arrays[0].astype(float)) > _MAX_ELEMENTS:
        return None
    if op.type == "Range" and not _small_range(*arrays):
        return None
    try:
        with np.errstate(all="ignore"):
            result = op.op_def.call_reference(arrays, op.attrs)
    except (ValueError, TypeError, LookupError, ArithmeticError):
        return None  # the step will report what is wrong
    if isinstance(result, (tuple, list)):
        result = result[tensor.value_index]
    return np.asarray(result).astype(tensor.dtype.base_dtype.as_numpy_dtype)


def _small_range(start, limit, delta):
    return delta != 0 and abs((float(limit) - float(start)) / float(delta)) <= _MAX_ELEMENTS


def constant_value_as_shape(tensor):
    """The TensorShape that a 1-D integer tensor holds; sizes not known yet, and -1, are None."""
    if tensor.shape.ndims == 0:
        value = constant_value(tensor)
        if value is None:
            raise ValueError("Received a scalar with unknown value as shape; require a statically "
                             "known scalar with value '-1' to describe an unknown shape.")
        if value != -1:
            raise ValueError(f"Received a scalar value '{value}' as shape; require a statically "
                             f"known scalar with value '-1' to describe an unknown shape.")
        return unknown_shape()
    return _as_shape(tensor, _MAX_DEPTH)


def _as_shape(tensor, depth):
    tensor.shape.with_rank(1)
    value = constant_value(tensor)
    if value is not None:
        wrong = [int(d) for d in value if d < -1]
        if wrong:
            raise ValueError(f"Invalid value in tensor used for shape: {wrong[0]}")
        return TensorShape([None if d < 0 else int(d) for d in value])
    op = tensor.op
    rule = _SHAPE_RULES.get(op.type) if depth else None
    found = rule(op, depth) if rule is not None else None
    if found is not None:
        return found
    length = tensor.shape.as_tuple()
    return unknown_shape(length[0] if length else None)


def _shape_of_shape(op, depth):
    return op.inputs[0].shape


def _shape_of_pack(op, depth):
    sizes = []
    for scalar in op.inputs:
        value = constant_value(scalar)
        sizes.append(int(value) if value is not None and value >= 0 else _size_of_scalar(scalar,
                                                                                         depth))
    return TensorShape(sizes)


def _size_of_scalar(scalar, depth):
    """A size picked from a partly known shape: `tf.shape(x)[1]` where x is [?, 5]."""
    op = scalar.op
    if op.type == "StridedSlice" and op.attrs["shrink_axis_mask"] == 1:
        begin = constant_value(op.inputs[1])
        if begin is not None and begin.size == 1 and op.inputs[0].shape.ndims == 1:
            dims = _as_shape(op.inputs[0], depth - 1).as_tuple()
            index = int(begin[0])
            if dims is not None and -len(dims) <= index < len(dims):
                return dims[index]
    return None


def _shape_of_concat(op, depth):
    parts = op.inputs[:-1] if op.type == "ConcatV2" else op.inputs[1:]
    shape = TensorShape(())
    for part in parts:
        shape = shape.concatenate(_as_shape(part, depth - 1))
    return shape


def _shape_of_slice(op, depth):
    """A 1-D strided slice of a partly known shape."""
    bounds = [constant_value(t) for t in op.inputs[1:4]]
    attrs = op.attrs
    if any(b is None or b.size != 1 for b in bounds) or attrs["ellipsis_mask"] \
            or attrs["new_axis_mask"] or attrs["shrink_axis_mask"]:
        return None
    dims = _as_shape(op.inputs[0], depth - 1).as_tuple()
    if dims is None:
        return None
    begin = None if attrs["begin_mask"] & 1 else int(bounds[0][0])
    end = None if attrs["end_mask"] & 1 else int(bounds[1][0])
    return TensorShape(dims[begin:end:int(bounds[2][0])])


def _shape_of_cast(op, depth):
    return _as_shape(op.inputs[0], depth - 1)


_SHAPE_RULES = {"Shape": _shape_of_shape, "Pack": _shape_of_pack, "ConcatV2": _shape_of_concat,
                "Concat": _shape_of_concat, "StridedSlice": _shape_of_slice, "Cast": _shape_of_cast}
