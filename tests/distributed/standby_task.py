"""A training with a standby, small: variables of both kinds, one that gets rows, averages.  What
test_standby.py starts as processes, and runs in its own for the bits that they have to have.

    standby_task.py FOLDER      writes into it: steps, a line per step: seconds, step, sha256 of all
                                variables; and checkpoints
"""
import hashlib
import logging
import pathlib
import sys
import time

import numpy as np

import pyflow as tf
from pyflow.distributed import launch
from pyflow.distributed.train import training

WORKERS = 2


class Values:
    """Notes the sha256 of all variables at each step's boundary; in `seen`, or in a file."""

    def __init__(self, path=None):
        self.path, self.seen = path, []

    def __call__(self, session, step):
        variables = sorted(session.graph.get_collection("variables"), key=lambda v: v.name)
        found = hashlib.sha256()
        for variable, value in zip(variables, session.run(variables)):
            found.update(variable.name.encode() + value.tobytes())
        self.seen.append((time.monotonic(), step, found.hexdigest()))
        if self.path is not None:
            with open(self.path, "a", encoding="ascii") as f:
                f.write(" ".join(map(str, self.seen[-1])) + "\n")


def model(spec, k, workers):
    """(the optimizer, its train op, function(step, source) -> feeds) of worker k."""
    tf.set_random_seed(1)
    with tf.device(tf.train.replica_device_setter(
            cluster=spec, worker_device=f"/job:worker/task:{k}")):
        step = tf.train.get_or_create_global_step()
        table = tf.get_variable("table", [10, 4])
        b = tf.get_variable("b", [4], use_resource=True)
        x, ids = tf.placeholder(tf.float32, [3, 4]), tf.placeholder(tf.int32, [3])
        loss = tf.reduce_mean(tf.square(tf.gather(table, ids) * x + b - 1.0))
        sync = tf.train.SyncReplicasOptimizer(
            tf.train.AdamOptimizer(0.1), workers,
            variable_averages=tf.train.ExponentialMovingAverage(0.9), variables_to_average=[b])
        train = sync.minimize(loss, global_step=step)

    def feed(at, source):
        rng = np.random.default_rng([at, source])
        return {x: rng.standard_normal([3, 4]), ids: rng.integers(0, 10, 3)}
    return sync, train, feed


def train(server, spec, k, folder, steps, workers=WORKERS, **options):
    """Worker k's part; options: of training_session."""
    with tf.Graph().as_default():
        sync, op, feed = model(spec, k, workers)
        with training.training_session(
                server, k == 0, sync, feed, checkpoint_dir=str(folder), save_steps=10**6,
                last_step=steps, deterministic=True, **options) as sess:
            while not sess.should_stop():
                sess.run(op)


def main():
    folder, task = pathlib.Path(sys.argv[1]), launch.task()
    logging.getLogger("pyflow.distributed").addHandler(logging.StreamHandler())
    logging.getLogger("pyflow.distributed").setLevel(logging.INFO)
    server = task.server()
    if task.serves:
        return server.join()
    train(server, task.cluster, task.index, folder / "run", 10**9, standby="ps_standby",
          on_step=[Values(folder / "steps")], epoch=task.epoch, job=task.job_id)


if __name__ == "__main__":
    main()
