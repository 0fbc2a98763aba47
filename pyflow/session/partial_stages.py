"""Stages of a partial run: which nodes run at which call, and the plan of each stage.

    needs(node)   bit set of the feeds it depends on, directly or not
    stage         nodes with needs within what is fed now, minus those already run

Invariants
    1. Edges that cannot be cut hold their two nodes in one stage: references, resources and
       step-scoped handles, tensors inside a loop, tensors that may be dead.
    2. Constants, placeholders and variable handles have no effect: a later stage gets its own copy.
    3. Which nodes have run depends only on which feeds had arrived, so stages are kept by (fed
       before, fed now) and shared by all partial runs of one setup.

Threads: a PartialGraph is shared; two threads may compile one stage twice, the results are equal.
"""
from pyflow.passes import node as node_lib

_COPIED = frozenset(
    ("Const", "Placeholder", "PlaceholderV2", "Variable", "VariableV2", "VarHandleOp"))
_MERGES = frozenset(("Merge", "RefMerge"))
_ENTERS = frozenset(("Enter", "RefEnter"))
_EXITS = frozenset(("Exit", "RefExit"))
_SWITCHES = frozenset(("Switch", "RefSwitch", "_SwitchN"))
_BACK = frozenset(("NextIteration", "RefNextIteration"))
_HANDLES = frozenset((20, 21))                     # resource, variant


class Stage:
    """A compiled stage: `reads` and `keeps` are the edges behind its feeds and fetches."""

    __slots__ = ("compiled", "reads", "keeps")

    def __init__(self, compiled, reads, keeps):
        self.compiled, self.reads, self.keeps = compiled, reads, keeps


class PartialGraph:
    """What all partial runs of one setup share: the pruned nodes, what each needs, the stages."""

    def __init__(self, compiler, mapper, feeds):
        self._compiler, self._stages = compiler, {}
        graph = node_lib.prune(mapper.tensors, mapper.targets, feeds)
        self._nodes = graph.nodes[len(graph.args):len(graph.nodes) - len(graph.rets)]
        self._args = {arg: i for i, arg in enumerate(graph.args)}
        self.arg_edges = [(arg, 0) for arg in graph.args]
        self.source = {t: ret.inputs[0] for t, ret in zip(mapper.tensors, graph.rets)}
        self._target = {n.origin: n for n in self._nodes}
        self._needs = _needs(self._nodes, self._args)

    def needs(self, element):
        """Bit set of the feeds that a fetched tensor or operation needs."""
        node = self.source[element][0] if element in self.source else self._target[element]
        return 1 << self._args[node] if node in self._args else self._needs[node]

    def stage(self, before, now):
        """The Stage that runs when the feeds `now` are there and those of `before` were at the
        last call (None: there was none); None if nothing is left to run."""
        key = (before, now)
        if key not in self._stages:
            self._stages[key] = self._make_stage(before, now)
        return self._stages[key]

    def _make_stage(self, before, now):
        def ran(node):
            return before is not None and not self._needs[node] & ~before
        stage = {n for n in self._nodes
                 if not self._needs[n] & ~now and not ran(n) and n.op not in _COPIED}
        later = [n for n in self._nodes if n not in stage and not ran(n)]
        wanted = dict.fromkeys(self.source.values())              # fetches, perhaps of a later call
        wanted.update(dict.fromkeys(edge for n in later for edge in n.inputs))
        fetched = set(self.source.values())
        keeps = [e for e in wanted if e[0] in stage
                 or before is None and e[0].op in _COPIED and e in fetched]
        if not stage and not keeps:
            return None
        graph, reads = _stage_graph(self._nodes, stage, keeps)
        return Stage(self._compiler.compile_nodes(graph), reads, keeps)


class _KeptEdges:
    """The `_Arg` nodes of one stage, made for the kept tensors it reads; `edges` in their order."""

    def __init__(self):
        self.edges, self._args = [], {}

    @property
    def args(self):
        return list(self._args.values())

    def arg_for(self, edge):
        if edge not in self._args:
            source, index = edge
            dtype, number = source.types[index].base_dtype, len(self.edges)
            self._args[edge] = node_lib.Node(
                f"_arg_{source.name}_{index}_{number}", "_Arg",
                attrs={"T": dtype, "index": number}, types=(dtype,), origin=source.origin)
            self.edges.append(edge)
        return self._args[edge], 0


def _stage_graph(nodes, now, kept):
    """Pass graph of the nodes `now`, fed with the kept tensors it reads; returns it and their
    edges."""
    needed = now | {e[0] for e in kept} | {s for n in now for s, _ in n.inputs if s.op in _COPIED}
    copies = {n: n.copy_without_edges() for n in nodes if n in needed}
    feeds = _KeptEdges()
    for node, copy in copies.items():
        copy.inputs = [(copies[e[0]], e[1]) if e[0] in copies else feeds.arg_for(e)
                       for e in node.inputs]
        copy.controls = [copies[c] for c in node.controls if c in copies]  # earlier stages are over
    rets = [node_lib.Node(f"_retval_{n.name}_{i}_{k}", "_Retval", [(copies[n], i)],
                          attrs={"T": n.types[i].base_dtype, "index": k}, origin=n.origin)
            for k, (n, i) in enumerate(kept)]
    graph = node_lib.Graph(feeds.args + list(copies.values()) + rets, feeds.args, rets)
    return graph, feeds.edges


# ---------------------------------------------------------------- what each node needs

def _needs(nodes, args):
    """Bit set of feeds per node: a fixed point over data and control edges and over groups that
    stay together."""
    group = _groups(nodes)
    needs = dict.fromkeys(nodes, 0)
    changed = True
    while changed:
        changed = False
        total = {}
        for node in nodes:
            bits = needs[node]
            for source in [s for s, _ in node.inputs] + node.controls:
                bits |= 1 << args[source] if source in args else needs[source]
            root = group(node)
            total[root] = total.get(root, 0) | bits
            if bits != needs[node]:
                needs[node], changed = bits, True
        for node in nodes:
            bits = total[group(node)]
            if bits != needs[node]:
                needs[node], changed = bits, True
    return needs


def _groups(nodes):
    """node -> representative of the nodes that must run in its stage."""
    parent = {}

    def root(node):
        while node in parent:
            node = parent[node]
        return node
    inner = _inner_nodes(nodes)
    for node in nodes:
        for source, index in node.inputs:
            if source.op not in _COPIED and (source in inner or _is_handle(source, index)):
                a, b = root(source), root(node)
                if a is not b:
                    parent[b] = a
        for source in node.controls:
            if source in inner and root(source) is not root(node):
                parent[root(node)] = root(source)
    return root


def _is_handle(source, index):
    if index >= len(source.types):
        return False
    dtype = source.types[index]
    return node_lib.is_ref(dtype) or dtype.as_datatype_enum in _HANDLES


def _inner_nodes(nodes):
    """Nodes inside a frame, and nodes that may be dead: between Switch and Merge, between Enter and
    Exit."""
    order = _topological(nodes)
    frame = _depths(order, lambda n: (n.op in _ENTERS) - (n.op in _EXITS))
    branch = _depths(
        order, lambda n: 0 if frame[n] > 0 else (n.op in _SWITCHES) - (n.op in _MERGES)
    )
    return {n for n in nodes if frame[n] > 0 or branch[n] > 0}


def _depths(order, change):
    """Nesting depth per node: the deepest source's, changed by the node itself."""
    depth = {}
    for node in order:
        sources = [s for s, _ in node.inputs] + node.controls
        depth[node] = max(0, max((depth.get(s, 0) for s in sources), default=0) + change(node))
    return depth


def _topological(nodes):
    """Sources first; the back edges of loops (into a Merge) are ignored."""
    waiting, readers = {}, {}
    for node in nodes:
        sources = {s for s, _ in node.inputs if s.op not in _BACK and s.op != "_Arg"} | set(
            node.controls
        )
        sources = {s for s in sources if s.op != "_Arg"}
        waiting[node] = len(sources)
        for source in sources:
            readers.setdefault(source, []).append(node)
    ready = [n for n in nodes if not waiting[n]]
    for node in ready:
        for reader in readers.get(node, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return ready
