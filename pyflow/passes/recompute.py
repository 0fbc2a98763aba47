"""Recomputation: values of the forward pass that only gradients still need are computed again.

Asked for by marks (`tf.recompute_scope`, the attribute `_recompute_hint`) or, for cheap operations
everywhere, by RewriterConfig.memory_optimization RECOMPUTATION_HEURISTICS.

Invariants
    1. Only pure nodes outside of conditionals and loops are computed twice, from the same inputs:
       results are the same bits.  What draws random numbers or has state runs once; its values
       are kept.
    2. A copy runs after the gradients that its first reader waits for, so that the original's
       memory is free in between.  So what reads a ref variable is computed once if an update of
       the variable leads to a gradient that would read the copy (passes/reads.py).
    3. Values that leave a marked region are kept: they are where a recomputation starts.

Method: Chen et al. 2016, "Training deep nets with sublinear memory cost"; names and marks as TF's
memory_optimizer.  Threads: a graph belongs to the thread that compiles it.

    recompute.recompute(graph, recompute.DEFAULT)       # the number of nodes copied
"""
import collections
import heapq
import re

from pyflow.framework.memory_scopes import RECOMPUTE
from pyflow.passes import pure
from pyflow.passes.node import Node
from pyflow.passes.reads import Reads

DEFAULT, NONE, MANUAL, HEURISTICS, RECOMPUTATION_HEURISTICS = 0, 1, 2, 3, 5   # MemOptType
PREFIX = "Recomputed/"
CHEAP = frozenset((
    "AddN", "Add", "AddV2", "BiasAdd", "Cast", "Fill", "FloorDiv", "FloorMod", "FusedBatchNorm",
    "FusedBatchNormV2", "FusedBatchNormV3", "LeakyRelu", "Mul", "Neg", "RealDiv", "Reciprocal",
    "Relu", "Relu6", "Reshape", "Rsqrt", "Sigmoid", "Sqrt", "Square", "SquaredDifference", "Sub",
    "Tanh", "Tile", "Transpose"))
_GRADIENTS = re.compile(r"(^|/)gradients(_\d+)?/")


def is_gradient(node):
    """True for nodes that tf.gradients made."""
    return _GRADIENTS.search(node.name) is not None and not node.name.startswith(PREFIX)


def recompute(graph, mode=DEFAULT):
    """Adds the copies.  mode: RewriterConfig.memory_optimization.  Returns how many were made."""
    if mode == NONE:
        return 0
    regions = _marked(graph)
    if mode == RECOMPUTATION_HEURISTICS:
        regions += _cheap(graph, set().union(*regions) if regions else set())
    if not regions:
        return 0
    work = _Work(graph)
    made = 0
    for region in regions:
        made += work.recompute(region, not region.cheap)
    work.insert()
    return made


def triggers_of(reader):
    """The gradients that a gradient node waits for: what it needs besides them is needed next."""
    found = [s for s, _ in reader.inputs if is_gradient(s)]
    return list(dict.fromkeys(found or [c for c in reader.controls if is_gradient(c)]))


class _Copy(Node):
    """A node made by this pass; `source`: what it computes again."""

    __slots__ = ("source",)


class _Region(set):
    """A set of nodes; `cheap`: chosen by the heuristics."""

    cheap = False


def _eligible(graph):
    apart = pure.conditional(graph) if graph.has_control_flow() else frozenset()
    return [n for n in graph.nodes
            if pure.is_pure(n.op) and n not in apart and not is_gradient(n) and not n.controls]


def _marked(graph):
    """Regions of marked nodes, one per mark."""
    regions = collections.defaultdict(_Region)
    if not any(RECOMPUTE in n.attrs for n in graph.nodes):
        return []
    for node in _eligible(graph):
        mark = node.attrs.get(RECOMPUTE)
        if mark is not None and mark is not False:
            regions[mark].add(node)
    return list(regions.values())


def _cheap(graph, taken):
    """Connected groups of cheap nodes."""
    group = {}
    for node in _eligible(graph):
        if node.op not in CHEAP or node in taken:
            continue
        mine = _Region((node,))
        mine.cheap = True
        for source, _ in node.inputs:
            other = group.get(source)
            if other is not None and other is not mine:
                small, large = sorted((mine, other), key=len)
                large |= small
                large.cheap = True
                for member in small:
                    group[member] = large
                mine = large
        group[node] = mine
    return list({id(g): g for g in group.values()}.values())


class _Work:
    """The graph with its readers and order, and the copies to insert."""

    def __init__(self, graph):
        self.graph = graph
        self.position = order_of(graph)
        self.reads = Reads(graph)
        self.readers = collections.defaultdict(list)
        for node in graph.nodes:
            for i, (source, index) in enumerate(node.inputs):
                self.readers[source].append((node, i, index))
        self.before = collections.defaultdict(list)

    def recompute(self, region, keep_results):
        """Gives the gradients that read `region` copies of it.  Returns their number."""
        kept = self._results(region) if keep_results else frozenset()
        uses = [(reader, i, node, index) for node in region
                for reader, i, index in self.readers[node]
                if is_gradient(reader) and (node, index) not in kept and not is_small(node, index)]
        if not uses:
            return 0
        first = min((u[0] for u in uses), key=self.position.__getitem__)
        triggers = triggers_of(first)
        if self.reads and self._reads_updated(region, triggers):
            return 0
        copies = {}
        for reader, i, node, index in uses:
            reader.inputs[i] = (self._copy(node, region, kept, triggers, copies), index)
        self.before[first] += sorted(copies.values(), key=lambda n: self.position[n.source])
        return len(copies)

    def _reads_updated(self, region, triggers):
        """True if copies that wait for `triggers` would read a variable after an update."""
        return any(self.reads.sees_update(source, index, after)
                   for node in region for source, index in node.inputs for after in triggers)

    def _results(self, region):
        """Tensors of the region that other forward nodes read: kept."""
        return {(node, index) for node in region for reader, _, index in self.readers[node]
                if reader not in region and not is_gradient(reader)}

    def _copy(self, node, region, kept, triggers, copies):
        """The copy of `node`, made with all it needs of the region (without recursion: chains are
        long)."""
        stack = [node]
        while stack:
            top = stack[-1]
            if top in copies:
                stack.pop()
                continue
            missing = [s for s, index in top.inputs
                       if s in region and (s, index) not in kept and s not in copies]
            if missing:
                stack += missing
                continue
            stack.pop()
            copies[top] = self._copy_one(top, region, kept, triggers, copies)
        return copies[node]

    def _copy_one(self, node, region, kept, triggers, copies):
        made = _Copy(PREFIX + node.name, node.op, (), (), node.attrs, node.device, node.types,
                     node.origin, node.shapes)
        made.source = node
        made.inputs = [
            (copies[s], i) if s in region and (s, i) not in kept else (s, i)
            for s, i in node.inputs
        ]
        if not any(isinstance(s, _Copy) for s, _ in made.inputs):
            made.controls = list(triggers)
        return made

    def insert(self):
        """The copies go right before their first reader, in construction order."""
        nodes = []
        for node in self.graph.nodes:
            nodes += self.before.get(node, ())
            nodes.append(node)
        self.graph.nodes = nodes


def is_small(node, index):
    """Up to 4 KB: not worth a computation."""
    shape = pure.full_shape(node, index)
    if shape is None:
        return False
    count = 1
    for size in shape:
        count *= size
    return count * max(getattr(node.types[index], "size", 4), 1) <= 4096


def order_of(graph):
    """{node: position} in an order of execution that follows construction order where it may."""
    at = {n: i for i, n in enumerate(graph.nodes)}
    waits, readers = {}, collections.defaultdict(list)
    for node in graph.nodes:
        sources = {s for s, _ in node.inputs if s.op not in ("NextIteration", "RefNextIteration")}
        sources.update(node.controls)
        waits[node] = len(sources)
        for source in sources:
            readers[source].append(node)
    ready = [at[n] for n in graph.nodes if not waits[n]]
    heapq.heapify(ready)
    position = {}
    while ready:
        node = graph.nodes[heapq.heappop(ready)]
        position[node] = len(position)
        for reader in readers[node]:
            waits[reader] -= 1
            if not waits[reader]:
                heapq.heappush(ready, at[reader])
    return position
