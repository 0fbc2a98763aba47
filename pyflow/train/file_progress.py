"""Progress of a step that writes or reads a large checkpoint: pyflow/progress.py's, looked at
while the step is waited for.

Invariants
    1. No thread: the session looks every so often where it waits anyway (Session.run_watched).
    2. Below LEAST bytes, or where nothing would be shown, it is Session.run, and nothing is asked
       of the system.
    3. What cannot be measured (no /proc, another file system) ends as a step without a bar.

Threads: any.

    file_progress.save(sess, "save/control_dependency:0", {"save/Const:0": prefix}, prefix)
"""
import contextlib
import os

from pyflow import progress

LEAST = 64 << 20
_SAVES = ("SaveV2", "Save", "SaveSlices")


def save(sess, tensor_name, feeds, prefix):
    """Runs the step that evaluates a Saver's save tensor, and writes files that begin with
    `prefix`."""
    total = _bytes_saved(sess.graph, tensor_name) if _may_watch(sess) else 0
    _run(sess, tensor_name, feeds, f"saving {os.path.basename(prefix)}", total,
         lambda: _written(prefix))


def restore(sess, op_name, feeds, reader):
    """Runs the step that restores what a CheckpointReader reads."""
    start = _read_so_far() if _may_watch(sess) else None
    total = 0
    if start is not None:
        total = sum(entry.end - entry.begin for entry in reader.entries().values())
    _run(sess, op_name, feeds, f"restoring {os.path.basename(reader.prefix)}", total,
         lambda: _read_so_far() - start)


def _may_watch(sess):
    """Whether it is a session of this package's, and not one that wraps another."""
    return hasattr(sess, "run_watched")


def _run(sess, fetch, feeds, what, total, measure):
    if total < LEAST:
        sess.run(fetch, feeds)
        return
    with progress.of(what, total, "B") as shown:
        if shown.is_silent:
            sess.run(fetch, feeds)
        else:
            sess.run_watched(fetch, feeds, lambda: shown.set(min(measure(), total)))
            shown.set(total)


def _bytes_saved(graph, tensor_name):
    """The bytes of all that is saved, 0 where they are not known."""
    found, seen, total = graph.as_graph_element(tensor_name), set(), 0
    stack = [getattr(found, "op", found)]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type in _SAVES:
            for tensor in op.inputs[2:]:
                count = tensor.shape.num_elements()
                total += (count or 0) * tensor.dtype.base_dtype.size
        else:
            stack += [*op.control_inputs, *(t.op for t in op.inputs)]
    return total


def _written(prefix):
    """The size of this process's unfinished files of a checkpoint."""
    folder, base = os.path.split(prefix)
    total = 0
    with contextlib.suppress(OSError), os.scandir(folder or ".") as found:
        for entry in found:
            if entry.name.startswith(base + ".data-") and f".tmp-{os.getpid()}-" in entry.name:
                with contextlib.suppress(OSError):
                    total += entry.stat().st_size
    return total


def _read_so_far():
    """Bytes that this process has asked files for; None where the system does not say."""
    try:
        with open("/proc/self/io", "rb") as file:
            return int(file.readline().split()[1])
    except (OSError, ValueError, IndexError):
        return None
