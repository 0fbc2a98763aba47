"""Checkpoints beside the raw file: seconds to save and restore variables, and to write and read as many
bytes.

    python benchmarks/checkpoints.py [--mb 500] [--rounds 5] [--folder DIR] [--json rows.json]

`raw` writes the same arrays into one file and syncs it, and reads it into new memory with readinto.
The sides are timed in turn, the best of the rounds counts, files are in the page cache when they are
read.  A ratio is raw's time divided by pyflow's (issue 18, 4.1: 0.5 of reading, 0.9 of writing).
"""
import argparse
import os
import pathlib
import sys
import tempfile
import time

import numpy as np

import pyflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import resultfile  # noqa: E402

PIECES = 10             # variables


def timed(run):
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def raw_sides(arrays, path):
    """(write, read) of the same bytes as one plain file."""
    def write():
        with open(path, "wb", buffering=0) as file:
            for array in arrays:
                file.write(memoryview(array).cast("B"))
            os.fsync(file.fileno())

    def read():
        with open(path, "rb", buffering=0) as file:
            for array in arrays:
                made, at = memoryview(np.empty_like(array)).cast("B"), 0
                while at < len(made):
                    at += file.readinto(made[at:])
    return write, read


def saver_sides(arrays, folder, version):
    """(save, restore) of variables with those values."""
    with tf.Graph().as_default():
        held = [tf.Variable(tf.zeros(a.shape), name=f"v{i}") for i, a in enumerate(arrays)]
        feeds = [tf.placeholder(tf.float32, a.shape) for a in arrays]
        fill = [v.assign(f).op for v, f in zip(held, feeds)]
        saver = tf.train.Saver(held, write_version=version)
        session = tf.Session()
        session.run(fill, dict(zip(feeds, arrays)))
    path = os.path.join(folder, "model")

    def save():
        saver.save(session, path, write_meta_graph=False)

    return save, lambda: saver.restore(session, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--mb", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="on the disk that is asked about")
    parser.add_argument("--json", help="a file for the rows")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(args.mb * 250_000 // PIECES, np.float32) for _ in range(PIECES)]
    rows = []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        raw = raw_sides(arrays, os.path.join(folder, "raw"))
        for name, version in (("pyflow", None), ("V2", tf.train.SaverDef.V2)):
            sides = saver_sides(arrays, folder, version)
            best = {}
            for _ in range(args.rounds):
                for side, runs in (("raw", raw), (name, sides)):
                    for what, run in zip(("save", "restore"), runs):
                        best[side, what] = min(best.get((side, what), 1e9), timed(run))
            for what in ("save", "restore"):
                rows.append({"row": f"{what}_{name}", "MB": args.mb, "raw_s": best["raw", what],
                             "pyflow_s": best[name, what],
                             "ratio": best["raw", what] / best[name, what]})
                print("{row:16}{MB:6} MB  raw {raw_s:.3f} s, pyflow {pyflow_s:.3f} s: {ratio:.2f}"
                      .format(**rows[-1]), flush=True)
    if args.json:
        resultfile.write(args.json, {"rows": rows})


if __name__ == "__main__":
    main()
