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
    if mode not in ("edge", "wrap"):
        raise node.error(f"mode {mode!r} is none of constant, reflect, edge, wrap")
    for axis, (before, after) in enumerate(table):
        if before or after:
            size = sizes(tensor)[axis]
            steps = tf.constant(np.int64(-before)) + sequence(size + ints([before + after])[0])
            zero, one = ints([0])[0], ints([1])[0]
            steps = tf.clip_by_value(steps, zero, size - one) if mode == "edge" else \
                tf.floormod(steps, size)
            tensor = tf.gather(tensor, steps, axis=axis)
    return Value(tensor, x.order)


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
        size = sizes(tensor)[axis]
        one = ints([1])[0]
        period = tf.maximum((size - one) * ints([2])[0], one)
        steps = tf.floormod(tf.constant(np.int64(-before)) + sequence(
            size + ints([before + after])[0]), period)
        tensor = tf.gather(tensor, tf.minimum(steps, period - steps), axis=axis)
    return tensor


def _dynamic(node, axes):
    """Pads that only the step knows: constants, none negative."""
    if node.attr("mode", "constant") != "constant":
        raise node.needs(node.value(1).tensor, "pads")
    x, rank, n = node.x(0), node.rank(0), len(axes)
    pads = tf.transpose(tf.reshape(tf.cast(node.x(1), tf.int64), [2, n]))
    table = tf.scatter_nd(tf.reshape(ints(axes), [-1, 1]), pads,
                          ints([rank, 2]))
    value = tf.reshape(node.x(2), []) if node.has(2) else scalar(0, x)
    cut = tf.minimum(table, ints([0])[0])
    begin = tf.negative(cut[:, 0])
    x = tf.slice(x, begin, sizes(x) + cut[:, 0] + cut[:, 1])
    return tf.pad(x, tf.maximum(table, ints([0])[0]), constant_values=value)


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
