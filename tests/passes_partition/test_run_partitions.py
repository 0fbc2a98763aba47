"""Sessions with a plan per device: state, gradients, failures, deadlines, cancelling, closing."""
import os
import re
import signal
import threading

import numpy as np
import pytest
from quiet import clock

import pyflow as tf
from pyflow import _executor
from pyflow.session import contract

CONFIG = tf.ConfigProto(device_count={"CPU": 3})


def on(k):
    return tf.device(f"/device:CPU:{k}")


def session(**options):
    return tf.Session(config=CONFIG, partitions="device", **options)


def parts_of(sess):
    """Partitions of the plans the session has made."""
    return [len(s.compiled.graphs) for s in dict.fromkeys(sess._steps.values())]


# ---------------------------------------------------------------- what runs

def test_feeds_and_fetches_come_from_their_partitions():
    with on(0):
        x = tf.placeholder(tf.float32, [2])
        a = x * 2.0
    with on(1):
        y = tf.placeholder(tf.float32, [2])
        b = y + a
    with on(2):
        c = a - b
    one, two = np.float32([1, 2]), np.float32([10, 20])
    with session() as sess:
        got = sess.run({"c": c, "ab": (a, b)}, {y: two, x: one})
        np.testing.assert_array_equal(got["c"], -two)
        np.testing.assert_array_equal(got["ab"][0], one * 2)
        np.testing.assert_array_equal(got["ab"][1], two + one * 2)
        np.testing.assert_array_equal(sess.make_callable(b, [x, y])(one, two), two + one * 2)
        handle = sess.partial_run_setup([a, c], [x, y])
        np.testing.assert_array_equal(sess.partial_run(handle, a, {x: one}), one * 2)
        np.testing.assert_array_equal(sess.partial_run(handle, c, {y: two}), -two)
        assert parts_of(sess) == [3]
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            sess.run(b, {x: one, y: np.zeros(3, np.float32)})
        metadata = tf.RunMetadata()
        sess.run(c, {x: one, y: two}, tf.RunOptions(output_partition_graphs=True), metadata)
        assert len(metadata.partition_graphs) == 3


def test_chosen_by_keyword_and_environment(monkeypatch):
    with on(0):
        x = tf.placeholder(tf.float32, [])
        y = x * 2.0
    with on(1):
        y = y + 1.0

    def parts(**options):
        with tf.Session(config=CONFIG, **options) as sess:
            assert sess.run(y, {x: 1.0}) == 3.0
            return parts_of(sess)
    assert parts() == [1]
    monkeypatch.setenv("PYFLOW_PARTITIONS", "device")
    assert parts() == [2] and parts(partitions="one") == [1]
    monkeypatch.setenv("PYFLOW_PARTITIONS", "task")
    with pytest.raises(ValueError, match="PYFLOW_PARTITIONS.*one|device"):
        tf.Session()
    with pytest.raises(ValueError, match="partitions must be 'one'"):
        tf.Session(partitions=2)


def train(partitions):
    """Two layers on two devices, a loop between, momentum on the variables' devices."""
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        x = tf.constant(np.linspace(-1, 1, 24).reshape(6, 4).astype(np.float32))
        with on(1):
            w = tf.Variable(tf.random_normal([4, 4], seed=1), name="w")
        with on(2):
            v = tf.Variable(tf.random_normal([4, 1], seed=2), name="v")

        def body(i, h):
            with on(1):
                h = tf.tanh(tf.matmul(h, w))
            with on(2):
                return i + 1, h * 0.9
        _, h = tf.while_loop(lambda i, h: i < 3, body, [tf.constant(0), x])
        with on(2):
            loss = tf.reduce_mean(tf.square(tf.matmul(h, v) - 1.0))
        step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        with tf.Session(config=CONFIG, partitions=partitions) as sess:
            sess.run(tf.global_variables_initializer())
            return [sess.run([loss, step])[0] for _ in range(10)]


def test_training_through_a_loop_over_devices():
    one, device = train("one"), train("device")
    np.testing.assert_array_equal(one, device)
    assert device[-1] < 0.5 * device[0]


def test_nested_loops_with_many_iterations_mix_nothing_up():
    """Keys of (outer, inner) iterations must differ: 30 x 40 of them, ten in flight."""
    def outer(i, total):
        def inner(j, sub):
            with on(1):
                return j + 1, sub + tf.cast(i * 100 + j, tf.float64)
        sub = tf.while_loop(lambda j, s: j < 40, inner, [tf.constant(0), tf.zeros([], tf.float64)])
        with on(2):
            return i + 1, total + sub[1]
    with on(0):
        _, total = tf.while_loop(lambda i, t: i < 30, outer,
                                 [tf.constant(0), tf.zeros([], tf.float64)])
    want = float(sum(i * 100 + j for i in range(30) for j in range(40)))
    for threads in (1, 3):
        with session(threads=threads) as sess:
            assert sess.run(total) == want


def test_steps_at_once_are_isolated():
    with on(0):
        x = tf.placeholder(tf.float64, [])

    def body(i, v):
        with on(1):
            a = v + x
        with on(2):
            return i + 1, a * 0.5
    _, y = tf.while_loop(lambda i, v: i < 20, body, [tf.constant(0), x])
    wrong = []
    with session(threads=2) as sess:
        want = [sess.run(y, {x: k}) for k in range(8)]

        def work(k):
            wrong.extend(got for got in (sess.run(y, {x: k}) for _ in range(40)) if got != want[k])
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


# ---------------------------------------------------------------- what fails

@pytest.fixture
def stuck(forever):
    """A node on CPU:2 that never completes, and what waits for it on CPU:1."""
    with on(2):
        got = forever(tf.placeholder_with_default(1.0, []), name="take")
    with on(1):
        return tf.negative(got, name="reader")


@pytest.mark.alone
def test_the_real_error_wins_and_stops_every_partition(stuck):
    with on(0):
        bad = tf.gather(tf.constant([1.0, 2.0]), tf.placeholder_with_default(7, []), name="pick")
    with on(1):
        y = tf.add(stuck, bad)
    for threads in (1, 3):
        with session(threads=threads) as sess:
            for _ in range(20):
                started = clock()
                with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                    sess.run([y, tf.negative(bad)])
                assert clock() - started < 1.0, "nobody waited for the stuck node"
                assert caught.value.op.name == "pick" and "abort" not in str(caught.value)
                assert "CPU:0" in str(caught.value)


def test_an_error_in_an_iteration_of_a_loop():
    n = tf.placeholder(tf.int32, [])
    with on(1):
        table = tf.constant([1.0, 2.0, 3.0])

    def body(i, s):
        with on(1):
            x = tf.gather(table, i, name="pick")
        with on(2):
            return i + 1, s + x
    _, s = tf.while_loop(lambda i, s: i < n, body, [tf.constant(0), tf.constant(0.0)])
    with session(threads=2) as sess:
        for _ in range(30):
            assert sess.run(s, {n: 3}) == 6.0
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                sess.run(s, {n: 5})
            assert caught.value.op.name.endswith("pick")
        before = _executor.memory_stats()["in_use"]
        for _ in range(200):
            with pytest.raises(tf.errors.InvalidArgumentError):
                sess.run(s, {n: 5})
        assert _executor.memory_stats()["in_use"] - before < 4096, "what was under way is freed"


def test_the_deadline_names_who_waits_where(stuck):
    with session() as sess:
        with pytest.raises(tf.errors.DeadlineExceededError) as caught:
            sess.run(stuck, options=tf.RunOptions(timeout_in_ms=100))
        text = str(caught.value)
        assert re.search(r"take \(waiting.Forever\) of plugin '[^']+' on /job:localhost/replica:0/task:0/device:CPU:2", text)
        assert "take/_part_recv_0 (_Recv) on /job:localhost/replica:0/task:0/device:CPU:1" in text


def test_a_receive_that_nobody_sends_is_named():
    from pyflow.passes import partition
    from pyflow.passes.node import Graph, Node
    with session() as sess:
        first, second = sess._compiler.devices.names[:2]

        def constant(name):
            attrs = {"dtype": tf.float32, "value": np.ones([], np.float32)}
            return Node(name, "Const", attrs=attrs, device=first, types=(tf.float32,))
        _, recv = partition.pair(constant("never"), 0, second, 0)
        other = constant("lonely")
        compiled = sess._compiler.compile_nodes(Graph([other, recv]))
        assert len(compiled.graphs) == 2
        with pytest.raises(_executor.StepError, match=r"never/_recv_0 \(_Recv\) on .*CPU:1"):
            compiled.run([], contract.RunOptions(timeout_ms=100))


def test_close_ends_blocked_steps(stuck):
    sess = session()
    threading.Timer(0.2, sess.close).start()
    started = clock()
    with pytest.raises(tf.errors.CancelledError, match="session was closed"):
        sess.run(stuck)
    assert clock() - started < 5.0


def test_interrupt_ends_a_blocked_run(stuck):
    with session(threads=2) as sess:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            sess.run(stuck)


def test_endless_loops_end_at_the_deadline():
    def body(i):
        with on(1):
            return i * 1
    with on(0):
        endless = tf.while_loop(lambda i: i < 5, body, [tf.constant(0)])
    for threads in (1, 2):
        with session(threads=threads) as sess:
            with pytest.raises(tf.errors.DeadlineExceededError):
                sess.run(endless, options=tf.RunOptions(timeout_in_ms=100))


def test_py_func_on_every_device_runs_on_the_callers_thread():
    seen = []

    def call(x):
        seen.append(threading.get_ident())
        return x + np.float32(1)
    y = tf.constant(0.0)
    for k in range(3):
        with on(k):
            y = tf.reshape(tf.py_func(call, [y], tf.float32), [])
    with session(threads=3) as sess:
        assert sess.run(y) == 3.0
    assert set(seen) == {threading.get_ident()}


def test_more_partitions_than_threads_and_steps_at_once():
    """40 devices, each waits for the one before, in several steps at once on one thread each."""
    config = tf.ConfigProto(device_count={"CPU": 40})
    x = tf.placeholder(tf.float32, [])
    y = x
    for k in range(39, -1, -1):
        with on(k):
            y = y + 1.0
    results = [None] * 4
    with tf.Session(config=config, partitions="device", threads=1) as sess:
        def work(k):
            results[k] = [sess.run(y, {x: k}) for _ in range(20)]
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert results == [[40.0 + k] * 20 for k in range(4)]


def test_no_partition_runs_ahead():
    """CPU:0 counts and sends, CPU:1 only receives and is slower: what is under way is bounded."""
    turns, elements = 300, 1 << 14

    def body(i, total):
        with on(0):
            large = tf.fill([elements], tf.cast(i, tf.float32))
        with on(1):
            slow = large
            for _ in range(4):
                slow = tf.tanh(slow)
            total = total + tf.reduce_sum(slow)
        with on(0):
            return i + 1, total
    with on(0):
        i, total = tf.while_loop(lambda i, total: i < turns, body, [tf.constant(0), 0.0],
                                 parallel_iterations=4, name="loop")
    for op in tf.get_default_graph().get_operations():
        if op.name.startswith("loop/") and op.name.endswith("_1") and op.type in (
                "Enter", "Merge", "Switch", "Identity", "NextIteration", "Exit"):
            op._set_device("/device:CPU:1")
    for threads in (1, 2):
        with session(threads=threads) as sess:
            want = sess.run(total)
            before = _executor.memory_stats()["in_use"]
            _executor.reset_peak()
            assert sess.run(total) == want
            ahead = (_executor.memory_stats()["peak"] - before) / (4 * elements)
            assert ahead < 24, f"{ahead:.0f} tensors at once"


@pytest.mark.parametrize("partitions", ["one", "device"])
def test_a_variable_elsewhere_is_read_after_the_control_inputs(partitions):
    with on(0):
        v = tf.Variable(tf.zeros([1000]))
        x = tf.placeholder(tf.float32, [])
        assign = tf.assign(v, tf.fill([1000], x + tf.tanh(x) * 0.0))
    with tf.control_dependencies([assign]), on(1):
        read = tf.reduce_max(tf.identity(v._ref()))
        before = [n for n in tf.get_default_graph().get_operations() if n.type == "Identity"][-1]
        assert before.inputs[0].dtype._is_ref_dtype and before.control_inputs == [assign.op]
    with tf.Session(config=CONFIG, partitions=partitions, threads=2) as sess:
        sess.run(tf.global_variables_initializer())
        assert [sess.run(read, {x: k}) for k in range(20)] == list(range(20))
