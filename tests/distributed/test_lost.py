"""Clients, masters and workers that are killed, frozen, cut off or interrupted: who notices, when,
and what is left."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
from quiet import clock

import lost
import processes
import pyflow as tf
from pyflow import _executor
from pyflow.distributed.run import remote_worker
from pyflow.distributed.wire.channels import Channels

LOST = pathlib.Path(lost.__file__)
LONG = pytest.mark.long         # the other way of the two
LINKS = [pytest.param(None, id="link", marks=LONG), pytest.param([], id="grpc")]


def start(*arguments):
    return subprocess.Popen([sys.executable, "-P", str(LOST), *arguments], stdout=subprocess.PIPE,
                            text=True, env={**os.environ, "PYTHONPATH": ""})


def end(process):
    process.kill()
    process.wait()
    process.stdout.close()


def state(server):
    """(steps under way, sessions) of a server."""
    status = server.status()
    calls = sum(session.busy for session in list(server._master._sessions.values()))
    return status.steps_open + status.steps_early + calls, status.sessions


def until(condition, seconds):
    """Seconds until condition() is true; fails after so many."""
    begun = clock()
    while not condition():
        assert clock() - begun < seconds, f"not within {seconds} s"
        time.sleep(0.01)
    return clock() - begun


@pytest.fixture
def ps():
    """function(links) -> (spec, a ps in this process with a lease of one second)."""
    servers = []

    def make(links):
        ports = processes.free_ports(2)
        spec = {"ps": [f"localhost:{ports[0]}"], "worker": [f"localhost:{ports[1]}"]}
        servers.append(tf.train.Server(spec, "ps", 0, lease=1.0, links=links))
        return spec, servers[-1]
    yield make
    for server in servers:
        server.stop()


# ---------------------------------------------------------------- who began it is gone

@pytest.mark.parametrize("how, links", [
    ("client", None), ("master", []), pytest.param("client", [], marks=LONG),
    pytest.param("master", None, marks=LONG)], ids=str)
def test_a_killed_beginner_of_100_blocked_steps(ps, how, links):
    """All gone within its lease."""
    spec, server = ps(links)
    where = server.target if how == "client" else json.dumps(spec)
    process = start(how, where, "100", json.dumps({"links": links, "lease": 1.0}))
    try:
        assert process.stdout.readline() == "blocked\n"
        until(lambda: state(server)[0] >= 100, 5)
    finally:
        end(process)
    until(lambda: state(server) == (0, 0), 2.5)        # the lease, and a beat to see that it is over


@pytest.mark.parametrize("links", LINKS)
def test_ctrl_c_ends_a_step_elsewhere(ps, links):
    _, server = ps(links)
    process = start("interrupted", server.target)
    try:
        assert process.stdout.readline() == "blocked\n"
        until(lambda: server.status().steps_running == 1, 5)
        process.send_signal(signal.SIGINT)
        until(lambda: state(server)[0] == 0, 1)
        assert process.stdout.readline() == "interrupted\n"
    finally:
        end(process)


@pytest.mark.alone
@pytest.mark.parametrize("links", LINKS)
def test_a_deadline_ends_a_step_elsewhere(ps, links):
    spec, server = ps(links)
    graph, never, alive = lost.blocked_graph()
    with tf.train.Server(spec, "worker", 0, links=links) as master:
        for target in (master.target, server.target.replace("localhost", "127.0.0.1")):
            with tf.Session(target, graph=graph) as session:
                session.run(alive)
                begun = clock()
                with pytest.raises(tf.errors.DeadlineExceededError):
                    session.run(never, options=tf.RunOptions(timeout_in_ms=200))
                assert clock() - begun < 1.2
                until(lambda: state(server)[0] == 0, 1)


@pytest.mark.alone
@pytest.mark.parametrize("traced, said", [(True, "ps.* is no longer at localhost"),
                                          (False, "ps.* listens at localhost")])
def test_a_step_at_a_task_that_is_elsewhere_now_is_unavailable(traced, said):
    """Its process may hang: who waits is told at once, not after a link's lease.  A traced step goes
    over a stream, which ends with the task's address."""
    graph, never, alive = lost.blocked_graph()
    with processes.Cluster({"ps": 1, "worker": 1}, ("worker", 0)) as cluster:
        with tf.Session(cluster.server.target, graph=graph) as session:
            session.run(alive)
            moved = {**cluster.spec(), "ps": [f"localhost:{processes.free_ports(1)[0]}"]}
            begun = []

            def freeze_and_move():
                cluster.processes["ps", 0].send_signal(signal.SIGSTOP)
                begun.append(clock())
                cluster.server.update_cluster(moved)
            timer = threading.Timer(0.3, freeze_and_move)
            timer.start()
            with pytest.raises(tf.errors.UnavailableError, match=said):
                session.run(never, options=traced and tf.RunOptions(
                    trace_level=tf.RunOptions.FULL_TRACE) or None, run_metadata=tf.RunMetadata())
            assert clock() - begun[0] < 1.5       # a lease is 2.2 s
            timer.join()


def test_a_task_that_is_said_to_be_back_is_reached_again():
    graph, _, alive = lost.blocked_graph()
    with processes.Cluster({"ps": 1, "worker": 1}, ("worker", 0)) as cluster:
        elsewhere = {**cluster.spec(), "ps": [f"localhost:{processes.free_ports(1)[0]}"]}
        with tf.Session(cluster.server.target, graph=graph) as session:
            session.run(alive)
            cluster.server.update_cluster(elsewhere)
            with pytest.raises(tf.errors.UnavailableError, match="no longer at|listens at"):
                session.run(alive)
        cluster.server.update_cluster(cluster.spec())
        with tf.Session(cluster.server.target, graph=graph) as session:
            session.run(alive)


def test_a_session_whose_steps_come_is_alive(monkeypatch):
    """Though its master's signs of life do not: they go another way than steps.  So is one whose
    master has its connection; one that has lost that, and does not come, is not."""
    monkeypatch.setattr(remote_worker.RemoteWorker, "touch", lambda worker, numbers: None)
    graph, _, alive = lost.blocked_graph()
    with processes.Cluster({"ps": 1, "worker": 1}, ("worker", 0), lease=0.5) as cluster:
        with tf.Session(cluster.server.target, graph=graph) as session:
            until_ = time.monotonic() + 1.5
            while time.monotonic() < until_:
                session.run(alive)
                time.sleep(0.1)
            time.sleep(1.5)
            session.run(alive)
            cluster.server._worker.links.net.disconnect("/job:ps/replica:0/task:0", "a test")
            time.sleep(1.5)
            with pytest.raises(tf.errors.AbortedError):
                session.run(alive)


def test_a_closed_session_ends_its_step_elsewhere(ps):
    """One that lies on a single other task, and its own."""
    spec, server = ps(["unix"])
    with tf.Graph().as_default() as graph, tf.device("/job:ps/task:0"):
        never = tf.FIFOQueue(1, tf.float32, shared_name="never").dequeue()
    with tf.train.Server(spec, "worker", 0, links=["unix"]) as master:
        session, raised = tf.Session(master.target, graph=graph), []

        def run():
            with pytest.raises(tf.errors.CancelledError) as error:
                session.run(never)
            raised.append(error)
        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: [len(link.running()) for link in master._place.sessions] == [1], 5)
        [link] = master._place.sessions
        link.cancel("of no use any more")
        thread.join(5)
        assert raised and "of no use any more" in str(raised[0].value)
        session.close()


# ---------------------------------------------------------------- Python is held, for longer than leases

HOLD = "import ctypes, signal\n" \
       "signal.signal(signal.SIGUSR1, lambda *_: ctypes.PyDLL(None).usleep(1_800_000))\n"


@pytest.mark.parametrize("links", [pytest.param(["unix"], id="link"),
                                   pytest.param([], id="grpc", marks=LONG)])
def test_a_task_whose_python_was_held_gives_up_nobody(links):
    """It heard of nobody meanwhile; who lives has its session, plans and steps still."""
    with processes.Cluster({"ps": 1, "worker": 1}, ("worker", 0), setup=HOLD, lease=1.0,
                           links=links) as cluster:
        graph, never, alive = lost.blocked_graph()
        with tf.Session(cluster.server.target, graph=graph) as session:
            session.run(alive)
            raised = []

            def run():
                try:
                    session.run(never)
                except tf.errors.OpError as error:
                    raised.append(error)
            threading.Thread(target=run, daemon=True).start()
            time.sleep(0.3)
            cluster.processes["ps", 0].send_signal(signal.SIGUSR1)
            begun = time.monotonic()
            while time.monotonic() - begun < 3.5:
                session.run(alive)
                time.sleep(0.05)
            assert not raised


def test_a_master_whose_python_was_held_has_its_session(ps):
    """Its link answers for it: the lease, of a second, is for the dead."""
    spec, server = ps(["unix"])
    process = start("held", json.dumps(spec), "2.5")
    try:
        assert process.stdout.readline() == "blocked\n"
        until(lambda: state(server)[0] == 1, 5)
        assert process.stdout.readline() == "the same session: 2.0\n"
        assert process.stdout.readline() == "CancelledError\n"
    finally:
        end(process)


@pytest.mark.parametrize("how, links", [
    ("held", None), ("stopped", "none"), pytest.param("held", "none", marks=LONG),
    pytest.param("stopped", None, marks=LONG)], ids=str)
def test_a_client_that_was_held_or_stopped_goes_on(ps, how, links, monkeypatch):
    """For longer than its lease, and than a task would be given: TensorFlow's goes on, too."""
    if links is not None:
        monkeypatch.setenv("PYFLOW_LINKS", links)
    _, server = ps(links and [])
    process = start("goes_on", server.target, "1.5" if how == "held" else "0")
    graph, _ = lost.waiting_graph()
    try:
        assert process.stdout.readline() == "blocked\n"
        if how == "stopped":
            process.send_signal(signal.SIGSTOP)
            time.sleep(3.0)             # a link gives up who is silent for 2.2 s
        else:
            time.sleep(1.0)
        assert state(server)[1] == 1
        with tf.Session(server.target, graph=graph) as session:
            session.run("put")
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == "later: 7.0\n"
        assert process.stdout.readline() == "the same session: 2.0\n"
        assert process.wait(5) == 0
        until(lambda: state(server) == (0, 0), 2.5)
    finally:
        end(process)


@pytest.mark.long
def test_a_frozen_task_that_is_only_called_by_is_given_up(ps):
    """Over gRPC a server does not ping: it calls back (watch.py)."""
    spec, server = ps([])
    process = start("master", json.dumps(spec), "1", json.dumps({"links": [], "lease": 1.0}))
    try:
        assert process.stdout.readline() == "blocked\n"
        until(lambda: state(server)[0] == 1, 5)
        time.sleep(1.0)                 # it is followed by now
        process.send_signal(signal.SIGSTOP)
        until(lambda: not server._worker.links.net.peers(), 3.5)
        until(lambda: state(server) == (0, 0), 2.5)
    finally:
        end(process)


# ---------------------------------------------------------------- a peer is frozen, or cut off

class Pair:
    """This process' server and a worker of another one, steps between which are under way."""

    def __init__(self, proxied, links=()):
        self.cluster = processes.Cluster({"a": 1, "b": 1}, ("a", 0), proxies=proxied,
                                         links=list(links))
        with tf.Graph().as_default() as self.graph:
            with tf.device("/job:b/task:0"):
                self.v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
                never = tf.FIFOQueue(1, tf.float32).dequeue()
                self.add = self.v.assign_add(1.0)
                there = self.v.read_value() * 3
            with tf.device("/job:a/task:0"):
                self.blocked = never + 1
                self.alive = there + 1
                self.here = tf.constant(3.0) + 1
        self.session = tf.Session(self.cluster.server.target, graph=self.graph)
        self.session.run(self.v.initializer)

    def fails(self, fault, within):
        """Begins a step that blocks, then the fault: seconds until UNAVAILABLE is raised."""
        raised = []

        def run():
            try:
                self.session.run(self.blocked)
            except tf.errors.OpError as error:
                raised.append((time.monotonic(), error))
        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: self.cluster.server.status().steps_open == 1, 5)
        time.sleep(0.05)
        begun = time.monotonic()
        fault()
        thread.join(within + 10)
        assert raised, "the step hangs"
        assert isinstance(raised[0][1], tf.errors.UnavailableError), raised[0][1]
        assert "/job:b/replica:0/task:0" in str(raised[0][1])
        assert raised[0][0] - begun < within
        assert self.session.run(self.here) == 4             # nothing else is disturbed
        return raised[0][0] - begun

    def close(self):
        self.session.close()
        self.cluster.__exit__()


@pytest.mark.parametrize("how", ["cut", pytest.param("stop_reading", marks=LONG)])
def test_a_link_that_is_down_is_an_error_on_both_sides(how):
    pair = Pair(proxied=True)
    try:
        for _ in range(2):
            both = pair.cluster.proxies.values()
            pair.fails(lambda both=both: [getattr(proxy, how)() for proxy in both], 2.6)
            proxy = pair.cluster.proxies["b", 0]
            pair.cluster.proxies["a", 0].read_on()
            pair.cluster.proxies["a", 0].mend()
            proxy.read_on()
            proxy.mend()
            until(lambda: works(pair.session, pair.alive), 5)
    finally:
        pair.close()


def works(session, fetch):
    try:
        session.run(fetch, options=tf.RunOptions(timeout_in_ms=1000))
    except tf.errors.OpError as error:
        print(time.monotonic(), str(error)[:200])
        return False
    return True


@pytest.mark.parametrize("links", [pytest.param([], id="grpc"),
                                   pytest.param(["unix"], id="link", marks=LONG)])
def test_a_frozen_worker_is_noticed_and_writes_nothing_when_thawed(links):
    pair = Pair(proxied=False, links=links)
    process = pair.cluster.processes["b", 0]
    try:
        pair.fails(lambda: process.send_signal(signal.SIGSTOP), 2.6)
        with pytest.raises(tf.errors.OpError):          # it is begun while the worker is frozen
            pair.session.run(pair.add, options=tf.RunOptions(timeout_in_ms=500))
        pair.session.close()
        process.send_signal(signal.SIGCONT)
        with tf.Session(pair.cluster.server.target, graph=pair.graph) as session:
            until(lambda: works(session, pair.alive), 5)
            time.sleep(0.3)
            assert session.run(pair.v) == 0
    finally:
        process.send_signal(signal.SIGCONT)
        pair.close()


@pytest.mark.parametrize("links", [[], ["unix"]], ids=["grpc", "link"])
def test_steps_that_are_over_are_cleaned_up_elsewhere(links):
    pair = Pair(proxied=False, links=links)
    channels = Channels()
    try:
        for _ in range(20):
            pair.session.run(pair.alive)
        other = remote_worker.RemoteWorker("/job:b/replica:0/task:0",
                                           pair.cluster.addresses["b", 0], channels, ("t", 0, 0))
        until(lambda: other.status(fresh=True).steps_open == 0, 2)
    finally:
        channels.close()
        pair.close()


def test_a_master_hears_that_two_of_its_tasks_lost_each_other():
    """A step that waits for what was lost between them would wait for ever."""
    pair = Pair(proxied=False)
    channels = Channels()
    try:
        server = pair.cluster.server
        teller = remote_worker.RemoteWorker("/job:a/replica:0/task:0", server.address, channels,
                                            ("/job:b/replica:0/task:0", 0, 0))

        def tell():
            (link,) = server._place.sessions
            (step,) = link._running
            teller.fail(link.number, step.number, _executor.StepError(
                14, "the link to c is down", task="/job:b/replica:0/task:0"))
        pair.fails(tell, 1)
    finally:
        channels.close()
        pair.close()


# ---------------------------------------------------------------- a successor

def test_a_successor_closes_its_forerunners_sessions(ps):
    """And what the forerunner still says is refused, with both epochs."""
    _, server = ps(None)
    name, channels = "/job:worker/replica:0/task:0", Channels()
    try:
        old = remote_worker.RemoteWorker("/job:ps/replica:0/task:0", server.address, channels,
                                         (name, 11, 1))
        new = remote_worker.RemoteWorker("/job:ps/replica:0/task:0", server.address, channels,
                                         (name, 22, 2))
        old.open_session(5, lease=60)
        assert server._worker.sessions() == [5]
        new.open_session(6, lease=60)
        assert server._worker.sessions() == [6]
        with pytest.raises(_executor.StepError, match="epoch 1.*epoch 2"):
            old.open_session(7, lease=60)
        assert server._worker.sessions() == [6]
    finally:
        channels.close()


# ---------------------------------------------------------------- a peer that does not take what is sent

def test_a_sleeping_consumer_bounds_what_its_producer_holds():
    """A loop sends 2 MB an iteration to a task behind a proxy that stopped reading for a while."""
    cluster, mega = processes.Cluster({"a": 1, "b": 1}, ("a", 0), proxies=True, links=[]), 1 << 19
    try:
        with tf.Graph().as_default() as graph:
            with tf.device("/job:a/task:0"):
                n = tf.placeholder(tf.int32, [])

            def body(i, total):
                with tf.device("/job:a/task:0"):
                    x = tf.ones([mega]) * tf.cast(i, tf.float32)
                with tf.device("/job:b/task:0"):
                    return i + 1, total + tf.reduce_sum(x[:1])
            with tf.device("/job:a/task:0"):
                i, total = tf.while_loop(lambda i, total: i < n, body, [0, 0.0],
                                         parallel_iterations=1000)
        proxy, soon = cluster.proxies["b", 0], tf.RunOptions(timeout_in_ms=60000)
        with tf.Session(cluster.server.target, graph=graph) as session:
            assert session.run(total, {n: 5}, options=soon) == 10
            proxy.stop_reading()
            timer = threading.Timer(1.0, proxy.read_on)
            timer.start()
            before, peak = resident(), []
            watch = threading.Thread(target=lambda: peak.extend(
                resident() for _ in range(100) if time.sleep(0.01) is None))
            watch.start()
            assert session.run(total, {n: 60}, options=soon) == 60 * 59 / 2
            watch.join()
            assert max(peak) - before < 80e6, f"{(max(peak) - before) / 1e6:.0f} MB more"
    finally:
        cluster.__exit__()


def resident():
    """Bytes of memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


# ---------------------------------------------------------------- two tasks that lose each other

# A task reaches task c through a forwarder of its own: while PATH.stop is there, nothing is passed
# on, and with PATH.cut both ends are closed.
FORWARD = """
import socket
from pyflow.distributed.wire import links
connect = links.Links.connect
def through(self, name, incarnation, offers, *more, **options):
    if name.startswith("/job:c/"):
        offers = [forwarded(offer) for offer in offers]
    return connect(self, name, incarnation, offers, *more, **options)
def forwarded(offer):
    kind, machine, address = offer.split(" ")
    host, port = address.rsplit(":", 1)
    port_of_ours = socket.create_server(("127.0.0.1", 0))
    def serve():
        ours, _ = port_of_ours.accept()
        theirs = socket.create_connection((host, int(port)))
        for pair in ((ours, theirs), (theirs, ours)):
            threading.Thread(target=pump, args=pair, daemon=True).start()
        while not os.path.exists(PATH + ".cut"):
            time.sleep(0.01)
        for end in (ours, theirs):
            end.shutdown(socket.SHUT_RDWR)
    threading.Thread(target=serve, daemon=True).start()
    return f"{kind} {machine} 127.0.0.1:{port_of_ours.getsockname()[1]}"
def pump(source, to):
    while data := source.recv(1 << 16):
        while os.path.exists(PATH + ".stop"):
            time.sleep(0.01)
        to.sendall(data)
links.Links.connect = through
"""


def test_a_step_whose_tensor_was_lost_between_two_other_tasks_is_unavailable(tmp_path):
    """Who was to get it would wait for ever, and so would the step's master, whom nobody else
    tells: its own connections stand."""
    path = str(tmp_path / "link")
    setup = f"import time\nPATH = {path!r}\n{FORWARD}"
    with processes.Cluster({"a": 1, "b": 1, "c": 1}, here=("a", 0), links=("tcp",),
                           setup=setup) as cluster:
        with tf.Graph().as_default() as graph:
            with tf.device("/job:b/task:0"):
                queue = tf.FIFOQueue(1, [tf.float32], [[]])
                fill, taken = queue.enqueue([1.0]), queue.dequeue()
            with tf.device("/job:c/task:0"):
                doubled = taken * 2.0
        with tf.Session(cluster.server.target, graph=graph) as sess:
            sess.run(fill)
            assert sess.run(doubled) == 2.0
            ended = []

            def run():
                try:
                    ended.append(sess.run(doubled))
                except tf.errors.OpError as problem:
                    ended.append(problem)
            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            (tmp_path / "link.stop").touch()
            sess.run(fill)
            time.sleep(0.1)                         # it is on its way
            (tmp_path / "link.cut").touch()
            thread.join(10)
            assert ended and isinstance(ended[0], tf.errors.UnavailableError), ended
            assert "/job:c" in str(ended[0]) and "/job:b" in str(ended[0])
            (tmp_path / "link.cut").unlink()
            (tmp_path / "link.stop").unlink()

            def works():
                sess.run(fill)
                try:
                    return sess.run(doubled) == 2.0
                except tf.errors.UnavailableError:
                    return False
            until(works, 10)                            # by a new connection
