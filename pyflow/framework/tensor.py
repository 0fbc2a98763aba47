"""`Tensor`: one output of an operation, as a symbol; it holds no values.

Invariants:
1. `op`, `value_index` and `dtype` never change; `shape` only gets more specific (`set_shape`).
2. `_consumers` lists the operations that read the tensor, in the order they were connected;
   only `Operation` writes it.
3. Operators (`+`, `[]`, ...) come from a table that the ops layer installs with
   `install_operators`; without it they raise TypeError as for any object.

Threads: like the graph's (see graph.py).
"""

from pyflow.framework import default_graph
from pyflow.framework.object_reference import Reference
from pyflow.framework.tensor_shape import TensorShape, as_shape


class Tensor:
    """A value that some operation will produce when the graph runs (TF 1.x `tf.Tensor`)."""

    __slots__ = ("op", "value_index", "dtype", "_shape", "_consumers", "_name", "_handle_data",
                 "__dict__", "__weakref__")

    __array_priority__ = 100  # NumPy arrays on the left defer to our operators
    OVERLOADABLE_OPERATORS = set()

    def __init__(self, op, value_index, dtype, shape):
        self.op = op
        self.value_index = value_index
        self.dtype = dtype
        self._shape = shape
        self._consumers = None
        self._name = None
        self._handle_data = None

    @property
    def name(self):
        """`<operation name>:<output index>`."""
        name = self._name
        if name is None:
            name = self._name = f"{self.op.name}:{self.value_index}"
        return name

    @property
    def graph(self):
        """The graph that holds the tensor."""
        return self.op.graph

    @property
    def device(self):
        """The device requested for the operation, possibly partial or ''."""
        return self.op.device

    @property
    def shape(self):
        """The static shape, as far as it is known."""
        return self._shape

    def get_shape(self):
        """Same as `shape`."""
        return self._shape

    def set_shape(self, shape):
        """Adds what the caller knows about the shape; ValueError if it contradicts."""
        shape = as_shape(shape)
        try:
            self._shape = self._shape.merge_with(shape)
        except ValueError:
            raise ValueError(f"set_shape: tensor {self.name!r} has shape {self._shape}, which "
                             f"cannot be {shape} (made at {self.op.user_frame})") from None

    def _shape_as_list(self):
        dims = self._shape.as_tuple()
        return None if dims is None else list(dims)

    def consumers(self):
        """The operations that read this tensor; one that reads it twice stands twice."""
        return list(self._consumers or ())

    def experimental_ref(self):
        """A hashable reference to this tensor, for sets and dictionaries; `.deref()` gives it."""
        return Reference(self)

    def eval(self, feed_dict=None, session=None):
        """The value, from `session` or the default session."""
        return default_graph.session_for("eval tensor", self.graph, session).run(self, feed_dict)

    def _as_node_def_input(self):
        return self.op.name if self.value_index == 0 else f"{self.op.name}:{self.value_index}"

    def __len__(self):
        raise TypeError(f"len is not well defined for symbolic Tensors. ({self.name}) "
                        f"Please call `x.shape` rather than `len(x)` for shape information.")

    def __getattr__(self, name):
        hint = ""
        if name == "numpy":
            hint = (": it has no value until the graph runs. session.run(x) gives its value as an "
                    "array, x.eval() does in a session's `with` block")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}",
                             name=name)

    def __iter__(self):
        raise TypeError(f"Iterating over a symbolic Tensor ({self.name}) is not allowed: its "
                        f"elements are there when the graph runs. Use tf.unstack(x, num=n) for a "
                        f"list of tensors, tf.map_fn or tf.while_loop for a loop in the graph.")

    def __bool__(self):
        raise TypeError("Using a `tf.Tensor` as a Python `bool` is not allowed. Use `if t is not "
                        "None:` instead of `if t:` to test if a tensor is defined, and use "
                        "TensorFlow ops such as tf.cond to execute subgraphs conditioned on the "
                        "value of a tensor.")

    def __array__(self, dtype=None, copy=None):
        raise NotImplementedError(
            f"Cannot convert a symbolic Tensor ({self.name}) to a numpy array: it has no value "
            f"until the graph runs. Use session.run, or the matching tf function instead of "
            f"NumPy's.")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        raise TypeError(f"Tensor {self.name!r} belongs to its graph and cannot be copied; "
                        f"use tf.identity for another tensor with the same value")

    def __reduce__(self):
        raise TypeError(f"Tensor {self.name!r} cannot be pickled; send its name and the GraphDef")

    def _repr_html_(self):
        from pyflow.framework import notebook
        return notebook.tensor_html(self)

    def __repr__(self):
        return f"<tf.Tensor {self.name!r} shape={self._shape} dtype={self.dtype.name}>"

    def __str__(self):
        shape = f", shape={self._shape}" if self._shape.as_tuple() is not None else ""
        device = f", device={self.device}" if self.device else ""
        return f'Tensor("{self.name}"{shape}, dtype={self.dtype.name}{device})'


_OPERATORS = frozenset((
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__",
    "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__pow__", "__rpow__",
    "__matmul__", "__rmatmul__", "__lt__", "__le__", "__gt__", "__ge__", "__and__", "__rand__",
    "__or__", "__ror__", "__xor__", "__rxor__", "__getitem__", "__invert__", "__neg__", "__abs__",
    "__div__", "__rdiv__"))


def install_operators(table):
    """Gives Tensor the operators of `table`: {"__add__": function(x, y), ...}.

    Called once by pyflow.lib. Names outside TF's list of overloadable operators are a ValueError.
    """
    unknown = set(table) - _OPERATORS
    if unknown:
        raise ValueError(f"install_operators: {sorted(unknown)} cannot be overloaded on Tensor; "
                         f"possible are {sorted(_OPERATORS)}")
    for name, function in table.items():
        setattr(Tensor, name, function)
    Tensor.OVERLOADABLE_OPERATORS = frozenset(Tensor.OVERLOADABLE_OPERATORS) | set(table)


UNKNOWN_SHAPE = TensorShape(None)
