"""tf.graph_util: sub-graphs and freezing of GraphDefs.

    frozen = convert_variables_to_constants(session, graph.as_graph_def(), ["logits"])
    open("model.pb", "wb").write(frozen.SerializeToString())      # runs under libpyflow_rt, pyflow
    and TensorFlow

Pure functions from GraphDef to GraphDef; only `convert_variables_to_constants` runs the session,
once, to read values.
"""

import numpy as np

from pyflow.framework import dtypes

_VARIABLES = ("VariableV2", "Variable", "VarHandleOp")
_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape")
_REFERENCES = ("RefIdentity", "RefSwitch", "RefEnter", "RefExit", "RefMerge", "RefNextIteration")
_QUESTIONS = ("IsVariableInitialized", "VarIsInitializedOp")
_IDENTITIES = ("Identity", "StopGradient")
_PASSED_ON = (
    "Identity",
    "Enter",
    "Switch",
    "IdentityN",
)  # ops a variable's handle may go through before it is read


def node_name(tensor_name):
    """The node of an input as GraphDef writes it: 'x', 'x:1', '^x'."""
    return tensor_name.lstrip("^").split(":")[0]


def _by_name(graph_def):
    return {node.name: node for node in graph_def.node}


def _needed(nodes, wanted):
    """Names of all nodes that `wanted` depend on, control inputs included."""
    missing = [name for name in wanted if name not in nodes]
    if missing:
        raise AssertionError(f"{missing[0]} is not in graph")
    found, waiting = set(), list(wanted)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [node_name(i) for i in nodes[name].input]
    return found


def _like(graph_def, nodes):
    """A GraphDef of `nodes` with `graph_def`'s versions and functions."""
    from pyflow.framework import protos  # here and below: protobuf is dear to import

    made = protos.GraphDef()
    made.node.extend(nodes)
    for field in ("versions", "library"):
        if graph_def.HasField(field):
            getattr(made, field).CopyFrom(getattr(graph_def, field))
    return made


def extract_sub_graph(graph_def, dest_nodes):
    """The nodes of `graph_def` that the nodes named in `dest_nodes` need, in their order.

    Raises TypeError if dest_nodes is a string, AssertionError if a name is not in the graph.
    """
    if isinstance(dest_nodes, str):
        raise TypeError("dest_nodes must be a list of names, got a string")
    kept = _needed(_by_name(graph_def), dest_nodes)
    return _like(graph_def, [node for node in graph_def.node if node.name in kept])


def remove_training_nodes(input_graph, protected_nodes=None):
    """Without CheckNumerics, and without Identity and StopGradient where nothing but data passes
    through them."""
    from pyflow.framework import protos

    protected = set(protected_nodes or ())
    controls = {node_name(i) for node in input_graph.node for i in node.input if i.startswith("^")}
    checks = {node.name for node in input_graph.node
              if node.op == "CheckNumerics" and node.name not in protected}
    source = {}
    for node in input_graph.node:
        inputs = [i for i in node.input if not (i.startswith("^") and node_name(i) in checks)]
        plain = len(inputs) == 1 and not inputs[0].startswith("^") and node.name not in controls
        if node.name in checks:
            source[node.name] = next(i for i in node.input if not i.startswith("^"))
        elif node.op in _IDENTITIES and plain and node.name not in protected:
            source[node.name] = node.input[0]

    def behind(name):
        while name in source:
            name = source[name]
        return name

    kept = []
    for node in input_graph.node:
        if node.name not in source:
            copy = protos.NodeDef()
            copy.CopyFrom(node)
            del copy.input[:]
            copy.input.extend(i if i.startswith("^") else behind(i) for i in node.input
                              if not (i.startswith("^") and node_name(i) in checks))
            kept.append(copy)
    return _like(input_graph, kept)


def _handle(nodes, name):
    """The VarHandleOp behind an input, through the ops that pass handles on; None: something
    else."""
    node = nodes[node_name(name)]
    while node.op in _PASSED_ON and node.input:
        index = name.partition(":")[2]
        several = node.op == "IdentityN" and index.isdigit()
        name = node.input[min(int(index), len(node.input) - 1) if several else 0]
        node = nodes[node_name(name)]
    return node if node.op == "VarHandleOp" else None


def _constant(name, value, dtype):
    from pyflow.framework import protos, tensor_util

    node = protos.NodeDef(name=name, op="Const")
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(
        tensor_util.make_tensor_proto(value, dtype=dtype, shape=value.shape)
    )
    return node


def _read_as_identity(node, dtype):
    from pyflow.framework import protos

    made = protos.NodeDef(name=node.name, op="Identity", device=node.device)
    made.input.extend(node.input)
    made.attr["T"].type = dtype.as_datatype_enum
    return made


def _of_constant(node, dtype):
    """[the nodes] in place of one that reads, or passes on, a variable's handle."""
    from pyflow.framework import protos

    if node.op == "ReadVariableOp":
        return [_read_as_identity(node, dtype)]
    if node.op == "ResourceGather":
        return _gather_of_constant(node, dtype)
    made = protos.NodeDef()
    made.CopyFrom(node)
    for name in ("_handle_dtypes", "_handle_shapes", "_output_shapes", "dtype"):
        made.attr.pop(name, None)
    made.op = {"ResourceGatherNd": "GatherNd", "VariableShape": "Shape"}.get(node.op, node.op)
    name = "Tparams" if node.op == "ResourceGatherNd" else "T"
    made.attr[name].type = dtype.as_datatype_enum
    return [made]


def _several(node, handles):
    """An IdentityN, of which some inputs are no handles any more."""
    from pyflow.framework import protos

    if not any(handles):
        return node
    made = protos.NodeDef()
    made.CopyFrom(node)
    for name in ("_handle_dtypes", "_handle_shapes", "_output_shapes"):
        made.attr.pop(name, None)
    for i, handle in enumerate(handles):
        if handle is not None:
            made.attr["T"].list.type[i] = handle.attr["dtype"].type
    return made


def _gather_of_constant(node, dtype):
    """[the axis, GatherV2] in place of a ResourceGather, along the axis behind its batch dimensions."""
    from pyflow.framework import protos

    batch_dims = node.attr["batch_dims"].i
    axis = _constant(f"{node.name}/axis", np.int32(batch_dims), dtypes.int32)
    made = protos.NodeDef(name=node.name, op="GatherV2", device=node.device)
    made.input.extend([node.input[0], node.input[1], axis.name, *node.input[2:]])
    made.attr["Tparams"].type = dtype.as_datatype_enum
    made.attr["Tindices"].CopyFrom(node.attr["Tindices"])
    made.attr["Taxis"].type = dtypes.int32.as_datatype_enum
    made.attr["batch_dims"].i = batch_dims
    return [axis, made]


def _values(session, chosen):
    """Current values of the variables, read in one step."""
    fetches, readers = {}, {}
    for op in session.graph.get_operations():
        if op.type == "ReadVariableOp":
            readers.setdefault(op.inputs[0].op.name, op)
    for node in chosen:
        if node.op == "VarHandleOp":
            if node.name not in readers:
                dtype = dtypes.as_dtype(node.attr["dtype"].type)
                raise ValueError(
                    f"variable '{node.name}' ({dtype.name}) is never read in the session's graph"
                )
            fetches[node.name] = readers[node.name].outputs[0]
        else:
            fetches[node.name] = session.graph.get_tensor_by_name(node.name + ":0")
    return session.run(fetches) if fetches else {}


def convert_variables_to_constants(
    sess,
    input_graph_def,
    output_node_names,
    variable_names_whitelist=None,
    variable_names_blacklist=None,
):
    """`input_graph_def` reduced to what `output_node_names` need, each variable a Const with its
    value in `sess`.

    Args as in TensorFlow 1.x; the lists name variables to convert, or to leave alone.  Raises
    FailedPreconditionError for an uninitialised variable, AssertionError for an output that is not
    in the graph, ValueError for an output that needs what an update of a variable gives.  Other
    updates (moving averages within a cond) are cut: a frozen graph has nothing to update.
    """
    graph_def = extract_sub_graph(input_graph_def, output_node_names)
    nodes = _by_name(graph_def)
    chosen = [
        node
        for node in graph_def.node
        if node.op in _VARIABLES
        and (variable_names_whitelist is None or node.name in variable_names_whitelist)
        and node.name not in (variable_names_blacklist or ())
    ]
    names = {node.name for node in chosen}
    graph_def = _without_updates(graph_def, nodes, names, output_node_names)
    return _like(graph_def, _with_constants(graph_def, _by_name(graph_def), _values(sess, chosen)))


def _without_updates(graph_def, nodes, variables, outputs):
    """The graph in which what changes one of `variables` passes on its old value instead, which
    nobody asks for; references are values."""
    made, asked = [], None
    for node in graph_def.node:
        variable = _changed(nodes, node, variables)
        if variable is None:
            made.append(_without_reference(nodes, node, variables))
            continue
        asked = _with_values(nodes, outputs) if asked is None else asked
        if node.name in asked:
            raise ValueError(
                f"node '{node.name}' ({node.op}) updates the variable '{variable.name}', and the "
                f"outputs {', '.join(outputs)} need what it gives: a frozen graph has nothing to "
                f"update. Freeze the graph built for inference, or keep the variable (see "
                f"variable_names_blacklist)")
        made.append(_read_as_identity(node, dtypes.as_dtype(variable.attr["dtype"].type)))
        del made[-1].input[:]
        made[-1].input.extend([node.input[0], *(i for i in node.input if i.startswith("^"))])
    return extract_sub_graph(_like(graph_def, made), outputs)


def _changed(nodes, node, variables):
    """The variable, one of `variables`, that a node changes; None: none."""
    from pyflow.framework.op import find_op

    op_def = find_op(node.op)
    if not node.input or node.input[0].startswith("^") or op_def is None or not op_def.inputs:
        return None
    if node.op in (*_READS, *_PASSED_ON, *_REFERENCES, *_QUESTIONS):
        return None
    first = op_def.inputs[0]
    if first.is_ref:
        found = _variable(nodes, node.input[0])
    elif first.dtype is dtypes.resource:
        found = _handle(nodes, node.input[0])
    else:
        return None
    return found if found is not None and found.name in variables else None


def _variable(nodes, name):
    """The variable whose reference an input is, through the ops that pass references on."""
    node = nodes[node_name(name)]
    for _ in nodes:             # no more steps than nodes: a file's may go round
        if node.op not in _REFERENCES or not node.input:
            break
        node = nodes[node_name(node.input[0])]
    return node if node.op in _VARIABLES else None


def _without_reference(nodes, node, variables):
    """A node that passes a constant's value on, not a reference; and whether it has a value, which
    is so."""
    from pyflow.framework import protos

    if node.op not in (*_REFERENCES, *_QUESTIONS) or not node.input:
        return node
    find = _handle if node.op == "VarIsInitializedOp" else _variable
    found = find(nodes, node.input[0])
    if found is None or found.name not in variables:
        return node
    if node.op in _QUESTIONS:
        return _constant(node.name, np.array(True), dtypes.bool)
    made = protos.NodeDef()
    made.CopyFrom(node)
    made.op = node.op.removeprefix("Ref")
    return made


def _with_values(nodes, outputs):
    """Names of the nodes whose values the outputs need: along data edges."""
    found, waiting = set(), list(outputs)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [node_name(i) for i in nodes[name].input if not i.startswith("^")]
    return found


def _with_constants(graph_def, nodes, values):
    """The nodes, variables that have values being constants, and their readers readers of these."""
    made = []

    def handle_of(text):
        found = None if text.startswith("^") else _handle(nodes, text)
        return found if found is not None and found.name in values else None

    for node in graph_def.node:
        if node.name in values:
            made.append(
                _constant(node.name, values[node.name], dtypes.as_dtype(node.attr["dtype"].type))
            )
        elif node.op == "IdentityN":
            made.append(_several(node, [handle_of(text) for text in node.input]))
        elif (
            node.op in _READS + _PASSED_ON
            and node.input
            and (handle := handle_of(node.input[0])) is not None
        ):
            dtype = dtypes.as_dtype(handle.attr["dtype"].type)
            made.extend(_of_constant(node, dtype))
        else:
            made.append(node)
    return made


def tensor_shape_from_node_def_name(graph, input_name):
    """The shape of a node's output, as a list; an old TensorFlow name."""
    return graph.get_tensor_by_name(
        input_name if ":" in input_name else input_name + ":0"
    ).get_shape()
