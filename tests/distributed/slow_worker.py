"""One of three workers is ten times as slow as the others; two gradients make a step.

    python -P tests/distributed/slow_worker.py --steps 300      # long.py slow-worker

A gradient takes --work milliseconds, of waiting, so that the machine's cores do not matter; the
slow worker's takes ten times as long, once it is told to.  Prints the median step of three healthy
workers and of two healthy ones with the slow one.  Exit status 1 if that is over 1.15 of this.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np

import pyflow as tf
from pyflow.distributed import launch
from pyflow.distributed.train import training
from pyflow.distributed.launch import local

BOUND = 1.15


def run_task(task, asked):
    """Trains a vector to the mean of what the workers want."""
    server = task.server()
    if task.job == "ps":
        return server.join()
    folder, times = pathlib.Path(asked.folder), []
    with tf.device(tf.train.replica_device_setter(
            cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [1000], initializer=tf.zeros_initializer())
        x = tf.placeholder(tf.float32, [])
        loss = tf.reduce_sum(tf.square(w - x))
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(0.01), replicas_to_aggregate=2, total_num_replicas=3)
        train = optimizer.minimize(loss, global_step=step)

    def feed(at, source):
        slow = source == 2 and (folder / "slow").exists()
        time.sleep(asked.work * 1e-3 * (10 if slow else 1))
        return {x: np.float32(at % 7)}

    def stepped(session, at):
        times.append(time.monotonic())
        if at % 10 == 0:
            (folder / "times.new").write_text(json.dumps(times))
            os.replace(folder / "times.new", folder / "times")
    with training.training_session(server, task.is_chief, optimizer, feed, epoch=task.epoch,
                                   job=task.job_id, on_step=[stepped]) as sess:
        while True:
            sess.run(train)


def measure(work, steps):
    """(median seconds of a step with healthy workers, with one slow)."""
    with tempfile.TemporaryDirectory() as name:
        folder, output = pathlib.Path(name), []
        cluster = local.LocalCluster(
            [sys.executable, "-P", os.path.abspath(__file__), "--folder", name, "--work",
             str(work)], {"ps": 1, "worker": 3},
            output=lambda label, line: output.append(f"[{label}] {line}"))

        def next_steps(count):
            begun = time.monotonic()
            while True:
                times = json.loads((folder / "times").read_text()) if (
                    folder / "times").exists() else []
                late = [t for t in times if t > begun]
                if len(late) > count:
                    return statistics.median(b - a for a, b in zip(late, late[1:]))
                assert cluster.wait(0.1) is None and time.monotonic() < begun + 60 + count, \
                    "\n".join(output[-30:])
        with cluster:
            next_steps(20)
            healthy = next_steps(steps)
            (folder / "slow").touch()
            next_steps(10)
            return healthy, next_steps(steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--work", type=float, default=20.0, help="milliseconds of a gradient")
    parser.add_argument("--folder", help="of a task")
    asked = parser.parse_args()
    if launch.task() is not None:
        return run_task(launch.task(), asked)
    healthy, slow = measure(asked.work, asked.steps)
    print(f"{asked.steps} steps each: median step {healthy * 1e3:.2f} ms with three healthy "
          f"workers, {slow * 1e3:.2f} ms with one 10x slow and one backup: {slow / healthy:.2f}")
    raise SystemExit(slow > BOUND * healthy)


if __name__ == "__main__":
    main()
