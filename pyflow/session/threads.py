"""How many threads this process may use: one knob, `threads=`, with an honest default.

Invariants
    1. The default is min(CPUs in the affinity mask, cgroup CPU quota rounded up), at least 1.
    2. Nothing here or below pins a thread to a CPU, so a restricted cpuset cannot make a call fail.

Order of choice: PYFLOW_SCHEDULE (one thread), Session(threads=n), PYFLOW_THREADS,
ConfigProto.intra_op_parallelism_threads, the default. One pool serves intra- and inter-op work, so
inter_op_parallelism_threads is accepted and changes nothing.

    available_threads()         # 2 in a container limited to two CPUs on a 64-core machine
"""
import functools
import math
import os

from pyflow import config as env
from pyflow.session import runtime


def available_threads():
    """Threads that can really run at once here."""
    return max(1, min(_affinity(), _own_quota()))


@functools.cache
def _own_quota():
    """This process's quota, read once: the files take longer than making an empty session."""
    return _cgroup_quota()


def _affinity():
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def _cgroup_quota(root="/sys/fs/cgroup", membership="/proc/self/cgroup"):
    """CPUs granted by the strictest cgroup above this process; infinity if there is no limit."""
    quota = math.inf
    for controllers, path in _memberships(membership):
        if controllers == "":
            quota = min(quota, _walk_up(root, path, _quota_v2))
        elif "cpu" in controllers.split(","):
            for mount in (os.path.join(root, "cpu"), os.path.join(root, controllers)):
                quota = min(quota, _walk_up(mount, path, _quota_v1))
    return quota if quota == math.inf else max(1, math.ceil(quota))


def _memberships(membership):
    try:
        with open(membership) as f:
            return [
                tuple(line.rstrip("\n").split(":", 2)[1:]) for line in f if line.count(":") >= 2
            ]
    except OSError:
        return []


def _walk_up(mount, path, read):
    """The strictest limit of `path` and its ancestors (in a container `path` may not exist: then
    the root)."""
    quota, parts = math.inf, [p for p in path.split("/") if p and p != ".."]
    for depth in range(len(parts), -1, -1):
        quota = min(quota, read(os.path.join(mount, *parts[:depth])))
    return quota


def _quota_v2(folder):
    words = _read(os.path.join(folder, "cpu.max")).split()
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
        return int(words[0]) / int(words[1])
    return math.inf


def _quota_v1(folder):
    quota = _read(os.path.join(folder, "cpu.cfs_quota_us")).strip()
    period = _read(os.path.join(folder, "cpu.cfs_period_us")).strip()
    if quota.isdigit() and period.isdigit() and int(period):
        return int(quota) / int(period)
    return math.inf


def _read(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def seeded_pool():
    """A pool of one thread whose order is drawn from PYFLOW_SCHEDULE; None where that is not set."""
    seed = env.value("PYFLOW_SCHEDULE")
    return None if seed is None else runtime.executor().Pool(1, seed)


def choose(threads=None, config=None):
    """The number of threads for a session made with these arguments."""
    if env.value("PYFLOW_SCHEDULE") is not None:
        return 1
    if threads is None:
        threads = env.value("PYFLOW_THREADS")
    if threads is None and config is not None:
        threads = config.intra_op_parallelism_threads or None
    if threads is None:
        return available_threads()
    try:
        threads = int(threads)
    except (TypeError, ValueError):
        raise ValueError(f"threads must be a whole number, got {threads!r}") from None
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    return threads
