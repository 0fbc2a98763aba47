"""What docs/decisions.md says choices cost and save, measured: each beside its alternative.

    python benchmarks/decisions.py [--out benchmarks/results/decisions.json]

Best of many short batches on one thread; needs pyflow and NumPy only.  Alternatives that are no
option of a plan (OpenBLAS absent, another instruction set) run in a process of their own.
"""
import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time

import numpy as np
import resultfile

import pyflow as tf

CHILD = """
import importlib.util, json, sys
sys.path.insert(0, {here!r})
if {without_blas}:
    import pyflow.plugins
    pyflow.plugins._preload = lambda items: None
import decisions
print(json.dumps(decisions.{function}()))
"""


def best(function, seconds=2.0):
    """Seconds per call, best of several batches."""
    function()
    count, found, end = 1, float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(count):
            function()
        took = time.perf_counter() - start
        found = min(found, took / count)
        if took < 0.005:
            count *= 2
    return found


def session(**options):
    """A one-thread session whose plans are compiled with `options` (blocks, inline)."""
    made = tf.Session(threads=1)
    made._compiler.options.update(options)
    return made


def graph_10k(kind, **options):
    """ns per node of 10,000 scalar adds: a chain, or 100 layers of 100."""
    with tf.Graph().as_default():
        x, one = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        if kind == "chain":
            y = x
            for _ in range(10_000):
                y = y + one
            ends = [y.op]
        else:
            layer = [x + one for _ in range(100)]
            for _ in range(99):
                layer = [layer[j] + layer[(j + 7) % 100] for j in range(100)]
            ends = [y.op for y in layer]
        with session(**options) as sess:
            call = sess.make_callable(tf.group(*ends), [x, one])
            return best(lambda: call(np.float32(0), np.float32(0))) / 10_000 * 1e9


def loop(**options):
    """ns per iteration of a counter up to 10,000."""
    with tf.Graph().as_default():
        n = tf.placeholder(tf.int32, [])
        end = tf.while_loop(lambda i: i < n, lambda i: i + 1, [tf.constant(0)])
        with session(**options) as sess:
            call = sess.make_callable(end, [n])
            return best(lambda: call(np.int32(10_000))) / 10_000 * 1e9


def feeds():
    """us of feeding 4 MB to tf.size, and of the copy into 64-aligned memory that pyflow does not make."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None])
        with session() as sess:
            call = sess.make_callable(tf.size(x), [x])
            value, room = np.ones(1_000_000, np.float32), np.empty(1_000_000, np.float32)
            arrays = [np.empty(n, np.float32) for n in range(100_000, 1_000_000, 9_000)]
            return {"fed_us": best(lambda: call(value)) * 1e6,
                    "copy_us": best(lambda: np.copyto(room, value)) * 1e6,
                    "arrays_of_100_that_are_64_aligned":
                        sum(a.ctypes.data % 64 == 0 for a in arrays)}


def results():
    """us that fetching a result adds to computing it, and of copying it, by size."""
    found = {}
    for n in (64, 1_000_000):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [None])
            y = x + 1.0
            with session() as sess:
                value, room = np.ones(n, np.float32), np.empty(n, np.float32)
                run, fetch = sess.make_callable(y.op, [x]), sess.make_callable(y, [x])
                found[f"{n * 4} bytes"] = {
                    "run_us": best(lambda: run(value)) * 1e6,
                    "run_and_fetch_us": best(lambda: fetch(value)) * 1e6,
                    "copy_us": best(lambda: np.copyto(room, value)) * 1e6}
    return found


def gemm():
    """GFLOP/s of float32 products, one thread."""
    found = {}
    for n in (64, 256, 1024):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [n, n])
            with session() as sess:
                call = sess.make_callable(tf.matmul(x, x).op, [x])
                value = np.random.default_rng(0).standard_normal((n, n), np.float32)
                found[n] = 2 * n ** 3 / best(lambda: call(value)) / 1e9
    return found


def tanh():
    """Million elements per second of tanh on 100,000 floats, one thread."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None])
        with session() as sess:
            call = sess.make_callable(tf.tanh(x).op, [x])
            value = np.random.default_rng(0).standard_normal(100_000, np.float32)
            return 0.1 / best(lambda: call(value))


def elsewhere(function, without_blas=False, isa=None):
    """`function()` of this module in a process of its own."""
    here = os.path.dirname(os.path.abspath(__file__))
    code = CHILD.format(here=here, without_blas=without_blas, function=function)
    env = {**os.environ, **({"PYFLOW_CPU_ISA": isa} if isa else {})}
    return json.loads(subprocess.check_output([sys.executable, "-c", code], text=True, env=env))


def measure():
    found = {"date": datetime.date.today().isoformat(), "machine": platform.machine(),
             "cpus": os.cpu_count(), "load_before": os.getloadavg()[0]}
    for kind in ("chain", "layered"):
        found[f"10k adds, {kind}, ns per node"] = {
            "blocks": graph_10k(kind), "a block per node": graph_10k(kind, blocks=False)}
    found["while counter, ns per iteration"] = {"inline": loop(), "in slabs": loop(inline=False)}
    found["feeding 4 MB"] = feeds()
    found["fetching"] = results()
    found["gemm, GFLOP/s"] = {
        "OpenBLAS": elsewhere("gemm"), "own": elsewhere("gemm", without_blas=True),
        "own, avx2": elsewhere("gemm", without_blas=True, isa="avx2"),
        "own, baseline": elsewhere("gemm", without_blas=True, isa="baseline")}
    isas = ("baseline", "avx2", "avx512")
    found["tanh, M/s"] = {isa: elsewhere("tanh", isa=isa) for isa in isas}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", help="a JSON file")
    out = parser.parse_args().out
    found = measure()
    print(resultfile.text(found), end="")
    if out:
        os.makedirs(os.path.dirname(out) or ".", exist_ok=True)
        resultfile.write(out, found)


if __name__ == "__main__":
    main()
