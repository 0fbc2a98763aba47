"""MapDefun: a function of each row, its results stacked; answers by NumPy, what TF 2.21 refuses is
refused."""

import numpy as np
import pytest
from quiet import clock
from defining import defined

import pyflow as tf
from pyflow.python.framework import function


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def mapped(arguments, types, shapes, captured=(), f="f", **attrs):
    return tf.raw_ops.MapDefun(
        arguments=[tf.convert_to_tensor(a) for a in arguments],
        captured_inputs=[tf.convert_to_tensor(c) for c in captured], output_types=types,
        output_shapes=[tf.TensorShape(s) for s in shapes], f=f, **attrs)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_several_results_strings_and_captured_inputs(config, rows, threads):
    @defined(tf.float32, tf.string, tf.float32, tf.string)
    def f(x, s, scale, mark):
        return x * scale, tf.strings.join([s, mark]), tf.reduce_sum(x), tf.strings.split([s]).values
    x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    s = np.array([f"row {k} " + "long " * 9 for k in range(rows)], object)
    found = mapped([x, s], [tf.float32, tf.string, tf.float32, tf.string], [[2], [], [], [None]],
                   [np.float32(10), "!"])
    assert [t.shape.as_list() for t in found] == [[rows, 2], [rows], [rows], [rows, None]]
    with tf.Session(config=config, threads=threads) as session:
        for _ in range(2):
            a, b, c, d = session.run(found)
            np.testing.assert_array_equal(a, 10 * x)
            assert b.tolist() == [(t + "!").encode() for t in s]
            np.testing.assert_array_equal(c, x.sum(1))
            assert d.tolist() == [t.encode().split() for t in s]


@pytest.mark.parametrize("dtype", [tf.float64, tf.float16, tf.int8, tf.uint16, tf.int64, tf.bool,
                                   tf.complex64])
def test_element_types(dtype):
    defined(dtype)(lambda x: (tf.reverse(x, [1]), x[0]))
    x = (np.arange(24).reshape(4, 2, 3) % 5).astype(dtype.as_numpy_dtype)
    with tf.Session() as session:
        a, b = session.run(mapped([x], [dtype] * 2, [[2, 3], [3]]))
    np.testing.assert_array_equal(a, x[:, :, ::-1])
    np.testing.assert_array_equal(b, x[:, 0])
    assert a.dtype == b.dtype == x.dtype


def test_no_rows_and_rows_of_nothing(config):
    """Shapes are the attribute's; the function does not run."""
    defined(tf.float32)(lambda x: (x * 2.0, tf.as_string(x[0]), tf.check_numerics(x / 0.0, "ran")))
    types, shapes = [tf.float32, tf.string, tf.float32], [[3], [], [3]]
    defined(tf.float32, name="g")(lambda x: x + 1.0)
    with tf.Session(config=config) as session:
        a, b, c = session.run(mapped([np.zeros([0, 3], np.float32)], types, shapes))
        assert a.shape == c.shape == (0, 3) and b.shape == (0,) and b.dtype == object
        nothing, = session.run(mapped([np.zeros([5, 0], np.float32)], [tf.float32], [[0]], f="g"))
        assert nothing.shape == (5, 0)


def test_fed_arguments_of_unknown_shape(config):
    defined(tf.float32, tf.float32)(lambda x, y: x + y)
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    z, = mapped([x, y], [tf.float32], [None])
    with tf.Session(config=config) as session:
        for rows in (0, 1, 7):
            a, b = np.ones([rows, 2], np.float32), np.arange(rows, dtype=np.float32)
            if rows:
                np.testing.assert_array_equal(session.run(z, {x: a, y: b}), a + b[:, None])
        with pytest.raises(tf.errors.InvalidArgumentError, match="first dimension, of one size"):
            session.run(z, {x: np.ones([3, 2]), y: np.ones([2])})
        with pytest.raises(tf.errors.InvalidArgumentError, match="need a first dimension"):
            session.run(z, {x: 1.0, y: 1.0})


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_one_row(config, threads):
    """It names the row; the session goes on."""
    defined(tf.float32)(lambda x: tf.check_numerics(x, "bad", name="look"))
    x = tf.placeholder(tf.float32, [None, 2])
    y, = mapped([x], [tf.float32], [[2]])
    with tf.Session(config=config, threads=threads) as session:
        for rows, wrong in ((1, 0), (50, 17), (50, 49)):
            value = np.ones([rows, 2], np.float32)
            value[wrong, 1] = np.nan
            with pytest.raises(tf.errors.InvalidArgumentError,
                               match=rf"row {wrong}: in node 'f/look' \(op CheckNumerics\): bad"):
                session.run(y, {x: value})
            np.testing.assert_array_equal(session.run(y, {x: np.ones([rows, 2])}), np.ones([rows, 2]))


def test_results_that_do_not_fit(config):
    """Of different shapes; of others than the attribute says: as TF, where the node says so."""
    defined(tf.int32)(lambda n: tf.range(n))
    defined(tf.int32, name="ranks")(lambda n: tf.zeros(tf.ones([n], tf.int32)))
    n = tf.constant([2, 3])
    with tf.Session(config=config) as session:
        for f, dtype, shape, text in [
                ("f", tf.int32, [None], "have different shapes"),
                ("ranks", tf.float32, None, "different numbers of dimensions"),
                ("f", tf.int32, [4], r"result 0 .* shape \[(2|3)\], attribute output_shapes says \[4\]"),
                ("f", tf.int32, [None, 1], r"shape \[(2|3)\], attribute output_shapes says \[\?,1\]")]:
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                session.run(mapped([n], [dtype], [shape], f=f))


def test_wrong_functions(config):
    defined(tf.float32)(lambda x: x)
    x = np.ones([2, 3], np.float32)
    with tf.Session(config=config) as session:
        with pytest.raises(tf.errors.NotFoundError, match="nowhere"):
            session.run(mapped([x], [tf.float32], [[3]], f="nowhere"))
        with pytest.raises(tf.errors.InvalidArgumentError, match="arguments of types"):
            session.run(mapped([x, x], [tf.float32], [[3]]))
        with pytest.raises(tf.errors.InvalidArgumentError, match="results of types"):
            session.run(mapped([x], [tf.float64], [[3]]))


@pytest.mark.parametrize("threads", [1, 2])
def test_effects_loops_maps_and_recursion_inside(config, threads):
    """Each row once; the function may last, map itself, and call itself."""
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
    power = function.Declare("power", [("n", tf.int32), ("x", tf.float32)], [("y", tf.float32)])
    defined(tf.int32, tf.float32, name="power", out_names=["y"])(lambda n, x: tf.cond(
        n < 1, lambda: 1.0, lambda: x * power(n - 1, x)))
    defined(tf.float32, name="inner")(lambda x: tf.while_loop(
        lambda y: y < 100.0, lambda y: y * 2.0, [x]))

    @defined(tf.float32, tf.int32, tf.resource)
    def f(x, n, handle):
        tf.raw_ops.AssignAddVariableOp(resource=handle, value=1.0)
        return mapped([x], [tf.float32], [[]], f="inner")[0], power(n, 2.0)
    x = np.arange(1, 41, dtype=np.float32).reshape(20, 2)
    n = np.arange(20, dtype=np.int32) % 7
    found = mapped([x, n], [tf.float32] * 2, [[2], []], [v.handle])
    with tf.Session(config=config, threads=threads) as session:
        session.run(v.initializer)
        a, b = session.run(found)
        want = x.copy()
        while (want < 100).any():
            want[want < 100] *= 2
        np.testing.assert_array_equal(a, want)
        np.testing.assert_array_equal(b, 2.0 ** n)
        assert session.run(v) == 20.0


@pytest.mark.alone
def test_a_deadline_meets_rows_that_do_not_end(config):
    """Those under way end, the others do not begin, and the session goes on."""
    defined(tf.float32, tf.float32)(lambda x, most: tf.while_loop(
        lambda y: y < most, lambda y: y + 1.0, [x]))
    most = tf.placeholder(tf.float32, [])
    y, = mapped([np.arange(1000, dtype=np.float32)], [tf.float32], [[]], [most])
    with tf.Session(config=config, threads=2) as session:
        began = clock()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(y, {most: np.inf}, options=tf.RunOptions(timeout_in_ms=60))
        assert clock() - began < 1.0
        np.testing.assert_array_equal(session.run(y, {most: 5.0}), np.maximum(np.arange(1000), 5))
