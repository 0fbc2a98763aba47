"""Schemas as TensorFlow's OpDef messages: what a MetaGraphDef lists, what other tools read.

Loads protobuf; nothing imports this module until a message is asked for.

    op_def_proto(get_op("MatMul")).attr[0].name
"""

from pyflow.framework import protos, wire


def op_def_proto(op_def):
    """The OpDef message of a schema."""
    message = protos.OpDef(name=op_def.name, is_stateful=op_def.stateful)
    for args, field in ((op_def.inputs, message.input_arg), (op_def.outputs, message.output_arg)):
        for arg in args:
            made = field.add(name=arg.name, type_attr=arg.type_attr or "",
                             number_attr=arg.number_attr or "",
                             type_list_attr=arg.type_list_attr or "", is_ref=arg.is_ref)
            if arg.dtype is not None:
                made.type = arg.dtype.as_datatype_enum
    for attr in op_def.attrs.values():
        made = message.attr.add(name=attr.name, type=attr.kind)
        if attr.has_default:
            made.default_value.MergeFromString(wire.encode_attr(attr.default))
        if attr.allowed is not None:
            made.allowed_values.MergeFromString(wire.encode_attr(list(attr.allowed)))
        if attr.minimum is not None:
            made.has_minimum, made.minimum = True, attr.minimum
    return message
