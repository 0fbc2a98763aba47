"""The functions of tf.sparse and tf.sparse_* over the blocks of sparse_ops, and sets and edit
distance.

Invariants
  1. A sparse argument is a SparseTensor or SparseTensorValue; anything else is a TypeError.
  2. Names, argument order, defaults and results are TF 1.x's; deprecated argument names work.

Example:  `tf.sparse_add(a, b)`;  `tf.sparse_reduce_sum(a, axis=1)`;  `tf.edit_distance(x, y)`.
"""
import numbers

import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.graph import SparseTensor
from pyflow.framework.sparse_values import SparseTensorValue
from pyflow.lib.array import gather_functions, identity_functions
from pyflow.lib.control_flow import check_functions, grouping
from pyflow.lib.math import logic_functions, reductions
from pyflow.lib.math.linalg_functions import adjoint
from pyflow.ops.base import tensors
from pyflow.ops.base.common import one_of, static
from pyflow.ops.elementwise import binary_ops, logic_ops
from pyflow.ops.reduce import unique_ops
from pyflow.ops.sparse import set_ops, sparse_ops, sparse_serial_ops


def sparse_input(value, what="Input"):
    """`value` as a SparseTensor; TypeError for what is none."""
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    if not isinstance(value, SparseTensor):
        raise TypeError(f"{what} must be a SparseTensor, got {value!r}.")
    return value


def _parts(x):
    return x.indices, x.values, x.dense_shape


def convert_to_tensor_or_sparse_tensor(value, dtype=None, name=None):
    """A SparseTensor as it is, else a tensor. TF: tf.convert_to_tensor_or_sparse_tensor.
    Shape and dtype are the value's; RuntimeError for a SparseTensor of another dtype than `dtype`,
    errors of `convert_to_tensor` else."""
    if isinstance(value, SparseTensorValue):
        value = SparseTensor.from_value(value)
    if isinstance(value, SparseTensor):
        if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
            raise RuntimeError(f"Sparse dtype mismatch: requested {dtypes.as_dtype(dtype).name}, "
                               f"actual {value.dtype.name}")
        return value
    return graph.convert_to_tensor(value, dtype=dtype, name=name)


# ------------------------------------------------------------------------------------- places
def sparse_reorder(sp_input, name=None):
    """The same tensor with its indices in rising order. TF: tf.sparse_reorder.
    Dtypes, shapes, errors: as op SparseReorder."""
    x = sparse_input(sp_input)
    indices, values = sparse_ops.SparseReorder(*_parts(x), name=name)
    return SparseTensor(indices, values, identity_functions.identity(x.dense_shape))


def sparse_reshape(sp_input, shape, name=None):
    """The same elements in another shape; one size may be -1. TF: tf.sparse_reshape.
    Dtypes, shapes, errors: as op SparseReshape."""
    x = sparse_input(sp_input)
    shape = tensors.cast(graph.convert_to_tensor(shape), dtypes.int64)
    with graph.name_scope(name, "SparseReshape", [x, shape]) as scope:
        indices, size = sparse_ops.SparseReshape(x.indices, x.dense_shape, shape, name=scope)
        known = static(x.dense_shape), static(shape)
        if known[0] is not None and known[1] is not None:
            total, wanted = int(np.prod(known[0])), [int(d) for d in known[1]]
            given = int(np.prod([d for d in wanted if d != -1]))
            if -1 not in wanted and given != total or -1 in wanted and given and total % given:
                raise ValueError(f"Cannot reshape a tensor with {total} elements to shape {wanted} "
                                 f"({given} elements).")
        return SparseTensor(indices, identity_functions.identity(x.values), size)


def sparse_transpose(sp_input, perm=None, name=None):
    """Dimensions in the order `perm`, default reversed. TF: tf.sparse_transpose.
    Dtypes, shapes, errors: as ops SparseReorder, Size, Range and GatherV2."""
    x = sparse_input(sp_input)
    with graph.name_scope(name, "SparseTranspose", [x]):
        if perm is None:
            rank = x.dense_shape.shape[0].value
            if rank is None:
                n = tensors.size(x.dense_shape)
                perm = (n - 1) - tensors.range_(n)
            else:
                perm = np.arange(rank)[::-1].astype(np.int32)
        indices = tensors.gather(x.indices, perm, axis=1)
        size = tensors.gather(x.dense_shape, perm)
        return sparse_reorder(SparseTensor(indices, x.values, size))


def sparse_concat(axis, sp_inputs, name=None, expand_nonconcat_dim=False, concat_dim=None,
                  expand_nonconcat_dims=None):
    """Sparse tensors one behind the other along `axis`. TF: tf.sparse_concat.

    expand_nonconcat_dims: the other dimensions may differ, the largest counts.
    Dtypes, shapes, errors: as op SparseConcat."""
    axis = one_of(axis, concat_dim, "axis", "concat_dim", None)
    expand = expand_nonconcat_dim if expand_nonconcat_dims is None else expand_nonconcat_dims
    if not isinstance(sp_inputs, list):
        raise TypeError("Expected a list of SparseTensors")
    inputs = [sparse_input(x) for x in sp_inputs]
    if len(inputs) == 1:
        return inputs[0]
    shapes = [x.dense_shape for x in inputs]
    if expand:
        most = reductions.reduce_max(tensors.stack(shapes), 0)
        at = axis % shapes[0].shape[0].value if axis < 0 else axis
        shapes = [tensors.concat([most[:at], s[at:at + 1], most[at + 1:]], 0) for s in shapes]
    return SparseTensor(*sparse_ops.SparseConcat([x.indices for x in inputs],
                                                 [x.values for x in inputs], shapes,
                                                 concat_dim=axis, name=name))


class _KeywordRequired:
    def __repr__(self):
        return "KeywordRequired()"


def sparse_split(keyword_required=_KeywordRequired(), sp_input=None, num_split=None, axis=None,
                 name=None, split_dim=None):
    """A list of `num_split` parts along `axis`; arguments by keyword. TF: tf.sparse_split.
    Dtypes, shapes, errors: as op SparseSplit."""
    if not isinstance(keyword_required, _KeywordRequired):
        raise ValueError("Keyword arguments are required for this function.")
    if sp_input is None:
        raise ValueError("sp_input is required")
    if num_split is None:
        raise ValueError("num_split is required")
    axis = one_of(axis, split_dim, "axis", "split_dim", None)
    if axis is None:
        raise ValueError("axis is required")
    x = sparse_input(sp_input)
    indices, values, shapes = sparse_ops.SparseSplit(axis, *_parts(x), num_split=num_split,
                                                     name=name)
    return [SparseTensor(*part) for part in zip(indices, values, shapes)]


def sparse_slice(sp_input, start, size, name=None):
    """What lies in the box from `start` of `size`. TF: tf.sparse_slice.
    Dtypes, shapes, errors: as op SparseSlice."""
    x = sparse_input(sp_input)
    start, size = (graph.convert_to_tensor(v, dtype=dtypes.int64) for v in (start, size))
    with graph.name_scope(name, "SparseSlice", [x]):
        return SparseTensor(*sparse_ops.SparseSlice(*_parts(x), start, size))


def sparse_retain(sp_input, to_retain):
    """The values whose flag in `to_retain` [n] is true. TF: tf.sparse_retain.
    Any dtype; to_retain: bool, one for each of the n values, else ValueError."""
    x = sparse_input(sp_input)
    to_retain = graph.convert_to_tensor(to_retain)
    x.values.shape.with_rank_at_least(1)[:1].merge_with(to_retain.shape)
    where = tensors.reshape(logic_functions.where(to_retain), [-1])
    return SparseTensor(tensors.gather(x.indices, where), tensors.gather(x.values, where),
                        identity_functions.identity(x.dense_shape))


def sparse_fill_empty_rows(sp_input, default_value, name=None):
    """(the tensor with `default_value` in column 0 of empty rows, which rows were empty).
    TF: tf.sparse_fill_empty_rows.
    Dtypes, shapes, errors: as op SparseFillEmptyRows."""
    x = sparse_input(sp_input)
    with graph.name_scope(name, "SparseFillEmptyRows", [x]):
        default_value = graph.convert_to_tensor(default_value, dtype=x.values.dtype)
        indices, values, empty, _ = sparse_ops.SparseFillEmptyRows(*_parts(x), default_value)
        return SparseTensor(indices, values, x.dense_shape), empty


def sparse_reset_shape(sp_input, new_shape=None):
    """The same values in a larger shape, by default the smallest that holds them.
    TF: tf.sparse_reset_shape.
    Dtypes, shapes, errors: as op Maximum."""
    x = sparse_input(sp_input)
    indices, values = identity_functions.identity(x.indices), identity_functions.identity(x.values)
    size = identity_functions.identity(x.dense_shape)
    if new_shape is None:
        most = reductions.reduce_max(indices, 0)
        result = binary_ops.Maximum(np.int64(0), most + tensors.ones_like(size))
        return SparseTensor(indices, values, result)
    result = tensors.cast(graph.convert_to_tensor(new_shape), dtypes.int64)
    result.shape.assert_has_rank(1)
    result.shape.merge_with(size.shape)
    wanted, known = static(result), x.shape
    if wanted is not None and known.is_fully_defined():
        if not np.all(np.array(known.as_list()) <= wanted):
            raise ValueError("Requested new_shape should have dimension sizes >= sp_input.shape.  "
                             f"Found new_shape ({wanted}), sp_input.shape ({known.as_list()}).")
    else:
        checks = [check_functions.assert_equal(tensors.shape(size), tensors.shape(result)),
                  check_functions.assert_less_equal(size, result)]
        result = grouping.with_dependencies(checks, result)
    return SparseTensor(indices, values, result)


def sparse_mask(a, mask_indices, name=None):
    """IndexedSlices `a` without the rows `mask_indices`. TF: tf.sparse_mask.
    Dtypes, shapes, errors: as op ListDiff."""
    with graph.name_scope(name, "sparse_mask", [a, mask_indices]):
        kept, positions = unique_ops.ListDiff(a.indices, mask_indices)
        return graph.IndexedSlices(tensors.gather(a.values, positions), kept, a.dense_shape)


def sparse_expand_dims(sp_input, axis=None, name=None):
    """A dimension of size 1 put in at `axis`, default last; a number or an integer scalar tensor.
    TF: sparse.expand_dims.
    Dtypes, shapes, errors: as ops ZerosLike and ConcatV2."""
    x = sparse_input(sp_input)
    rank = x.dense_shape.shape[0].value
    axis = -1 if axis is None else axis
    if isinstance(axis, graph.Tensor) or rank is None:
        return _expanded_at(x, axis, name)
    if not isinstance(axis, numbers.Integral):
        raise TypeError("axis must be an integer value in range [-rank(sp_input) - 1, "
                        f"rank(sp_input)], got {axis!r}")
    if not -rank - 1 <= axis <= rank:
        raise ValueError(f"axis {axis} is out of range for a sparse tensor of rank {rank}")
    at = axis + rank + 1 if axis < 0 else axis
    with graph.name_scope(name, "expand_dims", [x]):
        column = tensors.zeros_like(x.indices[:, :1]) if rank else \
            tensors.zeros([tensors.shape(x.indices)[0], 1], dtypes.int64)
        indices = tensors.concat([x.indices[:, :at], column, x.indices[:, at:]], 1)
        one = np.ones(1, np.int64)
        size = tensors.concat([x.dense_shape[:at], one, x.dense_shape[at:]], 0)
        return SparseTensor(indices, x.values, size)


def _expanded_at(x, axis, name):
    """sparse_expand_dims where the axis, or the rank, is known only when the graph runs."""
    with graph.name_scope(name, "expand_dims", [x]):
        axis = tensors.cast(graph.convert_to_tensor(axis), dtypes.int32)
        rank = tensors.shape(x.dense_shape)[0]
        at = logic_functions.where(axis < 0, axis + rank + 1, axis)
        column = tensors.zeros([tensors.shape(x.indices)[0], 1], dtypes.int64)
        before = tensors.slice_(x.indices, [0, 0], tensors.stack([-1, at]))
        after = tensors.slice_(x.indices, tensors.stack([0, at]), [-1, -1])
        one = np.ones(1, np.int64)
        size = tensors.concat([x.dense_shape[:at], one, x.dense_shape[at:]], 0)
        return SparseTensor(tensors.concat([before, column, after], 1), x.values, size)


def sparse_eye(num_rows, num_columns=None, dtype=dtypes.float32, name=None):
    """The identity matrix, sparse. TF: sparse.eye.
    Dtypes, shapes, errors: as op Minimum."""
    with graph.name_scope(name, "eye", [num_rows, num_columns]):
        rows = tensors.cast(graph.convert_to_tensor(num_rows), dtypes.int64)
        columns = rows if num_columns is None else tensors.cast(
            graph.convert_to_tensor(num_columns), dtypes.int64)
        n = binary_ops.Minimum(rows, columns)
        diagonal = tensors.range_(n)
        values = tensors.ones(tensors.expand_dims(n, 0), dtype)
        return SparseTensor(tensors.stack([diagonal, diagonal], axis=1), values,
                            tensors.stack([rows, columns]))


def from_dense(tensor, name=None):
    """The elements of `tensor` that are not 0 (not empty, for strings). TF: sparse.from_dense.
    Dtypes, shapes, errors: as op NotEqual."""
    with graph.name_scope(name, "dense_to_sparse", [tensor]):
        tensor = graph.convert_to_tensor(tensor)
        indices = logic_functions.where(logic_ops.NotEqual(tensor, tensors.zeros_like(tensor)))
        return SparseTensor(indices, gather_functions.gather_nd(tensor, indices),
                            tensors.shape(tensor, out_type=dtypes.int64))


def sparse_to_indicator(sp_input, vocab_size, name=None):
    """bool [..., vocab_size]: which ids occur in each row. TF: tf.sparse_to_indicator.
    Dtypes, shapes, errors: as ops OnesLike and SparseToDense."""
    x = sparse_input(sp_input)
    with graph.name_scope(name, "SparseToIndicator", [x]) as scope:
        flags = SparseTensor(x.indices, tensors.ones_like(x.values, dtypes.bool), x.dense_shape)
        merged = sparse_merge(x, flags, vocab_size)
        return gather_functions.sparse_to_dense(merged.indices, merged.dense_shape, merged.values,
                                                default_value=False, validate_indices=False,
                                                name=scope)


def sparse_merge(sp_ids, sp_values, vocab_size, name=None, already_sorted=False):
    """Values at [row, id], from a tensor of ids (or a list of them) and one of values.
    TF: tf.sparse_merge.
    Dtypes, shapes, errors: as ops SparseReorder, ExpandDims, Cast and ConcatV2."""
    values = sparse_input(sp_values, "sp_values")
    ids = list(sp_ids) if isinstance(sp_ids, (list, tuple)) and not isinstance(
        sp_ids, SparseTensorValue) else [sp_ids]
    sizes = vocab_size if isinstance(sp_ids, list) else [vocab_size]
    if isinstance(sp_ids, list) and (not isinstance(vocab_size, (list, tuple))
                                     or len(vocab_size) != len(ids)):
        raise ValueError("sp_ids and vocab_size have to have equal lengths.")
    with graph.name_scope(name, "SparseMerge", [values]):
        ids = [sparse_input(x, "sp_ids") for x in ids]
        columns = []
        for x in ids:
            if not x.dtype.is_integer:
                raise TypeError(f"sp_ids must hold int32 or int64, got {x.dtype.name}")
            columns.append(tensors.expand_dims(tensors.cast(x.values, dtypes.int64), -1))
        indices = tensors.concat([ids[0].indices[:, :-1], *columns], 1)
        sizes = [tensors.cast(graph.convert_to_tensor(n), dtypes.int64) for n in sizes]
        shape = tensors.concat([ids[0].dense_shape[:-1],
                                *[tensors.expand_dims(n, 0) for n in sizes]], 0)
        result = SparseTensor(indices, values.values, shape)
        if already_sorted:
            return result
        in_order = SparseTensor(result.indices, result.values, shape)
        return sparse_reorder(in_order)


# ------------------------------------------------------------------------------------ arithmetic
def sparse_add(a, b, threshold=None, thresh=None):
    """a + b; sparse if both are, without sums smaller than `threshold`. TF: tf.sparse_add.
    Dtypes, shapes, errors: as ops SparseAdd and SparseTensorDenseAdd."""
    threshold = one_of(threshold, thresh, "threshold", "thresh", 0)
    sparse = [isinstance(x, (SparseTensor, SparseTensorValue)) for x in (a, b)]
    if not any(sparse):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if all(sparse):
        a, b = sparse_input(a), sparse_input(b)
        threshold = graph.convert_to_tensor(threshold, dtype=a.dtype.real_dtype.base_dtype)
        return SparseTensor(*sparse_ops.SparseAdd(*_parts(a), *_parts(b), threshold))
    if sparse[1]:
        a, b = b, a
    a = sparse_input(a)
    return sparse_ops.SparseTensorDenseAdd(*_parts(a), b)


def _extremum(op, name, doc):
    def extremum(sp_a, sp_b, name=None):
        a, b = sparse_input(sp_a), sparse_input(sp_b)
        with graph.name_scope(name, op.name, [a, b]) as scope:
            indices, values = op(*_parts(a), *_parts(b), name=scope)
            return SparseTensor(indices, values, a.dense_shape)
    extremum.__name__ = extremum.__qualname__ = name
    extremum.__doc__ = doc + ("\n    Real numbers of one dtype, which the result has, in one dense"
                              " shape; InvalidArgumentError\n    where shapes differ.")
    return extremum


sparse_maximum = _extremum(sparse_ops.SparseSparseMaximum, "sparse_maximum",
                           "The larger values of two sparse tensors, absent ones as 0. "
                           "TF: tf.sparse_maximum.")
sparse_minimum = _extremum(sparse_ops.SparseSparseMinimum, "sparse_minimum",
                           "The smaller values of two sparse tensors, absent ones as 0. "
                           "TF: tf.sparse_minimum.")


def sparse_softmax(sp_input, name=None):
    """Softmax over the values of each row of the last dimension. TF: tf.sparse_softmax.
    Dtypes, shapes, errors: as op SparseSoftmax."""
    x = sparse_input(sp_input)
    with graph.name_scope(name, "SparseSoftmax", [x]):
        return SparseTensor(x.indices, sparse_ops.SparseSoftmax(*_parts(x)), x.dense_shape)


def _axis_vector(x, axis):
    if axis is None:
        return tensors.range_(tensors.size(x.dense_shape)) \
            if x.dense_shape.shape[0].value is None else \
            np.arange(x.dense_shape.shape[0].value, dtype=np.int32)
    return axis if isinstance(axis, graph.Tensor) else np.atleast_1d(np.array(axis, np.int32))


def _reduction(op, name, sparse, doc):
    def reduce(sp_input, axis=None, keepdims=None, reduction_axes=None, keep_dims=None):
        keep = one_of(keepdims, keep_dims, "keepdims", "keep_dims", False)
        axis = one_of(axis, reduction_axes, "axis", "reduction_axes", None)
        x = sparse_input(sp_input)
        result = op(*_parts(x), _axis_vector(x, axis), keep_dims=keep)
        return SparseTensor(*result) if sparse else result
    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = doc + (
        "\n    sp_input: numbers; the result has their dtype, and its shape without the axes, or 1"
        " there with\n    keepdims. InvalidArgumentError for an axis outside [-rank, rank).")
    return reduce


sparse_reduce_sum = _reduction(sparse_ops.SparseReduceSum, "sparse_reduce_sum", False,
                               "Sums over axes, default all, as a dense tensor. "
                               "TF: tf.sparse_reduce_sum.")
sparse_reduce_max = _reduction(sparse_ops.SparseReduceMax, "sparse_reduce_max", False,
                               "Largest values over axes, default all, as a dense tensor. "
                               "TF: tf.sparse_reduce_max.")
sparse_reduce_sum_sparse = _reduction(sparse_ops.SparseReduceSumSparse, "sparse_reduce_sum_sparse",
                                      True, "Sums over axes, default all, as a sparse tensor. "
                                      "TF: tf.sparse_reduce_sum_sparse.")
sparse_reduce_max_sparse = _reduction(sparse_ops.SparseReduceMaxSparse, "sparse_reduce_max_sparse",
                                      True, "Largest values over axes, default all, as a sparse "
                                      "tensor. TF: tf.sparse_reduce_max_sparse.")


def sparse_tensor_dense_matmul(sp_a, b, adjoint_a=False, adjoint_b=False, name=None):
    """Product of a sparse and a dense matrix, whichever comes first. TF:
    tf.sparse_tensor_dense_matmul.
    Dtypes, shapes, errors: as op SparseTensorDenseMatMul."""
    if isinstance(b, (SparseTensor, SparseTensorValue)):
        swapped = sparse_tensor_dense_matmul(b, sp_a, adjoint_a=not adjoint_b,
                                             adjoint_b=not adjoint_a)
        return adjoint(swapped)
    a = sparse_input(sp_a)
    with graph.name_scope(name, "SparseTensorDenseMatMul", [a, b]) as scope:
        b = graph.convert_to_tensor(b, name="b")
        return sparse_ops.SparseTensorDenseMatMul(*_parts(a), b, adjoint_a=adjoint_a,
                                                  adjoint_b=adjoint_b, name=scope)


def sparse_matmul(a, b, transpose_a=False, transpose_b=False, a_is_sparse=False, b_is_sparse=False,
                  name=None):
    """Product of two matrices of which one has many zeros. TF: tf.sparse_matmul.
    Dtypes, shapes, errors: as op SparseMatMul."""
    return sparse_ops.SparseMatMul(a, b, transpose_a=transpose_a, transpose_b=transpose_b,
                                   a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse, name=name)


# ---------------------------------------------------------------------------------- strings, sets
def serialize_sparse(sp_input, name=None, out_type=dtypes.string):
    """Three strings of a sparse tensor. TF: tf.serialize_sparse.
    Dtypes, shapes, errors: as op SerializeSparse."""
    return sparse_serial_ops.SerializeSparse(*_parts(sparse_input(sp_input)), out_type=out_type,
                                             name=name)


def serialize_many_sparse(sp_input, name=None, out_type=dtypes.string):
    """[rows, 3] strings of a sparse tensor's rows. TF: tf.serialize_many_sparse.
    Dtypes, shapes, errors: as op SerializeManySparse."""
    return sparse_serial_ops.SerializeManySparse(*_parts(sparse_input(sp_input)), out_type=out_type,
                                          name=name)


def _deserialized(op, serialized, dtype, rank, name):
    indices, values, shape = op(serialized, dtype=dtype, name=name)
    if rank is not None:
        indices.set_shape([None, rank])
        shape.set_shape([rank])
    return SparseTensor(indices, values, shape)


def deserialize_sparse(serialized_sparse, dtype, rank=None, name=None):
    """The sparse tensor of [..., 3] strings. TF: io.deserialize_sparse.
    Dtypes, shapes, errors: as op DeserializeSparse."""
    return _deserialized(sparse_serial_ops.DeserializeSparse, serialized_sparse, dtype, rank, name)


def deserialize_many_sparse(serialized_sparse, dtype, rank=None, name=None):
    """One sparse tensor of [n, 3] strings, a row from each; `rank` is a row's.
    TF: tf.deserialize_many_sparse.
    Dtypes, shapes, errors: as op DeserializeManySparse."""
    return _deserialized(sparse_serial_ops.DeserializeManySparse, serialized_sparse, dtype,
                         None if rank is None else rank + 1, name)


def edit_distance(hypothesis, truth, normalize=True, name="edit_distance"):
    """Levenshtein's distances between sequences; `normalize`: by the truth's length.
    TF: tf.edit_distance.
    Dtypes, shapes, errors: as op EditDistance."""
    a, b = sparse_input(hypothesis, "Hypothesis"), sparse_input(truth, "Truth")
    return set_ops.EditDistance(*_parts(a), *_parts(b), normalize=normalize, name=name)


def _set_operation(a, b, operation, validate_indices):
    a, b = convert_to_tensor_or_sparse_tensor(a), convert_to_tensor_or_sparse_tensor(b)
    if a.dtype.base_dtype != b.dtype.base_dtype:
        raise TypeError(f"Types don't match, {a.dtype} vs {b.dtype}.")
    sparse = [isinstance(x, SparseTensor) for x in (a, b)]
    attrs = {"set_operation": operation, "validate_indices": validate_indices}
    if sparse[0] and not sparse[1]:
        attrs["set_operation"] = {"a-b": "b-a", "b-a": "a-b"}.get(operation, operation)
        a, b = b, a
        sparse = [False, True]
    if all(sparse):
        result = set_ops.SparseToSparseSetOperation(*_parts(a), *_parts(b), **attrs)
    elif sparse[1]:
        result = set_ops.DenseToSparseSetOperation(a, *_parts(b), **attrs)
    else:
        result = set_ops.DenseToDenseSetOperation(a, b, **attrs)
    return SparseTensor(*result)


def set_intersection(a, b, validate_indices=True):
    """Elements of both, along the last dimension. TF: sets.set_intersection.
    Dtypes, shapes, errors: as ops SparseToSparseSetOperation, DenseToSparseSetOperation and
    DenseToDenseSetOperation."""
    return _set_operation(a, b, "intersection", validate_indices)


def set_difference(a, b, aminusb=True, validate_indices=True):
    """Elements of a that are not in b (or the other way). TF: sets.set_difference.
    Dtypes, shapes, errors: as ops SparseToSparseSetOperation, DenseToSparseSetOperation and
    DenseToDenseSetOperation."""
    return _set_operation(a, b, "a-b" if aminusb else "b-a", validate_indices)


def set_union(a, b, validate_indices=True):
    """Elements of either, along the last dimension. TF: sets.set_union.
    Dtypes, shapes, errors: as ops SparseToSparseSetOperation, DenseToSparseSetOperation and
    DenseToDenseSetOperation."""
    return _set_operation(a, b, "union", validate_indices)


def set_size(a, validate_indices=True):
    """How many different elements each set has. TF: sets.set_size.
    Dtypes, shapes, errors: as op SetSize."""
    a = convert_to_tensor_or_sparse_tensor(a, name="a")
    if not isinstance(a, SparseTensor):
        raise TypeError(f"Expected SparseTensor, got {a}.")
    return set_ops.SetSize(*_parts(a), validate_indices=validate_indices)


_BOTH = {f.__name__: f for f in (
    sparse_add, sparse_concat, sparse_fill_empty_rows, sparse_mask, sparse_maximum, sparse_merge,
    sparse_minimum, sparse_reduce_max, sparse_reduce_max_sparse, sparse_reduce_sum,
    sparse_reduce_sum_sparse, sparse_reorder, sparse_reset_shape, sparse_reshape, sparse_retain,
    sparse_slice, sparse_softmax, sparse_split, sparse_to_indicator, sparse_transpose)}

PUBLIC = {
    **_BOTH, **{f"sparse.{name.removeprefix('sparse_')}": f for name, f in _BOTH.items()},
    "sparse_tensor_dense_matmul": sparse_tensor_dense_matmul,
    "sparse.matmul": sparse_tensor_dense_matmul,
    "sparse.sparse_dense_matmul": sparse_tensor_dense_matmul, "sparse_matmul": sparse_matmul,
    "sparse.expand_dims": sparse_expand_dims, "sparse.eye": sparse_eye,
    "sparse.from_dense": from_dense, "sparse.SparseTensor": SparseTensor,
    "serialize_sparse": serialize_sparse, "io.serialize_sparse": serialize_sparse,
    "serialize_many_sparse": serialize_many_sparse,
    "io.serialize_many_sparse": serialize_many_sparse, "io.deserialize_sparse": deserialize_sparse,
    "deserialize_many_sparse": deserialize_many_sparse,
    "io.deserialize_many_sparse": deserialize_many_sparse, "edit_distance": edit_distance,
    "convert_to_tensor_or_sparse_tensor": convert_to_tensor_or_sparse_tensor,
    **{f"sets.{prefix}{name}": f for prefix in ("", "set_") for name, f in (
        ("intersection", set_intersection), ("difference", set_difference), ("union", set_union),
        ("size", set_size))},
}
