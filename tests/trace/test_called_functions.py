"""Traces of steps that call functions of the graph's library: the bodies' nodes are in them."""
import json
import subprocess
import sys
import textwrap

import pyflow as tf
from pyflow.lib.function.defun import Defun


def called():
    @Defun(tf.float32, noinline=True)
    def inner(x):
        return tf.sin(x)

    @Defun(tf.float32, noinline=True)
    def outer(x):
        return inner(x) * x
    x = tf.placeholder(tf.float32, [2])
    y = outer(x)
    return x, [y, *tf.gradients(y, x)]


def test_nodes_of_called_functions_are_in_the_metadata():
    with tf.Graph().as_default():
        x, fetches = called()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        with tf.Session() as session:
            for _ in range(2):                  # the second finds what the first made
                metadata = tf.RunMetadata()
                session.run(fetches, {x: [1, 2]}, options=options, run_metadata=metadata)
                names = [node.node_name for device in metadata.step_stats.dev_stats
                         for node in device.node_stats]
                assert sum(name.endswith("/Sin") for name in names) >= 2, names
                assert any(name.endswith("/Cos") for name in names), names


PROGRAM = """
    import pyflow as tf
    from pyflow.lib.function.defun import Defun

    @Defun(tf.float32, noinline=True)
    def f(x):
        return tf.sin(x) * x
    y = f(tf.constant([1.0, 2.0]) + tf.random_uniform([2]))
    with tf.Session() as session:
        for _ in range(3):
            session.run(y)
"""


def test_a_trace_of_the_whole_program(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    import os
    done = subprocess.run([sys.executable, "-P", "program.py"], cwd=tmp_path, text=True,
                          capture_output=True, timeout=60,
                          env={**os.environ, "PYFLOW_TRACE": str(tmp_path / "t.json")})
    assert done.returncode == 0 and "KeyError" not in done.stderr, done.stderr
    events = json.loads((tmp_path / "t.json").read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    assert sum(event.get("name") == "Sin" for event in events) == 3
