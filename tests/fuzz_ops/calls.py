"""Bad calls of ops, made from their signatures and samples.

Invariants
  1. A call is its address: (seed, op, group, number) gives the same node and the same feeds in
     every process.
  2. A group is one node (element types and attributes, some of them odd) behind placeholders of
     unknown shape; its calls differ in what is fed.

    for call in range(50):
        feeds = group.feeds(call)
"""
import pathlib
import sys
import warnings
import zlib

import numpy as np

import pyflow as tf
from pyflow.framework import dtypes
from pyflow.framework.op import registered_ops

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "ops"))
from derive import Case, type_choices  # noqa: E402

CALLS = 50                              # of one group
INTS = (-1, 0, 1, 2, 3, -2, 7, 255, -128, 2**15, 2**20, 2**31 - 1, -2**31, 2**31, 2**40, 2**62,
        -2**63, 2**63 - 1)
FLOATS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 1e38, -1e38, 1e308, 2.0**31, -2.0**63, 0.5)
SIZES = (0, 0, 1, 1, 2, 3, 4, 5, 8)
NOT_FED = (dtypes.variant, dtypes.resource)    # values that only ops make
# What a call may do to the process that fuzzes: write or read files, print, run Python.
LEFT_OUT = {"SaveV2", "RestoreV2", "Save", "SaveSlices", "MergeV2Checkpoints", "PrintV2", "Print", "WriteFile",
            "ReadFile", "MatchingFiles", "PyFunc", "PyFuncStateless", "EagerPyFunc"}


def fuzzed_ops():
    """{name: OpDef} of every op that has samples and takes values rather than references."""
    return {name: op for name, op in registered_ops().items()
            if (op.module or "").startswith("pyflow.") and op.samples and name not in LEFT_OUT
            and not any(a.is_ref for a in op.inputs) and op.inputs}


def _rng(*address):
    return np.random.default_rng([zlib.crc32(str(part).encode()) for part in address])


# ------------------------------------------------------------------------------------- values
def _odd_values(rng, array):
    """Some elements replaced by extreme ones."""
    changed = array.copy()
    flat = changed.reshape(-1)
    for at in rng.integers(0, max(flat.size, 1), rng.integers(1, 4)):
        if at >= flat.size:
            continue
        if array.dtype.kind in "iu":
            info = np.iinfo(array.dtype)
            flat[at] = min(max(int(INTS[rng.integers(len(INTS))]), info.min), info.max)
        elif array.dtype.kind in "fcV":
            with np.errstate(all="ignore"):
                flat[at] = np.asarray(FLOATS[rng.integers(len(FLOATS))]).astype(array.dtype)
        elif array.dtype.kind == "b":
            flat[at] = not flat[at]
        elif array.dtype.kind == "O":
            flat[at] = rng.bytes(int(rng.choice([0, 1, 3, 20, 300])))
    return changed


def _filled(array, shape):
    """The elements of `array`, repeated as needed, in another shape."""
    size = int(np.prod(shape))
    if not array.size:
        fill = np.zeros(size, array.dtype) if array.dtype.kind != "O" else \
            np.full(size, b"", object)
        return fill.reshape(shape)
    return np.resize(array, size).reshape(shape)


def _odd_shape(rng, array):
    kind = rng.integers(7)
    shape = list(array.shape)
    if kind == 0:
        shape.insert(int(rng.integers(len(shape) + 1)), int(rng.choice(SIZES)))
    elif kind == 1 and shape:
        shape.pop(int(rng.integers(len(shape))))
    elif kind == 2:
        shape = []
    elif kind == 3 and shape:
        shape[int(rng.integers(len(shape)))] = 0
    elif kind == 4:
        shape = [int(rng.choice(SIZES)) for _ in range(rng.integers(0, 6))]
    elif kind == 5:
        shape = [1] * int(rng.integers(0, 34))
    elif shape:
        at = int(rng.integers(len(shape)))
        shape[at] = max(0, shape[at] + int(rng.integers(-1, 3)))
    return _filled(array, shape)


def _changed(rng, array):
    kind = rng.integers(5)
    if kind <= 1:
        return _odd_shape(rng, array)
    if kind == 2:
        return _odd_values(rng, _odd_shape(rng, array))
    return _odd_values(rng, array)


# -------------------------------------------------------------------------------------- types
TYPES = [np.dtype(name) for name in ("float32", "float64", "int32", "int64", "int8", "uint16",
                                     "bool", "complex128", "float16", "object")]


def _as_type(array, dtype):
    """The array's elements, or zeros, as elements of another type."""
    if array.dtype.kind == "O" or dtype.kind == "O":
        return np.full(array.shape, b"x" if dtype.kind == "O" else 0, dtype)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")         # the imaginary part is dropped
        return array.astype(dtype)


def _odd_types(rng, base):
    """One input, or all of them, of another element type than the sample has."""
    dtype = TYPES[rng.integers(len(TYPES))]
    at = int(rng.integers(-1, len(base)))
    return [[_as_type(a, dtype) for a in value] if isinstance(value, list)
            else _as_type(value, dtype) if at in (i, -1) else value
            for i, value in enumerate(base)]


# --------------------------------------------------------------------------------- attributes
def _odd_attribute(rng, attr, value):
    """Another value for an attribute; those the schema refuses are part of the test."""
    kind = attr.kind
    if kind == "int":
        return int(INTS[rng.integers(len(INTS))])
    if kind == "float":
        return float(FLOATS[rng.integers(len(FLOATS))])
    if kind == "bool":
        return not value
    if kind == "string":
        return str(rng.choice(attr.allowed)) if attr.allowed and rng.random() < 0.7 else \
            rng.choice(["", "x", "VALID", "...ij,->", "a->a", "NHWC", "é" * 40])
    if kind == "list(int)" and isinstance(value, (list, tuple)):
        items = [int(v) for v in value]
        if items and rng.random() < 0.7:
            items[int(rng.integers(len(items)))] = int(INTS[rng.integers(len(INTS))])
        elif rng.random() < 0.5:
            items.append(1)
        else:
            items = items[:-1]
        return items
    if kind == "list(float)" and isinstance(value, (list, tuple)):
        return [float(FLOATS[rng.integers(len(FLOATS))]) for _ in value]
    if kind == "shape":
        return [int(INTS[rng.integers(len(INTS))]) for _ in range(rng.integers(0, 4))]
    return value


class Group:
    """One node and the calls of it.  `build()` may raise ValueError or TypeError: the schema, or
    the shape function, has refused it."""

    def __init__(self, op, seed, number):
        self.op, self.seed, self.number = op, seed, number
        rng = _rng(seed, op.name, number)
        samples = list(op.samples)
        at = int(rng.integers(len(samples)))
        choices = type_choices(op, samples[at])
        types = dict(choices[int(rng.integers(len(choices)))])
        for name in types:                  # secondary types too
            allowed = [t for t in op.attrs[name].allowed or () if t not in NOT_FED]
            if allowed and rng.random() < 0.3:
                types[name] = allowed[int(rng.integers(len(allowed)))]
        self.case = Case(op, at, samples[at], types)
        self.base = self.case.arrays()
        self.attrs = self.case.attrs()
        self.odd = rng.random() < 0.5
        if self.odd:
            free = [a for a in op.attrs.values() if a.name not in op.call_plan.inferred
                    and a.kind not in ("type", "list(type)", "tensor", "func")]
            for attr in free:
                if rng.random() < 0.5:
                    value = self.attrs.get(attr.name, attr.default if attr.has_default else None)
                    self.attrs[attr.name] = _odd_attribute(rng, attr, value)
            if rng.random() < 0.3 and self.base:
                self.base = _odd_types(rng, self.base)

    def build(self):
        """(outputs, placeholders) in the current graph."""
        made = []

        def placeholder(array):
            dtype = tf.string if array.dtype.kind == "O" else array.dtype
            made.append(tf.placeholder(dtypes.as_dtype(dtype)))
            return made[-1]
        inputs = [[placeholder(a) for a in value] if isinstance(value, list) else placeholder(value)
                  for value in self.base]
        return _outputs(self.op(*inputs, **self.attrs)), made

    def feeds(self, call):
        """Flat arrays; call 0 is the sample itself."""
        rng = _rng(self.seed, self.op.name, self.number, call)
        flat = [a for value in self.base for a in (value if isinstance(value, list) else [value])]
        if call == 0:
            return flat
        chosen = set(rng.integers(0, len(flat), rng.integers(1, 1 + min(3, len(flat)))).tolist())
        with np.errstate(all="ignore"):
            return [_changed(rng, a) if i in chosen else a for i, a in enumerate(flat)]

    def __str__(self):
        return f"{self.op.name} {self.number}: {self.case.id} {self.attrs}"


def _outputs(result):
    if hasattr(result, "outputs"):          # an Operation: no outputs
        return [result]
    if isinstance(result, (list, tuple)):
        return [tensor for item in result for tensor in _outputs(item)]
    return [result]
