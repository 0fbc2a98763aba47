"""What tracing costs: the same step untraced and traced, in turn, the best of many rounds.

    python benchmarks/tracing.py [--rounds 30]

Columns, as ratios to the untraced step: `records` writes every kernel's record (FULL_TRACE without
its RunMetadata), `blocks` a record per block (SOFTWARE_TRACE), `file` is PYFLOW_TRACE with its file
written as the program runs, `metadata` session.run with FULL_TRACE and a RunMetadata filled in.

Times are the process's CPU time, which a busy machine disturbs least.

measure(rounds) -> {case: {"us": untraced, "kernels": n, "records": ratio, ...}}
"""

import argparse
import json
import os
import tempfile
import time

import numpy as np

import cases

WANTED = 1.05  # `records` and `file` of models; `metadata` of those without thousands of kernels


def lstm(tf, batch=32, width=128, steps=20):
    """A training step of an LSTM unrolled by tf.while_loop -> (fetches, feeds)."""
    rng = np.random.default_rng(0)
    x = tf.placeholder(tf.float32, [steps, batch, width])
    kernel = tf.Variable(rng.normal(0, 0.05, (2 * width, 4 * width)).astype(np.float32))

    def body(t, state, hidden):
        gates = tf.matmul(tf.concat([tf.gather(x, t), hidden], 1), kernel)
        i, j, f, o = tf.split(gates, 4, axis=1)
        state = state * tf.sigmoid(f) + tf.sigmoid(i) * tf.tanh(j)
        return t + 1, state, tf.sigmoid(o) * tf.tanh(state)

    zeros = tf.zeros([batch, width])
    _, _, hidden = tf.while_loop(
        lambda t, s, h: t < steps, body, [tf.constant(0), zeros, zeros])
    loss = tf.reduce_mean(tf.square(hidden - 0.1))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return [loss, step], {x: rng.normal(size=(steps, batch, width)).astype(np.float32)}


def chain(tf, count=1000):
    """Scalar additions: the worst case, kernels of 10 ns."""
    x = tf.placeholder(tf.float32, [])
    y = x
    for _ in range(count):
        y = tf.add(y, x)
    return [y.op], {x: np.float32(1)}


def training(build, batch):
    """A training step of one of cases.py's models on images -> (fetches, feeds)."""

    def make(tf):
        rng = np.random.default_rng(0)
        x, y = tf.placeholder(tf.float32, [batch, 784]), tf.placeholder(tf.int64, [batch])
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=build(tf, x))
        )
        step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        images = rng.random((batch, 784)).astype(np.float32)
        return [loss, step], {x: images, y: rng.integers(0, 10, batch)}

    return make


def dense(tf, x, *sizes):
    for size in sizes:
        w, b = cases.weights(tf, int(x.shape[1]), size)
        x = tf.matmul(x if size == sizes[0] else tf.nn.relu(x), w) + b
    return x


def lenet(tf, x):
    x = tf.reshape(x, [-1, 28, 28, 1])
    for shape in ((5, 5, 1, 32), (5, 5, 32, 64)):
        w, b = cases.weights(tf, *shape)
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), b))
        x = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    return dense(tf, tf.reshape(x, [-1, 7 * 7 * 64]), 1024, 10)


CASES = {
    "mlp": training(lambda tf, x: dense(tf, x, 100, 10), 100),
    "lenet": training(lenet, 64),
    "lstm": lstm,
    "chain": chain,
}


def best_of(calls, rounds):
    """{name: seconds}: the least time of each call, all of them in turn."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - start)
    return best


def measure_case(name, rounds, threads=1):
    """One case -> {"us": untraced, "kernels": n, "records": ratio, ...}."""
    import pyflow as tf
    from pyflow.session import runtime, trace_file

    with tf.Graph().as_default(), tempfile.TemporaryDirectory() as folder:
        tf.set_random_seed(0)
        fetches, feeds = CASES[name](tf)
        with tf.Session(threads=threads) as session:
            session.run(tf.global_variables_initializer())
            session.run(fetches, feeds)
            step, values = session._step_for(fetches, feeds)
            values = [f.convert(v) for f, v in zip(step.feeds, values)]
            plan, new, stats = step.compiled.plan, runtime.executor().Trace, {}
            plan.run(values, stats=stats)
            file = trace_file.TraceFile(os.path.join(folder, "t.json"), 1 << 14)
            to_file = file.run(plan.run)
            full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            best = best_of({
                "off": lambda: plan.run(values),
                "blocks": lambda: plan.run(values, trace=new(1)),
                "records": lambda: plan.run(values, trace=new(3)),
                "file": lambda: to_file(values),
                "run": lambda: session.run(fetches, feeds),
                "metadata": lambda: session.run(fetches, feeds, full, tf.RunMetadata()),
            }, rounds)
    found = {"us": best["off"] * 1e6, "kernels": stats["kernels"]}
    for kind in ("blocks", "records", "file"):
        found[kind] = best[kind] / best["off"]
    found["metadata"] = best["metadata"] / best["run"]
    found["ns_per_record"] = (best["records"] - best["off"]) / stats["kernels"] * 1e9
    return found


def measure(rounds=30):
    """All cases."""
    return {name: measure_case(name, rounds * (10 if name in ("mlp", "chain") else 1))
            for name in CASES}


def lines(found):
    """The figures as text."""
    yield "tracing, ratio to the untraced step: one thread"
    for name, f in found.items():
        real = [f["records"], f["file"]] + [f["metadata"]] * (name in ("mlp", "lenet"))
        missed = name != "chain" and max(real) > WANTED
        yield (f"{name:8s} {f['us']:9.0f} us, {f['kernels']:5d} kernels: records "
               f"{f['records']:.3f} ({f['ns_per_record']:.0f} ns a kernel), blocks "
               f"{f['blocks']:.3f}, file {f['file']:.3f}, metadata {f['metadata']:.2f}"
               + (f"  wanted {WANTED}: MISSED" if missed else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", help="write the figures there")
    args = parser.parse_args()
    found = measure(args.rounds)
    print("\n".join(lines(found)))
    if args.json:
        with open(args.json, "w") as f:
            json.dump(found, f, indent=1)


if __name__ == "__main__":
    main()
