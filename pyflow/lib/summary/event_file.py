"""Event files: TFRecords of Event messages that TensorBoard reads while they grow.

Invariants
  1. A file begins with an Event whose file_version is "brain.Event:2".
  2. Events reach the system in the order they were given; after flush(), close() and at the end of
     the program all of them have.  Meanwhile a file may end within one, as TensorBoard expects.
  3. A failure of the thread that writes is raised by the next call, and nothing more is written.

Threads: any; one thread per open file takes events out of a queue of `max_queue` and flushes each
`flush_secs` seconds.  `_queue` and `_failure` are the only things
shared with it.

    DIR/events.out.tfevents.<seconds>.<host><suffix>

Called by file_writer.py.
"""
import atexit
import os
import queue
import socket
import sys
import threading
import time

from pyflow.framework import errors
from pyflow.lib.files import remote
from pyflow.lib.files.record_files import TFRecordWriter

_VERSION = "brain.Event:2"
_MOST_NAMES = 1000
_open_files = set()         # flushed when the program ends, for who closes none


@atexit.register
def _flush_all():
    for file in list(_open_files):
        try:
            file.flush()
        except Exception as error:      # nobody is left to be told otherwise
            print(f"pyflow: {file.path}: {error}", file=sys.stderr)


class EventFile:
    """The newest event file of a folder, which is made if there is none."""

    def __init__(self, logdir, max_queue=10, flush_secs=120, filename_suffix=None):
        self.logdir, self._suffix = remote.local_name(logdir), filename_suffix or ""
        self._max_queue, self._flush_secs = max(int(max_queue), 1), float(flush_secs)
        try:
            os.makedirs(self.logdir, exist_ok=True)
        except OSError as error:
            raise errors.of_os_error(error) from None
        self.closed = True
        self.open()

    def open(self):
        """Begins another file; nothing if one is open."""
        if not self.closed:
            return
        from pyflow.framework import protos
        self.path = self._new_path()
        self._writer = TFRecordWriter(self.path)
        first = protos.Event(wall_time=time.time(), file_version=_VERSION)
        self._writer.write(first.SerializeToString())
        self._writer.flush()
        self._queue, self._failure = queue.Queue(self._max_queue), None
        self._thread = threading.Thread(target=self._write_events, daemon=True,
                                        name="pyflow event file")
        self.closed = False
        self._thread.start()
        _open_files.add(self)

    def _new_path(self):
        """A path that no file has: two writers of one second do not write into one."""
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
        for number in range(_MOST_NAMES):
            path = os.path.join(self.logdir,
                                f"{name}{f'.{number}' if number else ''}{self._suffix}")
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
                return path
            except FileExistsError:
                continue
            except OSError as error:
                raise errors.of_os_error(error) from None
        raise errors.AlreadyExistsError(None, None, f"{path} exists, as do {_MOST_NAMES} like it")

    def _write_events(self):
        """Until it is told to end by None: what is a threading.Event is told when all before it is
        flushed."""
        due = time.monotonic() + self._flush_secs
        while True:
            try:
                item = self._queue.get(timeout=max(due - time.monotonic(), 0))
            except queue.Empty:
                item = b""
            try:
                if isinstance(item, bytes) and item and self._failure is None:
                    self._writer.write(item)
                if not isinstance(item, bytes) or time.monotonic() >= due:
                    self._writer.flush()
                    due = time.monotonic() + self._flush_secs
            except Exception as error:      # said by the next call
                self._failure = self._failure or error
            if isinstance(item, threading.Event):
                item.set()
            elif item is None:
                return

    def add(self, event):
        """Takes an Event's bytes; waits while the queue is full."""
        self._check()
        self._queue.put(event)

    def flush(self):
        """Returns when all events are with the system."""
        if self.closed:
            return
        done = threading.Event()
        self._queue.put(done)
        done.wait()
        self._check()

    def close(self):
        """Flushes, and ends the file and its thread; nothing if that was done."""
        if self.closed:
            return
        self.closed = True
        _open_files.discard(self)
        self._queue.put(None)
        self._thread.join()
        self._writer.close()
        self._check()

    def _check(self):
        if self._failure is not None:
            raise self._failure
