"""A fresh graph per test; this folder's modules, and those of tests/queues, can be imported."""
import pathlib
import sys

import pytest

import pyflow as tf

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "queues")]


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph
