"""PF_KERNEL_BLOCKING kernels run on the BLOCKING lane; PF_KERNEL_COLLECTIVE kernels start in one
order (lanes/lanes.c)."""

import threading

import numpy as np
import pytest

import pyflow as tf
from pyflow import plugins


@pytest.fixture(scope="module", autouse=True)
def library(build_plugin):
    tf.load_op_library(build_plugin("lanes", "-O1"))


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def op(name):
    return plugins.op("lanes." + name)


def number(value=0):
    return tf.constant(value, tf.int64)


@pytest.mark.parametrize("threads", [1, 2])
def test_sixteen_naps_overlap(threads):
    naps = [op("Nap")(number(k), ms=60) for k in range(16)]
    with tf.Session(threads=threads) as session:
        session.run(op("Most")())
        assert session.run(naps) == [1000 + k for k in range(16)]
        assert session.run(op("Most")()) >= 14, "of 16 at once"


def test_compute_threads_stay_free():
    """While two blocking kernels sleep, both threads of the pool compute: a step beside them
    is not held up."""
    naps = [op("Nap")(number(k), ms=400) for k in range(4)]
    x = tf.random_uniform([200, 200])
    work = tf.reduce_sum(tf.matmul(x, x))
    with tf.Session(threads=2) as session:
        session.run(work)
        done = []
        thread = threading.Thread(target=lambda: done.append(session.run(naps)))
        thread.start()
        runs = 0
        while not done and runs < 100000:
            session.run(work)
            runs += 1
        thread.join()
    assert runs > 20 and done == [[1000, 1001, 1002, 1003]]


def test_they_run_elsewhere_than_the_caller():
    with tf.Session(threads=1) as session:
        assert int(session.run(op("Who")(number()))) & (2**64 - 1) != threading.get_ident()


def test_failures_and_misuse_are_reported():
    with tf.Session(threads=2) as session:
        with pytest.raises(tf.errors.DataLossError, match="the disk is gone") as caught:
            session.run(op("Nap")(number(), ms=1, fails=True, name="mine"))
        assert "mine" in str(caught.value) and "test_lanes.py" in str(caught.value)
        with pytest.raises(tf.errors.InternalError, match="not declared PF_KERNEL_ASYNC"):
            session.run(op("Pending")(number()))
        assert session.run(op("Nap")(number(1), ms=0)) == 1001


def test_in_loops_and_conds():
    _, x = tf.while_loop(
        lambda i, x: i < 5,
        lambda i, x: (i + 1, op("Nap")(x, ms=1)),
        [0, number()],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)],
    )
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: op("Nap")(number(1), ms=1), lambda: number(2))
    for threads in (1, 2):
        with tf.Session(threads=threads) as session:
            assert session.run(x) == 5000
            assert [int(session.run(y, {p: flag})) for flag in (True, False)] == [1001, 2]


def test_variables_are_locked_on_the_lane():
    v = tf.get_variable("v", initializer=np.zeros(3, np.float32), use_resource=True)
    bumps = [op("Bump")(v.handle) for _ in range(10)]
    with tf.Session(threads=2) as session:
        session.run(v.initializer)
        session.run(bumps)
        jobs = [threading.Thread(target=session.run, args=(bumps,)) for _ in range(3)]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        assert session.run(v).tolist() == [40, 0, 0]


def test_a_deadline_while_they_wait_for_a_thread():
    """40 naps, 16 threads: those that have not begun when time is up are not begun."""
    naps = [op("Nap")(number(k), ms=100) for k in range(64)]
    with tf.Session(threads=2) as session:
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(naps, options=tf.RunOptions(timeout_in_ms=50))
        assert session.run(op("Nap")(number(5), ms=0)) == 1005


# ---------------------------------------------------------------- collectives


def collectives(kind, n, rng):
    """n of them on inputs that become ready in a random order; some read another."""
    made = []
    for k in range(n):
        x = number(k)
        for _ in range(int(rng.integers(0, 3))):
            x = op("Nap")(x, ms=int(rng.integers(0, 4)))
        if made and rng.random() < 0.3:
            x = x + made[int(rng.integers(0, len(made)))]
        name = kind if kind != "mixed" else ("Reduce", "ReduceLater")[int(rng.integers(0, 2))]
        made.append(op(name)(x, number=k, ms=int(rng.integers(0, 3))))
    return made


@pytest.mark.parametrize("kind", ["Reduce", "ReduceLater", "mixed"])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_collectives_start_in_the_order_of_construction(kind, threads):
    rng = np.random.default_rng(threads)
    fetches = collectives(kind, 25, rng)
    with tf.Session(threads=threads) as session:
        session.run(op("Order")())
        for _ in range(4):
            session.run(fetches)
            assert session.run(op("Order")()).tolist() == list(range(25))


def test_only_the_start_of_an_asynchronous_one_is_ordered():
    """Each ends long after the next one started: together they take the time of one."""
    made = [op("ReduceLater")(number(k), number=k, ms=300) for k in range(20)]
    with tf.Session(threads=2) as session:
        session.run(op("Order")())
        session.run(made, options=tf.RunOptions(timeout_in_ms=3000))
        assert session.run(op("Order")()).tolist() == list(range(20))


def test_dependencies_come_first():
    """A collective built early that reads one built late starts after it."""
    x = tf.placeholder(tf.int64, [])
    first = op("Reduce")(x, number=0)
    second = op("Reduce")(number(1), number=1)
    late = op("Reduce")(second, number=2)
    with tf.control_dependencies([late]):
        third = op("Reduce")(first, number=3)
    with tf.Session(threads=2) as session:
        session.run(op("Order")())
        session.run([third, first], {x: 5})
        assert session.run(op("Order")()).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("threads", [1, 2])
def test_in_a_loop_iterations_do_not_mix(threads):
    def body(i, x):
        a = op("ReduceLater")(x, number=1, ms=1)
        b = op("Reduce")(op("Nap")(x, ms=1), number=2)
        return i + 1, a + b * 0

    _, x = tf.while_loop(
        lambda i, x: i < 8,
        body,
        [0, number(3)],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)],
    )
    with tf.Session(threads=threads) as session:
        session.run(op("Order")())
        assert session.run(x) == 3
        assert session.run(op("Order")()).tolist() == [1, 2] * 8


def test_failing_and_dead_collectives_do_not_hang_the_rest():
    p = tf.placeholder(tf.bool, [])
    with tf.Session(threads=2) as session:
        a = op("Reduce")(number(1), number=0)
        b = tf.cond(p, lambda: op("Reduce")(number(2), number=1), lambda: number(7))
        c = op("ReduceLater")(number(3), number=2)
        for flag in (True, False):
            session.run(op("Order")())
            assert session.run([a, b, c], {p: flag}) == [1, 2 if flag else 7, 3]
            assert session.run(op("Order")()).tolist() == ([0, 1, 2] if flag else [0, 2])
        bad = op("Nap")(number(), ms=1, fails=True)
        with pytest.raises(tf.errors.DataLossError):
            session.run([op("Reduce")(bad, number=3), op("ReduceLater")(number(), number=4)])
        session.run(op("Order")())
        assert session.run([a, c]) == [1, 3]
