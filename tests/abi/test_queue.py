"""A FIFO queue written with kernel.h alone (queue/queue.c): ten thousand blocked calls on two
threads."""

import threading
import time

import numpy as np
import pytest
from quiet import clock

import pyflow as tf
from pyflow import _executor, plugins
from pyflow.session import contract

N = 10_000


@pytest.fixture(scope="module", autouse=True)
def library(build_plugin):
    tf.load_op_library(build_plugin("queue", "-O2"))


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


class Queue:
    """The five ops on one queue."""

    def __init__(self, name="q", capacity=-1, container=""):
        self.name = name
        self.handle = op("FIFOQueue")(capacity=capacity, container=container, shared_name=name)
        self.fed = tf.placeholder(tf.float32, [])
        self.put = op("Enqueue")(self.handle, self.fed)
        self.size = op("Size")(self.handle)
        self.close = op("Close")(self.handle)
        self.close_all = op("Close")(self.handle, cancel_pending_enqueues=True)

    def gets(self, n):
        return [op("Dequeue")(self.handle, T=tf.float32) for _ in range(n)]


def op(name):
    return plugins.op("acme." + name)


class Waiting(threading.Thread):
    """session.run on a thread of its own; what it returned or raised."""

    def __init__(self, session, fetches, feeds=None, **arguments):
        super().__init__(daemon=True)
        self.call = lambda: session.run(fetches, feeds, **arguments)
        self.found = self.error = None
        self.start()

    def run(self):
        try:
            self.found = self.call()
        except tf.errors.OpError as e:
            self.error = e

    def end(self):
        self.join(60)
        assert not self.is_alive(), "the step hangs"
        return self


def until(session, q, waiting, putting=0):
    """Waits until that many calls are blocked in the queue."""
    for _ in range(6000):
        _, getters, putters = session.run(q.size)
        if getters >= waiting and putters >= putting:
            return
        time.sleep(0.01)
    raise AssertionError(f"{getters} of {waiting}, {putters} of {putting} calls came to the queue")


def threads():
    with open("/proc/self/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Threads"))


def many(q, n=N):
    gets = q.gets(n)
    return tf.stack([g.value for g in gets]), tf.stack([g.turn for g in gets])


def test_ten_thousand_blocked_dequeues_on_two_threads():
    q = Queue()
    fetch = many(q)
    x = tf.random_uniform([64, 64])
    work = tf.reduce_sum(tf.matmul(x, x))
    with tf.Session(threads=2) as session:
        session.run([q.size, work])
        before = threads()
        waiting = Waiting(session, fetch)
        until(session, q, N)
        assert threads() <= before + 1, "only the caller's own thread came"
        assert np.isfinite(session.run(work)), "the pool works meanwhile"
        put = session.make_callable(q.put, [q.fed])
        for value in range(N):
            put(np.float32(value))
        values, turns = waiting.end().found
    assert waiting.error is None
    assert sorted(turns.tolist()) == list(range(N))
    assert values.tolist() == turns.tolist(), "first come, first served"


def test_ten_thousand_steps_without_a_caller():
    """Each of its own, blocked in one dequeue; they take no thread, and end by value, cancel or close."""
    q = Queue()
    got = q.gets(1)[0].value
    with tf.Session(threads=2) as session:
        session.run(q.size)
        plan = session._step_for(got, {})[0].compiled.plan
        plan.start([], contract.RunOptions(timeout_ms=1)).wait(60)           # the clock's thread is there from now on
        before = threads()
        steps = [plan.start([]) for _ in range(N)]
        until(session, q, N)
        assert threads() <= before and not any(step.done() for step in steps)
        for step in steps[N // 2:]:
            step.cancel()
        for step in steps[N // 2:]:
            with pytest.raises(Exception, match="cancelled"):
                step.result(60)
        put = session.make_callable(q.put, [q.fed])
        for value in range(N // 2 - 10):
            put(np.float32(value))
        deadline = time.time() + 60
        while sum(step.done() for step in steps) < N - 10 and time.time() < deadline:
            time.sleep(0.01)
        values = [step.result(0)[0] for step in steps[:N // 2] if step.done()]
        assert sorted(values) == list(range(N // 2 - 10))
    for step in steps[:N // 2]:                         # closing the session ended the last ten
        assert step.wait(60)


def test_close_wakes_all():
    q = Queue()
    fetch = many(q)
    with tf.Session(threads=2) as session:
        waiting = Waiting(session, fetch)
        until(session, q, N)
        session.run(q.close)
        error = waiting.end().error
        assert isinstance(error, tf.errors.OutOfRangeError) and "closed" in str(error)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(q.gets(1)[0].value)
        with pytest.raises(tf.errors.CancelledError, match="closed"):
            session.run(q.put, {q.fed: 1})


def test_a_deadline_wakes_all_and_leaves_the_queue_usable():
    q = Queue()
    fetch, one = many(q), q.gets(1)[0]
    with tf.Session(threads=2) as session:
        started = clock()
        with pytest.raises(tf.errors.DeadlineExceededError, match="acme.Dequeue"):
            session.run(fetch, options=tf.RunOptions(timeout_in_ms=1500))
        assert clock() - started < 30
        assert session.run(q.size).tolist() == [0, 0, 0]
        session.run(q.put, {q.fed: 5})
        assert session.run(one.value) == 5


def test_cancelling_one_step_leaves_the_other_waiting():
    """Two steps wait; a failing node beside one of them cancels it; the other gets the element."""
    q = Queue()
    fails = tf.placeholder(tf.float32, [2])
    a, b = many(q, 2000), q.gets(1)[0]
    late = Queue("late")
    with tf.control_dependencies([late.gets(1)[0].value]):
        broken = tf.check_numerics(fails, "on purpose")
    with tf.Session(threads=2) as session:
        first = Waiting(session, [a, broken], {fails: [np.nan, 1]})
        until(session, q, 2000)
        second = Waiting(session, b)
        until(session, q, 2001)
        session.run(late.put, {late.fed: 0})
        assert isinstance(first.end().error, tf.errors.InvalidArgumentError)
        assert session.run(q.size).tolist() == [0, 1, 0]
        session.run(q.put, {q.fed: 7})
        assert second.end().found.value == 7


def test_blocked_enqueues():
    q = Queue(capacity=2)
    get = q.gets(1)[0]
    with tf.Session(threads=2) as session:
        session.run(q.put, {q.fed: 0})
        session.run(q.put, {q.fed: 1})
        blocked = []
        for value in range(2, 6):
            blocked.append(Waiting(session, q.put, {q.fed: value}))
            until(session, q, 0, value - 1)
        assert [float(session.run(get.value)) for _ in range(3)] == [0, 1, 2]
        for thread in blocked[:3]:
            assert thread.end().error is None
        session.run(q.close)
        assert session.run(q.size).tolist() == [2, 0, 1]
        session.run(q.close_all)
        assert isinstance(blocked[3].end().error, tf.errors.CancelledError)
        assert [float(session.run(get.value)) for _ in range(2)] == [3, 4]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(get.value)


def test_closing_the_session_wakes_all():
    q = Queue()
    fetch = many(q, 1000)
    session = tf.Session(threads=2)
    waiting = Waiting(session, fetch)
    until(session, q, 1000)
    session.close()
    assert isinstance(waiting.end().error, tf.errors.CancelledError)


def test_resetting_the_container_aborts():
    q = Queue(container="shared_by_test")
    fetch = many(q, 1000)
    with tf.Session(threads=2) as session:
        waiting = Waiting(session, fetch)
        until(session, q, 1000)
        _executor.Task().reset_containers(["shared_by_test"])
        assert isinstance(waiting.end().error, (tf.errors.AbortedError, tf.errors.CancelledError))
        assert session.run(q.size).tolist() == [0, 0, 0], "a new queue in the new container"


@pytest.mark.parametrize("seed", range(3))
def test_a_storm_of_puts_gets_deadlines_and_closes(seed):
    """Every element that went in comes out once, whatever is cancelled meanwhile."""
    rng = np.random.default_rng(seed)
    q = Queue(capacity=3)
    get = q.gets(1)[0].value
    taken, put, lost, unsure, lock = [], [], [], [], threading.Lock()
    with tf.Session(threads=2) as session:

        def getter(delays):
            for delay in delays:
                try:
                    found = [
                        float(session.run(get, options=tf.RunOptions(timeout_in_ms=int(delay))))
                    ]
                    to = taken
                except tf.errors.DeadlineExceededError:
                    found, to = [1], lost  # it may have had its element already
                with lock:
                    to.extend(found)

        def putter(numbers, delays):
            for number, delay in zip(numbers, delays):
                try:
                    session.run(
                        q.put, {q.fed: number}, options=tf.RunOptions(timeout_in_ms=int(delay))
                    )
                    to = put
                except tf.errors.DeadlineExceededError:
                    to = unsure  # it may have been taken already
                with lock:
                    to.append(float(number))

        jobs = [threading.Thread(target=getter, args=(rng.integers(1, 8, 60),)) for _ in range(3)]
        jobs += [
            threading.Thread(
                target=putter, args=(np.arange(100 * k, 100 * k + 60), rng.integers(1, 8, 60))
            )
            for k in range(3)
        ]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join(60)
            assert not job.is_alive()
        left, getters, putters = session.run(q.size)
        assert (getters, putters) == (0, 0)
        out = taken + [float(session.run(get)) for _ in range(left)]
    assert len(set(out)) == len(out), "nothing comes out twice"
    assert set(out) <= set(put) | set(unsure)
    assert len(set(put) - set(out)) <= len(lost)


def test_a_wait_at_it_is_explained_as_at_ours():
    """What it says of itself, and the op that would end the wait, stand in a deadline's error."""
    with tf.train.Server.create_local_server() as server:
        full, dry = Queue("full", capacity=1), Queue("dry")
        (got,) = dry.gets(1)
        with tf.Session(server.target) as session:
            for step, words in (
                    (got, "acme's queue without elements 'dry' .* fills .* acme.Enqueue"),
                    (full.put, "acme's queue with 1 elements 'full' .* empties")):
                with pytest.raises(tf.errors.DeadlineExceededError, match=words):
                    for _ in range(2):
                        session.run(step, {dry.fed: 1.0, full.fed: 1.0},
                                    options=tf.RunOptions(timeout_in_ms=150))
