"""A discrete-event model of null steps (null_steps.py), fitted on 1 and 2 workers.

    python benchmarks/simulate_cluster.py --fit benchmarks/results/null-steps.json \\
        --json benchmarks/results/cluster-model.json         # fits, and predicts 4 workers
    python benchmarks/simulate_cluster.py --check            # the prediction beside the measurement
    python benchmarks/simulate_cluster.py --draw docs/images/cluster-steps.svg   # 1 to 1,000

A step is a request: work at its worker, a way, work at each parameter server, a way back, work at
its worker.  Each piece of work is up to VARIES longer or shorter, drawn by lot, the same each run.

On one machine a worker is a thread and a server a few, and the cores are few.  A thread that has
nothing to do LOOKS for a while before it sleeps, and keeps its core meanwhile; one that finds
something goes on at once.  One that slept has to get a core: that with the shortest queue or,
`stays` of a hundred times, its former one, as a scheduler has it that keeps threads where they
were.  So a server with more to do sleeps less, and a step takes less of its processor time; and a
worker that looks keeps the server from running.

Fitted for each row are the six numbers of Row, on six: the length of a step, and the processor time
it took of its worker and of the server, with one and with two workers.  Nothing else: what 4
workers take is predicted.  docs/cluster-model.md has the assumptions of the large picture.
"""
import argparse
import collections
import dataclasses
import heapq
import itertools
import json
import math
import pathlib
import random
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import loglog  # noqa: E402

MODEL, MEASURED = HERE / "results/cluster-model.json", HERE / "results/null-steps.json"
ROWS = ("scalar", "dense", "sparse 64K", "sparse 1M")
BYTES = {"scalar": 4, "dense": 100e6, "sparse 64K": 32 * 256 * 4, "sparse 1M": 32 * 256 * 4}
THREADS = {"pyflow": lambda cores: max(1, cores - 1), "tf": lambda cores: cores}    # of a server
LOOKS = {"pyflow": 0.2e-3, "tf": 1e-3}  # at most: SPIN_NS of pool.pyx; TensorFlow's are not told
STEPS, VARIES = 120, 0.5                # of each worker; of a piece of work
TRIES = 150                             # of a fit
WEIGHTS = (2.0, 0.3, 0.3), (6.0, 0.3, 0.3)      # of what is fitted: steps, processor times
WITHIN = 1.35                           # a prediction may be so many times what was measured


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
    """Cores that nothing else needs, or a network card: who asks gets one, first come, first
    served."""

    def __init__(self, clock, count):
        self._clock, self._free, self._waiting = clock, count, collections.deque()

    def use(self, seconds, call):
        """call() once one was had for so long."""
        self._waiting.append((seconds, call))
        self._begin()

    def _begin(self):
        while self._free and self._waiting:
            seconds, call = self._waiting.popleft()
            self._free -= 1
            self._clock.after(seconds, lambda call=call: self._end(call))

    def _end(self, call):
        self._free += 1
        self._begin()
        call()


class Thread:
    """Where it ran, and what it has had of its core."""

    def __init__(self, core):
        self.core, self.looks, self.worked = core, 0, 0.0
        self.since = None                   # when it began to look, while it does


class Cores:
    """The cores of a machine, a queue for each.  stays: of threads, to their former core."""

    def __init__(self, clock, count, stays, varies):
        self._clock, self._stays, self._varies = clock, stays, varies
        self._draw = random.Random(1)
        self._queues, self._busy = [collections.deque() for _ in range(count)], [False] * count
        self.waited = 0.0

    def wake(self, thread, seconds, call):
        """call() once the thread has got a core, if it sleeps, and worked.  It has the core then:
        work, look or leave comes next."""
        if thread.since is not None:
            self._no_longer(thread)
            self.work(thread, seconds, call)
            return
        if self._draw.random() >= self._stays:
            thread.core = min(range(len(self._busy)), key=self._length)
        self._queues[thread.core].append((self._clock.now, thread, seconds, call))
        self._begin(thread.core)

    def work(self, thread, seconds, call):
        """The same, of a thread that has a core."""
        seconds *= self._draw.uniform(1 - self._varies, 1 + self._varies)
        thread.worked += seconds
        self._clock.after(seconds, call)

    def look(self, thread, seconds):
        """The thread waits to be woken; it keeps its core for so long at most."""
        thread.since, thread.looks = self._clock.now, thread.looks + 1

        def over(number):
            if thread.since is not None and thread.looks == number:
                self._no_longer(thread)
                self._leave(thread)
        self._clock.after(seconds, lambda number=thread.looks: over(number))

    def _leave(self, thread):
        self._busy[thread.core] = False
        self._begin(thread.core)

    def _no_longer(self, thread):
        thread.worked += self._clock.now - thread.since
        thread.since = None

    def _length(self, k):
        return len(self._queues[k]) + self._busy[k]

    def _begin(self, k):
        if not self._busy[k] and self._queues[k]:
            self._busy[k] = True
            came, thread, seconds, call = self._queues[k].popleft()
            self.waited += self._clock.now - came
            self.work(thread, seconds, call)


@dataclasses.dataclass
class Row:
    """A step's seconds: worker and server, of work; wait, on the way; worker_looks, server_looks,
    how long each looks, at most, for more.  stays: a part.  threads: of the server."""

    worker: float
    server: float
    wait: float
    worker_looks: float = 0.0
    server_looks: float = 0.0
    stays: float = 0.0
    threads: int = 1


# ---------------------------------------------------------------- one machine

@dataclasses.dataclass
class Step:
    """Means of a step, in seconds: its length, processor time of its worker and of the server,
    waiting for cores."""

    seconds: float
    worker: float
    server: float
    waited: float


class Machine:
    """So many workers and a parameter server, each a process, on the cores of one machine."""

    def __init__(self, row, workers, cores, varies=VARIES):
        self._row, self._clock = row, Clock()
        self._cores = Cores(self._clock, cores, row.stays, varies)
        self._workers = [Thread(k % cores) for k in range(workers)]
        self._servers = [Thread((workers + k) % cores) for k in range(row.threads)]
        self._idle, self._asked = list(self._servers), collections.deque()
        self._ended, self._first, self._at_first = 0, STEPS // 3 * workers, None

    def run(self):
        """The Step once it is steady."""
        for k, worker in enumerate(self._workers):
            self._clock.after(1e-9 * k, lambda worker=worker: self._cores.wake(
                worker, self._row.worker / 2, lambda: self._ask(worker)))
        steps = STEPS * len(self._workers)
        self._clock.run(lambda: self._ended >= steps)
        lasted, *rest = ((now - then) / (steps - self._first)
                         for now, then in zip(self._counters(), self._at_first))
        return Step(lasted * len(self._workers), *rest)

    def _counters(self):
        return (self._clock.now, sum(t.worked for t in self._workers),
                sum(t.worked for t in self._servers), self._cores.waited)

    def _ask(self, worker):
        self._cores.look(worker, self._row.worker_looks)
        self._clock.after(self._row.wait / 2, lambda: self._come(worker))

    def _come(self, worker):
        if not self._idle:
            self._asked.append(worker)
            return
        thread = next((t for t in self._idle if t.since is not None), self._idle[0])
        self._idle.remove(thread)
        self._cores.wake(thread, self._row.server, lambda: self._served(thread, worker))

    def _served(self, thread, worker):
        self._clock.after(self._row.wait / 2, lambda: self._answer(worker))
        if self._asked:
            asked = self._asked.popleft()
            self._cores.work(thread, self._row.server, lambda: self._served(thread, asked))
        else:
            self._idle.append(thread)
            self._cores.look(thread, self._row.server_looks)

    def _answer(self, worker):
        self._cores.wake(worker, self._row.worker / 2, lambda: self._end(worker))

    def _end(self, worker):
        self._ended += 1
        if self._ended == self._first:
            self._at_first = self._counters()
        self._cores.work(worker, self._row.worker / 2, lambda: self._ask(worker))


# ---------------------------------------------------------------- fitted

def fitted(one, two, cores, threads, looks):
    """The Row of measurements [seconds, processor time of worker, of server] of 1 and 2 workers;
    looks: the longest."""
    def row_of(point):
        *work, worker_looks, server_looks, stays = point
        return Row(*map(math.exp, work), *(min(looks, math.exp(v)) for v in (worker_looks,
                   server_looks)), 1 / (1 + math.exp(-max(-5.0, min(5.0, stays)))), threads)

    def misfit(point):
        found = [Machine(row_of(point), n, cores).run() for n in (1, 2)]
        pairs = [zip((s.seconds, s.worker, s.server), m) for s, m in zip(found, (one, two))]
        return sum(weight * math.log(s / m) ** 2 for pair, weights in zip(pairs, WEIGHTS)
                   for (s, m), weight in zip(pair, weights))
    seconds, worker, server = one[:3]
    start = [0.6 * min(worker, seconds), 0.7 * min(server, seconds), 0.05 * seconds,
             min(looks, 0.4 * seconds), min(looks, 0.2 * seconds)]
    return row_of(least(misfit, [*map(math.log, start), 0.0], 0.5, TRIES))


def least(function, start, size, tries):
    """Where a function of several numbers is least, by Nelder and Mead's simplex."""
    points = [start, *([*start[:k], v + size, *start[k + 1:]] for k, v in enumerate(start))]
    points = [(function(p), p) for p in points]

    def at(middle, times):
        point = [m + times * (v - m) for m, v in zip(middle, points[-1][1])]
        return function(point), point
    for _ in range(tries):
        points.sort()
        middle = [statistics.fmean(column) for column in zip(*(p for _, p in points[:-1]))]
        new = at(middle, -1.0)
        if new < points[0]:
            points[-1] = min(new, at(middle, -2.0))
            continue
        if not new < points[-2]:
            new = at(middle, 0.5)
        if new < points[-1]:
            points[-1] = new
            continue
        best = points[0][1]
        halves = ([(v + b) / 2 for v, b in zip(p, best)] for _, p in points[1:])
        points[1:] = [(function(p), p) for p in halves]
    return min(points)[1]


def fit(measured):
    """{"row library": Row} and {"row 4 library": seconds}."""
    steps, cores = measured["steps"], measured["cores"]
    rows = {}
    for name in ROWS:
        for library, threads in THREADS.items():
            one, two = (steps.get(f"{name} {n} {library}") for n in (1, 2))
            if one and two:
                rows[f"{name} {library}"] = fitted(one, two, cores, threads(cores), LOOKS[library])
    return rows, {key: step.seconds for key, step in simulated(rows, 4, cores).items()}


def simulated(rows, workers, cores):
    """{"row workers library": Step} of {"row library": Row}."""
    found = {}
    for key, row in rows.items():
        name, _, library = key.rpartition(" ")
        found[f"{name} {workers} {library}"] = Machine(row, workers, cores).run()
    return found


def compared(predicted, measured):
    """[(row, predicted, measured, predicted / measured)]"""
    found = {key: measured["steps"][key][0] for key in predicted if key in measured["steps"]}
    return [(key, predicted[key], seconds, predicted[key] / seconds)
            for key, seconds in found.items()]


def holds(found):
    """Whether each of `compared`'s predictions of pyflow's rows is near enough."""
    ratios = [ratio for key, *_, ratio in found if key.endswith("pyflow")]
    return bool(ratios) and all(1 / WITHIN <= ratio <= WITHIN for ratio in ratios)


# ---------------------------------------------------------------- many machines

@dataclasses.dataclass
class Network:
    """What the large picture assumes of a cluster beyond what was measured on one machine."""

    servers: int = 16               # parameter servers, a machine each, as in the paper
    cores: int = 2                  # of each machine
    card: float = 1.25e9            # bytes a second each way of a machine's network card (10 Gbit)
    latency: float = 50e-6          # seconds from card to card
    stack: float = 25e-6            # seconds of a core that a message takes at either end, over TCP


def synchronous_step(row, nbytes, workers, network):
    """Seconds of a step that ends when all workers have had the model and given their update."""
    clock, over = Clock(), []
    servers = [(Resource(clock, network.cores), Resource(clock, 1), Resource(clock, 1))
               for _ in range(network.servers)]
    part = nbytes / network.servers / network.card
    work = max(row.server / network.servers, 2 * network.stack)
    for _ in range(workers):
        _Fetch(clock, servers, row, network, part, work, lambda: over.append(clock.now))
    clock.run()
    return over[workers - 1]


class _Fetch:
    """A worker's step: a part of the model from each server, then a part of the update to each."""

    def __init__(self, clock, servers, row, network, part, work, over):
        self.clock, self.network, self.part, self.row = clock, network, part, row
        self.work, self.over, self.servers = work, over, servers
        self.cores = Resource(clock, network.cores)
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
# figure 7 (6 in arXiv 1605.08695): median null steps, synchronous, with 16 parameter servers.
# docs/cluster-model.md says where each number is from.  (name, row, times as large, points)
PAPER = (("dense 1 GB", "dense", 10, {1: 1.01, 100: 7.16}),
         ("dense 100 MB", "dense", 1, {1: 0.147, 100: 0.613}),
         ("sparse of 1 GB", "sparse 1M", 1, {1: 5e-3, 100: 20e-3}),
         ("scalar", "scalar", 1, {1: 1.8e-3, 100: 8.8e-3}))
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def drawing(rows):
    """The SVG of 1 to 1,000 workers beside the paper's points."""
    network, chart = Network(), loglog.Chart("workers", "seconds a step", (1, 1000), (1e-4, 100))
    for label, name, times, points in PAPER:
        row, nbytes = rows[f"{name} pyflow"], BYTES[name] * times
        if times > 1:
            row = dataclasses.replace(row, worker=row.worker * times, server=row.server * times)
        chart.line(label, [(n, synchronous_step(row, nbytes, n, network)) for n in COUNTS])
        chart.points(f"OSDI'16: {label}", sorted(points.items()), like=label)
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
    if found:
        mean = statistics.geometric_mean(ratio for *_, ratio in found)
        print(f"geometric mean {mean:.2f}; each of ours {1 / WITHIN:.2f}-{WITHIN}: {holds(found)}")
    return 0 if holds(found) else 1


if __name__ == "__main__":
    sys.exit(main())
