"""tf.contrib.layers' feature columns: older names of tf.feature_column's.

Invariant: what they return are columns of tf.feature_column, which the older functions take as well
as the newer ones.

Thread: the one building the graph.  Source: TF 1.15 tf.contrib.layers.feature_column.

    columns = [tf.contrib.layers.real_valued_column("age"),
               tf.contrib.layers.sparse_column_with_hash_bucket("word", 100)]
"""
import pyflow as tf
from pyflow.feature_column import categorical, dense, layers, numeric


def real_valued_column(column_name, dimension=1, default_value=None, dtype=tf.float32,
                       normalizer=None):
    """numeric_column(column_name, dimension, ...). ValueError for no dimension.
    TF: tf.contrib.layers.real_valued_column."""
    if dimension is None:
        raise ValueError(f"real_valued_column {column_name!r}: dimension must be a number, got "
                         "None; features of unknown size are not taken")
    return numeric.numeric_column(column_name, shape=dimension, default_value=default_value,
                                  dtype=dtype, normalizer_fn=normalizer)


def sparse_column_with_hash_bucket(column_name, hash_bucket_size, combiner="sum", dtype=tf.string):
    """categorical_column_with_hash_bucket; ids of a row are summed.
    TF: tf.contrib.layers.sparse_column_with_hash_bucket."""
    _check_sum(column_name, combiner)
    return categorical.categorical_column_with_hash_bucket(column_name, hash_bucket_size, dtype)


def sparse_column_with_keys(column_name, keys, default_value=-1, combiner="sum", dtype=tf.string):
    """categorical_column_with_vocabulary_list. TF: tf.contrib.layers.sparse_column_with_keys."""
    _check_sum(column_name, combiner)
    return categorical.categorical_column_with_vocabulary_list(
        column_name, keys, dtype=dtype, default_value=default_value)


def sparse_column_with_integerized_feature(column_name, bucket_size, combiner="sum",
                                           dtype=tf.int64):
    """categorical_column_with_identity of numbers below bucket_size.
    TF: tf.contrib.layers.sparse_column_with_integerized_feature."""
    _check_sum(column_name, combiner)
    if not tf.as_dtype(dtype).is_integer:
        raise ValueError(f"dtype must be an integer. dtype: {dtype}, column_name: {column_name}")
    return categorical.categorical_column_with_identity(column_name, bucket_size)


def sparse_column_with_vocabulary_file(column_name, vocabulary_file, num_oov_buckets=0,
                                       vocab_size=None, default_value=-1, combiner="sum",
                                       dtype=tf.string):
    """categorical_column_with_vocabulary_file.
    TF: tf.contrib.layers.sparse_column_with_vocabulary_file."""
    _check_sum(column_name, combiner)
    return categorical.categorical_column_with_vocabulary_file(
        column_name, vocabulary_file, vocab_size, num_oov_buckets,
        None if num_oov_buckets or default_value == -1 else default_value, dtype)


def _check_sum(column_name, combiner):
    if combiner != "sum":
        raise ValueError(f"{column_name}: combiner must be \"sum\", got {combiner!r}; give "
                         "sparse_combiner to tf.estimator.LinearClassifier instead")


def weighted_sparse_column(sparse_id_column, weight_column_name, dtype=tf.float32):
    """weighted_categorical_column. TF: tf.contrib.layers.weighted_sparse_column."""
    return categorical.weighted_categorical_column(sparse_id_column, weight_column_name, dtype)


def bucketized_column(source_column, boundaries):
    """As tf.feature_column's; boundaries may come unsorted and repeated.
    TF: tf.contrib.layers.bucketized_column."""
    return numeric.bucketized_column(source_column, sorted(set(boundaries)))


def crossed_column(columns, hash_bucket_size, combiner="sum", hash_key=None):
    """crossed_column of columns; one by hash counts by its feature's key.
    TF: tf.contrib.layers.crossed_column."""
    _check_sum("crossed_column", combiner)
    keys = [column.key if isinstance(column, categorical.HashedCategoricalColumn) else column
            for column in columns]
    return categorical.crossed_column(keys, hash_bucket_size, hash_key)


def embedding_column(sparse_id_column, dimension, combiner="mean", initializer=None,
                     ckpt_to_load_from=None, tensor_name_in_ckpt=None, max_norm=None,
                     trainable=True):
    """As tf.feature_column's. TF: tf.contrib.layers.embedding_column."""
    return dense.embedding_column(sparse_id_column, dimension, combiner, initializer,
                                  ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable)


def one_hot_column(sparse_id_column):
    """indicator_column. TF: tf.contrib.layers.one_hot_column."""
    return dense.indicator_column(sparse_id_column)


def input_from_feature_columns(columns_to_tensors, feature_columns, weight_collections=None,
                               trainable=True, scope=None):
    """input_layer in the scope `input_from_feature_columns`, or the one given.
    TF: tf.contrib.layers.input_from_feature_columns."""
    with tf.variable_scope(scope, default_name="input_from_feature_columns",
                           values=list(columns_to_tensors.values())):
        return layers.input_layer(columns_to_tensors, feature_columns, weight_collections,
                                  trainable)


def create_feature_spec_for_parsing(feature_columns):
    """make_parse_example_spec. TF: tf.contrib.layers.create_feature_spec_for_parsing."""
    return layers.make_parse_example_spec(feature_columns)


PUBLIC = {f"contrib.layers.{made.__name__}": made for made in (
    real_valued_column, sparse_column_with_hash_bucket, sparse_column_with_keys,
    sparse_column_with_integerized_feature, sparse_column_with_vocabulary_file,
    weighted_sparse_column, bucketized_column, crossed_column, embedding_column, one_hot_column,
    input_from_feature_columns, create_feature_spec_for_parsing)}
