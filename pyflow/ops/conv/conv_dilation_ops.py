"""Greyscale morphology: dilation and erosion of images, and the ops of their gradients.

Invariants
  1. Images are [batch, height, width, channels]; a filter [height, width, channels] per channel.
  2. Padded positions do not compete for the maximum.
  3. The gradient of a maximum goes to the first position that reaches it, in row order.

y[b, i, j, c] = max over u, v of x[b, s i + r u, s j + r v, c] + f[u, v, c].
Example:  `tf.nn.dilation2d(images, kernel, [1, 1, 1, 1], [1, 1, 1, 1], "SAME")`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import dims_of, text
from pyflow.ops.base.windows import margins

REAL = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.uint8, dtypes.int16, dtypes.int8,
        dtypes.int64, dtypes.bfloat16, dtypes.uint16, dtypes.float16, dtypes.uint32, dtypes.uint64)
ATTRS = ('T: type, strides: list(int) >= 4, rates: list(int) >= 4, padding: {"SAME", "VALID"}')


def _entries(op, name):
    values = op.attr(name)
    if len(values) != 4:
        raise ValueError(f"{op.type}: {name} must have 4 entries, got {values}")
    if values[0] != 1 or values[3] != 1 or min(values) < 1:
        raise ValueError(f"{op.type}: {name} must be positive, and 1 over the batch and channel "
                         f"dimensions, got {values}")
    return values


def _dilated_shape(op):
    x, f = op.inputs[0].shape.with_rank(4), op.inputs[1].shape.with_rank(3)
    strides, rates = _entries(op, "strides"), _entries(op, "rates")
    x, f = dims_of(x), dims_of(f)
    if None not in (x[3], f[2]) and x[3] != f[2]:
        raise ValueError(f"{op.type}: the input has {x[3]} channels, the filter {f[2]}")
    padding = text(op.attr("padding"))
    sizes = [None if k is None else margins(n, k, s, r, padding, empty=True)[0]
             for n, k, s, r in zip(x[1:3], f, strides[1:3], rates[1:3])]
    return TensorShape([x[0], *sizes, f[2] if x[3] is None else x[3]])


def _places(x, f, strides, rates, padding):
    """(maximum, index into the rows of x, index into the rows of f) of every output number; rows
    are pixels and filter positions."""
    found = [margins(n, k, s, r, text(padding), empty=True)
             for n, k, s, r in zip(x.shape[1:3], f.shape, strides[1:3], rates[1:3])]
    shape = (len(x), found[0][0], found[1][0], x.shape[3])
    integer = x.dtype.kind in "iu"
    best = np.full(shape, np.iinfo(x.dtype).min if integer else np.finfo(x.dtype).min, x.dtype)
    corner = [np.maximum(np.arange(n) * s - pad[1], 0)
              for n, s, pad in zip(shape[1:3], strides[1:3], found)]
    at_x = np.broadcast_to((corner[0][:, None] * x.shape[2] + corner[1])[None, :, :, None],
                           shape).copy()
    at_f = np.zeros(shape, np.int64)
    for u in range(f.shape[0]):
        for v in range(f.shape[1]):
            rows = np.arange(shape[1]) * strides[1] + u * rates[1] - found[0][1]
            cols = np.arange(shape[2]) * strides[2] + v * rates[2] - found[1][1]
            inside = ((rows >= 0) & (rows < x.shape[1]))[:, None] & (
                (cols >= 0) & (cols < x.shape[2]))
            if not inside.any():
                continue
            pixel = np.clip(rows, 0, x.shape[1] - 1)[:, None] * x.shape[2] + np.clip(
                cols, 0, x.shape[2] - 1)
            flat = x.reshape(len(x), x.shape[1] * x.shape[2], x.shape[3])
            value = flat[:, pixel] + f[u, v]
            better = inside[None, :, :, None] & (value > best)
            best = np.where(better, value, best)
            at_x = np.where(better, pixel[None, :, :, None], at_x)
            at_f = np.where(better, u * f.shape[1] + v, at_f)
    return best, at_x, at_f


SAMPLES = [   # image, filter, attributes, output image
    ((2, 5, 4, 3), (3, 2, 3), dict(strides=[1] * 4, rates=[1] * 4, padding="SAME"), (2, 5, 4, 3)),
    ((1, 6, 7, 2), (2, 3, 2), dict(strides=[1, 2, 2, 1], rates=[1] * 4, padding="VALID"),
     (1, 3, 3, 2)),
    ((1, 7, 7, 1), (3, 3, 1), dict(strides=[1] * 4, rates=[1, 2, 2, 1], padding="VALID"),
     (1, 3, 3, 1)),
    ((0, 3, 3, 2), (2, 2, 2), dict(strides=[1] * 4, rates=[1] * 4, padding="SAME"), (0, 3, 3, 2)),
]
FLOAT = (dtypes.float32, dtypes.float64)


@op("Dilation2D", inputs="input: T, filter: T", outputs="output: T", attrs=ATTRS, T=REAL)
class Dilation2D:
    """Maximum of image plus filter over every window. TF: Dilation2D."""
    def shape(op): return _dilated_shape(op)

    def gradient(op, dy):
        attrs = {name: op.attr(name) for name in ("strides", "rates", "padding")}
        return [Dilation2DBackpropInput(*op.inputs, dy, **attrs),
                Dilation2DBackpropFilter(*op.inputs, dy, **attrs)]

    def reference(input, filter, strides, rates, padding):
        return _places(input, filter, strides, rates, padding)[0]
    samples = [S(x, f, **attrs) for x, f, attrs, _ in SAMPLES]


@op("Dilation2DBackpropInput", inputs="input: T, filter: T, out_backprop: T",
    outputs="in_backprop: T", attrs=ATTRS, T=REAL)
class Dilation2DBackpropInput:
    """Gradient of Dilation2D with respect to its input. TF: Dilation2DBackpropInput."""
    def shape(op): return op.inputs[0].shape
    gradient = UNREGISTERED

    def reference(input, filter, out_backprop, strides, rates, padding):
        at = _places(input, filter, strides, rates, padding)[1]
        dx = np.zeros((len(input), input.shape[1] * input.shape[2], input.shape[3]), input.dtype)
        b, _, _, c = np.indices(at.shape)
        np.add.at(dx, (b, at, c), out_backprop)
        return dx.reshape(input.shape)
    samples = [S(x, f, y, types=FLOAT, **attrs) for x, f, attrs, y in SAMPLES]


@op("Dilation2DBackpropFilter", inputs="input: T, filter: T, out_backprop: T",
    outputs="filter_backprop: T", attrs=ATTRS, T=REAL)
class Dilation2DBackpropFilter:
    """Gradient of Dilation2D with respect to its filter. TF: Dilation2DBackpropFilter."""
    def shape(op): return op.inputs[1].shape
    gradient = UNREGISTERED

    def reference(input, filter, out_backprop, strides, rates, padding):
        at = _places(input, filter, strides, rates, padding)[2]
        df = np.zeros((filter.shape[0] * filter.shape[1], filter.shape[2]), input.dtype)
        np.add.at(df, (at, np.indices(at.shape)[3]), out_backprop)
        return df.reshape(filter.shape)
    samples = [S(x, f, y, types=FLOAT, **attrs) for x, f, attrs, y in SAMPLES]
