"""Threads for a grpc server that do not keep the interpreter from ending.

concurrent.futures joins its threads when the interpreter ends; one that serves a peer's kept stream
would wait there for as long as the peer lives.

Invariant: a call runs on a thread of its own; idle threads take the next calls, and end after IDLE
seconds.

Threads: `submit` from any.

    pool = DaemonPool(100, "server");  pool.submit(print, 1).result()
"""
import queue
import threading
from concurrent import futures

IDLE = 10.0                             # seconds that a thread waits for another call


class DaemonPool(futures.Executor):
    """At most `limit` daemon threads, made as calls come; further calls wait in line."""

    def __init__(self, limit, name):
        self._limit, self._name = limit, name
        self._lock, self._calls = threading.Lock(), queue.SimpleQueue()
        self._threads, self._idle, self._over = 0, 0, False

    def submit(self, fn, /, *args, **kwargs):
        """As Executor.submit."""
        future = futures.Future()
        with self._lock:
            if self._over:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._calls.put((future, fn, args, kwargs))
            if self._idle > 0:
                self._idle -= 1         # that one takes it
            elif self._threads < self._limit:
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return future

    def _work(self):
        while True:
            try:
                call = self._calls.get(timeout=IDLE)
            except queue.Empty:
                with self._lock:
                    if self._idle > 0:
                        self._idle -= 1
                        self._threads -= 1
                        return
                continue                # a call that counts on this thread is on its way
            if call is None:
                return
            self._run(*call)
            with self._lock:
                self._idle += 1

    @staticmethod
    def _run(future, fn, args, kwargs):
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as problem:
            future.set_exception(problem)

    def shutdown(self, wait=True, *, cancel_futures=False):
        """No further calls; threads end after theirs."""
        with self._lock:
            self._over = True
            for _ in range(self._threads):
                self._calls.put(None)
