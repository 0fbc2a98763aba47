"""Arithmetic simplification: nodes that give one of their inputs go, costly ones become cheap ones.

Rules are functions in a table by op (passes/arithmetic_rules.py); one walk in construction order
applies them, so that what a rule makes is seen by those after it.

    exact        everything not named below gives equal values, NaNs, infinities and signs of zero
                 included; x*0 and x+0 (of floats) are left alone, x-0 and x+(-0.0) are exact
    2 ulp        Pow(x, 2) -> Square, Pow(x, -1) -> Reciprocal, Reciprocal(Reciprocal(x)) -> x,
                 (x*c1)*c2 -> x*(c1*c2) where c1*c2 is a normal number
    as a GEMM    Transpose into the flags of MatMul: products are summed in another order
    range        where only the intermediate of a 2 ulp rule over- or underflows, the result is
                 the right one instead of inf, nan or 0

Invariants
    1. A node with control inputs is never removed, nor one that reads or gives a reference.
    2. A removed node's readers, and its control edges, move to the node that stands for it; where
       that is a Switch or another node whose control edge would mean something else, it stays.
    3. A constant counts as one only if it waits for nothing: then it is never dead, and what stands
       for a node is dead exactly when the node was.
    4. Attributes are copied before they are changed: they are the user's operations'.
    5. The time is linear: each rule looks at a node, its inputs and theirs.
    6. No rule moves the read of a ref variable behind an update of it (passes/reads.py).

Threads: works on the caller's graph, in place.

    counts = arithmetic.simplify(graph)     # {"identity": 3, "mul by 1": 1}
"""
import collections

import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.tensor_shape import TensorShape
from pyflow.passes import pure
from pyflow.passes.arithmetic_rules import RULES
from pyflow.passes.node import Node
from pyflow.passes.reads import PASSING, Reads


def simplify(graph):
    """Applies the rules in place.  Returns {rule: how often}."""
    return dict(_Walk(graph).run())


class _Walk:
    """One walk; what the rules see of it are `const`, `shape`, `new_const` and `count`."""

    def __init__(self, graph):
        self.graph, self.counts = graph, collections.Counter()
        self._stands, self._orphans, self._made, self._awaited = {}, [], [], None
        self._made_so_far, self._conditional = 0, None
        self._reads = Reads(graph)

    def run(self):
        rules, stands, nodes = RULES, self._stands, []
        for node in self.graph.nodes:
            if stands:
                self._redirect(node)
            rule = rules.get(node.op)
            if rule is not None and self._apply(rule, node):
                continue
            if node.controls:
                self._prune_controls(node)
            if self._made:
                nodes += self._made
                self._made.clear()
            nodes.append(node)
        self.graph.nodes = nodes
        if stands:
            for node in nodes:
                self._redirect(node)                    # back edges of loops
        pure.sweep(self.graph, self._orphans)
        return self.counts

    def _apply(self, rule, node):
        """True if the node is gone."""
        if self._reads and self._reads_ahead(node):
            return False
        while True:
            found = rule(self, node)
            if found is None:
                return False
            name, edge = found
            if edge is None:                            # the node was changed: perhaps again
                self.counts[name] += 1
                rule = RULES.get(node.op)
                if rule is None:
                    return False
                continue
            if not self._may_go(node, edge):
                return False
            self.counts[name] += 1
            self._stands[node] = edge
            self._orphans += [s for s, _ in node.inputs if s is not edge[0]]
            return True

    def _reads_ahead(self, node):
        """True if what `node` reads computes with a variable that `node` itself would read later,
        after an update."""
        return any(self._reads.sees_update(s, i, node)
                   for source, _ in node.inputs if source.op not in PASSING
                   for s, i in source.inputs)

    def _keeps_a_value(self, node, edge):
        """True if readers of `node` come after an update of the variable that `edge` names."""
        return node.op not in PASSING and any(
            self._reads.sees_update(*edge, reader) for reader in self._reads.readers(node))

    def _may_go(self, node, edge):
        source, index = edge
        if (node.controls or len(node.types) != 1 or source.device != node.device
                or index >= len(source.types) or source.types[index] is not node.types[0]):
            return False
        if self._reads and self._keeps_a_value(node, edge):
            return False
        return source.op not in pure.FLOW or node not in self._waited_for()

    def _waited_for(self):
        if self._awaited is None:
            self._awaited = {c for n in self.graph.nodes for c in n.controls}
        return self._awaited

    def _redirect(self, node):
        stands, inputs = self._stands, node.inputs
        for i, edge in enumerate(inputs):
            while edge[0] in stands:
                edge = inputs[i] = stands[edge[0]]
        for control in node.controls:
            if control in stands:
                node.controls = list(dict.fromkeys(self._end(c) for c in node.controls))
                break

    def _end(self, node):
        while node in self._stands:
            node = self._stands[node][0]
        return node

    def _prune_controls(self, node):
        """Drops control edges that data edges imply, and those from constants to nodes that have
        inputs."""
        if not node.inputs or node.op in pure.FLOW:
            return
        sources = {s for s, _ in node.inputs}
        kept = [c for c in dict.fromkeys(node.controls)
                if c not in sources and (c.op != "Const" or c.controls)]
        if len(kept) != len(node.controls):
            self.counts["control edge"] += len(node.controls) - len(kept)
            self._orphans += [c for c in node.controls if c not in kept]
            node.controls = kept

    # ---------------------------------------------------------------- for the rules

    def const(self, edge):
        """The array of a Const that waits for nothing, or None."""
        node = edge[0]
        return node.attrs["value"] if node.op == "Const" and not node.controls else None

    def is_always_alive(self, edge):
        """True for what is computed once in every step, outside conditionals and loops."""
        if self._conditional is None:
            has_flow = self.graph.has_control_flow()
            self._conditional = pure.conditional(self.graph) if has_flow else ()
        return edge[0] not in self._conditional

    def shape(self, edge):
        """The static shape of an edge if all of it is known, or None."""
        return pure.full_shape(*edge)

    def rank(self, edge):
        """The static rank of an edge, or None."""
        node, index = edge
        shape = node.shapes[index] if node.shapes else None
        return None if shape is None else shape.ndims

    def change(self, node, op, inputs, attrs):
        """Makes `node` another op; its name, device, types, shapes and controls stay."""
        kept = {s for s, _ in inputs}
        self._orphans += [s for s, _ in node.inputs if s not in kept]
        node.op, node.inputs, node.attrs = op, list(inputs), attrs

    def new_const(self, node, suffix, array):
        """An edge to a new Const beside `node`."""
        array = np.asarray(array)
        dtype = dtypes.as_dtype(array.dtype)
        self._made_so_far += 1
        made = Node(f"{node.name}/_{suffix}_{self._made_so_far}", "Const", attrs={"dtype": dtype, "value": array},
                    device=node.device, types=(dtype,), origin=node.origin,
                    shapes=[TensorShape(array.shape)])
        self._made.append(made)
        return made, 0
