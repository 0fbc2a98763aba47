"""Sparse tensors as strings: the blocks of tf.serialize_sparse and deserialize_sparse.

Invariant: three strings, serialized TensorProtos of indices, values and shape, in TensorFlow's
format.

Example:  `tf.deserialize_many_sparse(tf.serialize_many_sparse(x), tf.float32)`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op, strs
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import static
from pyflow.ops.base.shape_rules import match
from pyflow.ops.sparse.sparse_ops import CUBE, NONE, PLACES, SIZE, triple


@op("SerializeSparse", outputs="serialized_sparse: out_type",
    inputs="sparse_indices: int64, sparse_values: T, sparse_shape: int64",
    attrs="T: type, out_type: {string, variant} = string")
class SerializeSparse:
    """Three strings, serialized TensorProtos, of a sparse tensor. No oracle: what is read back is
    compared. TF: SerializeSparse."""
    def shape(op):
        match(op, "n _", "n", "_")
        return TensorShape([3])
    gradient = UNREGISTERED
    reference = None
    samples = [S(lit(PLACES), (4,), lit(SIZE)), S(lit(NONE), (0,), lit(SIZE)),
               S(lit(PLACES), strs(["a", "", "ccc", "d"]), lit(SIZE))]


@op("SerializeManySparse", outputs="serialized_sparse: out_type",
    inputs="sparse_indices: int64, sparse_values: T, sparse_shape: int64",
    attrs="T: type, out_type: {string, variant} = string")
class SerializeManySparse:
    """[rows, 3] strings of the rows of a sparse tensor. No oracle: what is read back is compared.
    TF: SerializeManySparse."""
    def shape(op):
        match(op, "n r", "n", "r")
        size = static(op.inputs[2])
        return TensorShape([None if size is None or not len(size) else int(size[0]), 3])
    gradient = UNREGISTERED
    reference = None
    samples = [S(lit(PLACES), (4,), lit(SIZE)), S(lit(CUBE), (5,), lit([2, 2, 3]))]


# A sparse tensor of shape [3] with the float 1.5 at place 2, as TensorFlow writes it.
WRITTEN = [b"\x08\x09\x12\x08\x12\x02\x08\x01\x12\x02\x08\x01\x22\x08" + (2).to_bytes(8, "little"),
           b"\x08\x01\x12\x04\x12\x02\x08\x01\x22\x04" + np.float32(1.5).tobytes(),
           b"\x08\x09\x12\x04\x12\x02\x08\x01\x22\x08" + (3).to_bytes(8, "little")]


@op("DeserializeSparse", inputs="serialized_sparse: Tserialized",
    outputs="sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
    attrs="dtype: type, Tserialized: {string, variant} = string")
class DeserializeSparse:
    """The sparse tensor of [..., 3] strings; the leading dimensions come first.
    TF: DeserializeSparse."""
    def shape(op):
        match(op, "* 3")
        return triple(None)
    gradient = UNREGISTERED

    def reference(serialized_sparse):
        many = serialized_sparse.ndim == 2
        places = [[i, 2] if many else [2] for i in range(serialized_sparse.size // 3)]
        return (np.array(places, np.int64), np.full(len(places), 1.5, np.float32),
                np.array([len(places), 3] if many else [3], np.int64))
    samples = [S(strs(WRITTEN), dtype=dtypes.float32),
               S(strs([WRITTEN, WRITTEN]), dtype=dtypes.float32)]


@op("DeserializeManySparse", inputs="serialized_sparse: string", attrs="dtype: type",
    outputs="sparse_indices: int64, sparse_values: dtype, sparse_shape: int64")
class DeserializeManySparse:
    """One sparse tensor, a row from each of the [n, 3] strings. TF: DeserializeManySparse."""
    def shape(op):
        match(op, "n 3")
        return triple(None)
    gradient = UNREGISTERED

    def reference(serialized_sparse):
        n = len(serialized_sparse)
        return (np.array([[i, 2] for i in range(n)], np.int64), np.full(n, 1.5, np.float32),
                np.array([n, 3], np.int64))
    samples = [S(strs([WRITTEN, WRITTEN]), dtype=dtypes.float32)]
