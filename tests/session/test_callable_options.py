"""Session._make_callable_from_options: a CallableOptions message as a function, as Keras calls it for every batch."""
import numpy as np
import pytest

import pyflow as tf
from pyflow.core.protobuf import config_pb2


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


@pytest.fixture
def sess(graph):
    with tf.Session(graph=graph) as s:
        yield s


def make(sess, joined=(), **fields):
    options = config_pb2.CallableOptions(**fields)
    for here, there in joined:
        options.tensor_connection.add(from_tensor=here.name, to_tensor=there.name)
    return sess._make_callable_from_options(options)


def test_fetches_targets_and_options(sess):
    x = tf.placeholder(tf.float32, [None], name="x")
    v = tf.Variable(0.0)
    y, update = x * 2 + 1, tf.assign_add(v, tf.reduce_sum(x))
    sess.run(v.initializer)
    call = make(sess, feed=[x.name], fetch=[y.name, x.name], target=[update.op.name])
    for _ in range(2):
        y_value, x_value = call(np.float32([1, 2]))
        assert y_value.tolist() == [3, 5] and x_value.tolist() == [1, 2]
    tf.add(x, 1)                                        # the graph may grow
    assert call([4.0])[0].tolist() == [9] and sess.run(v) == 10
    metadata = tf.RunMetadata()
    options = config_pb2.CallableOptions(feed=[x.name], fetch=[y.name])
    options.run_options.trace_level = tf.RunOptions.FULL_TRACE
    assert sess._make_callable_from_options(options)([1.0], run_metadata=metadata)[0] == [3]
    assert metadata.step_stats.dev_stats
    options.run_options.timeout_in_ms = 50
    options.fetch[:] = [tf.FIFOQueue(1, tf.float32).dequeue().name]
    with pytest.raises(tf.errors.DeadlineExceededError):
        sess._make_callable_from_options(options)([1.0])


def test_what_reads_one_tensor_reads_another(sess):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + x), (0, tf.zeros([2])))[1]
    with tf.control_dependencies([x]):
        after = tf.constant(7.0) + 0
    counter = tf.Variable(0.0)
    later = tf.stack([tf.assign_add(counter, 1.0), 10.0])       # younger than all that reads it
    sess.run(counter.initializer)
    call = make(sess, [(later, x)], fetch=[y.name, later.name, after.name])
    for step in (1, 2):
        got = call()                                            # once per step
        assert got[0].tolist() == [3 * step, 30] and got[1].tolist() == [step, 10] and got[2] == 7
    half = tf.placeholder(tf.float32, [])
    call = make(sess, [(half * later, x)], feed=[half.name], fetch=[y.name])
    assert call(np.float32(0.5))[0].tolist() == [4.5, 15]
    assert sess.run(y, {x: [1, 2]}).tolist() == [3, 6]          # the graph is as it was


def test_wrong_options_are_refused(sess):
    x, y = tf.placeholder(tf.float32, [2], name="x"), tf.placeholder(tf.int32, [2], name="y")
    z, wide = x + 1, tf.constant([1.0, 2.0])
    refused = tf.errors.InvalidArgumentError            # as TensorFlow
    with pytest.raises(refused, match="computed from: a cycle through 'add'"):
        make(sess, [(z, x)], fetch=[z.name])
    with pytest.raises(refused, match="'x:0' fed more than once"):
        make(sess, [(wide, x)], feed=["x:0"], fetch=[z.name])
    with pytest.raises(refused, match="connects 'Const:0', float32, to 'y:0', which is int32: use tf.cast"):
        make(sess, [(wide, y)], fetch=[z.name])
    for fields in (dict(fetch=["nothing:0"]), dict(feed=["nothing:0"]), dict(target=["nothing"]), dict(fetch=["x:1"])):
        with pytest.raises(refused, match="CallableOptions: .*(nothing|'x')"):
            make(sess, **fields)
    call = make(sess, feed=["x:0"], fetch=[z.name])
    with pytest.raises(refused, match="Expected 1 feed tensors, but got 0"):
        call()
    with pytest.raises(refused, match="Expected 1 feed tensors, but got 2"):
        call([1.0, 2.0], [1.0, 2.0], run_metadata=tf.RunMetadata())
    sess.close()
    with pytest.raises(RuntimeError, match="closed"):
        call([1.0, 2.0])
