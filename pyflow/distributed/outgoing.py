"""What waits to be sent on a stream of gRPC's.

Invariants
1. Of tensors at most OUTGOING bytes, and one of each thread or _net.Send that sends, wait.
2. Messages go in the order in which they were put; chunks of tensors between them, in turn.

Threads: any put, one iterates.
"""
import collections
import threading

from pyflow.distributed import chunks
from pyflow.framework import errors

BATCH = 1 << 14                         # bytes of what may go with another message
OUTGOING = 64 << 20                     # bytes of tensors that wait to be sent to one peer


class Outgoing:
    """Messages that wait to be sent: an iterator for grpc, which takes one when the one before is
    on its way.  Of tensors at most OUTGOING bytes, and one of each thread that sends, wait."""

    def __init__(self):
        self._queue, self._cond = collections.deque(), threading.Condition()
        self._bytes, self._over, self._held = 0, False, 0
        self._laters = []                           # of those who sent more than there was room for
        self.batches = False                        # small messages that wait go as one
        self.users = set()                          # functions of an ErrorMessage: it has ended

    def put(self, message, size=0, wanted=lambda: True, sending=None, later=None):
        """Adds a message.  size: its bytes, if it is to wait until there is room, as long as
        wanted().  sending: a chunks.Sending that follows it, and has those bytes.  later: an
        executor's Later; who has one does not wait.  False: it has ended."""
        with self._cond:
            if size and self._bytes > OUTGOING and later is not None and later.begin():
                self._laters.append(later)
            else:
                while size and self._bytes > OUTGOING and not self._over and wanted():
                    self._cond.wait(0.1)
            if not self._over:
                self._queue.append((message, size if sending is None else 0))
                if sending is not None:
                    self._queue.append((sending, size))
                self._bytes += size
                self._cond.notify_all()
        if self._over:
            self._end_laters(errors.UNAVAILABLE)
        return not self._over

    def hold(self, by):
        """What is put while it is held, by: +1, waits until it is let go, -1."""
        with self._cond:
            self._held += by
            if not self._held:
                self._cond.notify_all()

    def _end_laters(self, code=0):
        with self._cond:
            laters, self._laters = self._laters, []
        for later in laters:
            later.end(code)

    def finish(self):
        """It ends after what waits now."""
        with self._cond:
            self._queue.append((None, 0))
            self._cond.notify_all()

    def close(self):
        """Nothing more is sent; who waits goes on."""
        with self._cond:
            self._over = True
            self._queue.clear()
            self._bytes = 0
            self._cond.notify_all()
        self._end_laters(errors.UNAVAILABLE)

    def __iter__(self):
        return self

    def __next__(self):
        if self._laters and self._bytes <= OUTGOING:
            self._end_laters()
        with self._cond:
            while (not self._queue or self._held) and not self._over:
                self._cond.wait()
            if self._over:
                raise StopIteration
            message, size = self._queue.popleft()
            if message is None and self._queue:     # the rest of what was begun goes first
                self._queue.append((None, 0))
                message, size = self._queue.popleft()
            if message is None:
                raise StopIteration
            if isinstance(message, chunks.Sending):
                return self._chunk_of(message, size)
            if self.batches and size < BATCH:
                size += self._add_more(message)
            self._bytes -= size
            if size:
                self._cond.notify_all()
            return message

    def _add_more(self, message):
        """The lock is held: small messages that wait go with it; their sizes."""
        sizes = 0
        while self._queue and len(message.more) < 16:
            another, size = self._queue[0]
            if another is None or isinstance(another, chunks.Sending) or size > BATCH:
                break
            message.more.append(another)
            sizes += size
            self._queue.popleft()
        return sizes

    def _chunk_of(self, sending, size):
        """The lock is held; other messages have their turn before the next one."""
        frame, n = sending.next()
        self._bytes -= n
        if not sending.over:
            self._queue.append((sending, size - n))
        self._cond.notify_all()
        return frame
