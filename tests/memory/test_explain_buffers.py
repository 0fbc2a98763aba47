"""`python -m pyflow explain --buffers`: the plan of the buffers, and that it keeps what it says."""

import re

import numpy as np
import pytest

import pyflow as tf
from pyflow.tools import buffers, explain


def chain(size):
    """cumsum -> sqrt -> reshape -> cumsum -> sum: nothing here is fused."""
    x = tf.placeholder(tf.float32, [None, size], name="x")
    first = tf.cumsum(x, name="first")
    flat = tf.reshape(tf.sqrt(first, name="root"), [-1], name="flat")
    tf.reduce_sum(tf.cumsum(flat, name="second"), name="total")
    return tf.get_default_graph().as_graph_def()


def rows(lines):
    """{output: (where, bytes, note)} of the table."""
    found = {}
    for line in lines:
        match = re.match(r"(\S.*?)  +(\S+)  (\S+) \(\w+\) *(.*)", line)
        if match and not line.startswith("#"):
            found[match.group(3)] = match.group(1), match.group(2), match.group(4)
    return found


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def test_places_in_place_and_shared():
    lines = list(buffers.lines(chain(1024), batch=1024))
    size = 4 << 20
    assert rows(lines) == {
        "first": (f"0+{size}", f"{size:,}", "until second"),
        "root": ("in place of 0", f"{size:,}", "until second"),
        "flat": ("shares 0", f"{size:,}", "until second"),
        "second": (f"{size}+{size}", f"{size:,}", "until total"),
        "total": ("heap", "4", "small: from its thread's cache"),
    }
    assert lines[-3].startswith("# outputs: 2 planned, 1 in place, 1 share their input's bytes, 1 on")
    assert lines[-2] == (f"# {2 * size:,} bytes planned for buffers of {2 * size:,}; at most "
                         f"{2 * size:,} of them alive at once")
    assert lines[-1] == "# fed: x:0"


def test_a_program_of_elements_is_in_place():
    x = tf.cumsum(tf.placeholder(tf.float32, [1024, 1024], name="x"), name="first")
    tf.reduce_sum(tf.exp(x) * 2 + 1, name="total")
    found = rows(buffers.lines(tf.get_default_graph().as_graph_def()))
    assert len(found) == 3 and found["add"][0] == "in place of 0"


def test_why_outputs_have_no_place():
    graph = chain(1024)
    assert rows(buffers.lines(graph))["first"] == ("heap", "?", "size not known before running")
    few = rows(buffers.lines(chain_of(chain, 128), batch=128))
    assert few["first"][2] == "the whole plan needs less than 1 MB"
    fetched = rows(buffers.lines(graph, ["first", "total:0"], batch=1024))
    assert fetched["first"][0] == "heap" and "may leave the step" in fetched["first"][2]


def chain_of(build, size):
    with tf.Graph().as_default():
        return build(size)


def training():
    x = tf.placeholder(tf.float32, [256, 300], name="x")
    y = x
    for i in range(5):
        w = tf.Variable(np.ones((300, 300), np.float32), name=f"w{i}")
        y = tf.cumsum(tf.matmul(tf.tanh(y), w, name=f"product{i}"), name=f"sum{i}")
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_mean(y))
    return x, train


def test_no_two_buffers_share_bytes_while_alive():
    x, train = training()
    with tf.Session(threads=1) as session:
        plan = session._compiler.compile([], [train], [x]).plan
    places = plan.places()
    order = {}
    for place in places:
        order.setdefault(place[0], len(order))
    planned = [(offset, offset + size, order[first], order[last])
               for _, _, _, size, how, offset, _, _, first, last in places
               if how == "planned" and last in order]
    assert len(planned) > 10
    for i, a in enumerate(planned):
        for b in planned[:i]:
            together = a[2] <= b[3] and b[2] <= a[3]
            assert not (together and a[0] < b[1] and b[0] < a[1]), (a, b)
    assert max(end for _, end, _, _ in planned) <= plan.buffers()["planned"]
    of_buffer = {}
    for place in places:
        if place[7] is not None:
            of_buffer.setdefault(place[7], set()).add(place[8:])
    assert all(len(lifetimes) == 1 for lifetimes in of_buffer.values())


def test_the_command(tmp_path, capsys):
    path = tmp_path / "g.pb"
    path.write_bytes(chain(1024).SerializeToString())
    assert explain.main([str(path), "--buffers", "--batch", "1024", "--fetch", "total"]) == 0
    assert "in place of 0" in capsys.readouterr().out
    assert explain.main([str(path), "--buffers", "--fetch", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert explain.main([str(tmp_path / "missing.pb"), "--buffers"]) == 2
