"""Arrays by name in files: a .npz, a .npy, or a folder of .npy files, from whoever wrote them.

Invariants
    1. Nothing is unpickled, and no file makes more memory than `limit` bytes in all: a header's
       shape is compared with the bytes that lie behind it before memory is taken.
    2. Strings are kept as `U` arrays, the only form that NumPy's files have without pickle.

Threads: functions without state.

    arrays.read("f.npz")            # {"x:0": ndarray, ...}
    arrays.write("out.npz", {"conv/Relu:0": y})
"""
import os
import zipfile
import zlib

import numpy as np

LIMIT = 16 << 30
_MOST_FILES = 1_000_000


class UnreadableArrays(Exception):
    """The file or folder holds no arrays; the message says which and why."""


def read(path, limit=LIMIT):
    """{name: ndarray} of a .npz file, or of a folder's .npy files, named by their paths in it
    without the ending; a single .npy is {"": ndarray}.  In the file's order, a folder's sorted.

    Raises UnreadableArrays for what is damaged, has Python objects, or needs more than `limit`
    bytes."""
    path = os.fspath(path)
    try:
        if os.path.isdir(path):
            return _read_folder(path, limit)
        if path.endswith(".npy"):
            with open(path, "rb") as file:
                return {"": _read_npy(file, os.path.getsize(path), path, limit)}
        return _read_npz(path, limit)
    except OSError as e:
        raise UnreadableArrays(f"{path}: {e.strerror or e}") from None


def _read_npz(path, limit):
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError) as e:
        raise UnreadableArrays(f"{path} is no .npz file: {e}") from None
    found = {}
    with archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in found:
                raise UnreadableArrays(f"{path} has two arrays called {name!r}")
            try:
                with archive.open(info) as file:
                    array = _read_npy(file, info.file_size, f"{path}: {name!r}", limit)
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError,
                    NotImplementedError) as e:
                raise UnreadableArrays(f"{path}: {name!r}: {e}") from None
            limit -= array.nbytes
            found[name] = array
    return found


def _read_folder(path, limit):
    found = {}
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files):
            if not name.endswith(".npy"):
                continue
            if len(found) >= _MOST_FILES:
                raise UnreadableArrays(f"{path} has more than {_MOST_FILES} files")
            file = os.path.join(folder, name)
            key = os.path.relpath(file, path).removesuffix(".npy").replace(os.sep, "/")
            found[key] = read(file, limit)[""]
            limit -= found[key].nbytes
    if not found:
        raise UnreadableArrays(f"{path} is a folder without .npy files")
    return found


def _read_npy(file, size, what, limit):
    """One array.  size: bytes of the file, as its folder says."""
    try:
        version = np.lib.format.read_magic(file)
        read_header = (np.lib.format.read_array_header_1_0 if version == (1, 0)
                       else np.lib.format.read_array_header_2_0)
        shape, fortran, dtype = read_header(file)
    except Exception as e:          # a parser of untrusted bytes: whatever it says is shown
        line = (str(e).splitlines() or ["malformed"])[0]
        raise UnreadableArrays(f"{what}: no array: {line[:200]}") from None
    if dtype.hasobject:
        raise UnreadableArrays(f"{what} holds Python objects, which are not read: write numbers, "
                               f"or strings as NumPy's U type")
    count = 1
    for length in shape:
        if length < 0:
            raise UnreadableArrays(f"{what}: shape {shape} is malformed")
        count *= length
    wanted = count * dtype.itemsize
    if wanted > limit:
        raise UnreadableArrays(f"{what}: shape {shape} of {dtype} needs {wanted} bytes, more than "
                               f"the {max(limit, 0)} allowed")
    if wanted > size:
        raise UnreadableArrays(f"{what}: shape {shape} of {dtype} needs {wanted} bytes, the file "
                               f"has {size}")
    data = file.read(wanted)
    if len(data) != wanted:
        raise UnreadableArrays(f"{what}: it ends after {len(data)} of {wanted} bytes")
    array = np.frombuffer(data, dtype, count) if wanted else np.empty(count, dtype)
    return array.reshape(shape, order="F" if fortran else "C")


def write(path, named):
    """Writes {name: array} as .npz, uncompressed; strings (bytes) become `U` arrays.  Other systems
    read it with numpy.load."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, value in named.items():
            with archive.open(name + ".npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, as_plain(value), allow_pickle=False)


def as_plain(value):
    """The value as an array that NumPy's files can hold: strings are `U`, bfloat16 and its like
    float32."""
    array = np.asarray(value)
    if array.dtype.kind in "OS":
        texts = [v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else str(v)
                 for v in array.ravel()]
        return np.array(texts, dtype=str).reshape(array.shape)
    return array.astype(np.float32) if array.dtype.kind == "V" else array
