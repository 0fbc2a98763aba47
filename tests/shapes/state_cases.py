"""Nodes on variables, as GraphDefs: what neither samples nor recorded values of ops reach.

Every op whose signature has a variable, by reference or handle, becomes a right node by the names
of its inputs, and then nodes with one input of another shape, of an unknown one, or of a partly
unknown one; a variable of a slot likewise.  Both libraries import the GraphDef; the answer is the
shape of each output, or what was raised.

    python -P tests/shapes/state_cases.py FILE           # writes {id: GraphDef}, for record_state.py
"""
import importlib
import pickle
import pkgutil
import re
import sys

import pyflow
import pyflow.ops
from pyflow.framework import protos
from pyflow.framework.op import registered_ops

STATE = re.compile(r"(Resource)?(Sparse)?Apply|(Resource)?Scatter|(Resource)?StridedSliceAssign$|Assign"
                   r"|(Resource)?CountUpTo$|ReadVariableOp$|ResourceGather|VariableShape$|IsVariableInitialized$"
                   r"|VarIsInitializedOp$|DestroyResourceOp$")
SCALARS = frozenset("""lr alpha beta beta1 beta2 beta1_power beta2_power epsilon rho momentum l1 l2
    l2_shrinkage lr_power global_step logbase sign_decay gradient_accumulator_scale""".split())
SHAPE, ROWS = (3, 4), 2
OTHERS = ((), (7,), (3,), (4, 3), (2, 4), (3, 4, 1), None, (None, 4), (None, None), (None,))
FLOAT, INT32 = 1, 3


def state_ops():
    for module in pkgutil.walk_packages(pyflow.ops.__path__, "pyflow.ops."):
        importlib.import_module(module.name)
    return {name: op for name, op in sorted(registered_ops().items()) if STATE.match(name)}


def right_inputs(op):
    """[(input's name, how: "state", "value" or "numbers", shape or numbers)]."""
    found = []
    for arg in op.as_proto().input_arg:
        name = arg.name
        if arg.is_ref or arg.type == pyflow.resource.as_datatype_enum:
            found.append((name, "state", SHAPE))
        elif op.name.endswith("StridedSliceAssign") and name in ("begin", "end", "strides"):
            found.append((name, "numbers", {"begin": (0, 1), "end": (2, 3), "strides": (1, 1)}[name]))
        elif name in SCALARS:
            found.append((name, "value", ()))
        else:
            found.append((name, "value", _shape(op.name, name)))
    return found


def _shape(op, name):
    if name == "indices":
        return (ROWS, 2) if op == "ResourceGather" else (ROWS, 1) if "Nd" in op else (ROWS,)
    if op.endswith("StridedSliceAssign"):
        return (2, 2)
    return (ROWS, *SHAPE[1:]) if "Sparse" in op or "Scatter" in op else SHAPE


def types_of(op):
    """{attribute: DataType}: float where it may be."""
    found = {}
    for attr in op.as_proto().attr:
        if attr.type == "type" and not attr.HasField("default_value"):
            allowed = list(attr.allowed_values.list.type)
            found[attr.name] = INT32 if attr.name in ("Tindices", "Index") or allowed and FLOAT not in allowed else FLOAT
    return found


def graph_of(op, inputs):
    graph, proto, types = protos.GraphDef(), op.as_proto(), types_of(op)
    graph.versions.producer = 134
    node = protos.NodeDef(op=op.name, name="node")
    for name, dtype in types.items():
        node.attr[name].type = dtype
    for arg, (name, how, what) in zip(proto.input_arg, inputs):
        dtype = arg.type or types.get(arg.type_attr) or dict(
            (a.name, a.default_value.type) for a in proto.attr)[arg.type_attr]
        by_handle = dtype == pyflow.resource.as_datatype_enum
        made = graph.node.add(name=name, op={"value": "Placeholder", "numbers": "Const"}.get(how) or (
            "VarHandleOp" if by_handle else "VariableV2"))
        made.attr["dtype"].type = next((t for n, t in types.items() if n in ("T", "dtype")), FLOAT) if by_handle else dtype
        if how == "numbers":
            made.attr["value"].tensor.dtype = dtype
            made.attr["value"].tensor.tensor_shape.dim.add(size=len(what))
            made.attr["value"].tensor.int_val.extend(what)
        else:
            shape = made.attr["shape"].shape
            shape.unknown_rank = what is None
            for size in what or ():
                shape.dim.add(size=-1 if size is None else size)
        node.input.append(name)
    for attr in proto.attr:
        if attr.name == "limit":
            node.attr["limit"].i = 10
        elif attr.HasField("default_value"):
            node.attr[attr.name].CopyFrom(attr.default_value)
    graph.node.append(node)
    return graph


def cases():
    """{"Op input=shape": GraphDef bytes}."""
    found = {}
    for name, op in state_ops().items():
        right = right_inputs(op)
        found[f"{name} right"] = graph_of(op, right).SerializeToString()
        for k, (arg, how, shape) in enumerate(right):
            for other in OTHERS if how != "numbers" else ():
                if other != shape:
                    text = "*" if other is None else ",".join("?" if d is None else str(d) for d in other)
                    changed = [*right[:k], (arg, how, other), *right[k + 1:]]
                    found[f"{name} {arg}={text}"] = graph_of(op, changed).SerializeToString()
    return found


if __name__ == "__main__":
    made = cases()
    with open(sys.argv[1], "wb") as file:
        pickle.dump(made, file)
    print(len(made), "graphs of", len({key.split()[0] for key in made}), "ops")
