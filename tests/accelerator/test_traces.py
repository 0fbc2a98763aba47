"""Traces of steps on a device with streams: kernels and copies as the device's events time them."""

import json

import numpy as np
import pytest

import pyflow as tf
from pyflow import timeline
from pyflow.session import chrome_trace, contract, runtime, trace_records


def program():
    x = tf.placeholder(tf.float32, [64, 64], name="x")
    with tf.device("/device:FAKE:0"):
        a = tf.matmul(x, x, name="a")
        b = tf.nn.relu(a, name="b")
    with tf.device("/device:FAKE:1"):
        c = tf.add(b, 1.0, name="c")
    return x, tf.reduce_sum(c, name="total")


def run_traced(session, fetch, feeds):
    metadata = tf.RunMetadata()
    value = session.run(fetch, feeds, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    return value, metadata


def check(partitions, fake):
    x, total = program()
    feed = np.full((64, 64), 0.1, np.float32)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True),
                    partitions=partitions) as session:
        value, metadata = run_traced(session, total, {x: feed})
    np.testing.assert_allclose(value, (np.maximum(feed @ feed, 0) + 1).sum(), rtol=1e-4)
    stats = {d.device.rpartition("/device:")[2]: d for d in metadata.step_stats.dev_stats}
    assert {"FAKE:0", "FAKE:0/stream:compute", "FAKE:0/stream:copy-in"} <= set(stats)
    assert {"FAKE:1/stream:compute", "FAKE:1/stream:copy-in"} <= set(stats)
    nodes = {name: {n.node_name: n for n in d.node_stats} for name, d in stats.items()}
    enqueued, ran = nodes["FAKE:0"]["a"], nodes["FAKE:0/stream:compute"]["a"]
    assert ran.all_start_nanos + ran.all_end_rel_nanos >= enqueued.all_start_nanos
    b = nodes["FAKE:0/stream:compute"]["b"]
    assert b.all_start_nanos >= ran.all_start_nanos + ran.op_end_rel_nanos   # one stream, in order
    assert len(nodes["FAKE:0/stream:compute"]["a"].timeline_label) > 5
    made = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
    assert "stream:compute" in made


def test_streams_in_run_metadata(fake):
    check("one", fake)


def test_streams_of_partitions(fake):
    check("device", fake)


def test_delayed_streams_run_after_their_kernels(fake, tmp_path):
    """With a slow stream the kernel's call is over long before its work: both are to be seen."""
    fake[0].set(delay_us=3000)
    x, total = program()
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        step, _ = session._step_for(total, {x: 0})
        trace = runtime.executor().Trace(3)
        step.compiled.plan.run([np.ones((64, 64), np.float32)],
                               contract.RunOptions(trace=trace))
    taken = trace.take()
    events = trace_records.events(taken)
    [call] = [e for e in events if e.name == "a" and e.kind in ("kernel", "async")]
    [work] = [e for e in events if e.name == "a" and e.kind == "stream"]
    assert work.ready <= work.start <= work.end
    assert work.end > call.end or call.kind == "async"
    copies = [e for e in events if e.kind == "stream" and e.done]
    assert {trace_records.STREAMS[e.done] for e in copies} >= {"copy-in", "copy-out"}
    path = tmp_path / "t.json"
    with open(path, "w") as f:
        writer = chrome_trace.Writer(f, 1, trace_records.steps(taken)[0].start)
        writer.steps(taken)
        writer.close(trace_records.lanes())
    rows = json.loads(path.read_text())["traceEvents"]
    names = {r["args"]["name"] for r in rows if r["ph"] == "M" and r["name"] == "thread_name"}
    assert {"device:FAKE:0 compute", "device:FAKE:0 copy-in"} <= names
    in_use = [r["args"]["bytes"] for r in rows
              if r["ph"] == "C" and r["name"] == "device:FAKE:0 in use"]
    assert max(in_use) >= 2 * 64 * 64 * 4         # a's input and output are there at once


def test_a_failed_step_gives_its_events_back(fake):
    """The fixture counts events that are left."""
    fake[0].set(fail_launch_late=1)
    x, total = program()
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        metadata = tf.RunMetadata()
        with pytest.raises(tf.errors.OpError):
            session.run(total, {x: np.ones((64, 64), np.float32)},
                        tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    assert any(n.node_name == "a" for d in metadata.step_stats.dev_stats for n in d.node_stats)
