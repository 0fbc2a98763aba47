"""onnxruntime's ops on 8-bit numbers (domain com.microsoft): dynamically quantised products and
LSTM, and the QLinear family, which computes on what the numbers stand for and rounds to even.

Products are formed of whole numbers in float32 where the answer is a float: exact below 2^24, to
float noise beyond.  Where the answer is quantised again they are exact, as in quantized.py.
Source: onnxruntime's ContribOperators.md and its CPU kernels."""

import numpy as np

import pyflow as tf
from pyflow.framework.op import get_op
from pyflow.interop.onnx.ops.common import (Value, channels_last, ints, scalar, sizes,
                                            with_inputs)
from pyflow.interop.onnx.ops.integers import integers, packed_parts
from pyflow.interop.onnx.ops.matmul import product
from pyflow.interop.onnx.ops.pool import average_pool
from pyflow.interop.onnx.ops.quantized import (dequantize_linear, dynamic_quantize_linear,
                                               qlinear_conv, quantize_linear, rounded)
from pyflow.interop.onnx.ops.recurrent import Layer, lstm_of
from pyflow.interop.onnx.registry import MICROSOFT, converter


# dynamic quantisation: uint8 by what is fed
def _dynamic(x):
    """(whole numbers less their zero point, as floats; scale) of float32 x, quantised to uint8 by
    the smallest and largest of its elements and 0."""
    zero = scalar(0, x)
    low, high = tf.minimum(tf.reduce_min(x), zero), tf.maximum(tf.reduce_max(x), zero)
    span = (high - low) / scalar(255, x)
    scale = tf.where_v2(tf.equal(span, zero), scalar(1, x), span)
    point = tf.rint(tf.negative(low) / scale)
    steps = tf.clip_by_value(tf.rint(x / scale) + point, zero, scalar(255, x))
    return steps - point, scale


def _centred(node, i, point, shape=None):
    """Input i less its zero point as float32, made while importing where both are known.

    point: the zero point's input, its numbers reshaped to `shape` if there are several."""
    value, zero = node.value(i), node.value(point) if node.has(point) else None
    if zero is not None:
        several = zero.shape not in ((), (1,))
        shape = shape if several and shape is not None else [] if not several else None
    if value.is_array and (zero is None or zero.is_array):
        def made(array):
            if zero is None:
                return array.astype(np.float32)
            less = zero.array if shape is None else zero.array.reshape(shape)
            return array.astype(np.float32) - less.astype(np.float32)
        of = None if zero is None else (zero.array.shape, zero.array.tobytes())
        return value.form(("centred", of, None if shape is None else tuple(shape)), made)
    x = tf.cast(value.plain, tf.float32)
    if zero is None:
        return x
    less = zero.plain if shape is None else tf.reshape(zero.plain, shape)
    return x - tf.cast(less, tf.float32)


def _expect_numbers(node, i, what, *counts):
    """OnnxError unless input i, where it is given, is a scalar or a vector of one of `counts`."""
    if not node.has(i):
        return
    shape = node.shape(i)
    if shape not in ((), (1,)) and (len(shape) != 1 or None not in shape
                                    and shape[0] not in counts):
        raise node.error(f"{what} must be one number or a vector of "
                         f"{' or '.join(map(str, counts))}, got shape {shape}")


def _expect_product(node, a, b):
    """OnnxError unless the inner sizes of inputs a and b agree."""
    left, right = node.shape(a), node.shape(b)
    if not left or not right:
        raise node.error(f"expected matrices, got shapes {left} and {right}")
    inner = right[-2] if len(right) > 1 else right[0]
    if None not in (left[-1], inner) and left[-1] != inner:
        raise node.error(f"shapes {left} and {right} do not fit: {left[-1]} columns times {inner} "
                         f"rows")


def _parameter(node, i):
    """Input i, a scale or zero point, as a scalar or a vector over columns."""
    return tf.reshape(node.x(i), [] if node.shape(i) in ((), (1,)) else [-1])


def _with_bias(node, i, made):
    if not node.has(i):
        return made
    columns = made.shape.as_tuple()[-1]
    if len(node.shape(i)) != 1 or None not in (columns, node.shape(i)[0]) \
            and node.shape(i)[0] != columns:
        raise node.error(f"the bias must have {columns} elements, got shape {node.shape(i)}")
    return made + node.x(i)


@converter("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(node):
    """A, B, B's scale, B's zero point, bias."""
    _expect_product(node, 0, 1)
    columns = node.shape(1)[-1]
    _expect_numbers(node, 2, "the scale", columns)
    _expect_numbers(node, 3, "the zero point", columns)
    steps, scale, point = dynamic_quantize_linear(node)
    made = integers(steps, Value(point), node.value(1), node.value(3) if node.has(3) else None)
    if made is None:
        steps, scale = _dynamic(node.x(0))
        made = product(node, steps, _centred(node, 1, 3))
    return _with_bias(node, 4, tf.cast(made, tf.float32) * (scale * _parameter(node, 2)))


@converter("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(node):
    """A, B, their scales, their zero points, bias."""
    _expect_product(node, 0, 1)
    columns = node.shape(1)[-1]
    for i, what in ((2, "A's scale"), (3, "B's scale"), (4, "A's zero point"),
                    (5, "B's zero point")):
        _expect_numbers(node, i, what, columns if i % 2 else node.shape(0)[-1])
    made = integers(node.value(0), node.value(4) if node.has(4) else None, node.value(1),
                    node.value(5) if node.has(5) else None)
    made = product(node, _centred(node, 0, 4), _centred(node, 1, 5)) if made is None else \
        tf.cast(made, tf.float32)
    dtype = node.value(2).dtype
    scale = tf.cast(_parameter(node, 2), tf.float32) * tf.cast(_parameter(node, 3), tf.float32)
    return _with_bias(node, 6, tf.cast(made * scale, dtype))


class _QuantizedLayer(Layer):
    """Weights [directions, inputs, gates * H] of 8 bits; inputs and states are quantised for each
    product.  Inputs 8 to 11: W's scale and zero point, R's."""

    inputs_axis = 1

    def check_weights(self):
        node, width = self.node, self.gates * self.hidden
        lanes = len(self.directions)
        inputs = node.shape(0)[2]
        shapes = node.static_shape(1), node.static_shape(2)
        if shapes[0][0] != lanes or shapes[0][2] != width \
                or inputs is not None and shapes[0][1] != inputs:
            raise node.error(f"W has shape {shapes[0]}, expected ({lanes}, {inputs}, {width})")
        if shapes[1] != (lanes, self.hidden, width):
            raise node.error(f"R has shape {shapes[1]}, expected ({lanes}, {self.hidden}, {width})")
        for i in range(8, 12):
            if node.static_shape(i) not in ((lanes,), (lanes, width)):
                raise node.error(f"input {i}, a scale or zero point, has shape {node.shape(i)}, "
                                 f"expected ({lanes},) or ({lanes}, {width})")
        if node.has(3) and node.static_shape(3) != (lanes, 2 * width):
            raise node.error(f"B has shape {node.shape(3)}, expected ({lanes}, {2 * width})")

    def _weights(self, i, point, d):
        """Whole numbers less their zero point, [inputs, gates * H], of direction d."""
        value, zero = self.node.value(i), self.node.value(point)
        if value.is_array and zero.is_array:
            less = zero.array[d].astype(np.float32)
            return value.form(("centred", d, less.tobytes()),
                              lambda array: array[d].astype(np.float32) - less)
        return tf.cast(value.plain[d], tf.float32) - tf.cast(zero.plain[d], tf.float32)

    def _by(self, d, i, scale):
        """x -> x times the weights of input i."""
        weights, factor = self._weights(i, scale + 1, d), self.node.x(scale)[d]

        def product_of(x):
            steps, own = _dynamic(x)
            return tf.matmul(steps, weights) * (own * factor)
        return product_of

    def projected(self, x, d, extra=None):
        made = self._by(d, 1, 8)(tf.reshape(x, [-1, self.node.static_shape(1)[1]]))
        if extra is not None:
            made = made + extra
        return tf.reshape(made, tf.concat([sizes(x)[:2], ints([self.gates * self.hidden])], 0))

    def recurrent(self, d):
        return self._by(d, 2, 10)

    def _packed(self, i, point, d):
        """Packed weights of input i, direction d, and their scales; None where they are not known
        while importing."""
        zero, value = self.node.value(point + 1), self.node.value(i)
        if not zero.is_array:
            return None
        parts = packed_parts(value, Value(array=zero.array[d]), (d, lambda array: array[d]))
        scales = tf.reshape(self.node.x(point)[d], [-1])
        return parts and [*parts, scales + tf.zeros([self.gates * self.hidden], tf.float32)]

    def whole(self):
        """Outputs of an LSTM with its usual functions: all steps as one op; None if it cannot be."""
        parts = [(self._packed(1, 8, d), self._packed(2, 10, d))
                 for d in range(len(self.directions))]
        if self.node.has(7) or any(None in pair for pair in parts):
            return None

        def direction(x, states, d):
            w, r = parts[d]
            wb, rb = self.bias(d)
            bias = tf.zeros([self.gates * self.hidden], tf.float32) if wb is None else wb + rb
            y, *last = get_op("_DynamicQuantizeLSTM")(x, *states, *w, *r, bias,
                                                      reverse=self.directions[d])
            return y, last
        return self.both(direction, turned=False)


@converter("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(node):
    return lstm_of(node, _QuantizedLayer)


# QLinear: x, its scale and zero point in a row
def _whole(node, i):
    """Input i less its zero point, in float32; its scale and zero point are the next two inputs."""
    for k, what in ((i + 1, "scale"), (i + 2, "zero point")):
        _expect_numbers(node, k, f"the {what} of input {i}", 1)
    x = tf.cast(node.x(i), tf.float32)
    if node.has(i + 2):
        x = x - tf.cast(tf.reshape(node.x(i + 2), []), tf.float32)
    return x


def _real(node, i):
    """What input i stands for, in float32."""
    return _whole(node, i) * tf.reshape(node.x(i + 1), [])


def _steps(node, x, point, late=False):
    """x, in steps of the output's scale, rounded; `late` where the zero point of input `point` is
    added first, as some kernels do."""
    for k, what in ((point - 1, "scale"), (point, "zero point")):
        _expect_numbers(node, k, f"the output's {what}", 1)
    dtype = node.value(0).dtype
    zero = tf.reshape(node.x(point), []) if node.has(point) else None
    if late and zero is not None:
        return rounded(x + tf.cast(zero, x.dtype), None, dtype)
    return rounded(x, zero, dtype)


def _quantised(node, x, scale, dtype=None):
    """float32 x by the scale and zero point of inputs `scale` and the next, or in `dtype`."""
    for k, what in ((scale, "scale"), (scale + 1, "zero point")):
        _expect_numbers(node, k, f"the output's {what}", 1)
    zero = tf.reshape(node.x(scale + 1), []) if node.has(scale + 1) else None
    return rounded(x / tf.reshape(node.x(scale), []), zero, zero.dtype if dtype is None else dtype)


@converter("QLinearAdd", domain=MICROSOFT)
def qlinear_add(node):
    return _quantised(node, _real(node, 0) + _real(node, 3), 6, node.value(0).dtype)


@converter("QLinearMul", domain=MICROSOFT)
def qlinear_mul(node):
    scale = tf.reshape(node.x(1), []) * tf.reshape(node.x(4), []) / tf.reshape(node.x(6), [])
    return _steps(node, _whole(node, 0) * _whole(node, 3) * scale, 7)


@converter("QLinearSigmoid", domain=MICROSOFT)
def qlinear_sigmoid(node):
    return _quantised(node, tf.sigmoid(_real(node, 0)), 3, node.value(0).dtype)


@converter("QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_leaky_relu(node):
    made = tf.nn.leaky_relu(_real(node, 0), node.attr("alpha", 0.01))
    return _quantised(node, made, 3, node.value(0).dtype)


@converter("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(node):
    """Before opset 13 all axes from `axis` on are one."""
    rank = node.rank(0)
    axis = node.axis(node.attr("axis", -1), rank)
    x = _real(node, 0)
    if node.attr("opset") >= 13:
        made = tf.nn.softmax(x, axis=axis)
    else:
        own = sizes(x)
        rows = tf.stack([tf.reduce_prod(own[:axis]), tf.reduce_prod(own[axis:])])
        made = tf.reshape(tf.nn.softmax(tf.reshape(x, rows)), own)
    return _quantised(node, made, 3, node.value(0).dtype)


@converter("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(node):
    """The result's scale and zero point, then each tensor with its own."""
    if len(node) < 5 or len(node) % 3 != 2:
        raise node.error(f"expected two inputs and three for each tensor, got {len(node)}")
    axis = node.axis(node.attr("axis"), node.rank(2))
    parts = [_real(node, i) for i in range(2, len(node), 3)]
    return _quantised(node, tf.concat(parts, axis), 0)


@converter("QLinearWhere", domain=MICROSOFT)
def qlinear_where(node):
    made = tf.where_v2(node.x(0), _real(node, 1), _real(node, 4))
    return _quantised(node, made, 7, node.value(1).dtype)


def _pooled(node, pool):
    """A pool over what input 0 stands for, in the layout that `channels_last` says."""
    rank = node.expect_rank(0, 3, 4, 5)
    order = channels_last(rank)
    last = bool(node.attr("channels_last", 0))
    real = Value(_real(node, 0), order if last else None)
    made = pool(with_inputs(node, real))
    made = made.ordered(order) if last else made.plain
    return _steps(node, made / tf.reshape(node.x(3), []), 4, late=True)


@converter("QLinearAveragePool", domain=MICROSOFT)
def qlinear_average_pool(node):
    return _pooled(node, average_pool)


@converter("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average_pool(node):
    rank = node.expect_rank(0, 3, 4, 5)
    first = 1 if node.attr("channels_last", 0) else 2
    axes = list(range(first, first + rank - 2))
    x = _whole(node, 0)
    count = tf.cast(tf.reduce_prod(sizes(x)[first:first + rank - 2]), tf.float32)
    scale = tf.reshape(node.x(1), []) / (tf.reshape(node.x(3), []) * count)
    return _steps(node, tf.reduce_sum(x, axes, keepdims=True) * scale, 4)


@converter("QLinearReduceMean", domain=MICROSOFT)
def qlinear_reduce_mean(node):
    axes = node.attr("axes", None)
    rank = node.rank(0)
    axes = list(range(rank)) if axes is None else [node.axis(a, rank) for a in axes]
    made = tf.reduce_mean(_real(node, 0), axes, keepdims=bool(node.attr("keepdims", 1)))
    return _quantised(node, made, 3, node.value(0).dtype)


@converter("QGemm", domain=MICROSOFT)
def qgemm(node):
    """A, B, each with scale and zero point; C in steps of both scales; the result's scale and
    zero point, without which it is a float."""
    node.expect_rank(0, 2)
    node.expect_rank(3, 2)
    turned_a, turned_b = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
    rows, columns = node.shape(0)[int(not turned_a)], node.shape(3)[int(turned_b)]
    outer = node.shape(3)[int(not turned_b)]
    if None not in (rows, columns) and rows != columns:
        raise node.error(f"A {node.shape(0)} and B {node.shape(3)} do not fit")
    for i, what in ((4, "B's scale"), (5, "B's zero point")):
        _expect_numbers(node, i, what, outer)
    a = _shifted(node, 0, 2)
    b = _shifted(node, 3, 5, [-1, 1] if turned_b else [1, -1])
    total = tf.matmul(a, b, transpose_a=turned_a, transpose_b=turned_b)
    if node.has(6):
        total = total + node.x(6)
    scale = tf.cast(tf.reshape(node.x(1), []), tf.float64) \
        * tf.cast(_parameter(node, 4), tf.float64)
    alpha = tf.constant(node.attr("alpha", 1.0), tf.float64)
    total = tf.cast(total, tf.float64) * (scale * alpha)
    if not node.has(7):
        return tf.cast(total, tf.float32)
    made = total / tf.cast(tf.reshape(node.x(7), []), tf.float64)
    zero = tf.reshape(node.x(8), [])
    return rounded(made, zero, zero.dtype)


def _shifted(node, i, point, shape=None):
    """Input i less its zero point in int32."""
    x = tf.cast(node.x(i), tf.int32)
    if not node.has(point):
        return x
    less = tf.reshape(node.x(point), [] if node.shape(point) in ((), (1,)) else shape)
    return x - tf.cast(less, tf.int32)


@converter("QLinearConv", domain=MICROSOFT)
def qlinear_conv_of(node):
    """As ai.onnx's; with `channels_last` of x [N, ..., C]."""
    if not node.attr("channels_last", 0):
        return qlinear_conv(node)
    rank = node.expect_rank(0, 3, 4, 5)
    order = channels_last(rank)
    turned = Value(node.x(0), order)
    made = Value(qlinear_conv(with_inputs(node, turned)))
    return made.ordered(order)


@converter("QuantizeLinear", domain=MICROSOFT)
def quantize_linear_of(node):
    return quantize_linear(node)


@converter("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear_of(node):
    return dequantize_linear(node)


@converter("DynamicQuantizeLinear", domain=MICROSOFT)
def dynamic_quantize_linear_of(node):
    return dynamic_quantize_linear(node)
