"""Plans over many tasks: the passes place nodes on the devices of all that the graph names, the
graph is cut by task, and each partition is registered once with its worker.

Invariants
1. A session speaks to the tasks its graph names, and to no other; nodes that ask for no job are,
   as TensorFlow places them, on the task whose name comes first (`_first`).
2. A graph all of whose nodes lie on the master's own task is a plan of this process: no hop.
3. What cannot travel (handles, Python functions) is refused before anything is registered.

Threads: compiling is under the session's lock.  Callers: master.py.
"""
import types

from pyflow.distributed.look import edges, ways
from pyflow.distributed.run import cluster_step
from pyflow.distributed.wire import messages, pairs
from pyflow.distributed.run import worker as worker_lib
from pyflow.framework import dtypes, errors
from pyflow.framework.device import DeviceSpec, parsed
from pyflow.passes import partition_split, place, place_devices, wire
from pyflow.passes.place_devices import Device, Devices
from pyflow.passes.place_kernels import KernelTable
from pyflow.session import devices as devices_lib
from pyflow.session import evaluate, failures, plans, runtime

_NO_WIRE = frozenset(("resource", "variant"))
_PYTHON = frozenset(("PyFunc", "PyFuncStateless", "EagerPyFunc"))


class Compiler(plans.Compiler):
    """Compiles for a SessionLink: over the devices of all tasks that the graph names."""

    def __init__(self, link, graph, pool, config, options, rewrites, costs):
        self.link = link
        self.client = worker_lib.PROCESS            # where the graph's Python functions are
        self._edges = {}                            # of the plans of this process
        self._pairs = pairs.Choice(getattr(config, "send_recv_pairs", ()))
        self._config, self._asked = config, {link.tasks.own.name}
        self.devices = self._own_devices = link.tasks.own.devices()
        self._remote_devices, self._seen_revision = [], None
        self._order(link.tasks.own.name)
        super().__init__(graph, link.state, pool, self._combined(), config, options, rewrites,
                         costs)

    def _combined(self):
        own = self._own_devices
        if not self._remote_devices:
            return own
        executor = runtime.executor()
        here = set(own.names)
        return Devices(
            [*own.all, *self._remote_devices], self.link.tasks.own.kernel_table(),
            lambda d: executor.device_problem(*devices_lib._core(d)) if d.name in here else None,
            self.link.renames)

    def _order(self, first):
        """Which task is preferred where several would do: `first`, then by name."""
        names = sorted(self.link.visible(), key=lambda task: (task != first, f"{task}/"))
        self._ranks = {task: number for number, task in enumerate(names)}
        self.devices.set_ranks(self._ranks)

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
            self._evaluate = evaluate.Evaluator(self.pool, self._own_devices, self.options.plan)

    def _devices_of(self, task):
        worker = self.link.worker(task)
        status = worker.status()
        table = None
        if status.kernels_digest != self.link.tasks.own.kernels_digest():
            table = worker.kernel_table() if worker.local else KernelTable(worker.kernels())
        number = devices_lib.as_int64(status.incarnation)
        return [Device(d.name, d.priority, core_name=d.core_name, kernels=table,
                       incarnation=number, rank=self._ranks.get(task, len(self._ranks)))
                for d in status.device]

    def _named(self):
        """The tasks that the nodes of the graph and its functions ask for, of those the session
        sees."""
        nodes = [(op.device, op.type) for op in self.graph.get_operations()]
        bodies = [(node.device, node.op) for function in self.graph._library.definitions.values()
                  for node in function.node_def]
        self._order(self._first([*nodes, *bodies]))
        specs = [(t, DeviceSpec.from_string(t)) for t in self._ranks]
        found, requests = {}, {request for request, _ in nodes}
        requests.update(request for request, _ in bodies if request)
        for request in sorted(requests):
            asked = place_devices.meant(parsed(request), self.link.renames)
            fitting = [t for t, spec in specs if asked.job in (None, spec.job)
                       and asked.replica in (None, spec.replica)
                       and asked.task in (None, spec.task)]
            if fitting:
                found[fitting[0]] = None
        return list(found)

    def _first(self, nodes):
        """The task of nodes that ask for no job.  nodes: [(request, op type)].  TensorFlow's: the
        first by name. The own one where a Python function asks for none: it is in no other process,
        and what it makes may be a handle."""
        if any(kind in _PYTHON and (not request or parsed(request).job is None)
               for request, kind in nodes):
            return self.link.tasks.own.name
        first = DeviceSpec.from_string(min(self.link.visible(), key=lambda task: f"{task}/"))
        return place_devices.meant(first, self.link.renames).to_string()

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
        table, graphs, origins, steps = {}, [], {}, []
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
                steps.append(cluster_step.OwnPart(self.link.tasks.own, plan, part))
            else:
                data, own_origins, graph_number, worker = self._register(part, work, ops, routes,
                                                                         types)
                steps.append(cluster_step.Part(worker, graph_number, part))
            graphs.append(data)
            origins.update(own_origins)
            edges.add(table, part.graph.nodes)
        self.link.remember(self.graph, origins, table)
        whole = cluster_step.ClusterPlan(
            self.link, steps, names,
            lambda link_of: ways.text(sizes, table, link_of, self._pairs.why_not))
        if dump:
            dump("ways", whole.explain())
        return plans.Compiled(whole, self.graph, origins, graphs, self.options)

    def _own_plan(self, compiled, graph, names):
        """A plan of this process alone; a run with a deadline is a step that others see, too."""
        self.link.remember(self.graph, compiled.origins, self._edges)
        if compiled.observed or len(compiled.graphs) > 1:
            return compiled
        whole = partition_split.Part(self.link.tasks.own.name, graph, range(len(graph.args)),
                                     range(len(graph.rets)))
        plan = cluster_step.OwnPlan(self.link, compiled.core, whole, names)
        return plans.Compiled(plan, self.graph, compiled.origins, compiled.graphs, self.options,
                              compiled.core)

    def _compile_plan(self, graph, work):
        found = super()._compile_plan(graph, work)
        edges.add(self._edges, graph.nodes)         # between the devices of the own task, too
        return found

    def _foreign(self, tasks):
        """{task: True where its process is another one than the client's}."""
        return {t: (worker_lib.PROCESS if t == self.link.tasks.own.name else
                    self.link.worker(t).status().process) != self.client for t in tasks}

    def _register(self, part, work, ops, routes, types):
        """(GraphDef bytes, origins, number, worker) of a partition of another task."""
        library = self._library(part.graph, work) if work.functions else b""
        self.devices.rename(part.graph)
        data, consts = wire.graph_bytes(part.graph, library)
        origins = {n.name: n.origin for n in part.graph.nodes
                   if n.origin is not None and n.origin.name != n.name}
        try:
            worker = self.link.worker(part.name)
            number = worker.register(self.link.number, data, dict(consts), self.deterministic, ops,
                                     routes, types)
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
        if foreign[task] and node.op in _PYTHON:
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
