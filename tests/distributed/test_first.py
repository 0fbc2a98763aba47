"""A cluster of servers in this process, and one over processes: does it work at all?"""
import subprocess
import sys

import numpy as np
import pytest

import pyflow as tf

SERVER = """
import json, sys
import pyflow as tf
cluster, job, task = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
server = tf.train.Server(cluster, job, task)
print("up", flush=True)
server.join()
"""


@pytest.fixture(scope="module")
def cluster():
    workers, ps = tf.test.create_local_cluster(2, 1)
    yield workers, ps
    for server in workers + ps:
        server.stop()


@pytest.fixture
def processes(free_ports):
    """(cluster, target of worker 0 in this process, {(job, task): Popen})."""
    import json
    ports = free_ports(3)
    spec = {"ps": [f"localhost:{ports[0]}"],
            "worker": [f"localhost:{ports[1]}", f"localhost:{ports[2]}"]}
    running = {}
    for job, task in (("ps", 0), ("worker", 1)):
        running[job, task] = subprocess.Popen(
            [sys.executable, "-P", "-c", SERVER, json.dumps(spec), job, str(task)],
            stdout=subprocess.PIPE)
    server = tf.train.Server(spec, "worker", 0)
    yield spec, server, running
    server.stop()
    for process in running.values():
        process.kill()
        process.wait()
        process.stdout.close()


def model():
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            v = tf.get_variable("v", [3], initializer=tf.zeros_initializer())
        with tf.device("/job:worker/task:1"):
            x = tf.placeholder(tf.float32, [3], name="x")
            y = tf.add(x * 2, v, name="y")
        with tf.device("/job:worker/task:0"):
            z = tf.reduce_sum(y, name="z")
        add = v.assign_add(y)
        init = tf.global_variables_initializer()
    return graph, v, x, y, z, add, init


def check(target, other):
    graph, v, x, y, z, add, init = model()
    with tf.Session(target, graph=graph) as sess:
        sess.run(init)
        values = sess.run([y, z], {x: [1, 2, 3]})
        np.testing.assert_array_equal(values[0], [2, 4, 6])
        assert values[1] == 12 and type(values[1]) is np.float32
        sess.run(add, {x: [1, 2, 3]})
        with tf.Session(other, graph=graph) as second:       # variables are the servers'
            np.testing.assert_array_equal(second.run(v), [2, 4, 6])
        assert [d.name for d in sess.list_devices()][1:] != []
        handle = sess.partial_run_setup([y, z], [x])
        assert sess.partial_run(handle, z, {x: [1, 1, 1]}) == 18
        np.testing.assert_array_equal(sess.partial_run(handle, y), [4, 6, 8])


def loop():
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [2], name="x")

        def body(i, a):
            with tf.device("/job:ps/task:0"):
                b = a * 2.0
            with tf.device("/job:worker/task:1"):
                return i + 1, b + 1.0
        with tf.device("/job:worker/task:0"):
            _, y = tf.while_loop(lambda i, a: i < 5, body, [0, x])
            grad = tf.gradients(y, x)[0]
    return graph, x, y, grad


def test_servers_of_one_process(cluster):
    workers, _ = cluster
    check(workers[0].target, workers[1].target)


def test_loops_and_their_gradients_over_tasks(cluster):
    graph, x, y, grad = loop()
    with tf.Session(cluster[0][0].target, graph=graph) as sess:
        value, slope = sess.run([y, grad], {x: [1, 2]})
    np.testing.assert_array_equal(value, [63, 95])
    np.testing.assert_array_equal(slope, [32, 32])


def test_an_error_elsewhere_names_task_and_line(cluster):
    graph = tf.Graph()
    with graph.as_default(), tf.device("/job:ps/task:0"):
        bad = tf.check_numerics(tf.placeholder(tf.float32, [], name="x") / 0, "not a number")
    with tf.Session(cluster[0][1].target, graph=graph) as sess:
        with pytest.raises(tf.errors.InvalidArgumentError) as failed:
            sess.run(bad, {"x:0": 0.0})
    assert "/job:ps/replica:0/task:0" in str(failed.value)
    assert "test_first.py" in str(failed.value) and failed.value.op is bad.op


def test_several_processes(processes):
    spec, server, running = processes
    check(server.target, f"grpc://{spec['worker'][1]}")
    check(f"grpc://{spec['worker'][1]}", server.target)


def test_a_killed_task_is_an_error_at_once_and_its_successor_is_found(processes):
    spec, server, running = processes
    graph = tf.Graph()
    with graph.as_default(), tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", [], initializer=tf.ones_initializer())
        blocked = tf.FIFOQueue(1, tf.float32).dequeue()
        init = tf.global_variables_initializer()
    sess = tf.Session(server.target, graph=graph)
    sess.run(init)
    running["ps", 0].stdout.readline()
    import threading
    killer = threading.Timer(0.3, running["ps", 0].kill)
    killer.start()
    with pytest.raises(tf.errors.UnavailableError, match="/job:ps/replica:0/task:0"):
        sess.run(blocked)
    running["ps", 0].wait()
    with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError)):
        sess.run(v)
    sess.close()
    import json
    running["ps", 0].stdout.close()
    running["ps", 0] = subprocess.Popen(
        [sys.executable, "-P", "-c", SERVER, json.dumps(spec), "ps", "0"], stdout=subprocess.PIPE)
    with tf.Session(server.target, graph=graph) as sess:
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
            sess.run(v)
        sess.run(init)
        assert sess.run(v) == 1
