"""What growth is, of counts that were taken now and then while the same went on and on.

    growth.grown([(step, {process: counts}), ...])      # ["ps 0's threads: 20 -> 21 at step 5000"]

counts: alive.counts, with what a server says of itself.  FLAT: at no look more than at the first,
but for SLACK.  SLOPES: the straight line with the least squares through all looks rises by no more,
but for NOISE.
"""
import soaking

FLAT = ("threads", "gRPC's engine", "nets' tellers", "descriptors", "memory files", "host bytes", "open", "early",
        "running", "sessions", "graphs")
# Of gRPC's four, and one more when all are busy, until it was idle for 20 s.  A net's begins once.
SLACK = {"gRPC's engine": 4, "nets' tellers": 1}
# Per step.  The least that a leak loses is a chunk of 32 bytes, or an object of 50.  What is not 0:
# a server remembers 4,096 sessions that were asked for, by 430 bytes (0.25 bytes per step); RSS also
# has what malloc keeps between chunks.
SLOPES = {"heap": 0.6, "objects": 0.01, "rss": 1.2}
NOISE = {"heap": 200e3, "objects": 100, "rss": 400e3}   # of one look


def grown(samples):
    """[what grew], of [(step, {process: counts})]."""
    wrong = []
    for process, first in samples[0][1].items():
        for name in FLAT:
            step, most = max(((step, found[process][name]) for step, found in samples),
                             key=lambda one: one[1])
            if most > first[name] + SLACK.get(name, 0):
                wrong.append(f"{process}'s {name}: {first[name]} -> {most} at step {step}"
                             + _others(first, dict(samples)[step][process], name))
        for name, limit in SLOPES.items():
            per_step = rise(samples, process, name)
            limit += NOISE[name] / max(1, samples[-1][0] - samples[0][0])
            if per_step > limit:
                wrong.append(f"{process}'s {name}: +{per_step:.3g} per step, allowed {limit:.3g}")
    return wrong


def rise(samples, process, name):
    """Per step."""
    return soaking.slope([(step, found[process][name]) for step, found in samples])


def _others(before, after, name):
    """The threads, or the files, that came, by name."""
    if name not in ("threads", "descriptors"):
        return ""
    return f" { {k: n for k, n in after['kinds'].items() if n > before['kinds'].get(k, 0)} }"
