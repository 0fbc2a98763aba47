"""Swapping to the host on a device with memory of its own, the fake accelerator."""
import contextlib
import pathlib
import sys

import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor
from pyflow.framework.memory_scopes import swap_scope

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
import swap as models  # noqa: E402 -- the models of benchmarks/swap.py


def _deep(scope, layers=24, size=128):
    """Gradient of a deep network on FAKE:0."""
    x = tf.placeholder(tf.float32, [size, size])
    with tf.device("/device:FAKE:0"):
        y = x
        for _ in range(layers):
            with scope():
                y = tf.tanh(y * 1.25)
        return x, tf.gradients(y, x, [x])[0]


def _run(scope, value, limit):
    """The gradient, computed with at most `limit` bytes on the device."""
    with tf.Graph().as_default():
        x, slope = _deep(scope)
        config = tf.ConfigProto(allow_soft_placement=True)
        with tf.Session(config=config) as session:
            _executor.device_limit("FAKE", 0, limit)
            try:
                return [np.array(session.run(slope, {x: value})) for _ in range(5)]
            finally:
                _executor.device_limit("FAKE", 0, 0)


def test_swapping_makes_it_fit(fake):
    """24 values of 64 KB wait for the gradients; with 12 of them on the device it fits only if the
    others are on the host."""
    value = np.random.RandomState(0).rand(128, 128).astype(np.float32)
    (want, *_), limit = _run(contextlib.nullcontext, value, 0), 12 * 65536
    with pytest.raises(tf.errors.ResourceExhaustedError, match="FAKE:0"):
        _run(contextlib.nullcontext, value, limit)
    for got in _run(swap_scope, value, limit):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("model, sizes", [
    ("lstm", {"steps": 8, "layers": 2}), ("convnet", {"layers": 8}), ("loop", {"steps": 16})])
def test_less_memory_is_enough(fake, model, sizes):
    """Deep networks and loops run in 0.7 of the memory that they need without swapping, with equal
    results; and there is a bound on what swapping may cost in time."""
    kept = models.Step(model, False, **sizes)
    least, seconds = kept.least(), kept.seconds(steps=5)
    limit = int(0.7 * least)
    assert not kept.fits(kept.base + limit)
    kept.close()
    swapped = models.Step(model, True, **sizes)
    assert swapped.fits(swapped.base + limit)
    assert swapped.seconds(steps=5) < 20 * seconds + 0.5
    for a, b in zip(kept.results, swapped.results):
        np.testing.assert_array_equal(a, b)
    with swapped.limited(swapped.base + limit):
        for a, b in zip(kept.results, swapped.run()):
            np.testing.assert_array_equal(a, b)
    swapped.close()


def test_copies_back_do_not_run_ahead(fake):
    """Without any limit, too, only some values are on the device at a time."""
    value = np.random.RandomState(0).rand(128, 128).astype(np.float32)
    used = {}
    for name, scope in (("swapped", swap_scope), ("kept", contextlib.nullcontext)):
        fake[0].reset_counters()
        _run(scope, value, 0)
        fake[0].settle()
        used[name] = fake[0]["bytes_peak"]
    assert used["swapped"] < 0.7 * used["kept"]


def test_stacks_of_loops():
    """swap_memory=True reaches the gradient's stacks, on devices with memory of their own only."""
    from pyflow.passes import node, swap

    for device, expected in (("FAKE", "_StackPushHost"), ("CPU", "StackPushV2")):
        with tf.Graph().as_default():
            fetches, feeds = models.loop(tf, True)
            graph = node.prune(fetches, [], list(feeds))
            for n in graph.nodes:
                n.device = f"/job:localhost/replica:0/task:0/device:{device}:0"
            swap.swap(graph)
            found = {n.op for n in graph.nodes if n.op.lstrip("_").startswith("StackPush")}
            assert found == {expected}


def test_marks_do_nothing_on_cpus():
    from pyflow.passes import node, swap

    x = tf.placeholder(tf.float32, [64, 64])
    with swap_scope():
        y = tf.tanh(x)
    graph = node.prune([tf.gradients(y, x)[0]], [], [x])
    for n in graph.nodes:
        n.device = "/job:localhost/replica:0/task:0/device:CPU:0"
    assert swap.swap(graph) == 0
