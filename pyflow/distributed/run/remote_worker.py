"""A worker of another process, with the methods of worker.Worker that a master calls.

    worker = RemoteWorker("/job:ps/replica:0/task:0", "localhost:2222")
    worker.status()                     # a call of its own
    worker.start(graph, args, done=print, key=(7, 1))

Steps go over the link (links.py), the best that there is; traced ones, and what is seldom said, over
a Connect stream that is kept open.

Invariants
1. It means one incarnation, that of its first `status`: a server restarted behind the address
   answers ABORTED.
2. When the link or the stream breaks, every step that runs on it ends with UNAVAILABLE, at once.
3. `done` is called once per `start` that has one, on a thread that reads.

Threads: any.
"""
import itertools
import logging
import os
import queue
import threading
import time

from pyflow.distributed.look import clocks, probe
from pyflow.distributed.run import worker_service
from pyflow.distributed.wire import messages, rpc, security, services, tensors
from pyflow.framework import errors
from pyflow.session import contract, metadata, runtime

STATUS_SECONDS = 10.0                   # for a server that listens to answer
OFFSET_SECONDS = 30.0                   # clocks drift: then their offset is measured anew
MOST_AT_ONCE = (1 << 32) - (1 << 20)    # bytes that go in one frame of a link (core/net/codec.c)
DEREGISTER_SECONDS = 2.0                # what is not forgotten now goes with its session
LEVEL = 3                               # of what is traced at another task: all outputs
LOOK_SECONDS = 1.0                      # between looks whether it is still waited for
SAY_SECONDS, SAY_AGAIN_SECONDS = 2.0, 10.0  # until a log says who is waited for, and between
_log = logging.getLogger("pyflow")


class Waiting:
    """Says in a log who is waited for, soon and then every SAY_AGAIN_SECONDS, and why.  what: the
    sentence's beginning; address: whose; credentials: with which it is asked, or None."""

    def __init__(self, what, address, credentials):
        self._what, self._address, self._credentials = what, address, credentials
        self._next = time.monotonic() + SAY_SECONDS

    def look(self):
        """Says it if it is time to.  Raises StepError, UNAUTHENTICATED, where a certificate is the
        reason: waiting makes it no better."""
        if time.monotonic() < self._next:
            return
        refused = security.why_unauthenticated(self._address, self._credentials, LOOK_SECONDS)
        if refused is not None:
            raise runtime.executor().StepError(errors.UNAUTHENTICATED, refused)
        _log.warning("%s: %s", self._what,
                     probe.reason(self._address, credentials=self._credentials))
        self._next = time.monotonic() + SAY_AGAIN_SECONDS


class Stream:
    """A Connect stream to a worker, kept open: what is seldom said, in order.

    me: (task, incarnation, epoch) of who speaks; expected: the incarnation that is meant, 0: any."""

    def __init__(self, channel, task, address, me, expected=0):
        self.task, self.address = task, address
        self._requests, self._lock = queue.SimpleQueue(), threading.Lock()
        self._waiting, self._numbers = {}, itertools.count(1)
        self.broken = None              # the ErrorMessage that ended it
        stub = rpc.Stub(channel, "WorkerService", {"Connect": services.WORKER["Connect"]})
        hello = messages.HelloMessage(task=me[0], incarnation=me[1], expected=expected,
                                      epoch=me[2])
        self._requests.put(messages.ConnectMessage(hello=hello))
        self._call = stub.Connect(iter(self._requests.get, None))
        threading.Thread(target=self._read, name="pyflow-stream", daemon=True).start()

    def send(self, message, ran=None):
        """Sends a ConnectMessage; ran(RunGraphResponse) when its answer is there, or the stream
        broke.  Its number.  Raises StepError on a broken stream."""
        number = 0
        with self._lock:
            if self.broken is not None:
                raise rpc.of_message(self.broken, runtime.executor().StepError)
            if ran is not None:
                number = message.number = next(self._numbers)
                self._waiting[number] = ran
            self._requests.put(message)
        return number

    def _read(self):
        failure = None
        try:
            for message in self._call:
                if message.HasField("ran"):
                    self._end(message)
                if message.HasField("error"):
                    failure = message.error
                    break
        except Exception as problem:
            failure = self._message_of(problem)
        self._break(failure or messages.ErrorMessage(
            code=errors.UNAVAILABLE, task=self.task,
            message=f"{self.task} at {self.address} closed its connection"))

    def _end(self, message):
        with self._lock:
            ran = self._waiting.pop(message.number, None)
        if ran is not None:
            ran(message.ran)

    def _message_of(self, problem):
        if not hasattr(problem, "trailing_metadata"):
            return rpc.error_message(problem, self.task)
        failure = rpc.of_call(problem, "Connect", self.task, self.address,
                              runtime.executor().StepError)
        if failure.code in (errors.CANCELLED, errors.INTERNAL, errors.UNKNOWN):  # cut: the peer is gone
            failure.code = errors.UNAVAILABLE
        return rpc.error_message(failure, self.task)

    def _break(self, message):
        with self._lock:
            if self.broken is None:
                self.broken = message
            waiting, self._waiting = self._waiting, {}
        self._requests.put(None)
        self._call.cancel()
        for ran in waiting.values():
            ran(messages.RunGraphResponse(error=message))

    def close(self, code=errors.CANCELLED):
        """Ends it; what waits fails."""
        self._break(messages.ErrorMessage(code=code, task=self.task,
                                          message=f"{self.task} is no longer at {self.address}"))


class Running(contract.Running):
    """A step on another worker, asked for over a stream."""

    __slots__ = ("_stream", "_number", "_keep", "_reply", "_over", "_taken")

    def __init__(self, stream, keep):
        self._stream, self._number, self._keep = stream, 0, keep
        self._reply, self._over, self._taken = None, threading.Event(), False

    def ended(self, reply):
        """Its RunGraphResponse is there."""
        self._reply = reply
        self._over.set()

    def cancel(self, why="cancelled"):
        """As contract.Running.cancel; the other side says why."""
        try:
            self._stream.send(messages.ConnectMessage(number=self._number, cancel=True))
        except runtime.executor().StepError:
            pass                        # broken: it has ended

    def done(self):
        """As contract.Running.done."""
        return self._reply is not None

    def wait(self, timeout=None):
        """As contract.Running.wait."""
        return self._over.wait(timeout)

    def result(self, timeout=None):
        """As contract.Running.result."""
        if not self.wait(timeout):
            raise TimeoutError("the step is still running")
        if self._taken:
            raise RuntimeError("the results of this step were taken already")
        self._taken = True
        if self._reply.HasField("error"):
            raise rpc.of_message(self._reply.error, runtime.executor().StepError)
        values = [tensors.decode(ret) for ret in self._reply.ret]
        if self._keep:
            kept = runtime.executor().Kept
            return [kept.of(v, ret.dtype) for v, ret in zip(values, self._reply.ret)]
        return [as_result(value) for value in values]


def new_call():
    """A number for a call, by which it is known if it comes twice."""
    return int.from_bytes(os.urandom(8), "little") | 1


def as_result(value):
    """As a step of this process gives it: an array of its own, a NumPy scalar, or bytes.  value:
    such, or a Kept."""
    if isinstance(value, bytes):
        return value
    if hasattr(value, "on_host"):
        return value.handed_over()
    return value[()] if value.ndim == 0 else value.copy()


class RemoteWorker(contract.Worker):
    """A task behind an address.  channels: a Channels; me: (task, incarnation, epoch) of the master's;
    links: the Links of the master's task, or None."""

    local = False

    def __init__(self, name, address, channels, me, links=None):
        self.name, self.address, self._channels, self._me = name, address, channels, me
        self._links, self.link = links, None
        self._types = {}                            # session: {graph: element types of its feeds}
        self._lock, self._stream, self._status = threading.Lock(), None, None
        self._closed = False
        self._waiting, self._calling = 0, 0         # calls that wait for it to be there; others
        self._offset = None                         # (ns, when it was measured)

    def __repr__(self):
        return f"<RemoteWorker {self.name} at {self.address}>"

    @property
    def incarnation(self):
        """Of the server that answered first."""
        return self.status().incarnation

    def status(self, timeout=STATUS_SECONDS, fresh=False, given_up=lambda: False):
        """Its GetStatusResponse, asked once.  Raises StepError, UNAVAILABLE or DEADLINE_EXCEEDED
        with the address, if nobody answers."""
        if self._status is None or fresh:
            found = self._wait_for("GetStatus", messages.GetStatusRequest(), timeout, given_up)
            if found.task != self.name:
                raise runtime.executor().StepError(
                    errors.FAILED_PRECONDITION, f"at {self.address} listens {found.task}, not "
                    f"{self.name}: the cluster's addresses are wrong")
            if self._status is None:
                self._status = found
            return found
        return self._status

    def has_answered(self, incarnation):
        """A call to that incarnation was answered."""
        return self._status is not None and self._status.incarnation == incarnation

    def wake(self):
        """It has just begun to listen: a channel that waits to try again would do so late. One that
        calls are under way on, or a link, has found it, and stays."""
        with self._lock:
            linked = self._status is not None and self._links is not None \
                and self._links.connected(self.name, self._status.incarnation)
            if self._waiting and not self._calling and not linked:
                self._channels.forget(self.address)

    def cut(self, why):
        """Its process may hang, with a link that stands: what waits for it hears that it is lost."""
        if self._status is not None and self._links is not None:
            self._links.cut(self.name, self._status.incarnation, why)

    def _wait_for(self, call, request, timeout, given_up=lambda: False):
        """The reply to a call, which is made again until the server is there, for so many seconds;
        None: as long as it takes.  StepError: UNAVAILABLE once this worker was closed, the task is
        elsewhere now; CANCELLED once it is given up."""
        until = float("inf") if timeout is None else time.monotonic() + timeout
        told = Waiting(f"CreateSession still waiting for response from worker: {self.name}",
                       self.address, self._channels.credentials)
        with self._lock:
            self._waiting += 1
        try:
            while not self._closed and not given_up():
                told.look()
                left = until - time.monotonic()
                try:
                    return self._ask(self._stub(call), call, request,
                                     max(0.01, min(LOOK_SECONDS, left)), wait_for_ready=True)
                except ValueError:              # `wake` closed the channel before the call began
                    pass
                except runtime.executor().StepError as failure:
                    again = failure.code in (errors.CANCELLED, errors.DEADLINE_EXCEEDED)
                    if not again or time.monotonic() >= until:
                        raise self._explained(failure, timeout) from None
            if not self._closed:
                raise runtime.executor().StepError(
                    errors.CANCELLED, f"the session was closed while it waited for {self.name}")
            raise runtime.executor().StepError(
                errors.UNAVAILABLE, f"{self.name} is no longer at {self.address}")
        finally:
            with self._lock:
                self._waiting -= 1

    def _explained(self, failure, timeout):
        if failure.code == errors.DEADLINE_EXCEEDED:
            failure.message = (f"{self.name} at {self.address} did not answer for {timeout:g} s: "
                               f"{self._why_silent()}")
        return failure

    def _why_silent(self):
        return probe.reason(self.address, credentials=self._channels.credentials)

    def clock(self):
        """As Worker.clock."""
        return self._call("Clock", messages.Empty(), STATUS_SECONDS)

    def offset_ns(self):
        """Its wall clock minus this process's; asked for again after OFFSET_SECONDS."""
        if self._offset is None or time.monotonic() - self._offset[1] > OFFSET_SECONDS:
            self._offset = clocks.offset_ns(self.clock)[0], time.monotonic()
        return self._offset[0]

    def kernels(self):
        """[{op, device, where}] of all its kernels."""
        reply = self._call("GetStatus", messages.GetStatusRequest(kernels=True), STATUS_SECONDS)
        return [{"op": k.op, "device": k.device, "where": k.where} for k in reply.kernel]

    # ------------------------------------------------------------ sessions and graphs

    def open_session(self, number, isolate=False, master="", lease=0.0, patience=None,
                     given_up=lambda: False):
        """As Worker.open_session; waits until the server is there, at most `patience` seconds, as
        long as it takes without, or until given_up()."""
        self.status(patience, given_up=given_up)
        self._wait_for("CreateWorkerSession", messages.SessionRequest(
            session=number, isolate=isolate, master=master or self._me[0], lease=lease,
            incarnation=self.incarnation, master_incarnation=self._me[1], epoch=self._me[2]),
            patience, given_up)
        self._join()

    def _join(self):
        """By a link, if there is one; `link`: its kind."""
        if self._closed:
            raise runtime.executor().StepError(
                errors.UNAVAILABLE, f"{self.name} is no longer at {self.address}", task=self.name)
        if self._links is not None:
            self._links.take_back(self.name, self.incarnation)
            self.link = self._links.connect(self.name, self.incarnation, self.status().link,
                                            lambda: self._channels.get(self.address))
            if self.link is not None:
                self._links.net.route(self.name)

    def close_session(self, number):
        """As Worker.close_session; a server that does not answer has closed it, or will."""
        self._types.pop(number, None)
        try:
            self._call("DeleteWorkerSession", messages.SessionRequest(session=number), 2.0)
        except runtime.executor().StepError:
            pass

    def register(self, number, data, consts, deterministic=False, ops=(), routes=(), types=()):
        """As Worker.register."""
        request = messages.RegisterGraphRequest(
            session=number, incarnation=self.incarnation, deterministic=deterministic, op=ops,
            route=routes, call=new_call())
        reply = self._call("RegisterGraph", _graph_chunks(request, data, consts), 600.0)
        consts.clear()
        self._types.setdefault(number, {})[reply.graph] = types
        return reply.graph

    def deregister(self, number, graphs):
        """As Worker.deregister."""
        for graph in graphs:
            self._types.get(number, {}).pop(graph, None)
        self._call("DeregisterGraph", messages.DeregisterGraphRequest(
            session=number, graph=graphs), DEREGISTER_SECONDS)

    def state_of(self, request):
        """A StateResponse to a StateRequest."""
        return self._call("WorkerState", request)

    def reset(self, containers, timeout=None):
        """As Worker.reset, of the server that is there now."""
        found = self.status(timeout or STATUS_SECONDS, fresh=True)
        self._call("CleanupAll", messages.ResetRequest(
            container=containers, incarnation=found.incarnation, call=new_call()))

    # ------------------------------------------------------------ steps

    def start(self, graph, feeds=(), options=None, done=None, key=None, by=contract.BY_POOL):
        """As contract.Worker.start; the executor's Remote, where there is a link."""
        number, step = key
        types = self._types[number][graph]
        if self.link is not None and (options is None or options.trace is None):
            return self._run(graph, number, step, feeds, types, done, options)
        trace = options.trace if options is not None else None
        offset = self.offset_ns() if trace is not None else 0   # not while its answer is read
        args = [tensors.encode(a, t) for a, t in zip(feeds, types)]
        request = messages.RunGraphRequest(
            session=number, graph=graph, step=step, arg=args, incarnation=self.incarnation,
            timeout_ms=options.timeout_ms if options is not None else 0,
            trace=LEVEL if trace is not None else 0)
        stream = self._connected()
        running = Running(stream, options is not None and options.keep)

        def ran(reply):
            if trace is not None and reply.step_stats:
                metadata.add_elsewhere(trace, clocks.shifted(reply.step_stats, -offset))
            running.ended(reply)
            if done is not None:
                done(running)
        running._number = stream.send(messages.ConnectMessage(run=request), ran)
        return running

    def _run(self, graph, number, step, args, types, done, options):
        timeout, keep = None, False
        if options is not None:
            timeout, keep = options.timeout_ms / 1000 or None, options.keep
        net = self._links.net
        try:
            return net.run(self.name, graph, number, step, args, types, timeout, done, keep)
        except runtime.executor().StepError as failure:
            if failure.code != errors.UNAVAILABLE:
                raise
        self._join()                    # lost since: once more, or say why it cannot be
        if self.link is None:
            self._call("GetStatus", messages.GetStatusRequest(), 2.0)
        return net.run(self.name, graph, number, step, args, types, timeout, done, keep)

    def is_connected(self):
        """There is a link to this incarnation of it."""
        return self._links.connected(self.name, self.incarnation)

    def fail(self, number, step, failure):
        """As Worker.fail."""
        if self.link is not None and self._links.net.cancel(
                self.name, number, step, failure.code, failure.message, failure.task, True):
            return
        self._say(messages.ConnectMessage(clean=messages.CleanupGraphRequest(
            session=number, step=[step], error=rpc.error_message(failure, failure.task))))

    def say_failed(self, number, steps, failure):
        """As Worker.say_failed, of the master of a session."""
        self._say(messages.ConnectMessage(clean=messages.CleanupGraphRequest(
            session=number, step=steps, error=rpc.error_message(failure, failure.task))))

    def clean(self, number, steps, soon=False):
        """As contract.Worker.clean."""
        if self.link is not None and all(self._links.net.clean(self.name, number, step, soon)
                                         for step in steps):
            return
        self._say(messages.ConnectMessage(clean=messages.CleanupGraphRequest(
            session=number, step=steps)))

    def touch(self, numbers):
        """Their master is alive."""
        self._say(messages.ConnectMessage(touch=messages.TouchMessage(session=numbers)))

    def _say(self, message):
        try:
            self._connected().send(message)
        except runtime.executor().StepError:
            pass                        # who is gone needs no cleaning

    def _connected(self):
        incarnation = self.incarnation              # may ask, which takes the lock
        with self._lock:
            if self._stream is None or self._stream.broken is not None:
                self._stream = Stream(self._channels.get(self.address), self.name, self.address,
                                      self._me, incarnation)
            return self._stream

    def close(self):
        """Ends the stream; who waits for it to be there hears UNAVAILABLE."""
        self._closed = True
        self.wake()
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.close(errors.UNAVAILABLE)

    def _call(self, call, request, timeout=60.0, **how):
        with self._lock:                # `wake` closes the channel before, or not while it is used
            self._calling += 1
            stub = self._stub(call)
        try:
            return self._ask(stub, call, request, timeout, **how)
        finally:
            with self._lock:
                self._calling -= 1

    def _stub(self, call):
        return rpc.Stub(self._channels.get(self.address), "WorkerService",
                        {call: services.WORKER[call]})

    def _ask(self, stub, call, request, timeout, **how):
        try:
            return getattr(stub, call)(request, timeout=timeout, **how)
        except Exception as problem:
            if not hasattr(problem, "trailing_metadata"):
                raise
            raise rpc.of_call(problem, call, self.name, self.address,
                              runtime.executor().StepError) from None


def _graph_chunks(request, data, consts):
    """RegisterGraphRequests: the graph, then the constants."""
    chunk = worker_service.CHUNK
    request.graph = data[:chunk]
    yield request
    for at in range(chunk, len(data), chunk):
        yield messages.RegisterGraphRequest(graph=data[at:at + chunk])
    for name, array in consts.items():
        message = tensors.encode_array(array)
        first = messages.RegisterGraphRequest(const_name=name, const_dtype=message.dtype,
                                              const_shape=message.shape)
        first.const_bytes = message.content[:chunk]
        yield first
        for at in range(chunk, len(message.content), chunk):
            yield messages.RegisterGraphRequest(const_bytes=message.content[at:at + chunk])
