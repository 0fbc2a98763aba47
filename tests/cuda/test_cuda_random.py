"""Random numbers of the GPU kernels equal the CPU's: the same counters, the same bits."""
import numpy as np
import pytest

import pyflow as tf

SIZES = [(1,), (5,), (4, 7), (1031,)]


def draw(device, op, shape, dtype, **kwargs):
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        with tf.device(device):
            node = op(shape, dtype=dtype, seed=11, **kwargs)
        with tf.Session() as session:
            return [session.run(node) for _ in range(2)]


def both(op, shape, dtype, **kwargs):
    return zip(draw("/device:CPU:0", op, shape, dtype, **kwargs),
               draw("/device:GPU:0", op, shape, dtype, **kwargs))


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16],
                         ids=lambda d: d.name)
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_uniform_numbers_are_equal(gpu, shape, dtype):
    for cpu, found in both(tf.random_uniform, shape, dtype):
        np.testing.assert_array_equal(found, cpu)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64], ids=lambda d: d.name)
def test_integers_are_equal(gpu, dtype):
    for cpu, found in both(tf.random_uniform, (1031,), dtype, minval=-5, maxval=93):
        np.testing.assert_array_equal(found, cpu)


@pytest.mark.parametrize("op", [tf.random_normal, tf.truncated_normal], ids=["normal", "truncated"])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64], ids=lambda d: d.name)
def test_normals_are_equal_to_rounding(gpu, op, dtype):
    for cpu, found in both(op, (1031,), dtype):
        np.testing.assert_allclose(found, cpu, rtol=1e-5, atol=1e-6)
