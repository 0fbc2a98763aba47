"""Queues beside TensorFlow's: what one element, one batch, one fed value costs.

    python benchmarks/queues.py --tf .venv-tf/bin/python --json rows.json
    python benchmarks/queues.py --worker pyflow         # one side, asked by JSON lines

Both sides run the programs of ROWS, word for word the same, in processes of their own that are
asked in turn; the best of the rounds counts.  Ratios are TensorFlow's time over pyflow's.
Mark (issue 18, 2.4): in the geometric mean at least 8, no row under 3.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import time

ROUNDS, SECONDS = 5, 0.3


def in_graph_pair(tf, np, kind="FIFO"):
    """An element goes in and comes out, in one step."""
    q = {"FIFO": lambda: tf.FIFOQueue(10, tf.float32, shapes=[[32]]),
         "Padding": lambda: tf.PaddingFIFOQueue(10, tf.float32, shapes=[[None]]),
         "Shuffle": lambda: tf.RandomShuffleQueue(10, 0, tf.float32, shapes=[[32]]),
         "Priority": lambda: tf.PriorityQueue(10, tf.float32, shapes=[[32]])}[kind]()
    value = [tf.constant(np.ones(32, np.float32))]
    value = ([tf.constant(3, tf.int64)] if kind == "Priority" else []) + value
    with tf.control_dependencies([q.enqueue(value)]):
        taken = q.dequeue()
    return (taken[1] if kind == "Priority" else taken), {}


def in_graph_pairs(tf, np, n=64):
    """64 pairs after each other, in one step."""
    q = tf.FIFOQueue(10, tf.float32, shapes=[[32]])
    value = tf.constant(np.ones(32, np.float32))
    for _ in range(n):
        with tf.control_dependencies([q.enqueue(value)]):
            value = q.dequeue()
    return value.op, {}


def fed_enqueue(tf, np):
    """A fed element goes in; another step takes it out."""
    q = tf.FIFOQueue(10, tf.float32, shapes=[[32]])
    x = tf.placeholder(tf.float32, [32])
    return [q.enqueue(x), q.dequeue()], {x: np.ones(32, np.float32)}


def enqueue_many(tf, np, kind="FIFO", rows=1000):
    """1000 fed rows go in; another step takes them out as one."""
    q = (tf.FIFOQueue(2 * rows, tf.float32, shapes=[[32]]) if kind == "FIFO" else
         tf.RandomShuffleQueue(2 * rows, 0, tf.float32, shapes=[[32]]))
    x = tf.placeholder(tf.float32, [rows, 32])
    return [q.enqueue_many([x]), q.dequeue_many(rows)], {x: np.ones([rows, 32], np.float32)}


def enqueue_many_take_one(tf, np, rows=64):
    """64 rows go in; they are taken one by one, by as many nodes of a step."""
    q = tf.FIFOQueue(2 * rows, [tf.float32, tf.int64], shapes=[[32], []])
    put = q.enqueue_many([tf.ones([rows, 32]), tf.range(tf.constant(rows, tf.int64))])
    with tf.control_dependencies([put]):
        return tf.group(*[q.dequeue()[0].op for _ in range(rows)]), {}


def shuffle_batch(tf, np, many=False):
    """A batch of 32 out of shuffle_batch, which a QueueRunner's thread fills."""
    data = tf.constant(np.random.RandomState(0).rand(1000, 32).astype(np.float32))
    row = data[:100] if many else data[7]
    return tf.train.shuffle_batch([row], 32, capacity=2000, min_after_dequeue=500,
                                  enqueue_many=many), {}


ROWS = {
    "pair_fifo": in_graph_pair, "pair_padding": lambda tf, np: in_graph_pair(tf, np, "Padding"),
    "pair_shuffle": lambda tf, np: in_graph_pair(tf, np, "Shuffle"),
    "pair_priority": lambda tf, np: in_graph_pair(tf, np, "Priority"),
    "pairs_64": in_graph_pairs, "fed_enqueue": fed_enqueue, "enqueue_many": enqueue_many,
    "enqueue_many_shuffle": lambda tf, np: enqueue_many(tf, np, "Shuffle"),
    "enqueue_many_take_one": enqueue_many_take_one, "shuffle_batch": shuffle_batch,
    "shuffle_batch_many": lambda tf, np: shuffle_batch(tf, np, True)}


class Work:
    """A row's session and threads; `best` is the best mean of some runs, in seconds."""

    def __init__(self, tf, np, row):
        self.graph = tf.Graph()
        with self.graph.as_default():
            fetches, feeds = ROWS[row](tf, np)
            self.session = tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=2,
                                                            inter_op_parallelism_threads=2))
            self.coord = tf.train.Coordinator()
            self.threads = []
            if self.graph.get_collection("queue_runners"):
                self.threads = tf.train.start_queue_runners(self.session, self.coord)
            fetches = fetches if isinstance(fetches, list) else [fetches]
            self.calls = [(f, feeds if not i else None) for i, f in enumerate(fetches)]
        self.end = self.session.close

    def run(self):
        for fetch, feeds in self.calls:
            self.session.run(fetch, feeds)

    def steady(self, seconds):
        """The mean of many runs: what threads fill meanwhile is emptied first."""
        until, n = time.perf_counter() + seconds, 0
        while time.perf_counter() < until:
            self.run()
        began = time.perf_counter()
        until = began + 2 * seconds
        while time.perf_counter() < until:
            self.run()
            n += 1
        return (time.perf_counter() - began) / n

    def best(self, seconds):
        self.run()
        if self.threads:
            return self.steady(seconds)
        best, until, n = math.inf, time.perf_counter() + seconds, 1
        while time.perf_counter() < until:
            began = time.perf_counter()
            for _ in range(n):
                self.run()
            took = time.perf_counter() - began
            best = min(best, took / n)
            if took < seconds / 20:
                n *= 2
        return best

    def close(self):
        self.coord.request_stop()
        self.coord.join(self.threads, ignore_live_threads=True)
        self.session.close()


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
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from turns import settle
    for line in sys.stdin:
        row = json.loads(line)
        work = Work(tf, np, row)
        best = work.best(SECONDS)
        work.close()
        settle()
        print(json.dumps({"best": best, "version": tf.__version__}), file=answers, flush=True)


def main(tf, only, rounds, path):
    sides = {"pyflow": sys.executable, "tf": tf}
    processes = {side: subprocess.Popen(
        [python, "-P", __file__, "--worker", side], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True) for side, python in sides.items()}
    rows = []
    for row in ROWS:
        if only and only not in row:
            continue
        best = dict.fromkeys(sides, math.inf)
        for _ in range(rounds):
            for side, process in processes.items():
                print(json.dumps(row), file=process.stdin, flush=True)
                best[side] = min(best[side], json.loads(process.stdout.readline())["best"])
        rows.append({"row": row, "pyflow_us": best["pyflow"] * 1e6, "tf_us": best["tf"] * 1e6,
                     "ratio": best["tf"] / best["pyflow"]})
        print("{row:24}{pyflow_us:10.2f} us{tf_us:10.2f} us{ratio:8.1f}".format(**rows[-1]),
              flush=True)
    mean = math.exp(sum(math.log(r["ratio"]) for r in rows) / len(rows))
    print(f"geometric mean {mean:.1f}, least {min(r['ratio'] for r in rows):.1f}")
    if path:
        import resultfile
        resultfile.write(path, {"rows": rows, "geometric_mean": mean})
    for process in processes.values():
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
