"""Steps that last: others can cancel them and ask what they wait for."""
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
from pyflow import _executor
from pyflow.session import stuck


def long_product(n=700, times=400):
    x = tf.placeholder(tf.float32, [n, n])
    y = x
    for _ in range(times):
        y = tf.matmul(y, x) * 1e-3
    return x, y, np.ones((n, n), np.float32)


def single_kernel_seconds(n=700):
    a = np.ones((n, n), np.float32)
    start = time.perf_counter()
    for _ in range(3):
        a @ a
    return (time.perf_counter() - start) / 3


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
def test_a_deadline_ends_a_step_of_synchronous_kernels(threads):
    x, y, ones = long_product()
    with tf.Session(threads=threads) as session:
        start = clock()
        with pytest.raises(tf.errors.DeadlineExceededError, match="[Tt]imed out"):
            session.run(y, {x: ones}, options=tf.RunOptions(timeout_in_ms=100))
        assert clock() - start < 0.1 + 0.5 + 20 * single_kernel_seconds()
        assert session.run(tf.reduce_sum(x[:1, :3]), {x: ones}) == 3


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
def test_close_from_another_thread_ends_a_step_of_synchronous_kernels(threads):
    x, y, ones = long_product()
    session = tf.Session(threads=threads)
    closer = threading.Timer(0.15, session.close)
    closer.start()
    start = clock()
    with pytest.raises(tf.errors.CancelledError, match="session was closed"):
        session.run(y, {x: ones})
    assert clock() - start < 0.15 + 1.0 + 20 * single_kernel_seconds()
    closer.join()


def test_close_ends_only_the_sessions_own_steps():
    i = tf.constant(0)
    endless = tf.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 7, [i])
    a, b = tf.Session(), tf.Session()
    ended = []

    def run(session):
        with pytest.raises(tf.errors.CancelledError):
            session.run(endless)
        ended.append(session)
    threads = [threading.Thread(target=run, args=(s,)) for s in (a, b)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    a.close()
    threads[0].join(5)
    assert ended == [a] and threads[1].is_alive()
    b.close()
    threads[1].join(5)
    assert ended == [a, b]


def test_the_report_names_what_runs_and_what_waits():
    go = threading.Event()

    def wait():
        go.wait(10)
        return np.float32(1)
    slow = tf.py_func(wait, [], tf.float32, name="slow", stateful=True)
    slow.set_shape([])
    later = tf.add(slow, 1.0, name="later")
    with tf.Session() as session:
        thread = threading.Thread(target=lambda: session.run(later))
        thread.start()
        deadline = time.time() + 5
        while "slow" not in stuck.report() and time.time() < deadline:
            time.sleep(0.01)
        report = stuck.report()
        go.set()
        thread.join()
    assert "not completed: slow (PyFunc" in report or "running: slow (PyFunc" in report
    assert "waiting: later (Add" in report and "for slow (PyFunc" in report
    assert "no step" in stuck.report()


def test_sigusr1_prints_the_report_while_run_blocks():
    program = """
import pyflow as tf, sys
i = tf.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 7, [0], name="endless")
with tf.Session() as session:
    session.run(tf.constant(0))
    print("ready", flush=True)
    session.run(i)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    os.kill(child.pid, signal.SIGUSR1)
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=10)
    assert "running:" in said and "endless" in said, said
    assert "KeyboardInterrupt" in said


def test_a_programs_own_handler_stays():
    program = """
import signal, pyflow as tf
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
with tf.Session() as session:
    session.run(tf.constant(0))
assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_memory_is_given_back_when_the_last_session_closes():
    tf.release_memory()
    others = _executor.memory_stats()["cached"]     # of threads that other tests left waiting
    x = tf.placeholder(tf.float32, [1 << 22])
    y = x
    for _ in range(4):
        y = tf.sin(y)
    with tf.Session() as session:
        session.run(y, {x: np.zeros(1 << 22, np.float32)})
        assert _executor.memory_stats()["cached"] > others + (14 << 20)
    tf.release_memory()                 # sessions of other tests may be open still
    assert _executor.memory_stats()["cached"] < others + (1 << 20)
