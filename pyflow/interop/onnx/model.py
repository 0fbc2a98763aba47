"""`import_model`: an ONNX model becomes part of a pyflow graph."""

import os

import numpy as np

import pyflow as tf
from pyflow.framework import dtypes
from pyflow.interop.onnx import files, functions, messages, registry
from pyflow.interop.onnx.errors import OnnxError
from pyflow.interop.onnx.importer import Importer, tensor_type
from pyflow.interop.onnx.trainable import Chosen
from pyflow.session import pause as _pause

_MAX_BYTES = 1 << 36


class ImportedModel:
    """What `import_model` made.

    graph: the tf.Graph; inputs, outputs: tensors by their ONNX names, in the model's order
    (inputs without those that have an initializer or were given as constants); functions: names of
    the model's own functions; opsets: {domain: version}; small_outputs: ONNX's numbers of the
    outputs that are codes of float8, int4 and the like (small_types.py); map_outputs: the keys of
    the outputs that are sequences of maps, whose tensors are the values [maps, keys] (maps.py);
    variables: tf.Variables by the names of the arrays they hold, where `trainable` was given.

    A sequence's entry is a list of tensors, an input map's the pair of its keys and values."""

    def __init__(self, graph, inputs, outputs, functions, opsets, small_outputs=None,
                 map_outputs=None, variables=None):
        self.graph, self.inputs, self.outputs = graph, inputs, outputs
        self.functions, self.opsets = functions, opsets
        self.small_outputs, self.map_outputs = small_outputs or {}, map_outputs or {}
        self.variables = variables or {}

    def __repr__(self):
        return (f"ImportedModel(inputs={{{_listed(self.inputs)}}}, "
                f"outputs={{{_listed(self.outputs)}}})")


def _listed(tensors):
    return ", ".join(f"{name}: {t.dtype.name}{t.shape}" for name, t in tensors.items())


def import_model(model, graph=None, name="", constants=None, shapes=None, folder=None,
                 trainable=False):
    """Adds an ONNX model to a graph; returns an ImportedModel.

    model: a path, the file's bytes, or an onnx.ModelProto.  graph: a tf.Graph, by default the
    current one; name: a scope for the nodes.  constants: arrays by input name, which take the
    place of inputs (some ops need values such as sizes while the graph is built).  shapes: shapes
    by input name, in place of the file's.  folder: where external data lie, by default the
    path's folder.

    trainable: which arrays of the model (initializers, outputs of Constant nodes) become
    tf.Variables, in TRAINABLE_VARIABLES, named and shaped as in the file, with its numbers as
    initial values: names, a function of a name, or True for the weights: all of floating point but
    statistics of batch norms (which are given by name), scales of quantised numbers, settings of
    ops (Clip's bounds, Resize's scales, first states), constants of formulas (one number) and masks
    with infinities.  Batch norms in inference form stay so.

        model = onnx.import_model("net.onnx", trainable=["fc.weight", "fc.bias"])
        step = tf.train.AdamOptimizer(1e-3).minimize(loss(model.outputs["y"]))

    Raises OnnxError (a ValueError) for malformed models, UnsupportedError for ops, types and forms
    pyflow does not have, and where an op has to know an array that `trainable` made a variable;
    NeedsConstant, a kind of it, names inputs to give as constants."""
    proto, folder = load(model, folder)
    return imported(proto, folder, graph, name, constants, shapes, trainable=trainable)


def imported(proto, folder, graph=None, name="", constants=None, shapes=None, weights=None,
             trainable=False, wide_halves=False, only_run=False, named=None):
    """`import_model` of a message that was read.  named: a dict that gets what
    `Importer.named_values` says.  weights: a dict that lives as long as the
    message, in which all imports of it share what it holds.  wide_halves: float16 is computed in
    float32, as onnxruntime does on processors; the inputs and outputs stay float16.  only_run:
    nobody asks for gradients, so ops without one may be used."""
    graph = graph if graph is not None else tf.get_default_graph()
    declared = {info.name: info for info in proto.graph.input} if proto.graph is not None else {}
    constants = {key: _bound(value, key, declared) for key, value in (constants or {}).items()}
    for key in shapes or {}:
        _declared_input("shapes", key, declared)
    importer = Importer(proto, folder, constants, dict(shapes or {}), weights,
                        Chosen(trainable, proto), wide_halves, only_run)
    with graph.as_default(), tf.name_scope(name or None), _pause.collection_paused():
        try:
            inputs, outputs = importer.run()
            if named is not None:
                named.update(importer.named_values())
        finally:
            files.give_back()
    return ImportedModel(graph, inputs, outputs, [f.name for f in proto.functions],
                         importer.opsets, importer.small_outputs, importer.map_outputs,
                         importer.variables)


def load(model, folder=None):
    """(our ModelProto, folder of external data or None) of a path, bytes or an onnx.ModelProto."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        if os.path.getsize(path) > _MAX_BYTES:
            raise OnnxError(f"{path} has more than {_MAX_BYTES} bytes")
        folder = folder or os.path.dirname(os.path.abspath(path))
        data = files.ModelFile(path) if os.path.getsize(path) else b""
    elif isinstance(model, (bytes, bytearray, memoryview)):
        data = model
    elif hasattr(model, "SerializeToString"):
        data = model.SerializeToString()
    elif isinstance(model, messages.CLASSES["ModelProto"]):
        return model, folder
    else:
        raise TypeError(f"model must be a path, bytes or an onnx.ModelProto, got {type(model)}")
    try:
        proto = messages.read(data)
    except ValueError as error:
        raise OnnxError(f"not an ONNX model, or a damaged one: {error}") from None
    if not proto.opset_import and proto.graph is None:
        raise OnnxError("not an ONNX model: it has neither a graph nor opsets")
    if not proto.opset_import:          # IR version 2 and older
        proto.opset_import = [messages.CLASSES["OperatorSetIdProto"](domain="", version=1)]
    return proto, folder


def _declared_input(what, name, declared):
    if name not in declared:
        raise OnnxError(f"{what}: the model has no input {name!r}; it has {list(declared)}")


def _bound(value, name, declared):
    array = np.asarray(value)
    _declared_input("constants", name, declared)
    dtype, _ = tensor_type(declared[name])
    if dtype is dtypes.string:
        return array.astype(object)
    return array.astype(dtype.as_numpy_dtype, copy=False)


def _domain(name):
    return "" if name == "ai.onnx" else name


def supported_ops():
    """Names of the ops that have a converter, "domain.Op" outside of ai.onnx, sorted."""
    return [f"{domain}.{name}" if domain else name for domain, name in registry.names()]


def missing_ops(model, folder=None):
    """What a model needs that pyflow does not have, without importing it.

    Returns ({"Op of opset 13": [names of nodes]}, number of nodes; those of bodies and of the
    model's functions are included).  Raises OnnxError for what is no model.
    """
    proto, _ = load(model, folder)
    own = {(_domain(f.domain), f.name) for f in proto.functions}
    opsets = {_domain(entry.domain): int(entry.version) for entry in proto.opset_import}
    missing, count = {}, 0
    todo = [*proto.functions, *([proto.graph] if proto.graph is not None else [])]
    while todo:
        for node in todo.pop().node:
            count += 1
            todo += [g for a in node.attribute for g in [a.g, *a.graphs] if g is not None]
            domain = _domain(node.domain)
            opset = opsets.get(domain, 0)
            if (domain, node.op_type) not in own and not registry.find(
                    domain, node.op_type, opset) and not functions.has_body(
                    node.op_type, opset, domain):
                title = f"{domain + '.' if domain else ''}{node.op_type} of opset {opset}"
                missing.setdefault(title, []).append(node.name or next(iter(node.output), "?"))
    return missing, count
