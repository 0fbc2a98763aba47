"""A training whose parameters move: tables on four parameter tasks, of which a step touches a few
rows.  What test_resharding.py starts as processes.

    resharding_task.py FOLDER MEGABYTES STEPS   writes into FOLDER: steps, a line per step: seconds,
                                                step, and, of small tables, the sha256 of all
                                                variables; checkpoints of the first and last step
"""
import logging
import pathlib
import sys
import time

import numpy as np

import pyflow as tf
from pyflow.distributed import launch
from pyflow.distributed.train import training

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import standby_task  # noqa: E402 - beside this file

PS_TASKS, TABLES, WIDTH = 4, 8, 64


def model(k, workers, megabytes):
    """(the optimizer, its train op, function(step, source) -> feeds) of worker k."""
    rows = megabytes * (1 << 20) // (4 * WIDTH * TABLES)
    tf.set_random_seed(2)
    with tf.device(tf.train.replica_device_setter(
            ps_tasks=PS_TASKS, worker_device=f"/job:worker/task:{k}")):
        step = tf.train.get_or_create_global_step()
        tables = [tf.get_variable(f"table_{n}", [rows, WIDTH], use_resource=n % 2 == 1)
                  for n in range(TABLES)]
        b = tf.get_variable("b", [WIDTH])
        ids = tf.placeholder(tf.int32, [5])
        shown = sum(tf.gather(table, ids) for table in tables) + b
        sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.05), workers)
        train = sync.minimize(tf.reduce_mean(tf.square(shown - 1.0)), global_step=step)

    def feed(at, source):
        return {ids: np.random.default_rng([at, source]).integers(0, rows, 5)}
    return sync, train, feed


def main():
    folder, megabytes, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    logging.getLogger("pyflow.distributed").addHandler(logging.StreamHandler())
    logging.getLogger("pyflow.distributed").setLevel(logging.INFO)
    task = launch.task()
    server = task.server()
    if task.serves:
        return server.join()

    def note(session, step):
        with open(folder / "steps", "a", encoding="ascii") as f:
            f.write(f"{time.monotonic()} {step} -\n")
    sync, train, feed = model(task.index, len(task.cluster.task_indices("worker")), megabytes)
    with training.training_session(
            server, task.is_chief, sync, feed, checkpoint_dir=str(folder / "run"),
            save_steps=10**9, last_step=steps, deterministic=True, ps_tasks=PS_TASKS,
            on_step=[note if megabytes > 8 else standby_task.Values(folder / "steps")],
            epoch=task.epoch, job=task.job_id) as sess:
        while not sess.should_stop():
            sess.run(train)
    server.stop()


if __name__ == "__main__":
    main()
