"""Parts by index or value: DynamicPartition and Stitch, Unique, ListDiff, TopK, Bincount.

Invariants
  1. Ops whose output size depends on values have None in their static shape.
  2. Of equal values TopK takes the lower index first; Unique keeps the order of first appearance.

Example:  `tf.unique([7, 7, 9])` -> ([7, 9], [0, 0, 1]).
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import REAL
from pyflow.framework.op import S, UNREGISTERED, ints, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import at_least_rank, dims_of, int32s, static
from pyflow.ops.base.shape_rules import by_pattern, match


# ----------------------------------------------------------------------- partitioning and stitching
def _partition_shape(op):
    data, parts = dims_of(op.inputs[0].shape), dims_of(op.inputs[1].shape)
    n = op.attr("num_partitions")
    if data is None or parts is None:
        return [unknown_shape()] * n
    TensorShape(data[:len(parts)]).merge_with(TensorShape(parts))
    return [TensorShape([None] + data[len(parts):])] * n


@op("DynamicPartition", inputs="data: T, partitions: int32", outputs="outputs: num_partitions * T",
    attrs="num_partitions: int >= 1, T: type")
class DynamicPartition:
    """Rows of `data` sorted into `num_partitions` tensors by `partitions`. TF: DynamicPartition."""
    shape = _partition_shape

    def gradient(op, *dys):
        data, parts = op.inputs
        dys = [tensors.zeros_like(y) if dy is None else dy for y, dy in zip(op.outputs, dys)]
        prefix = tensors.shape(parts)
        numbers = raw_ops.Reshape(raw_ops.Range(0, raw_ops.Prod(prefix, 0), 1), prefix)
        places = DynamicPartition(numbers, parts, num_partitions=len(dys))
        stitched = DynamicStitch(list(places), list(dys))
        return [raw_ops.Reshape(stitched, tensors.shape(data)), None]

    def reference(data, partitions, num_partitions):
        return tuple(data[partitions == i] for i in range(num_partitions))
    samples = [S((4, 3), lit([0, 1, 0, 2]), num_partitions=3),
               S((4,), lit([1, 1, 1, 1]), num_partitions=2),
               S((2, 2, 3), lit([[0, 1], [1, 0]]), num_partitions=2),
               S((), lit(1), num_partitions=2),
               S((0, 3), lit(np.zeros(0, int)), num_partitions=2)]


def _stitch_shape(op):
    n = op.attr("N")
    indices, data = op.inputs[:n], op.inputs[n:]
    tail = None
    for i, d in zip(indices, data):
        if i.shape.ndims is not None and d.shape.ndims is not None:
            front = TensorShape(d.shape.as_list()[:i.shape.ndims])
            if not front.is_compatible_with(i.shape):
                raise ValueError(f"{op.type}: data of shape {d.shape} must begin with the shape "
                                 f"{i.shape} of its indices")
            rest = TensorShape(d.shape.as_list()[i.shape.ndims:])
            tail = rest if tail is None else tail.merge_with(rest)
    values = [static(i) for i in indices]
    rows = None
    if all(v is not None for v in values):
        rows = max((int(v.max()) + 1 for v in values if v.size), default=0)
    return unknown_shape() if tail is None else TensorShape([rows] + tail.as_list())


def _stitch_reference(indices, data):
    n = max((int(i.max()) + 1 for i in indices if i.size), default=0)
    result = np.zeros((n,) + data[0].shape[indices[0].ndim:], data[0].dtype)
    for i, d in zip(indices, data):
        result[i.ravel()] = d.reshape((i.size,) + result.shape[1:])
    return result


def _stitch_gradient(op, dy):
    n = op.attr("N")
    return [None] * n + [raw_ops.GatherV2(dy, i, 0) for i in op.inputs[:n]]


STITCHES = [S([lit([0, 2]), lit([1])], [(2, 3), (1, 3)]),
            S([lit(1), lit([[0, 2]])], [(3,), (1, 2, 3)]),
            S([lit([0, 1])], [(2,)])]


@op("DynamicStitch", inputs="indices: N * int32, data: N * T", outputs="merged: T",
    attrs="N: int >= 1, T: type")
class DynamicStitch:
    """merged[indices[k][i]] = data[k][i]; the last write of an index stays. TF: DynamicStitch."""
    shape = _stitch_shape
    gradient = _stitch_gradient

    def reference(indices, data): return _stitch_reference(indices, data)
    samples = STITCHES


@op("ParallelDynamicStitch", inputs="indices: N * int32, data: N * T", outputs="merged: T",
    attrs="N: int >= 1, T: type")
class ParallelDynamicStitch:
    """DynamicStitch for indices that do not repeat, in any order. TF: ParallelDynamicStitch."""
    shape = _stitch_shape
    gradient = _stitch_gradient

    def reference(indices, data): return _stitch_reference(indices, data)
    samples = STITCHES


# ---------------------------------------------------------------------------------- sets and counts
def _unique(x):
    order = list(dict.fromkeys(x.tolist()))
    where = {v: i for i, v in enumerate(order)}
    index = np.array([where[v] for v in x.tolist()], np.int64)
    return np.array(order, x.dtype), index, np.bincount(index,
                                                        minlength=len(order)).astype(np.int64)


def _vector_only(op):
    shape = op.inputs[0].shape
    if shape.ndims not in (None, 1):
        raise ValueError(f"{op.type}: expected a vector, got shape {shape}")
    return shape


UNIQUES = [S(lit([1, 1, 2, 4, 4, 1, 8])), S(lit(np.zeros(0, int))), S(ints((20,), 0, 5)),
           S(ints((5,), 0, 3), out_idx=dtypes.int64)]


@op("Unique", inputs="x: T", outputs="y: T, idx: out_idx",
    attrs="T: type, out_idx: {int32, int64} = int32")
class Unique:
    """Distinct values of a vector in order of first appearance, and where each went. TF: Unique."""
    def shape(op): return [TensorShape([None]), _vector_only(op)]
    gradient = UNREGISTERED

    def reference(x): return _unique(x)[:2]
    samples = UNIQUES


@op("UniqueV2", inputs="x: T, axis: Taxis", outputs="y: T, idx: out_idx",
    attrs="T: type, Taxis: {int32, int64} = int64, out_idx: {int32, int64} = int32")
class UniqueV2:
    """Unique of a vector; `axis` is [0] or []. TF: UniqueV2, there for any axis."""
    shape = by_pattern("n", "_", "->", "distinct", "n")
    gradient = UNREGISTERED

    def reference(x): return _unique(x)[:2]
    samples = [S(lit([1, 1, 2, 4, 4, 1, 8]), lit([0])), S(ints((9,), 0, 4), lit(np.zeros(0, int)))]


@op("UniqueWithCounts", inputs="x: T", outputs="y: T, idx: out_idx, count: out_idx",
    attrs="T: type, out_idx: {int32, int64} = int32")
class UniqueWithCounts:
    """Unique, and how often each value occurs. TF: UniqueWithCounts."""
    def shape(op): return [TensorShape([None]), _vector_only(op), TensorShape([None])]
    gradient = UNREGISTERED

    def reference(x): return _unique(x)
    samples = UNIQUES


@op("ListDiff", inputs="x: T, y: T", outputs="out: T, idx: out_idx",
    attrs="T: type, out_idx: {int32, int64} = int32")
class ListDiff:
    """Values of vector x that are not in y, in order, and their places in x. TF: ListDiff."""
    def shape(op):
        match(op, "n", "m")
        return [TensorShape([None]), TensorShape([None])]
    gradient = UNREGISTERED

    def reference(x, y):
        keep = ~np.isin(x, y)
        return x[keep], np.flatnonzero(keep)
    samples = [S(lit([1, 2, 3, 4, 2]), lit([3, 1])), S(lit([1, 2]), lit(np.zeros(0, int))),
               S(lit(np.zeros(0, int)), lit([1]))]


@op("Bincount", inputs="arr: int32, size: int32, weights: T", outputs="bins: T",
    attrs="T: {int32, int64, float, double}")
class Bincount:
    """How often (or with what total weight) each of 0 .. size-1 occurs in `arr`. TF: Bincount."""
    def shape(op):
        match(op, None, "")
        size = static(op.inputs[1])
        return TensorShape([None if size is None else int(size)])
    gradient = UNREGISTERED

    def reference(arr, size, weights):
        keep = arr < size
        weights = weights[keep] if weights.size else None
        return np.bincount(arr[keep], weights, int(size))
    samples = [S(lit([1, 2, 1, 7]), lit(4), lit(np.zeros(0))),
               S(lit([0, 2, 2]), lit(3), lit([1, 2, 3])),
               S(lit(np.zeros(0, int)), lit(2), lit(np.zeros(0)))]


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


PUBLIC = {"dynamic_stitch": DynamicStitch}
