"""Checks a node that arrives as a whole (`create_op`, an imported NodeDef) against its schema.

`complete(op_def, name, inputs, attrs)` fills defaults and types into `attrs` in place and returns
the output types. Errors are TypeError and ValueError that name the node, the op and what differs.
"""

from pyflow.framework.op_apply import output_types
from pyflow.framework.op_attrs import normalize


def complete(op_def, name, inputs, attrs):
    """The output DTypes; `attrs` gets every attribute of the schema."""
    _check_attrs(op_def, name, attrs)
    _infer_attrs(op_def, name, inputs, attrs)
    for attr in op_def.attrs.values():
        if attr.name not in attrs:
            if not attr.has_default:
                raise ValueError(f"Node {name!r} ({op_def.name}) lacks attr {attr.name!r} ({attr})")
            attrs[attr.name] = list(attr.default) if attr.is_list else attr.default
    check_inputs(op_def, name, inputs, attrs)
    return output_types(op_def, attrs)


def _check_attrs(op_def, name, attrs):
    for key, value in attrs.items():
        attr = op_def.attrs.get(key)
        if attr is None:
            continue
        try:
            attrs[key] = normalize(op_def.name, attr, value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"Node {name!r}: {error}") from None


def _infer_attrs(op_def, name, inputs, attrs):
    """Attributes that the inputs decide, where there is one way to read them."""
    position = 0
    for arg in op_def.inputs:
        if arg.number_attr or arg.type_list_attr:
            known = attrs.get(arg.number_attr or arg.type_list_attr)
            if known is None:
                if arg is not op_def.inputs[-1]:
                    return
                known = inputs[position:] if arg.type_list_attr else len(inputs) - position
                if arg.type_list_attr:
                    attrs[arg.type_list_attr] = [t.dtype.base_dtype for t in known]
                else:
                    attrs[arg.number_attr] = known
            count = len(known) if arg.type_list_attr else known
        else:
            count = 1
        if arg.type_attr and arg.type_attr not in attrs and count and position < len(inputs):
            attrs[arg.type_attr] = inputs[position].dtype.base_dtype
        position += count


def input_types(op_def, attrs):
    """[(argument, base DType)] of the input tensors, given complete attributes."""
    types = []
    for arg in op_def.inputs:
        if arg.type_list_attr:
            types.extend((arg, t) for t in attrs[arg.type_list_attr])
        else:
            count = attrs[arg.number_attr] if arg.number_attr else 1
            types.extend([(arg, arg.dtype or attrs[arg.type_attr])] * count)
    return types


def check_inputs(op_def, name, inputs, attrs):
    """ValueError or TypeError if the number or types of `inputs` do not fit."""
    expected = input_types(op_def, attrs) if _count(op_def, attrs) == len(inputs) else None
    if expected is None:
        raise ValueError(f"Node {name!r} ({op_def.name}) has {len(inputs)} inputs, its schema says "
                         f"{_count(op_def, attrs)}: {op_def.signature()}")
    for tensor, (arg, dtype) in zip(inputs, expected):
        if tensor.dtype.base_dtype is not dtype:
            raise TypeError(f"In op {name!r} ({op_def.name}), input {arg.name!r} must be "
                            f"{dtype.name}, but {tensor.name!r} is {tensor.dtype.base_dtype.name}")
        if arg.is_ref and not tensor.dtype._is_ref_dtype:
            raise TypeError(f"In op {name!r} ({op_def.name}), input {arg.name!r} must be a "
                            f"reference (a variable), but {tensor.name!r} is {tensor.dtype.name}")


def _count(op_def, attrs):
    spans = op_def.input_spans(attrs)
    return spans[-1][1] if spans else 0
