"""ASAP/ALAP: large tensors for other devices come as late as they may (white paper, 5.2).

Without it a Recv starts with the step and its sender runs ahead, so tensors that are needed one
after the other wait for their readers all together.  This pass estimates when each node would start
(ASAP) and how long a tensor's producers could wait without any of its readers starting later; then
a control edge makes them wait for a TRIGGER: the last node on the way to the first reader, on its
device, that is over early enough.

    trigger -> producers      where the tensor is computed by pure nodes that nothing else reads;
                              what they read is smaller than the tensor, or is kept anyway
    trigger -> Recv           else: the copy into the reader's device waits

Invariants
    1. `start` is a schedule at all times: every edge, the added ones too, leads from a node to one
       that starts after it ends.  So the graph stays free of cycles, and the estimated step
       takes no longer.
    2. Only unconditional nodes outside loops wait or are waited for: a trigger is never dead.
    3. No node that reads or changes state moves.

Threads: pure functions; control inputs of the given graph's nodes are added.

    delays = delay(graph)               # {(source, output, place): trigger} for split or cut
"""
from pyflow.passes import place_cost, pure
from pyflow.passes.node import is_ref
from pyflow.passes.partition_frames import BACK, topological

MIN_BYTES = 64 << 10
MAX_REGION, MAX_WALK = 16, 256
_HOP, _LINK = 20e-6, 5e9            # seconds and bytes per second between two places
_FLOPS, _BANDWIDTH, _LATENCY = 1e10, 1e10, 1e-6
_KEPT = frozenset("Const VariableV2 Variable VarHandleOp _Arg Placeholder PlaceholderV2".split())


def delay(graph, place_of=str):
    """Adds the control edges; returns {(node, output index, place): trigger of the Recv}.

    place_of: device name -> the partition it belongs to.
    """
    if len({place_of(n.device) for n in graph.nodes}) < 2:
        return {}
    schedule = _Schedule(graph, place_of)
    delays = {}
    for source, index, place in schedule.large_crossings():
        reader = schedule.first_reader(source, index, place)
        if reader is None:
            continue
        if not schedule.delay_producers(source, index, reader):
            trigger = schedule.trigger_for_copy(source, index, reader)
            if trigger is not None:
                delays[source, index, place] = trigger
    return delays


class _Schedule:
    """Estimated start of every node; readers of every node, by control edges too."""

    def __init__(self, graph, place_of):
        self.nodes, self.place_of = topological(graph.nodes), place_of
        self.conditional = pure.conditional(graph)
        self.seconds = {n: _seconds(n) for n in self.nodes}
        self.start, self.readers = {}, {n: [] for n in self.nodes}
        for node in self.nodes:
            self.start[node] = max((self.end(s) + self.hop(s, i, node)
                                    for s, i in self.edges(node)), default=0.0)
            for source, index in self.edges(node):
                self.readers[source].append((node, index))

    @staticmethod
    def edges(node):
        """[(source, output index or None)], back edges left out."""
        return [e for e in node.inputs if e[0].op not in BACK] + [(c, None) for c in node.controls]

    def end(self, node):
        return self.start[node] + self.seconds[node]

    def hop(self, source, index, reader):
        """Seconds from the end of `source` to where `reader` can start."""
        if self.place_of(source.device) == self.place_of(reader.device):
            return 0.0
        return _HOP + (place_cost.tensor_bytes(source, index) / _LINK if index is not None else 0)

    def large_crossings(self):
        """[(source, output index, place)] worth a delay, what is read first coming first."""
        found = {}
        for node in self.nodes:
            place = self.place_of(node.device)
            for source, index in node.inputs:
                if (self.place_of(source.device) != place and source.op not in BACK
                        and place_cost.tensor_bytes(source, index) >= MIN_BYTES):
                    key = (source, index, place)
                    found[key] = min(found.get(key, self.start[node]), self.start[node])
        return sorted(found, key=found.get)

    def first_reader(self, source, index, place):
        """The reader in `place` that starts first; None if one may be dead or lies in a loop."""
        readers = [r for r, i in self.readers[source]
                   if i == index and self.place_of(r.device) == place]
        if any(r in self.conditional for r in readers):
            return None
        return min(readers, key=self.start.get)

    def trigger(self, reader, over_by, hop):
        """The last node before `reader` on its device that is over `hop` before `over_by`."""
        place, at = self.place_of(reader.device), reader
        for _ in range(MAX_WALK):
            before = [s for s, _ in self.edges(at) if self.place_of(s.device) == place
                      and s not in self.conditional and s.op not in _KEPT]
            if not before:
                return None
            at = max(before, key=self.end)
            if self.end(at) + hop <= over_by:
                return at
        return None

    def trigger_for_copy(self, source, index, reader):
        """The node that the Recv may wait for; None if it would not wait."""
        over_by = self.start[reader] - self.hop(source, index, reader)
        found = self.trigger(reader, over_by, 0.0)
        if found is None or self.end(found) <= self.end(source):
            return None
        self.readers[found].append((reader, None))
        return found

    # ------------------------------------------------------------ producers

    def delay_producers(self, source, index, reader):
        """True if the nodes that compute the tensor wait from now on."""
        region = self.region(source)
        if not region or self.held_bytes(region) >= place_cost.tensor_bytes(source, index):
            return False
        over_by = min(self.start[r] - self.hop(source, i, r) for r, i in self.readers[source])
        rest = {}                           # from a node's start to the end of `source`
        for node in region:
            rest[node] = self.seconds[node] + max(
                (rest[r] for r, _ in self.readers[node] if r in rest), default=0.0)
        inside = set(region)
        first = [n for n in region if not any(s in inside for s, _ in self.edges(n))]
        hop = self.hop(reader, None, source)
        found = self.trigger(reader, over_by - max(rest[n] for n in first), hop)
        if found is None or self.end(found) <= max(self.start[n] for n in first):
            return False
        for node in first:
            if found not in node.controls:
                node.controls.append(found)
                self.readers[found].append((node, None))
        for node in reversed(region):
            self.start[node] = max(self.end(s) + self.hop(s, i, node)
                                   for s, i in self.edges(node))
        return True

    def region(self, source):
        """The nodes that may wait together with `source`, last first: nobody else reads them."""
        region, inside, place = [], set(), self.place_of(source.device)
        todo = [source]
        while todo and len(region) < MAX_REGION:
            node = todo.pop(0)
            if node in inside or not self.may_wait(node) or self.place_of(node.device) != place:
                continue
            if node is not source and any(r not in inside for r, _ in self.readers[node]):
                continue
            region.append(node)
            inside.add(node)
            todo += [s for s, _ in self.edges(node)]
        return region

    def may_wait(self, node):
        return (pure.is_pure(node.op) and node not in self.conditional
                and not any(is_ref(s.types[i]) for s, i in node.inputs if i < len(s.types)))

    def held_bytes(self, region):
        """Bytes of what the region reads and would keep alive longer."""
        inside = set(region)
        outside = {(s, i) for n in region for s, i in n.inputs
                   if s not in inside and s.op not in _KEPT}
        return sum(place_cost.tensor_bytes(s, i) for s, i in outside)


def _seconds(node):
    flops, traffic = place_cost.estimate(node)
    return _LATENCY + max(flops / _FLOPS, traffic / _BANDWIDTH)
