"""What the importer makes one op of goes out as ONNX's op again; onnxruntime 1.32 gave the same of
each model that is written."""
import collections

import numpy as np
import pytest
from sweep_model import F, data, graph, model, node

import pyflow as tf
from pyflow.interop import onnx
from pyflow.interop.onnx import messages
from pyflow.tools import command

ML = "ai.onnx.ml"


def there_and_back(nodes, inputs, outputs, arrays, feeds):
    """Ops of the model that is written; asserts that it gives the same."""
    first = model(graph(nodes, inputs, [(name,) for name in outputs], arrays), {"": 18, ML: 3})
    with tf.Graph().as_default():
        made = onnx.import_model(first)
        data = onnx.export(list(made.outputs.values()), list(made.inputs.values()))
    for found, wanted in zip(onnx.prepare(data).run(feeds), onnx.prepare(first).run(feeds),
                             strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    return collections.Counter(n.op_type for n in messages.read(data).graph.node)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("peephole", [False, True])
@pytest.mark.parametrize("states", [False, True])
def test_lstm(direction, peephole, states):
    k = 2 if direction == "bidirectional" else 1
    names = ["x", "w", "r", "b", "", *(["h0", "c0"] if states else ["", ""]),
             "p" if peephole else ""]
    arrays = {"w": data(k, 12, 5), "r": data(k, 12, 3), "b": data(k, 24), "p": data(k, 9),
              "h0": data(k, 2, 3), "c0": data(k, 2, 3)}
    ops = there_and_back(
        [node("LSTM", names, ["y", "h", "c"], {"hidden_size": 3, "direction": direction})],
        [("x", F, ("t", "b", 5))], ["y", "h", "c"], arrays, [data(4, 2, 5)])
    assert ops["LSTM"] == k and "Loop" not in ops


def test_cells_of_all_steps_are_refused():
    """ONNX's LSTM gives the last ones alone."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 2, 5])
        zeros = [tf.zeros(shape) for shape in ([2, 3], [2, 3], [8, 12], [3], [3], [3], [12])]
        made = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.constant(4, tf.int64), x=x, cs_prev=zeros[0], h_prev=zeros[1],
            w=zeros[2], wci=zeros[3], wcf=zeros[4], wco=zeros[5], b=zeros[6], cell_clip=-1.0)
        with pytest.raises(onnx.UnsupportedError, match="cs is read of other steps than the last"):
            onnx.export([made.cs[1]], [x])


def test_a_shorter_lstm():
    """Steps beyond seq_len_max are zero; the forget bias goes into the bias."""
    with tf.Graph().as_default() as graph_:
        x, n = tf.placeholder(tf.float32, [4, 2, 5]), tf.placeholder(tf.int64, [])
        made = tf.raw_ops.BlockLSTM(
            seq_len_max=n, x=x, cs_prev=tf.constant(data(2, 3)), h_prev=tf.constant(data(2, 3)),
            w=tf.constant(data(8, 12)), wci=tf.zeros([3]), wcf=tf.zeros([3]), wco=tf.zeros([3]),
            b=tf.constant(data(12)), cell_clip=-1.0, forget_bias=1.5)
        model_ = onnx.export([made.h], [x, n])
        with tf.Session(graph=graph_) as session:
            for count in (2, 4):
                feeds = [data(4, 2, 5), np.int64(count)]
                np.testing.assert_allclose(onnx.prepare(model_).run(feeds)[0], session.run(
                    made.h, dict(zip([x, n], feeds))), rtol=1e-5, atol=1e-6)


TREE = {"nodes_falsenodeids": [4, 3, 0, 0, 0], "nodes_featureids": [0, 1, 0, 0, 0],
        "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0], "nodes_treeids": [0] * 5,
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF"],
        "nodes_nodeids": [0, 1, 2, 3, 4], "nodes_truenodeids": [1, 2, 0, 0, 0],
        "nodes_values": [0.5, 0.1, 0.0, 0.0, 0.0]}
X = np.array([[0, 0], [0, 1], [1, 0], [np.nan, 2], [0.5, 0.1]], F)


def leaves(prefix):
    return {f"{prefix}_ids": [0, 1, 0, 1], f"{prefix}_nodeids": [2, 3, 4, 4],
            f"{prefix}_treeids": [0] * 4, f"{prefix}_weights": [1.0, 2.0, 3.0, -1.0]}


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_trees_that_give_numbers(how):
    tree = node("TreeEnsembleRegressor", ["x"], ["y"], {
        "n_targets": 2, "aggregate_function": how, "base_values": [0.5, 0.25],
        "post_transform": "SOFTMAX", **TREE, **leaves("target")}, domain=ML)
    assert there_and_back([tree], [("x", F, ("n", 2))], ["y"], {}, [X]) == {
        "TreeEnsembleRegressor": 1}


@pytest.mark.parametrize("classes", [[3, 5], [3, 5, 9]])
def test_trees_that_give_classes(classes):
    tree = node("TreeEnsembleClassifier", ["x"], ["y", "s"], {
        "classlabels_int64s": classes, **TREE, **leaves("class")}, domain=ML)
    assert there_and_back([tree], [("x", F, ("n", 2))], ["y", "s"], {}, [X]) == {
        "TreeEnsembleClassifier": 1}


def test_products_of_whole_numbers():
    u = np.uint8
    ops = there_and_back(
        [node("MatMulInteger", ["x", "w", "zx", "zw"], ["y"])], [("x", u, (2, 3))], ["y"],
        {"w": data(3, 4, dtype=u, low=0, high=255), "zx": np.array(3, u), "zw": np.array(5, u)},
        [data(2, 3, dtype=u, low=0, high=255)])
    assert ops == {"MatMulInteger": 1}


def test_convert_writes_what_was_an_output(tmp_path):
    """To .pb and back: what an op gives besides (a batch norm's statistics, a TopK's places) is
    none."""
    arrays = {name: abs(data(3)) + 0.5 for name in ("scale", "shift", "mean", "var")}
    arrays["k"] = np.array([2])
    nodes = [node("BatchNormalization", ["x", "scale", "shift", "mean", "var"], ["n"]),
             node("TopK", ["n", "k"], ["y", "places"])]
    (tmp_path / "m.onnx").write_bytes(model(graph(nodes, [("x", F, (1, 3, 4, 4))], [("y",)], arrays),
                                            {"": 18}))
    for source, target in (("m.onnx", "m.pb"), ("m.pb", "back.onnx")):
        assert command.main(["convert", str(tmp_path / source), "-o", str(tmp_path / target)]) == 0
    back = messages.read((tmp_path / "back.onnx").read_bytes())
    assert [o.name for o in back.graph.output] == ["y"]
