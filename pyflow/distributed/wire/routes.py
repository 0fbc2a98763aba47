"""Ways from a worker's task to others, by which _net.Send hands tensors on.

    the peer is in this process     straight into its table of steps
    else                            over the link that reaches it best (links.py)

Invariants
1. A route means one incarnation of a peer; `ensure` with another one replaces it.
2. How much a peer is sent that nobody there has read yet is the link's affair (core/net).
3. A link that was lost is made again at once; where that fails, by the next `ensure`, and once in
   AGAIN seconds by whoever sends. Sending without one is UNAVAILABLE.

Threads: any.
"""
import logging
import threading
import time

from pyflow.distributed.wire import links
from pyflow.framework import errors
from pyflow.session import runtime

AGAIN = 0.2                             # seconds between attempts to open a way that broke
AGAIN_SECONDS = 1.0                     # for one: its peer may hang, and a successor's way has to wait
_log = logging.getLogger("pyflow")
_here_lock = threading.Lock()
_here = {}                              # (task, incarnation): Worker, the servers of this process


def join(worker):
    """A worker of this process begins."""
    with _here_lock:
        _here[worker.name, worker.incarnation] = worker


def leave(worker):
    """It ends."""
    with _here_lock:
        for key in [k for k, w in _here.items() if w is worker]:
            del _here[key]


def of_process(task, incarnation):
    """The Worker of this process that is meant; None: it is elsewhere, or gone."""
    with _here_lock:
        return _here.get((task, incarnation))


def at_address(task, address):
    """The Worker of this process that listens there as that task, or None."""
    with _here_lock:
        found = [w for w in _here.values() if w.name == task and w.address == address]
    return found[0] if found else None


class Routes:
    """The routes of one worker.  channels: a Channels."""

    def __init__(self, worker, channels):
        self._worker, self._channels = worker, channels
        self._lock, self._ways = threading.Lock(), {}

    def ensure(self, route):
        """There is a way to the task of a RouteMessage, to that incarnation, from now on.  Raises
        StepError, UNAVAILABLE or ABORTED, where there is none."""
        task, incarnation = route.task, route.incarnation
        with self._lock:
            known = self._ways.get(task)
        if known is not None and known.incarnation == incarnation and known.stands():
            return
        here = of_process(task, incarnation)
        way = _Within(self._worker, here, incarnation) if here is not None else \
            _Linked(self._worker, route, self._channels)
        with self._lock:
            self._ways[task] = way
        way.open()

    def lost(self, task, incarnation):
        """A link was lost: it is made anew, if the task is there still."""
        with self._lock:
            known = self._ways.get(task)
        if known is not None and known.incarnation == incarnation and not known.stands():
            known.open_again()

    def table(self):
        """[(task, kind of way, address)]."""
        with self._lock:
            return [(task, way.kind, way.address) for task, way in sorted(self._ways.items())]

    def close(self):
        """Ends all ways."""
        with self._lock:
            ways, self._ways = self._ways, {}
        for task in ways:
            self._worker.task.route(task, None)


class _Within:
    """To a task of this process."""

    kind, address = "process", ""

    def __init__(self, worker, peer, incarnation):
        self._worker, self._peer, self.incarnation = worker, peer, incarnation

    def stands(self):
        return True

    def open(self):
        self._worker.task.route(self._peer.name, self._peer.task)


class _Linked:
    """To one incarnation of a task in another process.  The connection is the pair's, not the
    route's: it stays."""

    def __init__(self, worker, route, channels):
        self._worker, self._links = worker, worker.links
        self.task, self.incarnation, self.address = route.task, route.incarnation, route.address
        self._offers, self._channel = list(route.link), lambda: channels.get(route.address)
        self._lock, self._tried = threading.Lock(), 0.0

    @property
    def kind(self):
        """Of the link that there is now."""
        return self._links.kind_of(self.task) or "none"

    def stands(self):
        """It leads there still, and is the task's route."""
        return self._links.connected(self.task, self.incarnation) \
            and self._links.net.route(self.task)

    def open(self, timeout=links.CONNECT_SECONDS):
        """Raises StepError, UNAVAILABLE or ABORTED."""
        with self._lock:
            self._tried = time.monotonic()
            if self._links.connect(self.task, self.incarnation, self._offers, self._channel, timeout) \
                    and self._links.net.route(self.task):
                return
            self._worker.task.route(self.task, self._refuse)
        raise self._gone()

    def open_again(self):
        """The same, where nobody waits for it."""
        try:
            self.open(AGAIN_SECONDS)
        except (runtime.executor().StepError, ValueError) as problem:   # ValueError: channels are closed
            _log.debug("%s: no way to %s: %s", self._worker.name, self.task, problem)

    def _refuse(self, session, step, key, value, dead):
        """The route while there is no link."""
        if time.monotonic() - self._tried > AGAIN and not self._lock.locked():
            threading.Thread(target=self.open_again, name="pyflow-route", daemon=True).start()
        raise self._gone()

    def _gone(self):
        return runtime.executor().StepError(
            errors.UNAVAILABLE, f"{self.task} at {self.address} cannot be reached from "
            f"{self._worker.name}", task=self.task)
