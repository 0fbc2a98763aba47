"""Reads of ref variables: what names a variable's value, and who reads it after an update.

In TensorFlow the Identity of a reference shares the variable's buffer, so whoever computes with
`v/read` after an update of v sees the update.  The executor's plan follows that for the edges it
sees (_executor/core/plan/reads.pyx); passes that move a read to another node, or to another time, ask
here whether that would show.

    NAME      an output that is a reference, or what only passes its value on (Identity, Reshape,
              Switch, Merge, Enter, Exit, NextIteration ...)
    UPDATE    a node with a reference among its inputs that it takes as one (Assign, ApplyAdam)
    BEHIND    the nodes that a path of edges leads to from an update, a loop's back edges included

Invariants
    1. Nothing is computed for graphs without updates.
    2. It describes the graph as it was when this object was made; what passes do afterwards keeps
       the order of the nodes that stay.

Threads: reads a graph that belongs to the calling thread.

    reads = Reads(graph)
    reads.sees_update(v_read, 0, mul)       # True: mul runs after an update of v
"""
import collections

from pyflow.framework import op as op_lib
from pyflow.passes.node import is_ref

PASSING = frozenset("""Identity RefIdentity StopGradient PreventGradient PlaceholderWithDefault
    Switch RefSwitch Enter RefEnter Exit RefExit NextIteration RefNextIteration
    Reshape ExpandDims Squeeze EnsureShape Bitcast CheckNumerics Print""".split())
_ALL_INPUTS = frozenset(("Merge", "RefMerge", "IdentityN"))         # each may be passed on


def takes_reference(node, position):
    """False where the value is read (Identity of a variable)."""
    op_def = getattr(node.origin, "op_def", None)
    if op_def is None or op_def.name != node.op:
        op_def = op_lib.find_op(node.op)
    if op_def is None or not any(arg.is_ref for arg in op_def.inputs):
        return False
    spans = op_def.input_spans(node.attrs)
    return any(
        arg.is_ref and start <= position < stop for arg, (start, stop) in zip(op_def.inputs, spans)
    )


def waits_of(source, reader):
    """The nodes after which `reader` reads `source`: its control inputs and its other inputs."""
    others = [s for s, _ in reader.inputs if s is not source]
    return list(dict.fromkeys(reader.controls + others))


class Reads:
    """The names of a graph's ref variables and the nodes behind their updates."""

    def __init__(self, graph):
        self._names, self._updates, self._behind, self._readers = {}, {}, {}, None
        updates = [n for n in graph.nodes if _updates(n)]
        if updates:
            self._trace(graph.nodes, updates)

    def __bool__(self):
        """True if the graph updates a variable by reference."""
        return bool(self._updates)

    def name(self, source, index):
        """What stands for the variable that this output names the value of, or None."""
        found = self._names.get(source)
        if found is None or index > 0 and source.op in ("Merge", "RefMerge"):
            return None
        return self._leader(found)

    def sees_update(self, source, index, reader):
        """True if the output names a variable's value and an update of it leads to `reader`, or
        that is a fetch, which is read when the step is over."""
        name = self.name(source, index)
        return name in self._updates and (reader.op == "_Retval" or reader in self.behind(name))

    def ends_late(self, node):
        """True if an update leads to a node that computes with the name that `node` passes on."""
        if self.name(node, 0) not in self._updates:
            return False
        behind, stack, seen = self.behind(self.name(node, 0)), [node], {node}
        while stack:
            source = stack.pop()
            for reader in self.readers(source):
                if not any(s is source and self.name(s, i) for s, i in reader.inputs):
                    continue                    # it only waits
                if reader not in self._names or not self.name(reader, 0):
                    if reader in behind:
                        return True
                elif reader not in seen:
                    seen.add(reader)
                    stack.append(reader)
        return False

    def readers(self, node):
        """The nodes that read or await `node`."""
        return self._readers.get(node, ())

    def behind(self, name):
        """The nodes that the updates of a variable lead to."""
        found = self._behind.get(name)
        if found is None:
            found, stack = set(), list(self._updates[name])
            while stack:
                for reader in self._readers.get(stack.pop(), ()):
                    if reader not in found:
                        found.add(reader)
                        stack.append(reader)
            self._behind[name] = found
        return found

    def _trace(self, nodes, updates):
        self._readers = collections.defaultdict(list)
        for node in nodes:
            for source in {s for s, _ in node.inputs}.union(node.controls):
                self._readers[source].append(node)
        shared, more = {}, True
        while more:                             # what a loop brings around needs another walk
            more = False
            for node in nodes:
                more |= self._name_outputs(node, shared)
        for node in updates:
            for position, (source, index) in enumerate(node.inputs):
                if takes_reference(node, position) and self.name(source, index) is not None:
                    self._updates.setdefault(self.name(source, index), []).append(node)

    def _name_outputs(self, node, shared):
        """True if the node was found to name more than before."""
        had, named = self._names.get(node), []
        if node.op in ("VariableV2", "Variable"):
            attrs = node.attrs
            key = (attrs.get("container"), attrs.get("shared_name") or node.name)
            named.append(shared.setdefault(key, node))
        elif node.op in _ALL_INPUTS:
            named += [self._names.get(s) for s, i in node.inputs if self.name(s, i) is not None]
        elif node.op in PASSING:
            named += [self._names.get(s) for s, i in node.inputs[:1] if self.name(s, i) is not None]
        elif any(map(is_ref, node.types)):
            named += [self._names.get(s) for k, (s, i) in enumerate(node.inputs)
                      if takes_reference(node, k) and self.name(s, i) is not None]
            named = named or [node]
        if not named:
            return False
        self._names.setdefault(node, node)
        for other in named:
            self._join(node, other)
        return had is None

    # `_names` is a union-find: a node's entry leads to the leader, whose entry is itself
    def _leader(self, node):
        names = self._names
        while names[node] is not node:
            names[node] = node = names.get(names[node], names[node])
        return node

    def _join(self, node, other):
        self._names.setdefault(other, other)
        a, b = self._leader(node), self._leader(other)
        if a is not b:
            self._names[a] = b


def _updates(node):
    """True for a node that takes a reference and is not one of those that pass it on."""
    if node.op in PASSING or node.op in _ALL_INPUTS:
        return False
    return any(index < len(source.types) and is_ref(source.types[index])
               and takes_reference(node, position)
               for position, (source, index) in enumerate(node.inputs))
