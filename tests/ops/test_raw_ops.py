"""tf.raw_ops: TensorFlow's argument names (recorded from 1.15 and 2.21), by name only."""
import inspect
import json
import pathlib
import pickle

import numpy as np
import pytest

import pyflow as tf
from pyflow.framework import op as op_lib
from pyflow.framework.op_functions import OpFunction

RECORD = json.loads((pathlib.Path(__file__).parent / "tf_arguments.json").read_text())


def is_part_of(some, all_):
    """Is `some` what is left of `all_`, in its order, when others are taken out?"""
    rest = iter(all_)
    return all(name in rest for name in some)


def test_arguments_are_tensorflow_s():
    """Those of the newest release that has the op, in its order; 1.15's are among them."""
    assert len(RECORD) > 800
    wrong = []
    for name, recorded in RECORD.items():
        own = list(inspect.signature(getattr(tf.raw_ops, name)).parameters)
        if own != recorded.get("2.21", recorded.get("1.15")) or not is_part_of(
                recorded.get("1.15", []), own):
            wrong.append((name, own, recorded))
    assert not wrong


def test_every_op_is_recorded():
    known = {n for n in op_lib.op_names() if not n.startswith("_") and "." not in n}
    assert not known - set(RECORD), "record again: tests/ops/record_arguments.py"


@pytest.mark.parametrize("call, value", [
    (lambda raw, x: raw.Sum(input=x, axis=[1]), [1.0, 5.0]),
    (lambda raw, x: raw.Max(input=x, axis=1, keep_dims=True), [[1.0], [3.0]]),
    (lambda raw, x: raw.All(input=x > 0, axis=0), [False, True]),
    (lambda raw, x: raw.ExpandDims(input=x, axis=0), [[[0.0, 1.0], [2.0, 3.0]]]),
    (lambda raw, x: raw.Squeeze(input=x[:1], axis=[0]), [0.0, 1.0]),
    (lambda raw, x: raw.Split(axis=1, value=x, num_split=2)[1], [[1.0], [3.0]]),
    (lambda raw, x: raw.SplitV(value=x, size_splits=[2], axis=0, num_split=1)[0],
     [[0.0, 1.0], [2.0, 3.0]]),
    (lambda raw, x: raw.Select(condition=x > 1, x=x, y=-x), [[0.0, -1.0], [2.0, 3.0]]),
    (lambda raw, x: raw.Where(condition=x > 2), [[1, 1]]),
])
def test_renamed_arguments(call, value):
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.constant([[0.0, 1.0], [2.0, 3.0]])
        np.testing.assert_array_equal(sess.run(call(tf.raw_ops, x)), value)


@pytest.mark.parametrize("call, text", [
    (lambda x: tf.raw_ops.Sum(x, [1]), "by name: Sum(*, input, axis, keep_dims=False, name=None)"),
    (lambda x: tf.raw_ops.Sum(input=x, reduction_indices=[1]), "'reduction_indices'"),
    (lambda x: tf.raw_ops.Stage(values=[x], dtypes=[tf.float32]), "'dtypes'"),
    (lambda x: tf.raw_ops.Sum(input=x), "reduction_indices"),
])
def test_refused(call, text):
    with tf.Graph().as_default(), pytest.raises(TypeError) as caught:
        call(tf.constant([[1.0]]))
    assert text in str(caught.value)


def test_they_are_like_functions():
    matmul = tf.raw_ops.MatMul
    assert matmul is tf.raw_ops.MatMul and matmul.__name__ == "MatMul"
    assert pickle.loads(pickle.dumps(matmul)) is matmul
    assert "a: T" in matmul.__doc__ and '@op("MatMul"' in inspect.getsource(matmul)


def test_functions_by_position_have_the_same_names():
    """tensorflow.python.ops.gen_*_ops."""
    split = OpFunction(op_lib.get_op("Split"), "split", __name__, by_position=True)
    assert list(inspect.signature(split).parameters) == RECORD["Split"]["1.15"]
    with tf.Graph().as_default(), tf.Session() as sess:
        first, _ = split(axis=0, value=[1, 2], num_split=2)
        assert sess.run([first, split(0, [1, 2], 2)[1]]) == [[1], [2]]
