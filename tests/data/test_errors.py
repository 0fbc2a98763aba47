"""What follows an element that failed, beside TensorFlow 1.15's recorded answers; what is refused,
and what is not."""
import json
import threading

import numpy as np
import pytest
from error_pipelines import ANSWERS, PLACES, ending, events, pipelines

import pyflow as tf

RECORDED = json.loads(ANSWERS.read_text())


@pytest.mark.parametrize("place", PLACES)
def test_after_an_error(place):
    found = {name: events(tf, make) for name, make in pipelines(tf, PLACES[place]).items()}
    assert found == {name: RECORDED[f"{name} {place}"] for name in found}


def test_functions_that_are_at_their_end():
    """StopIteration of a py_func ends a map; elsewhere it is an error, not the end."""
    found = {name: events(tf, make) for name, make in ending(tf).items()}
    assert found == {name: RECORDED[f"{name} ends"] for name in found}


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def by_handle(shapes):
    """An element, by a string handle that is said to be of these shapes."""
    iterator = tf.data.Dataset.from_tensors([1, 2, 3]).make_one_shot_iterator()
    handle = tf.placeholder(tf.string, [])
    other = tf.data.Iterator.from_string_handle(handle, tf.int32, shapes)
    with tf.Session() as session:
        text = session.run(iterator.string_handle())
        return session.run(other.get_next(), {handle: text}).tolist()


@pytest.mark.parametrize("shapes", [[4], [], [3, 1], [None, None]])
def test_a_handle_of_an_iterator_of_other_shapes(graph, shapes):
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match=r"Incompatible shapes at component 0: expected \[.* got \[3\]"):
        by_handle(shapes)


@pytest.mark.parametrize("shapes", [[3], [None], None])
def test_a_handle_of_an_iterator_of_such_shapes(graph, shapes):
    assert by_handle(shapes) == [1, 2, 3]


def test_an_iterator_without_a_dataset_is_not_saved(graph, tmp_path):
    iterator = tf.data.Dataset.range(4).make_initializable_iterator()
    element = iterator.get_next()
    saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
            saver.save(session, str(tmp_path / "a"))
        session.run(iterator.initializer)
        assert session.run(element) == 0
        path = saver.save(session, str(tmp_path / "a"))
        assert session.run(element) == 1
    with tf.Session() as session:
        saver.restore(session, path)
        saver.save(session, str(tmp_path / "b"))        # as it was restored
        session.run(iterator.initializer)
        assert session.run(element) == 1


def test_two_iterators_of_one_dataset_in_one_saver(graph, tmp_path):
    dataset = tf.data.Dataset.range(4).shuffle(2).repeat(2)
    iterators = [dataset.make_initializable_iterator() for _ in range(2)]
    elements = [iterator.get_next() for iterator in iterators]
    saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)
                            for iterator in iterators])
    begin = [iterator.initializer for iterator in iterators]
    for taken in ((0, 0), (3, 4), (8, 1), (5, 8)):
        with tf.Session() as session:
            session.run(begin)
            before = [[session.run(element) for _ in range(n)]
                      for element, n in zip(elements, taken)]
            path = saver.save(session, str(tmp_path / "state"))
        with tf.Session() as session:
            session.run(begin)
            saver.restore(session, path)
            after = [[session.run(element) for _ in range(8 - n)]
                     for element, n in zip(elements, taken)]
            for element in elements:
                with pytest.raises(tf.errors.OutOfRangeError):
                    session.run(element)
        for first, second in zip(before, after):
            assert sorted(first + second) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_unbatch_of_what_cannot_have_as_many_rows(graph):
    unequal = tf.data.Dataset.from_tensors((np.arange(3), np.arange(4)))
    with pytest.raises(ValueError, match="components have different batch sizes"):
        unequal.apply(tf.data.experimental.unbatch())
    with pytest.raises(ValueError, match="scalar components"):
        tf.data.Dataset.range(3).apply(tf.data.experimental.unbatch())


def listed(dataset):
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        found = []
        while True:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                return found


def test_a_list_of_results_is_a_tuple(graph):
    mixed = tf.data.Dataset.range(2).map(lambda x: [x, tf.as_string(x)])
    assert mixed.output_types == (tf.int64, tf.string) and listed(mixed) == [(0, b"0"), (1, b"1")]
    of_python = tf.data.Dataset.range(2).map(lambda x: tf.py_func(
        lambda v: [v, np.float32(v)], [x], [tf.int64, tf.float32]))
    assert listed(of_python) == [(0, 0.0), (1, 1.0)]
    within = tf.data.Dataset.range(1).map(lambda x: (x, [x, x + 1]))
    assert [(x, y.tolist()) for x, y in listed(within)] == [(0, [0, 1])]


def test_keys_and_sizes_of_windows_are_python_numbers(graph):
    grouped = tf.data.Dataset.range(6).apply(tf.data.experimental.group_by_window(
        lambda x: 0, lambda _, w: w.batch(4), window_size_func=lambda key: 4))
    assert [x.tolist() for x in listed(grouped)] == [[0, 1, 2, 3], [4, 5]]
    with pytest.raises(ValueError, match="`key_func` must return a single tf.int64"):
        tf.data.Dataset.range(6).apply(tf.data.experimental.group_by_window(
            lambda x: tf.cast(x, tf.int32), lambda _, w: w, 2))


@pytest.mark.parametrize("of", [lambda value: value, tf.SparseTensor.from_value])
def test_sparse_states(graph, of):
    value = of(tf.SparseTensorValue([[0, 1]], np.array([1], np.int32), [1, 2]))

    def doubled(state, _):
        return tf.SparseTensor(state.indices, state.values * 2, state.dense_shape)
    scanned = tf.data.Dataset.range(3).apply(tf.data.experimental.scan(
        value, lambda state, x: (doubled(state, x), state)))
    assert [x.values.tolist() for x in listed(scanned)] == [[1], [2], [4]]
    reduced = tf.data.Dataset.range(3).reduce(value, doubled)
    with tf.Session() as session:
        found = session.run(reduced)
    assert found.values.tolist() == [8] and found.indices.tolist() == [[0, 1]]


def test_more_blocked_calls_than_usual_threads(graph):
    """Each waits for all: as many threads as calls are needed."""
    together = threading.Barrier(40)

    def meet(x):
        together.wait(60)
        return x
    dataset = tf.data.Dataset.range(40).map(
        lambda x: tf.py_func(meet, [x], tf.int64), num_parallel_calls=40)
    assert listed(dataset) == list(range(40))
