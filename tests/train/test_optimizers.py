"""Optimizers: errors, slots, gates, constraints, global step. Values:
tests/control_flow/test_values.py."""
import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_no_gradient_says_why_for_each_variable():
    used = tf.Variable([1.0, 2.0], name="used")
    tf.Variable(1.0, name="idle")
    loss = tf.reduce_sum(tf.cast(tf.argmax(used, name="pick"), tf.float32), name="loss")
    with pytest.raises(ValueError) as caught:
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    message = str(caught.value)
    assert "No gradients provided for any variable" in message
    assert "used:0: the path to loss:0 ends at 'pick' (op ArgMax" in message
    assert "idle:0: loss:0 does not depend on it" in message


def test_argument_errors():
    v = tf.Variable(1.0)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    with pytest.raises(ValueError, match="gate_gradients"):
        optimizer.compute_gradients(v * v, gate_gradients=7)
    with pytest.raises(ValueError, match="No variables to optimize"):
        optimizer.compute_gradients(v * v, var_list=[])
    with pytest.raises(ValueError, match="No variables provided"):
        optimizer.apply_gradients([])
    with pytest.raises(ValueError, match="No gradients provided"):
        optimizer.apply_gradients([(None, v)])
    with pytest.raises(TypeError, match="Gradient must be"):
        optimizer.apply_gradients([(object(), v)])
    with pytest.raises(ValueError, match="Invalid type int32"):
        optimizer.minimize(tf.constant(1))
    with pytest.raises(ValueError, match="optimizer name"):
        tf.train.GradientDescentOptimizer(0.1, name="")


def test_slots():
    v = tf.Variable([1.0, 2.0], name="v")
    optimizer = tf.train.AdamOptimizer()
    optimizer.minimize(tf.reduce_sum(v * v))
    assert optimizer.get_slot_names() == ["m", "v"]
    assert optimizer.get_slot(v, "m").op.name == "v/Adam"
    assert optimizer.get_slot(v, "v").op.name == "v/Adam_1"
    assert optimizer.get_slot(v, "other") is None
    assert [x.op.name for x in optimizer.variables()] == ["beta1_power", "beta2_power", "v/Adam",
                                                         "v/Adam_1"]
    assert len(tf.trainable_variables()) == 1 and len(tf.get_collection("train_op")) == 1


def test_global_step_counts():
    v = tf.Variable(1.0)
    step = tf.train.get_or_create_global_step()
    assert tf.train.get_global_step() is step and step.dtype.base_dtype == tf.int64
    with pytest.raises(ValueError, match="already exists"):
        tf.train.create_global_step()
    train = tf.train.GradientDescentOptimizer(0.1).minimize(v * v, global_step=step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        assert tf.train.global_step(session, step) == 3
        assert session.run(v) == pytest.approx(0.8 ** 3)


@pytest.mark.parametrize("use_resource", [False, True])
def test_constraint_is_applied(use_resource):
    v = tf.Variable([1.0, -1.0], use_resource=use_resource,
                    constraint=lambda x: tf.clip_by_value(x, 0.0, 0.5))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(v * v))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(v).tolist() == [0.5, 0.0]


@pytest.mark.parametrize("gate", [tf.train.Optimizer.GATE_NONE, tf.train.Optimizer.GATE_OP,
                                  tf.train.Optimizer.GATE_GRAPH])
def test_gates_give_the_same_step(gate):
    v, w = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    train = optimizer.minimize(tf.reduce_sum(v * w), gate_gradients=gate)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_allclose(session.run([v, w]), [[0.7, 1.6], [2.9, 3.8]], rtol=1e-6)


def test_gradients_may_be_changed():
    v = tf.Variable([3.0, 4.0])
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    pairs = optimizer.compute_gradients(tf.reduce_sum(v * v) / 2.0)
    clipped = [(tf.clip_by_norm(grad, 1.0), variable) for grad, variable in pairs]
    train = optimizer.apply_gradients(clipped)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_allclose(session.run(v), [2.4, 3.2], rtol=1e-6)


def test_learning_rate_may_be_a_tensor_or_function():
    v = tf.Variable(1.0)
    rate = tf.placeholder(tf.float32, [])
    fed = tf.train.GradientDescentOptimizer(rate).minimize(v * v)
    called = tf.train.GradientDescentOptimizer(lambda: 0.25).minimize(v * v)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(fed, {rate: 0.25})
        assert session.run(v) == 0.5
        session.run(called)
        assert session.run(v) == 0.25


def test_piecewise_constant_arguments():
    with pytest.raises(ValueError, match="1 less"):
        tf.train.piecewise_constant(tf.constant(1), [1], [1.0])
    with pytest.raises(ValueError, match="global_step is required"):
        tf.train.exponential_decay(0.1, None, 10, 0.5)


def test_a_subclass_defines_what_its_variables_need():
    """As in TensorFlow: only dense updates of one kind of variable, or apply_gradients alone (as BERT's optimiser)."""
    class Dense(tf.train.Optimizer):
        def __init__(self): super().__init__(False, "Dense")
        def _apply_dense(self, grad, var): return tf.assign_sub(var, 0.5 * grad).op

    class Whole(tf.train.Optimizer):
        def __init__(self): super().__init__(False, "Whole")

        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            return tf.group(*[tf.assign_sub(v, g) for g, v in grads_and_vars])

    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable([1.0, 2.0], name="v", use_resource=False)
        handle = tf.Variable([1.0, 2.0], name="handle", use_resource=True)
        steps = [kind().minimize(tf.reduce_sum(v), var_list=[v]) for kind in (Dense, Whole)]
        sess.run([v.initializer, handle.initializer])
        for step, want in zip(steps, ([0.5, 1.5], [-0.5, 0.5])):
            sess.run(step)
            assert sess.run(v).tolist() == want
        for loss, method in ((tf.reduce_sum(tf.gather(v, [0])), "_apply_sparse"),
                             (tf.reduce_sum(handle), "_resource_apply_dense"),
                             (tf.reduce_sum(tf.gather(handle, [0])), "_resource_apply_sparse")):
            with pytest.raises(NotImplementedError, match=f"Dense has no {method}, which the update of variable "):
                Dense().minimize(loss)
