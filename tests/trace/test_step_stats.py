"""StepStats field by field: what the encoder writes against the events that trace_records reads from
the same records."""

import threading
import time

import numpy as np
import pytest

import pyflow as tf
from pyflow.framework import protos
from pyflow.session import metadata, runtime, trace_records

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


def traced(session, fetches, level=3, options=None):
    """A step in a Trace and, if asked for, in a Filling(trace) -> (Trace, Filling)."""
    session.run(tf.global_variables_initializer())
    session.run(fetches)
    plan = session._step_for(fetches, None)[0].compiled.plan
    trace = runtime.executor().Trace(level)
    filling = options and options(trace)
    plan.run([], trace=trace)
    return trace, filling


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize("build", [loops, wide])
def test_every_field_of_every_kernel(build, level, threads):
    with tf.Session(threads=threads) as session:
        trace, _ = traced(session, build(), level)
    filled = metadata.fill(tf.RunMetadata(), trace)
    kernels = check_every_kernel(filled, trace, threads)
    assert level == 1 or kernels > 100


def wide_with(look):
    """wide(), `look` called behind its kernels, and as many again."""
    y, total = wide()
    y = tf.py_func(lambda v: (look(), v)[1], [y], tf.float32)
    y.set_shape([2])
    for _ in range(700):
        y = tf.cumsum(y)
    return [y, total]


def no_look():
    """Where nothing is traced yet."""


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_filled_in_while_the_step_runs(threads):
    looks, found, filled = [no_look], [], tf.RunMetadata()

    def begin(trace):
        filling = metadata.Filling(filled, trace)
        looks[0] = lambda: found.extend([filling.more(), filling.more()])
        return filling
    with tf.Session(threads=threads) as session:
        trace, filling = traced(session, wide_with(lambda: looks[0]()), options=begin)
    early = len(filled.step_stats.dev_stats[0].node_stats)
    assert early == sum(found) > 500 and found[1] == 0
    kernels = filling.finish()
    assert check_every_kernel(filled, trace, threads) == kernels > 1400


def test_loops_three_deep_wait_for_their_end():
    """Their labels need turns that another thread may have recorded."""
    looks, found, filled = [no_look], [], tf.RunMetadata()

    def begin(trace):
        filling = metadata.Filling(filled, trace)
        looks[0] = lambda: found.append(filling.more())
        return filling
    with tf.Session(threads=1) as session:
        fetches = [*wide_with(lambda: looks[0]()), *loops()]
        trace, filling = traced(session, fetches, options=begin)
    assert found == [0] and not filled.step_stats.dev_stats
    filling.finish()
    check_every_kernel(filled, trace, 1)


def test_a_thread_fills_in_what_a_session_runs(monkeypatch):
    """From the second traced run on, which is known to have many kernels."""
    monkeypatch.setattr(metadata, "_cpus", 4)
    filled, seen, looks = [tf.RunMetadata() for _ in range(2)], [], [no_look]

    def wait():
        end = time.monotonic() + 20
        while not filled[1].step_stats.dev_stats and time.monotonic() < end:
            time.sleep(0.001)
        seen.append(sum(len(d.node_stats) for d in filled[1].step_stats.dev_stats))
    with tf.Session() as session:
        fetches = wide_with(lambda: looks[0]())
        session.run(tf.global_variables_initializer())
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(fetches, None, options, filled[0])
        looks[0] = wait
        session.run(fetches, None, options, filled[1])
    first, second = (sorted(n.timeline_label for d in m.step_stats.dev_stats for n in d.node_stats)
                     for m in filled)
    assert 0 < seen[0] < len(second) and first == second and len(first) > 1400


def test_what_goes_wrong_on_the_thread_is_raised_by_finish(monkeypatch):
    monkeypatch.setattr(metadata, "_cpus", 4)
    refused, looks = threading.Event(), [no_look]

    class Full:
        """A message that takes no more."""
        step_stats = protos.StepStats()

        def MergeFromString(self, data):
            refused.set()
            raise ValueError("full")

    def begin(trace):
        looks[0] = lambda: refused.wait(20)
        return metadata.Filling(Full(), trace, 1000)
    with tf.Session() as session:
        _, filling = traced(session, wide_with(lambda: looks[0]()), options=begin)
    assert refused.is_set()
    with pytest.raises(ValueError, match="full"):
        filling.finish()


def test_steps_add_up_in_one_message():
    y = tf.sqrt(tf.constant(4.0) + 0, name="y")
    options, filled = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
    with tf.Session() as session:
        for _ in range(3):
            session.run(y, None, options, filled)
    assert len(filled.step_stats.dev_stats) == 3
