"""What tracing costs: the same step untraced and traced, in turn, the fastest tenth of many rounds.

    python benchmarks/tracing.py [--rounds 30]
    python benchmarks/tracing.py --tf       # TensorFlow's FULL_TRACE, by a Python that has it

Columns, as ratios to the untraced step: `records` writes every kernel's record (FULL_TRACE without
its RunMetadata), `blocks` a record per block (SOFTWARE_TRACE), `file` is PYFLOW_TRACE with its file
written as the program runs, `metadata` session.run with FULL_TRACE and a RunMetadata filled in when
the step is over, `waited` how long its caller waits where a second CPU is spare, on which a thread
fills in most of it while a step of many kernels runs.

Times are the process's CPU time, which a busy machine disturbs least; `waited` is of wall time, and
is for a quiet machine of two CPUs.

measure(rounds) -> {case: {"us": untraced, "kernels": n, "records": ratio, ...}}
"""

import argparse
import json
import os
import tempfile
import time

import numpy as np

import cases

WANTED = 1.05  # `records`, `file` and `waited` of models


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


def best_of(calls, rounds, clock=time.process_time):
    """{name: seconds}: the time that a tenth of the rounds of each call stay below, all of them in
    turn.  The least of them all would do for absolute times; of a ratio near one it is luck."""
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            call()
            times[name].append(clock() - start)
    return {name: sorted(found)[len(found) // 10] for name, found in times.items()}


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
            best = best_of({
                "off": lambda: plan.run(values),
                "blocks": lambda: plan.run(values, trace=new(1)),
                "records": lambda: plan.run(values, trace=new(3)),
                "file": lambda: to_file(values),
            }, rounds)
            filled = measure_metadata(tf, session, fetches, feeds, rounds)
    found = {"us": best["off"] * 1e6, "kernels": stats["kernels"]}
    for kind in ("blocks", "records", "file"):
        found[kind] = best[kind] / best["off"]
    found |= filled
    found["ns_per_record"] = (best["records"] - best["off"]) / stats["kernels"] * 1e9
    return found


def measure_metadata(tf, session, fetches, feeds, rounds):
    """{"metadata": ratio of CPU time without the thread, "waited": of wall time with it}."""
    from pyflow.session import metadata, threads

    full, found, cpus = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), {}, metadata._cpus
    calls = {
        "run": lambda: session.run(fetches, feeds),
        "filled": lambda: session.run(fetches, feeds, full, tf.RunMetadata()),
    }
    try:
        for name, clock, metadata._cpus in (
                ("metadata", time.process_time, 1),
                ("waited", time.perf_counter, threads.available_threads())):
            best = best_of(calls, rounds, clock)
            found[name] = best["filled"] / best["run"]
    finally:
        metadata._cpus = cpus
    return found


def measure_tf(rounds=30):
    """TensorFlow 1.x's session.run with FULL_TRACE and a RunMetadata -> {case: {"us", "kernels",
    "metadata"}}; `lenet` left out, whose ratio is one everywhere."""
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    full, found = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), {}
    for name in ("mlp", "lstm", "chain"):
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            fetches, feeds = CASES[name](tf)
            session.run(tf.global_variables_initializer())
            best = best_of({
                "run": lambda: session.run(fetches, feeds),
                "metadata": lambda: session.run(fetches, feeds, full, tf.RunMetadata()),
            }, rounds * (10 if name == "mlp" else 1))
            filled = tf.RunMetadata()
            session.run(fetches, feeds, full, filled)
            kernels = sum(len(d.node_stats) for d in filled.step_stats.dev_stats)
        found[name] = {"us": best["run"] * 1e6, "kernels": kernels,
                       "metadata": best["metadata"] / best["run"]}
    return found


def tf_lines(found):
    """The figures of measure_tf as text."""
    for name, f in found.items():
        yield (f"{name:8s} {f['us']:9.0f} us, {f['kernels']:5d} kernels: "
               f"metadata {f['metadata']:.3f}")


def measure(rounds=30):
    """All cases."""
    return {name: measure_case(name, rounds * (10 if name in ("mlp", "chain") else 1))
            for name in CASES}


def lines(found):
    """The figures as text."""
    yield "tracing, ratio to the untraced step: one thread"
    for name, f in found.items():
        missed = name != "chain" and max(f["records"], f["file"], f["waited"]) > WANTED
        yield (f"{name:8s} {f['us']:9.0f} us, {f['kernels']:5d} kernels: records "
               f"{f['records']:.3f} ({f['ns_per_record']:.0f} ns a kernel), blocks "
               f"{f['blocks']:.3f}, file {f['file']:.3f}, metadata {f['metadata']:.3f}, "
               f"waited {f['waited']:.3f}"
               + (f"  wanted {WANTED}: MISSED" if missed else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--tf", action="store_true", help="measure TensorFlow instead")
    parser.add_argument("--json", help="write the figures there")
    args = parser.parse_args()
    found = (measure_tf if args.tf else measure)(args.rounds)
    print("\n".join((tf_lines if args.tf else lines)(found)))
    if args.json:
        with open(args.json, "w") as f:
            json.dump(found, f, indent=1)


if __name__ == "__main__":
    main()
