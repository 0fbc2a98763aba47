"""Evaluates small pass graphs without feeds: what constant folding asks for.

Invariants
    1. Everything runs on the first CPU device, with the session's pool, in a state of its own:
       nothing of the session changes.
    2. A failure is `Unfoldable` with the node's name; it is no error of the user's program here.

Threads: called while a plan is compiled, under the session's lock.

    arrays = Evaluator(pool, devices, PlanOptions())(pass_graph)      # one per `_Retval`
"""
import numpy as np

from pyflow.passes import wire
from pyflow.passes.fold import Unfoldable
from pyflow.session import runtime


class Evaluator:
    """Calls compile and run one plan and give its results as arrays."""

    def __init__(self, pool, devices, options):
        self._pool = pool
        self._device = next((n for n in devices.names if "/device:CPU:" in n), devices.default)
        self._options = options

    def __call__(self, graph):
        """[ndarray] of the graph's fetches; raises Unfoldable."""
        for node in graph.nodes:
            node.device = self._device
        data, consts = wire.graph_bytes(graph)
        runtime.declare_ops()
        executor = runtime.executor()
        state = executor.State("folding")
        try:
            plan = executor.compile(data, consts, state, self._pool, self._options)
            results = plan.run()
        except executor.StepError as failure:
            raise Unfoldable(failure.node) from None
        finally:
            state.close()
        return [_array(value) for value in results]


def _array(value):
    if isinstance(value, (bytes, str)):
        array = np.empty((), object)
        array[()] = value
        return array
    return np.asarray(value)
