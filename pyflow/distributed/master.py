"""A master: sessions whose graphs lie on many tasks.

    compile   the passes place nodes on all tasks' devices -> a partition per task -> each is
              registered once with its worker
    step      every partition is begun by its worker, under one key (session, step); the first
              failure ends the others; results are put together
    clean     what a step left behind goes with the next call to its worker, or a little later

Invariants
1. A session speaks to the tasks its graph names, and to no other.
2. A step that failed in several places raises the cause: an error that is not the consequence of
   another.
3. A graph all of whose nodes lie on the master's own task is a plan of this process: no hop.

Threads: compiling under the session's lock; steps on any thread.
"""
import itertools
import logging
import os
import threading
import time
import types
import weakref

from pyflow.distributed import (clocks, look, messages, pairs, remote_worker, tensors, tracing,
                                ways, why, worker_service)
from pyflow.distributed import worker as worker_lib
from pyflow.framework import dtypes, errors, protos
from pyflow.framework.device import DeviceSpec, parsed
from pyflow.passes import partition_split, place, wire
from pyflow.passes.options import Options as Rewrites
from pyflow.passes.place_devices import Device, Devices
from pyflow.passes.place_kernels import KernelTable
from pyflow.session import devices as devices_lib
from pyflow.session import evaluate, failures, metadata, plans, runtime, targets

GRACE = 5.0                     # seconds in which the other tasks of a failed step should end it
LOOKS = 2.0                     # seconds between looks whether those that are waited for are there
LATE_GRACE = 0.3                # the same where the step's deadline has passed
BACKSTOP_MS = 5000              # beyond a step's own deadline, a worker ends its part by itself
ASKING = 0.3                    # seconds for a task to say what it waits for, when a deadline passes
_log = logging.getLogger("pyflow")
_NO_WIRE = frozenset(("resource", "variant"))


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
        are gone or elsewhere, sessions that use them hear UNAVAILABLE; new ones ask anew."""
        with self._lock:
            addresses = {**addresses, self.own.name: self.addresses[self.own.name]}
            moved = [t for t in self._found
                     if t != self.own.name and addresses.get(t) != self.addresses.get(t)]
            gone, self.addresses = [self._found.pop(t) for t in moved], addresses
        for worker in gone:
            if not worker.local:
                worker.close()

    def woken(self, task):
        """It has just begun to listen: who waits for it asks again at once."""
        with self._lock:
            found = self._found.get(task)
        if found is not None and not found.local:
            found.wake()

    def known(self):
        """The workers asked for so far."""
        with self._lock:
            return list(self._found.values())


class Place:
    """Sessions of a server (session/targets.py).  tasks: a Tasks."""

    def __init__(self, tasks):
        self._tasks = tasks
        self.sessions = set()           # those that are open

    def open(self, session, deterministic, partitions, costs, inspect):
        """The session's Opened."""
        config = _merged(session._config, self._tasks.own.config)
        link = SessionLink(self, self._tasks, config)
        try:
            return self._opened(link, session, config, deterministic, partitions, costs, inspect)
        except BaseException:
            link.close()
            raise

    def _opened(self, link, session, config, deterministic, partitions, costs, inspect):
        executor = runtime.start()
        if hasattr(session, "_lose"):
            link.on_lost = weakref.WeakMethod(session._lose)
        pools = devices_lib.Pools(config, session._threads)
        options = targets.plan_options(session._threads, deterministic, partitions, config, inspect)
        rewrites, pool = Rewrites.of(config), pools.get(0)
        if inspect is not None:
            options, rewrites = inspect.plan_options(options), inspect.rewrites(rewrites)
            pool = runtime.pool(1) if inspect.debug else pool
        compiler = Compiler(link, session.graph, pool, config, options, rewrites, costs)
        return targets.Opened(executor.StepError, link, pools, compiler)

    def failed(self, number, step, failure):
        """A task says that a step of a session failed there, or that it lost what it was sent."""
        for link in list(self.sessions):
            if link.number == number:
                link.failed(step, failure)

    def reset(self, containers):
        """Forgets named containers of all tasks that answer, all state for [], and ends the
        sessions that are open here: who uses them hears ABORTED, as after a restart."""
        for link in list(self.sessions):
            link.lose("its server's containers were reset")
        failed = []
        for task in self._tasks.names():
            try:
                self._tasks.get(task).reset(containers)
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
    return found


class SessionLink:
    """One session: its number, its tasks, and their state (what `Session._state` is)."""

    def __init__(self, place, tasks, config):
        timeout_ms = getattr(config, "operation_timeout_in_ms", 0)
        self._patience = timeout_ms / 1000 if timeout_ms else remote_worker.START_SECONDS
        self.number = int.from_bytes(os.urandom(8), "little") or 1
        self.tasks, self._place = tasks, place
        self.isolate = bool(getattr(config, "isolate_session_state", False))
        self._filters = [parsed(f) for f in getattr(config, "device_filters", ())]
        self._opened, self._lock = {}, threading.Lock()
        self._steps = itertools.count(1)
        self._running, self._to_clean, self._closed = set(), {}, False
        self._graph, self._origins = None, {}
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
                               self.tasks.own.lease, self._patience)
        except runtime.executor().StepError:
            self.tasks.forget(task, found)
            raise
        return found

    def workers(self):
        """Those in use."""
        with self._lock:
            return list(self._opened.values())

    # ------------------------------------------------------------ what is known of it

    def remember(self, graph, origins):
        """A plan of this graph was made; origins: {node that a pass made: Operation it serves}."""
        with self._lock:
            if self._graph is not graph:
                self._graph, self._origins = graph, {}
            self._origins.update(origins)

    def graphs(self):
        """[(Graph, origins)] of what runs here."""
        with self._lock:
            return [] if self._graph is None else [(self._graph, dict(self._origins))]

    def running(self):
        """The steps that are not over."""
        with self._lock:
            return list(self._running)

    def asker(self, patience):
        """A look.Asker for the tasks that the session sees."""
        own = self.tasks.own
        addresses = {t: self.tasks.addresses.get(t, "") for t in self.visible()}
        return look.Asker(addresses, self.tasks.channels,
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
        """A task says so of the step of that number."""
        with self._lock:
            found = [step for step in self._running if step.number == number]
        for step in found:
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
        """Ends the session on another thread: for finalisers, which run within anything."""
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

    def seek(self, position, shard, everywhere=False):
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


class Compiler(plans.Compiler):
    """Compiles for a SessionLink: over the devices of all tasks that the graph names."""

    def __init__(self, link, graph, pool, config, options, rewrites, costs):
        self.link = link
        self.client = worker_lib.PROCESS            # where the graph's Python functions are
        self._pairs = pairs.Choice(getattr(config, "send_recv_pairs", ()))
        self._config, self._asked = config, {link.tasks.own.name}
        self._own_devices = link.tasks.own.devices()
        self._remote_devices, self._seen_revision = [], None
        super().__init__(graph, link.state, pool,
                         self._combined(), bool(getattr(config, "allow_soft_placement", False)),
                         bool(getattr(config, "log_device_placement", False)), options, rewrites,
                         costs)

    def _combined(self):
        own = self._own_devices
        if not self._remote_devices:
            return own
        executor = runtime.executor()
        here = set(own.names)
        return Devices(
            [*own.all, *self._remote_devices], self.link.tasks.own.kernel_table(),
            lambda d: executor.device_problem(*devices_lib._core(d)) if d.name in here else None)

    def of_graph(self, graph):
        """A Compiler for another graph of the same session."""
        found = Compiler(self.link, graph, self.pool, self._config, self.options, self.rewrites,
                         self._costs)
        found.client = self.client
        return found

    def list_devices(self):
        """[DeviceAttributes] of every visible task.  Raises a tf.errors exception for one that does
        not answer."""
        found = devices_lib.list_devices(runtime.executor(), self._own_devices)
        try:
            for task in self.link.visible()[1:]:
                status = self.link.worker(task).status()
                found += [devices_lib.DeviceAttributes(d.name, d.memory_limit, status.incarnation)
                          for d in status.device]
        except runtime.executor().StepError as problem:
            raise failures.to_op_error(problem, self.graph, {}) from None
        return found

    def _contact(self, tasks):
        new = [t for t in tasks if t not in self._asked]
        for task in new:
            self._remote_devices += self._devices_of(task)
            self._asked.add(task)
        if new:
            self.devices = self._combined()
            pinned = self._pins.at
            self._pins = place.Pins(self.devices)
            self._pins.at.update(pinned)            # devices are added at the end
            self._evaluate = evaluate.Evaluator(self.pool, self._own_devices, self.options)

    def _devices_of(self, task):
        worker = self.link.worker(task)
        status = worker.status()
        table = None
        if status.kernels_digest != self.link.tasks.own.kernels_digest():
            table = worker.kernel_table() if worker.local else KernelTable(worker.kernels())
        number = devices_lib.as_int64(status.incarnation)
        rank = self.link.visible().index(task)          # whatever it is asked for first
        return [Device(d.name, d.priority, core_name=d.core_name, kernels=table,
                       incarnation=number, rank=rank) for d in status.device]

    def _named(self):
        """The tasks that the nodes of the graph and its functions ask for, of those the session
        sees."""
        specs = [(t, DeviceSpec.from_string(t)) for t in self.link.visible()]
        found = {}
        requests = {op.device for op in self.graph.get_operations()}
        for function in self.graph._library.definitions.values():
            requests.update(node.device for node in function.node_def)
        for request in requests:
            asked = parsed(request) if request else None
            if asked is None or asked.job is None:
                continue
            fitting = [t for t, spec in specs if asked.job == spec.job
                       and asked.replica in (None, spec.replica)
                       and asked.task in (None, spec.task)]
            if fitting:
                found[fitting[0]] = None
        return list(found)

    def _work(self, with_reasons):
        if self.graph.revision != self._seen_revision:
            self._seen_revision = self.graph.revision
            try:
                self._contact(self._named())
            except runtime.executor().StepError as problem:
                self._seen_revision = None
                raise failures.to_op_error(problem, self.graph, {}) from None
        return super()._work(with_reasons)

    def _cut_and_compile(self, graph, work, dump):
        own = self.link.tasks.own.name
        tasks = {partition_split.partition_name(n.device) for n in graph.nodes}
        check_edges(graph, self._foreign(tasks))
        names = [ret.inputs[0][0].name for ret in graph.rets]
        if tasks <= {own}:
            return self._own_plan(super()._cut_and_compile(graph, work, dump), graph, names)
        parts = partition_split.split(graph, "task", work.waits, work.incarnation,
                                      self._pairs.on(self.devices), self._narrow())
        edges, graphs, origins, steps = ways.edges_of(parts), [], {}, []
        sizes = {part.name: len(part.graph.nodes) for part in parts}
        for number, part in enumerate(parts):
            if dump:
                dump(f"part-{number}", part.graph)
            types = [a.attrs["T"].as_datatype_enum for a in part.graph.args]
            ops = sorted({n.op for n in part.graph.nodes})
            routes = self._routes(part)
            if part.name == own:
                for route in routes:
                    self.link.tasks.own.routes.ensure(route)
                plan, data, own_origins = self._compile_plan(part.graph, work)
                steps.append(Part(self.link.tasks.own, plan, 0, part, types))
            else:
                data, own_origins, graph_number, worker = self._register(part, work, ops, routes)
                steps.append(Part(worker, None, graph_number, part, types))
            graphs.append(data)
            origins.update(own_origins)
        self.link.remember(self.graph, origins)
        whole = ClusterPlan(self.link, steps, names, lambda link_of: ways.text(sizes, edges, link_of))
        if dump:
            dump("ways", whole.explain())
        return plans.Compiled(whole, self.graph, origins, graphs[0], self.options.get("debug", 0),
                              graphs)

    def _own_plan(self, compiled, graph, names):
        """A plan of this process alone; a run with a deadline is a step that others see, too."""
        self.link.remember(self.graph, compiled.origins)
        if compiled.observed or compiled.partitioned:
            return compiled
        whole = partition_split.Part(self.link.tasks.own.name, graph, range(len(graph.args)),
                                     range(len(graph.rets)))
        timed = ClusterPlan(self.link, [Part(self.link.tasks.own, compiled.plan, 0, whole, ())], names)
        plain = compiled.run

        def run(feeds=(), timeout_ms=0, cancel=None, **how):
            if not timeout_ms or cancel is not None or not {*how} <= {"trace", "keep"}:
                return plain(feeds, timeout_ms, cancel, **how)
            return timed.run(feeds, timeout_ms, **how)
        run.timed = timed
        compiled.run = run
        return compiled

    def _foreign(self, tasks):
        """{task: True where its process is another one than the client's}."""
        return {t: (worker_lib.PROCESS if t == self.link.tasks.own.name else
                    self.link.worker(t).status().process) != self.client for t in tasks}

    def _register(self, part, work, ops, routes):
        """(GraphDef bytes, origins, number, worker) of a partition of another task."""
        library = self._library(part.graph, work) if work.functions else b""
        self.devices.rename(part.graph)
        data, consts = wire.graph_bytes(part.graph, library)
        origins = {n.name: n.origin for n in part.graph.nodes
                   if n.origin is not None and n.origin.name != n.name}
        try:
            worker = self.link.worker(part.name)
            number = worker.register(self.link.number, data, dict(consts), self.deterministic, ops,
                                     routes)
        except runtime.executor().StepError as failure:
            failure.task = failure.task or part.name
            failure.message += self._other_plugins(part.name)
            raise self._explain(failure, part.graph, origins) from None
        return data, origins, number, worker

    def _other_plugins(self, task):
        """"; its plugins are others: ..." where a task's and the own ones differ."""
        def versions(status):
            return {plugin.id: plugin.version for plugin in status.plugin}
        try:
            theirs = versions(self.link.worker(task).status())
        except runtime.executor().StepError:
            return ""
        ours, own = versions(self.link.tasks.own.status()), self.link.tasks.own.name
        found = [f"'{name}' is {theirs.get(name, 'missing')} at {task} and "
                 f"{ours.get(name, 'missing')} at {own}" for name in sorted({*ours, *theirs})
                 if ours.get(name) != theirs.get(name)]
        return f"; plugins differ: {', '.join(found)}" if found else ""

    def _routes(self, part):
        """RouteMessages to the tasks that a partition sends to; and, for pairs of plugins, to those
        that it hears from: they may have to say where they are."""
        to = set()
        for node in part.graph.nodes:
            if "recv_device" in node.attrs and node.op != pairs.NET.recv:
                to.update(map(partition_split.partition_name,
                              (node.attrs["send_device"], node.attrs["recv_device"])))
        found = []
        for task in sorted(to - {part.name}):
            status = self.link.worker(task).status()
            found.append(messages.RouteMessage(
                task=task, incarnation=status.incarnation, link=status.link,
                address=self.link.tasks.addresses.get(task, "")))
        return found

    def _narrow(self):
        """None, or a function of two devices of different tasks: floats go as bfloat16 from one to
        the other, where ConfigProto.graph_options.enable_bfloat16_sendrecv is on: not within one
        host, and not where a device has no kernel for it."""
        options = getattr(self._config, "graph_options", None)
        if not getattr(options, "enable_bfloat16_sendrecv", False):
            return None
        at, hosts = {d.name: d for d in self.devices.all}, {}

        def host(device):
            task = partition_split.partition_name(device)
            if task not in hosts:
                status = self.link.worker(task).status()
                hosts[task] = status.boot or status.host
            return hosts[task]

        def narrow(source, destination):
            return host(source) != host(destination) and all(
                _casts(at[device], at[device].kernels or self.devices.kernels, attrs)
                for device, attrs in ((source, _NARROWS), (destination, _WIDENS)))
        return narrow


_NARROWS = {"SrcT": dtypes.float32, "DstT": dtypes.bfloat16}
_WIDENS = {"SrcT": dtypes.bfloat16, "DstT": dtypes.float32}


def _casts(device, table, attrs):
    """The device has a Cast for these types, as far as is known."""
    if table is None:
        return device.kind == "CPU"
    kinds = table.types(types.SimpleNamespace(op="Cast", attrs=attrs))
    return bool(kinds and kinds & {device.kind, "*"})


def check_edges(graph, foreign):
    """Raises InvalidArgumentError for handles that would have to travel, and Python functions that
    would have to run in another process than this one.  foreign: {task: it is another process}."""
    name = partition_split.partition_name
    for node in graph.nodes:
        task = name(node.device)
        if foreign[task] and node.op in ("PyFunc", "PyFuncStateless", "EagerPyFunc"):
            raise errors.InvalidArgumentError(
                None, node.origin, f"the Python function of node '{node.name}' is in the client's "
                f"process and cannot run at {task}: put it on a device of the client's own task")
        for source, index in node.inputs:
            if name(source.device) != task and index < len(source.types) \
                    and source.types[index].base_dtype.name in _NO_WIRE:
                dtype = source.types[index].base_dtype.name
                raise errors.InvalidArgumentError(
                    None, node.origin, f"output {index} of node '{source.name}' ({source.op}, on "
                    f"{source.device}) is a {dtype}, which lives in its process and cannot be sent"
                    f" to node '{node.name}' ({node.op}, on {node.device}): put both on one task")


class Part:
    """One partition of a ClusterPlan.  plan: a core Plan of this process' task, or None, then
    `graph` is its number at the worker."""

    __slots__ = ("worker", "plan", "graph", "args", "rets", "types")

    def __init__(self, worker, plan, graph, part, types):
        self.worker, self.plan, self.graph = worker, plan, graph
        self.args, self.rets, self.types = part.args, part.rets, types


class ClusterPlan:
    """Partitions on several tasks that run as one step; what a core Plan is to a session."""

    def __init__(self, link, parts, names=(), ways_text=None):
        self._link, self._parts, self._names, self._ways = link, parts, names, ways_text
        self.n_rets = sum(len(p.rets) for p in parts)

    def run(self, feeds=(), timeout_ms=0, trace=None, keep=False, inspect=None):
        """The results of one step, in the whole graph's order, with `keep` as Kept.  Raises
        StepError."""
        if inspect is not None:
            raise runtime.executor().StepError(
                errors.UNIMPLEMENTED, "debug mode and numeric checks look at the kernels of one "
                "process: this step has partitions on several tasks")
        if trace is None and len(self._parts) == 1 and self._parts[0].worker.link is not None \
                and not self._link.tasks.own.tracer.on:
            return self._run_there(self._parts[0], feeds, timeout_ms, keep)
        return self.start(feeds, timeout_ms, trace, keep).result()

    def _run_there(self, part, feeds, timeout_ms, keep):
        """A step that lies on one other task, over a link: nothing to put together."""
        link, worker, began = self._link, part.worker, time.monotonic()
        number = link.next_step()
        running = worker.start(part.graph, link.number, number, [feeds[k] for k in part.args],
                               part.types, None, timeout_ms + BACKSTOP_MS if timeout_ms else 0)
        try:
            values = running.result(timeout_ms / 1000 if timeout_ms else None, keep=keep)
        except TimeoutError:
            late = ClusterStep.of(link, part, running, number, began, timeout_ms)
            running.cancel()
            raise late from None
        except runtime.executor().StepError as failure:
            failure.task = failure.task or worker.name
            raise
        except BaseException:
            running.cancel()
            raise
        finally:
            worker.clean(link.number, [number])
        return [values[part.rets.index(k)] for k in range(self.n_rets)]

    def explain(self):
        """Which parts it has, and how tensors go between them, as text (ways.py)."""
        if self._ways is None:
            return "\n".join(p.plan.explain() for p in self._parts)
        names = [p.worker.name for p in self._parts]
        found = self._link.asker(look.PATIENCE).ask_all("GetStatus", messages.GetStatusRequest(),
                                                        names)
        kinds = {(task, route.task): route.kind for task, status in found.items()
                 if not isinstance(status, look.Silent) for route in status.route}
        return self._ways(lambda source, to: kinds.get((source, to)))

    def start(self, feeds=(), timeout_ms=0, trace=None, keep=False):
        """Begins a step; its ClusterStep."""
        step = ClusterStep(self._link, self._parts, self.n_rets, timeout_ms, trace, keep)
        step.names = self._names
        step.begin(feeds)
        return step

    def __del__(self):
        for part in self._parts:
            if part.plan is None:
                self._link.drop(part.worker, part.graph)


class ClusterStep:
    """A step under way on several tasks: as the executor's Started."""

    def __init__(self, link, parts, n_rets, timeout_ms, trace, keep):
        self._link, self._parts, self._n_rets = link, parts, n_rets
        self._timeout_ms, self._trace, self._keep = timeout_ms, trace, keep
        self.number = link.next_step()
        self._cond = threading.Condition()
        self._left, self._given_up = len(parts), False
        self._begun, self._ended = {}, {}           # part: what runs it; what it ended as
        self._failure, self._awaited = None, None
        remote = [p for p in parts if not p.worker.local]
        self._first = remote[0] if remote else None     # the part that `wait` waits for itself
        self._since, self.names = time.monotonic(), ()
        self._until = None if not timeout_ms else self._since + timeout_ms / 1000
        self._backstop_ms = timeout_ms + BACKSTOP_MS if timeout_ms else 0

    @classmethod
    def of(cls, link, part, running, number, began, timeout_ms):
        """The StepError of a step with one part that was not begun by a ClusterStep and is late."""
        step = cls(link, [part], 0, timeout_ms, None, False)
        step.number, step._since = number, began
        step._begun[part] = running
        link.begun(step)
        try:
            return step.lateness()
        finally:
            link.over(step, number, [])

    def begin(self, feeds):
        """Begins every partition, those of other processes first."""
        self._link.begun(self)
        level = 3 if self._trace is not None else self._link.tasks.own.tracer.level(0)
        for part in sorted(self._parts, key=lambda p: p.worker.local):
            if self._failure is not None:
                self._over(part)
                continue
            args = [feeds[k] for k in part.args]
            try:
                running = self._start(part, args, level)
            except runtime.executor().StepError as failure:
                self._fail(failure, part)
                self._over(part)
                continue
            self._begun[part] = running
            if part is self._first and part.worker.link is not None and not level:
                self._awaited = running

    def _start(self, part, args, level):
        worker, link = part.worker, self._link

        def done(running, trace):
            if trace is not None and self._trace is not None:
                metadata.add_elsewhere(self._trace, tracing.step_stats(trace) if worker.local else
                                       clocks.shifted(trace, -worker.offset_ns()))
            self._ran(part, running)
        if part.plan is not None:
            return self._start_own(part, args, level)
        if worker.local:
            return worker.start(part.graph, link.number, self.number, args, done,
                                self._backstop_ms, level)
        if level:
            worker.offset_ns()                  # asked for now: not while its answer is read
        if part is self._first and worker.link is not None and not level:
            done = None                             # who waits for the step waits for it
        return worker.start(part.graph, link.number, self.number, args, part.types, done,
                            self._backstop_ms, level, link.take_cleaning(worker))

    def _start_own(self, part, args, level):
        """A part of the master's own task."""
        worker, trace = part.worker, self._trace
        if trace is None and level:
            trace = runtime.executor().Trace(level)

        def done(started):
            if trace is not None and worker.tracer.on:
                worker.tracer.add(self._link.number, self.number, tracing.step_stats(trace))
            self._ran(part, started)
        return part.plan.start(args, self._backstop_ms, callback=done, task=worker.task,
                               session=self._link.number, step=self.number, trace=trace)

    # ------------------------------------------------------------ as partitions end

    def _ran(self, part, running):
        """On whatever thread its partition ended."""
        try:
            values = running.result(keep=self._keep)
        except runtime.executor().StepError as failure:
            if part.worker.local and part.worker is not self._link.tasks.own:
                failure = part.worker.as_lost(failure)
            self._fail(failure, part)
            self._over(part)
        else:
            self._over(part, values)

    def _over(self, part, values=None):
        with self._cond:
            if part in self._ended:
                return
            self._ended[part] = values
            self._left -= 1
            last = self._left == 0
            self._cond.notify_all()
        if last:
            self._link.over(self, self.number, [p.worker for p in self._parts],
                            self._failure is not None)

    def _fail(self, failure, part=None):
        """The first failure ends the other partitions; a cause wins over its consequences."""
        if part is not None and not failure.task and part.worker is not self._link.tasks.own:
            failure.task = part.worker.name
        with self._cond:
            first = self._failure is None
            if first or self._failure.derived and not failure.derived:
                self._failure = failure
            self._cond.notify_all()
        if not first:
            return
        for other in self._parts:
            if other is not part and other not in self._ended:
                other.worker.fail(self._link.number, self.number, failure)

    # ------------------------------------------------------------ who waits

    def fail_elsewhere(self, failure):
        """A task says that it fails."""
        if self._failure is None:
            self._fail(failure)

    def cancel(self, why="cancelled"):
        """Soon; `result` raises CANCELLED then, unless the step ended before."""
        self._fail(runtime.executor().StepError(errors.CANCELLED, why))

    def done(self):
        """`result` will not wait."""
        with self._cond:
            return self._left == 0 or self._given_up

    def wait(self, timeout=None):
        """Until it is over, at most `timeout` seconds; whether it is.  An exception of a signal
        handler ends the step."""
        until = None if timeout is None else time.monotonic() + timeout
        failed_at = None
        try:
            if self._awaited is not None:
                self._wait_for_first(until)
            looks = time.monotonic() + LOOKS
            with self._cond:
                while self._left and not self._given_up:
                    now = time.monotonic()
                    if now > looks and self._failure is None:
                        looks = now + LOOKS
                        lost = self._lost_part()
                        if lost is not None:
                            threading.Thread(target=self._give_up, args=(lost,),
                                             daemon=True).start()
                    if until is not None and now >= until:
                        return False
                    if self._failure is not None:
                        failed_at = failed_at or now
                        self._given_up = now - failed_at > self._grace(now)
                    elif self._until is not None and now > self._until:
                        break
                    soon = min([t for t in (until, self._until) if t is not None and t > now],
                               default=now + 0.1)
                    self._cond.wait(min(0.1, soon - now))
        except BaseException:
            self.cancel("interrupted")
            raise
        if not self.done():
            late = self.lateness()
            if self._left:
                self._fail(late)
            return self.wait(timeout)
        if self._given_up:
            self._link.over(self, self.number, [p.worker for p in self._parts], True)
        return True

    def _lost_part(self):
        """A partition whose worker's link is gone, though nobody said that it failed; or None."""
        for part in self._parts:
            if part not in self._ended and getattr(part.worker, "link", None) is not None and \
                    not part.worker.is_connected():
                return part
        return None

    def _give_up(self, part):
        self._fail(runtime.executor().StepError(
            errors.UNAVAILABLE, f"{part.worker.name} was lost: its connection is gone",
            task=part.worker.name), part)
        self._over(part)

    def lateness(self):
        """The StepError of a deadline that has passed: who waits for whom, the culprit first."""
        try:
            found = why.explain(self._link.asker(ASKING), (self._link.number, self.number),
                                {p.worker.name for p in self._parts})
        except Exception as problem:            # the error that is wanted comes all the same
            _log.debug("a deadline is not explained: %r", problem)
            found = "still running: " + ", ".join(
                p.worker.name for p in self._parts if p not in self._ended)
        return runtime.executor().StepError(
            errors.DEADLINE_EXCEEDED, f"the step was not over within {self._timeout_ms} ms: {found}")

    # ------------------------------------------------------------ for who looks (waits.py)

    def age(self):
        """Seconds since it began."""
        return time.monotonic() - self._since

    def parts(self):
        """[(task, begun, ended)]."""
        with self._cond:
            return [(p.worker.name, p in self._begun, p in self._ended) for p in self._parts]

    def own_plans(self):
        """The core's plans of those of its parts that run in this process."""
        return [p.plan for p in self._parts if p.plan is not None]
    def _wait_for_first(self, until):
        """On this thread, without a hand-over, until it is over or there is something to look at."""
        awaited, failed_at = self._awaited, None
        while True:
            now = time.monotonic()
            if self._failure is not None:
                failed_at = failed_at or now
            ends = [t for t in (until, self._until if failed_at is None else
                                failed_at + self._grace(now)) if t is not None]
            if awaited.wait(max(0.0, min([*ends, now + 1.0]) - now)):
                self._awaited = None
                self._ran(self._first, awaited)
                return
            if any(time.monotonic() >= t for t in ends):
                return

    def _grace(self, now):
        """Seconds from the failure on in which the other parts should end."""
        return LATE_GRACE if self._until is not None and now > self._until else GRACE

    def result(self, timeout=None):
        """The fetches' values in order; raises what failed the step."""
        if not self.wait(timeout):
            raise TimeoutError("the step is still running")
        if self._failure is not None:
            raise self._failure
        out = [None] * self._n_rets
        for part, values in self._ended.items():
            for k, value in zip(part.rets, values):
                out[k] = value
        return out
