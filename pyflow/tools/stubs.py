"""Writes pyflow/__init__.pyi, the types of the public names, from the live package.

    python -m pyflow.tools.stubs FILE           # `make tables` does it

Signatures (names, order, which arguments have defaults) are those of the functions themselves.
Types of arguments follow from their names where the name says it (`name`, `dtype`, `graph`).  What
becomes a tensor is `_TensorLike`: tensors, variables, numbers, text, arrays, nested sequences of
them, and what has `__array__`; a list of such is `Sequence[_TensorLike]`, a shape `_ShapeLike`.
Ops say themselves which of their arguments these are, functions by the arguments' names.  Nests
(tf.while_loop, tf.map_fn, RNNs) stay `Any`.  A function whose docstring names an op with exactly
one output gives a `Tensor`.  Namespaces (tf.nn) are classes of static methods.
tests/typing/test_types.py fails while the file differs from what this writes.
"""

import inspect
import keyword
import re
import sys
import types

import pyflow as tf
from pyflow import _names
from pyflow.framework import op as op_lib

HEAD = '''"""Types of pyflow's public names.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from builtins import bool as _bool, complex as _complex
from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeAlias
import numpy as _np
import numpy.typing as _npt
class _HasArray(Protocol):
    def __array__(self, *args: Any, **kwargs: Any) -> _npt.NDArray[Any]: ...
_Scalar: TypeAlias = int | float | _complex | _bool | str | bytes | _np.generic
_TensorLike: TypeAlias = (
    "Tensor | Variable | IndexedSlices | SparseTensor | _Scalar | _npt.NDArray[Any] | _HasArray"
    " | Sequence[_TensorLike]")
_ShapeLike: TypeAlias = (
    "TensorShape | Tensor | Variable | int | _np.integer[Any] | _npt.NDArray[Any]"
    " | Sequence[int | Dimension | Tensor | _np.integer[Any] | None]")
'''
TENSORS = set(  # arguments of functions that become tensors
    """x y a b input image images tensor indices ref weights logits labels input_tensor updates
    rhs boxes predictions filters filter t scores matrix lower_upper condition input_ targets
    variance bias features mean offset biases paddings img1 img2 diagonals arr mask chol real imag
    partitions value_range box_ind box_indices overlaps out_backprop onehot_labels ids log_input
    multi_class_labels counts mean_ss variance_ss shift depthwise_filter pointwise_filter pos_weight
    seq_lengths lengths sparse_indices sparse_values string_tensor min_object_covered
    bounding_boxes image_size colors contents losses loss depth on_value off_value minval maxval
    clip_norm constant_values inputs values params tensors t_list""".split()
)
SHAPES = {"shape", "dims", "output_shape", "noise_shape"}
NOT_TENSORS = {"rnn", "rnn_static", "functional", "nest", "variable_scope", "initializers",
               "while_loop", "sparse_functions"}
ARGUMENTS = {
    "name": "str | None",
    "dtype": "DType | type | str | None",
    "graph": "Graph | None",
    "validate_shape": "_bool",
    "trainable": "_bool | None",
    "keep_dims": "_bool | None",
    "keepdims": "_bool | None",
    "use_resource": "_bool | None",
}
RETURNS = {
    "placeholder": "Tensor",
    "constant": "Tensor",
    "convert_to_tensor": "Tensor",
    "get_default_graph": "Graph",
    "as_dtype": "DType",
    "gradients": "list[Tensor | None]",
    "global_variables_initializer": "Operation",
    "local_variables_initializer": "Operation",
    "variables_initializer": "Operation",
    "global_variables": "list[Variable]",
    "trainable_variables": "list[Variable]",
    "local_variables": "list[Variable]",
    "get_variable": "Variable",
    "zeros": "Tensor",
    "ones": "Tensor",
    "group": "Operation",
    "reset_default_graph": "None",
    "set_random_seed": "None",
}
TENSOR = (
    """matmul cast argmax argmin reduce_mean reduce_sum reduce_max reduce_min reduce_prod reduce_all
    reduce_any reduce_logsumexp reshape square add subtract multiply divide equal not_equal less
    less_equal greater greater_equal expand_dims transpose concat stack squeeze gather gather_nd
    one_hot random_normal random_uniform truncated_normal where tile range exp log sqrt rsqrt abs
    pow maximum minimum tanh sigmoid identity stop_gradient shape size rank slice strided_slice pad
    fill zeros_like ones_like add_n clip_by_value relu softmax log_softmax conv2d max_pool avg_pool
    dropout bias_add l2_loss softmax_cross_entropy_with_logits
    sparse_softmax_cross_entropy_with_logits sigmoid_cross_entropy_with_logits embedding_lookup
    to_float to_int32 to_int64 negative norm cumsum boolean_mask assign assign_add
    assign_sub""".split()
)
RETURNS.update(dict.fromkeys(TENSOR, "Tensor"))
METHODS = {
    "Optimizer.minimize": "Operation",
    "Optimizer.apply_gradients": "Operation",
    "Saver.save": "str",
    "Saver.restore": "Any",
    "Graph.get_operations": "list[Operation]",
    "Graph.get_tensor_by_name": "Tensor",
    "Graph.get_operation_by_name": "Operation",
    "Graph.finalize": "None",
    "Session.close": "None",
    "Variable.assign": "Tensor",
    "Variable.assign_add": "Tensor",
    "Variable.assign_sub": "Tensor",
    "Variable.value": "Tensor",
    "Variable.read_value": "Tensor",
    "Tensor.eval": "Any",
    "Tensor.get_shape": "TensorShape",
    "Variable.get_shape": "TensorShape",
}
PROPERTIES = {
    "name": "str",
    "dtype": "DType",
    "graph": "Graph",
    "shape": "TensorShape",
    "op": "Operation",
    "ndims": "int | None",
    "initializer": "Operation",
}
OPERATORS = (
    "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__"
    " __mod__ __pow__ __matmul__ __lt__ __le__ __gt__ __ge__ __and__ __or__ __xor__"
    " __getitem__"
).split()
KNOWN = frozenset(op_lib.op_names())     # looking for others would load plugins
UNARY = "__neg__ __abs__ __invert__".split()


def identifier(name):
    return name.isidentifier() and not keyword.iskeyword(name)


def kind_of(function, parameter):
    """The type of an argument, as the stub has it."""
    package, _, module = function.__module__.rpartition(".")
    if not package.startswith(("pyflow.ops", "pyflow.lib")) or module in NOT_TENSORS:
        return ARGUMENTS.get(parameter.name, "Any")
    kind = ("_TensorLike" if parameter.name in TENSORS else
            "_ShapeLike" if parameter.name in SHAPES else None)
    if kind is None:
        return ARGUMENTS.get(parameter.name, "Any")
    return f"{kind} | None" if parameter.default is None else kind


def parameters(function, skip=0):
    """The parameter list as a stub has it."""
    try:
        found = list(inspect.signature(function).parameters.values())[skip:]
    except (TypeError, ValueError):
        return "*args: Any, **kwargs: Any"
    parts, star = [], False
    for i, p in enumerate(found):
        kind = kind_of(function, p)
        if p.kind is p.VAR_POSITIONAL:
            star = True
            parts.append(f"*{p.name}: Any")
        elif p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}: Any")
        else:
            if p.kind is p.KEYWORD_ONLY and not star:
                star = True
                parts.append("*")
            if p.default is p.empty and kind.endswith("| None"):
                kind = "Any" if p.name != "name" else kind
            parts.append(f"{p.name}: {kind}" + ("" if p.default is p.empty else " = ..."))
            if p.kind is p.POSITIONAL_ONLY and (
                i + 1 == len(found) or found[i + 1].kind is not p.POSITIONAL_ONLY
            ):
                parts.append("/")
    return ", ".join(parts)


def result(name, function):
    if name in RETURNS:
        return RETURNS[name]
    named = re.search(r"TF: (?:tf\.)?(?:\w+\.)*([A-Za-z]\w*)", inspect.getdoc(function) or "")
    found = op_lib.find_op(named.group(1)) if named and named.group(1) in KNOWN else None
    if isinstance(function, op_lib.OpDef):
        found = function
    single = found is not None and len(found.outputs) == 1 and not found.outputs[0].is_list
    return "Tensor" if single else "Any"


def op_parameters(op):
    """Inputs, then attributes that are not inferred, as apply_op takes them."""
    plan = op.call_plan
    names = [a if identifier(a) else a + "_" for a in plan.input_names]
    kinds = ["Sequence[_TensorLike]" if a.is_list else "_TensorLike" for a in op.inputs]
    parts = [f"{n}: {kind}" for n, kind in zip(names, kinds, strict=True)]
    defaults = {a.name for a in plan.optional}
    attrs = [a for a in plan.attr_order if identifier(a)]
    parts += [f"{a}: Any" + (" = ..." if a in defaults else "") for a in attrs]
    return ", ".join([*parts, "name: str | None = ..."])


def function_stub(name, value, indent, static):
    text = op_parameters(value) if isinstance(value, op_lib.OpDef) else parameters(value)
    lead = f"{indent}@staticmethod\n" if static else ""
    return f"{lead}{indent}def {name}({text}) -> {result(name, value)}: ...\n"


def class_stub(name, cls, indent):
    """Methods and properties of the class and of its bases outside the stub."""
    if issubclass(cls, BaseException):
        base = cls.__mro__[1].__name__ if cls.__mro__[1] is not Exception else "Exception"
        return (
            f"{indent}class {name}({base}):\n{indent}    message: str\n{indent}    node_def: Any\n"
            f"{indent}    op: Any\n{indent}    error_code: int\n"
            if cls is tf.OpError
            else f"{indent}class {name}(OpError): ...\n"
        )
    lines, inner = [], indent + "    "
    members = {}
    for base in reversed(cls.__mro__[:-1]):
        members.update(vars(base))
    for key, value in sorted(members.items()):
        if (
            not identifier(key)
            or key.startswith("_")
            and key not in ("__init__", "__enter__", "__exit__")
        ):
            continue
        lines += member_stub(cls, key, value, inner)
    if cls in (tf.Tensor, tf.Variable):
        lines += [f"{inner}def {key}(self, other: {'Any' if key == '__getitem__' else '_TensorLike'})"
                  " -> Tensor: ...\n" for key in OPERATORS]
        lines += [f"{inner}def {key}(self) -> Tensor: ...\n" for key in UNARY]
        lines.append(f"{inner}__array_priority__: int\n")
    return f"{indent}class {name}:\n" + ("".join(lines) or f"{inner}...\n")


def member_stub(cls, key, value, indent):
    known = next(
        (METHODS[f"{b.__name__}.{key}"] for b in cls.__mro__ if f"{b.__name__}.{key}" in METHODS),
        "Any",
    )
    if isinstance(value, property):
        lines = [
            f"{indent}@property\n{indent}def {key}(self) -> {PROPERTIES.get(key, 'Any')}: ...\n"
        ]
        if value.fset:
            lines.append(
                f"{indent}@{key}.setter\n{indent}def {key}(self, value: Any) -> None: ...\n"
            )
        return lines
    if isinstance(value, staticmethod):
        return [
            f"{indent}@staticmethod\n{indent}def {key}({parameters(value.__func__)}) -> Any: ...\n"
        ]
    if isinstance(value, classmethod):
        rest = parameters(value.__func__, 1)
        return [
            f"{indent}@classmethod\n{indent}def {key}(cls{', ' if rest else ''}{rest}) -> Any: ...\n"
        ]
    if key == "__enter__":
        return [f"{indent}def __enter__(self) -> Self: ...\n"]
    if key == "__exit__":
        return [f"{indent}def __exit__(self, *error: Any) -> None: ...\n"]
    if inspect.isfunction(value):
        rest = parameters(value, 1)
        known = "None" if key == "__init__" else known
        return [f"{indent}def {key}(self{', ' if rest else ''}{rest}) -> {known}: ...\n"]
    return [f"{indent}{key}: Any\n"]


def is_namespace(value):
    return (isinstance(value, types.ModuleType)
            and value.__name__.removeprefix("pyflow.") in _names.NAMESPACES)


def stub(names, indent=""):
    """The stub of a namespace's names, in order of name."""
    out = []
    for name, value in sorted(names.items()):
        if name.startswith("_") or not identifier(name):
            continue
        if name == "raw_ops":  # one function for each op, made at its first use
            out.append(f"{indent}raw_ops: Any\n")
        elif is_namespace(value):
            if name not in ("compat", "pyflow", "v1"):
                inner = {k: getattr(value, k) for k in dir(value)}
                out.append(
                    f"{indent}class {name}:\n"
                    + (stub(inner, indent + "    ") or f"{indent}    ...\n")
                )
        elif (
            inspect.isclass(value)
            and value.__module__
            and value.__module__.startswith("pyflow")
            and "protos" not in value.__module__
        ):
            first = CLASSES.setdefault(value, name)
            alias = first != name or indent and getattr(tf, name, None) is value
            known = getattr(tf, first, None) is value
            out.append(
                f"{indent}{name}: Any\n"
                if alias and (indent or not known)
                else f"{indent}{name} = {first}\n" if alias else class_stub(name, value, indent)
            )
        elif inspect.isfunction(value) or isinstance(value, op_lib.OpDef):
            out.append(function_stub(name, value, indent, bool(indent)))
        elif isinstance(value, types.ModuleType):
            if value.__name__.startswith("pyflow.") and name in _names.LAZY or name == "errors":
                out.append(module_stub(name, value, indent))
        else:
            kind = (
                "DType"
                if isinstance(value, tf.DType)
                else "str" if isinstance(value, str) else "Any"
            )
            out.append(f"{indent}{name}: {kind}\n")
    return "".join(out)


def module_stub(name, module, indent):
    """A module that is a namespace of its own: its functions and classes; errors are classes."""
    if name != "errors":
        return f"{indent}{name}: Any\n"
    inner = indent + "    "
    lines = [
        (
            f"{inner}{key}: Any\n"
            if not inspect.isclass(value)
            else (
                f"{inner}OpError = _OpError\n"
                if value is tf.OpError
                else f"{inner}class {key}(_OpError): ...\n"
            )
        )
        for key, value in sorted(vars(module).items())
        if not key.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    return f"{indent}class {name}:\n" + "".join(lines)


CLASSES = {}


def text():
    CLASSES.clear()
    for name in _names.LAZY:
        getattr(tf, name)
    CLASSES.update(
        {
            getattr(tf, n): n
            for n in (
                "DType",
                "Graph",
                "Operation",
                "OpError",
                "Tensor",
                "TensorShape",
                "Variable",
                "Session",
            )
        }
    )
    body = stub({k: getattr(tf, k) for k in dir(tf) if k not in ("v1", "pyflow")})
    tail = "_OpError = OpError\ncompat: Any\n__version__: str\n"
    tail += "def __getattr__(name: str) -> Any: ...\n"
    return HEAD + body + tail


if __name__ == "__main__":
    made = text()               # first: it fails before the file is touched
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(made)
