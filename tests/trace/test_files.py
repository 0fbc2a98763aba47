"""PYFLOW_TRACE: one valid file per process, whatever ends it; its limit; its reader."""

import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from trace_events import problems, slices

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

PROGRAM = """
import os, sys, threading, time
import numpy as np, pyflow as tf
x = tf.placeholder(tf.float32, [None, 256], name="x")
left = tf.matmul(x, x, transpose_b=True, name="left")
right = tf.matmul(x * 2, x, transpose_b=True, name="right")
total = tf.reduce_sum(tf.add(left, right, name="both"), name="total")
_, loop = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.sqrt(v, name="root")),
                        [tf.constant(0), total])
call = tf.py_func(lambda v: v * 2, [loop], tf.float32)
bad = tf.gather(tf.reshape(total, [1]), [7], name="bad")
with tf.Session(threads=2) as session:
    for _ in range(STEPS):
        session.run(call, {x: np.ones((300, 256), np.float32)})
    END
"""


def run(tmp_path, end="pass", steps=3, name="t.json", **env):
    path = tmp_path / name
    program = PROGRAM.replace("STEPS", str(steps)).replace("END", end)
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True,
                          env=dict(os.environ, PYFLOW_TRACE=str(path), **env))
    return path, done


def read(path):
    with (gzip.open if path.name.endswith(".gz") else open)(path, "rt") as f:
        return json.load(f)


@pytest.mark.parametrize("end, status, name", [
    ("pass", 0, "t.json"), ("pass", 0, "t.json.gz"), ("raise SystemExit(3)", 3, "t.json"),
    ("session.run(bad, {x: np.ones((2, 256), np.float32)})", 1, "t.json")])
def test_a_process_leaves_one_valid_trace(tmp_path, end, status, name):
    path, done = run(tmp_path, end, name=name)
    assert done.returncode == status, done.stderr
    trace = read(path)
    assert problems(trace) == []
    assert os.listdir(tmp_path) == [name]
    events = trace["traceEvents"]
    steps = [e for e in events if e.get("cat") == "step"]
    assert len(steps) == 3 + (status == 1)
    kernels = [e for e in events if e.get("cat") == "kernel"]
    left = [e for e in kernels if e["args"]["node"] == "left"]
    assert len(left) == len(steps) and all(e["name"] == "MatMul" for e in left)
    assert {tuple(e["args"]["outputs"][0]) for e in left[:3]} == {(300, 300)}
    roots = [e["args"]["iteration"] for e in kernels if e["args"]["node"] == "while/root"]
    assert sorted(roots) == sorted(3 * [f"while/while_context:{k}" for k in range(3)])
    failed = [e["args"]["node"] for e in events if e.get("args", {}).get("failed")]
    assert failed == ["bad"] * (status == 1)
    assert sum(e["ph"] == "b" and e["cat"] == "async" for e in events) == 3
    assert {e["name"] for e in events if e["ph"] == "C"} == {"allocator in use"}
    lines = trace["otherData"]["plans"][0]["lines"]
    assert lines["left"].endswith("<string>:5")


def test_arrows_cross_threads(tmp_path):
    path, _ = run(tmp_path, steps=40)
    trace = read(path)
    assert problems(trace) == []
    events = trace["traceEvents"]
    worked = {track for track, members in slices(events).items()
              if any(m[2]["cat"] in ("kernel", "chunk") for m in members)}
    assert len(worked) == 2
    flows = [e for e in events if e["ph"] in "sf"]
    assert flows and len({e["tid"] for e in flows}) == 2


def test_a_killed_process_leaves_what_it_recorded(tmp_path):
    path, done = run(tmp_path, "time.sleep(1.1); session.run(call, {x: np.ones((3, 256), "
                     "np.float32)}); os.kill(os.getpid(), 9)")
    assert done.returncode == -signal.SIGKILL and os.listdir(tmp_path) == ["t.json.part"]
    shown = subprocess.run([sys.executable, "-m", "pyflow", "trace", str(path)], text=True,
                           capture_output=True, cwd=ROOT)
    assert shown.returncode == 0 and shown.stdout.startswith("4 steps"), shown.stderr
    torn = tmp_path / "torn.part"
    torn.write_bytes((tmp_path / "t.json.part").read_bytes()[:-1000])
    shown = subprocess.run([sys.executable, "-m", "pyflow", "trace", str(torn)], text=True,
                           capture_output=True, cwd=ROOT)
    assert shown.returncode == 0, shown.stderr


def test_a_trace_stops_at_its_limit(tmp_path):
    path, done = run(tmp_path, steps=1500, PYFLOW_TRACE_MB="1")
    assert done.returncode == 0 and "PYFLOW_TRACE_MB" in done.stderr
    trace = read(path)
    assert problems(trace) == [] and trace["otherData"]["cut"] is True
    assert 10 < sum(e.get("cat") == "step" for e in trace["traceEvents"]) < 1500


def test_a_forked_child_writes_its_own_file(tmp_path):
    path, done = run(tmp_path, "pid = os.fork()\n"
                     "    session2 = tf.Session(threads=2)\n"
                     "    session2.run(total, {x: np.ones((3, 256), np.float32)})\n"
                     "    if pid: os.waitpid(pid, 0); print(pid)\n")
    assert done.returncode == 0, done.stderr
    child = pathlib.Path(f"{path}.{done.stdout.strip()}")
    assert problems(read(path)) == [] and problems(read(child)) == []
    assert sum(e.get("cat") == "step" for e in read(path)["traceEvents"]) == 4
    assert sum(e.get("cat") == "step" for e in read(child)["traceEvents"]) == 1


def test_the_checker_sees_mistakes(tmp_path):
    path, _ = run(tmp_path, steps=1)
    trace = read(path)
    one = next(e for e in trace["traceEvents"] if e["ph"] == "X")
    for change in ({"dur": -1}, {"ts": "0"}, {"ph": "Q"}, {"tid": 77}, {"dur": 1e9, "cat": "x"}):
        broken = [e if e is not one else {**e, **change} for e in trace["traceEvents"]]
        if change.get("cat") == "x":
            inner = [e for e in trace["traceEvents"] if e["ph"] == "X"][1]
            broken = [e if e is not inner else {**e, **change} for e in trace["traceEvents"]]
        assert problems({"traceEvents": broken}), change
    lost = [e for e in trace["traceEvents"] if e["ph"] != "e"]
    assert problems({"traceEvents": lost})
