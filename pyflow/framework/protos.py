"""Messages wire-compatible with TensorFlow's: GraphDef, NodeDef, AttrValue, TensorProto,
ConfigProto, ...

Invariants:
1. They live in a private descriptor pool under package `pyflow`, so they never clash with an
   installed TensorFlow; convert between the two by bytes.
2. Only this module and run_metadata (and what they are asked for) import google.protobuf, and
   nothing imports them at module level: `import pyflow` works without loading protobuf.

    from pyflow.framework import protos
    protos.GraphDef.FromString(data).node[0].attr["T"].type == protos.DT_FLOAT

Any thread may use the classes; one message is for one thread.
"""

import functools

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import EncodeError  # noqa: F401 - for who sends

from pyflow.framework import dtypes
from pyflow.framework.protos_table import TABLE

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "double": _Field.TYPE_DOUBLE, "float": _Field.TYPE_FLOAT, "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64, "int32": _Field.TYPE_INT32, "fixed64": _Field.TYPE_FIXED64,
    "bool": _Field.TYPE_BOOL, "string": _Field.TYPE_STRING, "bytes": _Field.TYPE_BYTES,
    "uint32": _Field.TYPE_UINT32}
_PACKAGE = "pyflow"


def _data_types():
    """DataType's values: DT_FLOAT = 1, ..., DT_FLOAT_REF = 101, ..."""
    values = [(0, "DT_INVALID")]
    for dtype in dict.fromkeys(dtypes._BY_NUMBER.values()):
        base = dtypes.schema_name(dtype.base_dtype).upper()
        values.append((dtype._number, f"DT_{base}_REF" if dtype._is_ref_dtype else f"DT_{base}"))
    return values


def _entries(table):
    """(name, body) of each entry of the table, continuation lines joined."""
    name, body = None, ""
    for line in table.strip().splitlines():
        if line.startswith(" "):
            body += " " + line.strip()
            continue
        if name is not None:
            yield name, body
        name, _, body = line.partition(":")
    yield name, body


class _Schema:
    """Turns a table into one FileDescriptorProto."""

    def __init__(self, table, file, package):
        self.file = descriptor_pb2.FileDescriptorProto(name=file, package=package, syntax="proto3")
        self.messages = {}
        self.enums = {"DataType"}
        self._add_enum(self.file, "DataType", _data_types())
        bodies = {}
        for name, body in _entries(table):
            if name.startswith("enum "):
                bodies[name[5:]] = [tuple(v.split()) for v in body.split(";") if v.strip()]
                self.enums.add(name[5:])
            else:
                bodies[name] = body
                self._message(name)
        for name, body in bodies.items():
            if name in self.enums:
                self._add_enum(self._parent(name), name.rpartition(".")[2], body)
            else:
                self._fill(self.messages[name], name, body)

    def _message(self, name):
        found = self.messages.get(name)
        if found is None:
            outer, _, last = name.rpartition(".")
            holder = self._message(outer).nested_type if outer else self.file.message_type
            found = self.messages[name] = holder.add(name=last)
        return found

    def _parent(self, name):
        outer = name.rpartition(".")[0]
        return self._message(outer) if outer else self.file

    def _add_enum(self, parent, name, values):
        enum = parent.enum_type.add(name=name)
        for number, value in values:
            enum.value.add(name=value, number=int(number))

    def _set_type(self, field, type_name):
        if type_name in _SCALARS:
            field.type = _SCALARS[type_name]
        else:
            field.type = _Field.TYPE_ENUM if type_name in self.enums else _Field.TYPE_MESSAGE
            field.type_name = f".{self.file.package}.{type_name}"

    def _fill(self, message, full_name, body):
        oneofs = {}
        for text in body.split(";"):
            words = text.split()
            if not words:
                continue
            number, name, kind = int(words[0]), words[1], words[2]
            field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
            if kind[0] == "<":
                field.label = _Field.LABEL_REPEATED
                field.type = _Field.TYPE_MESSAGE
                entry = self._map_entry(message, name, *kind[1:-1].split(","))
                field.type_name = f".{self.file.package}.{full_name}.{entry}"
                continue
            if kind[0] == "*":
                field.label = _Field.LABEL_REPEATED
                kind = kind[1:]
            self._set_type(field, kind)
            if len(words) == 4:
                oneof = words[3][1:]
                if oneof not in oneofs:
                    oneofs[oneof] = len(oneofs)
                    message.oneof_decl.add(name=oneof)
                field.oneof_index = oneofs[oneof]

    def _map_entry(self, message, field_name, key, value):
        entry = message.nested_type.add(
            name="".join(part.capitalize() for part in field_name.split("_")) + "Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            field = entry.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
            self._set_type(field, kind)
        return entry.name


def build(table, file, package):
    """(descriptor pool, names of the outermost messages) of a table in this module's form."""
    schema = _Schema(table, file, package)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(schema.file)
    return pool, [name for name in schema.messages if "." not in name]


def message_class(pool, package, name, module):
    """The class of a message of `build`'s."""
    found = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
    _give_nested(found)
    found.__module__ = module                   # protobuf leaves None; help() sorts by it
    return found


_pool, _message_names = build(TABLE, "pyflow/messages.proto", _PACKAGE)
__all__ = sorted(_message_names)


def _give_nested(message):
    """The messages within a message as its attributes: protobuf's Python implementation sets none
    (PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python, for packages with generated code of old)."""
    for nested in message.DESCRIPTOR.nested_types:
        if not hasattr(message, nested.name):
            setattr(message, nested.name, message_factory.GetMessageClass(nested))
        _give_nested(getattr(message, nested.name))


_ENUMS_OF_TENSORFLOW = {"Code": "ErrorCode"}         # TensorFlow's is in a package of its own


@functools.cache
def _enums():
    """{name: descriptor} of the enums that are no message's."""
    found = {"DataType", *(name for name, _ in _entries(TABLE) if name.startswith("enum "))}
    names = [name.removeprefix("enum ") for name in found]
    return {name: _pool.FindEnumTypeByName(f"{_PACKAGE}.{name}") for name in names
            if "." not in name}


@functools.cache
def _enum_numbers():
    return {value.name: value.number for enum in _enums().values() for value in enum.values}


def _add_any_methods(any_class):
    """Is, Pack and Unpack, which protobuf's own Any has."""
    def is_(self, descriptor):
        """Whether it holds a message of this descriptor's name, whatever its package."""
        return self.type_url.rpartition("/")[2].rpartition(".")[2] == descriptor.name

    def unpack(self, message):
        """Fills the message with what it holds; False where that is another message."""
        if not is_(self, message.DESCRIPTOR):
            return False
        message.ParseFromString(self.value)
        return True

    def pack(self, message, type_url_prefix="type.googleapis.com/"):
        """Holds a copy of the message."""
        self.type_url = f"{type_url_prefix.rstrip('/')}/tensorflow.{message.DESCRIPTOR.name}"
        self.value = message.SerializeToString()
    any_class.Is, any_class.Unpack, any_class.Pack = is_, unpack, pack


Any = message_class(_pool, _PACKAGE, "Any", __name__)
_add_any_methods(Any)                   # kept here: a class that nobody holds would be made anew


def __getattr__(name):
    """Message classes, enums (`DataType.Name(1)`) and their numbers (`DT_FLOAT`), made at their
    first use."""
    if name in _message_names:
        found = message_class(_pool, _PACKAGE, name, __name__)
    elif _ENUMS_OF_TENSORFLOW.get(name, name) in _enums():
        found = EnumTypeWrapper(_enums()[_ENUMS_OF_TENSORFLOW.get(name, name)])
    elif not name.startswith("_") and name in _enum_numbers():
        found = _enum_numbers()[name]
    else:
        raise AttributeError(f"pyflow.framework.protos has no message {name!r}")
    globals()[name] = found
    return found
