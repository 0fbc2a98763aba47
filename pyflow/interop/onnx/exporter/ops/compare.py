"""Comparisons, logic, selection and casts."""

from pyflow.interop.onnx.exporter.ops.common import (Value, aligned, converts, dtypes, lying, np,
                                                     pointwise)

_SAME = {"Equal": "Equal", "Less": "Less", "LessEqual": "LessOrEqual", "Greater": "Greater",
         "GreaterEqual": "GreaterOrEqual", "LogicalAnd": "And", "LogicalOr": "Or",
         "LogicalNot": "Not", "IsNan": "IsNaN", "IsInf": "IsInf"}


@converts(*_SAME)
def same(node):
    op = _SAME[node.op.type]
    if node.dtype() is dtypes.string and node.opset < 19:
        node.since(19, "comparing strings")
    return pointwise(node, op, result=op in ("And", "Or", "Not"))


@converts("NotEqual")
def not_equal(node):
    if node.dtype() is dtypes.string:
        node.since(19, "comparing strings")
    made = pointwise(node, "Equal", result=False)
    return node.ordered(node.emit("Not", made.named()), made.order)


@converts("ApproximateEqual")
def approximate_equal(node):
    (x, y), order = aligned(node)
    dtype = node.dtype()
    apart = node.compute("Abs", dtype, node.compute("Sub", dtype, x, y))
    if not dtype.is_floating:
        apart, dtype = node.cast(apart, dtypes.float32), dtypes.float32
    return node.ordered(node.compute("Less", dtype, apart, node.const(
        node.attr("tolerance", 1e-5), dtype), result=False), order)


@converts("IsFinite")
def is_finite(node):
    """x - x is 0 of finite numbers alone."""
    value = node.value(0)
    x, dtype = value.named(), node.dtype()
    made = node.compute("Equal", dtype, node.compute("Sub", dtype, x, x), node.const(0, dtype),
                        result=False)
    return node.ordered(made, value.order)


@converts("SelectV2")
def select_v2(node):
    names, order = aligned(node)
    return node.ordered(node.where(*names, node.dtype(1)), order)


@converts("Select")
def select(node):
    """A vector as the test chooses rows."""
    test, dims, given = node.value(0), node.dims(1), node.dims(0)
    if given is not None and dims is not None and len(given) == 1 and len(dims) > 1:
        name = node.reshape(test.plain, [-1] + [1] * (len(dims) - 1))
        test = Value(name, None, (given[0],) + (1,) * (len(dims) - 1), dtypes.bool, node.body)
    elif given is None or dims is None:
        return _rows_of_unknown_rank(node, test.plain)
    order = node.value(1).order or node.value(2).order
    if order is None:
        return node.where(test.plain, node.x(1), node.x(2), node.dtype(1))
    names = [lying(node, v, order) for v in (test, node.value(1), node.value(2))]
    return node.ordered(node.where(*names, node.dtype(1)), order)


def _rows_of_unknown_rank(node, test):
    """The test's sizes, followed by ones up to the rank of what is selected."""
    sizes = node.sizes_of(test)
    more = node.emit("Sub", node.sizes_of(node.sizes_of(node.x(1))), node.sizes_of(sizes))
    ones = node.emit("ConstantOfShape", more, value=np.array([1], np.int64))
    test = node.reshape(test, node.emit("Concat", sizes, ones, axis=0))
    return node.where(test, node.x(1), node.x(2), node.dtype(1))


@converts("Where")
def where(node):
    """Indices of what is not 0, a row each."""
    x, dtype = node.x(0), node.dtype()
    if dtype is not dtypes.bool:
        x = node.emit("Not", node.compute("Equal", dtype, x, node.const(0, dtype), result=False))
    made = node.emit("NonZero", x)
    return node.emit("Transpose", made, perm=[1, 0])


@converts("Cast")
def cast(node):
    value, have, want = node.value(0), node.dtype(), node.out_dtype()
    if have is want:
        return value
    if have is dtypes.string or want is dtypes.string:
        raise node.unsupported("casts of strings")
    if have.is_floating and want.is_integer and want.is_unsigned:
        # negative numbers wrap round, as in pyflow, through a signed type
        return node.ordered(node.cast(node.cast(value.named(), dtypes.int64), want), value.order)
    return node.ordered(node.cast(value.named(), want), value.order)


@converts("Bucketize")
def bucketize(node):
    """How many boundaries are at most x."""
    bounds = np.asarray(node.attr("boundaries"), np.float32)
    x = node.unsqueeze(node.cast(node.x(0), dtypes.float32), node.rank(0))
    met = node.cast(node.emit("GreaterOrEqual", x, bounds), dtypes.int32)
    return node.reduce("ReduceSum", met, [-1], False)
