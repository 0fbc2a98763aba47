"""Exchanges: the large feeds and fetches of a client's call, over its link to the master.

    client  send(feed) --announced--> [the call] --> receive  master, then its step
            receive   <--announced--- [the answer] <--- send(fetch)  master

What is small goes in the call's own messages (tensors.py); there, a tensor that comes by the link
has its type, its shape, and `linked`.  Both sides speak of an exchange by a key of their tasks'
tables of steps: the session's number, and a step's that no step of the master's has.

Invariants
1. A tensor is announced, and sent once it is received: who never hears of the call holds nothing,
   and a call without large tensors costs nothing but its number.
2. A fed array is lent, not copied: it is kept until the link has sent it, or given it up.
3. Whoever waits for a tensor hears of a lost link as UNAVAILABLE, and of a call that was given up.
4. What was received is of the type and shape that its message says.

Threads: any; an exchange is one call's.  Callers: client.py, master_service.py.
"""
import threading

import numpy as np

from pyflow.distributed.wire import links, messages, tensors
from pyflow.framework import dtypes, errors
from pyflow.session import runtime

LARGE = 1 << 16                         # bytes; what has fewer goes in the call's messages
FIRST = 1 << 63                         # numbers of clients' steps; a master counts its own from 1
CLIENTS = "/client:"                    # how the names of clients' tasks begin
_STRING = dtypes.string.as_datatype_enum
_HANDLES = (dtypes.resource.as_datatype_enum, dtypes.variant.as_datatype_enum)


class Exchanges:
    """Those of one process that wait for tensors."""

    def __init__(self):
        self._lock, self._waiting = threading.Lock(), set()

    def begin(self, links, peer, session, step):
        """The Exchange with a peer of the links'."""
        return Exchange(self, links, peer, session, step)

    def asked_for(self, step, client, links, session):
        """That of a call whose client named itself and the step; None: it asks for none.  Raises
        InvalidArgumentError for what is no client's."""
        if not step:
            return None
        if not client.startswith(CLIENTS) or step < FIRST:
            raise errors.InvalidArgumentError(
                None, None, f"{client[:100]!r} with step {step} is no client's exchange")
        return self.begin(links, client, session, step)

    def lost(self, peer, code, message):
        """The link to a peer is lost: nothing of an exchange with it will come."""
        with self._lock:
            found = [exchange for exchange in self._waiting if exchange.peer == peer]
        for exchange in found:
            exchange.fail(code, message)

    def _add(self, exchange):
        with self._lock:
            self._waiting.add(exchange)

    def _discard(self, exchange):
        with self._lock:
            self._waiting.discard(exchange)


class Exchange:
    """The tensors of one call, both ways."""

    def __init__(self, among, links, peer, session, step):
        self._among, self._links, self._net, self.peer = among, links, links.net, peer
        self._session, self.step, self._lent, self._waits = session, step, [], False

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self._waits:
            self._among._discard(self)
        if self._waits or kind is not None:         # what is announced later finds it over
            self._net.task.clean(self._session, self.step)
        for lent in self._lent:
            lent.end()

    def fail(self, code, message):
        """Nothing comes any more; twice is once."""
        try:
            self._net.task.fail(self._session, self.step, code, message)
        except runtime.executor().StepError:
            pass                        # it is over

    def cancel(self):
        """As `fail`, where the call was given up."""
        self.fail(errors.CANCELLED, "the call was given up")

    def send(self, name, value, type, tensor=""):
        """The TensorMessage of a value, which is announced over the link if it is large.  tensor:
        its name for people.  Raises StepError, UNAVAILABLE, on a link that is lost, and
        ResourceExhaustedError for more than a link takes at once."""
        if not _is_large(value, type):
            return tensors.encode(value, type)
        size = 0 if type == _STRING else (
            value.data().nbytes if hasattr(value, "on_host") else value.nbytes)
        if size > links.LARGEST:
            raise errors.ResourceExhaustedError(None, None, (
                f"{name} ({tensor}) has {size} bytes: a tensor that goes over a link has 4 GB at "
                "most"))
        if hasattr(value, "on_host"):
            given = value = value if value.on_host else value.array()
        elif type == _STRING:
            given = value
        else:
            value = _compact(value, type)
            self._lent.append(runtime.executor().Lent(value, type))
            given = self._lent[-1].tensor
        self._net.put(self.peer, self._session, self.step, name.encode(), given, type,
                      announced=True)
        return messages.TensorMessage(dtype=type, linked=True, shape=(
            value.shape if hasattr(value, "shape") else np.shape(value)))

    def receive(self, name, message):
        """What `send` gave the message for, once it is there: as tensors.decode gives it or, by the
        link, a Kept.  Raises StepError, or InvalidArgumentError for another type or shape."""
        if not message.linked:
            return tensors.decode(message)
        if not self._waits:
            self._begin_to_wait()
        found = self._net.task.arrival(self._session, self.step, name.encode()).result()
        if found.type != message.dtype or found.shape != tuple(message.shape):
            raise errors.InvalidArgumentError(
                None, None, f"{name}: its message says {list(message.shape)[:8]} of type "
                f"{message.dtype}, by the link came {list(found.shape)[:8]} of type {found.type}")
        return found

    def _begin_to_wait(self):
        self._waits = True
        self._net.task.open(self._session, self.step)
        self._among._add(self)
        if self._links.kind_of(self.peer) is None:      # lost before `_add`: nobody would be told
            self.fail(errors.UNAVAILABLE, f"the link to {self.peer} was lost")


def received(exchange, name, message):
    """As Exchange.receive, where there may be no exchange.  Raises UnavailableError for a message
    that needs one."""
    if exchange is not None:
        return exchange.receive(name, message)
    if message.linked:
        raise errors.UnavailableError(
            None, None, f"{name} was to come by a link, and there is none any more")
    return tensors.decode(message)


def sent(exchange, name, value, type, tensor=""):
    """As Exchange.send, where there may be no exchange."""
    if exchange is not None:
        return exchange.send(name, value, type, tensor)
    return tensors.encode(value, type)


def _is_large(value, type):
    if type in _HANDLES:
        return False
    if type == _STRING:
        array = value.array() if hasattr(value, "on_host") else value
        if isinstance(array, (bytes, str)):
            return len(array) > LARGE
        return sum(map(len, np.asarray(array, dtype=object).reshape(-1))) > LARGE
    if hasattr(value, "on_host"):
        return value.on_host and value.data().nbytes > LARGE
    return getattr(value, "nbytes", 0) > LARGE


def _compact(value, type):
    """As the executor takes it without a copy."""
    return np.require(value, dtypes.as_dtype(type).as_numpy_dtype, ["C", "A"])
