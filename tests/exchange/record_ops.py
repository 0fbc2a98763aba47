"""Records TensorFlow's ops: signatures, attributes with their defaults, and the static shapes of
the outputs where nothing is known of the inputs.  Needs TensorFlow, not pyflow.

    PYTHON-WITH-TF-1.15.5 tests/exchange/record_ops.py     # adds "1.15.5" to op_tables.json.gz
    PYTHON-WITH-TF-2.21 tests/exchange/record_ops.py       # adds "2.21.0"

A node is of float (or the first type allowed), with one tensor for each list.  Shapes are written
as in tests/shapes: "2,?;*" are two outputs; "!" is a node that TensorFlow refuses without more.
"""
import gzip
import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
TABLES = pathlib.Path(__file__).resolve().parent / "op_tables.json.gz"
sys.path.insert(0, str(TABLES.parent.parent / "ops"))

from record_opdefs import arg_text, value_of  # noqa: E402

FLOAT, INT32, STRING = 1, 3, 7


def all_ops():
    """[OpDef] of every registered op."""
    from tensorflow.core.framework import op_def_pb2
    try:
        from tensorflow.python import pywrap_tensorflow as session
        buffer = session.TF_GetAllOpList
    except AttributeError:
        from tensorflow.python.client import pywrap_tf_session as session
        buffer = session.TF_GetAllOpList
    listed = op_def_pb2.OpList()
    listed.ParseFromString(session.TF_GetBuffer(buffer()))
    return listed.op


def fill(attr, value):
    """A required attribute's value: float, one, empty, unknown."""
    kind, allowed = attr.type, attr.allowed_values.list
    if kind == "type":
        types = list(allowed.type)
        value.type = FLOAT if not types or FLOAT in types else types[0]
    elif kind == "list(type)":
        types = list(allowed.type)
        value.list.type.append(FLOAT if not types or FLOAT in types else types[0])
    elif kind == "int":
        value.i = max(1, attr.minimum)
    elif kind == "string":
        value.s = allowed.s[0] if allowed.s else b""
    elif kind == "shape":
        value.shape.unknown_rank = True
    elif kind == "list(shape)":
        value.list.shape.add().unknown_rank = True
    elif kind == "bool":
        value.b = False
    elif kind == "float":
        value.f = 1.0
    elif kind == "func":
        value.func.name = "nothing"
    elif kind == "tensor":
        value.tensor.dtype = FLOAT
    elif kind == "list(int)":
        value.list.i.extend([1] * max(1, attr.minimum))
    elif kind == "list(float)":
        value.list.f.append(1.0)
    elif kind == "list(string)":
        value.list.s.append(b"a")
    else:
        value.list.SetInParent()


def node_of(op, graph_def):
    """Adds a node of `op`, its inputs placeholders of unknown shape, to a GraphDef."""
    node = type(graph_def.node.add())(op=op.name, name="node")
    del graph_def.node[:]
    for attr in op.attr:
        if not attr.HasField("default_value"):
            fill(attr, node.attr[attr.name])
            if attr.name == "element_dtype" or attr.name == "dtype":
                node.attr[attr.name].type = node.attr[attr.name].type or FLOAT
    defaults = {a.name: a.default_value for a in op.attr if a.HasField("default_value")}

    def given(name):
        return node.attr[name] if name in node.attr else defaults[name]

    for arg in op.input_arg:
        if arg.type_list_attr:
            types = list(given(arg.type_list_attr).list.type)
        else:
            number = given(arg.number_attr).i if arg.number_attr else 1
            types = [arg.type or given(arg.type_attr).type] * number
        for dtype in types:
            made = graph_def.node.add(name="in%d" % len(graph_def.node))
            made.op = "VariableV2" if arg.is_ref else "Placeholder"
            made.attr["dtype"].type = dtype
            made.attr["shape"].shape.unknown_rank = True
            node.input.append(made.name)
    graph_def.node.add().CopyFrom(node)
    return graph_def


def shape_text(shape):
    try:
        return ",".join("?" if d is None else str(d) for d in shape.as_list())
    except ValueError:
        return "*"


def shapes_of(tf, op):
    graph_def = node_of(op, tf.GraphDef())
    graph_def.versions.producer = 134
    with tf.Graph().as_default():
        try:
            node, = tf.import_graph_def(graph_def, name="", return_elements=["node"])
        except Exception:  # noqa: BLE001  what is refused without more has no answer
            return "!"
        return ";".join(shape_text(t.shape) for t in node.outputs)


def default_of(value, types_pb2):
    """A default as plain JSON."""
    shapes = value.list.shape
    if len(shapes):
        return ["?" if s.unknown_rank else [d.size for d in s.dim] for s in shapes]
    return value_of(value, types_pb2)


def in_children(tf, ops):
    """{name: shapes}; an op that ends its process has no answer."""
    found, left = {}, list(ops)
    while left:
        reads, writes = os.pipe()
        child = os.fork()
        if not child:
            for op in left:
                text = shapes_of(tf, op)
                os.write(writes, (op.name + " " + text + "\n").encode())
            os._exit(0)
        os.close(writes)
        with os.fdopen(reads) as lines:
            found.update(line.rstrip("\n").split(" ", 1) for line in lines)
        os.waitpid(child, 0)
        left = [op for op in left if op.name not in found]
        if left:
            found[left.pop(0).name] = "!"
    return found


def main():
    import tensorflow
    from tensorflow.core.framework import types_pb2
    tf = tensorflow.compat.v1
    tf.disable_v2_behavior()
    found, ops = {}, [op for op in all_ops() if not op.name.startswith("_")]
    shapes = in_children(tf, ops)
    for op in ops:
        attrs = {a.name: [a.type] + ([default_of(a.default_value, types_pb2)]
                                     if a.HasField("default_value") else []) for a in op.attr}
        found[op.name] = {"inputs": [arg_text(a, types_pb2) for a in op.input_arg],
                          "outputs": [arg_text(a, types_pb2) for a in op.output_arg],
                          "attrs": attrs, "shapes": shapes[op.name]}
    tables = json.loads(gzip.decompress(TABLES.read_bytes())) if TABLES.exists() else {}
    tables[tf.__version__] = found
    text = json.dumps(tables, sort_keys=True, separators=(",", ":"))
    TABLES.write_bytes(gzip.compress(text.encode()))
    print(tf.__version__, len(found), "ops")


if __name__ == "__main__":
    main()
