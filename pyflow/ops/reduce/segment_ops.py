"""Segment sums, products, means and extrema, sorted and unsorted.

Invariants
  1. Sorted segment ops want nondecreasing ids from 0; missing ids give an empty
     segment's value.
  2. Unsorted ones take any ids and `num_segments`; a negative id drops its row.

Example:  `tf.segment_sum([[1, 2], [3, 4], [5, 6]], [0, 0, 1])` -> [[4, 6], [5, 6]].
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import NUMBERS, REAL
from pyflow.framework.op import S, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import conj, dims_of, static
from pyflow.ops.base.shape_rules import match

IDS = "Tindices: {int32, int64}"


# ---------------------------------------------------------------------------------- sorted segments
def _segment_shape(op):
    dims, ids = dims_of(op.inputs[0].shape), static(op.inputs[1])
    if op.inputs[1].shape.ndims not in (None, 1):
        raise ValueError(f"{op.type}: segment_ids must be a vector, got {op.inputs[1].shape}")
    if dims is None:
        return unknown_shape()
    if not dims:
        raise ValueError(f"{op.type}: data must have at least one dimension, got a scalar")
    rows = None if ids is None else int(ids[-1]) + 1 if len(ids) else 0
    return TensorShape([rows] + dims[1:])


def _segments(function, data, ids, empty):
    n = int(ids[-1]) + 1 if len(ids) else 0
    result = np.full((n,) + data.shape[1:], empty, data.dtype)
    for i in range(n):
        rows = data[ids == i]
        if len(rows):
            result[i] = function(rows, 0)
    return result


SEGMENTS = [S((4, 3), lit([0, 0, 1, 1])), S((4,), lit([0, 1, 1, 3])),
            S((0, 3), lit(np.zeros(0, int))),
            S((3, 2, 2), lit([0, 0, 0]))]


@op("SegmentSum", inputs="data: T, segment_ids: Tindices", outputs="output: T", attrs=IDS,
    T=NUMBERS)
class SegmentSum:
    """Sums of runs of rows that share a segment id. TF: SegmentSum."""
    shape = _segment_shape

    def gradient(op, dy):
        return [_rows(dy, op.inputs[1]), None]

    def reference(data, segment_ids): return _segments(np.sum, data, segment_ids, 0)
    samples = SEGMENTS


def _rows(params, indices):
    return raw_ops.GatherV2(params, indices, 0)


@op("SegmentMean", inputs="data: T, segment_ids: Tindices", outputs="output: T", attrs=IDS,
    T=NUMBERS)
class SegmentMean:
    """Means of runs of rows that share a segment id. TF: SegmentMean."""
    shape = _segment_shape

    def gradient(op, dy):
        data, ids = op.inputs
        ones = tensors.ones_like(tensors.cast(ids, dy.dtype))
        scaled = _rows(dy, ids)
        counts = _rows(SegmentSum(ones, ids), ids)
        return [scaled / _as_rows(counts, ids, data), None]

    def reference(data, segment_ids): return _segments(np.mean, data, segment_ids, 0)
    samples = [S(*s.inputs, types=(dtypes.float32, dtypes.float64)) for s in SEGMENTS]


def _as_rows(flags, ids, data):
    """`flags`, of the shape of `ids`, with dimensions of size 1 up to the rank of `data`."""
    rank, index_rank = data.shape.ndims, ids.shape.ndims
    if rank is None or index_rank is None:
        missing = raw_ops.Rank(data) - raw_ops.Rank(ids)
        ones = raw_ops.Fill(raw_ops.ExpandDims(missing, 0), 1)
        return raw_ops.Reshape(flags, tensors.concat([raw_ops.Shape(ids), ones], 0))
    for _ in range(rank - index_rank):
        flags = raw_ops.ExpandDims(flags, -1)
    return flags


def _segment_extremum_gradient(op, dy):
    """Shared equally among the rows that attain the extremum of their segment; 0 elsewhere, also
    where none does because the extremum is NaN."""
    data, ids = op.inputs
    chosen = raw_ops.Equal(data, _rows(op.outputs[0], ids))
    share = dy / SegmentSum(tensors.cast(chosen, dy.dtype), ids)
    return [raw_ops.Select(chosen, _rows(share, ids), tensors.zeros_like(data)), None]


@op("SegmentMax", inputs="data: T, segment_ids: Tindices", outputs="output: T", attrs=IDS, T=REAL)
class SegmentMax:
    """Largest of runs of rows that share a segment id; 0 for a missing id. TF: SegmentMax."""
    shape = _segment_shape
    gradient = _segment_extremum_gradient

    def reference(data, segment_ids): return _segments(np.max, data, segment_ids, 0)
    samples = SEGMENTS


@op("SegmentMin", inputs="data: T, segment_ids: Tindices", outputs="output: T", attrs=IDS, T=REAL)
class SegmentMin:
    """Smallest of runs of rows that share a segment id; 0 for a missing id. TF: SegmentMin."""
    shape = _segment_shape
    gradient = _segment_extremum_gradient

    def reference(data, segment_ids): return _segments(np.min, data, segment_ids, 0)
    samples = SEGMENTS


def _segment_prod_gradient(op, dy):
    """The product of the others: by division, and without the zero where one factor is zero."""
    data, ids = op.inputs
    ones = tensors.ones_like(data)
    is_zero = raw_ops.Equal(data, tensors.zeros_like(data))
    count = SegmentSum(tensors.cast(is_zero, dtypes.int32), ids)
    usable = raw_ops.Select(count > 1, tensors.zeros_like(dy), dy)
    filled = raw_ops.Select(is_zero, ones, data)
    others = raw_ops.Select(is_zero, _rows(SegmentProd(filled, ids), ids),
                            _rows(op.outputs[0], ids) / filled)
    return [_rows(usable, ids) * conj(others), None]


@op("SegmentProd", inputs="data: T, segment_ids: Tindices", outputs="output: T", attrs=IDS,
    T=NUMBERS)
class SegmentProd:
    """Products of runs of rows that share a segment id. TF: SegmentProd."""
    shape = _segment_shape
    gradient = _segment_prod_gradient

    def reference(data, segment_ids): return _segments(np.prod, data, segment_ids, 1)
    samples = SEGMENTS


# -------------------------------------------------------------------------------- unsorted segments
def _unsorted_shape(op):
    data, ids = dims_of(op.inputs[0].shape), dims_of(op.inputs[1].shape)
    n = static(op.inputs[2])
    match(op, None, None, "")
    if n is not None and n < 0:
        raise ValueError(f"{op.type}: num_segments must not be negative, got {n}")
    if data is None or ids is None:
        return unknown_shape()
    if len(data) < len(ids):
        raise ValueError(f"{op.type}: data of shape {op.inputs[0].shape} for segment_ids of shape "
                         f"{op.inputs[1].shape}")
    TensorShape(data[:len(ids)]).merge_with(TensorShape(ids))
    return TensorShape([None if n is None else int(n)] + data[len(ids):])


def _unsorted(ufunc, data, ids, n, empty):
    result = np.full((int(n),) + data.shape[ids.ndim:], empty, data.dtype)
    keep = ids >= 0
    ufunc.at(result, ids[keep], data[keep])
    return result


def _dropped(op, dy):
    """Rows of `dy` by segment id, and where an id is negative zero."""
    ids = op.inputs[1]
    rows = _rows(dy, raw_ops.Maximum(ids, tensors.zeros_like(ids)))
    present = raw_ops.GreaterEqual(ids, tensors.zeros_like(ids))
    present = _as_rows(present, ids, op.inputs[0])
    return rows, raw_ops.LogicalAnd(present, tensors.ones_like(rows, dtypes.bool))


def _unsorted_extremum_gradient(op, dy):
    data, ids, n = op.inputs
    rows, present = _dropped(op, op.outputs[0])
    chosen = raw_ops.LogicalAnd(raw_ops.Equal(data, rows), present)
    ones = tensors.cast(chosen, dy.dtype)
    share = dy / raw_ops.Maximum(UnsortedSegmentSum(ones, ids, n), tensors.ones_like(dy))
    shared = _dropped(op, share)[0]
    return [raw_ops.Select(chosen, shared, tensors.zeros_like(shared)), None, None]


UNSORTED = "Tindices: {int32, int64}, Tnumsegments: {int32, int64} = int32"
UNSORTED_SAMPLES = [
    S((4, 3), lit([2, 0, 2, 1]), lit(3)), S((4,), lit([0, -1, 1, 0]), lit(3)),
    S((2, 2, 3), lit([[0, 1], [1, 4]]), lit(5)), S((0, 3), lit(np.zeros(0, int)), lit(2))]


@op("UnsortedSegmentSum", inputs="data: T, segment_ids: Tindices, num_segments: Tnumsegments",
    outputs="output: T", T=NUMBERS,
    attrs="Tindices: {int16, int32, int64}, Tnumsegments: {int32, int64} = int32")
class UnsortedSegmentSum:
    """Sums of the rows that share a segment id, 0 for none. TF: UnsortedSegmentSum."""
    shape = _unsorted_shape

    def gradient(op, dy):
        rows, present = _dropped(op, dy)
        return [raw_ops.Select(present, rows, tensors.zeros_like(rows)), None, None]

    def reference(data, segment_ids, num_segments):
        return _unsorted(np.add, data, segment_ids, num_segments, 0)
    samples = UNSORTED_SAMPLES


@op("UnsortedSegmentMax", inputs="data: T, segment_ids: Tindices, num_segments: Tnumsegments",
    outputs="output: T", attrs=UNSORTED, T=REAL)
class UnsortedSegmentMax:
    """Largest of the rows that share a segment id, the lowest value for none.
    TF: UnsortedSegmentMax."""
    shape = _unsorted_shape
    gradient = _unsorted_extremum_gradient

    def reference(data, segment_ids, num_segments, T):
        return _unsorted(np.maximum, data, segment_ids, num_segments, T.min)
    samples = UNSORTED_SAMPLES


@op("UnsortedSegmentMin", inputs="data: T, segment_ids: Tindices, num_segments: Tnumsegments",
    outputs="output: T", attrs=UNSORTED, T=REAL)
class UnsortedSegmentMin:
    """Smallest of the rows that share a segment id, the highest value for none.
    TF: UnsortedSegmentMin."""
    shape = _unsorted_shape
    gradient = _unsorted_extremum_gradient

    def reference(data, segment_ids, num_segments, T):
        return _unsorted(np.minimum, data, segment_ids, num_segments, T.max)
    samples = UNSORTED_SAMPLES


def _unsorted_prod_gradient(op, dy):
    """The product of the others: by division, and without the zero where one factor is zero."""
    data, ids, n = op.inputs
    zeros, ones = tensors.zeros_like(data), tensors.ones_like(data)
    is_zero = raw_ops.Equal(data, zeros)
    count = UnsortedSegmentSum(tensors.cast(is_zero, dtypes.int32), ids, n)
    usable = raw_ops.Select(count > 1, tensors.zeros_like(dy), dy)
    others = UnsortedSegmentProd(raw_ops.Select(is_zero, ones, data), ids, n)
    divided = _dropped(op, op.outputs[0])[0] / raw_ops.Select(is_zero, ones, data)
    partial = conj(raw_ops.Select(is_zero, _dropped(op, others)[0], divided))
    rows, present = _dropped(op, usable)
    return [raw_ops.Select(present, rows * partial, zeros), None, None]


@op("UnsortedSegmentProd", inputs="data: T, segment_ids: Tindices, num_segments: Tnumsegments",
    outputs="output: T", attrs=UNSORTED, T=NUMBERS)
class UnsortedSegmentProd:
    """Products of the rows that share a segment id, 1 for none. TF: UnsortedSegmentProd."""
    shape = _unsorted_shape
    gradient = _unsorted_prod_gradient

    def reference(data, segment_ids, num_segments):
        return _unsorted(np.multiply, data, segment_ids, num_segments, 1)
    samples = UNSORTED_SAMPLES + [S(lit([2.0, 0.0, 3.0]), lit([0, 0, 1]), lit(2))]


PUBLIC = {
    "math.segment_max": SegmentMax, "math.segment_mean": SegmentMean,
    "math.segment_min": SegmentMin, "math.segment_sum": SegmentSum,
    "math.unsorted_segment_max": UnsortedSegmentMax,
    "math.unsorted_segment_min": UnsortedSegmentMin,
    "math.unsorted_segment_sum": UnsortedSegmentSum, "segment_max": SegmentMax,
    "segment_mean": SegmentMean, "segment_min": SegmentMin, "segment_sum": SegmentSum,
    "unsorted_segment_max": UnsortedSegmentMax, "unsorted_segment_min": UnsortedSegmentMin,
    "unsorted_segment_sum": UnsortedSegmentSum, "segment_prod": SegmentProd,
    "math.segment_prod": SegmentProd, "unsorted_segment_prod": UnsortedSegmentProd,
    "math.unsorted_segment_prod": UnsortedSegmentProd,
}
