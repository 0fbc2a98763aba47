"""python -m pyflow coverage: what is missing, by line, and programs moved over."""
import ast
import json
import pathlib
import subprocess
import sys
import textwrap

import pytest

from pyflow.tools import coverage, python2, rewrite

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import index_tests  # noqa: E402


# ---------------------------------------------------------------- symbols and tests

def test_each_listed_test_exercises_its_symbol():
    """exercised.csv is what tests/porting/index_tests.py writes, and what it says is so."""
    listed = coverage.exercised()
    found = index_tests.index({test.partition("::")[0] for test in listed.values()})
    wrong = [(symbol, test) for symbol, test in listed.items() if test not in found.get(symbol, ())]
    assert not wrong, "python tests/porting/index_tests.py writes the list anew"


def test_existing_symbols_are_exercised():
    """Less what only exists for programs of TensorFlow 0.x, and namespaces."""
    without = [symbol for symbol, programs in coverage.usage()
               if programs >= 2 and coverage.lookup(symbol[3:]).exists and symbol not in coverage.exercised()]
    assert without == []


def test_symbols_are_printed(capsys):
    status = coverage.main([])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 480 and lines[0].split()[:3] == ["tf.Session", "280", "yes"]
    assert "tests/" in lines[0] and lines[-1].startswith(f"{sum(' yes ' in line for line in lines)} of 479 symbols exist")
    assert status == (0 if lines[-1].endswith(" 0 are missing") else 1)


# ---------------------------------------------------------------- files

PROGRAM = """\
import tensorflow as tf
from tensorflow.python.ops import array_ops, foo_ops
import tensorflow.contrib.layers as layers
rnn = tf.nn.rnn_cell
x = tf.placeholder(tf.float32, [None, 4])
y = tf.nn.rleu(x) + array_ops.reshap(x, [-1]) + tf.mul(x, 2.)
y = tf.nn.softmax(x, axiss=1, name="y")
cell = rnn.BasicLSTMCel(3)
init = layers.xavier_initializer(seed=1)
tf.GraphKeys.VARIABELS
with tf.GradientTape() as tape: pass
other.tf.nope, x.rleu
"""


def test_a_file_by_line(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    assert coverage.main([str(path)]) == 1
    assert capsys.readouterr().out.replace(str(tmp_path) + "/", "").splitlines() == [
        "train.py:2: tf.python.ops.foo_ops is missing: pyflow has nothing of that name",
        "train.py:6: tf.mul became tf.multiply; it works under `python -m pyflow exec`, --rewrite changes it",
        "train.py:6: tf.nn.rleu is missing: did you mean tf.nn.relu?",
        "train.py:6: tf.python.ops.array_ops.reshap is missing: did you mean tf.reshape?",
        "train.py:7: tf.nn.softmax has no argument axiss",
        "train.py:8: tf.nn.rnn_cell.BasicLSTMCel is missing: did you mean tf.nn.rnn_cell.BasicLSTMCell?",
        "train.py:10: tf.GraphKeys.VARIABELS is missing: pyflow has nothing of that name",
        "train.py:11: tf.GradientTape is missing: pyflow has TensorFlow 1.x's graph API, not TensorFlow 2's; use "
        "tf.gradients(y, xs)",
        "train.py: 14 names of tensorflow, 7 uses of what is missing, 0 Python 2 leftovers"]


def test_a_file_that_lacks_nothing(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text("import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\nprint(tf.Session().run(tf.zeros([])))\n")
    assert coverage.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == (f"{path}: 3 names of tensorflow, 0 uses of what is missing, 0 Python 2 leftovers\n")


def test_python_2_and_no_python(tmp_path, capsys):
    (tmp_path / "a.py").write_text("import tensorflow as tf\nprint tf.zeros([2]).nope\n")
    (tmp_path / "b.py").write_text("def f(:\n")
    assert coverage.main([str(tmp_path)]) == 1
    first, second, third = capsys.readouterr().out.replace(str(tmp_path) + "/", "").splitlines()
    assert first == "a.py:2: Python 2: print tf.zeros([2]).nope; --rewrite changes it"
    assert second == "a.py: 1 names of tensorflow, 0 uses of what is missing, 1 Python 2 leftovers"
    assert third.startswith("b.py:1: neither Python 3 nor 2")
    assert coverage.main([str(tmp_path / "absent.py")]) == 2
    assert coverage.main(["--rewrite"]) == 2


# ---------------------------------------------------------------- rewriting

OLD = '''\
import cPickle as pickle, urllib2
import urllib
import tensorflow as tf
import tensorflow.contrib.layers
from tensorflow.models.rnn import rnn_cell
from tensorflow.examples.tutorials.mnist import input_data
x = tf.concat(1, [tf.pack([a, tf.neg(b)]),      # beside
                  c])
for i in xrange(010): print "step %d" % i, tf.mul(a, b),
print >>sys.stderr, "done"
if d.has_key("k") and not e.f.has_key(g(1)): print
parts = tf.split(0, 2, tf.concat(concat_dim=0, values=[a, b]))
loss = tf.nn.softmax_cross_entropy_with_logits(logits, tf.sub(labels, 1))
s = tf.nn.sigmoid_cross_entropy_with_logits(logits, targets=t)
tf.scalar_summary("loss", loss)
w = tf.train.SummaryWriter(d, sess.graph)
try:
    z = tf.image.resize_images(im, 224, 224)
except (IOError, ValueError), err:
    raise RuntimeError, "no: %s" % err
m = tf.batch_matmul(a, b, adj_y=True); n = 10L <> 0xFFL
text = """
print "not touched", xrange
"""
for k, v in d.iteritems(): print("%s" % k)
urllib.urlretrieve(u"x", ur"y")
'''
NEW = '''\
import pickle, urllib.request as urllib2
import urllib.error, urllib.parse, urllib.request
import pyflow as tf
import pyflow as tensorflow, pyflow.contrib.layers
from pyflow.nn import rnn_cell
from pyflow.examples.tutorials.mnist import input_data
x = tf.concat([tf.stack([a, tf.negative(b)]),      # beside
                  c], 1)
for i in range(0o10): print("step %d" % i, tf.multiply(a, b), end=" ")
print("done", file=sys.stderr)
if ("k" in d) and not (g(1) in e.f): print()
parts = tf.split(tf.concat(axis=0, values=[a, b]), 2, 0)
loss = tf.nn.softmax_cross_entropy_with_logits(logits=logits, labels=tf.subtract(labels, 1))
s = tf.nn.sigmoid_cross_entropy_with_logits(logits, labels=t)
tf.summary.scalar("loss", loss)
w = tf.summary.FileWriter(d, sess.graph)
try:
    z = tf.image.resize_images(im, [224, 224])
except (IOError, ValueError) as err:
    raise RuntimeError("no: %s" % err)
m = tf.matmul(a, b, adjoint_b=True); n = 10 != 0xFF
text = """
print "not touched", xrange
"""
for k, v in d.items(): print("%s" % k)
urllib.request.urlretrieve(u"x", r"y")
'''


def test_an_old_program_moved_over():
    new, notes = rewrite.rewritten(OLD)
    assert new.splitlines() == NEW.splitlines() and notes == []
    ast.parse(new)
    assert rewrite.rewritten(new)[0] == new         # nothing is left to change


@pytest.mark.parametrize("text", [
    "print(a)", "print (a, b)", "x = print", "d.iteritems", "a.next()", "print(a, file=f)", "lambda: {1: 2}[1:]",
    "class A:\n    def xrange(self): pass", "f(long=1)", "x = 0\ny = 00\nz = 0o17", "'''a\nb'''  # it's", "try: pass\nexcept E as e: pass",
    "x[a:b, c:d] = {**k}", 'f"{x!r:>{w}} print"',
])
def test_python_3_stays(text):
    out, _ = python2.converted(text)
    assert ast.dump(ast.parse(out)) == ast.dump(ast.parse(text.replace("iteritems", "items")))


def test_diff_and_in_place(tmp_path, capsys):
    path = tmp_path / "p.py"
    path.write_text("import tensorflow as tf\nprint tf.mul(1, 2)\n")
    assert coverage.main([str(path), "--rewrite"]) == 0
    out = capsys.readouterr().out
    assert "-print tf.mul(1, 2)\n+import pyflow as tf\n+print(tf.multiply(1, 2))\n" in out and path.read_text().startswith("import tensorflow")
    assert coverage.main([str(path), "--rewrite", "--in-place"]) == 0
    assert path.read_text() == "import pyflow as tf\nprint(tf.multiply(1, 2))\n"
    assert coverage.main([str(path), "--rewrite", "--in-place"]) == 0
    assert capsys.readouterr().out.endswith("nothing to change\n")
    done = subprocess.run([sys.executable, "-P", str(path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("Tensor("), done.stderr


def test_notes_for_the_reader():
    text = textwrap.dedent("""
        import tensorflow as tf
        from tensorflow.python.ops import array_ops
        loss = tf.nn.nce_loss(w, b, inputs, labels, 1, 2)
        p = array_ops.pack([1])
        """)
    new, notes = rewrite.rewritten(text)
    assert notes == [(4, "tf.nn.nce_loss: since 1.0 labels come before inputs"),
                     (5, "tf.python.ops.array_ops.pack became tf.stack")]
    assert "from pyflow.python.ops import array_ops" in new


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": ["# tf.mul"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": 1,
         "source": ["%matplotlib inline\n", "import tensorflow as tf\n", "files = !ls\n", "tf.nn?"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None,
         "source": "%%time\nif True:\n    %timeit 1\n    y = tf.mul(2, 3)\ntf.nonsense"},
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None,
         "source": ["%%bash\n", "for x in *; do echo $x; done"]}],
    "metadata": {}, "nbformat": 4, "nbformat_minor": 2}


def test_notebooks(tmp_path, capsys):
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(NOTEBOOK, indent=1) + "\n")
    assert coverage.main([str(path)]) == 1
    out = capsys.readouterr().out
    assert f"{path}: cell 3, line 4: tf.mul became tf.multiply" in out
    assert f"{path}: cell 3, line 5: tf.nonsense is missing" in out
    assert coverage.main([str(tmp_path), "--rewrite", "--in-place"]) == 0
    new = json.loads(path.read_text())
    assert new["cells"][1]["source"] == ["%matplotlib inline\n", "import pyflow as tf\n",
                                         "files = !ls\n", "tf.nn?"]
    assert new["cells"][2]["source"] == \
        "%%time\nif True:\n    %timeit 1\n    y = tf.multiply(2, 3)\ntf.nonsense"
    for cell in (0, 3):
        assert new["cells"][cell] == NOTEBOOK["cells"][cell]
    assert path.read_text().endswith("}\n") and path.read_text().startswith('{\n "cells"')
    (tmp_path / "y.ipynb").write_text("[]")
    assert coverage.main([str(tmp_path / "y.ipynb")]) == 2


@pytest.mark.parametrize("head, encoding", [
    (b"# -*- coding: latin-1 -*-\n", "latin-1"), (b"\xef\xbb\xbf", "utf-8"), (b"", "utf-8")])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_rewritten_program_keeps_its_encoding_and_ends_of_lines(tmp_path, head, encoding, end):
    path = tmp_path / "p.py"
    text = "import tensorflow as tf\nx = '\u00e9'\nprint(tf.mul(1, 2))"
    path.write_bytes(head.replace(b"\n", end) + text.encode(encoding).replace(b"\n", end))
    assert coverage.main([str(path), "--rewrite", "--in-place"]) == 0
    new = text.replace("tensorflow as tf", "pyflow as tf").replace("mul", "multiply")
    assert path.read_bytes() == head.replace(b"\n", end) + new.encode(encoding).replace(b"\n", end)


def test_mixed_ends_of_lines_stay(tmp_path):
    path = tmp_path / "p.py"
    path.write_bytes(b"import tensorflow as tf\r\nx = 1\ny = tf.sub(x, x)\r\n")
    coverage.main([str(path), "--rewrite", "--in-place"])
    assert path.read_bytes() == b"import pyflow as tf\r\nx = 1\ny = tf.subtract(x, x)\r\n"


@pytest.mark.parametrize("old, new", [
    ("import cPickle as pickle\nx = pickle.load(open(p))",
     "import pickle\nx = pickle.load(open(p, 'rb'))"),
    ("import cPickle\nx = cPickle.load(open(os.path.join(a, b), 'r'))",
     "import pickle as cPickle\nx = cPickle.load(open(os.path.join(a, b), 'rb'))"),
    ("import cPickle\ncPickle.dump(f(x), open('p', 'w'))",
     "import pickle as cPickle\ncPickle.dump(f(x), open('p', 'wb'))"),
    ("import cPickle\nwith open(p) as f:\n    x = cPickle.load(f)",
     "import pickle as cPickle\nwith open(p, 'rb') as f:\n    x = cPickle.load(f)"),
    ("print x\nx = pickle.load(open(p, 'rb'))", "print(x)\nx = pickle.load(open(p, 'rb'))"),
    ("from tensorflow.models.rnn import rnn, rnn_cell\n",
     "from pyflow import nn as rnn; from pyflow.nn import rnn_cell\n"),
    ("from tensorflow.models.rnn import seq2seq as s\n",
     "from pyflow.contrib import legacy_seq2seq as s\n"),
])
def test_what_is_rewritten(old, new):
    made = rewrite.rewritten(old)[0]
    assert made == new and rewrite.rewritten(made)[0] == made
