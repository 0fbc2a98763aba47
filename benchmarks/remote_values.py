"""Feeds and fetches of a session at another process: pyflow beside TensorFlow, over two servers.

    python benchmarks/remote_values.py --tf .venv-tf/bin/python [--rounds 5] [--json rows.json]

Each library has three processes: two servers and a client, which is none; all stay alive and are
asked in turn, round by round.  Rows, seconds per step, medians of the rounds' medians:

    fetch two   100 MB that worker 0, the session's master, makes of a variable of worker 1
    fetch own   100 MB of a variable of worker 0
    feed two    500 MB that worker 1 reads a little of
    feed own    500 MB that worker 0 reads a little of
    null        a step with one node, on worker 0
    null two    a number is read on worker 1 and added to on worker 0

grpc: pyflow without links, as between servers with certificates.  A ratio below 1 says that pyflow
took less time.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from distributed import free_ports, library  # noqa: E402 - beside this file

ROWS = {"fetch two": 3, "fetch own": 3, "feed two": 1, "feed own": 1, "null": 300, "null two": 200}
LIBRARIES = ("pyflow", "grpc")


def serve(name, cluster, index):
    """A server, until killed."""
    library(name).train.Server(cluster, job_name="worker", task_index=index)
    print("up", flush=True)
    time.sleep(1e6)


def step_of(tf, row):
    """(graph, fetch, tensor that is fed or None, initialisers)."""
    graph, fed = tf.Graph(), None
    with graph.as_default():
        here, there = (tf.device(f"/job:worker/task:{k}") for k in (0, 1))
        if row.startswith("fetch"):
            with there if row == "fetch two" else here:
                large = tf.Variable(tf.ones([25, 1000, 1000]), name=row.replace(" ", "_"),
                                    use_resource=False)
            with tf.device("/job:worker/task:0"):
                fetch = large + 1.0 if row == "fetch two" else large
        elif row.startswith("feed"):
            fed = tf.placeholder(tf.float32, [125_000_000])
            with there if row == "feed two" else here:
                little = fed[5] + fed[7]
            with tf.device("/job:worker/task:0"):
                fetch = little + 1.0
        elif row == "null":
            with here:
                fetch = tf.no_op()
        else:
            with there:
                number = tf.Variable(1.0, name="number", use_resource=False) + 1.0
            with here:
                fetch = (number + 1.0).op
        return graph, fetch, fed, tf.global_variables_initializer()


def client(name, cluster):
    """Answers each line "row turns" with seconds per step."""
    import numpy as np
    tf, value, steps = library(name), np.ones(125_000_000, np.float32), {}
    for row in ROWS:
        graph, fetch, fed, init = step_of(tf, row)
        session = tf.Session(f"grpc://{cluster['worker'][0]}", graph=graph)
        session.run(init)
        steps[row] = session, fetch, {} if fed is None else {fed: value}
        session.run(fetch, steps[row][2])
    print("up", flush=True)
    for line in sys.stdin:
        row, turns = line.rstrip("\n").rsplit(" ", 1)
        session, fetch, feeds = steps[row]
        times = []
        for _ in range(int(turns)):
            start = time.perf_counter()
            result = session.run(fetch, feeds)
            times.append(time.perf_counter() - start)
            del result
        print(json.dumps(statistics.median(times)), flush=True)


class Library:
    """A library's three processes."""

    def __init__(self, name, python):
        cluster = json.dumps({"worker": [f"localhost:{port}" for port in free_ports(2)]})
        self.processes = [start(python, "serve", name, cluster, str(k)) for k in (0, 1)]
        for process in self.processes:
            process.stdout.readline()
        self.client = start(python, "client", name, cluster)
        self.processes.append(self.client)
        self.client.stdout.readline()

    def time(self, row, turns):
        print(row, turns, file=self.client.stdin, flush=True)
        return json.loads(self.client.stdout.readline())

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


def start(python, *role):
    return subprocess.Popen([python, __file__, "--role", *role], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def measure(args):
    libraries, times = {}, {}
    try:
        for name in LIBRARIES + ("tf",) * bool(args.tf):
            libraries[name] = Library(name, args.tf if name == "tf" else sys.executable)
        for _ in range(args.rounds):
            for row, turns in ROWS.items():
                for name, one in libraries.items():
                    times.setdefault((row, name), []).append(one.time(row, turns))
    finally:
        for one in libraries.values():
            one.stop()
    return {f"{row} {name}": statistics.median(found) for (row, name), found in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--role", nargs="+")
    parser.add_argument("--tf")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.role:
        role, name, cluster, *index = args.role
        return {"serve": serve, "client": client}[role](name, json.loads(cluster), *map(int, index))
    found, ratios = measure(args), {}
    for row in ROWS:
        for name in LIBRARIES:
            line = f"{row:10} {name:7} {found[f'{row} {name}'] * 1e3:10.2f} ms"
            if args.tf:
                ratios[f"{row} {name}"] = found[f"{row} {name}"] / found[f"{row} tf"]
                line += (f"   TensorFlow {found[f'{row} tf'] * 1e3:10.2f} ms   "
                         f"ratio {ratios[f'{row} {name}']:.3f}")
            print(line)
    if args.json:
        import resultfile
        resultfile.write(args.json, {"seconds": found, "ratios": ratios})


if __name__ == "__main__":
    main()
