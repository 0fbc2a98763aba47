"""A signature of a SavedModel as a frozen GraphDef: what the converter and the tools read.

    frozen = freezing.freeze(export_dir, signature="serving_default")
    frozen.graph_def, frozen.inputs, frozen.outputs       # {name of the signature: tensor name}

Threads: functions without state; a session of its own restores the variables.
"""
from typing import NamedTuple

from pyflow.framework import errors, graph as graph_lib
from pyflow.lib.files import remote
from pyflow.saved_model import folders, reading, signatures

_TABLES = ("HashTableV2", "HashTable", "MutableHashTableV2", "MutableHashTable",
           "MutableDenseHashTableV2", "MutableDenseHashTable", "MutableHashTableOfTensorsV2")


class Frozen(NamedTuple):
    """graph_def: variables are keys. inputs, outputs: {name in the signature: tensor name}, in
    the order of the names."""

    graph_def: object
    inputs: dict
    outputs: dict


def freeze(export_dir, tags=None, signature=None):
    """The Frozen of one signature.

    tags: of the MetaGraph; None: {"serve"}, or the only one. signature: its name; None:
    "serving_default", or the only one.
    Raises IOError, RuntimeError (no such tags), ValueError (no such signature, or one that needs a
    table: those have contents that a GraphDef cannot hold), tf.errors.OpError.
    """
    from pyflow.interop import graph_util
    from pyflow.session import Session
    meta_graph = folders.meta_graph(folders.read(export_dir), tags, export_dir)
    name, found = signatures.chosen(meta_graph, signature, export_dir)
    inputs = signatures.names_of(found.inputs, "input", export_dir)
    outputs = signatures.names_of(found.outputs, "output", export_dir)
    graph = graph_lib.Graph()
    give_state = reading.import_into(graph, meta_graph, None, export_dir)
    wanted = [_named(graph, tensor, name, export_dir).op.name for tensor in outputs.values()]
    for tensor in inputs.values():
        _named(graph, tensor, name, export_dir)
    _require_no_tables(graph, wanted, name, export_dir)
    _read_all_variables(graph)
    with Session(graph=graph) as sess:
        give_state(sess)
        kept = list(dict.fromkeys([*wanted, *(t.partition(":")[0] for t in inputs.values())]))
        made = graph_util.convert_variables_to_constants(sess, graph.as_graph_def(), kept)
    return Frozen(made, inputs, outputs)


def _named(graph, tensor, signature, where):
    try:
        return graph.get_tensor_by_name(tensor)
    except (KeyError, ValueError, TypeError) as e:
        raise ValueError(f"SavedModel '{remote.local_name(where)}', signature {signature!r}: the graph has "
                         f"no tensor {tensor!r}: {e}") from None


def _require_no_tables(graph, wanted, signature, where):
    seen, stack = set(), [graph.get_operation_by_name(name) for name in wanted]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type in _TABLES:
            raise errors.UnimplementedError(None, None, (
                f"SavedModel '{remote.local_name(where)}', signature {signature!r} needs the table "
                f"'{op.name}' ({op.type}), whose contents a frozen GraphDef cannot hold: load it "
                f"with tf.saved_model.loader.load, or run it with `python -m pyflow run`"))
        stack.extend([t.op for t in op.inputs] + list(op.control_inputs))


def _read_all_variables(graph):
    """A plain read of each variable behind a handle, so that its value can be fetched: in loops
    they are read through Enter alone."""
    from pyflow.ops.state import resource_handles as handles
    with graph.as_default(), graph_lib.name_scope("freezing"):
        for op in graph.get_operations():
            if op.type == "VarHandleOp":
                handles.ReadVariableOp(op.outputs[0], dtype=op.attr("dtype"))
