"""Functions that call themselves: values, gradients by recomputation, numerically checked, and an
end where there is none."""
import threading

import numpy as np
import pytest
from quiet import clock

import pyflow as tf
from pyflow.python.framework import function

SIZE = 3


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_factorial_and_its_gradient(config):
    """f(n, x) = x^n; and of two functions that call each other."""
    power = function.Declare("power", [("n", tf.int32), ("x", tf.float32)], [("y", tf.float32)])

    @function.Defun(tf.int32, tf.float32, func_name="power", out_names=["y"])
    def define(n, x):
        return tf.cond(n < 1, lambda: tf.ones_like(x), lambda: x * power(n - 1, x))
    x, n = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [])
    y = define(n, x)
    dx, = tf.gradients(y, x)
    with tf.Session(config=config) as session:
        for k in (0, 1, 2, 9):
            assert session.run([y, dx], {x: 2., n: k}) == [2. ** k, k * 2. ** max(k - 1, 0)]


def test_even_and_odd(config):
    odd = function.Declare("odd", [("n", tf.int32)], [("y", tf.bool)])

    @function.Defun(tf.int32, func_name="even", out_names=["y"])
    def even(n):
        return tf.cond(n < 1, lambda: tf.constant(True), lambda: odd(n - 1))

    @function.Defun(tf.int32, func_name="odd", out_names=["y"])
    def define(n):
        return tf.cond(n < 1, lambda: tf.constant(False), lambda: even(n - 1))
    define.add_to_graph(tf.get_default_graph())
    n = tf.placeholder(tf.int32, [])
    with tf.Session(config=config) as session:
        assert [session.run([even(n), define(n)], {n: k}) for k in (0, 1, 6)] == [
            [True, False], [False, True], [True, False]]


# ------------------------------------------------------------------------- a recursive tree-LSTM


class TreeLstm:
    """An N-ary tree-LSTM (Tai, Socher, Manning 2015), bottom up by recursion over the nodes of a
    tree given as tables: left and right child (-1: a leaf) and the word of each leaf."""

    def __init__(self):
        rng = np.random.RandomState(3)
        self.words = tf.constant(rng.randn(4, SIZE), tf.float64, name="words")
        self.weights = tf.constant(rng.randn(2 * SIZE, 5 * SIZE) * .5, tf.float64, name="weights")
        self.bias = tf.constant(rng.randn(5 * SIZE) * .1, tf.float64, name="bias")
        self.tree = tf.placeholder(tf.int32, [None, 3], name="tree")
        floats = [(name, tf.float64) for name in ("words", "weights", "bias")]
        again = function.Declare("tree_lstm", [("i", tf.int32), ("tree", tf.int32), *floats],
                                 [("state", tf.float64)])

        @function.Defun(tf.int32, tf.int32, tf.float64, tf.float64, tf.float64,
                        func_name="tree_lstm", out_names=["state"])
        def lstm(i, tree, words, weights, bias):
            left, right, word = tf.unstack(tree[i], 3)

            def leaf():
                return tf.concat([tf.tanh(words[word]), words[word]], 0)

            def inner():
                states = [tf.split(again(k, tree, words, weights, bias), 2) for k in (left, right)]
                h = tf.concat([h for h, _ in states], 0)
                gates = tf.split(tf.squeeze(tf.matmul(h[tf.newaxis], weights), 0) + bias, 5)
                c = tf.sigmoid(gates[0]) * tf.tanh(gates[1])
                for (_, below), forget in zip(states, gates[2:4]):
                    c += tf.sigmoid(forget) * below
                return tf.concat([tf.sigmoid(gates[4]) * tf.tanh(c), c], 0)
            return tf.cond(left < 0, leaf, inner)
        self.parameters = [self.words, self.weights, self.bias]
        self.state = lstm(0, self.tree, *self.parameters)
        self.loss = tf.reduce_sum(self.state * np.linspace(-1, 1, 2 * SIZE))


TREES = {"leaf": [[-1, -1, 2]],
         "pair": [[1, 2, 0], [-1, -1, 0], [-1, -1, 3]],
         "deep": [[1, 6, 0], [2, 5, 0], [3, 4, 0], [-1, -1, 0], [-1, -1, 1], [-1, -1, 2],
                  [7, 8, 0], [-1, -1, 3], [-1, -1, 0]]}


@pytest.mark.parametrize("name", TREES)
def test_tree_lstm(name, config):
    """The gradients of all parameters against central differences."""
    net = TreeLstm()
    gradients = tf.gradients(net.loss, net.parameters)
    with tf.Session(config=config) as session:
        feeds = {net.tree: TREES[name]}
        start, found = session.run([net.parameters, gradients], feeds)
        for parameter, value, gradient in zip(net.parameters, start, found):
            numeric = np.zeros_like(value)
            for at in np.ndindex(*value.shape):
                if name == "deep" and value.size > 30 and sum(at) % 5:
                    numeric[at] = gradient[at]          # a fifth of the weights
                    continue
                sides = []
                for step in (1e-6, -1e-6):
                    moved = value.copy()
                    moved[at] += step
                    sides.append(session.run(net.loss, {**feeds, parameter: moved}))
                numeric[at] = (sides[0] - sides[1]) / 2e-6
            np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-9)
        assert name == "leaf" or all(np.abs(g).max() > 1e-3 for g in found)


def test_written_and_read_again(graph, config):
    """A recursive function's gradient, too, is in the library."""
    net = TreeLstm()
    fetches = [net.loss, *tf.gradients(net.loss, net.parameters)]
    feeds = {net.tree.name: TREES["deep"]}
    with tf.Session(config=config) as session:
        wanted = session.run(fetches, feeds)
    with tf.Graph().as_default():
        names = [t.name for t in fetches]
        tf.import_graph_def(graph.as_graph_def(), name="")
        with tf.Session(config=config) as session:
            for value, want in zip(session.run(names, feeds), wanted, strict=True):
                np.testing.assert_array_equal(value, want)


@pytest.mark.parametrize("milliseconds", [20, 100, 250, 5000])
def test_recursion_without_an_end(config, milliseconds):
    """Wherever the deadline meets it, on the way down or while it unwinds from the depth that is
    allowed, it ends soon: the keeper once looked at every one of 65,536 steps for each (57 s)."""
    endless = function.Declare("endless", [("x", tf.float32)], [("y", tf.float32)])
    function.Defun(tf.float32, func_name="endless", out_names=["y"])(
        lambda x: endless(x + 1.) * 2.).add_to_graph(tf.get_default_graph())
    y = endless(0.)
    with tf.Session(config=config) as session:
        began = clock()
        with pytest.raises((tf.errors.DeadlineExceededError, tf.errors.ResourceExhaustedError)):
            session.run(y, options=tf.RunOptions(timeout_in_ms=milliseconds))
        assert clock() - began < 20
        assert session.run(tf.constant(1.) + 1.) == 2.


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("how", ["deadline", "close"])
def test_a_loop_without_an_end_in_a_function(config, how, threads):
    """Its step is another than the one that is timed: whoever runs it looks at that, too."""
    @function.Defun(tf.float32, noinline=True)
    def f(x):
        return tf.while_loop(lambda y: y < np.inf, lambda y: y * 0.5, [x])
    session = tf.Session(config=config, threads=threads)
    began = clock()
    if how == "close":
        threading.Timer(0.05, session.close).start()
    with pytest.raises((tf.errors.DeadlineExceededError, tf.errors.CancelledError)):
        session.run(f(1.), options=tf.RunOptions(timeout_in_ms=50 if how == "deadline" else 10000))
    assert clock() - began < 2
    session.close()
