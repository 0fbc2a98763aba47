"""Places found by value: searchsorted, sort, argsort, histograms; updates at places."""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.array import gather_functions, partition_functions
from pyflow.lib.control_flow import check_functions, grouping
from pyflow.lib.math import reductions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import static
from pyflow.ops.elementwise import binary_ops, logic_ops, unary_ops
from pyflow.ops.move import array_ops
from pyflow.ops.reduce.lookup_ops import (HistogramFixedWidth, LowerBound, TensorScatterAdd,
                                          TensorScatterMax, TensorScatterMin, TensorScatterSub,
                                          UpperBound)


# ----------------------------------------------------------------------------- scattered updates
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
        size = tensors.shape(rows)[-1:]
        flat = tensors.reshape(rows, tensors.concat([[-1], size], 0))
        wanted = tensors.reshape(values, tensors.concat([[-1], tensors.shape(values)[-1:]], 0))
        bound = LowerBound if side == "left" else UpperBound
        return tensors.reshape(bound(flat, wanted, out_type=out_type), tensors.shape(values))


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
        axis, places = binary_ops.FloorMod(axis, rank), tensors.range_(rank)
        others = logic_ops.Select(logic_ops.Equal(places, rank - 1),
                                  tensors.zeros_like(places) + axis, places)
        return logic_ops.Select(logic_ops.Equal(places, axis),
                                tensors.zeros_like(places) + (rank - 1), others)
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
    moved = x if order is None else tensors.transpose(x, order)
    ascending = direction == "ASCENDING"
    keys = moved
    if ascending:
        if moved.dtype.is_unsigned or moved.dtype.is_integer:
            keys = graph.convert_to_tensor(-1 if not moved.dtype.is_unsigned else moved.dtype.max,
                                           dtype=moved.dtype) - moved
        else:
            keys = -moved
    found, places = partition_functions.top_k(keys, tensors.shape(moved)[-1])
    if of_places:
        result = places
    elif ascending and moved.dtype.is_integer:
        result = graph.convert_to_tensor(-1 if not moved.dtype.is_unsigned else moved.dtype.max,
                                         dtype=moved.dtype) - found
    else:
        result = -found if ascending else found
    result = result if order is None else tensors.transpose(result, order)
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
            values, span = tensors.cast(values, dtypes.float32), tensors.cast(span, dtypes.float32)
        elif values.dtype.is_integer and values.dtype.size < 4:
            values, span = tensors.cast(values, dtypes.int32), tensors.cast(span, dtypes.int32)
        return HistogramFixedWidth(values, span, nbins, dtype=dtype)


def histogram_fixed_width_bins(values, value_range, nbins=100, dtype=dtypes.int32, name=None):
    """For each value the number of its bin. TF: tf.histogram_fixed_width_bins.
    Dtypes, shapes, errors: as ops Maximum, Minimum and RealDiv."""
    with graph.name_scope(name, "histogram_fixed_width_bins", [values, value_range, nbins]):
        x = graph.convert_to_tensor(values, name="values")
        shape = tensors.shape(x)
        x = tensors.reshape(x, [-1])
        ends = graph.convert_to_tensor(value_range, name="value_range", dtype=x.dtype)
        n = graph.convert_to_tensor(nbins, dtype=dtypes.int32, name="nbins")
        wide = tensors.cast(n, dtypes.float64)
        share = binary_ops.RealDiv(tensors.cast(x - ends[0], dtypes.float64),
                                   tensors.cast(ends[1] - ends[0], dtypes.float64))
        at = unary_ops.Floor(wide * share)
        at = binary_ops.Maximum(binary_ops.Minimum(at, wide - 1.0), np.float64(0))
        return tensors.reshape(tensors.cast(tensors.cast(at, dtypes.int32), dtype), shape)


def confusion_matrix(labels, predictions, num_classes=None, dtype=dtypes.int32, name=None,
                     weights=None):
    """[n, n] counts (or sums of weights) of label i predicted as j. TF: tf.confusion_matrix.
    Dtypes, shapes, errors: as op Maximum."""
    with graph.name_scope(name, "confusion_matrix", [predictions, labels, num_classes, weights]):
        labels, predictions = _squeezed(labels, predictions)
        labels = grouping.with_dependencies(
            [check_functions.assert_non_negative(labels,
                                                 message="`labels` contains negative values")],
            labels)
        predictions = grouping.with_dependencies(
            [check_functions.assert_non_negative(predictions,
                                                 message="`predictions` contains negative values")],
            predictions)
        labels, predictions = (tensors.cast(x, dtypes.int64) for x in (labels, predictions))
        if num_classes is None:
            n = binary_ops.Maximum(reductions.reduce_max(predictions),
                                   reductions.reduce_max(labels)) + 1
        else:
            n = tensors.cast(graph.convert_to_tensor(num_classes), dtypes.int64)
            labels, predictions = (grouping.with_dependencies(
                [check_functions.assert_less(x, n, message=f"`{what}` out of bound")], x)
                for x, what in ((labels, "labels"), (predictions, "predictions")))
        if weights is None:
            values = tensors.ones_like(predictions, dtype)
        else:
            weights = graph.convert_to_tensor(weights)
            predictions.shape.assert_is_compatible_with(weights.shape)
            values = tensors.cast(weights, dtype)
        places = tensors.stack([labels, predictions], axis=1)
        return gather_functions.scatter_nd(places, values, tensors.stack([n, n]))


def _squeezed(labels, predictions):
    """Both as vectors of one rank: a last dimension of 1 that the other lacks is dropped."""
    labels, predictions = graph.convert_to_tensor(labels), graph.convert_to_tensor(predictions)
    ranks = labels.shape.ndims, predictions.shape.ndims
    if None not in ranks:
        if ranks[1] - ranks[0] == 1 and predictions.shape[-1].is_compatible_with(1):
            predictions = tensors.squeeze(predictions, [-1])
        if ranks[0] - ranks[1] == 1 and labels.shape[-1].is_compatible_with(1):
            labels = tensors.squeeze(labels, [-1])
    return labels, predictions


PUBLIC = {
    "searchsorted": searchsorted, "sort": sort, "argsort": argsort,
    "histogram_fixed_width": histogram_fixed_width,
    "histogram_fixed_width_bins": histogram_fixed_width_bins, "confusion_matrix": confusion_matrix,
    "math.confusion_matrix": confusion_matrix, "tensor_scatter_add": tensor_scatter_add,
    "tensor_scatter_nd_add": tensor_scatter_add, "tensor_scatter_sub": tensor_scatter_sub,
    "tensor_scatter_nd_sub": tensor_scatter_sub, "tensor_scatter_nd_max": tensor_scatter_max,
    "tensor_scatter_nd_min": tensor_scatter_min,
}
