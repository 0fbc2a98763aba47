"""One of several replicas is absent, late, stuck or dead: `why` names it first.

In processes: twenty hangs, in each of which one replica keeps the others waiting (replicas.py).
In this process: some of them, quickly.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import processes
import replicas
import pyflow as tf
from pyflow.distributed.look import asking, why

HERE = pathlib.Path(__file__).parent
SECONDS = 20.0                          # in which the others are where they wait
SAYS = {"absent": "it has put nothing yet; no step of", "idle": "no step of .* is under way",
        "py_func": "PyFunc", "queue": r"empty queue .*input\d' at /job:ps",
        "kernel": "computes|has been at",
        "gil": "does not answer|PyFunc|computes", "dead": "no process listens",
        "frozen": "is stopped|does not answer"}


def first_culprit(address, waiting):
    """The Why once so many steps wait for the first culprit, twice the same, or it is too late."""
    until, last = time.monotonic() + SECONDS, None
    with asking.Cluster(address, patience=0.5) as seen:
        while True:
            found = why.of_cluster(seen, least=0.2)
            first = found.culprits[0] if found.culprits else None
            enough = first is not None and first.steps >= waiting
            if enough and last == first.task or time.monotonic() > until:
                return found
            last = first.task if enough else None
            time.sleep(0.1)


def check(found, victim, state):
    import re
    culprit = found.culprits[0]
    first = found.text().split("\n")[0]
    name = f"/job:worker/replica:0/task:{victim}"
    assert culprit.task == name and first.startswith(name), found.text()
    assert re.search(SAYS[state], first), found.text()


# ---------------------------------------------------------------- in this process
class Here:
    """A parameter server and the workers, as servers of this process."""

    def __init__(self):
        ports = processes.free_ports(1 + replicas.N)
        spec = {"ps": [f"localhost:{ports[0]}"], "worker": [f"localhost:{p}" for p in ports[1:]]}
        self.servers = [tf.train.Server(spec, "ps", 0)]
        self.servers += [tf.train.Server(spec, "worker", k) for k in range(replicas.N)]

    def close(self):
        for server in self.servers:
            server.stop()


@pytest.fixture(scope="module")
def here():
    found = Here()
    yield found
    found.close()


@pytest.mark.parametrize("kind, state", [("sync", "idle"), ("sync", "queue"), ("barrier", "absent"),
                                         ("tokens", "py_func")])
def test_the_replica_stands_first(here, kind, state):
    victim = {"idle": 2, "queue": 1, "absent": 2, "py_func": 1}[state]
    name = f"{kind}_{state}"
    playing = [replicas.Replica(here.servers[1 + k].target, k, kind, name,
                                state if k == victim else "") for k in range(replicas.N)]
    try:
        check(first_culprit(here.servers[0].address, replicas.N - 1), victim, state)
    finally:
        for replica in playing:
            replica.gate.set()
        for replica in playing:
            replica.release()


# ---------------------------------------------------------------- processes
class Cluster:
    """The parameter server is here; each worker is a process."""

    def __init__(self):
        ports = processes.free_ports(1 + replicas.N)
        self.spec = {"ps": [f"localhost:{ports[0]}"],
                     "worker": [f"localhost:{p}" for p in ports[1:]]}
        self.server = tf.train.Server(self.spec, "ps", 0)
        self.workers = [self.begin(k) for k in range(replicas.N)]
        for worker in self.workers:
            worker.stdout.readline()

    def begin(self, task):
        return subprocess.Popen(
            [sys.executable, "-P", str(HERE / "replicas.py"), json.dumps(self.spec), "worker",
             str(task)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})

    def say(self, task, line):
        self.workers[task].stdin.write(line + "\n")
        self.workers[task].stdin.flush()

    def replace(self, task):
        self.end(task)
        self.workers[task] = self.begin(task)
        self.workers[task].stdout.readline()

    def end(self, task):
        self.workers[task].send_signal(signal.SIGCONT)
        self.workers[task].kill()
        self.workers[task].communicate()

    def close(self):
        for task in range(replicas.N):
            self.end(task)
        self.server.stop()


@pytest.fixture(scope="module")
def cluster():
    found = Cluster()
    yield found
    found.close()


HANGS = [*(("sync", state) for state in replicas.STATES),
         *(("barrier", state) for state in ("absent", "idle", "py_func", "queue", "gil", "frozen")),
         *(("tokens", state) for state in ("absent", "idle", "py_func", "queue", "kernel", "dead"))]


@pytest.mark.long
@pytest.mark.parametrize("kind, state", HANGS)
def test_the_replica_stands_first_of_processes(cluster, kind, state):
    number = HANGS.index((kind, state))
    victim = 1 + number % 2
    for task in range(replicas.N):
        cluster.say(task, f"{kind} hang{number} {state if task == victim else ''}")
    try:
        for task in range(replicas.N):
            assert cluster.workers[task].stdout.readline() == "done\n"
        check(first_culprit(cluster.server.address, replicas.N - 1), victim, state)
    finally:
        for task in range(replicas.N):
            if task == victim and state in ("dead", "frozen", "gil"):
                cluster.replace(task)
            else:
                cluster.say(task, "release")
                cluster.workers[task].stdout.readline()
