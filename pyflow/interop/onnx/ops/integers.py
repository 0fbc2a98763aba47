"""Products of 8-bit numbers with constant weights, which are packed while importing.

What DequantizeLinear makes remembers where it came from (`Dequantised`), so that a product of two such
tensors is formed of the 8-bit numbers: exact, and then scaled."""

import numpy as np

import pyflow as tf
from pyflow.framework.op import get_op
from pyflow.interop.onnx.ops.common import Dequantised, scalar
from pyflow.interop.onnx.values import constant
from pyflow.ops.gemm.integer_ops import column_sums, column_zeros, packed_weights

_BYTES = (tf.uint8, tf.int8)


def packed_parts(value, zero, weights=None):
    """Constants (packed weights, sums, zero points) for a Value [k, n] of 8 bits and its zero
    point's, None for 0; weights: another matrix of the Value's array, (its key, function).

    None where they are not known while importing."""
    key, pick = weights if weights is not None else (None, _all_of)
    if not value.is_array or zero is not None and not zero.is_array \
            or value.array.dtype not in (np.int8, np.uint8) or weights is None and value.rank != 2:
        return None
    columns, kind = pick(value.array).shape[1], value.array.dtype
    zeros = np.zeros(1, np.int32) if zero is None else zero.array.reshape(-1).astype(np.int32)
    if zeros.size not in (1, columns):
        return None
    return [value.form(("packed bytes", key), lambda array: packed_weights(pick(array))),
            value.form(("sums of bytes", key), lambda array: column_sums(pick(array))),
            constant(column_zeros(zeros, columns, kind))]


def _all_of(array):
    return array


def integers(a, a_zero, b, b_zero):
    """The int32 product of Values of 8 bits less their zero points (Values or None), b known while
    importing; None if the kernel does not do it."""
    if a.dtype not in _BYTES or not a.rank or a_zero is not None and not _one(a_zero):
        return None
    parts = packed_parts(b, b_zero)
    if parts is None:
        return None
    x = a.plain
    zero = scalar(0, x) if a_zero is None else tf.reshape(a_zero.plain, [])
    return get_op("_MatMulInteger")(x, zero, *parts)


def dequantised_product(a, b):
    """The float32 product of two dequantised Values, by their 8-bit numbers; None if it is none."""
    left, right = a.source, b.source
    if not isinstance(left, Dequantised) or not isinstance(right, Dequantised) \
            or a.dtype is not tf.float32 or b.dtype is not tf.float32 \
            or not _one(left.scale) or b.rank != 2:
        return None
    if not _one(right.scale) and (right.axis % 2 != 1 or right.scale.rank != 1):
        return None
    made = integers(left.numbers, left.zero, right.numbers, right.zero)
    if made is None:
        return None
    scale = tf.reshape(right.scale.plain, [] if _one(right.scale) else [-1])
    return tf.cast(made, tf.float32) * (tf.reshape(left.scale.plain, []) * scale)


def _one(value):
    return value.shape in ((), (1,))
