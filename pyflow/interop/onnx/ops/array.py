"""Ops that put tensors together and take them apart: Concat, Split, Slice, Tile, Pad's relatives.

Those along one axis run in the order their input lies in."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import (Value, ints, natural, scalar, sequence, size_of,
                                            sizes)
from pyflow.interop.onnx.registry import converter


@converter("Concat")
def concat(node):
    values = [node.value(i) for i in range(len(node))]
    rank = next((v.rank for v in values if v.rank is not None), None)
    if rank is None:
        raise node.needs(values[0].tensor, "the rank of an input")
    axis = node.axis(node.attr("axis", 1 if node.opset < 4 else None), rank)
    if all(v.is_array for v in values):
        return Value(array=np.concatenate([v.array for v in values], axis))
    order = next((v.order for v in values if v.order is not None), None) or natural(rank)
    tensors = [v.ordered(order) for v in values]
    return Value(tf.concat(tensors, order.index(axis)) if len(tensors) > 1 else tensors[0], order)


def _split(node, lengths):
    value = node.value(0)
    rank = node.rank(0)
    axis = node.axis(node.attr("axis", 0), rank)
    count = len(node.outputs)
    at = (value.order or natural(rank)).index(axis)
    if lengths is None:
        size = node.shape(0)[axis]
        if size is None:
            parts = tf.split(value.tensor, _uneven(size_of(value, axis), count), axis=at,
                             num=count) if node.has_attr("num_outputs") else tf.split(
                                 value.tensor, count, axis=at)
            return [Value(t, value.order) for t in parts]
        part = -(-size // node.attr("num_outputs", count))
        lengths = [min(part, max(size - i * part, 0)) for i in range(count)]
    lengths = [int(n) for n in lengths]
    if len(lengths) != count:
        raise node.error(f"{len(lengths)} sizes are given for {count} outputs")
    if len(set(lengths)) == 1 and sum(lengths):
        parts = tf.split(value.tensor, count, axis=at)
    else:
        parts = tf.split(value.tensor, lengths, axis=at)
    return [Value(t, value.order) for t in parts]


def _uneven(size, count):
    """Sizes of `count` equal parts, the last ones smaller, of what only the step knows."""
    part = (size + ints([count - 1])[0]) // ints([count])[0]
    starts = tf.constant(np.arange(count)) * part
    return tf.minimum(tf.maximum(size - starts, ints([0])[0]), part)


@converter("Split")
def split_by_attribute(node):
    return _split(node, node.attr("split", None) or (node.known(1).tolist() if node.has(1)
                                                     else None))


@converter("Split", since=13)
def split(node):
    lengths = node.known(1)
    if lengths is None and node.has(1):
        value, axis = node.value(0), node.axis(node.attr("axis", 0), node.rank(0))
        at = axis if value.order is None else value.order.index(axis)
        parts = tf.split(value.tensor, node.x(1), axis=at, num=len(node.outputs))
        return [Value(t, value.order) for t in parts]
    return _split(node, lengths.tolist() if node.has(1) else None)


# slices
@converter("Slice")
def slice_by_attributes(node):
    starts, ends = node.attr("starts"), node.attr("ends")
    axes = node.attr("axes", list(range(len(starts))))
    return _static_slice(node, starts, ends, axes, [1] * len(starts))


@converter("Slice", since=10)
def slice_op(node):
    """Starts, ends, axes and steps are vectors; of one axis they may be scalars."""
    starts, ends = _vector(node.known(1)), _vector(node.known(2))
    axes = _vector(node.need(3, "axes")).tolist() if node.has(3) else None
    steps = _vector(node.known(4)) if node.has(4) else None
    if starts is not None and ends is not None and (steps is not None or not node.has(4)):
        axes = list(range(len(starts))) if axes is None else axes
        steps = [1] * len(starts) if steps is None else steps.tolist()
        return _static_slice(node, starts.tolist(), ends.tolist(), axes, steps)
    return _dynamic_slice(node, axes)


def _vector(array):
    return None if array is None else array.reshape(-1)


def _static_slice(node, starts, ends, axes, steps):
    value = node.value(0)
    rank = node.rank(0)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise node.error(f"starts, ends, axes and steps must have one length, got {len(starts)}, "
                         f"{len(ends)}, {len(axes)} and {len(steps)}")
    index = [slice(None)] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps):
        if step == 0:
            raise node.error("a step is 0")
        axis = node.axis(int(axis), rank)
        index[axis] = _python_slice(start, end, step, node.shape(0)[axis])
    if value.is_array:
        return Value(array=value.array[tuple(index)])
    order = value.order or natural(rank)
    return Value(value.tensor[tuple(index[axis] for axis in order)], order)


def _python_slice(start, end, step, size):
    """ONNX's bounds, clamped to the axis, as Python's."""
    if size is not None:
        start = start + size if start < 0 else start
        end = end + size if end < 0 else end
        if step > 0:
            start, end = min(max(start, 0), size), min(max(end, 0), size)
            return slice(start, max(end, start), step)
        start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
        if size == 0 or start <= end:
            return slice(0, 0, 1)
        return slice(start, None if end < 0 else end, step)
    limit = 1 << 31
    start = None if start <= -limit or start >= limit - 1 and step < 0 else min(start, limit - 1)
    end = None if end >= limit - 1 or end <= -limit else end
    return slice(start, end, step)


def _dynamic_slice(node, axes):
    """Bounds that only the step knows; they are clamped as ONNX says."""
    x, rank = node.x(0), node.rank(0)
    if axes is None:
        count = (node.shape(1) or (1,))[0]
        if count is None:
            raise node.needs(node.value(1).tensor, "the number of starts")
        axes = list(range(count))
    own = sizes(x)
    starts, ends = (tf.reshape(tf.cast(node.x(i), tf.int64), [-1]) for i in (1, 2))
    known = node.known(4) if node.has(4) else np.ones(1)
    if known is not None and (known == 1).all():
        index = [slice(None)] * rank
        for k, axis in enumerate(axes):
            axis = node.axis(int(axis), rank)
            index[axis] = slice(*(_bound(bound[k], own[axis]) for bound in (starts, ends)))
        return x[tuple(index)]
    steps = tf.reshape(tf.cast(node.x(4), tf.int64), [-1])
    for k, axis in enumerate(axes):
        axis = node.axis(int(axis), rank)
        size = own[axis]
        x = tf.gather(x, _indices(starts[k], ends[k], steps[k], size), axis=axis)
    return x


def _bound(bound, size):
    """A bound of a slice with step 1 within [0, size]; both are int64 scalars."""
    zero = ints([0])[0]
    return tf.clip_by_value(tf.where(bound < zero, bound + size, bound), zero, size)


def _indices(start, end, step, size):
    """The indices a slice takes of an axis of `size`; all are int64 scalars."""
    zero, one = ints([0])[0], ints([1])[0]
    step = tf.clip_by_value(step, tf.negative(size + one), size + one)      # sums do not overflow
    start = tf.where(start < zero, start + size, start)
    end = tf.where(end < zero, end + size, end)
    forward = step > zero
    start = tf.where(forward, tf.clip_by_value(start, zero, size),
                     tf.minimum(tf.maximum(start, zero), size - one))
    end = tf.where(forward, tf.minimum(tf.maximum(end, zero), size),
                   tf.minimum(tf.maximum(end, -one), size - one))
    count = tf.maximum(zero, (end - start + step - tf.sign(step)) // step)
    return start + sequence(count) * step


@converter("Tile")
def tile_legacy(node):
    repeats, axis = node.need(1, "tiles"), int(node.need(2, "axis").reshape(()))
    return tf.tile(node.x(0), [int(repeats.reshape(())) if i == axis else 1
                               for i in range(node.rank(0))])


@converter("Tile", since=6)
def tile(node):
    return tf.tile(node.x(0), node.sizes_from(1))


# indices and ranges
@converter("Range")
def range_op(node):
    start, limit, delta = (tf.reshape(node.x(i), []) for i in range(3))
    wide = [tf.cast(t, tf.int32) if t.dtype is tf.int16 else t for t in (start, limit, delta)]
    ahead = tf.equal(tf.greater(wide[2], scalar(0, wide[2])), tf.greater(wide[1], wide[0]))
    limit = tf.where_v2(ahead, limit, start)    # nothing, where delta leads away from the limit
    if start.dtype in (tf.int16, tf.float16, tf.bfloat16):
        wide = tf.int32 if start.dtype is tf.int16 else tf.float32
        made = tf.range(*(tf.cast(t, wide) for t in (start, limit, delta)))
        return tf.cast(made, start.dtype)
    return tf.range(start, limit, delta)


@converter("EyeLike")
def eye_like(node):
    node.expect_rank(0, 2)
    dtype = node.element_type("dtype", node.value(0).dtype)
    own = sizes(node.x(0))
    distance = tf.expand_dims(sequence(own[1]), 0) - tf.expand_dims(sequence(own[0]), 1)
    return tf.cast(tf.equal(distance, tf.constant(np.int64(node.attr("k", 0)))), dtype)


@converter("Trilu")
def trilu(node):
    x = node.x(0)
    k = tf.cast(tf.reshape(node.x(1), []), tf.int64) if node.has(1) else ints([0])[0]
    own = sizes(x)
    rank = node.rank(0)
    rows = tf.expand_dims(sequence(own[rank - 2]), 1)
    columns = tf.expand_dims(sequence(own[rank - 1]), 0)
    keep = columns - rows >= k if node.attr("upper", 1) else columns - rows <= k
    return tf.where_v2(keep, x, tf.zeros_like(x))


@converter("OneHot")
def one_hot(node):
    depth = tf.cast(tf.reshape(node.x(1), []), tf.int64)
    indices = tf.cast(node.x(0), tf.int64)
    zero = ints([0])[0]
    indices = tf.where_v2(indices < zero, indices + depth, indices)
    values = node.x(2)
    rank = node.rank(0) + 1
    axis = node.axis(node.attr("axis", -1), rank)
    steps = tf.reshape(sequence(depth), [-1 if i == axis else 1 for i in range(rank)])
    hit = tf.equal(tf.expand_dims(indices, axis), steps)
    return tf.where_v2(hit, values[1], values[0])


@converter("NonZero")
def non_zero(node):
    return tf.transpose(tf.where(tf.not_equal(node.x(0), scalar(0, node.x(0)))
                                 if node.value(0).dtype is not tf.bool else node.x(0)))


@converter("ReverseSequence")
def reverse_sequence(node):
    batch, time = node.attr("batch_axis", 1), node.attr("time_axis", 0)
    return tf.reverse_sequence(node.x(0), node.x(1), seq_axis=time, batch_axis=batch)


@converter("DepthToSpace")
def depth_to_space(node):
    block = node.attr("blocksize")
    n, c, h, w = _image(node)
    mode = node.attr("mode", "DCR")
    if c is None:
        raise node.needs(node.value(0).tensor, "the number of channels")
    if block < 1 or c % (block * block):
        raise node.error(f"{c} channels do not divide by blocksize {block} squared")
    last = node.value(0).last
    if mode == "DCR":
        return Value(tf.depth_to_space(last, block) if block > 1 else last, (0, 2, 3, 1))
    if None in (h, w):
        raise node.needs(node.x(0), "height and width")
    deep = c // (block * block)
    x = tf.reshape(node.x(0), _with_batch([n, deep, block, block, h, w]))
    x = tf.transpose(x, [0, 1, 4, 2, 5, 3])
    return tf.reshape(x, _with_batch([n, deep, h * block, w * block]))


@converter("SpaceToDepth")
def space_to_depth(node):
    block = node.attr("blocksize")
    n, c, h, w = _image(node)
    if block < 1 or h is not None and h % block or w is not None and w % block:
        raise node.error(f"height {h} and width {w} do not divide by blocksize {block}")
    if node.attr("mode", "DCR") == "DCR":
        last = node.value(0).last
        return Value(tf.space_to_depth(last, block) if block > 1 else last, (0, 2, 3, 1))
    if None in (c, h, w):
        raise node.needs(node.x(0), "channels, height and width")
    x = tf.reshape(node.x(0), _with_batch([n, c, h // block, block, w // block, block]))
    x = tf.transpose(x, [0, 1, 3, 5, 2, 4])
    return tf.reshape(x, _with_batch([n, c * block * block, h // block, w // block]))


def _image(node):
    node.expect_rank(0, 4)
    return node.shape(0)


def _with_batch(shape):
    return [-1 if d is None else d for d in shape]
