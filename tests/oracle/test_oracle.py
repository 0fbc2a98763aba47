"""pyflow against TensorFlow's recorded answers (record.py): values, gradients, whole programs, and
GraphDefs both ways."""

import json
import os
import pathlib
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import cases  # noqa: E402
import export  # noqa: E402
import pyflow as tf  # noqa: E402

OPS, SCRIPTS = cases.load_all()
RECORDED = pathlib.Path(os.environ.get("PYFLOW_ORACLE", HERE))  # record.py --into


def recorded(folder):
    """{key: array} of all areas."""
    found = {}
    for path in sorted((RECORDED / folder).glob("*.npz")):
        with np.load(path) as file:
            found.update(file)
    return found


ANSWERS, GRAPHS = recorded("answers"), recorded("graphs")
cases.seed = int(ANSWERS["seed"])
OURS = {}
for _path in (HERE / "ours").glob("*.json"):
    OURS.update(json.loads(_path.read_text(encoding="utf-8")))
KEYS = {}
for _key in ANSWERS:
    KEYS.setdefault(_key.split("/", 1)[0], []).append(_key.split("/", 1)[-1])
BY_NAME = {case.name: case for case in OPS}

# Relative and absolute tolerance by the answer's type: rounding, not method, may differ.
TOLERANCE = {
    "float16": 4e-3,
    "float32": 2e-5,
    "float64": 1e-10,
    "complex64": 2e-5,
    "complex128": 1e-10,
}


def check(found, wanted, what):
    found = np.asarray(found)
    if found.dtype == object:
        found = found.astype("U")
    assert found.shape == wanted.shape, f"{what}: shape {found.shape}, TensorFlow {wanted.shape}"
    if wanted.dtype.kind in "fc":
        assert found.dtype == wanted.dtype, f"{what}: {found.dtype}, TensorFlow {wanted.dtype}"
        limit = TOLERANCE[wanted.dtype.name]
        np.testing.assert_allclose(found, wanted, rtol=limit, atol=limit, err_msg=what)
    else:
        if wanted.dtype.kind != "U":
            assert found.dtype == wanted.dtype, f"{what}: {found.dtype}, TensorFlow {wanted.dtype}"
        np.testing.assert_array_equal(found, wanted, err_msg=what)


@pytest.mark.parametrize("name", BY_NAME)
def test_op(name):
    """The expression, written with pyflow."""
    case = BY_NAME[name]
    with tf.Graph().as_default():
        inputs, outputs, gradients = cases.build(tf, case)
        keys = [f"out{i}" for i in range(len(outputs))] + [
            f"grad{i}" for i in range(len(gradients))
        ]
        assert sorted(keys) == sorted(KEYS[name])
        with tf.Session() as session:
            found = session.run(outputs + gradients, dict(zip(inputs, cases.arrays(case))))
    for key, array in zip(keys, found):
        check(array, ANSWERS[f"{name}/{key}"], key)


# Op types that TensorFlow 1.x did not write, or did for ragged tensors alone, and pyflow does not
# know (it writes other ops): a graph with one of them is refused, by its name.
NEWER = {"StatelessRandomGetKeyCounter", "StatelessRandomUniformV2", "StatelessRandomNormalV2",
         "StatelessTruncatedNormalV2", "StatelessRandomUniformIntV2",
         "StatelessRandomGammaV3", "RaggedTensorToTensor", "RaggedTensorToSparse"}


def refused(graph_def):
    """True, after checking the message, if the graph has op types of NEWER."""
    newer = {node.op for node in graph_def.node} & NEWER
    if newer:
        with tf.Graph().as_default(), pytest.raises(tf.errors.NotFoundError, match="|".join(newer)):
            tf.import_graph_def(graph_def, name="")
    return bool(newer)


@pytest.mark.parametrize("name", BY_NAME)
def test_graph_from_tensorflow(name):
    """The GraphDef that TensorFlow wrote, loaded and run."""
    graph_def = tf.GraphDef.FromString(GRAPHS[name].tobytes())
    if refused(graph_def):
        return
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        feeds = {f"x{i}:0": array for i, array in enumerate(cases.arrays(BY_NAME[name]))}
        with tf.Session() as session:
            found = session.run([key + ":0" for key in KEYS[name]], feeds)
    for key, array in zip(KEYS[name], found):
        check(array, ANSWERS[f"{name}/{key}"], key)


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name):
    with tf.Graph().as_default():
        found = SCRIPTS[name](tf)
    assert sorted(found) == sorted(KEYS[name])
    for key, array in found.items():
        check(array, ANSWERS[f"{name}/{key}"], key)


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_graph_from_tensorflow(name):
    """Graphs of whole programs load too: every op and attribute is known."""
    graph_def = tf.GraphDef.FromString(GRAPHS[name].tobytes())
    if refused(graph_def):
        return
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        assert len(graph.get_operations()) == len(graph_def.node)


@pytest.mark.parametrize("name", BY_NAME)
def test_graph_for_tensorflow(name):
    """TensorFlow 2.21 loaded and ran the very graph that pyflow writes today (recorded in
    ours/ by `long.py oracle`)."""
    assert OURS.get(name, {}).get("ok"), OURS.get(name)
    today = export.fingerprint(export.graph_of(tf, BY_NAME[name]))
    assert (
        OURS[name]["graph"] == today
    ), "pyflow's graph of this case has changed: `long.py oracle` asks TensorFlow again"
