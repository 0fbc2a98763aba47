"""TensorFlow's checkpoints, read: V2's bundles and V1's tables of slices.

The kernels of RestoreV2 and _CheckpointEntries parse them (plugins/cpu/kernels/checkpoint/tf_*.c),
so that graphs and this module read with one code; here they run in small graphs of their own.

    V2      prefix.index, a sorted table, and prefix.data-00000-of-00001, ...
    V1      the prefix is the name of a table, or a pattern of several: model-?????-of-00002

Invariants
    1. Which format a checkpoint has is decided by the last bytes of its index or file, never by a
       name.
    2. Everything in the files is untrusted; what is wrong is a tf.errors.OpError that names file
       and tensor.

Threads: functions without state.  Who calls it: checkpoint.py.

    tf_checkpoint.format_of("/tmp/model.ckpt-10")       # "V2", "V1" or None
"""
import glob
import os
import re

import numpy as np

from pyflow.framework import dtypes, errors, graph as graph_lib

MAGIC = bytes.fromhex("57fb808b247547db")
_INPUTS = re.compile(r" \(inputs: string[^()]*\)$")


def format_of(prefix):
    """"V2" or "V1" if `prefix` is a checkpoint of TensorFlow's, else None."""
    index = prefix + ".index"
    if os.path.isfile(index):
        return "V2" if _is_table(index) else None
    if prefix.endswith(".index"):                # V2's, which is a table, too
        return None
    return "V1" if any(_is_table(path) for path in v1_files(prefix)[:1]) else None


def v1_files(prefix):
    """The files of a V1 checkpoint, or those that a pattern names."""
    if os.path.isfile(prefix):
        return [prefix]
    return sorted(glob.glob(prefix)) if any(c in prefix for c in "?*[") else []


def _is_table(path):
    try:
        with open(path, "rb") as f:
            f.seek(-len(MAGIC), os.SEEK_END)
            return f.read() == MAGIC
    except OSError:
        return False


def entries(prefix):
    """[(name, DType or its number, shape, bytes)] of all tensors, sorted by name."""
    from pyflow.ops.checkpoint import io_ops
    names, types, ranks, dims, sizes = _run(lambda: io_ops._CheckpointEntries(prefix))
    ends = np.cumsum(ranks)
    found = []
    for i, name in enumerate(names):
        shape = tuple(int(d) for d in dims[ends[i] - ranks[i]:ends[i]])
        found.append((_text(name), _dtype(int(types[i])), shape, int(sizes[i])))
    return found


def _text(name):
    return name.decode("utf-8", "surrogateescape")


def _dtype(number):
    try:
        return dtypes.as_dtype(number)
    except TypeError:
        return number


def read(prefix, name, dtype, shape_and_slice=""):
    """One tensor, or that slice of it, as an ndarray, its CRC checked."""
    from pyflow.ops.checkpoint import io_ops
    if not isinstance(dtype, dtypes.DType):
        raise errors.UnimplementedError(
            None, None, f"tensor '{name}' of checkpoint '{prefix}' is of DataType {dtype}, which "
            "this version does not have")
    key = name.encode("utf-8", "surrogateescape")
    return _run(lambda: io_ops.RestoreV2(prefix, [key], [shape_and_slice], dtypes=[dtype]))[0]


def _run(build):
    """The values of what `build` makes in a graph of its own."""
    from pyflow.session import Session
    with graph_lib.Graph().as_default() as graph:
        with graph_lib.device("/cpu:0"):
            made = list(build())
    session = Session(graph=graph)
    try:
        return session.run(made)
    except errors.OpError as e:
        raise type(e)(None, None, _plain(e)) from None
    finally:
        session.close()


def _plain(error):
    """The kernel's words, without the node, which is none of the user's."""
    text = str(error.message).partition("\n")[0]
    return _INPUTS.sub("", text.partition(" failed: ")[2] or text)
