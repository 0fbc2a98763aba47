"""Pooling with a fractional ratio over random regions.

Invariants
  1. The rows and columns of value [batch, height, width, channels] are cut at random into
     floor(size / ratio) regions each; where they begin is part of the result.
  2. The gradients take these sequences, so they need no random numbers.

Source: Graham 2014, "Fractional max-pooling".
Example:  `y, rows, columns = tf.nn.fractional_max_pool(x, [1.0, 1.44, 1.44, 1.0])`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, given_by
from pyflow.ops.base.shape_rules import by_pattern

RATIO = ("pooling_ratio: list(float) >= 4, pseudo_random: bool = false, overlapping: bool = false, "
         "deterministic: bool = false, seed: int = 0, seed2: int = 0, ")
TYPES = "T: {float, double, int32, int64}"
OUTPUTS = "output: T, row_pooling_sequence: int64, col_pooling_sequence: int64"
SEQUENCES = "row_pooling_sequence: int64, col_pooling_sequence: int64"


def _shape(op):
    ratio = op.attr("pooling_ratio")
    if len(ratio) != 4 or min(ratio) < 1 or ratio[0] != 1 or ratio[3] != 1:
        raise ValueError(f"{op.type}: pooling_ratio must be four numbers >= 1, the first and last "
                         f"1, got {ratio}")
    dims = dims_of(op.inputs[0].shape.with_rank(4)) or [None] * 4
    for axis in (1, 2):
        if dims[axis] is not None:
            dims[axis] = int(dims[axis] / ratio[axis])
            if dims[axis] < 1:
                raise ValueError(f"{op.type}: nothing is left of shape {op.inputs[0].shape} with "
                                 f"pooling_ratio {ratio}")
    # The sequences have one element more than there are rows; TensorFlow's static shape lacks it,
    # and would refuse a graph that says so.
    return [TensorShape(dims), TensorShape([None]), TensorShape([None])]


# ------------------------------------------------------------------------------------------ oracles
def _regions(size, rows, columns, overlapping):
    """(output row, output column, slice of rows, slice of columns)."""
    more = 1 if overlapping else 0
    for i in range(len(rows) - 1):
        for j in range(len(columns) - 1):
            yield i, j, slice(rows[i], min(rows[i + 1] + more, size[0])), \
                slice(columns[j], min(columns[j + 1] + more, size[1]))


def _max_grad(x, dy, rows, columns, overlapping):
    dx = np.zeros_like(x)
    for i, j, r, c in _regions(x.shape[1:3], rows, columns, overlapping):
        for b, k in np.ndindex(x.shape[0], x.shape[3]):
            part = x[b, r, c, k]
            u, v = np.unravel_index(part.argmax(), part.shape)
            dx[b, r.start + u, c.start + v, k] += dy[b, i, j, k]
    return dx


def _avg_grad(shape, dy, rows, columns, overlapping):
    dx = np.zeros([int(d) for d in shape], dy.dtype)
    for i, j, r, c in _regions(dx.shape[1:3], rows, columns, overlapping):
        dx[:, r, c] += dy[:, i:i + 1, j:j + 1] / ((r.stop - r.start) * (c.stop - c.start))
    return dx


SAMPLES = [S((2, 7, 6, 3), pooling_ratio=[1.0, 1.5, 1.4, 1.0]),
           S((1, 9, 5, 2), pooling_ratio=[1.0, 2.5, 1.0, 1.0], pseudo_random=True,
             overlapping=True),
           S((0, 4, 4, 1), pooling_ratio=[1.0, 1.7, 2.0, 1.0], deterministic=True, seed=3)]
BACK = [((1, 5, 4, 2), (1, 3, 2, 2), [0, 2, 3, 5], [0, 1, 4]), ((2, 4, 4, 1), (2, 2, 3, 1),
                                                              [0, 2, 4], [0, 1, 2, 4])]
FLOATING = (dtypes.float32, dtypes.float64)


# ---------------------------------------------------------------------------------------------- ops
@op("FractionalMaxPoolGrad", inputs="orig_input: T, orig_output: T, out_backprop: T, " + SEQUENCES,
    outputs="output: T", attrs="overlapping: bool = false, " + TYPES)
class FractionalMaxPoolGrad:
    """Gradient of FractionalMaxPool: to the first maximum of each region. Its own is not offered.
    TF: FractionalMaxPoolGrad."""
    shape = by_pattern("b h w c", "_ _ _ _", "_ _ _ _", "->", "b h w c")
    gradient = UNREGISTERED

    def reference(orig_input, orig_output, out_backprop, row_pooling_sequence, col_pooling_sequence,
                  overlapping):
        return _max_grad(orig_input, out_backprop, row_pooling_sequence, col_pooling_sequence,
                         overlapping)
    samples = [S(x, y, y, lit(r), lit(c), types=FLOATING, overlapping=o)
               for (x, y, r, c), o in zip(BACK, (False, True))]


@op("FractionalAvgPoolGrad", inputs="orig_input_tensor_shape: int64, out_backprop: T, " + SEQUENCES,
    outputs="output: T", attrs="overlapping: bool = false, " + TYPES)
class FractionalAvgPoolGrad:
    """Gradient of FractionalAvgPool. Its own is not offered. TF: FractionalAvgPoolGrad."""
    shape = given_by(4)
    gradient = UNREGISTERED

    def reference(orig_input_tensor_shape, out_backprop, row_pooling_sequence, col_pooling_sequence,
                  overlapping):
        return _avg_grad(orig_input_tensor_shape, out_backprop, row_pooling_sequence,
                         col_pooling_sequence, overlapping)
    samples = [S(lit(list(x)), y, lit(r), lit(c), types=FLOATING, overlapping=o)
               for (x, y, r, c), o in zip(BACK, (False, True))]


@op("FractionalMaxPool", inputs="value: T", outputs=OUTPUTS, attrs=RATIO + TYPES)
class FractionalMaxPool:
    """Maxima of random regions. No NumPy oracle: tests compute it from the sequences, and compare
    TF's. TF: FractionalMaxPool."""
    shape = _shape

    def gradient(op, dy, drows, dcolumns):
        return FractionalMaxPoolGrad(op.inputs[0], op.outputs[0], dy, *op.outputs[1:],
                                     overlapping=op.attr("overlapping"))
    reference = None
    samples = SAMPLES


@op("FractionalAvgPool", inputs="value: T", outputs=OUTPUTS, attrs=RATIO + TYPES)
class FractionalAvgPool:
    """Means of random regions. Tested as FractionalMaxPool. TF: FractionalAvgPool."""
    shape = _shape

    def gradient(op, dy, drows, dcolumns):
        shape = tensors.shape(op.inputs[0], out_type=dtypes.int64)
        return FractionalAvgPoolGrad(shape, dy, *op.outputs[1:],
                                     overlapping=op.attr("overlapping"))
    reference = None
    samples = SAMPLES
