"""Moments and layer norms: what becomes one node, what stays, and results near to the exact ones."""
import numpy as np
import pytest

import pyflow as tf
import rewriting
from pyflow.ops.norm.fused_norm_ops import _FusedMoments
from pyflow.passes import fuse_moments
from pyflow.passes.options import Options


def fused(fetches, feeds=(), targets=()):
    graph = rewriting.pruned(fetches, feeds, targets)
    rewriting.rewrite(graph, Options(), rewriting.evaluator())
    fuse_moments.fuse(graph)
    return graph


def by_keras(x, scale, offset):
    mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
    return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)


def by_gpt2(x, scale, offset):
    mean = tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(x - mean), axis=-1, keepdims=True)
    return (x - mean) * tf.rsqrt(variance + 1e-3) * scale + offset


def by_division(x, scale, offset):
    mean, variance = tf.nn.moments(x, axes=[-1], keep_dims=True)
    return offset + scale * ((x - mean) / tf.sqrt(1e-3 + variance))


def exact(x, axes):
    x = x.astype(np.float64)
    return x.mean(axes, keepdims=True), x.var(axes, keepdims=True)


def rows(shape, dtype="float32", seed=0):
    values = np.random.default_rng(seed).standard_normal(shape) * 3 + 100
    return values.astype(tf.as_dtype(dtype).as_numpy_dtype)


# ------------------------------------------------------------------------------- what is fused
@pytest.mark.parametrize("make", (by_keras, by_gpt2, by_division))
def test_layer_norms_as_people_write_them(make):
    with tf.Graph().as_default():
        x, scale, offset = (tf.placeholder(tf.float32, s) for s in ([None, 70], [70], [70]))
        y = make(x, scale, offset)
        found = rewriting.ops(fused([y], [x, scale, offset]))
        assert found == ["_Arg"] * 3 + ["_FusedLayerNorm", "_Retval"]
        data = rows((9, 70)), rows((70,), seed=1) - 99, rows((70,), seed=2)
        both = rewriting.both(y, dict(zip((x, scale, offset), data)))
    mean, variance = exact(data[0], 1)
    wanted = (data[0] - mean) / np.sqrt(variance + 1e-3) * data[1] + data[2]
    for got in both:
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-4)
    assert np.abs(both[0] - wanted).max() <= np.abs(both[1] - wanted).max() * 1.5


def test_golden():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [8, 12], name="x")
        scale = tf.placeholder(tf.float32, [12], name="scale")
        y = by_keras(x, scale, tf.zeros([12]))
        mean, variance = tf.nn.moments(y, [0], name="outer")
        graph = rewriting.pruned([mean, variance], [x, scale])
        rewriting.rewrite(graph, Options(), rewriting.evaluator())
        rewriting.check_golden("fuse_moments", graph, fuse_moments.fuse)


def test_gradients_keep_the_moments():
    with tf.Graph().as_default():
        x, scale, offset = (tf.placeholder(tf.float32, s) for s in ([6, 70], [70], [70]))
        y = by_keras(x, scale, offset)
        fetches = [y, *tf.gradients(y * y, [x, scale, offset])]
        found = rewriting.ops(fused(fetches, [x, scale, offset]))
        assert found.count("_FusedMoments") == 1 and "_FusedLayerNorm" not in found
        data = rows((6, 70)) - 100, rows((70,), seed=1) - 99, rows((70,), seed=2) - 99
        both = rewriting.both(fetches, dict(zip((x, scale, offset), data)))
    for a, b in zip(*both):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


def test_halves_are_read_as_they_are():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float16, [5, 90])
        mean, variance = tf.nn.moments(x, [1])
        graph = fused([mean, variance], [x])
        (node,) = [n for n in graph.nodes if n.op == "_FusedMoments"]
        assert node.attrs["S"] is tf.float16 and node.attrs["T"] is tf.float32
        data = rows((5, 90), "float16")
        got = rewriting.both([mean, variance], {x: data})[0]
    for found, wanted in zip(got, exact(data, 1)):
        np.testing.assert_allclose(found.astype(float), wanted[:, 0], rtol=2**-10)


# ------------------------------------------------------------------------------- what stays
def _kept(make, shape=(4, 70)):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, shape)
        return rewriting.ops(fused(make(x), [x]))


def test_other_axes_other_tensors_and_dropped_dimensions_stay():
    def two_axes(x):
        mean = tf.reduce_mean(x, 1, keepdims=True)
        return [tf.reduce_mean(tf.math.squared_difference(x, mean), 0, keepdims=True)]

    def two_tensors(x):
        mean = tf.reduce_mean(tf.abs(x), 1, keepdims=True)
        return [tf.reduce_mean(tf.math.squared_difference(x, mean), 1, keepdims=True)]

    def dropped(x):
        mean = tf.reduce_mean(x, 1, keepdims=True)
        return [tf.reduce_mean(tf.math.squared_difference(x, mean), 1)]

    def doubles(x):
        return tf.nn.moments(tf.cast(x, tf.float64), [1])

    def awaited(x):
        mean = tf.reduce_mean(x, 1, keepdims=True)
        with tf.control_dependencies([tf.random_uniform([1])]):
            squares = tf.math.squared_difference(x, mean)
        return [tf.reduce_mean(squares, 1, keepdims=True)]
    for make in (two_axes, two_tensors, dropped, doubles, awaited):
        assert "_FusedMoments" not in _kept(make), make.__name__


def test_norms_that_others_read_or_of_other_dimensions_keep_their_moments():
    def fetched(x):
        mean, variance = tf.nn.moments(x, [1], keep_dims=True)
        y = tf.nn.batch_normalization(x, mean, variance, tf.ones([70]), tf.ones([70]), 1e-3)
        return [y, variance]

    def columns(x):
        mean, variance = tf.nn.moments(x, [0], keep_dims=True)
        return [tf.nn.batch_normalization(x, mean, variance, tf.ones([70]), tf.ones([70]), 1e-3)]

    def scalars(x):
        return [by_gpt2(x, tf.constant(2.0), tf.constant(1.0))]
    for make in (fetched, columns, scalars):
        found = _kept(make)
        assert "_FusedMoments" in found and "_FusedLayerNorm" not in found, make.__name__


def test_in_a_loop_and_a_branch():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [6, 70])
        ones = tf.ones([70])
        step = lambda i, v: (i + 1, by_keras(v, ones, ones))
        looped = tf.while_loop(lambda i, v: i < 3, step, (0, x))[1]
        branch = tf.cond(tf.reduce_sum(x) > 0, lambda: by_gpt2(x, ones, ones), lambda: x)
        a, b = rewriting.both([looped, branch], {x: rows((6, 70))})
    for found, wanted in zip(a, b):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------- values
SHAPES = [((3, 5), (1,)), ((7, 4099), (1,)), ((2, 200001), (1,)), ((4099, 3), (0,)),
          ((5000, 17), (0,)), ((300, 700), (0,)), ((3, 9, 11, 5), (0, 1, 2)),
          ((3, 9, 11, 5), (1, 2)), ((3, 9, 11, 5), (0, 2, 3)), ((3, 9, 11, 5), (-1, -3)),
          ((1000, 8), (1,)), ((130, 63), (-1,)), ((6, 50, 2), (0, 2)),
          ((70000,), (0,)), ((4, 6), (0, 1)), ((40, 1, 8), (1,)), ((2, 3), ())]


@pytest.mark.parametrize("shape,axes", SHAPES)
@pytest.mark.parametrize("dtype", ("float32", "float16", "bfloat16"))
def test_moments_are_right(shape, axes, dtype):
    x = rows(shape, dtype)
    x.reshape(-1)[0] += 50                              # the shift is off in the first row
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(_FusedMoments(tf.constant(x), axes=list(axes), T=tf.float32))
    mean, variance = exact(x, axes)
    np.testing.assert_allclose(found[0], mean, rtol=2e-7)
    np.testing.assert_allclose(found[1], variance, rtol=1e-5, atol=1e-12)


def test_infinities_nans_and_nothing():
    x = rows((5, 70))
    x[0, 3], x[1, 69], x[2, 0], x[3, 60] = np.nan, np.inf, -np.inf, 3e38
    with tf.Graph().as_default():
        a = tf.placeholder(tf.float32, [None, None])
        found = tf.nn.moments(a, [1])
        with np.errstate(all="ignore"):
            got, plain = rewriting.both(found, {a: x})
            np.testing.assert_array_equal(np.isnan(got[0]), [True, False, False, False, False])
            np.testing.assert_array_equal(got[0][1:3], [np.inf, -np.inf])
            assert np.isnan(got[1][:3]).all() and np.isfinite(got[0][3:]).all()
            for i in range(2):
                np.testing.assert_array_equal(np.isnan(got[i]), np.isnan(plain[i]))
            empty = rewriting.both(found, {a: rows((3, 0))})
            none = rewriting.both(found, {a: rows((0, 3))})
    assert all(np.isnan(e).all() and e.shape == (3,) for pair in empty for e in pair)
    assert all(n.shape == (0,) for pair in none for n in pair)


@pytest.mark.parametrize("threads", (1, 2))
def test_large_results_past_the_caches(threads):
    x = rows((2400, 1024))
    config = tf.ConfigProto(intra_op_parallelism_threads=threads)
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        a = tf.placeholder(tf.float32, x.shape)
        got = session.run(by_gpt2(a, tf.ones([1024]), tf.zeros([1024])), {a: x})
    mean, variance = exact(x, 1)
    np.testing.assert_allclose(got, (x - mean) / np.sqrt(variance + 1e-3), rtol=1e-5, atol=1e-4)
