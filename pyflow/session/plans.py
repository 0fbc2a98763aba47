"""From (fetches, targets, feeds) to a Plan: the passes in order, then the core's compiler.

    built -> pruned -> the rows of passes/pipeline.py -> bytes -> Plan

PYFLOW_DUMP writes the graph after each.

Invariants
    1. A plan is compiled from the graph as it is at that moment; sessions drop plans when
       operations are changed.
    2. If kernels or ops are missing, one error lists all of them.
    3. With partitions="device" a graph on several devices becomes a plan per device, which run as
       one step; else it is one plan, with a Send and a Recv where an edge joins two devices.

Threads: `Compiler.compile` is called under the session's lock.
"""
import copy
import sys

from pyflow import config as env
from pyflow.framework import errors
from pyflow.framework.function_library import function_refs
from pyflow.passes import node as node_lib
from pyflow.passes import (functions, partition_split, pipeline, place, place_cost, printer,
                           wire)
from pyflow.passes.options import Options as Rewrites
from pyflow.passes.place_kernels import KernelTable
from pyflow.session import (contract, debug, evaluate, failures, missing, partial_run,
                            partial_stages, pause, runtime, trace_file, trace_records)
from pyflow.session import devices as devices_lib


class Compiler(contract.Compiler):
    """Compiles plans for one session: its graph, state, pool, devices and CompileOptions."""

    def __init__(self, graph, state, pool, devices, config, options, rewrites=None, costs=None):
        """config: a ConfigProto, or None.  rewrites: passes.options.Options; default: none.  costs:
        a CostModel, None for TensorFlow's placement."""
        self.graph, self.state, self.pool, self.devices = graph, state, pool, devices
        self.soft_placement = config is not None and config.allow_soft_placement
        self.log_placement = config is not None and config.log_device_placement
        self.options = options
        self.deterministic = options.plan.deterministic
        self.rewrites = rewrites or Rewrites.none()
        self._evaluate = evaluate.Evaluator(pool, devices, options.plan)
        self._stages = {}                           # what partial runs share, by what was set up
        self._stages_of = None                      # the graph's changes that they know
        self._costs, self._pins, self._kernel_table = costs, place.Pins(devices), None
        if self.log_placement:
            print(devices_lib.mapping_text(runtime.executor(), devices), file=sys.stderr)

    def _kernels(self):
        """The KernelTable of this process."""
        if self._kernel_table is None:
            self._kernel_table = self.devices.kernels or KernelTable(runtime.executor().kernels())
        return self._kernel_table

    def list_devices(self):
        """[DeviceAttributes] of all devices of the session."""
        return devices_lib.list_devices(runtime.executor(), self.devices)

    def on_pool(self, pool):
        """A Compiler that is equal but for the thread pool of its plans."""
        other = copy.copy(self)
        other.pool, other.options = pool, self.options.of_plan(threads=pool.threads)
        return other

    def partial_run(self, mapper, feeds):
        """A PartialRun."""
        changes = self.graph.revision - len(self.graph._nodes_by_id)
        if changes != self._stages_of:
            self._stages, self._stages_of = {}, changes
        fed = tuple(f.tensor for f in feeds)
        key = tuple(mapper.tensors), tuple(mapper.targets), fed
        if key not in self._stages:
            self._stages[key] = partial_stages.PartialGraph(self, mapper, fed)
        return partial_run.PartialRun(self._stages[key], mapper, feeds)

    def compile(self, tensors, targets, feeds, joined=None):
        """A `Compiled` plan; joined: {Tensor: the Tensor that is read in its place}.  Raises
        tf.errors exceptions for what does not fit."""
        with pause.collection_paused():
            dump = printer.dumper()
            if dump:
                dump("built", node_lib.whole(self.graph))
            graph = (node_lib.prune_joined(tensors, targets, feeds, joined) if joined else
                     node_lib.prune(tensors, targets, feeds))
            return self.compile_nodes(graph, dump)

    def compile_nodes(self, graph, dump=None):
        """A `Compiled` plan of a pass graph."""
        if dump:
            dump("pruned", graph)
        work = self._work(bool(dump))
        graph = pipeline.run(graph, work, pipeline.CALLS + pipeline.PLACEMENT, dump)
        if self.deterministic:
            missing.require_deterministic(graph)
        graph = pipeline.run(graph, work, pipeline.REWRITES + pipeline.MEMORY + pipeline.FUSIONS, dump)
        if self.options.debug >= 3:
            debug.log.debug("rewrites:\n%s", pipeline.report(work.counts))
        graph = pipeline.run(graph, work, pipeline.TRANSFERS, dump)
        return self._cut_and_compile(graph, work, dump)

    def _cut_and_compile(self, graph, work, dump):
        """A `Compiled` plan of a graph that went through all passes but the last."""
        if self.options.partitions == "device":
            parts = partition_split.split(graph, "device", work.waits, work.incarnation)
            if len(parts) > 1:
                return self._compile_parts(parts, work, dump)
            graph = parts[0].graph      # routing nodes and feeds may all have come to one device
        graph = pipeline.run(graph, work, pipeline.CUT, dump)
        plan, data, origins = self._compile_plan(graph, work)
        return Compiled(plan, self.graph, origins, [data], self.options, plan)

    def _work(self, with_reasons):
        """The pipeline.Work of a plan; with_reasons: nodes say why they are where they are."""
        report = self._report_placement if self.log_placement else None
        self._pins.refresh(self.graph, self.soft_placement, self._costs)

        def place_nodes(graph):
            place.place(graph, self.devices, self.soft_placement, report, with_reasons, self._costs,
                        self._pins.at)
        return pipeline.Work(self.rewrites, self._evaluate, self._kernels, place_nodes,
                             self.options.schedule_recvs,
                             incarnation=self.devices.incarnation)

    def _compile_parts(self, parts, work, dump):
        plans, graphs, origins = [], [], {}
        for number, part in enumerate(parts):
            if dump:
                dump(f"part-{number}", part.graph)
            plan, data, own_origins = self._compile_plan(part.graph, work)
            plans.append(plan)
            graphs.append(data)
            origins.update(own_origins)
        whole = runtime.executor().Parts(plans, [p.args for p in parts], [p.rets for p in parts])
        return Compiled(whole, self.graph, origins, graphs, self.options, whole)

    def _compile_plan(self, graph, work):
        """(core Plan, GraphDef bytes, {name of a node made by a pass: Operation it serves})."""
        library = self._library(graph, work) if work.functions else b""
        if self.devices.renamed:
            self.devices.rename(graph)
        data, consts = wire.graph_bytes(graph, library)
        self._take_arrays(graph, consts)
        runtime.declare_ops()
        executor = runtime.executor()
        origins = {
            n.name: n.origin
            for n in graph.nodes
            if n.origin is not None and n.origin.name != n.name
        }
        try:
            plan = executor.compile(data, consts, self.state, self.pool, self.options.plan)
        except executor.StepError as failure:
            raise self._explain(failure, graph, origins) from None
        trace_records.remember(plan, data, origins, self.graph)
        return plan, data, origins

    def _take_arrays(self, graph, consts):
        """The arrays of a plan's large constants are in `consts` alone: the core lets each go when no
        kernel needs it any more.  A graph that can make them again is told that it may forget its."""
        for node in graph.nodes:
            if node.name in consts:
                node.attrs = {key: value for key, value in node.attrs.items() if key != "value"}
        if self.graph.on_arrays_taken is not None and self.options.partitions != "device":
            self.graph.on_arrays_taken()

    def _library(self, graph, work):
        """The FunctionDefLibrary of the functions that a plan's nodes call; they run where the
        first call does."""
        calls = functions.calls_of(graph)
        if not calls:
            return b""
        wanted = {}
        for call in calls:
            for _, _, ref in function_refs(call.attrs):
                if ref.name in work.functions:
                    wanted[ref.name] = work.functions[ref.name]
        rewrites = pipeline.REWRITES + pipeline.FUSIONS
        return functions.library_bytes(wanted, work, rewrites, calls[0].device)

    def _explain(self, failure, graph, origins):
        if failure.code in (errors.NOT_FOUND, errors.UNIMPLEMENTED):
            problems = missing.problems_of(graph)
            if problems:
                op = problems[0].origin
                return errors.NotFoundError(None, op, missing.message(problems))
        return failures.to_op_error(failure, self.graph, origins)

    @staticmethod
    def _report_placement(line):
        print(line, file=sys.stderr)


class Compiled:
    """A Plan with what is needed to run it as the process wants its steps observed, and to explain
    failures.

    run: as plan.run.  graphs: GraphDef bytes of its parts.  options: CompileOptions; None: nobody
    observes its steps.  core: the executor's Plan or Parts, if all of it is of this process.
    observed: `run` does more than the plan's.
    """

    __slots__ = ("plan", "run", "core", "graph", "origins", "graphs", "observed")

    def __init__(self, plan, graph, origins, graphs, options=None, core=None):
        self.plan, self.core, self.graph, self.origins = plan, core, graph, origins
        self.graphs, self.observed, self.run = graphs, False, plan.run
        if options is not None:
            self._observe(options.inspection, options.debug, trace_file.for_process())

    def _observe(self, inspection, level, trace):
        self.observed = level >= 2 or trace is not None or inspection is not None
        if inspection is not None:
            self.run = inspection.run_of(self.plan, self.graph, self.origins)
        if level >= 2:
            self.run = debug.observed_run(self.plan, level, self.run)
        if trace is not None:
            self.run = trace.run(self.run)

    def explain(self, failure):
        """The tf.errors exception for a StepError."""
        return failures.to_op_error(failure, self.graph, self.origins)


def placement_costs(placement, measured):
    """The CostModel for Session(placement=, placement_costs=), None for TensorFlow's rule."""
    if placement is None:
        placement = "cost" if measured is not None else env.value("PYFLOW_PLACEMENT")
    if placement == "default" and measured is None:
        return None
    if placement != "cost":
        raise ValueError("placement must be 'default' (TensorFlow's rule; without placement_costs)"
                         f" or 'cost' (a cost model), but got {placement!r}")
    return place_cost.CostModel(_declared_costs, measured)


def _declared_costs(nodes):
    """{node: (flops, bytes)} from the kernels' cost functions."""
    executor = runtime.start()
    runtime.declare_ops()
    kinds = list(dict.fromkeys(["CPU", *(kind for kind, _, _ in executor.devices())]))
    return executor.node_costs(place_cost.bytes_for_costs(nodes), kinds)
