"""Ways from a worker's task to others, by which _net.Send hands tensors on.

    the peer is in this process     straight into its table of steps
    a link reaches it               over the link, without Python (links.py)
    else                            pushed on a kept Connect stream of gRPC's

Invariants
1. A route means one incarnation of a peer; `ensure` with another one replaces it.
2. Who sends more than the peer takes is told later that its tensor is on its way, or waits as long
   as its step goes on: at most outgoing.OUTGOING bytes, and one tensor of each _net.Send that
   runs, are on the way to a peer.
3. A way that broke is opened again by the next `ensure`, over gRPC by whoever sends next; sending
   over one that is broken is UNAVAILABLE.

Threads: any.
"""
import itertools
import threading
import time

from pyflow.distributed import chunks, messages, remote_worker, rpc, tensors
from pyflow.framework import errors
from pyflow.session import runtime

AGAIN = 0.2                             # seconds between attempts to open a way that broke
MAX_STEPS = 4096                        # of which a way knows that it sent something for them
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
            if known is not None and known.incarnation == incarnation and known.stands():
                return
            here = of_process(task, incarnation)
            if here is not None:
                way = _Within(here, incarnation)
                self._worker.task.route(task, way.target)
            else:
                way = (_Linked.to(self._worker.links, task, incarnation, route.link, address)
                       or _Pushed(self._worker, task, incarnation, address, self._channels))
            self._ways[task] = way
        if known is not None:
            known.retire()

    def lost(self, task, incarnation):
        """A link was lost: the next tensors go over gRPC, until `ensure` finds a link again."""
        with self._lock:
            known = self._ways.get(task)
            if isinstance(known, _Linked) and known.incarnation == incarnation \
                    and not known.connected():
                self._ways[task] = _Pushed(self._worker, task, incarnation, known.address,
                                           self._channels, known)

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


class _Way:
    """What leads to one incarnation of a task."""

    def stands(self):
        """It leads there still, and as well as any other would."""
        return True

    def retire(self):
        """Another one has taken its place; what is on its way arrives."""

    def close(self):
        """All ends."""


class _Within(_Way):
    kind, address = "process", ""

    def __init__(self, worker, incarnation):
        self.incarnation, self.target = incarnation, worker.task


class _Linked(_Way):
    """The connection is the pair's, not the route's: it stays."""

    def __init__(self, links, task, incarnation, kind, address):
        self.incarnation, self.kind, self.address = incarnation, kind, address
        self._links, self._task = links, task

    @classmethod
    def to(cls, links, task, incarnation, offers, address):
        """A way over a link, which is the task's route from now on; None: there is no link."""
        kind = links.connect(task, incarnation, offers) if links is not None else None
        if kind is None or not links.net.route(task):
            return None
        return cls(links, task, incarnation, kind, address)

    def connected(self):
        """The connection is there, if perhaps another one than the route's."""
        return self._links.connected(self._task, self.incarnation)

    def stands(self):
        return self.connected() and self._links.net.route(self._task)


class _Pushed(_Way):
    kind = "grpc"

    def __init__(self, worker, task, incarnation, address, channels, instead=None):
        """instead: the _Linked that was lost."""
        self.incarnation, self.address, self._task = incarnation, address, worker.task
        self._lock, self._opened = threading.Lock(), 0.0
        me = worker.name, worker.incarnation, worker.epoch
        self._open = lambda: remote_worker.Stream(channels.get(address), task, address, me,
                                                  incarnation, self._broke, worker)
        self._worker, self._steps = worker, {}      # (session, step) of what was sent, oldest first
        self._numbers = itertools.count(1)          # of tensors that go in chunks
        self._stream, self._instead, self._peer = None, instead, task
        worker.task.route(task, self._push)

    def stands(self):
        return self._instead is None and (self._stream is None or self._stream.broken is None)

    def _push(self, session, step, key, value, dead, later=None):
        message = messages.ConnectMessage()
        put, size, sending = message.put, 64, None
        put.session, put.step, put.key, put.incarnation = session, step, key, self.incarnation
        if dead:
            put.tensor.dead = True
        elif (size := chunks.size_of(value)) > chunks.LARGE:
            put.transfer = next(self._numbers)
            put.tensor.dtype = value.type
            put.tensor.shape.extend(value.shape)
            sending = chunks.Sending(put.transfer, value.data())
        else:
            try:
                put.tensor.CopyFrom(tensors.encode(value, value.type))
            except errors.OpError as wrong:
                raise runtime.executor().StepError(wrong.error_code, wrong.message) from None
            size = put.ByteSize()
        self._steps[session, step] = None
        if len(self._steps) > MAX_STEPS:
            self._steps.pop(next(iter(self._steps)), None)
        how = {"size": size, "wanted": lambda: not self._task.failed(session, step),
               "sending": sending, "later": later}
        back = self._worker.streams.get((self._peer, self.incarnation))
        if back is not None:                # the peer's own, on which it hears of the step, too
            back.users.add(self._broke)
            if back.put(message, **how):
                return
        self._there().send(message, **how)

    _push.pends = True

    def _broke(self, message):
        """What was sent last may be lost: the steps that go on fail, here and at their masters."""
        steps, self._steps = list(self._steps), {}
        for session, step in steps:
            if not self._task.failed(session, step):
                failure = rpc.of_message(message, runtime.executor().StepError)
                self._worker.lose(session, step, failure)

    def _there(self):
        """The stream; a new one where it broke, at most one in AGAIN seconds."""
        with self._lock:
            now, broken = time.monotonic(), self._stream is not None and self._stream.broken
            if self._stream is None or broken and broken.code == errors.UNAVAILABLE \
                    and now - self._opened > AGAIN:
                self._stream, self._opened = self._open(), now
            return self._stream

    def retire(self):
        with self._lock:
            if self._stream is not None:
                self._stream.finish()

    def close(self):
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.close()
