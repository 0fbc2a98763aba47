"""The graph that passes work on: plain nodes with direct edges, made from a walk back from the
fetches.

Invariants
    1. `Graph.nodes` is in construction order: feeds first, then the user's order, fetches last.
       The executor runs cheap nodes in this order, so that temporaries die young.
    2. An input is (node, output index); a control input is a node.  No node refers to one outside
       the graph.
    3. A fed tensor is output 0 of an `_Arg` node; the operation behind it is left out unless
       something else needs it.
    4. Nodes are made for one plan; user Operations are never changed.

Threads: a graph belongs to the thread that compiles it.
"""
import heapq


class Node:
    """One node: `inputs` [(Node, int)], `controls` [Node], native attribute values, output
    types; `why`: the reason for its device, where somebody asked; `edge`: of a Send or Recv, the
    partition.Edge that it is half of."""

    __slots__ = ("name", "op", "inputs", "controls", "attrs", "device", "types", "origin", "shapes",
                 "why", "edge")

    def __init__(
        self,
        name,
        op,
        inputs=(),
        controls=(),
        attrs=None,
        device="",
        types=(),
        origin=None,
        shapes=None,
    ):
        self.name, self.op, self.device = name, op, device
        self.inputs, self.controls = list(inputs), list(controls)
        self.attrs = attrs if attrs is not None else {}
        self.types, self.origin, self.shapes = types, origin, shapes
        self.why = self.edge = None

    def copy_without_edges(self):
        """A node that is equal except for its inputs and control inputs."""
        copy = Node(self.name, self.op, (), (), self.attrs, self.device, self.types, self.origin,
                    self.shapes)
        copy.edge = self.edge
        return copy

    def __repr__(self):
        return f"<Node {self.name} = {self.op}>"


class Graph:
    """`nodes` in construction order; `args` and `rets`, the feeds and fetches among them by
    index."""

    def __init__(self, nodes, args=(), rets=()):
        self.nodes, self.args, self.rets = nodes, list(args), list(rets)

    def has_control_flow(self):
        """True if a node may be dead or run more than once."""
        return any(n.op in CONTROL_FLOW for n in self.nodes)


CONTROL_FLOW = frozenset(("Switch", "RefSwitch", "Enter", "RefEnter", "_SwitchN"))


def prune(tensors, targets, feeds):
    """The pass graph that computes `tensors` and runs `targets` when `feeds` are given.

    tensors, feeds: lists of Tensors; targets: list of Operations.
    """
    fed = {t: i for i, t in enumerate(feeds)}
    needed = _reachable(tensors, targets, fed)
    args = [_arg(t, i) for i, t in enumerate(feeds)]
    arg_of = {t: args[i] for t, i in fed.items()}
    node_of = {op: _node(op) for op in needed}
    for op, node in node_of.items():
        node.inputs = [
            (arg_of[t], 0) if t in arg_of else (node_of[t.op], t.value_index) for t in op._inputs
        ]
        node.controls = [_control(c, node_of, arg_of) for c in op._control_inputs]
    rets = [_ret(t, i, (arg_of[t], 0) if t in arg_of else (node_of[t.op], t.value_index))
            for i, t in enumerate(tensors)]
    return Graph(args + list(node_of.values()) + rets, args, rets)


def prune_joined(tensors, targets, feeds, joined):
    """As `prune`, with tensors in the place of others.

    joined: {Tensor: the Tensor that is read instead}.  ValueError where a tensor would be computed
    from itself.
    """
    graph = prune([*tensors, *joined.values()], targets, [*feeds, *joined])
    args, rets = graph.args[len(feeds):], graph.rets[len(tensors):]
    source_of = {arg: ret.inputs[0] for arg, ret in zip(args, rets)}
    gone = {*args, *rets}
    nodes = [node for node in graph.nodes if node not in gone]
    for node in nodes:
        node.inputs = [source_of.get(source, (source, index)) for source, index in node.inputs]
        node.controls = [source_of[c][0] if c in source_of else c for c in node.controls]
    return Graph(_sources_first(nodes), graph.args[:len(feeds)], graph.rets[:len(tensors)])


def _sources_first(nodes):
    """The nodes in their order, but none before what it reads (but a loop's NextIteration)."""
    place = {node: i for i, node in enumerate(nodes)}
    readers, waits = {node: [] for node in nodes}, dict.fromkeys(nodes, 0)
    for node in nodes:
        for source in (*(source for source, _ in node.inputs), *node.controls):
            if source.op not in ("NextIteration", "RefNextIteration"):
                readers[source].append(node)
                waits[node] += 1
    ready, order = [place[node] for node in nodes if not waits[node]], []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for reader in readers[node]:
            waits[reader] -= 1
            if not waits[reader]:
                heapq.heappush(ready, place[reader])
    if len(order) < len(nodes):
        name = next(node.name for node in nodes if waits[node])
        raise ValueError(f"a tensor stands in the place of one that it is computed from: a cycle "
                         f"through {name!r}")
    return order


def whole(graph):
    """The pass graph of all operations of a user's graph, for printing."""
    node_of = {op: _node(op) for op in graph.get_operations()}
    for op, node in node_of.items():
        node.inputs = [(node_of[t.op], t.value_index) for t in op._inputs]
        node.controls = [node_of[c] for c in op._control_inputs]
    return Graph(list(node_of.values()))


def _reachable(tensors, targets, fed):
    """Operations needed, in construction order."""
    stack = [t.op for t in tensors if t not in fed]
    stack.extend(targets)
    seen = set(stack)
    while stack:
        op = stack.pop()
        for t in op._inputs:
            source = t.op
            if source not in seen and t not in fed:
                seen.add(source)
                stack.append(source)
        for source in op._control_inputs:
            if source not in seen and not _is_fed_placeholder(source, fed):
                seen.add(source)
                stack.append(source)
    return sorted(seen, key=_construction_order)


def _construction_order(op):
    return op._id


def _is_fed_placeholder(op, fed):
    return op.type in ("Placeholder", "PlaceholderV2") and op.outputs[0] in fed


def _control(op, node_of, arg_of):
    node = node_of.get(op)
    return node if node is not None else arg_of[op.outputs[0]]


def _node(op):
    outputs = op.outputs
    return Node(op.name, op.type, (), (), op.attrs, op._device, tuple(t.dtype for t in outputs), op,
                [t._shape for t in outputs])


def _arg(tensor, index):
    dtype = tensor.dtype.base_dtype
    return Node(
        f"_arg_{tensor.op.name}_{tensor.value_index}_{index}",
        "_Arg",
        attrs={"T": dtype, "index": index, "shape": tensor._shape},
        types=(dtype,),
        origin=tensor.op,
        shapes=[tensor._shape],
    )


def _ret(tensor, index, source):
    return Node(f"_retval_{tensor.op.name}_{tensor.value_index}_{index}", "_Retval", [source],
                attrs={"T": tensor.dtype.base_dtype, "index": index}, origin=tensor.op)


def from_graph_def(graph_def):
    """The pass graph of a GraphDef message, for printing and checking; ValueError for an input of
    no node."""
    node_of = {
        n.name: Node(n.name, n.op, device=n.device, attrs=dict(n.attr)) for n in graph_def.node
    }
    if len(node_of) != len(graph_def.node):
        raise ValueError("two nodes of the graph have one name")
    for message in graph_def.node:
        node = node_of[message.name]
        for text in message.input:
            name, _, index = text.lstrip("^").partition(":")
            if name not in node_of:
                raise ValueError(
                    f"node '{node.name}' reads '{text}', which is no node of the graph"
                )
            if text.startswith("^"):
                node.controls.append(node_of[name])
            else:
                node.inputs.append((node_of[name], int(index or 0)))
    return Graph(list(node_of.values()))


def is_ref(dtype):
    """True for the types of ref outputs."""
    return dtype._is_ref_dtype
