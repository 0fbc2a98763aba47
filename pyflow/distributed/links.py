"""Links: connections of a task with others over which steps and tensors go without Python.

    offers   what a task listens at: "unix MACHINE ADDRESS", "tcp MACHINE ADDRESS"
    connect  to a peer by the best of its offers; one connection per pair of tasks

A link of our own has no encryption: with certificates a task offers none, and all goes over gRPC.

Invariants
1. MACHINE names a machine and the network it sees: an offer of a UNIX socket, or of loopback, is
   for those of the same machine alone.
2. A peer that cannot be reached by a link is spoken to over gRPC: no link is ever needed.

Threads: any.
"""
import logging
import os
import threading

from pyflow.session import runtime

KINDS = ("unix", "tcp")
CONNECT_SECONDS = 5.0
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


def _text(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


class Links:
    """The links of a worker.

    kinds: those it offers and uses, of KINDS.  host: where tcp listens; insecure: beyond this
    machine, too.  lease: seconds of silence after which a peer is lost.  lost(name, incarnation,
    code, message): called when a connection is lost.  listen: False for one that only connects."""

    def __init__(self, worker, kinds, host="127.0.0.1", insecure=False, lease=2.2, epoch=0,
                 lost=None, listen=True):
        self.kinds, self._insecure, self._machine = tuple(kinds), insecure, machine()
        self.net, self.offers = None, []
        self._lock, self._failed = threading.Lock(), set()
        if not self.kinds:
            return
        self.net = runtime.executor().Net(worker.task, lease=lease, epoch=epoch, lost=lost,
                                            incoming_bytes=LARGEST)
        for kind in self.kinds if listen else ():
            try:
                address = self.net.listen(kind, "" if kind == "unix" else f"{host}:0",
                                          insecure=insecure)
            except runtime.executor().StepError as problem:
                _log.warning("%s offers no %s link: %s", worker.name, kind, problem.message)
            else:
                self.offers.append(f"{kind} {self._machine} {address}")

    def connect(self, name, incarnation, offers, timeout=CONNECT_SECONDS):
        """The kind of link to a peer, which there is from now on; None: there is no way.  Raises
        StepError, ABORTED, where it is of another incarnation."""
        if self.net is None or self.net.closed:
            return None
        for kind, address in self._fitting(offers):
            try:
                self.net.connect(name, incarnation, kind, address, insecure=self._insecure,
                                 timeout=timeout)
            except runtime.executor().StepError as problem:
                if problem.code == 10:              # ABORTED
                    raise
                with self._lock:
                    new = (name, kind) not in self._failed
                    self._failed.add((name, kind))
                _log.log(logging.WARNING if new else logging.DEBUG,
                         "no %s link to %s: %s", kind, name, problem.message)
            else:
                return self._kind_of(name) or kind
        return None

    def _fitting(self, offers):
        """[(kind, address)] of those that reach from here, the best first."""
        found = []
        for offer in offers:
            kind, where, address = (offer.split(" ", 2) + ["", ""])[:3]
            here = where == self._machine
            if kind in self.kinds and (here or kind == "tcp" and self._insecure):
                found.append((kind, address))
        return sorted(found, key=lambda f: self.kinds.index(f[0]))

    def _kind_of(self, name):
        return next((p["kind"] for p in self.net.peers() if p["name"] == name), None)

    def connected(self, name, incarnation):
        """There is an open connection with that incarnation."""
        return self.net is not None and not self.net.closed and any(
            p["name"] == name and p["incarnation"] == incarnation and p["state"] == "open"
            for p in self.net.peers())

    def serve(self, graph, plan):
        """Peers may run the plan by that number."""
        if self.net is not None:
            self.net.serve(graph, plan)

    def unserve(self, graph):
        """No more."""
        if self.net is not None:
            self.net.unserve(graph)

    def close(self):
        """Ends all connections."""
        if self.net is not None:
            self.net.close()
