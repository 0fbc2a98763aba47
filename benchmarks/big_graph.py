"""A training graph of 36,000 nodes, the size the TensorFlow paper gives for Inception: how long it
takes to build, to differentiate, and from Session() to the first result.

    python benchmarks/big_graph.py pyflow [--towers 40] [--plain]
    python benchmarks/big_graph.py tf

Towers of convolutions with batch normalization, concatenated as in Inception, RMSProp on top; every
tensor is tiny, so that what is measured is the system.  The first run fetches loss and training op:
it executes all the nodes they need.  Rewrites are on as by default; --plain turns them off.
Prints one JSON object; times in seconds (`_cpu`: of the processor, which other load leaves alone),
those of building per op, memory in MB of resident set.
"""

import argparse
import gc
import importlib
import json
import resource
import time

import numpy as np

SHAPE, CLASSES = [2, 4, 4, 3], 10


def convolution(tf, x, size, channels):
    """3x3 or 1x1 convolution, batch normalization over the batch, relu."""
    w = tf.Variable(tf.truncated_normal([size, size, int(x.shape[-1]), channels], stddev=0.1))
    x = tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME")
    mean, variance = tf.nn.moments(x, [0, 1, 2])
    beta, gamma = tf.Variable(tf.zeros([channels])), tf.Variable(tf.ones([channels]))
    return tf.nn.relu(tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3))


def tower(tf, x):
    """Four branches, as in an Inception module: 1x1; 1x1, 3x3; 1x1, 3x3, 3x3; pool, 1x1."""
    pooled = tf.nn.avg_pool(x, [1, 3, 3, 1], [1, 1, 1, 1], "SAME")
    branches = [
        convolution(tf, x, 1, 2),
        convolution(tf, convolution(tf, x, 1, 2), 3, 2),
        convolution(tf, convolution(tf, convolution(tf, x, 1, 2), 3, 2), 3, 2),
        convolution(tf, pooled, 1, 2),
    ]
    return tf.concat(branches, 3)


def forward(tf, towers):
    """(loss, {placeholder: value})."""
    x, labels = tf.placeholder(tf.float32, SHAPE), tf.placeholder(tf.int64, SHAPE[:1])
    y = convolution(tf, x, 3, 8)
    for _ in range(towers):
        y = tower(tf, y)
    w = tf.Variable(tf.truncated_normal([8, CLASSES], stddev=0.1))
    logits = tf.matmul(tf.reduce_mean(y, [1, 2]), w)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    values = np.random.default_rng(0).random(SHAPE).astype(np.float32)
    return loss, {x: values, labels: np.arange(SHAPE[0])}


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(tf, towers, plain):
    clock, cpu, found = time.perf_counter, time.process_time, {}
    tf.Session(graph=tf.Graph()).close()  # libraries and plugins are loaded
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(0)
        start, used = clock(), cpu()
        loss, feeds = forward(tf, towers)
        built, nodes = clock(), len(graph.get_operations())
        step = tf.train.RMSPropOptimizer(0.01).minimize(loss)
        init = tf.global_variables_initializer()
        ready, used, total = clock(), cpu() - used, len(graph.get_operations())
        config = tf.ConfigProto(
            intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
        )
        config.graph_options.rewrite_options.disable_meta_optimizer = plain
        if plain:
            config.graph_options.optimizer_options.opt_level = -1
        before, opened, worked = peak(), clock(), cpu()
        with tf.Session(config=config) as session:
            session.run(init)
            initialized = clock()
            first = session.run([loss, step], feeds)[0]
            done, worked = clock(), cpu() - worked
            session.run([loss, step], feeds)
            again = clock()
        found.update(
            nodes=total,
            build=(built - start) / nodes,
            gradients=(ready - built) / (total - nodes),
            all_ops=(ready - start) / total,
            all_ops_cpu=used / total,
            init=initialized - opened,
            first_run=done - initialized,
            session_to_first_result=done - opened,
            session_to_first_result_cpu=worked,
            second_run=again - done,
            peak_growth=peak() - before,
            loss=float(first),
        )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("system", choices=["pyflow", "tf"])
    parser.add_argument("--towers", type=int, default=40)
    parser.add_argument("--plain", action="store_true", help="without rewrites")
    asked = parser.parse_args()
    if asked.system == "tf":
        tf = importlib.import_module("tensorflow.compat.v1")
        tf.disable_v2_behavior()
    else:
        tf = importlib.import_module("pyflow")
    gc.collect()
    print(json.dumps(measure(tf, asked.towers, asked.plain)))


if __name__ == "__main__":
    main()
