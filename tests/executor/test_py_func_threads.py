"""py_funcs that wait for each other: one that waits behind another of its step goes to a thread of its
own after a while; else all run on the thread that called run, one after the other."""
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from quiet import clock

import pyflow as tf


@pytest.fixture(autouse=True)
def _graph_of_its_own():
    with tf.Graph().as_default():
        yield


def calls(function, n):
    return [tf.py_func(function, [tf.constant(float(i))], tf.float32) for i in range(n)]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_those_that_wait_for_each_other_meet(threads):
    """TensorFlow runs them side by side; here this hung for ever."""
    meeting = threading.Barrier(5)

    def wait(x):
        meeting.wait(20)
        return np.float32(x + 1)
    waiting = calls(wait, 5)
    with tf.Session(threads=threads) as sess:
        start = clock()
        for _ in range(3):
            assert sess.run(waiting) == [1, 2, 3, 4, 5]
        assert clock() - start < 5


def test_one_that_waits_for_a_later_one():
    """Which is reached only behind other work; and their results go on."""
    there = threading.Event()

    def release(x):
        there.set()
        return np.float32(x)
    waits = tf.py_func(lambda x: np.float32(x + there.wait(20)), [tf.constant(1.0)], tf.float32)
    frees = tf.py_func(release, [tf.reduce_sum(tf.sqrt(tf.ones([300, 300])))], tf.float32)
    with tf.Session() as sess:
        assert sess.run(waits * 2 + frees) == 2 * 2 + 90000


def test_quick_ones_stay_on_the_callers_thread():
    seen = []
    quick = calls(lambda x: seen.append(threading.get_ident()) or x, 200)
    with tf.Session() as sess:
        for _ in range(20):
            sess.run(quick)
    assert set(seen) == {threading.get_ident()} and len(seen) == 4000


def test_steps_do_not_help_each_other():
    """A call waits for its own step's caller, whatever other steps do."""
    seen = {}
    slow = tf.py_func(lambda x: time.sleep(0.1) or x, [tf.constant(1.0)], tf.float32)
    key = tf.placeholder(tf.int64, [])

    def note(k):
        seen.setdefault(int(k), set()).add(threading.get_ident())
        return k
    quick = tf.py_func(note, [key], tf.int64)
    with tf.Session() as sess:
        other = threading.Thread(target=sess.run, args=(slow,))
        other.start()
        while other.is_alive():
            sess.run(quick, {key: 7})
        other.join()
    assert seen == {7: {threading.get_ident()}}


def test_an_error_aside_is_the_steps():
    def fail(x):
        time.sleep(0.1)
        raise ValueError(f"call {x} failed")
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"ValueError: call \d.0 failed"):
            sess.run(calls(fail, 3))
        assert sess.run(tf.constant(1)) == 1


def test_a_run_within_one_that_went_aside():
    inner, meeting = tf.placeholder(tf.float32, []) * 2.0, threading.Barrier(2)
    fed = inner.op.inputs[0]
    with tf.Session() as sess:
        def nested(x):
            meeting.wait(20)
            return sess.run(inner, {fed: x})
        assert sess.run(calls(nested, 2)) == [0, 2]


HANGS = """
    import threading
    import pyflow as tf
    for_ever = threading.Event()
    calls = [tf.py_func(lambda x: for_ever.wait(0.3) or x, [1.0], tf.float32),
             tf.py_func(lambda x: for_ever.wait() or x, [2.0], tf.float32)]
    with tf.Session() as sess:
        try:
            sess.run(calls, options=tf.RunOptions(timeout_in_ms=400))
        except tf.errors.DeadlineExceededError:
            print("late", flush=True)
"""


def test_the_process_ends_though_one_aside_does_not():
    """3 s after its deadline the step gives the call up; the thread that hangs keeps nobody."""
    start = clock()
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(HANGS)], capture_output=True, text=True,
                          timeout=60, check=False, env={**os.environ})
    assert (done.returncode, done.stdout) == (0, "late\n"), done.stderr[-2000:]
    assert clock() - start < 20


def test_a_forked_child_has_its_own():
    """The parent's calls that wait, and the thread that looks after them, are none of the child's."""
    meeting = threading.Barrier(2)
    two = calls(lambda x: meeting.wait(20) and x or x, 2)
    release = threading.Event()
    held = [tf.py_func(lambda x: release.wait(20) and x, [1.0], tf.float32) for _ in range(3)]
    with tf.Session() as sess:
        sess.run(two)
        busy = threading.Thread(target=sess.run, args=(held,))
        busy.start()
        time.sleep(0.05)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                meeting = threading.Barrier(2)
                with tf.Session(threads=2) as own:
                    code = 0 if own.run(two) == [0, 1] else 2
            finally:
                os._exit(code)
        release.set()
        busy.join()
        assert os.waitpid(child, 0)[1] == 0
