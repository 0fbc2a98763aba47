"""Partitioned graphs as text.  golden/*.txt are what `python test_split.py` writes; read the change
before you commit it."""
import pathlib
import re

import pytest

import pyflow as tf
from pyflow.passes import node, partition_split, place, printer

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
CPU = [f"/job:localhost/replica:0/task:0/device:CPU:{k}" for k in range(3)]


def on(k):
    return tf.device(f"/device:CPU:{k}")


def split(tensors, targets=(), feeds=(), by="device", names=CPU):
    graph = node.prune(list(tensors), list(targets), list(feeds))
    place.place(graph, place.Devices(names), True)
    return partition_split.split(graph, by)


def shown(parts):
    """The partitions, without what every pair repeats."""
    text = ""
    for part in parts:
        text += f"== {part.name} feeds {part.args} fetches {part.rets}\n" + printer.text(part.graph)
    text = text.replace("/job:localhost/replica:0/task:0", "")
    text = re.sub(r"\{(?:T: \w+, )?client_terminated: false, recv_device: \"/device:(\S+)\", "
                  r"send_device: \"/device:(\S+)\".*?tensor_name: \"(.*?)\"(?:, \w+: \w+)?\}",
                  r"{\2 -> \1 \3}", text)
    return text.replace(" @ /device:", " @ ")


# ---------------------------------------------------------------- the graphs

def data_and_control():
    x = tf.placeholder(tf.float32, [2], name="x")
    with on(1):
        a = tf.negative(x, name="a")
        b = tf.square(a, name="b")
    with on(0), tf.control_dependencies([b]):
        c = tf.add(a, a, name="c")
    with on(2):
        d = tf.add(a, c, name="d")
        e = tf.multiply(a, d, name="e")
    return split([e, c], feeds=[x])


def cond():
    p = tf.placeholder(tf.bool, [], name="p")
    with on(1):
        x = tf.constant(3.0, name="x")

    def yes():
        with on(1):
            return tf.negative(x, name="minus")

    def no():
        with on(2):
            return tf.square(x, name="squared")
    return split([tf.cond(p, yes, no, name="branch")], feeds=[p])


def loop():
    with on(1):
        scale = tf.constant(2.0, name="scale")

    def body(i, v):
        with on(1):
            return i + 1, tf.multiply(v, scale, name="scaled")
    with on(0):
        _, v = tf.while_loop(lambda i, v: tf.less(i, 3), body, [tf.constant(0), tf.constant(1.0)],
                             name="loop")
    return split([v])


def nested_loops():
    def outer(i, v):
        def inner(j, w):
            with on(1):
                return j + 1, tf.add(w, 1.0, name="more")
        return i + 1, tf.while_loop(lambda j, w: tf.less(j, 2), inner, [tf.constant(0), v],
                                    name="inner")[1]
    with on(0):
        _, v = tf.while_loop(lambda i, v: tf.less(i, 3), outer, [tf.constant(0), tf.constant(1.0)],
                             name="outer")
    return split([v])


def loop_elsewhere():
    """CPU:2 has no node in the loop: it only gets the result."""
    with on(1):
        v = tf.while_loop(lambda v: tf.less(v, 10.0), lambda v: v * 2.0, [tf.constant(1.0)],
                          name="loop")
    with on(2):
        return split([tf.negative(v, name="minus")])


GRAPHS = (data_and_control, cond, loop, nested_loops, loop_elsewhere)


@pytest.mark.parametrize("build", GRAPHS, ids=lambda build: build.__name__)
def test_golden(build):
    assert shown(build()) == (GOLDEN / f"{build.__name__}.txt").read_text()


# ---------------------------------------------------------------- what must hold whatever the text

def count(part, op):
    return sum(n.op == op for n in part.graph.nodes)


def test_once_per_tensor_and_destination():
    with on(0):
        x = tf.placeholder(tf.float32, [2])
    with on(1):
        readers = [tf.negative(x) for _ in range(5)]
    with on(2):
        readers += [tf.square(x) for _ in range(5)]
    parts = split(readers, feeds=[x])
    assert sum(count(p, "_Send") for p in parts) == 1, "fed where it is read first, sent once"
    with on(0):
        y = tf.negative(x)
    with on(1):
        readers = [tf.negative(y) for _ in range(5)]
    with on(2):
        readers += [tf.square(y) for _ in range(5)]
    assert sum(count(p, "_Send") for p in split(readers, feeds=[x])) == 2


def test_no_edge_crosses_and_pairs_match():
    for build in GRAPHS:
        with tf.Graph().as_default():
            parts = build()
        keys = {"_Send": [], "_Recv": []}
        for part in parts:
            own = set(part.graph.nodes)
            names = [n.name for n in part.graph.nodes]
            assert len(set(names)) == len(names)
            for n in part.graph.nodes:
                assert n.device == part.name
                assert all(s in own for s, _ in n.inputs) and all(c in own for c in n.controls)
                if n.op in keys:
                    keys[n.op].append(n.attrs["tensor_name"])
        assert sorted(keys["_Send"]) == sorted(keys["_Recv"]) == sorted(set(keys["_Send"]))


def test_one_device_is_one_partition():
    x = tf.placeholder(tf.float32, [])
    [part] = split([x * 2.0], feeds=[x])
    assert part.args == [0] and part.rets == [0] and not count(part, "_Send")


def test_a_loop_invariant_is_sent_once_per_loop():
    parts = loop()
    [recv] = [n for n in parts[1].graph.nodes if n.op == "_Recv" and not n.controls] or [None]
    assert recv is None, "scale lies where it is read: everything CPU:1 receives is per iteration"
    with on(2):
        x = tf.constant(5.0, name="far")

    def body(i, v):
        with on(1):
            return i + 1, v + x
    with on(0):
        _, v = tf.while_loop(lambda i, v: tf.less(i, 3), body, [tf.constant(0), tf.constant(1.0)])
    parts = {p.name: p for p in split([v])}
    assert count(parts[CPU[2]], "_Send") == 1 and count(parts[CPU[2]], "Enter") == 0
    [recv] = [n for n in parts[CPU[1]].graph.nodes if n.op == "_Recv" and not n.controls]
    assert recv.attrs["tensor_name"].endswith("far:0")


def test_by_task_keeps_a_task_together():
    names = [f"/job:w/replica:0/task:{t}/device:CPU:{k}" for t in (0, 1) for k in (0, 1)]

    def at(task, k):
        return tf.device(f"/job:w/task:{task}/device:CPU:{k}")
    with at(0, 0):
        a = tf.constant([1.0], name="a")
    with at(0, 1):
        b = tf.negative(a, name="b")
    with at(1, 0):
        c = tf.negative(b, name="c")
    with at(1, 1):
        d = tf.add(b, c, name="d")
    parts = split([d], by="task", names=names)
    assert [p.name for p in parts] == [f"/job:w/replica:0/task:{t}" for t in (0, 1)]
    assert [count(p, "_Send") for p in parts] == [2, 2], "one between the tasks: b"
    with pytest.raises(ValueError, match="device, task"):
        split([d], by="rack", names=names)


def test_a_loop_without_a_condition_is_refused():
    def node_of(name, op, inputs=(), device=0, **attrs):
        attrs = {"T": tf.float32, **attrs}
        if op == "Const":
            attrs = {"dtype": tf.float32, "value": 1.0}
        return node.Node(name, op, [(i, 0) for i in inputs], attrs=attrs, device=CPU[device],
                         types=(tf.float32,))
    start = node_of("start", "Const")
    enter = node_of("enter", "Enter", [start], frame_name="f", is_constant=True)
    away = node_of("away", "Neg", [enter])
    back = node_of("back", "Neg", [away], 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'f' has no LoopCond"):
        partition_split.split(node.Graph([start, enter, away, back]))


def test_a_cycle_through_two_devices_is_refused():
    a = node.Node("a", "Neg", attrs={"T": tf.float32}, device=CPU[0], types=(tf.float32,))
    b = node.Node("b", "Neg", [(a, 0)], attrs={"T": tf.float32}, device=CPU[1], types=(tf.float32,))
    a.inputs = [(b, 0)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="cycle through node 'a'"):
        partition_split.split(node.Graph([a, b]))


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for make in GRAPHS:
        with tf.Graph().as_default():
            (GOLDEN / f"{make.__name__}.txt").write_text(shown(make()))
