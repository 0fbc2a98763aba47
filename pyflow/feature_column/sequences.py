"""Columns of sequences, and their input layer [batch, time, width].

Invariant: a sequence's length is the last step of it that has a value.

Thread: the one building the graph.  Source: TF 1.15 tf.feature_column,
tf.contrib.feature_column.sequence_input_layer.

    words = tf.feature_column.sequence_categorical_column_with_vocabulary_list("words", ["a", "b"])
    steps, lengths = tf.contrib.feature_column.sequence_input_layer(
        features, [tf.feature_column.embedding_column(words, dimension=8)])
"""
import collections

import pyflow as tf
from pyflow.feature_column import categorical, dense
from pyflow.feature_column.columns import (
    DenseColumn, FeatureColumn, Features, SequenceColumn, check_key, checked_columns)


class SequenceCategoricalColumn(
        collections.namedtuple("SequenceCategoricalColumn", "categorical_column"), SequenceColumn):
    """Made by sequence_categorical_column_with_...: ids [batch, time, n]."""

    __slots__ = ()

    @property
    def name(self):
        """The column's."""
        return self.categorical_column.name

    @property
    def parse_example_spec(self):
        """The column's."""
        return self.categorical_column.parse_example_spec

    @property
    def num_buckets(self):
        """The column's."""
        return self.categorical_column.num_buckets

    def transformed(self, features):
        """Ids of a rank of three."""
        return as_steps(features.get(self.categorical_column))

    def ids(self, features):
        """(ids, weights), of a rank of three."""
        ids, weights = self.categorical_column.ids(features)
        return as_steps(ids), None if weights is None else as_steps(weights)


def as_steps(sparse):
    """A SparseTensor [batch, time, n] of [batch, time, ...]."""
    shape = sparse.dense_shape
    rest = tf.reduce_prod(shape[2:])
    return tf.sparse_reshape(sparse, tf.stack([shape[0], shape[1], rest]))


def lengths(sparse, elements=1):
    """int64 [batch]: how many steps of `elements` values each row of [batch, time, ...] has."""
    rows, at = sparse.indices[:, 0], sparse.indices[:, 1]
    last = tf.unsorted_segment_max(at, rows, sparse.dense_shape[0])
    return tf.maximum(tf.floor_div(last, elements) + 1, 0) if elements > 1 else tf.maximum(
        last + 1, 0)


class SequenceNumericColumn(
        collections.namedtuple("SequenceNumericColumn",
                               "key shape default_value dtype normalizer_fn"), DenseColumn):
    """Made by sequence_numeric_column."""

    __slots__ = ()

    @property
    def name(self):
        """The feature's key."""
        return self.key

    @property
    def parse_example_spec(self):
        """{key: VarLenFeature}."""
        return {self.key: tf.VarLenFeature(self.dtype)}

    @property
    def variable_shape(self):
        """The shape of a step."""
        return tf.TensorShape(self.shape)

    def transformed(self, features):
        """The sparse feature, normalised, float32."""
        sparse = features.get(self.key)
        if not isinstance(sparse, tf.SparseTensor):
            raise ValueError(f"sequence_numeric_column {self.key!r} wants a SparseTensor, got "
                             f"{sparse}")
        if self.normalizer_fn is not None:
            sparse = self.normalizer_fn(sparse)
        return tf.SparseTensor(sparse.indices, tf.to_float(sparse.values), sparse.dense_shape)

    def dense(self, features, weight_collections=None, trainable=None):
        """Not of a sequence: ValueError."""
        raise ValueError(f"sequence_numeric_column {self.key!r} belongs into sequence_input_layer, "
                         "not input_layer")

    def steps(self, features):
        """([batch, time] + shape, lengths)."""
        sparse = features.get(self)
        dense_ = tf.sparse_tensor_to_dense(sparse, default_value=float(self.default_value))
        shape = tf.concat([[tf.shape(dense_)[0], -1], list(self.shape)], 0)
        return tf.reshape(dense_, shape), lengths(sparse, self.variable_shape.num_elements())


def sequence_numeric_column(key, shape=(1,), default_value=0.0, dtype=tf.float32,
                            normalizer_fn=None):
    """A column of sequences of numbers, from a SparseTensor [batch, time * values of a step].

    shape: of a step. default_value: of steps behind the end. normalizer_fn: of the SparseTensor.
    TF: tf.feature_column.sequence_numeric_column."""
    from pyflow.feature_column.numeric import _checked_shape
    shape, dtype = _checked_shape(shape, key), tf.as_dtype(dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    check_key(key)
    return SequenceNumericColumn(key, shape, default_value, dtype, normalizer_fn)


def sequence_categorical_column_with_identity(key, num_buckets, default_value=None):
    """As categorical_column_with_identity, of sequences.
    TF: tf.feature_column.sequence_categorical_column_with_identity."""
    return SequenceCategoricalColumn(
        categorical.categorical_column_with_identity(key, num_buckets, default_value))


def sequence_categorical_column_with_hash_bucket(key, hash_bucket_size, dtype=tf.string):
    """As categorical_column_with_hash_bucket, of sequences.
    TF: tf.feature_column.sequence_categorical_column_with_hash_bucket."""
    return SequenceCategoricalColumn(
        categorical.categorical_column_with_hash_bucket(key, hash_bucket_size, dtype))


def sequence_categorical_column_with_vocabulary_list(key, vocabulary_list, dtype=None,
                                                     default_value=-1, num_oov_buckets=0):
    """As categorical_column_with_vocabulary_list, of sequences.
    TF: tf.feature_column.sequence_categorical_column_with_vocabulary_list."""
    return SequenceCategoricalColumn(categorical.categorical_column_with_vocabulary_list(
        key, vocabulary_list, dtype, default_value, num_oov_buckets))


def sequence_categorical_column_with_vocabulary_file(key, vocabulary_file, vocabulary_size=None,
                                                     num_oov_buckets=0, default_value=None,
                                                     dtype=tf.string):
    """As categorical_column_with_vocabulary_file, of sequences.
    TF: tf.feature_column.sequence_categorical_column_with_vocabulary_file."""
    return SequenceCategoricalColumn(categorical.categorical_column_with_vocabulary_file(
        key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype))


def sequence_input_layer(features, feature_columns, weight_collections=None, trainable=True):
    """(float32 [batch, time, sum of widths], int64 [batch] lengths) of columns of sequences.

    feature_columns: sequence_numeric_column, embedding and indicator columns of
    sequence_categorical_column_with_...; ValueError for others. All have the same lengths, or the
    step is an InvalidArgumentError. TF: tf.contrib.feature_column.sequence_input_layer."""
    columns = checked_columns(feature_columns, FeatureColumn, "a _SequenceDenseColumn")
    there, outputs, found = Features(features), [], []
    with tf.variable_scope(None, default_name="sequence_input_layer",
                           values=list(features.values())):
        for column in columns:
            with tf.variable_scope(None, default_name=column.var_scope_name):
                steps, length = _steps(column, there, weight_collections, trainable)
                size = column.variable_shape.num_elements()
                shape = tf.shape(steps)
                outputs.append(tf.reshape(steps, tf.stack([shape[0], shape[1], size])))
                found.append(length)
        with tf.control_dependencies([tf.assert_equal(
                found[0], other, message="sequences of columns differ in length")
                for other in found[1:]]):
            return tf.concat(outputs, -1), tf.identity(found[0])


def _steps(column, features, weight_collections, trainable):
    if isinstance(column, SequenceNumericColumn):
        return column.steps(features)
    inner = getattr(column, "categorical_column", None)
    if not isinstance(inner, SequenceColumn):
        raise ValueError("All feature_columns must be of type _SequenceDenseColumn. You can wrap a "
                         "sequence_categorical_column with an embedding_column or "
                         f"indicator_column. Given (type {type(column)}): {column}")
    ids, _ = inner.ids(features)
    made = features.get(column) if isinstance(column, dense.IndicatorColumn) \
        else column.looked_up(features, weight_collections, trainable)
    return made, lengths(ids)


PUBLIC = {f"feature_column.{made.__name__}": made for made in (
    sequence_numeric_column, sequence_categorical_column_with_identity,
    sequence_categorical_column_with_hash_bucket, sequence_categorical_column_with_vocabulary_list,
    sequence_categorical_column_with_vocabulary_file)}
PUBLIC.update({f"contrib.feature_column.{made.__name__}": made for made in (
    sequence_input_layer, sequence_numeric_column, sequence_categorical_column_with_identity,
    sequence_categorical_column_with_hash_bucket, sequence_categorical_column_with_vocabulary_list,
    sequence_categorical_column_with_vocabulary_file)})
