"""Places found by value, updates at places, and quantities counted: searchsorted, sort,
unravel_index, histograms, tensor_scatter_add and its like, confusion_matrix.

Invariants
  1. Searches want rising rows; of equal values LowerBound gives the first place, UpperBound the
  one behind the last.
  2. TensorScatter ops copy their input; repeated places are updated in order.

Example:  `tf.searchsorted([1, 3, 5], [3, 4])` -> [1, 2].
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.dtypes import NUMBERS, REAL
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.lib.control_flow import check_functions
from pyflow.ops.base.common import dims_of, static
from pyflow.ops.base.shape_rules import by_pattern, match
from pyflow.ops.control import control_flow_ops
from pyflow.ops.elementwise import binary_ops, cast_ops, logic_ops
from pyflow.ops.move import array_ops, gather_ops, join_ops, partition_ops
from pyflow.ops.reduce import reduction_ops


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
    lies beyond; no gradient. TF: HistogramFixedWidth."""
    def shape(op):
        match(op, None, "2", "")
        n = static(op.inputs[2])
        return TensorShape([None if n is None else int(n)])
    gradient = UNREGISTERED

    def reference(values, value_range, nbins):
        low, high = (float(v) for v in value_range)
        at = np.floor((values.astype(float) - low) / ((high - low) / int(nbins))).astype(int)
        return np.bincount(at.clip(0, int(nbins) - 1).ravel(), minlength=int(nbins))
    samples = [S(lit([[-1, 0, 1], [2, 4, 9]]), lit([0, 5]), lit(5)),
               S(lit([1, 1, 2]), lit([0, 2]), lit(3), dtype=dtypes.int64),
               S(lit(np.zeros(0)), lit([0, 2]), lit(2))]


@op("UniqueWithCountsV2", inputs="x: T, axis: Taxis", outputs="y: T, idx: out_idx, count: out_idx",
    attrs="T: type, Taxis: {int32, int64} = int64, out_idx: {int32, int64} = int32")
class UniqueWithCountsV2:
    """Distinct values of a vector, where each went and how often it occurs; `axis` is 0 or empty.
    TF: UniqueWithCountsV2."""
    shape = by_pattern("n", "_", "->", "distinct", "n", "distinct")
    gradient = UNREGISTERED

    def reference(x): return partition_ops._unique(x)
    samples = [S(lit([1, 1, 2, 4, 4, 1, 8]), lit(np.zeros(0, np.int64))), S(lit([3, 3]), lit([0]))]


# ----------------------------------------------------------------------------- scattered updates
PLACES = [S((3, 2), lit([[0], [2], [0]]), (3, 2)), S((3, 2), lit([[0, 1], [2, 0]]), (2,)),
          S((4,), lit([[[1]], [[3]]]), (2, 1)), S((2, 3), lit(np.zeros((0, 1), int)), (0, 3))]


def _scattered(name, ufunc, types, gradient_of, doc):
    @op(name, inputs="tensor: T, indices: Tindices, updates: T", outputs="output: T", doc=doc,
        attrs='Tindices: {int32, int64}, bad_indices_policy: string = ""', T=types)
    class Scattered:
        def shape(op):
            return gather_ops.scattered(op, op.inputs[0].shape, op.inputs[1], op.inputs[2])
        gradient = gradient_of

        def reference(tensor, indices, updates):
            result = tensor.copy()
            ufunc.at(result, tuple(np.moveaxis(indices, -1, 0)), updates)
            return result
        samples = PLACES
    return Scattered


def _sum_gradient(sign):
    def gradient(op, dy):
        updates = gather_ops.GatherNd(dy, op.inputs[1])
        return [dy, None, updates if sign > 0 else -updates]
    return gradient


def _extremum_gradient(op, dy):
    """To whoever attains the extremum, shared equally."""
    tensor, indices, updates = op.inputs
    y = op.outputs[0]
    own = cast_ops.cast(logic_ops.Equal(tensor, y), dy.dtype)
    theirs = cast_ops.cast(logic_ops.Equal(updates, gather_ops.GatherNd(y, indices)), dy.dtype)
    share = dy / binary_ops.Maximum(TensorScatterAdd(own, indices, theirs),
                                    array_ops.ones_like(dy))
    return [share * own, None, theirs * gather_ops.GatherNd(share, indices)]


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


def _scatter_function(op_def, name, doc):
    def scatter(tensor, indices, updates, name=None):
        return op_def(tensor, indices, updates, name=name)
    scatter.__name__ = scatter.__qualname__ = name
    scatter.__doc__ = doc + (
        "\n    tensor: numbers of any shape; indices: int32 or int64 [..., depth]; updates: the"
        " tensor's dtype,\n    [..., *tensor.shape[depth:]]; result: as tensor."
        " InvalidArgumentError for places outside it, ValueError\n    for shapes that do not fit.")
    return scatter


tensor_scatter_add = _scatter_function(TensorScatterAdd, "tensor_scatter_add",
                                       "`tensor` with `updates` added at `indices`. "
                                       "TF: tf.tensor_scatter_add.")
tensor_scatter_sub = _scatter_function(TensorScatterSub, "tensor_scatter_sub",
                                       "`tensor` with `updates` taken off at `indices`. "
                                       "TF: tf.tensor_scatter_sub.")
tensor_scatter_max = _scatter_function(TensorScatterMax, "tensor_scatter_nd_max",
                                       "`tensor` with the larger of itself and `updates`. "
                                       "TF: tf.tensor_scatter_nd_max.")
tensor_scatter_min = _scatter_function(TensorScatterMin, "tensor_scatter_nd_min",
                                       "`tensor` with the smaller of itself and `updates`. "
                                       "TF: tf.tensor_scatter_nd_min.")


# ------------------------------------------------------------------------------- functions
def searchsorted(sorted_sequence, values, side="left", out_type=dtypes.int32, name=None):
    """Where `values` could be put into rising rows: side "left" or "right". TF: tf.searchsorted.
    Dtypes, shapes, errors: as ops LowerBound and UpperBound."""
    if side not in ("left", "right"):
        raise ValueError("Argument `side` must be either 'right' or 'left'. "
                         f"Received: `side` = '{side}'.")
    with graph.name_scope(name, "SearchSorted", [sorted_sequence, values]):
        rows = graph.convert_to_tensor(sorted_sequence, name="sorted_sequence")
        values = graph.convert_to_tensor(values, name="values", dtype=rows.dtype)
        size = array_ops.shape(rows)[-1:]
        flat = array_ops.reshape(rows, join_ops.concat([[-1], size], 0))
        wanted = array_ops.reshape(values, join_ops.concat([[-1], array_ops.shape(values)[-1:]], 0))
        bound = LowerBound if side == "left" else UpperBound
        return array_ops.reshape(bound(flat, wanted, out_type=out_type), array_ops.shape(values))


def _constant_axis(axis):
    """`axis` as an int; ValueError if it is no scalar known while the graph is built."""
    known = static(axis) if isinstance(axis, graph.Tensor) else np.asarray(axis)
    if known is None or known.ndim:
        raise ValueError(f"Argument `axis` must be a constant scalar. Received: axis={axis}.")
    return int(known)


def _order_with_last(x, axis):
    """The order of dimensions in which `axis` and the last are exchanged; None if it is last."""
    rank = x.shape.ndims
    if axis == -1:
        return None
    if rank is None:
        rank = array_ops.Rank(x)
        axis, places = binary_ops.FloorMod(axis, rank), array_ops.range_(rank)
        others = logic_ops.Select(logic_ops.Equal(places, rank - 1),
                                  array_ops.zeros_like(places) + axis, places)
        return logic_ops.Select(logic_ops.Equal(places, axis),
                                array_ops.zeros_like(places) + (rank - 1), others)
    if not -rank <= axis < rank:
        raise ValueError(f"Axis {axis} is out of range for a tensor of rank {rank}")
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return None if order == list(range(rank)) else order


def _sorted(values, axis, direction, of_places):
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"{direction} should be one of ASCENDING, DESCENDING")
    axis = _constant_axis(axis)
    x = graph.convert_to_tensor(values, name="values")
    order = _order_with_last(x, axis)
    moved = x if order is None else array_ops.transpose(x, order)
    ascending = direction == "ASCENDING"
    keys = moved
    if ascending:
        if moved.dtype.is_unsigned or moved.dtype.is_integer:
            keys = graph.convert_to_tensor(-1 if not moved.dtype.is_unsigned else moved.dtype.max,
                                           dtype=moved.dtype) - moved
        else:
            keys = -moved
    found, places = partition_ops.top_k(keys, array_ops.shape(moved)[-1])
    if of_places:
        result = places
    elif ascending and moved.dtype.is_integer:
        result = graph.convert_to_tensor(-1 if not moved.dtype.is_unsigned else moved.dtype.max,
                                         dtype=moved.dtype) - found
    else:
        result = -found if ascending else found
    result = result if order is None else array_ops.transpose(result, order)
    result.set_shape(x.shape)
    return result


def sort(values, axis=-1, direction="ASCENDING", name=None):
    """Values in rising or falling order along an axis. TF: tf.sort.
    values: real numbers of rank 1 or more; result: the same shape and dtype. ValueError for another
    direction, a scalar, or an axis the values do not have."""
    with graph.name_scope(name, "sort"):
        return _sorted(values, axis, direction, False)


def argsort(values, axis=-1, direction="ASCENDING", stable=False, name=None):
    """The places that sort values along an axis, always stable. TF: tf.argsort.
    values: real numbers of rank 1 or more; result: int32 of the same shape. ValueError for another
    direction, a scalar, or an axis the values do not have."""
    with graph.name_scope(name, "argsort"):
        return _sorted(values, axis, direction, True)


def histogram_fixed_width(values, value_range, nbins=100, dtype=dtypes.int32, name=None):
    """Counts of `values` in `nbins` equal bins of value_range, the ends catching the rest.

    TF: tf.histogram_fixed_width.
    values: numbers of any shape; value_range: [2] of their dtype; result: [nbins] of `dtype`.
    InvalidArgumentError for NaN, a range that does not rise and nbins below 1."""
    with graph.name_scope(name, "histogram_fixed_width", [values, value_range, nbins]):
        values = graph.convert_to_tensor(values, name="values")
        span = graph.convert_to_tensor(value_range, dtype=values.dtype.base_dtype)
        if values.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16):
            values, span = cast_ops.cast(values, dtypes.float32), cast_ops.cast(span, dtypes.float32)
        elif values.dtype.is_integer and values.dtype.size < 4:
            values, span = cast_ops.cast(values, dtypes.int32), cast_ops.cast(span, dtypes.int32)
        return HistogramFixedWidth(values, span, nbins, dtype=dtype)


def histogram_fixed_width_bins(values, value_range, nbins=100, dtype=dtypes.int32, name=None):
    """For each value the number of its bin. TF: tf.histogram_fixed_width_bins.
    Dtypes, shapes, errors: as ops Maximum, Minimum and RealDiv."""
    with graph.name_scope(name, "histogram_fixed_width_bins", [values, value_range, nbins]):
        x = graph.convert_to_tensor(values, name="values")
        shape = array_ops.shape(x)
        x = array_ops.reshape(x, [-1])
        ends = graph.convert_to_tensor(value_range, name="value_range", dtype=x.dtype)
        n = graph.convert_to_tensor(nbins, dtype=dtypes.int32, name="nbins")
        wide = cast_ops.cast(n, dtypes.float64)
        share = binary_ops.RealDiv(cast_ops.cast(x - ends[0], dtypes.float64),
                                   cast_ops.cast(ends[1] - ends[0], dtypes.float64))
        from pyflow.ops.elementwise import unary_ops
        at = unary_ops.Floor(wide * share)
        at = binary_ops.Minimum(binary_ops.Maximum(at, np.float64(0)), wide - 1.0)
        return array_ops.reshape(cast_ops.cast(cast_ops.cast(at, dtypes.int32), dtype), shape)


def confusion_matrix(labels, predictions, num_classes=None, dtype=dtypes.int32, name=None,
                     weights=None):
    """[n, n] counts (or sums of weights) of label i predicted as j. TF: tf.confusion_matrix.
    Dtypes, shapes, errors: as op Maximum."""
    with graph.name_scope(name, "confusion_matrix", [predictions, labels, num_classes, weights]):
        labels, predictions = _squeezed(labels, predictions)
        labels = control_flow_ops.with_dependencies(
            [check_functions.assert_non_negative(labels, message="`labels` contains negative values")],
            labels)
        predictions = control_flow_ops.with_dependencies(
            [check_functions.assert_non_negative(predictions,
                                           message="`predictions` contains negative values")],
            predictions)
        labels, predictions = (cast_ops.cast(x, dtypes.int64) for x in (labels, predictions))
        if num_classes is None:
            n = binary_ops.Maximum(reduction_ops.reduce_max(predictions),
                                   reduction_ops.reduce_max(labels)) + 1
        else:
            n = cast_ops.cast(graph.convert_to_tensor(num_classes), dtypes.int64)
            labels, predictions = (control_flow_ops.with_dependencies(
                [check_functions.assert_less(x, n, message=f"`{what}` out of bound")], x)
                for x, what in ((labels, "labels"), (predictions, "predictions")))
        if weights is None:
            values = array_ops.ones_like(predictions, dtype)
        else:
            weights = graph.convert_to_tensor(weights)
            predictions.shape.assert_is_compatible_with(weights.shape)
            values = cast_ops.cast(weights, dtype)
        places = join_ops.stack([labels, predictions], axis=1)
        return gather_ops.scatter_nd(places, values, join_ops.stack([n, n]))


def _squeezed(labels, predictions):
    """Both as vectors of one rank: a last dimension of 1 that the other lacks is dropped."""
    labels, predictions = graph.convert_to_tensor(labels), graph.convert_to_tensor(predictions)
    ranks = labels.shape.ndims, predictions.shape.ndims
    if None not in ranks:
        if ranks[1] - ranks[0] == 1 and predictions.shape[-1].is_compatible_with(1):
            predictions = array_ops.squeeze(predictions, [-1])
        if ranks[0] - ranks[1] == 1 and labels.shape[-1].is_compatible_with(1):
            labels = array_ops.squeeze(labels, [-1])
    return labels, predictions


PUBLIC = {
    "searchsorted": searchsorted, "sort": sort, "argsort": argsort, "unravel_index": UnravelIndex,
    "histogram_fixed_width": histogram_fixed_width,
    "histogram_fixed_width_bins": histogram_fixed_width_bins, "confusion_matrix": confusion_matrix,
    "math.confusion_matrix": confusion_matrix, "tensor_scatter_add": tensor_scatter_add,
    "tensor_scatter_nd_add": tensor_scatter_add, "tensor_scatter_sub": tensor_scatter_sub,
    "tensor_scatter_nd_sub": tensor_scatter_sub, "tensor_scatter_nd_max": tensor_scatter_max,
    "tensor_scatter_nd_min": tensor_scatter_min,
}
