"""Pooling over volumes, [batch, depth, height, width, channels], with first and second gradients.

Invariants
  1. ksize and strides have five entries in the order of `data_format`; those of batch and channels
     are 1.
  2. SAME pads with minus infinity for max and leaves padding out of the average's count.
  3. A maximum is its first place in its window, row-major; gradients go there.

Example:  `tf.nn.max_pool3d(x, ksize=2, strides=2, padding="SAME")`.
"""
import itertools

import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import FLOATS
from pyflow.framework.op import S, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, given_by, shape_vector, text
from pyflow.ops.base.shape_rules import by_pattern, match
from pyflow.ops.base.windows import channels_last, channels_restored, margins, spatial_axes

WINDOW = ('ksize: list(int) >= 5, strides: list(int) >= 5, padding: {"SAME", "VALID"}, '
          'data_format: {"NDHWC", "NCDHW"} = "NDHWC", ')
NAMES = ("ksize", "strides", "padding", "data_format")
REALS = ("{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
         "uint64}")


def window_attrs(op, names=NAMES):
    """The attributes `names` of an op, to be given to another."""
    return {name: op.attr(name) for name in names}


def pooled_shape(op, shape, rank):
    """The shape that pooling gives; ValueError for other ranks or numbers that make no sense."""
    if shape.ndims not in (None, rank):
        raise ValueError(f"{op.type}: expected a tensor of rank {rank}, got shape {shape}")
    dims = dims_of(shape) or [None] * rank
    axes, channels = spatial_axes(op.attr("data_format"))
    ksize, strides = op.attr("ksize"), op.attr("strides")
    for name, values in (("ksize", ksize), ("strides", strides)):
        if len(values) != rank or any(v < 1 for v in values):
            raise ValueError(f"{op.type}: {name} must be {rank} positive numbers, got {values}")
        if values[0] != 1 or values[channels] != 1:
            raise ValueError(f"{op.type}: pooling over batch or channels is not supported, got "
                             f"{name} {values}")
    for axis in axes:
        dims[axis] = margins(dims[axis], ksize[axis], strides[axis], 1,
                             text(op.attr("padding")))[0]
    return TensorShape(dims)


def volume_shape(op):
    return pooled_shape(op, op.inputs[0].shape, 5)


# ------------------------------------------------------------------------------------------ oracles
class Windows:
    """Windows over the spatial dimensions of a batch in channels-last order, for NumPy oracles."""

    def __init__(self, shape, ksize, strides, padding, data_format):
        axes, _ = spatial_axes(data_format)
        self.shape, self.axes = shape, []
        for size, axis in zip(shape[1:-1], axes):
            out, before, _ = margins(size, ksize[axis], strides[axis], 1, text(padding))
            starts = [i * strides[axis] - before for i in range(out)]
            self.axes.append([range(max(s, 0), max(min(s + ksize[axis], size), 0))
                              for s in starts])
        self.out = (shape[0], *map(len, self.axes), shape[-1])

    def places(self):
        """(index of an output place, spatial positions of its window in row-major order)."""
        for at in itertools.product(*(range(len(a)) for a in self.axes)):
            yield at, list(itertools.product(*(a[i] for a, i in zip(self.axes, at))))


def pool_reference(x, function, ksize, strides, padding, data_format):
    """`function(window values, axis=0)` of every window."""
    x = channels_last(x, data_format)
    windows = Windows(x.shape, ksize, strides, padding, data_format)
    y = np.zeros(windows.out, x.dtype)
    for at, places in windows.places():
        y[(slice(None), *at)] = function(np.stack([x[(slice(None), *p)] for p in places]), axis=0)
    return channels_restored(y, data_format)


def _first_maxima(x, windows):
    """(output place, batch, channel, input place) of every maximum."""
    for at, places in windows.places():
        first = np.stack([x[(slice(None), *p)] for p in places]).argmax(0)
        for b, c in np.ndindex(*first.shape):
            yield (b, *at, c), (b, *places[first[b, c]], c)


def max_grad_reference(x, dy, ksize, strides, padding, data_format):
    """Gradients at the places of the maxima."""
    x, dy = channels_last(x, data_format), channels_last(dy, data_format)
    dx = np.zeros_like(x)
    for out, place in _first_maxima(x, Windows(x.shape, ksize, strides, padding, data_format)):
        dx[place] += dy[out]
    return channels_restored(dx, data_format)


def max_grad_grad_reference(x, dz, ksize, strides, padding, data_format):
    """What lies in `dz` at the places of the maxima of `x`."""
    x, dz = channels_last(x, data_format), channels_last(dz, data_format)
    windows = Windows(x.shape, ksize, strides, padding, data_format)
    y = np.zeros(windows.out, x.dtype)
    for out, place in _first_maxima(x, windows):
        y[out] = dz[place]
    return channels_restored(y, data_format)


def _avg_grad(sizes, dy, ksize, strides, padding, data_format):
    dy = channels_last(dy, data_format)
    axes, channels = spatial_axes(data_format)
    dx = np.zeros([int(sizes[a]) for a in (0, *axes, channels)], dy.dtype)
    windows = Windows(dx.shape, ksize, strides, padding, data_format)
    for at, places in windows.places():
        for place in places:
            dx[(slice(None), *place)] += dy[(slice(None), *at)] / len(places)
    return channels_restored(dx, data_format)


# ------------------------------------------------------------------------------------------ samples
def _five(*sizes):
    return [1, *sizes, 1]


POOLS = [((2, 4, 2, 6, 3), (2, 2, 1, 3, 3), dict(padding="VALID", ksize=_five(2, 2, 2),
                                                 strides=_five(2, 2, 2))),
         ((1, 3, 5, 4, 2), (1, 2, 3, 4, 2), dict(padding="SAME", ksize=_five(3, 2, 2),
                                                 strides=_five(2, 2, 1))),
         ((1, 2, 3, 3, 70), (1, 1, 2, 2, 70), dict(padding="VALID", ksize=_five(2, 2, 2),
                                                   strides=_five(1, 1, 1))),
         ((0, 2, 2, 2, 1), (0, 1, 1, 1, 1), dict(padding="SAME", ksize=_five(2, 2, 2),
                                                 strides=_five(2, 2, 2)))]
FIRST = ((2, 2, 3, 4, 2), (2, 2, 2, 2, 1), dict(padding="SAME", ksize=[1, 1, 2, 2, 2],
                                                strides=[1, 1, 2, 2, 2], data_format="NCDHW"))


def ascending(shape):
    """0, 1, 2, ... in no order that helps: the maximum of a window may be anywhere."""
    rng = np.random.default_rng(len(shape))
    return rng.permutation(int(np.prod(shape))).reshape(shape) % 2039   # exact in half precision


def with_maxima(x, attrs):
    """Input specs (orig_input, orig_output) of a gradient op."""
    full = {"data_format": "NDHWC" if len(x) == 5 else "NHWC", **attrs}

    def values():
        return ascending(x).astype(np.float64)
    return lit(values), lit(lambda: pool_reference(values(), np.max, **full))


# ---------------------------------------------------------------------------------------------- ops
@op("MaxPool3D", inputs="input: T", outputs="output: T",
    attrs=WINDOW + "T: {half, bfloat16, float}")
class MaxPool3D:
    """Largest of each window of volumes. TF: MaxPool3D."""
    shape = volume_shape

    def gradient(op, dy):
        return MaxPool3DGrad(op.inputs[0], op.outputs[0], dy, **window_attrs(op))

    def reference(input, ksize, strides, padding, data_format):
        return pool_reference(input, np.max, ksize, strides, padding, data_format)
    samples = [S(x, **attrs) for x, _, attrs in POOLS + [FIRST]]


@op("MaxPool3DGrad", inputs="orig_input: TInput, orig_output: TInput, grad: T", outputs="output: T",
    attrs=WINDOW + "T: {half, bfloat16, float} = float, TInput: {half, bfloat16, float} = float")
class MaxPool3DGrad:
    """Gradient of MaxPool3D. TF: MaxPool3DGrad."""
    shape = by_pattern("b d h w c", "p q r s t", "p q r s t", "->", "b d h w c")

    def gradient(op, dz):
        return places_stay(op) + [MaxPool3DGradGrad(op.inputs[0], op.inputs[1], dz,
                                                    **window_attrs(op))]

    def reference(orig_input, orig_output, grad, ksize, strides, padding, data_format):
        return max_grad_reference(orig_input, grad, ksize, strides, padding, data_format)
    samples = [S(*with_maxima(x, attrs), y, types=(dtypes.float32,), **attrs)
               for x, y, attrs in POOLS + [FIRST]]


@op("MaxPool3DGradGrad", inputs="orig_input: T, orig_output: T, grad: T", outputs="output: T",
    attrs=WINDOW + "T: " + REALS)
class MaxPool3DGradGrad:
    """Gradient of MaxPool3DGrad: `grad`, of orig_input's shape, at the maxima.
    TF: MaxPool3DGradGrad."""
    def shape(op):
        match(op, "b d h w c", None, "b d h w c")
        return volume_shape(op).merge_with(op.inputs[1].shape)

    def gradient(op, dy):
        return places_stay(op) + [MaxPool3DGrad(op.inputs[0], op.inputs[1], dy,
                                                **window_attrs(op))]

    def reference(orig_input, orig_output, grad, ksize, strides, padding, data_format):
        return max_grad_grad_reference(orig_input, grad, ksize, strides, padding, data_format)
    samples = [S(*with_maxima(x, attrs), x, types=(dtypes.float32, dtypes.float16), **attrs)
               for x, _, attrs in POOLS + [FIRST]]


@op("AvgPool3D", inputs="input: T", outputs="output: T", T=FLOATS, attrs=WINDOW)
class AvgPool3D:
    """Mean of each window of volumes, padding not counted. TF: AvgPool3D."""
    shape = volume_shape

    def gradient(op, dy):
        return AvgPool3DGrad(shape_vector(op.inputs[0]), dy, **window_attrs(op))

    def reference(input, ksize, strides, padding, data_format):
        return pool_reference(input, np.mean, ksize, strides, padding, data_format)
    samples = [S(x, **attrs) for x, _, attrs in POOLS + [FIRST]]


@op("AvgPool3DGrad", inputs="orig_input_shape: int32, grad: T", outputs="output: T", T=FLOATS,
    attrs=WINDOW)
class AvgPool3DGrad:
    """Gradient of AvgPool3D. TF: AvgPool3DGrad."""
    shape = given_by(5)

    def gradient(op, dz):
        return [None, AvgPool3D(dz, **window_attrs(op))]

    def reference(orig_input_shape, grad, ksize, strides, padding, data_format):
        return _avg_grad(orig_input_shape, grad, ksize, strides, padding, data_format)
    samples = [S(lit(list(x)), y, **attrs) for x, y, attrs in POOLS + [FIRST]]


def places_stay(op):
    """Gradients of the pooled input and its maxima: 0, for they only say which places count."""
    return [tensors.zeros_like(op.inputs[0]), tensors.zeros_like(op.inputs[1])]
