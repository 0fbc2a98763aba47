"""A fresh graph per test; this folder's modules can be imported."""
import pathlib
import sys

import pytest

import pyflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph
