"""One-node ONNX models written as bytes, without the onnx package: what the sweep's cases are made
of.

    case = Case("Softmax", 13, [data(2, 3)], {"axis": 0})
    case.model(), case.feeds()          # bytes of a ModelProto, {"i0": array}

Field numbers are those of onnx/onnx.proto."""
import struct
import zlib

import numpy as np

F, D, H = np.float32, np.float64, np.float16
_NUMBERS = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
            "object": 8, "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13}
DTYPES = {number: np.dtype(name) for name, number in _NUMBERS.items()}
_IR = 8                     # a version that every opset's reader takes


# values
def data(*shape, dtype=F, seed=1, low=-3.0, high=3.0):
    """Numbers spread over [low, high), the same on every machine; integers for integer types."""
    count = int(np.prod(shape))
    steps = (np.arange(count, dtype=np.int64) * 389 + seed * 7451 + 113) % 997
    values = low + steps * ((high - low) / 997)
    if np.dtype(dtype) == bool:
        return (steps % 2 == 0).reshape(shape)
    if np.dtype(dtype).kind in "iu":
        low = max(low, 0) if np.dtype(dtype).kind == "u" else low
        values = low + steps % max(int(high - low) + 1, 1)
    return values.astype(dtype).reshape(shape)


def ints(*values, dtype=np.int64):
    """A vector of integers."""
    return np.array(values, dtype)


def texts(*values, shape=None):
    """An array of str."""
    made = np.array([*values, None], object)[:-1]
    return made if shape is None else made.reshape(shape)


# protobuf
def _varint(n):
    n &= (1 << 64) - 1
    made = bytearray()
    while n > 127:
        made.append(n & 127 | 128)
        n >>= 7
    return bytes(made) + bytes([n])


def _field(number, value):
    if isinstance(value, (int, np.integer)):
        return _varint(number << 3) + _varint(int(value))
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _message(*fields):
    return b"".join(_field(number, value) for number, value in fields)


def _tensor(array, name=""):
    head = [(1, d) for d in array.shape] + [(2, _NUMBERS[array.dtype.name])]
    if array.dtype == object:
        return _message(*head, *[(6, s) for s in array.ravel()], (8, name))
    return _message(*head, (9, np.ascontiguousarray(array).tobytes()), (8, name))


class Graph(bytes):
    """A GraphProto, as an attribute's value or a model's."""


def graph(nodes, inputs=(), outputs=(), arrays=None):
    """nodes: from `node`; inputs, outputs: (name, dtype or None, shape or None); arrays by name."""
    return Graph(_message(*[(1, n) for n in nodes], (2, "g"),
                          *[(5, _tensor(a, n)) for n, a in (arrays or {}).items()],
                          *[(11, _info(*i)) for i in inputs], *[(12, _info(*o)) for o in outputs]))


def _info(name, dtype=None, shape=None):
    if dtype is None:
        return _message((1, name))
    tensor = [(1, _NUMBERS[np.dtype(dtype).name])]
    if shape is not None:
        dims = [_message((2, d) if isinstance(d, str) else (1, d)) for d in shape]
        tensor.append((2, _message(*[(1, d) for d in dims])))
    return _message((1, name), (2, _message((1, _message(*tensor)))))


def node(op, inputs, outputs, attributes=None, domain=""):
    """A NodeProto; inputs and outputs: names, "" for what is left out."""
    return _message(*[(1, i) for i in inputs], *[(2, o) for o in outputs], (3, "node"), (4, op),
                    *[(5, _attribute(k, v)) for k, v in (attributes or {}).items()],
                    *([(7, domain)] if domain else []))


def _attribute(name, value):
    if isinstance(value, Graph):
        return _message((1, name), (6, value), (20, 5))
    if isinstance(value, bool) or isinstance(value, (int, np.integer)):
        return _message((1, name), (3, int(value)), (20, 2))
    if isinstance(value, float):
        return _message((1, name), (2, value), (20, 1))
    if isinstance(value, str):
        return _message((1, name), (4, value), (20, 3))
    if isinstance(value, np.ndarray):
        return _message((1, name), (5, _tensor(value)), (20, 4))
    first = value[0] if value else 0
    number, kind = (7, 6) if isinstance(first, float) else (9, 8) if isinstance(first, str) \
        else (8, 7)
    return _message((1, name), *[(number, v) for v in value], (20, kind))


def model(graph, opsets):
    """The bytes of a ModelProto; opsets: {domain: version}."""
    return _message((1, _IR), (7, graph), *[(8, _message((1, d), (2, v)))
                                            for d, v in opsets.items()])


# cases
class Case:
    """One node with values for its inputs.

    inputs: arrays, None for one that is left out.  const: which inputs are initializers ("all",
    or places); unknown: no size of a fed input is declared.  loose: only types and shapes are
    compared.  tolerance: how much more noise than usual is fine."""

    def __init__(self, op, opset, inputs, attributes=None, const=(), outputs=1, unknown=False,
                 loose=False, tolerance=1, domain=""):
        self.op, self.opset, self.domain = op, opset, domain
        self.inputs = [a if a is None else np.asarray(a) for a in inputs]
        self.attributes = dict(attributes or {})
        const = range(len(self.inputs)) if const == "all" else const
        self.const = {i for i in const if i < len(self.inputs) and self.inputs[i] is not None}
        self.outputs, self.unknown, self.loose, self.tolerance = outputs, unknown, loose, tolerance
        self.name = " ".join(filter(None, [
            f"{op}-{opset}", *[f"{k}={_short(v)}" for k, v in self.attributes.items()],
            *[_described(a) + ("c" if i in self.const else "") for i, a in enumerate(self.inputs)],
            "unknown" if unknown else ""]))

    @property
    def turnable(self):
        """Whether the first input is fed and has channels."""
        return 0 not in self.const and self.inputs and self.inputs[0] is not None \
            and self.inputs[0].ndim > 2

    def model(self, turned=False):
        """The bytes of a ModelProto.  turned: the first input comes channels-last, through a
        Transpose."""
        names = [f"i{k}" if a is not None else "" for k, a in enumerate(self.inputs)]
        fed = []
        for (name, array), k in zip(self._fed(turned).items(), self._places()):
            shape = [f"d{k}_{i}" for i in range(array.ndim)] if self.unknown else array.shape
            fed.append((name, array.dtype, shape))
        arrays = {names[k]: self.inputs[k] for k in sorted(self.const)}
        outputs = [f"o{k}" for k in range(self.outputs)]
        nodes = [node(self.op, names, outputs, self.attributes, self.domain)]
        if turned:
            rank = self.inputs[0].ndim
            nodes.insert(0, node("Transpose", ["last"], ["i0"],
                                 {"perm": [0, rank - 1, *range(1, rank - 1)]}))
        made = graph(nodes, fed, [(o,) for o in outputs], arrays)
        return model(made, {"": self.opset, self.domain: self.opset})

    def _places(self):
        return [k for k, a in enumerate(self.inputs) if a is not None and k not in self.const]

    def _fed(self, turned):
        made = {f"i{k}": self.inputs[k] for k in self._places()}
        if turned:
            x = made.pop("i0")
            made = {"last": np.ascontiguousarray(np.moveaxis(x, 1, -1)), **made}
        return made

    def feeds(self, turned=False):
        """Arrays by input name."""
        return self._fed(turned)

    def digest(self):
        """A number that changes with the model and its inputs."""
        total = zlib.crc32(self.model())
        for array in self.feeds().values():
            raw = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
            total = zlib.crc32(raw, total)
        return total


def _short(value):
    if isinstance(value, Graph):
        return f"graph{zlib.crc32(value) % 997}"
    if isinstance(value, np.ndarray):
        return _described(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_short(v) for v in value) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _described(array):
    if array is None:
        return "-"
    if array.ndim <= 1 and array.size <= 8 and array.dtype.kind in "iub":
        return f"{array.dtype.name}:{array.tolist()}".replace(" ", "")
    return f"{array.dtype.name}[{','.join(map(str, array.shape))}]"


FAMILIES = {}           # op -> generator function(c, op, version): c makes a Case of that version


def sweep(*ops):
    """Registers a function that yields cases of each of the ops at one version."""
    def register(function):
        FAMILIES.update(dict.fromkeys(ops, function))
        return function
    return register
