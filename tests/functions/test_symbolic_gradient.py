"""SymbolicGradient, the op that names a function: the gradients of its arguments."""
import numpy as np
import pytest
from defining import defined

import pyflow as tf
from pyflow.python.framework import function


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def symbolic(inputs, types, f="f", **options):
    inputs = [tf.convert_to_tensor(x) for x in inputs]
    return tf.raw_ops.SymbolicGradient(input=inputs, Tout=types, f=f, **options)


def test_values(config):
    """TF 2.21's answers: sum(x x y) at x = [1, 2], y = [3, 4], dy = 2."""
    defined(tf.float32, tf.float32)(lambda x, y: tf.reduce_sum(x * x * y))
    with tf.Session(config=config) as session:
        dx, dy = session.run(symbolic([[1.0, 2.0], [3.0, 4.0], 2.0], [tf.float32] * 2))
    assert dx.tolist() == [12.0, 32.0] and dy.tolist() == [2.0, 8.0]


def test_zeros_for_what_has_no_gradient(config):
    """An argument that no result depends on, TF 2.21's answer; an integer; several results."""
    defined(tf.float32, tf.float32)(lambda x, y: x * 2.0)
    defined(tf.float32, tf.int32, name="g")(
        lambda x, n: (tf.gather(x, n), tf.cast(n, tf.float32) * 2.0))
    with tf.Session(config=config) as session:
        dx, dy = session.run(symbolic([[1.0, 2.0], [3.0, 4.0], [2.0, 3.0]], [tf.float32] * 2))
        assert dx.tolist() == [4.0, 6.0] and dy.tolist() == [0.0, 0.0]
        dx, dn = session.run(symbolic([[1.0, 2.0, 3.0], [0, 2], [5.0, 6.0], [7.0, 7.0]],
                                      [tf.float32, tf.int32], "g"))
        assert dx.tolist() == [5.0, 0.0, 6.0] and dn.tolist() == [0, 0] and dn.dtype == np.int32


def test_loops_calls_and_recursion_inside(config):
    """Against tf.gradients of the call, and differences."""
    power = function.Declare("power", [("n", tf.int32), ("x", tf.float64)], [("y", tf.float64)])
    define = defined(tf.int32, tf.float64, name="power", out_names=["y"])(lambda n, x: tf.cond(
        n < 1, lambda: tf.ones_like(x), lambda: tf.sin(x) * power(n - 1, x)))

    @defined(tf.float64, tf.int32)
    def f(x, n):
        _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(y * x)), [0, x])
        return y + power(n, x)
    x, dy = tf.constant([0.4, -1.2], tf.float64), tf.constant([1.0, 3.0], tf.float64)
    at = tf.placeholder(tf.float64, [2])
    dx, _ = symbolic([x, 3, dy], [tf.float64, tf.int32])
    want, = tf.gradients(f(x, 3), x, dy)
    value = f(at, 3)
    with tf.Session(config=config) as session:
        found, same, start = session.run([dx, want, x])
        np.testing.assert_array_equal(found, same)
        sides = [session.run(value, {at: start + step}) for step in (1e-6, -1e-6)]
        np.testing.assert_allclose(found, (sides[0] - sides[1]) / 2e-6 * [1.0, 3.0], 1e-7)
    assert define.name == "power"


def test_the_programs_own_gradient_is_called(config):
    own = defined(tf.float32, tf.float32, name="own")(lambda x, dy: dy * 100.0)
    function.Defun(tf.float32, func_name="f", grad_func=own)(lambda x: x * 2.0).add_to_graph(
        tf.get_default_graph())
    with tf.Session(config=config) as session:
        assert session.run(symbolic([1.0, 3.0], [tf.float32])) == [300.0]


def test_who_waits_for_it_and_where_it_stands(config):
    """In a branch, in a loop, with control edges from and to it."""
    defined(tf.float32)(lambda x: x * x)
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: symbolic([3.0, 1.0], [tf.float32])[0], lambda: 0.0)
    _, z = tf.while_loop(lambda i, x: i < 3, lambda i, x: (
        i + 1, symbolic([x, 1.0], [tf.float32])[0]), [0, 1.0],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])
    with tf.control_dependencies([v.assign_add(1.0)]):
        d, = symbolic([5.0, 1.0], [tf.float32])
    with tf.control_dependencies([d.op]):
        after = v.read_value()
    with tf.Session(config=config) as session:
        session.run(v.initializer)
        assert session.run([y, z], {p: True}) == [6.0, 8.0]
        assert session.run(y, {p: False}) == 0.0
        assert [session.run(after) for _ in range(2)] == [1.0, 2.0]


def test_written_and_read_again(graph, config):
    defined(tf.float32)(lambda x: tf.sin(x) * x)
    d, = symbolic([[0.5, 2.0], [1.0, 1.0]], [tf.float32], name="d")
    data = graph.as_graph_def()
    want = np.cos([0.5, 2.0]) * [0.5, 2.0] + np.sin([0.5, 2.0])
    with tf.Graph().as_default():
        d, = tf.import_graph_def(data, return_elements=["d:0"], name="")
        with tf.Session(config=config) as session:
            np.testing.assert_allclose(session.run(d), want, 1e-6)


def test_what_is_refused(config):
    defined(tf.float32)(lambda x: x * 2.0)
    defined(tf.float32, name="none")(lambda x: tf.raw_ops.Bitcast(input=x, type=tf.float32))
    with tf.Session(config=config) as session:
        for inputs, types, f, error, text in [
                ([1.0, 1.0], [tf.float32], "nowhere", tf.errors.NotFoundError, "'here' calls .*'nowhere'"),
                ([1.0], [tf.float32], "f", tf.errors.InvalidArgumentError, r"'here\w*' .*1 inputs and 1 outputs"),
                ([1, 1.0], [tf.int32], "f", tf.errors.InvalidArgumentError, "types"),
                ([1.0, 1.0], [tf.float32], "none", LookupError, "Bitcast")]:
            with pytest.raises(error, match=text):
                session.run(symbolic(inputs, types, f, name="here"))
