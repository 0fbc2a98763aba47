"""Modules load when something of theirs is first used: few, from any thread, whatever comes first.

Each case is a process of its own, because what one test loads another finds loaded.
"""
import subprocess
import sys
import textwrap

import pytest

HEAD = """
import sys
import numpy as np
import pyflow as tf
from pyflow.framework import op as op_lib


def modules():
    return {m.rpartition(".")[2] for m in sys.modules
            if m.startswith(("pyflow.ops.", "pyflow.lib.")) and not hasattr(sys.modules[m], "__path__")}


def run(y, feed=None):
    with tf.Session(graph=y.graph) as sess:
        return sess.run(y, feed)
"""


@pytest.fixture
def python(tmp_path):
    """Runs a program of its own; its standard error must stay empty."""
    def start(code):
        path = tmp_path / "program.py"
        path.write_text(HEAD + textwrap.dedent(code), encoding="utf-8")
        done = subprocess.run([sys.executable, path], text=True, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
    return start


def test_one_op_loads_few_modules(python):
    """A matrix product, run: of the 75 modules and more than 650 ops only what it needs."""
    python("""
        x = tf.placeholder(tf.float32, [2, 2], name="x")
        y = tf.matmul(x, [[1.0, 2.0], [3.0, 4.0]])
        assert run(y, {x: np.eye(2)}).tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert {"matmul_ops", "identity_ops"} <= modules() and len(modules()) <= 13, modules()
        assert len(op_lib.loaded_ops()) <= 40, op_lib.loaded_ops()
        assert len(op_lib.registered_ops()) > 650 and len(modules()) > 70
        """)


def test_asking_loads_nothing(python):
    """Lists of names, unknown names, what libraries look for on every module."""
    python("""
        import inspect, pickle
        before = modules()
        assert {"matmul", "nn", "Session", "Graph", "gradients"} <= set(dir(tf))
        assert {"relu", "conv2d", "rnn_cell"} <= set(dir(tf.nn)) and "fft2d" in dir(tf.signal)
        assert {"MatMul", "FFT2D", "Const"} <= set(dir(tf.raw_ops)) <= set(op_lib.op_names())
        for module in (tf, tf.nn, tf.train):
            for name in ("__wrapped__", "_x", "__warningregistry__", "nothing_like_it"):
                assert not hasattr(module, name)
        for module, wrong, right in (tf.nn, "rellu", "tf.nn.relu"), (tf, "conv2d", "tf.nn.conv2d"):
            try:
                getattr(module, wrong)
            except AttributeError as e:
                assert right in str(e), e
        try:
            tf.get_default_graph().create_op("MatMull", [])
        except tf.errors.NotFoundError as e:
            assert "Did you mean" in e.message and "MatMul" in e.message
        assert modules() == before, modules() - before
        assert pickle.loads(pickle.dumps(tf.nn.moments)) is tf.nn.moments
        assert inspect.getmodule(tf.nn.moments).__name__ == tf.nn.moments.__module__
        """)


def test_all_ways_to_a_name(python):
    python("""
        from pyflow.nn import conv2d, relu as r
        from pyflow.contrib.rnn import LSTMBlockCell
        import pyflow.compat.v1 as tf1, pyflow.nn.rnn_cell as cells, pyflow.train
        from pyflow.train import Saver, AdamOptimizer
        from pyflow.ops.fft import fft_ops
        import pyflow.ops
        assert conv2d is tf1.nn.conv2d and r is tf.nn.relu and cells.LSTMCell
        assert LSTMBlockCell is tf.contrib.rnn.LSTMBlockCell and Saver is pyflow.train.Saver
        assert fft_ops.FFT2D is op_lib.find_op("FFT2D") and pyflow.ops.MODULES
        assert tf.gradients.__name__ == "gradients" == tf1.gradients.__name__   # no package
        space = {}
        exec("from pyflow import *", space)
        missing = [n for n in dir(tf) if not n.startswith("_") and n not in space]
        assert not missing and space["Session"] is tf.Session and space["abs"] is tf.abs, missing
        exec("from pyflow.losses import *", space)
        assert space["huber_loss"] is tf.losses.huber_loss
        """)


@pytest.mark.parametrize("seed", range(3))
def test_many_threads_at_once(python, seed):
    """Each finds every name and op in an order of its own, and all find the same."""
    python(f"seed = {seed}" + """
import random, threading
from pyflow import _names
wanted = [*_names.HOMES, *op_lib.op_names()]
barrier, found, errors = threading.Barrier(8), [], []


def value(name):
    if name not in _names.HOMES:
        return op_lib.get_op(name)
    at = tf
    for part in name.split("."):
        at = getattr(at, part)
    return at


def look(seed):
    order = random.Random(seed).sample(wanted, len(wanted))
    barrier.wait()
    try:
        found.append({name: value(name) for name in order})
    except BaseException as e:
        errors.append(repr(e))


sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=look, args=(seed * 8 + i,)) for i in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not errors and len(found) == 8, errors
assert all(f[name] is found[0][name] for f in found for name in wanted)
""")


FIRST = {                   # what a program may do before anything else
    "operators": """
        x = tf.placeholder(tf.float32, [2])
        y = (np.ones(2, np.float32) + 2 * x[::-1] - 1 / x) ** 2
        assert np.allclose(run(y, {x: [1, 2]}), [16, 6.25])
        """,
    "by_type": """
        g = tf.Graph()
        c = g.create_op("Const", [], attrs={"dtype": tf.float32, "value": np.float32([3, 4])})
        y = g.create_op("Square", c.outputs).outputs[0]
        assert run(y).tolist() == [9, 16]
        with g.as_default():
            assert run(tf.gradients(y, c.outputs[0])[0]).tolist() == [6, 8]
        """,
    "raw_op": """
        assert run(tf.raw_ops.Cumsum(x=[1, 2, 3], axis=0)).tolist() == [1, 3, 6]
        """,
    "import": """
        from google.protobuf import text_format
        text = '''node {name: "x" op: "Placeholder" attr {key: "dtype" value {type: DT_FLOAT}}}
        node {name: "y" op: "Softplus" input: "x" attr {key: "T" value {type: DT_FLOAT}}}'''
        x, y = tf.import_graph_def(text_format.Parse(text, tf.GraphDef()),
                                   return_elements=["x:0", "y:0"])
        assert np.allclose(run(y, {x: [0, 1]}), np.log1p(np.exp([0, 1])))
        assert np.allclose(run(tf.gradients(y, x)[0], {x: [0.0]}), 0.5)
        """,
    "lists": """
        x = tf.placeholder(tf.float32, [])
        y = tf.convert_to_tensor([[x, 1.0], [2.0, x]])
        assert y.op.type == "Pack" and run(y, {x: 7}).tolist() == [[7, 1], [2, 7]]
        """,
    "slices": """
        c = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        y = tf.convert_to_tensor(tf.IndexedSlices(c, tf.constant([2, 2]), tf.constant([3, 2])))
        assert run(y).tolist() == [[0, 0], [0, 0], [4, 6]]
        """,
    "variables": """
        def convert(value, **more):             # is asked about variables after pyflow's own
            others = type(value) is object or "Variable" in type(value).__name__
            return tf.constant(-1.0) if others else NotImplemented

        tf.register_tensor_conversion_function(object, convert)
        v, w = tf.Variable(2.0), tf.get_variable("w", initializer=3.0, use_resource=True)
        y = tf.identity(v) + tf.identity(w) + tf.identity(object())
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            assert sess.run(y) == 4.0
        """,
    "registry": """
        try:
            tf.RegisterGradient("Softplus")(lambda op, dy: dy)
        except KeyError as e:
            assert "Softplus" in str(e)
        else:
            raise AssertionError
        try:
            op_lib.register(op_lib.op_from_signature("Softsign", "x: float -> y: float"))
        except ValueError as e:
            assert "Two ops are called 'Softsign'" in str(e)
        else:
            raise AssertionError
        """,
    "users_line": """
        x = tf.placeholder(tf.float32, [2, 3])
        line = sys._getframe().f_lineno
        made = tf.reduce_sum(x).op, (x + 1).op, tf.nn.relu(x).op, tf.one_hot([1], 2).op
        assert {str(op.user_frame) for op in made} == {f"{__file__}:{line + 1}"}
        try:
            tf.nn.conv2d(x, x, [1, 1, 1, 1], "SAME")
        except ValueError as e:
            assert f"{__file__}:{line + 4}" in str(e), e
        else:
            raise AssertionError
        """,
    "saver": """
        import os, tempfile
        with tempfile.TemporaryDirectory() as folder:
            assert tf.train.latest_checkpoint(folder) is None
            tf.Variable([1.0, 2.0], name="v")
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                path = tf.train.Saver().save(sess, os.path.join(folder, "m"))
            assert tf.train.load_variable(path, "v").tolist() == [1, 2]
        """,
}


@pytest.mark.parametrize("name", FIRST)
def test_whatever_comes_first(python, name):
    python(FIRST[name])
