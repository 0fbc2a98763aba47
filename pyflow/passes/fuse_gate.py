"""Activations that are several nodes: a value times a gate made of it.

    HardSwish    Mul(x, Maximum(0, Minimum(1, AddV2(Mul(x, 1/6), 1/2))))
    Swish        Mul(x, Sigmoid(x))

Invariants
    1. Nobody else reads, fetches or waits for a node between x and the last product.
    2. Constants are scalars of exactly those values as float32; operands may stand in either order.

Threads: reads the graph of one walk of fuse.py, writes nothing.

    name, nodes = fuse_gate.find(x, fusion)     # ("Swish", [sigmoid, product]) or (None, [])
"""
import numpy as np

_SIXTH = np.float32(1 / 6)
# op, the constant beside the value; from x on
_HARD = (("Mul", _SIXTH), ("AddV2", np.float32(0.5)), ("Minimum", np.float32(1)),
         ("Maximum", np.float32(0)))


def find(x, fusion):
    """(name, [nodes in order, the product last]) of the gate that reads `x`, or (None, [])."""
    readers = fusion.readers[x]
    if len(readers) != 2 or x in fusion.held or any(r.device != x.device for r in readers):
        return None, []
    for first, product in (readers, readers[::-1]):
        if product.op != "Mul" or _times(product, x) is None:
            continue
        for name, gate in (("Swish", _sigmoid(x, first)), ("HardSwish", _hard(x, first, fusion))):
            if gate and product.inputs[_times(product, x)][0] is gate[-1] \
                    and fusion.only_reader(gate[-1]) is product:
                return name, [*gate, product]
    return None, []


def _times(product, x):
    """Which input of a product of x is the other one; None if x is both or neither."""
    at = [i for i, edge in enumerate(product.inputs) if edge == (x, 0)]
    return 1 - at[0] if len(at) == 1 and len(product.inputs) == 2 else None


def _sigmoid(x, node):
    return [node] if node.op == "Sigmoid" and node.inputs == [(x, 0)] else None


def _hard(x, node, fusion):
    nodes = []
    for op, value in _HARD:
        if node is None or node.op != op or not _is_scalar(node, x, value):
            return None
        nodes.append(node)
        x, node = node, fusion.only_reader(node)
    return nodes


def _is_scalar(node, x, value):
    """Whether a node combines x with the scalar constant `value`."""
    at = _times(node, x)
    if at is None:
        return False
    other, index = node.inputs[at]
    found = other.attrs.get("value") if other.op == "Const" and index == 0 else None
    return found is not None and np.ndim(found) == 0 and np.float32(found) == value
