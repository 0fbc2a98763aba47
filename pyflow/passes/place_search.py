"""Placement as scheduling: the device of each group of nodes, so that a simulated step ends early.

The simulated machine
    - a device runs one node at a time, without preemption; of the nodes whose inputs have arrived
      it takes the first in construction order (the executor's order);
    - a tensor that a node on another device reads leaves when its producer ends and arrives after
      latency + bytes / bandwidth, once per destination device; transfers do not delay each other;
      a control edge between devices takes the latency; between two nodes of a loop both count once
      per iteration;
    - a tensor occupies its device from the start of its producer to the end of its last reader and
      last transfer there, a copy from the start of its transfer; persistent ones always.

The method: list scheduling by upward rank (HEFT; Topcuoglu, Hariri, Wu 2002) on groups, the greedy
simulation of TensorFlow's white paper with look-ahead; then it is compared with all groups on one
device, and improved by local search (moves of one and of two groups, restarts) within a budget of
simulated nodes, so that time stays near linear; few combinations are tried exhaustively.

Invariants
    1. The result uses allowed devices only, one per group; its simulated memory is within every
       limit, or `Solution.excess` is not 0.
    2. Deterministic: equal problems give equal solutions.

    Problem(...).solve().at        # group -> device
"""
import heapq
import random

EXACT = 3000                        # combinations tried exhaustively
BUDGET = 100_000                    # nodes simulated by local search
TRIALS = 1500                       # placements it simulates at most


class Solution:
    """`at[group]`: device; `makespan` in seconds; `excess`: bytes above the devices' limits."""

    __slots__ = ("at", "makespan", "excess")

    def __init__(self, at, makespan, excess):
        self.at, self.makespan, self.excess = at, makespan, excess

    @property
    def score(self):
        """Smaller is better: memory first."""
        return self.excess, self.makespan


class Problem:
    """Nodes in construction order, to be put on devices 0 .. n-1.

    duration[i][d]: seconds of node i on device d.
    group[i]: the group of node i, 0 .. ; allowed[g]: list of devices.
    inputs[i]: [(producer, tensor)]: tensor is an index into `size`, None for a control edge.
    size[t], owner[t]: bytes and producer of tensor t;  persistent: set of tensors that stay.
    latency[a][b], pace[a][b]: seconds, and seconds per byte, from device a to b.
    limit[d]: bytes, 0 for none.
    times[i]: how often node i runs (its duration is that of all runs); None: once each.
    """

    def __init__(self, duration, group, allowed, inputs, size, owner, persistent, latency, pace,
                 limit, times=None):
        self.duration, self.group, self.allowed = duration, group, allowed
        self.inputs, self.size, self.owner, self.persistent = inputs, size, owner, persistent
        self.latency, self.pace, self.limit = latency, pace, limit
        self.times = times or [1] * len(duration)
        self.n, self.devices = len(duration), len(limit)
        self.outputs = [[] for _ in duration]           # [(reader, tensor)]
        for reader, edges in enumerate(inputs):
            for producer, tensor in edges:
                self.outputs[producer].append((reader, tensor))
        self.bounded = any(limit)

    # ------------------------------------------------------------ simulation

    def transfer(self, producer, reader, tensor, latency, pace):
        """Seconds between the devices of an edge that have this latency and pace."""
        once = latency + pace * self.size[tensor] if tensor is not None else latency
        return once * min(self.times[producer], self.times[reader])

    def simulate(self, at):
        """The Solution that a group -> device list gives."""
        return _Run(self, at).solution()

    # ------------------------------------------------------------ search

    def solve(self, candidates=()):
        """The best Solution found.  candidates: further group -> device lists to start from."""
        choices = [g for g, devices in enumerate(self.allowed) if len(devices) > 1]
        fixed = [devices[0] for devices in self.allowed]
        if not choices:
            return self.simulate(fixed)
        combinations = 1
        for g in choices:
            combinations *= len(self.allowed[g])
            if combinations > EXACT:
                break
        if combinations <= EXACT and combinations * self.n <= 4 * BUDGET:
            return self._exhaustive(choices, fixed)
        starts = [self.ranked()] + [list(c) for c in candidates]
        for d in range(self.devices):
            starts.append([d if d in devices else devices[0] for devices in self.allowed])
        found = sorted((self.simulate(s) for s in starts), key=lambda s: s.score)
        return _Search(self, choices).improve(found)

    def _exhaustive(self, choices, at):
        at, best = list(at), None
        turn = [0] * len(choices)
        while True:
            for g, k in zip(choices, turn):
                at[g] = self.allowed[g][k]
            found = self.simulate(at)
            if best is None or found.score < best.score:
                best = Solution(list(at), found.makespan, found.excess)
            for position, g in enumerate(choices):
                turn[position] += 1
                if turn[position] < len(self.allowed[g]):
                    break
                turn[position] = 0
            else:
                return best

    def ranked(self):
        """HEFT on groups: nodes by decreasing upward rank; the first node of a group decides for
        all of it."""
        order = sorted(range(self.n), key=_by_rank(self._ranks()))
        totals = self.group_totals()
        finish, free, at = [0.0] * self.n, [0.0] * self.devices, [None] * len(self.allowed)
        used, weight = [0] * self.devices, self._group_bytes() if self.bounded else None
        for i in order:
            g = self.group[i]
            if at[g] is None:
                at[g] = self._earliest(i, finish, free, at, totals, used, weight)
                if weight is not None:
                    used[at[g]] += weight[g]
            d = at[g]
            start = max(free[d], self._arrival(i, d, finish, at))
            finish[i] = free[d] = start + self.duration[i][d]
        return at

    def _earliest(self, i, finish, free, at, totals, used, weight):
        g, best = self.group[i], None
        for d in self.allowed[g]:
            end = max(free[d], self._arrival(i, d, finish, at)) + totals[g][d]
            full = weight is not None and self.limit[d] and used[d] + weight[g] > self.limit[d]
            if best is None or (full, end) < best[0]:
                best = ((full, end), d)
        return best[1]

    def _arrival(self, i, d, finish, at):
        latest = 0.0
        for producer, tensor in self.inputs[i]:
            a = at[self.group[producer]]
            when = finish[producer]
            if a is not None and a != d:
                when += self.transfer(producer, i, tensor, self.latency[a][d], self.pace[a][d])
            latest = max(latest, when)
        return latest

    def _ranks(self):
        """Longest path to the end, with mean durations and transfers."""
        pairs = max(1, self.devices * (self.devices - 1))
        mean_pace = sum(map(sum, self.pace)) / pairs
        mean_latency = sum(map(sum, self.latency)) / pairs
        rank = [0.0] * self.n
        for i in range(self.n - 1, -1, -1):
            tail = 0.0
            for reader, tensor in self.outputs[i]:
                far = rank[reader]
                if self.group[reader] != self.group[i]:
                    far += self.transfer(i, reader, tensor, mean_latency, mean_pace)
                tail = max(tail, far)
            allowed = self.allowed[self.group[i]]
            rank[i] = tail + sum(self.duration[i][d] for d in allowed) / len(allowed)
        return rank

    def group_totals(self):
        """Seconds of each group on each device, one node after another."""
        totals = [[0.0] * self.devices for _ in self.allowed]
        for i, times in enumerate(self.duration):
            mine = totals[self.group[i]]
            for d in range(self.devices):
                mine[d] += times[d]
        return totals

    def _group_bytes(self):
        weight = [0] * len(self.allowed)
        for tensor, owner in enumerate(self.owner):
            weight[self.group[owner]] += self.size[tensor]
        return weight


def _by_rank(rank):
    return lambda i: (-rank[i], i)


class _Search:
    """Local search from the best starts, within the budget."""

    def __init__(self, problem, choices):
        self.problem, self.choices = problem, choices
        self.left = min(TRIALS, BUDGET // max(1, problem.n))
        self.random = random.Random(1)

    def improve(self, found):
        """The best Solution reached from the best of `found`; restarts while the budget lasts."""
        best = found[0]
        for start in found[:3]:
            best = min(best, self._climb(start), key=lambda s: s.score)
        while self.left > 2 * len(self.choices):
            at = list(best.at)
            for g in self.random.sample(self.choices, max(1, len(self.choices) // 3)):
                at[g] = self.random.choice(self.problem.allowed[g])
            best = min(best, self._climb(self._try(at)), key=lambda s: s.score)
        return best

    def _try(self, at):
        self.left -= 1
        return self.problem.simulate(at)

    def _climb(self, current):
        """Moves of one group, then of two, as long as they help."""
        while self.left > 0:
            found = self._single(current) or self._double(current)
            if found is None:
                break
            current = found
        return current

    def _single(self, current):
        better = None
        for g in self.choices:
            for d in self.problem.allowed[g]:
                if d != current.at[g] and self.left > 0:
                    at = list(current.at)
                    at[g] = d
                    found = self._try(at)
                    if found.score < current.score:
                        current = better = found
        return better

    def _double(self, current):
        """Two groups that share an edge, or any two where there are few."""
        for a, b in self._pairs():
            for d in self.problem.allowed[a]:
                for e in self.problem.allowed[b]:
                    if (d, e) == (current.at[a], current.at[b]) or self.left <= 0:
                        continue
                    at = list(current.at)
                    at[a], at[b] = d, e
                    found = self._try(at)
                    if found.score < current.score:
                        return found
        return None

    def _pairs(self):
        if len(self.choices) <= 40:
            return [(a, b) for k, a in enumerate(self.choices) for b in self.choices[:k]]
        group, free = self.problem.group, set(self.choices)
        pairs = {(group[i], group[p]) for i, edges in enumerate(self.problem.inputs)
                 for p, _ in edges}
        return sorted((a, b) for a, b in pairs if a != b and a in free and b in free)


class _Run:
    """One simulated step: events in order of time."""

    def __init__(self, problem, at):
        self.problem, self.at = problem, at
        group = problem.group
        self.device = [at[g] for g in group]
        self.waiting = [len(edges) for edges in problem.inputs]
        self.ready = [[] for _ in range(problem.devices)]
        self.busy = [False] * problem.devices
        self.events = []                # (time, node, it ends; else: one of its inputs is in)
        self.now = self.done = 0
        self.memory = _Memory(problem, self.device) if problem.bounded else None

    def solution(self):
        """Runs to the end."""
        for i, count in enumerate(self.waiting):
            if not count:
                self.ready[self.device[i]].append(i)        # in order: a heap
        self._start()
        events, ended = self.events, 0
        while events:
            self.now = events[0][0]
            while events and events[0][0] == self.now:
                _, i, is_end = heapq.heappop(events)
                if is_end:
                    ended += 1
                    self._end(i)
                else:
                    self._arrive(i)
            self._start()
        if ended != self.problem.n:
            raise ValueError("the graph to place has a cycle")
        excess = self.memory.excess() if self.memory is not None else 0
        return Solution(self.at, self.now, excess)

    def _start(self):
        for d, ready in enumerate(self.ready):
            if ready and not self.busy[d]:
                i = heapq.heappop(ready)
                self.busy[d] = True
                if self.memory is not None:
                    self.memory.start(i, self.now)
                heapq.heappush(self.events, (self.now + self.problem.duration[i][d], i, True))

    def _arrive(self, i):
        self.waiting[i] -= 1
        if not self.waiting[i]:
            heapq.heappush(self.ready[self.device[i]], i)

    def _end(self, i):
        d, problem, sent = self.device[i], self.problem, None
        self.busy[d] = False
        for reader, tensor in problem.outputs[i]:
            e = self.device[reader]
            if e == d:
                self._arrive(reader)
                continue
            when = self.now + problem.transfer(i, reader, tensor, problem.latency[d][e],
                                               problem.pace[d][e])
            if tensor is not None and self.memory is not None and (tensor, e) not in (sent or ()):
                sent = sent or set()
                sent.add((tensor, e))
                self.memory.send(tensor, d, e, self.now, when)
            heapq.heappush(self.events, (when, reader, False))
        if self.memory is not None:
            self.memory.end(i, self.now)


class _Memory:
    """Bytes per device as a list of changes (time, order, bytes)."""

    def __init__(self, problem, device):
        self.problem, self.device = problem, device
        self.changes = [[] for _ in range(problem.devices)]
        self.readers = {}               # (tensor, device) -> readers there still to end
        self.until = {}                 # (tensor, device) -> the end of the last transfer from it
        self.tensors = [[] for _ in range(problem.n)]
        for tensor, owner in enumerate(problem.owner):
            self.tensors[owner].append(tensor)
            if tensor in problem.persistent:
                self.changes[device[owner]].append((-1.0, 0, problem.size[tensor]))
        for i, edges in enumerate(problem.inputs):
            for tensor in {t for _, t in edges if t is not None}:
                key = tensor, device[i]
                self.readers[key] = self.readers.get(key, 0) + 1

    def start(self, i, now):
        """A node starts: its outputs take room."""
        for tensor in self.tensors[i]:
            if tensor not in self.problem.persistent:
                self._add(self.device[i], now, self.problem.size[tensor])

    def _add(self, d, when, size):
        self.changes[d].append((when, size < 0, size))

    def send(self, tensor, d, e, now, when):
        """A transfer from d to e, from `now` to `when`."""
        self.until[tensor, d] = max(self.until.get((tensor, d), 0.0), when)
        self._add(e, now, self.problem.size[tensor])

    def end(self, i, now):
        """A node ends: inputs that nobody else reads go, as do outputs without readers."""
        d = self.device[i]
        for tensor in {t for _, t in self.problem.inputs[i] if t is not None}:
            self.readers[tensor, d] -= 1
            if not self.readers[tensor, d]:
                self._release(tensor, d, now)
        for tensor in self.tensors[i]:
            if not self.readers.get((tensor, d)):
                self._release(tensor, d, now)

    def _release(self, tensor, d, now):
        home = self.device[self.problem.owner[tensor]]
        if tensor in self.problem.persistent and d == home:
            return
        self._add(d, max(now, self.until.get((tensor, d), 0.0)), -self.problem.size[tensor])

    def excess(self):
        """Bytes above the limits, all devices together."""
        total = 0
        for d, changes in enumerate(self.changes):
            limit, used, peak = self.problem.limit[d], 0, 0
            if limit:
                for _, _, size in sorted(changes):
                    used += size
                    peak = max(peak, used)
                total += max(0, peak - limit)
        return total
