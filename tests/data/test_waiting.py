"""GetNext while it waits: deadlines, closed sessions, cancelled calls; errors; states of every
transformation."""
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from quiet import clock

import pyflow as tf
from data_helpers import RANGE

EXPERIMENTAL = tf.data.experimental


def slow_elements(seconds):
    def wait():
        for i in range(3):
            yield i
        time.sleep(seconds)
        yield 3
    return tf.data.Dataset.from_generator(wait, tf.int64, [])


def test_a_deadline_ends_a_wait_and_nothing_is_lost():
    following = slow_elements(0.5).make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        assert [sess.run(following) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(following, options=tf.RunOptions(timeout_in_ms=100))
        assert sess.run(following) == 3


def test_closing_the_session_ends_waits():
    following = RANGE(3).repeat().filter(lambda x: x > 5).prefetch(
        1).make_one_shot_iterator().get_next()
    sess, seen = tf.Session(), []

    def run():
        try:
            sess.run(following)
        except tf.errors.OpError as error:
            seen.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.1)
    began = clock()
    sess.close()
    thread.join(5)
    assert not thread.is_alive() and clock() - began < 3
    assert isinstance(seen[0], tf.errors.CancelledError)


def test_many_calls_wait_and_each_gets_one_element():
    following = RANGE(200).map(lambda x: x * 2, 4).prefetch(2).make_one_shot_iterator().get_next()
    got = []
    with tf.Session() as sess:
        def run():
            try:
                while True:
                    got.append(int(sess.run(following)))
            except tf.errors.OutOfRangeError:
                pass
        threads = [threading.Thread(target=run) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(got) == list(range(0, 400, 2))


def inverse(x):
    return tf.check_numerics(1.0 / tf.cast(x, tf.float32), "zero")      # the line


FAILING = {
    "map": lambda: RANGE(3).map(inverse),
    "parallel": lambda: RANGE(9).map(inverse, num_parallel_calls=2).prefetch(1),
    "filter": lambda: RANGE(3).filter(lambda x: inverse(x) > 0),
    "inner": lambda: RANGE(3).flat_map(lambda x: RANGE(x, x + 2).map(inverse)),
}


@pytest.mark.parametrize("case", FAILING)
def test_errors_inside_functions_name_the_line(case):
    following = FAILING[case]().make_one_shot_iterator().get_next()
    definition = tf.get_default_graph().as_graph_def()
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            sess.run(following)
    said = re.search(r"'Dataset_\w+/(CheckNumerics)' \((.*)\) in it was made at .*"
                     r"test_waiting\.py:(\d+): return (.*)", str(caught.value))
    assert said[1] == said[2] and said[4].endswith("# the line")
    assert int(said[3]) == inverse.__code__.co_firstlineno + 1
    with tf.Graph().as_default(), tf.Session() as sess:     # no line of the program made it
        tf.import_graph_def(definition, name="")
        with pytest.raises(tf.errors.InvalidArgumentError, match="/CheckNumerics' ") as caught:
            sess.run(following.name)
    assert " in it was made " not in str(caught.value)


def ragged(x):
    return tf.fill([tf.cast(x % 5, tf.int32)], x)


def counted():
    yield from range(40)


STATES = {
    "padded": lambda: RANGE(40).map(ragged).padded_batch(3, [None]).prefetch(1),
    "cache": lambda: RANGE(8).map(
        lambda x: x + tf.random_uniform([], 0, 99, tf.int64)).cache().repeat(4),
    "window": lambda: RANGE(40).window(4, 3).prefetch(2).flat_map(lambda w: w.batch(3)),
    "group": lambda: RANGE(40).apply(EXPERIMENTAL.group_by_window(
        lambda x: x % 3,
        lambda key, w: w.map(lambda x: x + tf.random_uniform([], 0, 99, tf.int64)), 4)),
    "scan": lambda: RANGE(40).apply(EXPERIMENTAL.scan(
        tf.constant(0, tf.int64), lambda s, x: (s + x, s * tf.random_uniform([], 0, 9, tf.int64)))),
    "generator": lambda: tf.data.Dataset.from_generator(
        counted, tf.int64, []).map(lambda x: x + 1, 3),
    "sample": lambda: EXPERIMENTAL.sample_from_datasets([RANGE(20), RANGE(100, 120)], seed=4),
    "unbatch": lambda: RANGE(40).batch(7).apply(EXPERIMENTAL.unbatch()).enumerate(),
    "ignore": lambda: RANGE(40).map(lambda x: tf.check_numerics(
        1 / tf.cast(x % 4, tf.float32), "zero")).apply(EXPERIMENTAL.ignore_errors()),
    "zip": lambda: tf.data.Dataset.zip(
        (RANGE(9).concatenate(RANGE(30)).skip(2), RANGE(90).shard(2, 1))),
}


def reading(make):
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(9)
        iterator = make().make_initializable_iterator()
        following = iterator.get_next()
        saveable = EXPERIMENTAL.make_saveable_from_iterator(iterator)
        given = tf.placeholder(tf.string, [])
        load = saveable.restore([given], None)
    sess = tf.Session(graph=graph)
    sess.run(iterator.initializer)
    return sess, following, saveable.specs[0].tensor, given, load


def taken(sess, following, most=1000):
    got = []
    while len(got) < most:
        try:
            got.append(str(sess.run(following)))
        except tf.errors.OutOfRangeError:
            break
    return got


@pytest.mark.parametrize("name", STATES)
def test_every_transformation_goes_on_from_its_state(name):
    sess, following, state, given, load = reading(STATES[name])
    whole = taken(sess, following)
    assert len(whole) > 10
    for at in (0, 1, 5, len(whole) // 2, len(whole)):
        sess, following, state, given, load = reading(STATES[name])
        got = taken(sess, following, at)
        saved = sess.run(state)
        sess, following, state, given, load = reading(STATES[name])
        sess.run(load, {given: saved})
        assert got + taken(sess, following) == whole, at


def test_files_go_on_from_their_state(tmp_path):
    (tmp_path / "a").write_text("\n".join(map(str, range(50))))
    names = [str(tmp_path / "a")] * 2
    whole, rest = [], []
    for at in (0, 7, 55):
        sess, following, state, given, load = reading(lambda: tf.data.TextLineDataset(names))
        whole = taken(sess, following, at)
        saved = sess.run(state)
        sess, following, state, given, load = reading(lambda: tf.data.TextLineDataset(names))
        sess.run(load, {given: saved})
        rest = taken(sess, following)
        assert whole + rest == [str(str(i).encode()) for i in range(50)] * 2


def test_wrong_arguments():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Batch size must be greater"):
        tf.Session().run(RANGE(3).batch(0).make_one_shot_iterator().get_next())
    with pytest.raises(tf.errors.InvalidArgumentError, match="greater than zero"):
        tf.Session().run(RANGE(3).shuffle(0, seed=1).make_one_shot_iterator().get_next())
    with pytest.raises(TypeError, match="must return a Dataset"):
        RANGE(3).apply(lambda dataset: np.zeros(3))
    with pytest.raises(TypeError, match="tf.data.Options"):
        RANGE(3).with_options(1)
    with pytest.raises(RuntimeError, match="__iter__"):
        iter(RANGE(3))


def test_a_save_waits_for_a_request_no_longer_than_its_deadline():
    iterator = slow_elements(0.6).make_initializable_iterator()
    following = iterator.get_next()
    state = EXPERIMENTAL.make_saveable_from_iterator(iterator).specs[0].tensor
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        for _ in range(3):
            sess.run(following)
        thread = threading.Thread(target=sess.run, args=(following,))
        thread.start()
        time.sleep(0.1)
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(state, options=tf.RunOptions(timeout_in_ms=150))
        thread.join()
        assert sess.run(state)


def test_elements_need_no_initialiser_to_wait_for_another_reading():
    """An initializer that runs while a request is on: the request is asked anew."""
    slow, fast = slow_elements(0.3), RANGE(100, 103)
    iterator = tf.data.Iterator.from_structure(tf.int64, [])
    following = iterator.get_next()
    first, second = iterator.make_initializer(slow), iterator.make_initializer(fast)
    with tf.Session() as sess:
        sess.run(first)
        for _ in range(3):
            sess.run(following)
        got = []
        thread = threading.Thread(target=lambda: got.append(sess.run(following)))
        thread.start()
        time.sleep(0.1)
        sess.run(second)
        thread.join()
        assert got == [100] and sess.run(following) == 101


INTERRUPTED = """
import time
import pyflow as tf
def endless():
    yield 0
    time.sleep(60)
following = tf.data.Dataset.from_generator(endless, tf.int64, []).map(
    lambda x: x).filter(lambda x: x > 0).make_one_shot_iterator().get_next()
with tf.Session() as sess:
    print("waits", flush=True)
    try:
        sess.run(following)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        import os
        os._exit(0)
"""


@pytest.mark.alone
def test_ctrl_c_ends_a_wait():
    process = subprocess.Popen([sys.executable, "-P", "-c", INTERRUPTED], text=True,
                               stdout=subprocess.PIPE)
    assert process.stdout.readline() == "waits\n"
    time.sleep(0.3)
    began = clock()
    process.send_signal(signal.SIGINT)
    try:
        assert process.stdout.readline() == "interrupted\n"
        assert clock() - began < 2
    finally:
        process.kill()
        process.wait()
