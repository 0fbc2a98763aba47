"""`import tensorflow` finds pyflow: module paths, old names and forms, what is missing.  Each program runs in a process
of its own, by `python -m pyflow exec`."""
import subprocess
import sys
import textwrap

import pytest

import pyflow as tf
from pyflow import _names
from pyflow.interop.tensorflow import finder, paths, renamed


def run(tmp_path, program, *arguments, code=0):
    """(stdout, stderr) of a program under exec."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program), encoding="utf-8")
    done = subprocess.run([sys.executable, "-P", "-m", "pyflow", "exec", str(path), *arguments],
                          capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def test_a_program_with_flags(tmp_path):
    out, err = run(tmp_path, """
        import sys
        import tensorflow as tf
        from tensorflow.python.platform import flags
        tf.app.flags.DEFINE_integer("steps", 3, "how many")
        FLAGS = tf.app.flags.FLAGS
        def main(argv):
            assert flags.FLAGS is FLAGS
            v = tf.Variable(1.)
            step = tf.assign_add(v, 2.)
            with tf.Session() as sess:
                sess.run(tf.initialize_all_variables())
                for _ in range(FLAGS.steps): sess.run(step)
                print(sess.run(v), argv[1:], tf.__version__, tf.VERSION, tf.__git_version__ == tf.GIT_VERSION)
        if __name__ == "__main__":
            tf.app.run()
        """, "--steps=5", "rest")
    assert out == "11.0 ['rest'] 1.15.0 1.15.0 True\n"
    assert err.endswith("program.py:12: tf.initialize_all_variables is TensorFlow 0.x's: use "
                        "tf.global_variables_initializer\n") and err.count("\n") == 1


def test_compat_v1_is_a_module_like_any_other(tmp_path):
    out, _ = run(tmp_path, """
        import pyflow
        import tensorflow.compat.v1 as tf
        from tensorflow.compat import v1
        from tensorflow.compat.v1 import nn
        import tensorflow.compat.v1.train as train
        print(tf is v1, tf.nn is nn, nn.relu is pyflow.nn.relu, train.Saver is pyflow.train.Saver, tf.__version__)
        tf.disable_v2_behavior()
        try: nn.rleu
        except AttributeError as e: print(e)
        """)
    assert out.splitlines() == ["True True True True 1.15.0", "module 'tensorflow.compat.v1.nn' has no attribute 'rleu' "
                                "in pyflow; did you mean tf.nn.relu?"]


def test_private_names_that_libraries_use(tmp_path):
    out, _ = run(tmp_path, """
        import tensorflow as tf
        from tensorflow.python.framework import ops
        v = tf.Variable([1., 2.])
        t = tf.identity(v)
        sparse = tf.SparseTensor([[0]], [1.], [2])
        print([isinstance(x, ops._TensorLike) for x in (t, sparse, tf.IndexedSlices(t, [0, 1]), v, [1.])])
        print([ops.is_dense_tensor_like(x) for x in (t, sparse, v, [1.])])
        print(ops._as_graph_element(v).op.type, ops._as_graph_element(3))
        print(ops._get_graph_from_inputs([t, 1.]) is t.graph)
        from tensorflow.python.layers import utils
        print(utils.constant_value(True), utils.constant_value(tf.constant(False)), utils.constant_value(t[0] > 0))
        from tensorflow.python.ops import rnn_cell_impl
        zeros = rnn_cell_impl._zero_state_tensors((2, [3]), 4, tf.float64)
        print(zeros[0].shape, zeros[1][0].shape, zeros[0].dtype.name)
        """)
    assert out.splitlines() == ["[True, True, True, False, False]", "[True, False, True, False]", "Identity None", "True", "True False None",
                                "(4, 2) (4, 3) float64"]


def test_names_that_python_and_numpy_removed_are_given_back_if_asked(tmp_path):
    program = """
        import collections.abc, html.parser, inspect, sys, threading, time, warnings
        warnings.simplefilter("error")
        import tensorflow as tf
        import numpy as np
        from collections import Iterable, Mapping
        from fractions import gcd
        def f(a, b=2, *more, **options): pass
        def only(*, a): pass
        print(Iterable is collections.abc.Iterable, gcd(12, 18), tuple(inspect.getargspec(f)))
        try: inspect.getargspec(only)
        except ValueError as e: print("ValueError", str(e)[:20])
        print(np.zeros(1, np.float).dtype, np.zeros(1, np.int).dtype == np.array(1).dtype, np.asscalar(np.array([3])),
              np.asfarray([1, 2]).dtype, np.asfarray([1], np.float32).dtype, np.bool in (bool, np.bool_),
              np.product([2, 3]), np.in1d([[1, 2]], [2]).tolist(), np.round_(2.5))
        print(time.clock() <= time.clock(), html.parser.HTMLParser().unescape("&lt;"), threading.Thread().isAlive())
        """
    path = tmp_path / "old.py"
    path.write_text(textwrap.dedent(program), encoding="utf-8")
    command = [sys.executable, "-P", "-m", "pyflow", "exec"]
    without = subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=120)
    assert without.returncode == 1 and "cannot import name 'Iterable' from 'collections'" in without.stderr
    done = subprocess.run([*command, "--old-python", str(path)], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "True 6 (['a', 'b'], 'more', 'options', (2,))", "ValueError Function has keyword",
        "float64 True 3 float64 float32 True 6 [False, True] 2.0", "True < False"]


def test_modules_name_one_another_as_in_tensorflow(tmp_path):
    out, _ = run(tmp_path, """
        import pyflow
        import tensorflow as tf
        from tensorflow.python import tf2
        from tensorflow.python.framework import device_spec
        from tensorflow.python.keras.engine import input_spec
        from tensorflow.python.ops import array_ops, rnn, rnn_cell_impl
        from tensorflow.python.ops.rnn import rnn_cell_impl as the_same
        print(rnn.rnn_cell_impl is rnn_cell_impl is the_same, array_ops.dtypes.float32 is tf.float32, tf2.enabled(),
              device_spec.DeviceSpec is tf.DeviceSpec, input_spec.InputSpec is tf.layers.InputSpec)
        x, y = tf.zeros([2, 3]), tf.placeholder(tf.float32)
        for function in (array_ops.shape_internal, array_ops.size_internal, array_ops.rank_internal):
            a, b, c = function(x), function(y, name="named"), function(x, optimize=False)
            with tf.Session() as sess:
                print(a.op.type, b.op.name, c.op.type, *[v.tolist() for v in sess.run([a, b, c], {y: [[1.]]})])
        print(array_ops.shape_internal(x, out_type=tf.int64).dtype.name)
        try: rnn.no_such_ops
        except AttributeError as e: print(e)
        """)
    assert out.splitlines() == [
        "True True False True True", "Const named Shape [2, 3] [1, 1] [2, 3]", "Const named_1 Size 6 1 6",
        "Const named_2 Rank 2 2 2", "int64", "module 'tensorflow.python.ops.rnn' has no attribute 'no_such_ops' in pyflow"]


H5PY = """
    import os
    import numpy as np
    __version__ = "3.9.0"
    class Type:
        def __init__(self, encoding): self.encoding = encoding
    def check_string_dtype(dtype): return dtype
    class Id:
        def __init__(self, dtype): self.dtype = dtype
    class AttributeManager:
        values = {"bytes": ("abc", Type("ascii")), "text": ("abc", Type("utf-8")), "number": (3, None),
                  "many": (np.array([["a"], ["bc"]], object), Type("ascii")),
                  "texts": (np.array(["a"], object), Type("utf-8")), "objects": (np.array([None], object), None)}
        def __getitem__(self, name): return self.values[name][0]
        def get_id(self, name): return Id(self.values[name][1])
    class File:
        def __init__(self, name, mode="r", driver=None):
            if mode == "a" and name == "locked": raise PermissionError(name)
            self.told = name, mode, driver
    """


def test_h5py_is_as_it_was_if_asked(tmp_path):
    (tmp_path / "h5py.py").write_text(textwrap.dedent(H5PY), encoding="utf-8")
    path = tmp_path / "old.py"
    path.write_text(textwrap.dedent("""
        import sys
        import tensorflow
        assert "h5py" not in sys.modules
        import h5py
        a = h5py.AttributeManager()
        print([a[name] for name in ("bytes", "text", "number", "texts", "objects")], a["many"].tolist(), a["many"].dtype)
        print([h5py.File(*args, driver="core").told for args in (["x"], ["locked"], ["x", "w"])])
        from pyflow.interop import old_python
        old_python.install()
        print(a["bytes"], h5py.File.__init__.__name__)
        """), encoding="utf-8")
    done = subprocess.run([sys.executable, "-P", "-m", "pyflow", "exec", "--old-python", str(path)],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[b'abc', 'abc', 3, array(['a'], dtype=object), array([None], dtype=object)] [[b'a'], [b'bc']] |S2",
        "[('x', 'a', 'core'), ('locked', 'r', 'core'), ('x', 'w', 'core')]", "b'abc' __init__"]


def test_modules_that_programs_import(tmp_path):
    out, _ = run(tmp_path, """
        import pyflow
        import tensorflow as tf
        import tensorflow.contrib.layers as layers
        from tensorflow.contrib import rnn
        from tensorflow.contrib.rnn.python.ops import core_rnn_cell
        from tensorflow.core.framework import graph_pb2, types_pb2
        from tensorflow.core.protobuf import config_pb2
        from tensorflow.examples.tutorials.mnist import input_data
        from tensorflow.python import pywrap_tensorflow
        from tensorflow.python.client import device_lib, session, timeline
        from tensorflow.python.framework import dtypes, ops, tensor_shape, tensor_util
        from tensorflow.python.framework.ops import reset_default_graph
        from tensorflow.python.ops import (array_ops, control_flow_ops, gen_math_ops, math_ops, nn_ops, rnn_cell,
                                           rnn_cell_impl, variable_scope as vs)
        from tensorflow.python.ops.rnn_cell_impl import _linear
        from tensorflow.python.platform import gfile, tf_logging as logging
        from tensorflow.python.training import moving_averages, training_util
        from tensorflow.python.util import nest, tf_inspect
        same = [(array_ops.reshape, pyflow.reshape), (math_ops.matmul, pyflow.matmul), (ops.Tensor, pyflow.Tensor),
                (rnn.GRUCell, pyflow.nn.rnn_cell.GRUCell), (dtypes.float32, pyflow.float32),
                (core_rnn_cell.LSTMCell, pyflow.nn.rnn_cell.LSTMCell), (session.Session, pyflow.Session),
                (graph_pb2.GraphDef, pyflow.GraphDef), (config_pb2.ConfigProto, pyflow.ConfigProto),
                (config_pb2.RunMetadata, pyflow.RunMetadata),
                (pywrap_tensorflow.NewCheckpointReader, pyflow.train.NewCheckpointReader),
                (nest.flatten, pyflow.nest.flatten), (gfile.Exists, pyflow.gfile.Exists),
                (gen_math_ops.mat_mul.op_def, pyflow.raw_ops.MatMul.op_def), (tensor_shape.TensorShape, pyflow.TensorShape)]
        assert all(a is b for a, b in same), same
        assert types_pb2.DT_FLOAT == 1 and tf.train is not pyflow.train and tf.errors.NotFoundError
        with tf.variable_scope("s"):
            y = _linear([tf.ones([1, 2]), tf.ones([1, 1])], 4, True)
        print([v.op.name for v in tf.global_variables()], y.shape, "reshape" in dir(tf), "relu" in dir(tf.nn))
        print(tf_inspect.getfullargspec(lambda a, b=1: 0).args, control_flow_ops.with_dependencies([y], y))
        """)
    assert out == ("['s/kernel', 's/bias'] (1, 4) True True\n"
                   "['a', 'b'] Tensor(\"control_dependency:0\", shape=(1, 4), dtype=float32)\n")


OLD_FORMS = """
    import numpy as np
    import tensorflow as tf
    x = tf.constant([[1., 2.], [3., 4.]])
    labels = tf.constant([[0., 1.], [1., 0.]])
    results = [
        tf.concat(1, [x, x]), tf.concat([x, x], 1), tf.concat(concat_dim=0, values=[x, x]),
        tf.split(0, 2, x)[1], tf.split(x, 2, 0)[1], tf.reverse(x, [False, True]), tf.reverse(x, [1]),
        tf.mul(x, 2.), tf.sub(x, 1.), tf.neg(x), tf.pack([1, 2]), tf.unpack(x)[1], tf.batch_matmul(x, x, adj_y=True),
        tf.select([True, False], x, -x), tf.nn.softmax_cross_entropy_with_logits(x, labels),
        tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=x),
        tf.nn.sparse_softmax_cross_entropy_with_logits(x, [1, 0]),
        tf.nn.sigmoid_cross_entropy_with_logits(x, targets=labels),
        tf.image.resize_images(tf.ones([1, 4, 4, 1]), 2, 3), tf.image.resize_images(tf.ones([1, 4, 4, 1]), [2, 3]),
        tf.nn.sampled_softmax_loss(x, tf.constant([0., 1.]), x, [[0], [1]], 1, 2),
        tf.nn.sampled_softmax_loss(x, tf.constant([0., 1.]), [[0], [1]], x, 1, 2),
    ]
    cell = tf.nn.rnn_cell.BasicLSTMCell(2, input_size=2)
    outputs, _ = tf.nn.rnn(cell, [x], dtype=tf.float32)
    assert isinstance(cell, tf.contrib.rnn.BasicLSTMCell)
    with tf.Session() as sess:
        sess.run(tf.initialize_all_variables())
        for value in sess.run(results): print(np.round(np.float64(value), 3).tolist())
    """


def test_old_forms_beside_new_ones(tmp_path):
    out, err = run(tmp_path, OLD_FORMS)
    wide, second = "[[1.0, 2.0, 1.0, 2.0], [3.0, 4.0, 3.0, 4.0]]", "[[3.0, 4.0]]"
    one = "[[[[1.0], [1.0], [1.0]], [[1.0], [1.0], [1.0]]]]"
    lines = out.splitlines()
    assert lines[:7] == [wide, wide, "[[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]", second, second,
                         "[[2.0, 1.0], [4.0, 3.0]]", "[[2.0, 1.0], [4.0, 3.0]]"]
    assert lines[7:14] == ["[[2.0, 4.0], [6.0, 8.0]]", "[[0.0, 1.0], [2.0, 3.0]]", "[[-1.0, -2.0], [-3.0, -4.0]]", "[1.0, 2.0]",
                           "[3.0, 4.0]", "[[5.0, 11.0], [11.0, 25.0]]", "[[1.0, 2.0], [-3.0, -4.0]]"]
    assert lines[14:17] == ["[0.313, 1.313]"] * 3 and lines[17] == "[[1.313, 0.127], [0.049, 4.018]]"
    assert lines[18:20] == [one, one] and len(lines) == 22
    told = [line.split(" is ")[0].split(": ")[1] for line in err.splitlines()]
    assert len(told) == len(set(told)) and {"tf.concat", "tf.split", "tf.mul", "tf.nn.rnn"} <= set(told), err


def test_what_is_missing_is_said(tmp_path):
    out, _ = run(tmp_path, """
        import tensorflow as tf
        for line in ("tf.nn.rleu", "tf.GradientTape", "from tensorflow.python.ops import foo_ops",
                     "import tensorflow.python.foo", "from tensorflow.python.ops.array_ops import reshap",
                     "from tensorflow import shap"):
            try: exec(line)
            except (AttributeError, ImportError) as e: print(type(e).__name__, e)
        """)
    assert out.splitlines() == [
        "AttributeError module 'tensorflow.nn' has no attribute 'rleu' in pyflow; did you mean tf.nn.relu?",
        "AttributeError module 'tensorflow' has no attribute 'GradientTape' in pyflow: pyflow has TensorFlow 1.x's graph "
        "API, not TensorFlow 2's; use tf.gradients(y, xs)",
        "ModuleNotFoundError pyflow has no module or name 'foo_ops' in 'tensorflow.python.ops'",
        "ModuleNotFoundError pyflow has no module or name 'foo' in 'tensorflow.python'",
        "ModuleNotFoundError pyflow has no module or name 'reshap' in 'tensorflow.python.ops.array_ops'; did you mean "
        "tf.reshape?",
        "ModuleNotFoundError pyflow has no module or name 'shap' in 'tensorflow'; did you mean tf.shape?"]


def test_the_real_one_stays_where_it_is_imported_already(tmp_path):
    out, _ = run(tmp_path, """
        import sys, types, pyflow
        sys.modules["tensorflow"] = types.ModuleType("tensorflow")
        sys.modules["tensorflow"].__spec__ = None
        try: pyflow.compat.install_as_tensorflow()
        except RuntimeError as e: print(e)
        """)
    assert out == ("tensorflow is imported already: call install_as_tensorflow() before anything imports it\n")


def test_the_same_paths_under_pyflows_name():
    from pyflow.core.framework import graph_pb2
    from pyflow.python.framework import function, ops
    from pyflow.python.ops import array_ops
    from pyflow.python.util import nest
    assert array_ops.concat is tf.concat and ops.Graph is tf.Graph and graph_pb2.NodeDef is tf.NodeDef
    assert nest.flatten is tf.nest.flatten and function.Defun
    with pytest.raises(ImportError, match="pyflow has no module or name 'foo_ops' in 'pyflow.python.ops'"):
        import pyflow.python.ops.foo_ops  # noqa: F401


def test_old_names_are_explained_where_they_are_missing():
    for name, new in (("rnn", "nn.static_rnn"), ("bidirectional_rnn", "nn.static_bidirectional_rnn")):
        with pytest.raises(AttributeError, match=f"TensorFlow 0.x's name of tf.{new}; `python -m pyflow exec` runs"):
            getattr(tf.nn, name)
    with pytest.raises(AttributeError, match="TensorFlow 0.x's name of tf.svd"):
        tf.batch_svd


def test_each_row_leads_somewhere():
    """A home that is neither in tf, nor waited for, nor a module is a slip."""
    waited_for = {"lib.queue.queues", "tools.inspect_checkpoint"}
    wrong = []
    for path, homes in paths.ROWS.items():
        for home in homes:
            if home.startswith("pyflow:"):
                if finder.owner(home) is None and home.partition(":")[2] not in waited_for:
                    wrong.append((path, home))
    assert not wrong


def test_each_new_name_exists_or_is_waited_for():
    """What the old names lead to is in tf, or in a namespace that is not there yet."""
    for old, new in renamed.NAMES.items():
        if new is None:
            continue
        try:
            renamed.current(new, old)
        except AttributeError as e:
            assert any(path in _names.NOT_HERE for path in (new, new.partition(".")[0])), (old, str(e))


@pytest.mark.parametrize("use_resource", [False, True])
def test_freeze_graph(tmp_path, use_resource):
    """A text graph and a checkpoint, as tools/freeze_graph.py is called."""
    from pyflow.python.tools import freeze_graph
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        x = tf.placeholder(tf.float32, [2], name="x")
        w = tf.get_variable("w", initializer=[2., 3.], use_resource=use_resource)
        tf.multiply(x, w, name="y")
        sess.run(tf.global_variables_initializer())
        sess.run(tf.assign(w, [4., 5.]))
        saved = tf.train.Saver().save(sess, str(tmp_path / "m"))
        tf.train.write_graph(graph.as_graph_def(), str(tmp_path), "g.pbtxt")
    arguments = ("", False, saved, "y", "save/restore_all", "save/Const:0", str(tmp_path / "f.pb"), True, "")
    freeze_graph.freeze_graph(str(tmp_path / "g.pbtxt"), *arguments)
    frozen = tf.GraphDef.FromString((tmp_path / "f.pb").read_bytes())
    assert not {"VariableV2", "VarHandleOp"} & {node.op for node in frozen.node}
    with tf.Graph().as_default(), tf.Session() as sess:
        [y] = tf.import_graph_def(frozen, return_elements=["y:0"], name="")
        assert sess.run(y, {"x:0": [1., 2.]}).tolist() == [4., 10.]
    for path, message in (("absent", "there is no file"), (saved + ".meta", "not a text GraphDef")):
        with pytest.raises(ValueError, match=message):
            freeze_graph.freeze_graph(path if path == "absent" else str(path), *arguments)
