"""A node whose attribute is of another kind than its op says is refused as it is imported, in TensorFlow's words (2.21)."""
import pytest

import pyflow as tf


def graph_def(op, inputs=(), **attrs):
    graph = tf.GraphDef()
    for name in inputs:
        node = graph.node.add(op="Placeholder", name=name)
        node.attr["dtype"].type = 1
    node = graph.node.add(op=op, name="node", input=inputs)
    for key, (field, value) in attrs.items():
        target = node.attr[key]
        for part in field.split(".")[:-1]:
            target = getattr(target, part)
        last = field.split(".")[-1]
        if isinstance(value, list):
            getattr(target, last).extend(value)
        else:
            setattr(target, last, value)
    return graph


@pytest.mark.parametrize("graph, text", [
    (graph_def("Relu", ["x"], T=("i", 1)), "value with type 'int' when 'type' expected"),
    (graph_def("Relu", ["x"], T=("list.type", [1])), "value with type 'list.type.' when 'type' expected"),
    (graph_def("Softplus", ["x"], T=("s", b"float")), "value with type 'string' when 'type' expected"),
    (graph_def("LeakyRelu", ["x"], T=("type", 1), alpha=("i", 1)), "value with type 'int' when 'float' expected"),
    (graph_def("Squeeze", ["x"], T=("type", 1), squeeze_dims=("i", 0)), "value with type 'int' when 'list.int.' expected"),
    (graph_def("Squeeze", ["x"], T=("type", 1), squeeze_dims=("list.f", [0.])), "'list.float.' when 'list.int.' expected"),
    (graph_def("MatMul", ["x", "y"], T=("type", 1), transpose_a=("i", 1)), "value with type 'int' when 'bool' expected"),
])
def test_other_kinds_are_refused(graph, text):
    with tf.Graph().as_default() as there:
        with pytest.raises(ValueError, match="attr .*" + text):
            tf.import_graph_def(graph, name="")
        assert not there.get_operations()


def test_an_empty_list_is_a_list_of_any_kind():
    with tf.Graph().as_default():
        graph = graph_def("Squeeze", ["x"], T=("type", 1))
        graph.node[-1].attr["squeeze_dims"].list.SetInParent()
        [y] = tf.import_graph_def(graph, name="", return_elements=["node:0"])
        assert y.op.get_attr("squeeze_dims") == []
