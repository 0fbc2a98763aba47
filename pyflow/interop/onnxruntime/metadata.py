"""What a model says of itself: its inputs and outputs with symbolic dimensions, and its metadata.

    NodeArg("x", ["batch", 3, None], "tensor(float)")
"""

from dataclasses import dataclass

from pyflow.framework import dtypes
from pyflow.interop.onnx import messages
from pyflow.interop.onnx.small_types import FORMATS
from pyflow.interop.onnx.tensors import DTYPES, TYPE_NAMES

# Element types as onnxruntime writes them; the others are called as ours.
_NAMES = {dtypes.float32: "float", dtypes.float64: "double"}


def tensor_type_name(dtype):
    """`tensor(float)` for a DType."""
    return f"tensor({_NAMES.get(dtype, dtype.name)})"


def element_dtype(type_name):
    """The DType of `tensor(...)`, or None for what is no tensor or a type that pyflow lacks."""
    return _BY_NAME.get(type_name)


_SMALL = {f"tensor({made.onnx})": number for number, made in FORMATS.items()}


def small_number(type_name):
    """ONNX's number of a float8, int4, ... tensor type, else None."""
    return _SMALL.get(type_name)


_NO_VERSION = 2**63 - 1             # what onnxruntime says of a model that has none
_BY_NAME = {tensor_type_name(dtype): dtype for dtype in DTYPES.values()}


class NodeArg:
    """An input or output: name, type (as `tensor(float)`) and shape (sizes, names, None)."""

    def __init__(self, name, shape, type):
        self.name, self.shape, self.type = name, shape, type

    def __str__(self):
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


@dataclass(frozen=True)
class ModelMetadata:
    """The model's own words; custom_metadata_map: its metadata_props."""

    custom_metadata_map: dict
    description: str
    domain: str
    graph_description: str
    graph_name: str
    producer_name: str
    version: int


def metadata_of(model):
    """The ModelMetadata of our ModelProto."""
    return ModelMetadata({entry.key: entry.value for entry in model.metadata_props},
                         model.doc_string, model.domain, model.graph.doc_string, model.graph.name,
                         model.producer_name,
                         int(model.model_version) if model.has("model_version") else _NO_VERSION)


def node_arg(info, tensor=None):
    """The NodeArg of a ValueInfoProto.  tensor: the graph's, for what the file does not say."""
    kind = info.type
    tensor_type = kind.tensor_type if kind is not None else None
    if tensor_type is None:
        if tensor is None or kind is not None:
            return NodeArg(info.name, [], _type_name(kind))
        return NodeArg(info.name, _known(tensor), tensor_type_name(tensor.dtype.base_dtype))
    shape = _known(tensor) if tensor is not None else []
    if tensor_type.shape is not None:
        said = [_size(dim) for dim in tensor_type.shape.dim]
        known = shape if len(shape) == len(said) else [None] * len(said)
        shape = [a if b is None else b for a, b in zip(said, known)]
    return NodeArg(info.name, shape, _type_name(kind))


def _size(dim):
    if dim.dim_param:
        return dim.dim_param
    return int(dim.dim_value) if dim.has("dim_value") and dim.dim_value >= 0 else None


def _known(tensor):
    if isinstance(tensor, list):        # a sequence
        return []
    return list(tensor.shape.as_tuple() or ())


def _type_name(kind, depth=0):
    """onnxruntime's name of a TypeProto."""
    if kind is None or depth > 8:
        return "unknown"
    if kind.tensor_type is not None:
        number = kind.tensor_type.elem_type
        dtype = DTYPES.get(number)
        return tensor_type_name(dtype) if dtype is not None else \
            f"tensor({TYPE_NAMES.get(number, number)})"
    for field, text in (("sequence_type", "seq"), ("optional_type", "optional")):
        inner = getattr(kind, field)
        if inner is not None:
            return f"{text}({_type_name(messages.read(inner.elem_type, 'TypeProto'), depth + 1)})"
    if kind.map_type is not None:
        key = DTYPES.get(kind.map_type.key_type)
        value = _type_name(messages.read(kind.map_type.value_type, "TypeProto"), depth + 1)
        return f"map({key.name if key is not None else 'unknown'},{value})"
    return "unknown"
