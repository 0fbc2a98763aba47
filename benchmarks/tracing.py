"""What tracing costs: the same step untraced and traced, in turn, the fastest tenth of many rounds.

    python benchmarks/tracing.py [--rounds 30]
    python benchmarks/tracing.py --metadata # RunMetadata alone, of steps of one and two threads,
                                            # with the other CPUs idle and busy
    python benchmarks/tracing.py --tf       # TensorFlow's FULL_TRACE, by a Python that has it

Columns, as ratios to the untraced step: `records` writes every kernel's record (FULL_TRACE without
its RunMetadata), `blocks` a record per block (SOFTWARE_TRACE), `file` is PYFLOW_TRACE with its file
written as the program runs, `metadata` session.run with FULL_TRACE and a RunMetadata, `waited` the
same in wall time.  The message of a RunMetadata is made when it is first read: `read` is what that
takes, in nanoseconds a kernel.  TensorFlow makes it before session.run returns.

Times are the process's CPU time, which a busy machine disturbs least, but for `waited`.

measure(rounds) -> {case: {"us": untraced, "kernels": n, "records": ratio, ...}}
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

import cases
import resultfile

WANTED = 1.05  # of models:
BLOCK = 0.05   # s
WANTED_OF = ("records", "file", "metadata", "waited")


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
    """{name: (seconds of CPU, seconds)} that a tenth of the rounds of each call stay below, all of
    them in turn.  The least of them all would do for absolute times; of a ratio near one it is
    luck."""
    times = {name: ([], []) for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            cpu, wall = time.process_time(), time.perf_counter()
            call()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            times[name][0].append(cpu)
            times[name][1].append(wall)
    return {name: (tenth(cpu), tenth(wall)) for name, (cpu, wall) in times.items()}


def tenth(times):
    return sorted(times)[len(times) // 10]


def measure_case(name, rounds, blocks=30, threads=1):
    """One case -> {"us": untraced, "kernels": n, "records": ratio, ...}."""
    import pyflow as tf
    from pyflow.session import contract, runtime, trace_file

    with tf.Graph().as_default(), tempfile.TemporaryDirectory() as folder:
        tf.set_random_seed(0)
        fetches, feeds = CASES[name](tf)
        with tf.Session(threads=threads) as session:
            session.run(tf.global_variables_initializer())
            session.run(fetches, feeds)
            step, values = session._step_for(fetches, feeds)
            values = [f.convert(v) for f, v in zip(step.feeds, values)]
            plan, new, stats = step.compiled.plan, runtime.executor().Trace, {}
            plan.run(values, contract.RunOptions(stats=stats))
            file = trace_file.TraceFile(os.path.join(folder, "t.json"), 1 << 14)
            to_file = file.run(plan.run)
            best = best_of({
                "off": lambda: plan.run(values),
                "blocks": lambda: plan.run(values, contract.RunOptions(trace=new(1))),
                "records": lambda: plan.run(values, contract.RunOptions(trace=new(3))),
                "file": lambda: to_file(values),
            }, rounds)
            best = {kind: cpu for kind, (cpu, _) in best.items()}
            filled = measure_metadata(tf, session, fetches, feeds, blocks)
    found = {"us": best["off"] * 1e6, "kernels": stats["kernels"]}
    for kind in ("blocks", "records", "file"):
        found[kind] = best[kind] / best["off"]
    found |= filled
    found["ns_per_record"] = (best["records"] - best["off"]) / stats["kernels"] * 1e9
    return found


def measure_metadata(tf, session, fetches, feeds, rounds):
    """{"metadata": ratio of CPU time, "waited": of wall time, "read": ns per kernel}."""
    full, reads, kernels = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), [], 0
    one = best_of({"run": lambda: session.run(fetches, feeds)}, 20)["run"][1]
    best = best_of({
        "run": block(lambda: session.run(fetches, feeds), one),
        "traced": block(lambda: session.run(fetches, feeds, full, tf.RunMetadata()), one),
    }, rounds)
    for _ in range(2 * rounds):
        metadata = tf.RunMetadata()
        session.run(fetches, feeds, full, metadata)
        start = time.process_time()
        stats = metadata.step_stats
        reads.append(time.process_time() - start)
        kernels = sum(len(d.node_stats) for d in stats.dev_stats)
    (cpu, wall), (traced_cpu, traced_wall) = best["run"], best["traced"]
    return {"metadata": traced_cpu / cpu, "waited": traced_wall / wall,
            "read": tenth(reads) / kernels * 1e9, "read_us": tenth(reads) * 1e6}


def block(call, seconds):
    """Calls of so many seconds, BLOCK together: what other threads of a process used is added to
    its CPU time every few milliseconds only."""
    count = max(1, int(BLOCK / seconds))

    def calls():
        for _ in range(count):
            call()
    return calls


@contextlib.contextmanager
def busy_cpus(wanted):
    """All CPUs but one of this process have other work, if wanted."""
    count = len(os.sched_getaffinity(0)) - 1 if wanted else 0
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def measure_everywhere(rounds=30):
    """{"CASE, N threads[, busy]": measure_metadata's figures}."""
    import pyflow as tf

    found = {}
    for name in CASES:
        for threads, busy in ((1, False), (2, False), (1, True), (2, True)):
            with tf.Graph().as_default(), busy_cpus(busy):
                tf.set_random_seed(0)
                fetches, feeds = CASES[name](tf)
                with tf.Session(threads=threads) as session:
                    session.run(tf.global_variables_initializer())
                    session.run(fetches, feeds)
                    found[f"{name}, {threads} threads" + ", busy" * busy] = measure_metadata(
                        tf, session, fetches, feeds, rounds)
    return found


def everywhere_lines(found):
    """The figures of measure_everywhere as text."""
    yield "FULL_TRACE with a RunMetadata, ratio to the untraced step; reading it apart"
    for name, f in found.items():
        yield (f"{name:24s} metadata {f['metadata']:.3f}, waited {f['waited']:.3f}, "
               f"read {f['read']:.0f} ns a kernel, {f['read_us']:.0f} us")


def measure_tf(rounds=30):
    """TensorFlow 1.x's session.run with FULL_TRACE and a RunMetadata -> {case: {"us", "kernels",
    "metadata", "waited"}}; `lenet` left out, whose ratio is one everywhere."""
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
            }, rounds_of(name, rounds) // 2)
            filled = tf.RunMetadata()
            session.run(fetches, feeds, full, filled)
            kernels = sum(len(d.node_stats) for d in filled.step_stats.dev_stats)
        (cpu, wall), (traced_cpu, traced_wall) = best["run"], best["metadata"]
        found[name] = {"us": cpu * 1e6, "kernels": kernels, "metadata": traced_cpu / cpu,
                       "waited": traced_wall / wall}
    return found


def tf_lines(found):
    """The figures of measure_tf as text."""
    for name, f in found.items():
        yield (f"{name:8s} {f['us']:9.0f} us, {f['kernels']:5d} kernels: "
               f"metadata {f['metadata']:.3f}, waited {f['waited']:.3f}")


def rounds_of(name, rounds):
    """More of short steps, fewer of long ones."""
    return rounds * {"mlp": 20, "lstm": 3, "chain": 10}.get(name, 1)


def measure(rounds=30):
    """All cases."""
    return {name: measure_case(name, rounds_of(name, rounds), rounds) for name in CASES}


def lines(found):
    """The figures as text."""
    yield "tracing, ratio to the untraced step: one thread"
    for name, f in found.items():
        missed = name != "chain" and max(f[k] for k in WANTED_OF) > WANTED
        yield (f"{name:8s} {f['us']:9.0f} us, {f['kernels']:5d} kernels: records "
               f"{f['records']:.3f} ({f['ns_per_record']:.0f} ns a kernel), blocks "
               f"{f['blocks']:.3f}, file {f['file']:.3f}, metadata {f['metadata']:.3f}, "
               f"waited {f['waited']:.3f}; read {f['read']:.0f} ns a kernel"
               + (f"  wanted {WANTED}: MISSED" if missed else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--tf", action="store_true", help="measure TensorFlow instead")
    parser.add_argument("--metadata", action="store_true", help="RunMetadata alone, everywhere")
    parser.add_argument("--json", help="write the figures there")
    args = parser.parse_args()
    run, text = ((measure_tf, tf_lines) if args.tf else
                 (measure_everywhere, everywhere_lines) if args.metadata else (measure, lines))
    found = run(args.rounds)
    print("\n".join(text(found)))
    if args.json:
        resultfile.write(args.json, found)


if __name__ == "__main__":
    main()
