"""Values put into buckets and counted: Bincount, and what Keras's Discretization and
CategoryEncoding freeze to.

Invariant: integer results only depend on comparisons; there are no gradients.

Example:  `tf.raw_ops.Bucketize(input=[-5.0, 10000.0, 150.0], boundaries=[0.0, 100.0])`  # [0, 2, 2]
"""
import numpy as np

from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base.common import static, unchanged
from pyflow.ops.base.shape_rules import match


@op("Bucketize", inputs="input: T", outputs="output: int32",
    attrs="T: {int32, int64, float, double}, boundaries: list(float)")
class Bucketize:
    """How many of the sorted `boundaries` are at or below each element. TF: Bucketize."""
    shape = unchanged
    gradient = UNREGISTERED

    def reference(input, boundaries):
        return np.searchsorted(np.array(boundaries, float), input, "right").astype(np.int32)
    samples = [S(lit([[-5, 10000], [150, 10], [5, 100]]), boundaries=[0.0, 10.0, 100.0]),
               S(lit([1, 2, 3]), boundaries=[]), S(lit(np.zeros((0, 2))), boundaries=[1.0]),
               S(lit(4), boundaries=[4.0, 4.0])]


@op("DenseBincount", inputs="input: Tidx, size: Tidx, weights: T", outputs="output: T",
    attrs="Tidx: {int32, int64}, T: {int32, int64, float, double}, binary_output: bool = false")
class DenseBincount:
    """How often (with what total weight; whether at all) each of 0 .. size-1 occurs in a vector, or
    in each row. TF: DenseBincount."""
    def shape(op):
        match(op, None, "")
        size, rank = static(op.inputs[1]), op.inputs[0].shape.ndims
        if rank is None:
            return unknown_shape()
        if rank > 2:
            raise ValueError(f"DenseBincount: input must be at most rank 2, got {rank}")
        return TensorShape(op.inputs[0].shape.as_list()[:rank - 1] * (rank == 2) + [
            None if size is None else int(size)])
    gradient = UNREGISTERED

    def reference(input, size, weights, binary_output):
        def count(row, w):
            keep = row < size
            found = np.bincount(row[keep], w[keep] if w.size else None, int(size))
            return found > 0 if binary_output else found
        rows = input.reshape(-1, input.shape[-1]) if input.ndim == 2 else input.reshape(1, -1)
        each = weights.reshape(rows.shape) if weights.size else [weights] * len(rows)
        found = np.array([count(r, w) for r, w in zip(rows, each)]).reshape(len(rows), int(size))
        return found if input.ndim == 2 else found[0]
    samples = [S(lit([1, 2, 1, 7]), lit(4), lit(np.zeros(0))),
               S(lit([[0, 2, 2], [1, 1, 5]]), lit(3), lit([[1, 2, 3], [4, 5, 6]])),
               S(lit([[0, 2, 2], [1, 1, 5]]), lit(3), lit(np.zeros(0)), binary_output=True),
               S(lit(np.zeros((0, 3), int)), lit(2), lit(np.zeros(0)))]


# ---------------------------------------------------------------------------------- sets and counts
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
