"""Pooling beside torch and onnxruntime, in turn.

    python benchmarks/pools.py --torch TORCH_PYTHON --ort ORT_PYTHON [--only max_nchw ...]
        [--threads 1 2] [--seconds 0.1] [--rounds 4] [--json FILE]

Each system is a child process that stays alive; a round asks each in turn, and the best of all
rounds counts.  `ratio` is the faster peer's time divided by pyflow's: above 1 pyflow is faster.
torch runs on tensors of the case's own layout (channels-last for NHWC); onnxruntime knows only
NCHW.  A gradient of maxima is TF's MaxPoolGrad of x, y and dy, which finds the maxima again;
torch's is given the indices its forward pass kept.

With one thread the clock is the process's processor time, which other work on the machine hardly
touches; with more it is the wall's.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import resultfile

# name -> (kind, layout, window, stride, padded: SAME or VALID, shape as n, h, w, c, dtype)
CASES = {
    "max_2x2": ("max", "NHWC", 2, 2, "VALID", (16, 112, 112, 64), "float32"),
    "max_3x3_s2": ("max", "NHWC", 3, 2, "VALID", (16, 113, 113, 64), "float32"),
    "max_3x3_s1": ("max", "NHWC", 3, 1, "SAME", (8, 28, 28, 256), "float32"),
    "max_3x3_s2_small": ("max", "NHWC", 3, 2, "VALID", (1, 29, 29, 256), "float32"),
    "max_of_3_channels": ("max", "NHWC", 2, 2, "VALID", (8, 224, 224, 3), "float32"),
    "max_3x3_of_3_channels": ("max", "NHWC", 3, 2, "VALID", (8, 225, 225, 3), "float32"),
    "max_3x3_s1_of_3_channels": ("max", "NHWC", 3, 1, "SAME", (8, 224, 224, 3), "float32"),
    "max_5x5_s1": ("max", "NHWC", 5, 1, "SAME", (4, 28, 28, 128), "float32"),
    "avg_2x2": ("avg", "NHWC", 2, 2, "VALID", (16, 112, 112, 64), "float32"),
    "avg_3x3_s1": ("avg", "NHWC", 3, 1, "SAME", (16, 56, 56, 64), "float32"),
    "avg_3x3_s2": ("avg", "NHWC", 3, 2, "VALID", (16, 113, 113, 64), "float32"),
    "global_7": ("avg", "NHWC", 7, 7, "VALID", (8, 7, 7, 2048), "float32"),
    "global_32": ("avg", "NHWC", 32, 32, "VALID", (16, 32, 32, 128), "float32"),
    "max_2x2_nchw": ("max", "NCHW", 2, 2, "VALID", (16, 112, 112, 64), "float32"),
    "max_3x3_s2_nchw": ("max", "NCHW", 3, 2, "VALID", (16, 113, 113, 64), "float32"),
    "max_3x3_s1_nchw": ("max", "NCHW", 3, 1, "SAME", (8, 28, 28, 256), "float32"),
    "max_3x3_s2_nchw_small": ("max", "NCHW", 3, 2, "VALID", (1, 29, 29, 256), "float32"),
    "max_of_3_channels_nchw": ("max", "NCHW", 2, 2, "VALID", (8, 224, 224, 3), "float32"),
    "avg_2x2_nchw": ("avg", "NCHW", 2, 2, "VALID", (16, 112, 112, 64), "float32"),
    "avg_3x3_s1_nchw": ("avg", "NCHW", 3, 1, "SAME", (16, 56, 56, 64), "float32"),
    "avg_3x3_s1_nchw_small": ("avg", "NCHW", 3, 1, "SAME", (1, 35, 35, 192), "float32"),
    "avg_3x3_s2_nchw": ("avg", "NCHW", 3, 2, "VALID", (16, 113, 113, 64), "float32"),
    "global_7_nchw": ("avg", "NCHW", 7, 7, "VALID", (8, 7, 7, 2048), "float32"),
    "global_7_nchw_one": ("avg", "NCHW", 7, 7, "VALID", (1, 7, 7, 1024), "float32"),
    "global_13_nchw": ("avg", "NCHW", 13, 13, "VALID", (1, 13, 13, 1000), "float32"),
    "global_32_nchw": ("avg", "NCHW", 32, 32, "VALID", (16, 32, 32, 128), "float32"),
    "mean_7": ("mean", "NHWC", 7, 7, "VALID", (8, 7, 7, 2048), "float32"),
    "mean_7_nchw": ("mean", "NCHW", 7, 7, "VALID", (8, 7, 7, 2048), "float32"),
    "mean_7_nchw_one": ("mean", "NCHW", 7, 7, "VALID", (1, 7, 7, 1024), "float32"),
    "mean_32": ("mean", "NHWC", 32, 32, "VALID", (16, 32, 32, 128), "float32"),
    "mean_32_nchw": ("mean", "NCHW", 32, 32, "VALID", (16, 32, 32, 128), "float32"),
    "max_gradient_2x2": ("max_gradient", "NHWC", 2, 2, "VALID", (16, 112, 112, 64), "float32"),
    "max_gradient_3x3_s2": ("max_gradient", "NHWC", 3, 2, "VALID", (16, 113, 113, 64), "float32"),
    "max_gradient_3x3_s1": ("max_gradient", "NHWC", 3, 1, "SAME", (8, 28, 28, 256), "float32"),
    "max_gradient_2x2_nchw": ("max_gradient", "NCHW", 2, 2, "VALID", (16, 112, 112, 64), "float32"),
    "max_gradient_3x3_nchw": ("max_gradient", "NCHW", 3, 2, "VALID", (8, 113, 113, 64), "float32"),
    "max_gradient_3x3_s1_nchw": ("max_gradient", "NCHW", 3, 1, "SAME", (8, 28, 28, 256),
                                 "float32"),
    "avg_gradient_2x2": ("avg_gradient", "NHWC", 2, 2, "VALID", (16, 112, 112, 64), "float32"),
    "avg_gradient_3x3_s1": ("avg_gradient", "NHWC", 3, 1, "SAME", (16, 56, 56, 64), "float32"),
    "avg_gradient_2x2_nchw": ("avg_gradient", "NCHW", 2, 2, "VALID", (16, 112, 112, 64), "float32"),
    "avg_gradient_3x3_s1_nchw": ("avg_gradient", "NCHW", 3, 1, "SAME", (8, 28, 28, 256), "float32"),
    "max_2x2_bfloat16": ("max", "NHWC", 2, 2, "VALID", (16, 112, 112, 64), "bfloat16"),
    "avg_2x2_bfloat16": ("avg", "NHWC", 2, 2, "VALID", (16, 112, 112, 64), "bfloat16"),
    "max_3x3_s2_float16": ("max", "NHWC", 3, 2, "VALID", (16, 113, 113, 64), "float16"),
}


# ---------------------------------------------------------------------- what one child process does
def sizes(case):
    """-> shape and result's shape, in the case's own layout."""
    _, layout, k, s, padding, (n, h, w, c), _ = case
    out = [(v - k) // s + 1 if padding == "VALID" else -(-v // s) for v in (h, w)]
    if layout == "NHWC":
        return (n, h, w, c), (n, *out, c)
    return (n, c, h, w), (n, c, *out)


def random(shape):
    import numpy as np

    return np.random.default_rng(1).standard_normal(shape, np.float32)


def pyflow_work(case, threads):
    import pyflow as tf

    kind, layout, k, s, padding, _, dtype = case
    shape, out = sizes(case)
    feeds = [random(v).astype(tf.as_dtype(dtype).as_numpy_dtype) for v in (shape, out)]
    window, stride = ([1, v, v, 1] if layout == "NHWC" else [1, 1, v, v] for v in (k, s))
    config = tf.ConfigProto(intra_op_parallelism_threads=threads,
                            inter_op_parallelism_threads=threads)
    session = tf.Session(graph=tf.Graph(), config=config)
    with session.graph.as_default():
        x, dy = [tf.placeholder(dtype, v.shape) for v in feeds]
        if kind == "mean":
            axes = [1, 2] if layout == "NHWC" else [2, 3]
            call = session.make_callable(tf.reduce_mean(x, axes, keepdims=True), [x])
            return lambda: call(feeds[0])
        pool = tf.nn.max_pool if kind.startswith("max") else tf.nn.avg_pool
        y = pool(x, window, stride, padding, data_format=layout)
        if not kind.endswith("gradient"):
            call = session.make_callable(y, [x])
            return lambda: call(feeds[0])
        if kind == "avg_gradient":
            call = session.make_callable(tf.gradients(y, x, dy)[0], [dy])
            return lambda: call(feeds[1])
        maxima = tf.placeholder(dtype, out)
        dx = tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=maxima, grad=dy, ksize=window,
                                    strides=stride, padding=padding, data_format=layout)
        call = session.make_callable(dx, [x, maxima, dy])
        kept = np_array(session.run(y, {x: feeds[0]}))
        return lambda: call(feeds[0], kept, feeds[1])


def np_array(value):
    import numpy as np

    return np.array(value)


def torch_work(case, threads):
    import torch

    kind, layout, k, s, padding, _, dtype = case
    torch.set_num_threads(threads)
    before = k // 2 if padding == "SAME" else 0
    x, dy = [torch.from_numpy(random(v)).to(getattr(torch, dtype)) for v in sizes(case)]
    if layout == "NHWC":
        x, dy = [v.permute(0, 3, 1, 2) for v in (x, dy)]
    functional = torch.nn.functional
    if kind == "max":
        # without indices where the layout allows it
        return no_grad(torch, lambda: functional.max_pool2d(x, k, s, before))
    if kind in ("avg", "mean"):
        if tuple(x.shape[2:]) == (k, k):
            return no_grad(torch, lambda: functional.adaptive_avg_pool2d(x, 1))
        return no_grad(torch, lambda: functional.avg_pool2d(x, k, s, before,
                                                            count_include_pad=False))
    if kind == "max_gradient":
        _, at = functional.max_pool2d(x, k, s, before, return_indices=True)
        return no_grad(torch, lambda: torch.ops.aten.max_pool2d_with_indices_backward(
            dy, x, [k, k], [s, s], [before, before], [1, 1], False, at))
    return no_grad(torch, lambda: torch.ops.aten.avg_pool2d_backward(
        dy, x, [k, k], [s, s], [before, before], False, False, None))


def no_grad(torch, run):
    def call():
        with torch.no_grad():
            run()
    return call


def ort_work(case, threads):
    import onnxruntime
    from onnx import TensorProto, helper

    kind, layout, k, s, padding, _, dtype = case
    if layout != "NCHW" or kind.endswith("gradient") or dtype != "float32":
        return None
    shape, out = sizes(case)
    attributes = {"kernel_shape": [k, k], "strides": [s, s]}
    if padding == "SAME":
        attributes["auto_pad"] = "SAME_UPPER"
    op = "MaxPool" if kind == "max" else "AveragePool"
    if kind != "max" and shape[2:] == (k, k):
        op, attributes = "GlobalAveragePool", {}
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], **attributes)], "pool",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(random(shape)))
    binding.bind_ortvalue_output(
        "y", onnxruntime.OrtValue.ortvalue_from_shape_and_type(out, np_float32(), "cpu"))
    return lambda: session.run_with_iobinding(binding)


def np_float32():
    import numpy as np

    return np.float32


WORKS = {"pyflow": pyflow_work, "torch": torch_work, "ort": ort_work}


def best_of(call, seconds, clock):
    """Seconds of a call, the best of bundles of a millisecond: processor clocks may be coarse."""
    call()
    best, start = float("inf"), time.perf_counter()
    call()
    n = max(1, int(1e-3 / (time.perf_counter() - start)))
    end = start + seconds
    for i in range(1 << 30):
        start = clock()
        for _ in range(n):
            call()
        best = min(best, (clock() - start) / n)
        if i > 1 and time.perf_counter() > end:
            return best


def serve(system, threads):
    """A request a line: [case, seconds]; the answer: seconds of its best run, or null."""
    answers = os.fdopen(os.dup(1), "w")     # libraries may print what they like
    os.dup2(2, 1)
    clock = time.process_time if threads == 1 else time.perf_counter
    works = {}
    for line in sys.stdin:
        name, seconds = json.loads(line)
        if name not in works:
            works.clear()
            works[name] = WORKS[system](CASES[name], threads)
        work = works[name]
        print(json.dumps(work and best_of(work, seconds, clock)), file=answers, flush=True)


# ---------------------------------------------------------------------- the parent
class Child:
    def __init__(self, system, python, threads):
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
        self.process = subprocess.Popen(
            [python, __file__, "--serve", system, "--threads", str(threads)], env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, name, seconds):
        self.process.stdin.write(json.dumps([name, seconds]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(children, name, args):
    """-> {system: milliseconds}"""
    best = {}
    for _ in range(args.rounds):
        for system, child in children.items():
            found = child.ask(name, args.seconds)
            if len(children) > 1 and child is not children["pyflow"]:
                time.sleep(0.03)            # its threads go to sleep
            if found is not None:
                best[system] = min(best.get(system, float("inf")), found * 1e3)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--torch", help="a Python that has torch")
    parser.add_argument("--ort", help="a Python that has onnxruntime and onnx")
    parser.add_argument("--only", nargs="*", default=[""], help="parts of case names")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json", type=pathlib.Path, help="where results are kept")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(args.serve, args.threads[0])
    pythons = {"pyflow": sys.executable, "torch": args.torch, "ort": args.ort}
    rows = []
    for threads in args.threads:
        children = {s: Child(s, python, threads) for s, python in pythons.items() if python}
        for name in (n for n in CASES if any(part in n for part in args.only)):
            best = compare(children, name, args)
            peers = [best[s] for s in best if s != "pyflow"]
            ratio = min(peers) / best["pyflow"] if peers else None
            rows.append({"case": name, "threads": threads, "ratio": ratio, "ms": best})
            print(f"{name:26} {threads} thr  " +
                  "  ".join(f"{s} {best[s]:8.3f}" if s in best else " " * (9 + len(s))
                            for s in pythons) +
                  (f" ms  ratio {ratio:.2f}" if peers else ""), flush=True)
        for child in children.values():
            child.close()
    if args.json:
        resultfile.write(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
