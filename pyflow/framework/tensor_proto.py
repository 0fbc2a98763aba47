"""Reads TensorProtos, which come from files and peers and are not to be trusted.

Invariants:
1. Sizes are multiplied as Python integers and compared with the bytes present before anything is
   allocated; a proto can ask for at most `MAX_EXPANSION` bytes more than it carries.
2. A short value list repeats its last element, as in TF (`tf.fill`-like constants).
"""

import numpy as np

from pyflow.framework import dtypes

MAX_EXPANSION = 1 << 31

_VALUE_FIELD = {
    dtypes.float32: "float_val", dtypes.float64: "double_val", dtypes.int32: "int_val",
    dtypes.int16: "int_val", dtypes.int8: "int_val", dtypes.uint8: "int_val",
    dtypes.uint16: "int_val", dtypes.int4: "int_val", dtypes.uint4: "int_val",
    dtypes.complex64: "scomplex_val", dtypes.complex128: "dcomplex_val",
    dtypes.int64: "int64_val", dtypes.bool: "bool_val", dtypes.float16: "half_val",
    dtypes.bfloat16: "half_val", dtypes.uint32: "uint32_val", dtypes.uint64: "uint64_val",
    dtypes.float8_e5m2: "float8_val", dtypes.float8_e4m3fn: "float8_val", dtypes.qint8: "int_val",
    dtypes.quint8: "int_val", dtypes.qint16: "int_val", dtypes.quint16: "int_val",
    dtypes.qint32: "int_val"}


def _checked_shape(proto, item_bytes):
    """(shape, number of elements); ValueError if negative or beyond what a proto may ask for."""
    if proto.tensor_shape.unknown_rank:
        raise ValueError("a TensorProto has a shape of unknown rank")
    shape, total = [], 1
    for dim in proto.tensor_shape.dim:
        if dim.size < 0:
            raise ValueError(f"a TensorProto has a negative size: {dim.size}")
        shape.append(dim.size)
        total *= dim.size
    if len(shape) > 64:
        raise ValueError(f"a TensorProto has {len(shape)} dimensions; at most 64 are possible")
    if total * item_bytes > max(MAX_EXPANSION, len(proto.tensor_content)):
        raise ValueError(f"a TensorProto of shape {shape} wants {total * item_bytes} bytes, more "
                         f"than the {MAX_EXPANSION} a constant may expand to")
    if not total and any(d >= 1 << 62 for d in shape):
        raise ValueError(f"a TensorProto has an impossible shape: {shape}")
    return tuple(shape), total


def decode_tensor(proto):
    """The ndarray (a copy) of a TensorProto."""
    dtype = dtypes.as_dtype(proto.dtype).base_dtype
    if dtype is dtypes.string:
        return _decode_strings(proto)
    if dtype not in _VALUE_FIELD:
        raise TypeError(f"Unsupported tensor type: {dtype.name}")
    np_dtype = np.dtype(dtype.as_numpy_dtype)
    shape, total = _checked_shape(proto, np_dtype.itemsize)
    if proto.tensor_content:
        if len(proto.tensor_content) != total * np_dtype.itemsize:
            raise ValueError(f"a TensorProto of {dtype.name} {list(shape)} needs {total} x "
                             f"{np_dtype.itemsize} bytes, its content has "
                             f"{len(proto.tensor_content)}")
        return np.frombuffer(proto.tensor_content, dtype=np_dtype).copy().reshape(shape)
    values = _decode_values(getattr(proto, _VALUE_FIELD[dtype]), dtype, np_dtype)
    if values.size > total:
        raise ValueError(f"a TensorProto of shape {list(shape)} carries {values.size} values")
    result = np.zeros(total, dtype=np_dtype)
    if values.size:
        result[:values.size] = values
        result[values.size:] = values[-1]
    return result.reshape(shape)


def _decode_values(field, dtype, np_dtype):
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return np.array(field, dtype=np.int64).astype(np.uint16).view(np_dtype)
    if dtype.is_complex:
        part = np.float32 if dtype is dtypes.complex64 else np.float64
        if len(field) % 2:
            raise ValueError(f"a TensorProto of {dtype.name} carries half a number")
        return np.array(field, dtype=part).view(np_dtype)
    if isinstance(field, bytes):
        return np.frombuffer(field, dtype=np.uint8).view(np_dtype)
    if dtype.is_quantized:
        return np.array(field, dtype=np.int64).astype(np_dtype[0]).view(np_dtype)
    wide = {"f": np_dtype, "b": np.bool_}.get(dtype._kind)
    return np.array(field, dtype=wide or np.dtype(
        "uint64" if dtype is dtypes.uint64 else "int64")).astype(np_dtype)


def _decode_strings(proto):
    shape, total = _checked_shape(proto, 8)
    values = list(proto.string_val)
    if len(values) > total:
        raise ValueError(f"a TensorProto of shape {list(shape)} carries {len(values)} strings")
    result = np.empty(total, dtype=object)
    fill = values[-1] if values else b""
    for i in range(total):
        result[i] = values[i] if i < len(values) else fill
    return result.reshape(shape)
