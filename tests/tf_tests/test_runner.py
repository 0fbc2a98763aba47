"""By which rules run.py counts a test of TensorFlow's."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import textwrap

import pytest

HERE = pathlib.Path(__file__).resolve().parent
_spec = importlib.util.spec_from_file_location("tf_tests_run", HERE / "run.py")
run = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run)

MODULE = """
@tf_export("math.f", v1=["f"])
def f_v1(x): ...
@tf_export("g", v1=[])
def g(x): ...
h = tf_export("keras.h")(g)
def private(x): ...
tf_export("saved_model.K").export_constant(__name__, "K")
"""


def test_exported_names():
    assert run.exports(MODULE) == {"f_v1": ["f"], "g": ["keras.h"], "h": ["keras.h"],
                                   "K": ["saved_model.K"]}


def test_what_a_test_asked_for():
    there = {"python.ops.x": run.exports(MODULE)}
    reason = {missing: run.asked_for(missing, there.get) for missing in (
        "", "python.ops.x.f_v1", "python.ops.x.K", "python.ops.x.private", "python.ops.x.h",
        "python.none.y", "pyflow.framework.graph:Graph._c_graph", "pyflow.framework.graph:Graph.name",
        "core.framework.types_pb2.DataType", "contrib.testing.x", "python.ops.x.f_v1.attribute")}
    here = [missing for missing, why in reason.items() if not why]
    assert here == ["", "python.ops.x.f_v1", "python.ops.x.K",
                    "pyflow.framework.graph:Graph.name", "core.framework.types_pb2.DataType",
                    "python.ops.x.f_v1.attribute"]


FILE = """
import unittest
from tensorflow.python.eager import context, function
from tensorflow.python.framework import test_util
from tensorflow.python.ops import math_ops
from tensorflow.python.platform import test

class ATest(test.TestCase):
    @test_util.run_deprecated_v1
    def testPasses(self):
        with self.session():
            self.assertEqual(math_ops.reduce_sum_v1([1, 2]).eval(), 3)
    def testFails(self):
        self.assertEqual(1, 2)
    @function.defun
    def testDecorated(self):
        pass
    def testEager(self):
        with context.eager_mode():
            pass
    def testHangs(self):
        while True:
            pass
    @test_util.run_v2_only
    def testSkipped(self):
        pass
    def testDies(self):
        import os
        os._exit(3)
"""


@pytest.mark.long
def test_a_file_is_run(tmp_path):
    """A test that hangs and one that ends the process cost nothing but themselves."""
    root = tmp_path / "tensorflow/python/ops"
    root.mkdir(parents=True)
    (tmp_path / "tensorflow/python/framework").mkdir()
    (root / "a_test.py").write_text(textwrap.dedent(FILE))
    args = run._arguments(["--folder", str(tmp_path / "build"), "--seconds", "1",
                           "--python", sys.executable])
    rows, printed = run.run(root / "a_test.py", args)
    found = run.counted(rows, FILE, lambda missing: run.asked_for(missing, lambda module: {}))
    states = {name: test["state"] for name, test in found.items()}
    assert states == {"ATest.testDecorated": "absent", "ATest.testDies": "failed",
                      "ATest.testEager": "absent", "ATest.testFails": "failed",
                      "ATest.testHangs": "failed", "ATest.testPasses": "passed",
                      "ATest.testSkipped": "skipped"}, printed
    assert "ended with 3" in rows["ATest.testDies"]["said"]


def test_a_page(tmp_path):
    results = {"ops/a_test.py": {"A.b": {"state": "passed", "said": ""},
                                 "A.c": {"state": "failed", "said": "TypeError: `x`"},
                                 "A.d": {"state": "absent", "said": "eager execution: tf.x"}}}
    (tmp_path / "r.json").write_text(json.dumps(results))
    page = tmp_path / "r.md"
    subprocess.run([sys.executable, str(HERE / "run.py"), "--table", str(tmp_path / "r.json"),
                    "--report", str(page)], check=True, capture_output=True)
    text = page.read_text()
    assert "| ops | 1 | 1 | 0 | 0 | 1 | 0 | 50.0% |" in text
    assert "  - A.c: `TypeError: 'x'`" in text and "- 1 x eager execution: tf.x" in text
