"""Static shapes, checks at construction and unknown ranks against TensorFlow's recorded answers.

What is asked is derived from the blocks' samples (nodes.py) and from the cases of tests/oracle
(functions.py); `record_nodes.py` and `record_functions.py` asked TensorFlow.  A shape of ours may
be more specific than TensorFlow's, never less, never another; what TensorFlow refuses when a node is made
we refuse there too.  known.py lists what stays different, and why.
"""
import collections
import pathlib
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import ask  # noqa: E402
import functions  # noqa: E402
import known  # noqa: E402
from nodes import nodes, variants  # noqa: E402

import pyflow as tf  # noqa: E402
from pyflow.framework.graph import Graph  # noqa: E402

NODES = nodes()
RECORDED = ask.recorded(ask.ANSWERS)


def differences(node):
    """[(kind, text)] of one node's variants."""
    asked, found = ask.Asked(node), []
    theirs = RECORDED[node.id]
    for key, given in variants(node).items():
        if key in theirs:
            ours = asked.answer(given)
            kind = ask.difference(key, ours, theirs[key])
            if kind is not None:
                found.append((kind, f"{node.id} {key}: {kind}; {ours!r}, TensorFlow "
                                    f"{theirs[key]!r}"))
    return found


def test_every_node_has_recorded_answers():
    missing = [n.id for n in NODES if n.id not in RECORDED]
    assert not missing, "tests/shapes/record_nodes.py has not been asked about these"
    assert sum(len(v) for v in RECORDED.values()) > 40_000


def test_shapes_and_checks_are_tensorflow_s():
    told, counts = collections.defaultdict(list), collections.defaultdict(collections.Counter)
    for node in NODES:
        if node.id in RECORDED:
            for kind, text in differences(node):
                counts[node.operation.type][kind] += 1
                told[node.operation.type].append(text)
    expected = {op: dict(kinds) for op, (kinds, _) in known.NODES.items()}
    wrong = [op for op in {*counts, *expected} if dict(counts[op]) != expected.get(op, {})]
    assert not wrong, "\n".join(
        f"{op}: {dict(counts[op])}, known.py {expected.get(op, {})}\n  " + "\n  ".join(told[op][:5])
        for op in sorted(wrong))


# ------------------------------------------------------------------------------- unknown ranks, run
def first_nodes():
    """One node of each op that has a reference."""
    found = {}
    for node in NODES:
        if node.operation.op_def.reference and node.inputs:
            found.setdefault(node.operation.type, node)
    return list(found.values())


def run_of_unknown_rank(node):
    """The results of a node all of whose inputs are placeholders of unknown rank."""
    graph = Graph()
    with graph.as_default():
        fed = [tf.placeholder(tf.string if a.dtype == object else a.dtype, None)
               for a in node.inputs]
        operation = node.operation
        made = graph.add_node(operation.op_def, "node", tuple(fed), operation.attrs,
                              [t.dtype for t in operation.outputs])
        with tf.Session() as session:
            return session.run(list(made.outputs), dict(zip(fed, node.inputs)))


def test_nodes_of_unknown_rank_run():
    wrong = []
    for node in first_nodes():
        try:
            found = run_of_unknown_rank(node)
        except (ValueError, tf.errors.OpError) as error:
            wrong.append(f"{node.id}: {error}")
            continue
        for ours, expected in zip(found, node.case.expected()):
            if np.shape(ours) != np.shape(expected):
                wrong.append(f"{node.id}: {np.shape(ours)}, expected {np.shape(expected)}")
    assert not wrong, "\n".join(wrong)


# --------------------------------------------------------------------------------- public functions
ANSWERS = ask.recorded(ask.FUNCTIONS)


def function_difference(case, way):
    """The kind of difference between a function's answer and TensorFlow's, or None; a failing step
    is told by its exception."""
    theirs = ANSWERS[case.name][way]
    with tf.Graph().as_default():
        try:
            inputs, outputs = functions.build(tf, case, way)
            outputs = [tf.convert_to_tensor(y) for y in outputs]
        except (ValueError, TypeError, tf.errors.OpError):
            return None if theirs[:1] in ("!", "~") and theirs else "raises"
        if theirs[:1] not in ("!", "~") or not theirs:
            ours = ";".join(ask.shape_text(y.shape) for y in outputs)
            kind = ask.difference(way, ours, theirs)
            if kind is not None:
                return kind
            if way == "none":
                with tf.Session() as session:
                    session.run(outputs, dict(zip(inputs, functions.cases.arrays(case))))
    return None


def test_functions_take_unknown_sizes_and_ranks():
    """They are made with the shapes TensorFlow finds, and run."""
    found = {}
    for case in functions.all_cases():
        for way in functions.WAYS:
            kind = function_difference(case, way)
            if kind is not None:
                found[f"{case.name} {way}"] = kind
    expected = {what: kind for what, (kind, _) in known.FUNCTIONS.items()}
    assert found == expected
