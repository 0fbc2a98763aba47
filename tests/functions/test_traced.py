"""tf.function: traces, captures, structures, the order of effects, and gradients."""
import numpy as np
import pytest

import pyflow as tf
from pyflow.lib.function.defun import Defun


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_one_trace_for_each_kind_of_arguments():
    traces = []

    @tf.function
    def f(x, times=2):
        traces.append((x.dtype.name, x.shape.as_list(), times))
        return x * times
    a, b, c = tf.constant([1., 2.]), tf.constant([3., 4.]), tf.constant([1, 2, 3])
    ys = [f(a), f(b), f(a, 3), f(c, times=3), f(np.float32([5, 6]))]
    assert traces == [("float32", [2], 2), ("float32", [2], 3), ("int32", [3], 3)]
    with tf.Session() as session:
        assert [y.tolist() for y in session.run(ys)] == [
            [2, 4], [6, 8], [3, 6], [3, 6, 9], [10, 12]]
    assert ys[0].op.type == "PartitionedCall" and ys[0].shape.as_list() == [2]


def test_structures(config):
    @tf.function
    def f(pair, *, extra):
        x, y = pair["x"], pair["y"]
        return {"sum": x + y, "rest": (x - y, None, [extra * x])}
    out = f({"x": tf.constant(5.), "y": tf.constant(2.)}, extra=tf.constant(3.))
    with tf.Session(config=config) as session:
        assert session.run([out["sum"], out["rest"][0], out["rest"][2]]) == [7., 3., [15.]]
    assert out["rest"][1] is None


def test_an_input_signature(config):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def f(x):
        return tf.reduce_sum(x)
    with tf.Session(config=config) as session:
        assert session.run([f([1., 2.]), f(tf.constant([1., 2., 3.]))]) == [3., 6.]
    assert len(tf.get_default_graph().traces[f]) == 1
    with pytest.raises(ValueError, match="incompatible with input_signature"):
        f(tf.constant(1.))
    with pytest.raises(TypeError, match="too many positional arguments"):
        f.get_concrete_function(tf.constant([1.]), tf.constant([1.]))


def test_effects_happen_once_and_in_order(config):
    """Writes and reads of variables as the program has them, a gradient or not."""
    v = tf.get_variable("v", [2], initializer=tf.ones_initializer(), use_resource=True)

    @tf.function
    def f(x):
        y = x * v
        v.assign_add([1., 1.])
        z = v * 10.
        v.assign(v * 2.)
        return y, z
    x = tf.placeholder(tf.float32, [2])
    y, z = f(x)
    gradients = tf.gradients(y, [x, v])
    with tf.control_dependencies([y.op]):
        after = v.read_value()
    with tf.Session(config=config) as session:
        session.run(v.initializer)
        for start in (1., 4., 10.):
            got = session.run([y, z, gradients, after], {x: [1., 3.]})
            np.testing.assert_array_equal(got[0], [start, 3. * start])
            np.testing.assert_array_equal(got[1], [10. * (start + 1)] * 2)
            np.testing.assert_array_equal(got[2], [[start, start], [1., 3.]])
            np.testing.assert_array_equal(got[3], [2. * (start + 1)] * 2)


def test_random_numbers_are_drawn_once(config):
    """The gradient takes the numbers that the call drew."""
    @tf.function
    def dropped(x):
        return tf.nn.dropout(x, 0.5) * x
    x = tf.fill([100], 3.)
    y = dropped(x)
    dx, = tf.gradients(y, x)
    with tf.Session(config=config) as session:
        for _ in range(3):
            value, gradient = session.run([y, dx])
            np.testing.assert_array_equal(gradient, value * 2. / 3.)
            assert 0 < (value == 0).sum() < 100


def test_variables_made_inside_are_made_once(config):
    made = []

    @tf.function
    def f(x):
        if not made:
            made.append(tf.Variable([2., 3.], use_resource=True, name="inside"))
        return x * made[0]
    y = f(tf.constant([1., 1.])) + f(tf.constant([1., 1.], name="other"))
    assert [v.name for v in tf.global_variables()] == ["inside:0"]
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(y).tolist() == [4., 6.]


def test_methods_and_calls_in_loops(config):
    class Layer:
        def __init__(self, k):
            self.k = tf.constant(k)

        @tf.function
        def __call__(self, x):
            return tf.tanh(x * self.k)
    layer, other = Layer(2.), Layer(3.)
    a = tf.constant([.1, .2])
    _, y = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, layer(x)), [0, a])
    dy, = tf.gradients(y, a)
    with tf.Session(config=config) as session:
        value, gradient = session.run([y, dy])
        assert session.run(other(a)) == pytest.approx(np.tanh([.3, .6]))
    x, d = np.float32([.1, .2]), np.ones(2)
    for _ in range(3):
        x = np.tanh(2 * x)
        d *= 2 * (1 - x * x)
    np.testing.assert_allclose([value, gradient], [x, d], rtol=1e-5)


def test_the_written_graph(config):
    """Nodes as TensorFlow's: PartitionedCall with attr f; read again with the same answers."""
    @tf.function(noinline=True)
    def f(x):
        return tf.sin(x) * 2.
    y = f(tf.placeholder(tf.float32, [3], name="x"))
    written = tf.get_default_graph().as_graph_def()
    node = written.node[-1]
    assert (node.op, node.attr["f"].func.name) == ("PartitionedCall", "__inference_f_0")
    with tf.Graph().as_default():
        z, = tf.import_graph_def(written, name="", return_elements=[y.name])
        assert z.op.type == "PartitionedCall"
        dz, = tf.gradients(z, z.graph.get_tensor_by_name("x:0"))
        with tf.Session(config=config) as session:
            found = session.run([z, dz], {"x:0": [0., 1., 2.]})
    np.testing.assert_allclose(found, [2 * np.sin([0., 1, 2]), 2 * np.cos([0., 1, 2])], rtol=1e-6)


def test_calling_itself_while_traced():
    @tf.function
    def f(x):
        return f(x) + 1.
    with pytest.raises(ValueError, match="calls itself.*Declare"):
        f(tf.constant(1.))


def test_gradients_of_a_lambda():
    x = tf.constant(3.)
    first = tf.gradients(tf.function(lambda q: q * q * q)(x), x)[0]
    other = tf.gradients(Defun(tf.float32)(lambda q: q * q)(x), x)[0]
    with tf.Session() as session:
        assert session.run([first, tf.gradients(first, x)[0], other]) == [27., 18., 6.]


@pytest.mark.parametrize("key, value", [
    ("2", [7.]), ("1:3", [7., 8.]), ("::2", [7., 8.]), ("where", [7.]), ("..., 1", [7.])])
def test_assignments_to_slices_of_variables(key, value, config):
    v = tf.get_variable("v", initializer=np.zeros(4, np.float32), use_resource=True)
    where = tf.constant(3)
    given = np.array(value if ":" in key else value[0], np.float32)

    @tf.function
    def f(u):
        eval(f"v[{key}]", {"v": v, "where": where}).assign(u)
        tf.scatter_add(v, [0], [100.])
        return v.read_value()
    expected = np.zeros(4, np.float32)
    expected[eval(f"np.s_[{key}]", {"np": np, "where": 3})] = given
    expected[0] += 100
    with tf.Session(config=config) as session:
        session.run(v.initializer)
        assert list(session.run(f(given))) == list(expected)


def test_an_optimizer_in_a_function(config):
    v = tf.get_variable("v", initializer=np.float32(3), use_resource=True)

    @tf.function
    def train(x):
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        step = optimizer.apply_gradients(optimizer.compute_gradients((v - x) ** 2, [v]))
        with tf.control_dependencies([step]):
            return v.read_value()
    with tf.Session(config=config) as session:
        session.run(v.initializer)
        assert session.run(train(tf.constant(1.))) == np.float32(2.6)


def test_each_call_has_shapes_of_its_own():
    """TensorFlow 1.15's, where a loop has the shapes of its trace."""
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
    def some(x):
        return x * 2., tf.shape(x), tf.reduce_sum(x), tf.reshape(x, [-1])

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32)])
    def square(x):
        return tf.matmul(x, x, transpose_b=True)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32)])
    def outer(x):
        return square(x) + 1.

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32)])
    def loop(x):
        return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.), (0, x))[1]

    def shapes(results):
        return [r.shape.as_list() for r in results]
    matrix = tf.zeros([2, 3])
    assert shapes(some(matrix)) == [[2, 3], [2], [], [6]]
    assert shapes(some(tf.placeholder(tf.float32, [None, 5]))) == [[None, 5], [2], [], [None]]
    assert shapes([square(matrix), outer(matrix), loop(matrix)]) == [[2, 2], [2, 2], [None, None]]
    assert some.get_concrete_function().outputs[0].shape.ndims is None      # the trace's own stay


def in_a_loop(times, start, added):
    return tf.while_loop(lambda i, a: i < times, lambda i, a: (i + 1, a + added(a)), (0, start))[1]


def test_gradients_in_a_function_to_what_is_outside():
    """The rules of TensorFlow 2: a body is a function, what is outside a constant to its turn."""
    w = tf.constant(3.)
    v = tf.get_variable("v", initializer=np.float32(3), use_resource=True)

    @tf.function
    def f(x):
        def nested(a):
            inner = in_a_loop(1, a, lambda b: tf.gradients(b * x * x, x)[0])
            return inner - a + tf.cond(a > 0, lambda: tf.gradients(x * a, x)[0], lambda: a)
        assert tf.gradients(x * x, w) == [None]
        in_a_loop(1, x, lambda a: a if tf.gradients(a * a, x) == [None] else None)
        return [tf.gradients(x * w * w, w)[0],
                in_a_loop(3, x, lambda a: tf.gradients(a * w * x, w)[0]),
                in_a_loop(3, x, lambda a: tf.gradients(a * x * x, x)[0]),
                in_a_loop(2, x, lambda a: tf.gradients(a * v * v, v)[0]),
                in_a_loop(2, x, nested)]
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(f(tf.constant(2.))) == [12., 54., 250., 98., 72.]


def test_gradients_in_a_loop_outside_functions_follow_version_1():
    x = tf.constant(2.)
    with pytest.raises(ValueError, match="inside while loop with respect to Const"):
        in_a_loop(3, x, lambda a: tf.gradients(a * x, x)[0])
