"""`export` and `export_graph_def`: a pyflow graph becomes an ONNX model.

Threads: any, each with graphs that do not change meanwhile.  Called by: programs, and by
`python -m pyflow convert`.
"""

import os

import numpy as np

from pyflow.framework import default_graph, dtypes
from pyflow.framework.function_library import is_call
from pyflow.framework.tensor import Tensor
from pyflow.interop.onnx.errors import OnnxError
from pyflow.interop.onnx.exporter import exporter as exporter_lib
from pyflow.interop.onnx.exporter import loop_shapes, tidy, variables, writing
from pyflow.interop.onnx.exporter.body import onnx_type
from pyflow.interop.onnx.messages import CLASSES

OPSETS = range(13, 24)          # that can be written
_PLACEHOLDERS = ("Placeholder", "PlaceholderV2")
_NO_RESULTS = frozenset((*_PLACEHOLDERS, "Const", "Switch", "_SwitchN", "Merge", "Exit"))
_IR_VERSIONS = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}
_DOMAINS = {"ai.onnx.ml": 3}     # opsets of other domains; 1 else


def export(outputs, inputs=None, path=None, session=None, opset=18, name="pyflow",
           external_data=None, metadata=None):
    """Writes what some tensors are computed from as an ONNX model; returns the model's bytes.

    outputs: a tensor, a name ("y" or "y:0"), a list of these, or a dict of tensors by the names
    that the model's outputs shall have; by default outputs are called as their operations
    ("y", and "y:1" of a second output).  inputs: the same, what the model is fed: placeholders or
    any other tensors, at which the graph is cut; by default the placeholders that are needed, in
    the order they were made.  Sizes that are not known are symbolic dimensions.

    path: where to write it; session: whose values the variables have, by default the default
    session; variables become initializers.  opset: 13 to 23, of ai.onnx; name: the graph's.
    external_data: True puts large weights into the file `path` + ".data" beside it (the bytes that
    are returned then refer to it), False never does; None: only where the model would have 2 GB,
    which protobuf does not read.  metadata: {str: str}, the model's properties.

    Loops and conditionals become Loop and If, TensorArrays and TensorLists the tensors they hold;
    channels-last convolutions are written as ONNX's, in whose order values stay while they can.
    Assertions and prints, which nothing but control inputs need, are left out.

    Raises UnsupportedError, once for all nodes that cannot be written, with their ops and your
    lines; OnnxError (a ValueError) for names and sizes that do not fit; ValueError for variables
    without a session, FailedPreconditionError where they have no value.

        y = tf.nn.softmax(tf.matmul(x, w) + b, name="y")
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            onnx.export(y, path="model.onnx", session=sess)
    """
    graph = _graph_of(outputs, session)
    return _exported(graph, outputs, inputs, path, session, opset, name, external_data, metadata)


def _exported(graph, outputs, inputs, path, session, opset=18, name="pyflow", external_data=None,
              metadata=None, lines=True):
    """`export`.  lines: whether errors name the lines that made the nodes."""
    if opset not in OPSETS:
        raise OnnxError(f"opset {opset!r}: expected one of {OPSETS.start} to {OPSETS.stop - 1}")
    outputs, inputs = _named(outputs, graph, "outputs"), _named(inputs, graph, "inputs")
    if not outputs:
        raise OnnxError("outputs: expected at least one tensor")
    held = variables.Variables(graph, session)
    if _has_calls(graph):
        graph, outputs, inputs = _flat(graph, outputs, inputs)
    inputs = _inputs(graph, outputs, inputs)
    both = [key for key in outputs if key in inputs]
    if both:
        raise OnnxError(f"{both[0]!r} is the name of an input and of an output; give outputs= as a "
                        f"dict of tensors by other names")
    arrays = held.arrays(outputs.values(), inputs.values())
    made, values = exporter_lib.written(outputs, {t: key for key, t in inputs.items()}, arrays,
                                        opset, lines)
    proto = _model(made, outputs, inputs, values, opset, name, metadata)
    return _bytes(proto, path, external_data)


def export_graph_def(graph_def, outputs=None, inputs=None, path=None, opset=18, **options):
    """The same of a frozen GraphDef (a message, of pyflow's or TensorFlow's, or its bytes).

    outputs, inputs: names of tensors; by default the tensors that nothing reads and the
    placeholders that are read.  options: as `export` takes them."""
    import pyflow as tf
    data = graph_def if isinstance(graph_def, (bytes, bytearray, memoryview)) else \
        graph_def.SerializeToString()
    try:
        message = tf.GraphDef.FromString(bytes(data))
    except Exception as error:          # whatever the parser says of bytes that are none
        raise OnnxError(f"not a GraphDef, or a damaged one: {error}") from None
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(message, name="")
        loop_shapes.refine(graph)
        if outputs is None:
            outputs = _unread(graph)
        return _exported(graph, outputs, inputs, path, None, opset, lines=False, **options)


def _unread(graph):
    """The tensors of operations that nothing reads or waits for, but those in loops and of control
    flow; what an operation gives besides what is read of it was not asked for."""
    inside = [op for op in graph.get_operations() if op.type in ("Enter", "RefEnter")]
    looped = set(inside)
    while inside:
        for tensor in inside.pop().outputs:
            for reader in tensor.consumers():
                if reader.type not in ("Exit", "RefExit") and reader not in looped:
                    looped.add(reader)
                    inside.append(reader)
    return [t for op in graph.get_operations() for t in op.outputs
            if not any(o.consumers() for o in op.outputs) and not op.control_outputs
            and op not in looped
            and op.type not in _NO_RESULTS and onnx_type(t.dtype) is not None]


# What is asked for

def _graph_of(outputs, session):
    first = outputs
    if isinstance(outputs, dict):
        first = next(iter(outputs.values()), None)
    elif isinstance(outputs, (list, tuple)):
        first = next((t for t in outputs if not isinstance(t, str)), None)
    graph = getattr(first, "graph", None)
    if graph is None:
        graph = session.graph if session is not None else default_graph.get_default_graph()
    return graph


def _named(tensors, graph, what):
    """{name in the model: Tensor}, or None."""
    if tensors is None:
        return None
    if isinstance(tensors, dict):
        return {str(key): _tensor(t, graph, what) for key, t in tensors.items()}
    if not isinstance(tensors, (list, tuple)):
        tensors = [tensors]
    made = {}
    for item in tensors:
        tensor = _tensor(item, graph, what)
        made[tensor.op.name if tensor.value_index == 0 else tensor.name] = tensor
    return made


def _tensor(item, graph, what):
    if isinstance(item, str):
        try:
            return graph.get_tensor_by_name(item if ":" in item else item + ":0")
        except (KeyError, ValueError) as error:
            raise OnnxError(f"{what}: {error}") from None
    if isinstance(item, Tensor):
        return item
    as_tensor = getattr(item, "_as_graph_element", None)
    tensor = as_tensor() if as_tensor is not None else None
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{what}: expected tensors or their names, got {item!r}")
    return tensor


def _has_calls(graph):
    functions = graph._library.definitions if getattr(graph, "_library", None) is not None else ()
    return any(is_call(op.type, functions) for op in graph.get_operations())


def _flat(graph, outputs, inputs):
    """The same with functions called by the graph written out."""
    import pyflow as tf
    with tf.Graph().as_default() as flat:
        tf.import_graph_def(graph.as_graph_def(), name="")
    loop_shapes.refine(flat)
    return flat, *({key: flat.get_tensor_by_name(t.name) for key, t in group.items()}
                   if group is not None else None for group in (outputs, inputs))


def _inputs(graph, outputs, inputs):
    from pyflow.interop.onnx.exporter.walk import Walk
    walk = Walk(outputs.values(), inputs.values() if inputs is not None else ())
    needed = [op for op in walk.needed if op.type in _PLACEHOLDERS]
    needed.sort(key=lambda op: op._id)
    if inputs is None:
        return {op.name: op.outputs[0] for op in needed}
    missing = [op.name for op in needed if op.outputs[0] not in inputs.values()]
    if missing:
        raise OnnxError(f"the outputs need the placeholders {', '.join(missing)}, which are not "
                        f"among the inputs {list(inputs)}: add them, or ask for outputs that do "
                        f"not need them")
    return inputs


# The message

def _model(made, outputs, inputs, values, opset, name, metadata):
    infos = [writing.value_info(key, _type(t, "input"), _dims(t, key)) for key, t in inputs.items()]
    tidy.name_outputs(made, list(outputs), values)
    tidy.leave_out_unused(made.main, set(outputs))
    used = tidy.names_read(made.main.nodes) | set(outputs)
    graph = CLASSES["GraphProto"](
        node=made.main.nodes, name=name, input=infos,
        output=[writing.value_info(key, _type(t, "output"), t.shape.as_tuple())
                for key, t in outputs.items()],
        initializer=[p for p in made.names.initializers if p.name in used])
    domains = {"": opset, **{d: _DOMAINS.get(d, 1) for d in tidy.domains(made.main.nodes) if d}}
    entry = CLASSES["StringStringEntryProto"]
    from pyflow import pyflow_version
    return CLASSES["ModelProto"](
        ir_version=_IR_VERSIONS[opset], producer_name="pyflow", producer_version=pyflow_version,
        graph=graph, opset_import=[CLASSES["OperatorSetIdProto"](domain=d, version=v)
                                   for d, v in domains.items()],
        metadata_props=[entry(key=str(k), value=str(v)) for k, v in (metadata or {}).items()])


def _type(tensor, what):
    dtype = onnx_type(tensor.dtype)
    if dtype is None:
        raise OnnxError(f"{what} {tensor.name}: ONNX has no tensors of type {tensor.dtype.name}")
    return dtype


def _dims(tensor, name):
    dims = tensor.shape.as_tuple()
    return None if dims is None else [f"{name}_{i}" if d is None else d for i, d in enumerate(dims)]


def _bytes(proto, path, external_data):
    size = sum(np.asarray(p.raw_data).nbytes for p in proto.graph.initializer if p.has("raw_data"))
    if external_data is None:
        external_data = size >= writing.MAX_BYTES
        if external_data and path is None:
            raise OnnxError(f"the weights take {size} bytes; a message has less than 2 GB: give "
                            f"path=, so that they can lie in a file beside it")
    if external_data:
        if path is None:
            raise OnnxError("external_data needs path=, beside which the weights' file lies")
        writing.external(proto.graph.initializer, f"{os.fspath(path)}.data",
                         f"{os.path.basename(os.fspath(path))}.data")
    try:
        data = writing.write(proto)
    except ValueError as error:
        raise OnnxError(f"{error}: give path= and leave external_data to None or True") from None
    if path is not None:
        with open(path, "wb") as file:
            file.write(data)
    return data


__all__ = ["OPSETS", "dtypes", "export", "export_graph_def"]
