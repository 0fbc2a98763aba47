"""A session over many tasks: its number, the workers it is open at, its steps, and their state
(contract.State).

Invariants
1. A worker is asked to open the session when a plan first needs it, once.
2. A step that is over is heard of by its workers with their next call, or a little later (`flush`).

Threads: any; `_lock` guards the tables, no worker is called with it held.  Callers: master.py,
cluster_compiler.py, cluster_step.py.
"""
import itertools
import os
import sys
import threading
import weakref

from pyflow.distributed.look import asking, edges
from pyflow.distributed.run import worker_service
from pyflow.distributed.wire import messages, tensors
from pyflow.framework import errors
from pyflow.framework.device import DeviceSpec, parsed
from pyflow.session import contract, runtime


class SessionLink(contract.State):
    """One session: its number, its tasks, and their state."""

    def __init__(self, place, tasks, config):
        self.timeout_ms = max(0, int(getattr(config, "operation_timeout_in_ms", 0)))
        self._patience = self.timeout_ms / 1000 if self.timeout_ms else place.patience
        self.renames, self._hidden = place.renames, place.hidden
        self.number = int.from_bytes(os.urandom(8), "little") or 1
        self.tasks, self._place = tasks, place
        self.isolate = bool(getattr(config, "isolate_session_state", False))
        self._filters = [parsed(f) for f in getattr(config, "device_filters", ())]
        self._opened, self._lock = {}, threading.Lock()
        self._steps = itertools.count(1)
        self._running, self._to_clean, self._closed = set(), {}, False
        self._graph, self._origins = lambda: None, {}   # weak: this is in a table of the task's
        self._edges = {}                            # of its plans
        self.client = ""                # who has it, in words, where that is another process
        self.on_lost = lambda: None     # returns who is to hear why it was lost, or None
        self._dropped = []                          # [(worker, number of a graph)]
        tasks.own.open_session(self.number, self.isolate)
        self.state = tasks.own.session_state(self.number)       # at the own task
        self._opened[tasks.own.name] = tasks.own
        place.sessions.add(self)

    # ------------------------------------------------------------ tasks

    def visible(self):
        """The tasks that the session's device_filters leave it, the own one first."""
        return [t for t in self.tasks.names()
                if t == self.tasks.own.name or self._allowed(DeviceSpec.from_string(t))]

    def _allowed(self, task):
        if (task.job, task.task) in self._hidden:
            return False
        return not self._filters or any(
            f.job in (None, task.job) and f.replica in (None, task.replica)
            and f.task in (None, task.task) for f in self._filters)

    def worker(self, task):
        """The worker of a task, with this session open there.  Raises StepError."""
        with self._lock:
            found = self._opened.get(task)
        if found is None:
            try:
                found = self._open(task)
            except runtime.executor().StepError as failure:
                if failure.code != errors.ABORTED:
                    raise
                found = self._open(task)            # it was restarted since another session asked
            with self._lock:
                found = self._opened.setdefault(task, found)
        return found

    def _open(self, task):
        found = self.tasks.get(task)
        try:
            found.open_session(self.number, self.isolate, self.tasks.own.name,
                               self.tasks.own.lease, self._patience, lambda: self._closed)
        except runtime.executor().StepError:
            self.tasks.forget(task, found)
            raise
        return found

    def workers(self):
        """Those in use."""
        with self._lock:
            return list(self._opened.values())

    # ------------------------------------------------------------ what is known of it

    def remember(self, graph, origins, table):
        """A plan of this graph was made; origins: {node that a pass made: Operation it serves};
        table: of its edges (edges.py)."""
        with self._lock:
            if self._graph() is not graph:
                self._graph, self._origins, self._edges = weakref.ref(graph), {}, {}
            self._edges.update(table)
            self._origins.update((name, weakref.ref(op)) for name, op in origins.items())

    def graphs(self):
        """[(Graph, origins)] of what runs here."""
        with self._lock:
            graph = self._graph()
            return [] if graph is None else [
                (graph, {name: op() for name, op in self._origins.items()})]

    def edge_of(self, key):
        """The edges.Found of a key of its steps, or None."""
        with self._lock:
            return edges.of_key(self._edges, key)

    def edges_at(self, names):
        """{node: edges.Found} of those of the nodes that send or receive."""
        with self._lock:
            return edges.of_ends(self._edges, names)

    def running(self):
        """The steps that are not over."""
        with self._lock:
            return list(self._running)

    def asker(self, patience):
        """An asking.Asker for the tasks that the session sees."""
        own = self.tasks.own
        addresses = {t: self.tasks.addresses.get(t, "") for t in self.visible()}
        return asking.Asker(addresses, self.tasks.channels,
                          {own.name: worker_service.WorkerService(own)}, patience)

    # ------------------------------------------------------------ steps

    def next_step(self):
        """The number of a step: never used twice in a session."""
        return next(self._steps)

    def begun(self, step):
        with self._lock:
            self._running.add(step)
            closed = self._closed
        if closed:
            step.cancel("the session was closed")

    def failed(self, number, failure):
        """A task says so of the step of that number, or that it has lost one that may have had part
        in it."""
        with self._lock:
            found = [step for step in self._running if step.number == number]
        for step in found:
            if not failure.task or failure.task in [task for task, _, _ in step.parts()]:
                step.fail_elsewhere(failure)

    def over(self, step, number, workers, at_once=False):
        """A step is over everywhere, or given up: what it left behind is to go, with the next call
        of each worker or at once."""
        with self._lock:
            self._running.discard(step)
        for worker in workers:
            if worker.local or at_once:
                worker.clean(self.number, [number])
            else:
                with self._lock:
                    self._to_clean.setdefault(worker, []).append(number)

    def take_cleaning(self, worker):
        """The steps whose end a worker has not heard of."""
        if worker not in self._to_clean:
            return ()
        with self._lock:
            return self._to_clean.pop(worker, ())

    def flush(self):
        """Tells workers of steps that are over, and that the session lives."""
        for worker in self.workers():
            if not worker.local:
                steps = self.take_cleaning(worker)
                if steps:
                    worker.clean(self.number, steps)
            if worker is not self.tasks.own:
                worker.touch([self.number])

    def deregister_dropped(self):
        """Tells workers of plans that are not needed any more; one that does not answer forgets
        them with the session."""
        with self._lock:
            dropped, self._dropped = self._dropped, []
        for worker, graph in dropped:
            worker.deregister(self.number, [graph])

    def drop(self, worker, graph):
        """A plan is not needed any more: its worker hears so, not from this thread."""
        self._dropped.append((worker, graph))

    # ------------------------------------------------------------ what Session asks of its state

    def cancel(self, why="cancelled"):
        """Ends every step that runs, now and from now on."""
        with self._lock:
            self._closed, running = True, list(self._running)
        for step in running:
            step.cancel(why)
        self.state.cancel(why)
        return len(running)

    def lose(self, why):
        """Ends it although its client did not ask for that."""
        hear = self.on_lost()
        self.cancel(why)
        if hear is not None:
            hear(f"Session {self.number:016x} is not found: {why}")

    def close(self):
        """Closes the session at every task."""
        self._place.sessions.discard(self)
        for worker in self.workers():
            worker.close_session(self.number)
        with self._lock:
            self._to_clean.clear()

    def abandon(self):
        """Ends the session on another thread, for finalisers run within anything; its leases end it
        where no thread begins any more."""
        if sys.is_finalizing():
            return
        threading.Thread(target=self._end, name="pyflow-close", daemon=True).start()

    def _end(self):
        self.cancel("the session was closed")
        self.close()

    def streams(self):
        """As State.streams, of all tasks in use."""
        found = [self.state.streams()]
        for worker in self._others():
            found.append(self._ask(worker).streams)
        return found[0] + b"".join(data[8:] for data in found[1:])

    def set_streams(self, data):
        """As State.set_streams, of all tasks in use."""
        self.state.set_streams(data)
        for worker in self._others():
            self._ask(worker, streams=data, set=True)

    def seek(self, position, shard=0, everywhere=False):
        """As State.seek of the own task; everywhere: of all tasks in use."""
        self.tasks.own.session_state(self.number).seek(position, shard)
        for worker in self._others() if everywhere else ():
            self._ask(worker, seek=True, position=position, shard=shard)

    def kept(self, name):
        """As State.kept, wherever it is."""
        found = self.state.kept(name)
        for worker in self._others():
            if found is None:
                reply = self._ask(worker, kept=name)
                if reply.found:
                    found = runtime.executor().Kept.of(tensors.decode(reply.kept), reply.kept.dtype)
        return found

    def forget(self, name):
        """As State.forget, wherever it is."""
        if self.state.forget(name):
            return True
        return any([self._ask(worker, forget=[name]).found for worker in self._others()])

    def _others(self):
        return [w for w in self.workers() if w is not self.tasks.own]

    def _ask(self, worker, **request):
        return worker.state_of(messages.StateRequest(session=self.number, **request))
