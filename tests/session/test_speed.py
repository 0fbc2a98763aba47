"""What a step costs in Python.  Limits are generous against noise: the exact figures are `make
bench`'s."""
import time

import numpy as np
import pytest
from quiet import clock

import pyflow as tf

pytestmark = pytest.mark.alone


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


def test_big_feeds_are_not_copied(one_op):
    """80 MB in, a scalar out: also read-only and sliced arrays; a copy alone would take over 10
    ms."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 1000])
        y = tf.shape(x)
        with tf.Session(graph=graph) as sess:
            whole = np.zeros((20_000, 1000), np.float32)
            frozen = whole.view()
            frozen.setflags(write=False)
            for value in (whole, frozen, whole[100:19_000]):
                feed = {x: value}
                assert best(lambda: sess.run(y, feed), 5, 5) < 1000


def test_big_constants_cost_nothing_to_run():
    """A constant of 80 MB is handed to the plan, not copied into a GraphDef."""
    with tf.Graph().as_default() as graph:
        big = tf.constant(np.zeros((20_000, 1000), np.float32))
        y = tf.shape(tf.identity(big))
        with tf.Session(graph=graph) as sess:
            start = clock()
            sess.run(y)
            assert clock() - start < 0.5
            assert best(lambda: sess.run(y), 5, 5) < 1000
