"""ONNX's messages, read without protobuf: `read(data, "ModelProto")`.

Invariants:
1. Objects have the field names of onnx.proto, so what is written for the `onnx` package's classes
   reads these as well; a field that is not there has its type's default, or None for a message.
2. `bytes` fields are views of the input, not copies: weights are read where the file lies.
3. Untrusted input gives ValueError (with the message and field) and never more memory than a
   small multiple of the input: lengths are checked, nesting ends at 100, unknown fields are
   skipped.

Pure functions: any thread.  Source: onnx/onnx.proto (field numbers are fixed there for good).

    model = read(open("model.onnx", "rb").read())
    [node.op_type for node in model.graph.node]
"""

import struct

import numpy as np

_MAX_DEPTH = 100
_LEAST_RUN, _RUN_BYTES = 64, 1 << 20    # what is looked at for entries to read at once

# Message: number name type; `*` marks a repeated field.
TABLE = """
ModelProto: 1 ir_version int64; 8 opset_import *OperatorSetIdProto; 2 producer_name string;
    3 producer_version string; 4 domain string; 5 model_version int64; 7 graph GraphProto;
    6 doc_string string;
    14 metadata_props *StringStringEntryProto; 25 functions *FunctionProto
OperatorSetIdProto: 1 domain string; 2 version int64
StringStringEntryProto: 1 key string; 2 value string
GraphProto: 1 node *NodeProto; 2 name string; 10 doc_string string; 5 initializer *TensorProto;
    15 sparse_initializer *SparseTensorProto; 11 input *ValueInfoProto; 12 output *ValueInfoProto;
    13 value_info *ValueInfoProto
NodeProto: 1 input *string; 2 output *string; 3 name string; 4 op_type string; 7 domain string;
    8 overload string; 5 attribute *AttributeProto
AttributeProto: 1 name string; 21 ref_attr_name string; 20 type int64; 2 f float; 3 i int64;
    4 s bytes; 5 t TensorProto; 6 g GraphProto; 22 sparse_tensor SparseTensorProto;
    14 tp TypeProto; 7 floats *float; 8 ints *int64; 9 strings *bytes; 10 tensors *TensorProto;
    11 graphs *GraphProto; 15 type_protos *TypeProto
TensorProto: 1 dims *int64; 2 data_type int64; 4 float_data *float; 5 int32_data *int64;
    6 string_data *bytes; 7 int64_data *int64; 8 name string; 9 raw_data bytes;
    13 external_data *StringStringEntryProto; 14 data_location int64; 10 double_data *double;
    11 uint64_data *int64
SparseTensorProto: 1 values TensorProto; 2 indices TensorProto; 3 dims *int64
TypeProto: 1 tensor_type TypeProto.Tensor; 4 sequence_type TypeProto.Other; 5 map_type
    TypeProto.Map; 9 optional_type TypeProto.Other; 8 sparse_tensor_type TypeProto.Other
TypeProto.Tensor: 1 elem_type int64; 2 shape TensorShapeProto
TypeProto.Other: 1 elem_type bytes
TypeProto.Map: 1 key_type int64; 2 value_type bytes
TensorShapeProto: 1 dim *TensorShapeProto.Dimension
TensorShapeProto.Dimension: 1 dim_value int64; 2 dim_param string
ValueInfoProto: 1 name string; 2 type TypeProto
FunctionProto: 1 name string; 4 input *string; 5 output *string; 6 attribute *string;
    11 attribute_proto *AttributeProto; 7 node *NodeProto; 9 opset_import *OperatorSetIdProto;
    10 domain string; 13 overload string
"""

_DEFAULTS = {"int64": 0, "float": 0.0, "double": 0.0, "string": "", "bytes": b""}


class _Field:
    """One field of a message: its name, type, and what it holds when absent."""

    def __init__(self, name, kind):
        self.name = name
        self.repeated = kind.startswith("*")
        self.kind = kind.lstrip("*")
        self.in_runs = self.repeated and self.kind in ("bytes", "int64", "float", "double")


class Message:
    """Base of all messages: attributes by onnx.proto's names; `has(name)` tells if one was set."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def __getattr__(self, name):
        field = type(self).by_name.get(name)
        if field is None:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        if field.repeated:
            made = self.__dict__[name] = []
            return made
        return _DEFAULTS.get(field.kind)

    def has(self, name):
        """Whether the field was in the bytes."""
        return name in self.__dict__

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(self.__dict__)})"


def _declare():
    classes, name, bodies = {}, None, {}
    for line in TABLE.strip().splitlines():
        if line.startswith(" "):
            bodies[name] += " " + line.strip()
        else:
            name, _, body = line.partition(":")
            bodies[name] = body
    for name, body in bodies.items():
        numbered = {}
        for entry in body.split(";"):
            number, field, kind = entry.split()
            numbered[int(number)] = _Field(field, kind)
        classes[name] = type(name, (Message,), {
            "fields": numbered, "by_name": {f.name: f for f in numbered.values()}})
    return classes


CLASSES = _declare()
NodeProto, AttributeProto = CLASSES["NodeProto"], CLASSES["AttributeProto"]


def read(data, message="ModelProto"):
    """The message in `data` (bytes or a buffer).  Raises ValueError if it is malformed."""
    return _read(memoryview(data).cast("B"), CLASSES[message], 0)


def _varint(view, at, end):
    if at < end and view[at] < 128:         # most are one byte
        return view[at], at + 1
    value = shift = 0
    while True:
        if at >= end or shift > 63:
            raise ValueError("a number is cut off or longer than 10 bytes")
        byte = view[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _signed(value):
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _read(view, message, depth):
    if depth > _MAX_DEPTH:
        raise ValueError(f"{message.__name__}: messages are nested deeper than {_MAX_DEPTH}")
    made = message()
    fields, values, at, end = message.fields, made.__dict__, 0, len(view)
    while at < end:
        key, at = _varint(view, at, end)
        field, wire = fields.get(key >> 3), key & 7
        try:
            if field is not None and field.in_runs and key < 128 and end - at > _LEAST_RUN:
                at = _store_run(values, field, view, at, end, key)
            raw, at = _raw(view, at, end, wire)
            if field is not None:
                _store(values, field, wire, raw, depth)
        except ValueError as error:
            what = field.name if field is not None else f"field {key >> 3}"
            raise ValueError(f"{message.__name__}.{what}: {error}") from None
    return made


def _store_run(values, field, view, at, end, key):
    """Stores entries of a field that is not packed and follows itself, all but the last; `at` is
    behind the first one's key. Returns where the last one's value begins."""
    wire = key & 7
    if field.kind == "bytes" and wire == 2:
        return _store_short_bytes(values, field, view, at, end, key)
    if wire == 0 and field.kind == "int64":
        find = _varint_run
    elif wire == 5 and field.kind == "float" or wire == 1 and field.kind == "double":
        find = _fixed_run
    else:
        return at
    room = _LEAST_RUN
    while True:
        numbers, length = find(np.frombuffer(view[at:min(at + room, end)], np.uint8), key)
        if not len(numbers):
            return at
        _extend(values, field, numbers)
        at += length
        room = min(room * 8, _RUN_BYTES)


def _varint_run(data, key):
    """(numbers that the key follows, bytes they take with it) at the beginning of `data`."""
    ends = np.flatnonzero(data < 128)           # values at even places, keys at odd ones
    keys = ends[1::2]
    same = (data[keys] == key) & (keys == ends[:2 * len(keys):2] + 1)
    count = len(same) if same.all() else int(same.argmin())
    if not count:
        return (), 0
    length = int(keys[count - 1]) + 1
    kept = np.ones(length, bool)
    kept[keys[:count]] = False
    return unpack_varints(data[:length][kept]), length


def _fixed_run(data, key):
    size = 4 if key & 7 == 5 else 8
    rows = data[:len(data) // (size + 1) * (size + 1)].reshape(-1, size + 1)
    same = rows[:, size] == key
    count = len(same) if same.all() else int(same.argmin())
    numbers = np.ascontiguousarray(rows[:count, :size]).view("<f4" if size == 4 else "<f8")
    return numbers.reshape(-1), count * (size + 1)


def _store_short_bytes(values, field, view, at, end, key):
    items = []
    while at < end and view[at] < 128:
        last = at + 1 + view[at]
        if last >= end or view[last] != key:
            break
        items.append(view[at + 1:last])
        at = last + 1
    if items:
        values.setdefault(field.name, []).extend(items)
    return at


def _raw(view, at, end, wire):
    """(int for a varint, view of the bytes otherwise; where the next field starts)."""
    if wire == 0:
        return _varint(view, at, end)
    if wire == 2:
        length, at = _varint(view, at, end)
    elif wire in (1, 5):
        length = 8 if wire == 1 else 4
    else:
        raise ValueError(f"wire type {wire} is not one of onnx.proto's; not an ONNX file, or a "
                         f"damaged one")
    if length > end - at:
        raise ValueError(f"{length} bytes are announced, {end - at} are left")
    return view[at:at + length], at + length


def _store(values, field, wire, raw, depth):
    kind = field.kind
    if kind in ("int64", "float", "double"):
        if field.repeated:
            _extend(values, field, _numbers(kind, wire, raw))
        else:
            numbers = _numbers(kind, wire, raw)
            if not len(numbers):
                raise ValueError("expected a number, got an empty list of them")
            values[field.name] = numbers[-1]
        return
    if wire != 2:
        raise ValueError(f"expected bytes, got wire type {wire}")
    if kind == "string":
        item = str(raw, "utf-8")
    elif kind == "bytes":
        item = raw
    else:
        item = _read(raw, CLASSES[kind], depth + 1)
    if field.repeated:
        values.setdefault(field.name, []).append(item)
    else:
        values[field.name] = item


def _extend(values, field, numbers):
    """Packed numbers stay arrays; a field that comes in several parts is joined."""
    have = values.get(field.name)
    if have is None:
        values[field.name] = numbers
    elif isinstance(have, list):
        have.extend(numbers)
    else:
        values[field.name] = have.tolist() + list(numbers)


def _numbers(kind, wire, raw):
    """The numbers of one field entry: packed or a single one."""
    if kind == "int64":
        if wire == 0:
            return [_signed(raw)]
        if wire != 2:
            raise ValueError(f"expected integers, got wire type {wire}")
        return unpack_varints(raw)
    size, fixed = (4, 5) if kind == "float" else (8, 1)
    if wire == fixed:
        return list(struct.unpack("<f" if size == 4 else "<d", raw))
    if wire != 2 or len(raw) % size:
        raise ValueError(f"expected {kind} numbers, got {len(raw) if wire == 2 else 'wire'} bytes")
    return np.frombuffer(raw, "<f4" if size == 4 else "<f8")


def unpack_varints(raw):
    """int64 array of the varints in `raw`."""
    data = np.frombuffer(raw, np.uint8)
    ends = np.flatnonzero(data < 128)
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        raise ValueError("the last number is cut off")
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)[:len(ends)]
    lengths = ends - starts + 1
    longest = int(lengths.max(initial=0))
    if longest > 10:
        raise ValueError("a number is longer than 10 bytes")
    result = np.zeros(len(ends), np.uint64)
    for k in range(longest):
        has = lengths > k
        part = (data[starts[has] + k] & 127).astype(np.uint64)
        result[has] |= part << np.uint64(7 * k)
    return result.view(np.int64)
