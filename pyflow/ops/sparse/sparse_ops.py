"""Sparse tensors: the blocks (functions: sparse_functions.py).

Invariants
  1. A sparse tensor is three inputs: indices [n, rank] (int64), values [n], shape [rank].
  2. Kernels check indices against the shape; "in order" is the rising order of the index rows.
  3. Only values carry gradients.

Example:  `tf.sparse_tensor_dense_matmul(tf.SparseTensor([[0, 1]], [2.0], [2, 3]), b)`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import NUMBERS, REAL
from pyflow.framework.op import S, UNREGISTERED, lit, op, pos, raw_ops, strs
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import conj, dims_of, static, static_shape
from pyflow.ops.base.shape_rules import by_pattern, match
from pyflow.ops.gemm.products import matmul
from pyflow.ops.linalg.linalg_ops import adjoint

THREE = "indices: int64, values: T, shape: int64"
IN_THREE = "input_indices: int64, input_values: T, input_shape: int64"
SP_THREE = "sp_indices: int64, sp_values: T, sp_shape: int64"
A_B = ("a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, "
       "b_shape: int64")
OUT_THREE = "output_indices: int64, output_values: T, output_shape: int64"
PLACES, PLACES_B, SIZE = [[0, 1], [1, 0], [1, 3], [2, 2]], [[0, 1], [0, 2], [2, 2]], [3, 4]
NONE = np.zeros((0, 2), np.int64)
CUBE = [[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 2], [1, 1, 2]]


# ---------------------------------------------------------------------------------- shapes, oracles
def _length(tensor):
    dims = dims_of(tensor.shape)
    return None if dims is None else dims[0]


def width(tensor):
    dims = dims_of(tensor.shape)
    return None if dims is None or len(dims) != 1 else dims[0]


def triple(rank, n=None):
    """The static shapes of indices, values and shape."""
    return [TensorShape([n, rank]), TensorShape([n]), TensorShape([rank])]


def dense_of(indices, values, shape, fill=0):
    """The dense array; repeated places add up."""
    result = np.full([int(d) for d in shape], fill, values.dtype)
    np.add.at(result, tuple(indices.T), values)
    return result


def in_order(indices, values):
    """Both, rows rising; equal rows keep their order."""
    order = np.lexsort(indices.T[::-1]) if indices.shape[1] else np.arange(len(values))
    return indices[order], values[order]


def _joined(ai, av, bi, bv, combine):
    """{place: combined values} of two operands as arrays in order."""
    a = dict(zip(map(tuple, ai.tolist()), av))
    b = dict(zip(map(tuple, bi.tolist()), bv))
    places = sorted(set(a) | set(b))
    zero = av.dtype.type(0)
    values = [combine(a.get(p, zero), b.get(p, zero)) for p in places]
    return (np.array(places, np.int64).reshape(-1, ai.shape[1]),
            np.array(values, av.dtype).reshape(-1))


# ------------------------------------------------------------------------------------ places
def _order_back(op, dvalues):
    """Gradients in the order of the unordered input."""
    indices, values, shape = op.inputs
    n = tensors.shape(values)[0]
    order = SparseReorder(indices, tensors.range_(n), shape)[1]
    return tensors.gather(dvalues, raw_ops.InvertPermutation(order))


@op("SparseReorder", inputs=IN_THREE, outputs="output_indices: int64, output_values: T",
    attrs="T: type")
class SparseReorder:
    """The same tensor with its index rows in rising order. TF: SparseReorder."""
    shape = by_pattern("n r", "n", "r", "->", "n r", "n")

    def gradient(op, dindices, dvalues):
        return [None, _order_back(op, dvalues), None]

    def reference(input_indices, input_values): return in_order(input_indices, input_values)
    samples = [S(lit(PLACES[::-1]), (4,), lit(SIZE)), S(lit(PLACES), (4,), lit(SIZE)),
               S(lit(NONE), (0,), lit(SIZE)),
               S(lit([[2, 2], [0, 1], [2, 2]]), strs(["a", "b", "c"]), lit(SIZE))]


@op("SparseReshape", inputs="input_indices: int64, input_shape: int64, new_shape: int64",
    outputs="output_indices: int64, output_shape: int64")
class SparseReshape:
    """Places of the same elements in another shape; one size may be -1. TF: SparseReshape."""
    def shape(op):
        match(op, "n r", "r", "q")
        rank = width(op.inputs[2])
        return [TensorShape([_length(op.inputs[0]), rank]), TensorShape([rank])]
    gradient = UNREGISTERED

    def reference(input_indices, input_shape, new_shape):
        total = int(np.prod(input_shape))
        known = int(-np.prod(new_shape)) if -1 in new_shape else 1
        sizes = [int(total // known) if d == -1 else int(d) for d in new_shape]
        flat = np.ravel_multi_index(tuple(input_indices.T), [int(d) for d in input_shape])
        places = np.stack(np.unravel_index(flat, sizes), -1).astype(np.int64)
        return places.reshape(-1, len(sizes)), np.array(sizes, np.int64)
    samples = [S(lit(PLACES), lit(SIZE), lit([2, 6])), S(lit(PLACES), lit(SIZE), lit([2, -1, 3])),
               S(lit(NONE), lit(SIZE), lit([12]))]


@op("SparseConcat", inputs="indices: N * int64, values: N * T, shapes: N * int64",
    outputs=OUT_THREE, attrs="concat_dim: int, N: int >= 2, T: type")
class SparseConcat:
    """Sparse tensors one behind the other along a dimension, in order; no gradient, as in TF.
    TF: SparseConcat."""
    def shape(op):
        n = op.attr("N")
        counts = [f"n{i}" for i in range(n)]
        found = match(op, *(f"{c} r" for c in counts), *counts, *["r"] * n)
        sizes = [found.size(c) for c in counts]
        total = None if None in sizes else sum(sizes)
        return [TensorShape([total, found.size("r")]), TensorShape([total]), found("r")]
    gradient = None

    def reference(indices, values, shapes, concat_dim):
        moved, at = [], 0
        for places, size in zip(indices, shapes):
            places = places.copy()
            places[:, concat_dim] += at
            at += size[concat_dim]
            moved.append(places)
        total = shapes[0].copy()
        total[concat_dim] = at
        return *in_order(np.concatenate(moved), np.concatenate(values)), total
    samples = [S([lit(PLACES), lit(PLACES_B)], [(4,), (3,)], [lit(SIZE), lit(SIZE)], concat_dim=1),
               S([lit(PLACES), lit(PLACES_B)], [(4,), (3,)], [lit(SIZE), lit([5, 4])],
                 concat_dim=-2)]


@op("SparseSplit", inputs="split_dim: int64, indices: int64, values: T, shape: int64",
    outputs="output_indices: num_split * int64, output_values: num_split * T, "
            "output_shape: num_split * int64", attrs="num_split: int >= 1, T: type")
class SparseSplit:
    """The tensor cut along a dimension, the first parts one longer; no gradient, as in TF.
    TF: SparseSplit."""
    def shape(op):
        n = op.attr("num_split")
        indices, values, size = triple(width(op.inputs[3]))
        return [indices] * n + [values] * n + [size] * n
    gradient = UNREGISTERED

    def reference(split_dim, indices, values, shape, num_split):
        axis, n = int(split_dim), int(num_split)
        size, more = divmod(int(shape[axis]), n)
        parts, at = [], 0
        for i in range(n):
            width = size + (i < more)
            keep = (indices[:, axis] >= at) & (indices[:, axis] < at + width)
            places, dims = indices[keep], shape.copy()
            places[:, axis] -= at
            dims[axis] = width
            parts.append((places, values[keep], dims))
            at += width
        return tuple(p[k] for k in range(3) for p in parts)
    samples = [S(lit(1), lit(PLACES), (4,), lit(SIZE), num_split=2),
               S(lit(0), lit(PLACES), (4,), lit(SIZE), num_split=2),
               S(lit(1), lit(PLACES), (4,), lit(SIZE), num_split=3)]


@op("SparseSlice", inputs=THREE + ", start: int64, size: int64", outputs=OUT_THREE, attrs="T: type")
class SparseSlice:
    """What lies in the box from `start` of `size`, cut off at the shape. TF: SparseSlice."""
    def shape(op): return triple(width(op.inputs[2]))

    def gradient(op, dindices, dvalues, dshape):
        grad = SparseSliceGrad(dvalues, op.inputs[0], op.inputs[3], op.outputs[0])
        return [None, grad, None, None, None]

    def reference(indices, values, shape, start, size):
        low = np.minimum(start, shape)
        dims = np.minimum(size, shape - low)
        keep = ((indices >= low) & (indices < low + dims)).all(1)
        return indices[keep] - low, values[keep], dims
    samples = [S(lit(PLACES), (4,), lit(SIZE), lit([1, 0]), lit([2, 3])),
               S(lit(PLACES), (4,), lit(SIZE), lit([0, 1]), lit([9, 9])),
               S(lit(PLACES), (4,), lit(SIZE), lit([0, 0]), lit([1, 1]))]


@op("SparseSliceGrad", T=NUMBERS, outputs="val_grad: T",
    inputs="backprop_val_grad: T, input_indices: int64, input_start: int64, output_indices: int64")
class SparseSliceGrad:
    """Gradients of a slice at the places of its input; 0 elsewhere. TF: SparseSliceGrad."""
    shape = by_pattern("k", "n r", "r", "k r", "->", "n")
    gradient = UNREGISTERED

    def reference(backprop_val_grad, input_indices, input_start, output_indices):
        found = dict(zip(map(tuple, (output_indices + input_start).tolist()), backprop_val_grad))
        zero = backprop_val_grad.dtype.type(0)
        return np.array([found.get(tuple(p), zero) for p in input_indices.tolist()],
                        backprop_val_grad.dtype)
    samples = [S((2,), lit(PLACES), lit([1, 0]), lit([[0, 0], [1, 2]]))]


@op("SparseFillEmptyRows", attrs="T: type",
    inputs="indices: int64, values: T, dense_shape: int64, default_value: T",
    outputs="output_indices: int64, output_values: T, empty_row_indicator: bool, "
            "reverse_index_map: int64")
class SparseFillEmptyRows:
    """Rows without values get `default_value` at their column 0. TF: SparseFillEmptyRows."""
    def shape(op):
        found = match(op, "n r", "n", "r", "")
        dims, rank = dims_of(static_shape(op.inputs[2])), found.size("r")
        return [TensorShape([None, rank]), TensorShape([None]),
                TensorShape([dims[0] if dims else None]), TensorShape([found.size("n")])]

    def gradient(op, dindices, dvalues, dflags, dmap):
        grad, default = SparseFillEmptyRowsGrad(op.outputs[3], dvalues)
        return [None, grad, None, default]

    def reference(indices, values, dense_shape, default_value):
        rows = int(dense_shape[0])
        flags = ~np.isin(np.arange(rows), indices[:, 0])
        extra = np.zeros((int(flags.sum()), indices.shape[1]), np.int64)
        extra[:, 0] = np.nonzero(flags)[0]
        places = np.concatenate([indices, extra])
        order = np.argsort(places[:, 0], kind="stable")
        filled = np.concatenate([values, np.full(len(extra), default_value, values.dtype)])
        back = np.argsort(order)[:len(indices)]
        return places[order], filled[order], flags, back.astype(np.int64)
    samples = [S(lit([[0, 1], [2, 0], [2, 3]]), (3,), lit([5, 4]), ()),
               S(lit([[2, 1], [0, 0], [2, 3]]), (3,), lit([3, 4]), ()),
               S(lit(NONE), (0,), lit([2, 4]), ())]


@op("SparseFillEmptyRowsGrad", inputs="reverse_index_map: int64, grad_values: T",
    outputs="d_values: T, d_default_value: T", attrs="T: type")
class SparseFillEmptyRowsGrad:
    """Gradients of values that were kept, and the sum of those filled in.
    TF: SparseFillEmptyRowsGrad."""
    def shape(op):
        match(op, "n", "m")
        return [TensorShape([_length(op.inputs[0])]), TensorShape([])]
    gradient = UNREGISTERED

    def reference(reverse_index_map, grad_values):
        rest = np.delete(grad_values, reverse_index_map)
        return grad_values[reverse_index_map], rest.sum(dtype=grad_values.dtype)
    samples = [S(lit([0, 2, 3]), (5,), types=NUMBERS),
               S(lit(np.zeros(0, int)), (2,), types=NUMBERS)]


# ------------------------------------------------------------------------------- two operands
@op("SparseAdd", inputs=A_B + ", thresh: Treal", T=NUMBERS, Treal=REAL,
    outputs="sum_indices: int64, sum_values: T, sum_shape: int64")
class SparseAdd:
    """Sums of two sparse tensors; where both have a value and the sum is smaller than `thresh` it
    is left out. TF: SparseAdd."""
    def shape(op):
        match(op, "n r", "n", "r", "m r", "m", "r", "")
        return triple(width(op.inputs[2]))

    def gradient(op, dindices, dvalues, dshape):
        a, b = SparseAddGrad(dvalues, op.inputs[0], op.inputs[3], op.outputs[0])
        return [None, a, None, None, b, None, None]

    def reference(a_indices, a_values, a_shape, b_indices, b_values, b_shape, thresh):
        places, values = _joined(a_indices, a_values, b_indices, b_values, np.add)
        both = {tuple(p) for p in a_indices.tolist()} & {tuple(p) for p in b_indices.tolist()}
        keep = (np.abs(values) >= thresh) | [tuple(p) not in both for p in places.tolist()]
        return places[keep], values[keep], a_shape
    samples = [S(lit(PLACES), (4,), lit(SIZE), lit(PLACES_B), (3,), lit(SIZE), lit(0)),
               S(lit(NONE), (0,), lit(SIZE), lit(PLACES_B), (3,), lit(SIZE), lit(2))]


@op("SparseAddGrad", T=NUMBERS, outputs="a_val_grad: T, b_val_grad: T",
    inputs="backprop_val_grad: T, a_indices: int64, b_indices: int64, sum_indices: int64")
class SparseAddGrad:
    """Gradients of both operands of SparseAdd. TF: SparseAddGrad."""
    shape = by_pattern("k", "n r", "m r", "k r", "->", "n", "m")
    gradient = None

    def reference(backprop_val_grad, a_indices, b_indices, sum_indices):
        found = dict(zip(map(tuple, sum_indices.tolist()), backprop_val_grad))
        zero = backprop_val_grad.dtype.type(0)
        return tuple(np.array([found.get(tuple(p), zero) for p in places.tolist()],
                              backprop_val_grad.dtype) for places in (a_indices, b_indices))
    samples = [S((5,), lit(PLACES), lit(PLACES_B), lit([[0, 1], [0, 2], [1, 0], [1, 3], [2, 2]]))]


def _extremum(name, ufunc, doc):
    @op(name, inputs=A_B, outputs="output_indices: int64, output_values: T", T=REAL, doc=doc)
    class Extremum:
        shape = by_pattern("n r", "n", "r", "m r", "m", "r", "->", "k r", "k")
        gradient = UNREGISTERED

        def reference(a_indices, a_values, a_shape, b_indices, b_values):
            return _joined(a_indices, a_values, b_indices, b_values, ufunc)
        samples = [S(lit(PLACES), (4,), lit(SIZE), lit(PLACES_B), (3,), lit(SIZE)),
                   S(lit(NONE), (0,), lit(SIZE), lit(PLACES_B), (3,), lit(SIZE))]
    return Extremum


SparseSparseMaximum = _extremum("SparseSparseMaximum", np.maximum,
                                "The larger of two sparse tensors, absent places as 0; no "
                                "gradient, as in TF. TF: SparseSparseMaximum.")
SparseSparseMinimum = _extremum("SparseSparseMinimum", np.minimum,
                                "The smaller of two sparse tensors, absent places as 0; no "
                                "gradient, as in TF. TF: SparseSparseMinimum.")


@op("SparseTensorDenseAdd", outputs="output: T", T=NUMBERS, attrs="Tindices: {int32, int64}",
    inputs="a_indices: Tindices, a_values: T, a_shape: Tindices, b: T")
class SparseTensorDenseAdd:
    """A dense tensor with a sparse one added. TF: SparseTensorDenseAdd."""
    def shape(op): return op.inputs[3].shape

    def gradient(op, dy):
        return [None, raw_ops.GatherNd(dy, op.inputs[0]), None, dy]

    def reference(a_indices, a_values, a_shape, b):
        return b + dense_of(a_indices, a_values, a_shape)
    samples = [S(lit(PLACES), (4,), lit(SIZE), (3, 4)), S(lit(NONE), (0,), lit(SIZE), (3, 4))]


def _picked(op):
    """(the dense operand's value at each sparse place, its index there)."""
    indices, _, shape, dense = op.inputs
    rank = dense.shape.ndims
    if rank is None or indices.shape.ndims is None:
        raise ValueError(f"the gradient of '{op.name}' ({op.type}) needs a dense operand of known "
                         "rank")
    dims = tensors.shape(dense, out_type=dtypes.int64)
    width = tensors.shape(shape)[0]
    own = indices[:, width - rank:]
    places = own // (shape[width - rank:] // dims)
    return raw_ops.GatherNd(dense, places), places


def _cwise(name, ufunc, partial, doc):
    @op(name, inputs=SP_THREE + ", dense: T", outputs="output: T", T=NUMBERS, doc=doc)
    class Cwise:
        shape = by_pattern("n r", "n", "r", None, "->", "n")

        def gradient(op, dy):
            at, places = _picked(op)
            dx, dd = partial(dy, op.inputs[1], at)
            dims = tensors.shape(op.inputs[3], out_type=dtypes.int64)
            return [None, dx, None, raw_ops.ScatterNd(places, dd, dims)]

        def reference(sp_indices, sp_values, sp_shape, dense):
            wide = np.broadcast_to(dense, [int(d) for d in sp_shape])[tuple(sp_indices.T)]
            if wide.dtype.kind in "iu" and ufunc is np.divide:
                return np.trunc(sp_values.astype(float) / wide).astype(wide.dtype)
            return ufunc(sp_values, wide)
        samples = [S(lit(PLACES), (4,), lit(SIZE), pos((3, 4))),
                   S(lit(PLACES), (4,), lit(SIZE), pos((4,))),
                   S(lit(PLACES), (4,), lit(SIZE), pos((3, 1)))]
    return Cwise


SparseDenseCwiseAdd = _cwise("SparseDenseCwiseAdd", np.add, lambda dy, x, d: (dy, dy),
                             "Values plus the dense tensor, broadcast to the sparse one's shape. "
                             "TF: SparseDenseCwiseAdd.")
SparseDenseCwiseMul = _cwise("SparseDenseCwiseMul", np.multiply,
                             lambda dy, x, d: (dy * conj(d), dy * conj(x)),
                             "Values times the dense tensor, broadcast to the sparse one's shape. "
                             "TF: SparseDenseCwiseMul.")
SparseDenseCwiseDiv = _cwise("SparseDenseCwiseDiv", np.divide,
                             lambda dy, x, d: (dy / conj(d), dy * conj(-x / (d * d))),
                             "Values by the dense tensor, broadcast to the sparse one's shape. "
                             "TF: SparseDenseCwiseDiv.")


# ---------------------------------------------------------------------------------- reductions
def _reduce_shape(op):
    size, axes = static(op.inputs[2]), static(op.inputs[3])
    keep = op.attr("keep_dims")
    if size is None or axes is None:
        rank = width(op.inputs[2])
        return TensorShape([None] * rank) if keep and rank is not None else unknown_shape()
    rank = len(size)
    if any(not -rank <= a < rank for a in np.ravel(axes)):
        return unknown_shape()                  # the step says so: InvalidArgumentError, as TF's
    gone = _axes(axes, rank)
    return TensorShape([1 if i in gone else int(d) for i, d in enumerate(size)
                        if keep or i not in gone])


def _axes(axes, rank):
    return tuple(int(a) % rank for a in np.ravel(axes))


REDUCED = [S(lit(CUBE), (5,), lit([2, 2, 3]), lit([1])),
           S(lit(CUBE), (5,), lit([2, 2, 3]), lit([0, -1]), keep_dims=True),
           S(lit(CUBE), (5,), lit([2, 2, 3]), lit(np.zeros(0, np.int32))),
           S(lit(NONE), (0,), lit(SIZE), lit([0]))]


def _reduced_dense(indices, values, shape, axes, keep, ufunc):
    rank = len(shape)
    gone = _axes(axes, rank)
    kept = [1 if i in gone else int(d) for i, d in enumerate(shape)]
    result = np.zeros(kept, values.dtype)
    seen = np.zeros(kept, bool)
    for place, value in zip(indices, values):
        at = tuple(0 if i in gone else p for i, p in enumerate(place))
        result[at] = ufunc(result[at], value) if seen[at] else value
        seen[at] = True
    return (result if keep else result.reshape([d for i, d in enumerate(kept) if i not in gone]),
            seen)


@op("SparseReduceSum", inputs=IN_THREE + ", reduction_axes: int32", outputs="output: T", T=NUMBERS,
    attrs="keep_dims: bool = false")
class SparseReduceSum:
    """Sums over axes, as a dense tensor; over none it is the tensor made dense.
    TF: SparseReduceSum."""
    shape = _reduce_shape

    def gradient(op, dy):
        indices, _, size, axes = op.inputs
        kept = _kept_dims(size, axes)
        places = indices // (size // kept)
        return [None, raw_ops.GatherNd(raw_ops.Reshape(dy, kept), places), None, None]

    def reference(input_indices, input_values, input_shape, reduction_axes, keep_dims):
        return _reduced_dense(input_indices, input_values, input_shape, reduction_axes, keep_dims,
                              np.add)[0]
    samples = REDUCED


def _kept_dims(size, axes):
    """The shape with reduced dimensions as 1."""
    rank = tensors.shape(size)[0]
    place = tensors.range_(rank)
    hit = raw_ops.Equal(raw_ops.ExpandDims(raw_ops.FloorMod(axes, rank), 0),
                        raw_ops.ExpandDims(place, 1))
    return raw_ops.Select(tensors.any_of(hit, 1), tensors.ones_like(size), size)


@op("SparseReduceMax", inputs=IN_THREE + ", reduction_axes: int32", outputs="output: T", T=REAL,
    attrs="keep_dims: bool = false")
class SparseReduceMax:
    """Largest values over axes, 0 where there are none; no gradient, as in TF.
    TF: SparseReduceMax."""
    shape = _reduce_shape
    gradient = UNREGISTERED

    def reference(input_indices, input_values, input_shape, reduction_axes, keep_dims):
        return _reduced_dense(input_indices, input_values, input_shape, reduction_axes, keep_dims,
                              np.maximum)[0]
    samples = REDUCED


def _sparse_reduction(name, ufunc, types, doc):
    @op(name, inputs=IN_THREE + ", reduction_axes: int32", outputs=OUT_THREE, T=types,
        attrs="keep_dims: bool = false", doc=doc)
    class Reduction:
        def shape(op): return triple(width(op.inputs[2]) if op.attr("keep_dims") else None)
        gradient = UNREGISTERED

        def reference(input_indices, input_values, input_shape, reduction_axes, keep_dims):
            result, seen = _reduced_dense(input_indices, input_values, input_shape, reduction_axes,
                                          True, ufunc)
            places = np.argwhere(seen).astype(np.int64)
            size = np.array(result.shape, np.int64)
            if not keep_dims:
                gone = _axes(reduction_axes, len(size))
                places, size = np.delete(places, gone, 1), np.delete(size, gone)
            return places, result[seen], size
        samples = REDUCED
    return Reduction


SparseReduceSumSparse = _sparse_reduction("SparseReduceSumSparse", np.add, NUMBERS,
                                          "Sums over axes, as a sparse tensor; no gradient, as in "
                                          "TF. TF: SparseReduceSumSparse.")
SparseReduceMaxSparse = _sparse_reduction("SparseReduceMaxSparse", np.maximum, REAL,
                                          "Largest values over axes, as a sparse tensor; no "
                                          "gradient, as in TF. TF: SparseReduceMaxSparse.")


@op("SparseSoftmax", inputs=SP_THREE, outputs="output: T",
    T=(dtypes.float16, dtypes.float32, dtypes.float64))
class SparseSoftmax:
    """Softmax over the values of each row of the last dimension, absent ones left out.
    TF: SparseSoftmax."""
    shape = by_pattern("n r", "n", "r", "->", "n")

    def gradient(op, dy):
        indices, _, size = op.inputs
        y = op.outputs[0]
        total = SparseReduceSum(indices, dy * y, size, np.array([-1], np.int32), keep_dims=True)
        return [None, SparseDenseCwiseAdd(indices, dy, size, -total) * y, None]

    def reference(sp_indices, sp_values, sp_shape):
        result = np.zeros_like(sp_values)
        for row in np.unique(sp_indices[:, :-1], axis=0):
            own = (sp_indices[:, :-1] == row).all(1)
            e = np.exp(sp_values[own] - sp_values[own].max())
            result[own] = e / e.sum()
        return result
    samples = [S(lit(PLACES), (4,), lit(SIZE)), S(lit(CUBE), (5,), lit([2, 2, 3])),
               S(lit(NONE), (0,), lit(SIZE))]


# ------------------------------------------------------------------------------------ products
def _sparse_product_gradient(op, dy):
    indices, values, size, b = op.inputs
    left, right = op.attr("adjoint_a"), op.attr("adjoint_b")
    db = SparseTensorDenseMatMul(indices, values, size, dy, adjoint_a=not left)
    rows, columns = indices[:, 0], indices[:, 1]
    if left:
        rows, columns = columns, rows
    mine = tensors.gather(dy, rows)
    other = tensors.gather(adjoint(b) if right else b, columns)
    dvalues = tensors.sum_of(mine * conj(other), -1)
    return [None, conj(dvalues) if left else dvalues, None, adjoint(db) if right else db]


@op("SparseTensorDenseMatMul", outputs="product: T",
    inputs="a_indices: Tindices, a_values: T, a_shape: int64, b: T",
    attrs="T: type, Tindices: {int32, int64} = int64, adjoint_a: bool = false, "
          "adjoint_b: bool = false")
class SparseTensorDenseMatMul:
    """Product of a sparse matrix and a dense one, each perhaps its adjoint.
    TF: SparseTensorDenseMatMul."""
    def shape(op):
        match(op, "n 2", "n", "2", "k m")
        b = dims_of(op.inputs[3].shape)
        left, right = op.attr("adjoint_a"), op.attr("adjoint_b")
        sizes = dims_of(static_shape(op.inputs[2])) or [None, None]
        rows, inner = sizes[::-1] if left else sizes
        if b is not None and None not in (inner, b[1 if right else 0]) \
                and inner != b[1 if right else 0]:
            raise ValueError(f"SparseTensorDenseMatMul: inner dimensions must be equal, got "
                             f"{inner} and {b[1 if right else 0]} (a {sizes}, b {b})")
        return TensorShape([rows, None if b is None else b[0 if right else 1]])
    gradient = _sparse_product_gradient

    def reference(a_indices, a_values, a_shape, b, adjoint_a, adjoint_b):
        a = dense_of(a_indices, a_values, a_shape)
        return (np.conj(a.T) if adjoint_a else a) @ (np.conj(b.T) if adjoint_b else b)
    samples = [S(lit(PLACES), (4,), lit(SIZE), (4, 2)),
               S(lit(PLACES), (4,), lit(SIZE), (3, 2), adjoint_a=True),
               S(lit(PLACES), (4,), lit(SIZE), (2, 4), adjoint_b=True),
               S(lit(PLACES), (4,), lit(SIZE), (2, 3), adjoint_a=True, adjoint_b=True),
               S(lit(NONE), (0,), lit(SIZE), (4, 2))]


def _dense_product_gradient(op, dy):
    a, b = (tensors.cast(x, dtypes.float32) for x in op.inputs)
    ta, tb = op.attr("transpose_a"), op.attr("transpose_b")
    da = (matmul(b, dy, transpose_a=tb, transpose_b=True) if ta
          else matmul(dy, b, transpose_b=not tb))
    db = (matmul(dy, a, transpose_a=True, transpose_b=ta) if tb
          else matmul(a, dy, transpose_a=not ta))
    return [tensors.cast(g, x.dtype) for g, x in zip((da, db), op.inputs)]


@op("SparseMatMul", inputs="a: Ta, b: Tb", outputs="product: float",
    attrs="transpose_a: bool = false, transpose_b: bool = false, a_is_sparse: bool = false, "
          "b_is_sparse: bool = false, Ta: {float, bfloat16} = float, Tb: {float, bfloat16} = float")
class SparseMatMul:
    """Product of matrices of which one has many zeros. TF: SparseMatMul."""
    def shape(op):
        ta, tb = op.attr("transpose_a"), op.attr("transpose_b")
        a, b = (dims_of(x.shape.with_rank(2)) for x in op.inputs)
        rows, inner = (a[::-1] if ta else a) if a else (None, None)
        inner_b, columns = (b[::-1] if tb else b) if b else (None, None)
        if inner is not None and inner_b is not None and inner != inner_b:
            raise ValueError(f"SparseMatMul: Dimensions must be equal, but are {inner} and "
                             f"{inner_b}")
        return TensorShape([rows, columns])
    gradient = _dense_product_gradient

    def reference(a, b, transpose_a, transpose_b):
        return (a.T if transpose_a else a) @ (b.T if transpose_b else b)
    samples = [S((2, 3), (3, 4)), S((3, 2), (3, 4), transpose_a=True),
               S((2, 3), (4, 3), transpose_b=True),
               S((3, 2), (4, 3), transpose_a=True, transpose_b=True)]
