"""Random graphs placed at random on the tasks of a cluster: what the naive interpreter says.

    python tests/distributed/fuzz_graphs.py --tasks 3 --count 20000     # long.py fuzz-tasks
    python tests/distributed/fuzz_graphs.py --processes --link tcp --count 2000
    python tests/distributed/fuzz_graphs.py --processes --delay 0 0.2 --jobs 8 --count 200
    python tests/distributed/fuzz_graphs.py --replay 4711

The programs are those of tests/fuzz (loops, branches, arrays, gradients, state, errors).  A seed
also draws where each operation runs, whose server is master, and whether the client speaks to it
directly or over gRPC.  Values have the interpreter's bits; an error is that of one of the
operations that fail, with its code, task and line.
"""
import argparse
import logging
import os
import pathlib
import random
import sys
import tempfile
import threading
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fuzz"), str(HERE.parent / "executor"),
                str(HERE.parent / "passes_partition")]

import graphs
import interpreter
import pyflow as tf
import processes
import programs
from pyflow.session import failures

ERRORS = {"FailIf": tf.errors.DataLossError, "GatherV2": tf.errors.InvalidArgumentError,
          "Gather": tf.errors.InvalidArgumentError, "PyFunc": tf.errors.UnknownError}


class Way:
    """Where a program runs; drawn apart from it."""

    def __init__(self, rng, tasks):
        self.tasks = tasks
        self.place_seed = rng.randrange(10**6)
        self.master = rng.randrange(len(tasks))
        self.over_grpc = rng.random() < 0.15
        self.rewrites = rng.random() < 0.6
        self.isolated = rng.random() < 0.5
        self.many = rng.random() < 0.3

    def __repr__(self):
        return f"Way({', '.join(f'{k}={v!r}' for k, v in vars(self).items() if k != 'tasks')})"

    def config(self):
        config = tf.ConfigProto(allow_soft_placement=True, isolate_session_state=self.isolated)
        config.graph_options.rewrite_options.disable_meta_optimizer = not self.rewrites
        return config


def scatter(graph, way, python):
    """Every operation on a random task; Python functions on the task `python`, or anywhere."""
    graphs.scatter(graph, random.Random(way.place_seed), way.tasks)
    for op in graph.get_operations():
        if op.type == "PyFunc" and python is not None:
            op._set_device(python)


def rename(graph, seed):
    """Variables get containers' names of their own: a server keeps them from session to session."""
    for op in graph.get_operations():
        if op.type in ("VariableV2", "VarHandleOp"):
            op.attrs["shared_name"] = f"{op.name}_{seed}"


class Fuzz(graphs.Fuzz):
    """Programs on the servers at `targets`; python: the task whose process has Python functions."""

    def __init__(self, folder, tasks, targets, python=None):
        super().__init__(folder, accelerator=False)
        self.tasks, self.targets, self.python = tasks, targets, python
        self.steps, self.errors, self.by_task = 0, 0, {}

    def check_seed(self, seed):
        way = Way(random.Random(~seed), self.tasks)
        program = programs.Program(random.Random(seed), self.op)
        rename(program.graph, seed)
        scatter(program.graph, way, self.python)
        oracle = interpreter.Interpreter(program.graph, program.fetches, program.variables,
                                         programs.python_step)
        target = self.targets(way)
        with tf.Session(target, graph=program.graph, config=way.config()) as session:
            session.run(program.init)
            for _ in range(2):
                values = program.values()
                want, failed = oracle.step(dict(zip([p.op for p in program.placeholders], values)))
                self.steps += 1
                fed = dict(zip(program.placeholders, values))
                self.compare(program, session, fed, want, failed)
                if failed:              # what else ran before it failed is anybody's guess
                    self.failing += 1
                    break

    def compare_error(self, program, error, failed, dead):
        super().compare_error(program, error, failed, dead)
        if error.op is None or error.op.name not in failed:
            return
        self.errors += 1
        kind = ERRORS.get(error.op.type.removeprefix("fuzz."))
        if kind is None or not isinstance(error, kind):
            raise graphs.Difference(f"a {type(error).__name__} of {error.op.type}: {error}")
        if failures.place(error.op) not in str(error):
            raise graphs.Difference(f"the line is missing: {error}")
        if error.op.device not in str(error):
            raise graphs.Difference(f"the task {error.op.device} is missing: {error}")


def here(folder, n):
    """(Fuzz, what ends it) with n servers in this process."""
    workers, ps = tf.test.create_local_cluster(n - 1, 1)
    servers = workers + ps

    def target(way):
        address = servers[way.master].target
        return address.replace("localhost", "127.0.0.1") if way.over_grpc else address
    tasks = [s._worker.name for s in servers]

    def end():
        for server in servers:
            server.stop()
    return Fuzz(folder, tasks, target), end, servers


def apart(folder, n, delay, link):
    """The same with a process per server but the first, and proxies between them if they delay:
    what goes over gRPC goes through them."""
    import plugins_of_fuzz
    plugins_of_fuzz.build(folder, "libfuzz_kernels.so")
    setup = f"tf.load_op_library({str(folder)!r} + '/libfuzz_kernels.so')"
    links = {"grpc": []}.get(link, [link]) if link else [] if delay else None
    cluster = processes.Cluster({"worker": n - 1, "ps": 1}, ("worker", 0), delay is not None,
                                delay or (0, 0), setup, links=links)
    tasks = [f"/job:{job}/replica:0/task:{k}" for job, k in cluster.tasks]

    def target(way):
        job, k = cluster.tasks[way.master]
        return cluster.target(job, k) if way.master else cluster.server.target
    found = Fuzz(folder, tasks, target, tasks[0])
    if delay:                           # a loop on three tasks may wait for thousands of messages
        found.timeout_ms += round(delay[1] * 3e6)
    return found, lambda: cluster.__exit__(), [cluster.server]


class Runs:
    """Seeds, on several threads."""

    def __init__(self, fuzz, count, minutes, seed):
        self.fuzz, self.count, self.first, self.next = fuzz, count, seed, seed
        self.begun = time.perf_counter()
        self.end = self.begun + 60 * minutes if minutes else float("inf")
        self.minutes, self.wrong, self._lock = minutes, [], threading.Lock()

    def work(self):
        while True:
            with self._lock:
                done = self.next - self.first
                if time.perf_counter() > self.end or (not self.minutes and done >= self.count):
                    return
                seed, self.next = self.next, self.next + 1
                if done and done % 500 == 0:
                    print(self, flush=True)
            try:
                self.fuzz.check_seed(seed)
            except Exception as error:
                self.wrong.append(seed)
                print(f"seed {seed}: {type(error).__name__}: {str(error)[:600]}", flush=True)
                if not isinstance(error, (AssertionError, tf.errors.OpError)):
                    traceback.print_exc(limit=-6)

    def run(self, jobs):
        threads = [threading.Thread(target=self.work) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def __repr__(self):
        n, seconds = self.next - self.first, time.perf_counter() - self.begun
        return (f"{n} graphs (seeds {self.first}..{self.next - 1}), {self.fuzz.steps} steps, "
                f"{self.fuzz.failing} with errors expected, {self.fuzz.errors} of them compared by "
                f"code, task and line, {seconds:.0f} s: "
                + (f"{len(self.wrong)} DIFFERENT: {self.wrong[:50]}" if self.wrong else
                   "no difference"))


def left(servers):
    """What is open on the servers of this process, once their sessions are closed."""
    until = time.monotonic() + 2
    while True:
        found = {s._worker.name: (s._worker.task.counts(), s._worker.sessions()) for s in servers}
        if all(not c["open"] and not c["early"] and not n for c, n in found.values()):
            return None
        if time.monotonic() > until:
            return found
        time.sleep(0.05)


def ways(servers):
    """Which kinds of way lead from the servers of this process to others."""
    return sorted({kind for s in servers for _, kind, _ in s._worker.routes.table()})


def main(folder, tasks, count, minutes, seed, one, apart_, delay, jobs, link):
    apart_ = apart_ or link is not None
    fuzz, end, servers = apart(folder, tasks, delay, link) if apart_ else here(folder, tasks)
    try:
        if one is not None:
            print(Way(random.Random(~one), fuzz.tasks))
            fuzz.check_seed(one)
            print("equal")
            return 0
        runs = Runs(fuzz, count, minutes, seed)
        runs.run(jobs)
        print(f"{runs}; ways: {', '.join(ways(servers))}")
        open_ = left(servers)
        if open_:
            print(f"LEFT OPEN: {open_}")
        return 1 if runs.wrong or open_ else 0
    finally:
        end()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--minutes", type=float, help="instead of a count")
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--replay", dest="one", type=int, metavar="SEED")
    parser.add_argument("--processes", dest="apart_", action="store_true")
    parser.add_argument("--link", help="between the processes: unix, tcp or grpc; the best there is "
                        "by default, grpc where they delay")
    parser.add_argument("--delay", nargs=2, type=float, metavar="SECONDS",
                        help="of proxies between the processes")
    parser.add_argument("--jobs", type=int, default=1, help="graphs at once")
    options = vars(parser.parse_args())
    logging.getLogger("pyflow").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as made:
        status = main(made, **options)
    sys.stdout.flush()
    os._exit(status)
