"""Training on the GPU gives the CPU's losses and weights: a small convnet and every optimizer."""
import pathlib
import sys

import numpy as np
import pytest

import pyflow as tf

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"

OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.05),
    "momentum": lambda: tf.train.MomentumOptimizer(0.02, 0.9, use_nesterov=True),
    "adam": lambda: tf.train.AdamOptimizer(0.003),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.002, centered=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.02),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.05, l1_regularization_strength=1e-3),
}


def convnet(x):
    """Convolution, pooling, dropout, a dense layer: the ops of the digits example."""
    def weights(name, shape):
        return tf.get_variable(
            name, shape, initializer=tf.truncated_normal_initializer(stddev=0.2, seed=3))

    x = tf.nn.relu(tf.nn.bias_add(
        tf.nn.conv2d(x, weights("w1", [3, 3, 1, 4]), strides=[1, 1, 1, 1], padding="SAME"),
        tf.get_variable("b1", [4], initializer=tf.zeros_initializer())))
    x = tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    x = tf.nn.conv2d(x, weights("w2", [3, 3, 4, 6]), strides=[1, 2, 2, 1], padding="SAME")
    x = tf.nn.avg_pool(tf.nn.elu(x), ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="VALID")
    x = tf.reshape(x, [-1, 6])
    x = tf.nn.dropout(x, 0.8, seed=5)
    return tf.matmul(x, weights("w3", [6, 5]))


def losses(device, make_optimizer, steps=8):
    rng = np.random.default_rng(0)
    images = rng.standard_normal((12, 8, 8, 1)).astype(np.float32)
    labels = rng.integers(0, 5, 12)
    with tf.Graph().as_default(), tf.device(device):
        tf.set_random_seed(1)
        x = tf.placeholder(tf.float32, [None, 8, 8, 1])
        y = tf.placeholder(tf.int64, [None])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=y, logits=convnet(x)))
        train = make_optimizer().minimize(loss)
        variables = tf.trainable_variables()
        config = tf.ConfigProto(allow_soft_placement=True)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            found = [session.run([loss, train], {x: images, y: labels})[0] for _ in range(steps)]
            return np.array(found), session.run(variables)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_equals_the_cpus(gpu, name):
    cpu, cpu_weights = losses("/device:CPU:0", OPTIMIZERS[name])
    found, weights = losses("/device:GPU:0", OPTIMIZERS[name])
    assert np.isfinite(cpu).all() and np.ptp(cpu) > 1e-3
    np.testing.assert_allclose(found, cpu, rtol=2e-3)
    for got, want in zip(weights, cpu_weights):
        np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-3)


def train_mnist(device, images, labels, steps):
    """Losses of training examples/models.py's convnet, and the trained model's logits."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        import models
    finally:
        sys.path.remove(str(EXAMPLES))
    with tf.Graph().as_default(), tf.device(device):
        tf.set_random_seed(4)
        x, y = tf.placeholder(tf.float32, [None, 28, 28, 1]), tf.placeholder(tf.int64, [None])
        logits = models.convnet(x, 1.0)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            session.run(tf.global_variables_initializer())
            feed = {x: images, y: labels}
            return [session.run([loss, train], feed)[0] for _ in range(steps)], \
                session.run(logits, feed)


def test_the_mnist_convnet_equals_the_cpus(gpu):
    """Real digits, three times as large as in the examples' data: MNIST's size."""
    table = np.loadtxt(EXAMPLES / "data" / "digits.csv.gz", delimiter=",", dtype=np.float32,
                       max_rows=64 if gpu else 4)
    images = np.kron(table[:, :64].reshape(-1, 8, 8) / 16, np.ones((1, 3, 3), np.float32))
    images = np.pad(images, ((0, 0), (2, 2), (2, 2)))[..., None]
    labels, steps = table[:, 64].astype(np.int64), 20 if gpu else 2
    cpu, cpu_logits = train_mnist("/device:CPU:0", images, labels, steps)
    found, logits = train_mnist("/device:GPU:0", images, labels, steps)
    assert cpu[-1] < cpu[0]
    np.testing.assert_allclose(found, cpu, rtol=2e-3)
    np.testing.assert_allclose(logits, cpu_logits, rtol=2e-2, atol=2e-3)


def test_shapes_counters_and_loops_stay_on_the_host(gpu):
    """int32 work of a loop on the GPU: sizes and the counter need no device."""
    with tf.Graph().as_default(), tf.device("/device:GPU:0"):
        x = tf.placeholder(tf.float32, [None])
        n = tf.size(x)
        _, total = tf.while_loop(lambda i, s: tf.less(i, n),
                                 lambda i, s: (i + 1, s * 0.5 + tf.gather(x, i)),
                                 (tf.constant(0), tf.constant(0.0)))
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            found = session.run(total, {x: [1.0, 2.0, 4.0]})
    assert found == pytest.approx(5.25)
