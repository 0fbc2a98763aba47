"""Pooling by every way its kernels have: rolling columns, buffered rows, strided and flat channels,
windows side by side; NaN and infinities, results stored past the caches, gradients of each.

The oracle is NumPy in float64, window by window.
"""
import numpy as np
import pytest

import pyflow as tf

# images, height, width, channels: vectors whole, broken and none; one element more or less
SHAPES = ((2, 7, 9, 1), (1, 6, 5, 3), (2, 8, 8, 16), (1, 9, 11, 37), (1, 5, 6, 130), (1, 13, 40, 4))
# window and stride: side by side, overlapping in threes, otherwise overlapping, with gaps
WINDOWS = (((2, 2), (2, 2)), ((3, 3), (2, 2)), ((3, 3), (1, 1)), ((1, 1), (2, 2)), ((2, 3), (1, 2)),
           ((4, 2), (2, 1)), ((2, 4), (3, 3)), ((5, 5), (1, 2)))
BOUNDS = {"float32": 1e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 1e-2}


def spans(size, k, stride, padding):
    """[first, last + 1) of every window along one dimension."""
    if padding == "VALID":
        count, before = (size - k) // stride + 1, 0
    else:
        count = -(-size // stride)
        before = max((count - 1) * stride + k - size, 0) // 2
    starts = [i * stride - before for i in range(count)]
    return [(max(s, 0), min(s + k, size)) for s in starts]


def windows(shape, k, stride, padding):
    rows, columns = (spans(shape[1 + d], k[d], stride[d], padding) for d in range(2))
    for i, (y0, y1) in enumerate(rows):
        for j, (x0, x1) in enumerate(columns):
            yield (slice(None), i, j), (slice(None), slice(y0, y1), slice(x0, x1))


def pooled(x, kind, out_shape, places):
    x, y = x.astype(np.float64), np.zeros(out_shape)
    for at, window in places:
        y[at] = getattr(x[window], "max" if kind == "max_pool" else "mean")((1, 2))
    return y


def gradient(x, dy, kind, places):
    x, dy, dx = x.astype(np.float64), dy.astype(np.float64), np.zeros(x.shape)
    for at, window in places:
        part = x[window]
        share = np.full(part.shape, 1 / (part.shape[1] * part.shape[2]))
        if kind == "max_pool":
            flat = part.reshape(len(part), -1, part.shape[-1])
            first = np.arange(flat.shape[1])[:, None] == flat.argmax(1)[:, None]
            share = first.reshape(part.shape)
        dx[window] += share * dy[at][:, None, None]
    return dx


def run(kind, x, dy, k, stride, padding, data_format, dtype):
    order = (0, 3, 1, 2) if data_format == "NCHW" else (0, 1, 2, 3)
    back = np.argsort(order)
    ones = np.array([1, *k, 1]), np.array([1, *stride, 1])
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = [np.ascontiguousarray(v.transpose(order)) for v in (x, dy)]
        inputs = [tf.placeholder(dtype, v.shape) for v in feeds]
        ksize, strides = ([int(v[i]) for i in order] for v in ones)
        y = getattr(tf.nn, kind)(inputs[0], ksize, strides, padding, data_format=data_format)
        dx = tf.gradients(y, inputs[0], inputs[1])[0]
        return [v.transpose(back) for v in session.run([y, dx], dict(zip(inputs, feeds)))]


@pytest.mark.parametrize("data_format", ("NHWC", "NCHW"))
@pytest.mark.parametrize("padding", ("SAME", "VALID"))
@pytest.mark.parametrize("dtype", sorted(BOUNDS))
def test_every_way(dtype, padding, data_format):
    random = np.random.default_rng(7)
    kind_of = tf.as_dtype(dtype).as_numpy_dtype
    for shape in SHAPES[::2] if dtype == "bfloat16" else SHAPES:
        x = (random.integers(-6, 6, shape) * 0.5).astype(kind_of)     # with ties
        for k, stride in WINDOWS:
            if padding == "VALID" and (k[0] > shape[1] or k[1] > shape[2]):
                continue
            places = list(windows(shape, k, stride, padding))
            out_shape = (shape[0], places[-1][0][1] + 1, places[-1][0][2] + 1, shape[3])
            dy = random.standard_normal(out_shape).astype(kind_of)
            for kind in ("max_pool", "avg_pool"):
                y, dx = run(kind, x, dy, k, stride, padding, data_format, dtype)
                bound = 0 if kind == "max_pool" else 3 * BOUNDS[dtype]
                label = f"{kind} {shape} {k} {stride}"
                np.testing.assert_allclose(y.astype(np.float64), pooled(x, kind, out_shape, places),
                                           bound, bound, err_msg=label)
                np.testing.assert_allclose(dx.astype(np.float64), gradient(x, dy, kind, places),
                                           9 * BOUNDS[dtype], 9 * BOUNDS[dtype], err_msg=label)


@pytest.mark.parametrize("k, stride", WINDOWS)
@pytest.mark.parametrize("channels, width", ((1, 13), (3, 13), (40, 13), (1, 70)))
@pytest.mark.parametrize("dtype", sorted(BOUNDS))
def test_nan_stays_and_infinity_is_a_number(dtype, channels, width, k, stride):
    random = np.random.default_rng(3)
    x = random.standard_normal((1, 12, width, channels)).astype(tf.as_dtype(dtype).as_numpy_dtype)
    flat = x.reshape(-1)
    for value in (np.nan, -np.nan, np.inf, -np.inf):
        flat[random.choice(flat.size, flat.size // 40 + 2, replace=False)] = value
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(tf.nn.max_pool(tf.constant(x), [1, *k, 1], [1, *stride, 1], "SAME"))
    places = list(windows(x.shape, k, stride, "SAME"))
    wanted = pooled(x, "max_pool", found.shape, places)
    np.testing.assert_array_equal(found.astype(np.float64), wanted)


@pytest.mark.parametrize("data_format", ("NHWC", "NCHW"))
@pytest.mark.parametrize("size", ((3, 2), (5, 7), (9, 11), (13, 13)))
@pytest.mark.parametrize("dtype", sorted(BOUNDS))
def test_a_window_as_large_as_the_image(dtype, size, data_format):
    random = np.random.default_rng(6)
    kind_of = tf.as_dtype(dtype).as_numpy_dtype
    x = random.standard_normal((3, *size, 13)).astype(kind_of)
    x[1, 2, 1, 4], x[2, 0, 0, 3], x[2, 1, 1, 5], x[0, 0, 1, 2] = np.nan, np.inf, -np.inf, -np.nan
    places = list(windows(x.shape, size, size, "VALID"))
    dy = np.ones((3, 1, 1, 13), kind_of)
    for kind in ("max_pool", "avg_pool"):
        y, _ = run(kind, x, dy, size, size, "VALID", data_format, dtype)
        bound = 0 if kind == "max_pool" else BOUNDS[dtype] * 5
        np.testing.assert_allclose(y.astype(np.float64), pooled(x, kind, y.shape, places), bound,
                                   bound)


@pytest.mark.parametrize("data_format", ("NHWC", "NCHW"))
@pytest.mark.parametrize("kind, k, stride", (("max_pool", 2, 2), ("max_pool", 3, 2),
                                             ("avg_pool", 3, 1)))
def test_results_stored_past_the_caches(kind, k, stride, data_format):
    random = np.random.default_rng(5)
    channels = 64 if data_format == "NHWC" else 67
    x = random.standard_normal((32, 48 if stride == 2 else 24, 97, channels), np.float32)
    places = list(windows(x.shape, (k, k), (stride, stride), "SAME"))
    out_shape = (32, places[-1][0][1] + 1, places[-1][0][2] + 1, channels)
    dy = random.standard_normal(out_shape, np.float32)
    y, dx = run(kind, x, dy, (k, k), (stride, stride), "SAME", data_format, "float32")
    np.testing.assert_allclose(y, pooled(x, kind, out_shape, places), 1e-5, 1e-6)
    np.testing.assert_allclose(dx, gradient(x, dy, kind, places), 1e-5, 1e-6)


# Images of one channel as one run of numbers: rows narrower and wider than vectors, two to a row of
# windows, vectors that begin and end within rows, results that begin within a line.
PLANES = ((2, 2), (5, 2), (3, 5), (2, 40), (7, 7), (5, 15), (9, 16), (6, 17), (13, 31), (8, 32),
          (5, 33), (11, 48), (8, 56), (7, 64))


@pytest.mark.parametrize("stride", (1, 2))
@pytest.mark.parametrize("size", PLANES)
def test_images_of_one_channel(size, stride):
    random = np.random.default_rng(sum(size))
    x = random.standard_normal((3, *size, 5)).astype(np.float32)
    x[1, :, :, 2], x[2, 0, 1, 0], x[2, 1, 0, 1], x[0, 1, 1, 4] = -0.0, np.inf, -np.inf, -np.nan
    for y, z in ((0, 0), (0, -1), (-1, 0), (-1, -1), (size[0] // 2, size[1] // 2)):
        holes = x.copy()
        holes[1, y, z, 3] = np.nan
        for kind, k in (("max_pool", 2), ("max_pool", 3), ("avg_pool", 3)):
            places = list(windows(x.shape, (k, k), (stride, stride), "SAME"))
            out_shape = (3, places[-1][0][1] + 1, places[-1][0][2] + 1, 5)
            found, _ = run(kind, holes, np.ones(out_shape, np.float32), (k, k), (stride, stride),
                           "SAME", "NCHW", "float32")
            want = pooled(holes, kind, out_shape, places)
            bound = 0 if kind == "max_pool" else 1e-6
            np.testing.assert_allclose(found, want, bound, bound, err_msg=f"{kind} {k} {y} {z}")


@pytest.mark.parametrize("stride", (1, 2))
@pytest.mark.parametrize("rows,columns", (((2, 0), (1, 1)), ((1, 1), (0, 2)), ((0, 2), (2, 0)),
                                          ((2, 2), (1, 2))))
def test_explicit_padding_of_planes(rows, columns, stride):
    """Padding of two on one side leaves an image its size, too, but not its windows' places."""
    x = np.random.default_rng(8).standard_normal((1, 8, 6, 32)).astype(np.float32)
    padded = np.pad(x, ((0, 0), rows, columns, (0, 0)), constant_values=-np.inf)
    places = list(windows(padded.shape, (3, 3), (stride, stride), "VALID"))
    out_shape = (1, places[-1][0][1] + 1, places[-1][0][2] + 1, 32)
    with tf.Graph().as_default(), tf.Session() as session:
        y = session.run(tf.nn.max_pool(tf.constant(x.transpose(0, 3, 1, 2).copy()), [1, 1, 3, 3],
                                       [1, 1, stride, stride], [(0, 0), (0, 0), rows, columns],
                                       data_format="NCHW"))
    np.testing.assert_array_equal(y.transpose(0, 2, 3, 1), pooled(padded, "max_pool", out_shape,
                                                                  places))


@pytest.mark.parametrize("channels", (1, 16, 33))
@pytest.mark.parametrize("k", ((3, 3), (2, 3), (2**31 - 1, 3), (2**31 - 1, 2**31 - 1)))
def test_strides_and_windows_larger_than_any_image(k, channels):
    random = np.random.default_rng(10)
    x = random.standard_normal((2, 5, 6, channels))
    for stride in ((2**31 - 1, 1), (2**31 - 1, 2), (2, 2**31 - 1)):
        places = list(windows(x.shape, k, stride, "SAME"))
        dy = random.standard_normal((2, places[-1][0][1] + 1, places[-1][0][2] + 1, channels))
        for kind in ("max_pool", "avg_pool"):
            y, dx = run(kind, x, dy, k, stride, "SAME", "NHWC", "float64")
            np.testing.assert_allclose(y, pooled(x, kind, y.shape, places), 1e-14, 1e-14)
            np.testing.assert_allclose(dx, gradient(x, dy, kind, places), 1e-14, 1e-14)


@pytest.mark.parametrize("kind", ("max", "avg"))
@pytest.mark.parametrize("stride", (1, 2))
@pytest.mark.parametrize("deep", (1, 2))
@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_windows_one_plane_deep_are_those_of_pictures(dtype, deep, stride, kind):
    x = np.random.default_rng(9).standard_normal((2, 5, 7, 6, 48)).astype(dtype)
    pictures = np.concatenate([v[::deep] for v in x])
    with tf.Graph().as_default(), tf.Session() as session:
        volumes, planes = (tf.constant(v) for v in (x, pictures))
        found, wanted = session.run((
            getattr(tf.nn, kind + "_pool3d")(volumes, [1, 1, 3, 3, 1],
                                             [1, deep, stride, stride, 1], "SAME"),
            getattr(tf.nn, kind + "_pool")(planes, [1, 3, 3, 1], [1, stride, stride, 1], "SAME")))
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("padding", ("SAME", "VALID"))
@pytest.mark.parametrize("stride", (1, 2))
@pytest.mark.parametrize("height,width", ((3, 3), (7, 16), (9, 17), (4, 31), (5, 70), (113, 113)))
def test_gradients_of_planes_are_those_of_channels(height, width, stride, padding):
    images = 45 if width == 113 else 3                   # past the caches, or not
    rng = np.random.default_rng(2)
    x = rng.integers(-2, 3, (images, height, width, 2)).astype("f")
    for rare in (np.nan, np.inf, -np.inf, -0.0):
        x[rng.random(x.shape) < 0.05] = rare
    x[0] = -np.inf
    sizes = [len(spans(n, 3, stride, padding)) for n in (height, width)]
    dy = rng.integers(-4, 5, (images, *sizes, 2)).astype("f")
    planes, found = (0, 3, 1, 2), []
    for order in ((0, 1, 2, 3), planes):
        k, s = (list(np.array([1, n, n, 1])[list(order)]) for n in (3, stride))
        a, b = x.transpose(order).copy(), dy.transpose(order).copy()
        with tf.Graph().as_default(), tf.Session() as session:
            inputs = [tf.placeholder(tf.float32, v.shape) for v in (a, b)]
            found.append(session.run(tf.raw_ops.MaxPoolGrad(
                orig_input=inputs[0], orig_output=inputs[1], grad=inputs[1], ksize=k, strides=s,
                padding=padding, data_format="NHWC" if order != planes else "NCHW"),
                {inputs[0]: a, inputs[1]: b}))
    np.testing.assert_array_equal(found[1], found[0].transpose(planes))


def test_averages_of_equal_numbers_are_these():
    """Quotients are exact: nine thirds are three, whatever they are multiplied by instead."""
    x = np.broadcast_to(np.arange(1, 97, dtype=np.float32), (2, 19, 21, 96))
    dy = np.ones(x.shape, np.float32)
    y, _ = run("avg_pool", x, dy, (3, 3), (1, 1), "SAME", "NCHW", "float32")
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("dtype", ("float32", "float16"))
@pytest.mark.parametrize("argmax", ("int32", "int64"))
def test_argmax_and_its_gradient_add_up(dtype, argmax):
    x = np.random.default_rng(1).standard_normal((2, 6, 7, 19)).astype(dtype)
    with tf.Graph().as_default(), tf.Session() as session:
        value = tf.constant(x)
        y, at = tf.nn.max_pool_with_argmax(value, [1, 3, 3, 1], [1, 1, 1, 1], "SAME",
                                           Targmax=tf.as_dtype(argmax))
        dx = tf.gradients(y, value)[0]
        y, at, dx = session.run([y, at, dx])
    rows = np.take_along_axis(x.reshape(2, -1), at.reshape(2, -1).astype(np.int64), 1)
    np.testing.assert_array_equal(rows.reshape(y.shape), y)
    want = np.zeros((2, x[0].size))
    for image in range(2):
        np.add.at(want[image], at[image].reshape(-1), 1)
    np.testing.assert_array_equal(dx.reshape(2, -1), want)


# ---------------------------------------------------------------------- over depth, as a node


def depth_node(x, k, stride=None, padding="VALID"):
    """A MaxPool node over channels, as imported graphs have it (`tf.nn.max_pool` makes other nodes)."""
    definition = tf.GraphDef()
    node = definition.node.add(op="MaxPool", name="pool", input=["x"])
    node.attr["T"].type = tf.float32.as_datatype_enum
    node.attr["ksize"].list.i.extend([1, 1, 1, k])
    node.attr["strides"].list.i.extend([1, 1, 1, stride or k])
    node.attr["padding"].s = padding.encode()
    [y] = tf.import_graph_def(definition, {"x": x}, ["pool:0"], name="")
    return y


def test_max_pool_over_depth_in_an_imported_graph():
    """Windows side by side; what TensorFlow's kernel refuses is refused in its words."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 3, 5, 12), np.float32)
    for k in (2, 3, 4, 6, 12):
        for padding in ("VALID", "SAME"):
            with tf.Graph().as_default(), tf.Session() as session:
                fed = tf.placeholder(tf.float32, [None, 3, 5, 12])
                y = depth_node(fed, k, padding=padding)
                assert y.shape.as_list() == [None, 3, 5, 12 // k]
                np.testing.assert_array_equal(session.run(y, {fed: x}), x.reshape(2, 3, 5, 12 // k, k).max(-1))
                assert session.run(y, {fed: x[:0]}).shape == (0, 3, 5, 12 // k)
    for k, stride, text in ((5, 5, "evenly divide"), (4, 2, "depth window .4. to equal the depth stride .2.")):
        with tf.Graph().as_default(), tf.Session() as session:
            y = depth_node(tf.placeholder_with_default(x, [None] * 4), k, stride)
            with pytest.raises(tf.errors.UnimplementedError, match=text):
                session.run(y)
