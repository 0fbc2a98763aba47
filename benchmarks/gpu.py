"""The digits convnet's training step on the GPU, beside torch on the same GPU.

    python benchmarks/gpu.py [--steps 200] [--batch 128] [--trace t.json] [--json r.json]
    python benchmarks/gpu.py --plugin LIBRARY --steps 2 --batch 2     # a dry run

Prints one JSON object: microseconds per step of each, batch and device, and what was not
measured and why.  The input is fed from host memory in every step, for both.  `--trace` writes
pyflow's trace of one step (chrome://tracing, Perfetto).  `--plugin` loads that library instead of
the installed plugin and leaves torch out: with the emulated one of tests/cuda, the script runs
where there is no GPU, and its times mean nothing.
"""
import argparse
import pathlib
import statistics
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))     # where Python is told not to
import resultfile  # noqa: E402


def make_data(batch):
    rng = np.random.default_rng(0)
    return rng.standard_normal((batch, 28, 28, 1)).astype(np.float32), rng.integers(0, 10, batch)


def timed(step, steps):
    """Median microseconds of `steps` calls, after up to 20 that are not counted."""
    for _ in range(min(20, steps)):
        step()
    found = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        found.append(time.perf_counter() - start)
    return round(1e6 * statistics.median(found), 1)


def pyflow_step(batch, trace):
    import pyflow as tf

    images, labels = make_data(batch)

    def weights(name, shape, fan_in):
        return tf.get_variable(
            name, shape, initializer=tf.truncated_normal_initializer(stddev=(2 / fan_in) ** 0.5))

    with tf.device("/device:GPU:0"):
        x = tf.placeholder(tf.float32, [None, 28, 28, 1])
        y = tf.placeholder(tf.int64, [None])
        h = x
        for i, (n_in, n_out) in enumerate(((1, 32), (32, 64))):
            h = tf.nn.conv2d(h, weights(f"w{i}", [3, 3, n_in, n_out], 9 * n_in),
                             strides=[1, 1, 1, 1], padding="SAME")
            h = tf.nn.relu(tf.nn.bias_add(h, weights(f"b{i}", [n_out], 100)))
            h = tf.nn.max_pool(h, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
        h = tf.nn.relu(tf.matmul(tf.reshape(h, [-1, 3136]), weights("w2", [3136, 128], 3136)))
        logits = tf.matmul(h, weights("w3", [128, 10], 128))
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
    session = tf.Session(config=tf.ConfigProto(allow_soft_placement=True))
    session.run(tf.global_variables_initializer())
    feed = {x: images, y: labels}
    if trace:
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        metadata = tf.RunMetadata()
        session.run(train, feed)
        session.run(train, feed, options=options, run_metadata=metadata)
        from pyflow import timeline

        with open(trace, "w", encoding="utf-8") as f:
            f.write(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())
    return lambda: session.run([loss, train], feed)


def torch_step(batch):
    import torch
    from torch import nn

    images, labels = make_data(batch)
    images = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    labels = torch.from_numpy(labels)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False

    def step():
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--trace")
    parser.add_argument("--json")
    parser.add_argument("--plugin")
    arguments = parser.parse_args()
    result = measure(arguments)
    print(resultfile.text(result), end="")
    if arguments.json:
        resultfile.write(arguments.json, result)


def measure(arguments):
    """The figures as a dictionary; SystemExit where there is no GPU."""
    import pyflow as tf
    from pyflow import _executor, plugins

    if arguments.plugin:
        tf.load_op_library(arguments.plugin)
    else:
        plugins.load_all()
    if all(kind != "GPU" for kind, *_ in _executor.devices()):
        reasons = "; ".join(why for kind, why in _executor.absent_devices() if kind == "GPU")
        raise SystemExit("no GPU here: " + (reasons or "pyflow_cuda is not installed"))
    result = {"device": _executor.device_info("GPU", 0, "name"), "batch": arguments.batch,
              "pyflow_us": timed(pyflow_step(arguments.batch, arguments.trace), arguments.steps),
              "torch_us": None}
    if arguments.plugin:
        return {**result, "why_not": "a dry run"}
    try:
        result["torch_us"] = timed(torch_step(arguments.batch), arguments.steps)
    except ImportError as e:
        result["why_not"] = str(e)
    return result


if __name__ == "__main__":
    main()
