"""ONNX's messages as bytes: the other direction of `messages.read`, by the same table.

Invariants:
1. `read(write(m))` has the fields of `m`.  Repeated numbers are packed, which every parser reads.
2. Arrays are not copied before the last join: `raw_data` may be any buffer.
3. A message of 2 GB or more is never made: protobuf's parsers refuse it.  Tensors that would not
   fit lie in a file beside the model (`external`).

Pure functions but for `external`: any thread.  Source: onnx/onnx.proto.

    write(CLASSES["NodeProto"](op_type="Relu", input=["x"], output=["y"]))
"""

import struct

import numpy as np

from pyflow.framework.wire import varint
from pyflow.interop.onnx.messages import CLASSES
from pyflow.interop.onnx.tensors import NUMBERS

MAX_BYTES = (1 << 31) - (1 << 16)       # of a message; a little is left for what is around
_ALIGNED = 4096                         # where tensors of external data begin


def write(message):
    """The bytes of a message of `messages.CLASSES`.  ValueError beyond protobuf's 2 GB."""
    parts = []
    size = _append(parts, message)
    if size >= 1 << 31:
        raise ValueError(f"the message takes {size} bytes; protobuf reads less than 2 GB")
    return b"".join(parts)


def _append(parts, message):
    """Appends the message's bytes to `parts`; returns how many."""
    size = 0
    for number, field in type(message).fields.items():
        value = message.__dict__.get(field.name)
        if value is None:
            continue
        if not field.repeated:
            size += _append_one(parts, number, field.kind, value)
        elif field.kind in _PACKED:
            if len(value):
                size += _append_bytes(parts, number, _PACKED[field.kind](value))
        else:
            for item in value:
                size += _append_one(parts, number, field.kind, item)
    return size


def _append_one(parts, number, kind, value):
    if kind == "int64":
        data = varint(number << 3) + varint(int(value))
    elif kind == "float":
        data = varint(number << 3 | 5) + struct.pack("<f", value)
    elif kind == "double":
        data = varint(number << 3 | 1) + struct.pack("<d", value)
    elif kind == "string":
        return _append_bytes(parts, number, value.encode())
    elif kind == "bytes":
        return _append_bytes(parts, number, value)
    else:
        inner = []
        length = _append(inner, value)
        head = varint(number << 3 | 2) + varint(length)
        parts.append(head)
        parts.extend(inner)
        return len(head) + length
    parts.append(data)
    return len(data)


def _append_bytes(parts, number, data):
    view = data if isinstance(data, bytes) else memoryview(data).cast("B")
    head = varint(number << 3 | 2) + varint(len(view))
    parts += (head, view)
    return len(head) + len(view)


_PACKED = {"int64": lambda values: b"".join(varint(int(v)) for v in values),
           "float": lambda values: np.asarray(values, "<f4").tobytes(),
           "double": lambda values: np.asarray(values, "<f8").tobytes()}


# Tensors and attributes

def tensor(array, dtype, name=""):
    """The TensorProto of an ndarray whose elements are of a DType."""
    made = CLASSES["TensorProto"](dims=list(array.shape), data_type=NUMBERS[dtype], name=name)
    if array.dtype == object:
        made.string_data = [_bytes(item) for item in array.ravel().tolist()]
    elif array.size:
        plain = np.ascontiguousarray(array)
        made.raw_data = plain.reshape(-1).view(np.uint8)
    return made


def _bytes(item):
    return item.encode() if isinstance(item, str) else bytes(item)


def attribute(name, value, dtypes_of):
    """The AttributeProto of an int, bool, float, str, ndarray, GraphProto, or a list of the first
    four.  dtypes_of: an ndarray's DType."""
    made = CLASSES["AttributeProto"](name=name)
    if isinstance(value, (bool, int, np.integer)):
        made.type, made.i = 2, int(value)
    elif isinstance(value, (float, np.floating)):
        made.type, made.f = 1, float(value)
    elif isinstance(value, (str, bytes)):
        made.type, made.s = 3, _bytes(value)
    elif isinstance(value, np.ndarray):
        made.type, made.t = 4, tensor(value, dtypes_of(value))
    elif isinstance(value, CLASSES["GraphProto"]):
        made.type, made.g = 5, value
    elif value and isinstance(value[0], (float, np.floating)):
        made.type, made.floats = 6, [float(v) for v in value]
    elif value and isinstance(value[0], (str, bytes)):
        made.type, made.strings = 8, [_bytes(v) for v in value]
    else:
        made.type, made.ints = 7, [int(v) for v in value]
    return made


def value_info(name, dtype, dims=None):
    """A ValueInfoProto.  dims: sizes, names of sizes, or None; None: the rank is not said."""
    kind = CLASSES["TypeProto.Tensor"](elem_type=NUMBERS[dtype])
    if dims is not None:
        dimension = CLASSES["TensorShapeProto.Dimension"]
        kind.shape = CLASSES["TensorShapeProto"](dim=[
            dimension() if d is None else dimension(dim_param=d) if isinstance(d, str) else
            dimension(dim_value=int(d)) for d in dims])
    return CLASSES["ValueInfoProto"](name=name, type=CLASSES["TypeProto"](tensor_type=kind))


def external(initializers, path, location, least=1024):
    """Moves the bytes of the TensorProtos of at least `least` bytes to the file at `path`;
    location: its name as the model says it."""
    entry = CLASSES["StringStringEntryProto"]
    with open(path, "wb") as file:
        for proto in initializers:
            if not proto.has("raw_data") or proto.raw_data.nbytes < least:
                continue
            file.write(b"\0" * (-file.tell() % _ALIGNED))
            where = {"location": location, "offset": file.tell(), "length": proto.raw_data.nbytes}
            file.write(proto.raw_data)
            del proto.raw_data
            proto.data_location = 1
            proto.external_data = [entry(key=k, value=str(v)) for k, v in where.items()]
