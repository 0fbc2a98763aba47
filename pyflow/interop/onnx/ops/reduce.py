"""Reductions and running sums; they run in the order their input lies in."""

import numpy as np

import pyflow as tf
from pyflow.framework.op import get_op
from pyflow.interop.onnx.ops.common import Value, call, in_float, natural, scalar, widened
from pyflow.interop.onnx.registry import converter


def _sum(x, axes, keep):
    return _reduce("Sum", x, axes, keep)


def _reduce(op_name, x, axes, keep):
    (wide,), back = widened(op_name, [x])
    made = get_op(op_name)(wide, axes, keep_dims=keep)
    return made if back is None else tf.cast(made, back)


def _extreme(op_name):
    def over(x, axes, keep):
        if x.dtype is tf.bool:
            return tf.cast(_reduce(op_name, tf.cast(x, tf.uint8), axes, keep), tf.bool)
        return _reduce(op_name, x, axes, keep)
    return over


def _l2(x, axes, keep):
    if not x.dtype.is_floating:
        wide = tf.cast(x, tf.float64)
        return tf.cast(tf.sqrt(_sum(wide * wide, axes, keep)), x.dtype)
    return in_float(x, lambda v: tf.sqrt(_sum(v * v, axes, keep)))


def _log_sum_exp(x, axes, keep):
    if not x.dtype.is_floating:
        return tf.cast(_log_sum_exp(tf.cast(x, tf.float64), axes, keep), x.dtype)
    top = tf.stop_gradient(_reduce("Max", x, axes, True))
    top = tf.where(tf.is_finite(top), top, tf.zeros_like(top))
    total = tf.log(_sum(tf.exp(x - top), axes, keep))
    return total + (top if keep else tf.reshape(top, tf.shape(total)))


def _log_sum(x, axes, keep):
    if not x.dtype.is_floating:
        return tf.cast(tf.log(_sum(tf.cast(x, tf.float64), axes, keep)), x.dtype)
    return tf.log(_sum(x, axes, keep))


_FUNCTIONS = {
    "ReduceSum": _sum, "ReduceMax": _extreme("Max"), "ReduceMin": _extreme("Min"),
    "ReduceMean": lambda x, axes, keep: _reduce("Mean", x, axes, keep),
    "ReduceProd": lambda x, axes, keep: _reduce("Prod", x, axes, keep),
    "ReduceL1": lambda x, axes, keep: _sum(call("Abs", x), axes, keep),
    "ReduceL2": _l2, "ReduceLogSum": _log_sum, "ReduceLogSumExp": _log_sum_exp,
    "ReduceSumSquare": lambda x, axes, keep: _sum(call("Mul", x, x), axes, keep)}
# An empty list of axes with noop_with_empty_axes reduces nothing, but these still map elements.
_MAPS = {"ReduceL1": lambda x: call("Abs", x), "ReduceL2": lambda x: call("Abs", x),
         "ReduceLogSum": tf.log, "ReduceLogSumExp": lambda x: x,
         "ReduceSumSquare": lambda x: call("Mul", x, x)}


def _by_attribute(node):
    return _reduced(node, node.attr("axes", None))


def _by_input(node):
    if not node.has(1):
        return _reduced(node, None)
    axes = node.known(1)
    if axes is None and node.shape(1) != (0,):
        return _by_tensor(node)
    return _reduced(node, axes.reshape(-1).tolist() if axes is not None else [])


def _by_tensor(node):
    """Axes that only the step knows."""
    return _FUNCTIONS[node.op](node.x(0), node.x(1), bool(node.attr("keepdims", 1)))


def _reduced(node, axes):
    value, function = node.value(0), _FUNCTIONS[node.op]
    keep = bool(node.attr("keepdims", 1))
    if not axes:
        if node.attr("noop_with_empty_axes", 0):
            return Value(_MAPS.get(node.op, lambda x: x)(value.tensor), value.order)
        if value.rank is None:
            x = value.plain
            return function(x, tf.range(tf.rank(x)), keep)
        axes = range(value.rank)
    rank = node.rank(0)
    axes = {node.axis(int(a), rank) for a in axes}
    order = value.order or natural(rank)
    places = tf.constant(np.array([order.index(a) for a in sorted(axes)], np.int32))
    result = function(value.tensor, places, keep)
    if keep or value.order is None:
        return Value(result, value.order if keep else None)
    kept = sorted(set(range(rank)) - axes)
    return Value(result, [kept.index(a) for a in order if a in kept])


for _name in _FUNCTIONS:
    converter(_name)(_by_attribute)
    converter(_name, since=13 if _name == "ReduceSum" else 18)(_by_input)


@converter("CumSum")
def cumsum(node):
    return _running(node, tf.cumsum)


@converter("CumProd")
def cumprod(node):
    return _running(node, tf.cumprod)


def _running(node, function):
    axis = tf.cast(tf.reshape(node.x(1), []), tf.int32)
    known = node.known(1)
    if known is not None:
        axis = node.axis(int(known.reshape(())), node.rank(0))
    return function(node.x(0), axis, exclusive=bool(node.attr("exclusive", 0)),
                    reverse=bool(node.attr("reverse", 0)))


# softmax and its relatives
def _over_axis(node, function):
    """Since opset 13 along one axis; before, over all axes from `axis` on."""
    value, rank = node.value(0), node.rank(0)
    if node.opset >= 13:
        axis = node.axis(node.attr("axis", -1), rank)
        order = value.order or natural(rank)
        return Value(function(value.tensor, order.index(axis)), value.order)
    axis = node.axis(node.attr("axis", 1), rank) if rank > 1 else 0
    x = value.plain
    if axis == rank - 1:
        return function(x, rank - 1)
    shape = node.shape(0)
    if None not in shape[axis:]:
        flat = tf.reshape(x, [-1, int(np.prod(shape[axis:]))])
    else:
        flat = tf.reshape(x, tf.stack([-1, tf.reduce_prod(tf.shape(x)[axis:])]))
    made = function(flat, 1)
    return tf.reshape(made, [-1 if d is None else d for d in shape] if shape.count(None) < 2
                      else tf.shape(x))


@converter("Softmax")
def softmax(node):
    return _over_axis(node, lambda x, axis: tf.nn.softmax(x, axis=axis))


@converter("LogSoftmax")
def log_softmax(node):
    return _over_axis(node, lambda x, axis: tf.nn.log_softmax(x, axis=axis))


@converter("Hardmax")
def hardmax(node):
    def over(x, axis):
        return tf.one_hot(tf.argmax(x, axis), tf.shape(x)[axis], on_value=scalar(1, x),
                          off_value=scalar(0, x), axis=axis)
    return _over_axis(node, over)
