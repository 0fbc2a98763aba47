"""From (fetches, targets, feeds) to a Plan: the passes in order, then the core's compiler.

    built -> pruned -> placed -> cut -> bytes -> Plan          (PYFLOW_DUMP writes each)

Invariants
    1. A plan is compiled from the graph as it is at that moment; sessions drop plans when
       operations are changed.
    2. If kernels or ops are missing, one error lists all of them.

Threads: `Compiler.compile` is called under the session's lock.
"""
import sys

from pyflow.framework import errors
from pyflow.passes import node as node_lib
from pyflow.passes import partition, place, printer, wire
from pyflow.session import debug, failures, missing, runtime


class Compiler:
    """Compiles plans for one session: its graph, state, pool, devices and options."""

    def __init__(self, graph, state, pool, devices, soft_placement, log_placement, options):
        self.graph, self.state, self.pool, self.devices = graph, state, pool, devices
        self.soft_placement, self.log_placement = soft_placement, log_placement
        self.options = options
        self.deterministic = options.get("deterministic", False)

    def compile(self, tensors, targets, feeds):
        """A `Compiled` plan.  Raises tf.errors exceptions for what does not fit."""
        dump = printer.dumper()
        if dump:
            dump("built", node_lib.whole(self.graph))
        return self.compile_nodes(node_lib.prune(tensors, targets, feeds), dump)

    def compile_nodes(self, graph, dump=None):
        """A `Compiled` plan of a pass graph."""
        if dump:
            dump("pruned", graph)
        report = self._report_placement if self.log_placement else None
        place.place(graph, self.devices, self.soft_placement, report)
        if dump:
            dump("placed", graph)
        graph = partition.cut(graph)
        if dump:
            dump("cut", graph)
        if self.deterministic:
            missing.require_deterministic(graph)
        data, consts = wire.graph_bytes(graph)
        runtime.declare_ops()
        executor = runtime.executor()
        origins = {
            n.name: n.origin
            for n in graph.nodes
            if n.origin is not None and n.origin.name != n.name
        }
        try:
            plan = executor.compile(data, consts, self.state, self.pool, self.options)
        except executor.StepError as failure:
            raise self._explain(failure, graph, origins) from None
        may_block = any(n.op in _MAY_BLOCK for n in graph.nodes)
        return Compiled(plan, self.graph, origins, data, may_block, self.options.get("debug", 0))

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


# Ops that can keep a step running for long; plans with them get a token that `close` cancels.
_MAY_BLOCK = frozenset(("Enter", "RefEnter", "PyFunc", "PyFuncStateless", "EagerPyFunc", "_Recv"))


class Compiled:
    """A core Plan with what is needed to explain its failures."""

    __slots__ = ("plan", "run", "graph", "origins", "data", "may_block", "observed")

    def __init__(self, plan, graph, origins, data, may_block, debug_level):
        self.plan, self.graph, self.origins, self.data = plan, graph, origins, data
        self.may_block, self.observed = may_block, debug_level >= 2
        self.run = debug.observed_run(plan, debug_level) if self.observed else plan.run

    def cancellable_run(self, running):
        """`run` with a cancel token that is in the set `running` as long as the step runs."""
        run, new_token = self.run, runtime.executor().CancelToken

        def run_with_token(feeds, timeout_ms=0):
            token = new_token()
            running.add(token)
            try:
                return run(feeds, timeout_ms, token)
            finally:
                running.discard(token)
        return run_with_token

    def explain(self, failure):
        """The tf.errors exception for a StepError."""
        return failures.to_op_error(failure, self.graph, self.origins)
