"""The operators of Tensor: arithmetic, comparison, logic, indexing.

Invariants
  1. The left operand's dtype decides: `x + 1` makes 1 a constant of x's dtype, `1 + x` likewise.
  2. `==`, `!=` and hash are Python identity (TF 1.x); `tf.equal` compares values.
  3. `&`, `|`, `^` and `~` are logical for bool, bitwise for integers.

`install()` is called once by pyflow.ops.
"""
from pyflow.framework import dtypes, graph
from pyflow.ops import (binary_ops, complex_ops, logic_ops, matmul_ops,
                        slicing_ops, unary_ops)


def _sparse(value):
    return isinstance(value, graph.SparseTensor)    # IndexedSlices are made dense, as in TF


def _binary(build, name):
    """(`x op y`, `y op x`) for a function build(x, y, name)."""
    def forward(x, y):
        if _sparse(y):
            return NotImplemented
        with graph.name_scope(None, name, [x, y]) as scope:
            if not isinstance(y, graph.Tensor):
                y = _converted(y, x)
                if y is NotImplemented:
                    return y
            return build(x, y, name=scope)

    def backward(y, x):
        if _sparse(x):
            return NotImplemented
        with graph.name_scope(None, name, [x, y]) as scope:
            x = graph.convert_to_tensor(x, dtype=y.dtype.base_dtype, name="x")
            return build(x, y, name=scope)
    return forward, backward


def _converted(y, x):
    """`y` in the dtype of `x`; NotImplemented where y's own class may know better."""
    try:
        return graph.convert_to_tensor(y, dtype=x.dtype.base_dtype, name="y")
    except TypeError:
        if hasattr(type(y), "__array_priority__") and type(y).__module__.split(".")[0] != "numpy":
            return NotImplemented
        raise


def _add(x, y, name):
    """Add for strings, AddV2 for numbers, as TF 1.15 does for `+`."""
    build = binary_ops.Add if x.dtype.base_dtype == dtypes.string else binary_ops.AddV2
    return build(x, y, name=name)


def _truediv(x, y, name):
    return binary_ops.truediv(x, y, name=name)


def _bitwise(logical, bitwise, symbol):
    def build(x, y, name):
        if x.dtype.base_dtype == dtypes.bool:
            return logical(x, y, name=name)
        if x.dtype.is_integer:
            return bitwise(x, y, name=name)
        raise TypeError(f"{symbol} wants bool or integer tensors, got {x.dtype.name} and "
                        f"{y.dtype.name}")
    return build


def _logical_xor(x, y, name):
    return logic_ops.logical_xor(x, y, name=name)


def _invert(x):
    if x.dtype.base_dtype == dtypes.bool:
        return logic_ops.LogicalNot(x)
    if x.dtype.is_integer:
        return unary_ops.Invert(x)
    raise TypeError(f"~ wants a bool or integer tensor, got {x.dtype.name}")


def _compare(build):
    def compare(x, y):
        if _sparse(y):
            return NotImplemented
        return build(x, y)
    return compare


def _scaled(op_name):
    """`sparse op dense`, the dense operand broadcast to the sparse one's shape."""
    def operate(x, y):
        from pyflow.ops import sparse_ops
        op = getattr(sparse_ops, op_name)
        values = op(x.indices, x.values, x.dense_shape, graph.convert_to_tensor(y, dtype=x.dtype))
        return graph.SparseTensor(x.indices, values, x.dense_shape)
    return operate


def _divided(x, y):
    """Python 3's division: integers become float64 (8 and 16 bits: float32)."""
    from pyflow.framework import dtypes
    from pyflow.ops import cast_ops
    if x.dtype.is_integer:
        wide = dtypes.float32 if x.dtype.size <= 2 else dtypes.float64
        x = graph.SparseTensor(x.indices, cast_ops.cast(x.values, wide), x.dense_shape)
        y = cast_ops.cast(graph.convert_to_tensor(y), wide)
    return _scaled("SparseDenseCwiseDiv")(x, y)


def _negative(x):
    return unary_ops.Neg(x)


def operator_table():
    """{"__add__": function, ...} for `graph.install_operators`."""
    table = {"__neg__": _negative, "__invert__": _invert, "__abs__": complex_ops.abs,
             "__getitem__": slicing_ops.getitem}
    pairs = {
        "add": (_add, "add"), "sub": (binary_ops.Sub, "sub"), "mul": (binary_ops.Mul, "mul"),
        "div": (binary_ops.div, "div"), "truediv": (_truediv, "truediv"),
        "floordiv": (binary_ops.FloorDiv, "floordiv"), "mod": (binary_ops.FloorMod, "mod"),
        "pow": (binary_ops.Pow, "pow"), "matmul": (matmul_ops.matmul, "matmul"),
        "and": (_bitwise(logic_ops.LogicalAnd, binary_ops.BitwiseAnd, "&"), "and"),
        "or": (_bitwise(logic_ops.LogicalOr, binary_ops.BitwiseOr, "|"), "or"),
        "xor": (_bitwise(_logical_xor, binary_ops.BitwiseXor, "^"), "xor"),
    }
    for key, (build, name) in pairs.items():
        table[f"__{key}__"], table[f"__r{key}__"] = _binary(build, name)
    for key, build in (("lt", logic_ops.Less), ("le", logic_ops.LessEqual),
                       ("gt", logic_ops.Greater),
                       ("ge", logic_ops.GreaterEqual)):
        table[f"__{key}__"] = _compare(build)
    return table


def install():
    """Gives Tensor and SparseTensor their operators."""
    graph.install_operators(operator_table())
    sparse = graph.SparseTensor
    sparse.__mul__ = sparse.__rmul__ = _scaled("SparseDenseCwiseMul")
    sparse.__div__, sparse.__truediv__ = _scaled("SparseDenseCwiseDiv"), _divided
