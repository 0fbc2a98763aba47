"""Trains the digit classifier between-graph on several processes of this machine, and survives the
loss of any of them.

    python examples/distributed/digits.py --workers 2 --ps 1            # a minute
    python examples/distributed/digits.py --workers 2 --ps 1 --folder RUN   # goes on where RUN was
    kill -9 PID                                                         # of any process: try it
    python -m pyflow launch --workers 2 --ps 1 examples/distributed/digits.py   # another launcher

Synchronous training is exact: however often processes die, the sha256 of all variables at the end,
which the chief prints with the test accuracy, is that of an undisturbed run.  --asynchronous trains
without waiting; then the accuracy is about the same, and the sha256 is not.
"""
import os
import pathlib
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import datasets                 # noqa: E402 - examples/
import models                   # noqa: E402

import pyflow as tf             # noqa: E402
from pyflow.distributed import commits, job_end, launch, training    # noqa: E402

RATE, KEEP, BATCH, SEED = 2e-3, 0.5, 50, 0      # those of 01_digits.py; BATCH of all workers


def arguments():
    parser = datasets.Parser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ps", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1120, help="28 are an epoch")
    parser.add_argument("--save-steps", type=int, default=20)
    parser.add_argument("--folder", help="of checkpoints; default: a new one, removed at the end")
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--shards", type=int, default=0, help="of a step, dealt to who is there")
    parser.add_argument("--standby", action="store_true", help="a second process for each parameter "
                        "server, which takes its place when it dies: no step is lost")
    parser.add_argument("--data", help="folder of MNIST's idx files")
    parser.add_argument("--softmax", action="store_true", help="a smaller model, for tests")
    asked = parser.parse_args()
    for name in ("workers", "ps", "steps"):
        if getattr(asked, name) < 1:
            parser.error(f"argument --{name}: expected at least 1, got {getattr(asked, name)}")
    return asked


class Input:
    """The batch of a step and a source (a worker, or a shard): always the same one."""

    def __init__(self, data, parts):
        self.data, self.rows = data, max(1, BATCH // parts)
        self.parts, self.epoch, self.order = parts, None, None
        self.steps = len(data[0]) // (self.rows * parts)

    def batch(self, step, source):
        epoch, at = divmod(step, self.steps)
        if epoch != self.epoch:
            rng = np.random.default_rng([SEED, epoch])
            self.epoch, self.order = epoch, rng.permutation(len(self.data[0]))
        first = (at * self.parts + source) * self.rows
        chosen = self.order[first:first + self.rows]
        return self.data[0][chosen], self.data[1][chosen]


def build(asked, side):
    """(images, labels, keep, loss, how many are right) of the classifier."""
    x, y = tf.placeholder(tf.float32, [None, side, side, 1]), tf.placeholder(tf.int64, [None])
    keep = tf.placeholder_with_default(1.0, [])
    logits = (models.softmax_regression if asked.softmax else models.convnet)(x, keep)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    right = tf.reduce_sum(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.int32))
    return x, y, keep, loss, right


def accuracy(asked, prefix, test):
    """Of a checkpoint, on images that were not trained on."""
    with tf.Graph().as_default():
        x, y, _, _, right = build(asked, test[0].shape[1])
        saver = tf.train.Saver(tf.trainable_variables())
        with tf.Session() as sess:
            saver.restore(sess, prefix)
            return sess.run(right, {x: test[0], y: test[1]}) / len(test[0])


class Report(tf.train.SessionRunHook):
    """A line every now and then."""

    def __init__(self, loss, steps):
        self.loss, self.steps = loss, steps
        self.began, self.first, self.said = time.monotonic(), None, 0

    def begin(self):
        self.step = tf.train.get_global_step()

    def before_run(self, context):
        return tf.train.SessionRunArgs([self.loss, self.step])

    def after_run(self, context, values):
        loss, step = values.results
        now = time.monotonic()
        self.first = step if self.first is None else self.first
        if now - self.said > 2:
            self.said = now
            rate = (step - self.first) / (now - self.began)
            print(f"step {step:5d} of {self.steps}  loss {loss:.4f}  {rate:6.1f} steps/s",
                  flush=True)


def train(task, asked, server, data, hooks=(), on_step=()):
    is_sync = not asked.asynchronous
    parts = asked.shards or len(task.cluster.task_indices("worker"))
    source = Input(data, parts)
    tf.set_random_seed(SEED)
    with tf.device(tf.train.replica_device_setter(
            cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")):
        step = tf.train.get_or_create_global_step()
        x, y, keep, loss, _ = build(asked, data[0].shape[1])
        optimizer = tf.train.AdamOptimizer(RATE)
        if is_sync:
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, parts, shards=asked.shards)
        train_op = optimizer.minimize(loss, global_step=step)

    def feed(at, part):
        images, labels = source.batch(at, part)
        return {x: images, y: labels, keep: KEEP}
    with training.training_session(
            server, task.is_chief, optimizer if is_sync else None, feed,
            checkpoint_dir=asked.folder, save_steps=asked.save_steps, last_step=asked.steps,
            epoch=task.epoch, job=task.job_id, deterministic=is_sync, on_step=on_step,
            standby="ps_standby" if asked.standby else None,
            hooks=[Report(loss, asked.steps), *hooks]) as sess:
        while not sess.should_stop():
            sess.run(train_op)


def run_task(task, asked):
    """One process of the cluster."""
    server = task.server()
    if task.serves:
        return server.join()
    data, test = datasets.mnist(asked.data) if asked.data else datasets.digits(SEED)
    train(task, asked, server, data)
    if task.is_chief:
        newest = commits.CheckpointFolder(asked.folder).newest()
        right = accuracy(asked, newest.prefix, test)
        print(f"step {newest.step}: test accuracy {right:.4f}", flush=True)
        print(f"sha256 {training.digest(newest.prefix)}", flush=True)
    job_end.end_job(server, task)


def start(asked):
    """Starts all processes on this machine."""
    from pyflow.distributed.launch import local, supervision
    with tempfile.TemporaryDirectory() as new:
        folder = asked.folder or new
        command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--folder", folder]
        jobs = {"ps": asked.ps, "worker": asked.workers}
        if asked.standby:
            jobs["ps_standby"] = asked.ps
        cluster = local.LocalCluster(command, jobs, restarts=50)
        return supervision.run(cluster)


def main():
    asked, task = arguments(), launch.task()
    if task is None:
        raise SystemExit(start(asked))
    if asked.folder is None:        # started by another launcher
        asked.folder = os.path.join(tempfile.gettempdir(), f"digits-{task.job_id or 'run'}")
    run_task(task, asked)


if __name__ == "__main__":
    main()
