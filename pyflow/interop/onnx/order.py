"""An order in which a graph's nodes can be converted.

ONNX asks that a node comes after those whose outputs it reads; files that keep it otherwise exist,
and onnxruntime sorts them.  What a body of a control-flow op reads from outside counts as read by
the op's node.

    ordered(graph.node)     # the same nodes; OnnxError, naming some, where they wait for each other

Threads: pure functions of messages.
"""

from pyflow.interop.onnx.errors import OnnxError

_NAMED = 6          # nodes of a circle that an error names


def ordered(protos):
    """The nodes, each after what it reads; as they are where they are in order, else the first that
    can come next each time."""
    made = set()
    for proto in protos:
        made.update(proto.output)
    made.discard("")
    before = set()
    for proto in protos:
        for name in _reads(proto):
            if name in made and name not in before:
                return _sorted(protos, made)
        before.update(proto.output)
    return protos


def _reads(proto):
    """Names that a node reads: inputs, and what its bodies take from outside."""
    found = proto.input
    for attribute in proto.attribute:
        graphs = [attribute.g] if attribute.g is not None else attribute.graphs
        for graph in graphs or ():
            found = [*found, *_free(graph)]
    return found


def _free(graph):
    """Names that a body reads and does not define."""
    own = {info.name for info in graph.input}
    own.update(tensor.name for tensor in graph.initializer)
    own.update(s.values.name for s in graph.sparse_initializer if s.values is not None)
    for proto in graph.node:
        own.update(proto.output)
    read = [name for proto in graph.node for name in _reads(proto)]
    read += [info.name for info in graph.output]
    return [name for name in read if name not in own]


def _sorted(protos, made):
    waiting, readers = [], {}           # how many nodes each waits for; who reads a node's outputs
    maker = {name: k for k, proto in enumerate(protos) for name in proto.output}
    for k, proto in enumerate(protos):
        needs = {maker[name] for name in _reads(proto) if name in made}
        waiting.append(len(needs))
        for need in needs:
            readers.setdefault(need, []).append(k)
    ready, order = [k for k, count in enumerate(waiting) if not count], []
    ready.reverse()
    while ready:
        k = ready.pop()
        order.append(protos[k])
        for reader in reversed(readers.get(k, ())):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    if len(order) < len(protos):
        raise OnnxError(_circle(protos, waiting, maker, made))
    return order


def _circle(protos, waiting, maker, made):
    """A sentence about some nodes that wait for each other."""
    k = next(k for k, count in enumerate(waiting) if count)
    path = []
    while k not in path:
        path.append(k)
        k = next(maker[name] for name in _reads(protos[k])
                 if name in made and waiting[maker[name]])
    path = path[path.index(k):]
    names = [f"{protos[k].name or protos[k].output[0]!r} ({protos[k].op_type})"
             for k in path[:_NAMED]]
    more = f" and {len(path) - _NAMED} more" if len(path) > _NAMED else ""
    return (f"{len(path)} of the graph's nodes wait for each other's outputs: "
            f"{' reads '.join(names)}{more}; expected a graph without a circle")
