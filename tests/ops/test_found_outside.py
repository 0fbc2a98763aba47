"""Small faults that random programs and TensorFlow's own tests found: values and errors are
TensorFlow 1.15.5's."""
import numpy as np
import pytest

import pyflow as tf


def run(fetched, feeds=None):
    with tf.Session() as session:
        return session.run(fetched, feeds)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("pattern, rewrite, all_of_them, first", [
    ("(a)(b)", r"\3", "xy", "xyab"), ("ab", r"\1", "xy", "xyab"), ("ab", r"\9x", "xxyx", "xxyab"),
    ("ab", "x\\", "xxyx", "xabyab"), ("ab", r"\q", "xy", "xabyab"),
    ("(a)b", r"\1\2", "xaya", "xayab")])
def test_a_rewrite_that_names_no_group(pattern, rewrite, all_of_them, first):
    found = run([tf.regex_replace(["xabyab", "no"], pattern, rewrite, replace_global=g)
                 for g in (True, False)])
    assert [list(f) for f in found] == [[all_of_them.encode(), b"no"], [first.encode(), b"no"]]


@pytest.mark.parametrize("text, most, wanted", [
    (",", 1, [",", ""]), (" , a", 2, [",", "a", ""]), ("a  b  ", 2, ["a", "b", ""]),
    (" a ", 1, ["a", ""]), (" , a", 1, [",", "a"]), ("a, b c", 1, ["a,", "b c"]), ("", 1, []),
    ("a  b ", -1, ["a", "b"])])
def test_split_by_blanks_keeps_an_empty_rest(text, most, wanted):
    assert [v.decode() for v in run(tf.strings.split([text], None, maxsplit=most).values)] == wanted


def test_an_array_does_not_fit_a_shape_without_elements():
    with pytest.raises(ValueError, match="Too many elements"):
        tf.constant(np.arange(4.0), shape=[4, 0])
    assert run(tf.constant([1.0, 2.0], shape=[0])).shape == (0,)


def test_errors_at_construction():
    with pytest.raises(ValueError, match="nbins > 0"):
        tf.histogram_fixed_width([1.0], [0.0, 5.0], nbins=0)
    with pytest.raises(ValueError, match="axis must be >= -1"):
        tf.one_hot([1, 2], 3, axis=-2)
    for size in ((0, 3), (3, 0), (-1, 3)):
        with pytest.raises(ValueError, match="must be > 0"):
            tf.image.resize_image_with_pad(np.ones((1, 4, 4, 3), "f"), *size)


@pytest.mark.parametrize("known", [True, False])
def test_images_of_other_channels(known):
    for function, good in ((tf.image.rgb_to_grayscale, 3), (tf.image.grayscale_to_rgb, 1)):
        for channels in (1, 2, 3, 4):
            image = np.ones((2, 2, channels), "f")
            given = image if known else tf.placeholder_with_default(image, None)
            if channels == good:
                assert run(function(given)).shape == (2, 2, 4 - good)
                continue
            with pytest.raises(ValueError if known else tf.errors.InvalidArgumentError,
                               match="Last dimension of"):
                run(function(given))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_sobel_edges_of_floats(dtype):
    edges = run(tf.image.sobel_edges(np.arange(16).reshape(1, 4, 4, 1).astype(dtype)))
    assert edges.dtype == dtype and np.abs(edges).sum() == 320


def test_ragged_rows_by_starts_and_limits():
    values, make = np.arange(5), tf.RaggedTensor
    splits = run([make.from_row_starts(values, [0, 2, 2]).row_splits,
                  make.from_row_limits(values, [2, 2, 5]).row_splits])
    assert [s.tolist() for s in splits] == [[0, 2, 2, 5]] * 2
    for maker, rows in (("from_row_starts", [1, 2]), ("from_row_starts", [0, 9]),
                        ("from_row_limits", [0, 2, 2]), ("from_row_limits", [2, 1, 5])):
        with pytest.raises(tf.errors.InvalidArgumentError, match="do not form a valid Ragged"):
            run(getattr(make, maker)(values, rows).row_splits)


def test_gradients_of_frames_of_a_vector():
    x = tf.constant(np.arange(6.0))
    frames = tf.signal.frame(x, 4, 2)
    gradient = tf.gradients(frames * [1.0, 2.0, 3.0, 4.0], x)[0]
    assert isinstance(gradient, tf.Tensor) and frames.shape == (2, 4)
    value, twice = run([frames, gradient * 2])
    assert value.tolist() == [[0, 1, 2, 3], [2, 3, 4, 5]]
    assert twice.tolist() == [2, 4, 8, 12, 6, 8]
    spectrum = tf.abs(tf.signal.stft(tf.cast(x, tf.float32), 4, 2))
    assert isinstance(tf.gradients(spectrum, x)[0], tf.Tensor)


def test_inverse_window_is_0_where_no_frame_is():
    window = run(tf.signal.inverse_stft_window_fn(4)(4, tf.float32))
    assert window[0] == 0 and np.isfinite(window).all()


def test_nan_is_in_the_last_bucket():
    column = tf.feature_column.bucketized_column(tf.feature_column.numeric_column("x"), [0.0, 10.0])
    layer = tf.feature_column.input_layer({"x": [[-1.0], [0.0], [99.0], [np.nan]]}, [column])
    assert run(layer).argmax(1).tolist() == [0, 1, 2, 2]


def test_gradient_of_sparse_to_dense_of_unknown_rank():
    indices = tf.placeholder_with_default(np.array([[0, 1], [2, 0]]), None)
    values = tf.constant([1.0, 2.0])
    dense = tf.sparse_to_dense(indices, np.array([3, 2]), values, validate_indices=False)
    weights = np.arange(6.0, dtype="f").reshape(3, 2)
    assert run(tf.gradients(dense * weights, values)[0]).tolist() == [1.0, 4.0]
