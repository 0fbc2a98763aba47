"""Converters of ONNX ops by domain, name and the opset version they are valid from.

    @converter("Softmax", since=13)
    def softmax(node): return tf.nn.softmax(node.x(0), axis=node.attr("axis", -1))

A converter takes a `Node` and returns what its outputs are: a tensor, a `Value`, or a list of
them (None for an output that is not made).  The version used for a node is the newest one that is
not newer than the model's opset.
"""

import bisect
import importlib

# Modules with converters; importing one registers them.
FAMILIES = ("array", "attention", "control_flow", "conv", "elementwise", "image", "indexing",
            "linear", "linear_attention", "loss", "maps", "matmul", "microsoft", "microsoft_array",
            "microsoft_attention", "microsoft_packed", "microsoft_quantized", "ml", "norm", "pad",
            "pool", "quantized", "random", "recurrent", "reduce", "resize", "sampling", "sequence",
            "shape", "signal", "text", "trees")

MICROSOFT = "com.microsoft"

_table = {}         # (domain, op) -> ([since, ...], [function, ...])
_loaded = False


def converter(*names, since=1, domain=""):
    """Registers a function for the ops called `names`."""
    def register(function):
        for name in names:
            versions, functions = _table.setdefault((domain, name), ([], []))
            at = bisect.bisect(versions, since)
            versions.insert(at, since)
            functions.insert(at, function)
        return function
    return register


def find(domain, name, opset):
    """The converter for an op, or None.  domain "ai.onnx" is ""."""
    _load()
    found = _table.get((domain, name))
    if found is None:
        return None
    at = bisect.bisect(found[0], opset)
    return found[1][at - 1] if at else None


def names():
    """All (domain, op) with a converter, sorted."""
    _load()
    return sorted(_table)


def _load():
    global _loaded
    if not _loaded:
        for family in FAMILIES:
            importlib.import_module(f"pyflow.interop.onnx.ops.{family}")
        _loaded = True
