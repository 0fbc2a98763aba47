"""Pools, channels-last: over images by the pooling kernels, other forms by slices along one
axis after the other."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import (Value, call, channels_last, ints, kernel_types,
                                            scalar, sizes)
from pyflow.interop.onnx.ops.windows import geometry, offsets, padded, same_pads, swept, window
from pyflow.interop.onnx.registry import converter


def _geometry(node):
    x = node.value(0)
    rank = node.rank(0)
    if rank < 3:
        raise node.error(f"expected batch, channels and spatial axes, got shape {x.shape}")
    kernel = node.attr("kernel_shape")
    return x, geometry(node, x.shape[2:], kernel, bool(node.attr("ceil_mode", 0)))


def _is_image(x, geo, op_name):
    return x.rank == 4 and set(geo.dilations) == {1} and x.dtype in kernel_types(op_name) \
        and (not geo.fixed or min(min(p) for p in geo.pads) >= 0)


def _static(node, geo):
    if None in geo.out:
        raise node.needs(node.value(0).tensor, "the spatial sizes")


def _lowest(dtype):
    return -np.inf if dtype.is_floating else dtype.min


@converter("MaxPool")
def max_pool(node):
    x, geo = _geometry(node)
    if len(node.outputs) > 1 and node.outputs[1]:
        return _max_with_places(node, x, geo)
    last = channels_last(x.rank)
    if _is_image(x, geo, "MaxPool"):
        pads = geo.pads
        explicit = not geo.fixed or any(b or a for b, a in pads)
        fits = geo.fixed and all(b < k and a < k for (b, a), k in zip(pads, geo.kernel))
        tensor = x.last
        if explicit and not fits:
            tensor, explicit = padded(tensor, pads, _lowest(x.dtype)), False
        return Value(tf.raw_ops.MaxPool(
            input=tensor, ksize=[1, *geo.kernel, 1], strides=[1, *geo.strides, 1],
            padding="EXPLICIT" if explicit else "VALID",
            explicit_paddings=[0, 0, *pads[0], *pads[1], 0, 0] if explicit else []), last)
    tensor = padded(x.last, geo.pads, _lowest(x.dtype))
    return Value(swept(node, tensor, geo, lambda a, b: call("Maximum", a, b)), last)


def _max_with_places(node, x, geo):
    """Also the place of each maximum in the flattened input."""
    _static(node, geo)
    shape = x.shape
    if None in shape:
        raise node.needs(x.tensor, f"the shape of the input, {shape},")
    node.bounded("the table of places", *geo.kernel, *geo.out)
    node.bounded("the table of planes", *shape[:2])
    tensor = padded(x.last, geo.pads, _lowest(x.dtype))
    stride_of = np.cumprod([1, *shape[:0:-1]])[::-1].astype(np.int64)    # row-major
    if node.attr("storage_order", 0):
        inner = np.cumprod([1, *shape[2:]])[:-1]
        stride_of = np.concatenate([stride_of[:2], inner])
    spatial = _places(geo, stride_of[2:])
    parts, places = [], []
    for offset, place in zip(offsets(node, geo), spatial):
        parts.append(window(tensor, geo, offset))
        places.append(place)
    stacked = tf.stack(parts)
    best = tf.argmax(stacked, 0)
    table = tf.constant(np.stack(places)[:, None, ..., None])
    hit = tf.equal(tf.expand_dims(best, 0), tf.reshape(
        tf.constant(np.arange(len(parts))), [-1] + [1] * x.rank))
    place = tf.reduce_sum(tf.where_v2(hit, table, tf.constant(np.int64(0))), 0)
    base = np.add.outer(np.arange(shape[0]) * stride_of[0], np.arange(shape[1]) * stride_of[1])
    base = base.reshape(shape[0], *[1] * len(geo.kernel), shape[1])
    last = channels_last(x.rank)
    return [Value(tf.reduce_max(stacked, 0), last), Value(place + tf.constant(base), last)]


def _places(geo, strides):
    """For each kernel element, where it lies in the input's plane, for all windows."""
    grids = []
    for out, stride, (before, _) in zip(geo.out, geo.strides, geo.pads):
        grids.append(np.arange(out) * stride - before)
    made = []
    for offset in np.ndindex(*geo.kernel):
        total = np.zeros((1,) * len(grids), np.int64)
        for axis, grid in enumerate(grids):
            where = (grid + offset[axis] * geo.dilations[axis]) * strides[axis]
            total = total + where.reshape([-1 if i == axis else 1 for i in range(len(grids))])
        made.append(total)
    return made


@converter("MaxUnpool")
def max_unpool(node):
    x = node.x(0)
    kernel = node.attr("kernel_shape")
    strides = node.attr("strides", None) or [1] * len(kernel)
    pads = node.attr("pads", None) or [0] * 2 * len(kernel)
    shape = node.static_shape(0)
    n = len(kernel)
    natural = list(shape[:2]) + [(s - 1) * stride - pads[i] - pads[i + n] + k for i, (
        s, stride, k) in enumerate(zip(shape[2:], strides, kernel))]
    asked = node.need(2, "output_shape").tolist() if node.has(2) else natural
    places = tf.reshape(node.x(1), [-1])
    if asked != natural:
        coordinates, rest = [], places
        for size in reversed(natural):
            coordinates.insert(0, tf.floormod(rest, tf.constant(np.int64(size))))
            rest = rest // tf.constant(np.int64(size))
        places = tf.constant(np.int64(0))
        for c, size in zip(coordinates, asked):
            places = places * tf.constant(np.int64(size)) + c
    flat = tf.scatter_nd(tf.expand_dims(places, 1), tf.reshape(x, [-1]),
                         tf.constant(np.array([np.prod(asked)], np.int64)))
    return tf.reshape(flat, [int(d) for d in asked])


# averages
@converter("AveragePool")
def average_pool(node):
    x, geo = _geometry(node)
    last = channels_last(x.rank)
    whole = bool(node.attr("count_include_pad", 0))
    if _is_image(x, geo, "AvgPool"):
        return Value(_average_image(node, x, geo, whole), last)
    total = swept(node, padded(x.last, geo.pads), geo, tf.add)
    counts = _counted(node, x, geo, whole) if None in geo.out else tf.constant(
        _counts(x, geo, whole))
    return Value(total / counts, last)


def _average_image(node, x, geo, whole):
    """By the pooling kernel; where its rules do not fit, scaled by how many elements count."""
    settings = {"ksize": [1, *geo.kernel, 1], "strides": [1, *geo.strides, 1]}
    if geo.fixed and not any(b or a for b, a in geo.pads):
        return tf.nn.avg_pool(x.last, padding="VALID", **settings)
    if None in geo.out:
        made = tf.nn.avg_pool(padded(x.last, geo.pads), padding="VALID", **settings)
        return made * (scalar(np.prod(geo.kernel), made) / _counted(node, x, geo, whole))
    if not whole and geo.pads == [same_pads(*row) for row in zip(x.shape[2:], geo.kernel,
                                                                 geo.strides)]:
        return tf.nn.avg_pool(x.last, padding="SAME", **settings)
    made = tf.nn.avg_pool(padded(x.last, geo.pads), padding="VALID", **settings)
    counts = _counts(x, geo, whole)
    if (counts == np.prod(geo.kernel)).all():
        return made
    return made * tf.constant((np.prod(geo.kernel) / counts.astype(np.float64)).astype(
        counts.dtype))


def _counts(x, geo, whole):
    """How many elements each window averages, [1, ..., 1]."""
    if np.prod(geo.out, dtype=float) > 1 << 24 or max(geo.kernel) > 1 << 16:
        raise ValueError(f"outputs of {geo.out} by a kernel {geo.kernel}: too large in this form")
    total = np.ones((), np.float64)
    for size, k, stride, d, out, pad, plain in zip(
            x.shape[2:], geo.kernel, geo.strides, geo.dilations, geo.out, geo.pads, geo.plain):
        grid = np.arange(out)[:, None] * stride - pad[0] + np.arange(k) * d
        low, high = (-plain[0], size + plain[1]) if whole else (0, size)
        total = np.multiply.outer(total, ((grid >= low) & (grid < high)).sum(1))
    return total[None, ..., None].astype(x.dtype.as_numpy_dtype)


def _counted(node, x, geo, whole):
    """_counts of sizes that only the step knows: the windows' sums over a tensor of ones."""
    last = x.last
    one = tf.constant(np.array(1, x.dtype.as_numpy_dtype))
    ones = tf.fill(tf.concat([ints([1]), sizes(last)[1:-1], ints([1])], 0), one)
    pads = geo.pads
    if whole:
        ones = padded(ones, geo.plain, 1)
        pads = [(0, 0 if after is plain else after - plain)
                for (_, after), (_, plain) in zip(geo.pads, geo.plain)]
    return swept(node, padded(ones, pads), geo, tf.add)


@converter("LpPool")
def lp_pool(node):
    x, geo = _geometry(node)
    p = node.attr("p", 2)
    tensor = padded(tf.abs(x.last) ** scalar(p, x.tensor), geo.pads)
    total = swept(node, tensor, geo, tf.add)
    return Value(total ** scalar(1 / p, total), channels_last(x.rank))


@converter("GlobalAveragePool")
def global_average_pool(node):
    x = node.value(0)
    return _global(node, lambda t, axes: tf.reduce_mean(t, axes, keepdims=True), x)


@converter("GlobalMaxPool")
def global_max_pool(node):
    return _global(node, lambda t, axes: tf.reduce_max(t, axes, keepdims=True), node.value(0))


@converter("GlobalLpPool")
def global_lp_pool(node):
    p = node.attr("p", 2)
    return _global(node, lambda t, axes: tf.reduce_sum(
        tf.abs(t) ** scalar(p, t), axes, keepdims=True) ** scalar(1 / p, t), node.value(0))


def _global(node, function, x):
    order = x.order or tuple(range(node.rank(0)))
    return Value(function(x.tensor, [i for i, axis in enumerate(order) if axis > 1]), x.order)


@converter("Col2Im")
def col2im(node):
    """Sums the blocks of [N, C * prod(block), L] where they lie in the image."""
    image = node.need(1, "image_shape").tolist()
    block = node.need(2, "block_shape").tolist()
    n = len(image)
    shape = node.static_shape(0)
    geo = geometry(node, image, block)
    channels = shape[1] // int(np.prod(block))
    x = tf.reshape(node.x(0), [shape[0], channels, *block, *geo.out])
    padded_sizes = [size + b + a for size, (b, a) in zip(image, geo.pads)]
    node.bounded("the table of places", *block, *geo.out)
    places = np.zeros((1,) * 2 * n, np.int64)
    for axis, size in enumerate(padded_sizes):
        inside = np.arange(block[axis]) * geo.dilations[axis]
        where = inside[:, None] + np.arange(geo.out[axis]) * geo.strides[axis]
        spread = [-1 if i % n == axis else 1 for i in range(2 * n)]
        spread[axis], spread[axis + n] = where.shape
        places = places * size + where.reshape(spread)
    rows = tf.transpose(tf.reshape(x, [shape[0] * channels, -1]))
    total = tf.unsorted_segment_sum(rows, tf.constant(places.reshape(-1)),
                                    int(np.prod(padded_sizes)))
    made = tf.reshape(tf.transpose(total), [shape[0], channels, *padded_sizes])
    index = [slice(None)] * 2 + [slice(b, b + size) for size, (b, _) in zip(image, geo.pads)]
    return made[tuple(index)] if n else made
