"""Element-wise kernels, reductions, softmax, transposes, pooling, norms, and what memory allows.

    python benchmarks/elementwise.py [--only chain transpose] [--threads 1 2] [--rounds 15]
    python benchmarks/elementwise.py --only chain --jax JAX_PYTHON
    python benchmarks/elementwise.py --torch TORCH_PYTHON

A case reads `reads` bytes and writes `writes` bytes; its limit is a loop in C that does the same
with non-temporal stores (elementwise_loops.c), in the same process, in turn with pyflow: `ratio`
is the loop's best time divided by pyflow's best.  A case that memory does not bound names what does
("bound") and is compared with a loop in C for that too.  The chain's limit is the chain itself in
registers.  Where a process's pages lie moves a ratio by up to a half, so all is measured again
in more processes (--again), in other orders, and the median of each row counts.  jax (the chain) and torch
(everything else but pooling, which has pools.py) run in processes of their own, in the rounds of
the first.  Cases: elementwise_math.py, elementwise_moves.py, elementwise_norms.py,
elementwise_pools.py; loops of the same names in C.  Results are kept in benchmarks/results.
"""
import argparse
import ctypes
import datetime
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import elementwise_math  # noqa: F401  each adds its cases
import elementwise_moves  # noqa: F401
import elementwise_norms  # noqa: F401
import elementwise_pools  # noqa: F401
import resultfile
from elementwise_case import CASES, MEGA, aligned, bound_call, pointer

HERE = pathlib.Path(__file__).resolve().parent
CONSTANTS = (1.01, 0.5, 0.1, 0.25)      # of the chain


def build_loops():
    folder = tempfile.mkdtemp()
    library = f"{folder}/loops.so"
    subprocess.run(["cc", "-std=gnu11", "-O3", "-march=native", "-ffp-contract=off", "-shared",
                    "-fPIC", *map(str, sorted(HERE.glob("elementwise_*.c"))), "-o", library,
                    "-lpthread"], check=True)
    return ctypes.CDLL(library)


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def interleave(functions, rounds, seconds=0.0):
    """The best time of each function, in turn."""
    best = [float("inf")] * len(functions)
    end = time.perf_counter() + seconds
    while rounds > 0 or time.perf_counter() < end:
        rounds -= 1
        for i, function in enumerate(functions):
            best[i] = min(best[i], timed(function))
    return best


def least(*times):
    return min((t for t in times if t is not None), default=None)


def config(tf, threads):
    return tf.ConfigProto(intra_op_parallelism_threads=threads,
                          inter_op_parallelism_threads=threads)


class Torch:
    """torch in a process of its own (elementwise_torch.py)."""

    def __init__(self, python, threads):
        self.process = subprocess.Popen(
            [python, str(HERE / "elementwise_torch.py"), str(threads)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout.readline() == "ready\n", "torch did not start"

    def best(self, name, arrays, times):
        """Least seconds of `times` runs of the case, None where torch has no such case."""
        self.process.stdin.write(json.dumps({
            "case": name, "times": times, "shapes": [a.shape for a in arrays],
            "dtypes": [a.dtype.name for a in arrays]}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure_case(tf, loops, name, threads, rounds, torch):
    make, wanted, bound, share = CASES[name]
    with tf.Graph().as_default():
        fetch, inputs, arrays = make(tf)
        with tf.Session(config=config(tf, threads)) as session:
            call = session.make_callable(fetch, inputs)
            result = np.asarray(call(*arrays))
            reads, writes = int(share * sum(a.nbytes for a in arrays)), result.nbytes
            room = aligned((max(reads, 1) // 4 + 1024,), fill=1.0)
            out = aligned((max(writes, 4096) // 4 + 1024,), fill=0.0)
            del result
            functions = [
                lambda: call(*arrays),
                lambda: loops.traffic(pointer(room), ctypes.c_int64(reads), pointer(out),
                                      ctypes.c_int64(writes if writes >= 65536 else 0), threads)]
            if bound:
                # and other memory again: ours is not to find the bound's arrays in the caches
                functions += [bound_call(loops, bound, arrays, out, threads), functions[1]]
            ours, limit, *bounds = interleave(functions, rounds)
            limit = min([limit, *bounds[1:]])
            peer = None
            for _ in range(rounds if torch else 0):     # its memory is its own: in turn with ours
                peer = least(peer, torch.best(name, arrays, 2))
                ours = min(ours, timed(functions[0]), timed(functions[0]))
                if peer is None:
                    break
    row = {"case": name, "threads": threads, "bytes": reads + writes, "wanted": wanted,
           "ms": ours * 1e3, "limit_ms": limit * 1e3}
    if bound:
        row |= {"bound": bound[0], "bound_ms": bounds[0] * 1e3}
    if peer is not None:
        row |= {"torch_ms": peer * 1e3}
    return with_ratios(row)


RATIOS = {"limit_ms": "ratio", "bound_ms": "bound_ratio", "torch_ms": "against_torch",
          "jax_ms": "against_jax"}


def with_ratios(row):
    """`row` with what follows from its times."""
    found = {ratio: row[time] / row["ms"] for time, ratio in RATIOS.items() if time in row}
    return row | found | {"gb_per_s": row["bytes"] / row["ms"] / 1e6}


def short(row):
    return max(row["ratio"], row.get("bound_ratio", 0)) < (row["wanted"] or 0)


def median_of(rows):
    """One row of a case's rows from several processes: peers are the first's, else medians."""
    keys = set(rows[0]) & {"ms", "gb_per_s", "limit_ms", "bound_ms", "ratio", "bound_ratio"}
    scores = [max(row["ratio"], row.get("bound_ratio", 0)) for row in rows]
    return rows[0] | {key: statistics.median(row[key] for row in rows) for key in keys} | {
        "processes": len(rows), "least": min(scores), "most": max(scores)}


def chain_of(maximum, y):
    for _ in range(5):
        y = maximum(y * CONSTANTS[0] + CONSTANTS[1], CONSTANTS[2]) - CONSTANTS[3]
    return y


class Jax:
    """jax in a process of its own: asked for the best of some runs, with the wanted threads."""

    SOURCE = """
import os, sys, time, json
threads = int(sys.argv[1])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=" + ("true" if threads > 1 else "false")
import jax, jax.numpy as jnp
c = json.loads(sys.argv[2])
def chain(y):
    for _ in range(5):
        y = jnp.maximum(y * c[0] + c[1], c[2]) - c[3]
    return y
chain = jax.jit(chain)
xs = {}
print("ready", flush=True)
for line in sys.stdin:
    n, times = map(int, line.split())
    if n not in xs:
        xs[n] = jnp.asarray(__import__("numpy").random.randn(n).astype("f"))
        chain(xs[n]).block_until_ready()
    best = 9
    for _ in range(times):
        start = time.perf_counter(); chain(xs[n]).block_until_ready()
        best = min(best, time.perf_counter() - start)
    print(best, flush=True)
"""

    def __init__(self, python, threads):
        self.process = subprocess.Popen(
            [python, "-c", self.SOURCE, str(threads), json.dumps(CONSTANTS)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout.readline() == "ready\n", "jax did not start"

    def best(self, n, times):
        self.process.stdin.write(f"{n} {times}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure_chain(tf, loops, n, threads, rounds, jax):
    """The chain over n floats: the limit is the better of both kinds of stores."""
    x, y = aligned((n,)), aligned((n,), fill=0.0)
    constants = (ctypes.c_float * 4)(*CONSTANTS)
    with tf.Graph().as_default():
        a = tf.placeholder(tf.float32, [n])
        with tf.Session(config=config(tf, threads)) as session:
            call = session.make_callable(chain_of(tf.maximum, a), [a])

            def loop(stream):
                return lambda: loops.chain(pointer(x), pointer(y), ctypes.c_int64(n), constants,
                                           stream, threads)
            call(x)
            best = [float("inf")] * 4
            for _ in range(rounds):
                found = interleave([lambda: call(x), loop(0), loop(1)], 3)
                found.append(jax.best(n, 3) if jax else float("inf"))
                best = [min(b, f) for b, f in zip(best, found)]
    ours, limit = best[0], min(best[1:3])
    return with_ratios({
        "case": f"chain_{n}", "threads": threads, "bytes": 8 * n, "wanted": 0.7,
        "ms": ours * 1e3, "limit_ms": limit * 1e3, **({"jax_ms": best[3] * 1e3} if jax else {})})


def print_row(row):
    wanted, more = row["wanted"], ""
    verdict = "" if wanted is None else f"below {wanted}" if short(row) else "ok"
    if "bound" in row:
        more = f"  bound {row['bound_ratio']:.2f} of {row['bound_ms']:.3f} ms: {row['bound']}"
    if "torch_ms" in row:
        more += f"  {row['against_torch']:.2f}x torch"
    if "jax_ms" in row:
        more = f"  {row['against_jax']:.2f}x jax ({row['jax_ms']:.3f} ms)"
    if "processes" in row:
        more += f"  ({row['least']:.2f} to {row['most']:.2f} in {row['processes']} processes)"
    print(f"{row['case']:24} {row['threads']} thr {row['ms']:9.3f} ms "
          f"{row['gb_per_s']:6.1f} GB/s limit {row['limit_ms']:9.3f} ms "
          f"ratio {row['ratio']:.2f} {verdict}{more}", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="*", default=None, help="parts of case names")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--jax", help="a Python that has jax")
    parser.add_argument("--torch", help="a Python that has torch")
    parser.add_argument("--again", type=int, default=4, metavar="N",
                        help="measure all in N more processes; medians count")
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="measure in another order")
    parser.add_argument("--json", help="where results are kept")
    return parser.parse_args()


def measure_table(args):
    """The rows of this process."""
    import pyflow as tf
    loops, results = build_loops(), []

    def show(row):
        results.append(row)
        print_row(row)
    for threads in args.threads:
        if not args.only or any("chain".startswith(o[:5]) for o in args.only):
            jax = Jax(args.jax, threads) if args.jax else None
            for n in (MEGA, 10 * MEGA):
                show(measure_chain(tf, loops, n, threads, args.rounds, jax))
            if jax:
                jax.close()
        torch = Torch(args.torch, threads) if args.torch else None
        names = [name for name in CASES if not args.only or any(o in name for o in args.only)]
        if args.shuffle is not None:
            random.Random(args.shuffle).shuffle(names)
        for name in names:
            show(measure_case(tf, loops, name, threads, args.rounds, torch))
        if torch:
            torch.close()
    return results


def measure_apart(args, seed):
    """The same rows from a new process, without peers, in another order."""
    with tempfile.TemporaryDirectory() as folder:
        kept = pathlib.Path(folder) / "rows.json"
        only = ["--only", *args.only] if args.only else []
        subprocess.run([sys.executable, __file__, "--again", "0", "--rounds", str(args.rounds),
                        "--json", kept, *only, "--shuffle", str(seed),
                        "--threads", *map(str, args.threads)],
                       check=True, stdout=subprocess.DEVNULL)
        rows = json.loads(kept.read_text())["rows"]
    return {(row["case"], row["threads"]): row for row in rows}


def main():
    args = arguments()
    results = measure_table(args)
    if args.again:
        more = [measure_apart(args, seed) for seed in range(args.again)]
        results = [median_of([row] + [table[row["case"], row["threads"]] for table in more])
                   for row in results]
        print(f"Medians of {1 + len(more)} processes:")
        for row in results:
            print_row(row)
    if args.json:
        resultfile.write(args.json, {"date": datetime.date.today().isoformat(), "rows": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())
