"""Partial runs: one run whose feeds arrive, and whose fetches leave, in several calls.

Each call runs a plan of its own: the nodes whose feeds have all arrived by now and that have not
run yet (partial_stages.py).  Tensors that later nodes still need stay in the executor (its Kept) and
are fed on without a copy; only what is asked for becomes an array.  So nothing blocks a thread, an
abandoned partial run costs nothing, and every operation runs at most once.

Invariants
    1. A feed is given once, a fetch taken once; after a failure every call is refused.
    2. A value that was fed is copied when it comes: changing the array later changes nothing.

Threads: calls on one handle are serialised by its lock.
"""
import threading

from pyflow.framework import errors
from pyflow.session import contract, runtime


class PartialRun(contract.PartialRun):
    """One partial run: what has been fed, fetched and kept so far."""

    def __init__(self, partial_graph, mapper, feeds):
        self._graph, self._error = partial_graph, runtime.executor().StepError
        self._lock = threading.Lock()
        self._slot = {feed.tensor: i for i, feed in enumerate(feeds)}
        self._feeds = feeds
        self._fetchable = set(mapper.tensors) | set(mapper.targets)
        self._fetched, self._fed, self._fed_before = set(), 0, None
        self._failed = None
        self._values = {}                          # edge -> Kept, or a resource's Handle

    @property
    def finished(self):
        """True once everything was fed and fetched: the handle is then forgotten."""
        return self._fed == (1 << len(self._feeds)) - 1 and self._fetched >= self._fetchable

    def advance(self, mapper, pairs, timeout_ms, run=None):
        """Feeds `pairs`, runs what can run, and returns the values of `mapper.tensors`.
        run(compiled, args, RunOptions) -> results, instead of compiled.run."""
        with self._lock:
            self._check(mapper, pairs)
            for tensor, value in pairs:
                index = self._slot[tensor]
                edge = self._graph.arg_edges[index]
                self._values[edge] = self._feeds[index].kept(value)
                self._fed |= 1 << index
            self._check_computable(mapper)
            try:
                self._run_stage(timeout_ms, run)
            except errors.OpError as e:
                self._failed = e
                raise
            self._fetched.update(mapper.tensors, mapper.targets)
            return [_array(self._values[self._graph.source[t]]) for t in mapper.tensors]

    def _run_stage(self, timeout_ms, run):
        stage = self._graph.stage(self._fed_before, self._fed)
        self._fed_before = self._fed
        if stage is None:
            return
        try:
            args = [self._values[e] for e in stage.reads]
            options = contract.RunOptions(timeout_ms, keep=True)
            results = (stage.compiled.run(args, options) if run is None else
                       run(stage.compiled, args, options))
        except self._error as failure:
            raise stage.compiled.explain(failure) from None
        self._values.update(zip(stage.keeps, results))

    def _check(self, mapper, pairs):
        if self._failed is not None:
            raise _invalid(f"this partial run has failed before: {self._failed.message}")
        for tensor, _ in pairs:
            if tensor not in self._slot:
                raise _invalid(f"The feed {tensor.name} was not specified in partial_run_setup.")
            if self._fed >> self._slot[tensor] & 1:
                raise _invalid(f"The feed {tensor.name} has already been fed.")
        for element in (*mapper.tensors, *mapper.targets):
            if element not in self._fetchable:
                raise _invalid(f"The fetch {element.name} was not specified in partial_run_setup.")
            if element in self._fetched:
                raise _invalid(f"The fetch {element.name} has already been fetched.")

    def _check_computable(self, mapper):
        for element in (*mapper.tensors, *mapper.targets):
            lacking = self._graph.needs(element) & ~self._fed
            if lacking:
                names = [f.tensor.name for i, f in enumerate(self._feeds) if lacking >> i & 1]
                raise _invalid(f"Fetch {element.name} can't be computed from the feeds that have "
                               f"been fed so far. Feed {', '.join(names)} first.")


def _array(value):
    return value.array() if isinstance(value, runtime.executor().Kept) else value


def _invalid(text):
    return errors.InvalidArgumentError(None, None, text)
