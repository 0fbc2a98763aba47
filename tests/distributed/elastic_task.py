"""What test_elastic.py starts: a task of a training in shards, which says what it does and when.

    at SECONDS WHAT             seconds since its exec; WHAT: imported, serves, built, session
    ran TIME STEP SHARD         a gradient was computed and given; TIME: time.monotonic()
    registered GRAPH            this task compiled a part for a session
"""
import os
import sys
import time


def since_exec():
    with open("/proc/self/stat", encoding="ascii") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


import numpy as np                                              # noqa: E402

import pyflow as tf                                             # noqa: E402
from pyflow.distributed import launch         # noqa: E402
from pyflow.distributed.run import worker  # noqa: E402
from pyflow.distributed.train import training  # noqa: E402


def say(*words):
    print(*words, flush=True)


def at(what):
    say("at", f"{since_exec():.3f}", what)


class Sessions(tf.train.SessionRunHook):
    def after_create_session(self, session, coord):
        at("session")


def train(task, server):
    tf.set_random_seed(1)
    with tf.device(tf.train.replica_device_setter(cluster=task.cluster, worker_device=task.name)):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [64, 32])
        x = tf.placeholder(tf.float32, [32, 64])
        loss = tf.reduce_mean(tf.square(tf.nn.dropout(tf.matmul(x, w), 0.5)))
        made = tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(0.01), task.shards,
                                              shards=task.shards)
        op = made.minimize(loss, global_step=step)
    at("built")

    def feed(step, shard):
        time.sleep(0.005)                   # what a gradient takes
        return {x: np.random.default_rng([step, shard]).standard_normal([32, 64])}
    with training.training_session(server, task.is_chief, made, feed, hooks=[Sessions()],
                                   last_step=int(sys.argv[1])) as sess:
        while not sess.should_stop():
            position = sess.run(made.position)
            sess.run(op)
            say("ran", time.monotonic(), *position)


def main():
    at("imported")
    register = worker.Worker.register

    def counted(self, *args, **kwargs):
        graph = register(self, *args, **kwargs)
        say("registered", time.monotonic(), args[0])
        return graph
    worker.Worker.register = counted
    task = launch.task()
    server = task.server()
    at("serves")
    if task.job == "ps":
        server.join()
    else:
        train(task, server)


if __name__ == "__main__":
    main()
