"""What `?`, `??` and help() show of a public function: a signature that says the arguments, and a
source.  Of an op both come from its block."""
import inspect
import pydoc
import re
import types

import numpy as np
import pytest

import pyflow as tf
from pyflow import _names
from pyflow.framework import op as op_lib

NAMES = sorted({*_names.HOMES, *_names.ELSEWHERE,
                *" ".join(_names.FRAMEWORK.values()).split()})
# They hand the arguments on to a function they are given.
TAKE_ANYTHING = {"ragged.map_flat_values", "contrib.layers.repeat", "contrib.slim.repeat"}


def value_of(path):
    found = tf
    for part in path.split("."):
        found = getattr(found, part)
    return found


FUNCTIONS = {path: value for path in NAMES
             if callable(value := value_of(path)) and not isinstance(value, (type, types.ModuleType))}
OPS = op_lib.registered_ops()


def test_signatures_say_the_arguments():
    assert len(FUNCTIONS) > 1000 and sum(isinstance(f, op_lib.OpDef) for f in FUNCTIONS.values()) > 190
    silent = [path for path, function in FUNCTIONS.items()
              if {"args", "kwargs"} <= set(inspect.signature(function).parameters)]
    assert set(silent) == TAKE_ANYTHING


def test_functions_have_a_source():
    plain = [f for f in FUNCTIONS.values() if not isinstance(f, op_lib.OpDef)]
    for function in plain[::4]:
        function = getattr(function, "func", function)      # of a functools.partial, as in TF
        assert inspect.getsource(function).strip(), function


def test_the_source_of_an_op_is_its_block():
    """Of one op of each module; finding a class in a file takes inspect several ms."""
    ours = {name: op for name, op in OPS.items() if op.module}
    one_a_module = {op.module: op for op in ours.values()}
    assert len(ours) > 660 and all(inspect.isclass(op.__wrapped__) for op in ours.values())
    for op in one_a_module.values():
        assert re.search(r"^ *class \w+:$", inspect.getsource(op), re.M), op.name
    assert '@op("MatMul"' in inspect.getsource(tf.raw_ops.MatMul)


@pytest.mark.parametrize("op, text", [
    ("Acos", "(x, name=None)"),
    ("MaxPool", "(input, ksize, strides, padding, explicit_paddings=[], data_format='NHWC', name=None)"),
    ("ConcatV2", "(values, axis, name=None)"),
    ("Assert", "(condition, data, summarize=3, name=None)"),
])
def test_the_signature_of_an_op(op, text):
    assert str(inspect.signature(OPS[op])) == text
    assert f"Call: {op}{text}" in pydoc.plain(pydoc.render_doc(OPS[op]))


def test_calls_bind_as_the_signature_says():
    """Of all ops: what it takes, in its order and by its names, the call takes."""
    for op in OPS.values():
        names = list(inspect.signature(op).parameters)
        assert names == [*op.call_plan.input_names, *op.call_plan.attr_order, "name"], op.name
    with tf.Graph().as_default(), tf.Session() as sess:
        op = OPS["MatMul"]
        bound = inspect.signature(op).bind([[1.0]], [[2.0], [3.0]], False, True, name="m")
        y = op(**bound.arguments)
        assert y.op.name == "m"
        np.testing.assert_array_equal(sess.run(y), [[2.0, 3.0]])


def test_an_op_of_a_plugin_with_a_keyword_as_argument():
    op = op_lib.op_from_signature("Acme.Odd", "lambda: float, x: float -> y: float; name: string = \"\"")
    assert str(inspect.signature(op)) == "(lambda_, x, name=None)"


def test_meshgrid_refuses_what_it_does_not_take():
    assert str(inspect.signature(tf.meshgrid)) == "(*args, indexing='xy', name='meshgrid')"
    with pytest.raises(TypeError, match="sparse"):
        tf.meshgrid([1.0], [2.0], sparse=True)
