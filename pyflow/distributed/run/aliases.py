"""Sessions that bring their cluster along (ConfigProto.cluster_def): servers under other names.

    a session with a cluster_def at a server -> each task of it is asked to Become what it is called
    there -> a server in the same process, with a port of its own

Invariants
1. A server has one alias a name and cluster, and at most MOST; they end with it.
2. A session with a cluster_def has variables of its own, unless its config's experimental
   share_session_state_in_clusterspec_propagation says that those of one cluster share them.
3. An alias listens where its server does, under the same rules (security.py).

Threads: any; `_lock` guards the table.  Caller: server.py.
Source: TF 1.15, distributed_runtime/session_mgr.cc (ClusterSpec propagation).

    config = tf.ConfigProto(cluster_def=tf.train.ClusterSpec({"worker": [a, b]}).as_cluster_def())
    with tf.Session("grpc://" + a, config=config) as sess: ...      # /job:worker/task:1 is b's
"""
import hashlib
import threading

from pyflow.distributed.wire import messages, rpc, security, services
from pyflow.framework import errors
from pyflow.framework.device import DeviceSpec
from pyflow.session import runtime
from pyflow.train import cluster_spec

MOST = 16


def cluster_of(addresses):
    """The ClusterSpec of {task's name: "host:port"}."""
    jobs = {}
    for task, address in addresses.items():
        spec = DeviceSpec.from_string(task)
        jobs.setdefault(spec.job, {})[spec.task] = address
    return cluster_spec.ClusterSpec(jobs)


class Aliases:
    """Of one server.  make(task, address): a Server of that name."""

    def __init__(self, server, make):
        self._server, self._make = server, make
        self._lock, self._made = threading.Lock(), {}

    def place(self, cluster, timeout_ms):
        """The master.Place of this server's task in a ClusterDef.  Raises tf.errors exceptions."""
        asked = {f"/job:{job.name}/replica:0/task:{number}": security.bare(address)
                 for job in cluster.job for number, address in sorted(job.tasks.items())}
        own = self._own(asked)
        which = hashlib.sha256(repr(sorted(asked.items())).encode()).hexdigest()
        there = {task: self._ask(task, which, address, timeout_ms)
                 for task, address in asked.items() if task != own}
        alias = self._alias(own, which)
        there[own] = alias.address
        alias.update_cluster(cluster_of(there))
        return alias._place

    def become(self, task, which):
        """The RouteMessage of this server under that name, in that cluster."""
        if not task.startswith("/job:") or len(task) > 100:
            raise errors.InvalidArgumentError(None, None, f"{task[:100]!r} is no task's name")
        spec = DeviceSpec.from_string(task)
        if None in (spec.job, spec.task) or len(which) > 100:
            raise errors.InvalidArgumentError(None, None, f"{task!r} is no task's name")
        alias = self._alias(task, which)
        return messages.RouteMessage(task=task, address=alias.address)

    def _own(self, asked):
        """The name that a cluster has for this server."""
        own = _place_of(self._server.address)
        for task, address in asked.items():
            if _place_of(address) == own:
                return task
        raise errors.InvalidArgumentError(None, None, (
            f"cluster_def has no task at {self._server.address}, where the session's server "
            f"listens: it has {', '.join(f'{t} at {a}' for t, a in asked.items())[:1000]}"))

    def _ask(self, task, which, address, timeout_ms):
        """The address of another server's under that name."""
        stub = rpc.Stub(self._server._channels.get(address), "WorkerService",
                        {"Become": services.WORKER["Become"]})
        try:
            return stub.Become(messages.RouteMessage(task=task, kind=which), wait_for_ready=True,
                               timeout=timeout_ms / 1000 if timeout_ms else None).address
        except Exception as problem:
            if not hasattr(problem, "trailing_metadata"):
                raise
            raise rpc.of_call(problem, "Become", task, address,
                              runtime.executor().StepError) from None

    def _alias(self, task, which):
        with self._lock:
            found = self._made.get((task, which))
            if found is None:
                if len(self._made) >= MOST:
                    raise errors.ResourceExhaustedError(
                        None, None, f"{self._server!r} has {MOST} other names already")
                address = self._server.address
                address = f"{address}.{len(self._made) + 1}" if address.startswith("unix") else \
                    f"{address.rpartition(':')[0]}:0"
                found = self._made[task, which] = self._make(task, address)
            return found

    def stop(self):
        """Ends them."""
        with self._lock:
            made = list(self._made.values())
        for server in made:
            server.stop()


def _place_of(address):
    """(host, port) or a UNIX socket's name, equal for the ways to write loopback."""
    if address.startswith("unix"):
        return address
    host, port = security.host_and_port(address)
    return ("localhost" if security.is_loopback(address) else host), port
