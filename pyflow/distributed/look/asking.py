"""A cluster seen from outside: one address is known, that server knows the others, all are asked.

    cluster = asking.Cluster("localhost:2222")
    cluster.statuses()      # {task: GetStatusResponse, or the Silent that says why there is none}
    cluster.waits()         # {task: WaitsResponse or Silent}, for why.py

Invariants
1. Who does not answer costs `patience` seconds in all, however many they are: tasks are asked side
   by side.
2. A task that does not answer is told from one that has nothing to say: it is a Silent.

Threads: any; each question has threads of its own.
"""
import time
from concurrent import futures
from typing import NamedTuple

from pyflow.distributed.look import probe
from pyflow.distributed.wire import messages, rpc, services, task_names
from pyflow.distributed.wire.channels import Channels
from pyflow.framework import errors, protos

PATIENCE = 2.0                          # seconds for a task to answer


class Silent(NamedTuple):
    """A task that did not answer, and why."""

    task: str
    address: str
    reason: str


class Unreachable(Exception):
    """The address that was given does not answer; the message says why."""


class Asker:
    """Asks tasks at their addresses, side by side.

    addresses: {task: "host:port"}; channels: a Channels; here: {task: implementation
    of services.WORKER in this process}, asked without a connection."""

    def __init__(self, addresses, channels, here=None, patience=PATIENCE):
        self.addresses, self._channels = dict(addresses), channels
        self._here, self.patience = here or {}, patience

    def ask(self, task, call, request):
        """One task's reply, or its Silent."""
        if task in self._here:
            try:
                return getattr(self._here[task], call)(request, None)
            except Exception as problem:
                return Silent(task, self.addresses.get(task, ""), str(problem))
        address = self.addresses[task]
        stub = rpc.Stub(self._channels.get(address), "WorkerService", {call: services.WORKER[call]})
        try:
            reply = getattr(stub, call)(request, timeout=self.patience)
        except Exception as problem:
            if not hasattr(problem, "trailing_metadata"):
                raise
            return Silent(task, address, self._why(problem, task, address))
        if task and getattr(reply, "task", task) not in ("", task):
            return Silent(task, address, f"at {address} listens {reply.task}: the cluster's "
                          "addresses are wrong")
        return reply

    def _why(self, problem, task, address):
        if problem.trailing_metadata() and any(key == "pyflow-error-bin"
                                               for key, _ in problem.trailing_metadata()):
            return f"it answers with an error: {problem.details()}"
        code = problem.code().value[0] if problem.code() is not None else errors.UNKNOWN
        if code in (errors.UNAVAILABLE, errors.DEADLINE_EXCEEDED):
            return probe.reason(address, min(0.5, self.patience), self._channels.credentials)
        return problem.details() or problem.code().name

    def ask_all(self, call, request, tasks=None):
        """{task: reply or Silent} of all tasks; request: a message, or {task: message}."""
        tasks = list(self.addresses if tasks is None else tasks)
        if not tasks:
            return {}
        of = request if isinstance(request, dict) else dict.fromkeys(tasks, request)
        with futures.ThreadPoolExecutor(len(tasks), "pyflow-look") as pool:
            asked = {task: pool.submit(self.ask, task, call, of[task]) for task in tasks}
            return {task: future.result() for task, future in asked.items()}


class Cluster:
    """The cluster of the server at `address`.  credentials: security.Credentials, or None.

    Raises Unreachable if nobody answers there."""

    def __init__(self, address, credentials=None, patience=PATIENCE):
        self._channels = Channels(credentials)
        self.address = address.partition("://")[2] or address
        first = Asker({"": self.address}, self._channels, patience=patience)
        reply = first.ask("", "GetStatus", messages.GetStatusRequest())
        if isinstance(reply, Silent):
            reply = self._another_look(first, reply)
        if isinstance(reply, Silent):
            self._channels.close()
            raise Unreachable(f"{self.address} does not answer: {reply.reason}")
        self.task = reply.task
        self.asker = Asker({**addresses_of(reply.cluster_def), reply.task: self.address},
                           self._channels, patience=patience)

    def _another_look(self, first, reply):
        time.sleep(0.2)
        again = first.ask("", "GetStatus", messages.GetStatusRequest())
        return again if not isinstance(again, Silent) else reply

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the connections."""
        self._channels.close()

    @property
    def tasks(self):
        """The names of all tasks, in order."""
        return sorted(self.asker.addresses, key=task_names.order)

    def statuses(self):
        """{task: GetStatusResponse or Silent}, in order."""
        return self._in_order(self.asker.ask_all("GetStatus", messages.GetStatusRequest()))

    def waits(self):
        """{task: WaitsResponse or Silent}, in order."""
        return self._in_order(self.asker.ask_all("GetWaits", messages.WaitsRequest()))

    def bye(self, why=""):
        """Tells every task that the job is over; {task: Empty or Silent}."""
        return self._in_order(self.asker.ask_all("Bye", messages.ByeRequest(why=why)))

    def _in_order(self, found):
        return {task: found[task] for task in self.tasks}


def addresses_of(cluster_def):
    """{task: "host:port"} of a ClusterDef's bytes."""
    cluster = protos.ClusterDef.FromString(cluster_def)
    return {f"/job:{job.name}/replica:0/task:{number}": address
            for job in cluster.job for number, address in job.tasks.items()}
