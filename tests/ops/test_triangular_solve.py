"""MatrixTriangularSolve beside the product it undoes: sizes on both sides of where blocks begin,
all types, both triangles, adjoints, the other triangle full of rubbish.  `make test-all` runs
these on every kind of processor that OpenBLAS knows: nothing here may depend on it."""
import numpy as np
import pytest

import pyflow as tf


def numbers(rng, shape, dtype):
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else x


@pytest.mark.parametrize("dtype, tolerance", [("float32", 3e-5), ("float64", 1e-13),
                                              ("complex64", 3e-5), ("complex128", 1e-13)])
@pytest.mark.parametrize("n, k", [(1, 1), (4, 3), (31, 5), (32, 1), (33, 7), (100, 64), (64, 200),
                                  (97, 1), (130, 70)])
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


def row_by_row(a, b, lower, adjoint):
    """The reference's order: a row of x is made of its own row of a and of the rows before it."""
    a, x = a.astype(complex), b.astype(complex)
    a = a.conj().T if adjoint else a
    rows = range(len(a))
    for i in rows if lower != adjoint else reversed(rows):
        for known in range(i) if lower != adjoint else range(i + 1, len(a)):
            x[i] -= a[i, known] * x[known]
        x[i] /= a[i, i]
    return x


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_infinity_and_nan_show_in_their_rows_alone(dtype, lower, adjoint):
    rng = np.random.default_rng(7)
    with tf.Graph().as_default(), tf.Session() as session:
        matrix, rhs = tf.placeholder(dtype), tf.placeholder(dtype)
        solve = session.make_callable(
            tf.linalg.triangular_solve(matrix, rhs, lower=lower, adjoint=adjoint), [matrix, rhs])
        for n, i, j, special in ((50, 10, 3, np.inf), (50, 33, 33, np.inf), (80, 40, 35, np.nan),
                                 (100, 99, 98, -np.inf), (100, 64, 64, np.nan), (70, 5, 5, np.nan)):
            a = (numbers(rng, (n, n), dtype) / n + 2 * np.eye(n)).astype(dtype)
            b = numbers(rng, (n, 20), dtype).astype(dtype)
            where = (i, j) if lower else (j, i)
            a[where] = special
            a[where[::-1]] = special        # the other triangle counts for nothing
            b[n // 3, 4] = np.inf
            with np.errstate(all="ignore"):
                wanted = np.isfinite(row_by_row(np.tril(a) if lower else np.triu(a), b, lower,
                                                adjoint))
            found = np.isfinite(solve(a, b))
            assert (found == wanted).all(), (n, i, j, special, np.argwhere(found != wanted)[:3])


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_batches_broadcast_and_threads_change_no_bits(dtype):
    rng = np.random.default_rng(3)
    a = (numbers(rng, (3, 1, 90, 90), dtype) / 90 + np.eye(90)).astype(dtype)
    b = numbers(rng, (2, 90, 150), dtype).astype(dtype)
    results = []
    for threads in (1, 2):
        with tf.Graph().as_default(), tf.Session(threads=threads) as session:
            x = session.run(tf.linalg.triangular_solve(tf.placeholder_with_default(a, a.shape), b))
        results.append(x)
    assert x.shape == (3, 2, 90, 150) and results[0].tobytes() == results[1].tobytes()
    np.testing.assert_allclose(np.tril(a) @ x, np.broadcast_to(b, x.shape), atol=1e-4)


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
