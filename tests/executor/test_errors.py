"""Failures: which node, op, device and line they name, inside loops and py_func too; and that the session goes on."""
import threading

import numpy as np
import pytest

import pyflow as tf


def failing_gather(index):
    return tf.gather(tf.constant([1.0, 2.0, 3.0]), index, name="pick")


def message_of(session, fetch, feeds=None, kind=tf.errors.InvalidArgumentError):
    with pytest.raises(kind) as caught:
        session.run(fetch, feeds)
    return caught.value, str(caught.value)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_inside_a_loop_names_node_and_line(threads):
    n = tf.placeholder(tf.int32, [])
    loop = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + failing_gather(i)), [0, 0.0])
    with tf.Session(threads=threads) as session:
        assert session.run(loop[1], {n: 3}) == 6.0
        error, text = message_of(session, loop[1], {n: 5})
        assert error.op.name.startswith("while/pick")
        assert "while/pick" in text and "Gather" in text and "test_errors.py" in text and "failing_gather" in text
        assert "[0, 3)" in text and "3" in text
        assert session.run(loop[1], {n: 2}) == 3.0, "the session goes on"


def test_an_error_inside_a_branch_that_does_not_run_is_no_error():
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: failing_gather(7), lambda: tf.constant(1.0))
    with tf.Session() as session:
        assert session.run(y, {p: False}) == 1.0
        message_of(session, y, {p: True})


def test_the_device_is_named():
    with tf.device("/cpu:0"):
        y = failing_gather(9)
    with tf.Session() as session:
        assert "CPU:0" in message_of(session, y)[1]


def test_an_unfed_placeholder_says_so():
    x = tf.placeholder(tf.float32, [None, 3], name="images")
    with tf.Session() as session:
        text = message_of(session, x * 2.0)[1]
    assert "You must feed a value for placeholder tensor 'images' with dtype float and shape [?,3]" in text


def test_an_uninitialised_variable_names_itself_and_its_reader():
    v = tf.Variable(1.0, name="weight")
    y = tf.multiply(v, 2.0, name="doubled")
    r = tf.get_variable("resource", [], use_resource=True)
    with tf.Session() as session:
        text = message_of(session, y, kind=tf.errors.FailedPreconditionError)[1]
        assert "uninitialized value weight" in text and "weight/read" in text and "test_errors.py" in text
        assert "resource" in message_of(session, r + 1.0, kind=tf.errors.FailedPreconditionError)[1]


def test_py_func_may_run_a_session():
    inner_graph = tf.Graph()
    with inner_graph.as_default():
        x = tf.placeholder(tf.float32, [])
        square = x * x
    inner = tf.Session(graph=inner_graph)
    calls = []

    def call(value):
        calls.append(threading.get_ident())
        return np.float32(inner.run(square, {x: value}))
    outer = tf.py_func(call, [tf.constant(3.0)], tf.float32)
    nested = tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + tf.reshape(tf.py_func(call, [s], tf.float32), [])),
                           [0, 1.0])[1]
    for threads in (1, 3):
        with tf.Session(threads=threads) as session:
            assert session.run(outer) == 9.0
            assert session.run(nested) == 1806.0
    assert set(calls) == {threading.get_ident()}, "on the thread that called run"


def test_many_py_funcs_on_many_threads_hold_no_pool_thread():
    x = tf.placeholder(tf.float32, [])
    ys = [tf.py_func(lambda v, k=k: np.float32(v + k), [x], tf.float32) for k in range(30)]
    total = tf.add_n([tf.reshape(y, []) for y in ys])
    with tf.Session(threads=2) as session:
        results = [None] * 6

        def work(k):
            results[k] = [session.run(total, {x: k}) for _ in range(10)]
        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert results == [[30.0 * k + 435.0] * 10 for k in range(6)]


@pytest.mark.parametrize("raised, kind", [(ValueError("v"), tf.errors.InvalidArgumentError), (KeyError("k"), tf.errors.UnknownError),
                                          (StopIteration("end"), tf.errors.OutOfRangeError),
                                          (MemoryError("m"), tf.errors.ResourceExhaustedError)])
def test_what_py_func_raises_arrives(raised, kind):
    def fail(x):
        raise raised
    y = tf.py_func(fail, [tf.constant(1.0)], tf.float32)
    with tf.Session() as session:
        text = message_of(session, y, kind=kind)[1]
    assert type(raised).__name__ in text and "test_errors.py" in text and ", in fail" in text


def test_py_func_with_wrong_results_is_told():
    wrong_type = tf.py_func(lambda x: np.float64(x), [tf.constant(1.0)], tf.float32)
    wrong_count = tf.py_func(lambda x: (x, x), [tf.constant(1.0)], [tf.float32])
    with tf.Session() as session:
        assert "float64" in message_of(session, wrong_type)[1]
        assert "2" in message_of(session, wrong_count)[1]


def test_a_cycle_or_nonsense_graph_is_refused_by_the_core():
    from pyflow import _executor
    pool, state = _executor.default_pool(1), _executor.State("t")

    def compile_text(*nodes):
        graph = tf.GraphDef()
        for name, op, inputs, attrs in nodes:
            node = graph.node.add(name=name, op=op, input=inputs)
            for key, value in attrs.items():
                node.attr[key].type = value
        _executor.compile(graph.SerializeToString(), {}, state, pool)
    with pytest.raises(_executor.StepError, match="cycle"):
        compile_text(("a", "Identity", ["b"], {"T": 1}), ("b", "Identity", ["a"], {"T": 1}))
    with pytest.raises(_executor.StepError, match="Teleport"):
        compile_text(("a", "Teleport", [], {}))
    with pytest.raises(_executor.StepError, match="'nowhere'|nowhere"):
        compile_text(("a", "Identity", ["nowhere"], {"T": 1}))
    with pytest.raises(_executor.StepError):
        compile_text(("a", "NextIteration", ["b"], {"T": 1}), ("b", "NoOp", [], {}))
    with pytest.raises(_executor.StepError, match="loop"):
        compile_text(("c", "Placeholder", [], {"dtype": 1}), ("a", "Exit", ["c"], {"T": 1}))
