"""A clock for what must not take longer than so many seconds, on machines that have other work, too.

    began = clock()
    ...
    assert clock() - began < 0.2

Time in which a thread of this process, or of those that it started, was ready and no processor was
free does not count (Linux's /proc/.../schedstat; elsewhere it does).  Time asleep counts in full, so
what waits for the wrong thing, or works too long, is found all the same.
"""
import os
import time

_seen = {}          # thread -> seconds it was kept waiting; one that has ended keeps its last
_TASKS = "/proc/{}/task"


def clock():
    """Seconds, from any start, on a machine that does nothing else."""
    for process in [os.getpid(), *_below(os.getpid())]:
        _look(process)
    return time.monotonic() - sum(_seen.values())


def _look(process):
    folder = _TASKS.format(process)
    try:
        threads = os.listdir(folder)
    except OSError:
        return
    for thread in threads:
        try:
            with open(f"{folder}/{thread}/schedstat", encoding="ascii") as file:
                _seen[thread] = int(file.read().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            continue


def _below(root):
    """Processes that this one started, and those that they did."""
    found = []
    for process in [root]:
        folder = _TASKS.format(process)
        try:
            threads = os.listdir(folder)
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"{folder}/{thread}/children", encoding="ascii") as file:
                    children = file.read().split()
            except OSError:
                continue
            found += children
            for child in children:
                found += _below(child)
    return found
