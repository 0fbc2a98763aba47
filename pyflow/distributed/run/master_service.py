"""MasterService: sessions for clients of other processes.

    CreateSession, ExtendSession   the client's whole graph, which becomes one of this process
    MakeCallable                   a signature of feeds and fetches, compiled once; RunCallable runs it
    PartialRunSetup, PartialRun    a step in stages, its values kept here

Invariants
1. A client whose connection is gone (Life), and which is not heard of for its lease, loses its
   sessions; a call that its client gave up is cancelled.  A client that is slow, or stopped, keeps
   them while its connection stands; it is given up after rpc.SILENCE seconds of silence.
2. What was delivered twice is done once (once.py), by the number that the client gave the call.
3. Large feeds and fetches go over the client's link (exchange.py), where there is one.
4. Errors name the client's operations; what a pass made stands for the operation it serves.

Threads: gRPC's; `_lock` guards the table of sessions, a session's own lock its compiling.
"""
import contextlib
import itertools
import threading
import time

from pyflow.distributed.look import tracing
from pyflow.distributed.run import session_state
from pyflow.distributed.run import worker as worker_lib
from pyflow.distributed.wire import exchange, messages, once, rpc
from pyflow.framework import errors, graph_io, protos
from pyflow.framework import graph as graph_lib
from pyflow.session import contract, feeds, fetches, runtime
from pyflow.session import threads as threads_lib
from pyflow.train import saved_origins

MAX_GRAPH = 1 << 31
MAX_CLIENT = 200                        # characters of what a client says that it is


class MasterService:
    """The calls of services.MASTER.  place: the server's master.Place; worker: its Worker."""

    def __init__(self, place, worker):
        self._place, self._worker = place, worker
        self._lock, self._sessions = threading.Lock(), {}
        self._numbers, self._once = itertools.count(1), once.Once(task=worker.name)
        self._exchanges = exchange.Exchanges()

    # ------------------------------------------------------------ sessions

    def CreateSession(self, request, context):
        return self._once.run(_key(request), lambda: self._create(request))

    def _create(self, request):
        config = rpc.parsed(protos.ConfigProto, request.config)
        found = _Session(self._place, request, config, self._worker.name)
        handle = f"{found.link.number:016x}"
        with self._lock:
            self._sessions[handle] = found
        found.link.on_lost = lambda: lambda why: self._forget(handle)
        return messages.CreateSessionResponse(session=handle, timeout_ms=found.timeout_ms)

    def ExtendSession(self, request, context):
        self._session(request).extend(request.graph_def, request.origin, request.version)
        return messages.Empty()

    def CloseSession(self, request, context):
        self._forget(request.session)
        return messages.Empty()

    def _forget(self, handle):
        with self._lock:
            found = self._sessions.pop(handle, None)
        if found is not None:
            found.close()

    def KeepAlive(self, request, context):
        self._session(request)
        return messages.Empty()

    def Life(self, request, context):
        """Until the client, or its connection, or the session is gone."""
        ended = self._session(request).lives(context)
        yield messages.Empty()
        ended.wait()

    def ListDevices(self, request, context):
        reply = messages.ListDevicesResponse()
        for device in self._session(request).compiler.list_devices():
            reply.device.add(name=device.name, memory_limit=device.memory_limit_bytes)
            reply.incarnation.append(device.incarnation)
        return reply

    def SessionState(self, request, context):
        link = self._session(request).link
        if request.cancel:
            link.cancel(request.cancel)
            return messages.StateResponse()
        return session_state.answer(link, request, request.everywhere)

    def Reset(self, request, context):
        def reset():
            self._place.reset(list(request.container))
            return messages.Empty()
        return self._once.run(_key(request), reset)

    def _session(self, request):
        with self._lock:
            found = self._sessions.get(request.session)
        if found is None:
            raise errors.AbortedError(
                None, None, f"Session {request.session} is not found. Possibly, this master has "
                "restarted, or the session was closed")
        found.seen = time.monotonic()
        return found

    def sweep(self, away=0.0):
        """Closes the sessions of clients that are gone.  away: as of Worker.sweep."""
        now = time.monotonic()
        with self._lock:
            for session in self._sessions.values():
                session.seen = min(now, session.seen + away)
            late = [h for h, s in self._sessions.items() if not s.busy and now - s.seen > (
                rpc.SILENCE if s.connections else s.lease(self._worker.lease))]
            gone = [self._sessions.pop(handle) for handle in late]
        for session in gone:
            session.close()

    def lost(self, peer, code, message):
        """The link to a peer, which may be a client's, is lost."""
        self._exchanges.lost(peer, code, message)

    def stop(self):
        """Closes all sessions."""
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.close()

    # ------------------------------------------------------------ steps

    def MakeCallable(self, request, context):
        session = self._session(request)
        return session.once.run(_key(request), lambda: self._make(session, request))

    def _make(self, session, request):
        own = session.link.tasks.own
        number, compiled = session.make(request)
        reply = messages.MakeCallableResponse(callable=number, graph=compiled.graphs)
        if request.explain:
            reply.ways = compiled.plan.explain()
        if compiled.core is not None:           # all here: it can be run over a link
            compiled.served = reply.served = own.adopt(session.link.number, compiled.core)
        reply.number = session.link.number
        reply.here.MergeFrom(self._here())
        return reply

    def _here(self):
        """How a client's link finds this task."""
        own = self._worker
        return messages.RouteMessage(task=own.name, incarnation=own.incarnation,
                                     link=own.links.offers)

    def ReleaseCallable(self, request, context):
        session = self._session(request)
        for number in request.callable:
            found = session.callables.pop(number, None)
            if found is not None and found.served:
                session.link.tasks.own.deregister(session.link.number, [found.served])
        return messages.Empty()

    def RunCallable(self, request, context):
        session = self._session(request)
        return session.once.run(_key(request), lambda: self._call(session, request, context))

    def _call(self, session, request, context):
        found = session.callables.get(request.callable)
        if found is None:
            raise errors.AbortedError(None, None, f"callable {request.callable} is not there")
        with self._exchange(session, request) or contextlib.nullcontext() as way:
            values, stats = self._run(session, found, request.feed, request.timeout_ms,
                                      request.trace, context, way)
        return messages.RunCallableResponse(fetch=values, step_stats=stats)

    def _exchange(self, session, request):
        """The Exchange that a call asks for, or None."""
        return self._exchanges.asked_for(request.step, session.client_task, self._worker.links,
                                         session.link.number)

    def _run(self, session, compiled, feed, timeout_ms, level, context, way):
        """([TensorMessage] of the fetches, bytes of a RunMetadata).  way: an Exchange, or None."""
        _check_timeout(timeout_ms)
        if len(feed) != compiled.n_feeds:
            raise errors.InvalidArgumentError(
                None, None, f"{len(feed)} values came for {compiled.n_feeds} fed tensors")
        trace = runtime.executor().Trace(level) if level else None
        try:
            options = contract.RunOptions(timeout_ms or session.timeout_ms, way is not None, trace)
            with session.at_work():
                arrays = _received(way, feed, context)
                results = _results(compiled.plan, arrays, options, context)
        except runtime.executor().StepError as failure:
            raise rpc.Failure(rpc.error_message(failure, "", _origin_of(compiled))) from None
        except (ValueError, TypeError) as wrong:
            raise errors.InvalidArgumentError(None, None, str(wrong)) from None
        stats = tracing.step_stats(trace) if trace is not None else b""
        fetched = zip(results, compiled.fetch_types, compiled.fetches)
        return [exchange.sent(way, f"fetch {k}", *of) for k, of in enumerate(fetched)], stats

    # ------------------------------------------------------------ steps in stages

    def PartialRunSetup(self, request, context):
        session = self._session(request)
        return session.once.run(_key(request), lambda: messages.PartialRunSetupResponse(
            handle=session.set_up(request), here=self._here(), number=session.link.number))

    def PartialRun(self, request, context):
        session = self._session(request)
        return session.once.run(_key(request), lambda: self._stage(session, request, context))

    def _stage(self, session, request, context):
        _check_timeout(request.timeout_ms)
        run = session.partial.get(request.handle)
        if run is None:
            raise errors.InvalidArgumentError(
                None, None, "Must run 'setup' before performing partial runs!")
        mapper = session.mapper(request.fetch, request.target)
        way = self._exchange(session, request)
        with session.at_work(), way or contextlib.nullcontext():
            values = _received(way, request.value, context)
            pairs = list(zip(map(session.tensor, request.feed), values, strict=True))

            def begin(compiled, args, options):
                return _results(compiled.plan, args, options, context)
            values = run.advance(mapper, pairs, request.timeout_ms, begin)
            if run.finished:
                session.partial.pop(request.handle, None)
            found = [exchange.sent(way, f"fetch {k}", v, t.dtype.base_dtype.as_datatype_enum,
                                   t.name) for k, (v, t) in enumerate(zip(values, mapper.tensors))]
        return messages.PartialRunResponse(fetch=found)


def _received(way, feed, context):
    """The values of TensorMessages; whoever waits for a large one ends with the call."""
    if way is not None and any(value.linked for value in feed) \
            and not context.add_callback(way.cancel):
        way.cancel()
    return [exchange.received(way, f"feed {k}", value) for k, value in enumerate(feed)]


def _results(plan, args, options, context):
    """Of a step that ends when its call does: its client gave it up, or is gone."""
    running = plan.start(args, options)
    if not context.add_callback(running.cancel):
        running.cancel()
    return running.result()


def _check_timeout(timeout_ms):
    if timeout_ms < 0:
        raise errors.InvalidArgumentError(None, None, f"timeout_ms is {timeout_ms}: expected 0, "
                                          "which is none, or more")


def _key(request):
    """Of a call, for Once: its number and what it is; 0: it has none."""
    return (type(request), request.call) if request.call else 0


def _origin_of(compiled):
    def origin(node):
        found = compiled.origins.get(node)
        return found.name if found is not None else ""
    return origin


class _Callable:
    """A Compiled, and what it fetches: names and types."""

    __slots__ = ("plan", "core", "origins", "graphs", "fetches", "fetch_types", "served",
                 "n_feeds")

    def __init__(self, compiled, fetches, fetch_types, n_feeds):
        self.fetches, self.n_feeds = fetches, n_feeds
        self.plan, self.origins, self.graphs = compiled.plan, compiled.origins, compiled.graphs
        self.core = compiled.core
        self.fetch_types, self.served = fetch_types, 0


class _Session:
    """A client's session: its graph here, what it compiled."""

    def __init__(self, place, request, config, task):
        self.lock, self.seen, self.busy = threading.RLock(), time.monotonic(), 0
        self._lease, self.callables, self.partial = request.lease, {}, {}
        self.once, self._count = once.Once(task=task), threading.Lock()
        self.connections = set()                # an Event for each that its client has
        self._numbers, self._client = itertools.count(1), request.process
        self.client_task = ""           # of its client's links (exchange.py)
        graph = self._imported(request.graph_def, request.origin)
        threads = threads_lib.choose(request.threads or None, config)
        opened = place.open(contract.SessionOptions(
            graph, config, threads, request.deterministic,
            timeout_ms=max(0, config.operation_timeout_in_ms)))
        self.link, self.compiler, self.timeout_ms = opened.state, opened.compiler, opened.timeout_ms
        self.compiler.client, self.link.client = self._client, request.client[:MAX_CLIENT]
        self.graph, self._version = graph, 0

    def lease(self, usual):
        """Seconds without a sign of its client."""
        return min(self._lease or usual, worker_lib.MAX_LEASE)

    @contextlib.contextmanager
    def at_work(self):
        """A call of its client is under way."""
        with self._count:
            self.busy += 1
        try:
            yield
        finally:
            self.seen = time.monotonic()
            with self._count:
                self.busy -= 1

    def lives(self, context):
        """Its client has a connection for as long as this call is: the Event that it is over."""
        ended = threading.Event()

        def over():
            self.seen = time.monotonic()
            self.connections.discard(ended)
            ended.set()
        self.connections.add(ended)
        if not context.add_callback(over):
            over()
        return ended

    @staticmethod
    def _imported(data, origins):
        if len(data) > MAX_GRAPH:
            raise errors.ResourceExhaustedError(None, None, "the graph is too large")
        graph = graph_lib.Graph()
        with graph.as_default():
            graph_io.import_graph_def(data, name="")
        saved_origins.restore(graph, origins)
        return graph

    def extend(self, data, origins, version):
        """The client's graph grew: this is the whole of it."""
        graph = self._imported(data, origins)
        with self.lock:
            if version and version <= self._version:
                return                      # a newer one came first
            self._version = version
            self.graph = graph
            self.compiler = self.compiler.of_graph(graph)

    def make(self, request):
        """(number, _Callable) of a signature."""
        with self.lock:
            fetched = [self.tensor(name) for name in request.fetch]
            targets = [self._operation(name) for name in request.target]
            fed = [self.tensor(name) for name in request.feed]
            joined = {self.tensor(j.tensor): self.tensor(j.reads) for j in request.joined} or None
            compiled = self.compiler.compile(fetched, targets, fed, joined)
            found = _Callable(compiled, [t.name for t in fetched],
                              [t.dtype.base_dtype.as_datatype_enum for t in fetched], len(fed))
            number = next(self._numbers)
            self.client_task = request.client or self.client_task
            self.callables[number] = found
        return number, found

    def mapper(self, fetch, target):
        """The FetchMapper of names."""
        return fetches.FetchMapper(self.graph, [*map(self.tensor, fetch),
                                                *map(self._operation, target)])

    def set_up(self, request):
        """Prepares a partial run; its handle."""
        with self.lock:
            self.client_task = request.client or self.client_task
            mapper = self.mapper(request.fetch, request.target)
            fed = [self.tensor(name) for name in request.feed]
            run = self.compiler.partial_run(mapper, [feeds.Feed(t, self.link) for t in fed])
            handle = f"partial_run_{next(self._numbers)}"
            self.partial[handle] = run
        return handle

    def tensor(self, name):
        """The tensor of a name.  Raises NotFoundError."""
        try:
            return self.graph.get_tensor_by_name(name)
        except (KeyError, ValueError, TypeError) as problem:
            raise errors.NotFoundError(None, None, str(problem)) from None

    def _operation(self, name):
        try:
            return self.graph.get_operation_by_name(name)
        except (KeyError, ValueError, TypeError) as problem:
            raise errors.NotFoundError(None, None, str(problem)) from None

    def close(self):
        """Ends it at every task."""
        for ended in list(self.connections):
            ended.set()
        self.link.cancel("the session was closed")
        self.link.close()
        self.callables.clear()
        self.partial.clear()
