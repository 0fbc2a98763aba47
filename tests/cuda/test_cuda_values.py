"""Every GPU kernel on the samples of its op's block, against the CPU kernel.

The inputs are fed, the node is pinned to /device:GPU:0 and must have run there; its twin is pinned
to the CPU.  Runs on a real GPU where there is one, else on the emulated plugin (conftest.py).
"""
import numpy as np
import pytest
from gpu_table import gpu_cases

import pyflow as tf
from pyflow.framework import dtypes

# Values that TF leaves open: reserve spaces of fused batch norm.
UNSPECIFIED = {"FusedBatchNormV3": 5, "FusedBatchNormGrad": 3, "FusedBatchNormGradV2": 3,
               "FusedBatchNormGradV3": 3}
RANDOM = {"RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal"}


def run_on(device, case):
    """The case's outputs, computed on `device`, or the error's type and message."""
    feeds = {}

    def make(array):
        tensor = tf.placeholder(dtypes.as_dtype(array.dtype), array.shape)
        feeds[tensor] = array
        return tensor

    with tf.Graph().as_default():
        with tf.device(device):
            node = case.node(make)
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=False)) as session:
            return session.run(list(node.outputs), feeds)


def check_case(case, device="/device:GPU:0"):
    expected, found = run_on("/device:CPU:0", case), run_on(device, case)
    tolerance = case.tolerance()
    for want, got in list(zip(expected, found))[: UNSPECIFIED.get(case.op.name)]:
        want, got = np.asarray(want), np.asarray(got)
        assert want.dtype == got.dtype and want.shape == got.shape
        if want.dtype.kind in "fcV":
            np.testing.assert_allclose(
                got.astype(np.complex128), want.astype(np.complex128), **tolerance)
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("case", gpu_cases(), ids=lambda c: c.id)
def test_kernel_equals_the_cpus(gpu, case):
    if case.op.name in RANDOM:
        pytest.skip("test_random.py compares these by seed")
    check_case(case)
