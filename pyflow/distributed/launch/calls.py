"""Calls that one thread does for others: a queue, and a pipe that its select wakes up for.

Invariants
1. A call runs on the thread that answers, in the order asked; who asked waits, and is raised what
   the call raises.
2. Nobody waits for a thread that has ended: `over` says so.

Threads: `ask` any, all others the one that answers.  Callers: local.py, hosted.py.
"""
import collections
import os
import threading


class Calls:
    """over: a threading.Event, set once nobody answers any more."""

    def __init__(self, over):
        self._over, self._waiting = over, collections.deque()
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)

    def fileno(self):
        """What becomes readable when there is something to answer."""
        return self._read

    def ask(self, call):
        """Has `call()` done; returns what it returns, or None if it is over before that."""
        done, result = threading.Event(), {}

        def run():
            try:
                result["value"] = call()
            except Exception as e:
                result["error"] = e
            done.set()
        self._waiting.append(run)
        try:
            os.write(self._write, b".")
        except OSError:                 # full is as good; closed: it is over
            pass
        while not done.wait(0.05):
            if self._over.is_set():
                break
        if "error" in result:
            raise result["error"]
        return result.get("value")

    def answer(self):
        """Does what was asked."""
        try:
            os.read(self._read, 4096)
        except BlockingIOError:
            pass
        while self._waiting:
            self._waiting.popleft()()

    def close(self):
        """After `over` was set."""
        os.close(self._read)
        os.close(self._write)
