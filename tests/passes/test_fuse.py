"""Fusion of products with bias, residual sum and activation: graphs, values, and what is left."""
import numpy as np
import pytest

import pyflow as tf
import rewriting
from pyflow.ops.base.common import text
from pyflow.passes import fold, fuse
from pyflow.passes.place_kernels import KernelTable
from pyflow.session import runtime

RNG = np.random.default_rng(3)
IMAGES = RNG.standard_normal((2, 6, 5, 4)).astype(np.float32)
ROWS = RNG.standard_normal((5, 70)).astype(np.float32)
CASES = {}


def case(data):
    def register(build):
        CASES[build.__name__] = (build, data)
        return build
    return register


def table():
    return KernelTable(runtime.start().kernels())


def fused(graph):
    """Folds, as a session does before, and fuses."""
    fold.fold(graph, rewriting.evaluator())
    return fuse.fuse(graph, table)


def numbers(*shape):
    return tf.constant(np.random.default_rng(1).standard_normal(shape).astype(np.float32))


def norm(x, channels, function=tf.nn.fused_batch_norm, **options):
    return function(x, numbers(channels), numbers(channels), numbers(channels),
                    tf.abs(numbers(channels)) + 0.5, is_training=False, **options)[0]


def conv(x, out, size=3, padding="SAME", **options):
    return tf.nn.conv2d(x, numbers(size, size, int(x.shape[-1]), out), [1, 1, 1, 1], padding,
                        **options)


# ------------------------------------------------------------------------------------------- cases
@case(IMAGES)
def conv_norm_relu(x):
    return tf.nn.relu(norm(conv(x, 3), 3))


@case(IMAGES)
def conv_bias_norm_scale_relu6(x):
    return tf.nn.relu6(norm(tf.nn.bias_add(conv(x, 3), numbers(3)), 3) * 2.0)


@case(IMAGES)
def conv_unfused_norm(x):
    mean, variance = numbers(3), tf.abs(numbers(3)) + 0.5
    return tf.nn.elu(tf.nn.batch_normalization(conv(x, 3), mean, variance, numbers(3), numbers(3),
                                               1e-3))


@case(IMAGES)
def residual(x):
    inner = tf.nn.relu(norm(conv(x, 4), 4))
    return tf.nn.relu(norm(conv(inner, 4), 4) + x)


@case(IMAGES)
def depthwise_separable(x):
    y = tf.nn.depthwise_conv2d(x, numbers(3, 3, 4, 2), [1, 1, 1, 1], "VALID")
    return tf.nn.relu(norm(conv(tf.nn.relu6(norm(y, 8)), 5, 1), 5))


@case(IMAGES)
def pad_becomes_explicit(x):
    return tf.nn.tanh(conv(tf.pad(x, [[0, 0], [1, 0], [2, 1], [0, 0]]), 3, padding="VALID"))


@case(np.ascontiguousarray(IMAGES.transpose(0, 3, 1, 2)))
def channels_first(x):
    y = tf.nn.conv2d(x, numbers(3, 3, 4, 2), [1, 1, 1, 1], "SAME", data_format="NCHW")
    return tf.nn.leaky_relu(norm(y, 2, data_format="NCHW"), 0.1)


@case(ROWS)
def layers(x):
    x = tf.nn.relu(tf.matmul(x, numbers(70, 33)) + numbers(33))
    x = tf.sigmoid(tf.nn.bias_add(tf.matmul(x, numbers(20, 33), transpose_b=True), numbers(20)))
    return tf.nn.softmax(tf.matmul(x, numbers(20, 7)) + numbers(7))


@case(ROWS)
def product_and_activation_alone(x):
    return tf.nn.relu(tf.matmul(x, numbers(70, 3)))


@case(ROWS)
def a_sum_that_broadcasts_stays(x):
    return tf.matmul(x, numbers(70, 1)) + numbers(4)


@case(ROWS)
def what_others_read_stays(x):
    product = tf.matmul(x, numbers(70, 3))
    return tf.nn.relu(product + numbers(3)) * product


@case(IMAGES)
def a_norm_in_training_stays(x):
    return tf.nn.relu(tf.nn.fused_batch_norm(conv(x, 3), numbers(3), numbers(3))[0])


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    build, data = CASES[name]
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, (None,) + data.shape[1:], name="x")
        y = tf.identity(build(x), name="y")
        rewriting.check_golden(f"fuse_{name}", rewriting.pruned([y], [x]), fused)
        found, plain = rewriting.both(y, {x: data})
    np.testing.assert_allclose(found, plain, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("activation", [tf.nn.relu6, tf.nn.leaky_relu, tf.nn.tanh])
def test_few_output_channels_get_what_follows_the_sum(channels, activation):
    """Their sums go along the source's channels, in a loop of its own."""
    data = np.random.default_rng(0).standard_normal((2, 9, 7, 24), np.float32)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, data.shape, name="x")
        summed = tf.nn.bias_add(conv(x, channels), numbers(channels))
        y = activation(summed + x[..., :channels])
        assert fused(rewriting.pruned([y], [x]))
        found, plain = rewriting.both(y, {x: data})
    np.testing.assert_allclose(found, plain, rtol=2e-5, atol=2e-5)


def hard(x, alpha=1 / 6, beta=0.5):
    return tf.maximum(tf.constant(0.0), tf.minimum(1.0, np.float32(alpha) * x + beta))


@pytest.mark.parametrize("gated, name", [
    (lambda x: x * hard(x), "HardSwish"), (lambda x: hard(x) * x, "HardSwish"),
    (lambda x: x * tf.sigmoid(x), "Swish"), (lambda x: x * hard(x, 0.2), None),
    (lambda x: x * tf.sigmoid(x) + tf.sigmoid(x), None), (lambda x: x * tf.tanh(x), None)])
@pytest.mark.parametrize("start", ["conv", "depthwise", "product"])
def test_gates(gated, name, start):
    """The bits are those of the single nodes."""
    data = (ROWS if start == "product" else IMAGES) * 5
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, (None,) + data.shape[1:])
        made = (tf.matmul(x, numbers(70, 33)) if start == "product" else conv(x, 9, 1)
                if start == "conv" else tf.nn.depthwise_conv2d(x, numbers(3, 3, 4, 2), [1] * 4, "SAME"))
        y = tf.identity(gated(tf.nn.bias_add(made, numbers(int(made.shape[-1])))))
        graph = rewriting.pruned([y], [x])
        fused(graph)
        ops = [text(n) for node in graph.nodes for n in node.attrs.get("fused_ops", ())]
        assert ops == (["BiasAdd", name] if name else ["BiasAdd"])
        found, plain = rewriting.both(y, {x: data})
    np.testing.assert_allclose(found, plain, rtol=2e-5, atol=2e-5)
    assert np.ptp(plain) > 5


# --------------------------------------------------------------------------------- what must not be
def test_an_intermediate_value_may_be_fetched_fed_or_waited_for():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 70])
        product = tf.matmul(x, numbers(70, 3))
        biased = product + numbers(3)
        y = tf.nn.relu(biased)
        with tf.control_dependencies([biased]):
            late = tf.constant(1.0)
        graph = rewriting.pruned([y, product], [x])
        assert fused(graph) == {}
        graph = rewriting.pruned([y, late], [x])
        assert list(fused(graph).values()) == [1]
        with rewriting.session() as sess:
            wanted = sess.run([product, biased, y], {x: ROWS})
            np.testing.assert_array_equal(sess.run(y, {x: ROWS}), wanted[2])
            np.testing.assert_array_equal(sess.run(y, {product: wanted[0]}), wanted[2])
            np.testing.assert_array_equal(sess.run(y, {biased: -wanted[1]}),
                                          np.maximum(-wanted[1], 0))


def test_a_norm_whose_other_outputs_are_fetched_stays():
    """Found by comparing plans: the fused convolution has one output."""
    image = np.random.default_rng(3).standard_normal((1, 4, 4, 2)).astype(np.float32)
    x = tf.placeholder(tf.float32, image.shape)
    mean = numbers(3)
    normed = tf.nn.fused_batch_norm(conv(x, 3), numbers(3), numbers(3), mean,
                                    tf.abs(numbers(3)) + 0.5, is_training=False)
    with tf.Session() as sess:
        _, found, wanted = sess.run([normed[0], normed[1], mean], {x: image})
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(sess.run(normed[1], {x: image}), wanted)


def test_an_op_without_a_kernel_stays():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 70])
        graph = rewriting.pruned([tf.nn.relu(tf.matmul(x, numbers(70, 3)))], [x])
        for n in graph.nodes:
            n.device = "/job:localhost/replica:0/task:0/device:GPU:0"
        cpu = KernelTable([{"op": "_FusedMatMul", "device": "CPU", "where": "T=float"}])
        assert fuse.fuse(graph, lambda: cpu) == {}
        none = KernelTable([{"op": "_FusedMatMul", "device": "GPU", "where": "T=double"}])
        assert fuse.fuse(graph, lambda: none) == {}
        gpu = KernelTable([{"op": "_FusedMatMul", "device": "GPU", "where": "T=float"}])
        assert fuse.fuse(graph, lambda: gpu) == {"MatMul + Relu": 1}


def test_sides_of_unknown_batch_are_added_only_if_they_come_from_one_tensor():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 70])
        other = tf.placeholder(tf.float32, [None, 3])
        w = numbers(70, 3)
        graph = rewriting.pruned([tf.matmul(x, w) + other], [x, other])
        assert fused(graph) == {}
        graph = rewriting.pruned([tf.matmul(x, w) + tf.tanh(x)[:, :3]], [x])
        assert fused(graph) == {}
        graph = rewriting.pruned([tf.matmul(x, w) + tf.nn.relu(tf.matmul(x, w * 2.0))], [x])
        assert sum(fused(graph).values()) == 2


def test_training_keeps_its_gradients():
    """Values that gradients read stay; losses are those of plain graphs, step by step."""
    labels = (ROWS[:, :1] > 0).astype(np.float32)

    def losses(rewrites):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [None, 70])
            w1, w2 = (tf.Variable(numbers(*s) * 0.1) for s in ((70, 20), (20, 1)))
            b1, b2 = tf.Variable(tf.zeros([20])), tf.Variable(tf.zeros([1]))
            hidden = tf.nn.elu(tf.nn.bias_add(tf.matmul(x, w1), b1))
            logits = tf.matmul(tf.nn.sigmoid(hidden), w2) + b2
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels,
                                                                          logits=logits))
            step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
            with rewriting.session(rewrites) as sess:
                sess.run(tf.global_variables_initializer())
                return [sess.run([loss, step], {x: ROWS})[0] for _ in range(6)]
    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-6)


def test_loops_and_conditionals():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [5, 70])
        w, b = numbers(70, 70) * 0.05, numbers(70)
        _, looped = tf.while_loop(lambda i, h: i < 3,
                                  lambda i, h: (i + 1, tf.nn.tanh(tf.matmul(h, w) + b)), [0, x])
        chosen = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.relu(tf.matmul(x, w) + b),
                         lambda: tf.matmul(x, -w))
        for found, plain in zip(*rewriting.both([looped, chosen], {x: ROWS})):
            np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-6)


def test_constants_are_packed_once_and_serve_any_number_of_rows():
    weights = RNG.standard_normal((300, 130)).astype(np.float32)
    bias = RNG.standard_normal(130).astype(np.float32)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, None])
        plain = tf.matmul(x, tf.constant(weights))
        y = tf.nn.relu(plain + bias)
        transposed = tf.matmul(x, tf.constant(weights.T.copy()), transpose_b=True)
        with rewriting.session() as sess:
            for rows in (0, 1, 3, 50, 700):
                data = RNG.standard_normal((rows, 300)).astype(np.float32)
                wanted = data @ weights
                for fetch, want in ((y, np.maximum(wanted + bias, 0)), (plain, wanted),
                                    (transposed, wanted)):
                    np.testing.assert_allclose(sess.run(fetch, {x: data}), want, rtol=1e-4,
                                               atol=1e-4)
            with pytest.raises(tf.errors.InvalidArgumentError, match="incompatible"):
                sess.run(plain, {x: np.zeros((2, 299), np.float32)})


def test_what_is_nothing_beside_the_shift_is_zero():
    """Trained filters hold subnormal numbers, which are slow to multiply."""
    value = np.float32([[1.0, 1e-39, 3e-38], [2e-40, 1.0, 1e-12]]).reshape(1, 1, 2, 3)
    start = rewriting.node.Node("conv", "Conv2D", attrs={"T": tf.float32})
    scale, shift = np.float64([2, 1, 3]), np.float64([0.1, 0, 1])
    made = fuse.fuse_shapes.scaled_filter(start, value, scale, shift)
    assert np.array_equal(made.reshape(2, 3), np.float32([[2.0, 1e-39, 0], [0, 1.0, 3e-12]]))
    plain = fuse.fuse_shapes.scaled_filter(start, value, scale)
    assert np.array_equal(plain, (value.astype(float) * scale).astype(np.float32))
