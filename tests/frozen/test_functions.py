"""GraphDefs with functions and TensorLists that TensorFlow 2 wrote: imported, inlined, lowered; the
answers are TensorFlow's."""
import pathlib
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import function_models as models  # noqa: E402
import pyflow as tf  # noqa: E402
from frozen_graphs import Answers, load  # noqa: E402

ANSWERS = Answers("answers_functions.npz", 1e-5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", models.MODELS)
def test_model(name, threads):
    ANSWERS.check_model(name, ANSWERS[f"{name}/outputs"].tolist(), models.feeds(name), threads)


@pytest.mark.parametrize("name", sorted(set(models.MODELS) - set(models.LOWERED)))
def test_gradient(name):
    """Loops and branches made of functions are differentiated as if built here."""
    with tf.Graph().as_default() as graph:
        load(name, "net")
        inputs = [f"net/{x}" for x in ANSWERS[f"{name}/inputs"].tolist()]
        x = next(t for t in map(graph.get_tensor_by_name, inputs) if t.dtype.is_floating)
        outputs = [graph.get_tensor_by_name(f"net/{y}") for y in ANSWERS[f"{name}/outputs"]]
        loss = tf.add_n([tf.reduce_sum(y * y) for y in outputs if y.dtype.is_floating])
        gradient = tf.convert_to_tensor(tf.gradients(loss, x)[0])
        with tf.Session() as session:
            found = session.run(gradient, dict(zip(inputs, models.feeds(name))))
    wanted = ANSWERS[f"{name}/gradient"]
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["keras_lstm", "mapped", "branches"])
def test_the_graph_is_the_inlined_one(name):
    """No calls are left, the functions are kept: it is written, read and run again, under prefixes,
    twice in one graph."""
    with tf.Graph().as_default() as graph:
        load(name)
        written = graph.as_graph_def()
    assert written.library.function
    assert not {n.op for n in written.node} & {"While", "StatelessWhile", "If", "StatelessIf",
                                               "Case", "StatelessCase", "PartitionedCall"}
    outputs = ANSWERS[f"{name}/outputs"].tolist()
    with tf.Graph().as_default():
        for scope in ("a", "b"):
            tf.import_graph_def(written, name=scope)
        feeds = {f"{scope}/{x}": value for scope in ("a", "b") for x, value in
                 zip(ANSWERS[f"{name}/inputs"].tolist(), models.feeds(name))}
        with tf.Session() as session:
            found = session.run([f"{s}/{y}" for s in ("a", "b") for y in outputs], feeds)
    for index, value in enumerate(found):
        ANSWERS.check(value, name, index % len(outputs))


@pytest.mark.parametrize("name", ["keras_gru", "keras_simple_rnn"])
def test_command_line(name, tmp_path):
    """python -m pyflow check finds nothing missing; run computes the output from the one input."""
    np.save(tmp_path / "x.npy", models.feeds(name)[0])
    model = str(HERE / f"{name}.pb")
    for command in (["check", model],
                    ["run", model, "--input", str(tmp_path / "x.npy"), "--save",
                     str(tmp_path / "found.npz")]):
        done = subprocess.run([sys.executable, "-P", "-m", "pyflow", *command],
                              capture_output=True, text=True, cwd=HERE.parents[1])
        assert done.returncode == 0, done.stdout + done.stderr
        assert command[0] == "run" or "nothing is missing" in done.stdout
    found = np.load(tmp_path / "found.npz")
    assert found.files == ["Identity:0"]
    ANSWERS.check(found["Identity:0"], name, 0)
