"""Sessions that look at every kernel: Session(check_numerics=True) and Session(debug=True).

check_numerics  NaN and Inf are errors where they are born, in loops, branches and optimisers too;
                the error names the op, its line and its inputs.  Kernels run as always, on all
                threads; the graph is the user's own.
debug           op by op, in construction order, on the calling thread.  An error is raised in a
                frame at the line that made the op, with `op`, `name`, `inputs` and `outputs`
                (arrays by tensor name) as locals: the traceback ends there, and `pdb.pm()` goes
                there.  Breakpoints: a debugger's own (file and line), and `Session.debug_break`;
                in pdb, `s` goes on to the next op.  NaN and Inf as above.

Invariants
    1. The graph that runs is the one the user built: no rewrites, no compiled groups.
    2. Values shown are read-only and stay as they were.

Threads: any; runs of a session in debug mode are independent of each other.
"""
import dataclasses
import fnmatch
import os
import pdb
import re
import sys

from pyflow import config as env
from pyflow.passes.options import Options as Rewrites
from pyflow.session import contract, failures, runtime, user_frames


def choose(debug, check_numerics):
    """The Inspection for Session(debug=, check_numerics=), or None; what is None there is as the
    environment says."""
    if debug is None:
        debug = env.value("PYFLOW_DEBUG_RUN")
    if check_numerics is None:
        check_numerics = bool(debug) or env.value("PYFLOW_CHECK_NUMERICS")
    return Inspection(bool(debug), bool(check_numerics)) if debug or check_numerics else None


class Inspection:
    """How a session looks at its kernels.

    debug: op by op.  numerics: NaN and Inf are errors.  breaks(name): stop at that op?
    """

    def __init__(self, debug, numerics):
        self.debug, self.numerics = debug, numerics
        self.breaks = _never

    def plan_options(self, options):
        """The CompileOptions of plans that are looked at."""
        options = dataclasses.replace(options.of_plan(groups=False), inspection=self)
        if self.debug:
            options = dataclasses.replace(
                options.of_plan(threads=1, blocks=False, ordered=True), partitions="one")
        return options

    @staticmethod
    def rewrites(chosen):
        """No rewrite but what the user asked for by name: recomputation and swapping."""
        return dataclasses.replace(Rewrites.none(), memory=chosen.memory)

    def run_of(self, plan, graph, origins):
        """A function like `plan.run` that looks at the kernels; graph, origins: as in
        failures.to_op_error."""
        new = runtime.executor().Inspector
        if self.debug:
            return lambda feeds=(), options=None: _Watch(plan, graph, origins, self).run(
                feeds, options)
        return lambda feeds=(), options=None: plan.run(
            feeds, _inspecting(options, new(numerics=True)))

    def stop_at(self, names):
        """Breakpoints at ops whose names match one of `names`: fnmatch patterns, Operations or
        Tensors."""
        names = [getattr(getattr(n, "op", n), "name", n) for n in names]
        self.breaks = re.compile("|".join(map(fnmatch.translate, names))).match if names else _never


class _Watch:
    """One step in debug mode."""

    def __init__(self, plan, graph, origins, inspection):
        self._plan, self._graph, self._origins = plan, graph, origins
        self._inspection, self._failed = inspection, None

    def run(self, feeds, options):
        executor = runtime.executor()
        inspector = executor.Inspector(self._before, self._remember, self._inspection.numerics,
                                       ordered=True)
        try:
            with executor.PyFuncFailures() as raised:
                return self._plan.run(feeds, _inspecting(options, inspector))
        except executor.StepError as failure:
            error = failures.to_op_error(failure, self._graph, self._origins)
            node = failure.node
        op = getattr(error, "op", None)
        if op is None:
            raise error
        failed = self._failed
        _, inputs, outputs = failed if failed and failed[0] == node else (node, [], [])
        user_frames.raise_at(op.origin, _locals(op, inputs, outputs), error, raised.last)

    def _remember(self, name, inputs, outputs):
        if self._failed is None:
            self._failed = name, inputs, outputs

    def _before(self, name, inputs):
        wanted = self._inspection.breaks(name)
        if wanted or sys.gettrace() is not None:
            op = self._graph._get_operation_by_name_unsafe(name)
            if op is not None:
                user_frames.call_at(op.origin, _locals(op, inputs, []),
                                    _stop if wanted else _nothing)


def _inspecting(options, inspector):
    return dataclasses.replace(options or contract.RunOptions(), inspect=inspector)


def _locals(op, inputs, outputs):
    return {"op": op, "name": op.name, "inputs": _by_name(op.inputs, inputs),
            "outputs": _by_name(op.outputs, outputs)}


def _by_name(tensors, values):
    return {tensor.name: value for tensor, value in zip(tensors, values)}


def _nothing():
    pass


def _never(name):
    return False


def _stop():
    """A breakpoint in the caller's frame; pdb does not stop inside of pyflow."""
    if sys.breakpointhook is sys.__breakpointhook__ and not os.environ.get("PYTHONBREAKPOINT"):
        pdb.Pdb(skip=["pyflow", "pyflow.*"]).set_trace(sys._getframe(1))
    else:
        sys.breakpointhook()
