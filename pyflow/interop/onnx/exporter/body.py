"""ONNX graphs while they are written: nodes, names and initializers; values and the order they lie
in.

Invariants:
1. `Value.order[i]` is the axis, as pyflow counts, that lies at axis i of the ONNX value.
   Transposes are written when somebody needs another order, where the value is made and once per order, so
   those between two layers that agree never exist: channels-last networks are NCHW in the file.
2. A known array becomes an initializer of the outermost graph when it is asked for by name; the
   same small array is held once.
3. Names are unique in the whole model, bodies of loops and branches included.

One model is written by one thread.

    value = Value("y", (0, 3, 1, 2), shape=(1, 8, 8, 3), dtype=tf.float32, home=body)
    value.plain                             # the name of the channels-last value
"""

import numpy as np

from pyflow.framework import dtypes
from pyflow.interop.onnx.exporter import writing
from pyflow.interop.onnx.messages import CLASSES
from pyflow.interop.onnx.tensors import NUMBERS

_SHARED = 1 << 12       # bytes of an array up to which equal ones are looked for


def onnx_type(dtype):
    """The DType that a pyflow type is in ONNX (quantised ones are plain integers), or None."""
    base = dtype.base_dtype
    base = {dtypes.qint8: dtypes.int8, dtypes.quint8: dtypes.uint8, dtypes.qint32: dtypes.int32,
            dtypes.qint16: dtypes.int16, dtypes.quint16: dtypes.uint16}.get(base, base)
    return base if base in NUMBERS and not base.is_complex else None    # which nobody computes


def type_of_array(array):
    """The DType of an ndarray."""
    return dtypes.string if array.dtype == object else dtypes.as_dtype(array.dtype)


class Names:
    """The names of a model, and its initializers."""

    def __init__(self, opset):
        self.opset = opset
        self.initializers = []
        self.arrays = {}                # name -> array
        self._used, self._next, self._shared = set(), {}, {}

    def reserve(self, name):
        """Keeps `name` for what is called so on purpose."""
        self._used.add(name)

    def unique(self, wanted):
        """`wanted`, or with a number behind it."""
        name, count = wanted, self._next.get(wanted, 0)
        while name in self._used or not name:
            count += 1
            name = f"{wanted}_{count}"
        self._next[wanted] = count
        self._used.add(name)
        return name

    def constant(self, array, wanted="const"):
        """The name of an initializer that holds `array`."""
        array = np.asarray(array)
        dtype = onnx_type(type_of_array(array))
        key = None
        if array.dtype != object and array.nbytes <= _SHARED:
            key = array.dtype.str, dtype, array.shape, array.tobytes()
            if key in self._shared:
                return self._shared[key]
        name = self.unique(wanted)
        self.initializers.append(writing.tensor(array, dtype, name))
        self.arrays[name] = array
        if key is not None:
            self._shared[key] = name
        return name


class Body:
    """One ONNX graph: the main one, or a loop's or a branch's.  `values`: what tensors of pyflow's
    graph are here; `find` looks outwards.  `turns`: of a loop's body the names of values that are
    the number of the turn, else None."""

    def __init__(self, names, outer=None, turns=None):
        self.names, self.outer, self.turns = names, outer, turns
        self.nodes, self.values = [], {}
        self.made = {}                  # names that nodes of this body give: the node
        self._outputs = set()

    def find(self, tensor):
        """The Value of a tensor here or further out, or None."""
        body = self
        while body is not None:
            found = body.values.get(tensor)
            if found is not None:
                return found
            body = body.outer
        return None

    def name_of(self, item, wanted="const"):
        """A name for an input of a node: a name, an array, a Value (in pyflow's order) or None."""
        if item is None or isinstance(item, str):
            return item or ""
        if isinstance(item, Value):
            return item.plain
        return self.names.constant(item, wanted)

    def own(self, name, wanted):
        """A name that a node of this body gives and that no other output has: `name`, or an
        identity of it."""
        if name not in self.made or name in self._outputs:
            name = self.emit("Identity", [name], wanted)
        self._outputs.add(name)
        return name

    def rename(self, swapped):
        """Takes note that names of its nodes' outputs were swapped: {old: new}."""
        moved = {new: self.made[old] for old, new in swapped.items() if old in self.made}
        self.made.update(moved)
        self._outputs = {swapped.get(name, name) for name in self._outputs}

    def take(self, other):
        """Appends the nodes of a body that was written apart."""
        self.nodes.extend(other.nodes)
        self.made.update(other.made)

    def emit(self, op, inputs, wanted, outputs=1, domain="", **attrs):
        """Adds a node; returns the name of its output, or a list where there are several.

        inputs: as `name_of` takes them; outputs: how many, or their names."""
        given = [self.name_of(item, f"{wanted}/{op.lower()}_{i}") for i, item in enumerate(inputs)]
        while given and not given[-1]:
            given.pop()
        count = outputs if isinstance(outputs, int) else len(outputs)
        if isinstance(outputs, int):
            outputs = [self.names.unique(wanted if i == 0 else f"{wanted}:{i}")
                       for i in range(count)]
        node = CLASSES["NodeProto"](op_type=op, input=given, output=list(outputs),
                                    name=outputs[0])
        if domain:
            node.domain = domain
        node.attribute = [writing.attribute(key, value, type_of_array)
                          for key, value in sorted(attrs.items()) if value is not None]
        self.nodes.append(node)
        self.made.update(dict.fromkeys(outputs, node))
        return outputs[0] if count == 1 else list(outputs)


class Value:
    """One value: `name` (and the `order` it lies in) or `array`; dtype and shape as in pyflow's
    graph.  home: the body it is made in."""

    __slots__ = ("_name", "array", "order", "shape", "dtype", "home", "_orders", "wanted")

    def __init__(self, name=None, order=None, shape=None, dtype=None, home=None, array=None,
                 wanted="const"):
        self._name, self.array, self.home, self.wanted = name, array, home, wanted
        self.shape = shape if array is None else array.shape
        self.dtype = dtype if dtype is not None else type_of_array(array)
        self.order = None if order is None or tuple(order) == tuple(range(len(order))) \
            else tuple(order)
        self._orders = {}

    @property
    def rank(self):
        """Number of axes, or None."""
        return None if self.shape is None else len(self.shape)

    @property
    def plain(self):
        """The name of the value with pyflow's order of axes."""
        return self.named() if self.order is None else self.ordered(range(len(self.order)))

    def named(self):
        """The name of the value as it lies."""
        if self._name is None:
            self._name = self.home.names.constant(self.array, self.wanted)
        return self._name

    def rename(self, swapped):
        """Follows a swap of names: {old: new}."""
        self._name = swapped.get(self._name, self._name)
        self._orders = {order: swapped.get(name, name) for order, name in self._orders.items()}

    def ordered(self, order):
        """The name of the value with its axes in `order`; transposed if need be."""
        order = tuple(order)
        have = self.order or tuple(range(len(order)))
        if order == have:
            return self.named()
        made = self._orders.get(order)
        if made is None:
            perm = [have.index(axis) for axis in order]
            if self.array is not None:
                made = self.home.names.constant(self.array.transpose(perm), self.wanted)
            else:
                made = self._permuted(perm)
            self._orders[order] = made
        return made

    def _permuted(self, perm):
        """A Transpose, or a Reshape where only axes of size 1 move."""
        have = self.order or tuple(range(len(perm)))
        lies = None if self.shape is None else [self.shape[axis] for axis in have]
        wanted = f"{self.named()}/order"
        if lies is not None:
            moving = [axis for axis in perm if lies[axis] != 1]
            new = [lies[axis] for axis in perm]
            if moving == sorted(moving) and new.count(None) <= 1 and 0 not in new:
                sizes = np.array([-1 if d is None else d for d in new], np.int64)
                return self.home.emit("Reshape", [self.named(), sizes], wanted)
        return self.home.emit("Transpose", [self.named()], wanted, perm=perm)

    def transposed(self, perm):
        """The value with its axes permuted as tf.transpose does; nothing is written yet."""
        shape = None if self.shape is None else tuple(self.shape[axis] for axis in perm)
        if self.array is not None:
            return Value(array=self.array.transpose(perm), home=self.home, wanted=self.wanted)
        where = {axis: new for new, axis in enumerate(perm)}
        have = self.order or tuple(range(len(perm)))
        return Value(self.named(), [where[axis] for axis in have], shape, self.dtype, self.home)
