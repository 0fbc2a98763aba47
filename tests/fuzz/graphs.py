"""Random graphs on the executor and on a naive interpreter in plain Python: same values and errors.

    python tests/fuzz/graphs.py --count 100000          # long.py fuzz-graphs
    python tests/fuzz/graphs.py --minutes 10 --seed 5000000 --no-accelerator
    python tests/fuzz/graphs.py --replay 4711           # one graph again, with its plan in words
    python tests/fuzz/graphs.py --types --count 10000   # with other element types
    python tests/fuzz/graphs.py --calls --count 10000   # with calls of functions

A seed gives a program (programs.py) and a way to run it: threads, one plan or a plan per device,
blocks and inline loops or not, rewrites or not, devices (the CPU's three, the fake accelerators),
PYFLOW_SCHEDULE or real threads.  Each is run twice, as state lasts.  Where the interpreter says
that operations fail, the step must raise the error of one of them.  With --types each graph is
changed by retype.py first, and has to be refused, to fail with a typed error, or to run.
With --calls a program with functions, their calls inlined and not, gives what it gives without.

Exit status 1 and the seeds if anything differed.  A seed run under PYFLOW_SCHEDULE replays exactly.
"""
import argparse
import contextlib
import logging
import os
import pathlib
import random
import sys
import tempfile
import time
import traceback

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "executor"), str(HERE.parent / "passes_partition")]

import pyflow as tf
import interpreter
import plugins_of_fuzz
import programs
import retype

CPUS = ["/device:CPU:0", "/device:CPU:1", "/device:CPU:2"]
FAKES = ["/device:CPU:0", "/device:FAKE:0", "/device:FAKE:1"]
TIMEOUT_MS = 60000
EXACT = 2**24               # integers below are exact in float32, and so are their sums
ON_PURPOSE = (tf.errors.DataLossError, tf.errors.InvalidArgumentError, tf.errors.UnknownError)


class Difference(AssertionError):
    """The executor did something else."""


class Way:
    """How a program is run; drawn apart from it, so that it stays when the program shrinks."""

    def __init__(self, rng, accelerator):
        kinds = ["none", "cpu", "fake"] if accelerator else ["none", "cpu"]
        self.devices = rng.choice(kinds)
        self.partitions = rng.choice(["one", "device"])
        self.threads = rng.choice([1, 1, 2, 3])
        self.schedule = rng.randrange(10**6) if rng.random() < 0.3 else None
        self.options = rng.choice([{}, {}, {"inline": False}, {"blocks": False}])
        self.rewrites = rng.random() < 0.6
        self.place_seed = rng.randrange(10**6)
        self.delay_us = rng.choice([0, 0, 100])

    def __repr__(self):
        return f"Way({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"

    def config(self):
        config = tf.ConfigProto(device_count={"CPU": 3}, allow_soft_placement=True)
        config.graph_options.rewrite_options.disable_meta_optimizer = not self.rewrites
        return config

    @contextlib.contextmanager
    def scheduled(self):
        """PYFLOW_SCHEDULE for the sessions made inside."""
        before = os.environ.pop("PYFLOW_SCHEDULE", None)
        if self.schedule is not None:
            os.environ["PYFLOW_SCHEDULE"] = str(self.schedule)
        try:
            yield
        finally:
            os.environ.pop("PYFLOW_SCHEDULE", None)
            if before is not None:
                os.environ["PYFLOW_SCHEDULE"] = before


def touches_state(op):
    return any(t.dtype.name.endswith("_ref") or t.dtype == tf.resource
               for t in [*op.inputs, *op.outputs])


def scatter(graph, rng, devices):
    """Every operation on a random device, sometimes by name scope; what uses a reference or a
    handle on one of them, together."""
    by_scope, state, chosen = rng.random() < 0.3, rng.choice(devices), {}
    for op in graph.get_operations():
        op.attrs.pop("_class", None)
        key = op.name.rpartition("/")[0] if by_scope else op.name
        if touches_state(op) or op.name.startswith("v"):
            op._set_device(state)
        else:
            op._set_device(chosen.setdefault(key, rng.choice(devices)))


def compare_sums(tensor, want, got, inlined):
    """The same bits, but for gradients that are too large for exact sums: a call's gradient adds
    what comes from its body by itself, the program without functions in another order."""
    what = f"{tensor.name}, inlined {inlined}, without functions"
    largest = np.abs(want).max() if tensor.name.startswith("gradients") and want.size else 0
    if largest < EXACT:
        np.testing.assert_array_equal(got, want, what)
    else:
        np.testing.assert_allclose(got, want, 1e-5, 1e-7 * largest, err_msg=what)


class Fuzz:
    """Loads what programs need, once per process."""

    def __init__(self, folder, accelerator=True):
        self.op = plugins_of_fuzz.load_kernels(folder)
        self.knobs = plugins_of_fuzz.load_accelerator(folder) if accelerator else []
        self.failing = self.refused = 0
        self.timeout_ms = TIMEOUT_MS    # of a step

    def check_seed(self, seed):
        rng = random.Random(seed)
        self.check(programs.Program(rng, self.op), Way(random.Random(~seed), bool(self.knobs)))

    def check_types(self, seed):
        """The seed's graph with other element types is refused, or runs, or fails like a step."""
        rng = random.Random(seed)
        program = programs.Program(rng, self.op)
        changed = retype.retype(program.graph.as_graph_def(), rng)
        with tf.Graph().as_default() as graph:
            try:
                tf.import_graph_def(changed, name="")
                feeds = {t.name: np.ones(t.shape.as_list(), graph.get_tensor_by_name(
                    t.name).dtype.as_numpy_dtype) for t in program.placeholders}
            except (ValueError, TypeError):
                self.refused += 1
                return
        with tf.Session(graph=graph, threads=1) as session:
            for what in (program.init.name, [t.name for t in program.fetches]):
                try:
                    session.run(what, feeds, tf.RunOptions(timeout_in_ms=self.timeout_ms))
                except tf.errors.DeadlineExceededError as error:
                    raise Difference("the step hangs") from error
                except tf.errors.InternalError as error:
                    raise Difference(f"no typed error: {error}") from error
                except (tf.errors.OpError, ValueError, TypeError):
                    self.failing += 1

    def check_calls(self, seed):
        """The same bits: without functions, with their calls inlined, and with calls that run."""
        plain = programs.Program(random.Random(seed), self.op, calls="plain")
        called = programs.Program(random.Random(seed), self.op, calls=True)
        way = Way(random.Random(~seed), False)
        values = plain.values()
        want = self.run_once(plain, way, values, True)
        for inlined in (True, False):
            got = self.run_once(called, way, values, inlined)
            if (want is None) != (got is None):
                raise Difference(f"inlined {inlined}: {got}, without functions {want}")
            for tensor, x, y in zip(called.fetches * 2, want or (), got or ()):
                compare_sums(tensor, x, y, inlined)
            if inlined:
                first = got
            for tensor, x, y in zip(called.fetches * 2, first or (), got or ()):
                np.testing.assert_array_equal(y, x, f"{tensor.name}, inlined or not")
        self.failing += want is None

    def run_once(self, program, way, values, inlined):
        """Two steps' values; None if they fail."""
        config = way.config()
        config.graph_options.rewrite_options.disable_meta_optimizer = False
        if not inlined:
            config.graph_options.rewrite_options.function_optimization = 2      # Toggle.OFF
        feeds = dict(zip(program.placeholders, values))
        with way.scheduled(), tf.Session(graph=program.graph, config=config,
                                         threads=way.threads) as session:
            session.run(program.init)
            try:
                return [value for _ in range(2) for value in session.run(
                    program.fetches, feeds, tf.RunOptions(timeout_in_ms=self.timeout_ms))]
            except tf.errors.DeadlineExceededError as error:
                raise Difference(f"the step hangs, inlined {inlined}") from error
            except tf.errors.OpError as error:
                if not isinstance(error, ON_PURPOSE):
                    raise
                return None

    def check(self, program, way):
        if way.devices != "none":
            scatter(program.graph, random.Random(way.place_seed),
                    CPUS if way.devices == "cpu" else FAKES)
        for device in self.knobs:
            device.set(delay_us=way.delay_us if way.devices == "fake" else 0, seed=way.place_seed)
        oracle = interpreter.Interpreter(program.graph, program.fetches, program.variables,
                                         programs.python_step)
        with way.scheduled(), tf.Session(graph=program.graph, config=way.config(),
                                         threads=way.threads, partitions=way.partitions) as session:
            session._compiler.options = session._compiler.options.of_plan(**way.options)
            session.run(program.init)
            for _ in range(2):
                values = program.values()
                want, failed = oracle.step(dict(zip([p.op for p in program.placeholders], values)))
                feeds = dict(zip(program.placeholders, values))
                self.compare(program, session, feeds, want, failed)
                if failed:              # what else ran before it failed is anybody's guess
                    self.failing += 1
                    break
        if any(device["violations"] for device in self.knobs):
            text = "; ".join(device.violation for device in self.knobs)
            for device in self.knobs:
                device.reset_counters()
            raise Difference(f"the accelerator was misused: {text}")

    def compare(self, program, session, feeds, want, failed):
        dead = {t.name for t in program.fetches if want.get(t.name) is interpreter.DEAD}
        try:
            got = session.run(program.fetches, feeds, tf.RunOptions(timeout_in_ms=self.timeout_ms))
        except tf.errors.OpError as error:
            self.compare_error(program, error, failed, dead)
            return
        finally:
            for device in self.knobs:
                device.settle()
        if failed or dead:
            raise Difference(f"no error, but {failed} fail and {dead} are dead")
        for tensor, value in zip(program.fetches, got):
            expected = interpreter._read(want[tensor.name])
            np.testing.assert_array_equal(value, expected, err_msg=tensor.name)

    def compare_error(self, program, error, failed, dead):
        failed.update(t for t in dead)
        if not failed:
            raise Difference(f"an error where none is expected: {error}") from error
        if isinstance(error, tf.errors.DeadlineExceededError):
            raise Difference(f"the step hangs; expected: {failed}") from error
        name = error.op.name if error.op is not None else None
        if dead and "dead" in str(error) or name in failed:
            return
        if name is None and any(repr(f) in str(error) for f in failed):
            return
        if self.knobs and "FAKE" in str(error) and " status " in str(error):
            return                      # it failed on the device's stream, which knows no names
        raise Difference(f"the error of {name}, but {failed} fail: {error}") from error


def replay(fuzz, seed):
    """The program in words, then the check."""
    program = programs.Program(random.Random(seed), fuzz.op)
    way = Way(random.Random(~seed), bool(fuzz.knobs))
    print(f"seed {seed}: {way}, {len(program.graph.get_operations())} operations, fetches "
          f"{[t.name for t in program.fetches]}", flush=True)
    fuzz.check_seed(seed)
    print("equal")


def main(count, minutes, seed, accelerator, one, folder, types=False, calls=False):
    fuzz = Fuzz(folder, accelerator and not types and not calls)
    check = fuzz.check_types if types else fuzz.check_calls if calls else fuzz.check_seed
    if one is not None:
        return replay(fuzz, one)
    start, wrong, k = time.perf_counter(), [], 0
    end = start + 60 * minutes if minutes else float("inf")
    while time.perf_counter() < end and (minutes or k < count):
        try:
            check(seed + k)
        except Exception as error:
            wrong.append(seed + k)
            print(f"seed {seed + k}: {type(error).__name__}: {str(error)[:500]}", flush=True)
            if not isinstance(error, AssertionError):
                traceback.print_exc(limit=-4)
        k += 1
        if k % 1000 == 0:
            rate = k / (time.perf_counter() - start)
            print(f"{k} graphs, {fuzz.failing} with errors expected, {len(wrong)} different, "
                  f"{rate:.0f} a second", flush=True)
    said = f"{fuzz.refused} refused, {fuzz.failing} steps failed" if types else \
        f"{fuzz.failing} with errors expected"
    print(f"{k} graphs (seeds {seed}..{seed + k - 1}), {said}, "
          f"{time.perf_counter() - start:.0f} s: "
          + (f"{len(wrong)} DIFFERENT: {wrong[:50]}" if wrong else "no difference"))
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10**5)
    parser.add_argument("--minutes", type=float, help="instead of a count")
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--replay", dest="one", type=int, metavar="SEED")
    parser.add_argument("--no-accelerator", dest="accelerator", action="store_false")
    parser.add_argument("--types", action="store_true", help="with other element types")
    parser.add_argument("--calls", action="store_true", help="with calls of functions")
    parser.add_argument("--libraries", help="a folder with the plugins already built")
    options = vars(parser.parse_args())
    logging.getLogger("pyflow").setLevel(logging.CRITICAL)
    libraries = options.pop("libraries")
    with tempfile.TemporaryDirectory() as made:
        status = main(folder=libraries or made, **options)
    sys.exit(status)
