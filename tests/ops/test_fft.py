"""Fourier transforms: every kind of length, gradients against central differences, bad lengths."""
import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def fresh_graph():
    with tf.Graph().as_default():
        yield


def run(tensors, feeds=None):
    with tf.Session() as session:
        return session.run(tensors, feeds)


LENGTHS = [*range(1, 34), 36, 37, 49, 60, 64, 74, 97, 121, 128, 210, 1000, 1009, 1024, 2310]


def test_all_lengths_agree_with_numpy():
    """Powers of 2 and 4, small primes, primes above 31, their multiples; double and single."""
    rng = np.random.default_rng(1)
    for kind, limit in ((np.complex128, 1e-12), (np.complex64, 3e-5)):
        signals = [(rng.standard_normal((2, 3, n)) + 1j * rng.standard_normal((2, 3, n))).astype(
            kind) for n in LENGTHS]
        made = [[tf.fft(tf.constant(x)), tf.ifft(tf.constant(x)),
                 tf.spectral.rfft(tf.constant(x.real)),
                 tf.spectral.irfft(tf.constant(x), [x.shape[-1]])] for x in signals]
        for x, found in zip(signals, run(made)):
            n = x.shape[-1]
            wanted = [np.fft.fft(x), np.fft.ifft(x), np.fft.rfft(x.real), np.fft.irfft(x, n)]
            for got, want in zip(found, wanted):
                scale = max(1, np.abs(want).max())
                assert np.abs(got - want).max() <= limit * scale, f"length {n}"


CASES = {
    "fft": (lambda x, y: tf.fft(tf.complex(x, y)), (2, 6)),
    "ifft": (lambda x, y: tf.ifft(tf.complex(x, y)), (2, 5)),
    "fft2d": (lambda x, y: tf.fft2d(tf.complex(x, y)), (3, 4)),
    "ifft3d": (lambda x, y: tf.ifft3d(tf.complex(x, y)), (2, 3, 2)),
    "rfft": (lambda x, y: tf.spectral.rfft(x), (2, 7)),
    "rfft_cropped": (lambda x, y: tf.spectral.rfft(x, [4]), (2, 7)),
    "rfft_padded": (lambda x, y: tf.spectral.rfft(x, [9]), (2, 7)),
    "rfft2d": (lambda x, y: tf.spectral.rfft2d(x, [3, 4]), (4, 5)),
    "rfft3d": (lambda x, y: tf.spectral.rfft3d(x), (2, 3, 4)),
    "irfft": (lambda x, y: tf.spectral.irfft(tf.complex(x, y)), (2, 4)),
    "irfft_odd": (lambda x, y: tf.spectral.irfft(tf.complex(x, y), [5]), (2, 4)),
    "irfft2d": (lambda x, y: tf.spectral.irfft2d(tf.complex(x, y), [3, 6]), (3, 4)),
    "irfft3d": (lambda x, y: tf.spectral.irfft3d(tf.complex(x, y), [2, 3, 3]), (2, 3, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    """A real loss with different weights for real and imaginary parts."""
    build, shape = CASES[name]
    rng = np.random.default_rng(3)
    values = rng.standard_normal(shape), rng.standard_normal(shape)
    x, y = tf.placeholder(tf.float64, shape), tf.placeholder(tf.float64, shape)
    z = build(x, y)
    weight = np.cos(np.arange(int(np.prod(z.shape.as_list())))).reshape(z.shape.as_list())
    loss = tf.reduce_sum(tf.real(z) * weight)
    if z.dtype.is_complex:
        loss += tf.reduce_sum(tf.imag(z) * (1 + weight[..., ::-1]))
    inputs = [t for t in (x, y) if tf.gradients(loss, t)[0] is not None]
    found = tf.gradients(loss, inputs)
    with tf.Session() as session:
        grads = session.run(found, {x: values[0], y: values[1]})
        for k, grad in enumerate(grads):
            for at in np.ndindex(shape):
                moved = [[v.copy() for v in values] for _ in range(2)]
                moved[0][k][at] += 1e-6
                moved[1][k][at] -= 1e-6
                high, low = (session.run(loss, {x: m[0], y: m[1]}) for m in moved)
                np.testing.assert_allclose(grad[at], (high - low) / 2e-6, rtol=1e-6, atol=1e-7)


def test_unknown_shapes():
    x = tf.placeholder(tf.float32)
    x.set_shape([None, None])
    spectrum, back = tf.spectral.rfft(x), tf.spectral.irfft(tf.spectral.rfft(x))
    padded = tf.spectral.rfft(x, [10])
    value = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    found = run([spectrum, back, padded], {x: value})
    np.testing.assert_allclose(found[0], np.fft.rfft(value), atol=1e-5)
    np.testing.assert_allclose(found[1], value, atol=1e-6)
    np.testing.assert_allclose(found[2], np.fft.rfft(value, 10), atol=1e-5)


def test_bad_lengths_are_errors():
    x, n = tf.placeholder(tf.float32), tf.placeholder(tf.int32)
    with tf.Session() as session:
        y = tf.raw_ops.RFFT(input=x, fft_length=n)
        z = tf.raw_ops.IRFFT(input=tf.cast(x, tf.complex64), fft_length=n)
        for bad in ([-1], [9], [1, 1], 3, [2 ** 31 - 1]):
            for made in (y, z):
                with pytest.raises(tf.errors.InvalidArgumentError):
                    session.run(made, {x: np.ones((2, 4)), n: bad})
        assert session.run(y, {x: np.ones((2, 4)), n: [0]}).shape == (2, 0)
        assert session.run(z, {x: np.ones((2, 4)), n: [0]}).shape == (2, 0)
    with pytest.raises(ValueError, match="rank"):
        tf.fft(tf.complex(1.0, 2.0))
    with pytest.raises(TypeError, match="float32 or float64"):
        tf.spectral.rfft(tf.constant([1, 2]))
