"""tf.data beside TensorFlow's, and beside NumPy's gather: what an element costs.

    python benchmarks/input.py --tf .venv-tf/bin/python --json rows.json
    python benchmarks/input.py --worker pyflow          # one side, asked by JSON lines

All sides run the programs of ROWS, word for word the same, in processes of their own that are asked
in turn; the best of the rounds counts.  Ratios are TensorFlow's time an element over pyflow's;
`gather` is NumPy's x[permutation[i:i + 128]] over the same rows, in pyflow's process.
Marks (issue 18, 2.4): maps of three ops at least 4; shuffle and batch at least 0.5 of the gather.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import time

ROUNDS, SECONDS, ROW_COUNT = 5, 0.3, 20000


def three_ops(tf, x):
    return tf.cast(x * 2 + 1, tf.float32)


def slices(tf, np):
    images = np.random.RandomState(0).rand(ROW_COUNT, 784).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(images)


ROWS = {                                # name: (dataset, elements of one get_next)
    "map": (lambda tf, np: tf.data.Dataset.range(1 << 40).map(lambda x: three_ops(tf, x)), 1),
    "map_batch_100": (lambda tf, np: tf.data.Dataset.range(1 << 40).map(
        lambda x: three_ops(tf, x)).batch(100), 100),
    "map_2_batch_100": (lambda tf, np: tf.data.Dataset.range(1 << 40).map(
        lambda x: three_ops(tf, x), 2).batch(100), 100),
    "filter_batch_100": (lambda tf, np: tf.data.Dataset.range(1 << 40).filter(
        lambda x: tf.equal(x % 2, 0)).batch(100), 100),
    "shuffle_batch_128": (lambda tf, np: slices(tf, np).shuffle(ROW_COUNT).repeat().batch(128),
                          128),
    "prefetched": (lambda tf, np: slices(tf, np).repeat().batch(128).prefetch(2), 128)}


def best_of(run, elements):
    """The best mean of some runs, in seconds an element."""
    run()
    best, until, n = math.inf, time.perf_counter() + SECONDS, 1
    while time.perf_counter() < until:
        began = time.perf_counter()
        for _ in range(n):
            run()
        took = time.perf_counter() - began
        best = min(best, took / n / elements)
        if took < SECONDS / 20:
            n *= 2
    return best


def gather(np):
    x = np.random.RandomState(0).rand(ROW_COUNT, 784).astype(np.float32)
    order, at = np.random.RandomState(1).permutation(ROW_COUNT), iter(())

    def run():
        nonlocal at
        begin = next(at, None)
        if begin is None:
            at = iter(range(0, ROW_COUNT - 128, 128))
            begin = next(at)
        return x[order[begin:begin + 128]]
    return best_of(run, 128)


def measured(tf, np, row):
    make, elements = ROWS[row]
    with tf.Graph().as_default():
        following = tf.data.make_one_shot_iterator(make(tf, np)).get_next()
        with tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=2,
                                              inter_op_parallelism_threads=2)) as sess:
            return best_of(sess.make_callable(following), elements)


def worker(side):
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import logging
    logging.disable(logging.WARNING)
    import numpy as np
    if side == "pyflow":
        import pyflow as tf
    else:
        import tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
    for line in sys.stdin:
        row = json.loads(line)
        best = gather(np) if row == "gather" else measured(tf, np, row)
        print(json.dumps(best), file=answers, flush=True)


def ask(process, row):
    print(json.dumps(row), file=process.stdin, flush=True)
    return json.loads(process.stdout.readline())


def main(tf, only, rounds, path):
    sides = {side: subprocess.Popen([python, "-P", __file__, "--worker", side], text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
             for side, python in (("pyflow", sys.executable), ("tf", tf))}
    rows = []
    for row in ROWS:
        if only and only not in row:
            continue
        best = dict.fromkeys(("pyflow", "tf", "gather"), math.inf)
        for _ in range(rounds):
            for side, process in sides.items():
                best[side] = min(best[side], ask(process, row))
            if row == "shuffle_batch_128":
                best["gather"] = min(best["gather"], ask(sides["pyflow"], "gather"))
        rows.append({"row": row, "pyflow_us": best["pyflow"] * 1e6, "tf_us": best["tf"] * 1e6,
                     "ratio": best["tf"] / best["pyflow"]})
        if best["gather"] < math.inf:
            rows[-1]["of_gather"] = best["gather"] / best["pyflow"]
        print("{row:24}{pyflow_us:10.3f} us{tf_us:10.3f} us{ratio:8.1f}".format(**rows[-1]),
              "{:.2f} of NumPy's gather".format(rows[-1]["of_gather"])
              if "of_gather" in rows[-1] else "", flush=True)
    mean = math.exp(sum(math.log(r["ratio"]) for r in rows) / len(rows))
    print(f"geometric mean {mean:.1f}, least {min(r['ratio'] for r in rows):.1f}")
    if path:
        import resultfile
        resultfile.write(path, {"rows": rows, "geometric_mean": mean})
    for process in sides.values():
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tf", default=".venv-tf/bin/python", help="a Python with TensorFlow")
    parser.add_argument("--only", help="rows with this in their names")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", help="a file for the rows")
    parser.add_argument("--worker", choices=["pyflow", "tf"])
    asked = parser.parse_args()
    if asked.worker:
        worker(asked.worker)
    else:
        sys.path.insert(0, str(pathlib.Path(__file__).parent))
        main(asked.tf, asked.only, asked.rounds, asked.json)
