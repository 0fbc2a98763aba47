"""PYFLOW_TRACE=FILE: every step of the process in one trace.

While the program runs, the records of each step are appended, as they are, to FILE.part: a JSON
line that describes what follows, then bytes.  When the process ends, by itself or by an exception,
FILE.part becomes FILE, JSON trace events (gzip if the name ends in .gz).  After a kill FILE.part is
left, and `python -m pyflow trace FILE` reads that.

Invariants
    1. A frame of FILE.part is whole or the last one; readers ignore a torn tail.
    2. The recorded bytes stay below PYFLOW_TRACE_MB; then tracing stops and FILE says so.
    3. "%p" in the name is the process id; a forked child writes a file of its own: FILE.<pid>.

Threads: any may add steps; `_lock` guards the file.
"""
import atexit
import dataclasses
import gzip
import json
import logging
import os
import threading
import time

from pyflow import config
from pyflow.session import chrome_trace, contract, runtime, trace_records

log = logging.getLogger("pyflow.trace")
_FLUSH_SECONDS = 1.0
_LEVEL = 2                                        # kernels, and outputs of what is no routing
_open, _lock = {}, threading.Lock()


def for_process():
    """The TraceFile PYFLOW_TRACE asks for, or None."""
    name = config.value("PYFLOW_TRACE")
    if not name:
        return None
    with _lock:
        found = _open.get((name, os.getpid()))
        if found is None:
            path = name.replace("%p", str(os.getpid()))
            if path == name and any(known == name for known, _ in _open):
                path = f"{name}.{os.getpid()}"            # a forked child's own
            found = _open[name, os.getpid()] = TraceFile(path, config.value("PYFLOW_TRACE_MB"))
        return found


@atexit.register
def close_all():
    """Ends the trace of this process: FILE.part becomes FILE."""
    for (_, pid), file in list(_open.items()):
        if pid == os.getpid():
            file.close()


class TraceFile:
    """Where the steps of one process go."""

    def __init__(self, path, limit_mb):
        self.path, self.part = path, path + ".part"
        self._limit, self._lock = limit_mb << 20, threading.Lock()
        self._flushed = time.monotonic()
        self._file = open(self.part, "wb", buffering=0)
        self._spool = runtime.executor().Spool(self._file.fileno())
        self._spool.put(_line({"pyflow_trace": 1, "pid": os.getpid(), "zero": time.monotonic_ns()}))

    @property
    def open(self):
        """False once the size limit was reached, the disk was full or the trace was closed."""
        return self._file is not None and self._spool.written < self._limit

    def run(self, run):
        """`run` with its steps traced, as long as there is room."""
        new_trace = runtime.executor().Trace

        def traced_run(feeds=(), options=None):
            own = options.trace if options is not None else None
            if own is None:
                if not self.open:
                    return run(feeds, options)
                own = new_trace(_LEVEL)
                options = dataclasses.replace(options or contract.RunOptions(), trace=own)
            try:
                return run(feeds, options)
            finally:
                self.add(own)
        return traced_run

    def add(self, trace):
        """Appends the steps of a core Trace; they are over."""
        with self._lock:
            if not self.open:
                return
            try:
                self._spool.add(trace, _describe)
                now = time.monotonic()
                if now - self._flushed > _FLUSH_SECONDS:
                    self._flushed = now
                    self._flush()
                if not self.open:
                    self._spool.put(_line({"cut": True}))
                    log.warning("%s is full (PYFLOW_TRACE_MB): later steps are not traced",
                                self.path)
            except OSError as e:
                self._limit = 0
                log.error("%s cannot be written, later steps are not traced: %s", self.part, e)

    def _flush(self):
        self._spool.put(_line({"lanes": trace_records.lanes()}))
        self._spool.flush()

    def close(self):
        """Writes FILE and removes FILE.part."""
        with self._lock:
            if self._file is None:
                return
            try:
                self._flush()
            except OSError as e:
                log.error("the end of %s cannot be written: %s", self.part, e)
            self._file.close()
            self._file = None
        try:
            convert(self.part, self.path)
            os.unlink(self.part)
        except OSError as e:
            log.error("the trace stays in %s: %s", self.part, e)


def _line(head):
    return json.dumps(head, separators=(",", ":")).encode() + b"\n"


def _describe(plan):
    return _line({"plan": trace_records.plan_info(plan).as_json()})


def convert(part, path):
    """Turns the recorded bytes in `part` into the trace `path`."""
    opened = gzip.open if path.endswith(".gz") else open
    with open(part, "rb") as source, opened(path + ".tmp", "wt", encoding="utf-8") as target:
        write(source, target)
    os.replace(path + ".tmp", path)


def write(source, target):
    """Reads a .part file, writes JSON trace events.  ValueError: it is no such file."""
    frames = read_frames(source)
    head, _ = next(frames, ({}, b""))
    if head.get("pyflow_trace") != 1:
        raise ValueError("not the beginning of a pyflow trace")
    writer = chrome_trace.Writer(target, head["pid"], head["zero"])
    plans, names, cut = [], [], False
    for head, data in frames:
        if "plan" in head:
            plans.append(trace_records.PlanInfo(**head["plan"]))
        elif "lanes" in head:
            names = head["lanes"]
        elif "steps" in head:
            writer.steps({**head, "records": data}, plans.__getitem__)
        cut = cut or head.get("cut", False)
    writer.close(names, cut)


def read_frames(source):
    """Yields (description, bytes) of each whole frame."""
    while True:
        line = source.readline()
        if not line.endswith(b"\n"):
            return
        try:
            head = json.loads(line)
        except ValueError:
            return
        data = source.read(head.get("bytes", 0))
        if len(data) < head.get("bytes", 0):
            return
        yield head, data
