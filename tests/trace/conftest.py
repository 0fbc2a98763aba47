"""The timing kernels, and a graph per test."""

import os
import pathlib
import subprocess
import sys

import pytest

import pyflow as tf
from pyflow import _executor, plugins

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
HERE = pathlib.Path(__file__).resolve().parent
KERNELS = HERE.parent / "executor" / "timing_kernels.c"


@pytest.fixture(scope="session")
def timing(tmp_path_factory):
    """timing("Sleep")(x, ms=5): an op of timing_kernels.c."""
    target = tmp_path_factory.mktemp("timing") / "libtiming.so"
    subprocess.run(["cc", "-std=gnu11", "-O1", "-shared", "-fPIC",
                    "-I", str(HERE.parents[1] / "include"), str(KERNELS), "-o", str(target)],
                   check=True)
    if not any(name == "timing.Sleep" for name, *_ in _executor.plugin_ops()):
        tf.load_op_library(str(target))         # else the executor's tests have loaded it
    return lambda name: plugins.op("timing." + name)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph
