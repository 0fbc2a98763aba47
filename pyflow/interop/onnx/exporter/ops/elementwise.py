"""Element-wise arithmetic and activations."""

from pyflow.interop.onnx.exporter.ops.common import (aligned, converts, dtypes, lying, np,
                                                     pointwise)

# Ops that are one node of ONNX's, with the same numbers.
_SAME = {
    "Abs": "Abs", "Neg": "Neg", "Sign": "Sign", "Floor": "Floor", "Ceil": "Ceil", "Exp": "Exp",
    "Round": "Round", "Rint": "Round", "Log": "Log", "Sqrt": "Sqrt", "Sin": "Sin", "Cos": "Cos",
    "Tan": "Tan", "Asin": "Asin", "Acos": "Acos", "Atan": "Atan", "Sinh": "Sinh", "Cosh": "Cosh",
    "Asinh": "Asinh", "Acosh": "Acosh", "Atanh": "Atanh", "Erf": "Erf", "Sigmoid": "Sigmoid",
    "Tanh": "Tanh", "Relu": "Relu", "Elu": "Elu", "Selu": "Selu", "Softplus": "Softplus",
    "Softsign": "Softsign", "Reciprocal": "Reciprocal", "Inv": "Reciprocal",
    "Add": "Add", "AddV2": "Add", "Sub": "Sub", "Mul": "Mul", "RealDiv": "Div", "Pow": "Pow",
    "Maximum": "Max", "Minimum": "Min", "BitwiseAnd": "BitwiseAnd", "BitwiseOr": "BitwiseOr",
    "BitwiseXor": "BitwiseXor", "Invert": "BitwiseNot",
}
_BITWISE = frozenset(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Invert"))
_WHOLE_ALREADY = frozenset(("Floor", "Ceil", "Round", "Rint"))


@converts(*_SAME)
def same(node):
    op = node.op.type
    if op in _BITWISE:
        node.since(18, op)
    if op in _WHOLE_ALREADY and node.dtype().is_integer:
        return node.value(0)
    if node.dtype() is dtypes.string:
        if op not in ("Add", "AddV2"):
            raise node.unsupported("strings")
        node.since(20, "joining strings")
        return pointwise(node, "StringConcat")
    if node.dtype().is_unsigned and op in ("Relu", "Neg"):
        value = node.value(0)
        return value if op == "Relu" else node.ordered(
            node.emit("Sub", number(node, 0), value.named()), value.order)
    return pointwise(node, _SAME[op])


def number(node, value):
    """A scalar of the first input's type."""
    return node.const(value, node.dtype(0))


def over(node, names, order, op, *rest, result=True, dtype=None, **attrs):
    """A further node over names that lie in `order`."""
    return node.compute(op, dtype or node.dtype(0), *names, *rest, result=result, **attrs)


@converts("Relu6")
def relu6(node):
    return pointwise(node, "Clip", number(node, 0), number(node, 6))


@converts("ClipByValue")
def clip_by_value(node):
    names, order = aligned(node)
    if not node.rank(1) and not node.rank(2):
        return node.ordered(node.compute("Clip", node.dtype(), *names), order)
    low = node.compute("Min", node.dtype(), names[0], names[2])
    return node.ordered(node.compute("Max", node.dtype(), low, names[1]), order)


@converts("LeakyRelu")
def leaky_relu(node):
    return pointwise(node, "LeakyRelu", alpha=float(node.attr("alpha", 0.2)))


@converts("Square")
def square(node):
    value = node.value(0)
    name = value.named()
    return node.ordered(node.compute("Mul", node.dtype(), name, name), value.order)


@converts("SquaredDifference")
def squared_difference(node):
    names, order = aligned(node)
    name = node.compute("Sub", node.dtype(), *names)
    return node.ordered(node.compute("Mul", node.dtype(), name, name), order)


@converts("Rsqrt")
def rsqrt(node):
    value = node.value(0)
    name = node.compute("Sqrt", node.dtype(), value.named())
    return node.ordered(node.compute("Reciprocal", node.dtype(), name), value.order)


@converts("Expm1")
def expm1(node):
    """2 tanh(x/2) / (1 - tanh(x/2)), which keeps the digits near 0; exp(x) - 1 further away."""
    value = node.value(0)
    x, dtype = value.named(), node.dtype()
    t = node.compute("Tanh", dtype, node.compute("Mul", dtype, x, number(node, 0.5)))
    top = node.compute("Mul", dtype, t, number(node, 2))
    near = node.compute("Div", dtype, top, node.compute("Sub", dtype, number(node, 1), t))
    far = node.compute("Sub", dtype, node.compute("Exp", dtype, x), number(node, 1))
    small = node.compute("Less", dtype, node.compute("Abs", dtype, x), number(node, 1),
                         result=False)
    return node.ordered(node.where(small, near, far, dtype), value.order)


@converts("Log1p")
def log1p(node):
    """u = 1 + x; log(u) * x / (u - 1) is log(1 + x) to the last digits (Kahan), x where u is 1."""
    value = node.value(0)
    x, dtype, one = value.named(), node.dtype(), number(node, 1)
    u = node.compute("Add", dtype, x, one)
    log = node.compute("Log", dtype, u)
    less = node.compute("Sub", dtype, u, one)
    exact = node.compute("Equal", dtype, less, number(node, 0), result=False)
    safe = node.where(exact, one, less, dtype)
    ratio = node.compute("Div", dtype, x, safe)
    huge = node.compute("Equal", dtype, u, x, result=False)     # infinity over infinity
    made = node.where(huge, log, node.compute("Mul", dtype, log, ratio), dtype)
    return node.ordered(node.where(exact, x, made, dtype), value.order)


@converts("Erfc")
def erfc(node):
    value = node.value(0)
    name = node.compute("Erf", node.dtype(), value.named())
    return node.ordered(node.compute("Sub", node.dtype(), number(node, 1), name), value.order)


@converts("AddN", "AccumulateNV2")
def add_n(node):
    if len(node) == 1:
        return node.value(0)
    names, order = aligned(node)
    if node.dtype().is_floating:
        return node.ordered(node.compute("Sum", node.dtype(), *names), order)
    made = names[0]
    for name in names[1:]:
        made = node.compute("Add", node.dtype(), made, name)
    return node.ordered(made, order)


@converts("MulNoNan", "DivNoNan", "Xdivy", "Xlogy", "Xlog1py")
def with_zero(node):
    """0 where one input is 0, whatever the other is."""
    (x, y), order = aligned(node)
    op, dtype, zero = node.op.type, node.dtype(), number(node, 0)
    if op == "MulNoNan":
        made, tested = node.compute("Mul", dtype, x, y), y
    elif op in ("DivNoNan", "Xdivy"):
        made, tested = node.compute("Div", dtype, x, y), (y if op == "DivNoNan" else x)
    elif op == "Xlogy":
        made, tested = node.compute("Mul", dtype, x, node.compute("Log", dtype, y)), x
    else:
        log = node.compute("Log", dtype, node.compute("Add", dtype, y, number(node, 1)))
        made, tested = node.compute("Mul", dtype, x, log), x
    test = node.compute("Equal", dtype, tested, zero, result=False)
    return node.ordered(node.where(test, zero, made, dtype), order)


# Division of integers

@converts("Div", "TruncateDiv")
def truncate_div(node):
    if not node.dtype().is_floating or node.op.type == "Div":
        return pointwise(node, "Div")
    (x, y), order = aligned(node)
    dtype = node.dtype()
    made = node.compute("Div", dtype, x, y)
    size = node.compute("Floor", dtype, node.compute("Abs", dtype, made))
    return node.ordered(node.compute("Mul", dtype, node.compute("Sign", dtype, made), size), order)


@converts("FloorDiv")
def floor_div(node):
    (x, y), order = aligned(node)
    dtype = node.dtype()
    if dtype.is_floating:
        made = node.compute("Floor", dtype, node.compute("Div", dtype, x, y))
    elif dtype.is_unsigned:
        made = node.compute("Div", dtype, x, y)
    else:       # (x - mod) / y, where mod has y's sign
        rest = node.compute("Mod", dtype, x, y)
        made = node.compute("Div", dtype, node.compute("Sub", dtype, x, rest), y)
    return node.ordered(made, order)


@converts("FloorMod")
def floor_mod(node):
    (x, y), order = aligned(node)
    dtype = node.dtype()
    if not dtype.is_floating:
        return node.ordered(node.compute("Mod", dtype, x, y), order)
    rest = node.compute("Mod", dtype, x, y, fmod=1)
    zero = number(node, 0)
    other = node.emit("Xor", node.compute("Less", dtype, rest, zero, result=False),
                      node.compute("Less", dtype, y, zero, result=False))
    some = node.emit("Not", node.compute("Equal", dtype, rest, zero, result=False))
    turned = node.emit("And", other, some)
    more = node.compute("Add", dtype, rest, y)
    return node.ordered(node.where(turned, more, rest, dtype), order)


@converts("Mod", "TruncateMod")
def truncate_mod(node):
    return pointwise(node, "Mod", fmod=1)


@converts("LeftShift", "RightShift")
def shift(node):
    (x, y), order = aligned(node)
    dtype = node.dtype()
    if not dtype.is_unsigned:
        return _signed_shift(node, x, y, order)
    way = "LEFT" if node.op.type == "LeftShift" else "RIGHT"
    return node.ordered(node.emit("BitShift", x, y, direction=way), order)


def _signed_shift(node, x, y, order):
    """By powers of two: x * 2^y, or x divided by it, rounded down."""
    dtype = node.dtype()
    power = node.cast(node.emit("Pow", node.const(2, dtypes.int64), node.cast(y, dtypes.int64)),
                      dtypes.int64)
    wide = node.cast(x, dtypes.int64)
    if node.op.type == "LeftShift":
        return node.ordered(node.cast(node.emit("Mul", wide, power), dtype), order)
    rest = node.emit("Mod", wide, power)
    made = node.emit("Div", node.emit("Sub", wide, rest), power)
    return node.ordered(node.cast(made, dtype), order)


@converts("Atan2")
def atan2(node):
    """atan(y / x), moved by pi where x is negative; at x = 0 a quarter turn to y's side."""
    (y, x), order = aligned(node)
    dtype, zero, one = node.dtype(), number(node, 0), number(node, 1)

    def less(a, b):
        return node.compute("Less", dtype, a, b, result=False)
    at_zero = node.compute("Equal", dtype, x, zero, result=False)
    angle = node.compute("Atan", dtype, node.compute("Div", dtype, y,
                                                     node.where(at_zero, one, x, dtype)))
    below = less(y, zero)
    side = node.where(below, number(node, -np.pi), number(node, np.pi), dtype)
    moved = node.where(less(x, zero), side, zero, dtype)
    angle = node.compute("Add", dtype, angle, moved)
    quarter = node.compute("Mul", dtype, node.compute("Sign", dtype, y), number(node, np.pi / 2))
    return node.ordered(node.where(at_zero, quarter, angle, dtype), order)


@converts("Erfinv", "Ndtri", "Lgamma", "Digamma")
def special(node):
    raise node.unsupported("ONNX has no op for it")


@converts("BiasAdd", "BiasAddV1")
def bias_add(node):
    """The bias broadcast along the channels, in whatever order the input lies."""
    value, bias, rank = node.value(0), node.value(1), node.rank(0)
    made = node.body.made.get(value.named()) if value.array is None else None
    if made is not None and made.op_type in ("Conv", "ConvTranspose") and len(made.input) == 2 \
            and bias.array is not None and "Conv" in node.op.inputs[0].op.type \
            and node.is_only_reader(0):
        made.input.append(bias.plain)
        return value
    if node.attr("data_format", "NHWC") == "NHWC" or rank < 3:
        order = value.order or tuple(range(rank))
        return node.ordered(node.compute("Add", node.dtype(), value.named(),
                                         lying(node, bias, order)), value.order)
    return node.ordered(node.compute("Add", node.dtype(), value.plain, per_channel(
        node, bias, rank)), None)


def per_channel(node, value, rank):
    """A vector of channels as [C, 1, ...], which broadcasts over N, C, spatial..."""
    sizes = [-1] + [1] * (rank - 2)
    if value.array is not None:
        return node.body.name_of(value.array.reshape(sizes), value.wanted)
    return node.reshape(value.plain, sizes)
