"""The null training step of the OSDI paper (figure 7), on one machine: pyflow and TensorFlow.

    python benchmarks/null_steps.py --tf .venv-tf/bin/python [--workers 1 2 4] [--json rows.json]

A parameter server and W workers, each a process; every worker fetches the model, computes next to
nothing, and begins again, all at once.  Rows:

    scalar      4 bytes of the model
    dense       all of it, 100 MB
    sparse 64K  32 rows of an embedding of 64 MB      the step's time should not depend on
    sparse 1M   32 rows of one of 1 GB                how large it is

Printed: the mean step of all workers in half a second and more of them at work, a median of rounds,
and the ratio to TensorFlow's on as many workers of the same machine, asked in turn.  (A median of
steps would hide that one worker waits while another one runs.)  --json keeps these; the
processor time that a step took of its worker and of the parameter server (simulate_cluster.py is
fitted on these three); how long their threads waited for a core meanwhile; how often the server's
were woken; how many cores other processes had, which should be none; and, for each number of
workers, the yardstick: seconds of a loop of Python, which tell whether the machine was as fast.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

import distributed  # noqa: E402

ROWS = {"scalar": 0.5, "dense": 1.5, "sparse 64K": 0.5, "sparse 1M": 0.5}      # seconds of a round
TABLES = {"sparse 64K": 1 << 16, "sparse 1M": 1 << 20}
COLUMNS, TAKEN = 256, 32


def serve(name, cluster, _):
    tf = distributed.library(name)
    server = tf.train.Server(cluster, job_name="ps", task_index=0)
    print("up", flush=True)
    time.sleep(1e6)
    del server


def model(tf):
    """{row: fetch}, the initialisers."""
    fetches = {}
    with tf.device("/job:ps/task:0"):
        scalar = tf.Variable(1.0, name="scalar", use_resource=False)
        dense = tf.Variable(tf.ones([25, 1000, 1000]), name="dense", use_resource=False)
        tables = {row: tf.Variable(tf.ones([n, COLUMNS]), name=f"table{n}", use_resource=False)
                  for row, n in TABLES.items()}
    fetches["scalar"] = (scalar + 1.0).op
    fetches["dense"] = dense[0, 0, 0].op
    for row, table in tables.items():
        rows = tf.random_uniform([TAKEN], maxval=TABLES[row], dtype=tf.int32)
        with tf.device("/job:ps/task:0"):
            taken = tf.gather(table, rows)
        fetches[row] = tf.reduce_sum(taken).op
    return fetches, tf.global_variables_initializer()


def work(name, cluster, task):
    tf = distributed.library(name)
    server = tf.train.Server(cluster, job_name="worker", task_index=task)
    with tf.device(f"/job:worker/task:{task}"):
        fetches, init = model(tf)
    session = tf.Session(server.target)
    if task == 0:
        session.run(init)
    print("up", flush=True)
    for line in sys.stdin:
        row, start, end = line.rstrip("\n").rsplit(" ", 2)
        fetch, count = fetches[row], 0
        session.run(fetch)
        time.sleep(max(0.0, float(start) - time.time()))
        began = time.time()
        while not count or time.time() < float(end):
            session.run(fetch)
            count += 1
        print(json.dumps([count, time.time() - began]), flush=True)


class Cluster:
    """A library's processes."""

    def __init__(self, name, python, workers):
        ports = distributed.free_ports(workers + 1)
        cluster = {"ps": [f"localhost:{ports[0]}"],
                   "worker": [f"localhost:{p}" for p in ports[1:]]}
        self.server = self._start(python, "serve", name, cluster, 0)
        self.workers = [self._start(python, "work", name, cluster, k) for k in range(workers)]
        for process in (self.server, *self.workers):    # TensorFlow's wait for each other
            if process.stdout.readline() != "up\n":
                raise RuntimeError(f"a process of {name} did not begin")

    @staticmethod
    def _start(python, role, name, cluster, task):
        return subprocess.Popen(
            [python, "-P", __file__, "--role", role, name, json.dumps(cluster), str(task)],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def time(self, row, seconds):
        """(seconds of a step, the mean of all workers; seconds of processor time a step takes of
        its worker, and of the parameter server; seconds that their threads wait for a core; how
        often one of the server's is woken; cores that others have)"""
        before, busy, since, start = self._used(), busy_time(), time.time(), time.time() + 0.2
        for process in self.workers:
            print(row, start, start + seconds, file=process.stdin, flush=True)
        found = [json.loads(p.stdout.readline()) for p in self.workers]
        steps = sum(count for count, _ in found) + len(found)           # and one before the start
        ours = [after - was for after, was in zip(self._used(), before)]
        others = (busy_time() - busy - ours[0] - ours[1]) / (time.time() - since)
        return (len(found) / sum(count / lasted for count, lasted in found),
                *(value / steps for value in ours), others)

    def _used(self):
        server, waits, woken = used(self.server.pid)
        workers = [used(p.pid) for p in self.workers]
        return (sum(w[0] for w in workers), server, waits + sum(w[1] for w in workers), woken)

    def stop(self):
        for process in (*self.workers, self.server):
            process.kill()
            process.wait()


def used(pid):
    """(seconds that all threads of a process have run, seconds that they waited for a core, how
    often they have gone to sleep)"""
    ran = waited = sleeps = 0
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            times = (thread / "schedstat").read_text().split()
            status = (thread / "status").read_text()
        except OSError:                         # it has ended
            continue
        ran, waited = ran + int(times[0]), waited + int(times[1])
        sleeps += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return ran / 1e9, waited / 1e9, sleeps


def yardstick():
    """Seconds of a loop of Python."""
    began = time.perf_counter()
    sum(range(2_000_000))
    return time.perf_counter() - began


def busy_time():
    """Seconds that the machine's cores have worked."""
    ticks = [int(n) for n in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(ticks[:3]) + sum(ticks[5:7])) / os.sysconf("SC_CLK_TCK")        # not idle, waiting


def measure(args, workers):
    """{"row workers library": [seconds, processor time of worker, of server, waiting for a core,
    the server's wake-ups, others' cores]}, medians of rounds; the yardstick."""
    yardsticks, clusters, found = [], {"pyflow": Cluster("pyflow", sys.executable, workers)}, {}
    if args.tf:
        clusters["tf"] = Cluster("tf", args.tf, workers)
    for turn in range(-1, args.rounds):         # the first for arenas and caches
        yardsticks.append(yardstick())
        for row, seconds in ROWS.items():
            for name, cluster in clusters.items():
                times = cluster.time(row, seconds + (turn < 0))
                if turn >= 0:
                    found.setdefault(f"{row} {workers} {name}", []).append(times)
    for cluster in clusters.values():
        cluster.stop()
    return {key: [statistics.median(column) for column in zip(*values)]
            for key, values in found.items()}, statistics.median(yardsticks)


def shown(steps, workers):
    """Lines, and {row and workers: ratio}."""
    lines, ratios = [], {}
    for row in ROWS:
        ours, theirs = (steps.get(f"{row} {workers} {name}") for name in ("pyflow", "tf"))
        line = f"{row:11} {workers} workers  pyflow {ours[0] * 1e6:9.0f} us"
        if theirs:
            ratios[f"{row} {workers}"] = ours[0] / theirs[0]
            line += f"   TensorFlow {theirs[0] * 1e6:9.0f} us   ratio {ours[0] / theirs[0]:.3f}"
        lines.append(line)
    return lines, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--role", nargs=4)
    parser.add_argument("--tf")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="a file; what it has of other numbers of workers stays")
    args = parser.parse_args()
    if args.role:
        role, name, cluster, task = args.role
        return {"serve": serve, "work": work}[role](name, json.loads(cluster), int(task))
    kept = pathlib.Path(args.json) if args.json else None
    was = json.loads(kept.read_text()) if kept and kept.exists() else {}
    steps, yardsticks, ratios = was.get("steps", {}), was.get("yardstick", {}), {}
    for workers in args.workers:
        found, yardsticks[str(workers)] = measure(args, workers)
        steps.update(found)
        lines, more = shown(steps, workers)
        print("\n".join(lines), flush=True)
        ratios.update(more)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        print(f"geometric mean {mean:.3f}")
    if kept:
        import resultfile
        resultfile.write(kept, {"cores": os.cpu_count(), "yardstick": yardsticks, "steps": steps})


if __name__ == "__main__":
    main()
