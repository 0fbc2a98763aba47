"""A graph per test, an op that never completes; the random graphs of tests/executor."""
import pathlib
import subprocess
import sys

import pytest

import pyflow as tf
from pyflow import plugins

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture(scope="session")
def forever(tmp_path_factory):
    """forever(x, name=...): waits until its step is cancelled (waiting_kernels.c)."""
    target = tmp_path_factory.mktemp("waiting") / "libwaiting.so"
    subprocess.run(["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-shared", "-fPIC",
                    "-I", str(HERE.parents[1] / "include"), str(HERE / "waiting_kernels.c"),
                    "-o", str(target)], check=True)
    tf.load_op_library(str(target))
    return plugins.op("waiting.Forever")
