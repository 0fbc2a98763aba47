"""One-op graphs for the ONNX exporter, from the samples of the `@op` blocks.

A case's inputs are placeholders: of the sample's sizes, or of unknown ones.  Where the exporter asks
for a constant, all inputs but the first (or the last) become constants.

    for case in cases(): made = build(case, unknown=False)
"""
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE.parent / "ops") not in sys.path:
    sys.path.insert(0, str(HERE.parent / "ops"))

import derive  # noqa: E402
import pyflow as tf  # noqa: E402
from pyflow.interop import onnx  # noqa: E402
from pyflow.interop.onnx.exporter import registry  # noqa: E402

WAYS = ("fed", "first", "last")         # which inputs are placeholders


class Made:
    """An exported case: `model` (bytes), `feeds` by name, `wanted` (pyflow's outputs)."""

    def __init__(self, model, feeds, wanted, way):
        self.model, self.feeds, self.wanted, self.way = model, feeds, wanted, way


def cases():
    """The derived cases of ops that have a converter, but complex and quantised ones."""
    return [case for case in derive.cases() if registry.find(case.op.name) is not None
            and not any(getattr(t, "is_complex", False) or getattr(t, "is_quantized", False)
                        for t in case.types.values())]


def build(case, unknown=False):
    """The case as a Made; UnsupportedError if the exporter refuses it."""
    error = None
    for way in WAYS:
        try:
            return _build(case, unknown, way)
        except onnx.UnsupportedError as refused:
            error = error or refused
            if "constant" not in str(refused):
                break
    raise error


def _build(case, unknown, way):
    feeds, flat = {}, case.feeds()
    fed = {"fed": range(len(flat)), "first": [0], "last": [len(flat) - 1]}[way]
    count = iter(range(len(flat)))

    def make(array):
        i = next(count)
        if i not in fed:
            return tf.constant(array)
        feeds[f"x{i}"] = array
        shape = [None] * np.ndim(array) if unknown else np.shape(array)
        return tf.placeholder(tf.string if array.dtype == object else array.dtype, shape,
                              name=f"x{i}")
    with tf.Graph().as_default():
        op = case.node(make)
        outputs = {f"y{i}": t for i, t in enumerate(op.outputs)}
        inputs = {name: name + ":0" for name in feeds}
        model = onnx.export(outputs, inputs)
        with tf.Session() as session:
            wanted = session.run(list(outputs.values()), {f"{k}:0": v for k, v in feeds.items()})
    return Made(model, feeds, wanted, way)
