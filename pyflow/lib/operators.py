"""The operators of Tensor and SparseTensor: arithmetic, comparison, logic, indexing.

Invariants
  1. The left operand's dtype decides: `x + 1` makes 1 a constant of x's dtype, `1 + x` likewise.
  2. `==`, `!=` and hash are Python identity (TF 1.x); `tf.equal` compares values.
  3. `&`, `|`, `^` and `~` are logical for bool, bitwise for integers.
  4. Importing this module loads no ops; an operator loads its own when it is first used.

`install()` is called once by pyflow.lib.
"""
import functools
import importlib

from pyflow.framework import dtypes, graph, origin
from pyflow.framework.op import raw_ops


@functools.cache
def _function(path):
    """The op of that type, or the function of that dotted name."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module) if module else raw_ops, name)


def _sparse(value):
    return isinstance(value, graph.SparseTensor)    # IndexedSlices are made dense, as in TF


def _plain(name):
    """build(x, y, name=...) of an operator that is one op whatever its operands are."""
    return lambda x, y, **more: _function(name)(x, y, **more)


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
            try:
                x = graph.convert_to_tensor(x, dtype=y.dtype.base_dtype, name="x")
            except TypeError as error:
                raise _operand_error(error, y) from error
            return build(x, y, name=scope)
    return forward, backward


def _converted(y, x):
    """`y` in the dtype of `x`; NotImplemented where y's own class may know better."""
    try:
        return graph.convert_to_tensor(y, dtype=x.dtype.base_dtype, name="y")
    except TypeError as error:
        if hasattr(type(y), "__array_priority__") and type(y).__module__.split(".")[0] != "numpy":
            return NotImplemented
        raise _operand_error(error, x) from error


def _operand_error(error, tensor):
    """`error`, told with the other operand and the user's line."""
    return TypeError(f"{error} The other operand, {tensor.name!r}, is {tensor.dtype.name}; use "
                     f"tf.cast. ({origin.user_frame(origin.here(2))})")


def _add(x, y, name):
    """Add for strings, AddV2 for numbers, as TF 1.15 does for `+`."""
    build = raw_ops.Add if x.dtype.base_dtype == dtypes.string else raw_ops.AddV2
    return build(x, y, name=name)


def _bitwise(logical, bitwise, symbol):
    def build(x, y, name):
        if x.dtype.base_dtype == dtypes.bool:
            return _function(logical)(x, y, name=name)
        if x.dtype.is_integer:
            return _function(bitwise)(x, y, name=name)
        raise TypeError(f"{symbol} wants bool or integer tensors, got {x.dtype.name} and "
                        f"{y.dtype.name}")
    return build


def _invert(x):
    if x.dtype.base_dtype == dtypes.bool:
        return raw_ops.LogicalNot(x)
    if x.dtype.is_integer:
        return raw_ops.Invert(x)
    raise TypeError(f"~ wants a bool or integer tensor, got {x.dtype.name}")


def _compare(name):
    def compare(x, y):
        if _sparse(y):
            return NotImplemented
        return _function(name)(x, y)
    return compare


def _scaled(op_name):
    """`sparse op dense`, the dense operand broadcast to the sparse one's shape."""
    def operate(x, y):
        y = graph.convert_to_tensor(y, dtype=x.dtype)
        values = _function(op_name)(x.indices, x.values, x.dense_shape, y)
        return graph.SparseTensor(x.indices, values, x.dense_shape)
    return operate


_quotient = _scaled("SparseDenseCwiseDiv")


def _divided(x, y):
    """Python 3's division: integers become float64 (8 and 16 bits: float32)."""
    cast = _function("pyflow.ops.base.tensors.cast")
    if x.dtype.is_integer:
        wide = dtypes.float32 if x.dtype.size <= 2 else dtypes.float64
        x = graph.SparseTensor(x.indices, cast(x.values, wide), x.dense_shape)
        y = cast(graph.convert_to_tensor(y), wide)
    return _quotient(x, y)


def _negative(x):
    return raw_ops.Neg(x)


def _absolute(x):
    return _function("pyflow.lib.math.complex_functions.abs")(x)


def _getitem(x, item):
    """`x[item]`, indexed as NumPy arrays are by numbers, slices, ..., None; by tensors, too."""
    return _function("pyflow.lib.array.slicing_functions.getitem")(x, item)


def operator_table():
    """{"__add__": function, ...} for `graph.install_operators`."""
    table = {"__neg__": _negative, "__invert__": _invert, "__abs__": _absolute,
             "__getitem__": _getitem}
    pairs = {
        "add": _add, "sub": _plain("Sub"), "mul": _plain("Mul"),
        "div": _plain("pyflow.lib.math.binary_functions.div"),
        "truediv": _plain("pyflow.lib.math.binary_functions.truediv"),
        "floordiv": _plain("FloorDiv"), "mod": _plain("FloorMod"),
        "pow": _plain("Pow"), "matmul": _plain("pyflow.ops.gemm.products.matmul"),
        "and": _bitwise("LogicalAnd", "BitwiseAnd", "&"),
        "or": _bitwise("LogicalOr", "BitwiseOr", "|"),
        "xor": _bitwise("pyflow.lib.math.logic_functions.logical_xor", "BitwiseXor", "^"),
    }
    for key, build in pairs.items():
        table[f"__{key}__"], table[f"__r{key}__"] = _binary(build, key)
    for key, name in (("lt", "Less"), ("le", "LessEqual"), ("gt", "Greater"),
                      ("ge", "GreaterEqual")):
        table[f"__{key}__"] = _compare(name)
    return table


def install():
    """Gives Tensor and SparseTensor their operators."""
    graph.install_operators(operator_table())
    sparse = graph.SparseTensor
    sparse.__mul__ = sparse.__rmul__ = _scaled("SparseDenseCwiseMul")
    sparse.__div__, sparse.__truediv__ = _quotient, _divided
