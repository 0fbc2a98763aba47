"""Random streams beside a checkpoint, so that a restored run draws what the lost one would have.

`model.ckpt-12.streams.npz` is written, whole and synchronised, before the checkpoint of that name
is: whoever finds the checkpoint finds the streams that belong to it.

Invariants
  1. The file's arrays are those of Session.random_state; it is read without pickle.
  2. Files whose checkpoint is gone are removed with the next save.

Threads: one saver at a time.  Called by CheckpointSaverHook, Supervisor and SessionManager.
"""
import glob
import io
import logging
import os
import zipfile

import numpy as np

from pyflow.lib.files import remote

SUFFIX = ".streams.npz"
_LIMIT = 1 << 28                # bytes that are read
_log = logging.getLogger("pyflow")


def save(sess, prefix):
    """Writes the session's streams for the checkpoint `prefix`; nothing where there are none."""
    streams = sess.random_state()
    if not streams:
        return
    made = io.BytesIO()
    np.savez(made, names=np.array(list(streams)), streams=np.array(list(streams.values())))
    path = remote.local_name(prefix) + SUFFIX
    passing = f"{path}.{os.getpid()}.tmp"
    with open(passing, "wb") as file:
        file.write(made.getvalue())
        file.flush()
        os.fsync(file.fileno())
    os.replace(passing, path)


def restore(sess, prefix):
    """Sets the streams of the checkpoint `prefix`, if they were saved; True if so.

    A file of another graph, or a damaged one, is told and left alone."""
    path = remote.local_name(prefix) + SUFFIX
    if not os.path.exists(path):
        return False
    try:
        if os.path.getsize(path) > _LIMIT:
            raise ValueError(f"it is larger than {_LIMIT} bytes")
        with np.load(path, allow_pickle=False) as file:
            names, streams = file["names"], file["streams"]
        if names.ndim != 1 or streams.shape != (len(names), 5):
            raise ValueError(f"names of shape {names.shape}, streams of shape {streams.shape}")
        sess.set_random_state({str(name): row for name, row in zip(names, streams)})
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile) as error:
        _log.warning("The random streams of %s were not set: %s", path, error)
        return False
    return True


def remove_stale(prefixes):
    """Removes the files in the folders of `prefixes`, checkpoints that are kept, of others of the
    same base name."""
    kept = {remote.local_name(prefix) + SUFFIX for prefix in prefixes}
    for base in {remote.local_name(prefix).rpartition("-")[0] for prefix in prefixes}:
        for path in glob.glob(glob.escape(base) + "-*" + SUFFIX) if base else ():
            if path not in kept:
                try:
                    os.remove(path)
                except OSError:         # another process was first
                    pass
