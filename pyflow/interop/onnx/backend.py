"""An ONNX backend (onnx.backend.base's interface): `prepare(model).run(inputs)`.

Invariants:
1. The `onnx` package is not needed; `Backend` has the methods onnx.backend.test's runner calls.
2. A prepared model owns a graph and a session.  Where an op needs a value while the graph is built
   and it comes from an input (sizes, axes, ...), the model is imported again with what was fed,
   once per value.

    y, = prepare("model.onnx").run([x])
"""

import collections
import threading

import numpy as np

import pyflow as tf
from pyflow.framework import dtypes
from pyflow.interop.onnx import messages
from pyflow.interop.onnx.errors import NeedsConstant, OnnxError
from pyflow.interop.onnx.model import import_model, load
from pyflow.interop.onnx.tensors import NUMBERS

_MAX_BOUND = 4096           # elements of an input that may be built into a graph
_MAX_VARIANTS = 16          # graphs kept per prepared model


class PreparedModel:
    """A model ready to run (onnx.backend.base.BackendRep)."""

    def __init__(self, model, folder, config=None):
        self._proto, self._folder, self._config = model, folder, config
        held = {t.name for t in model.graph.initializer} if model.graph is not None else ()
        self.input_names = [i.name for i in model.graph.input if i.name not in held]
        self.output_names = [o.name for o in model.graph.output]
        self._bound = []                    # inputs that graphs are built for, by value
        self._variants = collections.OrderedDict()
        self._lock = threading.Lock()
        try:
            self._variant({})
        except NeedsConstant as need:
            self._bind(need)

    def _bind(self, need):
        new = [name for name in need.inputs if name not in self._bound]
        if not new:
            raise need
        self._bound += new

    def _variant(self, feeds):
        """(session, ImportedModel) for the values of the inputs that must be known."""
        values = {name: feeds[name] for name in self._bound if name in feeds}
        key = tuple((n, v.shape, v.tobytes()) for n, v in values.items())
        found = self._variants.get(key)
        if found is None:
            graph = tf.Graph()
            model = import_model(self._proto, graph, constants=values, folder=self._folder)
            found = tf.Session(graph=graph, config=self._config), model
            self._variants[key] = found
            if len(self._variants) > _MAX_VARIANTS:
                self._variants.popitem(last=False)      # it may be running: the last user ends it
        self._variants.move_to_end(key)
        return found

    def run(self, inputs, **kwargs):
        """Outputs, as ndarrays, for one array per input (a sequence, or a dict by name).

        Raises OnnxError if the number of inputs is wrong, and the errors of import and of a step.
        """
        feeds = self._feeds(inputs)
        with self._lock:
            session, model = self._find(feeds)
        if not model.outputs:
            return ()
        fetched = session.run(list(model.outputs.values()),
                              {t: feeds[name] for name, t in model.inputs.items()})
        return tuple(_native(value, t.dtype) for value, t in zip(fetched, model.outputs.values()))

    def _find(self, feeds):
        while True:
            try:
                return self._variant(feeds)
            except NeedsConstant as need:
                big = [n for n in need.inputs if feeds[n].size > _MAX_BOUND]
                if big:
                    raise
                self._bind(need)

    def close(self):
        """Ends the sessions; the model can run no more."""
        with self._lock:
            while self._variants:
                self._variants.popitem()[1][0].close()

    def _feeds(self, inputs):
        if isinstance(inputs, dict):
            given = dict(inputs)
        else:
            inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            if len(inputs) != len(self.input_names):
                raise OnnxError(f"the model has {len(self.input_names)} inputs "
                                f"({', '.join(self.input_names)}), {len(inputs)} values are given")
            given = dict(zip(self.input_names, inputs))
        missing = [name for name in self.input_names if name not in given]
        if missing:
            raise OnnxError(f"no value for the input {missing[0]!r}")
        return {name: np.asarray(value) for name, value in given.items()}


def _native(value, dtype):
    """Strings as str, as ONNX's NumPy form has them."""
    value = np.asarray(value)
    if dtype is dtypes.string:
        flat = [v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else v
                for v in value.ravel()]
        made = np.empty(len(flat), object)
        made[:] = flat
        return made.reshape(value.shape)
    return value


def supports_device(device):
    """Whether "CPU" (or another device a plugin brings) is there."""
    return str(device).split(":")[0] == "CPU"


def prepare(model, device="CPU", folder=None, config=None, **kwargs):
    """A PreparedModel.  model: as for `import_model`; config: a tf.ConfigProto."""
    if not supports_device(device):
        raise OnnxError(f"device {device!r} is not supported; expected 'CPU'")
    proto, folder = load(model, folder)
    if proto.graph is None:
        raise OnnxError("the model has no graph")
    return PreparedModel(proto, folder, config)


def run_model(model, inputs, device="CPU", **kwargs):
    """The outputs of a model for one set of inputs."""
    return prepare(model, device, **kwargs).run(inputs)


def run_node(node, inputs, device="CPU", outputs_info=None, opset_version=None, **kwargs):
    """The outputs of one node (an onnx.NodeProto, or its bytes) for arrays as inputs."""
    data = node.SerializeToString() if hasattr(node, "SerializeToString") else node
    proto = messages.read(data, "NodeProto")
    make = messages.CLASSES
    names = [name for name in proto.input if name]
    inputs = [np.asarray(value) for value in inputs]
    graph = make["GraphProto"](node=[proto], output=[
        make["ValueInfoProto"](name=name) for name in proto.output if name], input=[
        _value_info(name, array) for name, array in zip(names, inputs)])
    versions = [(proto.domain, opset_version or 1 << 20)]
    imports = {*versions, ("", versions[0][1])}
    model = make["ModelProto"](graph=graph, opset_import=[
        make["OperatorSetIdProto"](domain=d, version=v) for d, v in imports])
    return run_model(model, inputs, device)


def _value_info(name, array):
    make = messages.CLASSES
    dtype = dtypes.string if array.dtype.kind in "OUS" else dtypes.as_dtype(array.dtype)
    shape = make["TensorShapeProto"](dim=[
        make["TensorShapeProto.Dimension"](dim_value=d) for d in array.shape])
    tensor = make["TypeProto.Tensor"](elem_type=NUMBERS[dtype], shape=shape)
    return make["ValueInfoProto"](name=name, type=make["TypeProto"](tensor_type=tensor))


class Backend:
    """The same as a class, for onnx.backend.test.BackendTest(Backend, __name__)."""

    prepare = staticmethod(prepare)
    run_model = staticmethod(run_model)
    run_node = staticmethod(run_node)
    supports_device = staticmethod(supports_device)

    @staticmethod
    def is_compatible(model, device="CPU", **kwargs):
        """Whether the model can be tried: always; errors say what is missing."""
        return True
