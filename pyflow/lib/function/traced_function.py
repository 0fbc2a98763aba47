"""`tf.function`: a Python function that is traced once for each kind of arguments.

    @tf.function
    def step(x, state):
        return {"y": x * weights, "state": state + 1}

    step(a, s)["y"]             # the result of a PartitionedCall (StatefulPartitionedCall) node

Invariants
  1. A trace is kept for each graph, structure of arguments, element type and shape of each tensor,
     and value of everything else; with input_signature there is one.  Arrays are tensors; numbers,
     strings and other objects are part of the trace.
  2. Tensors and variables of the graphs around become arguments of the call.
  3. What has an effect happens once, in the order of the program: what touches the same variable,
     and what has other effects, is ordered by control dependencies.  Inside tf.cond and
     tf.while_loop only data and control dependencies order, as everywhere in TF 1.x.

Python's own `if` and `while` over tensors are not converted; use tf.cond and tf.while_loop.
Thread: the one building the graph.  Source: TF 2's tf.function in a graph of TF 1.x.
"""
import functools
import inspect
import weakref

import numpy as np

from pyflow.framework import dtypes, function_export, graph as ops, nest
from pyflow.framework.function_library import Body, effects_of, has_effect
from pyflow.framework.op_attrs import FunctionName
from pyflow.framework.tensor_shape import TensorShape, as_shape
from pyflow.lib.function import func_graph
from pyflow.ops.control import functional_ops


class TensorSpec:
    """Element type and shape of a tensor (TF: tf.TensorSpec)."""

    def __init__(self, shape, dtype=dtypes.float32, name=None):
        self._shape, self._dtype, self._name = as_shape(shape), dtypes.as_dtype(dtype), name

    @property
    def shape(self):
        """The TensorShape."""
        return self._shape

    @property
    def dtype(self):
        """The DType."""
        return self._dtype

    @property
    def name(self):
        """The name of the placeholder in a trace, or None."""
        return self._name

    @classmethod
    def from_spec(cls, spec, name=None):
        """A spec of the same type and shape."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    @classmethod
    def from_tensor(cls, tensor, name=None):
        """The spec of a tensor."""
        return cls(tensor.shape, tensor.dtype.base_dtype, name or tensor.op.name)

    def is_compatible_with(self, tensor):
        """True if the tensor has the type, and a shape that may be this one."""
        return self._dtype == tensor.dtype.base_dtype and self._shape.is_compatible_with(
            tensor.shape)

    def _key(self):
        return self._dtype, self._shape.as_tuple()

    def __eq__(self, other):
        return isinstance(other, TensorSpec) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def __repr__(self):
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"


def function(func=None, input_signature=None, autograph=False, experimental_relax_shapes=False,
             name=None, noinline=None):
    """Decorator: calls of `func` become calls of a function of the graph. TF: tf.function.

    input_signature: TensorSpecs of the arguments: one trace for all calls that fit.
    experimental_relax_shapes: shapes of arguments are not part of the trace.  autograph: TF's
    conversion of Python control flow, which pyflow does not have; kept for programs that pass it.
    noinline: calls are run as calls.  Tensors of any dtype and shape; the result has the structure
    of what `func` returns. Raises ValueError and TypeError for arguments that do not fit the
    signature."""
    def decorate(inner):
        return functools.update_wrapper(
            Function(inner, name or getattr(inner, "__name__", "function"), input_signature,
                     experimental_relax_shapes, noinline), inner)
    return decorate if func is None else decorate(func)


class Function:
    """What `function` makes of a Python function."""

    def __init__(self, func, name, input_signature, relax_shapes, noinline):
        self._func, self._name, self._noinline = func, name, noinline
        self._relax_shapes = relax_shapes
        self._specs_nest = None if input_signature is None else list(input_signature)
        self._specs = None if input_signature is None else nest.flatten(self._specs_nest)
        self._signature = inspect.signature(func)
        self._bound = weakref.WeakKeyDictionary()   # instance -> Function of its method
        self._tracing = set()

    @property
    def python_function(self):
        """The function that was decorated."""
        return self._func

    @property
    def input_signature(self):
        """The TensorSpecs given, or None."""
        return self._specs and tuple(self._specs)

    def __get__(self, instance, owner):
        if instance is None:
            return self
        found = self._bound.get(instance)
        if found is None:
            method = self._func.__get__(weakref.proxy(instance), owner)
            found = self._bound[instance] = Function(method, self._name, self._specs_nest,
                                                     self._relax_shapes, self._noinline)
        return found

    def __call__(self, *args, **kwargs):
        structure, leaves = self._arguments(args, kwargs)
        leaves = self._as_tensors(leaves)
        return self._trace_for(structure, leaves).call_flat(
            [leaf for leaf in leaves if isinstance(leaf, ops.Tensor)])

    def get_concrete_function(self, *args, **kwargs):
        """The trace for these arguments: tensors, or TensorSpecs in their place."""
        if not args and not kwargs and self._specs is not None:
            args = self._specs
        structure, leaves = self._arguments(args, kwargs)
        return self._trace_for(structure, leaves)

    # Arguments

    def _arguments(self, args, kwargs):
        """((positional, by name), their leaves), defaults filled in."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if self._specs is not None:
            if bound.kwargs or len(bound.args) != len(self._specs_nest):
                raise ValueError(f"function {self._name!r} takes {len(self._specs_nest)} arguments "
                                 f"by its input_signature, got {len(bound.args)}"
                                 f"{f' and {list(bound.kwargs)}' if bound.kwargs else ''}")
            return (self._specs_nest, {}), nest.flatten_up_to(self._specs_nest, list(bound.args))
        structure = list(bound.args), dict(bound.kwargs)
        return structure, nest.flatten(structure)

    def _as_tensors(self, leaves):
        if self._specs is None:
            return [ops.convert_to_tensor(x) if isinstance(x, (np.ndarray, np.generic)) else x
                    for x in leaves]
        found = [ops.convert_to_tensor(x, dtype=None if isinstance(x, ops.Tensor) else s.dtype)
                 for x, s in zip(leaves, self._specs)]
        for x, spec in zip(found, self._specs):
            if not spec.is_compatible_with(x):
                raise ValueError(f"Python inputs incompatible with input_signature of function "
                                 f"{self._name!r}: {x} for {spec}")
        return found

    def _spec_of(self, leaf, number):
        """The TensorSpec of a leaf; None: not a tensor."""
        if isinstance(leaf, (ops.Tensor, TensorSpec)):
            if self._specs is not None:
                return self._specs[number]
            shape = TensorShape(None) if self._relax_shapes and not isinstance(
                leaf, TensorSpec) else leaf.shape
            return TensorSpec(shape, leaf.dtype.base_dtype)
        return None

    def _trace_for(self, structure, leaves):
        graph = ops.get_default_graph()
        specs = [self._spec_of(leaf, i) for i, leaf in enumerate(leaves)]
        key = _shape_of(structure), tuple(
            spec if spec is not None else _Static(leaf) for spec, leaf in zip(specs, leaves))
        traces = graph.traces.setdefault(self, {})      # they hold the graph: a Function must not
        found = traces.get(key)
        if found is None:
            if key in self._tracing:
                raise ValueError(f"function {self._name!r} calls itself with arguments it is being "
                                 f"traced for. For recursion use Defun and Declare "
                                 f"(pyflow.python.framework.function)")
            self._tracing.add(key)
            try:
                found = traces[key] = ConcreteFunction(self._func, self._name, structure, leaves,
                                                       specs, self._noinline)
            finally:
                self._tracing.discard(key)
        return found


class _Static:
    """A leaf that is no tensor, as part of a key: by value where it has one, else by identity."""

    def __init__(self, value):
        self.value = value
        plain = isinstance(value, (bool, int, float, complex, str, bytes, type(None), dtypes.DType,
                                   TensorShape))
        self.key = (type(value), value) if plain else (type(value), id(value))

    def __eq__(self, other):
        return isinstance(other, _Static) and self.key == other.key

    def __hash__(self):
        return hash(self.key)


def _shape_of(structure):
    """A structure with its leaves left out, as text."""
    return repr(nest.map_structure(lambda leaf: 0, structure))


class ConcreteFunction:
    """One trace.  graph; inputs, outputs: its tensors; structured_outputs; name."""

    def __init__(self, func, label, structure, leaves, specs, noinline):
        tensors = [i for i, spec in enumerate(specs) if spec is not None]
        returned = []

        def flat(*placeholders):
            values = list(leaves)
            for i, x in zip(tensors, placeholders):
                values[i] = x
            args, kwargs = nest.pack_sequence_as(structure, values)
            result = func(*args, **kwargs)
            returned.append(result)
            return [ops.convert_to_tensor(x) for x in _tensors_in(result)]

        likes = [leaves[i] if isinstance(leaves[i], ops.Tensor) else None for i in tensors]
        names = [specs[i].name or f"args_{i}" for i in tensors]
        self.graph = func_graph.trace(flat, [specs[i].dtype for i in tensors], names,
                                      [specs[i].shape for i in tensors], label, likes,
                                      read_variables=False)
        self.structured_outputs = returned[0]
        order_effects(self.graph)
        library, count = self.graph._library, 0
        while f"__inference_{label}_{count}" in library:
            count += 1
        self.name = f"__inference_{label}_{count}"
        effects = effects_of(self.graph, self.graph.inputs)
        attrs = {"_noinline": True} if noinline else {}
        self.definition, names = function_export.definition(
            self.name, self.graph.inputs, self.graph.outputs, effects, attrs=attrs)
        self._noinline, self._stateful = noinline, self.definition.signature.is_stateful
        library.add(self.definition, Body(self.name, self.graph, self.graph.inputs,
                                          self.graph.outputs, effects, names, bool(noinline)), self)

    python_grad_func = None

    @property
    def inputs(self):
        return self.graph.inputs

    @property
    def outputs(self):
        return self.graph.outputs

    @property
    def captured_inputs(self):
        """The tensors outside that each call passes on."""
        return self.graph.extra_inputs

    def __call__(self, *args):
        return self.call_flat([ops.convert_to_tensor(x) for x in nest.flatten(list(args))])

    def call_flat(self, tensors):
        """Adds a call; the results in the structure of what the Python function returned."""
        graph = self.graph
        count = len(graph.inputs) - len(graph.extra_inputs)
        if len(tensors) != count:
            raise ValueError(f"function {self.name!r} takes {count} tensors, got {len(tensors)}")
        block = functional_ops.StatefulPartitionedCall if self._stateful else \
            functional_ops.PartitionedCall
        types = [t.dtype.base_dtype for t in graph.outputs]
        with ops.control_dependencies(graph.control_captures):
            outputs = block([*tensors, *graph.extra_inputs],
                            Tin=[t.dtype.base_dtype for t in graph.inputs], Tout=types,
                            f=FunctionName(self.name))
        node = outputs if isinstance(outputs, ops.Operation) else None
        if node is None and outputs:
            node = outputs[0].op
        shapes = func_graph.output_shapes(graph, graph.inputs, graph.outputs, tensors)
        for mine, shape in zip(outputs if types else (), shapes):
            mine.set_shape(shape)
        if self._noinline and node is not None:
            node._set_attr("_noinline", True)
        if isinstance(self.structured_outputs, ops.Operation) or not types:
            return node
        return _packed(self.structured_outputs, iter(outputs))


def _tensors_in(result):
    if isinstance(result, ops.Operation):
        return []
    return [x for x in nest.flatten(result) if x is not None]


def _packed(structure, outputs):
    return nest.map_structure(lambda x: None if x is None else next(outputs), structure)


# ------------------------------------------------------------------------- the order of the program

_READS = frozenset(("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarIsInitializedOp",
                    "VariableShape"))


def order_effects(graph):
    """Control dependencies that keep what has effects in the order it was made: writers and readers
    of one handle, and all other effects among each other."""
    writers, readers, last = {}, {}, None
    for op in graph.get_operations():
        if op._get_control_flow_context() is not None or not op.op_def.stateful:
            continue
        handles = [t for t in op.inputs if t.dtype.base_dtype == dtypes.resource]
        if op.type in _READS:
            for handle in handles:
                _wait(op, [writers.get(handle)])
                readers.setdefault(handle, []).append(op)
        elif has_effect(op):
            for handle in handles:
                _wait(op, [writers.get(handle), *readers.pop(handle, ())])
                writers[handle] = op
            if not handles:
                _wait(op, [last])
                last = op


def _wait(op, others):
    inputs = {t.op for t in op.inputs}
    found = [o for o in others if o is not None and o is not op and o not in inputs]
    if found:
        op._add_control_inputs(found)


PUBLIC = {"function": function, "TensorSpec": TensorSpec}
