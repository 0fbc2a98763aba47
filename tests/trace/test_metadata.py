"""RunMetadata of traced runs, and timelines made of it: here and by TensorFlow's own module, whose
answer for run_metadata.pb is recorded (record_metadata.py)."""

import importlib
import json
import pathlib

import numpy as np
import pytest

import pyflow as tf
from pyflow.framework import protos

HERE = pathlib.Path(__file__).resolve().parent
FULL = tf.RunOptions.FULL_TRACE


def metadata_of(session, fetches, feeds=None, **options):
    metadata = tf.RunMetadata()
    options.setdefault("trace_level", FULL)
    session.run(fetches, feeds, tf.RunOptions(**options), metadata)
    return metadata


def nodes(metadata):
    return [n for d in metadata.step_stats.dev_stats for n in d.node_stats]


def test_fields_of_a_node():
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    w = tf.Variable(np.ones((4, 3), np.float32), name="w")
    y = tf.matmul(x, w, name="y")
    tf.Variable(tf.zeros([1 << 20]))        # 4 MB that live: the counter may miss each thread's last 64 KB
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        metadata = metadata_of(session, tf.cumsum(y), {x: np.ones((5, 4), np.float32)})
    [device] = metadata.step_stats.dev_stats
    assert device.device == "/job:localhost/replica:0/task:0/device:CPU:0"
    [node] = [n for n in device.node_stats if n.node_name == "y"]
    label, _, call = node.timeline_label.partition(" = ")
    assert label == "y" and call.startswith("MatMul(") and call.endswith("w/read)")
    [out] = node.output
    shape = [d.size for d in out.tensor_description.shape.dim]
    assert (out.slot, out.tensor_description.dtype, shape) == (0, protos.DT_FLOAT, [5, 3])
    assert out.tensor_description.allocation_description.requested_bytes == 60
    assert node.memory[0].allocator_name == "cpu" and node.memory[0].total_bytes == 60
    assert node.memory[0].allocator_bytes_in_use > 2 << 20
    assert node.scheduled_micros <= node.all_start_micros
    assert node.scheduled_nanos <= node.all_start_nanos
    assert abs(node.all_start_nanos // 1000 - node.all_start_micros) <= 1
    assert 0 < node.op_end_rel_nanos <= node.all_end_rel_nanos
    assert device.thread_names[node.thread_id]


def test_only_what_was_asked_for():
    x = tf.placeholder(tf.float32, [])
    y, feeds = tf.sqrt(x), {x: 4}
    with tf.Session() as session:
        assert not metadata_of(session, y, feeds, trace_level=0).step_stats.dev_stats
        metadata = metadata_of(session, y, feeds, trace_level=0, output_partition_graphs=True)
        assert len(metadata.partition_graphs) == 1 and not nodes(metadata)
        both = metadata_of(session, y, feeds, output_partition_graphs=True)
        in_graph = {n.name for g in both.partition_graphs for n in g.node}
        assert {n.node_name for n in nodes(both)} <= in_graph
        session.run(y, feeds, tf.RunOptions(trace_level=FULL))         # nothing to fill


def test_software_trace_is_coarser():
    y = x = tf.placeholder(tf.float32, [2])
    for _ in range(20):
        y = tf.cumsum(y)
    with tf.Session(threads=1) as session:
        fine = metadata_of(session, y, {x: [4, 9]})
        coarse = metadata_of(session, y, {x: [4, 9]}, trace_level=tf.RunOptions.SOFTWARE_TRACE)
        assert sum("Cumsum(" in n.timeline_label for n in nodes(fine)) == 20
        assert any("block_of_" in n.timeline_label for n in nodes(coarse))
        assert len(nodes(coarse)) < 5


def test_two_steps_differ():
    x = tf.placeholder(tf.float32, [])
    y = tf.sqrt(x, name="y")
    with tf.Session() as session:
        first, second = metadata_of(session, y, {x: 4}), metadata_of(session, y, {x: 9})
    start = [next(n.all_start_nanos for n in nodes(m) if n.node_name == "y")
             for m in (first, second)]
    assert start[0] < start[1]
    assert len(nodes(first)) == len(nodes(second))


def test_callables_and_failures():
    x = tf.placeholder(tf.float32, [None], name="x")
    y = tf.gather(tf.sqrt(x, name="root"), [1])
    with tf.Session() as session:
        call = session.make_callable(y, [x], accept_options=True)
        metadata = tf.RunMetadata()
        call([1, 4], options=tf.RunOptions(trace_level=FULL), run_metadata=metadata)
        assert any(n.node_name == "root" for n in nodes(metadata))
        metadata = tf.RunMetadata()
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(y, {x: [1]}, tf.RunOptions(trace_level=FULL), metadata)
        assert any(n.node_name == "root" for n in nodes(metadata))


def recorded():
    stats = protos.RunMetadata.FromString((HERE / "run_metadata.pb").read_bytes()).step_stats
    return stats, json.loads((HERE / "tf_timeline.json").read_text())


@pytest.mark.parametrize("path", ["pyflow.timeline", "pyflow.python.client.timeline"])
def test_our_timeline_says_what_tensorflows_says(path):
    stats, theirs = recorded()
    made = importlib.import_module(path).Timeline(stats)
    events = json.loads(made.generate_chrome_trace_format(show_memory=True))["traceEvents"]
    ops = []
    for event in events:
        if event["ph"] == "X":
            kept = {k: v for k, v in event["args"].items() if k in ("name", "op") or
                    k.startswith("input")}
            ops.append([event["name"], event["ts"], event["dur"], kept])
    assert sorted(ops, key=str) == theirs["ops"]
    flows = {e["name"] for e in events if e["ph"] == "s"}
    assert set(theirs["flows"]) <= {f.lstrip("^") for f in flows}
    assert any(e["ph"] == "C" and e["args"] == {"cpu": e["args"]["cpu"]} for e in events)


def test_arguments_of_the_timeline():
    from pyflow import timeline
    stats, _ = recorded()
    made = timeline.Timeline(stats)
    plain = json.loads(made.generate_chrome_trace_format(show_dataflow=False))["traceEvents"]
    assert {e["ph"] for e in plain} == {"M", "X"}
    analysis = made.analyze_step_stats()
    assert analysis.allocator_maximums["cpu"].num_bytes > 0
    with pytest.raises(ValueError, match="op_time"):
        made.generate_chrome_trace_format(op_time="later")
    tracks = {}
    for e in plain:
        if e["ph"] == "X":
            tracks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    for members in tracks.values():
        members.sort()
        assert all(a[1] <= b[0] for a, b in zip(members, members[1:]))
