"""Converters of ONNX ops by domain, name and the opset version they are valid from.

    @converter("Softmax", since=13)
    def softmax(node): return tf.nn.softmax(node.x(0), axis=node.attr("axis", -1))

A converter takes a `Node` and returns what its outputs are: a tensor, a `Value`, or a list of
them (None for an output that is not made).  The version used for a node is the newest one that is
not newer than the model's opset.

The modules of converters are imported when a model first has one of their ops; which has which
is in op_families.py, which `make tables` writes from them.
"""

import bisect
import importlib
import sys

from pyflow.interop.onnx.op_families import OP_FAMILIES

# Modules with converters; importing one registers them.
FAMILIES = ("array", "attention", "control_flow", "conv", "elementwise", "image", "indexing",
            "linear", "linear_attention", "loss", "maps", "matmul", "microsoft", "microsoft_array",
            "microsoft_attention", "microsoft_packed", "microsoft_quantized", "ml", "norm", "pad",
            "pool", "quantized", "random", "recurrent", "reduce", "resize", "sampling", "sequence",
            "shape", "signal", "text", "trees")

MICROSOFT = "com.microsoft"

_table = {}         # (domain, op) -> ([since, ...], [function, ...])
_homes = {}         # module -> {"domain.Op", ...}: what it registered
_families = {}      # "domain.Op" -> [family, ...]
for _family, _ops in OP_FAMILIES.items():
    for _op in _ops.split():
        _families.setdefault(_op, []).append(_family)


def converter(*names, since=1, domain=""):
    """Registers a function for the ops called `names`."""
    home = _homes.setdefault(sys._getframe(1).f_globals["__name__"], set())
    home.update(titled(domain, name) for name in names)

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
    title = titled(domain, name)
    if title in _families:
        _load(_families[title])
        _families.pop(title, None)      # after it, for other threads
    found = _table.get((domain, name))
    if found is None:
        return None
    at = bisect.bisect(found[0], opset)
    return found[1][at - 1] if at else None


def names():
    """All (domain, op) with a converter, sorted."""
    _load(FAMILIES)
    return sorted(_table)


def titled(domain, name):
    """"domain.Op", "Op" of ai.onnx's."""
    return f"{domain}.{name}" if domain else name


def families():
    """{family: titles of the ops that it has converters for}, of all."""
    _load(FAMILIES)
    return {family: _homes.get(f"pyflow.interop.onnx.ops.{family}", ()) for family in FAMILIES}


def _load(modules):
    for family in modules:
        importlib.import_module(f"pyflow.interop.onnx.ops.{family}")
