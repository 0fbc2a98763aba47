"""Graphs as text and as DOT: what PYFLOW_DUMP writes and `python -m pyflow explain` prints.

    %x = Placeholder() {dtype: float, shape: [?, 4]} : float[?, 4]
    %y = MatMul(%x, %W/read) {transpose_b: true} : float[?, 2]
    %z = Switch(%y, %p) : float[?, 2], float[?, 2] @ /device:CPU:1 (follows its input y) ^%init

Invariants
    1. One line per node, in the graph's order; equal graphs give equal text (golden tests compare
       it).
    2. Attributes that equal their schema's default are left out, as are the type attributes that
       the printed types show.
"""
import os

import numpy as np

from pyflow import config
from pyflow.framework import dtypes
from pyflow.framework.tensor_shape import TensorShape

MAX_ITEMS = 8


def text(graph):
    """The whole graph, one node per line."""
    return "".join(line(node) + "\n" for node in graph.nodes)


def line(node):
    """One node."""
    inputs = ", ".join(f"%{s.name}:{i}" if i else f"%{s.name}" for s, i in node.inputs)
    parts = [f"%{node.name} = {node.op}({inputs})"]
    attrs = attributes(node)
    if attrs:
        parts.append("{" + ", ".join(f"{k}: {v}" for k, v in attrs) + "}")
    types = _types(node)
    if types:
        parts.append(": " + types)
    if node.device:
        parts.append("@ " + _short_device(node.device) + (f" ({node.why})" if node.why else ""))
    if node.controls:
        parts.append(" ".join(f"^%{c.name}" for c in node.controls))
    return " ".join(parts)


def _short_device(device):
    return device.replace("/job:localhost/replica:0/task:0", "")


def attributes(node):
    """[(name, text)] of the attributes worth showing, sorted."""
    op_def = _schema(node)
    declared = op_def.attrs if op_def is not None else {}
    shown = []
    for name in sorted(node.attrs):
        if name == "_output_shapes":
            continue
        value, schema = _native(node.attrs[name]), declared.get(name)
        if schema is not None and schema.kind == "type" and _is_shown_type(node, value):
            continue
        if schema is not None and schema.has_default and _equal(schema.default, value):
            continue
        shown.append((name, value_text(value)))
    return shown


def _schema(node):
    op_def = getattr(node.origin, "op_def", None)
    if op_def is not None and op_def.name == node.op:
        return op_def
    from pyflow.framework import op as op_lib
    return op_lib.find_op(node.op)


def _is_shown_type(node, value):
    return any(t.base_dtype == value for t in node.types or _declared_types(node))


def _equal(a, b):
    if isinstance(a, TensorShape) or isinstance(b, TensorShape):
        return TensorShape(a).as_tuple() == TensorShape(b).as_tuple()
    return type(a) is type(b) and not isinstance(a, np.ndarray) and a == b


def _native(value):
    """AttrValue messages of an imported file become native values."""
    if hasattr(value, "SerializeToString"):
        from pyflow.framework import wire
        return wire.from_attr_value(value)
    return value


def _types(node):
    types = node.types or _declared_types(node)
    shapes = node.shapes or _native(node.attrs.get("_output_shapes", ())) or [None] * len(types)
    if len(shapes) != len(types):
        shapes = [None] * len(types)
    return ", ".join(type_text(t) + shape_text(s) for t, s in zip(types, shapes))


def _declared_types(node):
    """Output types of a node of a file: from its schema and attributes, as far as they say."""
    op_def = _schema(node)
    if op_def is None:
        return ()
    types = []
    for arg in op_def.outputs:
        if arg.type_list_attr:
            types.extend(_native(node.attrs.get(arg.type_list_attr, ())))
            continue
        dtype = arg.dtype or _native(node.attrs.get(arg.type_attr))
        count = _native(node.attrs.get(arg.number_attr)) if arg.number_attr else 1
        if isinstance(dtype, dtypes.DType) and isinstance(count, int):
            types.extend([dtype] * count)
    return tuple(types)


def type_text(dtype):
    """`float`, `int32`, `Ref(float)`."""
    name = dtypes.schema_name(dtype.base_dtype)
    return f"Ref({name})" if dtype._is_ref_dtype else name


def shape_text(shape):
    """`[?, 4]`; nothing for an unknown rank."""
    dims = None if shape is None else TensorShape(shape).as_tuple()
    return "" if dims is None else "[" + ", ".join("?" if d is None else str(d) for d in dims) + "]"


def value_text(value):
    """An attribute value, long ones abridged."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, bytes)):
        value = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
        return '"' + (value if len(value) <= 60 else value[:57] + "...") + '"'
    if isinstance(value, dtypes.DType):
        return type_text(value)
    if isinstance(value, TensorShape):
        return shape_text(value) or "?"
    if isinstance(value, np.ndarray):
        return _array_text(value)
    if isinstance(value, (list, tuple)):
        items = [value_text(v) for v in value[:MAX_ITEMS]]
        return "[" + ", ".join(items) + (", ..." if len(value) > MAX_ITEMS else "") + "]"
    if isinstance(value, float):
        return repr(value)
    return str(value)


def _array_text(array):
    shape = list(array.shape)
    if array.size <= MAX_ITEMS:
        return str(array.tolist())
    if array.dtype.kind in "fiu":
        return f"<{array.dtype.name}{shape} mean {array.mean():.4g} std {array.std():.4g}>"
    return f"<{array.dtype.name}{shape}>"


def dot(graph):
    """The graph in DOT, devices as clusters."""
    lines = ["digraph pyflow {", "  rankdir=TB; node [shape=box, fontname=Helvetica, fontsize=10];"]
    by_device = {}
    for node in graph.nodes:
        by_device.setdefault(_short_device(node.device), []).append(node)
    for number, (device, nodes) in enumerate(by_device.items()):
        if device:
            lines.append(f"  subgraph cluster_{number} {{ label={_quoted(device)};")
        lines += [
            f"    {_quoted(n.name)} [label={_quoted(n.name + chr(10) + n.op)}];" for n in nodes
        ]
        if device:
            lines.append("  }")
    for node in graph.nodes:
        lines += [f"  {_quoted(s.name)} -> {_quoted(node.name)}" + (f" [label={i}];" if i else ";")
                  for s, i in node.inputs]
        lines += [
            f"  {_quoted(c.name)} -> {_quoted(node.name)} [style=dashed];" for c in node.controls
        ]
    return "\n".join(lines) + "\n}\n"


def _quoted(name):
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


_dumped = 0


def dumper():
    """A function (pass name, graph, or text about it) that writes to the folder PYFLOW_DUMP, or None when that is not
    set.

    Files: plan-000/01-built.txt, plan-000/02-pruned.txt, ...: one folder per plan, in the order of
    compiling.
    """
    root = config.value("PYFLOW_DUMP")
    if not root:
        return None
    global _dumped
    folder, step = os.path.join(root, f"plan-{_dumped:03}"), 0
    _dumped += 1
    os.makedirs(folder, exist_ok=True)

    def dump(name, graph):
        nonlocal step
        step += 1
        with open(os.path.join(folder, f"{step:02}-{name}.txt"), "w", encoding="utf-8") as f:
            f.write(graph if isinstance(graph, str) else text(graph))
    return dump
