"""Convolutions of random geometry beside sums in NumPy's float64; constant filters, which are
packed once, beside fed ones; Winograd's form beside the plain one."""
import os
import subprocess
import sys

import numpy as np
import pytest

import pyflow as tf


def geometry(rng):
    """-> (image, filter, strides, padding, dilations, groups); everything fits."""
    while True:
        groups = int(rng.choice([1, 1, 1, 2, 4]))
        window = [int(rng.choice([1, 2, 3, 5])), int(rng.choice([1, 3]))]
        fan_in, fan_out = int(rng.choice([1, 3, 16, 33, 130])), int(rng.choice([1, 3, 16, 50, 100]))
        size = [int(v) for v in rng.integers(1, 24, 2)]
        strides = [int(v) for v in rng.integers(1, 4, 2)] if rng.random() < 0.5 else [1, 1]
        dilations = [2, 3] if strides == [1, 1] and rng.random() < 0.3 else [1, 1]
        padding = [[int(v) for v in rng.integers(0, 3, 2)] for _ in range(2)]
        if all(n + sum(p) > (k - 1) * d for n, p, k, d in zip(size, padding, window, dilations)):
            return ((int(rng.integers(1, 4)), *size, fan_in * groups),
                    (*window, fan_in, fan_out * groups), strides, padding, dilations, groups)


def plain(x, w, strides, padding, dilations, groups):
    """The convolution as sums over taps, in float64."""
    x = np.pad(x, [(0, 0), *padding, (0, 0)])
    out = [(n - (k - 1) * d - 1) // s + 1
           for n, k, d, s in zip(x.shape[1:3], w.shape, dilations, strides)]
    y = np.zeros((len(x), *out, w.shape[3]))
    fan_in, fan_out = w.shape[2], w.shape[3] // groups
    for u in range(w.shape[0]):
        for v in range(w.shape[1]):
            rows, cols = (slice(k * d, k * d + (n - 1) * s + 1, s)
                          for k, d, n, s in zip((u, v), dilations, out, strides))
            for g in range(groups):
                o = slice(g * fan_out, (g + 1) * fan_out)
                y[..., o] += x[:, rows, cols, g * fan_in:(g + 1) * fan_in] @ w[u, v, :, o]
    return y


@pytest.mark.parametrize("seed", range(24))
def test_random_geometry(seed):
    rng = np.random.default_rng(seed)
    image, window, strides, padding, dilations, groups = geometry(rng)
    dtype = np.float32 if seed % 3 else np.float64
    x, w = rng.standard_normal(image).astype(dtype), rng.standard_normal(window).astype(dtype)
    want = plain(x.astype(float), w.astype(float), strides, padding, dilations, groups)
    dy = rng.standard_normal(want.shape).astype(dtype)
    attrs = dict(strides=[1, *strides, 1], padding=[[0, 0], *padding, [0, 0]],
                 dilations=[1, *dilations, 1])
    with tf.Graph().as_default():
        fed = [tf.placeholder(dtype, a.shape) for a in (x, w, dy)]
        ys = [tf.nn.conv2d(fed[0], tf.constant(w), **attrs), tf.nn.conv2d(fed[0], fed[1], **attrs)]
        gradients = tf.gradients(ys[1], fed[:2], fed[2])
        with tf.Session(threads=1 + seed % 4) as session:
            kept, given, dx, dw = session.run(ys + gradients, dict(zip(fed, (x, w, dy))))
    limit = (1e-5 if dtype == np.float32 else 1e-13) * max(np.abs(want).max(), 1)
    assert np.abs(kept - want).max() < limit and np.abs(given - want).max() < limit
    # both gradients are the transposes of a linear map: <dy, conv(x, w)> = <dx, x> = <dw, w>
    product = (dy * want).sum()
    for gradient, operand in ((dx, x), (dw, w)):
        terms = gradient.astype(float) * operand
        assert abs(terms.sum() - product) < limit * np.sqrt(terms.size) * 10 + 1e-5 * np.abs(
            terms).sum() * (dtype == np.float32)


@pytest.mark.parametrize("image, window, dilations", [
    ((2, 60, 40, 8), (3, 3, 8, 20), (18, 18)),      # tasks of few rows: images are padded once
    ((1, 70, 33, 12), (7, 1, 12, 12), (17, 1)),     # rows alone: nothing is padded
    ((1, 70, 33, 40), (5, 1, 40, 1), (9, 1)),       # one channel: dot products
    ((3, 41, 30, 4), (3, 5, 4, 16), (24, 3))])
def test_large_dilations(image, window, dilations):
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in (image, window))
    padding = [[(k - 1) * d // 2] * 2 for k, d in zip(window, dilations)]
    want = plain(x.astype(float), w.astype(float), [1, 1], padding, dilations, 1)
    with tf.Graph().as_default():
        fed = tf.placeholder(tf.float32, image)
        made = [tf.nn.conv2d(fed, f, [1, 1, 1, 1], "SAME", dilations=[1, *dilations, 1])
                for f in (tf.constant(w), tf.placeholder_with_default(w, w.shape))]
        for threads in (1, 2):
            with tf.Session(threads=threads) as session:
                for got in session.run(made, {fed: x}):
                    assert np.abs(got - want).max() < 2e-6 * np.abs(want).max()


WINOGRAD = [((1, 28, 28, 64), 64, "SAME"), ((2, 13, 17, 33), 40, "VALID"),
            ((1, 14, 14, 96), 130, "SAME")]


def errors(image, out, padding):
    """Root mean square errors, relative: of the constant filter's result, of the fed one's."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(image).astype(np.float32)
    w = rng.standard_normal((3, 3, image[3], out)).astype(np.float32)
    with tf.Graph().as_default():
        fed = [tf.placeholder(tf.float32, a.shape) for a in (x, w)]
        ys = [tf.nn.conv2d(fed[0], kernel, [1, 1, 1, 1], padding) for kernel in (w, fed[1])]
        exact = tf.nn.conv2d(tf.cast(fed[0], tf.float64), tf.cast(fed[1], tf.float64),
                             [1, 1, 1, 1], padding)
        with tf.Session(threads=2) as session:
            *found, exact = session.run([*ys, exact], dict(zip(fed, (x, w))))
    return [float(np.sqrt(((y - exact) ** 2).mean() / (exact ** 2).mean())) for y in found]


@pytest.mark.parametrize("image,out,padding", WINOGRAD)
def test_fewer_products_cost_little_accuracy(image, out, padding):
    fewer, direct = errors(image, out, padding)
    assert fewer != direct, "these sizes take Winograd's form"
    assert fewer < 3 * direct and fewer < 2e-6


def test_winograd_can_be_turned_off():
    code = f"import test_convolution as t; a, b = t.errors(*{WINOGRAD[0]!r}); assert a == b, (a, b)"
    env = {**os.environ, "PYFLOW_CPU_WINOGRAD": "0", "PYTHONPATH": os.path.dirname(__file__)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, timeout=120)


def test_threads_do_not_change_bits():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 15, 14, 40)).astype(np.float32)
    w = rng.standard_normal((3, 3, 40, 150)).astype(np.float32)
    found = []
    for threads in (1, 2, 3):
        with tf.Graph().as_default(), tf.Session(threads=threads) as session:
            fed = tf.placeholder(tf.float32, x.shape)
            y = tf.nn.conv2d(fed, w, [1, 1, 1, 1], "SAME")
            z = tf.nn.conv2d(fed, tf.identity(fed)[:1, :3, :3, :, None][0], [1, 1, 1, 1], "SAME")
            found.append(session.run([y, z, *tf.gradients(y, fed)], {fed: x}))
    for others in found[1:]:
        for a, b in zip(found[0], others):
            np.testing.assert_array_equal(a, b)


SHARED = [((1, 13, 13, 300), (1, 1, 300, 50)), ((1, 14, 14, 70), (1, 1, 70, 190)),
          ((1, 6, 6, 100), (3, 3, 100, 200)), ((1, 7, 7, 320), (3, 3, 320, 300)),
          ((1, 14, 14, 64), (3, 3, 64, 192)), ((1, 9, 9, 60), (1, 1, 20, 90))]


@pytest.mark.parametrize("image,window", SHARED)
def test_few_pixels_are_shared_without_changing_bits(image, window):
    """Rows cut shorter, panels in parts, tiles in parts: whatever the threads."""
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in (image, window))
    found = []
    for threads in (1, 2, 3, 5):
        with tf.Graph().as_default(), tf.Session(threads=threads) as session:
            fed = [tf.placeholder(tf.float32, a.shape) for a in (x, w)]
            ys = [tf.nn.relu(tf.nn.conv2d(fed[0], k, [1, 1, 1, 1], "SAME")) for k in (w, fed[1])]
            found.append(session.run(ys + tf.gradients(ys[1], fed), dict(zip(fed, (x, w)))))
    for others in found[1:]:
        for a, b in zip(found[0], others):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-6), ("float64", 1e-14)])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_filter_gradient_of_many_channels(layout, dtype, tolerance):
    rng = np.random.default_rng(5)
    x, dy = (rng.standard_normal((3, 6, 7, c)).astype(dtype) for c in (259, 70))
    turned = (x, dy) if layout == "NHWC" else [np.moveaxis(v, 3, 1) for v in (x, dy)]
    found = []
    with tf.Graph().as_default():
        a, b = (tf.placeholder(dtype, v.shape) for v in turned)
        df = tf.raw_ops.Conv2DBackpropFilter(
            input=a, filter_sizes=[1, 1, 259, 70], out_backprop=b, strides=[1] * 4,
            padding="SAME", data_format=layout)
        for threads in (1, 2):
            with tf.Session(threads=threads) as session:
                found.append(session.run(df, {a: turned[0], b: turned[1]}))
    wanted = np.tensordot(x.astype(np.float64), dy, ([0, 1, 2], [0, 1, 2]))
    assert np.abs(found[0][0, 0] - wanted).max() <= tolerance * np.abs(wanted).max()
    assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize("of, args", [
    ("float64", ["float32", "float32"]), ("float64", ["float64", "float32"]),
    ("float32", ["float16", "float32"]), ("float32", ["float32", "int64"]),
    ("float16", ["float32", "float16"]), ("float32", ["string", "float32"])])
def test_fused_args_of_other_types_are_refused(of, args):
    """TArgs is open in the signature: the kernel does not read an arg as what it is not."""
    from pyflow.ops.fused.fused_ops import _FusedConv2D
    short = {"float16": "half", "float32": "float", "float64": "double"}
    shapes = [(1, 5, 5, 3), (1, 1, 3, 5), (5,), (1, 5, 5, 5)]
    fused = dict(fused_ops=["BiasAdd", "Add"], num_args=2, strides=[1, 1, 1, 1], padding="SAME")
    for types, refused in (([of, of], False), (args, True)):
        with tf.Graph().as_default(), tf.Session() as session:
            x, w, *given = [tf.fill(shape, "1") if name == "string" else
                            tf.cast(tf.ones(shape), name)
                            for shape, name in zip(shapes, [of, of, *types])]
            y = _FusedConv2D(x, w, given, [], **fused)
            if refused:
                wrong = next(i for i in (0, 1) if types[i] != of)
                found = short.get(types[wrong], types[wrong])
                what = rf"args\[{wrong}\] is {found}, expected {short[of]}"
                with pytest.raises(tf.errors.InvalidArgumentError, match=what):
                    session.run(y)
            else:
                np.testing.assert_array_equal(session.run(y), np.full(shapes[3], 5.0))


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16])
@pytest.mark.parametrize("padding, stride, dilation", [
    ("SAME", 1, 1), ("VALID", 1, 1), ("SAME", 3, 1), ("VALID", 2, 1), ("SAME", 1, 2)])
def test_one_column_is_one_row(depthwise, layout, dtype, padding, stride, dilation):
    """Images of one column under filters of one give what the same rows give, bit for bit."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 41, 1, 12))
    f = rng.standard_normal((4, 1, 12, 1 if depthwise else 20))

    def turned(a, axes):
        return a.swapaxes(*axes)
    results = []
    for column in (True, False):
        image, filters = (x, f) if column else (turned(x, (1, 2)), turned(f, (0, 1)))
        if layout == "NCHW":
            image = image.transpose(0, 3, 1, 2)
        along = [stride, stride if depthwise else 1]
        dilated = [dilation, 1]
        if not column:
            along, dilated = along[::-1], dilated[::-1]
        lead = (lambda pair: [1, *pair, 1]) if layout == "NHWC" else (lambda pair: [1, 1, *pair])
        with tf.Graph().as_default(), tf.Session(threads=2) as session:
            a, b = tf.constant(image, dtype), tf.constant(filters, dtype)
            if depthwise:
                y = tf.nn.depthwise_conv2d_native(a, b, lead(along), padding, layout,
                                                  dilations=lead([1, 1]))
            else:
                y = tf.nn.conv2d(a, b, lead(along), padding, data_format=layout,
                                 dilations=lead(dilated))
            got = session.run([y, *tf.gradients(y * y, [a, b])])
        if layout == "NCHW":
            got[:2] = [t.transpose(0, 2, 3, 1) for t in got[:2]]
        if not column:
            got = [turned(t, axes) for t, axes in zip(got, ((1, 2), (1, 2), (0, 1)))]
        results.append(got)
    for a, b in zip(*results):
        np.testing.assert_array_equal(a.astype(np.float64), b.astype(np.float64))


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16])
@pytest.mark.parametrize("stride", [1, 2])
def test_gradients_of_filters_as_wide_as_the_image(layout, dtype, stride):
    """They are those of an image of one column whose channels are the columns' channels."""
    rng = np.random.default_rng(6)
    x, f = rng.standard_normal((3, 21, 7, 2)), rng.standard_normal((4, 7, 2, 5))
    results = []
    for columns in (7, 1):
        image, filters = x.reshape(3, 21, columns, -1), f.reshape(4, columns, -1, 5)
        strides = [1, stride, stride, 1]
        if layout == "NCHW":
            image, strides = image.transpose(0, 3, 1, 2), [1, 1, stride, stride]
        with tf.Graph().as_default(), tf.Session(threads=2) as session:
            a, b = tf.constant(image, dtype), tf.constant(filters, dtype)
            y = tf.nn.conv2d(a, b, strides, "VALID", data_format=layout)
            got = session.run(tf.gradients(y * y, [a, b]))
        if layout == "NCHW":
            got[0] = got[0].transpose(0, 2, 3, 1)
        results.append([got[0].reshape(x.shape), got[1].reshape(f.shape)])
    least = {tf.float64: 1e-12, tf.float32: 1e-5, tf.float16: 1e-2, tf.bfloat16: 1e-1}[dtype]
    for wide, folded in zip(*results):
        wide, folded = wide.astype(np.float64), folded.astype(np.float64)
        np.testing.assert_allclose(wide, folded, rtol=least, atol=least * np.abs(folded).max())
