"""Very many steps over two workers and a parameter server, whose processes must not grow.

    python tests/distributed/soak.py                        # 10^6 steps; make soak-dist
    python tests/distributed/soak.py --steps 20000 --grpc   # over gRPC alone

Three processes: this one is worker 0, and master of most sessions.  Steps mix what training and
serving do: pushes and pulls of dense and sparse parameters, loops and branches over tasks, queues,
strings, errors, deadlines, partial runs, sessions made and closed, clients of other servers.

Passes if from step --from to the last no process has more threads, descriptors, memory files,
open steps, sessions or plans, and RSS grows less than --growth bytes.
"""
import ctypes
import gc
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fuzz")]

import numpy as np

import pyflow as tf
import processes
import soaking
from pyflow import _executor
from pyflow.distributed import remote_worker
from soaking import expect

ROWS = 1000
# What may differ between two counts: idle threads of a pool end after a while; routes' sockets to
# peers come when they are first needed.
SLACK = {"threads": 8, "descriptors": 4, "memory files": 2}


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

    steps = [("run_scalar", 15), ("run_there", 15), ("run_push", 6), ("run_sparse", 5),
             ("run_strings", 3), ("run_loop", 4), ("run_branch", 4), ("run_queue", 4),
             ("run_large", 2), ("run_bad", 1), ("run_deadline", 0.4), ("run_partially", 0.5),
             ("run_new_session", 0.1)]


class Soak(soaking.Soak):
    def __init__(self, links, seed):
        setup = "import gc, ctypes"
        self.cluster = processes.Cluster({"ps": 1, "worker": 2}, ("worker", 0), setup=setup,
                                         links=links)
        others = [self.cluster.target("worker", 1), self.cluster.target("ps", 0)]
        self.program = Program(self.cluster.server.target, others)
        super().__init__([(name, getattr(self.program, name), weight)
                          for name, weight in Program.steps], seed)
        self.channels = remote_worker.Channels()
        self.remote = {t: remote_worker.RemoteWorker(
            f"/job:{t[0]}/replica:0/task:{t[1]}", a, self.channels, ("soak", 0, 0))
            for t, a in self.cluster.addresses.items() if t != ("worker", 0)}

    def alive(self):
        """{process: what exists now that nothing runs}."""
        for _ in range(3):
            gc.collect()
        time.sleep(1.2)                             # two beats: what is over is cleaned up
        _executor.release_memory()
        ctypes.CDLL(None).malloc_trim(0)
        found = {"worker 0": count(os.getpid(), self.cluster.server.status())}
        for task, one in self.remote.items():
            found[f"{task[0]} {task[1]}"] = count(self.cluster.processes[task].pid,
                                                  one.status(fresh=True))
        return found

    def close(self):
        self.program.session.close()
        self.channels.close()
        self.cluster.__exit__()


def count(pid, status):
    files = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            files.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            pass
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        rss = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return {"threads": len(os.listdir(f"/proc/{pid}/task")), "descriptors": len(files),
            "memory files": sum("memfd:" in f for f in files), "open": status.steps_open,
            "early": status.steps_early, "running": status.steps_running,
            "sessions": status.sessions, "graphs": status.graphs, "rss": rss}


def grown(before, after, growth):
    """[what grew]."""
    return [f"{process}'s {name}: {before[process][name]} -> {value}"
            for process, counts in after.items() for name, value in counts.items()
            if value - before[process][name] > (growth if name == "rss" else SLACK.get(name, 0))]


def main(steps, first, growth, seed, grpc):
    soak = Soak([] if grpc else None, seed)
    try:
        before, after = soaking.soak(soak, steps, first)
        soak.program.session.run(soak.program.count)
    finally:
        soak.close()
    wrong = grown(before, after, growth)
    print(f"rss grew { {p: after[p]['rss'] - before[p]['rss'] for p in after} } bytes since step "
          f"{first}; " + (f"GREW: {wrong}" if wrong else "everything else is where it was"))
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = soaking.arguments(__doc__, first=10000, growth=4 << 20)
    parser.add_argument("--grpc", action="store_true", help="no links of our own")
    options = vars(parser.parse_args())
    soaking.with_plain_allocators()
    status = main(**options)
    sys.stdout.flush()
    os._exit(status)
