"""make_callable: the fast way for small steps, with the same results and errors as run."""
import threading

import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


@pytest.fixture
def sess(graph):
    with tf.Session(graph=graph) as s:
        yield s


def test_results_have_the_structure_of_the_fetches(sess):
    x, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [])
    z, w = x * y, x + y
    call = sess.make_callable(z, [x, y])
    assert list(call(np.float32([1, 2]), np.float32(3))) == [3, 6]
    assert list(call([1, 2], 3)) == [3, 6]
    got = sess.make_callable({"z": z, "l": [w, z.op]}, [x, y])([1.0], 2.0)
    assert got["z"] == [2] and got["l"][0] == [3] and got["l"][1] is None
    assert sess.make_callable(z.op, [x, y])([1.0], 2.0) is None
    assert list(sess.make_callable(x, [x])(np.float32([5]))) == [5]


def test_without_feeds(sess):
    v = tf.Variable(1.0)
    sess.run(v.initializer)
    add = sess.make_callable(tf.assign_add(v, 1.0).op)
    read = sess.make_callable(v)
    for _ in range(5):
        assert add() is None
    assert read() == 6 and type(read()) is np.float32


def test_other_values_than_last_time(sess):
    x = tf.placeholder(tf.float32, [None, 2])
    call = sess.make_callable(x * 2, [x])
    for value in (
        np.ones((1, 2), np.float32),
        np.ones((3, 2)),
        [[1, 2]],
        np.ones((2, 4), np.float32)[:, ::2],
        np.zeros((0, 2), np.float32),
        np.ones((2, 2), np.float32).T,
    ):
        assert (call(value) == np.asarray(value) * 2).all()


def test_wrong_values(sess):
    x, i = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int32, [])
    call = sess.make_callable(x + tf.cast(i, tf.float32), [x, i])
    with pytest.raises(ValueError, match="Cannot feed value of shape"):
        call(np.zeros(3, np.float32), 1)
    with pytest.raises(TypeError):
        call(np.zeros(2, np.float32), 1.5)
    for args in ((), (1,), (1, 2, 3)):
        with pytest.raises(TypeError, match="takes 2 values"):
            call(*args)
    with pytest.raises(TypeError, match="must be a list"):
        sess.make_callable(x, x)
    with pytest.raises(ValueError, match="twice"):
        sess.make_callable(x + 1, [x, x])


def test_errors_are_explained(sess):
    x = tf.placeholder(tf.float32, [None, None])
    call = sess.make_callable(tf.matmul(x, x, name="square_matrix"), [x])
    with pytest.raises(tf.errors.InvalidArgumentError, match="square_matrix"):
        call(np.zeros((2, 3), np.float32))
    assert (call(np.eye(2, dtype=np.float32)) == np.eye(2)).all()


def test_options(sess):
    x = tf.placeholder(tf.float32, [])
    call = sess.make_callable(x + 1, [x], accept_options=True)
    assert call(1) == 2 and call(1, options=tf.RunOptions(timeout_in_ms=1000)) == 2
    metadata = tf.RunMetadata()
    assert call(1, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata) == 2
    assert len(metadata.partition_graphs) == 1


def test_fed_arrays_are_kept_apart(sess):
    """A result never aliases an argument that the caller may change."""
    x = tf.placeholder(tf.float32, [4])
    call = sess.make_callable(tf.identity(x), [x])
    fed = np.float32([1, 2, 3, 4])
    got = call(fed)
    fed[:] = 0
    assert list(got) == [1, 2, 3, 4]


def test_from_many_threads(sess):
    x, y = tf.placeholder(tf.float32, [10]), tf.placeholder(tf.float32, [10])
    call = sess.make_callable(x + y, [x, y])
    wrong = []

    def work(k):
        a, b = np.full(10, k, np.float32), np.full(10, 2 * k, np.float32)
        for _ in range(300):
            if not (call(a, b) == 3 * k).all():
                wrong.append(k)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong
