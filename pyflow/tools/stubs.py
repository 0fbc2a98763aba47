"""Writes pyflow/__init__.pyi, the types of the public names, from the live package, and for each
namespace (pyflow/nn/__init__.pyi) a stub that refers to it.

    python -m pyflow.tools.stubs FOLDER         # the build of a wheel does it; `make tables`, too

Signatures (names, order, which arguments have defaults) are those of the functions themselves.
Types of arguments follow from their names where the name says it (`name`, `dtype`, `graph`).  What
becomes a tensor is `_TensorLike`: tensors, variables, numbers, text, arrays, nested sequences of
them, and what has `__array__`; a list of such is `Sequence[_TensorLike]`, a shape `_ShapeLike`.
Ops say themselves which of their arguments these are, functions by the arguments' names.  Nests
(tf.while_loop, tf.map_fn, RNNs) stay `Any`.  A function whose docstring names an op with exactly
one output gives a `Tensor`.  Namespaces (tf.nn) are classes of static methods, `_nn` and so on: what
a class `nn` holds would have the full names of what the module pyflow.nn holds, and mypy, which
finds what it keeps by full names, would fail on a program that it has seen before.
tests/typing/test_types.py asks whether an installed package's are what this writes.
"""

import inspect
import keyword
import pathlib
import re
import sys
import types

import pyflow as tf
from pyflow import _names
from pyflow.framework import op as op_lib

HEAD = '''"""Types of pyflow's public names.  Written by pyflow/tools/stubs.py; do not edit."""
from builtins import bool as _bool, complex as _complex, slice as _slice
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, overload
import numpy as _np
import numpy.typing as _npt
class _HasArray(Protocol):
    def __array__(self, *args: Any, **kwargs: Any) -> _npt.NDArray[Any]: ...
_Scalar: TypeAlias = int | float | _complex | _bool | str | bytes | _np.generic
_TensorLike: TypeAlias = (
    Tensor | Variable | IndexedSlices | SparseTensor | _Scalar | _npt.NDArray[Any] | _HasArray
    | Sequence[_TensorLike])
_ShapeLike: TypeAlias = (
    TensorShape | Tensor | Variable | int | _np.integer[Any] | _npt.NDArray[Any]
    | Sequence[int | Dimension | Tensor | _np.integer[Any] | None])
_Size: TypeAlias = int | Dimension | None
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
    "TensorShape.as_list": "list[int | None]",
    "TensorShape.num_elements": "int | None",
    "TensorShape.is_fully_defined": "_bool",
    "TensorShape.concatenate": "TensorShape",
    "TensorShape.merge_with": "TensorShape",
    "TensorShape.with_rank": "TensorShape",
    "Dimension.merge_with": "Dimension",
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
    "Dimension.value": "int | None",
    "TensorShape.dims": "list[Dimension] | None",
}
# What Python calls: signatures by class, by name for all others.
_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor".split()
_TENSOR_OPERATORS = {
    **{f"__{name}__": "(self, other: _TensorLike) -> Tensor"
       for name in [*_BINARY, *(f"r{name}" for name in _BINARY), "lt", "le", "gt", "ge", "div", "rdiv"]},
    **{f"__{name}__": "(self) -> Tensor" for name in ("neg", "abs", "invert")},
    "__getitem__": "(self, key: Any) -> Tensor",
    **dict.fromkeys(("__bool__", "__iter__", "__len__"), ()),      # a TypeError always, so no member
}
SPECIAL = {
    "Tensor": _TENSOR_OPERATORS,
    "Variable": _TENSOR_OPERATORS,
    "SparseTensor": {f"__{name}__": "(self, other: _TensorLike) -> SparseTensor"
                     for name in ("mul", "rmul", "div", "truediv")},
    "IndexedSlices": {"__neg__": "(self) -> IndexedSlices"},
    "Dimension": {
        **{f"__{r}{name}__": "(self, other: _Size) -> Dimension" for r in ("", "r")
           for name in ("add", "sub", "mul", "floordiv", "mod")},
        "__div__": "(self, other: _Size) -> Dimension",
        **{f"__{name}__": "(self, other: _Size) -> _bool | None" for name in ("lt", "le", "gt", "ge")},
    },
    "TensorShape": {
        "__len__": "(self) -> int",
        "__iter__": "(self) -> Iterator[Dimension]",
        "__getitem__": ("(self, key: int) -> Dimension", "(self, key: _slice) -> TensorShape"),
        "__add__": "(self, other: _ShapeLike) -> TensorShape",
        "__radd__": "(self, other: _ShapeLike) -> TensorShape",
    },
}
ANYWHERE = {"__bool__": "(self) -> _bool", "__int__": "(self) -> int", "__index__": "(self) -> int",
            "__enter__": "(self) -> Self", "__exit__": "(self, *error: Any) -> None"}
NOT_TYPED = set("""__annotations__ __array__ __class_getitem__ __contains__ __copy__ __deepcopy__ __del__
    __dict__ __dir__ __doc__ __eq__ __firstlineno__ __getattr__ __getnewargs__ __getstate__ __hash__ __match_args__
    __module__ __ne__ __new__ __orig_bases__ __parameters__ __qualname__ __reduce__ __repr__ __setstate__
    __slots__ __static_attributes__ __str__ __unicode__ __weakref__""".split())  # object's, or of no use
KNOWN = frozenset(op_lib.op_names())     # looking for others would load plugins


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
    lines, inner, base = [], indent + "    ", ""
    members = {}
    for parent in reversed(cls.__mro__[:-1]):
        if parent is not tuple:
            members.update(vars(parent))
    if issubclass(cls, tuple):
        base = "(NamedTuple)"
        lines += [f"{inner}{field}: Any\n" for field in cls._fields]
        members = {k: v for k, v in members.items() if k not in cls._fields and k != "__init__"}
    for key, value in sorted(members.items()):
        if key.startswith("__") and key != "__init__":
            lines += special_stub(cls, key, value, inner)
        elif identifier(key) and (key == "__init__" or not key.startswith("_")):
            lines += member_stub(cls, key, value, inner)
    if "__array__" in members:
        lines.append(f"{inner}__array_priority__: int\n")
    return f"{indent}class {name}{base}:\n" + ("".join(lines) or f"{inner}...\n")


def special_stub(cls, key, value, indent):
    """What Python itself calls: operators, iteration, with."""
    if key in NOT_TYPED or key.startswith("__array_"):
        return []
    by_class = next((SPECIAL[b.__name__] for b in cls.__mro__ if b.__name__ in SPECIAL), {})
    known = by_class.get(key, ANYWHERE.get(key))
    if known is None:
        if not inspect.isfunction(value):
            return []
        rest = parameters(value, 1)
        known = f"(self{', ' if rest else ''}{rest}) -> Any"
    if isinstance(known, str):
        return [f"{indent}def {key}{known}: ...\n"]
    return [f"{indent}@overload\n{indent}def {key}{one}: ...\n" for one in known]


def member_stub(cls, key, value, indent):
    known = next(
        (METHODS[f"{b.__name__}.{key}"] for b in cls.__mro__ if f"{b.__name__}.{key}" in METHODS),
        "Any",
    )
    if isinstance(value, property):
        kind = PROPERTIES.get(f"{cls.__name__}.{key}") or PROPERTIES.get(key, "Any")
        lines = [f"{indent}@property\n{indent}def {key}(self) -> {kind}: ...\n"]
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
                private = name if indent else f"_{name}"
                out.append(
                    f"{indent}class {private}:\n"
                    + (stub(inner, indent + "    ") or f"{indent}    ...\n")
                    + (f"{name} = {private}\n" if not indent else "")
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
    """Of `pyflow` itself."""
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
    tail = "_OpError = OpError\nfrom . import compat as compat\n__version__: str\n"
    return HEAD + body + tail


# ---------------------------------------------------------------- namespaces, as modules

def namespaces():
    """{path of a stub beside pyflow's: its text}: for `import pyflow.nn`, `from pyflow.contrib import
    rnn`, `import pyflow.compat.v1 as tf`.  They only say where in pyflow's own stub the names are."""
    found = {
        "compat/__init__.pyi": MODULE.format("compat") + "from typing import Any\n"
        + "from . import v1 as v1\n" + stub(
            {k: v for k, v in vars(tf.compat).items() if not isinstance(v, types.ModuleType)}),
        "compat/v1.pyi": MODULE.format("compat.v1") + "from pyflow import *\n",
    }
    for path in _names.NAMESPACES:
        module = sys.modules[f"pyflow.{path}"]
        first, *inner = path.split(".")
        lines = [f"from pyflow import _{first}\n"]
        for name in dir(module):
            if name.startswith("_") or not identifier(name):
                continue
            if is_namespace(value := getattr(module, name)):
                home = value.__name__.rpartition(".")[0]    # another's: slim.layers is contrib's
                home = "." if home == module.__name__ else home
                lines.append(f"from {home} import {name} as {name}\n")
            elif not isinstance(value, types.ModuleType):
                lines.append(f"{name} = {'.'.join([f'_{first}', *inner, name])}\n")
        folder = any(other.startswith(path + ".") for other in _names.NAMESPACES)
        is_package = folder or f"pyflow.{path}" in _names.PACKAGES
        file = path.replace(".", "/") + ("/__init__.pyi" if is_package else ".pyi")
        found[file] = MODULE.format(path) + "".join(lines)
    return found


MODULE = '''"""Types of pyflow.{}.  Written by pyflow/tools/stubs.py; do not edit."""
'''


def main(folder):
    made = {"__init__.pyi": text(), **namespaces()}     # first: it fails before a file is touched
    for old in folder.rglob("*.pyi"):
        old.unlink()
    for name, written in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
