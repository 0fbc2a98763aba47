"""Print, Assert, numerics checks and py_func, in steps, loops and branches."""
import numpy as np
import pytest

import pyflow as tf


@pytest.fixture
def session():
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as s:
        yield s


# ---------------------------------------------------------------------------------------------
# Print


def test_print_goes_to_stderr_and_passes_its_input_on(session, capfd):
    x = tf.constant([1.0, 2.0, 3.0, 4.0])
    y = tf.Print(x, [x, tf.constant(7)], "values: ", summarize=2)
    assert session.run(y).tolist() == [1.0, 2.0, 3.0, 4.0]
    out, err = capfd.readouterr()
    assert "values: [1 2...][7]" in err and not out


def test_print_first_n(session, capfd):
    y = tf.Print(tf.constant(1.0), [tf.constant(5)], "n ", first_n=2)
    for _ in range(4):
        session.run(y)
    assert capfd.readouterr().err.count("n [5]") == 2


def test_print_in_a_loop_and_its_gradient(session, capfd):
    x = tf.constant(2.0)
    y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.Print(y * x, [i], "turn ")),
                      [0, 1.0])[1]
    assert session.run([y, tf.gradients(y, x)[0]]) == [8.0, 12.0]
    assert capfd.readouterr().err.count("turn [") == 3


# --------------------------------------------------------------------------------------------
# Assert


def test_assert_stops_the_step_and_shows_the_data(session):
    x = tf.placeholder(tf.float32, [3], name="x")
    with tf.control_dependencies([tf.Assert(tf.reduce_all(x > 0), ["not positive:", x])]):
        y = tf.identity(x)
    assert session.run(y, {x: [1, 2, 3]}).tolist() == [1, 2, 3]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed: \[not "
                                                             r"positive:\] \[1 -2 3\]"):
        session.run(y, {x: [1, -2, 3]})


FAILING = {
    "assert_equal": lambda x: tf.assert_equal(x, [1.0, 2.0, 4.0]),
    "assert_none_equal": lambda x: tf.assert_none_equal(x, 2.0),
    "assert_less": lambda x: tf.assert_less(x, 3.0),
    "assert_less_equal": lambda x: tf.assert_less_equal(x, 2.0),
    "assert_greater": lambda x: tf.assert_greater(x, 1.0),
    "assert_greater_equal": lambda x: tf.assert_greater_equal(x, 2.0),
    "assert_negative": tf.assert_negative,
    "assert_non_positive": tf.assert_non_positive,
    "assert_positive": lambda x: tf.assert_positive(x - 1.0),
    "assert_non_negative": lambda x: tf.assert_non_negative(x - 2.0),
    "assert_near": lambda x: tf.assert_near(x, [1.0, 2.0, 3.1]),
    "assert_rank": lambda x: tf.assert_rank(unknown(x), 2),
    "assert_rank_at_least": lambda x: tf.assert_rank_at_least(unknown(x), 2),
    "assert_rank_in": lambda x: tf.assert_rank_in(unknown(x), [0, 2]),
}


def unknown(x):
    """x, its shape known in the step only."""
    return tf.placeholder_with_default(x, None)


@pytest.mark.parametrize("name", sorted(FAILING))
def test_assert_family_fails_in_the_step(session, name):
    x = tf.placeholder(tf.float32, [3], name="x")
    check = FAILING[name](x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
        session.run(check, {x: [1, 2, 3]})


def test_assert_family_messages(session):
    x = tf.placeholder(tf.float32, [3], name="x")
    check = tf.assert_less(x, 3.0, message="too large")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"too large.*x \(x:0\) = \] \[1 2 "
                                                             r"3\]"):
        session.run(check, {x: [1, 2, 3]})


def test_assert_near_tolerances(session):
    x = tf.placeholder(tf.float32, [2], name="x")
    session.run(tf.assert_near(x, [1.0, 2.1], atol=0.2), {x: [1, 2]})
    session.run(tf.assert_near(x, [1.0, 2.1], rtol=0.1), {x: [1, 2]})


def test_order_predicates(session):
    results = session.run([tf.is_non_decreasing([1, 1, 2]), tf.is_non_decreasing([2, 1]),
                           tf.is_strictly_increasing([1, 2, 3]), tf.is_strictly_increasing([1, 1])])
    assert results == [True, False, True, False]


# ------------------------------------------------------------------------------------------
# numerics


def test_verify_and_add_check_numerics(session):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.log(x, name="log")
    checks = tf.add_check_numerics_ops()
    verified = tf.verify_tensor_all_finite(y, "not finite")
    session.run([checks, verified], {x: [1, 2]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="log:0"):
        session.run(checks, {x: [1, -2]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="not finite"):
        session.run(verified, {x: [1, 0]})


def test_add_check_numerics_refuses_loops():
    with tf.Graph().as_default():
        tf.while_loop(lambda x: x < 3.0, lambda x: x + 1.0, [0.0])
        with pytest.raises(ValueError, match="not compatible with TensorFlow control flow"):
            tf.add_check_numerics_ops()


# -------------------------------------------------------------------------------------------
# py_func


def test_py_func_results(session):
    x = tf.placeholder(tf.float32, [2])
    one = tf.py_func(lambda a: a * 2, [x], tf.float32)
    two = tf.py_func(lambda a: (a.sum(), np.int64(3)), [x], [tf.float32, tf.int64])
    text = tf.py_func(lambda a: np.array([b"a", b"bc"], object), [x], tf.string)
    assert one.shape.ndims is None and isinstance(two, list)
    one, two, text = session.run([one, two, text], {x: [1, 2]})
    assert one.tolist() == [2, 4] and two == [3, 3] and text.tolist() == [b"a", b"bc"]


def test_py_func_without_results_is_an_operation(session):
    seen = []
    call = tf.py_func(seen.append, [tf.constant(3)], [], name="call")
    assert isinstance(call, tf.Operation) and call.name == "call"
    assert session.run(call) is None and seen == [3]


def test_py_func_errors_name_function_and_line(session):
    def divide(a):
        return int(a) // 0
    with pytest.raises(TypeError, match="callable"):
        tf.py_func(3, [1], tf.int32)
    x = tf.constant(1)
    cases = [(divide, "ZeroDivisionError"), (lambda a: np.float64(a), "declares int32"),
             (lambda a: (a, a), "returns 2 values")]
    for function, text in cases:
        with pytest.raises(tf.errors.OpError, match=text) as caught:
            session.run(tf.py_func(function, [x], tf.int32, name="mine"))
        assert "mine" in str(caught.value) and "test_side_effects.py" in str(caught.value)


def test_py_func_in_loop_and_branch(session):
    p = tf.placeholder(tf.bool, [])
    calls = []

    def add(k):
        calls.append(int(k))
        return np.int32(k + 1)
    total = tf.while_loop(lambda i: i < 3, lambda i: tf.py_func(add, [i], tf.int32), [0],
                          shape_invariants=[tf.TensorShape(None)])
    chosen = tf.cond(p, lambda: tf.py_func(add, [total], tf.int32), lambda: total * 100)
    assert session.run(chosen, {p: True}) == 4 and calls == [0, 1, 2, 3]
    assert session.run(chosen, {p: False}) == 300


def test_py_func_may_call_session_run(session):
    inner = tf.constant(5.0) * 2.0
    assert session.run(tf.py_func(lambda: session.run(inner), [], tf.float32)) == 10.0


def test_py_func_with_its_own_gradient(session):
    @tf.RegisterGradient("SinhGradient")
    def gradient(op, dy):
        return dy * tf.py_func(np.cosh, [op.inputs[0]], tf.float32)
    x = tf.constant([0.5, 1.0])
    with tf.get_default_graph().gradient_override_map({"PyFunc": "SinhGradient"}):
        y = tf.py_func(np.sinh, [x], tf.float32)
    np.testing.assert_allclose(session.run(tf.gradients(y, x)[0]), np.cosh([0.5, 1.0]), rtol=1e-6)


# --------------------------------------------------------------------------------------------
# stacks


def test_stack_ops(session):
    from pyflow.ops.containers import stack_ops
    handle = stack_ops.StackV2(2, elem_type=tf.float32)
    first = stack_ops.StackPushV2(handle, 1.0)
    with tf.control_dependencies([first]):
        second = stack_ops.StackPushV2(handle, 2.0)
    with tf.control_dependencies([second]):
        top = stack_ops.StackPopV2(handle, elem_type=tf.float32)
    with tf.control_dependencies([top]):
        below = stack_ops.StackPopV2(handle, elem_type=tf.float32)
    assert session.run([top, below]) == [2.0, 1.0]
    with tf.control_dependencies([below]):
        empty = stack_ops.StackPopV2(handle, elem_type=tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.run(empty)
