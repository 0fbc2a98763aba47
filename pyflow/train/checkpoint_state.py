"""The `checkpoint` file of a folder: which checkpoints it has, which one is newest.

Text in TF's format (CheckpointState), read and written here without protobuf:

    model_checkpoint_path: "model.ckpt-20"
    all_model_checkpoint_paths: "model.ckpt-10"
    all_model_checkpoint_paths: "model.ckpt-20"

Invariants
    1. It is replaced by rename, after the checkpoint it names is complete.
    2. Paths inside the folder are written relative to it when asked to, and read relative to it
       always; an absolute path whose file is gone is looked for beside the `checkpoint` file, so
       that a moved folder works also when the paths were absolute.

Threads: functions without state.

    tf.train.latest_checkpoint("/tmp/run")      # "/tmp/run/model.ckpt-20" or None
"""
import os
import re
import threading
import time

from pyflow.framework import errors
from pyflow.lib.files import remote
from pyflow.train import checkpoint

_LINE = re.compile(
    r'\s*(\w+)\s*:\s*("(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[^\s#]+)\s*(?:#.*)?$'
)
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_SIMPLE = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
}


class CheckpointState:
    """What a `checkpoint` file says; fields as in TF's CheckpointState message."""

    def __init__(self, model_checkpoint_path="", all_model_checkpoint_paths=(),
                 all_model_checkpoint_timestamps=(), last_preserved_timestamp=0.0):
        self.model_checkpoint_path = model_checkpoint_path
        self.all_model_checkpoint_paths = list(all_model_checkpoint_paths)
        self.all_model_checkpoint_timestamps = list(all_model_checkpoint_timestamps)
        self.last_preserved_timestamp = last_preserved_timestamp

    def __eq__(self, other):
        return isinstance(other, CheckpointState) and vars(self) == vars(other)

    def __repr__(self):
        return to_text(self).rstrip()


def to_text(state):
    """The text of a `checkpoint` file."""
    lines = [f"model_checkpoint_path: {_quote(state.model_checkpoint_path)}"]
    lines += [f"all_model_checkpoint_paths: {_quote(p)}" for p in state.all_model_checkpoint_paths]
    lines += [
        f"all_model_checkpoint_timestamps: {t!r}" for t in state.all_model_checkpoint_timestamps
    ]
    if state.last_preserved_timestamp:
        lines.append(f"last_preserved_timestamp: {state.last_preserved_timestamp!r}")
    return "\n".join(lines) + "\n"


def from_text(text):
    """Parses the text of a `checkpoint` file.  Raises ValueError with the line that is wrong."""
    state = CheckpointState()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None:
            raise ValueError(f"line {number} is not 'field: value': {line!r}")
        _set_field(state, number, *match.groups())
    return state


def _set_field(state, number, field, value):
    if field in ("model_checkpoint_path", "all_model_checkpoint_paths"):
        if value[0] not in "\"'":
            raise ValueError(f"line {number}: {field} needs a quoted path, got {value}")
        path = _unquote(value)
        if field == "model_checkpoint_path":
            state.model_checkpoint_path = path
        else:
            state.all_model_checkpoint_paths.append(path)
    elif field == "all_model_checkpoint_timestamps":
        state.all_model_checkpoint_timestamps.append(float(value))
    elif field == "last_preserved_timestamp":
        state.last_preserved_timestamp = float(value)
    else:
        raise ValueError(f"line {number}: unknown field {field!r}")


def _quote(path):
    out = []
    for byte in os.fsencode(path):
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        else:
            out.append(char if 32 <= byte < 127 else f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def _unquote(text):
    def one(match):
        code = match.group(1)
        if code[:1] == b"x" and len(code) > 1:
            return bytes([int(code[1:], 16)])
        if code[0] in b"01234567":
            return bytes([int(code, 8) & 255])
        return _SIMPLE.get(code, code)
    return os.fsdecode(_ESCAPE.sub(one, os.fsencode(text[1:-1])))


# ---------------------------------------------------------------- public functions

def _state_path(folder, latest_filename):
    return os.path.join(folder, latest_filename or "checkpoint")


def generate_checkpoint_state_proto(
    save_dir,
    model_checkpoint_path,
    all_model_checkpoint_paths=None,
    all_model_checkpoint_timestamps=None,
    last_preserved_timestamp=None,
):
    """A CheckpointState whose paths are relative to `save_dir` when they were given relative."""
    paths = list(all_model_checkpoint_paths or [])
    if not paths or paths[-1] != model_checkpoint_path:
        paths.append(model_checkpoint_path)
    if all_model_checkpoint_timestamps and len(all_model_checkpoint_timestamps) != len(paths):
        raise ValueError(
            "Number of timestamps, if provided, must match number of checkpoint paths: "
            f"{len(all_model_checkpoint_timestamps)} and {len(paths)}"
        )
    if not os.path.isabs(save_dir):
        paths = [p if os.path.isabs(p) else os.path.relpath(p, save_dir) for p in paths]
        if not os.path.isabs(model_checkpoint_path):
            model_checkpoint_path = os.path.relpath(model_checkpoint_path, save_dir)
    return CheckpointState(model_checkpoint_path, paths, all_model_checkpoint_timestamps or (),
                           last_preserved_timestamp or 0.0)


def update_checkpoint_state(save_dir, model_checkpoint_path, all_model_checkpoint_paths=None,
                            latest_filename=None, all_model_checkpoint_timestamps=None,
                            last_preserved_timestamp=None):
    """Writes the `checkpoint` file of `save_dir`: temp file, fsync, rename, fsync of the folder."""
    write_state(save_dir, model_checkpoint_path, all_model_checkpoint_paths, latest_filename,
                all_model_checkpoint_timestamps, last_preserved_timestamp, relative=False)


def write_state(
    save_dir,
    path,
    all_paths=None,
    latest_filename=None,
    timestamps=None,
    preserved=None,
    relative=False,
):
    """`update_checkpoint_state`, with paths relative to the folder when `relative`."""
    if relative:
        path = _relative(path, save_dir)
        all_paths = [_relative(p, save_dir) for p in all_paths or []]
        state = CheckpointState(path, all_paths or [path], timestamps or (), preserved or 0.0)
    else:
        state = generate_checkpoint_state_proto(save_dir, path, all_paths, timestamps, preserved)
    target = _state_path(save_dir, latest_filename)
    if target == path:
        raise RuntimeError(
            f"Save path '{path}' conflicts with path used for checkpoint state. Please use a "
            "different save path."
        )
    replace_file(target, to_text(state).encode())


def _relative(path, folder):
    if os.path.isabs(path) == os.path.isabs(folder):
        return os.path.relpath(path, folder or ".")
    return path


def replace_file(path, data):
    """Puts `data` at `path` so that a crash leaves the old or the new content, never a part.
    A tf.errors exception, as Saver's kernels raise, says why it cannot."""
    temporary = f"{path}.tmp-{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}"
    try:
        _replace(path, temporary, data)
        sync_folder(os.path.dirname(path) or ".")
        _remove_leftovers(path)
    except OSError as e:
        raise errors.of_os_error(e) from None


def _replace(path, temporary, data):
    try:
        with open(temporary, "xb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def _remove_leftovers(path):
    """Temporary files of writers of `path` that were killed."""
    folder, base = os.path.split(path)
    for name in os.listdir(folder or "."):
        if name.startswith(base + ".tmp-"):
            pid = name[len(base) + 5:].partition("-")[0]
            if pid.isdigit() and not _is_alive(int(pid)):
                try:
                    os.unlink(os.path.join(folder, name))
                except OSError:
                    pass


def _is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def sync_folder(folder):
    """Makes renames in `folder` durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def get_checkpoint_state(checkpoint_dir, latest_filename=None):
    """The folder's CheckpointState with full paths, or None if it has none or it cannot be read.
    Raises ValueError for one that names no newest checkpoint, an empty file for example.

    checkpoint_dir: the folder. latest_filename: the file in it, default "checkpoint". The result
    has model_checkpoint_path and all_model_checkpoint_paths.

        >>> import tempfile
        >>> print(tf.train.get_checkpoint_state(tempfile.mkdtemp()))
        None
    """
    if checkpoint_dir is None:
        return None
    folder = remote.local_name(checkpoint_dir)
    try:
        with open(
            _state_path(folder, latest_filename), encoding="utf-8", errors="surrogateescape"
        ) as f:
            state = from_text(f.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as e:
        import logging
        logging.getLogger("pyflow").warning("%s: %s", _state_path(folder, latest_filename), e)
        return None
    if not state.model_checkpoint_path:
        raise ValueError(f"Invalid checkpoint state loaded from {folder}: the file "
                         f"{_state_path(folder, latest_filename)} has no model_checkpoint_path. "
                         f"Remove it, or give the checkpoint's prefix itself.")
    state.model_checkpoint_path = _resolve(folder, state.model_checkpoint_path)
    state.all_model_checkpoint_paths = [
        _resolve(folder, p) for p in state.all_model_checkpoint_paths
    ]
    return state


def _resolve(folder, path):
    if not os.path.isabs(path):
        return os.path.join(folder, path)
    if not checkpoint.checkpoint_exists(path):
        moved = os.path.join(folder, os.path.basename(path))
        if checkpoint.checkpoint_exists(moved):
            return moved
    return path


def latest_checkpoint(checkpoint_dir, latest_filename=None):
    """Prefix of the newest checkpoint of a folder, or None.

    checkpoint_dir: the folder. latest_filename: the file in it, default "checkpoint".

        >>> import tempfile
        >>> print(tf.train.latest_checkpoint(tempfile.mkdtemp()))
        None
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    if checkpoint.checkpoint_exists(state.model_checkpoint_path):
        return state.model_checkpoint_path
    for path in reversed(state.all_model_checkpoint_paths):
        if checkpoint.checkpoint_exists(path):
            return path
    return None


def get_checkpoint_mtimes(checkpoint_prefixes):
    """Modification times, in seconds, of those of the given checkpoints that exist."""
    return [checkpoint.modification_time(p) for p in checkpoint_prefixes
            if checkpoint.checkpoint_exists(p)]


PUBLIC = {
    "train.CheckpointState": CheckpointState,
    "train.generate_checkpoint_state_proto": generate_checkpoint_state_proto,
    "train.get_checkpoint_mtimes": get_checkpoint_mtimes,
    "train.get_checkpoint_state": get_checkpoint_state,
    "train.latest_checkpoint": latest_checkpoint,
    "train.update_checkpoint_state": update_checkpoint_state,
}
