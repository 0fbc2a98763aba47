"""What it takes to open an ONNX model and run it once, beside onnxruntime, and the memory of that.

    python benchmarks/onnx_load.py --ort ORT_PYTHON [--models DIR] [--only NAME ...]
        [--files PATH ...] [--size NAME=N ...] [--rounds 5] [--threads 2] [--json FILE]

Each measurement is a fresh process, the two systems in turn, and the median of the rounds counts.
Both open the model through InferenceSession and run it once on the same array.  Times are seconds:
`import`, of the package; `load`, of the session; `first`, of the first run; `cpu`, the processor's
for the last two, which says nearly the same on a busy machine; `peak` is the most memory that the
process had resident at any time (ru_maxrss, MB), `rest` what it has after the run.  A ratio is
pyflow's divided by onnxruntime's, `load` and `first` together.

The models are the nine networks of the `onnx` package with random weights, made in a child process
and kept in --models, and whatever files are named.  A symbolic size of an input is 1, or what
--size NAME=N says.
"""
import argparse
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import resultfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "onnx"))

from onnx_light import NAMES  # noqa: E402

TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16",
         "tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(uint8)": "uint8",
         "tensor(int8)": "int8", "tensor(bool)": "bool"}
MB = 1024.0


# ---------------------------------------------------------------------- what one child process does
def feeds_of(session, sizes):
    """Random numbers for all inputs, the same in both systems."""
    import numpy as np
    rng, feeds = np.random.default_rng(1), {}
    for arg in session.get_inputs():
        shape = [d if isinstance(d, int) else sizes.get(d, 1) for d in arg.shape]
        dtype = np.dtype(TYPES[arg.type])
        feeds[arg.name] = (rng.standard_normal(shape) if dtype.kind == "f" else
                           rng.integers(0, 2, shape)).astype(dtype)
    return feeds


def resident():
    """MB of this process in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1024 / MB


def child(system, path, threads, sizes, save):
    """Opens the model, runs it, prints one line of JSON."""
    import numpy as np
    begun = time.perf_counter()
    if system == "pyflow":
        import pyflow.interop.onnxruntime as ort
    else:
        import onnxruntime as ort
    imported = time.perf_counter()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    begun_cpu = time.process_time()
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    loaded, cpu = time.perf_counter(), time.process_time() - begun_cpu
    feeds = feeds_of(session, sizes)
    fed, begun_cpu = time.perf_counter(), time.process_time()
    outputs = session.run(None, feeds)
    done, cpu = time.perf_counter(), cpu + time.process_time() - begun_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MB
    if save:
        np.savez(save, *outputs)
    print(json.dumps({"import": imported - begun, "load": loaded - imported,
                      "first": done - fed, "cpu": cpu, "peak": peak, "rest": resident()}))


# --------------------------------------------------------------------------------------- the parent
def ask(python, system, path, args, save=""):
    """One fresh process."""
    command = [python, __file__, "--child", system, "--threads", str(args.threads), "--save", save,
               "--size", *args.size, "--files", path]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True,
                          env=dict(os.environ, OMP_NUM_THREADS=str(args.threads)))
    return json.loads(done.stdout.splitlines()[-1])


def difference(folder):
    """The largest difference of any output, relative to its largest value."""
    import numpy as np
    ours, theirs = (np.load(f"{folder}/{s}.npz") for s in ("pyflow", "ort"))
    worst = 0.0
    for key in theirs.files:
        if theirs[key].dtype.kind == "f" and theirs[key].size:
            scale = float(np.abs(theirs[key]).max()) or 1.0
            worst = max(worst, float(np.abs(ours[key] - theirs[key]).max()) / scale)
    return worst


def measure(path, args, folder):
    """The row of one model."""
    pythons = {"pyflow": sys.executable, "ort": args.ort}
    found = {system: [] for system in pythons}
    for turn in range(args.rounds + 1):         # the first fills the caches of files
        for system, python in pythons.items():
            save = "" if turn else f"{folder}/{system}.npz"
            row = ask(python, system, path, args, save)
            if turn:
                found[system].append(row)
    path = pathlib.Path(path)
    name = path.parent.name if path.stem == "model" else path.stem
    made = {"model": name, "threads": args.threads, "MB": os.path.getsize(path) / MB / 1024,
            "difference": difference(folder)}
    for system, rows in found.items():
        made[system] = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
    ours, theirs = made["pyflow"], made["ort"]
    made["time"] = (ours["load"] + ours["first"]) / (theirs["load"] + theirs["first"])
    made["cpu"] = ours["cpu"] / theirs["cpu"]
    made["peak"] = ours["peak"] / theirs["peak"]
    return made


def show(row):
    """The row as a line."""
    text = f"{row['model'][:28]:28} {row['MB']:6.1f} MB"
    for system in ("pyflow", "ort"):
        m = row[system]
        text += (f"  {system}: {m['import'] * 1e3:4.0f} + {m['load'] * 1e3:5.0f} + "
                 f"{m['first'] * 1e3:4.0f} ms, {m['peak']:5.0f} ({m['rest']:4.0f}) MB")
    print(f"{text}  time {row['time']:5.2f}  cpu {row['cpu']:.2f}  peak {row['peak']:.2f}  differs "
          f"{row['difference']:.0e}", flush=True)


def light(args, own):
    """Paths of the nine networks, made where they are not yet."""
    folder = args.models or own
    missing = [n for n in args.only if not os.path.exists(f"{folder}/{n}.onnx")]
    if missing:
        code = ("import sys; sys.path.insert(0, sys.argv[1]); import onnx_light as l\n"
                "for n in sys.argv[3:]: open(f'{sys.argv[2]}/{n}.onnx', 'wb').write("
                "l.random_model(n).SerializeToString())")
        os.makedirs(folder, exist_ok=True)
        subprocess.run([sys.executable, "-c", code, HERE.parent / "tests" / "onnx", folder,
                        *missing], check=True)
    return [f"{folder}/{name}.onnx" for name in args.only]


def mean(values):
    """Geometric."""
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--child")
    parser.add_argument("--ort", help="a Python with onnxruntime")
    parser.add_argument("--models", help="where the nine networks are kept")
    parser.add_argument("--only", nargs="*", default=NAMES)
    parser.add_argument("--files", nargs="*", default=[])
    parser.add_argument("--size", nargs="*", default=[], metavar="NAME=N")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", default="")
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.child:
        sizes = {name: int(n) for name, _, n in (s.partition("=") for s in args.size)}
        return child(args.child, args.files[0], args.threads, sizes, args.save)
    rows = []
    with tempfile.TemporaryDirectory() as own:
        for path in [*light(args, own), *args.files]:
            rows.append(measure(path, args, own))
            show(rows[-1])
    print(f"geometric means: time {mean([r['time'] for r in rows]):.2f}, "
          f"cpu {mean([r['cpu'] for r in rows]):.2f}, "
          f"peak {mean([r['peak'] for r in rows]):.2f}, import "
          f"{mean([r['pyflow']['import'] / r['ort']['import'] for r in rows]):.2f}")
    if args.json:
        resultfile.write(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
