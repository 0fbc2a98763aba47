"""Who is not there yet is waited for, as TensorFlow does, and a log says who and why; what a
time-out was given for ends when it says."""
import threading
import time

import pytest

import pyflow as tf
from pyflow.distributed.run import remote_worker


@pytest.fixture
def said(monkeypatch, caplog):
    """The lines of the log; what is said after 2 s and each 10 s is said at once."""
    monkeypatch.setattr(remote_worker, "SAY_SECONDS", 0.1)
    monkeypatch.setattr(remote_worker, "SAY_AGAIN_SECONDS", 0.2)
    monkeypatch.setattr(remote_worker, "LOOK_SECONDS", 0.1)
    return lambda: [r.getMessage() for r in caplog.records]


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.01)


def later(call):
    """(thread, [what call returned or raised])."""
    found = []

    def run():
        try:
            found.append(call())
        except Exception as problem:
            found.append(problem)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, found


def of_two(free_ports):
    """(a cluster of a ps and a worker, a graph with a node on each)."""
    ps, worker = free_ports(2)
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            there = tf.constant(2.0, name="there")
        with tf.device("/job:worker/task:0"):
            tf.multiply(there, 3.0, name="here")
    return {"ps": [f"localhost:{ps}"], "worker": [f"localhost:{worker}"]}, graph


def test_a_late_task_is_waited_for(free_ports, said):
    cluster, graph = of_two(free_ports)
    with tf.train.Server(cluster, "worker", 0) as server, \
            tf.Session(server.target, graph=graph) as session:
        thread, found = later(lambda: session.run("here:0"))
        expected = ("CreateSession still waiting for response from worker: "
                    f"/job:ps/replica:0/task:0: no process listens at {cluster['ps'][0]}")
        until(lambda: sum(line.startswith(expected) for line in said()) >= 2)
        with tf.train.Server(cluster, "ps", 0):
            thread.join(10)
            assert found == [6.0]


@pytest.mark.long
def test_a_task_that_comes_after_35_seconds(free_ports):
    cluster, graph = of_two(free_ports)
    with tf.train.Server(cluster, "worker", 0) as server:
        def train():
            with graph.as_default():
                tf.train.create_global_step()
                with tf.train.MonitoredTrainingSession(server.target) as session:
                    return session.run("here:0")
        thread, found = later(train)
        time.sleep(35)
        with tf.train.Server(cluster, "ps", 0):
            thread.join(20)
            assert found == [6.0]


def test_a_session_that_waits_can_be_closed(free_ports, said):
    cluster, graph = of_two(free_ports)
    with tf.train.Server(cluster, "worker", 0) as server:
        session = tf.Session(server.target, graph=graph)
        thread, found = later(lambda: session.run("here:0"))
        until(said)
        session.close()
        thread.join(5)
        assert isinstance(found[0], tf.errors.CancelledError), found


@pytest.mark.parametrize("whose", ["session", "server"])
def test_a_time_out_ends_the_wait(free_ports, whose):
    cluster, graph = of_two(free_ports)
    config = tf.ConfigProto(operation_timeout_in_ms=200)
    given = {whose: config}
    with tf.train.Server(cluster, "worker", 0, config=given.get("server")) as server, \
            tf.Session(server.target, graph=graph, config=given.get("session")) as session:
        with pytest.raises(tf.errors.DeadlineExceededError, match="no process listens at"):
            session.run("here:0")


def test_a_client_waits_for_its_server(free_ports, said):
    [port] = free_ports(1)
    thread, found = later(lambda: tf.Session(f"grpc://localhost:{port}",
                                             graph=tf.Graph()).list_devices()[0].name)
    until(lambda: any(f"no process listens at localhost:{port}" in line for line in said()))
    with tf.train.Server({"late": [f"localhost:{port}"]}):
        thread.join(10)
        assert found == ["/job:late/replica:0/task:0/device:CPU:0"]


def test_a_client_with_a_time_out(free_ports):
    [port] = free_ports(1)
    with pytest.raises(tf.errors.DeadlineExceededError,
                       match=f"did not answer for 0.2 s: no process listens at localhost:{port}"):
        tf.Session(f"grpc://localhost:{port}", config=tf.ConfigProto(operation_timeout_in_ms=200))


@pytest.mark.parametrize("way", ["here", "client", "link"])
def test_a_servers_own_time_out_ends_steps(way, monkeypatch):
    """TF 1.15: what the session's config or the run says comes before."""
    if way == "client":
        monkeypatch.setenv("PYFLOW_LINKS", "none")
    with tf.Graph().as_default() as graph:
        never = tf.FIFOQueue(1, tf.float32).dequeue()
    own = tf.ConfigProto(operation_timeout_in_ms=100)
    with tf.train.Server({"a": ["localhost:0"]}, config=own) as server:
        target = server.target if way == "here" else \
            server.target.replace("localhost", "127.0.0.1")
        with tf.Session(target, graph=graph) as session:
            with pytest.raises(tf.errors.DeadlineExceededError, match="within 100 ms"):
                session.run(never)
            with pytest.raises(tf.errors.DeadlineExceededError, match="within 20 ms"):
                session.run(never, options=tf.RunOptions(timeout_in_ms=20))
        with tf.Session(target, graph=graph,
                        config=tf.ConfigProto(operation_timeout_in_ms=30)) as session:
            with pytest.raises(tf.errors.DeadlineExceededError, match="within 30 ms"):
                session.run(never)


# ---------------------------------------------------------------- Session.reset

def test_reset_ends_as_its_time_out_says(free_ports):
    for port in (0, *free_ports(1)):
        begun = time.monotonic()
        with pytest.raises(tf.errors.DeadlineExceededError, match="did not answer for 0.005 s"):
            tf.Session.reset(f"grpc://localhost:{port}",
                             config=tf.ConfigProto(operation_timeout_in_ms=5))
        assert time.monotonic() - begun < 10           # not the 30 s of before


@pytest.mark.parametrize("containers, cleared", [(["other"], False), (["b"], False), (["a"], True),
                                                 ([], True), (["other", "a"], True)])
def test_a_jobs_name_is_its_servers_container(containers, cleared):
    with tf.Graph().as_default() as graph:
        v = tf.Variable(1.0)
        is_there = tf.is_variable_initialized(v)
    with tf.train.Server({"a": ["localhost:0"]}) as server:
        session = tf.Session(server.target, graph=graph)
        session.run(v.initializer)
        tf.Session.reset(server.target, containers)
        with tf.Session(server.target, graph=graph) as again:
            assert again.run(is_there) != cleared
        with pytest.raises(tf.errors.AbortedError):
            session.run(v)
