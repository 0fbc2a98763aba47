"""Picking and placing by index: tf.gather_nd, tf.scatter_nd, tf.one_hot, sparse to dense."""
from pyflow.framework import dtypes, graph
from pyflow.ops.base import tensors
from pyflow.ops.base.tensors import gather
from pyflow.ops.move.gather_ops import (GatherNd, OneHot, ScatterNd, SparseToDense,
                                        TensorScatterUpdate)


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
    """Slices of `params` at index vectors. TF: tf.gather_nd.

    params: [batch..., ...] of any dtype; indices: ints [batch..., ..., k], the last dimension an
    index vector; batch_dims: how many first dimensions of both are paired. ValueError where
    batch_dims is not below the ranks, InvalidArgumentError for an index out of range.
    Dtypes, shapes, errors otherwise: as op GatherNd.

        >>> tf.Session().run(tf.gather_nd([[1, 2], [3, 4]], [[1], [0]], batch_dims=1))
        array([2, 3], dtype=int32)
    """
    batch_dims = int(batch_dims)
    if batch_dims == 0:
        return GatherNd(params, indices, name=name)
    with graph.name_scope(name, "BatchGatherND", [params, indices]):
        params = graph.convert_to_tensor(params, name="params")
        indices = graph.convert_to_tensor(indices, name="indices")
        for what, tensor in (("indices", indices), ("params", params)):
            rank = tensor.shape.ndims
            if rank is None or not 0 <= batch_dims < rank:
                raise ValueError(f"batch_dims = {batch_dims} must be less than rank({what}) = "
                                 f"{rank}")
        return GatherNd(params, tensors.concat([_batch_numbers(indices, batch_dims), indices], -1))


def _batch_numbers(indices, batch_dims):
    """[batch..., ..., batch_dims]: for each index vector the numbers of its batch."""
    rank = indices.shape.ndims
    shape = tensors.shape(indices, out_type=indices.dtype)
    ones = tensors.concat([shape[:-1], tensors.ones([1], shape.dtype)], 0)
    parts = []
    for d in range(batch_dims):
        numbers = tensors.range_(shape[d], dtype=shape.dtype)
        numbers = tensors.reshape(numbers, [1] * d + [-1] + [1] * (rank - d - 1))
        parts.append(numbers + tensors.zeros(ones, shape.dtype))
    return tensors.concat(parts, -1)


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

    indices: ints of any shape; one outside [0, depth) gives a vector of off_value. on_value,
    off_value: other scalars than 1 and 0; dtype: of the result, default theirs.
    Dtypes, shapes, errors: as op OneHot.

        >>> tf.Session().run(tf.one_hot([0, 2], 3))
        array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """
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
    Dtypes, shapes, errors: as op SparseToDense.
    output_shape: of the result; validate_indices: refuse those out of order or twice.

        >>> labels = tf.constant([[0, 2], [1, 0]])                      # one-hot rows
        >>> tf.Session().run(tf.sparse_to_dense(labels, [2, 3], 1.0))
        array([[0., 0., 1.],
               [1., 0., 0.]], dtype=float32)
    """
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
        default_value = tensors.zeros([], sp_input.values.dtype)
    return sparse_to_dense(sp_input.indices, sp_input.dense_shape, sp_input.values, default_value,
                           validate_indices, name)


PUBLIC = {
    "batch_gather": batch_gather, "gather_nd": gather_nd, "manip.gather_nd": gather_nd,
    "scatter_nd": scatter_nd, "manip.scatter_nd": scatter_nd, "one_hot": one_hot,
    "tensor_scatter_update": tensor_scatter_update,
    "tensor_scatter_nd_update": tensor_scatter_update, "sparse_to_dense": sparse_to_dense,
    "sparse_tensor_to_dense": sparse_tensor_to_dense, "sparse.to_dense": sparse_tensor_to_dense,
}
