"""Coordinator, LooperThread and QueueRunner: who stops whom, and what is said about it."""
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from quiet import clock

import pyflow as tf


def test_a_join_that_gives_up_names_the_operation_that_waits():
    q = tf.FIFOQueue(3, tf.float32, shapes=[[]], name="empty")
    coord, take = tf.train.Coordinator(), q.dequeue(name="starved")
    with tf.Session() as sess:
        def work():
            try:
                sess.run(take)
            except tf.errors.CancelledError:
                pass
        thread = threading.Thread(target=work, name="reader", daemon=True)
        thread.start()
        time.sleep(0.05)
        coord.request_stop()
        with pytest.raises(RuntimeError) as failure:
            coord.join([thread], stop_grace_period_secs=0.2)
        assert "threads still running: reader" in str(failure.value)
        assert "starved (QueueDequeueV2)" in str(failure.value)
        coord.clear_stop()
        coord.request_stop()
        coord.join([thread], stop_grace_period_secs=0, ignore_live_threads=True)
    thread.join(10)


MANY = """
    import os, sys, threading, time
    import pyflow as tf
    q = tf.FIFOQueue(-1, [tf.float32, tf.int64], shapes=[(), (2,)])
    takes = [q.dequeue_many(10) for _ in range(200)]
    values = [[float(k) for k in range(10)], [[1, 2]] * 10]
    puts = [tf.group(q.enqueue_many(values)) for _ in range(200)]
    with tf.Session(threads=2) as sess:
        threads = [threading.Thread(target=sess.run, args=(op,), daemon=True)
                   for op in takes + puts]
        for thread in threads[:200]:
            thread.start()
        time.sleep(0.1)
        for thread in threads[200:]:
            thread.start()
        until = time.monotonic() + 30
        for thread in threads:
            thread.join(max(0, until - time.monotonic()))
        print(sum(thread.is_alive() for thread in threads), "never came back", flush=True)
        os._exit(0)
"""


def test_more_callers_at_once_than_a_pool_has_lanes():
    """TensorFlow 1.1's barrier_ops_test does so: a caller without a lane looked for work from a
    lane whose number was never set, and spun on a lock that is none."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(MANY)], capture_output=True,
                          text=True, timeout=120)
    assert done.stdout == "0 never came back\n", done.stdout + done.stderr[-2000:]


def test_what_a_thread_raises_comes_out_of_join():
    coord = tf.train.Coordinator()

    def work():
        with coord.stop_on_exception():
            raise ValueError("on purpose")
    thread = threading.Thread(target=work)
    thread.start()
    with pytest.raises(ValueError, match="on purpose"):
        coord.join([thread])
    assert coord.joined and coord.should_stop()
    with pytest.raises(ValueError, match="on purpose"):
        coord.raise_requested_exception()
    with pytest.raises(KeyError):
        coord.request_stop(KeyError("late"))
    coord.clear_stop()
    assert not coord.joined and not coord.should_stop() and not coord.wait_for_stop(0)


def test_the_end_of_input_is_no_failure():
    coord = tf.train.Coordinator()
    coord.request_stop(tf.errors.OutOfRangeError(None, None, "the end"))
    coord.join([])
    other = tf.train.Coordinator(clean_stop_exception_types=(KeyError,))
    other.request_stop(KeyError())
    other.join()


def test_looper_threads():
    coord, turns = tf.train.Coordinator(), []

    def turn(step):
        turns.append(step)
        if len(turns) == 5:
            coord.request_stop()
    thread = tf.train.LooperThread.loop(coord, 0.001, turn, args=(7,))
    coord.join([thread])
    assert turns == [7] * 5
    with pytest.raises(ValueError, match="Coordinator"):
        tf.train.LooperThread("no coordinator", None)

    class Fails(tf.train.LooperThread):
        def run_loop(self):
            raise KeyError("looped")
    coord = tf.train.Coordinator()
    thread = Fails(coord, None)
    thread.start()
    with pytest.raises(KeyError, match="looped"):
        coord.join()


def runner(count_to=3):
    zero = tf.Variable(0, name="zero", trainable=False)
    q = tf.FIFOQueue(100, tf.int32, shapes=[[]])
    return q, tf.train.QueueRunner(q, [q.enqueue(zero.count_up_to(count_to))])


def test_a_runner_s_threads_close_the_queue_at_the_end_of_input():
    q, qr = runner()
    take = q.dequeue_many(4)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        threads = qr.create_threads(sess, daemon=True)
        assert threads and not qr.create_threads(sess), "they are there already"
        for thread in threads:
            thread.start()
            thread.join(10)
        with pytest.raises(tf.errors.OutOfRangeError, match="closed"):
            sess.run(take)
        assert sess.run(q.size()) == 3 and not qr.exceptions_raised
        assert len(qr.create_threads(sess)) == 1, "they are over: new ones may come"


def test_a_runner_tells_of_failures():
    q = tf.FIFOQueue(100, tf.float32, shapes=[[]])
    bad = tf.train.QueueRunner(q, [q.enqueue(tf.check_numerics(tf.constant(float("nan")), "bad"))])
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = bad.create_threads(sess, coord, start=True)
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
            coord.join(threads)
        assert sess.run(q.is_closed())


def test_runners_refuse_what_they_cannot_use():
    q = tf.FIFOQueue(3, tf.float32, shapes=[[]])
    with pytest.raises(ValueError, match="queue and enqueue_ops"):
        tf.train.QueueRunner(q, [])
    with pytest.raises(TypeError, match="tuple of"):
        tf.train.QueueRunner(q, [q.close()], queue_closed_exception_types=KeyError)
    with pytest.raises(ValueError, match="No default session"):
        tf.train.start_queue_runners()
    with pytest.raises(TypeError, match="tf.Session"):
        tf.train.start_queue_runners(sess="no session")


def test_runners_go_through_a_metagraph(tmp_path):
    n = tf.train.range_input_producer(6, num_epochs=1, shuffle=False).dequeue()
    y = tf.train.batch([n], 3, name="batched")
    message = tf.train.export_meta_graph(str(tmp_path / "graph.meta"))
    assert len(message.collection_def["queue_runners"].bytes_list.value) == 2
    for scope in (None, "imported"):
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.train.import_meta_graph(str(tmp_path / "graph.meta"), import_scope=scope)
            sess.run(tf.local_variables_initializer())
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess, coord)
            name = f"{scope}/{y.name}" if scope else y.name
            assert [sess.run(name).tolist() for _ in range(2)] == [[0, 1, 2], [3, 4, 5]]
            coord.request_stop()
            coord.join(threads)


PROGRAM = """
    import threading, time
    import pyflow as tf
    q = tf.FIFOQueue(3, tf.float32, shapes=[[]])
    take = q.dequeue()
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        def work():
            with coord.stop_on_exception():
                sess.run(take)
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        print("ready", flush=True)
        try:
            %s
        except KeyboardInterrupt:
            print("interrupted", flush=True)
"""


@pytest.mark.alone
@pytest.mark.parametrize("wait", ["coord.join([thread])", "sess.run(take)"])
def test_ctrl_c_ends_it_within_a_second(wait):
    program = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM % wait)],
                               stdout=subprocess.PIPE, text=True, cwd=os.path.dirname(__file__))
    assert program.stdout.readline() == "ready\n"
    time.sleep(0.1)
    began = clock()
    program.send_signal(signal.SIGINT)
    assert program.stdout.readline() == "interrupted\n"
    assert clock() - began < 1
    assert program.wait(20) == 0
