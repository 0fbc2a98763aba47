"""tf.function: traces, captures, structures, the order of effects, and gradients."""
import numpy as np
import pytest

import pyflow as tf


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
    assert len(f._traces[tf.get_default_graph()]) == 1
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
