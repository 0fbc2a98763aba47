"""Gradients through singular vectors: complex matrices, full matrices that are not square.  The loss
does not depend on the vectors' phases; TensorFlow 2.21's answers, and central differences."""
import numpy as np
import pytest

import pyflow as tf

# (shape, complex): the first three elements of TensorFlow's gradient, full_matrices or not
TENSORFLOW = {
    ((3, 3), False): [47.77705306, -21.24713992, 6.76971483],
    ((4, 3), False): [47.98793002, -22.48355333, 8.51184722],
    ((3, 4), False): [40.93628341, -37.91424399, 21.85380173],
    ((3, 3), True): [119.4037035 - 64.17942601j, -42.02009912 + 87.26760236j,
                     -14.52506144 - 182.41428414j],
    ((4, 3), True): [61.85939004 + 7.94879698j, -11.12410942 - 30.47081879j,
                     11.88635985 + 63.8962374j],
    ((3, 4), True): [93.87417538 + 0.68049391j, -63.76692297 - 50.92084013j,
                     -10.50041097 + 112.01568599j],
}


def matrix(shape, is_complex):
    random = np.random.RandomState(1)
    a = random.randn(*shape)
    return a + 1j * random.randn(*shape) if is_complex else a


def graph(shape, dtype, full):
    """(fed matrix, loss, gradient) of sum |U S^2 V^H|^2 over the first vectors."""
    a = tf.placeholder(dtype, shape)
    s, u, v = tf.svd(a, full_matrices=full)
    k = min(shape)
    product = tf.matmul(u[..., :k] * tf.cast(tf.expand_dims(s * s, -2), a.dtype), v[..., :k],
                        adjoint_b=True)
    loss = tf.reduce_sum(tf.abs(product) ** 2)
    return a, loss, tf.gradients(loss, a)[0]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape, is_complex", TENSORFLOW)
def test_gradients_are_tensorflows_and_the_losss(shape, is_complex, full):
    value = matrix(shape, is_complex)
    with tf.Graph().as_default(), tf.Session() as sess:
        a, loss, gradient = graph(shape, tf.complex128 if is_complex else tf.float64, full)
        got = sess.run(gradient, {a: value})
        np.testing.assert_allclose(got.ravel()[:3], TENSORFLOW[shape, is_complex], rtol=1e-7)
        for axis in [1.0, 1j][:1 + is_complex]:
            step = np.zeros(shape, value.dtype)
            step[1, 2] = 1e-6 * axis
            slope = sess.run(loss, {a: value + step}) - sess.run(loss, {a: value - step})
            want = (got[1, 2] * np.conj(axis)).real
            np.testing.assert_allclose(slope / 2e-6, want, rtol=1e-5)


def test_the_last_vectors_of_full_matrices_count_too():
    """|<u_last, w>|^2 changes with the matrix, though u_last belongs to no singular value."""
    value = matrix((4, 3), True)
    w = np.array([[1.0], [2j], [-1.0], [0.5]])
    with tf.Graph().as_default(), tf.Session() as sess:
        a = tf.placeholder(tf.complex128, [4, 3])
        u = tf.svd(a, full_matrices=True)[1]
        loss = tf.reduce_sum(tf.abs(tf.matmul(u[:, 3:], tf.constant(w), adjoint_a=True)) ** 2)
        got = sess.run(tf.gradients(loss, a)[0], {a: value})
        for axis in (1.0, 1j):
            step = np.zeros((4, 3), complex)
            step[2, 1] = 1e-6 * axis
            slope = sess.run(loss, {a: value + step}) - sess.run(loss, {a: value - step})
            np.testing.assert_allclose(slope / 2e-6, (got[2, 1] * np.conj(axis)).real, rtol=1e-5,
                                       atol=1e-8)


@pytest.mark.parametrize("shape", [(5, 3), (None, 3)])
def test_sizes_that_differ_more_are_refused(shape):
    with tf.Graph().as_default():
        a = tf.placeholder(tf.float32, shape)
        loss = tf.reduce_sum(tf.svd(a, full_matrices=True)[1])
        with pytest.raises(ValueError, match="differ by at most one.*use full_matrices=False"):
            tf.gradients(loss, a)
