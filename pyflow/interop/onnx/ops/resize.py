"""Resize and Upsample: axis by axis, each output a weighted sum of a few inputs.

Indices and weights follow from the sizes: constants where these are known while importing, else
nodes of the graph.  Both are written once, in functions of an array module `m` (NumPy or tf).  The
input keeps the order it lies in.  Places are float32, as onnxruntime's are: on a border between two
pixels, the last bit decides.
Source: ONNX operator definition Resize (11, 13, 18, 19); Keys 1981 for the cubic kernel."""

import math

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import Value, natural, sequence, size_of
from pyflow.interop.onnx.registry import converter

_MAX_TAPS = 4       # up to so many, gathered rows are added; beyond, a product with the weights
_MAX_GATHERED = 64  # the same where the weights are not known


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
    return _by_scales(node, "floor")


@converter("Resize", since=10)
def resize_10(node):
    """Before nearest_mode, onnxruntime rounds down where an axis grows and up where it shrinks."""
    return _by_scales(node, "simple")


def _sizes_of(value):
    """The value's sizes: numbers, or scalars of the graph where they are not known."""
    return [size_of(value, axis) if n is None else n for axis, n in enumerate(value.shape)]


def _is_number(*values):
    return all(isinstance(v, (int, float, np.number)) for v in values)


def _scaled_size(size, scale):
    """floor(size * scale), as the definition computes it in float32."""
    if _is_number(size):
        return int(math.floor(np.float32(size) * np.float32(scale)))
    return tf.cast(tf.floor(tf.cast(size, tf.float32) * tf.constant(np.float32(scale))), tf.int64)


def _by_scales(node, nearest):
    """By scales in input 1, asymmetric."""
    scales = node.known(1)
    if scales is not None:
        return _scaled(node, scales.astype(np.float64), "asymmetric", nearest)
    own, rank = _sizes_of(node.value(0)), node.rank(0)
    return _by_tensor(node, range(rank), [None] * rank, own, None, node.x(1), "asymmetric", nearest)


def _scaled(node, scales, mode, nearest):
    node.shape(0)
    own = _sizes_of(node.value(0))
    if len(scales) != len(own) or (scales <= 0).any():
        raise node.error(f"expected {len(own)} positive scales for shape {node.shape(0)}, got "
                         f"{scales.tolist()}")
    plan = [(axis, size, _scaled_size(size, scale), np.float32(scale), None)
            for axis, (size, scale) in enumerate(zip(own, scales))]
    return _resized(node, plan, mode, nearest)


@converter("Resize", since=11)
def resize(node):
    rank = node.rank(0)
    own = _sizes_of(node.value(0))
    axes = [node.axis(a, rank) for a in node.attr("axes", None) or range(rank)]
    mode = node.attr("coordinate_transformation_mode", "half_pixel")
    roi = node.need(1, "roi") if mode == "tf_crop_and_resize" else None
    if roi is not None and len(roi) != 2 * len(axes):
        raise node.error(f"expected {2 * len(axes)} numbers in roi, got {len(roi)}")
    boxes = [None if roi is None else (np.float32(roi[i]), np.float32(roi[i + len(axes)]))
             for i in range(len(axes))]
    nearest = node.attr("nearest_mode", "round_prefer_floor")
    scales = node.known(2) if node.has(2) and node.shape(2) != (0,) else np.zeros(0)
    if scales is None or not scales.size and node.known(3) is None:
        return _by_tensor(node, axes, boxes, own, None if scales is None else node.x(3),
                          node.x(2) if scales is None else None, mode, nearest)
    if scales.size:
        if scales.size != len(axes) or (scales <= 0).any():
            raise node.error(f"expected {len(axes)} positive scales, got {scales.tolist()}")
        out = [_scaled_size(own[a], s) for a, s in zip(axes, scales)]
        scales = [np.float32(s) for s in scales]
    else:
        out, scales = _from_sizes(node, axes, own)
    plan = [(a, own[a], n, s, box) for a, n, s, box in zip(axes, out, scales, boxes)]
    return _resized(node, plan, mode, nearest)


def _ratio(out, size):
    """out / size, 1 for no size."""
    if _is_number(out, size):
        return np.float32(out) / np.float32(size) if size else np.float32(1)
    out, size = (tf.cast(n, tf.float32) for n in (out, size))
    return out / tf.maximum(size, tf.constant(np.float32(1)))


def _from_sizes(node, axes, own):
    wanted = [int(n) for n in node.need(3, "sizes")]
    if len(wanted) != len(axes) or any(n < 0 for n in wanted):
        raise node.error(f"expected {len(axes)} sizes, got {wanted}")
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        shape = node.static_shape(0)
        ratios = [n / shape[a] if shape[a] else 1.0 for a, n in zip(axes, wanted)]
        chosen = min(ratios) if policy == "not_larger" else max(ratios)
        wanted = [int(math.floor(shape[a] * chosen + 0.5)) for a in axes]
        return wanted, [np.float32(chosen)] * len(axes)
    return wanted, [_ratio(n, own[a]) for a, n in zip(axes, wanted)]


def _by_tensor(node, axes, boxes, own, wanted, factors, mode, nearest):
    """By sizes (`wanted`) or scales (`factors`) that only the step knows.

    Batch and channels of an image are taken to stay; the step fails if they were to change."""
    i, given = (3, wanted) if factors is None else (2 if node.opset > 10 else 1, factors)
    if node.attr("keep_aspect_ratio_policy", "stretch") != "stretch" or node.attr("antialias", 0) \
            or node.shape(i) not in ((None,), (len(axes),)):
        node.need(i, "what size to make")
    if wanted is None:
        sizes_now = tf.stack([tf.cast(own[a], tf.float32) for a in axes])
        wanted = tf.floor(sizes_now * factors)
    wanted = tf.cast(wanted, tf.int64)
    stay = len(own) > 2 and not node.has_attr("axes")
    plan = []
    for k, (axis, box) in enumerate(zip(axes, boxes)):
        if axis > 1 or not stay:
            scale = _ratio(wanted[k], own[axis]) if factors is None else factors[k]
            plan.append((axis, own[axis], wanted[k], scale, box))
    made = _resized(node, plan, mode, nearest)
    return tf.reshape(made.plain, wanted) if stay else made


def _resized(node, plan, mode, nearest):
    """plan: (axis, size, output size, scale, None or where the region starts and ends)."""
    value = node.value(0)
    order = value.order or natural(node.rank(0))
    tensor = value.tensor
    kind = node.attr("mode", "nearest")
    kind = {"bilinear": "linear"}.get(kind, kind)       # Upsample of opset 1 calls it so
    if kind not in ("nearest", "linear", "cubic"):
        raise node.error(f"mode {kind!r} is none of nearest, linear, cubic")
    numbers = [n for _, _, n, _, _ in plan if _is_number(n)]
    node.bounded("the largest axis", max(numbers, default=0), limit=1 << 20)
    dtype = tensor.dtype.base_dtype
    wide = dtype if kind == "nearest" or dtype is tf.float64 else tf.float32
    tensor = tf.cast(tensor, wide)
    outside = None
    for axis, size, out, scale, box in plan:
        if _is_number(scale) and scale == 1 and box is None and (out is size or out == size
                                                                 or not _is_number(size)):
            continue
        if _is_number(size) and not size:
            raise node.error(f"shape {node.shape(0)} has no elements")
        m = np if _is_number(size, out, scale) else tf
        at = _coordinates(node, m, mode, size, out, scale, box)
        place = order.index(axis)
        last = _float(m, size) - 1
        if box is not None:
            beyond = m.logical_or(at < _float(m, 0), at > last)
            beyond = tf.reshape(beyond, [-1 if i == place else 1 for i in range(len(order))])
            outside = beyond if outside is None else tf.logical_or(outside, beyond)
        if kind == "nearest":
            picked = _nearest(node, m, at, nearest, scale)
            picked = m.minimum(m.maximum(picked, _float(m, 0)), last)
            tensor = tf.gather(tensor, _integers(m, picked), axis=place)
        else:
            tensor = _mixed(tensor, place, size, *_weights(node, m, kind, at, size, scale))
        dims = [None] * len(order)
        dims[place] = out if _is_number(out) else None
        tensor.set_shape(dims)
    if outside is not None:
        fill = np.array(node.attr("extrapolation_value", 0.0)).astype(wide.as_numpy_dtype)
        tensor = tf.where_v2(outside, tf.constant(fill), tensor)
    if wide is not dtype and dtype.is_integer:
        tensor = tf.clip_by_value(tf.rint(tensor) if dtype.size > 1 else tensor,
                                  float(dtype.min), float(dtype.max))
    return Value(tf.cast(tensor, dtype), value.order)


def _float(m, x):
    """A number, or a tensor, in float32."""
    if m is np:
        return np.float32(x)
    return tf.constant(np.float32(x)) if _is_number(x) else tf.cast(x, tf.float32)


def _integers(m, x):
    return tf.constant(x.astype(np.int32)) if m is np else tf.cast(x, tf.int32)


def _where(m, condition, x, y):
    return np.where(condition, x, y) if m is np else tf.where_v2(condition, x, y)


def _coordinates(node, m, mode, size, out, scale, box):
    """Where each output lies on the input's axis."""
    y = np.arange(out, dtype=np.float32) if _is_number(out) else tf.cast(sequence(out), tf.float32)
    y = tf.constant(y) if m is tf and _is_number(out) else y
    size, out, scale = (_float(m, n) for n in (size, out, scale))
    one, half = _float(m, 1), _float(m, 0.5)
    many = m.minimum(out - one, one)        # 0 for one output, else 1
    if mode == "align_corners":
        whole = scale * size                # ONNX's definition: not rounded down
        return y * (size - one) / _where(m, m.equal(whole, one), one, whole - one)
    if mode == "asymmetric":
        return y / scale
    if mode == "half_pixel":
        return (y + half) / scale - half
    if mode == "tf_half_pixel_for_nn":
        return (y + half * m.sign(m.abs(scale - one))) / scale     # an axis that stays, stays
    if mode == "pytorch_half_pixel":
        return ((y + half) / scale - half) * many
    if mode == "half_pixel_symmetric":
        return size * half * (one - out / (scale * size)) + (y + half) / scale - half
    if mode == "tf_crop_and_resize":
        start, end = (_float(m, n) for n in box)
        spread = start * (size - one) + y * (end - start) * (size - one) / m.maximum(out - one, one)
        return _where(m, many > _float(m, 0), spread, y + half * (start + end) * (size - one))
    raise node.error(f"coordinate_transformation_mode {mode!r} is not one of ONNX's")


def _nearest(node, m, at, how, scale):
    half = _float(m, 0.5)
    if how == "simple":
        return _where(m, scale < 1, m.ceil(at), m.floor(at))
    if how == "round_prefer_floor":
        return m.ceil(at - half)
    if how == "round_prefer_ceil":
        return m.floor(at + half)
    if how in ("floor", "ceil"):
        return m.floor(at) if how == "floor" else m.ceil(at)
    raise node.error(f"nearest_mode {how!r} is not one of ONNX's")


def _kernel(m, kind, x, a):
    x = m.abs(x)
    if kind == "linear":
        return m.maximum(1 - x, x * 0)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return _where(m, x <= 1, near, _where(m, x < 2, far, x * 0))


def _weights(node, m, kind, at, size, scale):
    """(indices, weights), both [outputs, taps]: inputs that each output is made of."""
    reach = 1 if kind == "linear" else 2
    squeeze = 1.0
    if node.attr("antialias", 0):
        if not _is_number(scale):
            raise node.needs(node.value(0).tensor, "the sizes for antialias")
        squeeze = min(float(scale), 1.0)
    first = math.floor(-reach / squeeze) + 1
    taps = np.arange(first, 2 - first, dtype=np.float32)
    if m is tf and len(taps) > _MAX_GATHERED:
        raise node.needs(node.value(0).tensor, "the sizes for antialias by so much")
    where = m.expand_dims(m.ceil(at) - 1, 1) + taps
    weights = _kernel(m, kind, (m.expand_dims(at, 1) - where) * squeeze,
                      node.attr("cubic_coeff_a", -0.75))
    sums = (lambda w: w.sum(1, keepdims=True)) if m is np else (
        lambda w: tf.reduce_sum(w, 1, keepdims=True))
    if squeeze != 1:
        weights = weights / sums(weights)
    last = _float(m, size) - 1
    if node.attr("exclude_outside", 0):
        weights = _where(m, m.logical_or(where < 0, where > last), weights * 0, weights)
        total = sums(weights)
        weights = weights / _where(m, m.equal(total, total * 0), total * 0 + 1, total)
    return m.minimum(m.maximum(where, where * 0), last), weights


def _mixed(tensor, place, size, indices, weights):
    rank = tensor.shape.ndims
    known = isinstance(weights, np.ndarray)
    if not known or indices.shape[1] <= _MAX_TAPS:
        along = [-1 if i == place else 1 for i in range(rank)]
        m = np if known else tf
        parts = [tf.gather(tensor, _integers(m, indices[:, k]), axis=place)
                 * tf.reshape(tf.cast(tf.convert_to_tensor(weights[:, k]), tensor.dtype), along)
                 for k in range(weights.shape[1] if known else weights.shape.as_list()[1])]
        return tf.add_n(parts)
    table = np.zeros((len(indices), size))
    np.add.at(table, (np.arange(len(indices))[:, None], indices.astype(np.int64)), weights)
    moved = [i for i in range(rank) if i != place] + [place]
    table = tf.constant(table.T.astype(tensor.dtype.base_dtype.as_numpy_dtype))
    made = tf.tensordot(tf.transpose(tensor, moved), table, 1)
    return tf.transpose(made, [moved.index(i) for i in range(rank)])
