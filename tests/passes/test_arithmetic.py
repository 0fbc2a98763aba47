"""Arithmetic simplification: each rule against its golden file, and its value with NaN, inf, -0."""
import numpy as np
import pytest

import pyflow as tf
import rewriting
from pyflow.passes import arithmetic

SPECIAL = np.array([[0.0, -0.0, 1.5, -2.25, np.nan], [np.inf, -np.inf, 1e-30, -3e38, 7]],
                   np.float32)
WHOLE = np.array([[0, 1, -1, 2**31 - 1, -2**31], [5, -7, 100, 3, 2]], np.int32)
CASES = {}


def case(data, ulps=0):
    def register(build):
        CASES[build.__name__] = (build, data, ulps)
        return build
    return register


@case(SPECIAL)
def identity_chain(x):
    return tf.identity(tf.stop_gradient(tf.identity(x))) * x


@case(SPECIAL)
def multiply_by_one(x):
    return 1.0 * (x * 1.0) - x * np.ones((2, 5), np.float32)


@case(SPECIAL)
def multiply_by_zero_stays(x):
    return x * 0.0


@case(SPECIAL)
def add_zero_of_floats_stays(x):
    return 1.0 / (x + 0.0)


@case(SPECIAL)
def neutral_zeros(x):
    return 1.0 / ((x - 0.0) + tf.constant(-0.0))


@case(WHOLE)
def integers(x):
    return ((x + 0) * 1 - 0 + 5) + 7


@case(SPECIAL)
def divide_by_one(x):
    return tf.divide(x, 1.0)


@case(SPECIAL)
def a_constant_that_widens_stays(x):
    return tf.reshape(x, [10, 1]) * tf.ones([1, 3])


@case(SPECIAL, ulps=2)
def power(x):
    return tf.pow(x, 2.0) + tf.pow(x, 1.0) - tf.pow(x, -1.0)


@case(SPECIAL)
def roots_stay(x):
    return tf.pow(x, 0.5)


@case(SPECIAL)
def double_negation(x):
    return tf.negative(tf.negative(x))


@case(np.array([1.5, -3.0, 7e5, 1e-20], np.float32), ulps=2)
def double_reciprocal(x):
    return tf.reciprocal(tf.reciprocal(x))


@case(np.array([1.5, -0.0, 7e5, np.nan, np.inf], np.float32), ulps=2)
def product_of_constants(x):
    return (2.5 * (x * 3.3)) * 7.0


@case(SPECIAL)
def product_that_overflows_stays(x):
    return (x * 1e30) * 1e30


@case(np.array([True, False]))
def double_not(x):
    return tf.logical_not(tf.logical_not(x))


@case(WHOLE)
def casts(x):
    wide = tf.cast(tf.cast(x, tf.float64), tf.int32)
    return tf.cast(tf.cast(tf.cast(wide, tf.int64), tf.float64), tf.float32)


@case(SPECIAL)
def a_narrowing_cast_stays(x):
    return tf.cast(tf.cast(x, tf.float16), tf.float32)


@case(SPECIAL)
def reshapes(x):
    return tf.reshape(tf.reshape(tf.reshape(x, [10]), [5, 2]), [2, 5]), tf.reshape(
        tf.reshape(x, [10]), [5, 1, 2])


@case(SPECIAL)
def squeeze_of_expand_dims(x):
    unknown = tf.placeholder_with_default(x, [None, 5])
    return tf.squeeze(tf.expand_dims(unknown, 1), [1]), tf.squeeze(tf.expand_dims(x, 0), [0])


@case(SPECIAL)
def nothing_to_reduce_tile_or_pad(x):
    y = tf.reduce_sum(tf.tile(x, [1, 1]), axis=np.zeros(0, np.int32))
    return tf.pad(y, [[0, 0], [0, 0]])


@case(SPECIAL)
def transposes(x):
    twice = tf.transpose(tf.transpose(x, [1, 0]), [1, 0])
    return tf.transpose(twice, [0, 1])


@case(np.arange(6, dtype=np.float32).reshape(2, 3), ulps=4)
def transposes_into_matmul(x):
    y = tf.matmul(tf.transpose(x), tf.transpose(x), transpose_b=True)
    three = tf.reshape(x, [1, 2, 3])
    return y, tf.matmul(three, tf.transpose(three, [0, 2, 1]))


@case(SPECIAL)
def add_n_of_one(x):
    return tf.negative(tf.add_n([x]))


@case(SPECIAL)
def control_edges(x):
    y = tf.negative(x)
    with tf.control_dependencies([y, tf.constant(1.0)]):
        z = tf.abs(y)
    with tf.control_dependencies([tf.identity(y)]):
        return tf.square(z), tf.identity(y)


def within(found, wanted, ulps):
    for a, b in zip(found, wanted):
        assert a.dtype == b.dtype and a.shape == b.shape
        if a.dtype.kind != "f":
            np.testing.assert_array_equal(a, b)
            continue
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        if not ulps:
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(np.signbit(a)[~np.isnan(a)], np.signbit(b)[~np.isnan(b)])
        else:
            finite = np.isfinite(b)
            np.testing.assert_array_equal(a[~finite & ~np.isnan(a)], b[~finite & ~np.isnan(b)])
            np.testing.assert_array_max_ulp(a[finite], b[finite], ulps)


@pytest.mark.parametrize("name", CASES)
def test_rule(name):
    build, data, ulps = CASES[name]
    with tf.Graph().as_default():
        x = tf.placeholder(tf.as_dtype(data.dtype), data.shape, name="x")
        made = build(x)
        fetches = list(made) if isinstance(made, tuple) else [made]
        rewriting.check_golden(f"arithmetic_{name}", rewriting.pruned(fetches, [x]),
                               arithmetic.simplify)
        within(*rewriting.both(fetches, {x: data}), ulps)


def test_the_users_attributes_stay():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, 3])
        y = tf.matmul(tf.transpose(x), x)
        graph = rewriting.pruned([y], [x])
        counts = arithmetic.simplify(graph)
        assert counts == {"Transpose into MatMul": 1} and "Transpose" not in rewriting.ops(graph)
        assert y.op.get_attr("transpose_a") is False and y.op.inputs[0].op.type == "Transpose"


@pytest.mark.parametrize("copy", [
    lambda v: tf.raw_ops.Snapshot(input=v), lambda v: tf.subtract(v, 0.0),
    lambda v: tf.multiply(v, 1.0), lambda v: tf.negative(tf.negative(v)),
    lambda v: tf.transpose(tf.transpose([v], [1, 0]), [1, 0])[0]])
def test_a_read_of_a_variable_is_not_moved_behind_its_update(copy):
    """What computes before the update keeps its value, though a rule would have its reader read the
    variable itself.  (TensorFlow 2.21 answers the same.)"""
    with tf.Graph().as_default():
        v = tf.Variable([1.0, 2.0])
        before = copy(v.value())
        with tf.control_dependencies([before]):
            after = tf.assign(v, [5.0, 6.0])
        with tf.control_dependencies([after]):
            old, new = tf.square(before), tf.square(v)
        with rewriting.session() as sess:
            sess.run(v.initializer)
            old, new = sess.run([old, new])
    assert list(old) == [1, 4] and list(new) == [25, 36]


def test_a_transpose_before_an_update_is_not_read_by_a_product_behind_it():
    with tf.Graph().as_default():
        v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
        turned = tf.transpose(v, [1, 0])
        with tf.control_dependencies([turned]):
            update = tf.assign(v, tf.zeros([2, 2]))
        with tf.control_dependencies([update]):
            product = tf.matmul(turned, [[1.0, 0.0], [0.0, 1.0]])
        with rewriting.session() as sess:
            sess.run(v.initializer)
            assert sess.run(product).tolist() == [[1, 3], [2, 4]]


def test_a_pivot_of_a_conditional_stays():
    """A control edge from a Switch would hold for both branches."""
    with tf.Graph().as_default():
        p, v = tf.placeholder(tf.bool, []), tf.Variable(0.0)

        def count():
            with tf.control_dependencies([tf.assign_add(v, 1.0)]):
                return tf.identity(tf.constant(1.0))
        y = tf.cond(p, count, lambda: tf.constant(-1.0))
        with rewriting.session() as sess:
            sess.run(v.initializer)
            assert sess.run(y, {p: False}) == -1 and sess.run(v) == 0
            assert sess.run(y, {p: True}) == 1 and sess.run(v) == 1


def test_errors_name_the_surviving_node_and_its_line():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, None])
        bad = tf.matmul(tf.identity(x) * 1.0, tf.identity(x), name="bad")
        with rewriting.session() as sess:
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                sess.run(bad, {x: np.ones((2, 3))})
    assert caught.value.op is bad.op and "test_arithmetic.py" in str(caught.value)


def test_fetched_and_fed_tensors_in_a_chain():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2])
        a = tf.identity(x)
        b = a * 1.0
        c = tf.negative(b)
        with rewriting.session() as sess:
            fed = np.array([1, 2], np.float32)
            found = sess.run([a, b, c, x], {x: fed})
            found[0][0] = 9
            assert fed[0] == 1, "what was fed is the user's"
            assert list(sess.run(c, {b: [5.0, 6.0]})) == [-5, -6]
            assert list(sess.run(b, {a: [5.0, 6.0]})) == [5, 6]
