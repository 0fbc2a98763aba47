"""Serialized messages as tensors: the blocks of tf.parse_example and its kin, tf.parse_tensor.

Invariants
  1. Keys are strings of a node's inputs (V2: vectors of them) or attributes; types and shapes are
     attributes; a default of no element says that the feature must be there.
  2. A sparse feature has three outputs, a dense one one, a ragged one two (in lists: three).
  3. With a scalar of one example outputs have no dimension of examples.

No reference, on purpose: tests/parsing compares with what TensorFlow recorded.
Example:  `tf.parse_example(strings, {"x": tf.FixedLenFeature([3], tf.float32)})`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op, strs
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base.common import unchanged

KINDS = "{float, int64, string}"
ONE = b"\n\x0f\n\r\n\x01a\x12\x08\x1a\x06\n\x04\x01\x01\x03\x04"       # a: [1, 1, 3, 4]
LISTS = (b"\n\x0c\n\n\n\x01a\x12\x05\x1a\x03\n\x01\x07"              # a: [7]; w: [[1, 2, 3]]
         b"\x12\x10\n\x0e\n\x01w\x12\t\n\x07\x1a\x05\n\x03\x01\x02\x03")


def _count(op, name):
    """How many tensors an argument has: by the list or the number that is its attribute."""
    value = op.attr(name)
    return len(value) if isinstance(value, (list, tuple)) else value


def _sparse(front, count):
    """Shapes of `count` sparse tensors whose indices have `front` columns (None: unknown)."""
    return ([TensorShape([None, front])] * count + [TensorShape([None])] * count
            + [TensorShape([front])] * count)


def _splits(front, count, single):
    """Row splits of ragged tensors in a batch of shape `front`; of one example: shape `single`."""
    if front.ndims == 0:
        return [TensorShape(single)] * count
    rows = None if front.ndims is None else front.as_list()[0]
    return [TensorShape([None if rows is None else rows + 1])] * count


def _of_examples(op, front):
    rank = None if front.ndims is None else front.ndims + 1
    sparse = _count(op, "num_sparse" if "num_sparse" in op.attrs else "Nsparse")
    dense = [front.concatenate(shape) for shape in op.attr("dense_shapes")]
    return _sparse(rank, sparse) + dense


def _example_shape(op):
    front = op.inputs[0].shape.with_rank(1)
    op.inputs[1].shape.assert_has_rank(1)
    return _of_examples(op, front)


@op("ParseExample", inputs="serialized: string, names: string, sparse_keys: Nsparse * string, "
    "dense_keys: Ndense * string, dense_defaults: Tdense",
    outputs="sparse_indices: Nsparse * int64, sparse_values: sparse_types, "
    "sparse_shapes: Nsparse * int64, dense_values: Tdense",
    attrs=f"Nsparse: int >= 0, Ndense: int >= 0, sparse_types: list({KINDS}) >= 0, "
    f"Tdense: list({KINDS}) >= 0, dense_shapes: list(shape) >= 0")
class ParseExample:
    """Features of a vector of tf.Examples. TF: ParseExample."""
    shape = _example_shape
    gradient = UNREGISTERED
    reference = None
    samples = [S(strs([ONE, b""]), strs([]), [strs("a")], [strs("b")],
                 [lit([5.0], dtypes.float32)], sparse_types=[dtypes.int64], dense_shapes=[[1]])]


def _example_v2_shape(op):
    front = op.inputs[0].shape.with_rank_at_most(1)
    op.inputs[1].shape.with_rank_at_most(1)
    ragged = _count(op, "ragged_value_types")
    return (_of_examples(op, front) + [TensorShape([None])] * ragged
            + _splits(front, ragged, [0]))


@op("ParseExampleV2", inputs="serialized: string, names: string, sparse_keys: string, "
    "dense_keys: string, ragged_keys: string, dense_defaults: Tdense",
    outputs="sparse_indices: num_sparse * int64, sparse_values: sparse_types, "
    "sparse_shapes: num_sparse * int64, dense_values: Tdense, ragged_values: ragged_value_types, "
    "ragged_row_splits: ragged_split_types",
    attrs=f"Tdense: list({KINDS}) >= 0, num_sparse: int >= 0, sparse_types: list({KINDS}) >= 0, "
    f"ragged_value_types: list({KINDS}) >= 0, ragged_split_types: list({{int32, int64}}) >= 0, "
    "dense_shapes: list(shape) >= 0")
class ParseExampleV2:
    """Features of one tf.Example, or of a vector of them. TF: ParseExampleV2."""
    shape = _example_v2_shape
    gradient = UNREGISTERED
    reference = None
    samples = [S(strs(names), strs([]), strs(["a"]), strs(["b"]), strs(["c"]),
                 [lit([5.0], dtypes.float32)], num_sparse=1, sparse_types=[dtypes.int64],
                 dense_shapes=[[1]], ragged_value_types=[dtypes.string],
                 ragged_split_types=[dtypes.int64]) for names in ([ONE, b""], ONE)]


def _single_shape(op):
    return _of_examples(op, op.inputs[0].shape.with_rank(0))


@op("ParseSingleExample", inputs="serialized: string, dense_defaults: Tdense",
    outputs="sparse_indices: num_sparse * int64, sparse_values: sparse_types, "
    "sparse_shapes: num_sparse * int64, dense_values: Tdense",
    attrs="num_sparse: int >= 0, sparse_keys: list(string) >= 0, dense_keys: list(string) >= 0, "
    f"sparse_types: list({KINDS}) >= 0, Tdense: list({KINDS}) >= 0, dense_shapes: list(shape) >= 0")
class ParseSingleExample:
    """Features of one tf.Example. TF: ParseSingleExample."""
    shape = _single_shape
    gradient = UNREGISTERED
    reference = None
    samples = [S(strs(ONE), [lit([5.0], dtypes.float32)], num_sparse=1, sparse_keys=["a"],
                 dense_keys=["b"], sparse_types=[dtypes.int64], dense_shapes=[[1]])]


# --------------------------------------------------------------------------------- SequenceExamples
SEQUENCE_ATTRS = (
    "Ncontext_sparse: int >= 0 = 0, Ncontext_dense: int >= 0 = 0, "
    "Nfeature_list_sparse: int >= 0 = 0, Nfeature_list_dense: int >= 0 = 0, "
    f"context_sparse_types: list({KINDS}) >= 0 = [], Tcontext_dense: list({KINDS}) >= 0 = [], "
    f"feature_list_dense_types: list({KINDS}) >= 0 = [], "
    "context_dense_shapes: list(shape) >= 0 = [], "
    f"feature_list_sparse_types: list({KINDS}) >= 0 = [], "
    "feature_list_dense_shapes: list(shape) >= 0 = []")
CONTEXT_OUT = ("context_sparse_indices: Ncontext_sparse * int64, "
               "context_sparse_values: context_sparse_types, "
               "context_sparse_shapes: Ncontext_sparse * int64, "
               "context_dense_values: Tcontext_dense, ")
LISTS_OUT = ("feature_list_sparse_indices: Nfeature_list_sparse * int64, "
             "feature_list_sparse_values: feature_list_sparse_types, "
             "feature_list_sparse_shapes: Nfeature_list_sparse * int64, "
             "feature_list_dense_values: feature_list_dense_types")
LENGTHS = ", feature_list_dense_lengths: Nfeature_list_dense * int64"


def _of_sequences(op, front, lengths, ragged=False):
    """The outputs' shapes for examples of shape `front`, a scalar's or a vector's."""
    rank = front.ndims
    wide = [None if rank is None else rank + more for more in (1, 2)]
    steps = front.concatenate([None])
    dense = op.attr("feature_list_dense_shapes")
    in_context = _count(op, "context_ragged_value_types") if ragged else 0
    in_lists = _count(op, "feature_list_ragged_value_types") if ragged else 0
    return (_sparse(wide[0], _count(op, "Ncontext_sparse"))
            + [front.concatenate(shape) for shape in op.attr("context_dense_shapes")]
            + [TensorShape([None])] * in_context + _splits(front, in_context, [])
            + _sparse(wide[1], _count(op, "Nfeature_list_sparse"))
            + [steps.concatenate(shape) for shape in dense]
            + ([front] * len(dense) if lengths else [])
            + [TensorShape([None])] * in_lists + _splits(front, in_lists, [])
            + [TensorShape([None])] * in_lists)


def _sequence_shape(op):
    op.inputs[1].shape.assert_has_rank(1)
    return _of_sequences(op, op.inputs[0].shape.with_rank(1), lengths=True)


def _sequence_v2_shape(op):
    op.inputs[1].shape.with_rank_at_most(1)
    return _of_sequences(op, op.inputs[0].shape.with_rank_at_most(1), lengths=True, ragged=True)


def _single_sequence_shape(op):
    op.inputs[1].shape.assert_has_rank(1)
    return _of_sequences(op, op.inputs[0].shape.with_rank(0), lengths=False)


_SAMPLE = dict(context_sparse_types=[dtypes.int64], feature_list_dense_types=[dtypes.int64],
               feature_list_dense_shapes=[[3]])


@op("ParseSequenceExample",
    inputs="serialized: string, debug_name: string, context_dense_defaults: Tcontext_dense",
    outputs=CONTEXT_OUT + LISTS_OUT + LENGTHS,
    attrs="feature_list_dense_missing_assumed_empty: list(string) >= 0, "
    "context_sparse_keys: list(string) >= 0, context_dense_keys: list(string) >= 0, "
    "feature_list_sparse_keys: list(string) >= 0, feature_list_dense_keys: list(string) >= 0, "
    + SEQUENCE_ATTRS)
class ParseSequenceExample:
    """Features of a vector of tf.SequenceExamples. TF: ParseSequenceExample."""
    shape = _sequence_shape
    gradient = UNREGISTERED
    reference = None
    samples = [S(strs([LISTS, b""]), strs([]), [], feature_list_dense_missing_assumed_empty=["w"],
                 context_sparse_keys=["a"], context_dense_keys=[], feature_list_sparse_keys=[],
                 feature_list_dense_keys=["w"], Ncontext_sparse=1, Nfeature_list_dense=1,
                 **_SAMPLE)]


@op("ParseSequenceExampleV2",
    inputs="serialized: string, debug_name: string, context_sparse_keys: string, "
    "context_dense_keys: string, context_ragged_keys: string, feature_list_sparse_keys: string, "
    "feature_list_dense_keys: string, feature_list_ragged_keys: string, "
    "feature_list_dense_missing_assumed_empty: bool, context_dense_defaults: Tcontext_dense",
    outputs=CONTEXT_OUT + "context_ragged_values: context_ragged_value_types, "
    "context_ragged_row_splits: context_ragged_split_types, " + LISTS_OUT + LENGTHS
    + ", feature_list_ragged_values: feature_list_ragged_value_types, "
    "feature_list_ragged_outer_splits: feature_list_ragged_split_types, "
    "feature_list_ragged_inner_splits: feature_list_ragged_split_types",
    attrs=f"Ncontext_sparse: int >= 0 = 0, Tcontext_dense: list({KINDS}) >= 0 = [], "
    f"context_sparse_types: list({KINDS}) >= 0 = [], "
    f"context_ragged_value_types: list({KINDS}) >= 0 = [], "
    "context_ragged_split_types: list({int32, int64}) >= 0 = [], "
    "context_dense_shapes: list(shape) >= 0 = [], Nfeature_list_sparse: int >= 0 = 0, "
    f"Nfeature_list_dense: int >= 0 = 0, feature_list_dense_types: list({KINDS}) >= 0 = [], "
    f"feature_list_sparse_types: list({KINDS}) >= 0 = [], "
    f"feature_list_ragged_value_types: list({KINDS}) >= 0 = [], "
    "feature_list_ragged_split_types: list({int32, int64}) >= 0 = [], "
    "feature_list_dense_shapes: list(shape) >= 0 = []")
class ParseSequenceExampleV2:
    """Features of one tf.SequenceExample, or of a vector of them. TF: ParseSequenceExampleV2."""
    shape = _sequence_v2_shape
    gradient = UNREGISTERED
    reference = None
    samples = [S(strs(names), strs([]), strs(["a"]), strs([]), strs(["c"]), strs([]), strs(["w"]),
                 strs(["v"]), lit([True]), [], Ncontext_sparse=1, Nfeature_list_dense=1,
                 context_ragged_value_types=[dtypes.string],
                 context_ragged_split_types=[dtypes.int64],
                 feature_list_ragged_value_types=[dtypes.string],
                 feature_list_ragged_split_types=[dtypes.int32], **_SAMPLE)
               for names in ([LISTS, b""], LISTS)]


@op("ParseSingleSequenceExample",
    inputs="serialized: string, feature_list_dense_missing_assumed_empty: string, "
    "context_sparse_keys: Ncontext_sparse * string, context_dense_keys: Ncontext_dense * string, "
    "feature_list_sparse_keys: Nfeature_list_sparse * string, "
    "feature_list_dense_keys: Nfeature_list_dense * string, "
    "context_dense_defaults: Tcontext_dense, debug_name: string",
    outputs=CONTEXT_OUT + LISTS_OUT, attrs=SEQUENCE_ATTRS)
class ParseSingleSequenceExample:
    """Features of one tf.SequenceExample. TF: ParseSingleSequenceExample."""
    shape = _single_sequence_shape
    gradient = UNREGISTERED
    reference = None
    samples = [S(strs(LISTS), strs(["w"]), [strs("a")], [], [], [strs("w")], [], strs(""),
                 **_SAMPLE)]


# -------------------------------------------------------------------------------- other messages
@op("SerializeTensor", inputs="tensor: T", outputs="serialized: string", attrs="T: type")
class SerializeTensor:
    """A serialized TensorProto of any tensor. No oracle: what is read back is compared.
    TF: SerializeTensor."""
    def shape(op):
        return TensorShape([])
    gradient = None
    reference = None
    samples = [S((2, 3)), S(strs(["a", ""]))]


@op("ParseTensor", inputs="serialized: string", outputs="output: out_type", attrs="out_type: type")
class ParseTensor:
    """The tensor of a serialized TensorProto. TF: ParseTensor."""
    def shape(op):
        op.inputs[0].shape.assert_has_rank(0)
        return unknown_shape()
    gradient = None

    def reference(serialized, out_type):
        return np.array([1.5, -2.0], np.float32)
    samples = [S(strs(b"\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08" + np.array(
        [1.5, -2.0], "<f4").tobytes()), out_type=dtypes.float32)]


@op("DecodeJSONExample", inputs="json_examples: string", outputs="binary_examples: string")
class DecodeJSONExample:
    """tf.Examples in JSON, as protobuf maps them, serialized. TF: DecodeJSONExample."""
    shape = unchanged
    gradient = UNREGISTERED
    reference = None
    samples = [S(strs(['{"features": {"feature": {"a": {"int64List": {"value": ["7"]}}}}}']))]
