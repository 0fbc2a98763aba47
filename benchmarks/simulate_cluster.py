"""A discrete-event model of null steps (null_steps.py), fitted on 1 and 2 workers.

    python benchmarks/simulate_cluster.py --fit benchmarks/results/null-steps.json \\
        --json benchmarks/results/cluster-model.json         # fits, and predicts 4 workers
    python benchmarks/simulate_cluster.py --check            # the prediction beside the measurement
    python benchmarks/simulate_cluster.py --draw docs/images/cluster-steps.svg   # 1 to 1,000 workers

A step is a request: work at its worker, a way, work at each parameter server, a way back, work at
its worker.  What works has to get a core of its machine, what travels in the large picture also a
network card, first come, first served.

Fitted for each row, on the measurement of one worker: the work of a worker and of a server (their
processor time), and the waiting (the rest of the step; where processor time is more than the step
is long, some of it is beside the step and is work that nobody waits for).  On that of two workers:
how much longer work takes while another core of the machine is busy, too ("contention": memory
bandwidth, caches; below 1, polling that gives way to work).  Nothing else: what 4 workers take is
predicted.  docs/cluster-model.md has the assumptions of the large picture.
"""
import argparse
import collections
import dataclasses
import heapq
import itertools
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import loglog  # noqa: E402

MODEL, MEASURED = HERE / "results/cluster-model.json", HERE / "results/null-steps.json"
ROWS = ("scalar", "dense", "sparse 64K", "sparse 1M")
BYTES = {"scalar": 4, "dense": 100e6, "sparse 64K": 32 * 256 * 4, "sparse 1M": 32 * 256 * 4}
STEPS, WITHIN = 60, 0.35         # of each worker; of what was measured


# ---------------------------------------------------------------- events

class Clock:
    """What happens at which time, in order."""

    def __init__(self):
        self.now, self._events, self._numbers = 0.0, [], itertools.count()

    def after(self, seconds, call):
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), call))

    def run(self, is_over=lambda: False):
        while self._events and not is_over():
            self.now, _, call = heapq.heappop(self._events)
            call()


class Resource:
    """Cores of a machine, or a network card: who asks gets one, first come, first served."""

    def __init__(self, clock, count, contention=1.0):
        self._clock, self._free, self._count = clock, count, count
        self._contention, self._waiting = contention, collections.deque()

    def use(self, seconds, call):
        """call() once so much work was done."""
        self._waiting.append((seconds, call))
        self._begin()

    def _begin(self):
        while self._free and self._waiting:
            seconds, call = self._waiting.popleft()
            self._free -= 1
            busy = self._free < self._count - 1             # another core is, too
            self._clock.after(seconds * (self._contention if busy else 1.0),
                              lambda call=call: self._end(call))

    def _end(self, call):
        self._free += 1
        self._begin()
        call()


@dataclasses.dataclass
class Row:
    """A step's seconds: worker and server, of work; wait, on the way; beside, of work of the worker
    that the step does not wait for.  contention: a factor."""

    worker: float
    server: float
    wait: float
    beside: float = 0.0
    contention: float = 1.0


# ---------------------------------------------------------------- one machine

def on_one_machine(row, workers, cores):
    """The mean step of so many workers and a parameter server that share a machine."""
    clock, ends = Clock(), []
    machine = Resource(clock, cores, row.contention)

    def begin():
        machine.use(row.worker / 2, lambda: clock.after(row.wait / 2, serve))

    def serve():
        machine.use(row.server, lambda: clock.after(row.wait / 2, answer))

    def answer():
        machine.use(row.worker / 2, end)

    def end():
        ends.append(clock.now)
        if row.beside:
            machine.use(row.beside, lambda: None)
        begin()
    for k in range(workers):
        clock.after(1e-9 * k, begin)
    clock.run(lambda: len(ends) >= STEPS * workers)
    first = STEPS // 3 * workers - 1            # from there on it is steady
    return (ends[-1] - ends[first]) / (len(ends) - 1 - first) * workers


def fitted(one, two, cores):
    """The Row of measurements [seconds, worker's, server's processor time] of 1 and 2 workers."""
    seconds, worker, server = one
    used = min(1.0, seconds / (worker + server))
    row = Row(worker * used, server * used, max(0.0, seconds - worker - server),
              (worker + server) * (1 - used))
    low, high = 0.1, 10.0
    for _ in range(40):                     # the step grows with contention
        row.contention = (low * high) ** 0.5
        if on_one_machine(row, 2, cores) < two[0]:
            low = row.contention
        else:
            high = row.contention
    return row


def fit(measured):
    """{"row library": Row} and {"row 4 library": seconds}."""
    steps, cores = measured["steps"], measured["cores"]
    rows, predicted = {}, {}
    for name in ROWS:
        for library in ("pyflow", "tf"):
            one, two = (steps.get(f"{name} {n} {library}") for n in (1, 2))
            if one and two:
                rows[f"{name} {library}"] = row = fitted(one, two, cores)
                predicted[f"{name} 4 {library}"] = on_one_machine(row, 4, cores)
    return rows, predicted


def compared(predicted, measured):
    """[(row, predicted, measured, predicted / measured)]"""
    found = {key: measured["steps"][key][0] for key in predicted if key in measured["steps"]}
    return [(key, predicted[key], seconds, predicted[key] / seconds)
            for key, seconds in found.items()]


def mean_ratio(found):
    """The geometric mean of `compared`'s ratios of pyflow's rows."""
    return statistics.geometric_mean(ratio for key, *_, ratio in found if key.endswith("pyflow"))


# ---------------------------------------------------------------- many machines

@dataclasses.dataclass
class Network:
    """What the large picture assumes of a cluster beyond what was measured on one machine."""

    servers: int = 16               # parameter servers, a machine each, as in the paper
    cores: int = 2                  # of each machine
    card: float = 1.25e9            # bytes a second each way of a machine's network card (10 Gbit)
    latency: float = 50e-6          # seconds from card to card
    stack: float = 25e-6            # seconds of a core that a message takes at either end, over TCP


def synchronous_step(row, nbytes, workers, network, steps=3):
    """Seconds of a step that ends when all workers have had the model and given their update."""
    clock, ended = Clock(), []
    servers = [(Resource(clock, network.cores, row.contention), Resource(clock, 1),
                Resource(clock, 1)) for _ in range(network.servers)]
    part = nbytes / network.servers / network.card
    work = max(row.server / network.servers, 2 * network.stack)
    left = [0]

    def begin():
        left[0] = workers
        start = clock.now
        for _ in range(workers):
            _Fetch(clock, servers, row, network, part, work, lambda: gone(start))

    def gone(start):
        left[0] -= 1
        if not left[0]:
            ended.append(clock.now - start)
            if len(ended) < steps:
                begin()
    begin()
    clock.run()
    return statistics.median(ended)


class _Fetch:
    """A worker's step: a part of the model from each server, then a part of the update to each."""

    def __init__(self, clock, servers, row, network, part, work, over):
        self.clock, self.network, self.part, self.row = clock, network, part, row
        self.work, self.over, self.servers = work, over, servers
        self.cores = Resource(clock, network.cores, row.contention)
        self.into, self.out = Resource(clock, 1), Resource(clock, 1)
        self.left = len(servers)
        self.cores.use(row.worker / 2, self.ask)

    def ask(self):
        for server in self.servers:
            self.cores.use(self.network.stack, lambda server=server: self.clock.after(
                self.network.latency, lambda: self.served(server)))

    def served(self, server):
        cores, out, _ = server
        cores.use(self.work, lambda: out.use(self.part, lambda: self.clock.after(
            self.network.latency, lambda: self.into.use(self.part, self.came))))

    def came(self):
        self.cores.use(self.network.stack, self.has_part)

    def has_part(self):
        self.left -= 1
        if not self.left:                           # the model is there: its update goes back
            self.left = len(self.servers)
            self.cores.use(self.row.worker / 2, self.push)

    def push(self):
        for server in self.servers:
            self.cores.use(self.network.stack, lambda server=server: self.out.use(
                self.part, lambda: self.clock.after(self.network.latency,
                                                    lambda: self.pushed(server))))

    def pushed(self, server):
        cores, _, into = server
        into.use(self.part, lambda: cores.use(self.work, lambda: self.clock.after(
            self.network.latency, self.applied)))

    def applied(self):
        self.left -= 1
        if not self.left:
            self.over()


# Abadi et al., "TensorFlow: a system for large-scale machine learning" (OSDI 2016), section 6.2 and
# figure 7: median synchronous null steps with 16 parameter servers, from the text.
PAPER = {"scalar": {1: 1.8e-3, 100: 8.8e-3}, "dense 100 MB": {1: 0.147, 100: 0.613},
         "sparse, from": {1: 5e-3}, "sparse, to": {100: 20e-3}}
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def drawing(rows):
    """The SVG of 1 to 1,000 workers beside the paper's points."""
    network, chart = Network(), loglog.Chart("workers", "seconds a step", (1, 1000), (1e-4, 10))
    for name, label in (("dense", "dense 100 MB"), ("sparse 1M", "sparse, of 1 GB"),
                        ("scalar", "scalar")):
        row = rows[f"{name} pyflow"]
        chart.line(label, [(n, synchronous_step(row, BYTES[name], n, network)) for n in COUNTS])
    for label, points in PAPER.items():
        chart.points(f"OSDI'16: {label}", sorted(points.items()))
    return chart.svg()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fit", metavar="MEASURED")
    parser.add_argument("--json", default=str(MODEL))
    parser.add_argument("--check", metavar="MEASURED", nargs="?", const=str(MEASURED))
    parser.add_argument("--draw", metavar="SVG")
    args = parser.parse_args()
    if args.fit:
        import resultfile
        measured = json.loads(pathlib.Path(args.fit).read_text())
        rows, predicted = fit(measured)
        resultfile.write(args.json, {"rows": {k: dataclasses.asdict(v) for k, v in rows.items()},
                                     "predicted": predicted})
    model = json.loads(pathlib.Path(args.json).read_text())
    for key, seconds in model["predicted"].items():
        print(f"{key:22} predicted {1e6 * seconds:9.0f} us")
    if args.draw:
        rows = {key: Row(**fields) for key, fields in model["rows"].items()}
        pathlib.Path(args.draw).write_text(drawing(rows), encoding="utf-8")
    if not args.check:
        return 0
    found = compared(model["predicted"], json.loads(pathlib.Path(args.check).read_text()))
    for key, predicted, seconds, ratio in found:
        print(f"{key:22} measured  {1e6 * seconds:9.0f} us, predicted {ratio:.2f} of it")
    mean = mean_ratio(found)
    print(f"geometric mean of ours {mean:.2f}")
    return 0 if abs(mean - 1) <= WITHIN else 1


if __name__ == "__main__":
    sys.exit(main())
