"""Crossed features: one value for each way to take a feature from every column of a row.

Invariants
  1. A row's crosses come in the order of its features, the last column's turning fastest; sparse
     columns stand before dense ones.
  2. Texts are joined; hashes are combined as TF's FingerprintCat64 does, strings by FarmHash's
     Fingerprint64, numbers as they are.

Example:  `tf.sparse.cross([a, tf.constant([["x"], ["y"]])]).values`  # [b"1_X_x", ...]
"""
import itertools

import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op, strs
from pyflow.framework.tensor_shape import TensorShape

COLUMNS = "indices: N * int64, values: sparse_types, shapes: N * int64, dense_inputs: dense_types"
COLUMN_TYPES = "N: int >= 0, sparse_types: list({int64, string}) >= 0, " \
               "dense_types: list({int64, string}) >= 0"
RESULT = "output_indices: int64, output_values: {}, output_shape: int64"
MASK = 2**64 - 1


def _crossed_shape(op):
    for tensor in op.inputs[:op.attr("N")]:
        if tensor.shape.ndims not in (None, 2):
            raise ValueError(f"{op.type}: indices must be [n, 2], got shape {tensor.shape}")
    return [TensorShape([None, 2]), TensorShape([None]), TensorShape([2])]


# ------------------------------------------------------------------------------- oracles
def _rows(indices, values, shapes, dense_inputs):
    """For each row of the batch, the list of features of every column."""
    batch = int(shapes[0][0]) if len(shapes) else len(dense_inputs[0])
    for b in range(batch):
        yield [[v for at, v in zip(where, own) if at[0] == b]
               for where, own in zip(indices, values)] + [list(d[b]) for d in dense_inputs]


def _crossed(inputs, value, dtype):
    crosses = [list(itertools.product(*row)) for row in _rows(*inputs)]
    where = [(b, k) for b, row in enumerate(crosses) for k in range(len(row))]
    values = np.empty(len(where), dtype)
    values[:] = [value(cross) for row in crosses for cross in row]
    return (np.array(where, np.int64).reshape(-1, 2), values,
            np.array([len(crosses), max(map(len, crosses), default=0)]))


def _text(between):
    def value(cross):
        return between.join(v if isinstance(v, bytes) else b"%d" % v for v in cross)
    return value


def _combined(a, b):
    by = 0xc6a4a7935bd1e995
    mixed = (b * by) & MASK
    h = (a ^ by) ^ ((mixed ^ mixed >> 47) * by & MASK)
    h = h * by & MASK
    h = (h ^ h >> 47) * by & MASK
    return h ^ h >> 47


def _hash(cross, start, buckets):
    numbers = [int(v) & MASK for v in cross]
    h = start & MASK
    for number in numbers:
        h = _combined(h, number)
    return h % (buckets or 2**63 - 1)


# ------------------------------------------------------------------------------- ops
A, B = lit([[0, 0], [0, 2], [2, 1]], dtypes.int64), lit([[0, 0], [1, 0], [2, 0], [2, 1]],
                                                       dtypes.int64)
SIZE = lit([3, 3], dtypes.int64)
NUMBERS = [lit([5, -7, 9], dtypes.int64)]
MIXED = NUMBERS + [strs(["a", "b", "", "d"])]
DENSE_NUMBERS = [lit([[1, 2], [3, 4], [5, 6]], dtypes.int64)]
DENSE_TEXTS = [strs([["x", "y"], ["z", ""], ["u", "v"]])]


@op("SparseCross", inputs=COLUMNS, outputs=RESULT.format("out_type"),
    attrs="N: int >= 0, hashed_output: bool, num_buckets: int >= 0, hash_key: int, "
          "sparse_types: list({int64, string}) >= 0, dense_types: list({int64, string}) >= 0, "
          "out_type: {int64, string}, internal_type: {int64, string}")
class SparseCross:
    """Crosses of sparse and dense columns as texts joined by _X_, or hashed. TF: SparseCross."""
    shape = _crossed_shape
    gradient = UNREGISTERED

    def reference(indices, values, shapes, dense_inputs, hashed_output, num_buckets, hash_key):
        inputs = indices, values, shapes, dense_inputs
        if not hashed_output:
            return _crossed(inputs, _text(b"_X_"), object)
        return _crossed(inputs, lambda cross: _hash(cross, hash_key, num_buckets), np.int64)
    samples = [
        S([A, B], MIXED, [SIZE, SIZE], DENSE_TEXTS, hashed_output=False, num_buckets=0, hash_key=1,
          out_type=dtypes.string, internal_type=dtypes.string),
        S([A], NUMBERS, [SIZE], DENSE_NUMBERS, hashed_output=True, num_buckets=0, hash_key=77,
          out_type=dtypes.int64, internal_type=dtypes.int64),
        S([A], NUMBERS, [SIZE], DENSE_NUMBERS, hashed_output=True, num_buckets=11, hash_key=77,
          out_type=dtypes.int64, internal_type=dtypes.int64)]


@op("SparseCrossV2", inputs=COLUMNS + ", sep: string", outputs=RESULT.format("string"),
    attrs=COLUMN_TYPES)
class SparseCrossV2:
    """Crosses of sparse and dense columns as texts joined by `sep`. TF: SparseCrossV2."""
    shape = _crossed_shape
    gradient = UNREGISTERED

    def reference(indices, values, shapes, dense_inputs, sep):
        return _crossed((indices, values, shapes, dense_inputs), _text(bytes(sep.item())), object)
    samples = [S([A, B], MIXED, [SIZE, SIZE], DENSE_TEXTS, strs("&")),
               S([], [], [], DENSE_NUMBERS + DENSE_TEXTS, strs("")),
               S([A], NUMBERS, [SIZE], [], strs("-"))]


@op("SparseCrossHashed",
    inputs=COLUMNS + ", num_buckets: int64, strong_hash: bool, salt: int64",
    outputs=RESULT.format("int64"), attrs=COLUMN_TYPES)
class SparseCrossHashed:
    """Crosses of sparse and dense columns, hashed; strings, and as TF does the lower four bytes of
    sparse numbers, by FarmHash, or by SipHash with key `salt` if strong_hash. No NumPy oracle:
    TensorFlow's recorded answers. TF: SparseCrossHashed."""
    shape = _crossed_shape
    gradient = UNREGISTERED

    reference = None
    samples = [S([A], NUMBERS, [SIZE], DENSE_NUMBERS, lit(buckets), lit(False), lit([1, 2]))
               for buckets in (0, 100)]
