"""Filters, datasets of datasets, several datasets, reading ahead."""

import pytest
from quiet import clock

import pyflow as tf
from data_helpers import RANGE, elements, listed


def test_filter():
    assert listed(RANGE(10).filter(lambda x: tf.equal(x % 3, 0))) == [0, 3, 6, 9]
    with pytest.raises(ValueError, match="scalar boolean"):
        RANGE(3).filter(lambda x: x)


def test_an_endless_filter_ends_with_its_deadline():
    following = RANGE(3).repeat().filter(lambda x: x > 5).make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        began = clock()
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(following, options=tf.RunOptions(timeout_in_ms=300))
        assert clock() - began < 5


def test_datasets_of_elements():
    assert listed(RANGE(4).flat_map(lambda x: tf.data.Dataset.range(x))) == [0, 0, 1, 0, 1, 2]

    def tens(x):
        return tf.data.Dataset.from_tensors(x).repeat(3)
    for parallel in (None, 2):
        got = listed(RANGE(1, 5).interleave(tens, 2, 2, num_parallel_calls=parallel))
        assert got == [1, 1, 2, 2, 1, 2, 3, 3, 4, 4, 3, 4]
    with pytest.raises(TypeError, match="must return a `Dataset`"):
        RANGE(3).flat_map(lambda x: x)


def test_several():
    a, b = RANGE(3), RANGE(10, 20)
    got = elements(tf.data.Dataset.zip({"a": a, "b": (b, a)}))
    assert [(x["a"], x["b"][0]) for x in got] == [(0, 10), (1, 11), (2, 12)]
    assert listed(a.concatenate(b)) == [0, 1, 2, *range(10, 20)]
    with pytest.raises(TypeError, match="different types"):
        a.concatenate(tf.data.Dataset.from_tensors(1.0))
    with pytest.raises(TypeError, match="tuple, not a list"):
        tf.data.Dataset.zip([a, b])


@pytest.mark.parametrize("room", [0, 1, 3, None])
def test_prefetch(room):
    assert listed(RANGE(20).map(lambda x: x + 1, 3).prefetch(room).batch(6).prefetch(1)) == [
        [1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12], [13, 14, 15, 16, 17, 18], [19, 20]]


def test_errors_come_in_their_place_and_what_follows_goes_on():
    def checked(x):
        with tf.control_dependencies([tf.Assert(tf.not_equal(x, 2), ["two"])]):
            return tf.identity(x)
    for parallel in (None, 4):
        with tf.Graph().as_default(), tf.Session() as sess:
            following = RANGE(5).map(checked, parallel).make_one_shot_iterator().get_next()
            got = []
            for _ in range(5):
                try:
                    got.append(int(sess.run(following)))
                except tf.errors.InvalidArgumentError as error:
                    assert "two" in str(error)
                    got.append(None)
            assert got == [0, 1, None, 3, 4]
