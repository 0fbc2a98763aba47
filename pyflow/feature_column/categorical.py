"""Categorical columns: ids by hash, by number, by vocabulary; crossed and weighted ones.

Invariant: ids lie in [0, num_buckets), or are -1, which embeddings leave out.

Thread: the one building the graph.  Source: TF 1.15 tf.feature_column.

    words = tf.feature_column.categorical_column_with_vocabulary_list("word", ["a", "b"])
"""
import collections

import numpy as np

import pyflow as tf
from pyflow.feature_column.columns import (
    CategoricalColumn, as_sparse, check_id_dtype, check_key, checked_ids, with_values)


class _OfKey(CategoricalColumn):
    """Ids of one feature."""

    __slots__ = ()

    @property
    def name(self):
        """The feature's key."""
        return self.key

    @property
    def parse_example_spec(self):
        """{key: VarLenFeature}."""
        return {self.key: tf.VarLenFeature(self.dtype)}

    def ids(self, features):
        """(ids, None)."""
        return features.get(self), None


class HashedCategoricalColumn(
        collections.namedtuple("HashedCategoricalColumn", "key hash_bucket_size dtype"), _OfKey):
    """Made by categorical_column_with_hash_bucket."""

    __slots__ = ()

    @property
    def num_buckets(self):
        """hash_bucket_size."""
        return self.hash_bucket_size

    def transformed(self, features):
        """Hashes of the values' texts."""
        sparse = as_sparse(features.get(self.key))
        checked_ids(sparse, self.dtype, self.key)
        words = sparse.values if self.dtype == tf.string else tf.as_string(sparse.values)
        return with_values(sparse, tf.string_to_hash_bucket_fast(words, self.hash_bucket_size))


def categorical_column_with_hash_bucket(key, hash_bucket_size, dtype=tf.string):
    """Ids that are hashes of strings or integers, below hash_bucket_size.

    ValueError for no size or another dtype.
    TF: tf.feature_column.categorical_column_with_hash_bucket."""
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError("hash_bucket_size must be at least 1. hash_bucket_size: "
                         f"{hash_bucket_size}, key: {key}")
    check_key(key)
    dtype = tf.as_dtype(dtype)
    check_id_dtype(dtype, f"column_name: {key}")
    return HashedCategoricalColumn(key, hash_bucket_size, dtype)


class IdentityCategoricalColumn(
        collections.namedtuple("IdentityCategoricalColumn", "key number_buckets default_value"),
        _OfKey):
    """Made by categorical_column_with_identity."""

    __slots__ = ()
    dtype = tf.int64

    @property
    def num_buckets(self):
        """num_buckets."""
        return self.number_buckets

    def transformed(self, features):
        """The values, int64. ValueError for others than integers."""
        sparse = as_sparse(features.get(self.key))
        if not sparse.dtype.is_integer:
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {sparse.dtype}")
        values = tf.to_int64(sparse.values)
        zero, size = tf.constant(0, tf.int64), tf.constant(self.number_buckets, tf.int64)
        if self.default_value is None:
            with tf.control_dependencies([
                    tf.assert_less(values, size, data=(values, size),
                                   name="assert_less_than_num_buckets"),
                    tf.assert_greater_equal(values, zero, data=(values,),
                                            name="assert_greater_or_equal_0")]):
                return with_values(sparse, tf.identity(values))
        outside = tf.logical_or(tf.less(values, zero), tf.greater_equal(values, size))
        default = tf.fill(tf.shape(values), tf.constant(self.default_value, tf.int64))
        return with_values(sparse, tf.where(outside, default, values))


def categorical_column_with_identity(key, num_buckets, default_value=None):
    """Ids that the feature gives itself, integers in [0, num_buckets).

    default_value: for others; None: InvalidArgumentError when they come. ValueError for sizes that
    do not fit. TF: tf.feature_column.categorical_column_with_identity."""
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(f"default_value {default_value} not in range [0, {num_buckets}), "
                         f"column_name {key}")
    check_key(key)
    return IdentityCategoricalColumn(key, num_buckets, default_value)


def _looked_up(initializer, sparse, num_oov_buckets, default_value):
    keys = sparse
    if initializer.key_dtype != sparse.dtype:
        keys = with_values(sparse, tf.as_string(sparse.values) if initializer.key_dtype == tf.string
                           else tf.cast(sparse.values, initializer.key_dtype))
    if num_oov_buckets:
        return tf.lookup.StaticVocabularyTable(initializer, num_oov_buckets).lookup(keys)
    return tf.lookup.StaticHashTable(initializer, default_value).lookup(keys)


class VocabularyListCategoricalColumn(
        collections.namedtuple("VocabularyListCategoricalColumn",
                               "key vocabulary_list dtype default_value num_oov_buckets"), _OfKey):
    """Made by categorical_column_with_vocabulary_list."""

    __slots__ = ()

    @property
    def num_buckets(self):
        """Words and buckets for others."""
        return len(self.vocabulary_list) + self.num_oov_buckets

    def transformed(self, features):
        """The words' numbers."""
        sparse = as_sparse(features.get(self.key))
        checked_ids(sparse, self.dtype, self.key)
        dtype = tf.int64 if self.dtype.is_integer else self.dtype
        numbers = np.arange(len(self.vocabulary_list), dtype=np.int64)
        with tf.name_scope(f"{self.key}_lookup"):
            words = tf.lookup.KeyValueTensorInitializer(
                list(self.vocabulary_list), numbers, key_dtype=dtype, value_dtype=tf.int64)
            return _looked_up(words, sparse, self.num_oov_buckets, self.default_value)


def categorical_column_with_vocabulary_list(key, vocabulary_list, dtype=None, default_value=-1,
                                            num_oov_buckets=0):
    """Ids by place in a list of different strings or integers.

    default_value: for other values (-1: left out), or num_oov_buckets: how many ids for them.
    ValueError for both, and for lists that do not fit dtype.
    TF: tf.feature_column.categorical_column_with_vocabulary_list.

        >>> column = tf.feature_column.indicator_column(
        ...     tf.feature_column.categorical_column_with_vocabulary_list("x", ["a", "b"]))
        >>> layer = tf.feature_column.input_layer({"x": ["b", "a", "?"]}, [column])
        >>> with tf.Session() as sess:
        ...     sess.run(tf.tables_initializer())
        ...     sess.run(layer)
        array([[0., 1.],
               [1., 0.],
               [0., 0.]], dtype=float32)
    """
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    array = np.array(vocabulary_list)
    there = tf.string if array.dtype.kind in "OSU" else tf.as_dtype(array.dtype)
    _check_oov(key, num_oov_buckets, default_value != -1)
    check_id_dtype(there, f"column_name: {key} vocabulary")
    dtype = there if dtype is None else tf.as_dtype(dtype)
    if dtype.is_integer != there.is_integer:
        raise ValueError(f"dtype {dtype} and vocabulary dtype {there} do not match, column_name: "
                         f"{key}")
    check_id_dtype(dtype, f"column_name: {key}")
    check_key(key)
    return VocabularyListCategoricalColumn(key, tuple(vocabulary_list), dtype, default_value,
                                           num_oov_buckets)


def _check_oov(key, num_oov_buckets, has_default):
    if num_oov_buckets:
        if has_default:
            raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
        if num_oov_buckets < 0:
            raise ValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")


class VocabularyFileCategoricalColumn(
        collections.namedtuple(
            "VocabularyFileCategoricalColumn",
            "key vocabulary_file vocabulary_size num_oov_buckets dtype default_value"), _OfKey):
    """Made by categorical_column_with_vocabulary_file."""

    __slots__ = ()

    @property
    def num_buckets(self):
        """Lines and buckets for others."""
        return self.vocabulary_size + self.num_oov_buckets

    def transformed(self, features):
        """The lines' numbers."""
        sparse = as_sparse(features.get(self.key))
        checked_ids(sparse, self.dtype, self.key)
        index = tf.lookup.TextFileIndex
        with tf.name_scope(f"{self.key}_lookup"):
            lines = tf.lookup.TextFileInitializer(
                self.vocabulary_file, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER,
                vocab_size=self.vocabulary_size)
            return _looked_up(lines, sparse, self.num_oov_buckets, self.default_value)


def categorical_column_with_vocabulary_file(key, vocabulary_file, vocabulary_size=None,
                                            num_oov_buckets=0, default_value=None, dtype=tf.string):
    """Ids by line of a text file.

    vocabulary_size: how many lines; default all. default_value: for other values (None: -1, left
    out), or num_oov_buckets: how many ids for them. ValueError for both, or no such file.
    TF: tf.feature_column.categorical_column_with_vocabulary_file."""
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    if vocabulary_size is None:
        if not tf.gfile.Exists(vocabulary_file):
            raise ValueError(f"vocabulary_file in {key} does not exist.")
        with tf.gfile.GFile(vocabulary_file, "rb") as file:
            vocabulary_size = sum(1 for _ in file)
    if vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    _check_oov(key, num_oov_buckets, default_value is not None)
    dtype = tf.as_dtype(dtype)
    check_id_dtype(dtype, f"column_name: {key}")
    check_key(key)
    return VocabularyFileCategoricalColumn(
        key, vocabulary_file, vocabulary_size, num_oov_buckets or 0, dtype,
        -1 if default_value is None else default_value)


class WeightedCategoricalColumn(
        collections.namedtuple("WeightedCategoricalColumn",
                               "categorical_column weight_feature_key dtype"), CategoricalColumn):
    """Made by weighted_categorical_column."""

    __slots__ = ()

    @property
    def name(self):
        """NAME_weighted_by_KEY."""
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def parse_example_spec(self):
        """The column's, and the weights'."""
        spec = dict(self.categorical_column.parse_example_spec)
        if self.weight_feature_key in spec:
            raise ValueError(f"Parse config {spec[self.weight_feature_key]} already exists for "
                             f"{self.weight_feature_key}.")
        return {**spec, self.weight_feature_key: tf.VarLenFeature(self.dtype)}

    @property
    def num_buckets(self):
        """The column's."""
        return self.categorical_column.num_buckets

    def transformed(self, features):
        """(ids, weights). ValueError for weights of another dtype."""
        weights = features.get(self.weight_feature_key)
        if weights.dtype.base_dtype != self.dtype:
            raise ValueError(f"Bad dtype, expected {self.dtype}, but got {weights.dtype}.")
        weights = as_sparse(weights, ignored=0)
        if not weights.dtype.is_floating:
            weights = with_values(weights, tf.to_float(weights.values))
        return self.categorical_column.ids(features)[0], weights

    def ids(self, features):
        """(ids, weights)."""
        return features.get(self)


def weighted_categorical_column(categorical_column, weight_feature_key, dtype=tf.float32):
    """A categorical column whose ids have weights, from another feature of the same form.

    ValueError for dtypes that are no numbers. TF: tf.feature_column.weighted_categorical_column."""
    dtype = tf.as_dtype(dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype {dtype} is not convertible to float.")
    return WeightedCategoricalColumn(categorical_column, weight_feature_key, dtype)


class CrossedColumn(
        collections.namedtuple("CrossedColumn", "keys hash_bucket_size hash_key"),
        CategoricalColumn):
    """Made by crossed_column."""

    __slots__ = ()

    @property
    def name(self):
        """The names of what is crossed, sorted, between "_X_"."""
        return "_X_".join(sorted(
            leaf if isinstance(leaf, str) else leaf.name for leaf in self._leaves()))

    @property
    def parse_example_spec(self):
        """Those of what is crossed."""
        spec = {}
        for key in self.keys:
            spec.update({key: tf.VarLenFeature(tf.string)} if isinstance(key, str)
                        else key.parse_example_spec)
        return spec

    @property
    def num_buckets(self):
        """hash_bucket_size."""
        return self.hash_bucket_size

    def _leaves(self):
        for key in self.keys:
            if isinstance(key, CrossedColumn):
                yield from key._leaves()
            else:
                yield key

    def transformed(self, features):
        """Hashes of all combinations. ValueError for weighted columns."""
        inputs = []
        for leaf in self._leaves():
            if isinstance(leaf, str):
                inputs.append(features.get(leaf))
                continue
            ids, weights = leaf.ids(features)
            if weights is not None:
                raise ValueError("crossed_column does not support weight_tensor, but the given "
                                 f"column populates weight_tensor. Given column: {leaf.name}")
            inputs.append(ids)
        return tf.sparse.cross_hashed(inputs, self.hash_bucket_size, self.hash_key)

    def ids(self, features):
        """(ids, None)."""
        return features.get(self), None


def crossed_column(keys, hash_bucket_size, hash_key=None):
    """Ids of combinations: of features by their keys, or of categorical columns.

    keys: two at least; no columns by hash. hash_bucket_size: number of ids. hash_key: of the hash.
    ValueError for others. TF: tf.feature_column.crossed_column."""
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, (str, CategoricalColumn)):
            raise ValueError("Unsupported key type. All keys must be either string, or categorical "
                             f"column except HashedCategoricalColumn. Given: {key}")
        if isinstance(key, HashedCategoricalColumn):
            raise ValueError(
                "categorical_column_with_hash_bucket is not supported for crossing. Hashing before "
                "crossing will increase probability of collision. Instead, use the feature name as "
                f"a string. Given: {key}")
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)


PUBLIC = {f"feature_column.{made.__name__}": made for made in (
    categorical_column_with_hash_bucket, categorical_column_with_identity,
    categorical_column_with_vocabulary_list, categorical_column_with_vocabulary_file,
    weighted_categorical_column, crossed_column)}
