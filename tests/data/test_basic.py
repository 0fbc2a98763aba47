"""Datasets and iterators: sources, what passes elements on, shuffles, batches, maps."""
import numpy as np
import pytest

import pyflow as tf
from data_helpers import RANGE, elements, listed


def test_sources():
    assert listed(RANGE(5)) == [0, 1, 2, 3, 4]
    assert listed(RANGE(5, 0, -2)) == [5, 3, 1]
    assert listed(RANGE(2, 2)) == []
    [only] = elements(tf.data.Dataset.from_tensors({"a": [1, 2], "b": ("x", 3.0)}))
    assert only["a"].tolist() == [1, 2] and only["b"][0] == b"x" and only["b"][1] == 3.0
    rows = elements(tf.data.Dataset.from_tensor_slices(([[1, 2], [3, 4]], ["a", "b"])))
    assert [(x.tolist(), s) for x, s in rows] == [([1, 2], b"a"), ([3, 4], b"b")]


def test_what_goes_on():
    assert listed(RANGE(9).take(3)) == [0, 1, 2] and len(listed(RANGE(9).take(-1))) == 9
    assert listed(RANGE(5).skip(3)) == [3, 4] and listed(RANGE(5).skip(-1)) == []
    assert listed(RANGE(2).repeat(3)) == [0, 1] * 3 and listed(RANGE(0).repeat()) == []
    assert listed(RANGE(2).repeat().take(5)) == [0, 1, 0, 1, 0]
    assert listed(RANGE(10).shard(3, 1)) == [1, 4, 7]
    slices = tf.data.Dataset.from_tensor_slices(np.arange(10))
    assert listed(slices.skip(2).shard(2, 1).repeat(2).take(6)) == [3, 5, 7, 9, 3, 5]


def test_batches():
    assert listed(RANGE(5).batch(2)) == [[0, 1], [2, 3], [4]]
    assert listed(RANGE(5).batch(2, drop_remainder=True)) == [[0, 1], [2, 3]]
    slices = tf.data.Dataset.from_tensor_slices((np.arange(12).reshape(6, 2), list("abcdef")))
    batches = elements(slices.batch(4))
    assert batches[0][0].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert batches[1][1].tolist() == [b"e", b"f"]
    assert slices.batch(4).output_shapes[0].as_list() == [None, 2]
    assert slices.batch(4, True).output_shapes[0].as_list() == [4, 2]


@pytest.mark.parametrize("indices", [True, False])
def test_shuffles(indices):
    base = tf.data.Dataset.from_tensor_slices(np.arange(100)) if indices else RANGE(100)
    a = listed(base.shuffle(10, seed=1))
    assert sorted(a) == list(range(100)) and a != list(range(100))
    assert all(value < place + 10 for place, value in enumerate(a))
    assert a == listed(base.shuffle(10, seed=1)) != listed(base.shuffle(10, seed=2))
    twice = listed(base.shuffle(200, seed=3).repeat(2))
    assert sorted(twice[:100]) == sorted(twice[100:]) and twice[:100] != twice[100:]
    same = listed(base.shuffle(200, seed=3, reshuffle_each_iteration=False).repeat(2))
    assert same[:100] == same[100:]


def test_indices_and_elements_are_shuffled_alike():
    a = listed(tf.data.Dataset.from_tensor_slices(np.arange(50)).shuffle(20, seed=5).batch(7))
    b = listed(RANGE(50).shuffle(20, seed=5).batch(7))
    assert a == b


@pytest.mark.parametrize("parallel", [None, 1, 4, -1])
def test_map(parallel):
    factor = tf.placeholder_with_default(tf.constant(3, tf.int64), [])
    assert listed(RANGE(20).map(lambda x: x * factor, parallel)) == [3 * i for i in range(20)]
    pairs = tf.data.Dataset.from_tensor_slices(([1, 2], [3, 4]))
    got = elements(pairs.map(lambda a, b: {"sum": a + b, "pair": (a, [b, b])}, parallel))
    assert got[1]["sum"] == 6 and got[1]["pair"][1].tolist() == [4, 4]


def test_random_maps_do_not_depend_on_how_many_run_at_once():
    def noisy(parallel):
        with tf.Graph().as_default():
            tf.set_random_seed(7)
            return listed(RANGE(40).repeat(2).map(
                lambda x: tf.random_uniform([3]) + tf.cast(x, tf.float32), parallel).batch(5))
    a = noisy(1)
    assert a == noisy(None) == noisy(8) and len(set(map(str, sum(a, [])))) == 80


def test_one_shot():
    following = tf.data.Dataset.from_tensor_slices([1, 2, 3]).map(
        lambda x: x * 2).make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        assert [sess.run(following) for _ in range(3)] == [2, 4, 6]
        with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
            sess.run(following)
    outside = tf.placeholder(tf.int64, [])
    with pytest.raises(ValueError, match="Failed to create a one-shot iterator"):
        RANGE(3).map(lambda x: x + outside).make_one_shot_iterator()


def test_reinitialisable_and_feedable():
    a, b = RANGE(3), RANGE(10, 13)
    iterator = tf.data.Iterator.from_structure(a.output_types, a.output_shapes)
    following = iterator.get_next()
    first, second = iterator.make_initializer(a), iterator.make_initializer(b)
    handle = tf.placeholder(tf.string, [])
    fed = tf.data.Iterator.from_string_handle(handle, a.output_types, a.output_shapes).get_next()
    one, other = a.make_one_shot_iterator(), b.make_initializable_iterator()
    with tf.Session() as sess:
        with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
            sess.run(following)
        sess.run(first)
        assert sess.run(following) == 0
        sess.run(second)
        assert sess.run(following) == 10
        sess.run(other.initializer)
        names = sess.run([one.string_handle(), other.string_handle()])
        got = [int(sess.run(fed, {handle: names[i]})) for i in (0, 1, 0, 1)]
        assert got == [0, 10, 1, 11]
        with pytest.raises(tf.errors.InvalidArgumentError, match="no string handle"):
            sess.run(fed, {handle: "nonsense"})


def test_training_on_a_dataset():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).astype(np.float32)
    y = x @ np.float32([[1], [-2], [3]])
    batch = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200, seed=1).repeat().batch(
        20).make_one_shot_iterator().get_next()
    w = tf.get_variable("w", [3, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(batch[0], w) - batch[1]))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(200):
            sess.run(step)
        np.testing.assert_allclose(sess.run(w)[:, 0], [1, -2, 3], atol=1e-3)


def test_large_arrays_of_one_value_are_as_good_as_others():
    """They are not written as a few bytes, whose growth readers refuse."""
    array = np.ones((90, 1 << 18), np.float32)
    with tf.Graph().as_default():
        data = tf.data.Dataset.from_tensor_slices(array).batch(89)
        following = tf.data.make_one_shot_iterator(data).get_next()
        with tf.Session() as sess:
            assert sess.run(tf.reduce_sum(following)) == 89 << 18


@pytest.mark.parametrize("shuffle", [None, False])
@pytest.mark.parametrize("patterns", ["*.none", ["*.none", "*.no"]])
def test_a_one_shot_iterator_over_files_that_are_not_there(tmp_path, shuffle, patterns):
    patterns = str(tmp_path / patterns) if isinstance(patterns, str) else [
        str(tmp_path / p) for p in patterns]
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = tf.data.Dataset.list_files(patterns, shuffle=shuffle)
        path = dataset.make_one_shot_iterator().get_next()
        with pytest.raises(tf.errors.InvalidArgumentError, match="No files matched.*none"):
            session.run(path)


def test_a_one_shot_iterator_waits_for_checks_of_what_it_reads():
    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.constant(3)
        with tf.control_dependencies([tf.Assert(number > 5, ["too small"])]):
            checked = tf.data.Dataset.from_tensors(tf.identity(number))
            source = tf.data.Dataset.range(3)
        for dataset in (checked, source.map(lambda x: x + 1), source.batch(2)):
            element = dataset.make_one_shot_iterator().get_next()
            with pytest.raises(tf.errors.InvalidArgumentError, match="too small"):
                session.run(element)
        # a change of a variable is not the dataset's: as in TensorFlow
        with tf.control_dependencies([tf.Variable(1.0).initializer]):
            element = tf.data.Dataset.range(3).make_one_shot_iterator().get_next()
        assert session.run(element) == 0
