"""One-op graphs for the ONNX exporter, from the samples of the `@op` blocks.

A case's inputs are placeholders: of the sample's sizes, or of unknown ones.  Where the exporter
asks for a constant, all inputs but the first (or the last) become constants.

    for case in cases(): made = build(case, unknown=False)
"""
import hashlib
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE.parent / "ops") not in sys.path:
    sys.path.insert(0, str(HERE.parent / "ops"))

import derive  # noqa: E402
import pyflow as tf  # noqa: E402
from pyflow.interop import onnx  # noqa: E402
from pyflow.interop.onnx import messages  # noqa: E402
from pyflow.interop.onnx.exporter import registry, writing  # noqa: E402

TOLERANCES = {"float16": 4e-3, "bfloat16": 4e-2, "float64": 3e-8}
# Which inputs are placeholders.  Where sizes are unknown ("data"), those of the primary type.
WAYS = ("fed", "first", "last")


class Made:
    """An exported case: `model` (bytes), `feeds` by name, `wanted` (pyflow's outputs)."""

    def __init__(self, model, feeds, wanted, way):
        self.model, self.feeds, self.wanted, self.way = model, feeds, wanted, way


def cases():
    """The derived cases of ops that have a converter, but complex and quantised ones."""
    return [case for case in derive.cases() if registry.find(case.op.name) is not None
            and not any(getattr(t, "is_complex", False) or getattr(t, "is_quantized", False)
                        for t in case.types.values())]


def build(case, unknown=False, run=True):
    """The case as a Made; UnsupportedError if the exporter refuses it.  run: with pyflow's outputs,
    which take most of the time."""
    error = None
    for way in ("data", "first") if unknown else WAYS:
        try:
            return _build(case, unknown, way, run)
        except onnx.UnsupportedError as refused:
            error = error or refused
            if "constant" not in str(refused):
                break
    raise error


def _build(case, unknown, way, run):
    feeds, flat = {}, case.feeds()
    data = [i for i, arg in enumerate(case.op.inputs) if i == 0 or arg.type_attr in derive.PRIMARY]
    fed = {"data": data if len(flat) == len(case.op.inputs) else range(len(flat)),
           "fed": range(len(flat)), "first": [0], "last": [len(flat) - 1]}[way]
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
        if way != "last" and any(t.shape.ndims is None for t in op.outputs):
            raise onnx.UnsupportedError("an output's rank is not known: a constant is needed")
        inputs = {name: name + ":0" for name in feeds}
        model = onnx.export(outputs, inputs)
        wanted = None
        if run:
            with tf.Session() as session:
                wanted = session.run(list(outputs.values()),
                                     {f"{k}:0": v for k, v in feeds.items()})
    return Made(model, feeds, wanted, way)


def hash_of(made):
    """A short hash of what the model is, but for its producer's version."""
    model = messages.read(made.model)
    model.producer_version = ""
    return hashlib.sha256(writing.write(model)).hexdigest()[:12]


def read_back(made):
    """What differs when the model is imported and run; "" if nothing does."""
    try:
        found = onnx.prepare(made.model).run(list(made.feeds.values()))
    except (ValueError, tf.errors.OpError) as error:
        return str(error).splitlines()[0]
    for i, (have, want) in enumerate(zip(found, made.wanted)):
        text = differs(np.asarray(have), np.asarray(want))
        if text:
            return f"output {i}: {text}"
    return ""


def differs(have, want):
    """How two arrays differ, "" if they do not: floats within a few units of their type."""
    if have.shape != want.shape:
        return f"shape {have.shape}, expected {want.shape}"
    if want.dtype == object:
        return "" if [bytes(x) if isinstance(x, bytes) else x.encode() for x in
                      have.ravel().tolist()] == want.ravel().tolist() else "other strings"
    if want.dtype.kind in "biu":
        return "" if (have == want).all() else f"{have.ravel()[:4]}, expected {want.ravel()[:4]}"
    size = TOLERANCES.get(want.dtype.name, 3e-5)
    close = np.allclose(have.astype(np.float64), want.astype(np.float64), size, size,
                        equal_nan=True)
    return "" if close else f"{have.ravel()[:4]}, expected {want.ravel()[:4]}"
