"""Steps of a task in random orders, from four threads: sends, receives, failures, clean-ups, deadlines, cancels; and recursions that
meet their deadline.

    python tests/fuzz/task_orders.py --count 2000 --seed 1
    python tests/fuzz/sanitize.py thread --script task_orders.py --count 2000

Afterwards nobody waits, every callback came once, and the task holds no step.
"""
import argparse
import random
import sys
import threading

import numpy as np

import pyflow as tf
from pyflow import _executor
from pyflow.passes import partition
from pyflow.passes.node import Graph, Node
from pyflow.python.framework import function
from pyflow.session import contract

FLOAT, BATCH, THREADS = 1, 100, 4
ALLOWED = {1, 4, 5, 10, 15}             # CANCELLED, DEADLINE_EXCEEDED, NOT_FOUND, ABORTED, DATA_LOSS


def receiver(session):
    """(a plan whose step receives one float and gives it, the key it waits for)."""
    device = session._compiler.devices.names[0]
    sent = Node("x", "Const", attrs={"dtype": tf.float32, "value": np.ones([], np.float32)}, device=device,
                types=(tf.float32,))
    _, recv = partition.pair(sent, 0, device, 0)
    done = Node("y", "Neg", [(recv, 0)], attrs={"T": tf.float32}, device=device, types=(tf.float32,))
    fetch = Node("fetch", "_Retval", [(done, 0)], attrs={"T": tf.float32, "index": 0}, device=device)
    graph = Graph([recv, done, fetch], [], [fetch])
    key = f"{device};{1:016x};{device};edge_0_x:0;:0"
    return session._compiler.compile_nodes(graph).plan, key.encode()


def batch(rng, plan, key, task, first):
    told, begun, refused, lock = [], [], [], threading.Lock()
    accepted = [0]

    def start(k, timeout, cancelled):
        one = plan.start([], contract.RunOptions(timeout, task=task), key=(k % 3, k))
        if cancelled:
            one.cancel()
        with lock:
            begun.append((k, one))

    def take(k):
        task.take(k % 3, k, b"never", lambda code, value: told.append(code))
        with lock:
            accepted[0] += 1
    actions = []
    for k in range(first, first + BATCH):
        actions.append(lambda k=k: start(k, rng.choice((0, 0, 1, 20)), rng.random() < 0.2))
        if rng.random() < 0.8:
            actions.append(lambda k=k: task.put(k % 3, k, key, np.float32(k), FLOAT))
        actions.append(lambda k=k: take(k))
        if rng.random() < 0.3:
            actions.append(lambda k=k: task.fail(k % 3, k, 1, "a consequence", "/job:b/task:1", True))
        if rng.random() < 0.3:
            actions.append(lambda k=k: task.fail(k % 3, k, 15, "a cause", "/job:a/task:1"))
        if rng.random() < 0.5:
            actions.append(lambda k=k: task.clean(k % 3, k))
    rng.shuffle(actions)

    def work(part):
        for action in part:
            try:
                action()
            except _executor.StepError as error:
                refused.append(error.code)
    threads = [threading.Thread(target=work, args=(actions[t::THREADS],)) for t in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for session in range(3):
        task.clean(session)
    for k, one in begun:
        try:
            found = one.result(60)
            assert found == [-np.float32(k)], (k, found)
        except _executor.StepError as error:
            assert error.code in ALLOWED, error
    assert len(begun) == BATCH and set(refused) <= ALLOWED, refused
    assert len(told) == accepted[0], "a take was told not at all, or twice"
    counts = task.counts()
    assert not counts["open"] and not counts["early"] and not counts["early_bytes"], counts


def recursions(rng, count):
    with tf.Graph().as_default():
        endless = function.Declare("endless", [("x", tf.float32)], [("y", tf.float32)])
        function.Defun(tf.float32, func_name="endless", out_names=["y"])(
            lambda x: endless(x + 1.) * 2.).add_to_graph(tf.get_default_graph())
        y = endless(tf.constant(0.))
        with tf.Session(threads=2) as session:
            for _ in range(count):
                try:
                    session.run(y, options=tf.RunOptions(timeout_in_ms=rng.randint(1, 60)))
                except (tf.errors.DeadlineExceededError, tf.errors.ResourceExhaustedError):
                    continue
                raise AssertionError("an endless recursion ended")


def main(count, seed):
    rng = random.Random(seed)
    task = _executor.Task("/job:orders/task:0")
    with tf.Graph().as_default(), tf.Session(threads=3) as session:
        plan, key = receiver(session)
        for first in range(0, count, BATCH):
            batch(rng, plan, key, task, first)
    recursions(rng, max(count // 500, 4))
    print(f"{count} steps in random orders, {task.counts()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sys.exit(main(given.count, given.seed))
