"""Loops that end before their TensorArray is full: what they did not write is zero in the model,
too, and its length stays.  onnxruntime gave the same of each model (1.32.0)."""
import numpy as np
import pytest

import pyflow as tf
from pyflow.interop import onnx
from pyflow.interop.onnx import messages


def _array(steps, dynamic=False, size=6, element=(2,)):
    return tf.TensorArray(tf.float32, size=size, dynamic_size=dynamic, element_shape=element,
                          clear_after_read=False)


def _filled(x, turns, **given):
    """Elements of a loop of `turns` turns over x[6, 2]."""
    def body(i, array):
        return i + 1, array.write(i, x[i] * tf.cast(i + 1, tf.float32))
    return tf.while_loop(lambda i, a: i < turns, body, [0, _array(turns, **given)])[1]


def rnn_with_lengths(x, n):
    lengths = tf.stack([n, n - 1])
    out, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(3), tf.reshape(x, [2, 6, 1]),
                                   sequence_length=lengths, dtype=tf.float32)
    return [out, state, tf.reshape(out, [-1, 6 * 3])]


def rnn_time_major(x, n):
    out, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicRNNCell(3), tf.reshape(x, [6, 2, 1]),
                               sequence_length=tf.stack([n, n]), time_major=True,
                               dtype=tf.float32)
    return [out]


def rnn_both_ways(x, n):
    cells = [tf.nn.rnn_cell.GRUCell(2), tf.nn.rnn_cell.GRUCell(2)]
    out, _ = tf.nn.bidirectional_dynamic_rnn(*cells, tf.reshape(x, [2, 6, 1]),
                                             sequence_length=tf.stack([n, n - 1]),
                                             dtype=tf.float32)
    return list(out)


def stack_and_size(x, n):
    array = _filled(x, n)
    return [array.stack(), array.size(), array.gather([0, 5]), array.read(5), array.concat()]


def size_known_later(x, n):
    return [_filled(x, n, size=n + 2).stack()]


def dynamic_beyond_its_size(x, n):
    array = _filled(x, n, dynamic=True, size=2)
    return [array.stack(), array.size()]


def dynamic_within_its_size(x, n):
    array = _filled(x, n, dynamic=True, size=6)
    return [array.stack(), array.size()]


def dynamic_from_nothing(x, n):
    array = _filled(x, n, dynamic=True, size=0)
    return [array.stack(), array.size()]


def two_ways_to_end(x, n):
    def body(i, array):
        return i + 1, array.write(i, x[i])
    test = lambda i, array: tf.logical_and(i < 6, tf.reduce_sum(x[i]) < 6.5)  # noqa: E731
    return [tf.while_loop(test, body, [0, _array(n)])[1].stack()]


def at_most(x, n):
    def body(i, array):
        return i + 1, array.write(i, x[i])
    return [tf.while_loop(lambda i, a: i < 6, body, [0, _array(n)],
                          maximum_iterations=n)[1].stack()]


def one_element_written_anew(x, n):
    def body(i, array):
        return i + 1, array.write(i, x[0])
    made = tf.while_loop(lambda i, a: i < tf.minimum(n, 1), body, [0, _array(n, size=1)])[1]
    return [made.stack(), made.size()]


def functional(x, n):
    whole = tf.map_fn(lambda row: row * 2, x)
    sums = tf.scan(lambda a, row: a + row, x)
    return [whole, sums, tf.reshape(whole, [3, 4])]


EARLY = (rnn_with_lengths, rnn_time_major, rnn_both_ways, stack_and_size, size_known_later,
         dynamic_beyond_its_size, dynamic_within_its_size, dynamic_from_nothing, two_ways_to_end,
         at_most, one_element_written_anew)


def exported(make):
    """(the model's bytes, what a session says for a number of turns)."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(3)
        x, n = tf.placeholder(tf.float32, [6, 2], name="x"), tf.placeholder(tf.int32, [], name="n")
        outputs = [tf.identity(y, f"y{k}") for k, y in enumerate(make(x, n))]
        session = tf.Session(graph=graph)
        session.run(tf.global_variables_initializer())
        return (onnx.export(outputs, [x, n], session=session),
                lambda feed: session.run(outputs, {x: feed[0], n: feed[1]}))


@pytest.mark.parametrize("make", EARLY, ids=lambda f: f.__name__)
def test_what_a_loop_left_out_is_zero(make):
    data, run = exported(make)
    back = onnx.prepare(data)
    rows = np.arange(12, dtype=np.float32).reshape(6, 2) * 0.5
    for turns in ((0, 1) if make is one_element_written_anew else (2, 3)):
        feed = [rows, np.int32(turns)]
        for found, wanted in zip(back.run(feed), run(feed), strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_full_list_is_not_padded():
    """map_fn and scan make a turn an element: nothing is added to their models."""
    data, run = exported(functional)
    assert "Pad" not in {node.op_type for node in messages.read(data).graph.node}
    feed = [np.ones([6, 2], np.float32), np.int32(6)]
    for found, wanted in zip(onnx.prepare(data).run(feed), run(feed), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
