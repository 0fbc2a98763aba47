"""tf.switch_case and Case: values and gradients, beside nested tf.cond, NumPy and differences.

The same program is built twice, with tf.switch_case and with one tf.cond in another; both must give
the same values and gradients, in loops that save what a branch computed only when it was taken.
"""
import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def by_conds(index, functions):
    """What tf.switch_case means, in terms of tf.cond."""
    def from_branch(k):
        if k == len(functions) - 1:
            return functions[k]()
        return tf.cond(tf.equal(index, k), functions[k], lambda: from_branch(k + 1))
    return from_branch(0)


def loop(body, n, *start):
    return tf.while_loop(lambda i, *_: i < n, lambda i, *v: (i + 1, *body(i, *v)), [0, *start],
                         parallel_iterations=4)[1:]


# Programs: (x, choose) -> list of tensors; choose is tf.switch_case or by_conds.

def simple(x, choose):
    return loop(lambda i, y: [choose(i % 3, [lambda: tf.sin(y), lambda: y * y * x, lambda: y])],
                7, x)


def without_saving(x, choose):
    return loop(lambda i, y: [choose(i % 2, [lambda: 2.0 * y, lambda: -y])], 5, x)


def several_outputs(x, choose):
    """Three results, two used; one branch ignores y, another gives a constant."""
    def body(i, y, z):
        a, b, _ = choose((i * i) % 4, [
            lambda: [tf.exp(-y), z * y, y], lambda: [tf.ones_like(y), tf.tanh(z), z],
            lambda: [z, z + 1.0, y * y], lambda: [y + z, tf.zeros([2], tf.float64), z]])
        return a + 0.1 * z, b
    return loop(body, 6, x, 2.0 * x)


def nested(x, choose):
    def body(i, y):
        def inner():
            k = tf.cast(tf.reduce_sum(y) > 1.0, tf.int32) + i % 2
            return choose(k, [lambda: tf.sin(y) * x, lambda: y * y, lambda: tf.exp(-y) + inside()])

        def inside():
            return choose(i % 2, [lambda: y * x, lambda: tf.cos(y)])
        return [choose(i % 3, [inner, lambda: y / (1.0 + y * y), inner])]
    return loop(body, 8, x)


def in_cond(x, choose):
    def body(i, y):
        scaled = y * 0.9
        return [tf.cond(tf.reduce_sum(y) > 0.5,
                        lambda: choose(i % 3, [lambda: scaled * y, lambda: tf.sin(scaled),
                                               lambda: y - x]),
                        lambda: choose(i % 2, [lambda: y + x, lambda: y * y + 1.0]))]
    return loop(body, 8, x)


def cond_inside(x, choose):
    def body(i, y):
        def branch():
            z = y * y
            return tf.cond(i > 3, lambda: z * x, lambda: tf.sin(z))
        return [choose(i % 2, [branch, lambda: tf.cond(i > 2, lambda: y, lambda: 2.0 * y)])]
    return loop(body, 6, x)


def loop_inside(x, choose):
    def body(i, y):
        def branch():
            [z] = loop(lambda k, z: [choose(k % 2, [lambda: tf.sin(z) + y, lambda: z * y])], i, y)
            return z
        return [choose(i % 3, [branch, lambda: 0.5 * y, branch])]
    return loop(body, 5, x)


def loop_around(x, choose):
    def body(i, y):
        return loop(lambda k, z: [choose((i + k) % 3, [lambda: tf.sin(z * y), lambda: z + y * x,
                                                       lambda: z])], 3, y)
    return loop(body, 3, x)


def slices(x, choose):
    """Gradients that are IndexedSlices in one branch, tensors in another."""
    return loop(lambda i, y: [choose(i % 3, [lambda: tf.gather(x, [1, 0]) * y,
                                             lambda: tf.gather(y, [1, 1]), lambda: x + y])], 6, x)


def index_from_outside(x, choose):
    k = tf.cast(tf.reduce_sum(x), tf.int32)
    return loop(lambda i, y: [choose(k, [lambda: y, lambda: y * y, lambda: y * x])], 3, x)


PROGRAMS = [simple, without_saving, several_outputs, nested, in_cond, cond_inside,
            loop_inside, loop_around, slices, index_from_outside]
X = np.float64([0.7, 1.4])


def built(program, choose, static):
    """(x, what the program gives, its gradient)."""
    x = tf.placeholder(tf.float64, [2] if static else None)
    results = program(x, choose)
    weighted = [tf.reduce_sum(y * (k + 1.0)) for k, y in enumerate(results)]
    return x, results, tf.convert_to_tensor(tf.gradients(weighted, x)[0])


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_nested_conds(program, static):
    x, results, gradient = built(program, tf.switch_case, static)
    x2, wanted, wanted_gradient = built(program, by_conds, static)
    for threads in (1, 2):
        with tf.Session(threads=threads) as sess:
            there, wanted_slope = sess.run([wanted, wanted_gradient], {x2: X})
            found, slope = sess.run([results, gradient], {x: X})
            only = sess.run(gradient, {x: X})
        for a, b in zip(found, there, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        np.testing.assert_allclose(slope, wanted_slope, rtol=1e-10)
        np.testing.assert_array_equal(slope, only)


@pytest.mark.parametrize("resource", [False, True])
def test_variables_in_a_loop(resource):
    """Read in some branches, by a gather in one; the gradient of each use is added."""
    v = tf.get_variable("v", initializer=np.float64([1.5, 0.5]), use_resource=resource)

    def result(choose):
        [y] = loop(lambda i, y: [choose(i % 4, [
            lambda: y * v, lambda: tf.sin(y), lambda: tf.gather(v, [1, 1]) + y,
            lambda: y])], 7, tf.constant(X))
        return [y, tf.convert_to_tensor(tf.gradients(y, v)[0])]
    found, wanted = result(tf.switch_case), result(by_conds)
    with tf.Session() as sess:
        sess.run(v.initializer)
        np.testing.assert_allclose(sess.run(found), sess.run(wanted), rtol=1e-12)


@pytest.mark.parametrize("program", [several_outputs, nested, in_cond, loop_inside],
                         ids=lambda p: p.__name__)
def test_gradient_is_the_difference_quotient(program):
    x, results, gradient = built(program, tf.switch_case, True)
    with tf.Session() as sess:
        def total(value):
            return sum((k + 1) * y.sum() for k, y in enumerate(sess.run(results, {x: value})))
        steps = 1e-6 * np.eye(2)
        wanted = [(total(X + h) - total(X - h)) / 2e-6 for h in steps]
        np.testing.assert_allclose(sess.run(gradient, {x: X}), wanted, rtol=1e-6)


def test_values_and_gradient_in_numpy():
    x = tf.constant(X)
    [y] = simple(x, tf.switch_case)
    value, slope = X, np.ones(2)            # dy/dx along the loop
    for i in range(7):
        value, slope = [(np.sin(value), np.cos(value) * slope),
                        (value * value * X, 2 * value * X * slope + value * value),
                        (value, slope)][i % 3]
    with tf.Session() as sess:
        found = sess.run([y, tf.gradients(y, x)[0]])
    np.testing.assert_allclose(found, [value, slope], rtol=1e-12)


# ------------------------------------------------------------------------------- outside of loops

def test_the_last_function_runs_where_the_index_is_no_branch():
    k, x = tf.placeholder(tf.int32, []), tf.constant(X)
    for default in (None, lambda: -x):
        functions = {2: lambda: x * x * x, 0: lambda: tf.sin(x), 1: lambda: {"y": x}["y"]}
        y = tf.switch_case(k, functions, default)
        slope = tf.gradients(y, x)[0]
        last = (X ** 3, 3 * X ** 2) if default is None else (-X, -np.ones(2))
        wanted = {0: (np.sin(X), np.cos(X)), 1: (X, np.ones(2)), 2: (X ** 3, 3 * X ** 2),
                  3: last, -1: last, 2 ** 31 - 1: last, -2 ** 31: last}
        with tf.Session() as sess:
            for number, pair in wanted.items():
                np.testing.assert_allclose(sess.run([y, slope], {k: number}), pair, rtol=1e-12)


@pytest.mark.parametrize("resource", [False, True])
def test_variables_change_in_the_branch_taken_only(resource):
    v = tf.get_variable("v", initializer=np.float64([1.0, 2.0]), use_resource=resource)
    k = tf.placeholder(tf.int32, [])
    done = tf.switch_case(k, [lambda: tf.identity(v), lambda: tf.identity(tf.assign(v, [5.0, 6.0])),
                              lambda: tf.identity(tf.assign_add(v, [1.0, 1.0]))])
    y = tf.switch_case(k, [lambda: v * v, lambda: tf.sin(v), lambda: tf.constant(X)])
    slope = tf.gradients(y, v)[0]
    with tf.Session() as sess:
        sess.run(v.initializer)
        for number, wanted in ((0, [1, 2]), (1, [5, 6]), (2, [6, 7]), (-3, [7, 8])):
            assert sess.run(done, {k: number}).tolist() == wanted
            assert sess.run(v).tolist() == wanted
        for number, wanted in ((0, [14, 16]), (1, np.cos([7, 8])), (2, [0, 0])):
            np.testing.assert_allclose(sess.run(slope, {k: number}), wanted, rtol=1e-12)


def test_only_the_branch_taken_runs():
    ran = []
    k = tf.placeholder(tf.int32, [])

    def branch(number):
        return lambda: tf.py_func(lambda: ran.append(number) or np.float32(number), [], tf.float32)
    y = tf.switch_case(k, [branch(n) for n in range(5)])
    with tf.Session() as sess:
        assert [sess.run(y, {k: n}) for n in (3, 0, 4)] == [3, 0, 4] and ran == [3, 0, 4]


def test_mistakes():
    x = tf.constant([1.0, 2.0])
    with pytest.raises(ValueError, match="numbers of the branches must be 0 ... 1, got .0, 2."):
        tf.switch_case(0, {0: lambda: x, 2: lambda: x})
    with pytest.raises(TypeError, match="branch 1 must be callable"):
        tf.switch_case(0, [lambda: x, x])
    with pytest.raises(ValueError, match="at least one function"):
        tf.switch_case(0, [])
    with pytest.raises(ValueError, match="branch 2 and branch 0 must have the same type: int32"):
        tf.switch_case(0, [lambda: x, lambda: x, lambda: 1])
    with pytest.raises((TypeError, ValueError), match="branch 0 and branch 1 of switch_case"):
        tf.switch_case(0, [lambda: x, lambda: [x, x]])
    with pytest.raises((TypeError, ValueError), match="int32"):
        tf.switch_case(tf.constant(1.5), [lambda: x])


# ------------------------------------------------------------------ _SwitchN without tf.switch_case

def test_a_case_wired_up_in_a_loop():
    def body(i, y):
        first, second = tf.raw_ops._SwitchN(data=y, output_index=i % 2, num_outs=2)
        return [tf.raw_ops.Merge(inputs=[tf.sin(first) * first, tf.cos(second)])[0]]
    x = tf.constant(0.5, tf.float64)
    [y] = loop(body, 3, x)
    slope = tf.gradients(y, x)[0]
    value = 0.5
    wanted = 1.0
    for i in range(3):
        wanted *= -np.sin(value) if i % 2 else np.sin(value) + value * np.cos(value)
        value = np.cos(value) if i % 2 else np.sin(value) * value
    with tf.Session() as sess:
        np.testing.assert_allclose(sess.run([y, slope]), [value, wanted], rtol=1e-12)


def test_a_case_the_graph_cannot_know():
    def body(i, y):
        first, second = tf.raw_ops._SwitchN(data=y, output_index=i % 2, num_outs=2)
        first = tf.cond(i > 0, lambda: first * first, lambda: first)
        return [tf.raw_ops.Merge(inputs=[first, second])[0]]
    x = tf.constant(0.5)
    [y] = loop(body, 3, x)
    with pytest.raises(ValueError, match="from inside another loop or conditional.*tf.switch_case"):
        tf.gradients(y, x)


def test_a_dead_case_does_not_stop_what_follows():
    """A _SwitchN of no iteration left its mark on the next operation that others wait for."""
    [y] = loop(lambda i, y: [tf.switch_case(i % 2, [lambda: 2.0 * y, lambda: -y])], 3, 1.0)
    for _ in range(3):
        with tf.control_dependencies([tf.no_op()]):
            y = tf.identity(y) + 1.0
    with tf.Session() as sess:
        assert sess.run(y) == -1.0
