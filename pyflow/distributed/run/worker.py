"""A worker: one task's plans and steps, for whoever is master of a session.

    register  bytes of a partition -> a plan, with a number
    start     a step of a plan, by the key (session, step); `done(Started)` when it is over
    clean     what a step left behind goes

Variables and what has a shared name are the server's: all sessions see them, but those that were
opened with `isolate`.  Random streams, and queues and the like that nobody named, are a session's.
tensors.py and worker_service.py carry all this over gRPC; a master in the same process calls it as
it is.

Invariants
1. A number names one plan as long as the worker lives; a worker that was restarted has another
   incarnation, and what was meant for its forerunner is ABORTED.
2. A session's plans and steps go with it.  What a master left is closed when its lease is over, or
   when its successor comes, of a later epoch.  A master has left if there is no connection with it,
   or it said nothing of the session for rpc.SILENCE seconds.
3. What was delivered twice is done once: `once` of a session, by step and graph or by call.

Threads: any.  `_lock` guards the tables; nothing is compiled or called with it held.

    worker = Worker("/job:worker/replica:0/task:0")
    worker.open_session(7)
    number = worker.register(7, graph_bytes, {}, {})
    worker.start(number, [], done=print, key=(7, 1))
"""
import dataclasses
import hashlib
import itertools
import logging
import os
import socket
import threading
import time

import pyflow
from pyflow import plugins
from pyflow.distributed.look import clocks, tracing
from pyflow.distributed.run import epochs, session_state
from pyflow.distributed.wire import messages, once, rpc
from pyflow.framework import errors
from pyflow.framework import op as op_lib
from pyflow.framework.device import DeviceSpec
from pyflow.passes.place_kernels import KernelTable
from pyflow.session import contract, runtime
from pyflow.session import devices as devices_lib
from pyflow.session import threads as threads_lib

MAX_TASKS, MAX_NAME = 100000, 1000      # whose fences are remembered
BRIEF = 500e-6                          # seconds: such a step runs where it is begun, as far as it can
MAX_PAST = 1000                         # sessions that are known when they are over
MAX_LEASE = 3600.0                      # seconds, whatever a master asks for
PROCESS = os.urandom(16)                # of this process: a py_func's function is in one alone
_log = logging.getLogger("pyflow.distributed")
os.register_at_fork(after_in_child=lambda: globals().update(PROCESS=os.urandom(16)))


class Session:
    """A session as one worker sees it."""

    __slots__ = ("number", "state", "graphs", "master", "lease", "seen", "steps",
                 "fence", "once")

    def __init__(self, number, state, master, lease, fence, task):
        self.number, self.state, self.fence, self.once = number, state, fence, once.Once(task=task)
        self.graphs, self.steps = {}, {}        # {its number: tasks that it sends to}, ...
        self.master, self.lease, self.seen = master, lease, time.monotonic()


class Worker(contract.Worker):
    """The plans and steps of the task `name`.  config: a ConfigProto, or None.

    address: where the server listens; routes: its routes.Routes; links: its links.Links; all are the
    server's to set."""

    local, link = True, None

    def __init__(self, name, config=None, threads=None, epoch=0):
        executor = runtime.start()
        runtime.declare_ops()
        self.name, self.config, self.epoch = name, config, epoch
        self.task = executor.Task(name)
        self.state = executor.State("server", self.task)
        self._usual = contract.RunOptions(task=self.task)       # of its steps
        self.threads = threads_lib.choose(threads, config)
        self.pool = devices_lib.Pools(config, self.threads, private=True).get(0)
        self.address, self.lease, self.routes, self.links = "", 10.0, None, None
        self.cluster_def, self.timeouts, self.place = b"", (), None     # the server's to set
        self.on_ready, self.on_bye = None, lambda why: None
        self.on_become = None           # function(task, cluster) -> RouteMessage, the server's
        self.on_reshard = None          # function(ReshardRequest), of who moves parameters
        self.layout = None              # a LayoutMessage, of who says where parameters are
        self.tracer = tracing.Tracer()
        self._executor = executor
        self._lock = threading.Lock()
        self._sessions, self._graphs = {}, {}
        self._seconds = {}                      # of late, a step of each graph
        self._fences = epochs.Fences()
        self._past = {}                         # sessions that were closed of late: their masters
        self._numbers = itertools.count(1)
        self._kernels, self._stopped = None, False

    @property
    def incarnation(self):
        """64 random bits: another server, even of the same name and address, has others."""
        return self.task.incarnation

    def __repr__(self):
        return f"<Worker {self.name} {self.incarnation:016x}>"

    # ------------------------------------------------------------ what it is

    def devices(self):
        """The passes' Device of each device of the process, under this task's name."""
        return devices_lib.open_devices(self._executor, self.config, self.task)

    def kernel_table(self):
        """The KernelTable of the process."""
        return self._known_kernels()[1]

    def kernel_rows(self):
        """[(op, device type, where)] of all kernels, in order."""
        return sorted((k["op"], k["device"], k.get("where", "") or "")
                      for k in self._executor.kernels())

    def kernels_digest(self):
        """Equal for workers with the same kernels."""
        return self._known_kernels()[2]

    def _known_kernels(self):
        """(number of plugins, KernelTable, digest): kernels come with plugins alone, and listing
        them takes milliseconds."""
        count = len(plugins.load_all())
        if self._kernels is None or self._kernels[0] != count:
            text = "\n".join("\t".join(row) for row in self.kernel_rows())
            self._kernels = (count, KernelTable(self._executor.kernels()),
                             hashlib.sha256(text.encode()).digest())
        return self._kernels

    def status(self, kernels=False):
        """A GetStatusResponse."""
        counts = self.task.counts()
        devices = self.devices()
        with self._lock:
            sessions, graphs = len(self._sessions), len(self._graphs)
            running = sum(len(session.steps) for session in self._sessions.values())
        if self.links is not None:
            running += sum(peer["serving"] for peer in self.links.net.peers())
        found = messages.GetStatusResponse(
            task=self.name, incarnation=self.incarnation, kernels_digest=self.kernels_digest(),
            process=PROCESS, epoch=self.epoch, steps_open=counts["open"],
            steps_early=counts["early"], early_bytes=counts["early_bytes"], sessions=sessions,
            graphs=graphs, clock_ns=time.time_ns(), steps_done=counts["ended"],
            address=self.address, pid=os.getpid(), lease=self.lease, host=socket.gethostname(),
            version=pyflow.pyflow_version, cluster_def=self.cluster_def,
            steps_running=running, boot=clocks.boot(),
            link=self.links.offers if self.links is not None else ())
        if self.layout is not None:
            found.layout.CopyFrom(self.layout)
        for name, seconds, what in self.timeouts:
            found.timeout.add(name=name, seconds=seconds, what=what)
        for task, kind, address in self.routes.table() if self.routes is not None else ():
            found.route.add(task=task, kind=kind, address=address)
        for device in devices_lib.list_devices(self._executor, devices):
            shown = next(d for d in devices.all if d.name == device.name)
            found.device.add(name=device.name, priority=shown.priority,
                             memory_limit=device.memory_limit_bytes, core_name=shown.core_name)
        for plugin in plugins.load_all():
            if not plugin.problem:
                found.plugin.add(id=plugin.id, version=plugin.version)
        if kernels:
            for op, device, where in self.kernel_rows():
                found.kernel.add(op=op, device=device, where=where)
        return found

    # ------------------------------------------------------------ sessions

    def admit(self, task, fence):
        """Hears of a task's Fence: the sessions of those that it replaces are closed.  Raises
        StaleEpochError for what was replaced itself."""
        if fence is None or not fence.incarnation:
            return
        epochs.checked_epoch(fence.epoch)
        if len(task) > MAX_NAME or len(self._fences) > MAX_TASKS:
            raise errors.ResourceExhaustedError(
                None, None, f"{self.name} was told of {len(self._fences)} tasks: more, or longer "
                "names, are not taken")
        if not self._fences.admit(task, fence):
            return
        with self._lock:
            gone = [s for s in self._sessions.values()
                    if s.master == task and s.fence is not None and s.fence != fence]
        for session in gone:
            why = (f"{task} of {_said(session.fence)} was replaced by {_said(fence)}: the old "
                   "process must end")
            _log.warning("refused: session %016x is closed at %s: %s", session.number, self.name,
                         why)
            self.close_session(session.number, why)

    def open_session(self, number, isolate=False, master="", lease=0.0, patience=None,
                     given_up=None, fence=None):
        """As contract.Worker.open_session, without a wait.  fence: the master's epochs.Fence."""
        self.admit(master, fence)
        with self._lock:
            self._require_running()
            found = self._sessions.get(number)
            if found is None:
                state = self._executor.State(f"session_{number:x}", self.task,
                                             None if isolate else self.state)
                found = self._sessions[number] = Session(
                    number, state, master, min(lease or self.lease, MAX_LEASE), fence, self.name)
            found.seen = time.monotonic()

    def close_session(self, number, why="the session was closed", code=errors.CANCELLED):
        """Ends a session: its steps fail with this code, its plans go; twice is once."""
        with self._lock:
            found = self._sessions.pop(number, None)
            if found is not None:
                self._past[number] = found.master
                if len(self._past) > MAX_PAST:
                    del self._past[next(iter(self._past))]
            for graph in found.graphs if found is not None else ():
                self._forget(graph)
        if found is None:
            return
        found.state.cancel(why, code)
        for started in list(found.steps.values()):
            started.cancel()
        self.task.clean(number)
        found.state.close()

    def close_sessions(self, why):
        """Ends all sessions; variables stay."""
        for number in self.sessions():
            self.close_session(number, why)

    def sessions(self):
        """The numbers of the sessions that are open."""
        with self._lock:
            return list(self._sessions)

    def masters(self):
        """[(session's number, its master's task)] of those that are open, and of late were."""
        with self._lock:
            known = {**self._past, **{n: s.master for n, s in self._sessions.items()}}
        return [(number, master or self.name) for number, master in known.items() if master != "?"]

    def session_state(self, number):
        """The executor's State that a session's plans use."""
        return self._session(number).state

    def touch(self, numbers):
        """Their masters are alive."""
        now = time.monotonic()
        with self._lock:
            for number in numbers:
                if number in self._sessions:
                    self._sessions[number].seen = now

    def _last_asked(self, session):
        """Seconds since a step of the session's came over a link, of which only that knows: its
        master lives, though its signs of life, which go over gRPC, may not come through."""
        ago = [self.links.asked(graph) for graph in session.graphs] if self.links is not None else []
        return min((seconds for seconds in ago if seconds is not None), default=float("inf"))

    def _is_connected(self, session):
        """The session's master has a connection with this task: links answer for a process whose
        Python does not get to."""
        return self.links is not None and session.fence is not None and self.links.connected(
            session.master, session.fence.incarnation)

    def sweep(self, away=0.0):
        """Closes what nobody came back for: sessions past their lease, steps that never began.

        away: seconds for which this process was frozen, or Python held, so that it heard of nobody;
        they count for nobody.  Who comes back after all finds its session ABORTED, and makes
        another."""
        now = time.monotonic()
        with self._lock:
            for session in self._sessions.values():
                session.seen = min(now, session.seen + away)
            for session in self._sessions.values():
                if session.master and now - session.seen > session.lease:
                    session.seen = max(session.seen, now - self._last_asked(session))
            late = [s.number for s in self._sessions.values() if s.master and now - s.seen > s.lease
                    and (now - s.seen > rpc.SILENCE or not self._is_connected(s))]
        for number in late:
            self.close_session(number, "its master was not heard of for the session's lease",
                               errors.ABORTED)
        self.task.sweep(self.lease + away)

    def _session(self, number):
        with self._lock:
            self._require_running()
            found = self._sessions.get(number)
            if found is not None:
                found.seen = time.monotonic()       # whoever asks for it is alive
        if found is None:
            raise self._executor.StepError(
                errors.ABORTED, f"session {number:016x} is not open at {self.name}: it was closed,"
                " its lease ran out, or the server was restarted", task=self.name)
        return found

    def _require_running(self):
        if self._stopped:
            raise self._executor.StepError(errors.UNAVAILABLE, f"{self.name} was stopped",
                                           task=self.name)

    def heard(self, request):
        """A ReadyRequest: a task has just begun to listen."""
        if self.on_ready is not None:
            self.on_ready(request.task, request.incarnation, request.address)

    def clock(self):
        """A ClockResponse."""
        return clocks.now()

    def tracing(self, request):
        """A TracingResponse to a TracingRequest: begins to trace all steps, or ends it."""
        return self.tracer.ask(request)

    def state_of(self, request):
        """A StateResponse to a StateRequest: random streams and kept tensors of a session."""
        return session_state.answer(self.session_state(request.session), request)

    # ------------------------------------------------------------ graphs

    def register(self, number, data, consts, deterministic=False, ops=(), routes=(), types=()):
        """As contract.Worker.register: a number."""
        for route in routes:
            self.routes.ensure(route)
        session = self._session(number)
        for op in ops:
            op_lib.find_op(op)                  # its module is loaded
        runtime.declare_ops()
        options = contract.PlanOptions(threads=self.threads, deterministic=deterministic)
        plan = self._executor.compile(data, consts, session.state, self.pool, options)
        graph = next(self._numbers)
        with self._lock:
            if self._sessions.get(number) is not session:
                raise self._executor.StepError(errors.CANCELLED, "the session was closed",
                                               task=self.name)
            self._add(session, graph, plan, frozenset(route.task for route in routes))
        return graph

    def _add(self, session, graph, plan, sends_to=frozenset()):
        """The lock is held."""
        self._graphs[graph] = plan
        session.graphs[graph] = sends_to
        if self.links is not None:
            self.links.serve(graph, plan)

    def adopt(self, number, plan):
        """Serves a plan of a session's to peers over links; its number, 0 without links."""
        if self.links is None:
            return 0
        session, graph = self._session(number), next(self._numbers)
        with self._lock:
            if self._sessions.get(number) is not session:
                return 0
            self._add(session, graph, plan)
        return graph

    def deregister(self, number, graphs):
        """Forgets plans."""
        with self._lock:
            session = self._sessions.get(number)
            for graph in graphs:
                if session is not None and graph in session.graphs:
                    del session.graphs[graph]
                    self._forget(graph)

    def _forget(self, graph):
        """The lock is held."""
        self._graphs.pop(graph, None)
        self._seconds.pop(graph, None)
        if self.links is not None:
            self.links.unserve(graph)

    def plan(self, number, graph):
        """The plan of a session's graph.  Raises StepError, ABORTED: it is not here."""
        session = self._session(number)
        with self._lock:
            plan = self._graphs.get(graph) if graph in session.graphs else None
        if plan is None:
            raise self._executor.StepError(
                errors.ABORTED, f"Graph handle is not found: {graph}. {self.name} was restarted, or"
                " the session closed it", task=self.name)
        return plan

    def plans_of(self, number):
        """The plans of a session's graphs here; [] if it is not open."""
        with self._lock:
            session = self._sessions.get(number)
            return [] if session is None else [self._graphs[g] for g in session.graphs
                                               if g in self._graphs]

    # ------------------------------------------------------------ steps

    def start(self, graph, feeds=(), options=None, done=None, key=None, by=contract.BY_POOL):
        """As contract.Worker.start; the executor's Started."""
        number, step = key
        plan, session = self.plan(number, graph), self._session(number)
        asked = options.trace if options is not None else None
        trace, traced = self.tracer.recording(asked, number, step)
        given = self._usual if options is None and trace is None else dataclasses.replace(
            options or self._usual, task=self.task, trace=trace)
        own_key = (step, graph)

        def over(started):
            session.steps.pop(own_key, None)
            if not brief:
                self._note(graph, time.monotonic() - began)
            if traced is not None:
                traced()
            if done is not None:
                done(started)
        try:
            began, brief = time.monotonic(), self._seconds.get(graph, 1.0) < BRIEF
            if brief and by == contract.BY_POOL:
                by = contract.BY_STARTER
            started = plan.start(feeds, given, over, key, by)
            if brief:
                self._note(graph, time.monotonic() - began)
        except (ValueError, TypeError) as wrong:
            raise self._executor.StepError(errors.INVALID_ARGUMENT, str(wrong),
                                           task=self.name) from None
        if not started.done():
            session.steps[own_key] = started
            if started.done():
                session.steps.pop(own_key, None)
        if self._sessions.get(number) is not session:       # closed meanwhile
            self.task.clean(number, step)
        return started

    def _note(self, graph, seconds):
        before = self._seconds.get(graph, seconds)
        self._seconds[graph] = before + (seconds - before) / 4

    def calls_of(self, number):
        """The once.Once of a session's calls."""
        return self._session(number).once

    def fail(self, number, step, failure):
        """The step failed elsewhere: it fails here, now or as it begins."""
        try:
            self.task.fail(number, step, failure.code, failure.message, failure.task, True)
        except self._executor.StepError:
            pass                        # it is over
        if self.place is not None:
            self.place.failed(number, step, failure)

    def say_failed(self, number, steps, failure):
        """As `fail`, of several steps."""
        for step in steps:
            self.fail(number, step, failure)

    def may_have_sent(self, task):
        """{master: {session's number: [step]}} of steps that are not over, and that are another
        task's, in sessions with plans here that send to a task."""
        with self._lock:
            masters = {s.number: s.master for s in self._sessions.values()
                       if any(task in sends_to for sends_to in s.graphs.values())}
        found = {}
        for kind, row in self.task.glance() if masters else ():
            master = masters.get(row["session"]) if kind == "step" else None
            if master not in (None, "", "?", self.name, task):
                found.setdefault(master, {}).setdefault(row["session"], []).append(row["step"])
        return found

    def clean(self, number, steps, soon=False):
        """As contract.Worker.clean."""
        for step in steps:
            self.task.clean(number, step)
        session = self._sessions.get(number)
        if session is not None and steps:
            over = set(steps)
            session.once.forget(lambda key: key[0] in over)

    def reset(self, containers, timeout=None):
        """Forgets named containers; without names all of them.  With the server's own, whose name
        is its job's (TF: Device's ResourceMgr), it ends the sessions, as a restart would."""
        self.task.reset_containers(containers)
        if not containers or DeviceSpec.from_string(self.name).job in containers:
            self.close_sessions("the server's containers were reset")
            with self._lock:
                old, self.state = self.state, self._executor.State("server", self.task)
            old.cancel("the server's containers were reset")
            old.close()

    def as_lost(self, failure):
        """A step's failure as another task's master is to see it: what stopping the server cut off
        is UNAVAILABLE."""
        if self._stopped and getattr(failure, "code", None) == errors.CANCELLED:
            failure.code, failure.task = errors.UNAVAILABLE, self.name
            failure.message = f"{self.name} was stopped: {failure.message}"
        return failure

    def stop(self):
        """Ends all sessions and forgets all state; afterwards every call raises UNAVAILABLE."""
        with self._lock:
            self._stopped = True
            open_ = list(self._sessions)
        for number in open_:
            self.close_session(number, "the server was stopped")
        self.state.cancel("the server was stopped")
        self.state.close()


def _said(fence):
    return f"epoch {fence.epoch}" if fence.epoch else f"incarnation {fence.incarnation:016x}"
