"""WorkerService: a Worker over gRPC, for masters and workers of other processes.

    Link       one stream per peer without another link: frames of the nets' (grpc_link.py)
    Connect    one stream per master, kept open: what is seldom said; steps that are traced are
               begun on it, and answers come on it as they end.  A stream that breaks cancels what
               was begun on it.
    the others one call each: what is rare

Invariants
1. Every request that names an incarnation is refused (ABORTED) unless it is this worker's.
2. A call takes no memory that did not arrive; a graph is at most MAX_GRAPH bytes.

Threads: gRPC's; a stream has one that reads and one that writes.
"""
import logging
import queue
import threading

import numpy as np

from pyflow.distributed.look import clocks, tracing, waits
from pyflow.distributed.run import epochs
from pyflow.distributed.wire import grpc_link, messages, once, rpc, tensors
from pyflow.framework import errors
from pyflow.session import contract, runtime

MAX_GRAPH = 1 << 31                     # bytes of a GraphDef without its large constants
CHUNK = 1 << 20
_log = logging.getLogger("pyflow")


class WorkerService:
    """The calls of services.WORKER for one Worker."""

    def __init__(self, worker):
        self._worker, self._resets = worker, once.Once()

    # ------------------------------------------------------------ rare calls

    def GetStatus(self, request, context):
        return self._worker.status(request.kernels)

    def CreateWorkerSession(self, request, context):
        self._check(request.incarnation)
        fence = epochs.Fence(request.epoch, request.master_incarnation)
        self._worker.open_session(request.session, request.isolate, request.master or "?",
                                  request.lease, fence=fence)
        return messages.Empty()

    def DeleteWorkerSession(self, request, context):
        self._worker.close_session(request.session)
        return messages.Empty()

    def RegisterGraph(self, requests, context):
        first, data, consts = None, [], {}
        total, filling, left = 0, None, 0
        for request in requests:
            if first is None:
                first = request
                self._check(request.incarnation)
            total += len(request.graph)
            if total > MAX_GRAPH:
                raise errors.ResourceExhaustedError(
                    None, None, f"a graph of more than {MAX_GRAPH} bytes")
            data.append(request.graph)
            if request.const_name:
                if left:
                    raise _wrong("a constant ends early")
                filling, left = _room(request, consts)
            if request.const_bytes:
                if filling is None or len(request.const_bytes) > left:
                    raise _wrong("more bytes of a constant than it has")
                filling.extend(request.const_bytes)
                left -= len(request.const_bytes)
        if first is None or left:
            raise _wrong("it ends early")
        arrays = {name: np.frombuffer(part, dtype).reshape(shape)
                  for name, (part, dtype, shape) in consts.items()}
        for array in arrays.values():
            array.flags.writeable = False

        def register():
            return messages.RegisterGraphResponse(graph=self._worker.register(
                first.session, b"".join(data), arrays, first.deterministic, list(first.op),
                first.route))
        key = ("register", first.call) if first.call else 0
        return self._worker.calls_of(first.session).run(key, register)

    def DeregisterGraph(self, request, context):
        self._worker.deregister(request.session, request.graph)
        return messages.Empty()

    def WorkerState(self, request, context):
        return self._worker.state_of(request)

    def CleanupAll(self, request, context):
        if request.incarnation:
            self._check(request.incarnation)
        if request.master:
            self._worker.admit(request.master,
                               epochs.Fence(request.epoch, request.master_incarnation))

        def reset():
            if request.sessions:
                self._worker.close_sessions("the parameters are elsewhere now")
            else:
                self._worker.reset(list(request.container))
            return messages.Empty()
        return self._resets.run(request.call, reset)

    # ------------------------------------------------------------ for who looks

    def GetWaits(self, request, context):
        return waits.answer(self._worker, request)

    def Clock(self, request, context):
        return clocks.now()

    def Tracing(self, request, context):
        return self._worker.tracing(request)

    def Reshard(self, request, context):
        if self._worker.on_reshard is None:
            raise errors.FailedPreconditionError(None, None, (
                f"{self._worker.name} is no chief of a training whose parameters can move: "
                "training_session(ps_tasks=)"))
        return self._worker.on_reshard(request)

    # ------------------------------------------------------------ the job begins and ends

    def Ready(self, request, context):
        self._worker.heard(request)
        return messages.Empty()

    def Bye(self, request, context):
        if request.sender:              # a task that was replaced does not end its successor's job
            self._worker.admit(request.sender, epochs.Fence(request.epoch, request.incarnation))
        _log.info("%s: the job is over, says %s: %s", self._worker.name, request.sender or "a client",
                  request.why)
        self._worker.on_bye(request.why)
        return messages.Empty()

    # ------------------------------------------------------------ steps

    def CleanupGraph(self, request, context):
        """Steps are over, or failed elsewhere: from their master, on its stream; from a task that
        sent what was lost, in a call."""
        if request.HasField("error"):
            failure = rpc.of_message(request.error, runtime.executor().StepError)
            for step in request.step:
                self._worker.fail(request.session, step, failure)
        else:
            self._worker.clean(request.session, request.step)
        return messages.Empty()

    def _start(self, request, ran):
        """Begins a partition; ran(RunGraphResponse) when it is over, also where it cannot begin.
        The executor's Started, or None; None, too, where it was begun before, and ran hears the
        same."""
        worker = self._worker
        if request.clean:
            worker.clean(request.session, request.clean)

        def end(reply):
            calls.end(key, reply)
            ran(reply)

        trace = runtime.executor().Trace(request.trace) if request.trace else None

        def done(running):
            end(_reply_of(running, trace, worker))
        key = request.step, request.graph
        try:
            calls = worker.calls_of(request.session)
            if not calls.begin(key, lambda answer: ran(self._reply(answer))):
                return None
        except Exception as failure:
            ran(self._reply(failure))
            return None
        try:
            types = worker.plan(request.session, request.graph).arg_types
            args = [tensors.decode_as(arg, type)
                    for arg, type in zip(request.arg, types, strict=True)]
            return worker.start(
                request.graph, args, contract.RunOptions(request.timeout_ms, True, trace), done,
                (request.session, request.step))
        except Exception as failure:
            end(self._reply(failure))
            return None

    def _reply(self, answer):
        if isinstance(answer, Exception):
            return messages.RunGraphResponse(error=rpc.error_message(answer, self._worker.name))
        return answer

    # ------------------------------------------------------------ the kept streams

    def Link(self, requests, context):
        """A stream of the net's."""
        return grpc_link.serve(self._worker.links.net, self._worker.links.port, requests, context)

    def Become(self, request, context):
        """This process serves a task of another name, too: where that listens (aliases.py)."""
        return self._worker.on_become(request.task, request.kind)

    def Follow(self, request, context):
        """Answers at once, and then only by its end (watch.py)."""
        over = threading.Event()
        if context.add_callback(over.set):
            yield messages.Empty()
            over.wait()

    def Connect(self, requests, context):
        """Reads on a thread of its own; yields answers."""
        answers, running = queue.SimpleQueue(), {}
        if not context.add_callback(lambda: answers.put(None)):
            return                      # its peer is gone already
        reader = threading.Thread(target=self._read, args=(requests, answers, running, context),
                                  name="pyflow-connect", daemon=True)
        reader.start()
        try:
            yield from iter(answers.get, None)
        finally:
            for started in list(running.values()):
                started.cancel()

    def _read(self, requests, answers, running, context):
        try:
            for message in requests:
                self._handle(message, answers, running)
                if not context.is_active():         # what was begun meanwhile ends, too
                    for started in list(running.values()):
                        started.cancel()
                    return
        except errors.OpError as problem:   # the bytes were none of ours
            answers.put(messages.ConnectMessage(error=rpc.error_message(problem,
                                                                        self._worker.name)))
        except Exception as problem:        # the stream broke
            if not hasattr(problem, "code"):
                _log.debug("a peer's stream ended: %s", problem)
        finally:
            answers.put(None)

    def _handle(self, message, answers, running):
        kind = message.WhichOneof("what")
        number = message.number
        if kind == "run":
            self._begin(message.run, number, answers, running)
        elif kind == "clean":
            self.CleanupGraph(message.clean, None)
        elif kind == "cancel":
            started = running.get(number)
            if started is not None:
                started.cancel()
        elif kind == "hello":
            hello = message.hello
            try:
                self._worker.admit(hello.task, epochs.Fence(hello.epoch, hello.incarnation))
            except errors.OpError as refusal:
                answers.put(messages.ConnectMessage(
                    error=rpc.error_message(refusal, self._worker.name)))
                return
            if hello.expected and hello.expected != self._worker.incarnation:
                answers.put(messages.ConnectMessage(error=self._another(hello.expected)))
            else:
                answers.put(messages.ConnectMessage(hello=messages.HelloMessage(
                    task=self._worker.name, incarnation=self._worker.incarnation)))
        elif kind == "touch":
            self._worker.touch(message.touch.session)

    def _begin(self, request, number, answers, running):
        def ran(reply):
            running.pop(number, None)
            answers.put(messages.ConnectMessage(number=number, ran=reply))
        if request.incarnation != self._worker.incarnation:
            ran(messages.RunGraphResponse(error=self._another(request.incarnation)))
            return
        started = self._start(request, ran)
        if started is not None and not started.done():
            running[number] = started
            if started.done():
                running.pop(number, None)

    def _another(self, expected):
        return messages.ErrorMessage(
            code=errors.ABORTED, task=self._worker.name,
            message=f"{self._worker.name} was restarted: this is {self._worker.incarnation:016x},"
            f" the call was meant for {expected:016x}")

    def _check(self, incarnation):
        if incarnation != self._worker.incarnation:
            raise rpc.of_message(self._another(incarnation), runtime.executor().StepError)


def _reply_of(running, trace, worker):
    reply = messages.RunGraphResponse()
    try:
        for value in running.result():
            reply.ret.append(tensors.encode(value, value.type))
    except Exception as failure:
        del reply.ret[:]
        reply.error.CopyFrom(rpc.error_message(worker.as_lost(failure), worker.name))
    if trace is not None:
        reply.step_stats = tracing.step_stats(trace)
    return reply


def _room(request, consts):
    """(the bytearray to fill, bytes it will have) of a constant that begins."""
    dtype = tensors.numpy_type(request.const_dtype)
    shape = tuple(request.const_shape)
    if any(n < 0 for n in shape) or request.const_name in consts:
        raise _wrong(f"constant {request.const_name!r} of shape {list(shape)[:8]}")
    size = dtype.itemsize
    for n in shape:
        size *= n
    part = bytearray()
    consts[request.const_name] = part, dtype, shape
    return part, size


def _wrong(text):
    return errors.InvalidArgumentError(None, None, f"a graph's message is wrong: {text}")
