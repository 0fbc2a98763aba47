"""examples/fine_tune.py as a user runs it: it trains, writes, and reads again what it wrote."""
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import pyflow as tf
from pyflow.interop import onnx

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "examples" / "fine_tune.py"


def run(*arguments):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}    # its own folder
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True,
                          timeout=120, env=environment)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """(the model's path, what the program printed)."""
    path = tmp_path_factory.mktemp("tuned") / "new.onnx"
    done = run("--seeds", "0", "1", "--write", str(path))
    assert done.returncode == 0, done.stderr
    return path, done.stdout


def test_turned_digits_are_learnt_with_each_seed(tuned):
    path, out = tuned
    shares = [tuple(map(float, pair)) for pair in
              re.findall(r"reads (\S+) before, (\S+) after", out)]
    assert len(shares) == 2 and all(before < 0.4 and after > 0.93 for before, after in shares)


def test_the_written_model_reads_turned_digits(tuned):
    """In another process, through another import; whatever the number of images."""
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        import datasets
    finally:
        sys.path.remove(str(SCRIPT.parent))
    _, (images, labels) = datasets.digits(1)
    [read] = onnx.prepare(str(tuned[0])).run([np.rot90(images, axes=(1, 2)).copy()])
    assert read.shape == (360, 10) and np.mean(read.argmax(1) == labels) > 0.93


def test_the_written_model_can_be_trained_again(tuned):
    with tf.Graph().as_default():
        model = onnx.import_model(str(tuned[0]), trainable=True)
        assert len(model.variables) == len(tf.trainable_variables()) == 8


def test_a_model_that_reads_no_lines(tuned):
    done = run("--model", str(tuned[0]))
    assert done.returncode != 0 and "expected images [n, 3, 48, width]" in done.stderr
