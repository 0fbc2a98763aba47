"""tensorflow.python.framework.op_def_registry: the signatures of all ops, as OpDef messages.

    signature = get_registered_ops()["MatMul"]
    [a.name for a in signature.input_arg], signature.is_stateful        # ['a', 'b'], False

Callers: tensorflow_hub 0.1, which asks which ops hold state. Ops of plugins that are loaded later
are in the next answer. Threads: any.
"""
from pyflow.framework import op as op_lib, protos, wire


def get_registered_ops():
    """{name of an op: its OpDef}, a new dict. Every op is loaded, which takes a second once."""
    return {name: _message(op_def) for name, op_def in op_lib.registered_ops().items()}


def register_op_list(op_list):
    """Nothing for ops that are here; ValueError names those that are not: a signature alone
    computes nothing, a plugin brings the kernel with it."""
    missing = [op.name for op in op_list.op if op_lib.find_op(op.name) is None]
    if missing:
        raise ValueError(f"no such op here: {', '.join(missing)}; tf.load_op_library loads a "
                         f"plugin that brings ops")


def _message(op_def):
    made = protos.OpDef(name=op_def.name, is_stateful=bool(op_def.stateful))
    for arguments, into in ((op_def.inputs, made.input_arg), (op_def.outputs, made.output_arg)):
        for arg in arguments:
            into.add(name=arg.name, type=arg.dtype.as_datatype_enum if arg.dtype else 0,
                     type_attr=arg.type_attr or "", number_attr=arg.number_attr or "",
                     type_list_attr=arg.type_list_attr or "", is_ref=arg.is_ref)
    for attr in op_def.attrs.values():
        shown = made.attr.add(name=attr.name, type=attr.kind)
        if attr.minimum is not None:
            shown.has_minimum, shown.minimum = True, attr.minimum
        if attr.has_default and attr.default is not None:
            shown.default_value.MergeFromString(wire.encode_attr(attr.default))
        if attr.allowed is not None:
            shown.allowed_values.MergeFromString(wire.encode_attr(list(attr.allowed)))
    return made
