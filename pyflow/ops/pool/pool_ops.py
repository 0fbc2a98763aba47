"""Pooling over image windows, with the ops of the gradients.

Invariants
  1. ksize and strides have four entries in the order of `data_format`; those of batch and channels
     are 1.
  2. SAME pads with minus infinity for max and leaves padding out of the average's count.
  3. MaxPoolGrad sends each gradient to the first maximum of its window, row-major.

Example:  `tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import FLOATS, REAL
from pyflow.framework.op import S, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import dims_of, given_by, shape_vector, text
from pyflow.ops.base.shape_rules import by_pattern
from pyflow.ops.base.windows import channels_last, channels_restored, margins, spatial_axes
from pyflow.ops.pool.pool_grad_ops import second_gradient_of_max_pool

WINDOW = "ksize: list(int) >= 4, strides: list(int) >= 4, "
MAX_PADDING = 'padding: {"SAME", "VALID", "EXPLICIT"}, explicit_paddings: list(int) = [], '
MAX_FORMAT = 'data_format: {"NHWC", "NCHW"} = "NHWC"'
POOLED = "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16} = float, "
MAX_NAMES = ("ksize", "strides", "padding", "explicit_paddings", "data_format")
AVG_NAMES = ("ksize", "strides", "padding", "data_format")


def _nhwc_pool_shape(op):
    return _pool_shape(op, "NHWC")


def _pool_shape(op, data_format=None):
    shape = op.inputs[0].shape
    if shape.ndims not in (None, 4):
        raise ValueError(f"{op.type}: expected an image batch of rank 4, got shape {shape}")
    dims = dims_of(shape) or [None] * 4
    ksize, strides = op.attr("ksize"), op.attr("strides")
    (h, w), c = spatial_axes(data_format or op.attr("data_format"))
    for name, values in (("ksize", ksize), ("strides", strides)):
        if len(values) != 4 or any(v < 1 for v in values):
            raise ValueError(f"{op.type}: {name} must be 4 positive numbers, got {values}")
        if values[0] != 1 or values[c] != 1 and op.type != "MaxPool":
            raise ValueError(f"{op.type}: pooling over batch or channels is not supported, got "
                             f"{name} {values}")
    padding = text(op.attr("padding"))
    pairs = list(op.attr("explicit_paddings")) if padding == "EXPLICIT" else [0] * 8
    for axis in (h, w, c):              # over channels: MaxPool alone, and without padding there
        dims[axis] = margins(dims[axis], ksize[axis], strides[axis], 1, padding,
                             tuple(pairs[2 * axis:2 * axis + 2]))[0]
    return TensorShape(dims)


# ------------------------------------------------------------------------------------------ oracles
class _Pools:
    """Windows of a pooling op over one NHWC image batch, for the NumPy oracles."""

    def __init__(self, shape, ksize, strides, padding, explicit_paddings, data_format):
        (h, w), _ = spatial_axes(data_format)
        pairs = list(explicit_paddings) or [0] * 8
        self.shape = shape
        self.axes = []
        for size, a in zip(shape[1:3], (h, w)):
            out, before, _ = margins(size, ksize[a], strides[a], 1, text(padding),
                                     tuple(pairs[2 * a:2 * a + 2]))
            starts = [i * strides[a] - before for i in range(out)]
            self.axes.append([slice(max(s, 0), max(min(s + ksize[a], size), 0)) for s in starts])

    def windows(self):
        for i, rows in enumerate(self.axes[0]):
            for j, columns in enumerate(self.axes[1]):
                yield i, j, (slice(None), rows, columns)

    def output(self, dtype):
        return np.zeros((self.shape[0], len(self.axes[0]), len(self.axes[1]), self.shape[3]), dtype)


def _pool(x, function, ksize, strides, padding, data_format, explicit_paddings=()):
    x = channels_last(x, data_format)
    pools = _Pools(x.shape, ksize, strides, padding, explicit_paddings, data_format)
    y = pools.output(x.dtype)
    for i, j, at in pools.windows():
        y[:, i, j] = function(x[at], (1, 2))
    return channels_restored(y, data_format)


def _max_grad(x, dy, ksize, strides, padding, data_format, explicit_paddings=()):
    x, dy = channels_last(x, data_format), channels_last(dy, data_format)
    pools = _Pools(x.shape, ksize, strides, padding, explicit_paddings, data_format)
    dx = np.zeros_like(x)
    for i, j, (_, rows, columns) in pools.windows():
        window = x[:, rows, columns]
        height, width = window.shape[1:3]
        first = window.reshape(len(x), height * width, x.shape[3]).argmax(1)
        for b in range(len(x)):
            for c in range(x.shape[3]):
                u, v = divmod(int(first[b, c]), width)
                dx[b, rows.start + u, columns.start + v, c] += dy[b, i, j, c]
    return channels_restored(dx, data_format)


def _avg_grad(sizes, dy, ksize, strides, padding, data_format):
    dy = channels_last(dy, data_format)
    (h, w), c = spatial_axes(data_format)
    shape = tuple(int(sizes[a]) for a in (0, h, w, c))
    pools = _Pools(shape, ksize, strides, padding, (), data_format)
    dx = np.zeros(shape, dy.dtype)
    for i, j, (n, rows, columns) in pools.windows():
        count = (rows.stop - rows.start) * (columns.stop - columns.start)
        dx[n, rows, columns] += dy[:, i, j][:, None, None] / count
    return channels_restored(dx, data_format)


TWO = dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1])
POOLS = [((2, 4, 6, 3), (2, 2, 3, 3), dict(padding="VALID", **TWO)),
         ((1, 5, 5, 2), (1, 3, 3, 2), dict(padding="SAME", **TWO)),
         ((1, 5, 4, 1), (1, 5, 4, 1), dict(padding="SAME", ksize=[1, 3, 3, 1],
                                           strides=[1, 1, 1, 1])),
         ((0, 4, 4, 2), (0, 2, 2, 2), dict(padding="SAME", **TWO)),
         ((2, 7, 7, 1), (2, 2, 2, 1), dict(padding="VALID", ksize=[1, 3, 3, 1],
                                           strides=[1, 4, 4, 1]))]
FLOATING = (dtypes.float32, dtypes.float64)


def _ascending(shape):
    """0, 1, 2, ...: the maximum of each window is its last element."""
    return np.arange(np.prod(shape)).reshape(shape)


def _largest(shape, ksize, strides, padding):
    """MaxPool of `_ascending(shape)`."""
    rows, columns = _Pools(shape, ksize, strides, padding, (), "NHWC").axes
    return _ascending(shape)[:, [r.stop - 1 for r in rows]][:, :, [c.stop - 1 for c in columns]]


# ---------------------------------------------------------------------------------------------- ops
@op("MaxPool", inputs="input: T", outputs="output: T",
    attrs=POOLED + WINDOW + MAX_PADDING + MAX_FORMAT)
class MaxPool:
    """Largest of each window. TF: MaxPool."""
    shape = _pool_shape

    def gradient(op, dy):
        return MaxPoolGrad(op.inputs[0], op.outputs[0], dy,
                           **{n: op.attr(n) for n in MAX_NAMES})

    def reference(input, ksize, strides, padding, explicit_paddings, data_format):
        return _pool(input, np.max, ksize, strides, padding, data_format, explicit_paddings)
    samples = [S(x, types=FLOATING, **attrs) for x, _, attrs in POOLS]


@op("MaxPoolGrad", inputs="orig_input: T, orig_output: T, grad: T", outputs="output: T",
    attrs=WINDOW + MAX_PADDING + MAX_FORMAT
    + ", T: {float, double, int32, uint8, int16, int8, int64, "
    "bfloat16, uint16, half, uint32, uint64} = float")
class MaxPoolGrad:
    """Gradient of MaxPool. TF: MaxPoolGrad."""
    shape = by_pattern("b h w c", "p q r s", "p q r s", "->", "b h w c")

    def gradient(op, dz):
        return second_gradient_of_max_pool(op, dz)

    def reference(orig_input, grad, ksize, strides, padding, explicit_paddings, data_format):
        return _max_grad(orig_input, grad, ksize, strides, padding, data_format, explicit_paddings)
    samples = [S(lit(_ascending(x)), lit(_largest(x, **attrs)), y, types=FLOATING, **attrs)
               for x, y, attrs in POOLS]


ARGMAX = WINDOW + 'padding: {"SAME", "VALID"}, include_batch_in_index: bool = false, '


def _max_places(x, ksize, strides, padding, with_batch):
    """(maxima, their flat indices) of each window of an NHWC batch."""
    pools = _Pools(x.shape, ksize, strides, padding, (), "NHWC")
    y = pools.output(x.dtype)
    places = pools.output(np.int64)
    flat = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    if not with_batch and len(x):
        flat = flat % (x.size // len(x))
    for i, j, at in pools.windows():
        rows = x[at].reshape(len(x), at[1].stop - at[1].start, -1, x.shape[3]) if len(x) else x[at]
        first = rows.reshape(len(x), rows.shape[1] * rows.shape[2], x.shape[3]).argmax(1)[:, None]
        numbers = flat[at].reshape(len(x), rows.shape[1] * rows.shape[2], x.shape[3])
        places[:, i, j] = np.take_along_axis(numbers, first, 1)[:, 0]
        y[:, i, j] = x[at].max((1, 2))
    return y, places


@op("MaxPoolWithArgmax", inputs="input: T", outputs="output: T, argmax: Targmax", T=REAL,
    attrs=WINDOW + 'Targmax: {int32, int64} = int64, padding: {"SAME", "VALID"}, '
    "include_batch_in_index: bool = false")
class MaxPoolWithArgmax:
    """MaxPool, and the flat index of each maximum within its image. TF: MaxPoolWithArgmax."""
    def shape(op): return [_nhwc_pool_shape(op)] * 2

    def gradient(op, dy, dargmax):
        names = ("ksize", "strides", "padding", "include_batch_in_index")
        return MaxPoolGradWithArgmax(op.inputs[0], dy, op.outputs[1],
                                     **{n: op.attr(n) for n in names})

    def reference(input, ksize, strides, padding, include_batch_in_index):
        return _max_places(input, ksize, strides, padding, include_batch_in_index)
    samples = [S(x, types=FLOATING, **attrs) for x, _, attrs in POOLS[:3]] + [
        S(POOLS[0][0], types=FLOATING, include_batch_in_index=True, **POOLS[0][2])]


def _scattered(shape, grad, argmax, with_batch):
    result = np.zeros(shape, grad.dtype)
    image = result.size // max(len(result), 1)
    for b in range(len(result)):
        start = 0 if with_batch else b * image
        np.add.at(result.reshape(-1), argmax[b].ravel() + start, grad[b].ravel())
    return result


@op("MaxPoolGradWithArgmax", inputs="input: T, grad: T, argmax: Targmax", outputs="output: T",
    T=REAL, attrs=ARGMAX + "Targmax: {int32, int64}")
class MaxPoolGradWithArgmax:
    """Gradient of MaxPoolWithArgmax. TF: MaxPoolGradWithArgmax."""
    shape = by_pattern("b h w c", "p q r s", "p q r s", "->", "b h w c")

    def gradient(op, dz):
        names = ("ksize", "strides", "padding", "include_batch_in_index")
        return [None, raw_ops.MaxPoolGradGradWithArgmax(op.inputs[0], dz, op.inputs[2],
                                                        **{n: op.attr(n) for n in names}), None]

    def reference(input, grad, argmax, include_batch_in_index):
        return _scattered(input.shape, grad, argmax, include_batch_in_index)
    samples = [S((1, 2, 4, 1), (1, 1, 2, 1), lit([[[[4], [3]]]]), types=FLOATING, padding="VALID",
                 **TWO)]


@op("AvgPool", inputs="value: T", outputs="output: T", T=FLOATS,
    attrs=WINDOW + 'padding: {"SAME", "VALID"}, ' + MAX_FORMAT)
class AvgPool:
    """Mean of each window, padding not counted. TF: AvgPool."""
    shape = _pool_shape

    def gradient(op, dy):
        return AvgPoolGrad(shape_vector(op.inputs[0]), dy, **{n: op.attr(n) for n in AVG_NAMES})

    def reference(value, ksize, strides, padding, data_format):
        return _pool(value, np.mean, ksize, strides, padding, data_format)
    samples = [S(x, types=FLOATING, **attrs) for x, _, attrs in POOLS]


@op("AvgPoolGrad", inputs="orig_input_shape: int32, grad: T", outputs="output: T", T=FLOATS,
    attrs=WINDOW + 'padding: {"SAME", "VALID"}, ' + MAX_FORMAT)
class AvgPoolGrad:
    """Gradient of AvgPool. TF: AvgPoolGrad."""
    shape = given_by(4)

    def gradient(op, dz):
        return [None, AvgPool(dz, **{n: op.attr(n) for n in AVG_NAMES})]

    def reference(orig_input_shape, grad, ksize, strides, padding, data_format):
        return _avg_grad(orig_input_shape, grad, ksize, strides, padding, data_format)
    samples = [S(lit(list(x)), y, types=FLOATING, **attrs) for x, y, attrs in POOLS]
