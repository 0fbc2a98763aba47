"""Sets along the last dimension, and the edit distance of sequences there: the blocks.

Invariants
  1. A set is a row of the last dimension; repeated elements count once, results rise.
  2. Operands have equal leading dimensions; a result is sparse, as wide as its largest set.

Example:  `tf.sets.union(a, b)`;  functions: sparse_functions.py.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, lit, op, strs
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base.common import dims_of, static
from pyflow.ops.base.shape_rules import match
from pyflow.ops.sparse.sparse_ops import triple, width

ELEMENTS = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16,
            dtypes.string)
RESULT = "result_indices: int64, result_values: T, result_shape: int64"
ATTRS = "set_operation: string, validate_indices: bool = true"
FIRST, SECOND = [[1, 2, 2, 5], [3, 0, 3, 1]], [[2, 7, 5], [4, 4, 4]]
ROWS, MORE = [[0, 0], [0, 1], [1, 2]], [[0, 0], [0, 3], [2, 1]]


def _groups(indices, values, shape):
    """{leading index: set of elements}."""
    found = {}
    for place, value in zip(indices.tolist(), values):
        found.setdefault(tuple(place[:-1]), set()).add(value)
    return found


def _dense_groups(x):
    places = np.stack([i.ravel() for i in np.indices(x.shape)], -1)
    return _groups(places, x.ravel(), x.shape)


def _combined(a, b, shape, operation, dtype):
    combine = {"a-b": set.difference, "b-a": lambda x, y: y - x, "union": set.union,
               "intersection": set.intersection}[operation]
    places, values, longest = [], [], 0
    for group in sorted(set(a) | set(b)):
        elements = sorted(combine(a.get(group, set()), b.get(group, set())))
        longest = max(longest, len(elements))
        places += [[*group, i] for i in range(len(elements))]
        values += elements
    return (np.array(places, np.int64).reshape(-1, len(shape)), np.array(values, dtype),
            np.array([*shape[:-1], longest], np.int64))


def _rank_of(op):
    for tensor in op.inputs:
        dims = dims_of(tensor.shape)
        if tensor.dtype != dtypes.int64 and dims is not None and len(dims) >= 2:
            return len(dims)
    widths = [w for w in (width(t) for t in op.inputs[2::3]) if w is not None]
    return widths[0] if widths and op.type != "DenseToSparseSetOperation" else None


@op("DenseToDenseSetOperation", inputs="set1: T, set2: T", outputs=RESULT, T=ELEMENTS, attrs=ATTRS)
class DenseToDenseSetOperation:
    """"a-b", "b-a", "intersection" or "union" of rows of two dense tensors.
    TF: DenseToDenseSetOperation."""
    def shape(op):
        match(op, "* _", "* _")
        return triple(_rank_of(op))
    gradient = None

    def reference(set1, set2, set_operation):
        return _combined(_dense_groups(set1), _dense_groups(set2), set1.shape, set_operation,
                         set1.dtype)
    samples = [S(lit(FIRST), lit(SECOND), set_operation=o)
               for o in ("a-b", "b-a", "intersection", "union")] + [
        S(strs([["a", "b"], ["c", "c"]]), strs([["b", "z"], ["c", "a"]]), set_operation="union")]


@op("DenseToSparseSetOperation", outputs=RESULT, T=ELEMENTS, attrs=ATTRS,
    inputs="set1: T, set2_indices: int64, set2_values: T, set2_shape: int64")
class DenseToSparseSetOperation:
    """"a-b", "b-a", "intersection" or "union" of rows of a dense and a sparse tensor.
    TF: DenseToSparseSetOperation."""
    def shape(op):
        found = match(op, None, "n r", "n", "r")
        rank = op.inputs[0].shape.with_rank_at_least(2).ndims
        if rank is not None and found.size("r") not in (None, rank):
            raise ValueError(f"{op.type}: sets of rank {rank} and {found.size('r')}")
        return triple(found.size("r") if rank is None else rank)
    gradient = None

    def reference(set1, set2_indices, set2_values, set2_shape, set_operation):
        return _combined(_dense_groups(set1), _groups(set2_indices, set2_values, set2_shape),
                         set1.shape, set_operation, set1.dtype)
    samples = [S(lit(FIRST), lit(ROWS), lit([2, 9, 3]), lit([2, 3]), set_operation=o)
               for o in ("a-b", "b-a", "intersection", "union")]


@op("SparseToSparseSetOperation", outputs=RESULT, T=ELEMENTS, attrs=ATTRS,
    inputs="set1_indices: int64, set1_values: T, set1_shape: int64, set2_indices: int64, "
           "set2_values: T, set2_shape: int64")
class SparseToSparseSetOperation:
    """"a-b", "b-a", "intersection" or "union" of rows of two sparse tensors.
    TF: SparseToSparseSetOperation."""
    def shape(op): return triple(match(op, "n r", "n", "r", "m r", "m", "r").size("r"))
    gradient = None

    def reference(set1_indices, set1_values, set1_shape, set2_indices, set2_values, set2_shape,
                  set_operation):
        return _combined(_groups(set1_indices, set1_values, set1_shape),
                         _groups(set2_indices, set2_values, set2_shape), list(set1_shape),
                         set_operation, set1_values.dtype)
    samples = [S(lit(ROWS), lit([2, 9, 3]), lit([3, 3]), lit(MORE), lit([9, 9, 1]), lit([3, 4]),
                 set_operation=o) for o in ("a-b", "b-a", "intersection", "union")]


@op("SetSize", inputs="set_indices: int64, set_values: T, set_shape: int64", outputs="size: int32",
    T=ELEMENTS, attrs="validate_indices: bool = true")
class SetSize:
    """Numbers of different elements of rows of a sparse tensor. TF: SetSize."""
    def shape(op):
        size, rank = static(op.inputs[2]), width(op.inputs[2])
        if size is not None:
            return TensorShape([int(d) for d in size[:-1]])
        return unknown_shape() if rank is None else TensorShape([None] * (rank - 1))
    gradient = None

    def reference(set_indices, set_values, set_shape):
        result = np.zeros([int(d) for d in set_shape[:-1]], np.int32)
        for group, elements in _groups(set_indices, set_values, set_shape).items():
            result[group] = len(elements)
        return result
    samples = [S(lit(ROWS), lit([2, 2, 3]), lit([2, 3])),
               S(lit(ROWS), strs(["a", "b", "c"]), lit([4, 3]))]


def _levenshtein(a, b):
    line = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        corner, line[0] = line[0], i
        for j, y in enumerate(b, 1):
            corner, line[j] = line[j], min(line[j] + 1, line[j - 1] + 1, corner + (x != y))
    return line[-1]


@op("EditDistance", outputs="output: float", attrs="normalize: bool = true, T: type",
    inputs="hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape: int64, "
           "truth_indices: int64, truth_values: T, truth_shape: int64")
class EditDistance:
    """Levenshtein's distances of the sequences along the last dimension. TF: EditDistance."""
    def shape(op):
        match(op, "n r", "n", "r", "m r", "m", "r")
        a, b = static(op.inputs[2]), static(op.inputs[5])
        if a is not None and b is not None and len(a) == len(b):
            return TensorShape([int(max(x, y)) for x, y in zip(a[:-1], b[:-1])])
        rank = width(op.inputs[2])
        return unknown_shape() if rank is None else TensorShape([None] * (rank - 1))
    gradient = None

    def reference(hypothesis_indices, hypothesis_values, hypothesis_shape, truth_indices,
                  truth_values, truth_shape, normalize):
        result = np.zeros(np.maximum(hypothesis_shape, truth_shape)[:-1], np.float32)
        for group in np.ndindex(result.shape):
            a, b = ([v for p, v in zip(places.tolist(), values) if tuple(p[:-1]) == group]
                    for places, values in ((hypothesis_indices, hypothesis_values),
                                           (truth_indices, truth_values)))
            found = _levenshtein(a, b)
            result[group] = found if not normalize else found / len(b) if b else (
                np.inf if a else 0.0)
        return result
    samples = [S(lit(ROWS), lit([1, 2, 3]), lit([3, 3]), lit(MORE), lit([1, 9, 3]), lit([3, 4])),
               S(lit(ROWS), lit([1, 2, 3]), lit([3, 3]), lit(MORE), lit([1, 9, 3]), lit([3, 4]),
                 normalize=False),
               S(lit([[0, 0], [0, 1]]), strs(["a", "b"]), lit([1, 2]),
                 lit([[0, 0], [0, 1], [0, 2]]), strs(["b", "b", "c"]), lit([1, 3]))]
