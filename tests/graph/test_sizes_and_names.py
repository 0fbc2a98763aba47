"""Sizes that are no whole numbers, None among values, variables where lists of tensors are taken, and
node names that decide later ops' seeds."""
import numpy as np
import pytest

import pyflow as tf


@pytest.mark.parametrize("make", [
    lambda: tf.ones([2.5]), lambda: tf.zeros([2, 2.5]), lambda: tf.ones(2.5),
    lambda: tf.zeros(np.array([2.5])), lambda: tf.random_normal([2.7]),
    lambda: tf.random_uniform([2.7]), lambda: tf.truncated_normal([2.7]), lambda: tf.eye(2.5),
    lambda: tf.random.stateless_uniform([2.5], [1, 2]), lambda: tf.fill([2.5], 1.0),
    lambda: tf.zeros_initializer()([2.5]), lambda: tf.random_gamma([2.5], 1.0),
])
def test_a_shape_s_sizes_are_whole_numbers(make):
    with tf.Graph().as_default(), pytest.raises(TypeError):
        make()


@pytest.mark.parametrize("make", [
    lambda: tf.Dimension(2.5), lambda: tf.TensorShape([2.5]),
    lambda: tf.placeholder(tf.float32, [2.5]), lambda: tf.get_variable("v", [2.5]),
])
def test_ambiguous_dimensions(make):
    with tf.Graph().as_default(), pytest.raises(ValueError, match="Ambiguous dimension: 2.5"):
        make()


def test_whole_floats_are_sizes():
    with tf.Graph().as_default():
        assert tf.ones([2.0]).shape == tf.placeholder(tf.float32, [2.0]).shape == [2]
        assert tf.Dimension(np.float32(3)).value == 3 and tf.TensorShape([4.0]).as_list() == [4]


@pytest.mark.parametrize("values, at", [([1, None], "element 1 of 2"), ([[1.0], [None]], "1 of 2")])
def test_none_among_values_is_named(values, at):
    with tf.Graph().as_default(), pytest.raises(TypeError, match=at):
        tf.constant(values)
    with tf.Graph().as_default(), pytest.raises(TypeError, match=r"\[-1, None\].*None"):
        tf.reshape([1.0, 2.0], [-1, None])


def test_a_type_by_a_float_number():
    assert tf.as_dtype(1.0) is tf.float32 and tf.as_dtype(3.0) is tf.int32
    with pytest.raises(TypeError):
        tf.as_dtype(1.5)


@pytest.mark.parametrize("resource", [False, True])
def test_stacking_a_variable(resource):
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.get_variable("v", initializer=[[1.0, 2.0], [3.0, 4.0]], use_resource=resource)
        sess.run(v.initializer)
        np.testing.assert_array_equal(sess.run(tf.stack(v)), [[1, 2], [3, 4]])
        np.testing.assert_array_equal(sess.run(tf.stack(v, axis=1)), [[1, 3], [2, 4]])


def test_files_that_match_once_go_into_a_queue(tmp_path):
    (tmp_path / "a.txt").write_text("")
    with tf.Graph().as_default(), tf.Session() as sess:
        names = tf.train.match_filenames_once(f"{tmp_path}/*.txt")
        queue = tf.train.string_input_producer(names, num_epochs=1)
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coordinator)
        assert sess.run(queue.dequeue()) == f"{tmp_path}/a.txt".encode()
        coordinator.request_stop()
        coordinator.join(threads)


def test_uniform_numbers_have_tensorflow_s_nodes():
    """As many, so that ops after them draw TensorFlow's numbers (recorded from 1.15)."""
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        tf.set_random_seed(7)
        first = tf.random_uniform([2])
        names = [op.name for op in graph.get_operations()]
        second = tf.random_normal([2])
        got = sess.run([first, second])
    assert names == [f"random_uniform{end}" for end in (
        "/shape", "/min", "/max", "/RandomUniform", "/sub", "/mul", "")]
    np.testing.assert_allclose(got, [[0.4010878801345825, 0.37683892250061035],
                                     [0.5349388122558594, 2.6256279945373535]], rtol=1e-6)
