"""`Operation`: one node of a graph.

Invariants:
1. `graph`, `type`, `name`, `_id` and the outputs' types never change.
2. Inputs, control inputs and attributes change only through `_update_input`, `_add_control_input`,
   `_set_attr`; each of them counts in `graph.revision`, which is what sessions watch.
3. `attrs` holds native values (DType, TensorShape, str, int, float, bool, ndarray, lists of them);
   `get_attr` and `node_def` turn them into what TF returns.

Threads: like the graph's (see graph.py).
"""

from pyflow.framework import default_graph, errors, origin as _origin
from pyflow.framework.device import checked_name
from pyflow.framework.tensor import UNKNOWN_SHAPE, Tensor


class Operation:
    """A node: an op type, inputs, attributes and outputs (TF 1.x `tf.Operation`)."""

    __slots__ = ("graph", "type", "name", "_id", "_inputs", "_control_inputs", "_control_outputs",
                 "outputs", "attrs", "op_def", "_device", "origin", "_control_flow_context",
                 "_original_op", "__dict__", "__weakref__")

    def __init__(self, graph, op_type, name, inputs, control_inputs, output_types, attrs, op_def):
        self.graph = graph
        self.type = op_type
        self.name = name
        self._id = None
        self._inputs = inputs
        self._control_inputs = control_inputs
        self._control_outputs = None
        self.attrs = attrs
        self.op_def = op_def
        self._device = ""
        self.origin = _origin.here(3)
        self._control_flow_context = None
        self._original_op = None
        self.outputs = [Tensor(self, i, dtype, UNKNOWN_SHAPE)
                        for i, dtype in enumerate(output_types)]

    # What the node is

    @property
    def inputs(self):
        """The input tensors, a tuple."""
        return self._inputs

    @property
    def control_inputs(self):
        """The operations that must finish before this one."""
        return list(self._control_inputs)

    @property
    def _input_types(self):
        """The types that the op takes: references only where it writes to what it is given."""
        return [t.dtype if is_ref else t.dtype.base_dtype
                for t, is_ref in zip(self._inputs, self._takes_refs())]

    def _takes_refs(self):
        for arg in self.op_def.inputs:
            count = self.attrs.get(arg.number_attr, 1) if arg.number_attr else \
                len(self.attrs.get(arg.type_list_attr, ())) if arg.type_list_attr else 1
            yield from [arg.is_ref] * count

    @property
    def _output_types(self):
        return [t.dtype.as_datatype_enum for t in self.outputs]

    @property
    def control_outputs(self):
        """The operations that wait for this one through a control edge."""
        return list(self._control_outputs or ())

    @property
    def device(self):
        """The requested device, possibly partial or ''."""
        return self._device

    @property
    def _const_value(self):
        """The ndarray of a Const node (not a copy), None for every other node."""
        return self.attrs.get("value") if self.type == "Const" else None

    def attr(self, name):
        """An attribute as a native value: str, DType, TensorShape, ndarray, ...; ValueError if
        absent."""
        try:
            return self.attrs[name]
        except KeyError:
            raise ValueError(f"Operation {self.name!r} ({self.type}) has no attr named {name!r}; "
                             f"it has {sorted(self.attrs)}") from None

    def get_attr(self, name):
        """An attribute as TF 1.x returns it: bytes for strings, protos for shapes and tensors."""
        from pyflow.framework import wire
        return wire.to_tf_value(self.attr(name))

    @property
    def node_def(self):
        """A NodeDef of this operation (a fresh message)."""
        from pyflow.framework import protos, wire
        return protos.NodeDef.FromString(wire.encode_node(self))

    def colocation_groups(self):
        """The groups (bytes, b"loc:@name") this operation must share a device with."""
        groups = [g.encode() for g in self.attrs.get("_class", ()) if g.startswith("loc:@")]
        return groups or [b"loc:@" + self.name.encode()]

    # Where it was made

    @property
    def traceback(self):
        """The stack that made the node, as `traceback.FrameSummary`, outermost first."""
        return _origin.summaries(self.origin)

    @property
    def traceback_with_start_lines(self):
        """`traceback` as tuples (file, line, function, text, first line of the function)."""
        return [(*tuple(summary), first) for summary, first in zip(
            self.traceback, (code.co_firstlineno for code in self.origin[-2::-2]))]

    @property
    def user_frame(self):
        """The innermost Frame outside pyflow: the user's line."""
        return _origin.user_frame(self.origin)

    def creation_trace(self):
        """The innermost recorded frames as text, as Python prints a stack."""
        return _origin.format_trace(self.origin)

    def describe(self):
        """One line for errors: op, name, the user's line, input types and shapes."""
        inputs = ", ".join(f"{t.name} {t.dtype.name} {t.shape}" for t in self._inputs)
        return f"{self.type} node {self.name!r} ({self.user_frame}; inputs: {inputs or 'none'})"

    # Running

    def run(self, feed_dict=None, session=None):
        """Runs the operation in `session` or the default session; returns None."""
        default_graph.session_for("execute operation", self.graph, session).run(self, feed_dict)

    # Changing (used by control flow, import and rewrites)

    def _set_attr(self, name, value):
        from pyflow.framework import wire
        self.graph._check_not_finalized()
        self.attrs[name] = wire.from_attr_value(value)
        self.graph.revision += 1

    def _clear_attr(self, name):
        self.graph._check_not_finalized()
        self.attrs.pop(name, None)
        self.graph.revision += 1

    def _set_device(self, device):
        self._device = checked_name(device)
        self.graph.revision += 1

    def _connect(self):
        """Enters this operation among its inputs' consumers."""
        for tensor in self._inputs:
            if tensor._consumers is None:
                tensor._consumers = [self]
            else:
                tensor._consumers.append(self)
        for op in self._control_inputs:
            self._record_control_edge(op)

    def _record_control_edge(self, op):
        if op._control_outputs is None:
            op._control_outputs = [self]
        else:
            op._control_outputs.append(self)

    def values(self):
        """The outputs; TensorFlow's older name of `outputs`, as a tuple."""
        return tuple(self.outputs)

    def _update_input(self, index, tensor):
        """Replaces input `index` by `tensor`, which must have a compatible type and the same
        graph."""
        self._check_new_input(tensor)
        if not 0 <= index < len(self._inputs):
            raise errors.OutOfRangeError(self.node_def, self, (
                f"Cannot update edge. Input index [{index}] is greater than the number of total "
                f"inputs [{len(self._inputs)}] of {self.name!r}."))
        old = self._inputs[index]
        if not old.dtype.base_dtype.is_compatible_with(tensor.dtype.base_dtype):
            raise TypeError(f"Cannot update edge, incompatible types: input {index} of "
                            f"{self.name!r} is {old.dtype.name}, {tensor.name!r} is "
                            f"{tensor.dtype.name}")
        old._consumers.remove(self)
        inputs = list(self._inputs)
        inputs[index] = tensor
        self._inputs = tuple(inputs)
        if tensor._consumers is None:
            tensor._consumers = []
        tensor._consumers.append(self)
        self.graph.revision += 1

    def _become(self, op_def, inputs, attrs):
        """Makes this operation, under its name and with its outputs, one of another op that gives
        outputs of the same types."""
        for tensor in inputs:
            self._check_new_input(tensor)
        for tensor in self._inputs:
            tensor._consumers.remove(self)
        for op in self._control_inputs:
            op._control_outputs.remove(self)
        self.type, self.op_def = op_def.name, op_def
        self._inputs, self.attrs = tuple(inputs), attrs
        self._connect()
        self.graph.revision += 1

    def _check_new_input(self, tensor):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"tensor must be a Tensor: {tensor!r}")
        self.graph._check_owns(tensor)
        self.graph._check_not_finalized()

    def _add_control_input(self, op):
        self._add_control_inputs([op])

    def _add_control_inputs(self, ops):
        """Adds control edges from `ops`; edges that exist are not doubled."""
        self.graph._check_not_finalized()
        for op in ops:
            if not isinstance(op, Operation):
                raise TypeError(f"op must be an Operation: {op!r}")
            self.graph._check_owns(op)
            if op not in self._control_inputs:
                self._control_inputs.append(op)
                self._record_control_edge(op)
        self.graph.revision += 1

    def _remove_all_control_inputs(self):
        self.graph._check_not_finalized()
        for op in self._control_inputs:
            op._control_outputs.remove(self)
        self._control_inputs = []
        self.graph.revision += 1

    def _get_control_flow_context(self):
        return self._control_flow_context

    def _set_control_flow_context(self, context):
        self._control_flow_context = context

    def __deepcopy__(self, memo):
        raise TypeError(f"Operation {self.name!r} belongs to its graph and cannot be copied")

    def __reduce__(self):
        raise TypeError(f"Operation {self.name!r} cannot be pickled; send its name and the "
                        f"GraphDef")

    def __repr__(self):
        return f"<tf.Operation {self.name!r} type={self.type}>"

    def __str__(self):
        return str(self.node_def)
