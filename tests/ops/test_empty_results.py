"""Results without elements, and constants made from none, as TensorFlow 1.15.5 has them."""
import numpy as np
import pytest

import pyflow as tf
from pyflow.framework import errors


def patches(x, size, stride=1, rate=1):
    return tf.extract_image_patches(x, [1, size, size, 1], [1, stride, stride, 1], [1, rate, rate, 1], "VALID")


def dilation(x, size, stride=1, rate=1):
    return tf.nn.dilation2d(x, np.ones((size, size, 1), np.float32), [1, stride, stride, 1],
                            [1, rate, rate, 1], "VALID")


def convolution(x, size, stride=1, rate=1):
    return tf.nn.conv2d(x, np.ones((size, size, 1, 1), np.float32), [1, stride, stride, 1], "VALID",
                        dilations=[1, rate, rate, 1])


@pytest.mark.parametrize("known", (True, False))
@pytest.mark.parametrize("window", ((3, 1, 1), (4, 2, 1), (2, 1, 2)))
@pytest.mark.parametrize("op", (patches, dilation, convolution))
def test_a_window_one_stride_too_large_gives_nothing(op, window, known):
    image = np.ones((1, 2, 2, 1), np.float32)
    x = tf.placeholder_with_default(image, image.shape if known else [None] * 4)
    if op is convolution and known:                 # TensorFlow's shape functions of these are stricter
        with pytest.raises(ValueError, match="negative output size"):
            op(x, *window)
        return
    y = op(x, *window)
    depth = window[0] ** 2 if op is patches else 1
    y.shape.assert_is_compatible_with([1, 0, 0, depth])
    with tf.Session() as session:
        assert session.run(y).shape == (1, 0, 0, depth)


@pytest.mark.parametrize("op", (patches, dilation, convolution))
def test_a_larger_one_is_an_error(op):
    image = np.ones((1, 2, 2, 1), np.float32)
    with pytest.raises(ValueError, match="negative output size"):
        op(tf.constant(image), 4)
    with tf.Session() as session, pytest.raises(errors.InvalidArgumentError):
        session.run(op(tf.placeholder_with_default(image, [None] * 4), 4))


@pytest.mark.parametrize("value, dtype, wanted", (
    ([], None, np.zeros(2, np.float32)), ([], tf.int64, np.zeros(2, np.int64)),
    (np.zeros(0), None, np.zeros(2)), ([], tf.bool, np.zeros(2, bool)),
    ([], tf.string, np.array([b"", b""], object))))
def test_a_constant_of_no_values_is_zeros(value, dtype, wanted):
    with tf.Session() as session:
        got = session.run(tf.constant(value, dtype, shape=[2]))
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


def test_values_in_no_bins_are_in_the_first():
    with tf.Session() as session:
        assert session.run(tf.histogram_fixed_width_bins([1.0, 2.0], [0.0, 5.0], nbins=0)).tolist() == [0, 0]


def test_a_save_makes_one_folder(tmp_path):
    def save(prefix):
        return tf.raw_ops.SaveV2(prefix=str(tmp_path / prefix), tensor_names=["a"],
                                 shape_and_slices=[""], tensors=[1.0])
    with tf.Session() as session:
        session.run(save("new/model"))
        assert tf.train.load_checkpoint(str(tmp_path / "new" / "model")).get_tensor("a") == 1.0
        with pytest.raises(errors.NotFoundError):
            session.run(save("newer/still/model"))
