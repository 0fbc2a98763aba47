"""Sizes beyond what a frame of a link, or a message, holds: they go in pieces, or an error names the
tensor and the session stays."""
import re

import numpy as np
import pytest

import processes
import pyflow as tf

GB = 1 << 30
TASKS = {"here": "/job:worker/task:0", "there": "/job:ps/task:0"}


@pytest.fixture(scope="module", params=["unix", "tcp"])
def cluster(request):
    with processes.Cluster({"ps": 1, "worker": 1}, here=("worker", 0), links=[request.param]) as made:
        yield made


def untouched(n):
    """Bytes of zeros that no memory is used for."""
    return np.zeros(n, np.uint8)


@pytest.mark.parametrize("alone", [True, False])
def test_a_feed_of_4_gb_to_a_part_elsewhere(cluster, alone):
    with tf.Graph().as_default():
        with tf.device(TASKS["there"]):
            x = tf.placeholder(tf.uint8, [None], name="x")
            n = tf.size(x)
        with tf.device(TASKS["there" if alone else "here"]):
            n = n + tf.constant(1)
        with tf.Session(cluster.server.target) as sess:
            for _ in range(2):
                with pytest.raises(tf.errors.ResourceExhaustedError, match=re.escape(
                        f"has {4 * GB} bytes: a task's arguments, or results, of one step are less "
                        "than 4 GB in all")) as error:
                    sess.run(n, {x: untouched(4 * GB)})
                assert error.value.op is x.op
                assert sess.run(n, {x: [1, 2]}) == 3


def test_a_feed_over_4_gb_of_a_client(cluster):
    """Its master is elsewhere, with all of the step."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.uint8, [None], name="x")
        n = tf.size(x) + 1
        with tf.Session(cluster.target("ps", 0)) as sess:
            with pytest.raises(tf.errors.ResourceExhaustedError, match=re.escape(
                    f"(x:0) has {4 * GB + 1} bytes: a tensor that goes over a link has 4 GB")):
                sess.run(n, {x: untouched(4 * GB + 1)})
            assert sess.run(n, {x: [1, 2]}) == 3


@pytest.mark.long
def test_a_fetch_of_4_gb_from_a_part_elsewhere(cluster):
    with tf.Graph().as_default():
        with tf.device(TASKS["there"]):
            n = tf.placeholder(tf.int32, [], name="n")
            y = tf.fill([n, 1 << 20], tf.constant(7, tf.uint8), name="y")
            small = tf.size(y)
        with tf.Session(cluster.server.target) as sess:
            with pytest.raises(tf.errors.ResourceExhaustedError, match=f"has {4 * GB} byte") as error:
                sess.run(y, {n: 4096})
            assert "'y'" in str(error.value), error.value
            assert sess.run(small, {n: 1}) == 1 << 20


@pytest.mark.long
@pytest.mark.parametrize("way", ["feed", "fetch", "edge"])
def test_values_between_2_and_4_gb(cluster, way):
    rows = 2560                         # of a megabyte each
    with tf.Graph().as_default():
        x = tf.placeholder(tf.uint8, [None], name="x")
        n = tf.placeholder(tf.int32, [], name="n")
        with tf.device(TASKS["there"]):
            made = tf.fill([n, 1 << 20], tf.constant(7, tf.uint8))
            fed = tf.reduce_max(x)
        with tf.device(TASKS["here"]):
            last = made[-1, -1] + tf.constant(0, tf.uint8)
        with tf.Session(cluster.server.target) as sess:
            if way == "feed":
                assert sess.run(fed, {x: np.full(rows << 20, 5, np.uint8)}) == 5
            elif way == "edge":
                assert sess.run(last, {n: rows}) == 7
            else:
                found = sess.run(made, {n: rows})
                assert found.shape == (rows, 1 << 20) and found[0, 0] == found[-1, -1] == 7
