"""python -m pyflow summary: parameters of every kind of file, counted as their writers count
them."""
import json
import pathlib

import numpy as np
import onnx as onnx_package
import pytest
from onnx import TensorProto, helper, numpy_helper

import pyflow as tf
from pyflow.tools import command, summary

FROZEN = pathlib.Path(__file__).resolve().parents[1] / "frozen"


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """A folder with t.meta, t.index, ... of a program with two layers, and m, a SavedModel of
    it."""
    made = tmp_path_factory.mktemp("summary")
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        with tf.variable_scope("a"):
            y = tf.layers.dense(x, 3, name="one")
            y = tf.layers.dense(y, 2, use_bias=False, name="two")
        tf.get_variable("steps", [], tf.int64, trainable=False, initializer=tf.zeros_initializer())
        sess.run(tf.global_variables_initializer())
        tf.train.Saver().save(sess, str(made / "t"))
        tf.saved_model.simple_save(sess, str(made / "m"), {"x": x}, {"y": y})
        in_graph = summary.summary(tf.get_default_graph())
    assert in_graph.parameters == 4 * 3 + 3 + 3 * 2 + 1 and in_graph.trainable == 21
    return made


@pytest.mark.parametrize("name, trained", [("t.meta", 21), ("t", None), ("t.index", None),
                                           ("m", 21), ("", None)])
def test_a_training(name, trained, training):
    found = summary.summary(training / name)
    assert found.parameters == 22 and found.trainable == trained
    assert found.bytes == 21 * 4 + 8 and len(found.tensors) == 4
    kernel = next(t for t in found.tensors if t.name == "a/one/kernel")
    assert kernel[1:5] == ("float32", (4, 3), 12, 48)


def test_a_frozen_graph_has_its_weights_alone():
    """LeNet: no shape, axis or epsilon is counted."""
    found = summary.summary(FROZEN / "lenet.pb")
    graph = tf.GraphDef.FromString((FROZEN / "lenet.pb").read_bytes())
    wanted = {n.name: tf.make_ndarray(n.attr["value"].tensor) for n in graph.node
              if n.op == "Const" and n.name != "Reshape/shape"}
    assert {t.name: t.parameters for t in found.tensors} == {k: v.size for k, v in wanted.items()}
    assert found.bytes == sum(v.nbytes for v in wanted.values())


def test_an_onnx_model(tmp_path):
    weights = {"layer1.0.weight": np.ones((2, 3), np.float32),
               "layer1.1.weight": np.ones(3, np.float16), "head.bias": np.ones(5, np.int64)}
    inner = helper.make_graph([], "inner", [], [helper.make_tensor_value_info("b", 1, [2])],
                              [numpy_helper.from_array(np.ones(2, np.float32), "b")])
    nodes = [helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.ones(7))),
             helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)]
    graph = helper.make_graph(nodes, "g", [], [], [numpy_helper.from_array(w, n)
                                                   for n, w in weights.items()])
    graph.initializer.append(TensorProto(name="q", data_type=TensorProto.INT4, dims=[3],
                                         raw_data=b"ab"))
    onnx_package.save(helper.make_model(graph), tmp_path / "m.onnx")
    found = summary.summary(tmp_path / "m.onnx")
    assert {t.name: (t.dtype, t.parameters, t.bytes) for t in found.tensors} == {
        "layer1.0.weight": ("float32", 6, 24), "layer1.1.weight": ("float16", 3, 6),
        "head.bias": ("int64", 5, 40), "q": ("int4", 3, 2), "k": ("float64", 7, 56),
        "b": ("float32", 2, 8)}
    assert [(node.name, node.total_parameters) for level, node in summary.rows(found, 1)][:2] == \
        [("layer1", 9), ("head", 5)]


def test_the_command(training, capsys):
    def run(*words):
        status = command.main(["summary", *map(str, words)])
        return status, capsys.readouterr()
    status, said = run(training / "t.meta")
    lines = [line.split() for line in said.out.splitlines()]
    assert status == 0 and ["a/", "4", "tensors"] not in lines
    assert ["a/", "3", "tensors", "21", "84"] in lines
    assert ["a/one/kernel", "float32", "[4,", "3]", "12", "48"] in lines
    assert ["steps", "int64", "[]", "not", "trained", "1", "8"] in lines
    assert ["total", "MetaGraphDef", "4", "tensors", "22", "92"] in lines
    assert lines[-1] == ["21", "parameters", "are", "trained"]
    status, said = run(training / "t", "--depth", 1)
    assert [line.split()[0] for line in said.out.splitlines()] == ["name", "a/", "steps", "total"]
    status, said = run(training / "m", "--json", "--depth", 2)
    found = json.loads(said.out)
    assert found["parameters"] == 22 and len(found["tensors"]) == 4
    assert [s["name"] for s in found["scopes"]] == ["a", "a/one", "a/two"]
    for path in ("nowhere.pb", __file__, training / "x.onnx"):
        status, said = run(path)
        assert status == 2 and said.err and "Traceback" not in said.err
