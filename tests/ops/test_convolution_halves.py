"""Convolutions of halves and their gradients against NumPy's float64, and against the same sums in
float32: geometry, layouts, fused bias, residual and activation, one and two threads."""
import subprocess
import sys

import numpy as np
import pytest

import pyflow as tf
from test_convolution import geometry, plain

ROUNDING = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7}


def numbers(rng, shape, kind):
    """Multiples of an eighth: exact in both halves, products exact in float."""
    return (rng.integers(-16, 17, shape) / 8).astype(kind)


def gradients(x, w, dy, strides, padding, dilations, groups):
    """dx, dw by shifting one element at a time: the transpose of `plain`, in float64."""
    wide = np.pad(x, [(0, 0), *padding, (0, 0)])
    dx, dw = np.zeros(wide.shape), np.zeros(w.shape)
    fan_in, fan_out = w.shape[2], w.shape[3] // groups
    for u in range(w.shape[0]):
        for v in range(w.shape[1]):
            rows, cols = (slice(k * d, k * d + (n - 1) * s + 1, s)
                          for k, d, n, s in zip((u, v), dilations, dy.shape[1:3], strides))
            for g in range(groups):
                i, o = slice(g * fan_in, (g + 1) * fan_in), slice(g * fan_out, (g + 1) * fan_out)
                dx[:, rows, cols, i] += dy[..., o] @ w[u, v, :, o].T
                dw[u, v, :, o] += np.tensordot(wide[:, rows, cols, i], dy[..., o], ([0, 1, 2],) * 2)
    (top, _), (left, _) = padding
    return dx[:, top:top + x.shape[1], left:left + x.shape[2]], dw


def close(got, want, dtype, what):
    got = np.asarray(got, np.float64)
    assert got.shape == want.shape
    # rounded once, and sums of float32: far below a rounding
    room = ROUNDING[dtype] * np.abs(want) + 1e-5 * max(np.abs(want).max(), 1)
    assert (np.abs(got - want) <= room).all(), what


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("seed", range(20))
def test_random_geometry(seed, dtype):
    rng = np.random.default_rng(seed)
    image, window, strides, padding, dilations, groups = geometry(rng)
    kind = tf.as_dtype(dtype).as_numpy_dtype
    x, w = numbers(rng, image, kind), numbers(rng, window, kind)
    wide = [v.astype(float) for v in (x, w)]
    want = plain(*wide, strides, padding, dilations, groups)
    dy = numbers(rng, want.shape, kind)
    nchw = seed % 2
    turn, back = ((0, 3, 1, 2), (0, 2, 3, 1)) if nchw else ((0, 1, 2, 3),) * 2

    def spread(values, fill):
        return [fill, fill, *values] if nchw else [fill, *values, fill]
    attrs = dict(strides=spread(strides, 1), padding=spread(padding, [0, 0]),
                 dilations=spread(dilations, 1), data_format="NCHW" if nchw else "NHWC")
    with tf.Graph().as_default():
        fed = [tf.placeholder(dtype, v.shape) for v in (x.transpose(turn), w, dy.transpose(turn))]
        ys = [tf.nn.conv2d(fed[0], tf.constant(w), **attrs), tf.nn.conv2d(*fed[:2], **attrs)]
        grads = tf.gradients(ys[1], fed[:2], fed[2])
        answers = []
        for threads in (1, 2):
            with tf.Session(threads=threads) as session:
                answers.append(session.run(ys + grads, dict(zip(
                    fed, (x.transpose(turn), w, dy.transpose(turn))))))
    for one, two in zip(*answers):
        np.testing.assert_array_equal(one.view(np.uint16), two.view(np.uint16))
    kept, given, dx, dw = answers[0]
    want_dx, want_dw = gradients(*wide, dy.astype(float), strides, padding, dilations, groups)
    close(kept.transpose(back), want, dtype, "constant filter")
    close(given.transpose(back), want, dtype, "fed filter")
    close(dx.transpose(back), want_dx, dtype, "dx")
    close(dw, want_dw, dtype, "dw")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("nchw", [False, True])
@pytest.mark.parametrize("size", [1, 3])
def test_bias_residual_and_activation_in_one(size, nchw, dtype):
    """What the fusing pass makes of a layer, beside the layer run node by node."""
    rng = np.random.default_rng(size)
    kind = tf.as_dtype(dtype).as_numpy_dtype
    x, side = numbers(rng, (2, 9, 11, 24), kind), numbers(rng, (2, 9, 11, 40), kind)
    w, bias = numbers(rng, (size, size, 24, 40), kind), numbers(rng, (40,), kind)
    turn, back = ((0, 3, 1, 2), (0, 2, 3, 1)) if nchw else ((0, 1, 2, 3),) * 2
    layout = "NCHW" if nchw else "NHWC"
    with tf.Graph().as_default(), tf.Session() as session:
        a, b, f = (tf.placeholder(dtype, v.shape)
                   for v in (x.transpose(turn), side.transpose(turn), w))
        y = tf.nn.conv2d(a, f, [1, 1, 1, 1], "SAME", data_format=layout)
        y = tf.nn.relu(tf.nn.bias_add(y, bias, data_format=layout) + b)
        got = session.run(y, {a: x.transpose(turn), b: side.transpose(turn), f: w})
    edge = [[size // 2, size // 2]] * 2
    want = plain(x.astype(float), w.astype(float), [1, 1], edge, [1, 1], 1)
    want = np.maximum(want + bias.astype(float) + side.astype(float), 0)
    got = np.asarray(got.transpose(back), np.float64)
    scale = np.abs(want).max()
    assert np.abs(got - want).max() <= 3 * ROUNDING[dtype] * scale  # rounded at each node at most
    assert (got > 0).mean() > 0.2


GROWTH = """
import numpy as np
import pyflow as tf

def peak():
    with open("/proc/self/status") as lines:
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])

x = np.ones((128, 28, 28, 64), tf.bfloat16.as_numpy_dtype)
with tf.Session() as session:
    a = tf.placeholder("bfloat16", [None, 28, 28, 64])
    dw = tf.raw_ops.Conv2DBackpropFilter(input=a, filter_sizes=[3, 3, 64, 64], out_backprop=a,
                                         strides=[1, 1, 1, 1], padding="SAME")
    session.run(dw.op, {a: x[:2]})
    before = peak()
    session.run(dw.op, {a: x})
    print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_pieces_share_their_memory():
    """A batch is summed piece by piece: what one took serves the next.  x is 13 MB; as floats,
    where the processor has no sums of pairs, 26 MB for each operand."""
    found = subprocess.run([sys.executable, "-c", GROWTH], check=True, capture_output=True,
                           text=True)
    assert int(found.stdout) < 100 << 10
