"""Steps and tensors over the links of core/net beside raw sockets and memcpy, in one run, round by round.

    python benchmarks/distributed_net.py [--rounds 5] [--json results/distributed-net.json]

Two processes of this machine per row; the other end of a raw row is echo.c, answered in C by the
thread that read.  Seconds: medians over the rounds, of the median and the 99th percentile of each.

    null        a step of a plan with nothing to do: RUN there, DONE back; the asker is Python's
    echo        64 bytes there and back over the same kind of socket, C at both ends
    held        as null, while the Python of the worker holds the GIL
    100 MB      of one step, from the memory of a plan there to the rendezvous here, where one waits
    stream      100 MB over the same kind of socket, C at both ends
    memcpy      100 MB within a process

Page faults: minor ones of both processes in 50 transfers of 100 MB each, once everything is there.
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
KINDS = ("unix", "tcp")
NULL, HUGE = 1, 2
BYTES = 100_000_000
STEPS, TRANSFERS, HELD, FAULTS = 2000, 6, 3.0, 50


# ---------------------------------------------------------------- the worker's process
def serve(kind, master):
    import ctypes

    import numpy as np

    import pyflow as tf
    from pyflow import _executor
    net = _executor.Net(_executor.Task("/job:worker/replica:0/task:1"))
    with tf.Session() as session:
        step, _ = session._step_for(tf.no_op(), {})
        net.serve(NULL, step.compiled.plan)
        print(net.listen(kind), net.incarnation, flush=True)
        value, number = np.ones(BYTES // 4, np.float32), 0
        kept = _executor.Kept.of(value, 1)
        for line in sys.stdin:
            if line.startswith("hold"):
                ctypes.PyDLL(None).usleep(int(float(line.split()[1]) * 1e6))
            elif line.startswith("faults"):
                print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt, flush=True)
            elif line.startswith("send"):
                number += 1
                net.put(master, 9, number, b"key", kept, 1)


# ---------------------------------------------------------------- the asker's
class Worker:
    def __init__(self, kind):
        from pyflow import _executor
        self.name = "/job:worker/replica:0/task:1"
        self.net = _executor.Net(_executor.Task(f"/job:master-{kind}/replica:0/task:0"))
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, "--serve", kind, "--master", self.net.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        address, incarnation = self.process.stdout.readline().split()
        self.net.connect(self.name, int(incarnation), kind, address)
        self.steps, self.sent = 0, 0

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def null(self, count):
        times = []
        for _ in range(count):
            self.steps += 1
            begun = time.perf_counter()
            self.net.run(self.name, NULL, 7, self.steps).result()
            times.append(time.perf_counter() - begun)
            self.net.clean(self.name, 7, self.steps, soon=True)
        return times

    def held(self):
        """Steps while the worker's Python holds the GIL."""
        self.tell(f"hold {HELD}")
        time.sleep(0.2)
        end, times = time.monotonic() + HELD - 0.5, []
        while time.monotonic() < end:
            times += self.null(50)
        time.sleep(0.5)
        return times

    def transfer(self):
        """100 MB from the worker, until who waits for them has them."""
        self.sent += 1
        there, got = threading.Event(), []

        def arrived(code, value):
            got.append(value)
            there.set()

        self.net.task.take(9, self.sent, b"key", arrived)
        begun = time.perf_counter()
        self.tell("send")
        there.wait()
        taken = time.perf_counter() - begun
        assert got[0].nbytes == BYTES and got[0][0] == got[0][-1] == 1
        self.net.task.clean(9, self.sent)
        return taken

    def faults(self):
        """(here, there) in FAULTS transfers."""
        def count():
            self.tell("faults")
            return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt,
                    int(self.process.stdout.readline()))
        before = count()
        for _ in range(FAULTS):
            self.transfer()
        return [after - n for n, after in zip(before, count())]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.net.close()


class Raw:
    def __init__(self, kind, program, number):
        self.command, self.kind = program, kind
        self.address = f"pyflow-echo-{number}" if kind == "unix" else str(40000 + number % 9000)
        self.process = subprocess.Popen([program, "serve", kind, self.address])

    def run(self, what, *more):
        done = subprocess.run([self.command, what, self.kind, self.address, *map(str, more)],
                              capture_output=True, text=True, check=True)
        return [int(x) / 1e9 for x in done.stdout.split()]

    def close(self):
        self.process.kill()
        self.process.wait()


def memcpy():
    import numpy as np
    a, b = np.ones(BYTES // 4, np.float32), np.ones(BYTES // 4, np.float32)
    times = []
    for _ in range(TRANSFERS):
        begun = time.perf_counter()
        np.copyto(a, b)
        times.append(time.perf_counter() - begun)
    return times


def percentiles(times):
    times = sorted(times)
    return times[len(times) // 2], times[len(times) * 99 // 100]


def measure(rounds):
    """{row: {kind: [(p50, p99) of a round]}}, {kind: page faults}."""
    found, faults = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        program = str(pathlib.Path(folder, "echo"))
        subprocess.run(["cc", "-O2", "-o", program, str(HERE / "echo.c")], check=True)
        number = int(time.time()) % 100000
        raw = {kind: Raw(kind, program, number) for kind in KINDS}
        workers = {kind: Worker(kind) for kind in KINDS}

        def note(row, kind, pair):
            found.setdefault(row, {}).setdefault(kind, []).append(pair)

        for kind in KINDS:                              # arenas are mapped, buffers are there
            workers[kind].null(500)
            for _ in range(3):
                workers[kind].transfer()
        for _ in range(rounds):
            note("memcpy", "memory", percentiles(memcpy()))
            for kind in KINDS:
                note("null", kind, percentiles(workers[kind].null(STEPS)))
                note("echo", kind, tuple(raw[kind].run("ask", STEPS)))
                note("100 MB", kind,
                     percentiles([workers[kind].transfer() for _ in range(TRANSFERS)]))
                note("stream", kind, percentiles(raw[kind].run("take", BYTES, TRANSFERS)))
        for kind in KINDS:
            note("held", kind, percentiles(workers[kind].held()))
            faults[kind] = workers[kind].faults()
        for end in (*workers.values(), *raw.values()):
            end.close()
    return found, faults


def main(rounds, target):
    rows, (found, faults) = [], measure(rounds)
    for row, kinds in found.items():
        for kind, pairs in kinds.items():
            p50, p99 = (statistics.median(pair[k] for pair in pairs) for k in (0, 1))
            rows.append({"row": row, "kind": kind, "p50": p50, "p99": p99,
                         "rounds": [pair[0] for pair in pairs]})
            print(f"{row:8} {kind:7} p50 {p50 * 1e6:10.1f} us   p99 {p99 * 1e6:10.1f} us", flush=True)
    of = {(r["row"], r["kind"]): r["p50"] for r in rows}
    for kind in KINDS:
        print(f"{kind}: null {of['null', kind] / of['echo', kind]:.2f} of the C echo; 100 MB at "
              f"{of['memcpy', 'memory'] / of['100 MB', kind]:.2f} of memcpy's rate, "
              f"{of['stream', kind] / of['100 MB', kind]:.2f} of the raw socket's")
        print(f"{kind}: {faults[kind][0]} page faults here and {faults[kind][1]} there in "
              f"{FAULTS} transfers")
    if target:
        sys.path.insert(0, str(HERE))
        import resultfile
        resultfile.write(target, {"machine": {"cpus": os.cpu_count(), "load": os.getloadavg()},
                                  "rows": rows, "faults": faults})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--serve")
    parser.add_argument("--master")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.master)
    else:
        main(options.rounds, options.json)
