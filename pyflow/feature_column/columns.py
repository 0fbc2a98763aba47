"""What feature columns have in common, and the features that they share.

    features {key: tensor} -> Features -> a column's `transformed` -> a tensor, or (ids, weights)

Invariants
    1. A column is a value: equal columns are one, and are transformed once per Features.
    2. A raw feature has a rank of two at least: vectors are columns of a matrix.
    3. Ids are SparseTensors [batch, n]; "" and -1 of dense features are left out.

Thread: the one building the graph.  Source: TF 1.15 tf.feature_column.
"""
import re

import pyflow as tf


class FeatureColumn:
    """What all columns are. Each has `name`, `parse_example_spec` and `transformed`."""

    __slots__ = ()

    @property
    def var_scope_name(self):
        """The name with which its variables' scope is made."""
        return re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", self.name)

    _parse_example_spec = property(lambda self: self.parse_example_spec)


class DenseColumn(FeatureColumn):
    """Numbers: `variable_shape`, and `dense(features, ...)` [batch] + variable_shape."""

    __slots__ = ()


class CategoricalColumn(FeatureColumn):
    """Ids: `num_buckets`, and `ids(features)`: (ids, weights or None), SparseTensors."""

    __slots__ = ()

    @property
    def _num_buckets(self):
        return self.num_buckets


class SequenceColumn(CategoricalColumn):
    """A categorical column whose second dimension is time."""

    __slots__ = ()


class Features:
    """The tensors of {key: tensor}, and those made of them, each once."""

    def __init__(self, features):
        self._raw, self._made = dict(features), {}

    def get(self, key):
        """A raw feature by its key, or a column's transformed one. ValueError for a key that is
        not there."""
        if key not in self._made:
            self._made[key] = key.transformed(self) if isinstance(key, FeatureColumn) \
                else self._feature(key)
        return self._made[key]

    def _feature(self, key):
        if key not in self._raw:
            near = ", ".join(map(str, sorted(self._raw, key=str)[:10]))
            raise ValueError(f"Feature {key} is not in features dictionary. It has: {near}")
        found = self._raw[key]
        if isinstance(found, (tf.SparseTensor, tf.SparseTensorValue)):
            found = tf.SparseTensor.from_value(found)
            rank = found.dense_shape.shape[0].value
            if rank == 1:
                return tf.sparse_reshape(found, [-1, 1])
            return _of_two_dimensions(found) if rank is None else found
        found = tf.convert_to_tensor(found)
        rank = found.shape.ndims
        if rank == 0:
            raise ValueError(f"Feature (key: {key}) cannot have rank 0. Given: {found}")
        if rank is None:
            return tf.cond(tf.equal(1, tf.rank(found)), lambda: tf.expand_dims(found, -1),
                           lambda: found)
        return tf.expand_dims(found, -1) if rank == 1 else found


def _of_two_dimensions(sparse):
    """A SparseTensor of unknown rank, as a column where it turns out to be a vector's."""
    return tf.sparse_reshape(sparse, tf.cond(
        tf.equal(1, tf.size(sparse.dense_shape)), lambda: tf.concat([sparse.dense_shape, [1]], 0),
        lambda: sparse.dense_shape))


def as_sparse(tensor, ignored=None):
    """A feature as SparseTensor; of a dense one "" or -1 (or `ignored`) are left out."""
    if isinstance(tensor, tf.SparseTensor):
        return tensor
    with tf.name_scope(None, "to_sparse_input", [tensor]):
        if ignored is None:
            ignored = "" if tensor.dtype == tf.string else -1
        there = tf.where(tf.not_equal(tensor, tf.constant(ignored, tensor.dtype)))
        shape = tf.shape(tensor, out_type=tf.int64)
        return tf.SparseTensor(there, tf.gather_nd(tensor, there), shape)


def with_values(sparse, values):
    """The SparseTensor with other values."""
    return tf.SparseTensor(sparse.indices, values, sparse.dense_shape)


def check_key(key):
    """ValueError unless a feature's key is a string."""
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")


def check_id_dtype(dtype, prefix):
    """ValueError for types of which no ids are made."""
    if dtype != tf.string and not dtype.is_integer:
        raise ValueError(f"{prefix} dtype must be string or integer. dtype: {dtype}.")


def checked_ids(sparse, dtype, name):
    """ValueError where a column of strings is given numbers, or numbers strings."""
    check_id_dtype(sparse.dtype, f"column_name: {name} input_tensor")
    if dtype.is_integer != sparse.dtype.is_integer:
        raise ValueError(f"Column dtype and SparseTensors dtype must be compatible. key: {name}, "
                         f"column dtype: {dtype}, tensor dtype: {sparse.dtype}")


def checked_columns(columns, kinds, text):
    """A list of columns, sorted by name. ValueError for none, other kinds, two of one name."""
    if isinstance(columns, FeatureColumn):
        columns = [columns]
    if isinstance(columns, dict):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    columns = list(columns or ())
    for column in columns:
        if not isinstance(column, kinds):
            raise ValueError(f"Items of feature_columns must be {text}. "
                             f"Given (type {type(column)}): {column}.")
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    names = {}
    for column in columns:
        if column.name in names:
            raise ValueError(
                f"Duplicate feature column name found for columns: {column} and "
                f"{names[column.name]}. This usually means that these columns refer to same base "
                "feature. Either one must be discarded or a duplicated but renamed item must be "
                "inserted in features dict.")
        names[column.name] = column
    return sorted(columns, key=lambda column: column.name)


def flat(tensor, size):
    """[batch, size] of [batch, ...]."""
    return tf.reshape(tensor, [tf.shape(tensor)[0], size])
