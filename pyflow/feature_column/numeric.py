"""numeric_column, bucketized_column.

Thread: the one building the graph.  Source: TF 1.15 tf.feature_column.

    age = tf.feature_column.numeric_column("age")
    groups = tf.feature_column.bucketized_column(age, [18, 30, 65])
"""
import collections

import numpy as np

import pyflow as tf
from pyflow.feature_column.columns import CategoricalColumn, DenseColumn, check_key, flat


class NumericColumn(
        collections.namedtuple("NumericColumn", "key shape default_value dtype normalizer_fn"),
        DenseColumn):
    """Made by numeric_column."""

    __slots__ = ()

    @property
    def name(self):
        """The feature's key."""
        return self.key

    @property
    def parse_example_spec(self):
        """{key: FixedLenFeature}."""
        return {self.key: tf.FixedLenFeature(list(self.shape), self.dtype, self.default_value)}

    @property
    def variable_shape(self):
        """The TensorShape of one example."""
        return tf.TensorShape(self.shape)

    def transformed(self, features):
        """The feature, normalised, float32. ValueError for a SparseTensor."""
        tensor = features.get(self.key)
        if isinstance(tensor, tf.SparseTensor):
            raise ValueError("The corresponding Tensor of numerical column must be a Tensor. "
                             f"SparseTensor is not supported. key: {self.key}")
        if self.normalizer_fn is not None:
            tensor = self.normalizer_fn(tensor)
        return tf.to_float(tensor)

    def dense(self, features, weight_collections=None, trainable=None):
        """The feature."""
        return features.get(self)


def numeric_column(key, shape=(1,), default_value=None, dtype=tf.float32, normalizer_fn=None):
    """A column of numbers.

    key: of the feature. shape: of one example. default_value: a number or an array of `shape`, for
    parse_example. dtype: of the feature in files. normalizer_fn: tensor -> tensor. ValueError,
    TypeError for others. TF: tf.feature_column.numeric_column.

        >>> column = tf.feature_column.numeric_column("x", shape=[2], normalizer_fn=lambda x: x / 2)
        >>> layer = tf.feature_column.input_layer({"x": [[1.0, 2.0], [3.0, 4.0]]}, [column])
        >>> with tf.Session() as sess:
        ...     sess.run(layer)
        array([[0.5, 1. ],
               [1.5, 2. ]], dtype=float32)
    """
    shape = _checked_shape(shape, key)
    dtype = tf.as_dtype(dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    default_value = _checked_default(shape, default_value, dtype, key)
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    check_key(key)
    return NumericColumn(key, shape, default_value, dtype, normalizer_fn)


def _checked_shape(shape, key):
    shape = tuple(shape) if isinstance(shape, (list, tuple, tf.TensorShape)) else (shape,)
    if not shape:
        return shape
    for size in shape:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise TypeError(f"shape dimensions must be integer. shape: {shape}, key: {key}")
        if size < 1:
            raise ValueError(f"shape dimensions must be greater than 0. shape: {shape}, key: {key}")
    return tuple(int(size) for size in shape)


def _checked_default(shape, value, dtype, key):
    """default_value as nested tuples of `shape`."""
    if value is None:
        return None
    array = np.asarray(value)
    fits = array.dtype.kind in "iub" or array.dtype.kind == "f" and dtype.is_floating
    if not fits:
        raise TypeError(f"default_value must be compatible with dtype. default_value: {value}, "
                        f"dtype: {dtype}, key: {key}")
    if array.ndim and array.shape != shape:
        raise ValueError(f"The shape of default_value must be equal to given shape. default_value: "
                         f"{value}, shape: {shape}, key: {key}")
    return _tuples(np.broadcast_to(array, shape).astype(dtype.as_numpy_dtype).tolist())


def _tuples(value):
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class BucketizedColumn(
        collections.namedtuple("BucketizedColumn", "source_column boundaries"),
        DenseColumn, CategoricalColumn):
    """Made by bucketized_column: one-hot numbers where dense ones are wanted, else ids."""

    __slots__ = ()

    @property
    def name(self):
        """NAME_bucketized."""
        return f"{self.source_column.name}_bucketized"

    @property
    def parse_example_spec(self):
        """The source's."""
        return self.source_column.parse_example_spec

    @property
    def variable_shape(self):
        """The source's and the number of buckets."""
        return tf.TensorShape([*self.source_column.shape, len(self.boundaries) + 1])

    @property
    def num_buckets(self):
        """Buckets times numbers of an example."""
        return (len(self.boundaries) + 1) * self.source_column.shape[0]

    def transformed(self, features):
        """The buckets' numbers, int32."""
        source = features.get(self.source_column)
        edges = tf.constant(np.array(self.boundaries, np.float32))
        # NaN, which is not below, comes last
        above = tf.logical_not(tf.less(tf.expand_dims(source, -1), edges))
        return tf.reduce_sum(tf.to_int32(above), -1)

    def dense(self, features, weight_collections=None, trainable=None):
        """One-hot numbers."""
        return tf.one_hot(features.get(self), len(self.boundaries) + 1, 1.0, 0.0)

    def ids(self, features):
        """An id for each number: its bucket, after those of the numbers before it."""
        buckets = features.get(self)
        width = self.source_column.shape[0]
        batch = tf.shape(buckets)[0]
        rows = tf.reshape(tf.tile(tf.expand_dims(tf.range(batch), 1), [1, width]), [-1])
        columns = tf.tile(tf.range(width), [batch])
        values = tf.reshape(flat(buckets, width), [-1]) + (len(self.boundaries) + 1) * columns
        indices = tf.to_int64(tf.stack([rows, columns], 1))
        shape = tf.to_int64(tf.stack([batch, width]))
        return tf.SparseTensor(indices, values, shape), None


def bucketized_column(source_column, boundaries):
    """A numeric column's numbers by range: below boundaries[0], from it to below the next, ...

    source_column: of numeric_column, of one dimension. boundaries: a sorted list. ValueError for
    others. TF: tf.feature_column.bucketized_column.

        >>> column = tf.feature_column.bucketized_column(
        ...     tf.feature_column.numeric_column("x"), [0.0, 10.0])
        >>> layer = tf.feature_column.input_layer({"x": [[-1.0], [0.0], [99.0]]}, [column])
        >>> with tf.Session() as sess:
        ...     sess.run(layer)
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    if not isinstance(source_column, NumericColumn):
        raise ValueError("source_column must be a column generated with numeric_column(). Given: "
                         f"{source_column}")
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not isinstance(boundaries, (list, tuple)) or not boundaries:
        raise ValueError("boundaries must be a sorted list.")
    if any(low >= high for low, high in zip(boundaries, boundaries[1:])):
        raise ValueError("boundaries must be a sorted list.")
    return BucketizedColumn(source_column, tuple(boundaries))


PUBLIC = {"feature_column.numeric_column": numeric_column,
          "feature_column.bucketized_column": bucketized_column}
