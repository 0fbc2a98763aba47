"""Random graphs against the naive interpreter: a few of those of `long.py fuzz-graphs`, drawn by
hypothesis, so that what fails shrinks; and PYFLOW_SCHEDULE."""
import ctypes
import os
import random
import re
import subprocess
import sys

import hypothesis
import pytest
from hypothesis import strategies as st

import pyflow as tf
import graphs
import plugins_of_fuzz
import programs

SETTINGS = hypothesis.settings(
    max_examples=60, deadline=None, database=None, print_blob=True,
    suppress_health_check=list(hypothesis.HealthCheck))


@pytest.fixture(scope="module")
def fuzz(libraries):
    return graphs.Fuzz(libraries, accelerator=False)


@SETTINGS
@hypothesis.given(rng=st.randoms(use_true_random=False), way=st.integers(0, 10**6))
def test_equals_the_interpreter(fuzz, rng, way):
    fuzz.check(programs.Program(rng, fuzz.op), graphs.Way(random.Random(way), accelerator=False))


def test_with_accelerators_in_a_process_of_their_own(libraries):
    command = [sys.executable, graphs.__file__, "--count", "25", "--libraries", str(libraries)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "no difference" in done.stdout


def test_other_element_types_are_refused_or_run(libraries):
    command = [sys.executable, graphs.__file__, "--types", "--count", "50", "--libraries",
               str(libraries)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    refused, failed = map(int, re.search(r"(\d+) refused, (\d+) steps", done.stdout).groups())
    assert 10 < refused < 45 and failed > 5, done.stdout


def test_calls_of_functions_inlined_and_not(fuzz):
    """The same bits as without functions."""
    for seed in range(50):
        fuzz.check_calls(seed)
    assert 0 < fuzz.failing < 50


def test_a_difference_is_found(fuzz, monkeypatch):
    """The comparison notices a wrong value, a wrong error, and an error too many."""
    rules = graphs.interpreter.VALUES
    monkeypatch.setitem(rules, "FloorMod", lambda op, a, b: [a % b + 1])
    with pytest.raises(AssertionError):
        for seed in range(20):
            fuzz.check_seed(seed)


# ---------------------------------------------------------------- PYFLOW_SCHEDULE

def ladder(op):
    """Twenty asynchronous calls of which any may end first, and a note of each that ran."""
    x = tf.placeholder(tf.float32, [4])
    ends = []
    for k in range(10):
        y = op("Note")(op("Later")(x + k, us=37 * k % 200), id=k)
        ends.append(op("Note")(op("Later")(y, us=53 * k % 300), id=100 + k))
    return x, tf.add_n(ends)


@pytest.fixture
def order(fuzz, libraries, monkeypatch):
    """order(seed): what ran, in order, in two steps under this seed, and the last step's value."""
    notes = ctypes.CDLL(str(libraries / "libfuzz_kernels.so")).fuzz_notes
    notes.restype = ctypes.c_int64
    buffer = (ctypes.c_int64 * 1000)()
    with tf.Graph().as_default() as graph:
        x, y = ladder(fuzz.op)

    def run(seed):
        monkeypatch.setenv("PYFLOW_SCHEDULE", str(seed))
        steps = []
        notes(buffer, 1000)
        with tf.Session(graph=graph, threads=2) as session:
            for _ in range(2):
                value = session.run(y, {x: [0.0] * 4})
                steps.append(tuple(buffer[:notes(buffer, 1000)]))
        return steps, value.tolist()
    return run


def test_a_seed_gives_one_order(order):
    for seed in (1, 2, 12345):
        first = order(seed)
        assert [len(step) for step in first[0]] == [20, 20]
        for _ in range(4):
            assert order(seed) == first


def test_seeds_and_steps_differ_in_order_and_not_in_value(order):
    runs = [order(seed) for seed in range(8)]
    assert len({step for steps, _ in runs for step in steps}) == 16
    assert all(value == [45.0] * 4 for _, value in runs)


def test_a_seeded_session_has_one_thread(monkeypatch):
    monkeypatch.setenv("PYFLOW_SCHEDULE", "-1")
    with tf.Graph().as_default():
        tf.constant(0)
        with pytest.raises(ValueError, match="PYFLOW_SCHEDULE"):
            tf.Session()
        monkeypatch.setenv("PYFLOW_SCHEDULE", "7")
        with tf.Session(threads=4) as session:
            assert session._compiler.pool.threads == 1


def test_the_same_order_in_another_process(order, libraries, tmp_path):
    """What a failure needs to be replayed."""
    script = tmp_path / "again.py"
    script.write_text(
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import ctypes, pyflow as tf, plugins_of_fuzz, test_graphs\n"
        f"op = plugins_of_fuzz.load_kernels({str(libraries)!r})\n"
        "x, y = test_graphs.ladder(op)\n"
        "with tf.Session() as session:\n    session.run(y, {x: [0.0] * 4})\n"
        f"notes = ctypes.CDLL({str(libraries / 'libfuzz_kernels.so')!r}).fuzz_notes\n"
        "b = (ctypes.c_int64 * 1000)()\n"
        "print(*b[:notes(b, 1000)])\n")
    out = subprocess.check_output([sys.executable, str(script)], text=True,
                                  env={**os.environ, "PYFLOW_SCHEDULE": "77"})
    assert tuple(map(int, out.split())) == order(77)[0][0]
