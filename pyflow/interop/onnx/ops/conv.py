"""Convolutions, run channels-last whatever the model's layout; constant weights are turned round
while importing.

Sequences [N, C, W] are images of height 1; volumes are sums over depth of images."""

import numpy as np

import pyflow as tf
from pyflow.framework.op import get_op
from pyflow.interop.onnx.ops.common import (Value, bias_add, call, channels_last, ints,
                                            size_of, sizes)
from pyflow.interop.onnx.ops.windows import geometry, padded, same_pads
from pyflow.interop.onnx.registry import converter


_MAX_DEPTH = 1024           # of kernels over volumes


@converter("Conv")
def conv(node):
    made = convolution(node, node.value(0), node.value(1))
    if node.has(2):
        bias = node.value(2)
        bias = tf.constant(bias.array) if bias.is_array else bias.plain
        made = Value(bias_add(made.tensor, bias) if made.dtype.is_floating
                     else made.tensor + bias, made.order)
    return made


def convolution(node, x, w, wide=None):
    """The Value of a convolution without bias.  wide: a type to compute in."""
    for value, what in ((x, "input"), (w, "weights")):
        if value.rank is None:
            raise node.needs(value.tensor, f"the rank of the {what}")
    rank = x.rank
    if rank not in (3, 4, 5) or w.rank != rank:
        raise node.error(f"expected input and weights of one rank from 3 to 5, got shapes "
                         f"{x.shape} and {w.shape}")
    if None in w.shape:
        raise node.needs(w.tensor, "the weights' shape")
    group = node.attr("group", 1)
    channels, inner, outer = x.shape[1], w.shape[1], w.shape[0]
    if group < 1 or outer % group or channels is not None and channels != inner * group:
        raise node.error(f"input {x.shape} has {channels} channels; weights {w.shape} in "
                         f"{group} groups need {inner * group}")
    kernel = node.attr("kernel_shape", None) or list(w.shape[2:])
    if list(kernel) != list(w.shape[2:]):
        raise node.error(f"kernel_shape {kernel} is not that of the weights {w.shape}")
    geo = geometry(node, x.shape[2:], kernel)
    tensor = x.last if wide is None else tf.cast(x.last, wide)
    if rank == 3:
        made = tf.squeeze(_image(tf.expand_dims(tensor, 1), w, geo, group, wide, 1), [1])
    elif rank == 4:
        made = _image(tensor, w, geo, group, wide)
    else:
        made = _volume(tensor, w, geo, group, wide)
    return Value(made, channels_last(rank))


def _filters(w, group, wide, depth=None):
    """(weights [H, W, in, out] or depthwise [H, W, in, multiplier], whether depthwise)."""
    outer, inner = w.shape[:2]
    depthwise = group > 1 and inner == 1

    def turned(a, reshape, transpose):
        if depth is not None:
            a = a[:, :, depth]
        if len(w.shape) == 3:
            a = reshape(a, (outer, inner, 1, w.shape[2]))
        if depthwise:
            a = reshape(a, (group, outer // group, *[int(d) for d in a.shape[2:]]))
            return transpose(a, (2, 3, 0, 1))
        return transpose(a, (2, 3, 1, 0))
    if w.is_array:
        made = w.form(("filters", group, depth),
                      lambda array: turned(array, np.reshape, np.transpose))
    else:
        made = turned(w.plain, tf.reshape, tf.transpose)
    return (made if wide is None else tf.cast(made, wide)), depthwise


def _image(x, w, geo, group, wide, extra=0, depth=None):
    """x [N, H, W, C]; extra: axes of size 1 put before the spatial ones."""
    filters, depthwise = _filters(w, group, wide, depth)
    strides = [1] * extra + geo.strides[-2:]
    dilations = [1] * extra + geo.dilations[-2:]
    pads = [(0, 0)] * extra + geo.pads[-2:]
    if extra and len(geo.strides) > 1:
        strides, dilations, pads = geo.strides, geo.dilations, geo.pads
    if not geo.fixed or any(min(p) < 0 for p in pads):
        x, pads = padded(x, pads), [(0, 0)] * 2
    settings = {"strides": [1, *strides, 1], "dilations": [1, *dilations, 1], "padding": "VALID"}
    # the pads of SAME do not depend on a size if the stride is 1
    spatial = [1 if size is None and stride == 1 else size for size, stride in zip(
        x.shape.as_tuple()[1:3], strides)]
    if depthwise and any(b or a for b, a in pads) and None not in spatial and [
            same_pads(size, (k - 1) * d + 1, stride) for size, k, d, stride in zip(
                spatial, filters.shape.as_list(), dilations, strides)] == list(pads):
        settings["padding"] = "SAME"
    elif any(b or a for b, a in pads):
        settings["padding"] = "EXPLICIT"
        settings["explicit_paddings"] = [0, 0, *pads[0], *pads[1], 0, 0]
    if depthwise and strides[0] == strides[1] and settings["padding"] != "EXPLICIT":
        return call("DepthwiseConv2dNative", x, filters, **settings)
    if depthwise:           # in groups: runs as the other does, and fuses with what follows
        h, width, inner, multiplier = filters.shape.as_list()
        filters = tf.reshape(filters, [h, width, 1, inner * multiplier])
    return call("Conv2D", x, filters, **settings)


def _volume(x, w, geo, group, wide):
    """x [N, D, H, W, C]: for each depth of the kernel, an image convolution of all planes."""
    if geo.kernel[0] > _MAX_DEPTH:
        raise ValueError(f"kernels of depth {geo.kernel[0]}; at most {_MAX_DEPTH}")
    x = padded(x, [geo.pads[0], (0, 0), (0, 0)])
    total = None
    for k in range(geo.kernel[0]):
        planes = x[:, geo.piece(0, k)]
        part = _image(_joined(planes), w, geo, group, wide, depth=k)
        total = part if total is None else total + part
    return _parted(total, sizes(planes)[:2], planes.shape.as_list()[:2])


def _joined(x):
    """[N, D, H, W, C] -> [N * D, H, W, C]."""
    rest = x.shape.as_list()[2:]
    if None not in rest:
        return tf.reshape(x, [-1, *rest])
    made = tf.reshape(x, tf.concat([ints([-1]), sizes(x)[2:]], 0))
    made.set_shape([None, *rest])
    return made


def _parted(x, lead, known):
    """The opposite; lead: N and D, known: the same as far as they are known."""
    rest = x.shape.as_list()[1:]
    made = tf.reshape(x, tf.concat([lead, sizes(x)[1:]], 0))
    made.set_shape([*known, *rest])
    return made


# transposed convolutions
@converter("ConvTranspose")
def conv_transpose(node, given=None):
    """All that the kernels reach is computed, then cut to the asked pads or padded to the size.

    given: pads in place of the attribute's."""
    x, w = node.value(0), node.value(1)
    rank, group = node.expect_rank(0, 3, 4, 5), node.attr("group", 1)
    n = rank - 2
    node.static_shape(1)
    if w.rank != rank or group < 1 or w.shape[0] % group:
        raise node.error(f"weights of shape {w.shape} do not fit input {x.shape} in {group} groups")
    strides = node.attr("strides", None) or [1] * n
    dilations = node.attr("dilations", None) or [1] * n
    # (s - 1) * stride + reach is all that the kernels reach of an axis of size s
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations)]
    cut = _transposed_cut(node, x.shape[2:], reach, strides, given)
    full = [(_size_or_tensor(x, axis + 2) - 1) * stride + far for axis, (stride, far) in
            enumerate(zip(strides, reach))]
    made = _groups_transposed(node, x, w, strides, dilations, full, group)
    made = padded(made, cut)
    if node.has(2):
        made = bias_add(made, node.x(2))
    return Value(made, channels_last(rank))


def _size_or_tensor(value, axis):
    size = value.shape[axis]
    return size_of(value, axis) if size is None else size


def _transposed_cut(node, spatial, reach, strides, given=None):
    """[(before, after)] to pad what the kernels reach with; negative numbers cut."""
    n = len(reach)
    extra = node.attr("output_padding", None) or [0] * n
    asked = node.attr("output_shape", None)
    auto = node.attr("auto_pad", "NOTSET")
    upper = auto == "SAME_UPPER"
    if asked is not None:
        if None in spatial:
            raise node.needs(node.value(0).tensor, "the spatial sizes for output_shape")
        full = [(s - 1) * stride + far for s, stride, far in zip(spatial, strides, reach)]
        more = [size - whole for size, whole in zip(asked[-n:], full)]
        totals = [max(e - m, 0) for e, m in zip(extra, more)]
        return [(-t, m + t) for t, m in zip(_halves(totals, upper), more)]
    if auto in ("SAME_UPPER", "SAME_LOWER"):    # size * stride, or less where kernels end before
        totals = [max(far - stride + e, 0) for far, stride, e in zip(reach, strides, extra)]
        return [(-t, e - total + t) for t, total, e in zip(_halves(totals, upper), totals, extra)]
    pads = given or node.attr("pads", None) or [0] * 2 * n
    if auto == "VALID":
        pads = [0] * 2 * n
    if len(pads) != 2 * n:
        raise node.error(f"expected {2 * n} pads, got {pads}")
    return [(-pads[i], extra[i] - pads[i + n]) for i in range(n)]


def _halves(totals, upper):
    """What of each total lies before: the smaller half if `upper`."""
    return [t // 2 if upper else t - t // 2 for t in totals]


def _groups_transposed(node, x, w, strides, dilations, full, group):
    tensor, weights = x.last, w.plain
    if group == 1:
        return _transposed(tensor, weights, strides, dilations, full)
    parts = zip(tf.split(tensor, group, axis=-1), tf.split(weights, group, axis=0))
    return tf.concat([_transposed(t, f, strides, dilations, full) for t, f in parts], -1)


def _transposed(x, w, strides, dilations, full):
    """x [N, ..., C], w [C, M, ...] -> [N, *full, M]; full: numbers, or scalars of the graph."""
    n = len(full)
    batch = sizes(x)[:1]
    if n == 1:
        made = _transposed(tf.expand_dims(x, 1), tf.expand_dims(w, 2), [1, *strides],
                           [1, *dilations], [1, *full])
        return tf.squeeze(made, [1])
    outputs = int(w.shape[1])
    if n == 2:
        made = _backprop(_shape(batch, *full, outputs), w, x, strides, dilations)
        made.set_shape([x.shape.as_list()[0], *[_known(f) for f in full], outputs])
        return made
    known, lead = x.shape.as_list()[:2], sizes(x)[:2]
    images, total = _joined(x), None
    deep = _size_or_tensor(Value(x), 1) * strides[0]
    for k in range(int(w.shape[2])):
        part = _transposed(images, w[:, :, k], strides[1:], dilations[1:], full[1:])
        part = tf.expand_dims(_parted(part, lead, known), 2)
        part = tf.pad(part, [[0, 0], [0, 0], [0, strides[0] - 1]] + [[0, 0]] * 3)
        part = tf.reshape(part, _shape(batch, deep, *full[1:], outputs))
        part.set_shape([known[0], _known(deep), *[_known(f) for f in full[1:]], outputs])
        # reach - stride more planes than depth * stride are reached, a number
        front = k * dilations[0]
        far = (int(w.shape[2]) - 1) * dilations[0] + 1
        part = padded(part, [(front, far - strides[0] - front), (0, 0), (0, 0)])
        total = part if total is None else total + part
    return total


def _known(size):
    return size if isinstance(size, int) else None


def _shape(batch, *rest):
    """A shape tensor of the batch's size (a vector) and numbers or scalars of the graph."""
    return tf.concat([batch, tf.stack([ints([n])[0] if isinstance(n, int) else n for n in rest])],
                     0)


def _backprop(size, w, x, strides, dilations):
    return get_op("Conv2DBackpropInput")(
        tf.cast(size, tf.int32), tf.transpose(w, [2, 3, 1, 0]), x, strides=[1, *strides, 1],
        dilations=[1, *dilations, 1], padding="VALID")


@converter("ConvInteger")
def conv_integer(node):
    """Products of 8-bit numbers less their zero points, exact in what they are summed in."""
    w = whole_weights(node, 1, 3)
    value = node.value(0)
    x = tf.cast(value.tensor, w.dtype)
    if node.has(2):
        x = x - tf.cast(tf.reshape(node.x(2), []), w.dtype)
    made = convolution(node, Value(x, value.order), w)
    return Value(tf.cast(made.tensor, tf.int32), made.order)


def whole_weights(node, i, zero):
    """Filters of 8 bits of input i less their zero points, a Value: of float32 where the sums of
    their products with 8-bit numbers are exact in it, else of float64.  3x3 filters may be run by
    fewer products (Winograd), which are not exact: float64, too."""
    value, point = node.value(i), node.value(zero) if node.has(zero) else None
    if value.is_array and (point is None or point.is_array):
        made = value.array.astype(np.int64)
        if point is not None:
            less = point.array.astype(np.int64)
            made = made - (less.reshape([-1] + [1] * (made.ndim - 1)) if less.size > 1
                           else less.reshape([]))
        most = abs(made).reshape(len(made), -1).sum(1).max(initial=0) * 255
        exact = most < 1 << 24 and made.shape[2:] != (3, 3)
        return Value(array=made.astype(np.float32 if exact else np.float64))
    x = tf.cast(value.plain, tf.float64)
    if point is not None:
        less = tf.cast(point.plain, tf.float64)
        x = x - (tf.reshape(less, [-1] + [1] * (node.rank(i) - 1))
                 if less.shape.as_tuple() not in ((), (1,)) else tf.reshape(less, []))
    return Value(x)
