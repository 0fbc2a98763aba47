"""Factorisations and solvers of batches of matrices: the blocks (functions: linalg_functions.py).

Invariants
  1. Tensors are [..., m, n]; every leading dimension is a batch.
  2. The phase of singular vectors and eigenvectors is free; the kernels make the largest entry of
     each left singular vector, or eigenvector, real and positive, and so do the references.
  3. Gradients follow Giles, "Collected matrix derivative results" (2008), with 1/0 taken as 0 where
     eigenvalues or singular values coincide.

Example:  `q, r = tf.qr(a)`;  `x = tf.matrix_triangular_solve(l, b)`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, broadcast_static_shape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import at_least_rank, conj, dims_of
from pyflow.ops.base.shape_rules import by_pattern
from pyflow.ops.gemm.matmul_ops import adjoint_of, batch_sums
from pyflow.ops.gemm.products import matmul, matrix_transpose
from pyflow.ops.linalg.solve_ops import WELL, square_shape, wide

COMPLEX_ONLY = (dtypes.complex64, dtypes.complex128)
HALF_TOO = (dtypes.float64, dtypes.float32, dtypes.float16) + COMPLEX_ONLY
LOWER = [[2.0, 0.0, 0.0], [0.5, 1.5, 0.0], [-0.25, 0.75, 1.25]]
TALL = [[1.0, 2.0], [0.5, -1.0], [2.0, 0.25]]


# ------------------------------------------------------------------------------------ small helpers
def adjoint(x):
    """Conjugate transposed matrices."""
    return conj(matrix_transpose(x))


def triangle(x, lower=True):
    """The lower (or upper) triangle of matrices, diagonal included."""
    below, above = (-1, 0) if lower else (0, -1)
    return raw_ops.MatrixBandPart(x, np.int64(below), np.int64(above))


def diagonal_matrix(x):
    return raw_ops.MatrixDiag(x)


def without_diagonal(x):
    return raw_ops.MatrixSetDiag(x, tensors.zeros_like(raw_ops.MatrixDiagPart(x)))


def differences(x):
    """1 / (x_j - x_i), and 0 where they are equal."""
    gap = raw_ops.ExpandDims(x, -2) - raw_ops.ExpandDims(x, -1)
    return raw_ops.DivNoNan(tensors.ones_like(gap), gap)


def _oriented(u, v=None):
    """Columns of u, and of v with them, with a real positive largest entry."""
    if not u.size:
        return u, v
    most = np.take_along_axis(u, np.abs(u).argmax(-2)[..., None, :], -2)
    phase = np.conj(most) / np.abs(most)
    k = None if v is None else min(u.shape[-1], v.shape[-1])
    return u * phase, None if v is None else v[..., :k] * phase[..., :k]


# --------------------------------------------------------------------------------------------- QR
def _qr_shape(op):
    dims = dims_of(at_least_rank(op.inputs[0].shape, 2, "Qr: input"))
    if dims is None:
        return [unknown_shape()] * 2
    m, n = dims[-2:]
    p = m if op.attr("full_matrices") else None if None in (m, n) else min(m, n)
    return [TensorShape(dims[:-2] + [m, p]), TensorShape(dims[:-2] + [p, n])]


def _square_qr_gradient(q, r, dq, dr):
    """For a with at least as many rows as columns: (dq + q copy(M)) r^-H, M = r dr^H - dq^H q."""
    middle = matmul(r, dr, adjoint_b=True) - matmul(dq, q, adjoint_a=True)
    low = triangle(middle)
    if q.dtype.is_complex:
        low = raw_ops.MatrixSetDiag(low, tensors.cast(
            tensors.real(raw_ops.MatrixDiagPart(low)), q.dtype))
    middle = low + adjoint(without_diagonal(low))
    right = dq + matmul(q, middle)
    return adjoint(MatrixTriangularSolve(r, adjoint(right), lower=False))


@op("Qr", inputs="input: T", outputs="q: T, r: T", T=HALF_TOO, attrs="full_matrices: bool = false")
class Qr:
    """input = q r, q [..., m, p] with orthonormal columns, r upper triangular. TF: Qr."""
    shape = _qr_shape

    def gradient(op, dq, dr):
        a, (q, r) = op.inputs[0], op.outputs
        dims = dims_of(a.shape)
        if dims is None or None in dims[-2:]:
            raise ValueError(f"the gradient of '{op.name}' (Qr) needs a known number of rows and "
                             f"columns, got shape {a.shape}")
        m, n = dims[-2:]
        if op.attr("full_matrices") and m > n:
            raise ValueError(f"the gradient of '{op.name}' (Qr) with full_matrices and more rows "
                             "than columns is not defined: use full_matrices=False")
        if m >= n:
            return _square_qr_gradient(q, r, dq, dr)
        y, left, right = a[..., m:], r[..., :m], dr[..., m:]
        dq = dq + matmul(y, right, adjoint_b=True)
        dx = _square_qr_gradient(q, left, dq, dr[..., :m])
        return tensors.concat([dx, matmul(q, right)], -1)

    def reference(input, full_matrices):
        input = wide(input)
        m, n = input.shape[-2:]
        p = m if full_matrices else min(m, n)
        q = np.zeros(input.shape[:-2] + (m, p), input.dtype)
        r = np.zeros(input.shape[:-2] + (p, n), input.dtype)
        for i in np.ndindex(input.shape[:-2]):
            q[i], r[i] = np.linalg.qr(input[i], "complete" if full_matrices else "reduced")
        return q, r
    samples = [S((3, 2)), S((2, 3)), S(lit(WELL)), S(lit([WELL, WELL])), S((0, 3, 2)),
               S((2, 3), full_matrices=True)]


# -------------------------------------------------------------------------------------------- SVD
def _svd_shape(op):
    dims = dims_of(at_least_rank(op.inputs[0].shape, 2, "Svd: input"))
    wanted, full = op.attr("compute_uv"), op.attr("full_matrices")
    none = TensorShape([0])
    if dims is None:
        return [unknown_shape()] + ([unknown_shape()] * 2 if wanted else [none] * 2)
    m, n = dims[-2:]
    k = None if None in (m, n) else min(m, n)
    s = TensorShape(dims[:-2] + [k])
    if not wanted:
        return [s, none, none]
    return [s, TensorShape(dims[:-2] + [m, m if full else k]),
            TensorShape(dims[:-2] + [n, n if full else k])]


def _svd_gradient(op, ds, du, dv):
    a = op.inputs[0]
    if not op.attr("compute_uv"):
        _, u, v = Svd(a)
        return matmul(u, matmul(diagonal_matrix(ds), v, adjoint_b=True))
    m, n = (dims_of(a.shape) or (None, None))[-2:]
    if op.attr("full_matrices") and (None in (m, n) or abs(m - n) > 1):
        raise ValueError(f"the gradient of '{op.name}' (Svd) with full_matrices is defined for "
                         "matrices of known sizes that differ by at most one, got "
                         f"{a.shape}: use full_matrices=False")
    s, u, v = op.outputs
    u, du, beyond_u = _within(u, du, n if op.attr("full_matrices") else None)
    v, dv, beyond_v = _within(v, dv, m if op.attr("full_matrices") else None)
    gaps = differences(s * s)
    inverse = diagonal_matrix(raw_ops.DivNoNan(tensors.ones_like(s), s))
    values = diagonal_matrix(s)
    utdu, vtdv = matmul(u, du, adjoint_a=True), matmul(v, dv, adjoint_a=True)
    j, k = gaps * utdu, gaps * vtdv
    core = (diagonal_matrix(ds) + matmul(j + adjoint(j), values)
            + matmul(values, k + adjoint(k)))
    if a.dtype.is_complex:                      # the vectors' phases: arXiv 1909.02659
        by_u = None not in (m, n) and m > n
        phases = diagonal_matrix(raw_ops.MatrixDiagPart(utdu if by_u else vtdv))
        core += 0.5 * matmul(inverse, (phases - adjoint(phases)) * (1.0 if by_u else -1.0))
    total = matmul(u, matmul(core, v, adjoint_b=True))
    outside_u = du - matmul(u, utdu) - beyond_u
    outside_v = dv - matmul(v, vtdv) - beyond_v
    total += matmul(matmul(outside_u, inverse), v, adjoint_b=True)
    return total + matmul(u, matmul(inverse, outside_v, adjoint_b=True))


def _within(vectors, grad, k):
    """The first `k` of all singular vectors, their gradients, and what those of the vector that is
    left, if one is, add to these; k None: they are the first ones."""
    size = dims_of(vectors.shape)
    if k is None or k >= size[-1]:
        return vectors, grad, 0.0
    first, last = vectors[..., :k], vectors[..., k:]
    beyond = matmul(last, matmul(grad[..., k:], first, adjoint_a=True))
    return first, grad[..., :k], beyond


@op("Svd", inputs="input: T", outputs="s: T, u: T, v: T", T=HALF_TOO,
    attrs="compute_uv: bool = true, full_matrices: bool = false")
class Svd:
    """Singular values s (falling) and vectors: input = u diag(s) v^H. TF: Svd."""
    shape = _svd_shape
    gradient = _svd_gradient

    def reference(input, compute_uv, full_matrices):
        u, s, vh = np.linalg.svd(input, full_matrices)
        s = s.astype(input.dtype)
        if not compute_uv:
            return s, np.zeros(0, input.dtype), np.zeros(0, input.dtype)
        u, v = _oriented(u, np.conj(np.swapaxes(vh, -1, -2)))
        return s, u, v
    samples = [S(lit(TALL)), S(lit(np.transpose(TALL))), S(lit(WELL)), S(lit([WELL, WELL])),
               S((0, 3, 2)), S((4, 3), compute_uv=False), S(lit(WELL), full_matrices=True)]


# ---------------------------------------------------------------------------- symmetric eigenvalues
def _eig_gradient(op, de, dv):
    if op.attr("compute_v"):
        e, v = op.outputs
        inner = diagonal_matrix(de) + differences(e) * matmul(v, dv, adjoint_a=True)
        grad = matmul(v, matmul(inner, v, adjoint_b=True))
    else:
        _, v = SelfAdjointEigV2(op.inputs[0])
        grad = matmul(v, matmul(diagonal_matrix(de), v, adjoint_b=True))
    # only the lower triangle is read
    grad = triangle(grad + adjoint(grad))
    return raw_ops.MatrixSetDiag(grad, 0.5 * raw_ops.MatrixDiagPart(grad))


@op("SelfAdjointEigV2", inputs="input: T", outputs="e: T, v: T", T=HALF_TOO,
    attrs="compute_v: bool = true")
class SelfAdjointEigV2:
    """Eigenvalues (rising) and eigenvectors of self-adjoint matrices; the lower triangle is read.
    TF: SelfAdjointEigV2."""
    def shape(op):
        shape = square_shape(op)
        dims = dims_of(shape)
        values = unknown_shape() if dims is None else TensorShape(dims[:-1])
        return [values, shape if op.attr("compute_v") else TensorShape([0])]
    gradient = _eig_gradient

    def reference(input, compute_v):
        e, v = np.linalg.eigh(input)
        v = _oriented(v)[0] if compute_v else np.zeros(0, input.dtype)
        return e.astype(input.dtype), v
    samples = [S(lit(WELL)), S(lit([WELL, np.transpose(WELL)])), S((0, 3, 3)),
               S(lit(WELL), compute_v=False)]


# --------------------------------------------------------------------------------------------- LU
def _lu_reference(input):
    lu = input.copy()
    order = np.zeros(input.shape[:-1], np.int64)
    n = input.shape[-1]
    for at in np.ndindex(input.shape[:-2]):
        a, p = lu[at], np.arange(n)
        for k in range(n):
            i = k + int(np.abs(a[k:, k]).argmax())
            a[[k, i]], p[[k, i]] = a[[i, k]], p[[i, k]]
            a[k + 1:, k] /= a[k, k]
            a[k + 1:, k + 1:] -= np.outer(a[k + 1:, k], a[k, k + 1:])
        order[at] = p
    return lu, order


@op("Lu", inputs="input: T", outputs="lu: T, p: output_idx_type", T=HALF_TOO,
    attrs="output_idx_type: {int32, int64} = int32")
class Lu:
    """Packed factors L (unit diagonal) and U with input[p] = L U; a singular matrix is an error.
    TF: Lu."""
    def shape(op):
        shape = square_shape(op)
        dims = dims_of(shape)
        return [shape, unknown_shape() if dims is None else TensorShape(dims[:-1])]

    def gradient(op, dlu, dp):
        lu, p = op.outputs
        ones = tensors.ones_like(raw_ops.MatrixDiagPart(lu))
        low, up = raw_ops.MatrixSetDiag(triangle(lu), ones), triangle(lu, lower=False)
        left = without_diagonal(triangle(matmul(low, without_diagonal(triangle(dlu)),
                                                adjoint_a=True)))
        right = triangle(matmul(triangle(dlu, lower=False), up, adjoint_b=True), lower=False)
        middle = MatrixTriangularSolve(low, left + right, lower=True, adjoint=True)
        solved = adjoint(MatrixTriangularSolve(up, adjoint(middle), lower=False))
        return rows_back(solved, p)

    def reference(input):
        return _lu_reference(input)
    samples = [S(lit(WELL)), S(lit([WELL, np.rot90(WELL)])), S((0, 3, 3))]


@op("LogMatrixDeterminant", inputs="input: T", outputs="sign: T, log_abs_determinant: T",
    T=(dtypes.float16, dtypes.float32, dtypes.float64) + COMPLEX_ONLY)
class LogMatrixDeterminant:
    """Sign and logarithm of the size of determinants. TF: LogMatrixDeterminant."""
    def shape(op):
        dims = dims_of(square_shape(op))
        return [unknown_shape() if dims is None else TensorShape(dims[:-2])] * 2

    def gradient(op, dsign, dlog):
        scale = raw_ops.ExpandDims(raw_ops.ExpandDims(dlog, -1), -1)
        return scale * raw_ops.MatrixInverse(op.inputs[0], adjoint=True)

    def reference(input):
        sign, log = np.linalg.slogdet(input)
        return np.asarray(sign, input.dtype), np.asarray(log, input.dtype)
    samples = [S(lit(WELL)), S(lit([WELL, np.rot90(WELL)])), S((0, 3, 3))]


# ------------------------------------------------------------------------------- triangular systems
@op("CholeskyGrad", inputs="l: T, grad: T", outputs="output: T",
    T=(dtypes.float16, dtypes.float32, dtypes.float64))
class CholeskyGrad:
    """The gradient of Cholesky with respect to its (symmetric) input, from the factor `l`.
    TF: CholeskyGrad."""
    def shape(op): return square_shape(op)
    gradient = UNREGISTERED

    def reference(l, grad):
        low, g = np.tril(l), np.tril(grad)
        middle = np.tril(np.swapaxes(low, -1, -2) @ g)
        i = np.arange(l.shape[-1])
        middle[..., i, i] *= 0.5
        inverse = np.linalg.inv(low)
        full = np.swapaxes(inverse, -1, -2) @ middle @ inverse
        return 0.5 * (full + np.swapaxes(full, -1, -2))
    samples = [S(lit(LOWER), (3, 3)), S(lit([LOWER, LOWER]), (2, 3, 3)), S((0, 2, 2), (0, 2, 2))]


def _triangular_shape(op):
    a, b = dims_of(square_shape(op)), dims_of(at_least_rank(op.inputs[1].shape, 2, "rhs"))
    if a is None or b is None:
        return unknown_shape()
    if None not in (a[-1], b[-2]) and a[-1] != b[-2]:
        raise ValueError(f"MatrixTriangularSolve: matrices of {a[-1]} rows and right-hand sides of "
                         f"{b[-2]}")
    batch = broadcast_static_shape(TensorShape(a[:-2]), TensorShape(b[:-2]))
    return batch.concatenate([a[-1] if a[-1] is not None else b[-2], b[-1]])


def _triangular_gradient(op, dx):
    a, b = op.inputs
    x, lower, turned = op.outputs[0], op.attr("lower"), op.attr("adjoint")
    db = MatrixTriangularSolve(a, dx, lower=lower, adjoint=not turned)
    da = -matmul(x, db, adjoint_b=True) if turned else -matmul(db, x, adjoint_b=True)
    return batch_sums([triangle(da, lower), db], a, b)


@op("MatrixTriangularSolve", inputs="matrix: T, rhs: T", outputs="output: T", T=HALF_TOO,
    attrs="lower: bool = true, adjoint: bool = false")
class MatrixTriangularSolve:
    """x with matrix x = rhs for triangular matrices; the other triangle is not read.
    TF: MatrixTriangularSolve."""
    shape = _triangular_shape
    gradient = _triangular_gradient

    def reference(matrix, rhs, lower, adjoint):
        half = np.tril(matrix) if lower else np.triu(matrix)
        return np.linalg.inv(adjoint_of(half, adjoint)) @ rhs
    samples = [S(lit(LOWER), (3, 2)), S(lit(WELL), (3, 1), lower=False),
               S(lit(LOWER), (3, 2), adjoint=True),
               S(lit(WELL), (3, 2), lower=False, adjoint=True),
               S(lit([LOWER, LOWER]), (2, 3, 2)), S(lit(LOWER), (4, 3, 2)), S((0, 2, 2), (0, 2, 1))]


# ------------------------------------------------------------------------------------ least squares
def _regularized(gram, l2):
    shift = tensors.cast(l2, gram.dtype)
    return raw_ops.MatrixSetDiag(gram, raw_ops.MatrixDiagPart(gram) + shift)


def _ls_gradient(op, dx):
    a, b, l2 = op.inputs
    x = op.outputs[0]
    dims = dims_of(a.shape)
    if dims is None or None in dims[-2:]:
        raise ValueError(f"the gradient of '{op.name}' (MatrixSolveLs) needs a known number of "
                         f"rows and columns, got shape {a.shape}")
    if dims[-2] >= dims[-1]:
        gram = _regularized(matmul(a, a, adjoint_a=True), l2)
        z = raw_ops.MatrixSolve(gram, dx)
        xz = matmul(x, z, adjoint_b=True)
        return [matmul(b, z, adjoint_b=True) - matmul(a, xz + adjoint(xz)), matmul(a, z), None]
    gram = _regularized(matmul(a, a, adjoint_b=True), l2)
    db = raw_ops.MatrixSolve(gram, matmul(a, dx))
    y = raw_ops.MatrixSolve(gram, b)
    inner = matmul(db, y, adjoint_b=True)
    return [matmul(y, dx, adjoint_b=True) - matmul(inner + adjoint(inner), a), db, None]


@op("MatrixSolveLs", inputs="matrix: T, rhs: T, l2_regularizer: double", outputs="output: T",
    T=HALF_TOO, attrs="fast: bool = true")
class MatrixSolveLs:
    """x of least |matrix x - rhs|^2 + l2 |x|^2; not `fast`: of least norm too, for any rank.
    TF: MatrixSolveLs."""
    shape = by_pattern("* m n", "* m k", "", "->", "* n k")
    gradient = _ls_gradient

    def reference(matrix, rhs, l2_regularizer, fast):
        if not fast:
            return np.linalg.pinv(matrix) @ rhs
        h = np.conj(np.swapaxes(matrix, -1, -2))
        m, n = matrix.shape[-2:]
        if m >= n:
            return np.linalg.inv(h @ matrix + l2_regularizer * np.eye(n)) @ (h @ rhs)
        return h @ (np.linalg.inv(matrix @ h + l2_regularizer * np.eye(m)) @ rhs)
    samples = [S(lit(TALL), (3, 2), lit(0.0)), S(lit(np.transpose(TALL)), (2, 1), lit(0.5)),
               S(lit(TALL), (3, 2), lit(0.1)), S(lit([WELL, WELL]), (2, 3, 2), lit(0.0)),
               S(lit(TALL), (3, 2), lit(0.0), fast=False), S((0, 3, 2), (0, 3, 1), lit(0.0))]


# ---------------------------------------------------------------------------- functions of matrices
def _sqrt_gradient(op, dy):
    """G with y^H G + G y^H = dy, as a system of n^2 equations by Kronecker products."""
    y = adjoint(op.outputs[0])
    n, batch = tensors.shape(y)[-1], tensors.shape(y)[:-2]
    eye = raw_ops.MatrixDiag(tensors.ones_like(raw_ops.MatrixDiagPart(y)))

    def kron(a, b):
        wide = (raw_ops.ExpandDims(raw_ops.ExpandDims(a, -1), -3)
                * raw_ops.ExpandDims(raw_ops.ExpandDims(b, -2), -4))
        square = raw_ops.Mul(n, n)
        return raw_ops.Reshape(wide, tensors.concat([batch, [square, square]], 0))
    system = kron(y, eye) + kron(eye, matrix_transpose(y))
    flat = raw_ops.Reshape(dy, tensors.concat([batch, [n * n, 1]], 0))
    return raw_ops.Reshape(raw_ops.MatrixSolve(system, flat), tensors.shape(dy))


def _sqrtm(a):
    values, vectors = np.linalg.eig(a)
    root = vectors @ (np.sqrt(values + 0j)[..., None] * np.linalg.inv(vectors))
    return root.astype(a.dtype) if np.iscomplexobj(a) else root.real.astype(a.dtype)


@op("MatrixSquareRoot", inputs="input: T", outputs="output: T", T=HALF_TOO)
class MatrixSquareRoot:
    """Principal square roots: output output = input. TF: MatrixSquareRoot."""
    def shape(op): return square_shape(op)
    gradient = _sqrt_gradient

    def reference(input): return _sqrtm(input)
    samples = [S(lit(WELL)), S(lit([WELL, WELL])), S((0, 3, 3))]


@op("MatrixLogarithm", inputs="input: T", outputs="output: T", T=COMPLEX_ONLY)
class MatrixLogarithm:
    """Principal logarithms of complex matrices; no gradient. TF: MatrixLogarithm."""
    def shape(op): return square_shape(op)
    gradient = UNREGISTERED

    def reference(input):
        values, vectors = np.linalg.eig(input)
        return vectors @ (np.log(values)[..., None] * np.linalg.inv(vectors))
    samples = [S(lit(WELL)), S(lit([WELL, WELL])), S((0, 3, 3))]


# ------------------------------------------------------------------------------------ tridiagonal
def _tridiagonal(d):
    n = d.shape[-1]
    full = np.zeros(d.shape[:-2] + (n, n), d.dtype)
    i = np.arange(n)
    full[..., i, i] = d[..., 1, :]
    full[..., i[:-1], i[1:]] = d[..., 0, :-1]
    full[..., i[1:], i[:-1]] = d[..., 2, 1:]
    return full


def _shifted(x, by, axis):
    """x moved by one along the axis, a zero coming in."""
    nothing, zero = slice(None), slice(0, 1)
    cut = slice(1, None) if by < 0 else slice(None, -1)
    tail = [nothing] * (-axis - 1)
    kept, hole = x[(Ellipsis, cut, *tail)], x[(Ellipsis, zero, *tail)] * 0
    return tensors.concat([kept, hole] if by < 0 else [hole, kept], axis)


def _tridiagonal_solve_gradient(op, dx):
    d, x = op.inputs[0], op.outputs[0]
    up, main, low = d[..., 0, :], d[..., 1, :], d[..., 2, :]
    turned = tensors.stack([conj(_shifted(low, -1, -1)), conj(main), conj(_shifted(up, 1, -1))],
                           axis=-2)
    db = TridiagonalSolve(turned, dx, partial_pivoting=op.attr("partial_pivoting"))
    parts = [-tensors.sum_of(db * conj(other), -1)
             for other in (_shifted(x, -1, -2), x, _shifted(x, 1, -2))]
    return [tensors.stack(parts, axis=-2), db]


BANDS = [[0.5, -0.5, 0.0], [4.0, 3.0, 5.0], [0.0, 1.0, 0.25]]


@op("TridiagonalSolve", inputs="diagonals: T, rhs: T", outputs="output: T",
    T=(dtypes.float64, dtypes.float32) + COMPLEX_ONLY,
    attrs="partial_pivoting: bool = true, perturb_singular: bool = false")
class TridiagonalSolve:
    """x with A x = rhs; diagonals [..., 3, n]: above, main, below (last and first unused).
    TF: TridiagonalSolve."""
    shape = by_pattern("* 3 m", "* m k", "->", "* m k")
    gradient = _tridiagonal_solve_gradient

    def reference(diagonals, rhs): return np.linalg.solve(_tridiagonal(diagonals), rhs)
    samples = [S(lit(BANDS), (3, 2)), S(lit([BANDS, BANDS]), (2, 3, 1)),
               S(lit(BANDS), (3, 2), partial_pivoting=False),
               S(lit([[4.0, 1.0, 0.0], [0.0, 1.0, 2.0], [0.0, 3.0, 1.0]]), (3, 2))]


def _tridiagonal_matmul_gradient(op, dy):
    up, main, low, x = op.inputs

    def diagonal(other):
        return raw_ops.ExpandDims(tensors.sum_of(dy * conj(other), -1), -2)
    dx = TridiagonalMatMul(conj(_shifted(low, -1, -1)), conj(main), conj(_shifted(up, 1, -1)), dy)
    return [diagonal(_shifted(x, -1, -2)), diagonal(x), diagonal(_shifted(x, 1, -2)), dx]


@op("TridiagonalMatMul", inputs="superdiag: T, maindiag: T, subdiag: T, rhs: T",
    outputs="output: T", T=(dtypes.float64, dtypes.float32) + COMPLEX_ONLY)
class TridiagonalMatMul:
    """A rhs with the diagonals of A as [..., 1, n]. TF: TridiagonalMatMul."""
    shape = by_pattern("* 1 m", "* 1 m", "* 1 m", "* m n", "->", "* m n")
    gradient = _tridiagonal_matmul_gradient

    def reference(superdiag, maindiag, subdiag, rhs):
        return _tridiagonal(np.concatenate([superdiag, maindiag, subdiag], -2)) @ rhs
    samples = [S((1, 3), (1, 3), (1, 3), (3, 2)), S((2, 1, 3), (2, 1, 3), (2, 1, 3), (2, 3, 1))]


def rows_back(x, perm):
    """Rows i of x [..., n, k] put at place perm[..., i]."""
    inverse = _inverse_permutation(perm)
    return rows_at(x, inverse)


def _inverse_permutation(perm):
    """perm [..., n] -> the permutation that undoes it, as one-hot columns' positions."""
    if perm.shape.ndims == 1:
        return raw_ops.InvertPermutation(perm)
    n = tensors.shape(perm)[-1]
    hits = raw_ops.Equal(raw_ops.ExpandDims(perm, -2),
                         raw_ops.ExpandDims(tensors.range_(
                             tensors.cast(n, perm.dtype)), -1))
    hits = tensors.cast(hits, dtypes.int32)
    return raw_ops.ArgMax(hits, -1, output_type=dtypes.int32)


def rows_at(x, index):
    if index.shape.ndims == 1:
        return tensors.gather(x, index, axis=-2) if x.shape.ndims == 2 else \
            tensors.gather(x, index, axis=x.shape.ndims - 2)
    n = index.shape.ndims - 1
    return tensors.gather(x, index, axis=n, batch_dims=n)
