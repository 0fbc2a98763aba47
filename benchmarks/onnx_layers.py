"""Single layers of ONNX models beside onnxruntime: columns, dilations along one axis, depthwise.

    python benchmarks/onnx_layers.py --ort ORT_PYTHON [--only NAME ...] [--threads 1] [--rounds 5]
        [--json FILE]

A model is a cheap 1x1 convolution of 3 channels, the layer, batch norm, ReLU and a mean over the
image, so that the layer finds and leaves its image as it does inside a network.  Each system is a
child process that holds the model; a round times some runs of each in turn, the best counts, in
processor time with one thread, else by the clock.  A ratio is pyflow's time by onnxruntime's.
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

# name: image [channels, h, w], filter [out, in, kh, kw], attributes of Conv
LAYERS = {
    "column_8": ((64, 2048, 1), (64, 64, 8, 1), {"pads": [3, 0, 4, 0]}),
    "column_3_stride_2": ((128, 1024, 1), (128, 128, 3, 1), {"pads": [1, 0, 1, 0],
                                                             "strides": [2, 1]}),
    "column_dilated_4": ((64, 1000, 1), (64, 64, 3, 1), {"pads": [4, 0, 4, 0],
                                                         "dilations": [4, 1]}),
    "row_dilated_8": ((128, 1, 1000), (128, 128, 1, 3), {"pads": [0, 8, 0, 8],
                                                         "dilations": [1, 8]}),
    "row_dilated_2_wide": ((512, 1, 300), (512, 512, 1, 3), {"pads": [0, 2, 0, 2],
                                                             "dilations": [1, 2]}),
    "row_dilated_27": ((32, 1, 4000), (32, 32, 1, 3), {"pads": [0, 27, 0, 27],
                                                       "dilations": [1, 27]}),
    "dilated_h_2": ((64, 96, 96), (64, 64, 3, 3), {"pads": [2, 1, 2, 1], "dilations": [2, 1]}),
    "dilated_w_2": ((64, 96, 96), (64, 64, 3, 3), {"pads": [1, 2, 1, 2], "dilations": [1, 2]}),
    "dilated_h_4_by_1": ((64, 128, 64), (64, 64, 3, 1), {"pads": [4, 0, 4, 0],
                                                         "dilations": [4, 1]}),
    "dilated_w_4_by_1": ((64, 64, 128), (64, 64, 1, 3), {"pads": [0, 4, 0, 4],
                                                         "dilations": [1, 4]}),
    "dilated_w_4_few": ((16, 64, 200), (16, 16, 3, 3), {"pads": [1, 4, 1, 4],
                                                        "dilations": [1, 4]}),
    "depth_dilated_h_2": ((96, 56, 56), (96, 1, 3, 3), {"pads": [2, 1, 2, 1],
                                                        "dilations": [2, 1], "group": 96}),
    "depth_row_dilated_4": ((128, 1, 1000), (128, 1, 1, 9), {
        "pads": [0, 16, 0, 16], "dilations": [1, 4], "group": 128}),
    "groups_dilated_w_2": ((64, 56, 56), (64, 16, 3, 3), {"pads": [1, 2, 1, 2],
                                                          "dilations": [1, 2], "group": 4}),
    "depth_stride_2_1": ((96, 48, 320), (96, 1, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 1],
                                                        "group": 96}),
    "depth_5_stride_2_1": ((128, 24, 160), (128, 1, 5, 5), {
        "pads": [2, 2, 2, 2], "strides": [2, 1], "group": 128}),
    "depth_stride_1_2": ((64, 64, 200), (64, 1, 3, 3), {"pads": [1, 1, 1, 1], "strides": [1, 2],
                                                        "group": 64}),
    "depth_stride_2_2": ((96, 112, 112), (96, 1, 3, 3), {"pads": [1, 1, 1, 1],
                                                         "strides": [2, 2], "group": 96}),
    "depth_5_stride_2_2": ((240, 28, 28), (240, 1, 5, 5), {"pads": [2, 2, 2, 2],
                                                           "strides": [2, 2], "group": 240}),
}


def write_model(path, image, filters, attributes):
    """The model of a layer, with random weights."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
    rng, (channels, h, w), outputs = np.random.default_rng(0), image, filters[0]
    arrays = {"first": rng.standard_normal((channels, 3, 1, 1), np.float32),
              "w": rng.standard_normal(filters, np.float32) * 0.1,
              **{k: rng.uniform(0.5, 1.5, outputs).astype(np.float32) for k in "sbmv"}}
    nodes = [helper.make_node("Conv", ["x", "first"], ["i"]),
             helper.make_node("Conv", ["i", "w"], ["c"], **attributes),
             helper.make_node("BatchNormalization", ["c", *"sbmv"], ["n"]),
             helper.make_node("Relu", ["n"], ["r"]),
             helper.make_node("GlobalAveragePool", ["r"], ["y"])]
    float_ = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "layer", [helper.make_tensor_value_info("x", float_, [1, 3, h, w])],
        [helper.make_tensor_value_info("y", float_, None)],
        [numpy_helper.from_array(a, n) for n, a in arrays.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    pathlib.Path(path).write_bytes(made.SerializeToString())


# ---------------------------------------------------------------------- what one child process does
def child(system, threads):
    """Answers requests, one JSON a line: load a model and run it; time it."""
    import numpy as np
    if system == "pyflow":
        import pyflow.interop.onnxruntime as ort
    else:
        import onnxruntime as ort
    clock = time.process_time if threads == 1 else time.perf_counter
    session = feeds = None
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            options = ort.SessionOptions()
            options.intra_op_num_threads, options.log_severity_level = threads, 3
            session = ort.InferenceSession(request["load"], options)
            [x] = session.get_inputs()
            feeds = {x.name: np.random.default_rng(1).standard_normal(x.shape, np.float32)}
            answer = session.run(None, feeds)[0].ravel().tolist()
        else:
            answer, end, count = math.inf, time.perf_counter() + request["seconds"], 0
            while count < 5 or time.perf_counter() < end:
                start = clock()
                session.run(None, feeds)
                answer, count = min(answer, clock() - start), count + 1
        print(json.dumps(answer), flush=True)


# --------------------------------------------------------------------------------------- the parent
class Child:
    """A process that holds a model."""

    def __init__(self, python, system, threads):
        self.process = subprocess.Popen(
            [python, __file__, "--child", system, "--threads", str(threads)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=dict(os.environ, OMP_NUM_THREADS=str(threads)))

    def ask(self, **request):
        """Its answer to a request."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        """Ends it."""
        self.process.stdin.close()
        self.process.wait(20)


def measure(name, children, args, folder):
    """The row of one layer."""
    path = f"{folder}/{name}.onnx"
    write_model(path, *LAYERS[name])
    outputs = {system: one.ask(load=path) for system, one in children.items()}
    scale = max(map(abs, outputs["ort"]))
    apart = max(abs(a - b) for a, b in zip(*outputs.values())) / scale
    times = dict.fromkeys(children, math.inf)
    for _ in range(args.rounds):
        for system, one in children.items():
            times[system] = min(times[system], one.ask(seconds=args.seconds))
    return {"layer": name, "threads": args.threads, "difference": apart, **times,
            "ratio": times["pyflow"] / times["ort"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--child")
    parser.add_argument("--ort", help="a Python with onnxruntime")
    parser.add_argument("--only", nargs="*", default=LAYERS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.child:
        return child(args.child, args.threads)
    children = {system: Child(python, system, args.threads) for system, python in
                (("pyflow", sys.executable), ("ort", args.ort))}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only:
            rows.append(measure(name, children, args, folder))
            row = rows[-1]
            print(f"{name:20} pyflow {row['pyflow'] * 1e3:7.3f} ms, onnxruntime "
                  f"{row['ort'] * 1e3:7.3f} ms, ratio {row['ratio']:.2f}, differs "
                  f"{row['difference']:.0e}", flush=True)
    for one in children.values():
        one.close()
    mean = math.exp(sum(math.log(r["ratio"]) for r in rows) / len(rows))
    print(f"geometric mean {mean:.2f}, worst {max(r['ratio'] for r in rows):.2f}")
    if args.json:
        resultfile.write(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
