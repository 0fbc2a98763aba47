"""Calls of both services as a bad network delivers them: lost, answered in vain, doubled, early,
to a successor, given up while they run.

    python tests/distributed/delivery.py --count 100000        # long.py fuzz-calls
    python tests/distributed/delivery.py --replay 4711

No network: requests go as bytes into the services of a server of this process, and answers back.
A seed draws a call, a fault and when.  Whatever happens, the call has one effect or none, says the
right thing or raises a typed error; and when leases are over, no session, plan or step is left.
"""
import argparse
import os
import pathlib
import queue
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np

import pyflow as tf
from pyflow.distributed.run import remote_worker, worker, worker_service
from pyflow.distributed.wire import messages, rpc, services, tensors
from pyflow.framework import errors

FAULTS = ("none", "lost", "reply lost", "given up", "twice", "together", "early", "restarted")
REFUSED = (errors.ABORTED, errors.NOT_FOUND, errors.CANCELLED, errors.INVALID_ARGUMENT,
           errors.FAILED_PRECONDITION, errors.ALREADY_EXISTS)


class Lost(Exception):
    """No answer came."""


class Refused(Exception):
    """A typed error came: `code`, and the ErrorMessage."""

    def __init__(self, message):
        super().__init__(f"{message.code}: {message.message}")
        self.code, self.message = message.code, message


class Context:
    """What grpc gives a call."""

    def __init__(self):
        self._lock, self._callbacks, self._over = threading.Lock(), [], False

    def add_callback(self, callback):
        with self._lock:
            if not self._over:
                self._callbacks.append(callback)
                return True
        return False

    def is_active(self):
        return not self._over

    def end(self):
        with self._lock:
            self._over, callbacks = True, self._callbacks
        for callback in callbacks:
            callback()


class Wire:
    """A service as a peer sees it.  calls: its table."""

    def __init__(self, service, calls):
        self.service, self.calls = service, calls

    def deliver(self, call, requests, context=None):
        """The reply, or [replies] of a stream of them; Refused."""
        if call in ON_STREAMS:
            return self._on_stream(call, requests[0], context)
        request_type, reply_type, kind = self.calls[call]
        context = context or Context()
        made = [getattr(messages, request_type).FromString(r) for r in requests]
        given = iter(made) if kind == "to" else made[0]
        reply = getattr(messages, reply_type)
        try:
            if kind == "from":
                return [reply.FromString(r.SerializeToString())
                        for r in getattr(self.service, call)(given, context)]
            return reply.FromString(getattr(self.service, call)(given, context)
                                    .SerializeToString())
        except Exception as problem:
            message = rpc.error_message(problem, "")
            if message.code == errors.INTERNAL:
                raise
            raise Refused(message) from None
        finally:
            context.end()

    def _on_stream(self, what, request, context):
        """The answer to a run, or Empty to a clean, on a stream of its own; []: given up."""
        stream = Stream(self, context)
        stream.say(messages.ConnectMessage(number=1, **{what: ON_STREAMS[what].FromString(request)}))
        if what == "clean":
            stream.end_requests()
        answer = stream.hear()
        stream.end()
        return answer.ran if answer is not None else [] if what == "run" else messages.Empty()


ON_STREAMS = {"run": messages.RunGraphRequest, "clean": messages.CleanupGraphRequest}


class Stream:
    """A Connect stream: say(message), answers come to `heard`."""

    def __init__(self, wire, context=None):
        self._requests, self.heard = queue.SimpleQueue(), queue.Queue()
        self.context = context or Context()
        self._answers = wire.service.Connect(iter(self._requests.get, None), self.context)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        for answer in self._answers:
            self.heard.put(messages.ConnectMessage.FromString(answer.SerializeToString()))
        self.heard.put(None)

    def say(self, message):
        self._requests.put(messages.ConnectMessage.FromString(message.SerializeToString()))

    def hear(self, timeout=5.0):
        return self.heard.get(timeout=timeout)

    def end_requests(self):
        self._requests.put(None)

    def end(self):
        self.end_requests()
        self.context.end()
        self._thread.join(5)
        assert not self._thread.is_alive()


def program():
    """(graph, x, add, blocked): `add` adds x to a variable and gives its new value."""
    with tf.Graph().as_default() as graph, tf.device("/job:w/task:0"):
        x = tf.placeholder(tf.float32, [], name="x")
        v = tf.Variable(0.0, use_resource=True, name="v")
        add = tf.identity(v.assign_add(x), name="add")
        twice = tf.add(x, add, name="twice")
        blocked = tf.FIFOQueue(1, tf.float32).dequeue(name="blocked")
        init = tf.global_variables_initializer()
    return graph, x, v, add, twice, blocked, init


class Bed:
    """A server whose services are called, and its successor; what they run."""

    def __init__(self):
        self.server = tf.train.Server({"w": ["localhost:0"]}, lease=3600.0)
        self.second = tf.train.Server({"w": ["localhost:0"]}, lease=3600.0)
        self.graph, self.x, self.v, self.add, self.twice, self.blocked, self.init = program()
        self.worker, self.other = self.server._worker, self.second._worker
        self.wire = Wire(worker_service.WorkerService(self.worker), services.WORKER)
        self.wire_other = Wire(worker_service.WorkerService(self.other), services.WORKER)
        self.master = Wire(self.server._master, services.MASTER)
        self.master_other = Wire(self.second._master, services.MASTER)
        self.data = {}
        self.session = tf.Session(self.server.target, graph=self.graph)
        self.session.run(self.init)
        self.parts = {name: self._part(fetch) for name, fetch in
                      (("add", self.add), ("blocked", self.blocked))}
        self.value = 0.0
        self._long = None

    def _part(self, fetch):
        """A RegisterGraphRequest of the partition that computes it."""
        compiled = self.session._compiler.compile([fetch], [], [self.x])
        return compiled.graphs[0]

    def now(self):
        """The variable's value."""
        return float(self.session.run(self.v))

    def long(self):
        """(handle, number of a callable) of a session over MasterService that stays."""
        if self._long is None:
            self._long = self.client_session()
        return self._long

    def client_session(self):
        request = messages.CreateSessionRequest(
            graph_def=self.graph.as_graph_def().SerializeToString(), lease=3600.0,
            process=worker.PROCESS, call=remote_worker.new_call())
        handle = self.master.deliver("CreateSession", [request.SerializeToString()]).session
        made = self.master.deliver("MakeCallable", [self.callable(handle).SerializeToString()])
        return handle, made.callable

    def callable(self, handle):
        return messages.MakeCallableRequest(session=handle, feed=["x:0"], fetch=["add:0"],
                                            call=remote_worker.new_call())

    def open(self, rng):
        """A session at the worker with `add` registered: (session, graph)."""
        session = rng.getrandbits(63) | 1
        self.wire.deliver("CreateWorkerSession", [self.opening(session).SerializeToString()])
        graph = self.wire.deliver("RegisterGraph", self.registering(session)).graph
        return session, graph

    def opening(self, session):
        return messages.SessionRequest(session=session, master="/job:m/replica:0/task:0",
                                       lease=60.0, incarnation=self.worker.incarnation,
                                       master_incarnation=7, epoch=0)

    def registering(self, session, what="add"):
        request = messages.RegisterGraphRequest(
            session=session, incarnation=self.worker.incarnation, graph=self.parts[what],
            call=remote_worker.new_call())
        return [request.SerializeToString()]

    def running(self, session, graph, step, x=1.0):
        return messages.RunGraphRequest(
            session=session, graph=graph, step=step, incarnation=self.worker.incarnation,
            arg=[tensors.encode(np.float32(x), 1)])

    def empty(self):
        """After all leases: {what is left}."""
        keep = {self.session._state.number}
        if self._long is not None:
            keep.add(int(self._long[0], 16))
        for one in (self.worker, self.other):
            for session in list(one._sessions.values()):
                if session.number not in keep:
                    session.seen = float("-inf")
            one.sweep()
            one.task.sweep(0.0)
        left = {}
        for name, one in (("worker", self.worker), ("successor", self.other)):
            counts = one.task.counts()
            sessions = set(one.sessions()) - keep
            if counts["open"] or counts["early"] or sessions:
                left[name] = counts, sessions
        return left

    def close(self):
        self.session.close()
        self.server.stop()
        self.second.stop()


# ---------------------------------------------------------------- one call with one fault

def send(bed_wire, other, call, requests, fault, rng):
    """[answer or Refused] of every delivery; raises Lost where the sender hears nothing."""
    if fault == "lost":
        return []
    if fault == "restarted":
        return [attempt(other, call, requests)]
    if fault == "twice":
        return [attempt(bed_wire, call, requests) for _ in range(2)]
    if fault == "together":
        found, threads = [], []
        for _ in range(2):
            threads.append(threading.Thread(
                target=lambda: found.append(attempt(bed_wire, call, requests))))
            threads[-1].start()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive(), f"{call} hangs"
        return found
    if fault == "given up":
        context = Context()
        giver = threading.Timer(rng.random() * 1e-3, context.end)
        giver.start()
        found = attempt(bed_wire, call, requests, context)
        giver.join()
        return [] if found == [] else [found]       # a stream that nobody hears any more says nothing
    return [attempt(bed_wire, call, requests)]


def attempt(one, call, requests, context=None):
    try:
        return one.deliver(call, requests, context)
    except Refused as refusal:
        return refusal


def right(answers, good, codes=REFUSED):
    """Every answer is good(answer) or a refusal of these codes."""
    for answer in answers:
        if isinstance(answer, Refused):
            assert answer.code in codes, f"refused with {answer}"
        else:
            assert good(answer), f"a wrong answer: {answer}"
    return [a for a in answers if not isinstance(a, Refused)]


class Case:
    """One seed.  Methods are named as the calls, and check what they did."""

    def __init__(self, bed, rng):
        self.bed, self.rng = bed, rng

    def send(self, call, message, fault, early=None):
        requests = message if isinstance(message, list) else [message.SerializeToString()]
        return send(self.bed.wire, self.bed.wire_other, call, requests, fault, self.rng)

    def tell(self, call, message, fault):
        return send(self.bed.master, self.bed.master_other, call, [message.SerializeToString()],
                    fault, self.rng)

    # ------------------------------------------------------------ WorkerService

    def GetStatus(self, fault):
        for answer in self.send("GetStatus", messages.GetStatusRequest(), fault):
            assert answer.incarnation in (self.bed.worker.incarnation, self.bed.other.incarnation)

    def Clock(self, fault):
        right(self.send("Clock", messages.Empty(), fault), lambda a: a.wall_ns > 0)

    def GetWaits(self, fault):
        right(self.send("GetWaits", messages.WaitsRequest(), fault), lambda a: True)

    def CreateWorkerSession(self, fault):
        session = self.rng.getrandbits(63) | 1
        answers = self.send("CreateWorkerSession", self.bed.opening(session), fault)
        right(answers, lambda a: True)
        there = session in self.bed.worker.sessions()
        assert there == (fault not in ("lost", "restarted"))
        assert session not in self.bed.other.sessions()

    def DeleteWorkerSession(self, fault):
        session, graph = self.bed.open(self.rng)
        right(self.send("DeleteWorkerSession", messages.SessionRequest(session=session), fault),
              lambda a: True, ())
        assert (session in self.bed.worker.sessions()) == (fault in ("lost", "restarted"))
        answer = attempt(self.bed.wire, "run", [self.bed.running(
            session, graph, 1).SerializeToString()])
        self.count(answer)

    def RegisterGraph(self, fault):
        session = self.rng.getrandbits(63) | 1
        requests = self.bed.registering(session)
        if fault == "early":
            refused = attempt(self.bed.wire, "RegisterGraph", requests)
            assert isinstance(refused, Refused) and refused.code == errors.ABORTED
        self.bed.wire.deliver("CreateWorkerSession",
                              [self.bed.opening(session).SerializeToString()])
        answers = right(self.send("RegisterGraph", requests, fault), lambda a: a.graph > 0,
                        (errors.ABORTED,))
        assert len({a.graph for a in answers}) <= 1
        n = len(self.bed.worker._sessions[session].graphs)
        assert n == (fault not in ("lost", "restarted")), n

    def DeregisterGraph(self, fault):
        session, graph = self.bed.open(self.rng)
        right(self.send("DeregisterGraph", messages.DeregisterGraphRequest(
            session=session, graph=[graph]), fault), lambda a: True, ())
        gone = graph not in self.bed.worker._graphs
        assert gone == (fault not in ("lost", "restarted"))

    def count(self, *answers, unheard=False):
        """The variable has grown once if an answer came, not if all were refused; `unheard`: once
        or not at all."""
        heard = {float(tensors.decode(a.ret[0])) for a in answers if not isinstance(a, Refused)
                 and not a.HasField("error")}
        now = self.bed.now()
        grown = now - self.bed.value
        assert len(heard) <= 1 and heard <= {now}, f"{heard} heard, it is {now}"
        wanted = (0, 1) if unheard else (1,) if heard else (0,)
        assert grown in wanted, f"grown by {grown}, of {wanted}"
        self.bed.value = now
        for answer in answers:
            if not isinstance(answer, Refused) and answer.HasField("error"):
                assert answer.error.code in REFUSED, answer.error

    def Run(self, fault):
        """A run on a stream of its own."""
        session, graph = self.bed.open(self.rng)
        message = self.bed.running(session, graph, self.rng.randrange(1, 1 << 40))
        if fault == "early":
            early = self.bed.running(session, graph + 1000, message.step)
            answer = attempt(self.bed.wire, "run", [early.SerializeToString()])
            assert answer.error.code == errors.ABORTED
        answers = self.send("run", message, fault)
        self.count(*answers, unheard=fault == "given up")
        if self.rng.random() < 0.5:                 # late, after all was cleaned up
            self.bed.wire.deliver("clean", [messages.CleanupGraphRequest(
                session=session, step=[message.step]).SerializeToString()])
        ran = bool(answers) and fault != "restarted"
        late = attempt(self.bed.wire, "run", [message.SerializeToString()])
        if ran and not isinstance(late, Refused) and not late.HasField("error"):
            assert float(tensors.decode(late.ret[0])) == self.bed.value
        if ran:
            assert self.bed.now() == self.bed.value, "it ran twice"
        self.bed.value = self.bed.now()

    def Clean(self, fault):
        """Of a step, or word that it failed, on a stream of its own."""
        session, graph = self.bed.open(self.rng)
        step = self.rng.randrange(1, 1 << 40)
        clean = messages.CleanupGraphRequest(session=session, step=[step])
        if self.rng.random() < 0.5:
            clean.error.code, clean.error.message = errors.DATA_LOSS, "elsewhere"
        run = self.bed.running(session, graph, step).SerializeToString()
        if fault != "early":
            self.count(self.bed.wire.deliver("run", [run]))
        right(self.send("clean", clean, fault), lambda a: True, ())
        if fault == "early":
            answer = attempt(self.bed.wire, "run", [run])
            assert answer.error.code in (errors.NOT_FOUND, errors.DATA_LOSS), answer
            self.count()

    def WorkerState(self, fault):
        session, _ = self.bed.open(self.rng)
        answers = right(self.send("WorkerState", messages.StateRequest(session=session), fault),
                        lambda a: a.streams, (errors.ABORTED,))
        for answer in answers:
            right(self.send("WorkerState", messages.StateRequest(
                session=session, set=True, streams=answer.streams), fault), lambda a: True,
                  (errors.ABORTED,))
            again = self.bed.wire.deliver("WorkerState", [messages.StateRequest(
                session=session).SerializeToString()])
            assert again.streams == answer.streams

    def CleanupAll(self, fault):
        request = messages.ResetRequest(container=["nobody's"], call=remote_worker.new_call(),
                                        incarnation=self.bed.worker.incarnation)
        right(self.send("CleanupAll", request, fault), lambda a: True, (errors.ABORTED,))
        assert self.bed.now() == self.bed.value

    def Connect(self, fault):
        """run, clean, cancel and touch on a stream, with a fault in one of them."""
        session, graph = self.bed.open(self.rng)
        step = self.rng.randrange(1, 1 << 40)
        wire_ = self.bed.wire_other if fault == "restarted" else self.bed.wire
        stream = Stream(wire_)
        run = messages.ConnectMessage(number=1, run=self.bed.running(session, graph, step))
        touch = messages.ConnectMessage(touch=messages.TouchMessage(session=[session]))
        clean = messages.ConnectMessage(clean=messages.CleanupGraphRequest(session=session,
                                                                           step=[step]))
        said = [run, touch]
        if fault == "early":
            said = [touch, clean, run]
        elif fault in ("twice", "together"):
            said = [run, messages.ConnectMessage.FromString(run.SerializeToString()), touch]
            said[1].number = 2
        elif fault == "lost":
            said = [touch]
        for message in said:
            stream.say(message)
        wanted = sum(m.WhichOneof("what") == "run" for m in said)
        answers = []
        if fault not in ("given up", "reply lost"):
            answers = [stream.hear().ran for _ in range(wanted)]
        elif fault == "given up":
            time.sleep(self.rng.random() * 1e-3)
        else:
            stream.hear()
        stream.end()
        self.settled()
        self.count(*answers, unheard=fault in ("given up", "reply lost"))
        if fault == "restarted":
            assert answers[0].error.code == errors.ABORTED
        if fault == "none":
            assert not answers[0].HasField("error"), answers[0].error

    def settled(self):
        until = time.monotonic() + 5
        while any(t.name == "pyflow-connect" for t in threading.enumerate()):
            time.sleep(1e-4)
        while self.bed.worker.status().steps_running and time.monotonic() < until:
            time.sleep(1e-3)

    # ------------------------------------------------------------ MasterService

    def CreateSession(self, fault):
        request = messages.CreateSessionRequest(
            graph_def=b"", lease=60.0, process=worker.PROCESS, call=remote_worker.new_call())
        before = len(self.bed.server._master._sessions)
        answers = self.tell("CreateSession", request, fault)
        assert len({a.session for a in right(answers, lambda a: a.session, ())}) <= 1
        made = len(self.bed.server._master._sessions) - before
        assert made == (fault not in ("lost", "restarted")), made
        self.sweep()

    def sweep(self):
        for server in (self.bed.server, self.bed.second):
            for handle, session in list(server._master._sessions.items()):
                if self.bed._long is None or handle != self.bed._long[0]:
                    session.seen = float("-inf")
            server._master.sweep()

    def KeepAlive(self, fault):
        handle, _ = self.bed.long()
        right(self.tell("KeepAlive", messages.CloseSessionRequest(session=handle), fault),
              lambda a: True, (errors.ABORTED,))

    def ListDevices(self, fault):
        handle, _ = self.bed.long()
        right(self.tell("ListDevices", messages.ListDevicesRequest(session=handle), fault),
              lambda a: len(a.device) >= 1, (errors.ABORTED,))

    def SessionState(self, fault):
        handle, _ = self.bed.long()
        right(self.tell("SessionState", messages.SessionStateRequest(session=handle), fault),
              lambda a: a.streams, (errors.ABORTED,))

    def RunCallable(self, fault):
        handle, number = self.bed.long()
        request = messages.RunCallableRequest(
            session=handle, callable=number, feed=[tensors.encode(np.float32(1), 1)],
            call=remote_worker.new_call())
        if fault == "early":
            wrong = messages.RunCallableRequest(session=handle, callable=number + 10**6)
            assert attempt(self.bed.master, "RunCallable",
                           [wrong.SerializeToString()]).code == errors.ABORTED
        self.counted("RunCallable", request, fault)

    def counted(self, call, request, fault):
        answers = self.tell(call, request, fault)
        heard = {float(tensors.decode(a.fetch[0])) for a in right(answers, lambda a: a.fetch)}
        now = self.bed.now()
        grown = now - self.bed.value
        assert heard <= {now} and grown in ((0, 1) if fault == "given up" else (len(heard),)), \
            f"{heard} heard, grown by {grown}"
        if fault == "none":
            assert heard
        self.bed.value = now

    def MakeCallable(self, fault):
        handle, _ = self.bed.long()
        session = self.bed.server._master._sessions[handle]
        before = len(session.callables)
        answers = self.tell("MakeCallable", self.bed.callable(handle), fault)
        made = {a.callable for a in right(answers, lambda a: a.callable, (errors.ABORTED,))}
        assert len(made) <= 1
        after = len(session.callables) - before
        assert after == (fault not in ("lost", "restarted")), after
        self.ReleaseCallable("none", set(session.callables) - {self.bed.long()[1]})

    def ReleaseCallable(self, fault, numbers=(12345,)):
        handle, kept = self.bed.long()
        right(self.tell("ReleaseCallable", messages.ReleaseCallableRequest(
            session=handle, callable=list(numbers)), fault), lambda a: True, (errors.ABORTED,))
        assert kept in self.bed.server._master._sessions[handle].callables

    def PartialRunSetup(self, fault):
        handle, _ = self.bed.long()
        session = self.bed.server._master._sessions[handle]
        request = messages.PartialRunSetupRequest(session=handle, feed=["x:0"], fetch=["add:0"],
                                                  call=remote_worker.new_call())
        answers = right(self.tell("PartialRunSetup", request, fault), lambda a: a.handle,
                        (errors.ABORTED,))
        assert len({a.handle for a in answers}) <= 1
        assert len(session.partial) == (fault not in ("lost", "restarted"))
        session.partial.clear()

    def PartialRun(self, fault):
        handle, _ = self.bed.long()
        setup = messages.PartialRunSetupRequest(session=handle, feed=["x:0"], fetch=["add:0"])
        partial = self.bed.master.deliver("PartialRunSetup", [setup.SerializeToString()]).handle
        request = messages.PartialRunRequest(
            session=handle, handle=partial, feed=["x:0"], fetch=["add:0"],
            value=[tensors.encode(np.float32(1), 1)], call=remote_worker.new_call())
        self.counted("PartialRun", request, fault)
        self.bed.server._master._sessions[handle].partial.clear()

    def CloseSession(self, fault):
        request = messages.CreateSessionRequest(graph_def=b"", lease=60.0, process=worker.PROCESS)
        handle = self.bed.master.deliver("CreateSession", [request.SerializeToString()]).session
        right(self.tell("CloseSession", messages.CloseSessionRequest(session=handle), fault),
              lambda a: True, ())
        there = handle in self.bed.server._master._sessions
        assert there == (fault in ("lost", "restarted"))
        self.sweep()

    def ExtendSession(self, fault):
        """An older graph that comes late does not take the newer one's place."""
        request = messages.CreateSessionRequest(graph_def=b"", lease=60, process=worker.PROCESS)
        handle = self.bed.master.deliver("CreateSession", [request.SerializeToString()]).session
        old = messages.ExtendSessionRequest(session=handle, graph_def=b"", version=1)
        new = messages.ExtendSessionRequest(
            session=handle, version=2, graph_def=self.bed.graph.as_graph_def().SerializeToString())
        if fault == "early":
            old, new = new, old
        right(self.tell("ExtendSession", old, "none"), lambda a: True, ())
        right(self.tell("ExtendSession", new, fault), lambda a: True, (errors.ABORTED,))
        session = self.bed.server._master._sessions[handle]
        has = bool(session.graph.get_operations())
        assert has == (fault not in ("lost", "restarted"))
        self.bed.master.deliver("CloseSession", [messages.CloseSessionRequest(
            session=handle).SerializeToString()])


WEIGHTS = {"Run": 8, "Connect": 6, "RunCallable": 4, "RegisterGraph": 3, "Clean": 3,
           "MakeCallable": 0.3, "PartialRun": 1, "CreateSession": 1, "ExtendSession": 0.3,
           "PartialRunSetup": 0.3}
CALLS = sorted(n for n in vars(Case) if n[0].isupper())


def check(bed, seed):
    """Runs a seed; (call, fault)."""
    rng = random.Random(seed)
    call = rng.choices(CALLS, [WEIGHTS.get(c, 1) for c in CALLS])[0]
    fault = rng.choice(FAULTS)
    getattr(Case(bed, rng), call)(fault)
    left = bed.empty()
    assert not left, f"left after the leases: {left}"
    return call, fault


def main(count, seed, one):
    """Exit status."""
    bed, wrong, counts, begun = Bed(), [], {}, time.perf_counter()
    for k in [one] if one is not None else range(seed, seed + count):
        try:
            what = check(bed, k)
            counts[what] = counts.get(what, 0) + 1
        except Exception as problem:
            rng = random.Random(k)
            what = rng.choices(CALLS, [WEIGHTS.get(c, 1) for c in CALLS])[0], rng.choice(FAULTS)
            wrong.append(k)
            print(f"seed {k}, {what}: {type(problem).__name__}: {str(problem)[:400]}", flush=True)
            if one is not None or not isinstance(problem, AssertionError):
                import traceback
                traceback.print_exc(limit=-5)
            bed.close()
            bed = Bed()
        if (k + 1) % 10000 == 0:
            print(f"{k + 1 - seed} cases, {time.perf_counter() - begun:.0f} s", flush=True)
    bed.close()
    print(f"{sum(counts.values()) + len(wrong)} cases of {len(CALLS)} calls x {len(FAULTS)} faults "
          f"({len(counts)} pairs), {time.perf_counter() - begun:.0f} s: "
          + (f"{len(wrong)} WRONG: {wrong[:50]}" if wrong else "none wrong, nothing left"))
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10**5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", dest="one", type=int, metavar="SEED")
    status = main(**vars(parser.parse_args()))
    sys.stdout.flush()
    os._exit(status)
