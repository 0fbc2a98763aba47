"""Frames of a pass graph: which while loop each node belongs to, as the executor sees it.

Invariants
    1. A node's frame is the frame its inputs come from; `Enter` opens a frame named by its
       attribute inside the one it reads from, `Exit` leads back to the parent.
    2. Without the edges NextIteration -> Merge the graph has no cycle (InvalidArgumentError).

Threads: pure functions.

    frames = Frames(graph)
    frames.inside[node]      # the Frame in which the node runs
    frames.of_output(node)   # the Frame its outputs and control edges belong to
"""
from pyflow.framework import errors

ENTERS = frozenset(("Enter", "RefEnter"))
EXITS = frozenset(("Exit", "RefExit"))
MERGES = frozenset(("Merge", "RefMerge"))
BACK = frozenset(("NextIteration", "RefNextIteration"))


class Frame:
    """One while loop: `parent` (None: the root itself), `name`, `enter` (one of its Enters),
    `loop_cond`."""

    __slots__ = ("parent", "name", "enter", "loop_cond")

    def __init__(self, parent=None, name="", enter=None):
        self.parent, self.name, self.enter, self.loop_cond = parent, name, enter, None

    @property
    def is_root(self):
        return self.parent is None

    def __repr__(self):
        return f"<Frame {self.name or '(root)'}>"


class Frames:
    """The frames of a graph; `inside` maps nodes to frames."""

    def __init__(self, graph):
        self.root = Frame()
        self.inside, self._entered, self._children = {}, {}, {}
        if not any(n.op in ENTERS for n in graph.nodes):
            self.inside = dict.fromkeys(graph.nodes, self.root)
            topological(graph.nodes)
            return
        for node in topological(graph.nodes):
            self._place(node)

    def of_output(self, node):
        """The frame that the node's outputs and control edges belong to."""
        if node.op in ENTERS:
            return self._entered[node]
        return self.inside[node].parent or self.root if node.op in EXITS else self.inside[node]

    def _place(self, node):
        sources = [s for s, _ in node.inputs if s.op not in BACK or node.op not in MERGES]
        source = next(iter(sources + node.controls), None)
        frame = self.inside[node] = self.root if source is None else self.of_output(source)
        if node.op in ENTERS:
            self._entered[node] = self._child(frame, node)
        elif node.op == "LoopCond" and not frame.is_root:
            frame.loop_cond = node

    def _child(self, parent, enter):
        name = enter.attrs["frame_name"]
        name = name.decode() if isinstance(name, bytes) else name
        if (parent, name) not in self._children:
            self._children[parent, name] = Frame(parent, name, enter)
        return self._children[parent, name]


def topological(nodes):
    """Sources first, else in the given order; the edges NextIteration -> Merge are ignored."""
    waiting, readers = {}, {}
    for node in nodes:
        sources = [s for s, _ in node.inputs if s.op not in BACK or node.op not in MERGES]
        sources += node.controls
        waiting[node] = len(sources)
        for source in sources:
            readers.setdefault(source, []).append(node)
    order = [n for n in nodes if not waiting[n]]
    for node in order:
        for reader in readers.get(node, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                order.append(reader)
    if len(order) < len(nodes):
        stuck = next(n for n in nodes if waiting[n])
        raise errors.InvalidArgumentError(
            None, stuck.origin,
            f"the graph has a cycle through node '{stuck.name}' ({stuck.op}) that is not a while"
            " loop: a loop's way back is a NextIteration that its Merge reads")
    return order
