"""Common subexpressions: of nodes that compute the same, the first one stays.

Two nodes are the same if op, device, attributes, inputs and control inputs are equal.  Equal inputs
mean the same frame and the same deadness, so this holds in conditionals and loops, too.

Invariants
    1. Only pure ops (passes/pure.py) and Consts up to CONST_BYTES are merged; nodes that touch
       references or handles never are.
    2. One walk in construction order: inputs are merged before their readers are looked at.  The
       time is linear in the nodes and edges.
    3. The survivor keeps its name, origin and place; readers and control edges move to it.

Threads: works on the caller's graph, in place.

    merged = cse.merge_equal(graph)     # how many nodes went
"""
import numpy as np

from pyflow.framework.dtypes import DType
from pyflow.framework.tensor_shape import TensorShape
from pyflow.passes import pure

CONST_BYTES = 1024
_MERGED_FLOW = frozenset(("Switch",))
_PLAIN = frozenset((bool, int, str, bytes, DType))
_IGNORED = frozenset(("_class", "_output_shapes"))       # placement is over; shapes follow


def merge_equal(graph):
    """Merges equal nodes in place; returns how many went."""
    seen, survivor, is_pure = {}, {}, pure.is_pure
    for node in graph.nodes:
        if survivor:
            _redirect(node, survivor)
        op, inputs = node.op, node.inputs
        if inputs and (is_pure(op) or op in _MERGED_FLOW):
            key = (op, node.device, *inputs, *node.controls)
        elif op == "Const":
            key = _const_key(node)
        else:
            continue
        first = seen.setdefault(key, node)
        if first is not node:
            first = _same(node, key, seen)
            if first is not node:
                survivor[node] = first
    if survivor:
        graph.nodes = [n for n in graph.nodes if n not in survivor]
        for node in graph.nodes:
            _redirect(node, survivor)                    # back edges of loops
    return len(survivor)


def _redirect(node, survivor):
    inputs = node.inputs
    for i, edge in enumerate(inputs):
        if edge[0] in survivor:
            inputs[i] = (survivor[edge[0]], edge[1])
    for control in node.controls:
        if control in survivor:
            node.controls = list(dict.fromkeys(survivor.get(c, c) for c in node.controls))
            break


def _const_key(node):
    value = node.attrs["value"]
    if value.dtype == object:
        content = tuple(value.ravel()) if value.size <= 16 else id(value)
    else:
        content = value.tobytes() if value.nbytes <= CONST_BYTES else id(value)
    return ("Const", node.device, node.attrs["dtype"], value.shape, content, *node.controls)


def _same(node, key, seen):
    """The node seen before with `node`'s key and attributes, or `node` itself."""
    if node.op == "Const":
        return seen[key]
    values = (*node.types, *(s.types[i] for s, i in node.inputs if i < len(s.types)))
    if not all(map(pure.is_value, values)):
        return node
    first = seen[key]
    if first.attrs is node.attrs or _plain(node.attrs) and first.attrs == node.attrs:
        return first
    seen.setdefault((key, _frozen(first.attrs)), first)
    return seen.setdefault((key, _frozen(node.attrs)), node)


def _plain(attrs):
    """True if `==` compares these attributes in full (it takes 0.0 and -0.0 for equal)."""
    return all(type(v) in _PLAIN for v in attrs.values())


def _frozen(value):
    """A hashable form of an attribute value; equal only for values that are equal in full."""
    kind = type(value)
    if kind is dict:
        return tuple((k, _frozen(value[k])) for k in sorted(value) if k not in _IGNORED)
    if kind is list or kind is tuple:
        return tuple(map(_frozen, value))
    if kind is TensorShape:
        return "shape", value.as_tuple()
    if kind is np.ndarray:
        data = value.tolist().__repr__() if value.dtype == object else value.tobytes()
        return "array", value.dtype.str, value.shape, data
    if kind is float:
        return "float", value.hex()
    try:
        hash(value)
    except TypeError:
        return id(value)
    return kind.__name__, value
