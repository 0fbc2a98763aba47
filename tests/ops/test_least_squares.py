"""MatrixSolveLs of sizes that go to the library and that do not, against NumPy in double."""
import numpy as np
import pytest

import pyflow as tf


def run(a, b, l2):
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.placeholder(a.dtype, a.shape), tf.placeholder(b.dtype, b.shape)
        return session.run(tf.linalg.lstsq(x, y, l2_regularizer=l2), {x: a, y: b})


@pytest.mark.parametrize("l2", (0.0, 0.3))
@pytest.mark.parametrize("dtype", (np.float32, np.float64, np.complex64, np.complex128))
@pytest.mark.parametrize("size", ((200, 50, 4), (40, 20, 3), (20, 40, 3), (33, 17, 0), (16, 16, 5),
                                  (50, 200, 4), (8, 5, 2), (5, 8, 2)))
def test_normal_equations(size, dtype, l2):
    m, n, k = size
    random = np.random.default_rng(m)
    a, b = random.standard_normal((2, m, n)), random.standard_normal((2, m, k))
    if np.issubdtype(dtype, np.complexfloating):
        a, b = a + 1j * random.standard_normal(a.shape), b + 1j * random.standard_normal(b.shape)
    a, b = a.astype(dtype), b.astype(dtype)
    wide, right = a.astype(np.complex128), b.astype(np.complex128)
    adjoint = np.conj(np.swapaxes(wide, 1, 2))
    if m >= n:
        wanted = np.linalg.solve(adjoint @ wide + l2 * np.eye(n), adjoint @ right)
    else:
        wanted = adjoint @ np.linalg.solve(wide @ adjoint + l2 * np.eye(m), right)
    limit = (1e-6 if np.finfo(dtype).eps > 1e-10 else 1e-9) * np.abs(wanted).max(initial=0)
    np.testing.assert_allclose(run(a, b, l2), wanted, rtol=0, atol=limit)


@pytest.mark.parametrize("size", ((40, 20), (20, 40), (6, 4)))
@pytest.mark.parametrize("value", (0.0, np.nan))
def test_what_is_not_positive_definite_is_an_error(size, value):
    with pytest.raises(tf.errors.InvalidArgumentError, match="rank deficient"):
        run(np.full(size, value, np.float32), np.ones((size[0], 2), np.float32), 0.0)
