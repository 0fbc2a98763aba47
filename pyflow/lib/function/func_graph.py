"""FuncGraph: the graph in which a function's body is built, and `trace`, which builds it.

Invariants
  1. A tensor of a graph around it becomes an argument when an op of the body uses it (a capture);
     each call passes the tensor on.  With capture_by_value what computes it is copied instead.
  2. Variables are made in the outermost graph, whatever function asks for them.
  3. The library is that of the graph around.

Thread: the one building the graph.  Source: TF 1.x `_FuncGraph`.

    graph = trace(lambda x: x * outside, [tf.float32])
    graph.inputs, graph.outputs, graph.extra_inputs     # [x, a placeholder], [product], [outside]
"""
import contextlib

from pyflow.framework import dtypes, graph as ops
from pyflow.framework.function_library import PLAIN_CALLS
from pyflow.framework.graph import Graph, GraphKeys
from pyflow.framework.tensor_shape import unknown_shape
from pyflow.lib.array import identity_functions
from pyflow.lib.control_flow.control_flow_context import while_context_of
from pyflow.lib.variables import variable_scope as vs
from pyflow.ops.state import resource_handles

_SHARED = (*GraphKeys._VARIABLE_COLLECTIONS, GraphKeys.REGULARIZATION_LOSSES, vs._STORE_KEY)


_CHECKS = frozenset(("Assert", "Print", "PrintV2"))     # stateful, and copied like what is pure


class FuncGraph(Graph):
    """The body of a function.  inputs, outputs: its tensors; extra_inputs: the tensors outside that
    calls pass after the arguments; extra_args: the placeholders for them; extra_vars: variables
    that the body asked for; control_captures: operations outside that calls wait for."""

    building_function = True

    def __init__(self, name, capture_by_value=False, allowed_stateful=(), read_variables=True,
                 seeded=True, devices=None):
        self.outer_graph = ops.get_default_graph()
        Graph.__init__(self, strict=False)
        self.name = name
        self.inputs, self.outputs = [], []
        self.extra_inputs, self.extra_args, self.extra_vars = [], [], []
        self.control_captures = []
        self._captured, self._copies = {}, {}
        self._by_value, self._allowed_stateful = capture_by_value, set(allowed_stateful)
        self._read_variables = read_variables
        self._library = self.outer_graph._library
        # A Defun's random ops, as TensorFlow's, do not follow tf.set_random_seed, with which all
        # calls would draw the same numbers.
        self._seed = self.outer_graph._seed if seeded else None
        self._scope_outside = vs.get_variable_scope()
        # What a function does is placed where it is defined, whoever calls it.
        self._set_devices(self.outer_graph._scopes.devices if devices is None else devices)
        for key in _SHARED:
            self._collections[key] = self.outer_graph.get_collection_ref(key)

    # Captures

    @property
    def captures(self):
        """[(tensor outside, its stand-in here)]."""
        return list(self._captured.items())

    def _own(self, tensor):
        return tensor if tensor.op.graph is self else self.capture(tensor)

    def capture(self, tensor, name=None):
        """The tensor of this graph that stands for one of a graph around it."""
        found = self._captured.get(tensor)
        if found is not None:
            return found
        if not any(tensor.op.graph is graph for graph in self._around()):
            self._check_owns(tensor)
        if self._by_value:
            return self._copied(tensor.op).outputs[tensor.value_index]
        with ops.control_dependencies(None), self.device(None):
            inside = placeholder_like(tensor, name)
        self.extra_inputs.append(tensor)
        self.extra_args.append(inside)
        self.inputs.append(inside)
        self._captured[tensor] = inside
        return inside

    def captured(self, tensor):
        """The tensor of this graph that stands for one outside; None if nothing here uses it."""
        return self._captured.get(tensor)

    def _around(self):
        graph = self
        while graph.building_function:
            graph = graph.outer_graph
            yield graph

    def _copied(self, op):
        """A copy of an operation outside, and of what it needs."""
        if op in self._copies:
            return self._copies[op]
        if op.op_def.stateful and op not in self._allowed_stateful and op.type not in _CHECKS:
            raise ValueError(f"Cannot capture a stateful node (name:{op.name}, type:{op.type}) by "
                             f"value.")
        if op.type in ("Placeholder", "PlaceholderV2"):
            raise ValueError(f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by "
                             f"value.")
        inputs = [self._captured[t] if t in self._captured
                  else self._copied(t.op).outputs[t.value_index] for t in op.inputs]
        waits = [copy for copy in map(self._copied_check, op.control_inputs) if copy is not None]
        with ops.control_dependencies(None), ops.control_dependencies(waits), ops.name_scope(None):
            made = self.create_op(op.type, inputs, name=op.name, attrs=dict(op.attrs),
                                  op_def=op.op_def)
        self._captured.update(zip(op.outputs, made.outputs))
        self._copies[op] = made
        return made

    def _copied_check(self, op):
        """A copy of an operation that one outside waits for; None for what cannot be copied, such
        as a change of a variable: it is not waited for, as in TF."""
        try:
            return self._copied(op)
        except ValueError:
            return None

    # Scopes of the graphs around

    def control_dependencies(self, control_inputs):
        """As Graph's; what stands outside is waited for by each call."""
        if control_inputs is None:
            return Graph.control_dependencies(self, None)
        inside = []
        for value in control_inputs:
            op = getattr(value, "op", value)
            if isinstance(op, ops.Operation) and op.graph is not self:
                if op not in self.control_captures:
                    self.control_captures.append(op)
            else:
                inside.append(value)
        return Graph.control_dependencies(self, inside)

    def colocate_with(self, op, ignore_existing=False):
        other = getattr(op, "op", op)
        if isinstance(other, ops.Operation) and other.graph is not self:
            return contextlib.nullcontext()         # a call runs where its node is
        return Graph.colocate_with(self, op, ignore_existing)

    # Variables

    def variable(self, getter, name, **arguments):
        """The custom getter of the body's variable scope: asks the scope the function is made in,
        in the graph around.  Resource variables are read there, so that the function is pure."""
        for key in ("custom_getter", "partitioner"):
            arguments.pop(key, None)
        with self.outer_graph.as_default():
            found = self._scope_outside.get_variable(vs.store(), name, **arguments)
            self.extra_vars.append(found)
            if self._read_variables and hasattr(found, "handle"):
                return found.value()
            return found


def placeholder_like(tensor, name=None, shape=None):
    """A placeholder of a tensor's type and shape; for a variable's handle, of what is known of the
    variable."""
    found = identity_functions.placeholder(tensor.dtype.base_dtype,
                                     tensor.shape if shape is None else shape, name=name)
    if tensor.dtype.base_dtype == dtypes.resource:
        dtype = resource_handles.known_dtype(tensor)
        if dtype is not None:
            found.op._set_attr("_handle_dtypes", [dtype])
            found.op._set_attr("_handle_shapes", [resource_handles.handle_shape(tensor)])
    return found


def trace(func, types, names=(), shapes=(), name=None, likes=None, **options):
    """The FuncGraph of a Python function, built by calling it with placeholders.

    types: of the arguments; names, shapes: of them, as far as given; likes: tensors that the
    arguments are like; options: FuncGraph's.  ValueError if the function returns None for a
    tensor."""
    graph = FuncGraph(name or getattr(func, "__name__", "function"), **options)
    with graph.as_default():
        for i, dtype in enumerate(types):
            label = names[i] if i < len(names) else f"arg{i}"
            if likes and likes[i] is not None:
                shape = shapes[i] if i < len(shapes) else None
                graph.inputs.append(placeholder_like(likes[i], label, shape))
            else:
                shape = shapes[i] if i < len(shapes) else unknown_shape()
                graph.inputs.append(identity_functions.placeholder(dtype, shape, name=label))
        with vs.variable_scope("", custom_getter=graph.variable):
            returned = func(*graph.inputs)
        graph.outputs = [graph._own(ops.convert_to_tensor(t))
                         for t in _as_outputs(returned, graph.name)]
    return graph


def output_shapes(graph, inputs, outputs, given):
    """The shapes of a function's outputs in a call with arguments of the shapes of `given`.  Loops
    keep the shapes they were traced with, as in TF."""
    arguments = [(inside, t.shape) for inside, t in zip(inputs, given)
                 if inside.shape.as_tuple() != t.shape.as_tuple()]
    if not arguments:
        return [t.shape for t in outputs]
    known = {}                  # tensors whose shape this call knows better -> the traced shape
    try:
        for inside, shape in arguments:
            _refine(inside, shape, known)
        for op in graph.get_operations():
            if known and any(t in known for t in op.inputs) and while_context_of(op) is None:
                _infer_again(op, known)
        return [t.shape for t in outputs]
    finally:
        for tensor, shape in known.items():
            tensor._shape = shape


def _infer_again(op, known):
    traced = [t.shape for t in op.outputs]
    body = op.graph._library.traced_body(op.attrs["f"].name) if op.type in PLAIN_CALLS else None
    if body is not None:
        inferred = output_shapes(body.graph, body.args, body.results, op.inputs)
    else:
        try:
            op.op_def.infer_shapes(op)
            inferred = [t.shape for t in op.outputs]
        except ValueError:              # the call fails at run, and says why
            inferred = traced
    for tensor, before, now in zip(op.outputs, traced, inferred):
        tensor._shape = before
        _refine(tensor, now, known)


def _refine(tensor, shape, known):
    before = tensor.shape
    try:
        merged = before.merge_with(shape)
    except ValueError:
        return
    if merged.as_tuple() != before.as_tuple():
        known.setdefault(tensor, before)
        tensor._shape = merged


def _as_outputs(returned, name):
    if returned is None:
        return []
    if isinstance(returned, ops.Operation):
        return []
    if not isinstance(returned, (list, tuple)):
        returned = [returned]
    if any(value is None for value in returned):
        raise ValueError(f"Function {name} can not return None.")
    return returned


def current():
    """The FuncGraph being built on this thread, or None."""
    graph = ops.get_default_graph()
    return graph if isinstance(graph, FuncGraph) else None
