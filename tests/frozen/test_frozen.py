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

ANSWERS = np.load(HERE / "answers.npz")
TOLERANCE = {"rtol": 2e-5, "atol": 2e-5}


def check(found, name, index):
    wanted = ANSWERS[f"{name}/out{index}"]
    found = np.asarray(found)
    if found.dtype == object:
        found = found.astype("S")
    assert found.shape == wanted.shape
    if wanted.dtype.kind == "f":
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, **TOLERANCE)
    else:
        np.testing.assert_array_equal(found, wanted)


def load(name):
    graph_def = tf.GraphDef.FromString((HERE / f"{name}.pb").read_bytes())
    tf.import_graph_def(graph_def, name="")
    return graph_def


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", models.MODELS)
def test_model(name, threads):
    with tf.Graph().as_default():
        load(name)
        count = sum(key.startswith(f"{name}/out") for key in ANSWERS.files)
        feeds = dict(zip(ANSWERS[f"{name}/inputs"].tolist(), models.feeds(name)))
        with tf.Session(threads=threads) as session:
            for _ in range(2):                      # constants are prepared by the first run
                found = session.run([f"out{i}:0" for i in range(count)], feeds)
                for index, value in enumerate(found):
                    check(value, name, index)


def test_function_of_tensorflow_2_frozen():
    with tf.Graph().as_default():
        load("functional")
        (name,) = ANSWERS["functional/inputs"].tolist()
        with tf.Session() as session:
            found = session.run(str(ANSWERS["functional/output"]), {name: ANSWERS["functional/x"]})
    np.testing.assert_allclose(found, ANSWERS["functional/out"], **TOLERANCE)


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
    check(np.load(tmp_path / "found.npz")["out0:0"], name, 0)
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
