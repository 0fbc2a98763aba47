"""Records TensorFlow's OpDefs of the ops pyflow has, into tf_opdefs.json.  Needs TensorFlow, not
pyflow.

    python -c "import pyflow, pyflow.framework.op as o; print(*o.registered_ops())" > names
    .venv-tf/bin/python tests/ops/record_opdefs.py $(cat names)

What is recorded already stays.  One line of text per op, in the grammar of pyflow's signatures, so that the comparison is by eye
too.
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def type_name(number, types_pb2):
    return types_pb2.DataType.Name(number)[3:].lower()


def arg_text(arg, types_pb2):
    kind = arg.type_list_attr or arg.type_attr or type_name(arg.type, types_pb2)
    if arg.number_attr:
        kind = f"{arg.number_attr} * {kind}"
    return f"{arg.name}: Ref({kind})" if arg.is_ref else f"{arg.name}: {kind}"


def value_of(value, types_pb2):
    """A default as plain JSON: types by name, shapes as lists or "?"."""
    kind = value.WhichOneof("value")
    if kind == "list":
        items = value.list
        for field in ("s", "i", "f", "b", "type", "shape"):
            found = list(getattr(items, field))
            if found:
                return [type_name(v, types_pb2) if field == "type" else v.decode() if field == "s"
                        else float(f"{v:.7g}") if field == "f" else v
                        for v in found]
        return []
    if kind == "shape":
        shape = value.shape
        return "?" if shape.unknown_rank else [d.size for d in shape.dim]
    found = getattr(value, kind)
    if kind == "type":
        return type_name(found, types_pb2)
    if kind == "f":
        return float(f"{found:.7g}")
    if kind == "tensor":
        return [type_name(found.dtype, types_pb2), list(found.int_val)]
    return found.decode() if kind == "s" else found


def record(names):
    from tensorflow.core.framework import op_def_pb2, types_pb2
    from tensorflow.python.client import pywrap_tf_session as session
    listed = op_def_pb2.OpList()
    listed.ParseFromString(session.TF_GetBuffer(session.TF_GetAllOpList()))
    by_name = {op.name: op for op in listed.op}
    record_file = HERE / "tf_opdefs.json"
    result = json.loads(record_file.read_text()) if record_file.exists() else {}
    for name in names:
        op = by_name.get(name)
        if op is None:
            continue
        attrs = {a.name: [a.type] + ([value_of(a.default_value, types_pb2)]
                                     if a.HasField("default_value") else []) for a in op.attr}
        result[name] = {"inputs": [arg_text(a, types_pb2) for a in op.input_arg],
                        "outputs": [arg_text(a, types_pb2) for a in op.output_arg],
                        "attrs": dict(sorted(attrs.items())), "stateful": op.is_stateful}
    lines = ",\n".join(f"{json.dumps(n)}: {json.dumps(d)}" for n, d in sorted(result.items()))
    record_file.write_text("{\n" + lines + "\n}\n")
    print(f"{len(result)} ops recorded, {len(set(names) - set(result))} of those asked for are not "
          "TensorFlow's")


if __name__ == "__main__":
    record(sys.argv[1:])
