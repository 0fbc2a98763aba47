"""What only a real GPU shows: work that overlaps, and memory that the driver gets back.

Collected only where the plugin is installed and sees a GPU (conftest.py says so in pytest's
header).
"""
import gc
import subprocess

import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor

MEGABYTE = 1 << 20


def spans(metadata, lane, names=None):
    """(start, end) in nanoseconds of the nodes on the lane, of those named if names are given."""
    return [(n.all_start_nanos, n.all_start_nanos + max(n.all_end_rel_nanos, n.op_end_rel_nanos))
            for d in metadata.step_stats.dev_stats if d.device.endswith(lane)
            for n in d.node_stats if names is None or n.node_name in names]


def shared(first, second):
    """Nanoseconds during which a span of each was open, at most over all pairs."""
    return max((min(a[1], b[1]) - max(a[0], b[0]) for a in first for b in second), default=0)


def test_kernels_copies_and_host_work_overlap(gpu):
    """A chain of matmuls on the GPU, a 256 MiB feed going there and a matmul on the CPU need
    nothing of one another: the trace shows each pair at the same time."""
    with tf.Graph().as_default():
        fed = tf.placeholder(tf.float32, [64 * MEGABYTE])
        with tf.device("/device:GPU:0"):
            weights = tf.Variable(tf.random_uniform([4096, 4096], -0.01, 0.01))
            h = weights
            for _ in range(40):
                h = tf.matmul(h, weights)
            chain, copied = tf.reduce_sum(h), tf.reduce_sum(fed)
        with tf.device("/device:CPU:0"):
            x = tf.Variable(tf.random_uniform([1500, 1500]))
            host = tf.reduce_sum(tf.matmul(x, x, name="host_work"))
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        metadata = tf.RunMetadata()
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            session.run(tf.global_variables_initializer())
            feed = {fed: np.ones([64 * MEGABYTE], np.float32)}
            fetches = [chain, copied, host]
            session.run(fetches, feed)
            session.run(fetches, feed, options=options, run_metadata=metadata)
    kernels = spans(metadata, "GPU:0/stream:compute")
    copies = spans(metadata, "GPU:0/stream:copy-in")
    on_host = spans(metadata, "CPU:0", {"host_work"})
    least = 100_000
    assert shared(kernels, copies) > least and shared(kernels, on_host) > least


def used_megabytes():
    text = subprocess.check_output(
        ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"],
        text=True)
    return int(text.split()[0])


def test_released_memory_goes_back_to_the_driver(gpu):
    with tf.Graph().as_default(), tf.device("/device:GPU:0"):
        total = tf.reduce_sum(tf.fill([1024, MEGABYTE // 4], tf.constant(1.0)))
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            session.run(tf.reduce_sum(tf.fill([4], tf.constant(1.0))))
            before = used_megabytes()
            assert session.run(total) == pytest.approx(256 * MEGABYTE, rel=1e-5)
            held = used_megabytes()
            gc.collect()
            _executor.release_memory()
            after = used_megabytes()
    assert held >= before + 900        # the pool keeps the gigabyte for the next step
    assert after <= held - 900
