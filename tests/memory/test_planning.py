"""Static planning of buffers: values stay right on any threads; what leaves a step stays put."""
import threading

import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor

SIZE = 160                              # 160 * 160 float32: 100 KB, above what is planned


def _session(threads):
    return tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=threads,
                                            inter_op_parallelism_threads=threads))


def _random_program(seed, count=40):
    """(fetches, their NumPy values): a random graph of large values, some reshaped, some reused
    often."""
    r = np.random.RandomState(seed)
    start = [r.rand(SIZE, SIZE).astype(np.float32) for _ in range(3)]
    values = [(tf.get_variable(f"v{seed}_{i}", initializer=v), v) for i, v in enumerate(start)]
    ops = [
        (2, lambda a, b: a + b, lambda a, b: a + b),
        (2, lambda a, b: a * b, lambda a, b: a * b),
        (2, lambda a, b: tf.maximum(a, b), np.maximum),
        (2, lambda a, b: tf.matmul(a, b) / SIZE, lambda a, b: a @ b / SIZE),
        (1, lambda a: tf.nn.relu(a - 0.5), lambda a: np.maximum(a - 0.5, 0)),
        (1, lambda a: tf.transpose(a), lambda a: a.T),
        (1, lambda a: tf.reshape(tf.reshape(a, [-1]), [SIZE, SIZE]), lambda a: a),
        (1, lambda a: tf.identity(a), lambda a: a),
        (2, lambda a, b: tf.cond(tf.reduce_sum(a) > 0, lambda: a + 1, lambda: b),
         lambda a, b: a + 1 if a.sum() > 0 else b),
    ]
    for _ in range(count):
        arity, build, compute = ops[r.randint(len(ops))]
        chosen = [values[-1 - int(r.exponential(4)) % len(values)] for _ in range(arity)]
        values.append((build(*(c[0] for c in chosen)), compute(*(c[1] for c in chosen))))
    picked = [values[i] for i in r.choice(len(values), 6, replace=False)] + [values[-1]]
    return [p[0] for p in picked], [p[1] for p in picked]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(seed, threads):
    with tf.Graph().as_default(), _session(threads) as session:
        fetches, want = _random_program(seed)
        session.run(tf.global_variables_initializer())
        first = session.run(fetches)
        copies = [np.array(x) for x in first]
        for _ in range(3):              # fetched arrays are the caller's: later steps leave them
            again = session.run(fetches)
        for got, copy, other, value in zip(first, copies, again, want):
            np.testing.assert_array_equal(got, copy)
            np.testing.assert_array_equal(got, other)
            np.testing.assert_allclose(got, value, rtol=2e-4, atol=1e-4)


def _layers(count=12):
    x = tf.get_variable("x", [256, 256], initializer=tf.ones_initializer())
    for i in range(count):
        x = tf.nn.relu(tf.matmul(x, x) / 256.0 + 0.01)
    return tf.reduce_sum(x)


def test_peak_is_what_is_alive():
    """12 layers of 256 KB each need a few buffers, not 12, and the figures agree."""
    with tf.Graph().as_default(), _session(1) as session:
        y = _layers(40)
        session.run(tf.global_variables_initializer())
        plan = session._compiler.compile([y], [], []).plan
        figures = plan.buffers()
        assert 0 < figures["alive"] <= figures["planned"] <= 1.25 * figures["alive"]
        assert figures["total"] >= 8 * figures["planned"]


def test_variables_take_no_planned_memory():
    """A value assigned in a step is copied out: it survives the steps after it."""
    with tf.Graph().as_default(), _session(1) as session:
        x = tf.get_variable("x", initializer=np.ones((600, 600), np.float32))
        v = tf.get_variable("v", [600, 600], initializer=tf.zeros_initializer())
        y = tf.identity(x * 3.0 + 1.0)
        other = tf.reduce_sum(tf.nn.relu(tf.matmul(x, x) - 2.0))
        keep = tf.assign(v, y)
        session.run(tf.global_variables_initializer())
        session.run([keep.op, other])
        session.run(other)
        np.testing.assert_array_equal(session.run(v), np.full((600, 600), 4, np.float32))


def test_a_peak_is_that_of_the_step():
    """Threads that wait have counts of up to 64 KB each that are not the heap's yet: what others freed is no part of a peak."""
    def lays_down(values, done, leave):
        values.clear()
        done.release()
        leave.wait()
    with tf.Graph().as_default(), _session(1) as session:
        y = _layers(40)
        small = [tf.random_uniform([1000]) for _ in range(12)]
        session.run(tf.global_variables_initializer())
        session.run([y, small])

        def peak():
            before = _executor.memory_stats()["in_use"]
            _executor.reset_peak()
            session.run(y.op)
            return _executor.memory_stats()["peak"] - before
        alone, done, leave, threads = peak(), threading.Semaphore(0), threading.Event(), []
        for _ in range(16):
            threads.append(threading.Thread(target=lays_down, args=(session.run(small), done, leave)))
            threads[-1].start()
            done.acquire()
        try:
            assert abs(peak() - alone) < 65536
        finally:
            leave.set()
            for thread in threads:
                thread.join()


def test_memory_comes_back():
    with tf.Graph().as_default(), _session(2) as session:
        y = _layers()
        session.run(tf.global_variables_initializer())
        session.run(y)
        before = _executor.memory_stats()["in_use"]
        for _ in range(5):
            session.run(y)
        assert _executor.memory_stats()["in_use"] <= before + 65536


def test_explain_says_where_outputs_go():
    with tf.Graph().as_default(), _session(1) as session:
        x = tf.get_variable("x", [512, 512], initializer=tf.ones_initializer())
        product = tf.cumsum(x, name="product")             # not fused with what follows
        flat = tf.reshape(tf.nn.relu(product, name="positive"), [-1], name="flat")
        total = tf.reduce_sum(flat * flat, name="total")
        fetched = tf.matmul(x, x, transpose_a=True, name="fetched")
        plan = session._compiler.compile([total, fetched], [], []).plan
        lines = plan.explain().splitlines()
        where = {n: next(line for line in lines if f" {n}(" in line).rsplit(" [", 1)[1]
                 for n in ("product", "positive", "flat", "mul", "fetched")}
        assert where["product"] == "0+1048576]"
        assert where["positive"] == "in place of 0]"
        assert where["flat"] == "shares 0]"
        assert where["fetched"] == "heap]"
        assert lines[-1].startswith("buffers: ") and "alive at once" in lines[-1]


def test_updates_run_early():
    """Gradients do not wait for the end of the step: the peak is less than all of them."""
    with tf.Graph().as_default(), _session(1) as session:
        x = tf.ones([8, 400])
        for i in range(12):
            x = tf.matmul(x, tf.get_variable(f"w{i}", [400, 400]))
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(x))
        figures = session._compiler.compile([], [train], []).plan.buffers()
        assert figures["alive"] < 3 * 400 * 400 * 4
