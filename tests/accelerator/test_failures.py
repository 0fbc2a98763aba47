"""A device that fails: each failure the fake accelerator can be told to have is one clean error of
the step, naming what can be named, and later steps work.

An error of the device stays on its streams until somebody settles it (README of the example), so
the tests do that before they go on.
"""

import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import pyflow as tf
from pyflow import plugins


def on(name):
    return tf.device("/device:" + name)


def graph():
    """(feed, fetch): copies in and out, a copy between the devices, kernels on both."""
    with on("FAKE:0"):
        x = tf.placeholder(tf.float32, [4])
        y = tf.reduce_sum(x * 2 + 1, 0, keepdims=True)
    with on("FAKE:1"):
        return x, tf.tanh(y) * 3


def works(session, x, y):
    found = session.run(y, {x: [0.1, 0.2, 0.3, 0.4]})
    np.testing.assert_allclose(found, np.tanh([6.0]) * 3, rtol=1e-6)


def settle(fake):
    return sum(device.settle() for device in fake)


FAILURES = [  # device, knob, at which call, status
    (0, "fail_copy", 1, 13, tf.errors.InternalError),  # in
    (1, "fail_copy", 1, 14, tf.errors.UnavailableError),  # from the other device
    (1, "fail_copy", 2, 10, tf.errors.AbortedError),  # out
    (0, "fail_copy_late", 1, 13, tf.errors.InternalError),
    (1, "fail_copy_late", 1, 15, tf.errors.DataLossError),
    (1, "fail_copy_late", 2, 14, tf.errors.UnavailableError),
    (0, "fail_launch", 1, 13, tf.errors.InternalError),
    (0, "fail_launch", 3, 3, tf.errors.InvalidArgumentError),
    (0, "fail_launch_late", 1, 13, tf.errors.InternalError),
    (1, "fail_launch_late", 2, 10, tf.errors.AbortedError),
    (0, "fail_event", 1, 13, tf.errors.InternalError),
    (0, "fail_event", 2, 14, tf.errors.UnavailableError),
    (1, "fail_event", 1, 13, tf.errors.InternalError),
    (1, "fail_event", 3, 14, tf.errors.UnavailableError),
]


@pytest.mark.parametrize("delay", [0, 300])
@pytest.mark.parametrize("device, knob, count, status, error", FAILURES)
def test_each_failure_is_an_error_of_the_step(fake, device, knob, count, status, error, delay):
    x, y = graph()
    with tf.Session() as session:
        works(session, x, y)
        for one in fake:
            one.set(delay_us=delay)
        for _ in range(2):
            fake[device].set(**{knob: count}, fail_status=status)
            with pytest.raises(error) as caught:
                session.run(y, {x: np.ones(4, np.float32)})
            assert "/device:FAKE:" in str(caught.value), str(caught.value)
            fake[device].set(**{knob: 0})
            settle(fake)
            for _ in range(3):
                works(session, x, y)


def test_a_failed_allocation_is_tried_again(fake):
    x, y = graph()
    with tf.Session() as session:
        works(session, x, y)
        for count in range(1, 5):
            fake[0].set(fail_alloc=count)
            works(session, x, y)
            assert fake[0]["fail_alloc"] == 0 or count > 2
        fake[0].set(fail_alloc=1, fail_times=10)
        with pytest.raises(tf.errors.ResourceExhaustedError, match="FAKE:0"):
            works(session, x, y)
        fake[0].set(fail_alloc=0, fail_times=1)
        works(session, x, y)


def test_an_error_is_seen_by_every_step_until_it_is_settled(fake):
    x, y = graph()
    with tf.Session() as session:
        works(session, x, y)
        fake[0].set(fail_launch_late=1)
        for _ in range(3):
            with pytest.raises(tf.errors.InternalError):
                works(session, x, y)
        assert settle(fake) >= 1
        works(session, x, y)


def test_a_wrong_index_fails_on_the_stream(fake):
    fake[0].set(delay_us=200)
    with on("FAKE:0"):
        index = tf.placeholder(tf.int32, [2])
        rows = tf.gather(tf.reshape(tf.range(6, dtype=tf.int32), [3, 2]), index)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        assert session.run(rows, {index: [2, 0]}).tolist() == [[4, 5], [0, 1]]
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(rows, {index: [0, 3]})
        settle(fake)
        assert session.run(rows, {index: [1, 1]}).tolist() == [[2, 3], [2, 3]]


def test_a_failure_after_which_a_size_is_asked(fake):
    """A kernel that waits for its stream with `after` ends, though its continuation never runs."""
    with on("FAKE:0"):
        x = tf.placeholder(tf.float32, [4])
        y = tf.where(x > 0)
    with tf.Session() as session:
        session.run(y, {x: [1, -1, 1, -1]})
        for count in (1, 2, 3):
            fake[0].set(fail_launch_late=count)
            with pytest.raises(tf.errors.InternalError):
                session.run(y, {x: [1, -1, 1, -1]})
            fake[0].set(fail_launch_late=0)
            settle(fake)
        assert session.run(y, {x: [1, -1, 1, -1]}).tolist() == [[0], [2]]


def test_a_failure_in_a_loop(fake):
    with on("FAKE:0"):
        x = tf.placeholder(tf.float32, [])
        _, y = tf.while_loop(lambda i, t: i < 10, lambda i, t: (i + 1, t * 2), [0, x])
    with tf.Session() as session:
        assert session.run(y, {x: 1}) == 1024
        for knob in "fail_launch fail_launch_late fail_copy fail_copy_late fail_event".split():
            fake[0].set(**{knob: 9})
            with pytest.raises(tf.errors.InternalError):
                session.run(y, {x: 1})
            fake[0].set(**{knob: 0})
            settle(fake)
            assert session.run(y, {x: 1}) == 1024


def test_a_failed_update_and_the_variable_afterwards(fake):
    with on("FAKE:0"):
        v = tf.get_variable("v", initializer=np.float32([1, 2]), use_resource=True)
        bump = v.assign_add([1.0, 1.0])
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(bump)
        fake[0].set(fail_launch=1)
        with pytest.raises(tf.errors.InternalError):
            session.run(bump)
        assert session.run(v).tolist() == [2, 3]
        session.run(bump)
        assert session.run(v).tolist() == [3, 4]


def test_host_memory_handed_to_the_device_is_an_error(fake):
    with on("FAKE:0"):
        y = plugins.op("fake.Misplaced")(tf.constant([1.0, 2.0]), name="wrong_one")
    with tf.Session() as session:
        with pytest.raises(tf.errors.InternalError, match="wrong_one") as caught:
            session.run(y)
        assert re.search("host pointer 0x[0-9a-f]+ on FAKE:0", str(caught.value))
    assert fake[0]["violations"] == 1 and "host pointer" in fake[0].violation
    fake[0].reset_counters()


def test_a_deadline_while_the_device_works(fake):
    """What is enqueued is waited for, nothing more is launched, and the session goes on."""
    busy = plugins.op("fake.Busy")
    with on("FAKE:0"):
        x = tf.placeholder(tf.float32, [3])
        n = tf.placeholder(tf.int32, [])
        _, y = tf.while_loop(
            lambda i, t: i < n, lambda i, t: (i + 1, busy(t, micros=2000) + 1), [0, x]
        )
    with tf.Session() as session:
        assert session.run(y, {x: [0, 0, 0], n: 3}).tolist() == [3] * 3
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(
                y, {x: [0, 0, 0], n: 100_000}, options=tf.RunOptions(timeout_in_ms=100)
            )
        assert session.run(y, {x: [1, 2, 3], n: 2}).tolist() == [3, 4, 5]
    assert fake[0]["launches"] < 100_000


def test_failures_while_other_threads_run(fake):
    """Steps of four threads either give the right values or fail cleanly; afterwards all work."""
    x, y = graph()
    wrong = []

    def work():
        for _ in range(20):
            try:
                works(session, x, y)
            except tf.errors.InternalError:
                pass
            except Exception as e:
                wrong.append(e)

    with tf.Session() as session:
        works(session, x, y)
        for device in fake:
            device.set(delay_us=50)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for knob in ("fail_copy", "fail_launch", "fail_launch_late", "fail_event"):
            fake[0].set(**{knob: 20})
        for t in threads:
            t.join()
        assert not wrong
        for device in fake:
            device.set(fail_copy=0, fail_launch=0, fail_launch_late=0, fail_event=0)
        settle(fake)
        works(session, x, y)


def test_a_device_that_cannot_be_opened(library):
    program = f"""
import pyflow as tf
tf.load_op_library({str(library)!r})
with tf.device("/device:FAKE:1"):
    y = tf.constant([1.0]) * 2
with tf.device("/device:FAKE:0"):
    z = tf.constant([1.0]) * 2
"""
    asks = {
        "strict": "tf.Session().run(y)",
        "soft": "print(tf.Session(config=tf.ConfigProto(allow_soft_placement=True)).run(z))",
    }
    done = {
        name: subprocess.run(
            [sys.executable, "-c", program + ask],
            capture_output=True,
            text=True,
            env={**os.environ, "PYFLOW_FAKE_FAIL_OPEN": "1"},
        )
        for name, ask in asks.items()
    }
    assert "FAKE:1" in done["strict"].stderr and "Error" in done["strict"].stderr
    assert "[2.]" in done["soft"].stdout, done["soft"].stderr[-2000:]


def test_a_child_after_fork_is_told_that_the_device_is_its_parents(library):
    program = f"""
import os, sys
import pyflow as tf
tf.load_op_library({str(library)!r})
with tf.device("/device:FAKE:0"):
    y = tf.constant([1.0]) * 2
x = tf.constant([3.0]) + 1
session = tf.Session()
assert session.run(y) == 2
child = os.fork()
if child == 0:
    for attempt in (session, tf.Session()):
        try:
            attempt.run(y)
            os._exit(1)
        except tf.errors.OpError as e:
            if "fork" not in str(e):
                print(e)
                os._exit(2)
    os._exit(0 if session.run(x) == 4 else 3)
assert os.waitpid(child, 0)[1] == 0
assert session.run(y) == 2
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
