"""What TensorFlow's own kernel tests found (tests/kernel_tests), each in a few lines."""
import copy

import numpy as np
import pytest

import pyflow as tf
from pyflow.tools import coverage


@pytest.fixture(autouse=True)
def a_graph():
    with tf.Graph().as_default():
        yield


def in_order(graph):
    """Operations whose inputs, but for a loop's way back, were made after them."""
    at = {op.name: k for k, op in enumerate(graph.get_operations())}
    return [op.name for op in graph.get_operations() if op.type != "Merge"
            for x in op.inputs if at[x.op.name] > at[op.name]]


def test_inputs_come_first_in_conditionals_and_loops():
    x, v = tf.constant(2.0), tf.Variable(1.0)
    y = tf.cond(x > 1.0, lambda: tf.assign(v, x * 3.0) + x, lambda: x - 1.0)
    z = tf.while_loop(lambda i: i < 10.0 * x,
                      lambda i: tf.cond(i > 5.0, lambda: i + y, lambda: i * x), [1.0])
    graph = tf.get_default_graph()
    assert in_order(graph) == []
    names = [node.name for node in graph.as_graph_def().node]
    assert names == [op.name for op in graph.get_operations()]
    assert [op._id for op in graph.get_operations()] == list(range(1, len(names) + 1))
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert sess.run(z) == 24.0          # 1, 2, 4, 8, 16, 24


A = [[[2.0, 3.0], [-4.0, 3.0]], [[0.0, 0.0], [1.0, -2.0]], [[4.0, -4.0], [-2.0, -1.0]]]
B = [[[1.0, -1.0], [-3.0, -4.0]], [[-4.0, -4.0], [-3.0, 4.0]], [[-3.0, 1.0], [2.0, -2.0]]]


def test_mean_pairwise_squared_error():
    """Values: TensorFlow 2.21, compat.v1."""
    loss = tf.losses.mean_pairwise_squared_error
    found = [loss(A, B), loss(A, B, weights=[[[2.0]], [[0.0]], [[0.5]]]), loss(A, B, weights=0.0)]
    assert tf.losses.get_losses() == found
    with tf.Session() as sess:
        np.testing.assert_allclose(sess.run(found), [135.0, 79.25, 0.0], rtol=1e-6)


def test_weights_that_do_not_fit_are_refused_in_a_run():
    weights, values = tf.placeholder(tf.float32), tf.placeholder(tf.float32, [None, 2])
    loss = tf.losses.mean_squared_error(tf.zeros_like(values), values, weights=weights)
    mean, update = tf.metrics.mean(values, weights=weights)
    given = np.ones((3, 2))
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        for fits in (2.0, [[2.0, 1.0]], [[1.0], [2.0], [3.0]], np.ones((3, 2))):
            wanted = np.broadcast_to(fits, (3, 2))
            assert sess.run(loss, {weights: fits, values: given}) == pytest.approx(wanted.mean())
            sess.run(update, {weights: fits, values: given})
        for op, bad in ((loss, [1.0]), (loss, [1.0, 2.0]), (loss, [[1.0, 2.0, 3.0]]),
                        (loss, [[[1.0]]]), (update, [[1.0, 2.0, 3.0]]), (update, [1.0, 2.0])):
            with pytest.raises(tf.errors.InvalidArgumentError, match="can not be broadcast"):
                sess.run(op, {weights: bad, values: given})
    for bad in ([1.0, 1.0], [[1.0], [1.0], [1.0]]):
        with pytest.raises(ValueError, match="weights can not be broadcast to values"):
            tf.losses.mean_squared_error(tf.zeros([2, 2]), tf.ones([2, 2]), weights=bad)


def test_a_colocation_with_a_number():
    with tf.colocate_with(3):
        x = tf.constant(1.0)
    assert x.op.colocation_groups() == [b"loc:@Const"]


def test_parts_of_a_variable_have_the_initial_values_dtype():
    parts = tf.create_partitioned_variables([4], [2], tf.constant([1, 2, 3, 4]))
    assert [v.dtype.base_dtype for v in parts] == [tf.int32] * 2
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert [x.tolist() for x in sess.run(parts)] == [[1, 2], [3, 4]]


def test_a_queue_out_of_range_is_refused_when_it_is_used():
    queues = [tf.FIFOQueue(2, tf.float32, shapes=[[]]) for _ in range(2)]
    chosen = tf.QueueBase.from_list(2, queues)
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"is not in \[0, 2\)"):
            sess.run(chosen.size())


def test_a_copied_cell_computes_the_same():
    cell = tf.nn.rnn_cell.LSTMCell(3, activation=tf.nn.relu)
    assert copy.deepcopy(cell)._activation is cell._activation
    assert copy.copy(tf.nn.relu) is tf.nn.relu


def test_an_embedding_around_a_cell():
    cell = tf.contrib.rnn.EmbeddingWrapper(tf.nn.rnn_cell.BasicRNNCell(2), 5, 3)
    cell(tf.constant([1, 4]), tf.zeros([2, 2]))
    table, = [v for v in tf.global_variables() if v.name.endswith("embedding:0")]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert np.abs(sess.run(table)).max() < 3 ** 0.5 and table.shape == (5, 3)


def test_modules_of_tensorflow():
    tf = coverage._tensorflow()
    ops = tf.python.ops
    assert ops.sparse_grad.__name__.endswith("tensorflow.python.ops.sparse_grad")
    with pytest.raises(AttributeError, match="no attribute 'NoSuch'"):
        ops.distributions.beta.NoSuch
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tf.contrib.nothing
    seq2seq = tf.contrib.legacy_seq2seq.python.ops.seq2seq
    assert seq2seq.rnn_decoder is tf.contrib.legacy_seq2seq.rnn_decoder
    var = ops.state_ops.variable_op([2], tf.float32)
    set_ = tf.assign(var, [3.0, 4.0])
    grad = ops.array_ops.strided_slice_grad([4], [1], [3], [1], tf.constant([5.0, 6.0]))
    shape = ops.math_ops.reduced_shape([2, 3, 5], [1, -1])
    with tf.Session() as sess:
        sess.run(set_)
        found = sess.run([var, grad, shape])
    assert [x.tolist() for x in found] == [[3.0, 4.0], [0.0, 5.0, 6.0, 0.0], [2, 1, 1]]


def test_squeezable_dimensions_of_unknown_rank():
    squeeze = coverage._tensorflow().python.ops.confusion_matrix.remove_squeezable_dimensions
    labels, predictions = tf.placeholder(tf.int32), tf.placeholder(tf.int32)
    pairs = squeeze(labels, predictions)
    with tf.Session() as sess:
        for shapes in (((3, 1), (3,)), ((3,), (3, 1)), ((3,), (3,))):
            found = sess.run(pairs, {labels: np.ones(shapes[0]), predictions: np.ones(shapes[1])})
            assert [x.shape for x in found] == [(3,), (3,)]


def test_tails_of_a_normal_distribution():
    """log P(Z <= z) by SciPy's log_ndtr; it does not underflow, and gradients stay finite."""
    x = tf.constant([-30.0, -12.0, -3.0, 0.0, 6.0, 20.0], tf.float64)
    normal = tf.distributions.Normal(tf.constant(0.0, tf.float64), tf.constant(1.0, tf.float64))
    logs, tails = normal.log_cdf(x), normal.log_survival_function(-x)
    wanted = [-454.32124395634327, -75.41067300156881, -6.60772622151035, -0.6931471805599453,
              -9.865876455243719e-10, -2.7536241186061556e-89]
    slope = tf.gradients(logs, x)[0]
    with tf.Session() as sess:
        found, other, slopes, rest = sess.run([logs, tails, slope, normal.survival_function(-x)])
        assert sess.run([normal.event_shape_tensor(), normal.is_scalar_batch()])[0].shape == (0,)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(other, wanted, rtol=1e-6)
    np.testing.assert_allclose(rest, np.exp(wanted), rtol=1e-6)
    assert np.isfinite(slopes).all() and slopes[0] == pytest.approx(30.0, rel=2e-3)


def test_validated_parameters():
    """Known ones when they are given, fed ones in the run."""
    held = tf.placeholder(tf.float32, [2])
    checked = tf.distributions.Bernoulli(probs=held, validate_args=True).probs
    high = tf.distributions.Uniform(held, 2.0, validate_args=True).high
    made = [(checked, [0.5, 1.5], "greater than 1"), (checked, [-0.5, 0.5], "did not hold"),
            (high, [1.0, 2.0], "low >= high")]
    with tf.Session() as sess:
        for tensor, bad, message in made:
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                sess.run(tensor, {held: bad})
            sess.run(tensor, {held: [0.25, 1.0]})
    for make in (lambda: tf.distributions.Bernoulli(probs=1.5, validate_args=True),
                 lambda: tf.distributions.Uniform(2.0, 1.0, validate_args=True)):
        with pytest.raises(tf.errors.InvalidArgumentError):
            make()
