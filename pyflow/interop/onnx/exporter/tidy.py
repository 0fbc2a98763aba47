"""The written graph made neat: outputs get their names, what nobody reads is left out.

Pure functions over NodeProtos, which they change.
"""

from pyflow.interop.onnx.messages import CLASSES


def _graphs(node):
    return [a.g for a in node.attribute if a.has("g")]


def names_read(nodes):
    """All names that nodes read, those of bodies inside included."""
    found, stack = set(), [list(nodes)]
    while stack:
        for node in stack.pop():
            found.update(node.input)
            for graph in _graphs(node):
                found.update(info.name for info in graph.output)
                stack.append(graph.node)
    found.discard("")
    return found


def domains(nodes):
    """The domains of nodes, those of bodies inside included."""
    found, stack = set(), [list(nodes)]
    while stack:
        for node in stack.pop():
            found.add(node.domain)
            stack += [graph.node for graph in _graphs(node)]
    return found


def leave_out_unused(body, outputs):
    """Drops nodes of the body that nobody reads."""
    body.nodes[:] = _used(body.nodes, outputs)


def _used(nodes, wanted):
    """The nodes that `wanted` need; bodies of loops and branches are thinned out, too."""
    wanted, kept = set(wanted), []
    for node in reversed(nodes):
        if not any(name in wanted for name in node.output):
            continue
        kept.append(node)
        wanted.update(node.input)
        for graph in _graphs(node):
            graph.node = _used(graph.node, {info.name for info in graph.output})
            wanted |= names_read(graph.node) | {info.name for info in graph.output}
    return kept[::-1]


def name_outputs(exporter, names, values):
    """Gives the model's outputs their names, which no other value has: the node that makes one is
    told to, or an identity."""
    body, renamed = exporter.main, {}
    for name, value in zip(names, values):
        have = value.plain
        if have in body.made and have not in renamed:
            renamed[have] = name
        else:
            body.nodes.append(CLASSES["NodeProto"](op_type="Identity", input=[have], output=[name],
                                                   name=name))
    rename(body.nodes, renamed)


def rename(nodes, names):
    """Renames values, in bodies inside, too."""
    for node in nodes:
        node.input = [names.get(n, n) for n in node.input]
        node.output = [names.get(n, n) for n in node.output]
        node.name = names.get(node.name, node.name)
        for graph in _graphs(node):
            for info in graph.output:
                info.name = names.get(info.name, info.name)
            rename(graph.node, names)
