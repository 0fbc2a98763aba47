"""Very many steps of very different kinds in one process, which must not grow.

    python tests/fuzz/soak.py                       # 10^6 steps; long.py has it as soak
    python tests/fuzz/soak.py --steps 5000 --from 2000

Steps mix loops (inline, in slabs, differentiated), feeds of changing shapes, errors at once and
late, deadlines, cancellation from another thread, ref and resource variables, partitions, devices
with memory of their own, strings, partial runs, sessions made and closed.  Two threads run them;
between rounds both rest and what is alive is counted.

Passes if from step --from to the last: RSS grows less than --growth bytes; threads, descriptors,
allocated host bytes, device bytes, device events and Python objects are where they were.
"""
import ctypes
import gc
import os
import pathlib
import sys
import tempfile
import threading

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import pyflow as tf
import plugins_of_fuzz
import soaking
from pyflow import _executor
from soaking import expect


class Program:
    """A graph and its sessions, made once; `steps` are the ways to run it, with their weights."""

    config, partitions, threads = None, None, 2

    def __init__(self, op, knobs):
        self.op, self.knobs = op, knobs
        with tf.Graph().as_default() as self.graph:
            self.build()
            self.init = tf.global_variables_initializer()
        self.session = self.open()

    def open(self):
        session = tf.Session(graph=self.graph, config=self.config, threads=self.threads,
                             partitions=self.partitions)
        session.run(self.init)
        return session


class Feeds(Program):
    """Shapes that change with every step."""

    def build(self):
        self.x = tf.placeholder(tf.float32, [None, None])
        self.y = tf.reduce_sum(tf.matmul(self.x, self.x, transpose_b=True) * 2 + 1, 1)
        self.s = tf.placeholder(tf.string, [None])
        self.joined = tf.string_join([self.s, self.s], "-")

    def run_small(self, rng):
        x = np.ones([rng.randint(0, 40), rng.randint(1, 30)], np.float32)
        y = self.session.run(self.y, {self.x: x})
        assert y.shape == x.shape[:1] and (y == x.shape[0] * (2 * x.shape[1] + 1)).all()

    def run_large(self, rng):
        n = rng.randint(100, 300)
        assert self.session.run(self.y, {self.x: np.ones([n, 7], np.float32)})[-1] == n * 15

    def run_strings(self, rng):
        words = [b"x" * rng.randint(0, 60) for _ in range(rng.randint(1, 5))]
        got = self.session.run(self.joined, {self.s: np.array(words, object)})
        assert list(got) == [w + b"-" + w for w in words]

    steps = [("run_small", 30), ("run_large", 1), ("run_strings", 5)]


class Loops(Program):
    """Inline, in slabs, nested, and the gradient of a loop."""

    def build(self):
        self.n, self.x = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [None])
        self.later = self.op("Later")
        self.inline = self.loop(lambda y: y + 1)
        self.slabs = self.loop(lambda y: self.later(y + 1, us=20))
        self.nested = self.loop(lambda y: y + self.loop(lambda z: z + 1) - self.x)
        self.gradient = tf.gradients(self.loop(lambda y: y * 2), self.x)[0]
        array = tf.TensorArray(tf.float32, self.n, infer_shape=False)
        self.stacked = tf.while_loop(
            lambda i, a: i < self.n,
            lambda i, a: (i + 1, a.write(i, self.x + tf.cast(i, tf.float32))),
            [0, array])[1].stack()

    def loop(self, body):
        return tf.while_loop(lambda i, y: i < self.n, lambda i, y: (i + 1, body(y)),
                             [tf.constant(0), self.x],
                             shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])])[1]

    def values(self, rng, most):
        n, x = rng.randint(0, most), np.zeros(rng.randint(1, 20), np.float32)
        return n, {self.n: n, self.x: x}

    def run_inline(self, rng):
        n, feed = self.values(rng, 30)
        assert self.session.run(self.inline, feed)[0] == n

    def run_slabs(self, rng):
        n, feed = self.values(rng, 3)
        assert self.session.run(self.slabs, feed)[0] == n

    def run_nested(self, rng):
        n, feed = self.values(rng, 6)
        assert self.session.run(self.nested, feed)[0] == n * n

    def run_gradient(self, rng):
        n, feed = self.values(rng, 6)
        assert self.session.run(self.gradient, feed)[0] == 2 ** n

    def run_array(self, rng):
        n, feed = self.values(rng, 6)
        feed[self.n] = n + 1
        assert self.session.run(self.stacked, feed)[-1, 0] == n

    steps = [("run_inline", 15), ("run_slabs", 2), ("run_nested", 5), ("run_gradient", 4),
             ("run_array", 4)]


class Failures(Program):
    """Errors at once and late, in and outside loops; deadlines; closed under running steps."""

    def build(self):
        self.i, self.x = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])
        self.row = tf.gather(tf.constant([0.5, 1.5, 2.5]), self.i) + tf.reduce_sum(self.x)
        fail = self.op("FailIf")
        self.late = fail(self.op("Later")(self.x, us=5), above=1.0, late=True, us=10) + 1
        self.turns = tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, fail(y + 1, above=4.0)),
                                   [tf.constant(0), self.x],
                                   shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])])[1]
        self.never = self.op("Never")(self.x) + self.op("Later")(self.x)

    def run_index(self, rng):
        i, feed = rng.randint(-1, 3), {self.x: np.zeros(rng.randint(0, 5), np.float32)}
        feed[self.i] = [0] * rng.randint(0, 4) + [i]
        if 0 <= i < 3:
            assert self.session.run(self.row, feed)[-1] == i + 0.5
        else:
            expect(tf.errors.InvalidArgumentError, lambda: self.session.run(self.row, feed))

    def fails(self, fetch, x, from_):
        feed = {self.x: np.full(3, x, np.float32)}
        if x < from_:
            self.session.run(fetch, feed)
        else:
            expect(tf.errors.DataLossError, lambda: self.session.run(fetch, feed))

    def run_late(self, rng):
        self.fails(self.late, rng.choice([0, 2]), 1.5)

    def run_in_loop(self, rng):
        self.fails(self.turns, rng.choice([-1, 1, 3]), 0)

    def run_deadline(self, rng):
        options = tf.RunOptions(timeout_in_ms=1)
        expect(tf.errors.DeadlineExceededError, lambda: self.session.run(
            self.never, {self.x: np.zeros(rng.randint(1, 9), np.float32)}, options=options))

    def run_cancelled(self, rng):
        session = self.open()
        closer = threading.Timer(rng.choice([0, 0.001]), session.close)
        closer.start()
        feed = {self.x: np.zeros(2, np.float32)}
        expect((tf.errors.CancelledError, RuntimeError), lambda: session.run(self.never, feed))
        closer.join()

    steps = [("run_index", 10), ("run_late", 3), ("run_in_loop", 4), ("run_deadline", 0.3),
             ("run_cancelled", 0.1)]


class State(Program):
    """Ref and resource variables, conds, partial runs, random numbers."""

    def build(self):
        zeros = tf.zeros_initializer()
        self.ref = tf.get_variable("ref", [], initializer=zeros, use_resource=False)
        self.resource = tf.get_variable("resource", [4], initializer=zeros, use_resource=True)
        self.add = tf.assign_add(self.ref, 1.0), self.resource.assign_add(tf.ones([4]))
        self.x, self.z = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        self.branch = tf.cond(self.x > 0, lambda: self.op("Later")(self.x, us=5) + 1,
                              lambda: tf.reduce_sum(self.resource) * 0)
        self.first = self.x + tf.random_uniform([]) * 0
        self.second = self.first * 2 + self.z

    def run_add(self, rng):
        self.session.run(self.add)

    def run_branch(self, rng):
        x = rng.randint(-2, 2)
        assert self.session.run(self.branch, {self.x: x}) == (x + 1 if x > 0 else 0)

    def run_partially(self, rng):
        handle = self.session.partial_run_setup([self.first, self.second], [self.x, self.z])
        assert self.session.partial_run(handle, self.first, {self.x: 3}) == 3
        assert self.session.partial_run(handle, self.second, {self.z: 1}) == 7

    def run_new_session(self, rng):
        with self.open() as session:
            session.run(self.add)
            assert session.run(self.ref) == 1

    steps = [("run_add", 15), ("run_branch", 10), ("run_partially", 0.5), ("run_new_session", 0.1)]


class Partitions(Program):
    """A loop and a branch over three devices of the CPU, a plan for each."""

    config, partitions = tf.ConfigProto(device_count={"CPU": 3}), "device"
    devices = ["/device:CPU:0", "/device:CPU:1", "/device:CPU:2"]

    def build(self):
        a, b, c = ((lambda d=d: tf.device(d)) for d in self.devices)
        self.x, self.n = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [])
        with a():
            doubled = self.x * 2

        def body(i, y):
            with b():
                y = y + 1
            return i + 1, y
        with c():
            self.y = tf.while_loop(lambda i, y: i < self.n, body, [tf.constant(0), doubled],
                                   shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])])[1]
            self.z = tf.cond(self.n > 2, lambda: tf.reduce_sum(self.y),
                             lambda: tf.reduce_max(doubled))
        with b():
            self.bad = tf.gather(self.x, self.n)

    def run_loop(self, rng):
        n, m = rng.randint(0, 4), rng.randint(1, 9)
        y, z = self.session.run([self.y, self.z], {self.x: np.ones(m, np.float32), self.n: n})
        assert y[0] == 2 + n and z == (m * (2 + n) if n > 2 else 2)

    def run_bad(self, rng):
        expect(tf.errors.InvalidArgumentError, lambda: self.session.run(
            [self.bad, self.y], {self.x: np.ones(2, np.float32), self.n: 4}))

    steps = [("run_loop", 6), ("run_bad", 1)]


class Accelerators(Partitions):
    """The same with the fake accelerators, whose copies and kernels may fail late."""

    config = tf.ConfigProto(allow_soft_placement=True)
    devices = ["/device:FAKE:0", "/device:FAKE:1", "/device:CPU:0"]

    def open(self):
        self.lock = threading.Lock()        # a failure told to the device must hit its own step
        return super().open()

    def run_loop(self, rng):
        with self.lock:
            super().run_loop(rng)

    def run_bad(self, rng):
        with self.lock:
            super().run_bad(rng)
            self.settle()

    def settle(self):
        for device in self.knobs:
            device.settle()

    def run_broken(self, rng):
        with self.lock:
            self.knobs[0].set(**{rng.choice(["fail_copy", "fail_launch_late", "fail_launch"]): 1})
            expect(tf.errors.OpError, lambda: super(Accelerators, self).run_loop(rng))
            self.settle()
            self.knobs[0].set(fail_copy=0, fail_launch=0, fail_launch_late=0)

    steps = [("run_loop", 2), ("run_bad", 0.3), ("run_broken", 0.2)]


class Graphs(Program):
    """A graph and a session for one step."""

    def build(self):
        tf.constant(0.0)

    def run_new(self, rng):
        with tf.Graph().as_default():
            y = tf.constant(1.0)
            for _ in range(rng.randint(1, 20)):
                y = tf.add(y, 1.0) if rng.random() < 0.5 else tf.multiply(y, 2.0)
            with tf.Session() as session:
                assert session.run(y) >= 2

    steps = [("run_new", 0.1)]


PROGRAMS = (Feeds, Loops, Failures, State, Partitions, Accelerators, Graphs)


class Soak(soaking.Soak):
    def __init__(self, folder, seed):
        op = plugins_of_fuzz.load_kernels(folder)
        self.knobs = plugins_of_fuzz.load_accelerator(folder)
        programs = [kind(op, self.knobs) for kind in PROGRAMS]
        super().__init__([(f"{type(program).__name__}.{name}", getattr(program, name), weight)
                          for program in programs for name, weight in program.steps], seed)

    def alive(self):
        """What exists now that nothing runs."""
        for _ in range(3):
            gc.collect()
        for device in self.knobs:
            device.settle()
        _executor.release_memory()
        ctypes.CDLL(None).malloc_trim(0)        # what libc's arenas keep for later is no leak
        memory = _executor.memory_stats()
        counts = {"threads": len(os.listdir("/proc/self/task")),
                  "fds": len(os.listdir("/proc/self/fd")),
                  "host bytes": memory["in_use"], "cached": memory["cached"],
                  "objects": len(gc.get_objects())}
        for name in ("bytes_in_use", "events", "streams", "pinned", "violations"):
            counts["device " + name] = sum(device[name] for device in self.knobs)
        counts["rss"] = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
        return counts


# What may differ between two counts: threads of the BLOCKING lane end after 2 s without work, and
# garbage of the interpreter comes and goes.
# `cached`: free blocks in the lists of threads that live, which the allocator bounds.
SLACK = {"threads": 8, "objects": 200, "host bytes": 0, "cached": 2**20}


def compare(before, after, growth):
    """The names of what grew."""
    grown = [name for name in after
             if name != "rss" and after[name] - before[name] > SLACK.get(name, 0)]
    grown += ["device violations"] if after["device violations"] else []
    return grown + (["rss"] if after["rss"] - before["rss"] >= growth else [])


def main(steps, first, growth, seed, folder):
    soak = Soak(folder, seed)
    first = min(first, steps // 2)
    (_, before), (_, after) = soaking.soak(soak, steps, first, lambda made: f", {made.alive()}")
    grown = compare(before, after, growth)
    print(f"rss grew {after['rss'] - before['rss']} bytes since step {first}; "
          + (f"GREW: {grown}" if grown else "everything else is where it was"))
    return 1 if grown else 0


if __name__ == "__main__":
    options = vars(soaking.arguments(
        __doc__, first=(10**5, "the step from which on nothing grows, at most half of all"),
        growth=(2**20, "bytes RSS may grow")).parse_args())
    soaking.with_plain_allocators()
    with tempfile.TemporaryDirectory() as made:
        sys.exit(main(folder=made, **options))
