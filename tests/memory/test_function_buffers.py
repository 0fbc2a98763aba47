"""Buffers in functions that run as calls: planned, and reused, as those of the graph."""
import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor
from pyflow.python.framework import function

SIZE = 512
BYTES = SIZE * SIZE * 4


def layers(x):
    x.set_shape([SIZE, SIZE])
    for _ in range(10):
        x = tf.cumsum(tf.transpose(tf.cumsum(x))) / SIZE + tf.sin(x)
    return x


def value():
    return np.random.RandomState(1).rand(SIZE, SIZE).astype(np.float32)


def measured(called, threads):
    """(buffers as planned, most bytes in one step, allocations in one step, result)."""
    with tf.Graph().as_default(), tf.Session(threads=threads) as session:
        x = tf.placeholder(tf.float32, [SIZE, SIZE])
        y = function.Defun(tf.float32, func_name="f", noinline=True)(layers)(x) if called else layers(x)
        result, data = session.run(y, {x: value()}), value()
        session.run(y.op, {x: data})
        before = _executor.memory_stats()
        _executor.reset_peak()
        session.run(y.op, {x: data})
        after = _executor.memory_stats()
        plan = list(session._steps.values())[0].compiled.plan
        buffers = plan.functions()["f"] if called else plan.buffers()
    return buffers, after["peak"] - before["in_use"], after["allocs"] - before["allocs"], result


@pytest.mark.parametrize("threads", [1, 2])
def test_a_body_is_planned_as_the_graph(threads):
    graph, graph_peak, graph_allocs, want = measured(False, threads)
    body, peak, allocs, got = measured(True, threads)
    np.testing.assert_array_equal(got, want)
    assert graph["planned"] < 5 * BYTES < 20 * BYTES < graph["total"]
    assert body["planned"] <= graph["planned"] and body["total"] > 20 * BYTES
    assert peak <= graph_peak + BYTES + 4096        # the call's own result lies beside
    assert allocs <= graph_allocs + 10


def test_bodies_of_branches_loops_and_maps_are_planned():
    @function.Defun(tf.float32, tf.int32, func_name="body")
    def body(x, i):
        return layers(x), i + 1
    with tf.Graph().as_default() as graph, tf.Session(threads=2) as session:
        function.Defun(tf.float32, tf.int32, func_name="cond")(lambda x, i: i < 2).add_to_graph(graph)
        function.Defun(tf.float32, func_name="f")(layers).add_to_graph(graph)
        body.add_to_graph(graph)
        x = tf.placeholder(tf.float32, [SIZE, SIZE])
        y, _ = tf.raw_ops.While(input=[x, 0], cond="cond", body="body")
        z, = tf.raw_ops.If(cond=tf.reduce_sum(x) > 0.0, input=[x], Tout=[tf.float32], then_branch="f",
                           else_branch="f")
        rows, = tf.raw_ops.MapDefun(arguments=[tf.stack([x, x * 2.0, x * 3.0])], captured_inputs=[],
                                    output_types=[tf.float32], output_shapes=[[SIZE, SIZE]], f="f")
        got = session.run([y, z, rows], {x: value()})
        found = list(session._steps.values())[0].compiled.plan.functions()
        assert found["body"]["planned"] > BYTES and found["f"]["planned"] > BYTES
        plain = [layers(layers(x)), layers(x), tf.stack([layers(x * k) for k in (1.0, 2.0, 3.0)])]
        kept = [np.array(a) for a in got]
        for a, b in zip(got, session.run(plain, {x: value()})):
            np.testing.assert_array_equal(a, b)
        session.run([y, z, rows], {x: value() + 1.0})   # what was fetched is the caller's
        for a, b in zip(got, kept):
            np.testing.assert_array_equal(a, b)


def test_a_bodys_elements_are_computed_in_place():
    """Of a chain that is one program, and of its argument where the caller is done with it."""
    with tf.Graph().as_default(), tf.Session(threads=1) as session:
        def chain(x):
            x.set_shape([SIZE, SIZE])
            return tf.cumsum(tf.nn.relu(tf.exp(tf.cumsum(x) / 1e6) * 2.0 + 1.0))
        x = tf.placeholder(tf.float32, [SIZE, SIZE])
        y = function.Defun(tf.float32, func_name="f", noinline=True)(chain)(x)
        data = value()
        session.run(y.op, {x: data})
        session.run(y.op, {x: data})
        before = _executor.memory_stats()["in_use"]
        _executor.reset_peak()
        session.run(y.op, {x: data})
        assert _executor.memory_stats()["peak"] - before <= 2 * BYTES + 65536
