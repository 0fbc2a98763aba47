"""Factorisations and solvers at sizes that LAPACK does (small ones are the samples of the blocks):
they must reproduce the matrix, whoever computed them."""
import numpy as np
import pytest

import pyflow as tf

TYPES = (np.float32, np.float64, np.complex64, np.complex128)
SHAPES = ((40, 40), (70, 33), (33, 70))


def run(tensors):
    with tf.Session() as session:
        return session.run(tensors)


def matrix(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal(shape)
    return a.astype(dtype)


def adjoint(a):
    return np.conj(a.T)


def close(found, wanted):
    limit = 2e-3 if found.dtype.itemsize in (4,) or found.dtype == np.complex64 else 1e-9
    np.testing.assert_allclose(found, wanted, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qr_and_svd(shape, dtype):
    a = matrix(shape, dtype)
    with tf.Graph().as_default():
        tensors = [tf.qr(a), tf.qr(a, full_matrices=True), tf.svd(a), tf.svd(a, full_matrices=True),
                   tf.svd(a, compute_uv=False)]
        (q, r), (fq, fr), (s, u, v), (fs, fu, fv), alone = run(tensors)
    close(q @ r, a)
    close(fq @ fr, a)
    close(adjoint(q) @ q, np.eye(q.shape[1]))
    assert not np.tril(r, -1).any() and fq.shape == (shape[0],) * 2
    close((u * s) @ adjoint(v), a)
    k = min(shape)
    close((fu[:, :k] * fs) @ adjoint(fv[:, :k]), a)
    close(adjoint(fu) @ fu, np.eye(shape[0]))
    close(adjoint(fv) @ fv, np.eye(shape[1]))
    close(alone, np.linalg.svd(a, compute_uv=False))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
def test_solvers(dtype):
    a, b = matrix((50, 50), dtype) + 20 * np.eye(50, dtype=dtype), matrix((50, 3), dtype, 1)
    spd = (a @ adjoint(a)).astype(dtype)
    with tf.Graph().as_default():
        x, back, inverse, turned, low, (e, vectors) = run(
            [tf.matrix_solve(a, b), tf.matrix_solve(a, b, adjoint=True), tf.matrix_inverse(a),
             tf.matrix_inverse(a, adjoint=True), tf.cholesky(spd), tf.self_adjoint_eig(spd)])
    close(a @ x, b)
    close(adjoint(a) @ back, b)
    close(inverse @ a, np.eye(50))
    close(turned @ adjoint(a), np.eye(50))
    size = np.abs(spd).max()
    close(low @ adjoint(low) / size, spd / size)
    assert not np.triu(low, 1).any()
    close((vectors * e) @ adjoint(vectors) / size, spd / size)


def test_nan_comes_out_as_nan():
    a = matrix((40, 40), np.float64)
    a[3, 4] = np.nan
    with tf.Graph().as_default():
        s, e = run([tf.svd(a, compute_uv=False), tf.self_adjoint_eigvals(a + a.T)])
    assert np.isnan(s).all() and np.isnan(e).all()


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("n", (12, 40, 130))
def test_nan_shows_where_the_order_of_the_method_brings_it(n, dtype):
    """For small matrices and large ones, whatever processor the library finds."""
    a = matrix((n, n), dtype)
    a = (a @ adjoint(a) / n + 4 * np.eye(n)).astype(dtype)
    a[7, 3] = np.nan
    with tf.Graph().as_default():
        low, (q, r), x, back, sign = run(
            [tf.cholesky(a), tf.qr(a), tf.matrix_solve(a, np.ones((n, 2), dtype)),
             tf.matrix_inverse(a), tf.matrix_determinant(a)])
    rows, columns = np.indices((n, n))
    reached = (rows == 7) & (columns >= 3) | (rows > 7) & (columns >= 7)
    np.testing.assert_array_equal(np.isnan(low), reached & (columns <= rows))
    assert np.isfinite(r[:, :3]).all() and np.isnan(r[3, 3:]).all() and np.isnan(q[:, 3:]).all()
    assert np.isnan(x).all() and np.isnan(back).all() and np.isnan(sign)


def test_singular_and_indefinite_matrices_are_errors():
    a = np.ones((40, 40))
    with tf.Graph().as_default():
        for tensor in (tf.matrix_inverse(a), tf.cholesky(-np.eye(40)), tf.linalg.lu(a)[0]):
            with pytest.raises(tf.errors.InvalidArgumentError):
                run(tensor)
