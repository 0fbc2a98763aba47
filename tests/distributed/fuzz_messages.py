"""Damaged requests to a live server: typed errors, no crash, no hang, bounded memory.

    python tests/distributed/fuzz_messages.py --count 100000   # of each call; long.py fuzz-messages
    python tests/distributed/fuzz_messages.py --over-grpc --count 1000
    python tests/distributed/fuzz_messages.py --call RunCallable --count 1000 --seed 7

Bytes go to the services' handlers of a server of this process, as grpc would give them (what grpc
itself does with bytes is not ours); with --over-grpc through sockets to a server of a process of
its own.  Should the process end, what it was given last is in the file that it names first.

Half are random bytes, half are valid requests with bytes flipped, cut, put in, doubled or swapped,
or with fields of other values.  It has to answer each within a
second with an answer or an error that has a code, neither INTERNAL nor UNKNOWN, to stay below
1 GB, and to work at the end.  (Bye is left out: it ends a server, and means to.)
"""
import argparse
import os
import pathlib
import queue
import random
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np

import pyflow as tf
import processes
from pyflow.distributed.run import epochs, worker, worker_service
from pyflow.distributed.wire import messages, rpc, services, tensors
from pyflow.distributed.wire.channels import Channels

LEFT_OUT = {"Bye"}
SECONDS, PATIENCE, BYTES = 1.0, 5.0, 1 << 30
WAITS = {"Connect": 0.002, "Link": 0.002, "Life": 0.002, "Follow": 0.002}   # seconds: these may wait for what nobody sends
CALLS = {**services.MASTER, **services.WORKER}
CODES = {code.value[0]: code.name for code in rpc.grpc().StatusCode}


class Valid:
    """Valid requests to a server: {call: [messages of the call]}."""

    def __init__(self, channel, status):
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [None], name="x")
            y = tf.identity(x * 2.0, name="y")
            v = tf.Variable([1.0, 2.0], name="v")
            text = tf.identity(tf.placeholder(tf.string, [], name="s"), name="t")
            with tf.Session(graph=graph) as session:
                session.run(v.initializer)
                part = session._compiler.compile([y], [], [x]).graphs[0]
        definition = graph.as_graph_def().SerializeToString()
        self._worker = rpc.Stub(channel, "WorkerService", services.WORKER)
        self._master = rpc.Stub(channel, "MasterService", services.MASTER)
        self._status = status
        made = self._master.CreateSession(messages.CreateSessionRequest(
            graph_def=definition, process=worker.PROCESS, lease=600.0))
        handle = made.session
        number = self._master.MakeCallable(messages.MakeCallableRequest(
            session=handle, feed=["x:0"], fetch=["y:0"])).callable
        said = self._master.MakeCallable(messages.MakeCallableRequest(
            session=handle, feed=["s:0"], fetch=["t:0"])).callable
        inner = int(handle, 16)
        array = tensors.encode(np.float32([1, 2, 3]), 1)
        n = status.incarnation
        opening = messages.SessionRequest(session=9, master="m", lease=600.0, incarnation=n)
        self._worker.CreateWorkerSession(opening)
        first = messages.RegisterGraphRequest(session=9, graph=part, incarnation=n)
        constant = messages.RegisterGraphRequest(const_name="c", const_dtype=1, const_shape=[2],
                                                 const_bytes=b"\0" * 8)
        registered = self._worker.RegisterGraph(iter([first])).graph
        run = messages.RunGraphRequest(session=9, graph=registered, step=1, arg=[array],
                                       incarnation=n)
        clean = messages.CleanupGraphRequest(session=9, step=[1])
        M = messages
        self.of = {
            "Link": [Frames(hello(status)), Frames(frame(10, b"\0" * 16))],
            "GetStatus": [M.GetStatusRequest(kernels=False)], "Clock": [M.Empty()],
            "CreateWorkerSession": [opening],
            "DeleteWorkerSession": [M.SessionRequest(session=10)],
            "RegisterGraph": [first, constant],
            "DeregisterGraph": [M.DeregisterGraphRequest(session=9, graph=[registered + 5])],
            "CleanupGraph": [clean],
            "WorkerState": [M.StateRequest(session=9)],
            "CleanupAll": [M.ResetRequest(container=["c"]), M.ResetRequest(
                sessions=True, master="/job:o/replica:0/task:0", epoch=1, master_incarnation=n)],
            "Reshard": [M.ReshardRequest(job="ps", servers=2, seconds=1.0)],
            "GetWaits": [M.WaitsRequest(session=9)], "Tracing": [M.TracingRequest()],
            "Ready": [M.ReadyRequest(task="/job:w/replica:0/task:0", incarnation=n,
                                     address="localhost:1")],
            "Connect": [M.ConnectMessage(hello=M.HelloMessage(task="m", incarnation=1)),
                        M.ConnectMessage(number=1, run=run),
                        M.ConnectMessage(clean=clean),
                        M.ConnectMessage(touch=M.TouchMessage(session=[9]))],
            "CreateSession": [M.CreateSessionRequest(graph_def=definition, lease=0.1)],
            "ExtendSession": [M.ExtendSessionRequest(session=handle, graph_def=definition)],
            "MakeCallable": [M.MakeCallableRequest(session=handle, feed=["x:0"], fetch=["y:0"])],
            "RunCallable": [M.RunCallableRequest(session=handle, callable=number, feed=[array]),
                            M.RunCallableRequest(session=handle, callable=said, feed=[
                                tensors.encode(np.array(b"text", object), 7)])],
            "ReleaseCallable": [M.ReleaseCallableRequest(session=handle, callable=[number + 7])],
            "PartialRunSetup": [M.PartialRunSetupRequest(session=handle, feed=["x:0"],
                                                         fetch=["y:0"])],
            "PartialRun": [M.PartialRunRequest(session=handle, handle="partial_run_1",
                                               feed=["x:0"], value=[array], fetch=["y:0"])],
            "CloseSession": [M.CloseSessionRequest(session="0" * 16)],
            "ListDevices": [M.ListDevicesRequest(session=handle)],
            "SessionState": [M.SessionStateRequest(session=handle)],
            "KeepAlive": [M.CloseSessionRequest(session=handle)],
            "Life": [M.CloseSessionRequest(session=handle)], "Follow": [M.Empty()],
            "Become": [M.RouteMessage(task="/job:w/replica:0/task:0", kind="a cluster")],
            "Reset": [M.ResetRequest(container=["c"])],
        }
        self.session, self.inner = handle, inner


def damaged(rng, data):
    """Bytes near `data`."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        kind, n = rng.randrange(6), len(data)
        at = rng.randrange(n + 1)
        if kind == 0 and n:
            data[at % n] = rng.randrange(256)
        elif kind == 1 and n:
            data[at % n] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del data[at:at + rng.randrange(1, 20)]
        elif kind == 3:
            data[at:at] = rng.randbytes(rng.randrange(1, 20))
        elif kind == 4:
            data[at:at] = data[at:at + rng.randrange(1, 40)]
        else:
            other = rng.randrange(n + 1)
            data[at:at + 4], data[other:other + 4] = data[other:other + 4], data[at:at + 4]
    return bytes(data)


class Frames(bytes):
    """Bytes of a Link stream, as a message of the others."""

    def SerializeToString(self):
        return bytes(self)


def frame(kind, body):
    """A frame of _executor/core/net/frames.h."""
    return struct.pack("<IHHQQQ", len(body), kind, 0, 0, 0, 0) + body


def hello(status):
    """Who connects says so; status: of whom it connects with."""
    body = struct.pack("<IIQQ", 0x316E6670, 2, 7, status.incarnation)
    for name in (b"/job:m/replica:0/task:0", status.task.encode()):
        body += struct.pack("<I", len(name)) + name
    return frame(1, body + struct.pack("<Q", 1 << 26))


NUMBERS = (0, 1, 2, 7, 19, 20, 21, 100, 255, 1 << 31, (1 << 31) - 1, 1 << 32, (1 << 63) - 1, 1 << 62)


def varied(rng, message):
    """The message with some fields of other values."""
    message = type(message).FromString(message.SerializeToString())
    for field in message.DESCRIPTOR.fields:
        if rng.random() > 0.3:
            continue
        try:
            vary(rng, message, field)
        except (ValueError, TypeError):
            pass                        # out of the field's range
    return message.SerializeToString()


def vary(rng, message, field):
    value = getattr(message, field.name)
    repeated = hasattr(value, "append") or hasattr(value, "add")
    if field.message_type is not None:
        if repeated:
            for one in value:
                one.MergeFromString(varied(rng, one))
            if value and rng.random() < 0.3:
                value.add().CopyFrom(value[0])
        elif message.HasField(field.name):
            value.CopyFrom(type(value).FromString(varied(rng, value)))
        return
    sample = {field.TYPE_BYTES: rng.randbytes(rng.randrange(0, 30)), field.TYPE_BOOL: True,
              field.TYPE_STRING: rng.choice(("", "x:0", "y:0", "y", "\0", "9" * 300, "/job:w/task:0")),
              field.TYPE_DOUBLE: rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e300))}.get(
                  field.type, rng.choice(NUMBERS) * rng.choice((1, 1, 1, -1)))
    if repeated:
        del value[rng.randrange(len(value) + 1):]
        value.extend([sample] * rng.choice((0, 1, 1, 3)))
    else:
        setattr(message, field.name, sample)


class Fuzz:
    """What damaged requests do to a server."""

    def __init__(self):
        self.channels = Channels()
        self.details, self.counts, self.wrong, self.slowest, self.largest = "", {}, [], 0.0, 0
        self.start()
        self.begin()

    def begin(self):
        """Sessions and graphs that valid requests mean."""
        self.channel = self.channels.get(self.address)
        stub = rpc.Stub(self.channel, "WorkerService", services.WORKER)
        status = stub.GetStatus(messages.GetStatusRequest(), timeout=10, wait_for_ready=True)
        self.valid = Valid(self.channel, status)

    def bytes_of(self, rng, call):
        wanted = self.valid.of[call]
        if rng.random() < 0.2:
            return [rng.randbytes(rng.randrange(0, 200)) for _ in range(rng.randrange(1, 3))]
        found = [m.SerializeToString() for m in wanted]
        k = rng.randrange(len(found))
        vary_it = rng.random() < 0.6 and not isinstance(wanted[k], Frames)
        found[k] = varied(rng, wanted[k]) if vary_it else damaged(rng, found[k])
        return found

    def one(self, call, seed):
        rng = random.Random(f"{call} {seed}")
        requests = self.bytes_of(rng, call)
        begun = time.perf_counter()
        code = self.send(call, requests)
        took = time.perf_counter() - begun
        self.slowest = max(self.slowest, took)
        pair = call, code
        self.counts[pair] = self.counts.get(pair, 0) + 1
        late = took > SECONDS           # DEADLINE_EXCEEDED: a request had so short a time-out
        no_link = code == "UNAVAILABLE" and "there is none any more" in self.details
        if code in ("INTERNAL", "UNKNOWN", "UNAVAILABLE") and not no_link or late:
            self.wrong.append((call, seed, code, took))
            print(f"{call}, seed {seed}: {code} after {took:.2f} s: {self.details}", flush=True)

    def memory(self):
        """Bytes of the server's process."""
        with open(f"/proc/{self.pid()}/statm", encoding="ascii") as file:
            now = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        self.largest = max(self.largest, now)
        return now

    def works(self):
        """The server does what it should, for a new session."""
        with tf.Graph().as_default() as graph:
            y = tf.constant(2.0) * 3
        with tf.Session(f"grpc://{self.address}", graph=graph) as session:
            return session.run(y) == 6


class Apart(Fuzz):
    """The server is a process, spoken to over gRPC."""

    def start(self):
        self.cluster = processes.Cluster({"w": 1})
        self.address = self.cluster.addresses["w", 0]

    def pid(self):
        return self.cluster.processes["w", 0].pid

    def send(self, call, requests):
        """The status code's name."""
        grpc = rpc.grpc()
        service = "WorkerService" if call in services.WORKER else "MasterService"
        kind = CALLS[call][2]
        make = getattr(self.channel, rpc._KINDS[kind])(f"/pyflow.{service}/{call}")
        given = iter(requests) if kind in ("to", "both") else requests[0]
        timeout = 0.3 if call in WAITS else PATIENCE
        try:
            self.details = ""
            answer = make(given, timeout=timeout)
            if kind in ("from", "both"):
                for _ in answer:
                    pass
        except grpc.RpcError as error:
            self.details = error.details()
            return error.code().name
        return "OK"

    def one(self, call, seed):
        super().one(call, seed)
        if self.cluster.processes["w", 0].poll() is not None:
            raise AssertionError(f"{call}, seed {seed}: the server is gone")

    def close(self):
        self.channels.close()
        self.cluster.__exit__()


class Context:
    """What grpc gives a call, which its caller gives up after so many seconds."""

    def __init__(self, ends, seconds):
        self._lock, self._callbacks, self._active = threading.Lock(), [], True
        if seconds:
            ends.put((time.perf_counter() + seconds, self))

    def add_callback(self, callback):
        with self._lock:
            if self._active:
                self._callbacks.append(callback)
            return self._active

    def is_active(self):
        return self._active

    def end(self):
        with self._lock:
            self._active, callbacks, self._callbacks = False, self._callbacks, []
        for callback in callbacks:
            callback()

    def set_trailing_metadata(self, pairs):
        """The ErrorMessage is in it."""

    def abort(self, code, details):
        raise Aborted(code.name, details)


class Aborted(Exception):
    """A call's end: the status code's name, and why."""


class Within(Fuzz):
    """The server is one of this process, and its handlers are called."""

    def start(self):
        self.server = tf.train.Server({"w": ["localhost:0"]})
        self.address = self.server.address
        worker_calls = worker_service.WorkerService(self.server._worker)
        self.handlers = {
            call: rpc._guarded(getattr(of, call), request and getattr(messages, request), kind,
                               "task")
            for of, calls in ((self.server._master, services.MASTER),
                              (worker_calls, services.WORKER))
            for call, (request, _, kind) in calls.items()}
        self.ends = queue.SimpleQueue()             # of contexts, in the order of their times
        threading.Thread(target=self._end, daemon=True).start()

    def _end(self):
        while True:
            at, context = self.ends.get()
            time.sleep(max(0.0, at - time.perf_counter()))
            context.end()

    pid = staticmethod(os.getpid)

    def send(self, call, requests):
        """The status code's name."""
        kind, reply = CALLS[call][2], CALLS[call][1] and getattr(messages, CALLS[call][1])
        context = Context(self.ends, WAITS.get(call))
        given = iter(requests) if kind in ("to", "both") else requests[0]
        try:
            self.details = ""
            answers = self.handlers[call](given, context)
            for answer in answers if kind in ("from", "both") else [answers]:
                answer = reply and reply.FromString(answer.SerializeToString())
                if call == "Connect" and answer.HasField("error"):
                    return CODES[answer.error.code]
        except Aborted as aborted:
            code, self.details = aborted.args
            return code
        finally:
            context.end()
        return "OK"

    def begin(self):
        """And what the requests before have made goes."""
        master = self.server._master
        for session in list(master._sessions.values()):
            session.seen = float("-inf")
        master.sweep()
        self.server._worker.reset([])
        self.server._worker._fences = epochs.Fences()
        super().begin()

    def close(self):
        self.channels.close()
        self.server.stop()


def main(count, seed, call, over_grpc):
    """Exit status."""
    begun, calls = time.perf_counter(), [call] if call else [c for c in CALLS if c not in LEFT_OUT]
    done, counts, wrong, slowest, largest, fine = 0, {}, [], 0.0, 0, True
    last = tempfile.NamedTemporaryFile("w", prefix="fuzz-messages-", delete=False)
    print(f"what was sent last: {last.name}", flush=True)
    for name in calls:
        fuzz = (Apart if over_grpc else Within)()
        for k in range(count):
            last.seek(0)
            last.write(f"--call {name} --seed {seed + k:<12d}")
            last.flush()
            fuzz.one(name, seed + k)
            done += 1
            if done % 100 == 0 and fuzz.memory() > BYTES:
                raise AssertionError(f"{name}, seed {seed + k}: {fuzz.memory()} bytes")
            if k % 500 == 499:
                fuzz.begin()        # what requests mean may have been closed by one
        fine = fuzz.works() and fine
        fuzz.close()
        for (_, code), n in fuzz.counts.items():
            counts[code] = counts.get(code, 0) + n
        wrong += fuzz.wrong
        slowest, largest = max(slowest, fuzz.slowest), max(largest, fuzz.largest)
        if count >= 5000:
            print(f"{name}: {count}, {time.perf_counter() - begun:.0f} s so far, "
                  f"{fuzz.largest / 1e6:.0f} MB, {dict(fuzz.counts)}", flush=True)
    os.unlink(last.name)
    print(f"{done} requests of {len(calls)} calls, {time.perf_counter() - begun:.0f} s: {counts}; "
          f"slowest {slowest:.2f} s, at most {largest / 1e6:.0f} MB, "
          f"{len(wrong)} WRONG, works afterwards: {fine}")
    return 1 if wrong or not fine else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10000, help="of each call")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--call", help="one call only")
    parser.add_argument("--over-grpc", action="store_true")
    status = main(**vars(parser.parse_args()))
    sys.stdout.flush()
    os._exit(status)
