"""Five networks trained here in a second or two, for what is written as ONNX.

    for net in NETS: graph, inputs, outputs, feeds, session = net()     # NETS: functions

A dense network and a convolutional one on the digits, an LSTM over their rows, an autoencoder, and
a transformer block over their rows.
"""
import csv
import gzip
import pathlib
from typing import NamedTuple

import numpy as np

import pyflow as tf

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data" / "digits.csv.gz"
STEPS = 60


class Net(NamedTuple):
    """A trained network: tensors, an array to feed, the session that holds its variables."""

    graph: object
    inputs: list
    outputs: list
    feed: np.ndarray
    session: object
    loss: tuple         # before and after the training


def digits():
    """(images [n, 64] in 0..1, labels [n])."""
    with gzip.open(DIGITS, "rt") as file:
        rows = np.array([[float(x) for x in row] for row in csv.reader(file) if row
                         and row[0].replace(".", "").isdigit()], np.float32)
    return rows[:, :64] / 16, rows[:, 64].astype(np.int64)


def _weights(rng, *shape):
    fan = int(np.prod(shape[:-1]))
    return tf.Variable((rng.standard_normal(shape) * np.sqrt(2 / fan)).astype(np.float32))


def _dense(rng, x, units, activation=None):
    y = tf.nn.bias_add(tf.matmul(x, _weights(rng, int(x.shape[-1]), units)),
                       tf.Variable(tf.zeros([units])))
    return activation(y) if activation is not None else y


def _trained(build, seed):
    """build(rng, x) -> (outputs, loss of them given labels)."""
    images, labels = digits()
    rng = np.random.default_rng(seed)
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, 64], name="x")
        wanted = tf.placeholder(tf.int64, [None], name="labels")
        outputs, loss = build(rng, x, wanted)
        step = tf.train.AdamOptimizer(0.005).minimize(loss)
        session = tf.Session(graph=graph)
        session.run(tf.global_variables_initializer())
        losses = []
        for i in range(STEPS):
            at = rng.integers(0, len(images), 64)
            _, value = session.run([step, loss], {x: images[at], wanted: labels[at]})
            losses.append(value)
    return Net(graph, [x], outputs, images[:5], session, (losses[0], losses[-1]))


def _classified(logits, labels):
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels,
                                                                         logits=logits))
    return [tf.nn.softmax(logits, name="y"), tf.argmax(logits, 1, name="digit")], loss


def mlp():
    """64 - 32 - 10, with batch statistics in between."""
    def build(rng, x, labels):
        h = _dense(rng, x, 32, tf.nn.relu)
        mean, variance = tf.nn.moments(h, [0])
        h = tf.nn.batch_normalization(h, mean, variance, None, None, 1e-3)
        return _classified(_dense(rng, h, 10), labels)
    return _trained(build, 1)


def convnet():
    """Two convolutions with pools, LeNet's way, channels last."""
    def build(rng, x, labels):
        h = tf.reshape(x, [-1, 8, 8, 1])
        for channels, last in ((8, 1), (16, 8)):
            h = tf.nn.conv2d(h, _weights(rng, 3, 3, last, channels), [1, 1, 1, 1], "SAME")
            h = tf.nn.relu(tf.nn.bias_add(h, tf.Variable(tf.zeros([channels]))))
            h = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        return _classified(_dense(rng, tf.reshape(h, [-1, 64]), 10), labels)
    return _trained(build, 2)


def recurrent():
    """An LSTM over the eight rows, by dynamic_rnn."""
    def build(rng, x, labels):
        rows = tf.reshape(x, [-1, 8, 8])
        cell = tf.nn.rnn_cell.LSTMCell(16, initializer=tf.random_uniform_initializer(
            -0.3, 0.3, seed=3))
        _, state = tf.nn.dynamic_rnn(cell, rows, dtype=tf.float32)
        return _classified(_dense(rng, state.h, 10), labels)
    return _trained(build, 3)


def autoencoder():
    """64 - 8 - 64; the decoder ends in a transposed convolution."""
    def build(rng, x, labels):
        code = _dense(rng, x, 8, tf.nn.tanh)
        h = tf.reshape(_dense(rng, code, 4 * 4 * 8, tf.nn.elu), [-1, 4, 4, 8])
        sizes = tf.stack([tf.shape(x)[0], 8, 8, 1])
        image = tf.nn.conv2d_transpose(h, _weights(rng, 3, 3, 1, 8), sizes, [1, 2, 2, 1])
        y = tf.sigmoid(tf.reshape(image, [-1, 64]), name="y")
        return [y, tf.identity(code, name="code")], tf.reduce_mean(tf.square(y - x))
    return _trained(build, 4)


def transformer():
    """One block of attention with two heads and a feed-forward part over the rows."""
    def build(rng, x, labels):
        rows = tf.reshape(x, [-1, 8, 8])
        h = tf.einsum("btd,de->bte", rows, _weights(rng, 8, 16)) + _weights(rng, 8, 16)
        q, k, v = (tf.transpose(tf.reshape(tf.einsum("btd,de->bte", h, _weights(rng, 16, 16)),
                                           [-1, 8, 2, 8]), [0, 2, 1, 3]) for _ in range(3))
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / np.float32(np.sqrt(8)))
        mixed = tf.reshape(tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3]), [-1, 8, 16])
        h = _normalized(h + mixed)
        inner = tf.einsum("btd,de->bte", h, _weights(rng, 16, 32))
        inner = inner * 0.5 * (1 + tf.erf(inner / np.float32(np.sqrt(2))))
        h = _normalized(h + tf.einsum("btd,de->bte", inner, _weights(rng, 32, 16)))
        return _classified(_dense(rng, tf.reduce_mean(h, 1), 10), labels)
    return _trained(build, 5)


def _normalized(x):
    mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
    return (x - mean) * tf.rsqrt(variance + 1e-5)


NETS = (mlp, convnet, recurrent, autoencoder, transformer)
