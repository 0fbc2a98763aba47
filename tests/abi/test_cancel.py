"""Deadlines, Ctrl-C and close reach kernels that ask `cancelled`; calls are held while the host looks at
them; tensors that come before their receiver wait; plugins are stopped at the end (cancel/cancel.c)."""

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import timeit

import pytest
from quiet import clock

import pyflow as tf
from pyflow import _executor, plugins
from pyflow.python.framework import function

SOON = 0.2                              # seconds a kernel that asks may go on
PLUGIN = "com.example.cancel"
KINDS = ["Spin", "Expensive", "Lane", "Loop", "Thread", "Brief"]


@pytest.fixture(scope="module")
def library(build_plugin):
    path = build_plugin("cancel", "-O1")
    tf.load_op_library(path)
    return path


@pytest.fixture(autouse=True)
def graph(library):
    with tf.Graph().as_default() as graph:
        yield graph


def op(name, **attrs):
    return plugins.op("cancel." + name)(tf.constant(1.0), name="culprit", **attrs)


def after(seconds, what, *arguments):
    timer = threading.Timer(seconds, what, arguments)
    timer.start()
    return timer


def interrupted(session, fetch):
    """Seconds that a step takes to end of a Ctrl-C after 0.04 s, from another process: a brief kernel
    keeps the interpreter."""
    start = clock()
    with subprocess.Popen(["sh", "-c", f"sleep 0.04; kill -INT {os.getpid()}"]):
        with pytest.raises(KeyboardInterrupt):
            session.run(fetch)
        return clock() - start


def best(measure):
    """The best of up to five rounds: the process that sends the signal may get its turn late."""
    return min(measure() for _ in range(5))


# ---------------------------------------------------------------- who asks is told


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_deadline_ends_it(kind, threads):
    with tf.Session(threads=threads) as session:
        start = clock()
        with pytest.raises(tf.errors.DeadlineExceededError, match="culprit") as caught:
            session.run(op(kind), options=tf.RunOptions(timeout_in_ms=40))
        assert clock() - start < 0.04 + SOON
        assert PLUGIN in str(caught.value)


@pytest.mark.alone
@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_ends_it(kind):
    with tf.Session(threads=2) as session:
        fetch = op(kind)
        session.run(op(kind, ms=0))
        assert best(lambda: interrupted(session, fetch)) < 0.06 + SOON


@pytest.mark.alone
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "Brief"])    # that one keeps the interpreter
def test_close_ends_it(kind):
    session = tf.Session(threads=2)
    fetch = op(kind)
    start = clock()
    after(0.04, session.close)
    with pytest.raises(tf.errors.CancelledError):
        session.run(fetch)
    assert clock() - start < 0.04 + SOON


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
def test_in_a_loop(threads):
    _, y = tf.while_loop(lambda i, x: i < 1000, lambda i, x: (i + 1, op("Spin", ms=1)), [0, tf.constant(0.0)],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])
    with tf.Session(threads=threads) as session:
        start = clock()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(y, options=tf.RunOptions(timeout_in_ms=40))
        assert clock() - start < 0.04 + SOON


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_in_a_function_that_is_called(kind, threads):
    """The kernel's own step has no deadline; the step around it has."""
    called = function.Defun(tf.float32, func_name="f", noinline=True)(lambda x: op(kind) + x)
    y = called(1.0)
    with tf.Session(threads=threads) as session:
        start = clock()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(y, options=tf.RunOptions(timeout_in_ms=40))
        assert clock() - start < 0.04 + SOON
        assert best(lambda: interrupted(session, y)) < 0.06 + SOON


def test_one_that_asks_nobody_has_exceeded_its_deadline():
    with tf.Session(threads=1) as session:
        with pytest.raises(tf.errors.DeadlineExceededError, match="culprit.*" + PLUGIN):
            session.run(op("Nap", ms=60), options=tf.RunOptions(timeout_in_ms=20))
        assert session.run(op("Nap", ms=1), options=tf.RunOptions(timeout_in_ms=2000)) == 1


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
def test_callbacks_do_not_run_under_the_asking_kernels_lock(threads):
    """They would wait for ever for the lock that this kernel holds while it asks."""
    with tf.Session(threads=threads) as session:
        fetches = [op("Listen"), op("Locked")]
        start = clock()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(fetches, options=tf.RunOptions(timeout_in_ms=40))
        assert clock() - start < 0.04 + 2 * SOON


def test_sigusr1_names_it(capfd):
    with tf.Session(threads=1) as session:
        after(0.04, os.kill, os.getpid(), signal.SIGUSR1)
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(op("Spin"), options=tf.RunOptions(timeout_in_ms=120))
    assert f"running: culprit (cancel.Spin) of plugin '{PLUGIN}'" in capfd.readouterr().err


def test_other_threads_go_on_beside_a_kernel_that_does_not_say_it_is_brief():
    counted = usual = 0
    end = time.monotonic() + 0.08
    while time.monotonic() < end:           # turns of this loop beside nothing
        usual += 1
        time.sleep(0.001)
    with tf.Session(threads=1) as session:
        fetch = op("Nap", ms=80)
        thread = threading.Thread(target=session.run, args=(fetch,))
        thread.start()
        while thread.is_alive():
            counted += 1
            time.sleep(0.001)
    assert counted > usual / 4


@pytest.mark.alone
def test_asking_costs_nanoseconds():
    """No more than three additions in Python do, which take 10 ns each or more."""
    add = 1e9 * min(timeit.repeat("a + a + a + a", "a = 1000", number=10000, repeat=20)) / 10000
    with tf.Session(threads=1) as session:
        spent = min(session.run(op("Cost"), options=tf.RunOptions(timeout_in_ms=60000)) for _ in range(20))
    assert spent < 2 * add, f"{spent} ns, beside {add} ns"


# ---------------------------------------------------------------- held calls


@pytest.fixture
def between(library):
    """The plugin's function is called wherever the core has found a call by its ticket."""
    handle = ctypes.CDLL(library)
    _executor.between_ticket_and_use(ctypes.cast(handle.between, ctypes.c_void_p).value)
    yield handle
    _executor.between_ticket_and_use(0)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["OnCancel", "OffCancel", "Returns"])
def test_a_step_is_not_over_while_the_host_looks_at_its_call(between, kind, threads):
    """`done` comes between the look-up of the ticket and the use of the call."""
    with tf.Session(threads=threads) as session:
        assert session.run(op(kind)) == 1
        assert between.host_has_looked() == 1, "the call was completed, and freed, under the host's hands"


def test_done_of_a_blocking_kernel_by_another_thread():
    with tf.Session(threads=2) as session:
        many = [op("LaneDone") for _ in range(20)]
        for _ in range(10):
            assert set(session.run(many)) == {1}


# ---------------------------------------------------------------- transport


@pytest.mark.parametrize("threads", [1, 2])
def test_a_tensor_injected_before_the_steps_first_send_or_recv_waits(threads):
    with tf.Session(threads=threads) as session:
        early = op("Early")
        assert [session.run(early) for _ in range(20)] == [7] * 20


def test_injected_while_the_first_recv_is_under_way():
    with tf.Session(threads=2) as session:
        together = op("Together")
        assert {float(session.run(together)) for _ in range(300)} == {7}


def test_a_step_that_is_over_is_not_found():
    with tf.Session(threads=2) as session:
        session.run(op("Step"))
        assert session.run(op("Afterwards")) == 5, "PF_NOT_FOUND"


# ---------------------------------------------------------------- native, pf_infer.host, the end


def test_native_handles_and_the_host_of_a_shape_function():
    with tf.device("/device:ENDED:0"):
        y = op("Native")
    with tf.Session() as session:
        assert session.run(y) == 7
    assert op("Length").shape.as_list() == [1]


ENDS = """
    import os, sys, pyflow as tf
    from pyflow import plugins
    tf.load_op_library(sys.argv[1])
    os.write(1, b"loaded ")
    with tf.device("/device:ENDED:0"):
        native = plugins.op("cancel.Native")(tf.constant(1.0))
    length = plugins.op("cancel.Length")(tf.constant(1.0))
    session = tf.Session()
    session.run([native, length])
    if not os.fork():
        sys.exit(0)                         # a child stops nothing
    os.wait()
    if sys.argv[2] == "close":
        session.close()
    os.write(1, b"exit ")
"""
RUNNING = """
    import os, sys, threading, time, pyflow as tf
    from pyflow import plugins
    tf.load_op_library(sys.argv[1])
    spin = plugins.op("cancel.Spin")(tf.constant(1.0), ms=60000)
    threading.Thread(target=tf.Session().run, args=(spin,), daemon=True).start()
    time.sleep(0.1)
    os.write(1, b"exit ")
"""
RUNTIME = """
    import ctypes, importlib.resources, os, sys
    import pyflow as tf
    from pyflow import plugins
    tf.load_op_library(sys.argv[1])         # one host
    runtime = ctypes.CDLL(str(importlib.resources.files("pyflow") / "lib" / "libpyflow_rt.so"))
    why = ctypes.create_string_buffer(512)  # another
    assert runtime.pf_rt_plugin(sys.argv[1].encode(), why, ctypes.c_int64(512)) == 0, why.value
    os.write(1, b"exit ")
"""


def said_by(program, *arguments):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), *arguments], capture_output=True, text=True,
                          timeout=100, env={**os.environ, "PYFLOW_TEST_ENDS": "1", "PYFLOW_PLUGIN_PROBE": "0"})
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("how", ["close", "leave"])
def test_the_interpreters_end_closes_devices_and_stops_plugins_once(library, how):
    said = said_by(ENDS, library, how)
    assert said[:3] == ["start", "loaded", "open"]
    assert said[said.index("exit"):] == ["exit", "close", "stop"], said
    assert said.count("stop") == said.count("close") == 1


def test_a_step_that_still_runs_is_ended_first(library):
    assert said_by(RUNNING, library) == ["start", "exit", "stop"]


def test_every_host_of_a_process_stops_the_plugin_for_itself(library):
    assert said_by(RUNTIME, library) == ["start", "start", "exit", "stop", "stop"]
