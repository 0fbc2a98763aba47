"""Depthwise convolution and both gradients against NumPy: sizes around pairs of rows, vectors of
channels and borders, strides, paddings, dilation, multipliers, infinities beside the border."""

import itertools

import numpy as np
import pytest

import pyflow as tf


def padding_of(size, k, stride, rate, padding):
    """-> what stands before, how many outputs."""
    reach = (k - 1) * rate + 1
    if padding == "VALID":
        return 0, -(-(size - reach + 1) // stride)
    if padding == "SAME":
        out = -(-size // stride)
        return max((out - 1) * stride + reach - size, 0) // 2, out
    before, after = padding
    return before, (size + before + after - reach) // stride + 1


def windows(x, f, stride, rate, padding):
    """(tap, rows and columns of x, of y) of every tap that meets the image."""
    (_, h, w, _), (kh, kw) = x, f[:2]
    (pt, oh), (pl, ow) = (padding_of(s, k, stride, rate, p) for s, k, p in
                          ((h, kh, padding), (w, kw, padding)))
    for r, k in itertools.product(range(kh), range(kw)):
        ys = [o for o in range(oh) if 0 <= o * stride - pt + r * rate < h]
        xs = [o for o in range(ow) if 0 <= o * stride - pl + k * rate < w]
        if ys and xs:
            rows = [o * stride - pt + r * rate for o in ys]
            columns = [o * stride - pl + k * rate for o in xs]
            yield (r, k), np.ix_(rows, columns), np.ix_(ys, xs)


def sizes_of(x, f, stride, rate, padding):
    (n, h, w, c), (kh, kw, _, m) = x, f
    oh, ow = (padding_of(s, k, stride, rate, padding)[1] for s, k in ((h, kh), (w, kw)))
    return n, oh, ow, c * m


def expected(x, f, dy, stride, rate, padding):
    """y, dx, df in float64."""
    m = f.shape[3]
    wide = np.repeat(x.astype(np.float64), m, axis=3)
    flat = f.reshape(*f.shape[:2], -1).astype(np.float64)
    y, dx, df = np.zeros(dy.shape), np.zeros(wide.shape), np.zeros(flat.shape)
    for tap, at, to in windows(x.shape, f.shape, stride, rate, padding):
        seen = np.s_[:, at[0], at[1]]
        y[:, to[0], to[1]] += wide[seen] * flat[tap]
        dx[seen] += dy[:, to[0], to[1]] * flat[tap]
        df[tap] = (wide[seen] * dy[:, to[0], to[1]]).sum((0, 1, 2))
    return y, dx.reshape(*x.shape, m).sum(-1), df.reshape(f.shape)


def results(x, f, dy, stride, rate, padding, dtype):
    kind = tf.as_dtype(dtype).as_numpy_dtype
    pads = padding if isinstance(padding, str) else [(0, 0), padding, padding, (0, 0)]
    attributes = {"strides": [1, stride, stride, 1], "dilations": [1, rate, rate, 1],
                  "padding": "EXPLICIT" if pads is not padding else padding}
    if pads is not padding:
        attributes["explicit_paddings"] = [p for pair in pads for p in pair]
    with tf.Graph().as_default(), tf.Session() as session:
        a, b, d = (tf.placeholder(dtype, v.shape) for v in (x, f, dy))
        nodes = [tf.raw_ops.DepthwiseConv2dNative(input=a, filter=b, **attributes),
                 tf.raw_ops.DepthwiseConv2dNativeBackpropInput(
                     input_sizes=x.shape, filter=b, out_backprop=d, **attributes),
                 tf.raw_ops.DepthwiseConv2dNativeBackpropFilter(
                     input=a, filter_sizes=f.shape, out_backprop=d, **attributes)]
        fed = {a: x.astype(kind), b: f.astype(kind), d: dy.astype(kind)}
        return [np.asarray(v, np.float64) for v in session.run(nodes, fed)]


def compare(x, f, stride, rate, padding, dtype="float32", tolerance=2e-5):
    random = np.random.default_rng(sum(x) + sum(f) + stride)
    out = sizes_of(x, f, stride, rate, padding)
    assert min(out) > 0, "no window fits"
    x, f, dy = (random.integers(-64, 65, s) / 16 for s in (x, f, out))
    found = results(x, f, dy, stride, rate, padding, dtype)
    for name, got, want in zip(("y", "dx", "df"), found, expected(x, f, dy, stride, rate, padding)):
        scale = max(np.abs(want).max(), 1)
        assert got.shape == want.shape
        assert np.abs(got - want).max() <= tolerance * scale, name


@pytest.mark.parametrize("padding", ["SAME", "VALID", (2, 2), (0, 3)])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("height, width", [(1, 1), (2, 3), (3, 2), (4, 9), (5, 6), (7, 7), (8, 17)])
def test_three_by_three(height, width, stride, padding):
    if padding == "VALID" and min(height, width) < 3:
        height, width = height + 2, width + 2
    for channels in (1, 15, 16, 21):
        compare((2, height, width, channels), (3, 3, channels, 1), stride, 1, padding)


@pytest.mark.parametrize("filter_", [(5, 5), (5, 3), (3, 5), (2, 2), (1, 7), (7, 1), (1, 1)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_other_filters(filter_, stride, padding):
    for width in (7, 10, 13, 19):
        compare((1, 8, width, 18), (*filter_, 18, 1), stride, 1, padding)


@pytest.mark.parametrize("rate", [2, 3])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_dilated(rate, padding):
    compare((2, 9, 12, 17), (3, 3, 17, 1), 1, rate, padding)


@pytest.mark.parametrize("stride", [1, 2])
def test_multiplier(stride):
    compare((2, 6, 7, 5), (3, 3, 5, 4), stride, 1, "SAME")


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-13), ("float16", 2e-3),
                                              ("bfloat16", 2e-2)])
@pytest.mark.parametrize("stride", [1, 2])
def test_other_types(dtype, tolerance, stride):
    compare((2, 7, 9, 19), (3, 3, 19, 1), stride, 1, "SAME", dtype, tolerance)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-5), ("float16", 2e-3),
                                              ("bfloat16", 2e-2)])
def test_channels_first_from_and_to_single_pixels(dtype, tolerance):
    """An image of one pixel lies alike in both layouts, what it is computed from does not."""
    random = np.random.default_rng(5)
    for rows, padding in ((3, [0] * 8), (1, [0] * 4 + [2] * 4)):
        x, f = (random.integers(-16, 17, s) / 8 for s in ((2, rows, rows, 19), (3, 3, 19, 1)))
        edge = (padding[-1], padding[-1])
        dy = random.integers(-16, 17, sizes_of(x.shape, f.shape, 1, 1, edge)) / 8
        first = [v.transpose(0, 3, 1, 2) for v in (x, dy)]
        attributes = {"strides": [1, 1, 1, 1], "padding": "EXPLICIT", "data_format": "NCHW",
                      "explicit_paddings": padding}
        a, b, d = (tf.cast(v, dtype) for v in (first[0], f, first[1]))
        with tf.Session() as session:
            found = session.run([
                tf.raw_ops.DepthwiseConv2dNative(input=a, filter=b, **attributes),
                tf.raw_ops.DepthwiseConv2dNativeBackpropInput(
                    input_sizes=first[0].shape, filter=b, out_backprop=d, **attributes),
                tf.raw_ops.DepthwiseConv2dNativeBackpropFilter(
                    input=a, filter_sizes=f.shape, out_backprop=d, **attributes)])
        found = [np.asarray(v, np.float64) for v in found]
        found[:2] = [v.transpose(0, 2, 3, 1) for v in found[:2]]
        for got, want in zip(found, expected(x, f, dy, 1, 1, edge)):
            assert got.shape == want.shape
            assert np.abs(got - want).max() <= tolerance * max(np.abs(want).max(), 1)


@pytest.mark.parametrize("stride", [1, 2])
def test_many_rows_are_summed_alike_by_threads(stride):
    """The filter's gradient of several chunks, and a result that is stored past the caches."""
    random = np.random.default_rng(3)
    x = random.standard_normal((6, 96, 96, 48), np.float32)
    f = random.standard_normal((3, 3, 48, 1), np.float32)
    dy = random.standard_normal(sizes_of(x.shape, f.shape, stride, 1, "SAME"), np.float32)
    attributes = {"strides": [1, stride, stride, 1], "padding": "SAME"}
    answers = []
    for threads in (1, 2):
        config = tf.ConfigProto(intra_op_parallelism_threads=threads)
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            answers.append(session.run([
                tf.raw_ops.DepthwiseConv2dNative(input=x, filter=f, **attributes),
                tf.raw_ops.DepthwiseConv2dNativeBackpropInput(
                    input_sizes=x.shape, filter=f, out_backprop=dy, **attributes),
                tf.raw_ops.DepthwiseConv2dNativeBackpropFilter(
                    input=x, filter_sizes=f.shape, out_backprop=dy, **attributes)]))
    for one, two, want in zip(*answers, expected(x, f, dy, stride, 1, "SAME")):
        np.testing.assert_array_equal(one, two)
        assert np.abs(one - want).max() <= 2e-6 * max(np.abs(want).max(), 10)


@pytest.mark.parametrize("stride", [1, 2])
def test_infinities_stay_where_they_are_seen(stride):
    """Nothing outside the image is multiplied: an infinite tap over padding adds nothing."""
    x, f = np.ones((1, 5, 5, 17)), np.ones((3, 3, 17, 1))
    dy = np.ones(sizes_of(x.shape, f.shape, stride, 1, "SAME"))
    f[0, 0] = f[2, 2] = np.inf
    x[0, 0, 0] = np.inf
    dy[0, -1, -1] = np.inf
    for got, want in zip(results(x, f, dy, stride, 1, "SAME", "float32"),
                         expected(x, f, dy, stride, 1, "SAME")):
        np.testing.assert_array_equal(got, want)
