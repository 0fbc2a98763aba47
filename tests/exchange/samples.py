"""Writes FOLDER/samples.pickle: nodes of all ops by the samples of their blocks, as small GraphDefs
whose attributes at their defaults are left out, and what is fed.

    python -P tests/exchange/samples.py FOLDER           # pyflow

An op's first sample comes in two element types, the others in one.
"""
import importlib
import pathlib
import pickle
import pkgutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "ops"):
    sys.path.insert(0, str(folder))

import derive  # noqa: E402
import programs  # noqa: E402

import pyflow as tf  # noqa: E402
import pyflow.ops  # noqa: E402
from pyflow.framework import written_messages  # noqa: E402

MOST = 4                # samples of an op


def node_of(case):
    """(GraphDef bytes, [packed array]) of a case."""
    feeds = []

    def fed(array):
        dtype = tf.string if array.dtype == object else tf.as_dtype(array.dtype)
        made = tf.placeholder(dtype, array.shape, name=f"in{len(feeds)}")
        feeds.append(array)
        return made

    with tf.Graph().as_default() as graph:
        operation = case.node(fed)
        graph_def = graph.as_graph_def()
    for node in graph_def.node:
        if node.name == operation.name:
            node.name = "node"
    written_messages.strip_defaults(graph_def)
    return graph_def.SerializeToString(), [programs.packed(a) for a in feeds]


def samples():
    found = {}
    for module in pkgutil.walk_packages(pyflow.ops.__path__, "pyflow.ops."):
        importlib.import_module(module.name)
    for name, op in sorted(derive.own_ops().items()):
        for number, sample in enumerate((op.samples or ())[:MOST]) if name[0] != "_" else ():
            choices = derive.type_choices(op, sample)
            choices.sort(key=lambda types: tf.float32 not in types.values())
            for types in choices[:1 if number else 2]:
                case = derive.Case(op, number, sample, types)
                found[case.id] = node_of(case)
    return found


if __name__ == "__main__":
    made = samples()
    (pathlib.Path(sys.argv[1]) / programs.SAMPLES).write_bytes(pickle.dumps(made, protocol=4))
    print(len(made), "samples")
