"""The pool: parallel kernels, wake chaining, stealing, concurrent steps, fork, idleness."""
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from quiet import clock

import pyflow as tf

pytestmark = pytest.mark.alone


def wall(session, fetch, feeds=None):
    session.run(fetch, feeds)
    started = time.perf_counter()
    session.run(fetch, feeds)
    return time.perf_counter() - started


def test_wake_chaining_spreads_a_burst(timing):
    x = tf.constant(1.0)
    burst = tf.group(*[timing("Sleep")(x, ms=5).op for _ in range(40)])
    with tf.Session(threads=4) as session:
        taken = min(wall(session, burst) for _ in range(3))
    assert taken < 0.100, f"40 kernels of 5 ms on 4 threads: {taken * 1e3:.0f} ms; one after the other is 200"


def test_one_thread_runs_one_after_the_other(timing):
    x = tf.constant(1.0)
    burst = tf.group(*[timing("Sleep")(x, ms=5).op for _ in range(8)])
    with tf.Session(threads=1) as session:
        assert wall(session, burst) > 0.039


def test_parallel_for_uses_the_pool(timing):
    x = tf.placeholder(tf.float32, [None])
    y = timing("Spread")(x)
    fed = np.zeros(64 * 200, np.float32)
    with tf.Session(threads=1) as one, tf.Session(threads=4) as four:
        np.testing.assert_array_equal(four.run(y, {x: fed}), fed + 1)
        np.testing.assert_array_equal(one.run(y, {x: fed}), fed + 1)
        many = timing("Spread")(timing("Spread")(x))
        np.testing.assert_array_equal(four.run(many, {x: fed}), fed + 2)


def test_both_threads_work_on_every_kernel_of_a_chain(timing):
    """Also where a pool thread took the kernel: then the caller of the step helps with its loop."""
    x = tf.constant(np.zeros(16, np.float32))
    chain = [x]
    for _ in range(30):
        chain.append(timing("Workers")(chain[-1]))
    with tf.Session(threads=2) as session:
        shares = [np.mean(worker) for worker in session.run(chain[1:])]
    shared = sum(0 < share < 1 for share in shares)
    assert shared >= 27, f"two threads worked on {shared} of 30 kernels; share of the second: {shares}"


def test_steps_of_one_session_run_at_once(timing):
    x = tf.placeholder(tf.float32, [])
    y = timing("Sleep")(x * 2.0, ms=40)
    with tf.Session(threads=2) as session:
        session.run(y, {x: 0})
        results = {}

        def step(k):
            results[k] = session.run(y, {x: k})
        threads = [threading.Thread(target=step, args=(k,)) for k in range(6)]
        started = time.perf_counter()
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        taken = time.perf_counter() - started
    assert results == {k: 2.0 * k for k in range(6)}
    assert taken < 0.2, f"six steps of 40 ms side by side took {taken * 1e3:.0f} ms"


def test_many_threads_many_steps():
    x = tf.placeholder(tf.float32, [4])
    n = tf.placeholder(tf.int32, [])
    _, y = tf.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, v + x), [tf.constant(0), tf.zeros([4])])
    wrong = []
    with tf.Session(threads=3) as session:
        def steps(k):
            for turn in range(150):
                got = session.run(y, {x: np.full(4, k, np.float32), n: turn % 7})
                if not np.array_equal(got, np.full(4, k * (turn % 7), np.float32)):
                    wrong.append((k, turn, got))
        threads = [threading.Thread(target=steps, args=(k,)) for k in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


def test_expensive_bodies_of_iterations_run_side_by_side(timing):
    def body(i, total):
        return i + 1, total + tf.cast(timing("Sleep")(i, ms=10), tf.float32) * 0.0 + 1.0

    def loop(parallel):
        return tf.while_loop(lambda i, t: i < 12, body, [tf.constant(0), tf.constant(0.0)], parallel_iterations=parallel)[1]
    wide, narrow = loop(4), loop(1)
    with tf.Session(threads=4) as session:
        assert session.run(wide) == 12.0 and session.run(narrow) == 12.0
        fast, slow = wall(session, wide), wall(session, narrow)
    assert slow > 0.115 and fast < 0.6 * slow, (fast, slow)


def test_idle_means_idle(timing):
    with tf.Session(threads=4) as session:
        session.run(timing("Sleep")(tf.constant(1.0), ms=1))
        before = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - before < 0.05


def test_first_error_wins_and_cancels_the_rest(timing):
    x = tf.constant(1.0)
    bad = timing("Fail")(x, ms=5)
    slow = [timing("Sleep")(timing("Sleep")(x, ms=20), ms=20) for _ in range(50)]
    with tf.Session(threads=2) as session:
        started = clock()
        with pytest.raises(tf.errors.DataLossError, match="failed on purpose") as caught:
            session.run([bad, *slow])
        assert clock() - started < 0.5
        assert caught.value.op is bad.op and "test_threads.py" in str(caught.value)
        assert session.run(slow[0]) == 1.0, "the session goes on"


FORK = """
import os, numpy as np, pyflow as tf
x = tf.placeholder(tf.float32, [2000, 200])
y = tf.reduce_sum(tf.matmul(x, tf.transpose(x)))
s = tf.Session(threads=3)
a = s.run(y, {x: np.ones((2000, 200), np.float32)})
pid = os.fork()
b = s.run(y, {x: np.ones((2000, 200), np.float32)})
assert a == b, (a, b)
if pid == 0:
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print("both ran")
"""


def test_a_forked_child_works():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip().endswith("both ran"), done.stderr


def test_interrupt_ends_a_blocked_run(timing):
    turns = tf.placeholder(tf.int32, [])
    endless = tf.while_loop(lambda i: i < turns, lambda i: i * 1, [tf.constant(0)])
    with tf.Session(threads=2) as session:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        started = clock()
        with pytest.raises(KeyboardInterrupt):
            session.run(endless, {turns: 5})
        assert clock() - started < 1.3


def test_deadline_ends_an_endless_loop():
    endless = tf.while_loop(lambda i: i < 5, lambda i: i * 1, [tf.constant(0)])
    with tf.Session() as session:
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(endless, options=tf.RunOptions(timeout_in_ms=100))


def test_a_small_product_is_part_of_a_tiny_step():
    """Its own cost function says so: no lock is given back, no clock is read, as for an addition."""
    a = np.ones((4, 4), np.float32)
    x = tf.placeholder(tf.float32, (4, 4))
    y = tf.placeholder(tf.float32, (4, 4))
    with tf.Session(threads=1) as session:
        product, total = (session.make_callable(op(x, y), [x, y]) for op in (tf.matmul, tf.add))
        best = {product: 1.0, total: 1.0}
        for _ in range(50):
            for call in best:
                started = time.perf_counter()
                for _ in range(500):
                    call(a, a)
                best[call] = min(best[call], time.perf_counter() - started)
    assert best[product] < 1.5 * best[total], best


@pytest.mark.parametrize("shape", [(None, None), (900, 900)])
def test_a_large_product_releases_the_lock_of_python(shape):
    """Also where its size is not known before it runs."""
    a = np.ones((900, 900), np.float32)
    x = tf.placeholder(tf.float32, shape)
    with tf.Session(threads=1) as session:
        call = session.make_callable(tf.matmul(x, x), [x])
        call(a)
        started = time.perf_counter()
        call(a)
        taken, done, runs = time.perf_counter() - started, threading.Event(), 20

        def work():
            for _ in range(runs):
                call(a)
            done.set()

        thread = threading.Thread(target=work)
        turns, began = 0, time.perf_counter()
        thread.start()
        while not done.is_set():
            turns += 1
            time.sleep(taken / 20)
        thread.join()
        assert turns > 3 * runs, f"{turns} turns in {runs} products of {taken * 1e3:.1f} ms"
