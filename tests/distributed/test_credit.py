"""A consumer that sleeps: its producer, in another process, keeps within its credits, and is not blocked by it."""
import os
import threading
import time

import numpy as np
import processes
import pytest

import pyflow as tf

MB = 250_000                            # float32


@pytest.fixture(params=["unix", "tcp"])
def cluster(request):
    """worker/0 here, worker/1 elsewhere."""
    with processes.Cluster({"worker": 2}, here=("worker", 0), links=(request.param,)) as found:
        yield found


def resident(process="self"):
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1]) / 1000


def runaway(slow, n, size=MB):
    """A loop whose producer on worker/1 does not wait for the consumer here: `slow` is called with the sum of
    each tensor."""
    def body(i, total):
        with tf.device("/job:worker/task:1"):
            made = tf.fill([size], tf.cast(i, tf.float32)) + tf.zeros([size])
            after = i + 1
        with tf.device("/job:worker/task:0"):
            read = tf.reduce_max(made)
            with tf.control_dependencies([total]):
                taken = tf.py_func(slow, [read], tf.float32)
        return after, total + tf.reshape(taken, [])

    with tf.device("/job:worker/task:1"):
        start = tf.constant(0)
    with tf.device("/job:worker/task:0"):
        zero = tf.constant(0.0)
    return tf.while_loop(lambda i, total: i < n, body, [start, zero], parallel_iterations=32)[1]


def test_the_producer_of_a_consumer_that_sleeps(cluster):
    """300 MB: neither side takes more than the window, the queue and what the loop has under way."""
    n, first, most, stop = 300, threading.Event(), {"here": 0.0, "there": 0.0}, threading.Event()
    peer = cluster.processes["worker", 1].pid

    def slow(x):
        if not first.is_set():
            first.set()
            time.sleep(1.0)
        return np.float32(x)

    def watch():
        while not stop.wait(0.02):
            most["here"], most["there"] = max(most["here"], resident()), max(most["there"], resident(peer))

    with tf.Graph().as_default() as graph:
        total = runaway(slow, n)
    with tf.Session(cluster.server.target, graph=graph) as sess:
        before = {"here": resident(), "there": resident(peer)}
        thread = threading.Thread(target=watch)
        thread.start()
        assert sess.run(total) == sum(range(n))
        stop.set()
        thread.join()
    grown = {side: most[side] - before[side] for side in most}
    assert all(mb < 64 + 16 + 32 * 2 + 40 for mb in grown.values()), grown


def test_who_is_blocked_blocks_nobody_else_and_hears_of_the_end(cluster):
    """More Sends wait for the consumer than the producer has threads: another step goes on, and a deadline
    ends the one that waits at once."""
    release = threading.Event()

    def stuck(x):
        release.wait(20)
        return np.float32(x)

    with tf.Graph().as_default() as graph:
        total = runaway(stuck, 400)
        with tf.device("/job:worker/task:1"):
            made = tf.ones([MB]) * 3.0
        with tf.device("/job:worker/task:0"):
            other = tf.reduce_sum(made)
    ended = []
    with tf.Session(cluster.server.target, graph=graph) as sess:
        sess.run(other)

        def run():
            began = time.monotonic()
            try:
                sess.run(total, options=tf.RunOptions(timeout_in_ms=1500))
            except tf.errors.DeadlineExceededError:
                ended.append(time.monotonic() - began)
        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.8)                     # the window is full by now
        began = time.monotonic()
        for _ in range(5):
            assert sess.run(other) == 3.0 * MB
        assert time.monotonic() - began < 0.6
        thread.join(2.9)
        assert ended and ended[0] < 2.5
        release.set()
        thread.join(10)
        assert sess.run(other) == 3.0 * MB
