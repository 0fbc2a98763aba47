"""Converters of pyflow's ops into ONNX's, by name of the op.

    @converts("MatMul")
    def matmul(node): return node.emit("MatMul", node.x(0), node.x(1))

A converter takes a `Node` (node.py) and returns what the op's outputs are: a name of ONNX's graph,
a `Value`, or a list of them.  Families are loaded when the first model is written.
"""

import importlib

FAMILIES = ("array", "compare", "conv", "elementwise", "indexing", "integers", "linalg", "lists",
            "matmul", "norm", "pool", "quantized", "reduce", "refused", "resize", "rnn", "shape",
            "trees")

_table = {}
_refused = {}
_loaded = False


def converts(*names):
    """Registers a function for the ops called `names`."""
    def register(function):
        for name in names:
            if name in _table:
                raise ValueError(f"two converters for {name}")
            _table[name] = function
        return function
    return register


def refuse(reason, *names):
    """Says why ops have no converter."""
    for name in names:
        _refused[name] = reason


def find(name):
    """The converter for an op, or None."""
    _load()
    return _table.get(name)


def reason(name):
    """Why an op cannot be written."""
    _load()
    if name in _refused:
        return _refused[name]
    if name.endswith(("Grad", "GradV2", "GradV3", "GradGrad")) or "BackpropFilter" in name:
        return "gradients are not written; export the graph before it is trained"
    return "no converter for this op"


def names():
    """All ops that have a converter, sorted."""
    _load()
    return sorted(_table)


def _load():
    global _loaded
    if not _loaded:
        for family in FAMILIES:
            importlib.import_module(f"pyflow.interop.onnx.exporter.ops.{family}")
        _loaded = True
