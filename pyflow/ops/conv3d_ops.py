"""Convolution of volumes and the ops of its gradients.

Invariants
  1. Volumes are [batch, depth, height, width, channels] (NDHWC) or [batch, channels, depth, height,
     width] (NCDHW); filters [depth, height, width, in, out].
  2. Padding as in conv_ops, in three dimensions; SAME and VALID.
  3. A convolution and its two backprop ops are each other's gradients.

Example:  `tf.nn.conv3d(volumes, kernel, strides=[1, 1, 1, 1, 1], padding="SAME")`.
"""
import itertools

import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.dtypes import FLOATS
from pyflow.framework.op import S, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.common import dims_of, shape_vector, static_shape, text
from pyflow.ops.conv_ops import margins

GEOMETRY = ('T: type, strides: list(int) >= 5, padding: {"SAME", "VALID"}, '
            'data_format: {"NDHWC", "NCDHW"} = "NDHWC", dilations: list(int) = [1, 1, 1, 1, 1]')
NAMES = ("strides", "padding", "data_format", "dilations")


# ---------------------------------------------------------------------------------------- geometry
def _axes(data_format):
    """Indices of depth, height, width, and of the channels, in a volume's shape."""
    return ((2, 3, 4), 1) if text(data_format) == "NCDHW" else ((1, 2, 3), 4)


def _check_entries(op, name):
    values, channel = op.attr(name), _axes(op.attr("data_format"))[1]
    if len(values) != 5:
        raise ValueError(f"{op.type}: {name} must have 5 entries, one per dimension, got {values}")
    if values[0] != 1 or values[channel] != 1:
        raise ValueError(f"{op.type}: {name} over the batch and channel dimensions must be 1, got "
                         f"{values}")
    if any(v < 1 for v in values):
        raise ValueError(f"{op.type}: {name} must be positive, got {values}")
    return values


def _rank5(op, shape, what):
    if shape.ndims not in (None, 5):
        raise ValueError(f"{op.type}: {what} must have rank 5, got shape {shape}")
    return dims_of(shape) or [None] * 5


def _conv3d_shape(op):
    volume = _rank5(op, op.inputs[0].shape, "input")
    kernel = _rank5(op, op.inputs[1].shape, "filter")
    axes, c = _axes(op.attr("data_format"))
    strides, dilations = _check_entries(op, "strides"), _check_entries(op, "dilations")
    if None not in (volume[c], kernel[3]) and (not kernel[3] or volume[c] % kernel[3]):
        raise ValueError(f"{op.type}: the input has {volume[c]} channels (shape "
                         f"{op.inputs[0].shape}), the filter {op.inputs[1].shape} expects "
                         f"{kernel[3]}")
    result = [volume[0]] + [None] * 4
    for axis, k in zip(axes, kernel):
        if k is not None:
            result[axis] = margins(volume[axis], k, strides[axis], dilations[axis],
                                   text(op.attr("padding")))[0]
    result[c] = kernel[4]
    return TensorShape(result)


def _sizes_shape(op, which):
    shape = static_shape(op.inputs[which])
    if shape.ndims not in (None, 5):
        raise ValueError(f"{op.type}: {'filter_sizes' if which else 'input_sizes'} must have 5 "
                         "entries")
    _check_entries(op, "strides")
    _check_entries(op, "dilations")
    return shape if shape.ndims else TensorShape([None] * 5)


def _settings(op):
    return {name: op.attr(name) for name in NAMES}


# ------------------------------------------------------------------------------------------ oracles
class _Windows:
    """The windows of one volume size, for the NumPy oracles; all in NDHWC."""

    def __init__(self, size, kernel, strides, padding, data_format, dilations):
        axes = _axes(data_format)[0]
        self.size, self.kernel = size, kernel
        self.stride, self.step = [strides[a] for a in axes], [dilations[a] for a in axes]
        found = [margins(n, k, s, d, text(padding))
                 for n, k, s, d in zip(size, kernel, self.stride, self.step)]
        self.out, self.pad = [f[0] for f in found], [(f[1], f[2]) for f in found]

    def padded(self, x):
        return np.pad(x, [(0, 0), *self.pad, (0, 0)])

    def taps(self):
        """(position in the filter, index into the padded volume)."""
        for at in itertools.product(*map(range, self.kernel)):
            yield at, (slice(None), *(
                slice(k * d, k * d + (n - 1) * s + 1, s) if n else slice(0, 0)
                for k, d, n, s in zip(at, self.step, self.out, self.stride)))

    def cropped(self, x):
        return x[(slice(None), *(slice(p[0], p[0] + n) for p, n in zip(self.pad, self.size)))]


def _last(x, data_format):
    return np.moveaxis(x, 1, -1) if text(data_format) == "NCDHW" else x


def _restored(x, data_format):
    return np.moveaxis(x, -1, 1) if text(data_format) == "NCDHW" else x


# ------------------------------------------------------------------------------------------ samples
GEOMETRIES = [   # volume, filter, attributes
    ((2, 3, 4, 3, 2), (2, 3, 3, 2, 3), dict(strides=[1] * 5, padding="SAME")),
    ((1, 5, 4, 6, 2), (3, 2, 1, 2, 4), dict(strides=[1, 2, 1, 2, 1], padding="VALID")),
    ((2, 4, 3, 3, 3), (1, 1, 1, 3, 5), dict(strides=[1] * 5, padding="VALID")),
    ((1, 6, 5, 4, 1), (3, 3, 3, 1, 2), dict(strides=[1, 3, 2, 1, 1], padding="SAME")),
    ((1, 5, 5, 5, 2), (2, 2, 2, 2, 1), dict(strides=[1] * 5, padding="SAME",
                                            dilations=[1, 2, 2, 2, 1])),
    ((0, 3, 3, 3, 1), (2, 2, 2, 1, 1), dict(strides=[1] * 5, padding="SAME")),
]
PLANES = ((1, 2, 3, 4, 3), (2, 2, 2, 2, 3), dict(strides=[1] * 5, padding="SAME",
                                                 data_format="NCDHW"))


def _samples(part):
    made = []
    for volume, kernel, attrs in (*GEOMETRIES, PLANES):
        axes, c = _axes(attrs.get("data_format", "NDHWC"))
        rates = attrs.get("dilations", [1] * 5)
        result = list(volume)
        result[c] = kernel[4]
        for axis, k in zip(axes, kernel):
            result[axis] = margins(volume[axis], k, attrs["strides"][axis], rates[axis],
                                   attrs["padding"])[0]
        inputs = {"y": (volume, kernel), "x": (lit(list(volume)), kernel, tuple(result)),
                  "w": (volume, lit(list(kernel)), tuple(result))}[part]
        made.append(S(*inputs, types=(dtypes.float32, dtypes.float64, dtypes.bfloat16), **attrs))
    return made


# ---------------------------------------------------------------------------------------------- ops
@op("Conv3D", inputs="input: T, filter: T", outputs="output: T", attrs=GEOMETRY, T=FLOATS)
class Conv3D:
    """Convolution of volumes with a bank of filters. TF: Conv3D."""
    def shape(op): return _conv3d_shape(op)

    def gradient(op, dy):
        x, w = op.inputs
        attrs = _settings(op)
        return [Conv3DBackpropInputV2(shape_vector(x), w, dy, **attrs),
                Conv3DBackpropFilterV2(x, shape_vector(w), dy, **attrs)]

    def reference(input, filter, strides, padding, data_format, dilations):
        x = _last(input, data_format)
        windows = _Windows(x.shape[1:4], filter.shape[:3], strides, padding, data_format, dilations)
        padded = windows.padded(x)
        y = np.zeros((len(x), *windows.out, filter.shape[4]), x.dtype)
        for at, pixels in windows.taps():
            y += padded[pixels] @ filter[at]
        return _restored(y, data_format)
    samples = _samples("y")


@op("Conv3DBackpropInputV2", inputs="input_sizes: Tshape, filter: T, out_backprop: T",
    outputs="output: T", attrs=GEOMETRY + ", Tshape: {int32, int64} = int32", T=FLOATS)
class Conv3DBackpropInputV2:
    """Gradient of Conv3D with respect to its input; a transposed convolution.
    TF: Conv3DBackpropInputV2."""
    def shape(op): return _sizes_shape(op, 0)

    def gradient(op, dz):
        w, dy = op.inputs[1], op.inputs[2]
        attrs = _settings(op)
        return [None, Conv3DBackpropFilterV2(dz, shape_vector(w), dy, **attrs),
                Conv3D(dz, w, **attrs)]

    def reference(input_sizes, filter, out_backprop, strides, padding, data_format, dilations):
        sizes = [int(s) for s in input_sizes]
        axes, c = _axes(data_format)
        size = [sizes[a] for a in axes]
        windows = _Windows(size, filter.shape[:3], strides, padding, data_format, dilations)
        dy = _last(out_backprop, data_format)
        dx = windows.padded(np.zeros((sizes[0], *size, sizes[c]), dy.dtype))
        for at, pixels in windows.taps():
            dx[pixels] += dy @ filter[at].T
        return _restored(windows.cropped(dx), data_format)
    samples = _samples("x")


@op("Conv3DBackpropFilterV2", inputs="input: T, filter_sizes: int32, out_backprop: T",
    outputs="output: T", attrs=GEOMETRY, T=FLOATS)
class Conv3DBackpropFilterV2:
    """Gradient of Conv3D with respect to its filter. TF: Conv3DBackpropFilterV2."""
    def shape(op): return _sizes_shape(op, 1)

    def gradient(op, dz):
        x, dy = op.inputs[0], op.inputs[2]
        attrs = _settings(op)
        return [Conv3DBackpropInputV2(shape_vector(x), dz, dy, **attrs), None,
                Conv3D(x, dz, **attrs)]

    def reference(input, filter_sizes, out_backprop, strides, padding, data_format, dilations):
        sizes = [int(s) for s in filter_sizes]
        x, dy = _last(input, data_format), _last(out_backprop, data_format)
        windows = _Windows(x.shape[1:4], sizes[:3], strides, padding, data_format, dilations)
        padded = windows.padded(x)
        dw = np.zeros(sizes, dy.dtype)
        for at, pixels in windows.taps():
            dw[at] = np.einsum("bzijc,bzijo->co", padded[pixels], dy)
        return dw
    samples = _samples("w")


# --------------------------------------------------------------------------------- public functions
def five_entries(values, data_format, what):
    """A size per spatial dimension, or one for all, as five; `values` of five as they are."""
    values = [1] if values is None else values
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    if len(values) == 1:
        values = values * 3
    if len(values) == 3:
        values = [1, 1, *values] if data_format == "NCDHW" else [1, *values, 1]
    if len(values) != 5:
        raise ValueError(f"{what} must have 1, 3 or 5 entries, got {values}")
    return [int(v) for v in values]


def conv3d(input, filter=None, strides=None, padding=None, data_format="NDHWC",
           dilations=(1, 1, 1, 1, 1), name=None, filters=None):
    """Convolution of volumes with filters [depth, height, width, in, out]. TF: nn.conv3d.

    input: [batch, depth, height, width, in], or channels second for NCDHW; float16, bfloat16,
    float32 or float64. strides, dilations: five ints. Raises ValueError for other ranks.
    """
    from pyflow.ops.reduction_ops import one_of
    return Conv3D(input, one_of(filter, filters, "filter", "filters"), strides=list(strides),
                  padding=padding, data_format=data_format, dilations=list(dilations), name=name)


def conv3d_backprop_filter(input, filter_sizes, out_backprop, strides, padding,
                           data_format="NDHWC", dilations=(1, 1, 1, 1, 1), name=None):
    """Gradient of a convolution of volumes with respect to its filter.
    TF: nn.conv3d_backprop_filter_v2.
    Dtypes, shapes, errors: as op Conv3DBackpropFilterV2."""
    return Conv3DBackpropFilterV2(input, filter_sizes, out_backprop, strides=list(strides),
                                  padding=padding, data_format=data_format,
                                  dilations=list(dilations), name=name)


def conv3d_transpose(value, filter=None, output_shape=None, strides=None, padding="SAME",
                     data_format="NDHWC", name=None, input=None, filters=None, dilations=None):
    """Gradient of a convolution of volumes as an op of its own. TF: nn.conv3d_transpose.

    filter: [depth, height, width, out, in]; output_shape: the result's, ints or a tensor.
    Dtypes, errors: as op Conv3DBackpropInputV2.
    """
    from pyflow.ops.reduction_ops import one_of
    value, filter = one_of(value, input, "value", "input"), one_of(filter, filters, "filter",
                                                                   "filters")
    with graph.name_scope(name, "conv3d_transpose", [value, filter, output_shape]) as scope:
        return Conv3DBackpropInputV2(output_shape, filter, value,
                                     strides=five_entries(strides, data_format, "strides"),
                                     padding=padding, data_format=data_format,
                                     dilations=five_entries(dilations, data_format, "dilations"),
                                     name=scope)


PUBLIC = {
    "nn.conv3d": conv3d, "nn.conv3d_transpose": conv3d_transpose,
    "nn.conv3d_backprop_filter": conv3d_backprop_filter,
    "nn.conv3d_backprop_filter_v2": conv3d_backprop_filter,
}
