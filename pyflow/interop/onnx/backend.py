"""An ONNX backend (onnx.backend.base's interface): `prepare(model).run(inputs)`.

Invariants:
1. The `onnx` package is not needed; `Backend` has the methods onnx.backend.test's runner calls.
2. A prepared model keeps one set of weights and, where an op has to know sizes or values, a graph
   for each of them that is fed (variants.py).

    y, = prepare("model.onnx").run([x])
"""

import numpy as np

from pyflow.framework import dtypes
from pyflow.interop.onnx import messages, small_types
from pyflow.interop.onnx.errors import OnnxError
from pyflow.interop.onnx.maps import as_maps, entries
from pyflow.interop.onnx.model import load
from pyflow.interop.onnx.small_types import codes_of
from pyflow.interop.onnx.tensors import NUMBERS
from pyflow.interop.onnx.variants import Variants


class PreparedModel:
    """A model ready to run (onnx.backend.base.BackendRep)."""

    def __init__(self, model, folder, config=None):
        self._variants = Variants(model, folder, config)
        self.input_names = [info.name for info in self._variants.inputs]
        self.output_names = [info.name for info in model.graph.output]

    def run(self, inputs, **kwargs):
        """Outputs, as ndarrays, for one array per input (a sequence, or a dict by name).

        Raises OnnxError if the number of inputs is wrong, and the errors of import and of a step.
        """
        feeds = self._feeds(inputs)
        variant = self._variants.find(feeds)
        return tuple(native(value, variant.model, name) for value, name in
                     zip(variant.outputs(feeds), variant.model.outputs))

    def close(self):
        """Ends the sessions; the model can run no more."""
        self._variants.close()

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
        return {name: self._array(name, value) for name, value in given.items()}

    def _array(self, name, value):
        kind = self._variants.kinds.get(name)
        if kind is not None and (value is None and kind.optional or kind.sequence):
            return None if value is None else [codes_of(np.asarray(item)) for item in value]
        if kind is not None and kind.entries is not None:
            return entries(value, *kind.entries)
        return codes_of(np.asarray(value))


def native(value, model, name):
    """An output as ONNX's NumPy form has it: strings as str, small types as ml_dtypes', dicts."""
    if isinstance(value, list):
        return [_native(item, tensor.dtype) for item, tensor in zip(value, model.outputs[name])]
    if name in model.map_outputs:
        return as_maps(value, model.map_outputs[name])
    if name in model.small_outputs:
        return small_types.native(np.asarray(value), model.small_outputs[name])
    return _native(value, model.outputs[name].dtype)


def _native(value, dtype):
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
