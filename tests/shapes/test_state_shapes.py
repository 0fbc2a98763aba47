"""Static shapes and checks of ops on variables, tensor arrays and tensor lists against TensorFlow's recorded answers
(state_cases.py, handle_cases.py, record_state.py)."""
import gzip
import json
import pathlib
import re
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import ask  # noqa: E402
import handle_cases  # noqa: E402
import state_cases  # noqa: E402

import pyflow as tf  # noqa: E402

# TensorFlow looks at a gradient's shape in the step where the variable is behind a handle, and never at the last scalar of FtrlV2.
STATE = re.compile(r"Resource(Sparse)?Apply\w+ (grad|delta|indices)=|\w+FtrlV2 lr_power="
                   r"|Resource(Sparse)?ApplyProximalGradientDescent var=")
# It looks at what is pushed, popped, or a scalar made a list of, or elements to be in the step.
HANDLES = re.compile(r"TensorListPushBack |TensorListPopBack |TensorListFromTensor (then )?of .* with $"
                     r"|TensorListSplit of  with ")
OTHERS = re.compile(r"TensorArrayGradV3 ")      # its handle is a scalar here, a vector of two in TensorFlow


def test_the_elements_type_travels_too():
    with tf.Graph().as_default():
        made = tf.raw_ops.TensorListReserve(element_shape=[2], num_elements=3, element_dtype=tf.float32)
        for handle in (made, tf.identity(made), tf.raw_ops.Switch(data=made, pred=True)[1]):
            with pytest.raises(ValueError, match="type int32 but got one of type float32"):
                tf.raw_ops.TensorListGetItem(input_handle=handle, index=0, element_shape=-1, element_dtype=tf.int32)
            item = tf.raw_ops.TensorListGetItem(input_handle=handle, index=0, element_shape=-1, element_dtype=tf.float32)
            assert item.shape == [2]


def test_a_long_chain_is_walked_once():
    with tf.Graph().as_default():
        handle = tf.raw_ops.EmptyTensorList(element_shape=[3], max_num_elements=-1, element_dtype=tf.float32)
        row = tf.placeholder(tf.float32, [3])
        for _ in range(3000):
            handle = tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=row)
        rows = tf.raw_ops.TensorListStack(input_handle=handle, element_shape=-1, element_dtype=tf.float32)
        assert rows.shape.as_list() == [None, 3]


def answer(data):
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(tf.GraphDef.FromString(data), name="")
        except ValueError as error:
            return "!" + str(error)
        return ";".join(ask.shape_text(t.shape) for t in graph.get_operation_by_name("node").outputs)


@pytest.mark.parametrize("name, source, allowed, count, ops", [
    ("state", state_cases, STATE, 231, 90), ("handles", handle_cases, HANDLES, 57, 27)])
def test_shapes_and_checks_are_tensorflow_s(name, source, allowed, count, ops):
    recorded = json.loads(gzip.decompress((HERE / f"{name}.json.gz").read_bytes()))
    cases, wrong, stricter = source.cases(), [], 0
    assert cases.keys() == recorded.keys(), "tests/shapes/record_state.py has not been asked about these"
    for key, data in cases.items():
        ours, theirs = answer(data), recorded[key]
        if theirs[:1] == "!":
            different = ours[:1] != "!"
        elif ours[:1] == "!":
            different = not allowed.match(key)
            stricter += not different
        else:
            different = any(map(ask._compared, ours.split(";"), theirs.split(";"))) and not OTHERS.match(key)
        if different:
            wrong.append(f"{key}: {ours!r}, TensorFlow {theirs!r}")
    assert not wrong, "\n".join(wrong[:20])
    assert stricter == count
    assert len({key.split()[0] for key in cases}) == ops
