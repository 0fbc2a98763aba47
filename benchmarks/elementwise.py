"""Element-wise kernels, reductions, softmax, transposes, pooling, norms, and what memory allows.

    python benchmarks/elementwise.py [--only chain transpose] [--threads 1 2] [--rounds 15]
    python benchmarks/elementwise.py --only chain --jax JAX_PYTHON

A case reads `reads` bytes and writes `writes` bytes; its limit is a loop in C that does the same
with non-temporal stores (elementwise_loops.c), in the same process, in turn with pyflow: `ratio`
is the loop's best time divided by pyflow's best.  The chain's limit is the chain itself in
registers.  jax runs in a process of its own, in the same rounds.  Results are kept in
benchmarks/results.
"""
import argparse
import ctypes
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
CONSTANTS = (1.01, 0.5, 0.1, 0.25)      # of the chain
MEGA = 1 << 20
CASES = {}                              # name -> (function of tf, wanted ratio or None)


def case(wanted=0.9):
    def keep(function):
        CASES[function.__name__] = (function, wanted)
        return function
    return keep


def aligned(shape, dtype=np.float32, fill=None):
    """A new array at a multiple of 64 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    array = raw[start:start + size].view(dtype).reshape(shape)
    random = np.random.default_rng(1)
    array[...] = random.standard_normal(shape, np.float32) if fill is None else fill
    return array


def fed(tf, *arrays):
    return [tf.placeholder(a.dtype, a.shape) for a in arrays]


def one(tf, make, *shapes, dtype="float32"):
    """(fetch, placeholders, arrays) of `make` over random arrays."""
    kind = tf.as_dtype(dtype).as_numpy_dtype
    arrays = [aligned(s, kind) for s in shapes]
    inputs = fed(tf, *arrays)
    return make(*inputs), inputs, arrays


# ------------------------------------------------------------------------------------ element-wise
@case()
def add(tf): return one(tf, lambda a, b: a + b, (8 * MEGA,), (8 * MEGA,))


@case()
def multiply_by_scalar(tf): return one(tf, lambda a: a * 2.0, (8 * MEGA,))


@case()
def bias_add(tf): return one(tf, tf.nn.bias_add, (8192, 1000), (1000,))


@case()
def add_column(tf): return one(tf, lambda a, b: a + b, (8192, 1000), (8192, 1))


@case()
def relu(tf): return one(tf, tf.nn.relu, (8 * MEGA,))


@case()
def select(tf): return one(tf, lambda a, b: tf.where(a > 0, a, b), (8 * MEGA,), (8 * MEGA,))


@case()
def sqrt(tf): return one(tf, lambda a: tf.sqrt(tf.abs(a)), (8 * MEGA,))


@case(None)
def exp(tf): return one(tf, tf.exp, (4 * MEGA,))


@case(None)
def tanh(tf): return one(tf, tf.tanh, (4 * MEGA,))


@case(None)
def sigmoid(tf): return one(tf, tf.sigmoid, (4 * MEGA,))


@case(None)
def log(tf): return one(tf, lambda a: tf.log(a), (4 * MEGA,))


@case(None)
def erf(tf): return one(tf, tf.erf, (4 * MEGA,))


@case()
def cast_to_double(tf): return one(tf, lambda a: tf.cast(a, tf.float64), (4 * MEGA,))


@case()
def cast_to_half(tf): return one(tf, lambda a: tf.cast(a, tf.float16), (8 * MEGA,))


@case()
def cast_to_bfloat16(tf): return one(tf, lambda a: tf.cast(a, tf.bfloat16), (8 * MEGA,))


# ------------------------------------------------------------------------------------ reductions
@case()
def sum_all(tf): return one(tf, tf.reduce_sum, (8192, 1024))


@case()
def sum_inner(tf): return one(tf, lambda a: tf.reduce_sum(a, 1), (8192, 1024))


@case()
def sum_outer(tf): return one(tf, lambda a: tf.reduce_sum(a, 0), (8192, 1024))


@case()
def sum_middle(tf): return one(tf, lambda a: tf.reduce_sum(a, 1), (64, 128, 1024))


@case()
def sum_short_rows(tf): return one(tf, lambda a: tf.reduce_sum(a, 1), (MEGA, 8))


@case()
def mean_nhwc(tf): return one(tf, lambda a: tf.reduce_mean(a, [0, 1, 2]), (32, 64, 64, 64))


@case()
def max_inner(tf): return one(tf, lambda a: tf.reduce_max(a, 1), (8192, 1024))


@case()
def max_outer(tf): return one(tf, lambda a: tf.reduce_max(a, 0), (8192, 1024))


@case()
def argmax_inner(tf): return one(tf, lambda a: tf.argmax(a, 1), (8192, 1024))


# ------------------------------------------------------------------------------- softmax and norms
@case()
def softmax(tf): return one(tf, tf.nn.softmax, (8192, 1000))


@case()
def log_softmax(tf): return one(tf, tf.nn.log_softmax, (8192, 1000))


@case()
def batch_norm_inference(tf):
    def make(x, a, b, c, d):
        return tf.nn.fused_batch_norm(x, a, b, c, tf.abs(d), is_training=False)[0]
    return one(tf, make, (32, 64, 64, 64), *[(64,)] * 4)


@case(None)
def batch_norm_training(tf):
    return one(tf, lambda x, a, b: tf.nn.fused_batch_norm(x, a, b)[0], (32, 64, 64, 64),
               *[(64,)] * 2)


# ------------------------------------------------------------------------------------ transposes
@case()
def transpose_2d(tf): return one(tf, tf.transpose, (2048, 4096))


@case()
def transpose_odd(tf): return one(tf, tf.transpose, (2047, 4097))


@case()
def transpose_tall(tf): return one(tf, tf.transpose, (MEGA, 8))


@case()
def nhwc_to_nchw(tf): return one(tf, lambda a: tf.transpose(a, [0, 3, 1, 2]), (32, 56, 56, 64))


@case()
def nchw_to_nhwc(tf): return one(tf, lambda a: tf.transpose(a, [0, 2, 3, 1]), (32, 64, 56, 56))


@case()
def image_to_nchw(tf): return one(tf, lambda a: tf.transpose(a, [0, 3, 1, 2]), (32, 224, 224, 3))


@case()
def heads(tf): return one(tf, lambda a: tf.transpose(a, [0, 2, 1, 3]), (32, 256, 16, 64))


@case()
def reverse_4d(tf): return one(tf, lambda a: tf.transpose(a, [3, 2, 1, 0]), (32, 64, 64, 64))


@case()
def heads_merged(tf): return one(tf, lambda a: tf.transpose(a, [1, 0, 2]), (256, 512, 64))


@case()
def transpose_2999(tf): return one(tf, tf.transpose, (2999, 2999))


@case()
def transpose_float64(tf): return one(tf, tf.transpose, (2048, 2048), dtype="float64")


@case(None)
def transpose_uint8(tf): return one(tf, tf.transpose, (4096, 4096), dtype="uint8")


# ------------------------------------------------------------------------------------ moves
@case()
def slice_rows(tf): return one(tf, lambda a: tf.slice(a, [1024, 0], [6144, 1024]), (8192, 1024))


@case()
def slice_columns(tf): return one(tf, lambda a: tf.slice(a, [0, 100], [8192, 800]), (8192, 1000))


@case()
def every_second(tf): return one(tf, lambda a: a[:, ::2], (8192, 1024))


@case()
def concat_rows(tf): return one(tf, lambda a, b: tf.concat([a, b], 0), *[(4096, 1024)] * 2)


@case()
def concat_columns(tf): return one(tf, lambda a, b: tf.concat([a, b], 1), *[(8192, 500)] * 2)


@case()
def concat_channels(tf): return one(tf, lambda a, b: tf.concat([a, b], 3), *[(32, 56, 56, 32)] * 2)


@case()
def pad_images(tf):
    return one(tf, lambda a: tf.pad(a, [[0, 0], [3, 3], [3, 3], [0, 0]]), (32, 224, 224, 3))


@case()
def pad_channels_last(tf):
    return one(tf, lambda a: tf.pad(a, [[0, 0], [1, 1], [1, 1], [0, 0]]), (32, 56, 56, 64))


@case()
def tile_rows(tf): return one(tf, lambda a: tf.tile(a, [8, 1]), (1024, 1024))


@case()
def reverse_rows(tf): return one(tf, lambda a: tf.reverse(a, [0]), (8192, 1024))


@case()
def reverse_columns(tf): return one(tf, lambda a: tf.reverse(a, [1]), (8192, 1024))


def _gather(tf, rows, width):
    x, at = aligned((rows, width)), np.random.default_rng(2).integers(0, rows, rows).astype("i")
    inputs = fed(tf, x, at)
    return tf.gather(*inputs), inputs, [x, at]


@case()
def gather_rows_of_1024(tf): return _gather(tf, 8192, 1024)


@case(None)
def gather_rows_of_64(tf): return _gather(tf, 131072, 64)


@case()
def gate_channels(tf): return one(tf, lambda a, b: a * b, (32, 56, 56, 64), (32, 1, 1, 64))


@case()
def scale_planes(tf): return one(tf, lambda a, b: a * b, (32, 64, 56, 56), (1, 64, 1, 1))


@case()
def add_int32(tf): return one(tf, lambda a, b: a + b, *[(8 * MEGA,)] * 2, dtype="int32")


# ------------------------------------------------------------------------------------ pooling
def _pool(tf, kind, k, s, shape):
    return one(tf, lambda a: getattr(tf.nn, kind)(a, [1, k, k, 1], [1, s, s, 1], "SAME"), shape)


@case()
def max_pool_2x2(tf): return _pool(tf, "max_pool", 2, 2, (16, 112, 112, 64))


@case()
def max_pool_3x3_s2(tf): return _pool(tf, "max_pool", 3, 2, (16, 112, 112, 64))


@case()
def avg_pool_2x2(tf): return _pool(tf, "avg_pool", 2, 2, (16, 112, 112, 64))


@case()
def avg_pool_3x3_s1(tf): return _pool(tf, "avg_pool", 3, 1, (16, 56, 56, 64))


@case()
def global_average(tf): return one(tf, lambda a: tf.reduce_mean(a, [1, 2]), (64, 32, 32, 128))


def _pool_gradient(tf, kind, k, s, shape):
    x = aligned(shape)
    out = [shape[0], -(-shape[1] // s), -(-shape[2] // s), shape[3]]
    dy = aligned(out)
    inputs = fed(tf, x, dy)
    y = getattr(tf.nn, kind)(inputs[0], [1, k, k, 1], [1, s, s, 1], "SAME")
    return tf.gradients(y, inputs[0], inputs[1])[0], inputs, [x, dy]


@case(None)
def max_pool_gradient(tf): return _pool_gradient(tf, "max_pool", 2, 2, (16, 112, 112, 64))


@case()
def avg_pool_gradient(tf): return _pool_gradient(tf, "avg_pool", 2, 2, (16, 112, 112, 64))


# ------------------------------------------------------------------------------------ half types
def _half_cases():
    for dtype in ("float16", "bfloat16"):
        for name, make, shapes in (
                ("add", lambda tf: lambda a, b: a + b, [(8 * MEGA,)] * 2),
                ("tanh", lambda tf: tf.tanh, [(4 * MEGA,)]),
                ("sum_inner", lambda tf: lambda a: tf.reduce_sum(a, 1), [(8192, 1024)]),
                ("sum_outer", lambda tf: lambda a: tf.reduce_sum(a, 0), [(8192, 1024)]),
                ("softmax", lambda tf: tf.nn.softmax, [(8192, 1000)]),
                ("transpose_2d", lambda tf: tf.transpose, [(2048, 4096)]),
                ("max_pool_2x2", lambda tf: lambda a: tf.nn.max_pool(
                    a, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), [(16, 112, 112, 64)]),
                ("avg_pool_2x2", lambda tf: lambda a: tf.nn.avg_pool(
                    a, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), [(16, 112, 112, 64)]),
                ("cast_to_float", lambda tf: lambda a: tf.cast(a, tf.float32), [(8 * MEGA,)])):
            CASES[f"{name}_{dtype}"] = (
                lambda tf, m=make, s=shapes, d=dtype: one(tf, m(tf), *s, dtype=d), None)


_half_cases()


# ------------------------------------------------------------------------------------ measuring
def build_loops():
    folder = tempfile.mkdtemp()
    library = f"{folder}/loops.so"
    subprocess.run(["cc", "-std=gnu11", "-O3", "-march=native", "-ffp-contract=off", "-shared",
                    "-fPIC", str(HERE / "elementwise_loops.c"), "-o", library, "-lpthread"],
                   check=True)
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


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


def config(tf, threads):
    return tf.ConfigProto(intra_op_parallelism_threads=threads,
                          inter_op_parallelism_threads=threads)


def measure_case(tf, loops, name, threads, rounds):
    with tf.Graph().as_default():
        fetch, inputs, arrays = CASES[name][0](tf)
        with tf.Session(config=config(tf, threads)) as session:
            call = session.make_callable(fetch, inputs)
            result = np.asarray(call(*arrays))
            reads, writes = sum(a.nbytes for a in arrays), result.nbytes
            room = aligned((max(reads, 1) // 4 + 1024,), fill=1.0)
            out = aligned((max(writes, 4096) // 4 + 1024,), fill=0.0)
            del result
            ours, limit = interleave(
                [lambda: call(*arrays),
                 lambda: loops.traffic(pointer(room), ctypes.c_int64(reads), pointer(out),
                                       ctypes.c_int64(writes if writes >= 65536 else 0), threads)],
                rounds)
    return {"case": name, "threads": threads, "ms": ours * 1e3, "limit_ms": limit * 1e3,
            "gb_per_s": (reads + writes) / ours / 1e9, "ratio": limit / ours,
            "wanted": CASES[name][1]}


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
    return {"case": f"chain_{n}", "threads": threads, "ms": ours * 1e3, "limit_ms": limit * 1e3,
            "gb_per_s": 8 * n / ours / 1e9, "ratio": limit / ours, "wanted": 0.7,
            **({"jax_ms": best[3] * 1e3, "against_jax": best[3] / ours} if jax else {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="*", default=None, help="parts of case names")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--jax", help="a Python that has jax")
    parser.add_argument("--json", help="where results are kept")
    args = parser.parse_args()
    import pyflow as tf
    loops, results = build_loops(), []

    def show(row):
        results.append(row)
        wanted = row["wanted"]
        verdict = "" if wanted is None else "ok" if row["ratio"] >= wanted else f"below {wanted}"
        peer = ""
        if "jax_ms" in row:
            peer = f"  {row['against_jax']:.2f}x jax ({row['jax_ms']:.3f} ms)"
        print(f"{row['case']:24} {row['threads']} thr {row['ms']:9.3f} ms "
              f"{row['gb_per_s']:6.1f} GB/s limit {row['limit_ms']:9.3f} ms "
              f"ratio {row['ratio']:.2f} {verdict}{peer}", flush=True)
    for threads in args.threads:
        if not args.only or any("chain".startswith(o[:5]) for o in args.only):
            jax = Jax(args.jax, threads) if args.jax else None
            for n in (MEGA, 10 * MEGA):
                show(measure_chain(tf, loops, n, threads, args.rounds, jax))
            if jax:
                jax.close()
        for name in CASES:
            if not args.only or any(o in name for o in args.only):
                show(measure_case(tf, loops, name, threads, args.rounds))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(
            {"date": datetime.date.today().isoformat(), "rows": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
