"""A node of an ONNX graph as its converter sees it: inputs, attributes, and errors that name it.

    def converter(node):
        x, axis = node.x(0), node.attr("axis", -1)
"""

import numpy as np

from pyflow.framework import dtypes
from pyflow.interop.onnx.errors import NeedsConstant, OnnxError, UnsupportedError
from pyflow.interop.onnx.tensors import to_array
from pyflow.interop.onnx.values import Value, sources_of

_REQUIRED = object()
_MAX_RANK = 254


class Node:
    """One node while it is converted.  `scope` is where its subgraphs look names up."""

    def __init__(self, importer, proto, inputs, opset, attributes, scope):
        self.importer, self.proto, self.scope = importer, proto, scope
        self.inputs = inputs                # Values; None where an optional one is left out
        self.op, self.opset = proto.op_type, opset
        self.name = proto.name or (proto.output[0] if len(proto.output) else proto.op_type)
        self._attributes = attributes       # AttributeProto by name, references resolved
        self.outputs = list(proto.output)

    # inputs
    def __len__(self):
        return len(self.inputs)

    def has(self, i):
        """Whether input `i` is given."""
        return i < len(self.inputs) and self.inputs[i] is not None

    def value(self, i):
        """Input `i` as a Value; OnnxError if it is left out."""
        if not self.has(i):
            raise self.error(f"input {i} is missing: {len(self.inputs)} inputs are given")
        return self.inputs[i]

    def x(self, i):
        """Input `i` as a tensor in ONNX's order."""
        return self.value(i).plain

    def opt(self, i, default=None):
        """Input `i` as a tensor, or `default` where it is left out."""
        return self.inputs[i].plain if self.has(i) else default

    def known(self, i):
        """Input `i` as an array if it is known while importing, else None."""
        if not self.has(i):
            return None
        return self.importer.array_of(self.inputs[i])

    def need(self, i, what):
        """Input `i` as an array.  Raises NeedsConstant if only the step will know it."""
        array = self.known(i)
        if array is None:
            raise self._needs(self.value(i).tensor, what, values=True)
        return array

    def needs(self, tensor, what):
        """The error for a tensor whose shape, or rank, had to be known."""
        return self._needs(tensor, what, values=False)

    def _needs(self, tensor, what, values):
        sources = sources_of(tensor)
        trained = self.importer.variable_names(sources) if values else []     # shapes are known
        if trained:
            return self.unsupported(
                f"{what} must be known while the graph is built; it depends on {trained[0]!r}, "
                f"which trainable= makes a variable: leave it out, import_model(..., "
                f"trainable=lambda name: name not in {trained!r})")
        names = self.importer.input_names(sources)
        give = ("give their shapes as import_model(..., shapes={name: sizes}), or python -m pyflow "
                "run --shape NAME=1,3,224,224")
        if values:
            give += "; where those do not tell it, their values, constants={name: array}"
        return NeedsConstant(
            f"{what} must be known while the graph is built; it depends on the inputs "
            f"{', '.join(names) or 'of a loop or branch'}: {give}", names, **self.where())

    def shape(self, i):
        """ONNX shape of input `i`, sizes that are not known as None; OnnxError if not even the
        rank is known."""
        shape = self.value(i).shape
        if shape is None:
            raise self.needs(self.value(i).tensor, f"the rank of input {i}")
        return shape

    def static_shape(self, i):
        """ONNX shape of input `i`, all sizes known; NeedsConstant otherwise."""
        shape = self.shape(i)
        if None in shape:
            raise self.needs(self.value(i).tensor, f"the shape of input {i}, {shape},")
        return shape

    def rank(self, i):
        """Rank of input `i`."""
        return len(self.shape(i))

    def axis(self, axis, rank):
        """`axis` counted from the front; OnnxError outside [-rank, rank)."""
        if not -rank <= axis < rank:
            raise self.error(f"axis {axis} is out of range for rank {rank}: expected a value in "
                             f"[{-rank}, {rank})")
        return axis + rank if axis < 0 else axis

    # attributes
    def has_attr(self, name):
        """Whether the attribute is given."""
        return name in self._attributes

    def attr(self, name, default=_REQUIRED):
        """The attribute as int, float, str, bytes, ndarray, GraphProto or a list of them."""
        proto = self._attributes.get(name)
        if proto is None:
            if default is _REQUIRED:
                raise self.error(f"attribute {name!r} is missing")
            return default
        try:
            made = native(proto, self.importer.folder)
            return self.importer.widened(made) if isinstance(made, np.ndarray) else made
        except (TypeError, ValueError) as error:
            raise self.error(f"attribute {name!r}: {error}") from None

    def tensor_attr(self, name, called=""):
        """A tensor attribute as a Value, which all graphs made from the model share.  called: the
        output that is this tensor."""
        proto = self._attributes[name].t
        if proto is None:
            raise self.error(f"attribute {name!r} holds no tensor")
        try:
            return self.importer.held(proto, f"attribute {name!r}", called)
        except OnnxError:
            raise
        except (TypeError, ValueError) as error:
            raise self.error(str(error)) from None

    def attr_names(self):
        """Names of the attributes that are given."""
        return list(self._attributes)

    # errors
    def where(self):
        """Keyword arguments that name this node in an error."""
        return {"node": self.name, "op": self.op, "opset": self.opset}

    def error(self, message):
        """An OnnxError about this node."""
        return OnnxError(message, **self.where())

    def unsupported(self, message):
        """An UnsupportedError about this node."""
        return UnsupportedError(message, **self.where())

    def expect_rank(self, i, *ranks):
        """OnnxError unless input `i` has one of the ranks."""
        rank = self.rank(i)
        if rank not in ranks:
            raise self.error(f"input {i} must have rank {' or '.join(map(str, ranks))}, got shape "
                             f"{self.shape(i)}")
        return rank

    def sizes_from(self, i):
        """Input `i`, a vector of sizes, as a tensor; OnnxError if no tensor has so many axes."""
        shape = self.value(i).shape
        if shape is not None and (len(shape) != 1 or shape[0] is not None and shape[0] > _MAX_RANK):
            raise self.error(f"input {i} must be a vector of at most {_MAX_RANK} sizes, got shape "
                             f"{shape}")
        return self.x(i)

    def bounded(self, what, *factors, limit=1 << 24):
        """OnnxError if the product of `factors`, a size something would be built with, is beyond
        `limit` (what a file asks for must not exhaust memory)."""
        total = 1
        for factor in factors:
            total *= max(int(factor), 0)
        if total > limit:
            raise self.unsupported(f"{what} has {total} elements; at most {limit} in this form")

    def element_type(self, name, default):
        """The DType an attribute like `to` or `dtype` names."""
        from pyflow.interop.onnx.tensors import dtype_of
        number = self.attr(name, None)
        if number is None:
            return default
        try:
            dtype = dtype_of(number, f"attribute {name!r}")
        except TypeError as error:
            raise self.unsupported(str(error)) from None
        return dtypes.float32 if self.importer.wide_halves and dtype is dtypes.float16 else dtype


def _text(data):
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return bytes(data)


def native(proto, folder=None):
    """The Python value of an AttributeProto."""
    kind = proto.type or _guess(proto)
    if kind == 1:
        return float(proto.f)
    if kind == 2:
        return int(proto.i)
    if kind == 3:
        return _text(proto.s)
    if kind == 4:
        return to_array(proto.t, folder)
    if kind == 5:
        if proto.g is None:
            raise ValueError("a graph is announced, none is there")
        return proto.g
    if kind == 6:
        return [float(v) for v in proto.floats]
    if kind == 7:
        return [int(v) for v in proto.ints]
    if kind == 8:
        return [_text(v) for v in proto.strings]
    if kind == 9:
        return [to_array(t, folder) for t in proto.tensors]
    if kind == 10:
        return list(proto.graphs)
    if kind == 11 and proto.sparse_tensor is not None:
        return dense(proto.sparse_tensor, folder)
    raise TypeError(f"attribute type {kind} is not supported")


def _guess(proto):
    """The type of an attribute of a model older than IR version 3, which does not say it."""
    fields = (("f", 1), ("i", 2), ("s", 3), ("t", 4), ("g", 5), ("floats", 6), ("ints", 7),
              ("strings", 8), ("tensors", 9), ("graphs", 10))
    return next((kind for name, kind in fields if proto.has(name)), 7)


def dense(proto, folder):
    """A SparseTensorProto as a dense array."""
    shape = tuple(int(d) for d in proto.dims)
    if proto.values is None or any(d < 0 for d in shape) or np.prod(shape, dtype=float) > 1 << 28:
        raise ValueError(f"a sparse tensor of shape {shape} without values or with 2^28 elements")
    values = to_array(proto.values, folder)
    result = np.zeros(shape, values.dtype)
    if proto.indices is None:
        return result
    indices = to_array(proto.indices, folder)
    where = tuple(indices.T) if indices.ndim == 2 else np.unravel_index(indices, shape)
    if indices.ndim == 2 and any((w < 0).any() or (w >= d).any() for w, d in zip(where, shape)):
        raise ValueError(f"indices of a sparse tensor lie outside of its shape {shape}")
    result[where] = values
    return result


def as_values(results):
    """What a converter returned, as a list of Values."""
    if not isinstance(results, (list, tuple)):
        results = [results]
    return [r if r is None or isinstance(r, Value) else
            Value(array=r) if isinstance(r, (np.ndarray, np.generic)) else Value(r)
            for r in results]


__all__ = ["Node", "native", "as_values", "dtypes"]
