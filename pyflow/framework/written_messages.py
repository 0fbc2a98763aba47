"""GraphDefs and FunctionDefs as messages, on their way out: attributes at their defaults removed,
the ops listed that a graph needs.

Loads protobuf; nothing imports this module until a message is written.

    strip_defaults(graph_def); meta.meta_info_def.stripped_op_list.CopyFrom(op_list_of(graph_def))
"""
from pyflow.framework import exported, protos
from pyflow.framework.op import find_op


def function_of(definition):
    """A FunctionDef, which may come from elsewhere, as it is written: itself, or a copy without
    newer attributes at their defaults."""
    if not any(node.op in exported.NEWER for node in definition.node_def):
        return definition
    found = type(definition)()
    found.CopyFrom(definition)
    _drop_defaults(found.node_def, lambda op: exported.NEWER.get(op, ()))
    return found


def strip_defaults(graph_def):
    """Removes the attributes that are at their defaults from a GraphDef's nodes, those of its
    functions too (TF: strip_default_attrs)."""
    for nodes in (graph_def.node, *(f.node_def for f in graph_def.library.function)):
        _drop_defaults(nodes, None)


def give_defaults(graph_def):
    """Gives a GraphDef's nodes the attributes that strip_defaults removed."""
    known = {}
    for node in graph_def.node:
        if node.op not in known:
            known[node.op] = _defaults(node.op, None)
        for name, default in known[node.op].items():
            if name not in node.attr:
                node.attr[name].MergeFromString(default)


def _drop_defaults(nodes, names):
    """names: op -> the attributes that may go; None: all."""
    known = {}
    for node in nodes:
        if node.op not in known:
            known[node.op] = _defaults(node.op, names)
        for name, default in known[node.op].items():
            if name in node.attr and _bytes(node.attr[name]) == default:
                del node.attr[name]


def _defaults(op_type, names):
    """{attribute: bytes of its default} of an op; functions have none."""
    op_def = find_op(op_type)
    attrs = () if op_def is None else op_def.as_proto().attr
    wanted = None if names is None else names(op_type)
    return {a.name: _bytes(a.default_value) for a in attrs
            if a.HasField("default_value") and (wanted is None or a.name in wanted)}


def _bytes(message):
    return message.SerializeToString(deterministic=True)


def op_list_of(graph_def):
    """The OpList of the ops that a GraphDef and its functions use, by name (TF: a MetaGraphDef's
    stripped_op_list)."""
    names = {node.op for node in graph_def.node}
    names.update(node.op for f in graph_def.library.function for node in f.node_def)
    found = (find_op(name) for name in sorted(names))
    return protos.OpList(op=[op_def.as_proto() for op_def in found if op_def is not None])
