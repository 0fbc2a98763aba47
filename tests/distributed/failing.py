"""A kernel fails on one of four tasks while the others block: who says what, and when all are idle.

    python tests/distributed/failing.py --count 200             # servers of one process
    python tests/distributed/failing.py --count 200 --processes

Each run draws what blocks on each task (an empty queue, a loop without end, one over two tasks, a
kernel that never ends, what another one sends), the task and the moment of the failure.  The step
must raise the cause with op, task and line; then no task may have a step open or a partition
running.  Exit status 1 unless every run said the cause, was idle within 1 s, and 95 % within 0.1 s.
"""
import argparse
import os
import pathlib
import random
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fuzz")]

import plugins_of_fuzz
import pyflow as tf
import processes
from pyflow.distributed.run import remote_worker
from pyflow.distributed.wire.channels import Channels
from pyflow.session import failures

TASKS = 4


class Servers:
    """Four servers: their devices, a target of each, and whether they are idle."""

    def __init__(self, folder, apart):
        plugins_of_fuzz.build(folder, "libfuzz_kernels.so")
        self.op = plugins_of_fuzz.load_kernels(folder)
        if apart:
            setup = f"tf.load_op_library({str(folder)!r} + '/libfuzz_kernels.so')"
            self._cluster = processes.Cluster({"worker": TASKS}, ("worker", 0), setup=setup)
            server = self._cluster.server
            self.targets = [server.target] + [self._cluster.target("worker", k)
                                              for k in range(1, TASKS)]
            self._channels = Channels()
            self._workers = [server._worker] + [
                remote_worker.RemoteWorker(self.task(k), self._cluster.addresses["worker", k],
                                           self._channels, ("test", 0)) for k in range(1, TASKS)]
        else:
            servers, _ = tf.test.create_local_cluster(TASKS, 0)
            self._cluster, self._servers = None, servers
            self.targets = [s.target for s in servers]
            self._workers = [s._worker for s in servers]

    @staticmethod
    def task(k):
        return f"/job:worker/replica:0/task:{k}"

    def busy(self):
        """{task: what is open or runs there}."""
        found = {}
        for worker in self._workers:
            status = worker.status() if worker.local else worker.status(fresh=True)
            open_ = status.steps_open, status.steps_early, status.steps_running
            if any(open_):
                found[worker.name] = open_
        return found

    def stop(self):
        if self._cluster is not None:
            self._channels.close()
            self._cluster.__exit__()
        else:
            for server in self._servers:
                server.stop()


def blocker(rng, op, k):
    """Something that does not end by itself, on task k."""
    kind = rng.choice(("queue", "loop", "two", "never", "sent"))
    x = tf.constant(1.0)
    if kind == "queue":
        return tf.FIFOQueue(1, tf.float32).dequeue()
    if kind == "never":
        return op("Never")(x)
    if kind == "loop":
        return tf.while_loop(lambda y: y > 0, lambda y: [op("Later")(y, us=50)], [x])
    other = Servers.task((k + rng.randrange(1, TASKS)) % TASKS)
    if kind == "two":
        def body(y):
            with tf.device(other):
                y = y + 1
            return [y - 1]
        return tf.while_loop(lambda y: y > 0, body, [x])
    with tf.device(other):
        z = tf.FIFOQueue(1, tf.float32).dequeue()
    return z + 1


def program(rng, op):
    """(graph, fetches, the operation that fails)."""
    with tf.Graph().as_default() as graph:
        culprit = rng.randrange(TASKS)
        fetches = []
        for k in range(TASKS):
            with tf.device(Servers.task(k)):
                if k != culprit or rng.random() < 0.3:
                    fetches.append(blocker(rng, op, k))
        with tf.device(Servers.task(culprit)):
            x = op("Later")(tf.constant(1.0), us=rng.choice((0, 100, 5000, 30000)))
            bad = op("FailIf")(x, above=0.5, us=100, late=rng.random() < 0.5)
            fetches.append(bad if rng.random() < 0.5 else bad + 1)
    return graph, fetches, bad.op


def once(servers, seed):
    """(seconds until all were idle, what is wrong or "") of one run."""
    rng = random.Random(seed)
    graph, fetches, bad = program(rng, servers.op)
    target = servers.targets[0 if rng.random() < 0.7 else rng.randrange(TASKS)]
    with tf.Session(target, graph=graph) as session:
        try:
            session.run(fetches, options=tf.RunOptions(timeout_in_ms=20000))
            return 0, "no error"
        except tf.errors.OpError as error:
            failed, begun = error, time.perf_counter()
        while True:
            busy = servers.busy()
            idle = time.perf_counter() - begun
            if not busy or idle > 5:
                break
            time.sleep(0.002)
    if busy:
        return idle, f"still busy after {idle:.1f} s: {busy}"
    if not isinstance(failed, tf.errors.DataLossError) or failed.op is not bad:
        return idle, f"{type(failed).__name__} of {failed.op}: {str(failed)[:600]}"
    for part in (bad.device, failures.place(bad)):
        if part not in str(failed):
            return idle, f"{part} is missing in {failed}"
    return idle, ""


def main(folder, count, seed, apart):
    """Exit status."""
    servers = Servers(folder, apart)
    try:
        found = []
        for k in range(count):
            idle, wrong = once(servers, seed + k)
            found.append(idle)
            if wrong:
                print(f"seed {seed + k}: {wrong}", flush=True)
                found[-1] = float("inf")
    finally:
        servers.stop()
    found.sort()
    good = sum(t < float("inf") for t in found)
    quick, soon = sum(t <= 0.1 for t in found), sum(t <= 1 for t in found)
    print(f"{count} runs: {good} raised the cause with op, task and line; idle within 100 ms "
          f"{quick}, within 1 s {soon}; median {found[count // 2] * 1e3:.1f} ms, "
          f"worst {found[-1] * 1e3:.0f} ms")
    return 0 if good == soon == count and quick >= 0.95 * count else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", dest="apart", action="store_true")
    with tempfile.TemporaryDirectory() as made:
        status = main(made, **vars(parser.parse_args()))
    sys.stdout.flush()
    os._exit(status)
