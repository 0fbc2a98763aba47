"""Net: steps and tensors between tasks in C, over unix and tcp, in one process and in two (net_worker.py)."""

import contextlib
import itertools
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from quiet import clock

import pyflow as tf
from pyflow import _executor
from pyflow.session import contract, runtime

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import net_worker as plans  # noqa: E402

FLOAT, INT32, STRING = 1, 3, 7
CANCELLED, INVALID, DEADLINE, NOT_FOUND, EXISTS, DENIED, EXHAUSTED, ABORTED, UNAVAILABLE = 1, 3, 4, 5, 6, 7, 8, 10, 14
KINDS = ("unix", "tcp")
numbers = itertools.count(1)
steps = itertools.count(1)


class Worker:
    """A process of net_worker.py."""

    def __init__(self, kind, lease=2.5, epoch=0, name=None):
        self.name, self.kind = name or f"/job:worker/replica:0/task:{next(numbers)}", kind
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(HERE / "net_worker.py"), kind, self.name, str(lease), str(epoch)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address, incarnation = self.process.stdout.readline().split()
        self.incarnation = int(incarnation)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line):
        self.tell(line)
        return self.process.stdout.readline().strip()

    def connect(self, net):
        net.connect(self.name, self.incarnation, self.kind, self.address)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def new_net(**options):
    return _executor.Net(_executor.Task(f"/job:master/replica:0/task:{next(numbers)}"), **options)


@pytest.fixture
def net():
    net = new_net()
    yield net
    net.close()


@pytest.fixture(scope="module", params=KINDS)
def worker(request):
    worker = Worker(request.param)
    yield worker
    worker.end()


@pytest.fixture
def there(net, worker):
    """A connected worker; afterwards its table is empty of this session's steps."""
    worker.connect(net)
    yield worker


def run(net, worker, handle, args=(), types=(), **options):
    number = next(steps)
    try:
        return net.run(worker.name, handle, 7, number, args, types, **options).result(20)
    finally:
        net.clean(worker.name, 7, number)


def until(what, seconds=10.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.002)


# ---------------------------------------------------------------- values
def test_results_are_those_of_the_plan(net, there):
    assert run(net, there, plans.NULL) == []
    np.testing.assert_array_equal(run(net, there, plans.ADD, [[1, 2, 3]], [FLOAT])[0], [2, 3, 4])
    pair = run(net, there, plans.PAIR, [np.float32(4), np.int32([5, 6])], [FLOAT, INT32])
    assert pair[1] == 5 and list(pair[0]) == [10, 12]
    text = [b"", b"a" * 100_000, "ä".encode(), b"\0b"]
    assert list(run(net, there, plans.TEXT, [np.array(text, object)], [STRING])[0]) == [t + b"!" for t in text]


def test_every_type_and_size_arrives_equal(net, there):
    random = np.random.RandomState(1)
    for dtype in plans.DTYPES:
        kind = tf.as_dtype(dtype).as_datatype_enum
        for shape in ((), (0,), (3, 0, 2), (7,), (2, 3, 5), (1,) * 9, (70_001,)):
            value = (random.standard_normal(shape) * 50).astype(dtype)
            got = run(net, there, plans.ECHO_OF + kind, [value], [kind])[0]
            assert got.dtype == value.dtype and got.shape == value.shape
            np.testing.assert_array_equal(got, value)


def test_a_large_tensor_arrives_equal(net, there):
    value = np.random.RandomState(2).standard_normal(6_500_000).astype(np.float32)      # 26 MB
    for _ in range(2):
        np.testing.assert_array_equal(run(net, there, plans.ECHO, [value], [FLOAT])[0], value)
    parts = run(net, there, plans.PAIR, [np.float32(4), np.int32([5, 6])], [FLOAT, INT32])
    assert parts[1] == 5, "what comes after a large frame"
    [peer] = net.peers()
    assert (peer["bytes_out"] < 1 << 20) == (there.kind == "unix"), "by memory that both see"
    until(lambda: net.peers()[0]["arena_used"] == 0)


def test_many_steps_at_once(net, there):
    def ask(k):
        under_way = [net.run(there.name, plans.ADD, 8, 1000 * k + j, [[k, j]], [FLOAT]) for j in range(200)]
        for j, one in enumerate(under_way):
            np.testing.assert_array_equal(one.result(20)[0], [k + 1, j + 1])

    threads = [threading.Thread(target=ask, args=[k]) for k in range(4)]
    failures = []
    hook, threading.excepthook = threading.excepthook, failures.append
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        threading.excepthook = hook
    assert not failures
    net.clean(there.name, 8)
    assert net.peers()[0]["remotes"] == 0


def test_callbacks_are_called(net, there):
    seen, enough = [], threading.Event()

    def landed(one):
        seen.append(one.result()[0][0])
        if len(seen) == 50:
            enough.set()

    for k in range(50):
        net.run(there.name, plans.ADD, 9, k, [[k]], [FLOAT], callback=landed)       # nobody keeps it
    assert enough.wait(20) and sorted(seen) == list(range(1, 51))
    net.clean(there.name, 9)


# ---------------------------------------------------------------- errors
def failure(call, *args, **options):
    with pytest.raises(_executor.StepError) as caught:
        call(*args, **options)
    return caught.value


def test_errors_say_what_and_where(net, there):
    error = failure(run, net, there, plans.FAIL, [[np.nan]], [FLOAT])
    assert (error.code, error.node, error.op, error.task) == (INVALID, "checked", "CheckNumerics", there.name)
    assert "no number here" in error.message and "CPU:0" in error.device and not error.derived
    error = failure(run, net, there, 99)
    assert error.code == ABORTED and "no plan under handle 63" in error.message and there.name in error.message
    error = failure(run, net, there, plans.ADD)
    assert error.code == INVALID and "takes 1 arguments, a peer sent 0" in error.message
    error = failure(run, net, there, plans.ADD, [[1]], [INT32])
    assert error.code == INVALID and "of type float, a peer sent int32" in error.message
    error = failure(run, net, there, plans.ADD, [[[1]]], [FLOAT])
    assert error.code == INVALID and "another shape" in error.message and "_arg_x" in error.message
    error = failure(net.run, "/job:nobody/replica:0/task:0", plans.NULL, 7, 1)
    assert error.code == UNAVAILABLE and error.task == "/job:nobody/replica:0/task:0"
    assert run(net, there, plans.NULL) == [], "the connection is as good as before"


def test_a_blocked_step_is_cancelled_and_has_a_deadline(net, there):
    number = next(steps)
    one = net.run(there.name, plans.WAIT, 7, number)
    assert not one.wait(0.05) and not one.done()
    one.cancel()
    assert failure(one.result, 10).code == CANCELLED
    net.clean(there.name, 7, number)
    begun = time.monotonic()
    error = failure(run, net, there, plans.WAIT, timeout=0.2)
    assert error.code == DEADLINE and 0.15 < time.monotonic() - begun < 5
    number = next(steps)
    assert net.cancel(there.name, 7, number, INVALID, "a cause", task="/job:a/replica:0/task:9")     # before it begins
    error = failure(net.run(there.name, plans.WAIT, 7, number).result, 10)
    assert (error.code, error.message, error.task) == (INVALID, "a cause", "/job:a/replica:0/task:9")
    net.clean(there.name, 7, number)
    error = failure(net.run(there.name, plans.NULL, 7, number).result, 10)
    assert error.code == NOT_FOUND and "is over" in error.message and error.derived


def test_what_is_over_is_cleaned_with_the_next_step(net, there):
    for k in range(100):
        number = next(steps)
        net.run(there.name, plans.NULL, 71, number).result(10)
        assert net.clean(there.name, 71, number, soon=True)
    assert failure(net.run(there.name, plans.NULL, 71, number).result, 10).code == NOT_FOUND
    until(lambda: eval(there.ask("counts"))["open"] == 0)


def test_a_step_dropped_is_cancelled(net, there):
    net.run(there.name, plans.WAIT, 7, next(steps))
    until(lambda: net.peers()[0]["remotes"] == 0)
    net.clean(there.name, 7)


# ---------------------------------------------------------------- lost peers
@pytest.mark.alone
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_peer_is_an_error_at_once(kind):
    lost = []
    net, worker = new_net(lost=lambda *about: lost.append(about)), Worker(kind)
    worker.connect(net)
    one = net.run(worker.name, plans.WAIT, 7, 1)
    assert not one.wait(0.02)
    begun = clock()
    worker.process.kill()
    error = failure(one.result, 10)
    assert clock() - begun < 0.5
    assert error.code == UNAVAILABLE and error.task == worker.name and f"{worker.name} was lost" in error.message
    until(lambda: lost)
    assert lost[0][:3] == (worker.name, worker.incarnation, UNAVAILABLE)
    assert failure(net.run, worker.name, plans.NULL, 7, 2).code == UNAVAILABLE and net.peers() == []
    worker.end()
    net.close()


def test_steps_of_a_lost_asker_end(worker):
    """The worker's steps that it began end, and their table's entries are told why."""
    net = new_net()
    worker.connect(net)
    one = net.run(worker.name, plans.WAIT, 70, 1)
    assert not one.wait(0.05)
    net.close()
    error = failure(one.result, 10)
    assert error.code == CANCELLED and "this task's net was closed" in error.message
    other = new_net()
    worker.connect(other)
    until(lambda: not any(peer["serving"] for peer in eval(worker.ask("peers"))))
    other.clean(worker.name, 70)
    other.close()


@pytest.mark.alone
def test_a_frozen_peer_is_lost_after_its_lease():
    net, worker = new_net(lease=0.5), Worker("unix", lease=0.5)
    worker.connect(net)
    one = net.run(worker.name, plans.WAIT, 7, 1)
    os.kill(worker.process.pid, signal.SIGSTOP)
    wall, begun = time.monotonic(), clock()
    error = failure(one.result, 10)
    assert 0.3 < time.monotonic() - wall and clock() - begun < 1.5
    assert error.code == UNAVAILABLE and "no sign of life" in error.message
    os.kill(worker.process.pid, signal.SIGCONT)
    until(lambda: eval(worker.ask("peers")) == [])           # the other side knows as well
    worker.connect(net)                                      # it is of the same incarnation: it may come back
    assert run(net, worker, plans.NULL) == []
    worker.end()
    net.close()


def test_who_is_not_meant_is_refused(net, worker):
    error = failure(net.connect, worker.name, worker.incarnation ^ 1, worker.kind, worker.address)
    assert error.code == ABORTED and "not of the incarnation that was asked for" in error.message
    error = failure(net.connect, "/job:other/replica:0/task:0", worker.incarnation, worker.kind, worker.address)
    assert error.code == NOT_FOUND and f"this is {worker.name}" in error.message
    error = failure(net.connect, worker.name, worker.incarnation, worker.kind, worker.address.replace("pyflow", "nobody")
                    if worker.kind == "unix" else "127.0.0.1:1")
    assert error.code == UNAVAILABLE and "refused" in error.message
    worker.connect(net)
    assert run(net, worker, plans.NULL) == []


def test_a_task_of_a_lower_epoch_than_was_seen_of_it_is_refused():
    """Epochs are a task's own: others may have higher ones."""
    peer, old, new = new_net(epoch=9), new_net(epoch=4), new_net(epoch=5)
    one, again = (_executor.Net(_executor.Task("/job:again/replica:0/task:0"), epoch=epoch) for epoch in (2, 1))
    address = peer.listen("unix")
    for net in (old, new, one):
        net.connect(peer.name, peer.incarnation, "unix", address)
    error = failure(again.connect, peer.name, peer.incarnation, "unix", address)
    assert error.code == ABORTED and f"{again.name} is of epoch 1, which is over: 2 has been here" in error.message
    error = failure(peer.connect, again.name, again.incarnation, "unix", again.listen("unix"))
    assert error.code == ABORTED and "is of epoch 1" in error.message
    old.connect(new.name, new.incarnation, "unix", new.listen("unix"))
    for net in (peer, old, new, one, again):
        net.close()


def test_addresses():
    net = new_net()
    assert failure(net.listen, "tcp", "0.0.0.0:0").code == DENIED
    assert "insecure=True" in failure(net.connect, "/job:a", 1, "tcp", "192.0.2.1:99", timeout=1).message
    assert failure(net.listen, "tcp", "example.org:80").code == INVALID
    assert failure(net.listen, "tcp", "127.0.0.1").code == INVALID
    assert failure(net.listen, "carrier pigeon").code == NOT_FOUND
    assert net.listen("tcp", "localhost:0").startswith("127.0.0.1:")
    path = net.listen("unix", "@pyflow-test-%d" % os.getpid())
    assert failure(net.listen, "unix", path).code == EXISTS
    net.close()
    assert failure(net.listen, "unix").code == CANCELLED


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_user_is_refused(net):
    address = net.listen("unix")
    code = """if 1:
        import os, socket, sys
        os.setuid(65534)
        s = socket.socket(socket.AF_UNIX)
        s.connect("\\0" + sys.argv[1][1:])
        s.settimeout(10)
        try:
            s.sendall(b"x" * 32)
            assert s.recv(1) == b""
        except (BrokenPipeError, ConnectionResetError):
            pass
    """
    subprocess.run([sys.executable, "-c", code, address], check=True, timeout=30)
    assert net.peers() == []


# ---------------------------------------------------------------- one process
@pytest.fixture(params=KINDS)
def two(request):
    """Two tasks of this process, connected."""
    a, b = new_net(), new_net()
    a.connect(b.name, b.incarnation, request.param, b.listen(request.param))
    until(lambda: b.peers() and b.peers()[0]["state"] == "open")
    yield a, b
    a.close()
    b.close()


def test_tensors_meet_their_receivers(two):
    """Pushed, by shared memory, in either direction, before and after somebody waits."""
    for a, b in (two, two[::-1]):
        for n in (0, 3, 16_000, 70_000, 3_000_000):
            value, told, event = np.random.RandomState(n).standard_normal(n).astype(np.float32), [], threading.Event()
            number = next(steps)
            a.put(b.name, 5, number, b"early", value, FLOAT)
            b.task.take(5, number, b"early", lambda code, got: told.append((code, got)))
            b.task.take(5, number, b"late", lambda code, got: (told.append((code, got)), event.set()))
            a.put(b.name, 5, number, b"late", value, FLOAT)
            assert event.wait(10)
            until(lambda: len(told) == 2)
            for code, got in told:
                assert code == 0
                np.testing.assert_array_equal(got, value)
            b.task.clean(5, number)


def test_announced_tensors_arrive_in_chunks():
    """Without memory that both see; more than may be under way at once wait their turn."""
    a, b = new_net(arena_bytes=0), new_net(arena_bytes=0, incoming_bytes=5 << 20)
    a.connect(b.name, b.incarnation, "unix", b.listen("unix"))
    values = [np.random.RandomState(k).standard_normal(1_000_000).astype(np.float32) for k in range(8)]
    told = {}
    for k, value in enumerate(values):
        b.task.take(5, 1, b"%d" % k, lambda code, got, k=k: told.__setitem__(k, (code, got)))
        a.put(b.name, 5, 1, b"%d" % k, value, FLOAT)
    until(lambda: len(told) == 8)
    for k, value in enumerate(values):
        np.testing.assert_array_equal(told[k][1], value)
    until(lambda: a.peers()[0]["announced"] == 0)
    b.task.take(5, 2, b"too large", lambda code, got: told.__setitem__("large", code))
    a.put(b.name, 5, 2, b"too large", np.zeros(1_500_000, np.float32), FLOAT)
    until(lambda: "large" in told)
    assert told["large"] == EXHAUSTED
    until(lambda: a.peers()[0]["announced"] == 0)
    for net in (a, b):
        net.task.clean(5)
        net.close()


def test_tensors_for_steps_that_are_over_and_floods(two):
    a, b = two
    b.task.clean(5, 1)
    a.put(b.name, 5, 1, b"k", np.zeros(10, np.float32), FLOAT)        # nobody wants it
    b.task.limit(4, 1 << 20)
    codes = []
    a.task.take(5, 14, b"never", lambda code, got: codes.append(code))
    for k in range(10, 20):
        a.put(b.name, 5, k, b"k", np.zeros(10, np.float32), FLOAT)
    until(lambda: codes)                    # the fifth is refused, and its step fails on the side that sent it, too ...
    assert codes == [EXHAUSTED]
    assert b.task.counts()["early"] == 4 and len(a.peers()) == 1      # ... the connection stays
    for net in two:
        net.task.clean(5)


def test_both_connect_at_once():
    for _ in range(20):
        a, b = new_net(), new_net()
        to_a, to_b = a.listen("unix"), b.listen("tcp")
        threads = [threading.Thread(target=a.connect, args=(b.name, b.incarnation, "tcp", to_b)),
                   threading.Thread(target=b.connect, args=(a.name, a.incarnation, "unix", to_a))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for x, y in ((a, b), (b, a)):
            told = threading.Event()
            until(lambda: [p["state"] for p in x.peers()] == ["open"])
            x.put(y.name, 1, 1, b"k", np.float32(1), FLOAT)
            y.task.take(1, 1, b"k", lambda code, got: told.set())
            assert told.wait(10)
            y.task.clean(1, 1)
        a.close()
        b.close()


def test_a_task_started_anew_takes_the_place_of_the_old(net):
    address, name, lost = net.listen("unix"), "/job:worker/replica:0/task:500", []
    first = _executor.Net(_executor.Task(name), lost=lambda *about: lost.append(about))
    first.connect(net.name, net.incarnation, "unix", address)
    second = _executor.Net(_executor.Task(name))
    second.connect(net.name, net.incarnation, "unix", address)
    until(lambda: lost)
    assert first.peers() == [] and net.peers()[0]["incarnation"] == second.incarnation
    first.close()
    second.close()


def test_a_forked_child_leaves_the_nets_alone(two):
    a, b = two
    child = os.fork()
    if not child:
        try:
            a.close()
            b.close()
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    a.put(b.name, 1, 1, b"k", np.float32(1), FLOAT)
    told = threading.Event()
    b.task.take(1, 1, b"k", lambda code, got: told.set())
    assert told.wait(10)
    b.task.clean(1)


def test_a_step_that_waited_for_a_processor_is_brief_still(net):
    """Who reads links runs it on, though threads of the pool are at a kernel that lasts: they would begin it afterwards."""
    worker, stop = Worker("unix"), threading.Event()
    worker.connect(net)

    def brief():
        return run(net, worker, plans.WIDE, [np.float32(4)], [FLOAT])

    def ask():
        while not stop.is_set():
            brief()
    for _ in range(30):
        brief()
    asking = threading.Thread(target=ask)
    asking.start()
    for _ in range(20):
        os.kill(worker.process.pid, signal.SIGSTOP)         # now and then in the midst of one
        time.sleep(0.03)
        os.kill(worker.process.pid, signal.SIGCONT)
        time.sleep(0.003)
    stop.set()
    asking.join()
    count, lasts = 0, net.run(worker.name, plans.KERNEL, 7, next(steps), [np.int32(800_000)], [INT32])
    while not lasts.done():
        brief()
        count += 1
    assert count > 20
    worker.end()


# ---------------------------------------------------------------- limits
def test_whoever_sends_more_than_is_taken_waits():
    """The consumer sleeps: what waits for it stays within the bound and a tensor, and all of it arrives in the end."""
    bound, each = 1 << 20, 60_000
    net, worker = new_net(lease=60, queue_bytes=bound), Worker("tcp", lease=60)
    worker.connect(net)
    os.kill(worker.process.pid, signal.SIGSTOP)
    sent, value, most = [], np.ones(each // 4, np.float32), 0

    def send():
        for k in range(400):                                # 24 MB
            net.put(worker.name, 3, 1, b"%d" % k, value, FLOAT)
            sent.append(k)

    thread = threading.Thread(target=send)
    thread.start()
    last = -1
    while len(sent) != last:                                # until nothing moves any more
        last = len(sent)
        time.sleep(0.3)
        most = max(most, net.peers()[0]["queued"])
    assert thread.is_alive() and len(sent) < 390 and bound - each < most <= bound + 2 * each
    os.kill(worker.process.pid, signal.SIGCONT)
    thread.join(20)
    until(lambda: eval(worker.ask("counts"))["early_bytes"] == 400 * each)
    net.clean(worker.name, 3)
    worker.end()
    net.close()


def sends(net, peer, values):
    """A plan that sends each value to the peer's step, under its number."""
    graph = tf.GraphDef()
    for k, value in enumerate(values):
        const = graph.node.add(name=f"c{k}", op="Const")
        const.attr["dtype"].type = FLOAT
        const.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
        send = graph.node.add(name=f"s{k}", op="_net.Send", input=[const.name])
        send.attr["T"].type = FLOAT
        for attr, text in (("tensor_name", f"{k}"), ("send_device", "/device:CPU:0"),
                           ("recv_device", f"{peer}/device:CPU:0")):
            send.attr[attr].s = text.encode()
        send.attr["send_device_incarnation"].i = 1
    net.route(peer)
    runtime.start()
    return _executor.compile(graph.SerializeToString(), {}, _executor.State("s", net.task, None), _executor.default_pool(2))


def test_all_that_waits_for_room_is_sent_however_it_comes_to_be_there():
    """One tensor at a time may wait in the queue.  Each that is let go is taken by the link at once, so that nothing is left
    there whose going would let go the next."""
    net, worker, value = new_net(lease=60, queue_bytes=0), Worker("tcp", lease=60), np.ones(15_000, np.float32)
    worker.connect(net)
    plan = sends(net, worker.name, [value] * 20)
    os.kill(worker.process.pid, signal.SIGSTOP)
    while net.peers()[0]["queued"] == 0:
        net.put(worker.name, 3, 2, b"%d" % next(steps), value, FLOAT)
    started = plan.start([], contract.RunOptions(task=net.task), key=(3, 1))
    time.sleep(0.05)
    os.kill(worker.process.pid, signal.SIGCONT)
    assert started.wait(10), net.peers()
    net.clean(worker.name, 3)
    worker.end()
    net.close()


def test_a_large_tensor_for_which_shared_memory_has_no_room_is_sent_all_the_same():
    a, b = new_net(arena_bytes=1 << 20), new_net()
    a.connect(b.name, b.incarnation, "unix", b.listen("unix"))
    value, told = np.arange(1 << 20, dtype=np.float32), []
    a.put(b.name, 3, 1, b"key", value, FLOAT)
    b.task.take(3, 1, b"key", lambda code, got: told.append(got))
    until(lambda: told)
    np.testing.assert_array_equal(told[0], value)
    for net in (a, b):
        net.close()


@pytest.mark.parametrize("kind", KINDS)
def test_what_nobody_reads_stays_with_who_sends(kind):
    """Beyond the reader's window tensors are only announced, and fetched once somebody waits for them, in any order."""
    window, each = 1 << 20, 15_000                          # 60 kB
    a, b = new_net(queue_bytes=1 << 26), new_net(window_bytes=window)
    a.connect(b.name, b.incarnation, kind, b.listen(kind))
    values = {k: np.full(each if k % 3 else 3 * each, k, np.float32) for k in range(80)}
    for k, value in values.items():
        a.put(b.name, 3, 1, b"%d" % k, value, FLOAT)
    a.put(b.name, 3, 1, b"text", np.array([b"x" * 100_000] * 5, object), STRING)
    time.sleep(0.1)
    assert window / 2 < b.peers()[0]["stored"] <= window * 5 / 4
    until(lambda: a.peers()[0]["queued"] == 0)
    sent = sum(v.nbytes for v in values.values())
    assert a.peers()[0]["announced"] > sent / 2 and b.task.counts()["early_bytes"] < sent / 2
    told = {}
    b.task.take(3, 1, b"text", lambda code, got: told.__setitem__("text", (code, got)))
    for k in reversed(values):
        b.task.take(3, 1, b"%d" % k, lambda code, got, k=k: told.__setitem__(k, (code, got)))
    until(lambda: len(told) == len(values) + 1)
    for k, value in values.items():
        np.testing.assert_array_equal(told[k][1], value)
    assert told["text"][1].tolist() == [b"x" * 100_000] * 5
    until(lambda: a.peers()[0]["announced"] == 0)
    assert b.peers()[0]["stored"] == 0
    for k in range(80):                                     # a step that ends unread: all goes, on both sides
        a.put(b.name, 3, 2, b"%d" % k, values[k], FLOAT)

    def is_clean():
        b.task.clean(3)                                     # again: some of it may only come now
        return a.peers()[0]["announced"] == 0 and b.peers()[0]["stored"] == 0
    until(is_clean)
    for net in (a, b):
        net.close()


def test_large_tensors_cost_no_page_faults(net):
    """Once memory that both see is there: three times ten of 100 MB."""
    worker, there, got = Worker("unix"), threading.Semaphore(0), []
    worker.connect(net)

    def transfer(number):
        net.task.take(9, number, b"key", lambda code, value: (got.append((code, value.nbytes, value[::1024].sum())), there.release()))
        worker.tell(f"send {net.name} {number} 25000000")
        assert there.acquire(timeout=10)
        net.task.clean(9, number)

    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt, int(worker.ask("faults"))

    def new_faults(numbers):
        before = faults()
        for number in numbers:
            transfer(number)
        return [after - b for b, after in zip(before, faults())]

    new_faults(range(1, 6))
    rounds = [new_faults(range(first, first + 10)) for first in (6, 16, 26)]
    worker.end()
    assert got == [(0, 100_000_000, 24415.0)] * 35           # one of each page was read
    # Of 24,414 pages ten times.  An arena that comes back late makes one more, once: not in each round.
    assert min(map(max, rounds)) < 200, rounds


@pytest.mark.parametrize("kind", KINDS)
def test_strange_bytes_end_their_connection_only(net, kind):
    address = net.listen(kind)
    random = np.random.RandomState(3)
    other = new_net()
    other.connect(net.name, net.incarnation, kind, address)
    for k in range(60):
        s = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
        s.settimeout(10)
        s.connect("\0" + address[1:] if kind == "unix" else ("127.0.0.1", int(address.rpartition(":")[2])))
        head = np.array([random.randint(0, 100) if k % 2 else random.randint(0, 2**31)], "<u4").tobytes()
        try:
            s.sendall(head + random.bytes(4 + random.randint(24, 600)))
            s.shutdown(socket.SHUT_WR)
            while s.recv(4096):
                continue
        except OSError:
            pass
        s.close()
    until(lambda: [p["name"] for p in net.peers()] == [other.name])
    told = threading.Event()
    net.task.take(1, 1, b"k", lambda code, got: told.set())
    other.put(net.name, 1, 1, b"k", np.float32(1), FLOAT)
    assert told.wait(10)
    net.task.clean(1)
    other.close()


def dialled(kind, address):
    """A socket to who listens there."""
    s = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
    s.settimeout(10)
    s.connect("\0" + address[1:] if kind == "unix" else ("127.0.0.1", int(address.rpartition(":")[2])))
    return s


def frame(kind, body=b"", session=0, step=0):
    return struct.pack("<IHHQQQ", len(body), kind, 0, session, step, 0) + body


def text(data):
    return struct.pack("<I", len(data)) + data


def hello(name, worker):
    """What a task says first, to a Worker or a Net."""
    return frame(1, struct.pack("<IIQQ", 0x316e6670, 2, 77, worker.incarnation) + text(name) + text(worker.name.encode()) +
                 struct.pack("<Q", 0))


def announcement(number, key, bytes_=1 << 20):
    shape = struct.pack("<IIIIqQ", FLOAT, 4, 1, 0, bytes_ // 4, bytes_)
    return frame(5, struct.pack("<Q", number) + text(key) + shape, 1, 1)


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1]) / 1000


def test_announcements_without_end_are_no_memory(worker):
    """A peer that announces more than it may is lost, and what it announced with it: eight of them, 12 MB each."""
    most = before = resident(worker.process.pid)
    sent = 0
    for connection in range(8):
        s = dialled(worker.kind, worker.address)
        s.sendall(hello(b"/job:other/replica:0/task:%d" % connection, worker))
        with contextlib.suppress(OSError):
            for k in range(200):                    # a hundred of 650 bytes at a time
                data = b"".join(announcement(100 * k + j, b"%02d%04d" % (connection, 100 * k + j) * 100) for j in range(100))
                s.sendall(data)
                sent += len(data)
                most = max(most, resident(worker.process.pid))
            while s.recv(1 << 16):
                continue
        s.close()
    assert sent > 50e6 and most - before < 60, (sent, most - before)
    until(lambda: eval(worker.ask("peers")) == [])
    until(lambda: resident(worker.process.pid) < before + 15)


def test_dead_tensors_without_end_fail_their_step():
    """They have no bytes, but their keys do, and a step that is open takes in what comes."""
    net, dead = new_net(), struct.pack("<IIIIQ", 0, 1, 0, 0, 0)
    s = dialled("unix", net.listen("unix"))
    net.task.open(1, 1)
    before = resident("self")
    s.sendall(hello(b"/job:other/replica:0/task:0", net))
    for k in range(5_000):
        s.sendall(frame(4, text(b"%05d" % k + b"-" * 16000) + dead, 1, 1))
    found = failure(net.task.take, 1, 1, b"another", print)
    assert found.code == EXHAUSTED and "dead tensors of 64 MB from /job:other" in found.message
    assert resident("self") - before < 130
    net.task.clean(1)
    for one in (s, net):
        one.close()


def test_who_asks_and_reads_no_answer_is_lost(worker):
    before = resident(worker.process.pid)
    s = dialled(worker.kind, worker.address)
    s.sendall(hello(b"/job:other/replica:0/task:0", worker))
    with pytest.raises(OSError):
        for _ in range(1000):
            s.sendall(frame(10, bytes(16)) * 1000)
            assert resident(worker.process.pid) < before + 150
    s.close()
    until(lambda: eval(worker.ask("peers")) == [])
    until(lambda: resident(worker.process.pid) < before + 15)


def test_who_announces_much_waits_until_it_is_asked_for():
    """Beyond the bound an announcement stays with who makes it; all arrives in the end."""
    a, b = new_net(queue_bytes=1 << 30), new_net(window_bytes=0)
    a.connect(b.name, b.incarnation, "unix", b.listen("unix"))
    keys, value, sent, got = [b"%d" % k + b"-" * 8000 for k in range(1200)], np.ones(3, np.float32), [], []

    def send():
        for key in keys:
            a.put(b.name, 3, 1, key, value, FLOAT)
            sent.append(key)

    thread = threading.Thread(target=send)
    thread.start()
    until(lambda: len(sent) > 400)
    time.sleep(0.1)
    assert thread.is_alive() and len(sent) * 8250 < (4 << 20) + 3 * 8250
    for key in keys:
        b.task.take(3, 1, key, lambda code, what: got.append(code))
    until(lambda: len(got) == len(keys))
    thread.join()
    assert not any(got)
    for net in (a, b):
        net.task.clean(3)
        net.close()


@pytest.mark.parametrize("kind", KINDS)
def test_many_that_greet_slowly_keep_nobody_out(kind):
    net, other = new_net(lease=30), new_net()
    address = net.listen(kind)
    slow = [dialled(kind, address) for _ in range(100)]
    for s in slow:
        with contextlib.suppress(OSError):          # of more than 64 the oldest are lost
            s.sendall(hello(b"/job:slow/replica:0/task:0", net)[:40])
    begun = time.monotonic()
    other.connect(net.name, net.incarnation, kind, address)
    assert time.monotonic() - begun < 5 and len(net.peers()) <= 66
    told = threading.Event()
    net.task.take(1, 1, b"k", lambda code, got: told.set())
    other.put(net.name, 1, 1, b"k", np.float32(1), FLOAT)
    assert told.wait(10)
    net.task.clean(1)
    for s in (*slow, other, net):
        s.close()


# ---------------------------------------------------------------- without Python
def times_of_null_steps(net, there, seconds):
    end, times = time.monotonic() + seconds, []
    while time.monotonic() < end:
        begun = time.perf_counter()
        run(net, there, plans.NULL)
        times.append(time.perf_counter() - begun)
    return times


@contextlib.contextmanager
def each_on_a_processor(*pids):
    """All threads that these processes have now: where the system puts two that speak to each other,
    on one or on two, makes a step three times as long, and it changes its mind."""
    processors = sorted(os.sched_getaffinity(0))
    threads = {int(t): k for k, pid in enumerate(pids) for t in os.listdir(f"/proc/{pid}/task")}
    for thread, k in threads.items():
        os.sched_setaffinity(thread, {processors[k % len(processors)]})
    yield
    for thread in threads:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(thread, processors)


@pytest.mark.parametrize("seconds", [1.0, pytest.param(5.0, marks=pytest.mark.long)])
def test_steps_go_on_while_python_holds_the_gil(net, there, seconds):
    """A worker whose Python holds the GIL answers as ever, and sends signs of life."""
    if seconds < 2:                     # beside other tests: neither is kept from a free processor
        _steps_go_on(net, there, seconds)
        return
    with each_on_a_processor(os.getpid(), there.process.pid):
        _steps_go_on(net, there, seconds)


def _steps_go_on(net, there, seconds):
    before = times_of_null_steps(net, there, 0.2)
    assert there.ask(f"hold {seconds}") == "held"
    times = times_of_null_steps(net, there, seconds - 0.2)
    assert there.process.stdout.readline() == "let go\n"
    middle, slowest = np.median(times), np.quantile(times, 0.99)
    print(f"{len(times)} null steps, p50 {middle * 1e6:.0f} us (before: {np.median(before) * 1e6:.0f}"
          f" us), p99 {slowest * 1e6:.0f} us")
    assert len(times) > 2000 * seconds and middle < 0.001
    if seconds > 2:
        assert middle < 1.5 * np.median(before) and slowest < 2e-3


@pytest.mark.alone
def test_a_plan_that_turns_out_long_stops_nobody(there, net):
    """The thread that received it runs it, and another one receives meanwhile."""
    slow = net.run(there.name, plans.SLOW, 7, next(steps))
    other = new_net()
    there.connect(other)
    begun = clock()
    assert run(other, there, plans.NULL) == []
    assert clock() - begun < 2.0
    assert slow.result(60)[0] == 3_000_000
    net.clean(there.name, 7)
    other.close()


def test_handles(net, there):
    assert there.ask(f"unserve {plans.SLOW + 1000}") == "False"
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [])
        plan = plans.plan_of(session, x + 1, {x: 0.0})
        net.serve(1, plan)
        assert failure(net.serve, 1, plan).code == EXISTS
        assert net.unserve(1) and not net.unserve(1)
