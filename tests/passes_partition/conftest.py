"""A graph per test; the random graphs and the naive interpreter of tests/executor."""
import pathlib
import sys

import pytest

import pyflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "executor"))


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph
