"""Tasks that speak to this one over gRPC alone: whether they still can.

Who calls pings, by gRPC's keep-alive, and finds a frozen or cut-off server within its lease. A
server does not, for its clients may be stopped for a while (rpc.py). So a task that is called by
another one over gRPC, for want of another link, calls it back:

    seen [look: the net has a grpc connection with it] -> followed [its Follow has answered]
         -> given up [that broke: the net's connection with it is cut] or forgotten [look]

Invariants
1. Only a call that was answered once says by its end that a task is lost, or one to a task that has
   answered another call before: who cannot be called back is not given up for that.
2. Clients are no tasks of the cluster, and are not called.

Threads: `look` is the server's beat's; a task that is followed has one.

    watch = Watch(worker, lambda: {"/job:ps/replica:0/task:0": "localhost:2222"}, channels)
    watch.look()
"""
import threading
import time

from pyflow.distributed.wire import links, messages, rpc, services
from pyflow.framework import errors

AGAIN = 0.1                     # seconds between calls of a task whose channel has broken,
SOON = 0.5                      # which is what ends them within so many


class Watch:
    """Of one server.  addresses(): {task: "host:port"}; channels: a Channels; has_answered(task,
    incarnation): whether a call to it was answered, ever."""

    def __init__(self, worker, addresses, channels, has_answered=lambda task, incarnation: False):
        self._worker, self._addresses, self._channels = worker, addresses, channels
        self._has_answered = has_answered
        self._lock, self._followed = threading.Lock(), {}   # (task, incarnation): its call

    def look(self):
        """Follows the tasks that came, and forgets those that went."""
        addresses, net = self._addresses(), self._worker.links.net
        there = {(p["name"], p["incarnation"]) for p in net.peers()
                 if p["kind"] == "grpc" and p["state"] == "open" and p["name"] in addresses}
        with self._lock:
            gone = [self._followed.pop(key) for key in [*self._followed] if key not in there]
            new = [key for key in there if key not in self._followed]
            for key in new:
                self._followed[key] = self._call(addresses[key[0]])
        for call in gone:
            call.cancel()
        for key in new:
            threading.Thread(target=self._follow, args=(key, self._followed[key]),
                             name="pyflow-watch", daemon=True).start()

    def _call(self, address):
        stub = rpc.Stub(self._channels.get(address), "WorkerService",
                        {"Follow": services.WORKER["Follow"]})
        return stub.Follow(messages.Empty())

    def _follow(self, key, call):
        began = asked = time.monotonic()
        answered, lost = _end_of(call)
        is_there = answered or self._has_answered(*key)
        while (lost and not answered and is_there and time.monotonic() - asked < SOON
               and time.monotonic() - began < links.LEASE):
            time.sleep(AGAIN)           # so soon: its channel had broken before, with an older link
            asked = time.monotonic()
            with self._lock:
                if self._followed.get(key) is not call or key[0] not in self._addresses():
                    return
                call = self._followed[key] = self._call(self._addresses()[key[0]])
            answered, lost = _end_of(call)
        if lost and is_there:
            self._worker.links.net.disconnect(key[0], f"{key[0]} does not answer pings", key[1])
        elif not answered:
            return                      # it cannot be called back: this once is enough
        with self._lock:
            if self._followed.get(key) is call:
                del self._followed[key]


def _end_of(call):
    """(whether it was answered, whether its end says that nobody is there)."""
    answered = False
    try:
        for _ in call:
            answered = True
    except Exception as problem:
        code = getattr(problem, "code", lambda: None)()
        return answered, code is not None and code.value[0] == errors.UNAVAILABLE
    return answered, False
