"""Traces of whatever steps a task runs, begun and ended from outside (WorkerService.Tracing).

    OFF --steps=N--> ON --stop--> OFF, what was recorded is handed over

Invariants
1. At most `steps` steps and LIMIT bytes are kept; later ones are counted, not recorded.
2. OFF, a step costs one look at an attribute.

Threads: any; `_lock` guards the list.
"""
import threading

from pyflow.distributed.wire import messages
from pyflow.framework import protos
from pyflow.session import metadata, runtime

LEVEL = 3
LIMIT = 256 << 20                       # bytes of StepStats kept


def step_stats(trace):
    """The bytes of a RunMetadata with a core Trace's StepStats."""
    return metadata.fill(protos.RunMetadata(), trace).SerializeToString()


class Tracer:
    """What one task records.  `on`: new steps should be traced."""

    def __init__(self):
        self.on, self._lock = False, threading.Lock()
        self._left, self._kept, self._bytes, self._left_out = 0, [], 0, 0

    def ask(self, request):
        """The TracingResponse to a TracingRequest."""
        reply = messages.TracingResponse()
        with self._lock:
            if request.stop:
                self.on = False
                for session, step, data in self._kept:
                    reply.step.add(session=session, step=step, step_stats=data)
                reply.left_out = self._left_out
            else:
                self.on, self._left = True, max(1, request.steps)
            self._kept, self._bytes, self._left_out = [], 0, 0
        return reply

    def recording(self, asked, session, step):
        """(the core's Trace for a step that begins now, what is to be called when it is over), or
        None for either.  asked: the Trace that its caller wants filled, or None."""
        if not self.on or asked is None and not self.takes():
            return asked, None
        own = runtime.executor().Trace(LEVEL)

        def over():
            data = step_stats(own)
            if asked is not None:
                metadata.add_elsewhere(asked, data)
            self.add(session, step, data)
        return own, over

    def takes(self):
        """Whether a step that begins now is to be recorded: counts it."""
        with self._lock:
            if self._left <= 0:
                self._left_out += 1
                return False
            self._left -= 1
        return True

    def add(self, session, step, data):
        """What a step recorded: a RunMetadata's bytes."""
        with self._lock:
            if self.on and self._bytes + len(data) <= LIMIT:
                self._bytes += len(data)
                self._kept.append((session, step, data))
            else:
                self._left_out += 1
