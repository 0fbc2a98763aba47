"""The last pass: GraphDef bytes for the core, one walk, without protobuf.

Invariants
    1. A constant of at least CONST_BYTES that is not a string goes to `consts` (node name ->
       ndarray) instead of the attribute `value`: bytes stay small and nothing big is copied (no 2
       GB limit).
    2. Known static shapes travel as the attribute `_output_shapes`.

Threads: pure functions.

    data, consts = graph_bytes(graph)
"""
from pyflow.framework import graph as graph_lib
from pyflow.framework import wire

CONST_BYTES = 1024
_VERSIONS = wire.encode_versions(graph_lib.PRODUCER_VERSION, graph_lib.MIN_CONSUMER_VERSION)
_shape_attrs = {}


def graph_bytes(graph, library=b""):
    """(GraphDef bytes, consts) of a pass graph; library: bytes of its FunctionDefLibrary."""
    consts = {}
    nodes = [_node_bytes(node, consts) for node in graph.nodes]
    return wire.encode_graph(nodes, _VERSIONS, library), consts


def _node_bytes(node, consts):
    inputs = [f"{source.name}:{index}" if index else source.name for source, index in node.inputs]
    inputs += [f"^{source.name}" for source in node.controls]
    attrs = node.attrs
    if node.op == "Const":
        array = attrs["value"]
        if array.nbytes >= CONST_BYTES and array.dtype != object:
            array.flags.writeable = False       # a plan reads it where it is
            consts[node.name] = array
            attrs = {key: value for key, value in attrs.items() if key != "value"}
    data = wire.encode_node_parts(node.name, node.op, inputs, node.device, attrs)
    if node.shapes and "_output_shapes" not in attrs:
        data += shapes_attr(node.shapes)
    return data


def shapes_attr(shapes):
    """The encoded attribute `_output_shapes`, or nothing if no rank is known."""
    key = tuple([s.as_tuple() for s in shapes])
    found = _shape_attrs.get(key)
    if found is None:
        found = b""
        if any(dims is not None for dims in key):
            entry = wire.field(1, b"_output_shapes") + wire.field(2, wire.encode_attr(list(shapes)))
            found = wire.field(5, entry)
        if len(_shape_attrs) < 50_000:
            _shape_attrs[key] = found
    return found
