"""float16 and bfloat16 beside float32: what halving the bytes gains, and beside torch's halves.

    python benchmarks/halves.py [--torch TORCH_PYTHON] [--only matmul ...] [--threads 1 2]
        [--rounds 12] [--json FILE]

A row is one operation over one shape in the three types, in turn in one process; `gain` is
float32's best time divided by the half's: above 1 the half is faster.  Kernels keep halves in
memory and sum in float32.  With --torch, torch runs the same in turn (elementwise_torch.py):
`torch` is its time divided by pyflow's, for the half.
"""
import argparse
import pathlib
import sys

import numpy as np

import resultfile
from elementwise import Torch, config, interleave, least
from elementwise_case import MEGA, aligned, fed

TYPES = ("float32", "float16", "bfloat16")
BIG, ROWS, IMAGES = (4 * MEGA,), (4096, 1024), (16, 56, 56, 64)
# name -> (function of tf and the inputs, shapes): names torch knows are the same there.
CASES = {
    "add": (lambda tf, a, b: a + b, [BIG, BIG]),
    "relu": (lambda tf, a: tf.nn.relu(a), [BIG]),
    "bias_add": (lambda tf, a, b: tf.nn.bias_add(a, b), [ROWS, (1024,)]),
    "exp": (lambda tf, a: tf.exp(a), [BIG]),
    "tanh": (lambda tf, a: tf.tanh(a), [BIG]),
    "sigmoid": (lambda tf, a: tf.sigmoid(a), [BIG]),
    "sum_inner": (lambda tf, a: tf.reduce_sum(a, 1), [ROWS]),
    "sum_outer": (lambda tf, a: tf.reduce_sum(a, 0), [ROWS]),
    "max_inner": (lambda tf, a: tf.reduce_max(a, 1), [ROWS]),
    "argmax_inner": (lambda tf, a: tf.argmax(a, 1), [ROWS]),
    "softmax": (lambda tf, a: tf.nn.softmax(a), [ROWS]),
    "log_softmax": (lambda tf, a: tf.nn.log_softmax(a), [ROWS]),
    "moments_inner": (lambda tf, a: tf.stack(tf.nn.moments(a, [1])), [ROWS]),
    "cumsum_inner": (lambda tf, a: tf.cumsum(a, 1), [ROWS]),
    "transpose_2d": (lambda tf, a: tf.transpose(a), [(2048, 2048)]),
    "nhwc_to_nchw": (lambda tf, a: tf.transpose(a, [0, 3, 1, 2]), [IMAGES]),
    "concat_channels": (lambda tf, a, b: tf.concat([a, b], 3), [IMAGES, IMAGES]),
    "pad_channels_last": (
        lambda tf, a: tf.pad(a, [[0, 0], [1, 1], [1, 1], [0, 0]]), [IMAGES]),
    "max_pool": (lambda tf, a: tf.nn.max_pool(a, [1, 3, 3, 1], [1, 2, 2, 1], "SAME"), [IMAGES]),
    "avg_pool": (lambda tf, a: tf.nn.avg_pool(a, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), [IMAGES]),
    "matmul_512": (lambda tf, a, b: tf.matmul(a, b), [(512, 512)] * 2),
    "matmul_1024": (lambda tf, a, b: tf.matmul(a, b), [(1024, 1024)] * 2),
    "matmul_vector": (lambda tf, a, b: tf.matmul(a, b), [(1, 2048), (2048, 2048)]),
    "batch_matmul": (lambda tf, a, b: tf.matmul(a, b, transpose_b=True), [(64, 128, 64)] * 2),
    "conv_3x3": (lambda tf, a, w: tf.nn.conv2d(a, w, [1, 1, 1, 1], "SAME"),
                 [(4, 56, 56, 64), (3, 3, 64, 64)]),
    "conv_1x1": (lambda tf, a, w: tf.nn.conv2d(a, w, [1, 1, 1, 1], "SAME"),
                 [(4, 28, 28, 256), (1, 1, 256, 128)]),
    "depthwise_3x3": (lambda tf, a, w: tf.nn.depthwise_conv2d(a, w, [1, 1, 1, 1], "SAME"),
                      [IMAGES, (3, 3, 64, 1)]),
}


def calls_of(tf, session, name):
    """-> {type: (function without arguments, its arrays)}"""
    make, shapes = CASES[name]
    nodes = {}
    for dtype in TYPES:
        arrays = [aligned(s, tf.as_dtype(dtype).as_numpy_dtype) for s in shapes]
        inputs = fed(tf, *arrays)
        nodes[dtype] = make(tf, *inputs), inputs, arrays
    calls = {}
    for dtype, (fetch, inputs, arrays) in nodes.items():
        call = session.make_callable(fetch, inputs)
        np.asarray(call(*arrays))
        calls[dtype] = (lambda call=call, arrays=arrays: call(*arrays), arrays)
    return calls


def measure(tf, name, threads, rounds, torch):
    with tf.Graph().as_default(), tf.Session(config=config(tf, threads)) as session:
        calls = calls_of(tf, session, name)
        best, peers = dict.fromkeys(TYPES), dict.fromkeys(TYPES)
        for _ in range(rounds):
            for dtype, found in zip(TYPES, interleave([calls[t][0] for t in TYPES], 2)):
                best[dtype] = least(best[dtype], found)
            for dtype in TYPES if torch else ():
                peers[dtype] = least(peers[dtype], torch.best(name, calls[dtype][1], 2))
    return {"case": name, "threads": threads, "ms": {t: best[t] * 1e3 for t in TYPES},
            "gain": {t: best["float32"] / best[t] for t in TYPES[1:]},
            "torch": {t: peers[t] / best[t] for t in TYPES if peers[t]}}


def line(row):
    peers = "  torch's time " + " ".join(f"{t} {r:.2f}" for t, r in row["torch"].items())
    return (f"{row['case']:18} {row['threads']} thr  float32 {row['ms']['float32']:8.3f} ms  "
            f"gain float16 {row['gain']['float16']:.2f} bfloat16 {row['gain']['bfloat16']:.2f}"
            + (peers if row["torch"] else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--torch", help="a Python that has torch")
    parser.add_argument("--only", nargs="*", default=[""], help="parts of case names")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", type=pathlib.Path, help="where results are kept")
    args = parser.parse_args()
    import pyflow as tf

    rows = []
    for threads in args.threads:
        torch = Torch(args.torch, threads) if args.torch else None
        for name in (n for n in CASES if any(part in n for part in args.only)):
            rows.append(measure(tf, name, threads, args.rounds, torch))
            print(line(rows[-1]), flush=True)
        if torch:
            torch.close()
    if args.json:
        resultfile.write(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
