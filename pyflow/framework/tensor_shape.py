"""Static shapes: `Dimension` (a size or unknown) and `TensorShape` (dimensions, or unknown rank).

Invariants:
1. A TensorShape never changes, so tensors share them freely and any thread may read them.
2. `_dims` is a tuple of int or None (unknown size), or None when the rank itself is unknown.
   Shape functions that need speed read it through `as_tuple()`.

    >>> TensorShape([None, 3]).merge_with([2, None])
    TensorShape([Dimension(2), Dimension(3)])
"""

import operator

import numpy as np


class Dimension:
    """One size of a TensorShape; `.value` is an int or None. Arithmetic with None gives None."""

    __slots__ = ("_value",)

    def __init__(self, value):
        self._value = _size(value)

    @property
    def value(self):
        """The size, an int, or None if it is unknown."""
        return self._value

    def is_compatible_with(self, other):
        """True if both sizes are equal or one is unknown."""
        other = _size(other)
        return self._value is None or other is None or self._value == other

    def assert_is_compatible_with(self, other):
        """ValueError unless compatible."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")

    def merge_with(self, other):
        """The more specific of two compatible dimensions; ValueError if they differ."""
        other = as_dimension(other)
        self.assert_is_compatible_with(other)
        return other if self._value is None else self

    def __int__(self):
        if self._value is None:
            raise TypeError("__int__ returned non-int (this dimension is unknown until the graph "
                            "runs; use tf.shape)")
        return self._value

    def __index__(self):
        if self._value is None:
            raise TypeError("this dimension is unknown until the graph runs; use tf.shape")
        return self._value

    def __eq__(self, other):
        other = _size_or_not_implemented(other)
        if other is NotImplemented:
            return NotImplemented
        return None if self._value is None or other is None else self._value == other

    def __ne__(self, other):
        other = _size_or_not_implemented(other)
        if other is NotImplemented:
            return NotImplemented
        return None if self._value is None or other is None else self._value != other

    def __hash__(self):
        return hash(self._value)

    def __bool__(self):
        return bool(self._value)

    def __repr__(self):
        return f"Dimension({self._value})"

    def __str__(self):
        return "?" if self._value is None else str(self._value)

    def __reduce__(self):
        return Dimension, (self._value,)


def _size(value):
    if value is None or type(value) is int and value >= 0:
        return value
    if isinstance(value, Dimension):
        return value._value
    try:
        size = operator.index(value)
    except TypeError:
        if isinstance(value, (str, bytes)):      # "12", as int() takes it
            size = int(value)
        elif isinstance(value, (float, np.floating)):
            if value != value // 1:
                raise ValueError(f"Ambiguous dimension: {value!r}") from None
            size = int(value)
        else:
            raise TypeError("Dimension value must be an integer, None or have an __index__ method, "
                            f"got {value!r}") from None
    if size < 0:
        raise ValueError(f"Dimension {size} must be >= 0")
    return size


def _size_or_not_implemented(value):
    try:
        return _size(value)
    except (TypeError, ValueError):
        return NotImplemented


def _install_dimension_arithmetic():
    def result(compute):
        def method(self, other):
            other = _size_or_not_implemented(other)
            if other is NotImplemented:
                return NotImplemented
            known = self._value is not None and other is not None
            return Dimension(compute(self._value, other) if known else None)
        return method

    def comparison(compute):
        def method(self, other):
            other = _size_or_not_implemented(other)
            if other is NotImplemented:
                return NotImplemented
            known = self._value is not None and other is not None
            return compute(self._value, other) if known else None
        return method

    for name in ("add", "sub", "mul", "floordiv", "mod"):
        compute = getattr(operator, name)
        setattr(Dimension, f"__{name}__", result(compute))
        setattr(Dimension, f"__r{name}__", result(lambda a, b, compute=compute: compute(b, a)))
    Dimension.__div__ = Dimension.__floordiv__
    for name in ("lt", "le", "gt", "ge"):
        setattr(Dimension, f"__{name}__", comparison(getattr(operator, name)))


_install_dimension_arithmetic()


class TensorShape:
    """The shape of a tensor as far as the graph knows it (TF 1.x `tf.TensorShape`).

    `dims`: None for unknown rank, an int for a vector, or an iterable of int, None and Dimension.
    """

    __slots__ = ("_dims",)

    def __init__(self, dims):
        if type(dims) is tuple or type(dims) is list:
            for d in dims:
                if type(d) is not int or d < 0:
                    dims = [_size(d) for d in dims]
                    break
            self._dims = tuple(dims)
        elif dims is None:
            self._dims = None
        else:
            self._dims = _parse_dims(dims)

    def as_tuple(self):
        """Sizes as a tuple of int and None; None if the rank is unknown."""
        return self._dims

    @property
    def dims(self):
        """A list of Dimension, or None if the rank is unknown."""
        return None if self._dims is None else [Dimension(d) for d in self._dims]

    @property
    def ndims(self):
        """The rank, or None."""
        return None if self._dims is None else len(self._dims)

    rank = ndims

    def as_list(self):
        """Sizes as a list of int and None; ValueError if the rank is unknown."""
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._dims)

    def num_elements(self):
        """The product of the sizes, or None if one is unknown."""
        if not self.is_fully_defined():
            return None
        total = 1
        for d in self._dims:
            total *= d
        return total

    def is_fully_defined(self):
        """True if the rank and every size is known."""
        return self._dims is not None and None not in self._dims

    def assert_is_fully_defined(self):
        """ValueError unless every size is known."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def is_compatible_with(self, other):
        """True if one tensor could have both shapes."""
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return True
        if len(self._dims) != len(other._dims):
            return False
        return all(a is None or b is None or a == b for a, b in zip(self._dims, other._dims))

    def assert_is_compatible_with(self, other):
        """ValueError unless compatible."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {as_shape(other)} are incompatible")

    def merge_with(self, other):
        """The shape that satisfies both; ValueError if there is none."""
        other = as_shape(other)
        if self._dims is None:
            return other
        if other._dims is None or self._dims == other._dims:
            return self
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are not compatible")
        return TensorShape([b if a is None else a for a, b in zip(self._dims, other._dims)])

    def most_specific_compatible_shape(self, other):
        """The most specific shape both `self` and `other` are instances of."""
        other = as_shape(other)
        if self._dims is None or other._dims is None or len(self._dims) != len(other._dims):
            return _UNKNOWN
        return TensorShape([a if a == b else None for a, b in zip(self._dims, other._dims)])

    def concatenate(self, other):
        """The dimensions of `self` followed by those of `other`."""
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return _UNKNOWN
        return TensorShape(self._dims + other._dims)

    def assert_same_rank(self, other):
        """ValueError if both ranks are known and differ."""
        other = as_shape(other)
        if self._dims is not None and other._dims is not None and self.ndims != other.ndims:
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def assert_has_rank(self, rank):
        """ValueError unless the rank is unknown or `rank`."""
        if self.ndims not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def with_rank(self, rank):
        """This shape, known to have `rank`; ValueError if it cannot."""
        if self._dims is None:
            return unknown_shape(rank)
        if len(self._dims) != rank:
            raise ValueError(f"Shape {self} must have rank {rank}")
        return self

    def with_rank_at_least(self, rank):
        """This shape; ValueError if its rank is known and below `rank`."""
        if self._dims is not None and len(self._dims) < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank):
        """This shape; ValueError if its rank is known and above `rank`."""
        if self._dims is not None and len(self._dims) > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def as_proto(self):
        """This shape as a TensorShapeProto."""
        from pyflow.framework import protos
        if self._dims is None:
            return protos.TensorShapeProto(unknown_rank=True)
        dim = protos.TensorShapeProto.Dim
        return protos.TensorShapeProto(
            dim=[dim(size=-1 if d is None else d) for d in self._dims])

    def __len__(self):
        if self._dims is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self._dims)

    def __bool__(self):
        return self._dims is not None

    def __iter__(self):
        if self._dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter([Dimension(d) for d in self._dims])

    def __getitem__(self, key):
        if self._dims is not None:
            found = self._dims[key]
            return TensorShape(found) if isinstance(key, slice) else Dimension(found)
        if not isinstance(key, slice):
            return Dimension(None)
        start = key.start if key.start is not None else 0
        if key.step is not None:
            raise ValueError("Steps are not yet handled")
        if key.stop is None or start < 0 or key.stop < 0:
            return _UNKNOWN
        return unknown_shape(max(key.stop - start, 0))

    def __add__(self, other):
        return self.concatenate(other)

    def __radd__(self, other):
        return as_shape(other).concatenate(self)

    def __eq__(self, other):
        if isinstance(other, TensorShape):
            return self._dims == other._dims
        try:
            return self._dims == as_shape(other)._dims
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self):
        return hash(self._dims)

    def __repr__(self):
        return f"TensorShape({None if self._dims is None else self.dims})"

    def __str__(self):
        if self._dims is None:
            return "<unknown>"
        if len(self._dims) == 1:
            return f"({'?' if self._dims[0] is None else self._dims[0]},)"
        return "(" + ", ".join("?" if d is None else str(d) for d in self._dims) + ")"

    def __reduce__(self):
        return TensorShape, (self.dims,)


def _parse_dims(dims):
    if isinstance(dims, TensorShape):
        return dims._dims
    if hasattr(dims, "unknown_rank"):  # a TensorShapeProto
        if dims.unknown_rank:
            return None
        return tuple(None if d.size < 0 else d.size for d in dims.dim)
    if isinstance(dims, (str, bytes)):
        raise TypeError(f"A string has ambiguous TensorShape: {dims!r}. Give a list of sizes.")
    try:
        sizes = iter(dims)
    except TypeError:
        return (_size(dims),)
    return tuple(_size(d) for d in sizes)


_UNKNOWN = TensorShape(None)
_SCALAR = TensorShape(())


def as_dimension(value):
    """`value` as a Dimension."""
    return value if isinstance(value, Dimension) else Dimension(value)


def as_shape(shape):
    """`shape` as a TensorShape."""
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def unknown_shape(ndims=None, rank=None):
    """A shape of unknown rank, or of rank `ndims` (`rank` in TensorFlow 1.15's code) with unknown
    sizes."""
    ndims = rank if ndims is None else ndims
    return _UNKNOWN if ndims is None else TensorShape((None,) * int(ndims))


def scalar():
    """The shape of a scalar."""
    return _SCALAR


def vector(length):
    """The shape [length]."""
    return TensorShape((length,))


def matrix(rows, cols):
    """The shape [rows, cols]."""
    return TensorShape((rows, cols))


def dimension_at_index(shape, index):
    """A shape's Dimension at an index, an unknown one where the rank is unknown.
    TF: tf.dimension_at_index."""
    return Dimension(None) if shape.ndims is None else shape.dims[index]


def dimension_value(dimension):
    """`dimension.value` for a Dimension, the value itself otherwise."""
    return dimension._value if isinstance(dimension, Dimension) else dimension


class BroadcastError(ValueError):
    """Two shapes do not broadcast; `sizes` are the two that differ."""

    def __init__(self, message, sizes):
        super().__init__(message)
        self.sizes = sizes


def broadcast_static_shape(shape_x, shape_y):
    """The shape two shapes broadcast to, by NumPy's rule; ValueError if they do not broadcast.
    Both and the result are TensorShapes; unknown dimensions stay unknown."""
    shape_x, shape_y = as_shape(shape_x), as_shape(shape_y)
    x, y = shape_x._dims, shape_y._dims
    if x == y:
        return shape_x
    if x is None or y is None:
        return _UNKNOWN
    if len(x) < len(y):
        x = (1,) * (len(y) - len(x)) + x
    elif len(y) < len(x):
        y = (1,) * (len(x) - len(y)) + y
    sizes = []
    for a, b in zip(x, y):
        if a == b or b == 1:
            sizes.append(a)
        elif a == 1:
            sizes.append(b)
        elif a is None or b is None:
            sizes.append(b if a is None else a)
        else:
            raise BroadcastError(
                f"Incompatible shapes for broadcasting: {shape_x} and {shape_y}", (a, b))
    return TensorShape(tuple(sizes))
