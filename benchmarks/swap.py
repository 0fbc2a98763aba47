"""Swapping to the host: the least memory of a device that a step runs in, and its time.

    python benchmarks/swap.py --plugin libpyflow_fake.so [--device FAKE:0] [--model lstm] [--size 2]

A device with streams is given work ahead of time, so how much it happened to hold says little about
what it needs. So the least limit is searched by bisection, with everything kept on the device and
with the values for the gradients swapped out. Figures: bytes beyond what lives between steps;
milliseconds of the median step without a limit and with the least one and an eighth; whether all
results are equal.
"""

import argparse
import contextlib
import gc
import pathlib
import statistics
import time

import numpy as np
import resultfile

STEP = 32768                            # the search is over when it is this exact
REPEATS = 3                             # a limit is enough if that many steps in a row fit


def _random(seed, *shape):
    return (np.random.RandomState(seed).rand(*shape) - 0.5).astype(np.float32)


def lstm(tf, swapped, size=1, steps=10, layers=3):
    """(fetches, feeds): loss and gradients of a deep LSTM, unrolled in time."""
    batch, units = 64, 32 * size
    scope = tf.swap_scope if swapped else contextlib.nullcontext
    feeds = {tf.placeholder(tf.float32, [batch, units]): _random(t, batch, units)
             for t in range(steps)}
    weights = [tf.constant(_random(k, 2 * units, 4 * units)) for k in range(layers)]
    biases = [tf.constant(_random(k, 4 * units)) for k in range(layers)]
    zero = tf.zeros([batch, units])
    state = [(zero, zero)] * layers
    for x in feeds:
        with scope():
            for k in range(layers):
                c, h = state[k]
                gates = tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), weights[k]), biases[k])
                i, j, f, o = tf.split(gates, 4, axis=1)
                c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
                x = tf.tanh(c) * tf.sigmoid(o)
                state = state[:k] + [(c, x)] + state[k + 1:]
    loss = tf.reduce_mean(tf.square(x - 0.5))
    return [loss, *tf.gradients(loss, weights + biases)], feeds


def convnet(tf, swapped, size=1, layers=10):
    """(fetches, feeds): loss and gradients of ten convolutions in a row."""
    shape = [4 * size, 16, 16, 8]
    scope = tf.swap_scope if swapped else contextlib.nullcontext
    x = tf.placeholder(tf.float32, shape)
    feeds = {x: _random(0, *shape)}
    filters = [tf.constant(_random(k, 3, 3, 8, 8) / 4) for k in range(layers)]
    biases = [tf.constant(_random(k, 8)) for k in range(layers)]
    for w, b in zip(filters, biases):
        with scope():
            x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), b))
    x = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    loss = tf.reduce_mean(tf.square(x - 0.5))
    return [loss, *tf.gradients(loss, filters + biases)], feeds


def loop(tf, swapped, size=1, steps=24):
    """(fetches, feeds): result and gradients of a while loop; `swapped` is its swap_memory."""
    shape = [64, 64 * size]
    x = tf.placeholder(tf.float32, shape)
    w = tf.constant(_random(1, shape[1], shape[1]) / 8)
    y = tf.while_loop(lambda i, y: i < steps, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, w))),
                      (0, x), swap_memory=swapped, parallel_iterations=2)[1]
    return [y, *tf.gradients(y, [x, w])], {x: _random(0, *shape)}


MODELS = {"lstm": lstm, "convnet": convnet, "loop": loop}


class Step:
    """One model in a session of its own; its whole step on `device`, except what cannot be."""

    def __init__(self, model, swapped, device="FAKE:0", **sizes):
        import pyflow as tf
        from pyflow import _executor

        self.tf, self.core = tf, _executor
        self.kind, self.ordinal = device.split(":")[0], int(device.split(":")[1])
        with tf.Graph().as_default() as graph:
            with tf.device(f"/device:{device}"):
                self.fetches, self.feeds = MODELS[model](tf, swapped, **sizes)
            self.session = tf.Session(
                graph=graph, config=tf.ConfigProto(allow_soft_placement=True))
        self.results = [np.array(x) for x in self.run()]
        self.base = self.stats()["in_use"]

    def run(self):
        return self.session.run(self.fetches, self.feeds)

    def stats(self):
        return self.core.device_stats(self.kind, self.ordinal)

    @contextlib.contextmanager
    def limited(self, limit):
        self.core.device_limit(self.kind, self.ordinal, limit)
        try:
            yield
        finally:
            self.core.device_limit(self.kind, self.ordinal, 0)

    def fits(self, limit):
        """True if the steps run within `limit` bytes."""
        with self.limited(limit):
            try:
                for _ in range(REPEATS):
                    self.run()
                return True
            except self.tf.errors.ResourceExhaustedError:
                return False

    def least(self):
        """Bytes beyond `base`: the least limit under which the steps run."""
        low, high = self.base, max(self.stats()["peak"], self.base + STEP)
        while high - low > STEP:
            middle = (low + high) // 2
            if self.fits(middle):
                high = middle
            else:
                low = middle
        return high - self.base

    def seconds(self, limit=0, steps=9):
        """The median step's."""
        taken = []
        with self.limited(limit):
            for _ in range(steps):
                start = time.perf_counter()
                self.run()
                taken.append(time.perf_counter() - start)
        return statistics.median(taken)

    def close(self):
        self.session.close()
        self.fetches = self.feeds = self.session = None
        gc.collect()


def measure(model, device, **sizes):
    """-> {kept, swapped: {least, ms, ms_least}, equal}."""
    found, results = {}, []
    for name, swapped in (("kept", False), ("swapped", True)):
        step = Step(model, swapped, device, **sizes)
        least = step.least()
        found[name] = {"least": least, "ms": step.seconds() * 1e3,
                       "ms_least": step.seconds(step.base + least * 9 // 8) * 1e3}
        results.append(step.results)
        step.close()
    found["equal"] = all(np.array_equal(a, b) for a, b in zip(*results))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plugin", help="a plugin's library to load first")
    parser.add_argument("--device", default="FAKE:0")
    parser.add_argument("--model", choices=sorted(MODELS), action="append")
    parser.add_argument("--size", type=int, default=1, help="a factor of the values' sizes")
    parser.add_argument("--json", type=pathlib.Path)
    asked = parser.parse_args()
    if asked.plugin:
        import pyflow as tf

        tf.load_op_library(asked.plugin)
    found = {m: measure(m, asked.device, size=asked.size) for m in asked.model or sorted(MODELS)}
    for model, f in found.items():
        for name in ("kept", "swapped"):
            print(f"{model:8s} {name:8s} needs {f[name]['least'] / 1024:8.0f} KB,"
                  f" {f[name]['ms']:7.1f} ms a step, {f[name]['ms_least']:7.1f} ms in that")
        ratio = f["swapped"]["least"] / f["kept"]["least"]
        print(f"{model:8s} memory x{ratio:.2f}, time x{f['swapped']['ms'] / f['kept']['ms']:.2f},"
              f" results {'equal' if f['equal'] else 'DIFFER'}")
    if asked.json:
        resultfile.write(asked.json, found)


if __name__ == "__main__":
    main()
