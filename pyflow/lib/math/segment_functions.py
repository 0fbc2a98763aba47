"""tf.sparse_segment_*, and means of unsorted segments."""
import numpy as np

from pyflow.framework import graph
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops, unary_ops
from pyflow.ops.move import array_ops
from pyflow.ops.reduce import segment_ops
from pyflow.ops.sparse.sparse_segment_ops import (SparseSegmentMean,
                                                  SparseSegmentMeanWithNumSegments,
                                                  SparseSegmentSqrtN,
                                                  SparseSegmentSqrtNWithNumSegments,
                                                  SparseSegmentSum, SparseSegmentSumWithNumSegments)


# -------------------------------------------------------------------------------- functions
def _function(plain, counted, name):
    def segment(data, indices, segment_ids, name=None, num_segments=None):
        if num_segments is None:
            return plain(data, indices, segment_ids, name=name)
        return counted(data, indices, segment_ids, num_segments, name=name)
    segment.__name__ = segment.__qualname__ = name
    segment.__doc__ = (plain.doc.split(" TF:")[0] + f" `num_segments`: how many segments. "
                       f"TF: tf.{name}.\n    data: numbers [rows, ...]; indices, segment_ids: int32"
                       " or int64 [n], the ids rising; result: [segments, ...],\n    data's dtype."
                       " InvalidArgumentError for rows or ids outside, ValueError for other ranks.")
    return segment


sparse_segment_sum = _function(SparseSegmentSum, SparseSegmentSumWithNumSegments,
                               "sparse_segment_sum")
sparse_segment_mean = _function(SparseSegmentMean, SparseSegmentMeanWithNumSegments,
                                "sparse_segment_mean")
sparse_segment_sqrt_n = _function(SparseSegmentSqrtN, SparseSegmentSqrtNWithNumSegments,
                                  "sparse_segment_sqrt_n")


def _counts(data, ids, n):
    """How many rows each segment has, at least 1, to broadcast against the segments."""
    ids, data = graph.convert_to_tensor(ids), graph.convert_to_tensor(data)
    ones = tensors.ones_like(ids, data.dtype)
    counts = segment_ops.UnsortedSegmentSum(ones, ids, n)
    if data.shape.ndims is None or ids.shape.ndims is None:
        extra = array_ops.Rank(data) - array_ops.Rank(ids)
        ones = array_ops.Fill(tensors.expand_dims(extra, 0), np.int32(1))
        shape = tensors.concat([array_ops.Shape(counts), ones], 0)
        counts = array_ops.Reshape(counts, shape)
    else:
        for _ in range(data.shape.ndims - ids.shape.ndims):
            counts = tensors.expand_dims(counts, -1)
    return data, ids, binary_ops.Maximum(counts, tensors.ones_like(counts))


def unsorted_segment_mean(data, segment_ids, num_segments, name=None):
    """Means of the rows that share a segment id, 0 for none. TF: tf.unsorted_segment_mean.
    Dtypes, shapes, errors: as op UnsortedSegmentSum."""
    with graph.name_scope(name, "UnsortedSegmentMean", [data, segment_ids]):
        data, ids, counts = _counts(data, segment_ids, num_segments)
        return segment_ops.UnsortedSegmentSum(data, ids, num_segments) / counts


def unsorted_segment_sqrt_n(data, segment_ids, num_segments, name=None):
    """Sums of the rows that share a segment id by the root of their number.
    TF: tf.unsorted_segment_sqrt_n.
    Dtypes, shapes, errors: as ops Sqrt and UnsortedSegmentSum."""
    with graph.name_scope(name, "UnsortedSegmentSqrtN", [data, segment_ids]):
        data, ids, counts = _counts(data, segment_ids, num_segments)
        return segment_ops.UnsortedSegmentSum(data, ids, num_segments) / unary_ops.Sqrt(counts)


PUBLIC = {
    **{name: f for f, short in ((sparse_segment_sum, "sum"), (sparse_segment_mean, "mean"),
                                (sparse_segment_sqrt_n, "sqrt_n"))
       for name in (f"sparse_segment_{short}", f"sparse.segment_{short}")},
    "unsorted_segment_mean": unsorted_segment_mean,
    "math.unsorted_segment_mean": unsorted_segment_mean,
    "unsorted_segment_sqrt_n": unsorted_segment_sqrt_n,
    "math.unsorted_segment_sqrt_n": unsorted_segment_sqrt_n,
}
