"""Recomputation on request: the same values with a smaller peak; random numbers are drawn once."""
import pathlib
import sys

import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
import memory_models  # noqa: E402

SIZES = {"resnet50": dict(batch=4, size=96, blocks=(3, 3)),
         "lstm": dict(batch=192, units=32, steps=24, layers=2)}


def _peak(model, scope, mode=0):
    """(peak bytes of a step, losses of three steps)."""
    with tf.Graph().as_default():
        train, loss = getattr(memory_models, model)(tf, scope=scope, **SIZES[model])
        config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        config.graph_options.rewrite_options.memory_optimization = mode
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, train])[0] for _ in range(2)]
            before = _executor.memory_stats()["in_use"]
            _executor.reset_peak()
            losses.append(session.run([loss, train])[0])
            return _executor.memory_stats()["peak"] - before, losses


@pytest.mark.parametrize("model", sorted(SIZES))
def test_scopes_cut_the_peak(model):
    plain, want = _peak(model, None)
    less, got = _peak(model, tf.recompute_scope)
    assert got == want                  # the same bits
    assert less <= 0.7 * plain, (less, plain)


def test_heuristics_recompute_cheap_operations():
    plain, want = _peak("resnet50", None)
    less, got = _peak("resnet50", None, mode=5)
    assert got == want
    assert less <= 0.85 * plain, (less, plain)


def test_no_memory_optimization():
    plain, _ = _peak("lstm", None)
    marked, _ = _peak("lstm", tf.recompute_scope, mode=1)
    assert marked >= 0.95 * plain


def test_dropout_masks_are_kept():
    """The gradient of dropout is zero exactly where the output is."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.ones([64, 64])

        @tf.recompute_grad
        def layer(x):
            return tf.nn.dropout(tf.tanh(x * 1.5), keep_prob=0.5) * 2.0

        y = layer(x)
        for _ in range(3):
            value, slope = session.run([y, tf.gradients(y, x)[0]])
            np.testing.assert_array_equal(value == 0, slope == 0)
            assert 0.3 < np.mean(value == 0) < 0.7


def test_copies_and_their_order():
    """Interior values are copied, results are not; the copy waits for the gradient before it."""
    from pyflow.passes import node, recompute

    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [64, 64])
        with tf.recompute_scope("a"):
            y = tf.tanh(tf.exp(x, name="inner"), name="middle") * tf.tanh(x, name="side")
        loss = tf.reduce_sum(tf.square(y))
        graph = node.prune([loss, tf.gradients(loss, x)[0]], [], [x])
        count = recompute.recompute(graph)
        names = [n.name for n in graph.nodes if n.name.startswith(recompute.PREFIX)]
        assert count == len(names) and "Recomputed/middle" in names
        assert not any(n.endswith("/mul") for n in names)
        copy = next(n for n in graph.nodes if n.name == "Recomputed/inner")
        assert copy.controls and all("gradients" in c.name for c in copy.controls)
