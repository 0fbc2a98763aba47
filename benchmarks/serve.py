"""`python -m pyflow serve` beside the same server with an empty handler: throughput and latency.

    PYTHONSAFEPATH=1 .venv/bin/python benchmarks/serve.py --json benchmarks/results/serve.json

Three servers stay alive and are asked in turn, each for a second a round: uvicorn with the same
settings around an application that reads the body and answers bytes of the same length; pyflow,
each request alone; and pyflow with batches of at most 32 rows.  The client is one process with
1 or 16 connections kept alive, each of which asks again when it is answered; it shares the
machine, so read ratios.  The median of the rounds counts.  cpu_us is what the server's process
itself took for a request, which other work on the machine changes little.

    half     y = x / 2 + b of 3 numbers: what a request costs
    mlp      784-256-10 of one row: JSON of 784 numbers
    mlp32    32 rows: JSON of 25,088 numbers
"""
import argparse
import contextlib
import json
import os
import pathlib
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import resultfile

SECONDS = 1.0
BATCH = ["--max-batch", "32"]


# ---------------------------------------------------------------- servers
def write_models(folder):
    import pyflow as tf
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None])
        y = x * 0.5 + tf.Variable(2.0)
        sess.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(sess, f"{folder}/half", {"x": x}, {"y": y})
    with tf.Graph().as_default(), tf.Session() as sess:
        x, hidden = tf.placeholder(tf.float32, [None, 784]), None
        w = [tf.Variable(tf.random_normal(s, stddev=0.05, seed=k))
             for k, s in enumerate(([784, 256], [256, 10]))]
        hidden = tf.nn.relu(tf.matmul(x, w[0]))
        sess.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(sess, f"{folder}/mlp", {"x": x},
                                   {"y": tf.nn.softmax(tf.matmul(hidden, w[1]))})


def empty(port):
    """The same server; its application reads the body and answers as many zeros as the header
    x-answer says."""
    from pyflow.serving import server

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": message["type"] + ".complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        while (await receive()).get("more_body"):
            pass
        size = dict(scope["headers"])[b"x-answer"]
        await send({"type": "http.response.start", "status": 200, "headers": [
            (b"content-type", b"application/json"), (b"content-length", size)]})
        await send({"type": "http.response.body", "body": b"0" * int(size)})
    with server.bound("127.0.0.1", port) as sock:
        sock.listen(2048)
        print(f"http://127.0.0.1:{sock.getsockname()[1]}/", flush=True)
        server.serve(app, sock)


@contextlib.contextmanager
def started(*command):
    """(port, process id) of a server."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.DEVNULL)
    try:
        yield int(process.stdout.readline().split(":")[2].split("/")[0]), process.pid
    finally:
        process.terminate()
        process.wait()


# ---------------------------------------------------------------- the client
def requests_of(rng):
    """{name: (model, body)}."""
    def rows(count):
        return json.dumps({"instances": rng.random((count, 784)).round(4).tolist()}).encode()
    return {"half": ("half", b'{"instances": [1.0, 2.0, 5.0]}'), "mlp": ("mlp", rows(1)),
            "mlp32": ("mlp", rows(32))}


def load(port, request, connections, seconds):
    """(requests, requests a second, median ms, length of an answer) of one measurement."""
    waiting, began, took = selectors.DefaultSelector(), {}, []
    for _ in range(connections):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting.register(sock, selectors.EVENT_READ, bytearray())
        began[sock] = time.perf_counter()
        sock.sendall(request)
    start = now = time.perf_counter()
    while now < start + seconds or not took:
        for key, _ in waiting.select(1):
            length = _received(key.fileobj, key.data)
            if length is not None:
                now, answer = time.perf_counter(), length
                took.append(now - began[key.fileobj])
                began[key.fileobj] = now
                key.fileobj.sendall(request)
        now = time.perf_counter()
    for sock in began:
        sock.close()
    return len(took), len(took) / (now - start), statistics.median(took) * 1e3, answer


def _received(sock, got):
    """The body's length once an answer is whole, else None."""
    data = sock.recv(1 << 16)
    if not data:
        raise ConnectionError("the server closed a connection")
    got += data
    at = got.find(b"\r\n\r\n")
    if at < 0:
        return None
    head = bytes(got[:at]).lower()
    if b" 200 " not in head[:16]:
        raise RuntimeError(bytes(got[:400]))
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    if len(got) < at + 4 + length:
        return None
    del got[:]
    return length


def request_of(model, body, answer):
    return (b"POST /v1/models/%s:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
            b"X-Answer: %d\r\n\r\n%s" % (model.encode(), len(body), answer, body))


# ---------------------------------------------------------------- the table
def cpu_seconds(pid):
    """What a process has taken (Linux)."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(servers, rounds):
    """[row] of all requests and connections, servers asked in turn."""
    rows = []
    for name, (model, body) in requests_of(np.random.default_rng(1)).items():
        answer = load(servers["alone"][0], request_of(model, body, 0), 1, 0.3)[3]
        sent = request_of(model, body, answer)
        for connections in (1, 16):
            found = {server: [] for server in servers}
            for turn in range(rounds + 1):
                for server, (port, pid) in servers.items():
                    cpu, seconds = cpu_seconds(pid), SECONDS if turn else 0.2
                    count, rate, p50, _ = load(port, sent, connections, seconds)
                    if turn:                        # the first one warms up
                        cpu = (cpu_seconds(pid) - cpu) / count * 1e6
                        found[server].append((rate, p50, cpu))
            rows.append(_row(name, connections, found))
            print(_shown(rows[-1]), flush=True)
    return rows


def _row(name, connections, found):
    row = {"request": name, "connections": connections}
    for server, measured in found.items():
        row[server] = {"per_second": statistics.median(m[0] for m in measured),
                       "p50_ms": statistics.median(m[1] for m in measured),
                       "cpu_us": statistics.median(m[2] for m in measured)}
    for server in ("alone", "batched"):
        row[f"{server}_of_empty"] = {
            "throughput": row[server]["per_second"] / row["empty"]["per_second"],
            "p50": row[server]["p50_ms"] / row["empty"]["p50_ms"],
            "cpu": row[server]["cpu_us"] / row["empty"]["cpu_us"]}
    return row


def _shown(row):
    return (f"{row['request']:6} {row['connections']:3} connections  " + "  ".join(
        f"{s} {row[s]['per_second']:6.0f}/s {row[s]['p50_ms']:7.3f} ms {row[s]['cpu_us']:5.0f} us"
        for s in ("empty", "alone", "batched")) + "  of empty: " + ", ".join(
        f"{row[s + '_of_empty']['throughput']:.2f}" for s in ("alone", "batched")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="the file to keep the rows in")
    parser.add_argument("--empty", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.empty is not None:
        empty(args.empty)
        return
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        write_models(folder)
        models = [f"--model={name}={folder}/{name}" for name in ("half", "mlp")]
        serve = ["-P", "-m", "pyflow", "serve", "--port", "0", "--poll", "0", *models]
        servers = {"empty": stack.enter_context(started(__file__, "--empty", "0")),
                   "alone": stack.enter_context(started(*serve)),
                   "batched": stack.enter_context(started(*serve, *BATCH))}
        rows = measure(servers, args.rounds)
    if args.json:
        import importlib.metadata as packages
        versions = {name: packages.version(name) for name in ("uvicorn", "httptools", "orjson")}
        pathlib.Path(args.json).parent.mkdir(exist_ok=True)
        resultfile.write(args.json, {"machine": {"cpus": os.cpu_count(), "load": os.getloadavg()},
                                     "packages": versions, "seconds": SECONDS,
                                     "rounds": args.rounds, "rows": rows})


if __name__ == "__main__":
    main()
