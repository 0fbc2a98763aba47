"""Matrix products: the blocks.

Invariants
  1. MatMul is for matrices, BatchMatMul(V2) for batches of them; V2 broadcasts the batch
     dimensions.
  2. The gradient of a product is two products with the transposes folded into the attributes.

Example:  `MatMul([[1.0, 2.0]], [[3.0], [4.0]])` -> [[11]].
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import COMPLEX, FLOATS
from pyflow.framework.op import S, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, broadcast_static_shape
from pyflow.ops.base.common import at_least_rank, conj, stretched_axes, sum_over, sum_static

PRODUCTS = FLOATS + (dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16,
                     dtypes.uint32, dtypes.uint64) + COMPLEX


# ------------------------------------------------------------------------------------ one product
def _matrix_dims(shape, transposed, what):
    if shape.ndims is None:
        return None, None
    if shape.ndims != 2:
        raise ValueError(f"MatMul: {what} must be a matrix (rank 2), got shape {shape}")
    m, n = shape.as_list()
    return (n, m) if transposed else (m, n)


def _matmul_shape(a, b, transpose_a, transpose_b):
    m, inner = _matrix_dims(a, transpose_a, "a")
    other, n = _matrix_dims(b, transpose_b, "b")
    if None not in (inner, other) and inner != other:
        raise ValueError(f"MatMul: inner dimensions must be equal, got {inner} and {other} (a {a}"
                         f"{' transposed' if transpose_a else ''}, b {b}"
                         f"{' transposed' if transpose_b else ''})")
    return TensorShape([m, n])


@op("MatMul", inputs="a: T, b: T", outputs="product: T", T=PRODUCTS,
    attrs="transpose_a: bool = false, transpose_b: bool = false, T: type, "
          "grad_a: bool = false, grad_b: bool = false")
class MatMul:
    """Matrix product of `a` [m, k] and `b` [k, n] -> [m, n], either one transposed first.
    TF: MatMul."""
    shape = _matmul_shape

    def gradient(op, dy):
        a, b = conj(op.inputs[0]), conj(op.inputs[1])
        ta, tb = op.attr("transpose_a"), op.attr("transpose_b")
        if not ta and not tb:
            return [MatMul(dy, b, transpose_b=True), MatMul(a, dy, transpose_a=True)]
        if not ta:
            return [MatMul(dy, b), MatMul(dy, a, transpose_a=True)]
        if not tb:
            return [MatMul(b, dy, transpose_b=True), MatMul(a, dy)]
        return [MatMul(b, dy, transpose_a=True, transpose_b=True),
                MatMul(dy, a, transpose_a=True, transpose_b=True)]

    def reference(a, b, transpose_a, transpose_b):
        return (a.T if transpose_a else a) @ (b.T if transpose_b else b)
    samples = [S((2, 3), (3, 4)), S((0, 3), (3, 4)), S((2, 0), (0, 4)),
               S((3, 2), (3, 4), transpose_a=True),
               S((2, 3), (4, 3), transpose_b=True),
               S((3, 2), (4, 3), transpose_a=True, transpose_b=True),
               S((1, 1), (1, 1)), S((17, 33), (33, 9))]


# ------------------------------------------------------------------------------------ many products
def _batched_dims(op):
    x, y = (at_least_rank(t.shape, 2, f"{op.type}: input") for t in op.inputs)
    if x.ndims is None or y.ndims is None:
        return (*(s if s.ndims is None else TensorShape(s.as_list()[:-2]) for s in (x, y)),
                [_side(op, 0, x), _side(op, 1, y)])
    a, b = x.as_list(), y.as_list()
    m, inner = (a[-1], a[-2]) if op.attr("adj_x") else (a[-2], a[-1])
    other, n = (b[-1], b[-2]) if op.attr("adj_y") else (b[-2], b[-1])
    if None not in (inner, other) and inner != other:
        raise ValueError(f"{op.type}: inner dimensions must be equal, got {inner} and {other} "
                         "(shapes "
                         f"{x} and {y}, adj_x={op.attr('adj_x')}, "
                         f"adj_y={op.attr('adj_y')})")
    return TensorShape(a[:-2]), TensorShape(b[:-2]), [m, n]


def _side(op, which, shape):
    """Rows of the product as the first operand tells, columns as the second does."""
    if shape.ndims is None:
        return None
    adjoint = op.attr("adj_y" if which else "adj_x")
    return shape.as_tuple()[-1 if adjoint != bool(which) else -2]


def _batch_shape(op):
    a, b, matrix = _batched_dims(op)
    return a.merge_with(b).concatenate(matrix)


def _batch_v2_shape(op):
    a, b, matrix = _batched_dims(op)
    return broadcast_static_shape(a, b).concatenate(matrix)


def _batch_gradients(product, op, dy):
    x, y = op.inputs
    ax, ay = op.attr("adj_x"), op.attr("adj_y")
    if not ax and not ay:
        return [product(dy, y, adj_y=True), product(x, dy, adj_x=True)]
    if not ax:
        return [product(dy, y), product(dy, x, adj_x=True)]
    if not ay:
        return [product(y, dy, adj_y=True), product(x, dy)]
    return [product(y, dy, adj_x=True, adj_y=True), product(dy, x, adj_x=True, adj_y=True)]


def adjoint_of(x, adjoint):
    return np.conj(np.swapaxes(x, -1, -2)) if adjoint else x


ADJOINTS = "adj_x: bool = false, adj_y: bool = false, grad_x: bool = false, grad_y: bool = false"
BATCHES = [S((5, 2, 3), (5, 3, 4)), S((2, 3), (3, 4)), S((0, 2, 3), (0, 3, 4)),
           S((2, 2, 2, 0), (2, 2, 0, 3)),
           S((5, 3, 2), (5, 3, 4), adj_x=True), S((5, 2, 3), (5, 4, 3), adj_y=True),
           S((2, 3, 2), (2, 4, 3), adj_x=True, adj_y=True)]


@op("BatchMatMul", inputs="x: T, y: T", outputs="output: T", T=PRODUCTS,
    attrs="T: type, " + ADJOINTS)
class BatchMatMul:
    """Products of matrices [..., m, k] and [..., k, n] of equal batch dimensions.
    TF: BatchMatMul."""
    shape = _batch_shape

    def gradient(op, dy):
        return _batch_gradients(BatchMatMul, op, dy)

    def reference(x, y, adj_x, adj_y): return adjoint_of(x, adj_x) @ adjoint_of(y, adj_y)
    samples = BATCHES


def _batch_v2_gradient(op, dy):
    return batch_sums(_batch_gradients(BatchMatMulV2, op, dy), *op.inputs)


def batch_sums(grads, x, y):
    """Two gradients summed over the batch dimensions in which x and y were stretched."""
    known = x.shape.ndims is not None and y.shape.ndims is not None
    if known:
        a, b = TensorShape(x.shape.as_list()[:-2]), TensorShape(y.shape.as_list()[:-2])
        if a.is_fully_defined() and a == b:
            return grads
        rx, ry = stretched_axes(a, b), stretched_axes(b, a)
        if rx is not None and ry is not None:
            return [sum_static(grads[0], rx, x.shape), sum_static(grads[1], ry, y.shape)]
    rx, ry = raw_ops.BroadcastGradientArgs(
        raw_ops.Shape(x)[:-2], raw_ops.Shape(y)[:-2])
    return [sum_over(grads[0], rx, x), sum_over(grads[1], ry, y)]


@op("BatchMatMulV2", inputs="x: T, y: T", outputs="output: T", T=PRODUCTS,
    attrs="T: type, " + ADJOINTS)
class BatchMatMulV2:
    """Products of matrices [..., m, k] and [..., k, n], batch dimensions broadcast.
    TF: BatchMatMulV2."""
    shape = _batch_v2_shape
    gradient = _batch_v2_gradient

    def reference(x, y, adj_x, adj_y): return adjoint_of(x, adj_x) @ adjoint_of(y, adj_y)
    samples = BATCHES + [S((2, 3), (5, 3, 4)), S((4, 1, 2, 3), (5, 3, 2)), S((1, 2, 3), (5, 3, 1))]
