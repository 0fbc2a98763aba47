"""Trains a digit classifier, freezes it to one file, and runs that file in a C program without
Python.

    python examples/02_without_python/freeze.py

The C program (main.c) links libpyflow_rt, loads the CPU plugin, and must give the very bits that
Python gives.
"""

import importlib.resources
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import pyflow as tf

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import datasets  # noqa: E402
import models  # noqa: E402


def train_and_freeze(path):
    """-> test images, labels and Python's logits; the frozen graph is in `path`."""
    train, test = datasets.digits(seed=0)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x, y = tf.placeholder(tf.float32, [None, 8, 8, 1], name="x"), tf.placeholder(
            tf.int64, [None]
        )
        logits = tf.identity(models.convnet(x, 1.0), name="scores")
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        )
        step = tf.train.AdamOptimizer(2e-3).minimize(loss)
        session.run(tf.global_variables_initializer())
        for epoch in range(15):
            for images, labels in datasets.batches(train, 50, epoch):
                session.run(step, {x: images, y: labels})
        frozen = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["scores"]
        )
        path.write_bytes(frozen.SerializeToString())
        return test[0], test[1], session.run(logits, {x: test[0]})


def compile_program(target):
    lib = (importlib.resources.files("pyflow") / "lib" / "libpyflow_rt.so").parent
    subprocess.run(
        [
            "cc",
            "-std=c11",
            "-O1",
            "-I",
            tf.sysconfig.get_include(),
            HERE / "main.c",
            "-L",
            lib,
            "-lpyflow_rt",
            f"-Wl,-rpath,{lib}",
            "-o",
            target,
        ],
        check=True,
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        images, labels, wanted = train_and_freeze(folder / "digits.pb")
        images.tofile(folder / "images.bin")
        compile_program(folder / "main")
        plugin = importlib.resources.files("pyflow_cpu") / "libpyflow_cpu.so"
        print("main.c also asks for a node that is not there, and gives a damaged graph, to show how "
              "errors come back:", flush=True)
        subprocess.run(
            [folder / "main", plugin, "digits.pb", "images.bin", "logits.bin", "1"],
            cwd=folder,
            check=True,
        )
        found = np.fromfile(folder / "logits.bin", np.float32).reshape(-1, 10)
        size = (folder / "digits.pb").stat().st_size
    print(
        f"{size} bytes of graph; {len(images)} images; accuracy in C {(found.argmax(1) == labels).mean():.4f}; "
        f"same bits as Python: {found.tobytes() == wanted.tobytes()}"
    )


if __name__ == "__main__":
    main()
