"""tf.contrib.opt's optimizers outside the graph, by one written here and by what SciPy is asked."""
import sys
import types

import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def a_graph():
    with tf.Graph().as_default():
        yield


class Descent(tf.contrib.opt.ExternalOptimizerInterface):
    """Steps down the gradient, within bounds."""

    def _minimize(self, initial_val, loss_grad_func, packed_bounds, step_callback,
                  optimizer_kwargs, **asked):
        self.asked, x = asked, initial_val
        for _ in range(optimizer_kwargs["steps"]):
            _, slope = loss_grad_func(x)
            x = x - 0.5 * slope
            if packed_bounds:
                x = np.clip(x, *np.transpose(packed_bounds))
            step_callback(x)
        return x


def model():
    a = tf.get_variable("a", initializer=[1.0, 2.0])
    b = tf.get_variable("b", initializer=[[3.0], [4.0]], use_resource=True)
    goal = tf.placeholder(tf.float32, [])
    return a, b, goal, tf.reduce_sum((a - goal) ** 2) / 2 + tf.reduce_sum((b - 1.0) ** 2) / 2


def test_variables_are_packed_fed_and_assigned():
    a, b, goal, loss = model()
    optimizer = Descent(loss, steps=2, var_to_bounds={b: (2.5, [[3.0], [3.5]])})
    steps, losses = [], []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        optimizer.minimize(sess, feed_dict={goal: 5.0}, fetches=[loss, a],
                           step_callback=steps.append,
                           loss_callback=lambda value, at: losses.append((value, at.tolist())))
        np.testing.assert_allclose(sess.run(a), [4.0, 4.25])        # 1, 3, 4 and 2, 3.5, 4.25
        np.testing.assert_allclose(sess.run(b), [[2.5], [2.5]])     # 3, 2.5 and 4, 2.5
    np.testing.assert_allclose(steps, [[3.0, 3.5, 2.5, 2.5], [4.0, 4.25, 2.5, 2.5]])
    assert [at for _, at in losses] == [[1.0, 2.0], [3.0, 3.5]]     # the points asked about
    np.testing.assert_allclose([value for value, _ in losses], [19.0, 5.375])


def test_constraints_are_asked_row_by_row():
    a, b, goal, loss = model()
    optimizer = Descent(loss, [a], equalities=[a * a], inequalities=[tf.reduce_sum(a)], steps=0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        optimizer.minimize(sess, feed_dict={goal: 0.0})
        at = np.array([3.0, 4.0], np.float32)
        assert [f(at) for f in optimizer.asked["equality_funcs"]] == [9.0, 16.0]
        assert [f(at).tolist() for f in optimizer.asked["equality_grad_funcs"]] == [[6, 0], [0, 8]]
        assert optimizer.asked["inequality_funcs"][0](at) == 7.0
        assert optimizer.asked["inequality_grad_funcs"][0](at).tolist() == [1.0, 1.0]


def test_what_scipy_is_asked(monkeypatch):
    seen = {}

    def minimize(function, start, **arguments):
        seen.update(arguments, start=start, first=function(start))
        return {"x": start * 0 + 7}
    scipy = types.ModuleType("scipy")
    scipy.optimize = types.SimpleNamespace(minimize=minimize)
    monkeypatch.setitem(sys.modules, "scipy", scipy)
    monkeypatch.setitem(sys.modules, "scipy.optimize", scipy.optimize)
    a, b, goal, loss = model()
    make = tf.contrib.opt.ScipyOptimizerInterface
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        make(loss, [b], inequalities=[b], method="SLSQP", options={"maxiter": 3}).minimize(
            sess, feed_dict={goal: 1.0})
        assert sess.run(b).tolist() == [[7.0], [7.0]] and sess.run(a).tolist() == [1.0, 2.0]
        assert seen["method"] == "SLSQP" and seen["options"] == {"maxiter": 3} and seen["jac"]
        assert [c["type"] for c in seen["constraints"]] == ["ineq", "ineq"]
        assert seen["start"].tolist() == [3.0, 4.0] and seen["first"][0] == 7.0
        assert seen["first"][1].dtype == np.float64 and seen["first"][1].tolist() == [2.0, 3.0]
        make(loss).minimize(sess, feed_dict={goal: 1.0})
        assert seen["method"] == "L-BFGS-B" and seen["bounds"] is None
        for name, message in (("bounds", "var_to_bounds"), ("jac", "'jac' is set automatically")):
            with pytest.raises(ValueError, match=message):
                make(loss, **{name: 1}).minimize(sess, feed_dict={goal: 1.0})


def test_a_base_needs_a_way():
    a, b, goal, loss = model()
    with tf.Session() as sess, pytest.raises(NotImplementedError, match="implement _minimize"):
        sess.run(tf.global_variables_initializer())
        tf.contrib.opt.ExternalOptimizerInterface(loss).minimize(sess, feed_dict={goal: 1.0})
