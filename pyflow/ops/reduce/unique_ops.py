"""Values that occur, once each: Unique in its forms, and what one list has and another has not.

Invariants
  1. The number of results depends on values: it is None in static shapes.
  2. The order is that of first appearance.

Example:  `Unique([7, 7, 9])` -> ([7, 9], [0, 0, 1]).
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, ints, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.shape_rules import by_pattern, match


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


# ---------------------------------------------------------------------------------- searches
@op("UniqueWithCountsV2", inputs="x: T, axis: Taxis", outputs="y: T, idx: out_idx, count: out_idx",
    attrs="T: type, Taxis: {int32, int64} = int64, out_idx: {int32, int64} = int32")
class UniqueWithCountsV2:
    """Distinct values of a vector, where each went and how often it occurs; `axis` is 0 or empty.
    TF: UniqueWithCountsV2."""
    shape = by_pattern("n", "_", "->", "distinct", "n", "distinct")
    gradient = UNREGISTERED

    def reference(x): return _unique(x)
    samples = [S(lit([1, 1, 2, 4, 4, 1, 8]), lit(np.zeros(0, np.int64))), S(lit([3, 3]), lit([0]))]
