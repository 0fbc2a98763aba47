"""Sessions at a server of another process: `tf.Session("grpc://host:port")`.

    open      CreateSession, with the whole graph; ExtendSession where it grew since
    compile   MakeCallable: once per signature of feeds and fetches
    run       a RUN over a link, where all of it lies at the server; else RunCallable, whose large
              values go over the link (exchange.py)

Invariants
1. An error that came from there names this process's operation and line.
2. While a session is open, a stream of it to its server is (Life): a client whose Python is slow,
   or that is stopped, keeps its session while that stands. Where it broke, the server hears of the
   client four times per lease.

Threads: any.
"""
import contextlib
import itertools
import os
import socket
import sys
import threading
import types
import weakref

from pyflow.distributed.look import asking, probe, why
from pyflow.distributed.run import cluster_step, remote_worker, worker
from pyflow.distributed.wire import exchange, links, messages, rpc, security, services, tensors
from pyflow.distributed.wire.channels import Channels
from pyflow.framework import errors, protos
from pyflow.session import contract, failures, metadata, plans, runtime
from pyflow.session import devices as devices_lib
from pyflow.train import saved_origins

LOOK_SECONDS = 0.5                      # between looks whether a log should say who is waited for
LEASE = 10.0
MOST_OF_A_RUN = 1 << 30                 # bytes of feeds that go in one frame
_step_numbers = itertools.count(exchange.FIRST | int.from_bytes(os.urandom(5), "little") << 20)
    # beside those that the server's own master counts from 1 in the same session


def place_of(target):
    """The place of "grpc://host:port"."""
    return Place(target.partition("://")[2], security.Credentials.of_environment())


class Place(contract.Place):
    """Sessions at one address.  credentials: security.Credentials, or None."""

    def __init__(self, address, credentials):
        self.address = address
        self._channels = Channels(credentials)

    def open(self, options):
        """The session's Opened."""
        runtime.start()
        if options.costs is not None or options.inspection is not None:
            raise errors.UnimplementedError(
                None, None, "cost-driven placement, debug mode and numeric checks need the session "
                f"in the server's process; this one is at {self.address}")
        runtime.declare_ops()
        link = Link(self, options)
        pools = devices_lib.Pools(options.config, options.threads)
        return contract.Opened(link, pools, Compiler(link), options.timeout_ms or link.timeout_ms)

    def reset(self, containers, timeout=None):
        """As master.Place.reset."""
        self.call_when_there("Reset", messages.ResetRequest(
            container=containers, call=remote_worker.new_call()), timeout)

    def channel(self):
        """The grpc channel to the server."""
        return self._channels.get(self.address)

    def call(self, call, request, timeout=None, begun=None):
        """A call of MasterService.  begun(future): what cancels it.  Raises StepError."""
        stub = rpc.Stub(self.channel(), "MasterService",
                        {call: services.MASTER[call]})
        try:
            if begun is None:
                return getattr(stub, call)(request, timeout=timeout)
            future = getattr(stub, call).future(request, timeout=timeout)
            begun(future)
            return future.result()
        except protos.EncodeError as problem:
            raise _too_large(problem) from None
        except Exception as problem:
            if not hasattr(problem, "trailing_metadata"):
                raise
            raise rpc.of_call(problem, call, "the server", self.address,
                              runtime.executor().StepError) from None

    def life(self, handle):
        """A call that is under way as long as this process and its connection are: gRPC's threads
        see to that, which need no Python."""
        stub = rpc.Stub(self.channel(), "MasterService", {"Life": services.MASTER["Life"]})
        return stub.Life(messages.CloseSessionRequest(session=handle))

    def call_when_there(self, call, request, timeout=None):
        """As `call`, once a process listens there: for so many seconds, or as long as it takes; a
        log says meanwhile why nobody answers."""
        stub = rpc.Stub(self.channel(), "MasterService", {call: services.MASTER[call]})
        future = getattr(stub, call).future(request, timeout=timeout, wait_for_ready=True)
        told = remote_worker.Waiting(f"{call} still waits for the server at {self.address}",
                                     self.address, self._channels.credentials)
        try:
            while True:
                try:
                    return future.result(LOOK_SECONDS)
                except security.grpc().FutureTimeoutError:
                    told.look()
        except security.grpc().RpcError as problem:
            raise self._explained(rpc.of_call(problem, call, "the server", self.address,
                                              runtime.executor().StepError), timeout) from None
        finally:
            future.cancel()

    def _explained(self, failure, timeout):
        if failure.code == errors.DEADLINE_EXCEEDED and timeout:
            failure.message = (f"the server at {self.address} did not answer for {timeout:g} s: "
                               f"{self._why_silent()}")
        return failure

    def _why_silent(self):
        return probe.reason(self.address, credentials=self._channels.credentials)


class Link(contract.State):
    """One session at a server."""

    def __init__(self, place, options):
        graph, config, timeout_ms = options.graph, options.config, options.timeout_ms
        self._place, self.graph, self._lock, self.way = place, graph, threading.Lock(), Way(place)
        self._synced, self._over, self._dropped = self._version(), threading.Event(), []
        request = messages.CreateSessionRequest(
            graph_def=graph.as_graph_def().SerializeToString(),
            config=config.SerializeToString() if config is not None else b"",
            origin=saved_origins.items_of(graph.get_operations()),
            deterministic=options.deterministic, lease=LEASE, threads=options.threads,
            process=worker.PROCESS, call=remote_worker.new_call(),
            client=f"process {os.getpid()} on {socket.gethostname()}")
        try:
            reply = place.call_when_there(
                "CreateSession", request, timeout_ms / 1000 if timeout_ms else None)
        except runtime.executor().StepError as failure:
            failure.explained = False           # a user is to read who said it, besides
            raise failures.to_op_error(failure, graph, {}) from None
        self.handle, self.timeout_ms = reply.session, reply.timeout_ms     # the server's own
        beat = threading.Thread(target=_beat, args=(weakref.ref(self), place, self.handle,
                                                    self._over), daemon=True)
        beat.start()

    def _version(self):
        return self.graph.revision

    def call(self, call, request, timeout=None, begun=None):
        """A call about this session; as Place.call."""
        request.session = self.handle
        return self._place.call(call, request, timeout, begun)

    def sync(self):
        """The server has the graph as it is now."""
        with self._lock:
            if self._version() != self._synced:
                version = self._version()
                self.call("ExtendSession", messages.ExtendSessionRequest(
                    graph_def=self.graph.as_graph_def().SerializeToString(), version=version,
                    origin=saved_origins.items_of(self.graph.get_operations())))
                self._synced = version

    # ------------------------------------------------------------ what Session asks of its state

    def cancel(self, why="cancelled"):
        """Ends every step that runs."""
        self._over.set()
        self._quietly("SessionState", messages.SessionStateRequest(cancel=why))

    def close(self):
        """Closes it there; a server that does not answer closes it when its lease is over."""
        self._over.set()
        self._quietly("CloseSession", messages.CloseSessionRequest())

    def abandon(self):
        """Closes it on another thread, for finalisers run within anything; its lease does where no
        thread begins any more."""
        self._over.set()
        if sys.is_finalizing():
            return
        threading.Thread(target=self.close, name="pyflow-close", daemon=True).start()

    def drop(self, number):
        """A callable is not needed any more: the server hears so with the next sign of life."""
        self._dropped.append(number)

    def _let_go(self):
        numbers = [self._dropped.pop() for _ in range(len(self._dropped))]
        if numbers:
            self._quietly("ReleaseCallable", messages.ReleaseCallableRequest(callable=numbers))

    def streams(self):
        """As State.streams."""
        return self.call("SessionState", messages.SessionStateRequest()).streams

    def set_streams(self, data):
        """As State.set_streams."""
        self.call("SessionState", messages.SessionStateRequest(streams=data, set=True))

    def seek(self, position, shard=0, everywhere=False):
        """As State.seek, of the server's task or all."""
        self.call("SessionState", messages.SessionStateRequest(
            seek=True, position=position, shard=shard, everywhere=everywhere))

    def kept(self, name):
        """As State.kept."""
        reply = self.call("SessionState", messages.SessionStateRequest(kept=name))
        if not reply.found:
            return None
        return runtime.executor().Kept.of(tensors.decode(reply.kept), reply.kept.dtype)

    def forget(self, name):
        """As State.forget."""
        return self.call("SessionState", messages.SessionStateRequest(forget=[name])).found

    def _quietly(self, call, request):
        try:
            self.call(call, request, 2.0)
        except runtime.executor().StepError:
            pass


def _beat(link, place, handle, over):
    """Signs of life, as long as the session is there."""
    life = None
    try:
        while True:
            if life is None or life.done():     # new, or it broke
                life = place.life(handle)
            if over.wait(LEASE / 4):
                return
            alive = link()
            if alive is None:
                return
            alive._let_go()
            del alive
            try:
                place.call("KeepAlive", messages.CloseSessionRequest(session=handle), 2.0)
            except runtime.executor().StepError:
                pass
    finally:
        if life is not None:
            life.cancel()


class Compiler(contract.Compiler):
    """Answered by the server."""

    def __init__(self, link):
        self.link = link

    def on_pool(self, pool):
        """The server has its own."""
        return self

    def compile(self, tensors, targets, feeds, joined=None):
        """As contract.Compiler.compile.  It is the server that observes its steps."""
        request = messages.MakeCallableRequest(
            feed=[t.name for t in feeds], fetch=[t.name for t in tensors],
            target=[op.name for op in targets], call=remote_worker.new_call(),
            client=own_links().task)
        for tensor, reads in (joined or {}).items():
            request.joined.add(tensor=tensor.name, reads=reads.name)
        with failures.typed(self.link.graph):
            self.link.sync()
            reply = self.link.call("MakeCallable", request)
        types_ = [t.dtype.base_dtype.as_datatype_enum for t in feeds]
        return plans.Compiled(Plan(self.link, reply, types_, request), self.link.graph, {},
                              list(reply.graph))

    def partial_run(self, mapper, feeds):
        """A run in stages, as partial_run.PartialRun."""
        return PartialRun(self.link, mapper, feeds)

    def list_devices(self):
        """[DeviceAttributes] of the cluster."""
        reply = self.link.call("ListDevices", messages.ListDevicesRequest())
        return [devices_lib.DeviceAttributes(d.name, d.memory_limit, n)
                for d, n in zip(reply.device, reply.incarnation)]


def _too_large(problem):
    """The StepError of a message that cannot be written."""
    found = rpc.error_message(problem)
    return runtime.executor().StepError(found.code, found.message)


_own_lock = threading.Lock()
_own = None


def own_links():
    """The links of this process as a client: as a task of its own, with a name that no other has."""
    global _own
    with _own_lock:
        if _own is None or _own.process != worker.PROCESS:
            number = int.from_bytes(worker.PROCESS[:4], "little") >> 1
            task = runtime.executor().Task(f"{exchange.CLIENTS}{number}")   # core/net/frames.h
            exchanges = exchange.Exchanges()
            _own = links.Links(types.SimpleNamespace(task=task, name=task.name),
                               links.chosen(), listen=False,
                               lost=lambda name, _, code, text: exchanges.lost(name, code, text))
            _own.exchanges, _own.process, _own.task = exchanges, worker.PROCESS, task.name
        return _own


class Way:
    """The link to a session's server, made when it is first asked for, and anew if it was lost."""

    def __init__(self, place):
        self._place, self._here, self._net = place, None, None

    def leads_to(self, here):
        """here: the RouteMessage of the server's task."""
        self._here = here
        self.net()

    def net(self):
        """The Net that is connected with the server; None: there is no way, or another server."""
        if self._net is None and self._here is not None:
            own, here = own_links(), self._here
            try:
                if own.connect(here.task, here.incarnation, here.link, self._place.channel):
                    self._net = own.net
            except runtime.executor().StepError:
                pass                    # another one by now: the next call says so
        return self._net

    @property
    def peer(self):
        """The server's task."""
        return self._here.task

    def lost(self):
        """It did not serve: the next that asks for it connects again."""
        self._net = None

    def exchange(self, session):
        """The Exchange for one call about the session of that number; None without a link."""
        if self.net() is None:
            return None
        own = own_links()
        return own.exchanges.begin(own, self.peer, session, next(_step_numbers))


class Plan(contract.Plan):
    """A callable of the server's.

    One whose nodes all lie on the server's task is run over a link, where there is one."""

    def __init__(self, link, reply, types, request):
        self._request, self.arg_names = request, list(request.feed)
        self._served, self._session, self._way = reply.served, reply.number, link.way
        self._way.leads_to(reply.here)
        self._link, self._number, self._types = link, reply.callable, types

    def run(self, feeds=(), options=None):
        """As contract.Plan.run.  Raises StepError, UNIMPLEMENTED, for what looks at one process."""
        options = self._checked(feeds, options)
        if self._goes_linked(feeds, options):
            return self._run_linked(feeds, options)
        return self._run_called(feeds, options)

    def start(self, feeds=(), options=None, done=None, key=None, by=contract.BY_POOL):
        """As contract.Plan.start, on a thread of its own."""
        options = self._checked(feeds, options)
        if key is not None:
            raise ValueError("a server's step has a key of the server's")
        running = Running(done)
        run = self._run_linked if self._goes_linked(feeds, options) else self._run_called
        running.begin(lambda: run(feeds, options, running.begun))
        return running

    def _checked(self, feeds, options):
        if len(feeds) != len(self._types):
            raise ValueError(f"the step takes {len(self._types)} arguments, got {len(feeds)}")
        if options is None:
            return _USUAL
        cluster_step.require_anywhere(options)
        return options

    def _goes_linked(self, feeds, options):
        return self._served and options.trace is None and self._way.net() is not None and \
            _fits_a_run(feeds)

    def _run_called(self, args, options, begun=None):
        way = self._way.exchange(self._session)
        with way or contextlib.nullcontext():
            return self._call(args, options, way, begun)

    def _call(self, args, options, way, begun):
        timeout_ms, trace = options.timeout_ms, options.trace
        request = messages.RunCallableRequest(
            call=remote_worker.new_call(), callable=self._number, timeout_ms=timeout_ms,
            trace=3 if trace is not None else 0, step=way.step if way is not None else 0)
        try:
            request.feed.extend(
                exchange.sent(way, f"feed {k}", *fed)
                for k, fed in enumerate(zip(args, self._types, self._request.feed)))
            reply = self._link.call("RunCallable", request,
                                    timeout_ms / 1000 + 2.0 if timeout_ms else None, begun)
            values = [exchange.received(way, f"fetch {k}", value)
                      for k, value in enumerate(reply.fetch)]
        except protos.EncodeError as problem:
            raise _too_large(problem) from None
        except runtime.executor().StepError as failure:
            if failure.code == errors.UNAVAILABLE:
                self._way.lost()
            raise
        if reply.step_stats and trace is not None:
            metadata.add_elsewhere(trace, reply.step_stats)
        if options.keep:
            return [_as_kept(value, message.dtype) for value, message in zip(values, reply.fetch)]
        return [remote_worker.as_result(value) for value in values]

    def _run_linked(self, args, options, begun=None):
        net, step, lent, timeout_ms = self._way.net(), next(_step_numbers), [], options.timeout_ms
        until = (timeout_ms + cluster_step.BACKSTOP_MS) / 1000 if timeout_ms else None
        try:
            running = net.run(self._way.peer, self._served, self._session, step,
                              [_lent(a, t, lent) for a, t in zip(args, self._types)], self._types,
                              until, keep=options.keep)
        except runtime.executor().StepError:
            self._way.lost()
            raise
        try:
            if begun is not None:
                begun(running)
            return running.result(timeout_ms / 1000 if timeout_ms else None)
        except TimeoutError:
            late = self._lateness(step, timeout_ms)
            running.cancel()
            raise late from None
        except BaseException as failure:
            if getattr(failure, "code", None) == errors.UNAVAILABLE:
                self._way.lost()
            running.cancel()
            raise
        finally:
            net.clean(self._way.peer, self._session, step, soon=True)
            for loan in lent:
                loan.end()

    def _lateness(self, step, timeout_ms):
        """The StepError of a deadline that has passed."""
        place = self._link._place
        try:
            with asking.Cluster(place.address, place._channels.credentials,
                                cluster_step.ASKING) as seen:
                found = why.explain(seen.asker, (self._session, step), seen.tasks)
        except asking.Unreachable as problem:
            found = str(problem)
        return runtime.executor().StepError(
            errors.DEADLINE_EXCEEDED, f"the step was not over within {timeout_ms} ms: {found}")

    def explain(self):
        """As ClusterPlan.explain: the server says."""
        request = messages.MakeCallableRequest()
        request.CopyFrom(self._request)
        request.explain, request.call = True, remote_worker.new_call()
        with failures.typed(self._link.graph):
            reply = self._link.call("MakeCallable", request)
        self._link._quietly("ReleaseCallable",
                            messages.ReleaseCallableRequest(callable=[reply.callable]))
        return reply.ways

    def counts(self):
        """As contract.Plan.counts: nothing is known here."""
        return {}

    def __del__(self):
        self._link.drop(self._number)


_USUAL = contract.RunOptions()


def _as_kept(value, type):
    kept = runtime.executor().Kept
    return value if isinstance(value, kept) else kept.of(value, type)


def _fits_a_run(args):
    """The values are few enough bytes for one frame; else each goes by itself."""
    return sum(getattr(a, "nbytes", 0) for a in args) <= MOST_OF_A_RUN


def _lent(value, type, loans):
    """A large array, so that it is sent without being copied first; else the value itself."""
    if getattr(value, "nbytes", 0) <= exchange.LARGE or value.dtype == object:
        return value
    try:
        loans.append(runtime.executor().Lent(value, type))
    except ValueError:                  # it has to be converted, which copies it
        return value
    return loans[-1].tensor


class Running(contract.Running):
    """A step at the server, which a thread waits for."""

    def __init__(self, done):
        self._done, self._over, self._lock = done, threading.Event(), threading.Lock()
        self._value, self._problem = None, None
        self._call, self._why = None, None          # what cancels it; why it was cancelled

    def begin(self, run):
        """Runs it, on a thread that ends with it."""
        threading.Thread(target=self._do, args=(run,), name="pyflow-step", daemon=True).start()

    def begun(self, call):
        """It is under way: call.cancel() ends it."""
        with self._lock:
            self._call, why = call, self._why
        if why is not None:
            call.cancel()

    def _do(self, run):
        try:
            self._value = run()
        except BaseException as problem:
            self._problem = problem
        if self._why is not None and self._problem is not None:
            self._problem = runtime.executor().StepError(errors.CANCELLED, self._why)
        self._over.set()
        if self._done is not None:
            self._done(self)

    def done(self):
        """As contract.Running.done."""
        return self._over.is_set()

    def wait(self, timeout=None):
        """As contract.Running.wait."""
        return self._over.wait(timeout)

    def result(self, timeout=None):
        """As contract.Running.result."""
        if not self._over.wait(timeout):
            raise TimeoutError("the step is still running")
        if self._problem is not None:
            raise self._problem
        if self._value is None:
            raise RuntimeError("the results of this step were taken already")
        value, self._value = self._value, None
        return value

    def cancel(self, why="cancelled"):
        """As contract.Running.cancel."""
        with self._lock:
            if self._over.is_set() or self._why is not None:
                return
            self._why, call = why, self._call
        if call is not None:
            call.cancel()


class PartialRun(contract.PartialRun):
    """A run in stages whose values stay at the server."""

    def __init__(self, link, mapper, feeds):
        self._link, self._feeds = link, feeds
        self._left = {*(t.name for t in mapper.tensors), *(op.name for op in mapper.targets)}
        self.finished = False
        with failures.typed(link.graph):
            link.sync()
            reply = link.call("PartialRunSetup", messages.PartialRunSetupRequest(
                feed=[f.tensor.name for f in feeds], fetch=[t.name for t in mapper.tensors],
                target=[op.name for op in mapper.targets], call=remote_worker.new_call(),
                client=own_links().task))
            self._handle, self._session = reply.handle, reply.number
            link.way.leads_to(reply.here)

    def advance(self, mapper, pairs, timeout_ms):
        """The values of the fetches, with these feeds."""
        feeds = {f.tensor: f for f in self._feeds}
        request = messages.PartialRunRequest(
            handle=self._handle, fetch=[t.name for t in mapper.tensors],
            target=[op.name for op in mapper.targets], timeout_ms=timeout_ms,
            call=remote_worker.new_call())
        converted = []
        for tensor, value in pairs:
            feed = feeds.get(tensor)
            if feed is None:
                raise errors.InvalidArgumentError(
                    None, None,
                    f"The feed {tensor.name} was not specified in partial_run_setup.")
            request.feed.append(tensor.name)
            converted.append((feed.convert(value), tensor.dtype.base_dtype.as_datatype_enum))
        way = self._link.way.exchange(self._session)
        with failures.typed(self._link.graph), way or contextlib.nullcontext():
            values = self._advance(request, converted, way)
        self._left -= {*request.fetch, *request.target}
        self.finished = not self._left
        return [remote_worker.as_result(value) for value in values]

    def _advance(self, request, converted, way):
        try:
            request.value.extend(
                exchange.sent(way, f"feed {k}", *fed, tensor)
                for k, (fed, tensor) in enumerate(zip(converted, request.feed)))
        except protos.EncodeError as problem:
            raise _too_large(problem) from None
        request.step = way.step if way is not None else 0
        reply = self._link.call("PartialRun", request)
        return [exchange.received(way, f"fetch {k}", v) for k, v in enumerate(reply.fetch)]
