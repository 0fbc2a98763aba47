"""The grammar of op signatures: reads `a: T, b: N * T -> c: T; T: {float, int32}` and writes it.

One grammar serves the `@op` decorator, the C kernels' table and ops that plugins declare in C:

    signature = args "->" args ";" attrs          args = [arg {"," arg}]
    arg       = name ":" ["Ref" "("] [N "*"] type-or-attr [")"]
    attr      = name ":" kind [">=" int] ["=" value]
    kind      = int float bool string type shape tensor func, or list(kind), or {allowed values}
    value     = literal of the kind; types by TF name (float, half, int32); shapes `?`, `[2, -1]`;
                lists in [ ]; strings in double quotes; tensors, vectors, `uint8 [1, 2]`

Invariants:
1. `parse_signature(text)` and `format_signature(...)` are inverses up to white space, but for
   defaults of tensors: nodes made here always have them, so the C core's parser knows none.
2. Values are native: DType, TensorShape, str, int, float, bool, ndarray, or a list of one of these.

Pure functions over immutable data; any thread.
"""

import re

import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.tensor_shape import TensorShape

KINDS = frozenset(("int", "float", "bool", "string", "type", "shape", "tensor", "func"))
_TOKEN = re.compile(r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*') |
    (?P<mark>->|>=|[:,;={}\[\]()*?]) |
    (?P<word>[-+]?[A-Za-z0-9_.][A-Za-z0-9_.+\-]*) |
    (?P<end>$)
    )""", re.VERBOSE)


class NoDefault:
    """The default of an attribute that has none."""

    def __repr__(self):
        return "<no default>"


NO_DEFAULT = NoDefault()


class ArgDef:
    """One input or output of an op: a tensor, or a list of tensors (`is_list`)."""

    __slots__ = ("name", "dtype", "type_attr", "number_attr", "type_list_attr", "is_ref", "is_list",
                 "doc")

    def __init__(self, name, dtype=None, type_attr=None, number_attr=None, type_list_attr=None,
                 is_ref=False):
        self.name = name
        self.dtype = dtype
        self.type_attr = type_attr
        self.number_attr = number_attr
        self.type_list_attr = type_list_attr
        self.is_ref = is_ref
        self.is_list = number_attr is not None or type_list_attr is not None
        self.doc = ""

    def __str__(self):
        kind = self.type_list_attr or self.type_attr or dtypes.schema_name(self.dtype)
        if self.number_attr:
            kind = f"{self.number_attr} * {kind}"
        return f"{self.name}: Ref({kind})" if self.is_ref else f"{self.name}: {kind}"

    __repr__ = __str__


class AttrDef:
    """One attribute of an op. `kind` is "int", "type", "list(int)", ...; `allowed` a tuple or
    None."""

    __slots__ = ("name", "kind", "element_kind", "is_list", "default", "allowed", "minimum")

    def __init__(self, name, kind, default=NO_DEFAULT, allowed=None, minimum=None):
        self.name = name
        self.kind = kind
        self.is_list = kind.startswith("list(")
        self.element_kind = kind[5:-1] if self.is_list else kind
        self.default = default
        self.allowed = allowed
        self.minimum = minimum

    @property
    def has_default(self):
        return self.default is not NO_DEFAULT

    def __str__(self):
        kind = self.element_kind
        if self.allowed is not None:
            kind = "{" + ", ".join(format_value(v) for v in self.allowed) + "}"
        if self.is_list:
            kind = f"list({kind})"
        minimum = f" >= {self.minimum}" if self.minimum is not None else ""
        default = f" = {format_value(self.default)}" if self.has_default else ""
        return f"{self.name}: {kind}{minimum}{default}"

    __repr__ = __str__


def format_value(value):
    """`value` as the grammar writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dtypes.DType):
        return dtypes.schema_name(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, TensorShape):
        dims = value.as_tuple()
        return "?" if dims is None else "[" + ", ".join(str(-1 if d is None else d)
                                                        for d in dims) + "]"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(format_value(v) for v in value) + "]"
    if isinstance(value, np.ndarray):
        return f"{dtypes.schema_name(dtypes.as_dtype(value.dtype))} {value.tolist()}"
    return repr(value)


class _Reader:
    """Tokens of one signature, with errors that show where."""

    def __init__(self, text, what):
        self.text = text
        self.what = what
        self.position = 0
        self.advance()

    def advance(self):
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            self.start = self.position
            self.fail("unexpected character")
        self.kind = match.lastgroup
        self.token = match.group(match.lastgroup)
        self.start = match.start(match.lastgroup)
        self.position = match.end()

    def fail(self, problem):
        raise ValueError(f"{self.what}: {problem} at column {self.start + 1} of {self.text!r}")

    def take(self, token):
        if self.token != token or self.kind == "string":
            return False
        self.advance()
        return True

    def expect(self, token):
        if not self.take(token):
            self.fail(f"expected {token!r}, got {self.token or 'the end'!r}")

    def word(self, what):
        if self.kind != "word":
            self.fail(f"expected {what}, got {self.token or 'the end'!r}")
        word = self.token
        self.advance()
        return word


def _type_named(name):
    """The DType a schema calls `name`, or None: only TF's schema names and ours."""
    found = dtypes._BY_NAME.get(name)
    return found if found is not None and found.base_dtype is found else None


def _read_args(reader):
    args = []
    while reader.kind == "word":
        name = reader.word("an argument name")
        reader.expect(":")
        is_ref = reader.take("Ref")
        if is_ref:
            reader.expect("(")
        first = reader.word("a type or attribute name")
        number = None
        if reader.take("*"):
            number, first = first, reader.word("a type or attribute name")
        if is_ref:
            reader.expect(")")
        args.append((name, first, number, is_ref))
        if not reader.take(","):
            break
    return args


def _read_value(reader, kind):
    if kind.startswith("list("):
        reader.expect("[")
        values = []
        while not reader.take("]"):
            if values:
                reader.expect(",")
            values.append(_read_value(reader, kind[5:-1]))
        return values
    if kind == "string":
        if reader.kind != "string":
            reader.fail("expected a quoted string")
        text = re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]),
                      reader.token[1:-1])
        reader.advance()
        return text
    if kind == "shape":
        if reader.take("?"):
            return TensorShape(None)
        sizes = [None if d < 0 else d for d in _read_value(reader, "list(int)")]
        return TensorShape(sizes)
    if kind == "tensor":
        return _read_tensor(reader)
    word = reader.word(f"a value of kind {kind}")
    try:
        return _scalar_value(word, kind)
    except ValueError:
        reader.fail(f"{word!r} is no value of kind {kind}")


def _read_tensor(reader):
    dtype = _type_named(reader.word("an element type"))
    if dtype is None:
        reader.fail("expected an element type")
    numbers = _read_value(reader, "list(float)" if dtype.is_floating else "list(int)")
    array = np.array(numbers, dtype.as_numpy_dtype)
    array.flags.writeable = False
    return array


def _scalar_value(word, kind):
    if kind == "type":
        dtype = _type_named(word)
        if dtype is None:
            raise ValueError(word)
        return dtype
    if kind == "bool":
        if word not in ("true", "false", "True", "False"):
            raise ValueError(word)
        return word in ("true", "True")
    if kind == "int":
        return int(word)
    if kind == "float":
        return float(word)
    raise ValueError(word)


def _read_allowed(reader):
    """`{float, int32}` or `{"SAME", "VALID"}` -> (element kind, values)."""
    kind = "string" if reader.kind == "string" else "type"
    allowed = []
    while not reader.take("}"):
        if allowed:
            reader.expect(",")
        allowed.append(_read_value(reader, kind))
    return kind, tuple(allowed)


def _read_kind(reader):
    is_list = reader.take("list")
    if is_list:
        reader.expect("(")
    allowed = None
    if reader.take("{"):
        kind, allowed = _read_allowed(reader)
    else:
        kind = reader.word("an attribute kind")
        if kind not in KINDS:
            reader.fail(f"unknown attribute kind {kind!r}")
        if kind == "string" and reader.take("{"):
            kind, allowed = _read_allowed(reader)
    if is_list:
        reader.expect(")")
        kind = f"list({kind})"
    return kind, allowed


def _read_attrs(reader):
    attrs = []
    while reader.kind == "word":
        name = reader.word("an attribute name")
        reader.expect(":")
        kind, allowed = _read_kind(reader)
        minimum = int(reader.word("a minimum")) if reader.take(">=") else None
        default = _read_value(reader, kind) if reader.take("=") else NO_DEFAULT
        attrs.append(AttrDef(name, kind, default, allowed, minimum))
        if not reader.take(","):
            break
    return attrs


def _resolve_args(raw_args, attrs, what):
    """ArgDefs of raw arguments; attributes they mention but nobody declared are added."""
    args = []
    for name, first, number, is_ref in raw_args:
        if number is not None:
            attrs.setdefault(number, AttrDef(number, "int", minimum=1))
            if attrs[number].kind != "int":
                raise ValueError(f"{what}: argument {name!r} is repeated {number!r} times, "
                                 f"but that attribute is a {attrs[number].kind}, not an int")
        dtype = _type_named(first) if first not in attrs else None
        if dtype is not None:
            args.append(ArgDef(name, dtype, None, number, None, is_ref))
            continue
        kind = attrs.setdefault(first, AttrDef(first, "type")).kind
        if kind == "type":
            args.append(ArgDef(name, None, first, number, None, is_ref))
        elif kind == "list(type)" and number is None:
            args.append(ArgDef(name, None, None, None, first, is_ref))
        else:
            raise ValueError(f"{what}: argument {name!r} has type {first!r}, which is a {kind} "
                             f"attribute")
    return args


def _finish(reader, raw_inputs, raw_outputs, attr_list):
    attrs = {}
    for attr in attr_list:
        if attr.name in attrs:
            raise ValueError(f"{reader.what}: attribute {attr.name!r} is declared twice")
        attrs[attr.name] = attr
    inputs = _resolve_args(raw_inputs, attrs, reader.what)
    outputs = _resolve_args(raw_outputs, attrs, reader.what)
    for group, kind in ((inputs, "input"), (outputs, "output")):
        names = [a.name for a in group]
        if len(set(names)) != len(names):
            raise ValueError(f"{reader.what}: two {kind}s have one name: {names}")
    return inputs, outputs, attrs


def parse_signature(text, what="signature"):
    """(inputs, outputs, attrs) of a whole signature; ValueError with the column of a mistake."""
    reader = _Reader(text, what)
    raw_inputs = _read_args(reader)
    reader.expect("->")
    raw_outputs = _read_args(reader)
    attr_list = _read_attrs(reader) if reader.take(";") else []
    if reader.kind != "end":
        reader.fail("expected the end")
    return _finish(reader, raw_inputs, raw_outputs, attr_list)


def parse_parts(inputs, outputs, attrs, constraints, what):
    """As `parse_signature`, from the parts `@op` gets; `constraints` maps attributes to DTypes."""
    reader = _Reader(f"{inputs} -> {outputs}; {attrs}", what)
    raw_inputs = _read_args(reader)
    reader.expect("->")
    raw_outputs = _read_args(reader)
    reader.expect(";")
    attr_list = _read_attrs(reader)
    if reader.kind != "end":
        reader.fail("expected the end")
    declared = {attr.name: attr for attr in attr_list}
    for name, allowed in constraints.items():
        if name not in declared:
            declared[name] = AttrDef(name, "type")
            attr_list.append(declared[name])
        if declared[name].element_kind not in ("type", "string"):
            raise ValueError(f"{what}: {name}={allowed!r} limits an attribute of kind "
                             f"{declared[name].kind}; only types and strings can be listed")
        if declared[name].element_kind == "type":
            allowed = [dtypes.as_dtype(t) for t in allowed]
        declared[name].allowed = tuple(allowed)
    return _finish(reader, raw_inputs, raw_outputs, attr_list)


def format_signature(inputs, outputs, attrs):
    """The canonical text of a signature, as the C core's parser reads it."""
    left, right = ", ".join(map(str, inputs)), ", ".join(map(str, outputs))
    text = f"{left} -> {right}"
    if attrs:
        text += "; " + ", ".join(str(a).partition(" = ")[0] if a.kind == "tensor" else str(a)
                                 for a in attrs.values())
    return text
