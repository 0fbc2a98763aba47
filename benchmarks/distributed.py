"""Steps over two processes of one machine: pyflow's servers beside TensorFlow's, and raw sockets.

    python benchmarks/distributed.py --tf .venv-tf/bin/python [--rounds 5] [--json rows.json]

Each library has a server process ("worker 1") and a client process, which hosts "worker 0"; both
libraries' stay alive and are asked in turn, round by round.  Rows, seconds per step, medians of the
rounds' medians:

    null        a step with one node, on worker 1; the master is in the client's process
    null-other  the same through the master of worker 1, Session("grpc://...")
    scalar      a number is read on worker 1 and added to on worker 0
    100 MB      a variable of 100 MB on worker 1 is read on worker 0
    100 x 1 MB  a hundred variables of 1 MB

A ratio below 1 says that pyflow took less time.  grpc: pyflow without links, as between servers with
certificates, beside TensorFlow's.  echo: 64 bytes there and back over a loopback socket between two
Python processes; grpcio: what a number's step sends, there and back over a bare stream of grpcio's;
copy: 100 MB by memcpy.
"""
import argparse
import json
import math
import pathlib
import socket
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
ROWS = {"null": 300, "null-other": 300, "scalar": 300, "100 MB": 5, "100 x 1 MB": 5}
OVER_GRPC = ("null", "scalar", "100 MB", "100 x 1 MB")
MESSAGE = b"x" * 180                    # about what a step of `scalar` sends, each way


def tensorflow():
    import os
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    return tf


def library(name):
    if name == "tf":
        return tensorflow()
    if name == "grpc":
        import os
        os.environ["PYFLOW_LINKS"] = "none"
    import pyflow
    return pyflow


# ---------------------------------------------------------------- the processes of a library

def serve(name, cluster):
    """Worker 1, until killed."""
    tf = library(name)
    tf.train.Server(cluster, job_name="worker", task_index=1)
    print("up", flush=True)
    time.sleep(1e6)


def graph_of(tf, row):
    """(graph, fetch, its initialisers)."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:worker/task:1"):
            if row.startswith("null"):
                fetch = tf.no_op()
            elif row == "scalar":
                v = tf.Variable(1.0, name="number", use_resource=False)
            elif row == "100 MB":
                v = tf.Variable(tf.ones([25, 1000, 1000]), name="large", use_resource=False)
            else:
                vs = [tf.Variable(tf.ones([250, 1000]), name=f"part{i}", use_resource=False)
                      for i in range(100)]
        with tf.device("/job:worker/task:0"):
            if row == "scalar":
                fetch = (v + 1.0).op
            elif row == "100 MB":
                fetch = v[0, 0, 0].op               # on worker 0: all of v travels
            elif row == "100 x 1 MB":
                fetch = tf.add_n([part[0, 0] for part in vs]).op
        init = tf.global_variables_initializer()
    return graph, fetch, init


def client(name, cluster):
    """Answers each line "row turns" with seconds per step."""
    tf = library(name)
    server = tf.train.Server(cluster, job_name="worker", task_index=0)
    sessions = {}
    for row in OVER_GRPC if name == "grpc" else ROWS:
        graph, fetch, init = graph_of(tf, row)
        target = f"grpc://{cluster['worker'][1]}" if row == "null-other" else server.target
        session = tf.Session(target, graph=graph)
        session.run(init)
        session.run(fetch)
        sessions[row] = session, fetch
    print("up", flush=True)
    for line in sys.stdin:
        row, turns = line.rstrip("\n").rsplit(" ", 1)
        session, fetch = sessions[row]
        times = []
        for _ in range(int(turns)):
            start = time.perf_counter()
            session.run(fetch)
            times.append(time.perf_counter() - start)
        print(json.dumps(statistics.median(times)), flush=True)


# ---------------------------------------------------------------- what it is measured beside

def echo_server():
    """Sends back what it gets."""
    listener = socket.create_server(("localhost", 0))
    print(listener.getsockname()[1], flush=True)
    peer, _ = listener.accept()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := peer.recv(1 << 16):
        peer.sendall(data)


def grpcio_server():
    """Sends back what comes on a stream."""
    import concurrent.futures

    import grpc
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", {
        "Stream": grpc.stream_stream_rpc_method_handler(lambda requests, context: requests)}),))
    print(server.add_insecure_port("localhost:0"), flush=True)
    server.start()
    time.sleep(1e6)


class Floor:
    """Raw sockets, a bare stream of grpcio's, and memcpy."""

    def __init__(self):
        import numpy as np
        self.process = start("echo")
        self.socket = socket.create_connection(("localhost", int(self.process.stdout.readline())))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.grpcio = start("grpcio")
        import queue

        import grpc
        port, self.requests = int(self.grpcio.stdout.readline()), queue.SimpleQueue()
        self.channel = grpc.insecure_channel(f"localhost:{port}")
        self.answers = self.channel.stream_stream("/echo/Stream")(iter(self.requests.get, None))
        self.source, self.target = np.ones(25_000_000, np.float32), np.zeros(25_000_000, np.float32)

    def echo(self, turns=300):
        times = []
        for _ in range(turns):
            begin = time.perf_counter()
            self.socket.sendall(b"x" * 64)
            self.socket.recv(64)
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    def stream(self, turns=300):
        times = []
        for _ in range(turns):
            begin = time.perf_counter()
            self.requests.put(MESSAGE)
            next(self.answers)
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    def stop(self):
        self.requests.put(None)
        self.channel.close()
        for process in (self.process, self.grpcio):
            process.kill()
            process.wait()

    def copy(self, turns=5):
        times = []
        for _ in range(turns):
            begin = time.perf_counter()
            self.target[:] = self.source
            times.append(time.perf_counter() - begin)
        return statistics.median(times)


def start(role, *args, python=sys.executable):
    return subprocess.Popen([python, "-P", __file__, "--role", role, *args], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def free_ports(n):
    held = [socket.create_server(("localhost", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


class Library:
    """A library's two processes."""

    def __init__(self, name, python):
        cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
        self.server = start("serve", name, json.dumps(cluster), python=python)
        self.server.stdout.readline()
        self.client = start("client", name, json.dumps(cluster), python=python)
        self.client.stdout.readline()

    def time(self, row, turns):
        print(row, turns, file=self.client.stdin, flush=True)
        return json.loads(self.client.stdout.readline())

    def stop(self):
        for process in (self.client, self.server):
            process.kill()
            process.wait()


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def measure(args):
    libraries = {"pyflow": Library("pyflow", sys.executable),
                 "grpc": Library("grpc", sys.executable)}
    if args.tf:
        libraries["tf"] = Library("tf", args.tf)
    floor, times = Floor(), {}
    for _ in range(args.rounds):
        for row, turns in ROWS.items():
            for name, found in libraries.items():
                if name == "grpc" and row not in OVER_GRPC:
                    continue
                times.setdefault((row, name), []).append(found.time(row, turns))
        times.setdefault(("echo", "raw"), []).append(floor.echo())
        times.setdefault(("grpcio", "raw"), []).append(floor.stream())
        times.setdefault(("copy", "raw"), []).append(floor.copy())
    for found in libraries.values():
        found.stop()
    floor.stop()
    return {f"{row} {name}": statistics.median(values) for (row, name), values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--role", nargs="+")
    parser.add_argument("--tf")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    args, rest = parser.parse_known_args()
    if args.role:
        role, *arguments = args.role
        if role in ("echo", "grpcio"):
            return {"echo": echo_server, "grpcio": grpcio_server}[role]()
        return {"serve": serve, "client": client}[role](arguments[0], json.loads(arguments[1]))
    found = measure(args)
    ratios = {}
    for row in ROWS:
        ours, theirs = found[f"{row} pyflow"], found.get(f"{row} tf")
        line = f"{row:11} pyflow {ours * 1e6:10.0f} us"
        if theirs:
            ratios[row] = ours / theirs
            line += f"   TensorFlow {theirs * 1e6:10.0f} us   ratio {ratios[row]:.3f}"
        print(line)
    for row in OVER_GRPC:
        ours, theirs = found[f"{row} grpc"], found.get(f"{row} tf")
        line = f"{row:11} grpc   {ours * 1e6:10.0f} us"
        if theirs:
            ratios[f"{row} grpc"] = ours / theirs
            line += f"   TensorFlow {theirs * 1e6:10.0f} us   ratio {ours / theirs:.3f}"
        print(line)
    for row in ("null", "scalar"):
        ratios[f"{row} grpc of grpcio"] = found[f"{row} grpc"] / found["grpcio raw"]
    print(f"echo {found['echo raw'] * 1e6:.0f} us   copy of 100 MB {found['copy raw'] * 1e6:.0f} us   "
          f"grpcio's stream {found['grpcio raw'] * 1e6:.0f} us: a null step over gRPC "
          f"{ratios['null grpc of grpcio']:.2f} of it, a number {ratios['scalar grpc of grpcio']:.2f}")
    if args.tf:
        small = geometric_mean([ratios[r] for r in ("null", "null-other", "scalar")])
        large = geometric_mean([ratios[r] for r in ("100 MB", "100 x 1 MB")])
        print(f"geometric mean of the three small rows {small:.3f}, of the large {large:.3f}")
    if args.json:
        import resultfile
        resultfile.write(args.json, {"seconds": found, "ratios": ratios})


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main()
