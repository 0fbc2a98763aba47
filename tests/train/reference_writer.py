"""The checkpoint format written a second time, in plain Python, to test readers (and the kernels
against it)."""
import json
import os
import zlib

import numpy as np

from pyflow.framework import dtypes

SAFETENSORS = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "bool": "BOOL",
    "complex64": "F32",
    "complex128": "F64",
    "string": "U8",
}


def element_bytes(dtype):
    return {"complex64": 4, "complex128": 8, "string": 1}.get(dtype.name, dtype.size)


def tensor_bytes(dtype, array):
    if dtype != dtypes.string:
        return np.ascontiguousarray(array).tobytes()
    items = [bytes(x) for x in np.asarray(array, object).ravel()]
    return np.array([len(x) for x in items], "<u8").tobytes() + b"".join(items)


def stored_shape(dtype, shape, data):
    if dtype == dtypes.string:
        return [len(data)]
    return list(shape) + ([2] if dtype.name.startswith("complex") else [])


def write(prefix, tensors):
    """tensors: name -> array (object arrays and bytes are strings).  Returns the name of the data
    file."""
    rows = []
    for name, array in tensors.items():
        array = np.asarray(array, object) if isinstance(array, bytes) else np.asarray(array)
        dtype = dtypes.string if array.dtype == object else dtypes.as_dtype(array.dtype)
        rows.append((name, dtype, array.shape, tensor_bytes(dtype, array)))
    rows.sort(key=lambda r: (-element_bytes(r[1]), r[0].encode()))
    header, index, at = {"__metadata__": {"format": "pyflow.checkpoint/1"}}, {}, 0
    for name, dtype, shape, data in rows:
        end = at + len(data)
        header[name] = {"dtype": SAFETENSORS[dtype.name], "shape": stored_shape(dtype, shape, data),
                        "data_offsets": [at, end]}
        index[name] = {
            "file": 0,
            "dtype": dtype.name,
            "shape": list(shape),
            "begin": at,
            "end": end,
            "crc32": f"{zlib.crc32(data):08x}",
        }
        at = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % 64)
    blob = len(text).to_bytes(8, "little") + text + b"".join(r[3] for r in rows)
    name = os.path.basename(prefix) + ".data-00000-of-00001.safetensors"
    with open(os.path.join(os.path.dirname(prefix), name), "wb") as f:
        f.write(blob)
    write_index(
        prefix,
        [{"name": name, "size": len(blob)}],
        dict(sorted(index.items(), key=lambda i: i[0].encode())),
    )
    return name


def write_index(prefix, files, tensors, **more):
    body = json.dumps({"format": "pyflow.checkpoint/1", "files": files, "tensors": tensors, **more},
                      separators=(",", ":"), ensure_ascii=False).encode()
    rest = b"," + body[1:] + b"\n"
    with open(prefix + ".index", "wb") as f:
        f.write(b'{"crc32":"%08x"' % zlib.crc32(rest) + rest)
