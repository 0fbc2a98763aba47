"""Forests of decision trees beside onnxruntime: agreement and time, for batches of 1, 100 and 10,000.

    python benchmarks/trees.py --ort ORT_PYTHON [--only depth6 ...] [--threads 1 2] [--rounds 5]
        [--seconds 0.4] [--json FILE]

ORT_PYTHON has onnxruntime and onnx.  Each round starts a fresh process per system, which loads the
model; the two are timed in turn, and a row has the medians of the rounds.  A call never sees the
samples of the call before: processors remember which way a tree's branches went.  NumPy array in,
NumPy array out.  A ratio is pyflow's time divided by onnxruntime's: below 1 pyflow is faster.
Prints a JSON line per row.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import resultfile

FEATURES = 30
BATCHES = {1: 256, 100: 32, 10000: 3}   # samples: how many such batches are fed in turn
TOLERANCE = 1e-5                        # of the largest score
FORESTS = {                             # trees, leaves of each, all at one depth, missing values
    "depth6": (100, 64, True, False),
    "depth8": (500, 256, True, False),
    "leaves32": (1000, 32, False, False),
    "leaves32_missing": (1000, 32, False, True),
}


# ------------------------------------------------------------------------------------------ models
def children_of(rng, leaves, even):
    """{node: (true child, false child)} of a tree; nodes are split at random unless `even`."""
    children, waiting, count = {}, [0], 1
    while len(waiting) < leaves:
        at = waiting.pop(0 if even else int(rng.integers(len(waiting))))
        children[at] = count, count + 1
        waiting += [count, count + 1]
        count += 2
    return children, count


def attributes_of(name):
    """Attributes of a TreeEnsembleRegressor."""
    import numpy as np
    trees, leaves, even, missing = FORESTS[name]
    rng = np.random.default_rng(trees)
    nodes, weights = [], []
    for tree in range(trees):
        children, count = children_of(rng, leaves, even)
        for at in range(count):
            inner = at in children
            true, false = children.get(at, (0, 0))
            nodes.append((tree, at, int(rng.integers(FEATURES)) if inner else 0,
                          float(np.float32(rng.standard_normal() * 0.7)) if inner else 0.0,
                          true, false, "BRANCH_LEQ" if inner else "LEAF",
                          int(inner and missing and rng.integers(2))))
            if not inner:
                weights.append((tree, at, 0, float(np.float32(rng.standard_normal()))))
    made = dict(zip(("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values",
                     "nodes_truenodeids", "nodes_falsenodeids", "nodes_modes",
                     "nodes_missing_value_tracks_true"), map(list, zip(*nodes))))
    made.update(zip(("target_treeids", "target_nodeids", "target_ids", "target_weights"),
                    map(list, zip(*weights))))
    if not missing:
        del made["nodes_missing_value_tracks_true"]
    return {**made, "n_targets": 1}


def write_model(name, path):
    from onnx import TensorProto, helper
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml",
                            **attributes_of(name))
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
            for n, s in (("x", ["n", FEATURES]), ("y", ["n", 1]))]
    model = helper.make_model(helper.make_graph([node], "g", info[:1], info[1:]), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 18),
                                             helper.make_opsetid("ai.onnx.ml", 3)])
    with open(path, "wb") as file:
        file.write(model.SerializeToString())


def batches_of(count, missing):
    import numpy as np
    rng = np.random.default_rng(count)
    made = []
    for _ in range(BATCHES[count]):
        x = rng.standard_normal((count, FEATURES)).astype(np.float32)
        if missing:
            x[rng.random(x.shape) < 0.1] = np.nan
        made.append(x)
    return made


# ---------------------------------------------------------------------- what one child process does
def load_pyflow(path, threads):
    import pyflow as tf
    from pyflow.interop import onnx
    config = tf.ConfigProto(intra_op_parallelism_threads=threads,
                            inter_op_parallelism_threads=threads)
    with tf.Graph().as_default() as graph:
        model = onnx.import_model(path)
        session = tf.Session(graph=graph, config=config)
        return session.make_callable(list(model.outputs.values()),
                                     feed_list=list(model.inputs.values()))


def load_ort(path, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})


def child(system):
    """Answers requests, one JSON a line: write a model, load it, time a batch."""
    import numpy as np
    call = missing = None
    held = {}
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        request, answer = json.loads(line), None
        if "write" in request:
            write_model(request["write"], request["path"])
        elif "load" in request:
            call = (load_pyflow if system == "pyflow" else load_ort)(request["load"],
                                                                     request["threads"])
            missing = request["missing"]
        else:
            count = request["batch"]
            if count not in held:
                held[count] = batches_of(count, missing)
                np.save(request["save"], call(held[count][-1])[0])
            answer = median(call, held[count], request["seconds"])
        print(json.dumps(answer), flush=True)


def median(call, batches, seconds):
    """Median seconds of the calls in about `seconds`, at least three."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        x = batches[len(times) % len(batches)]
        start = time.perf_counter()
        call(x)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


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


def measure(name, threads, args, path, folder):
    """Rows of one forest, a row a batch."""
    import numpy as np
    times, apart = {}, {}
    for _ in range(args.rounds):
        children = {s: Child(p, s, threads) for s, p in (("pyflow", sys.executable),
                                                         ("ort", args.ort))}
        for system in children.values():
            system.ask(load=path, threads=threads, missing=FORESTS[name][3])
        for batch in BATCHES:
            for _ in range(2):
                for system, process in children.items():
                    times.setdefault((system, batch), []).append(process.ask(
                        batch=batch, seconds=args.seconds / 2, save=f"{folder}/{system}.npy"))
            ours, theirs = (np.load(f"{folder}/{s}.npy") for s in children)
            apart[batch] = float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1))
        for process in children.values():
            process.close()
    rows = []
    for batch in BATCHES:
        ours, theirs = (statistics.median(times[s, batch]) for s in ("pyflow", "ort"))
        rows.append({"forest": name, "batch": batch, "threads": threads, "difference": apart[batch],
                     "pyflow": ours, "ort": theirs, "ratio": ours / theirs})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--child")
    parser.add_argument("--ort", help="a Python with onnxruntime and onnx")
    parser.add_argument("--only", nargs="*", default=list(FORESTS))
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.child:
        return child(args.child)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        maker = Child(args.ort, "ort", 1)
        for name in args.only:
            path = f"{folder}/{name}.onnx"
            maker.ask(write=name, path=path)
            for threads in args.threads:
                for row in measure(name, threads, args, path, folder):
                    results.append(row)
                    print(json.dumps(row), flush=True)
        maker.close()
    for threads in args.threads:
        ratios = [r["ratio"] for r in results if r["threads"] == threads]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{threads} threads: geometric mean {mean:.3f}, worst {max(ratios):.2f}")
    if args.json:
        resultfile.write(args.json, results)
    return 0 if all(r["difference"] <= TOLERANCE for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
