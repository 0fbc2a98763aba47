"""Rows dealt out to several tensors and put together again: DynamicPartition and Stitch.

Invariant: how many rows go where depends on values, and is None in static shapes.

Example:  `DynamicPartition(x, [0, 1, 0], num_partitions=2)` -> [x[[0, 2]], x[[1]]].
"""
import numpy as np

from pyflow.framework.op import S, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, static


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


PUBLIC = {"dynamic_stitch": DynamicStitch}
