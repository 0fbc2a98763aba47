"""Names of TensorFlow 1.15 that are other places for what there is, and short functions: tf.print,
tf.py_function, tf.init_scope, tf.io.gfile, tf.profiler."""
import logging
import sys

import numpy as np
import pytest

import pyflow as tf


@pytest.mark.parametrize("name, same", [
    ("estimator.SessionRunHook", "train.SessionRunHook"), ("dtypes.float32", "float32"),
    ("initializers.global_variables", "global_variables_initializer"),
    ("contrib.signal.stft", "signal.stft"), ("io.PriorityQueue", "PriorityQueue"),
    ("io.gfile.GFile", "gfile.GFile"), ("is_tensor", "contrib.framework.is_tensor"),
    ("contrib.metrics.set_union", "sets.set_union"), ("no_gradient", "NoGradient"),
])
def test_other_places(name, same):
    values = []
    for path in (name, same):
        value = tf
        for part in path.split("."):
            value = getattr(value, part)
        values.append(value)
    assert values[0] is values[1]


# What TensorFlow 1.15.5 prints of the same inputs.
PRINTED = [
    (lambda: ("a:", tf.constant([1, 2])), {}, "a: [1 2]\n"),
    (lambda: (tf.constant("only"),), {}, "only\n"),
    (lambda: (tf.range(10),), {}, "[0 1 2 ... 7 8 9]\n"),
    (lambda: (tf.range(6),), {"summarize": -1}, "[0 1 2 3 4 5]\n"),
    (lambda: ({"b": tf.constant(1.5), "a": [tf.constant(2), "x"]}, 7), {"sep": "|", "end": ""},
     "{'a': [2, 'x'], 'b': 1.5}|7"),
    (lambda: ("{}", tf.constant(1)), {}, "{} 1\n"),
    (lambda: (tf.SparseTensor([[0, 1]], [3.0], [2, 2]),), {},
     "'SparseTensor(indices=[[0 1]], values=[3], shape=[2 2])'\n"),
]


@pytest.mark.parametrize("inputs, options, text", PRINTED)
def test_print(inputs, options, text, tmp_path):
    path = tmp_path / "printed"
    with tf.Graph().as_default(), tf.Session() as sess:
        sess.run(tf.print(*inputs(), output_stream=f"file://{path}", **options))
    assert path.read_text() == text


def test_print_to_streams(capfd, caplog):
    with tf.Graph().as_default(), tf.Session() as sess:
        with caplog.at_level(logging.INFO, "tensorflow"):
            for stream in (sys.stderr, sys.stdout, tf.logging.info):
                sess.run(tf.print("to", tf.constant(1), output_stream=stream))
    out, err = capfd.readouterr()
    assert out == "to 1\n" and err.startswith("to 1\n")
    with tf.Graph().as_default(), pytest.raises(ValueError, match="output stream"):
        tf.print("x", output_stream="nowhere")


def test_py_function():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.constant([1.0, 2.0])
        y = tf.py_function(lambda v, n: v.numpy() * n.numpy() + v, [x, tf.constant(2.0)], tf.float32)
        np.testing.assert_array_equal(sess.run(y), [3.0, 6.0])


def test_init_scope():
    with tf.Graph().as_default() as graph:
        before = tf.no_op()
        with tf.name_scope("outer"), tf.control_dependencies([before]):
            with tf.init_scope():
                made = tf.constant(1.0, name="made")
                assert tf.get_default_graph() is graph
            assert tf.identity(made).op.control_inputs == [before]
        assert made.op.name == "outer/made" and not made.op.control_inputs


def test_io_gfile(tmp_path):
    files = tf.io.gfile
    files.makedirs(f"{tmp_path}/a/b")
    with files.GFile(f"{tmp_path}/a/one", "w") as file:
        file.write("text")
    files.copy(src=f"{tmp_path}/a/one", dst=f"{tmp_path}/a/two")
    files.rename(f"{tmp_path}/a/two", f"{tmp_path}/a/three", overwrite=True)
    assert sorted(files.listdir(f"{tmp_path}/a")) == ["b", "one", "three"]
    assert files.exists(path=f"{tmp_path}/a/one") and files.isdir(f"{tmp_path}/a/b")
    assert files.glob(f"{tmp_path}/a/t*") == [f"{tmp_path}/a/three"]
    walked = [(top, sorted(names)) for top, _, names in files.walk(f"{tmp_path}/a", topdown=False)]
    assert walked == [(f"{tmp_path}/a/b", []), (f"{tmp_path}/a", ["one", "three"])]
    files.remove(f"{tmp_path}/a/one")
    files.rmtree(f"{tmp_path}/a")
    assert not files.exists(f"{tmp_path}/a")


def test_profiler():
    with tf.Graph().as_default():
        x = tf.ones([2, 3])
        tf.matmul(x, tf.get_variable("w", [3, 4]))
        quiet = tf.profiler.ProfileOptionBuilder(
            tf.profiler.ProfileOptionBuilder.float_operation()).with_empty_output().build()
        assert tf.profiler.profile(options=quiet).total_float_ops == 48
        quiet = tf.profiler.ProfileOptionBuilder().with_empty_output().build()
        assert tf.profiler.profile(options=quiet).total_parameters == 12


def test_the_logger():
    assert tf.get_logger() is logging.getLogger("tensorflow")
