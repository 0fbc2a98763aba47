"""Products over chosen axes (tf.tensordot), of vectors, of batches; inverse and solve."""
import numpy as np

from pyflow.framework import graph
from pyflow.lib.math import reductions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import int32s, static
from pyflow.ops.elementwise import binary_ops
from pyflow.ops.gemm.matmul_ops import BatchMatMul, MatMul
from pyflow.ops.gemm.products import matmul
from pyflow.ops.linalg.solve_ops import MatrixInverse, MatrixSolve
from pyflow.ops.move import array_ops
from pyflow.ops.reduce import unique_ops


def batch_matmul(x, y, adj_x=False, adj_y=False, name=None):
    """Products of batches of matrices, the older form of `tf.matmul`. TF: tf.batch_matmul.
    Dtypes, shapes, errors: as op BatchMatMul."""
    return BatchMatMul(x, y, adj_x=adj_x, adj_y=adj_y, name=name)


def matvec(a, b, transpose_a=False, adjoint_a=False, a_is_sparse=False, b_is_sparse=False,
           name=None):
    """Products of matrices [..., m, k] and vectors [..., k]. TF: linalg.matvec.
    a: [..., m, n]; b: [..., n] -> [..., m], numbers of one dtype. TypeError for other dtypes,
    ValueError for shapes that do not fit."""
    with graph.name_scope(name, "MatVec", [a, b]):
        b = graph.convert_to_tensor(b, name="b")
        product = matmul(a, array_ops.ExpandDims(b, -1), transpose_a=transpose_a,
                         adjoint_a=adjoint_a)
        return tensors.squeeze(product, axis=-1)


def _contracted(x, axes, last):
    """`x` as a matrix with the contracted dimensions last (or first); and its free dimensions.
    `axes` is a list of ints, or a vector if the rank of `x` or the axes are not known yet."""
    if not isinstance(axes, list):
        return _contracted_by_vector(x, axes, last)
    n = x.shape.ndims
    free = [i for i in range(n) if i not in axes]
    order = free + axes if last else axes + free
    if order != list(range(n)):
        x = tensors.transpose(x, order)
    dims = x.shape.as_list()
    split = len(free) if last else len(axes)
    if None not in dims:
        sides = [int(np.prod(dims[:split], dtype=np.int64)),
                 int(np.prod(dims[split:], dtype=np.int64))]
        free_dims = dims[:split] if last else dims[split:]
        return array_ops.Reshape(x, int32s(sides)), free_dims
    shape = tensors.shape(x)
    rows, columns = (reductions.reduce_prod(s) for s in (shape[:split], shape[split:]))
    matrix = array_ops.Reshape(x, tensors.stack([rows, columns]))
    return matrix, (shape[:split] if last else shape[split:])


def _contracted_by_vector(x, axes, last):
    shape = array_ops.Shape(x)
    free, _ = unique_ops.ListDiff(tensors.range_(array_ops.Rank(x)), axes)
    order = tensors.concat([free, axes] if last else [axes, free], 0)
    sizes = [tensors.gather(shape, axis) for axis in (free, axes)]
    sides = [reductions.reduce_prod(s) for s in (sizes if last else sizes[::-1])]
    return array_ops.Reshape(tensors.transpose(x, order), tensors.stack(sides)), sizes[0]


def tensordot(a, b, axes, name=None):
    """Sum of products over `axes`: a number n (last n of a, first n of b) or two lists. TF:
    tf.tensordot.

    a, b: numbers of one dtype, of shapes that agree along the axes (ValueError otherwise)."""
    with graph.name_scope(name, "Tensordot", [a, b, axes]) as scope:
        a, b = graph.convert_to_tensor(a, name="a"), graph.convert_to_tensor(b, name="b")
        a_axes, b_axes = _tensordot_axes(a, b, axes)
        left, a_free = _contracted(a, a_axes, last=True)
        right, b_free = _contracted(b, b_axes, last=False)
        product = MatMul(left, right)
        if isinstance(a_free, list) and isinstance(b_free, list):
            return array_ops.Reshape(product, int32s(a_free + b_free), name=scope)
        parts = [int32s(p) if isinstance(p, list) else p for p in (a_free, b_free)]
        result = array_ops.Reshape(product, tensors.concat(parts, 0), name=scope)
        if isinstance(a_axes, list) and isinstance(b_axes, list):
            result.set_shape([d for i, d in enumerate(a.shape.as_list()) if i not in a_axes]
                             + [d for i, d in enumerate(b.shape.as_list()) if i not in b_axes])
        return result


def _tensordot_axes(a, b, axes):
    """The axes of a and of b: lists of ints counted from the front, or vectors where these are not
    known yet."""
    if isinstance(axes, graph.Tensor):
        known = static(axes)
        if known is None:
            return _axes_of_vector(a, axes[0]), _axes_of_vector(b, axes[1])
        axes = known.tolist()
    if isinstance(axes, (int, np.integer)):
        return _edge_axes(a, b, int(axes))
    if len(axes) != 2:
        raise ValueError(f"tf.tensordot: axes must be a number or two lists of axes, got {axes!r}")
    first, second = (list(np.ravel(x).tolist()) for x in axes)
    if len(first) != len(second):
        raise ValueError(f"tf.tensordot: axes {first} and {second} differ in length")
    return _axes_of_list(a, first), _axes_of_list(b, second)


def _edge_axes(a, b, count):
    """The last `count` axes of a, the first of b."""
    if count < 0 or any(x.shape.ndims is not None and count > x.shape.ndims for x in (a, b)):
        raise ValueError(f"tf.tensordot: axes = {count} is more than the rank of a {a.shape} "
                         f"or b {b.shape}")
    first = list(range(count))
    b_axes = int32s(first) if b.shape.ndims is None else first
    if a.shape.ndims is None:
        rank = array_ops.Rank(a)
        return tensors.range_(rank - count, rank), b_axes
    return list(range(a.shape.ndims - count, a.shape.ndims)), b_axes


def _axes_of_list(x, axes):
    if x.shape.ndims is None:
        return _axes_of_vector(x, int32s(axes))
    wrong = [i for i in axes if not -x.shape.ndims <= i < x.shape.ndims]
    if wrong:
        raise ValueError(f"tf.tensordot: axis {wrong[0]} is out of range for shape {x.shape}")
    return [int(i) % x.shape.ndims for i in axes]


def _axes_of_vector(x, axes):
    return binary_ops.FloorMod(axes, array_ops.Rank(x))


def matrix_inverse(input, adjoint=False, name=None):
    """Inverses of square matrices. TF: tf.matrix_inverse.
    Dtypes, shapes, errors: as op MatrixInverse."""
    return MatrixInverse(input, adjoint=adjoint, name=name)


def matrix_solve(matrix, rhs, adjoint=False, name=None):
    """x with matrix x = rhs. TF: tf.matrix_solve.
    Dtypes, shapes, errors: as op MatrixSolve."""
    return MatrixSolve(matrix, rhs, adjoint=adjoint, name=name)


PUBLIC = {
    "batch_matmul": batch_matmul, "linalg.matvec": matvec, "tensordot": tensordot,
    "linalg.tensordot": tensordot, "matrix_inverse": matrix_inverse, "linalg.inv": matrix_inverse,
    "matrix_solve": matrix_solve, "linalg.solve": matrix_solve,
}
