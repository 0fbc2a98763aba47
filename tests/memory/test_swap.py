"""Swapping to the host on a device with memory of its own, the fake accelerator."""
import contextlib

import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor
from pyflow.framework.memory_scopes import swap_scope


def _deep(scope, layers=24, size=128):
    """Gradient of a deep network on FAKE:0."""
    x = tf.placeholder(tf.float32, [size, size])
    with tf.device("/device:FAKE:0"):
        y = x
        for _ in range(layers):
            with scope():
                y = tf.tanh(y * 1.25)
        return x, tf.gradients(y, x, [x])[0]


def _run(scope, value, limit):
    """The gradient, computed with at most `limit` bytes on the device."""
    with tf.Graph().as_default():
        x, slope = _deep(scope)
        config = tf.ConfigProto(allow_soft_placement=True)
        with tf.Session(config=config) as session:
            _executor.device_limit("FAKE", 0, limit)
            try:
                return [np.array(session.run(slope, {x: value})) for _ in range(5)]
            finally:
                _executor.device_limit("FAKE", 0, 0)


def test_swapping_makes_it_fit(fake):
    """24 values of 64 KB wait for the gradients; with 12 of them on the device it fits only if the
    others are on the host."""
    value = np.random.RandomState(0).rand(128, 128).astype(np.float32)
    (want, *_), limit = _run(contextlib.nullcontext, value, 0), 12 * 65536
    with pytest.raises(tf.errors.ResourceExhaustedError, match="FAKE:0"):
        _run(contextlib.nullcontext, value, limit)
    for got in _run(swap_scope, value, limit):
        np.testing.assert_array_equal(got, want)


def test_marks_do_nothing_on_cpus():
    from pyflow.passes import node, swap

    x = tf.placeholder(tf.float32, [64, 64])
    with swap_scope():
        y = tf.tanh(x)
    graph = node.prune([tf.gradients(y, x)[0]], [], [x])
    for n in graph.nodes:
        n.device = "/job:localhost/replica:0/task:0/device:CPU:0"
    assert swap.swap(graph) == 0
