"""Complex products beside NumPy in double: sizes on both sides of the way they take, transposed and
adjoint operands, batches, infinities."""
import numpy as np
import pytest

import pyflow as tf

SIZES = [(3, 5, 7), (8, 8, 8), (17, 33, 9), (100, 64, 50), (1, 40, 40), (40, 40, 1), (4, 0, 6),
         (130, 129, 131)]


def numbers(rng, shape, dtype):
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def multiply(a, b, **how):
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.placeholder(a.dtype, a.shape), tf.placeholder(b.dtype, b.shape)
        return session.run(tf.matmul(x, y, **how), {x: a, y: b})


@pytest.mark.parametrize("dtype, tolerance", [("complex64", 2e-6), ("complex128", 1e-14)])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("m, k, n", SIZES)
def test_sizes(m, k, n, batch, dtype, tolerance):
    rng = np.random.default_rng(m + k + n)
    for kind in ("transpose", "adjoint"):
        for ta, tb in ((0, 0), (0, 1), (1, 0), (1, 1)):
            a = numbers(rng, (*batch, *((k, m) if ta else (m, k))), dtype)
            b = numbers(rng, (*batch, *((n, k) if tb else (k, n))), dtype)
            got = multiply(a, b, **{f"{kind}_a": bool(ta), f"{kind}_b": bool(tb)})
            x, y = (np.swapaxes(v, -1, -2) if t else v for v, t in ((a, ta), (b, tb)))
            if kind == "adjoint":
                x, y = x.conj() if ta else x, y.conj() if tb else y
            want = x.astype(complex) @ y.astype(complex)
            assert got.shape == want.shape
            assert np.abs(got - want).max(initial=0) <= tolerance * (k + 1) ** 0.5 * 4


def test_a_batch_is_broadcast():
    rng = np.random.default_rng(1)
    a, b = numbers(rng, (2, 1, 20, 30), "complex64"), numbers(rng, (3, 30, 10), "complex64")
    np.testing.assert_allclose(multiply(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_what_is_not_finite_stays_in_its_row():
    a, b = np.ones((9, 9), "complex64"), np.ones((9, 9), "complex64")
    a[4, 2] = complex(np.inf, 0)
    y = multiply(a, b)
    assert not np.isfinite(y[4]).any()
    assert np.isfinite(np.delete(y, 4, 0)).all()
