"""Shapes that the samples of the op blocks do not reach: long reductions, cut into pieces that are
joined by a second launch, and comparisons of shapes that do not broadcast."""
import numpy as np
import pytest

import pyflow as tf


def on_gpu(make, *arrays):
    with tf.Graph().as_default():
        fed = [tf.placeholder(a.dtype, a.shape) for a in arrays]
        with tf.device("/device:GPU:0"):
            fetched = make(*fed)
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=False)) as session:
            return session.run(fetched, dict(zip(fed, arrays)))


REDUCED = [((20000,), 0), ((3, 9000), 1), ((9000, 3), 0), ((700, 45), 0), ((5, 1500, 2), 1),
           ((2, 70, 66), (0, 2)), ((40, 64), 1), ((300, 8), 1), ((2, 5000), None), ((300, 7), 1)]


@pytest.mark.parametrize("shape, axis", REDUCED, ids=str)
def test_long_reductions(gpu, shape, axis):
    x = np.random.default_rng(1).integers(-50, 50, shape).astype(np.float32)
    ops = (tf.reduce_sum, tf.reduce_max, tf.reduce_min)
    found = on_gpu(lambda t: [op(t, axis=axis) for op in ops], x)
    for got, want in zip(found, (x.sum(axis), x.max(axis), x.min(axis))):
        np.testing.assert_array_equal(got, want)
    if not isinstance(axis, tuple) and axis is not None:
        best = on_gpu(lambda t: [tf.argmax(t, axis), tf.argmin(t, axis)], x)
        np.testing.assert_array_equal(best, [x.argmax(axis), x.argmin(axis)])   # the first of many


def test_long_rows_of_softmax_and_their_half_sums(gpu):
    x = np.random.default_rng(2).standard_normal((3, 6000)).astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(on_gpu(tf.nn.softmax, x), e / e.sum(1, keepdims=True), rtol=1e-4)
    ones = np.ones((2, 5000), np.float16)                   # summed as float, rounded once
    np.testing.assert_array_equal(on_gpu(lambda t: tf.reduce_sum(t, 1), ones), [5000, 5000])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int32, np.bool_],
                         ids=lambda d: d.__name__)
def test_shapes_that_do_not_broadcast(gpu, dtype):
    a, b = np.ones((2, 3), dtype), np.ones(4, dtype)

    def compare(x, y):
        from pyflow.ops.elementwise import logic_ops
        return [op(x, y, incompatible_shape_error=False)
                for op in (logic_ops.Equal, logic_ops.NotEqual)]
    equal, unequal = on_gpu(compare, a, b)
    assert equal.shape == unequal.shape == () and not equal and unequal
    equal, unequal = on_gpu(compare, a, a)
    assert equal.shape == (2, 3) and equal.all() and not unequal.any()
