"""StepStats field by field: what the encoder writes against the events that trace_records reads
from the same records."""

import time

import numpy as np
import pytest

import pyflow as tf
from pyflow.framework import protos
from pyflow.session import contract, metadata, runtime, trace_records

ROUTING = "Identity Const Switch Merge Enter Exit NextIteration LoopCond".split()
TIMES = [f"{field}_{unit}" for field in ("scheduled", "all_start", "op_end_rel", "all_end_rel")
         for unit in ("micros", "nanos")]


def loops():
    """Three deep, with outputs of six dimensions, handles, strings and a call for Python."""
    def middle(i, x):
        return i + 1, tf.while_loop(lambda j, y: j < i + 1, inner, [tf.constant(0), x])[1]

    def inner(j, y):
        deep = tf.while_loop(lambda k, z: k < 2, lambda k, z: (k + 1, tf.sqrt(z)),
                             [tf.constant(0), y])
        return j + 1, deep[1] + 1
    out = tf.while_loop(lambda i, x: i < 4, middle, [tf.constant(0), tf.constant(0.0)])[1]
    six = tf.reshape(tf.tile(tf.ones([2, 3]), [1, 4]), [1, 2, 2, 1, 3, 2], name="six") + 1
    w = tf.Variable(np.ones((3, 2), np.float32), name="w")
    text = tf.as_string(tf.split(w, 3)[0])
    call = tf.py_func(lambda v: v * 2, [out], tf.float32)
    return [out, six, text, call, w.assign_add(w)]


def wide():
    """More kernels than a slice, and than a chunk of records."""
    y = x = tf.Variable(np.ones(2, np.float32), name="x") + 1
    for _ in range(700):
        y = tf.cumsum(y)
    return [y, tf.add_n([tf.exp(x) for _ in range(5)])]


def node(event, plan, names):
    """The NodeExecStats of an event, with its times left out."""
    inputs = ", ".join(plan.inputs.get(event.name, ()))
    where = f" [{trace_records.tag(event)}]" if event.iteration else ""
    called = f"block_of_{event.count}" if event.kind == "block" else event.op
    stats = protos.NodeExecStats(node_name=event.name, thread_id=names[event.lane][0],
                                 timeline_label=f"{event.name}{where} = {called}({inputs})")
    for value in event.outputs:
        described = stats.output.add(slot=value.slot).tensor_description
        described.dtype = value.type
        described.shape.SetInParent()       # without a shape TensorBoard shows no step's stats
        for size in value.shape or ():
            described.shape.dim.add(size=size)
        allocated = described.allocation_description
        allocated.requested_bytes = allocated.allocated_bytes = value.bytes
        allocated.allocator_name = "cpu"
    if event.outputs and event.op not in ROUTING:
        total = sum(o.bytes for o in event.outputs)
        stats.memory.add(allocator_name="cpu", total_bytes=total, peak_bytes=total,
                         live_bytes=total, allocator_bytes_in_use=event.in_use)
    return stats


def without_times(stats):
    left = protos.NodeExecStats.FromString(stats.SerializeToString())
    for field in TIMES:
        left.ClearField(field)
    return left


def check_times(stats, event, to_wall):
    """Two readings of the clock turn the same ticks into nanoseconds: 3 us apart at most."""
    stop = event.done if event.kind == "async" else event.end
    expected = {"scheduled": event.ready + to_wall, "all_start": event.start + to_wall,
                "op_end_rel": max(0, stop - event.start),
                "all_end_rel": max(1, event.end - event.start)}
    for field, nanos in expected.items():
        assert abs(getattr(stats, f"{field}_nanos") - nanos) < 3000, field
        micros = max(1, nanos // 1000) if field == "all_end_rel" else nanos // 1000
        assert abs(getattr(stats, f"{field}_micros") - micros) <= 3, field


def wall_minus_monotonic():
    """Of many readings the one in which nothing came between."""
    readings = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(50)]
    before, wall, after = min(readings, key=lambda r: r[2] - r[0])
    return wall - (before + after) // 2


def check_every_kernel(filled, trace, threads):
    """-> how many kernels there are."""
    to_wall = wall_minus_monotonic()
    taken, names = trace.take(), trace_records.lanes()
    steps = trace_records.steps(taken)
    expected = sorted((e for e in trace_records.events(taken, steps)
                       if e.kind in ("kernel", "async", "block")), key=lambda e: e.start)
    [device] = filled.step_stats.dev_stats
    assert device.device == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert len(device.node_stats) == len(expected)
    ours = [(without_times(n), n) for n in device.node_stats]
    theirs = [(node(e, steps[e.step].plan, names), e) for e in expected]
    if threads == 2:                              # they may begin within one nanosecond
        ours.sort(key=lambda pair: (str(pair[0]), pair[1].all_start_nanos))
        theirs.sort(key=lambda pair: (str(pair[0]), pair[1].start))
    for (stats, timed), (wanted, event) in zip(ours, theirs):
        assert stats == wanted
        check_times(timed, event, to_wall)
    assert dict(device.thread_names) == {names[e.lane][0]: names[e.lane][1] for e in expected}
    return len(expected)


def traced(session, fetches, level=3, max_records=1 << 20):
    """A step in a Trace."""
    session.run(tf.global_variables_initializer())
    session.run(fetches)
    plan = session._step_for(fetches, None)[0].compiled.plan
    trace = runtime.executor().Trace(level, max_records)
    plan.run([], contract.RunOptions(trace=trace))
    return trace


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize("build", [loops, wide])
def test_every_field_of_every_kernel(build, level, threads):
    with tf.Session(threads=threads) as session:
        trace = traced(session, build(), level)
    filled = metadata.fill(tf.RunMetadata(), trace)
    kernels = check_every_kernel(filled, trace, threads)
    assert level == 1 or kernels > 100


@pytest.mark.parametrize("of_protobuf", [False, True])
def test_many_kernels(of_protobuf):
    """Dozens of chunks of records, in a message of either class."""
    count = tf.while_loop(lambda i, x: i < 800, lambda i, x: (i + 1, tf.cumsum(x)),
                          [tf.constant(0), tf.ones([2])])
    with tf.Session(threads=1) as session:
        trace = traced(session, count)
    filled = metadata.fill(protos.RunMetadata() if of_protobuf else tf.RunMetadata(), trace)
    assert check_every_kernel(filled, trace, 1) > 2000


def test_no_more_records_than_the_trace_may_hold():
    with tf.Session(threads=1) as session:
        trace = traced(session, wide(), max_records=300)
    filled = metadata.fill(tf.RunMetadata(), trace)
    assert trace.take()["dropped"] > 300
    assert 150 < check_every_kernel(filled, trace, 1) < 600


def test_several_steps_of_one_trace():
    x = tf.placeholder(tf.float32, [2])
    one, two = tf.cumsum(x, name="one"), tf.sqrt(tf.cumsum(x), name="two")
    trace = runtime.executor().Trace(3)
    with tf.Session(threads=1) as session:
        for fetch in (one, two, one):
            session.run(fetch, {x: [1, 2]})
            plan = session._step_for(fetch, {x: [1, 2]})[0].compiled.plan
            plan.run([np.ones(2, np.float32)], contract.RunOptions(trace=trace))
    check_every_kernel(metadata.fill(tf.RunMetadata(), trace), trace, 1)
