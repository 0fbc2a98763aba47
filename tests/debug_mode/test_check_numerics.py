"""Session(check_numerics=True): NaN and Inf are errors that name the op they come from, with its
line and inputs; in loops, branches, gradients, optimisers and asynchronous kernels, on one thread
and on several, and op by op.
"""
import numpy as np
import pytest

import pyflow as tf

BAD = tf.errors.InvalidArgumentError
MODES = {"one thread": dict(threads=1, check_numerics=True),
         "threads": dict(threads=4, check_numerics=True),
         "op by op": dict(debug=True)}


@pytest.fixture(params=MODES)
def checking(request):
    return lambda: tf.Session(**MODES[request.param])


def blamed(session, fetches, feeds=None):
    """(op type, op name, message) of the op that a run is refused for."""
    with pytest.raises(BAD, match="check_numerics") as caught:
        session.run(fetches, feeds)
    return caught.value.op.type, caught.value.op.name, caught.value.message


def test_the_first_op_is_named_with_its_line_and_inputs(checking, line_of):
    x = tf.placeholder(tf.float32, [2, 3], name="x")
    y = tf.sqrt(x, name="root")  # root
    z = tf.reduce_sum(tf.exp(y) * 2.0)
    with checking() as session:
        assert np.isfinite(session.run(z, {x: np.ones((2, 3))}))
        kind, name, text = blamed(session, z, {x: np.float32([[1, 4, 9], [16, -1, -3]])})
    assert (kind, name) == ("Sqrt", "root")
    assert f"{__file__}:{line_of('root')}" in text
    assert "float[2,3] holds 2 NaN and 0 Inf, the first at [1,1]" in text
    assert "from -3 to 16" in text


def test_infinity_is_named_too(checking):
    x = tf.placeholder(tf.float32, [2], name="x")
    with checking() as session:
        kind, _, text = blamed(session, 1.0 / x, {x: np.float32([1, 0])})
    assert kind in ("RealDiv", "Div") and "0 NaN and 1 Inf, the first at [1]" in text


@pytest.mark.parametrize("back_prop_through", ["inline", "slabs"])
def test_inside_a_while_body(checking, back_prop_through, line_of):
    def body(i, a):
        if back_prop_through == "slabs":
            a = tf.py_func(lambda v: v, [a], tf.float32)
            a.set_shape(())
        return i + 1, tf.log(a - 1.0, name="shrink")  # body
    out = tf.while_loop(lambda i, a: i < 9, body, [0, tf.placeholder_with_default(8.0, ())])[1]
    with checking() as session:
        kind, name, text = blamed(session, out * 2.0)
    assert (kind, name) == ("Log", "while/shrink")
    assert "iteration 2 of while loop 'while/" in text          # 8, 1.95, -0.05
    assert f"{__file__}:{line_of('body')}" in text


def test_inside_the_branch_of_a_cond_that_runs(checking):
    p = tf.placeholder(tf.bool, ())
    x = tf.placeholder(tf.float32, ())
    y = tf.cond(p, lambda: tf.log(x, name="one"), lambda: tf.asin(x, name="other"))
    with checking() as session:
        assert session.run(y, {p: True, x: 5.0}) == pytest.approx(np.log(5.0))
        assert blamed(session, y, {p: False, x: 5.0})[:2] == ("Asin", "cond/other")
        assert blamed(session, y, {p: True, x: -5.0})[:2] == ("Log", "cond/one")


@pytest.mark.parametrize("resource", [False, True])
def test_inside_an_optimizers_slot(checking, resource):
    """The gradient is finite; its square overflows in Adam's second moment, `v`."""
    w = tf.get_variable("w", initializer=np.float32([1, 2]), use_resource=resource)
    g = tf.placeholder(tf.float32, [2])
    train = tf.train.AdamOptimizer(0.1).apply_gradients([(g * 1.0, w)])
    with checking() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {g: [1, 2]})
        kind, _, text = blamed(session, train, {g: [1, 1e30]})
    assert kind == ("ResourceApplyAdam" if resource else "ApplyAdam")
    assert "the new value of variable 'w/Adam_1'" in text and "0 NaN and 1 Inf" in text


@pytest.mark.parametrize("resource", [False, True])
def test_a_variable_updated_in_place(checking, resource):
    w = tf.get_variable("w", initializer=np.full(1000, 3e38, np.float32), use_resource=resource)
    grow = tf.scatter_add(w, [7], [3e38])
    with checking() as session:
        session.run(tf.global_variables_initializer())
        kind, _, text = blamed(session, grow)
    assert kind == ("ResourceScatterAdd" if resource else "ScatterAdd")
    assert "variable 'w'" in text and "the first at [7]" in text


def test_a_gradient_names_its_forward_op(checking, line_of):
    """d sqrt(x)/dx at 0 is infinite, sqrt(0) is not."""
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.reduce_sum(tf.sqrt(x, name="root"))  # forward
    [dx] = tf.gradients(y, [x])  # gradient
    with checking() as session:
        kind, _, text = blamed(session, dx, {x: np.float32([4, 0])})
    assert kind == "SqrtGrad"
    assert f"made at {__file__}:{line_of('gradient')}" in text
    assert f"gradient of 'root' (Sqrt), made at {__file__}:{line_of('forward')}" in text


def test_where_it_enters(checking):
    """A fed NaN, a variable that held NaN before: named themselves.  Constants and fed Inf are
    taken as meant."""
    x = tf.placeholder(tf.float32, [2], name="x")
    w = tf.get_variable("w", initializer=np.float32([1, 2]), use_resource=True)
    setup = tf.assign(w, tf.constant(np.float32([1, np.nan]))).op
    masked = tf.nn.softmax(x + tf.constant(np.float32([0, -np.inf])))
    with checking() as session:
        kind, name, text = blamed(session, x + 1.0, {x: np.float32([1, np.nan])})
        assert (kind, name) == ("Placeholder", "x") and "the value fed float[2] holds 1 NaN" in text
        np.testing.assert_allclose(session.run(masked, {x: [1, 2]}), [1, 0])
        falling = session.run(tf.exp(-x), {x: [1, np.inf]})
        np.testing.assert_allclose(falling, [np.exp(-1), 0], rtol=1e-6)
        assert blamed(session, x - x, {x: [1, np.inf]})[0] == "Sub"
        session.run(setup)
        kind, _, text = blamed(session, w + 1.0)
        assert kind == "ReadVariableOp" and "variable 'w' held NaN before this op" in text


@pytest.mark.parametrize("dtype", "float16 bfloat16 float32 float64 complex64 complex128".split())
def test_every_floating_point_type(dtype):
    x = tf.placeholder(dtype, [3], name="x")
    y = tf.identity(x) / x
    with tf.Session(check_numerics=True) as session:
        session.run(y, {x: np.ones(3)})
        assert "the first at [2]" in blamed(session, y, {x: np.array([1, 2, 0])})[2]


def test_an_asynchronous_kernel_is_checked(checking):
    x = tf.placeholder(tf.float32, (), name="x")
    y = tf.py_func(lambda v: np.float32(np.nan if v > 1 else v), [x], tf.float32, name="python")
    with checking() as session:
        assert session.run(y * 2.0, {x: 1.0}) == 2.0
        assert blamed(session, y * 2.0, {x: 2.0})[:2] == ("PyFunc", "python")


def test_values_and_variables_are_those_of_an_unchecked_session():
    def train(**options):
        with tf.Graph().as_default():
            tf.set_random_seed(7)
            w = tf.get_variable("w", [8, 8], use_resource=True)
            b = tf.get_variable("b", [8])
            x = tf.random_normal([4, 8], seed=3)
            loss = tf.reduce_mean(tf.square(tf.nn.relu(tf.matmul(x, w) + b) - 1.0))
            step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
            with tf.Session(**options) as session:
                session.run(tf.global_variables_initializer())
                losses = [session.run([loss, step])[0] for _ in range(8)]
                return losses, session.run([w, b])
    losses, weights = train(threads=1)
    for options in MODES.values():
        checked, values = train(**options)
        np.testing.assert_allclose(checked, losses, rtol=1e-5)
        for a, b in zip(values, weights):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_the_environment_asks_for_it(monkeypatch):
    monkeypatch.setenv("PYFLOW_CHECK_NUMERICS", "1")
    x = tf.placeholder(tf.float32, ())
    with tf.Session() as session:
        blamed(session, tf.log(x), {x: -1.0})
    with tf.Session(check_numerics=False) as session:
        assert np.isnan(session.run(tf.log(x), {x: -1.0}))


def test_callables_and_partial_runs_are_checked_too():
    x = tf.placeholder(tf.float32, (), name="x")
    y = tf.log(x)
    with tf.Session(check_numerics=True) as session:
        call = session.make_callable(y, [x])
        assert call(np.float32(1)) == 0
        with pytest.raises(BAD, match="check_numerics"):
            call(np.float32(-1))
        handle = session.partial_run_setup([y], [x])
        with pytest.raises(BAD, match="check_numerics"):
            session.partial_run(handle, y, {x: -1.0})
