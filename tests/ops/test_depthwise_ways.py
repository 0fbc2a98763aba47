"""Convolutions of a channel each as groups of Conv2D: explicit padding, other strides down than
across, dilations; what the depthwise op computes, and the same bits for any number of threads."""
import numpy as np
import pytest

import pyflow as tf
from pyflow.framework.op import get_op

RNG = np.random.default_rng(5)
# image, multiplier, filter, strides, dilations, pads
CASES = [((2, 9, 23, 20), 1, (3, 3), (2, 1), (1, 1), (1, 1, 1, 1)),
         ((1, 8, 40, 70), 1, (5, 5), (2, 1), (1, 1), (2, 2, 2, 2)),
         ((1, 7, 31, 16), 2, (3, 3), (1, 2), (1, 1), (1, 0, 0, 1)),
         ((1, 12, 9, 33), 1, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
         ((2, 11, 13, 5), 3, (3, 2), (1, 1), (2, 1), (2, 2, 0, 1)),
         ((1, 1, 200, 48), 1, (1, 9), (1, 1), (1, 4), (0, 0, 16, 16)),
         ((1, 90, 1, 24), 1, (7, 1), (3, 1), (1, 1), (3, 3, 0, 0))]


def attributes(strides, dilations, pads):
    return dict(strides=[1, *strides, 1], dilations=[1, *dilations, 1], padding="EXPLICIT",
                explicit_paddings=[0, 0, *pads, 0, 0])


def operands(image, multiplier, size, dtype=np.float32):
    x = RNG.standard_normal(image).astype(dtype)
    return x, RNG.standard_normal((*size, 1, image[3] * multiplier)).astype(dtype)


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 2e-5), (np.float64, 1e-12),
                                              (np.float16, 2e-2)])
@pytest.mark.parametrize("constant", [True, False])
def test_a_group_a_channel(dtype, tolerance, constant):
    """Beside the reference, as one graph of all cases; on one thread and on two."""
    made, wanted = {}, []
    with tf.Graph().as_default():
        for image, multiplier, size, *rest in CASES:
            x, w = operands(image, multiplier, size, dtype)
            attrs = attributes(*rest)
            wide = get_op("DepthwiseConv2dNative").reference(
                x.astype(np.float64), w.astype(np.float64).reshape(*size, image[3], multiplier),
                attrs["strides"], "EXPLICIT", attrs["explicit_paddings"], "NHWC",
                attrs["dilations"])
            wanted.append(np.maximum(wide + np.arange(wide.shape[-1]) / 8, 0))
            fed = tf.placeholder(dtype, image)
            filters = tf.constant(w) if constant else tf.placeholder(dtype, w.shape)
            y = get_op("Conv2D")(fed, filters, **attrs)
            bias = tf.constant((np.arange(wide.shape[-1]) / 8).astype(dtype))
            made[tf.nn.relu(tf.nn.bias_add(y, bias))] = {
                fed: x, **({} if constant else {filters: w})}
        feeds = {key: value for part in made.values() for key, value in part.items()}
        results = []
        for threads in (1, 2):
            config = tf.ConfigProto(intra_op_parallelism_threads=threads,
                                    inter_op_parallelism_threads=threads)
            with tf.Session(config=config) as session:
                results.append(session.run(list(made), feeds))
    for one, two, want in zip(*results, wanted):
        np.testing.assert_allclose(one, want, rtol=tolerance, atol=tolerance * 10)
        assert np.array_equal(one, two)


@pytest.mark.parametrize("image, multiplier, size, strides, dilations, pads", CASES)
def test_it_is_what_the_depthwise_op_computes(image, multiplier, size, strides, dilations, pads):
    if strides[0] != strides[1]:
        pytest.skip("TensorFlow's op has one stride")
    x, w = operands(image, multiplier, size)
    attrs = attributes(strides, dilations, pads)
    with tf.Graph().as_default():
        grouped = get_op("Conv2D")(x, w, **attrs)
        depthwise = get_op("DepthwiseConv2dNative")(
            x, w.reshape(*size, image[3], multiplier), **attrs)
        with tf.Session() as session:
            a, b = session.run([grouped, depthwise])
    assert np.array_equal(a, b)
