"""Calling an op: binds arguments, converts inputs, infers and checks attributes, adds the node.

The rules are those of TF 1.x's op library: inputs are converted in order; the first input that
mentions a type attribute decides it, later ones must match; Python constants become Const nodes
named `<node>/<argument>`.

Invariant: nothing is added to the graph unless every check passed (constants for Python values are
added while inputs are converted).
"""

import contextlib
import keyword

from pyflow.framework import dtypes, origin as _origin
from pyflow.framework.convert import graph_of, to_tensor
from pyflow.framework.op_attrs import check_allowed, normalize
from pyflow.framework.sparse_values import SparseTensor
from pyflow.framework.tensor import Tensor

_MAX_OUTPUTS = 1 << 17  # of a node, as in the core: a count from a file must not exhaust memory


class CallPlan:
    """What calling an op needs to know about its schema, worked out once."""

    def __init__(self, op_def):
        attrs = op_def.attrs.values()
        inferred = set()
        for arg in op_def.inputs:
            inferred.update((arg.type_attr, arg.number_attr, arg.type_list_attr))
        inferred.discard(None)
        self.inferred = inferred
        given = [a for a in attrs if a.name not in inferred]
        self.required = [a for a in given if not a.has_default]
        self.optional = [a for a in given if a.has_default]
        self.defaults = {a.name: a.default for a in self.optional if not a.is_list}
        self.list_defaults = {a.name: a.default for a in self.optional if a.is_list}
        self.type_hints = {a.name: a.default for a in attrs
                           if a.has_default and a.name in inferred and a.kind == "type"}
        self.input_names = [a.name for a in op_def.inputs]
        self.attr_order = [a.name for a in self.required + self.optional]
        self.outputs = [_output_rule(a) for a in op_def.outputs]
        self.has_refs = any(a.is_ref for a in op_def.inputs)
        self.result_type = None


def _output_rule(arg):
    return arg, arg.dtype._as_ref if arg.dtype is not None and arg.is_ref else arg.dtype


def call_signature(op_def):
    """The inspect.Signature of calling the op: inputs, attributes that inputs do not decide, name.
    What is no identifier, or a keyword of Python, is called with an underscore behind it."""
    import inspect              # 10 ms, and few ask
    plan = op_def.call_plan
    defaults = {a.name: a.default for a in plan.optional}
    parameters, kind = {}, inspect.Parameter.POSITIONAL_OR_KEYWORD
    for name in plan.input_names + plan.attr_order:
        called = name + "_" if keyword.iskeyword(name) else name
        if called.isidentifier():
            parameters[called] = inspect.Parameter(
                called, kind, default=defaults.get(name, inspect.Parameter.empty))
    parameters["name"] = inspect.Parameter("name", kind, default=None)
    return inspect.Signature(parameters.values())


def output_types(op_def, attrs):
    """The output tensors' DTypes, in order, given complete attributes."""
    types = []
    for arg, fixed in op_def.call_plan.outputs:
        if arg.type_list_attr:
            listed = attrs[arg.type_list_attr]
            types.extend(t._as_ref for t in listed) if arg.is_ref else types.extend(listed)
            continue
        dtype = fixed
        if dtype is None:
            dtype = attrs[arg.type_attr]
            if arg.is_ref:
                dtype = dtype._as_ref
        if arg.number_attr:
            count = attrs[arg.number_attr]
            if len(types) + count > _MAX_OUTPUTS:
                raise ValueError(f"{op_def.name}: {arg.number_attr}={count} asks for more than "
                                 f"{_MAX_OUTPUTS} outputs")
            types.extend([dtype] * count)
        else:
            types.append(dtype)
    return types


def apply_op(op_def, args, name, kwargs):
    """Adds a node of `op_def`; returns its outputs (Tensor, list, tuple by name) or the Operation.

    Raises TypeError and ValueError that name the op, the argument, the types and the user's line.
    """
    plan = op_def.call_plan
    if name is None and len(args) == len(plan.input_names) + len(plan.attr_order) + 1:
        *args, name = args                  # TF's generated functions take the name last
    values, attrs = _bind(op_def, args, kwargs)
    if op_def.over_sparse and isinstance(values[0], SparseTensor):
        x = values[0]
        return SparseTensor(x.indices, apply_op(op_def, (x.values,), name, kwargs), x.dense_shape)
    graph = graph_of(values)
    name = name or op_def.name.lstrip("_")   # no node name begins with _
    if isinstance(name, bytes):
        name = name.decode()
    if name[-1] == "/":
        name = name[:-1]
    else:
        with graph._lock:
            name = graph.unique_name(name)
    inputs = []
    for arg, value in zip(op_def.inputs, values):
        if arg.is_list:
            _take_list(op_def, graph, name, arg, value, attrs, inputs)
        else:
            _take_one(op_def, graph, name, arg, value, attrs, inputs)
    types = output_types(op_def, _complete(op_def, attrs))
    if plan.has_refs:
        with _beside_variables(op_def, graph, inputs):
            node = graph.add_node(op_def, name, tuple(inputs), attrs, types)
    else:
        node = graph.add_node(op_def, name, tuple(inputs), attrs, types)
    return _result(op_def, node)


@contextlib.contextmanager
def _beside_variables(op_def, graph, inputs):
    """What writes through references is where they are, whatever tf.device asks for."""
    with contextlib.ExitStack() as scopes:
        for arg, tensor in zip(op_def.inputs, inputs):
            if arg.is_ref:
                scopes.enter_context(graph.colocate_with(tensor.op))
        yield


def _bind(op_def, args, kwargs):
    """(input values, given attributes in native form)."""
    plan = op_def.call_plan
    names = plan.input_names
    values = list(args[:len(names)])
    attrs = {}
    for attr, value in zip(plan.attr_order, args[len(names):]):
        if attr in kwargs:
            raise TypeError(f"{op_def.name}() got two values for {attr!r}")
        kwargs[attr] = value
    if len(args) > len(names) + len(plan.attr_order):
        raise TypeError(f"{op_def.name}() takes at most {len(names) + len(plan.attr_order)} "
                        f"positional arguments ({', '.join(names + plan.attr_order)}), got "
                        f"{len(args)}")
    for arg_name in names[len(values):]:
        if arg_name in kwargs:
            values.append(kwargs.pop(arg_name))
        elif arg_name + "_" in kwargs:
            values.append(kwargs.pop(arg_name + "_"))
        else:
            raise TypeError(f"No argument for input {arg_name!r} of op {op_def.name}. {_here()}")
    for key, value in kwargs.items():
        attr = op_def.attrs.get(key)
        if attr is None and key.endswith("_") and keyword.iskeyword(key[:-1]):
            attr = op_def.attrs.get(key[:-1])
        if attr is None:
            allowed = ", ".join(names + list(op_def.attrs) + ["name"])
            problem = "two values for" if key in names else "an unexpected keyword argument"
            raise TypeError(f"{op_def.name}() got {problem} {key!r}; it takes {allowed}. {_here()}")
        if value is not None or not attr.has_default:
            attrs[attr.name] = normalize(op_def.name, attr, value)
    return values, attrs


def _take_one(op_def, graph, name, arg, value, attrs, inputs):
    """Converts one input, which fixes or must match its type attribute."""
    expected = arg.dtype or attrs.get(arg.type_attr)
    if type(value) is not Tensor or arg.is_ref \
            or expected is not None and value.dtype.base_dtype is not expected:
        value = _convert(op_def, graph, name, arg, value, expected, attrs)
    if value.op.graph is not graph:
        value = graph._own(value)
        if arg.is_ref:
            _check_ref(op_def, arg, value)
    inputs.append(value)
    if expected is None:
        base = value.dtype.base_dtype
        check_allowed(op_def, arg.name, op_def.attrs[arg.type_attr], base, _here)
        attrs[arg.type_attr] = base


def _convert(op_def, graph, name, arg, value, expected, attrs, label=None):
    """`value` as a tensor of type `expected` (None: any), made inside the node's name scope."""
    hint = op_def.call_plan.type_hints.get(arg.type_attr) if expected is None else None
    try:
        tensor = _to_tensor_in_scope(graph, name, value, expected, label or arg.name, arg.is_ref,
                                     hint)
    except TypeError as error:
        if expected is None or isinstance(value, Tensor):
            raise TypeError(f"{error} (argument {arg.name!r} of op {op_def.name}; "
                            f"{_here()})") from error
        raise TypeError(
            f"Expected {expected.name} passed to parameter {arg.name!r} of op {op_def.name!r}, got "
            f"{value!r} of type {type(value).__name__!r} instead. Error: {error} "
            f"{_here()}") from error
    except ValueError as error:
        if expected is None:
            raise ValueError(f"Tried to convert {arg.name!r} to a tensor and failed. Error: "
                             f"{error} (op {op_def.name}; {_here()})") from error
        raise _mismatch(op_def, arg, value, expected, error) from error
    if arg.is_ref:
        _check_ref(op_def, arg, tensor)
    return tensor


def _check_ref(op_def, arg, tensor):
    if not tensor.dtype._is_ref_dtype:
        raise TypeError(f"{op_def.name!r} Op requires that input {arg.name!r} be a mutable tensor "
                        f"(e.g.: a tf.Variable); {tensor.name!r} is not. {_here()}")


def _mismatch(op_def, arg, value, expected, error):
    observed = getattr(value, "dtype", None)
    if observed is None:
        return ValueError(f"{error} (argument {arg.name!r} of op {op_def.name}; {_here()})")
    prefix = (f"Input {arg.name!r} of {op_def.name!r} Op has type "
              f"{dtypes.as_dtype(observed).base_dtype.name} that does not match")
    if arg.dtype is not None:
        return TypeError(f"{prefix} expected type of {expected.name}. Use tf.cast. {_here()}")
    source = next((a.name for a in op_def.inputs if a.type_attr == arg.type_attr), None)
    if source == arg.name:
        source = f"attr {arg.type_attr!r}"
    else:
        source = f"argument {source!r}"
    return TypeError(f"{prefix} type {expected.name} of {source}. Use tf.cast. {_here()}")


def _to_tensor_in_scope(graph, name, value, dtype, label, as_ref, hint):
    scopes = graph._scopes
    saved, scopes.name = scopes.name, name
    try:
        with graph.as_default():
            return to_tensor(value, dtype, label, as_ref, hint)
    finally:
        scopes.name = saved


def _take_list(op_def, graph, name, arg, values, attrs, inputs):
    """Converts a list input: `N * T` (one type) or a list(type) attribute."""
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"Expected list for {arg.name!r} argument to {op_def.name!r} Op, not "
                        f"{values!r}. {_here()}")
    if arg.type_list_attr:
        wanted = attrs.get(arg.type_list_attr) or [None] * len(values)
    else:
        wanted = [_common_type(arg, values, attrs)] * len(values)
    if len(wanted) != len(values):
        raise ValueError(f"List argument {arg.name!r} to {op_def.name!r} Op with length "
                         f"{len(values)} must match length {len(wanted)} of attr "
                         f"{arg.type_list_attr!r}. {_here()}")
    tensors = _convert_list(op_def, graph, name, arg, values, wanted, attrs)
    if arg.number_attr:
        _check_count(op_def, arg, len(tensors), attrs)
    inputs.extend(tensors)
    bases = [t.dtype.base_dtype for t in tensors]
    if arg.type_list_attr:
        attr = op_def.attrs[arg.type_list_attr]
        for base in bases:
            check_allowed(op_def, arg.name, attr, base, _here)
        if attr.minimum is not None and len(bases) < attr.minimum:
            raise ValueError(f"List argument {arg.name!r} to {op_def.name!r} Op with length "
                             f"{len(bases)} shorter than minimum length {attr.minimum}. {_here()}")
        attrs[arg.type_list_attr] = bases
    elif arg.type_attr and arg.type_attr not in attrs:
        if not bases:
            raise TypeError(f"Don't know how to infer type variable {arg.type_attr!r} from empty "
                            f"input list passed to input {arg.name!r} of {op_def.name!r} Op. "
                            f"{_here()}")
        check_allowed(op_def, arg.name, op_def.attrs[arg.type_attr], bases[0], _here)
        attrs[arg.type_attr] = bases[0]


def _common_type(arg, values, attrs):
    """The type an `N * T` list must have, as far as it is known before conversion."""
    expected = arg.dtype or attrs.get(arg.type_attr)
    if expected is None:
        for value in values:
            if isinstance(value, Tensor):
                return value.dtype.base_dtype
    return expected


def _convert_list(op_def, graph, name, arg, values, wanted, attrs):
    tensors = []
    try:
        for i, (value, expected) in enumerate(zip(values, wanted)):
            if type(value) is not Tensor or arg.is_ref \
                    or expected is not None and value.dtype.base_dtype is not expected:
                value = _convert(op_def, graph, name, arg, value, expected, attrs,
                                 f"{arg.name}_{i}")
                if arg.number_attr and wanted[-1] is None:
                    wanted[:] = [value.dtype.base_dtype] * len(wanted)
            if value.op.graph is not graph:
                value = graph._own(value)
            tensors.append(value)
    except (TypeError, ValueError) as error:
        types = ", ".join(_type_name(v) for v in values)
        prefix = (f"Tensors in list passed to {arg.name!r} of {op_def.name!r} Op have types "
                  f"[{types}]")
        if arg.dtype is not None:
            problem = f"that do not match expected type {arg.dtype.name}"
        elif arg.type_attr in attrs:
            problem = (f"that do not match type {attrs[arg.type_attr].name} inferred from earlier "
                       f"arguments")
        else:
            problem = "that don't all match" if arg.number_attr else "that are invalid"
        raise TypeError(f"{prefix} {problem}. {_here()} ({error})") from error
    if arg.number_attr and len({t.dtype.base_dtype for t in tensors}) > 1:
        types = ", ".join(t.dtype.name for t in tensors)
        raise TypeError(f"Tensors in list passed to {arg.name!r} of {op_def.name!r} Op have types "
                        f"[{types}] that don't all match. {_here()}")
    return tensors


def _type_name(value):
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return type(value).__name__
    try:
        return dtypes.as_dtype(dtype).name
    except TypeError:
        return str(dtype)


def _check_count(op_def, arg, count, attrs):
    attr = op_def.attrs[arg.number_attr]
    known = attrs.get(arg.number_attr)
    if known is None:
        if attr.minimum is not None and count < attr.minimum:
            raise ValueError(f"List argument {arg.name!r} to {op_def.name!r} Op with length "
                             f"{count} shorter than minimum length {attr.minimum}. {_here()}")
        attrs[arg.number_attr] = count
    elif known != count:
        first = next(a.name for a in op_def.inputs if a.number_attr == arg.number_attr)
        raise ValueError(f"List argument {arg.name!r} to {op_def.name!r} Op with length {count} "
                         f"must match length {known} of argument {first!r}. {_here()}")


def _complete(op_def, attrs):
    """Fills in defaults; TypeError for a missing attribute."""
    plan = op_def.call_plan
    for attr in plan.required:
        if attr.name not in attrs:
            raise TypeError(f"No argument for attr {attr.name!r} of op {op_def.name}. {_here()}")
    for key, value in plan.defaults.items():
        if key not in attrs:
            attrs[key] = value
    for key, value in plan.list_defaults.items():
        if key not in attrs:
            attrs[key] = list(value)
    return attrs


def _result(op_def, node):
    outputs = op_def.outputs
    if not outputs:
        return node
    if len(outputs) == 1:
        return node.outputs if outputs[0].is_list else node.outputs[0]
    plan = op_def.call_plan
    if plan.result_type is None:
        from collections import namedtuple
        plan.result_type = namedtuple(op_def.name.replace(".", "_"),
                                      [a.name for a in outputs], rename=True)
    spans = op_def.output_spans(node.attrs)
    return plan.result_type(*(node.outputs[start:stop] if arg.is_list else node.outputs[start]
                              for arg, (start, stop) in zip(outputs, spans)))


def _here():
    """The user's line, for errors."""
    return f"({_origin.user_frame(_origin.here(2))})"
