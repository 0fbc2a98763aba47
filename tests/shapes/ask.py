"""pyflow's answers to the nodes of nodes.py, and how they differ from TensorFlow's recorded ones.

A difference is one of
    raises       pyflow refuses what TensorFlow makes (and, if mis-shaped on purpose, runs)
    accepts      pyflow makes what TensorFlow refuses
    type         both refuse, with other exception types
    wrong        a size or rank that contradicts TensorFlow's
    weaker       a size or rank is unknown that TensorFlow knows
"""
import gzip
import json
import pathlib

from nodes import is_wrong

from pyflow.framework import dtypes
from pyflow.framework.convert import to_tensor
from pyflow.framework.graph import Graph
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.array.identity_functions import placeholder
from pyflow.ops.move.join_ops import Pack

ANSWERS, FUNCTIONS = (pathlib.Path(__file__).resolve().parent / f"{name}.json.gz"
                      for name in ("answers", "functions"))


def recorded(path):
    """{what was asked: {how: TensorFlow's answer}}."""
    return json.loads(gzip.decompress(path.read_bytes()))


class Asked:
    """One node's variants, in a graph of their own; equal placeholders are made once."""

    def __init__(self, node):
        self.node, self.graph, self.made = node, Graph(), {}

    def answer(self, given):
        """As record_nodes.py writes it."""
        with self.graph.as_default():
            inputs = [self.tensor(a, g) for a, g in zip(self.node.inputs, given)]
            operation = self.node.operation
            try:
                made = self.graph.add_node(operation.op_def, self.graph.unique_name("node"),
                                           tuple(inputs), operation.attrs,
                                           [t.dtype for t in operation.outputs])
            except Exception as error:  # noqa: BLE001  what is raised is the answer
                return "!" + type(error).__name__
            return ";".join(shape_text(t.shape) for t in made.outputs)

    def tensor(self, array, given):
        dtype = dtypes.string if array.dtype == object else dtypes.as_dtype(array.dtype)
        if given[0] == "constant":
            key = "constant", id(given[1])
            return self.once(key, lambda: to_tensor(given[1], dtype))
        if given[0] == "packed":
            return Pack([to_tensor(v, dtype) if known else self.fed(dtype, ())
                         for v, known in zip(given[1], given[2])])
        return self.fed(dtype, given[1])

    def fed(self, dtype, shape):
        return self.once((dtype, shape), lambda: placeholder(dtype, TensorShape(shape)))

    def once(self, key, make):
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]


def shape_text(shape):
    dims = shape.as_tuple()
    return "*" if dims is None else ",".join("?" if d is None else str(d) for d in dims)


def difference(key, ours, theirs):
    """The kind of difference, or None; a mis-shaped node that TensorFlow makes and cannot run, a
    right one that it refuses for want of knowledge, and an op that it gave up, have none."""
    if theirs[:1] == "~" or theirs == "!UnimplementedError":
        return None
    if theirs[:1] == "!" and ours[:1] != "!" and not is_wrong(key):
        return None
    if theirs[:1] == "!":
        return "accepts" if ours[:1] != "!" else "type" if ours != theirs else None
    if ours[:1] == "!":
        return "raises"
    kinds = {_compared(a, b) for a, b in zip(ours.split(";"), theirs.split(";"))}
    return "wrong" if "wrong" in kinds else "weaker" if "weaker" in kinds else None


def _compared(ours, theirs):
    if theirs == "*" or ours == theirs:
        return None
    if ours == "*":
        return "weaker"
    ours, theirs = (t.split(",") if t else [] for t in (ours, theirs))
    if len(ours) != len(theirs) or any(a != b and "?" not in (a, b) for a, b in zip(ours, theirs)):
        return "wrong"
    return "weaker" if any(a == "?" and b != "?" for a, b in zip(ours, theirs)) else None
