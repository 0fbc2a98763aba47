"""python -m pyflow bench: what a step, a node and a matrix product cost here, in a few seconds.

The comparison with other systems is `make bench` in the source tree; this needs nothing but pyflow
and NumPy.
"""
import argparse
import time


def main(argv):
    """Prints one line per measurement."""
    parser = argparse.ArgumentParser(
        prog="python -m pyflow bench", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--threads", type=int, help="compute threads (default: all that are granted)"
    )
    args = parser.parse_args(argv)
    if args.threads is not None and args.threads < 1:
        parser.error(f"--threads must be at least 1, got {args.threads}")
    for title, value in measurements(args.threads):
        print(f"{title:52}{value}")
    return 0


def best(function, seconds=0.3):
    """Seconds per call: the best of several batches."""
    function()
    count, found = 1, float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or found == float("inf"):
        start = time.perf_counter()
        for _ in range(count):
            function()
        took = time.perf_counter() - start
        found = min(found, took / count)
        if took < 0.01:
            count *= 2
    return found


def measurements(threads=None):
    """Yields (title, text)."""
    import numpy as np
    import pyflow as tf
    a = np.ones(10, np.float32)
    numpy_add = best(lambda: a + a)
    with tf.Graph().as_default() as graph:
        x, y = tf.placeholder(tf.float32, [10]), tf.placeholder(tf.float32, [10])
        z = tf.add(x, y)
        node = tf.constant(1.0)
        for _ in range(1000):
            node = tf.add(node, 1.0)
        m = tf.placeholder(tf.float32, [512, 512])
        product = tf.matmul(m, m)
    with tf.Session(graph=graph, threads=threads) as sess:
        yield "NumPy x + y, float32[10]", f"{numpy_add * 1e6:8.2f} us"
        call = sess.make_callable(z, [x, y])
        fast = best(lambda: call(a, a))
        yield (
            "the same through make_callable",
            f"{fast * 1e6:8.2f} us  ({fast / numpy_add:.1f} x NumPy)",
        )
        yield (
            "the same through session.run",
            f"{best(lambda: sess.run(z, {x: a, y: a})) * 1e6:8.2f} us",
        )
        chain = sess.make_callable(node.op)
        yield "a chain of 1000 scalar adds, per node", f"{best(chain) * 1e6:8.1f} ns"
        big = np.random.rand(512, 512).astype(np.float32)
        multiply = sess.make_callable(product.op, [m])
        seconds = best(lambda: multiply(big))
        yield "matmul float32 512 x 512 x 512", f"{2 * 512 ** 3 / seconds / 1e9:8.1f} GFLOP/s"
