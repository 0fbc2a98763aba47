"""Values made of several tensors: `IndexedSlices` (rows of a tensor) and `SparseTensor`.

Both are plain bundles of tensors of one graph. Turning IndexedSlices into a dense tensor needs ops,
so that conversion is registered by pyflow.lib.
"""

from typing import NamedTuple

from pyflow.framework import dtypes
from pyflow.framework.convert import convert_to_tensor
from pyflow.framework.default_graph import session_for
from pyflow.framework.default_scopes import name_scope
from pyflow.framework.static_value import constant_value_as_shape
from pyflow.framework.tensor_shape import TensorShape


class IndexedSlicesValue(NamedTuple):
    """A fetched IndexedSlices: NumPy arrays."""

    values: object
    indices: object
    dense_shape: object


class SparseTensorValue(NamedTuple):
    """A fetched or fed SparseTensor: NumPy arrays."""

    indices: object
    values: object
    dense_shape: object


class IndexedSlices:
    """Rows `values` [n, d1, ...] at positions `indices` [n] of a tensor of shape `dense_shape`.

    Repeated indices add up. The gradient of `gather` has this form.
    """

    def __init__(self, values, indices, dense_shape=None):
        self._values = values
        self._indices = indices
        self._dense_shape = dense_shape

    values = property(lambda self: self._values, doc="The rows.")
    indices = property(lambda self: self._indices, doc="Their positions.")
    dense_shape = property(lambda self: self._dense_shape, doc="1-D tensor, or None if unknown.")
    name = property(lambda self: self._values.name, doc="The name of the rows' tensor.")
    device = property(lambda self: self._values.device, doc="The device of the rows' operation.")
    op = property(lambda self: self._values.op, doc="The operation that makes the values.")
    dtype = property(lambda self: self._values.dtype, doc="The values' DType.")
    graph = property(lambda self: self._values.graph, doc="The graph of all three tensors.")

    @property
    def shape(self):
        """The dense static shape, as far as `dense_shape` is a constant."""
        if self._dense_shape is None:
            return TensorShape(None)
        return constant_value_as_shape(self._dense_shape)

    def get_shape(self):
        """Same as `shape`."""
        return self.shape

    def __neg__(self):
        return IndexedSlices(-self._values, self._indices, self._dense_shape)

    def __repr__(self):
        values = self._values
        return (f"<tf.IndexedSlices values={values.name!r} indices={self._indices.name!r} "
                f"dtype={values.dtype.name}>")

    def __str__(self):
        shape = f", dense_shape={self._dense_shape}" if self._dense_shape is not None else ""
        return f"IndexedSlices(indices={self._indices}, values={self._values}{shape})"


class SparseTensor:
    """`values` [n] at `indices` [n, rank] (int64) of a tensor of shape `dense_shape` [rank]."""

    def __init__(self, indices, values, dense_shape):
        with name_scope(None, "SparseTensor", [indices, values, dense_shape]):
            self._indices = convert_to_tensor(indices, name="indices", dtype=dtypes.int64)
            self._values = convert_to_tensor(values, name="values")
            self._dense_shape = convert_to_tensor(dense_shape, name="dense_shape",
                                                  dtype=dtypes.int64)
        indices_shape = self._indices.shape.with_rank(2)
        values_shape = self._values.shape.with_rank(1)
        rank = self._dense_shape.shape.with_rank(1)
        indices_shape.merge_with(values_shape.concatenate(rank))

    @classmethod
    def from_value(cls, sparse_tensor_value):
        """A SparseTensor of a SparseTensorValue (or the SparseTensor itself)."""
        if isinstance(sparse_tensor_value, SparseTensor):
            return sparse_tensor_value
        if not isinstance(sparse_tensor_value, SparseTensorValue):
            raise TypeError(f"Neither a SparseTensor nor SparseTensorValue: "
                            f"{sparse_tensor_value!r}.")
        return cls(*sparse_tensor_value)

    indices = property(lambda self: self._indices, doc="Positions [n, rank], int64.")
    values = property(lambda self: self._values, doc="The elements [n].")
    dense_shape = property(lambda self: self._dense_shape, doc="The shape, 1-D int64.")
    op = property(lambda self: self._values.op, doc="The operation that makes the values.")
    dtype = property(lambda self: self._values.dtype, doc="The values' DType.")
    graph = property(lambda self: self._values.graph, doc="The graph of all three tensors.")

    @property
    def shape(self):
        """The static shape."""
        return constant_value_as_shape(self._dense_shape)

    def get_shape(self):
        """Same as `shape`."""
        return self.shape

    def eval(self, feed_dict=None, session=None):
        """A SparseTensorValue, from `session` or the default session."""
        return session_for("eval tensor", self.graph, session).run(self, feed_dict)

    def __repr__(self):
        return (f"<tf.SparseTensor values={self._values.name!r} indices={self._indices.name!r} "
                f"shape={self.shape} dtype={self.dtype.name}>")

    def __str__(self):
        return (f"SparseTensor(indices={self._indices}, values={self._values}, "
                f"dense_shape={self._dense_shape})")


def convert_to_tensor_or_indexed_slices(value, dtype=None, name=None):
    """As `convert_to_tensor`, but IndexedSlices (and SparseTensor) pass through.
    Any shape and dtype; errors as there."""
    if isinstance(value, (IndexedSlices, SparseTensor)):
        if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
            raise ValueError(f"Tensor conversion requested dtype {dtypes.as_dtype(dtype).name} for "
                             f"Tensor with dtype {value.dtype.name}: {value}")
        return value
    return convert_to_tensor(value, dtype, name)


def convert_n_to_tensor_or_indexed_slices(values, dtype=None, name=None):
    """`convert_to_tensor_or_indexed_slices` of each value; None stays None."""
    return [None if value is None else convert_to_tensor_or_indexed_slices(
        value, dtype, None if name is None else f"{name}_{i}") for i, value in enumerate(values)]
