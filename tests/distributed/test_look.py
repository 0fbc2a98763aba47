"""A cluster seen from outside: status, top, stop; traces of all tasks in one."""
import json
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pytest
from chrome_flows import check_flows

import pyflow as tf
from pyflow import timeline
from pyflow.distributed.look import asking, clocks, merged_trace, probe, switches
from pyflow.distributed.wire import messages
from pyflow.framework import protos
from pyflow.tools import command


@pytest.fixture(scope="module")
def cluster():
    workers, ps = tf.test.create_local_cluster(2, 1)
    yield workers, ps
    for server in workers + ps:
        server.stop()


def pyflow(capsys, *args):
    """(exit status, what it printed) of `python -m pyflow ARGS`."""
    status = command.main([str(a) for a in args])
    said = capsys.readouterr()
    return status, said.out + said.err


def test_status_knows_all_tasks_from_one(cluster, capsys):
    workers, ps = cluster
    graph = tf.Graph()
    with graph.as_default(), tf.device("/job:worker/task:1"):
        x = tf.random_uniform([]) + 1
    with tf.Session(workers[0].target, graph=graph) as sess:
        sess.run(x)
        status, text = pyflow(capsys, "cluster", "status", ps[0].address, "--json")
    assert status == 0
    rows = {row["task"]: row for row in json.loads(text)}
    assert list(rows) == [f"/job:{t}" for t in ("ps/replica:0/task:0", "worker/replica:0/task:0",
                                                "worker/replica:0/task:1")]
    first, second = rows["/job:worker/replica:0/task:0"], rows["/job:worker/replica:0/task:1"]
    assert first["sessions"] == second["sessions"] == 1 and second["graphs"] == 1
    assert second["incarnation"] == f"{workers[1].status().incarnation:016x}"
    assert second["version"] == tf.pyflow_version and second["steps_done"] >= 1
    assert second["devices"][0]["name"] == "/job:worker/replica:0/task:1/device:CPU:0"
    assert "pyflow.cpu" in [p["id"] for p in second["plugins"]]
    times = {t["name"]: t["seconds"] for t in second["timeouts"]}
    assert times["lease"] == second["lease"] == 10 and times["connection"] == 2.5
    status, text = pyflow(capsys, "cluster", "status", workers[0].address)
    assert status == 0 and "worker/1" in text and "ping answer" in text


def test_top_counts_steps(cluster, capsys):
    workers, ps = cluster
    graph = tf.Graph()
    with graph.as_default(), tf.device("/job:ps/task:0"):
        x = tf.random_uniform([]) + 1
    over = threading.Event()

    def work():
        with tf.Session(workers[0].target, graph=graph) as sess:
            while not over.is_set():
                sess.run(x)
    thread = threading.Thread(target=work)
    thread.start()
    status, text = pyflow(capsys, "cluster", "top", ps[0].address, "--interval", 0.2, "--count", 2)
    over.set()
    thread.join()
    rows = [line.split() for line in text.splitlines() if line.startswith("ps/0")]
    assert status == 0 and len(rows) == 2
    assert int(rows[1][-1]) > int(rows[0][-1]) and float(rows[1][-2]) > 0


def test_who_is_away_is_named(free_ports, capsys):
    ports = free_ports(2)
    spec = {"worker": [f"localhost:{p}" for p in ports]}
    with tf.train.Server(spec, "worker", 0) as server:
        status, text = pyflow(capsys, "cluster", "status", server.address)
    assert status == 1
    assert f"worker/1 at localhost:{ports[1]} does not answer: no process listens" in text
    status, text = pyflow(capsys, "cluster", "status", f"localhost:{ports[0]}")
    assert status == 2 and "no process listens" in text


def test_stop_ends_join(free_ports, capsys):
    spec = {"worker": [f"localhost:{p}" for p in free_ports(3)]}
    servers = [tf.train.Server(spec, "worker", k) for k in range(3)]
    joins = [threading.Thread(target=server.join) for server in servers]
    for thread in joins:
        thread.start()
    status, text = pyflow(capsys, "cluster", "stop", servers[1].address)
    assert status == 0 and text.count(" stops") == 3
    for thread in joins:
        thread.join(5)
        assert not thread.is_alive()
    servers[2] = tf.train.Server(spec, "worker", 2)     # its port is free
    again = tf.train.Server(spec, "worker", 0)
    servers[2].stop_cluster()
    again.join()


def test_a_server_that_starts_is_found_at_once(free_ports):
    """READY is pushed: whoever waits does not wait for its next attempt to connect."""
    late = []
    for _ in range(2):
        spec = {"worker": [f"localhost:{p}" for p in free_ports(2)]}
        graph = tf.Graph()
        with graph.as_default(), tf.device("/job:worker/task:1"):
            x = tf.constant(1.0) + tf.random_uniform([])
        ended = []
        with tf.train.Server(spec, "worker", 0) as server:
            link = server._place
            waiting = threading.Thread(target=lambda: ended.append(wait_for(link)))

            def wait_for(place):
                worker = place._tasks.get("/job:worker/replica:0/task:1")
                worker.status(20)
                return time.monotonic()
            waiting.start()
            time.sleep(0.45)
            with tf.train.Server(spec, "worker", 1):
                began = time.monotonic()
                waiting.join(10)
                late.append(ended[0] - began)
                with tf.Session(server.target, graph=graph) as sess:
                    assert 1 <= sess.run(x) < 2
    assert min(late) < 0.05, late


def test_reasons_for_silence(free_ports):
    import socket
    [port] = free_ports(1)
    assert "no process listens" in probe.reason(f"localhost:{port}", 0.2)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        text = probe.reason(f"127.0.0.1:{mute.getsockname()[1]}", 0.2)
        assert "does not take connections" in text
    assert "no HOST:PORT" in probe.reason("nonsense")
    assert "no process listens" in probe.reason("unix:/no/such/socket")
    assert "cannot be resolved" in probe.reason("no-such-host.invalid:1", 0.2)


# ---------------------------------------------------------------- traces

def model():
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            x = tf.random_uniform([32, 32], name="x")
        with tf.device("/job:worker/task:1"):
            y = tf.matmul(x, x, name="y")
        with tf.device("/job:worker/task:0"):
            z = tf.reduce_sum(y, name="z")
    return graph, z


def test_one_trace_of_all_tasks(cluster):
    graph, z = model()
    found = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session(cluster[0][0].target, graph=graph) as sess:
        sess.run(z)
        before = time.time_ns() // 1000
        sess.run(z, options=options, run_metadata=found)
        after = time.time_ns() // 1000
    stats = found.step_stats
    assert timeline.tasks_of(stats) == [f"/job:{t}" for t in (
        "ps/replica:0/task:0", "worker/replica:0/task:0", "worker/replica:0/task:1")]
    for device in stats.dev_stats:
        for node in device.node_stats:
            assert before - 1000 <= node.all_start_micros <= after + 1000
    events = json.loads(timeline.Timeline(stats).generate_chrome_trace_format())["traceEvents"]
    check_flows(events, 2)
    processes = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert sorted(processes) == timeline.tasks_of(stats)
    path = timeline.critical_path(stats)
    assert [s.op for s in path if "end" in s.op or "ecv" in s.op][:4] == [
        "_net.Send", "_Recv", "_net.Send", "_Recv"]
    assert [s.after for s in path if s.after] == ["/job:ps/replica:0/task:0",
                                                  "/job:worker/replica:0/task:1"]
    assert path[-1].task == "/job:worker/replica:0/task:0"
    assert "waited for /job:ps/replica:0/task:0" in timeline.critical_text(stats)


def test_steps_of_a_running_cluster(cluster, capsys, tmp_path):
    graph, z = model()
    over = threading.Event()

    def work():
        with tf.Session(cluster[0][0].target, graph=graph) as sess:
            while not over.wait(0.01):
                sess.run(z)
    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.3)
    out = tmp_path / "trace.json"
    status, text = pyflow(capsys, "cluster", "trace", cluster[1][0].address, "--steps", 5, "--out",
                          out)
    over.set()
    thread.join()
    assert status == 0 and "critical path" in text
    events = json.loads(out.read_text())["traceEvents"]
    steps = {e["args"]["step"] for e in events if e["ph"] == "X"}
    assert len(steps) == 5
    check_flows(events, 2 * len(steps))


def test_of_what_tasks_recorded_steps_that_are_whole_go_first():
    """The ps began late, the worker was full early; a summary is written now and then."""
    def step(number, session=1):
        stats = protos.StepStats()
        node = stats.dev_stats.add(device="/job:a/device:CPU:0").node_stats.add()
        node.all_start_micros, node.all_end_rel_micros = 1000 * number, 10
        return merged_trace.Step(session, number, stats)
    made = [step(k) for k in range(1, 10)] + [step(20, session=2)]
    recorded = {1: {"ps": [4, 5, 6, 7, 8, 9], "worker": [1, 2, 3, 4, 5, 6, 7]}, 2: {"ps": [20]}}

    def chosen(steps):
        return [s.step for s in merged_trace._chosen(made, steps, recorded)]
    assert chosen(2) == [4, 5] and chosen(5) == [4, 5, 6, 7, 20]
    assert chosen(7) == [1, 2, 4, 5, 6, 7, 20] and len(chosen(100)) == 10


SWITCHES = """
          python-31    [001] d..2. 100.000100: sched_switch: prev_comm=python prev_pid=31 \
prev_prio=120 prev_state=R ==> next_comm=a b next_pid=7 next_prio=120
             a b-7     [001] d..2. 100.000250: sched_switch: prev_comm=a b prev_pid=7 \
prev_prio=120 prev_state=S ==> next_comm=python next_pid=31 next_prio=120
          python-31    [001] d..2. 100.000400: sched_switch: prev_comm=python prev_pid=31 \
prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
"""


def test_thread_switches_are_read():
    events = switches.events_of(SWITCHES, {31: ("/job:a", "python")}, {"/job:a": 4}, 100e6)
    assert [(e["name"], e["ts"], e["dur"], e["pid"]) for e in events if e["ph"] == "X"] == [
        ("ready", 100, 150, 4), ("CPU 1", 250, 150, 4)]
    assert [e["args"]["name"] for e in events if e["ph"] == "M"] == ["python 31"]


SWITCHED = """
import json, sys, threading, pyflow as tf
from pyflow.tools import command
server = tf.train.Server.create_local_server()
graph = tf.Graph()
with graph.as_default(), tf.device("/job:localhost/task:0"):
    x = tf.reduce_sum(tf.random_uniform([100, 100]))
over = threading.Event()
def work():
    with tf.Session(server.target, graph=graph) as sess:
        while not over.wait(0.01):
            sess.run(x, options=tf.RunOptions(timeout_in_ms=5000))
thread = threading.Thread(target=work)
thread.start()
print(command.main(["cluster", "trace", server.address, "--switches", "--out", sys.argv[1]]))
over.set()
thread.join()
"""


@pytest.mark.long
def test_thread_switches_of_the_system(tmp_path):
    """In a namespace of mounts of its own, where this may be."""
    mount = ["unshare", "-m", "sh", "-c",
             f'mount -t tracefs nodev {tmp_path} && mkdir {tmp_path}/instances/pyflow-test && '
             f'rmdir {tmp_path}/instances/pyflow-test && exec "$@"', "sh"]
    try:
        subprocess.run([*mount, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        pytest.skip(f"tracefs cannot be mounted here: {problem}")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*mount, sys.executable, "-P", "-c", SWITCHED, f"{folder}/t.json"],
                              capture_output=True, text=True)
        assert done.returncode == 0 and "left out: " not in done.stderr, done.stdout + done.stderr
        with open(f"{folder}/t.json") as file:
            events = json.load(file)["traceEvents"]
    assert {e["name"] for e in events if e.get("cat") == "switch"} & {"CPU 0", "CPU 1"}
    kernels = [e["ts"] for e in events if e.get("cat") == "Op"]
    ran = [e["ts"] for e in events if e.get("cat") == "switch"]
    assert min(ran) < max(kernels) and max(ran) > min(kernels)         # one clock


def test_times_of_another_clock_are_moved():
    class Other:
        def ask(self):
            time.sleep(0.001)
            return messages.ClockResponse(wall_ns=time.time_ns() + 5_000_000_000, boot="another")
    offset, half = clocks.offset_ns(Other().ask)
    assert abs(offset - 5_000_000_000) <= half + 2_000_000
    message = protos.RunMetadata()
    node = message.step_stats.dev_stats.add(device="d").node_stats.add(
        node_name="n", all_start_micros=7_000_000, scheduled_micros=6_999_990)
    del node
    moved = protos.RunMetadata.FromString(clocks.shifted(message.SerializeToString(), -offset))
    moved = moved.step_stats.dev_stats[0].node_stats[0]
    np.testing.assert_allclose(moved.all_start_micros, 2_000_000, atol=10_000)
    assert moved.all_start_micros - moved.scheduled_micros == 10
    assert clocks.offset_ns(clocks.now) == (0, 0)


def test_look_says_what_is_wrong(free_ports):
    with pytest.raises(asking.Unreachable, match="no process listens"):
        asking.Cluster(f"localhost:{free_ports(1)[0]}", patience=0.3)
