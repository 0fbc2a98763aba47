"""Resize and Upsample: axis by axis, each output a weighted sum of a few inputs.

Indices and weights follow from the sizes and are constants; the input keeps the order it lies in.
Source: ONNX operator definition Resize (11, 13, 18, 19); Keys 1981 for the cubic kernel."""

import math

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import Value, natural
from pyflow.interop.onnx.registry import converter

_MAX_TAPS = 4       # up to so many, gathered rows are added; beyond, a product with the weights


@converter("Upsample")
def upsample_of_images(node):
    scales = [1.0, 1.0, node.attr("height_scale"), node.attr("width_scale")]
    return _scaled(node, np.array(scales), "asymmetric", "floor")


@converter("Upsample", since=7)
def upsample_by_attribute(node):
    scales = np.array(node.attr("scales"), np.float64)
    return _scaled(node, scales, "asymmetric", "floor")


@converter("Upsample", since=9)
def upsample(node):
    return _scaled(node, node.need(1, "scales").astype(np.float64), "asymmetric", "floor")


@converter("Resize", since=10)
def resize_10(node):
    return _scaled(node, node.need(1, "scales").astype(np.float64), "asymmetric", "floor")


def _scaled(node, scales, mode, nearest):
    shape = node.static_shape(0)
    if len(scales) != len(shape) or (scales <= 0).any():
        raise node.error(f"expected {len(shape)} positive scales for shape {shape}, got "
                         f"{scales.tolist()}")
    plan = [(axis, int(math.floor(size * scale)), scale, None)
            for axis, (size, scale) in enumerate(zip(shape, scales))]
    return _resized(node, plan, mode, nearest)


@converter("Resize", since=11)
def resize(node):
    rank, shape = node.rank(0), node.static_shape(0)
    axes = [node.axis(a, rank) for a in node.attr("axes", None) or range(rank)]
    mode = node.attr("coordinate_transformation_mode", "half_pixel")
    roi = node.need(1, "roi") if mode == "tf_crop_and_resize" else None
    if roi is not None and len(roi) != 2 * len(axes):
        raise node.error(f"expected {2 * len(axes)} numbers in roi, got {len(roi)}")
    scales = node.need(2, "scales") if node.has(2) else np.zeros(0)
    if scales.size:
        if scales.size != len(axes) or (scales <= 0).any():
            raise node.error(f"expected {len(axes)} positive scales, got {scales.tolist()}")
        # float32 scales times sizes, as the definition computes them
        out = [int(math.floor(shape[a] * np.float32(s))) for a, s in zip(axes, scales)]
        scales = [float(s) for s in scales]
    else:
        out, scales = _from_sizes(node, axes, shape)
    parts = zip(axes, out, scales, range(len(axes)))
    plan = [(a, n, s, None if roi is None else (float(roi[i]), float(roi[i + len(axes)])))
            for a, n, s, i in parts]
    return _resized(node, plan, mode, node.attr("nearest_mode", "round_prefer_floor"))


def _from_sizes(node, axes, shape):
    sizes = [int(n) for n in node.need(3, "sizes")]
    if len(sizes) != len(axes) or any(n < 0 for n in sizes):
        raise node.error(f"expected {len(axes)} sizes, got {sizes}")
    scales = [n / shape[a] if shape[a] else 1.0 for a, n in zip(axes, sizes)]
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        chosen = min(scales) if policy == "not_larger" else max(scales)
        scales = [chosen] * len(axes)
        sizes = [int(math.floor(shape[a] * chosen + 0.5)) for a in axes]
    return sizes, scales


def _resized(node, plan, mode, nearest):
    value = node.value(0)
    order = value.order or natural(node.rank(0))
    tensor, shape = value.tensor, node.shape(0)
    kind = node.attr("mode", "nearest")
    if kind not in ("nearest", "linear", "cubic"):
        raise node.error(f"mode {kind!r} is none of nearest, linear, cubic")
    node.bounded("the largest axis", max((n for _, n, _, _ in plan), default=0), limit=1 << 20)
    dtype = tensor.dtype.base_dtype
    wide = dtype if kind == "nearest" or dtype is tf.float64 else tf.float32
    tensor = tf.cast(tensor, wide)
    outside = None
    for axis, out, scale, roi in plan:
        size = shape[axis]
        if out == size and scale == 1 and roi is None:
            continue
        if not size:
            raise node.error(f"shape {shape} has no elements")
        at = _coordinates(node, mode, size, out, scale, roi)
        place = order.index(axis)
        if roi is not None:
            beyond = ((at < 0) | (at > size - 1)).reshape([-1 if i == place else 1
                                                          for i in range(len(order))])
            outside = beyond if outside is None else outside | beyond
        if kind == "nearest":
            picked = np.clip(_nearest(node, at, nearest), 0, size - 1)
            tensor = tf.gather(tensor, tf.constant(picked.astype(np.int32)), axis=place)
        else:
            tensor = _mixed(tensor, place, size, *_weights(node, kind, at, size, scale))
    if outside is not None:
        fill = np.array(node.attr("extrapolation_value", 0.0)).astype(wide.as_numpy_dtype)
        tensor = tf.where_v2(tf.constant(outside), tf.constant(fill), tensor)
    if wide is not dtype and dtype.is_integer:
        tensor = tf.clip_by_value(tf.rint(tensor) if dtype.size > 1 else tensor,
                                  float(dtype.min), float(dtype.max))
    return Value(tf.cast(tensor, dtype), value.order)


def _coordinates(node, mode, size, out, scale, roi):
    """Where each output lies on the input's axis."""
    y = np.arange(out, dtype=np.float64)
    whole = scale * size
    if mode == "align_corners":
        return y * (size - 1) / (whole - 1) if whole != 1 else np.zeros(out)
    if mode == "asymmetric":
        return y / scale
    if mode == "half_pixel":
        return (y + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (y + 0.5) / scale - 0.5 if whole != 1 else np.full(out, -0.5)
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - out / whole) + (y + 0.5) / scale - 0.5
    if mode == "tf_crop_and_resize":
        start, end = roi
        if whole == 1:
            return np.full(out, (end - start) * (size - 1) / 2 + start * (size - 1))
        return y * (end - start) * (size - 1) / (whole - 1) + start * (size - 1)
    raise node.error(f"coordinate_transformation_mode {mode!r} is not one of ONNX's")


def _nearest(node, at, how):
    if how == "round_prefer_floor":
        return np.ceil(at - 0.5)
    if how == "round_prefer_ceil":
        return np.floor(at + 0.5)
    if how in ("floor", "ceil"):
        return np.floor(at) if how == "floor" else np.ceil(at)
    raise node.error(f"nearest_mode {how!r} is not one of ONNX's")


def _kernel(kind, x, a):
    x = np.abs(x)
    if kind == "linear":
        return np.clip(1 - x, 0, None)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _weights(node, kind, at, size, scale):
    """(indices, weights), both [outputs, taps]: inputs that each output is made of."""
    reach = 1 if kind == "linear" else 2
    squeeze = min(scale, 1.0) if node.attr("antialias", 0) else 1.0
    first = math.floor(-reach / squeeze) + 1
    taps = np.arange(first, 2 - first)
    base = np.ceil(at) - 1
    where = base[:, None] + taps
    weights = _kernel(kind, (at[:, None] - where) * squeeze, node.attr("cubic_coeff_a", -0.75))
    if squeeze != 1:
        weights = weights / weights.sum(1, keepdims=True)
    if node.attr("exclude_outside", 0):
        weights = np.where((where < 0) | (where >= size), 0, weights)
        total = weights.sum(1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
    return np.clip(where, 0, size - 1).astype(np.int32), weights


def _mixed(tensor, place, size, indices, weights):
    np_type = tensor.dtype.base_dtype.as_numpy_dtype
    rank = tensor.shape.ndims
    if indices.shape[1] <= _MAX_TAPS:
        along = [-1 if i == place else 1 for i in range(rank)]
        parts = [tf.gather(tensor, tf.constant(np.ascontiguousarray(indices[:, k])), axis=place)
                 * tf.constant(weights[:, k].astype(np_type).reshape(along))
                 for k in range(indices.shape[1])]
        return tf.add_n(parts)
    table = np.zeros((len(indices), size))
    np.add.at(table, (np.arange(len(indices))[:, None], indices), weights)
    moved = [i for i in range(rank) if i != place] + [place]
    made = tf.tensordot(tf.transpose(tensor, moved), tf.constant(table.T.astype(np_type)), 1)
    return tf.transpose(made, [moved.index(i) for i in range(rank)])
