"""Programs of clusters: each is run by TensorFlow (record.py) and by pyflow
(test_as_tensorflow.py), and has to say the same.

A program is a function of (tf, x); it has a graph of its own and a variable scope of its name, and
a cluster of two parameter servers and two workers that all programs share.  It says what it sees:

    x.note(what, value)               anything
    x.error(what, function, *texts)   what calling it raises: the type, the op's name, and which of
                                      the texts its message has; "no error" and the value if none
    x.session(job="worker", task=0)   a session at that task, closed when the program ends
    x.thread(function)                it runs on a thread of its own; .blocked() and .end()

Programs with `alone=True` start servers of their own (x.start: processes that can be killed).

Invariants
    1. Variables, queues and the like have a name of their own per program: servers keep them.
    2. What is said does not depend on ports, on the time, or on numbers of sessions.
"""
import contextlib
import json
import pathlib
import re
import select
import signal
import subprocess
import sys
import threading
import time

import numpy as np

from ports import free_ports  # noqa: E402 - beside this folder

PROGRAMS = {}
HERE = pathlib.Path(__file__).resolve().parent


class Program:
    def __init__(self, function, alone):
        self.function, self.alone = function, alone


def program(function=None, alone=False):
    if function is None:
        return lambda f: program(f, alone)
    PROGRAMS[function.__name__] = Program(function, alone)
    return function


def spec_of(**jobs):
    """{job: addresses} of so many tasks per job."""
    ports = iter(free_ports(sum(jobs.values())))
    return {job: [f"127.0.0.1:{next(ports)}" for _ in range(n)] for job, n in jobs.items()}


class Cluster:
    """Servers of this process, one per task."""

    def __init__(self, tf, **jobs):
        self.spec = spec_of(**jobs)
        self.servers = {(job, k): tf.train.Server(self.spec, job_name=job, task_index=k)
                        for job in jobs for k in range(jobs[job])}

    def stop(self):
        for server in self.servers.values():
            server.stop()


class ProcessCluster:
    """Servers of one process each; the client's is none of them."""

    def __init__(self, tf, **jobs):
        self.spec = spec_of(**jobs)
        self.servers = {}
        try:
            for job in jobs:
                for k in range(jobs[job]):
                    self.servers[job, k] = Process(tf, self.spec, job, k)
        except BaseException:
            self.stop()
            raise

    def stop(self):
        for server in self.servers.values():
            server.kill()


def plain(value):
    """A value as JSON has it; of large arrays their shape and sum."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, np.ndarray):
        if value.size > 100:
            return ["large", list(value.shape), plain(value.astype(np.float64).sum())]
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return float(value)                     # bfloat16


class World:
    """What a program is given, and what it said."""

    def __init__(self, tf, name, cluster, wait, folder):
        self.tf, self.name, self.cluster, self.wait = tf, name, cluster, wait
        self.folder = str(folder)
        self.said, self._ends = [], contextlib.ExitStack()

    def close(self):
        self._ends.close()

    # ---------------------------------------------------------------------------------- places
    def target(self, job="worker", task=0):
        return self.cluster.servers[job, task].target

    def config(self, **fields):
        return self.tf.ConfigProto(**fields)

    def session(self, job="worker", task=0, config=None, graph=None, target=None):
        sess = self.tf.Session(target or self.target(job, task), graph=graph, config=config)
        self._ends.callback(self.failing, sess.close)
        return sess

    # --------------------------------------------------------------------------------- answers
    def note(self, what, value):
        self.said.append([what, plain(value)])

    def error(self, what, function, *texts):
        self.note(what, self.failing(function, *texts))

    def failing(self, function, *texts):
        try:
            value = function()
        except Exception as e:
            message = getattr(e, "message", None) or str(e)
            op = getattr(getattr(e, "op", None), "name", None)
            return ["error", type(e).__name__, op, [text for text in texts if text in message]]
        try:
            return ["no error", plain(value)]
        except TypeError:
            return ["no error", type(value).__name__]

    def thread(self, function, *texts):
        return Thread(self, lambda: self.failing(function, *texts))

    # ------------------------------------------------------------------------------- processes
    def start(self, spec, job, task, delay=None):
        """A server in a process of its own; with a delay it begins to listen only so many seconds
        later, and nobody waits for it here."""
        process = Process(self.tf, spec, job, task, delay)
        self._ends.callback(process.kill)
        return process


class Thread:
    def __init__(self, x, function):
        self.x, self.found = x, []
        self.thread = threading.Thread(target=lambda: self.found.append(function()), daemon=True)
        self.thread.start()

    def blocked(self):
        time.sleep(self.x.wait)
        return self.thread.is_alive()

    def end(self, timeout=30):
        self.thread.join(timeout)
        return self.found[0] if self.found else "hangs"


class Process:
    """`serve.py` for one task."""

    def __init__(self, tf, spec, job, task, delay=None):
        self.address = spec[job][task]
        self.target = f"grpc://{self.address}"
        package = "pyflow" if tf.__name__ == "pyflow" else "tensorflow"
        self.child = subprocess.Popen(
            [sys.executable, str(HERE / "serve.py"), package, json.dumps(spec), job, str(task),
             str(delay or 0)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if delay is not None:
            return
        if not select.select([self.child.stdout], [], [], 60)[0]:
            raise RuntimeError(f"the server of {job} {task} did not start")
        assert self.child.stdout.readline() == "ready\n"

    def kill(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
            self.child.wait()
        self.child.stdout.close()


def device_names(names):
    """Without what is different on every machine."""
    return sorted(n for n in names if "CPU" in n and "XLA" not in n)


def without_ports(text):
    return re.sub(r":\d{4,5}\b", ":PORT", text)


def answers(tf, name, cluster, wait, folder):
    """What the program says."""
    with tf.Graph().as_default():
        x = World(tf, name, cluster, wait, folder)
        try:
            with tf.variable_scope(name):
                PROGRAMS[name].function(tf, x)
        except Exception as e:
            x.said.append(["the program ends", [type(e).__name__, str(e)[:2000]]])
        finally:
            x.close()
    return x.said


# isort: off
from cluster_programs import server, sessions, data, flow, faults, training  # noqa: E402, F401
