"""A master: sessions whose graphs lie on many tasks.

    compile   cluster_compiler.py: nodes placed on all tasks' devices, a partition per task, each
              registered once with its worker
    step      cluster_step.py: every partition begun under one key, results put together
    session   session_link.py: the workers in use, clean-up, signs of life

Invariant: a server has one Place, its sessions' (session/targets.py), and one Tasks, which all of
them share.

Threads: any.  Callers: server.py, master_service.py.
"""
import dataclasses
import logging
import threading
import time

from pyflow.distributed.run import cluster_compiler, session_link
from pyflow.framework import protos
from pyflow.session import contract, runtime, targets

_log = logging.getLogger("pyflow")


class Tasks:
    """The workers of a cluster, as one of its tasks sees them.

    worker: the own Worker; addresses: {task: "host:port"}; connect(task, address) -> a worker."""

    def __init__(self, worker, addresses, connect):
        self.own, self.addresses, self._connect = worker, addresses, connect
        self.channels = None            # the server's to set
        self._lock, self._found = threading.Lock(), {worker.name: worker}

    def names(self):
        """All tasks, the own one first."""
        return [self.own.name, *(t for t in self.addresses if t != self.own.name)]

    def get(self, task):
        """The Worker or RemoteWorker of a task."""
        with self._lock:
            found = self._found.get(task)
            if found is None:
                found = self._found[task] = self._connect(task, self.addresses[task])
            return found

    def forget(self, task, worker):
        """It was lost: the next session asks anew."""
        with self._lock:
            if self._found.get(task) is worker and worker is not self.own:
                del self._found[task]
                if not worker.local:
                    worker.close()

    def move(self, addresses):
        """The cluster's tasks and where they listen, from now on, the own one apart. Of those that
        are gone or elsewhere, sessions that use them hear UNAVAILABLE: at once where a task is
        elsewhere, over a link once that is lost where it has gone; new ones ask anew."""
        with self._lock:
            addresses = {**addresses, self.own.name: self.addresses[self.own.name]}
            moved = [t for t in self._found
                     if t != self.own.name and addresses.get(t) != self.addresses.get(t)]
            gone, self.addresses = [self._found.pop(t) for t in moved], addresses
        for worker in gone:
            if not worker.local:
                worker.close()
                if worker.name in addresses:
                    worker.cut(f"{worker.name} listens at {addresses[worker.name]} now")

    def woken(self, task):
        """It has just begun to listen: who waits for it asks again at once."""
        with self._lock:
            found = self._found.get(task)
        if found is not None and not found.local:
            found.wake()

    def has_answered(self, task, incarnation):
        """A call to that incarnation of a task was answered."""
        with self._lock:
            found = self._found.get(task)
        return found is not None and not found.local and found.has_answered(incarnation)

    def known(self):
        """The workers asked for so far."""
        with self._lock:
            return list(self._found.values())


class Place(contract.Place):
    """Sessions of a server (session/targets.py).  tasks: a Tasks.

    renames: {(job, task): (job, task)}, which task is meant where a graph asks for one; hidden:
    those that sessions do not speak to; patience: seconds for a task to be there, None: as long as
    it takes."""

    def __init__(self, tasks, renames=None, hidden=(), patience=None):
        self._tasks = tasks
        self.sessions = set()           # those that are open
        self.of_cluster = None          # function(ClusterDef, ms) -> the Place of it
        self.renames, self.hidden, self.patience = renames or {}, frozenset(hidden), patience

    def renamed(self, renames, hidden=(), patience=None):
        """Another Place for sessions of the same server, which looks after them too."""
        found = Place(self._tasks, renames, hidden, patience)
        found.sessions = self.sessions
        return found

    def open(self, options):
        """The session's Opened; in the cluster that its config says, if it says one."""
        cluster = getattr(options.config, "cluster_def", None)
        if cluster is not None and cluster.job and self.of_cluster is not None:
            if not options.config.experimental.share_session_state_in_clusterspec_propagation:
                config = protos.ConfigProto()
                config.CopyFrom(options.config)
                config.isolate_session_state = True         # TF: SessionMgr::CreateSession
                options = dataclasses.replace(options, config=config)
            return self.of_cluster(cluster, options.timeout_ms)._open(options)
        return self._open(options)

    def _open(self, options):
        config = _merged(options.config, self._tasks.own.config)
        link = session_link.SessionLink(self, self._tasks, config)
        try:
            runtime.start()
            if options.on_lost is not None:
                link.on_lost = options.on_lost
            made = targets.Made(options, config)
            compiler = cluster_compiler.Compiler(
                link, options.graph, made.pool, config, made.options, made.rewrites, options.costs)
        except BaseException:
            link.close()
            raise
        return contract.Opened(link, made.pools, compiler, link.timeout_ms)

    def failed(self, number, step, failure):
        """A task says that a step of a session failed there, or that it lost what it was sent."""
        for link in list(self.sessions):
            if link.number == number:
                link.failed(step, failure)

    def reset(self, containers, timeout=None):
        """Forgets named containers of all tasks that answer, all state for [], and ends the
        sessions that are open here: who uses them hears ABORTED, as after a restart.  timeout:
        seconds in which tasks have to answer."""
        until = None if timeout is None else time.monotonic() + timeout
        for link in list(self.sessions):
            link.lose("its server's containers were reset")
        failed = []
        for task in self._tasks.names():
            try:
                self._tasks.get(task).reset(
                    containers, None if until is None else max(0.01, until - time.monotonic()))
            except runtime.executor().StepError as problem:
                failed.append(f"{task}: {problem.message}")
        if failed:
            _log.warning("containers were not reset at %s", "; ".join(failed))


def _merged(config, server):
    """A session's ConfigProto, with what its server's own says, which counts (TF:
    GrpcServer::Init)."""
    if server is None or not server.ByteSize():
        return config
    found = protos.ConfigProto()
    if config is not None:
        found.CopyFrom(config)
    found.MergeFrom(server)
    if config is not None and config.operation_timeout_in_ms:     # TF: LocalMaster::RunStep
        found.operation_timeout_in_ms = config.operation_timeout_in_ms
    return found
