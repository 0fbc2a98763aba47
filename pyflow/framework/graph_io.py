"""Graphs to GraphDefs and back: `as_graph_def`, `import_graph_def`, reading and writing files.

The format is TensorFlow's GraphDef (see wire.py and protos.py). `producer` is TF 1.15's version,
whose op semantics pyflow follows; GraphDefs up to TF 2.21's consumer version are read.
"""

from pyflow.framework import exported, wire
from pyflow.framework.graph_import import import_graph_def
from pyflow.framework.tensor import UNKNOWN_SHAPE

__all__ = ["as_graph_def", "graph_bytes", "import_graph_def", "parse_graph_def"]

_MAX_PROTO_BYTES = 2 ** 31 - 1


def graph_bytes(graph, from_version=None, add_shapes=False):
    """A graph as GraphDef bytes, without loading protobuf.

    from_version: only operations made after that version. add_shapes: attribute `_output_shapes`.
    """
    nodes = []
    with graph._lock:       # another thread's nodes come in whole: their inputs are there, too
        for op in graph.get_operations()[from_version or 0:]:
            shapes = exported.shapes_of(op, UNKNOWN_SHAPE) if add_shapes else None
            nodes.append(wire.encode_node(op, {"_output_shapes": shapes} if shapes else None))
        library = graph._library.as_bytes()
    versions = wire.encode_versions(graph._producer_version, graph._min_consumer)
    return wire.encode_graph(nodes, versions, library)


def as_graph_def(graph, from_version=None, add_shapes=False):
    """A GraphDef of the operations after `from_version` (all by default), functions included.

    ValueError if the constants exceed the 2 GB a protocol buffer can hold.
    """
    from pyflow.framework import protos
    large = sum(op._const_value.nbytes for op in graph.get_operations() if op.type == "Const")
    if large > _MAX_PROTO_BYTES:                # some may be written in fewer bytes
        large = sum(wire.tensor_bytes(op._const_value) for op in graph.get_operations()
                    if op.type == "Const")
    if large > _MAX_PROTO_BYTES:
        raise ValueError(f"GraphDef cannot be larger than 2GB; this graph's constants take {large} "
                         f"bytes. Keep large arrays in variables, fed once through their "
                         f"initializers.")
    return protos.GraphDef.FromString(graph_bytes(graph, from_version, add_shapes))


def parse_graph_def(data):
    """A GraphDef of bytes in binary or text form; ValueError if they are neither."""
    from google.protobuf import message, text_format

    from pyflow.framework import protos
    try:
        return protos.GraphDef.FromString(data)
    except message.DecodeError as error:
        binary_error = error
    try:
        return text_format.Parse(data, protos.GraphDef())
    except (text_format.ParseError, UnicodeDecodeError):
        raise ValueError(f"not a GraphDef: {binary_error}") from None
