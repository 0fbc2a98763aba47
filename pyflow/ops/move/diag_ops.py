"""Diagonals and bands of matrices, and the cross product.

Invariants
  1. The Matrix* ops work on the last two dimensions of a batch; Diag and DiagPart on whole tensors.
  2. Gradients are the ops that undo the placing: Diag/DiagPart, MatrixDiag/MatrixDiagPart.

Example:  `tf.diag([1, 2])` -> [[1, 0], [0, 2]].
"""
import numpy as np

from pyflow.framework.dtypes import COMPLEX, FLOATS, REAL, int32, int64
from pyflow.framework.op import S, lit, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import at_least_rank, dims_of, merged

DIAGONAL = FLOATS + COMPLEX + (int32, int64)


@op("Diag", inputs="diagonal: T", outputs="output: T", T=DIAGONAL)
class Diag:
    """Zeros of shape d + d with `diagonal` (shape d) where the indices are equal. TF: Diag.

        >>> tf.Session().run(tf.diag([1, 2]))
        array([[1, 0],
               [0, 2]], dtype=int32)
    """
    def shape(op):
        dims = dims_of(at_least_rank(op.inputs[0].shape, 1, "diagonal"))
        return unknown_shape() if dims is None else TensorShape(dims + dims)

    def gradient(op, dy):
        return DiagPart(dy)

    def reference(diagonal): return np.diag(diagonal.ravel()).reshape(diagonal.shape * 2)
    samples = [S((3,)), S((2, 2)), S((0,))]


@op("DiagPart", inputs="input: T", outputs="diagonal: T", T=DIAGONAL)
class DiagPart:
    """The diagonal of a tensor of shape d + d. TF: DiagPart."""
    def shape(op):
        dims = dims_of(op.inputs[0].shape)
        if dims is None:
            return unknown_shape()
        n = len(dims) // 2
        if len(dims) % 2 or not n:
            raise ValueError(f"DiagPart: the rank must be even and positive, got "
                             f"{op.inputs[0].shape}")
        return TensorShape(dims[:n]).merge_with(TensorShape(dims[n:]))

    def gradient(op, dy):
        return Diag(dy)

    def reference(input):
        half = input.shape[:input.ndim // 2]
        n = int(np.prod(half))
        return np.diag(input.reshape(n, n)).reshape(half)
    samples = [S((3, 3)), S((2, 3, 2, 3)), S((0, 0))]


@op("MatrixDiag", inputs="diagonal: T", outputs="output: T", attrs="T: type")
class MatrixDiag:
    """Square matrices [..., n, n] with the given diagonals [..., n]. TF: MatrixDiag."""
    def shape(op):
        dims = dims_of(at_least_rank(op.inputs[0].shape, 1, "diagonal"))
        return unknown_shape() if dims is None else TensorShape(dims + dims[-1:])

    def gradient(op, dy):
        return MatrixDiagPart(dy)

    def reference(diagonal):
        return diagonal[..., None] * np.eye(diagonal.shape[-1], dtype=diagonal.dtype)
    samples = [S((3,)), S((2, 3)), S((0, 3)), S((2, 0))]


def _diagonal_shape(shape):
    dims = dims_of(at_least_rank(shape, 2))
    if dims is None:
        return unknown_shape()
    n = None if None in dims[-2:] else min(dims[-2:])
    return TensorShape(dims[:-2] + [n])


@op("MatrixDiagPart", inputs="input: T", outputs="diagonal: T", attrs="T: type")
class MatrixDiagPart:
    """Diagonals [..., min(m, n)] of matrices [..., m, n]. TF: MatrixDiagPart."""
    def shape(op): return _diagonal_shape(op.inputs[0].shape)

    def gradient(op, dy):
        return MatrixSetDiag(tensors.zeros_like(op.inputs[0]), dy)

    def reference(input): return np.diagonal(input, axis1=-2, axis2=-1)
    samples = [S((3, 3)), S((2, 3, 2)), S((2, 4)), S((0, 2, 2))]


@op("MatrixSetDiag", inputs="input: T, diagonal: T", outputs="output: T", attrs="T: type")
class MatrixSetDiag:
    """`input` with `diagonal` in place of its main diagonals. TF: MatrixSetDiag."""
    def shape(op):
        shape, diagonal = op.inputs[0].shape.with_rank_at_least(2), op.inputs[1].shape
        _diagonal_shape(shape).merge_with(diagonal)
        if diagonal.ndims is None:
            return shape
        at_least_rank(diagonal, 1, "MatrixSetDiag: diagonal")
        return shape.merge_with(diagonal.as_list()[:-1] + [None, None])

    def gradient(op, dy):
        return [MatrixSetDiag(dy, tensors.zeros_like(op.inputs[1])), MatrixDiagPart(dy)]

    def reference(input, diagonal):
        result = input.copy()
        i = np.arange(diagonal.shape[-1])
        result[..., i, i] = diagonal
        return result
    samples = [S((3, 3), (3,)), S((2, 3, 2), (2, 2)), S((2, 4), (2,)), S((0, 2, 2), (0, 2))]


@op("MatrixBandPart", inputs="input: T, num_lower: Tindex, num_upper: Tindex", outputs="band: T",
    attrs="T: type, Tindex: {int32, int64} = int64")
class MatrixBandPart:
    """`input` with zeros outside a band about the diagonal; -1 keeps the triangle.
    TF: MatrixBandPart."""
    def shape(op): return at_least_rank(op.inputs[0].shape, 2)

    def gradient(op, dy):
        return [MatrixBandPart(dy, op.inputs[1], op.inputs[2]), None, None]

    def reference(input, num_lower, num_upper):
        m, n = input.shape[-2:]
        i, j = np.arange(m)[:, None], np.arange(n)[None, :]
        keep = ((num_lower < 0) | (i - j <= num_lower)) & ((num_upper < 0) | (j - i <= num_upper))
        return np.where(keep, input, np.zeros((), input.dtype))
    samples = [S((3, 4), lit(1), lit(0)), S((3, 3), lit(-1), lit(0)), S((2, 3, 3), lit(0), lit(-1)),
               S((3, 3), lit(-1), lit(-1)), S((0, 3, 3), lit(0), lit(0))]


@op("Cross", inputs="a: T, b: T", outputs="product: T", T=REAL)
class Cross:
    """Cross products of 3-vectors along the last dimension. TF: Cross."""
    def shape(op):
        shape = merged(op)
        dims = dims_of(at_least_rank(shape, 1))
        if dims is not None and dims[-1] not in (None, 3):
            raise ValueError(f"Cross: the last dimension must be 3, got shape {shape}")
        return shape

    def gradient(op, dz):
        a, b = op.inputs
        return [Cross(b, dz), Cross(dz, a)]

    def reference(a, b):
        (a0, a1, a2), (b0, b1, b2) = np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0)
        return np.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], -1)
    samples = [S((3,), (3,)), S((2, 3), (2, 3)), S((0, 3), (0, 3))]


PUBLIC = {
    "diag": Diag, "linalg.tensor_diag": Diag, "diag_part": DiagPart,
    "linalg.tensor_diag_part": DiagPart, "matrix_band_part": MatrixBandPart,
    "linalg.band_part": MatrixBandPart, "cross": Cross, "linalg.cross": Cross,
}
