"""What converters share: one order for several values, wider types where a kernel lacks one, sizes.

    tensors, order = aligned(node.inputs);  Value(tf.add(*tensors), order)
"""

import collections
import copy

import numpy as np

import pyflow as tf
from pyflow.framework import dtypes
from pyflow.interop.onnx.values import Value, channels_last, kernel_types, natural

_WIDER = {
    "f": (tf.float32, tf.float64),
    "i": (tf.int32, tf.int64, tf.float64),
    "u": (tf.int32, tf.int64, tf.uint64, tf.float64),
    "b": (tf.uint8, tf.int32, tf.float32),
}


def widened(op_name, tensors, attr="T"):
    """(tensors, DType or None): cast to a type `op_name` has a kernel for, and the type to cast
    results back to.  Tensors of other types are left alone."""
    dtype = tensors[0].dtype.base_dtype
    have = kernel_types(op_name, attr)
    if dtype in have:
        return list(tensors), None
    wide = next((t for t in _WIDER.get(dtype._kind, ()) if t in have and t.size >= min(
        dtype.size, 8) and not (dtype is tf.uint32 and t is tf.int32)), None)
    if wide is None:
        wide = next((t for t in _WIDER.get(dtype._kind, ()) if t in have), None)
    if wide is None:
        raise TypeError(f"{op_name} has no kernel for {dtype.name}, nor for a wider type")
    return [tf.cast(t, wide) if t.dtype.base_dtype is dtype else t for t in tensors], dtype


# Values: 8-bit numbers, their scale, their zero point or None; the axis of several
Dequantised = collections.namedtuple("Dequantised", "numbers scale zero axis")
# the Value that Expand was given
Stretched = collections.namedtuple("Stretched", "value")


def call(op_name, *tensors, attr="T", **attrs):
    """The op on tensors of one type, through a wider type if it has no kernel for theirs."""
    from pyflow.framework.op import get_op
    wide, back = widened(op_name, tensors, attr)
    result = get_op(op_name)(*wide, **attrs)
    if back is None or result.dtype.base_dtype is not wide[0].dtype.base_dtype:
        return result
    return tf.cast(result, back)


def bias_add(x, bias):
    """tf.nn.bias_add without the library around it, which takes 10 ms to import."""
    from pyflow.framework.op import get_op
    return get_op("BiasAdd")(x, bias)


def elementwise(function, value):
    """A Value of `function` over the value's tensor, in the order it lies in."""
    return Value(function(value.tensor), value.order)


def aligned(values):
    """(tensors, order or None) of values that broadcast against each other, in one order.

    If a value of the highest rank lies in an order of its own, the others follow it: constants
    are permuted now, tensors of the same rank transposed."""
    ranks = [v.rank for v in values]
    if None in ranks or all(v.order is None for v in values):
        return [v.plain for v in values], None
    rank = max(ranks)
    leader = next((v for v in values if v.rank == rank and v.order is not None), None)
    if leader is None:
        return [v.plain for v in values], None
    order = leader.order
    tensors = [_follow(v, order, rank) for v in values]
    if any(t is None for t in tensors):
        return [v.plain for v in values], None
    return tensors, order


def _follow(value, order, rank):
    if value.is_array and value.order is None:
        return in_order(value, order, rank)
    if value.rank == rank:
        return value.ordered(order)
    return value.plain if value.rank == 0 else None


def in_order(value, order, rank):
    """The known value as a constant that broadcasts against a tensor of `rank` in `order`."""
    def turned(array):
        if array.size == 1:
            return array.reshape(())
        array = array.reshape((1,) * (rank - array.ndim) + array.shape).transpose(order)
        lead = next((i for i, d in enumerate(array.shape) if d != 1), rank)
        return np.ascontiguousarray(array.reshape(array.shape[lead:]))
    return value.form(("order", order), turned)


def sizes(tensor, out_type=tf.int64):
    """The tensor's shape as a tensor (a constant where it is known)."""
    dims = tensor.shape.as_tuple()
    if dims is not None and None not in dims:
        return tf.constant(np.array(dims, out_type.as_numpy_dtype))
    return tf.shape(tensor, out_type=out_type)


def stacked(array, shape, dims=None):
    """The elements of a TensorArray, of none a tensor of no rows.  shape: what is known of an
    element's (a TensorShape); dims: a list with its sizes, else unknown ones are 0."""
    if shape.is_fully_defined():
        return array.stack()
    known = shape.as_tuple() or ()
    dims = dims or [d or 0 for d in known]
    nothing = tf.cast(tf.stack([0, *(tf.cast(d, tf.int32) for d in dims)]), tf.int32)
    return tf.cond(tf.equal(array.size(), 0), lambda: tf.zeros(nothing, array.dtype), array.stack)


def size_of(value, axis):
    """The size of a Value's ONNX axis as an int64 scalar; no axis is moved for it."""
    at = axis if value.order is None else value.order.index(axis)
    return sizes(value.tensor)[at]


def ints(values, dtype=np.int64):
    """A constant vector of integers."""
    return tf.constant(np.array(values, dtype).reshape(-1))


def scalar(value, like):
    """A scalar constant of `like`'s type."""
    return tf.constant(np.array(value).astype(like.dtype.base_dtype.as_numpy_dtype))


def filled(shape, value, dtype):
    """A tensor of `shape` (a tensor or list) with one value."""
    return tf.fill(shape, tf.constant(np.array(value).astype(dtype.as_numpy_dtype)))


def sequence(n, dtype=tf.int64):
    """0, 1, ..., n - 1 for an int or a scalar tensor n."""
    if isinstance(n, (int, np.integer)):
        return tf.constant(np.arange(n, dtype=dtype.as_numpy_dtype))
    n = tf.cast(n, dtype)
    return tf.range(tf.constant(0, dtype), n, tf.constant(1, dtype))


def in_float(tensor, function):
    """`function` in float32 for 16-bit floats, in the tensor's own type otherwise."""
    dtype = tensor.dtype.base_dtype
    if dtype in (tf.float16, tf.bfloat16):
        return tf.cast(function(tf.cast(tensor, tf.float32)), dtype)
    return function(tensor)


def with_inputs(node, *values, opset=None):
    """The node as if these Values were its first inputs, and it of that opset."""
    made = copy.copy(node)
    made.inputs = [*values, *node.inputs[len(values):]]
    made.opset = node.opset if opset is None else opset
    return made


__all__ = ["Value", "aligned", "call", "channels_last", "dtypes", "elementwise", "filled",
           "in_float", "in_order", "ints", "kernel_types", "natural", "scalar", "sequence",
           "size_of", "sizes", "stacked", "widened", "with_inputs"]
