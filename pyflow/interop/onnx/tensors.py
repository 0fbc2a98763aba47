"""TensorProto to NumPy, with data inside the message or in files beside the model.

Invariants:
1. Sizes are checked before anything is allocated: what the shape asks for is what the data holds,
   and a tensor never takes more than its data (splats do not exist in ONNX).
2. External data stay inside the model's folder: absolute paths, `..`, links that lead out and
   offsets beyond the file are errors.  Without a folder (a model from bytes) they are refused.

    array = to_array(tensor, folder="/models/resnet")
"""

import math
import os

import numpy as np

from pyflow.framework import dtypes
from pyflow.interop.onnx import files

# ONNX's TensorProto.DataType -> ours
DTYPES = {1: dtypes.float32, 2: dtypes.uint8, 3: dtypes.int8, 4: dtypes.uint16, 5: dtypes.int16,
          6: dtypes.int32, 7: dtypes.int64, 8: dtypes.string, 9: dtypes.bool, 10: dtypes.float16,
          11: dtypes.float64, 12: dtypes.uint32, 13: dtypes.uint64, 14: dtypes.complex64,
          15: dtypes.complex128, 16: dtypes.bfloat16}
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
TYPE_NAMES = {17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz",
              21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2"}

_MAX_RANK = 254
_BITS = {10: np.uint16, 16: np.uint16}     # types whose bits int32_data holds


def dtype_of(number, what):
    """Our DType for an ONNX element type.  Raises TypeError if pyflow has none."""
    dtype = DTYPES.get(number)
    if dtype is None:
        name = TYPE_NAMES.get(number, f"number {number}")
        raise TypeError(f"{what}: element type {name} is not supported; expected one of "
                        f"{', '.join(t.name for t in DTYPES.values())}")
    return dtype


def shape_of(proto, what):
    """The tensor's shape as a tuple.  Raises ValueError for negative or absurd sizes."""
    shape = tuple(int(d) for d in proto.dims)
    if len(shape) > _MAX_RANK or any(d < 0 for d in shape):
        raise ValueError(f"{what}: {shape} is no shape")
    if math.prod(shape) >= 1 << 40:
        raise ValueError(f"{what}: shape {shape} has 2^40 elements or more")
    return shape


def to_array(proto, folder=None, what=None):
    """The tensor as an ndarray (object array of bytes for strings), read-only where it is a view.

    Raises TypeError for element types pyflow lacks, ValueError if sizes and data disagree."""
    what = what or f"tensor {proto.name!r}"
    dtype = dtype_of(proto.data_type, what)
    shape = shape_of(proto, what)
    if dtype is dtypes.string:
        return _strings(proto, shape, what)
    np_type = np.dtype(dtype.as_numpy_dtype)
    count = math.prod(shape)
    if proto.data_location == 1 or len(proto.external_data):
        flat = _external(proto, count * np_type.itemsize, folder, what).view(np_type)
    elif len(proto.raw_data):
        raw = proto.raw_data
        if len(raw) != count * np_type.itemsize:
            raise ValueError(f"{what}: shape {shape} of {dtype.name} needs "
                             f"{count * np_type.itemsize} bytes, raw_data has {len(raw)}")
        flat = np.frombuffer(raw, np_type)
    else:
        flat = _typed(proto, np_type, what)
    if flat.size != count:
        raise ValueError(f"{what}: shape {shape} needs {count} elements, {flat.size} are there")
    return flat.reshape(shape)


def _strings(proto, shape, what):
    items = proto.string_data
    if len(items) != math.prod(shape):
        raise ValueError(f"{what}: shape {shape} needs {math.prod(shape)} strings, "
                         f"{len(items)} are there")
    array = np.empty(len(items), object)
    array[:] = [bytes(item) for item in items]
    return array.reshape(shape)


def _typed(proto, np_type, what):
    """The elements of float_data, int32_data, ... whichever the element type uses."""
    number = proto.data_type
    if number in (14, 15):
        parts = proto.float_data if number == 14 else proto.double_data
        return np.asarray(parts, np.float32 if number == 14 else np.float64).view(np_type)
    field = {1: "float_data", 11: "double_data", 7: "int64_data", 12: "uint64_data",
             13: "uint64_data"}.get(number, "int32_data")
    items = np.asarray(getattr(proto, field))
    if not items.size:
        return np.zeros(0, np_type)
    if number in _BITS:
        return items.astype(np.int64).astype(np.uint16).view(np_type)
    if number == 13:
        return items.astype(np.int64).view(np.uint64)
    return items.astype(np_type)


def _external(proto, size, folder, what):
    """The bytes of a tensor that lies in a file of the model's folder."""
    entries = {e.key: e.value for e in proto.external_data}
    if folder is None:
        raise ValueError(f"{what}: its data are in the file {entries.get('location')!r}; give the "
                         f"model's path, not its bytes, so that the file can be found")
    path = _inside(folder, entries.get("location", ""), what)
    try:
        offset = int(entries.get("offset", 0) or 0)
        length = int(entries.get("length", size) or size)
    except ValueError:
        raise ValueError(f"{what}: offset {entries.get('offset')!r} or length "
                         f"{entries.get('length')!r} is no number") from None
    if length != size or offset < 0:
        raise ValueError(f"{what}: needs {size} bytes, its external data say {length} at {offset}")
    if size == 0:
        return np.zeros(0, np.uint8)
    available = os.path.getsize(path)
    if offset + size > available:
        raise ValueError(f"{what}: needs bytes {offset} to {offset + size} of {path}, which has "
                         f"{available}")
    file = files.ModelFile(path, offset, size)
    return np.frombuffer(file, np.uint8, size, file.skip)


def _inside(folder, location, what):
    """The path of `location`, a plain file in `folder` or below."""
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, location))
    if not location or os.path.isabs(location) or os.path.commonpath([root, path]) != root:
        raise ValueError(f"{what}: external data {location!r} lead out of the model's folder "
                         f"{root}; expected a relative path inside it")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{what}: no file {path}; the model's external data belong there")
    return path
