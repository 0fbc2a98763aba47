"""Inverses, determinants, Cholesky factors of square matrices, and linear systems.

Invariants
  1. Tensors are [..., n, n]; every leading dimension is a batch.
  2. Gradients reuse what the op found: its inverse, its factor, its solution.

Example:  `MatrixSolve(a, b)` is x with a x = b.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import COMPLEX
from pyflow.framework.op import S, lit, op, pos, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base.common import at_least_rank, conj, dims_of
from pyflow.ops.base.shape_rules import by_pattern
from pyflow.ops.gemm.matmul_ops import adjoint_of
from pyflow.ops.gemm.products import matmul, matrix_transpose


# ----------------------------------------------------------------------------------- linear algebra
def square_shape(op, rank=2):
    shape = at_least_rank(op.inputs[0].shape, rank, f"{op.type}: input")
    dims = dims_of(shape)
    if dims is None:
        return shape
    if None not in dims[-2:] and dims[-1] != dims[-2]:
        raise ValueError(f"{op.type}: matrices must be square, got shape {shape}")
    side = dims[-2] if dims[-1] is None else dims[-1]
    return TensorShape(dims[:-2] + [side, side])


WELL = [[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]]
MATRICES = [S(lit(WELL)), S(lit([WELL, WELL])), S((0, 3, 3))]
SOLVABLE = (dtypes.float64, dtypes.float32) + COMPLEX


def wide(x):
    """float16 as float32: NumPy's linear algebra has no halves."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


@op("MatrixInverse", inputs="input: T", outputs="output: T", T=(*SOLVABLE, dtypes.float16),
    attrs="adjoint: bool = false")
class MatrixInverse:
    """Inverses of square matrices [..., n, n]; a singular one is an error. TF: MatrixInverse."""
    def shape(op): return square_shape(op)

    def gradient(op, dy):
        y, adjoint = op.outputs[0], op.attr("adjoint")
        if adjoint:
            return -matmul(y, matmul(dy, y, adjoint_a=True))
        return -matmul(y, matmul(dy, y, adjoint_b=True), adjoint_a=True)

    def reference(input, adjoint): return np.linalg.inv(adjoint_of(wide(input), adjoint))
    samples = MATRICES


@op("MatrixDeterminant", inputs="input: T", outputs="output: T", T=SOLVABLE)
class MatrixDeterminant:
    """Determinants [...] of square matrices [..., n, n]. TF: MatrixDeterminant."""
    def shape(op):
        dims = dims_of(square_shape(op))
        return unknown_shape() if dims is None else TensorShape(dims[:-2])

    def gradient(op, dy):
        inverse = MatrixInverse(op.inputs[0], adjoint=True)
        scale = raw_ops.ExpandDims(raw_ops.ExpandDims(dy * op.outputs[0], -1), -1)
        return scale * inverse

    def reference(input): return np.linalg.det(input)
    samples = MATRICES


@op("Cholesky", inputs="input: T", outputs="output: T", T=SOLVABLE)
class Cholesky:
    """Lower triangular factors L, L L^H = input, of positive definite matrices. TF: Cholesky."""
    def shape(op): return square_shape(op)

    def gradient(op, dy):
        low = op.outputs[0]
        inverse = MatrixInverse(low)
        middle = matmul(low, dy, adjoint_a=True)
        middle = raw_ops.MatrixSetDiag(middle, 0.5 * raw_ops.MatrixDiagPart(middle))
        middle = raw_ops.MatrixBandPart(middle, np.int64(-1), np.int64(0))
        grad = matmul(matmul(inverse, middle, adjoint_a=True), inverse)
        return 0.5 * (grad + conj(matrix_transpose(grad)))

    def reference(input): return np.linalg.cholesky(input)
    samples = MATRICES


@op("MatrixSolve", inputs="matrix: T, rhs: T", outputs="output: T", T=SOLVABLE,
    attrs="adjoint: bool = false")
class MatrixSolve:
    """x with matrix x = rhs, for matrices [..., n, n] and rhs [..., n, k]. TF: MatrixSolve."""
    shape = by_pattern("* n n", "* n k", "->", "* n k")

    def gradient(op, dy):
        adjoint, x = op.attr("adjoint"), op.outputs[0]
        d_rhs = MatrixSolve(op.inputs[0], dy, adjoint=not adjoint)
        if adjoint:
            return [-matmul(x, d_rhs, adjoint_b=True), d_rhs]
        return [-matmul(d_rhs, x, adjoint_b=True), d_rhs]

    def reference(matrix, rhs, adjoint): return np.linalg.solve(adjoint_of(matrix, adjoint), rhs)
    samples = [S(lit(WELL), (3, 2)), S(lit(WELL), (3, 1), adjoint=True),
               S(lit([WELL, WELL]), pos((2, 3, 2)))]


PUBLIC = {
    "matrix_determinant": MatrixDeterminant, "linalg.det": MatrixDeterminant, "cholesky": Cholesky,
    "linalg.cholesky": Cholesky,
}
