"""Ops on quantised numbers: they compute on what the numbers stand for, rounded to even.

Sums of 8-bit products are formed in int32 or float64, where they are exact."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import Dequantised, Value, scalar, sequence, sizes
from pyflow.interop.onnx.ops.conv import convolution
from pyflow.interop.onnx.ops.integers import integers
from pyflow.interop.onnx.ops.matmul import product
from pyflow.interop.onnx.registry import converter


def along(node, parameter, i, axis):
    """A scale or zero point shaped to broadcast against x: per tensor, per axis or per block."""
    x_rank, shape = node.rank(0), node.shape(i)
    if shape in ((), (1,)):
        return tf.reshape(parameter, [])
    axis = node.axis(axis, x_rank)
    if len(shape) == 1:
        return tf.reshape(parameter, [-1 if k == axis else 1 for k in range(x_rank)])
    block = node.attr("block_size", 0)
    if len(shape) != x_rank or block < 1:
        raise node.error(f"a scale of shape {shape} with block_size {block} does not fit an input "
                         f"of shape {node.shape(0)}")
    size = sizes(node.x(0))[axis]
    places = sequence(size) // tf.constant(np.int64(block))
    return tf.gather(parameter, places, axis=axis)


def rounded(x, zero, dtype):
    """x rounded to even, shifted and clipped to an integer type."""
    made = tf.rint(x)
    if zero is not None:
        made = made + tf.cast(zero, x.dtype)
    low, high = float(dtype.min), float(dtype.max)
    return tf.cast(tf.clip_by_value(made, scalar(low, x), scalar(high, x)), dtype)


@converter("QuantizeLinear")
def quantize_linear(node):
    axis = node.attr("axis", 1)
    x = node.x(0)
    wide = tf.float32 if x.dtype.size < 4 or not x.dtype.is_floating else x.dtype
    scale = tf.cast(along(node, node.x(1), 1, axis), wide)
    zero = along(node, node.x(2), 2, axis) if node.has(2) else None
    dtype = node.value(2).dtype if node.has(2) else node.element_type("output_dtype", tf.uint8)
    if not dtype.is_integer:
        raise node.unsupported(f"quantising to {dtype.name}")
    return rounded(tf.cast(x, wide) / scale, zero, dtype)


@converter("DequantizeLinear")
def dequantize_linear(node):
    axis = node.attr("axis", 1)
    dtype = node.element_type("output_dtype", node.value(1).dtype)
    scale = tf.cast(along(node, node.x(1), 1, axis), tf.float32)
    x = node.x(0)
    if node.has(2):             # differences of up to 16 bits are exact in float32
        wide = tf.float32 if x.dtype.size <= 2 else tf.int32
        x = tf.cast(x, wide) - tf.cast(along(node, node.x(2), 2, axis), wide)
    made = Value(tf.cast(tf.cast(x, tf.float32) * scale, dtype))
    made.source = Dequantised(node.value(0), node.value(1),
                              node.value(2) if node.has(2) else None, axis)
    return made


@converter("DynamicQuantizeLinear")
def dynamic_quantize_linear(node):
    value = node.value(0)
    x = value.tensor
    zero = scalar(0, x)
    low = tf.minimum(tf.reduce_min(x), zero)
    high = tf.maximum(tf.reduce_max(x), zero)
    scale = (high - low) / scalar(255, x)
    safe = tf.where(tf.equal(scale, zero), scalar(1, x), scale)
    point = rounded(tf.negative(low) / safe, None, tf.uint8)
    return [Value(rounded(x / safe, point, tf.uint8), value.order), safe, point]


def _shifted(node, i, zero, wide):
    """Input i less its zero point, in a wide type."""
    x = tf.cast(node.x(i), wide)
    if not node.has(zero):
        return x
    point = tf.cast(node.x(zero), wide)
    shape = node.shape(zero)
    if len(shape) == 1 and shape[0] != 1:
        point = tf.reshape(point, [-1, 1] if i == 0 else [1, -1])
    elif len(shape) <= 1:
        point = tf.reshape(point, [])
    return x - point


@converter("MatMulInteger")
def matmul_integer(node):
    made = integers(node.value(0), node.value(2) if node.has(2) else None, node.value(1),
                    node.value(3) if node.has(3) else None)
    if made is not None:
        return made
    return product(node, _shifted(node, 0, 2, tf.int32), _shifted(node, 1, 3, tf.int32))


@converter("QLinearMatMul")
def qlinear_matmul(node):
    a, b = _shifted(node, 0, 2, tf.int32), _shifted(node, 3, 5, tf.int32)
    total = tf.cast(product(node, a, b), tf.float64)
    scale = _scale(node, 1, [-1, 1]) * _scale(node, 4, [1, -1]) / _scale(node, 6, [-1, 1])
    zero = node.x(7)
    return rounded(total * scale, tf.reshape(zero, []), zero.dtype)


def _scale(node, i, shape):
    scale = tf.cast(node.x(i), tf.float64)
    return tf.reshape(scale, shape if node.shape(i) not in ((), (1,)) else [])


@converter("QLinearConv")
def qlinear_conv(node):
    """x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias."""
    rank = node.rank(0)
    x = tf.cast(node.x(0), tf.float64) - tf.cast(tf.reshape(node.x(2), []), tf.float64)
    per_filter = [-1] + [1] * (rank - 1)
    point = tf.cast(node.x(5), tf.float64)
    point = tf.reshape(point, per_filter if node.shape(5) not in ((), (1,)) else [])
    made = convolution(node, Value(x), Value(tf.cast(node.x(3), tf.float64) - point))
    total = made.plain
    if node.has(8):
        total = total + tf.reshape(tf.cast(node.x(8), tf.float64), [1, -1] + [1] * (rank - 2))
    scale = _scale(node, 1, []) * _scale(node, 4, [1, -1] + [1] * (rank - 2))
    return rounded(total * scale / _scale(node, 6, []), tf.reshape(node.x(7), []),
                   node.value(7).dtype)
