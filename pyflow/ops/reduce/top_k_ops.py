"""The largest of each row, and whether a target is among them.

Invariant: of equal values TopK takes the lower index first.

Example:  `TopKV2([1.0, 3.0, 2.0], 2)` -> ([3, 2], [1, 2]).
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import REAL
from pyflow.framework.op import S, UNREGISTERED, ints, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import at_least_rank, dims_of, int32s, static
from pyflow.ops.base.shape_rules import by_pattern


# ---------------------------------------------------------------------------------- sets and counts
def _top_shape(op):
    dims = dims_of(at_least_rank(op.inputs[0].shape, 1))
    k = static(op.inputs[1]) if len(op.inputs) > 1 else op.attr("k")
    if dims is None:
        return [unknown_shape()] * 2
    if k is not None and dims[-1] is not None and int(k) > dims[-1]:
        raise ValueError(f"{op.type}: input must have at least k = {int(k)} columns, got "
                         f"{dims[-1]}")
    return [TensorShape(dims[:-1] + [None if k is None else int(k)])] * 2


def _top_gradient(op, dy, dindices):
    """`dy` placed at the indices: rows flattened, one ScatterNd."""
    x, indices = op.inputs[0], op.outputs[1]
    dims, places = tensors.shape(x), tensors.shape(indices)
    n, k = dims[-1:], places[-1:]
    rows = raw_ops.Prod(dims[:-1], int32s([0]), keep_dims=True)
    flat = raw_ops.Reshape(indices, tensors.concat([rows, k], 0))
    starts = raw_ops.ExpandDims(raw_ops.Range(0, rows[0], 1) * n[0], -1)
    where = raw_ops.Reshape(tensors.cast(flat, dtypes.int32) + starts, int32s([-1, 1]))
    total = raw_ops.ScatterNd(where, raw_ops.Reshape(dy, int32s([-1])),
                              raw_ops.Reshape(tensors.size(x), int32s([1])))
    return [raw_ops.Reshape(total, dims)] + [None] * (len(op.inputs) - 1)


def _top(x, k):
    order = np.argsort(-x.astype(np.float64), axis=-1, kind="stable")[..., :int(k)]
    return np.take_along_axis(x, order, -1), order


@op("TopKV2", inputs="input: T, k: Tk", outputs="values: T, indices: index_type", T=REAL,
    attrs="sorted: bool = true, Tk: {int16, int32, int64} = int32, "
          "index_type: {int16, int32, int64} = int32")
class TopKV2:
    """The k largest along the last dimension, descending, and their indices. TF: TopKV2."""
    shape = _top_shape
    gradient = _top_gradient

    def reference(input, k): return _top(input, k)
    samples = [S((5,), lit(2)), S((3, 4), lit(3)), S((3, 4), lit(0)), S((2, 3, 4), lit(4)),
               S(lit([1, 3, 3, 2]), lit(3)), S((0, 4), lit(2))]


@op("TopK", inputs="input: T", outputs="values: T, indices: int32", T=REAL,
    attrs="k: int >= 0, sorted: bool = true")
class TopK:
    """The k largest along the last dimension, k an attribute; the older form. TF: TopK."""
    shape = _top_shape
    gradient = _top_gradient

    def reference(input, k): return _top(input, k)
    samples = [S((5,), k=2), S((3, 4), k=3)]


def _in_top_reference(predictions, targets, k):
    n, classes = predictions.shape
    result = np.zeros(n, bool)
    for i in range(n):
        t = int(targets[i])
        if 0 <= t < classes and np.isfinite(predictions[i, t]):
            result[i] = np.sum(predictions[i] > predictions[i, t]) < int(k)
    return result


TIES = [[0.1, 0.3, 0.6], [0.5, 0.2, 0.3], [0.4, 0.4, 0.2]]


@op("InTopK", inputs="predictions: float, targets: T", outputs="precision: bool",
    attrs="k: int, T: {int32, int64} = int32")
class InTopK:
    """Whether each row's target class is among its k largest predictions (ties count).
    TF: InTopK."""
    shape = by_pattern("n classes", "n", "->", "n")
    gradient = UNREGISTERED

    def reference(predictions, targets, k): return _in_top_reference(predictions, targets, k)
    samples = [S(lit(TIES), lit([2, 2, 1]), k=1), S((5, 4), ints((5,), 0, 4), k=2),
               S((0, 4), ints((0,), 0, 4), k=2)]


@op("InTopKV2", inputs="predictions: float, targets: T, k: T", outputs="precision: bool",
    attrs="T: {int32, int64} = int32")
class InTopKV2:
    """InTopK with k as an input. TF: InTopKV2."""
    shape = by_pattern("n classes", "n", "", "->", "n")
    gradient = UNREGISTERED

    def reference(predictions, targets, k): return _in_top_reference(predictions, targets, k)
    samples = [S(lit(TIES), lit([2, 2, 1]), lit(1)), S((5, 4), ints((5,), 0, 4), lit(2))]
