"""Checkpoint files, read in Python: list, inspect, verify.  TensorFlow's are read, too
(tf_checkpoint.py).

The kernels SaveV2 and RestoreV2 write and read checkpoints while a graph runs; this module serves
everything that needs no graph: `tf.train.load_checkpoint`, `list_variables`, `latest_checkpoint`,
the Saver's error reports, and tools.  A checkpoint with prefix `dir/model-10` is

    dir/model-10.index                                  one JSON line: where each tensor is, its
    type, shape, CRC dir/model-10.data-00000-of-00001.safetensors        the bytes, a plain
    safetensors file

The index is `{"crc32":"xxxxxxxx"` (19 bytes; the CRC covers everything after them) followed by

    ,"format":"pyflow.checkpoint/1","files":[{"name":...,"size":...}],
     "tensors":{"W":{"file":0,"dtype":"float32","shape":[784,10],"begin":0,"end":31360,
                     "crc32":"..."}, ...}}

where begin and end are safetensors' data offsets and each tensor's CRC-32 (zlib's) covers its
bytes. Saving over a prefix writes `<prefix>.data-00000-of-00001.g<N>.safetensors` and removes the
old data file after the new index is in place.  Complex numbers are stored as pairs of floats,
strings as n 64-bit lengths and the bytes back to back, quantised types as their integers; the index
has the true types and shapes.

Invariants
    1. The index is renamed into place after its data file is complete and synced: a readable index
       means a complete checkpoint.
    2. Data files are named in the index by bare file names, so a folder can be moved.
    3. Everything in both files is untrusted: sizes, offsets and names are checked before use.

Threads: a reader holds no open file and no mutable state; use it from anywhere.

    reader = tf.train.load_checkpoint("/tmp/model-10")
    reader.get_variable_to_shape_map()      # {"W": [784, 10]}
    reader.get_tensor("W")                  # ndarray
"""
import collections
import json
import os
import zlib

import numpy as np

from pyflow.framework import dtypes, errors
from pyflow.lib.files import remote
from pyflow.train import tf_checkpoint

FORMAT = "pyflow.checkpoint/1"
PREAMBLE = b'{"crc32":"'  # then 8 hex digits and '"': 19 bytes that the CRC does not cover
PREAMBLE_BYTES = 19
MAX_INDEX_BYTES = 256 << 20

Entry = collections.namedtuple("Entry", "name file dtype shape begin end crc32")


def index_path(prefix):
    """Path of the index file of checkpoint `prefix`."""
    return prefix + ".index"


def checkpoint_exists(checkpoint_prefix):
    """True if a complete checkpoint has this prefix: pyflow's, or TensorFlow's V2 or V1 (whose
    prefix is a file's name, or a pattern of several)."""
    prefix = _as_text(checkpoint_prefix)
    return os.path.isfile(index_path(prefix)) or tf_checkpoint.format_of(prefix) == "V1"


def modification_time(checkpoint_prefix):
    """Seconds since the epoch of the newest file that makes the checkpoint one."""
    prefix = _as_text(checkpoint_prefix)
    index = index_path(prefix)
    paths = [index] if os.path.isfile(index) else tf_checkpoint.v1_files(prefix)
    return max(os.path.getmtime(path) for path in paths)


def _as_text(path):
    return remote.local_name(path)


def remove_checkpoint(checkpoint_prefix, checkpoint_format_version=2, meta_graph_suffix="meta"):
    """Deletes the files of one checkpoint: the index first, so that what is left is never taken for
    whole. The format is found out, whatever `checkpoint_format_version` says."""
    prefix = remote.local_name(checkpoint_prefix)
    folder, base = os.path.split(prefix)
    if not os.path.isfile(index_path(prefix)) and tf_checkpoint.format_of(prefix) == "V1":
        for path in tf_checkpoint.v1_files(prefix):
            _unlink(path)
    _unlink(index_path(prefix))
    for name in _listdir(folder):
        if name.startswith(base + ".data-"):
            _unlink(os.path.join(folder, name))
    _unlink(prefix + ".meta")


def _listdir(folder):
    try:
        return os.listdir(folder or ".")
    except OSError:
        return []


def _unlink(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


class CheckpointReader:
    """The tensors of one checkpoint, pyflow's or TensorFlow's.  Raises NotFoundError if there is
    none, DataLossError if it is damaged.

    filepattern: the prefix, what Saver.save returned.
    """

    def __init__(self, filepattern):
        self._prefix = _as_text(filepattern)
        self._format = tf_checkpoint.format_of(self._prefix)
        if self._format:
            self._files = []
            self._entries = {name: Entry(name, 0, dtype, shape, 0, size, None)
                             for name, dtype, shape, size in tf_checkpoint.entries(self._prefix)}
        else:
            self._entries, self._files = _read_index(self._prefix)

    def __repr__(self):
        return f"<tf.train.CheckpointReader of {self._prefix!r}, {len(self._entries)} tensors>"

    @property
    def prefix(self):
        """The checkpoint's path without .index and .data-..."""
        return self._prefix

    @property
    def format(self):
        """"pyflow", or "TensorFlow V2", "TensorFlow V1"."""
        return f"TensorFlow {self._format}" if self._format else "pyflow"

    def entries(self):
        """All `Entry` records by name; of TensorFlow's checkpoints `end` is the size in bytes, and
        a type that pyflow lacks is its number."""
        return dict(self._entries)

    def has_tensor(self, tensor_str):
        """True if the checkpoint holds a tensor of this name."""
        return tensor_str in self._entries

    def get_variable_to_shape_map(self):
        """{name: [sizes]} of all tensors."""
        return {e.name: list(e.shape) for e in self._entries.values()}

    def get_variable_to_dtype_map(self):
        """{name: DType} of all tensors."""
        return {e.name: e.dtype for e in self._entries.values()}

    def get_tensor(self, tensor_str):
        """The value of one tensor, CRC checked."""
        entry = self._entries.get(tensor_str)
        if entry is None:
            raise errors.NotFoundError(
                None, None, f"Key {tensor_str} not found in checkpoint '{self._prefix}'; it has "
                + summarise(self._entries))
        return self._value(entry)

    def get_slice(self, tensor_str, shape_and_slice):
        """The part of a tensor that the text, of RestoreV2's form, names; "": the whole. Of a
        checkpoint that has only some slices it reads what get_tensor cannot."""
        entry = self._entries.get(tensor_str)
        if entry is None or not self._format:
            return _cut(self.get_tensor(tensor_str), shape_and_slice)
        return self._value(entry, shape_and_slice)

    def _value(self, entry, shape_and_slice=""):
        if self._format:
            return tf_checkpoint.read(self._prefix, entry.name, entry.dtype, shape_and_slice)
        return _decode(entry, self._read_bytes(entry))

    def debug_string(self):
        """Bytes: one line per tensor, as TF's reader prints them."""
        lines = [f"{e.name} (DT_{_type_name(e.dtype).upper()}) {list(e.shape)}"
                 for e in self._entries.values()]
        return ("\n".join(lines) + "\n").encode()

    def verify(self):
        """Reads every byte.  Returns a list of problems; an empty one means a good checkpoint."""
        problems = []
        for entry in self._entries.values():
            try:
                self._value(entry)
            except errors.OpError as e:
                problems.append(e.message)
        return problems

    def _read_bytes(self, entry):
        name, size = self._files[entry.file]
        path = os.path.join(os.path.dirname(self._prefix), name)
        try:
            with open(path, "rb") as f:
                actual = os.fstat(f.fileno()).st_size
                if actual != size:
                    raise _damaged(f"'{path}' has {actual} bytes, its index says {size}")
                header = int.from_bytes(f.read(8), "little")
                if (
                    size < 8
                    or header > min(MAX_INDEX_BYTES, size - 8)
                    or entry.end > size - 8 - header
                ):
                    raise _damaged(f"tensor '{entry.name}' lies outside '{path}'")
                f.seek(8 + header + entry.begin)
                data = f.read(entry.end - entry.begin)
        except FileNotFoundError:
            raise errors.NotFoundError(
                None,
                None,
                f"checkpoint '{self._prefix}': its data file '{path}' is "
                "missing; copy it beside the index",
            ) from None
        if zlib.crc32(data) != entry.crc32:
            raise _damaged(
                f"tensor '{entry.name}' in '{path}' is damaged: CRC {zlib.crc32(data):08x}, "
                f"expected {entry.crc32:08x}"
            )
        return data


def _cut(array, text):
    """The part of an array that a slice of RestoreV2 names: "5 4 0,3:-" is its first three rows."""
    if not text:
        return array
    extents = text.split(" ")[array.ndim].split(":") if array.ndim else []
    found = []
    for extent in extents:
        start, _, size = extent.partition(",")
        found.append(slice(None) if extent == "-" else slice(int(start), int(start) + int(size)))
    return array[tuple(found)]


def _type_name(dtype):
    """"float", or the number of a type that pyflow lacks."""
    return dtypes.schema_name(dtype) if isinstance(dtype, dtypes.DType) else str(dtype)


def summarise(names, limit=5):
    """'12 tensors, e.g. a, b, c': for messages."""
    names = sorted(names)
    shown = ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
    return f"{len(names)} tensors" + (f", e.g. {shown}" if names else "")


def _damaged(message):
    return errors.DataLossError(None, None, "checkpoint: " + message)


# ---------------------------------------------------------------- the index

def _read_index(prefix):
    path = index_path(prefix)
    try:
        with open(path, "rb") as f:
            raw = f.read(MAX_INDEX_BYTES + 1)
    except OSError as e:
        raise errors.NotFoundError(
            None,
            None,
            f"no checkpoint at '{prefix}': {path}: {e.strerror}. The prefix "
            "is what Saver.save returned, without '.index'",
        ) from None
    if len(raw) > MAX_INDEX_BYTES:
        raise _damaged(f"'{path}' is larger than {MAX_INDEX_BYTES} bytes")
    crc = raw[len(PREAMBLE):PREAMBLE_BYTES - 1]
    if raw[:len(PREAMBLE)] != PREAMBLE or raw[PREAMBLE_BYTES - 1:PREAMBLE_BYTES] != b'"':
        raise _damaged(f"'{path}' is not an index of a pyflow checkpoint ({FORMAT})")
    if crc != b"%08x" % zlib.crc32(raw[PREAMBLE_BYTES:]):
        raise _damaged(f"'{path}' is damaged: its CRC does not match")
    try:
        return _parse_index(json.loads(raw))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise _damaged(f"'{path}' is malformed: {e}") from None


def _parse_index(doc):
    if doc["format"] != FORMAT:
        raise ValueError(f"format {doc['format']!r}; this version reads {FORMAT!r}")
    files = [(f["name"], _natural(f["size"], "size")) for f in doc["files"]]
    for name, _ in files:
        if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
            raise ValueError(f"file name {name!r} is not a bare file name")
    entries = {}
    for name, t in doc["tensors"].items():
        entries[name] = _parse_entry(name, t, files)
    return entries, files


def _parse_entry(name, t, files):
    file = _natural(t["file"], "file")
    if file >= len(files):
        raise ValueError(f"tensor {name!r} is in file {file}, there are {len(files)}")
    dtype = dtypes.as_dtype(t["dtype"])
    shape = tuple(_natural(d, "dimension") for d in t["shape"])
    begin, end = _natural(t["begin"], "begin"), _natural(t["end"], "end")
    size = dtype.size
    for d in shape:
        size = size * d if dtype != dtypes.string else size
    if begin > end or (dtype != dtypes.string and size != end - begin):
        raise ValueError(
            f"tensor {name!r} of type {dtype.name} and shape {list(shape)} cannot be bytes "
            f"{begin} to {end}"
        )
    return Entry(name, file, dtype, shape, begin, end, int(t["crc32"], 16))


def _natural(value, what):
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{what} {value!r} is not a natural number below 2**63")
    return value


def _decode(entry, data):
    if entry.dtype == dtypes.string:
        return _decode_strings(entry, data)
    array = np.frombuffer(data, dtype=np.uint8).view(entry.dtype.as_numpy_dtype)
    return array.reshape(entry.shape).copy()


def _decode_strings(entry, data):
    n = 1
    for d in entry.shape:
        n *= d
    if len(data) < 8 * n:
        raise _damaged(
            f"string tensor '{entry.name}' is too short for its shape {list(entry.shape)}"
        )
    lengths = [int(x) for x in np.frombuffer(data[:8 * n], "<u8")]
    if 8 * n + sum(lengths) != len(data):
        raise _damaged(f"string tensor '{entry.name}': its lengths do not add up")
    out, at = np.empty(n, object), 8 * n
    for i, length in enumerate(lengths):
        out[i] = data[at:at + length]
        at += length
    return out.reshape(entry.shape) if entry.shape else out[0]


# ---------------------------------------------------------------- public functions

def NewCheckpointReader(filepattern):
    """A CheckpointReader of a checkpoint by its prefix. TF: tf.train.NewCheckpointReader."""
    return CheckpointReader(filepattern)


PUBLIC = {
    "train.NewCheckpointReader": NewCheckpointReader,
    "train.CheckpointReader": CheckpointReader,
    "train.checkpoint_exists": checkpoint_exists,
    "train.remove_checkpoint": remove_checkpoint,
}
