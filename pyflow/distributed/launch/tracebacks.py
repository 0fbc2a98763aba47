"""Tracebacks among the lines that a cluster's processes print: each is kept together, and what
several print is printed once.

    a line -> passed on
           -> held [it begins a traceback, or follows one]
              -> all passed on [the process ends, HOLD seconds pass, or MOST lines are held]
              -> one line instead [another task's was the same]

Invariants
1. Nothing is lost but what was printed for another task already.
2. Two are the same if they are so but for numbers: of processes, ports, tasks.

Threads: the launcher's.  Caller: supervision.py.

    found = Tracebacks(print)
    found.take("worker-0", "Traceback (most recent call last):")
    found.take("worker-0", "ImportError: No module named 'grpc'")
    found.end("worker-0")               # "ImportError: No module named 'grpc'"
"""
import re
import time

BEGINS = "Traceback (most recent call last):"
HOLD, MOST, KEPT = 0.5, 400, 64         # seconds, lines; tracebacks that are remembered
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(: .*)?$")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")


class Tracebacks:
    """pass_on(label, line): prints a line of a task."""

    def __init__(self, pass_on):
        self._pass_on = pass_on
        self._held, self._since = {}, {}        # label: lines; when the first of them came
        self._told = {}                         # {what was printed, without numbers: whose it was}
        self._last = {}                         # label: the last line of its newest traceback

    def take(self, label, line):
        """A line of a task's process."""
        held = self._held.get(label)
        if held is None and line != BEGINS:
            self._pass_on(label, line)
            return
        if held is None:
            held = self._held[label] = []
            self._since[label] = time.monotonic()
        held.append(line)
        if len(held) >= MOST:
            self._release(label)

    def end(self, label):
        """A task's process has ended: the exception of its newest traceback, or None."""
        self._release(label)
        return self._last.pop(label, None)

    def due(self):
        """When something is to be passed on (time.monotonic()); None: nothing is held."""
        return min(self._since.values()) + HOLD if self._since else None

    def release(self, now):
        """Passes on what was held for long enough."""
        for label in [label for label, since in self._since.items() if since + HOLD <= now]:
            self._release(label)

    def _release(self, label):
        lines = self._held.pop(label, ())
        self._since.pop(label, None)
        if not lines:
            return
        key = _NUMBER.sub("#", "\n".join(lines))
        self._last[label] = last = exception_of(lines)
        other = self._told.get(key)
        if other is not None and other != label and last is not None:
            self._pass_on(label, f"the same traceback as {other}'s: {last}")
            return
        self._told[key] = label
        if len(self._told) > KEPT:
            del self._told[next(iter(self._told))]
        for line in lines:
            self._pass_on(label, line)


def exception_of(lines):
    """The line of the exception that was raised last, or None."""
    found, in_frames = None, False
    for line in lines:
        if line == BEGINS or line.startswith(" "):
            in_frames = True
        elif in_frames and _EXCEPTION.match(line):
            found, in_frames = line, False
    return found


def without_numbers(line):
    """An exception's line, to be compared with that of another process."""
    return None if line is None else _NUMBER.sub("#", line)
