"""Picking and placing by index: Gather, GatherNd, ScatterNd, OneHot, SparseToDense.

Invariants
  1. An index outside its dimension is an InvalidArgumentError of the step that names index and
     size.
  2. Gathering along axis 0 has an IndexedSlices gradient: its cost is that of the rows, not of the
     table.
  3. ScatterNd adds where indices repeat.

Example:  `tf.gather([10, 20, 30], [2, 0])` -> [30, 10].
"""
import numpy as np

from pyflow.framework import dtypes, errors, graph
from pyflow.framework.op import S, ints, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import (dims_of, int32s, normal_axis, shape_vector,
                                    static, static_shape)
from pyflow.ops.base.scatter_shapes import scattered
from pyflow.ops.base.shape_rules import match


# --------------------------------------------------------------------------------------------- rows
def _gather_shape(op):
    params, indices = dims_of(op.inputs[0].shape), dims_of(op.inputs[1].shape)
    if params is not None and not params:
        raise ValueError("Gather: params must have at least one dimension, got a scalar")
    if params is None or indices is None:
        return unknown_shape()
    return TensorShape(indices + params[1:])


def _row_slices(params, indices, dy):
    """IndexedSlices for rows of `params`; indices and values flattened to vectors of rows."""
    dy = graph.convert_to_tensor(dy)        # its values are a tensor: rows of rows are made dense
    dims = dims_of(params.shape)
    count = dims_of(indices.shape)
    flat = raw_ops.Reshape(indices, int32s([-1])) if count is None or len(count) != 1 else indices
    if dims is not None and None not in dims[1:]:
        values = dy
        if count is None or len(count) != 1:
            rows = -1 if count is None or None in count else int(np.prod(count, dtype=np.int64))
            values = raw_ops.Reshape(dy, int32s([rows] + dims[1:]))
        return graph.IndexedSlices(values, flat, graph.convert_to_tensor(shape_vector(params)))
    with graph.colocate_with(params):       # its shape travels, and not a table
        whole = raw_ops.Shape(params)
    tail = raw_ops.StridedSlice(whole, [1], [0], [1], end_mask=1)
    rows = raw_ops.Reshape(raw_ops.Size(indices), int32s([1]))
    return graph.IndexedSlices(raw_ops.Reshape(dy, tensors.concat([rows, tail], 0)), flat, whole)


@op("Gather", inputs="params: Tparams, indices: Tindices", outputs="output: Tparams",
    attrs="validate_indices: bool = true, Tparams: type, Tindices: {int32, int64}")
class Gather:
    """Rows of `params` by index, the older form. TF: Gather."""
    shape = _gather_shape

    def gradient(op, dy):
        return [_row_slices(op.inputs[0], op.inputs[1], dy), None]

    def reference(params, indices): return params[indices]
    samples = [S((4, 3), ints((2,), 0, 4)), S((4,), ints((2, 3), 0, 4)), S((4, 3), ints((), 0, 4)),
               S((4, 3), ints((0,), 0, 4))]


def _gather_v2_shape(op):
    params, indices = dims_of(op.inputs[0].shape), dims_of(op.inputs[1].shape)
    axis = static(op.inputs[2])
    match(op, None, None, "")
    if params is not None and not params:
        raise ValueError("GatherV2: params must have at least one dimension, got a scalar")
    batch = op.attr("batch_dims")
    if params is None or indices is None:
        return unknown_shape()
    if batch < 0:
        batch += len(indices)
    if axis is None:
        return unknown_shape(len(params) + len(indices) - 1 - batch)
    at = normal_axis(int(axis), len(params))
    if not 0 <= batch <= min(len(indices), at):
        raise ValueError(f"GatherV2: batch_dims {batch} must be between 0 and axis {at} and at "
                         "most the rank "
                         f"{len(indices)} of indices")
    return TensorShape(params[:at] + indices[batch:] + params[at + 1:])


def _take(params, indices, axis, batch_dims):
    axis = int(axis) % params.ndim
    batch = batch_dims % indices.ndim if batch_dims < 0 else batch_dims
    if not batch:
        return np.take(params, indices, axis)
    rows = [_take(p, i, axis - 1, batch - 1) for p, i in zip(params, indices)]
    shape = params.shape[:axis] + indices.shape[batch:] + params.shape[axis + 1:]
    return np.stack(rows) if rows else np.zeros(shape, params.dtype)


def _gather_v2_gradient(op, dy):
    params, indices = op.inputs[0], op.inputs[1]
    axis, batch = static(op.inputs[2]), op.attr("batch_dims")
    rank, index_rank = params.shape.ndims, indices.shape.ndims
    if axis is not None and int(axis) == 0 and not batch:
        return [_row_slices(params, indices, dy), None, None]
    dy = graph.convert_to_tensor(dy)
    if axis is None or rank is None or index_rank is None:
        return [_gradient_by_shapes(params, indices, op.inputs[2], batch, dy), None, None]
    at, batch = normal_axis(int(axis), rank), batch % index_rank if batch < 0 else batch
    if batch:
        return [_batched_gradient(params, indices, dy, at, batch), None, None]
    n, k = rank, index_rank
    front = list(range(at, at + k)) + list(range(at)) + list(range(at + k, n + k - 1))
    moved = raw_ops.Transpose(dy, int32s(front))
    rows = tensors.shape(params)[at]
    total = raw_ops.UnsortedSegmentSum(moved, indices, rows)
    back = list(range(1, at + 1)) + [0] + list(range(at + 1, n))
    return [raw_ops.Transpose(total, int32s(back)), None, None]


def _gradient_by_shapes(params, indices, axis, batch, dy):
    """As `_batched_gradient`, where axis or ranks are known in the step alone.

    dy is seen as [batch..., outer..., places, inner...]; its places go behind the batch, where they
    are summed into rows numbered by batch and index."""

    def product(sizes):
        return raw_ops.Prod(sizes, int32s([0]))
    dims, index_dims = raw_ops.Shape(params), raw_ops.Shape(indices)
    rank = raw_ops.Size(dims)
    at = raw_ops.FloorMod(tensors.cast(axis, dtypes.int32), rank)
    if batch < 0:
        batch = batch + raw_ops.Size(index_dims)
    outer, inner, pairs = dims[:at], dims[at + 1:], dims[:batch]
    places = product(index_dims[batch:])
    seen = raw_ops.Reshape(dy, tensors.concat([outer, [places], inner], 0))
    before, behind = tensors.range_(batch), tensors.range_(at + 1, rank)
    between = tensors.range_(batch, at)
    front = tensors.concat([before, [at], between, behind], 0)
    rows = raw_ops.Transpose(seen, front)
    groups, size = product(pairs), dims[at]
    starts = raw_ops.ExpandDims(tensors.range_(groups) * size, 1)
    numbers = raw_ops.Reshape(tensors.cast(indices, dtypes.int32), [groups, places]) + starts
    rest = GatherV2(dims, tensors.concat([between, behind], 0), 0)
    rows = raw_ops.Reshape(rows, tensors.concat([[groups * places], rest], 0))
    flat = raw_ops.Reshape(numbers, [groups * places])
    total = raw_ops.UnsortedSegmentSum(rows, flat, groups * size)
    total = raw_ops.Reshape(total, tensors.concat([pairs, [size], rest], 0))
    return raw_ops.Transpose(total, raw_ops.InvertPermutation(front))


def _batched_gradient(params, indices, dy, axis, batch):
    """Gather with batch_dims as one gather over rows numbered by batch and axis."""
    n, k = params.shape.ndims, indices.shape.ndims - batch
    order = list(range(batch)) + list(range(axis, axis + k)) + list(range(batch, axis))
    order += list(range(axis + k, n + k - 1))
    moved = raw_ops.Transpose(dy, int32s(order))
    dims, index_dims = tensors.shape(params), tensors.shape(indices)
    groups = raw_ops.Prod(dims[:batch], 0)
    starts = raw_ops.Range(0, groups, 1) * dims[axis]
    ones = raw_ops.Fill(int32s([k]), 1)
    starts = raw_ops.Reshape(starts, tensors.concat([index_dims[:batch], ones], 0))
    rows = tensors.cast(indices, dtypes.int32) + starts
    total = raw_ops.UnsortedSegmentSum(moved, rows, groups * dims[axis])
    inner = [dims[:batch], dims[axis:axis + 1], dims[batch:axis], dims[axis + 1:]]
    total = raw_ops.Reshape(total, tensors.concat(inner, 0))
    back = list(range(batch)) + list(range(batch + 1, axis + 1)) + [batch] + list(range(axis + 1,
                                                                                        n))
    return raw_ops.Transpose(total, int32s(back))


@op("GatherV2", inputs="params: Tparams, indices: Tindices, axis: Taxis", outputs="output: Tparams",
    attrs="batch_dims: int = 0, Tparams: type, Tindices: {int16, int32, int64}, Taxis: {int32, "
          "int64}")
class GatherV2:
    """Slices of `params` along `axis` by index, `batch_dims` leading dimensions paired.
    TF: GatherV2."""
    shape = _gather_v2_shape
    gradient = _gather_v2_gradient

    def reference(params, indices, axis, batch_dims):
        return _take(params, indices, axis, batch_dims)
    samples = [S((4, 3), ints((2,), 0, 4), lit(0)), S((4, 3), ints((2, 2), 0, 3), lit(1)),
               S((4, 3), ints((), 0, 3), lit(-1)), S((4, 3), ints((0,), 0, 4), lit(0)),
               S((2, 4, 3), ints((2, 2), 0, 4), lit(1), batch_dims=1),
               S((2, 3, 4), ints((2, 2), 0, 4), lit(2), batch_dims=1)]


# ------------------------------------------------------------------------------------ N-dimensional
def _gather_nd_shape(op):
    params, indices = dims_of(op.inputs[0].shape), dims_of(op.inputs[1].shape)
    if indices is not None and not indices:
        raise ValueError("GatherNd: indices must have at least one dimension")
    if params is None or indices is None or indices[-1] is None:
        return unknown_shape()
    if indices[-1] > len(params):
        raise ValueError(f"GatherNd: indices.shape[-1] = {indices[-1]} is more than the rank "
                         f"{len(params)} "
                         "of params")
    return TensorShape(indices[:-1] + params[indices[-1]:])


@op("GatherNd", inputs="params: Tparams, indices: Tindices", outputs="output: Tparams",
    attrs='Tparams: type, Tindices: {int16, int32, int64}, bad_indices_policy: string = ""')
class GatherNd:
    """Slices of `params` at the index vectors along the last dimension of `indices`.
    TF: GatherNd."""
    shape = _gather_nd_shape

    def gradient(op, dy):
        params, indices = op.inputs
        if params.shape.is_fully_defined():
            whole = np.array(params.shape.as_list(), indices.dtype.as_numpy_dtype)
        else:
            whole = raw_ops.Shape(params, out_type=indices.dtype)
        return [ScatterNd(indices, dy, whole), None]

    def reference(params, indices): return params[tuple(np.moveaxis(indices, -1, 0))]
    samples = [S((4, 3), lit([[0, 1], [3, 2]])), S((4, 3), lit([[2], [0]])), S((4, 3), lit([1, 1])),
               S((2, 3, 4), lit([[[0, 2], [1, 1]]])), S((4, 3), lit(np.zeros((0, 2), np.int32)))]


@op("ScatterNd", inputs="indices: Tindices, updates: T, shape: Tindices", outputs="output: T",
    attrs='T: type, Tindices: {int16, int32, int64}, bad_indices_policy: string = ""')
class ScatterNd:
    """Zeros of `shape` with `updates` added at the index vectors `indices`. TF: ScatterNd."""
    def shape(op): return scattered(op, static_shape(op.inputs[2]), op.inputs[0], op.inputs[1])

    def gradient(op, dy):
        return [None, GatherNd(dy, op.inputs[0]), None]

    def reference(indices, updates, shape):
        result = np.zeros([int(d) for d in shape], updates.dtype)
        np.add.at(result, tuple(np.moveaxis(indices, -1, 0)), updates)
        return result
    samples = [S(lit([[4], [3], [1]]), (3,), lit([8])),
               S(lit([[0], [2], [0]]), (3, 2), lit([3, 2])),
               S(lit([[0, 1], [1, 1]]), (2,), lit([2, 2])),
               S(lit(np.zeros((0, 1), np.int32)), (0, 2), lit([3, 2]))]


@op("TensorScatterUpdate", inputs="tensor: T, indices: Tindices, updates: T", outputs="output: T",
    attrs='T: type, Tindices: {int16, int32, int64, uint16}, bad_indices_policy: string = ""')
class TensorScatterUpdate:
    """`tensor` with `updates` in place of what stood at `indices` (each given once).
    TF: TensorScatterUpdate."""
    def shape(op): return scattered(op, op.inputs[0].shape, op.inputs[1], op.inputs[2])

    def gradient(op, dy):
        indices, updates = op.inputs[1], op.inputs[2]
        kept = TensorScatterUpdate(dy, indices, tensors.zeros_like(updates))
        return [kept, None, GatherNd(dy, indices)]

    def reference(tensor, indices, updates):
        result = tensor.copy()
        result[tuple(np.moveaxis(indices, -1, 0))] = updates
        return result
    samples = [S((8,), lit([[4], [3], [1]]), (3,)), S((3, 2), lit([[2], [0]]), (2, 2))]


# --------------------------------------------------------------------------------------- indicators
def _one_hot_shape(op):
    dims, depth = dims_of(op.inputs[0].shape), static(op.inputs[1])
    if dims is None:
        return unknown_shape()
    if op.attr("axis") < -1:
        raise ValueError(f"axis must be >= -1, got {op.attr('axis')}")
    at = normal_axis(op.attr("axis"), len(dims) + 1)
    return TensorShape(dims[:at] + [None if depth is None else int(depth)] + dims[at:])


@op("OneHot", inputs="indices: TI, depth: int32, on_value: T, off_value: T", outputs="output: T",
    attrs="axis: int = -1, T: type, TI: {uint8, int8, int32, int64} = int64")
class OneHot:
    """`on_value` at each index along a new dimension `depth`, `off_value` elsewhere. TF: OneHot."""
    shape = _one_hot_shape
    gradient = None

    def reference(indices, depth, on_value, off_value, axis):
        hit = np.expand_dims(indices, -1) == np.arange(int(depth))
        return np.moveaxis(np.where(hit, on_value, off_value), -1, axis)
    samples = [S(lit([0, 2, -1, 1]), lit(3), lit(1), lit(0)),
               S(lit([[0, 2], [1, 5]]), lit(3), lit(5), lit(2), axis=0),
               S(lit(1), lit(3), lit(1), lit(0)), S(lit([[0, 2]]), lit(3), lit(1), lit(0), axis=1),
               S(lit(np.zeros(0, np.int64)), lit(2), lit(1), lit(0))]


@op("SparseToDense",
    inputs="sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, default_value: T",
    outputs="dense: T", attrs="validate_indices: bool = true, T: type, Tindices: {int32, int64}")
class SparseToDense:
    """`default_value` everywhere but `sparse_values` at `sparse_indices` (scalar, [n] or [n, d]).
    TF: SparseToDense."""
    def shape(op):
        match(op, None, "_")
        default = op.inputs[3].shape
        if default.ndims not in (None, 0):      # TensorFlow tells in the step, by this error
            raise errors.InvalidArgumentError(
                None, op, f"SparseToDense: default_value must be a scalar, got shape {default}")
        return static_shape(op.inputs[1])

    def gradient(op, dy):
        indices, whole, values, default = op.inputs
        n = indices.shape.ndims
        if n is None:                           # one number a dimension of the result
            indices = raw_ops.Reshape(
                indices, raw_ops.ConcatV2([int32s([-1]), shape_vector(whole)], int32s(0)))
        elif n < 2:
            indices = raw_ops.Reshape(indices, int32s([-1, 1]))
        picked = GatherNd(dy, indices)
        if values.shape.ndims == 0:
            picked = tensors.sum_of(picked)
        else:
            picked = raw_ops.Reshape(picked, shape_vector(values))
        rest = tensors.sum_of(dy) - tensors.sum_of(picked)
        return [None, None, picked, rest]

    def reference(sparse_indices, output_shape, sparse_values, default_value):
        result = np.full([int(d) for d in output_shape], default_value)
        index = sparse_indices if sparse_indices.ndim == 2 else sparse_indices.reshape(-1, 1)
        result[tuple(index.T)] = sparse_values
        return result
    samples = [S(lit([[0, 1], [1, 2]]), lit([2, 3]), (2,), ()), S(lit([1, 3]), lit([5]), (2,), ()),
               S(lit([1, 3]), lit([5]), (), ()), S(lit(2), lit([4]), (), ())]
