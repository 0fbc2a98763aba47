"""A consumer that sleeps: its producer, in another process, keeps within its credits, and is not blocked by it."""
import os
import signal
import threading
import time

import numpy as np
import processes
import pytest
from quiet import clock

import pyflow as tf

MB = 250_000                            # float32
AHEAD = 1000                           # iterations of the loop


LINKS = {"unix": ("unix",), "tcp": ("tcp",), "grpc": ()}


@pytest.fixture(params=LINKS)
def cluster(request):
    """worker/0 here, worker/1 elsewhere."""
    with processes.Cluster({"worker": 2}, here=("worker", 0), links=LINKS[request.param]) as found:
        yield found


def until(true, seconds=5.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def works(sess, fetch, feeds):
    try:
        return sess.run(fetch, feeds) is not None
    except tf.errors.UnavailableError:
        return False


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

    def goes_on(i, total):
        with tf.device("/job:worker/task:1"):
            return i < n

    return tf.while_loop(goes_on, body, [start, zero], parallel_iterations=AHEAD)[1]


def test_the_producer_of_a_consumer_that_sleeps(cluster):
    """300 MB: neither side takes more than the window, the queue and some iterations of the loop."""
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
    assert all(mb < 64 + 16 + 60 for mb in grown.values()), grown


@pytest.mark.alone
@pytest.mark.parametrize("kind", LINKS)
def test_who_is_blocked_blocks_nobody_else_and_hears_of_the_end(kind):
    """The consumer's process is stopped, and more is sent to it than the way takes: neither threads of the pool
    nor the session's wait for that; other steps go on, and a deadline ends the one that waits."""
    with processes.Cluster({"worker": 3}, here=("worker", 0), links=LINKS[kind]) as cluster:
        pid = cluster.processes["worker", 1].pid
        with tf.Graph().as_default() as graph:
            with tf.device("/job:worker/task:0"):
                x = tf.placeholder(tf.float32, [])
                large = [tf.fill([MB], x + k) for k in range(120)]
                small = [tf.fill([12_000], x + k) for k in range(600)]
                other = tf.fill([MB], x)
            with tf.device("/job:worker/task:1"):
                taken = tf.add_n([t[0] for t in large + small])
            with tf.device("/job:worker/task:2"):
                read = tf.reduce_sum(other)
        with tf.Session(cluster.server.target, graph=graph) as sess:
            expected = sum(range(120)) + sum(range(600))
            assert sess.run(taken, {x: 0.0}) == expected and sess.run(read, {x: 1.0}) == MB
            os.kill(pid, signal.SIGSTOP)
            try:
                ended = []

                def run():
                    began = clock()
                    try:
                        sess.run(taken, {x: 0.0}, options=tf.RunOptions(timeout_in_ms=600))
                    except tf.errors.DeadlineExceededError:
                        ended.append(clock() - began)
                thread = threading.Thread(target=run)
                thread.start()
                time.sleep(0.3)                         # more waits than there is room for
                began = clock()
                for _ in range(5):
                    assert sess.run(read, {x: 3.0}, options=tf.RunOptions(timeout_in_ms=1000)) == 3.0 * MB
                assert clock() - began < 2.0
                thread.join(5.0)                        # the stopped task is asked, too, who waits for whom
                assert ended and ended[0] < 4.0
                until(lambda: cluster.server._worker.task.counts()["open"] == 0)
            finally:
                os.kill(pid, signal.SIGCONT)
            if kind == "grpc":          # whose keep-alive may have given it up, a second earlier than others
                until(lambda: works(sess, taken, {x: 1.0}))
            assert sess.run(taken, {x: 1.0}) == expected + 720
            net = cluster.server._worker.links.net
            until(lambda: sum(p["announced"] + p["queued"] for p in net.peers()) == 0)
