"""Routing nodes of while loops go where they are used, before edges are cut.

    Enter           copied to every place that reads it in the loop: what enters a loop is sent
                    once, not once per iteration; but not if it is a variable's value that somebody
                    reads after an update
    NextIteration   copied to the place of each Merge that reads it: the two are one loop variable
    Exit            goes to the place of its input: the result leaves the loop first, then travels

A place is a device, or a task.

Invariant: afterwards a loop's Merge reads nodes of its own place, and no node but a Merge, a reader
of an Enter or an Exit reads anything new.

Threads: pure functions; nodes of the given list are changed.
"""
from pyflow.passes.partition_frames import BACK, ENTERS, EXITS, MERGES


def settle(nodes, place_of, reads):
    """The nodes of the graph, copies right after their originals; originals nobody reads are left
    out.  place_of: device name -> place; reads: the graph's `Reads`."""
    for node in nodes:
        if node.op in EXITS:
            node.device = node.inputs[0][0].device
        elif node.op in ENTERS and reads and reads.ends_late(node):
            node.device = node.inputs[0][0].device
    copies = _Copies(place_of, list(nodes), reads)
    for node in copies.todo:
        node.inputs = [(copies.near(s, node), i) for s, i in node.inputs]
        node.controls = [copies.near(c, node) if c.op in ENTERS else c for c in node.controls]
    if not copies.made:
        return nodes
    added = {}
    for (source, _), copy in copies.made.items():
        added.setdefault(source, []).append(copy)
    used = {s for n in copies.todo for s in (*(s for s, _ in n.inputs), *n.controls)}
    return [each for n in nodes for each in (n, *added.get(n, ()))
            if each in used or each not in added]


class _Copies:
    """Copies by (original, place); `todo` grows by those whose own inputs are to be looked at."""

    def __init__(self, place_of, todo, reads):
        self.place_of, self.todo, self.reads = place_of, todo, reads
        self.made, self._original = {}, {}

    def near(self, source, reader):
        """`source`, or what stands for it in the reader's place if it is a routing node."""
        if not (source.op in ENTERS or source.op in BACK and reader.op in MERGES):
            return source
        if source.op in ENTERS and self.reads and self.reads.sees_update(source, 0, reader):
            return source                   # a variable that the loop updates: read where it is
        source, place = self._original.get(source, source), self.place_of(reader.device)
        if self.place_of(source.device) == place:
            return source
        if (source, place) not in self.made:
            copy = self.made[source, place] = source.copy_without_edges()
            self._original[copy] = source
            copy.name, copy.device = f"{source.name}/_in_{len(self.made)}", reader.device
            copy.inputs, copy.controls = list(source.inputs), list(source.controls)
            self.todo.append(copy)
        return self.made[source, place]
