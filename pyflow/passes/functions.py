"""The functions of a plan: bodies of what stays a call, through the same passes, as FunctionDefs.

    library = library_bytes(work.functions, work, passes, device)      # a FunctionDefLibrary

Invariants
    1. Exactly the functions that are reachable from the plan's nodes are written, once each; their
       calls are inlined as those of the graph.
    2. A function runs on one device: its nodes have that of the calls.
    3. Known static shapes travel with its nodes as with the graph's, so its buffers are planned.

Threads: as pipeline.py.
"""
from pyflow.framework import function_export, function_library, op as op_lib, wire
from pyflow.passes import inline, node as node_lib, pipeline, wire as plan_wire


def library_bytes(functions, work, passes, device):
    """The FunctionDefLibrary of a plan.  functions: {name: Body} that its nodes name, which gets
    those that these need; device: where they run."""
    library, done = [], set()
    while len(done) < len(functions):
        for name, body in list(functions.items()):
            if name in done:
                continue
            done.add(name)
            graph = node_lib.prune(body.results, body.effects, body.args)
            inline.inline(graph, functions, work.options.inline)
            for node in graph.nodes:
                node.device = device
                node.attrs = {k: v for k, v in node.attrs.items() if k != "_class"}
            graph = pipeline.run(graph, work, passes)
            parts = _definition(body, graph)
            library += [wire.header(1, sum(map(len, parts))), *parts]
    return b"".join(library)


def calls_of(graph):
    """The nodes of a pass graph that name functions."""
    return [node for node in graph.nodes if function_library.names_functions(node.op)]


def _definition(body, graph):
    """A FunctionDef of a body's pass graph, in parts."""
    from pyflow.framework import protos
    nodes = [n for n in graph.nodes if n.op not in ("_Arg", "_Retval")]
    used = {n.name for n in nodes}
    args = {node: _free(name, used) for node, name in zip(graph.args, body.names[0])}
    signature = protos.OpDef(name=body.name)
    signature.is_stateful = any(_op_def(n).stateful for n in nodes)
    for arg in graph.args:
        signature.input_arg.add(name=args[arg], type=arg.types[0].as_datatype_enum)
    parts = []
    for node in nodes:
        inputs = [_text(source, index, args) for source, index in node.inputs]
        inputs += [f"^{args.get(c) or c.name}" for c in node.controls]
        data = wire.encode_node_parts(node.name, node.op, inputs, node.device, node.attrs)
        shapes = b""
        if node.shapes and "_output_shapes" not in node.attrs:
            shapes = plan_wire.shapes_attr(node.shapes)
        parts += [wire.header(3, len(data) + len(shapes)), data, shapes]
    for name, ret in zip(body.names[1], graph.rets):
        signature.output_arg.add(name=name, type=ret.attrs["T"].as_datatype_enum)
        parts.append(wire.field(4, _entry(name, _text(*ret.inputs[0], args))))
    for node in nodes:
        if node.origin in set(body.effects):
            parts.append(wire.field(6, _entry(node.name, node.name)))
    return [wire.field(1, signature.SerializeToString()), *parts]


def _entry(key, value):
    return wire.field(1, key.encode()) + wire.field(2, value.encode())


def _free(name, used):
    while name in used:
        name += "_"
    used.add(name)
    return name


def _text(node, index, args):
    if node in args:
        return args[node]
    return f"{node.name}:{function_export.output_of(_op_def(node), node.attrs, index)}"


def _op_def(node):
    return op_lib.find_op(node.op) or node.origin.op_def
