"""tf.eye and tf.trace."""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.math import reductions
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops
from pyflow.ops.move.diag_ops import MatrixDiag, MatrixDiagPart, MatrixSetDiag


def eye(num_rows, num_columns=None, batch_shape=None, dtype=dtypes.float32, name=None):
    """Identity matrices [batch_shape..., rows, columns]. TF: tf.eye.
    Dtypes, shapes, errors: as ops MatrixDiag and MatrixSetDiag."""
    dtype = dtypes.as_dtype(dtype)
    with graph.name_scope(name, "eye", [num_rows, num_columns, batch_shape]) as scope:
        columns = num_rows if num_columns is None else num_columns
        batch = [] if batch_shape is None else batch_shape
        if any(isinstance(v, float) and v != int(v) for v in (num_rows, columns)):
            raise TypeError("num_rows and num_columns must be positive integer values, got "
                            f"{num_rows!r} and {columns!r}")
        numbers = not any(isinstance(v, graph.Tensor) for v in (num_rows, columns, batch))
        if numbers:
            dims, n = list(batch) + [min(num_rows, columns)], (num_rows, columns)
            if n[0] == n[1]:
                return MatrixDiag(tensors.ones(dims, dtype), name=scope)
            zeros = tensors.zeros(list(batch) + list(n), dtype)
            return MatrixSetDiag(zeros, tensors.ones(dims, dtype), name=scope)
        batch = graph.convert_to_tensor(np.zeros(0, np.int32) if batch_shape is None else batch,
                                        dtype=dtypes.int32)
        least = binary_ops.Minimum(num_rows, columns)
        diagonal = tensors.ones(tensors.concat([batch, [least]], 0), dtype)
        zeros = tensors.zeros(tensors.concat([batch, [num_rows], [columns]], 0), dtype)
        return MatrixSetDiag(zeros, diagonal, name=scope)


def trace(x, name=None):
    """Sum of the main diagonal of matrices [..., m, n]. TF: tf.trace.
    Dtypes, shapes, errors: as op MatrixDiagPart."""
    with graph.name_scope(name, "Trace", [x]) as scope:
        return reductions.reduce_sum(
            MatrixDiagPart(graph.convert_to_tensor(x)), [-1], name=scope
        )


PUBLIC = {"eye": eye, "linalg.eye": eye, "trace": trace, "linalg.trace": trace}
