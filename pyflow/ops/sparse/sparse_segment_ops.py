"""Segments of rows picked by index: SparseSegmentSum, Mean and SqrtN.

Invariants
  1. Row i of the picked ones is data[indices[i]], in segment segment_ids[i]; segment ids rise.
  2. Segments without rows are 0; num_segments gives the number of segments, else the last id does.

Example:  `tf.sparse_segment_sum(data, [0, 2], [0, 0])` -> [data[0] + data[2]].
"""
import numpy as np

from pyflow.framework.dtypes import FLOATS, REAL
from pyflow.framework.op import S, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, static
from pyflow.ops.base.shape_rules import match

TYPES = "Tidx: {int32, int64} = int32, Tsegmentids: {int32, int64} = int32"
COUNT = "Tnumsegments: {int32, int64} = int32"
PICKED = "data: T, indices: Tidx, segment_ids: Tsegmentids"
GRADIENT = "grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32"
AT, IDS = [3, 0, 1, 0], [0, 0, 1, 3]
SAMPLES = [S((4, 3), lit(AT), lit(IDS)), S((4,), lit(AT), lit([0, 0, 0, 0])),
           S((2, 3), lit(np.zeros(0, int)), lit(np.zeros(0, int)))]
COUNTED = [S((4, 3), lit(AT), lit(IDS), lit(6)), S((4,), lit(AT), lit(IDS), lit(4)),
           S((2, 3), lit(np.zeros(0, int)), lit(np.zeros(0, int)), lit(2))]


def _scale(kind, count):
    return {"Sum": 1.0, "Mean": 1.0 / count, "SqrtN": 1.0 / np.sqrt(count)}[kind]


def _segments(kind, data, indices, ids, n):
    result = np.zeros((n,) + data.shape[1:], data.dtype)
    for i in np.unique(ids):
        rows = data[indices[ids == i]]
        result[i] = rows.sum(0) * data.dtype.type(_scale(kind, len(rows)))
    return result


def _shape(op):
    match(op, None, "n", "n", "")
    dims = dims_of(op.inputs[0].shape)
    if dims is None:
        return unknown_shape()
    counted, ids = len(op.inputs) > 3, static(op.inputs[2])
    n = static(op.inputs[3]) if counted else None if ids is None else \
        int(ids[-1]) + 1 if len(ids) else 0
    if not dims or n is not None and n < 0:
        raise ValueError(f"{op.type}: {n} segments of rows of shape {op.inputs[0].shape}")
    return TensorShape([None if n is None else int(n)] + dims[1:])


def _rows_of(tensor):
    dims = dims_of(tensor.shape)
    return np.int32(dims[0]) if dims and dims[0] is not None else tensors.shape(tensor)[0]


def _gradient_of(kind):
    def gradient(op, dy):
        data, indices, ids = op.inputs[:3]
        rows = _rows_of(data)
        rest = [None] * (len(op.inputs) - 1)
        if kind == "Sum":
            picked = tensors.gather(dy, ids)
            return [raw_ops.UnsortedSegmentSum(picked, indices, rows)] + rest
        back = {"Mean": SparseSegmentMeanGrad, "SqrtN": SparseSegmentSqrtNGrad}[kind]
        return [back(dy, indices, ids, rows)] + rest
    return gradient


WHAT = {"Sum": "Sums", "Mean": "Means", "SqrtN": "Sums by the square root of their number"}


def _plain(kind, types):
    name = f"SparseSegment{kind}"

    @op(name, inputs=PICKED, outputs="output: T", T=types,
        attrs=f"{TYPES}, sparse_gradient: bool = false",
        doc=f"{WHAT[kind]} of picked rows that share a segment id. TF: {name}.")
    class Plain:
        shape = _shape
        gradient = _gradient_of(kind)

        def reference(data, indices, segment_ids):
            n = int(segment_ids[-1]) + 1 if len(segment_ids) else 0
            return _segments(kind, data, indices, segment_ids, n)
        samples = SAMPLES
    return Plain


def _counted(kind, types):
    name = f"SparseSegment{kind}WithNumSegments"

    @op(name, inputs=PICKED + ", num_segments: Tnumsegments",
        outputs="output: T", T=types, attrs=f"{TYPES}, {COUNT}, sparse_gradient: bool = false",
        doc=f"{WHAT[kind]} of picked rows that share a segment id, in num_segments segments. "
            f"TF: {name}.")
    class Counted:
        shape = _shape
        gradient = _gradient_of(kind)

        def reference(data, indices, segment_ids, num_segments):
            return _segments(kind, data, indices, segment_ids, int(num_segments))
        samples = COUNTED
    return Counted


def _grad(kind, counted):
    name = f"SparseSegment{kind}"

    @op(f"{name}Grad", inputs=GRADIENT, outputs="output: T", T=FLOATS, attrs=TYPES,
        doc=f"The gradient of {name} by its data, itself differentiable. TF: {name}Grad.")
    class Grad:
        def shape(op):
            match(op, None, "n", "n", "")
            dims, n = dims_of(op.inputs[0].shape), static(op.inputs[3])
            if dims is None:
                return unknown_shape()
            if not dims or n is not None and n < 0:
                raise ValueError(f"{op.type}: {n} rows of shape {op.inputs[0].shape}")
            return TensorShape([None if n is None else int(n)] + dims[1:])

        def gradient(op, dy):
            grad, indices, ids = op.inputs[:3]
            return [counted(dy, indices, ids, _rows_of(grad)), None, None, None]

        def reference(grad, indices, segment_ids, output_dim0):
            result = np.zeros((int(output_dim0),) + grad.shape[1:], grad.dtype)
            counts = np.bincount(segment_ids, minlength=1)
            for at, i in zip(indices, segment_ids):
                result[at] += grad[i] * grad.dtype.type(_scale(kind, counts[i]))
            return result
        samples = [S((4, 3), lit(AT), lit(IDS), lit(5)), S((4,), lit(AT), lit(IDS), lit(4))]
    return Grad


def _family(kind, types):
    counted = _counted(kind, types)
    return _plain(kind, types), counted, _grad(kind, counted)


SparseSegmentSum, SparseSegmentSumWithNumSegments, SparseSegmentSumGrad = _family("Sum", REAL)
SparseSegmentMean, SparseSegmentMeanWithNumSegments, SparseSegmentMeanGrad = _family("Mean", FLOATS)
(SparseSegmentSqrtN, SparseSegmentSqrtNWithNumSegments,
 SparseSegmentSqrtNGrad) = _family("SqrtN", FLOATS)
