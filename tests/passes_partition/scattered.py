"""Random graphs with every node on a random device.

    python tests/passes_partition/scattered.py 2000 [first seed]        # offline: many of them
    python tests/passes_partition/scattered.py 500 --fake libfake.so    # on an accelerator, too

The graphs are those of tests/executor (data and control edges, cond and while_loop nested, dead
branches, py_func); then each operation, routing nodes of loops included, is put on one of the
devices.
"""
import argparse
import importlib.util
import pathlib
import random
import sys

import numpy as np

import pyflow as tf

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "executor"), str(TESTS / "accelerator")]

import test_random_graphs as executor_tests

DEVICES = ("/device:CPU:0", "/device:CPU:1", "/device:CPU:2")
CONFIG = tf.ConfigProto(device_count={"CPU": 3})


def scatter(graph, rng, devices=DEVICES):
    """Every operation on a random device; sometimes whole name scopes, so that borders lie at loops
    and branches.  What is colocated stays so, or its colocation is forgotten."""
    by_scope, forget = rng.random() < 0.3, rng.random() < 0.5
    chosen = {}
    for op in graph.get_operations():
        target = op
        while target.attrs.get("_class") and not forget:
            label = target.attrs["_class"][0]
            label = label.decode() if isinstance(label, bytes) else label
            target = graph.get_operation_by_name(label.removeprefix("loc:@"))
        if forget:
            op.attrs.pop("_class", None)
        key = target.name.rpartition("/")[0] if by_scope else target.name
        if key not in chosen:
            chosen[key] = rng.choice(devices)
        op._set_device(chosen[key])


class Program:
    """A random graph, its feeds, what the naive interpreter computes."""

    def __init__(self, seed, devices=DEVICES):
        self.graph = tf.Graph()
        with self.graph.as_default():
            builder = executor_tests.Builder(seed, py_funcs=seed % 3 == 0)
            self.fetches = builder.graph()
            self.feeds = {p: np.float64(v) for p, v in zip(
                builder.placeholders, (0.75 - seed % 3, seed % 5 - 2.0))}
        scatter(self.graph, random.Random(seed), devices)
        self.want = executor_tests.expected(self.graph, {p.op: v for p, v in self.feeds.items()})

    def check(self, session, runs=2):
        """Every fetch of every run is what the interpreter says; returns the values of the last.

        Rewrites of the session may change the last bit, partitions may not.
        """
        for _ in range(runs):
            got = session.run(self.fetches, self.feeds, options=tf.RunOptions(timeout_in_ms=20000))
            for tensor, value in zip(self.fetches, got):
                np.testing.assert_allclose(value, self.want[tensor.name], 1e-12, 1e-300,
                                           err_msg=tensor.name)
        return got


def check(seed, threads, runs=2, devices=DEVICES, config=CONFIG):
    """One program: in one plan and in a plan per device."""
    program = Program(seed, devices)
    values = []
    for partitions in ("one", "device"):
        with tf.Session(graph=program.graph, config=config, threads=threads,
                        partitions=partitions) as session:
            values.append(program.check(session, runs))
    np.testing.assert_array_equal(values[0], values[1])


def load_fake(library):
    """Builds and loads the fake accelerator (examples/plugin_accelerator): FAKE:0 and FAKE:1, whose
    streams are late at random."""
    from fake_build import EXAMPLE, SOURCES, cc
    cc(library, sorted(SOURCES.glob("*.c")), "-O1", "-shared", "-fPIC", "-fvisibility=hidden")
    tf.load_op_library(library)
    path = EXAMPLE / "pyflow_fake" / "__init__.py"
    spec = importlib.util.spec_from_file_location("pyflow_fake", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.open_library(library)


def main(count, first=0, fake=None):
    devices, config, knobs = DEVICES, CONFIG, ()
    if fake:
        devices, knobs = ("/device:CPU:0", "/device:FAKE:0", "/device:FAKE:1"), load_fake(fake)
        config = tf.ConfigProto(allow_soft_placement=True)
    for seed in range(first, first + count):
        for device in knobs:
            device.set(delay_us=100 * (seed % 3), seed=seed)
        check(seed, 1 + seed % 3, devices=devices, config=config)
        if seed % 100 == 99 or seed == first + count - 1:
            print(f"seeds {first}..{seed}: equal", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("--fake", help="on the fake accelerator, built to this path")
    main(**vars(parser.parse_args()))
