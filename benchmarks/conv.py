"""Convolutions beside onnxruntime (forward) and torch (both gradients), layer by layer.

    python benchmarks/conv.py --ort ORT_PYTHON --torch TORCH_PYTHON [--all] [--net resnet50 ...]
        [--batch 1 8] [--threads 1 2] [--pass forward input filter] [--seconds 0.05] [--rounds 4]
        [--json FILE]

Each system is a child process that stays alive; a round asks each in turn, and the best of all
rounds counts.  A layer's ratio is the peer's time divided by pyflow's: above 1 pyflow is faster.
Networks are judged by the geometric mean over their layers, each as often as it occurs.

What is measured: one convolution, its operands in memory, its result left in the system's own
buffers.  Forward, filters are constants (both pack them once); in the gradients they are inputs.
pyflow's layout is NHWC.  Peers may choose: onnxruntime runs once as a model of one Conv and, where
its blocked kernel takes the shape, as that kernel alone, without the reordering of images around
it; torch runs on contiguous and on channels-last tensors.  The faster form counts.

With one thread the clock is the process's processor time, which other work on the machine hardly
touches; with more it is the wall's, and the next system's turn begins when the last one's waiting
threads sleep (onnxruntime's look for work for some 25 ms).

Without --all: a sample of layers, batch 1.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time

import resultfile
from conv_shapes import NETWORKS, Layer
from turns import settle

MAIN = ("resnet50", "inception_v1", "inception_v2", "vgg19", "mobilenet_v1")
SAMPLE = [
    Layer(224, 3, 7, 2, 3, 64, 1, 1), Layer(56, 64, 1, 1, 0, 256, 1, 1),
    Layer(56, 64, 3, 1, 1, 64, 1, 1), Layer(28, 512, 1, 1, 0, 128, 1, 1),
    Layer(14, 256, 3, 1, 1, 256, 1, 1), Layer(14, 512, 3, 2, 1, 512, 1, 1),
    Layer(7, 512, 3, 1, 1, 512, 1, 1), Layer(13, 112, 3, 1, 1, 224, 1, 1),
    Layer(27, 16, 5, 1, 2, 32, 1, 1), Layer(28, 256, 3, 1, 1, 512, 1, 1),
]
PEER = {"forward": "ort", "input": "torch", "filter": "torch"}


# ---------------------------------------------------------------------- what one child process does
def arrays(layer, batch):
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, layer.size, layer.size, layer.channels), np.float32)
    w = rng.standard_normal(
        (layer.kernel, layer.kernel, layer.channels // layer.groups, layer.out), np.float32)
    dy = rng.standard_normal((batch, layer.result, layer.result, layer.out), np.float32)
    return x, w, dy


def pyflow_work(layer, batch, which, threads):
    """-> functions to time."""
    import pyflow as tf

    x, w, dy = arrays(layer, batch)
    attrs = dict(strides=[1, layer.stride, layer.stride, 1],
                 padding=[[0, 0], [layer.pad] * 2, [layer.pad] * 2, [0, 0]])
    with tf.Graph().as_default() as graph:
        if layer.groups == layer.channels > 1:
            shape = (layer.kernel, layer.kernel, layer.channels, 1)
            given = [x, w.reshape(shape), dy]
            ins = [tf.placeholder(tf.float32, a.shape) for a in given]
            forward, kernel = tf.nn.depthwise_conv2d, tf.constant(given[1])
            back = (tf.nn.depthwise_conv2d_backprop_input, tf.nn.depthwise_conv2d_backprop_filter)
        else:
            given, shape = [x, w, dy], w.shape
            ins = [tf.placeholder(tf.float32, a.shape) for a in given]
            forward, kernel = tf.nn.conv2d, tf.constant(w)
            back = tf.nn.conv2d_backprop_input, tf.nn.conv2d_backprop_filter
        if which == "forward":
            y, used = forward(ins[0], kernel, **attrs), [0]
        elif which == "input":
            y, used = back[0](x.shape, ins[1], ins[2], **attrs), [1, 2]
        else:
            y, used = back[1](ins[0], shape, ins[2], **attrs), [0, 2]
        config = tf.ConfigProto(intra_op_parallelism_threads=threads,
                                inter_op_parallelism_threads=threads)
        session = tf.Session(graph=graph, config=config)
        call = session.make_callable(y.op, feed_list=[ins[i] for i in used])
    given = [given[i] for i in used]
    return [lambda: call(*given)]


def ort_session(model, threads):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options,
                                providers=["CPUExecutionProvider"])


def ort_model(layer, batch, w, domain):
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node("Conv", ["x", "w"], ["y"], domain=domain,
                            kernel_shape=[layer.kernel] * 2, strides=[layer.stride] * 2,
                            pads=[layer.pad] * 4, group=layer.groups)
    shapes = ((batch, layer.channels, layer.size, layer.size),
              (batch, layer.out, layer.result, layer.result))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip("xy", shapes))
    graph = helper.make_graph([node], "conv", [x], [y], [numpy_helper.from_array(w, "w")])
    imports = [helper.make_opsetid("", 13)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def ort_work(layer, batch, which, threads):
    import numpy as np
    import onnxruntime as ort

    x, w, _ = arrays(layer, batch)
    x, w = (np.ascontiguousarray(np.transpose(a, p)) for a, p in ((x, (0, 3, 1, 2)),
                                                                  (w, (3, 2, 0, 1))))
    works = []
    blocked = layer.out % 16 == 0 and layer.groups == 1 and (
        layer.channels % 16 == 0 or layer.channels < 16)
    for domain in ("", "com.microsoft.nchwc") if blocked else ("",):
        session = ort_session(ort_model(layer, batch, w, domain), threads)
        binding = session.io_binding()
        y = np.empty((batch, layer.out, layer.result, layer.result), np.float32)
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x))
        binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(y))
        works.append(lambda s=session, b=binding: s.run_with_iobinding(b))
    return works


def torch_work(layer, batch, which, threads):
    import numpy as np
    import torch

    torch.set_num_threads(threads)
    x, w, dy = (torch.from_numpy(np.ascontiguousarray(np.transpose(a, p)))
                for a, p in zip(arrays(layer, batch), ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))))
    wanted = [which == "input", which == "filter", False]
    works = []
    for form in (torch.contiguous_format, torch.channels_last):
        given = [t.contiguous(memory_format=form) for t in (dy, x, w)]

        def run(given=given):
            with torch.no_grad():
                torch.ops.aten.convolution_backward(
                    *given, [0], [layer.stride] * 2, [layer.pad] * 2, [1, 1], False, [0, 0],
                    layer.groups, wanted)

        works.append(run)
    return works


def time_works(works, seconds, clock):
    """Least seconds of any of them; those far behind at the first look are left out."""
    first = []
    for work in works:
        work()
        start = clock()
        work()
        first.append(clock() - start)
    for i in reversed(range(len(works))):
        if first[i] > 2 * min(first):
            del works[i], first[i]
    best, least, end = min(first), 2, time.perf_counter() + seconds
    while least > 0 or time.perf_counter() < end:
        least -= 1
        for work in works:
            start = clock()
            work()
            best = min(best, clock() - start)
    return best


def serve(name, threads):
    """Answers {"layer": [...], "batch": n, "which": pass, "seconds": s} lines with seconds."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    make = {"pyflow": pyflow_work, "ort": ort_work, "torch": torch_work}[name]
    clock = time.process_time if threads == 1 else time.perf_counter
    key, works = None, None
    for line in sys.stdin:
        request = json.loads(line)
        asked = (*request["layer"], request["batch"], request["which"])
        if asked != key:
            works = None                # the last one's memory goes first
            key, works = asked, make(Layer(*request["layer"]), request["batch"],
                                     request["which"], threads)
        least = time_works(works, request["seconds"], clock)
        settle()
        answers.write(json.dumps(least) + "\n")
        answers.flush()


# ---------------------------------------------------------------------------------- the measurement
class Child:
    def __init__(self, name, python, threads):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [python, __file__, "--child", name, "--threads", str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=env)

    def ask(self, layer, batch, which, seconds):
        request = dict(layer=list(layer), batch=batch, which=which, seconds=seconds)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise SystemExit(f"{layer} {which}: a child died: {self.errors.read()[-2000:]}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)


def measure(children, layer, batch, which, seconds, rounds):
    """-> seconds of pyflow, of the peer (None without it)."""
    best = {}
    names = [n for n in ("pyflow", PEER[which]) if n in children]
    for _ in range(rounds):
        for name in names:
            took = children[name].ask(layer, batch, which, seconds)
            best[name] = min(best.get(name, math.inf), took)
    return best["pyflow"], best.get(PEER[which])


def geometric_mean(pairs):
    """of (ratio, weight)."""
    pairs = list(pairs)
    total = sum(weight for _, weight in pairs)
    return math.exp(sum(math.log(r) * weight for r, weight in pairs) / total) if total else None


def chosen_layers(args):
    """-> [(Layer, {network: count})], each shape once."""
    nets = args.net or (MAIN if args.all else ())
    if not nets:
        return [(layer, {"sample": 1}) for layer in SAMPLE]
    found = {}
    for net in nets:
        for layer in NETWORKS[net]:
            found.setdefault(layer._replace(count=1), {})[net] = layer.count
    return list(found.items())


def run(args):
    results = []
    layers = chosen_layers(args)
    if args.only:
        layers = [(la, nets) for la, nets in layers if any(word in str(la) for word in args.only)]
    pythons = {"pyflow": sys.executable, "ort": args.ort, "torch": args.torch}
    wanted = {"pyflow", *(PEER[w] for w in args.passes)}
    for threads in args.threads:
        children = {n: Child(n, p, threads) for n, p in pythons.items() if p and n in wanted}
        for batch in args.batch:
            for which in args.passes:
                for layer, nets in layers:
                    ours, peer = measure(children, layer, batch, which, args.seconds, args.rounds)
                    row = dict(layer=str(layer), batch=batch, threads=threads, which=which,
                               pyflow=ours, peer=peer, nets=nets,
                               gflops=layer.flops(batch) / ours / 1e9)
                    results.append(row)
                    ratio = f"{peer / ours:6.2f}x {PEER[which]}" if peer else ""
                    print(f"{which:8s} b{batch} t{threads}  {str(layer):30s} {ours * 1e6:9.1f} us"
                          f" {row['gflops']:6.1f} GF/s {ratio}", flush=True)
        for child in children.values():
            child.close()
    return results


def summary(results):
    """Geometric means by network, pass, batch and threads."""
    lines = {}
    for row in results:
        if row["peer"]:
            for net, count in row["nets"].items():
                key = (net, row["which"], row["batch"], row["threads"])
                lines.setdefault(key, []).append((row["peer"] / row["pyflow"], count))
    return [dict(net=k[0], which=k[1], batch=k[2], threads=k[3], ratio=geometric_mean(v),
                 worst=min(v)[0]) for k, v in lines.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ort")
    parser.add_argument("--torch")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--net", nargs="+", choices=list(NETWORKS))
    parser.add_argument("--only", nargs="+", help="layers whose description contains a word")
    parser.add_argument("--batch", nargs="+", type=int)
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--pass", nargs="+", dest="passes", choices=list(PEER), default=list(PEER))
    parser.add_argument("--seconds", type=float, default=0.03)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return serve(args.child, args.threads[0])
    args.batch = args.batch or ([1, 8] if args.all else [1])
    results = run(args)
    found = summary(results)
    for row in found:
        print(f"{row['net']:14s} {row['which']:8s} batch {row['batch']} threads {row['threads']}: "
              f"{row['ratio']:.2f}x (worst {row['worst']:.2f}x)")
    if args.json:
        resultfile.write(args.json, dict(layers=results, means=found))


if __name__ == "__main__":
    main()
