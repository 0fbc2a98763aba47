"""Windows that slide over images and volumes: where they lie, what a convolution of them is, and
its NumPy oracles.

Invariants
  1. data_format names the dimensions: "NHWC", "NCHW", "NDHWC", "NCDHW"; oracles compute with the
     channels last.  Filters are [spatial..., in, out], depthwise [spatial..., in, multiplier].
  2. SAME pads so that out = ceil(in / stride), the odd pixel after; VALID pads nothing; EXPLICIT as
     given, in pairs.
  3. A convolution and its two backprop ops are each other's gradients.

Example:  `margins(5, window=3, stride=2, dilation=1, padding="SAME")` -> (3, 1, 1).
"""
import itertools

import numpy as np

from pyflow.framework.op import S, lit
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import dims_of, shape_vector, static_shape, text


# ---------------------------------------------------------------------------------------- geometry
def spatial_axes(data_format):
    """Indices of the spatial dimensions, and of the channels, in a shape."""
    order = text(data_format)
    n = len(order) - 2
    return (tuple(range(2, n + 2)), 1) if order[1] == "C" else (tuple(range(1, n + 1)), n + 1)


def channels_last(x, data_format):
    return np.moveaxis(x, 1, -1) if text(data_format)[1] == "C" else x


def channels_restored(x, data_format):
    return np.moveaxis(x, -1, 1) if text(data_format)[1] == "C" else x


def margins(size, window, stride, dilation, padding, explicit=(0, 0), empty=False):
    """(out, before, after) of one dimension; of an unknown `size`, or an unknown `window` padded
    SAME, None what depends on it.  empty: a window one stride too large gives 0."""
    reach = None if window is None else (window - 1) * dilation + 1
    if padding == "SAME":
        if size is None:
            return None, None, None
        out = -(-size // stride)
        if window is None:
            return out, None, None
        total = max((out - 1) * stride + reach - size, 0)
        return out, total // 2, total - total // 2
    before, after = explicit if padding == "EXPLICIT" else (0, 0)
    if size is None:
        return None, before, after
    room = size + before + after - reach + stride
    if room < (0 if empty else stride):
        raise ValueError(f"a window of {reach} does not fit into {size} with padding {padding}: "
                         "negative output size")
    return room // stride, before, after


def explicit_pairs(flat, rank):
    """(before, after) of each dimension; zeros where none are given."""
    return [tuple(flat[2 * i:2 * i + 2]) for i in range(rank)] if flat else [(0, 0)] * rank


# ------------------------------------------------------------------------------------------- shapes
def _entries(op, name, rank):
    """An attribute with one number per dimension: strides or dilations."""
    values, channel = op.attr(name), spatial_axes(op.attr("data_format"))[1]
    if len(values) != rank:
        raise ValueError(f"{op.type}: {name} must have {rank} entries, one per dimension, got "
                         f"{values}")
    if values[0] != 1 or values[channel] != 1:
        raise ValueError(f"{op.type}: {name} over the batch and channel dimensions must be 1, got "
                         f"{values}")
    if any(v < 1 for v in values):
        raise ValueError(f"{op.type}: {name} must be positive, got {values}")
    return values


def _dims(op, which, what, rank):
    shape = op.inputs[which].shape
    if shape.ndims not in (None, rank):
        raise ValueError(f"{op.type}: {what} must have rank {rank}, got shape {shape}")
    return dims_of(shape) or [None] * rank


def convolved_shape(op, depthwise=False):
    """Of a convolution of inputs[0] with the filters inputs[1]."""
    axes, c = spatial_axes(op.attr("data_format"))
    rank = len(axes) + 2
    image, kernel = _dims(op, 0, "input", rank), _dims(op, 1, "filter", rank)
    strides, dilations = _entries(op, "strides", rank), _entries(op, "dilations", rank)
    *window, taken, made = kernel
    if None not in (image[c], taken):
        wrong = image[c] != taken if depthwise else not taken or image[c] % taken
        groups = 0 if wrong or depthwise else image[c] // taken
        if groups > 1 and made is not None and made % groups:
            raise ValueError(
                f"{op.type}: the input has {image[c]} channels, the filter takes {taken}: {made} "
                f"filters cannot be shared by {groups} groups of channels (shapes "
                f"{op.inputs[0].shape} and {op.inputs[1].shape}). A filter for all channels is "
                f"[..., {image[c]}, {made}]")
        if wrong:
            raise ValueError(f"{op.type}: the input has {image[c]} channels (shape "
                             f"{op.inputs[0].shape}), the filter {op.inputs[1].shape} expects "
                             f"{taken}")
    padding = text(op.attr("padding"))
    flat = op.attr("explicit_paddings") if padding == "EXPLICIT" else ()
    if padding == "EXPLICIT" and len(flat) != 2 * rank:
        raise ValueError(f"{op.type}: padding EXPLICIT needs {2 * rank} explicit_paddings")
    pairs, result = explicit_pairs(flat, rank), [image[0]] + [None] * (rank - 1)
    for axis, k in zip(axes, window):
        if k is not None or padding == "SAME":
            result[axis] = margins(image[axis], k, strides[axis], dilations[axis], padding,
                                   pairs[axis])[0]
    if depthwise:
        taken = image[c] if taken is None else taken
        made = None if None in (taken, made) else taken * made
    result[c] = made
    return TensorShape(result)


def backprop_shape(op, which):
    """Of a convolution's gradient op: inputs[which] gives it."""
    rank = len(text(op.attr("data_format")))
    shape = static_shape(op.inputs[which])
    if shape.ndims not in (None, rank):
        raise ValueError(f"{op.type}: {'filter_sizes' if which else 'input_sizes'} must have "
                         f"{rank} entries")
    _entries(op, "strides", rank)
    _entries(op, "dilations", rank)
    return shape if shape.ndims else TensorShape([None] * rank)


def transposed_shape(op):
    """Of Conv2DBackpropInput: input_sizes say it, the batch is that of the incoming gradient."""
    shape = backprop_shape(op, 0)
    made = _dims(op, 1, "filter", shape.ndims)[-1]
    gradient = _dims(op, 2, "out_backprop", shape.ndims)
    batch, channels = gradient[0], gradient[spatial_axes(op.attr("data_format"))[1]]
    if None not in (made, channels) and made != channels:
        raise ValueError(f"{op.type}: out_backprop has {channels} channels (shape "
                         f"{op.inputs[2].shape}), the filter {op.inputs[1].shape} makes {made}")
    return shape.merge_with([batch] + [None] * (shape.ndims - 1))


# ---------------------------------------------------------------------------------------- gradients
class Convolution:
    """The gradients of a convolution and its two backprop ops.

    names: the attributes that all three have.  ops() -> (the convolution, the op back to its input,
    the op back to its filter).
    """

    def __init__(self, names, ops):
        self.names, self.ops = names, ops

    def _settings(self, op):
        return {name: op.attr(name) for name in self.names}

    def gradient(self, op, dy):
        """Of the convolution."""
        (x, w), attrs = op.inputs, self._settings(op)
        _, to_input, to_filter = self.ops()
        return [to_input(shape_vector(x), w, dy, **attrs),
                to_filter(x, shape_vector(w), dy, **attrs)]

    def gradient_of_input(self, op, dz):
        """Of the op back to the input."""
        (_, w, dy), attrs = op.inputs, self._settings(op)
        convolution, _, to_filter = self.ops()
        return [None, to_filter(dz, shape_vector(w), dy, **attrs), convolution(dz, w, **attrs)]

    def gradient_of_filter(self, op, dz):
        """Of the op back to the filter."""
        (x, _, dy), attrs = op.inputs, self._settings(op)
        convolution, to_input, _ = self.ops()
        return [to_input(shape_vector(x), dz, dy, **attrs), None, convolution(x, dz, **attrs)]


# ------------------------------------------------------------------------------------------ oracles
class _Windows:
    """The windows of one spatial size."""

    def __init__(self, size, kernel, data_format, strides, padding, dilations,
                 explicit_paddings=()):
        axes = spatial_axes(data_format)[0]
        pairs = explicit_pairs(explicit_paddings, len(axes) + 2)
        self.size, self.kernel = size, kernel
        self.stride, self.step = [strides[a] for a in axes], [dilations[a] for a in axes]
        found = [margins(n, k, s, d, text(padding), pairs[a])
                 for n, k, s, d, a in zip(size, kernel, self.stride, self.step, axes)]
        self.out, self.pad = [f[0] for f in found], [(f[1], f[2]) for f in found]

    def padded(self, x):
        return np.pad(x, [(0, 0), *self.pad, (0, 0)])

    def taps(self):
        """(position in the filter, index into what is padded)."""
        for at in itertools.product(*map(range, self.kernel)):
            yield at, (slice(None), *(
                slice(k * d, k * d + (n - 1) * s + 1, s) if n else slice(0, 0)
                for k, d, n, s in zip(at, self.step, self.out, self.stride)))

    def cropped(self, x):
        return x[(slice(None), *(slice(p[0], p[0] + n) for p, n in zip(self.pad, self.size)))]


def convolved(x, w, data_format, multiply=np.matmul, channels=None, **geometry):
    """multiply(pixels, w[tap]), summed over the taps; geometry: a convolution's attributes."""
    x = channels_last(x, data_format)
    windows = _Windows(x.shape[1:-1], w.shape[:-2], data_format, **geometry)
    padded = windows.padded(x)
    y = np.zeros((len(x), *windows.out, channels or w.shape[-1]), x.dtype)
    for at, pixels in windows.taps():
        y += multiply(padded[pixels], w[at])
    return channels_restored(y, data_format)


def _times_transposed(dy, w):
    return dy @ w.T


def convolved_to_input(sizes, w, dy, data_format, multiply=_times_transposed, **geometry):
    """The gradient by an input of these sizes."""
    axes, c = spatial_axes(data_format)
    size = [int(sizes[a]) for a in axes]
    windows = _Windows(size, w.shape[:-2], data_format, **geometry)
    dy = channels_last(dy, data_format)
    dx = windows.padded(np.zeros((int(sizes[0]), *size, int(sizes[c])), dy.dtype))
    for at, pixels in windows.taps():
        dx[pixels] += multiply(dy, w[at])
    return channels_restored(windows.cropped(dx), data_format)


def _summed_products(x, dy):
    return np.einsum("pc,po->co", x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1]))


def convolved_to_filter(x, sizes, dy, data_format, multiply=_summed_products, **geometry):
    """The gradient by a filter of these sizes."""
    sizes = [int(s) for s in sizes]
    x, dy = channels_last(x, data_format), channels_last(dy, data_format)
    windows = _Windows(x.shape[1:-1], sizes[:-2], data_format, **geometry)
    padded = windows.padded(x)
    dw = np.zeros(sizes, dy.dtype)
    for at, pixels in windows.taps():
        dw[at] = multiply(padded[pixels], dy)
    return dw


# ------------------------------------------------------------------------------------------ samples
def convolution_samples(part, geometries, types, depthwise=False):
    """Of the convolution ("y") or the op back to its input ("x") or filter ("w").

    geometries: [(input's shape, filter's shape, attributes)]."""
    made = []
    for image, kernel, attrs in geometries:
        rank = len(image)
        axes, c = spatial_axes(attrs.get("data_format", "NDHWC" if rank == 5 else "NHWC"))
        rates = attrs.get("dilations", [1] * rank)
        pairs = explicit_pairs(attrs.get("explicit_paddings"), rank)
        result = list(image)
        result[c] = kernel[-1] * (kernel[-2] if depthwise else 1)
        for axis, k in zip(axes, kernel):
            result[axis] = margins(image[axis], k, attrs["strides"][axis], rates[axis],
                                   attrs["padding"], pairs[axis])[0]
        inputs = {"y": (image, kernel), "x": (lit(list(image)), kernel, tuple(result)),
                  "w": (image, lit(list(kernel)), tuple(result))}[part]
        made.append(S(*inputs, types=types, **attrs))
    return made
