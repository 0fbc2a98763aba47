"""Element-wise ops: arithmetic, comparison, logic, activations, casts.

Every one runs in the order its input lies in, so transposes pass through.
Source: ONNX operator definitions, ai.onnx 1 to 28."""

import math

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import (Value, aligned, bias_add, call, elementwise,
                                            in_float, kernel_types, scalar, sizes)
from pyflow.interop.onnx.ops.norm import rescaled
from pyflow.interop.onnx.registry import converter


# one input
def _unary(onnx_name, op_name, since=1):
    @converter(onnx_name, since=since)
    def convert(node):
        return elementwise(lambda x: call(op_name, x), node.value(0))
    return convert


for _onnx, _tf in (
        ("Neg", "Neg"), ("Ceil", "Ceil"), ("Floor", "Floor"), ("Exp", "Exp"),
        ("Log", "Log"), ("Sqrt", "Sqrt"), ("Sin", "Sin"), ("Cos", "Cos"), ("Tan", "Tan"),
        ("Asin", "Asin"), ("Acos", "Acos"), ("Atan", "Atan"), ("Sinh", "Sinh"), ("Cosh", "Cosh"),
        ("Asinh", "Asinh"), ("Acosh", "Acosh"), ("Atanh", "Atanh"), ("Erf", "Erf"),
        ("Round", "Rint"), ("Relu", "Relu"), ("Sigmoid", "Sigmoid"),
        ("Tanh", "Tanh"), ("Softplus", "Softplus"), ("Softsign", "Softsign"),
        ("Not", "LogicalNot"), ("BitwiseNot", "Invert"), ("IsNaN", "IsNan")):
    if _onnx == "Not":
        converter("Not")(lambda node: elementwise(tf.logical_not, node.value(0)))
    else:
        _unary(_onnx, _tf)


@converter("Abs")
def absolute(node):
    value = node.value(0)
    return value if value.dtype.is_unsigned else elementwise(lambda x: call("Abs", x), value)


@converter("Sign")
def sign(node):
    """Of unsigned numbers without a wider type, which would round the largest."""
    def over(x):
        if x.dtype.is_unsigned:
            return tf.cast(tf.not_equal(x, scalar(0, x)), x.dtype)
        return call("Sign", x)
    return elementwise(over, node.value(0))


@converter("Identity")
def identity(node):
    return node.value(0)


@converter("Reciprocal")
def reciprocal(node):
    return elementwise(lambda x: scalar(1, x) / x, node.value(0))


@converter("IsInf")
def is_inf(node):
    positive, negative = node.attr("detect_positive", 1), node.attr("detect_negative", 1)

    def over(x):
        found = call("IsInf", x)
        if positive and negative:
            return found
        sign = tf.greater(x, scalar(0, x)) if positive else tf.less(x, scalar(0, x))
        return tf.logical_and(found, sign) if positive or negative else tf.zeros_like(found)
    return elementwise(over, node.value(0))


# activations with parameters
@converter("LeakyRelu")
def leaky_relu(node):
    alpha = node.attr("alpha", 0.01)
    return elementwise(lambda x: tf.nn.leaky_relu(x, alpha), node.value(0))


@converter("Elu")
def elu(node):
    alpha = node.attr("alpha", 1.0)
    if alpha == 1:
        return elementwise(tf.nn.elu, node.value(0))
    return elementwise(lambda x: tf.where(tf.greater(x, scalar(0, x)), x,
                                          scalar(alpha, x) * _expm1_below(x)), node.value(0))


def _expm1_below(x):
    """exp(x) - 1 of negative numbers, 0 elsewhere: where exp overflows, the gradient of what is not
    chosen would be 0 times infinity."""
    return tf.expm1(tf.minimum(x, scalar(0, x)))


@converter("Celu")
def celu(node):
    alpha = node.attr("alpha", 1.0)
    return elementwise(lambda x: tf.maximum(x, scalar(0, x)) + tf.minimum(
        scalar(0, x), scalar(alpha, x) * _celu_power(x / scalar(alpha, x), alpha)), node.value(0))


def _celu_power(x, alpha):
    """exp(x) - 1 where x / alpha is negative."""
    return _expm1_below(x) if alpha > 0 else tf.expm1(x)


@converter("Selu")
def selu(node):
    alpha = node.attr("alpha", 1.67326319217681884765625 if node.opset >= 6 else 1.6732)
    gamma = node.attr("gamma", 1.05070102214813232421875 if node.opset >= 6 else 1.0507)
    return elementwise(lambda x: scalar(gamma, x) * tf.where(
        tf.greater(x, scalar(0, x)), x, scalar(alpha, x) * _expm1_below(x)), node.value(0))


@converter("ThresholdedRelu")
def thresholded_relu(node):
    alpha = node.attr("alpha", 1.0)
    return elementwise(lambda x: tf.where(tf.greater(x, scalar(alpha, x)), x, tf.zeros_like(x)),
                       node.value(0))


@converter("HardSigmoid")
def hard_sigmoid(node):
    alpha, beta = node.attr("alpha", 0.2), node.attr("beta", 0.5)
    return elementwise(lambda x: hard_sigmoid_of(x, alpha, beta), node.value(0))


def hard_sigmoid_of(x, alpha=0.2, beta=0.5):
    """max(0, min(1, alpha x + beta))."""
    return tf.maximum(scalar(0, x), tf.minimum(scalar(1, x), scalar(alpha, x) * x
                                               + scalar(beta, x)))


@converter("HardSwish")
def hard_swish(node):
    return elementwise(lambda x: x * hard_sigmoid_of(x, 1 / 6, 0.5), node.value(0))


@converter("Mish")
def mish(node):
    return elementwise(lambda x: x * tf.tanh(tf.nn.softplus(x)), node.value(0))


@converter("Swish")
def swish(node):
    alpha = node.attr("alpha", 1.0)
    return elementwise(lambda x: x * tf.sigmoid(scalar(alpha, x) * x), node.value(0))


@converter("Gelu")
def gelu(node):
    if node.attr("approximate", "none") == "tanh":
        return elementwise(lambda x: in_float(x, _gelu_tanh), node.value(0))
    return elementwise(lambda x: in_float(x, gelu_of), node.value(0))


def gelu_of(x):
    """x / 2 (1 + erf(x / sqrt 2))."""
    return scalar(0.5, x) * x * (scalar(1, x) + tf.erf(x * scalar(math.sqrt(0.5), x)))


def _gelu_tanh(x):
    inner = scalar(math.sqrt(2 / math.pi), x) * (x + scalar(0.044715, x) * x * x * x)
    return scalar(0.5, x) * x * (scalar(1, x) + tf.tanh(inner))


@converter("Shrink")
def shrink(node):
    bias, bound = node.attr("bias", 0.0), node.attr("lambd", 0.5)

    def over(x):
        zero = tf.zeros_like(x)
        wide = tf.cast(x, tf.float32) if not x.dtype.is_floating else x
        low, high = tf.less(wide, scalar(-bound, wide)), tf.greater(wide, scalar(bound, wide))
        shift = scalar(bias, wide)
        return tf.where(low, tf.cast(wide + shift, x.dtype),
                        tf.where(high, tf.cast(wide - shift, x.dtype), zero))
    return elementwise(over, node.value(0))


@converter("SwiGLU")
def swiglu(node):
    alpha = node.attr("alpha", 1.0)

    def gate(z): return z * tf.sigmoid(scalar(alpha, z) * z)
    return binary(node, lambda x, y: in_float(x, gate) * y)


@converter("PRelu")
def prelu(node):
    x, slope = node.value(0), node.value(1)
    if node.opset < 7 and slope.rank == 1 and (x.rank or 0) > 2 and slope.is_array:
        slope = Value(array=slope.array.reshape((-1,) + (1,) * (x.rank - 2)))
    elif node.opset < 7 and slope.rank == 1 and (x.rank or 0) > 2:
        slope = Value(tf.reshape(slope.plain, [-1] + [1] * (x.rank - 2)))
    (a, b), order = aligned([x, slope])
    if not a.dtype.is_floating:
        return Value(tf.where(call("Less", a, scalar(0, a)), call("Mul", a, b), a + tf.zeros_like(
            a)), order)
    return Value(tf.nn.relu(a) + b * tf.minimum(a, scalar(0, a)), order)


@converter("Clip")
def clip_by_attributes(node):
    low, high = node.attr("min", None), node.attr("max", None)

    def over(x):
        if low is not None and low > -3.4e38:
            x = tf.maximum(x, scalar(low, x))
        return tf.minimum(x, scalar(high, x)) if high is not None and high < 3.4e38 else x
    value = node.value(0)
    if low == 0 and high == 6:
        return elementwise(tf.nn.relu6, value)
    return elementwise(over, value)


@converter("Clip", since=11)
def clip(node):
    value = node.value(0)
    low, high = node.known(1), node.known(2)
    if low is not None and high is not None and low == 0 and high == 6 \
            and value.dtype.is_floating:
        return elementwise(tf.nn.relu6, value)

    def over(x):
        if node.has(1):
            x = call("Maximum", x, tf.reshape(node.x(1), []))
        return call("Minimum", x, tf.reshape(node.x(2), [])) if node.has(2) else x
    return elementwise(over, value)


# two inputs
def _legacy_shape(node, a, b):
    """Before opset 7, `b` is broadcast only if `broadcast` says so, along `axis`."""
    if node.opset >= 7 or not node.attr("broadcast", 0) or b.rank is None or a.rank is None:
        return b
    axis = node.attr("axis", None)
    if axis is None:
        return b
    extra = a.rank - node.axis(axis, a.rank) - b.rank
    if extra <= 0:
        return b
    if b.is_array:
        return Value(array=b.array.reshape(b.array.shape + (1,) * extra))
    return Value(tf.reshape(b.plain, tf.concat([sizes(b.plain), [1] * extra], 0)))


def binary(node, function):
    """A Value of function(a, b) over both inputs in one order."""
    a = node.value(0)
    b = _legacy_shape(node, a, node.value(1))
    if a.dtype is not b.dtype:
        raise node.error(f"both inputs must have one type, got {a.dtype.name} and {b.dtype.name}")
    (x, y), order = aligned([a, b])
    return Value(function(x, y), order)


def _binary(onnx_name, op_name, since=1):
    @converter(onnx_name, since=since)
    def convert(node):
        return binary(node, lambda x, y: call(op_name, x, y))
    return convert


for _onnx, _tf in (
        ("Sub", "Sub"), ("Greater", "Greater"), ("Less", "Less"),
        ("GreaterOrEqual", "GreaterEqual"), ("LessOrEqual", "LessEqual"),
        ("BitwiseAnd", "BitwiseAnd"), ("BitwiseOr", "BitwiseOr"), ("BitwiseXor", "BitwiseXor")):
    _binary(_onnx, _tf)


@converter("Mul")
def multiply(node):
    """A constant per channel goes into the batch norm before it, if there is one."""
    a, b = node.value(0), _legacy_shape(node, node.value(0), node.value(1))
    made = rescaled(a, b, None)
    return binary(node, lambda x, y: call("Mul", x, y)) if made is None else made


@converter("Add")
def add(node):
    """A bias of one number per channel becomes BiasAdd, which fuses with what makes its input."""
    a, b = node.value(0), _legacy_shape(node, node.value(0), node.value(1))
    made = rescaled(a, None, b)
    if made is not None:
        return made
    for x, bias in ((a, b), (b, a)):
        found = bias_of(x, bias)
        if found is not None:
            return Value(bias_add(x.tensor, found), x.order)
    return binary(node, lambda x, y: call("AddV2", x, y))


def bias_of(x, bias):
    """The constant vector added along the last axis of x as it lies, or None."""
    if not bias.is_array or x.is_array or not x.rank or x.rank < 2 or bias.rank > x.rank \
            or not x.dtype.is_floating or bias.dtype is not x.dtype:
        return None
    order = x.order or tuple(range(x.rank))
    array = bias.array.reshape((1,) * (x.rank - bias.rank) + bias.shape).transpose(order)
    channels = x.tensor.shape.as_tuple()[-1]
    if channels is None or channels == 1 or array.shape != (1,) * (x.rank - 1) + (channels,) \
            or x.tensor.op.type not in ("Conv2D", "DepthwiseConv2dNative", "MatMul"):
        return None
    return tf.constant(array.reshape(-1))


@converter("Div")
def div(node):
    def over(x, y):
        if x.dtype.is_floating:
            return call("RealDiv", x, y)
        return call("TruncateDiv", x, y)
    return binary(node, over)


@converter("Equal")
def equal(node):
    return binary(node, lambda x, y: tf.equal(x, y) if x.dtype in kernel_types("Equal")
                  else call("Equal", x, y))


def _logical(onnx_name, name):
    @converter(onnx_name)
    def convert(node):
        return binary(node, getattr(tf, name))
    return convert


_logical("And", "logical_and")
_logical("Or", "logical_or")
_logical("Xor", "logical_xor")


@converter("Pow")
def power(node):
    base, exponent = node.value(0), _legacy_shape(node, node.value(0), node.value(1))
    (x, y), order = aligned([base, exponent])
    if x.dtype is y.dtype:
        return Value(call("Pow", x, y), order)
    wide = tf.float64 if x.dtype.size + y.dtype.size > 8 or not x.dtype.is_floating else tf.float32
    if not x.dtype.is_floating and not y.dtype.is_floating:
        wide = tf.int64
    return Value(tf.cast(tf.pow(tf.cast(x, wide), tf.cast(y, wide)), x.dtype), order)


@converter("Mod")
def mod(node):
    if node.attr("fmod", 0):
        return binary(node, lambda x, y: call("Mod", x, y))
    return binary(node, lambda x, y: call("FloorMod", x, y))


@converter("BitShift")
def bit_shift(node):
    """Shifts by less than 0 or by all bits and more leave what sign extension alone leaves."""
    direction = node.attr("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise node.error(f"direction {direction!r} is neither LEFT nor RIGHT")

    def over(x, y):
        fits = tf.less(y, scalar(8 * x.dtype.size, y))
        signed = not x.dtype.is_unsigned
        if signed:
            fits = tf.logical_and(fits, tf.greater_equal(y, scalar(0, y)))
        by = tf.where_v2(fits, y, scalar(0, y))
        made = call("LeftShift" if direction == "LEFT" else "RightShift", x, by)
        rest = scalar(0, x)
        if signed and direction == "RIGHT":
            rest = tf.where_v2(tf.less(x, rest), scalar(-1, x), rest)
        return tf.where_v2(fits, made, rest)
    return binary(node, over)


# any number of inputs
def _fold(node, function):
    tensors, order = aligned([node.value(i) for i in range(len(node))])
    if not tensors:
        raise node.error("expected at least one input, got none")
    result = tensors[0]
    for other in tensors[1:]:
        result = function(result, other)
    return Value(tf.identity(result) if len(tensors) == 1 else result, order)


@converter("Max")
def maximum(node):
    return _fold(node, lambda x, y: call("Maximum", x, y))


@converter("Min")
def minimum(node):
    return _fold(node, lambda x, y: call("Minimum", x, y))


@converter("Sum")
def add_all(node):
    return _fold(node, lambda x, y: call("AddV2", x, y))


@converter("Mean")
def mean_of_all(node):
    total = _fold(node, lambda x, y: call("AddV2", x, y))
    return elementwise(lambda x: x / scalar(len(node), x), total)


@converter("Where")
def where(node):
    (condition, x, y), order = aligned([node.value(i) for i in range(3)])
    return Value(tf.where_v2(condition, x, y), order)


# types
@converter("Cast")
def cast(node):
    return cast_value(node, node.value(0), node.element_type("to", None))


@converter("Cast", since=0)
def cast_by_name(node):
    return cast(node)


@converter("CastLike")
def cast_like(node):
    return cast_value(node, node.value(0), node.value(1).dtype)


def cast_value(node, value, dtype):
    """The value in another type; to and from strings as ONNX's text says."""
    if dtype is None:
        raise node.error("attribute 'to' is missing")
    if value.dtype is dtype:
        return value
    if value.is_array and value.order is None and tf.string not in (value.dtype, dtype):
        with np.errstate(all="ignore"):
            return Value(array=value.array.astype(dtype.as_numpy_dtype))
    return elementwise(lambda x: cast_tensor(x, dtype), value)


def cast_tensor(x, dtype):
    """tf.cast, and between numbers and strings."""
    if x.dtype.base_dtype is tf.string:
        if dtype in (tf.float32, tf.float64, tf.int32, tf.int64):
            return tf.string_to_number(x, dtype)
        return tf.cast(tf.string_to_number(x, tf.float64 if dtype.is_floating else tf.int64),
                       dtype)
    if dtype is tf.string:
        return _float_text(x) if x.dtype.is_floating else tf.as_string(x)
    return tf.cast(x, dtype)


def _float_text(x):
    """Eight digits at most, and NaN, INF, -INF in capitals, as onnxruntime writes them."""
    x = tf.cast(x, tf.float32) if x.dtype.size < 4 else x
    made = tf.as_string(x, precision=8, shortest=True)
    infinite = tf.where_v2(tf.less(x, scalar(0, x)), tf.constant("-INF"), tf.constant("INF"))
    made = tf.where_v2(tf.is_inf(x), infinite, made)
    return tf.where_v2(tf.is_nan(x), tf.constant("NaN"), made)


@converter("BitCast")
def bit_cast(node):
    to = node.element_type("to", None)

    def over(x):
        x = tf.cast(x, tf.uint8) if x.dtype is tf.bool else x
        if to is tf.bool:
            return tf.cast(x, tf.bool)
        return tf.bitcast(x, to) if to is not x.dtype else x
    return elementwise(over, node.value(0))
