"""What libraries of the package index lean on, each without its library (others.py runs those)."""
import os
import subprocess
import sys

import numpy as np
import pytest

import pyflow as tf
from pyflow.interop.tensorflow import convolutional, evaluation, feature_columns, op_def_registry


def test_optimizers_derive_from_optimizer_itself():         # gpflow 1.5
    classes = [getattr(tf.train, name) for name in dir(tf.train) if name.endswith("Optimizer")]
    assert len(classes) > 10
    assert [c for c in classes if c is not tf.train.Optimizer and c.__base__ is not tf.train.Optimizer] == []


def test_types_by_their_number():                           # tensorflow_hub 0.1
    for dtype in (tf.float32, tf.string, tf.bool, tf.int64, tf.float32._as_ref):
        assert tf.DType(dtype.as_datatype_enum) is dtype
    with pytest.raises(TypeError):
        tf.DType(9999)


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_files_take_text_and_bytes(tmp_path, mode):
    path = str(tmp_path / "f")
    with tf.gfile.GFile(path, mode) as f:
        for part in ("é1", b"\xff2", "3", bytearray(b"4")):
            f.write(part)
    assert (tmp_path / "f").read_bytes() == "é1".encode() + b"\xff234"


def test_a_meta_graph_in_memory_has_tensorflows_collections(tmp_path):
    with tf.Graph().as_default():
        v = tf.get_variable("v", [2])
        tf.add_to_collection("mine", v)
        message = tf.train.export_meta_graph()
        kept = tf.train.Saver().export_meta_graph(str(tmp_path / "m.meta"))
    assert set(message.collection_def) == {"variables", "trainable_variables", "mine"}
    assert set(kept.collection_def) == {*message.collection_def, "pyflow.origins"}
    with tf.Graph().as_default():
        with tf.name_scope("outer"):
            tf.train.import_meta_graph(message, import_scope="in",
                                       restore_collections_predicate=lambda name: name != "mine")
        assert tf.get_collection("mine") == []
        assert [v.op.name for v in tf.global_variables()] == ["outer/in/v"]


def test_signatures_of_all_ops():
    ops = op_def_registry.get_registered_ops()
    assert len(ops) > 800
    product = ops["MatMul"]
    assert [a.name for a in product.input_arg] == ["a", "b"] and not product.is_stateful
    attrs = {a.name: a for a in product.attr}
    assert attrs["transpose_a"].type == "bool" and attrs["transpose_a"].default_value.b is False
    assert tf.float32.as_datatype_enum in attrs["T"].allowed_values.list.type
    assert ops["VariableV2"].is_stateful and ops["VariableV2"].output_arg[0].is_ref
    assert ops["AddN"].input_arg[0].number_attr == "N" and ops["ConcatV2"].attr[0].minimum == 2
    listed = type("List", (), {"op": [product]})
    op_def_registry.register_op_list(listed)
    listed.op.append(type(product)(name="NoSuchOp"))
    with pytest.raises(ValueError, match="NoSuchOp"):
        op_def_registry.register_op_list(listed)


def test_an_evaluation_is_counted_and_ended(tmp_path):       # tf_slim 1.1
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=3.0)
        session.run(v.initializer)
        path = tf.train.Saver().save(session, str(tmp_path / "m"))
    for ops in (lambda up: up, lambda up: [up], lambda up: {"up": up}):
        with tf.Graph().as_default():
            v = tf.get_variable("v", initializer=0.0)
            seen = tf.get_local_variable("seen", initializer=0.0)
            found = evaluation._evaluate_once(
                path, eval_ops=ops(tf.assign_add(seen, v)), final_ops={"seen": seen.read_value()},
                hooks=[evaluation._StopAfterNEvalsHook(4)])
            step = evaluation._get_or_create_eval_step()
            assert step is evaluation._get_or_create_eval_step() and step.dtype.base_dtype == tf.int64
        assert found == {"seen": 12.0}
    with tf.Graph().as_default():
        v = tf.get_variable("v", initializer=0.0)
        assert tf.contrib.training.evaluate_once(path, final_ops=v * 2) == 6


class Length(feature_columns._DenseColumn):                 # as tensorflow_hub's columns are written
    name, _parse_example_spec = "length", {"text": tf.FixedLenFeature([1], tf.string)}
    _variable_shape = tf.TensorShape([1])

    def _transform_feature(self, inputs):
        return inputs.get("text")

    def _get_dense_tensor(self, inputs, weight_collections=None, trainable=None):
        return tf.to_float(tf.strings.length(inputs.get(self)))


def test_a_column_of_another_library():
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.feature_column.input_layer({"text": ["four", ""]}, [Length()])
        np.testing.assert_array_equal(session.run(made), [[4], [0]])
        assert tf.feature_column.make_parse_example_spec([Length()]) == Length._parse_example_spec


def test_paths():
    script = ("import pyflow; pyflow.compat.install_as_tensorflow(); import tensorflow as tf\n"
              "from tensorflow.python.layers import convolutional as c\n"
              "from tensorflow.python.training import evaluation as e\n"
              "from tensorflow.python.feature_column import feature_column as f\n"
              "from tensorflow.python.framework import op_def_registry as r\n"
              "from tensorflow.python.ops import variables as v\n"
              "assert c.Convolution2D is tf.layers.Conv2D and c.conv2d is tf.layers.conv2d\n"
              "e._evaluate_once, f._DenseColumn, r.get_registered_ops, v.PartitionedVariable\n"
              "s = tf.TensorShape([2, None]).as_proto(); print([d.size for d in s.dim])\n")
    env = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}     # for hub's old code
    done = subprocess.run([sys.executable, "-P", "-c", script], env=env, text=True, timeout=60,
                          capture_output=True)
    assert done.stdout == "[2, -1]\n", done.stderr
    assert convolutional.Deconv2D is tf.layers.Conv2DTranspose
