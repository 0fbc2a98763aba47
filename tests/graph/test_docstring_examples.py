"""The symbols that TF 1.x programs use most explain their arguments and show an example that runs.

most_used.txt lists them, most used first: what public programs of the time call, counted, as far as
pyflow has it.  An example runs as a reader would paste it, behind `import pyflow as tf`, with the
global default graph empty.
"""
import doctest
import inspect
import logging
import pathlib
import re
import types

import numpy as np
import pytest

import pyflow as tf

NAMES = (pathlib.Path(__file__).parent / "most_used.txt").read_text(encoding="utf-8").split()
# What cannot hold a docstring of ours, and why.
NOT_OURS = {
    "tf.__version__": "text", "tf.logging.INFO": "a number",
    "tf.logging.info": "a method of Python's logger", "tf.app.flags": "a module",
    "tf.ConfigProto": "a class protobuf makes", "tf.GraphDef": "a class protobuf makes",
}
UNSAID = {"name", "self", "args", "kwargs", "unused"}        # name: of the node, everywhere


def value_of(symbol):
    found = tf
    for part in symbol.split(".")[1:]:
        found = getattr(found, part)
    return found


def docstring(value):
    """Of a function, a class, an op's block, or the class of the value."""
    kind = type(value)
    return inspect.getdoc(kind if kind.__module__.startswith("pyflow") and
                          kind.__name__ in ("DType", "_Flags") else value) or ""


def parameters(value):
    if isinstance(value, tf.DType) or type(value).__name__ == "_Flags":
        return set()
    if hasattr(value, "inputs") and hasattr(value, "attrs"):          # an op: its schema's own
        return {arg.name for arg in value.inputs}
    return {name for name in inspect.signature(value).parameters
            if name not in UNSAID and not name.startswith("_")}


def test_the_list():
    assert len(NAMES) == len(set(NAMES)) == 200
    for name, reason in NOT_OURS.items():
        value = value_of(name)
        assert reason and name in NAMES
        assert isinstance(value, (str, int, types.ModuleType)) or \
            isinstance(getattr(value, "__self__", None), logging.Logger) or \
            type(value).__module__.startswith("google."), name


FIRST = {}                                      # docstring: the first symbol that has it
for _name in NAMES:
    if _name not in NOT_OURS:
        FIRST.setdefault(docstring(value_of(_name)), _name)


class Checker(doctest.OutputChecker):
    """NumPy 1 writes numbers without their type: 2.0 for np.float32(2.0)."""

    def check_output(self, want, got, optionflags):
        want, got = (re.sub(r"np\.\w+\((.*?)\)", r"\1", text) for text in (want, got))
        return super().check_output(want, got, optionflags)


@pytest.mark.parametrize("symbol", FIRST.values())
def test_it_explains_its_arguments_and_its_example_runs(symbol):
    value = value_of(symbol)
    text = docstring(value)
    unsaid = parameters(value) - set(re.findall(r"\w+", text.split(">>>")[0]))
    assert not unsaid, f"{symbol}: say what these are: {unsaid}"
    test = doctest.DocTestParser().get_doctest(text, {"tf": tf, "np": np}, symbol, None, 0)
    assert test.examples, f"{symbol}: show an example"
    tf.reset_default_graph()
    failures = []
    doctest.DocTestRunner(Checker()).run(test, out=failures.append)
    assert not failures, "".join(failures)


def test_the_checker_tells_numbers_apart():
    same = Checker().check_output
    assert same("[np.float32(2.0)]\n", "[2.0]\n", 0) and not same("2.0\n", "np.float32(2.5)\n", 0)
