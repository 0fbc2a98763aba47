"""What a step costs in Python.  Limits are generous against noise: the exact figures are `make
bench`'s."""
import time

import numpy as np
import pytest

import pyflow as tf


def best(function, count=2000, rounds=15):
    """Microseconds per call, best of several rounds."""
    found = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(count):
            function()
        found = min(found, time.perf_counter() - start)
    return found / count * 1e6


@pytest.fixture(scope="module")
def one_op():
    with tf.Graph().as_default() as graph:
        x, y = tf.placeholder(tf.float32, [10]), tf.placeholder(tf.float32, [10])
        z = tf.add(x, y)
        with tf.Session(graph=graph) as sess:
            yield sess, x, y, z, np.ones(10, np.float32)


def test_session_run_of_one_op(one_op):
    sess, x, y, z, a = one_op
    feed = {x: a, y: a}
    assert best(lambda: sess.run(z, feed)) < 5 * 1.5
    assert best(lambda: sess.run([z], feed)) < 10


def test_make_callable_of_one_op(one_op):
    sess, x, y, z, a = one_op
    call = sess.make_callable(z, [x, y])
    numpy_add = best(lambda: a + a)
    assert best(lambda: call(a, a)) < 2.5 * 1.5 * numpy_add + 0.1
