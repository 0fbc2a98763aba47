"""What a busy input pipeline costs training steps on the other core.

    python benchmarks/pipeline.py [--rounds 7] [--threads 1] [--json rows.json]

MLP, LeNet and PTB (cases.py) train from a tf.data pipeline with prefetch, in a session whose
products run on one thread and whose pipeline has the second core.  In `busy` the pipeline's map
burns half a step's processor time for each batch, in `idle` it hands the same batches on.  The two
sessions are timed in turn; medians count.  A ratio is the step's time with the busy pipeline divided
by that with the idle one (issue 18, 2.4: at most 1.05 in geometric mean).
"""
import argparse
import math
import pathlib
import statistics
import sys
import time

import numpy as np

import pyflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import cases  # noqa: E402
import resultfile  # noqa: E402

SIDE = 64               # of the matrices that are multiplied to burn time


def image_batch(size):
    rng = np.random.default_rng(0)
    return (rng.random((size, 784)).astype(np.float32),
            rng.integers(0, 10, size).astype(np.int64))


NETS = {                # name: (batch, its training step)
    "mlp": (image_batch(100), lambda x, y: cases.descent(tf, cases.mlp(tf, x), y)),
    "lenet": (image_batch(64), lambda x, y: cases.descent(tf, cases.lenet(tf, x), y)),
    "ptb": (cases.ptb_data(), lambda x, y: cases.ptb(tf, x, y)),
}


def burnt(x, turns):
    """x, after `turns` products of matrices that come to nothing."""
    start = tf.zeros([SIDE, SIDE]) + tf.cast(tf.reshape(x, [-1])[0], tf.float32)
    _, end = tf.while_loop(lambda i, m: i < turns,
                           lambda i, m: (i + 1, tf.matmul(m, tf.zeros([SIDE, SIDE]))),
                           [tf.constant(0), start])
    return x + tf.cast(end[0, 0], x.dtype)


def seconds_of(turns):
    """Processor seconds of so many turns."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [1])
        with tf.Session(threads=1) as session:
            run = session.make_callable(burnt(x, tf.constant(turns)), [x])
            return min(timed(lambda: run(np.ones(1, np.float32))) for _ in range(7))


def timed(run):
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def trained(name, turns, threads):
    """A function that runs one training step, from a pipeline of so many turns a batch."""
    (x, y), net = NETS[name]
    with tf.Graph().as_default():
        tf.set_random_seed(0)
        data = tf.data.Dataset.from_tensors((x, y)).repeat()
        if turns:
            data = data.map(lambda x, y: (burnt(x, turns), y))
        images, labels = data.prefetch(4).make_one_shot_iterator().get_next()
        loss, step = net(images, labels)
        session = tf.Session(threads=threads)
        session.run(tf.global_variables_initializer())
        return session.make_callable([loss, step])


def measure(name, rounds, threads=1):
    idle = trained(name, 0, threads)
    for _ in range(5):
        idle()
    step = statistics.median(timed(idle) for _ in range(20))
    each = seconds_of(2000) / 2000
    turns = max(int(step / 2 / each), 1)
    busy = trained(name, turns, threads)
    count = max(int(0.5 / step), 5)
    found = {"idle": [], "busy": []}
    for _ in range(rounds):
        for kind, run in (("idle", idle), ("busy", busy)):
            run()
            found[kind] += [timed(run) for _ in range(count)]
    medians = {kind: statistics.median(times) for kind, times in found.items()}
    return {"row": name, "idle_ms": medians["idle"] * 1e3, "busy_ms": medians["busy"] * 1e3,
            "burnt_ms": turns * each * 1e3, "ratio": medians["busy"] / medians["idle"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1, help="of the session")
    parser.add_argument("--json", help="a file for the rows")
    args = parser.parse_args()
    rows = []
    for name in NETS:
        rows.append(measure(name, args.rounds, args.threads))
        print("{row:8}{idle_ms:9.3f} ms idle{busy_ms:9.3f} ms busy, {burnt_ms:.3f} burnt:{ratio:6.3f}"
              .format(**rows[-1]), flush=True)
    mean = math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
    print(f"geometric mean {mean:.3f}")
    if args.json:
        resultfile.write(args.json, {"rows": rows, "geometric_mean": mean})


if __name__ == "__main__":
    main()
