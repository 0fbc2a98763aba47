"""Clocks of tasks: how far one's is from another's, by the sample of least round trip.

Processes of one boot of one machine have one clock: their offset is 0, without asking twice.

Threads: any.

    clocks.Offset(lambda: worker.clock()).ns        # theirs minus ours
"""
import functools
import time

from pyflow.distributed.wire import messages
from pyflow.framework import protos

SAMPLES = 5


@functools.lru_cache(maxsize=None)
def boot():
    """What tells this boot of this machine from all others; "" where the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def now():
    """A ClockResponse of this process."""
    return messages.ClockResponse(wall_ns=time.time_ns(), monotonic_ns=time.monotonic_ns(),
                                  boot=boot())


def offset_ns(ask, samples=SAMPLES):
    """(their wall clock minus ours, half the round trip it was measured in), nanoseconds.

    ask: function -> their ClockResponse."""
    best = None
    for _ in range(samples):
        before = time.time_ns()
        reply = ask()
        after = time.time_ns()
        if reply.boot and reply.boot == boot():
            return 0, 0
        half = (after - before) // 2
        if best is None or half < best[1]:
            best = reply.wall_ns - (before + half), half
    return best


def shifted(data, ns):
    """A RunMetadata's bytes with all times of its StepStats `ns` nanoseconds later."""
    if abs(ns) < 1000:
        return data
    found = protos.RunMetadata.FromString(data)
    shift(found.step_stats, ns)
    return found.SerializeToString()


def shift(step_stats, ns):
    """Makes all times of a StepStats `ns` nanoseconds later."""
    for device in step_stats.dev_stats:
        for node in device.node_stats:
            node.all_start_micros += ns // 1000
            if node.scheduled_micros:
                node.scheduled_micros += ns // 1000
            if node.all_start_nanos:
                node.all_start_nanos += ns
            if node.scheduled_nanos:
                node.scheduled_nanos += ns
