"""Defun and Declare: functions of the graph's library, made of Python functions.

    @Defun(tf.float32, tf.float32)
    def mean(x, y):
        return (x + y) / 2.0

    m = mean(a, b)                          # a node whose op is "mean_1f2e3d4c"

Invariants
  1. The body is traced at the first call; every call is one node.  It belongs to the graph in which
     it was traced, others get copies; once that graph is gone the next one traces anew.
  2. Without func_name the name is the Python function's and a digest of the body, so that equal
     functions are one.
  3. A Declare'd function is defined later, under the same name: this is how functions call
     themselves and each other.

Thread: the one building the graph.  Source: TF 1.x tensorflow/python/framework/function.py.
"""
import hashlib
import inspect
import weakref

from pyflow.framework import dtypes, errors, function_export, graph as ops
from pyflow.framework.function_library import Body, effects_of, op_def_of
from pyflow.framework.function_name import node_name
from pyflow.framework.op import find_op
from pyflow.lib.function import func_graph

_SHORT = {
    dtypes.float16: "f16", dtypes.float32: "f32", dtypes.float64: "f64", dtypes.int32: "i32",
    dtypes.uint8: "i8", dtypes.uint16: "u16", dtypes.uint32: "u32", dtypes.uint64: "u64",
    dtypes.int16: "i16", dtypes.int8: "i8", dtypes.string: "s", dtypes.complex64: "c64",
    dtypes.complex128: "c128", dtypes.int64: "i64", dtypes.bool: "b", dtypes.qint8: "qi8",
    dtypes.quint8: "qu8", dtypes.qint16: "qi16", dtypes.quint16: "qu16", dtypes.qint32: "qi32",
    dtypes.bfloat16: "b16"}


class Defun:
    """Decorator: makes a Python function a function of the graph (TF 1.x `function.Defun`).

    input_types: the arguments' element types; without any, each call's types make a function of
    their own.  Keyword arguments: func_name; grad_func, a Defun function (x..., dy...) -> dx...;
    python_grad_func(op, *dys), which adds nodes; out_names, of the results; shape_func(op), their
    shapes; capture_by_value, allowlisted_stateful_ops (or whitelisted_stateful_ops),
    capture_resource_var_by_value; noinline and `experimental_...`, kept as attributes."""

    def __init__(self, *input_types, **kwargs):
        self._input_types = [dtypes.as_dtype(t) for t in input_types]
        self._func_name = kwargs.pop("func_name", None)
        self._options = kwargs

    def __call__(self, func):
        if not callable(func):
            raise ValueError(f"Function {func} must be a callable.")
        spec = inspect.getfullargspec(func)
        if spec.varkw or spec.defaults or spec.kwonlyargs:
            raise ValueError("Functions with argument defaults or keywords arguments are not "
                             f"supported. {func} has defaults {spec.defaults} and keywords "
                             f"{spec.varkw}.")
        names = spec.args[1:] if inspect.ismethod(func) else spec.args
        least, most = len(names), 1000000 if spec.varargs else len(names)
        if not self._input_types:
            if most == 0:
                return DefinedFunction(func, [], [], self._func_name, **self._options)
            return OverloadedFunction(func, names, self._func_name, **self._options)
        if not least <= len(self._input_types) <= most:
            raise ValueError(
                "The number of tf.function input types is not compatible with the allowed "
                f"arguments of {func}. The tf.function have {len(self._input_types)} input types, "
                f"while the python function allows minimum {least} and maximum {most} arguments.")
        return DefinedFunction(func, names, self._input_types, self._func_name, **self._options)


class DefinedFunction:
    """What Defun makes of a Python function and argument types."""

    def __init__(self, func, names, input_types, func_name=None, grad_func=None,
                 python_grad_func=None, out_names=None, shape_func=None, capture_by_value=False,
                 allowlisted_stateful_ops=None, whitelisted_stateful_ops=None,
                 capture_resource_var_by_value=True, **attributes):
        if grad_func is not None and python_grad_func is not None:
            raise ValueError("Defun takes a grad_func or a python_grad_func, not both")
        self._func, self._input_types, self._func_name = func, list(input_types), func_name
        self._names = [names[i] if i < len(names) else f"arg{i}" for i in range(len(input_types))]
        self._grad_func, self.python_grad_func = grad_func, python_grad_func
        self._out_names, self._shape_func = out_names, shape_func
        self._options = {
            "capture_by_value": capture_by_value, "seeded": False,
            "read_variables": capture_resource_var_by_value,
            "allowed_stateful": allowlisted_stateful_ops or whitelisted_stateful_ops or (),
            "devices": ops.get_default_graph()._scopes.devices[-1:]}    # the innermost, as in TF
        self._attributes = attributes
        self._definition = self._library = None     # _library: a weak reference
        self._tracing = False

    # What it is

    @property
    def name(self):
        """The function's name; traces it if need be."""
        return self.definition.signature.name

    @property
    def definition(self):
        """The FunctionDef."""
        if self._definition is None:
            self._traced()
        return self._definition

    cached_definition = definition

    @property
    def declared_input_types(self):
        """Element types of the arguments."""
        return self._input_types

    @property
    def captured_inputs(self):
        """The tensors outside that each call passes on."""
        return self._traced()[1].graph.extra_inputs

    @property
    def stateful_ops(self):
        """[(name, type)] of the body's stateful ops."""
        return [(op.name, op.type) for op in self._traced()[1].graph.get_operations()
                if op.op_def.stateful]

    @property
    def grad_func_name(self):
        """The name of the gradient function, or None."""
        return self._grad_func.name if self._grad_func else None

    def set_grad_func(self, grad_func):
        """Says which Defun function is the gradient."""
        if self._grad_func is not None:
            raise ValueError(f"function {self.name!r} has the gradient function "
                             f"{self.grad_func_name!r} already")
        self._grad_func = grad_func

    # Making it

    def _traced(self):
        """(the library of the graph in which it was traced, the Body)."""
        library = None if self._library is None else self._library()
        if library is None:
            library = self._trace()
        return library, library.defuns[self]

    def _trace(self):
        if self._tracing:
            raise ValueError(
                f"function {self._func.__name__!r} calls itself while it is defined. Give it a "
                f"func_name, and call what Declare(func_name, inputs, outputs) makes instead")
        self._tracing = True
        try:
            graph = func_graph.trace(self._func, self._input_types, self._names,
                                     name=self._func_name, **self._options)
        finally:
            self._tracing = False
        if self._out_names and len(self._out_names) != len(graph.outputs):
            raise errors.InvalidArgumentError(None, None, (
                f"output names must be either empty or equal in size to outputs. out_names has "
                f"{len(self._out_names)} names for the {len(graph.outputs)} results of "
                f"{self._func.__name__!r}"))
        if self._func_name and find_op(self._func_name) is not None:
            raise ValueError(f"Cannot add function {self._func_name!r} because an op with the same "
                             f"name already exists.")
        base = self._func_name or self._func.__name__
        if not self._func_name and self._grad_func:
            base += f"_{self._grad_func.name}"
        effects = effects_of(graph, graph.inputs)
        definition, names = function_export.definition(
            base, graph.inputs, graph.outputs, effects, result_names=self._out_names,
            description=self._func.__doc__, attrs=_as_attributes(**self._attributes))
        if not self._func_name:
            base += "_" + hashlib.sha1(
                definition.SerializeToString(deterministic=True)).hexdigest()[:8]
            definition.signature.name = base
        body = Body(base, graph, graph.inputs, graph.outputs, effects, names,
                    bool(self._attributes.get("noinline")))
        library = graph._library
        library.add(definition, body, self)
        library.defuns[self] = body
        self._library, self._definition = weakref.ref(library), definition
        return library

    def add_to_graph(self, graph):
        """Adds the function, what it calls, and its gradient function to the library of `graph`."""
        library, _ = self._traced()
        if graph._library is not library:
            library.copy_to(graph._library, self.name)
        if self._grad_func:
            self._grad_func.add_to_graph(graph)
            graph._library.add_gradient(self.name, self._grad_func.name)

    def __call__(self, *args, **kwargs):
        graph = ops.get_default_graph()
        self.add_to_graph(graph)
        _, body = self._traced()
        args = [ops.convert_to_tensor(x) for x in args] + body.graph.extra_inputs
        op = _call(graph, graph._library.op_def(self.name), args, kwargs,
                   body.graph.control_captures)
        op._defun = self
        shapes = self._shape_func(op) if self._shape_func else [t.shape for t in body.results]
        if len(shapes) != len(op.outputs):
            raise ValueError(f"shape_func {self._shape_func} produced {len(shapes)} shapes, which "
                             f"does not match {len(op.outputs)} outputs.")
        for tensor, shape in zip(op.outputs, shapes):
            tensor.set_shape(shape)
        return _returned(op)


class OverloadedFunction:
    """What Defun makes of a Python function without argument types: a function for each types."""

    def __init__(self, func, names, func_name=None, grad_func=None, **options):
        if grad_func is not None and not isinstance(grad_func, OverloadedFunction):
            raise ValueError("the gradient function of a function without input types has none "
                             "either")
        self._func, self._names, self._func_name = func, names, func_name
        self._grad_func, self._options = grad_func, options
        self._overloads = {}

    def instantiate(self, input_types):
        """The DefinedFunction for these argument types."""
        types = [dtypes.as_dtype(t).base_dtype for t in input_types]
        unknown = [t.name for t in types if t not in _SHORT]
        if unknown:
            raise ValueError(f"Unsupported dtypes {unknown} in `types`.")
        key = "".join(_SHORT[t] for t in types)
        found = self._overloads.get(key)
        if found is None:
            name = None if self._func_name is None else f"{self._func_name}_{key}"
            found = DefinedFunction(self._func, self._names, types, name, **self._options)
            if self._grad_func is not None:
                results = [dtypes.as_dtype(r.type) for r in found.definition.signature.output_arg]
                found.set_grad_func(self._grad_func.instantiate(types + results))
            self._overloads[key] = found
        return found

    def __call__(self, *args, **kwargs):
        args = [ops.convert_to_tensor(x) for x in args]
        return self.instantiate([x.dtype for x in args])(*args, **kwargs)


class Declare:
    """A function by name and signature, to be defined later (TF 1.x `function.Declare`).

    inputs, outputs: [(name, element type)]."""

    def __init__(self, func_name, inputs, outputs):
        from pyflow.framework import protos
        self._signature = protos.OpDef(name=func_name)
        for args, kind in ((inputs, self._signature.input_arg),
                           (outputs, self._signature.output_arg)):
            names = [name for name, _ in args]
            if len(names) != len(set(names)):
                raise ValueError(f"Expected names to all be unique, got: {names}")
            for name, dtype in args:
                kind.add(name=name, type=dtypes.as_dtype(dtype).as_datatype_enum)
        self._op_def = op_def_of(self._signature)

    @property
    def name(self):
        return self._signature.name

    def __call__(self, *args, **kwargs):
        args = [ops.convert_to_tensor(x) for x in args]
        return _returned(_call(ops.get_default_graph(), self._op_def, args, kwargs))


def _call(graph, op_def, args, kwargs, waits=()):
    """Adds a node that calls a function; the Operation."""
    if len(args) != len(op_def.inputs):
        raise ValueError(f"Expected {len(op_def.inputs)} arguments, got {len(args)}.")
    name = kwargs.pop("name", None) or node_name(op_def.name)
    for tensor, arg in zip(args, op_def.inputs):
        if tensor.dtype.base_dtype is not arg.dtype:
            raise ValueError(f"Input {arg.name!r} passed {tensor.dtype.base_dtype.name} expected "
                             f"{arg.dtype.name} while calling the function {op_def.name!r}: "
                             f"{tensor.name} is no {arg.dtype.name}. Use tf.cast.")
    with graph.control_dependencies(waits):
        return graph.create_op(op_def.name, args, name=name, attrs=_as_attributes(**kwargs),
                               op_def=op_def)


def _returned(op):
    if not op.outputs:
        return op
    return op.outputs[0] if len(op.outputs) == 1 else tuple(op.outputs)


def _as_attributes(noinline=None, compiled=None, separate_compiled_gradients=None, **kwargs):
    """Keyword arguments of Defun and of calls, as attributes of the function or the node."""
    attrs = {"_disable_call_shape_inference": True}
    if noinline is not None:
        attrs["_noinline"] = bool(noinline)
    if compiled is not None:
        attrs["_XlaCompile"] = bool(compiled)
        attrs["_XlaSeparateCompiledGradients"] = bool(separate_compiled_gradients)
    unknown = [key for key in kwargs
               if not key.startswith("experimental_") and key not in ("_implements", "_reference")]
    if unknown:
        raise ValueError(f"Unknown keyword arguments: {unknown}.")
    for key, value in kwargs.items():
        if not isinstance(value, (bool, int, float, str)):
            raise ValueError(f"Attribute {key} must be bool, int, float, or str. Got "
                             f"{type(value)}.")
    return {**attrs, **kwargs}


def get_extra_vars():
    """The variables that the function being built has asked for; no function: none."""
    graph = func_graph.current()
    return graph.extra_vars if graph else []


def get_extra_inputs():
    """The tensors outside that the function being built uses."""
    graph = func_graph.current()
    return graph.extra_inputs if graph else []


def get_extra_args():
    """The placeholders for them."""
    graph = func_graph.current()
    return graph.extra_args if graph else []


PUBLIC = {}
