"""Attribute values: from what a caller gives to the native form, with TF's checks and errors.

Native forms: str (bytes only if not UTF-8), int, float, bool, DType (base type), TensorShape,
ndarray (kind tensor), FunctionName (kind func), or a list of these.
"""

import numbers
import operator

import numpy as np

from pyflow.framework import dtypes, tensor_util, wire
from pyflow.framework.function_name import FunctionName
from pyflow.framework.op_schema import format_value
from pyflow.framework.tensor_shape import TensorShape


def _int(value):
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        if int(value) != value:
            raise TypeError
        return int(value)
    return operator.index(value)


def _float(value):
    if not isinstance(value, numbers.Real):
        raise TypeError
    return float(value)


def _bool(value):
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError
    return bool(value)


def _string(value):
    if isinstance(value, str):
        return str(value)
    if not isinstance(value, bytes):
        raise TypeError
    try:
        return value.decode()
    except UnicodeDecodeError:
        return bytes(value)


def _type(value):
    return dtypes.as_dtype(value).base_dtype


def _shape(value):
    return value if isinstance(value, TensorShape) else TensorShape(value)


def _tensor(value):
    if hasattr(value, "tensor_shape"):
        return tensor_util.MakeNdarray(value)
    return tensor_util.make_array(value)[0]


def _func(value):
    if isinstance(value, FunctionName):
        return value
    if isinstance(value, str):
        return FunctionName(value)
    if hasattr(value, "attr") and hasattr(value, "name"):
        return FunctionName(value.name, {k: wire.from_attr_value(v) for k, v in value.attr.items()})
    if isinstance(getattr(value, "name", None), str):
        return FunctionName(value.name)
    raise TypeError


_NORMALIZE = {"int": _int, "float": _float, "bool": _bool, "string": _string, "type": _type,
              "shape": _shape, "tensor": _tensor, "func": _func}
_TF_KIND = {"type": "DataType", "shape": "TensorShape", "string": "string", "tensor": "TensorProto",
            "func": "function"}


def normalize(op_name, attr, value):
    """`value` in native form, checked against `attr`; TypeError or ValueError as TF raises."""
    convert = _NORMALIZE[attr.element_kind]
    if not attr.is_list:
        value = _converted(op_name, attr, convert, value, value)
        if attr.allowed is not None:
            check_value_allowed(op_name, attr, value)
        if attr.minimum is not None and value < attr.minimum:
            raise ValueError(f"Attr {attr.name!r} of {op_name!r} Op passed {value} less than "
                             f"minimum {attr.minimum}.")
        return value
    if isinstance(value, (str, bytes)) or not isinstance(value, (list, tuple, np.ndarray)) \
            and not (hasattr(value, "__iter__") and hasattr(value, "__len__")):
        raise TypeError(f"Expected list for attr {attr.name!r} of {op_name!r} Op, not {value!r}.")
    values = [_converted(op_name, attr, convert, v, value) for v in value]
    if attr.allowed is not None:
        for item in values:
            check_value_allowed(op_name, attr, item)
    if attr.minimum is not None and len(values) < attr.minimum:
        raise ValueError(f"Attr {attr.name!r} of {op_name!r} Op passed list of length "
                         f"{len(values)} less than minimum {attr.minimum}.")
    return values


def _converted(op_name, attr, convert, value, whole):
    try:
        return convert(value)
    except (TypeError, ValueError, OverflowError) as error:
        kind = _TF_KIND.get(attr.element_kind, attr.element_kind)
        raise TypeError(f"Expected {kind} for argument {attr.name!r} not {value!r} (op {op_name}"
                        f"{f', in {whole!r}' if whole is not value else ''})."
                        f"{f' {error}' if str(error) else ''}") from None


def check_value_allowed(op_name, attr, value):
    """TypeError (types) or ValueError (strings) if `value` is not among `attr.allowed`."""
    if value in attr.allowed:
        return
    if isinstance(value, dtypes.DType):
        raise TypeError(f"Value passed to parameter {attr.name!r} of op {op_name} has DataType "
                        f"{value.name} not in list of allowed values: "
                        f"{', '.join(t.name for t in attr.allowed)}")
    listed = ", ".join(format_value(v) for v in attr.allowed)
    raise ValueError(f"Value for attr {attr.name!r} of {format_value(value)} is not in the list of "
                     f"allowed values: {listed} (op {op_name})")


def check_allowed(op_def, arg_name, attr, dtype, where):
    """TypeError if an input's `dtype` is not one its type attribute allows."""
    if attr.allowed is not None and dtype not in attr.allowed:
        raise TypeError(f"Value passed to parameter {arg_name!r} of op {op_def.name} has DataType "
                        f"{dtype.name} not in list of allowed values: "
                        f"{', '.join(t.name for t in attr.allowed)}. {where()}")
