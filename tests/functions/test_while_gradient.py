"""Gradients through While, the op that calls functions: against central differences, and against
the same loop of version 1."""
import numpy as np
import pytest

import pyflow as tf
from pyflow.python.framework import function


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=["While", "StatelessWhile"])
def loop(request):
    """functional_loop(cond, body, variables, types): the op's results."""
    op = getattr(tf.raw_ops, request.param)

    def build(cond, body, variables, **attrs):
        variables = [tf.convert_to_tensor(v) for v in variables]
        return op(input=variables, cond=cond, body=body, **attrs)
    return build


def defined(name, *types, **options):
    def define(body):
        found = function.Defun(*types, func_name=name, **options)(body)
        found.add_to_graph(tf.get_default_graph())
        return found
    return define


def numeric(session, y, x, value, feeds=None, step=1e-6):
    """dy/dx by central differences; y: a scalar."""
    value = np.asarray(value, np.float64)
    found = np.zeros_like(value)
    for at in np.ndindex(*value.shape):
        sides = []
        for side in (step, -step):
            moved = value.copy()
            moved[at] += side
            sides.append(session.run(y, {**(feeds or {}), x: moved}))
        found[at] = (sides[0] - sides[1]) / (2 * step)
    return found


def check(config, y, xs, values, feeds=None):
    """tf.gradients of the sum of y against differences, and that it is not all zeros."""
    y = tf.reduce_sum(y)
    gradients = tf.gradients(y, xs)
    feeds = {**dict(zip(xs, values)), **(feeds or {})}
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        found = session.run(gradients, feeds)
        for x, value, gradient in zip(xs, values, found):
            np.testing.assert_allclose(gradient, numeric(session, y, x, value, feeds), 1e-6, 1e-9)
        assert any(np.abs(g).max() > 1e-3 for g in found)
        return found


FLOATS = tf.int32, tf.int32, tf.float64, tf.float64
X, W = [0.5, 1.5, -0.3], [2.0, -3.0, 0.7]


def step_functions():
    defined("less", *FLOATS)(lambda i, n, x, w: i < n)
    defined("step", *FLOATS)(lambda i, n, x, w: (i + 1, n, tf.tanh(x * w) + x * tf.cast(i, tf.float64), w))


@pytest.mark.parametrize("times", [0, 1, 4])
def test_against_differences_and_the_loop_of_version_1(config, loop, times):
    """w and n come back as they went in: they are no loop variables, w gets a gradient."""
    step_functions()
    x, w = tf.placeholder(tf.float64, [3]), tf.placeholder(tf.float64, [3])
    n = tf.placeholder(tf.int32, [])
    i, _, y, same = loop("less", "step", [0, n, x, w], name="functional")
    plain = tf.while_loop(lambda i, x: i < n, lambda i, x: (
        i + 1, tf.tanh(x * w) + x * tf.cast(i, tf.float64)), [0, x])[1]
    total = tf.reduce_sum(y * y) + tf.reduce_sum(same * w)
    want = tf.gradients(tf.reduce_sum(plain * plain) + tf.reduce_sum(w * w), [x, w])
    with tf.Session(config=config) as session:      # the node runs before it is differentiated, too
        feeds = {x: X, w: W, n: times}
        before = session.run([i, y, plain], feeds)
        np.testing.assert_array_equal(before[1], before[2])
    found = check(config, total, [x, w], [X, W], {n: times})
    with tf.Session(config=config) as session:
        np.testing.assert_array_equal(found, session.run(want, feeds))
        after = session.run([i, y], feeds)
        assert after[0] == before[0] == times
        np.testing.assert_array_equal(after[1], before[1])


def test_second_derivatives_are_refused_as_those_of_loops_of_version_1(loop):
    step_functions()
    x, w = tf.placeholder(tf.float64, [3]), tf.placeholder(tf.float64, [3])
    y = loop("less", "step", [0, 3, x, w])[2]
    first, = tf.gradients(tf.reduce_sum(y), w)
    with pytest.raises(TypeError, match="Second-order gradient for while loops not supported"):
        tf.gradients(first, w)


@pytest.mark.parametrize("place", ["branch", "loop", "function"])
def test_inside_branches_loops_and_functions(config, loop, place):
    step_functions()
    x, w = tf.placeholder(tf.float64, [3]), tf.placeholder(tf.float64, [3])

    def inner(x, times=2):
        return loop("less", "step", [0, times, x, w])[2]
    if place == "branch":
        y = tf.cond(tf.reduce_sum(w) < 0.0, lambda: inner(x) * 2.0, lambda: x)
    elif place == "loop":
        _, y = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, inner(x, i)), [0, x])
    else:
        noinline = function.Defun(tf.float64, tf.float64, func_name="f", noinline=True)(
            lambda x, w: loop("less", "step", [0, 3, x, w])[2] + x)
        y = noinline(x, w)
    check(config, y * y, [x, w], [X, W])


def test_a_body_that_calls_itself(config, loop):
    """tree(n, x): a loop over n children, each a tree of n - 1; neither loop nor tree is inlined."""
    tree = function.Declare("tree", [("n", tf.int32), ("x", tf.float64)], [("y", tf.float64)])
    types = tf.int32, tf.int32, tf.float64, tf.float64
    defined("more", *types)(lambda i, n, x, total: i < n)
    defined("grow", *types)(lambda i, n, x, total: (
        i + 1, n, x, total + tf.tanh(tree(n - 1, x * tf.cast(i + 1, tf.float64)))))

    @defined("tree", tf.int32, tf.float64, out_names=["y"])
    def define(n, x):
        return loop("more", "grow", [0, n, x, tf.sin(x)])[3]

    def plain(n, x):
        total = tf.sin(x)
        for i in range(n):
            total += tf.tanh(plain(n - 1, x * float(i + 1)))
        return total
    x, n = tf.placeholder(tf.float64, [2]), tf.placeholder(tf.int32, [])
    y = tree(n, x)
    for depth in (0, 1, 3):
        found, = check(config, y, [x], [[0.3, -0.8]], {n: depth})
        with tf.Session(config=config) as session:
            want, value, same = session.run([tf.gradients(plain(depth, x), x)[0], y, plain(depth, x)],
                                            {x: [0.3, -0.8], n: depth})
            np.testing.assert_allclose(value, same, 1e-12)
            np.testing.assert_allclose(found, want, 1e-12)


def test_written_and_read_again(graph, config, loop):
    """A recursive body's loop and its gradient in a GraphDef; and an imported loop's gradient."""
    test_a_body_that_calls_itself(config, loop)
    data = graph.as_graph_def()
    with tf.Graph().as_default():
        tf.import_graph_def(data, name="")
        again = tf.get_default_graph()
        names = [op.name for op in again.get_operations() if op.type == "Placeholder"]
        x, n = (again.get_tensor_by_name(f"{name}:0") for name in names[:2])
        y = again.get_tensor_by_name("tree:0")
        check(config, y, [x], [[0.3, -0.8]], {n: 2})


def test_what_it_draws_is_drawn_once(config):
    """The gradient is of the values that were drawn in the step, whoever fetches what."""
    defined("less", tf.int32, tf.float64)(lambda i, x: i < 3)
    defined("draws", tf.int32, tf.float64)(lambda i, x: (
        i + 1, x * tf.random_uniform([], 1.0, 2.0, dtype=tf.float64)))
    x = tf.placeholder(tf.float64, [])
    _, y = tf.raw_ops.While(input=[0, x], cond="less", body="draws")
    dx, = tf.gradients(y, x)
    with tf.Session(config=config) as session:
        seen = set()
        for _ in range(5):
            value, slope = session.run([y, dx], {x: 2.0})
            np.testing.assert_allclose(value, 2.0 * slope, 1e-12)
            seen.add(value)
        assert len(seen) == 5


def test_effects_happen_once_in_each_iteration(config):
    v = tf.get_variable("v", [], tf.float64, initializer=tf.zeros_initializer(), use_resource=True)
    types = tf.int32, tf.resource, tf.float64
    defined("less", *types)(lambda i, v, x: i < 4)

    @defined("adds", *types)
    def adds(i, v, x):
        tf.raw_ops.AssignAddVariableOp(resource=v, value=x)
        return i + 1, v, x * 2.0
    x = tf.placeholder(tf.float64, [])
    y = tf.raw_ops.While(input=[0, v.handle, x], cond="less", body="adds")[2]
    dx, = tf.gradients(y, x)
    with tf.control_dependencies([dx]):
        after = v.read_value()
    with tf.Session(config=config) as session:
        session.run(v.initializer)
        assert session.run([y, dx, after], {x: 1.0}) == [16.0, 16.0, 15.0]
        assert session.run([y, dx], {x: 1.0}) == [16.0, 16.0] and session.run(v) == 30.0


def test_of_a_variable_that_is_passed_on(config, loop):
    """The gradient of a handle is that of its variable's value."""
    v = tf.get_variable("v", [3], tf.float64, use_resource=True, initializer=tf.constant_initializer(W))
    types = tf.int32, tf.resource, tf.float64
    defined("less", *types)(lambda i, v, x: i < 3)

    @defined("reads", *types)
    def reads(i, v, x):
        return i + 1, v, tf.tanh(x * tf.raw_ops.ReadVariableOp(resource=v, dtype=tf.float64))
    x = tf.constant(X, tf.float64)
    y = tf.reduce_sum(loop("less", "reads", [0, v.handle, x])[2])
    dv, = tf.gradients(y, [v])
    plain = x
    value = tf.placeholder(tf.float64, [3])
    for _ in range(3):
        plain = tf.tanh(plain * value)
    with tf.Session(config=config) as session:
        session.run(v.initializer)
        np.testing.assert_allclose(session.run(dv), session.run(tf.gradients(plain, value)[0], {value: W}),
                                   1e-12)


def test_conditions_that_are_no_booleans(config, loop):
    """A number, a text, a tensor that is empty or not; and strings among the variables."""
    types = tf.int32, tf.string, tf.float64
    defined("number", *types)(lambda i, s, x: 3 - i)
    defined("text", *types)(lambda i, s, x: tf.strings.substr("abc", i, 3 - i))
    defined("tensor", *types)(lambda i, s, x: tf.zeros([3 - i]))
    defined("body", *types)(lambda i, s, x: (i + 1, tf.strings.join([s, "!"]), tf.sin(x) * 2.0))
    x = tf.placeholder(tf.float64, [2])
    for cond in ("number", "text", "tensor"):
        _, s, y = loop(cond, "body", [0, "go", x])
        check(config, y, [x], [[0.4, 1.1]])
        with tf.Session(config=config) as session:
            assert session.run(s, {x: [0.4, 1.1]}) == b"go!!!"


def test_shapes_that_change(config, loop):
    types = tf.int32, tf.float64
    defined("less", *types)(lambda i, x: i < 3)
    defined("doubles", *types)(lambda i, x: (i + 1, tf.concat([x, x * x], 0)))
    x = tf.placeholder(tf.float64, [2])
    _, y = loop("less", "doubles", [0, x], output_shapes=[[], [None]])
    check(config, y, [x], [[0.9, 1.1]])


def test_what_is_refused():
    step_functions()
    x = tf.placeholder(tf.float64, [3])
    y = tf.raw_ops.While(input=[0, 3, x, x], cond="nowhere", body="step", name="here")[2]
    with pytest.raises(tf.errors.NotFoundError, match="'here' calls the function 'nowhere'"):
        tf.gradients(y, x)
    defined("two", *FLOATS)(lambda i, n, x, w: (i < n, i < n))
    y = tf.raw_ops.While(input=[0, 3, x, x], cond="two", body="step", name="there")[2]
    with pytest.raises(ValueError, match="'there' .*cond 'two' has results .*expected one result"):
        tf.gradients(y, x)
    defined("other", tf.int32, tf.float32)(lambda i, x: (i + 1, x))
    y = tf.raw_ops.While(input=[0, 3, x, x], cond="less", body="other", name="yonder")[2]
    with pytest.raises(ValueError, match=r"'yonder' .*body 'other' has arguments .*expected \['int32', 'int32'"):
        tf.gradients(y, x)


BODIES = {
    "outside": lambda i, x, a, b: (i + 1, x, x, b),
    "swapped": lambda i, x, a, b: (i + 1, x, b, a),
    "one_of_them": lambda i, x, a, b: (i + 1, x, b, x),
    "both": lambda i, x, a, b: (i + 1, x, x, x),
    "twice": lambda i, x, a, b: (i + 1, x, b, b),
    "computed": lambda i, x, a, b: (i + 1, x, a + x, x),
    "a_constant": lambda i, x, a, b: (i + 1, x, tf.constant(9.), b),
}


@pytest.mark.parametrize("imported", [False, True], ids=["run", "imported"])
@pytest.mark.parametrize("name", BODIES)
def test_a_variable_that_becomes_what_the_loop_does_not_change(name, imported):
    """As TensorFlow's exports of bodies that return what they captured."""
    step = BODIES[name]
    expected = (0, 2., 5., 7.)
    for _ in range(3):
        with tf.Graph().as_default(), tf.Session() as session:
            expected = session.run(step(*map(tf.constant, expected)))
    types = [tf.int32] + [tf.float32] * 3
    with tf.Graph().as_default() as graph:
        cond = function.Defun(*types)(lambda i, x, a, b: i < 3)
        body = function.Defun(*types)(step)
        for defined_one in cond, body:
            defined_one.add_to_graph(graph)
        x = tf.constant(2., name="x")
        out = tf.raw_ops.StatelessWhile(
            input=[tf.constant(0), x, tf.constant(5.), tf.constant(7.)], name="loop",
            cond=cond, body=body)
        definition = graph.as_graph_def()
        if imported:
            graph = tf.Graph()
            with graph.as_default():
                names = ["x:0"] + [f"loop:{k}" for k in range(4)]
                x, *out = tf.import_graph_def(definition, return_elements=names, name="")
        with graph.as_default(), tf.Session() as session:
            assert session.run(list(out)) == list(expected)
            gradient = tf.gradients(out[2], x)[0]
            assert session.run(list(out)) == list(expected)
            if name in ("outside", "both"):
                assert session.run(gradient) == 1.
