"""partial_run: feeds arrive and fetches leave in several calls; each once."""
import random
import threading
import tracemalloc

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


def three():
    a, b, c = (tf.placeholder(tf.float32, [], name=n) for n in "abc")
    r1 = tf.add(a, b)
    return a, b, c, r1, tf.multiply(r1, c)


def test_two_calls(sess):
    a, b, c, r1, r2 = three()
    h = sess.partial_run_setup([r1, r2], [a, b, c])
    assert sess.partial_run(h, r1, {a: 1, b: 2}) == 3
    assert sess.partial_run(h, r2, {c: 17 * 3}) == 153


def test_results_can_be_fed_back(sess):
    a, b, c, r1, r2 = three()
    for _ in range(3):
        h = sess.partial_run_setup([r1, r2], [a, b, c])
        res = sess.partial_run(h, [r1], {a: 1, "b:0": 2})
        assert sess.partial_run(h, [r2, r2], {c: res[0]}) == [9, 9]


def test_many_calls_in_one_run(sess):
    steps = 20
    x = y = tf.placeholder(tf.float32, [])
    feeds, sums = [x], []
    for _ in range(steps):
        p = tf.placeholder(tf.float32, [])
        feeds.append(p)
        y = y + p
        sums.append(y)
    h = sess.partial_run_setup(sums, feeds)
    assert sess.partial_run(h, [], {x: 1.0}) == []
    for i in range(steps):
        assert sess.partial_run(h, sums[i], {feeds[i + 1]: 1.0}) == i + 2


def test_each_operation_runs_once(sess):
    calls = []

    def record(x):
        calls.append(float(x))
        return x
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    shared = tf.py_func(record, [a], tf.float32)
    y, z = shared + 1.0, shared + b
    h = sess.partial_run_setup([y, z], [a, b])
    assert sess.partial_run(h, y, {a: 4}) == 5
    assert sess.partial_run(h, z, {b: 10}) == 14
    assert calls == [4]


def test_random_values_stay_the_same_within_a_run(sess):
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    noise = tf.random_uniform([])
    y, z = noise + a, noise + b
    h = sess.partial_run_setup([y, z], [a, b])
    assert sess.partial_run(h, y, {a: 0.0}) == sess.partial_run(h, z, {b: 0.0})


def test_variables_and_targets(sess):
    v = tf.Variable(1.0)
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    first = tf.assign_add(v, a)
    with tf.control_dependencies([first]):
        second = tf.assign_add(v, b)
    sess.run(v.initializer)
    h = sess.partial_run_setup([first.op, second], [a, b])
    assert sess.partial_run(h, first.op, {a: 10}) is None
    assert sess.run(v) == 11
    assert sess.partial_run(h, second, {b: 100}) == 111


def test_conditionals_and_loops_between_the_calls(sess):
    p, n, b = (
        tf.placeholder(tf.bool, []),
        tf.placeholder(tf.int32, []),
        tf.placeholder(tf.int32, []),
    )
    chosen = tf.cond(p, lambda: tf.constant(1), lambda: tf.constant(2))
    total = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i), [0, chosen])[1]
    end = tf.cond(p, lambda: total + b, lambda: total - b)
    for flag, want in ((True, (1, 1 + 10, 11 + 7)), (False, (2, 2 + 10, 12 - 7))):
        h = sess.partial_run_setup([chosen, total, end], [p, n, b])
        assert sess.partial_run(h, chosen, {p: flag}) == want[0]
        assert sess.partial_run(h, total, {n: 5}) == want[1]
        assert sess.partial_run(h, end, {b: 7}) == want[2]


def test_feeds_cut_the_graph(sess):
    a, b, c, r1, r2 = three()
    h = sess.partial_run_setup([r2], [r1, c])
    assert sess.partial_run(h, r2, {r1: 5, c: 2}) == 10


def refused(call, pattern):
    with pytest.raises(tf.errors.InvalidArgumentError, match=pattern):
        call()


def test_what_is_refused(sess):
    a, b, c, r1, r2 = three()
    refused(
        lambda: sess.partial_run("nothing", r1), "Must run 'setup' before performing partial runs!"
    )
    h = sess.partial_run_setup([r1], [a, b])
    refused(
        lambda: sess.partial_run(h, r1, {a: 1, b: 2, c: 3}),
        "was not specified in partial_run_setup.$",
    )
    refused(lambda: sess.partial_run(h, r2, {a: 1}), "was not specified in partial_run_setup.$")
    h = sess.partial_run_setup([r1, r2], [a, b, c])
    refused(lambda: sess.partial_run(h, r2, {a: 1}), "can't be computed.*b:0, c:0")
    h = sess.partial_run_setup([r1, r2], [a, b, c])
    sess.partial_run(h, r1, {a: 1, b: 2})
    refused(lambda: sess.partial_run(h, r1), "has already been fetched.$")
    refused(lambda: sess.partial_run(h, r2, {b: 3, c: 3}), "has already been fed.$")
    with pytest.raises(ValueError, match="Cannot feed value of shape"):
        sess.partial_run(h, r2, {c: [1, 2]})


def test_unfed_placeholder_and_failing_kernels(sess):
    a, b, c, r1, r2 = three()
    h = sess.partial_run_setup([r2], [a, b])
    refused(lambda: sess.partial_run(h, r2, {a: 1, b: 2}), "You must feed a value for placeholder")
    x = tf.placeholder(tf.float32, [None, None])
    y = tf.matmul(x, tf.zeros([3, 3]), name="bad_product")
    h = sess.partial_run_setup([y], [x])
    refused(lambda: sess.partial_run(h, y, {x: np.zeros((2, 2))}), "bad_product")


def test_many_handles_at_once_and_plain_runs_between(sess):
    a, b, c, r1, r2 = three()
    handles = [sess.partial_run_setup([r1, r2], [a, b, c]) for _ in range(10)]
    for i, h in enumerate(handles):
        assert sess.partial_run(h, r1, {a: i, b: i}) == 2 * i
        assert sess.run(r1, {a: 1, b: 1}) == 2
    for i, h in reversed(list(enumerate(handles))):
        assert sess.partial_run(h, r2, {c: 10}) == 20 * i


def test_concurrent_partial_runs(sess):
    a, b, c, r1, r2 = three()
    wrong = []

    def work(i):
        for k in range(20):
            h = sess.partial_run_setup([r1, r2], [a, b, c])
            got = sess.partial_run(h, r1, {a: i, b: k}), sess.partial_run(h, r2, {c: 3})
            if got != (i + k, 3 * (i + k)):
                wrong.append(got)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_nothing_to_fetch(sess):
    a = tf.placeholder(tf.float32, [])
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least one target"):
        sess.partial_run_setup([], [a])                     # as TF
    h = sess.partial_run_setup([a + 1.0], [a])
    assert sess.partial_run(h, [], {a: 3.0}) == []


@pytest.mark.parametrize("seed", range(15))
def test_random_graphs_give_what_one_run_gives(sess, seed):
    """Random graphs with conditionals, loops and side effects, fed in a random order."""
    rng, calls = random.Random(seed), []

    def effect(x):
        calls.append(1)
        return x
    feeds = [tf.placeholder(tf.float32, [], name=f"feed{i}") for i in range(5)]
    tensors = list(feeds) + [tf.constant(2.0)]
    for _ in range(25):
        a, b = rng.choice(tensors), rng.choice(tensors)
        kind = rng.randrange(6)
        if kind == 0:
            y = tf.cond(a < b, lambda: a * 0.5 + b, lambda: a - b)
        elif kind == 1:
            y = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * 0.5 + a), [0, b])[1]
        elif kind == 2:
            y = tf.py_func(effect, [a - b], tf.float32)
            y.set_shape([])
        else:
            y = (a + b if kind == 3 else a - b) * 0.5
        tensors.append(y)
    fetches = rng.sample(tensors[6:], 6)
    values = {f: rng.uniform(-1, 1) for f in feeds}
    want = dict(zip(fetches, sess.run(fetches, values)))
    effects = len(calls)
    del calls[:]
    h = sess.partial_run_setup(fetches, feeds)
    order, waiting = rng.sample(feeds, len(feeds)), list(fetches)
    for i, feed in enumerate(order):
        fed = {feed: values[feed]}
        for fetch in list(waiting) if i < 4 else []:
            try:
                got = sess.partial_run(h, fetch, fed)
            except tf.errors.InvalidArgumentError as e:
                assert "can't be computed" in str(e)
            else:
                assert got == want[fetch]
                waiting.remove(fetch)
            fed = {}
        if fed:
            got = sess.partial_run(h, waiting, fed)
            assert got == [want[w] for w in waiting]
            waiting = []
    assert not waiting and len(calls) == effects


@pytest.mark.parametrize("partitions", ["one", "device"])
def test_what_was_not_asked_for_never_becomes_an_array(graph, partitions):
    """Between calls values stay in the executor: NumPy's allocations, which tracemalloc sees, are
    those of what was fetched alone."""
    a, b = (tf.placeholder(tf.float32, [], name=n) for n in "ab")
    with tf.device("/cpu:1"):
        large = tf.fill([1 << 20], a) * 2.0
    names, least = tf.as_string(large[:3]), tf.reduce_min(large)
    total = tf.reduce_sum(large + b)
    joined = tf.strings.reduce_join(names) + tf.as_string(tf.cast(b, tf.int32))
    config = tf.ConfigProto(device_count={"CPU": 2})
    with tf.Session(config=config, partitions=partitions) as sess:
        h = sess.partial_run_setup([least, total, joined], [a, b])
        run = sess._partial_runs[h]
        tracemalloc.start()
        try:
            assert sess.partial_run(h, least, {a: 1.0}) == 2
            kept = list(run._values.values())
            assert sum(v.shape == (1 << 20,) for v in kept) == 1
            assert {type(v).__name__ for v in kept} == {"Kept"}
            text = sess.partial_run(h, [total, joined], {b: 3.0})
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert text[0] == 5 << 20 and text[1] == b"2.0000002.0000002.0000003"
    assert peak < 1 << 20, peak


def test_values_fed_are_of_the_moment_they_were_fed(sess):
    a, b, c = (tf.placeholder(tf.float32, [2], name=n) for n in "abc")
    r1, r2 = a + b, a * c
    h = sess.partial_run_setup([r1, r2], [a, b, c])
    array = np.array([1, 2], np.float32)
    first = sess.partial_run(h, r1, {a: array, b: [10, 10]})
    array[:] = 100
    first[:] = 100
    assert sess.partial_run(h, r2, {c: [3, 3]}).tolist() == [3, 6]
