"""Bodies of ops that ONNX defines as functions of others, where pyflow has no converter.

The bodies come from the `onnx` package if it is installed; without it such ops are unsupported.
"""

from pyflow.interop.onnx import messages


def _schema(op, opset, domain):
    try:
        from onnx import defs
        return defs.get_schema(op, opset, domain)
    except Exception:       # no onnx, or no such op: defs.SchemaError is no public name
        return None


def has_body(op, opset, domain):
    """Whether ONNX defines the op as a function (and the onnx package is there to ask)."""
    schema = _schema(op, opset, domain)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def schema_function(node, domain):
    """The FunctionProto of an op at the node's opset, or None."""
    schema = _schema(node.op, node.opset, domain)
    if schema is None:
        return None
    if schema.has_function:
        body = messages.read(schema.function_body.SerializeToString(), "FunctionProto")
        given = {a.name for a in body.attribute_proto}
        body.attribute_proto.extend(
            messages.read(a.default_value.SerializeToString(), "AttributeProto")
            for a in schema.attributes.values() if a.default_value.name and a.name not in given)
        return body
    if schema.has_context_dependent_function:
        try:
            return _context_dependent(node, schema)
        except (ValueError, TypeError, KeyError) as error:
            raise node.error(f"ONNX's own definition: {error}") from None
    return None


def _context_dependent(node, schema):
    """The body of a function that depends on the types of the node's inputs."""
    import onnx

    from pyflow.interop.onnx.tensors import NUMBERS
    proto = onnx.NodeProto(op_type=node.op, domain=node.proto.domain)
    proto.input.extend(node.proto.input)
    proto.output.extend(node.proto.output)
    for name in node.attr_names():
        value = node.attr(name)
        if isinstance(value, (int, float, str, list)):
            proto.attribute.append(onnx.helper.make_attribute(name, value))
    types = []
    for value in node.inputs:
        made = onnx.TypeProto()
        if value is not None:
            made.tensor_type.elem_type = value.small or NUMBERS[value.dtype]
        types.append(made.SerializeToString())
    body = schema.get_context_dependent_function(proto.SerializeToString(), types)
    return messages.read(body, "FunctionProto") if body else None


def without(nodes, absent):
    """The nodes with the names in `absent` (optional inputs that are not given) taken out."""
    if not absent:
        return nodes
    gone, made = set(absent), []
    for node in nodes:
        if gone.isdisjoint(node.input):
            made.append(node)
            continue
        copy = messages.NodeProto(**node.__dict__)
        copy.input = ["" if name in gone else name for name in node.input]
        made.append(copy)
    return made
