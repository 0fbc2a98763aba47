"""Dense numbers of ids: indicators, embeddings, embeddings that columns share.

Thread: the one building the graph.  Source: TF 1.15 tf.feature_column.

    tf.feature_column.embedding_column(words, dimension=8)
"""
import collections
import math

import pyflow as tf
from pyflow.feature_column.columns import CategoricalColumn, DenseColumn, SequenceColumn


class IndicatorColumn(
        collections.namedtuple("IndicatorColumn", "categorical_column"), DenseColumn):
    """Made by indicator_column."""

    __slots__ = ()

    @property
    def name(self):
        """NAME_indicator."""
        return f"{self.categorical_column.name}_indicator"

    @property
    def parse_example_spec(self):
        """The column's."""
        return self.categorical_column.parse_example_spec

    @property
    def variable_shape(self):
        """[num_buckets]."""
        return tf.TensorShape([self.categorical_column.num_buckets])

    def transformed(self, features):
        """[batch, num_buckets] or, of a sequence, [batch, time, num_buckets]: how often, or with
        which weight."""
        ids, weights = self.categorical_column.ids(features)
        size = self.categorical_column.num_buckets
        if weights is not None:
            merged = tf.sparse_merge(ids, weights, size)
            return tf.scatter_nd(merged.indices, merged.values, merged.dense_shape)
        dense = tf.sparse_tensor_to_dense(ids, default_value=-1)
        return tf.reduce_sum(tf.one_hot(dense, size, 1.0, 0.0), -2)

    def dense(self, features, weight_collections=None, trainable=None):
        """As transformed. ValueError of a sequence."""
        _refuse_sequence(self, self.categorical_column, "indicator")
        return features.get(self)


def _refuse_sequence(column, categorical, kind):
    if isinstance(categorical, SequenceColumn):
        raise ValueError(
            f"In {kind}_column: {column.name}. categorical_column must not be of type "
            "_SequenceCategoricalColumn. Suggested fix A: If you wish to use input_layer, use a "
            "non-sequence categorical_column_with_*. Suggested fix B: If you wish to create "
            "sequence input, use sequence_input_layer instead of input_layer. Given (type "
            f"{type(categorical)}): {categorical}")


def indicator_column(categorical_column):
    """How often each id occurs in an example, or the sum of its weights.
    TF: tf.feature_column.indicator_column."""
    if not isinstance(categorical_column, CategoricalColumn):
        raise ValueError("Unsupported input type. Input must be a CategoricalColumn. Given: "
                         f"{categorical_column}")
    return IndicatorColumn(categorical_column)


_EMBEDDING = ("dimension combiner initializer ckpt_to_load_from tensor_name_in_ckpt max_norm "
              "trainable")


class _Embedding(DenseColumn):
    """Rows of a matrix, combined."""

    __slots__ = ()

    @property
    def parse_example_spec(self):
        """The column's."""
        return self.categorical_column.parse_example_spec

    @property
    def variable_shape(self):
        """[dimension]."""
        return tf.TensorShape([self.dimension])

    def transformed(self, features):
        """(ids, weights)."""
        return self.categorical_column.ids(features)

    def dense(self, features, weight_collections=None, trainable=None):
        """[batch, dimension]. ValueError of a sequence."""
        _refuse_sequence(self, self.categorical_column, "embedding")
        return self.looked_up(features, weight_collections, trainable)

    def looked_up(self, features, weight_collections=None, trainable=None):
        """[batch, dimension] or, of a sequence, [batch, time, dimension]."""
        ids, weights = features.get(self)
        with tf.name_scope(None, default_name=self.name):
            return tf.nn.safe_embedding_lookup_sparse(
                self._matrix(weight_collections, trainable), ids, weights, combiner=self.combiner,
                name=f"{self.var_scope_name}_weights", max_norm=self.max_norm)

    def _matrix(self, weight_collections, trainable):
        return self._new_matrix(weight_collections, trainable)

    def _new_matrix(self, weight_collections, trainable, reuse_name="embedding_weights"):
        collections_ = [tf.GraphKeys.GLOBAL_VARIABLES, *(weight_collections or ())]
        made = tf.get_variable(
            reuse_name, [self.categorical_column.num_buckets, self.dimension], tf.float32,
            self.initializer, trainable=self.trainable and trainable is not False,
            collections=list(dict.fromkeys(collections_)))
        if self.ckpt_to_load_from is not None:
            parts = list(made) if hasattr(made, "_get_variable_list") else made
            tf.train.init_from_checkpoint(self.ckpt_to_load_from,
                                          {self.tensor_name_in_ckpt: parts})
        return made


class EmbeddingColumn(
        collections.namedtuple("EmbeddingColumn", f"categorical_column {_EMBEDDING}"), _Embedding):
    """Made by embedding_column."""

    __slots__ = ()

    @property
    def name(self):
        """NAME_embedding."""
        return f"{self.categorical_column.name}_embedding"


def embedding_column(categorical_column, dimension, combiner="mean", initializer=None,
                     ckpt_to_load_from=None, tensor_name_in_ckpt=None, max_norm=None,
                     trainable=True):
    """Ids as vectors that are learnt; an example's are combined by "mean", "sqrtn" or "sum".

    initializer: default a truncated normal of deviation 1 / sqrt(dimension). ckpt_to_load_from,
    tensor_name_in_ckpt: a checkpoint's tensor to begin with. max_norm: of a vector.
    ValueError for others. TF: tf.feature_column.embedding_column."""
    initializer = _checked(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt,
                           f" Embedding of column_name: {categorical_column.name}")
    return EmbeddingColumn(categorical_column, dimension, combiner, initializer, ckpt_to_load_from,
                           tensor_name_in_ckpt, max_norm, trainable)


def _checked(dimension, initializer, checkpoint, tensor_name, where=""):
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (checkpoint is None) != (tensor_name is None):
        raise ValueError("Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none "
                         "of them.")
    if initializer is not None and not callable(initializer):
        raise ValueError(f"initializer must be callable if specified.{where}")
    if initializer is None:
        return tf.truncated_normal_initializer(mean=0.0, stddev=1 / math.sqrt(dimension))
    return initializer


class SharedEmbeddingColumn(
        collections.namedtuple("SharedEmbeddingColumn",
                               f"categorical_column collection_name {_EMBEDDING}"), _Embedding):
    """Made by shared_embedding_columns."""

    __slots__ = ()

    @property
    def name(self):
        """NAME_shared_embedding."""
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def var_scope_name(self):
        """The shared matrix's."""
        return self.collection_name

    def _matrix(self, weight_collections, trainable):
        there = tf.get_collection(self.collection_name)
        if there:
            if len(there) > 1:
                raise ValueError(f"Collection {self.collection_name} can only contain one "
                                 f"variable: {there}")
            (made,) = there
            wanted = [self.categorical_column.num_buckets, self.dimension]
            if made.get_shape().as_list() != wanted:
                raise ValueError(
                    "Shared embedding collection {} contains variable {} of unexpected shape {}. "
                    "Expected shape is {}. Suggested fix A: Choose a unique name for this "
                    "collection. Suggested fix B: Do not add any variables to this collection."
                    .format(self.collection_name, made.name, made.get_shape(), wanted))
            return made
        made = self._new_matrix(weight_collections, trainable)
        tf.add_to_collection(self.collection_name, made)
        return made


def shared_embedding_columns(categorical_columns, dimension, combiner="mean", initializer=None,
                             shared_embedding_collection_name=None, ckpt_to_load_from=None,
                             tensor_name_in_ckpt=None, max_norm=None, trainable=True):
    """Embedding columns, in the order given, over one matrix.

    shared_embedding_collection_name: of the collection that holds it; default made of the columns'
    names. ValueError for columns of different kinds or numbers of ids.
    TF: tf.feature_column.shared_embedding_columns."""
    initializer = _checked(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt)
    ordered = sorted(categorical_columns, key=lambda column: column.name)
    first = _inner(ordered[0])
    for column in ordered:
        if not isinstance(column, CategoricalColumn):
            raise ValueError("All categorical_columns must be subclasses of _CategoricalColumn. "
                             f"Given: {column}, of type: {type(column)}")
        if not isinstance(_inner(column), type(first)):
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same type, "
                "or be weighted_categorical_column or sequence column of the same type. Given "
                f"column: {first} of type: {type(first)} does not match given column: {column} of "
                f"type: {type(column)}")
        if column.num_buckets != first.num_buckets:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same number "
                f"of buckets. Given column: {first} with buckets: {first.num_buckets} does not "
                f"match column: {column} with buckets: {column.num_buckets}")
    name = shared_embedding_collection_name or (
        "_".join(column.name for column in ordered) + "_shared_embedding")
    return [SharedEmbeddingColumn(column, name, dimension, combiner, initializer, ckpt_to_load_from,
                                  tensor_name_in_ckpt, max_norm, trainable)
            for column in categorical_columns]


def _inner(column):
    while hasattr(column, "categorical_column"):
        column = column.categorical_column
    return column


PUBLIC = {f"feature_column.{made.__name__}": made for made in (
    indicator_column, embedding_column, shared_embedding_columns)}
