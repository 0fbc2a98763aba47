"""The table of passes: what it prints is what runs, in that order."""
import subprocess
import sys

import pyflow as tf
from pyflow.passes import pipeline


def dumped(folder):
    """The passes that PYFLOW_DUMP wrote of the first plan, in order."""
    first = min(folder.iterdir())           # numbered by plan of the process
    return [p.stem.partition("-")[2] for p in sorted(first.iterdir())]


def test_the_table_is_printed():
    ran = subprocess.run([sys.executable, "-m", "pyflow", "explain", "--passes"], capture_output=True,
                         text=True, check=True)
    lines = ran.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [row.name for row in pipeline.PASSES]
    assert all(row.does in line and row.when in line for row, line in zip(pipeline.PASSES, lines))


def test_plans_are_made_by_the_rows_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("PYFLOW_DUMP", str(tmp_path))
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [100])
        session.run(tf.exp(x * 2.0 + 1.0), {x: [0.0] * 100})
    names = [row.name for row in pipeline.PASSES]
    written = [name for name in dumped(tmp_path) if name in names]
    assert written == sorted(set(written), key=names.index)
    assert set(written) >= {row.name for row in pipeline.PASSES if row.shown}


def test_a_new_pass_is_one_row():
    seen = []
    row = pipeline.Pass("looked", "counts nodes", lambda graph, work: seen.append(len(graph.nodes)))
    with tf.Graph().as_default():
        from pyflow.passes import node
        graph = node.prune([tf.constant(1.0) + 2.0], [], [])
        result = pipeline.run(graph, pipeline.Work(pipeline.Options()), (row,))
    assert result is graph and seen == [len(graph.nodes)]
