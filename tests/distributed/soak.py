"""Very many steps over two workers and a parameter server, whose processes must not grow.

    python tests/distributed/soak.py                        # 10^6 steps; long.py soak-dist
    python tests/distributed/soak.py --steps 100000 --grpc  # over gRPC alone
    python tests/distributed/soak.py --steps 100000 --leak 16       # has to fail

Three processes: this one is worker 0, and master of most sessions.  Steps mix what training and
serving do: pushes and pulls of dense and sparse parameters, loops and branches over tasks, queues,
strings, errors, deadlines, partial runs, sessions made and closed, clients of other servers.

First everything that fills once is filled: the tables of what is over (the core remembers 8,192
steps of each task, a server 4,096 calls of each session), and connections between all tasks, which
come when a sign of life goes their way.  From step --from on, at each of ten looks at what is left
once every process has cleaned up, threads, descriptors, memory files, tensors' bytes, steps,
sessions and plans have to be what they were, and memory may rise by no more per step than
growth.SLOPES says.
"""
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fuzz")]

import numpy as np

import pyflow as tf
import alive
import growth
import processes
import soaking
from pyflow.distributed.run import remote_worker
from pyflow.distributed.wire.channels import Channels
from soaking import expect

ROWS = 1000
LOOKS = 10
FIRST = 100000                  # until then pools begin threads, and malloc finds its chunks
FILLING = {"steps": 9000, "calls": 4200}    # more than is remembered


class Program:
    """A graph over all tasks; `steps`: (method, weight)."""

    def __init__(self, target, others):
        self.others = others
        ps, one, zero = "/job:ps/task:0", "/job:worker/task:1", "/job:worker/task:0"
        with tf.Graph().as_default() as self.graph:
            with tf.device(ps):
                self.dense = tf.get_variable("dense", [256], initializer=tf.zeros_initializer())
                self.rows = tf.get_variable("rows", [ROWS, 8], initializer=tf.zeros_initializer())
                self.count = tf.get_variable("count", [], initializer=tf.zeros_initializer())
                self.queue = tf.FIFOQueue(10, tf.float32)
                self.never = tf.FIFOQueue(1, tf.float32).dequeue()
            with tf.device(one):
                self.x = tf.placeholder(tf.float32, [None])
                self.ids = tf.placeholder(tf.int32, [None])
                self.text = tf.placeholder(tf.string, [None])
                there = tf.reduce_sum(self.x) + 1
                joined = tf.string_join([self.text, self.text])
            with tf.device(zero):
                self.sum = there * 2
                self.back = tf.identity(joined)
                self.y = tf.placeholder(tf.float32, [])
                self.second = self.sum + self.y
                self.row = tf.gather(self.x, self.ids)
            with tf.device(ps):
                self.push = self.dense.assign_add(tf.fill([256], self.sum * 0 + 1))
                self.sparse = tf.scatter_add(self.rows, self.ids, tf.ones([tf.size(self.ids), 8]))
                self.pull = tf.gather(self.rows, self.ids)
                self.added = self.count.assign_add(1.0)
                self.put, self.get = self.queue.enqueue([self.sum]), self.queue.dequeue()

            def body(i, a):
                with tf.device(ps):
                    b = a + 1
                with tf.device(one):
                    return i + 1, b * 1.0
            with tf.device(zero):
                self.n = tf.placeholder(tf.int32, [])
                self.turns = tf.while_loop(lambda i, a: i < self.n, body, [0, 0.0])[1]
                self.branch = tf.cond(self.n > 2, lambda: there, lambda: self.sum * 0)
            init = tf.global_variables_initializer()
        self.target = target
        self.session = tf.Session(target, graph=self.graph)
        self.session.run(init)
        self.adds = 0
        self.elsewhere = tf.Session(others[0], graph=self.graph)

    def fill(self):
        """What is filled once: see the module."""
        for target in (self.target, *self.others):
            with tf.Session(target, graph=self.graph) as session:
                session.run([self.sum, self.added], {self.x: [1.0]})
                time.sleep(1.2)                         # two signs of life
        for _ in range(FILLING["steps"]):
            self.session.run([self.sum, self.added], {self.x: [1.0]})
        for _ in range(FILLING["calls"]):
            self.elsewhere.run(self.sum, {self.x: [1.0]})

    def run_scalar(self, rng):
        n = rng.randrange(1, 5)
        assert self.session.run(self.sum, {self.x: [1.0] * n}) == 2 * (n + 1)

    def run_there(self, rng):
        self.session.run(self.added)
        self.adds += 1

    def run_push(self, rng):
        self.session.run(self.push, {self.x: [1.0]})

    def run_sparse(self, rng):
        ids = [rng.randrange(ROWS) for _ in range(rng.randrange(1, 20))]
        self.session.run(self.sparse, {self.ids: ids})
        assert self.session.run(self.pull, {self.ids: ids}).shape == (len(ids), 8)

    def run_strings(self, rng):
        text = [b"a" * rng.randrange(50)]
        assert self.session.run(self.back, {self.text: text})[0] == text[0] * 2

    def run_loop(self, rng):
        n = rng.randrange(5)
        assert self.session.run(self.turns, {self.n: n}) == n

    def run_branch(self, rng):
        n = rng.randrange(5)
        assert self.session.run(self.branch, {self.n: n, self.x: [1.0]}) == (2 if n > 2 else 0)

    def run_queue(self, rng):
        self.session.run(self.put, {self.x: [2.0]})
        assert self.session.run(self.get) == 6

    def run_large(self, rng):
        n = rng.choice([1000, 20000, 100000])
        assert self.session.run(self.sum, {self.x: np.ones(n, np.float32)}) == 2 * (n + 1)

    def run_bad(self, rng):
        expect(tf.errors.InvalidArgumentError, lambda: self.session.run(
            [self.row, self.sum], {self.x: [1.0], self.ids: [7]}))

    def run_deadline(self, rng):
        expect(tf.errors.DeadlineExceededError, lambda: self.session.run(
            self.never, options=tf.RunOptions(timeout_in_ms=2)))

    def run_partially(self, rng):
        handle = self.session.partial_run_setup([self.sum, self.second], [self.x, self.y])
        assert self.session.partial_run(handle, self.sum, {self.x: [1.0]}) == 4
        assert self.session.partial_run(handle, self.second, {self.y: 1.0}) == 5

    def run_new_session(self, rng):
        with tf.Session(rng.choice([self.target, *self.others]), graph=self.graph) as session:
            assert session.run(self.sum, {self.x: [1.0]}) == 4

    def run_elsewhere(self, rng):
        n = rng.choice([1, 100, 10000])
        assert self.elsewhere.run(self.row, {self.x: [1.0], self.ids: [0] * n}).shape == (n,)

    def run_bad_elsewhere(self, rng):
        expect(tf.errors.InvalidArgumentError, lambda: self.elsewhere.run(
            [self.row, self.sum], {self.x: [1.0], self.ids: [7]}))

    steps = [("run_scalar", 15), ("run_there", 15), ("run_push", 6), ("run_sparse", 5),
             ("run_strings", 3), ("run_loop", 4), ("run_branch", 4), ("run_queue", 4),
             ("run_large", 2), ("run_bad", 1), ("run_deadline", 0.4), ("run_partially", 0.5),
             ("run_new_session", 0.1), ("run_elsewhere", 0.5), ("run_bad_elsewhere", 0.3)]


class Soak(soaking.Soak):
    """leak: bytes that this process loses per step."""

    def __init__(self, links, seed, leak):
        self._leak = leak
        alive.end_idle_threads_soon()
        self.cluster = processes.Cluster({"ps": 1, "worker": 2}, ("worker", 0), setup=alive.SETUP,
                                         links=links)
        others = [self.cluster.target("worker", 1), self.cluster.target("ps", 0)]
        self.program = Program(self.cluster.server.target, others)
        super().__init__([(name, getattr(self.program, name), weight)
                          for name, weight in Program.steps], seed)
        self.channels = Channels()
        self.remote = {t: remote_worker.RemoteWorker(
            f"/job:{t[0]}/replica:0/task:{t[1]}", a, self.channels, ("soak", 0, 0))
            for t, a in self.cluster.addresses.items() if t != ("worker", 0)}
        for one in self.remote.values():
            one.status()                                # who looks has connections, too
        self.program.fill()

    def round(self):
        super().round()
        alive.lose(self._leak, soaking.ROUND)

    def alive(self):
        """{process: what exists now that nothing runs}."""
        time.sleep(alive.REST)
        found = {"worker 0": counted(alive.counts(), self.cluster.server.status())}
        for (job, number), one in self.remote.items():
            counts = alive.counts_of(self.cluster.processes[job, number])
            found[f"{job} {number}"] = counted(counts, one.status(fresh=True))
        return found

    def close(self):
        self.program.session.close()
        self.program.elsewhere.close()
        self.channels.close()
        self.cluster.__exit__()


def counted(counts, status):
    return {**counts, "open": status.steps_open, "early": status.steps_early,
            "running": status.steps_running, "sessions": status.sessions, "graphs": status.graphs}


def main(steps, first, seed, grpc, leak):
    soak = Soak([] if grpc else None, seed, leak)
    try:
        samples = soaking.soak(soak, steps, first or min(FIRST, steps // 2), looks=LOOKS)
        soak.program.session.run(soak.program.count)
    finally:
        soak.close()
    wrong = growth.grown(samples)
    for process in samples[0][1]:
        print(f"{process}: " + ", ".join(
            f"{name} {growth.rise(samples, process, name):+.3g} per step" for name in growth.SLOPES)
            + f"; rss grew {samples[-1][1][process]['rss'] - samples[0][1][process]['rss']} bytes")
    print(f"from step {samples[0][0]} to {steps}: " + (
        f"GREW: {wrong}" if wrong else f"{', '.join(growth.FLAT)} are where they were"))
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = soaking.arguments(
        __doc__, first=(0, "the step from which on nothing grows; 0: 100,000, or half of all"),
        leak=(0, "bytes that this process loses per step, to see that it is found"))
    parser.add_argument("--grpc", action="store_true", help="no links of our own")
    options = vars(parser.parse_args())
    soaking.with_plain_allocators()
    status = main(**options)
    sys.stdout.flush()
    os._exit(status)
