"""The functions of tf.linalg over the blocks of linalg_ops and matmul_ops.

Invariants
  1. Names, argument order, defaults and results are TF 1.x's; leading dimensions are batches.
  2. Everything here is built from differentiable ops, so gradients follow.

Example:  `x = tf.cholesky_solve(tf.cholesky(a), b)`;  `tf.linalg.expm(a)`.
"""
import math

import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.array import identity_functions
from pyflow.lib.control_flow import while_loop
from pyflow.lib.math import complex_functions, reductions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import at_least_rank, conj, dims_of, one_of
from pyflow.ops.elementwise import binary_ops, logic_ops, unary_ops
from pyflow.ops.gemm.products import matmul
from pyflow.ops.linalg import linalg_ops
from pyflow.ops.linalg.linalg_ops import rows_at, rows_back
from pyflow.ops.linalg.solve_ops import Cholesky, MatrixSolve
from pyflow.ops.move import diag_ops

BUTCHER = {3: (120.0, 60.0, 12.0), 5: (30240.0, 15120.0, 3360.0, 420.0, 30.0),
           7: (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0),
           13: (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
                129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
                40840800.0, 960960.0, 16380.0, 182.0)}


def adjoint(matrix, name=None):
    """Conjugate transposed matrices. TF: linalg.adjoint.
    matrix: [..., m, n] of any dtype -> [..., n, m]. ValueError for less than two dimensions."""
    with graph.name_scope(name, "adjoint", [matrix]):
        return tensors.matrix_transpose(graph.convert_to_tensor(matrix, name="matrix"),
                                        conjugate=True)


def cholesky_solve(chol, rhs, name=None):
    """x with A x = rhs, from the lower Cholesky factor of A. TF: tf.cholesky_solve.

    chol: [..., n, n], rhs: [..., n, k].
    Dtypes, shapes, errors: as op MatrixTriangularSolve."""
    with graph.name_scope(name, "cholesky_solve", [chol, rhs]):
        y = linalg_ops.MatrixTriangularSolve(chol, rhs, adjoint=False, lower=True)
        return linalg_ops.MatrixTriangularSolve(chol, y, adjoint=True, lower=True)


def matrix_triangular_solve(matrix, rhs, lower=True, adjoint=False, name=None):
    """x with matrix x = rhs for triangular matrices. TF: tf.matrix_triangular_solve.
    Dtypes, shapes, errors: as op MatrixTriangularSolve."""
    return linalg_ops.MatrixTriangularSolve(matrix, rhs, lower=lower, adjoint=adjoint, name=name)


def matrix_solve_ls(matrix, rhs, l2_regularizer=0.0, fast=True, name=None):
    """Least squares solutions, regularised. TF: tf.matrix_solve_ls.
    Dtypes, shapes, errors: as op MatrixSolveLs."""
    return linalg_ops.MatrixSolveLs(matrix, rhs, l2_regularizer, fast=fast, name=name)


def qr(input, full_matrices=False, name=None):
    """(q, r) with input = q r. TF: tf.qr.
    Dtypes, shapes, errors: as op Qr."""
    return linalg_ops.Qr(input, full_matrices=full_matrices, name=name)


def svd(tensor, full_matrices=False, compute_uv=True, name=None):
    """(s, u, v) with tensor = u diag(s) v^H, or s alone. TF: tf.svd.
    Dtypes, shapes, errors: as op Svd."""
    s, u, v = linalg_ops.Svd(tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name)
    s = tensors.real(s)
    return (s, u, v) if compute_uv else s


def self_adjoint_eig(tensor, name=None):
    """(eigenvalues, eigenvectors) of self-adjoint matrices. TF: tf.self_adjoint_eig.
    Dtypes, shapes, errors: as op SelfAdjointEigV2."""
    e, v = linalg_ops.SelfAdjointEigV2(tensor, compute_v=True, name=name)
    return e, v


def self_adjoint_eigvals(tensor, name=None):
    """Eigenvalues of self-adjoint matrices. TF: tf.self_adjoint_eigvals.
    Dtypes, shapes, errors: as op SelfAdjointEigV2."""
    return linalg_ops.SelfAdjointEigV2(tensor, compute_v=False, name=name)[0]


def lu(input, output_idx_type=dtypes.int32, name=None):
    """(packed L and U, permutation). TF: linalg.lu.
    Dtypes, shapes, errors: as op Lu."""
    return linalg_ops.Lu(input, output_idx_type=output_idx_type, name=name)


def lu_reconstruct(lower_upper, perm, validate_args=False, name=None):
    """The matrices whose factors these are. TF: linalg.lu_reconstruct.
    lower_upper: [..., n, n] of floats or complex numbers; perm: ints [..., n]. TypeError for
    other dtypes, ValueError for shapes that do not fit."""
    with graph.name_scope(name, "lu_reconstruct", [lower_upper, perm]):
        packed = graph.convert_to_tensor(lower_upper, name="lower_upper")
        perm = graph.convert_to_tensor(perm, name="perm")
        low, up = _unpacked(packed)
        return rows_back(matmul(low, up), perm)


def _unpacked(packed):
    ones = tensors.ones_like(diag_ops.MatrixDiagPart(packed))
    low = diag_ops.MatrixSetDiag(linalg_ops.triangle(packed), ones)
    return low, linalg_ops.triangle(packed, lower=False)


def lu_solve(lower_upper, perm, rhs, validate_args=False, name=None):
    """x with A x = rhs, from the factors of A. TF: linalg.lu_solve.
    lower_upper: [..., n, n] of floats or complex numbers; perm: ints [..., n]; rhs: [..., n, k].
    TypeError for other dtypes, ValueError for shapes that do not fit."""
    with graph.name_scope(name, "lu_solve", [lower_upper, perm, rhs]):
        packed = graph.convert_to_tensor(lower_upper, name="lower_upper")
        perm, rhs = graph.convert_to_tensor(perm), graph.convert_to_tensor(rhs)
        low, up = _unpacked(packed)
        y = linalg_ops.MatrixTriangularSolve(low, rows_at(rhs, perm))
        return linalg_ops.MatrixTriangularSolve(up, y, lower=False)


def lu_matrix_inverse(lower_upper, perm, validate_args=False, name=None):
    """A^-1 from the factors of A. TF: linalg.lu_matrix_inverse.
    lower_upper: [..., n, n] of floats or complex numbers; perm: ints [..., n]. TypeError for
    other dtypes, ValueError for shapes that do not fit."""
    with graph.name_scope(name, "lu_matrix_inverse", [lower_upper, perm]):
        packed = graph.convert_to_tensor(lower_upper, name="lower_upper")
        ones = tensors.ones_like(diag_ops.MatrixDiagPart(packed))
        return lu_solve(packed, perm, diag_ops.MatrixDiag(ones))


def logdet(matrix, name=None):
    """Logarithms of determinants of positive definite matrices. TF: linalg.logdet.
    matrix: [..., n, n] of floats or complex numbers -> [...]. InvalidArgumentError unless
    positive definite."""
    with graph.name_scope(name, "logdet", [matrix]):
        chol = Cholesky(matrix)
        diagonal = tensors.real(diag_ops.MatrixDiagPart(chol))
        return 2.0 * reductions.reduce_sum(unary_ops.Log(diagonal), [-1])


def slogdet(input, name=None):
    """(sign, logarithm of the size) of determinants. TF: linalg.slogdet.
    Dtypes, shapes, errors: as op LogMatrixDeterminant."""
    return linalg_ops.LogMatrixDeterminant(input, name=name)


def expm(input, name=None):
    """Matrix exponentials by scaling, Pade's approximant and squaring. TF: linalg.expm.

    Source: Higham, "The scaling and squaring method for the matrix exponential revisited" (2005).
    input: [..., n, n] of floats or complex numbers. ValueError unless square."""
    with graph.name_scope(name, "matrix_exponential", [input]):
        a = graph.convert_to_tensor(input, name="input")
        wide = a.dtype in (dtypes.float64, dtypes.complex128)
        degree, limit = (13, 5.371920351148152) if wide else (7, 3.925724783138660)
        norm = reductions.reduce_max(reductions.reduce_sum(complex_functions.abs(a), -2), -1)
        scale = unary_ops.Ceil(unary_ops.Log(norm / limit) / math.log(2.0))
        scale = binary_ops.Maximum(scale, tensors.zeros_like(scale))
        scale = identity_functions.stop_gradient(scale)
        factor = tensors.cast(binary_ops.Pow(tensors.ones_like(scale) * 2.0, scale), a.dtype)
        turns = tensors.expand_dims(tensors.expand_dims(scale, -1), -1)
        result = _pade(a / tensors.expand_dims(tensors.expand_dims(factor, -1), -1), degree)

        def square(i, x):
            wanted = logic_ops.LogicalAnd(i < turns, tensors.ones_like(x, dtypes.bool))
            return i + 1.0, logic_ops.Select(wanted, matmul(x, x), x)
        last = reductions.reduce_max(scale)
        one = graph.convert_to_tensor(0.0, dtype=scale.dtype)
        done = while_loop.while_loop(lambda i, x: i < last, square, [one, result])[1]
        done.set_shape(a.shape)
        return done


def _pade(a, degree):
    """The diagonal Pade approximant (V - U)^-1 (V + U) of exp(a)."""
    b = BUTCHER[degree] + (1.0,)
    eye = diag_ops.MatrixDiag(tensors.ones_like(diag_ops.MatrixDiagPart(a)))
    square = matmul(a, a)
    powers = [eye, square]
    while 2 * len(powers) <= degree:
        powers.append(matmul(powers[-1], square))

    def total(first):
        parts = [b[i] * power for i, power in zip(range(first, degree + 1, 2), powers)]
        result = parts[0]
        for part in parts[1:]:
            result = result + part
        return result
    u, v = matmul(a, total(1)), total(0)
    return MatrixSolve(v - u, v + u)


def sqrtm(input, name=None):
    """Principal square roots of matrices. TF: linalg.sqrtm.
    Dtypes, shapes, errors: as op MatrixSquareRoot."""
    return linalg_ops.MatrixSquareRoot(input, name=name)


def logm(input, name=None):
    """Principal logarithms of complex matrices. TF: linalg.logm.
    Dtypes, shapes, errors: as op MatrixLogarithm."""
    return linalg_ops.MatrixLogarithm(input, name=name)


def matrix_rank(a, tol=None, validate_args=False, name=None):
    """How many singular values are above `tol` (default eps max(m, n) s_max). TF:
    linalg.matrix_rank.
    a: [..., m, n] of floats -> int32 [...]. ValueError for less than two dimensions, TypeError
    for other dtypes."""
    with graph.name_scope(name, "matrix_rank", [a]):
        a = graph.convert_to_tensor(a, name="a")
        s = svd(a, compute_uv=False)
        if tol is None:
            tol = _tolerance(a, s, np.finfo(a.dtype.real_dtype.as_numpy_dtype).eps)
        return reductions.reduce_sum(tensors.cast(s > tol, dtypes.int32), -1)


def _tolerance(a, s, unit):
    dims = tensors.shape(a)[-2:]
    most = tensors.cast(reductions.reduce_max(dims), s.dtype)
    return unit * most * reductions.reduce_max(s, -1, keepdims=True)


def pinv(a, rcond=None, validate_args=False, name=None):
    """Moore and Penrose's pseudo-inverses; singular values up to rcond s_max count as 0.
    TF: linalg.pinv.
    a: [..., m, n] of floats -> [..., n, m]. ValueError for less than two dimensions, TypeError
    for other dtypes."""
    with graph.name_scope(name, "pinv", [a]):
        a = graph.convert_to_tensor(a, name="a")
        s, u, v = svd(a)
        if rcond is None:
            limit = _tolerance(a, s, 10.0 * np.finfo(s.dtype.as_numpy_dtype).eps)
        else:
            rcond = graph.convert_to_tensor(rcond, dtype=s.dtype)
            largest = reductions.reduce_max(s, -1, keepdims=True)
            limit = tensors.expand_dims(rcond, -1) * largest
        kept = logic_ops.Select(s > limit, s, tensors.ones_like(s) * np.inf)
        scaled = v / tensors.cast(tensors.expand_dims(kept, -2), a.dtype)
        return matmul(scaled, u, adjoint_b=True)


def normalize(tensor, ord="euclidean", axis=None, name=None):
    """(tensor / norm, norm), the norm with its axes kept. TF: linalg.normalize.
    tensor: floats of any shape; (result of its shape, norm). ValueError for an unknown `ord`."""
    with graph.name_scope(name, "normalize", [tensor]):
        tensor = graph.convert_to_tensor(tensor, name="tensor")
        size = norm(tensor, ord=ord, axis=axis, keepdims=True)
        return tensor / tensors.cast(size, tensor.dtype), size


# ------------------------------------------------------------------------------------ tridiagonal
def _diagonals(diagonals, layout, n=None):
    """[above, main, below], each [..., n], from TF's three layouts."""
    if layout == "compact":
        d = graph.convert_to_tensor(diagonals, name="diagonals")
        return [d[..., i, :] for i in range(3)]
    if layout == "sequence":
        if not isinstance(diagonals, (tuple, list)) or len(diagonals) != 3:
            raise ValueError("Expected diagonals to be a sequence of length 3.")
        above, main, below = (graph.convert_to_tensor(d) for d in diagonals)
        known = main.shape[-1].value
        if known is None or above.shape[-1].value != known:
            above = tensors.concat([above, _hole(main, above)], -1)
        if known is None or below.shape[-1].value != known:
            below = tensors.concat([_hole(main, below), below], -1)
        return [above, main, below]
    if layout == "matrix":
        a = graph.convert_to_tensor(diagonals, name="diagonals")
        main = diag_ops.MatrixDiagPart(a)
        hole = tensors.zeros_like(main[..., :1])
        return [tensors.concat([diag_ops.MatrixDiagPart(a[..., :-1, 1:]), hole], -1), main,
                tensors.concat([hole, diag_ops.MatrixDiagPart(a[..., 1:, :-1])], -1)]
    raise ValueError(f"Unrecognized diagonals_format: {layout}")


def _hole(main, other):
    """The zeros that `other`, a diagonal, lacks beside the main one: one or none."""
    missing = tensors.shape(main)[-1] - tensors.shape(other)[-1]
    return tensors.zeros_like(main[..., :missing])


def tridiagonal_solve(diagonals, rhs, diagonals_format="compact", transpose_rhs=False,
                      conjugate_rhs=False, name=None, partial_pivoting=True,
                      perturb_singular=False):
    """x with A x = rhs for tridiagonal matrices. TF: linalg.tridiagonal_solve.

    rhs: [..., n] or [..., n, k]; singular matrices are an InvalidArgumentError (perturb_singular:
    ValueError, it is not offered).
    Dtypes, shapes, errors: as op TridiagonalSolve."""
    if perturb_singular:
        raise ValueError("tf.linalg.tridiagonal_solve: perturb_singular is not offered")
    with graph.name_scope(name, "tridiagonal_solve", [rhs]):
        packed = tensors.stack(_diagonals(diagonals, diagonals_format), axis=-2)
        rhs = graph.convert_to_tensor(rhs, name="rhs")
        ranks = rhs.shape.ndims, packed.shape.ndims
        vector = None not in ranks and ranks[0] == ranks[1] - 1
        if vector:
            rhs = tensors.expand_dims(rhs, -1)
        elif transpose_rhs:
            rhs = tensors.matrix_transpose(rhs)
        if conjugate_rhs:
            rhs = conj(rhs)
        x = linalg_ops.TridiagonalSolve(packed, rhs, partial_pivoting=partial_pivoting)
        if vector:
            return tensors.squeeze(x, axis=-1)
        return tensors.matrix_transpose(x) if transpose_rhs else x


def tridiagonal_matmul(diagonals, rhs, diagonals_format="compact", name=None):
    """A rhs for tridiagonal matrices. TF: linalg.tridiagonal_matmul.
    Dtypes, shapes, errors: as op TridiagonalMatMul."""
    with graph.name_scope(name, "tridiagonal_matmul", [rhs]):
        parts = [tensors.expand_dims(d, -2) for d in _diagonals(diagonals, diagonals_format)]
        return linalg_ops.TridiagonalMatMul(*parts, rhs)


# ------------------------------------------------------------------------------------ small helpers
def _batch(op):
    dims = dims_of(at_least_rank(op.inputs[0].shape, 2, f"{op.type}: input"))
    return None if dims is None else dims[:-2]


# ------------------------------------------------------------------------------- clipping and norms
def norm(tensor, ord="euclidean", axis=None, keepdims=None, name=None, keep_dims=None):
    """Vector norm (1, 2, p, inf, "euclidean"), or matrix norm over two axes. TF: tf.norm.

    Matrix norms: "euclidean"/"fro", 1, 2 and inf. ValueError for others.
    tensor: floats or complex numbers. ValueError for an unknown `ord` or an axis that does not
    fit it."""
    keep = one_of(keepdims, keep_dims, "keepdims", "keep_dims", False)
    matrix = isinstance(axis, (list, tuple)) and len(axis) == 2
    with graph.name_scope(name, "norm", [tensor]):
        x = graph.convert_to_tensor(tensor)
        if ord in ("euclidean", "fro") or ord == 2 and not matrix:
            result = unary_ops.Sqrt(_squared_sum(x, axis))
        elif matrix and ord == 2:
            result = _largest_singular_value(x, list(axis))
        elif matrix:
            result = _matrix_norm(complex_functions.abs(x), ord, list(axis))
        else:
            result = _vector_norm(complex_functions.abs(x), ord, axis)
        return result if keep else tensors.squeeze(result, axis)


def _squared_sum(x, axis):
    squares = x * conj(x)
    if x.dtype.is_complex:
        squares = tensors.real(squares)
    return reductions.reduce_sum(squares, axis, keepdims=True)


def _vector_norm(size, ord, axis):
    if ord == np.inf:
        return reductions.reduce_max(size, axis, keepdims=True)
    if not isinstance(ord, (int, float)) or ord <= 0:
        raise ValueError(f"tf.norm: ord {ord!r} is not a vector norm; give 'euclidean', a positive "
                         "number or inf")
    if ord == 1:
        return reductions.reduce_sum(size, axis, keepdims=True)
    total = reductions.reduce_sum(binary_ops.Pow(size, float(ord)), axis, keepdims=True)
    return binary_ops.Pow(total, 1.0 / ord)


def _largest_singular_value(x, axes):
    rank = x.shape.ndims
    if rank is None:
        raise ValueError("tf.norm: the matrix norm 2 needs a tensor of known rank")
    axes = [a % rank for a in axes]
    rest = [i for i in range(rank) if i not in axes]
    values = svd(tensors.transpose(x, rest + axes), compute_uv=False)
    largest = reductions.reduce_max(values, -1)
    for axis in sorted(axes):
        largest = tensors.expand_dims(largest, axis)
    return largest


def _matrix_norm(size, ord, axes):
    if ord not in (1, np.inf):
        raise ValueError(f"tf.norm: {ord!r} is no matrix norm; use 'fro', 1, 2 or inf")
    inner, outer = axes if ord == 1 else axes[::-1]
    sums = reductions.reduce_sum(size, inner, keepdims=True)
    return reductions.reduce_max(sums, outer, keepdims=True)


PUBLIC = {
    "linalg.adjoint": adjoint, "cholesky_solve": cholesky_solve,
    "linalg.cholesky_solve": cholesky_solve, "matrix_triangular_solve": matrix_triangular_solve,
    "linalg.triangular_solve": matrix_triangular_solve, "matrix_solve_ls": matrix_solve_ls,
    "linalg.lstsq": matrix_solve_ls, "qr": qr, "linalg.qr": qr, "svd": svd, "linalg.svd": svd,
    "self_adjoint_eig": self_adjoint_eig, "linalg.eigh": self_adjoint_eig,
    "self_adjoint_eigvals": self_adjoint_eigvals, "linalg.eigvalsh": self_adjoint_eigvals,
    "linalg.lu": lu, "linalg.lu_reconstruct": lu_reconstruct, "linalg.lu_solve": lu_solve,
    "linalg.lu_matrix_inverse": lu_matrix_inverse, "linalg.logdet": logdet,
    "linalg.slogdet": slogdet, "linalg.expm": expm, "linalg.sqrtm": sqrtm,
    "matrix_square_root": sqrtm, "linalg.logm": logm, "linalg.matrix_rank": matrix_rank,
    "linalg.pinv": pinv, "linalg.normalize": normalize,
    "linalg.tridiagonal_solve": tridiagonal_solve, "linalg.tridiagonal_matmul": tridiagonal_matmul,
    "norm": norm, "linalg.norm": norm,
}
