"""Progress of a step that writes or reads a large checkpoint: pyflow/progress.py's, looked at while the
step is waited for.

Invariants
    1. No thread: the executor calls `_Watch.look` about every 20 ms on the thread that waits for a step
       of its own (executor.call_meanwhile), and only that of the Saver looks.
    2. Below LEAST bytes, or where nothing would be shown, nothing is asked of the system.
    3. What cannot be measured (no /proc, another file system) is shown without a total.

Threads: one `saving` or `restoring` at a time shows something; others run silently.

    with file_progress.saving(graph, "save/control_dependency:0", "/tmp/m-100"):
        sess.run(...)
"""
import contextlib
import os
import threading
import time

from pyflow import progress
from pyflow.session import runtime

LEAST = 64 << 20
_LOOK_S = 0.1
_SAVES = ("SaveV2", "Save", "SaveSlices")


@contextlib.contextmanager
def saving(graph, tensor_name, prefix):
    """Around the step that evaluates a Saver's save tensor, and writes files that begin with
    `prefix`."""
    total = _bytes_saved(graph, tensor_name)
    with _watched(f"saving {os.path.basename(prefix)}", total, lambda: _written(prefix)):
        yield


@contextlib.contextmanager
def restoring(reader):
    """Around the step that restores what a CheckpointReader reads."""
    total = sum(entry.end - entry.begin for entry in reader.entries().values())
    start = _read_so_far()
    if start is None:
        yield
        return
    with _watched(f"restoring {os.path.basename(reader.prefix)}", total,
                  lambda: _read_so_far() - start):
        yield


class _Watch:
    """Asks `measure` for the bytes that are done, now and then, on its own thread."""

    def __init__(self, shown, total, measure):
        self._shown, self._total, self._measure = shown, total, measure
        self._thread, self._next = threading.get_ident(), 0.0

    def look(self):
        now = time.monotonic()
        if threading.get_ident() != self._thread or now < self._next:
            return
        self._next = now + _LOOK_S
        self._shown.set(min(self._measure(), self._total))


@contextlib.contextmanager
def _watched(what, total, measure):
    shown = progress.of(what, total, "B")
    if total < LEAST or shown.is_silent:
        yield
        return
    executor = runtime.executor()
    before = executor.call_meanwhile(_Watch(shown, total, measure).look)
    try:
        with shown:
            yield
            shown.set(total)
    finally:
        executor.call_meanwhile(before)


def _bytes_saved(graph, tensor_name):
    """The bytes of all that is saved, 0 where they are not known."""
    stack, seen, total = [graph.as_graph_element(tensor_name)], set(), 0
    stack = [getattr(stack[0], "op", stack[0])]
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
