"""Parts of a graph by scope: tf.train.export_meta_graph(export_scope=), and TensorFlow's
python/framework/meta_graph.py.  Expected names were printed by TensorFlow 2.21's compat.v1."""
import numpy as np
import pytest

import pyflow as tf
from pyflow.python.framework import meta_graph

UNBOUND = "$unbound_inputs_hidden1/h"


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        with tf.name_scope("hidden1"):
            w = tf.Variable(tf.ones([3, 4]), name="w")
            h = tf.nn.relu(tf.matmul(x, w), name="h")
        with tf.name_scope("hidden2"):
            v = tf.Variable(tf.ones([4, 1]), name="v")
            tf.matmul(h, v, name="y")
        yield graph


def nodes(message):
    return sorted((n.name, n.op, list(n.input)) for n in message.graph_def.node)


EXPECTED = [("ones", "Const", []), ("v", "VariableV2", []), ("v/Assign", "Assign", ["v", "ones"]),
            ("v/read", "Identity", ["v"]), ("y", "MatMul", [UNBOUND, "v/read"])]


def test_names_are_relative_and_outer_inputs_unbound(graph):
    message, variables = meta_graph.export_scoped_meta_graph(graph=graph, export_scope="hidden2")
    assert nodes(message) == EXPECTED == nodes(tf.train.export_meta_graph(export_scope="hidden2"))
    assert {k: v.name for k, v in variables.items()} == {"v:0": "hidden2/v:0"}
    assert list(message.collection_def["unbound_inputs"].bytes_list.value) == [UNBOUND.encode()]
    assert set(message.collection_def) == {"trainable_variables", "unbound_inputs", "variables"}


def test_import_needs_a_map_and_runs(graph):
    message, _ = meta_graph.export_scoped_meta_graph(graph=graph, export_scope="hidden2")
    with tf.Graph().as_default() as there:
        z = tf.placeholder(tf.float32, [2, 4], name="z")
        for function in (meta_graph.import_scoped_meta_graph, tf.train.import_meta_graph):
            with pytest.raises(ValueError, match=r"Graph contains unbound inputs: \$unbound_inputs_hidden1/h."):
                function(message, import_scope="new")
        variables = meta_graph.import_scoped_meta_graph(message, import_scope="new", input_map={UNBOUND: z})
        assert {k: v.name for k, v in variables.items()} == {"v:0": "new/v:0"}
        assert [o.name for o in there.get_operations()] == ["z", "new/ones", "new/v", "new/v/Assign", "new/v/read",
                                                            "new/y"]
        assert there.get_collection("unbound_inputs") == []
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            value = np.arange(8, dtype=np.float32).reshape(2, 4)
            np.testing.assert_array_equal(sess.run("new/y:0", {z: value}), value.sum(1, keepdims=True))


def test_other_collection_files_and_predicates(graph, tmp_path):
    path = tmp_path / "part.meta"
    meta_graph.export_scoped_meta_graph(path, graph=graph, export_scope="hidden2/", unbound_inputs_col_name="open")
    with tf.Graph().as_default() as there:
        z = tf.placeholder(tf.float32, [2, 4])
        with pytest.raises(ValueError, match="unbound"):
            meta_graph.import_scoped_meta_graph(path, unbound_inputs_col_name="open")
        found = meta_graph.import_scoped_meta_graph(path, unbound_inputs_col_name="open", input_map={UNBOUND: z},
                                                    restore_collections_predicate=lambda key: key != "trainable_variables")
        assert list(found) == ["v:0"]
        assert len(there.get_collection("variables")) == 1 and not there.get_collection("trainable_variables")


def test_copy_of_a_whole_scope():
    with tf.Graph().as_default() as graph:
        with tf.name_scope("tower"):
            v = tf.Variable(3.0, name="v")
            tf.multiply(v, 2.0, name="y")
        copies = meta_graph.copy_scoped_meta_graph("tower", "other")
        assert {k: c.name for k, c in copies.items()} == {"v:0": "other/v:0"}
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(tf.assign(copies["v:0"], 5.0))
            assert sess.run(["tower/y:0", "other/y:0"]) == [6.0, 10.0]
        with pytest.raises(ValueError, match="need to be different"):
            meta_graph.copy_scoped_meta_graph("tower", "tower")
        with tf.Graph().as_default() as elsewhere:
            assert list(meta_graph.copy_scoped_meta_graph("tower", "tower", graph, elsewhere)) == ["v:0"]
