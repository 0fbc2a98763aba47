"""The rules of arithmetic simplification: a table from ops to functions.

    rule(walk, node) -> None                    nothing to do
                        (name, edge)            `edge` gives what output 0 of `node` gives
                        (name, None)            `node` was changed in place

Invariants
    1. A rule that gives an edge keeps the shape: by the op's meaning, or by static shapes.
    2. An inner node that is skipped has no control inputs, so no order is lost, and what else it
       or `node` reads is never dead: a value from around a loop, read without the constant that
       ended with the turn, would live on in turns that are none.
    3. A rule that skips a check that a kernel would have made knows by static shapes that it holds.

Threads: pure functions over one walk (passes/arithmetic.py), which lists the tolerances.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.passes import pure

_FLOATS = frozenset((dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bfloat16))
_COMPLEX = frozenset((dtypes.complex64, dtypes.complex128))
_SMALL = 1024                           # elements of a constant that a rule looks at


def _inner(node, op, position=0):
    """The node of type `op` behind an input, if it may be skipped."""
    source = node.inputs[position][0]
    return source if source.op == op and not source.controls else None


def _identity(walk, node):
    edge = node.inputs[0]
    source, index = edge
    if source.op in pure.FLOW or not pure.is_value(source.types[index]):
        return None
    return "identity", edge


# ---------------------------------------------------------------- neutral constants

def _is_all(array, number, negative_zero=None):
    if array is None or not 0 < array.size <= _SMALL or array.dtype.kind not in "fiuV":
        return False
    if not (array == number).all():
        return False
    return negative_zero is None or array.dtype.kind in "iu" or array.dtype.kind == "f" and bool(
        (np.signbit(array) == negative_zero).all())


def _keeps_shape(walk, edge, array):
    """True if an element-wise op of `edge` and a constant has the shape of `edge`."""
    if array.ndim == 0:
        return True
    dims = walk.shape(edge)
    if dims is None or array.ndim > len(dims):
        return False
    return all(a in (1, d) for a, d in zip(array.shape[::-1], dims[::-1]))


def _neutral(walk, node, name, left, number, negative_zero=None):
    """(name, the other input) if an input is a constant that changes nothing."""
    for constant, other in ((1, 0), (0, 1)) if left else ((1, 0),):
        array = walk.const(node.inputs[constant])
        if _is_all(array, number, negative_zero) and _keeps_shape(walk, node.inputs[other], array):
            return name, node.inputs[other]
    return None


def _reads_const(node):
    (a, _), (b, _) = node.inputs
    return b.op == "Const" or a.op == "Const"


def _add(walk, node):
    if not _reads_const(node):
        return None
    return (_neutral(walk, node, "add 0", True, 0, negative_zero=True)
            or _reassociate(walk, node, "add of constants", np.add, integers=True))


def _sub(walk, node):
    return _neutral(walk, node, "subtract 0", False, 0, negative_zero=False)


def _mul(walk, node):
    if not _reads_const(node):
        return None
    return (_neutral(walk, node, "multiply by 1", True, 1)
            or _reassociate(walk, node, "product of constants", np.multiply, integers=False))


def _div(walk, node):
    return _neutral(walk, node, "divide by 1", False, 1)


def _floor_div(walk, node):
    return None if node.types[0] in _FLOATS else _div(walk, node)


def _reassociate(walk, node, name, function, integers):
    """(x op c1) op c2 -> x op (c1 op c2), constants being scalars: sums of integers (exact: they
    wrap around), products of floats whose product is a normal number."""
    dtype = node.types[0]
    if dtype in _COMPLEX or (dtype in _FLOATS) == integers:
        return None
    for here in (1, 0):
        outer, inner = walk.const(node.inputs[here]), _inner(node, node.op, 1 - here)
        if outer is None or outer.ndim or inner is None:
            continue
        for there in (1, 0):
            array = walk.const(inner.inputs[there])
            if array is None or array.ndim or array.dtype != outer.dtype:
                continue
            with np.errstate(all="ignore"):
                both = function(array, outer).astype(outer.dtype)
            if not integers and not _is_normal(both, dtype):
                return None
            edge = walk.new_const(node, "constant", both)
            walk.change(node, node.op, [inner.inputs[1 - there], edge], node.attrs)
            return name, None
    return None


def _is_normal(number, dtype):
    info = dtypes_info(dtype)
    return info is not None and float(info.tiny) <= abs(float(number)) <= float(info.max)


def dtypes_info(dtype):
    """np.finfo of a floating type, or None for those NumPy has none for."""
    try:
        return np.finfo(dtype.as_numpy_dtype)
    except ValueError:
        return None


def _pow(walk, node):
    found = _neutral(walk, node, "power 1", False, 1)
    dtype, exponent = node.types[0], walk.const(node.inputs[1])
    if found or exponent is None or exponent.ndim or dtype not in _FLOATS:
        return found
    op = {2.0: "Square", -1.0: "Reciprocal"}.get(float(exponent))
    if op is None:
        return None
    walk.change(node, op, node.inputs[:1], {"T": dtype})
    return f"power {float(exponent):g}", None


# ---------------------------------------------------------------- twice the same

def _involution(walk, node):
    inner = _inner(node, node.op)
    return (f"double {node.op}", inner.inputs[0]) if inner is not None else None


def _cast(walk, node):
    if node.attrs.get("SrcT") is node.types[0]:
        return "cast to the same type", node.inputs[0]
    inner = _inner(node, "Cast")
    if inner is None:
        return None
    first, between, last = inner.attrs["SrcT"], inner.types[0], node.types[0]
    if between not in _HOLDS.get(first, ()):
        return None
    if first is last:
        return "cast there and back", inner.inputs[0]
    if last in _HOLDS and not node.attrs.get("Truncate") and not inner.attrs.get("Truncate"):
        walk.change(node, "Cast", inner.inputs, {**node.attrs, "SrcT": first})
        return "cast in one step", None
    return None


# type -> types that hold every value of it
_HOLDS = {
    dtypes.bool: (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.int32, dtypes.int64,
                  dtypes.float32, dtypes.float64),
    dtypes.int8: (dtypes.int16, dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64),
    dtypes.uint8: (dtypes.int16, dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64),
    dtypes.int16: (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64),
    dtypes.int32: (dtypes.int64, dtypes.float64),
    dtypes.int64: (),
    dtypes.float32: (dtypes.float64,),
    dtypes.float64: (),
}


# ---------------------------------------------------------------- shapes

def _same_shape(walk, node):
    """Reshape, Squeeze and ExpandDims: back to a shape that the data had before."""
    wanted = walk.shape((node, 0)) if _shape_may_go(walk, node) else None
    edge, steps, end = node.inputs[0], 0, None
    while wanted is not None and steps < 8:
        if walk.shape(edge) == wanted:
            end = edge
        source = edge[0]
        if source.op not in _RESHAPES or source.controls or not _shape_may_go(walk, source):
            break
        edge, steps = source.inputs[0], steps + 1
    if end is not None:
        return f"{node.op} to the same shape", end
    return _reshape_twice(walk, node) if node.op == "Reshape" else _axis_pair(walk, node)


def _shape_may_go(walk, node):
    """True if the shape or axis that a Reshape or ExpandDims reads is never dead, and cannot be
    wrong: a shape that is not known may be one that the elements do not fill, which is an error."""
    if node.op == "Reshape":
        asked, made = walk.const(node.inputs[1]), walk.shape((node, 0))
        if asked is None or made is None or len(made) != asked.size:
            return False
        if any(d not in (-1, size) for d, size in zip(asked.ravel().tolist(), made)):
            return False
    return len(node.inputs) == 1 or walk.is_always_alive(node.inputs[1])


def _reshape_twice(walk, node):
    inner, made, wanted = _inner(node, "Reshape"), walk.shape(node.inputs[0]), walk.shape((node, 0))
    if inner is None or made is None or wanted is None or not _shape_may_go(walk, inner):
        return None
    dims = walk.shape(inner.inputs[0])
    if dims is None or not _product(dims) == _product(made) == _product(wanted):
        return None
    walk.change(node, "Reshape", [inner.inputs[0], node.inputs[1]], node.attrs)
    return "Reshape of a Reshape", None


def _product(dims):
    total = 1
    for d in dims:
        total *= d
    return total


def _axis_pair(walk, node):
    """Squeeze(ExpandDims(x, axis), [axis]) of any shape."""
    inner = _inner(node, "ExpandDims") if node.op == "Squeeze" else None
    axis = walk.const(inner.inputs[1]) if inner is not None else None
    asked = list(node.attrs.get("squeeze_dims") or ())
    if axis is None or axis.size != 1 or asked != [int(axis.ravel()[0])]:
        return None
    return "Squeeze of ExpandDims", inner.inputs[0]


_RESHAPES = frozenset(("Reshape", "Squeeze", "ExpandDims"))


def _reduce(walk, node):
    axes = walk.const(node.inputs[1])
    return ("reduction over no axis", node.inputs[0]) if axes is not None and not axes.size \
        else None


def _spread(walk, node):
    """Tile by ones, Pad by zeros, BroadcastTo the same shape."""
    dims = walk.shape(node.inputs[0])
    if dims is None or dims != walk.shape((node, 0)) or walk.const(node.inputs[1]) is None:
        return None
    return f"{node.op} of nothing", node.inputs[0]


def _only(walk, node):
    return (f"{node.op} of one", node.inputs[0]) if len(node.inputs) == 1 else None


# ---------------------------------------------------------------- transposes

def _permutation(walk, node):
    """The order a Transpose gives, if it is constant and fits its input."""
    array = walk.const(node.inputs[1])
    if array is None or array.ndim != 1 or walk.rank(node.inputs[0]) != array.size:
        return None
    order = [int(p) for p in array]
    return order if sorted(order) == list(range(len(order))) else None


def _transpose(walk, node):
    order = _permutation(walk, node)
    if order is None:
        return None
    if order == sorted(order):
        return "Transpose to the same order", node.inputs[0]
    inner = _inner(node, "Transpose")
    first = _permutation(walk, inner) if inner is not None else None
    if first is not None and all(first[p] == i for i, p in enumerate(order)):
        return "double Transpose", inner.inputs[0]
    return None


def _matmul(walk, node):
    """Transpose of an operand becomes MatMul's transpose_a or transpose_b."""
    flags = ("transpose_a", "transpose_b") if node.op == "MatMul" else ("adj_x", "adj_y")
    if node.op != "MatMul" and node.types[0] in _COMPLEX:
        return None
    for position, flag in enumerate(flags):
        inner = _inner(node, "Transpose", position)
        order = _permutation(walk, inner) if inner is not None else None
        if order is None or not _swaps_last_two(order):
            continue
        inputs = list(node.inputs)
        inputs[position] = inner.inputs[0]
        walk.change(node, node.op, inputs, {**node.attrs, flag: not node.attrs.get(flag, False)})
        return f"Transpose into {node.op}", None
    return None


def _swaps_last_two(order):
    n = len(order)
    return n >= 2 and order == [*range(n - 2), n - 1, n - 2]


RULES = {
    **dict.fromkeys(("Identity", "StopGradient", "PreventGradient", "Snapshot",
                     "PlaceholderWithDefault"), _identity),
    **dict.fromkeys(("Add", "AddV2"), _add), "Sub": _sub, "Mul": _mul, "Pow": _pow,
    **dict.fromkeys(("Div", "RealDiv", "TruncateDiv"), _div), "FloorDiv": _floor_div,
    **dict.fromkeys(("Neg", "Conj", "Invert", "LogicalNot", "Reciprocal", "Inv"), _involution),
    "Cast": _cast,
    **dict.fromkeys(_RESHAPES, _same_shape),
    **dict.fromkeys(("Sum", "Mean", "Max", "Min", "Prod", "Any", "All"), _reduce),
    **dict.fromkeys(("Tile", "Pad", "PadV2", "BroadcastTo"), _spread),
    **dict.fromkeys(("AddN", "AccumulateNV2"), _only),
    "Transpose": _transpose,
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2"), _matmul),
}
