"""The file with the sweep's answers: a line of JSON, then the arrays' bytes, xz-compressed.

    {"case's name": [digest, "refused" | "nobody" | [[dtype, shape, texts or null], ...]]}"""
import json
import lzma
import pathlib

import numpy as np

PATH = pathlib.Path(__file__).with_name("sweep.xz")


def write(answers, cases, path=None):
    """Writes {name: arrays or why there are none}; returns the path."""
    path = pathlib.Path(path or PATH)
    index, parts = {}, []
    for case in cases:
        found = answers[case.name]
        if not isinstance(found, str):
            found = [_described(np.asarray(a), parts, case.loose) for a in found]
        index[case.name] = [case.digest(), found]
    data = json.dumps(index, separators=(",", ":")).encode() + b"\n" + b"".join(parts)
    path.write_bytes(lzma.compress(data, preset=9))
    return path


def _described(array, parts, loose):
    strings = None
    if array.dtype.kind in "OUS":
        array, strings = array.astype(object), [str(s) for s in array.ravel()]
    elif not loose:
        parts.append(np.ascontiguousarray(array).tobytes())
    return [array.dtype.name, list(array.shape), strings]


def read(path=None):
    """(the index, the arrays' bytes) of the file."""
    head, _, body = lzma.decompress(pathlib.Path(path or PATH).read_bytes()).partition(b"\n")
    return json.loads(head), body


def texts(items, shape):
    """An object array."""
    made = np.empty(len(items), object)
    made[:] = items
    return made.reshape(shape)


def arrays(case, found, body, at):
    """([(dtype, shape, ndarray or None)], where the next case's bytes start)."""
    made = []
    for name, shape, strings in found:
        array, dtype = None, np.dtype(name)
        if strings is not None:
            array = texts(strings, shape)
        elif not case.loose:
            count = int(np.prod(shape))
            array = np.frombuffer(body, dtype, count, at).reshape(shape)
            at += count * dtype.itemsize
        made.append((dtype, tuple(shape), array))
    return made, at
