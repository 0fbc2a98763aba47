"""A fresh graph per test; line numbers of marked lines of a test's own file."""
import inspect

import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def line_of(request):
    """line_of("a mark"): the number of the line of this test that ends in `# a mark`."""
    lines, first = inspect.getsourcelines(request.function)

    def find(mark):
        [number] = [first + k for k, line in enumerate(lines)
                    if line.rstrip().endswith(f"# {mark}")]
        return number
    return find
