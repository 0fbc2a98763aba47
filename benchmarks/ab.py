"""Two builds of pyflow beside each other on 40 fixed rows: did a change cost speed?

    make ab OLD=old.whl                 # this tree beside a wheel; at most 15 minutes
    python benchmarks/ab.py --old PYTHON --new PYTHON [--only PATTERN] [--rounds 5] [--json FILE]

A row is two processes, one of each build, that are asked in turn; its ratio is the old build's time
divided by the new one's, the median over the rounds: below 1 the new one is slower.  A row below
LOW is measured again, twice, with new processes: it counts only if it is below all three times.
The geometric mean over all rows is wanted within MEAN of 1.  The exit status says whether both hold.
"""
import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "onnx")]

LOW, MEAN, AGAIN = 0.9, 0.03, 2
EXECUTOR = ("noop_chain", "add_layered", "one_add_callable", "one_add_run", "while_counter",
            "while_matmul", "while_gradient")
TRAINING = ("train_softmax", "train_mlp", "train_lenet", "train_ptb")
NETWORKS = ("resnet50", "inception_v1", "inception_v2", "densenet121", "vgg19", "bvlc_alexnet",
            "squeezenet", "shufflenet", "zfnet512")
GEMM = ("sgemm_256", "sgemm_1024", "dgemm_512_tb", "small_16", "few_m2")
CONV = (1, 2, 4, 6, 8)                  # of conv.SAMPLE
ELEMENTWISE = ("exp", "tanh", "add", "transpose_2d", "bias_add")
POOL = ("max_2x2", "max_3x3_s2", "avg_3x3_s1", "mean_7", "max_gradient_2x2")
ROWS = [*(("case", n) for n in EXECUTOR + TRAINING), *(("network", n) for n in NETWORKS),
        *(("gemm", n) for n in GEMM), *(("conv", n) for n in CONV),
        *(("elementwise", n) for n in ELEMENTWISE), *(("pool", n) for n in POOL)]


# ---------------------------------------------------------------------- what one child process does
def work_of(kind, name, models):
    """A function that does the row's work once."""
    import pyflow as tf
    if kind == "case":
        import cases
        with tf.Graph().as_default():
            return cases.CASES[name](tf).run
    if kind == "network":
        import onnx_models
        import numpy as np
        call = onnx_models.load_pyflow(f"{models}/{name}.onnx", 1, input_of(name))
        image = np.random.default_rng(1).standard_normal((1, 3, 224, 224), np.float32)
        return lambda: call(image)
    if kind == "gemm":
        import gemm
        return gemm.pyflow_call(name, 1)
    if kind == "conv":
        import conv
        return conv.pyflow_work(conv.SAMPLE[name], 1, "forward", 1)[0]
    if kind == "pool":
        import pools
        return pools.pyflow_work(pools.CASES[name], 1)
    import elementwise  # noqa: F401  fills the table
    from elementwise_case import CASES
    with tf.Graph().as_default() as graph:
        fetch, inputs, arrays = CASES[name][0](tf)
        call = tf.Session(graph=graph, threads=1).make_callable(fetch, inputs)
    return lambda: call(*arrays)


def serve(kind, name, models):
    """Answers lines of seconds with the time of one call, the least within them."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    work = work_of(kind, int(name) if kind == "conv" else name, models)
    for line in sys.stdin:
        answers.write(json.dumps(least(work, float(line))) + "\n")
        answers.flush()


def least(work, seconds):
    """Processor seconds of the fastest call; brief ones are timed many at once."""
    work()
    start = time.process_time()
    work()
    many = max(1, min(1000, int(0.002 / max(time.process_time() - start, 1e-7))))
    best, turns, end = math.inf, 2, time.perf_counter() + seconds
    while turns > 0 or time.perf_counter() < end:
        turns -= 1
        start = time.process_time()
        for _ in range(many):
            work()
        best = min(best, (time.process_time() - start) / many)
    return best


def input_of(name):
    import onnx
    from onnx_light import input_name, path_of
    return input_name(onnx.load(path_of(name)))


# ---------------------------------------------------------------------------------- the measurement
class Build:
    """A process of one build that does one row's work."""

    def __init__(self, python, kind, name, models):
        command = [python, "-P", str(HERE / "ab.py"), "--serve", kind, str(name), models]
        env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        self.process = subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ask(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(self.process.args)}: died")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


def measure(row, pythons, args, models):
    """The median ratio of a row."""
    builds = [Build(p, *row, models) for p in pythons]
    try:
        for build in builds:
            build.ask(0)
        times = [[b.ask(args.seconds) for b in builds[::1 - 2 * (k % 2)]][::1 - 2 * (k % 2)]
                 for k in range(args.rounds)]
    finally:
        for build in builds:
            build.close()
    return statistics.median(old / new for old, new in times), min(new for _, new in times)


def write_models(folder, names):
    from onnx_light import random_model
    for name in names:
        path = pathlib.Path(folder) / f"{name}.onnx"
        if not path.exists():
            path.write_bytes(random_model(name).SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", metavar="PYTHON")
    parser.add_argument("--new", metavar="PYTHON", default=sys.executable)
    parser.add_argument("--only", metavar="PATTERN", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(*args.serve)
    if not args.old:
        parser.error("--old PYTHON: whose build is the old one?")
    rows = [r for r in ROWS if re.search(args.only, f"{r[0]} {r[1]}")]
    found = {}
    with tempfile.TemporaryDirectory() as models:
        write_models(models, [n for kind, n in rows if kind == "network"])
        for row in rows:
            ratios = []
            while not ratios or ratios[-1] < LOW and len(ratios) <= AGAIN:
                ratio, seconds = measure(row, (args.old, args.new), args, models)
                ratios.append(ratio)
            name = f"{row[0]} {row[1]}"
            found[name] = {"ratio": round(max(ratios), 4), "seconds": seconds,
                           "times": [round(r, 4) for r in ratios]}
            print(f"{name:30s} {max(ratios):6.3f}   {seconds * 1e6:12.2f} us"
                  f"{'   SLOWER' if max(ratios) < LOW else ''}", flush=True)
    mean = math.exp(statistics.fmean(math.log(f["ratio"]) for f in found.values()))
    slower = [name for name, f in found.items() if f["ratio"] < LOW]
    print(f"{len(found)} rows, geometric mean {mean:.3f} (wanted {1 - MEAN} or more); slower in all of"
          f" {1 + AGAIN} measurements: {', '.join(slower) or 'none'}")
    if args.json:
        lines = ",\n".join(f' "{name}": {json.dumps(row)}' for name, row in found.items())
        pathlib.Path(args.json).write_text(f'{{"mean": {mean:.4f}, "rows": {{\n{lines}\n}}}}\n')
    return int(bool(slower) or mean < 1 - MEAN)


if __name__ == "__main__":
    sys.exit(main())
