"""Links: connections of a task with others, over which steps and tensors go.

    kinds    ours, "unix" and "tcp", and those that plugins offer (pyflow/link.h)
    offers   what a task listens at: "unix MACHINE ADDRESS", "tcp MACHINE ADDRESS"
    connect  to a peer by the best of its offers; one connection per pair of tasks
    "grpc"   a stream to the address that the cluster knows, where there is no other (grpc_link.py)

`unix` and `tcp` have no encryption: with certificates a task offers only those that say they are
secure, and the rest goes over gRPC.

Invariants
1. MACHINE names a machine and the network it sees: an offer of a UNIX socket, or of loopback, is
   for those of the same machine alone; so is each of a link that does not say that it reaches
   others, or that is neither secure nor agreed to with `insecure`.
2. A peer that no other link reaches is spoken to over gRPC: none is ever needed.

Threads: any.
"""
import logging
import os
import threading

from pyflow import config as env
from pyflow import plugins
from pyflow.distributed.wire import grpc_link
from pyflow.framework import errors
from pyflow.session import runtime

KINDS = ("unix", "tcp")                 # used where nobody says others, the best first
CONNECT_SECONDS = 5.0
LEASE = 2.2                             # seconds of silence after which a peer is lost
LARGEST = 1 << 32                       # bytes of a tensor that is not shared, and of all under way
_log = logging.getLogger("pyflow")


def machine():
    """Names this machine, as it was started, and the network that this process sees."""
    parts = []
    for path, read in (("/proc/sys/kernel/random/boot_id", _text), ("/proc/self/ns/net",
                                                                     os.readlink)):
        try:
            parts.append(read(path))
        except OSError:
            parts.append("?")
    return "/".join(parts)


def chosen(kinds=None, secure=False, here=False):
    """The kinds that Server(links=kinds), else PYFLOW_LINKS, means; secure: only those that encrypt
    and know their peers; here: its address is for this machine's processes, so are its links where
    nobody says which.  Raises ValueError for one that there is not."""
    said = ""
    if kinds is None:
        text = env.value("PYFLOW_LINKS")
        if text is None:
            kinds = [k for k in KINDS if k in available() and not (here and available()[k][0])]
        else:
            said = f"PYFLOW_LINKS={text!r}: "
            kinds = [k for k in text.replace(",", " ").split() if k != "none"]
    elif isinstance(kinds, str):
        raise TypeError(f"links must be a list of kinds, such as ('unix', 'tcp'), got {kinds!r}")
    kinds = [k for k in kinds if k != "grpc"]       # which is there without being asked for
    there = available() if kinds else {}
    for kind in kinds:
        if kind not in there:
            raise ValueError(said + _unknown(kind, there))
    return tuple(k for k in dict.fromkeys(kinds) if there[k][1] or not secure)


def available():
    """{kind: (it reaches other machines, it is secure)} of the links of this process."""
    return getattr(runtime.start(), "links", dict)()


def _unknown(kind, there):
    promised = [p for p in plugins.load_all() if kind in p.description.get("links", ())]
    why = "".join(f"; plugin {p.origin}, which offers it, is not used: {p.problem}"
                  for p in promised if p.problem)
    return (f"there is no link of kind {kind!r}, but {', '.join(map(repr, there)) or 'none'}{why}; "
            "others come with plugins (docs/transports.md)")


def _text(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


class Links:
    """The links of a worker.

    kinds: those it offers and uses, as `chosen` returns them.  host: where tcp listens; insecure:
    beyond this machine, too.  lease: seconds of silence after which a peer is lost, LEASE where none
    is said.  lost(name, incarnation, code, message): called when a connection is lost.  listen: False for one that only
    connects.  Raises UnimplementedError where there is no epoll."""

    def __init__(self, worker, kinds, host="127.0.0.1", insecure=False, lease=None, epoch=0,
                 lost=None, listen=True):
        self.kinds, self._insecure, self._machine = tuple(kinds), insecure, machine()
        self._there = available() if self.kinds else {}
        self.offers, self._lock, self._failed = [], threading.Lock(), set()
        self._turns = {}                # name of a task: the Lock of who connects with it
        self._given_up = {}             # name of a task: the incarnation that was cut
        if not hasattr(runtime.executor(), "Net"):
            raise errors.UnimplementedError(None, None, "tasks speak to each other on Linux alone")
        self.net = runtime.executor().Net(worker.task, lease=lease or LEASE, epoch=epoch,
                                          lost=lost, incoming_bytes=LARGEST)
        for kind in self.kinds if listen else ():
            try:
                address = self.net.listen(kind, f"{host}:0" if self._there[kind][0] else "",
                                          insecure=insecure)
            except runtime.executor().StepError as problem:
                _log.warning("%s offers no %s link: %s", worker.name, kind, problem.message)
            else:
                self.offers.append(f"{kind} {self._machine} {address}")
        self.port = self.net.listen("grpc") if listen else None     # for the streams of the server

    def connect(self, name, incarnation, offers, channel=None, timeout=CONNECT_SECONDS):
        """The kind of link to a peer, which there is from now on; None: there is no way.

        channel: function without arguments, a grpc channel to it.  Raises StepError, ABORTED,
        where it is of another incarnation."""
        with self._lock:
            turn = self._turns.setdefault(name, threading.Lock())
        with turn:                      # who connects twice loses what the first one carries
            if self.net.closed or self._given_up.get(name) == incarnation:
                return None
            if self.connected(name, incarnation):
                return self.kind_of(name)
            return self._connect(name, incarnation, offers, channel, timeout)

    def _connect(self, name, incarnation, offers, channel, timeout):
        failed, found = [], None
        for kind, address in self._fitting(offers):
            try:
                found = self._connected_by(kind, name, incarnation, address, timeout)
                break
            except runtime.executor().StepError as problem:
                failed.append((kind, problem))
                self._check(problem)
        if found is None and channel is not None:
            stream = grpc_link.dial(channel(), self.net)
            try:
                found = self._connected_by("grpc", name, incarnation, stream.dial(), timeout)
            except runtime.executor().StepError as problem:
                failed.append(("grpc", problem))
                self._check(problem)
            finally:
                stream.undial()         # the peer has connected meanwhile
        for kind, problem in failed:
            self._note(kind, name, problem, found)
        return found

    def _connected_by(self, kind, name, incarnation, address, timeout):
        self.net.connect(name, incarnation, kind, address, insecure=self._insecure,
                         timeout=timeout)
        return self.kind_of(name) or kind

    @staticmethod
    def _check(problem):
        """Raises what says that the peer is another one."""
        if problem.code == errors.ABORTED:
            raise problem

    def _note(self, kind, name, problem, other):
        """A link cannot be made: said once in a log where a slower one serves.  other: that, or
        None: then its process is gone, which who waits for it is told."""
        with self._lock:
            new = (name, kind) not in self._failed and other is not None
            if other is not None:
                self._failed.add((name, kind))
        _log.log(logging.WARNING if new else logging.DEBUG,
                 "no %s link to %s: %s", kind, name, problem.message)

    def _fitting(self, offers):
        """[(kind, address)] of those that reach from here, the best first."""
        found = []
        for offer in offers:
            kind, where, address = (offer.split(" ", 2) + ["", ""])[:3]
            far, secure = self._there.get(kind, (False, False))
            here = where == self._machine
            if kind in self.kinds and (here or far and (secure or self._insecure)):
                found.append((kind, address))
        return sorted(found, key=lambda f: self.kinds.index(f[0]))

    def kind_of(self, name):
        """Of the connection with that task; None: there is none."""
        return self.net.kind(name)

    def connected(self, name, incarnation):
        """There is an open connection with that incarnation."""
        return not self.net.closed and self.net.kind(name, incarnation) is not None

    def cut(self, name, incarnation, why):
        """The connection with that incarnation, if there is one, is lost, for both; it is not made
        again, which would take long where its process hangs, until `take_back`."""
        self._given_up[name] = incarnation
        self.net.disconnect(name, why, incarnation)

    def take_back(self, name, incarnation):
        """That incarnation answers, at whatever address."""
        if self._given_up.get(name) == incarnation:
            del self._given_up[name]

    def serve(self, graph, plan):
        """Peers may run the plan by that number."""
        self.net.serve(graph, plan)

    def asked(self, graph):
        """Seconds since a peer last ran the plan by that number; None: nobody has."""
        return self.net.asked(graph)

    def unserve(self, graph):
        """No more."""
        self.net.unserve(graph)

    def close(self):
        """Ends all connections."""
        self.net.close()
