"""What exists in a process now that nothing runs: its threads, files and memory, cleaned up first.

    setup = alive.SETUP                     # Python that a server's process runs first
    alive.counts()                          # of this process
    alive.counts_of(process)                # of one that ran SETUP: a Popen, its stdout a pipe

A process is asked by a signal and answers with a line of JSON, so that asking adds no thread and no
descriptor.  Idle threads of servers' pools end after a tenth of a second instead of ten: those that
are left are of use.  Signs of life come and go meanwhile, so of threads and files the least of
three looks counts.
"""
import ctypes
import gc
import json
import os
import pathlib
import re
import signal
import sys
import threading
import time

HERE = str(pathlib.Path(__file__).resolve().parent)
SETUP = f"import sys; sys.path.insert(0, {HERE!r}); import alive; alive.answer()"
REST = 2.5              # seconds; idle threads end: the core's, for blocking kernels, after 2


class _Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]


_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_libc.mallinfo2.restype = _Mallinfo2


def end_idle_threads_soon():
    """Of the servers of this process."""
    from pyflow.distributed.wire import daemon_pool
    daemon_pool.IDLE = 0.1


def answer():
    """From now on this process answers `counts_of`; from its main thread."""
    end_idle_threads_soon()
    signal.signal(signal.SIGUSR2, lambda *_: print(json.dumps(counts()), flush=True))


def counts_of(process):
    """The counts of another process."""
    process.send_signal(signal.SIGUSR2)
    return json.loads(process.stdout.readline())


def counts():
    """{what: how many or how much}: `heap`, the bytes that malloc has given out, without those that
    threads of the core keep for their next tensors; `host bytes`, of tensors; `objects` of Python;
    `threads`, without those of gRPC's pool and the one of each net that begins when there is first
    something to tell; `kinds`, threads and files by name."""
    from pyflow import _executor
    for _ in range(3):
        gc.collect()
    sys._clear_type_cache()         # has up to 4,096 names, a string for each look-up by C code
    _executor.release_memory()
    _libc.malloc_trim(0)
    heap, tensors = _libc.mallinfo2(), _executor.memory_stats()
    with open("/proc/self/statm", encoding="ascii") as file:
        rss = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    found = {"host bytes": tensors["in_use"], "objects": len(gc.get_objects()), "rss": rss,
             "heap": heap.uordblks + heap.hblkhd - tensors["cached"]}
    looks = [_kinds()]
    for _ in range(2):
        time.sleep(0.25)
        looks.append(_kinds())
    kinds = min(looks, key=lambda k: sum(k.values()))
    files = min((_files() for _ in range(3)), key=len)
    engine = kinds.get("event_engine", 0)
    return {"threads": sum(kinds.values()) - engine - kinds.get("pyflow tell", 0),
            "gRPC's engine": engine, "nets' tellers": kinds.get("pyflow tell", 0),
            "descriptors": len(files),
            "memory files": _memory_files(files), **found,
            "kinds": {**kinds, **_counted("file " + re.sub(r"\d+", "", f) for f in files)}}


def lose(bytes_, times):
    """Memory of this process that nobody has any more."""
    for _ in range(times if bytes_ else 0):
        _libc.malloc(bytes_)


def _files():
    """What this process has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass
    return found


def _memory_files(files):
    """Of memfd_create: those that are mapped, and others that are open.  What is mapped in pieces
    counts once."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        mapped = {line.split()[4] for line in file if "/memfd:" in line}
    return len(mapped) + sum("/memfd:" in f for f in files)


def _kinds():
    """{name: number of threads}; those that Python began by what Python calls them."""
    names, found = {t.native_id: t.name for t in threading.enumerate()}, []
    for number in os.listdir("/proc/self/task"):
        name = names.get(int(number))
        if name is None:
            try:
                with open(f"/proc/self/task/{number}/comm", encoding="utf-8") as file:
                    name = file.read().strip()
            except OSError:
                continue
        found.append(re.sub(r"Thread-\d+ ?", "Thread ", name).strip())
    return _counted(found)


def _counted(names):
    found = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))
