"""tf.parse_example and its kin: serialized tf.Examples and tf.SequenceExamples as tensors.

Invariants
  1. Features are told by dicts of FixedLenFeature and its kin; results are dicts of the same keys.
  2. Messages are untrusted: what does not fit is an InvalidArgumentError that names the example and
     the feature.
  3. Nodes are those that TensorFlow 1.15 knows, which has the second versions of the ops not yet:
     ParseExample, ParseSequenceExample for vectors, ParseSingleExample,
     ParseSingleSequenceExample for a scalar.

Who calls it: users, lib/data.  Thread: the one building the graph.
Source: TF 1.15 parsing_ops; messages as TF 2.21.

Example:
    features = {"x": tf.FixedLenFeature([3], tf.float32), "words": tf.VarLenFeature(tf.string)}
    parsed = tf.parse_single_example(record, features)
"""
from pyflow.framework import dtypes, graph
from pyflow.framework.graph import SparseTensor
from pyflow.framework.tensor_shape import as_shape
from pyflow.lib.parsing.features import (Asked, FixedLenFeature, FixedLenSequenceFeature,
                                         SparseFeature, VarLenFeature, put_together)
from pyflow.ops.base import tensors
from pyflow.ops.parsing import parsing_ops


def parse_example(serialized, features, name=None, example_names=None):
    """The features of a vector of serialized tf.Examples: {key: Tensor or SparseTensor}.

    serialized: strings [batch], or a scalar; features: {key: FixedLenFeature, VarLenFeature,
    FixedLenSequenceFeature or SparseFeature}; example_names: strings of serialized's shape, for
    messages. ValueError for no or unfit features, InvalidArgumentError in the step for messages
    that are damaged, lack a feature without a default, or have another type or number of values.
    TF: tf.io.parse_example."""
    if not features:
        raise ValueError(f"Argument `features` cannot be None or falsy. Got {features}")
    asked = Asked(_with_blocks(features), [VarLenFeature, SparseFeature, FixedLenFeature,
                                           FixedLenSequenceFeature])
    with graph.name_scope(name, "ParseExample", [serialized, example_names]):
        serialized = graph.convert_to_tensor(serialized, name="serialized")
        outputs = _examples(serialized, example_names, asked, name)
    return put_together(features, _by_key(asked, *outputs))


def parse_single_example(serialized, features, name=None, example_names=None):
    """The features of one serialized tf.Example, a scalar string: as parse_example's, without the
    dimension of examples. ValueError for another shape. TF: tf.io.parse_single_example.
    features: {name: FixedLenFeature, VarLenFeature, ...}; example_names: told in errors.

        >>> example = tf.train.Example()
        >>> example.features.feature["label"].int64_list.value.append(7)
        >>> found = tf.parse_single_example(example.SerializeToString(),
        ...                                 {"label": tf.FixedLenFeature([], tf.int64)})
        >>> tf.Session().run(found)
        {'label': np.int64(7)}
    """
    if features is None:
        raise ValueError("Invalid argument: features cannot be None.")
    if not features:
        raise ValueError("Invalid argument: features cannot be empty.")
    with graph.name_scope(name, "ParseSingleExample", [serialized, example_names]):
        return parse_example(_scalar(serialized), features, name, example_names)


def parse_sequence_example(serialized, context_features=None, sequence_features=None,
                           example_names=None, name=None):
    """(context, lists, lengths) of a vector of serialized tf.SequenceExamples, strings [batch]:
    dicts of tensors.

    context_features: {key: FixedLenFeature or VarLenFeature}; sequence_features: {key:
    FixedLenSequenceFeature or VarLenFeature}, whose tensors have the steps after the examples,
    padded to the most; lengths: of dense lists, int64 [batch]. ValueError and InvalidArgumentError
    as parse_example's, and for a list that is missing without allow_missing.
    TF: tf.io.parse_sequence_example."""
    context, lists = _asked_of_sequences(context_features, sequence_features, "Both "
                                         "`context_features` and `sequence_features` argument are "
                                         "None, but at least one should have values.")
    with graph.name_scope(name, "ParseSequenceExample", [serialized, example_names]):
        return _sequences(serialized, example_names, context, lists, name)


def parse_single_sequence_example(serialized, context_features=None, sequence_features=None,
                                  example_name=None, name=None):
    """(context, lists) of one serialized tf.SequenceExample, a scalar string: as
    parse_sequence_example's, without the dimension of examples. ValueError for another shape, and
    where that raises it.
    TF: tf.io.parse_single_sequence_example."""
    context, lists = _asked_of_sequences(context_features, sequence_features, "Both "
                                         "context_features and sequence_features are None, but at "
                                         "least one should have values.")
    with graph.name_scope(name, "ParseSingleSequenceExample", [serialized, example_name]):
        with graph.name_scope(name, "ParseSingleExample", [serialized, example_name]):
            serialized = _scalar(serialized)
        return _sequences(serialized, example_name, context, lists, name)[:2]


def parse_tensor(serialized, out_type, name=None):
    """The tensor of a serialized TensorProto, a scalar string; InvalidArgumentError in the step if
    it is none, or has another dtype than out_type. TF: tf.io.parse_tensor."""
    return parsing_ops.ParseTensor(serialized, out_type=out_type, name=name)


def serialize_tensor(tensor, name=None):
    """A tensor of any shape and dtype as a serialized TensorProto, a scalar string.
    UnimplementedError in the step for resources and variants. TF: tf.io.serialize_tensor."""
    return parsing_ops.SerializeTensor(tensor, name=name)


def decode_json_example(json_examples, name=None):
    """tf.Examples written in JSON, as protobuf maps messages to it, as serialized ones: strings of
    the same shape. InvalidArgumentError in the step for what is none.
    TF: tf.io.decode_json_example."""
    return parsing_ops.DecodeJSONExample(json_examples, name=name)


# -------------------------------------------------------------------------------------- particulars
def _examples(serialized, names, asked, name):
    """(indices, values, shapes of sparse features, dense ones)."""
    types = dict(sparse_types=asked.sparse_types, dense_shapes=asked.dense_shapes, name=name)
    if serialized.shape.ndims != 0:
        return parsing_ops.ParseExample(
            serialized, [] if names is None else names, asked.sparse_keys, asked.dense_keys,
            asked.defaults(), **types)
    if names is None:
        return parsing_ops.ParseSingleExample(
            serialized, asked.defaults(), num_sparse=len(asked.sparse_keys),
            sparse_keys=asked.sparse_keys, dense_keys=asked.dense_keys, **types)
    names = tensors.expand_dims(graph.convert_to_tensor(names, name="names"), 0)
    indices, values, shapes, dense = _examples(
        tensors.expand_dims(serialized, 0), names, asked, name)
    return ([i[:, 1:] for i in _list(indices)], values, [s[1:] for s in _list(shapes)],
            [tensors.squeeze(d, [0]) for d in _list(dense)])


def _with_blocks(features):
    """FixedLenSequenceFeatures with the dimension of blocks in their shapes."""
    made = dict(features)
    for key, feature in features.items():
        if isinstance(feature, FixedLenSequenceFeature):
            if not feature.allow_missing:
                raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to "
                                 f"be True; that of the feature '{key}' is False.")
            made[key] = feature._replace(shape=[None] + as_shape(feature.shape).as_list())
    return made


def _scalar(serialized):
    serialized = graph.convert_to_tensor(serialized, name="serialized")
    if serialized.shape.ndims not in (None, 0):
        raise ValueError("Input serialized must be a scalar, got shape "
                         f"{serialized.shape}; parse_example takes vectors")
    serialized.set_shape([])
    return serialized


def _by_key(asked, indices, values, shapes, dense):
    sparse = [SparseTensor(*parts) for parts in zip(*map(_list, (indices, values, shapes)))]
    return dict(zip(asked.sparse_keys + asked.dense_keys, sparse + _list(dense)))


def _list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _asked_of_sequences(context_features, sequence_features, message):
    if not (context_features or sequence_features):
        raise ValueError(message)
    context = Asked(context_features, [VarLenFeature, FixedLenFeature])
    lists = Asked(sequence_features, [VarLenFeature, FixedLenSequenceFeature])
    for key, value in lists.dense_defaults.items():
        if value is not None:
            raise ValueError(f"Value feature_list.dense_defaults[{key}] must be None: lists are "
                             f"padded with zeros")
    return context, lists


def _sequences(serialized, names, context, lists, name):
    with graph.name_scope(name, "ParseSequenceExample", [serialized]):
        serialized = graph.convert_to_tensor(serialized, name="serialized")
        empty = [key for key in lists.dense_keys if key in lists.dense_defaults]
        types = dict(context_sparse_types=context.sparse_types,
                     feature_list_dense_types=lists.dense_types,
                     feature_list_sparse_types=lists.sparse_types,
                     context_dense_shapes=context.dense_shapes,
                     feature_list_dense_shapes=lists.dense_shapes, name=name)
        if serialized.shape.ndims == 0:
            outputs = parsing_ops.ParseSingleSequenceExample(
                serialized, graph.convert_to_tensor(empty, dtypes.string), context.sparse_keys,
                context.dense_keys, lists.sparse_keys, lists.dense_keys, context.defaults(),
                "" if names is None else names, **types)
        else:
            outputs = parsing_ops.ParseSequenceExample(
                serialized, [] if names is None else names, context.defaults(),
                feature_list_dense_missing_assumed_empty=empty,
                context_sparse_keys=context.sparse_keys, context_dense_keys=context.dense_keys,
                feature_list_sparse_keys=lists.sparse_keys,
                feature_list_dense_keys=lists.dense_keys,
                Ncontext_sparse=len(context.sparse_keys), Ncontext_dense=len(context.dense_keys),
                Nfeature_list_sparse=len(lists.sparse_keys),
                Nfeature_list_dense=len(lists.dense_keys), **types)
    lengths = dict(zip(lists.dense_keys, _list(outputs[8]))) if len(outputs) > 8 else {}
    return _by_key(context, *outputs[:4]), _by_key(lists, *outputs[4:8]), lengths


PUBLIC = {"io.parse_sequence_example": parse_sequence_example}
for _function in (parse_example, parse_single_example, parse_single_sequence_example, parse_tensor,
                  serialize_tensor, decode_json_example):
    PUBLIC[_function.__name__] = PUBLIC[f"io.{_function.__name__}"] = _function
