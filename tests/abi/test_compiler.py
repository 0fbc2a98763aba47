"""pyflow.compiler/1: a plugin (compiler/) claims groups of element-wise nodes and runs each as one
kernel.

The same fetches are run with the compiler on and off; what comes out must be equal bit for bit, and
equal to NumPy.
"""

import gc
import os
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyflow as tf
from pyflow import _executor, plugins
from pyflow.session import contract

# The compiler is to see the nodes: pyflow's own element-wise programs would be made before.
PLAIN = tf.ConfigProto()
PLAIN.graph_options.rewrite_options.remapping = 2       # RewriterConfig.OFF
ON, FAILS, RUN_FAILS, COMPILED, DECLINED, RELEASED = range(6)
EXAMPLES = int(os.environ.get("PYFLOW_TEST_EXAMPLES", 50))


@pytest.fixture(scope="module", autouse=True)
def library(build_plugin):
    flags = ["-O3", "-march=native", "-fno-trapping-math", "-fno-math-errno"]
    tf.load_op_library(build_plugin("compiler", *flags))
    yield
    knob(ON, 0)  # the other tests of this process run as if it were not there


def knob(what, value=-1):
    with tf.Graph().as_default(), tf.Session(config=PLAIN) as session:
        return int(session.run(plugins.op("jit.Knob")(what=what, set=value)))


@pytest.fixture(autouse=True)
def graph():
    knob(ON, 1)
    with tf.Graph().as_default() as graph:
        yield graph


PLANS = []  # newest last


@pytest.fixture(scope="module", autouse=True)
def watch_plans():
    """Keeps every plan that a session compiles, for a look inside."""
    real = _executor.compile

    def compile(*arguments):
        PLANS.append(real(*arguments))
        return PLANS[-1]

    _executor.compile = compile
    yield
    _executor.compile = real
    PLANS.clear()


def counted(session, fetches, feeds=None):
    """Results, and the plan behind them."""
    del PLANS[:]
    found = session.run(fetches, feeds)
    return found, PLANS[-1]


def both(fetches, feeds=None, repeat=2, **config):
    """Runs with and without the compiler; returns (results, grouped nodes, instructions saved)."""
    out = []
    for on in (0, 1):
        knob(ON, on)
        with tf.Session(config=PLAIN, **config) as session:
            found, plan = counted(session, fetches, feeds)
            for _ in range(repeat - 1):
                found = session.run(fetches, feeds)
            out.append((found, plan.counts()))
    (plain, before), (fused, after) = out
    assert before["groups"] == 0
    for a, b in zip(
        np.atleast_1d(plain) if not isinstance(plain, list) else plain,
        np.atleast_1d(fused) if not isinstance(fused, list) else fused,
    ):
        np.testing.assert_array_equal(a, b)
    return fused, after["grouped"], before["instructions"] - after["instructions"]


def chain(x, length):
    y = x
    for k in range(length):
        y = [y + 1.0, y * x, tf.maximum(y, x), -y, tf.nn.relu(y) - 0.5][k % 5]
    return y


VALUE = np.linspace(-2, 2, 60, dtype=np.float32).reshape(6, 10)


def test_a_chain_becomes_one_instruction():
    x = tf.placeholder(tf.float32, [6, 10])
    found, grouped, saved = both(chain(x, 20), {x: VALUE})
    assert grouped >= 20 and saved == grouped - 1
    with tf.Session(config=PLAIN) as session:
        _, plan = counted(session, chain(x, 3), {x: VALUE})
        assert "Group(" in plan.explain() and "by test.jit" in plan.explain()
        stats = {}
        plan.run([VALUE], contract.RunOptions(stats=stats))
        assert stats["kernels"] == 2, "the group and the fetch"


def test_results_inside_a_group_are_fetched_and_read():
    x = tf.placeholder(tf.float32, [6, 10])
    a = x + 1.0
    b = a * a
    c = tf.nn.relu(b - 2.0)
    total = tf.reduce_sum(b)
    (found_a, found_c, found_total), grouped, _ = both([a, c, total], {x: VALUE})
    assert grouped == 4
    np.testing.assert_array_equal(found_a, VALUE + 1)
    np.testing.assert_allclose(found_total, np.sum((VALUE + 1) ** 2), rtol=1e-6)


def test_a_path_out_and_back_divides_a_group():
    x = tf.placeholder(tf.float32, [6, 10])
    a = x + 1.0
    b = a * 2.0
    c = b + outside(b)
    d = c * a
    found, grouped, _ = both(d, {x: VALUE})
    assert grouped == 4
    with tf.Session(config=PLAIN) as session:
        assert counted(session, d, {x: VALUE})[1].counts()["groups"] == 2


def test_broadcasting_and_unknown_shapes_are_left_alone():
    x, u = tf.placeholder(tf.float32, [6, 10]), tf.placeholder(tf.float32, [None, 10])
    _, grouped, _ = both(
        (x + tf.constant(np.ones(10, np.float32))) * tf.constant(VALUE[:1]), {x: VALUE}
    )
    assert grouped == 0
    _, grouped, _ = both((u + 1.0) * 2.0, {u: VALUE})
    assert grouped == 0


def test_shapes_do_not_mix():
    x, s = tf.placeholder(tf.float32, [6, 10]), tf.placeholder(tf.float32, [])
    scale = tf.square(s) + 1.0
    found, grouped, _ = both(tf.nn.relu(x * scale) - scale, {x: VALUE, s: 0.5})
    assert grouped == 5
    np.testing.assert_array_equal(found, np.maximum(VALUE * np.float32(1.25), 0) - np.float32(1.25))


def test_control_edges():
    x = tf.placeholder(tf.float32, [6, 10])
    v = tf.Variable(np.zeros(3, np.float32))
    bump = tf.assign_add(v, [1.0, 1.0, 1.0])
    a = x + 1.0
    with tf.control_dependencies([bump]):
        b = a * 2.0
    with tf.control_dependencies([b.op]):
        after = tf.identity(v.read_value() if hasattr(v, "read_value") else v)
        c = b - 1.0
    for on in (0, 1):
        knob(ON, on)
        with tf.Session(config=PLAIN) as session:
            session.run(tf.global_variables_initializer())
            found, seen = session.run([c, after], {x: VALUE})
            np.testing.assert_array_equal(found, (VALUE + 1) * 2 - 1)
            assert seen.tolist() == [1, 1, 1]


def test_a_group_run_for_its_control_edge_only():
    x = tf.placeholder(tf.float32, [6, 10])
    b = (x + 1.0) * 2.0
    with tf.control_dependencies([b]):
        flag = tf.constant(3)
    assert both(flag, {x: VALUE})[1] == 2


def test_conds_and_dead_groups():
    x, p = tf.placeholder(tf.float32, [6, 10]), tf.placeholder(tf.bool, [])
    before = x * 2.0 + 1.0
    y = tf.cond(p, lambda: tf.nn.relu(before - 1.0) * 3.0, lambda: -(before * before) + 0.25)
    z = (y + before) * 0.5
    for flag in (True, False):
        w = VALUE * 2 + 1
        want = np.maximum(w - 1, 0) * 3 if flag else -(w * w) + np.float32(0.25)
        found, grouped, _ = both(z, {x: VALUE, p: flag})
        np.testing.assert_array_equal(found, (want + w) * np.float32(0.5))
        assert grouped >= 8
    q = tf.placeholder(tf.bool, [])
    nested = (
        tf.cond(p, lambda: tf.cond(q, lambda: x + 1.0 + 1.0, lambda: x * 2.0 * 2.0), lambda: -(-x))
        * 1.5
        + 1.0
    )
    for a in (True, False):
        for b in (True, False):
            want = (VALUE + 1 + 1 if b else VALUE * 4) if a else VALUE
            found = both(nested, {x: VALUE, p: a, q: b})[0]
            np.testing.assert_array_equal(found, want * np.float32(1.5) + 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_while_loops(threads):
    x = tf.placeholder(tf.float32, [6, 10])

    def body(i, a, b):
        return i + 1, tf.nn.relu(a * 0.5 + b) - 0.25, tf.minimum(b + a, 3.0) * 0.75

    _, a, b = tf.while_loop(lambda i, a, b: i < 7, body, [0, x, x * 0.5 + 0.1])
    (found_a, found_b), grouped, _ = both([a, b + a * 1.0], {x: VALUE}, threads=threads)
    assert grouped >= 6
    want_a, want_b = VALUE, VALUE * np.float32(0.5) + np.float32(0.1)
    for _ in range(7):
        want_a, want_b = (
            np.maximum(want_a * np.float32(0.5) + want_b, 0) - np.float32(0.25),
            np.minimum(want_b + want_a, np.float32(3)) * np.float32(0.75),
        )
    np.testing.assert_array_equal(found_a, want_a)
    np.testing.assert_array_equal(found_b, want_b + want_a)


def test_a_loop_in_slabs_and_a_cond_in_it():
    x = tf.placeholder(tf.float32, [6, 10])

    def body(i, a):
        flip = tf.cond(tf.equal(i % 2, 0), lambda: a * 2.0 - 1.0, lambda: -a + 0.5)
        m = tf.matmul(flip, tf.ones([10, 10]) * 0.01)
        return i + 1, tf.nn.relu(m + 1.0) * 0.5

    _, a = tf.while_loop(lambda i, a: i < 9, body, [0, x])
    _, grouped, _ = both(a, {x: VALUE}, threads=2)
    assert grouped >= 4


def test_training_is_unchanged():
    rng = np.random.default_rng(0)
    data, target = rng.standard_normal((2, 32, 16)).astype(np.float32)
    losses = []
    for on in (0, 1):
        knob(ON, on)
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            x, y = tf.placeholder(tf.float32, [32, 16]), tf.placeholder(tf.float32, [32, 16])
            h = x
            for k in range(3):
                w = tf.get_variable(f"w{k}", initializer=np.eye(16, dtype=np.float32) * 0.5)
                h = tf.maximum(tf.matmul(h, w) * 0.9 + 0.01, 0.1 * tf.matmul(h, w))
            loss = tf.reduce_mean(tf.square(h - y) * 0.5 + tf.square(h) * 0.01)
            step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
            with tf.Session(config=PLAIN) as session:
                session.run(tf.global_variables_initializer())
                losses.append(
                    [session.run([loss, step], {x: data, y: target})[0] for _ in range(5)]
                )
                counts = PLANS[-1].counts()
        assert (counts["grouped"] > 8) == bool(on)
    assert losses[0] == losses[1] and losses[0][-1] < losses[0][0]


def test_failures_name_the_group():
    x = tf.placeholder(tf.float32, [6, 10])
    y = tf.multiply(tf.add(x, 1.0, name="first"), 2.0, name="second")
    knob(FAILS, 1)
    try:
        with (
            tf.Session(config=PLAIN) as session,
            pytest.raises(tf.errors.InternalError, match="test asked") as caught,
        ):
            session.run(y, {x: VALUE})
    finally:
        knob(FAILS, 0)
    assert "'first'" in str(caught.value) and "test.jit" in str(caught.value)
    with tf.Session(config=PLAIN) as session:
        knob(RUN_FAILS, 1)
        try:
            with pytest.raises(tf.errors.DataLossError, match="test asked") as caught:
                session.run(y, {x: VALUE})
        finally:
            knob(RUN_FAILS, 0)
        text = str(caught.value)
        assert "second" in text and "'first'" in text and "test_compiler.py" in text
        np.testing.assert_array_equal(session.run(y, {x: VALUE}), (VALUE + 1) * 2)


def test_programs_are_released():
    x = tf.placeholder(tf.float32, [6, 10])
    del PLANS[:]
    gc.collect()
    compiled, released = knob(COMPILED), knob(RELEASED)
    with tf.Session(config=PLAIN) as session:
        session.run((x + 1.0) * 2.0, {x: VALUE})
    del session, PLANS[:]
    gc.collect()
    assert knob(COMPILED) == compiled + 1 and knob(RELEASED) == released + 1


BINARY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
}
UNARY = {
    "Neg": np.negative,
    "Relu": lambda a: np.maximum(a, 0),
    "Square": np.square,
    "Abs": np.abs,
    "Outside": lambda a: np.float32(np.sum(a.astype(np.float64))) * 0 + a,
}


@st.composite
def dags(draw):
    """[(op, input, input)] over two placeholders and a constant; which nodes are fetched."""
    nodes = []
    for k in range(draw(st.integers(2, 30))):
        pick = st.integers(max(0, k - 5), k + 2)
        op = draw(st.sampled_from([*BINARY, *UNARY]))
        nodes.append((op, draw(pick), draw(pick)))
    fetched = draw(st.lists(st.integers(0, len(nodes) - 1), min_size=1, max_size=4, unique=True))
    return nodes, fetched


def outside(t):
    """A node the compiler does not claim, through which a group's value leaves and comes back."""
    return tf.reverse(tf.reverse(t, [0]), [0])


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(dags(), st.integers(1, 2))
def test_random_graphs(dag, threads):
    nodes, fetched = dag
    a, b = VALUE, VALUE[::-1].copy()
    with tf.Graph().as_default():
        feeds = [tf.placeholder(tf.float32, [6, 10]) for _ in range(2)]
        values, want = [*feeds, tf.constant(0.5)], [a, b, np.float32(0.5)]
        for op, i, j in nodes:
            if i == 2 and (j == 2 or op in UNARY):
                i = 0
            p, q, u, v = values[i], values[j], want[i], want[j]
            if op in BINARY:
                values.append(
                    getattr(tf, {"Mul": "multiply", "Sub": "subtract"}.get(op, op.lower()))(p, q)
                )
                want.append(BINARY[op](u, v))
            else:
                f = {
                    "Neg": tf.negative,
                    "Relu": tf.nn.relu,
                    "Square": tf.square,
                    "Abs": tf.abs,
                    "Outside": outside,
                }[op]
                values.append(f(p))
                want.append(
                    np.maximum(u, 0) if op == "Relu" else u if op == "Outside" else UNARY[op](u)
                )
            if np.abs(want[-1]).max() > 1e6:
                values[-1], want[-1] = values[-1] * 0.0, want[-1] * np.float32(0)
        found, _, _ = both(
            [values[3 + k] for k in fetched], dict(zip(feeds, (a, b))), 1, threads=threads
        )
    for k, value in zip(fetched, found):
        np.testing.assert_array_equal(value, want[3 + k])


@pytest.mark.alone
def test_compiling_stays_linear():
    """Grouping a graph of 10,000 nodes in 100 chains costs less than the rest of compiling it."""
    x = tf.placeholder(tf.float32, [4])
    ends = []
    for c in range(100):
        y = x
        for k in range(100):
            y = y + float(100 * c + k) if k % 10 else tf.reverse(y, [0])
        ends.append(y)
    fetch = tf.add_n(ends)
    times = []
    for on in (0, 1):
        knob(ON, on)
        with tf.Session(config=PLAIN) as session:
            start = time.perf_counter()
            session.run(fetch, {x: np.ones(4)})
            times.append(time.perf_counter() - start)
            if on:
                assert PLANS[-1].counts()["groups"] >= 900
    assert times[1] < 3 * times[0] + 0.5
