"""A GPU's memory: the session's share of it, the error at its end, and that it is given back."""
import gc

import pytest

import pyflow as tf
from pyflow import _executor

MEGABYTE = 1 << 20


@pytest.fixture
def limited(gpu):
    """A session's options that leave it about 64 MiB; afterwards there is no limit again."""
    memory = float(_executor.device_info("GPU", 0, "memory"))
    yield tf.GPUOptions(per_process_gpu_memory_fraction=64 * MEGABYTE / memory)
    _executor.device_limit("GPU", 0, 0)


def ones(megabytes, name):
    return tf.fill([megabytes, MEGABYTE // 4], tf.constant(1.0), name=name)


def test_the_memory_fraction_is_a_limit(limited):
    with tf.Graph().as_default(), tf.device("/device:GPU:0"):
        small, large = tf.reduce_sum(ones(16, "small")), tf.reduce_sum(ones(256, "large"))
        config = tf.ConfigProto(gpu_options=limited, allow_soft_placement=True)
        with tf.Session(config=config) as session:
            assert session.run(small) == 16 * MEGABYTE / 4
            limit = _executor.device_stats("GPU", 0)["limit"]
            assert limit == pytest.approx(64 * MEGABYTE, rel=0.01)
            with pytest.raises(tf.errors.ResourceExhaustedError) as e:
                session.run(large)
            assert session.run(small) == 16 * MEGABYTE / 4
    assert e.value.op.name == "large"
    assert "OOM when allocating tensor with shape [256,262144]" in str(e.value)
    assert "GPU:0" in str(e.value)


def test_a_closed_session_leaves_nothing_in_use(gpu):
    gc.collect()
    before = _executor.device_stats("GPU", 0)["in_use"]
    with tf.Graph().as_default(), tf.device("/device:GPU:0"):
        v = tf.Variable(tf.zeros([MEGABYTE]), use_resource=True)
        grown = tf.assign_add(v, tf.ones([MEGABYTE])).op
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            session.run(tf.global_variables_initializer())
            session.run(grown)
            assert _executor.device_stats("GPU", 0)["in_use"] >= before + 4 * MEGABYTE
    gc.collect()
    assert _executor.device_stats("GPU", 0)["in_use"] <= before
