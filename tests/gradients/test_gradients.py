"""tf.gradients: its arguments, its errors, what it says about missing gradients, its cost."""
import time

import pytest
from quiet import clock

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_none_for_what_y_does_not_depend_on():
    x, y = tf.constant(1.0), tf.constant(2.0)
    assert tf.gradients(x * 2.0, y) == [None]
    zeros = tf.gradients(x * 2.0, y, unconnected_gradients=tf.UnconnectedGradients.ZERO)[0]
    assert zeros.shape == y.shape


def test_explained_missing_gradients():
    x, y = tf.placeholder(tf.float32, [3], name="x"), tf.constant(2.0, name="y")
    with pytest.raises(ValueError, match="y:0.*does not depend on it"):
        tf.gradients(x, y, explain=True)
    loss = tf.reduce_sum(tf.cast(tf.argmax(x, name="picked"), tf.float32), name="loss")
    with pytest.raises(ValueError, match=r"x:0: the path to loss:0 ends at 'picked' \(op "
                                         r"ArgMax.*int64"):
        tf.gradients(loss, x, explain=True)
    with pytest.raises(ValueError, match="'cut'.*stops gradients on purpose"):
        tf.gradients(tf.stop_gradient(x, name="cut") * 2.0, x, explain=True)
    with pytest.raises(ValueError, match="'down'.*not differentiable"):
        tf.gradients(tf.floor(x, name="down"), x, explain=True)
    assert tf.gradients(x * 2.0, x, explain=True)[0] is not None


def test_op_without_gradient_is_a_lookup_error():
    x = tf.constant([1.0, 2.0])
    with pytest.raises(LookupError, match="No gradient defined for operation 'mine'.*PyFuncLike"):
        _unregistered(x)


def _unregistered(x):
    from pyflow.framework.op import op, register

    @op("PyFuncLike", inputs="x: T", outputs="y: T", attrs="T: type")
    class Block:
        """An op that says nothing about its gradient."""
        def shape(op): return op.inputs[0].shape
    register(Block)
    tf.gradients(Block(x, name="mine"), x)


def test_registered_and_overridden_gradients(graph):
    @tf.RegisterGradient("TimesTen")
    def times_ten(op, dy):
        return dy * 10.0
    x = tf.constant(1.0)
    with graph.gradient_override_map({"Identity": "TimesTen"}):
        y = tf.identity(x)
    assert tf.gradients(y, x)[0].op.type == "Mul"
    with pytest.raises(KeyError):
        tf.RegisterGradient("TimesTen")(times_ten)


def test_wrong_number_of_gradients():
    @tf.RegisterGradient("TooMany")
    def too_many(op, dy):
        return [dy, dy]
    x = tf.constant(1.0)
    with tf.get_default_graph().gradient_override_map({"Identity": "TooMany"}):
        y = tf.identity(x, name="passed")
    with pytest.raises(ValueError, match="Num gradients 2 generated for op passed"):
        tf.gradients(y, x)


def test_grad_ys_are_checked():
    x = tf.placeholder(tf.float32, [3])
    with pytest.raises(ValueError, match="Must pass 1 grad_ys"):
        tf.gradients(x, x, grad_ys=[x, x])
    with pytest.raises(TypeError, match="Gradient type int32"):
        tf.gradients(x * 1.0, x, grad_ys=[tf.constant([1, 1, 1])])
    with pytest.raises(ValueError, match="does not fit"):
        tf.gradients(x * 1.0, x, grad_ys=[tf.zeros([4])])
    with pytest.raises(TypeError, match="must set grad_ys"):
        z = tf.constant(1j)
        tf.gradients(z * z, z)
    with pytest.raises(ValueError, match="aggregation_method"):
        tf.gradients(x, x, aggregation_method=7)


def test_given_gradients_of_another_shape_are_for_what_reshapes():
    """tests/oracle (grads) has what TensorFlow makes of those that fit; no other op takes them."""
    x = tf.placeholder(tf.float32, [2, 3])
    for y, given in ((tf.exp(x), [6]), (tf.transpose(x), [2, 3])):
        with pytest.raises(ValueError, match="2,3|2, 3"):
            tf.gradients(y, x, grad_ys=tf.ones(given))
    with pytest.raises(ValueError, match=r"does not fit .*expected shape \(6,\), got \(5,\)"):
        tf.gradients(tf.reshape(x, [6]), x, grad_ys=tf.ones([5]))


def test_gate_gradients_waits_for_all():
    x, y = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2])
    dx, _ = tf.gradients(x * y, [x, y], gate_gradients=True)
    assert dx.op.type == "Identity" and dx.op.control_inputs[0].type == "NoOp"


def test_colocated_gradients():
    x = tf.placeholder(tf.float32, [2], name="x")
    with tf.device("/cpu:1"):
        y = tf.tanh(x, name="y")
    dx = tf.gradients(y, x, colocate_gradients_with_ops=True)[0]
    assert b"loc:@y" in dx.op.colocation_groups() and dx.op.device.endswith("CPU:1")


def test_indexed_slices_stay_sparse():
    w = tf.placeholder(tf.float32, [100, 2])
    total = tf.reduce_sum(tf.gather(w, [1, 2])) + tf.reduce_sum(tf.gather(w, [3]))
    grad = tf.gradients(total, w)[0]
    assert isinstance(grad, tf.IndexedSlices) and grad.indices.op.type == "ConcatV2"


@pytest.mark.alone
def test_graph_growth_is_linear():
    def cost(n):
        with tf.Graph().as_default() as g:
            x = y = tf.placeholder(tf.float32, [2])
            for _ in range(n):
                y = tf.tanh(y) + x
            before, start = len(g.get_operations()), time.perf_counter()
            tf.gradients(y, x)
            return len(g.get_operations()) - before, time.perf_counter() - start
    cost(50)
    small, big = min(cost(500) for _ in range(3)), min(cost(2000) for _ in range(3))
    assert big[0] <= 4.2 * small[0]
    assert big[1] <= 12 * small[1]


@pytest.mark.alone
def test_unrelated_graph_costs_nothing():
    for i in range(3000):
        tf.constant(1.0)
    x = tf.placeholder(tf.float32, [2])
    start = clock()
    tf.gradients(tf.tanh(x), x)
    assert clock() - start < 0.2


def test_loops_of_imported_graphs_are_refused():
    with tf.Graph().as_default() as g:
        x = tf.placeholder(tf.float32, [], name="x")
        tf.identity(tf.while_loop(lambda y: y < 9.0, lambda y: y * 2.0, [x]), name="y")
        definition = g.as_graph_def()
    x, y = tf.import_graph_def(definition, return_elements=["x:0", "y:0"])
    with pytest.raises(ValueError, match="does not know that loop"):
        tf.gradients(y, x)
