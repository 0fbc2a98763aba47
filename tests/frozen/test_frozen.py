"""Frozen graphs that TensorFlow wrote: pyflow imports them and gives TensorFlow's answers, from
Python and from the command line."""
import pathlib
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import frozen_models as models  # noqa: E402
import pyflow as tf  # noqa: E402
from frozen_graphs import Answers, load  # noqa: E402

ANSWERS = Answers("answers.npz", 2e-5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", models.MODELS)
def test_model(name, threads):
    outputs = [f"out{i}:0" for i in range(ANSWERS.count(name))]
    ANSWERS.check_model(name, outputs, models.feeds(name), threads)


def test_function_of_tensorflow_2_frozen():
    with tf.Graph().as_default():
        load("functional")
        (name,) = ANSWERS["functional/inputs"].tolist()
        with tf.Session() as session:
            found = session.run(str(ANSWERS["functional/output"]), {name: ANSWERS["functional/x"]})
    np.testing.assert_allclose(found, ANSWERS["functional/out"],
                               rtol=ANSWERS.tolerance, atol=ANSWERS.tolerance)


@pytest.mark.parametrize("name", ["lenet", "lstm"])
def test_command_line(name, tmp_path):
    """python -m pyflow run MODEL --input FILE.npy: one file for each input, in their order."""
    files = []
    for index, array in enumerate(models.feeds(name)):
        files += ["--input", tmp_path / f"{index}.npy"]
        np.save(files[-1], array)
    command = [sys.executable, "-P", "-m", "pyflow", "run", HERE / f"{name}.pb", *files,
               "--fetch", "out0", "--save", tmp_path / "found.npz", "--profile"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          cwd=HERE.parents[1])
    assert done.returncode == 0, done.stderr
    ANSWERS.check(np.load(tmp_path / "found.npz")["out0:0"], name, 0)
    assert "MatMul" in done.stdout and "critical path" in done.stdout


@pytest.mark.parametrize("use_resource", [False, True])
def test_an_embedding_freezes(use_resource):
    """A variable that is gathered from, by reference or as a resource (ResourceGather)."""
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        variable = tf.Variable(table, use_resource=use_resource)
        ids = tf.placeholder(tf.int32, [None], name="ids")
        tf.identity(tf.nn.embedding_lookup(variable, ids) * 2, name="y")
        session.run(tf.global_variables_initializer())
        frozen = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["y"])
    assert not {n.op for n in frozen.node} & {"VarHandleOp", "VariableV2", "ResourceGather"}
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(frozen, name="")
        np.testing.assert_array_equal(session.run("y:0", {"ids:0": [3, 0]}), table[[3, 0]] * 2)
