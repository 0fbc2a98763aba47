"""Matrix products and Einsum."""

from pyflow.interop.onnx.exporter.ops.common import converts, dtypes, np


def turned(node, i, turn):
    """The name of input `i`, its last two axes exchanged if `turn`."""
    value = node.value(i)
    if not turn:
        return value.plain
    rank = node.rank(i)
    return value.transposed([*range(rank - 2), rank - 1, rank - 2]).plain


@converts("MatMul")
def matmul(node):
    """MatMul; Gemm where the second matrix, not a constant, lies transposed."""
    first, second = bool(node.attr("transpose_a", False)), bool(node.attr("transpose_b", False))
    held = node.value(0).array is not None, node.value(1).array is not None
    if (first and not held[0] or second and not held[1]) and node.dtype().is_floating \
            and node.dtype() is not dtypes.bfloat16:
        return node.emit("Gemm", *node.xs(), transA=int(first), transB=int(second))
    return node.compute("MatMul", node.dtype(), turned(node, 0, first), turned(node, 1, second))


@converts("BatchMatMul", "BatchMatMulV2", "SparseMatMul")
def batch_matmul(node):
    if node.op.type == "SparseMatMul":
        a = turned(node, 0, node.attr("transpose_a", False))
        b = turned(node, 1, node.attr("transpose_b", False))
        names = [node.cast(name, dtypes.float32) if node.dtype(i) is not dtypes.float32 else name
                 for i, name in enumerate((a, b))]
        return node.emit("MatMul", *names)
    return node.compute("MatMul", node.dtype(), turned(node, 0, node.attr("adj_x", False)),
                        turned(node, 1, node.attr("adj_y", False)))


@converts("Einsum")
def einsum(node):
    equation = node.attr("equation").replace(" ", "")
    given, _, result = equation.partition("->")
    if len(set(result.replace("...", ""))) != len(result.replace("...", "")):
        raise node.unsupported(f"an axis that comes twice in the result of {equation!r}")
    hidden = {node.rank(i) - len(term.replace("...", "")) for i, term in enumerate(given.split(","))
              if "..." in term}
    if len(hidden) > 1:
        raise node.unsupported(f"in {equation!r} ... stands for several numbers of axes")
    if node.dtype() is dtypes.bfloat16:
        wide = [node.cast(name, dtypes.float32) for name in node.xs()]
        return node.cast(node.emit("Einsum", *wide, equation=equation), dtypes.bfloat16)
    return node.emit("Einsum", *node.xs(), equation=equation)


@converts("Cross")
def cross(node):
    """a[1] b[2] - a[2] b[1] and so on, along the last axis."""
    dtype, axis = node.dtype(), node.rank(0) - 1

    def rolled(name, order):
        return node.emit("Gather", name, np.array(order, np.int64), axis=axis)
    a, b = node.xs()
    first = node.compute("Mul", dtype, rolled(a, [1, 2, 0]), rolled(b, [2, 0, 1]))
    second = node.compute("Mul", dtype, rolled(a, [2, 0, 1]), rolled(b, [1, 2, 0]))
    return node.compute("Sub", dtype, first, second)


@converts("L2Loss")
def l2_loss(node):
    x = node.value(0).named()
    dtype = node.dtype()
    flat = node.reshape(node.compute("Mul", dtype, x, x), [-1])
    total = node.reduce("ReduceSum", flat, [0], False, dtype)
    return node.compute("Mul", dtype, total, node.const(0.5, dtype))
