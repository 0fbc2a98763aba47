"""Maps: what a graph holds of one is the tensor of its keys and that of its values.

Invariants:
1. A map that is fed is two tensors, [entries] each, in the dict's order: `Map`.
2. A sequence of maps with the same keys, as ZipMap makes it, is the tensor of its scores; its keys
   stay with the model and become dicts with what was fetched: `Maps`, `as_maps`.
"""

import numpy as np

from pyflow.framework import dtypes
from pyflow.interop.onnx.values import Value


class Map(Value):
    """A map: `tensor` has the values [entries], `keys` is the tensor of the keys [entries]."""

    __slots__ = ("keys",)

    def __init__(self, keys, values):
        super().__init__(values)
        self.keys = keys


class Maps(Value):
    """A sequence of maps: `tensor` has the values [maps, keys], `labels` is the array of keys."""

    __slots__ = ("labels",)

    def __init__(self, labels, values):
        super().__init__(values)
        self.labels = labels


def as_maps(scores, labels):
    """One dict a sample: {label: score}, labels as str or int."""
    names = [k.decode("utf-8", "surrogateescape") if isinstance(k, bytes) else int(k)
             for k in labels.tolist()]
    return [dict(zip(names, row)) for row in np.asarray(scores).tolist()]


def entries(given, key_dtype, value_dtype):
    """[keys, values] of a dict, as arrays of those DTypes.  Raises TypeError for what does
    not fit."""
    if not isinstance(given, dict):
        raise TypeError(f"expected a dict, got {type(given).__name__}")
    return [_array(given, key_dtype), _array(given.values(), value_dtype)]


def _array(items, dtype):
    items, text = list(items), dtype is dtypes.string
    for item in items:
        if isinstance(item, (str, bytes)) != text or np.ndim(item):
            raise TypeError(f"expected {dtype.name} in every entry of a dict, got {item!r}")
    return np.array(items, object if text else dtype.as_numpy_dtype)
