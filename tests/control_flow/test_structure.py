"""Graphs of control flow, gradients, variables and optimizers have TensorFlow's nodes, name for
name, edge for edge.

The record tf_nodes.json.gz comes from record.py (TensorFlow 2.21, compat.v1, control flow v1).
Left out of the comparison: Const nodes and edges from them (how index arguments are named), and
AddV2 counts as Add.
"""
import gzip
import json
import os
import sys

import pytest

import pyflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from flow_programs import PROGRAMS  # noqa: E402

with gzip.open(os.path.join(HERE, "tf_nodes.json.gz")) as file:
    RECORD = json.loads(file.read())


def built(build):
    """Our nodes as text, as record.py writes TensorFlow's."""
    with tf.Graph().as_default() as graph:
        build(tf)
    lines = []
    for op in graph.get_operations():
        inputs = [t.op.name if t.value_index == 0 else t.name for t in op.inputs]
        controls = ["^" + control.name for control in op.control_inputs]
        lines.append(" ".join([op.name, op.type, *inputs, *controls]))
    return lines


def comparable(lines):
    """Nodes without constants; control inputs in order of name."""
    nodes = [line.split() for line in lines]
    constants = {node[0] for node in nodes if node[1] == "Const"}
    found = []
    for name, kind, *inputs in nodes:
        if name in constants:
            continue
        kind = "Add" if kind == "AddV2" else kind
        data = [i for i in inputs if i[0] != "^" and i not in constants]
        found.append(" ".join([name, kind, *data, *sorted(i for i in inputs if i[0] == "^")]))
    return sorted(found)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_same_nodes_as_tensorflow(name):
    assert comparable(built(PROGRAMS[name])) == comparable(RECORD[name])


def test_record_is_complete():
    assert set(RECORD) == set(PROGRAMS)
