"""Runs the calls that run.py asks for, in a process that may crash.

    python tests/fuzz_ops/child.py STATE OPS COUNT SEED [limit in MB]

STATE is a small file, mapped: four int64s that say which call is under way (place of the op, group,
call, finished calls).  After a crash run.py starts another child, which goes on behind the call
that is written there.  Printed: one line for each finding, `FOUND op group call: what`.
"""
import mmap
import pathlib
import resource
import struct
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import calls  # noqa: E402
import pyflow as tf  # noqa: E402
from pyflow.framework.graph import Operation  # noqa: E402

ALLOWED = (tf.errors.OpError, ValueError, TypeError, MemoryError)


def limit_memory(megabytes):
    """At most so much more address space than now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * mmap.PAGESIZE
    most = now + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def check(outputs, found):
    """What is wrong with the results of a call, or None."""
    for tensor, value in zip(outputs, found):
        if isinstance(tensor, Operation):
            continue
        wanted = tensor.dtype.base_dtype.as_numpy_dtype
        array = np.array(value, object) if isinstance(value, bytes) else np.asarray(value)
        if tensor.dtype.base_dtype != tf.resource and array.dtype != wanted:
            return f"{tensor.name} is {array.dtype}, declared {tensor.dtype.name}"
    return None


class Runner:
    def __init__(self, state, ops, count, seed):
        self.state, self.ops, self.seed = state, ops, seed
        self.size = min(count, calls.CALLS)
        self.groups = -(-count // calls.CALLS)
        self.place, self.group, self.call, self.done = struct.unpack("4q", state[:32])

    def note(self, place, group, call):
        self.place, self.group, self.call = place, group, call
        self.done += 1
        self.state[:32] = struct.pack("4q", place, group, call, self.done)

    def run(self):
        known = calls.fuzzed_ops()
        start = (self.place, self.group, self.call)
        for place in range(start[0], len(self.ops)):
            op = known[self.ops[place]]
            for group in range(start[1] if place == start[0] else 0, self.groups):
                first = start[2] + 1 if (place, group) == start[:2] else 0
                if first < self.size:
                    self.run_group(op, place, group, first)
        self.note(len(self.ops), 0, -1)

    def run_group(self, op, place, number, first):
        self.note(place, number, max(first, 0))
        group = calls.Group(op, self.seed, number)
        with tf.Graph().as_default(), tf.Session() as session:
            try:
                outputs, placeholders = group.build()
                call_op = session.make_callable(list(outputs), placeholders)
            except ALLOWED:
                return
            except Exception as error:  # noqa: BLE001  whatever is not one of these is the finding
                return self.found(op, number, -1, error)
            for call in range(first, self.size):
                self.note(place, number, call)
                try:
                    found = call_op(*group.feeds(call))
                except ALLOWED:
                    continue
                except Exception as error:  # noqa: BLE001
                    self.found(op, number, call, error)
                    continue
                wrong = check(outputs, found)
                if wrong:
                    self.found(op, number, call, wrong)

    def found(self, op, number, call, what):
        name = type(what).__name__ + ": " if isinstance(what, Exception) else ""
        print(f"FOUND {op.name} {number} {call}: {name}{str(what)[:300]}", flush=True)


def main(path, ops, count, seed, megabytes=0):
    with open(path, "r+b") as file:
        state = mmap.mmap(file.fileno(), 64)
    with tf.Graph().as_default(), tf.Session() as session:     # threads and plugins are there now
        session.run(tf.reduce_sum(tf.ones([1000, 1000])))
    if int(megabytes):
        limit_memory(int(megabytes))
    Runner(state, ops.split(","), int(count), int(seed)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
