"""Square roots and logarithms of matrices, principal values: TensorFlow 1.15.5's, and what undoes
them, with eigenvalues on the negative axis, where the values jump."""
import numpy as np
import pytest

import pyflow as tf


def run(function, a, dtype=np.complex128):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(function(np.array(a, dtype)))


@pytest.mark.parametrize("function, a, wanted", [
    (tf.linalg.sqrtm, [[-4, 0], [0, 9]], [[2j, 0], [0, 3]]),
    (tf.linalg.sqrtm, [[-1, 1], [0, -1]], [[1j, -.5j], [0, 1j]]),
    (tf.linalg.sqrtm, [[4, 1], [0, 0]], [[2, .5], [0, 0]]),
    (tf.linalg.sqrtm, [[1j, 2], [3, -4j]], [[0.12132 - 0.12132j, 0.58579 + 0.58579j],
                                            [0.87868 + 0.87868j, 1.58579 - 1.58579j]]),
    (tf.linalg.logm, [[-1, .2], [.1, 2]], [[0.00815 + 3.13466j, 0.04579 - 0.20851j],
                                           [0.02289 - 0.10426j, 0.69494 + 0.00694j]]),
    (tf.linalg.logm, [[-1, 0], [0, -1]], [[np.pi * 1j, 0], [0, np.pi * 1j]]),
    (tf.linalg.logm, [[-1, 1], [0, -1]], [[np.pi * 1j, -1], [0, np.pi * 1j]]),
    (tf.linalg.logm, [[0, -1], [1, 0]], [[0, -np.pi / 2], [np.pi / 2, 0]])])
def test_recorded_values(function, a, wanted):
    np.testing.assert_allclose(run(function, a), wanted, atol=1e-5)


def test_no_value_is_nan():
    for function, a, dtype in ((tf.linalg.sqrtm, [[-4, 0], [0, 9]], np.float64),
                               (tf.linalg.sqrtm, [[0, 1], [0, 0]], np.complex64),
                               (tf.linalg.sqrtm, [[np.nan, 1], [0, 1]], np.float32),
                               (tf.linalg.logm, [[0, 0], [0, 1]], np.complex64),
                               (tf.linalg.logm, [[np.inf, 1], [0, 1]], np.complex128)):
        assert np.isnan(run(function, a, dtype)).all(), (function, a)


@pytest.mark.parametrize("n", [1, 2, 5, 20, 40])
def test_they_are_undone(n):
    rng = np.random.default_rng(n)
    general = rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))
    for a in (general, general.real, general + general.conj().T, np.linalg.qr(general)[0],
              general @ general.conj().T):
        root, log = run(tf.linalg.sqrtm, a), run(tf.linalg.logm, a)
        size = np.abs(a).max()
        np.testing.assert_allclose(root @ root / size, a / size, atol=1e-11)
        assert np.linalg.eigvals(root).real.min() > -1e-9
        np.testing.assert_allclose(run(tf.linalg.expm, log) / size, a / size, atol=1e-10)
        assert np.abs(np.linalg.eigvals(log).imag).max() <= np.pi + 1e-9
