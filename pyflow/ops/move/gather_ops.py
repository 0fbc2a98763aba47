"""Picking and placing by index: Gather, GatherNd, ScatterNd, OneHot, SparseToDense,
embedding_lookup.

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
from pyflow.framework.op import S, ints, lit, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base.common import (at_least_rank, dims_of, int32s, normal_axis, shape_vector,
                                    static, static_shape)
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
    from pyflow.ops.move import array_ops, join_ops, slicing_ops
    dy = graph.convert_to_tensor(dy)        # its values are a tensor: rows of rows are made dense
    dims = dims_of(params.shape)
    count = dims_of(indices.shape)
    flat = array_ops.Reshape(indices, int32s([-1])) if count is None or len(count) != 1 else indices
    if dims is not None and None not in dims[1:]:
        values = dy
        if count is None or len(count) != 1:
            rows = -1 if count is None or None in count else int(np.prod(count, dtype=np.int64))
            values = array_ops.Reshape(dy, int32s([rows] + dims[1:]))
        return graph.IndexedSlices(values, flat, graph.convert_to_tensor(shape_vector(params)))
    whole = array_ops.Shape(params)
    tail = slicing_ops.StridedSlice(whole, [1], [0], [1], end_mask=1)
    rows = array_ops.Reshape(array_ops.Size(indices), int32s([1]))
    return graph.IndexedSlices(array_ops.Reshape(dy, join_ops.concat([rows, tail], 0)), flat, whole)


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
    from pyflow.ops.move import array_ops
    from pyflow.ops.reduce import segment_ops
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
    moved = array_ops.Transpose(dy, int32s(front))
    rows = array_ops.shape(params)[at]
    total = segment_ops.UnsortedSegmentSum(moved, indices, rows)
    back = list(range(1, at + 1)) + [0] + list(range(at + 1, n))
    return [array_ops.Transpose(total, int32s(back)), None, None]


def _gradient_by_shapes(params, indices, axis, batch, dy):
    """As `_batched_gradient`, where axis or ranks are known in the step alone.

    dy is seen as [batch..., outer..., places, inner...]; its places go behind the batch, where they
    are summed into rows numbered by batch and index."""
    from pyflow.ops.elementwise import binary_ops, cast_ops
    from pyflow.ops.move import array_ops, join_ops
    from pyflow.ops.reduce import reduction_ops, segment_ops

    def product(sizes):
        return reduction_ops.Prod(sizes, int32s([0]))
    dims, index_dims = array_ops.Shape(params), array_ops.Shape(indices)
    rank = array_ops.Size(dims)
    at = binary_ops.FloorMod(cast_ops.cast(axis, dtypes.int32), rank)
    if batch < 0:
        batch = batch + array_ops.Size(index_dims)
    outer, inner, pairs = dims[:at], dims[at + 1:], dims[:batch]
    places = product(index_dims[batch:])
    seen = array_ops.Reshape(dy, join_ops.concat([outer, [places], inner], 0))
    before, behind = array_ops.range_(batch), array_ops.range_(at + 1, rank)
    between = array_ops.range_(batch, at)
    front = join_ops.concat([before, [at], between, behind], 0)
    rows = array_ops.Transpose(seen, front)
    groups, size = product(pairs), dims[at]
    starts = array_ops.ExpandDims(array_ops.range_(groups) * size, 1)
    numbers = array_ops.Reshape(cast_ops.cast(indices, dtypes.int32), [groups, places]) + starts
    rest = GatherV2(dims, join_ops.concat([between, behind], 0), 0)
    rows = array_ops.Reshape(rows, join_ops.concat([[groups * places], rest], 0))
    flat = array_ops.Reshape(numbers, [groups * places])
    total = segment_ops.UnsortedSegmentSum(rows, flat, groups * size)
    total = array_ops.Reshape(total, join_ops.concat([pairs, [size], rest], 0))
    return array_ops.Transpose(total, array_ops.InvertPermutation(front))


def _batched_gradient(params, indices, dy, axis, batch):
    """Gather with batch_dims as one gather over rows numbered by batch and axis."""
    from pyflow.ops.move import array_ops, join_ops
    from pyflow.ops.reduce import reduction_ops, segment_ops
    n, k = params.shape.ndims, indices.shape.ndims - batch
    order = list(range(batch)) + list(range(axis, axis + k)) + list(range(batch, axis))
    order += list(range(axis + k, n + k - 1))
    moved = array_ops.Transpose(dy, int32s(order))
    dims, index_dims = array_ops.shape(params), array_ops.shape(indices)
    groups = reduction_ops.Prod(dims[:batch], 0)
    starts = array_ops.Range(0, groups, 1) * dims[axis]
    ones = array_ops.Fill(int32s([k]), 1)
    starts = array_ops.Reshape(starts, join_ops.concat([index_dims[:batch], ones], 0))
    from pyflow.ops.elementwise import cast_ops
    rows = cast_ops.cast(indices, dtypes.int32) + starts
    total = segment_ops.UnsortedSegmentSum(moved, rows, groups * dims[axis])
    inner = [dims[:batch], dims[axis:axis + 1], dims[batch:axis], dims[axis + 1:]]
    total = array_ops.Reshape(total, join_ops.concat(inner, 0))
    back = list(range(batch)) + list(range(batch + 1, axis + 1)) + [batch] + list(range(axis + 1,
                                                                                        n))
    return array_ops.Transpose(total, int32s(back))


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
        from pyflow.ops.move import array_ops
        params, indices = op.inputs
        if params.shape.is_fully_defined():
            whole = np.array(params.shape.as_list(), indices.dtype.as_numpy_dtype)
        else:
            whole = array_ops.Shape(params, out_type=indices.dtype)
        return [ScatterNd(indices, dy, whole), None]

    def reference(params, indices): return params[tuple(np.moveaxis(indices, -1, 0))]
    samples = [S((4, 3), lit([[0, 1], [3, 2]])), S((4, 3), lit([[2], [0]])), S((4, 3), lit([1, 1])),
               S((2, 3, 4), lit([[[0, 2], [1, 1]]])), S((4, 3), lit(np.zeros((0, 2), np.int32)))]


def scattered(op, shape, indices, updates):
    """`shape`, checked to hold `updates` at the index vectors `indices`."""
    at_least_rank(shape, 1, f"{op.type}: what is scattered into")
    places = at_least_rank(indices.shape, 1, f"{op.type}: indices").as_tuple()
    if places is None or updates.shape.ndims is None:
        return shape
    front, depth = TensorShape(places[:-1]), places[-1]
    rows = updates.shape.as_tuple()
    wanted = front
    if depth is not None and shape.ndims is not None:
        if depth > shape.ndims:
            raise ValueError(f"{op.type}: indices name {depth} dimensions of a tensor of shape "
                             f"{shape}")
        wanted = front.concatenate(shape.as_tuple()[depth:])
    elif len(rows) >= len(front):
        rows = rows[:len(front)]
    if not TensorShape(rows).is_compatible_with(wanted):
        raise ValueError(f"{op.type}: updates of shape {updates.shape} for indices of shape "
                         f"{indices.shape} into {shape}, expected {wanted}")
    return shape


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
        from pyflow.ops.move import array_ops
        indices, updates = op.inputs[1], op.inputs[2]
        kept = TensorScatterUpdate(dy, indices, array_ops.zeros_like(updates))
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
        from pyflow.ops.move import array_ops
        from pyflow.ops.reduce import reduction_ops
        indices, whole, values, default = op.inputs
        n = indices.shape.ndims
        if n is None or n < 2:
            indices = array_ops.Reshape(indices, int32s([-1, 1]))
        picked = GatherNd(dy, indices)
        if values.shape.ndims == 0:
            picked = reduction_ops.reduce_sum(picked)
        else:
            picked = array_ops.Reshape(picked, shape_vector(values))
        rest = reduction_ops.reduce_sum(dy) - reduction_ops.reduce_sum(picked)
        return [None, None, picked, rest]

    def reference(sparse_indices, output_shape, sparse_values, default_value):
        result = np.full([int(d) for d in output_shape], default_value)
        index = sparse_indices if sparse_indices.ndim == 2 else sparse_indices.reshape(-1, 1)
        result[tuple(index.T)] = sparse_values
        return result
    samples = [S(lit([[0, 1], [1, 2]]), lit([2, 3]), (2,), ()), S(lit([1, 3]), lit([5]), (2,), ()),
               S(lit([1, 3]), lit([5]), (), ()), S(lit(2), lit([4]), (), ())]


# --------------------------------------------------------------------------------- public functions
def gather(params, indices, validate_indices=None, name=None, axis=None, batch_dims=0):
    """Slices of `params` along `axis` by index. TF: tf.gather.
    Dtypes, shapes, errors: as op GatherV2."""
    if axis is None:
        axis = batch_dims
    read = getattr(params, "sparse_read", None)
    if read is not None and isinstance(axis, int) and axis == 0 and batch_dims == 0:
        return read(indices, name=name)
    return GatherV2(params, indices, axis, batch_dims=batch_dims, name=name)


def batch_gather(params, indices, name=None):
    """`tf.gather` along the last dimension of `indices`, the ones before paired.
    TF: tf.batch_gather.
    params: [batch..., n, ...] of any dtype; indices: ints [batch..., k]. ValueError where they
    do not fit, InvalidArgumentError for an index out of range."""
    indices = graph.convert_to_tensor(indices, name="indices")
    if indices.shape.ndims is None:
        raise ValueError("tf.batch_gather: indices must have a known rank")
    n = indices.shape.ndims - 1
    return gather(params, indices, axis=n, batch_dims=n, name=name)


def gather_nd(params, indices, name=None, batch_dims=0):
    """Slices of `params` at index vectors. TF: tf.gather_nd (batch_dims 0).
    Dtypes, shapes, errors: as op GatherNd."""
    if batch_dims:
        raise ValueError("tf.gather_nd: batch_dims other than 0 is not offered; put the batch "
                         "number into the "
                         "index vectors")
    return GatherNd(params, indices, name=name)


def scatter_nd(indices, updates, shape, name=None):
    """Zeros of `shape` with `updates` added at `indices`. TF: tf.scatter_nd.
    Dtypes, shapes, errors: as op ScatterNd."""
    return ScatterNd(indices, updates, shape, name=name)


def tensor_scatter_update(tensor, indices, updates, name=None):
    """`tensor` with `updates` at `indices`. TF: tf.tensor_scatter_update.
    Dtypes, shapes, errors: as op TensorScatterUpdate."""
    return TensorScatterUpdate(tensor, indices, updates, name=name)


def one_hot(indices, depth, on_value=None, off_value=None, axis=None, dtype=None, name=None):
    """Indicator vectors of length `depth` along `axis` (default last); float32 1 and 0.
    TF: tf.one_hot.
    Dtypes, shapes, errors: as op OneHot."""
    with graph.name_scope(name, "one_hot", [indices, depth]) as scope:
        given = [graph.convert_to_tensor(v, dtype=dtype).dtype.base_dtype
                 for v in (on_value, off_value) if v is not None]
        chosen = dtypes.as_dtype(dtype) if dtype is not None else (given + [dtypes.float32])[0]
        if any(t != chosen for t in given):
            raise TypeError(f"tf.one_hot: on_value and off_value must be {chosen.name}, got "
                            f"{[t.name for t in given]}")
        on = graph.convert_to_tensor(1 if on_value is None else on_value, dtype=chosen,
                                     name="on_value")
        off = graph.convert_to_tensor(0 if off_value is None else off_value, dtype=chosen,
                                      name="off_value")
        return OneHot(indices, depth, on, off, axis=-1 if axis is None else axis, name=scope)


def sparse_to_dense(sparse_indices, output_shape, sparse_values, default_value=0,
                    validate_indices=True,
                    name=None):
    """`default_value` but `sparse_values` at `sparse_indices`. TF: tf.sparse_to_dense.
    Dtypes, shapes, errors: as op SparseToDense."""
    return SparseToDense(sparse_indices, output_shape, sparse_values, default_value,
                         validate_indices=validate_indices, name=name)


def sparse_tensor_to_dense(sp_input, default_value=None, validate_indices=True, name=None):
    """A SparseTensor as a dense one. TF: tf.sparse_tensor_to_dense.
    Any dtype; result: sp_input's dense shape. InvalidArgumentError for indices that are out of
    range, or out of order with validate_indices."""
    if not isinstance(sp_input, graph.SparseTensor):
        raise TypeError(f"tf.sparse_tensor_to_dense: expected a SparseTensor, got "
                        f"{type(sp_input).__name__}")
    if default_value is None:
        from pyflow.ops.move import array_ops
        default_value = array_ops.zeros([], sp_input.values.dtype)
    return sparse_to_dense(sp_input.indices, sp_input.dense_shape, sp_input.values, default_value,
                           validate_indices, name)


PUBLIC = {
    "gather": gather, "batch_gather": batch_gather, "gather_nd": gather_nd,
    "manip.gather_nd": gather_nd,
    "scatter_nd": scatter_nd, "manip.scatter_nd": scatter_nd, "one_hot": one_hot,
    "tensor_scatter_update": tensor_scatter_update,
    "tensor_scatter_nd_update": tensor_scatter_update,
    "sparse_to_dense": sparse_to_dense, "sparse_tensor_to_dense": sparse_tensor_to_dense,
    "sparse.to_dense": sparse_tensor_to_dense,
}
