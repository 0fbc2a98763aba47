"""Element-wise fusion: chains and trees of element-wise ops become one node each.

    %a = Mul(%x, %c)                       %y = _FusedElementwise(%x, %c) {nodes: [a, b, y],
    %b = AddV2(%a, %c)              ->         program: "Mul 0 1;AddV2 2 1;Relu 3", results: [4]}
    %y = Relu(%b)

The kernel runs such a program over blocks that stay in registers (ops/fused/fused_elementwise_ops.py says
what a program is), so that only the inputs are read and only the result is written.

Invariants
    1. A group has one result, that of its last node, whose name, origin and place the fused node
       takes.  All readers of the other nodes are in the group: they are not fetched, and nothing
       waits for them by a control edge.
    2. Results are the same bits: instructions compute what the ops' own kernels compute, and
       broadcast as they do, whatever the shapes of the step are.  A mismatch names the user's node.
    3. Nodes join a group only if their static shapes say that they are as large as its result,
       as far as that is known: nothing small is computed for every row.
    4. The fused node waits for what the nodes of its group waited for.  As its result is what all
       of them are for, that makes no cycle.
    5. One walk against construction order: readers are looked at before what they read.  The time
       is linear in the nodes and edges.

Threads: works on the caller's graph, in place.

    counts = fuse_elementwise.fuse(graph)       # {"Add": 2, "Mul": 1}: nodes that are in groups now
"""
import collections
import math

from pyflow.framework import dtypes
from pyflow.ops.fused.fused_elementwise_ops import (INSTRUCTIONS, MAX_INPUTS, MAX_INSTRUCTIONS,
                                                    WITH_ALPHA)
from pyflow.passes import pure
from pyflow.passes.node import is_ref

OP = "_FusedElementwise"
SMALL, MANY = 32, 4                 # elements; nodes: below both, a program gains nothing
MAX_LARGE = 6                       # inputs of a program that are not small: all live until it runs
STREAMED = 8 << 20                  # bytes of a result that its kernel stores past the caches
_FLOATS = frozenset((dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16))
_OF_INTS = frozenset("""Abs Neg Sign Square Relu Relu6 Add AddV2 AddN Sub Mul Maximum Minimum
    SquaredDifference ReluGrad Relu6Grad Equal NotEqual Less LessEqual Greater GreaterEqual Select
    SelectV2 BiasAdd""".split())
_LOGIC = frozenset(("LogicalAnd", "LogicalOr", "LogicalNot"))
_SHAPES = frozenset(("Shape", "ShapeN", "Size", "Rank"))
_OPS = frozenset(INSTRUCTIONS) - {"AddSame"} | {"AddN"}


class _Group:
    """The nodes of one program; `root` is the last one, `edges` what the group reads."""

    __slots__ = ("root", "members", "edges", "type", "dims", "length")

    def __init__(self, node, dtype, length):
        self.root, self.members, self.type, self.length = node, {node}, dtype, length
        self.edges, self.dims = set(node.inputs), _dims(node, 0)


def fuse(graph):
    """Fuses in place.  Returns {op type: how many nodes of it are part of a program now}."""
    found = {}
    for node in graph.nodes:
        if node.op in _OPS and _is_candidate(node):
            found[node] = None
    if not found:
        return {}
    _read_shapes_earlier(graph, found)
    groups = _grow(graph, found)
    counts = collections.Counter()
    gone = set()
    for group in groups:
        if _is_worth(group):
            counts.update(n.op for n in group.members)
            _replace(group)
            gone |= group.members - {group.root}
    if gone:
        graph.nodes = [n for n in graph.nodes if n not in gone]
    return dict(counts)


def _is_worth(group):
    """False for one node, unless its result is stored past the caches and no input is repeated
    inside (the op's own kernel repeats as it computes); and for small tensors, known to be small,
    that a few kernels of their own compute as fast."""
    count = len(group.members)
    size = None if group.dims is None or None in group.dims else math.prod(group.dims)
    if count == 1:
        return (size is not None and size * group.root.types[0].size >= STREAMED
                and all(_lies_along(_dims(*edge), group.dims) for edge in group.root.inputs))
    return size is None or size > SMALL or count >= MANY


def _is_candidate(node):
    op, attrs = node.op, node.attrs
    if len(node.types) != 1 or node.device and ":CPU:" not in node.device:
        return False
    if any(is_ref(source.types[index]) for source, index in node.inputs):
        return False
    if op in _LOGIC:
        return True
    dtype = attrs.get("T")
    if dtype is dtypes.int32:
        return op in _OF_INTS and _fits(node)
    return dtype in _FLOATS and (op != "Erf" or dtype is not dtypes.float64) and _fits(node)


def _fits(node):
    """Conditions of single ops: what their instruction would do differently."""
    op = node.op
    if op == "BiasAdd":
        x, bias = (_dims(*edge) for edge in node.inputs)
        return (node.attrs.get("data_format", "NHWC") in ("NHWC", b"NHWC") and x is not None
                and len(x) >= 2 and bias is not None and len(bias) == 1 and bias[0] is not None
                and bias[0] == x[-1])
    if op in ("Equal", "NotEqual"):
        return bool(node.attrs.get("incompatible_shape_error", True))
    if op == "AddN":
        return 2 <= len(node.inputs) <= 16
    if op == "Select":
        condition, x = (pure.full_shape(*edge) for edge in node.inputs[:2])
        return condition is not None and condition == x
    return True


def _grow(graph, candidates):
    """The groups, last ones first.  candidates: {node: None}, which becomes {node: group}."""
    readers, held = collections.defaultdict(list), set()
    for node in graph.nodes:
        for source, _ in node.inputs:
            if source in candidates:
                readers[source].append(node)
        held.update(node.controls)
    groups = []
    for node in reversed(list(candidates)):
        group = None
        if node not in held:
            group = _common(readers[node], candidates)
            if group is not None and not _join(group, node):
                group = None
        if group is None and node.op not in _LOGIC:
            group = _Group(node, node.attrs["T"], _length(node))
            groups.append(group)
        candidates[node] = group
    return groups


def _common(readers, group_of):
    """The group all readers are in, or None."""
    group = group_of.get(readers[0]) if readers else None
    for reader in readers:
        if group_of.get(reader) is not group:
            return None
    return group


def _length(node):
    return len(node.inputs) - 1 if node.op == "AddN" else 1


def _join(group, node):
    if (node.device != group.root.device or node.op not in _LOGIC
            and node.attrs["T"] is not group.type or not _as_large(_dims(node, 0), group.dims)):
        return False
    edges, length = group.edges, group.length + _length(node)
    more = {e for e in node.inputs if e not in edges}
    if len(edges) - 1 + len(more) > MAX_INPUTS or length > MAX_INSTRUCTIONS:
        return False
    if sum(map(_is_large, edges)) - 1 + sum(map(_is_large, more)) > MAX_LARGE:
        return False
    edges.remove((node, 0))
    edges.update(more)
    group.members.add(node)
    group.length = length
    return True


def _is_large(edge):
    """True unless the tensor is known to be small."""
    dims = _dims(*edge)
    return dims is None or None in dims or math.prod(dims) > SMALL


def _lies_along(dims, whole):
    """True if a tensor of `dims` is known to be a scalar, or `whole`'s last axes."""
    if dims is None or None in dims:
        return False
    own = dims[next((i for i, d in enumerate(dims) if d != 1), len(dims)):]
    return own == whole[len(whole) - len(own):]


def _dims(node, index):
    shape = node.shapes[index] if node.shapes else None
    return shape.as_tuple() if shape is not None else None


def _as_large(dims, whole):
    """True unless it is known that a tensor of `dims` is repeated to become one of `whole`."""
    if dims == whole:
        return True
    if dims is None or whole is None or len(dims) != len(whole):
        return False
    return all(d == w or d is None and w != 1 or w is None and d != 1
               for d, w in zip(dims, whole))


def _read_shapes_earlier(graph, candidates):
    """Nodes that read only the shape of a candidate read that of its input where it is the same:
    gradients ask for the shapes of what they do not use."""
    for node in graph.nodes:
        if node.op in _SHAPES:
            for i, edge in enumerate(node.inputs):
                while edge[0] in candidates and not edge[0].controls:
                    same = _same_shape(edge[0])
                    if same is None or same[0].types[same[1]] is not edge[0].types[edge[1]]:
                        break       # the node says the element type of what it reads
                    edge = node.inputs[i] = same


def _same_shape(node):
    """An input that has the shape of the node's result, whatever the step's shapes are; or None."""
    inputs = node.inputs
    if len(inputs) == 1:
        return inputs[0]
    if node.op == "BiasAdd" or node.op in INSTRUCTIONS and INSTRUCTIONS[node.op][2]:
        return inputs[0]
    if len(inputs) == 2:
        for one, other in (inputs, inputs[::-1]):
            if _dims(*other) == ():
                return one
    return None


class _Writer:
    """Writes a group's program: `lines`, `params`, `nodes`; values are numbered as they appear."""

    def __init__(self, group):
        self.group, self.inputs, self.lines, self.params, self.nodes = group, {}, [], [], []
        self._value = {}
        self.ordered = self._order()
        for node in self.ordered:
            for edge in node.inputs:
                if edge[0] not in group.members:
                    self.inputs.setdefault(edge, len(self.inputs))
        for node in self.ordered:
            self._write(node)

    def _order(self):
        """The members, operands first, each chain in one piece."""
        members, ordered, stack = self.group.members, {}, [self.group.root]
        while stack:
            node = stack[-1]
            for source, _ in node.inputs:
                if source in members and source not in ordered:
                    stack.append(source)
                    break
            else:
                ordered[stack.pop()] = True
        return ordered

    def _write(self, node):
        values = [self.inputs[e] if e in self.inputs else self._value[e[0]] for e in node.inputs]
        if node.op == "AddN":
            value = values[0]
            for other in values[1:]:
                value = self._line(node, "AddSame", (value, other))
        else:
            value = self._line(node, node.op, values)
        self._value[node] = value

    def _line(self, node, op, values):
        self.lines.append(" ".join((op, *map(str, values))))
        self.params.append(float(node.attrs.get("alpha", 0.0)) if op in WITH_ALPHA else 0.0)
        self.nodes.append(node.name)
        return len(self.inputs) + len(self.lines) - 1


def _replace(group):
    """Makes the root the fused node."""
    root, written = group.root, _Writer(group)
    controls = {c: None for n in written.ordered for c in n.controls}
    root.attrs = {
        "program": ";".join(written.lines),
        "results": [len(written.inputs) + len(written.lines) - 1],
        "nodes": written.nodes, "T": group.type, "Tout": [root.types[0]],
        "Tin": [source.types[index] for source, index in written.inputs]}
    if any(written.params):
        root.attrs["params"] = written.params
    root.op, root.inputs, root.controls = OP, list(written.inputs), list(controls)
