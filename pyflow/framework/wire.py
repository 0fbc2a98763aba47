"""GraphDef bytes, written without protobuf; and the step between native attribute values and
protos.

Field numbers are TensorFlow's (graph, node_def, attr_value, tensor, tensor_shape, versions .proto).

Invariants:
1. The bytes are what a deterministic protobuf serialisation of the same message gives: fields in
   order of number, map keys sorted, defaults of plain fields left out.
2. A value's Python type decides its field: str/bytes s, bool b, int i, float f, DType type,
   TensorShape shape, ndarray tensor, FunctionName func, list list.
3. Entries of small attributes are remembered by value, so equal attributes are encoded once.

Pure functions; the memo's entries never change, so any thread may use it.
"""

import struct

import numpy as np

from pyflow.framework import dtypes, exported
from pyflow.framework.dtypes import DType
from pyflow.framework.function_name import FunctionName
from pyflow.framework.tensor_shape import TensorShape

_ONE_BYTE = [bytes((i,)) for i in range(128)]
_MEMO_LIMIT = 50_000
_memo = {}


def varint(number):
    """`number` as a varint; negative ones as 64-bit two's complement."""
    if 0 <= number < 128:
        return _ONE_BYTE[number]
    if number < 0:
        number += 1 << 64
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def header(number, size):
    """What stands before `size` bytes of a length-delimited field."""
    return varint(number << 3 | 2) + varint(size)


def field(number, data):
    """A length-delimited field."""
    return header(number, len(data)) + data


def _int_field(number, value):
    return varint(number << 3) + varint(value) if value else b""


def _utf8(text):
    return text.encode() if isinstance(text, str) else text


# Tensors

# DTypes whose arrays go into tensor_content; the others have value fields, as in TF.
_CONTENT_TYPES = frozenset((
    dtypes.float32, dtypes.float64, dtypes.int32, dtypes.uint8, dtypes.int16, dtypes.int8,
    dtypes.int64, dtypes.uint32, dtypes.uint64, dtypes.float16, dtypes.bfloat16, *dtypes.QUANTIZED))
_BITS16 = (dtypes.float16, dtypes.bfloat16)


def _varints(values):
    return b"".join(map(varint, values))


def _packed_ints(array):
    return _varints(array.astype(np.int64).tolist())


def _packed_bits16(array):
    return _varints(array.view(np.uint16).tolist())


def _packed_raw(array):
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


_VALUE_FIELDS = {
    dtypes.float32: (5, _packed_raw), dtypes.float64: (6, _packed_raw),
    dtypes.int32: (7, _packed_ints), dtypes.int16: (7, _packed_ints),
    dtypes.int8: (7, _packed_ints),
    dtypes.uint8: (7, _packed_ints), dtypes.uint16: (7, _packed_ints),
    dtypes.int4: (7, _packed_ints), dtypes.uint4: (7, _packed_ints),
    dtypes.complex64: (9, _packed_raw), dtypes.int64: (10, _packed_ints),
    dtypes.bool: (11, _packed_raw), dtypes.complex128: (12, _packed_raw),
    dtypes.float16: (13, _packed_bits16), dtypes.bfloat16: (13, _packed_bits16),
    dtypes.uint32: (16, _packed_ints), dtypes.uint64: (17, _packed_ints),
    dtypes.float8_e5m2: (18, _packed_raw), dtypes.float8_e4m3fn: (18, _packed_raw),
}


_REPEAT_BYTES = 1024        # from here on an array whose end repeats is written without its end
_REPEAT_MOST = 8 << 20      # up to here: readers bound what a few bytes may grow to
_VALUE_BYTES = 10           # what an element takes at most in a value field


def encode_shape(shape):
    """A TensorShapeProto."""
    dims = shape.as_tuple() if isinstance(shape, TensorShape) else shape
    if dims is None:
        return b"\x18\x01"
    return b"".join(field(2, _int_field(1, -1 if d is None else d)) for d in dims)


def encode_tensor(array, dtype=None):
    """A TensorProto of an ndarray (strings: an object array of bytes)."""
    dtype = dtype or dtypes.as_dtype(array.dtype)
    head = _int_field(1, dtype.as_datatype_enum) + field(2, encode_shape(array.shape))
    if array.size == 0:
        return head
    given = _given(array)
    if given < array.size:
        array = array.ravel()[:given]               # readers repeat the last element
    elif array.size > 1 and dtype in _CONTENT_TYPES:
        return head + field(4, _packed_raw(array) if array.dtype.names is None else array.tobytes())
    return head + _values(array.ravel(), dtype)


def _values(flat, dtype):
    """The field that has these elements one by one."""
    if dtype is dtypes.string:
        return b"".join(field(8, _utf8(item)) for item in flat.tolist())
    if dtype.is_quantized:
        return field(7, _packed_ints(flat.view(dtype.as_numpy_dtype[0])))
    if dtype not in _VALUE_FIELDS:
        raise TypeError(f"A tensor of type {dtype.name} has no TensorProto")
    number, pack = _VALUE_FIELDS[dtype]
    return field(number, pack(flat))


def encode_whole(array, shape):
    """A TensorProto of `shape` as TensorFlow's make_tensor_proto writes it: the elements given, of
    which readers repeat the last, in the type's field or, all of them, as bytes."""
    dtype = dtypes.as_dtype(array.dtype)
    head = _int_field(1, dtype.as_datatype_enum) + field(2, encode_shape(shape))
    size = 1
    for length in shape:
        size *= length
    if size == array.size > 1 and dtype in _CONTENT_TYPES and dtype not in _BITS16:
        return head + field(4, _packed_raw(array) if array.dtype.names is None else array.tobytes())
    return head + (_values(array.ravel(), dtype) if array.size else b"")


def _given(array):
    """How many elements a value field needs: the last of them is repeated to fill the shape, so
    that tf.constant(0., shape=[1000, 1000]) takes bytes. Small and very large arrays are written
    whole."""
    if (not _REPEAT_BYTES <= array.nbytes <= _REPEAT_MOST or array.dtype == object
            or array.dtype.names is not None):
        return array.size
    flat = np.ascontiguousarray(array).reshape(-1)
    flat = flat.view(np.dtype((np.void, array.itemsize))) if array.itemsize > 8 else flat.view(
        f"u{array.itemsize}")
    if flat[-2] != flat[-1]:
        return flat.size
    other = np.flatnonzero(flat != flat[-1])
    given = int(other[-1]) + 2 if other.size else 1
    return given if given * _VALUE_BYTES < array.nbytes else flat.size


def tensor_bytes(array):
    """How many bytes, about, a TensorProto of the array takes."""
    return min(array.nbytes, _VALUE_BYTES * _given(array))


# Attributes

def _encode_function(value):
    entries = b"".join(field(2, _map_entry(k, v)) for k, v in sorted(value.attrs.items()))
    return (field(1, _utf8(value.name)) if value.name else b"") + entries


def _encode_list(values):
    if not values:
        return b""
    first = values[0]
    if isinstance(first, (str, bytes)):
        return b"".join(field(2, _utf8(v)) for v in values)
    if isinstance(first, bool):
        return field(5, bytes(values))
    if isinstance(first, float) or any(isinstance(v, float) for v in values):
        return field(4, struct.pack(f"<{len(values)}f", *map(_single, values)))
    if isinstance(first, int):
        return field(3, _varints(values))
    if isinstance(first, DType):
        return field(6, _varints(v.as_datatype_enum for v in values))
    if isinstance(first, TensorShape):
        return b"".join(field(7, encode_shape(v)) for v in values)
    if isinstance(first, np.ndarray):
        return b"".join(field(8, encode_tensor(v)) for v in values)
    if isinstance(first, FunctionName):
        return b"".join(field(9, _encode_function(v)) for v in values)
    raise TypeError(f"{first!r} cannot be in a list attribute")


def _single(value):
    """`value` within float32's range: too large ones become infinite, as in a C cast."""
    return value if not abs(value) > 3.4028235e38 else float(np.float32(value))


def encode_attr(value):
    """An AttrValue of a native value."""
    kind = type(value)
    if kind is str or kind is bytes:
        return field(2, _utf8(value))
    if kind is bool:
        return b"\x28\x01" if value else b"\x28\x00"
    if kind is int:
        return b"\x18" + varint(value)
    if kind is float:
        return b"\x25" + struct.pack("<f", _single(value))
    if kind is DType:
        return b"\x30" + varint(value.as_datatype_enum)
    if kind is TensorShape:
        return field(7, encode_shape(value))
    if kind is list or kind is tuple:
        return field(1, _encode_list(value))
    if isinstance(value, np.ndarray):
        return field(8, encode_tensor(value))
    if kind is FunctionName:
        return field(10, _encode_function(value))
    raise TypeError(f"{value!r} of type {kind.__name__} cannot be an attribute; native values are "
                    f"str, bytes, bool, int, float, DType, TensorShape, ndarray, FunctionName and "
                    f"lists")


def _map_entry(name, value):
    return field(1, name.encode()) + field(2, encode_attr(value))


_MEMO_TYPES = frozenset((str, bool, int, DType, TensorShape))


def _attr_field(name, value):
    kind = type(value)
    if kind not in _MEMO_TYPES:
        return field(5, _map_entry(name, value))
    key = (name, kind, value)
    found = _memo.get(key)
    if found is None:
        found = field(5, _map_entry(name, value))
        if len(_memo) < _MEMO_LIMIT:
            _memo[key] = found
    return found


_LARGE_BYTES = 1 << 16       # from here on an array's bytes are copied once, into the node


def _attr_parts(name, value):
    """An attribute's field in parts, for a join: a large array's bytes are a part of their own."""
    if not (isinstance(value, np.ndarray) and value.nbytes >= _LARGE_BYTES):
        return [_attr_field(name, value)]
    dtype = dtypes.as_dtype(value.dtype)
    if dtype not in _CONTENT_TYPES or value.dtype.names or _given(value) < value.size:
        return [_attr_field(name, value)]
    ordered = value.astype(value.dtype.newbyteorder("<"), copy=False)
    content = np.ascontiguousarray(ordered).reshape(-1).view(np.uint8).data
    head = (_int_field(1, dtype.as_datatype_enum) + field(2, encode_shape(value.shape))
            + header(4, len(content)))
    head = header(8, len(head) + len(content)) + head
    head = field(1, name.encode()) + header(2, len(head) + len(content)) + head
    return [header(5, len(head) + len(content)), head, content]


# Nodes and graphs

def _text_field(tag, text):
    data = text.encode()
    size = len(data)
    return tag + (_ONE_BYTE[size] if size < 128 else varint(size)) + data


def _repeated_text_field(tag, text):
    """The same for texts that many nodes have: op types and devices."""
    key = (tag, text)
    found = _memo.get(key)
    if found is None:
        found = _text_field(tag, text)
        if len(_memo) < _MEMO_LIMIT:
            _memo[key] = found
    return found


def encode_node_parts(name, op_type, inputs=(), device="", attrs=None):
    """A NodeDef: `inputs` are strings as in a NodeDef ("a", "a:1", "^a"), `attrs` native values."""
    parts = [_text_field(b"\x0a", name), _repeated_text_field(b"\x12", op_type)]
    for text in inputs:
        parts.append(_text_field(b"\x1a", text))
    if device:
        parts.append(_repeated_text_field(b"\x22", device))
    if attrs:
        for key in sorted(attrs):
            parts += _attr_parts(key, attrs[key])
    return b"".join(parts)


def input_names(op):
    """The operation's inputs as a NodeDef spells them, control inputs last."""
    return [t._as_node_def_input() for t in op._inputs] + [f"^{c.name}" for c in op._control_inputs]


def encode_node(op, extra_attrs=None):
    """The NodeDef of an Operation, as other programs read it: see exported.py."""
    attrs = exported.attrs_of(op)
    if extra_attrs:
        attrs = {**attrs, **extra_attrs}
    return encode_node_parts(op.name, op.type, input_names(op), op._device, attrs)


def encode_versions(producer, min_consumer=0):
    """A VersionDef."""
    return _int_field(1, producer) + _int_field(2, min_consumer)


def encode_graph(nodes, versions, library=b""):
    """A GraphDef of encoded NodeDefs, an encoded VersionDef and FunctionDefLibrary."""
    parts = []
    for node in nodes:
        parts += (b"\x0a", varint(len(node)), node)
    if library:
        parts += (header(2, len(library)), library)
    parts.append(field(4, versions))
    return b"".join(parts)


# Protos to native values and back

def _text(value):
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _native_type(number):
    try:
        return dtypes.as_dtype(int(number))
    except TypeError:
        raise ValueError(f"{number} is no DataType this version knows") from None


def _native_shape(proto):
    return TensorShape(proto)


def _native_tensor(proto):
    from pyflow.framework.tensor_proto import decode_tensor
    return decode_tensor(proto)


def _native_function(proto):
    return FunctionName(proto.name, {key: from_attr_value(v) for key, v in proto.attr.items()})


_FROM_PROTO = {"s": _text, "i": int, "f": float, "b": bool, "type": _native_type,
               "shape": _native_shape, "tensor": _native_tensor, "func": _native_function}


def from_attr_value(value):
    """The native form of an AttrValue (ours or TensorFlow's); other values pass through, strings
    that are UTF-8 as str. ValueError for a malformed AttrValue."""
    if not hasattr(value, "WhichOneof"):
        return _text(value) if isinstance(value, bytes) else value
    kind = value.WhichOneof("value")
    if kind is None:
        raise ValueError("an attribute has no value")
    if kind == "list":
        for key, convert in _FROM_PROTO.items():
            items = getattr(value.list, key)
            if len(items):
                return [convert(item) for item in items]
        return []
    if kind not in _FROM_PROTO:
        raise ValueError(f"an attribute is a {kind}, which only function bodies may hold")
    return _FROM_PROTO[kind](getattr(value, kind))


_KINDS = {"s": "string", "i": "int", "f": "float", "b": "bool", "type": "type", "shape": "shape",
          "tensor": "tensor", "func": "func"}


def require_kind(value, kind):
    """ValueError, in TensorFlow's words, unless an AttrValue is of the kind that a schema says
    ("int", "list(type)"); other values pass."""
    if not hasattr(value, "WhichOneof"):
        return
    field = value.WhichOneof("value")
    if field == "list":
        found = [f"list({_KINDS[f.name]})" for f, _ in value.list.ListFields()] or [
            kind if kind.startswith("list(") else "list"]
    else:
        found = [_KINDS.get(field, field)]
    if found != [kind]:
        raise ValueError(f"AttrValue had value with type '{' and '.join(map(str, found))}' when"
                         f" '{kind}' expected")


def to_tf_value(value):
    """A native value as TF's `get_attr` returns it: bytes, protos for shapes, tensors and
    functions."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (list, tuple)):
        return [to_tf_value(item) for item in value]
    if isinstance(value, TensorShape):
        return value.as_proto()
    if isinstance(value, np.ndarray):
        from pyflow.framework import protos
        return protos.TensorProto.FromString(encode_tensor(value))
    if isinstance(value, FunctionName):
        from pyflow.framework import protos
        return protos.NameAttrList.FromString(_encode_function(value))
    return value
