"""Ways from a worker's task to others, by which _net.Send hands tensors on.

    the peer is in this process     straight into its table of steps
    a link reaches it               over the link, without Python (links.py)
    else                            pushed on a kept Connect stream of gRPC's

Invariants
1. A route means one incarnation of a peer; `ensure` with another one replaces it.
2. Who sends more than the peer takes waits, as long as its step goes on: at most
   remote_worker.OUTGOING bytes, and one tensor of each thread that sends, are on the way to a peer.
3. A way that broke is opened again by the next `ensure`, over gRPC by whoever sends next; sending
   over one that is broken is UNAVAILABLE.

Threads: any.
"""
import threading
import time

from pyflow.distributed import messages, remote_worker, tensors
from pyflow.framework import errors
from pyflow.session import runtime

AGAIN = 0.2
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
    """The routes of one worker.  channels: a remote_worker.Channels."""

    def __init__(self, worker, channels):
        self._worker, self._channels = worker, channels
        self._lock, self._ways = threading.Lock(), {}

    def ensure(self, route):
        """There is a way to the task of a RouteMessage, to that incarnation, from now on."""
        task, incarnation, address = route.task, route.incarnation, route.address
        with self._lock:
            known = self._ways.get(task)
            if known is not None and known.incarnation == incarnation and known.broken is None:
                return
            here = of_process(task, incarnation)
            if here is not None:
                way = _Within(here, incarnation)
                self._worker.task.route(task, way.target)
            else:
                way = (_Linked.to(self._worker.links, task, incarnation, route.link)
                       or _Pushed(self._worker, task, incarnation, address, self._channels))
            self._ways[task] = way
        if known is not None:
            known.close()

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
        for way in ways.values():
            way.close()


class _Within:
    kind, address, broken = "process", "", None

    def __init__(self, worker, incarnation):
        self.incarnation, self.target = incarnation, worker.task

    def close(self):
        pass


class _Linked:
    def __init__(self, links, task, incarnation, kind):
        self.incarnation, self.kind, self.address = incarnation, kind, ""
        self._links, self._task = links, task

    @classmethod
    def to(cls, links, task, incarnation, offers):
        """A way over a link, which is the task's route from now on; None: there is no link."""
        kind = links.connect(task, incarnation, offers) if links is not None else None
        if kind is None or not links.net.route(task):
            return None
        return cls(links, task, incarnation, kind)

    @property
    def broken(self):
        return None if self._links.connected(self._task, self.incarnation) else "lost"

    def close(self):
        pass                            # the connection is the pair's, not the route's


class _Pushed:
    kind = "grpc"

    def __init__(self, worker, task, incarnation, address, channels):
        self.incarnation, self.address, self._task = incarnation, address, worker.task
        self._lock, self._opened = threading.Lock(), 0.0
        me = worker.name, worker.incarnation, worker.epoch
        self._open = lambda: remote_worker.Stream(channels.get(address), task, address, me,
                                                  incarnation)
        self._stream = self._open()
        worker.task.route(task, self._push)

    @property
    def broken(self):
        return self._stream.broken

    def _push(self, session, step, key, value, dead):
        tensor = messages.TensorMessage(dead=True)
        if not dead:
            try:
                tensor = tensors.encode(value, value.type)
            except errors.OpError as wrong:
                raise runtime.executor().StepError(wrong.error_code, wrong.message) from None
        put = messages.TensorPut(session=session, step=step, key=key, tensor=tensor,
                                 incarnation=self.incarnation)
        self._there().send(messages.ConnectMessage(put=put), size=put.ByteSize(),
                          wanted=lambda: not self._task.failed(session, step))

    def _there(self):
        """The stream; a new one where it broke, at most one in AGAIN seconds."""
        with self._lock:
            broken, now = self._stream.broken, time.monotonic()
            if broken is not None and broken.code == errors.UNAVAILABLE \
                    and now - self._opened > AGAIN:
                self._stream, self._opened = self._open(), now
            return self._stream

    def close(self):
        self._stream.close()
