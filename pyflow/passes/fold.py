"""Constant folding: nodes whose value does not depend on the step become Consts.

    shapes     Shape, ShapeN, Size, Rank of tensors whose static shape is known
    values     pure ops (passes/pure.py) of constants: evaluated once, by the real kernels

Invariants
    1. A Const waits for what the node it replaces waited for: its control inputs, those of the
       constants behind it, and, where a tensor may be dead or belongs to a loop, the node whose
       shape was read.  So it lives and dies, and turns, with that node.
    2. A result is at most MAX_BYTES, and at most SLACK bytes larger than what it was made from.
    3. A node whose evaluation fails stays as it is: the step that needs it reports the error.
    4. The walk is linear; all values are computed by one small plan.

Threads: works on the caller's graph, in place.

    folded = fold.fold(graph, evaluate)     # evaluate(pass graph) -> arrays, or raises Unfoldable
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.tensor_shape import TensorShape
from pyflow.passes import pure
from pyflow.passes.node import Graph, Node

MAX_BYTES = 10 << 20
SLACK = 64 << 10
MAX_CONTROLS = 4
ATTEMPTS = 8                            # plans tried when nodes fail
_SHAPES = frozenset(("Shape", "ShapeN", "Size", "Rank"))
# Ops whose result is never larger than their inputs, so it may be unknown until they ran.
_BOUNDED = frozenset(("BroadcastGradientArgs", "ListDiff", "Unique", "StridedSlice", "Slice",
                      "Concat", "ConcatV2", "Reshape", "Squeeze", "Where", "BroadcastArgs"))
# What computes shapes: with inputs of at most SMALL bytes the result is small, too.
_SHAPE_ARITHMETIC = frozenset("""Add AddV2 Sub Mul FloorDiv FloorMod Maximum Minimum Neg Cast Pack
    Prod Sum Max Min Gather GatherV2 ReverseV2 InvertPermutation ExpandDims Identity Select Equal
    NotEqual Less Greater LessEqual GreaterEqual LogicalAnd LogicalOr LogicalNot""".split())
SMALL = 512


class Unfoldable(Exception):
    """What `evaluate` raises: `node` is the name of the node that failed, or None."""

    def __init__(self, node):
        super().__init__(node)
        self.node = node


def fold(graph, evaluate):
    """Folds in place.  Returns how many nodes became constants."""
    found = _Search(graph)
    replaced = _shape_constants(found)
    replaced.update(_computed_constants(graph, found, evaluate))
    return _replace(graph, replaced, found.waits) if replaced else 0


class _Search:
    """What the walk finds: `waits` maps constant nodes to the control inputs a Const for them
    needs, `values` shape nodes to their arrays, `computed` lists what to evaluate."""

    def __init__(self, graph):
        self.graph, self.waits, self.values, self.computed = graph, {}, {}, []
        self._bytes, self._conditional = {}, None
        waits, is_pure = self.waits, pure.is_pure
        for node in graph.nodes:
            op, inputs = node.op, node.inputs
            if op == "Const":
                waits[node] = node.controls
            elif op in _SHAPES:
                self._take_shape(node)
            elif inputs and inputs[0][0] in waits and is_pure(op):
                for source, _ in inputs:
                    if source not in waits:
                        break
                else:
                    self._take(node)

    def _take_shape(self, node):
        arrays = _shape_arrays(node)
        if arrays is None:
            return
        waits = list(node.controls)
        for source, _ in node.inputs:
            if self._may_be_dead(source):
                if source.op in pure.SPLITS:
                    return              # a control edge from a Switch says nothing about a branch
                waits.append(source)
        if len(waits) <= MAX_CONTROLS:
            self.waits[node], self.values[node] = list(dict.fromkeys(waits)), arrays

    def _may_be_dead(self, node):
        if self._conditional is None:
            has_flow = self.graph.has_control_flow()
            self._conditional = pure.conditional(self.graph) if has_flow else ()
        return node in self._conditional

    def _take(self, node):
        waits = node.controls
        for source, _ in node.inputs:
            if self.waits[source]:
                waits = list(dict.fromkeys((*waits, *self.waits[source])))
        if len(waits) > MAX_CONTROLS or not self._is_small(node):
            return
        self.waits[node] = waits
        self.computed.append(node)

    def _is_small(self, node):
        read = sum(self._size(s) for s, _ in node.inputs)
        made = 0
        for i, dtype in enumerate(node.types):
            dims = pure.full_shape(node, i)
            if dims is not None:
                count = 1
                for d in dims:
                    count *= d
                made += count * _item_bytes(dtype)
            elif node.op in _BOUNDED:
                made += 8 * read        # types may widen: int32 in, int64 out
            elif node.op in _SHAPE_ARITHMETIC and read <= SMALL:
                made += read
            else:
                return False
        self._bytes[node] = made
        return made <= MAX_BYTES and made <= read + SLACK

    def _size(self, node):
        if node.op == "Const":
            return node.attrs["value"].nbytes
        return self._bytes.get(node, 64)


def _item_bytes(dtype):
    return 64 if dtype is dtypes.string else dtype.size


def _shape_arrays(node):
    """What a Shape, ShapeN, Size or Rank node gives, or None if that is not known."""
    source, index = node.inputs[0]
    if node.op == "Rank":
        shape = source.shapes[index] if source.shapes else None
        return None if shape is None or shape.ndims is None else [np.array(shape.ndims, np.int32)]
    arrays = []
    for (source, index), dtype in zip(node.inputs, node.types):
        dims = pure.full_shape(source, index)
        if dims is None:
            return None
        numpy_type = dtype.as_numpy_dtype
        value = dims if node.op != "Size" else int(np.prod(dims, dtype=np.float64))
        if np.prod(dims, dtype=np.float64) > np.iinfo(numpy_type).max:
            return None
        arrays.append(np.array(value, numpy_type))
    return arrays


def _shape_constants(found):
    return {node: dict(enumerate(arrays)) for node, arrays in found.values.items()}


def _computed_constants(graph, found, evaluate):
    """{node: {output: array}} of the computed nodes that others read."""
    computed = found.computed
    for _ in range(ATTEMPTS):
        if not computed:
            return {}
        edges = _read_from_outside(graph, set(computed))
        if not edges:
            return {}
        try:
            arrays = evaluate(_small_graph(edges, computed, found))
        except Unfoldable as failure:
            computed = _without(computed, failure.node)
            continue
        replaced = {}
        for (node, index), array in zip(edges, arrays):
            if array.nbytes <= MAX_BYTES:
                replaced.setdefault(node, {})[index] = array
        return replaced
    return {}


def _read_from_outside(graph, inside):
    edges = {}
    for node in graph.nodes:
        if node not in inside:
            for edge in node.inputs:
                if edge[0] in inside:
                    edges[edge] = True
    return list(edges)


def _without(computed, failed):
    """`computed` less the node called `failed` and what is computed from it; empty if there is
    none."""
    bad = {n for n in computed if n.name == failed}
    if not bad:
        return []
    for node in computed:
        if any(s in bad for s, _ in node.inputs):
            bad.add(node)
    return [n for n in computed if n not in bad]


def _small_graph(edges, computed, found):
    """A graph that fetches `edges`, without control inputs and devices."""
    needed, stack = set(), [node for node, _ in edges]
    inside = set(computed)
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            if node in inside:
                stack.extend(s for s, _ in node.inputs)
    copies, nodes = {}, []
    for node in found.graph.nodes:
        if node not in needed:
            continue
        if node in found.values:
            consts = [_const(f"{node.name}/_value_{i}", array, node)
                      for i, array in enumerate(found.values[node])]
            copies[node] = [(c, 0) for c in consts]
            nodes += consts
            continue
        copy = node.copy_without_edges()
        copy.device = ""
        copy.inputs = [copies[s][i] for s, i in node.inputs] if node in inside else []
        copies[node] = [(copy, i) for i in range(len(node.types))]
        nodes.append(copy)
    rets = [Node(f"_retval_{k}", "_Retval", [copies[n][i]],
                 attrs={"T": n.types[i], "index": k}) for k, (n, i) in enumerate(edges)]
    return Graph(nodes + rets, (), rets)


def _const(name, array, like, controls=()):
    dtype = dtypes.as_dtype(array.dtype) if array.dtype != object else dtypes.string
    return Node(name, "Const", (), controls, {"dtype": dtype, "value": array}, like.device,
                (dtype,), like.origin, [TensorShape(array.shape)])


def _replace(graph, replaced, waits):
    """Puts Consts in the place of folded nodes; what only they read goes.  Returns how many."""
    moved, orphans, nodes = {}, [], []
    for node in graph.nodes:
        if node not in replaced:
            nodes.append(node)
            continue
        orphans += [s for s, _ in node.inputs]
        if len(node.types) == 1:
            folded = _const(node.name, replaced[node][0], node, waits[node])
            node.op, node.attrs, node.shapes = "Const", folded.attrs, folded.shapes
            node.inputs, node.controls = [], folded.controls
            nodes.append(node)
            continue
        for index, array in replaced[node].items():
            moved[node, index] = _const(f"{node.name}/_folded_{index}", array, node, waits[node])
            nodes.append(moved[node, index])
        nodes.append(node)              # until nothing reads it
        orphans.append(node)
    graph.nodes = nodes
    if moved:
        for node in nodes:
            for i, edge in enumerate(node.inputs):
                if edge in moved:
                    node.inputs[i] = (moved[edge], 0)
    pure.sweep(graph, orphans)
    return len(replaced)
