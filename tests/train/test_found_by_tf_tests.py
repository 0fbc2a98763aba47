"""What TensorFlow 1.15.0's own tests found: optimisers, checkpoints. Values are TensorFlow's."""
import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def fresh_graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("use_resource", [False, True])
def test_lars_keeps_scaled_steps(use_resource):
    """Its momentum is that of steps already scaled by the rate, which changes from step to step."""
    v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=use_resource)
    optimizer = tf.contrib.opt.LARSOptimizer(0.1, momentum=0.9, weight_decay=0.1, eeta=0.1)
    train = optimizer.apply_gradients([(tf.constant([0.5, 0.25]), v)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for expected in ([0.98285717, 1.98714280], [0.95043951, 1.96282959],
                         [0.90456450, 1.92842329]):
            session.run(train)
            np.testing.assert_allclose(session.run(v), expected, rtol=1e-6)


@pytest.mark.parametrize("use_resource", [False, True])
def test_values_of_a_checkpoint_are_initial_values(use_resource, tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=[5.0, 6.0])
        session.run(v.initializer)
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=use_resource)
    tf.train.init_from_checkpoint(path, {"v": v})
    twice = tf.get_variable("twice", initializer=v.initialized_value() * 2)
    with tf.Session() as session:
        session.run(twice.initializer)
        assert session.run(twice).tolist() == [10, 12]
