"""What a notebook or a prompt shows of objects and errors: names and arguments, the user's frames."""
import inspect
import re
import sys
import types

import pytest

import pyflow as tf
from pyflow import _names
from pyflow.framework import origin, user_traceback

CONSTANTS = {"AggregationMethod", "GraphKeys", "UnconnectedGradients", "VariableAggregation",
             "contrib.learn.ModeKeys", "estimator.ModeKeys",
             "VariableSynchronization", "image.ResizeMethod", "losses.Reduction",
             "io.TFRecordCompressionType", "lookup.TextFileIndex",
             "python_io.TFRecordCompressionType", "summary.FileWriterCache"}    # classes of constants: nobody makes one
DECORATORS = {"RegisterGradient"}


def classes():
    for name in sorted({*_names.HOMES, *_names.ELSEWHERE, *" ".join(_names.FRAMEWORK.values()).split()}):
        value = tf
        for part in name.split("."):
            value = getattr(value, part)
        if inspect.isclass(value) and value.__module__.startswith("pyflow"):
            yield name, value


def test_every_class_shows_itself():
    found = dict(classes())
    assert len(found) > 80
    bare = {name for name, cls in found.items() if cls.__repr__ is object.__repr__}
    assert bare == CONSTANTS | DECORATORS


def test_what_is_shown(tmp_path):
    with tf.Graph().as_default() as graph:
        v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
        saver = tf.train.Saver(max_to_keep=3)
        shown = {
            tf.train.AdamOptimizer(0.1, epsilon=1e-3): "<tf.train.AdamOptimizer learning_rate=0.1 epsilon=0.001>",
            tf.train.MomentumOptimizer(v, 0.9):
                r"<tf.train.MomentumOptimizer learning_rate=<tf.Variable 'v:0' shape=\(2,\) dtype=float32_ref> "
                "momentum=0.9>",
            tf.zeros_initializer(): "<tf.zeros_initializer>",
            tf.random_normal_initializer(0.0, 2.0): "<tf.random_normal_initializer mean=0.0 stddev=2.0>",
            tf.nn.rnn_cell.LSTMCell(4, forget_bias=0.5): "<tf.nn.rnn_cell.LSTMCell num_units=4 forget_bias=0.5>",
            tf.train.ExponentialMovingAverage(0.9): "<tf.train.ExponentialMovingAverage decay=0.9>",
            saver: "<tf.train.Saver max_to_keep=3 restored by 'save/restore_all'>",
            tf.SparseTensor([[0]], [1.0], [3]): r"<tf.SparseTensor values='.*' indices='.*' shape=\(3,\) dtype=float32>",
            tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0])): "<tf.IndexedSlices values='ones:0' .* dtype=float32>",
            tf.TensorArray(tf.float32, 3): "<tf.TensorArray 'TensorArray:0' dtype=float32 .*size=3>",
            tf.contrib.seq2seq.LuongAttention(3, tf.ones([2, 4, 3], name="m"), scale=True):
                "<tf.contrib.seq2seq.LuongAttention num_units=3 memory=<tf.Tensor 'm:0' .*> scale=True>",
            tf.contrib.seq2seq.GreedyEmbeddingHelper([[1.0], [2.0]], [1, 1], 0):
                r"<tf.contrib.seq2seq.GreedyEmbeddingHelper embedding=\[\[1.0\], \[2.0\]\] "
                r"start_tokens=\[1, 1\] end_token=0>",
            tf.name_scope("a"): "<tf.name_scope 'a'>",
            tf.get_variable_scope(): "<tf.VariableScope '' reuse=False .*>",
        }
        for thing, text in shown.items():
            assert re.fullmatch(text, repr(thing)), repr(thing)
        before = len(graph.get_operations())
        with tf.Session() as sess:
            assert re.fullmatch(r"<tf.Session of <tf.Graph 0x\w+ with \d+ operations>, \d+ threads>", repr(sess))
            sess.run(v.initializer)
            path = saver.save(sess, str(tmp_path / "m"))
        assert repr(sess).endswith("operations>, closed>")
        assert f"last saved {path!r}" in repr(saver)
        assert repr(tf.train.NewCheckpointReader(path)) == f"<tf.train.CheckpointReader of {path!r}, 1 tensors>"
        assert len(graph.get_operations()) == before


def test_a_user_s_subclass():
    class Mine(tf.nn.rnn_cell.RNNCell):
        def __init__(self, width, twice=False):
            super().__init__()
            self.width = width
    assert repr(Mine(3, twice=True)) == "<Mine width=3 twice=True>"


# ------------------------------------------------------------------------------- notebooks' errors
class Shell:
    """What of IPython is asked: the name of a cell's code, and the formatter of tracebacks."""

    def __init__(self):
        self.compile = types.SimpleNamespace(format_code_name=lambda name: ("Cell", "In[3]"))
        self.InteractiveTB = self

    def structured_traceback(self, kind, error, frames, tb_offset):
        assert kind is type(error) and tb_offset == 0
        before = error.__cause__ or (not error.__suppress_context__ and error.__context__)
        causes = [repr(before)] if before else []
        files = []
        while frames is not None:
            files.append(frames.tb_frame.f_code.co_filename)
            frames = frames.tb_next
        return [*files, *causes]


CELL = "<ipython-input-3-cafe>"
HOST = "/lib/IPython/core/interactiveshell.py"


@pytest.fixture
def cell(monkeypatch):
    """cell(source): runs it as a notebook would, -> the exception."""
    shell = Shell()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    names = {"tf": tf, "__name__": "__main__"}
    host = {"code": None, "names": names}

    def run(source):
        host["code"] = compile(source, CELL, "exec")
        with pytest.raises(Exception) as caught, tf.Graph().as_default(), tf.Session() as sess:
            names["sess"] = sess
            exec(compile("exec(code, names)", HOST, "exec"), host)
        return caught.value
    return run


@pytest.mark.parametrize("source", [
    "tf.matmul(tf.ones([2, 3]), tf.ones([4, 2]))",
    "tf.ones([2, 3]) @ tf.ones([4, 2])",
    "tf.nn.rleu",
    "tf.get_variable('v', [2])\ntf.get_variable('v', [2])",
    "sess.run(tf.placeholder(tf.float32))",
    "tf.ones([2])\nsess.run('x:0')",
    "x = tf.placeholder(tf.float32, [2])\nsess.run(x, {x: [1, 2, 3]})",
    "tf.ones([2])\nsess.run(1.0, {2: 3})",
    "sess.run(tf.get_variable('v', [2]))",
    "tf.convert_to_tensor(object())",
    "tf.constant([1, [2]])",
    "tf.gfile.Opne",
])
def test_errors_show_the_user_s_frames(cell, source):
    error = cell(source)
    assert error._render_traceback_() == [CELL]
    assert error.__traceback__.tb_next is not None


def test_frames_between_are_kept(cell):
    """A function of the user's in a file of its own is shown; a cause of the user's too."""
    error = cell("def model(x):\n    return tf.matmul(x, tf.ones([4, 2]))\nmodel(tf.ones([2, 3]))")
    assert error._render_traceback_() == [CELL, CELL]
    assert error.__cause__ is not None
    error = cell("try:\n    1 / 0\nexcept ZeroDivisionError:\n    tf.matmul(1, object())")
    assert [type(error.__context__).__name__, *error._render_traceback_()][1] == CELL


def test_where_a_node_was_made_ends_at_the_cell(cell):
    text = str(cell("def f():\n    return tf.placeholder(tf.float32, name='x')\nsess.run(f())"))
    assert text.endswith("Node 'x' (Placeholder) was made here:\n  Cell In[3], line 3, in <module>\n"
                         "  Cell In[3], line 2, in f")
    assert "made at Cell In[3]:2" in text


def test_everything_is_shown_to_those_who_debug(cell, monkeypatch):
    monkeypatch.setenv("PYFLOW_DEBUG", "1")
    error = cell("tf.matmul(tf.ones([2, 3]), tf.ones([4, 2]))")
    shown = error._render_traceback_()
    assert len(shown) > 4 and any(origin.is_internal(file) for file in shown)


def test_outside_notebooks_errors_are_as_they_were():
    with pytest.raises(ValueError) as caught:
        tf.matmul(tf.ones([2, 3]), tf.ones([4, 2]))
    assert not hasattr(caught.value, "_render_traceback_")
    assert "IPython" not in sys.modules
    with pytest.raises(tf.errors.InvalidArgumentError) as caught, tf.Session() as sess:
        sess.run(tf.placeholder(tf.float32))
    lines = user_traceback.render(caught.value)
    assert __file__ in "".join(lines) and "session.py" not in "".join(lines[:-1])
