"""Common subexpressions: what is merged, what never is, and that it takes linear time."""
import time

import numpy as np
import pytest

import pyflow as tf
import rewriting
from pyflow.passes import cse


def test_golden():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        a = tf.add(tf.square(x), 1.0, name="a")
        b = tf.add(tf.square(x), 1.0, name="b")
        with tf.control_dependencies([a]):
            late = tf.square(x, name="late")
        sums = [tf.reduce_sum(x, 0), tf.reduce_sum(x, 1), tf.reduce_sum(x, 1, keepdims=True)]
        product = tf.multiply(a, b, name="product")
        rewriting.check_golden("cse", rewriting.pruned([product, late, *sums], [x]),
                               cse.merge_equal)


def test_golden_of_a_conditional():
    with tf.Graph().as_default():
        x, p = tf.placeholder(tf.float32, [], name="x"), tf.placeholder(tf.bool, [], name="p")
        y = tf.cond(p, lambda: tf.square(x) + tf.square(x), lambda: tf.square(x) - 1.0)
        rewriting.check_golden("cse_cond", rewriting.pruned([y], [x, p]), cse.merge_equal)
        for value in (True, False):
            found, wanted = rewriting.both(y, {x: 3.0, p: value})
            assert found == wanted == (18 if value else 8)


def merged(*fetches, feeds=(), targets=()):
    return cse.merge_equal(rewriting.pruned(fetches, feeds, targets))


def test_what_draws_writes_or_calls_is_never_merged():
    calls = []

    def note(x):
        calls.append(float(x))
        return x
    with tf.Graph().as_default():
        x = tf.constant(1.0)
        v = tf.Variable(0.0)
        draws = [tf.random_uniform([], seed=3) for _ in range(2)]
        notes = [tf.py_func(note, [x], tf.float32) for _ in range(2)]
        adds = [tf.assign_add(v, 1.0) for _ in range(2)]
        graph = rewriting.pruned([*draws, *notes, *adds])
        cse.merge_equal(graph)
        kinds = rewriting.ops(graph)
        for op in ("RandomUniform", "PyFunc", "AssignAdd"):
            assert kinds.count(op) == 2, op
        with rewriting.session() as sess:
            sess.run(v.initializer)
            sess.run([*draws, *notes, *adds])
            assert sess.run(v) == 2 and calls == [1, 1]


def test_reads_of_a_variable_are_apart():
    with tf.Graph().as_default():
        for resource in (False, True):
            v = tf.Variable([1.0, 2.0], use_resource=resource)
            first = tf.multiply(v.read_value() if resource else v._ref(), 1.5)
            with tf.control_dependencies([first]):
                write = tf.assign_add(v, [1.0, 1.0])
            with tf.control_dependencies([write if not resource else write.op]):
                second = tf.multiply(v.read_value() if resource else v._ref(), 1.5)
            with rewriting.session() as sess:
                sess.run(v.initializer)
                a, b = sess.run([first, second])
                assert list(a) == [1.5, 3] and list(b) == [3, 4.5]


def test_constants_are_compared_bit_by_bit():
    with tf.Graph().as_default():
        def consts(*values):
            return [tf.negative(tf.constant(v)) for v in values]
        assert merged(*consts(0.0, -0.0)) == 0
        assert merged(*consts(np.float32(2), np.float32(2))) == 2
        assert merged(*consts(np.float32(2), np.int32(2))) == 0
        assert merged(*consts(np.zeros((1, 2)), np.zeros((2, 1)))) == 0
        texts = [tf.string_join([tf.constant(t)]) for t in ("a", "a", "b")]
        assert merged(*texts) == 2


def test_attributes_control_inputs_and_devices_count():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 4])
        assert merged(tf.matmul(x, x), tf.matmul(x, x, transpose_a=True), feeds=[x]) == 0
        a = tf.nn.leaky_relu(x, 0.1)
        assert merged(a, tf.nn.leaky_relu(x, 0.2), tf.nn.leaky_relu(x, 0.1), feeds=[x]) >= 1
        with tf.device("/cpu:1"):
            far = tf.square(x)
        assert merged(far, tf.square(x), feeds=[x]) == 0


def test_fetches_of_merged_nodes_are_each_the_users():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3000])
        a, b = tf.square(x), tf.square(x)
        with rewriting.session() as sess:
            found = sess.run([a, b], {x: np.full(3000, 2.0)})
            assert found[0][0] == found[1][0] == 4


@pytest.mark.alone
def test_time_grows_with_the_graph():
    """Equal nodes, and nodes that share a key but not their attributes: four times the nodes take
    about four times as long, not sixteen."""
    def seconds(n):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [None, 4])
            nodes = [tf.nn.leaky_relu(x, i) if i % 2 else tf.square(x) for i in range(n)]
            best = 1e9
            for _ in range(3):
                graph = rewriting.pruned(nodes, [x])
                start = time.process_time()
                cse.merge_equal(graph)
                best = min(best, time.process_time() - start)
        return best
    assert seconds(8000) < 10 * seconds(2000)
