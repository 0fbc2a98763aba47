"""Matrix products beside OpenBLAS, NumPy and torch: interleaved, best of many, kept as JSON.

    python benchmarks/gemm.py [--torch PYTHON] [--only sgemm small] [--rounds 8] [--threads 1 2]

Every peer is a process of its own, asked in turn; a turn ends when the process's threads sleep
(OpenBLAS's and torch's look for work for some 25 ms). The best of a process's rounds counts, and of
a ratio the median of --processes times such processes: where pages lie, which a process keeps,
moves what memory bounds by a tenth and more. `openblas` is the library of the scipy-openblas32
wheel called by ctypes into a fixed result, with the number of threads set by its own function.
pyflow runs a callable of one op, operands fed.
Samples are short, 0.2 ms, so that the best is undisturbed; what takes more than 2 ms on one thread
is timed by the process' own time.
"""
import argparse
import ctypes
import importlib.util
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import resultfile
from turns import settle

# name: (type, shape of a, shape of b, transpose a, transpose b); operands are stored as shown
CASES = {
    "sgemm_256": ("float32", (256, 256), (256, 256), 0, 0),
    "sgemm_512": ("float32", (512, 512), (512, 512), 0, 0),
    "sgemm_1024": ("float32", (1024, 1024), (1024, 1024), 0, 0),
    "sgemm_2048": ("float32", (2048, 2048), (2048, 2048), 0, 0),
    "sgemm_512_ta": ("float32", (512, 512), (512, 512), 1, 0),
    "sgemm_512_tb": ("float32", (512, 512), (512, 512), 0, 1),
    "sgemm_1024_ta": ("float32", (1024, 1024), (1024, 1024), 1, 0),
    "sgemm_1024_tb": ("float32", (1024, 1024), (1024, 1024), 0, 1),
    "sgemm_1024_tatb": ("float32", (1024, 1024), (1024, 1024), 1, 1),
    "dgemm_512": ("float64", (512, 512), (512, 512), 0, 0),
    "dgemm_1024": ("float64", (1024, 1024), (1024, 1024), 0, 0),
    "dgemm_512_ta": ("float64", (512, 512), (512, 512), 1, 0),
    "dgemm_512_tb": ("float64", (512, 512), (512, 512), 0, 1),
    "small_4": ("float32", (4, 4), (4, 4), 0, 0),
    "small_16": ("float32", (16, 16), (16, 16), 0, 0),
    "small_32": ("float32", (32, 32), (32, 32), 0, 0),
    "small_64": ("float32", (64, 64), (64, 64), 0, 0),
    "small_64_tb": ("float32", (64, 64), (64, 64), 0, 1),
    "small_68": ("float32", (68, 68), (68, 68), 0, 0),
    "small_84": ("float32", (84, 84), (84, 84), 0, 0),
    "small_100": ("float32", (100, 100), (100, 100), 0, 0),
    "small_100_ta": ("float32", (100, 100), (100, 100), 1, 0),
    "small_100_tatb": ("float32", (100, 100), (100, 100), 1, 1),
    "small_100_f64": ("float64", (100, 100), (100, 100), 0, 0),
    "small_odd": ("float32", (37, 53), (53, 29), 0, 0),
    "small_f64": ("float64", (64, 64), (64, 64), 0, 0),
    "batch_64x32": ("float32", (64, 32, 32), (64, 32, 32), 0, 0),
    "batch_32x100": ("float32", (32, 100, 100), (32, 100, 100), 0, 0),
    "batch_64x32_tb": ("float32", (64, 32, 32), (64, 32, 32), 0, 1),
    "batch_64x32_f64": ("float64", (64, 32, 32), (64, 32, 32), 0, 0),
    "batch_1024x64": ("float32", (128, 8, 64, 64), (128, 8, 64, 64), 0, 0),
    "batch_1024x64_tb": ("float32", (128, 8, 64, 64), (128, 8, 64, 64), 0, 1),
    "batch_1000x4": ("float32", (1000, 4, 4), (1000, 4, 4), 0, 0),
    "batch_odd": ("float32", (50, 17, 43), (50, 43, 11), 0, 0),
    "batch_vectors": ("float32", (512, 1, 64), (512, 64, 64), 0, 0),
    "batch_vectors_tb": ("float32", (512, 1, 64), (512, 64, 64), 0, 1),
    "vector_left": ("float32", (1, 1024), (1024, 1024), 0, 0),
    "vector_left_tb": ("float32", (1, 1024), (1024, 1024), 0, 1),
    "vector_right": ("float32", (1024, 1024), (1024, 1), 0, 0),
    "vector_right_ta": ("float32", (1024, 1024), (1024, 1), 1, 0),
    "vector_left_f64": ("float64", (1, 1024), (1024, 1024), 0, 0),
    "vector_large": ("float32", (1, 4096), (4096, 4096), 0, 0),
    "vector_large_tb": ("float32", (1, 4096), (4096, 4096), 0, 1),
    "outer": ("float32", (1024, 1), (1, 1024), 0, 0),
    "skinny_k4": ("float32", (512, 4), (4, 512), 0, 0),
    "skinny_m8": ("float32", (8, 1024), (1024, 1024), 0, 0),
    "skinny_m8_tb": ("float32", (8, 1024), (1024, 1024), 0, 1),
    "skinny_n8": ("float32", (1024, 1024), (1024, 8), 0, 0),
    "skinny_n10_tb": ("float32", (32, 784), (10, 784), 0, 1),
    "skinny_n7": ("float32", (50, 300), (300, 7), 0, 0),
    "skinny_m2_tb": ("float32", (2, 512), (512, 512), 0, 1),
    "deep_20": ("float32", (20, 1000), (1000, 20), 0, 0),
    "dot": ("float32", (1, 1000), (1000, 1), 0, 0),
    "wide_300_tatb": ("float32", (3, 300), (300, 3), 1, 1),
    "few_columns_tb": ("float32", (128, 512), (64, 512), 0, 1),
    "skinny_n10_ta": ("float32", (100, 784), (100, 10), 1, 0),
    "mlp_forward": ("float32", (100, 784), (784, 100), 0, 0),
    "mlp_out": ("float32", (100, 100), (100, 10), 0, 0),
    "mlp_dw": ("float32", (100, 784), (100, 100), 1, 0),
    "lstm_gates": ("float32", (20, 400), (400, 800), 0, 0),
    "lstm_dx": ("float32", (20, 800), (400, 800), 0, 1),
    "lstm_dw": ("float32", (20, 400), (20, 800), 1, 0),
    "lstm_cell_200": ("float32", (20, 200), (200, 800), 0, 0),
    "lstm_logits": ("float32", (400, 200), (200, 10000), 0, 0),
    "lstm_logits_dx": ("float32", (400, 10000), (200, 10000), 0, 1),
    "lstm_logits_dw": ("float32", (400, 200), (400, 10000), 1, 0),
    "tall": ("float32", (10000, 64), (64, 64), 0, 0),
    "deep_dot": ("float32", (64, 10000), (10000, 64), 0, 0),
    "dgemm_512_tatb": ("float64", (512, 512), (512, 512), 1, 1),
    "small_100_f64_tatb": ("float64", (100, 100), (100, 100), 1, 1),
    "small_64_f64_ta": ("float64", (64, 64), (64, 64), 1, 0),
    "small_64_f64_tb": ("float64", (64, 64), (64, 64), 0, 1),
    "few_m2": ("float32", (2, 512), (512, 512), 0, 0),
    "few_m2_ta": ("float32", (512, 2), (512, 512), 1, 0),
    "few_m2_f64": ("float64", (2, 512), (512, 512), 0, 0),
    "few_m3": ("float32", (3, 512), (512, 512), 0, 0),
    "few_m2_large": ("float32", (2, 2048), (2048, 2048), 0, 0),
    "few_m8_large": ("float32", (8, 2048), (2048, 2048), 0, 0),
    "narrow_n10_f64": ("float64", (100, 784), (784, 10), 0, 0),
    "narrow_n10_f64_32": ("float64", (32, 784), (784, 10), 0, 0),
    "narrow_n10_f64_tall": ("float64", (1000, 100), (100, 10), 0, 0),
    "narrow_n10_f64_small": ("float64", (100, 100), (100, 10), 0, 0),
    "narrow_n10_f64_tb": ("float64", (100, 784), (10, 784), 0, 1),
    "narrow_n3": ("float32", (1000, 10), (10, 3), 0, 0),
    "narrow_n3_ta": ("float32", (10, 1000), (10, 3), 1, 0),
    "narrow_n3_tb": ("float32", (1000, 10), (3, 10), 0, 1),
    "narrow_n7_tb": ("float32", (50, 300), (7, 300), 0, 1),
    "deep_20_ta": ("float32", (1000, 20), (1000, 20), 1, 0),
    "deep_20_tb": ("float32", (20, 1000), (20, 1000), 0, 1),
    "deep_20_tatb": ("float32", (1000, 20), (20, 1000), 1, 1),
    "tall_20_ta": ("float32", (20, 1000), (20, 20), 1, 0),
    "short_200_ta": ("float32", (10, 200), (10, 200), 1, 0),
    "short_1000_ta": ("float32", (20, 1000), (20, 1000), 1, 0),
    "batch_64x32_tatb": ("float32", (64, 32, 32), (64, 32, 32), 1, 1),
    "batch_64x64_tatb": ("float32", (64, 64, 64), (64, 64, 64), 1, 1),
    "batch_32x100_tatb": ("float32", (32, 100, 100), (32, 100, 100), 1, 1),
    "batch_64x32_f64_tatb": ("float64", (64, 32, 32), (64, 32, 32), 1, 1),
    "batch_64x64_f64_tatb": ("float64", (64, 64, 64), (64, 64, 64), 1, 1),
    "batch_1000x4_tatb": ("float32", (1000, 4, 4), (1000, 4, 4), 1, 1),
    "batch_1024x64_ta": ("float32", (128, 8, 64, 64), (128, 8, 64, 64), 1, 0),
    "batch_1024x64_tatb": ("float32", (128, 8, 64, 64), (128, 8, 64, 64), 1, 1),
    "batch_1024x64_f64": ("float64", (128, 8, 64, 64), (128, 8, 64, 64), 0, 0),
    "batch_rows": ("float32", (32, 1, 512), (32, 512, 100), 0, 0),
    "batch_32_rows": ("float32", (32, 32, 512), (32, 512, 100), 0, 0),
}
for _name in ("sgemm_512", "sgemm_1024", "vector_left", "vector_left_tb", "vector_right",
              "vector_large", "skinny_m8", "batch_1024x64", "mlp_forward"):
    for _half in ("float16", "bfloat16"):
        CASES[f"{_half}_{_name}"] = (_half, *CASES[_name][1:])
LONG = 2e-3     # seconds: what takes longer is seldom undisturbed on a busy machine
# The least speed wanted, as a share of the peer's: no slower than NumPy, where what is less than
# 3 % below it is not told from noise; squares at 0.97 of OpenBLAS's best (of small products the
# call of a step is a part, of which ctypes with ready arguments has none).
WANTED = {"numpy": 0.97}
WANTED_OF_SQUARES = {"numpy": 0.97, "openblas": 0.97}


def missed(name, ratios):
    """The peers of which a case is slower than wanted."""
    wanted = WANTED_OF_SQUARES if "gemm_" in name else WANTED
    return [peer for peer, ratio in ratios.items() if ratio < wanted.get(peer, 0)]


def operands(case):
    kind, a, b, ta, tb = CASES[case]
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in (a, b))
    return kind, x, y, ta, tb


def placed(x, kind):
    """x as an array of `kind` that begins with a line: for every peer the same."""
    size = x.size * np.dtype(kind).itemsize
    room = np.empty(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    result = room[start:start + size].view(kind).reshape(x.shape)
    result[...] = x
    return result


def adjoint(x, transposed):
    return np.swapaxes(x, -1, -2) if transposed else x


# ------------------------------------------------------------------------------------------- peers
def numpy_call(case, threads):
    kind, x, y, ta, tb = operands(case)
    if kind not in ("float32", "float64"):
        return None
    set_numpy_threads(threads)
    x, y = adjoint(placed(x, kind), ta), adjoint(placed(y, kind), tb)
    return lambda: np.matmul(x, y)


def set_numpy_threads(threads):
    """Tells the OpenBLAS inside NumPy's wheel."""
    folder = pathlib.Path(np.__file__).parent.parent / "numpy.libs"
    for path in folder.glob("*openblas*"):
        ctypes.CDLL(str(path)).scipy_openblas_set_num_threads64_(threads)


def openblas_call(case, threads):
    kind, x, y, ta, tb = operands(case)
    if x.ndim != 2 or kind not in ("float32", "float64"):
        return None
    folder = pathlib.Path(importlib.util.find_spec("scipy_openblas32").origin).parent
    library = ctypes.CDLL(str(folder / "lib" / "libscipy_openblas.so"))
    library.scipy_openblas_set_num_threads(threads)
    gemm = library.scipy_cblas_sgemm if kind == "float32" else library.scipy_cblas_dgemm
    number = ctypes.c_float if kind == "float32" else ctypes.c_double
    x, y = placed(x, kind), placed(y, kind)
    m, k = x.shape[::-1] if ta else x.shape
    n = y.shape[0] if tb else y.shape[1]
    out = np.empty((m, n), kind)
    arguments = [ctypes.c_int(v) for v in (101, 112 if ta else 111, 112 if tb else 111, m, n, k)]
    arguments += [number(1), ctypes.c_void_p(x.ctypes.data), ctypes.c_int(x.shape[1]),
                  ctypes.c_void_p(y.ctypes.data), ctypes.c_int(y.shape[1]), number(0),
                  ctypes.c_void_p(out.ctypes.data), ctypes.c_int(n)]
    call = (lambda: gemm(*arguments))
    call.keep = x, y, out
    return call


def torch_call(case, threads):
    import torch
    kind, x, y, ta, tb = operands(case)
    torch.set_num_threads(threads)
    x, y = (torch.from_numpy(placed(v, "float32")).to(getattr(torch, kind)) for v in (x, y))
    x = x.transpose(-1, -2) if ta else x
    y = y.transpose(-1, -2) if tb else y
    return lambda: torch.matmul(x, y)


def pyflow_call(case, threads):
    import pyflow as tf
    kind, x, y, ta, tb = operands(case)
    with tf.Graph().as_default():
        dtype = tf.as_dtype(kind)
        a, b = (tf.placeholder(dtype, v.shape) for v in (x, y))
        product = tf.matmul(a, b, transpose_a=bool(ta), transpose_b=bool(tb))
        session = tf.Session(threads=threads)
        call = session.make_callable(product, [a, b])
    x, y = (placed(v, dtype.as_numpy_dtype) for v in (x, y))
    set_numpy_threads(1)                # those that check the result would disturb the first round
    want = adjoint(x, ta).astype(np.float64) @ adjoint(y, tb).astype(np.float64)
    error = np.abs(call(x, y).astype(np.float64) - want).max() / np.abs(want).max()
    limit = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-3, "bfloat16": 1e-2}[kind]
    if error > limit:
        raise ValueError(f"{case}: relative error {error}")
    return lambda: call(x, y)


def serve(peer):
    """Answers {case, threads, seconds} lines with {best} or {error} until the input ends."""
    calls, made = {"numpy": numpy_call, "openblas": openblas_call, "torch": torch_call,
                   "pyflow": pyflow_call}, {}
    for line in sys.stdin:
        asked = json.loads(line)
        key = asked["case"], asked["threads"]
        try:
            if key not in made:
                made.clear()                # one case at a time keeps its operands
                made[key] = calls[peer](*key)
            call = made[key]
            found = {"best": best_time(call, *key, asked["seconds"])} if call else {}
            settle()
        except Exception as error:  # noqa: BLE001  the other cases are worth having
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), flush=True)


def best_time(call, case, threads, seconds):
    call()
    start = time.perf_counter()
    call()
    once = max(time.perf_counter() - start, 1e-7)
    repeat = max(1, int(2e-4 / once))
    clock = time.process_time_ns if threads == 1 and once > LONG else time.perf_counter_ns
    end, best = time.perf_counter() + seconds, float("inf")
    while True:
        start = clock()
        for _ in range(repeat):
            call()
        best = min(best, (clock() - start) / repeat)
        if time.perf_counter() > end:
            return best * 1e-9


class Peer:
    def __init__(self, name, python):
        self.name = name
        self.process = subprocess.Popen([python, __file__, "--peer", name], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or '{"error": "the peer died"}')

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)


# ------------------------------------------------------------------------------------------ report
def measure(name, threads, peers, rounds, seconds):
    best, problems = {}, {}
    for _ in range(rounds):
        for peer in peers:
            found = peer.ask(case=name, threads=threads, seconds=seconds)
            if "best" in found:
                best[peer.name] = min(best.get(peer.name, float("inf")), found["best"])
            elif "error" in found:
                problems[peer.name] = found["error"]
    return best, problems


def line_of(name, threads, row):
    _, a, b, ta, _ = CASES[name]
    m, k = (a[-1], a[-2]) if ta else a[-2:]
    flops = 2.0 * np.prod(a[:-2]) * m * k * (b[-2] * b[-1] / k)
    parts = [f"{p} {s * 1e6:.4g} us {flops / s * 1e-9:.3g} GF/s"
             for p, s in row["seconds"].items()]
    slower = missed(name, row["ratios"])
    verdict = " ".join(f"{r:.2f}x {p}" for p, r in row["ratios"].items())
    return (f"{name:24s} {threads} thread{'s' if threads > 1 else ' '} {verdict:40s}"
            f"{' MISSED ' + ','.join(slower) if slower else '':18s} | {'  '.join(parts)}"
            + "".join(f"\n     {p}: {e}" for p, e in row["problems"].items()))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", help="serve as this peer")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python with torch")
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3, help="in each process")
    parser.add_argument("--seconds", type=float, default=0.1, help="per case, peer and round")
    parser.add_argument("--processes", type=int, default=3, help="of each peer, one after another")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def measured(name, threads, peers, asked, rows):
    """Measures a row once more, in these processes, and tells what is known by now."""
    best, problems = measure(name, threads, peers, asked.rounds, asked.seconds)
    row = rows.setdefault(f"{name}/{threads}", {"seconds": {}, "found": [], "problems": {}})
    row["problems"] |= problems
    for peer, seconds in best.items():
        row["seconds"][peer] = min(seconds, row["seconds"].get(peer, math.inf))
    if "pyflow" in best:
        row["found"].append({peer: seconds / best["pyflow"] for peer, seconds in best.items()
                             if peer != "pyflow"})
    row["ratios"] = {peer: statistics.median(found[peer] for found in row["found"])
                     for peer in (row["found"] or [{}])[0]}
    print(line_of(name, threads, row), flush=True)


def peers_of(asked):
    pythons = {"pyflow": sys.executable, "openblas": sys.executable, "numpy": sys.executable,
               "torch": asked.torch}
    return [Peer(name, python) for name, python in pythons.items() if python]


def main():
    asked = arguments()
    if asked.peer:
        serve(asked.peer)
        return
    rows = {}
    for turn in range(asked.processes):
        print(f"processes {turn + 1} of {asked.processes}; ratios are medians of all so far")
        peers = peers_of(asked)
        for name in CASES:
            for threads in asked.threads if any(p in name for p in asked.only) else ():
                measured(name, threads, peers, asked, rows)
        for peer in peers:
            peer.close()
    if asked.json:
        resultfile.write(asked.json, rows)


if __name__ == "__main__":
    main()
