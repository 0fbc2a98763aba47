"""A node of pyflow's graph as its converter into ONNX sees it.

    def converter(node):
        return node.emit("MatMul", node.x(0), node.x(1))
"""

import numpy as np

from pyflow.framework import dtypes
from pyflow.interop.onnx.errors import UnsupportedError
from pyflow.interop.onnx.exporter.body import Value, onnx_type, type_of_array
from pyflow.interop.onnx.exporter.kernel_types import wider
from pyflow.interop.onnx.tensors import NUMBERS

_REQUIRED = object()


class Node:
    """One operation while it is written.  exporter: the Exporter, body: where nodes go."""

    def __init__(self, exporter, op, body):
        self.exporter, self.op, self.body = exporter, op, body
        self.opset = exporter.opset
        self.name = op.name

    # inputs
    def __len__(self):
        return len(self.op.inputs)

    def value(self, i):
        """Input `i` as a Value."""
        return self.exporter.value_of(self.op.inputs[i], self.body)

    def x(self, i):
        """The name of input `i`, its axes in pyflow's order."""
        return self.value(i).plain

    def xs(self, start=0, stop=None):
        """The names of inputs from `start` on."""
        return [self.x(i) for i in range(start, len(self) if stop is None else stop)]

    def known(self, i):
        """Input `i` as an array if it is known while the model is written, else None."""
        return self.exporter.array_of(self.op.inputs[i], self.body)

    def is_only_reader(self, i):
        """Whether nothing else reads input `i`, nor is it an output."""
        tensor = self.op.inputs[i]
        walk = self.exporter.walk
        return sum(user in walk.within for user in set(tensor.consumers())) == 1 and \
            tensor not in walk.asked

    def need(self, i, what):
        """Input `i` as an array; UnsupportedError if only the step will know it."""
        array = self.known(i)
        if array is None:
            raise self.unsupported(f"{what} must be a constant, input {i} "
                                   f"({self.op.inputs[i].name}) is computed")
        return array

    def dtype(self, i=0):
        """The DType of input `i` as ONNX has it."""
        return self._onnx_type(self.op.inputs[i].dtype)

    def out_dtype(self, i=0):
        """The DType of output `i` as ONNX has it."""
        return self._onnx_type(self.op.outputs[i].dtype)

    def _onnx_type(self, dtype):
        found = onnx_type(dtype)
        if found is None:
            raise self.unsupported(f"ONNX has no tensors of type {dtype.base_dtype.name}")
        return found

    def dims(self, i):
        """Sizes of input `i`, None where unknown; None: not even the rank is known."""
        return self.op.inputs[i].shape.as_tuple()

    def shape(self, i, what="its"):
        """The same; UnsupportedError if the rank is unknown."""
        dims = self.dims(i)
        if dims is None:
            raise self.unsupported(f"the rank of input {i} ({self.op.inputs[i].name}) must be "
                                   f"known; say it with set_shape or in the placeholder")
        return dims

    def rank(self, i):
        """Rank of input `i`."""
        return len(self.shape(i))

    def out_dims(self, i=0):
        """Sizes of output `i`, or None."""
        return self.op.outputs[i].shape.as_tuple()

    def axis(self, axis, rank):
        """`axis` counted from the front; UnsupportedError outside [-rank, rank)."""
        if not -rank <= axis < rank:
            raise self.unsupported(f"axis {axis} is out of range for rank {rank}")
        return int(axis) % rank if rank else 0

    def attr(self, name, default=_REQUIRED):
        """An attribute as a native value."""
        if default is _REQUIRED:
            return self.op.attr(name)
        return self.op.attrs.get(name, default)

    # nodes
    def emit(self, op, *inputs, outputs=1, domain="", **attrs):
        """Adds a node of ONNX's; returns the name of its output, or a list of them."""
        return self.body.emit(op, list(inputs), self._wanted(), outputs, domain, **attrs)

    def _wanted(self):
        return self.name

    def compute(self, op, dtype, *inputs, result=True, at=None, **attrs):
        """`emit`, in a wider type where onnxruntime has no kernel for `dtype`.

        result: whether the output is of `dtype`; at: positions of inputs of `dtype`, all by
        default."""
        wide = wider(op, dtype)
        if wide is None:
            return self.emit(op, *inputs, **attrs)
        cast = [self._widened(x, wide) if x is not None and (at is None or i in at) else x
                for i, x in enumerate(inputs)]
        made = self.emit(op, *cast, **attrs)
        return self.cast(made, dtype) if result else made

    def _widened(self, x, wide):
        if isinstance(x, np.ndarray):
            return x.astype(wide.as_numpy_dtype)
        return self.cast(x, wide)

    def cast(self, name, dtype):
        """A Cast; arrays are cast at once."""
        if isinstance(name, np.ndarray):
            return name.astype(dtype.as_numpy_dtype)
        return self.emit("Cast", name, to=NUMBERS[dtype])

    def const(self, value, dtype):
        """An array of a DType, to be given to `emit`."""
        return np.asarray(value, dtype.as_numpy_dtype)

    def ints(self, i, what=None):
        """Input `i` as int64, an array where it is known: axes, sizes, indices."""
        array = self.known(i)
        if array is not None:
            return np.asarray(array).astype(np.int64)
        return self.int64(self.x(i), self.dtype(i))

    def int64(self, name, dtype):
        """A name of an integer tensor as int64."""
        return name if dtype is dtypes.int64 else self.cast(name, dtypes.int64)

    def vector(self, i):
        """Input `i`, a scalar or vector of integers, as an int64 vector."""
        made = self.ints(i)
        if isinstance(made, np.ndarray):
            return made.reshape(-1)
        return made if self.dims(i) is not None and self.rank(i) == 1 else self.reshape(made, [-1])

    def reshape(self, name, sizes):
        """A Reshape to sizes (a list, an array or a name)."""
        if isinstance(name, np.ndarray) and not isinstance(sizes, str):
            return name.reshape(sizes)
        if not isinstance(sizes, str):
            sizes = np.asarray(sizes, np.int64)
        return self.emit("Reshape", name, sizes)

    def like_scalar(self, name):
        """A one-element tensor as a scalar."""
        return self.reshape(name, np.zeros(0, np.int64))

    def squeeze(self, name, *axes):
        """A Squeeze."""
        return self.emit("Squeeze", name, np.array(axes, np.int64))

    def unsqueeze(self, name, *axes):
        """An Unsqueeze."""
        if isinstance(name, np.ndarray):
            return np.expand_dims(name, axes)
        return self.emit("Unsqueeze", name, np.array(axes, np.int64))

    def size_of(self, name, axis):
        """The size of one axis, as an int64 vector of one."""
        return self.emit("Shape", name, start=int(axis), end=int(axis) + 1)

    def sizes_of(self, name):
        """All sizes, as an int64 vector."""
        return self.emit("Shape", name)

    def concat(self, *parts):
        """Int64 vectors one after the other; an array if all are known."""
        if all(isinstance(p, np.ndarray) for p in parts):
            return np.concatenate(parts).astype(np.int64)
        return parts[0] if len(parts) == 1 else self.emit("Concat", *parts, axis=0)

    def slice(self, name, starts, ends, axes, steps=None):
        """A Slice; starts, ends: lists, arrays or names of int64 vectors."""
        def vector(x):
            return x if isinstance(x, str) else np.asarray(x, np.int64)
        return self.emit("Slice", name, vector(starts), vector(ends), vector(axes),
                         None if steps is None else vector(steps))

    def reduce(self, op, name, axes, keepdims, dtype=None):
        """A reduction over axes; of an attribute before opset 18 but for ReduceSum."""
        attrs = {"keepdims": int(keepdims)}
        if op == "ReduceSum" or self.opset >= 18:
            inputs = [name, np.asarray(axes, np.int64) if not isinstance(axes, str) else axes]
        elif isinstance(axes, str):
            raise self.unsupported("axes that are computed need opset 18")
        else:
            inputs, attrs["axes"] = [name], [int(a) for a in axes]
        if dtype is None:
            return self.emit(op, *inputs, **attrs)
        return self.compute(op, dtype, *inputs, at=(0,), **attrs)

    def split(self, name, sizes, axis):
        """A Split into known sizes; a list of names."""
        if len(sizes) == 1:
            return [name]
        return self.emit("Split", name, np.asarray(sizes, np.int64), axis=axis, outputs=len(sizes))

    def where(self, test, a, b, dtype):
        """A Where of two values of `dtype`."""
        return self.compute("Where", dtype, test, a, b, at=(1, 2))

    def ordered(self, name, order, i=0):
        """The Value of output `i` whose ONNX axes are pyflow's in `order`."""
        return Value(name, order, self.out_dims(i), self.out_dtype(i), self.body)

    def as_value(self, name, i):
        """The Value of output `i` in pyflow's order."""
        if isinstance(name, np.ndarray):
            return Value(array=name, home=self.body, wanted=self.name)
        return Value(name, None, self.out_dims(i), self.out_dtype(i), self.body)

    def since(self, opset, what):
        """UnsupportedError before an opset."""
        if self.opset < opset:
            raise self.unsupported(f"{what} needs opset {opset}, the model is written for "
                                   f"{self.opset}")

    def unsupported(self, message):
        """An UnsupportedError about this node."""
        return UnsupportedError(message)


__all__ = ["Node", "Value", "dtypes", "type_of_array"]
