"""Dense linear algebra: factorisations, solvers, functions of matrices, einsum.

Singular vectors and eigenvectors are compared by their sizes: their phase is free.
"""

import numpy as np

from cases import Input, normal, op, positive, value

D = np.float64
C = np.complex128


def spd(*batch, n=3, dtype=D):
    """Symmetric positive definite (or Hermitian) matrices."""

    def make(rng):
        a = rng.standard_normal((*batch, n, n))
        if np.dtype(dtype).kind == "c":
            a = a + 1j * rng.standard_normal((*batch, n, n))
        return (a @ np.conj(np.swapaxes(a, -1, -2)) + n * np.eye(n)).astype(dtype)

    return Input(make)


def complexes(*shape, dtype=C):
    def make(rng):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)

    return Input(make)


def square(*batch, n=3, dtype=D):
    """Well conditioned matrices."""
    return Input(
        lambda rng: (rng.standard_normal((*batch, n, n)) + 3 * np.eye(n)).astype(dtype)
    )


# ---------------------------------------------------------------------------------- solvers
for dtype in (np.float32, D, C):
    tag = np.dtype(dtype).name
    make = complexes if dtype is C else lambda *s, dtype=dtype: normal(*s, dtype=dtype)
    op(f"inverse_{tag}", lambda tf, a: tf.matrix_inverse(a), spd(2, dtype=dtype))
    op(f"determinant_{tag}", lambda tf, a: tf.matrix_determinant(a), spd(2, dtype=dtype))
    op(
        f"solve_{tag}",
        lambda tf, a, b: [tf.matrix_solve(a, b), tf.matrix_solve(a, b, adjoint=True)],
        spd(2, dtype=dtype),
        make(2, 3, 2),
    )
    op(
        f"triangular_solve_{tag}",
        lambda tf, a, b: [
            tf.matrix_triangular_solve(a, b),
            tf.matrix_triangular_solve(a, b, lower=False),
            tf.matrix_triangular_solve(a, b, adjoint=True),
        ],
        spd(2, dtype=dtype),
        make(2, 3, 2),
    )
    op(f"slogdet_{tag}", lambda tf, a: tf.linalg.slogdet(a)[1], spd(2, dtype=dtype))
    op(f"cholesky_{tag}", lambda tf, a: tf.cholesky(a), spd(2, dtype=dtype))
    op(f"qr_{tag}", lambda tf, a: tf.qr(a), make(2, 4, 3), gradient=dtype is not C)
    op(f"lu_{tag}", lambda tf, a: tf.linalg.lu(a)[0], make(2, 3, 3), gradient=False)
op("inverse_adjoint", lambda tf, a: tf.matrix_inverse(a, adjoint=True), square(2))
op("slogdet_signs", lambda tf, a: tf.linalg.slogdet(a), normal(5, 3, 3, dtype=D), gradient=False)
op("logdet", lambda tf, a: tf.linalg.logdet(a), spd(2))
op(
    "cholesky_solve",
    lambda tf, a, b: tf.cholesky_solve(tf.cholesky(a), b),
    spd(2),
    normal(2, 3, 2, dtype=D),
)
op(
    "cholesky_grad_op",
    lambda tf, a, g: tf.raw_ops.CholeskyGrad(l=tf.cholesky(a), grad=g),
    spd(2),
    normal(2, 3, 3, dtype=D),
    gradient=False,
)
op("qr_wide", lambda tf, a: tf.qr(a), normal(2, 3, 5, dtype=D))
op("qr_full", lambda tf, a: tf.qr(a, full_matrices=True), normal(2, 4, 3, dtype=D), gradient=False)
op("lu_permutation", lambda tf, a: tf.linalg.lu(a), normal(2, 4, 4, dtype=D), gradient=False)
op(
    "lu_functions",
    lambda tf, a, b: [
        tf.linalg.lu_reconstruct(*tf.linalg.lu(a)),
        tf.linalg.lu_solve(*tf.linalg.lu(a), b),
        tf.linalg.lu_matrix_inverse(*tf.linalg.lu(a)),
    ],
    normal(2, 4, 4, dtype=D),
    normal(2, 4, 2, dtype=D),
    gradient=False,
)
for name, shape in {"tall": (2, 5, 3), "wide": (2, 3, 5)}.items():
    b = (2, shape[1], 2)
    op(
        f"lstsq_{name}",
        lambda tf, a, b: [
            tf.matrix_solve_ls(a, b),
            tf.matrix_solve_ls(a, b, l2_regularizer=0.5),
        ],
        normal(*shape, dtype=D),
        normal(*b, dtype=D),
    )
    op(
        f"lstsq_slow_{name}",
        lambda tf, a, b: tf.matrix_solve_ls(a, b, fast=False),
        normal(*shape, dtype=D),
        normal(*b, dtype=D),
        gradient=False,
    )
    op(
        f"singular_values_{name}",
        lambda tf, a: tf.svd(a, compute_uv=False),
        normal(*shape, dtype=D),
    )
    op(f"pinv_{name}", lambda tf, a: tf.linalg.pinv(a), normal(*shape, dtype=D))
    op(f"rank_{name}", lambda tf, a: tf.linalg.matrix_rank(a), normal(*shape, dtype=D))


def svd_sizes(tf, a):
    s, u, v = tf.svd(a)
    return [s, tf.abs(u), tf.abs(v), tf.matmul(u * tf.expand_dims(s, -2), v, adjoint_b=True)]


op("svd", svd_sizes, normal(2, 4, 3, dtype=D))
op("svd_wide", svd_sizes, normal(2, 3, 4, dtype=D))
op("svd_float", lambda tf, a: tf.svd(a)[0], normal(6, 4), gradient=False)
op("svd_complex", lambda tf, a: tf.svd(a)[0], complexes(4, 3), gradient=False)


def eig_sizes(tf, a):
    e, v = tf.self_adjoint_eig(a)
    return [e, tf.abs(v)]


op("eigh", eig_sizes, spd(2))
op("eigh_values", lambda tf, a: tf.self_adjoint_eigvals(a), spd(2))
op("eigh_complex", lambda tf, a: tf.self_adjoint_eigvals(a), spd(2, dtype=C), gradient=False)

# ----------------------------------------------------------------------- functions of matrices
op("expm", lambda tf, a: tf.linalg.expm(a), normal(2, 3, 3, dtype=D))
op("expm_large", lambda tf, a: tf.linalg.expm(10.0 * a), normal(3, 3, dtype=D))
op("expm_float", lambda tf, a: tf.linalg.expm(0.3 * a), normal(3, 3))
op("sqrtm", lambda tf, a: tf.linalg.sqrtm(a), spd(2))
op("sqrtm_complex", lambda tf, a: tf.linalg.sqrtm(a), spd(2, dtype=C), gradient=False)
op("logm", lambda tf, a: tf.linalg.logm(a), spd(2, dtype=C), gradient=False)

# ----------------------------------------------------------------------------- tridiagonal
BANDS = Input(lambda rng: rng.standard_normal((2, 3, 4)) + np.array([[0], [4], [0]]))
op(
    "tridiagonal_solve",
    lambda tf, d, b: [
        tf.linalg.tridiagonal_solve(d, b),
        tf.linalg.tridiagonal_solve(d, b, partial_pivoting=False),
    ],
    BANDS,
    normal(2, 4, 3, dtype=D),
)
op(
    "tridiagonal_pivots",
    lambda tf, d, b: tf.linalg.tridiagonal_solve(d, b),
    normal(2, 3, 5, dtype=D),
    normal(2, 5, 1, dtype=D),
)
op(
    "tridiagonal_matmul",
    lambda tf, d, b: tf.linalg.tridiagonal_matmul(d, b),
    BANDS,
    normal(2, 4, 3, dtype=D),
)
op(
    "tridiagonal_layouts",
    lambda tf, u, m, l, b: [
        tf.linalg.tridiagonal_matmul([u, m, l], b, diagonals_format="sequence"),
        tf.linalg.tridiagonal_solve([u, 4.0 + tf.abs(m), l], b, diagonals_format="sequence"),
    ],
    normal(4, dtype=D),
    normal(4, dtype=D),
    normal(4, dtype=D),
    normal(4, 2, dtype=D),
)

# --------------------------------------------------------------------------------- products
for equation, shapes in {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "ij,jk": [(2, 3), (3, 4)],
    "ijk->kji": [(2, 3, 4)],
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 3)],
    "ij->": [(2, 3)],
    "ij,ij->i": [(2, 3), (2, 3)],
    "i,j->ij": [(3,), (4,)],
    "ab,bc,cd->ad": [(2, 3), (3, 4), (4, 2)],
    "ba,bca->c": [(2, 3), (2, 4, 3)],
    "ii->i": [(3, 3)],
    "ii->": [(3, 3)],
    "iij->ij": [(3, 3, 2)],
    "...ij,...jk->...ik": [(2, 3, 4), (2, 4, 3)],
    "...ij,jk->...ik": [(2, 5, 3, 4), (4, 3)],
    "i...->...": [(2, 3, 4)],
    "ij...,jk->ik...": [(2, 3, 2), (3, 4)],
}.items():
    op(
        "einsum_" + "".join(c if c.isalpha() else "_" for c in equation).strip("_"),
        lambda tf, *x, e=equation: tf.einsum(e, *x),
        *[normal(*s, dtype=D) for s in shapes],
    )
op(
    "tensordot_axes",
    lambda tf, a, b: [
        tf.tensordot(a, b, 2),
        tf.tensordot(a, b, [[1, 2], [0, 1]]),
        tf.tensordot(a, a, 0),
    ],
    normal(2, 3, 4, dtype=D),
    normal(3, 4, 5, dtype=D),
)
op(
    "matvec",
    lambda tf, a, x: tf.linalg.matvec(a, x),
    normal(2, 3, 4, dtype=D),
    normal(2, 4, dtype=D),
)
op("cross", lambda tf, a, b: tf.cross(a, b), normal(2, 3, dtype=D), normal(2, 3, dtype=D))
op("adjoint", lambda tf, a: tf.linalg.adjoint(a), complexes(2, 3, 4))
op("trace_batch", lambda tf, a: tf.trace(a), normal(2, 3, 4, dtype=D))
op("eye_shapes", lambda tf, x: [tf.eye(3) * x, tf.eye(2, 4, batch_shape=[2]) * x], value(2.0))
op(
    "diag_family",
    lambda tf, x: [
        tf.matrix_diag(x),
        tf.matrix_diag_part(tf.matrix_diag(x)),
        tf.linalg.tensor_diag(x),
        tf.linalg.set_diag(tf.matrix_diag(x), x + 1.0),
        tf.matrix_band_part(tf.matrix_diag(x) + 1.0, 1, -1),
    ],
    normal(2, 3, dtype=D),
)
op(
    "norms",
    lambda tf, x: [
        tf.norm(x),
        tf.norm(x, ord=1, axis=1),
        tf.norm(x, ord=np.inf, axis=0),
        tf.norm(x, ord="fro", axis=[0, 1], keepdims=True),
        tf.norm(x, ord=3, axis=-1),
        tf.norm(x, ord=1, axis=[0, 1]),
        tf.norm(x, ord=2, axis=[0, 1]),
    ],
    positive(3, 4, dtype=D),
)
op("normalize", lambda tf, x: tf.linalg.normalize(x, axis=1), normal(3, 4, dtype=D))

# ------------------------------------------------------------------------------- bands of diagonals
for align in ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"):
    op(
        f"diag_bands_{align}",
        lambda tf, x, align=align: [
            tf.matrix_diag_part(x, k=(-2, 1), align=align, padding_value=0.5),
            tf.matrix_diag_part(x, k=2, align=align),
            tf.matrix_diag(x, k=(-1, 1), align=align),
            tf.matrix_diag(x[0], k=-1, num_rows=5, align=align, padding_value=2.0),
            tf.matrix_set_diag(x, x[:, :2] * 2.0 + 1.0, k=(-1, 0), align=align)
            if align == "LEFT_LEFT"
            else tf.matrix_set_diag(x, x[:, 0, :3], k=0, align=align),
        ],
        normal(2, 3, 4, dtype=D) if align != "LEFT_LEFT" else normal(2, 3, 3, dtype=D),
    )
