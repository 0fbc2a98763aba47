"""Places found by value, updates at places, and quantities counted: LowerBound, UnravelIndex,
TensorScatterAdd and its like, HistogramFixedWidth.

Invariants
  1. Searches want rising rows; of equal values LowerBound gives the first place, UpperBound the
     one behind the last.
  2. TensorScatter ops copy their input; repeated places are updated in order.

Example:  `LowerBound([[1, 3, 5]], [[3, 4]])` -> [[1, 2]].
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import NUMBERS, REAL
from pyflow.framework.op import S, UNREGISTERED, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import static
from pyflow.ops.base.scatter_shapes import scattered
from pyflow.ops.base.shape_rules import match


# ---------------------------------------------------------------------------------- searches
def _bound(name, side, doc):
    @op(name, inputs="sorted_inputs: T, values: T", outputs="output: out_type",
        attrs="T: type, out_type: {int32, int64} = int32", doc=doc)
    class Bound:
        def shape(op):
            for tensor in op.inputs:
                if tensor.shape.ndims not in (None, 2):
                    raise ValueError(f"{op.type}: expected matrices, got shape {tensor.shape}")
            return op.inputs[1].shape
        gradient = UNREGISTERED

        def reference(sorted_inputs, values):
            rows = [np.searchsorted(s, v, side) for s, v in zip(sorted_inputs, values)]
            return np.array(rows, np.int64).reshape(values.shape)
        samples = [S(lit([[0, 3, 3, 9]]), lit([[3, 0, 10, 4, 5]])),
                   S(lit([[0, 3], [2, 2]]), lit([[3, 0, 1], [2, 1, 3]])),
                   S(lit(np.zeros((1, 0))), lit([[1, 2]])),
                   S(lit([[0, 3]]), lit([[1]]), out_type=dtypes.int64)]
    return Bound


LowerBound = _bound("LowerBound", "left", "Where values could be put into rising rows, before "
                    "equal ones; no gradient. TF: LowerBound.")
UpperBound = _bound("UpperBound", "right", "Where values could be put into rising rows, behind "
                    "equal ones; no gradient. TF: UpperBound.")


@op("UnravelIndex", inputs="indices: Tidx, dims: Tidx", outputs="output: Tidx",
    attrs="Tidx: {int32, int64} = int32")
class UnravelIndex:
    """Flat places as coordinates [rank, n] (a vector for one place); no gradient. TF:
    UnravelIndex."""
    def shape(op):
        rank, at = match(op, None, "r").size("r"), op.inputs[0].shape
        if at.ndims is None:
            return unknown_shape()
        return TensorShape([rank]).concatenate(at if at.ndims == 0 else [at.num_elements()])
    gradient = UNREGISTERED

    def reference(indices, dims):
        return np.array(np.unravel_index(indices, [int(d) for d in dims])).astype(indices.dtype)
    samples = [S(lit([2, 5, 7]), lit([3, 3])), S(lit(5), lit([2, 3])),
               S(lit(np.zeros(0, int)), lit([2]))]


@op("HistogramFixedWidth", inputs="values: T, value_range: T, nbins: int32", outputs="out: dtype",
    attrs="T: {int32, int64, float, double}, dtype: {int32, int64} = int32")
class HistogramFixedWidth:
    """How many values lie in each of nbins equal parts of the range, the ends included for what
    lies
    beyond; no gradient. TF: HistogramFixedWidth."""
    def shape(op):
        match(op, None, "2", "")
        n = static(op.inputs[2])
        if n is not None and n <= 0:
            raise ValueError(f"Requires nbins > 0: {n}")
        return TensorShape([None if n is None else int(n)])
    gradient = UNREGISTERED

    def reference(values, value_range, nbins):
        low, high = (float(v) for v in value_range)
        at = np.floor((values.astype(float) - low) / ((high - low) / int(nbins))).astype(int)
        return np.bincount(at.clip(0, int(nbins) - 1).ravel(), minlength=int(nbins))
    samples = [S(lit([[-1, 0, 1], [2, 4, 9]]), lit([0, 5]), lit(5)),
               S(lit([1, 1, 2]), lit([0, 2]), lit(3), dtype=dtypes.int64),
               S(lit(np.zeros(0)), lit([0, 2]), lit(2))]


# ----------------------------------------------------------------------------- scattered updates
PLACES = [S((3, 2), lit([[0], [2], [0]]), (3, 2)), S((3, 2), lit([[0, 1], [2, 0]]), (2,)),
          S((4,), lit([[[1]], [[3]]]), (2, 1)), S((2, 3), lit(np.zeros((0, 1), int)), (0, 3))]


def _scattered(name, ufunc, types, gradient_of, doc):
    @op(name, inputs="tensor: T, indices: Tindices, updates: T", outputs="output: T", doc=doc,
        attrs='Tindices: {int32, int64}, bad_indices_policy: string = ""', T=types)
    class Scattered:
        def shape(op):
            return scattered(op, op.inputs[0].shape, op.inputs[1], op.inputs[2])
        gradient = gradient_of

        def reference(tensor, indices, updates):
            result = tensor.copy()
            ufunc.at(result, tuple(np.moveaxis(indices, -1, 0)), updates)
            return result
        samples = PLACES
    return Scattered


def _sum_gradient(sign):
    def gradient(op, dy):
        updates = raw_ops.GatherNd(dy, op.inputs[1])
        return [dy, None, updates if sign > 0 else -updates]
    return gradient


def _extremum_gradient(op, dy):
    """To whoever attains the extremum, shared equally."""
    tensor, indices, updates = op.inputs
    y = op.outputs[0]
    own = tensors.cast(raw_ops.Equal(tensor, y), dy.dtype)
    theirs = tensors.cast(raw_ops.Equal(updates, raw_ops.GatherNd(y, indices)), dy.dtype)
    share = dy / raw_ops.Maximum(TensorScatterAdd(own, indices, theirs),
                                 tensors.ones_like(dy))
    return [share * own, None, theirs * raw_ops.GatherNd(share, indices)]


TensorScatterAdd = _scattered("TensorScatterAdd", np.add, NUMBERS, _sum_gradient(1),
                              "A tensor with updates added at index vectors. TF: TensorScatterAdd.")
TensorScatterSub = _scattered("TensorScatterSub", np.subtract, NUMBERS, _sum_gradient(-1),
                              "A tensor with updates taken off at index vectors. "
                              "TF: TensorScatterSub.")
TensorScatterMax = _scattered("TensorScatterMax", np.maximum, REAL, _extremum_gradient,
                              "A tensor with the larger of itself and updates at index vectors. "
                              "TF: TensorScatterMax.")
TensorScatterMin = _scattered("TensorScatterMin", np.minimum, REAL, _extremum_gradient,
                              "A tensor with the smaller of itself and updates at index vectors. "
                              "TF: TensorScatterMin.")

PUBLIC = {"unravel_index": UnravelIndex}
