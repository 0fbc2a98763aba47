"""A trained digit classifier, frozen to a file, gives the same logits bit for bit in a C program
that has no Python in it."""

import importlib.resources
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import pyflow as tf

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def digits():
    """The example's own data and model."""
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import datasets
        import models

        yield datasets, models
    finally:
        sys.path.remove(str(ROOT / "examples"))


@pytest.fixture(scope="module")
def frozen(digits, tmp_path_factory):
    """-> (folder with digits.pb and images.bin, images, Python's logits, accuracy)."""
    datasets, models = digits
    folder = tmp_path_factory.mktemp("frozen")
    train, test = datasets.digits(seed=0)
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(0)
        x, y = tf.placeholder(tf.float32, [None, 8, 8, 1], name="x"), tf.placeholder(
            tf.int64, [None]
        )
        logits = tf.identity(models.convnet(x, 1.0), name="scores")
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        )
        step = tf.train.AdamOptimizer(2e-3).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for epoch in range(10):
                for images, labels in datasets.batches(train, 50, epoch):
                    session.run(step, {x: images, y: labels})
            graph_def = tf.graph_util.convert_variables_to_constants(
                session, graph.as_graph_def(), ["scores"]
            )
            found = session.run(logits, {x: test[0]})
    (folder / "digits.pb").write_bytes(graph_def.SerializeToString())
    (folder / "images.bin").write_bytes(test[0].tobytes())
    return folder, test[0], found, (found.argmax(1) == test[1]).mean()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    target = tmp_path_factory.mktemp("program") / "main"
    lib = (importlib.resources.files("pyflow") / "lib" / "libpyflow_rt.so").parent
    command = [
        "cc",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O1",
        "-I",
        ROOT / "include",
        ROOT / "examples/02_without_python/main.c",
        "-L",
        lib,
        "-lpyflow_rt",
        f"-Wl,-rpath,{lib}",
        "-o",
        target,
    ]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def test_the_classifier_is_trained(frozen):
    assert frozen[3] > 0.95


def test_the_frozen_graph_has_no_variables_and_runs_in_a_session(frozen):
    folder, images, wanted, _ = frozen
    graph_def = tf.GraphDef.FromString((folder / "digits.pb").read_bytes())
    assert not {n.op for n in graph_def.node} & {"VariableV2", "VarHandleOp", "Assign"}
    with tf.Graph().as_default():
        (logits,) = tf.import_graph_def(graph_def, return_elements=["scores:0"], name="")
        with tf.Session() as session:
            found = session.run(logits, {"x:0": images})
    # constant weights are packed and fused with what follows: the same sums in another order
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_c_gives_the_same_logits_bit_for_bit(frozen, program, threads):
    folder, images, wanted, _ = frozen
    plugin = importlib.resources.files("pyflow_cpu") / "libpyflow_cpu.so"
    done = subprocess.run(
        [str(program), str(plugin), "digits.pb", "images.bin", "logits.bin", str(threads)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"LC_ALL": "C"},
    )
    assert done.returncode == 0, done.stderr
    found = np.fromfile(folder / "logits.bin", np.float32).reshape(-1, 10)
    assert found.tobytes() == wanted.tobytes()
    assert "nothing" in done.stdout.splitlines()[0], "an unknown output is named"


def test_the_program_loads_no_python(program):
    listed = subprocess.check_output(["ldd", str(program)], text=True)
    assert not re.search("libpython", listed) and "libpyflow_rt" in listed
