"""GraphDef bytes written directly: one pass, no protobuf import, equal values encoded once.

Field numbers are TensorFlow's (graph.proto, node_def.proto, attr_value.proto, tensor.proto,
tensor_shape.proto, types.proto).

Invariants
    1. What is written parses as GraphDef with any protobuf library, the values in `consts` excepted.
    2. A constant of at least CONST_BYTES that is not a string goes to `consts` (node name -> ndarray) instead of the
       attribute `value`, so bytes stay small and nothing big is copied.
    3. Encoding depends only on values, so it is memoised by them.

Threads: pure functions; the memo tables are dicts whose entries never change.

    data, consts = graph_bytes(graph)
"""
import struct

import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.tensor_shape import TensorShape

CONST_BYTES = 1024
PRODUCER = 27                        # GraphDef version of TF 1.15 (1.x graphs: 24 to 134)
_memo = {}


def varint(n):
    """`n` as a protobuf varint; negative numbers as 64-bit two's complement."""
    if n < 0:
        n += 1 << 64
    if n < 128:
        return _ONE_BYTE[n]
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


_ONE_BYTE = [bytes([i]) for i in range(128)]


def field(number, data):
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def _utf8(text):
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


# ---------------------------------------------------------------- attribute values

def shape_bytes(shape):
    """TensorShapeProto."""
    dims = TensorShape(shape).as_tuple()
    if dims is None:
        return b"\x18\x01"
    return b"".join(field(2, b"\x08" + varint(-1 if d is None else int(d))) for d in dims)


def tensor_bytes(array, dtype=None):
    """TensorProto of an ndarray."""
    array = np.asarray(array)
    dtype = dtypes.as_dtype(dtype if dtype is not None else array.dtype).base_dtype
    head = b"\x08" + varint(dtype.as_datatype_enum) + field(2, shape_bytes(array.shape))
    if dtype == dtypes.string:
        return head + b"".join(field(8, _utf8(s)) for s in array.ravel().tolist())
    return head + field(4, np.ascontiguousarray(array).tobytes())


def _type_enum(value):
    return varint(value.as_datatype_enum)


def _func_bytes(value):
    name = value if isinstance(value, (str, bytes)) else value.name
    return field(1, _utf8(name))


_SCALAR = {
    "string": lambda v: field(2, _utf8(v)),
    "int": lambda v: b"\x18" + varint(int(v)),
    "float": lambda v: b"\x25" + struct.pack("<f", v),
    "bool": lambda v: b"\x28\x01" if v else b"\x28\x00",
    "type": lambda v: b"\x30" + _type_enum(v),
    "shape": lambda v: field(7, shape_bytes(v)),
    "tensor": lambda v: field(8, v.SerializeToString() if hasattr(v, "SerializeToString") else tensor_bytes(v)),
    "func": lambda v: field(10, v.SerializeToString() if hasattr(v, "SerializeToString") else _func_bytes(v)),
}
_LIST = {
    "string": lambda vs: b"".join(field(2, _utf8(v)) for v in vs),
    "int": lambda vs: field(3, b"".join(varint(int(v)) for v in vs)),
    "float": lambda vs: field(4, struct.pack(f"<{len(vs)}f", *vs)),
    "bool": lambda vs: field(5, bytes(bool(v) for v in vs)),
    "type": lambda vs: field(6, b"".join(_type_enum(v) for v in vs)),
    "shape": lambda vs: b"".join(field(7, shape_bytes(v)) for v in vs),
    "tensor": lambda vs: b"".join(field(8, tensor_bytes(v)) for v in vs),
    "func": lambda vs: b"".join(field(9, _func_bytes(v)) for v in vs),
}


def kind_of(value):
    """The attribute kind of a native value: for attributes that no schema declares (`_class`, ...)."""
    if isinstance(value, (list, tuple)):
        return f"list({kind_of(value[0]) if value else 'int'})"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, np.integer)):
        return "int"
    if isinstance(value, (float, np.floating)):
        return "float"
    if isinstance(value, (str, bytes)):
        return "string"
    if isinstance(value, dtypes.DType):
        return "type"
    if isinstance(value, TensorShape):
        return "shape"
    if isinstance(value, np.ndarray):
        return "tensor"
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be an attribute of a node")


def attr_bytes(value, kind):
    """AttrValue."""
    if hasattr(value, "SerializeToString") and kind not in ("tensor", "func"):
        return value.SerializeToString()          # an AttrValue kept as it was imported
    if kind.startswith("list("):
        return field(1, _LIST[kind[5:-1]](value) if len(value) else b"")
    return _SCALAR[kind](value)


def _memo_key(name, value, kind):
    """A hashable key, or None: shapes and arrays are not memoised by value."""
    if type(value) is list:
        if kind in ("list(int)", "list(type)", "list(string)", "list(bool)"):
            return name, kind, tuple(value)
        return None
    return (name, kind, value) if kind in ("int", "type", "string", "bool") else None


def attr_entry(name, value, kind):
    """One entry of NodeDef.attr."""
    key = _memo_key(name, value, kind)
    found = _memo.get(key) if key is not None else None
    if found is None:
        found = field(5, field(1, _utf8(name)) + field(2, attr_bytes(value, kind)))
        if key is not None and len(_memo) < 100_000:
            _memo[key] = found
    return found


# ---------------------------------------------------------------- nodes

def _kinds(node):
    """Attribute name -> kind, from the op's schema."""
    op_def = getattr(node.origin, "op_def", None)
    if op_def is None or op_def.name != node.op:
        return {}
    return op_def.attrs


def _attrs(node, consts):
    kinds, out = _kinds(node), []
    for name, value in node.attrs.items():
        if name == "value" and node.op == "Const":
            array = node.origin._const_value if node.origin is not None else None
            if array is not None and array.dtype != object and array.nbytes >= CONST_BYTES:
                consts[node.name] = array
                continue
            value = array if array is not None else value
            out.append(field(5, field(1, b"value") + field(2, field(8, _const_bytes(node, value)))))
            continue
        declared = kinds.get(name)
        out.append(attr_entry(name, value, declared.kind if declared is not None else kind_of(value)))
    shapes = node.shapes
    if shapes and "_output_shapes" not in node.attrs and any(s.ndims is not None for s in shapes):
        out.append(_shapes_entry(shapes))
    return b"".join(out)


def _const_bytes(node, value):
    if hasattr(value, "SerializeToString"):
        return value.SerializeToString()
    return tensor_bytes(value, node.attrs["dtype"])


def _shapes_entry(shapes):
    key = ("_output_shapes", *[s.as_tuple() for s in shapes])
    found = _memo.get(key)
    if found is None:
        found = field(5, field(1, b"_output_shapes") + field(2, attr_bytes(shapes, "list(shape)")))
        if len(_memo) < 100_000:
            _memo[key] = found
    return found


def node_bytes(node, consts):
    """NodeDef; a big constant is added to `consts`."""
    parts = [field(1, _utf8(node.name)), field(2, _utf8(node.op))]
    for source, index in node.inputs:
        parts.append(field(3, _utf8(f"{source.name}:{index}" if index else source.name)))
    for source in node.controls:
        parts.append(field(3, b"^" + _utf8(source.name)))
    if node.device:
        parts.append(field(4, _utf8(node.device)))
    parts.append(_attrs(node, consts))
    return b"".join(parts)


def graph_bytes(graph):
    """(GraphDef bytes, consts) of a pass graph."""
    consts, parts = {}, []
    for node in graph.nodes:
        parts.append(field(1, node_bytes(node, consts)))
    parts.append(field(4, b"\x08" + varint(PRODUCER)))
    return b"".join(parts), consts
