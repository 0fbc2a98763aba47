"""tf.matrix_diag, matrix_diag_part and matrix_set_diag with k, padding and alignment.

Invariant: calls without these arguments make TF 1.x's ops MatrixDiag, MatrixDiagPart and
MatrixSetDiag.

Example:  `tf.matrix_diag_part(a, k=(-1, 1))`.
"""
from pyflow.framework import graph
from pyflow.ops.move import diag_ops
from pyflow.ops.move.diag_band_ops import MatrixDiagPartV3, MatrixDiagV3, MatrixSetDiagV3


# --------------------------------------------------------------------------------- functions
def _is_zero(value):
    return isinstance(value, (int, float)) and value == 0


def matrix_diag(diagonal, name="diag", k=0, num_rows=-1, num_cols=-1, padding_value=0,
                align="RIGHT_LEFT"):
    """Matrices with given diagonals. TF: tf.matrix_diag.
    Dtypes, shapes, errors: as ops MatrixDiag and MatrixDiagV3."""
    plain = _is_zero(k) and num_rows == -1 and num_cols == -1 and _is_zero(padding_value)
    if plain:
        return diag_ops.MatrixDiag(diagonal, name=name)
    diagonal = graph.convert_to_tensor(diagonal)
    padding = graph.convert_to_tensor(padding_value, dtype=diagonal.dtype)
    return MatrixDiagV3(diagonal, k, num_rows, num_cols, padding, align=align, name=name)


def matrix_diag_part(input, name="diag_part", k=0, padding_value=0, align="RIGHT_LEFT"):
    """Diagonals of matrices. TF: tf.matrix_diag_part.
    Dtypes, shapes, errors: as ops MatrixDiagPart and MatrixDiagPartV3."""
    if _is_zero(k) and _is_zero(padding_value):
        return diag_ops.MatrixDiagPart(input, name=name)
    input = graph.convert_to_tensor(input)
    padding = graph.convert_to_tensor(padding_value, dtype=input.dtype)
    return MatrixDiagPartV3(input, k, padding, align=align, name=name)


def matrix_set_diag(input, diagonal, name="set_diag", k=0, align="RIGHT_LEFT"):
    """Matrices with diagonals replaced. TF: tf.matrix_set_diag.
    Dtypes, shapes, errors: as ops MatrixSetDiag and MatrixSetDiagV3."""
    if _is_zero(k):
        return diag_ops.MatrixSetDiag(input, diagonal, name=name)
    return MatrixSetDiagV3(input, diagonal, k, align=align, name=name)


PUBLIC = {
    "matrix_diag": matrix_diag, "linalg.diag": matrix_diag, "matrix_diag_part": matrix_diag_part,
    "linalg.diag_part": matrix_diag_part, "matrix_set_diag": matrix_set_diag,
    "linalg.set_diag": matrix_set_diag,
}
