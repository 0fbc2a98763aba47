"""Random graphs with every node on a random device: a plan per device gives what one plan and the
naive interpreter give.  scattered.py runs thousands of them offline."""
import pytest

import scattered

GRAPHS = 60


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_equals_one_plan_and_the_interpreter(seed):
    scattered.check(seed, threads=1 + seed % 3)


def test_everything_in_slabs_and_in_single_blocks():
    """The executor's other modes: no inline loops, every node its own block."""
    import pyflow as tf
    for seed in range(100, 110):
        program = scattered.Program(seed)
        for options in ({"inline": False}, {"blocks": False}):
            with tf.Session(graph=program.graph, config=scattered.CONFIG, threads=2,
                            partitions="device") as session:
                session._compiler.options.update(options)
                program.check(session, runs=1)
