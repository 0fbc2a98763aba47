"""The timing plugin, built once per session."""
import pathlib
import subprocess

import pytest

import pyflow as tf
from pyflow import _executor, plugins

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def timing(tmp_path_factory):
    """timing("Sleep")(x, ms=5): an op of timing_kernels.c."""
    target = tmp_path_factory.mktemp("timing") / "libtiming.so"
    subprocess.run(["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-shared", "-fPIC", "-I", str(HERE.parents[1] / "include"),
                    str(HERE / "timing_kernels.c"), "-o", str(target)], check=True)
    if not any(name == "timing.Sleep" for name, *_ in _executor.plugin_ops()):
        tf.load_op_library(str(target))         # else the tests of traces have loaded it
    return lambda name: plugins.op("timing." + name)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph
