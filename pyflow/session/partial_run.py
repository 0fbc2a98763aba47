"""Partial runs: one run whose feeds arrive, and whose fetches leave, in several calls.

Each call runs a plan of its own: the nodes whose feeds have all arrived by now and that have not
run yet.  Tensors that later nodes still need are fetched and fed on.  So nothing blocks a thread,
an abandoned partial run costs nothing, and every operation runs at most once.

    needs(node)   bit set of the feeds it depends on, directly or not
    stage         nodes with needs within what is fed now, minus those already run

Invariants
    1. Edges that cannot be cut hold their two nodes in one stage: references, resources and
       step-scoped handles, tensors inside a loop, tensors that may be dead.
    2. Constants, placeholders and variable handles have no effect: a later stage gets its own copy.
    3. Which nodes have run depends only on which feeds have arrived, so plans are cached by (fed
       before, fed now).

Threads: calls on one handle are serialised by its lock.
"""
import threading

from pyflow.framework import errors
from pyflow.passes import node as node_lib
from pyflow.session import feeds as feeds_lib

_COPIED = frozenset(
    ("Const", "Placeholder", "PlaceholderV2", "Variable", "VariableV2", "VarHandleOp")
)
_MERGES = frozenset(("Merge", "RefMerge"))
_ENTERS = frozenset(("Enter", "RefEnter"))
_EXITS = frozenset(("Exit", "RefExit"))
_SWITCHES = frozenset(("Switch", "RefSwitch", "_SwitchN"))
_BACK = frozenset(("NextIteration", "RefNextIteration"))
_HANDLES = frozenset((20, 21))                     # resource, variant


class PartialRun:
    """One partial run: what has been fed, fetched and kept so far."""

    def __init__(self, compiler, step_error, mapper, feeds):
        self._compiler, self._error = compiler, step_error
        self._lock = threading.Lock()
        self._slot = {t: i for i, t in enumerate(feeds)}
        self._feeds = [feeds_lib.Feed(t) for t in feeds]
        self._fetchable = set(mapper.tensors) | set(mapper.targets)
        self._fetched, self._fed, self._ran = set(), 0, None
        self._failed = None
        graph = node_lib.prune(mapper.tensors, mapper.targets, feeds)
        self._nodes = graph.nodes[len(graph.args):len(graph.nodes) - len(graph.rets)]
        self._args = {arg: i for i, arg in enumerate(graph.args)}
        self._source = {t: ret.inputs[0] for t, ret in zip(mapper.tensors, graph.rets)}
        self._target = {n.origin: n for n in self._nodes}
        self._needs = _needs(self._nodes, self._args)
        self._values = {}  # (node, output) -> array, for fed and kept tensors

    def advance(self, mapper, pairs, timeout_ms):
        """Feeds `pairs`, runs what can run, and returns the values of `mapper.tensors`."""
        with self._lock:
            self._check(mapper, pairs)
            before = self._fed
            for tensor, value in pairs:
                index = self._slot[tensor]
                self._values[self._arg(index), 0] = self._feeds[index].convert(value)
                self._fed |= 1 << index
            self._check_computable(mapper)
            try:
                self._run_stage(before, mapper, timeout_ms)
            except errors.OpError as e:
                self._failed = e
                raise
            self._fetched.update(mapper.tensors, mapper.targets)
            return [self._values[self._source[t]] for t in mapper.tensors]

    @property
    def finished(self):
        """True once everything was fed and fetched: the handle is then forgotten."""
        return self._fed == (1 << len(self._feeds)) - 1 and self._fetched >= self._fetchable

    def _arg(self, index):
        return next(a for a, i in self._args.items() if i == index)

    def _check(self, mapper, pairs):
        if self._failed is not None:
            raise errors.InvalidArgumentError(None, None, "this partial run has failed before: "
                                              f"{self._failed.message}")
        for tensor, _ in pairs:
            if tensor not in self._slot:
                raise _invalid(f"The feed {tensor.name} was not specified in partial_run_setup.")
            if self._fed >> self._slot[tensor] & 1:
                raise _invalid(f"The feed {tensor.name} has already been fed.")
        for element in (*mapper.tensors, *mapper.targets):
            if element not in self._fetchable:
                raise _invalid(f"The fetch {element.name} was not specified in partial_run_setup.")
            if element in self._fetched:
                raise _invalid(f"The fetch {element.name} has already been fetched.")

    def _check_computable(self, mapper):
        for element in (*mapper.tensors, *mapper.targets):
            if element in self._slot:
                needs = 1 << self._slot[element]
            else:
                node = (
                    self._source[element][0] if element in self._source else self._target[element]
                )
                needs = self._args_mask(node)
            if needs & ~self._fed:
                lacking = [
                    f.tensor.name
                    for i, f in enumerate(self._feeds)
                    if (needs & ~self._fed) >> i & 1
                ]
                raise _invalid(
                    f"Fetch {element.name} can't be computed from the feeds that have been fed so"
                    f" far. Feed {', '.join(lacking)} first."
                )

    def _args_mask(self, node):
        return 1 << self._args[node] if node in self._args else self._needs[node]

    def _run_stage(self, before, mapper, timeout_ms):
        ran = (lambda n: False) if self._ran is None else (lambda n: not self._needs[n] & ~before)
        stage = [
            n
            for n in self._nodes
            if not self._needs[n] & ~self._fed and not ran(n) and n.op not in _COPIED
        ]
        self._ran = True
        now = set(stage)
        later = [n for n in self._nodes if n not in now and not ran(n)]
        wanted = dict.fromkeys(self._source.values())  # fetches, perhaps of a later call
        wanted.update(dict.fromkeys(edge for n in later for edge in n.inputs))
        kept = [
            e
            for e in wanted
            if e[0] in now
            or (
                e[0].op in _COPIED
                and e in self._source.values()
                and e not in self._values
                and not self._needs[e[0]]
            )
        ]
        if not stage and not kept:
            return
        graph, fed_edges = _stage_graph(self._nodes, now, kept, self._values)
        compiled = self._compiler.compile_nodes(graph)
        try:
            results = compiled.run([self._values[e] for e in fed_edges], timeout_ms)
        except self._error as failure:
            raise compiled.explain(failure) from None
        self._values.update(zip(kept, results))


def _invalid(text):
    return errors.InvalidArgumentError(None, None, text)


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


def _stage_graph(nodes, now, kept, values):
    """Pass graph of the nodes `now`, fed with kept values; returns it and the edges behind its
    feeds."""
    needed = now | {e[0] for e in kept} | {s for n in now for s, _ in n.inputs if s.op in _COPIED}
    copies = {n: n.copy_without_edges() for n in nodes if n in needed}
    feeds = _KeptEdges()
    for node, copy in copies.items():
        copy.inputs = [feeds.arg_for(e) if e in values else (copies[e[0]], e[1])
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
