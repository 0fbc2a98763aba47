"""JSON values to arrays, and arrays to JSON values.

    spec = tensors.Spec("x", dtypes.float32, (None, 2))
    tensors.array_of([[1, 2], [3, 4.5]], spec)              # float32 [2, 2]
    tensors.array_of([[1, "2"]], spec)                      # InvalidArgumentError: names x, [0, 1]

Invariants
    1. Nothing is converted that JSON tells apart: no text becomes a number, no boolean and no
       fraction an integer; what a type cannot hold is an error, rounding of decimals apart.
    2. An error names the input, what was expected and what came, and where in the list.
    3. Text is UTF-8; {"b64": "..."} is bytes, both ways. (TensorFlow Serving: api_rest.md,
       "Encoding binary values".)

Threads: functions without state.
"""
import base64
import binascii
import itertools
import json
from typing import NamedTuple

import numpy as np

from pyflow.framework import dtypes, errors
from pyflow.serving import refusals

B64 = "b64"
DEEPEST = 32            # NumPy 1's most dimensions
NAMES = {type(None): "Null", bool: "Boolean", int: "Number", float: "Number", str: "String",
          list: "Array", dict: "Object"}


class Spec(NamedTuple):
    """An input or output of a signature: dims is None (any shape) or a tuple with None for sizes
    that are open; tensor: the graph's."""

    name: str
    dtype: object
    dims: object
    tensor: object = None

    def __str__(self):
        if self.dims is None:
            return f"{self.dtype.name} of any shape"
        return f"{self.dtype.name} {shown(self.dims)}"


def shown(dims):
    """"[?, 3]"."""
    return "[" + ", ".join("?" if d is None else str(d) for d in dims) + "]"


def is_bytes(value):
    """True for {"b64": "..."}."""
    return type(value) is dict and len(value) == 1 and type(value.get(B64)) is str


def array_of(value, spec):
    """The array of a JSON value, a scalar or nested lists, of the type and shape of `spec`."""
    flat, shape, found = _flattened(value, spec)
    convert, kinds = _converter(spec)
    if not found <= kinds:
        raise _no_value(flat, next(k for k, v in enumerate(flat) if type(v) not in kinds), shape,
                        spec)
    array = convert(flat, shape, spec)
    if not array.size and spec.dims is not None and len(shape) < len(spec.dims):
        shape = [*shape, *(d or 0 for d in spec.dims[len(shape):])]     # [] of what has rows
    array = array.reshape(shape)
    require_fit(array.shape, spec)
    return array


def require_fit(shape, spec):
    """InvalidArgumentError if an array of this shape is none for `spec`."""
    dims = spec.dims
    if dims is not None and (len(dims) != len(shape) or any(
            d is not None and d != s for d, s in zip(dims, shape))):
        raise refusals.bad(f"input {spec.name!r}: expected {spec}, got shape {shown(shape)}")


# ---------------------------------------------------------------- nested lists

def _flattened(value, spec):
    """(leaves, shape, types of the leaves) of nested lists, which are of equal lengths."""
    level, shape = [value], []
    while level and type(level[0]) is list:
        kinds, sizes = set(map(type, level)), None
        if kinds == {list}:
            sizes = set(map(len, level))
        if sizes is None or len(sizes) != 1 or len(shape) == DEEPEST:
            raise _ragged(level, shape, spec)
        shape.append(sizes.pop())
        level = list(itertools.chain.from_iterable(level))
    found = set(map(type, level))
    if list in found:
        raise _ragged(level, shape, spec)
    return level, shape, found


def _ragged(level, shape, spec):
    if len(shape) == DEEPEST:
        return refusals.bad(f"input {spec.name!r}: lists nested more than {DEEPEST} deep")
    first = _what(level[0])
    at = next(k for k, v in enumerate(level) if _what(v) != first)
    return refusals.bad(
        f"input {spec.name!r}: expected {spec}, got lists of different lengths or depths: "
        f"{first} first, but {_what(level[at])} at {_place(at, shape)}")


def _what(value):
    return f"{len(value)} values" if type(value) is list else "a single value"


def _place(at, shape):
    return [int(i) for i in np.unravel_index(at, shape)] if shape else []


# ---------------------------------------------------------------- leaves

def _converter(spec):
    """(function of leaves, types that leaves may have)."""
    dtype = spec.dtype
    if dtype == dtypes.string:
        return _strings, {str, dict}
    if dtype == dtypes.bool:
        return _booleans, {bool}
    if dtype.is_integer:
        return _integers, {int}
    if dtype.is_floating:
        return _floats, {float, int}
    raise errors.UnimplementedError(None, None, (
        f"input {spec.name!r}: JSON has no values of type {dtype.name}"))


def _no_value(flat, at, shape, spec):
    value = flat[at]
    text = f"with keys {', '.join(value)}" if type(value) is dict else json.dumps(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    where = f" at {_place(at, shape)}" if shape else ""
    return refusals.bad(f"input {spec.name!r}: expected {spec}, got {NAMES[type(value)]} {text}"
                        f"{where}")


def _floats(flat, shape, spec):
    try:
        wide = np.array(flat, np.float64)
    except OverflowError:
        at = next(k for k, v in enumerate(flat) if abs(v) > 1e308)
        raise _no_value(flat, at, shape, spec) from None
    kind = spec.dtype.as_numpy_dtype
    if not flat or np.abs(wide).max() <= spec.dtype.max:
        return wide.astype(kind)
    with np.errstate(over="ignore"):                    # NaN, infinity, or too large
        array = wide.astype(kind)
    lost = np.isinf(array.astype(np.float64)) & np.isfinite(wide)
    if lost.any():
        raise _no_value(flat, int(np.argmax(lost)), shape, spec)
    return array


def _integers(flat, shape, spec):
    low, high = spec.dtype.min, spec.dtype.max
    if flat and (min(flat) < low or max(flat) > high):
        at = next(k for k, v in enumerate(flat) if not low <= v <= high)
        raise _no_value(flat, at, shape, spec)
    wide = np.uint64 if high > np.iinfo(np.int64).max else np.int64
    return np.array(flat, wide).astype(spec.dtype.as_numpy_dtype)


def _booleans(flat, shape, spec):
    return np.array(flat, np.bool_)


def _strings(flat, shape, spec):
    found = []
    for at, value in enumerate(flat):
        try:
            found.append(value.encode() if type(value) is str else bytes_of(value))
        except ValueError:
            raise _no_value(flat, at, shape, spec) from None
    return objects(found)


def objects(values):
    """An array of strings: bytes, one dimension."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def bytes_of(value):
    """The bytes of {"b64": "..."}; ValueError for any other object."""
    if not is_bytes(value):
        raise ValueError
    try:
        return base64.b64decode(value[B64], validate=True)
    except binascii.Error:
        raise ValueError from None


# ---------------------------------------------------------------- and back

def json_of(array, spec):
    """What `json_text.write` takes for an array: numbers stay an array, strings become lists of
    texts, or of {"b64": ...} if the output's name ends with "_bytes" or they are no UTF-8."""
    if spec.dtype == dtypes.string:
        as_bytes = spec.name.endswith("_bytes")
        return _texts(array, as_bytes) if array.ndim else _text(array.item(), as_bytes)
    if array.dtype.kind not in "biuf":
        if array.dtype.kind == "c" or not spec.dtype.is_floating:
            raise errors.UnimplementedError(None, None, (
                f"output {spec.name!r}: JSON has no values of type {spec.dtype.name}"))
        array = array.astype(np.float32)            # bfloat16 and smaller
    return array if array.ndim else plain(array)


def plain(array):
    """Numbers as lists, or one alone, with the fewest digits that give them back in their type."""
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        array = array.astype("U").astype(np.float64)
    return array.tolist()


def _texts(array, as_bytes):
    if array.ndim > 1:
        return [_texts(part, as_bytes) for part in array]
    return [_text(value, as_bytes) for value in array.tolist()]


def _text(value, as_bytes):
    if not as_bytes:
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return {B64: base64.b64encode(value).decode()}
