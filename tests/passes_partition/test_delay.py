"""ASAP/ALAP of what crosses between devices: less memory at once, the same results."""
import random

import numpy as np
import pytest

import pyflow as tf
import scattered
from pyflow import _executor
from pyflow.passes import node, partition_delay, place
from pyflow.passes.partition_frames import topological

CPU = [f"/job:localhost/replica:0/task:0/device:CPU:{k}" for k in range(3)]
TENSORS, ELEMENTS = 24, 1 << 18


def config(on=True):
    return tf.ConfigProto(device_count={"CPU": 3}, graph_options=tf.GraphOptions(
        enable_recv_scheduling=on))


def on(k):
    return tf.device(f"/device:CPU:{k}")


def consumed_one_by_one():
    """CPU:1 needs one large tensor after the other; CPU:0 could make them all at once."""
    with on(0):
        seeds = tf.placeholder(tf.float32, [TENSORS])
        large = [tf.fill([ELEMENTS], s) for s in tf.unstack(seeds)]
    with on(1):
        total = tf.zeros([ELEMENTS])
        for t in large:
            total = tf.tanh(total * 0.5 + t)
        return seeds, tf.reduce_sum(total)


def peak(fetch, feeds, schedule, partitions, threads):
    with tf.Session(config=config(schedule), partitions=partitions, threads=threads) as sess:
        result = sess.run(fetch, feeds)
        peaks = []
        for _ in range(5):
            before = _executor.memory_stats()["in_use"]
            _executor.reset_peak()
            assert sess.run(fetch, feeds) == result
            peaks.append(_executor.memory_stats()["peak"] - before)
    return result, sorted(peaks)[2]


@pytest.mark.parametrize("threads", [1, 2])
def test_peak_memory(threads):
    seeds, fetch = consumed_one_by_one()
    feeds = {seeds: np.linspace(-1, 1, TENSORS, dtype=np.float32)}
    want, before = peak(fetch, feeds, False, "device", threads)
    got, after = peak(fetch, feeds, True, "device", threads)
    assert got == want
    assert after <= 0.6 * before, f"{before / 2**20:.1f} MB at once, {after / 2**20:.1f} delayed"


def scheduled(tensors, feeds):
    graph = node.prune(tensors, [], feeds)
    place.place(graph, place.Devices(CPU))
    return graph, partition_delay.delay(graph)


def test_producers_wait_for_a_node_shortly_before_the_reader():
    seeds, fetch = consumed_one_by_one()
    graph, delays = scheduled([fetch], [seeds])
    assert not delays, "nobody else reads these tensors: their producers wait, not the copies"
    fills = [n for n in graph.nodes if n.op == "Fill"]
    waiting = [n.controls[0] for n in fills if n.controls]
    assert len(waiting) > TENSORS // 2 and all(t.device == CPU[1] for t in waiting)
    order = {n: k for k, n in enumerate(topological(graph.nodes))}
    assert waiting == sorted(waiting, key=order.get), "each later than the one before"


def test_the_copy_waits_where_the_producer_cannot():
    with on(0):
        x = tf.placeholder(tf.float32, [ELEMENTS])
        y = tf.tanh(x)
        here = tf.reduce_sum(y)
    with on(1):
        z = tf.zeros([ELEMENTS]) + tf.reduce_sum(tf.placeholder_with_default([1.0], [1]))
        for _ in range(6):
            z = tf.tanh(z)
        late = z + y
    graph, delays = scheduled([here, late], [x])
    [(key, trigger)] = delays.items()
    assert key[0].name == y.op.name and trigger.op == "Tanh" and trigger.device == CPU[1]
    assert not any(n.controls for n in graph.nodes if n.device == CPU[0])
    fed = np.linspace(-1, 1, ELEMENTS, dtype=np.float32)
    results = []
    for schedule in (False, True):
        for partitions in ("one", "device"):
            with tf.Session(config=config(schedule), partitions=partitions) as sess:
                results.append(sess.run([here, late], {x: fed}))
    for got in results[1:]:
        np.testing.assert_array_equal(got[1], results[0][1])


def test_what_is_needed_at_once_does_not_wait():
    with on(0):
        x = tf.placeholder(tf.float32, [ELEMENTS])
        y = tf.tanh(x)
    with on(1):
        z = tf.reduce_sum(tf.exp(y))
    graph, delays = scheduled([z], [x])
    assert not delays and not any(n.controls for n in graph.nodes)


def test_state_and_branches_do_not_move():
    with on(0):
        v = tf.Variable(tf.zeros([ELEMENTS]))
        read = v * 2.0
        drawn = tf.random_normal([ELEMENTS])
        branch = tf.cond(tf.placeholder_with_default(True, []),
                         lambda: tf.fill([ELEMENTS], 1.0), lambda: tf.fill([ELEMENTS], 2.0))
    with on(1):
        z = tf.fill([ELEMENTS], tf.placeholder_with_default(1.0, []))
        for other in (read, drawn, branch):
            for _ in range(5):
                z = tf.tanh(z)
            z = z + other
    graph, _ = scheduled([z], [])
    for n in graph.nodes:
        if n.device == CPU[0]:
            assert not any(c.device == CPU[1] for c in n.controls), n


def random_dag(rng):
    """Vectors added, multiplied and mapped on random devices, read up to three times."""
    x = tf.placeholder(tf.float64, [8])
    pool, k = [x], 0
    for _ in range(100):
        a, b = rng.choice(pool[-4:]), rng.choice(pool)
        k = rng.randrange(3) if rng.random() < 0.3 else k
        with on(k):
            pool.append(rng.choice((tf.tanh(a), a + b, tf.maximum(a, b), tf.minimum(a * b, 9.0))))
    return x, pool[-3:]


def test_random_dags_are_equal_with_and_without(monkeypatch):
    """Every tensor counts as large, so everything that may wait waits."""
    monkeypatch.setattr(partition_delay, "MIN_BYTES", 1)
    monkeypatch.setattr(partition_delay, "_HOP", 1e-7)
    waits, fed = 0, np.linspace(-2, 2, 8)
    for seed in range(20):
        with tf.Graph().as_default():
            x, fetches = random_dag(random.Random(seed))
            graph, delays = scheduled(fetches, [x])
            waits += len(delays) + sum(len(n.controls) for n in graph.nodes)
            topological(graph.nodes)                        # raises for a cycle
            results = []
            for schedule, partitions in ((False, "one"), (True, "one"), (True, "device")):
                with tf.Session(config=config(schedule), partitions=partitions,
                                threads=1 + seed % 2) as sess:
                    results.append(sess.run(fetches, {x: fed}))
        for got in results[1:]:
            np.testing.assert_array_equal(got, results[0])
    assert waits > 50, waits


@pytest.mark.parametrize("seed", range(8))
def test_random_control_flow_stays_equal(seed, monkeypatch):
    monkeypatch.setattr(partition_delay, "MIN_BYTES", 1)
    monkeypatch.setattr(partition_delay, "_HOP", 1e-7)
    program = scattered.Program(seed)
    for partitions in ("one", "device"):
        with tf.Session(graph=program.graph, config=config(), threads=1 + seed % 2,
                        partitions=partitions) as sess:
            program.check(sess)
