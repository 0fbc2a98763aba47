"""all_reduce over servers in this process: sums, equal bits, task order."""
import pathlib
import sys
import threading

import numpy as np
import pytest

import pyflow as tf
from pyflow.distributed.train import collectives
from pyflow.lib.queue import accumulators

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import between_graph  # noqa: E402 - beside this file


def given(task, size, step=0):
    rng = np.random.default_rng([task, step])
    return (rng.standard_normal(size) * 10.0 ** rng.integers(-4, 5, size)).astype(np.float32)


def reduced(servers, size, in_task_order, steps=2):
    """[[each step's sum] of each task]."""
    devices = [f"/job:worker/task:{k}" for k in range(len(servers))]
    found = [None] * len(servers)

    def work(task):
        with tf.Graph().as_default() as graph:
            with tf.device(devices[task]):
                x = tf.placeholder(tf.float32, [size])
            total = collectives.all_reduce(x, task, devices, f"x{size}{in_task_order}",
                                           in_task_order)
            with tf.Session(servers[task].target, graph=graph) as sess:
                found[task] = [sess.run(total, {x: given(task, size, step)},
                                        options=tf.RunOptions(timeout_in_ms=20000))
                               for step in range(steps)]
    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(servers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("tasks", [1, 2, 4])
@pytest.mark.parametrize("in_task_order", [False, True])
def test_every_task_gets_the_same_sum(tasks, in_task_order):
    servers, ps, _ = between_graph.local_cluster(tf, tasks, 0)
    for size in (1, 3, 1000):
        found = reduced(servers, size, in_task_order)
        for step in range(2):
            values = [given(k, size, step) for k in range(tasks)]
            np.testing.assert_allclose(found[0][step], np.sum(values, 0, np.float64), rtol=1e-4,
                                       atol=1e-2)
            for other in found:
                np.testing.assert_array_equal(other[step], found[0][step])
            if in_task_order:
                np.testing.assert_array_equal(found[0][step], by_accumulator(values))
    for server in servers:
        server.stop()


def by_accumulator(values):
    """As a parameter server sums gradients that name their task; they come last first."""
    with tf.Graph().as_default(), tf.Session() as sess:
        sums = accumulators.ConditionalAccumulator(tf.float32, reduction_type="SUM")
        step = tf.constant(0, tf.int64)
        for task, value in reversed(list(enumerate(values))):
            sess.run(sums._apply_from(tf.constant(value), step, tf.constant(task, tf.int64)))
        return sess.run(sums._take_at(len(values), step))


def test_what_cannot_be_summed_is_refused():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="must be fully known"):
            collectives.all_reduce(tf.placeholder(tf.float32, [None]), 0, ["", ""], "a")
        with pytest.raises(ValueError, match="none of the 2 devices"):
            collectives.all_reduce(tf.constant([1.0]), 2, ["", ""], "a")
