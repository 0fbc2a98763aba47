"""Makes the helpers of this folder importable, and gives every test a default graph of its own."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture
def graph():
    from pyflow.framework.graph import Graph
    with Graph().as_default() as g:
        yield g
