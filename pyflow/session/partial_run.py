"""Partial runs: one run whose feeds arrive, and whose fetches leave, in several calls.

Each call runs a plan of its own: the nodes whose feeds have all arrived by now and that have not
run yet (partial_stages.py).  Tensors that later nodes still need are fetched and fed on.  So
nothing blocks a thread, an abandoned partial run costs nothing, and every operation runs at most
once.

Invariant: a feed is given once, a fetch taken once; after a failure every call is refused.

Threads: calls on one handle are serialised by its lock.
"""
import threading

from pyflow.framework import errors
from pyflow.session import feeds as feeds_lib


class PartialRun:
    """One partial run: what has been fed, fetched and kept so far."""

    def __init__(self, partial_graph, step_error, mapper, feeds):
        self._graph, self._error = partial_graph, step_error
        self._lock = threading.Lock()
        self._slot = {t: i for i, t in enumerate(feeds)}
        self._feeds = [feeds_lib.Feed(t) for t in feeds]
        self._fetchable = set(mapper.tensors) | set(mapper.targets)
        self._fetched, self._fed, self._fed_before = set(), 0, None
        self._failed = None
        self._values = {}                          # edge -> array, for fed and kept tensors

    @property
    def finished(self):
        """True once everything was fed and fetched: the handle is then forgotten."""
        return self._fed == (1 << len(self._feeds)) - 1 and self._fetched >= self._fetchable

    def advance(self, mapper, pairs, timeout_ms):
        """Feeds `pairs`, runs what can run, and returns the values of `mapper.tensors`."""
        with self._lock:
            self._check(mapper, pairs)
            for tensor, value in pairs:
                index = self._slot[tensor]
                edge = self._graph.arg_edges[index]
                feed = self._feeds[index]
                self._values[edge] = feed.fetched(feed.convert(value))
                self._fed |= 1 << index
            self._check_computable(mapper)
            try:
                self._run_stage(timeout_ms)
            except errors.OpError as e:
                self._failed = e
                raise
            self._fetched.update(mapper.tensors, mapper.targets)
            return [self._values[self._graph.source[t]] for t in mapper.tensors]

    def _run_stage(self, timeout_ms):
        stage = self._graph.stage(self._fed_before, self._fed)
        self._fed_before = self._fed
        if stage is None:
            return
        try:
            results = stage.compiled.run([self._values[e] for e in stage.reads], timeout_ms)
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


def _invalid(text):
    return errors.InvalidArgumentError(None, None, text)
