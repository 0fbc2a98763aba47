"""Random graphs with every node on a random device: a plan per device gives what one plan and the
naive interpreter give.  scattered.py runs thousands of them offline."""
import random

import numpy as np
import pytest

import pyflow as tf
import scattered
import test_random_graphs as executor_tests

GRAPHS = 60


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_equals_one_plan_and_the_interpreter(seed):
    scattered.check(seed, threads=1 + seed % 3)


def test_everything_in_slabs_and_in_single_blocks():
    """The executor's other modes: no inline loops, every node its own block."""
    for seed in range(100, 110):
        program = scattered.Program(seed)
        for options in ({"inline": False}, {"blocks": False}):
            with tf.Session(graph=program.graph, config=scattered.CONFIG, threads=2,
                            partitions="device") as session:
                session._compiler.options = session._compiler.options.of_plan(**options)
                program.check(session, runs=1)


class Failing(executor_tests.Builder):
    """Now and then a step looks something up in a table, which may fail, perhaps in a branch that
    does not run or in some iteration only."""

    def step(self, pool, depth):
        if self.rng.random() < 0.1:
            index = tf.cast(tf.clip_by_value(self.rng.choice(pool), -1.0, 2.0), tf.int32)
            return tf.gather(tf.constant([0.5, -1.5, 2.5], tf.float64), index)
        return super().step(pool, depth)


def outcome(graph, fetches, feeds, threads, partitions):
    """The values, or the exception's class and that it came from a lookup."""
    options = tf.RunOptions(timeout_in_ms=20000)
    with tf.Session(graph=graph, config=scattered.CONFIG, threads=threads,
                    partitions=partitions) as session:
        try:
            return session.run(fetches, feeds, options=options)
        except tf.errors.OpError as e:
            return type(e), e.op.type


def test_failing_graphs_fail_alike():
    failed = 0
    for seed in range(60):
        with tf.Graph().as_default() as graph:
            builder = Failing(seed, py_funcs=False)
            fetches = builder.graph()
        scattered.scatter(graph, random.Random(seed))
        feeds = dict(zip(builder.placeholders, (0.75 - seed % 3, seed % 5 - 2.0)))
        one = outcome(graph, fetches, feeds, 1 + seed % 3, "one")
        for _ in range(2):
            device = outcome(graph, fetches, feeds, 1 + seed % 3, "device")
            np.testing.assert_equal(device, one)
        failed += isinstance(one, tuple)
    assert 10 < failed < 50, failed
