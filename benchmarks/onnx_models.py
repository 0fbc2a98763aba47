"""Nine networks of the `onnx` package with random weights: agreement and time beside onnxruntime.

    python benchmarks/onnx_models.py --ort ORT_PYTHON [--only resnet50 ...] [--threads 1 2]
        [--rounds 7] [--check] [--json FILE] [--models DIR]

Each system is a child process that holds the model in memory; a round times a few images of each
in turn, and the best of all rounds counts.  Batch 1, NumPy array in, NumPy array out.  A ratio is
pyflow's time divided by onnxruntime's: below 1 pyflow is faster.  --check only compares outputs.
--cpu takes the processor time of the process instead of the clock: with one thread it is the same
on an idle machine, and holds on a busy one; with two, onnxruntime's waiting threads spoil both.
--models keeps the models (1.6 GB) in a folder for the next run.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import resultfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "onnx"))

from onnx_light import NAMES, image, input_name, path_of, random_model  # noqa: E402

TOLERANCE = 1e-4        # of the largest value


# ---------------------------------------------------------------------- what one child process does
def load_pyflow(path, threads, name):
    import pyflow as tf
    from pyflow.interop import onnx
    config = tf.ConfigProto(intra_op_parallelism_threads=threads,
                            inter_op_parallelism_threads=threads)
    with tf.Graph().as_default() as graph:
        model = onnx.import_model(path)
        session = tf.Session(graph=graph, config=config)
        return session.make_callable(list(model.outputs.values()),
                                     feed_list=[model.inputs[name]])


def load_ort(path, threads, name):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {name: x})


def child(system):
    """Answers requests, one JSON a line: load a model, run it, time it."""
    import numpy as np
    call = x = None
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            load = load_pyflow if system == "pyflow" else load_ort
            call = load(request["load"], request["threads"], request["input"])
            x = image(None)
            outputs = call(x)
            np.savez(request["save"], *outputs)
            answer = [list(o.shape) for o in outputs]
        else:
            clock = time.process_time if request["cpu"] else time.perf_counter
            answer = best(call, x, request["seconds"], clock)
        print(json.dumps(answer), flush=True)


def best(call, x, seconds, clock):
    """Seconds of the fastest call in about `seconds`, at least two."""
    fastest, end, count = math.inf, time.perf_counter() + seconds, 0
    while count < 2 or time.perf_counter() < end:
        start = clock()
        call(x)
        fastest = min(fastest, clock() - start)
        count += 1
    return fastest


# --------------------------------------------------------------------------------------- the parent
class Child:
    def __init__(self, python, system, threads):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads))
        self.process = subprocess.Popen([python, __file__, "--child", system], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a child process died")
        return json.loads(line)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)


def difference(folder):
    """The largest difference of any output, relative to its largest value, and their spread."""
    import numpy as np
    ours, theirs = (np.load(f"{folder}/{s}.npz") for s in ("pyflow", "ort"))
    worst = max(float(np.abs(ours[k] - theirs[k]).max() / np.abs(theirs[k]).max())
                for k in theirs.files)
    return worst, float(theirs[theirs.files[-1]].std())


def measure(name, threads, args, folder):
    import onnx
    path = f"{folder}/{name}.onnx"
    if not os.path.exists(path):
        with open(path, "wb") as file:
            file.write(random_model(name).SerializeToString())
    feed = input_name(onnx.load(path_of(name)))
    children = {s: Child(p, s, threads) for s, p in (("pyflow", sys.executable),
                                                     ("ort", args.ort))}
    for system, process in children.items():
        process.ask(load=path, threads=threads, input=feed, save=f"{folder}/{system}.npz")
    apart, spread = difference(folder)
    result = {"model": name, "threads": threads, "difference": apart, "spread": spread}
    if not args.check:
        times = {s: math.inf for s in children}
        for _ in range(args.rounds):
            for system, process in children.items():
                times[system] = min(times[system], process.ask(
                    seconds=args.seconds, cpu=args.cpu))
        result.update(times, ratio=times["pyflow"] / times["ort"])
    for process in children.values():
        process.close()
    return result


def show(result):
    text = f"{result['model']:14} {result['threads']} thread" \
           f"{'s' if result['threads'] > 1 else ' '}  differs {result['difference']:.1e}" \
           f"{'' if result['difference'] <= TOLERANCE else ' TOO MUCH'}, " \
           f"logits spread {result['spread']:6.2f}"
    if "ratio" in result:
        text += f"   pyflow {result['pyflow'] * 1e3:7.1f} ms, onnxruntime " \
                f"{result['ort'] * 1e3:7.1f} ms, ratio {result['ratio']:.2f}"
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--child")
    parser.add_argument("--ort", help="a Python with onnxruntime")
    parser.add_argument("--only", nargs="*", default=NAMES)
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--models")
    args = parser.parse_args()
    if args.child:
        return child(args.child)
    results = []
    with tempfile.TemporaryDirectory() as own:
        for name in args.only:
            for threads in args.threads[:1] if args.check else args.threads:
                results.append(measure(name, threads, args, args.models or own))
                show(results[-1])
            if not args.models:
                os.remove(f"{own}/{name}.onnx")
    for threads in args.threads:
        ratios = [r["ratio"] for r in results if r["threads"] == threads and "ratio" in r]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{threads} threads: geometric mean {mean:.3f}, worst {max(ratios):.2f}")
    if args.json:
        resultfile.write(args.json, results)
    return 0 if all(r["difference"] <= TOLERANCE for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
