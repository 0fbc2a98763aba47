"""What chaos.py starts: the task of examples/distributed/digits.py, with what a harness looks at.

In the folder of PYFLOW_CHAOS:  steps        a line per step of the chief: seconds, step, sha256 of
                                             all variables
                                TASK.session a line per session of a worker: seconds, process id
                                TASK.plan    a line per plan registered at a task: seconds,
                                             master, session, sha256 of the graph
                                phase.TASK   64 bytes: what the process does now (mapped, so that
                                             it is there after a kill)
                                crash.TASK   made by others: a kernel of the task ends its process
                                hold.TASK    so many seconds a thread of the task holds the GIL
"""
import contextlib
import ctypes
import faulthandler
import hashlib
import logging
import mmap
import os
import pathlib
import re
import signal
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "examples" / "distributed"))
import digits  # noqa: E402 - an example

import pyflow as tf  # noqa: E402
from pyflow import plugins  # noqa: E402
from pyflow.distributed import launch  # noqa: E402
from pyflow.distributed.run import worker  # noqa: E402
from pyflow.session import runtime  # noqa: E402

FOLDER = os.environ["PYFLOW_CHAOS"]
KERNELS = os.environ.get("PYFLOW_CHAOS_KERNELS")
LASTING = float(os.environ.get("PYFLOW_CHAOS_LASTING", 0))
SHORT = 15                      # steps, between two that last
# what report_steps says of a running operation -> a phase, the first that is found
PHASES = (("save", "SaveV2|MergeV2|ShardedFilename"), ("restore", "RestoreV2"),
          ("apply", "Apply(Adam|Momentum|GradientDescent)|_AccumulatorApply"),
          ("wait", "StepGateNext|TakeAt|AssignAdd/value"), ("send", "_net[.]Send|_Send|_Recv"))


class Phase:
    """The process's, written by who knows it, and by a thread that looks."""

    def __init__(self, label):
        self._hold = os.path.join(FOLDER, f"hold.{label}")
        path = os.path.join(FOLDER, f"phase.{label}")
        with open(path, "wb") as f:
            f.write(b"start".ljust(64))
        with open(path, "r+b") as f:
            self._map = mmap.mmap(f.fileno(), 64)
        threading.Thread(target=self._look, daemon=True).start()

    def set(self, text):
        """What it does from now on."""
        self._map[:] = text.encode().ljust(64)

    def _look(self):
        executor = runtime.start()
        while True:
            time.sleep(0.002)
            self.set(_classified(executor.report_steps()))
            if os.path.exists(self._hold):
                with open(self._hold, encoding="ascii") as f:
                    seconds = float(f.read())
                os.unlink(self._hold)
                ctypes.PyDLL(None).usleep(int(seconds * 1e6))      # as C that forgets the GIL


def _classified(report):
    """The phase of what runs now, of all steps of the process."""
    at_work = " ".join(re.findall("(?:running|not completed): (.*)", report))
    for phase, pattern in PHASES:
        if re.search(pattern, at_work):
            return phase
    return "compute" if at_work else "idle"


class Sessions(tf.train.SessionRunHook):
    """Notes each new session."""

    def __init__(self, label):
        self.label = label

    def after_create_session(self, session, coord):
        note(f"{self.label}.session", os.getpid())


class Crashes(tf.train.SessionRunHook):
    """Runs the kernel that ends a process, at this task or at one that has no client."""

    def __init__(self, tasks):
        self.tasks = tasks                          # [(job, index)]

    def begin(self):
        self.crash = {}
        op = plugins.op("fuzz.Crash")
        for job, index in self.tasks:
            with tf.device(f"/job:{job}/task:{index}"):
                self.crash[f"{job}-{index}"] = op(tf.constant(1.0)).op

    def before_run(self, run_context):
        for label, crash in self.crash.items():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(FOLDER, f"crash.{label}"))
                return tf.train.SessionRunArgs({"crash": crash})
        return None


class Lasts(tf.train.SessionRunHook):
    """Every now and then a step has a part that computes for LASTING seconds, at one of the tasks after
    the other."""

    def __init__(self, tasks):
        self.tasks = tasks                          # [(job, index)]
        self.steps = self.turn = 0
        self.turns, self.began = 100_000, None

    def begin(self):
        self.fed, self.parts = tf.placeholder(tf.int32, []), []
        for job, index in self.tasks:
            with tf.device(f"/job:{job}/task:{index}"):
                self.parts.append(tf.while_loop(lambda i: i < self.fed, lambda i: i + 1, [0]))

    def before_run(self, run_context):
        self.steps += 1
        if self.steps % SHORT:
            return None
        self.turn += 1
        self.began = time.monotonic()
        return tf.train.SessionRunArgs({"lasts": self.parts[self.turn % len(self.parts)]},
                                       {self.fed: self.turns})

    def after_run(self, run_context, run_values):
        if self.began is not None:
            took, self.began = time.monotonic() - self.began, None
            self.turns = int(min(2e9, self.turns * min(20.0, LASTING / took)))


class Values:
    """Notes the sha256 of all variables at each step's boundary."""

    def __call__(self, session, step):
        variables = sorted(session.graph.get_collection("variables"), key=lambda v: v.name)
        found = hashlib.sha256()
        for variable, value in zip(variables, session.run(variables)):
            found.update(variable.name.encode() + value.tobytes())
        note("steps", step, found.hexdigest())


def note(name, *values):
    with open(os.path.join(FOLDER, name), "a", encoding="ascii") as f:
        f.write(" ".join(map(str, (time.monotonic(), *values))) + "\n")


def main():
    faulthandler.register(signal.SIGUSR2)
    signal.signal(signal.SIGUSR1, lambda *_: print(runtime.start().report_steps(), flush=True))
    tf.logging.set_verbosity(tf.logging.INFO)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(process)d %(threadName)s: %(message)s"))
    logging.getLogger("pyflow.distributed").addHandler(handler)
    logging.getLogger("pyflow.distributed").setLevel(logging.INFO)
    asked, task = digits.arguments(), launch.task()
    Phase(task.label)
    count_plans(task.label)
    if KERNELS:
        tf.load_op_library(KERNELS)
    server = task.server()
    if task.serves:
        return server.join()
    data, _ = digits.datasets.digits(digits.SEED)
    mine = [(task.job, task.index)]
    if task.is_chief:                               # ps have no client of their own
        mine += [("ps", index) for index in task.cluster.task_indices("ps")]
    hooks = [Sessions(task.label)] + ([Crashes(mine)] if KERNELS else [])
    if LASTING:
        hooks.append(Lasts(mine))
    digits.train(task, asked, server, data, hooks=hooks, on_step=[Values()])
    server.stop()


def count_plans(label):
    """Notes each plan that is registered at this process."""
    inner = worker.Worker.register

    def register(self, number, data, *args, **options):
        session = self._sessions.get(number)
        master = session and session.master or self.name
        note(f"{label}.plan", master, number, hashlib.sha256(data).hexdigest())
        return inner(self, number, data, *args, **options)
    worker.Worker.register = register


if __name__ == "__main__":
    main()
