"""Large results of two operands, stored past the caches block by block: rows that fill no line."""
import numpy as np
import pytest
from exact import assert_same

import pyflow as tf

SHAPES = (((2999, 1003), (2999, 1)), ((1, 7003), (701, 1)), ((3, 900, 1001), (3, 1, 1001)),
          ((450001, 8), (450001, 1)), ((2900001,), (2900001,)), ((2900001,), ()))


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("dtype", (np.int32, np.float32, np.float64))
def test_large_binary(shapes, dtype):
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-9, 9, shape).astype(dtype) for shape in shapes)
    with tf.Graph().as_default(), tf.Session() as session:
        a, b = (tf.placeholder(tf.as_dtype(dtype), shape) for shape in shapes)
        found = session.run([a - b, b - a, tf.greater(a, b)], {a: x, b: y})
    for got, wanted in zip(found, (x - y, y - x, x > y)):
        assert got.dtype == wanted.dtype
        assert_same(got, wanted)


@pytest.mark.parametrize("source, target", (
    (np.float32, np.float16), (np.float64, np.float32), (np.int32, np.float64),
    (np.uint8, np.int16),
    (np.float16, np.float64), (np.float32, np.complex64), (np.int64, np.bool_)))
def test_large_cast(source, target):
    n = (8 << 20) // np.dtype(target).itemsize + 4099
    data = np.random.default_rng(7).integers(0, 200, n).astype(source)[3:]
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.as_dtype(source), data.shape)
        found = session.run(tf.cast(x, tf.as_dtype(target)), {x: data})
    assert_same(found, data.astype(target))


@pytest.mark.parametrize("shape, repeated", [
    ((3000, 1001), (3000, 1)), ((3000, 1001), (1001,)), ((8, 64, 71, 80), (64, 1, 1)),
    ((50, 60, 1000), (50, 1, 1)), ((50, 60, 1000), (60, 1000)), ((160000, 17), (17,)),
    ((160000, 17), (160000, 1)), ((3, 1000003), (3, 1)), ((300000, 10), (10,))])
def test_rows_that_share_lines_take_their_own_operand(shape, repeated):
    rng = np.random.default_rng(len(shape))
    x, y = rng.random(shape, np.float32), rng.random(repeated, np.float32) + 1
    with tf.Graph().as_default(), tf.Session(threads=2) as session:
        a, b = tf.placeholder(tf.float32, shape), tf.placeholder(tf.float32, repeated)
        for fetch, want in ((a - b, x - y), (b - a, y - x), (a / b, x / y), (b * a, y * x)):
            np.testing.assert_array_equal(session.run(fetch, {a: x, b: y}), want)


@pytest.mark.parametrize("off", (0, 1, 3))
def test_a_number_beside_a_large_array(off):
    """Without fusion: one long row, whose first and last lines are not whole."""
    x, y = np.random.default_rng(off).random(2900003, np.float32)[off:], np.float32(1.7)
    plain = tf.OptimizerOptions(opt_level=tf.OptimizerOptions.L0)
    config = tf.ConfigProto(graph_options=tf.GraphOptions(optimizer_options=plain))
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        a, b = tf.placeholder(tf.float32, x.shape), tf.placeholder(tf.float32, [])
        found = session.run([a - b, b - a, a / b, b / a, a * b], {a: x, b: y})
    for got, wanted in zip(found, (x - y, y - x, x / y, y / x, x * y)):
        assert_same(got, wanted)


@pytest.mark.parametrize("dtype", ("float32", "float16", "int32", "int64", "complex64"))
def test_large_comparisons(dtype):
    """8 MB and more of results of one byte each, from inputs that are wider; some fused."""
    n, rng = (8 << 20) + 77, np.random.default_rng(11)
    x, y = (rng.integers(0, 9, n).astype(dtype) for _ in range(2))
    with tf.Graph().as_default(), tf.Session(threads=2) as session:
        a, b = tf.placeholder(dtype, [n]), tf.placeholder(dtype, [n])
        fetches, wanted = [tf.equal(a, b), tf.not_equal(a, 3)], [x == y, x != 3]
        if dtype != "complex64":
            fetches += [tf.logical_and(a < b, a > 2), tf.less(a[:, None], b[:1])]
            wanted += [(x < y) & (x > 2), x[:, None] < y[:1]]
        for fetch, want in zip(fetches, wanted):
            assert_same(session.run(fetch, {a: x, b: y}), want)
