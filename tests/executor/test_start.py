"""Steps without a caller's thread (Plan.start): values, callbacks, cancelling, deadlines, many at once."""

import gc
import os
import threading

import numpy as np
import pytest
from quiet import clock

import pyflow as tf
from pyflow.session import contract

THREADS = (1, 2, 4)


def started(session, fetch, feeds, done=None, **options):
    step, values = session._step_for(fetch, feeds)
    return step.compiled.plan.start(values, contract.RunOptions(**options), done)


def loop(n, body=lambda v: v * 1.5 - 0.5):
    return tf.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, body(v)), [0, tf.ones([64])])[1]


@pytest.mark.parametrize("threads", THREADS)
def test_results_are_those_of_run(threads):
    x = tf.placeholder(tf.float32, [None])
    y = [tf.reduce_sum(tf.nn.relu(x * k)) for k in range(1, 30)]
    total, looped = tf.add_n(y), loop(100, lambda v: v * 0.9 + 0.1)
    with tf.Session(threads=threads) as session:
        feeds = {x: np.arange(-5, 10, dtype=np.float32)}
        expected = session.run([total, looped], feeds)
        for _ in range(50):
            under_way = [started(session, [total, looped], feeds) for _ in range(20)]
            for one in under_way:
                for a, b in zip(one.result(), expected):
                    np.testing.assert_array_equal(a, b)


def test_nothing_to_run_and_tiny_plans_are_over_at_once():
    x = tf.placeholder(tf.float32, [2])
    with tf.Session() as session:
        one = started(session, tf.no_op(), {})
        assert one.done() and one.result() == []
        one = started(session, x + 1, {x: [1, 2]})
        assert one.done()
        np.testing.assert_array_equal(one.result()[0], [2, 3])
        with pytest.raises(RuntimeError, match="taken already"):
            one.result()


@pytest.mark.parametrize("threads", THREADS)
def test_callbacks(threads):
    x = tf.placeholder(tf.float32, [])
    y = loop(50) + x
    seen, all_seen = [], threading.Event()

    def landed(one):
        seen.append(one.result()[0][0])
        if len(seen) == 200:
            all_seen.set()

    with tf.Session(threads=threads) as session:
        for k in range(200):
            started(session, y, {x: k}, landed)        # nobody keeps it
        assert all_seen.wait(60)
        base = session.run(y, {x: 0})[0]
    np.testing.assert_allclose(sorted(seen), base + np.arange(200), rtol=1e-6)


@pytest.mark.parametrize("threads", (1, 2))
def test_errors_arrive(threads):
    x = tf.placeholder(tf.float32, [2])
    bad = tf.check_numerics(loop(5)[:2] * x, "not a number here", name="checked")
    with tf.Session(threads=threads) as session:
        one = started(session, bad, {x: [np.nan, 1]})
        with pytest.raises(Exception, match="not a number here") as caught:
            one.result()
        assert caught.value.node == "checked" and caught.value.code == 3


def test_bad_feeds_are_refused_before_anything_begins():
    x = tf.placeholder(tf.float32, [2])
    with tf.Session() as session:
        step, _ = session._step_for(x + 1, {x: [1, 2]})
        with pytest.raises(ValueError, match="takes 1 arguments, got 2"):
            step.compiled.plan.start([1, 2])
        with pytest.raises(ValueError, match="shape"):
            step.compiled.plan.start([np.ones(3, np.float32)])


@pytest.mark.parametrize("threads", THREADS)
def test_deadlines_and_cancel(threads):
    endless = tf.while_loop(lambda i: i >= 0, lambda i: i + tf.cast(i < 0, tf.int32), [0])
    with tf.Session(threads=threads) as session:
        one = started(session, endless, {}, timeout_ms=50)
        with pytest.raises(Exception, match="did not finish in the time") as caught:
            one.result(20)
        assert caught.value.code == 4
        two = started(session, endless, {})
        assert not two.wait(0.05)
        with pytest.raises(TimeoutError):
            two.result(0.01)
        two.cancel()
        with pytest.raises(Exception, match="cancelled"):
            two.result(20)


def test_a_dropped_step_is_cancelled_and_closing_cancels():
    endless = tf.while_loop(lambda i: i >= 0, lambda i: i + tf.cast(i < 0, tf.int32), [0])
    session = tf.Session(threads=2)
    one = started(session, endless, {})
    began = clock()
    del one
    gc.collect()
    assert clock() - began < 10
    two = started(session, endless, {})
    session.close()
    with pytest.raises(Exception, match="closed"):
        two.result(20)


@pytest.mark.parametrize("threads", (1, 2))
def test_py_functions_run_without_a_caller(threads):
    names = []

    def double(v):
        names.append(threading.current_thread())
        return v * 2

    x = tf.placeholder(tf.float32, [3])
    y = tf.py_func(double, [x], tf.float32)
    with tf.Session(threads=threads) as session:
        one = started(session, y, {x: [1, 2, 3]})
        np.testing.assert_array_equal(one.result(20)[0], [2, 4, 6])
    assert names[0] is not threading.main_thread()


def test_steps_of_callers_and_steps_without_share_a_pool():
    """On one thread too: each finds its own items."""
    x = tf.placeholder(tf.float32, [])
    y = loop(200) * x
    for threads in THREADS:
        with tf.Session(threads=threads) as session:
            expected = session.run(y, {x: 2})
            stop, wrong = threading.Event(), []

            def call(session=session, expected=expected, stop=stop, wrong=wrong):
                while not stop.is_set():
                    if not np.array_equal(session.run(y, {x: 2}), expected):
                        wrong.append(1)

            callers = [threading.Thread(target=call) for _ in range(2)]
            for t in callers:
                t.start()
            for _ in range(100):
                assert np.array_equal(started(session, y, {x: 2}).result(30)[0], expected)
            stop.set()
            for t in callers:
                t.join()
            assert not wrong


def test_after_fork_the_child_starts_steps_of_its_own():
    x = tf.placeholder(tf.float32, [])
    y = loop(50) + x
    with tf.Session(threads=2) as session:
        expected = session.run(y, {x: 1})
        started(session, y, {x: 1}, timeout_ms=60000).result(30)
        child = os.fork()
        if child == 0:
            ok = np.array_equal(started(session, y, {x: 1}, timeout_ms=60000).result(30)[0], expected)
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
