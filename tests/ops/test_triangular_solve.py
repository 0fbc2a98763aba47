"""MatrixTriangularSolve beside the product it undoes: sizes on both sides of where LAPACK takes
over, all types, both triangles, adjoints, the other triangle full of rubbish."""
import numpy as np
import pytest

import pyflow as tf


def numbers(rng, shape, dtype):
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else x


@pytest.mark.parametrize("dtype, tolerance", [("float32", 3e-5), ("float64", 1e-13),
                                              ("complex64", 3e-5), ("complex128", 1e-13)])
@pytest.mark.parametrize("n, k", [(1, 1), (4, 3), (31, 5), (32, 1), (33, 7), (100, 64), (64, 200)])
def test_solves(n, k, dtype, tolerance):
    rng = np.random.default_rng(n)
    a = (numbers(rng, (2, n, n), dtype) / n ** 0.5 + 3 * np.eye(n)).astype(dtype)
    b = numbers(rng, (2, n, k), dtype).astype(dtype)
    for lower in (False, True):
        for adjoint in (False, True):
            with tf.Graph().as_default(), tf.Session() as session:
                x = session.run(tf.linalg.triangular_solve(a, b, lower=lower, adjoint=adjoint))
            m = (np.tril(a) if lower else np.triu(a)).astype(complex)
            m = np.swapaxes(m, -1, -2).conj() if adjoint else m
            assert np.abs(m @ x - b).max() <= tolerance * 10


@pytest.mark.parametrize("n", [5, 40])
def test_a_zero_on_the_diagonal_is_said(n):
    a = np.eye(n)
    a[n - 2, n - 2] = 0
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="not invertible"):
            session.run(tf.linalg.triangular_solve(a, np.ones((n, 2))))


def test_infinity_does_not_hang():
    a = np.eye(50, dtype="f") + np.tri(50, dtype="f")
    a[10, 3] = np.inf
    with tf.Graph().as_default(), tf.Session() as session:
        x = session.run(tf.linalg.triangular_solve(a, np.ones((50, 2), "f")))
    assert np.isfinite(x[:10]).all() and not np.isfinite(x[10:]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", [8, 40])
def test_subnormal_diagonal_whose_reciprocal_overflows(n, dtype):
    tiny = np.finfo(dtype).tiny / 256
    a = np.tri(n, dtype=dtype) / n + np.eye(n, dtype=dtype)
    a[n // 2] = a[:, n // 2] = 0
    a[n // 2, n // 2] = tiny
    b = np.ones((n, 3), dtype)
    b[n // 2] = 3 * a[n // 2, n // 2]
    with tf.Graph().as_default(), tf.Session() as session:
        x = session.run(tf.linalg.triangular_solve(a, b))
    np.testing.assert_allclose(x[n // 2], 3, rtol=1e-5)
    assert np.isfinite(x).all()
