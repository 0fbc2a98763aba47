"""Servers of a cluster as processes of their own, with proxies before them on demand.

    with Cluster({"ps": 1, "worker": 2}, here=("worker", 0)) as cluster:
        cluster.server                      # the tf.train.Server of this process
        cluster.target("ps", 0)             # "grpc://localhost:2222"
        cluster.processes["ps", 0].kill()
        cluster.start("ps", 0)              # its successor, at the same address

Each server's peers reach it through its proxy where `proxies` says so.  `setup` is Python that a
server's process runs first.
"""
import json
import os
import pathlib
import subprocess
import sys

import pyflow as tf
import proxy as proxies_lib
from ports import free_ports

HERE = pathlib.Path(__file__).resolve().parent
MAIN = """
import json, os, sys
spec, job, task, options, setup, parent = json.loads(sys.argv[1])
import threading, time
def watch():
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
import pyflow as tf
exec(setup)
server = tf.train.Server(spec, job, task, **options)
print("up", flush=True)
server.join()
"""


class Cluster:
    """jobs: {job: how many}; here: the task of this process, or None; delay: of the proxies,
    seconds; options: of every Server."""

    def __init__(self, jobs, here=None, proxies=False, delay=(0.0, 0.0), setup="", seed=0,
                 **options):
        self.tasks = [(job, k) for job, n in jobs.items() for k in range(n)]
        ports = dict(zip(self.tasks, free_ports(len(self.tasks))))
        self.addresses = {task: f"localhost:{port}" for task, port in ports.items()}
        self.proxies = {task: proxies_lib.Proxy(address, delay, seed + k) for k, (task, address)
                        in enumerate(self.addresses.items())} if proxies else {}
        self.setup, self.options, self.here = setup, options, here
        self.processes, self.server = {}, None
        for task in self.tasks:
            if task != here:
                self.start(*task, wait=False)
        if here is not None:
            self.server = tf.train.Server(self.spec(here), *here, **options)
            if proxies:                 # what it tells the others of itself
                name = "/job:{}/replica:0/task:{}".format(*here)
                self.server._tasks.addresses[name] = self.proxies[here].address
        for process in self.processes.values():
            assert process.stdout.readline() == b"up\n"

    def spec(self, of=None):
        """The cluster as the task `of` sees it."""
        seen = {t: a if t == of or t not in self.proxies else self.proxies[t].address
                for t, a in self.addresses.items()}
        return {job: [seen[t] for t in self.tasks if t[0] == job] for job, _ in self.tasks}

    def start(self, job, task, wait=True):
        """Starts a server's process; a successor where one ran."""
        old = self.processes.pop((job, task), None)
        if old is not None:
            _end(old)
        what = [self.spec((job, task)), job, task, self.options, self.setup, os.getpid()]
        self.processes[job, task] = subprocess.Popen(
            [sys.executable, "-P", "-c", MAIN, json.dumps(what)], stdout=subprocess.PIPE)
        if wait:
            assert self.processes[job, task].stdout.readline() == b"up\n"
        return self.processes[job, task]

    def target(self, job, task):
        """What a session of another process takes."""
        return f"grpc://{self.addresses[job, task]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.server is not None:
            self.server.stop()
        for process in self.processes.values():
            _end(process)
        for one in self.proxies.values():
            one.close()


def _end(process):
    process.kill()
    process.wait()
    process.stdout.close()
