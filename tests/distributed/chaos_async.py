"""Kills processes of an asynchronous training: no step is lost or done twice, and what it learns is
as good.

    python -P tests/distributed/chaos_async.py --kills 20        # of each of worker, ps and chief
    python -P tests/distributed/chaos_async.py --kills 20 --of worker,chief     # all are counted
    python -P tests/distributed/chaos_async.py --accuracy --kills 5

Every step takes one from each element of the variables, which lie on all parameter servers, and
each worker notes the steps that it was told of.  After a restore the variables are those of a
committed checkpoint, in which each element has its own number of steps, as others trained while it
was written; from then on they change by the steps that were noted, and at most one more per session
that was lost in the midst of a step.  A worker's or the chief's death restores nothing.

--accuracy: the digits example under --asynchronous, with and without kills.
Exit status 1 if a step was lost or doubled, or the accuracy is more than BAND apart.
"""
import argparse
import os
import pathlib
import random
import re
import signal
import sys
import tempfile
import time

import numpy as np

import pyflow as tf
from pyflow.distributed import launch
from pyflow.distributed.train import training
from pyflow.distributed.launch import local

BAND = 0.03
KINDS = ("worker", "ps", "chief")
DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "distributed" / "digits.py"


# ---------------------------------------------------------------- a task

class Noted(tf.train.SessionRunHook):
    """Notes sessions and steps: lines of "seconds session values"."""

    def __init__(self, folder, label, variables):
        self.path = os.path.join(folder, f"{label}.{os.getpid()}")
        self.variables, self.session = variables, 0

    def after_create_session(self, session, coord):
        self.session += 1
        self.note("session")

    def after_run(self, run_context, run_values):
        self.note("step")

    def note(self, *words):
        with open(self.path, "a", encoding="ascii") as f:
            f.write(" ".join(map(str, (time.monotonic(), self.session, *words))) + "\n")


def run_task(task, folder):
    """Trains until somebody kills it, or a file `stop` is there."""
    server = task.server()
    if task.job == "ps":
        return server.join()
    count = len(task.cluster.task_indices("ps"))
    with tf.device(tf.train.replica_device_setter(
            cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")):
        step = tf.train.get_or_create_global_step()
        variables = [tf.get_variable(f"w{k}", [64], initializer=tf.zeros_initializer())
                     for k in range(2 * count)]
        loss = tf.add_n([tf.reduce_sum(v) for v in variables])
        train = tf.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
    noted = Noted(folder, task.label, variables)
    made = training._Chief.create_session

    def create_session(self):
        before = time.monotonic()
        found = made(self)
        if self.restored:
            with open(os.path.join(folder, "restores"), "a", encoding="ascii") as f:
                f.write(f"{before} {_counts(restored(self.resumed, variables))}\n")
        return found
    training._Chief.create_session = create_session
    with training.training_session(
            server, task.is_chief, checkpoint_dir=os.path.join(folder, "run"), save_steps=50,
            epoch=task.epoch, job=task.job_id, hooks=[noted]) as sess:
        while not os.path.exists(os.path.join(folder, "stop")):
            sess.run(train)
        if task.is_chief:
            time.sleep(1.0)                         # the others' last step is over
            with tf.Session(server.target) as look:
                found = look.run(variables)
            with open(os.path.join(folder, "end.tmp"), "w", encoding="ascii") as f:
                f.write(_counts(found))
            os.rename(os.path.join(folder, "end.tmp"), os.path.join(folder, "end"))
    server.stop()


def restored(checkpoint, variables):
    """The variables' values as a checkpoint has them, at the beginning (None): zeros."""
    if checkpoint is None:
        return [np.zeros(v.shape.as_list()) for v in variables]
    reader = tf.train.NewCheckpointReader(checkpoint.prefix)
    return [reader.get_tensor(v.op.name) for v in variables]


def _counts(values):
    """How many steps took one from each element, as text."""
    return " ".join(str(int(-n)) for v in values for n in v)


# ---------------------------------------------------------------- kills

def lines(path):
    try:
        return [line.split() for line in path.read_text(encoding="ascii").split("\n")[:-1]]
    except FileNotFoundError:
        return []


def steps_noted(folder):
    """[(seconds, file, number of the session, "session" or "step")] in time's order."""
    return sorted((float(at), path.name, int(session), what)
                  for path in folder.glob("worker-*.*") for at, session, what in lines(path))


def run(plan, seed=0, workers=2, ps=2, say=lambda line: None):
    """The report of a training whose processes are killed."""
    rng, output = random.Random(seed), []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cluster = local.LocalCluster(
            [sys.executable, "-P", os.path.abspath(__file__), "--folder", name],
            {"ps": ps, "worker": workers}, restarts=10**6, backoff=(0.05, 0.05),
            output=lambda label, line: output.append(f"[{label}] {line}"))
        with cluster:
            goes_on(folder, cluster, 0.0, output)
            for number, kind in enumerate(plan):
                time.sleep(rng.random())
                task = {"chief": ("worker", 0), "ps": ("ps", rng.randrange(ps)),
                        "worker": ("worker", rng.randrange(1, workers))}[kind]
                while cluster.pid(*task) is None:
                    time.sleep(0.002)
                cluster.kill(*task)
                took = goes_on(folder, cluster, time.monotonic(), output)
                say(f"{number + 1:4d}  {kind:7s} all workers take steps after {took:.2f} s")
            (folder / "stop").touch()
            until = time.monotonic() + 60
            while not (folder / "end").exists():
                assert time.monotonic() < until, "no end:\n" + "\n".join(output[-40:])
                time.sleep(0.01)
        return accounted(folder, plan, output)


def goes_on(folder, cluster, after, output, patience=60):
    """Seconds until every worker has made a step since `after`."""
    began = time.monotonic()
    want = {f"worker-{index}" for job, index in cluster.members().tasks if job == "worker"}
    while True:
        done = {name.partition(".")[0] for at, name, _, what in steps_noted(folder)
                if what == "step" and at > after + 0.01}
        if want <= done:
            return time.monotonic() - began
        if time.monotonic() > began + patience:
            for job, index in cluster.members().tasks:
                cluster.kill(job, index, signal.SIGUSR1)
            raise AssertionError(f"no step of {want - done}:\n" + "\n".join(output[-60:]))
        time.sleep(0.02)


def accounted(folder, plan, output):
    """What came of every element since the last restore, and what should have."""
    restores = lines(folder / "restores")
    since, first = float(restores[-1][0]), [int(n) for n in restores[-1][1:]]
    noted = steps_noted(folder)
    begun = {(name, session): at for at, name, session, what in noted if what == "session"}
    late = {key for key, at in begun.items() if at >= since}
    steps = sum(what == "step" and (name, session) in late for _, name, session, what in noted)
    end = [int(n) for n in (folder / "end").read_text().split()]
    taken = [b - a for a, b in zip(first, end, strict=True)]
    return {"kills": len(plan), "of": {k: plan.count(k) for k in KINDS}, "restores": len(restores),
            "restored": (min(first), max(first)), "steps": steps, "sessions": len(late),
            "all_steps": sum(w == "step" for *_, w in noted), "least": min(taken),
            "most": max(taken), "output": output}


def holds(report):
    """No step lost, none twice; restored as often as parameter servers died, and at the start."""
    told = report["steps"]
    return (told <= report["least"] and report["most"] <= told + report["sessions"]
            and report["restores"] <= 1 + report["of"]["ps"])


def shown(report):
    first, last = report["restored"]
    return (f"{report['kills']} kills {report['of']}, {report['all_steps']} steps; restored "
            f"{report['restores']} times, at last what {first} to {last} steps had made; since "
            f"then {report['steps']} were told of, in {report['sessions']} sessions, and the "
            f"variables have {report['least']} to {report['most']} more: "
            + ("none lost, none twice" if holds(report) else "WRONG"))


# ---------------------------------------------------------------- what it learns

def accuracy(kinds, seed, steps, say=lambda line: None):
    """The test accuracy of the digits example, asynchronous, with kills."""
    rng, output = random.Random(seed), []
    with tempfile.TemporaryDirectory() as folder:
        cluster = local.LocalCluster(
            [sys.executable, "-P", str(DIGITS), "--asynchronous", "--softmax", "--steps",
             str(steps), "--save-steps", "20", "--folder", folder], {"ps": 1, "worker": 2},
            restarts=10**6, backoff=(0.05, 0.05),
            output=lambda label, line: output.append(f"[{label}] {line}"))
        with cluster:
            for kind in kinds:
                time.sleep(1.0 + rng.random())
                if cluster.wait(0) is None:
                    cluster.kill(*{"chief": ("worker", 0), "ps": ("ps", 0),
                                   "worker": ("worker", 1)}[kind])
            assert cluster.wait(120) == 0, "\n".join(output[-40:])
    text = "\n".join(output)
    found = float(re.search(r"test accuracy ([0-9.]+)", text)[1])
    killed = len(re.findall("SIGKILL: epoch", text))
    say(f"{killed} kills: test accuracy {found:.4f}")
    return found, killed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=20, help="of each kind")
    parser.add_argument("--of", default=",".join(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--folder", help="of a task")
    asked = parser.parse_args()
    if launch.task() is not None:
        return run_task(launch.task(), asked.folder)
    plan = [kind for kind in asked.of.split(",") for _ in range(asked.kills)]
    random.Random(asked.seed).shuffle(plan)

    def say(line):
        print(line, flush=True)
    if asked.accuracy:
        still, _ = accuracy([], 0, 8000, say)
        found, killed = accuracy(plan, asked.seed, 8000, say)
        raise SystemExit(not killed or abs(found - still) > BAND)
    report = run(plan, asked.seed, say=say)
    print(shown(report))
    raise SystemExit(not holds(report))


if __name__ == "__main__":
    main()
