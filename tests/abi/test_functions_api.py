"""The extension "pyflow.functions/1": a plugin's kernels and threads call functions of the graph
(functions/functions.c)."""

import collections
import ctypes
import gc
import importlib.resources
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from quiet import clock
from defining import defined

import pyflow as tf
from pyflow import _executor, plugins

CANCELLED, INVALID, LATE = 1, 3, 4
NONE, AT_ONCE, LATER, AFTER = range(4)          # when `calls` cancels
WAYS = {"within": ("Call", {}), "not within": ("Call", {"within": False}),
        "found by init": ("Call", {"early": True}), "on the lane": ("CallSlowly", {}),
        "in compute": ("CallHere", {})}
Told = collections.namedtuple("Told", "ok statuses values text")


@pytest.fixture(scope="module")
def path(build_plugin):
    return build_plugin("functions", "-O1")


@pytest.fixture(scope="module")
def plugin(path):
    tf.load_op_library(path)
    return ctypes.CDLL(path)


@pytest.fixture(autouse=True)
def graph(plugin):
    """A graph; afterwards nothing of its functions is left."""
    before = host_bytes()
    with tf.Graph().as_default() as graph:
        yield graph
    del graph
    plugin.forget(0)
    assert settled(plugin.alive) and settled(plugin.gates_waiting)
    assert settled(lambda: host_bytes() - before > 0)


def host_bytes():
    gc.collect()
    return _executor.memory_stats()["in_use"]


def settled(left):
    """True when nothing is left: what is under way may need a moment to end."""
    until = time.monotonic() + 5
    while left() and time.monotonic() < until:
        time.sleep(0.01)
    return not left()


def op(name):
    return plugins.op("functions." + name)


def call(args, types, way="within", f="f", **attrs):
    kernel, more = WAYS[way]
    return op(kernel)([tf.convert_to_tensor(a) for a in args], U=types, f=f, **more, **attrs)


def calls(plugin, n=1, types=(tf.float32,), threads=1, stream=0, timeout_ms=0, when=NONE):
    """n calls of the kept function by threads of the plugin's own; float argument i for the i-th."""
    codes = np.array([t.as_datatype_enum if t else 0 for t in types] + [0], np.int32)
    statuses, values = np.zeros(18, np.int64), np.zeros(n, np.float32)
    text = ctypes.create_string_buffer(400)
    status = plugin.calls(
        0, threads, ctypes.c_int64(n), codes.ctypes.data_as(ctypes.c_void_p), len(types),
        ctypes.c_int64(stream), ctypes.c_int64(timeout_ms * 10**6), when,
        statuses.ctypes.data_as(ctypes.c_void_p), values.ctypes.data_as(ctypes.c_void_p), text)
    assert status == 0, "calls do not end" if status < 0 else "`done` came more than once"
    found = {code: int(k) for code, k in enumerate(statuses) if k}
    assert sum(found.values()) == n
    return Told(found.get(0, 0), found, values, text.value.decode())


def keep(session, f="f", **attrs):
    session.run(op("Keep")(f=f, **attrs))


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_a_kernel_calls(way, threads):
    """A tiny function, one that lasts, one with a loop and a call of its own; none and many arguments."""
    @defined(tf.float32, name="tiny")
    def tiny(x):
        return x * 2.0

    @defined(tf.float32, tf.int32, name="looped")
    def looped(x, n):
        _, x = tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tiny(x)), [0, x])
        return x, tf.as_string(n)

    @defined(name="nothing")
    def nothing():
        return tf.constant([1, 2], tf.int64)

    @defined(*[tf.float32] * 20, name="many")
    def many(*xs):
        return [x + k for k, x in enumerate(xs)]
    with tf.Session(threads=threads) as session:
        fetches = [call([3.0], [tf.float32], way, "tiny"),
                   call([3.0, 10], [tf.float32, tf.string], way, "looped"),
                   call([], [tf.int64], way, "nothing"),
                   call([float(k) for k in range(20)], [tf.float32] * 20, way, "many")]
        for _ in range(3):
            a, b, c, d = session.run(fetches)
            assert a == [6.0] and b == [3.0 * 1024, b"10"] and c[0].tolist() == [1, 2]
            assert d == [2.0 * k for k in range(20)]


@pytest.mark.parametrize("threads", [1, 2])
def test_tensors_of_all_kinds(threads):
    """Strings, handles of variables, tensors that are an input."""
    v = tf.get_variable("v", [2], initializer=tf.zeros_initializer(), use_resource=True)

    @defined(tf.string, tf.resource, tf.float32)
    def f(text, handle, x):
        with tf.control_dependencies([tf.raw_ops.AssignAddVariableOp(resource=handle, value=x)]):
            return tf.strings.join([text, "!"]), handle, tf.identity(x)
    text, handle, x = call([["a", "long" * 20], v.handle, [1.0, 2.0]],
                           [tf.string, tf.resource, tf.float32])
    read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
    with tf.Session(threads=threads) as session:
        session.run(v.initializer)
        for k in (1, 2):
            words, value, same = session.run([text, read, x])
            assert words.tolist() == [b"a!", b"long" * 20 + b"!"] and same.tolist() == [1, 2]
            assert value.tolist() == [k, 2 * k]


@pytest.mark.parametrize("threads", [1, 2])
def test_functions_that_ask_for_functions_while_they_are_compiled(threads):
    """init of a kernel in f's body asks for g; in g's for g itself: the recursion ends."""
    @defined(tf.float32, tf.int32, name="g")
    def g(x, n):
        return tf.cond(n < 1, lambda: x,
                       lambda: call([x + 1.0, n - 1], [tf.float32], "found by init", "g")[0])

    @defined(tf.float32)
    def f(x):
        return call([x, 40], [tf.float32], "found by init", "g")[0]
    with tf.Session(threads=threads) as session:
        assert session.run(call([0.5], [tf.float32])) == [40.5]
        assert session.run(call([1.5], [tf.float32])) == [41.5]


def test_in_branches_loops_and_functions_that_run_as_calls():
    @defined(tf.float32, name="f")
    def f(x):
        return x * 2.0

    @defined(tf.float32, name="outer", noinline=True)
    def outer(x):
        return call([x], [tf.float32])[0] + 1.0
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: call([3.0], [tf.float32])[0], lambda: outer(3.0))
    _, z = tf.while_loop(lambda i, x: i < 10, lambda i, x: (i + 1, call([x], [tf.float32])[0]),
                         [0, 1.0], shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])
    with tf.Session(threads=2) as session:
        assert session.run([y, z], {p: True}) == [6.0, 1024.0]
        assert session.run([y, z], {p: False}) == [7.0, 1024.0]


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("way", WAYS)
def test_what_a_kernel_is_told(way):
    @defined(tf.float32, name="checked")
    def checked(x):
        return tf.check_numerics(x, "found", name="look")

    @defined(tf.float32, name="unknown_op")
    def unknown(x):
        return tf.raw_ops.Reshape(tensor=x, shape=tf.constant([7, 7]))
    with tf.Session(threads=2) as session:
        for f, args, types, code, text in [
                ("nowhere", [1.0], [tf.float32], tf.errors.NotFoundError, "nowhere"),
                ("checked", [1], [tf.float32], tf.errors.InvalidArgumentError,
                 "function 'checked': argument 0 is float, but what was given is int32"),
                ("checked", [1.0], [tf.int32], tf.errors.InvalidArgumentError, "another type than"),
                ("checked", [1.0], [tf.float32] * 2, tf.errors.InvalidArgumentError, "has 1 results"),
                ("checked", [float("nan")], [tf.float32], tf.errors.InvalidArgumentError,
                 r"in node 'checked/look' \(op CheckNumerics\): found"),
                ("unknown_op", [1.0], [tf.float32], tf.errors.InvalidArgumentError, "in node '.*Reshape")]:
            with pytest.raises(code, match=text):
                session.run(call(args, types, way, f, name="here"))
        assert session.run(call([2.0], [tf.float32], way, "checked")) == [2.0]


def test_an_argument_too_few():
    defined(tf.float32, tf.float32)(lambda x, y: x + y)
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError,
                           match="'here'.*'f' takes 2 arguments, argument 1 was not given"):
            session.run(call([1.0, 2.0], [tf.float32], forgets=True, name="here"))


def test_what_a_thread_is_told(plugin):
    defined(tf.float32, tf.int32)(lambda x, n: tf.check_numerics(x, "found", name="look") + tf.cast(
        tf.check_numerics(tf.cast(n, tf.float32) / 0.0, "wild", name="see"), tf.float32))
    with tf.Session() as session:
        keep(session)
        codes = (ctypes.c_int32 * 2)()
        assert plugin.arguments(0, codes) == 2 and list(codes) == [1, 3]
        assert plugin.mistakes() == 15
        for types, text in [((tf.float32, tf.float32), "argument 1 is int32, but what was given is float"),
                            ((tf.string, tf.int32), "argument 0 is float, but what was given is string"),
                            ((tf.float32, None), "takes 2 arguments, argument 1 was not given"),
                            ((tf.float32, tf.int32), "in node 'f/see' (op CheckNumerics): wild")]:
            told = calls(plugin, 3, types)
            assert told.statuses == {INVALID: 3} and text in told.text, told


# ---------------------------------------------------------------- from threads, after the step, after the session


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("lasts", [False, True])
def test_ten_thousand_calls_under_way_at_once(plugin, threads, lasts):
    """By two threads of the plugin's, of a function that runs at once and of one that waits."""
    @defined(tf.float32)
    def f(x):
        return op("Gate")(x) + 1.0 if lasts else x + 1.0
    with tf.Session(threads=threads) as session:
        keep(session)
        opener = threading.Thread(target=open_all, args=(plugin, 10000))
        if lasts:
            opener.start()
        told = calls(plugin, 10000, threads=2)
        if lasts:
            opener.join()
        assert told.ok == 10000
        np.testing.assert_array_equal(told.values, np.arange(10000) + 1)


def open_all(plugin, n):
    until = time.monotonic() + 30
    while plugin.gates_waiting() < n and time.monotonic() < until:
        time.sleep(0.001)
    plugin.open_gates()


def test_kept_after_the_plan_and_the_graph(plugin, graph):
    """The function needs neither the step nor the plan it was found in."""
    defined(tf.float32)(lambda x: x * x + 1.0)
    with tf.Session(threads=2) as session:
        keep(session)
        session._steps.clear()
        gc.collect()
        assert calls(plugin, 4).values.tolist() == [1, 2, 5, 10]


def test_kept_by_init_of_a_kernel_in_a_body(plugin):
    """There the library holds the plan whose kernel holds the function: no circle."""
    defined(tf.float32)(lambda x: x + 0.5)

    @defined(name="finds", noinline=True)
    def finds():
        with tf.control_dependencies([op("Keep")(f="f", early=True)]):
            return tf.constant(1)
    with tf.Session(threads=2) as session:
        assert session.run(finds()) == 1
        assert calls(plugin, 3).values.tolist() == [0.5, 1.5, 2.5]
    del session
    gc.collect()
    told = calls(plugin, 2)
    assert told.statuses == {CANCELLED: 2} and "the session was closed" in told.text


def test_held_by_a_resource_of_the_session():
    """State -> resource -> function -> library -> state ends when the session is closed."""
    defined(tf.float32)(lambda x: x + 0.5)
    with tf.Session() as session:
        session.run(op("Hold")(f="f"))


@pytest.mark.parametrize("lasts", [False, True])
def test_after_the_session_was_closed(plugin, lasts):
    defined(tf.float32)(lambda x: op("Gate")(x) + 1.0 if lasts else x + 1.0)
    session = tf.Session(threads=2)
    keep(session)
    session.close()
    for _ in range(2):
        told = calls(plugin, 5)
        assert told.statuses == {CANCELLED: 5}
        assert "'f' cannot be called any more: the session was closed" in told.text
        del session
        session = None
        gc.collect()


@pytest.mark.parametrize("threads", [1, 2])
def test_closed_while_calls_are_under_way(plugin, threads):
    defined(tf.float32)(lambda x: op("Gate")(x) + 1.0)
    session = tf.Session(threads=threads)
    keep(session)

    def close():
        while plugin.gates_waiting() < 50:
            time.sleep(0.001)
        session.close()
    closer = threading.Thread(target=close)
    closer.start()
    told = calls(plugin, 200)
    closer.join()
    assert told.statuses == {CANCELLED: 200}


def test_closed_while_threads_begin_calls(plugin):
    """Each call gives its value, or ends with the session."""
    defined(tf.float32)(lambda x: tf.matmul(x[tf.newaxis, tf.newaxis], [[2.0]]) + 1.0)
    for delay in (0.0, 0.001, 0.005):
        session = tf.Session(threads=2)
        keep(session)
        closer = threading.Timer(delay, session.close)
        closer.start()
        told = calls(plugin, 3000, threads=2)
        closer.join()
        assert set(told.statuses) <= {0, CANCELLED}
        expected = 2.0 * np.arange(3000) + 1.0
        assert (told.values == expected).sum() == told.ok == np.count_nonzero(told.values)


# ---------------------------------------------------------------- cancellation, deadlines


@pytest.mark.parametrize("threads", [1, 2])
def test_cancelled_while_it_runs(plugin, threads):
    defined(tf.float32)(lambda x: op("Gate")(x) + 1.0)
    with tf.Session(threads=threads) as session:
        keep(session)
        assert calls(plugin, 20, when=LATER).statuses == {CANCELLED: 20}
        opener = threading.Thread(target=open_all, args=(plugin, 5))
        opener.start()
        assert calls(plugin, 5).ok == 5
        opener.join()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [1, 500])
def test_cancelled_at_once_and_when_it_is_over(plugin, threads, n):
    """A call gives its value or is cancelled, once."""
    defined(tf.float32)(lambda x: op("Gate")(x) + 1.0, )
    defined(tf.float32, name="brief")(lambda x: tf.add_n([tf.while_loop(
        lambda y: y < 3.0, lambda y: y + 1.0, [x])] * 2))
    with tf.Session(threads=threads) as session:
        keep(session)
        assert calls(plugin, n, threads=2, when=AT_ONCE).statuses == {CANCELLED: n}
        keep(session, "brief")
        assert set(calls(plugin, n, threads=2, when=AT_ONCE).statuses) <= {0, CANCELLED}
        told = calls(plugin, n, threads=2, when=AFTER)
        assert told.ok == n
        np.testing.assert_array_equal(told.values, 2.0 * np.maximum(np.arange(n), 3))


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
def test_a_calls_own_deadline(plugin, threads):
    defined(tf.float32)(lambda x: op("Gate")(x) + 1.0)
    defined(tf.float32, name="brief")(lambda x: x + 1.0)
    with tf.Session(threads=threads) as session:
        keep(session)
        wall, start = time.monotonic(), clock()
        told = calls(plugin, 10, timeout_ms=40)
        assert told.statuses == {LATE: 10} and "Timed out" in told.text
        assert 0.03 < time.monotonic() - wall and clock() - start < 1.0
        keep(session, "brief")
        assert calls(plugin, 10, timeout_ms=60000).ok == 10


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_the_steps_and_the_calls_deadline_in_a_kernel(way, threads):
    defined(tf.float32)(lambda x: op("Gate")(x) + 1.0)
    with tf.Session(threads=threads) as session:
        start = clock()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(call([1.0], [tf.float32], way), options=tf.RunOptions(timeout_in_ms=40))
        with pytest.raises(tf.errors.DeadlineExceededError, match="here"):
            session.run(call([1.0], [tf.float32], way, timeout_ms=40, name="here"))
        assert clock() - start < 2.0


@pytest.mark.parametrize("way", WAYS)
def test_close_ends_a_kernels_call(plugin, way):
    defined(tf.float32)(lambda x: op("Gate")(x) + 1.0)
    session = tf.Session(threads=2)
    fetch = call([1.0], [tf.float32], way)

    def close():
        while plugin.gates_waiting() < 1:
            time.sleep(0.001)
        session.close()
    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(tf.errors.CancelledError):
        session.run(fetch)
    closer.join()


def test_another_nodes_error_ends_a_kernels_call(plugin):
    """A step that fails elsewhere cancels what its kernels called."""
    defined(tf.float32)(lambda x: op("Gate")(x) + 1.0)
    x = tf.placeholder(tf.float32, [])
    with tf.Session(threads=2) as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
            session.run([call([1.0], [tf.float32]), tf.check_numerics(x, "bad")], {x: np.nan})


# ---------------------------------------------------------------- random streams


def test_the_same_stream_gives_the_same_numbers(plugin):
    tf.set_random_seed(3)

    @defined(tf.float32)
    def f(x):
        drawn = tf.random_uniform([], seed=1) + tf.random_uniform([], seed=7)
        _, sums = tf.while_loop(
            lambda i, s: i < 3, lambda i, s: (i + 1, s + tf.random_normal([], seed=2)), [0, drawn])
        return sums + 0.0 * x

    def draw(stream, n=6):
        told = calls(plugin, n, stream=stream)
        assert told.ok == n
        return told.values.tolist()
    with tf.Session(threads=2) as session:
        keep(session)
        one, other, free = draw(5), draw(6), draw(0)
        assert len(set(one)) == len(set(other)) == 1 and one != other
        assert len(set(free)) == 6
        assert draw(5) == one
        kernel = [call([1.0], [tf.float32], way, stream=5) for way in WAYS]
        assert {float(v[0]) for v in session.run(kernel)} == {float(np.float32(one[0]))}
    with tf.Session(threads=1) as session:
        keep(session)
        assert draw(5) == one


# ---------------------------------------------------------------- from C


FREED = """
import ctypes, sys
rt, why, model = ctypes.CDLL(sys.argv[1]), ctypes.create_string_buffer(500), ctypes.c_void_p()
room, output = ctypes.c_int64(500), (ctypes.c_void_p * 1)()
for path in sys.argv[2:4]:
    assert rt.pf_rt_plugin(path.encode(), why, room) == 0, why.value
data = open(sys.argv[4], "rb").read()
ends = [(ctypes.c_char_p * 2)(name, None) for name in (None, b"y")]
assert rt.pf_rt_load(data, ctypes.c_int64(len(data)), *ends, 2, ctypes.byref(model), why, room) == 0, why.value
assert rt.pf_rt_run(model, None, output, why, room) == 0, why.value
plugin, values, text = ctypes.CDLL(sys.argv[3]), (ctypes.c_float * 3)(), ctypes.create_string_buffer(400)
def call():
    told = (ctypes.c_int64 * 18)()
    assert plugin.calls(0, 1, ctypes.c_int64(3), (ctypes.c_int32 * 1)(1), 1, ctypes.c_int64(0), ctypes.c_int64(0), 0,
                        told, values, text) == 0
    return list(told)[:2]
print(call(), list(values))
rt.pf_rt_free(model)
print(call(), text.value.decode())
plugin.forget(0)
print(plugin.alive())
"""


def test_in_the_c_runtime(path, graph, tmp_path):
    """A model's function, found and kept by a plugin's kernels, is called until the model is freed."""
    defined(tf.float32)(lambda x: x * 2.0)
    with tf.control_dependencies([op("Keep")(f="f")]):
        tf.identity(call([1.5], [tf.float32])[0], name="y")
    (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    runtime = importlib.resources.files("pyflow") / "lib" / "libpyflow_rt.so"
    cpu = importlib.resources.files("pyflow_cpu") / "libpyflow_cpu.so"
    done = subprocess.run([sys.executable, "-c", FREED, str(runtime), str(cpu), path, str(tmp_path / "graph.pb")],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [
        "[3, 0] [0.0, 2.0, 4.0]",
        "[0, 3] function 'f' cannot be called any more: the session was closed", "0"]


def test_tensors_and_handles_outside_a_call(plugin):
    shares, handle = op("Handles")([tf.constant([1.5, 2.5]), tf.constant(["a", "bc"])])
    again, _ = op("Handles")([handle, shares[1]])
    with tf.Session() as session:
        numbers, words = session.run([shares[0], again[1]])
    assert numbers.tolist() == [1.5, 2.5] and words.tolist() == [b"a", b"bc"]
    assert settled(plugin.boxes_alive)
