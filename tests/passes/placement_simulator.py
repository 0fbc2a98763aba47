"""A simulated step, written again from its description: what a placement takes and needs.

    - a device runs one node at a time; of those whose inputs are there it takes the first in
      construction order;
    - a tensor arrives on another device latency + bytes / bandwidth after its producer's end;
    - a tensor is on its device from its producer's start to the end of its last reader and last
      transfer there, a copy from the transfer's start to the end of its last reader.
"""
import itertools


class Machine:
    """`seconds[i][d]`; `edges`: [(producer, reader, bytes)], one per tensor and reader (a producer
    has one tensor); `latency[a][b]`, `pace[a][b]`: seconds, seconds per byte; `room[d]` bytes."""

    def __init__(self, seconds, edges, latency, pace, size, room):
        self.seconds, self.edges, self.latency, self.pace = seconds, edges, latency, pace
        self.size, self.room = size, room
        self.sources = [[p for p, r in edges if r == i] for i in range(len(seconds))]

    def transfer(self, producer, a, b):
        """Seconds from device a to b."""
        return 0.0 if a == b else self.latency[a][b] + self.pace[a][b] * self.size[producer]

    def times(self, at):
        """[(start, end)] of all nodes."""
        n = len(at)
        spans, free, left = [None] * n, {}, set(range(n))
        while left:
            best = None
            for i in left:
                if any(spans[p] is None for p in self.sources[i]):
                    continue
                there = max((spans[p][1] + self.transfer(p, at[p], at[i])
                             for p in self.sources[i]), default=0.0)
                key = max(there, free.get(at[i], 0.0)), i
                if best is None or key < best:
                    best = key
            start, i = best
            end = start + self.seconds[i][at[i]]
            spans[i], free[at[i]] = (start, end), end
            left.remove(i)
        return spans

    def makespan(self, at):
        """Seconds of a step."""
        return max(end for _, end in self.times(at))

    def peaks(self, at):
        """Bytes needed at the worst moment, per device."""
        spans, stays = self.times(at), []
        for p, (start, end) in enumerate(spans):
            readers = [r for q, r in self.edges if q == p]
            for d in {at[p]} | {at[r] for r in readers}:
                last = max([spans[r][1] for r in readers if at[r] == d], default=end)
                if d == at[p]:
                    sent = [end + self.transfer(p, d, at[r]) for r in readers if at[r] != d]
                    stays.append((d, start, max([end, last, *sent]), self.size[p]))
                else:
                    stays.append((d, end, last, self.size[p]))
        moments = [s[1] for s in stays]
        return [max((sum(b for e, lo, hi, b in stays if e == d and lo <= t <= hi)
                     for t in moments), default=0) for d in range(len(self.room))]

    def fits(self, at):
        """True if no device is asked for more than it has (room 0: no limit)."""
        if not any(self.room):
            return True
        return all(not room or peak <= room for room, peak in zip(self.room, self.peaks(at)))

    def optimum(self, allowed, together):
        """The least makespan over all placements: allowed[i] devices, groups of `together`
        (a list of node lists) on one; None if nothing fits."""
        group = {i: k for k, nodes in enumerate(together) for i in nodes}
        names = sorted({group.get(i, ("alone", i)) for i in range(len(allowed))}, key=str)
        choices = [set.intersection(*(set(allowed[i]) for i in range(len(allowed))
                                      if group.get(i, ("alone", i)) == name)) for name in names]
        best = None
        for pick in itertools.product(*choices):
            where = dict(zip(names, pick))
            at = [where[group.get(i, ("alone", i))] for i in range(len(allowed))]
            took = self.makespan(at)
            if (best is None or took < best) and self.fits(at):
                best = took
        return best
