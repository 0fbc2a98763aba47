"""Tasks that speak to this one over gRPC alone: whether they still can.

Who calls pings, by gRPC's keep-alive, and finds a frozen or cut-off server within its lease. A
server does not, for its clients may be stopped for a while (rpc.py). So a task that is called by
another one over gRPC, for want of another link, calls it back:

    seen [look: the net has a grpc connection with it] -> followed [its Follow has answered]
         -> given up [that broke: the net's connection with it is cut] or forgotten [look]

Invariants
1. Only a call that was answered once says by its end that a task is lost: who cannot be called back
   is not given up for that.
2. Clients are no tasks of the cluster, and are not called.

Threads: `look` is the server's beat's; a task that is followed has one.

    watch = Watch(worker, lambda: {"/job:ps/replica:0/task:0": "localhost:2222"}, channels)
    watch.look()
"""
import threading

from pyflow.distributed.wire import messages, rpc, services
from pyflow.framework import errors


class Watch:
    """Of one server.  addresses(): {task: "host:port"}; channels: a Channels."""

    def __init__(self, worker, addresses, channels):
        self._worker, self._addresses, self._channels = worker, addresses, channels
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
        answered = False
        try:
            for _ in call:
                answered = True
        except Exception as problem:
            code = getattr(problem, "code", lambda: None)()
            if answered and code is not None and code.value[0] == errors.UNAVAILABLE:
                self._worker.links.net.disconnect(
                    key[0], f"{key[0]} does not answer pings", key[1])
            if not answered:
                return                  # it cannot be called back: this once is enough
        with self._lock:
            if self._followed.get(key) is call:
                del self._followed[key]
