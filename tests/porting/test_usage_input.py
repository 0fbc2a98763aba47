"""Input by queues and monitored sessions as TF 1.x programs write it, with the values they get."""
import threading

import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def drained(tensors, runs=100):
    """What the tensors give until their input ends."""
    got = []
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord = tf.train.Coordinator(clean_stop_exception_types=(tf.errors.OutOfRangeError,))
        threads = tf.train.start_queue_runners(sess, coord=coord)
        try:
            for _ in range(runs):
                got.append(sess.run(tensors))
        except tf.errors.OutOfRangeError:
            pass
        coord.request_stop()
        coord.join(threads)
    return got


def test_string_input_producer():
    queue = tf.train.string_input_producer(["a", "b"], num_epochs=2, shuffle=False)
    assert drained(queue.dequeue()) == [b"a", b"b", b"a", b"b"]


def test_batch():
    item = tf.train.limit_epochs(tf.constant([1, 2, 3]), num_epochs=3)
    x = tf.train.batch([item], batch_size=2, allow_smaller_final_batch=True)
    assert [value.shape for value in drained(x)] == [(2, 3), (1, 3)]


def test_shuffle_batch():
    rows = tf.train.limit_epochs(tf.range(20), num_epochs=1)
    x = tf.train.shuffle_batch([rows], batch_size=5, capacity=40, min_after_dequeue=5,
                               enqueue_many=True, seed=3)
    got = np.concatenate(drained(x))
    assert sorted(got.tolist()) == list(range(20)) and got.tolist() != list(range(20))


def test_batch_join():
    pairs = [[tf.train.limit_epochs(tf.constant([i, i]), num_epochs=2)] for i in (1, 2)]
    x = tf.train.batch_join(pairs, batch_size=2, enqueue_many=True)
    assert sorted(np.concatenate(drained(x)).tolist()) == [1, 1, 1, 1, 2, 2, 2, 2]


def test_add_queue_runner():
    queue = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    runner = tf.train.QueueRunner(queue, [queue.enqueue_many([[1, 2]])])
    tf.train.queue_runner.add_queue_runner(runner, collection="mine")
    with tf.Session() as sess:
        threads = tf.train.start_queue_runners(sess, collection="mine")
        assert sess.run([queue.dequeue(), queue.dequeue()]) in ([1, 2], [2, 1])
        assert threads and tf.get_collection("mine") == [runner]


def test_coordinator():
    coord = tf.train.Coordinator(clean_stop_exception_types=(KeyError,))
    seen = []

    def work():
        with coord.stop_on_exception():
            seen.append(1)
            raise KeyError("a clean stop")
    thread = threading.Thread(target=work)
    thread.start()
    coord.join([thread])
    assert coord.should_stop() and seen == [1]


def test_session_run_args():
    x = tf.placeholder(tf.float32, [])
    twice = x * 2.0

    class Fed(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs(fetches=twice, feed_dict={x: 3.0})

        def after_run(self, run_context, run_values):
            self.found = run_values.results
    hook, more = Fed(), x + 1.0
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        assert sess.run(more) == 4.0
    assert hook.found == 6.0
