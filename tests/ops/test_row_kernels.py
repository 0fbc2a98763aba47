"""Kernels that work on rows in vectors: sizes around a vector's, a tile's and a piece's length.

Softmax, cross entropies, batch normalisation, arg max, cumulative sums, local response
normalisation and sums of halves, small and past the caches, each against NumPy in double precision.
"""
import numpy as np
import pytest

import pyflow as tf

HALF_ULP = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
COLUMNS = (15, 16, 17, 33, 64, 129, 1003)


def array(shape, dtype="float32", scale=3.0, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return values.astype(tf.as_dtype(dtype).as_numpy_dtype)


def run(make, *arrays):
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = [tf.placeholder(tf.as_dtype(a.dtype), a.shape) for a in arrays]
        return session.run(make(*inputs), dict(zip(inputs, arrays)))


def softmax(x):
    x = x.astype(np.float64)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("columns", COLUMNS)
def test_softmax_is_right_to_a_few_ulp(columns):
    x = np.round(array((9, columns)) * 64) / 64          # differences are exact
    x[1] += 1024
    found, logs = run(lambda a: (tf.nn.softmax(a), tf.nn.log_softmax(a)), x.astype(np.float32))
    wanted = softmax(x)
    # exp 2.6 ulp, the sum and its inverse 2.5, the product 0.5
    assert (np.abs(found - wanted) <= 6 * np.spacing(wanted.astype(np.float32))).all()
    np.testing.assert_allclose(logs, np.log(wanted), rtol=3e-7, atol=3e-7)


def long_rows(columns):
    """Rows whose float sums drift when they are added term by term: equal and repeated values."""
    spread = np.random.default_rng(0)
    rows = [spread.standard_normal(columns), spread.random(columns), np.full(columns, 0.3),
            np.resize(spread.standard_normal(100), columns), np.linspace(0, 8, columns)]
    return np.round(np.array(rows) * 64) / 64            # differences are exact


@pytest.mark.parametrize("columns", (10007, 65536, 400003))
def test_softmax_of_long_rows_is_as_right_as_of_short_ones(columns):
    x = long_rows(columns)
    found, logs = run(lambda a: (tf.nn.softmax(a), tf.nn.log_softmax(a)), x.astype(np.float32))
    wanted = softmax(x)
    exact = np.log(wanted)
    assert (np.abs(found - wanted) <= 6 * np.spacing(wanted.astype(np.float32))).all()
    assert (np.abs(logs - exact) <= 2 * np.spacing(np.abs(exact).astype(np.float32))).all()


@pytest.mark.parametrize("columns", (10007, 400003))
def test_cross_entropies_of_long_rows(columns):
    x = long_rows(columns)
    labels, q = np.arange(len(x)) * 1000, softmax(x[::-1])
    dense = run(lambda a, b: tf.nn.softmax_cross_entropy_with_logits(labels=b, logits=a),
                x.astype(np.float32), q.astype(np.float32))
    sparse = run(lambda a, b: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=b, logits=a),
                 x.astype(np.float32), labels)
    logs, ulp = np.log(softmax(x)), 2.0**-23
    np.testing.assert_allclose(dense, -(q.astype(np.float32) * logs).sum(1), rtol=4 * ulp)
    np.testing.assert_allclose(sparse, -logs[np.arange(len(x)), labels], rtol=2 * ulp)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("dtype", HALF_ULP)
def test_softmax_of_halves_is_nearly_rounded_once(dtype, columns):
    x = array((9, columns), dtype)
    found, logs = run(lambda a: (tf.nn.softmax(a), tf.nn.log_softmax(a)), x)
    wanted, limit = softmax(x), 1.05 * HALF_ULP[dtype]
    assert (np.abs(found.astype(float) - wanted) <= limit * np.maximum(wanted, 6.2e-5)).all()
    exact = np.log(wanted)
    assert (np.abs(logs.astype(float) - exact) <= limit * np.maximum(np.abs(exact), 2e-2)).all()


@pytest.mark.parametrize("dtype", ("float32", "float16", "bfloat16"))
def test_softmax_of_infinities_and_nans(dtype):
    x = array((4, 70), dtype)
    x[0, 3], x[1, 69], x[2, :40] = np.nan, -np.nan, -np.inf
    found = run(tf.nn.softmax, x).astype(float)
    assert np.isnan(found[:2]).all() and (found[2, :40] == 0).all()
    np.testing.assert_allclose(found[2:].sum(-1), 1, rtol=2e-2)


@pytest.mark.parametrize("columns", COLUMNS)
def test_cross_entropies_and_their_gradients(columns):
    x, q = array((9, columns)), np.maximum(array((9, columns), seed=1), 0)
    x[0, 2], q[0, 2] = -np.inf, 0
    labels = np.arange(9) % columns
    with np.errstate(divide="ignore"):
        logs = np.log(softmax(x))
    dense = run(lambda a, b: tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=a, labels=b), x, q)
    sparse = run(lambda a, b: tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
        features=a, labels=b), x, labels)
    loss = -np.where(q == 0, 0, q * np.where(q == 0, 0, logs)).sum(1)
    np.testing.assert_allclose(dense[0], loss, rtol=2e-6)
    np.testing.assert_allclose(dense[1], softmax(x) - q, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sparse[0], -logs[np.arange(9), labels], rtol=2e-6)
    np.testing.assert_allclose(sparse[1], softmax(x) - np.eye(columns)[labels], rtol=1e-5,
                               atol=1e-6)


@pytest.mark.parametrize("layout", ("NHWC", "NCHW"))
@pytest.mark.parametrize("shape", ((2, 3, 3, 5), (4, 16, 16, 64), (3, 7, 7, 3), (2, 9, 9, 100),
                                   (2, 3, 3, 1001), (1, 1, 1, 4), (2, 90, 90, 16)))
@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_batch_norm_and_its_gradient(layout, shape, dtype):
    n, h, w, c = shape
    shape = shape if layout == "NHWC" else (n, c, h, w)
    axes, spread = ((0, 1, 2), (1, 1, 1, c)) if layout == "NHWC" else ((0, 2, 3), (1, c, 1, 1))
    # far from zero: sums of squares would cancel
    x = (array(shape, scale=2.0) + (30 if dtype == "float32" else 0)).astype(
        tf.as_dtype(dtype).as_numpy_dtype)
    dy, scale, offset = array(shape, dtype, seed=1), array(c, seed=2), array(c, seed=3)

    def make(x, dy, scale, offset):
        y, mean, variance = tf.nn.fused_batch_norm(x, scale, offset, data_format=layout)
        return y, mean, variance, tf.gradients(y, [x, scale, offset], dy)
    y, mean, variance, gradients = run(make, x, dy, scale, offset)
    exact, g, count = x.astype(float), dy.astype(float), x.size // c
    m, v = exact.mean(axes), exact.var(axes)
    inverse = (1 / np.sqrt(v + 1e-3)).reshape(spread)
    d = (exact - m.reshape(spread)) * inverse
    ulp = 2.0**-8 if dtype == "bfloat16" else 1e-5
    np.testing.assert_allclose(mean, m, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(variance * (count - 1) / count if count > 1 else variance, v,
                               rtol=3e-6)
    wanted = d * scale.reshape(spread) + offset.reshape(spread)
    np.testing.assert_allclose(y.astype(float), wanted, rtol=ulp, atol=3 * ulp)
    dx = scale.reshape(spread) * inverse * (
        g - g.mean(axes, keepdims=True) - d * (g * d).mean(axes, keepdims=True))
    np.testing.assert_allclose(gradients[0].astype(float), dx, rtol=ulp,
                               atol=3 * ulp * np.abs(g).max() * inverse.max())
    np.testing.assert_allclose(gradients[1], (g * d).sum(axes), rtol=1e-4, atol=1e-4 * count**.5)
    np.testing.assert_allclose(gradients[2], g.sum(axes), rtol=1e-5, atol=1e-5 * count**.5)


@pytest.mark.parametrize("value", (np.inf, -np.inf, np.nan))
@pytest.mark.parametrize("place", (0, 3, 150, 699))     # the shift's rows, or not
@pytest.mark.parametrize("layout", ("NHWC", "NCHW"))
@pytest.mark.parametrize("dtype", ("float32", "float16", "bfloat16"))
def test_batch_norm_of_infinities_and_nans(dtype, layout, place, value):
    rows = array((700, 5), dtype)
    rows[place, 1], rows[-place, 3], rows[-1 - place, 3] = value, np.inf, -np.inf
    x = rows.reshape(2, 14, 25, 5)
    x = x if layout == "NHWC" else np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    one = np.ones(5, np.float32)
    y, mean, variance = run(
        lambda a: tf.nn.fused_batch_norm(a, one, one, data_format=layout), x)
    with np.errstate(invalid="ignore"):
        exact, spread = rows.astype(float).mean(0), rows.astype(float).var(0, ddof=1)
    np.testing.assert_allclose(mean, exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, spread, rtol=1e-5)
    nan = np.isnan(y.astype(float)).all((0, 1, 2) if layout == "NHWC" else (0, 2, 3))
    assert nan.tolist() == [False, True, False, True, False]


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16", "int8", "int64"))
@pytest.mark.parametrize("shape", ((3, 1000), (2, 9001), (70, 3, 300), (5, 40)))
def test_arg_max_takes_the_first_best(shape, dtype):
    x = np.clip(array(shape, "float32", 2.0), -3, 3).round().astype(dtype)      # many are equal
    for axis in range(len(shape)):
        top, low = run(lambda a, k=axis: (tf.argmax(a, k), tf.argmin(a, k)), x)
        np.testing.assert_array_equal(top, x.argmax(axis))
        np.testing.assert_array_equal(low, x.argmin(axis))


def test_arg_max_never_prefers_nan():
    x = array((4, 5000))
    x[0, 0] = x[1, 4999] = x[2, 1:4998] = np.nan
    found = run(lambda a: tf.argmax(a, 1), x)
    assert found[0] == 0 and found[1] == x[1, :-1].argmax() and found[2] == np.nanargmax(x[2])


@pytest.mark.parametrize("dtype", ("float32", "float16", "bfloat16"))
@pytest.mark.parametrize("columns", (1, 7, 16, 255, 256, 257, 1000, 1040))
def test_arg_max_of_rows_around_blocks(columns, dtype):
    x = array((6, columns), dtype, 1.0)
    x[0, :] = -np.inf                                    # all are equal
    x[1, columns // 2:] = x[1].astype(float).max()       # the last ones are
    x[2, -1], x[3, -1] = np.inf, -np.inf
    x[4, columns // 3:] = np.nan
    top, low = run(lambda a: (tf.argmax(a, -1), tf.argmin(a, -1)), x)
    y = x.astype(float)
    if columns // 3:
        y[4, columns // 3:] = y[4, 0]                    # NaN is never better; 0 if it comes first
    np.testing.assert_array_equal(top, y.argmax(1))
    np.testing.assert_array_equal(low, y.argmin(1))


@pytest.mark.parametrize("dtype", ("float32", "float16", "bfloat16"))
@pytest.mark.parametrize("shape, axis", (((5, 1), 1), ((3, 15), -1), ((4, 1003), 1), ((40, 7), 0),
                                         ((3, 30, 33), 1), ((9, 2, 2050), -3), ((6, 1, 4), 0)))
def test_cumulative_sums_of_vectors_and_tiles(shape, axis, dtype):
    x = np.random.default_rng(3).integers(-2, 3, shape).astype(array((1,), dtype).dtype)
    wide = x.astype(np.float32)
    for exclusive in (False, True):
        for reverse in (False, True):
            found = run(lambda a: tf.cumsum(a, axis, exclusive, reverse), x)
            turned = np.flip(wide, axis) if reverse else wide
            wanted = np.cumsum(turned, axis) - (turned if exclusive else 0)
            wanted = np.flip(wanted, axis) if reverse else wanted
            np.testing.assert_array_equal(found.astype(np.float32), wanted)   # small integers


def test_cumulative_sums_of_infinities_and_nans():
    x = np.ones((3, 50), np.float32)
    x[0, 20], x[1, 33], x[2, 3], x[2, 40] = np.nan, np.inf, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        forward, back = np.cumsum(x, 1), np.cumsum(x[:, ::-1], 1)[:, ::-1]
    np.testing.assert_array_equal(run(lambda a: tf.cumsum(a, 1), x), forward)
    np.testing.assert_array_equal(run(lambda a: tf.cumsum(a, 1, reverse=True), x), back)
    before = run(lambda a: tf.cumsum(a, 1, exclusive=True), x)
    np.testing.assert_array_equal(before[:, 1:], forward[:, :-1])


@pytest.mark.parametrize("shape", ((2200, 1003), (2200, 1024)))
def test_large_rows_whose_results_go_past_the_caches(shape):
    x = np.round(array(shape, scale=1.5) * 64) / 64
    found, logs, inner, outer = run(lambda a: (
        tf.nn.softmax(a), tf.nn.log_softmax(a), tf.cumsum(a, 1), tf.cumsum(a, 0, reverse=True)), x)
    wanted = softmax(x)
    assert (np.abs(found - wanted) <= 6 * np.spacing(wanted.astype(np.float32))).all()
    np.testing.assert_allclose(logs, np.log(wanted), rtol=4e-7, atol=4e-7)
    exact = x.astype(np.float64)                         # sums of 64ths are exact
    np.testing.assert_array_equal(inner, np.cumsum(exact, 1))
    np.testing.assert_array_equal(outer, np.cumsum(exact[::-1], 0)[::-1])


@pytest.mark.parametrize("dtype", ("float32", "float16"))
@pytest.mark.parametrize("columns", (17, 33, 1003))
def test_large_softmax_whose_rows_share_lines(columns, dtype):
    x = array(((9 << 20) // 2 // columns, columns), dtype)
    found, logs = run(lambda a: (tf.nn.softmax(a), tf.nn.log_softmax(a)), x)
    wanted, near = softmax(x), 1e-6 if dtype == "float32" else 1e-3
    np.testing.assert_allclose(found.astype(float), wanted, rtol=near, atol=near / 100)
    np.testing.assert_allclose(logs.astype(float), np.log(wanted), rtol=near, atol=near)


def test_large_local_response_normalisation():
    x = array((9, 60, 60, 80))
    near = np.abs(np.subtract.outer(np.arange(80), np.arange(80))) <= 2
    exact = x.astype(np.float64)
    found = run(lambda a: tf.nn.lrn(a, 2, 1.5, 0.1, 0.75), x)
    np.testing.assert_allclose(found, exact * (1.5 + 0.1 * exact**2 @ near) ** -0.75, rtol=2e-6)


@pytest.mark.parametrize("exclusive", (False, True))
@pytest.mark.parametrize("reverse", (False, True))
def test_cumulative_sums_of_many_rows(exclusive, reverse):
    x = np.random.default_rng(0).integers(-9, 9, (19, 37)).astype(np.float32)
    found = run(lambda a: tf.cumsum(a, 1, exclusive, reverse), x)
    turned = x[:, ::-1] if reverse else x
    wanted = np.cumsum(turned, 1) - (turned if exclusive else 0)
    np.testing.assert_array_equal(found, wanted[:, ::-1] if reverse else wanted)


@pytest.mark.parametrize("beta", (0.5, 0.6, 0.75, 1.0))
@pytest.mark.parametrize("radius", (0, 2, 8, 9, 70))
def test_local_response_normalisation(radius, beta):
    x, dy = array((2, 2, 3, 67)), array((2, 2, 3, 67), seed=1)
    y, dx = run(lambda a, g: (lambda y: (y, tf.gradients(y, a, g)[0]))(
        tf.nn.lrn(a, radius, 1.5, 0.1, beta)), x, dy)
    near = np.abs(np.subtract.outer(np.arange(67), np.arange(67))) <= radius
    exact, g = x.astype(float), dy.astype(float)
    norm = 1.5 + 0.1 * (exact**2) @ near
    np.testing.assert_allclose(y, exact * norm**-beta, rtol=2e-6)
    wanted = g * norm**-beta - 0.2 * beta * exact * ((g * exact * norm**(-beta - 1)) @ near)
    np.testing.assert_allclose(dx, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rare", (1e15, np.inf, np.nan))
@pytest.mark.parametrize("radius", (2, 9, 20, 70))
def test_local_response_normalisation_knows_its_window_only(radius, rare):
    """What a number too large leaves in a sum must be gone where the window is past it."""
    x, dy = array((1, 1, 3, 67)), array((1, 1, 3, 67), seed=1)
    x[0, 0, 1, 11] = rare
    y, dx = run(lambda a, g: (lambda y: (y, tf.gradients(y, a, g)[0]))(
        tf.nn.lrn(a, radius, 1.5, 0.1, 0.75)), x, dy)
    exact, g = x.astype(float), dy.astype(float)
    ends = [(max(k - radius, 0), k + radius + 1) for k in range(67)]

    def sums(v):
        return np.stack([v[..., lo:hi].sum(-1) for lo, hi in ends], -1)
    norm = 1.5 + 0.1 * sums(exact**2)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(y, exact * norm**-0.75, rtol=2e-6)
        wanted = g * norm**-0.75 - 0.15 * exact * sums(g * exact * norm**-1.75)
    far = np.abs(np.arange(67) - 11) > 2 * radius
    np.testing.assert_allclose(dx[..., far], wanted[..., far], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", HALF_ULP)
@pytest.mark.parametrize("shape, axis", (((5, 5000), 1), ((5000, 33), 0), ((300, 7), 1),
                                         ((70, 40, 3), 1), ((3, 1000), (0, 1))))
def test_sums_of_halves_are_rounded_once(dtype, shape, axis):
    x = np.abs(array(shape, dtype, 0.2))
    found, most = run(lambda a: (tf.reduce_sum(a, axis), tf.reduce_max(a, axis)), x)
    exact = x.astype(float).sum(axis)
    np.testing.assert_allclose(found.astype(float), exact, rtol=1.01 * HALF_ULP[dtype])
    np.testing.assert_array_equal(most.astype(float), x.astype(float).max(axis))


@pytest.mark.parametrize("first", ("add", "subtract", "multiply", "maximum", "minimum"))
def test_pairs_of_fused_instructions(first):
    x, p, q = array((3, 777)), np.float32(0.3), np.float32(0.7)      # fed: nothing is folded
    for second in ("add", "subtract", "multiply", "maximum", "minimum"):
        found = run(lambda a, b, c, s=second: getattr(tf, s)(getattr(tf, first)(a, b), c) * b,
                    x, np.asarray(p), np.asarray(q))
        wanted = getattr(np, second)(getattr(np, first)(x, p), q) * p
        np.testing.assert_array_equal(found, wanted.astype(np.float32))
