"""The newcomer's door: what pyflow is, in tests short enough to read in five minutes.

Read it from top to bottom; the folders beside it test the same things thoroughly.
"""
import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_a_graph_is_built_then_run():
    x = tf.placeholder(tf.float32, [None, 2])       # a symbol: it has a type and a shape, no value
    y = tf.matmul(x, tf.constant([[1.0], [2.0]]))   # a node that will compute one
    assert y.shape.as_list() == [None, 1] and y.op.type == "MatMul"
    with tf.Session() as sess:
        assert sess.run(y, {x: [[3, 4]]}) == [[11.0]]


def test_only_what_is_asked_for_runs():
    ran = []
    loud = tf.py_func(lambda: ran.append(1) or np.float32(1), [], tf.float32)
    with tf.Session() as sess:
        sess.run(tf.constant(2.0))
        assert ran == []
        sess.run(loud)
        assert ran == [1]


def test_variables_keep_their_value_between_steps():
    counter = tf.Variable(0)
    count = counter.assign_add(1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert [sess.run(count) for _ in range(3)] == [1, 2, 3]


def test_gradients_are_nodes_too():
    x = tf.placeholder(tf.float32, [])
    [slope] = tf.gradients(x * x, [x])
    with tf.Session() as sess:
        assert sess.run(slope, {x: 3}) == 6


def test_branches_and_loops_are_part_of_the_graph():
    x = tf.placeholder(tf.int32, [])
    steps = tf.while_loop(                          # Collatz
        lambda n, steps: n > 1,
        lambda n, steps: (tf.cond(n % 2 > 0, lambda: 3 * n + 1, lambda: n // 2), steps + 1),
        [x, tf.constant(0)])[1]
    with tf.Session() as sess:
        assert sess.run(steps, {x: 27}) == 111


def test_a_line_is_learned():
    x = np.linspace(-1, 1, 50, dtype=np.float32)
    w, b = tf.Variable(0.0), tf.Variable(0.0)
    loss = tf.reduce_mean(tf.square(w * x + b - (2 * x + 1)))
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(50):
            sess.run(step)
        np.testing.assert_allclose(sess.run([w, b]), [2, 1], atol=1e-3)


def test_a_graph_is_data(graph):
    tf.multiply(tf.placeholder(tf.float32, name="x"), 2.0, name="y")
    data = graph.as_graph_def().SerializeToString()
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.import_graph_def(tf.GraphDef.FromString(data), name="again")
        assert sess.run("again/y:0", {"again/x:0": 21}) == 42


def test_errors_say_where_and_what():
    x = tf.placeholder(tf.float32, [None], name="x")
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        sess.run(tf.reshape(x, [2, 2], name="square"), {x: [1, 2, 3]})
    assert "Reshape node 'square' made at" in str(caught.value) and __file__ in str(caught.value)
