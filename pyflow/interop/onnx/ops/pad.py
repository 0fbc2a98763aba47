"""Pad and CenterCropPad."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import Value, ints, natural, scalar, sequence, sizes
from pyflow.interop.onnx.ops.windows import padded
from pyflow.interop.onnx.registry import converter


@converter("Pad")
def pad_by_attributes(node):
    pads = node.attr("pads", None) or node.attr("paddings", None)
    if pads is None:
        raise node.error("attribute 'pads' is missing")
    return _pad(node, np.array(pads), list(range(node.rank(0))), node.attr("value", 0.0))


@converter("Pad", since=11)
def pad(node):
    rank = node.rank(0)
    axes = node.need(3, "axes").tolist() if node.has(3) else list(range(rank))
    axes = [node.axis(int(a), rank) for a in axes]
    value = node.known(2) if node.has(2) else 0
    pads = node.known(1)
    if pads is None or value is None:
        return _dynamic(node, axes)
    return _pad(node, pads, axes, np.asarray(value).reshape(()) if np.size(value) else 0)


def _pad(node, pads, axes, value):
    x, rank = node.value(0), node.rank(0)
    n, mode = len(axes), node.attr("mode", "constant")
    if pads.shape != (2 * n,):
        raise node.error(f"expected {2 * n} pads for {n} axes, got {pads.tolist()}")
    table = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        table[axis] = int(pads[i]), int(pads[i + n])
    order = x.order or natural(rank)
    table = [table[axis] for axis in order]
    tensor = x.tensor
    if mode == "constant":
        return Value(padded(tensor, table, value, at=0), x.order)
    if any(min(p) < 0 for p in table):
        tensor = padded(tensor, [(min(b, 0), min(a, 0)) for b, a in table], at=0)
        table = [(max(b, 0), max(a, 0)) for b, a in table]
    if mode == "reflect":
        return Value(_reflected(tensor, table), x.order)
    if mode not in _PLACES:
        raise node.error(f"mode {mode!r} is none of constant, {', '.join(_PLACES)}")
    for axis, (before, after) in enumerate(table):
        if before or after:
            tensor = _continued(tensor, axis, ints([before])[0], ints([after])[0], mode)
    return Value(tensor, x.order)


def _mirrored(steps, size):
    """Places mirrored at the first and the last one, as often as need be."""
    one = ints([1])[0]
    period = tf.maximum((size - one) * ints([2])[0], one)
    steps = tf.floormod(steps, period)
    return tf.minimum(steps, period - steps)


# Which place of an axis of some size stands for a place beyond it.
_PLACES = {
    "reflect": _mirrored,
    "edge": lambda steps, size: tf.clip_by_value(steps, ints([0])[0], size - ints([1])[0]),
    "wrap": tf.floormod}


def _continued(x, axis, before, after, mode):
    """x with one axis continued by int64 scalars of places before and after."""
    size = sizes(x)[axis]
    steps = sequence(size + before + after) - before
    return tf.gather(x, _PLACES[mode](steps, size), axis=axis)


def _reflected(tensor, table):
    for axis, (before, after) in enumerate(table):
        size = tensor.shape.as_tuple()[axis]
        if not before and not after:
            continue
        if size is not None and max(before, after) < size:
            one = [[0, 0]] * tensor.shape.ndims
            one[axis] = [before, after]
            tensor = tf.pad(tensor, one, mode="REFLECT")
            continue
        tensor = _continued(tensor, axis, ints([before])[0], ints([after])[0], "reflect")
    return tensor


def _dynamic(node, axes):
    """Pads or a value that only the step knows; what is negative is cut first."""
    mode = node.attr("mode", "constant")
    x, rank, n = node.x(0), node.rank(0), len(axes)
    pads = tf.transpose(tf.reshape(tf.cast(node.x(1), tf.int64), [2, n]))
    table = tf.scatter_nd(tf.reshape(ints(axes), [-1, 1]), pads,
                          ints([rank, 2]))
    value = tf.reshape(node.x(2), []) if node.has(2) else scalar(0, x)
    cut = tf.minimum(table, ints([0])[0])
    begin = tf.negative(cut[:, 0])
    x = tf.slice(x, begin, sizes(x) + cut[:, 0] + cut[:, 1])
    table = tf.maximum(table, ints([0])[0])
    if mode == "constant":
        return tf.pad(x, table, constant_values=value)
    if mode not in _PLACES:
        raise node.error(f"mode {mode!r} is none of constant, {', '.join(_PLACES)}")
    for axis in axes:
        x = _continued(x, axis, table[axis, 0], table[axis, 1], mode)
    return x


@converter("CenterCropPad")
def center_crop_pad(node):
    rank = node.rank(0)
    axes = [node.axis(a, rank) for a in node.attr("axes", list(range(rank)))]
    wanted = node.need(1, "shape").tolist()
    x, shape = node.x(0), node.static_shape(0)
    table = [(0, 0)] * rank
    for axis, size in zip(axes, wanted):
        extra = size - shape[axis]
        if extra >= 0:
            table[axis] = extra // 2, extra - extra // 2
        else:
            start = -extra // 2
            table[axis] = -start, extra + start
    return padded(x, table, at=0)
