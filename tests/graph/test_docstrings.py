"""Everything public in `tf` says what it is; ops say dtypes, shapes, errors and source."""
import inspect
import re
import types

import pyflow as tf
from pyflow import _names
from pyflow.framework import op as op_lib

HEADINGS = ("Dtypes:", "Shapes:", "Raises:", "Source:")


def public(module=tf, prefix="tf."):
    """{dotted name: value} of tf and its namespaces."""
    found = {}
    for name in dir(module):
        if name.startswith("_") or name in ("compat", "v1", "raw_ops"):
            continue
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            if "__getattr__" in vars(value) or name in _names.LAZY and prefix == "tf.":
                found.update(public(value, f"{prefix}{name}.") if value is not tf else {})
        elif (getattr(value, "__module__", "") or "").startswith("pyflow"):
            found[prefix + name] = value
    return found


NAMES = public()


def test_there_is_much_to_look_at():
    assert len(NAMES) > 600 and "tf.nn.relu" in NAMES and "tf.train.Saver" in NAMES


def test_functions_and_classes_have_docstrings():
    missing = [name for name, value in NAMES.items()
               if (inspect.isfunction(value) or inspect.isclass(value))
               and not (inspect.getdoc(value) or "").strip()]
    assert not missing, missing


def test_ops_say_dtypes_shapes_errors_and_source():
    ops = {name: value for name, value in NAMES.items() if isinstance(value, op_lib.OpDef)}
    assert len(ops) > 150
    for name, op in ops.items():
        text = inspect.getdoc(op)
        assert op.doc.strip() and text.startswith(op.doc.strip()[:20]), name
        for heading in HEADINGS:
            assert re.search(rf"^{heading} \S", text, re.M), f"{name}: no {heading}"
        assert all(arg.name in text for arg in [*op.inputs, *op.outputs]), name


def test_the_class_keeps_its_own():
    assert inspect.getdoc(op_lib.OpDef).startswith("An op type")
