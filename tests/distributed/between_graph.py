"""Programs between-graph, as TensorFlow 1.x has them: each worker builds its own graph.

What test_training.py runs on pyflow's servers, and record its answers with on TensorFlow:

    python tests/distributed/between_graph.py            # TensorFlow's answers, on compat.v1
"""
import json
import sys
import threading

import numpy as np

from ports import free_ports  # beside this file


def data(worker):
    rng = np.random.default_rng(worker)
    x = rng.standard_normal([8, 3]).astype(np.float32)
    return x, (x @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.25).astype(np.float32)


def model(tf, cluster, worker, optimizer, ids=None):
    """(train op, loss, variables, global step, optimizer) of a worker; ids: rows of an embedding
    that it adds."""
    with tf.device(tf.train.replica_device_setter(
            cluster=cluster, worker_device=f"/job:worker/task:{worker}")):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
        x, y = (tf.constant(part) for part in data(worker))
        shown = tf.matmul(x, w) + b
        if ids is not None:
            table = tf.get_variable("table", [6, 1], initializer=tf.ones_initializer())
            shown += tf.gather(table, ids)
        loss = tf.reduce_mean(tf.square(shown - y))
        made = optimizer(tf)
        train = made.minimize(loss, global_step=step)
    return train, loss, tf.global_variables(), step, made


def sync(tf, workers, total=None):
    return tf.train.SyncReplicasOptimizer(tf.train.MomentumOptimizer(0.05, 0.9), workers,
                                          total or workers)


def sparse_ids(worker):
    return [[0, 1, 2, 3, 4, 5, 0, 1], [2, 2, 3, 5, 5, 5, 1, 0]][worker]


def train_sync(tf, servers, cluster, steps, ids=lambda worker: None, delay=None):
    """{variable: its value} after so many synchronous steps of all workers, threads here."""
    found = {}

    def work(worker):
        with tf.Graph().as_default():
            train, _, variables, step, made = model(
                tf, cluster, worker, lambda tf: sync(tf, len(servers)), ids(worker))
            hooks = [made.make_session_run_hook(worker == 0, num_tokens=0)]
            with tf.train.MonitoredTrainingSession(
                    servers[worker].target, is_chief=worker == 0, hooks=hooks) as sess:
                for k in range(steps):
                    if delay is not None:
                        delay(worker, k)
                    sess.run(train)
                if worker == 0:
                    found.update({v.op.name: sess.run(v).tolist() for v in variables})
    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(servers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def local_cluster(tf, workers, ps):
    addresses = [f"localhost:{port}" for port in free_ports(workers + ps)]
    cluster = {"ps": addresses[:ps], "worker": addresses[ps:]}
    spec = tf.train.ClusterSpec(cluster)
    parameters = [tf.train.Server(spec, "ps", k) for k in range(ps)]
    return [tf.train.Server(spec, "worker", k) for k in range(workers)], parameters, cluster


if __name__ == "__main__":
    import tensorflow.compat.v1 as tensorflow
    tensorflow.disable_eager_execution()
    tensorflow.disable_resource_variables()
    tf_workers, tf_ps, tf_cluster = local_cluster(tensorflow, 2, 2)
    json.dump(train_sync(tensorflow, tf_workers, tf_cluster, 5), sys.stdout, indent=1)
    sys.stdout.flush()
    import os
    os._exit(0)
