"""Synchronous training on two workers beside two that train alone.

    python benchmarks/sync_training.py [--rounds 5] [--batch 64] [--json rows.json]

A convnet for CIFAR's images of under a million parameters, two worker processes pinned to a core
each.  `alone`: each trains a model of its own; `together`: both compute gradients of one model,
whose parameter server is in the first worker's process (SyncReplicasOptimizer over two replicas).
The ratio is the images a second of the two together divided by the sum of the two alone, measured
in turn in one run (issue 19, 3.5: at least 0.85).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

import distributed  # noqa: E402

STEPS = 20


def convnet(tf, batch):
    """(loss, number of parameters)."""
    rng = np.random.default_rng(0)
    x = tf.constant(rng.standard_normal([batch, 32, 32, 3]).astype(np.float32))
    y = tf.constant(rng.integers(0, 10, batch).astype(np.int64))
    for k, (inner, outer) in enumerate(((3, 32), (32, 64), (64, 64))):
        w = tf.get_variable(f"w{k}", [5, 5, inner, outer])
        x = tf.nn.max_pool(tf.nn.relu(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME")), [1, 2, 2, 1],
                           [1, 2, 2, 1], "SAME")
    x = tf.reshape(x, [batch, 4 * 4 * 64])
    x = tf.nn.relu(tf.matmul(x, tf.get_variable("dense", [1024, 256])))
    logits = tf.matmul(x, tf.get_variable("out", [256, 10]))
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def work(task, cluster, batch):
    """A worker: answers each line "alone" or "together" with seconds for STEPS steps."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[task]})
    import pyflow as tf
    server = tf.train.Server(cluster, "worker", task)
    if task == 0:
        tf.train.Server(cluster, "ps", 0)
    config = tf.ConfigProto(intra_op_parallelism_threads=1)
    alone, together = tf.Graph(), tf.Graph()
    with alone.as_default():
        step = tf.train.GradientDescentOptimizer(0.01).minimize(convnet(tf, batch))
        session = tf.Session(config=config)
        session.run(tf.global_variables_initializer())
        single = session.make_callable(step)
    with together.as_default():
        with tf.device(tf.train.replica_device_setter(cluster=cluster,
                                                      worker_device=f"/job:worker/task:{task}")):
            count = tf.train.get_or_create_global_step()
            loss = convnet(tf, batch)
            sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.01), 2, 2)
            train = sync.minimize(loss, global_step=count)
        monitored = tf.train.MonitoredTrainingSession(
            server.target, is_chief=task == 0, config=config,
            hooks=[sync.make_session_run_hook(task == 0)])
    print("up", flush=True)
    for line in sys.stdin:
        run = single if line.strip() == "alone" else lambda: monitored.run(train)
        start = time.perf_counter()
        for _ in range(STEPS):
            run()
        print(json.dumps(time.perf_counter() - start), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--role", nargs=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.role:
        return work(int(args.role[0]), json.loads(args.role[1]), args.batch)
    ports = distributed.free_ports(3)
    cluster = {"ps": [f"localhost:{ports[0]}"], "worker": [f"localhost:{p}" for p in ports[1:]]}
    workers = [subprocess.Popen([sys.executable, "-P", __file__, "--role", str(k),
                                 json.dumps(cluster), "--batch", str(args.batch)], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE) for k in range(2)]
    for process in workers:
        process.stdout.readline()
    rates = {"alone": [], "together": []}
    for turn in range(args.rounds + 1):
        for kind, found in rates.items():
            for process in workers:
                print(kind, file=process.stdin, flush=True)
            seconds = [json.loads(process.stdout.readline()) for process in workers]
            if turn:                        # the first round compiles
                found.append(sum(STEPS * args.batch / s for s in seconds))
    for process in workers:
        process.kill()
        process.wait()
    found = {kind: statistics.median(values) for kind, values in rates.items()}
    ratio = statistics.median(t / a for t, a in zip(rates["together"], rates["alone"]))
    print(f"alone {found['alone']:.0f} images/s, together {found['together']:.0f}, "
          f"ratio {ratio:.3f}")
    if args.json:
        import resultfile
        resultfile.write(args.json, {"images per second": found, "ratio": ratio})


if __name__ == "__main__":
    main()
