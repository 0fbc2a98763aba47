"""Sampling images at computed places: GridSample, AffineGrid, RoiAlign, DeformConv.

Images are rows of channels, [N * places, C]; a sample is a weighted sum of gathered rows."""

import itertools

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import Value, channels_last, ints, scalar, sequence, sizes
from pyflow.interop.onnx.ops.windows import geometry
from pyflow.interop.onnx.registry import converter


def _rows(value):
    """(rows [N * places, C], sizes of the spatial axes as float constants)."""
    last = value.last
    return tf.reshape(last, tf.concat([ints([-1]), sizes(last)[-1:]], 0)), sizes(last)[1:-1]


def _corner_sum(rows, dims, batch, corners):
    """Sum over corners: (integer places per axis, weight, inside) -> [..., C].

    batch: int64, broadcasts against places, which image a sample is of."""
    total = None
    for places, weight, inside in corners:
        flat = batch
        for place, size in zip(places, tf.unstack(dims)):
            top = size - ints([1])[0]
            flat = flat * size + tf.clip_by_value(tf.cast(place, tf.int64), ints([0])[0], top)
        if inside is not None:
            weight = weight * tf.cast(inside, weight.dtype)
        part = tf.gather(rows, flat) * tf.expand_dims(weight, -1)
        total = part if total is None else total + part
    return total


def _within(place, size):
    return tf.logical_and(tf.greater_equal(place, scalar(0, place)),
                          tf.less(place, tf.cast(size, place.dtype)))


# GridSample
@converter("GridSample", since=16)
def grid_sample(node):
    x, grid = node.value(0), node.x(1)
    rank = node.expect_rank(0, 4, 5) if node.opset < 20 else node.rank(0)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(node.attr("mode", "linear"),
                                                         node.attr("mode", "linear"))
    padding, corners = node.attr("padding_mode", "zeros"), node.attr("align_corners", 0)
    if mode not in ("linear", "nearest", "cubic") or padding not in ("zeros", "border",
                                                                     "reflection"):
        raise node.error(f"mode {mode!r} with padding_mode {padding!r} is not one of ONNX's")
    dtype = x.dtype
    if dtype.size < 4:
        x, grid = Value(tf.cast(x.plain, tf.float32)), tf.cast(grid, tf.float32)
    rows, dims = _rows(x)
    n = rank - 2
    axes = []
    for k in range(n):
        size = tf.cast(dims[k], grid.dtype)
        at = _unnormalized(grid[..., n - 1 - k], size, corners)
        if mode == "nearest":
            at = tf.rint(at)
        if mode != "cubic":         # whose taps are put inside one by one
            at = _inside(at, size, padding, corners)
        axes.append(_Axis(at, dims[k], padding, corners))
    taps = [axis.taps(mode) for axis in axes]
    corners = [([t[0] for t in combination], _product([t[1] for t in combination]),
                _all([t[2] for t in combination])) for combination in itertools.product(*taps)]
    batch = tf.reshape(sequence(sizes(grid)[0]), [-1] + [1] * n)
    made = _corner_sum(rows, dims, batch, corners)
    return Value(tf.cast(made, dtype), channels_last(rank))


def _product(factors):
    total = factors[0]
    for factor in factors[1:]:
        total = total * factor
    return total


def _all(conditions):
    conditions = [c for c in conditions if c is not None]
    total = conditions[0] if conditions else None
    for condition in conditions[1:]:
        total = tf.logical_and(total, condition)
    return total


def _unnormalized(x, size, corners):
    """From [-1, 1] to places on an axis."""
    one = scalar(1, x)
    if corners:
        return (x + one) / scalar(2, x) * (size - one)
    return ((x + one) * size - one) / scalar(2, x)


def _inside(at, size, padding, corners):
    if padding == "border":
        return tf.minimum(tf.maximum(at, scalar(0, at)), size - scalar(1, at))
    return _reflected(at, size, corners) if padding == "reflection" else at


def _reflected(at, size, corners):
    """Mirrored at the borders until inside."""
    low = scalar(0 if corners else -0.5, at)
    span = size - scalar(1, at) if corners else size
    span = tf.maximum(span, scalar(1e-6, at))
    period = span * scalar(2, at)
    rest = tf.floormod(at - low, period)
    return low + tf.minimum(rest, period - rest)


class _Axis:
    """Places along one axis, and what surrounds them."""

    def __init__(self, at, size, padding, corners):
        self.at, self.size, self.padding, self.corners = at, size, padding, corners

    def taps(self, mode):
        """[(place, weight, inside or None)] that a sample is made of along this axis."""
        if mode == "nearest":
            return [self._tap(self.at, tf.ones_like(self.at))]
        base = tf.floor(self.at)
        t = self.at - base
        if mode == "linear":
            weights = [(0, scalar(1, t) - t), (1, t)]
        else:
            weights = [(k, _cubic(t - scalar(k, t))) for k in (-1, 0, 1, 2)]
        return [self._tap(base + scalar(k, base), w) for k, w in weights]

    def _tap(self, place, weight):
        if self.padding == "zeros":
            return place, weight, _within(place, self.size)
        if self.padding == "reflection":
            size = tf.cast(self.size, place.dtype)
            place = tf.rint(_reflected(place, size, self.corners))
        return place, weight, None


def _cubic(x, a=-0.75):
    """Keys' kernel at x in [-2, 2]."""
    x = tf.abs(x)

    def c(v): return scalar(v, x)
    near = ((c(a + 2) * x - c(a + 3)) * x) * x + c(1)
    far = ((c(a) * x - c(5 * a)) * x + c(8 * a)) * x - c(4 * a)
    return tf.where(tf.less_equal(x, c(1)), near, far)


@converter("AffineGrid")
def affine_grid(node):
    """Places of an image's elements in [-1, 1], put through a linear map per batch entry."""
    theta = node.x(0)
    size = [int(d) for d in node.need(1, "size")]
    n = len(size) - 2
    if n not in (2, 3):
        raise node.error(f"size {size} is none of an image or a volume")
    node.bounded("the grid", *size[2:])
    lines = []
    for d in size[2:]:
        if node.attr("align_corners", 0):
            lines.append(np.linspace(-1, 1, d) if d > 1 else np.zeros(1))
        else:
            lines.append((2 * np.arange(d) + 1) / max(d, 1) - 1)
    grids = np.meshgrid(*lines, indexing="ij")[::-1]
    points = np.stack([*grids, np.ones(size[2:])], -1).reshape(1, -1, n + 1)
    points = tf.constant(points.astype(theta.dtype.as_numpy_dtype))
    every = tf.broadcast_to(points, ints([size[0], *points.shape.as_list()[1:]]))
    made = tf.matmul(every, theta, transpose_b=True)
    return tf.reshape(made, [size[0], *size[2:], n])


# RoiAlign
@converter("RoiAlign", since=10)
def roi_align(node):
    """Averages (or maxima) of samples on a grid inside each bin of each region."""
    rows, dims = _rows(node.value(0))
    rois, batch = node.x(1), tf.cast(node.x(2), tf.int64)
    high, wide = node.attr("output_height", 1), node.attr("output_width", 1)
    ratio = node.attr("sampling_ratio", 0)
    node.bounded("a region's output", high, wide, max(ratio, 1), max(ratio, 1), limit=1 << 20)
    if high < 1 or wide < 1:
        raise node.error(f"output_height {high} and output_width {wide} must be positive")
    half = node.opset >= 16 and node.attr("coordinate_transformation_mode",
                                          "half_pixel") == "half_pixel"
    box = rois * scalar(node.attr("spatial_scale", 1.0), rois) - scalar(0.5 if half else 0, rois)
    spans = [(box[:, 1], box[:, 3] - box[:, 1], high), (box[:, 0], box[:, 2] - box[:, 0], wide)]
    axes = []
    for k, (start, length, bins) in enumerate(spans):
        length = length if half else tf.maximum(length, scalar(1, length))
        size = length / scalar(bins, length)
        if ratio > 0:
            most, count = ratio, tf.ones_like(size) * scalar(ratio, size)
        else:
            count = tf.maximum(tf.ceil(size), scalar(0, size))
            known = node.importer.array_of(Value(count))
            if known is None:
                most = tf.cast(tf.maximum(tf.reduce_max(count), scalar(1, count)), tf.int64)
            else:
                most = max(int(min(known.max(initial=1), 1e9)), 1)
                node.bounded("the samples of a region", most, bins, limit=1 << 16)
        axes.append(_bin_taps(start, size, count, bins, most, dims[k]))
    return _bins(node, rows, dims, batch, axes)


def _bin_taps(start, size, count, bins, most, length):
    """Per axis: [(place, weight)] of [regions, bins, samples], and which samples exist.

    most: samples at most, a number or a scalar of the graph."""
    def column(t): return tf.reshape(t, [-1, 1, 1])
    steps = tf.constant(np.arange(bins).reshape(1, -1, 1).astype(np.float32))
    steps = tf.cast(steps, size.dtype)
    inner = tf.reshape(tf.cast(sequence(most), size.dtype), [1, 1, -1]) + scalar(0.5, size)
    at = column(start) + steps * column(size) + inner * column(size) / tf.maximum(
        column(count), scalar(1, count))
    exists = tf.less(inner, column(count))
    exists = tf.logical_and(exists, tf.ones_like(at, tf.bool))
    top = tf.cast(length, at.dtype)
    legal = tf.logical_and(tf.greater_equal(at, scalar(-1, at)), tf.less_equal(at, top))
    at = tf.minimum(tf.maximum(at, scalar(0, at)), top - scalar(1, at))
    low = tf.floor(at)
    part = at - low
    legal = tf.cast(legal, at.dtype)
    return [(low, (scalar(1, part) - part) * legal), (low + scalar(1, low), part * legal)], \
        exists, count


def _bins(node, rows, dims, batch, axes):
    (ys, y_there, y_count), (xs, x_there, x_count) = axes
    maximum = node.attr("mode", "avg") == "max"

    def down(t): return t[:, :, None, :, None]

    def across(t): return t[:, None, :, None, :]
    there = tf.logical_and(down(y_there), across(x_there))
    images = tf.reshape(batch, [-1, 1, 1, 1, 1])
    total = None
    for (y, wy), (x, wx) in itertools.product(ys, xs):
        part = _corner_sum(rows, dims, images, [((down(y), across(x)), down(wy) * across(wx),
                                                 None)])
        if total is None:
            total = part
        else:
            total = tf.maximum(total, part) if maximum else total + part
    there = tf.expand_dims(there, -1)
    if maximum:
        low = scalar(-np.inf, total)
        made = tf.reduce_max(tf.where_v2(there, total, low), [3, 4])
    else:
        count = tf.maximum(y_count * x_count, scalar(1, y_count))
        made = tf.reduce_sum(tf.where_v2(there, total, scalar(0, total)), [3, 4]) / tf.reshape(
            count, [-1, 1, 1, 1])
    return Value(made, (0, 2, 3, 1))


# DeformConv
@converter("DeformConv", since=19)
def deform_conv(node):
    """A convolution whose windows are bent by offsets: samples are gathered, then multiplied."""
    node.expect_rank(0, 4)
    w = node.x(1)
    outer, inner, *kernel = node.static_shape(1)
    if list(node.attr("kernel_shape", kernel)) != kernel:
        raise node.error(f"kernel_shape is not that of the weights {node.shape(1)}")
    n, channels, *spatial = node.static_shape(0)
    group, parts = node.attr("group", 1), node.attr("offset_group", 1)
    geo = geometry(node, spatial, kernel)
    taps = int(np.prod(kernel))
    node.bounded("the samples", taps, *geo.out)
    wanted = (n, parts * taps * 2, *geo.out)
    if node.static_shape(2) != wanted or channels != inner * group or outer % group \
            or parts < 1 or channels % parts:
        raise node.error(f"offset {node.shape(2)}, input {node.shape(0)} and weights "
                         f"{node.shape(1)} do not fit; expected an offset of shape {wanted}")
    columns = _bent(node, geo, kernel, parts, (n, channels, *geo.out))
    made = []
    for g, block in enumerate(tf.split(columns, group, axis=-1)):
        flat = tf.reshape(block, [-1, taps * inner])
        part = w[g * (outer // group):(g + 1) * (outer // group)]
        weights = tf.reshape(tf.transpose(part, [2, 3, 1, 0]), [taps * inner, outer // group])
        made.append(tf.reshape(tf.matmul(flat, weights), [n, *geo.out, outer // group]))
    result = tf.concat(made, -1) if group > 1 else made[0]
    if node.has(3):
        result = tf.nn.bias_add(result, node.x(3))
    return Value(result, (0, 2, 3, 1))


def _bent(node, geo, kernel, parts, shape):
    """[N, OH, OW, taps, C]: what lies under each kernel element at each place."""
    n, channels, high, wide = shape
    taps = kernel[0] * kernel[1]
    x = node.value(0).last
    offset = tf.reshape(node.x(2), [n, parts, taps, 2, high, wide])
    mask = tf.reshape(node.x(4), [n, parts, taps, high, wide]) if node.has(4) else None
    inside = [np.arange(k) * d for k, d in zip(kernel, geo.dilations)]
    bases = []
    for axis, out in enumerate((high, wide)):
        start = np.arange(out) * geo.strides[axis] - geo.pads[axis][0]
        grid = np.meshgrid(*inside, indexing="ij")[axis].reshape(-1)
        whole = grid[:, None, None] + (start[:, None] if axis == 0 else start[None, :])
        bases.append(tf.constant(np.broadcast_to(whole, (taps, high, wide)).astype(
            x.dtype.as_numpy_dtype)))
    made = []
    for part, image in enumerate(tf.split(x, parts, axis=-1)):
        rows, dims = _rows(Value(image, (0, 2, 3, 1)))
        axes = [_Axis(bases[k] + offset[:, part, :, k], dims[k], "zeros", 1).taps("linear")
                for k in range(2)]
        corners = [([a[0] for a in pair], _product([a[1] for a in pair]),
                    _all([a[2] for a in pair])) for pair in itertools.product(*axes)]
        batch = tf.reshape(sequence(n), [-1, 1, 1, 1])
        sampled = _corner_sum(rows, dims, batch, corners)
        if mask is not None:
            sampled = sampled * tf.expand_dims(mask[:, part], -1)
        made.append(tf.transpose(sampled, [0, 2, 3, 1, 4]))
    return tf.concat(made, -1) if parts > 1 else made[0]
