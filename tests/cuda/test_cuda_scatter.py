"""Rows added to a variable by index on the GPU: NumPy's answer, repeated indices in their order."""
import numpy as np
import pytest

import pyflow as tf

AT = {"add": np.add.at, "sub": np.subtract.at, "update": lambda v, i, u: v.__setitem__(i, u)}


def scatter(op, start, index, updates, resource):
    with tf.Graph().as_default(), tf.device("/device:GPU:0"):
        v = tf.Variable(start, use_resource=resource)
        changed = getattr(tf, "scatter_" + op)(v, tf.constant(index), tf.constant(updates))
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            session.run(v.initializer)
            session.run(getattr(changed, "op", changed))
            return session.run(v)


@pytest.mark.parametrize("op", AT)
@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
def test_scatter_equals_numpy(gpu, op, resource):
    rng = np.random.default_rng(3)
    types = (np.float32, np.int32), (np.float64, np.int64), (np.int64, np.int32)
    for dtype, index_dtype in types:
        start = rng.integers(-9, 9, (11, 5)).astype(dtype)
        index = rng.integers(0, 11, (7, 9)).astype(index_dtype)      # most of them repeated
        updates = rng.integers(-9, 9, (7, 9, 5)).astype(dtype)
        want = start.copy()
        AT[op](want, index, updates)
        found = scatter(op, start, index, updates, resource)
        np.testing.assert_array_equal(found, want)


def test_one_number_for_all_rows(gpu):
    start = np.zeros((4, 3), np.float32)
    found = scatter("add", start, np.array([1, 1, 3]), np.float32(2), True)
    np.testing.assert_array_equal(found[:, 0], [0, 4, 0, 2])


def test_an_index_out_of_range_changes_nothing(gpu):
    start = np.ones((4, 3), np.float32)
    found = scatter("add", start, np.array([4, -1, 2]), np.ones((3, 3), np.float32), True)
    np.testing.assert_array_equal(found[:, 0], [1, 1, 2, 1])


def test_an_embeddings_gradient_is_summed_on_the_gpu(gpu):
    """The gradient of Gather is UnsortedSegmentSum."""
    rng = np.random.default_rng(5)
    table, ids = rng.standard_normal((300, 8)).astype(np.float32), rng.integers(0, 300, 500)
    scale = rng.standard_normal((500, 8)).astype(np.float32)
    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, [300, 8]), tf.placeholder(tf.float32, [500, 8])
        i = tf.placeholder(tf.int64, [500])
        with tf.device("/device:GPU:0"):
            total = tf.unsorted_segment_sum(y, i, 300)
            [gradient] = tf.gradients(tf.reduce_sum(tf.gather(x, i) * y), [x])
            gradient = tf.convert_to_tensor(gradient)
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            found = session.run([total, gradient], {x: table, y: scale, i: ids})
    want = np.zeros((300, 8), np.float32)
    np.add.at(want, ids, scale)
    for got in found:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
