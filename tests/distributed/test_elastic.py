"""A training in shards whose workers join and leave while it runs: how soon that counts, and what
it costs the others."""
import collections
import pathlib
import re
import statistics
import sys
import time

import pytest
from quiet import clock

from pyflow.distributed.launch import local

TASK = pathlib.Path(__file__).with_name("elastic_task.py")
SHARDS = 4
Ran = collections.namedtuple("Ran", "at step shard")


class Job:
    """The training; what its tasks said."""

    def __init__(self, workers, steps=10**6):
        self.said, self.when = collections.defaultdict(list), {}
        self.cluster = local.LocalCluster([sys.executable, "-P", str(TASK), str(steps)],
                                          {"ps": 1, "worker": workers}, shards=SHARDS,
                                          output=lambda label, line: self.said[label].append(line))

    def found(self, label, pattern):
        """The groups of the lines that fit."""
        lines = list(self.said[label])
        return [m.groups() for m in (re.fullmatch(pattern, line) for line in lines) if m]

    def ran(self, label):
        return [Ran(float(t), int(step), int(shard)) for t, step, shard in
                self.found(label, "ran (.*) (.*) (.*)")]

    def phases(self, label):
        """{what: seconds since exec}"""
        return {what: float(at) for at, what in self.found(label, "at (.*) (.*)")}

    def until(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < end and self.cluster.wait(0) is None, dict(self.said)
            time.sleep(0.005)
        return found

    def counted(self, labels):
        """{step: how many gradients of it were computed by whom}, of steps that are over."""
        steps = collections.defaultdict(collections.Counter)
        for label in labels:
            for run in self.ran(label):
                steps[run.step][label] += 1
        return steps


def first_counted(job, label, labels):
    """(step, seconds of it) of the first step that a worker's gradient was part of: it ran one of
    exactly as many as the step has."""
    for step, by in sorted(job.counted(labels).items()):
        if by[label] and sum(by.values()) == SHARDS:
            return step, min(r.at for r in job.ran(label) if r.step == step)
    return None


def step_times(job, label, since=0.0):
    """Seconds from the end of each step that a worker took part in to that of the next."""
    ends = sorted({run.step: run.at for run in job.ran(label)}.items())
    return [after - before for (_, before), (_, after) in zip(ends, ends[1:]) if after > since]


@pytest.mark.alone
def test_a_join_counts_within_two_seconds_and_a_leave_within_a_step():
    job, labels = Job(1), ["worker-0", "worker-1"]
    with job.cluster as cluster:
        job.until(lambda: len(job.ran("worker-0")) > 8)
        pids = [cluster.pid("ps", 0), cluster.pid("worker", 0)]
        began, quiet = time.monotonic(), clock()
        cluster.scale("worker", 2)
        step, at = job.until(lambda: first_counted(job, "worker-1", labels))
        kept_waiting = time.monotonic() - began - (clock() - quiet)
        job.until(lambda: len(job.ran("worker-1")) > 8)
        left = time.monotonic()
        cluster.scale("worker", 1)
        job.until(lambda: len([run for run in job.ran("worker-0") if run.at > left]) > 16)
        assert [cluster.pid("ps", 0), cluster.pid("worker", 0)] == pids
    median, longest = (of(step_times(job, "worker-0", left)) for of in (statistics.median, max))
    print(f"a join counts {at - began:.2f} s after its exec (step {step}): "
          f"{job.phases('worker-1')}\nsteps after the leave: median {1000 * median:.0f} ms, "
          f"longest {1000 * longest:.0f} ms")
    assert at - began - kept_waiting < 2.0
    assert longest < 2 * median + 0.5           # 0.1 s on a machine that does nothing else
    last = max(run.step for run in job.ran("worker-1"))
    assert last <= min(run.step for run in job.ran("worker-0") if run.at > left) + 1
    assert len(job.found("worker-0", "at .* session")) == 1
    sessions = collections.defaultdict(list)    # what the parameter server compiled, and when
    for moment, session in job.found("ps-0", "registered (.*) (.*)"):
        sessions[session].append(float(moment))
    first, second = sorted(sessions.values())
    assert max(first) < began < min(second) and max(second) < left
