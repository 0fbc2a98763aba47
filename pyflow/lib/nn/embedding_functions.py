"""Embeddings of sparse ids: rows of a table looked up and combined per row of a sparse matrix.

Invariants
  1. Each different id is looked up once.
  2. A row without ids gives zeros: in embedding_lookup_sparse as far as a later row has ids, in
     safe_embedding_lookup_sparse always (or `default_id`'s embedding).
  3. No op is defined here.

Source: TF 1.15, nn.embedding_lookup_sparse and nn.safe_embedding_lookup_sparse.
Example:  `tf.nn.embedding_lookup_sparse(table, sp_ids, None, combiner="mean")`.
"""
from pyflow.framework import dtypes, graph
from pyflow.lib.array import partition_functions
from pyflow.lib.math import binary_functions, logic_functions, reductions
from pyflow.lib.nn import nn_functions
from pyflow.lib.sparse import sparse_functions
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import unary_ops
from pyflow.ops.reduce import segment_ops
from pyflow.ops.sparse import sparse_segment_ops

COMBINERS = ("mean", "sqrtn", "sum")
UNWEIGHTED = {"mean": sparse_segment_ops.SparseSegmentMean,
              "sqrtn": sparse_segment_ops.SparseSegmentSqrtN,
              "sum": sparse_segment_ops.SparseSegmentSum}


def _per_row(x, like):
    """A vector, shaped to multiply the rows of `like`."""
    ones = tensors.ones(tensors.expand_dims(tensors.rank(like) - 1, 0), dtypes.int32)
    shape = tensors.concat([tensors.shape(x), ones], 0)
    result = tensors.reshape(x, shape)
    if like.shape.ndims is not None:
        result.set_shape([x.shape[0].value] + [1] * (like.shape.ndims - 1))
    return result


def _combined(rows, weights, segments, combiner):
    """Weighted rows of each segment: their sum, mean, or sum over the norm of the weights."""
    total = segment_ops.SegmentSum(rows * _per_row(weights, rows), segments)
    if combiner == "sum":
        return total
    if combiner == "mean":
        size = segment_ops.SegmentSum(weights, segments)
    else:
        size = unary_ops.Sqrt(segment_ops.SegmentSum(unary_ops.Square(weights), segments))
    return binary_functions.div_no_nan(total, _per_row(size, total))


def embedding_lookup_sparse(params, sp_ids, sp_weights, partition_strategy="mod", name=None,
                            combiner=None, max_norm=None):
    """Embeddings of sp_ids, combined over each of its rows: [rows, ...].

    params: a table [ids, ...] or a list of shards; sp_ids: int32 or int64 SparseTensor [rows, n];
    sp_weights: a float SparseTensor of the same indices, or None for 1; combiner: "mean" (default),
    "sum", "sqrtn"; max_norm: rows are clipped to it. TypeError if ids or weights are not sparse,
    ValueError for other combiners or no params. TF: nn.embedding_lookup_sparse."""
    combiner = combiner or "mean"
    if combiner not in COMBINERS:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner!r}")
    if not isinstance(sp_ids, graph.SparseTensor):
        raise TypeError("sp_ids must be SparseTensor")
    if sp_weights is not None and not isinstance(sp_weights, graph.SparseTensor):
        raise TypeError("sp_weights must be either None or SparseTensor")
    tables = list(params) if isinstance(params, (list, tuple)) else [params]
    if not tables:
        raise ValueError("Missing params: there is no table to look up in")
    with graph.name_scope(name, "embedding_lookup_sparse", tables + [sp_ids.values]) as scope:
        segments = tensors.cast(sp_ids.indices[:, 0], dtypes.int32)
        ids, places = partition_functions.unique(sp_ids.values)
        found = nn_functions.embedding_lookup(tables, ids, partition_strategy=partition_strategy,
                                              max_norm=max_norm)
        if sp_weights is None:
            result = UNWEIGHTED[combiner](found, places, segments)
        else:
            rows = tensors.gather(found, places)
            weights = tensors.cast(sp_weights.values, rows.dtype)
            result = _combined(rows, weights, segments, combiner)
        return tensors.reshape(result, tensors.shape(result), name=scope)


# -------------------------------------------------------------------------------------------- safe
def _kept(sp_ids, sp_weights, keep):
    """Both, without the entries that are not to be kept."""
    ids = sparse_functions.sparse_retain(sp_ids, keep)
    if sp_weights is None:
        return ids, None
    return ids, sparse_functions.sparse_retain(sp_weights, keep)


def _as_matrix(sp_ids, sp_weights):
    """Leading dimensions joined into one."""
    shape = sp_ids.dense_shape
    last = tensors.size(shape) - 1
    rows = reductions.reduce_prod(tensors.slice_(shape, [0], tensors.expand_dims(last, 0)))
    flat = sparse_functions.sparse_reshape(
        sp_ids, tensors.stack([rows, tensors.gather(shape, last)]))
    if sp_weights is not None:
        sp_weights = graph.SparseTensor(flat.indices, sp_weights.values, flat.dense_shape)
    return flat, sp_weights


def safe_embedding_lookup_sparse(embedding_weights, sparse_ids, sparse_weights=None,
                                 combiner="mean", default_id=None, name=None,
                                 partition_strategy="div", max_norm=None):
    """embedding_lookup_sparse that leaves out negative ids and, unless combiner is "sum", weights
    that are not positive; rows without ids give zeros, or default_id's embedding.

    sparse_ids: SparseTensor [d0, ..., dn]; returns [d0, ..., d(n-1)] + row shape. ValueError
    without embedding_weights. TF: nn.safe_embedding_lookup_sparse.
    Ids are int32 or int64, tables and weights floats."""
    if embedding_weights is None or isinstance(embedding_weights, list) and not embedding_weights:
        raise ValueError(f"Missing embedding_weights {embedding_weights}.")
    tables = embedding_weights if isinstance(embedding_weights, list) else [embedding_weights]
    with graph.name_scope(name, "embedding_lookup", tables + [sparse_ids.values]) as scope:
        shape, rank = sparse_ids.dense_shape, sparse_ids.dense_shape.shape[0].value
        ids, weights = _as_matrix(sparse_ids, sparse_weights)
        zero = graph.convert_to_tensor(0, dtype=ids.values.dtype)
        ids, weights = _kept(ids, weights, ids.values >= zero)
        if combiner != "sum" and weights is not None:
            ids, weights = _kept(ids, weights, weights.values > 0)
        default = graph.convert_to_tensor(default_id or 0, dtype=ids.values.dtype)
        ids, empty = sparse_functions.sparse_fill_empty_rows(ids, default)
        if weights is not None:
            one = graph.convert_to_tensor(1, dtype=weights.values.dtype)
            weights, _ = sparse_functions.sparse_fill_empty_rows(weights, one)
        found = embedding_lookup_sparse(tables, ids, weights, partition_strategy, None, combiner,
                                        max_norm)
        if default_id is None:
            found = logic_functions.where(empty, tensors.zeros_like(found), found)
        outer = tensors.cast(shape, dtypes.int32)[:-1]
        result = tensors.reshape(found, tensors.concat([outer, tensors.shape(found)[1:]], 0),
                                 name=scope)
        if rank is not None and found.shape.ndims is not None:
            result.set_shape([None] * (rank - 1) + found.shape.as_list()[1:])
        return result


PUBLIC = {
    "nn.embedding_lookup_sparse": embedding_lookup_sparse,
    "nn.safe_embedding_lookup_sparse": safe_embedding_lookup_sparse,
}
