"""Second gradients: right, beside differences of the first, or an error that says why not."""
import numpy as np
import pytest

import pyflow as tf

X = np.random.RandomState(0).randn(4, 3)
IMAGES = np.random.RandomState(0).randn(2, 3, 3, 4)


def cross_entropy(labels, logits):
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)


def array_of(x):
    return tf.TensorArray(tf.float64, 4).unstack(x ** 2)


RIGHT = {
    "moments": (lambda x: tf.nn.moments(x, [0])[1] ** 2, X),
    "moments_kept": (lambda x: tf.nn.moments(x, [0, 1], keep_dims=True)[1] ** 2, X),
    "weighted_moments": (lambda x: tf.nn.weighted_moments(x, [0], tf.constant(X ** 2))[1] ** 2, X),
    "batch_normalization": (
        lambda x: tf.layers.batch_normalization(x, training=True, fused=False), X),
    "layer_norm": (lambda x: tf.contrib.layers.layer_norm(x), IMAGES),
    "instance_norm": (lambda x: tf.contrib.layers.instance_norm(x), IMAGES),
    "group_norm": (lambda x: tf.contrib.layers.group_norm(x, groups=2), IMAGES),
    "cross_entropy_of_logits": (lambda x: cross_entropy(tf.constant(np.full((4, 3), 1 / 3)), x), X),
    "cross_entropy_of_both": (lambda x: cross_entropy(tf.nn.softmax(x), 2.0 * x), X),
    "sparse_cross_entropy": (lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=[0, 1, 2, 0], logits=2.0 * x), X),
    "array_stacked": (lambda x: array_of(x).stack() ** 2, X),
    "array_read": (lambda x: array_of(x).read(1) ** 2, X),
    "array_gathered": (lambda x: array_of(x).gather([2, 0]) ** 2, X),
    "array_written": (lambda x: tf.TensorArray(tf.float64, 1).write(0, x ** 2).read(0) ** 2, X),
    "array_concat": (lambda x: tf.reshape(array_of(x).concat(), [12]) ** 2, X),
    "cond": (lambda x: tf.cond(x[0, 0] > 0, lambda: x ** 3, lambda: x ** 2), X),
    "function": (lambda x: tf.function(lambda z: z ** 3)(x), X),
}


def second_and_differences(function, at, step=1e-5):
    """(the gradient of the first gradient along a direction, central differences of the same)"""
    x = tf.placeholder(tf.float64, at.shape)
    y = function(x)
    weights = np.cos(np.arange(np.prod(y.shape.as_list())) + 1.0).reshape(y.shape.as_list())
    first = tf.convert_to_tensor(tf.gradients(y, x, grad_ys=tf.constant(weights))[0])
    direction = np.sin(np.arange(at.size) + 1.0).reshape(at.shape)
    second = tf.gradients(first, x, grad_ys=tf.constant(direction))[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        high, low = (session.run(first, {x: at + sign * step * direction}) for sign in (1, -1))
        # the second derivative is symmetric: along `direction` it is the change of the first
        return session.run(second, {x: at}), (high - low) / (2 * step)


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_right(name):
    with tf.Graph().as_default():
        second, expected = second_and_differences(*RIGHT[name])
    np.testing.assert_allclose(second, expected, rtol=1e-5, atol=1e-6)


def test_the_moments_of_an_imported_graph():
    """TensorFlow's graph has the stop_gradient, too."""
    with tf.Graph().as_default() as first:
        tf.nn.moments(tf.placeholder(tf.float64, [4, 3], "x"), [0])
    with tf.Graph().as_default():
        def imported(x):
            return tf.import_graph_def(first.as_graph_def(), {"x:0": x},
                                       ["moments/Squeeze_1:0"])[0] ** 2
        second, expected = second_and_differences(imported, X)
    np.testing.assert_allclose(second, expected, rtol=1e-5, atol=1e-6)


def test_what_the_program_stops_stays_stopped():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([1.0, 4.0])
        y = tf.squared_difference(x, tf.stop_gradient(tf.reduce_mean(x)))
        second = tf.gradients(tf.gradients(y, x)[0], x)[0]
        assert list(session.run(second)) == [2.0, 2.0]


LOOPS = {
    "scan": lambda x: tf.scan(lambda a, b: a * b, x),
    "map_fn": lambda x: tf.map_fn(lambda a: a ** 3, x),
    "foldl": lambda x: tf.foldl(lambda a, b: a * b, x),
    "squares": lambda x: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * a), (0, x)),
    "outside": lambda x: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), (0, x)),
    "linear": lambda x: tf.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), (0, x * x))[1] ** 2,
    "rnn": lambda x: tf.nn.dynamic_rnn(
        tf.nn.rnn_cell.BasicRNNCell(2), tf.reshape(x, [2, 2, 3]), dtype=tf.float64)[0],
    "in_a_function": lambda x: tf.function(LOOPS["squares"])(x),
}


@pytest.mark.parametrize("name", LOOPS)
def test_those_of_loops_are_refused(name):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, [4, 3])
        y = LOOPS[name](x)
        first = tf.gradients(y[-1] if isinstance(y, (tuple, list)) else y, x)[0]
        assert first is not None
        with pytest.raises(TypeError, match="Second-order gradient for while loops not supported"):
            tf.gradients(tf.reduce_sum(first ** 2), x)
        if name != "in_a_function":
            with pytest.raises(TypeError, match="Unroll the loop in Python"):
                tf.hessians(y[-1] if isinstance(y, (tuple, list)) else y, x)


def test_a_loop_without_a_second_gradient_has_none():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(2.0)
        y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), (0, x))[1]
        first = tf.gradients(y, x)[0]
        assert tf.gradients(first, x) == [None]
        # one loss after the other through one loop is no second gradient
        assert session.run([first, tf.gradients(y * y, x)[0]]) == [8.0, 256.0]


def test_hessians_through_arrays():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float64, [3])
        found = tf.hessians(array_of(tf.concat([x, x[:1]], 0)).stack() ** 2, x)[0]
        np.testing.assert_allclose(session.run(found, {x: [1.0, 2.0, 3.0]}),
                                   np.diag([24.0, 48.0, 108.0]))


def test_a_sweep_in_a_loop_through_an_array_outside_is_refused():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, [4])
        y = array_of(x).stack() ** 2
        with pytest.raises(ValueError, match="inside while loop .* through the TensorArray"):
            tf.while_loop(lambda i, a: i < 2,
                          lambda i, a: (i + 1, a + tf.gradients(y[i], x)[0]), (0, x))
